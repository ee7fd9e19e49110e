//! The share after a run, for code that reads it like a daemon or a command: a machine on which
//! nothing changes and nothing can be written.

use super::disk::{Disk, Errno};
use crate::sys::file::{Handle, OpenMode};
use crate::sys::fs::{Kind, Stat};
use crate::sys::platform;
use crate::sys::statfs::FsKind;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A machine on which nothing moves.
pub(super) struct ReadOnlyDisk(pub(super) Disk);

#[derive(Debug)]
struct ReadOnlyFile {
    data: Arc<Vec<u8>>,
    stat: Stat,
}

fn errno(code: Errno) -> io::Error {
    io::Error::from_raw_os_error(code)
}

fn below(path: &Path) -> io::Result<&str> {
    let text = path
        .to_str()
        .and_then(|t| t.strip_prefix(super::simulated_os::SHARE));
    text.ok_or_else(|| errno(libc::ENOENT))
}

fn read_only<T>() -> io::Result<T> {
    Err(errno(libc::EROFS))
}

impl platform::Machine for ReadOnlyDisk {
    fn open(&self, path: &Path, mode: &OpenMode) -> io::Result<Box<dyn Handle>> {
        if mode.write || mode.append || mode.create {
            return read_only();
        }
        let stat = self.stat(path)?;
        let ino = self.0.find(below(path)?).map_err(errno)?;
        let data = self.0.node(ino).map_err(errno)?.data.clone();
        Ok(Box::new(ReadOnlyFile { data, stat }))
    }

    fn stat_now(&self, path: &Path) -> io::Result<Stat> {
        self.stat(path)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let ino = self.0.find(below(path)?).map_err(errno)?;
        let node = self.0.node(ino).map_err(errno)?;
        Ok(Stat {
            kind: if node.entries.is_some() {
                Kind::Dir
            } else {
                Kind::File
            },
            len: node.data.len() as u64,
            mtime_ms: node.mtime_ms,
            uid: node.uid,
            gid: 0,
            mode: node.mode,
            ino,
            dev: 1,
            nlink: node.names,
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, bool)>> {
        let ino = self.0.find(below(path)?).map_err(errno)?;
        let entries = self.0.node(ino).map_err(errno)?.entries.as_ref();
        let entries = entries.ok_or_else(|| errno(libc::ENOTDIR))?;
        let is_dir = |ino: &u64| self.0.node(*ino).is_ok_and(|n| n.entries.is_some());
        Ok(entries.iter().map(|(n, i)| (n.into(), is_dir(i))).collect())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn unlink(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn mkdir(&self, _: &Path, _: u32) -> io::Result<()> {
        read_only()
    }

    fn rmdir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn fs_kind(&self, _: &Path) -> FsKind {
        FsKind::Nfs
    }

    fn wall_ms(&self) -> i64 {
        super::kernel::BEGIN_MS
    }

    fn boot_ns(&self) -> u128 {
        1_000_000_000
    }

    fn sleep_us(&self, _: u64) {}

    fn random(&self, buf: &mut [u8]) {
        buf.fill(7);
    }

    fn uid(&self) -> u32 {
        0
    }

    fn pid(&self) -> u32 {
        1
    }

    fn boot_id(&self) -> &'static str {
        "still"
    }

    fn counter(&self) -> u64 {
        0
    }

    fn name(&self) -> &'static str {
        "still"
    }

    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) {}

    fn exit(&self, code: i32) -> ! {
        panic!("a reader exits with {code}")
    }

    fn began_at(&self, _: i32, _: u64) -> bool {
        false
    }

    fn send_order(&self, _: i32, _: u64) -> bool {
        false
    }
}

impl Handle for ReadOnlyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = (offset as usize).min(self.data.len());
        let n = buf.len().min(self.data.len() - from);
        buf[..n].copy_from_slice(&self.data[from..from + n]);
        Ok(n)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        read_only()
    }

    fn append(&self, _: &[u8]) -> io::Result<usize> {
        read_only()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(self.stat)
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(false)
    }
}
