//! Arguments and results of system calls on files: open flags, kinds, attributes of a file, the
//! kind of a file system, and the interface of an open file on a simulated machine.
//!
//! Owns types only; the calls are in `file`, `fs` and `statfs`.

use std::fmt;
use std::io;
use std::path::Path;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OpenMode {
    pub read: bool,
    pub write: bool,
    /// Writes go to the end of the file.
    pub append: bool,
    /// Create it if it does not exist...
    pub create: bool,
    /// ...and fail if it exists.
    pub exclusive: bool,
    /// Open without waiting: a pipe in place of a file must not block a daemon.
    pub at_once: bool,
    /// Fail if the name is a symbolic link.
    pub no_link: bool,
    /// Reads bypass this machine's cache; for NFS, which requires no alignment.
    pub direct: bool,
    /// Permission bits of a new file, before the umask.
    pub mode: u32,
}

impl OpenMode {
    pub const READ: OpenMode = OpenMode {
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
    pub const LOOK: OpenMode = OpenMode {
        at_once: true,
        ..OpenMode::READ
    };
    pub const READ_WRITE: OpenMode = OpenMode {
        write: true,
        ..OpenMode::READ
    };
    pub const APPEND: OpenMode = OpenMode {
        append: true,
        ..OpenMode::READ
    };
    /// A new file, for writing at offsets.
    pub const NEW: OpenMode = OpenMode {
        read: false,
        write: true,
        create: true,
        exclusive: true,
        ..OpenMode::READ
    };

    /// The same with the mode of a file that is created.
    pub fn mode(self, mode: u32) -> OpenMode {
        OpenMode { mode, ..self }
    }

    /// Created if it does not exist.
    pub fn create(self) -> OpenMode {
        OpenMode {
            create: true,
            ..self
        }
    }

    /// Created; an existing file is an error.
    pub fn exclusive(self) -> OpenMode {
        OpenMode {
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
    /// Writes at an offset, perhaps less than requested.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes at the end, perhaps less than requested.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Sets the length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes everything durable.
    fn sync(&self) -> io::Result<()>;
    /// `fstat`.
    fn stat(&self) -> io::Result<Stat>;
    /// Takes the lock. Returns false if another process holds it.
    fn try_lock(&self) -> io::Result<bool>;
}

/// The type of a directory entry or file.
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

/// The owner of a file and its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOwner {
    pub kind: Kind,
    pub uid: u32,
    /// Permission bits.
    pub mode: u32,
}

/// The result of `lstat` for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The type.
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

/// Distinguishes two states of a file or directory without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMark {
    /// Length in bytes.
    pub len: u64,
    /// Inode number.
    pub ino: u64,
    /// Last change by the file server's clock, ns since the epoch. Two changes may have the same
    /// time.
    pub changed_ns: i64,
}

/// The kind of file system that contains a path, as far as the protocol needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsKind {
    /// A file system of this machine: its own changes raise events and are seen at once.
    Local,
    /// NFS of any version: changes of other clients raise no events, caches apply.
    Nfs,
    /// Any other network or unknown file system: treated like NFS by careful callers.
    Other,
}

/// The directory that contains `path` ("." for a bare name).
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}
