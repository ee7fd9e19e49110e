//! Bytes of a regular file.

use super::{OpenTarget, PathBelow, failed, find, refused};
use crate::sys::{ErrorContext, Result};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Identifies the state of a file: while it is the same, the content has not been replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentMark {
    pub ino: u64,
    pub size: u64,
    pub mtime_ns: i64,
}

impl ContentMark {
    pub(super) fn of(stat: &FileStat) -> ContentMark {
        ContentMark {
            ino: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ns: (stat.st_mtime.saturating_mul(1_000_000_000))
                .saturating_add(stat.st_mtime_nsec),
        }
    }
}

/// Bytes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePart {
    pub bytes: Vec<u8>,
    pub mark: ContentMark,
}

/// Opens the target for reading if it is a regular file.
fn open_found(found: &OpenTarget) -> io::Result<File> {
    match found.kind() {
        SFlag::S_IFREG => {}
        SFlag::S_IFDIR => return Err(nix::Error::EISDIR.into()),
        _ => return Err(refused("it is not a regular file")),
    }
    // The descriptor refers to the very file that was examined.
    let path = PathBuf::from(format!("/proc/self/fd/{}", found.fd.as_raw_fd()));
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    Ok(File::from(open(&path, flags, Mode::empty())?))
}

/// Reads at most `most` bytes from an offset on; fewer only at the end of the file.
pub fn read_at(path: PathBelow<'_>, offset: u64, most: usize) -> Result<FilePart> {
    let found = find("read", path, true)?;
    let file = open_found(&found).map_err(|e| failed("read", path, e))?;
    let mut bytes = vec![0; most];
    let mut used = 0;
    while used < most {
        match file.read_at(&mut bytes[used..], offset + used as u64) {
            Ok(0) => break,
            Ok(n) => used += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed("read", path, e)),
        }
    }
    bytes.truncate(used);
    let stat = fstat(&file).map_err(io::Error::from);
    let mark = ContentMark::of(&stat.at("read", &path.full_path())?);
    Ok(FilePart { bytes, mark })
}
