//! The leader's sink of the plan applier, which keeps events for the journal and makes orders.
//! Carries out decisions; never takes one.

use super::context::Turn;
use super::orders::{pending_signal, resize_order, start_order, warn_order};
use crate::model::{AttemptId, JobKey, Share, TermReason};
use crate::record::event::{Event, SignalAct};
use crate::record::order::Act;
use crate::sched::plan_applier::{self, Sink};
use crate::state::State;

impl Sink for Turn<'_> {
    fn state(&mut self) -> &mut State {
        &mut self.core.state
    }

    fn emit(&mut self, event: Event) {
        Turn::emit(self, event);
    }

    fn bound(&mut self, a: AttemptId) {
        if !self.begin_preparing(a)
            && let Some(order) = start_order(self.core, a.j)
        {
            self.ready.orders.push(order);
        }
    }

    fn signal(&mut self, j: JobKey, act: Act, reason: TermReason) {
        self.order_signal(j, act, reason);
    }

    fn warned(&mut self, j: JobKey) {
        self.ready.orders.extend(warn_order(self.core, j));
    }

    fn resized(&mut self, j: JobKey, _added: &[Share]) {
        self.ready.orders.extend(resize_order(self.core, j));
    }
}

impl Turn<'_> {
    pub(super) fn end_by_system(&mut self, j: JobKey, act: SignalAct, why: TermReason) {
        let now = self.now;
        plan_applier::end(self, j, act, why, now);
    }

    /// Handles the report of a host that it stopped or resumed a job: if the opposite is wanted,
    /// the order is repeated (it may have been in a file that the host no longer reads).
    pub(super) fn correct_suspension(&mut self, j: JobKey, stopped: bool) {
        let run = plan_applier::live_run(&self.core.state, j);
        let Some(run) = run.filter(|run| run.to_stop() != stopped) else {
            return;
        };
        if let Some((act, reason)) = pending_signal(run) {
            self.order_signal(j, act, reason);
        }
    }
}
