//! When a sensor is started, when it hangs, and how long it is not restarted after its end. A state
//! machine whose clock is an argument (milliseconds that never decrease).

/// First and longest pause before a sensor is started again.
pub const BACKOFF_MS: (u64, u64) = (1_000, 300_000);
/// A run of at least this duration that printed a good document resets the count of failures.
pub const STEADY_MS: u64 = 60_000;
/// Number of periods within which a sensor must print the next good document...
pub const HANG_PERIODS: u64 = 10;
/// ...but at least and at most this time.
pub const HANG_MS: (u64, u64) = (60_000, 600_000);

/// Exit code of a sensor that has nothing to measure on this host (`EX_UNAVAILABLE`).
pub const NOTHING_HERE: i32 = 69;
/// Pause before such a sensor is started again, and number of tries: its driver may be loaded late.
pub const ABSENT_MS: u64 = 600_000;
pub const ABSENT_TRIES: u32 = 6;

/// The history of a sensor and when it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensorLifecycle {
    state: State,
    /// Number of consecutive ends that did not follow a steady run.
    fails: u32,
    /// Number of ends that reported that there is nothing to measure.
    nothing_to_measure: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is not started again.
    Idle,
    Waiting {
        until: u64,
    },
    Runs {
        since: u64,
        good: Option<u64>,
    },
}

impl SensorLifecycle {
    /// A sensor that is due at once.
    pub fn new(now: u64) -> SensorLifecycle {
        let state = State::Waiting { until: now };
        SensorLifecycle {
            state,
            fails: 0,
            nothing_to_measure: 0,
        }
    }

    /// Whether it is to be started now.
    pub fn is_due(&self, now: u64) -> bool {
        matches!(self.state, State::Waiting { until } if until <= now)
    }

    /// When it is to be started; `None`: it runs, or is not started again.
    pub fn due_at(&self) -> Option<u64> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Runs { .. } | State::Idle => None,
        }
    }

    /// It was started.
    pub fn started(&mut self, now: u64) {
        self.state = State::Runs {
            since: now,
            good: None,
        };
    }

    /// It printed a document with at least one resource.
    pub fn document_received(&mut self, now: u64) {
        if let State::Runs { good, .. } = &mut self.state {
            *good = Some(now);
            self.nothing_to_measure = 0;
        }
    }

    /// Whether it has printed nothing useful for too long and is to be ended. `period`: between two
    /// of its documents, if known.
    pub fn is_hanging(&self, period: Option<u64>, now: u64) -> bool {
        let State::Runs { since, good } = self.state else {
            return false;
        };
        let (low, high) = HANG_MS;
        let patience = period.map_or(high, |p| (p.saturating_mul(HANG_PERIODS)).clamp(low, high));
        now.saturating_sub(good.unwrap_or(since)) > patience
    }

    /// It ended, or could not be started. Returns the pause before the next start.
    pub fn ended(&mut self, now: u64) -> u64 {
        let steady = match self.state {
            State::Runs { since, good } => good.is_some() && now.saturating_sub(since) >= STEADY_MS,
            State::Waiting { .. } | State::Idle => false,
        };
        self.fails = if steady {
            1
        } else {
            self.fails.saturating_add(1)
        };
        let (first, longest) = BACKOFF_MS;
        let pause = first << (self.fails - 1).min(20);
        let pause = pause.min(longest);
        self.state = State::Waiting { until: now + pause };
        pause
    }

    /// It ended with [`NOTHING_HERE`]. Returns the pause before the next start; `None`: it is not
    /// started again.
    pub fn ended_without_data(&mut self, now: u64) -> Option<u64> {
        self.nothing_to_measure += 1;
        let again = self.nothing_to_measure <= ABSENT_TRIES;
        self.state = match again {
            true => State::Waiting {
                until: now + ABSENT_MS,
            },
            false => State::Idle,
        };
        again.then_some(ABSENT_MS)
    }

    /// Whether it had reported this before.
    pub fn had_nothing_to_measure(&self) -> bool {
        self.nothing_to_measure > 1
    }
}
