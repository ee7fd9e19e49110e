//! The host's knowledge about its units besides their names. Owns when the file of `cbls` is read
//! again and what the current spawner knows; starts and sends nothing.

use super::unit_names::read;
use crate::config::Config;
use crate::host::units_file::{self, Stamp};
use crate::model::{AttemptId, DEVICES_MAX, DeviceNode, TermReason, UnitCheck};
use crate::record::host_units::HostUnitsDoc;
use crate::record::report::Usage;
use crate::sys::device;
use crate::task::host_units::{UnitsHere, units_here};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The units of this host.
#[derive(Debug, Default)]
pub(super) struct KnownUnits {
    config: Option<Box<Config>>,
    stamp: Stamp,
    doc: HostUnitsDoc,
    pub here: UnitsHere,
    /// Device nodes by unit, `gpu 0`.
    nodes: BTreeMap<String, Vec<DeviceNode>>,
    /// What the present spawner keeps tasks from; `None`: it was sent nothing.
    pub sent: Option<Vec<DeviceNode>>,
    /// What was said in the log once.
    pub said: bool,
    failing: bool,
    /// What is wrong with the use of units, each said once: sentences.
    pub wrong: BTreeSet<String>,
}

impl KnownUnits {
    /// Another configuration is in force.
    pub(super) fn configure(&mut self, config: Config, host: &str) {
        self.config = Some(Box::new(config));
        self.renew(host);
    }

    /// Reads the file of `cbls` if it is another one than before.
    pub(super) fn look(&mut self, path: &Path, host: &str) {
        let stamp = units_file::stamp(path);
        if stamp != self.stamp {
            match units_file::read(path) {
                Ok(doc) => (self.doc, self.stamp, self.failing) = (doc, stamp, false),
                // What was known before still counts.
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
        self.here = units_here(self.config.as_deref(), host, &self.doc);
        self.nodes.clear();
        for (res, units) in &self.here {
            for unit in units {
                let nodes = unit.devices.iter().filter_map(|text| node_of(text));
                let nodes: Vec<DeviceNode> = nodes.collect();
                self.nodes.insert(format!("{res} {}", unit.name), nodes);
            }
        }
    }

    /// Some devices are named by paths, where there may be another one by now.
    pub(super) fn has_paths(&self) -> bool {
        let mut units = self.here.values().flatten();
        units.any(|unit| unit.devices.iter().any(|text| text.starts_with('/')))
    }

    /// The nodes of all units, each once.
    pub(super) fn all(&self) -> Vec<DeviceNode> {
        let all: BTreeSet<DeviceNode> = self.nodes.values().flatten().copied().collect();
        all.into_iter().take(DEVICES_MAX).collect()
    }

    /// The nodes of these units, as attempts name them.
    pub(super) fn nodes_of(&self, units: &[String]) -> Vec<DeviceNode> {
        let of = |unit: &String| {
            let (res, name, _) = read(unit);
            self.nodes.get(&format!("{res} {name}"))
        };
        let own: BTreeSet<DeviceNode> = units.iter().filter_map(of).flatten().copied().collect();
        own.into_iter().collect()
    }

    /// What a unit has of a resource of its own, in thousandths; `None`: nothing says that.
    pub(super) fn size(&self, res: &str, name: &str, own: &str) -> Option<i64> {
        let units = self.here.get(res)?;
        let unit = units.iter().find(|unit| unit.name == name)?;
        unit.sizes.get(own).copied()
    }

    /// Another spawner is in use: it knows nothing.
    pub(super) fn new_spawner(&mut self) {
        self.sent = None;
    }

    /// The boot whose clock the times of processes are by.
    pub(super) fn boot(&self) -> &str {
        &self.doc.boot
    }

    /// The note for administrators with what is wrong with the use of units now.
    pub(super) fn note(&self, more: &str) -> String {
        let all = self.wrong.iter().map(String::as_str);
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

/// Most of one attempt that are named.
const NAMED_MAX: usize = 8;

/// Those of an attempt, in words.
pub(super) fn named(all: &[WrongUnit], a: AttemptId) -> Vec<String> {
    let of = all.iter().filter(|wrong| wrong.a == a).take(NAMED_MAX);
    of.map(|wrong| format!("{} (process {})", wrong.unit, wrong.pid))
        .collect()
}

/// Those of a part, which the job's other hosts do not know.
pub(super) fn named_on(host: &str, all: &[WrongUnit], a: AttemptId) -> Vec<String> {
    let of = all.iter().filter(|wrong| wrong.a == a).take(NAMED_MAX);
    of.map(|wrong| format!("{} (process {} on {host})", wrong.unit, wrong.pid))
        .collect()
}

/// Why an attempt of a queue with this check is to be ended for the units that it uses.
pub(super) fn judged(check: UnitCheck, u: &Usage) -> Option<TermReason> {
    let kill = check == UnitCheck::Kill && !u.wrong_units.is_empty();
    kill.then_some(TermReason::Units)
}
