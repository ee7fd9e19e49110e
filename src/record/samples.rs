//! What leaders count in each sample period, for `cadmin perfmon`: of each number the last period,
//! the largest, the smallest and the sum.
//!
//! Owns the length of a period and when one ends. Sampling never stops: an addition for each event
//! is all that it costs. Never reads a clock.

use serde::{Deserialize, Serialize};

/// Length of a sample period in seconds.
pub const PERIOD_S: u32 = 60;
const PERIOD_MS: i64 = PERIOD_S as i64 * 1000;
/// If the clock is this far before the end of the last period, sampling begins again.
const SET_BACK_MS: i64 = 600_000;

/// A number that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleCounter {
    /// Requests that the leader answered.
    Requests,
    /// Of these, requests that created jobs.
    Submissions,
    /// Jobs, and elements of arrays, that were submitted.
    Submitted,
    /// The same that were dispatched.
    Dispatched,
    /// Attempts that ended and were not put back to pending.
    Completed,
}

impl SampleCounter {
    pub const ALL: [SampleCounter; 5] = [
        SampleCounter::Requests,
        SampleCounter::Submissions,
        SampleCounter::Submitted,
        SampleCounter::Dispatched,
        SampleCounter::Completed,
    ];
}

/// One number over the periods that have ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledNumber {
    /// In the period that has not ended.
    open: u64,
    pub last: u64,
    pub max: u64,
    pub min: u64,
    pub total: u64,
}

impl SampledNumber {
    /// Ends the period, which is the `before`th, counted from 0, and `more` empty ones after it.
    fn end_period(&mut self, before: u64, more: u64) {
        let value = std::mem::take(&mut self.open);
        self.last = if more > 0 { 0 } else { value };
        self.max = self.max.max(value);
        self.min = match before {
            0 => value,
            _ => self.min.min(value),
        };
        if more > 0 {
            self.min = 0;
        }
        self.total += value;
    }
}

/// See the head of this file.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Samples {
    /// When the first period began, ms since 1970; 0: none has begun.
    pub since: i64,
    /// Number of periods that have ended.
    pub periods: u64,
    counts: [SampledNumber; SampleCounter::ALL.len()],
}

impl Samples {
    /// When the last period ended, ms since 1970.
    pub fn end_ms(&self) -> i64 {
        let periods = i64::try_from(self.periods).unwrap_or(i64::MAX);
        self.since.saturating_add(periods.saturating_mul(PERIOD_MS))
    }

    /// Ends the periods that are over at `now_ms`.
    pub fn advance(&mut self, now_ms: i64) {
        let past = now_ms.saturating_sub(self.end_ms());
        if self.since == 0 || past < -SET_BACK_MS {
            *self = Samples {
                since: now_ms,
                ..Samples::default()
            };
            return;
        }
        let ended = u64::try_from(past / PERIOD_MS).unwrap_or(0);
        if ended > 0 {
            let before = self.periods;
            self.counts
                .iter_mut()
                .for_each(|count| count.end_period(before, ended - 1));
            self.periods += ended;
        }
    }

    /// Counts in the period that has not ended.
    pub fn add(&mut self, what: SampleCounter, n: u64) {
        self.counts[what as usize].open += n;
    }

    pub fn of(&self, what: SampleCounter) -> SampledNumber {
        self.counts[what as usize]
    }

    /// The mean of all periods, rounded.
    pub fn mean(&self, what: SampleCounter) -> u64 {
        let half = self.periods / 2;
        (self.of(what).total + half)
            .checked_div(self.periods)
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: i64 = 1_000_000;

    /// Last, max, min, mean, total.
    fn numbers(all: &Samples) -> [u64; 5] {
        let one = all.of(SampleCounter::Submitted);
        let mean = all.mean(SampleCounter::Submitted);
        [one.last, one.max, one.min, mean, one.total]
    }

    #[test]
    fn a_period_ends_once_and_empty_ones_count() {
        let mut all = Samples::default();
        all.advance(BEGIN);
        assert_eq!((all.since, all.periods), (BEGIN, 0));
        for (seconds, n, want) in [
            (59, 3, [0; 5]),
            (60, 5, [3, 3, 3, 3, 3]),
            (119, 0, [3, 3, 3, 3, 3]),
            (121, 1, [5, 5, 3, 4, 8]),
            // Nothing for three periods: the one that was open, and two empty ones.
            (300, 0, [0, 5, 0, 2, 9]),
        ] {
            all.advance(BEGIN + seconds * 1000);
            assert_eq!(numbers(&all), want, "after {seconds} s");
            all.add(SampleCounter::Submitted, n);
        }
        assert_eq!((all.periods, all.end_ms()), (5, BEGIN + 300_000));
        assert_eq!(all.of(SampleCounter::Dispatched), SampledNumber::default());
    }

    #[test]
    fn a_clock_that_is_set_back_far_begins_again() {
        let mut all = Samples::default();
        all.advance(BEGIN);
        all.add(SampleCounter::Requests, 7);
        all.advance(BEGIN + 3_600_000);
        let before = all.clone();
        all.advance(BEGIN + 3_600_000 - SET_BACK_MS);
        assert_eq!(all, before, "no period ends");
        all.advance(BEGIN);
        assert_eq!((all.since, all.periods), (BEGIN, 0));
        assert_eq!(all.of(SampleCounter::Requests).total, 0);
    }

    #[test]
    fn a_new_leader_continues_what_was_published() {
        let mut all = Samples::default();
        all.advance(BEGIN);
        all.add(SampleCounter::Completed, 2);
        let text = serde_json::to_string(&all).unwrap();
        let again: Samples = serde_json::from_str(&text).unwrap();
        assert_eq!(again, all);
        let mut again = again;
        again.advance(BEGIN + 60_000);
        assert_eq!(again.of(SampleCounter::Completed).last, 2);
    }
}
