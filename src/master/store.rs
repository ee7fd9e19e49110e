//! The stored state of the leader: the journal, snapshots, content submitted with jobs; and the
//! removal of what is no longer needed.

use super::accounting::Accounts;
use super::blobs::Blobs;
use super::janitor::Janitor;
use super::snapshots::Snapshots;
use crate::journal::{Keep, Position, Writer};
use crate::record::event::Event;
use crate::spool::Layout;
use crate::state::State;

/// See the top of this file.
pub(super) struct Store {
    pub journal: Writer,
    pub snapshots: Snapshots,
    pub accounts: Accounts,
    pub blobs: Blobs,
    pub janitor: Janitor,
}

impl Store {
    pub(super) fn new(
        layout: &Layout,
        journal: Writer,
        snapshots: Snapshots,
        accounts: Accounts,
    ) -> Store {
        Store {
            journal,
            snapshots,
            accounts,
            blobs: Blobs::new(layout),
            janitor: Janitor::start(layout),
        }
    }

    /// Has snapshots written; after each, what no job refers to is removed. `at`: up to where the
    /// journal led to this state. `keep`: what stays of the journal and of older snapshots.
    pub(super) fn tend(&mut self, state: &State, at: Position, now: u64, keep: Keep) {
        let may_begin = self.accounts.is_clean();
        if self.snapshots.step(state, at, now, (keep, may_begin)) {
            let live = state.blobs().into_iter().map(str::to_owned).collect();
            // What was stored long ago may go now: the next job with it stores it again.
            self.blobs.forget();
            self.janitor.sweep(live);
        }
    }

    /// Writes what accounting has; all of it before a snapshot. True when its alarm came or went.
    pub(super) fn account(&mut self, at: Position, now: u64) -> bool {
        let must = self.snapshots.is_wanted(now);
        self.accounts.tend(at, now, must)
    }

    /// Removes what jobs had that are forgotten with these events.
    pub(super) fn clean(&self, events: &[Event]) {
        for event in events {
            if let Event::Cleaned { ids, .. } = event {
                self.janitor.forget(ids.clone());
            }
        }
    }
}
