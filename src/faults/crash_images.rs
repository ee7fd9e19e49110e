//! Crash images: after every writing file operation of a run, what a file server and its clients
//! could be left with if everything lost power there, and whether a leader recovers from it with
//! all promises kept.
//!
//! An image is the share with what was synced plus some of what was not: nothing, everything, or
//! a part of it by chance. Recovery is the daemons' own, on a still machine that only reads.

use super::cluster::CrashPoint;
use super::disk::{Disk, Errno};
use crate::journal;
use crate::model::SplitMix64;
use crate::spool::Layout;
use crate::state_loader::Loader;
use crate::sys::file::{Handle, How};
use crate::sys::fs::{Kind, Stat};
use crate::sys::platform;
use crate::sys::statfs::FsKind;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Parts of the unsynced data that are tried for each moment, beside none and all.
const PARTS: u64 = 2;

/// A machine on which nothing moves.
struct ReadOnlyDisk(Disk);

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
    fn open(&self, path: &Path, how: &How) -> io::Result<Box<dyn Handle>> {
        if how.write || how.append || how.create {
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

/// Recovers from an image; what is wrong with it.
fn judge(moment: &CrashPoint, disk: Disk, cluster: &str) -> Option<String> {
    platform::enter(Arc::new(ReadOnlyDisk(disk)));
    let layout = Layout::new(super::simulated_os::SHARE);
    let claims = crate::spool::claims(&layout).unwrap_or_default();
    let claimed = claims.into_iter().max();
    let mut loader = Loader::default();
    let epoch = claimed.unwrap_or(0).max(moment.highest) + 1;
    let options = journal::Options::default();
    let found = journal::recover(&layout, cluster, epoch, options, &mut loader);
    platform::leave();
    if let Err(e) = found {
        return Some(format!("no leader can recover: {e}"));
    }
    let state = loader.state;
    let broken = state.check();
    if !broken.is_empty() {
        return Some(format!("unsound: {broken:?}"));
    }
    for (name, id) in &moment.acked {
        let job = state.job(*id).and_then(|j| j.name.as_deref());
        if job != Some(name.as_str()) {
            return Some(format!(
                "{name} was acknowledged as job {id}, which is {job:?}"
            ));
        }
    }
    for (j, stat) in &moment.finals {
        let now = state.stat(*j);
        if now != Some(*stat) {
            return Some(format!("{j} had ended as {stat:?}, is {now:?}"));
        }
    }
    None
}

/// Judges the images of a moment: nothing unsynced, all of it, parts of it. How many, and what is
/// wrong.
pub(super) fn judge_all(
    moment: &CrashPoint,
    cluster: &str,
    rng: &mut SplitMix64,
) -> (usize, Vec<String>) {
    let mut wrong = Vec::new();
    wrong.extend(judge(moment, moment.disk.clone(), cluster));
    for part in 0..=PARTS {
        let mut disk = moment.disk.clone();
        disk.lose_unsynced(|_, len| match part {
            0 => 0,
            _ => rng.below(len as u64 + 1) as usize,
        });
        wrong.extend(judge(moment, disk, cluster));
    }
    (2 + PARTS as usize, wrong)
}
