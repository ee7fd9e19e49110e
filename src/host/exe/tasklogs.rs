//! Follows the tasks logs: several files, each appended to by the shepherds of one spawner.
//!
//! The files are local, so reading from the known offset is cheap and sees everything written.

use crate::host::local::Local;
use crate::sys::append::Appender;
use crate::sys::{self, fs};
use crate::task::log::{MarkedTask, decode_tasks};
use std::collections::BTreeMap;
use std::path::Path;

const CHUNK: usize = 8 << 20;

#[derive(Debug, Default)]
struct Tail {
    offset: u64,
    /// The offset up to which the file is synced; `offset` is the one up to which it is read.
    synced: u64,
    /// Lines were not understood.
    damaged: bool,
    /// Why the last reading did not reach the end; empty if it did.
    fails: String,
    missing: bool,
}

impl Tail {
    fn read(&mut self, path: &Path, mut take: impl FnMut(MarkedTask)) -> sys::Result<()> {
        loop {
            let chunk = match fs::read_from(path, self.offset, CHUNK) {
                Ok(chunk) => chunk,
                // The file is permanently lost with its content.
                Err(e) if e.is_not_found() => {
                    self.missing = true;
                    self.damaged |= self.offset > 0;
                    return Ok(());
                }
                Err(e) => return Err(e),
            };
            self.missing = false;
            let lines = decode_tasks(&chunk.bytes);
            for (at, why) in &lines.bad {
                let at = self.offset + *at as u64;
                tracing::error!("{} at byte {at}: {why}", path.display());
            }
            self.damaged |= !lines.bad.is_empty();
            self.offset += lines.end as u64;
            lines.recs.into_iter().for_each(&mut take);
            if lines.end == 0 || chunk.bytes.len() < CHUNK {
                return Ok(());
            }
        }
    }
}

/// The logs and how far each was read.
#[derive(Debug)]
pub(super) struct TaskLogs {
    local: Local,
    tails: BTreeMap<u64, Tail>,
}

impl TaskLogs {
    /// Follows every existing log.
    ///
    /// # Errors
    /// The local directory cannot be listed, so the content of its logs is unknown.
    pub(super) fn new(local: &Local) -> sys::Result<TaskLogs> {
        let names = fs::list_dir(local.dir(), 1_000_000)?;
        let numbers = names
            .iter()
            .filter_map(|e| Local::parse_tasks_name(e.text()?));
        let tails = numbers.map(|n| (n, Tail::default())).collect();
        Ok(TaskLogs {
            local: local.clone(),
            tails,
        })
    }

    /// Follows log `n` too.
    pub(super) fn add(&mut self, n: u64) {
        self.tails.entry(n).or_default();
    }

    /// The logs' numbers.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.tails.keys().copied().collect()
    }

    /// Reads new records, with the log's number. A log that cannot be read is logged and
    /// remembered: see `fails`; the others are read nevertheless.
    pub(super) fn read(&mut self) -> Vec<(u64, MarkedTask)> {
        let mut out = Vec::new();
        for (n, tail) in &mut self.tails {
            let read = tail.read(&self.local.tasks(*n), |rec| out.push((*n, rec)));
            let fails = read.map_or_else(|e| e.to_string(), |()| String::new());
            if !fails.is_empty() && fails != tail.fails {
                tracing::error!("{fails}; a task without a record may have started");
            }
            tail.fails = fails;
        }
        out
    }

    /// Makes everything read so far durable, before an end is reported.
    ///
    /// # Errors
    /// The disk reports an error.
    pub(super) fn sync(&mut self) -> sys::Result<()> {
        for (n, tail) in &mut self.tails {
            if tail.synced < tail.offset {
                Appender::open_existing(&self.local.tasks(*n))?.sync_all()?;
                tail.synced = tail.offset;
            }
        }
        Ok(())
    }

    /// Whether log `n` exists and everything in it was understood: what it does not contain did not
    /// happen.
    pub(super) fn is_complete(&self, n: u64) -> bool {
        let whole = |t: &Tail| !t.damaged && !t.missing && t.fails.is_empty();
        self.tails.get(&n).is_some_and(whole)
    }

    /// Whether the last reading of log `n` failed: what it does not contain may still have
    /// happened.
    pub(super) fn fails(&self, n: u64) -> bool {
        self.tails.get(&n).is_some_and(|t| !t.fails.is_empty())
    }

    /// Whether the last reading of any log failed.
    pub(super) fn any_fails(&self) -> bool {
        self.tails.values().any(|t| !t.fails.is_empty())
    }

    /// The offset up to which log `n` was read.
    pub(super) fn len_of(&self, n: u64) -> u64 {
        self.tails.get(&n).map_or(0, |t| t.offset)
    }

    /// Removes the logs for which `keep` is false.
    pub(super) fn remove_unless(&mut self, keep: impl Fn(u64) -> bool) {
        let local = &self.local;
        self.tails
            .retain(|n, _| keep(*n) || fs::remove(&local.tasks(*n)).is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AttemptId, JobKey};
    use crate::sys::append::SharedAppender;
    use crate::task::log::{TaskRec, encode_task};

    #[test]
    fn new_records_of_all_logs_are_read_once() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let rec = |id| {
            let j = JobKey::job(id);
            let a = AttemptId { j, at: 1 };
            let rec = TaskRec::Susp { a, on: true, t: 0 };
            MarkedTask { rec, mark: 7 }
        };
        let append = |n, id| {
            let mut f = SharedAppender::open(&local.tasks(n)).unwrap();
            f.append(&encode_task(&rec(id).rec, 7).unwrap()).unwrap();
        };
        append(1, 1);
        let mut logs = TaskLogs::new(&local).unwrap();
        logs.add(2);
        assert_eq!(logs.read(), [(1, rec(1))]);
        append(2, 2);
        append(1, 3);
        assert_eq!(logs.read(), [(1, rec(3)), (2, rec(2))]);
        logs.sync().unwrap();
        logs.remove_unless(|n| n == 2);
        assert!(!fs::exists(&local.tasks(1)) && logs.numbers() == [2]);
        assert!(logs.is_complete(2) && !logs.is_complete(1));
        let mut f = SharedAppender::open(&local.tasks(2)).unwrap();
        f.append(b"- {not a record} #0 1 00000000\n").unwrap();
        assert!(logs.read().is_empty() && !logs.is_complete(2));
    }
    #[test]
    fn a_log_that_cannot_be_read_hides_no_other_and_says_nothing_of_what_is_not_on_it() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        assert!(TaskLogs::new(&Local::at(&d.path().join("none"))).is_err());
        // A directory can be opened but not read.
        fs::mkdir(&local.tasks(1), 0o755).unwrap();
        let a = AttemptId {
            j: JobKey::job(2),
            at: 1,
        };
        let rec = TaskRec::Susp { a, on: true, t: 0 };
        let mut f = SharedAppender::open(&local.tasks(2)).unwrap();
        f.append(&encode_task(&rec, 0).unwrap()).unwrap();
        let mut logs = TaskLogs::new(&local).unwrap();
        assert_eq!(logs.read(), [(2, MarkedTask { rec, mark: 0 })]);
        assert!(logs.fails(1) && logs.any_fails() && !logs.is_complete(1));
        assert!(logs.is_complete(2) && !logs.fails(2));
        fs::remove_dir(&local.tasks(1)).unwrap();
        assert!(logs.read().is_empty() && !logs.is_complete(1) && !logs.any_fails());
        SharedAppender::open(&local.tasks(1)).unwrap();
        assert!(logs.read().is_empty() && logs.is_complete(1) && !logs.any_fails());
        // A log that was read and is gone may have contained more.
        fs::remove(&local.tasks(2)).unwrap();
        assert!(logs.read().is_empty() && !logs.is_complete(2) && !logs.any_fails());
        // Another file with its name does not contain it either.
        SharedAppender::open(&local.tasks(2)).unwrap();
        assert!(logs.read().is_empty() && !logs.is_complete(2));
    }
}
