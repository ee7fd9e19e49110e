//! The host's local directory: names of its files. What must be remembered while the share is away
//! lies here, and never on the share.

use std::path::{Path, PathBuf};

/// Paths below one host's local directory.
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

    /// The directory itself, given as such.
    pub fn at(dir: &Path) -> Local {
        Local {
            dir: dir.to_path_buf(),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What this host handed out, was told to cancel, and concluded.
    pub fn attempts(&self) -> PathBuf {
        self.dir.join("attempts.log")
    }

    /// What shepherds started and saw ending; `n` grows with every spawner.
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

    /// Rung by shepherds that have written to their log.
    pub fn bell(&self) -> PathBuf {
        self.dir.join("bell")
    }

    /// Held by a spawner, and by its shepherds until their start is on record.
    pub fn spawner_lock(&self) -> PathBuf {
        self.dir.join("spawner.lock")
    }

    /// Held by `cbexe`: one per host.
    pub fn exe_lock(&self) -> PathBuf {
        self.dir.join("cbexe.lock")
    }

    /// Held by `cbls`: one per host.
    pub fn ls_lock(&self) -> PathBuf {
        self.dir.join("cbls.lock")
    }

    /// Boot-time ms of `cbexe`'s last turn, as text.
    pub fn exe_beat(&self) -> PathBuf {
        self.dir.join("cbexe.beat")
    }

    /// Boot-time ms before `cbls`'s last successful write to the share, as text.
    pub fn ls_beat(&self) -> PathBuf {
        self.dir.join("cbls.beat")
    }

    /// Local copies of scripts and spooled inputs.
    pub fn scratch(&self) -> PathBuf {
        self.dir.join("scratch")
    }
}
