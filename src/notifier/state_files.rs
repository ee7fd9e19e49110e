//! The documents of the notifier: one pair for each epoch, written by the notifier of its leader.
//!
//! A notifier that has been replaced without noticing it writes documents that no other process
//! reads.

use crate::record::notices::{AlertsDoc, DOC_MAX, NotifierState};
use crate::record::sealed;
use crate::spool::Layout;
use crate::sys::{Result, fs};

/// Maximum number of names that are read, and number of epochs whose documents are kept.
const NAMES_MAX: usize = 10_000;
const EPOCHS_KEPT: usize = 3;
/// Interval at which the position in the journal is saved if nothing else changed (ms).
const SEEN_MS: u64 = 30_000;

pub(super) struct StateFiles {
    layout: Layout,
    epoch: u64,
    /// The state saved last, without the position in the journal; that position; when it was saved
    /// (boot clock, ms).
    saved: Option<NotifierState>,
    seen: (u64, u64, u64),
    saved_at: u64,
}

impl StateFiles {
    pub(super) fn open(layout: &Layout, epoch: u64) -> Result<StateFiles> {
        fs::mkdir_p(&layout.notices(), 0o755)?;
        Ok(StateFiles {
            layout: layout.clone(),
            epoch,
            saved: None,
            seen: (0, 0, 0),
            saved_at: 0,
        })
    }

    /// The newest readable state, and the problems of newer ones. Removes old ones.
    pub(super) fn take_over(&self) -> (NotifierState, Vec<String>) {
        let mut notes = Vec::new();
        let mut epochs = states(&self.layout, self.epoch);
        epochs.sort_unstable_by(|a, b| b.cmp(a));
        for old in epochs.iter().skip(EPOCHS_KEPT) {
            for path in [
                self.layout.notices_state(*old),
                self.layout.notices_alerts(*old),
            ] {
                if let Err(e) = fs::remove(&path) {
                    tracing::warn!("{e}");
                }
            }
        }
        for epoch in epochs {
            let path = self.layout.notices_state(epoch);
            let read = fs::read_small(&path, DOC_MAX).map_err(|e| e.to_string());
            let decoded = read.and_then(|bytes| {
                sealed::from_json(&bytes)
                    .map(|(state, _)| state)
                    .map_err(|d| format!("{}:{}: {}", path.display(), d.offset, d.damage))
            });
            match decoded {
                Ok(state) => return (state, notes),
                Err(text) => notes.push(format!("{text}: messages may be lost or sent twice")),
            }
        }
        (NotifierState::default(), notes)
    }

    /// Saves the state if a part changed that a successor needs; returns whether it did. Events
    /// without messages may be read twice, so the position alone is saved only at intervals.
    pub(super) fn save(&mut self, state: &NotifierState, now: u64) -> Result<bool> {
        let saved = NotifierState {
            seen: (0, 0, 0),
            ..state.clone()
        };
        let changed = self.saved.as_ref() != Some(&saved);
        let stale = self.seen != state.seen && now.saturating_sub(self.saved_at) >= SEEN_MS;
        if !changed && !stale {
            return Ok(false);
        }
        let path = self.layout.notices_state(self.epoch);
        let bytes = sealed::to_json(state).expect("maps have text keys");
        fs::durable_write_mode(&path, &bytes, 0o600)?;
        (self.saved, self.seen, self.saved_at) = (Some(saved), state.seen, now);
        Ok(changed)
    }

    pub(super) fn publish(&self, doc: &AlertsDoc) -> Result<()> {
        let bytes = sealed::to_json(doc).expect("maps have text keys");
        fs::publish(&self.layout.notices_alerts(self.epoch), &bytes)
    }
}

/// Epochs up to this one that have a saved state.
fn states(layout: &Layout, upto: u64) -> Vec<u64> {
    let names = fs::names(&layout.notices(), NAMES_MAX).unwrap_or_default();
    let named = names
        .iter()
        .filter_map(|name| Layout::parse_notices_name(name.to_str()?));
    let states = named.filter(|(is_state, epoch)| *is_state && *epoch <= upto);
    states.map(|(_, epoch)| epoch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::notices::{Alert, Silence};

    /// A successor reads the journal from the position after the event of a silence.
    #[test]
    fn a_silence_and_what_was_told_are_kept_over_a_takeover() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let silence = Silence {
            rule: "a".into(),
            until: 99,
            by: "ann".into(),
            because: "b".into(),
        };
        let alert = Alert {
            rule: "a".into(),
            fired: 7,
            announced: true,
            ..Alert::default()
        };
        let mut keep = StateFiles::open(&layout, 1).unwrap();
        let mut state = NotifierState::default();
        assert!(keep.save(&state, 1).unwrap());
        state.silences.push(silence);
        assert!(keep.save(&state, 2).unwrap(), "kept at once");
        state.alerts.push(alert);
        state.seen = (1, 1, 5);
        assert!(keep.save(&state, 3).unwrap(), "kept at once");
        let (found, notes) = StateFiles::open(&layout, 2).unwrap().take_over();
        assert_eq!((found, notes.len()), (state, 0));
    }

    #[test]
    fn the_next_one_goes_on_from_the_newest_state_that_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let state = |lost| NotifierState {
            lost,
            ..NotifierState::default()
        };
        for epoch in 1..=5 {
            let mut keep = StateFiles::open(&layout, epoch).unwrap();
            assert!(keep.save(&state(epoch), 1).unwrap());
            let mut read_on = state(epoch);
            read_on.seen = (epoch, 1, 1);
            assert!(!keep.save(&read_on, 2).unwrap());
        }
        // A state of a later epoch is not continued; a damaged one is reported.
        fs::durable_write(&layout.notices_state(9), b"{").unwrap();
        fs::durable_write(&layout.notices_state(6), b"{").unwrap();
        let next = StateFiles::open(&layout, 7).unwrap();
        let (found, notes) = next.take_over();
        assert_eq!((found.lost, notes.len()), (5, 1));
        assert!(notes[0].contains("state.000006.yaml"), "{notes:?}");
        assert!(!fs::exists(&layout.notices_state(1)));
        assert!(fs::exists(&layout.notices_state(4)));
    }
}
