//! Units of a resource that an attempt has: which ones, by name.

use serde::{Deserialize, Serialize};

/// Units of one resource on one host.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Units {
    #[serde(rename = "h")]
    pub host: String,
    #[serde(rename = "r")]
    pub res: String,
    /// In the order of the host's list.
    #[serde(rename = "u")]
    pub names: Vec<String>,
    /// Their places in that list, counted from 0, where these are not their names.
    #[serde(rename = "i", default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<u32>,
}

impl Units {
    /// Adds units to those of the same host and resource.
    pub fn merge(all: &mut Vec<Units>, more: &[Units]) {
        for units in more {
            let same = |known: &&mut Units| known.host == units.host && known.res == units.res;
            match all.iter_mut().find(same) {
                Some(known) => {
                    let named = known.places.is_empty() && units.places.is_empty();
                    let places =
                        (!named).then(|| [known.all_places(), units.all_places()].concat());
                    known.names.extend_from_slice(&units.names);
                    known.places = places.unwrap_or_default();
                }
                None => all.push(units.clone()),
            }
        }
    }

    /// The place of each unit in the host's list.
    pub fn all_places(&self) -> Vec<u32> {
        match self.places.is_empty() {
            true => self.names.iter().filter_map(|n| n.parse().ok()).collect(),
            false => self.places.clone(),
        }
    }
}

impl std::fmt::Display for Units {
    /// `node01 gpu 0,3`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.host, self.res, self.names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_units_join_those_of_their_host_and_resource() {
        let units = |host: &str, names: &[&str], places: &[u32]| Units {
            host: host.into(),
            res: "gpu".into(),
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            places: places.to_vec(),
        };
        let mut all = vec![units("a", &["1"], &[])];
        Units::merge(
            &mut all,
            &[units("a", &["3"], &[]), units("b", &["x"], &[7])],
        );
        assert_eq!(
            all,
            [units("a", &["1", "3"], &[]), units("b", &["x"], &[7])]
        );
        Units::merge(
            &mut all,
            &[units("b", &["y"], &[8]), units("a", &["z"], &[0])],
        );
        assert_eq!(all[0], units("a", &["1", "3", "z"], &[1, 3, 0]));
        assert_eq!(all[1].all_places(), [7, 8]);
    }
}
