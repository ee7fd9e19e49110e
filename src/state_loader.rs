//! Floor 3: builds a [`State`] from the snapshot records and events that recovery reads: for
//! leaders, for simulations, and for commands that check a share. Decides nothing and reads no
//! file.

use crate::journal::{Position, Restore};
use crate::record::acct::AttemptRecord;
use crate::record::event::Event;
use crate::state::{SnapRecord, State};

/// Collects what recovery reads.
#[derive(Default)]
pub struct Loader {
    pub state: State,
    /// The ends of attempts after [`Loader::with_ends_after`], in their order.
    pub ends: Vec<AttemptRecord<'static>>,
    ends_after: Option<Position>,
}

impl Loader {
    /// Collects the ends of attempts after this position, too; the state continues to record them.
    pub fn with_ends_after(at: Position) -> Loader {
        let mut loader = Loader {
            ends_after: Some(at),
            ..Loader::default()
        };
        loader.reset();
        loader
    }
}

impl Restore for Loader {
    fn reset(&mut self) {
        self.state = State::new();
        self.ends.clear();
        if self.ends_after.is_some() {
            self.state.note_ends();
        }
    }

    fn record(&mut self, json: &[u8]) -> Result<(), String> {
        self.state.restore(SnapRecord::decode(json)?);
        Ok(())
    }

    fn event(&mut self, at: Position, event: Event) -> Result<(), String> {
        self.state.apply(&event);
        if let (Some(after), Event::Ended { .. }) = (self.ends_after, &event) {
            let ends = self.state.take_ends();
            if at > after {
                self.ends.extend(ends);
            }
        }
        Ok(())
    }
}
