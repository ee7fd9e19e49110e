//! The watchdog against a host that is cut off: it kills rerunnable tasks before the leader starts
//! them elsewhere. It accesses no file of the share, so nothing can block it.
//!
//! Each shepherd of a rerunnable task watches its own task in the same way, because this process
//! may have ended, or may be blocked by the kernel in a write to the share. This watchdog handles
//! tasks whose shepherds do not. Running tasks are read from the local logs at that moment, because
//! the executor's thread may hang in the share.

use super::ledger;
use super::tasklogs::TaskLogs;
use crate::host::local::Local;
use crate::host::silence::Silence;
use crate::model::{AttemptId, TermReason};
use crate::sys::{clock, proc, supervise, thread};
use crate::task::log::TaskRec;
use crate::task::spec::{TaskAct, pack_act};
use std::collections::HashMap;

/// Longest pause between two looks, ms.
const POLL_MS: u64 = 1_000;
/// The pause is at least this many times as long as the look took.
const REST: u64 = 10;

/// What the watchdog reads: files of the local directory.
#[derive(Debug)]
pub(super) struct Fence {
    local: Local,
    silence: Silence,
}

impl Fence {
    fn new(local: &Local) -> Fence {
        Fence {
            local: local.clone(),
            silence: Silence::new(local),
        }
    }

    /// One look: kills tasks that must not continue.
    fn check(&mut self) {
        if !self.silence.exceeded_limit() {
            return;
        }
        let killed = self.end_all();
        if killed > 0 {
            tracing::error!("cut off from the share: {killed} rerunnable tasks are killed");
        }
    }

    fn end_all(&self) -> usize {
        let order = pack_act(TaskAct::Kill, TermReason::Fenced, 0);
        let kill = |(pid, started_ms): &(i32, u64)| {
            !proc::has_ended(*pid, *started_ms)
                && supervise::send_order(*pid, order).unwrap_or(false)
        };
        self.rerunnable().iter().filter(|t| kill(t)).count()
    }

    /// Shepherds of rerunnable tasks that were started here and have no recorded end: process id
    /// and start time.
    fn rerunnable(&self) -> Vec<(i32, u64)> {
        let known = ledger::read(&self.local).unwrap_or_else(|e| {
            tracing::error!("{e}");
            ledger::LedgerContents::default()
        });
        let mut running: HashMap<AttemptId, (i32, u64)> = HashMap::new();
        let records = TaskLogs::new(&self.local).map(|mut logs| logs.read());
        for (_, task) in records.unwrap_or_else(|e| {
            tracing::error!("{e}");
            Vec::new()
        }) {
            match task.rec {
                TaskRec::Start {
                    a,
                    pid,
                    born: started_ms,
                    boot,
                    ..
                } if boot == proc::boot_id() => {
                    running.insert(a, (pid, started_ms));
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

/// Kills all rerunnable tasks of this host. Returns their number.
pub(super) fn end_all(local: &Local) -> usize {
    Fence::new(local).end_all()
}

/// Starts the watchdog's thread.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn watch(local: &Local) -> Result<(), String> {
    let mut fence = Fence::new(local);
    let body = move || {
        let mut pause = POLL_MS;
        loop {
            clock::sleep_ms(pause);
            let began = clock::boot_ms();
            fence.check();
            let rest = REST * (clock::boot_ms() - began);
            pause = POLL_MS.min(fence.silence.pause()).max(rest);
        }
    };
    thread::spawn("fence", 256 << 10, body)
        .map(drop)
        .map_err(|e| format!("cannot start the watchdog: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::first_attempt as attempt;
    use crate::sys::append::Appender;
    use crate::task::log::{AttemptRec, encode_task};

    #[test]
    fn what_runs_and_may_run_again_is_found_in_the_local_logs_alone() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        let empty = ledger::read(&local).unwrap();
        let identity = ledger::LedgerIdentity::default();
        let share = Default::default();
        let l = ledger::Ledger::create(&local, "c", identity, &empty.table, &share);
        let mut l = l.unwrap();
        for (id, r) in [(1, true), (2, false), (3, true), (4, true)] {
            let (e, p, b) = (1, 1, String::new());
            l.push(&AttemptRec::Given {
                a: attempt(id),
                e,
                p,
                l: 1,
                r,
                b,
                m: 0,
                f: 0,
                c: None,
                u: Vec::new(),
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
                cpus: Default::default(),
            };
            log.append(&encode_task(&start, 0).unwrap()).unwrap();
        }
        let end = crate::task::ending::unknown(attempt(3), TermReason::None, "");
        log.append(&encode_task(&TaskRec::End(Box::new(end)), 0).unwrap())
            .unwrap();
        assert_eq!(Fence::new(&local).rerunnable(), [(1, 7)]);
    }
}
