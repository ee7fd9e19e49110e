//! Units of a resource that an attempt has: their names, and the part of each.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt::Write as _;

/// A whole unit in thousandths.
pub const WHOLE_UNIT: u32 = 1000;

/// What happens to a job that uses units that it does not have.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitCheck {
    #[default]
    Off,
    /// It is reported in the log, for the host and for the job.
    Warn,
    /// The job is ended as well.
    Kill,
}

impl UnitCheck {
    pub const ALL: [(&'static str, UnitCheck); 3] = [
        ("off", UnitCheck::Off),
        ("warn", UnitCheck::Warn),
        ("kill", UnitCheck::Kill),
    ];

    pub fn is_off(&self) -> bool {
        *self == UnitCheck::Off
    }

    /// The word for `gpu_check` in cb.yaml.
    pub fn word(self) -> &'static str {
        let row = UnitCheck::ALL.iter().find(|(_, check)| *check == self);
        row.map_or("", |(word, _)| *word)
    }
}

/// The name of a unit, of its resource or of its host. Each start copies some of them, and up to 24
/// bytes are copied without an allocation.
pub type ShortName = compact_str::CompactString;

/// Names of units: most jobs have one unit of a host.
pub type UnitNames = SmallVec<[ShortName; 1]>;

/// Units of one resource on one host.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Units {
    #[serde(rename = "h")]
    pub host: ShortName,
    #[serde(rename = "r")]
    pub res: ShortName,
    /// In the order of the host's list. A repeated name is another part of the same unit.
    #[serde(rename = "u")]
    pub names: UnitNames,
    /// Their positions in that list, counted from 0, if these are not their names.
    #[serde(rename = "i", default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<u32>,
    /// Thousandths of each unit; 0 = whole units.
    #[serde(rename = "p", default, skip_serializing_if = "is_whole")]
    pub part: u32,
    /// Amounts of each unit in thousandths, by resource (`gpu_mem`).
    #[serde(rename = "b", default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<(ShortName, i64)>,
}

fn is_whole(part: &u32) -> bool {
    *part == 0
}

/// One unit of a [`Units`] with everything that is held of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldUnit<'a> {
    pub name: &'a str,
    pub position: Option<u32>,
    /// Thousandths of the unit.
    pub part: u32,
    /// Number of times that it is listed.
    pub times: u32,
}

impl Units {
    /// Thousandths of each unit.
    pub fn part_of_each(&self) -> u32 {
        match self.part {
            0 => WHOLE_UNIT,
            part => part,
        }
    }

    /// Each unit once, in the order of the list.
    pub fn held(&self) -> Vec<HeldUnit<'_>> {
        let places = self.all_places();
        let mut all: Vec<HeldUnit<'_>> = Vec::with_capacity(self.names.len());
        for (at, name) in self.names.iter().enumerate() {
            match all.iter_mut().find(|unit| unit.name == name) {
                Some(unit) => {
                    unit.times += 1;
                    unit.part = unit.part.saturating_add(self.part_of_each());
                }
                None => all.push(HeldUnit {
                    name,
                    position: places.get(at).copied(),
                    part: self.part_of_each(),
                    times: 1,
                }),
            }
        }
        all
    }

    /// Adds units to entries with the same host, resource, part and amounts.
    pub fn merge(all: &mut SmallVec<[Units; 1]>, more: &[Units]) {
        for units in more {
            let same = |known: &&mut Units| {
                known.host == units.host
                    && known.res == units.res
                    && known.part == units.part
                    && known.amounts == units.amounts
            };
            match all.iter_mut().find(same) {
                Some(known) => {
                    let named = known.places.is_empty() && units.places.is_empty();
                    let places =
                        (!named).then(|| [known.all_places(), units.all_places()].concat());
                    known.names.extend(units.names.iter().cloned());
                    known.places = places.unwrap_or_default();
                }
                None => all.push(units.clone()),
            }
        }
    }

    /// The position of each unit in the host's list.
    pub fn all_places(&self) -> Vec<u32> {
        match self.places.is_empty() {
            true => self.names.iter().filter_map(|n| n.parse().ok()).collect(),
            false => self.places.clone(),
        }
    }

    /// Its units as text: `0,3`, or with parts `0(0.25),3(0.25)`.
    pub fn list(&self) -> String {
        let mut out = String::new();
        for unit in self.held() {
            if !out.is_empty() {
                out.push(',');
            }
            out.push_str(unit.name);
            if self.part > 0 {
                write!(out, "({})", f64::from(unit.part) / 1000.0)
                    .expect("a string takes every write");
            }
        }
        out
    }
}

impl std::fmt::Display for Units {
    /// `node01 gpu 0,3`; with parts and other amounts `node01 gpu 0(0.25) gpu_mem=10240`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.host, self.res, self.list())?;
        for (name, milli) in &self.amounts {
            write!(f, " {name}={}", *milli as f64 / 1000.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(host: &str, names: &[&str], places: &[u32]) -> Units {
        Units {
            host: host.into(),
            res: "gpu".into(),
            names: names.iter().map(|n| (*n).into()).collect(),
            places: places.to_vec(),
            ..Units::default()
        }
    }

    #[test]
    fn more_units_join_those_of_their_host_and_resource() {
        let mut all = SmallVec::from([units("a", &["1"], &[])]);
        Units::merge(
            &mut all,
            &[units("a", &["3"], &[]), units("b", &["x"], &[7])],
        );
        assert_eq!(
            all[..],
            [units("a", &["1", "3"], &[]), units("b", &["x"], &[7])]
        );
        Units::merge(
            &mut all,
            &[units("b", &["y"], &[8]), units("a", &["z"], &[0])],
        );
        assert_eq!(all[0], units("a", &["1", "3", "z"], &[1, 3, 0]));
        assert_eq!(all[1].all_places(), [7, 8]);
    }

    #[test]
    fn parts_of_a_unit_add_up() {
        let quarter = |names: &[&str]| Units {
            part: 250,
            amounts: vec![("gpu_mem".into(), 10_240_000)],
            ..units("a", names, &[])
        };
        let mut all = SmallVec::from_vec(vec![units("a", &["3"], &[]), quarter(&["0"])]);
        Units::merge(&mut all, &[quarter(&["0", "1"])]);
        assert_eq!(
            all[..],
            [units("a", &["3"], &[]), quarter(&["0", "0", "1"])]
        );
        let held: Vec<_> = all[1].held();
        let of = |unit: &HeldUnit<'_>| (unit.name.to_owned(), unit.position, unit.part, unit.times);
        assert_eq!(of(&held[0]), ("0".into(), Some(0), 500, 2));
        assert_eq!(of(&held[1]), ("1".into(), Some(1), 250, 1));
        let shown: Vec<String> = all.iter().map(Units::to_string).collect();
        assert_eq!(shown, ["a gpu 3", "a gpu 0(0.5),1(0.25) gpu_mem=10240"]);
    }

    #[test]
    fn units_of_older_journals_are_whole() {
        let old = r#"{"h":"a","r":"gpu","u":["1"]}"#;
        let read: Units = serde_json::from_str(old).unwrap();
        assert_eq!((read.part_of_each(), read.held()[0].part), (1000, 1000));
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
    }
}
