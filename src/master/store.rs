//! What the leader keeps of the state: the journal, snapshots, what jobs bring along; and what goes
//! when nothing needs it any more.

use super::blobs::Blobs;
use super::janitor::Janitor;
use super::snapshots::Snapshots;
use crate::journal::{Position, Writer};
use crate::record::event::Event;
use crate::spool::Layout;
use crate::state::State;

/// See the top of this file.
pub(super) struct Store {
    pub journal: Writer,
    pub snapshots: Snapshots,
    pub blobs: Blobs,
    pub janitor: Janitor,
}

impl Store {
    pub(super) fn new(layout: &Layout, journal: Writer, snapshots: Snapshots) -> Store {
        Store {
            journal,
            snapshots,
            blobs: Blobs::new(layout),
            janitor: Janitor::start(layout),
        }
    }

    /// Has snapshots written; after each, what no job refers to is removed. `at`: up to where the
    /// journal led to this state. `keep_ms`: how long journals are kept.
    pub(super) fn tend(&mut self, state: &State, at: Position, now: u64, keep_ms: u64) {
        if self.snapshots.step(state, at, now, keep_ms) {
            let live = state.blobs().into_iter().map(str::to_owned).collect();
            // What was stored long ago may go now: the next job with it stores it again.
            self.blobs.forget();
            self.janitor.sweep(live);
        }
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
