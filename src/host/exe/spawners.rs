//! The spawner in use and those before it: messages to it, the logs that its shepherds write, and
//! the tasks that wait to be given to it.
//! A spawner that fails is given up and its tasks continue. Never decides what is started.

use super::spawn::{How, Spawner, SpawnerEvent};
use super::tasklogs::TaskLogs;
use crate::host::local::Local;
use crate::model::AttemptId;
use crate::sys::{fs, thread};
use crate::task::spec::{FromSpawner, TaskSpec, ToSpawner, Unheld};
use crossbeam::channel::Receiver;

/// How long a new spawner may take to be ready, ms.
const READY_MS: u64 = 90_000;
/// Size of a tasks log at which the next one is begun.
const LOG_BYTES: u64 = 64 << 20;

/// The spawners of this executor.
pub(super) struct Spawners {
    how: How,
    current: Option<Spawner>,
    /// They end when their tasks have started.
    retired: Vec<Spawner>,
    pub logs: TaskLogs,
    /// Tasks on record that wait for the rest of the orders at hand: a later one may cancel them.
    pub held: Vec<TaskSpec>,
    /// A tasks log could not be read when a spawner was ready: what was on it is not settled.
    pub unrecovered: bool,
    /// Shepherds that ended while the tasks log with their records could not be read.
    pub died: Vec<(AttemptId, i32)>,
    note: String,
    unheld: Unheld,
}

/// The note for administrators on the control groups that a spawner found; empty: none needed.
pub(super) fn note(cgroups: String, unheld: Unheld) -> String {
    let lacks = match (unheld.memory, unheld.procs) {
        _ if cgroups.starts_with("no cgroups") => return cgroups,
        (true, true) => "memory and processes",
        (true, false) => "memory",
        (false, true) => "processes",
        (false, false) => return String::new(),
    };
    format!("{cgroups} cannot limit {lacks}: samples of usage do")
}

impl Spawners {
    /// None runs yet.
    pub(super) fn new(how: How, logs: TaskLogs) -> Spawners {
        Spawners {
            how,
            current: None,
            retired: Vec::new(),
            logs,
            held: Vec::new(),
            unrecovered: false,
            died: Vec::new(),
            note: String::new(),
            unheld: Unheld::default(),
        }
    }

    pub(super) fn is_simulated(&self) -> bool {
        self.how.stand.is_some()
    }

    /// A spawner takes messages.
    pub(super) fn is_ready(&self) -> bool {
        self.current.is_some()
    }

    /// The log of the present spawner's tasks.
    pub(super) fn log(&self) -> Option<u64> {
        self.current.as_ref().map(|s| s.log)
    }

    /// What administrators should know of the control groups here; may be empty.
    pub(super) fn note(&self) -> &str {
        &self.note
    }

    /// Limits that samples must hold even of tasks in control groups: of tasks of earlier spawners
    /// too, since the machine is the same.
    pub(super) fn unheld(&self) -> Unheld {
        self.unheld
    }

    /// Where the present spawner's messages come.
    pub(super) fn channel(&self) -> Option<&Receiver<SpawnerEvent>> {
        self.current.as_ref().map(|s| &s.heard)
    }

    /// The next message of the present spawner.
    pub(super) fn hear(&self) -> Option<SpawnerEvent> {
        self.channel()?.try_recv().ok()
    }

    /// Starts a spawner with tasks log `log` and puts it to use. What was held for the last one is
    /// dropped: it is recovered as never started.
    ///
    /// # Errors
    /// It did not become ready.
    pub(super) fn start(&mut self, local: &Local, log: u64) -> Result<(), String> {
        let (spawner, cgroups, unheld) = self.begin(local, log)?;
        tracing::info!("spawner {} ready: {cgroups}", spawner.pid());
        self.note = note(cgroups, unheld);
        self.unheld = unheld;
        self.current = Some(spawner);
        self.logs.add(log);
        self.held.clear();
        Ok(())
    }

    fn begin(&self, local: &Local, log: u64) -> Result<(Spawner, String, Unheld), String> {
        // Made here, so that this process may read it when the spawner is root and this is not.
        fs::ensure_file(&local.tasks(log), 0o600).map_err(|e| e.to_string())?;
        let spawner = Spawner::start(&self.how, local, log)?;
        match thread::recv_timeout(&spawner.heard, READY_MS) {
            Ok(SpawnerEvent::Message(FromSpawner::Ready {
                cgroups, unheld, ..
            })) => Ok((spawner, cgroups, unheld)),
            other => {
                let program = self.how.program.display().to_string();
                spawner.give_up();
                Err(format!(
                    "{program} --spawner did not become ready: {other:?}"
                ))
            }
        }
    }

    pub(super) fn give_up(&mut self) {
        if let Some(s) = self.current.take() {
            s.give_up();
        }
    }

    /// Adds a message to those that `flush` sends.
    ///
    /// # Errors
    /// There is no spawner, or the message is too large.
    pub(super) fn push(&mut self, message: &ToSpawner) -> Result<(), String> {
        match self.current.as_mut() {
            Some(s) => s.push(message),
            None => Err("no spawner".to_owned()),
        }
    }

    /// As [`Spawners::push`]: without a spawner nothing is done.
    pub(super) fn send(&mut self, message: &ToSpawner) {
        if self.is_ready()
            && let Err(e) = self.push(message)
        {
            tracing::error!("{e}");
        }
    }

    pub(super) fn flush(&mut self) {
        if let Some(Err(e)) = self.current.as_mut().map(Spawner::flush) {
            tracing::error!("{e}");
            self.give_up();
        }
    }

    /// Retires the present spawner when its log is full; true: another one is to be started.
    pub(super) fn retire_full(&mut self) -> bool {
        self.retired.retain_mut(|s| !s.has_ended());
        let full = |s: &mut Spawner| self.held.is_empty() && self.logs.len_of(s.log) > LOG_BYTES;
        let Some(mut old) = self.current.take_if(full) else {
            return false;
        };
        old.retire();
        self.retired.push(old);
        true
    }

    /// Removes the logs of earlier spawners; only where no task needs them.
    pub(super) fn remove_old_logs(&mut self) {
        if self.retired.is_empty() {
            let present = self.log().unwrap_or(0);
            self.logs.remove_unless(|n| n == present);
        }
    }
}
