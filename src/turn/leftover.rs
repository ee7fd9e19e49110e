//! Attempts that are over and that a host may still run: it is ordered to kill them until it says
//! that they have ended.
//!
//! An attempt can end without a word of its host: by `ckill -r`, or because its host is lost. Which
//! of them still run is in no journal; every leader learns it from the hosts' report files, which
//! it reads from their start.

use super::{Core, Turn};
use crate::model::{AttemptId, JobKey, TermReason};
use crate::record::order::{Act, Order};

/// Most of them on one host; a host that reports more is damaged.
const LEFTOVERS_MAX: usize = 10_000;
/// Number of the order to kill, above those of all signals of the attempt. A host carries out each
/// number once, so that repeating it does no harm.
const LAST_SIGNAL: u32 = u32::MAX;

/// The order to kill what is left of an attempt.
fn kill(a: AttemptId) -> Order {
    Order::Signal {
        a,
        act: Act::Kill,
        reason: TermReason::Force,
        grace_ms: 0,
        n: LAST_SIGNAL,
        mark: 0,
    }
}

impl Turn<'_> {
    /// A host reports of an attempt that is not the current one there. It may be an old report,
    /// with the end of the attempt further on in the file: see [`Turn::kill_leftovers`].
    pub(super) fn note_leftover(&mut self, host: &str, a: AttemptId) {
        if !self.is_over(host, a) {
            return;
        }
        let all = self.core.leftovers.entry(host.to_owned()).or_default();
        if all.len() < LEFTOVERS_MAX {
            all.entry(a).or_insert(false);
        }
    }

    /// A host says that nothing of an attempt runs any more.
    pub(super) fn forget_leftover(&mut self, host: &str, a: AttemptId) {
        if let Some(all) = self.core.leftovers.get_mut(host) {
            all.remove(&a);
        }
    }

    /// The host's report file was read to its end: what it reported and did not report as ended
    /// runs there.
    pub(super) fn kill_leftovers(&mut self, host: &str) {
        let Some(all) = self.core.leftovers.get_mut(host) else {
            return;
        };
        let new = all.iter_mut().filter(|(_, ordered)| !**ordered);
        for (a, ordered) in new {
            *ordered = true;
            let order = kill(*a);
            self.out.orders.push((host.to_owned(), order));
        }
        if all.is_empty() {
            self.core.leftovers.remove(host);
        }
    }

    /// Kills an attempt that ends now without its host's word; it never starts if it has not yet.
    pub(super) fn kill_without_waiting(&mut self, host: String, a: AttemptId) {
        self.out.orders.push((host.clone(), Order::Cancel { a }));
        self.out.orders.push((host.clone(), kill(a)));
        self.core.leftovers.entry(host).or_default().insert(a, true);
    }

    /// The host on which the last attempt of ended work may still run.
    pub(super) fn leftover_host(&self, j: JobKey) -> Option<String> {
        let state = &self.core.state;
        let work = state.work(j).filter(|work| !work.stat.is_started())?;
        let at = work.attempt;
        let (first, _) = work.run.as_deref()?.hosts.first()?;
        let host = state.host_name(*first).to_string();
        let left = self.core.leftovers.get(&host);
        let left = left.is_some_and(|all| all.contains_key(&AttemptId { j, at }));
        // A host that does not answer has not said what became of a job that was removed.
        let fate = work.run.as_deref()?.fate.as_deref();
        let removed = fate.is_some_and(|fate| fate.reason == TermReason::Force);
        (left || (removed && !state.host_ctl(&host).up)).then_some(host)
    }

    /// Whether this leader knows for certain that the attempt is over for `host`. One that it
    /// never knew is not: the share may have been restored from a backup.
    fn is_over(&self, host: &str, a: AttemptId) -> bool {
        let state = &self.core.state;
        let restored = state.restored().map(|(_, t)| t);
        let Some(job) = state.job(a.j.id) else {
            return restored.is_none() && a.j.id <= state.last_id();
        };
        let Some(work) = job.work(a.j.idx) else {
            return false;
        };
        if a.at != work.attempt {
            return a.at < work.attempt;
        }
        let Some(run) = work.run.as_deref() else {
            return false;
        };
        let first = run.hosts.first().map(|(id, _)| state.host_name(*id));
        let ended = !work.stat.is_started() || first.is_none_or(|name| name.as_ref() != host);
        ended && restored.is_none_or(|t| run.dispatch > t)
    }
}

impl Core {
    /// The orders to kill what is left on a host: a new file of orders repeats them.
    pub(super) fn leftover_orders(&self, host: &str) -> impl Iterator<Item = Order> {
        let all = self.leftovers.get(host).into_iter().flatten();
        all.filter(|(_, ordered)| **ordered).map(|(a, _)| kill(*a))
    }
}
