//! Floor 3: reservations of blocked jobs, and what others may take beside them.
//!
//! Owns [`Book`]: the timelines of all hosts, the claims of started work, the reservations in the
//! order of the last pass. It never starts anything, reads no clock and knows jobs by an opaque key
//! only; the engine asks and decides.
//!
//! A pass: [`Book::open`]; then for every job in the order of scheduling [`Book::begin_turn`],
//! placing by [`Book::free_for`], and [`Book::started`] + [`Book::claim`] or [`Book::reserve`]; at
//! last [`Book::close`]. Jobs that hold reservations must have their turns in order: what comes
//! before them in a pass takes precedence over their reservations. Without a change since the last
//! pass a reservation stands as it is, and its turn costs nothing.

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

/// Settings of a cluster. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookSettings {
    /// Ends are rounded up to multiples of this; 1 = exact.
    pub resolution: i64,
    /// A job that exceeds its estimate is expected to end this much later, or later by a quarter of
    /// the excess if that is more.
    pub overrun: i64,
    /// A reservation moves only if it gains at least this much.
    pub min_gain: i64,
    /// How long a job that gave up its reservation makes no new one.
    pub retry_delay: i64,
}

impl Default for BookSettings {
    fn default() -> BookSettings {
        BookSettings {
            resolution: 1,
            overrun: 60_000,
            min_gain: 1,
            retry_delay: 60_000,
        }
    }
}

/// The request of a blocked job.
pub trait BookRequest {
    /// Hosts that could ever serve it, in order of preference.
    fn hosts(&self) -> &[u32];
    /// Minimum number of slots: a reservation is for these.
    fn min(&self) -> u32;
    /// What `slots` slots take on a host.
    fn bundle(&self, host: u32, slots: u32) -> Bundle;
    /// Number of slots that it could take on a host on which `free` is free.
    fn capacity(&self, host: u32, free: &Bundle) -> u32 {
        self.bundle(host, 1).times_covered_by(free)
    }
    /// Maximum number of hosts.
    fn hosts_max(&self) -> u32 {
        u32::MAX
    }
    /// Slots on each host except the last.
    fn slots_per_host(&self) -> Option<u32> {
        None
    }
    /// Whether slots, `hosts_max` and `slots_per_host` describe the request completely. If not,
    /// [`BookRequest::choose`] receives what is free on each host and chooses the hosts itself.
    fn is_plain(&self) -> bool {
        true
    }
    /// Chooses the host set from what is offered at some time; `None`: not possible, look at a
    /// later time.
    fn choose(&self, free_hosts: &[FreeHost]) -> Option<ReservedParts> {
        search::greedy(self, free_hosts)
    }
}

/// What a host offers for the length of a job from some time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeHost {
    pub host: u32,
    pub slots: u32,
    /// The slots of these that are free now, if it is unknown when the rest will be; otherwise all.
    pub ready: u32,
    /// Free amounts; only for requests that are not [`BookRequest::is_plain`].
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

/// The conditions under which a job makes a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationTerms {
    /// Run limit or estimate in milliseconds; [`NEVER_MS`] if there is none.
    pub duration: i64,
    /// Maximum number of earlier reservations in this pass, plus one: 1 = only the first blocked
    /// job reserves.
    pub depth: usize,
    /// Slot reservation: what is free on its hosts is kept from jobs that may not backfill. The
    /// value limits how long the reservation may last, in milliseconds.
    pub hold_ms: Option<i64>,
    /// Hosts that are free now come before those that become free before the start; jobs that last
    /// beyond the start then have no room beside the reservation on them.
    pub free_first: bool,
}

/// A reservation of hosts from a future time on.
#[derive(Clone, Debug, Default)]
pub struct Reservation {
    /// [`FOREVER`] or later: unknown.
    pub start: i64,
    pub end: i64,
    pub parts: ReservedParts,
    /// When the job first reserved.
    pub since: i64,
    duration: i64,
    /// Its hosts are chosen again when other hosts become free.
    free_first: bool,
    /// When the job gives up the reservation.
    expires: i64,
    /// It holds slots, and is the first reservation on its hosts to do so.
    holds_slots: bool,
    /// The pass in which it was last confirmed.
    pass: u32,
    /// At the last check: the number of slots missing for an earlier start, and the position in the
    /// log of freed hosts.
    margin: u64,
    gains_seen_to: u64,
    slots_seen: u64,
}

/// Handle of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId(u32);

#[derive(Clone, Debug)]
struct Claim {
    parts: SmallVec<[(u32, Bundle); 1]>,
    until: i64,
    /// The expected end of a job that may run past it; `None`: the claim ends on time in any case.
    planned: Option<i64>,
    /// Distinguishes this claim from entries of `due` that belong to an earlier claim with the same
    /// handle.
    stamp: u32,
}

/// What to do in the turn of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookTurn {
    /// Nothing has changed: its reservation is still valid and lies in the future. Continue with
    /// the next job.
    Keep,
    /// Try to place the job; if that fails, reserve.
    Try,
}

/// When a reserved job is expected to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    At(i64),
    /// The number of running jobs on its hosts that have no run limit.
    Unknown {
        unlimited: usize,
    },
}

#[derive(Clone, Debug)]
struct Host {
    timeline: Timeline,
    capacity: Bundle,
    /// Number of reservation parts on it.
    parts: u32,
    /// What slot reservations hold, and the reservation that holds it (index + 1).
    held_bundle: Bundle,
    held_by: u32,
    /// The only reservation (index + 1) that may hold slots here.
    claimed_by: u32,
    /// Equal to the book's stamp: the host belongs to the current request.
    stamp: u32,
    /// What is available, as last computed; valid before `fresh_until`.
    available_steps: Vec<Step>,
    tight: Bundle,
    fresh_until: i64,
}

impl Host {
    fn new() -> Host {
        Host {
            timeline: Timeline::new(&Bundle::default()),
            capacity: Bundle::default(),
            parts: 0,
            held_bundle: Bundle::default(),
            held_by: 0,
            claimed_by: 0,
            stamp: 0,
            available_steps: Vec::new(),
            tight: Bundle::default(),
            fresh_until: i64::MIN,
        }
    }

    fn claim(&mut self, from: i64, to: i64, amount: &Bundle) {
        self.fresh_until = i64::MIN;
        self.timeline.claim(from, to, amount);
    }

    fn release(&mut self, from: i64, to: i64, amount: &Bundle) {
        self.fresh_until = i64::MIN;
        self.timeline.release(from, to, amount);
    }

    fn refresh(&mut self, now: i64) {
        if now < self.fresh_until && !self.available_steps.is_empty() {
            return;
        }
        self.timeline.forget_before(now);
        if self.parts == 0 {
            self.available_steps.clear();
            let room = self.timeline.free_at(now);
            self.available_steps.push(Step {
                from: i64::MIN,
                room,
            });
        } else {
            self.timeline
                .decreasing_steps(now, &mut self.available_steps);
        }
        self.tight = self.available_steps[self.available_steps.len() - 1]
            .room
            .clone();
        if self.held_by > 0 {
            let mut rest = self.available_steps[0].room.clone();
            rest.sub(&self.held_bundle);
            rest.slots = rest.slots.max(0);
            rest.res
                .iter_mut()
                .for_each(|amount| *amount = (*amount).max(0));
            self.tight.min_with(&rest);
        }
        self.fresh_until = self.timeline.next_change(now).unwrap_or(i64::MAX);
    }
}

/// An interval of time that covers others.
#[derive(Clone, Copy, Debug)]
struct TimeSpan {
    from: i64,
    to: i64,
}

impl TimeSpan {
    const NONE: TimeSpan = TimeSpan {
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

/// Claims of started jobs.
#[derive(Clone, Debug, Default)]
struct Claims {
    all: Vec<Claim>,
    unused: Vec<u32>,
    /// Ends of claims that may turn out to be wrong: (until, claim, stamp).
    due: BinaryHeap<Reverse<(i64, u32, u32)>>,
    live_due: usize,
}

/// Reservations in the order of the last pass: keys, positions in `all`, starts.
#[derive(Clone, Debug)]
struct ReservationList<K> {
    keys: Vec<K>,
    index: Vec<u32>,
    starts: Vec<i64>,
    all: Vec<Reservation>,
    unused: Vec<u32>,
}

/// The time of the current pass.
#[derive(Clone, Debug)]
struct PassTime {
    now: i64,
    pass: u32,
    /// Jobs without a run limit that start now are expected to end this long after [`FOREVER`], and
    /// the last start recorded for such ends.
    unlimited_offset: i64,
    last_unknown: i64,
}

/// How far the current pass has advanced.
#[derive(Clone, Debug)]
struct PassProgress<K> {
    /// Number of reservations confirmed in this pass; they are the first ones.
    confirmed: usize,
    /// The job whose turn it is, and whether it has a reservation, lifted, at `confirmed`.
    current: Option<(K, bool)>,
    /// The later reservations are lifted.
    tail_out: bool,
}

/// Whether reservations must be checked.
#[derive(Clone, Debug)]
struct PendingChecks {
    /// Something happened that may move reservations: they are checked in the next pass.
    changed: bool,
    /// They are checked in this pass.
    in_this_pass: bool,
    /// Somewhere more may be claimed than there is.
    broken: bool,
    /// Where more became free since the last check of all reservations, and the part of it that
    /// moves in this pass freed.
    gained: TimeSpan,
    moving: TimeSpan,
}

/// Hosts on which more became free, from `base` on, and the total number of slots.
#[derive(Clone, Debug, Default)]
struct FreedHosts {
    log: Vec<u32>,
    base: u64,
    read: u64,
    slots: u64,
}

/// Jobs that give up their reservation.
#[derive(Clone, Debug)]
struct AbandonedReservations<K> {
    /// No job gives up before this time.
    expiry: i64,
    /// Jobs that gave up, and the time until which they rest.
    given_up: Vec<(K, i64)>,
}

/// See the head of this file. `K` identifies a job or a class.
#[derive(Clone, Debug)]
pub struct Book<K> {
    rules: BookSettings,
    resolution: i64,
    hosts: Vec<Host>,
    claims: Claims,
    list: ReservationList<K>,
    time: PassTime,
    progress: PassProgress<K>,
    /// Number of reservations that hold slots.
    holders: usize,
    checks: PendingChecks,
    freed_hosts: FreedHosts,
    stamp: u32,
    give_ups: AbandonedReservations<K>,
}

#[cfg(test)]
mod tests;
