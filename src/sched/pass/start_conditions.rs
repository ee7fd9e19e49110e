//! What keeps a class from starting regardless of free resources: its queue, its begin time,
//! windows, its termination time; and when its jobs would end.

use super::Pass;
use crate::model::{JobKey, PendReason, Stamp};
use crate::sched::amount::NEVER_MS;
use crate::sched::pending_classes::PendingClass;
use crate::sched::run_length::{EndTimes, end_at};
use crate::sched::time_windows::WindowState;
use crate::text::duration;

/// A run limit in milliseconds, if there is one.
fn run_limit(estimate: i64) -> Option<u64> {
    let known = (0..NEVER_MS).contains(&estimate);
    known.then_some(estimate.unsigned_abs())
}

impl<'a> Pass<'a> {
    /// What prevents the class from starting, regardless of what is free, and until when if that is
    /// known.
    pub(super) fn start_condition(
        &self,
        pending: &PendingClass,
    ) -> Result<(), (PendReason, Option<Stamp>)> {
        if let Some(why) = &self.shape(pending.shape).bad {
            return Err((PendReason::NeverFits { why: why.clone() }, None));
        }
        if let Some(at) = pending.queue.map(usize::from)
            && !self.active[at]
        {
            let queue = self.config().queues[at].name.clone();
            return Err((PendReason::QueueInactive { queue }, None));
        }
        match pending.begin {
            Some(at) if at > self.now => {
                let when = duration::date_near(at.0, self.now.0, self.picture.windows.zone());
                Err((PendReason::BeginTime { at: at.0, when }, Some(at)))
            }
            _ => self.window_condition(pending),
        }
    }

    /// What windows and the termination time prevent a class from starting now, and until when.
    fn window_condition(&self, pending: &PendingClass) -> Result<(), (PendReason, Option<Stamp>)> {
        let Some(at) = pending.queue.map(usize::from) else {
            return Ok(());
        };
        if !self.picture.windows.any_of_queues() && pending.deadline.is_none() {
            return Ok(());
        }
        let queue = &self.config().queues[at];
        let closed = |window: Option<&WindowState>| {
            let window = window?;
            let change = window.change.unwrap_or(Stamp(i64::MAX));
            let opens = duration::date(change.0, self.picture.windows.zone());
            (!window.open).then(|| (queue.name.clone(), change.0, opens, window.change))
        };
        if let Some((queue, at, opens, wake)) = closed(self.picture.windows.run(at)) {
            return Err((PendReason::RunWindow { queue, at, opens }, wake));
        }
        if let Some((queue, at, opens, wake)) = closed(self.picture.windows.dispatch(at)) {
            return Err((PendReason::DispatchWindow { queue, at, opens }, wake));
        }
        let run_limit = run_limit(self.shortest(pending));
        let Some(run_ms) = run_limit.filter(|_| !queue.ignore_deadline) else {
            return Ok(());
        };
        let end = self.now.plus_ms(run_ms);
        let left = |at: Stamp| at.since_ms(self.now) / 1000;
        let closes = self
            .picture
            .windows
            .run(at)
            .and_then(|window| window.change);
        if let Some(closes) = closes.filter(|at| end > *at) {
            let why = PendReason::RunWindowShort {
                queue: queue.name.clone(),
                need_s: run_ms / 1000,
                left_s: left(closes),
            };
            return Err((why, Some(closes)));
        }
        if let Some(deadline) = pending.deadline.filter(|at| end > *at) {
            let (need_s, left_s) = (run_ms / 1000, left(deadline));
            return Err((PendReason::DeadlineShort { need_s, left_s }, None));
        }
        Ok(())
    }

    /// Whether the delay for new jobs keeps the job pending.
    pub(super) fn submit_delay(
        &self,
        pending: &PendingClass,
        j: JobKey,
    ) -> Option<(PendReason, Stamp)> {
        let queue = &self.config().queues[usize::from(pending.queue?)];
        let delay = queue.new_job_sched_delay_ms;
        if delay == 0 {
            return None;
        }
        let at = self.state.job(j.id)?.submit.plus_ms(delay);
        let why = PendReason::TooNew {
            queue: queue.name.clone(),
            delay_s: delay.div_ceil(1000),
        };
        (at > self.now).then_some((why, at))
    }

    /// Notes how long the job under consideration has waited. Returns when another alternative of
    /// its request opens.
    pub(super) fn note_waiting(&mut self, shape: u32, j: JobKey) -> Option<Stamp> {
        self.waited_ms = 0;
        if !self.shape(shape).timed {
            return None;
        }
        let submit = self.state.job(j.id).map_or(self.now, |job| job.submit);
        self.waited_ms = self.now.since_ms(submit);
        let (_, opens) = self.shape(shape).open_alternatives(self.waited_ms);
        opens.map(|ms| submit.plus_ms(ms))
    }

    /// When jobs of a class would end.
    pub(super) fn ends(&self, pending: &PendingClass) -> EndTimes<'a> {
        let length = pending.length;
        EndTimes {
            table: self.table,
            length,
            now: self.now,
            end_on_any_host: end_at(self.now, pending.estimate),
            last: end_at(self.now, length.on_factor(self.picture.hosts.speeds.0)),
            latest: match length.depends_on_host() {
                true => self.latest_end(pending).map_or(i64::MAX, |at| at.0),
                false => i64::MAX,
            },
        }
    }

    /// The length of a class's jobs on the fastest host, in milliseconds.
    pub(super) fn shortest(&self, pending: &PendingClass) -> i64 {
        pending.length.on_factor(self.picture.hosts.speeds.1)
    }

    /// Whether a job of the class would end too late on a host.
    pub(super) fn is_too_slow(&self, pending: &PendingClass, at: usize) -> bool {
        let ends = self.ends(pending);
        let end = end_at(self.now, pending.length.at(self.table, Some(at as u32)));
        ends.length.depends_on_host() && end > ends.latest
    }

    /// When a job of a class must end at the latest, by the run window and `-t`.
    pub(super) fn latest_end(&self, pending: &PendingClass) -> Option<Stamp> {
        let at = usize::from(pending.queue?);
        if self.config().queues[at].ignore_deadline {
            return None;
        }
        let closes = self
            .picture
            .windows
            .run(at)
            .and_then(|window| window.change);
        closes.into_iter().chain(pending.deadline).min()
    }
}
