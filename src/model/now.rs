//! The current time by two clocks. Plain data: reads no clock.

use super::Stamp;

/// A point in time by a monotonic clock, in milliseconds since an arbitrary origin. It is not
/// comparable between hosts or processes and is never written to a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// Milliseconds from `earlier` to `self`.
    pub fn since_ms(self, earlier: Mono) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `ms` milliseconds later.
    pub fn plus_ms(self, ms: u64) -> Mono {
        Mono(self.0.saturating_add(ms))
    }
}

/// The current time. `wall` is for times of day that users read and write; every interval is
/// measured by `mono`, because a wall clock may be set forward and back while a daemon runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    pub wall: Stamp,
    pub mono: Mono,
}
