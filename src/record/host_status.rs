//! The status of a host: one of the words of LSF that commands print. Owns the words; the leader
//! chooses the status.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether a host accepts jobs, and if not, the first reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostStatus {
    #[serde(rename = "ok")]
    Ok,
    /// `cbls` is silent.
    #[serde(rename = "unavail")]
    Unavailable,
    /// `cbls` reports, `cbexe` is silent.
    #[serde(rename = "unreach")]
    Unreachable,
    /// Closed by an administrator or by cb.yaml.
    #[serde(rename = "closed_Adm")]
    ClosedByAdmin,
    #[serde(rename = "closed_Lock")]
    Locked,
    /// Outside its dispatch window.
    #[serde(rename = "closed_Wind")]
    ClosedByWindow,
    /// An exclusive job uses it.
    #[serde(rename = "closed_Excl")]
    Exclusive,
    #[serde(rename = "closed_Full")]
    Full,
    /// Its load is over a threshold.
    #[serde(rename = "closed_Busy")]
    Busy,
    /// Tasks cannot be started there that run elsewhere.
    #[serde(rename = "closed_Fail")]
    Failing,
    /// A word of a newer leader, or none.
    #[default]
    #[serde(other, rename = "unknown")]
    Unknown,
}

/// Whether a host accepts jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    Open,
    Closed,
    /// It or its executor is silent.
    Away,
}

impl HostStatus {
    const ALL: [HostStatus; 11] = [
        HostStatus::Ok,
        HostStatus::Unavailable,
        HostStatus::Unreachable,
        HostStatus::ClosedByAdmin,
        HostStatus::Locked,
        HostStatus::ClosedByWindow,
        HostStatus::Exclusive,
        HostStatus::Full,
        HostStatus::Busy,
        HostStatus::Failing,
        HostStatus::Unknown,
    ];

    /// The word, as in `chosts -w`.
    pub fn word(self) -> &'static str {
        match self {
            HostStatus::Ok => "ok",
            HostStatus::Unavailable => "unavail",
            HostStatus::Unreachable => "unreach",
            HostStatus::ClosedByAdmin => "closed_Adm",
            HostStatus::Locked => "closed_Lock",
            HostStatus::ClosedByWindow => "closed_Wind",
            HostStatus::Exclusive => "closed_Excl",
            HostStatus::Full => "closed_Full",
            HostStatus::Busy => "closed_Busy",
            HostStatus::Failing => "closed_Fail",
            HostStatus::Unknown => "unknown",
        }
    }

    /// The word of the narrow table: `closed` for every kind of closed.
    pub fn short_word(self) -> &'static str {
        match self.kind() {
            HostKind::Closed => "closed",
            HostKind::Open | HostKind::Away => self.word(),
        }
    }

    pub fn kind(self) -> HostKind {
        match self {
            HostStatus::Ok => HostKind::Open,
            HostStatus::ClosedByAdmin
            | HostStatus::Locked
            | HostStatus::ClosedByWindow
            | HostStatus::Exclusive
            | HostStatus::Full
            | HostStatus::Busy
            | HostStatus::Failing => HostKind::Closed,
            HostStatus::Unavailable | HostStatus::Unreachable | HostStatus::Unknown => {
                HostKind::Away
            }
        }
    }

    /// Whether `cbls` or `cbexe` is silent.
    pub fn is_silent(self) -> bool {
        matches!(self, HostStatus::Unavailable | HostStatus::Unreachable)
    }
}

impl From<&str> for HostStatus {
    /// The status of this word.
    fn from(word: &str) -> HostStatus {
        let mut all = HostStatus::ALL.into_iter();
        all.find(|status| status.word() == word).unwrap_or_default()
    }
}

impl fmt::Display for HostStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_stored_as_its_word_and_a_new_word_is_unknown() {
        for status in HostStatus::ALL {
            let text = serde_json::to_string(&status).unwrap();
            assert_eq!(text, format!("\"{status}\""));
            assert_eq!(serde_json::from_str::<HostStatus>(&text).unwrap(), status);
            assert_eq!(HostStatus::from(status.word()), status);
            let is_closed = status.word().starts_with("closed_");
            assert_eq!(status.short_word() == "closed", is_closed);
        }
        let new: HostStatus = serde_json::from_str("\"closed_Moon\"").unwrap();
        assert_eq!(new, HostStatus::Unknown);
    }
}
