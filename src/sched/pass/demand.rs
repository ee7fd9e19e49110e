//! Counts the demand: which kinds of jobs are typical, for queues whose packing depends on it. The
//! counts themselves are in `fragmentation.rs`.

use super::Pass;
use crate::config::Packing;
use crate::sched::compiled_request::{RusagePer, UnitUse};
use crate::sched::fragmentation::{Demand, UsualJob};
use crate::sched::host_usage::ResourceId;
use std::collections::BTreeMap;

impl Pass<'_> {
    /// Counts the demand if the packing of some queue depends on it and enough has happened since
    /// the last count.
    pub(super) fn update_demand(&mut self) {
        let mut queues = self.config().queues.iter();
        if !queues.any(|q| q.packing == Packing::Frag) {
            return;
        }
        let now = self.picture.usage.log_end();
        if let Some((at, jobs)) = self.memory.demand.counted_at
            && now - at < (jobs / 8).max(64)
        {
            return;
        }
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        let pending = self.picture.classes.values().map(|b| b.shape);
        for shape in self
            .picture
            .allocations
            .values()
            .map(|allocation| allocation.shape)
            .chain(pending)
        {
            *counts.entry(shape).or_default() += 1;
        }
        let unit = self.usual_unit(&counts);
        let usual = |(id, count): (&u32, &u32)| self.usual_job(*id, *count, unit);
        let jobs = counts.iter().map(usual).collect();
        let mut demand = Demand::new(unit, jobs);
        demand.counted_at = Some((now, counts.values().map(|n| u64::from(*n)).sum()));
        demand.version = self.memory.demand.version + 1;
        self.memory.demand = demand;
    }

    /// The resource whose units most of these jobs request.
    fn usual_unit(&self, counts: &BTreeMap<u32, u32>) -> Option<ResourceId> {
        let mut wanted: BTreeMap<ResourceId, u64> = BTreeMap::new();
        for (id, count) in counts {
            let items = self.shape(*id).alternatives[0].rusage();
            for item in items.filter(|item| matches!(item.unit, UnitUse::Units(_))) {
                *wanted.entry(item.res).or_default() += u64::from(*count);
            }
        }
        let most = wanted.into_iter().max_by_key(|(_, n)| *n);
        most.map(|(res, _)| res)
    }

    fn usual_job(&mut self, id: u32, count: u32, unit: Option<ResourceId>) -> UsualJob {
        let hosts = self.eligible(id, 0);
        let mut suitable_hosts = vec![false; self.table.count()];
        hosts
            .iter()
            .for_each(|at| suitable_hosts[*at as usize] = true);
        let alternative = &self.shape(id).alternatives[0];
        let mut job = UsualJob {
            count,
            suitable_hosts,
            ..UsualJob::default()
        };
        for item in alternative.rusage() {
            let n = match item.per {
                RusagePer::Slot => alternative.slots_min(),
                RusagePer::Host | RusagePer::Job => 1,
            };
            match item.units(n) {
                Some(ask) if Some(ask.res) == unit => {
                    job.units = job.units.saturating_add(ask.count);
                    job.per_unit = job.per_unit.max(ask.part);
                }
                _ => {
                    let amount = item.amount.saturating_mul(i64::from(n));
                    job.fixed.set(usize::from(item.res), amount);
                }
            }
        }
        job
    }
}
