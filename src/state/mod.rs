//! Floor 2: the cluster in memory. `State::apply(&Event)` is the only way it changes; replaying the
//! journal gives the same state as living through it. No I/O, no clock, no policy.

mod apply;
mod attempts;
mod check;
mod chunked_set;
mod cluster;
mod cron;
mod dependency_watch;
mod dirty;
mod ends;
mod from_rows;
mod host_numbers;
mod index;
mod job;
mod job_groups;
mod messages;
mod names;
mod parts;
mod prefetch;
mod rows;
mod running;
mod snapshot;
mod table;
mod tokens;
mod unit_conflicts;
mod units;

#[cfg(test)]
pub(crate) mod any_events;
#[cfg(test)]
mod tests;

use crate::text::glob::Glob;
pub use chunked_set::ChunkedSet;
pub use cron::CronKey;
pub use from_rows::RowGatherer;
use index::UsageOwner;
pub use index::{Class, ClassKey, InUse, Pending, StartedUsage};
pub use job::{Array, Body, HostId, Job, JobEnd, Run, Work};
pub use parts::{
    HostCtl, JobRuns, KnownAnswer, PartialRequest, PendingCounts, QueueCtl, RestoredShare,
};
pub use prefetch::PREFETCH_BATCH;
pub use rows::ShardKey;
pub use snapshot::SnapRecord;
pub use units::{PREFETCH_UNITS, UnitHolder, UnitInUse, UnitsInUse};

use crate::model::{AttemptId, JobKey, JobStat, PendReason, Spec, Stamp, TermReason, Token};
use crate::record::event::UserShareHistory;
use parts::{
    AssignedNumbers, Changes, Dependencies, Hosts, JobTimes, Leaders, PendingTotals, Queues,
    Requests,
};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use table::Table;

/// A specification in use.
#[derive(Clone, Debug)]
pub struct SpecEntry {
    pub spec: Arc<Spec>,
    /// Number of jobs that refer to it.
    pub refs: u32,
    /// Scheduling class of its jobs.
    pub class: u32,
    /// Number of its jobs and elements that wait (PEND or PSUSP).
    pub waiting: u64,
    /// The owners of what its started jobs hold.
    owner: UsageOwner,
    traits: SpecTraits,
}

/// What most events read of a specification. It is kept beside the counters of [`SpecEntry`]: with
/// many specifications, reading one is a cache miss for each event.
#[derive(Clone, Copy, Debug)]
struct SpecTraits {
    /// Minimum number of slots of a job.
    min: u32,
    /// Its jobs wait for others.
    depends: bool,
    rerunnable: bool,
    /// Its jobs have a deadline or a time by which they must start.
    timed: bool,
}

impl SpecTraits {
    fn of(spec: &Spec) -> SpecTraits {
        SpecTraits {
            min: spec.min,
            depends: !spec.depend.is_empty(),
            rerunnable: spec.rerunnable,
            timed: spec.deadline.is_some() || spec.start_by.is_some(),
        }
    }
}

/// Everything that is derived from the journal.
#[derive(Clone, Debug, Default)]
pub struct State {
    leaders: Leaders,
    pub(crate) jobs: Table<Job>,
    pub(crate) specs: FxHashMap<u32, SpecEntry>,
    numbers: AssignedNumbers,
    requests: Requests,
    queues: Queues,
    hosts: Hosts,
    pub(crate) pending: Pending,
    pub(crate) used: StartedUsage,
    dependencies: Dependencies,
    times: JobTimes,
    changes: Changes,
    backlog: PendingTotals,
    crons: cron::Crons,
    detached: messages::DetachedParts,
}

impl State {
    pub fn new() -> State {
        State::default()
    }

    pub fn epoch(&self) -> u64 {
        self.leaders.epoch
    }

    pub fn config_digest(&self) -> &str {
        &self.leaders.config_digest
    }

    /// What hosts have seen beyond the share, if the share is an older copy and no administrator
    /// has confirmed that.
    pub fn restored_share(&self) -> Option<&RestoredShare> {
        self.leaders.restored_share.as_ref()
    }

    /// The last confirmation that the share was restored: the highest epoch that must not be used
    /// again, and when.
    pub fn restored(&self) -> Option<(u64, Stamp)> {
        self.leaders.restored
    }

    /// Whether this state is older than what happened, or its leader's epoch is: no decision may be
    /// based on it.
    pub fn is_old(&self) -> bool {
        let below = |(above, _)| self.leaders.epoch <= above;
        self.leaders.restored_share.is_some() || self.leaders.restored.is_some_and(below)
    }

    /// Distinguishes the last attempt of a job from one with the same id and number that was
    /// dispatched before the share was restored from a copy. Derived from the times of submission
    /// and dispatch. 0 = never dispatched.
    pub fn mark(&self, j: JobKey) -> u32 {
        let job = self.jobs.get(j.id);
        let run = job.and_then(|job| Some((job, job.work(j.idx)?.run.as_deref()?)));
        let Some((job, run)) = run else { return 0 };
        let (submit, dispatch) = (job.submit.0.to_le_bytes(), run.dispatch.0.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c(&submit), &dispatch).max(1)
    }

    /// Whether a host means by this attempt another run than the one that is known here.
    pub fn is_other_run(&self, a: AttemptId, mark: u32) -> bool {
        let known = self.work(a.j).is_some_and(|work| work.attempt == a.at);
        mark != 0 && known && ![0, mark].contains(&self.mark(a.j))
    }

    /// The highest id that was ever assigned.
    pub fn last_id(&self) -> u32 {
        self.numbers.last_job
    }

    pub fn job(&self, id: u32) -> Option<&Job> {
        self.jobs.get(id)
    }

    pub fn jobs(&self) -> impl DoubleEndedIterator<Item = &Job> {
        self.jobs.values()
    }

    pub fn jobs_in(&self, ids: std::ops::Range<u32>) -> impl Iterator<Item = &Job> {
        self.jobs.range(ids).map(|(_, job)| job)
    }

    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// The record of a single job or a materialised element.
    pub fn work(&self, j: JobKey) -> Option<&Work> {
        self.jobs.get(j.id)?.work(j.idx)
    }

    /// State of a job or element, including waiting elements.
    pub fn stat(&self, j: JobKey) -> Option<JobStat> {
        self.jobs.get(j.id)?.stat(j.idx)
    }

    /// The specification of a job. Panics if the number is unknown: every job holds a reference.
    pub fn spec(&self, s: u32) -> &Arc<Spec> {
        &self
            .specs
            .get(&s)
            .expect("jobs refer to live specifications")
            .spec
    }

    fn spec_traits(&self, id: u32) -> Option<SpecTraits> {
        Some(self.specs.get(&self.jobs.get(id)?.spec)?.traits)
    }

    pub fn spec_of(&self, id: u32) -> Option<&Arc<Spec>> {
        Some(self.spec(self.jobs.get(id)?.spec))
    }

    pub fn class_of(&self, s: u32) -> u32 {
        self.specs.get(&s).map_or(0, |e| e.class)
    }

    /// The number of an equal specification in use, if there is one.
    pub fn find_spec(&self, spec: &Spec) -> Option<u32> {
        self.numbers.by_spec.get(spec).copied()
    }

    /// The number for the next specification: the first unused one after the last assigned number;
    /// after the highest number it continues from 1. `None`: all are in use.
    pub fn next_spec(&self) -> Option<u32> {
        let after = |id: u32| id.checked_add(1).unwrap_or(1);
        let mut id = after(self.numbers.last_spec);
        for _ in 0..=self.specs.len() {
            if !self.specs.contains_key(&id) {
                return Some(id);
            }
            id = after(id);
        }
        None
    }

    /// The id for the next job: one above the highest ever assigned, starting again after `max_id`.
    pub fn next_id(&self, max_id: u32) -> Option<u32> {
        let start = if self.numbers.last_job >= max_id {
            1
        } else {
            self.numbers.last_job + 1
        };
        let mut id = start;
        while self.jobs.contains_key(id) {
            id = if id >= max_id { 1 } else { id + 1 };
            if id == start {
                return None;
            }
        }
        Some(id)
    }

    pub fn known_answer(&self, token: Token) -> Option<&KnownAnswer> {
        self.requests.tokens.get(&token)
    }

    /// How far a request that is carried out in parts has advanced; `None` if it is not in
    /// progress.
    pub fn partial_request(&self, token: Token) -> Option<PartialRequest> {
        self.requests.partial.get(&token).copied()
    }

    /// Jobs of a user that may have a matching name, not in order; all that match are among them.
    pub fn maybe_named(&self, uid: u32, glob: &Glob<'_>) -> impl Iterator<Item = &Job> {
        let ids = self.dependencies.names.candidates(uid, glob);
        ids.filter_map(|id| self.jobs.get(id))
    }

    /// The job that this user created with this key, and when.
    pub fn keyed(&self, uid: u32, key: &str) -> Option<(u32, Stamp)> {
        self.requests.keys.get(&(uid, key.to_owned())).copied()
    }

    pub fn queue_ctl(&self, queue: &str) -> QueueCtl {
        self.queues.ctl.get(queue).cloned().unwrap_or_default()
    }

    pub fn host_ctl(&self, host: &str) -> HostCtl {
        self.hosts.ctl.get(host).cloned().unwrap_or_default()
    }

    pub fn known_hosts(&self) -> impl Iterator<Item = (&String, &HostCtl)> {
        self.hosts.ctl.iter()
    }

    pub fn host_id(&self, host: &str) -> Option<HostId> {
        self.hosts.numbers.id(host)
    }

    pub fn host_name(&self, id: HostId) -> &Arc<str> {
        self.hosts.numbers.name(id)
    }

    /// Slots and jobs in use by host, queue and user.
    pub fn used(&self) -> &StartedUsage {
        &self.used
    }

    /// Started jobs on a host with their slots.
    pub fn on_host(&self, host: &str) -> impl Iterator<Item = (JobKey, u32)> {
        self.host_id(host)
            .into_iter()
            .flat_map(|id| self.used.started_on(id))
    }

    pub fn pending_jobs(&self) -> u64 {
        self.backlog.total
    }

    pub fn pending_jobs_of(&self, uid: u32) -> u64 {
        self.waiting_of(uid).jobs
    }

    /// What a user's pending jobs request.
    pub fn waiting_of(&self, uid: u32) -> PendingCounts {
        self.backlog.by_user.get(&uid).copied().unwrap_or_default()
    }

    /// What the pending jobs of a queue request.
    pub fn waiting_in(&self, queue: &str) -> PendingCounts {
        let number = self.used.queue_number(queue);
        let waiting = number.and_then(|n| self.backlog.by_queue.get(n as usize));
        waiting.copied().unwrap_or_default()
    }

    /// All users who ever had jobs, by uid.
    pub fn user_names(&self) -> impl Iterator<Item = (u32, &str)> {
        let known = self.backlog.users.iter();
        known.map(|(uid, name)| (*uid, name.as_str()))
    }

    /// Users with pending jobs, and those who have or had started jobs.
    pub fn users(&self) -> impl Iterator<Item = (u32, &str)> {
        let busy = |uid: u32| self.used.knows_user(uid) || self.waiting_of(uid).jobs > 0;
        self.user_names().filter(move |(uid, _)| busy(*uid))
    }

    pub fn spec_count(&self) -> usize {
        self.specs.len()
    }

    pub fn knows_spec(&self, s: u32) -> bool {
        self.specs.contains_key(&s)
    }

    /// Specifications in use.
    pub fn specs(&self) -> impl Iterator<Item = &SpecEntry> {
        self.specs.values()
    }

    /// Classes and started jobs that changed since the last call, each once and in order. `None` at
    /// the first call: everything must be looked at; changes are recorded from now on.
    pub fn take_changed(&mut self) -> Option<(Vec<u32>, Vec<JobKey>)> {
        let classes = self.pending.take_changed();
        let mut works = self.changes.changed_work.replace(Vec::new())?;
        works.sort_unstable_by_key(|j| j.number());
        works.dedup();
        Some((classes?, works))
    }

    fn note_work(&mut self, j: JobKey) {
        if let Some(log) = &mut self.changes.changed_work {
            log.push(j);
        }
    }

    /// Makes [`State::take_changed`] return a job and its class as if they had changed, because
    /// what a scheduler has booked for it does not happen.
    pub fn mark_changed(&mut self, j: JobKey) {
        if let Some(job) = self.job(j.id) {
            let class = self.class_of(job.spec);
            self.pending.note(class);
        }
        self.note_work(j);
    }

    /// What ended jobs counted in the share trees of queues, and the times to which it refers.
    pub fn share_histories(&self) -> &BTreeMap<String, (Stamp, Vec<UserShareHistory>)> {
        &self.queues.share_histories
    }

    /// All started jobs and elements.
    pub fn all_started(&self) -> impl Iterator<Item = JobKey> {
        self.used.all_work()
    }

    /// Records why the jobs of a class wait. Each pass derives it, so it needs no event.
    pub fn note_reason(&mut self, class: u32, why: PendReason) {
        self.pending.set_why(class, why);
    }

    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Jobs whose dependencies may have changed since the last call.
    pub fn take_dep_dirty(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dependencies.changed)
            .into_iter()
            .collect()
    }

    /// The next of them after `after`, in a circle.
    pub fn pop_dep_dirty(&mut self, after: u32) -> Option<u32> {
        let from = after.checked_add(1);
        let next = from.and_then(|from| self.dependencies.changed.range(from..).next());
        let id = next
            .or_else(|| self.dependencies.changed.first())
            .copied()?;
        self.dependencies.changed.remove(&id);
        Some(id)
    }

    /// Notes that all dependencies must be evaluated again.
    pub fn recheck_dependencies(&mut self) {
        let waiting = self.dependencies.watchers.values().flatten();
        self.dependencies.changed.extend(waiting);
    }

    /// Whether dependencies of some jobs must be evaluated again.
    pub fn has_dep_dirty(&self) -> bool {
        !self.dependencies.changed.is_empty()
    }

    /// Finished jobs whose end was known before `t`, oldest first, and on which no waiting job
    /// depends.
    pub fn finished_before(&self, t: Stamp) -> impl Iterator<Item = u32> {
        let ended = self
            .times
            .finished
            .iter()
            .take_while(move |(end, _)| *end < t);
        ended
            .map(|(_, id)| *id)
            .filter(|id| !self.dependencies.watchers.contains_key(id))
    }

    /// Unfinished jobs whose termination time has come, or (`StartTimeout`) that should have
    /// started by now; each is returned once.
    pub fn take_overdue(&mut self, now: Stamp) -> Vec<(u32, TermReason)> {
        let mut overdue = Vec::new();
        while let Some((at, id)) = self
            .times
            .deadlines
            .first()
            .copied()
            .filter(|(at, _)| *at <= now)
        {
            self.times.deadlines.remove(&(at, id));
            let due = self.jobs.get(id).filter(|job| !job.is_finished());
            let Some(spec) = due.map(|job| self.spec(job.spec)) else {
                continue;
            };
            if spec.deadline.is_some_and(|t| t <= now) {
                overdue.push((id, TermReason::Deadline));
            } else if spec.start_by.is_some_and(|t| t <= now) {
                overdue.push((id, TermReason::StartTimeout));
            }
        }
        overdue
    }

    /// The next termination time.
    pub fn next_deadline(&self) -> Option<Stamp> {
        self.times.deadlines.first().map(|(at, _)| *at)
    }

    /// When the next failed job may be run again.
    pub fn next_retry(&self) -> Option<Stamp> {
        self.times.retries.first().map(|(at, _)| *at)
    }

    /// Failed jobs that may be run again now.
    pub fn retries_due(&self, now: Stamp) -> impl Iterator<Item = JobKey> {
        let due = self
            .times
            .retries
            .iter()
            .take_while(move |(at, _)| *at <= now);
        due.map(|(_, j)| *j)
    }

    /// Records the verdict on the dependency of a job.
    pub fn set_dependency(&mut self, id: u32, verdict: DepVerdict) {
        self.set_dependency_inner(id, verdict);
    }

    /// Records why the waiting part of an array waits: its own limit, or (`None`) the reason of its
    /// class. Each pass derives it, so it needs no event.
    pub fn note_array_limit(&mut self, id: u32, limit: Option<u32>) {
        let Some(Body::Array(array)) = self.jobs.get_mut(id).map(|job| &mut job.body) else {
            return;
        };
        let own = matches!(
            array.why.as_deref(),
            None | Some(PendReason::ArrayLimit { .. })
        );
        let why = limit.map(|limit| Box::new(PendReason::ArrayLimit { limit }));
        if own && array.why != why {
            array.why = why;
            self.changes.rows.note(JobKey::job(id));
        }
    }

    /// Rows that changed since the last call, and specifications first used since then, each once
    /// and in order.
    pub fn take_dirty(&mut self) -> (BTreeSet<u32>, Vec<JobKey>) {
        let keys = self.changes.rows.take();
        (std::mem::take(&mut self.changes.specs), keys)
    }

    /// Removes tokens and keys older than these times. That needs no event: a leader that replays
    /// the journal has more of them for a minute, until it does the same.
    pub fn expire(&mut self, tokens_before: Stamp, keys_before: Stamp) {
        self.requests
            .tokens
            .retain(|_, known| known.t >= tokens_before);
        self.requests
            .partial
            .retain(|_, partly| partly.t >= tokens_before);
        self.requests.keys.retain(|_, (_, t)| *t >= keys_before);
    }

    /// Hashes of blobs to which existing jobs and cron jobs refer.
    pub fn blobs(&self) -> BTreeSet<&str> {
        let specs = self.specs.values().map(|e| &e.spec);
        let of_crons = self.crons().flat_map(|cron| cron.def.jobs());
        let of_crons = of_crons.map(|job| &job.spec);
        specs
            .map(|spec| spec.as_ref())
            .chain(of_crons)
            .flat_map(|s| [&s.env, &s.script, &s.stdin_blob, &s.params].map(String::as_str))
            .filter(|sha| !sha.is_empty())
            .collect()
    }
}

/// The result of evaluating a job's dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DepVerdict {
    Met,
    NotYet(PendReason),
    Never(PendReason),
}

/// Ids of the jobs to which a canonical dependency expression refers.
fn depend_refs(text: &str) -> Vec<u32> {
    use crate::text::depend::Expr;
    Expr::parse_stored(text).map_or_else(|_| Vec::new(), |expr| expr.ids())
}
