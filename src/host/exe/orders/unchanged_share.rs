//! Decides whether a look at the orders is worth its requests: on a network file system, the
//! lengths and marks of two files can show that there is nothing new.

use crate::spool::polling::ChangeGate;
use crate::sys::fs;
use std::path::Path;

/// How long looks may end after checking the attributes of the epoch's file and the orders (ms).
pub(super) const QUIET_MS: u64 = 60_000;

/// What the last look knew of a share without changes.
#[derive(Debug, Default)]
pub(super) struct UnchangedShare {
    /// Looks check the attributes first.
    pub checks_attributes: bool,
    /// The next look does not check them.
    pub skip_next: bool,
    /// When everything was last read, if that found nothing more (boot clock, ms).
    pub since: Option<u64>,
    /// The epoch was read after the last change of its file.
    pub epoch_read: bool,
    epoch_gate: ChangeGate,
    /// The host's directory while it contains no orders of the epoch: a leader without orders for
    /// this host creates no file.
    dir_gate: ChangeGate,
}

impl UnchangedShare {
    /// Whether this look checks the attributes first.
    pub(super) fn may_skip_read(&mut self) -> bool {
        let hinted = std::mem::take(&mut self.skip_next);
        self.checks_attributes && !hinted
    }

    /// Whether the last full look was recent; otherwise all that is known is forgotten.
    pub(super) fn is_recent(&mut self, now: u64) -> bool {
        let recent = |at: u64| now.saturating_sub(at) < QUIET_MS;
        let recent = self.since.is_some_and(recent);
        if !recent {
            self.epoch_gate.forget();
            self.dir_gate.forget();
        }
        recent
    }

    /// Whether the host's directory may have changed.
    pub(super) fn has_changed(&mut self, dir: &Path, now: u64) -> bool {
        fs::mark(dir).map_or(true, |mark| self.dir_gate.must_read(mark, now))
    }

    /// Whether the epoch's file is unchanged since it was last read: one request, while opening it
    /// takes two or three.
    pub(super) fn epoch_unchanged(&mut self, path: &Path, now: u64) -> bool {
        let mark = fs::mark(path);
        let must = |mark| (self.epoch_gate).must_read_within(mark, now, QUIET_MS);
        self.epoch_read &= !mark.map_or(true, must);
        self.epoch_read
    }

    /// The epoch's file was read while it was being overwritten.
    pub(super) fn epoch_missed(&mut self) {
        self.epoch_gate.forget();
    }
}
