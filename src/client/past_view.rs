//! The view of a past moment, for `--at`: created in a temporary directory of this process and
//! removed with it.
//!
//! The leader's code can build it from the journal; the floor above provides that code by
//! [`set_maker`]. Nothing is written to the share.

use super::cli::opt;
use super::exit::Fail;
use crate::language::tell;
use crate::model::Stamp;
use crate::show::history::range;
use crate::spool::Layout;
use crate::sys;
use clap::Arg;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Builds the view of a past moment in a directory. Returns notes for the reader.
pub(crate) type MakeView = fn(&Layout, Stamp, &Path) -> Result<Vec<String>, String>;

static MAKER: OnceLock<MakeView> = OnceLock::new();

/// A directory left by a killed command is removed when it is older than this, ms.
const LEFT_BEHIND_MS: i64 = 3_600_000;
/// Maximum number of entries of the temporary directory that are read.
const NAMES_MAX: usize = 100_000;

/// Sets the function that builds views of past moments.
pub(crate) fn set_maker(make: MakeView) {
    // Only the first call counts; there is only one.
    let _ = MAKER.set(make);
}

/// The option `--at`.
pub(super) fn option() -> Arg {
    opt(
        "at",
        "TIME",
        "As it was at this time: 14:30, 25/14:30, 2026-11-25T14:30:05, 90m (ago)",
    )
}

/// See the top of this file.
pub(crate) struct PastView {
    dir: PathBuf,
    moment: Stamp,
}

impl PastView {
    /// Builds the view of the moment that `word` specifies.
    ///
    /// # Errors
    /// It is not a moment or is in the future; no records of it are kept; the journal is damaged.
    pub(super) fn make(name: &str, layout: &Layout, word: &str) -> Result<PastView, Fail> {
        let now = sys::clock::wall_ms();
        let zone = jiff::tz::TimeZone::system();
        let moment = range::moment(word, now, &zone)
            .map_err(|e| Fail::usage(format!("--at: {e}\nhint: {}", range::MOMENT_HINT)))?;
        if moment > now {
            return Err(Fail::usage("--at: that time is in the future"));
        }
        let make = MAKER.get().ok_or_else(|| {
            Fail::system("--at: this program does not know how to read the journal")
        })?;
        let past = PastView {
            dir: own_directory()?,
            moment: Stamp(moment),
        };
        // If the reader of the output ends, this process must still remove its directory.
        sys::signals::ignore_sigpipe();
        let notes = make(layout, past.moment, &past.dir)
            .map_err(|e| Fail::system(format!("--at {word}: {e}")))?;
        for note in notes {
            tell!("{name}: note: {note}");
        }
        Ok(past)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn moment(&self) -> Stamp {
        self.moment
    }
}

impl Drop for PastView {
    fn drop(&mut self) {
        drop(sys::fs::remove_tree(&self.dir));
    }
}

/// Creates a directory that only this account can enter.
fn own_directory() -> Result<PathBuf, Fail> {
    let uid = sys::users::current_user().uid;
    let prefix = format!("corral-at.{uid}.");
    let parent = sys::fs::temporary();
    for entry in sys::fs::list_dir(&parent, NAMES_MAX).unwrap_or_default() {
        let Some(name) = entry.text().filter(|name| name.starts_with(&prefix)) else {
            continue;
        };
        let path = parent.join(name);
        let old = sys::fs::stat(&path).ok().flatten().is_some_and(|s| {
            s.uid == uid && sys::clock::wall_ms().saturating_sub(s.mtime_ms) > LEFT_BEHIND_MS
        });
        if old {
            drop(sys::fs::remove_tree(&path));
        }
    }
    let mut random = [0; 8];
    sys::clock::random(&mut random);
    let dir = parent.join(format!("{prefix}{:016x}", u64::from_le_bytes(random)));
    match sys::fs::mkdir(&dir, 0o700)? {
        true => Ok(dir),
        false => Err(Fail::system(format!(
            "{}: it exists already",
            dir.display()
        ))),
    }
}
