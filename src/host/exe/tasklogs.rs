//! Following the tasks logs: several files, each appended to by shepherds of one spawner.
//!
//! The files are local, so a read at the known offset is cheap and sees everything written.

use crate::host::local::Local;
use crate::sys::append::Appender;
use crate::sys::{self, fs};
use crate::task::log::{TaskRec, decode_tasks};
use std::collections::BTreeMap;

const CHUNK: usize = 8 << 20;

#[derive(Debug, Default)]
struct Tail {
    offset: u64,
    /// Read up to here, synced up to there.
    synced: u64,
    /// Lines were not understood.
    damaged: bool,
}

/// The logs and how far each was read.
#[derive(Debug)]
pub struct TaskLogs {
    local: Local,
    tails: BTreeMap<u64, Tail>,
}

impl TaskLogs {
    /// Follows every log that exists.
    pub fn new(local: &Local) -> TaskLogs {
        let names = fs::list_dir(local.dir(), 1_000_000).unwrap_or_default();
        let numbers = names
            .iter()
            .filter_map(|e| Local::parse_tasks_name(e.text()?));
        let tails = numbers.map(|n| (n, Tail::default())).collect();
        TaskLogs {
            local: local.clone(),
            tails,
        }
    }

    /// Follows log `n` too.
    pub fn add(&mut self, n: u64) {
        self.tails.entry(n).or_default();
    }

    /// The logs' numbers.
    pub fn numbers(&self) -> Vec<u64> {
        self.tails.keys().copied().collect()
    }

    /// Reads what is new, with the log's number.
    ///
    /// # Errors
    /// When a local file cannot be read.
    pub fn read(&mut self) -> sys::Result<Vec<(u64, TaskRec)>> {
        let mut out = Vec::new();
        for (n, tail) in &mut self.tails {
            let path = self.local.tasks(*n);
            loop {
                let chunk = match fs::read_from(&path, tail.offset, CHUNK) {
                    Err(e) if e.is_not_found() => break,
                    other => other?,
                };
                let lines = decode_tasks(&chunk.bytes);
                for (at, why) in &lines.bad {
                    let at = tail.offset + *at as u64;
                    tracing::error!("{} at byte {at}: {why}", path.display());
                }
                tail.damaged |= !lines.bad.is_empty();
                tail.offset += lines.used as u64;
                out.extend(lines.recs.into_iter().map(|r| (*n, r)));
                if lines.used == 0 || chunk.bytes.len() < CHUNK {
                    break;
                }
            }
        }
        Ok(out)
    }

    /// Makes everything read so far durable: before an end is reported.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(&mut self) -> sys::Result<()> {
        for (n, tail) in &mut self.tails {
            if tail.synced < tail.offset {
                Appender::open_existing(&self.local.tasks(*n))?.sync_all()?;
                tail.synced = tail.offset;
            }
        }
        Ok(())
    }

    /// True when log `n` is there and everything in it was understood: what is not on it did not
    /// happen.
    pub fn is_whole(&self, n: u64) -> bool {
        self.tails.get(&n).is_some_and(|t| !t.damaged)
    }

    /// The length read of log `n`.
    pub fn len_of(&self, n: u64) -> u64 {
        self.tails.get(&n).map_or(0, |t| t.offset)
    }

    /// Removes logs that `keep` refuses.
    pub fn remove_unless(&mut self, keep: impl Fn(u64) -> bool) {
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
    use crate::task::log::encode_task;

    #[test]
    fn new_records_of_all_logs_are_read_once() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let rec = |id| TaskRec::Susp {
            a: AttemptId {
                j: JobKey::job(id),
                at: 1,
            },
            on: true,
            t: 0,
        };
        let append = |n, id| {
            let mut f = SharedAppender::open(&local.tasks(n)).unwrap();
            f.append(&encode_task(&rec(id)).unwrap()).unwrap();
        };
        append(1, 1);
        let mut logs = TaskLogs::new(&local);
        logs.add(2);
        assert_eq!(logs.read().unwrap(), [(1, rec(1))]);
        append(2, 2);
        append(1, 3);
        assert_eq!(logs.read().unwrap(), [(1, rec(3)), (2, rec(2))]);
        logs.sync().unwrap();
        logs.remove_unless(|n| n == 2);
        assert!(!fs::exists(&local.tasks(1)) && logs.numbers() == [2]);
        assert!(logs.is_whole(2) && !logs.is_whole(1));
        let mut f = SharedAppender::open(&local.tasks(2)).unwrap();
        f.append(b"- {not a record} #0 1 00000000\n").unwrap();
        assert!(logs.read().unwrap().is_empty() && !logs.is_whole(2));
    }
}
