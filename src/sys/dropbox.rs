//! Reads files that users created, in directories that users own, without trusting any name.
//!
//! Owns the only way in which daemons read files of users: a user's drop box is opened once without
//! following a link in any component, and everything in it (listing, reading, moving away) goes
//! through that descriptor, so that no change of names by the user can send a daemon elsewhere. A
//! pipe or device cannot block or act, all facts come from the open descriptor. Never reopens by
//! name and never reads more than the limit.

use super::file::{self, OpenMode, cached_owner, mode_kind};
use super::fs::{self, Entry, Kind};
use super::{Error, ErrorContext, Result, platform};
use nix::dir::{Dir, OwningIter};
use nix::fcntl::{AtFlags, OFlag, OpenHow, RenameFlags, ResolveFlag, openat2, renameat2};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// A request as read from one descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestContent {
    /// The complete content.
    pub bytes: Vec<u8>,
    /// The owner: the identity of the requester.
    pub uid: u32,
}

/// Why a file was not read. `Refused` is caused by the user and final; `System` may be temporary.
#[derive(Debug)]
pub enum DropError {
    /// The file is not an acceptable request; the text states why.
    Refused(PathBuf, String),
    /// The system failed.
    System(Error),
}

impl std::fmt::Display for DropError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DropError::Refused(path, why) => write!(f, "refused {}: {why}", path.display()),
            DropError::System(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for DropError {}

type Dropping<T> = std::result::Result<T, DropError>;

/// A trusted directory, held open, that contains directories of users.
#[derive(Debug)]
pub struct DropBox {
    /// `None` on a simulated machine, which has no links.
    dir: Option<File>,
    root: PathBuf,
}

/// The entry under a name of the trusted directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryFacts {
    pub kind: Kind,
    pub uid: u32,
    /// Users other than owner and group may write.
    pub open_to_all: bool,
}

impl DropBox {
    /// Opens the trusted directory `root`; links in its own path are followed.
    pub fn open(root: &Path) -> Result<DropBox> {
        let root = root.to_path_buf();
        if platform::simulated() {
            return Ok(DropBox { dir: None, root });
        }
        let dir = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(&root)
            .at("open the drop box", &root)?;
        Ok(DropBox {
            dir: Some(dir),
            root,
        })
    }

    /// The entry `name`; `None` if there is none. Links are not followed.
    pub fn entry(&self, name: &OsStr) -> Result<Option<EntryFacts>> {
        let path = self.root.join(name);
        let found = |kind, uid, mode: u32| EntryFacts {
            kind,
            uid,
            open_to_all: mode & 0o002 != 0,
        };
        let Some(dir) = &self.dir else {
            let stat = fs::stat(&path)?;
            return Ok(stat.map(|s| found(s.kind, s.uid, s.mode)));
        };
        match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(s) => Ok(Some(found(mode_kind(s.st_mode), s.st_uid, s.st_mode))),
            Err(nix::Error::ENOENT) => Ok(None),
            Err(e) => Err(Error::new("stat", &path, e.into())),
        }
    }

    /// Removes `name`: a file, a link or an empty directory. Returns false if it stays.
    pub fn remove(&self, name: &OsStr) -> bool {
        let Some(dir) = &self.dir else {
            return fs::remove(&self.root.join(name)).is_ok();
        };
        let flags = [UnlinkatFlags::NoRemoveDir, UnlinkatFlags::RemoveDir];
        let is_removed = |how| matches!(unlinkat(dir, name, how), Ok(()) | Err(nix::Error::ENOENT));
        flags.into_iter().any(is_removed)
    }

    /// Moves the entry `name` out of the way: removes it if possible, otherwise renames it to a
    /// hidden name beside it. The contents of a directory stay in it.
    pub fn clear(&self, name: &OsStr, hidden: &str) -> Result<()> {
        let path = self.root.join(name);
        let Some(dir) = &self.dir else {
            return fs::rename(&path, &self.root.join(hidden));
        };
        if self.remove(name) {
            return Ok(());
        }
        let flags = RenameFlags::RENAME_NOREPLACE;
        renameat2(dir, name, dir, hidden, flags).at("rename", &path)
    }

    /// Opens the box called `name`: an actual directory, regardless of its owner.
    pub fn enter(&self, name: &OsStr) -> Dropping<UserBox> {
        let path = self.root.join(name);
        let Some(dir) = &self.dir else {
            let stat = fs::stat(&path).map_err(DropError::System)?;
            let refuse = || DropError::Refused(path.clone(), "is gone".to_owned());
            let stat = stat.ok_or_else(refuse)?;
            return Ok(UserBox {
                dir: None,
                path,
                uid: stat.uid,
                open_to_all: false,
            });
        };
        // Opened for traversal, not for listing: opening a directory for that costs a request on
        // NFS.
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = open_below(dir.as_fd(), Path::new(name), flags, &path)?;
        let owner = cached_owner(fd.as_raw_fd(), Path::new("")).at("stat", &path);
        let owner = owner.map_err(DropError::System)?;
        Ok(UserBox {
            dir: Some(File::from(fd)),
            path,
            uid: owner.uid,
            open_to_all: owner.mode & 0o002 != 0,
        })
    }
}

/// A listing of the trusted directory that continues where the previous read ended.
pub struct Listing {
    root: PathBuf,
    source: ListingSource,
}

enum ListingSource {
    Dir(Box<OwningIter>),
    /// On a simulated machine.
    Names(std::vec::IntoIter<OsString>),
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "listing of {}", self.root.display())
    }
}

impl Listing {
    /// Starts to list `root`.
    pub fn open(root: &Path) -> Result<Listing> {
        let source = match platform::simulated() {
            true => ListingSource::Names(fs::names(root, usize::MAX)?.into_iter()),
            false => {
                let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
                let dir = Dir::open(root, flags, Mode::empty()).at("list", root)?;
                ListingSource::Dir(Box::new(dir.into_iter()))
            }
        };
        let root = root.to_path_buf();
        Ok(Listing { root, source })
    }

    /// The next name, including hidden ones; `None` at the end.
    pub fn next_name(&mut self) -> Result<Option<OsString>> {
        let dir = match &mut self.source {
            ListingSource::Names(names) => return Ok(names.next()),
            ListingSource::Dir(dir) => dir,
        };
        for entry in dir {
            let entry = entry.at("list", &self.root)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                return Ok(Some(OsStr::from_bytes(name).to_owned()));
            }
        }
        Ok(None)
    }
}

/// One user's box, held open.
#[derive(Debug)]
pub struct UserBox {
    dir: Option<File>,
    path: PathBuf,
    /// Its owner.
    pub uid: u32,
    /// Users other than owner and group may write into it.
    pub open_to_all: bool,
}

impl UserBox {
    /// Returns at most `max` names, sorted, without dot files.
    pub fn names(&self, max: usize) -> Result<Vec<Entry>> {
        let Some(dir) = &self.dir else {
            return fs::list_dir(&self.path, max);
        };
        let mut out = Vec::new();
        // Hidden names count a little: reading a box full of them must not take without limit.
        for entry in list(dir, &self.path)?.iter().take(max.saturating_mul(4)) {
            let entry = entry.at("list", &self.path)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name.as_bytes().first() != Some(&b'.') {
                out.push(Entry {
                    name: name.to_owned(),
                    is_dir: entry.file_type() == Some(nix::dir::Type::Directory),
                });
            }
            if out.len() >= max {
                break;
            }
        }
        out.sort();
        out.dedup_by(|a, b| a.name == b.name);
        Ok(out)
    }

    /// Opens the file `name` if it is acceptable and has at most `limit` bytes.
    pub fn open(&self, name: &OsStr, limit: u64) -> Dropping<DroppedFile> {
        let path = self.path.join(name);
        let Some(dir) = &self.dir else {
            let dropped = read_simulated(&path, limit)?;
            let (len, content) = (dropped.bytes.len() as u64, Content::Read(dropped));
            return Ok(DroppedFile { content, path, len });
        };
        let flags = OFlag::O_RDONLY
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_CLOEXEC
            | OFlag::O_NOCTTY;
        let file = File::from(open_below(dir.as_fd(), Path::new(name), flags, &path)?);
        let (len, uid) = judge_open(&file, &path, limit)?;
        let content = Content::Open(file, uid);
        Ok(DroppedFile { content, path, len })
    }

    /// Reads the file `name`, at most `limit` bytes.
    pub fn read(&self, name: &OsStr, limit: u64) -> Dropping<RequestContent> {
        self.open(name, limit)?.read(limit)
    }

    /// Moves the file `name` to `to`, which is on the same file system and not under a user's
    /// control. Only a regular file or a link is moved: a directory of a user stays in the box.
    pub fn move_to(&self, name: &OsStr, to: &Path) -> Result<()> {
        let path = self.path.join(name);
        let Some(dir) = &self.dir else {
            return fs::rename(&path, to);
        };
        let stat = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).at("stat", &path)?;
        if mode_kind(stat.st_mode) == Kind::Dir {
            return Err(Error::invalid("move", &path, "it is a directory"));
        }
        nix::fcntl::renameat(dir, name, nix::fcntl::AT_FDCWD, to).at("rename", &path)
    }

    /// Removes `name`, which may be an empty directory; a missing entry is not an error.
    pub fn remove(&self, name: &OsStr) -> Result<()> {
        let path = self.path.join(name);
        let Some(dir) = &self.dir else {
            return fs::remove(&path);
        };
        match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(nix::Error::ENOENT) => Ok(()),
            Err(nix::Error::EISDIR | nix::Error::EPERM) => {
                unlinkat(dir, name, UnlinkatFlags::RemoveDir).at("remove", &path)
            }
            Err(e) => Err(Error::new("remove", &path, e.into())),
        }
    }

    /// Removes hidden files ending in `.tmp` that are older than `older_ms`: leftovers of a writer.
    pub fn sweep(&self, now_ms: i64, older_ms: u64) -> Result<usize> {
        let Some(dir) = &self.dir else {
            return fs::sweep_asides(&self.path, now_ms, older_ms);
        };
        let mut old = Vec::new();
        for entry in list(dir, &self.path)?.iter() {
            let entry = entry.at("list", &self.path)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name.to_str().is_some_and(fs::is_aside) {
                old.push(name.to_owned());
            }
        }
        let mut removed = 0;
        for name in old {
            let Ok(stat) = fstatat(dir, &*name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
                continue;
            };
            let age = now_ms.saturating_sub(stat.st_mtime.saturating_mul(1000));
            if age > older_ms as i64 && unlinkat(dir, &*name, UnlinkatFlags::NoRemoveDir).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Starts to list an open directory. The server returns its names, regardless of what was read
/// before.
fn list(dir: &File, path: &Path) -> Result<Dir> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Dir::openat(dir, ".", flags, Mode::empty()).at("list", path)
}

/// A request that was opened and not read yet; any thread may read it.
#[derive(Debug)]
pub struct DroppedFile {
    content: Content,
    path: PathBuf,
    /// Length in bytes when it was opened.
    pub len: u64,
}

#[derive(Debug)]
enum Content {
    Open(File, u32),
    /// On a simulated machine.
    Read(RequestContent),
}

impl DroppedFile {
    /// Reads it, at most `limit` bytes.
    pub fn read(self, limit: u64) -> Dropping<RequestContent> {
        let (file, uid) = match self.content {
            Content::Read(dropped) => return Ok(dropped),
            Content::Open(file, uid) => (file, uid),
        };
        let mut bytes = Vec::with_capacity(self.len as usize);
        file.take(limit + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| DropError::System(Error::new("read", &self.path, e)))?;
        if bytes.len() as u64 > limit {
            let why = format!("grew beyond {limit} bytes");
            return Err(DropError::Refused(self.path, why));
        }
        Ok(RequestContent { bytes, uid })
    }
}

/// Checks an open file; returns its length and owner.
fn judge_open(file: &File, full: &Path, limit: u64) -> Dropping<(u64, u32)> {
    let refuse = |why: String| DropError::Refused(full.to_path_buf(), why);
    let meta = file.metadata();
    let meta = meta.map_err(|e| DropError::System(Error::new("stat", full, e)))?;
    if !meta.is_file() {
        return Err(refuse("not a regular file".to_string()));
    }
    if meta.nlink() != 1 {
        return Err(refuse(format!("has {} names instead of one", meta.nlink())));
    }
    if meta.mode() & 0o6000 != 0 {
        return Err(refuse("has a set-id bit".to_string()));
    }
    if meta.len() > limit {
        return Err(refuse(format!("{} bytes, more than {limit}", meta.len())));
    }
    Ok((meta.len(), meta.uid()))
}

fn open_below(dir: BorrowedFd<'_>, below: &Path, flags: OFlag, full: &Path) -> Dropping<OwnedFd> {
    let plain = below
        .components()
        .all(|c| matches!(c, Component::Normal(_)));
    if !plain || below.as_os_str().is_empty() {
        return Err(DropError::Refused(
            full.into(),
            "not a plain relative path".to_string(),
        ));
    }
    let how = OpenHow::new().flags(flags).resolve(
        ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_XDEV,
    );
    let opened = match openat2(dir, below, how) {
        // Kernels before 5.6 and some sandboxes: walk component by component.
        Err(nix::Error::ENOSYS) | Err(nix::Error::EPERM) => walk(dir, below, flags),
        other => other,
    };
    opened.map_err(|e| match e {
        nix::Error::ELOOP | nix::Error::ENXIO | nix::Error::EXDEV | nix::Error::ENOTDIR => {
            DropError::Refused(full.into(), format!("not a plain file in place ({e})"))
        }
        nix::Error::EACCES => DropError::Refused(
            full.into(),
            "the cluster's account may not read it".to_string(),
        ),
        e => DropError::System(Error::new("open", full, e.into())),
    })
}

/// The same checks on a simulated machine, where links cannot exist.
fn read_simulated(full: &Path, limit: u64) -> Dropping<RequestContent> {
    let refuse = |why: String| DropError::Refused(full.to_path_buf(), why);
    let system = |act, e| DropError::System(Error::new(act, full, e));
    let file = file::File::open(full, OpenMode::READ).map_err(|e| system("open", e))?;
    let stat = file.stat().map_err(|e| system("stat", e))?;
    if stat.nlink != 1 {
        return Err(refuse(format!("has {} names instead of one", stat.nlink)));
    }
    if stat.len > limit {
        return Err(refuse(format!("{} bytes, more than {limit}", stat.len)));
    }
    let bytes = file.read_front(limit + 1).map_err(|e| system("read", e))?;
    let uid = stat.uid;
    Ok(RequestContent { bytes, uid })
}

/// Opens component by component without following links.
fn walk(dir: BorrowedFd<'_>, below: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let parts: Vec<_> = below.components().collect();
    let mut at: Option<OwnedFd> = None;
    for (i, part) in parts.iter().enumerate() {
        let last = i + 1 == parts.len();
        let how = if last {
            flags
        } else {
            OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC
        };
        let from = at.as_ref().map_or(dir, |fd| fd.as_fd());
        let next = nix::fcntl::openat(from, part.as_os_str(), how, Mode::empty())?;
        at = Some(next);
    }
    at.ok_or(nix::Error::ENOENT)
}

#[cfg(test)]
mod tests;
