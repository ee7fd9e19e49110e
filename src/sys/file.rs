//! Open files and single file system calls, on this machine or on a simulated one.
//!
//! Owns the split between the two; one call here is one system call. The rules for safe writing are
//! built on top of it (`fs`, `append`, `lock`), for both alike.

use super::failpoint::{on_file, on_path};
use super::file_types::{FileMark, FileOwner, Kind, Stat, parent};
pub use super::file_types::{Handle, OpenMode};
use super::platform;
use std::ffi::{CString, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// An open file; it is closed when dropped.
#[derive(Debug)]
pub enum File {
    /// On this machine.
    Real(fs::File),
    /// On a simulated machine.
    Simulated(Box<dyn Handle>),
}

impl File {
    /// Opens a file.
    pub fn open(path: &Path, mode: OpenMode) -> io::Result<File> {
        if let Some(machine) = platform::here() {
            return machine.open(path, &mode).map(File::Simulated);
        }
        on_path("sys.open", path)?;
        let mut options = OpenOptions::new();
        options
            .read(mode.read)
            .write(mode.write)
            .append(mode.append);
        options.create(mode.create && !mode.exclusive);
        options.create_new(mode.exclusive);
        if mode.create {
            options.mode(mode.mode);
        }
        let at_once = if mode.at_once { libc::O_NONBLOCK } else { 0 };
        let no_link = if mode.no_link { libc::O_NOFOLLOW } else { 0 };
        let direct = if mode.direct { libc::O_DIRECT } else { 0 };
        options.custom_flags(at_once | no_link | direct);
        options.open(path).map(File::Real)
    }

    /// Reserves room after `from`, so that writing there does not fail on a full disk. The length
    /// stays the same.
    pub fn reserve(&self, from: u64, bytes: u64) -> io::Result<()> {
        match self {
            File::Real(file) => {
                let keep = nix::fcntl::FallocateFlags::FALLOC_FL_KEEP_SIZE;
                nix::fcntl::fallocate(file, keep, from as i64, bytes as i64)?;
                Ok(())
            }
            File::Simulated(_) => Ok(()),
        }
    }

    /// Reads at an offset; 0 at the end.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            File::Real(file) => {
                on_file("sys.read", file)?;
                file.read_at(buf, offset)
            }
            File::Simulated(file) => file.read_at(buf, offset),
        }
    }

    /// Reads from the start, at most `most` bytes.
    pub fn read_front(&self, most: u64) -> io::Result<Vec<u8>> {
        // Room for the usual small file at once: growing from zero costs one more read call each
        // time.
        let mut bytes = Vec::with_capacity(most.min(4096) as usize);
        match self {
            File::Real(file) => {
                on_file("sys.read", file)?;
                file.take(most).read_to_end(&mut bytes)?;
            }
            File::Simulated(file) => {
                let len = file.stat()?.len.min(most);
                bytes.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
                let length = file.read_at(&mut bytes, 0)?;
                bytes.truncate(length);
            }
        }
        Ok(bytes)
    }

    /// Writes at an offset with one call, perhaps less than requested.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        match self {
            File::Real(file) => {
                on_file("sys.write", file)?;
                file.write_at(bytes, offset)
            }
            File::Simulated(file) => file.write_at(bytes, offset),
        }
    }

    /// Writes everything at an offset.
    pub fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    bytes = &bytes[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes at the end of a file opened for appending, with one call, perhaps less than
    /// requested.
    pub fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            File::Real(file) => {
                on_file("sys.write", file)?;
                { file }.write(bytes)
            }
            File::Simulated(file) => file.append(bytes),
        }
    }

    /// Sets the length.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        match self {
            File::Real(file) => file.set_len(len),
            File::Simulated(file) => file.set_len(len),
        }
    }

    /// Allocates this many bytes from the start on, and sets the length of the file to that.
    pub fn allocate(&self, len: u64) -> io::Result<()> {
        match self {
            File::Real(file) => {
                on_file("sys.write", file)?;
                match fs2::FileExt::allocate(file, len) {
                    // For example an old NFS: writing data takes room as well.
                    Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => self.fill(len),
                    other => other,
                }
            }
            File::Simulated(_) => self.fill(len),
        }
    }

    /// Writes zeros and sends them to the disk.
    fn fill(&self, len: u64) -> io::Result<()> {
        let zeros = vec![0u8; len.min(1 << 20) as usize];
        let mut at = 0;
        while at < len {
            let n = (len - at).min(zeros.len() as u64);
            self.write_all_at(&zeros[..n as usize], at)?;
            at += n;
        }
        self.sync_all()
    }

    /// Sends the bytes from `from` up to `to` to the server of a network file system, in steps, so
    /// that other files of this machine there need not wait for all of them.
    pub fn send(&self, from: u64, to: u64) -> io::Result<()> {
        match self {
            File::Real(file) => super::writeback::send(file, from, to),
            File::Simulated(_) => Ok(()),
        }
    }

    /// Makes data and metadata durable.
    pub fn sync_all(&self) -> io::Result<()> {
        match self {
            File::Real(file) => {
                on_file("sys.sync", file)?;
                file.sync_all()
            }
            File::Simulated(file) => file.sync(),
        }
    }

    /// Makes the data durable.
    pub fn sync_data(&self) -> io::Result<()> {
        match self {
            File::Real(file) => {
                on_file("sys.sync", file)?;
                file.sync_data()
            }
            File::Simulated(file) => file.sync(),
        }
    }

    /// `fstat`.
    pub fn stat(&self) -> io::Result<Stat> {
        match self {
            File::Real(file) => file.metadata().map(|m| stat_of(&m)),
            File::Simulated(file) => file.stat(),
        }
    }

    /// Takes the lock on this open file. Returns false if another process holds it. The lock is
    /// released when the file is closed.
    pub fn try_lock(&self) -> io::Result<bool> {
        match self {
            File::Real(file) => match fs2::FileExt::try_lock(file) {
                Ok(()) => Ok(true),
                Err(fs2::TryLockError::WouldBlock) => Ok(false),
                Err(fs2::TryLockError::Error(e)) => Err(e),
            },
            File::Simulated(file) => file.try_lock(),
        }
    }
}

fn mtime_ms(m: &fs::Metadata) -> i64 {
    m.mtime()
        .saturating_mul(1000)
        .saturating_add(m.mtime_nsec() / 1_000_000)
}

fn kind_of(t: fs::FileType) -> Kind {
    match (t.is_file(), t.is_dir(), t.is_symlink()) {
        (true, _, _) => Kind::File,
        (_, true, _) => Kind::Dir,
        (_, _, true) => Kind::Link,
        _ => Kind::Other,
    }
}

/// The kind in an `st_mode`.
pub(super) fn mode_kind(mode: u32) -> Kind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => Kind::File,
        libc::S_IFDIR => Kind::Dir,
        libc::S_IFLNK => Kind::Link,
        _ => Kind::Other,
    }
}

pub(super) fn stat_of(m: &fs::Metadata) -> Stat {
    Stat {
        kind: kind_of(m.file_type()),
        len: m.len(),
        mtime_ms: mtime_ms(m),
        uid: m.uid(),
        gid: m.gid(),
        mode: m.mode() & 0o7777,
        ino: m.ino(),
        dev: m.dev(),
        nlink: m.nlink(),
    }
}

/// `lstat`.
pub(super) fn stat(path: &Path) -> io::Result<Stat> {
    match platform::here() {
        Some(machine) => machine.stat(path),
        None => {
            on_path("sys.stat", path)?;
            fs::symlink_metadata(path).map(|m| stat_of(&m))
        }
    }
}

/// Kind, owner and mode of `path` below `dir` (of `dir` itself if it is empty), links not followed,
/// as cached by this machine: a file server is asked only for what this machine has never seen. The
/// owner of an inode does not change; its mode may be as old as the attribute cache.
pub(super) fn cached_owner(dir: RawFd, path: &Path) -> io::Result<FileOwner> {
    on_path("sys.stat", path)?;
    let flags = libc::AT_STATX_DONT_SYNC | libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    let want = libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_UID;
    let out = statx(dir, path, flags, want)?;
    Ok(FileOwner {
        kind: mode_kind(u32::from(out.stx_mode)),
        uid: out.stx_uid,
        mode: u32::from(out.stx_mode) & 0o7777,
    })
}

/// The system call, on a machine that is not simulated.
pub(super) fn statx(dir: RawFd, path: &Path, flags: i32, want: u32) -> io::Result<libc::statx> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `out` is plain data that the call fills in, and `name` ends with a zero byte.
    let (rc, out) = unsafe {
        let mut out: libc::statx = std::mem::zeroed();
        let rc = libc::statx(dir, name.as_ptr(), flags, want, &mut out);
        (rc, out)
    };
    match rc {
        0 => Ok(out),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The server's current state of a name, regardless of this machine's cache.
pub(super) fn mark(path: &Path) -> io::Result<FileMark> {
    if let Some(machine) = platform::here() {
        let stat = machine.stat_now(path)?;
        return Ok(FileMark {
            len: stat.len,
            ino: stat.ino,
            changed_ns: stat.mtime_ms.saturating_mul(1_000_000),
        });
    }
    on_path("sys.stat", path)?;
    let flags = libc::AT_STATX_FORCE_SYNC | libc::AT_SYMLINK_NOFOLLOW;
    let want = libc::STATX_SIZE | libc::STATX_INO | libc::STATX_CTIME;
    let out = statx(libc::AT_FDCWD, path, flags, want)?;
    let changed = out.stx_ctime;
    Ok(FileMark {
        len: out.stx_size,
        ino: out.stx_ino,
        changed_ns: changed
            .tv_sec
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::from(changed.tv_nsec)),
    })
}

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match platform::here() {
        Some(machine) => machine.rename(from, to),
        None => {
            on_path("sys.rename", to)?;
            fs::rename(from, to)
        }
    }
}

pub(super) fn link(from: &Path, to: &Path) -> io::Result<()> {
    match platform::here() {
        Some(machine) => machine.link(from, to),
        None => {
            on_path("sys.link", to)?;
            fs::hard_link(from, to)
        }
    }
}

pub(super) fn unlink(path: &Path) -> io::Result<()> {
    match platform::here() {
        Some(machine) => machine.unlink(path),
        None => {
            on_path("sys.unlink", path)?;
            fs::remove_file(path)
        }
    }
}

pub(super) fn mkdir(path: &Path, mode: u32) -> io::Result<()> {
    match platform::here() {
        Some(machine) => machine.mkdir(path, mode),
        None => {
            on_path("sys.write", path)?;
            DirBuilder::new().mode(mode).create(path)
        }
    }
}

pub(super) fn mkdir_p(path: &Path, mode: u32) -> io::Result<()> {
    let Some(machine) = platform::here() else {
        on_path("sys.write", path)?;
        return DirBuilder::new().recursive(true).mode(mode).create(path);
    };
    match machine.mkdir(path, mode) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            mkdir_p(parent(path), mode)?;
            match machine.mkdir(path, mode) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                other => other,
            }
        }
        other => other,
    }
}

pub(super) fn rmdir(path: &Path) -> io::Result<()> {
    match platform::here() {
        Some(machine) => machine.rmdir(path),
        None => {
            on_path("sys.unlink", path)?;
            fs::remove_dir(path)
        }
    }
}

pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let Some(machine) = platform::here() else {
        return fs::remove_dir_all(path);
    };
    for (name, is_dir) in machine.list(path)? {
        let below = path.join(name);
        match is_dir {
            true => remove_tree(&below)?,
            false => machine.unlink(&below)?,
        }
    }
    machine.rmdir(path)
}

pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    match platform::here() {
        Some(machine) => machine.sync_dir(path),
        None => {
            on_path("sys.sync", path)?;
            fs::File::open(path)?.sync_all()
        }
    }
}

/// Calls `each` with the names in a directory, and whether each is a directory, until it returns to
/// stop.
pub(super) fn list(
    path: &Path,
    mut each: impl FnMut(OsString, &dyn Fn() -> bool) -> bool,
) -> io::Result<()> {
    if let Some(machine) = platform::here() {
        for (name, is_dir) in machine.list(path)? {
            if !each(name, &|| is_dir) {
                break;
            }
        }
        return Ok(());
    }
    on_path("sys.list", path)?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let is_dir = || entry.file_type().is_ok_and(|t| t.is_dir());
        if !each(entry.file_name(), &is_dir) {
            break;
        }
    }
    Ok(())
}
