//! Files below a directory that a user chose, by paths from outside, such as a browser.
//!
//! Owns which names are followed: a path is walked name by name, each opened without following it.
//! A link is read and followed here, and only if no other user could have created it; it never
//! leads out of the chosen directory. Acts with the rights of the process. Anything that is neither
//! a file nor a directory is not opened.

mod change;
mod list;
mod read;

pub use change::{
    Part, check_upload, finish_part, make_dir, part_size, remove, rename, write_part,
};
pub use list::{NameEntry, NameKind, NamePage, list};
pub use read::{ContentMark, FilePart, read_at};

use super::{Error, ErrorContext, Result};
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Maximum length of a path in bytes; as `PATH_MAX` of Linux.
pub const PATH_BYTES_MAX: usize = 4096;
/// Maximum number of links followed in one path, as in Linux.
const LINKS_MAX: u32 = 40;
/// If one of these bits is set, users other than the owner may create names in a directory.
const FOREIGN: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A place below a directory: `root` is absolute; `path` is relative to it, or empty for it.
#[derive(Clone, Copy, Debug)]
pub struct PathBelow<'a> {
    pub root: &'a Path,
    pub path: &'a Path,
}

impl PathBelow<'_> {
    fn full_path(&self) -> PathBuf {
        self.root.join(self.path)
    }
}

/// The target of a path, held by a descriptor that can neither read nor write.
struct OpenTarget {
    fd: OwnedFd,
    stat: FileStat,
}

impl OpenTarget {
    fn kind(&self) -> SFlag {
        SFlag::from_bits_truncate(self.stat.st_mode & SFlag::S_IFMT.bits())
    }

    fn is_dir(&self) -> bool {
        self.kind() == SFlag::S_IFDIR
    }
}

/// Refusals of this module, in the form of system errors.
fn refused(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, text.to_owned())
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.to_owned())
}

/// The components of a path that has only plain names.
fn plain_names(path: &Path) -> io::Result<Vec<OsString>> {
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(invalid("the path has more than 4096 bytes"));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(invalid("the path has a zero byte"));
    }
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::CurDir => {}
            _ => return Err(invalid("the path must not begin with / or have .. in it")),
        }
    }
    Ok(names)
}

/// Opens one name of a directory without following links.
///
/// It first tries to open it as a directory: only then does an automounter mount it.
fn open_name(dir: &OwnedFd, name: &OsStr) -> io::Result<OpenTarget> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let fd = match openat(dir, name, flags | OFlag::O_DIRECTORY, Mode::empty()) {
        Err(nix::Error::ENOTDIR) => openat(dir, name, flags, Mode::empty()),
        other => other,
    }?;
    let stat = fstat(&fd)?;
    Ok(OpenTarget { fd, stat })
}

/// The directories from the base to the current position of a walk.
struct Walk<'a> {
    base: &'a Path,
    dirs: Vec<OwnedFd>,
    links: u32,
}

impl<'a> Walk<'a> {
    /// Starts at the root of the file system.
    fn top() -> io::Result<Walk<'static>> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = nix::fcntl::open("/", flags, Mode::empty())?;
        Ok(Walk {
            base: Path::new("/"),
            dirs: vec![fd],
            links: 0,
        })
    }

    /// Starts at a directory.
    fn below(root: &'a Path) -> io::Result<Walk<'a>> {
        let inner = root.strip_prefix("/");
        let inner = inner.map_err(|_| invalid("the directory must begin with /"))?;
        let found = Walk::top()?.follow(plain_names(inner)?, true)?;
        if !found.is_dir() {
            return Err(nix::Error::ENOTDIR.into());
        }
        Ok(Walk {
            base: root,
            dirs: vec![found.fd],
            links: 0,
        })
    }

    fn current_dir(&self) -> &OwnedFd {
        self.dirs.last().expect("a walk begins in a directory")
    }

    /// Follows the names. `follow`: also follows the last one if it is a link.
    fn follow(&mut self, names: Vec<OsString>, follow: bool) -> io::Result<OpenTarget> {
        let mut pending: Vec<OsString> = names.into_iter().rev().collect();
        while let Some(name) = pending.pop() {
            let is_last = pending.is_empty();
            if name == ".." {
                self.go_up()?;
                continue;
            }
            let found = open_name(self.current_dir(), &name)?;
            match found.kind() {
                SFlag::S_IFLNK if follow || !is_last => self.follow_link(&found, &mut pending)?,
                SFlag::S_IFDIR => self.dirs.push(found.fd),
                _ if is_last => return Ok(found),
                _ => return Err(nix::Error::ENOTDIR.into()),
            }
        }
        let fd = self.current_dir().try_clone()?;
        let stat = fstat(&fd)?;
        Ok(OpenTarget { fd, stat })
    }

    /// Follows `..` in a link: nothing above the root or above the base is reached.
    fn go_up(&mut self) -> io::Result<()> {
        match (self.dirs.len(), self.base == Path::new("/")) {
            (1, true) => Ok(()),
            (1, false) => Err(leaves_base()),
            _ => {
                self.dirs.pop();
                Ok(())
            }
        }
    }

    /// Replaces the name of a link by the names in its target.
    fn follow_link(&mut self, link: &OpenTarget, pending: &mut Vec<OsString>) -> io::Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(nix::Error::ELOOP.into());
        }
        let dir = fstat(self.current_dir())?;
        if !is_own(&link.stat, &dir, super::users::effective_uid()) {
            return Err(refused(
                "the path contains a link of another user, who could change its target",
            ));
        }
        let target = PathBuf::from(readlinkat(&link.fd, "")?);
        let rest = match target.is_absolute() {
            true => {
                self.dirs.truncate(1);
                target.strip_prefix(self.base).map_err(|_| leaves_base())?
            }
            false => &target,
        };
        for part in rest.components().rev() {
            match part {
                Component::Normal(name) => pending.push(name.to_owned()),
                Component::ParentDir => pending.push("..".into()),
                _ => {}
            }
        }
        Ok(())
    }
}

fn leaves_base() -> io::Error {
    refused("a link leads out of the directory: open its target directly")
}

/// Whether only `uid`, root, or the only user who can write to its directory can have created a
/// link.
fn is_own(link: &FileStat, dir: &FileStat, uid: u32) -> bool {
    let own = |owner: u32| owner == uid || owner == 0;
    let is_shared = dir.st_mode & (FOREIGN | STICKY) != 0;
    own(link.st_uid) || (!is_shared && link.st_uid == dir.st_uid)
}

/// Finds the target of the path. `follow`: if its last name is a link, the target of the link.
fn find(act: &'static str, path: PathBelow<'_>, follow: bool) -> Result<OpenTarget> {
    let found: io::Result<OpenTarget> =
        (|| Walk::below(path.root)?.follow(plain_names(path.path)?, follow))();
    found.at(act, &path.full_path())
}

/// The directory that contains the last name of the path, and that name.
fn find_above<'s>(act: &'static str, path: PathBelow<'s>) -> Result<(OwnedFd, &'s OsStr)> {
    let found: io::Result<_> = (|| {
        plain_names(path.path)?;
        let name = path.path.file_name();
        let name = name.ok_or_else(|| invalid("the chosen directory itself cannot be changed"))?;
        let above = path.path.parent().unwrap_or(Path::new(""));
        let dir = Walk::below(path.root)?.follow(plain_names(above)?, true)?;
        match dir.is_dir() {
            true => Ok((dir.fd, name)),
            false => Err(nix::Error::ENOTDIR.into()),
        }
    })();
    found.at(act, &path.full_path())
}

fn failed(act: &'static str, path: PathBelow<'_>, why: io::Error) -> Error {
    Error::new(act, &path.full_path(), why)
}

#[cfg(test)]
mod tests;
