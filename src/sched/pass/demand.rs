//! Counts the demand: which kinds of jobs are usual, for queues whose packing depends on it. The
//! counts themselves are in `fragmentation.rs`.

use super::Pass;
use crate::config::Packing;
use crate::sched::compiled_request::{RusagePer, Way};
use crate::sched::fragmentation::{Demand, UsualJob};
use crate::sched::host_usage::ResourceId;
use std::collections::{BTreeMap, BTreeSet};

/// Resources that some ways of a request reserve and others do not.
fn varying(ways: &[Way]) -> BTreeSet<ResourceId> {
    let of = |way: &Way| -> BTreeSet<ResourceId> { way.rusage().map(|item| item.res).collect() };
    let all: Vec<BTreeSet<ResourceId>> = ways.iter().map(of).collect();
    let union: BTreeSet<ResourceId> = all.iter().flatten().copied().collect();
    let everywhere = |res: &ResourceId| all.iter().all(|set| set.contains(res));
    union.into_iter().filter(|res| !everywhere(res)).collect()
}

impl Pass<'_> {
    /// Counts the demand when the packing of some queue depends on it and enough has happened
    /// since.
    pub(super) fn update_demand(&mut self) {
        let looks = |p: Packing| matches!(p, Packing::Frag | Packing::Fit);
        if !self.config().queues.iter().any(|q| looks(q.packing)) {
            return;
        }
        let now = self.picture.usage.now();
        if let Some((at, jobs)) = self.memory.demand.at
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
        let shapes = counts.keys().map(|id| &self.shape(*id).ways);
        let units: BTreeSet<ResourceId> = shapes.flat_map(|ways| varying(ways)).collect();
        let mut needs = Vec::new();
        for (id, count) in &counts {
            let hosts = self.eligible(*id, 0);
            let mut suits = vec![false; self.table.count()];
            hosts.iter().for_each(|at| suits[*at as usize] = true);
            let way = &self.shape(*id).ways[0];
            let mut need = UsualJob {
                count: *count,
                suits,
                ..UsualJob::default()
            };
            for item in way.rusage() {
                let n = match item.per {
                    RusagePer::Slot => i64::from(way.slots_min()),
                    RusagePer::Host | RusagePer::Job => 1,
                };
                if units.contains(&item.res) {
                    need.units += 1;
                    need.each = need.each.max(item.amount * n);
                } else {
                    need.fixed.set(usize::from(item.res), item.amount * n);
                }
            }
            needs.push(need);
        }
        let most = |res: usize| {
            let have = self
                .picture
                .usage
                .iter()
                .map(|b| b.have.get(res).copied().unwrap_or(0));
            have.max().unwrap_or(0)
        };
        self.memory.demand = Demand {
            scale: (0..self.picture.resources.len()).map(most).collect(),
            units: units.into_iter().collect(),
            at: Some((now, counts.values().map(|n| u64::from(*n)).sum())),
            version: self.memory.demand.version + 1,
            needs,
        };
    }
}
