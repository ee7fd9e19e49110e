//! When a job that ended by itself runs again, as data. The decision is made at its end.

use serde::{Deserialize, Serialize};

/// The settings of one job.
#[allow(clippy::derived_hash_with_manual_eq)] // equal by all fields, as the hash is
#[derive(Clone, Default, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RerunSettings {
    /// `-Q`: exit values (`text::exits` canonical form) instead of its queue's; empty = the
    /// queue's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub exits: String,
    /// `--retries`: maximum number of retries after failures; `None` = as set by its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
}

impl RerunSettings {
    pub(super) fn is_none(&self) -> bool {
        *self == RerunSettings::default()
    }
}

/// The next run of a job that failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Retry {
    /// Not before this time (ms, the leader's clock).
    pub at: i64,
    /// Number of this retry, and maximum number.
    pub n: u32,
    pub of: u32,
    /// Time after the end.
    pub delay_s: u64,
}

impl Retry {
    /// The retry after attempt number `attempt`, which ended at `now` (ms); `None`: all `of` were
    /// used.
    pub fn after(attempt: u32, of: u32, now: i64) -> Option<Retry> {
        let doubled = 1u64
            .checked_shl(attempt.saturating_sub(1))
            .unwrap_or(u64::MAX);
        let delay_s = doubled.clamp(1, LONGEST_S);
        (attempt <= of).then(|| Retry {
            at: now.saturating_add(delay_s as i64 * 1000),
            n: attempt,
            of,
            delay_s,
        })
    }
}

/// Longest pause before a retry, in seconds.
const LONGEST_S: u64 = 300;
/// Maximum value of `--retries` and the key `retries`.
pub const MAX_RETRIES: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_from_a_second_to_five_minutes() {
        let delay = |attempt| Retry::after(attempt, 1_000, 0).map(|r| (r.delay_s, r.at));
        assert_eq!(delay(1), Some((1, 1_000)));
        assert_eq!(delay(4), Some((8, 8_000)));
        assert_eq!(delay(9), Some((256, 256_000)));
        for attempt in [10, 64, 65, 1_000] {
            assert_eq!(delay(attempt), Some((300, 300_000)));
        }
        assert_eq!(Retry::after(3, 2, 0), None);
        assert_eq!(Retry::after(1, 0, 0), None);
    }
}
