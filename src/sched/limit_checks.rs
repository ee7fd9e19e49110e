//! How much section `limits` and limits on hosts leave to one job: by each alternative of its
//! request, and on one host. Reads counters, never changes them.

use super::compiled_request::Alternative;
use super::host_ranking::LimitGroup;
use super::quota::{Blocked, Ident, Need, Quotas};
use super::shape::{ClusterView, HostQuery, Shape};
use smallvec::SmallVec;

/// What the limits that do not depend on the host leave to a job, by alternative.
#[derive(Default)]
pub(super) struct AlternativeSlots {
    /// Maximum number of slots, 0: the alternative may not be taken. Empty: there is one
    /// alternative, or no limit distinguishes them.
    pub most: SmallVec<[u32; 4]>,
    /// At least one alternative may not be taken.
    pub some_blocked: bool,
    /// The limit, if none of the open alternatives may be taken.
    pub blocked: Option<Blocked>,
}

/// Computes what is left to a job for each alternative of its request.
pub(super) fn slots_by_alternative(
    quotas: &Quotas,
    ident: &Ident,
    shape: &Shape,
    waited_ms: u64,
) -> AlternativeSlots {
    if shape.alternatives.len() == 1 || !ident.counts_amounts() {
        return AlternativeSlots::default();
    }
    let need = shape.request.min.max(1);
    let rooms = shape
        .alternatives
        .iter()
        .map(|alternative| alternative_room(quotas, ident, alternative, need));
    let rooms: SmallVec<[_; 4]> = rooms.collect();
    let open = shape
        .alternatives
        .iter()
        .zip(&rooms)
        .filter(|(alternative, _)| alternative.after_ms <= waited_ms);
    let open: SmallVec<[_; 4]> = open.map(|(_, room)| room).collect();
    AlternativeSlots {
        some_blocked: rooms.iter().any(Result::is_err),
        blocked: match open.iter().all(|room| room.is_err()) {
            true => open.first().and_then(|room| room.err()),
            false => None,
        },
        most: rooms.iter().map(|room| room.unwrap_or(0)).collect(),
    }
}

pub(super) fn alternative_room(
    quotas: &Quotas,
    ident: &Ident,
    alternative: &Alternative,
    slots: u32,
) -> Result<u32, Blocked> {
    let (per_slot, fixed) = &alternative.needs;
    let need = Need {
        slots,
        per_slot,
        fixed,
    };
    quotas.max_slots(ident, &need)
}

/// What section `limits` leaves to a job on one more host, beside what it takes in trial.
pub(super) struct LimitRoom {
    pub slots: u32,
    /// The limit that leaves nothing.
    pub blocked: Option<Blocked>,
    /// It is a limit on hosts.
    pub limited: bool,
    /// The limits that do not depend on the host leave less than the host and the job would take.
    pub personal: bool,
}

/// What section `limits` leaves to a job on one more host, beside its trial.
///
/// `may`: what the host offers; `most`: maximum number of slots of the job.
pub(super) fn slots_left_on(
    quotas: &Quotas,
    ident: &Ident,
    shape: &Shape,
    (at, may): (usize, u32),
    most: u32,
    query: &HostQuery<'_>,
) -> LimitRoom {
    // If it cannot take more than its minimum need, that was checked before the search.
    let adds_up = ident.counts_amounts() && shape.alternatives[query.alt].adds_up;
    let mut left = LimitRoom {
        slots: u32::MAX,
        blocked: None,
        limited: false,
        personal: false,
    };
    if !adds_up && !ident.by_host() {
        return left;
    }
    let (per_slot, fixed) = shape.needs_on_host(query);
    let need = Need {
        slots: 1,
        per_slot: &per_slot,
        fixed: &fixed,
    };
    let so_far = shape.trial_by_host(query);
    if ident.by_host() {
        let room = quotas.room_on_host(ident, at as u32, &need, &so_far);
        left.limited = room.is_err();
        (left.slots, left.blocked) = (room.unwrap_or(0), room.err());
    }
    if adds_up {
        let room = quotas.max_slots_beside(ident, &need, &so_far);
        left.blocked = room.err().or(left.blocked);
        let taken: i64 = so_far.iter().map(|(_, part)| part.slots).sum();
        let wanted = most.saturating_sub(u32::try_from(taken).unwrap_or(0));
        left.personal = room.unwrap_or(0) < may.min(wanted);
        left.slots = left.slots.min(room.unwrap_or(0));
    }
    left
}

/// Slots that a host leaves to one user.
pub(super) fn user_room(
    view: &ClusterView<'_>,
    (uid, per_core): (u32, Option<u64>),
    at: usize,
    query: &HostQuery<'_>,
) -> u32 {
    if !view.usage.by_holder() {
        return u32::MAX;
    }
    let limit = view.table.at(at).user_limit(per_core);
    limit.map_or(u32::MAX, |limit| {
        let used = view.usage.get(at).user_used(uid);
        limit.saturating_sub(used.saturating_add(query.trial_slots()))
    })
}

/// The jobs to which the same limits on hosts apply, and since when.
pub(super) fn same_limits(quotas: &Quotas, ident: &Ident) -> LimitGroup {
    LimitGroup {
        on_hosts: ident.on_hosts,
        eased_at: quotas.last_freed_on_hosts(ident.on_hosts),
    }
}
