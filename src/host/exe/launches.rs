//! The jobs to which users may add commands on this host (`claunch`), and when to look for
//! requests. Values only, no files.
//!
//! A command runs here only for an attempt, or a part of one, that the leader ordered on this host,
//! on several slots or of an application, and only for the user of that job.

use crate::model::{AttemptId, Binding, CpuSet, Spec};
use crate::record::launch::LaunchRequest;
use crate::record::order::TaskUnits;
use crate::record::report::{RunId, Usage};
use crate::task::spec::TaskLimits;
use std::collections::BTreeMap;

/// Least pause between two looks where all that runs here has one slot (ms): what is started beside
/// it is the way to its program, which a person opens.
const RARE_MS: u64 = 5_000;

/// What may be added to here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub uid: u32,
    /// Number of its specification in the present orders.
    pub spec: u32,
    /// It starts a task for each slot.
    pub tasks: bool,
    /// It has one slot: little is started beside it.
    pub is_rare: bool,
    pub own: Own,
    /// Which run it is, where another host runs the command; `None`: this one does.
    pub part_of: Option<RunId>,
    /// Something was started for it.
    launched: bool,
    /// It is stopped, as the signal of this number says.
    stopped: bool,
    signals: u32,
    /// Number of the last change of its limits that what was started here knows.
    limits_told: u32,
    /// What was last reported of a part.
    used: Usage,
}

impl Work {
    /// Of a specification, which has this number in the orders.
    pub(super) fn new((spec, n): (&Spec, u32), own: Own, part_of: Option<RunId>) -> Work {
        Work {
            uid: spec.uid,
            spec: n,
            tasks: spec.launch.is_some(),
            own,
            part_of,
            ..Work::default()
        }
    }
}

/// What of this host is the attempt's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    pub limits: TaskLimits,
    pub binding: Option<Box<Binding>>,
    pub units: TaskUnits,
}

/// The attempts and parts to which commands may be added on this host.
#[derive(Debug, Default)]
pub(super) struct Launches {
    works: BTreeMap<AttemptId, Work>,
    looked_at: u64,
    /// A hint asks for a look now.
    hinted: bool,
}

impl Launches {
    /// Notes an attempt or part that the orders name.
    pub(super) fn note(&mut self, a: AttemptId, mut work: Work) {
        if let Some(known) = self.works.remove(&a) {
            (work.launched, work.used) = (known.launched, known.used);
            (work.stopped, work.signals) = (known.stopped, known.signals);
            let mark = |part: Option<RunId>| part.map(|run| run.mark);
            if mark(known.part_of) == mark(work.part_of) {
                work.limits_told = known.limits_told;
                if known.own.limits.changes > work.own.limits.changes {
                    work.own.limits = known.own.limits;
                }
            }
            // What runs is bound to that.
            work.own.binding = known.own.binding.or(work.own.binding);
        }
        self.works.insert(a, work);
    }

    pub(super) fn has(&self, a: AttemptId) -> bool {
        self.works.contains_key(&a)
    }

    /// Whether it starts a task for each slot.
    pub(super) fn has_tasks(&self, a: AttemptId) -> bool {
        self.works.get(&a).is_some_and(|work| work.tasks)
    }

    /// What one of them is bound to here.
    pub(super) fn binding_of(&self, a: AttemptId) -> Option<Box<Binding>> {
        self.works.get(&a)?.own.binding.clone()
    }

    /// What the parts here are bound to.
    pub(super) fn cpus(&self) -> CpuSet {
        let mut all = CpuSet::default();
        for binding in self.works.values().filter_map(|w| w.own.binding.as_deref()) {
            all.extend(&binding.cpus);
        }
        all
    }

    /// Something was started for one of them.
    pub(super) fn any_launched(&self) -> bool {
        self.works.values().any(|work| work.launched)
    }

    /// Takes up an order to stop it or to let it go on, with number and mark; false: it is done
    /// already, or for another run.
    pub(super) fn suspend(&mut self, a: AttemptId, stop: bool, (n, mark): (u32, u32)) -> bool {
        let Some(work) = self.works.get_mut(&a) else {
            return false;
        };
        let known = work.part_of.map_or(0, |run| run.mark);
        if n <= work.signals || (mark != 0 && known != 0 && mark != known) {
            return false;
        }
        (work.signals, work.stopped) = (n, stop);
        true
    }

    /// Takes the changed limits of a part; false: it has later ones, or they are another run's.
    pub(super) fn limit(&mut self, a: AttemptId, limits: TaskLimits, mark: u32) -> bool {
        let Some(work) = self.works.get_mut(&a) else {
            return false;
        };
        let Some(run) = work.part_of else {
            return false;
        };
        let other = mark != 0 && run.mark != 0 && mark != run.mark;
        if other || limits.changes <= work.own.limits.changes {
            return false;
        }
        work.own.limits = limits;
        true
    }

    /// The limits of a part; `None`: there is no such part.
    pub(super) fn limits_of(&self, a: AttemptId) -> Option<&TaskLimits> {
        let part = self.works.get(&a).filter(|work| work.part_of.is_some());
        part.map(|work| &work.own.limits)
    }

    /// Whether what was started for it does not know this change of its limits.
    pub(super) fn wants_limits(&self, a: AttemptId, n: u32) -> bool {
        self.works.get(&a).is_some_and(|work| n > work.limits_told)
    }

    pub(super) fn is_launched(&self, a: AttemptId) -> bool {
        self.works.get(&a).is_some_and(|work| work.launched)
    }

    /// What was started for it may have others than it has by now.
    pub(super) fn has_other_limits(&self, a: AttemptId) -> bool {
        self.works.get(&a).is_some_and(|work| work.limits_told > 0)
    }

    /// What was started for it knows this change of its limits by now.
    pub(super) fn told_limits(&mut self, a: AttemptId, n: u32) {
        if let Some(work) = self.works.get_mut(&a) {
            work.limits_told = n;
        }
    }

    pub(super) fn is_stopped(&self, a: AttemptId) -> bool {
        self.works.get(&a).is_some_and(|work| work.stopped)
    }

    /// The parts, whose usage this host reports.
    pub(super) fn parts(&self) -> Vec<AttemptId> {
        let parts = self.works.iter().filter(|(_, work)| work.part_of.is_some());
        parts.map(|(a, _)| *a).collect()
    }

    /// What was last reported of a part, and the run that it is of.
    pub(super) fn part_usage(&mut self, a: AttemptId) -> Option<(&mut Usage, RunId)> {
        let work = self.works.get_mut(&a)?;
        Some((&mut work.used, work.part_of?))
    }

    /// Another leader knows nothing of what was reported.
    pub(super) fn forget_reported(&mut self) {
        for work in self.works.values_mut() {
            work.used = Usage::default();
        }
    }

    /// Its limit of memory in bytes here.
    pub(super) fn memory_of(&self, a: AttemptId) -> Option<u64> {
        self.works.get(&a)?.own.limits.mem_b
    }

    /// Forgets it. True when something may run for it.
    pub(super) fn end(&mut self, a: AttemptId) -> bool {
        self.works.remove(&a).is_some_and(|work| work.launched)
    }

    /// How long until the next look (ms); `None`: there is nothing to look for.
    pub(super) fn due_in(&self, now: u64, pause_ms: u64) -> Option<u64> {
        let pause_ms = match self.works.values().all(|work| work.is_rare) {
            true => pause_ms.max(RARE_MS),
            false => pause_ms,
        };
        let next = match self.hinted {
            true => 0,
            false => self.looked_at + pause_ms,
        };
        (!self.works.is_empty()).then(|| next.saturating_sub(now))
    }

    /// Notes that they are looked for. True when a hint asked for it.
    pub(super) fn looked(&mut self, now: u64) -> bool {
        self.looked_at = now;
        std::mem::take(&mut self.hinted)
    }

    /// They are looked for in the next turn.
    pub(super) fn look_now(&mut self) {
        self.hinted = true;
    }

    /// Notes that something was started for it.
    pub(super) fn launched(&mut self, a: AttemptId) {
        if let Some(work) = self.works.get_mut(&a) {
            work.launched = true;
        }
    }

    /// All of them.
    pub(super) fn attempts(&self) -> Vec<AttemptId> {
        self.works.keys().copied().collect()
    }

    /// Whose they are.
    pub(super) fn uids(&self) -> Vec<u32> {
        let mut uids: Vec<u32> = self.works.values().map(|work| work.uid).collect();
        uids.sort_unstable();
        uids.dedup();
        uids
    }

    /// The attempt or part for which this user may start something here.
    ///
    /// # Errors
    /// Why that is not to be started here.
    pub(super) fn judge(&self, launch: &LaunchRequest, owner: u32) -> Result<&Work, String> {
        match self.works.get(&launch.a) {
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

    fn work(uid: u32) -> Work {
        Work {
            uid,
            spec: 3,
            ..Work::default()
        }
    }

    #[test]
    fn a_part_stops_and_goes_on_once_for_each_number_and_only_its_own_run() {
        let mut all = Launches::default();
        assert!(!all.suspend(attempt(1), true, (1, 0)));
        let part = |mark| Work {
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
        // Orders that are repeated change nothing.
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
        let part = |changes, mem_b, mark| Work {
            own: Own {
                limits: limits(changes, mem_b),
                ..Own::default()
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
        assert!(all.wants_limits(attempt(1), 2));
        all.told_limits(attempt(1), 2);
        assert!(!all.wants_limits(attempt(1), 2));
        // The order to prepare it, read again.
        all.note(attempt(1), part(0, 9, 7));
        assert_eq!(all.memory_of(attempt(1)), Some(5));
        assert!(!all.wants_limits(attempt(1), 2));
        // By a leader who knows more.
        all.note(attempt(1), part(3, 4, 7));
        assert_eq!(all.memory_of(attempt(1)), Some(4));
        // Another run by that name begins with its own.
        all.note(attempt(1), part(0, 9, 8));
        assert_eq!(all.memory_of(attempt(1)), Some(9));
        assert!(all.wants_limits(attempt(1), 1));
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
        all.look_now();
        assert_eq!(all.due_in(40, 100), Some(0));
        assert!(all.looked(40) && !all.looked(40));
        assert_eq!(all.due_in(40, 100), Some(100));
        assert!(!all.end(attempt(1)));
        assert!(all.judge(&launch(1), 1000).is_err());
        assert_eq!(all.due_in(40, 100), None);
    }

    #[test]
    fn jobs_of_one_slot_alone_are_looked_for_rarely() {
        let mut all = Launches::default();
        let rare = || Work {
            is_rare: true,
            ..work(1000)
        };
        all.note(attempt(1), rare());
        all.looked(40);
        assert_eq!(all.due_in(40, 100), Some(RARE_MS));
        all.look_now();
        assert_eq!(all.due_in(40, 100), Some(0), "a hint");
        all.looked(40);
        all.note(attempt(2), work(1000));
        assert_eq!(all.due_in(40, 100), Some(100));
    }
}
