//! Fragmentation: how much of a host's free units cannot be used by the typical jobs of the cluster
//! (`packing: frag`).
//!
//! Considers the kind of units that most typical jobs request. Integer arithmetic; owns the demand
//! (what is typical), never a host.

use super::amount::Bundle;
use super::host_usage::{HostUsage, ResourceId};
use super::units::{UNIT, UnitRequest};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Maximum number of kinds of jobs that are considered, the most frequent ones.
const KINDS_MAX: usize = 128;

/// What a common kind of job needs on one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UsualJob {
    /// Number of jobs of this kind, pending or started.
    pub count: u32,
    /// Everything but units.
    pub fixed: Bundle,
    /// Units, and thousandths of each; 0 = none.
    pub units: u32,
    pub per_unit: i64,
    /// The hosts, by position, that can run it.
    pub suitable_hosts: Vec<bool>,
}

impl UsualJob {
    fn fits(&self, at: usize, left: &Bundle) -> bool {
        self.suitable_hosts.get(at).copied().unwrap_or(true) && self.fixed.fits(left)
    }
}

/// Kinds of jobs that need the same units.
#[derive(Debug)]
struct SameUnits {
    units: u32,
    per_unit: i64,
    jobs: Vec<UsualJob>,
}

/// The common kinds of jobs of the cluster.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// The resource whose units are considered.
    unit: Option<ResourceId>,
    groups: Vec<SameUnits>,
    /// Number of jobs that were counted.
    total: i64,
    /// Number of resources that are recorded for a host.
    width: usize,
    /// The position in the log of changes at which the demand was counted, and the number of jobs
    /// counted.
    pub counted_at: Option<(u64, u64)>,
    /// Counts changes; scores of an earlier version are stale.
    pub version: u64,
}

/// Jobs of each group that could run on a host if units were ignored.
type Runnable = SmallVec<[i64; 32]>;
type UnitsLeft = SmallVec<[i64; 16]>;

impl Demand {
    /// Builds the demand from jobs that need units of this resource and jobs that need none.
    pub(super) fn new(unit: Option<ResourceId>, mut jobs: Vec<UsualJob>) -> Demand {
        jobs.sort_by_key(|job| Reverse(job.count));
        jobs.truncate(KINDS_MAX);
        let mut demand = Demand {
            unit,
            ..Demand::default()
        };
        for job in jobs {
            demand.total += i64::from(job.count);
            demand.width = demand.width.max(job.fixed.res.len());
            let same = |of: &&mut SameUnits| (of.units, of.per_unit) == (job.units, job.per_unit);
            match demand.groups.iter_mut().find(same) {
                Some(group) => group.jobs.push(job),
                None => demand.groups.push(SameUnits {
                    units: job.units,
                    per_unit: job.per_unit,
                    jobs: vec![job],
                }),
            }
        }
        demand
    }

    fn runnable(&self, at: usize, left: &Bundle) -> Runnable {
        let of = |group: &SameUnits| {
            let fit = group.jobs.iter().filter(|job| job.fits(at, left));
            fit.map(|job| i64::from(job.count)).sum()
        };
        self.groups.iter().map(of).collect()
    }

    /// Thousandths of units that are of no use, summed over all jobs: everything free if a job
    /// cannot run or needs none, else what is left on units with less than it needs.
    fn lost_units(&self, runnable: &Runnable, units: &[i64]) -> i64 {
        let all: i64 = units.iter().sum();
        let mut useful = 0;
        for (group, jobs) in self.groups.iter().zip(runnable) {
            if group.units == 0 || *jobs == 0 {
                continue;
            }
            let fit = units.iter().filter(|left| **left >= group.per_unit);
            if fit.clone().count() >= group.units as usize {
                useful += jobs * fit.sum::<i64>();
            }
        }
        (all * self.total).saturating_sub(useful)
    }

    fn units(&self, usage: &HostUsage) -> UnitsLeft {
        let units = self.unit.zip(usage.units());
        units.map_or_else(UnitsLeft::new, |(res, units)| units.free_of(res).collect())
    }

    fn free_bundle(&self, usage: &HostUsage) -> Bundle {
        let left = (0..self.width).map(|res| usage.free_amount(res as ResourceId));
        Bundle {
            slots: usage.free(),
            res: left.collect(),
        }
    }

    /// By how much a start increases the loss on a host, in thousandths of units per job.
    pub(super) fn score(
        &self,
        at: usize,
        usage: &HostUsage,
        (take, asks): (&Bundle, &[UnitRequest]),
    ) -> i64 {
        let mut units = self.units(usage);
        if units.is_empty() || self.total == 0 {
            return 0;
        }
        let mut left = self.free_bundle(usage);
        let before = self.lost_units(&self.runnable(at, &left), &units);
        left.sub(take);
        let runnable = self.runnable(at, &left);
        for ask in asks.iter().filter(|ask| Some(ask.res) == self.unit) {
            for _ in 0..ask.count {
                let place = match ask.part {
                    UNIT => units.iter().position(|left| *left == UNIT),
                    part => {
                        let losses = self.losses_by_unit(&runnable, &mut units, part);
                        let known = (0..).zip(losses).filter(|(_, loss)| *loss < i64::MAX);
                        known.min_by_key(|(_, loss)| *loss).map(|(at, _)| at)
                    }
                };
                if let Some(place) = place {
                    units[place] -= ask.part;
                }
            }
        }
        let more = self.lost_units(&runnable, &units).saturating_sub(before);
        (i128::from(more) * 1000 / i128::from(self.total)) as i64
    }

    /// The loss with a part on each unit; `i64::MAX` for a unit without room.
    fn losses_by_unit(
        &self,
        runnable: &Runnable,
        units: &mut UnitsLeft,
        part: i64,
    ) -> SmallVec<[i64; 16]> {
        let mut out = SmallVec::new();
        for at in 0..units.len() {
            let known = units[..at].iter().position(|left| *left == units[at]);
            let loss = match known {
                Some(same) => out[same],
                None if units[at] < part => i64::MAX,
                None => {
                    units[at] -= part;
                    let lost = self.lost_units(runnable, units);
                    units[at] += part;
                    lost
                }
            };
            out.push(loss);
        }
        out
    }

    /// The loss with a part of a start on each unit of a host.
    pub(super) fn loss_by_unit(
        &self,
        at: usize,
        usage: &HostUsage,
        (take, ask): (&Bundle, &UnitRequest),
    ) -> SmallVec<[i64; 16]> {
        if Some(ask.res) != self.unit {
            return SmallVec::new();
        }
        let mut left = self.free_bundle(usage);
        left.sub(take);
        self.losses_by_unit(&self.runnable(at, &left), &mut self.units(usage), ask.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(each: &[i64]) -> Demand {
        let need = |each: &i64| UsualJob {
            count: 1,
            units: u32::from(*each > 0),
            per_unit: *each,
            ..UsualJob::default()
        };
        Demand::new(Some(0), each.iter().map(need).collect())
    }

    fn lost_units(demand: &Demand, units: &[i64]) -> i64 {
        demand.lost_units(&demand.runnable(0, &Bundle::default()), units)
    }

    #[test]
    fn case_42_the_unit_that_loses_least() {
        // Half of the jobs want 500, half 1000; the sum over both is twice the mean.
        let demand = demand(&[500, 1000]);
        assert_eq!(lost_units(&demand, &[300, 700]), 2 * 650);
        let runnable = demand.runnable(0, &Bundle::default());
        let mut units = UnitsLeft::from_slice(&[300, 700]);
        let losses = demand.losses_by_unit(&runnable, &mut units, 300);
        assert_eq!(losses.as_slice(), [2 * 350, 2 * 700]);
        assert_eq!(
            demand.losses_by_unit(&runnable, &mut units, 301)[0],
            i64::MAX
        );
    }

    #[test]
    fn jobs_without_units_make_a_fragment_of_all_that_is_free() {
        assert_eq!(lost_units(&demand(&[0, 1000]), &[1000, 1000]), 2000);
    }

    #[test]
    fn a_kind_that_needs_two_units_finds_no_use_in_one() {
        let mut two = demand(&[1000]);
        two.groups[0].units = 2;
        assert_eq!(lost_units(&two, &[1000, 500]), 1500);
        assert_eq!(lost_units(&two, &[1000, 1000, 500]), 500);
    }

    #[test]
    fn what_else_a_kind_needs_counts() {
        let needs = |amount: i64| UsualJob {
            count: 3,
            fixed: Bundle::new(0, &[0, amount]),
            units: 1,
            per_unit: 1000,
            ..UsualJob::default()
        };
        let demand = Demand::new(Some(0), vec![needs(5)]);
        let with = |left: i64| demand.runnable(0, &Bundle::new(1, &[0, left]));
        assert_eq!(demand.lost_units(&with(5), &[1000]), 0);
        assert_eq!(demand.lost_units(&with(4), &[1000]), 3000);
    }
}
