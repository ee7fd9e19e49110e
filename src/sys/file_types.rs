//! Arguments and results of system calls on files: open flags, kinds, attributes of a file, the
//! kind of a file system, and the interface of an open file on a simulated machine.
//!
//! Owns types only; the calls are in `file`, `fs` and `statfs`.

use std::fmt;
use std::io;
use std::path::Path;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct How {
    pub read: bool,
    pub write: bool,
    /// Writes go to the end, wherever it is.
    pub append: bool,
    /// Make it if it is not there...
    pub create: bool,
    /// ...and refuse one that is.
    pub exclusive: bool,
    /// Open without waiting: a pipe in the place of a file must not block a daemon.
    pub at_once: bool,
    /// A symbolic link at the name is refused.
    pub no_link: bool,
    /// Reads go past this machine's cache; for NFS, which asks for no alignment.
    pub direct: bool,
    /// Permission bits of a new file, before the umask.
    pub mode: u32,
}

impl How {
    pub const READ: How = How {
        read: true,
        write: false,
        append: false,
        create: false,
        exclusive: false,
        at_once: false,
        no_link: false,
        direct: false,
        mode: 0,
    };
    /// A file that another process writes.
    pub const LOOK: How = How {
        at_once: true,
        ..How::READ
    };
    pub const READ_WRITE: How = How {
        write: true,
        ..How::READ
    };
    pub const APPEND: How = How {
        append: true,
        ..How::READ
    };
    /// A new file, for writing at offsets.
    pub const NEW: How = How {
        read: false,
        write: true,
        create: true,
        exclusive: true,
        ..How::READ
    };

    /// The same with a mode for a file that is made.
    pub fn mode(self, mode: u32) -> How {
        How { mode, ..self }
    }

    /// Made if it is not there.
    pub fn create(self) -> How {
        How {
            create: true,
            ..self
        }
    }

    /// Made; one that is there is an error.
    pub fn exclusive(self) -> How {
        How {
            create: true,
            exclusive: true,
            ..self
        }
    }
}

/// An open file of a simulated machine.
pub trait Handle: Send + Sync + fmt::Debug {
    /// Reads at an offset; 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at an offset, perhaps less than asked.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes at the end, perhaps less than asked.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Sets the length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes everything durable.
    fn sync(&self) -> io::Result<()>;
    /// `fstat`.
    fn stat(&self) -> io::Result<Stat>;
    /// Takes the lock; false when another process holds it.
    fn try_lock(&self) -> io::Result<bool>;
}

/// What a directory entry or file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link (never followed).
    Link,
    /// A pipe, socket or device.
    Other,
}

/// Whose a file is and who may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOwner {
    pub kind: Kind,
    pub uid: u32,
    /// Permission bits.
    pub mode: u32,
}

/// What `lstat` says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// Last change of the content, milliseconds since the epoch, by the file server's clock.
    pub mtime_ms: i64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Inode number.
    pub ino: u64,
    /// Device number of the file system.
    pub dev: u64,
    /// Number of names.
    pub nlink: u64,
}

/// What tells two states of a file or directory apart without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Length in bytes.
    pub len: u64,
    /// Inode number.
    pub ino: u64,
    /// Last change by the file server's clock, ns since the epoch. Two changes may bear one time.
    pub changed_ns: i64,
}

/// What holds a path, as far as the protocol cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsKind {
    /// A file system of this machine: its own changes raise events and are seen at once.
    Local,
    /// NFS of any version: changes of other clients raise no events, caches apply.
    Nfs,
    /// Any other network or unknown file system: treated like NFS by careful callers.
    Other,
}

/// The directory that holds `path` ("." for a bare name).
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}
