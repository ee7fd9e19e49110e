//! Choosing hosts for one job: all or nothing, best ranked hosts first, way by way. Reads the
//! books, never changes them: who asked books what it takes.

use super::ask::Hold;
use super::gang;
use super::rank::{Alike, Candidate};
use super::shape::{AskAt, Shape, SoFar, View};
use smallvec::SmallVec;
use std::cell::Cell;

/// Hosts by position with the slots taken on each, in the order of the job's ranks; a host may come
/// up again when several sections use it.
pub type Spot = SmallVec<[(u32, u32); 1]>;

/// A place, and the way of the request that it serves.
pub type Found = (u8, Spot);

/// Why a request found no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Short {
    /// Slots that were found.
    pub got: u32,
    /// What only concerns this job (its user, its limits, its length) stood in the way, too; for
    /// the caller to say.
    pub personal: bool,
    /// The way and the part (section) that fell short.
    pub way: u8,
    pub part: u16,
}

/// See [`Terms::room`]: shape, what is asked of the host, host, slots.
pub type Room<'a> = &'a mut dyn FnMut(&Shape, &AskAt<'_>, usize, u32) -> u32;

/// What one job asks beyond its shape.
pub struct Terms<'a> {
    /// Most slots it may have.
    pub most: u32,
    /// Of these by each way, 0: it may not be taken; empty: all of them by each.
    pub by_way: &'a [u32],
    /// Milliseconds it has waited: some ways open late.
    pub waited_ms: u64,
    /// Whom limits on hosts concern like this job.
    pub alike: Alike,
    /// Set by `room` when such a limit leaves nothing of a host.
    pub limited: &'a Cell<bool>,
    /// How many slots a host has for this very job, given what the request alone could take there.
    pub room: Room<'a>,
}

impl Terms<'_> {
    /// Most slots by a way that opens so late; `None`: it cannot be taken now.
    fn most_by(&self, way: usize, after_ms: u64) -> Option<u32> {
        let most = self
            .by_way
            .get(way)
            .map_or(self.most, |n| self.most.min(*n));
        (after_ms <= self.waited_ms && most > 0).then_some(most)
    }
}

/// Finds between the request's minimum and `terms.most` slots; gives the way taken.
///
/// # Errors
/// How far it got.
pub fn find(shape: &mut Shape, view: &View<'_>, terms: &mut Terms<'_>) -> Result<Found, Short> {
    let mut short: Option<Short> = None;
    if shape.ways_compete()
        && let Some(found) = cheapest(shape, view, terms)
    {
        return Ok(found);
    }
    let all = terms.most;
    for way in 0..shape.ways.len() {
        let Some(most) = terms.most_by(way, shape.ways[way].after_ms) else {
            continue;
        };
        terms.most = most;
        let alt = u8::try_from(way).expect("a request has at most 250 ways");
        let found = match shape.ways[way].plain {
            true => plain(shape, way, view, terms),
            false => gang::find(shape, way, view, terms),
        };
        terms.most = all;
        match found {
            Ok(spot) => return Ok((alt, spot)),
            Err(new) => {
                short.get_or_insert(Short { way: alt, ..new });
            }
        }
    }
    Err(short.unwrap_or_default())
}

/// The way whose best host is best of all, if one host holds the job.
fn cheapest(shape: &mut Shape, view: &View<'_>, terms: &mut Terms<'_>) -> Option<Found> {
    let mut best: Option<(Candidate, u8, u32)> = None;
    for way in 0..shape.ways.len() {
        let Some(most) = terms.most_by(way, shape.ways[way].after_ms) else {
            continue;
        };
        let min = shape.ways[way].parts[0].min;
        let mut rank = shape.take_rank((way, 0), view, terms.alike);
        let mut seen: SmallVec<[Candidate; 8]> = SmallVec::new();
        while let Some(candidate) = rank.pop(view.books) {
            let better = best
                .as_ref()
                .is_none_or(|(known, ..)| candidate.rank(known).is_gt());
            seen.push(candidate.clone());
            if !better {
                break;
            }
            let at = candidate.host();
            let hold = Hold::default();
            let ask = AskAt::new(way, 0, &hold);
            let can = shape.fit(&ask, view, at);
            let take = (terms.room)(shape, &ask, at, can).min(most);
            terms.limited.take();
            if take >= min {
                let alt = u8::try_from(way).expect("a request has at most 250 ways");
                best = Some((candidate, alt, take));
                break;
            }
        }
        rank.put_back(seen);
        shape.put_rank((way, 0), rank, terms.alike);
    }
    let (candidate, alt, take) = best?;
    let spot = Spot::from_slice(&[(candidate.at, take)]);
    Some((alt, spot))
}

/// One part, hosts by rank.
fn plain(
    shape: &mut Shape,
    way: usize,
    view: &View<'_>,
    terms: &mut Terms<'_>,
) -> Result<Spot, Short> {
    let mut rank = shape.take_rank((way, 0), view, terms.alike);
    let part = &shape.ways[way].parts[0];
    let (spread, min) = (part.spread, part.min);
    let most = terms.most.min(part.max).max(min);
    let mut seen: SmallVec<[Candidate; 8]> = SmallVec::new();
    let mut spot = Spot::new();
    let mut got = 0;
    let hold = Hold::default();
    while let Some(candidate) = rank.pop(view.books) {
        let at = candidate.host();
        let ask = AskAt {
            so_far: SoFar::Slots(&spot),
            ..AskAt::new(way, 0, &hold)
        };
        let can = shape.fit(&ask, view, at);
        let can = match spread.tile {
            0 => can,
            tile => can.min(tile),
        };
        let take = (terms.room)(shape, &ask, at, can).min(most - got);
        let enough = match (spread.one_host(), spread.tile) {
            (true, _) => min,
            // A tile must be whole unless it is the rest.
            (_, tile) => tile.min(min.saturating_sub(got)).max(1),
        };
        if take == 0 && spot.is_empty() && terms.limited.take() {
            rank.put_aside(at, view.books);
            continue;
        }
        seen.push(candidate);
        if take < enough {
            continue;
        }
        spot.push((at as u32, take));
        got += take;
        if got >= most || spread.one_host() {
            break;
        }
    }
    rank.put_back(seen);
    shape.put_rank((way, 0), rank, terms.alike);
    if got >= min {
        return Ok(spot);
    }
    Err(Short {
        got,
        ..Short::default()
    })
}
