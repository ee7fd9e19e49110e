//! The only interface to the operating system: files, locks, clocks, processes, users, cgroups.
//!
//! Owns every use of `std::fs`, `nix`, `libc`, `fs2` and `notify`, and all unsafe code. It knows
//! nothing about jobs or the layout of the shared directory, and decides nothing: each function
//! does one action and names the action and the path when it fails.
//!
//! Errors are the same everywhere here, so functions do not document them again: [`Error`] if the
//! system refused the action after which the function is named. A function documents what is not an
//! error, such as a missing name.
#![allow(clippy::disallowed_methods, clippy::missing_errors_doc)]

pub mod append;
pub mod beneath;
pub mod blocked_thread;
pub mod caller;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod confine;
pub mod cpus;
pub mod datagram;
pub mod descriptors;
pub mod detach;
pub mod device;
pub mod dropbox;
pub mod failpoint;
pub mod file;
mod file_types;
pub mod fork;
pub mod fs;
pub mod gpus;
pub mod host;
pub mod ipc;
pub mod launch;
pub mod load;
pub mod lock;
pub mod locked_dir;
pub mod logging;
pub mod memory;
pub mod mount;
pub mod overwrite_file;
pub mod pam;
pub mod platform;
pub mod ports;
pub mod proc;
pub mod ranks;
pub mod sensor;
pub mod service;
pub mod signals;
pub mod slow_stat;
pub mod sockets;
pub mod statfs;
pub mod stream;
pub mod supervise;
pub mod tail;
pub mod terminal;
pub mod thread;
pub mod trust;
mod unwinder;
pub mod userfile;
pub mod users;
pub mod watch;
mod writeback;

use crate::model::StartFault;
use std::io;
use std::path::{Path, PathBuf};

/// An operating system call that failed: the attempted action, the path and the reason.
#[derive(Debug)]
pub struct Error {
    /// The action as a verb phrase: "open", "append to", "lock".
    pub act: &'static str,
    /// The file, directory or other object of the action.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

/// The result of everything in `sys` that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Builds an error for `act` on `path`.
    pub fn new(act: &'static str, path: &Path, source: io::Error) -> Error {
        Error {
            act,
            path: path.to_path_buf(),
            source,
        }
    }

    /// Builds an error from the calling thread's `errno`.
    pub fn last(act: &'static str, path: &Path) -> Error {
        Error::new(act, path, io::Error::last_os_error())
    }

    /// Builds an error for data that are not as they must be.
    pub fn invalid(act: &'static str, path: &Path, why: impl Into<String>) -> Error {
        Error::new(
            act,
            path,
            io::Error::new(io::ErrorKind::InvalidData, why.into()),
        )
    }

    /// There is no room on the file system of `path`.
    pub fn no_space(act: &'static str, path: &Path) -> Error {
        Error::new(act, path, io::Error::from_raw_os_error(libc::ENOSPC))
    }

    /// The kind of the system's error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// True when the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// True when the name is already in use.
    pub fn is_taken(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }

    /// True when the object is in use.
    pub fn is_busy(&self) -> bool {
        self.source.raw_os_error() == Some(libc::EBUSY)
    }

    /// True when this account may not do it.
    pub fn is_denied(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }

    /// True when the disk, the quota or the file system's write permission is used up: states in
    /// which a retry can succeed once there is room again. A short write counts as well: on a
    /// working file system it has no other cause.
    pub fn is_no_space(&self) -> bool {
        let code = self.source.raw_os_error();
        matches!(
            code,
            Some(libc::ENOSPC) | Some(libc::EDQUOT) | Some(libc::EROFS)
        ) || self.source.kind() == io::ErrorKind::WriteZero
    }

    /// True when a quota is used up, of the user for example.
    pub fn is_over_quota(&self) -> bool {
        self.source.raw_os_error() == Some(libc::EDQUOT)
    }

    /// The `errno` value, if the system returned one.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    /// Who is at fault if a task cannot be started because of this error. An error that the system
    /// did not return is about the content of a file, which is the same everywhere.
    pub fn start_fault(&self) -> StartFault {
        self.errno().map_or(StartFault::Job, start_fault)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cannot {} {}: {}",
            self.act,
            self.path.display(),
            reason(&self.source)
        )
    }
}

/// Who is at fault if a file or directory of a job cannot be opened with this `errno`. What is
/// missing on one host may be a file system that is not mounted there, so only errors that do not
/// depend on the host are the job's.
pub fn start_fault(errno: i32) -> StartFault {
    match errno {
        libc::ENOMEM | libc::ENFILE | libc::EMFILE => StartFault::Host,
        libc::ENAMETOOLONG | libc::EINVAL | libc::EISDIR | libc::ENXIO | libc::ETXTBSY => {
            StartFault::Job
        }
        _ => StartFault::Unclear,
    }
}

/// The system's error as text, without the `(os error N)` that the standard library adds.
pub fn reason(e: &io::Error) -> String {
    let text = e.to_string();
    match text.rsplit_once(" (os error ") {
        Some((reason, _)) if e.raw_os_error().is_some() => reason.to_owned(),
        _ => text,
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Attaches act and path to an `io::Result`.
pub(crate) trait ErrorContext<T> {
    /// Turns the plain error into one that names `act` and `path`.
    fn at(self, act: &'static str, path: &Path) -> Result<T>;
}

impl<T> ErrorContext<T> for io::Result<T> {
    fn at(self, act: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::new(act, path, source))
    }
}

impl<T> ErrorContext<T> for nix::Result<T> {
    fn at(self, act: &'static str, path: &Path) -> Result<T> {
        self.map_err(|errno| Error::new(act, path, io::Error::from(errno)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system that is not mounted, hangs or is full is the host's; a name is the job's.
    #[test]
    fn what_another_host_may_have_is_not_the_jobs_fault() {
        let of = |errno| Error::new("open", Path::new("/x"), io::Error::from_raw_os_error(errno));
        let unclear = [
            libc::ENOENT,
            libc::ENOTDIR,
            libc::EACCES,
            libc::EPERM,
            libc::ESTALE,
            libc::EIO,
            libc::ENOTCONN,
            libc::EROFS,
            libc::ENOSPC,
            libc::EDQUOT,
            libc::ELOOP,
            libc::ETIMEDOUT,
            libc::EHOSTDOWN,
            libc::ENODEV,
        ];
        for errno in unclear {
            assert_eq!(of(errno).start_fault(), StartFault::Unclear, "{errno}");
        }
        for errno in [libc::ENAMETOOLONG, libc::EISDIR, libc::ENXIO] {
            assert_eq!(of(errno).start_fault(), StartFault::Job, "{errno}");
        }
        assert_eq!(of(libc::ENFILE).start_fault(), StartFault::Host);
        let content = Error::invalid("read", Path::new("/x"), "no text");
        assert_eq!(content.start_fault(), StartFault::Job);
    }

    #[test]
    fn the_number_of_the_answer_is_not_shown() {
        let source = io::Error::from_raw_os_error(libc::ENOENT);
        let e = Error::new("open", Path::new("/x"), source);
        assert_eq!(e.to_string(), "cannot open /x: No such file or directory");
        let own = io::Error::other("a file called (os error 2)");
        assert_eq!(reason(&own), "a file called (os error 2)");
    }
}
