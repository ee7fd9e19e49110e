//! No two attempts of this host run with the same unit, whatever the leader believes: a run that is
//! over for the leader may still be here (`ckill -r`, a share restored from a copy). A start whose
//! units are not free waits for the end of the attempts that have them.

use super::exec::Exec;
use crate::record::order::TaskUnits;
use crate::task::spec::TaskSpec;
use std::collections::BTreeSet;

/// Units as attempts are compared by: `gpu 0`.
pub(super) fn names_of(units: &TaskUnits) -> Vec<String> {
    let each = units.list.iter();
    let each = each.flat_map(|units| units.names.iter().map(|name| (&units.res, name)));
    each.map(|(res, name)| format!("{res} {name}")).collect()
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
        let live = self.table.live().filter(|(a, _)| !waiting.contains(a));
        let mut used: BTreeSet<String> = live.flat_map(|(_, e)| e.given.units.clone()).collect();
        let (mut ready, mut wait) = (Vec::new(), Vec::new());
        for task in held {
            let wanted = self.table.get(task.a).map_or(&[][..], |e| &e.given.units);
            match wanted.iter().any(|unit| used.contains(unit)) {
                true => wait.push(task),
                false => {
                    used.extend(wanted.iter().cloned());
                    ready.push(task);
                }
            }
        }
        self.spawners.held = wait;
        ready
    }
}
