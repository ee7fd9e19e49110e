//! What wakes the leader besides hints: the order to stop, events on the share; and how long a busy
//! turn waits for more work.

use crate::spool::polling::Budget;
use crate::sys::watch::Watcher;
use crossbeam::channel::Receiver;
use std::path::PathBuf;

/// Number of busy turns per second, and in a burst, that do not wait for more inputs: the requests
/// of a few users are answered at once, and under load each turn still serves many.
const ALONE_PER_S: u64 = 100;
const ALONE_MAX: u64 = 20;

/// See the head of this file.
pub(super) struct Wakeups {
    pub stop: Receiver<i32>,
    watcher: Watcher,
    /// Changes on the share raise hints here (a local file system).
    events: bool,
    /// Budget of busy turns that need not wait for more inputs, for a leader with little to do.
    immediate_turns: Budget,
}

impl Wakeups {
    /// `events`: changes on the share raise events.
    pub(super) fn new(stop: Receiver<i32>, watcher: Watcher, events: bool) -> Wakeups {
        Wakeups {
            stop,
            watcher,
            events,
            immediate_turns: Budget::new(ALONE_PER_S, ALONE_MAX),
        }
    }

    /// Whether changes on the share raise events here.
    pub(super) fn has_events(&self) -> bool {
        self.events
    }

    /// The channel on which they arrive.
    pub(super) fn channel(&self) -> &Receiver<()> {
        self.watcher.hints()
    }

    /// Watches directories that others write into, and whatever replaces one.
    pub(super) fn watch(&mut self, directories: Vec<PathBuf>) {
        if self.events {
            directories.iter().for_each(|dir| {
                self.watcher.add(dir);
            });
        }
    }

    /// Whether a busy turn may run now without waiting for more inputs.
    pub(super) fn may_run_now(&mut self, now: u64) -> bool {
        let may = self.immediate_turns.available(now) > 0;
        if may {
            self.immediate_turns.spend(1);
        }
        may
    }
}
