//! The history of share trees in the journal: the usage of ended jobs outlives the leader.
//!
//! Written periodically for queues whose jobs ended since; the next leader counts usage after the
//! last record from the jobs themselves. Counts nothing.

use super::context::Turn;
use crate::record::event::Event;

impl Turn<'_> {
    /// Notes that a job ended whose usage counts in the share tree of its queue.
    pub(super) fn note_share_use(&mut self, id: u32) {
        let core = &mut *self.core;
        let Some(spec) = core.state.spec_of(id) else {
            return;
        };
        let history = &mut core.memory.share_history;
        if history.contains(&spec.queue) {
            return;
        }
        let queue = core.config.queue(&spec.queue);
        if queue.is_some_and(|queue| queue.policy.shares().is_some()) {
            history.add(&spec.queue, self.mono);
        }
    }

    /// Writes the history of such queues to the journal when it is time.
    pub(super) fn journal_share_history(&mut self) {
        let core = &mut *self.core;
        let queues = core.memory.share_history.take_due(self.mono);
        if queues.is_empty() {
            return;
        }
        core.engine.sync(&mut core.state, &mut core.hosts);
        for (queue, (t, past)) in core.engine.histories(self.now) {
            if queues.contains(&queue) {
                self.emit(Event::Shares { queue, past, t });
            }
        }
    }
}
