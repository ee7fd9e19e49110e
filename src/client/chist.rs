//! `chist` (`bhist`): the history of jobs, read from the journal under its seals.
//!
//! Owns the options and the selection. The journal is the source; for a job that is still known,
//! the view supplies what the journal no longer contains.

use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Exit, Fail};
use super::job_requests::job_group;
use super::read::{self, Source};
use crate::journal::{History, HistoryEntry};
use crate::language::tell;
use crate::model::JobStat;
use crate::record::view::Params;
use crate::show::history::range::{self, Range};
use crate::show::history::{ElementHistory, Histories, SubmissionHistory, page};
use crate::show::job::Ctx;
use crate::show::job_long::RULE;
use crate::show::job_select::{Stats, Users, in_group, matches};
use crate::spool::view::{JobSet, ViewItem};
use crate::text::jobids::JobSel;
use clap::{ArgMatches, Command};
use std::collections::HashSet;
use std::ffi::OsString;

const NOT_BUILT: &[&str] = &["f", "N", "o", "cname", "G", "sla"];
/// Maximum number of journal problems that are listed.
const PROBLEMS_MAX: usize = 5;

/// The options of `chist`.
pub(super) fn options() -> Command {
    let cmd = command(
        "chist",
        "Show the events of jobs and the time they spent in each state",
    )
    .arg(flag("a", "All jobs, finished ones too"))
    .arg(flag("d", "Finished jobs (DONE and EXIT)"))
    .arg(flag("e", "Jobs that ended with EXIT"))
    .arg(flag("p", "Pending jobs"))
    .arg(flag("r", "Running jobs"))
    .arg(flag("s", "Suspended jobs"))
    .arg(flag("l", "Long: every event with its time"))
    .arg(flag("b", "The same as -l"))
    .arg(flag(
        "t",
        "The events of all selected jobs in chronological order",
    ))
    .arg(flag("w", "Wide: full names"))
    .arg(opt("C", "RANGE", "Jobs that ended in this range of time"))
    .arg(opt("D", "RANGE", "Jobs dispatched in this range"))
    .arg(opt("S", "RANGE", "Jobs submitted in this range"))
    .arg(opt("T", "RANGE", "Jobs with any event in this range"))
    .arg(opt("J", "NAME", "Jobs of this name; * matches any text"))
    .arg(opt(
        "m",
        "HOST",
        "Jobs that ran on these hosts or host groups",
    ))
    .arg(opt("q", "QUEUE", "Jobs in this queue"))
    .arg(opt("P", "PROJECT", "Jobs of this project"))
    .arg(opt(
        "g",
        "/GROUP",
        "Jobs of this job group and its subgroups",
    ))
    .arg(opt(
        "app",
        "APPLICATION",
        "Jobs of this application; * matches any text",
    ))
    .arg(opt(
        "u",
        "USER",
        "Jobs of this user or user group; all = every user",
    ))
    .arg(opt(
        "n",
        "NUMBER",
        "Accepted and ignored: all kept history is always read",
    ))
    .arg(flag("noheader", "No header lines"))
    .arg(operands(
        "ids",
        "JOBID",
        "Jobs (123), array elements (123[4], \"123[1-5,8]\")",
    ));
    let cmd = NOT_BUILT.iter().fold(cmd, |cmd, id| match *id {
        id @ ("N" | "cname" | "sla") => cmd.arg(flag(id, "not implemented").hide(true)),
        id => cmd.arg(opt(id, "VALUE", "not implemented").hide(true)),
    });
    read::json_options(cmd).mut_arg("jsonl", |lines| lines.short('j'))
}

/// Runs `chist`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open("chist").and_then(|source| {
        let answer = show(&m, &source, &source.ctx())?;
        read::put(&answer.text)?;
        answer.err.iter().for_each(|line| tell!("{line}"));
        Ok(answer.exit)
    });
    read::end("chist", answer)
}

/// Standard output, standard error, and the exit code of the command.
pub(super) struct HistoryPage {
    pub text: String,
    err: Vec<String>,
    exit: Exit,
}

/// Which jobs are selected.
struct JobFilter {
    ids: Vec<JobSel>,
    stats: Stats,
    users: Users,
    name: Option<String>,
    queue: Option<String>,
    project: Option<String>,
    group: Option<String>,
    app: Option<String>,
    hosts: Option<HashSet<String>>,
    ended: Option<Range>,
    dispatched: Option<Range>,
    submitted: Option<Range>,
    touched: Option<Range>,
}

pub(super) fn show(m: &ArgMatches, source: &Source, ctx: &Ctx) -> Result<HistoryPage, Fail> {
    read::refuse_unbuilt(m, NOT_BUILT, "chist")?;
    let wanted = job_filter(m, source, ctx)?;
    let detail = ["l", "b", "t", "T", "jsonl", "json"]
        .iter()
        .any(|id| is_given(m, id));
    let mut err = Vec::new();
    let all = read_journal(source, &wanted, detail, &mut err)?;
    let mut elements: Vec<ElementHistory<'_>> = all
        .by_job
        .values()
        .flat_map(SubmissionHistory::element_histories)
        .collect();
    let known: Vec<bool> = wanted
        .ids
        .iter()
        .map(|sel| {
            elements
                .iter()
                .any(|e| wanted.may_see(e) && sel.matches(e.key.id, e.key.idx))
        })
        .collect();
    elements.retain(|e| wanted.has(e));
    let mut exit = Exit::Ok;
    for (sel, _) in wanted.ids.iter().zip(&known).filter(|(_, known)| !**known) {
        err.push(format!("Job <{sel}> is not found"));
    }
    if elements.is_empty() && wanted.ids.is_empty() {
        super::known_names::check(m, source)?;
    }
    if elements.is_empty() {
        if known.iter().all(|k| *k) {
            err.push("No matching job found".to_owned());
        }
        exit = if wanted.ids.is_empty() {
            Exit::Ok
        } else {
            Exit::NotFound
        };
    }
    let text = print(m, &elements, ctx);
    Ok(HistoryPage { text, err, exit })
}

fn is_given(m: &ArgMatches, id: &str) -> bool {
    match id {
        "T" => m.last(id).is_some(),
        _ => m.has(id),
    }
}

fn print(m: &ArgMatches, elements: &[ElementHistory<'_>], ctx: &Ctx) -> String {
    let now = ctx.now.0;
    let mut out = String::new();
    if m.has("jsonl") {
        elements
            .iter()
            .for_each(|e| page::put_json(&mut out, e, now, true));
    } else if m.has("json") {
        out.push_str(&format!(
            "{{\n  \"COMMAND\":\"chist\",\n  \"JOBS\":{},\n  \"RECORDS\":[",
            elements.len()
        ));
        for (n, e) in elements.iter().enumerate() {
            out.push_str(if n > 0 { ",\n    " } else { "\n    " });
            page::put_json(&mut out, e, now, true);
            out.truncate(out.trim_end().len());
        }
        out.push_str("\n  ]\n}\n");
    } else if m.has("t") {
        let mut lines: Vec<(i64, String)> = elements.iter().flat_map(page::events).collect();
        lines.sort_by_key(|(t, _)| *t);
        for (t, text) in lines {
            let mut line = String::new();
            ctx.dates.long(&mut line, t);
            line.push_str(": ");
            line.push_str(&text);
            crate::show::wrap::item(&mut out, &line, false);
        }
    } else if m.has("l") || m.has("b") {
        for (n, e) in elements.iter().enumerate() {
            if n > 0 {
                out.push_str(RULE);
            }
            page::put_long(&mut out, e, now, &ctx.dates);
        }
    } else if !elements.is_empty() {
        if !m.has("noheader") {
            out.push_str(page::HEADER);
        }
        elements
            .iter()
            .for_each(|e| page::put_row(&mut out, e, now, m.has("w")));
    }
    out
}

fn job_filter(m: &ArgMatches, source: &Source, ctx: &Ctx) -> Result<JobFilter, Fail> {
    let ids = read::job_ids(m)?;
    // The journal can be read without a view; then every user sees only their own jobs.
    let params = source.view.params().unwrap_or_default();
    let users = read::selected_users(m, source, &params, &ids)?;
    let range = |id: &str| match m.last(id) {
        None => Ok(None),
        Some(text) => Range::parse(text, ctx.now.0, ctx.dates.zone())
            .map(Some)
            .map_err(|e| Fail::usage(format!("-{id}: {e}\nhint: {}", range::HINT))),
    };
    let (ended, dispatched) = (range("C")?, range("D")?);
    let (submitted, touched) = (range("S")?, range("T")?);
    let by_time = ended.or(dispatched).or(submitted).or(touched).is_some();
    Ok(JobFilter {
        stats: stats(m, !ids.is_empty() || by_time),
        ids,
        users,
        name: m.last("J").map(str::to_owned),
        queue: m.last("q").map(str::to_owned),
        project: m.last("P").map(str::to_owned),
        group: job_group(m)?,
        app: m.last("app").map(str::to_owned),
        hosts: hosts(m, source, &params)?,
        ended,
        dispatched,
        submitted,
        touched,
    })
}

fn hosts(
    m: &ArgMatches,
    source: &Source,
    params: &Params,
) -> Result<Option<HashSet<String>>, Fail> {
    let words = read::value_words(m, "m");
    if words.is_empty() {
        return Ok(None);
    }
    source.host_names(&words, params).map(Some)
}

/// The selected states. Without a state option: unfinished jobs; with ids or a time range, all.
fn stats(m: &ArgMatches, all: bool) -> Stats {
    use JobStat::{Done, Exit as Ended, Pend, Psusp, Run, Ssusp, Ususp};
    let mut stats = Stats::NONE;
    for (id, part) in [
        ("a", Stats::all()),
        ("d", Stats::of(&[Done, Ended])),
        ("e", Stats::of(&[Ended])),
        ("p", Stats::of(&[Pend])),
        ("r", Stats::of(&[Run])),
        ("s", Stats::of(&[Psusp, Ususp, Ssusp])),
    ] {
        if m.has(id) {
            stats = stats.union(part);
        }
    }
    match (stats == Stats::NONE, all) {
        (false, _) => stats,
        (true, true) => Stats::all(),
        (true, false) => Stats::live(),
    }
}

impl JobFilter {
    fn may_see(&self, e: &ElementHistory<'_>) -> bool {
        match &e.submission.spec {
            Some(spec) => self.users.has(spec.uid, &spec.user, &spec.queue),
            // The owner is no longer known.
            None => self.users == Users::All,
        }
    }

    fn has(&self, e: &ElementHistory<'_>) -> bool {
        let id = self.ids.is_empty() || self.ids.iter().any(|s| s.matches(e.key.id, e.key.idx));
        let spec = e.submission.spec.as_deref();
        let same = |want: &Option<String>, is: Option<&str>| {
            want.as_ref().is_none_or(|want| is == Some(want.as_str()))
        };
        id && self.stats.has(e.stat())
            && self.may_see(e)
            && same(&self.queue, spec.map(|s| s.queue.as_str()))
            && same(&self.project, spec.map(|s| s.project.as_str()))
            && in_group(self.group.as_deref(), spec.map_or("", |s| &s.job_group))
            && self.of_app(spec.map_or("", |s| s.app.as_str()))
            && self.is_selected(e)
            && self.on_host(e)
            && self.in_time(e)
    }

    fn of_app(&self, app: &str) -> bool {
        self.app.as_ref().is_none_or(|glob| matches(glob, app))
    }

    fn is_selected(&self, e: &ElementHistory<'_>) -> bool {
        let Some(glob) = &self.name else {
            return true;
        };
        let name = &e.submission.name;
        matches(glob, name) || (e.key.idx > 0 && matches(glob, &format!("{name}[{}]", e.key.idx)))
    }

    fn on_host(&self, e: &ElementHistory<'_>) -> bool {
        let on = |set: &HashSet<String>| e.history.hosts.iter().any(|h| set.contains(&h.0));
        self.hosts.as_ref().is_none_or(on)
    }

    fn in_time(&self, e: &ElementHistory<'_>) -> bool {
        let within = |range: Option<Range>, t: i64| range.is_none_or(|r| r.has(t));
        let finished = e.stat().is_finished();
        (self.ended.is_none() || finished && within(self.ended, e.since()))
            && (self.dispatched.is_none() || e.history.dispatch > 0)
            && within(self.dispatched, e.history.dispatch)
            && within(self.submitted, e.submission.submit)
            && self
                .touched
                .is_none_or(|r| e.has_events_between(r.from, r.to))
    }
}

/// Reads the whole journal, or what concerns the ids, and completes it from the view.
fn read_journal(
    source: &Source,
    wanted: &JobFilter,
    detail: bool,
    err: &mut Vec<String>,
) -> Result<Histories, Fail> {
    let cluster = source.cluster()?.cluster;
    let ids: Vec<u32> = wanted.ids.iter().filter_map(JobSel::id).collect();
    let mut all = Histories::new(detail);
    let mut problems = 0;
    let mut history = History::new(&source.layout, &cluster).of_jobs(&ids);
    let read = history.read(&mut |entry| match entry {
        HistoryEntry::Event { event, .. } => all.apply(&event),
        HistoryEntry::Problem(text) => {
            problems += 1;
            if problems <= PROBLEMS_MAX {
                err.push(format!("chist: warning: {text}"));
            }
        }
    });
    read.map_err(|e| Fail::system(e.to_string()))?;
    if problems > PROBLEMS_MAX {
        err.push(format!(
            "chist: warning: and {} more",
            problems - PROBLEMS_MAX
        ));
    }
    let lacking = all.incomplete();
    if !lacking.is_empty() {
        let want = JobSet {
            ids: lacking.iter().map(|id| (*id, *id)).collect(),
            finished: true,
            ..JobSet::default()
        };
        let mut sink = |piece: ViewItem<'_>| {
            if let ViewItem::Job { row, spec, .. } = piece {
                all.complete(&row, spec);
            }
        };
        // The view only completes what the journal contains, so its errors are ignored.
        drop(source.view.stream(&want, &mut sink));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
