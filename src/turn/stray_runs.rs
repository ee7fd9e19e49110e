//! Runs that are over and may still be running on a host: the host is ordered to kill them until it
//! reports that they have ended.
//!
//! An attempt can end without a report of its host: by `ckill -r`, because its host is lost, or
//! with a share that was restored from a copy made before the attempt began. No journal shows which
//! of them are still running; every leader learns this from the hosts' report files, which it reads
//! from their start.

use super::context::Turn;
use crate::model::{AttemptId, JobKey, TermReason};
use crate::record::order::Order;
use crate::record::report::RunId;

impl Turn<'_> {
    /// Handles a host's report on a run that is not the current one there. It may be an old report,
    /// with the end of the run further on in the file: see [`Turn::kill_strays`].
    pub(super) fn note_stray(&mut self, host: &str, a: AttemptId, run: RunId) {
        let orphan = self.is_orphan(run);
        if !orphan && !self.is_over(host, a, run) {
            return;
        }
        let noted = self.core.memory.stray_runs.note(host, a, run.mark);
        if noted && orphan && self.core.state.job(a.j.id).is_some() {
            self.core.memory.stray_runs.wait(a.j.id);
            self.core.state.defer(a.j.id, true);
        }
    }

    /// Handles a host's report that nothing of a run is there any more.
    pub(super) fn forget_stray(&mut self, host: &str, a: AttemptId, run: RunId) {
        self.core.memory.stray_runs.forget(host, a, run.mark);
    }

    /// Handles the end of the host's report file: a run that it reported, but not as ended, still
    /// runs there.
    pub(super) fn kill_strays(&mut self, host: &str) {
        for order in self.core.memory.stray_runs.order_all(host) {
            self.ready.order(host, order);
        }
        self.core.memory.host_mut(host).reports_read = true;
        self.release_waiting_jobs();
    }

    /// Returns jobs to scheduling when their unknown runs have ended.
    fn release_waiting_jobs(&mut self) {
        let core = &mut *self.core;
        for id in core.memory.stray_runs.take_free() {
            core.state.defer(id, core.memory.gangs.is_delayed(id));
            core.pass.needed = true;
        }
    }

    /// Handles an administrator's statement that a host and all that runs there is lost.
    pub(super) fn forget_strays_of(&mut self, host: &str) {
        self.core.memory.stray_runs.forget_host(host);
        self.release_waiting_jobs();
    }

    /// Kills an attempt that ends now without a report of its host; if it has not started yet, it
    /// never will.
    pub(super) fn kill_unconfirmed(&mut self, host: &str, a: AttemptId) {
        let mark = self.core.state.mark(a.j);
        let kill = self.core.memory.stray_runs.order_kill(host, a, mark);
        self.ready.order(host, Order::Cancel { a });
        self.ready.order(host, kill);
    }

    /// The host on which the last attempt of an ended job may still run.
    pub(super) fn stray_host(&self, j: JobKey) -> Option<String> {
        let (state, memory) = (&self.core.state, &self.core.memory);
        let work = state.work(j).filter(|work| !work.stat.is_started())?;
        let at = work.attempt;
        let (first, _) = work.run.as_deref()?.hosts.first()?;
        let host = state.host_name(*first).to_string();
        let reason = work.run.as_deref()?.end.as_deref()?.reason;
        // An end that its host reported may be further on in a file that this leader is reading.
        let unconfirmed = [TermReason::Force, TermReason::HostLost, TermReason::Fenced];
        if !unconfirmed.contains(&reason) {
            return None;
        }
        let stray = memory.stray_runs.has_attempt(&host, AttemptId { j, at });
        // A host that does not answer, or whose reports this leader has not read yet, has not
        // reported what happened to a job that was removed.
        let removed = reason == TermReason::Force;
        let read = memory.host(&host).is_some_and(|host| host.reports_read);
        let answers = state.host_ctl(&host).up && read;
        (stray || (removed && !answers)).then_some(host)
    }

    /// Whether the run was ordered before the share was restored from a copy, and an administrator
    /// has confirmed the restore: it continues only if the journal contains it. The end of a run
    /// without a mark could be taken for that of a later run, so such a run is left alone.
    fn is_orphan(&self, run: RunId) -> bool {
        let restored = self.core.state.restored();
        let before = |(above, _)| (1..=above).contains(&run.epoch);
        run.mark != 0 && restored.is_some_and(before)
    }

    /// Whether this leader knows for certain that the attempt is over for `host`. An attempt that
    /// it never knew is not: the share may have been restored from a copy without confirmation.
    fn is_over(&self, host: &str, a: AttemptId, run: RunId) -> bool {
        let state = &self.core.state;
        // It was ordered by a leader that knew all restores of the share that this one knows.
        let later = state.restored().is_none_or(|(above, _)| run.epoch > above);
        if !later || state.is_other_run(a, run.mark) {
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
