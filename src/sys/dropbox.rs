//! Reading a file that a user made, without trusting any of its names.
//!
//! Owns the one way daemons open what is not theirs: no link is followed in any component, a pipe
//! or device cannot block or act, and all facts come from the open descriptor. Never reopens by
//! name and never reads more than the limit.

use super::file::{self, How};
use super::{At, Error, Result, door};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// A request as read from one descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The whole content.
    pub bytes: Vec<u8>,
    /// The owner: the requester's identity.
    pub uid: u32,
    /// Last change, milliseconds since the epoch, by the file server's clock (a user can set it).
    pub mtime_ms: i64,
}

/// Why a file was not read: `Refused` is the user's doing and final, `System` may pass.
#[derive(Debug)]
pub enum DropError {
    /// The file is not an acceptable request; the text says why.
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

/// A trusted directory, held open, below which users' files are read.
#[derive(Debug)]
pub struct DropBox {
    /// `None` on a simulated machine, which knows no links.
    dir: Option<File>,
    root: PathBuf,
}

impl DropBox {
    /// Opens the trusted directory `root`; its own path is followed as it is.
    pub fn open(root: &Path) -> Result<DropBox> {
        if door::simulated() {
            return Ok(DropBox {
                dir: None,
                root: root.to_path_buf(),
            });
        }
        let dir = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(root)
            .at("open the drop box", root)?;
        Ok(DropBox {
            dir: Some(dir),
            root: root.to_path_buf(),
        })
    }

    /// Reads the file `below` (a relative path without `..`), at most `limit` bytes.
    pub fn read(&self, below: &Path, limit: u64) -> std::result::Result<Dropped, DropError> {
        let full = self.root.join(below);
        let refuse = |why: String| DropError::Refused(full.clone(), why);
        let system = |act, e| DropError::System(Error::new(act, &full, e));
        let Some(dir) = &self.dir else {
            return read_simulated(&full, limit);
        };
        let file = File::from(open_below(dir, below, &full)?);
        let meta = file.metadata().map_err(|e| system("stat", e))?;
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
        let mut bytes = Vec::with_capacity(meta.len() as usize);
        (&file)
            .take(limit + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| system("read", e))?;
        if bytes.len() as u64 > limit {
            return Err(refuse(format!("grew beyond {limit} bytes")));
        }
        let mtime_ms = meta.mtime() * 1000 + meta.mtime_nsec() / 1_000_000;
        Ok(Dropped {
            bytes,
            uid: meta.uid(),
            mtime_ms,
        })
    }
}

fn open_below(dir: &File, below: &Path, full: &Path) -> std::result::Result<OwnedFd, DropError> {
    let plain = below
        .components()
        .all(|c| matches!(c, Component::Normal(_)));
    if !plain || below.as_os_str().is_empty() {
        return Err(DropError::Refused(
            full.into(),
            "not a plain relative path".to_string(),
        ));
    }
    let flags = OFlag::O_RDONLY
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_CLOEXEC
        | OFlag::O_NOCTTY;
    let how = OpenHow::new().flags(flags).resolve(
        ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_XDEV,
    );
    let opened = match openat2(dir, below, how) {
        // Kernels before 5.6 and some sandboxes: walk by hand.
        Err(nix::Error::ENOSYS) | Err(nix::Error::EPERM) => walk(dir.as_fd(), below, flags),
        other => other,
    };
    opened.map_err(|e| match e {
        nix::Error::ELOOP | nix::Error::ENXIO | nix::Error::EXDEV | nix::Error::ENOTDIR => {
            DropError::Refused(full.into(), format!("not a plain file in place ({e})"))
        }
        e => DropError::System(Error::new("open", full, e.into())),
    })
}

/// The same checks where no link can be: on a simulated machine.
fn read_simulated(full: &Path, limit: u64) -> std::result::Result<Dropped, DropError> {
    let refuse = |why: String| DropError::Refused(full.to_path_buf(), why);
    let system = |act, e| DropError::System(Error::new(act, full, e));
    let file = file::File::open(full, How::READ).map_err(|e| system("open", e))?;
    let stat = file.stat().map_err(|e| system("stat", e))?;
    if stat.nlink != 1 {
        return Err(refuse(format!("has {} names instead of one", stat.nlink)));
    }
    if stat.len > limit {
        return Err(refuse(format!("{} bytes, more than {limit}", stat.len)));
    }
    let bytes = file.read_front(limit + 1).map_err(|e| system("read", e))?;
    Ok(Dropped {
        bytes,
        uid: stat.uid,
        mtime_ms: stat.mtime_ms,
    })
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
mod tests {
    use super::*;
    use crate::sys::fs::{mkdir, publish};
    use std::os::unix::fs::symlink;
    use tempfile::tempdir;

    fn refused(r: std::result::Result<Dropped, DropError>) -> bool {
        matches!(r, Err(DropError::Refused(..)))
    }

    fn boxed() -> (tempfile::TempDir, DropBox) {
        let d = tempdir().unwrap();
        mkdir(&d.path().join("u"), 0o755).unwrap();
        publish(&d.path().join("u/req"), b"hello").unwrap();
        let b = DropBox::open(d.path()).unwrap();
        (d, b)
    }

    #[test]
    fn reads_a_plain_file_with_its_owner() {
        let (_d, b) = boxed();
        let got = b.read(Path::new("u/req"), 5).unwrap();
        assert_eq!(got.bytes, b"hello");
        assert_eq!(got.uid, nix::unistd::geteuid().as_raw());
    }

    #[test]
    fn refuses_links_in_any_component() {
        let (d, b) = boxed();
        symlink("req", d.path().join("u/link")).unwrap();
        symlink("u", d.path().join("v")).unwrap();
        assert!(refused(b.read(Path::new("u/link"), 99)));
        assert!(refused(b.read(Path::new("v/req"), 99)));
        assert!(refused(b.read(Path::new("../x"), 99)));
        assert!(refused(b.read(Path::new("/etc/passwd"), 99_999)));
    }

    #[test]
    fn the_hand_walk_refuses_links_too() {
        let (d, b) = boxed();
        symlink("u", d.path().join("v")).unwrap();
        let f = OFlag::O_RDONLY | OFlag::O_NOFOLLOW;
        assert!(walk(b.dir.as_ref().unwrap().as_fd(), Path::new("v/req"), f).is_err());
        assert!(walk(b.dir.as_ref().unwrap().as_fd(), Path::new("u/req"), f).is_ok());
    }

    #[test]
    fn refuses_a_second_name_a_pipe_and_a_large_file() {
        let (d, b) = boxed();
        std::fs::hard_link(d.path().join("u/req"), d.path().join("u/two")).unwrap();
        assert!(refused(b.read(Path::new("u/req"), 99)));
        let pipe = d.path().join("u/pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        assert!(refused(b.read(Path::new("u/pipe"), 99)));
        publish(&d.path().join("u/big"), &[0; 100]).unwrap();
        assert!(refused(b.read(Path::new("u/big"), 99)));
    }

    #[test]
    fn a_missing_file_is_a_system_answer() {
        let (_d, b) = boxed();
        assert!(
            matches!(b.read(Path::new("u/none"), 9), Err(DropError::System(e)) if e.is_not_found())
        );
    }
}
