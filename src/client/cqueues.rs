//! `cqueues` (`bqueues`): the queues, their limits, states and slot counts.

use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Exit, Fail};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use crate::language::tell;
use crate::record::view::{Params, QueueRow};
use crate::show::{queue, share};
use crate::sys;
use crate::text::names::NameSet;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// If it is 1, only queues that the caller may use are listed.
const LIMIT_VIEW: &str = "CB_LIMIT_VIEW";

const LIST: Listing<QueueRow> = Listing {
    command: "cqueues",
    records_key: "QUEUES",
    fields: queue::FIELDS,
    json_default: queue::JSON_DEFAULT,
    put_json: queue::put_json,
};

/// The options of `cqueues`.
pub(super) fn options() -> Command {
    let cmd = command(
        "cqueues",
        "List queues with their state, limits and slots in use",
    )
    .arg(flag(
        "w",
        "Wide: full names, and the number of pending jobs",
    ))
    .arg(flag("l", "Long: every setting of each queue"))
    .arg(opt(
        "m",
        "HOST",
        "Queues that use this host or host group; all = any",
    ))
    .arg(opt(
        "u",
        "USER",
        "Queues that this user or user group may use; all = every user",
    ))
    .arg(flag(
        "r",
        "Share trees: shares, priority and use of each group and user",
    ))
    .arg(super::past_view::option())
    .arg(flag("e", "not implemented").hide(true))
    .arg(operands("names", "QUEUE", "Queues; default: all"));
    table::options(cmd)
}

/// Runs `cqueues`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open_at("cqueues", &m).and_then(|source| {
        let (out, exit) = show(&m, &source)?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end("cqueues", answer)
}

pub(super) fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    read::refuse_unbuilt(m, &["e"], "cqueues")?;
    let params = source.params()?;
    if let Some(user) = m.last("u") {
        super::known_names::check_user(user, source, &params)?;
    }
    let limited = is_limited(std::env::var(LIMIT_VIEW).ok().as_deref());
    let me = limited.then(|| sys::users::current_user().name);
    let user = m.last("u").or(me.as_deref());
    let mut queues = source.counted_queues()?;
    let (now, zone) = (source.ctx().now.0, jiff::tz::TimeZone::system());
    for q in &mut queues {
        q.window_closed = queue::window_closed(q, now, &zone);
    }
    let mut rows = Vec::new();
    let (named, exit) = read::rows_by_name("queue", &queues, |q| &q.name, &m.all("names"));
    for q in named {
        if on_hosts(m, source, &params, q)? && usable(user, &params, q) {
            rows.push(q);
        }
    }
    source.banner(&params);
    if m.has("r") {
        let shares = source.view.shares().map_err(|e| source.failed(e))?;
        let mut out = String::new();
        if m.all("names").is_empty() && !rows.iter().any(|q| queue::has_shares(q)) {
            tell!("cqueues: no queue has a share tree (policy: fairshare or drf)");
        }
        for q in rows {
            let tree: Vec<_> = shares.iter().filter(|s| s.queue == q.name).collect();
            match (m.has("json") || m.has("jsonl"), tree.is_empty()) {
                (true, _) => tree.iter().for_each(|s| share::put_json(&mut out, s)),
                (false, true) if queue::has_shares(q) => {
                    tell!("queue {}: no user has used its shares yet", q.name);
                }
                // Without queue names, only the existing trees are requested.
                (false, true) if m.all("names").is_empty() => {}
                (false, true) => tell!("queue {} has no share tree", q.name),
                (false, false) => share::put_tree(&mut out, &q.name, &tree),
            }
        }
        return Ok((out, exit));
    }
    if m.has("l") && !Listing::<QueueRow>::wants_table(m) {
        let mut out = String::new();
        rows.iter().for_each(|q| queue::put_long(&mut out, q));
        return Ok((out, exit));
    }
    if rows.is_empty() && exit == Exit::Ok {
        super::known_names::check(m, source)?;
        tell!("No matching queue found");
    }
    Ok((LIST.render(m, &rows, || queue::table(m.has("w")))?, exit))
}

fn on_hosts(m: &ArgMatches, source: &Source, params: &Params, q: &QueueRow) -> Result<bool, Fail> {
    match m.last("m") {
        None | Some("all") => Ok(true),
        Some(word) => {
            let hosts = source.host_names(&[word.to_owned()], params)?;
            Ok(q.hosts.iter().any(|h| hosts.contains(h)))
        }
    }
}

/// Whether the value of `LIMIT_VIEW` limits the list to the queues that the caller may use.
fn is_limited(value: Option<&str>) -> bool {
    value.is_some_and(|value| value.trim() == "1")
}

/// Whether this user may use the queue, according to its configured users; `None`: it is not asked.
fn usable(user: Option<&str>, params: &Params, q: &QueueRow) -> bool {
    let Some(user) = user else {
        return true;
    };
    if q.users.is_empty() || q.users == "all" {
        return true;
    }
    if user == "all" {
        return false;
    }
    let Ok(set) = NameSet::parse(&q.users) else {
        return false;
    };
    let in_group = |group: &str| read::members(group, params).iter().any(|name| name == user);
    set.contains(user, in_group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_view::TestView;
    use crate::record::view;

    fn bed() -> TestView {
        let bed = TestView::new();
        let queue = |name: &str, priority, users: &str, host: &str| QueueRow {
            name: name.into(),
            priority,
            users: users.into(),
            hosts: vec![host.into()],
            open: true,
            active: true,
            ..QueueRow::default()
        };
        bed.put(
            view::QUEUES,
            &[
                queue("low", 1, "all", "h1"),
                queue("high", 90, "alice bob", "h2"),
            ],
        );
        let hosts = ["h1", "h2"].map(|name| view::HostRow {
            name: name.into(),
            ..view::HostRow::default()
        });
        bed.put(view::HOSTS, &hosts);
        let users = ["alice", "bob", "eve"].map(|name| view::UserRow {
            name: name.into(),
            ..view::UserRow::default()
        });
        bed.put(view::USERS, &users);
        bed
    }

    fn ask(line: &[&str]) -> (String, Exit) {
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = cli::parse(options(), &read::split_json(&args)).unwrap();
        show(&m, &bed().source("cqueues", 10)).unwrap()
    }

    fn names(line: &[&str]) -> String {
        let mut line = line.to_vec();
        line.extend(["-noheader", "-o", "name:"]);
        ask(&line).0.replace('\n', " ")
    }

    #[test]
    fn the_variable_limits_the_list_to_what_the_caller_may_use() {
        let of = |value| is_limited(Some(value));
        assert_eq!(
            (is_limited(None), of("0"), of(""), of("1")),
            (false, false, false, true)
        );
        let bed = bed();
        let source = bed.source("cqueues", 10);
        let params = source.params().unwrap();
        let high = source
            .queues()
            .unwrap()
            .into_iter()
            .find(|q| q.name == "high");
        let high = high.unwrap();
        assert!(usable(Some("bob"), &params, &high) && usable(None, &params, &high));
        assert!(!usable(Some("eve"), &params, &high));
    }

    #[test]
    fn queues_come_by_priority() {
        assert_eq!(names(&[]), "high low ");
        assert_eq!(names(&["low"]), "low ");
        assert_eq!(ask(&["nix"]).1, Exit::NotFound);
        assert_eq!(names(&["nix", "low"]), "low ");
    }

    #[test]
    fn selectors() {
        assert_eq!(names(&["-u", "bob"]), "high low ");
        assert_eq!(names(&["-u", "eve"]), "low ");
        assert_eq!(names(&["-m", "h2"]), "high ");
        assert_eq!(names(&["-m", "all"]), "high low ");
    }

    #[test]
    fn all_forms() {
        assert!(ask(&["-l"]).0.contains("QUEUE: high\n"));
        assert_eq!(ask(&["--json"]).0.lines().count(), 2);
        let v: serde_json::Value = serde_json::from_str(&ask(&["-json"]).0).unwrap();
        assert_eq!(v["QUEUES"], 2);
        let known = "QUEUE_NAME PRIO STATUS MAX JL_U JL_P JL_H NJOBS PEND RUN SUSP delimiter='|'";
        assert_eq!(
            ask(&["-noheader", "-o", known, "high"]).0,
            "high|90|Open:Active|-|-|-|-|0|0|0|0\n"
        );
    }

    #[test]
    fn golden_output() {
        use crate::client::read::test_cluster;
        let bed = test_cluster::cluster();
        test_cluster::compare(
            "cqueues",
            &[
                "",
                "-w",
                "-l normal",
                "-l night",
                "-r",
                "-o 'queue_name status njobs delimiter=,'",
                "-json night",
            ],
            |words| {
                let m = test_cluster::parse(options(), words);
                show(&m, &bed.source("cqueues", 10)).expect("it answers").0
            },
        );
    }
}
