//! What one job adds to its request in a search for hosts: the number of slots it may have, in
//! total, for each alternative and on each host.

use super::host_ranking::LimitGroup;
use super::shape::{HostQuery, Shape};
use std::cell::Cell;

/// See [`JobTerms::room`]: shape, the query for the host, host, slots.
pub(super) type HostRoom<'a> = &'a mut dyn FnMut(&Shape, &HostQuery<'_>, usize, u32) -> u32;

/// What one job requests beyond its shape.
pub(super) struct JobTerms<'a> {
    /// Maximum number of slots that it may have.
    pub most: u32,
    /// Maximum number of slots for each alternative; 0: the alternative may not be taken. Empty:
    /// `most` for each alternative.
    pub by_alternative: &'a [u32],
    /// Milliseconds it has waited: some alternatives open only later.
    pub waited_ms: u64,
    /// The jobs to which the same limits on hosts apply.
    pub limit_group: LimitGroup,
    /// Set by `room` if such a limit leaves nothing of a host.
    pub limited: &'a Cell<bool>,
    /// How many slots a host has for this particular job, given what the request alone could take
    /// there.
    pub room: HostRoom<'a>,
}

impl JobTerms<'_> {
    /// Maximum number of slots for an alternative that opens after `after_ms`; `None`: it cannot be
    /// taken now.
    pub(super) fn max_slots_after(&self, alt: usize, after_ms: u64) -> Option<u32> {
        let most = self
            .by_alternative
            .get(alt)
            .map_or(self.most, |n| self.most.min(*n));
        (after_ms <= self.waited_ms && most > 0).then_some(most)
    }
}
