//! The sensors' information about a host's units besides their names: the device nodes of each, the
//! processes that use it, its own resources. `cbls` writes it into the host's local directory
//! (`units.json`) and `cbexe` reads it there; it never reaches the share. Owns its form.

use crate::model::ProcessUse;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum size of the file in bytes.
pub const HOST_UNITS_MAX: u64 = 4 << 20;

/// The units of a host, by resource, in the order in which they are listed.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct HostUnitsDoc {
    /// The boot to which the times refer.
    pub boot: String,
    pub kinds: BTreeMap<String, Vec<UnitDoc>>,
}

/// One unit.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitDoc {
    #[serde(rename = "u")]
    pub name: String,
    /// Paths, or numbers in the form of a `DeviceNode`.
    #[serde(rename = "d", skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Processes that use it, and when this was observed (boot-time clock, ms).
    #[serde(rename = "p", skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<u32>,
    /// What processes use of it, observed at the same time.
    #[serde(rename = "w", skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<ProcessUse>,
    #[serde(rename = "t", skip_serializing_if = "is_zero")]
    pub seen: u64,
    /// Thousandths of its own resources (`gpu_mem`), by name.
    #[serde(rename = "s", skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, i64>,
}

impl UnitDoc {
    /// A unit without further information.
    pub fn named(name: &str) -> UnitDoc {
        UnitDoc {
            name: name.to_owned(),
            ..UnitDoc::default()
        }
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}
