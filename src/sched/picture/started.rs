//! The picture of started work: what each piece holds, taken from the state, and where that counts:
//! on hosts, in limits, in share trees, in reservations, in the threshold monitor.

use super::Picture;
use crate::model::{JobKey, Stamp};
use crate::sched::allocation::{
    Allocation, ChargedResources, RunFingerprint, ShareCharge, charged_from, gpu_ms,
};
use crate::sched::amount::Bundle;
use crate::sched::hosts::HostTable;
use crate::sched::load_thresholds::released_when_stopped;
use crate::sched::request_table::SpecInfo;
use crate::sched::run_length::{RunLength, end_at};
use crate::sched::share::{Meter, ShareTree};
use crate::state::{HostId, Run, State};
use smallvec::SmallVec;

impl Picture {
    /// Prefetches what the next jobs need: it is far apart in memory, so the reads overlap.
    pub(super) fn prefetch(&self, state: &State, works: &[JobKey]) {
        let ended = |j: &JobKey| state.work(*j).is_none_or(|work| !work.stat.is_started());
        self.allocations.prefetch(works, &ended, &mut |allocation| {
            let mut sum = 0;
            if let Some((at, _)) = allocation.parts.first() {
                let host = self.usage.get(*at as usize);
                sum ^= host.version as usize ^ host.have.len() ^ host.reserved.len();
                sum ^= self.quotas.prefetch(&allocation.ident, *at);
            }
            if let Some(held) = allocation.units.first() {
                let units = self.usage.get(held.host as usize).units();
                sum ^= units.map_or(0, |units| units.prefetch(held.res));
                sum ^= held.names.first().map_or(0, |name| name.len());
            }
            let tree = self.queues.tree(allocation.queue);
            if let (Some(tree), Some(charge)) = (tree, &allocation.charge) {
                sum ^= tree.prefetch(charge.leaf);
            }
            sum
        });
    }

    /// Updates the allocation of a started job; removes it if the job does not run.
    pub(super) fn sync_allocation(&mut self, state: &State, table: &HostTable, j: JobKey) {
        match (self.allocations.get_mut(&j), RunFingerprint::of(state, j)) {
            (None, None) => {}
            (Some(allocation), Some(fingerprint)) if allocation.fingerprint == fingerprint => {}
            (Some(allocation), Some(fingerprint))
                if allocation.fingerprint.predicted(&fingerprint) =>
            {
                allocation.fingerprint = fingerprint
            }
            _ => self.renew_allocation(state, table, j),
        }
    }

    /// As [`Picture::sync_allocation`], even if no change is detected.
    pub(in crate::sched) fn renew_allocation(
        &mut self,
        state: &State,
        table: &HostTable,
        j: JobKey,
    ) {
        let new = self.allocation_of(state, table, j);
        match (self.allocations.get(&j), &new) {
            (Some(old), Some(new)) if old == new => {
                // Drops the reference that the computation took.
                self.requests.drop_ref(new.shape);
                return;
            }
            (None, None) => return,
            (Some(old), Some(new)) if old.holds_same(new) => {
                self.requests.drop_ref(new.shape);
                self.recharge(j, new.clone());
                return;
            }
            _ => {}
        }
        if let Some(old) = self.allocations.remove(&j) {
            self.requests.drop_ref(old.shape);
            let ended = match new {
                None => ended_usage(state, j, &old, self.counts(old.queue).since, self.now),
                Some(_) => EndedUsage::default(),
            };
            self.unbook(j, &old, ended);
        }
        if let Some(new) = new {
            self.add_allocation(j, new);
        }
    }

    /// Updates only what the job adds to its user's usage: reservations stay as they are.
    fn recharge(&mut self, j: JobKey, new: Allocation) {
        let old = self.allocations.replace(j, new).expect("it ran before");
        let new = &self.allocations[&j];
        let Some(tree) = self.queues.tree_mut(old.queue) else {
            return;
        };
        if let Some(charge) = &old.charge {
            tree.charge(charge.leaf, &charge.delta().inverse());
        }
        if let Some(charge) = &new.charge {
            tree.charge(charge.leaf, &charge.delta());
        }
    }

    /// Removes the allocation of a job that holds nothing any more; its reference to its shape
    /// passes to the caller.
    pub(in crate::sched) fn remove_allocation(&mut self, j: JobKey) -> Option<Allocation> {
        let allocation = self.allocations.remove(&j)?;
        self.unbook(j, &allocation, EndedUsage::default());
        Some(allocation)
    }

    /// `ended`: what is added to the history of its user.
    fn unbook(&mut self, j: JobKey, allocation: &Allocation, ended: EndedUsage) {
        self.book_allocation(j, allocation, false, ended);
        self.monitor.note(j, allocation, false);
    }

    /// Adds the allocation of a job.
    pub(in crate::sched) fn add_allocation(&mut self, j: JobKey, allocation: Allocation) {
        self.book_allocation(j, &allocation, true, EndedUsage::default());
        self.monitor.note(j, &allocation, true);
        self.allocations.insert(j, allocation);
    }

    /// Adds what a job takes, or subtracts what it returns, everywhere it is counted.
    fn book_allocation(
        &mut self,
        j: JobKey,
        allocation: &Allocation,
        plus: bool,
        ended: EndedUsage,
    ) {
        let who = allocation.holder();
        if let Some(reserver) = &mut self.reserver {
            match plus {
                true => reserver.claim(j, allocation, self.now, &self.usage),
                false => reserver.release(j, self.now),
            }
        }
        for (at, bundle) in &allocation.parts {
            self.usage.book(*at as usize, bundle, who, plus);
        }
        self.usage.hold_units(&allocation.units, plus);
        self.allocations.count(allocation, plus);
        if !allocation.ident.is_free() {
            let at = self.usage.log_end();
            match plus {
                true => self.quotas.count_start(
                    &allocation.ident,
                    allocation.limit_parts(),
                    !allocation.lent,
                ),
                false => self.quotas.count_end(
                    &allocation.ident,
                    allocation.limit_parts(),
                    !allocation.lent,
                    at,
                ),
            }
        }
        if let Some(charge) = &allocation.charge
            && let Some(tree) = self.queues.tree_mut(allocation.queue)
        {
            let mut delta = match plus {
                true => charge.delta(),
                false => charge.delta().inverse(),
            };
            (delta.hist_ms, delta.ended_slots) = (ended.ms, ended.slots);
            tree.charge(charge.leaf, &delta);
        }
    }

    fn allocation_of(&mut self, state: &State, table: &HostTable, j: JobKey) -> Option<Allocation> {
        let job = state.job(j.id)?;
        let work = job.work(j.idx).filter(|work| work.stat.is_started())?;
        let run = work.run.as_deref()?;
        let spec = state.spec(job.spec);
        let SpecInfo { shape, ident, leaf } = self.spec_info(state, table, job.spec);
        self.requests.add_ref(shape);
        let entry = self.requests.entry(shape);
        let share = |(id, n): &(HostId, u32)| (table.position(*id).map(|at| at as u32), *n);
        let shares: SmallVec<[_; 1]> = run.hosts.iter().map(share).collect();
        let alternative = entry.shape.alternative(run.alt);
        let elapsed_ms = self.now.since_ms(run.dispatch);
        let mut parts = alternative.bundles(&shares, elapsed_ms);
        if let Some(next) = alternative.next_change(elapsed_ms) {
            self.allocations.note_change(run.dispatch.plus_ms(next), j);
        }
        for (at, _) in &parts {
            self.throttle.note(*at as usize, run.dispatch);
        }
        let first = shares.first().and_then(|(at, _)| *at);
        let mut count = None;
        if let Some(n) = parts.iter().position(|(at, _)| Some(*at) == first)
            && let Some(less) = self.less_measured(&parts[n].1, run)
        {
            count = (!ident.is_free()).then(|| Box::new(parts.clone()));
            parts[n].1 = less;
        }
        let (queue, exclusive) = (entry.shape.queue, entry.shape.is_exclusive(run.alt));
        let mut allocation = Allocation {
            fingerprint: RunFingerprint::of(state, j)?,
            shape,
            queue,
            uid: spec.uid,
            slots: run.slots(),
            charge: leaf.map(|leaf| {
                let counts = self.counts(queue);
                // GPUs are counted for the whole run, regardless of how long they are reserved.
                let all = counts.gpu.map(|_| alternative.bundles(&shares, 0));
                ShareCharge::of(leaf, run, all.as_ref().unwrap_or(&parts), counts)
            }),
            until: end_at(
                // The dispatch time, not the start, which is reported later: reservations would be
                // computed twice.
                run.dispatch.plus_ms(run.suspension.total_ms),
                RunLength::of(spec, &self.config).at(table, first),
            ),
            parts,
            ident,
            count,
            exclusive,
            halted: run.suspension.by_system.is_some(),
            lent: run.lends_slots(),
            units: Box::default(),
        };
        if !run.units().is_empty() {
            self.hold_units(&mut allocation, run.units(), table);
        }
        allocation.block_compute_units(self.requests.shape(shape), run.alt, table);
        if run.to_stop() {
            self.release(&mut allocation);
        }
        Some(allocation)
    }

    /// The rest of a measured reservation that still counts, because what a running job uses
    /// already shows in the host's measured load. `None`: all of it.
    pub(in crate::sched) fn less_measured(&self, bundle: &Bundle, run: &Run) -> Option<Bundle> {
        let used = [("mem", run.usage().mem_kb), ("swp", run.usage().swap_kb)];
        let mut rest: Option<Bundle> = None;
        for (name, kb) in used.into_iter().filter(|(_, kb)| *kb > 0) {
            if let Some(res) = self.resources.find(name) {
                let at = usize::from(res);
                let used = i64::try_from(kb.saturating_mul(1000) / 1024).unwrap_or(i64::MAX);
                let left = bundle.get(at).saturating_sub(used).max(0);
                if left != bundle.get(at) {
                    rest.get_or_insert_with(|| bundle.clone()).set(at, left);
                }
            }
        }
        rest
    }

    /// What the share tree of a queue counts beside slots and time.
    pub(in crate::sched) fn counts(&self, queue: Option<u16>) -> ChargedResources {
        let tree = self.queues.tree(queue);
        let gpus = queue.is_some_and(|at| self.config.queues[usize::from(at)].fair.gpu_time > 0);
        ChargedResources {
            amounts: tree.is_some_and(ShareTree::counts_amounts),
            gpu: gpus.then(|| self.resources.find("gpu")).flatten(),
            since: tree.map_or(Stamp(i64::MIN), ShareTree::since),
        }
    }

    /// Removes from an allocation what a stopped job does not keep.
    pub(in crate::sched) fn release(&self, allocation: &mut Allocation) {
        allocation.fix_limit_parts();
        if allocation.lent {
            let count = allocation.count.as_deref_mut().into_iter().flatten();
            count.for_each(|(_, bundle)| bundle.slots = 0);
        }
        for (res, _) in self.released() {
            let count = allocation.count.as_deref_mut().into_iter().flatten();
            for (_, bundle) in allocation.parts.iter_mut().chain(count) {
                if bundle.get(res) != 0 {
                    bundle.set(res, 0);
                }
            }
        }
    }

    /// The resources that stopped jobs do not keep: number and name.
    pub(in crate::sched) fn released(&self) -> impl Iterator<Item = (usize, &str)> {
        let all = self.resources.iter().enumerate();
        all.filter(|(_, name)| released_when_stopped(&self.config, name))
    }

    /// What a started job takes if it runs now, with nothing released.
    pub(in crate::sched) fn full_allocation(
        &self,
        table: &HostTable,
        allocation: &Allocation,
        run: &Run,
    ) -> SmallVec<[(u32, Bundle); 1]> {
        let share = |(id, n): &(HostId, u32)| (table.position(*id).map(|at| at as u32), *n);
        let shares: SmallVec<[_; 1]> = run.hosts.iter().map(share).collect();
        self.requests
            .shape(allocation.shape)
            .alternative(run.alt)
            .bundles(&shares, self.now.since_ms(run.dispatch))
    }
}

/// Usage of an ended job, for the history of its user.
#[derive(Clone, Copy, Default)]
struct EndedUsage {
    /// By [`Meter`].
    ms: [u64; 3],
    slots: u64,
}

/// `since`: usage before that is in the history. A job that was requeued has ended by now.
fn ended_usage(state: &State, j: JobKey, old: &Allocation, since: Stamp, now: Stamp) -> EndedUsage {
    let charge = old.charge.as_ref();
    let run = state.work(j).and_then(|work| work.run.as_deref());
    let ms = match run.and_then(|run| Some((run, run.end.as_deref()?))) {
        Some((run, end)) => end.end.since_ms(charged_from(run, since)),
        None => charge.map_or(0, |charge| charge.ran_ms(now)),
    };
    let mut ended = EndedUsage {
        slots: u64::from(old.slots),
        ..EndedUsage::default()
    };
    ended.ms[Meter::Run as usize] = ms.saturating_mul(u64::from(old.slots));
    ended.ms[Meter::Gpu as usize] = gpu_ms(charge.map_or(0, |charge| charge.gpus), ms);
    ended.ms[Meter::Cpu as usize] = run.map_or(0, |run| run.usage().cpu_ms);
    ended
}
