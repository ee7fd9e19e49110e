//! The current spawner and earlier ones: messages to it, the logs that its shepherds write, and the
//! tasks that wait to be sent to it. A spawner that fails is given up and its tasks continue. Never
//! decides what is started.

use super::spawn::{SpawnMode, Spawner, SpawnerEvent};
use super::tasklogs::TaskLogs;
use crate::host::local::Local;
use crate::model::AttemptId;
use crate::sys::{fs, thread};
use crate::task::spec::{FromSpawner, TaskSpec, ToSpawner, UnenforcedLimits};
use crossbeam::channel::Receiver;

/// How long a new spawner may take to be ready, ms.
const READY_MS: u64 = 90_000;
/// Size of a tasks log at which the next one is begun.
const LOG_BYTES: u64 = 64 << 20;

/// The spawners of this executor.
pub(super) struct Spawners {
    mode: SpawnMode,
    current: Option<Spawner>,
    /// Earlier spawners, which end when their tasks have started.
    retired: Vec<Spawner>,
    pub logs: TaskLogs,
    /// Recorded tasks that wait for the rest of the current orders: a later order may cancel them.
    pub deferred: Vec<TaskSpec>,
    /// A tasks log could not be read when a spawner became ready: the state of its tasks is open.
    pub unrecovered: bool,
    /// Shepherds that ended while the tasks log with their records could not be read.
    pub died: Vec<(AttemptId, i32)>,
    note: String,
    unheld: UnenforcedLimits,
}

/// The note for administrators on the control groups that a spawner found; empty: none needed.
pub(super) fn note(cgroups: String, unheld: UnenforcedLimits) -> String {
    let unenforced = match (unheld.memory, unheld.procs) {
        _ if cgroups.starts_with("no cgroups") => return cgroups,
        (true, true) => "memory and processes",
        (true, false) => "memory",
        (false, true) => "processes",
        (false, false) => return String::new(),
    };
    format!("{cgroups} cannot limit {unenforced}: samples of usage do")
}

impl Spawners {
    /// Without a running spawner.
    pub(super) fn new(mode: SpawnMode, logs: TaskLogs) -> Spawners {
        Spawners {
            mode,
            current: None,
            retired: Vec::new(),
            logs,
            deferred: Vec::new(),
            unrecovered: false,
            died: Vec::new(),
            note: String::new(),
            unheld: UnenforcedLimits::default(),
        }
    }

    pub(super) fn is_simulated(&self) -> bool {
        self.mode.replacement.is_some()
    }

    /// Whether a spawner accepts messages.
    pub(super) fn is_ready(&self) -> bool {
        self.current.is_some()
    }

    /// The tasks log of the current spawner.
    pub(super) fn log(&self) -> Option<u64> {
        self.current.as_ref().map(|s| s.log)
    }

    /// The note for administrators about the control groups on this host; may be empty.
    pub(super) fn note(&self) -> &str {
        &self.note
    }

    /// Limits that samples must enforce even for tasks in control groups: also for tasks of earlier
    /// spawners, since the machine is the same.
    pub(super) fn unenforced_limits(&self) -> UnenforcedLimits {
        self.unheld
    }

    /// The channel with the messages of the current spawner.
    pub(super) fn channel(&self) -> Option<&Receiver<SpawnerEvent>> {
        self.current.as_ref().map(|s| &s.received)
    }

    /// The next message of the current spawner.
    pub(super) fn next_event(&self) -> Option<SpawnerEvent> {
        self.channel()?.try_recv().ok()
    }

    /// Starts a spawner with tasks log `log` and uses it. Tasks that waited for the previous one
    /// are dropped: they are recovered as never started.
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
        self.deferred.clear();
        Ok(())
    }

    fn begin(
        &self,
        local: &Local,
        log: u64,
    ) -> Result<(Spawner, String, UnenforcedLimits), String> {
        // Created here, so that this process can read it if only the spawner runs as root.
        fs::ensure_file(&local.tasks(log), 0o600).map_err(|e| e.to_string())?;
        let spawner = Spawner::start(&self.mode, local, log)?;
        match thread::recv_timeout(&spawner.received, READY_MS) {
            Ok(SpawnerEvent::Message(FromSpawner::Ready {
                cgroups, unheld, ..
            })) => Ok((spawner, cgroups, unheld)),
            other => {
                let program = self.mode.program.display().to_string();
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

    /// Adds a message for the next `flush`.
    ///
    /// # Errors
    /// There is no spawner, or the message is too large.
    pub(super) fn push(&mut self, message: &ToSpawner) -> Result<(), String> {
        match self.current.as_mut() {
            Some(s) => s.push(message),
            None => Err("no spawner".to_owned()),
        }
    }

    /// As [`Spawners::push`], but does nothing without a spawner.
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

    /// Retires the current spawner if its log is full. Returns true if another one is to be
    /// started.
    pub(super) fn retire_full(&mut self) -> bool {
        self.retired.retain_mut(|s| !s.has_ended());
        let full =
            |s: &mut Spawner| self.deferred.is_empty() && self.logs.len_of(s.log) > LOG_BYTES;
        let Some(mut old) = self.current.take_if(full) else {
            return false;
        };
        old.retire();
        self.retired.push(old);
        true
    }

    /// Removes the logs of earlier spawners, if no task needs them.
    pub(super) fn remove_old_logs(&mut self) {
        if self.retired.is_empty() {
            let present = self.log().unwrap_or(0);
            self.logs.remove_unless(|n| n == present);
        }
    }
}

#[cfg(test)]
impl Spawners {
    /// From now on commands are followed as with real spawners.
    pub(super) fn follow_real_commands(&mut self) {
        self.mode.replacement = None;
    }
}
