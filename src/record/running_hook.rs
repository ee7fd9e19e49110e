//! A command around a job's own that runs on its first host and is not over soon: hosts report it,
//! so that users see what their job waits for.

use serde::{Deserialize, Serialize};

/// A hook is reported when it has run for this time (ms). From then on a kill of its job ends it
/// even if it runs after the command.
pub const REPORTED_MS: u64 = 10_000;

/// See the head of this file. Times are those of the host's clock (ms).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RunningHook {
    /// Which one: `post-exec of the queue`.
    #[serde(rename = "w")]
    pub what: String,
    /// The job's own command has ended.
    #[serde(rename = "p", skip_serializing_if = "std::ops::Not::not")]
    pub after: bool,
    #[serde(rename = "t")]
    pub since: i64,
    /// When its time limit ends it.
    #[serde(rename = "e")]
    pub until: i64,
}

impl RunningHook {
    /// Whether it has run for more than half of its time limit.
    pub fn hangs(&self, now: i64) -> bool {
        let limit = self.until.saturating_sub(self.since);
        now.saturating_sub(self.since) > limit / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_hangs_after_half_of_its_time() {
        let hook = RunningHook {
            since: 1_000,
            until: 3_000,
            ..RunningHook::default()
        };
        assert!(!hook.hangs(2_000) && hook.hangs(2_001));
        assert!(!hook.hangs(0), "by a clock that is slow");
    }
}
