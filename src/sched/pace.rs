//! How fast jobs are taken: the age that user priority gains, the delay of new jobs, the time
//! between two starts on a host, the load that new work will bring. Owns when work last started on
//! each host; never decides who starts.
//!
//! Measured load follows late: without the load to come a burst would land on the one host that
//! looks idle. Each slot that starts counts as one running process (in `r15s`, `r1m`, `r15m`, and
//! its part of `ut`), less and less over a minute, by which time the measured figures have it.

use super::engine::{Bucket, Engine};
use super::hosts::HostTable;
use super::shape::Shape;
use crate::model::{JobKey, PendReason, Stamp};
use crate::state::State;
use std::collections::VecDeque;

/// How long started work counts beside what is measured.
const YOUNG_MS: u64 = 60_000;

/// What is remembered of starts.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When work last started, by host position; empty when no queue asks for time between starts.
    started: Vec<Stamp>,
    /// Starts of the last minute, oldest first: when, where, with how many slots.
    starts: VecDeque<(i64, u32, u32)>,
    /// Their sums by host position.
    young: Vec<Young>,
    /// Hosts with a new sample, where what is young is to be counted at the time of the pass.
    pub stale: Vec<u32>,
    /// When the next host may take work again that was passed over in this pass.
    pub wake: Option<Stamp>,
}

/// Slots that started on a host within the last minute.
#[derive(Clone, Copy, Debug, Default)]
struct Young {
    slots: i64,
    /// The moments of their starts, added up. It may overflow, the difference that is asked for
    /// does not.
    moments: i64,
}

impl Young {
    fn add(&mut self, at: i64, slots: i64) {
        self.slots += slots;
        self.moments = self.moments.wrapping_add(at.wrapping_mul(slots));
    }
}

impl Pace {
    pub fn renewed(config: &crate::config::Config, hosts: usize) -> Pace {
        let waits = config.queues.iter().any(|q| q.job_accept_interval_ms > 0);
        Pace {
            started: vec![Stamp(i64::MIN / 2); if waits { hosts } else { 0 }],
            starts: VecDeque::new(),
            young: vec![Young::default(); hosts],
            stale: Vec::new(),
            wake: None,
        }
    }

    pub fn note(&mut self, at: usize, start: Stamp) {
        if let Some(last) = self.started.get_mut(at) {
            *last = start.max(*last);
        }
    }

    /// Work started on a host in this pass.
    pub fn begin(&mut self, at: usize, now: Stamp, slots: u32) {
        self.note(at, now);
        let last = self.starts.back().map_or(now.0, |(last, ..)| *last);
        if last - now.0 > YOUNG_MS as i64 {
            self.starts.clear();
            self.young.fill(Young::default());
        }
        if let Some(young) = self.young.get_mut(at) {
            // A clock that was set back a little does not move starts before earlier ones.
            let t = self.starts.back().map_or(now.0, |_| now.0.max(last));
            young.add(t, i64::from(slots));
            match self.starts.back_mut() {
                Some((last, host, sum)) if (*last, *host) == (t, at as u32) => {
                    *sum = sum.saturating_add(slots);
                }
                _ => self.starts.push_back((t, at as u32, slots)),
            }
        }
    }

    /// Load that is to come on a host, in thousandths of a running process.
    pub fn young(&mut self, at: usize, now: Stamp) -> i64 {
        let last = self.starts.back().map_or(now.0, |(last, ..)| *last);
        let now = now.0.max(last);
        while let Some((t, host, slots)) = self.starts.front().copied()
            && now - t >= YOUNG_MS as i64
        {
            self.young[host as usize].add(t, -i64::from(slots));
            self.starts.pop_front();
        }
        let Some(young) = self.young.get(at) else {
            return 0;
        };
        // Each slot counts for what is left of its minute.
        let whole = (YOUNG_MS as i64 - now).wrapping_mul(young.slots);
        young.moments.wrapping_add(whole) / (YOUNG_MS as i64 / 1000)
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
    /// Work starts on a host in this pass.
    pub(super) fn begin_on(&mut self, table: &HostTable, at: usize, slots: u32) {
        self.pace.begin(at, self.now, slots);
        let young = self.pace.young(at, self.now);
        self.books.set_young(at, young);
        if self.watch.samples() && self.watch.bars(table.at(at), young) {
            self.books.shut(at);
        }
    }

    /// The place of a job among those of other priorities; the least goes first. With ageing all
    /// priorities grow alike, so who is ahead stays ahead: age at submission decides for good. The
    /// points of the setting come one by one, by the clock and not by the job, so that jobs of
    /// about the same age are equal and stay so: `ctop` decides among them.
    pub(super) fn rank_of(&self, state: &State, priority: u32, j: JobKey) -> i64 {
        let Some(age) = self.config().general.job_priority_over_time else {
            return -i64::from(priority);
        };
        let submit = state.job(j.id).map_or(0, |job| job.submit.0);
        let points = i128::from(submit) * i128::from(age.points);
        let born = points.div_euclid(i128::from(age.every_ms.max(1)));
        i64::try_from(born - i128::from(priority)).unwrap_or(i64::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(hosts: usize) -> Pace {
        Pace {
            young: vec![Young::default(); hosts],
            ..Pace::default()
        }
    }

    #[test]
    fn slots_count_for_what_is_left_of_their_minute() {
        let (mut pace, mut all, mut seed) = (pace(3), Vec::new(), 3u64);
        let mut now = 1_700_000_000_000;
        for _ in 0..2000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            now += (seed % 900) as i64;
            let (at, slots) = ((seed >> 20) as usize % 3, (seed >> 30) as u32 % 5);
            pace.begin(at, Stamp(now), slots);
            all.push((at, now, i64::from(slots)));
            let left = |t: &i64| (YOUNG_MS as i64 - (now - t)).max(0);
            let of_host = all.iter().filter(|(host, ..)| *host == at);
            let sum: i64 = of_host.map(|(_, t, slots)| left(t) * slots).sum();
            assert_eq!(pace.young(at, Stamp(now)), sum / 60);
        }
        assert!(pace.starts.len() < 300, "{}", pace.starts.len());
        assert_eq!(pace.young(1, Stamp(now + YOUNG_MS as i64)), 0);
        assert!(pace.starts.is_empty());
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_no_load_behind() {
        let mut pace = pace(1);
        pace.begin(0, Stamp(10_000_000), 4);
        // By a little: as if it stood still.
        pace.begin(0, Stamp(9_999_000), 2);
        assert_eq!(pace.young(0, Stamp(9_999_000)), 6000);
        // By far: what was begun in that future is forgotten.
        pace.begin(0, Stamp(1_000_000), 1);
        assert_eq!(pace.young(0, Stamp(1_000_000)), 1000);
        assert_eq!(pace.young(0, Stamp(1_060_000)), 0);
    }
}
