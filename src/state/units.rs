//! Who holds which unit of which host: derived from the runs of started jobs, like slots in use.
//! Chooses no unit and refuses none: see `unit_conflicts.rs`.

use super::job::HostId;
use crate::model::{JobKey, ShortName, Units};
use smallvec::SmallVec;

/// Number of units of a host that are prefetched.
pub const PREFETCH_UNITS: usize = 8;

/// A job's share of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitHolder {
    pub j: JobKey,
    /// Thousandths.
    pub part: u32,
    /// Amounts of the unit in thousandths, by resource.
    pub amounts: Vec<(ShortName, i64)>,
}

/// A unit in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitInUse {
    pub res: ShortName,
    pub name: ShortName,
    /// At least one; a job occurs once for each part.
    pub holders: SmallVec<[UnitHolder; 1]>,
}

impl UnitInUse {
    pub(super) fn is_named(&self, res: &str, name: &str) -> bool {
        self.name == name && self.res == res
    }

    /// What all holders have together, in thousandths.
    pub(super) fn used(&self) -> u32 {
        let parts = self.holders.iter().map(|of| of.part);
        parts.fold(0, u32::saturating_add)
    }
}

/// Units in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitsInUse {
    /// By host, in the order of resources and names.
    hosts: Vec<Vec<UnitInUse>>,
}

impl UnitsInUse {
    /// Makes room for `hosts` hosts.
    pub(super) fn grow(&mut self, hosts: usize) {
        self.hosts.resize_with(hosts, Vec::new);
    }

    /// Adds or removes what `j` holds on a host.
    pub(super) fn charge(&mut self, j: JobKey, host: HostId, units: &Units, plus: bool) {
        let of_host = &mut self.hosts[host.0 as usize];
        match plus {
            true => add(of_host, j, units),
            false => remove(of_host, j, units),
        }
    }

    /// Prefetches the first units in use on a host by reading one value of each.
    pub(super) fn prefetch(&self, host: HostId) -> usize {
        let units = self.used_on(host).iter().take(PREFETCH_UNITS);
        units.map(|unit| unit.name.len()).sum()
    }

    /// Whether no unit of any host is in use.
    pub fn is_empty(&self) -> bool {
        self.hosts.iter().all(Vec::is_empty)
    }

    pub(super) fn used_on(&self, host: HostId) -> &[UnitInUse] {
        &self.hosts[host.0 as usize]
    }
}

fn add(of_host: &mut Vec<UnitInUse>, j: JobKey, units: &Units) {
    for name in &units.names {
        let place = (units.res.as_str(), name.as_str());
        let at = of_host.binary_search_by(|unit| (&*unit.res, &*unit.name).cmp(&place));
        let at = at.unwrap_or_else(|at| {
            let new = UnitInUse {
                res: units.res.clone(),
                name: name.clone(),
                holders: SmallVec::new(),
            };
            of_host.insert(at, new);
            at
        });
        let holders = &mut of_host[at].holders;
        holders.push(UnitHolder {
            j,
            part: units.part_of_each(),
            amounts: units.amounts.clone(),
        });
        if holders.len() > 1 {
            holders.sort_by_cached_key(|of| (of.j, of.part, of.amounts.clone()));
        }
    }
}

fn remove(of_host: &mut Vec<UnitInUse>, j: JobKey, units: &Units) {
    let same = |of: &UnitHolder| {
        of.j == j && of.part == units.part_of_each() && of.amounts == units.amounts
    };
    for name in &units.names {
        let is_it = |unit: &UnitInUse| unit.is_named(&units.res, name);
        let Some(at) = of_host.iter().position(is_it) else {
            continue;
        };
        let holders = &mut of_host[at].holders;
        if let Some(held) = holders.iter().position(same) {
            holders.remove(held);
        }
        if holders.is_empty() {
            of_host.remove(at);
        }
    }
}
