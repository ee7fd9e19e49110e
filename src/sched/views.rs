//! What the engine knows and commands show: counters of limits, share trees, reservations.
//!
//! Reads the picture as the last [`Engine::sync`] left it; decides nothing.

use super::engine::Engine;
use super::quota::QuotaRow;
use super::reserve::Estimate;
use super::share::ShareRow;
use crate::model::{JobKey, Stamp};

/// Slots that are free and kept for reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedFreeSlots {
    /// By position of the host.
    pub hosts: Vec<(usize, u32)>,
    /// By the waiting job they are kept for.
    pub jobs: Vec<(JobKey, u32)>,
}

impl Engine {
    /// Counters of section `limits`, in the order of cb.yaml, with the limits at `now`.
    pub fn limits(&self, now: Stamp) -> Vec<QuotaRow> {
        self.picture.quotas.rows(now, self.picture.windows.zone())
    }

    /// Counters that changed since the last call, and whether [`Engine::limits`] now omits them;
    /// `None`: look at all of them.
    pub fn take_changed_limits(&mut self, now: Stamp) -> Option<Vec<(QuotaRow, bool)>> {
        let picture = &mut self.picture;
        picture.quotas.take_changed(now, picture.windows.zone())
    }

    /// The share trees of the queues that have one.
    pub fn shares(&self, now: Stamp) -> Vec<(String, Vec<ShareRow>)> {
        let queues = self.picture.config.queues.iter();
        let queues = queues.zip(self.picture.queues.orders());
        let trees = queues.filter_map(|(queue, order)| Some((queue, order.tree()?)));
        trees
            .map(|(queue, tree)| (queue.name.clone(), tree.rows(now)))
            .collect()
    }

    /// When jobs with reservations are expected to start.
    pub fn estimates(&self) -> Vec<(JobKey, Estimate)> {
        let Some(reserver) = &self.picture.reserver else {
            return Vec::new();
        };
        let keys: Vec<JobKey> = reserver.book.iter().map(|(j, _)| j).collect();
        keys.into_iter()
            .filter_map(|j| Some((j, reserver.book.estimate(j)?)))
            .collect()
    }

    /// Slots kept for reservations.
    pub fn reserved_slots(&mut self) -> ReservedFreeSlots {
        let mut reserved = ReservedFreeSlots::default();
        if self.picture.reserver.is_none() {
            return reserved;
        }
        for at in 0..self.picture.usage.len() {
            let n = self.reserved_free_slots(at);
            if n > 0 {
                reserved.hosts.push((at, n));
            }
        }
        let mut left = reserved.hosts.clone();
        let Some(reserver) = &self.picture.reserver else {
            return reserved;
        };
        for (j, reservation) in reserver.book.iter() {
            let mut sum = 0;
            for part in &reservation.parts {
                let found = left.binary_search_by_key(&(part.host as usize), |(at, _)| *at);
                if let Ok(i) = found {
                    let n = left[i].1.min(part.slots);
                    left[i].1 -= n;
                    sum += n;
                }
            }
            if sum > 0 {
                reserved.jobs.push((j, sum));
            }
        }
        reserved
    }

    /// Slots of a host that are free and kept for reservations.
    fn reserved_free_slots(&mut self, at: usize) -> u32 {
        let now = self.picture.now;
        let Some(reserver) = &mut self.picture.reserver else {
            return 0;
        };
        if at >= reserver.book.hosts() || !reserver.book.reserved_on(at as u32) {
            return 0;
        }
        u32::try_from(reserver.book.reserved_free_slots(at as u32, now.0)).unwrap_or(0)
    }
}
