//! Checks units: tasks of a host never have more of a unit, or of its memory, together than there
//! is; a job that requests units runs with what it requested; leaders assign no more than exists
//! and keep nothing for ended jobs. Only judges.

use super::history::History;
use super::own_units::OwnUnit;
use super::tasks::{Task, Tasks};
use crate::model::{AttemptId, WHOLE_UNIT};
use crate::state::{State, UnitHolder, UnitInUse};
use std::collections::BTreeMap;

/// What jobs with units request: the requirement, and the resulting thousandths of units and memory
/// (MB).
pub(super) const REQUESTS: [(&str, u32, u64); 3] = [
    ("rusage[gpu=1]", WHOLE_UNIT, 0),
    ("rusage[gpu=0.25:gpu_mem=10G]", 250, 10 << 10),
    ("rusage[gpu=0.6:gpu_mem=16G]", 600, 16 << 10),
];

/// Memory of a unit, in MB.
pub(super) const UNIT_MB: u64 = 32 << 10;

/// Number of units of each host: fewer than slots, if there are several.
pub(super) fn units_of_host(slots: u32) -> u32 {
    slots.div_ceil(2)
}

impl History {
    /// The errors in the units of a task that starts now.
    pub(super) fn check_units_of(
        &self,
        (task, units): (&Task, &[OwnUnit]),
        tasks: &Tasks,
        host: &str,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let is_on_machine = |t: &Task| t.machine == task.machine && t.alive;
        let mut used: BTreeMap<&str, (u32, Vec<AttemptId>)> = BTreeMap::new();
        for (pid, other) in tasks.table.iter().filter(|(_, t)| is_on_machine(t)) {
            for unit in tasks.units.get(pid).into_iter().flatten() {
                let (part, by) = used.entry(&unit.name).or_default();
                *part += unit.part;
                by.push(other.a);
            }
        }
        for unit in units {
            let Some((part, by)) = used.get(unit.name.as_str()) else {
                continue;
            };
            if part + unit.part > WHOLE_UNIT {
                let (a, name, own) = (task.a, &unit.name, unit.part);
                wrong.push(format!(
                    "attempt {a} starts on {host} with {own}/1000 of unit {name}, of which {by:?} \
                     have {part}/1000"
                ));
            }
        }
        let name = self.runs.names.get(&(task.a, task.mark));
        let request_number = name.and_then(|name| self.clients.with_units.get(name));
        if let Some((request, part, mb)) = request_number.map(|n| REQUESTS[*n]) {
            let has = units
                .iter()
                .map(|unit| (unit.part, unit.mb))
                .collect::<Vec<_>>();
            if has != [(part, mb)] {
                wrong.push(format!(
                    "attempt {} starts on {host} with {units:?} instead of {request}",
                    task.a
                ));
            }
        }
        wrong
    }

    /// The errors in the units that a leader has assigned.
    pub(super) fn check_units(&self, epoch: u64, state: &State) -> Vec<String> {
        let mut wrong = Vec::new();
        for (host, _) in state.known_hosts() {
            for UnitInUse { res, name, holders } in state.units_on(host) {
                wrong.extend(excess(holders).map(|what| {
                    format!("epoch {epoch} assigns {what} of {res} {name} of {host} to {holders:?}")
                }));
                let started = |j| state.work(j).is_some_and(|work| work.stat.is_started());
                if !holders.iter().all(|of| started(of.j)) {
                    wrong.push(format!(
                        "epoch {epoch} keeps {res} {name} of {host} assigned to no job"
                    ));
                }
            }
        }
        wrong
    }
}

/// What the holders of a unit have too much of.
fn excess(by: &[UnitHolder]) -> Option<&'static str> {
    let parts: u64 = by.iter().map(|of| u64::from(of.part)).sum();
    let memory = by.iter().flat_map(|of| &of.amounts);
    let memory = memory.filter(|(name, _)| name == "gpu_mem");
    let memory: i64 = memory.map(|(_, milli)| *milli).sum();
    if parts > u64::from(WHOLE_UNIT) {
        return Some("more than the whole");
    }
    (memory > UNIT_MB as i64 * 1000).then_some("more memory than it has")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;

    #[test]
    fn more_than_there_is_of_a_unit_is_seen() {
        let has = |part: u32, mb: i64| UnitHolder {
            j: JobKey::job(1),
            part,
            amounts: vec![("gpu_mem".into(), mb * 1000)],
        };
        let full = UNIT_MB as i64;
        assert_eq!(excess(&[has(600, full / 2), has(400, full / 2)]), None);
        assert!(excess(&[has(600, 0), has(401, 0)]).is_some());
        assert!(excess(&[has(100, full), has(100, 1)]).is_some());
    }
}
