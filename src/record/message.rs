//! Messages that users leave with a job (`cpost`, `cread`): a text with an index, its sender and
//! its time.
//!
//! Owns the form of a message and its limits, which the command and the leader check alike.

use crate::model::Stamp;
use serde::{Deserialize, Serialize};

/// Number of messages of a job or element: indexes are below it (as `MAX_JOB_MSG_NUM` of LSF).
pub const MESSAGES_MAX: u32 = 128;
/// Maximum length of a message in characters (as in LSF).
pub const TEXT_MAX: usize = 512;
/// Maximum number of messages of all jobs of a user.
pub const OF_OWNER_MAX: u32 = 10_000;

/// One message of a job or element.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobMessage {
    #[serde(rename = "i", skip_serializing_if = "is_zero")]
    pub index: u32,
    /// The user who posted it.
    pub by: String,
    pub t: Stamp,
    pub text: String,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Checks the limits of one message.
///
/// # Errors
/// Names the limit that is exceeded.
pub fn check(index: u32, text: &str) -> Result<(), String> {
    if index >= MESSAGES_MAX {
        let last = MESSAGES_MAX - 1;
        return Err(format!("-i: message indexes are 0 to {last}"));
    }
    let length = text.chars().count();
    if length > TEXT_MAX {
        return Err(format!(
            "-d: the message has {length} characters, at most {TEXT_MAX} are allowed"
        ));
    }
    if text.contains('\0') {
        return Err("-d: a message must not contain a NUL character".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_counted_in_characters() {
        assert_eq!(check(0, ""), Ok(()));
        assert_eq!(check(127, &"作".repeat(512)), Ok(()));
        for (index, text, says) in [
            (128, "", "0 to 127"),
            (u32::MAX, "", "0 to 127"),
            (0, &"x".repeat(513), "513 characters, at most 512"),
            (0, "a\0", "NUL"),
        ] {
            let refused = check(index, text).expect_err(says);
            assert!(refused.contains(says), "{refused}");
        }
    }
}
