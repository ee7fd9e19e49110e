//! `gpu_check`: processes on units that do not belong to their job. Finds the job of each process
//! that the sensor saw on a unit, and reports which jobs use units of others.
//!
//! A process of a job descends from the shepherd of the job or of a command that claunch started.
//! The environment of a process is not trusted, because it could be used to end another user's job.
//! Kills nothing itself: a sample ends a job that is to be killed.

use super::device_sample::{is_same_process, owner};
use super::exec::Exec;
use super::known_units::WrongUnit;
use super::sample::Snapshot;
use super::unit_names::OwnUnits;
use crate::model::AttemptId;
use crate::sys::proc;

impl Exec {
    /// Current violations of `gpu_check`; each is logged once and is in the host's note.
    pub(super) fn wrong_units(&mut self, snapshot: &Snapshot) -> Vec<WrongUnit> {
        let processes = self.processes_on_units(snapshot);
        let (mut wrong, mut sentences) = (Vec::new(), Vec::new());
        for (unit, pid, owner) in processes {
            match owner.and_then(|a| Some((a, self.own_units(a)?))) {
                Some((_, own)) if own.has(&unit) => {}
                Some((a, own)) if !own.check.is_off() => {
                    sentences.push(format!(
                        "process {pid} of job {} uses {unit}, which the job does not have",
                        a.j
                    ));
                    wrong.push(WrongUnit { a, unit, pid });
                }
                _ => sentences.extend(self.foreign_process(&unit, pid, owner)),
            }
        }
        let before = std::mem::take(&mut self.starter.units.problems);
        for sentence in sentences {
            if !before.contains(&sentence) {
                tracing::warn!("{sentence}");
            }
            self.starter.units.problems.insert(sentence);
        }
        wrong
    }

    /// Units that an attempt has here, or its part if another host runs its command.
    fn own_units(&self, a: AttemptId) -> Option<OwnUnits<'_>> {
        let entry = self.table.get(a).map(|e| e.given.own_units());
        entry.or_else(|| self.parts.units_of(a))
    }

    /// A sentence about a process that belongs to no job with `gpu_check`, if the job that has the
    /// unit is checked.
    fn foreign_process(&self, unit: &str, pid: u32, owner: Option<AttemptId>) -> Option<String> {
        let live = self
            .table
            .live_attempts()
            .map(|(a, e)| (a, e.given.own_units()));
        let mut all = live.chain(self.parts.all_units());
        let wants = |own: OwnUnits<'_>| !own.check.is_off() && own.has(unit);
        let (a, _) = all.find(|(_, own)| wants(*own))?;
        let whose = owner.map_or("of no job".to_owned(), |a| format!("of job {}", a.j));
        Some(format!(
            "process {pid} {whose} uses {unit}, which is assigned to job {}",
            a.j
        ))
    }

    /// Processes on units, with the attempts to which they belong.
    fn processes_on_units(&self, snapshot: &Snapshot) -> Vec<(String, u32, Option<AttemptId>)> {
        if self.starter.units.boot() != proc::boot_id() {
            return Vec::new();
        }
        let shepherds = self.shepherds();
        let mut out = Vec::new();
        for (res, units) in &self.starter.units.units {
            for unit in units {
                for pid in &unit.processes {
                    let process = i32::try_from(*pid);
                    if process.is_ok_and(|process| is_same_process(snapshot, process, unit)) {
                        let owner = owner(snapshot, &shepherds, (*pid, unit));
                        out.push((format!("{res} {}", unit.name), *pid, owner));
                    }
                }
            }
        }
        out
    }
}
