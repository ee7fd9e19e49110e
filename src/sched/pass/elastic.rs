//! Growth of running elastic work: more slots of the same request, out of what no pending job could
//! use in the pass. Never takes anything back.

use super::Pass;
use crate::model::{JobKey, JobStat, Stamp};
use crate::sched::allocation::Allocation;
use crate::sched::amount::{Bundle, HostBundles};
use crate::sched::compiled_request::TrialUse;
use crate::sched::host_ranking::LimitGroup;
use crate::sched::plan::{Placement, SlotGrowth};
use crate::sched::shape::ClusterView;
use std::cmp::Reverse;

/// Maximum number of jobs that are considered in one pass, in the order in which they grow.
const GROWERS_MAX: usize = 4096;

impl Pass<'_> {
    /// Gives free slots to running elastic jobs: the queue with the highest priority first, then
    /// the oldest job.
    pub(super) fn grow(&mut self) {
        if self.picture.usage.free() <= 0 {
            return;
        }
        let mut growers = Vec::new();
        for (at, queue) in self.config().queues.iter().enumerate() {
            if !queue.elastic
                || !self.state.queue_ctl(&queue.name).active
                || !self.picture.windows.runs(Some(at as u16))
            {
                continue;
            }
            for j in self.picture.monitor.started_in(at).into_iter().flatten() {
                if let Some((start, more)) = self.growth_wish(*j) {
                    growers.push((Reverse(queue.priority), start, *j, more));
                }
            }
        }
        growers.sort_unstable();
        for (_, _, j, more) in growers.into_iter().take(GROWERS_MAX) {
            if self.picture.usage.free() <= 0 {
                return;
            }
            let more = more.min(self.growth_limit(j));
            let per_core = self.picture.user_limits(self.state, j).slots_per_cpu_milli;
            self.grow_one(j, (more, per_core));
        }
    }

    /// When the job started, and how many slots it may still get.
    fn growth_wish(&self, j: JobKey) -> Option<(Stamp, u32)> {
        let allocation = self.picture.allocations.get(&j)?;
        let shape = &self.shape(allocation.shape);
        let more = shape
            .request
            .max
            .checked_sub(allocation.slots)
            .filter(|n| *n > 0)?;
        let work = self
            .state
            .work(j)
            .filter(|work| work.stat == JobStat::Run)?;
        let run = work.run.as_deref()?;
        let steady =
            run.start != Stamp(0) && run.killing.is_none() && run.suspension.by_system.is_none();
        (steady && !allocation.exclusive && shape.bad.is_none() && shape.is_simple())
            .then_some((run.start, more))
    }

    /// `left`: maximum number of slots; `per_core`: its user's limit on each host.
    fn grow_one(&mut self, j: JobKey, (mut left, per_core): (u32, Option<u64>)) {
        let allocation = self.picture.allocations[&j].clone();
        let mut hosts = Placement::new();
        let mut new_allocation = allocation.clone();
        for at in self.growth_hosts(&allocation) {
            if left == 0 {
                break;
            }
            let n = self
                .possible_growth(&new_allocation, at, per_core)
                .min(left);
            let Some((n, more)) = self.within_quotas(&allocation, &new_allocation, at, n) else {
                continue;
            };
            new_allocation = more;
            left -= n;
            hosts.push((self.table.at(at as usize).id, n));
        }
        if !hosts.is_empty() {
            let Some(units) = self.units_of_growth(&allocation, &mut new_allocation) else {
                return;
            };
            self.picture.remove_allocation(j);
            self.picture.add_allocation(j, new_allocation);
            self.plan.growths.push(SlotGrowth { j, hosts, units });
        }
    }

    /// How many of `n` more slots on a host section `limits` allows, and what is then held.
    fn within_quotas(
        &mut self,
        allocation: &Allocation,
        new_allocation: &Allocation,
        at: u32,
        n: u32,
    ) -> Option<(u32, Allocation)> {
        let free = allocation.ident.is_free();
        let now = self.picture.usage.log_end();
        if !free {
            self.picture
                .quotas
                .count_end(&allocation.ident, allocation.limit_parts(), true, now);
        }
        let fits = |pass: &Pass<'_>, n: u32| {
            let more = pass.allocation_grown_by(new_allocation, at, n);
            let fits = free
                || pass
                    .picture
                    .quotas
                    .check(&more.ident, more.limit_parts())
                    .is_ok();
            fits.then_some((n, more))
        };
        let (mut low, mut high, mut best) = (0, n, None);
        while low < high {
            let half = high - (high - low) / 2;
            match fits(self, half) {
                Some(found) => (low, best) = (half, Some(found)),
                None => high = half - 1,
            }
        }
        if !free {
            self.picture
                .quotas
                .count_start(&allocation.ident, allocation.limit_parts(), true);
        }
        best
    }

    /// What the job holds with `n` more slots on a host.
    fn allocation_grown_by(&self, allocation: &Allocation, at: u32, n: u32) -> Allocation {
        let mut new_allocation = allocation.clone();
        let shape = &self.shape(allocation.shape);
        let more = |parts: &mut HostBundles| match parts
            .iter_mut()
            .find(|(position, _)| *position == at)
        {
            Some((_, bundle)) => {
                let slots = u32::try_from(bundle.slots).unwrap_or(0);
                bundle.add(&shape.bundle(slots + n));
                bundle.sub(&shape.bundle(slots));
            }
            None => parts.push((at, shape.bundle(n))),
        };
        more(&mut new_allocation.parts);
        if let Some(count) = new_allocation.count.as_deref_mut() {
            more(count);
        }
        new_allocation.slots += n;
        new_allocation
    }

    /// Hosts to try: first those where it runs, then the best-ranked others.
    fn growth_hosts(&mut self, allocation: &Allocation) -> Vec<u32> {
        let own: Vec<u32> = allocation.parts.iter().map(|(at, _)| *at).collect();
        let shape = &self.shape(allocation.shape);
        if shape.one_host() {
            return own;
        }
        let best = self.ranked(allocation.shape);
        let others: Vec<u32> = best.into_iter().filter(|at| !own.contains(at)).collect();
        let tiled = self.shape(allocation.shape).slots_per_host().is_some();
        if tiled {
            others
        } else {
            own.into_iter().chain(others).collect()
        }
    }

    /// Hosts that could serve a shape now, best first.
    fn ranked(&mut self, shape: u32) -> Vec<u32> {
        let usage = &self.picture.usage;
        let view = ClusterView {
            config: &self.picture.config,
            table: self.table,
            usage,
            names: &self.picture.resources,
            demand: &self.memory.demand,
        };
        let shape = &mut self.picture.requests.entry_mut(shape).shape;
        let mut rank = shape.take_rank((0, 0), &view, LimitGroup::default());
        let mut taken_out = Vec::new();
        while let Some(candidate) = rank.pop(usage) {
            taken_out.push(candidate);
        }
        let hosts = taken_out
            .iter()
            .map(|candidate| candidate.host() as u32)
            .collect();
        rank.put_back(taken_out);
        shape.put_rank((0, 0), rank, LimitGroup::default());
        hosts
    }

    /// Slots that it could get on a host beside those that it has there.
    fn possible_growth(&self, allocation: &Allocation, at: u32, per_core: Option<u64>) -> u32 {
        let shape = &self.shape(allocation.shape);
        let (host, usage) = (
            self.table.at(at as usize),
            self.picture.usage.get(at as usize),
        );
        if !usage.open || !shape.could_fit(&self.view(), at as usize) {
            return 0;
        }
        let user = host.user_limit(per_core).map_or(u32::MAX, |limit| {
            limit.saturating_sub(usage.user_used(allocation.uid))
        });
        let part = allocation.parts.iter().find(|(part, _)| *part == at);
        let reserved = self
            .picture
            .reserver
            .as_ref()
            .is_some_and(|r| r.book.reserved_on(at));
        if reserved {
            // A job that has enough to run takes nothing that a pending job waits for.
            return 0;
        }
        let Some((_, bundle)) = part else {
            return shape.capacity(host, usage, usage.free()).min(user);
        };
        // What counts once per host is already there.
        let slots = u32::try_from(bundle.slots).unwrap_or(0);
        let mut each = shape.bundle(slots + 1);
        each.sub(&shape.bundle(slots));
        let mut free = Bundle::of_slots(usage.free());
        for res in 0..each.res.len() {
            free.set(res, usage.free_amount(res as u16));
        }
        let queue = shape.queue_slots_left(host, usage);
        let most = each.times_covered_by(&free).min(user).min(queue);
        match shape.alternatives[0].units {
            true => TrialUse::running().fit_units(
                &shape.alternatives[0],
                (0, false),
                most,
                usage.units(),
            ),
            false => most,
        }
    }
}
