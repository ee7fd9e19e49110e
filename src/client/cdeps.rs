//! `cdeps` (`bjdepinfo`): which jobs a job depends on, or which depend on it.
//!
//! Owns the options, the walk over the conditions and the table. Reads the published view; whether
//! a condition is true is decided by the leader.

use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Exit, Fail, Result};
use super::read::{self, Source};
use crate::language::tell;
use crate::model::JobStat;
use crate::record::view::{JobRow, Params};
use crate::show::cell::Object;
use crate::spool::view::{JobSet, ViewJob};
use crate::text::depend::Expr;
use crate::text::jobids::JobSel;
use crate::text::width::escape;
use clap::{ArgMatches, Command};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;

/// Highest level of `-r`.
const LEVELS_MAX: u32 = 1_000;
/// If there are more jobs than this, all are read instead of looking for their ids.
const IDS_MAX: usize = 100;
/// Maximum number of jobs that are shown.
const ROWS_MAX: usize = 100_000;

/// The options of `cdeps`.
pub(super) fn options() -> Command {
    command(
        "cdeps",
        "Show the jobs that a job depends on, or that depend on it",
    )
    .arg(flag("c", "The jobs that depend on it"))
    .arg(flag("l", "Long: the dependency conditions, too"))
    .arg(opt(
        "r",
        "LEVELS",
        "Follow dependencies over this many levels [1]",
    ))
    .arg(flag("json", "JSON Lines: an object for each dependency"))
    .arg(operands("ids", "JOB", "Job IDs"))
}

/// Runs `cdeps`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), args) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open("cdeps").and_then(|source| show(&m, &source));
    read::end("cdeps", answer)
}

/// What is known of a job; for an array, of the array as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct JobNode {
    name: String,
    stats: BTreeSet<&'static str>,
    depend: String,
    parents: Vec<u32>,
}

type Jobs = BTreeMap<u32, JobNode>;

/// One dependency: `job` waits for, or is waited for by, `other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    job: u32,
    other: u32,
    level: u32,
}

fn show(m: &ArgMatches, source: &Source) -> Result<Exit> {
    let levels = levels(m)?;
    let ids = m.all("ids");
    if ids.is_empty() {
        return Err(Fail::usage("a job ID is missing"));
    }
    let ids: Vec<u32> = ids.iter().map(|word| id_of(word)).collect::<Result<_>>()?;
    let params = source.params()?;
    let children = m.has("c");
    let jobs = read_jobs(source, &params, &ids, children)?;
    let (mut out, mut exit) = (String::new(), Exit::Ok);
    let mut all = Vec::new();
    for id in ids {
        let Some(job) = jobs.get(&id) else {
            tell!("Job <{id}> is not found");
            exit = Exit::NotFound;
            continue;
        };
        if m.has("l") && !m.has("json") && !job.depend.is_empty() {
            let _ = writeln!(
                out,
                "The dependency condition of job <{id}> is {}\n",
                escape(&job.depend)
            );
        }
        let found = walk(&jobs, id, children, levels);
        if found.is_empty() {
            let text = match children {
                true => "no job depends on it",
                false => "it depends on no job",
            };
            tell!("Job <{id}>: {text}");
        }
        all.extend(found);
    }
    match m.has("json") {
        true => all
            .iter()
            .for_each(|edge| json(&mut out, edge, &jobs, children)),
        false => table(&mut out, &all, &jobs, children),
    }
    read::put(&out)?;
    Ok(exit)
}

fn levels(m: &ArgMatches) -> Result<u32> {
    let Some(text) = m.last("r") else {
        return Ok(1);
    };
    match text.parse::<u32>() {
        Ok(n) if (1..=LEVELS_MAX).contains(&n) => Ok(n),
        _ => Err(Fail::usage(format!(
            "-r: '{}' is not a number from 1 to {LEVELS_MAX}",
            escape(text)
        ))),
    }
}

/// Elements have the conditions of their array, so the id is enough.
fn id_of(word: &str) -> Result<u32> {
    let wrong = |text: String| Fail::usage(text);
    let sel = JobSel::parse(word).map_err(|e| {
        let caret = e.caret(word);
        wrong(format!("{}\n{}", e.message, caret.trim_end_matches('\n')))
    })?;
    sel.id().ok_or_else(|| wrong("0: name the jobs".to_owned()))
}

/// The requested jobs, and those that may be related to them.
fn read_jobs(source: &Source, params: &Params, ids: &[u32], children: bool) -> Result<Jobs> {
    let collect = |want: &JobSet<'_>| source.view.collect(want).map_err(|e| source.failed(e));
    let mut jobs = Jobs::new();
    let put = |jobs: &mut Jobs, found: Vec<ViewJob>| {
        for job in found
            .into_iter()
            .filter(|job| source.may_see(params, &job.spec))
        {
            note(jobs, &job);
        }
    };
    if children {
        // Any job with a dependency may depend on these.
        let depends = |spec: &crate::model::Spec| !spec.depend.is_empty();
        let want = JobSet {
            spec: Some(&depends),
            ..JobSet::all()
        };
        put(&mut jobs, collect(&want)?.0);
    }
    let (mut requested, mut next) = (BTreeSet::new(), ids.to_vec());
    while !next.is_empty() && jobs.len() < ROWS_MAX {
        requested.extend(next.iter().copied());
        let few = next.len() <= IDS_MAX;
        let want = JobSet {
            // Each row is compared with all of these ids.
            ids: next.iter().filter(|_| few).map(|id| (*id, *id)).collect(),
            ..JobSet::all()
        };
        let mut found = collect(&want)?.0;
        found.retain(|job| requested.contains(&job.row.j.id));
        put(&mut jobs, found);
        if children {
            break;
        }
        let found = next.iter().filter_map(|id| jobs.get(id));
        let parents: BTreeSet<u32> = found.flat_map(|job| job.parents.clone()).collect();
        next = parents.difference(&requested).copied().collect();
    }
    Ok(jobs)
}

fn note(jobs: &mut Jobs, job: &ViewJob) {
    let row = &job.row;
    let known = jobs.entry(row.j.id).or_default();
    if has_state(row) {
        known.stats.insert(JobStat::word(row.stat));
    }
    known.name = match row.name.as_ref() {
        "" => row.command.to_string(),
        name => name.to_owned(),
    };
    if known.depend != job.spec.depend {
        known.depend.clone_from(&job.spec.depend);
        known.parents = parents(&job.spec.depend);
    }
}

/// The row of an array has the state of its elements without rows, if there are any.
fn has_state(row: &JobRow<'_>) -> bool {
    let array = row.arr.as_deref();
    array.is_none_or(|array| !array.waiting.is_empty())
}

/// The jobs that a condition names.
fn parents(depend: &str) -> Vec<u32> {
    Expr::parse_stored(depend).map_or_else(|_| Vec::new(), |expr| expr.ids())
}

/// Walks level by level; visits no job twice.
fn walk(jobs: &Jobs, from: u32, children: bool, levels: u32) -> Vec<Edge> {
    let mut waiters: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    if children {
        for (id, job) in jobs {
            for parent in &job.parents {
                waiters.entry(*parent).or_default().push(*id);
            }
        }
    }
    let others = |id: u32| match children {
        true => waiters.get(&id).cloned().unwrap_or_default(),
        false => jobs
            .get(&id)
            .map_or_else(Vec::new, |job| job.parents.clone()),
    };
    let (mut edges, mut visited) = (Vec::new(), BTreeSet::from([from]));
    let mut now = vec![from];
    for level in 1..=levels {
        let mut next = Vec::new();
        for job in std::mem::take(&mut now) {
            for other in others(job) {
                if edges.len() == ROWS_MAX {
                    return edges;
                }
                edges.push(Edge { job, other, level });
                if visited.insert(other) {
                    next.push(other);
                }
            }
        }
        now = next;
    }
    edges
}

fn status(jobs: &Jobs, id: u32) -> String {
    match jobs.get(&id) {
        Some(job) if !job.stats.is_empty() => {
            let words: Vec<&str> = job.stats.iter().copied().collect();
            words.join("/")
        }
        // The job is forgotten or belongs to another user.
        _ => "-".to_owned(),
    }
}

fn name(jobs: &Jobs, id: u32) -> &str {
    jobs.get(&id).map_or("", |job| job.name.as_str())
}

fn table(out: &mut String, edges: &[Edge], jobs: &Jobs, children: bool) {
    if edges.is_empty() {
        return;
    }
    let what = if children { "CHILD" } else { "PARENT" };
    let _ = writeln!(
        out,
        "{:<14} {what:<14} {:<14} {:<20} LEVEL",
        "JOBID",
        format!("{what}_STATUS"),
        format!("{what}_NAME"),
    );
    for Edge { job, other, level } in edges {
        let shown = match name(jobs, *other) {
            "" => "-".to_owned(),
            name => crate::text::width::pad_right(&escape(name), 20),
        };
        let _ = writeln!(
            out,
            "{job:<14} {other:<14} {:<14} {shown:<20} {level}",
            status(jobs, *other)
        );
    }
}

fn json(out: &mut String, edge: &Edge, jobs: &Jobs, children: bool) {
    let Edge { job, other, level } = *edge;
    let (parent, child) = match children {
        true => (job, other),
        false => (other, job),
    };
    let mut o = Object::begin(out);
    o.int("parent", parent);
    o.int("child", child);
    o.some_text("parent_name", name(jobs, parent));
    o.some_text("child_name", name(jobs, child));
    o.some_text("parent_status", status(jobs, parent).trim_matches('-'));
    o.some_text("child_status", status(jobs, child).trim_matches('-'));
    let depend = jobs.get(&child).map_or("", |job| job.depend.as_str());
    o.some_text("condition", depend);
    o.int("level", level);
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::view::ArrayRow;

    fn jobs(all: &[(u32, &str)]) -> Jobs {
        let known = |depend: &str| JobNode {
            name: "n".into(),
            stats: BTreeSet::from(["PEND"]),
            depend: depend.into(),
            parents: parents(depend),
        };
        all.iter().map(|(id, text)| (*id, known(text))).collect()
    }

    fn pairs(edges: &[Edge]) -> Vec<(u32, u32, u32)> {
        edges.iter().map(|e| (e.job, e.other, e.level)).collect()
    }

    #[test]
    fn dependencies_are_followed_both_ways_and_no_job_twice() {
        let all = jobs(&[
            (1, ""),
            (2, "done(1)"),
            (3, "done(1) && ended(2)"),
            (4, "done(3) || (exit(3) && numdone(1,>=2))"),
        ]);
        assert_eq!(pairs(&walk(&all, 4, false, 1)), [(4, 3, 1), (4, 1, 1)]);
        assert_eq!(
            pairs(&walk(&all, 4, false, 9)),
            [(4, 3, 1), (4, 1, 1), (3, 1, 2), (3, 2, 2), (2, 1, 3)]
        );
        assert_eq!(
            pairs(&walk(&all, 1, true, 1)),
            [(1, 2, 1), (1, 3, 1), (1, 4, 1)]
        );
        assert!(walk(&all, 1, false, 5).is_empty());
    }

    #[test]
    fn an_array_whose_elements_have_all_started_is_not_pending() {
        let row = |waiting: Option<&str>| JobRow {
            arr: waiting.map(|waiting| {
                Box::new(ArrayRow {
                    all: "1-3".into(),
                    waiting: waiting.into(),
                    ..ArrayRow::default()
                })
            }),
            ..JobRow::default()
        };
        assert!(has_state(&row(None)) && has_state(&row(Some("2-3"))));
        assert!(!has_state(&row(Some(""))));
    }

    #[test]
    fn what_is_not_known_any_more_has_no_status() {
        let all = jobs(&[(2, "done(1)")]);
        let edges = walk(&all, 2, false, 3);
        let (mut text, mut lines) = (String::new(), String::new());
        table(&mut text, &edges, &all, false);
        json(&mut lines, &edges[0], &all, false);
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["2", "1", "-", "-", "1"]);
        assert!(lines.contains("\"parent_status\":null,"), "{lines}");
        assert!(lines.contains("\"child_status\":\"PEND\""), "{lines}");
    }
}
