//! Floor 2: the cluster in memory. `State::apply(&Event)` is the only way it changes; replaying the
//! journal gives the same state as living through it. No I/O, no clock, no policy.

mod apply;
mod check;
mod chunked_set;
mod cluster;
mod dirty;
mod index;
mod job;
mod names;
mod prefetch;
mod rows;
mod running;
mod snapshot;
mod table;
mod tokens;
mod waits;

#[cfg(test)]
mod tests;

use crate::text::glob::Glob;
pub use chunked_set::ChunkedSet;
use index::Who;
pub use index::{Class, ClassKey, InUse, Pending, Used};
pub use job::{Array, Body, Fate, HostId, Job, Run, Work};
pub use prefetch::PREFETCH_BATCH;
pub use rows::ShardKey;
pub use snapshot::SnapRecord;

use crate::model::{AttemptId, JobKey, JobStat, PendReason, Spec, Stamp, Token};
use crate::record::event::Past;
use cluster::EpochEnd;
use dirty::Dirty;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use table::Table;

/// What an administrator did to a queue; a queue without an entry is open and active.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueueCtl {
    pub open: bool,
    pub active: bool,
    pub by: String,
    pub comment: String,
    pub t: Stamp,
}

impl Default for QueueCtl {
    fn default() -> QueueCtl {
        let (by, comment) = (String::new(), String::new());
        QueueCtl {
            open: true,
            active: true,
            by,
            comment,
            t: Stamp(0),
        }
    }
}

/// What is known of a host beyond its load: the administrator's word and the leader's judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct HostCtl {
    pub closed: bool,
    pub by: String,
    pub comment: String,
    pub t: Stamp,
    /// The leader saw its heart beat.
    pub up: bool,
    /// Boot id of the last report.
    pub boot: String,
    /// The ledger in which it keeps its orders; empty = not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ledger: String,
}

/// What hosts have seen that the share does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Back {
    /// The epoch that a host has followed and that is not here, or not as the host knows it; and
    /// which host.
    pub epoch: u64,
    pub host: String,
    /// Highest job id that hosts were given.
    pub id: u32,
    pub t: Stamp,
}

/// The answer to a token that was carried out before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub t: Stamp,
    /// Jobs made by it: (pack line, id), few for single submissions.
    pub jobs: JobRuns,
}

/// Consecutive ids made for consecutive pack lines: (line, id, count).
pub type JobRuns = smallvec::SmallVec<[(u32, u32, u32); 1]>;

/// How far a request has come of which only a part was carried out so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partly {
    pub t: Stamp,
    /// Its next verb.
    pub verb: u32,
    /// The next thing that this verb selects, and where to go on in it.
    pub at: (u32, u32),
}

/// A specification in use.
#[derive(Clone, Debug)]
pub struct SpecEntry {
    pub spec: Arc<Spec>,
    /// Jobs that refer to it.
    pub refs: u32,
    /// Scheduling class of its jobs.
    pub class: u32,
    /// Works of its jobs that wait (PEND or PSUSP).
    pub waiting: u64,
    /// Who uses what its started jobs hold.
    who: Who,
    /// Its jobs wait for others.
    depends: bool,
}

/// Everything that follows from the journal.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(crate) epoch: u64,
    /// Where the journals of the last epochs end.
    epochs: BTreeMap<u64, EpochEnd>,
    pub(crate) jobs: Table<Job>,
    pub(crate) specs: FxHashMap<u32, SpecEntry>,
    spec_ids: HashMap<Arc<Spec>, u32>,
    /// The specification number given last.
    last_spec: u32,
    /// Highest id ever given; ids are not reused before they roll over.
    last_id: u32,
    tokens: HashMap<Token, Known>,
    keys: HashMap<(u32, String), (u32, Stamp)>,
    queues: BTreeMap<String, QueueCtl>,
    hosts: BTreeMap<String, HostCtl>,
    host_ids: FxHashMap<Arc<str>, HostId>,
    host_names: Vec<Arc<str>>,
    pub(crate) pending: Pending,
    pub(crate) used: Used,
    names: names::Names,
    /// Requests that are carried out over several turns: how far they have come.
    partly: HashMap<Token, Partly>,
    /// Jobs waiting for a dependency, by job referred to.
    watchers: FxHashMap<u32, BTreeSet<u32>>,
    /// Jobs whose dependency must be looked at again.
    dep_dirty: BTreeSet<u32>,
    /// Finished jobs by when their end was known.
    finished: BTreeSet<(Stamp, u32)>,
    /// Termination times (`-t`) of jobs; those of finished jobs are ignored.
    deadlines: BTreeSet<(Stamp, u32)>,
    /// Rows that the view does not show yet.
    dirty: Dirty,
    dirty_specs: BTreeSet<u32>,
    /// Pending jobs (elements counted) per user and in all.
    pend_user: FxHashMap<u32, u64>,
    pend_total: u64,
    config_digest: String,
    /// The share is older than what hosts have seen: nothing is decided.
    back: Option<Back>,
    /// The last word that the share was restored: all earlier epochs are at most this, and when.
    restored: Option<(u64, Stamp)>,
    /// What ended work counts in the share trees of queues, and as of when.
    pasts: BTreeMap<String, (Stamp, Vec<Past>)>,
    /// Elements read from a snapshot whose job comes later.
    restoring: FxHashMap<u32, Vec<snapshot::SnapWork>>,
    /// Work that started, ended or changed what it holds since the scheduler last asked; `None`:
    /// it never asks.
    work_log: Option<Vec<JobKey>>,
}

impl State {
    pub fn new() -> State {
        State::default()
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn config_digest(&self) -> &str {
        &self.config_digest
    }

    /// The share went back, and no administrator has said that this is known.
    pub fn back(&self) -> Option<&Back> {
        self.back.as_ref()
    }

    /// The last word that the share was restored: the epochs that must not come again, and when.
    pub fn restored(&self) -> Option<(u64, Stamp)> {
        self.restored
    }

    /// This state is older than what happened, or its leader's epoch is: nothing may follow from
    /// it.
    pub fn is_old(&self) -> bool {
        let below = |(above, _)| self.epoch <= above;
        self.back.is_some() || self.restored.is_some_and(below)
    }

    /// Tells the last attempt of a job from one of the same id and number that was dispatched
    /// before the share was restored from a copy: made of the times of submission and dispatch. 0 =
    /// never dispatched.
    pub fn mark(&self, j: JobKey) -> u32 {
        let job = self.jobs.get(j.id);
        let run = job.and_then(|job| Some((job, job.work(j.idx)?.run.as_deref()?)));
        let Some((job, run)) = run else { return 0 };
        let (submit, dispatch) = (job.submit.0.to_le_bytes(), run.dispatch.0.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c(&submit), &dispatch).max(1)
    }

    /// A host means another run by this attempt than the one that is known here.
    pub fn is_other(&self, a: AttemptId, mark: u32) -> bool {
        let known = self.work(a.j).is_some_and(|work| work.attempt == a.at);
        mark != 0 && known && ![0, mark].contains(&self.mark(a.j))
    }

    /// Highest id ever given.
    pub fn last_id(&self) -> u32 {
        self.last_id
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

    /// The work of a single job or a materialised element.
    pub fn work(&self, j: JobKey) -> Option<&Work> {
        self.jobs.get(j.id)?.work(j.idx)
    }

    /// State of a job or element, waiting elements included.
    pub fn stat(&self, j: JobKey) -> Option<JobStat> {
        self.jobs.get(j.id)?.stat(j.idx)
    }

    /// The specification of a job. Panics on an unknown number: every job holds a reference.
    pub fn spec(&self, s: u32) -> &Arc<Spec> {
        &self
            .specs
            .get(&s)
            .expect("jobs refer to live specifications")
            .spec
    }

    pub fn spec_of(&self, id: u32) -> Option<&Arc<Spec>> {
        Some(self.spec(self.jobs.get(id)?.spec))
    }

    pub fn class_of(&self, s: u32) -> u32 {
        self.specs.get(&s).map_or(0, |e| e.class)
    }

    /// The number of an equal specification in use, if there is one.
    pub fn find_spec(&self, spec: &Spec) -> Option<u32> {
        self.spec_ids.get(spec).copied()
    }

    /// The number for the next specification: the first one after the last given that is not in
    /// use, from 1 again after the highest there is. `None`: all are in use.
    pub fn next_spec(&self) -> Option<u32> {
        let after = |id: u32| id.checked_add(1).unwrap_or(1);
        let mut id = after(self.last_spec);
        for _ in 0..=self.specs.len() {
            if !self.specs.contains_key(&id) {
                return Some(id);
            }
            id = after(id);
        }
        None
    }

    /// The id for the next job: one above the highest ever given, rolling over after `max_id`.
    pub fn next_id(&self, max_id: u32) -> Option<u32> {
        let start = if self.last_id >= max_id {
            1
        } else {
            self.last_id + 1
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

    pub fn known(&self, token: Token) -> Option<&Known> {
        self.tokens.get(&token)
    }

    /// How far a request has come that is carried out in parts, while it is.
    pub fn partly(&self, token: Token) -> Option<Partly> {
        self.partly.get(&token).copied()
    }

    /// Jobs of a user that may have a name that matches, not in order; all that do are among them.
    pub fn maybe_named(&self, uid: u32, glob: &Glob<'_>) -> impl Iterator<Item = &Job> {
        let ids = self.names.candidates(uid, glob);
        ids.filter_map(|id| self.jobs.get(id))
    }

    /// The job made with this key by this user, and when.
    pub fn keyed(&self, uid: u32, key: &str) -> Option<(u32, Stamp)> {
        self.keys.get(&(uid, key.to_owned())).copied()
    }

    pub fn queue_ctl(&self, queue: &str) -> QueueCtl {
        self.queues.get(queue).cloned().unwrap_or_default()
    }

    pub fn host_ctl(&self, host: &str) -> HostCtl {
        self.hosts.get(host).cloned().unwrap_or_default()
    }

    pub fn known_hosts(&self) -> impl Iterator<Item = (&String, &HostCtl)> {
        self.hosts.iter()
    }

    pub fn host_id(&self, host: &str) -> Option<HostId> {
        self.host_ids.get(host).copied()
    }

    pub fn host_name(&self, id: HostId) -> &Arc<str> {
        &self.host_names[id.0 as usize]
    }

    /// Slots and work in use by host, queue and user.
    pub fn used(&self) -> &Used {
        &self.used
    }

    /// Started work on a host with its slots.
    pub fn on_host(&self, host: &str) -> impl Iterator<Item = (JobKey, u32)> {
        self.host_id(host)
            .into_iter()
            .flat_map(|id| self.used.work_on(id))
    }

    pub fn pending_jobs(&self) -> u64 {
        self.pend_total
    }

    pub fn pending_jobs_of(&self, uid: u32) -> u64 {
        self.pend_user.get(&uid).copied().unwrap_or(0)
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

    /// Classes and started work that changed since the last call, each once and in order. `None` at
    /// the first call: everything is to be looked at, changes are noted from now on.
    pub fn take_changed(&mut self) -> Option<(Vec<u32>, Vec<JobKey>)> {
        let classes = self.pending.take_changed();
        let mut works = self.work_log.replace(Vec::new())?;
        works.sort_unstable_by_key(|j| j.number());
        works.dedup();
        Some((classes?, works))
    }

    fn note_work(&mut self, j: JobKey) {
        if let Some(log) = &mut self.work_log {
            log.push(j);
        }
    }

    /// What ended work counted in the share trees of queues, as of these times.
    pub fn pasts(&self) -> &BTreeMap<String, (Stamp, Vec<Past>)> {
        &self.pasts
    }

    /// All started work.
    pub fn all_started(&self) -> impl Iterator<Item = JobKey> {
        self.used.all_work()
    }

    /// Notes why the jobs of a class wait. Derived by each pass, so it needs no event.
    pub fn note_reason(&mut self, class: u32, why: PendReason) {
        self.pending.set_why(class, why);
    }

    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Jobs whose dependencies may have changed since the last call.
    pub fn take_dep_dirty(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dep_dirty).into_iter().collect()
    }

    /// The next of them after `after`, in a circle.
    pub fn pop_dep_dirty(&mut self, after: u32) -> Option<u32> {
        let from = after.checked_add(1);
        let next = from.and_then(|from| self.dep_dirty.range(from..).next());
        let id = next.or_else(|| self.dep_dirty.first()).copied()?;
        self.dep_dirty.remove(&id);
        Some(id)
    }

    /// There are such jobs.
    pub fn has_dep_dirty(&self) -> bool {
        !self.dep_dirty.is_empty()
    }

    /// Finished jobs whose end was known before `t`, oldest first, that no waiting job depends on.
    pub fn finished_before(&self, t: Stamp) -> impl Iterator<Item = u32> {
        let ended = self.finished.iter().take_while(move |(end, _)| *end < t);
        ended
            .map(|(_, id)| *id)
            .filter(|id| !self.watchers.contains_key(id))
    }

    /// Unfinished jobs whose termination time has come, each returned once.
    pub fn take_overdue(&mut self, now: Stamp) -> Vec<u32> {
        let mut overdue = Vec::new();
        while let Some((at, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            let due = self.jobs.get(id).filter(|job| !job.is_finished());
            if due.is_some_and(|job| self.spec(job.spec).deadline.is_some_and(|t| t <= now)) {
                overdue.push(id);
            }
        }
        overdue
    }

    /// The next termination time.
    pub fn next_deadline(&self) -> Option<Stamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The recorded verdict on a dependency: true = the job may be scheduled.
    pub fn set_dependency(&mut self, id: u32, verdict: DepVerdict) {
        self.set_dependency_inner(id, verdict);
    }

    /// Notes why the waiting part of an array waits: its own limit, or (`None`) its class's reason.
    /// Derived by each pass, so it needs no event.
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
            self.dirty.note(JobKey::job(id));
        }
    }

    /// Rows changed since the last call, and specifications first used since then, each once and
    /// in order.
    pub fn take_dirty(&mut self) -> (BTreeSet<u32>, Vec<JobKey>) {
        let mut keys = self.dirty.take();
        // Elements leave with their array.
        keys.retain(|j| j.idx == 0 || self.jobs.contains_key(j.id));
        (std::mem::take(&mut self.dirty_specs), keys)
    }

    /// Forgets tokens and keys older than these times. That needs no event: a leader that replays
    /// has more of them for a minute, until it does the same.
    pub fn expire(&mut self, tokens_before: Stamp, keys_before: Stamp) {
        self.tokens.retain(|_, known| known.t >= tokens_before);
        self.partly.retain(|_, partly| partly.t >= tokens_before);
        self.keys.retain(|_, (_, t)| *t >= keys_before);
    }

    /// Hashes of blobs that live jobs refer to.
    pub fn blobs(&self) -> BTreeSet<&str> {
        let specs = self.specs.values().map(|e| &e.spec);
        specs
            .flat_map(|s| [s.env.as_str(), s.script.as_str(), s.stdin_blob.as_str()])
            .filter(|sha| !sha.is_empty())
            .collect()
    }
}

/// What evaluation said of a job's dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DepVerdict {
    Met,
    NotYet(PendReason),
    Never(PendReason),
}

/// Ids of the jobs that a canonical dependency expression refers to.
fn depend_refs(text: &str) -> Vec<u32> {
    use crate::text::depend::{Expr, JobRef};
    let Ok(expr) = Expr::parse_stored(text) else {
        return Vec::new();
    };
    let ids = expr
        .conditions()
        .into_iter()
        .filter_map(|cond| match &cond.target.job {
            JobRef::Id(id) => Some(*id),
            JobRef::Name(_) => None,
        });
    ids.collect()
}
