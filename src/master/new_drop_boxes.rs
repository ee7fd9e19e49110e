//! When the leader looks for drop boxes of users who had none. Owns no file.

use crate::sys::fs;
use std::path::PathBuf;

/// How often the leader looks for users' new drop boxes without a hint, in milliseconds.
const EVERY_MS: u64 = 5000;
/// How often the leader checks on a network file system whether a drop box was created, in
/// milliseconds.
const CHANGED_MS: u64 = 1_000;
/// How often the leader looks for drop boxes of new users after a hint, and while not all names
/// were checked, in milliseconds.
const HINTED_MS: u64 = 20;

/// When the directory of all drop boxes is searched.
#[derive(Debug)]
pub(super) struct NewDropBoxes {
    listed_at: u64,
    /// There may be a new box.
    due: bool,
    /// When the directory of drop boxes was last checked (boot clock, ms), and its mark.
    dir_mark: (u64, Option<fs::FileMark>),
}

impl NewDropBoxes {
    /// To a new leader every user is new.
    pub(super) fn new() -> NewDropBoxes {
        NewDropBoxes {
            listed_at: 0,
            due: true,
            dir_mark: (0, None),
        }
    }

    /// Notes that a hint may be about a new box.
    pub(super) fn expect(&mut self) {
        self.due = true;
    }

    /// Whether the boxes are to be listed now; if it is too soon after a hint, the next search
    /// follows soon. `listing`: a listing is in progress. `dir`: the directory, if it raises no
    /// events.
    pub(super) fn may_list(&mut self, now: u64, listing: bool, dir: Option<PathBuf>) -> bool {
        // One request shows whether a box was created: a user's first job need not wait for the
        // slow search.
        if let Some(dir) = dir.filter(|_| now.saturating_sub(self.dir_mark.0) >= CHANGED_MS) {
            let mark = fs::mark(&dir).ok();
            self.due |= mark != self.dir_mark.1;
            self.dir_mark = (now, mark);
        }
        let every = self.wait_ms(listing).unwrap_or(EVERY_MS);
        if now.saturating_sub(self.listed_at) < every {
            return false;
        }
        self.listed_at = now;
        // A box that the current listing has missed is found by the next one.
        self.due &= listing;
        true
    }

    /// How long a search that is due may wait, in milliseconds.
    pub(super) fn wait_ms(&self, listing: bool) -> Option<u64> {
        (self.due || listing).then_some(HINTED_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_listed_soon_after_a_hint_or_a_change_and_else_at_the_slow_pace() {
        let dir = tempfile::tempdir().unwrap();
        let path = || Some(dir.path().to_owned());
        let mut new_boxes = NewDropBoxes::new();
        assert!(new_boxes.may_list(10_000, false, path()), "at once");
        assert_eq!(new_boxes.wait_ms(false), None);
        assert!(!new_boxes.may_list(12_000, false, path()), "no change");
        fs::mkdir(&dir.path().join("1001"), 0o755).unwrap();
        assert!(!new_boxes.may_list(12_500, false, path()), "not asked yet");
        assert!(new_boxes.may_list(13_000, false, path()), "one was made");
        new_boxes.expect();
        assert!(!new_boxes.may_list(13_010, false, None), "too soon");
        // A hint during a listing is handled by the next listing.
        assert!(new_boxes.may_list(13_020, true, None));
        assert_eq!(new_boxes.wait_ms(false), Some(HINTED_MS));
        assert!(new_boxes.may_list(13_040, false, None));
        assert!(new_boxes.may_list(13_060, true, None), "it goes on");
        assert!(!new_boxes.may_list(13_080, false, None));
        assert!(new_boxes.may_list(13_060 + EVERY_MS, false, None));
    }
}
