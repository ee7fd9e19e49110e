//! Run windows and dispatch windows that open and close: hosts are opened and closed, running work
//! is stopped or ended.

use super::Pass;
use crate::config::ThresholdAction;
use crate::model::{SuspReason, TermReason};

impl Pass<'_> {
    /// Determines which windows are open, opens and closes hosts, and stops jobs that may no longer
    /// run.
    pub(super) fn apply_windows(&mut self) {
        if !self.picture.windows.any() {
            return;
        }
        let (config, windows) = (&self.picture.config, &mut self.picture.windows);
        for at in windows.renew(config, self.table, self.now) {
            self.picture.set_host(self.table, at);
        }
        self.plan.wake_at(self.picture.windows.next(self.now));
        for queue in 0..self.config().queues.len() {
            if self
                .picture
                .windows
                .run(queue)
                .is_some_and(|window| !window.open)
            {
                self.close_queue(queue);
            }
        }
    }

    /// Applies the queue's rule for jobs that still run when its run window closes.
    fn close_queue(&mut self, queue: usize) {
        let Some(started) = self.picture.monitor.started_in(queue) else {
            return;
        };
        let (action, name) = {
            let queue = &self.config().queues[queue];
            (queue.window_action, queue.name.clone())
        };
        let still = |j: &&crate::model::JobKey| {
            let run = self.state.work(**j).and_then(|work| work.run.as_deref());
            run.is_some_and(|run| {
                let stopped = run.suspension.by_system.as_deref();
                matches!(stopped, None | Some(SuspReason::Released { .. }))
                    && run.killing.is_none()
                    && !run.forced
            })
        };
        let running: Vec<_> = started.iter().filter(still).copied().collect();
        for j in running {
            match action {
                ThresholdAction::Suspend => {
                    let queue = name.clone();
                    self.suspend_job(j, SuspReason::RunWindow { queue });
                }
                ThresholdAction::Kill => self.plan.kills.push((j, TermReason::Window)),
                ThresholdAction::Requeue => self.plan.requeues.push((j, TermReason::Window)),
            }
        }
    }
}
