//! The host's local directory: names of its files. State that must be available while the share is
//! unreachable is stored here, and never on the share.

use crate::model::AttemptId;
use std::path::{Path, PathBuf};

/// Paths in the local directory of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    dir: PathBuf,
}

impl Local {
    /// The directory of `host` below `base`: several virtual hosts may share a machine.
    pub fn new(base: &Path, host: &str) -> Local {
        Local {
            dir: base.join(host),
        }
    }

    /// The local directory at this path.
    pub fn at(dir: &Path) -> Local {
        Local {
            dir: dir.to_path_buf(),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The log of attempts that this host started, cancelled and concluded.
    pub fn attempts(&self) -> PathBuf {
        self.dir.join("attempts.log")
    }

    /// The log of tasks that shepherds started and saw ending; `n` increases with every spawner.
    pub fn tasks(&self, n: u64) -> PathBuf {
        self.dir.join(format!("tasks.{n:06}.log"))
    }

    /// The number in a tasks log's name.
    pub fn parse_tasks_name(name: &str) -> Option<u64> {
        name.strip_prefix("tasks.")?
            .strip_suffix(".log")?
            .parse()
            .ok()
    }

    /// A fifo to which shepherds write after they wrote to their log.
    pub fn bell(&self) -> PathBuf {
        self.dir.join("bell")
    }

    /// Locked by a spawner, and by its shepherds until their start is recorded.
    pub fn spawner_lock(&self) -> PathBuf {
        self.dir.join("spawner.lock")
    }

    /// Locked by `cbexe`: one per host.
    pub fn exe_lock(&self) -> PathBuf {
        self.dir.join("cbexe.lock")
    }

    /// Locked by `cbls`: one per host.
    pub fn ls_lock(&self) -> PathBuf {
        self.dir.join("cbls.lock")
    }

    /// Boot-time ms of `cbexe`'s last turn, as text.
    pub fn exe_beat(&self) -> PathBuf {
        self.dir.join("cbexe.beat")
    }

    /// Process id and start ticks of the running `cbexe`, and its ledger, as text.
    pub fn exe_id(&self) -> PathBuf {
        self.dir.join("cbexe.id")
    }

    /// Number and length of the reports file that `cbexe` writes, as text.
    pub fn reports_position(&self) -> PathBuf {
        self.dir.join("cbexe.news")
    }

    /// Boot-time ms just before `cbls`'s last successful write to the share, as text.
    pub fn ls_beat(&self) -> PathBuf {
        self.dir.join("cbls.beat")
    }

    /// `iso_timeout` as in force here and as last reported, ms, as text; written by `cbls`.
    pub fn iso(&self) -> PathBuf {
        self.dir.join("iso")
    }

    /// `iso_timeout` as the leader last ordered it, ms, as text; written by `cbexe`.
    pub fn iso_ordered(&self) -> PathBuf {
        self.dir.join("iso.ordered")
    }

    /// The sensors' information about the units of this host; written by `cbls`.
    pub fn units(&self) -> PathBuf {
        self.dir.join("units.json")
    }

    /// GPU and network usage of running attempts; written by `cbexe`.
    pub fn device_use(&self) -> PathBuf {
        self.dir.join("use.json")
    }

    /// The prefix of the names of an attempt's scratch files.
    pub fn scratch_prefix(a: AttemptId) -> String {
        format!("{}.{}.{}.", a.j.id, a.j.idx, a.at)
    }

    /// The hosts of an attempt, a line for each slot.
    pub fn hosts_file(&self, a: AttemptId) -> PathBuf {
        self.scratch_dir().join(Local::scratch_prefix(a) + "hosts")
    }

    /// The processors of each slot of an attempt that is bound.
    pub fn cpus_file(&self, a: AttemptId) -> PathBuf {
        self.scratch_dir().join(Local::scratch_prefix(a) + "cpus")
    }

    /// The notice of added slots for an attempt's shepherd.
    pub fn notice(&self, a: AttemptId) -> PathBuf {
        self.scratch_dir().join(Local::scratch_prefix(a) + "resize")
    }

    /// The warning for an attempt that it will be preempted, and when.
    pub fn warning_file(&self, a: AttemptId) -> PathBuf {
        self.scratch_dir()
            .join(Local::scratch_prefix(a) + "warning")
    }

    /// The changed limits of an attempt for its shepherd.
    pub fn limits_file(&self, a: AttemptId) -> PathBuf {
        self.scratch_dir().join(Local::scratch_prefix(a) + "limits")
    }

    /// The changed limits of an attempt for the shepherds of the commands that it has started here.
    pub fn part_limits_file(&self, a: AttemptId) -> PathBuf {
        self.scratch_dir()
            .join(Local::scratch_prefix(a) + "part.limits")
    }

    /// The directory with the records of commands that jobs have started here by `claunch`.
    pub fn command_records(&self) -> PathBuf {
        self.dir.join("beside")
    }

    /// Local copies of scripts and spooled inputs.
    pub fn scratch_dir(&self) -> PathBuf {
        self.dir.join("scratch")
    }
}
