//! When the leader looks for drop boxes of users who had none, and what comes of it.
//!
//! [`super::inbox`] does the looking. Owns no file but the directory `inbox/`, where it is gone.

use super::hints::Named;
use super::inbox::is_missing;
use super::lead::{End, Leader, USERS_HINTED_MS};
use crate::sys::{self, fs};

/// How often users' drop boxes are looked for without a hint, in milliseconds.
const USERS_EVERY_MS: u64 = 5000;
/// How often it is looked whether a drop box was made, on a network file system, in milliseconds.
const USERS_CHANGED_MS: u64 = 1_000;

impl Leader {
    /// Looks for drop boxes of users who had none. A hint may be about one: if this is too soon,
    /// the next look is soon.
    pub(super) fn find_users(&mut self, now: u64, all: bool, hinted: &Named) -> Result<(), End> {
        let unknown = hinted.keys().filter(|uid| !self.inbox.find(**uid)).count();
        self.users_due |= all || unknown > 0;
        // One request shows whether a box was made: a user's first job need not wait for the slow
        // look.
        if !self.hinted_share && now.saturating_sub(self.users_seen.0) >= USERS_CHANGED_MS {
            let mark = fs::mark(&self.layout.inbox()).ok();
            self.users_due |= mark != self.users_seen.1;
            self.users_seen = (now, mark);
        }
        let listing = self.inbox.is_listing();
        let every = match self.users_due || listing {
            true => USERS_HINTED_MS,
            false => USERS_EVERY_MS,
        };
        if now.saturating_sub(self.users_at) < every {
            return Ok(());
        }
        self.users_at = now;
        // A box that a listing under way has missed is found by the next one.
        self.users_due &= listing;
        if let Err(e) = self.inbox.find_users(now) {
            self.miss_users(&e, now)?;
        }
        if let Some(text) = self.inbox.take_alarm() {
            self.alarms.raise("inbox names", text, now);
            self.summary.changed();
            self.janitor.clear_inbox(now);
        }
        Ok(())
    }

    /// No drop box was found because of `e`. The leader makes a missing directory again, but
    /// nothing where the share is not the one that it leads on.
    fn miss_users(&mut self, e: &sys::Error, now: u64) -> Result<(), End> {
        let mut text = format!("new users are not seen: {e}");
        if is_missing(e) {
            self.recheck()?;
            match self.inbox.make_again() {
                Ok(()) => {
                    self.users_due = true;
                    text = format!("{e}: it was made again; requests that lay there are gone");
                }
                Err(e) => text = format!("no request is taken: {e}"),
            }
        }
        self.alarms.raise("inbox", text, now);
        self.summary.changed();
        Ok(())
    }
}
