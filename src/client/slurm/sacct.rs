//! `sacct`: jobs with their states, times and usage: jobs that the cluster remembers from the view,
//! older jobs from the accounting files.
//!
//! A started job has one line for itself and one for its batch step, as in Slurm; `-X` leaves out
//! the second.

use super::command_line::{
    self, RefusedOption, both, comma_words, help_option, job_words, refusals, refuse, users_named,
    value_words,
};
use super::jobs::{self, SlurmItem};
use super::json;
use super::sacct_fields::{self, AcctJob, FIELDS, Line, is_whole};
use super::sacct_json;
use super::states::{State, states_of};
use crate::client::cacct::records::Records;
use crate::client::cli::{Values, command, flag, opt};
use crate::client::exit::{Exit, Fail, Result};
use crate::client::read::{self, Source};
use crate::model::JobKey;
use crate::record::acct::{AttemptRecord, month_of};
use crate::show::job_select::Users;
use crate::spool::view::JobSet;
use crate::sys;
use crate::text::slurm::{SlurmJobId, moment};
use crate::text::width::escape;
use clap::{ArgMatches, Command};
use jiff::tz::TimeZone;
use std::collections::HashSet;
use std::ffi::OsString;

const DEFAULT: &str = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode";
const BRIEF: &str = "JobID,State,ExitCode";
/// Size of the text that is collected before it is written.
const OUT_BYTES: usize = 64 << 10;
/// Maximum number of fields of one format, and maximum width of a column.
const FIELDS_MAX: usize = 200;
const WIDTH_MAX: usize = 4096;
/// Number of names in one line of `--helpformat`.
const NAMES_A_LINE: usize = 4;

const REFUSED: &[RefusedOption] = &[
    ("yaml", ' ', false, "cacct --json gives records as JSON"),
    ("long", 'l', false, "--format names the fields"),
    ("file", 'f', true, "accounting is read from the cluster"),
    ("completion", 'c', false, "accounting is always complete"),
    ("group", 'g', true, "-u names users"),
    ("gid", ' ', true, "-u names users"),
    ("qos", 'q', true, "there are no QOS"),
    ("wckeys", 'W', true, "-A selects by project"),
    ("associations", 'x', true, "-A selects by project"),
    (
        "ncpus",
        'I',
        true,
        "cacct --json gives records to select from",
    ),
    (
        "nnodes",
        'i',
        true,
        "cacct --json gives records to select from",
    ),
    (
        "timelimit-min",
        'k',
        true,
        "cacct --json gives records to select from",
    ),
    (
        "timelimit-max",
        'K',
        true,
        "cacct --json gives records to select from",
    ),
    ("truncate", 'T', false, "times are those of the jobs"),
    (
        "constraints",
        'C',
        true,
        "cacct --json gives records to select from",
    ),
    ("flags", 'F', true, "there are no such flags"),
    ("units", ' ', true, "sizes have their units"),
    ("noconvert", ' ', false, "sizes have their units"),
    ("batch-script", 'B', false, "scripts are not kept"),
    ("env-vars", ' ', false, "environments are not kept"),
    ("whole-hetjob", ' ', true, "there are no heterogeneous jobs"),
];

fn options() -> Command {
    let cmd = command(
        "sacct",
        "List jobs with their resource usage, as Slurm's command does",
    )
    .disable_help_flag(true)
    .arg(help_option().short('h'))
    .arg(both(
        opt("jobs", "IDS", "These jobs and elements: 12,13_4"),
        'j',
    ))
    .arg(both(
        opt("user", "USERS", "Jobs of these users").visible_alias("uid"),
        'u',
    ))
    .arg(flag("me", "Your own jobs").hide(true))
    .arg(both(flag("allusers", "Jobs of all users"), 'a'))
    .arg(both(
        opt(
            "starttime",
            "TIME",
            "Jobs that had not ended at this time; default: today",
        ),
        'S',
    ))
    .arg(both(
        opt(
            "endtime",
            "TIME",
            "Jobs that were submitted before this time; default: now",
        ),
        'E',
    ))
    .arg(both(opt("state", "STATES", "Jobs in these states"), 's'))
    .arg(opt("name", "NAMES", "Jobs of these names"))
    .arg(both(
        opt("accounts", "PROJECTS", "Jobs of these projects").visible_alias("account"),
        'A',
    ))
    .arg(both(
        opt("partition", "QUEUES", "Jobs in these queues"),
        'r',
    ))
    .arg(both(
        opt("nodelist", "HOSTS", "Jobs that ran on these hosts"),
        'N',
    ));
    refusals(printing(cmd), REFUSED)
}

/// The options for the form of a line.
fn printing(cmd: Command) -> Command {
    cmd.arg(both(flag("noheader", "No header"), 'n'))
        .arg(both(flag("parsable2", "Values separated by |"), 'P'))
        .arg(both(
            flag("parsable", "Values separated by |, with a | after the last"),
            'p',
        ))
        .arg(opt("delimiter", "TEXT", "Separator instead of |"))
        .arg(both(flag("allocations", "Jobs without their steps"), 'X'))
        .arg(both(
            flag("duplicates", "Attempts before the last one, too"),
            'D',
        ))
        .arg(both(flag("brief", "JobID, State and ExitCode"), 'b'))
        .arg(both(
            opt("format", "FIELDS", "Fields: NAME[%[-]WIDTH],..."),
            'o',
        ))
        .arg(flag("json", "The jobs as one JSON object"))
        .arg(both(flag("helpformat", "List the fields"), 'e'))
        .arg(both(
            opt("clusters", "NAMES", "all, or the name of this cluster"),
            'M',
        ))
        .arg(both(flag("allclusters", "No effect").hide(true), 'L'))
        .arg(both(flag("verbose", "No effect").hide(true), 'v'))
        .arg(flag("array", "No effect").hide(true))
        .arg(flag("local", "No effect").hide(true))
        .arg(flag("expand-patterns", "No effect").hide(true))
}

/// Runs `sacct`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    command_line::run("sacct", options(), args, |m, source| {
        let at = (sys::clock::wall_ms(), &TimeZone::system());
        let warnings = show(m, source, at, &mut |text| read::put(text))?;
        source.warn(&warnings);
        Ok(Exit::Ok)
    })
}

/// The selection of jobs.
struct RecordFilter {
    ids: Vec<SlurmJobId>,
    users: Users,
    states: Vec<State>,
    names: Vec<String>,
    projects: Vec<String>,
    queues: Vec<String>,
    hosts: Vec<String>,
    /// Jobs that existed in this period, ms.
    from: i64,
    until: i64,
    duplicates: bool,
}

impl RecordFilter {
    fn of(m: &ArgMatches, source: &Source, now: i64, zone: &TimeZone) -> Result<RecordFilter> {
        // The files can be read without a view; then every user sees only their own jobs.
        let params = source.view.params().unwrap_or_default();
        let ids = job_words(&value_words(m, "jobs"))?;
        let all = m.has("allusers") || source.me.uid == 0 || !ids.is_empty();
        let named = users_named(m, source, &params).unwrap_or_else(|| match all {
            true => Users::All,
            false => Users::one(source.me.uid),
        });
        let time = |id: &str| {
            let text = m.last(id);
            text.map(|text| moment(text, now, zone))
                .transpose()
                .map_err(|e| Fail::usage(format!("--{id}: {e}")))
        };
        let today = || moment("today", now, zone).unwrap_or(0);
        let hosts = value_words(m, "nodelist");
        let hosts = match hosts.is_empty() {
            true => Vec::new(),
            false => crate::text::hostlist::expand(&hosts.join(" "))
                .map_err(|e| Fail::usage(format!("--nodelist: {}", e.message)))?,
        };
        let from = time("starttime")?;
        Ok(RecordFilter {
            from: from.unwrap_or_else(|| if ids.is_empty() { today() } else { 0 }),
            until: time("endtime")?.unwrap_or(i64::MAX),
            users: source.allowed(&params, named),
            states: states_of(&value_words(m, "state"))?,
            names: comma_words(m, "name"),
            projects: value_words(m, "accounts"),
            queues: value_words(m, "partition"),
            hosts,
            duplicates: m.has("duplicates"),
            ids,
        })
    }

    fn has(&self, e: &AcctJob, named: bool) -> bool {
        let one_of =
            |list: &[String], text: &str| list.is_empty() || list.iter().any(|word| word == text);
        let on = e.hosts.iter().any(|(name, _)| self.hosts.contains(name));
        let there = e.times.submit <= self.until && (e.times.end == 0 || e.times.end >= self.from);
        there
            && (self.ids.is_empty() || named)
            && self.users.has(e.submitter.uid, &e.submitter.user, &e.queue)
            && (self.states.is_empty() || self.states.contains(&e.end.state))
            && one_of(&self.names, &e.name)
            && one_of(&self.projects, &e.submitter.project)
            && one_of(&self.queues, &e.queue)
            && (self.hosts.is_empty() || on)
    }

    fn names_item(&self, item: &SlurmItem) -> bool {
        self.ids.iter().any(|word| item.is_named(word))
    }

    fn names_record(&self, r: &AttemptRecord<'_>) -> bool {
        self.ids.iter().any(|word| {
            let element = |list: &crate::text::slurm::IndexList| {
                let raised = (r.j.idx + list.shift).checked_sub(r.shift);
                raised.is_some_and(|index| list.indices.contains(index))
            };
            word.id == r.j.id && word.elements.as_ref().is_none_or(element)
        })
    }

    /// Whether the file of a month can contain selected records.
    fn in_month(&self, month: &str) -> bool {
        self.from <= 0 || month >= month_of(self.from).as_str()
    }
}

/// The form of the output.
struct Form {
    /// JSON, with the number of jobs written so far.
    json: Option<u64>,
    columns: Vec<FormatColumn>,
    /// The separator of values; `None`: columns.
    separator: Option<String>,
    /// Whether the separator also follows the last value.
    trailing: bool,
    steps: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FormatColumn {
    field: usize,
    width: usize,
    left_aligned: bool,
}

impl Form {
    fn of(m: &ArgMatches) -> Result<Form> {
        let from_env = std::env::var("SACCT_FORMAT").ok().filter(|f| !f.is_empty());
        let text = match m.last("format") {
            Some(text) => text,
            None if m.has("brief") => BRIEF,
            None => from_env.as_deref().unwrap_or(DEFAULT),
        };
        let parsable = m.has("parsable") || m.has("parsable2");
        let between = m.last("delimiter").unwrap_or("|").to_owned();
        Ok(Form {
            json: m.has("json").then_some(0),
            columns: columns(text).map_err(Fail::usage)?,
            separator: parsable.then_some(between),
            trailing: m.has("parsable"),
            steps: !m.has("allocations"),
        })
    }

    /// Appends a line of values.
    fn put(&self, out: &mut String, value: &mut dyn FnMut(usize) -> String) {
        for (n, column) in self.columns.iter().enumerate() {
            let text = value(column.field);
            match &self.separator {
                Some(between) => {
                    if n > 0 {
                        out.push_str(between);
                    }
                    out.push_str(&escape(&text));
                }
                None => {
                    column.put(out, &text);
                    out.push(' ');
                }
            }
        }
        if let Some(between) = self.separator.as_ref().filter(|_| self.trailing) {
            out.push_str(between);
        }
        out.push('\n');
    }

    fn head(&self, out: &mut String) {
        self.put(out, &mut |n| FIELDS[n].name.to_owned());
        if self.separator.is_none() {
            for column in &self.columns {
                out.push_str(&"-".repeat(column.width));
                out.push(' ');
            }
            out.push('\n');
        }
    }

    fn entry(&mut self, out: &mut String, entry: &AcctJob, cluster: &str, zone: &TimeZone) {
        if let Some(n) = &mut self.json {
            json::put(out, &sacct_json::job(entry, self.steps, cluster), *n > 0);
            *n += 1;
            return;
        }
        for step in [false, true] {
            if step && !(self.steps && entry.has_step()) {
                continue;
            }
            let line = Line {
                entry,
                step,
                cluster,
                zone,
            };
            self.put(out, &mut |n| (FIELDS[n].get)(&line));
        }
    }
}

impl FormatColumn {
    /// Appends a value; a longer one is cut and ends with +.
    fn put(&self, out: &mut String, value: &str) {
        let value = escape(value);
        let length = value.chars().count();
        let text = match length > self.width {
            true => {
                let value_width = self.width.saturating_sub(1);
                value.chars().take(value_width).chain(['+']).collect()
            }
            false => value.into_owned(),
        };
        let pad = " ".repeat(self.width.saturating_sub(length));
        match self.left_aligned {
            true => out.extend([text.as_str(), &pad]),
            false => out.extend([pad.as_str(), &text]),
        }
    }
}

fn columns(text: &str) -> std::result::Result<Vec<FormatColumn>, String> {
    let mut all = Vec::new();
    for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
        let (name, width) = word
            .split_once('%')
            .map_or((word, None), |(n, w)| (n, Some(w)));
        let field = sacct_fields::by_name(name)
            .ok_or_else(|| format!("Invalid field requested: \"{}\"", escape(name)))?;
        let of = &FIELDS[field];
        let (width, left) = match width {
            None => (of.width, of.left_aligned),
            Some(text) => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                let n = digits.parse::<usize>().ok();
                let n = n.filter(|n| (1..=WIDTH_MAX).contains(n));
                let n = n.ok_or_else(|| format!("{}: 1 to {WIDTH_MAX} wide", escape(word)))?;
                (n, text.starts_with('-'))
            }
        };
        all.push(FormatColumn {
            field,
            width,
            left_aligned: left,
        });
        if all.len() > FIELDS_MAX {
            return Err(format!("a format has at most {FIELDS_MAX} fields"));
        }
    }
    match all.is_empty() {
        true => Err("a format has no fields".to_owned()),
        false => Ok(all),
    }
}

fn field_names() -> String {
    let mut out = String::new();
    for names in FIELDS.chunks(NAMES_A_LINE) {
        let words: Vec<String> = names.iter().map(|f| format!("{:<19}", f.name)).collect();
        out.push_str(words.join(" ").trim_end());
        out.push('\n');
    }
    out
}

/// Prints the selected jobs through `put`; returns warnings about damage.
fn show(
    m: &ArgMatches,
    source: &Source,
    (now, zone): (i64, &TimeZone),
    put: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<Vec<String>> {
    refuse(m, REFUSED)?;
    let mut form = Form::of(m)?;
    if m.has("helpformat") {
        put(&field_names())?;
        return Ok(Vec::new());
    }
    let cluster = source.cluster()?;
    let others = |name: &String| name != "all" && *name != cluster.name;
    if let Some(name) = value_words(m, "clusters").into_iter().find(others) {
        return Err(read::unknown(
            "cluster",
            &name,
            std::iter::once(cluster.name.as_str()),
        ));
    }
    let filter = RecordFilter::of(m, source, now, zone)?;
    let mut out = String::new();
    let (before, after) = json::frame("jobs", &["sacct", "--json"], &cluster.name);
    match (form.json, m.has("noheader")) {
        (Some(_), _) => out.push_str(&before),
        (None, true) => {}
        (None, false) => form.head(&mut out),
    }
    let (remembered, known) = jobs_of_view(source, &filter, now)?;
    let mut warnings = Vec::new();
    let mut failed = None;
    let records = Records::open(&source.layout, &cluster.cluster, |month| {
        filter.in_month(month)
    })?;
    records.for_each(
        &mut |r| {
            let again = known.contains(&(r.j, r.submit)) || r.requeued;
            if failed.is_some() || (again && !(filter.duplicates && r.requeued)) {
                return Ok(());
            }
            let entry = AcctJob::of_record(r);
            if filter.has(&entry, filter.names_record(r)) {
                form.entry(&mut out, &entry, &cluster.name, zone);
            }
            if out.len() >= OUT_BYTES {
                failed = put(&out).err();
                out.clear();
            }
            Ok(())
        },
        &mut |text| warnings.push(text),
    )?;
    if let Some(fail) = failed {
        return Err(fail);
    }
    for entry in &remembered {
        form.entry(&mut out, entry, &cluster.name, zone);
    }
    if form.json.is_some() {
        out.push_str(&after);
    }
    put(&out)?;
    Ok(warnings)
}

/// Keys of jobs by which accounting records of the same job are recognised.
type ListedJobs = HashSet<(JobKey, i64)>;

/// The selected jobs of the view, by id, and the keys of all its jobs.
fn jobs_of_view(
    source: &Source,
    filter: &RecordFilter,
    now: i64,
) -> Result<(Vec<AcctJob>, ListedJobs)> {
    let want = JobSet {
        ids: filter.ids.iter().map(|word| (word.id, word.id)).collect(),
        finished: true,
        ..JobSet::default()
    };
    let items = jobs::items(source, &want)?;
    let whole = items.iter().filter(|item| is_whole(item));
    let known = whole.map(|item| (item.key(), item.row.submit)).collect();
    let mut all: Vec<AcctJob> = items
        .iter()
        .map(|item| (item, AcctJob::of_item(item, now)))
        .filter(|(item, entry)| filter.has(entry, filter.names_item(item)))
        .map(|(_, entry)| entry)
        .collect();
    all.sort_by_key(|entry| (entry.key.id, entry.key.idx));
    Ok((all, known))
}

#[cfg(test)]
mod tests;
