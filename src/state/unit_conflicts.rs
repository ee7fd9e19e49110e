//! Who holds which unit of which host, asked of the state, and what may not be assigned because of
//! that: no more than the whole of a unit is held. Changes nothing.

use super::State;
use super::units::UnitInUse;
use crate::model::{JobKey, Units, WHOLE_UNIT};
use smallvec::SmallVec;

/// Host, resource and name of a unit.
type UnitPath<'a> = (&'a str, &'a str, &'a str);

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
        for host in self.hosts.numbers.names() {
            for unit in self
                .units_on(host)
                .iter()
                .filter(|unit| unit.used() > WHOLE_UNIT)
            {
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
            names: names.iter().map(|n| (*n).into()).collect(),
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
