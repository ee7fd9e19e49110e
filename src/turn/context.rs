//! The context of one turn. Events are applied as they arise, so that later steps see earlier ones.

use super::core::Core;
use super::ready::Ready;
use crate::model::{Mono, Stamp};
use crate::record::event::Event;

/// See the file's head.
pub(super) struct Turn<'a> {
    pub core: &'a mut Core,
    /// The time by the wall clock, or by most hosts' clocks where the leader's differs: for what
    /// people read and write as a time of day.
    pub now: Stamp,
    /// The monotonic clock: for every interval.
    pub mono: Mono,
    pub out: Ready,
    /// Units at which the present request's slice of this turn ends.
    pub slice_end: u64,
}

impl Turn<'_> {
    /// Applies an event and keeps it for the journal.
    pub(crate) fn emit(&mut self, mut event: Event) {
        // What is over on several hosts is over for all of them.
        let over = match &event {
            Event::Ended { e, .. } => self.part_end_orders(e.a),
            Event::Unbound { a, .. } => self.part_end_orders(*a),
            _ => Vec::new(),
        };
        if let Event::Ended { e, .. } = &mut event {
            self.note_share_use(e.a.j.id);
            if e.parts.is_empty() {
                e.parts = self.parts_heard(e.a);
            }
            self.core.memory.part_usage.end(e.a);
        }
        self.core.state.apply(&event);
        self.out.events.push(event);
        self.out.orders.extend(over);
    }

    /// Counts work that a request makes.
    pub(crate) fn spend(&mut self, units: u64) {
        self.out.units += units;
    }

    /// The present request's slice of this turn is not used up.
    pub(crate) fn in_slice(&self) -> bool {
        self.out.units < self.slice_end
    }
}
