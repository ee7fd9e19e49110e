//! Who holds which unit of which host: follows from the runs of started work, as slots in use do.
//! No unit has two holders; what binds work asks here first. Chooses no unit.

use crate::model::{JobKey, Units};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Holders by the name of the unit.
type Holders = BTreeMap<String, SmallVec<[JobKey; 1]>>;

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
            let held = of_host.entry(units.res.clone()).or_default();
            for name in &units.names {
                let holders = held.entry(name.clone()).or_default();
                match plus {
                    true => holders.push(j),
                    false => holders.retain(|of| *of != j),
                }
                if holders.is_empty() {
                    held.remove(name);
                }
            }
            if held.is_empty() {
                of_host.remove(&units.res);
            }
            if of_host.is_empty() {
                self.hosts.remove(&units.host);
            }
        }
    }

    /// Units of a host that are in use, with their holders, by resource.
    pub fn on(&self, host: &str) -> impl Iterator<Item = (&str, &Holders)> {
        let all = self.hosts.get(host).into_iter().flatten();
        all.map(|(res, held)| (res.as_str(), held))
    }

    /// Why `j` may not be given these: other work has one of them, or one is named twice.
    pub fn objection(&self, j: JobKey, units: &[Units]) -> Option<String> {
        let mut wanted = std::collections::BTreeSet::new();
        for units in units {
            let held = self.hosts.get(&units.host).and_then(|h| h.get(&units.res));
            for name in &units.names {
                let (res, host) = (&units.res, &units.host);
                if !wanted.insert((host, res, name)) {
                    return Some(format!(
                        "job {j} would have unit {name} of {res} on {host} twice"
                    ));
                }
                let holders = held.and_then(|held| held.get(name)).into_iter().flatten();
                if let Some(other) = holders.copied().next() {
                    return Some(format!(
                        "unit {name} of {res} on {host} is for job {j}, and job {other} has it"
                    ));
                }
            }
        }
        None
    }

    /// Units with several holders, as sentences; empty = sound.
    pub(super) fn shared(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (host, of_host) in &self.hosts {
            for (res, held) in of_host {
                let double = held.iter().filter(|(_, holders)| holders.len() > 1);
                broken.extend(double.map(|(name, holders)| {
                    let holders: Vec<String> = holders.iter().map(JobKey::to_string).collect();
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
