//! `squeue`: the jobs that have not ended, in Slurm's columns.

use super::command_line::{
    self, RefusedOption, both, comma_words, job_words, refusals, refuse, users_named, value_words,
    without_h_flag,
};
use super::fields::{self, Ctx, FIELDS};
use super::format::{self, FormatPart};
use super::jobs::{self, ItemScope, SlurmItem};
use super::states::{State, states_of};
use crate::client::cli::{Values, flag, operands, opt, optional_value};
use crate::client::exit::{Exit, Fail, Result};
use crate::client::read::{self, Source};
use crate::show::job_select::Users;
use crate::spool::view::JobSet;
use crate::sys;
use crate::text::slurm::{SlurmJobId, host_words};
use clap::{ArgMatches, Command};
use jiff::tz::TimeZone;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::OsString;

const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
const SORT: &str = "P,t,-p";

const REFUSED: &[RefusedOption] = &[
    ("steps", 's', false, "there are no job steps"),
    ("clusters", 'M', true, "there is one cluster"),
    ("iterate", 'i', true, "watch repeats a command"),
    (
        "reservation",
        'R',
        true,
        "there are no reservations by name",
    ),
    ("licenses", 'L', true, "climits lists resources"),
    ("qos", 'q', true, "there are no QOS"),
    ("yaml", ' ', false, "--json gives every field"),
    ("federation", ' ', false, "there is one cluster"),
    ("sibling", ' ', false, "there is one cluster"),
    (
        "only-job-state",
        ' ',
        false,
        "leave it out: states are always current",
    ),
];

fn options() -> Command {
    let cmd = without_h_flag(
        "squeue",
        "List jobs that have not ended, as Slurm's command does",
    )
    .arg(both(flag("noheader", "No header line"), 'h'))
    .arg(both(
        opt("user", "USERS", "Jobs of these users, separated by commas"),
        'u',
    ))
    .arg(flag("me", "Your own jobs"))
    .arg(both(
        optional_value("jobs", "IDS", "These jobs and elements: 12,13_4"),
        'j',
    ))
    .arg(both(
        opt("partition", "QUEUES", "Jobs in these queues"),
        'p',
    ))
    .arg(both(
        opt(
            "states",
            "STATES",
            "Jobs in these states (PD,R,S,CD,F,CA,TO ...), or all",
        ),
        't',
    ))
    .arg(both(opt("name", "NAMES", "Jobs of these names"), 'n'))
    .arg(both(
        opt("account", "PROJECTS", "Jobs of these projects"),
        'A',
    ))
    .arg(both(opt("nodelist", "HOSTS", "Jobs on these hosts"), 'w'))
    .arg(both(
        flag("array", "A line for each element of an array"),
        'r',
    ))
    .arg(both(flag("long", "More columns"), 'l'))
    .arg(both(
        opt("format", "FORMAT", "Columns: %[.][WIDTH]LETTER ..."),
        'o',
    ))
    .arg(both(
        opt("Format", "NAMES", "Columns: NAME[:[.]WIDTH],..."),
        'O',
    ))
    .arg(both(
        opt("sort", "LETTERS", "Order: letters of -o, with - descending"),
        'S',
    ))
    .arg(flag("start", "Pending jobs with their expected start"))
    .arg(flag("json", "The jobs as one JSON object"))
    .arg(both(
        flag("all", "No effect: all queues are listed").hide(true),
        'a',
    ))
    .arg(both(flag("verbose", "No effect").hide(true), 'v'))
    .arg(flag("hide", "No effect: no queue is hidden").hide(true))
    .arg(flag("local", "No effect: there is one cluster").hide(true))
    .arg(flag("array-unique", "A line for each element of an array").hide(true))
    .arg(both(flag("priority", "No effect").hide(true), 'P'))
    .arg(operands("ids", "ID", "").hide(true));
    refusals(cmd, REFUSED)
}

/// Runs `squeue`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    command_line::run("squeue", options(), args, |m, source| {
        let at = (sys::clock::wall_ms(), TimeZone::system());
        let text = show(m, source, at)?;
        read::put(&text)?;
        Ok(Exit::Ok)
    })
}

/// The selection of jobs.
struct JobFilter {
    ids: Vec<SlurmJobId>,
    users: Users,
    states: Vec<State>,
    queues: Vec<String>,
    names: Vec<String>,
    projects: Vec<String>,
    hosts: Option<HashSet<String>>,
}

impl JobFilter {
    fn of(m: &ArgMatches, source: &Source) -> Result<JobFilter> {
        let params = source.params()?;
        let named = users_named(m, source, &params).unwrap_or(Users::All);
        let states = value_words(m, "states");
        let hosts = value_words(m, "nodelist");
        let hosts = match hosts.is_empty() {
            true => None,
            false => {
                let list = crate::text::hostlist::expand(&hosts.join(" "));
                let list = list.map_err(|e| Fail::usage(format!("--nodelist: {}", e.message)))?;
                Some(list.into_iter().collect())
            }
        };
        let mut list = value_words(m, "jobs");
        // The value of -j is optional, so ids may appear as operands.
        let operands = host_words(&m.all("ids").join(" "));
        list.extend(operands.split_whitespace().map(str::to_owned));
        Ok(JobFilter {
            ids: job_words(&list)?,
            users: source.allowed(&params, named),
            states: match (states.is_empty(), m.has("start")) {
                (true, true) => vec![State::Pending],
                (true, false) => vec![State::Pending, State::Running, State::Suspended],
                (false, _) => states_of(&states)?,
            },
            queues: value_words(m, "partition"),
            names: comma_words(m, "name"),
            projects: value_words(m, "account"),
            hosts,
        })
    }

    fn has(&self, item: &SlurmItem) -> bool {
        let one_of =
            |list: &[String], text: &str| list.is_empty() || list.iter().any(|word| word == text);
        let spec = &item.spec;
        let on = |set: &HashSet<String>| item.row.hosts.iter().any(|host| set.contains(&host.0));
        self.states.contains(&item.state())
            && self.users.has(spec.uid, &spec.user, &spec.queue)
            && (self.ids.is_empty() || self.ids.iter().any(|word| item.is_named(word)))
            && one_of(&self.queues, &spec.queue)
            && one_of(&self.names, &item.name)
            && one_of(&self.projects, &spec.project)
            && self.hosts.as_ref().is_none_or(on)
    }
}

fn show(m: &ArgMatches, source: &Source, (now, zone): (i64, TimeZone)) -> Result<String> {
    refuse(m, REFUSED)?;
    let pieces = format_parts(m)?;
    let order = order(m)?;
    let filter = JobFilter::of(m, source)?;
    let want = JobSet {
        ids: filter.ids.iter().map(|word| (word.id, word.id)).collect(),
        finished: !filter.ids.is_empty() || filter.states.iter().any(|state| state.is_final()),
        ..JobSet::default()
    };
    let known = jobs::items(source, &want)?;
    if let [one] = filter.ids.as_slice()
        && known.is_empty()
    {
        let id = one.id;
        let text = format!("Invalid job id specified\nhint: job {id} is no longer known");
        return Err(Fail::not_found(text));
    }
    let mut items = Vec::new();
    let unfold = m.has("array") || m.has("array-unique");
    for item in known {
        match unfold || is_part(&filter, &item) {
            true => item.push_each(&mut items),
            false => items.push(item),
        }
    }
    items.retain(|item| filter.has(item));
    let ctx = Ctx {
        now,
        zone,
        estimates: estimates(source),
    };
    let items = sorted(items, &order, &ctx);
    if m.has("json") {
        return Ok(json(&items, &ctx));
    }
    let mut out = String::new();
    if m.has("long") {
        let t = jiff::Timestamp::from_millisecond(now).unwrap_or_default();
        let t = t.to_zoned(ctx.zone.clone());
        out.push_str(&t.strftime("%a %b %d %H:%M:%S %Y\n").to_string());
    }
    if !m.has("noheader") {
        let mut header = |n: usize| FIELDS[n].header.to_owned();
        out.push_str(&format::line(&pieces, &mut header));
    }
    for item in &items {
        let mut value = |n: usize| (FIELDS[n].get)(item, &ctx);
        out.push_str(&format::line(&pieces, &mut value));
    }
    Ok(out)
}

/// Whether only some of the waiting elements are requested.
fn is_part(filter: &JobFilter, item: &SlurmItem) -> bool {
    let mut of_it = filter
        .ids
        .iter()
        .filter(|word| word.id == item.id())
        .peekable();
    matches!(item.part, ItemScope::Waiting(_))
        && of_it.peek().is_some()
        && of_it.all(|word| word.elements.is_some())
}

fn estimates(source: &Source) -> std::collections::HashMap<crate::model::JobKey, i64> {
    let rows = source.view.estimates().unwrap_or_default();
    rows.into_iter()
        .filter_map(|row| Some((row.j, row.at?)))
        .collect()
}

fn format_parts(m: &ArgMatches) -> Result<Vec<FormatPart>> {
    if let Some(text) = m.last("Format") {
        return format::parse_named_fields(text, &fields::by_name).map_err(Fail::usage);
    }
    let from_env = std::env::var("SQUEUE_FORMAT")
        .ok()
        .filter(|f| !f.is_empty());
    let text = match m.last("format") {
        Some(text) => text,
        None if m.has("start") => START,
        None if m.has("long") => LONG,
        None => from_env.as_deref().unwrap_or(DEFAULT),
    };
    format::percent(text, &fields::by_letter).map_err(Fail::usage)
}

/// Fields to sort by; true: descending.
fn order(m: &ArgMatches) -> Result<Vec<(usize, bool)>> {
    let text = host_words(m.last("sort").unwrap_or(SORT));
    let mut keys = Vec::new();
    for word in text.split_whitespace() {
        let back = word.starts_with('-');
        for letter in word.trim_start_matches(['-', '+']).chars() {
            let field = fields::by_letter(letter).ok_or_else(|| {
                let letter = crate::text::width::escape(word);
                Fail::usage(format!("Invalid sort specification: {letter}"))
            })?;
            keys.push((field, back));
        }
    }
    Ok(keys)
}

/// A value to sort by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    State(State),
    Number(Vec<(String, u64)>),
    Text(String),
}

/// Sorts items, equal ones by id. Each value is computed once.
fn sorted(items: Vec<SlurmItem>, keys: &[(usize, bool)], ctx: &Ctx) -> Vec<SlurmItem> {
    let rank = |item: &SlurmItem, n: usize| {
        let field = &FIELDS[n];
        match field.letter {
            't' | 'T' => Rank::State(item.state()),
            _ if field.number => Rank::Number(read::natural(&(field.get)(item, ctx))),
            _ => Rank::Text((field.get)(item, ctx)),
        }
    };
    let ranks = |item: &SlurmItem| keys.iter().map(|(n, _)| rank(item, *n)).collect();
    let mut all: Vec<(Vec<Rank>, SlurmItem)> =
        items.into_iter().map(|item| (ranks(&item), item)).collect();
    let place = |item: &SlurmItem| match &item.part {
        ItemScope::Job => 0,
        ItemScope::Element(idx) => *idx,
        ItemScope::Waiting(set) => set.first().unwrap_or(0),
    };
    all.sort_by(|(a, one), (b, other)| {
        for ((a, b), (_, back)) in a.iter().zip(b).zip(keys) {
            let found = if *back { b.cmp(a) } else { a.cmp(b) };
            if found != Ordering::Equal {
                return found;
            }
        }
        (one.id(), place(one)).cmp(&(other.id(), place(other)))
    });
    all.into_iter().map(|(_, item)| item).collect()
}

/// The fields that have the same names in Slurm's JSON.
fn json(items: &[SlurmItem], ctx: &Ctx) -> String {
    let number = |n: Option<u64>| {
        let (set, number) = (n.is_some(), n.unwrap_or(0));
        serde_json::json!({"set": set, "infinite": false, "number": number})
    };
    let seconds = |ms: i64| number(u64::try_from(ms / 1000).ok().filter(|s| *s > 0));
    let jobs: Vec<serde_json::Value> = items
        .iter()
        .map(|item| {
            let (row, spec) = (&item.row, &item.spec);
            let array = item.part != ItemScope::Job;
            let task = match &item.part {
                ItemScope::Element(idx) => Some(u64::from(spec.submitters_index(*idx))),
                _ => None,
            };
            let waiting = match &item.part {
                ItemScope::Waiting(_) => item.index().unwrap_or_default(),
                _ => String::new(),
            };
            serde_json::json!({
                "job_id": item.id(),
                "array_job_id": number(array.then(|| u64::from(item.id()))),
                "array_task_id": number(task),
                "array_task_string": waiting.trim_matches(['[', ']']),
                "name": &*item.name,
                "user_name": spec.user,
                "user_id": spec.uid,
                "account": spec.project,
                "partition": spec.queue,
                "job_state": [item.state().word()],
                "state_reason": item.reason(),
                "nodes": item.node_list(),
                "node_count": number(Some(item.nodes() as u64)),
                "cpus": number(Some(u64::from(item.slots()))),
                "time_limit": number(spec.limits.run_s.map(|s| s.div_ceil(60))),
                "submit_time": seconds(row.submit),
                "start_time": seconds(row.start),
                "end_time": seconds(row.end),
                "run_time": item.run_s(ctx.now),
                "dependency": spec.depend,
                "comment": spec.description,
                "command": &*item.command,
                "current_working_directory": spec.cwd,
                "standard_output": spec.stdout,
                "standard_error": spec.stderr,
            })
        })
        .collect();
    let all = serde_json::json!({"jobs": jobs, "warnings": [], "errors": []});
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;
    use crate::client::read::test_view::NOW;

    #[test]
    fn golden_output() {
        let bed = test_cluster::cluster();
        let lines = [
            "",
            "-h -o '%i %t %R' -u u10",
            "-r -o '%i|%P|%j|%u|%T|%M|%l|%L|%D|%C|%a|%p|%Q'",
            "-l -j 6",
            "-t all -h -o '%i %T %K %F %A %r %N %B %S %e %V'",
            "-j 4_1,4_4 -t all -h -o %i",
            "-O JobArrayID:8,State:.10,UserName,StdOut:6,NumCPUs:3 -t R",
            "-S -i -h -o %i",
            "-n job2,job3 -A weather -w h1 -h -o '%i %Z %o %E %k'",
            "--start -h",
            "--json -j 6",
        ];
        test_cluster::compare("squeue", &lines, |words| {
            let m = command_line::parsed(options(), words);
            show(&m, &bed.source("squeue", 10), (NOW, TimeZone::UTC)).unwrap()
        });
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let bed = test_cluster::cluster();
        let fail = |words: &[&str]| {
            let m = command_line::parsed(options(), words);
            show(&m, &bed.source("squeue", 10), (NOW, TimeZone::UTC))
                .unwrap_err()
                .text
        };
        assert!(fail(&["-j", "99"]).starts_with("Invalid job id specified"));
        assert!(fail(&["-j", "x"]).contains("Invalid job id"));
        assert!(fail(&["-t", "odd"]).contains("Invalid job state"));
        assert!(fail(&["-o", "%?"]).contains("%?"));
        assert!(fail(&["-S", "?"]).contains("sort"));
        assert!(fail(&["-q", "x"]).contains("--qos is not available"));
    }
}
