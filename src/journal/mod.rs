//! Floor 2: the journal, the only source of truth. Segments, append and sync, seals, replay,
//! snapshots.
//!
//! A leader's events go to segments `epoch/NNNNNN/journal.NNNN.yaml` of its own epoch. A segment
//! ends where a seal says: the first event of the next segment, or the first events of a later
//! epoch, state how many bytes of it exist. Only the newest, unsealed tail is read up to its last
//! intact record. Never guesses: damage in the middle, a missing segment or a missing seal is
//! named and refused.

mod chain;
mod compact;
mod decode;
mod error;
mod history;
mod lines;
mod past;
mod recover;
pub mod snapshot;
mod writer;

pub use chain::{Chain, Flow, SealedEnd, WalkItem, WalkPosition};
pub use compact::{Compacted, Retention, compact};
pub use decode::decode_event;
pub use error::Error;
pub use history::{History, HistoryEntry};
pub use lines::{IntactLine, LineError, Lines, Skipped};
pub use past::{HistoryRetention, RecoveredPast, RestorePast, needed_since, recover_past};
pub use recover::{Options, Recovered, Restore, make_durable, recover};
pub use writer::{SEGMENT_BYTES, Writer};

use serde::{Deserialize, Serialize};
use std::fmt;

/// A position in the journal: in a segment, immediately before record `seq`.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Position {
    pub epoch: u64,
    pub segment: u64,
    /// Offset in the segment's file.
    pub bytes: u64,
    /// Sequence number of the record that is expected at that offset.
    pub seq: u64,
}

impl Position {
    /// Epoch, segment and number of the record before it.
    pub fn record_before(self) -> (u64, u64, u64) {
        (self.epoch, self.segment, self.seq.saturating_sub(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}@{}", self.epoch, self.segment, self.bytes)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_disk_full;
#[cfg(test)]
mod tests_past;
