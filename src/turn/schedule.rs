//! Starts jobs: runs the scheduler when something changed and applies its plan.

use super::context::Turn;
use crate::sched::plan_applier::apply_plan;

/// Maximum number of starts decided in one turn, to keep turns short; the next turn decides the
/// others.
pub const STARTS_MAX: usize = 4096;

impl Turn<'_> {
    /// Brings the host table up to date.
    pub(super) fn rebuild_hosts(&mut self) {
        let core = &mut *self.core;
        if std::mem::take(&mut core.pass.hosts_changed) {
            core.hosts
                .rebuild(&core.config, &core.state, &core.inputs.loads);
        }
    }

    pub(super) fn schedule(&mut self) {
        self.rebuild_hosts();
        let core = &mut *self.core;
        if core.inputs.share_full || !std::mem::take(&mut core.pass.needed) {
            return;
        }
        core.engine.sync(&mut core.state, &mut core.hosts);
        // Only the current picture shows whether running jobs must be considered.
        if core.state.pending_jobs() == 0 && !core.engine.has_timed_work() {
            return;
        }
        core.pass.last = self.mono;
        let plan = core
            .engine
            .plan(&core.state, &core.hosts, self.now, STARTS_MAX);
        core.pass.wake = plan.wake.into_iter().chain(plan.explain_at).min();
        let more = plan.more;
        apply_plan(plan, self.now, self);
        if more {
            self.core.pass.needed = true;
            self.ready.more = true;
        }
    }
}
