//! Files of a user, for programs that act as the user: simple requests of limited size and the
//! answers to them.
//!
//! Owns the limits. Paths are bytes, absolute for the directory that the user chose and relative
//! below it; `sys::beneath` decides which links are followed. Acts with the rights of the process.

use super::{Failure, FailureKind};
use crate::sys;
use crate::sys::beneath::{self, ContentMark, NameKind, Part, PathBelow};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Maximum number of bytes of a file that one request reads or writes.
pub const PIECE_MAX: usize = 4 << 20;
/// Maximum number of entries on one page of a list.
pub const PAGE_MAX: usize = 1_000;
/// Maximum size of an uploaded file in bytes.
pub const FILE_MAX: u64 = 1 << 40;

/// A location: a directory by its absolute path, and a path below it, which may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLocation {
    pub root: Vec<u8>,
    pub path: Vec<u8>,
}

impl FileLocation {
    fn path_below(&self) -> PathBelow<'_> {
        PathBelow {
            root: Path::new(OsStr::from_bytes(&self.root)),
            path: Path::new(OsStr::from_bytes(&self.path)),
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileRequest {
    /// A page of a directory's names, at most [`PAGE_MAX`].
    List {
        at: FileLocation,
        from: usize,
        count: usize,
    },
    /// At most [`PIECE_MAX`] bytes of a file.
    Read {
        at: FileLocation,
        offset: u64,
        most: usize,
    },
    /// The number of bytes received of an upload.
    Received {
        at: FileLocation,
    },
    /// A part of an upload of `size` bytes, at most [`PIECE_MAX`]; the last one completes it.
    /// `replace`: an existing file of that name is replaced.
    Write {
        at: FileLocation,
        offset: u64,
        bytes: Vec<u8>,
        size: u64,
        replace: bool,
    },
    MakeDir {
        at: FileLocation,
    },
    /// Renames to another path below the same directory.
    Rename {
        at: FileLocation,
        to: Vec<u8>,
    },
    /// Removes a file, a link, or an empty directory.
    Remove {
        at: FileLocation,
    },
}

/// The state of a file: while it is the same, the content has not been replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    pub ino: u64,
    pub size: u64,
    pub mtime_ns: i64,
}

impl From<ContentMark> for FileMark {
    fn from(mark: ContentMark) -> FileMark {
        FileMark {
            ino: mark.ino,
            size: mark.size,
            mtime_ns: mark.mtime_ns,
        }
    }
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    File,
    Dir,
    Link,
    /// A pipe, a socket or a device, which are not opened.
    Other,
}

impl FileKind {
    pub fn word(self) -> &'static str {
        match self {
            FileKind::File => "file",
            FileKind::Dir => "dir",
            FileKind::Link => "link",
            FileKind::Other => "other",
        }
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    pub name: Vec<u8>,
    pub kind: FileKind,
    pub size: u64,
    pub mtime_ms: i64,
    /// Permission bits, and the owner.
    pub mode: u32,
    pub uid: u32,
    /// The target of a link, as stored.
    pub target: Option<Vec<u8>>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileAnswer {
    Listed {
        entries: Vec<FileEntry>,
        /// Number of names; if `is_cut`, there are more, which are not listed.
        total: usize,
        is_cut: bool,
    },
    Bytes {
        bytes: Vec<u8>,
        mark: FileMark,
    },
    /// Number of received bytes; whether the file has its final name. `taken`: the part was added.
    Received {
        bytes: u64,
        taken: bool,
        done: bool,
    },
    Done,
}

/// Carries out a request with the rights of this process. Blocks.
///
/// # Errors
/// The request exceeds a limit, or the system refuses it.
pub fn carry_out(request: &FileRequest) -> Result<FileAnswer, Failure> {
    match request {
        FileRequest::List { at, from, count } => list(at, *from, (*count).min(PAGE_MAX)),
        FileRequest::Read { at, offset, most } => {
            let chunk = beneath::read_at(at.path_below(), *offset, (*most).min(PIECE_MAX))?;
            Ok(FileAnswer::Bytes {
                bytes: chunk.bytes,
                mark: chunk.mark.into(),
            })
        }
        FileRequest::Received { at } => Ok(FileAnswer::Received {
            bytes: beneath::part_size(at.path_below())?,
            taken: false,
            done: false,
        }),
        FileRequest::Write {
            at,
            offset,
            bytes,
            size,
            replace,
        } => {
            let part = Part {
                offset: *offset,
                bytes,
            };
            write(at.path_below(), part, *size, *replace)
        }
        FileRequest::MakeDir { at } => done(beneath::make_dir(at.path_below())),
        FileRequest::Rename { at, to } => {
            let to = PathBelow {
                path: Path::new(OsStr::from_bytes(to)),
                ..at.path_below()
            };
            done(beneath::rename(at.path_below(), to))
        }
        FileRequest::Remove { at } => done(beneath::remove(at.path_below())),
    }
}

fn done(result: sys::Result<()>) -> Result<FileAnswer, Failure> {
    result?;
    Ok(FileAnswer::Done)
}

fn list(at: &FileLocation, from: usize, count: usize) -> Result<FileAnswer, Failure> {
    let listing = beneath::list(at.path_below(), from, count)?;
    let entry = |entry: beneath::NameEntry| FileEntry {
        name: entry.name.into_vec(),
        kind: match entry.kind {
            NameKind::File => FileKind::File,
            NameKind::Dir => FileKind::Dir,
            NameKind::Link => FileKind::Link,
            NameKind::Other => FileKind::Other,
        },
        size: entry.size,
        mtime_ms: entry.mtime_ms,
        mode: entry.mode,
        uid: entry.uid,
        target: entry.target.map(OsStringExt::into_vec),
    };
    Ok(FileAnswer::Listed {
        entries: listing.entries.into_iter().map(entry).collect(),
        total: listing.total,
        is_cut: listing.is_cut,
    })
}

fn write(
    path: PathBelow<'_>,
    part: Part<'_>,
    size: u64,
    replace: bool,
) -> Result<FileAnswer, Failure> {
    let end = part.offset.checked_add(part.bytes.len() as u64);
    if part.bytes.len() > PIECE_MAX || size > FILE_MAX {
        return Err(invalid(format!(
            "a part has at most {PIECE_MAX} bytes, a file {FILE_MAX}"
        )));
    }
    let Some(end) = end.filter(|end| *end <= size) else {
        return Err(invalid(
            "the part ends beyond the end of the file".to_owned(),
        ));
    };
    if part.bytes.is_empty() && end < size {
        return Err(invalid("the part is empty".to_owned()));
    }
    beneath::check_upload(path, replace)?;
    let bytes = beneath::write_part(path, part)?;
    let taken = bytes == end;
    let is_all = taken && bytes == size;
    if is_all {
        beneath::finish_part(path, size, replace)?;
    }
    Ok(FileAnswer::Received {
        bytes,
        taken,
        done: is_all,
    })
}

fn invalid(text: String) -> Failure {
    Failure {
        kind: FailureKind::Wrong,
        text,
    }
}

impl From<sys::Error> for Failure {
    fn from(e: sys::Error) -> Failure {
        use std::io::ErrorKind;
        let kind = match e.kind() {
            ErrorKind::NotFound => FailureKind::NotFound,
            ErrorKind::PermissionDenied => FailureKind::Permission,
            ErrorKind::InvalidInput | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
                FailureKind::Wrong
            }
            _ => FailureKind::Refused,
        };
        // The path is from a user: it may contain control sequences for a terminal or a page.
        let text = crate::text::width::escape(&e.to_string()).into_owned();
        Failure { kind, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &Path, path: &str) -> FileLocation {
        FileLocation {
            root: root.as_os_str().as_bytes().to_vec(),
            path: path.as_bytes().to_vec(),
        }
    }

    fn put(at: &FileLocation, offset: u64, bytes: &[u8], size: u64) -> Result<FileAnswer, Failure> {
        carry_out(&FileRequest::Write {
            at: at.clone(),
            offset,
            bytes: bytes.to_vec(),
            size,
            replace: false,
        })
    }

    #[test]
    fn an_upload_ends_with_its_last_part_and_tells_how_far_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = sys::fs::canonical(dir.path()).unwrap();
        let at = place(&root, "f");
        let received = |bytes, taken, done| Ok(FileAnswer::Received { bytes, taken, done });
        assert_eq!(put(&at, 0, b"abc", 5), received(3, true, false));
        assert_eq!(put(&at, 0, b"abc", 5), received(3, true, false), "repeated");
        assert_eq!(put(&at, 4, b"e", 5), received(3, false, false), "a gap");
        let progress = carry_out(&FileRequest::Received { at: at.clone() });
        assert_eq!(progress, received(3, false, false));
        assert_eq!(put(&at, 3, b"de", 5), received(5, true, true));
        let again = put(&at, 0, b"x", 1).unwrap_err();
        assert_eq!(again.kind, FailureKind::Refused, "{again}");
        assert_eq!(
            put(&place(&root, "empty"), 0, b"", 0),
            received(0, true, true)
        );
        let read = carry_out(&FileRequest::Read {
            at,
            offset: 1,
            most: usize::MAX,
        });
        let Ok(FileAnswer::Bytes { bytes, mark }) = read else {
            panic!("{read:?}");
        };
        assert_eq!((bytes.as_slice(), mark.size), (&b"bcde"[..], 5));
    }

    #[test]
    fn what_is_beyond_a_limit_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = sys::fs::canonical(dir.path()).unwrap();
        let at = place(&root, "f");
        let big = vec![0; PIECE_MAX + 1];
        for (offset, bytes, size, want) in [
            (0, &big[..], u64::MAX, "at most 4194304 bytes"),
            (0, b"x", FILE_MAX + 1, "a file 1099511627776"),
            (0, b"xx", 1, "beyond the end"),
            (u64::MAX, b"x", 9, "beyond the end"),
            (0, b"", 9, "empty"),
        ] {
            let failure = put(&at, offset, bytes, size).expect_err(want);
            assert_eq!(failure.kind, FailureKind::Wrong);
            assert!(failure.text.contains(want), "{failure}");
        }
        let evil = place(&root, "\u{1b}[31m");
        let failure = carry_out(&FileRequest::Remove { at: evil }).unwrap_err();
        assert_eq!(failure.kind, FailureKind::NotFound);
        assert!(!failure.text.contains('\u{1b}'), "{failure:?}");
    }
}
