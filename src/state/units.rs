//! Who holds which unit of which host: derived from the runs of started jobs, like slots in use. No
//! more than the whole of a unit is held; code that binds jobs checks here first. Chooses no unit.

use super::State;
use super::job::HostId;
use crate::model::{JobKey, Units, WHOLE_UNIT};
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

    /// Whether no unit of any host is in use.
    pub fn is_empty(&self) -> bool {
        self.hosts.iter().all(Vec::is_empty)
    }

    fn used_on(&self, host: HostId) -> &[UnitInUse] {
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

impl State {
    /// Units of a host that are in use, in the order of resources and names.
    pub fn units_on(&self, host: &str) -> &[UnitInUse] {
        let host = self.host_id(host);
        host.map_or(&[], |host| self.used.units().used_on(host))
    }

    /// Why `j` may not get these units: together with what other jobs, or `j` itself, hold of one
    /// of them, it would be more than the whole unit.
    pub fn unit_conflict(&self, j: JobKey, units: &[Units]) -> Option<String> {
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
            let mut of_host = self.units_on(host).iter();
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
    pub(super) fn over_allocated_units(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let hosts = self.hosts.names.iter().zip(&self.used.units().hosts);
        for (host, of_host) in hosts {
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
        let mut state = State::new();
        let host = state.intern_host("h");
        let charge = |state: &mut State, j, of, plus| state.used.units.charge(j, host, &of, plus);
        let [a, b] = [1, 2].map(JobKey::job);
        charge(&mut state, a, part(&["0", "0"], 250), true);
        assert_eq!(state.unit_conflict(b, &[part(&["0"], 500)]), None);
        let refused = |state: &State, of| state.unit_conflict(b, &[of]).is_some();
        assert!(refused(&state, part(&["0", "0"], 300)));
        assert!(refused(&state, part(&["0"], 0)));
        assert!(refused(&state, part(&["1", "1"], 0)));
        charge(&mut state, b, part(&["0"], 501), true);
        let broken = ["unit 0 of gpu on h has holders 1 1 2"];
        assert_eq!(state.over_allocated_units(), broken);
        charge(&mut state, b, part(&["0"], 501), false);
        charge(&mut state, a, part(&["0"], 250), false);
        assert_eq!(state.unit_conflict(b, &[part(&["0"], 750)]), None);
        charge(&mut state, a, part(&["0"], 250), false);
        assert!(state.used.units.is_empty());
    }
}
