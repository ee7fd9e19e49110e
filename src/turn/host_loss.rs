//! The consequences of a host's silence or loss: rerunnable jobs of a fenced host run elsewhere,
//! jobs of a host that is declared lost end, and starts that have not begun are cancelled.

use super::context::Turn;
use crate::model::{AttemptId, JobKey, Stamp, TermReason};
use crate::record::order::Order;
use crate::record::report::Ended;

/// A host whose beat has not changed for this long is unavailable.
pub const SILENT_MS: u64 = 20_000;
/// Time after a host's self-fence before its jobs may run elsewhere.
const FENCE_MARGIN_MS: u64 = 10_000;

impl Turn<'_> {
    /// Whether the job may be started elsewhere although it is not known if its attempt still runs.
    /// A host ends by itself only what was dispatched as rerunnable. Later changes of the job apply
    /// to its next attempt, unless the job must not run again at all.
    pub(super) fn may_run_elsewhere(&self, j: JobKey) -> bool {
        let state = &self.core.state;
        let run = state.work(j).and_then(|work| work.run.as_deref());
        let spec = state.spec_of(j.id);
        run.is_some_and(|run| run.rerun.allowed) && spec.is_some_and(|spec| spec.rerunnable)
    }

    /// Ends an attempt without a report of its host. `confirmed`: as in [`Turn::ended`].
    pub(super) fn end_as_lost(
        &mut self,
        a: AttemptId,
        reason: TermReason,
        confirmed: bool,
        text: &str,
    ) {
        if let Some(e) = self.lost_end(a, reason, text) {
            self.ended(e, confirmed);
        }
    }

    /// Ends an attempt without a report of its first host once the others have reported that
    /// nothing of it is left there.
    pub(super) fn end_when_nothing_is_left(
        &mut self,
        a: AttemptId,
        reason: TermReason,
        text: &str,
    ) {
        if self.core.memory.held_ends.contains(a) {
            return;
        }
        if let Some(e) = self.lost_end(a, reason, text)
            && let Some(e) = self.hold_lost_end(e)
        {
            self.ended(e, false);
        }
    }

    /// The end of an attempt that its first host does not report.
    fn lost_end(&mut self, a: AttemptId, reason: TermReason, text: &str) -> Option<Ended> {
        let run = self.core.state.work(a.j).and_then(|w| w.run.as_deref())?;
        // The order to start it is in the file that its first host reads when it returns.
        if let Some((id, _)) = run.hosts.first() {
            let host = self.core.state.host_name(*id);
            self.ready.order(host, Order::Cancel { a });
        }
        let start = run.start.0;
        let (u, parts) = self.used_so_far(a);
        Some(Ended {
            a,
            start,
            t: self.now.0,
            reason,
            text: text.to_owned(),
            u,
            parts,
            ..Ended::default()
        })
    }

    /// Orders a silent host never to start attempts that it has not reported as started.
    pub(super) fn cancel_unstarted(&mut self, host: &str) {
        for a in self.attempts_on(host) {
            let not_started = self
                .bound_run(host, a)
                .is_some_and(|run| run.start == Stamp(0) && !run.preparing);
            if not_started {
                self.ready.order(host, Order::Cancel { a });
            }
        }
    }

    /// Puts rerunnable jobs back to pending if their host must have fenced itself by now. A host
    /// uses the limit in its last load document, or a shorter one, regardless of the current
    /// cb.yaml: while it is cut off, it cannot learn another limit.
    pub(super) fn fence_silent_hosts(&mut self) {
        let core = &*self.core;
        let overdue = |host: &&String| {
            let Some((doc, silent_ms)) = core.inputs.loads.get(*host) else {
                return false;
            };
            // A host that has not been seen by this leader counts at first as silent for
            // `SILENT_MS`.
            let after = |limit: u64| limit.saturating_add(FENCE_MARGIN_MS).max(SILENT_MS);
            let limit = doc.iso_ms.filter(|limit| *limit > 0);
            limit.is_some_and(|limit| *silent_ms > after(limit))
        };
        let silent = core.memory.silent.iter().filter(overdue);
        for host in silent.cloned().collect::<Vec<String>>() {
            for a in self.attempts_on(&host) {
                if self.may_run_elsewhere(a.j) {
                    self.core.memory.host_mut(&host).given_up.add(a);
                    let text = "its host was cut off from the share";
                    self.end_when_nothing_is_left(a, TermReason::Fenced, text);
                }
            }
            self.end_lost_parts(&host, true);
        }
    }

    /// Ends everything that ran on a host that an administrator declared dead.
    pub(super) fn end_all_on(&mut self, host: &str) -> usize {
        self.cancel_preparing_on(host, "is lost");
        self.forget_strays_of(host);
        let attempts = self.attempts_on(host);
        let text = "an administrator confirmed that its host is lost";
        for a in &attempts {
            self.core.memory.host_mut(host).given_up.add(*a);
            self.end_as_lost(*a, TermReason::HostLost, true, text);
        }
        attempts.len() + self.end_lost_parts(host, false)
    }
}
