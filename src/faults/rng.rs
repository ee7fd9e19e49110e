//! The random numbers of a run: its only source of chance. Owns how a seed becomes a stream.

use crate::model::SplitMix64;

/// The stream of a seed.
pub(super) fn rng(seed: u64) -> SplitMix64 {
    // Recorded seeds count on this start of the stream.
    SplitMix64::new(seed ^ 0x9e37_79b9_7f4a_7c15)
}
