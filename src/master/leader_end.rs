//! Why a leader ends: by order, or because it must not or cannot continue.

/// Why a leader ends.
pub(super) enum LeaderEnd {
    /// It was asked to stop.
    Stopped,
    /// It must not or cannot continue to lead; with the reason for the log.
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
