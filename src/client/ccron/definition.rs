//! Definitions of cron jobs as users write them: YAML or JSON, one or several in a file.
//!
//! Owns the names of the keys. Refuses everything unknown, with its position. Reads
//! no file: the caller provides job specifications from separate files.

use crate::client::definition_file::{Reader, entries, failure_at, tree};
use crate::client::exit::{Fail, Result};
use crate::client::job_description::{self, Description};
use crate::record::cron::{CronDef, HISTORY_DEFAULT, Overlap, PACK_MAX};
use crate::text::cron::{Schedule, Zone};
use crate::text::yaml::{Entry, Node, Value};

/// Maximum number of definitions in a file.
const DEFINITIONS_MAX: usize = 200;

const KEYS: [&str; 14] = [
    "name",
    "schedule",
    "timezone",
    "job",
    "jobspec",
    "user",
    "enabled",
    "maxruntime",
    "startdeadline",
    "overlap",
    "overlappolicy",
    "maxconcurrentruns",
    "maxfails",
    "retries",
];
const HISTORY: &str = "historylimit";

/// A definition whose job specification is not parsed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RawDefinition {
    pub def: CronDef,
    pub user: String,
    pub job: Description,
    /// The other jobs of a pack.
    pub more: Vec<Description>,
}

impl RawDefinition {
    /// The jobs that each run submits.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Description> {
        std::iter::once(&self.job).chain(&self.more)
    }
}

/// Reads a job specification from a separate file.
pub(super) type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>>;

/// Reads a file. `location`: its name; `zone`: the time zone of definitions that name none.
///
/// # Errors
/// Names the first error by line and column.
pub(super) fn read(
    bytes: &[u8],
    location: &str,
    zone: &str,
    file: ReadFile<'_>,
) -> Result<Vec<RawDefinition>> {
    let root = tree(bytes, location)?;
    let nodes = match root.value {
        Value::List(nodes) => nodes,
        _ => vec![root],
    };
    if nodes.is_empty() || nodes.len() > DEFINITIONS_MAX {
        return Err(Fail::usage(format!(
            "{location}: {} definitions, but a file may have 1 to {DEFINITIONS_MAX}",
            nodes.len()
        )));
    }
    let read = |node: &Node| definition(node, (location, zone), file);
    nodes.iter().map(read).collect()
}

fn definition(
    node: &Node,
    (location, zone): (&str, &str),
    file: ReadFile<'_>,
) -> Result<RawDefinition> {
    let r = Reader { place: location };
    let mut out = RawDefinition {
        def: CronDef {
            zone: zone.to_owned(),
            history: HISTORY_DEFAULT,
            ..CronDef::default()
        },
        ..RawDefinition::default()
    };
    let of = |key: &str| match key {
        "jobspec" => "job".to_owned(),
        "overlappolicy" => "overlap".to_owned(),
        other => other.to_owned(),
    };
    let (mut job, mut named) = (None, Vec::new());
    for (key, entry) in entries(node, "a cron job", r, of)? {
        let key = key.as_str();
        match key {
            "job" => job = Some(entry),
            "user" => out.user = r.text(entry)?.to_owned(),
            "maxruntime" => named.push(("W".to_owned(), r.text(entry)?.to_owned())),
            "retries" => named.push(("retries".to_owned(), r.text(entry)?.to_owned())),
            "name" | "schedule" | "timezone" | "enabled" => {
                read_name_and_schedule(&mut out.def, key, entry, r)?
            }
            _ => rule(&mut out.def, key, entry, r)?,
        }
    }
    for (key, missing) in [
        ("name", out.def.name.is_empty()),
        ("schedule", out.def.schedule.is_empty()),
        ("job", job.is_none()),
    ] {
        if missing {
            return Err(r.invalid(node.pos, format!("{key} is missing in this cron job")));
        }
    }
    if let Some(entry) = job {
        let mut jobs = jobs_of(entry, location, file)?.into_iter();
        out.job = jobs.next().unwrap_or_default();
        out.more = jobs.collect();
    }
    for job in std::iter::once(&mut out.job).chain(&mut out.more) {
        job.named_options.extend(named.iter().cloned());
    }
    Ok(out)
}

/// Reads the name, and when the cron job falls due.
fn read_name_and_schedule(
    def: &mut CronDef,
    key: &str,
    entry: &Entry,
    r: Reader<'_>,
) -> Result<()> {
    let (text, pos) = (r.text(entry)?, entry.value.pos);
    match key {
        "name" => def.name = text.to_owned(),
        "schedule" => {
            let schedule = Schedule::parse(text).map_err(|e| {
                let caret = e.caret(text);
                failure_at(r.place, pos, &e.message, &format!("\n{}", caret.trim_end()))
            })?;
            def.schedule = schedule.to_string();
        }
        "timezone" => {
            Zone::named(text).map_err(|e| r.invalid(pos, e))?;
            def.zone = text.to_owned();
        }
        _ => def.disabled = !r.read_flag(entry)?,
    }
    Ok(())
}

/// Reads the rules for its runs.
fn rule(def: &mut CronDef, key: &str, entry: &Entry, r: Reader<'_>) -> Result<()> {
    match key {
        "startdeadline" => def.deadline_s = Some(r.number(entry)? * 60),
        "overlap" => {
            let word = r.text(entry)?.to_ascii_lowercase();
            let all = [Overlap::Skip, Overlap::Run, Overlap::Replace];
            let found = all.into_iter().find(|o| o.word() == word);
            let wrong = || r.invalid(entry.value.pos, "overlap: write skip, run or replace");
            def.overlap = found.ok_or_else(wrong)?;
        }
        "maxconcurrentruns" => def.max_runs = r.small(entry)?,
        "maxfails" => def.max_fails = r.small(entry)?,
        HISTORY => def.history = r.small(entry)?,
        _ => return Err(r.unknown(entry, KEYS.into_iter().chain([HISTORY]))),
    }
    Ok(())
}

/// The job: a map, a list of maps (a pack), or the name of a file that contains either.
fn jobs_of(entry: &Entry, location: &str, file: ReadFile<'_>) -> Result<Vec<Description>> {
    match &entry.value.value {
        Value::Text { text, .. } => jobs_in(&tree(&file(text)?, text)?, text),
        _ => jobs_in(&entry.value, location),
    }
}

fn jobs_in(node: &Node, location: &str) -> Result<Vec<Description>> {
    let Value::List(nodes) = &node.value else {
        return Ok(vec![job_description::read(node, location)?]);
    };
    if nodes.is_empty() || nodes.len() > PACK_MAX {
        let text = format!("job: a pack has 1 to {PACK_MAX} jobs, not {}", nodes.len());
        return Err(Reader { place: location }.invalid(node.pos, text));
    }
    let read = |node: &Node| job_description::read(node, location);
    nodes.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<RawDefinition>> {
        let file = |name: &str| match name {
            "j.yaml" => Ok(b"{command: from a file}".to_vec()),
            _ => Err(Fail::usage("no such file")),
        };
        read(text.as_bytes(), "c.yaml", "Europe/Berlin", &file)
    }

    #[test]
    fn yaml_json_and_both_spellings_mean_the_same() {
        let yaml = "\
name: nightly
schedule: '30 2 * * mon-fri'
time_zone: UTC
overlap: replace
start_deadline: 5
max_fails: 3
retries: 2
max_run_time: 1:30
history_limit: 4
enabled: no
job: {command: ./run a b, queue: night, options: -n 4}
";
        let json = r#"[{"Name": "nightly", "Schedule": " 30 2  * * mon-fri", "TimeZone": "UTC",
 "OverlapPolicy": "Replace", "StartDeadline": 5, "MaxFails": 3, "Retries": 2,
 "MaxRunTime": "1:30", "HistoryLimit": 4, "Enabled": false,
 "JobSpec": {"Command": "./run a b", "Queue": "night", "Options": "-n 4"}}]"#;
        let (mut a, mut b) = (read_text(yaml).unwrap(), read_text(json).unwrap());
        (a[0].job.location, b[0].job.location) = (String::new(), String::new());
        let sort = |w: &mut Vec<RawDefinition>| w[0].job.named_options.sort();
        sort(&mut a);
        sort(&mut b);
        assert_eq!(a, b);
        let def = &a[0].def;
        assert_eq!(
            (def.deadline_s, def.max_fails, def.history),
            (Some(300), 3, 4)
        );
        assert_eq!((def.overlap, def.disabled), (Overlap::Replace, true));
        assert_eq!(def.schedule, "30 2 * * mon-fri");
    }

    #[test]
    fn several_in_a_file_and_a_job_in_its_own() {
        let two = "\
- {name: a, schedule: '@daily', job: {script: ./x}}
- {name: b, schedule: '@hourly', job: j.yaml}
";
        let definitions = read_text(two).unwrap();
        assert_eq!(definitions.len(), 2);
        assert_eq!(
            (
                definitions[0].def.schedule.as_str(),
                definitions[0].def.zone.as_str()
            ),
            ("0 0 * * *", "Europe/Berlin")
        );
        assert_eq!(definitions[1].job.command, "from a file");
    }

    #[test]
    fn a_list_of_jobs_is_a_pack_whose_rules_hold_for_each() {
        let text = "{name: a, schedule: '@daily', max_run_time: 5, \
                    job: [{command: x}, {command: y, options: '-J n[1-3]'}]}";
        let definitions = &read_text(text).unwrap()[0];
        let commands: Vec<_> = definitions.jobs().map(|job| job.command.as_str()).collect();
        assert_eq!(commands, ["x", "y"]);
        let limited = |job: &Description| {
            job.named_options
                .contains(&("W".to_owned(), "5".to_owned()))
        };
        assert!(definitions.jobs().all(limited));
        let none = read_text("{name: a, schedule: '@daily', job: []}").unwrap_err();
        assert!(
            none.text.contains("a pack has 1 to 100 jobs"),
            "{}",
            none.text
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let job = "job: {command: x}";
        for (text, want) in [
            (
                format!("schedule: '@daily'\n{job}"),
                "c.yaml:1:1: name is missing in this cron job",
            ),
            (
                format!("name: a\n{job}"),
                "c.yaml:1:1: schedule is missing in this cron job",
            ),
            (
                "name: a\nschedule: '@daily'".into(),
                "c.yaml:1:1: job is missing in this cron job",
            ),
            (
                format!("name: a\nschedule: '61 * * * *'\n{job}"),
                "c.yaml:2:11: minute: 61 is not a value from 0 to 59",
            ),
            (
                format!("name: a\nschedul: x\n{job}"),
                "c.yaml:2:1: no key is named 'schedul' here; did you mean \"schedule\"?",
            ),
            (
                format!("name: a\ntimezone: Mars\n{job}"),
                "c.yaml:2:11: no time zone is named",
            ),
            (
                format!("name: a\noverlap: maybe\n{job}"),
                "c.yaml:2:10: overlap: write skip, run or replace",
            ),
            (
                format!("name: a\noverlap: run\noverlap_policy: run\n{job}"),
                "c.yaml:3:1: overlap_policy: it was given before",
            ),
            (
                format!("name: a\nmax_fails: -1\n{job}"),
                "c.yaml:2:12: max_fails: '-1' is not a number",
            ),
            (
                "name: a\nschedule: '@daily'\njob: {comand: x}".into(),
                "c.yaml:3:7: no key is named 'comand' here",
            ),
            (
                "name: a\nschedule: '@daily'\njob: {command: x, script: y}".into(),
                "c.yaml:3:6: job: give command or script, not both",
            ),
            (
                "[]".into(),
                "c.yaml: 0 definitions, but a file may have 1 to 200",
            ),
            ("name: [".into(), "c.yaml:1:"),
        ] {
            let fail = read_text(&text).expect_err(&text);
            assert!(fail.text.starts_with(want), "{text}\n{}", fail.text);
        }
    }
}
