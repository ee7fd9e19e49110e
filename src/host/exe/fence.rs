//! The watchdog against a host that is cut off: it kills rerunnable tasks before the leader starts
//! them elsewhere. It touches no file of the share, so nothing can block it.
//!
//! Judged by the local beat of `cbls`, which says when the share was last written. What runs is read
//! from the local logs at that moment: whoever else knows may hang in the share, or, right after a
//! start without the share, nobody does.

use super::ledger;
use super::tasklogs::TaskLogs;
use crate::host::local::Local;
use crate::host::ls::{read_beat, write_beat};
use crate::model::{AttemptId, TermReason};
use crate::sys::{clock, job, proc, thread};
use crate::task::log::TaskRec;
use crate::task::spec::{TaskAct, pack_act};
use std::collections::HashMap;
use std::sync::Arc;

/// Pause between two looks, ms.
const LOOK_MS: u64 = 1_000;
/// The pause is at least this many times as long as the look took.
const REST: u64 = 10;

/// What the watchdog goes by: files of the local directory.
#[derive(Debug)]
pub struct Fence {
    local: Local,
}

impl Fence {
    pub fn new(local: &Local) -> Fence {
        Fence {
            local: local.clone(),
        }
    }

    /// A host silent for this long kills its rerunnable tasks, ms; 0 = never. The last word stays
    /// on record, because the share cannot be asked when it is needed.
    fn limit(&self) -> u64 {
        read_beat(&self.local.iso()).map_or(0, |b| b.0)
    }

    pub fn set_limit(&self, ms: u64) {
        if self.limit() != ms {
            write_beat(&self.local.iso(), &format!("{ms} "));
        }
    }

    /// When the share was last written; `otherwise` without a beat of this boot on record.
    fn last_write(&self, otherwise: u64) -> u64 {
        let now = clock::boot_ms();
        // A value above the present is of an earlier boot.
        let beat = read_beat(&self.local.ls_beat()).map(|b| b.0);
        beat.filter(|at| *at <= now).unwrap_or(otherwise)
    }

    /// One look: kills what must not live on. Returns how many were told.
    pub fn look(&self, started: u64) -> usize {
        let limit = self.limit();
        let now = clock::boot_ms();
        if limit == 0 || now.saturating_sub(self.last_write(started)) <= limit {
            return 0;
        }
        let order = pack_act(TaskAct::Kill, TermReason::Fenced, 0);
        let tell = |(pid, born): &(i32, u64)| {
            proc::began_at(*pid, *born) && job::send_order(*pid, order).unwrap_or(false)
        };
        let told = self.rerunnable().iter().filter(|t| tell(t)).count();
        if told > 0 {
            tracing::error!("cut off from the share: {told} rerunnable tasks are killed");
        }
        told
    }

    /// Shepherds of rerunnable tasks that were started here and have no end on record: process id
    /// and when it began.
    fn rerunnable(&self) -> Vec<(i32, u64)> {
        let known = ledger::read(&self.local).unwrap_or_else(|e| {
            tracing::error!("{e}");
            ledger::Remembered::default()
        });
        let mut running: HashMap<AttemptId, (i32, u64)> = HashMap::new();
        for (_, record) in TaskLogs::new(&self.local).read().unwrap_or_default() {
            match record {
                TaskRec::Start {
                    a, pid, born, boot, ..
                } if boot == proc::boot_id() => {
                    running.insert(a, (pid, born));
                }
                TaskRec::End(end) => drop(running.remove(&end.a)),
                _ => {}
            }
        }
        let rerunnable = |a: AttemptId| known.table.get(a).is_some_and(|e| e.rerunnable);
        running.retain(|a, _| rerunnable(*a));
        running.into_values().collect()
    }
}

/// Starts the watchdog's thread. Without a beat on record, silence counts from now on.
///
/// # Errors
/// The thread cannot be started.
pub fn watch(fence: Arc<Fence>) -> Result<(), String> {
    let started = clock::boot_ms();
    let body = move || {
        let mut pause = LOOK_MS;
        loop {
            clock::sleep_ms(pause);
            let began = clock::boot_ms();
            fence.look(started);
            pause = LOOK_MS.max(REST * (clock::boot_ms() - began));
        }
    };
    thread::spawn("fence", 256 << 10, body)
        .map(drop)
        .map_err(|e| format!("cannot start the watchdog: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;
    use crate::sys::append::Appender;
    use crate::task::log::{AttemptRec, encode_task};

    fn attempt(id: u32) -> AttemptId {
        AttemptId {
            j: JobKey::job(id),
            at: 1,
        }
    }

    #[test]
    fn what_runs_and_may_run_again_is_found_in_the_local_logs_alone() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let empty = ledger::read(&local).unwrap();
        let mut l = ledger::Ledger::create(&local, "c", &empty.table, 0).unwrap();
        for (id, r) in [(1, true), (2, false), (3, true), (4, true)] {
            let (e, p, b) = (1, 1, String::new());
            l.push(&AttemptRec::Given {
                a: attempt(id),
                e,
                p,
                r,
                b,
            });
        }
        l.commit(true).unwrap();
        let mut log = Appender::create_new(&local.tasks(1)).unwrap();
        for (id, boot) in [
            (1, proc::boot_id()),
            (2, proc::boot_id()),
            (3, proc::boot_id()),
            (4, ""),
        ] {
            let start = TaskRec::Start {
                a: attempt(id),
                pid: id as i32,
                born: 7,
                boot: boot.into(),
                group: String::new(),
                t: 1,
            };
            log.append(&encode_task(&start).unwrap()).unwrap();
        }
        let end = crate::task::ending::unknown(attempt(3), TermReason::None, "");
        log.append(&encode_task(&TaskRec::End(Box::new(end))).unwrap())
            .unwrap();
        assert_eq!(Fence::new(&local).rerunnable(), [(1, 7)]);
    }

    #[test]
    fn the_limit_outlives_the_process_and_none_kills_nothing() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let f = Fence::new(&local);
        assert_eq!(f.look(0), 0);
        f.set_limit(20_000);
        let again = Fence::new(&local);
        assert_eq!(again.limit(), 20_000);
        again.set_limit(0);
        assert_eq!(Fence::new(&local).limit(), 0);
    }
}
