//! Choosing hosts for one job: all or nothing, best ranked hosts first. Reads the books, never
//! changes them: who asked books what it takes.

use super::shape::{Candidate, Shape, View};
use smallvec::SmallVec;

/// Hosts by position with the slots taken on each, in order.
pub type Spot = SmallVec<[(u32, u32); 1]>;

/// Why a request found no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Slots that were found.
    pub got: u32,
    /// What only concerns this job (its user, its limits, its length) stood in the way, too.
    pub personal: bool,
}

/// Finds between the request's minimum and `most` slots. `room` says how many slots a host has for
/// this very job, given what the request alone could take there.
///
/// # Errors
/// The slots that were found.
pub fn find(
    shape: &mut Shape,
    view: &View<'_>,
    most: u32,
    room: &mut dyn FnMut(&Shape, usize, u32, &Spot) -> u32,
) -> Result<Spot, u32> {
    shape.refresh(view);
    let mut rank = std::mem::take(&mut shape.rank);
    let mut seen: SmallVec<[Candidate; 8]> = SmallVec::new();
    let mut spot = Spot::new();
    let mut got = 0;
    while let Some(candidate) = rank.pop(view.books) {
        let at = candidate.host();
        seen.push(candidate);
        let books = view.books.get(at);
        let can = shape.capacity(view.table.at(at), books, shape.free(books));
        let take = room(shape, at, can, &spot).min(most - got);
        if take == 0 || !enough_here(shape, take, got) {
            continue;
        }
        spot.push((at as u32, take));
        got += take;
        let hosts = spot.len() as u32;
        if got >= most || shape.request.hosts_max.is_some_and(|n| hosts >= n) {
            break;
        }
    }
    rank.put_back(seen);
    shape.rank = rank;
    if got >= shape.request.min.max(1) {
        Ok(spot)
    } else {
        Err(got)
    }
}

/// Whether `room` slots on this host serve the span: one host must hold the minimum alone, a tile
/// must be whole unless it is the rest.
fn enough_here(shape: &Shape, room: u32, got: u32) -> bool {
    let request = &shape.request;
    if request.hosts_max == Some(1) {
        return room >= request.min;
    }
    match request.ptile {
        Some(tile) => room >= tile.min(request.min.saturating_sub(got)).max(1),
        None => true,
    }
}
