//! Fragmentation: how much of what is free on a host's units is of no use to the jobs that are
//! usual here, and the order that makes least of it (`packing: frag`) or leaves least on the host
//! (`packing: fit`).
//!
//! Units are resources that requests name as alternatives to each other: `rusage[gpu0=0.5 ||
//! gpu1=0.5]`; the way that was taken says which unit it was. Integer arithmetic; owns the demand
//! (what is usual), never a host.

use super::amount::Bundle;
use super::host_usage::ResourceId;

/// Units are what is scarce where there are any: with equal weights hosts are filled by processors
/// and memory while units lie idle. On the log `openb` of shared GPUs (three orders of arrival)
/// weights of 1, 2, 4 and 8 left 7.9, 7.0, 6.5 and 6.3 % of them idle when all had been asked for.
const UNIT_WEIGHT: i64 = 4;

/// What a usual kind of job needs on one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsualJob {
    /// Jobs of this kind, waiting or started.
    pub count: u32,
    /// Everything but units.
    pub fixed: Bundle,
    /// Units, and thousandths of each; 0 = none.
    pub units: usize,
    pub each: i64,
    /// Hosts, by position, that suit it.
    pub suits: Vec<bool>,
}

impl UsualJob {
    /// Whether it could run where so much is left.
    fn runs(&self, at: usize, left: &dyn Fn(ResourceId) -> i64, units: &[i64]) -> bool {
        let enough = |(res, need): (usize, &i64)| *need <= 0 || *need <= left(res as ResourceId);
        let fit = units.iter().filter(|free| **free >= self.each).count();
        self.suits.get(at).copied().unwrap_or(true)
            && self.fixed.res.iter().enumerate().all(enough)
            && (self.units == 0 || fit >= self.units)
    }
}

/// What is usual here.
#[derive(Debug, Default)]
pub struct Demand {
    /// Resources that are units.
    pub units: Vec<ResourceId>,
    pub needs: Vec<UsualJob>,
    /// The most any host has of each resource.
    pub scale: Vec<i64>,
    /// Position in the log of changes at which it was counted, and jobs counted.
    pub at: Option<(u64, u64)>,
    /// Counts changes; scores of another one are stale.
    pub version: u64,
}

impl Demand {
    /// Thousandths of units on a host that are of no use, summed over the kinds of jobs by their
    /// number: all that is free where a kind cannot run or needs none, else what lies on units
    /// with less than it needs.
    pub fn fragments(&self, at: usize, left: &dyn Fn(ResourceId) -> i64) -> i64 {
        let units: Vec<i64> = self.units.iter().map(|res| left(*res).max(0)).collect();
        let all: i64 = units.iter().sum();
        if all == 0 {
            return 0;
        }
        let of = |need: &UsualJob| {
            let lost = match need.units > 0 && need.runs(at, left, &units) {
                false => all,
                true => units.iter().filter(|free| **free < need.each).sum(),
            };
            lost.saturating_mul(i64::from(need.count))
        };
        self.needs.iter().map(of).fold(0, i64::saturating_add)
    }

    /// By how much a start raises the fragments of a host.
    pub fn score(&self, at: usize, left: &dyn Fn(ResourceId) -> i64, take: &Bundle) -> i64 {
        let after = |res: ResourceId| left(res) - take.get(usize::from(res));
        self.fragments(at, &after) - self.fragments(at, left)
    }

    /// What a start leaves on a host, in millionths of the biggest host's: less is a better fit.
    /// Units count together, and the ones taken once more, so that the fullest unit that fits goes
    /// first. All units of a host weigh [`UNIT_WEIGHT`] times as much as any other resource.
    pub fn leaves(&self, left: &dyn Fn(ResourceId) -> i64, take: &Bundle) -> i64 {
        let part = |amount: i64, scale: i64| {
            let scale = i128::from(scale.max(1));
            i64::try_from(i128::from(amount) * 1_000_000 / scale).unwrap_or(i64::MAX)
        };
        let after = |res: usize| left(res as ResourceId) - take.get(res);
        let is_unit = |res: usize| self.units.contains(&(res as ResourceId));
        let others = (0..self.scale.len()).filter(|res| !is_unit(*res));
        let mut sum: i64 = others.map(|res| part(after(res), self.scale[res])).sum();
        let width = self.units.len() as i64 * 1000;
        let units = self.units.iter().map(|res| usize::from(*res));
        for res in units {
            sum += UNIT_WEIGHT * part(after(res), width);
            if take.get(res) > 0 {
                sum += part(after(res), 100 * width);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(each: &[i64]) -> Demand {
        let need = |each: &i64| UsualJob {
            count: 1,
            units: usize::from(*each > 0),
            each: *each,
            ..UsualJob::default()
        };
        Demand {
            units: vec![0, 1],
            needs: each.iter().map(need).collect(),
            scale: vec![1000, 1000],
            ..Demand::default()
        }
    }

    #[test]
    fn case_42_the_unit_that_loses_least() {
        // Half of the jobs want 500, half 1000; the sum over both is twice the mean.
        let demand = demand(&[500, 1000]);
        let left = |res: ResourceId| [300, 700][usize::from(res)];
        assert_eq!(demand.fragments(0, &left), 2 * 650);
        let on = |take: &[i64]| demand.score(0, &left, &Bundle::new(1, take));
        assert_eq!(on(&[300, 0]), 2 * -300);
        assert_eq!(on(&[0, 300]), 2 * 50);
    }

    #[test]
    fn jobs_without_units_make_a_fragment_of_all_that_is_free() {
        let demand = demand(&[0, 1000]);
        assert_eq!(demand.fragments(0, &|_| 1000), 2000);
    }

    #[test]
    fn the_best_fit_leaves_least_on_the_fullest_unit() {
        let demand = demand(&[500]);
        let left = |res: ResourceId| [500, 700][usize::from(res)];
        let on = |take: &[i64]| demand.leaves(&left, &Bundle::new(1, take));
        assert!(on(&[300, 0]) < on(&[0, 300]));
    }
}
