//! Decides whether a look at the orders is worth its requests: on a network file system, the
//! lengths and marks of two files show that there can be nothing new.

use crate::spool::polling::Gate;
use crate::sys::fs;
use std::path::Path;

/// How long a look may end with what the server says of epoch and orders (ms).
pub(super) const QUIET_MS: u64 = 60_000;

/// What the last look knew of a share where nothing was new.
#[derive(Debug, Default)]
pub(super) struct QuietShare {
    /// Looks ask first.
    pub asked: bool,
    /// But not the next one.
    pub hinted: bool,
    /// When everything was last looked at, if nothing more was there (boot clock, ms).
    pub since: Option<u64>,
    /// The epoch was read since its file changed last.
    pub epoch_read: bool,
    epoch_gate: Gate,
    /// The host's directory, while it holds no orders of the epoch: a leader that has nothing to
    /// say makes none.
    dir_gate: Gate,
}

impl QuietShare {
    /// Whether this look asks first.
    pub(super) fn may_ask(&mut self) -> bool {
        let hinted = std::mem::take(&mut self.hinted);
        self.asked && !hinted
    }

    /// The last whole look is not long ago; otherwise nothing is taken for known.
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
        fs::mark(dir).map_or(true, |mark| self.dir_gate.must_look(mark, now))
    }

    /// Whether the epoch's file is as it was when it was read last: one request, where opening it
    /// takes two or three.
    pub(super) fn epoch_stands(&mut self, path: &Path, now: u64) -> bool {
        let mark = fs::mark(path);
        let must = |mark| (self.epoch_gate).must_look_within(mark, now, QUIET_MS);
        self.epoch_read &= !mark.map_or(true, must);
        self.epoch_read
    }

    /// The epoch's file was seen in the moment of being overwritten.
    pub(super) fn epoch_missed(&mut self) {
        self.epoch_gate.forget();
    }
}
