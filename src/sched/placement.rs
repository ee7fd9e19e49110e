//! What a search for hosts gives: the hosts with their slots, or how far it got.

use smallvec::SmallVec;

/// Hosts by position with the slots taken on each, in the order of the job's ranks; a host may come
/// up again when several sections use it.
pub(super) type HostSlots = SmallVec<[(u32, u32); 1]>;

/// A place, and the way of the request that it serves.
pub(super) type FoundHosts = (u8, HostSlots);

/// Why a request found no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shortfall {
    /// Slots that were found.
    pub got: u32,
    /// What only concerns this job (its user, its limits, its length) stood in the way, too; for
    /// the caller to say.
    pub personal: bool,
    /// The way and the part (section) that fell short.
    pub way: u8,
    pub part: u16,
}
