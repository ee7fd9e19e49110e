//! No two attempts of this host run with the same unit, nor with parts of one that are more than
//! the whole, whatever the leader believes: a run that is over for the leader may still be here
//! (`ckill -r`, a share restored from a copy). A start whose units are not free waits for the end
//! of the attempts that have them.

use super::exec::Exec;
use crate::model::WHOLE_UNIT;
use crate::record::order::TaskUnits;
use crate::task::spec::TaskSpec;
use std::collections::{BTreeMap, BTreeSet};

/// Units as attempts are compared by: `gpu 0`, or a part in thousandths, `gpu 0 250`.
pub(super) fn names_of(units: &TaskUnits) -> Vec<String> {
    let mut out = Vec::new();
    for units in &units.list {
        for unit in units.held() {
            let name = unit.name;
            out.push(match unit.part {
                WHOLE_UNIT.. => format!("{} {name}", units.res),
                part => format!("{} {name} {part}", units.res),
            });
        }
    }
    out
}

/// Resource and name of a unit, and thousandths of it. Neither has a blank.
fn read(unit: &str) -> (&str, &str, u32) {
    let mut words = unit.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (res, name, part) = (word(), word(), word());
    (res, name, part.parse().unwrap_or(WHOLE_UNIT))
}

/// Thousandths of units that are in use, by resource and name.
#[derive(Default)]
struct InUse<'a>(BTreeMap<(&'a str, &'a str), u32>);

impl<'a> InUse<'a> {
    fn add(&mut self, units: &'a [String]) {
        for (res, name, part) in units.iter().map(|unit| read(unit)) {
            let sum = self.0.entry((res, name)).or_default();
            *sum = sum.saturating_add(part);
        }
    }

    /// Nothing else has too much of one of these.
    fn leaves(&self, wanted: &[String]) -> bool {
        let mut all: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for (res, name, part) in wanted.iter().map(|unit| read(unit)) {
            *all.entry((res, name)).or_default() += part;
        }
        all.iter().all(|(unit, part)| {
            let used = self.0.get(unit).copied().unwrap_or(0);
            used == 0 || used.saturating_add(*part) <= WHOLE_UNIT
        })
    }
}

impl Exec {
    /// Takes the tasks out of those held that may start now.
    pub(super) fn take_ready(&mut self) -> Vec<TaskSpec> {
        let held = std::mem::take(&mut self.spawners.held);
        let units = |task: &TaskSpec| self.table.get(task.a).map_or(&[][..], |e| &e.given.units);
        if held.iter().all(|task| units(task).is_empty()) {
            return held;
        }
        let waiting: BTreeSet<_> = held.iter().map(|task| task.a).collect();
        let mut used = InUse::default();
        let live = self.table.live().filter(|(a, _)| !waiting.contains(a));
        live.for_each(|(_, e)| used.add(&e.given.units));
        let (mut ready, mut wait) = (Vec::new(), Vec::new());
        for task in held {
            let wanted = self.table.get(task.a).map_or(&[][..], |e| &e.given.units);
            match used.leaves(wanted) {
                false => wait.push(task),
                true => {
                    used.add(wanted);
                    ready.push(task);
                }
            }
        }
        self.spawners.held = wait;
        ready
    }
}
