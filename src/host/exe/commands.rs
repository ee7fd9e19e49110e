//! The commands that jobs have started on this host by `claunch`, and the usage of commands that
//! have ended. Values only, no files.

use super::sample::{self, Snapshot};
use super::table::Shepherd;
use crate::model::{AttemptId, CpuSet};
use crate::record::report::{CommandEnd, Ended, Usage};
use std::collections::BTreeMap;

/// A running command.
#[derive(Debug)]
pub(super) struct Command {
    pub shepherd: Shepherd,
    pub cpus: CpuSet,
}

/// The running commands of all attempts, by shepherd.
#[derive(Debug, Default)]
pub(super) struct Commands {
    running: BTreeMap<(AttemptId, i32), Command>,
    /// Usage of the commands that have ended.
    usage: BTreeMap<AttemptId, Usage>,
}

impl Commands {
    pub(super) fn of(&self, a: AttemptId) -> impl Iterator<Item = &Command> {
        let all = self.running.range((a, i32::MIN)..=(a, i32::MAX));
        all.map(|(_, command)| command)
    }

    pub(super) fn contains(&self, a: AttemptId, pid: i32) -> bool {
        self.running.contains_key(&(a, pid))
    }

    pub(super) fn note_begin(&mut self, a: AttemptId, command: Command) {
        self.running.insert((a, command.shepherd.pid), command);
    }

    /// The commands for which `holds` is true, with their control groups.
    pub(super) fn select(
        &self,
        holds: impl Fn(&Shepherd) -> bool,
    ) -> Vec<((AttemptId, i32), String)> {
        let all = self.running.iter();
        let found = all.filter(|(_, command)| holds(&command.shepherd));
        found
            .map(|(key, command)| (*key, command.shepherd.group.clone()))
            .collect()
    }

    /// Removes a command whose usage is not known.
    pub(super) fn remove_lost(&mut self, a: AttemptId, pid: i32) {
        self.running.remove(&(a, pid));
    }

    /// Forgets the usage of an attempt that is over.
    pub(super) fn forget(&mut self, a: AttemptId) {
        self.usage.remove(&a);
    }

    /// Whether any command is running, so that new records may appear.
    pub(super) fn any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Whether commands of this attempt are running.
    pub(super) fn has(&self, a: AttemptId) -> bool {
        self.of(a).next().is_some()
    }

    /// The process of each shepherd and its attempt.
    pub(super) fn shepherds(&self) -> impl Iterator<Item = (i32, AttemptId)> {
        self.running.keys().map(|(a, pid)| (*pid, *a))
    }

    /// The control groups of the commands.
    pub(super) fn groups(&self) -> impl Iterator<Item = String> {
        let groups = self.running.values().map(|c| c.shepherd.group.clone());
        groups.filter(|group| !group.is_empty())
    }

    /// The processors to which commands are bound, of one attempt or of all.
    pub(super) fn cpus(&self, of: Option<AttemptId>) -> CpuSet {
        let mut all = CpuSet::default();
        for ((a, _), command) in &self.running {
            if of.is_none_or(|of| of == *a) {
                all.extend(&command.cpus);
            }
        }
        all
    }

    /// A command on this host has ended.
    pub(super) fn note_end(&mut self, (a, pid): (AttemptId, i32), end: &Ended, host: &str) {
        self.running.remove(&(a, pid));
        let used = self.usage.entry(a).or_default();
        if end.reason.ends_job_of_command() {
            used.command_end.get_or_insert_with(|| {
                Box::new(CommandEnd {
                    host: host.to_owned(),
                    reason: end.reason,
                })
            });
        }
        let u = &end.u;
        used.cpu_ms = used.cpu_ms.saturating_add(u.cpu_ms);
        used.read_kb = used.read_kb.saturating_add(u.read_kb);
        used.write_kb = used.write_kb.saturating_add(u.write_kb);
        used.maxmem_kb = used.maxmem_kb.max(u.maxmem_kb);
    }

    /// How a limit ended a command of the attempt, if one did.
    pub(super) fn limited(&self, a: AttemptId) -> Option<Box<CommandEnd>> {
        self.usage.get(&a)?.command_end.clone()
    }

    /// Adds the usage of the running and ended commands of an attempt.
    pub(super) fn add_to(&self, a: AttemptId, usage: &mut Usage, snapshot: &Snapshot, tasks: bool) {
        for command in self.of(a) {
            let mut u = snapshot.usage(command.shepherd.pid, sample::details);
            if tasks {
                u.tasks = snapshot.tasks(command.shepherd.pid, sample::named_task);
            }
            usage.add(&u);
            usage.pids.extend(u.pids);
        }
        usage.pids.truncate(sample::PIDS_MAX);
        if let Some(used) = self.usage.get(&a) {
            usage.add(used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobKey, TermReason};

    fn command(pid: i32, cpus: &[u32]) -> Command {
        Command {
            shepherd: Shepherd {
                pid,
                started_ms: 0,
                boot: String::new(),
                group: format!("g{pid}"),
                t: 0,
                log: 0,
            },
            cpus: cpus.iter().copied().collect(),
        }
    }

    #[test]
    fn what_a_job_started_counts_until_it_is_over_and_afterwards() {
        let a = |id| AttemptId {
            j: JobKey::job(id),
            at: 1,
        };
        let mut all = Commands::default();
        all.running.insert((a(1), 50), command(50, &[0, 1]));
        all.running.insert((a(1), 51), command(51, &[1]));
        all.running.insert((a(2), 60), command(60, &[4]));
        assert_eq!(all.of(a(1)).count(), 2);
        assert_eq!(all.groups().count(), 3);
        let shepherds: Vec<_> = all.shepherds().collect();
        assert_eq!(shepherds, [(50, a(1)), (51, a(1)), (60, a(2))]);
        assert_eq!(all.cpus(Some(a(1))).to_string(), "0-1");
        assert_eq!(all.cpus(None).to_string(), "0-1,4");
        let used = |cpu_ms, maxmem_kb| Usage {
            cpu_ms,
            maxmem_kb,
            procs: 1,
            ..Usage::default()
        };
        let ended = |u, reason| Ended {
            u,
            reason,
            ..Ended::default()
        };
        // The job may handle what a person or the job itself ended.
        all.note_end((a(1), 50), &ended(used(5, 100), TermReason::Owner), "h2");
        assert_eq!(all.limited(a(1)), None);
        all.note_end((a(1), 51), &ended(used(7, 80), TermReason::Oom), "h2");
        let oom = CommandEnd {
            host: "h2".into(),
            reason: TermReason::Oom,
        };
        assert_eq!(all.limited(a(1)), Some(Box::new(oom.clone())));
        assert_eq!(all.of(a(1)).count(), 0);
        let mut sum = used(1, 10);
        all.add_to(a(1), &mut sum, &Snapshot::default(), false);
        assert_eq!((sum.cpu_ms, sum.maxmem_kb, sum.procs), (13, 110, 1));
        assert_eq!(sum.command_end, Some(Box::new(oom)));
    }
}
