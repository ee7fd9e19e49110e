//! What is in a directory, a page at a time.

use super::{PathBelow, failed, find, open_name};
use crate::sys::Result;
use nix::dir::Dir;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// Maximum number of names of a directory that are read; any others are not known.
const NAMES_MAX: usize = 50_000;

/// The type of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    File,
    Dir,
    Link,
    /// A pipe, a socket or a device; or it was gone before it could be examined.
    Other,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEntry {
    pub name: OsString,
    pub kind: NameKind,
    pub size: u64,
    pub mtime_ms: i64,
    /// Permission bits.
    pub mode: u32,
    pub uid: u32,
    /// For a link, its target as written.
    pub target: Option<OsString>,
}

/// A page of the names of a directory, in the order of their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePage {
    pub entries: Vec<NameEntry>,
    /// Number of names that were read.
    pub total: usize,
    /// The directory has more than 50,000 names.
    pub is_cut: bool,
}

/// Returns `count` names after the first `from`.
pub fn list(path: PathBelow<'_>, from: usize, count: usize) -> Result<NamePage> {
    let found = find("list", path, true)?;
    let listed: io::Result<_> = (|| {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = openat(&found.fd, ".", flags, Mode::empty())?;
        let (mut names, is_cut) = names(fd)?;
        names.sort();
        let page = names.iter().skip(from).take(count);
        Ok(NamePage {
            entries: page.map(|name| entry(&found.fd, name)).collect(),
            total: names.len(),
            is_cut,
        })
    })();
    listed.map_err(|e| failed("list", path, e))
}

fn names(fd: OwnedFd) -> io::Result<(Vec<OsString>, bool)> {
    let mut dir = Dir::from_fd(fd)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if names.len() == NAMES_MAX {
            return Ok((names, true));
        }
        names.push(OsStr::from_bytes(name).to_owned());
    }
    Ok((names, false))
}

fn entry(dir: &OwnedFd, name: &OsStr) -> NameEntry {
    let mut out = NameEntry {
        name: name.to_owned(),
        kind: NameKind::Other,
        size: 0,
        mtime_ms: 0,
        mode: 0,
        uid: 0,
        target: None,
    };
    // Not opened as a directory: a listing must not mount everything that an automounter offers.
    let flags = nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW;
    let Ok(stat) = nix::sys::stat::fstatat(dir, name, flags) else {
        return out;
    };
    out.kind = kind(&stat);
    out.size = u64::try_from(stat.st_size).unwrap_or(0);
    out.mtime_ms = stat.st_mtime.saturating_mul(1000) + stat.st_mtime_nsec / 1_000_000;
    out.mode = stat.st_mode & 0o7777;
    out.uid = stat.st_uid;
    if out.kind == NameKind::Link {
        let link = open_name(dir, name);
        out.target = link.ok().and_then(|link| readlinkat(&link.fd, "").ok());
    }
    out
}

fn kind(stat: &FileStat) -> NameKind {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => NameKind::File,
        SFlag::S_IFDIR => NameKind::Dir,
        SFlag::S_IFLNK => NameKind::Link,
        _ => NameKind::Other,
    }
}
