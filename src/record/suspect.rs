//! What stops the reader of a file that another process appends to: temporary or permanent damage.
//!
//! A reader may see half a line while it is written, and on a network file system whole pages of
//! zeros, because pages reach the server in any order. Only data that stays unreadable at the same
//! place for a while is damage. Owns no file and no clock.

use super::frame::Damage;

/// How long a line with a wrong checksum may have pages that have not arrived yet (ms).
const FRAME_MS: u64 = 3_000;
/// How long an incomplete line may still be being written, or a file may be unreadable (ms).
const TORN_MS: u64 = 15_000;

/// A place at which reading has stopped.
#[derive(Debug, Default)]
pub struct Suspect {
    /// Offset, and length of the file if growing counts as progress.
    place: Option<(u64, u64)>,
    since: u64,
}

impl Suspect {
    /// Reading has continued.
    pub fn clear(&mut self) {
        self.place = None;
    }

    /// Whether there is such a place.
    pub fn is_set(&self) -> bool {
        self.place.is_some()
    }

    /// Whether the finding at `offset` has persisted for so long that it is damage.
    pub fn is_damage(&mut self, damage: &Damage, offset: u64, file_len: u64, now_ms: u64) -> bool {
        match damage {
            // Intact, but not meant for this reader, or of a newer version.
            Damage::Content(_) => false,
            Damage::Torn => self.persists((offset, file_len), TORN_MS, now_ms),
            Damage::Frame(_) | Damage::Sequence { .. } => {
                self.persists((offset, 0), FRAME_MS, now_ms)
            }
        }
    }

    /// Whether the file could not be read from `offset` on for so long that it is damaged or gone,
    /// although the share answers.
    pub fn unreadable(&mut self, offset: u64, now_ms: u64) -> bool {
        self.persists((offset, u64::MAX), TORN_MS, now_ms)
    }

    /// Makes the finding look older by this time, in tests.
    #[cfg(test)]
    pub fn age_for_tests(&mut self, ms: u64) {
        self.since = self.since.saturating_sub(ms);
    }

    fn persists(&mut self, place: (u64, u64), patience_ms: u64, now_ms: u64) -> bool {
        if self.place != Some(place) {
            (self.place, self.since) = (Some(place), now_ms);
        }
        now_ms.saturating_sub(self.since) >= patience_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_damage_only_when_it_neither_grows_nor_ends() {
        let mut suspect = Suspect::default();
        let mut torn = |len, now| suspect.is_damage(&Damage::Torn, 100, len, now);
        assert!(!torn(110, 0));
        assert!(!torn(110, TORN_MS - 1));
        assert!(!torn(120, TORN_MS), "it grew");
        assert!(!torn(120, 2 * TORN_MS - 1));
        assert!(torn(120, 2 * TORN_MS));
        suspect.clear();
        assert!(!suspect.is_damage(&Damage::Torn, 100, 120, 3 * TORN_MS));
    }

    #[test]
    fn a_wrong_line_is_damage_soon_however_the_file_grows() {
        let mut suspect = Suspect::default();
        let wrong = Damage::Frame("x");
        assert!(!suspect.is_damage(&wrong, 5, 100, 0));
        assert!(suspect.is_damage(&wrong, 5, 200, FRAME_MS));
        assert!(
            !suspect.is_damage(&wrong, 90, 300, FRAME_MS),
            "another place"
        );
        let newer = Damage::Content("format 9".into());
        assert!(!suspect.is_damage(&newer, 5, 100, u64::MAX));
    }
}
