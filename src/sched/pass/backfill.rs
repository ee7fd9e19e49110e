//! Reservations of blocked jobs: what a class requests of the book, and when it may. Where and when
//! a reservation begins is decided in `reserve.rs`.

use super::Pass;
use crate::model::JobKey;
use crate::sched::amount::Bundle;
use crate::sched::compiled_request::Spread;
use crate::sched::gang;
use crate::sched::pending_classes::PendingClass;
use crate::sched::reservations::ReservePolicy;
use crate::sched::reserve::{
    BookRequest, BookTurn, FreeHost, ReservationTerms, ReservedPart, ReservedParts, greedy,
};
use crate::sched::shape::{ClusterView, Shape};
use std::sync::Arc;

/// The request of a class as the book sees it: one of its alternatives.
struct ClassRequest<'a> {
    shape: &'a Shape,
    alt: usize,
    view: ClusterView<'a>,
    hosts: &'a [u32],
}

impl ClassRequest<'_> {
    fn spread(&self) -> &Spread {
        &self.shape.alternatives[self.alt].parts[0].spread
    }

    /// What a start that takes this much denies to other jobs: all slots, if no other job may run
    /// there.
    fn denied_by(&self, host: u32, take: Bundle) -> Bundle {
        let all = match self.shape.is_exclusive_by(self.alt) {
            true => self.view.usage.get(host as usize).slots,
            false => 0,
        };
        Bundle {
            slots: take.slots.max(all),
            ..take
        }
    }
}

impl BookRequest for ClassRequest<'_> {
    fn hosts(&self) -> &[u32] {
        self.hosts
    }

    fn min(&self) -> u32 {
        self.shape.request.min.max(1)
    }

    fn bundle(&self, host: u32, slots: u32) -> Bundle {
        self.denied_by(host, self.shape.alternatives[self.alt].bundle(slots))
    }

    fn capacity(&self, host: u32, free: &Bundle) -> u32 {
        match free.slots < self.denied_by(host, Bundle::default()).slots {
            true => 0,
            false => self.shape.capacity_in(self.alt, free),
        }
    }

    fn hosts_max(&self) -> u32 {
        match self.spread().one_host() {
            true => 1,
            false => u32::MAX,
        }
    }

    fn slots_per_host(&self) -> Option<u32> {
        Some(self.spread().tile).filter(|n| *n > 0)
    }

    fn is_plain(&self) -> bool {
        self.shape.alternatives[self.alt].is_plain
    }

    fn choose(&self, free_hosts: &[FreeHost]) -> Option<ReservedParts> {
        if self.is_plain() {
            return greedy(self, free_hosts);
        }
        let offers: Vec<(u32, Bundle)> = free_hosts
            .iter()
            .map(|s| (s.host, s.free.clone()))
            .collect();
        let placed = gang::choose(self.shape, self.alt, &self.view, &offers)?;
        let shares: Vec<_> = placed.iter().map(|(at, n)| (Some(*at), *n)).collect();
        let parts = self.shape.alternatives[self.alt].bundles(&shares, 0);
        let part = |(host, take): (u32, Bundle)| ReservedPart {
            host,
            slots: u32::try_from(take.slots).unwrap_or(u32::MAX),
            take: self.denied_by(host, take),
        };
        Some(parts.into_iter().map(part).collect())
    }
}

impl Pass<'_> {
    pub(super) fn reserve_policy(&self, pending: &PendingClass) -> ReservePolicy {
        pending.queue.map_or(ReservePolicy::default(), |at| {
            self.picture.queues.reserve_policy(at)
        })
    }

    /// Whether a queue with this reservation depth may still reserve in this pass.
    pub(super) fn may_reserve(&self, depth: usize) -> bool {
        self.picture
            .reserver
            .as_ref()
            .is_some_and(|r| r.book.confirmed() < depth)
    }

    /// Whether a job must be tried now; false: its reservation stays as it is.
    pub(super) fn may_reserve_now(&mut self, j: JobKey) -> bool {
        let Some(reserver) = &mut self.picture.reserver else {
            return true;
        };
        reserver.book.begin_turn(j) == BookTurn::Try
    }

    /// Makes a reservation for the next job of the class, which cannot start now, by the first of
    /// its alternatives that the hosts could ever meet. Returns true if the job has a reservation.
    pub(super) fn reserve(&mut self, pending: &PendingClass, j: JobKey) -> bool {
        if self.reserve_policy(pending).depth == 0 || self.picture.reserver.is_none() {
            return false;
        }
        (0..self.shape(pending.shape).alternatives.len()).any(|alt| {
            let opens_ms = self.shape(pending.shape).alternatives[alt].after_ms;
            opens_ms <= self.waited_ms && self.reserve_alternative(alt, pending, j)
        })
    }

    fn reserve_alternative(&mut self, alt: usize, pending: &PendingClass, j: JobKey) -> bool {
        let reserve_policy = self.reserve_policy(pending);
        let hosts = self.eligible(pending.shape, alt);
        if alt > 0 && hosts.is_empty() {
            return false;
        }
        let reserver = self.picture.reserver.as_mut().expect("just seen");
        let view = ClusterView {
            config: &self.picture.config,
            table: self.table,
            usage: &self.picture.usage,
            names: &self.picture.resources,
            demand: &self.memory.demand,
        };
        let ask = ClassRequest {
            shape: self.picture.requests.shape(pending.shape),
            alt,
            view,
            hosts: &hosts,
        };
        let terms = ReservationTerms {
            // The first host is not known yet.
            duration: pending.length.longest(self.table, &hosts),
            depth: reserve_policy.depth,
            hold_ms: reserve_policy.hold_ms.filter(|_| ask.min() > 1),
            free_first: reserve_policy.free_first,
        };
        reserver.book.reserve(j, &ask, &terms).is_some()
    }

    /// Open hosts that could ever serve an alternative of a shape, in order of preference.
    pub(super) fn eligible(&mut self, shape: u32, alt: usize) -> Arc<[u32]> {
        let entry = self.picture.requests.entry(shape);
        if let Some((epoch, known)) = &entry.eligible[alt]
            && *epoch == self.picture.hosts.epoch
        {
            return known.clone();
        }
        let view = self.view();
        let open = (0..self.table.count()).filter(|at| self.picture.usage.get(*at).open);
        let fit = open.filter(|at| entry.shape.could_ever_fit(alt, &view, *at));
        let mut all: Vec<(std::cmp::Reverse<u32>, u32)> = fit
            .map(|at| {
                let preference = entry.shape.preference(&view, &self.table.at(at).name);
                (std::cmp::Reverse(preference), at as u32)
            })
            .collect();
        all.sort_unstable();
        let all: Arc<[u32]> = all.into_iter().map(|(_, at)| at).collect();
        let epoch = self.picture.hosts.epoch;
        self.picture.requests.entry_mut(shape).eligible[alt] = Some((epoch, all.clone()));
        all
    }
}
