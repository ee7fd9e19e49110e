//! A job in memory: small, since there may be a million of them. What all jobs of one submission
//! share is the specification (by number); what only started work has is boxed apart.

use crate::model::{
    Binding, JobKey, JobStat, PartBinding, PendReason, Stamp, SuspReason, TermReason, Units,
};
use crate::record::event::SignalAct;
use crate::record::report::{PartUse, Usage};
use crate::text::indexset::IndexSet;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A host's number in this process; never stored on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub u32);

/// A job or an array.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: u32,
    /// Specification number.
    pub spec: u32,
    pub submit: Stamp,
    /// Position in the pending order of its queue and priority: smaller first.
    pub order: i64,
    /// `None`: named after its command.
    pub name: Option<Box<str>>,
    pub command: Box<str>,
    pub key: Option<Box<str>>,
    /// A dependency that is not met yet excludes the job from scheduling.
    pub gated: bool,
    /// Excluded from scheduling for a while by this leader; never stored on disk.
    pub deferred: bool,
    pub body: Body,
}

/// A single job or an array.
#[derive(Clone, Debug)]
pub enum Body {
    Single(Work),
    Array(Box<Array>),
}

/// Elements get a [`Work`] of their own once something happens to them.
#[derive(Clone, Debug)]
pub struct Array {
    pub all: IndexSet,
    /// Elements without a [`Work`] of their own: never started, all in state `head`.
    pub waiting: IndexSet,
    /// PEND or PSUSP.
    pub head: JobStat,
    pub why: Option<Box<PendReason>>,
    /// Maximum number of started elements at a time, 0 = no limit.
    pub limit: u32,
    pub work: BTreeMap<u32, Work>,
    /// Materialised elements by state, indexed by `JobStat as usize`.
    pub counts: [u32; 8],
}

/// One schedulable unit: a single job or an array element.
#[derive(Clone, Debug, Default)]
pub struct Work {
    pub stat: JobStat,
    /// Number of the last attempt, 0 = never dispatched.
    pub attempt: u32,
    /// Why it waits, if the reason belongs to it and not to its class.
    pub why: Option<Box<PendReason>>,
    pub run: Option<Box<Run>>,
}

impl Work {
    /// Number of attempts that count as runs: those that could not be started do not.
    pub fn runs(&self) -> u32 {
        let put_back = self.run.as_deref().map_or(0, Run::put_back);
        self.attempt.saturating_sub(put_back)
    }

    /// When it may be run again after a failure, while it waits for that.
    pub(super) fn retry_at(&self) -> Option<Stamp> {
        match self.why.as_deref() {
            Some(PendReason::Retry(retry)) if self.stat == JobStat::Pend => Some(Stamp(retry.at)),
            _ => None,
        }
    }

    fn is_ready(&self) -> bool {
        self.stat == JobStat::Pend && self.retry_at().is_none()
    }
}

/// Usage of a job whose host has reported none.
static NOTHING: Usage = Usage {
    cpu_ms: 0,
    mem_kb: 0,
    maxmem_kb: 0,
    host_maxmem_kb: 0,
    swap_kb: 0,
    maxswap_kb: 0,
    procs: 0,
    threads: 0,
    read_kb: 0,
    write_kb: 0,
    devices: None,
    wrong_units: Vec::new(),
    pids: Vec::new(),
    tasks: Vec::new(),
    command_end: None,
    hook: None,
};

/// Usage in the form that a run stores.
pub(super) fn reported(usage: &Usage) -> Option<Box<Usage>> {
    (!usage.is_empty()).then(|| Box::new(usage.clone()))
}

/// The last attempt of a job or element, running or finished.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Hosts in order with their slots; the first runs the command.
    pub hosts: SmallVec<[(HostId, u32); 1]>,
    pub dispatch: Stamp,
    /// 0 until the host reported the start.
    pub start: Stamp,
    pub pid: u32,
    /// An accepted kill or requeue that is not yet carried out.
    pub killing: Option<SignalAct>,
    pub user_stop: UserStop,
    pub suspension: Suspension,
    pub orders: OrderNumbers,
    /// Hosts other than the first prepare their parts; the first has no order to start yet.
    pub preparing: bool,
    pub rerun: Rerun,
    /// The alternative of its requirement by which it was placed.
    pub alt: u8,
    /// Started by an administrator: nothing preempts it.
    pub forced: bool,
    /// `None`: nothing was reported, as for most jobs until they end.
    pub(super) usage: Option<Box<Usage>>,
    pub end: Option<Box<JobEnd>>,
    pub(super) extras: Option<Box<RunExtras>>,
}

/// Whether an attempt may be run again without a request when its host is lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rerun {
    /// It was dispatched as a job that its host ends when it is cut off, and that may then run
    /// elsewhere. A later change of the job applies to the next attempt.
    pub allowed: bool,
    /// It was running when the copy was made from which the share was restored: it may have run
    /// again since, and is not run again unless requested.
    pub copied: bool,
}

/// Whether users want an attempt to be suspended (USUSP).
#[derive(Clone, Copy, Debug, Default)]
pub struct UserStop {
    pub wanted: bool,
    /// A user other than the owner wants it: the owner may not resume the attempt.
    pub by_other: bool,
}

/// Whether the system wants an attempt to be suspended, and for how long it has been suspended.
#[derive(Clone, Debug, Default)]
pub struct Suspension {
    /// The system wants it (SSUSP, unless a user wants it, too).
    pub by_system: Option<Box<SuspReason>>,
    /// Since when its host reports that it is suspended, 0 = it is not.
    pub since: Stamp,
    /// Duration of the suspensions that have ended, ms.
    pub total_ms: u64,
}

/// Numbers of the last orders of each kind that change a started attempt; 0 = there was none.
#[derive(Clone, Debug, Default)]
pub struct OrderNumbers {
    pub signals: u32,
    /// Slots were added to it.
    pub resizes: u32,
    /// Its limits were changed after it was dispatched.
    pub limits: u32,
}

/// What only few runs have. It is kept separately, since every start and end reads the run from far
/// away in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct RunExtras {
    /// Units of resources with `assign` that it has on its hosts, until it ends.
    pub(super) units: SmallVec<[Units; 1]>,
    /// When it will be stopped or ended to make room, according to the warning; 0 = it was not
    /// warned.
    pub(super) preempt_at: Stamp,
    /// The signal of the warning, 0 = none.
    pub(super) warn_signal: i32,
    /// What its host has bound it to, if its queue binds jobs.
    pub(super) bind: Option<Box<Binding>>,
    /// When its host last saved its state, or tried to.
    pub(super) saved_at: Stamp,
    /// It must be saved, ended and put back to pending. True: regardless of what prevents saving
    /// it.
    pub(super) migrating: Option<bool>,
    /// What its hosts after the first have bound their parts to.
    pub(super) part_binds: Vec<PartBinding>,
    /// After its end: the part of its usage that belongs to hosts after the first.
    pub(super) part_use: Vec<PartUse>,
    /// Attempts so far that were put back because they could not be started.
    pub(super) put_back: u32,
}

impl RunExtras {
    /// Returns `None` if there is nothing to keep.
    pub(super) fn boxed(self) -> Option<Box<RunExtras>> {
        let times = [self.preempt_at, self.saved_at];
        let has = !self.units.is_empty() || times != [Stamp(0); 2] || self.bind.is_some();
        let has = has || !self.part_binds.is_empty() || !self.part_use.is_empty();
        let has = has || self.migrating.is_some() || self.put_back > 0;
        has.then(|| Box::new(self))
    }
}

impl Run {
    /// Units of resources with `assign` that it has on its hosts, until it ends.
    pub fn units(&self) -> &[Units] {
        self.extras.as_deref().map_or(&[], |more| &more.units)
    }

    /// When it will be stopped or ended to make room, according to the warning, and the signal of
    /// the warning, 0 = none. `None`: it was not warned.
    pub fn warned(&self) -> Option<(Stamp, i32)> {
        let more = self.extras.as_deref()?;
        (more.preempt_at != Stamp(0)).then_some((more.preempt_at, more.warn_signal))
    }

    /// What its host has bound it to, if its queue binds jobs.
    pub fn bind(&self) -> Option<&Binding> {
        self.extras.as_deref()?.bind.as_deref()
    }

    /// What its hosts after the first have bound their parts to, if its queue binds jobs.
    pub fn part_binds(&self) -> &[PartBinding] {
        self.extras.as_deref().map_or(&[], |more| &more.part_binds)
    }

    pub(super) fn set_part_bind(&mut self, part: &PartBinding) {
        let all = &mut self.extras.get_or_insert_default().part_binds;
        match all.iter_mut().find(|known| known.host == part.host) {
            Some(known) => known.clone_from(part),
            None => all.push(part.clone()),
        }
    }

    /// After its end: the part of its usage that belongs to hosts after the first.
    pub fn part_use(&self) -> &[PartUse] {
        self.extras.as_deref().map_or(&[], |more| &more.part_use)
    }

    pub(super) fn set_part_use(&mut self, parts: &[PartUse]) {
        if !parts.is_empty() || self.extras.is_some() {
            self.extras.get_or_insert_default().part_use = parts.to_vec();
        }
    }

    pub(super) fn add_late_usage(&mut self, late: &PartUse) {
        let mut sum = self.usage().clone();
        let parts = &mut self.extras.get_or_insert_default().part_use;
        sum.add_late_usage(parts, late);
        self.set_usage(&sum);
    }

    /// When its host last saved its state, or tried to; 0 = never.
    pub fn saved_at(&self) -> Stamp {
        self.extras
            .as_deref()
            .map_or(Stamp(0), |more| more.saved_at)
    }

    pub(super) fn set_saved_at(&mut self, t: Stamp) {
        let more = self.extras.get_or_insert_default();
        more.saved_at = more.saved_at.max(t);
    }

    /// Whether its host is ordered to save it and then to end it, so that it runs again elsewhere.
    /// True: regardless of what prevents saving it.
    pub fn migrating(&self) -> Option<bool> {
        self.extras.as_deref()?.migrating
    }

    pub(super) fn set_migrating(&mut self, force: Option<bool>) {
        if force.is_some() || self.extras.is_some() {
            self.extras.get_or_insert_default().migrating = force;
        }
    }

    /// Attempts so far that were put back because they could not be started.
    pub(super) fn put_back(&self) -> u32 {
        self.extras.as_deref().map_or(0, |more| more.put_back)
    }

    pub(super) fn note_put_back(&mut self) {
        self.extras.get_or_insert_default().put_back += 1;
    }

    pub(super) fn set_bind(&mut self, bind: &Option<Box<Binding>>) {
        if bind.is_some() || self.extras.is_some() {
            self.extras.get_or_insert_default().bind.clone_from(bind);
        }
    }

    pub(super) fn set_warned(&mut self, at: Stamp, signal: i32) {
        if at != Stamp(0) || self.extras.is_some() {
            let more = self.extras.get_or_insert_default();
            (more.preempt_at, more.warn_signal) = (at, signal);
        }
    }

    /// Prefetches its parts by reading one value of each.
    pub(super) fn prefetch(&self) -> usize {
        let host = self.hosts.first().map_or(0, |(host, _)| host.0 as usize);
        let units = self.units().first().and_then(|units| units.names.first());
        let units = units.map_or(0, |name| name.len());
        host ^ self.orders.resizes as usize ^ usize::from(self.end.is_some()) ^ units
    }

    /// Its usage as its host last reported it.
    pub fn usage(&self) -> &Usage {
        self.usage.as_deref().unwrap_or(&NOTHING)
    }

    pub(super) fn set_usage(&mut self, usage: &Usage) {
        self.usage = reported(usage);
    }

    pub fn slots(&self) -> u32 {
        self.hosts.iter().map(|(_, n)| n).sum()
    }

    /// Whether it must be stopped, by the wish of a user or of the system.
    pub fn to_stop(&self) -> bool {
        self.user_stop.wanted || self.suspension.by_system.is_some()
    }

    /// Whether its slots are lent to a job that preempted it.
    pub fn lends_slots(&self) -> bool {
        matches!(
            self.suspension.by_system.as_deref(),
            Some(SuspReason::Preempted { .. })
        )
    }

    /// Its state as its host last reported it, ignoring a silent host. `None`: it is on its way
    /// back to running.
    pub(super) fn reported_stat(&self) -> Option<JobStat> {
        match (
            self.suspension.since,
            self.user_stop.wanted,
            &self.suspension.by_system,
        ) {
            (Stamp(0), ..) => Some(JobStat::Run),
            (_, true, _) => Some(JobStat::Ususp),
            (_, false, Some(_)) => Some(JobStat::Ssusp),
            (_, false, None) => None,
        }
    }
}

/// How a job or element ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobEnd {
    /// By its host's clock.
    pub end: Stamp,
    /// When a leader learned of the end, by the leader's clock; 0 = as `end`.
    #[serde(skip_serializing_if = "is_zero")]
    pub known: Stamp,
    pub code: Option<i32>,
    /// The exit code is not 0 and counts as a success.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub success: bool,
    pub sig: i32,
    pub core: bool,
    pub oom: bool,
    /// A post-exec command failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub post_failed: bool,
    pub reason: TermReason,
    pub text: String,
}

fn is_zero(t: &Stamp) -> bool {
    *t == Stamp(0)
}

impl Job {
    /// Prefetches its parts by reading one value of each.
    pub(super) fn prefetch(&self) -> usize {
        let stat = match &self.body {
            Body::Single(work) => work.stat as usize,
            Body::Array(array) => array.limit as usize,
        };
        self.spec as usize ^ self.command.len() ^ stat
    }

    pub fn work(&self, idx: u32) -> Option<&Work> {
        match &self.body {
            Body::Single(work) => (idx == 0).then_some(work),
            Body::Array(array) => array.work.get(&idx),
        }
    }

    pub(super) fn work_mut(&mut self, idx: u32) -> Option<&mut Work> {
        match &mut self.body {
            Body::Single(work) => (idx == 0).then_some(work),
            Body::Array(array) => array.work.get_mut(&idx),
        }
    }

    /// State of the job (`idx` 0 of an array: of its waiting part) or of one element.
    pub fn stat(&self, idx: u32) -> Option<JobStat> {
        match &self.body {
            Body::Single(work) => (idx == 0).then_some(work.stat),
            Body::Array(array) if idx == 0 => Some(array.head),
            Body::Array(array) => match array.work.get(&idx) {
                Some(work) => Some(work.stat),
                None => array.waiting.contains(idx).then_some(array.head),
            },
        }
    }

    pub fn array(&self) -> Option<&Array> {
        match &self.body {
            Body::Array(array) => Some(array),
            Body::Single(_) => None,
        }
    }

    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.command)
    }

    /// Whether all of it has ended.
    pub fn is_finished(&self) -> bool {
        match &self.body {
            Body::Single(work) => work.stat.is_finished(),
            Body::Array(array) => {
                array.waiting.is_empty() && array.work.len() as u32 == array.finished()
            }
        }
    }

    /// When a leader learned that the last part of it had ended (0 if nothing has). The time for
    /// which a job is remembered starts then: the host's clock may be far from the leader's.
    pub fn end_learned_at(&self) -> Stamp {
        let of = |w: &Work| {
            w.run
                .as_ref()
                .and_then(|r| r.end.as_ref())
                .map_or(
                    Stamp(0),
                    |f| if f.known == Stamp(0) { f.end } else { f.known },
                )
        };
        match &self.body {
            Body::Single(work) => of(work),
            Body::Array(array) => array.work.values().map(of).max().unwrap_or(Stamp(0)),
        }
    }
}

impl Array {
    pub fn count(&self, stat: JobStat) -> u32 {
        self.counts[stat as usize]
    }

    /// Number of elements bound to hosts.
    pub fn started(&self) -> u32 {
        JobStat::ALL
            .iter()
            .filter(|s| s.is_started())
            .map(|s| self.count(*s))
            .sum()
    }

    pub fn finished(&self) -> u32 {
        self.count(JobStat::Done) + self.count(JobStat::Exit)
    }

    /// Forgets that its own limit is why it waits, once fewer elements are started.
    pub(super) fn drop_outdated_limit(&mut self) {
        let own = matches!(self.why.as_deref(), Some(PendReason::ArrayLimit { .. }));
        if own && (self.limit == 0 || self.started() < self.limit) {
            self.why = None;
        }
    }
}

/// Changes and traversals that only the state itself performs.
impl Job {
    /// Creates a separate element from a waiting one. `None`: there is no such element.
    pub(super) fn materialise(&mut self, idx: u32) -> Option<&mut Work> {
        match &mut self.body {
            Body::Single(work) => (idx == 0).then_some(work),
            Body::Array(array) => {
                if array.waiting.remove(idx) {
                    // The array's own limit is the reason of the waiting part only and never
                    // written to the journal.
                    let why = array.why.clone();
                    let why = why.filter(|w| !matches!(**w, PendReason::ArrayLimit { .. }));
                    let work = Work {
                        stat: array.head,
                        why,
                        ..Work::default()
                    };
                    array.counts[array.head as usize] += 1;
                    array.work.insert(idx, work);
                }
                array.work.get_mut(&idx)
            }
        }
    }

    pub(super) fn set_stat(&mut self, idx: u32, stat: JobStat) {
        match &mut self.body {
            Body::Single(work) => work.stat = stat,
            Body::Array(array) if idx == 0 => array.head = stat,
            Body::Array(array) => {
                if let Some(work) = array.work.get_mut(&idx) {
                    array.counts[work.stat as usize] -= 1;
                    array.counts[stat as usize] += 1;
                    work.stat = stat;
                }
                array.drop_outdated_limit();
            }
        }
    }

    /// Sets the reason that belongs to this job alone. That it was requeued is none: from now on it
    /// waits for what its class waits for.
    pub(super) fn set_why(&mut self, idx: u32, why: Option<PendReason>) {
        let of_class = |why: &PendReason| matches!(why, PendReason::New | PendReason::Requeued);
        let why = why.filter(|why| !of_class(why)).map(Box::new);
        match &mut self.body {
            Body::Array(array) if idx == 0 => array.why = why,
            _ => {
                if let Some(work) = self.work_mut(idx) {
                    work.why = why;
                }
            }
        }
    }

    /// The job's own reason, without that of its class.
    pub fn own_reason(&self, idx: u32) -> Option<&PendReason> {
        match &self.body {
            Body::Array(array) if idx == 0 => array.why.as_deref(),
            _ => self.work(idx)?.why.as_deref(),
        }
    }

    /// Whether some of it waits.
    pub(super) fn is_waiting(&self) -> bool {
        match &self.body {
            Body::Single(work) => work.stat.is_waiting(),
            Body::Array(array) => {
                !array.waiting.is_empty()
                    || array.count(JobStat::Pend) + array.count(JobStat::Psusp) > 0
            }
        }
    }

    /// After a change of the job: whether its condition must be watched again (true) or no longer
    /// (false). `depends`: it has one.
    pub(super) fn watch_changes(&mut self, depends: bool, was_waiting: bool) -> Option<bool> {
        if !depends {
            return None;
        }
        let waits = self.is_waiting();
        if !waits && self.gated && self.was_started() {
            // Verdicts have no events: this is what a leader that replays the journal knows of a
            // condition that was met, and jobs that it names may have been forgotten when the job
            // runs again.
            self.gated = false;
        }
        match (waits, was_waiting) {
            (true, false) if self.gated => Some(true),
            (true, _) => None,
            (false, _) => Some(false),
        }
    }

    /// Whether a condition can still exclude what waits of it from scheduling: one that was met for
    /// all of it is not judged again when a part of it waits to run again, since the jobs that it
    /// names may have been forgotten.
    pub(super) fn may_be_gated(&self) -> bool {
        let never_started = |work: &Work| work.stat.is_waiting() && work.run.is_none();
        let fresh = match &self.body {
            Body::Single(work) => never_started(work),
            Body::Array(array) => {
                !array.waiting.is_empty() || array.work.values().any(never_started)
            }
        };
        fresh || (self.gated && self.is_waiting())
    }

    /// Whether something of it was ever bound to a host.
    pub(super) fn was_started(&self) -> bool {
        match &self.body {
            Body::Single(work) => work.attempt > 0,
            Body::Array(array) => array.work.values().any(|work| work.attempt > 0),
        }
    }

    /// Number of waiting jobs or elements that a change at index `idx` can affect: for an array its
    /// unstarted part, plus the element (all materialised elements if `idx` is 0).
    pub(super) fn weight(&self, idx: u32) -> u64 {
        match &self.body {
            Body::Single(work) => u64::from(work.stat.is_waiting()),
            Body::Array(array) => {
                let own = array.work.get(&idx).is_some_and(|w| w.stat.is_waiting());
                let all = array.count(JobStat::Pend) + array.count(JobStat::Psusp);
                let others = if idx == 0 {
                    u64::from(all)
                } else {
                    u64::from(own)
                };
                array.waiting.len() + others
            }
        }
    }

    pub(super) fn pend_ready(&self, idx: u32) -> bool {
        if self.gated || self.deferred {
            return false;
        }
        match &self.body {
            Body::Array(array) if idx == 0 => {
                array.head == JobStat::Pend && !array.waiting.is_empty()
            }
            _ => self.work(idx).is_some_and(Work::is_ready),
        }
    }

    /// Calls `put` for the pending entries that a change at `idx` may have added.
    pub(super) fn list(&self, idx: u32, mut put: impl FnMut(i64, JobKey)) {
        if idx > 0 && self.pend_ready(idx) {
            put(self.order, JobKey::element(self.id, idx));
        }
        if self.pend_ready(0) {
            put(self.order, JobKey::job(self.id));
        }
    }

    /// Calls `take` for the entries that a change at `idx` may remove.
    pub(super) fn each_removable(&self, idx: u32, mut take: impl FnMut(i64, JobKey)) {
        if idx > 0 && self.pend_ready(idx) {
            take(self.order, JobKey::element(self.id, idx));
        }
        if self.pend_ready(0) {
            take(self.order, JobKey::job(self.id));
        }
    }

    /// Calls `f` for each job or element that waits to be run again.
    pub(super) fn each_retry(&self, f: &mut dyn FnMut(Stamp, JobKey)) {
        match &self.body {
            Body::Single(work) => {
                if let Some(at) = work.retry_at() {
                    f(at, JobKey::job(self.id));
                }
            }
            Body::Array(array) => {
                for (idx, work) in &array.work {
                    if let Some(at) = work.retry_at() {
                        f(at, JobKey::element(self.id, *idx));
                    }
                }
            }
        }
    }

    pub(super) fn charge(&self, idx: u32, mut f: impl FnMut(&Run, JobStat)) {
        if let Some(work) = self.work(idx)
            && work.stat.is_started()
            && let Some(run) = work.run.as_deref()
        {
            f(run, work.stat);
        }
    }

    /// Calls `f` for each started job or element.
    pub fn each_started(&self, f: &mut dyn FnMut(JobKey, &Run, JobStat)) {
        match &self.body {
            Body::Single(_) => self.charge(0, |run, stat| f(JobKey::job(self.id), run, stat)),
            Body::Array(array) => {
                for (idx, work) in &array.work {
                    if let (true, Some(run)) = (work.stat.is_started(), work.run.as_deref()) {
                        f(JobKey::element(self.id, *idx), run, work.stat);
                    }
                }
            }
        }
    }

    /// Calls `f` for each run of a started job or element, which may be changed.
    pub(super) fn each_started_mut(&mut self, f: &mut dyn FnMut(&mut Run)) {
        let started = |work: &mut Work| {
            if work.stat.is_started()
                && let Some(run) = work.run.as_deref_mut()
            {
                f(run);
            }
        };
        match &mut self.body {
            Body::Single(work) => std::iter::once(work).for_each(started),
            Body::Array(array) => array.work.values_mut().for_each(started),
        }
    }

    /// Calls `f` for each pending entry: order, key, number of jobs or elements that it represents,
    /// and whether it is ready.
    pub(super) fn each_pending(&self, f: &mut dyn FnMut(i64, JobKey, u64, bool)) {
        match &self.body {
            Body::Single(work) => {
                if work.stat.is_waiting() {
                    f(self.order, JobKey::job(self.id), 1, self.pend_ready(0));
                }
            }
            Body::Array(array) => {
                if !array.waiting.is_empty() {
                    f(
                        self.order,
                        JobKey::job(self.id),
                        array.waiting.len(),
                        self.pend_ready(0),
                    );
                }
                for (idx, work) in &array.work {
                    if work.stat.is_waiting() {
                        let ready = self.pend_ready(*idx);
                        f(self.order, JobKey::element(self.id, *idx), 1, ready);
                    }
                }
            }
        }
    }
}
