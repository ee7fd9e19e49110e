//! Reservations of blocked jobs in the engine: which queues make them, what they ask for, what
//! others may take beside them. Owns the glue between a class and the [`Book`]; when and where a
//! reservation lies is the book's business.

use super::amount::{Bundle, NEVER_MS};
use super::ask::Spread;
use super::balance::Balances;
use super::engine::{Bucket, Engine};
use super::gang;
use super::held::Held;
use super::hosts::HostTable;
use super::reserve::{
    Ask, Book, ClaimId, Estimate, Part, Parts, Rules, Spot, Terms, Turn as BookTurn, greedy,
};
use super::shape::{Shape, View};
use crate::config::{Config, Queue};
use crate::model::{JobKey, Stamp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Most reservations of a queue that reserves for all its jobs.
const ALL: usize = 10_000;

/// The book and which started work claims what in it.
#[derive(Debug)]
pub(super) struct Reserver {
    pub book: Book<JobKey>,
    claims: FxHashMap<JobKey, ClaimId>,
}

impl Reserver {
    /// A book, if some queue of the configuration reserves.
    pub fn of(config: &Config) -> Option<Reserver> {
        let reserves = |q: &Queue| q.backfill.depth > 0 || q.slot_reserve_ms.is_some();
        config.queues.iter().any(reserves).then(|| Reserver {
            book: Book::new(Rules::default()),
            claims: FxHashMap::default(),
        })
    }

    /// What a host has for the future; nothing while it takes no work.
    pub fn set_host(&mut self, at: usize, books: &Balances) {
        let host = books.get(at);
        let slots = if host.open { host.slots } else { 0 };
        let capacity = Bundle::new(slots, &host.have);
        self.book.set_host(at as u32, &capacity);
    }

    pub fn claim(&mut self, j: JobKey, held: &Held, now: Stamp, books: &Balances) {
        let id = match (held.lent, held.exclusive) {
            (false, false) => self.book.claim(&held.parts, now.0, held.until),
            (lent, _) => {
                let mut parts = held.parts.clone();
                for (at, bundle) in &mut parts {
                    bundle.slots = match lent {
                        // Others have its slots.
                        true => 0,
                        // Nobody else can use the rest.
                        false => bundle.slots.max(books.get(*at as usize).slots),
                    };
                }
                self.book.claim(&parts, now.0, held.until)
            }
        };
        self.claims.insert(j, id);
    }

    pub fn release(&mut self, j: JobKey, now: Stamp) {
        if let Some(id) = self.claims.remove(&j) {
            self.book.release(id, now.0);
        }
    }
}

/// A class's request as the book sees it: one way to meet it.
struct Asking<'a> {
    shape: &'a Shape,
    way: usize,
    view: View<'a>,
    hosts: &'a [u32],
}

impl Asking<'_> {
    fn spread(&self) -> &Spread {
        &self.shape.ways[self.way].parts[0].spread
    }

    /// What a start takes that takes so much of a host: all slots, if nobody else may be there.
    fn with_rest(&self, host: u32, take: Bundle) -> Bundle {
        let all = match self.shape.is_exclusive_by(self.way) {
            true => self.view.books.get(host as usize).slots,
            false => 0,
        };
        Bundle {
            slots: take.slots.max(all),
            ..take
        }
    }
}

impl Ask for Asking<'_> {
    fn hosts(&self) -> &[u32] {
        self.hosts
    }

    fn min(&self) -> u32 {
        self.shape.request.min.max(1)
    }

    fn bundle(&self, host: u32, slots: u32) -> Bundle {
        self.with_rest(host, self.shape.ways[self.way].bundle(slots))
    }

    fn capacity(&self, host: u32, free: &Bundle) -> u32 {
        match free.slots < self.with_rest(host, Bundle::default()).slots {
            true => 0,
            false => self.shape.capacity_in(self.way, free),
        }
    }

    fn hosts_max(&self) -> u32 {
        match self.spread().one_host() {
            true => 1,
            false => u32::MAX,
        }
    }

    fn tile(&self) -> Option<u32> {
        Some(self.spread().tile).filter(|n| *n > 0)
    }

    fn plain(&self) -> bool {
        self.shape.ways[self.way].plain
    }

    fn choose(&self, spots: &[Spot]) -> Option<Parts> {
        if self.plain() {
            return greedy(self, spots);
        }
        let offers: Vec<(u32, Bundle)> = spots.iter().map(|s| (s.host, s.free.clone())).collect();
        let spot = gang::choose(self.shape, self.way, &self.view, &offers)?;
        let shares: Vec<_> = spot.iter().map(|(at, n)| (Some(*at), *n)).collect();
        let parts = self.shape.ways[self.way].bundles(&shares, 0);
        let part = |(host, take): (u32, Bundle)| Part {
            host,
            slots: u32::try_from(take.slots).unwrap_or(u32::MAX),
            take: self.with_rest(host, take),
        };
        Some(parts.into_iter().map(part).collect())
    }
}

/// How a queue reserves, and whether its jobs may use what is reserved until then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habit {
    pub depth: usize,
    pub hold: Option<i64>,
    pub may_backfill: bool,
    pub shortest_first: bool,
}

impl Habit {
    pub fn of(queue: &Queue) -> Habit {
        let depth = match queue.backfill.depth {
            0 if queue.slot_reserve_ms.is_some() => 1,
            u32::MAX => ALL,
            k => (k as usize).min(ALL),
        };
        Habit {
            depth,
            hold: queue
                .slot_reserve_ms
                .map(|ms| i64::try_from(ms).unwrap_or(NEVER_MS)),
            may_backfill: queue.backfill.depth > 0,
            shortest_first: queue.backfill.shortest_first,
        }
    }
}

impl Engine {
    pub(super) fn habit(&self, bucket: &Bucket) -> Habit {
        bucket
            .queue
            .map_or(Habit::default(), |at| self.habits[usize::from(at)])
    }

    /// The turn of a job in the book; false: its reservation stands, there is nothing to try.
    pub(super) fn book_turn(&mut self, j: JobKey) -> bool {
        let Some(reserver) = &mut self.reserver else {
            return true;
        };
        reserver.book.turn(j) == BookTurn::Try
    }

    /// Reserves for the class's next job, which cannot start now, by the first of its ways that the
    /// hosts could ever meet. True when it has a reservation.
    pub(super) fn reserve(&mut self, table: &HostTable, bucket: &Bucket, j: JobKey) -> bool {
        if self.habit(bucket).depth == 0 || self.reserver.is_none() {
            return false;
        }
        (0..self.shape(bucket.shape).shape.ways.len()).any(|way| {
            let opens_ms = self.shape(bucket.shape).shape.ways[way].after_ms;
            opens_ms <= self.waited_ms && self.reserve_by(way, table, bucket, j)
        })
    }

    fn reserve_by(&mut self, way: usize, table: &HostTable, bucket: &Bucket, j: JobKey) -> bool {
        let habit = self.habit(bucket);
        let hosts = self.eligible(table, bucket.shape, way);
        if way > 0 && hosts.is_empty() {
            return false;
        }
        let reserver = self.reserver.as_mut().expect("just seen");
        let slot = self.shapes[bucket.shape as usize].as_ref();
        let config = self.config.as_deref();
        let view = View {
            config: config.expect("an engine has a configuration"),
            table,
            books: &self.books,
            names: &self.names,
            demand: &self.demand,
        };
        let ask = Asking {
            shape: &slot.expect("buckets hold their shape").shape,
            way,
            view,
            hosts: &hosts,
        };
        let terms = Terms {
            // Which host comes first is not known yet.
            duration: bucket.length.longest(table, &hosts),
            depth: habit.depth,
            hold: habit.hold.filter(|_| ask.min() > 1),
        };
        reserver.book.reserve(j, &ask, &terms).is_some()
    }

    /// Open hosts that could ever serve a way of a shape, in order of preference.
    pub(super) fn eligible(&mut self, table: &HostTable, shape: u32, way: usize) -> Arc<[u32]> {
        let slot = self.shape(shape);
        if let Some((epoch, known)) = &slot.eligible[way]
            && *epoch == self.host_epoch
        {
            return known.clone();
        }
        let view = self.view(table);
        let open = (0..table.len()).filter(|at| self.books.get(*at).open);
        let fit = open.filter(|at| slot.shape.fits_ever(way, &view, *at));
        let mut all: Vec<(std::cmp::Reverse<u32>, u32)> = fit
            .map(|at| {
                let preference = slot.shape.preference(&view, &table.at(at).name);
                (std::cmp::Reverse(preference), at as u32)
            })
            .collect();
        all.sort_unstable();
        let all: Arc<[u32]> = all.into_iter().map(|(_, at)| at).collect();
        let epoch = self.host_epoch;
        let slot = self.shapes[shape as usize].as_mut();
        slot.expect("a reference is held").eligible[way] = Some((epoch, all.clone()));
        all
    }

    /// When a job with a reservation is expected to start.
    pub fn estimate(&self, j: JobKey) -> Option<Estimate> {
        self.reserver.as_ref()?.book.estimate(j)
    }

    /// Slots of a host that are free and kept for reservations.
    pub fn kept_slots(&mut self, at: usize) -> u32 {
        let now = self.now;
        let Some(reserver) = &mut self.reserver else {
            return 0;
        };
        if at >= reserver.book.hosts() || !reserver.book.reserved_on(at as u32) {
            return 0;
        }
        u32::try_from(reserver.book.held_now(at as u32, now.0)).unwrap_or(0)
    }
}
