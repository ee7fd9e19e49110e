//! What a search for hosts gives: the hosts with their slots, or how far it got.

use smallvec::SmallVec;

/// Hosts by position with the slots taken on each, in the order of the job's ranks. A host may
/// appear several times if several sections use it.
pub(super) type HostSlots = SmallVec<[(u32, u32); 1]>;

/// A placement, and the alternative of the request that it serves.
pub(super) type FoundHosts = (u8, HostSlots);

/// Why no placement was found for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shortfall {
    /// Number of slots that were found.
    pub found: u32,
    /// Something that concerns only this job (its user, its limits, its length) also prevented the
    /// placement; the caller reports it.
    pub personal: bool,
    /// The alternative and the part (section) that fell short.
    pub alt: u8,
    pub part: u16,
}
