//! The search of hosts for the next job of a class, under everything that applies to this job:
//! limits, the dispatch throttle, time windows, reservations of others. Remembers which searches
//! failed.

use super::Pass;
use crate::config::Config;
use crate::model::Stamp;
use crate::sched::host_search;
use crate::sched::job_terms::JobTerms;
use crate::sched::limit_checks::{self, same_limits, user_room};
use crate::sched::pending_classes::PendingClass;
use crate::sched::placement::{FoundHosts, Shortfall};
use crate::sched::shape::{ClusterView, FailedSearch, HostQuery, Shape};
use std::cell::Cell;

impl Pass<'_> {
    /// Finds hosts for the next job of the class.
    pub(super) fn find(
        &mut self,
        pending: &PendingClass,
        most: u32,
    ) -> Result<FoundHosts, Shortfall> {
        let on_hosts = pending.ident.on_hosts;
        let shape = self.shape(pending.shape);
        let (open, _) = shape.open_alternatives(self.waited_ms);
        if let Some(known) = self.known_failure(pending)
            && known.open == open
        {
            let (shortfall, over_limit) = (known.shortfall, known.over_limit);
            self.over_limit = over_limit;
            return Err(shortfall);
        }
        let (mut personal, mut is_reserved) = (false, false);
        let found = self.search_hosts(pending, most, &mut personal, &mut is_reserved);
        found.map_err(|shortfall| {
            let over_limit = self.over_limit;
            let shortfall = Shortfall {
                personal: personal || over_limit.is_some(),
                ..shortfall
            };
            let log_position = self.picture.usage.log_end();
            let shape = &mut self.picture.requests.entry_mut(pending.shape).shape;
            if !personal && !is_reserved {
                shape.fail(FailedSearch {
                    on_hosts,
                    log_position,
                    shortfall,
                    open,
                    over_limit,
                });
            }
            if !shortfall.personal && shape.grows_evenly() && !pending.length.depends_on_host() {
                self.note_failed_size(pending);
            }
            shortfall
        })
    }

    /// As [`Pass::find`], but ignores earlier searches and does not record the result. `personal`:
    /// something that concerns only this job prevented a start; `is_reserved`: reservations did.
    ///
    /// # Errors
    /// Returns how far the search got.
    pub(super) fn search_hosts(
        &mut self,
        pending: &PendingClass,
        most: u32,
        personal: &mut bool,
        is_reserved: &mut bool,
    ) -> Result<FoundHosts, Shortfall> {
        let ends = self.ends(pending);
        let entry = self.picture.requests.entry_mut(pending.shape);
        let config = &self.picture.config;
        let usage = &self.picture.usage;
        let names = &self.picture.resources;
        let view = ClusterView {
            config,
            table: self.table,
            usage,
            names,
            demand: &self.memory.demand,
        };
        let user = (pending.user.uid, pending.user.slots_per_core);
        let now = self.now.0;
        let may_backfill = pending
            .queue
            .is_some_and(|q| self.picture.queues.reserve_policy(q).may_backfill);
        let mut reserver = self.picture.reserver.as_mut();
        let (mut blocked, mut wake) = (None, None);
        let limited = Cell::new(false);
        let (quotas, ident) = (&self.picture.quotas, &pending.ident);
        let avoided = &self.avoided;
        let by_alternative =
            limit_checks::slots_by_alternative(quotas, ident, &entry.shape, self.waited_ms);
        *personal |= by_alternative.some_blocked;
        let (throttle, interval) = (&self.picture.throttle, accept_interval(config, pending));
        let mut room = |shape: &Shape, query: &HostQuery<'_>, at: usize, can: u32| {
            let mut may = can.min(user_room(&view, user, at, query));
            if let Some(again) = throttle.after(at, interval, Stamp(now)) {
                wake = wake.into_iter().chain([again]).min();
                may = 0;
            }
            let end = ends.at(query, at);
            if end > ends.latest || avoided.contains(&(at as u32)) {
                may = 0;
            }
            *personal |= may < can;
            if !ident.is_free() {
                let left =
                    limit_checks::slots_left_on(quotas, ident, shape, (at, may), most, query);
                limited.set(left.limited);
                *personal |= left.personal;
                blocked = left.blocked.or(blocked);
                may = may.min(left.slots);
            }
            if let Some(reserver) = reserver.as_deref_mut()
                && reserver.book.reserved_on(at as u32)
            {
                let free = reserver.book.free_for(at as u32, now, end, may_backfill);
                let unreserved = shape.slots_beside_reservations(query, view.usage.get(at), free);
                *is_reserved |= unreserved < may;
                may = may.min(unreserved);
            }
            may
        };
        let mut terms = JobTerms {
            most,
            by_alternative: &by_alternative.most,
            limit_group: same_limits(quotas, ident),
            limited: &limited,
            waited_ms: self.waited_ms,
            room: &mut room,
        };
        let found = host_search::find(&mut entry.shape, &view, &mut terms);
        self.picture.throttle.wake_at(wake);
        self.over_limit = blocked
            .or(by_alternative.blocked)
            .filter(|_| found.is_err());
        found
    }

    /// The result of an earlier failed search for jobs like those of the class, if nothing was
    /// freed since.
    pub(super) fn known_failure(&self, pending: &PendingClass) -> Option<&FailedSearch> {
        let shape = self.shape(pending.shape);
        let on_hosts = pending.ident.on_hosts;
        // Usually hosts have changed; limits, which cost more to check, are checked after them.
        shape.failed_for(on_hosts, self.picture.usage.last_freed())?;
        shape.failed_for(on_hosts, self.last_freed_for(pending))
    }

    /// When something was last freed that could help the class, not considering limits.
    fn last_freed_for(&self, pending: &PendingClass) -> u64 {
        let freed = self.picture.usage.last_freed();
        match pending.ident.by_host() {
            true => freed.max(
                self.picture
                    .quotas
                    .last_freed_on_hosts(pending.ident.on_hosts),
            ),
            false => freed,
        }
    }

    /// Records that no hosts were found for a request of the family.
    fn note_failed_size(&mut self, pending: &PendingClass) {
        let family = self.picture.requests.entry(pending.shape).family;
        let known = self.memory.failed_sizes.entry(family).or_default();
        known.retain(|(min, estimate)| *min < pending.min || *estimate < pending.estimate);
        known.push((pending.min, pending.estimate));
    }
}

/// Time between two starts on a host.
fn accept_interval(config: &Config, pending: &PendingClass) -> u64 {
    let queue = pending.queue.map(|at| &config.queues[usize::from(at)]);
    queue.map_or(0, |queue| queue.job_accept_interval_ms)
}
