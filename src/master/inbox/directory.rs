//! The directory of all drop boxes, `inbox/`: examined a few names at a time.
//!
//! Any user may create names here, without limit; their number does not increase the cost of one
//! search. Opens the directory again for each listing and creates it if it is missing; never enters
//! a drop box.

use crate::spool::Layout;
use crate::spool::polling::ChangeGate;
use crate::sys::dropbox::{DropBox, DropError, EntryFacts, Listing, UserBox};
use crate::sys::fs::Kind;
use crate::sys::{self, clock, fs};
use crate::text::width;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Maximum number of names that are read in one search, and of those whose type is queried.
const NAMES_MAX: usize = 5_000;
pub(super) const ASKED_MAX: usize = 50;
/// From this number of hidden names in one listing on, an alarm is raised and they are removed.
const HIDDEN_MIN: usize = 1_000;

/// The directory, and how far it was searched.
pub(super) struct Directory {
    layout: Layout,
    /// `None`: it could not be opened.
    open: Option<DropBox>,
    gate: ChangeGate,
    listing: Option<Listing>,
    hidden: ForeignNames,
    /// What the last complete listing found.
    listed: Option<ForeignNames>,
}

/// Whether a search failed because the directory does not exist.
pub fn is_missing(e: &sys::Error) -> bool {
    e.is_not_found() || e.kind() == std::io::ErrorKind::NotADirectory
}

/// Names that no Corral command creates here.
#[derive(Default)]
struct ForeignNames {
    names: usize,
    first: OsString,
}

impl Directory {
    pub(super) fn new(layout: &Layout) -> Directory {
        Directory {
            layout: layout.clone(),
            open: None,
            gate: ChangeGate::default(),
            listing: None,
            hidden: ForeignNames::default(),
            listed: None,
        }
    }

    fn path(&self) -> PathBuf {
        self.layout.inbox()
    }

    /// Whether a listing has begun and not ended.
    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// The next names that are not hidden. A new listing begins if the last one has ended and
    /// something changed since. `known`: names that need no check.
    ///
    /// # Errors
    /// The directory cannot be opened or listed.
    pub(super) fn search(
        &mut self,
        now_ms: u64,
        known: impl Fn(&OsStr) -> bool,
    ) -> sys::Result<Vec<OsString>> {
        let looked = self.continue_search(now_ms, known);
        if looked.is_err() {
            (self.listing, self.open) = (None, None);
            self.gate.forget();
        }
        looked
    }

    fn continue_search(
        &mut self,
        now_ms: u64,
        known: impl Fn(&OsStr) -> bool,
    ) -> sys::Result<Vec<OsString>> {
        let mut out = Vec::new();
        if self.listing.is_none() {
            let mark = fs::mark(&self.path())?;
            if !self.gate.must_read(mark, now_ms) && self.open.is_some() {
                return Ok(out);
            }
            self.open = Some(DropBox::open(&self.path())?);
            self.listing = Some(Listing::open(&self.path())?);
        }
        let mut read = 0;
        while let Some(listing) = &mut self.listing {
            if read >= NAMES_MAX || out.len() >= ASKED_MAX {
                break;
            }
            read += 1;
            match listing.next_name()? {
                None => {
                    self.listing = None;
                    self.listed = Some(std::mem::take(&mut self.hidden));
                }
                Some(name) if name.as_encoded_bytes().first() == Some(&b'.') => {
                    self.hidden.names += 1;
                    if self.hidden.names == 1 {
                        self.hidden.first = name;
                    }
                }
                Some(name) if known(&name) => {}
                Some(name) => out.push(name),
            }
        }
        Ok(out)
    }

    /// The alarm for administrators about the last listing, once for each; there is something to
    /// remove.
    pub(super) fn take_alarm(&mut self) -> Option<String> {
        let listed = self
            .listed
            .take()
            .filter(|listed| listed.names >= HIDDEN_MIN)?;
        let found = self.stat(&listed.first).ok().flatten();
        let owner = found.map_or_else(String::new, |f| format!(" of uid {}", f.uid));
        let first = listed.first.to_string_lossy();
        Some(format!(
            "{} holds at least {HIDDEN_MIN} hidden names that no command of Corral created, the \
             first is {}{owner}: they are being removed; contact their owner",
            self.path().display(),
            width::escape(&first)
        ))
    }

    /// Creates the directory if it is gone or another kind of file has its name.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn recreate(&mut self) -> sys::Result<()> {
        let path = self.path();
        match fs::stat(&path)?.map(|found| found.kind) {
            None | Some(Kind::Dir) => {}
            Some(Kind::Link) => {
                let why = "it is a link that does not lead to a directory: remove or repair it";
                return Err(sys::Error::invalid("make", &path, why));
            }
            Some(_) => {
                let hidden = format!(".foreign.{}", clock::nonce(8));
                fs::rename(&path, &path.with_file_name(hidden))?;
            }
        }
        let all = self.layout.directories();
        let mode = all.iter().find(|(dir, _)| *dir == path);
        let mode = mode.map_or(0o3733, |(_, mode)| *mode);
        fs::mkdir_p(&path, 0o700)?;
        fs::chmod(&path, mode)?;
        tracing::warn!("{} was missing and has been created again", path.display());
        Ok(())
    }

    /// The type of the entry `name`.
    pub(super) fn stat(&self, name: &OsStr) -> sys::Result<Option<EntryFacts>> {
        self.open.as_ref().map_or(Ok(None), |open| open.entry(name))
    }

    /// Opens the box called `name`.
    pub(super) fn enter(&self, name: &OsStr) -> Result<UserBox, DropError> {
        match &self.open {
            Some(open) => open.enter(name),
            None => {
                let why = sys::Error::invalid("open", &self.path(), "it could not be opened");
                Err(DropError::System(why))
            }
        }
    }

    /// Renames an entry that is not a directory of the user that it names.
    pub(super) fn clear(&self, name: &OsStr, why: &str) {
        let shown = name.to_string_lossy();
        let shown = width::escape(&shown);
        let hidden = format!(".foreign.{}", clock::nonce(8));
        let Some(open) = &self.open else { return };
        match open.clear(name, &hidden) {
            Ok(()) => tracing::warn!("inbox/{shown} is not a drop box ({why}): removed or renamed"),
            Err(e) => tracing::warn!("inbox/{shown} is not a drop box ({why}): {e}"),
        }
    }
}
