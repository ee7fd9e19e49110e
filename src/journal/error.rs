//! Errors of a journal, with messages that name file, offset and the remedy.

use crate::record::frame::Damaged;
use crate::sys;
use std::fmt;
use std::path::PathBuf;

/// Why the journal cannot be read or written.
#[derive(Debug)]
pub enum Error {
    /// The operating system reported an error.
    Io(sys::Error),
    /// A record is damaged although later ones are intact, or a seal states that it must be intact.
    Damaged { path: PathBuf, damaged: Damaged },
    /// A file of the chain does not exist.
    Missing { path: PathBuf, why: String },
    /// The files contradict each other.
    Conflict { path: PathBuf, why: String },
    /// A record is intact, but the state rejected it.
    Refused {
        path: PathBuf,
        offset: u64,
        why: String,
    },
    /// Another process holds the lock of a file that only this one may write.
    Locked(PathBuf),
}

impl Error {
    /// True when the disk or a quota is full.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Error::Io(e) if e.is_no_space())
    }

    /// The `errno` value, if the system returned one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Io(e) => e.errno(),
            _ => None,
        }
    }
}

impl From<sys::Error> for Error {
    fn from(e: sys::Error) -> Error {
        Error::Io(e)
    }
}

const REMEDY: &str = "keep a copy of the share; 'cadmin fsck' lists all damage; a leader \
    started with --accept-loss sets the damaged bytes aside in lost+found and continues without \
    them";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(e) => write!(f, "{e}"),
            Error::Damaged { path, damaged } => write!(
                f,
                "the journal {} is damaged: {}; {REMEDY}",
                FileOffset(path, damaged.offset),
                damaged.damage
            ),
            Error::Missing { path, why } => write!(
                f,
                "the journal {} is missing: {why}; {REMEDY}",
                path.display()
            ),
            Error::Conflict { path, why } => {
                write!(f, "the journal {}: {why}; {REMEDY}", path.display())
            }
            Error::Refused { path, offset, why } => write!(
                f,
                "the record at {} cannot be applied: {why}; {REMEDY}",
                FileOffset(path, *offset)
            ),
            Error::Locked(path) => write!(
                f,
                "another process holds the lock of {}: there must not be two leaders of one epoch",
                path.display()
            ),
        }
    }
}

/// `file:offset`.
struct FileOffset<'a>(&'a std::path::Path, u64);

impl fmt::Display for FileOffset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.display(), self.1)
    }
}

impl std::error::Error for Error {}
