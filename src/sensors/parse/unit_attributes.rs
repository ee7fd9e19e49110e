//! Attributes of an item for each unit of its resource: `devices`, the nodes that belong to it,
//! `processes`, the processes that use it, and `use`, how much of it each of these uses. Lists in
//! the order of the units.

use super::{Item, Problem};
use crate::model::{DEVICES_MAX, DeviceNode, ProcessUse};
use crate::text::units;
use crate::text::yaml::{Entry, Node, Value};

/// Maximum length of the path of a device.
const PATH_MAX: usize = 256;
/// Maximum number of processes of one unit.
const PROCESSES_MAX: usize = 4096;

/// The information about the units of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitAttributes {
    /// Their names, if there is any information.
    pub names: Vec<String>,
    /// Paths or numbers for each unit; empty = no information about devices.
    pub devices: Vec<Vec<String>>,
    /// Processes of each unit; empty = no information about processes.
    pub processes: Vec<Vec<u32>>,
    /// Use of each unit by processes; empty = no information about that.
    pub used: Vec<Vec<ProcessUse>>,
}

impl UnitAttributes {
    /// Whether there is no information about any unit.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.has_no_processes()
    }
}

impl UnitAttributes {
    /// Whether neither processes nor their use are known.
    pub fn has_no_processes(&self) -> bool {
        self.processes.is_empty() && self.used.is_empty()
    }
}

impl Item<'_> {
    /// Parses the lists of a resource with these units (its value as a word).
    pub(super) fn of_units(&self, assign: bool, value: &str) -> Result<UnitAttributes, Problem> {
        let mut out = UnitAttributes::default();
        for key in ["devices", "processes", "use"] {
            let Some(entry) = self.entry(key) else {
                continue;
            };
            if !assign {
                let text = format!("{key} belong to units, and this resource has none");
                return Err(self.describe(entry, text, Some("write assign: yes, or leave it out")));
            }
            if out.names.is_empty() {
                out.names = names_of(value);
            }
            let lists = self.words_of_units(entry, out.names.len())?;
            match key {
                "devices" => out.devices = self.devices(entry, lists)?,
                "processes" => out.processes = self.processes(entry, lists)?,
                _ => out.used = self.used(entry, lists)?,
            }
        }
        Ok(out)
    }

    /// The words for each unit.
    fn words_of_units(&self, entry: &Entry, n: usize) -> Result<Vec<Vec<String>>, Problem> {
        let one = |node: &Node| match &node.value {
            Value::Text { text, .. } => Some(text.split_whitespace().map(str::to_owned).collect()),
            Value::Null => Some(Vec::new()),
            _ => None,
        };
        let lists: Option<Vec<Vec<String>>> = match &entry.value.value {
            Value::List(list) => list.iter().map(one).collect(),
            _ => None,
        };
        match lists {
            Some(lists) if lists.len() == n => Ok(lists),
            _ => {
                let key = &entry.key;
                let text = format!("{key} is a list with a text for each of the {n} units");
                let hint = format!("write {key}: [\"WORD WORD\", \"\"]: the words of each unit");
                Err(self.describe(entry, text, Some(&hint)))
            }
        }
    }

    fn devices(&self, entry: &Entry, lists: Vec<Vec<String>>) -> Result<Vec<Vec<String>>, Problem> {
        if lists.iter().map(Vec::len).sum::<usize>() > DEVICES_MAX {
            let text = format!("units of a host have at most {DEVICES_MAX} device nodes");
            return Err(self.describe(entry, text, None));
        }
        match lists.iter().flatten().find(|word| !is_device(word)) {
            None => Ok(lists),
            Some(bad) => {
                let text = format!("{bad:.40?} is not a device");
                let hint = "write a path, /dev/nvidia0, or numbers, 195:0 (b8:16 of a disk)";
                Err(self.describe(entry, text, Some(hint)))
            }
        }
    }

    fn processes(&self, entry: &Entry, lists: Vec<Vec<String>>) -> Result<Vec<Vec<u32>>, Problem> {
        let numbers = |words: &Vec<String>| -> Option<Vec<u32>> {
            let each = words.iter().take(PROCESSES_MAX);
            each.map(|word| word.parse().ok().filter(|pid| *pid > 0))
                .collect()
        };
        let all: Option<Vec<Vec<u32>>> = lists.iter().map(numbers).collect();
        all.ok_or_else(|| self.describe(entry, "a process is a number above 0", None))
    }

    fn used(
        &self,
        entry: &Entry,
        lists: Vec<Vec<String>>,
    ) -> Result<Vec<Vec<ProcessUse>>, Problem> {
        let each = |words: &Vec<String>| -> Result<Vec<ProcessUse>, ()> {
            let each = words.iter().take(PROCESSES_MAX);
            each.map(|word| word.parse()).collect()
        };
        let all: Result<Vec<Vec<ProcessUse>>, ()> = lists.iter().map(each).collect();
        all.map_err(|()| {
            let text = "the use of a process is PID:PERCENT:MB, with - for unknown values";
            self.describe(entry, text, None)
        })
    }
}

/// A path below `/dev`, or numbers.
fn is_device(word: &str) -> bool {
    let path = word.starts_with("/dev/") && word.len() <= PATH_MAX && !word.contains("/../");
    path || word.parse::<DeviceNode>().is_ok()
}

/// The names of the units that a value lists or counts.
pub(in crate::sensors) fn names_of(value: &str) -> Vec<String> {
    match units::split(value) {
        Some(names) => names.into_iter().map(str::to_owned).collect(),
        None => {
            let n = value.parse::<f64>().map_or(0, units::count);
            (0..n).map(|at| at.to_string()).collect()
        }
    }
}
