//! Ends of parallel jobs that are kept until it is known whether another host was lost.

use crate::model::{AttemptId, Mono};
use crate::record::report::Ended;
use std::collections::BTreeMap;

/// Ends that are kept, by attempt.
#[derive(Default)]
pub(in crate::turn) struct HeldEnds {
    pub ends: BTreeMap<AttemptId, HeldEnd>,
    /// The last records of report files that are to be acknowledged when nothing is kept, by host:
    /// part and number.
    pub unacknowledged: BTreeMap<String, (u64, u64)>,
}

/// An end, and the host that reported it.
pub(in crate::turn) struct HeldEnd {
    pub host: String,
    pub e: Ended,
    /// When it was received.
    pub since: Mono,
}

impl HeldEnds {
    pub(crate) fn holds_some_of(&self, host: &str) -> bool {
        self.ends.values().any(|held| held.host == host)
    }
}
