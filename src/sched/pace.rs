//! How fast jobs are taken: the age that user priority gains, the delay of new jobs, the time
//! between two starts on a host. Owns when work last started on each host.

use super::engine::{Bucket, Engine};
use super::shape::Shape;
use crate::model::{JobKey, PendReason, Stamp};
use crate::state::State;

/// What is remembered of starts.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When work last started, by host position; empty when no queue asks for time between starts.
    started: Vec<Stamp>,
    /// When the next host may take work again that was passed over in this pass.
    pub wake: Option<Stamp>,
}

impl Pace {
    pub fn renewed(config: &crate::config::Config, hosts: usize) -> Pace {
        let waits = config.queues.iter().any(|q| q.job_accept_interval_ms > 0);
        Pace {
            started: vec![Stamp(i64::MIN / 2); if waits { hosts } else { 0 }],
            wake: None,
        }
    }

    pub fn note(&mut self, at: usize, start: Stamp) {
        if let Some(last) = self.started.get_mut(at) {
            *last = start.max(*last);
        }
    }

    /// When a queue may start work on a host again, if that is later than now.
    pub fn after(&self, at: usize, interval_ms: u64, now: Stamp) -> Option<Stamp> {
        let last = self.started.get(at).filter(|_| interval_ms > 0)?;
        let again = last.plus_ms(interval_ms);
        // A clock that was set back must not keep a host waiting.
        (again > now && *last <= now).then_some(again)
    }
}

impl Engine {
    /// The place of a job among those of other priorities; the least goes first. With ageing all
    /// priorities grow alike, so who is ahead stays ahead: age at submission decides for good. The
    /// steps of the setting are taken as a slope.
    pub(super) fn rank_of(&self, state: &State, priority: u32, j: JobKey) -> i64 {
        let Some(age) = self.config().general.job_priority_over_time else {
            return -i64::from(priority);
        };
        let submit = state.job(j.id).map_or(0, |job| job.submit.0);
        let every = i64::try_from(age.every_ms).unwrap_or(i64::MAX);
        let born = submit.saturating_mul(i64::from(age.points));
        born.saturating_sub(every.saturating_mul(i64::from(priority)))
    }

    /// Work has started on the host too short a time ago for the queue of the shape.
    pub(super) fn recent(&self, shape: &Shape, at: usize) -> bool {
        let queue = shape.queue.map(|at| &self.config().queues[usize::from(at)]);
        let interval = queue.map_or(0, |queue| queue.job_accept_interval_ms);
        self.pace.after(at, interval, self.now).is_some()
    }

    /// The delay of new jobs keeps the job from being looked at.
    pub(super) fn too_new(
        &self,
        state: &State,
        bucket: &Bucket,
        j: JobKey,
    ) -> Option<(PendReason, Stamp)> {
        let queue = &self.config().queues[usize::from(bucket.queue?)];
        let delay = queue.new_job_sched_delay_ms;
        if delay == 0 {
            return None;
        }
        let at = state.job(j.id)?.submit.plus_ms(delay);
        let why = PendReason::TooNew {
            queue: queue.name.clone(),
            delay_s: delay.div_ceil(1000),
        };
        (at > self.now).then_some((why, at))
    }
}
