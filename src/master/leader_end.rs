//! Why a leader ends: by order, or because it may not or cannot go on.

/// Why a leader ends.
pub(super) enum LeaderEnd {
    /// It was asked to stop.
    Stopped,
    /// It may not or cannot lead any longer; with the reason for the log.
    Lost(String),
}

impl From<crate::sys::Error> for LeaderEnd {
    fn from(e: crate::sys::Error) -> LeaderEnd {
        LeaderEnd::Lost(e.to_string())
    }
}

impl From<crate::journal::Error> for LeaderEnd {
    fn from(e: crate::journal::Error) -> LeaderEnd {
        LeaderEnd::Lost(e.to_string())
    }
}
