//! Floor 3: reservations of blocked jobs, and what others may take beside them.
//!
//! Owns [`Book`]: the timelines of all hosts, the claims of started work, the reservations in the
//! order of the last pass. It never starts anything, reads no clock and knows jobs by an opaque key
//! only; the engine asks and decides.
//!
//! A pass: [`Book::open`]; then for every job in the order of scheduling [`Book::turn`], placing by
//! [`Book::room`], and [`Book::started`] + [`Book::claim`] or [`Book::reserve`]; at last
//! [`Book::close`]. Jobs that hold reservations must have their turns in order: what comes before
//! them in a pass takes precedence over their reservations. Without a change since the last pass a
//! reservation stands as it is, and its turn costs nothing.

mod claims;
mod search;
mod turns;

use super::amount::{Bundle, NEVER_MS};
use super::profile::{FOREVER, Step, Timeline, end_of};
use search::Search;
pub(super) use search::greedy;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// More steps than this on one host, and ends are rounded up to keep them few.
const MANY_STEPS: usize = 8192;

/// Settings of a cluster. Times in ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Ends are rounded up to multiples of it; 1 = exact.
    pub resolution: i64,
    /// Work over its estimate counts as ending so much later, or a quarter of its excess if more.
    pub overrun: i64,
    /// A reservation moves only for a gain of at least so much.
    pub min_gain: i64,
    /// A job that gave up its reservation makes no new one for so long.
    pub rest: i64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            resolution: 1,
            overrun: 60_000,
            min_gain: 1,
            rest: 60_000,
        }
    }
}

/// What a blocked job asks for.
pub trait BookRequest {
    /// Hosts that could ever serve it, in order of preference.
    fn hosts(&self) -> &[u32];
    /// Slots it needs at least: a reservation is for these.
    fn min(&self) -> u32;
    /// What so many slots take on a host.
    fn bundle(&self, host: u32, slots: u32) -> Bundle;
    /// Slots it could take on a host where `free` is free.
    fn capacity(&self, host: u32, free: &Bundle) -> u32 {
        self.bundle(host, 1).times_in(free)
    }
    /// Most hosts it may be spread over.
    fn hosts_max(&self) -> u32 {
        u32::MAX
    }
    /// Slots on each host but the last.
    fn tile(&self) -> Option<u32> {
        None
    }
    /// Whether slots, `hosts_max` and `tile` say it all. Otherwise [`BookRequest::choose`] is given
    /// what is free on each host and must choose itself.
    fn plain(&self) -> bool {
        true
    }
    /// The host set, out of what is offered at some time; `None`: not possible, look later.
    fn choose(&self, spots: &[FreeHost]) -> Option<ReservedParts> {
        search::greedy(self, spots)
    }
}

/// What a host offers at some time for the length of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeHost {
    pub host: u32,
    pub slots: u32,
    /// Of these, what is free now, where it is unknown when the rest will be; otherwise all.
    pub ready: u32,
    /// Amounts free; only for asks that are not [`BookRequest::plain`].
    pub free: Bundle,
}

/// What a job gets on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedPart {
    pub host: u32,
    pub slots: u32,
    pub take: Bundle,
}

/// A host set.
pub type ReservedParts = SmallVec<[ReservedPart; 1]>;

/// Under which terms a job reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationTerms {
    /// Run limit or estimate in ms; [`NEVER_MS`] without.
    pub duration: i64,
    /// Reservations there may be before it in this pass: 1 = only the first blocked job's.
    pub depth: usize,
    /// Slot reservation: what is free of its set is kept from jobs that may not backfill. The
    /// value bounds how long the reservation may last, in ms.
    pub hold: Option<i64>,
    /// Hosts that are free by now come before those that become free until the start: what lasts
    /// longer than that then has no room beside the reservation on them.
    pub free_first: bool,
}

/// A place in the future.
#[derive(Clone, Debug, Default)]
pub struct Reservation {
    /// [`FOREVER`] or later: unknown.
    pub start: i64,
    pub end: i64,
    pub parts: ReservedParts,
    /// When the job first reserved.
    pub since: i64,
    duration: i64,
    /// Its hosts are chosen again when others come free.
    free_first: bool,
    /// When the job gives up.
    expires: i64,
    /// It keeps slots back, and is the first to do so on its hosts.
    holds: bool,
    /// Pass in which it was last confirmed.
    pass: u32,
    /// When it was last checked: how many slots were missing for an earlier start, and where the
    /// log of gains stood.
    margin: u64,
    seen: u64,
    seen_slots: u64,
}

/// Handle of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId(u32);

#[derive(Clone, Debug)]
struct Claim {
    parts: SmallVec<[(u32, Bundle); 1]>,
    until: i64,
    /// The expected end, for work that runs past it; `None`: ends then, whatever happens.
    planned: Option<i64>,
    /// Distinguishes entries of `due` that belong to an earlier claim with the same handle.
    stamp: u32,
}

/// What the turn of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookTurn {
    /// Nothing has changed: its reservation stands and lies in the future. Pass on.
    Keep,
    /// Try to place it, then reserve.
    Try,
}

/// When a reserved job is expected to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    At(i64),
    /// So many pieces of running work on its hosts have no run limit.
    Unknown {
        unlimited: usize,
    },
}

#[derive(Clone, Debug)]
struct Host {
    line: Timeline,
    capacity: Bundle,
    /// ReservedParts of reservations that lie on it.
    parts: u32,
    /// Kept back by slot reservation, and by which reservation (index + 1).
    held: Bundle,
    held_by: u32,
    /// The reservation (index + 1) that alone may keep slots back here.
    claimed_by: u32,
    /// Equal to the book's: a host of the present request.
    stamp: u32,
    /// What can be had, as computed last; valid before `fresh_until`.
    stairs: Vec<Step>,
    tight: Bundle,
    fresh_until: i64,
}

impl Host {
    fn new() -> Host {
        Host {
            line: Timeline::new(&Bundle::default()),
            capacity: Bundle::default(),
            parts: 0,
            held: Bundle::default(),
            held_by: 0,
            claimed_by: 0,
            stamp: 0,
            stairs: Vec::new(),
            tight: Bundle::default(),
            fresh_until: i64::MIN,
        }
    }

    fn take(&mut self, from: i64, to: i64, amount: &Bundle) {
        self.fresh_until = i64::MIN;
        self.line.take(from, to, amount);
    }

    fn give(&mut self, from: i64, to: i64, amount: &Bundle) {
        self.fresh_until = i64::MIN;
        self.line.give(from, to, amount);
    }

    fn refresh(&mut self, now: i64) {
        if now < self.fresh_until && !self.stairs.is_empty() {
            return;
        }
        self.line.forget_before(now);
        if self.parts == 0 {
            self.stairs.clear();
            let room = self.line.free_at(now);
            self.stairs.push(Step {
                from: i64::MIN,
                room,
            });
        } else {
            self.line.stairs(now, &mut self.stairs);
        }
        self.tight = self.stairs[self.stairs.len() - 1].room.clone();
        if self.held_by > 0 {
            let mut rest = self.stairs[0].room.clone();
            rest.sub(&self.held);
            rest.slots = rest.slots.max(0);
            rest.res
                .iter_mut()
                .for_each(|amount| *amount = (*amount).max(0));
            self.tight.min_with(&rest);
        }
        self.fresh_until = self.line.next_change(now).unwrap_or(i64::MAX);
    }
}

/// A stretch of time that covers others.
#[derive(Clone, Copy, Debug)]
struct Hull {
    from: i64,
    to: i64,
}

impl Hull {
    const NONE: Hull = Hull {
        from: i64::MAX,
        to: i64::MIN,
    };

    fn cover(&mut self, from: i64, to: i64) {
        if from < to {
            self.from = self.from.min(from);
            self.to = self.to.max(to);
        }
    }
}

/// Claims of started work.
#[derive(Clone, Debug, Default)]
struct Claims {
    all: Vec<Claim>,
    spare: Vec<u32>,
    /// Ends of claims that may turn out wrong: (until, claim, stamp).
    due: BinaryHeap<Reverse<(i64, u32, u32)>>,
    live_due: usize,
}

/// Reservations in the order of the last pass: keys, places in `all`, starts.
#[derive(Clone, Debug)]
struct ReservationList<K> {
    keys: Vec<K>,
    index: Vec<u32>,
    starts: Vec<i64>,
    all: Vec<Reservation>,
    spare: Vec<u32>,
}

/// The time of the present pass.
#[derive(Clone, Debug)]
struct PassTime {
    now: i64,
    pass: u32,
    /// Work without run limit that starts now counts as ending this much after [`FOREVER`], and
    /// the last start made among such ends.
    era: i64,
    last_unknown: i64,
}

/// How far the present pass has come.
#[derive(Clone, Debug)]
struct PassProgress<K> {
    /// Reservations confirmed in this pass: the first so many.
    confirmed: usize,
    /// Whose turn it is, and whether it has a reservation, lifted, at `confirmed`.
    turn: Option<(K, bool)>,
    /// The later reservations are lifted.
    tail_out: bool,
}

/// Whether reservations must be checked.
#[derive(Clone, Debug)]
struct Checks {
    /// Something happened that moves reservations: they are checked in the next pass.
    changed: bool,
    /// They are checked in this pass.
    sweep: bool,
    /// More may be claimed somewhere than there is.
    broken: bool,
    /// Where more became free since the last sweep, and of this by moves in this pass.
    gained: Hull,
    moved: Hull,
}

/// Hosts on which more became free, from `base` on, and how many slots in all.
#[derive(Clone, Debug, Default)]
struct Gains {
    log: Vec<u32>,
    base: u64,
    read: u64,
    slots: u64,
}

/// Jobs that give up their reservation.
#[derive(Clone, Debug)]
struct GiveUps<K> {
    /// No job gives up before.
    expiry: i64,
    /// Jobs that gave up, and until when they rest.
    resting: Vec<(K, i64)>,
}

/// See the file's head. `K` names a job or a class.
#[derive(Clone, Debug)]
pub struct Book<K> {
    rules: Rules,
    resolution: i64,
    hosts: Vec<Host>,
    claims: Claims,
    list: ReservationList<K>,
    time: PassTime,
    progress: PassProgress<K>,
    /// Reservations that keep slots back.
    holders: usize,
    checks: Checks,
    gains: Gains,
    stamp: u32,
    give_ups: GiveUps<K>,
}

#[cfg(test)]
mod tests;
