//! The host's local directory: names of its files. State that must be available while the share is
//! unreachable is stored here, and never on the share.

use crate::model::AttemptId;
use crate::spool::share_files::matches_path;
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

/// A kind of file in the local directory of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalFile {
    Ledger,
    Tasks,
    Bell,
    Lock,
    /// A number that is written again within seconds.
    Position,
    ExeId,
    IsoLimit,
    Units,
    DeviceUse,
    Command,
    Scratch,
    /// The id of the cluster that this host serves.
    Pin,
    LeaderCopy,
    Aside,
}

/// Patterns of paths in that directory, as in [`crate::spool::share_files`].
pub const LOCAL_FILES: &[(LocalFile, &str)] = &[
    (LocalFile::Ledger, "attempts.log"),
    (LocalFile::Tasks, "tasks.N.log"),
    (LocalFile::Bell, "bell"),
    (LocalFile::Lock, "spawner.lock"),
    (LocalFile::Lock, "cbexe.lock"),
    (LocalFile::Lock, "cbls.lock"),
    (LocalFile::Position, "cbexe.beat"),
    (LocalFile::Position, "cbls.beat"),
    (LocalFile::Position, "cbexe.news"),
    (LocalFile::ExeId, "cbexe.id"),
    (LocalFile::IsoLimit, "iso"),
    (LocalFile::IsoLimit, "iso.ordered"),
    (LocalFile::Units, "units.json"),
    (LocalFile::DeviceUse, "use.json"),
    (LocalFile::Command, "beside/*"),
    (LocalFile::Scratch, "scratch/**"),
    (LocalFile::Pin, "cluster"),
    (LocalFile::LeaderCopy, "leader"),
];

/// The kind of a path in that directory; `None`: Corral creates no such file.
pub fn local_file(path: &str) -> Option<LocalFile> {
    if path.rsplit('/').next().is_some_and(|n| n.starts_with('.')) {
        return Some(LocalFile::Aside);
    }
    let found = LOCAL_FILES.iter().find(|(_, p)| matches_path(p, path));
    found.map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;

    #[test]
    fn every_file_of_the_local_directory_has_a_kind() {
        let local = Local::at(Path::new("/l"));
        let j = JobKey::element(7, 3);
        let a = AttemptId { j, at: 1 };
        let files = [
            local.attempts(),
            local.tasks(3),
            local.bell(),
            local.spawner_lock(),
            local.exe_lock(),
            local.ls_lock(),
            local.exe_beat(),
            local.exe_id(),
            local.reports_position(),
            local.ls_beat(),
            local.iso(),
            local.iso_ordered(),
            local.units(),
            local.device_use(),
            local.hosts_file(a),
            local.cpus_file(a),
            local.notice(a),
            local.warning_file(a),
            local.limits_file(a),
            local.part_limits_file(a),
            local.command_records().join("7.3.1.99"),
        ];
        for file in &files {
            let below = file.strip_prefix("/l").unwrap().to_str().unwrap();
            assert!(local_file(below).is_some(), "{below}");
        }
        assert_eq!(local_file("core"), None);
        let own = include_str!("local.rs");
        let heads = own.lines().filter_map(|l| l.trim().strip_prefix("pub fn "));
        for head in heads.filter(|head| head.contains("-> PathBuf")) {
            let name = head.split('(').next().unwrap();
            let known = own.contains(&format!("local.{name}(")) || name == "scratch_dir";
            assert!(known, "{name}");
        }
    }
}
