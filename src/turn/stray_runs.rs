//! Runs that are over and that a host may still have: it is ordered to kill them until it says that
//! they have ended.
//!
//! An attempt can end without a word of its host: by `ckill -r`, because its host is lost, or with
//! a share that was restored from a copy made before the attempt began. Which of them still run is
//! in no journal; every leader learns it from the hosts' report files, which it reads from their
//! start.

use super::{Core, Turn};
use crate::model::{AttemptId, JobKey, TermReason};
use crate::record::order::{Act, Order};
use crate::record::report::RunId;
use std::collections::BTreeMap;

/// Most of them on one host; a host that reports more is damaged.
const STRAYS_MAX: usize = 10_000;
/// Number of the order to kill, above those of all signals of the attempt. A host carries out each
/// number once, so that repeating it does no harm.
const LAST_SIGNAL: u32 = u32::MAX;

/// Attempt and mark of runs on one host, and whether the order to kill was given.
pub(crate) type Runs = BTreeMap<(AttemptId, u32), bool>;

/// The order to kill what is left of a run.
fn kill((a, mark): (AttemptId, u32)) -> Order {
    Order::Signal {
        a,
        act: Act::Kill,
        reason: TermReason::Force,
        grace_ms: 0,
        n: LAST_SIGNAL,
        mark,
    }
}

/// All runs of an attempt, whatever their marks.
fn of(a: AttemptId) -> std::ops::RangeInclusive<(AttemptId, u32)> {
    (a, 0)..=(a, u32::MAX)
}

impl Turn<'_> {
    /// A host reports of a run that is not the current one there. It may be an old report, with
    /// the end of the run further on in the file: see [`Turn::kill_strays`].
    pub(super) fn note_stray(&mut self, host: &str, a: AttemptId, run: RunId) {
        let orphan = self.is_orphan(run);
        if !orphan && !self.is_over(host, a, run) {
            return;
        }
        let all = self.core.leftovers.entry(host.to_owned()).or_default();
        if all.len() >= STRAYS_MAX {
            return;
        }
        all.entry((a, run.mark)).or_insert(false);
        if orphan && self.core.state.job(a.j.id).is_some() {
            self.core.outlived.insert(a.j.id);
            self.core.state.park(a.j.id, true);
        }
    }

    /// A host says that nothing of a run is there any more.
    pub(super) fn forget_stray(&mut self, host: &str, a: AttemptId, run: RunId) {
        let Some(all) = self.core.leftovers.get_mut(host) else {
            return;
        };
        // Without a mark any run may be meant, and a mark fits what was noted without one.
        let meant = |mark: u32| run.mark == 0 || [0, run.mark].contains(&mark);
        let marks: Vec<u32> = all.range(of(a)).map(|((_, mark), _)| *mark).collect();
        for mark in marks.into_iter().filter(|mark| meant(*mark)) {
            all.remove(&(a, mark));
        }
    }

    /// The host's report file was read to its end: what it reported and did not report as ended
    /// runs there.
    pub(super) fn kill_strays(&mut self, host: &str) {
        if let Some(all) = self.core.leftovers.get_mut(host) {
            let new = all.iter_mut().filter(|(_, ordered)| !**ordered);
            for (run, ordered) in new {
                *ordered = true;
                self.out.orders.push((host.to_owned(), kill(*run)));
            }
            if all.is_empty() {
                self.core.leftovers.remove(host);
            }
        }
        self.core.heard.insert(host.to_owned());
        self.release_waiting_jobs();
    }

    /// Lets jobs be scheduled again whose unknown runs have ended.
    fn release_waiting_jobs(&mut self) {
        let all = self.core.outlived.iter().copied();
        let free: Vec<u32> = all.filter(|id| !self.core.has_stray(*id)).collect();
        for id in free {
            self.core.outlived.remove(&id);
            let parked = self.core.parked.get(&id).is_some_and(|p| p.out);
            self.core.state.park(id, parked);
            self.core.needs_pass = true;
        }
    }

    /// An administrator says that a host and all that runs there is lost.
    pub(super) fn drop_strays(&mut self, host: &str) {
        self.core.leftovers.remove(host);
        self.release_waiting_jobs();
    }

    /// Kills an attempt that ends now without its host's word; it never starts if it has not yet.
    pub(super) fn kill_unconfirmed(&mut self, host: String, a: AttemptId) {
        let run = (a, self.core.state.mark(a.j));
        self.out.orders.push((host.clone(), Order::Cancel { a }));
        self.out.orders.push((host.clone(), kill(run)));
        let all = self.core.leftovers.entry(host).or_default();
        all.insert(run, true);
    }

    /// The host on which the last attempt of ended work may still run.
    pub(super) fn stray_host(&self, j: JobKey) -> Option<String> {
        let state = &self.core.state;
        let work = state.work(j).filter(|work| !work.stat.is_started())?;
        let at = work.attempt;
        let (first, _) = work.run.as_deref()?.hosts.first()?;
        let host = state.host_name(*first).to_string();
        let left = self.core.leftovers.get(&host);
        let left = left.is_some_and(|all| all.range(of(AttemptId { j, at })).next().is_some());
        // A host that does not answer, or that this leader has not heard yet, has not said what
        // became of a job that was removed.
        let fate = work.run.as_deref()?.fate.as_deref();
        let removed = fate.is_some_and(|fate| fate.reason == TermReason::Force);
        let answers = state.host_ctl(&host).up && self.core.heard.contains(&host);
        (left || (removed && !answers)).then_some(host)
    }

    /// The run was ordered before the share was restored from a copy, which an administrator has
    /// confirmed: it goes on only where the journal has it. The end of a run without a mark could
    /// be taken for that of a later one: it is left alone.
    fn is_orphan(&self, run: RunId) -> bool {
        let restored = self.core.state.restored();
        let before = |(above, _)| (1..=above).contains(&run.epoch);
        run.mark != 0 && restored.is_some_and(before)
    }

    /// Whether this leader knows for certain that the attempt is over for `host`. One that it
    /// never knew is not: the share may have been restored from a copy, and nobody has said so.
    fn is_over(&self, host: &str, a: AttemptId, run: RunId) -> bool {
        let state = &self.core.state;
        // Ordered by a leader that knew all that this one knows of restored shares.
        let later = state.restored().is_none_or(|(above, _)| run.epoch > above);
        if !later || state.is_other(a, run.mark) {
            return false;
        }
        let Some(job) = state.job(a.j.id) else {
            return a.j.id <= state.last_id();
        };
        let Some(work) = job.work(a.j.idx) else {
            return false;
        };
        if a.at != work.attempt {
            return a.at < work.attempt;
        }
        let Some(run) = work.run.as_deref() else {
            return !work.stat.is_started();
        };
        let first = run.hosts.first().map(|(id, _)| state.host_name(*id));
        !work.stat.is_started() || first.is_none_or(|name| name.as_ref() != host)
    }
}

impl Core {
    /// The orders to kill what is left on a host: a new file of orders repeats them.
    pub(super) fn stray_orders(&self, host: &str) -> impl Iterator<Item = Order> {
        let all = self.leftovers.get(host).into_iter().flatten();
        all.filter(|(_, ordered)| **ordered)
            .map(|(run, _)| kill(*run))
    }

    fn has_stray(&self, id: u32) -> bool {
        let runs = self.leftovers.values().flat_map(BTreeMap::keys);
        runs.map(|(a, _)| a.j.id).any(|j| j == id)
    }

    /// A run of the job that nobody here knew has not ended.
    pub(super) fn waits_for_stray(&self, id: u32) -> bool {
        self.outlived.contains(&id)
    }
}
