//! The history of share trees in the journal: what ended work counts outlives the leader.
//!
//! Written now and then for queues whose jobs ended since; what ended behind the last word is
//! counted from the jobs themselves by whoever leads next. Counts nothing.

use super::Turn;
use crate::model::Mono;
use crate::record::event::Event;

/// Pause between two records of one queue's history.
const EVERY_MS: u64 = 300_000;

impl Turn<'_> {
    /// Notes that a job ended, whose use counts in its queue's share tree.
    pub(super) fn note_share_use(&mut self, id: u32) {
        let core = &mut *self.core;
        let Some(spec) = core.state.spec_of(id) else {
            return;
        };
        if core.owed.contains(&spec.queue) {
            return;
        }
        let queue = core.config.queue(&spec.queue);
        if queue.is_some_and(|queue| queue.policy.shares().is_some()) {
            if core.owed.is_empty() {
                core.owed_since = self.mono;
            }
            core.owed.insert(spec.queue.clone());
        }
    }

    /// Journals what is owed, when it is time.
    pub(super) fn journal_share_history(&mut self) {
        if self.core.owed.is_empty() || self.mono.since_ms(self.core.owed_since) < EVERY_MS {
            return;
        }
        let core = &mut *self.core;
        core.engine.sync(&mut core.state, &mut core.hosts);
        let owed = std::mem::take(&mut core.owed);
        for (queue, past) in core.engine.histories() {
            if owed.contains(&queue) {
                let t = self.now;
                self.emit(Event::Shares { queue, past, t });
            }
        }
    }
}

impl super::Core {
    /// When history is due in the journal.
    pub fn next_history(&self) -> Option<Mono> {
        (!self.owed.is_empty()).then(|| self.owed_since.plus_ms(EVERY_MS))
    }
}
