//! Numbers for the resources that requests reserve. Owns the names; knows no host and no amount in
//! use.

use super::host_usage::ResourceId;
use super::hosts::HostInfo;
use super::units::UNIT;
use crate::config::Config;
use crate::text::resreq::{Direction, ResourceDef, Resources as _};
use crate::text::size;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The host's assumed amount of a resource that rises with the load, in thousandths. The sum over
/// all hosts of a cluster still fits into a number.
const ENDLESS: i64 = 1 << 45;

/// Names of resources that requests reserve, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct ResourceNames {
    names: Vec<String>,
    /// They rise with the load: a reservation takes nothing from a stock.
    rising: Vec<bool>,
    /// Their units are assigned individually, by name.
    units: Vec<bool>,
    /// Several hosts share one amount of it.
    shared: Vec<bool>,
    /// The resource whose units each have an amount of this one (`gpu_mem` of `gpu`).
    per_unit: Vec<Option<ResourceId>>,
    index: FxHashMap<String, ResourceId>,
}

impl ResourceNames {
    pub(super) fn find(&self, name: &str) -> Option<ResourceId> {
        self.index.get(name).copied()
    }

    pub(super) fn name(&self, res: ResourceId) -> &str {
        &self.names[usize::from(res)]
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the number of a name, and assigns a new one if needed.
    pub(super) fn intern(&mut self, name: &str, config: &Config) -> ResourceId {
        if let Some(res) = self.find(name) {
            return res;
        }
        let per_unit = config.hosts.per_unit(name);
        let per_unit = per_unit.map(|unit| self.intern(unit, config));
        let res = ResourceId::try_from(self.names.len())
            .expect("fewer than 65536 resources are declared");
        let rises = |def: ResourceDef<'_>| def.direction == Direction::Increase;
        self.rising.push(config.find(name).is_some_and(rises));
        self.units.push(config.hosts.has_units(name));
        self.per_unit.push(per_unit);
        self.shared.push(config.hosts.is_shared(name));
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), res);
        res
    }

    /// Whether its units are assigned individually, by name.
    pub(super) fn has_units(&self, res: ResourceId) -> bool {
        self.units[usize::from(res)]
    }

    /// Whether several hosts share one amount of it.
    pub(super) fn is_shared(&self, res: ResourceId) -> bool {
        self.shared[usize::from(res)]
    }

    /// The resources of which several hosts share one amount.
    pub(super) fn shared_resources(&self) -> impl Iterator<Item = (ResourceId, &str)> {
        let all = (0..).zip(&self.names).zip(&self.shared);
        all.filter_map(|((res, name), shared)| shared.then_some((res, name.as_str())))
    }

    /// The resource whose units each have an amount of this one.
    pub(super) fn per_unit(&self, res: ResourceId) -> Option<ResourceId> {
        self.per_unit[usize::from(res)]
    }

    /// The resources that units have, each with the resource of these units.
    pub(super) fn of_units(&self) -> impl Iterator<Item = (ResourceId, ResourceId)> {
        let all = (0..).zip(&self.per_unit);
        all.filter_map(|(own, unit)| unit.map(|unit| (own, unit)))
    }

    /// How much of a resource of units each unit of a host has, in thousandths.
    pub(super) fn sizes(&self, host: &HostInfo, own: ResourceId) -> Vec<i64> {
        let Some(unit) = self.per_unit(own) else {
            return Vec::new();
        };
        let n = host.units(self.name(unit)).len();
        let sizes = host.unit_sizes(self.name(own), n);
        sizes.iter().map(|n| (n * 1000.0).round() as i64).collect()
    }

    /// The resources whose units are assigned individually.
    pub(super) fn with_units(&self) -> impl Iterator<Item = (ResourceId, &str)> {
        let all = (0..).zip(&self.names).zip(&self.units);
        all.filter_map(|((res, name), units)| units.then_some((res, name.as_str())))
    }

    /// The host's amount of each resource, in thousandths.
    pub(super) fn amounts_of_host(&self, host: &HostInfo) -> SmallVec<[i64; 3]> {
        let milli = |res: ResourceId| {
            let (name, at) = (self.name(res), usize::from(res));
            match host.number(name) {
                None => 0,
                // A shared resource is counted over all its hosts.
                Some(_) if self.rising[at] || self.shared[at] => ENDLESS,
                Some(_) if self.units[at] => host.units(name).len() as i64 * UNIT,
                Some(_) if self.per_unit[at].is_some() => self.sizes(host, res).iter().sum(),
                Some(n) => (n * 1000.0).round() as i64,
            }
        };
        (0..self.names.len())
            .map(|res| milli(res as ResourceId))
            .collect()
    }
}

/// An amount in thousandths as text for users: memory and disk space, which are in MB, as sizes.
pub(super) fn amount_text(resource: &str, milli: i64) -> String {
    match is_size(resource) {
        true => size::human(milli.unsigned_abs().saturating_mul(1 << 20) / 1000),
        false => (milli as f64 / 1000.0).to_string(),
    }
}

/// Whether it is counted in MB.
pub(super) fn is_size(resource: &str) -> bool {
    matches!(
        resource,
        "mem" | "swp" | "swap" | "tmp" | "maxmem" | "maxswp" | "maxtmp" | "gpu_mem"
    )
}
