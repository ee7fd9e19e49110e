//! Who holds which unit of which host: derived from the runs of started jobs, like slots in use. No
//! more than the whole of a unit is held; code that binds jobs checks here first. Chooses no unit.

use crate::model::{JobKey, Units, WHOLE_UNIT};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A job's share of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitHolder {
    pub j: JobKey,
    /// Thousandths.
    pub part: u32,
    /// Amounts of the unit in thousandths, by resource.
    pub amounts: Vec<(String, i64)>,
}

/// Holders by the name of the unit; a job occurs once for each part.
type Holders = BTreeMap<String, SmallVec<[UnitHolder; 1]>>;

/// Host, resource and name of a unit.
type UnitPath<'a> = (&'a str, &'a str, &'a str);

/// Units in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitsInUse {
    /// By host, then by resource.
    hosts: FxHashMap<String, BTreeMap<String, Holders>>,
}

impl UnitsInUse {
    /// Adds or removes what `j` holds.
    pub(super) fn charge(&mut self, j: JobKey, units: &[Units], plus: bool) {
        for units in units {
            let of_host = self.hosts.entry(units.host.clone()).or_default();
            let by_name = of_host.entry(units.res.clone()).or_default();
            for name in &units.names {
                let holders = by_name.entry(name.clone()).or_default();
                match plus {
                    true => {
                        holders.push(UnitHolder {
                            j,
                            part: units.part_of_each(),
                            amounts: units.amounts.clone(),
                        });
                        let order = |of: &UnitHolder| (of.j, of.part, of.amounts.clone());
                        holders.sort_by_cached_key(order);
                    }
                    false => {
                        let same = |of: &UnitHolder| {
                            of.j == j
                                && of.part == units.part_of_each()
                                && of.amounts == units.amounts
                        };
                        if let Some(at) = holders.iter().position(same) {
                            holders.remove(at);
                        }
                    }
                }
                if holders.is_empty() {
                    by_name.remove(name);
                }
            }
            if by_name.is_empty() {
                of_host.remove(&units.res);
            }
            if of_host.is_empty() {
                self.hosts.remove(&units.host);
            }
        }
    }

    /// Units of a host that are in use, with their holders, by resource.
    pub fn used_on(&self, host: &str) -> impl Iterator<Item = (&str, &Holders)> {
        let all = self.hosts.get(host).into_iter().flatten();
        all.map(|(res, holders)| (res.as_str(), holders))
    }

    /// Why `j` may not get these units: together with what other jobs, or `j` itself, hold of one
    /// of them, it would be more than the whole unit.
    pub fn objection(&self, j: JobKey, units: &[Units]) -> Option<String> {
        let mut wanted: SmallVec<[(UnitPath, u32); 4]> = SmallVec::new();
        for of in units {
            let unit = |name| ((of.host.as_str(), of.res.as_str(), name), of.part_of_each());
            wanted.extend(of.names.iter().map(|name| unit(name.as_str())));
        }
        wanted.sort_unstable();
        for same in wanted.chunk_by(|a, b| a.0 == b.0) {
            let (host, res, name) = same[0].0;
            let parts = same.iter().map(|(_, part)| *part);
            let part = parts.fold(0, u32::saturating_add);
            let by_name = self.hosts.get(host).and_then(|h| h.get(res));
            let holders = by_name
                .and_then(|by_name| by_name.get(name))
                .into_iter()
                .flatten();
            let before: u32 = holders.clone().map(|of| of.part).sum();
            if before.saturating_add(part) <= WHOLE_UNIT {
                continue;
            }
            return Some(match holders.map(|of| of.j).next() {
                None => format!("job {j} would have unit {name} of {res} on {host} twice"),
                Some(other) => {
                    format!(
                        "unit {name} of {res} on {host} is assigned to job {j}, but job \
                        {other} holds it"
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
            for (res, by_name) in of_host {
                let sum = |holders: &[UnitHolder]| holders.iter().map(|of| of.part).sum::<u32>();
                let over = by_name.iter().filter(|(_, of)| sum(of) > WHOLE_UNIT);
                broken.extend(over.map(|(name, holders)| {
                    let holders: Vec<String> = holders.iter().map(|of| of.j.to_string()).collect();
                    format!(
                        "unit {name} of {res} on {host} has holders {}",
                        holders.join(" ")
                    )
                }));
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
        assert_eq!(all.objection(b, &[part(&["0"], 500)]), None);
        assert!(all.objection(b, &[part(&["0", "0"], 300)]).is_some());
        assert!(all.objection(b, &[part(&["0"], 0)]).is_some());
        assert!(all.objection(b, &[part(&["1", "1"], 0)]).is_some());
        all.charge(b, &[part(&["0"], 501)], true);
        let broken = ["unit 0 of gpu on h has holders 1 1 2"];
        assert_eq!(all.over_allocated(), broken);
        all.charge(b, &[part(&["0"], 501)], false);
        all.charge(a, &[part(&["0"], 250)], false);
        assert_eq!(all.objection(b, &[part(&["0"], 750)]), None);
        all.charge(a, &[part(&["0"], 250)], false);
        assert_eq!(all, UnitsInUse::default());
    }
}
