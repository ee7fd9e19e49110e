//! Floor 3: the state that a journal makes. What recovery reads, snapshot records and events, goes
//! into a [`State`]: for a leader, for simulations, and for whoever looks at a share from outside.
//! Decides nothing and reads nothing by itself.

use crate::journal::{Position, Restore};
use crate::record::event::Event;
use crate::state::{SnapRecord, State};

/// Collects what recovery reads.
#[derive(Default)]
pub struct Loader {
    pub state: State,
}

impl Restore for Loader {
    fn reset(&mut self) {
        self.state = State::new();
    }

    fn record(&mut self, json: &[u8]) -> Result<(), String> {
        self.state.restore(SnapRecord::decode(json)?);
        Ok(())
    }

    fn event(&mut self, _at: Position, event: Event) -> Result<(), String> {
        self.state.apply(&event);
        Ok(())
    }
}
