//! What the system does to started work: stops and resumes it, ends or requeues it, gives it more
//! slots. Carries out decisions; never takes one.

use super::Turn;
use super::schedule::{pending_signal, requeue_reason};
use crate::model::{AttemptId, JobKey, Share, SuspReason, TermReason};
use crate::record::event::{Event, SignalAct};
use crate::record::order::Act;
use crate::state::Run;

impl Turn<'_> {
    /// The run of started work that is not being ended.
    fn live_run(&self, j: JobKey) -> Option<&Run> {
        let work = self.core.state.work(j)?;
        let run = work.run.as_deref()?;
        (work.stat.is_started() && run.killing.is_none()).then_some(run)
    }

    /// Stops work for the system's own reason, or replaces the reason.
    pub(super) fn halt(&mut self, j: JobKey, why: SuspReason) {
        let Some(run) = self.live_run(j) else { return };
        if run.halt.as_deref() == Some(&why) {
            return;
        }
        let (stopped, t) = (run.to_stop(), self.now);
        self.emit(Event::Halted { j, why, t });
        if !stopped {
            self.order_signal(j, Act::Stop, TermReason::None);
        }
    }

    /// Takes the system's reason to stop work away; a user's stop stands.
    pub(super) fn unhalt(&mut self, j: JobKey) {
        let Some(run) = self.live_run(j).filter(|run| run.halt.is_some()) else {
            return;
        };
        let (stopped, t) = (run.user_stop, self.now);
        self.emit(Event::Unhalted { j, t });
        if !stopped {
            self.order_signal(j, Act::Resume, TermReason::None);
        }
    }

    /// Ends an attempt and puts the job back in its old place.
    pub(super) fn put_back(&mut self, j: JobKey, why: TermReason) {
        let act = SignalAct::Requeue { hold: false, why };
        self.end_by_system(j, act, requeue_reason(act));
    }

    /// Ends work for good.
    pub(super) fn end_work(&mut self, j: JobKey, why: TermReason) {
        self.end_by_system(j, SignalAct::Kill(why), why);
    }

    pub(super) fn end_by_system(&mut self, j: JobKey, act: SignalAct, why: TermReason) {
        if self.live_run(j).is_none() {
            return;
        }
        let (by, t) = ("system".to_owned(), self.now);
        self.emit(Event::Signalled { j, act, by, t });
        self.order_signal(j, Act::Terminate, why);
    }

    /// Gives running work more slots and tells its first host.
    pub(super) fn grow(&mut self, j: JobKey, hosts: Vec<Share>) {
        if self.live_run(j).is_none() || hosts.is_empty() {
            return;
        }
        let at = self.core.state.work(j).map_or(0, |work| work.attempt);
        let (a, t) = (AttemptId { j, at }, self.now);
        self.emit(Event::Resized { a, hosts, t });
        if let Some(order) = super::schedule::resize_order(self.core, j) {
            self.out.orders.push(order);
        }
    }

    /// A host told that it stopped or resumed work: says again what is wanted when it is the other
    /// way round (the order may have been in a file that the host no longer reads).
    pub(super) fn set_right(&mut self, j: JobKey, stopped: bool) {
        let Some(run) = self.live_run(j).filter(|run| run.to_stop() != stopped) else {
            return;
        };
        if let Some((act, reason)) = pending_signal(run) {
            self.order_signal(j, act, reason);
        }
    }
}
