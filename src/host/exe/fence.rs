//! The watchdog against a host that is cut off: it kills rerunnable tasks before the leader starts
//! them elsewhere. It touches no file of the share, so nothing can block it.
//!
//! Judged by the local beat of `cbls`, which says when the share was last written.

use crate::host::local::Local;
use crate::host::ls::read_beat;
use crate::model::{AttemptId, TermReason};
use crate::sys::{clock, job, proc, thread};
use crate::task::spec::{TaskAct, pack_act};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Pause between two looks, ms.
const LOOK_MS: u64 = 1_000;

/// What the watchdog shares with the owner of the table.
#[derive(Debug, Default)]
pub struct Fence {
    /// A host silent for this long kills its rerunnable tasks, ms; 0 = never.
    limit_ms: AtomicU64,
    /// Rerunnable tasks that run: shepherd and when it began.
    tasks: Mutex<HashMap<AttemptId, (i32, u64)>>,
}

impl Fence {
    pub fn set_limit(&self, ms: u64) {
        self.limit_ms.store(ms, Ordering::Relaxed);
    }

    pub fn add(&self, a: AttemptId, pid: i32, born: u64) {
        self.lock().insert(a, (pid, born));
    }

    pub fn remove(&self, a: AttemptId) {
        self.lock().remove(&a);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, (i32, u64)>> {
        self.tasks
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// One look: kills what must not live on. Returns how many were told.
    fn look(&self, last_write: u64, now: u64) -> usize {
        let limit = self.limit_ms.load(Ordering::Relaxed);
        if limit == 0 || now.saturating_sub(last_write) <= limit {
            return 0;
        }
        let tasks: Vec<(i32, u64)> = self.lock().values().copied().collect();
        let order = pack_act(TaskAct::Kill, TermReason::Fenced, 0);
        let tell = |(pid, born): &(i32, u64)| {
            proc::began_at(*pid, *born) && job::send_order(*pid, order).unwrap_or(false)
        };
        tasks.iter().filter(|t| tell(t)).count()
    }
}

/// Starts the watchdog's thread. Without a beat on record, silence counts from now on.
pub fn watch(fence: Arc<Fence>, local: Local) -> Result<(), String> {
    let started = clock::boot_ms();
    let body = move || {
        loop {
            clock::sleep_ms(LOOK_MS);
            if fence.limit_ms.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let now = clock::boot_ms();
            // A value above the present is of an earlier boot.
            let beat = read_beat(&local.ls_beat())
                .map(|b| b.0)
                .filter(|at| *at <= now);
            let told = fence.look(beat.unwrap_or(started), now);
            if told > 0 {
                tracing::error!("cut off from the share: {told} rerunnable tasks are killed");
            }
        }
    };
    thread::spawn("fence", 128 << 10, body)
        .map(drop)
        .map_err(|e| format!("cannot start the watchdog: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_killed_before_the_limit_or_without_one() {
        let f = Fence::default();
        // This process is no shepherd of that start: an order would not be sent to it.
        f.add(AttemptId::default(), std::process::id() as i32, 1);
        assert_eq!(f.look(0, 1 << 40), 0);
        f.set_limit(1000);
        assert_eq!(f.look(500, 1500), 0);
        assert_eq!(f.look(500, 1501), 0);
        f.remove(AttemptId::default());
        assert!(f.lock().is_empty());
    }
}
