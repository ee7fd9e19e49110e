//! Who holds which unit of which host: derived from the runs of started jobs, like slots in use. No
//! more than the whole of a unit is held; code that binds jobs checks here first. Chooses no unit.

use crate::model::{JobKey, Units, WHOLE_UNIT};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A job's share of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitHolder {
    pub j: JobKey,
    /// Thousandths.
    pub part: u32,
    /// Amounts of the unit in thousandths, by resource.
    pub amounts: Vec<(String, i64)>,
}

/// Host, resource and name of a unit.
type UnitPath<'a> = (&'a str, &'a str, &'a str);

/// A unit in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitInUse {
    pub res: String,
    pub name: String,
    /// At least one; a job occurs once for each part.
    pub holders: SmallVec<[UnitHolder; 1]>,
}

impl UnitInUse {
    fn is_named(&self, res: &str, name: &str) -> bool {
        self.name == name && self.res == res
    }

    /// What all holders have together, in thousandths.
    fn used(&self) -> u32 {
        let parts = self.holders.iter().map(|of| of.part);
        parts.fold(0, u32::saturating_add)
    }
}

/// Units in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitsInUse {
    /// By host, in the order of resources and names; no list is empty.
    hosts: FxHashMap<String, Vec<UnitInUse>>,
}

impl UnitsInUse {
    /// Adds or removes what `j` holds.
    pub(super) fn charge(&mut self, j: JobKey, units: &[Units], plus: bool) {
        for units in units {
            match plus {
                true => self.add(j, units),
                false => self.remove(j, units),
            }
        }
    }

    fn add(&mut self, j: JobKey, units: &Units) {
        if !self.hosts.contains_key(&units.host) {
            self.hosts.insert(units.host.clone(), Vec::new());
        }
        let of_host = self.hosts.get_mut(&units.host).expect("just made");
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
        if of_host.is_empty() {
            self.hosts.remove(&units.host);
        }
    }

    fn remove(&mut self, j: JobKey, units: &Units) {
        let Some(of_host) = self.hosts.get_mut(&units.host) else {
            return;
        };
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
        if of_host.is_empty() {
            self.hosts.remove(&units.host);
        }
    }

    /// Units of a host that are in use, in the order of resources and names.
    pub fn used_on(&self, host: &str) -> &[UnitInUse] {
        self.hosts.get(host).map_or(&[], |of_host| of_host)
    }

    /// Why `j` may not get these units: together with what other jobs, or `j` itself, hold of one
    /// of them, it would be more than the whole unit.
    pub fn conflict(&self, j: JobKey, units: &[Units]) -> Option<String> {
        let mut wanted: SmallVec<[(UnitPath, u32); 4]> = SmallVec::new();
        for of in units {
            let unit = |name| ((of.host.as_str(), of.res.as_str(), name), of.part_of_each());
            wanted.extend(of.names.iter().map(|name| unit(name.as_str())));
        }
        if wanted.len() > 1 {
            wanted.sort_unstable();
        }
        for same in wanted.chunk_by(|a, b| a.0 == b.0) {
            let (host, res, name) = same[0].0;
            let parts = same.iter().map(|(_, part)| *part);
            let part = parts.fold(0, u32::saturating_add);
            let mut of_host = self.used_on(host).iter();
            let known = of_host.find(|unit| unit.is_named(res, name));
            let before = known.map_or(0, UnitInUse::used);
            if before.saturating_add(part) <= WHOLE_UNIT {
                continue;
            }
            return Some(match known.and_then(|unit| unit.holders.first()) {
                None => format!("job {j} would have unit {name} of {res} on {host} twice"),
                Some(other) => {
                    format!(
                        "unit {name} of {res} on {host} is assigned to job {j}, but job \
                        {} holds it",
                        other.j
                    )
                }
            });
        }
        None
    }

    /// Units of which more than the whole is held, as sentences; empty = the state is sound.
    pub(super) fn over_allocated(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (host, of_host) in &self.hosts {
            for unit in of_host.iter().filter(|unit| unit.used() > WHOLE_UNIT) {
                let holders: Vec<String> = unit.holders.iter().map(|of| of.j.to_string()).collect();
                let (name, res) = (&unit.name, &unit.res);
                let holders = holders.join(" ");
                broken.push(format!(
                    "unit {name} of {res} on {host} has holders {holders}"
                ));
            }
        }
        broken.sort();
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(names: &[&str], part: u32) -> Units {
        Units {
            host: "h".into(),
            res: "gpu".into(),
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            part,
            ..Units::default()
        }
    }

    #[test]
    fn parts_of_a_unit_are_held_up_to_the_whole() {
        let mut all = UnitsInUse::default();
        let [a, b] = [1, 2].map(JobKey::job);
        all.charge(a, &[part(&["0", "0"], 250)], true);
        assert_eq!(all.conflict(b, &[part(&["0"], 500)]), None);
        assert!(all.conflict(b, &[part(&["0", "0"], 300)]).is_some());
        assert!(all.conflict(b, &[part(&["0"], 0)]).is_some());
        assert!(all.conflict(b, &[part(&["1", "1"], 0)]).is_some());
        all.charge(b, &[part(&["0"], 501)], true);
        let broken = ["unit 0 of gpu on h has holders 1 1 2"];
        assert_eq!(all.over_allocated(), broken);
        all.charge(b, &[part(&["0"], 501)], false);
        all.charge(a, &[part(&["0"], 250)], false);
        assert_eq!(all.conflict(b, &[part(&["0"], 750)]), None);
        all.charge(a, &[part(&["0"], 250)], false);
        assert_eq!(all, UnitsInUse::default());
    }
}
