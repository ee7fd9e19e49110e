//! Handles commands that jobs have started on this host by `claunch`: finds them, stops and resumes
//! them with their job, and counts their usage. Their shepherds record in files what is running
//! (`host::command_records`), so a restart loses nothing. Starts nothing.

use super::commands::Command;
use super::cpus;
use super::exec::{Exec, deliver};
use super::known_units::{WrongUnit, reason_to_end, wrong_unit_sentences_on};
use super::recovery;
use super::sample::{self, Snapshot};
use super::table::{PendingAction, Shepherd};
use crate::host::command_records::{self, RecordName};
use crate::model::{AttemptId, CpuSet, TermReason};
use crate::record::report::{Report, Usage};
use crate::task::log::TaskRec;
use crate::task::spec::{TaskAct, ToSpawner};

impl Exec {
    /// Reads what shepherds of commands have written since the last look.
    pub(super) fn follow_commands(&mut self) {
        if self.spawners.is_simulated() {
            return;
        }
        let local = self.setup.local.clone();
        let mut over = Vec::new();
        for record_name in command_records::list(&local) {
            let RecordName { a, pid, .. } = record_name;
            if !record_name.ended && self.parts.commands.contains(a, pid) {
                continue;
            }
            match record_name.read(&local) {
                Some(TaskRec::Start {
                    born: started_ms,
                    boot,
                    group,
                    t,
                    cpus,
                    ..
                }) => {
                    let log = 0;
                    let shepherd = Shepherd {
                        pid,
                        started_ms,
                        boot,
                        group,
                        t,
                        log,
                    };
                    self.command_began(a, Command { shepherd, cpus });
                }
                end => {
                    if let Some(TaskRec::End(end)) = end {
                        let host = &self.setup.site.host;
                        self.parts.commands.note_end((a, pid), &end, host);
                        over.push(a);
                    }
                    command_records::remove(&local, a, pid);
                }
            }
        }
        over.dedup();
        for a in over {
            self.command_ended(a);
        }
    }

    pub(super) fn command_began(&mut self, a: AttemptId, command: Command) {
        // The command was requested before the job was stopped.
        if self.parts.launches.is_stopped(a) {
            deliver(&command.shepherd, TaskAct::Stop, TermReason::None, 0);
        }
        if self.parts.launches.has_other_limits(a) {
            deliver(&command.shepherd, TaskAct::Limits, TermReason::None, 0);
        }
        self.parts.commands.note_begin(a, command);
    }

    fn command_ended(&mut self, a: AttemptId) {
        if !self.parts.launches.has(a) {
            if !self.parts.late_parts.has(a) {
                self.parts.commands.forget(a);
            }
        } else if !self.parts.commands.has(a) || self.parts.commands.limited(a).is_some() {
            // The job may end soon, and its end includes only usage that was reported before.
            self.sample_part(a, &Snapshot::default(), &[]);
        }
    }

    /// Stops or resumes the commands that a job started here.
    pub(super) fn signal_commands(&mut self, a: AttemptId, p: PendingAction, mark: u32) {
        let stop = match p.act {
            TaskAct::Stop => true,
            TaskAct::Resume => false,
            _ => return,
        };
        if self.parts.launches.suspend(a, stop, (p.number, mark)) {
            for command in self.parts.commands.of(a) {
                deliver(&command.shepherd, p.act, TermReason::None, 0);
            }
        }
    }

    /// Adds the usage of the commands that an attempt has started here, and the use of GPUs and of
    /// the network by the whole attempt.
    pub(super) fn add_command_usage(&self, a: AttemptId, usage: &mut Usage, snapshot: &Snapshot) {
        let tasks = self.parts.launches.has_tasks(a);
        self.parts.commands.add_to(a, usage, snapshot, tasks);
        usage.devices = usage.devices().plus(self.samples.devices.of(a)).boxed();
    }

    /// Samples the parts of attempts, and forgets commands whose shepherds have died.
    pub(super) fn sample_parts(&mut self, snapshot: &Snapshot, wrong: &[WrongUnit]) {
        let ended = self.parts.commands.select(recovery::has_ended);
        for ((a, pid), group) in ended {
            self.parts.commands.remove_lost(a, pid);
            command_records::remove(&self.setup.local, a, pid);
            // Processes of the job itself match every other criterion by which they could be found.
            let env = Vec::new();
            self.spawners.send(&ToSpawner::Reap { a, group, env });
            self.spawners.flush();
        }
        for a in self.parts.launches.parts() {
            self.sample_part(a, snapshot, wrong);
        }
    }

    fn sample_part(&mut self, a: AttemptId, snapshot: &Snapshot, wrong: &[WrongUnit]) {
        let mut now = Usage::default();
        self.add_command_usage(a, &mut now, snapshot);
        now.wrong_units = wrong_unit_sentences_on(&self.setup.site.host, wrong, a);
        let idle = !self.parts.commands.has(a);
        let Some((old, run)) = self.parts.launches.part_usage(a) else {
            return;
        };
        let u = sample::merge(old, now);
        if sample::differs(old, &u) || (idle && *old != u) {
            *old = u.clone();
            self.reports
                .push_unlisted(&Report::PartUsage { a, u: u.clone() }, run);
        }
        if let Some(reason) = self.part_exceeds(a, &u) {
            for command in self.parts.commands.of(a) {
                deliver(&command.shepherd, TaskAct::Terminate, reason, 0);
            }
        }
    }

    /// The reason to end everything that a part runs, if there is one.
    fn part_exceeds(&self, a: AttemptId, u: &Usage) -> Option<TermReason> {
        // Each command has a control group with the whole limit; their sum must not exceed it.
        let memory = self.parts.launches.memory_of(a);
        if memory.is_some_and(|most| u.mem_kb << 10 > most) {
            return Some(TermReason::MemLimit);
        }
        let units = self.parts.units_of(a)?;
        reason_to_end(units.check, u)
    }

    /// All processors that are held by attempts of the table, parts and commands.
    pub(super) fn cpus_in_use(&self) -> CpuSet {
        let mut cpus_in_use = cpus::cpus_in_use(&self.table);
        cpus_in_use.extend(&self.parts.launches.cpus());
        cpus_in_use.extend(&self.parts.commands.cpus(None));
        cpus_in_use
    }
}
