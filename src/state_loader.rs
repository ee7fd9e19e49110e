//! Floor 3: builds a [`State`] of the snapshot records and events that recovery reads: for leaders,
//! for simulations, and for commands that check a share. Decides nothing and reads no file.

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
