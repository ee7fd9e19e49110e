//! Reservations of blocked jobs beside what started jobs hold: which queues make them, and what
//! started jobs claim in the [`Book`]. The book decides when and where a reservation is.

use super::allocation::Allocation;
use super::amount::{Bundle, NEVER_MS};
use super::host_usage::ClusterUsage;
use super::reserve::{Book, BookSettings, ClaimId};
use crate::config::{Config, Queue};
use crate::model::{JobKey, Stamp};
use rustc_hash::FxHashMap;

/// Maximum number of reservations of a queue that reserves for all its jobs.
const ALL: usize = 10_000;

/// The book and which started work claims what in it.
#[derive(Debug)]
pub(super) struct Reservations {
    pub book: Book<JobKey>,
    claims: FxHashMap<JobKey, ClaimId>,
}

impl Reservations {
    /// A book, if some queue of the configuration reserves.
    pub(super) fn of(config: &Config) -> Option<Reservations> {
        let reserves = |q: &Queue| q.backfill.depth > 0 || q.slot_reserve_ms.is_some();
        config.queues.iter().any(reserves).then(|| Reservations {
            book: Book::new(BookSettings::default()),
            claims: FxHashMap::default(),
        })
    }

    /// What a host has for the future; nothing while it takes no work.
    pub(super) fn set_host(&mut self, at: usize, usage: &ClusterUsage) {
        let host = usage.get(at);
        let slots = if host.open { host.slots } else { 0 };
        let capacity = Bundle::new(slots, &host.have);
        self.book.set_host(at as u32, &capacity);
    }

    pub(super) fn claim(
        &mut self,
        j: JobKey,
        allocation: &Allocation,
        now: Stamp,
        usage: &ClusterUsage,
    ) {
        let id = match (allocation.lent, allocation.exclusive) {
            (false, false) => self.book.claim(&allocation.parts, now.0, allocation.until),
            (lent, _) => {
                let mut parts = allocation.parts.clone();
                for (at, bundle) in &mut parts {
                    bundle.slots = match lent {
                        // Others have its slots.
                        true => 0,
                        // No other work can use the rest.
                        false => bundle.slots.max(usage.get(*at as usize).slots),
                    };
                }
                self.book.claim(&parts, now.0, allocation.until)
            }
        };
        self.claims.insert(j, id);
    }

    pub(super) fn release(&mut self, j: JobKey, now: Stamp) {
        if let Some(id) = self.claims.remove(&j) {
            self.book.release(id, now.0);
        }
    }
}

/// How a queue reserves, and whether its jobs may use what is reserved until then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReservePolicy {
    pub depth: usize,
    pub hold_ms: Option<i64>,
    pub may_backfill: bool,
    pub shortest_first: bool,
    pub free_first: bool,
}

impl ReservePolicy {
    pub(super) fn of(queue: &Queue) -> ReservePolicy {
        let depth = match queue.backfill.depth {
            0 if queue.slot_reserve_ms.is_some() => 1,
            u32::MAX => ALL,
            k => (k as usize).min(ALL),
        };
        ReservePolicy {
            depth,
            hold_ms: queue
                .slot_reserve_ms
                .map(|ms| i64::try_from(ms).unwrap_or(NEVER_MS)),
            may_backfill: queue.backfill.depth > 0,
            shortest_first: queue.backfill.shortest_first,
            free_first: queue.backfill.free_first,
        }
    }
}
