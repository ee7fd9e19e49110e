//! What wakes the leader besides hints: the order to stop, events on the share; and how long a busy
//! turn waits for more work.

use crate::spool::polling::Budget;
use crate::sys::watch::Watcher;
use crossbeam::channel::Receiver;
use std::path::PathBuf;

/// So many busy turns a second, and at once, do not wait for more inputs: what a few people ask is
/// answered at once, and under load turns still serve many.
const ALONE_PER_S: u64 = 100;
const ALONE_MAX: u64 = 20;

/// See the top of this file.
pub(super) struct Wakeups {
    pub stop: Receiver<i32>,
    watcher: Watcher,
    /// Events on the share raise hints here (a local file system).
    events: bool,
    /// Busy turns that need not wait for company: of a leader with little to do.
    alone: Budget,
}

impl Wakeups {
    /// `events`: the share raises them.
    pub(super) fn new(stop: Receiver<i32>, watcher: Watcher, events: bool) -> Wakeups {
        Wakeups {
            stop,
            watcher,
            events,
            alone: Budget::new(ALONE_PER_S, ALONE_MAX),
        }
    }

    /// Changes on the share raise events here.
    pub(super) fn has_events(&self) -> bool {
        self.events
    }

    /// Where they come.
    pub(super) fn channel(&self) -> &Receiver<()> {
        self.watcher.hints()
    }

    /// Watches directories that others write into, and what took the place of one.
    pub(super) fn watch(&mut self, directories: Vec<PathBuf>) {
        if self.events {
            directories.iter().for_each(|dir| {
                self.watcher.add(dir);
            });
        }
    }

    /// Whether a busy turn need not wait for company now.
    pub(super) fn may_hurry(&mut self, now: u64) -> bool {
        let may = self.alone.left(now) > 0;
        if may {
            self.alone.spend(1);
        }
        may
    }
}
