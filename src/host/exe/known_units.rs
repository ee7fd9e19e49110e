//! What this host knows about its units. Owns when the file of `cbls` is read again and which nodes
//! were sent to the current spawner; starts and sends nothing.

use super::unit_names::read;
use crate::config::Config;
use crate::host::units_file::{self, Stamp};
use crate::model::{AttemptId, DEVICES_MAX, DeviceNode, TermReason, UnitCheck};
use crate::record::host_units::HostUnitsDoc;
use crate::record::report::Usage;
use crate::sys::device;
use crate::task::host_units::{HostUnits, units_here};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The units of this host.
#[derive(Debug, Default)]
pub(super) struct KnownUnits {
    config: Option<Box<Config>>,
    stamp: Stamp,
    doc: HostUnitsDoc,
    pub units: HostUnits,
    /// Device nodes by unit, `gpu 0`.
    nodes: BTreeMap<String, Vec<DeviceNode>>,
    /// The nodes that the current spawner denies to tasks; `None`: it was sent none.
    pub sent: Option<Vec<DeviceNode>>,
    /// A warning was logged once.
    pub warned: bool,
    failing: bool,
    /// Problems with the use of units as sentences, each listed once.
    pub problems: BTreeSet<String>,
}

impl KnownUnits {
    /// Applies another configuration.
    pub(super) fn configure(&mut self, config: Config, host: &str) {
        self.config = Some(Box::new(config));
        self.renew(host);
    }

    /// Reads the file of `cbls` if it has changed.
    pub(super) fn reread(&mut self, path: &Path, host: &str) {
        let stamp = units_file::stamp(path);
        if stamp != self.stamp {
            match units_file::read(path) {
                Ok(doc) => (self.doc, self.stamp, self.failing) = (doc, stamp, false),
                // What was read before still applies.
                Err(e) if !self.failing => {
                    self.failing = true;
                    tracing::error!("{e}");
                }
                Err(_) => {}
            }
            self.renew(host);
        }
    }

    pub(super) fn renew(&mut self, host: &str) {
        self.units = units_here(self.config.as_deref(), host, &self.doc);
        self.nodes.clear();
        for (res, units) in &self.units {
            for unit in units {
                let nodes = unit.devices.iter().filter_map(|text| node_of(text));
                let nodes: Vec<DeviceNode> = nodes.collect();
                self.nodes.insert(format!("{res} {}", unit.name), nodes);
            }
        }
    }

    /// Whether devices are named by paths, where another device may exist by now.
    pub(super) fn has_paths(&self) -> bool {
        let mut units = self.units.values().flatten();
        units.any(|unit| unit.devices.iter().any(|text| text.starts_with('/')))
    }

    /// The nodes of all units, each listed once.
    pub(super) fn all(&self) -> Vec<DeviceNode> {
        let all: BTreeSet<DeviceNode> = self.nodes.values().flatten().copied().collect();
        all.into_iter().take(DEVICES_MAX).collect()
    }

    /// The nodes of these units, named as in attempts.
    pub(super) fn nodes_of(&self, units: &[String]) -> Vec<DeviceNode> {
        let of = |unit: &String| {
            let (res, name, _) = read(unit);
            self.nodes.get(&format!("{res} {name}"))
        };
        let own: BTreeSet<DeviceNode> = units.iter().filter_map(of).flatten().copied().collect();
        own.into_iter().collect()
    }

    /// The amount that a unit has of one of its own resources, in thousandths; `None`: not known.
    pub(super) fn size(&self, res: &str, name: &str, own: &str) -> Option<i64> {
        let units = self.units.get(res)?;
        let unit = units.iter().find(|unit| unit.name == name)?;
        unit.sizes.get(own).copied()
    }

    /// Another spawner is in use: it has been sent nothing.
    pub(super) fn new_spawner(&mut self) {
        self.sent = None;
    }

    /// The boot whose clock measures the times of processes.
    pub(super) fn boot(&self) -> &str {
        &self.doc.boot
    }

    /// The note for administrators about current problems with the use of units.
    pub(super) fn note(&self, more: &str) -> String {
        let all = self.problems.iter().map(String::as_str);
        let all = all.chain((!more.is_empty()).then_some(more));
        all.collect::<Vec<_>>().join("; ")
    }
}

fn node_of(text: &str) -> Option<DeviceNode> {
    let known = text.parse().ok();
    known.or_else(|| device::node_at(Path::new(text)))
}

/// A process of an attempt on a unit that the attempt does not have.
pub(super) struct WrongUnit {
    pub a: AttemptId,
    /// `gpu 0`
    pub unit: String,
    pub pid: u32,
}

/// Maximum number of units that are named for one attempt.
const NAMED_MAX: usize = 8;

/// The wrong units of an attempt, in words.
pub(super) fn wrong_unit_sentences(all: &[WrongUnit], a: AttemptId) -> Vec<String> {
    let of = all.iter().filter(|wrong| wrong.a == a).take(NAMED_MAX);
    of.map(|wrong| format!("{} (process {})", wrong.unit, wrong.pid))
        .collect()
}

/// The wrong units of a part, with the host, because the job's other hosts do not know it.
pub(super) fn wrong_unit_sentences_on(host: &str, all: &[WrongUnit], a: AttemptId) -> Vec<String> {
    let of = all.iter().filter(|wrong| wrong.a == a).take(NAMED_MAX);
    of.map(|wrong| format!("{} (process {} on {host})", wrong.unit, wrong.pid))
        .collect()
}

/// Whether an attempt of a queue with this check is to be ended because of the units that it uses.
pub(super) fn reason_to_end(check: UnitCheck, u: &Usage) -> Option<TermReason> {
    let kill = check == UnitCheck::Kill && !u.wrong_units.is_empty();
    kill.then_some(TermReason::Units)
}
