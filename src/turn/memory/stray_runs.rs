//! Runs that are over for the leader and that a host may still have, and the jobs that wait until
//! such runs have ended.

use crate::model::{AttemptId, TermReason};
use crate::record::order::{Act, Order};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of stray runs on one host; a host that reports more is damaged.
const STRAYS_MAX: usize = 10_000;
/// Number of the order to kill, higher than those of all signals of the attempt. A host carries out
/// each number once, so repeating it does no harm.
const LAST_SIGNAL: u32 = u32::MAX;

/// Attempt and mark of a run.
type MarkedRun = (AttemptId, u32);

/// See the head of this file.
#[derive(Default)]
pub(in crate::turn) struct StrayRuns {
    /// By host; the value is whether the order to kill was given.
    by_host: BTreeMap<String, BTreeMap<MarkedRun, bool>>,
    /// Jobs excluded from scheduling until a run that the journal does not contain has ended.
    waiting_jobs: BTreeSet<u32>,
}

/// The order to kill what remains of a run.
fn kill((a, mark): MarkedRun) -> Order {
    Order::Signal {
        a,
        act: Act::Kill,
        reason: TermReason::Force,
        grace_ms: 0,
        n: LAST_SIGNAL,
        mark,
    }
}

/// All runs of an attempt, regardless of their marks.
fn runs_of(a: AttemptId) -> std::ops::RangeInclusive<MarkedRun> {
    (a, 0)..=(a, u32::MAX)
}

impl StrayRuns {
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_host.is_empty()
    }

    /// Records a run, without an order to kill it yet. Returns false if the host has too many of
    /// them.
    pub(crate) fn note(&mut self, host: &str, a: AttemptId, mark: u32) -> bool {
        let all = self.by_host.entry(host.to_owned()).or_default();
        let room = all.len() < STRAYS_MAX;
        if room {
            all.entry((a, mark)).or_insert(false);
        }
        room
    }

    /// Records a run that must be killed at once. Returns the order.
    pub(crate) fn order_kill(&mut self, host: &str, a: AttemptId, mark: u32) -> Order {
        let all = self.by_host.entry(host.to_owned()).or_default();
        all.insert((a, mark), true);
        kill((a, mark))
    }

    /// Forgets what a host reported as ended.
    pub(crate) fn forget(&mut self, host: &str, a: AttemptId, mark: u32) {
        let Some(all) = self.by_host.get_mut(host) else {
            return;
        };
        // Without a mark any run may be meant, and a mark matches a run recorded without one.
        let meant = |noted: &u32| mark == 0 || [0, mark].contains(noted);
        let marks: Vec<u32> = all.range(runs_of(a)).map(|((_, mark), _)| *mark).collect();
        for noted in marks.into_iter().filter(meant) {
            all.remove(&(a, noted));
        }
    }

    pub(crate) fn forget_host(&mut self, host: &str) {
        self.by_host.remove(host);
    }

    /// The orders to kill the runs of a host for which no order was given yet.
    pub(crate) fn order_all(&mut self, host: &str) -> Vec<Order> {
        let Some(all) = self.by_host.get_mut(host) else {
            return Vec::new();
        };
        let mut orders = Vec::new();
        for (run, ordered) in all.iter_mut().filter(|(_, ordered)| !**ordered) {
            *ordered = true;
            orders.push(kill(*run));
        }
        if all.is_empty() {
            self.by_host.remove(host);
        }
        orders
    }

    /// The orders to kill that a new file of orders repeats.
    pub(crate) fn orders(&self, host: &str) -> impl Iterator<Item = Order> {
        let all = self.by_host.get(host).into_iter().flatten();
        all.filter(|(_, ordered)| **ordered)
            .map(|(run, _)| kill(*run))
    }

    pub(crate) fn any_on(&self, host: &str) -> bool {
        self.by_host.contains_key(host)
    }

    pub(crate) fn has_attempt(&self, host: &str, a: AttemptId) -> bool {
        let all = self.by_host.get(host);
        all.is_some_and(|all| all.range(runs_of(a)).next().is_some())
    }

    fn has_job(&self, id: u32) -> bool {
        let runs = self.by_host.values().flat_map(BTreeMap::keys);
        runs.map(|(a, _)| a.j.id).any(|j| j == id)
    }

    /// Makes a job wait until its runs recorded here have ended.
    pub(crate) fn wait(&mut self, id: u32) {
        self.waiting_jobs.insert(id);
    }

    pub(crate) fn is_waiting(&self, id: u32) -> bool {
        self.waiting_jobs.contains(&id)
    }

    /// Jobs that no longer wait: all their runs have ended.
    pub(crate) fn take_free(&mut self) -> Vec<u32> {
        let all = self.waiting_jobs.iter().copied();
        let free: Vec<u32> = all.filter(|id| !self.has_job(*id)).collect();
        free.iter().for_each(|id| {
            self.waiting_jobs.remove(id);
        });
        free
    }
}
