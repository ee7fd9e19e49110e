//! What leaders have counted and measured: `view/figures.yaml`, for `cadmin metrics`.
//!
//! Owns the bounds of the buckets and how a value is put into one. A new leader continues from the
//! last published document; counts after it are lost, and if the document is lost, counting begins
//! at 0, as readers of counters expect. Never reads a clock.

use super::samples::Samples;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Upper bounds of waiting and run times, in seconds; one more bucket has the longer ones.
pub const JOB_BOUNDS_S: &[f64] = &[
    1.0, 10.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0,
];
/// Upper bounds of durations of the leader's work, in seconds.
pub const WORK_BOUNDS_S: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Maximum number of queues with figures; later queues are not counted.
pub const QUEUES_MAX: usize = 1_000;

/// Counts of values by size.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// Number of values up to each bound and above the previous one, then of those above all
    /// bounds.
    pub counts: Vec<u64>,
    /// Sum in milliseconds, rounded down for each value.
    pub sum_ms: u64,
    /// Sum of the parts below a millisecond, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// Counts a value. A histogram with other bounds is reset.
    pub fn add(&mut self, bounds_s: &[f64], us: u64) {
        if self.counts.len() != bounds_s.len() + 1 {
            self.counts = vec![0; bounds_s.len() + 1];
            (self.sum_ms, self.sum_us) = (0, 0);
        }
        let value_s = us as f64 / 1e6;
        let at = bounds_s.partition_point(|bound| *bound < value_s);
        self.counts[at] += 1;
        let rest_us = self.sum_us + us % 1000;
        self.sum_ms += us / 1000 + rest_us / 1000;
        self.sum_us = rest_us % 1000;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum_s(&self) -> f64 {
        self.sum_ms as f64 / 1e3 + self.sum_us as f64 / 1e6
    }
}

/// The figures of one queue.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueFigures {
    /// Times from the submission of a job or element to its first start.
    pub waits: Histogram,
    /// Run times of ended attempts without suspended time.
    pub runs: Histogram,
    /// Numbers of attempts that ended with exit code 0, with another end, and that were put back to
    /// pending.
    pub done: u64,
    pub failed: u64,
    pub requeued: u64,
}

/// See the head of this file.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// When counting began, ms since 1970.
    pub since: i64,
    /// The epoch of the leader that published it, and the number of takeovers since counting began.
    pub epoch: u64,
    pub takeovers: u64,
    pub queues: BTreeMap<String, QueueFigures>,
    /// Number of jobs and elements that were dispatched.
    pub dispatched: u64,
    /// Numbers of answered requests and journal events.
    pub answers: u64,
    pub events: u64,
    /// Durations of deciding in each turn, of writing and syncing the journal of a turn, and of
    /// writing the summary views.
    pub turns: Histogram,
    pub syncs: Histogram,
    pub publications: Histogram,
    /// What is counted in each sample period.
    pub samples: Samples,
}

impl Figures {
    /// The figures with which a leader of `epoch` continues. `before`: the last published ones;
    /// `now_ms` since 1970.
    pub fn taken_over(before: Option<Figures>, epoch: u64, now_ms: i64) -> Figures {
        let Some(mut figures) = before else {
            return Figures {
                since: now_ms,
                epoch,
                ..Figures::default()
            };
        };
        // Each epoch is one takeover, even if it published nothing.
        figures.takeovers += epoch.saturating_sub(figures.epoch);
        figures.epoch = epoch;
        figures
    }

    /// The figures of a queue, unless there are too many.
    pub fn queue(&mut self, name: &str) -> Option<&mut QueueFigures> {
        if !self.queues.contains_key(name) {
            if self.queues.len() >= QUEUES_MAX {
                return None;
            }
            self.queues.insert(name.to_owned(), QueueFigures::default());
        }
        self.queues.get_mut(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_whose_bound_it_does_not_pass() {
        let mut all = Histogram::default();
        let bounds = [0.001, 1.0];
        for us in [0, 1_000, 1_001, 1_000_000, 1_000_001, 7_000_000] {
            all.add(&bounds, us);
        }
        assert_eq!(all.counts, [2, 2, 2]);
        assert_eq!((all.count(), all.sum_ms, all.sum_us), (6, 9_002, 2));
        assert!((all.sum_s() - 9.002_002).abs() < 1e-9);
        all.add(&[5.0], 1_000);
        assert_eq!((&all.counts[..], all.sum_ms), (&[1, 0][..], 1));
    }

    #[test]
    fn a_new_leader_goes_on_counting() {
        let mut first = Figures::taken_over(None, 3, 77);
        assert_eq!((first.takeovers, first.since), (0, 77));
        first.queue("q").unwrap().done = 5;
        let next = Figures::taken_over(Some(first.clone()), 5, 99);
        assert_eq!((next.takeovers, next.since, next.epoch), (2, 77, 5));
        assert_eq!(next.queues["q"].done, 5);
    }

    #[test]
    fn the_number_of_queues_is_bounded() {
        let mut all = Figures::default();
        for n in 0..QUEUES_MAX + 3 {
            let _ = all.queue(&format!("q{n}"));
        }
        assert_eq!(all.queues.len(), QUEUES_MAX);
        assert!(all.queue("q0").is_some());
    }
}
