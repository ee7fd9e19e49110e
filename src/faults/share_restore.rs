//! The restore of the share from a copy: when it is copied, when the copy replaces it, and what
//! must happen within some time after that: orders that hosts have and the copy does not know raise
//! an alarm, and after the administrator's confirmation these tasks are killed.

use super::cluster::{Cluster, Event, ShareCopy};
use super::kernel::{Kernel, MS, S};
use super::plan::Role;
use super::tasks::RunKey;

/// When the copy is made after the start, and when it replaces the share after that, ms.
const COPY_MS: (u64, u64) = (4_000, 30_000);
const RESTORE_MS: (u64, u64) = (2_000, 40_000);
/// No leader runs for this time afterwards, ms: hosts beat first.
const PAUSE_MS: (u64, u64) = (12_000, 25_000);
/// A run that the journal does not know must be killed within this time (µs) of the confirmation.
const KILL_US: u64 = 180 * S;
/// A task that runs at that time and that the copy does not know runs this long unless it is killed
/// (µs).
const LOST_US: u64 = 600 * S;
/// How long a restored share may stay without an alarm before the alarm counts as missing (µs).
const ALARM_US: u64 = 120 * S;

impl Cluster {
    /// Schedules the copy of the share, if the run has one.
    pub(super) fn plan_restore(&mut self, kernel: &mut Kernel) {
        if self.plan.restore {
            let at = kernel.now + kernel.rng.between(COPY_MS.0, COPY_MS.1) * MS;
            self.plan_at(kernel, at, Event::CopyShare);
        }
    }

    /// Copies the share in its state on the server.
    pub(super) fn copy_share(&mut self, kernel: &mut Kernel) {
        kernel.trace("fault", || "the share is copied".into());
        self.copy = Some(Box::new(ShareCopy {
            disk: self.share.clone(),
            history: self.history.clone(),
        }));
        let at = kernel.now + kernel.rng.between(RESTORE_MS.0, RESTORE_MS.1) * MS;
        self.plan_at(kernel, at, Event::RestoreShare);
    }

    /// Stops all leaders and replaces the share by the copy; hosts and clients continue.
    pub(super) fn restore_share(&mut self, kernel: &mut Kernel) {
        let Some(copy) = self.copy.take() else {
            return;
        };
        *self.injected.counts.entry("restore").or_default() += 1;
        kernel.trace("fault", || "the copy replaces the share".into());
        let leaders = self.slots.iter().filter(|s| s.role == Role::Leader);
        let procs: Vec<_> = leaders.filter_map(|s| s.proc).collect();
        procs.into_iter().for_each(|proc| kernel.kill(proc));
        self.leaders_from = kernel.now + kernel.rng.between(PAUSE_MS.0, PAUSE_MS.1) * MS;
        let detached = kernel.rng.permille(500);
        self.share.put_back(copy.disk, detached);
        for m in &mut self.machines {
            m.cache.lists.clear();
            m.cache.missing.clear();
        }
        self.history.share_restored(kernel, copy.history);
        // Long enough that only the leader's order can end them.
        let lost = |run: &RunKey| self.history.restored.is_lost(run);
        self.tasks.extend_tasks(kernel, LOST_US, lost);
    }

    /// Runs that the copy does not know and that still run somewhere.
    pub(super) fn lost_runs(&self) -> Vec<RunKey> {
        let alive = self.tasks.table.values().filter(|t| t.alive);
        let runs = alive.map(|t| (t.a, t.mark));
        runs.filter(|run| self.history.restored.is_lost(run))
            .collect()
    }

    /// Checks what must have happened by now after a restore of the share; called in the phase
    /// after the faults.
    pub(super) fn check_restore(&mut self, kernel: &mut Kernel) {
        let restored = &self.history.restored;
        let Some(restored_at) = restored.replaced_at else {
            return;
        };
        let since = |at: u64| {
            let calm = self.faults_end_at.unwrap_or(kernel.now);
            kernel.now.saturating_sub(at.max(calm))
        };
        let mut wrong = Vec::new();
        let known = !restored.hosts_that_know.is_empty();
        if restored.alarm_at.is_none() && known && since(restored_at) > ALARM_US {
            let text = "the share was restored, hosts know it, and no leader has raised an alarm";
            wrong.push(text.to_owned());
        }
        if let Some(at) = restored.confirmed_at.filter(|at| since(*at) > KILL_US) {
            let s = since(at) / S;
            wrong.extend(self.lost_runs().iter().map(|(a, _)| {
                format!(
                    "attempt {a}, which the restored share does not know, runs {s} s after the \
                     confirmation"
                )
            }));
        }
        self.history.all_broken(kernel, wrong);
    }

    /// Whether everything that follows from a restore of the share has happened.
    pub(super) fn is_restore_over(&self, now: u64) -> bool {
        if !self.plan.restore {
            return true;
        }
        let restored = &self.history.restored;
        let quiet = |at: u64| now > at + ALARM_US && restored.alarm_at.is_none();
        restored.confirmed_at.is_some() || restored.replaced_at.is_some_and(quiet)
    }
}
