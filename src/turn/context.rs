//! The context of one turn. Events are applied as they arise, so that later steps see earlier ones.

use super::core::Core;
use super::ready::Ready;
use crate::model::{Mono, Stamp};
use crate::record::event::Event;

/// See the head of this file.
pub(super) struct Turn<'a> {
    pub core: &'a mut Core,
    /// The wall clock time, or that of most hosts' clocks if the leader's clock differs from it:
    /// for times of day that people read and write.
    pub now: Stamp,
    /// The monotonic clock: for every interval.
    pub mono: Mono,
    pub ready: Ready,
    /// Number of units at which the slice of the current request in this turn ends.
    pub slice_end: u64,
}

impl Turn<'_> {
    /// Applies an event and adds it to those for the journal.
    pub(crate) fn emit(&mut self, mut event: Event) {
        // An attempt that is over on several hosts is over for all of them.
        let over = match &event {
            // Its hosts got these orders when the end was reported.
            Event::Ended { e, .. } if self.core.memory.held_ends.contains(e.a) => Vec::new(),
            Event::Ended { e, .. } => self.part_end_orders(e.a),
            Event::Unbound { a, .. } => self.part_end_orders(*a),
            _ => Vec::new(),
        };
        if let Event::Ended { e, .. } = &mut event {
            self.note_share_use(e.a.j.id);
            if e.parts.is_empty() {
                e.parts = self.parts_reported(e.a);
            }
            self.core.memory.part_usage.end(e.a);
        }
        self.core.state.apply(&event);
        self.ready.events.push(event);
        self.ready.orders.extend(over);
    }

    /// Counts work that a request causes.
    pub(crate) fn spend(&mut self, units: u64) {
        self.ready.units += units;
    }

    /// Whether the current request's slice of this turn is not used up.
    pub(crate) fn in_slice(&self) -> bool {
        self.ready.units < self.slice_end
    }
}
