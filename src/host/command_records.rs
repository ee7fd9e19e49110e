//! The files in which a host records the commands that jobs start there by `claunch`: one file for
//! each command, written by its shepherd, and another one when the command has ended. Owns their
//! names and content. Decides nothing.

use super::local::Local;
use crate::model::{AttemptId, JobKey};
use crate::record::sealed;
use crate::sys::{Result, clock, fs};
use crate::task::log::TaskRec;
use std::path::PathBuf;

/// Maximum size of such a file in bytes, and maximum number of files that one look reads.
const RECORD_MAX: u64 = 64 << 10;
const COMMANDS_MAX: usize = 10_000;
/// Maximum time for which a shepherd waits until the end of its command was read, and pause between
/// two looks (ms).
const READ_MS: u64 = 2_000;
const READ_POLL_MS: u64 = 5;
/// Suffix of the file name if the command has ended.
const END_SUFFIX: &str = "end";

/// The name of one of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordName {
    pub a: AttemptId,
    /// Process id of the shepherd.
    pub pid: i32,
    /// The command has ended.
    pub ended: bool,
}

impl RecordName {
    fn name(self) -> String {
        let AttemptId { j, at } = self.a;
        let begin = format!("{}.{}.{at}.{}", j.id, j.idx, self.pid);
        match self.ended {
            true => format!("{begin}.{END_SUFFIX}"),
            false => begin,
        }
    }

    fn parse(name: &str) -> Option<RecordName> {
        let words: Vec<&str> = name.split('.').collect();
        let ([id, idx, at, pid] | [id, idx, at, pid, END_SUFFIX]) = words[..] else {
            return None;
        };
        let j = JobKey {
            id: id.parse().ok()?,
            idx: idx.parse().ok()?,
        };
        Some(RecordName {
            a: AttemptId {
                j,
                at: at.parse().ok()?,
            },
            pid: pid.parse().ok().filter(|pid| *pid > 1)?,
            ended: words.len() > 4,
        })
    }

    fn path(self, local: &Local) -> PathBuf {
        local.command_records().join(self.name())
    }

    /// The content; `None`: the file cannot be read.
    pub(super) fn read(self, local: &Local) -> Option<TaskRec> {
        let bytes = fs::read_small(&self.path(local), RECORD_MAX).ok()?;
        sealed::from_json(&bytes).ok().map(|(record, _)| record)
    }
}

/// Creates the directory of the files.
///
/// # Errors
/// The local directory cannot be written.
pub(super) fn prepare(local: &Local) -> Result<()> {
    fs::mkdir_p(&local.command_records(), 0o711)
}

/// Writes a record of the shepherd with this process id.
///
/// # Errors
/// The local directory cannot be written.
pub(super) fn write(local: &Local, pid: i32, rec: &TaskRec) -> Result<()> {
    let ended = match rec {
        TaskRec::Start { .. } => false,
        TaskRec::End(_) => true,
        // The process that ordered a suspension knows of it; the state of a command is not saved.
        TaskRec::Susp { .. } | TaskRec::Saved { .. } | TaskRec::Hook { .. } => return Ok(()),
    };
    let a = rec.attempt();
    let bytes = sealed::to_json(rec).expect("plain data becomes JSON");
    // `cbexe` may run under another account than the shepherd.
    fs::publish_mode(&RecordName { a, pid, ended }.path(local), &bytes, 0o644)
}

/// Waits until the end of a command was read and reported, but not for ever.
pub(super) fn wait_until_read(local: &Local, a: AttemptId, pid: i32) {
    let ended = true;
    let path = RecordName { a, pid, ended }.path(local);
    let begin = clock::boot_ms();
    while fs::exists(&path) && clock::boot_ms().saturating_sub(begin) < READ_MS {
        clock::sleep_ms(READ_POLL_MS);
    }
}

/// Lists all files.
pub(super) fn list(local: &Local) -> Vec<RecordName> {
    let names = fs::list_dir(&local.command_records(), COMMANDS_MAX).unwrap_or_default();
    let record_names = names
        .iter()
        .filter_map(|entry| RecordName::parse(entry.text()?));
    record_names.collect()
}

/// Removes the files of a command.
pub(super) fn remove(local: &Local, a: AttemptId, pid: i32) {
    for ended in [false, true] {
        let _ = fs::remove(&RecordName { a, pid, ended }.path(local));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::report::Ended;

    #[test]
    fn a_command_is_known_from_its_start_until_its_end_was_read() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        prepare(&local).unwrap();
        let a = AttemptId {
            j: JobKey::element(7, 3),
            at: 2,
        };
        let start = TaskRec::Start {
            a,
            pid: 99,
            born: 5,
            boot: "b".into(),
            group: "g".into(),
            t: 1,
            cpus: Default::default(),
        };
        write(&local, 99, &start).unwrap();
        let susp = TaskRec::Susp { a, on: true, t: 1 };
        write(&local, 99, &susp).unwrap();
        fs::publish(&local.command_records().join("7.3.2.x"), b"").unwrap();
        let running = RecordName {
            a,
            pid: 99,
            ended: false,
        };
        assert_eq!(list(&local), [running]);
        assert_eq!(running.read(&local), Some(start));
        let end = TaskRec::End(Box::new(Ended {
            a,
            ..Ended::default()
        }));
        write(&local, 99, &end).unwrap();
        let over = RecordName {
            ended: true,
            ..running
        };
        assert_eq!(list(&local), [running, over]);
        assert_eq!(over.read(&local), Some(end));
        remove(&local, a, 99);
        assert_eq!(list(&local), []);
    }
}
