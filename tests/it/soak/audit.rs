//! What must be true of the jobs when a soak is over, from four witnesses that do not ask each
//! other: the marks that jobs wrote, the journal, the hosts' logs, the answers of csub. Owns the
//! verdict, changes nothing.

use super::load::{SubmittedTestJob, marks};
use super::watch::TaskLogs;
use crate::cluster::Cluster;
use corral::journal::{History, HistoryEntry};
use corral::model::{AttemptId, JobKey, TermReason};
use corral::record::event::Event;
use corral::record::leader::{ClusterDoc, decode_fixed};
use corral::spool::Layout;
use std::collections::BTreeMap;

/// What the journal says of one job or element.
#[derive(Default, Debug)]
struct JobEvents {
    bound: Vec<u32>,
    /// Attempts that are over without a start.
    unbound: Vec<u32>,
    started: Vec<u32>,
    /// Attempt, exit code, reason.
    ended: Vec<(u32, Option<i32>, TermReason)>,
    /// What the ends say about themselves.
    end_texts: String,
}

#[derive(Default, Debug)]
pub struct Verdict {
    /// Jobs promised and not run to an end; each with what is wrong.
    pub lost: Vec<String>,
    pub double: Vec<String>,
    /// Records that do not fit together.
    pub odd: Vec<String>,
    pub done: u64,
    /// Ends that nobody knows, because a shepherd was killed.
    pub unknown: u64,
    pub other: BTreeMap<String, u64>,
    pub takeovers: u64,
    /// Submissions whose csub gave up and that ran all the same.
    pub unpromised: u64,
}

fn journal(cluster: &Cluster, verdict: &mut Verdict) -> BTreeMap<JobKey, JobEvents> {
    let layout = Layout::new(cluster.share());
    let bytes = std::fs::read(layout.cluster()).unwrap();
    let id = decode_fixed::<ClusterDoc>(&bytes)
        .or_else(|_| serde_json::from_slice(&bytes))
        .unwrap();
    let mut by_job: BTreeMap<JobKey, JobEvents> = BTreeMap::new();
    let mut history = History::new(&layout, &id.cluster);
    let read = history.read(&mut |entry| match entry {
        HistoryEntry::Problem(text) => verdict.odd.push(text),
        HistoryEntry::Event { event, .. } => match event {
            Event::Epoch { .. } => verdict.takeovers += 1,
            Event::Dispatched { a, .. } => by_job.entry(a.j).or_default().bound.push(a.at),
            Event::Unbound { a, .. } => by_job.entry(a.j).or_default().unbound.push(a.at),
            Event::Started { a, .. } => by_job.entry(a.j).or_default().started.push(a.at),
            Event::Ended { e, .. } => {
                let end = (e.a.at, e.code, e.reason);
                let job = by_job.entry(e.a.j).or_default();
                job.ended.push(end);
                job.end_texts += &e.text;
            }
            _ => {}
        },
    });
    read.unwrap();
    verdict.takeovers = verdict.takeovers.saturating_sub(1);
    by_job
}

/// Holds the witnesses against each other.
pub fn judge(cluster: &Cluster, submitted: &[SubmittedTestJob], logs: &TaskLogs) -> Verdict {
    let mut verdict = Verdict::default();
    let journalled = journal(cluster, &mut verdict);
    let mut ids: Vec<u32> = submitted.iter().filter_map(|a| a.id).collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    if ids.len() != all {
        verdict
            .double
            .push(format!("{} ids were given twice", all - ids.len()));
    }
    for one in submitted {
        for (element, runs) in marks(cluster, one) {
            job(&mut verdict, one, element, &runs, &journalled);
        }
    }
    for (a, hosts) in &logs.starts {
        if hosts.len() > 1 {
            verdict
                .double
                .push(format!("attempt {a} has {} starts: {hosts:?}", hosts.len()));
        }
        if !journalled
            .get(&a.j)
            .is_some_and(|t| t.bound.contains(&a.at))
        {
            verdict.odd.push(format!(
                "attempt {a} started on {hosts:?} without a dispatch"
            ));
        }
    }
    verdict
}

fn job(
    verdict: &mut Verdict,
    one: &SubmittedTestJob,
    element: u32,
    runs: &[(u32, u32)],
    journalled: &BTreeMap<JobKey, JobEvents>,
) {
    let what = format!("submission {} element {element} (job {:?})", one.n, one.id);
    let Some(id) = one.id.or(runs.first().map(|r| r.0)) else {
        return; // given up, and never run
    };
    verdict.unpromised += u64::from(one.id.is_none());
    if runs.len() > 1 {
        verdict.double.push(format!("{what} ran as {runs:?}"));
    }
    let key = match element {
        0 => JobKey::job(id),
        n => JobKey::element(id, n),
    };
    let Some(job_events) = journalled.get(&key) else {
        verdict.lost.push(format!("{what} was never dispatched"));
        return;
    };
    let (attempt, code, reason) = match job_events.ended.as_slice() {
        [] => {
            verdict
                .lost
                .push(format!("{what} has no end: {job_events:?}"));
            return;
        }
        [one] => *one,
        _ => {
            verdict
                .double
                .push(format!("{what} ended more than once: {job_events:?}"));
            return;
        }
    };
    match (code, reason) {
        (Some(0), TermReason::None) => verdict.done += 1,
        (None, TermReason::ShepherdLost) => verdict.unknown += 1,
        _ => {
            *verdict
                .other
                .entry(format!("{reason:?} {code:?}"))
                .or_default() += 1;
            verdict.odd.push(format!(
                "{what} ended as {code:?} {reason:?}: {}",
                job_events.end_texts
            ));
        }
    }
    if code == Some(0) && runs.len() != 1 {
        verdict
            .lost
            .push(format!("{what} is DONE and ran {} times", runs.len()));
    }
    if runs.iter().any(|r| *r != (id, attempt)) {
        verdict
            .odd
            .push(format!("{what}: ended attempt {attempt}, ran as {runs:?}"));
    }
    // Every attempt before the last was given back unstarted.
    let is_unbound = |at: &u32| *at == attempt || job_events.unbound.contains(at);
    if !job_events.bound.iter().all(is_unbound)
        || job_events.started.iter().any(|at| *at != attempt)
    {
        verdict
            .odd
            .push(format!("{what}: attempts do not fit: {job_events:?}"));
    }
}

/// Attempts that a host has an end of and no start: never seen, the start is written first.
pub fn ends_without_start(logs: &TaskLogs) -> Vec<AttemptId> {
    let ended = logs.ends.keys();
    ended
        .filter(|a| !logs.starts.contains_key(a))
        .copied()
        .collect()
}
