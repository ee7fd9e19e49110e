//! `climits` (`blimits`): the limits of cb.yaml and their usage.

use super::cli::{self, Values, command, opt};
use super::exit::{Exit, Fail};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use super::visibility::UserSets;
use crate::language::tell;
use crate::record::view::LimitRow;
use crate::show::limit;
use crate::spool::view::ViewReader;
use crate::text::error::did_you_mean;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

const LIST: Listing<LimitRow> = Listing {
    command: "climits",
    records_key: "LIMITS",
    fields: limit::FIELDS,
    json_default: limit::JSON_DEFAULT,
    put_json: limit::put_json,
};

/// Options that select by consumer, and the kind of consumer.
const KINDS: [(&str, &str); 5] = [
    ("u", "user"),
    ("q", "queue"),
    ("m", "host"),
    ("P", "project"),
    ("app", "app"),
];

/// The options of `climits`.
pub(super) fn options() -> Command {
    let cmd = command("climits", "List limits and their usage")
        .arg(opt("n", "NAME", "The limit of this name"))
        .arg(opt(
            "u",
            "USER",
            "Limits that concern this user or user group",
        ))
        .arg(opt("q", "QUEUE", "Limits that concern this queue"))
        .arg(opt(
            "m",
            "HOST",
            "Limits that concern this host or host group",
        ))
        .arg(opt("P", "PROJECT", "Limits that concern this project"))
        .arg(opt("app", "APP", "Limits that concern this application"))
        .arg(super::past_view::option());
    table::options(cmd)
}

/// Runs `climits`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open_at("climits", &m).and_then(|source| {
        let (out, exit) = show(&m, &source)?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end("climits", answer)
}

pub(super) fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    let params = source.params()?;
    let limits = source.with_current_counts(ViewReader::counted_limits)?;
    source.banner(&params);
    let sets = UserSets::new(&params, &read::os_groups);
    let named = |kind: &str, name: &str, word: &str| {
        let holds =
            |(group, list): &(String, Vec<String>)| group == word && list.iter().any(|h| h == name);
        word == name
            || match kind {
                "user" => sets.contains_user(word, name),
                "host" => params.host_groups.iter().any(holds),
                _ => false,
            }
    };
    let wanted = |row: &&LimitRow| {
        m.last("n").is_none_or(|name| name == row.name)
            && KINDS.iter().all(|(option, kind)| {
                m.last(option).is_none_or(|name| {
                    limit::concerns_consumer(row, kind, &|word| named(kind, name, word))
                })
            })
    };
    let rows: Vec<&LimitRow> = limits.iter().filter(wanted).collect();
    let exit = match (m.last("n"), rows.is_empty()) {
        (Some(name), true) if !limits.iter().any(|row| row.name == name) => {
            let near = did_you_mean(name, limits.iter().map(|row| row.name.as_str()));
            let name = crate::text::width::escape(name);
            tell!("{name}: no counter of a limit with this name{near}");
            Exit::NotFound
        }
        (_, true) => {
            super::known_names::check(m, source)?;
            tell!("No matching limit found");
            Exit::Ok
        }
        _ => Exit::Ok,
    };
    Ok((LIST.render(m, &rows, limit::table)?, exit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_view::TestView;
    use crate::record::view::{self, Params};

    fn run_line(line: &[&str]) -> (String, Exit) {
        let bed = TestView::new();
        let row = |name: &str, consumer: &str| LimitRow {
            name: name.into(),
            consumer: consumer.into(),
            resource: "slots".into(),
            used: 3.0,
            limit: Some(8.0),
            each: false,
        };
        bed.put(
            view::LIMITS,
            &[row("a", ""), row("b", "user ann"), row("b", "user bob")],
        );
        bed.put(view::PARAMS, &[params()]);
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = cli::parse(options(), &read::split_json(&args)).unwrap();
        show(&m, &bed.source("climits", 10)).unwrap()
    }

    fn params() -> Params {
        let group = |name: &str, members: &str| {
            let members = members.split(' ').map(str::to_owned).collect();
            (name.to_owned(), members, String::new())
        };
        Params {
            view_all_jobs: true,
            user_groups: vec![group("lab", "team carl ~dora"), group("team", "cleo dora")],
            host_groups: vec![("fast".into(), vec!["h1".into()])],
            ..Params::default()
        }
    }

    #[test]
    fn of_a_limit_that_is_not_there_no_table_is_shown() {
        assert_eq!(run_line(&["-n", "limti"]), (String::new(), Exit::NotFound));
    }

    #[test]
    fn limits_of_a_group_concern_its_members() {
        let row = |consumer: &str| LimitRow {
            consumer: consumer.into(),
            ..LimitRow::default()
        };
        let bed = TestView::new();
        bed.put(view::PARAMS, &[params()]);
        let rows = ["users lab/", "users all ~team/", "hosts fast/"];
        bed.put(view::LIMITS, &rows.map(row));
        let ask = |option: &str, name: &str| {
            let line = ["-noheader", "-o", "consumer:", option, name];
            let m = cli::parse(options(), &line.map(OsString::from)).unwrap();
            let out = show(&m, &bed.source("climits", 10)).unwrap().0;
            let kinds = rows.map(|r| if out.contains(r) { '1' } else { '0' });
            kinds.iter().collect::<String>()
        };
        assert_eq!(ask("-u", "carl"), "111");
        assert_eq!(
            ask("-u", "cleo"),
            "101",
            "by a group of the group; taken out of the second"
        );
        assert_eq!(ask("-u", "dora"), "001");
        assert_eq!(ask("-u", "lab"), "111");
        assert_eq!(
            (ask("-m", "h1").as_str(), ask("-m", "h2").as_str()),
            ("111", "110")
        );
    }

    #[test]
    fn rows_by_name_and_consumer() {
        let format = ["-noheader", "-o", "name: used: limit:"];
        let with = |more: &[&'static str]| [&format[..], more].concat();
        assert_eq!(run_line(&format).0.lines().count(), 3);
        assert_eq!(run_line(&with(&["-n", "b", "-u", "ann"])).0, "b 3 8\n");
        assert_eq!(run_line(&with(&["-u", "ann"])).0, "a 3 8\nb 3 8\n");
        assert_eq!(run_line(&["-n", "zz"]).1, Exit::NotFound);
        assert_eq!(run_line(&["--json", "-u", "bob"]).0.lines().count(), 2);
    }

    #[test]
    fn golden_output() {
        use crate::client::read::test_cluster;
        let bed = test_cluster::cluster();
        test_cluster::compare("climits", &["", "-json"], |words| {
            let m = test_cluster::parse(options(), words);
            show(&m, &bed.source("climits", 10)).expect("it answers").0
        });
    }
}
