//! The tasks of all simulated hosts, the next actions of their shepherds, and the spawners that
//! `cbexe` knows. Owns the tables and the effect of an order to a shepherd; the shepherds' actions
//! are in `shepherds`.

use super::kernel::{Kernel, MS, ThreadId};
use super::own_units::OwnUnit;
use crate::host::exe::spawn::SpawnerEvent;
use crate::model::{AttemptId, CheckpointAct, TermReason};
use crate::task::spec::{FromSpawner, TaskAct, TaskSpec, unpack_act};
use crossbeam::channel::Sender;
use std::collections::BTreeMap;

/// An attempt and its mark: before and after a restore of the share, two runs may have the same
/// name.
pub(super) type RunKey = (AttemptId, u32);

/// A task that was started.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub a: AttemptId,
    /// Distinguishes runs with the same name.
    pub mark: u32,
    pub machine: usize,
    pub started_at: u64,
    pub log: u64,
    pub start: i64,
    pub rerunnable: bool,
    /// The number of the last change of its limits that its shepherd took.
    pub limit_changes: u32,
    pub alive: bool,
    /// The exit code with which it will end.
    pub code: i32,
    pub sig: i32,
    pub reason: TermReason,
    /// The planned end that counts.
    pub plan: u64,
    /// When it will end by itself (µs); while it is stopped, how long it still takes.
    pub until: u64,
    pub left: Option<u64>,
}

/// The next action of a shepherd.
#[derive(Clone, Debug)]
pub(super) enum ShepherdAct {
    /// Start a task, and record it in this log.
    Start(Box<TaskSpec>, u64),
    /// End the task with a pid, if this planned end counts.
    End(i32, u64),
    /// Record that it was stopped or continued.
    Susp(i32, bool),
    /// Read the changed limits of a task.
    Limits(i32),
}

/// A spawner as `cbexe` sees it.
pub(super) struct Spawner {
    pub machine: usize,
    pub log: u64,
    pub tx: Sender<SpawnerEvent>,
}

/// All hosts' tasks.
#[derive(Default)]
pub(super) struct Tasks {
    pub table: BTreeMap<i32, Task>,
    /// Units that tasks found in their environment.
    pub units: BTreeMap<i32, Vec<OwnUnit>>,
    pub pending_acts: BTreeMap<(u64, u64), (usize, ShepherdAct)>,
    pub order: u64,
    pub spawners: Vec<Spawner>,
    pub threads: BTreeMap<usize, ThreadId>,
    pub next_pid: i32,
}

impl Tasks {
    pub(super) fn plan(&mut self, kernel: &mut Kernel, machine: usize, at: u64, act: ShepherdAct) {
        self.order += 1;
        self.pending_acts.insert((at, self.order), (machine, act));
        if let Some(thread) = self.threads.get(&machine) {
            kernel.wake(*thread, at.min(self.next_at(machine).unwrap_or(at)));
        }
    }

    pub(super) fn next_at(&self, machine: usize) -> Option<u64> {
        let mut of = self.pending_acts.iter().filter(|(_, (m, _))| *m == machine);
        of.next().map(|((at, _), _)| *at)
    }

    pub(super) fn take_act(&mut self, machine: usize, now: u64) -> Option<ShepherdAct> {
        let mut of = self.pending_acts.iter().filter(|(_, (m, _))| *m == machine);
        let key = of
            .next()
            .map(|(key, _)| *key)
            .filter(|(at, _)| *at <= now)?;
        self.pending_acts.remove(&key).map(|(_, act)| act)
    }

    /// Whether process `pid`, started at `started_at`, is alive on the machine.
    pub(super) fn is_alive(&self, machine: usize, pid: i32, started_at: u64) -> bool {
        self.table.get(&pid).is_some_and(|t| {
            t.machine == machine && t.alive && t.started_at.abs_diff(started_at) < 1500
        })
    }

    /// Attempts whose tasks run on a machine.
    pub(super) fn running_on(&self, machine: usize) -> impl Iterator<Item = RunKey> {
        let on = move |t: &&Task| t.machine == machine && t.alive;
        self.table.values().filter(on).map(|t| (t.a, t.mark))
    }

    /// Number of tasks that run anywhere.
    pub(super) fn running(&self) -> usize {
        self.table.values().filter(|t| t.alive).count()
    }

    /// Sends an order to a shepherd. Returns false if it is gone.
    pub(super) fn order(
        &mut self,
        kernel: &mut Kernel,
        machine: usize,
        pid: i32,
        value: u64,
    ) -> bool {
        let Some((act, reason, _)) = unpack_act(value) else {
            return false;
        };
        let task = self.table.get_mut(&pid);
        let Some(task) = task.filter(|t| t.machine == machine && t.alive) else {
            return false;
        };
        if matches!(act, TaskAct::Terminate | TaskAct::Kill) {
            (task.sig, task.reason) = (9, reason);
            task.plan += 1;
            let plan = task.plan;
            let at = kernel.now + kernel.rng.between(1, 50) * MS;
            self.plan(kernel, machine, at, ShepherdAct::End(pid, plan));
        } else if let TaskAct::Checkpoint(CheckpointAct { migrate: true, .. }) = act {
            // A task that cannot be saved continues to run.
            if task.sig == 0 && task.left.is_none() && kernel.rng.permille(700) {
                (task.sig, task.reason) = (15, TermReason::Migrate);
                task.plan += 1;
                let plan = task.plan;
                let at = kernel.now + kernel.rng.between(1, 500) * MS;
                self.plan(kernel, machine, at, ShepherdAct::End(pid, plan));
            }
        } else if act == TaskAct::Stop && task.left.is_none() && task.sig == 0 {
            task.left = Some(task.until.saturating_sub(kernel.now));
            task.plan += 1;
            self.plan(kernel, machine, kernel.now, ShepherdAct::Susp(pid, true));
        } else if act == TaskAct::Limits {
            self.plan(kernel, machine, kernel.now, ShepherdAct::Limits(pid));
        } else if let (TaskAct::Resume, Some(left)) = (act, task.left) {
            task.left = None;
            task.until = kernel.now + left;
            task.plan += 1;
            let (at, plan) = (task.until, task.plan);
            self.plan(kernel, machine, kernel.now, ShepherdAct::Susp(pid, false));
            self.plan(kernel, machine, at, ShepherdAct::End(pid, plan));
        }
        true
    }

    /// Lets some tasks run for this long (µs) from now.
    pub(super) fn extend_tasks(
        &mut self,
        kernel: &mut Kernel,
        us: u64,
        which: impl Fn(&RunKey) -> bool,
    ) {
        let mut ends = Vec::new();
        for (pid, task) in &mut self.table {
            if task.alive && task.sig == 0 && task.left.is_none() && which(&(task.a, task.mark)) {
                task.plan += 1;
                task.until = kernel.now + us;
                ends.push((task.machine, task.until, ShepherdAct::End(*pid, task.plan)));
            }
        }
        for (machine, at, todo) in ends {
            self.plan(kernel, machine, at, todo);
        }
    }

    /// Kills some shepherd; the task dies with it, unseen.
    pub(super) fn kill_one(&mut self, kernel: &mut Kernel) -> Option<RunKey> {
        let alive: Vec<i32> = self
            .table
            .iter()
            .filter(|(_, t)| t.alive)
            .map(|(pid, _)| *pid)
            .collect();
        let pid = *alive.get(kernel.rng.below(alive.len() as u64) as usize)?;
        let task = self.table.get_mut(&pid)?;
        task.alive = false;
        let (a, log, machine) = (task.a, task.log, task.machine);
        let run = (a, task.mark);
        let spawner = self
            .spawners
            .iter()
            .find(|s| s.machine == machine && s.log == log);
        if let Some(spawner) = spawner {
            let _ = spawner
                .tx
                .send(SpawnerEvent::Message(FromSpawner::Died { a, pid }));
        }
        Some(run)
    }

    /// Notes that everything that ran there is gone.
    pub(super) fn machine_died(&mut self, kernel: &mut Kernel, machine: usize) {
        self.pending_acts.retain(|_, (m, _)| *m != machine);
        self.spawners.retain(|s| s.machine != machine);
        self.threads.remove(&machine);
        for task in self.table.values_mut().filter(|t| t.machine == machine) {
            if task.alive {
                let a = task.a;
                kernel.trace("task", || format!("attempt {a} dies with its machine"));
            }
            task.alive = false;
        }
    }
}
