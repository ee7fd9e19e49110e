//! The checker of units: no two tasks of a host run with the same unit, a job that asks for one
//! runs with one, leaders give none away twice and keep none for what has ended. Judges only.

use super::history::History;
use super::tasks::{Task, Tasks};
use crate::state::State;

/// The variable in which a task finds its units.
const VARIABLE: &str = "CB_ASSIGN_GPU=";
/// What a job asks for that is to have a unit.
pub(super) const REQUEST: &str = "rusage[gpu=1]";

/// Units of each host: fewer than slots, where there are several.
pub(super) fn units_of_host(slots: u32) -> u32 {
    slots.div_ceil(2)
}

/// The units in the environment of a task.
pub(super) fn in_env(env: &[String]) -> Vec<String> {
    let set = env.iter().find_map(|line| line.strip_prefix(VARIABLE));
    let names = set.into_iter().flat_map(|names| names.split(','));
    names.map(str::to_owned).collect()
}

impl History {
    /// What is wrong with the units of a task that starts now.
    pub(super) fn check_units_of(
        &self,
        (task, units): (&Task, &[String]),
        tasks: &Tasks,
        host: &str,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let here = |t: &Task| t.machine == task.machine && t.alive;
        for (pid, other) in tasks.table.iter().filter(|(_, t)| here(t)) {
            let theirs = tasks.units.get(pid).map_or(&[][..], Vec::as_slice);
            let both = units.iter().filter(|unit| theirs.contains(unit));
            let text = |unit: &String| {
                let (a, b) = (task.a, other.a);
                format!("attempt {a} starts on {host} with unit {unit}, attempt {b} has it")
            };
            wrong.extend(both.map(text));
        }
        let name = self.runs.names.get(&(task.a, task.mark));
        let asked = name.is_some_and(|name| self.clients.with_units.contains(name));
        if asked && units.is_empty() {
            wrong.push(format!(
                "attempt {} starts on {host} without a unit",
                task.a
            ));
        }
        wrong
    }

    /// What is wrong with the units that a leader has given away.
    pub(super) fn check_units(&self, epoch: u64, state: &State) -> Vec<String> {
        let mut wrong = Vec::new();
        for (host, _) in state.known_hosts() {
            for (res, held) in state.used().units().on(host) {
                for (unit, by) in held {
                    if by.len() > 1 {
                        wrong.push(format!(
                            "epoch {epoch} gives {res} {unit} of {host} to {by:?}"
                        ));
                    }
                    let started = |j| state.work(j).is_some_and(|work| work.stat.is_started());
                    if !by.iter().all(|j| started(*j)) {
                        wrong.push(format!(
                            "epoch {epoch} keeps {res} {unit} of {host} for nothing"
                        ));
                    }
                }
            }
        }
        wrong
    }
}
