//! How much of the leader's time account lookups may take. Values only: no clock, no files.
//!
//! A directory service that is down or slow must not take the time of all turns, and one slow
//! answer of an otherwise fast service must not make new users wait: time spent is a debt that a
//! tenth of all time pays off, and no lookup is made while the debt is large.

/// Debt up to which look-ups continue (ms).
const DEBT_MS: u64 = 1_000;
/// The fraction of time that reduces the debt: one in this many.
const ONE_IN: u64 = 10;
/// Shortest and longest pause (ms).
const PAUSE_MS: (u64, u64) = (2_000, 60_000);

/// Limits the rate of one leader's look-ups. Times are of the boot clock, ms.
#[derive(Debug, Default)]
pub(super) struct AccountPace {
    debt: u64,
    /// When the debt had that size.
    updated_at: u64,
    /// No account is looked up before this time.
    until: u64,
}

impl AccountPace {
    /// Notes that a look-up at `now` took `took` ms.
    pub(super) fn note_look_up(&mut self, took: u64, failed: bool, now: u64) {
        let paid = now.saturating_sub(self.updated_at) / ONE_IN;
        self.debt = self.debt.saturating_sub(paid).saturating_add(took);
        self.updated_at = now;
        let wait = match failed {
            true => took.saturating_mul(ONE_IN),
            false if self.debt > DEBT_MS => (self.debt - DEBT_MS).saturating_mul(ONE_IN),
            false => return,
        };
        self.until = now.saturating_add(wait.clamp(PAUSE_MS.0, PAUSE_MS.1));
    }

    /// Whether users that are not known yet have to wait.
    pub(super) fn is_pause(&self, now: u64) -> bool {
        now < self.until
    }

    /// Ends the pause, in tests.
    #[cfg(test)]
    pub(super) fn end_pause(&mut self) {
        *self = AccountPace::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_answer_makes_no_user_wait() {
        let mut pace = AccountPace::default();
        pace.note_look_up(900, false, 10_000);
        assert!(!pace.is_pause(10_000));
        // Almost paid off after nine seconds.
        pace.note_look_up(900, false, 19_000);
        assert!(!pace.is_pause(19_000));
        pace.note_look_up(3_000, false, 30_000);
        assert!(pace.is_pause(49_999) && !pace.is_pause(50_000));
    }

    #[test]
    fn a_slow_service_takes_a_tenth_of_the_time() {
        let (mut pace, mut now, mut spent) = (AccountPace::default(), 0, 0);
        while now < 1_000_000 {
            match pace.is_pause(now) {
                true => now += 100,
                false => {
                    now += 600;
                    spent += 600;
                    pace.note_look_up(600, false, now);
                }
            }
        }
        assert!((80_000..115_000).contains(&spent), "{spent} ms of {now} ms");
    }

    #[test]
    fn after_a_failure_there_is_a_pause_of_two_seconds_to_a_minute() {
        for (took, pause) in [(0, 2_000), (1_000, 10_000), (30_000, 60_000)] {
            let mut pace = AccountPace::default();
            pace.note_look_up(took, true, 100_000);
            assert!(pace.is_pause(100_000 + pause - 1));
            assert!(!pace.is_pause(100_000 + pause));
        }
    }
}
