//! The jobs to which users may add commands on this host (`claunch`), and when to look for
//! requests. Values only, no files.
//!
//! A command runs here only for an attempt, or a part of one, that the leader ordered on this host,
//! and that has several slots or an application, and only for the user of that job.

use crate::model::{AttemptId, Binding, CpuSet, Spec};
use crate::record::launch::LaunchRequest;
use crate::record::order::TaskUnits;
use crate::record::report::{RunId, Usage};
use crate::task::spec::TaskLimits;
use std::collections::BTreeMap;

/// Minimum pause between two looks if everything that runs here has one slot (ms): the only command
/// started beside such a job connects a person to its program.
const RARE_MS: u64 = 5_000;

/// An attempt or part to which commands may be added here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LaunchableWork {
    pub uid: u32,
    /// Number of its specification in the current orders.
    pub spec: u32,
    /// It starts a task for each slot.
    pub tasks: bool,
    /// It has one slot: commands are rarely started beside it.
    pub is_rare: bool,
    pub resources: AttemptResources,
    /// The run, if another host runs the job's command; `None`: this host does.
    pub part_of: Option<RunId>,
    /// When a command was last started for it (boot clock, ms).
    launched_at: Option<u64>,
    /// It is stopped by the signal with the number `signals`.
    stopped: bool,
    signals: u32,
    /// Number of the last change of its limits that was sent to the commands started here.
    limits_sent: u32,
    /// Usage that was last reported of a part.
    usage: Usage,
}

impl LaunchableWork {
    /// From a specification, which has the number `n` in the orders.
    pub(super) fn new(
        (spec, n): (&Spec, u32),
        resources: AttemptResources,
        part_of: Option<RunId>,
    ) -> LaunchableWork {
        LaunchableWork {
            uid: spec.uid,
            spec: n,
            tasks: spec.launch.is_some(),
            resources,
            part_of,
            ..LaunchableWork::default()
        }
    }
}

/// What belongs to the attempt on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AttemptResources {
    pub limits: TaskLimits,
    pub binding: Option<Box<Binding>>,
    pub units: TaskUnits,
}

/// The attempts and parts to which commands may be added on this host.
#[derive(Debug, Default)]
pub(super) struct Launches {
    launchable: BTreeMap<AttemptId, LaunchableWork>,
    checked_at: u64,
    /// A hint requests a look now.
    poll_now: bool,
}

impl Launches {
    /// Notes an attempt or part that the orders name.
    pub(super) fn note(&mut self, a: AttemptId, mut work: LaunchableWork) {
        if let Some(known) = self.launchable.remove(&a) {
            (work.launched_at, work.usage) = (known.launched_at, known.usage);
            (work.stopped, work.signals) = (known.stopped, known.signals);
            let mark = |part: Option<RunId>| part.map(|run| run.mark);
            if mark(known.part_of) == mark(work.part_of) {
                work.limits_sent = known.limits_sent;
                if known.resources.limits.changes > work.resources.limits.changes {
                    work.resources.limits = known.resources.limits;
                }
            }
            // Running commands are bound to these processors.
            work.resources.binding = known.resources.binding.or(work.resources.binding);
        }
        self.launchable.insert(a, work);
    }

    pub(super) fn has(&self, a: AttemptId) -> bool {
        self.launchable.contains_key(&a)
    }

    /// Whether it starts a task for each slot.
    pub(super) fn has_tasks(&self, a: AttemptId) -> bool {
        self.launchable.get(&a).is_some_and(|work| work.tasks)
    }

    /// The processors to which an attempt or part is bound here.
    pub(super) fn binding_of(&self, a: AttemptId) -> Option<Box<Binding>> {
        self.launchable.get(&a)?.resources.binding.clone()
    }

    /// The processors to which the parts here are bound.
    pub(super) fn cpus(&self) -> CpuSet {
        let mut all = CpuSet::default();
        for binding in self
            .launchable
            .values()
            .filter_map(|w| w.resources.binding.as_deref())
        {
            all.extend(&binding.cpus);
        }
        all
    }

    /// Whether a command was started for any of them.
    pub(super) fn any_launched(&self) -> bool {
        self.launchable
            .values()
            .any(|work| work.launched_at.is_some())
    }

    /// Accepts an order to stop or resume it, with number and mark. Returns false if the order was
    /// carried out already or is for another run.
    pub(super) fn suspend(&mut self, a: AttemptId, stop: bool, (n, mark): (u32, u32)) -> bool {
        let Some(work) = self.launchable.get_mut(&a) else {
            return false;
        };
        let known = work.part_of.map_or(0, |run| run.mark);
        if n <= work.signals || (mark != 0 && known != 0 && mark != known) {
            return false;
        }
        (work.signals, work.stopped) = (n, stop);
        true
    }

    /// Accepts changed limits of a part. Returns false if it has later ones or they are for another
    /// run.
    pub(super) fn limit(&mut self, a: AttemptId, limits: TaskLimits, mark: u32) -> bool {
        let Some(work) = self.launchable.get_mut(&a) else {
            return false;
        };
        let Some(run) = work.part_of else {
            return false;
        };
        let other = mark != 0 && run.mark != 0 && mark != run.mark;
        if other || limits.changes <= work.resources.limits.changes {
            return false;
        }
        work.resources.limits = limits;
        true
    }

    /// The limits of a part; `None`: there is no such part.
    pub(super) fn limits_of(&self, a: AttemptId) -> Option<&TaskLimits> {
        let part = self
            .launchable
            .get(&a)
            .filter(|work| work.part_of.is_some());
        part.map(|work| &work.resources.limits)
    }

    /// Whether the commands started for it do not know this change of its limits.
    pub(super) fn needs_limits(&self, a: AttemptId, n: u32) -> bool {
        self.launchable
            .get(&a)
            .is_some_and(|work| n > work.limits_sent)
    }

    pub(super) fn is_launched(&self, a: AttemptId) -> bool {
        self.launched_at(a).is_some()
    }

    /// When a command was last started for it (boot clock, ms).
    pub(super) fn launched_at(&self, a: AttemptId) -> Option<u64> {
        self.launchable.get(&a)?.launched_at
    }

    /// Whether a command that starts now may have outdated limits.
    pub(super) fn has_other_limits(&self, a: AttemptId) -> bool {
        self.launchable
            .get(&a)
            .is_some_and(|work| work.limits_sent > 0)
    }

    /// The commands started for it now know this change of its limits.
    pub(super) fn note_limits_sent(&mut self, a: AttemptId, n: u32) {
        if let Some(work) = self.launchable.get_mut(&a) {
            work.limits_sent = n;
        }
    }

    pub(super) fn is_stopped(&self, a: AttemptId) -> bool {
        self.launchable.get(&a).is_some_and(|work| work.stopped)
    }

    /// The parts, whose usage this host reports.
    pub(super) fn parts(&self) -> Vec<AttemptId> {
        let parts = self
            .launchable
            .iter()
            .filter(|(_, work)| work.part_of.is_some());
        parts.map(|(a, _)| *a).collect()
    }

    /// The usage that was last reported of a part, and its run.
    pub(super) fn part_usage(&mut self, a: AttemptId) -> Option<(&mut Usage, RunId)> {
        let work = self.launchable.get_mut(&a)?;
        Some((&mut work.usage, work.part_of?))
    }

    /// A new leader has received no reports yet.
    pub(super) fn forget_reported(&mut self) {
        for work in self.launchable.values_mut() {
            work.usage = Usage::default();
        }
    }

    /// Its memory limit on this host, in bytes.
    pub(super) fn memory_of(&self, a: AttemptId) -> Option<u64> {
        self.launchable.get(&a)?.resources.limits.mem_b
    }

    /// Forgets it. Returns true if commands may be running for it.
    pub(super) fn end(&mut self, a: AttemptId) -> bool {
        let ended = self.launchable.remove(&a);
        ended.is_some_and(|work| work.launched_at.is_some())
    }

    /// Time until the next look (ms); `None`: there is nothing to look for.
    pub(super) fn due_in(&self, now: u64, pause_ms: u64) -> Option<u64> {
        let pause_ms = match self.launchable.values().all(|work| work.is_rare) {
            true => pause_ms.max(RARE_MS),
            false => pause_ms,
        };
        let next = match self.poll_now {
            true => 0,
            false => self.checked_at + pause_ms,
        };
        (!self.launchable.is_empty()).then(|| next.saturating_sub(now))
    }

    /// Records a look. Returns true if a hint requested it.
    pub(super) fn note_poll(&mut self, now: u64) -> bool {
        self.checked_at = now;
        std::mem::take(&mut self.poll_now)
    }

    /// Requests a look in the next turn.
    pub(super) fn request_poll(&mut self) {
        self.poll_now = true;
    }

    /// Records that a command was started for it.
    pub(super) fn launched(&mut self, a: AttemptId, now: u64) {
        if let Some(work) = self.launchable.get_mut(&a) {
            work.launched_at = Some(now);
        }
    }

    /// All attempts and parts.
    pub(super) fn attempts(&self) -> Vec<AttemptId> {
        self.launchable.keys().copied().collect()
    }

    /// Users of the attempts and parts.
    pub(super) fn uids(&self) -> Vec<u32> {
        let mut uids: Vec<u32> = self.launchable.values().map(|work| work.uid).collect();
        uids.sort_unstable();
        uids.dedup();
        uids
    }

    /// The attempt or part for which this user may start a command here.
    ///
    /// # Errors
    /// The reason why the command is not started here.
    pub(super) fn judge(
        &self,
        launch: &LaunchRequest,
        owner: u32,
    ) -> Result<&LaunchableWork, String> {
        match self.launchable.get(&launch.a) {
            Some(work) if work.uid == owner => Ok(work),
            Some(_) => Err(format!("job {} belongs to another user", launch.a.j)),
            None => Err(format!("job {} has no slots on this host", launch.a.j)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::first_attempt as attempt;

    fn work(uid: u32) -> LaunchableWork {
        LaunchableWork {
            uid,
            spec: 3,
            ..LaunchableWork::default()
        }
    }

    #[test]
    fn a_part_stops_and_goes_on_once_for_each_number_and_only_its_own_run() {
        let mut all = Launches::default();
        assert!(!all.suspend(attempt(1), true, (1, 0)));
        let part = |mark| LaunchableWork {
            part_of: Some(RunId::marked(mark)),
            ..work(1000)
        };
        all.note(attempt(1), part(7));
        assert!(!all.suspend(attempt(1), true, (1, 8)) && !all.is_stopped(attempt(1)));
        assert!(all.suspend(attempt(1), true, (1, 7)) && all.is_stopped(attempt(1)));
        assert!(
            !all.suspend(attempt(1), false, (1, 7)),
            "an order read again"
        );
        // Repeated orders change nothing.
        all.note(attempt(1), part(7));
        assert!(all.is_stopped(attempt(1)));
        assert!(all.suspend(attempt(1), false, (2, 7)) && !all.is_stopped(attempt(1)));
        all.note(attempt(2), work(1000));
        assert_eq!(all.parts(), [attempt(1)]);
        let (used, run) = all.part_usage(attempt(1)).unwrap();
        (used.cpu_ms, _) = (5, run);
        all.forget_reported();
        assert_eq!(all.part_usage(attempt(1)).unwrap().0.cpu_ms, 0);
        assert!(all.part_usage(attempt(2)).is_none());
    }

    #[test]
    fn a_part_has_the_last_limits_whichever_order_comes_last() {
        let limits = |changes, mem_b| TaskLimits {
            changes,
            mem_b: Some(mem_b),
            ..TaskLimits::default()
        };
        let part = |changes, mem_b, mark| LaunchableWork {
            resources: AttemptResources {
                limits: limits(changes, mem_b),
                ..AttemptResources::default()
            },
            part_of: Some(RunId::marked(mark)),
            ..work(1000)
        };
        let mut all = Launches::default();
        assert!(!all.limit(attempt(1), limits(1, 5), 7), "no such part");
        all.note(attempt(1), part(0, 9, 7));
        assert!(!all.limit(attempt(1), limits(1, 5), 8), "of another run");
        assert!(all.limit(attempt(1), limits(2, 5), 7));
        assert!(!all.limit(attempt(1), limits(1, 6), 7), "an earlier one");
        assert!(all.needs_limits(attempt(1), 2));
        all.note_limits_sent(attempt(1), 2);
        assert!(!all.needs_limits(attempt(1), 2));
        // The order to prepare it is read again.
        all.note(attempt(1), part(0, 9, 7));
        assert_eq!(all.memory_of(attempt(1)), Some(5));
        assert!(!all.needs_limits(attempt(1), 2));
        // From a leader that knows later limits.
        all.note(attempt(1), part(3, 4, 7));
        assert_eq!(all.memory_of(attempt(1)), Some(4));
        // Another run with the same id begins with its own limits.
        all.note(attempt(1), part(0, 9, 8));
        assert_eq!(all.memory_of(attempt(1)), Some(9));
        assert!(all.needs_limits(attempt(1), 1));
    }

    #[test]
    fn only_the_jobs_user_adds_to_it_and_only_here() {
        let mut all = Launches::default();
        assert_eq!(all.due_in(7, 100), None);
        all.note(attempt(1), work(1000));
        let launch = |id| LaunchRequest {
            a: attempt(id),
            ..LaunchRequest::default()
        };
        assert_eq!(all.judge(&launch(1), 1000).map(|work| work.spec), Ok(3));
        assert!(all.judge(&launch(1), 1001).is_err());
        assert!(all.judge(&launch(2), 1000).is_err());
        let later = LaunchRequest {
            a: AttemptId {
                at: 2,
                ..attempt(1)
            },
            ..LaunchRequest::default()
        };
        assert!(all.judge(&later, 1000).is_err());
        assert_eq!(all.due_in(40, 100), Some(60));
        all.request_poll();
        assert_eq!(all.due_in(40, 100), Some(0));
        assert!(all.note_poll(40) && !all.note_poll(40));
        assert_eq!(all.due_in(40, 100), Some(100));
        assert!(!all.end(attempt(1)));
        assert!(all.judge(&launch(1), 1000).is_err());
        assert_eq!(all.due_in(40, 100), None);
    }

    #[test]
    fn jobs_of_one_slot_alone_are_looked_for_rarely() {
        let mut all = Launches::default();
        let rare = || LaunchableWork {
            is_rare: true,
            ..work(1000)
        };
        all.note(attempt(1), rare());
        all.note_poll(40);
        assert_eq!(all.due_in(40, 100), Some(RARE_MS));
        all.request_poll();
        assert_eq!(all.due_in(40, 100), Some(0), "a hint");
        all.note_poll(40);
        all.note(attempt(2), work(1000));
        assert_eq!(all.due_in(40, 100), Some(100));
    }
}
