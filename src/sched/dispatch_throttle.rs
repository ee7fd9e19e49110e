//! How fast hosts get new work: the time between two starts on a host, the expected load of new
//! work. Owns the time of the last start on each host; never decides which job starts.
//!
//! Measured load is delayed: without the expected load, a burst of jobs would go to the one host
//! that looks idle. Each slot that starts counts as one running process (in `r15s`, `r1m`, `r15m`,
//! and its part of `ut`), decreasing over a minute, until the measured values include it.

use crate::model::Stamp;
use std::collections::VecDeque;

/// How long the expected load of a started job is added to the measured load.
const YOUNG_MS: u64 = 60_000;

/// Recent starts.
#[derive(Debug, Default)]
pub(super) struct DispatchThrottle {
    /// The time of the last start, by host position; empty if no queue requires time between
    /// starts.
    last_start: Vec<Stamp>,
    /// Starts of the last minute, oldest first: when, where, with how many slots.
    starts: VecDeque<(i64, u32, u32)>,
    /// Their sums, by host position.
    expected: Vec<RecentSlots>,
    /// Hosts with a new sample: their recent starts are to be counted at the time of the pass.
    to_recount: Vec<u32>,
    /// When the next host that was skipped in this pass may take jobs again.
    wake: Option<Stamp>,
}

/// Slots that started on a host within the last minute.
#[derive(Clone, Copy, Debug, Default)]
struct RecentSlots {
    slots: i64,
    /// Sum of the times of their starts. It may overflow; the difference that is computed from it
    /// does not.
    moments: i64,
}

impl RecentSlots {
    fn add(&mut self, at: i64, slots: i64) {
        self.slots += slots;
        self.moments = self.moments.wrapping_add(at.wrapping_mul(slots));
    }
}

impl DispatchThrottle {
    pub(super) fn renewed(config: &crate::config::Config, hosts: usize) -> DispatchThrottle {
        let waits = config.queues.iter().any(|q| q.job_accept_interval_ms > 0);
        DispatchThrottle {
            last_start: vec![Stamp(i64::MIN / 2); if waits { hosts } else { 0 }],
            starts: VecDeque::new(),
            expected: vec![RecentSlots::default(); hosts],
            to_recount: Vec::new(),
            wake: None,
        }
    }

    pub(super) fn note(&mut self, at: usize, start: Stamp) {
        if let Some(last) = self.last_start.get_mut(at) {
            *last = start.max(*last);
        }
    }

    /// Notes that a job was started on a host in this pass.
    pub(super) fn begin(&mut self, at: usize, now: Stamp, slots: u32) {
        self.note(at, now);
        let last = self.starts.back().map_or(now.0, |(last, ..)| *last);
        if last - now.0 > YOUNG_MS as i64 {
            self.starts.clear();
            self.expected.fill(RecentSlots::default());
        }
        if let Some(expected) = self.expected.get_mut(at) {
            // If the clock was set back a little, starts still do not move before earlier ones.
            let t = self.starts.back().map_or(now.0, |_| now.0.max(last));
            expected.add(t, i64::from(slots));
            match self.starts.back_mut() {
                Some((last, host, sum)) if (*last, *host) == (t, at as u32) => {
                    *sum = sum.saturating_add(slots);
                }
                _ => self.starts.push_back((t, at as u32, slots)),
            }
        }
    }

    /// Load that is still to be expected on a host, in thousandths of a running process.
    pub(super) fn expected(&mut self, at: usize, now: Stamp) -> i64 {
        let last = self.starts.back().map_or(now.0, |(last, ..)| *last);
        let now = now.0.max(last);
        while let Some((t, host, slots)) = self.starts.front().copied()
            && now - t >= YOUNG_MS as i64
        {
            self.expected[host as usize].add(t, -i64::from(slots));
            self.starts.pop_front();
        }
        let Some(expected) = self.expected.get(at) else {
            return 0;
        };
        // Each slot counts for the rest of its minute.
        let whole = (YOUNG_MS as i64 - now).wrapping_mul(expected.slots);
        expected.moments.wrapping_add(whole) / (YOUNG_MS as i64 / 1000)
    }

    /// Notes that a host with recent starts has a new sample: its load is to be counted at the time
    /// of the pass.
    pub(super) fn note_stale(&mut self, at: usize) {
        self.to_recount.push(at as u32);
    }

    pub(super) fn take_stale(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.to_recount)
    }

    pub(super) fn clear_stale(&mut self) {
        self.to_recount.clear();
    }

    /// Notes that a host may take jobs again at that time.
    pub(super) fn wake_at(&mut self, at: Option<Stamp>) {
        self.wake = self.wake.into_iter().chain(at).min();
    }

    pub(super) fn clear_wake(&mut self) {
        self.wake = None;
    }

    /// When the next host that was skipped in this pass may take jobs again.
    pub(super) fn next_wake(&self) -> Option<Stamp> {
        self.wake
    }

    /// When a queue may start jobs on a host again, if that is in the future.
    pub(super) fn after(&self, at: usize, interval_ms: u64, now: Stamp) -> Option<Stamp> {
        let last = self.last_start.get(at).filter(|_| interval_ms > 0)?;
        let again = last.plus_ms(interval_ms);
        // A clock that was set back must not keep a host waiting.
        (again > now && *last <= now).then_some(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(hosts: usize) -> DispatchThrottle {
        DispatchThrottle {
            expected: vec![RecentSlots::default(); hosts],
            ..DispatchThrottle::default()
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
            assert_eq!(pace.expected(at, Stamp(now)), sum / 60);
        }
        assert!(pace.starts.len() < 300, "{}", pace.starts.len());
        assert_eq!(pace.expected(1, Stamp(now + YOUNG_MS as i64)), 0);
        assert!(pace.starts.is_empty());
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_no_load_behind() {
        let mut pace = pace(1);
        pace.begin(0, Stamp(10_000_000), 4);
        // Set back by a little: as if the clock stood still.
        pace.begin(0, Stamp(9_999_000), 2);
        assert_eq!(pace.expected(0, Stamp(9_999_000)), 6000);
        // Set back by much: starts in that future are forgotten.
        pace.begin(0, Stamp(1_000_000), 1);
        assert_eq!(pace.expected(0, Stamp(1_000_000)), 1000);
        assert_eq!(pace.expected(0, Stamp(1_060_000)), 0);
    }
}
