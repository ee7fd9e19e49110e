//! The stored state of the leader: the journal, snapshots, content submitted with jobs; and the
//! removal of what is no longer needed.

use super::accounting::Accounts;
use super::blobs::Blobs;
use super::janitor::Janitor;
use super::snapshots::Snapshots;
use crate::journal::{Position, Retention, Writer};
use crate::record::event::Event;
use crate::spool::Layout;
use crate::state::State;

/// See the head of this file.
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

    /// Has snapshots written; after each, removes the data to which no job refers. `at`: the
    /// position of the journal that led to this state. `keep`: what is kept of the journal and of
    /// older snapshots.
    pub(super) fn maintain(&mut self, state: &State, at: Position, now: u64, keep: Retention) {
        let may_begin = self.accounts.is_clean();
        if self.snapshots.step(state, at, now, (keep, may_begin)) {
            let live = state.blobs().into_iter().map(str::to_owned).collect();
            // Blobs that were stored long ago may be removed now: the next job that needs one
            // stores it again.
            self.blobs.forget();
            self.janitor.request_sweep(live);
        }
    }

    /// Writes accounting records; all of them before a snapshot. Returns true if its alarm was
    /// raised or cleared.
    pub(super) fn account(&mut self, at: Position, now: u64) -> bool {
        let must = self.snapshots.must_begin(now);
        self.accounts.write_due(at, now, must)
    }

    /// Removes the data of jobs that are forgotten with these events.
    pub(super) fn clean(&self, events: &[Event]) {
        for event in events {
            if let Event::Cleaned { ids, .. } = event {
                self.janitor.forget(ids.clone());
            }
        }
    }
}
