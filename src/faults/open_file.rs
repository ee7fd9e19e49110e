//! Open files of a simulated process: on the share, with the unwritten data of its client, and on
//! the local disk of its host. Never resolves a name; `simulated_os` does.

use super::disk::{self, HandleId, Ino};
use super::kernel::MS;
use super::simulated_os::{FileSystemPath, SimulatedOs, errno};
use super::world::WorldState;
use crate::sys::file::Handle;
use crate::sys::fs::Stat;
use std::fmt;
use std::io;
use std::sync::{Arc, MutexGuard};

/// Maximum age of the data of a descriptor that is kept open, µs.
const KEPT_OPEN_US: u64 = 3_000_000;

/// The state of a descriptor of a file of the share.
pub(super) struct HandleState {
    pub view: Arc<Vec<u8>>,
    pub offset: u64,
    /// The offset of the next append.
    pub size: u64,
}

/// An open file of the share.
pub(super) struct ShareFile {
    pub os: SimulatedOs,
    pub id: HandleId,
    pub ino: Ino,
    /// The name by which it was opened.
    pub path: String,
    /// Each read asks the server.
    pub direct: bool,
    pub state: std::sync::Mutex<HandleState>,
}

impl fmt::Debug for ShareFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "share inode {}", self.ino)
    }
}

impl ShareFile {
    fn state(&self) -> MutexGuard<'_, HandleState> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Caches a write; may reject or shorten it.
    fn cache_write(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        if cluster.handles.is_unusable(self.id) {
            return Err(errno(libc::EIO));
        }
        let m = self.os.machine;
        let flaky = cluster.machines[m].flaky_until > kernel.now;
        let full = cluster.server.full_until > kernel.now;
        let n = match bytes.len() as u64 {
            0 => 0,
            len if (flaky || full) && kernel.rng.permille(100) => kernel.rng.between(1, len),
            len => len,
        } as usize;
        if full && kernel.rng.permille(300) {
            return Err(errno(cluster.server.full_errno));
        }
        let write = (offset, bytes[..n].to_vec(), self.id);
        cluster.keep_write(kernel, m, self.ino, write);
        Ok(n)
    }
}

impl Handle for ShareFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.os.call("read", FileSystemPath::Share(&self.path))?;
        let mut state = self.state();
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        if self.direct && cluster.handles.is_unusable(self.id) {
            return Err(errno(libc::EIO));
        }
        if self.direct || kernel.now.saturating_sub(state.offset) > KEPT_OPEN_US {
            state.view = self.os.fetch(kernel, cluster, self.ino, false);
            state.offset = kernel.now;
        }
        let from = (offset as usize).min(state.view.len());
        let n = buf.len().min(state.view.len() - from);
        buf[..n].copy_from_slice(&state.view[from..from + n]);
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.os.call("write", FileSystemPath::Local(&self.path))?;
        let n = self.cache_write(offset, bytes)?;
        let mut state = self.state();
        state.size = state.size.max(offset + n as u64);
        Ok(n)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.os.call("append", FileSystemPath::Local(&self.path))?;
        let offset = self.state().size;
        let n = self.cache_write(offset, bytes)?;
        self.state().size = offset + n as u64;
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let file_checks = &mut cluster.history.file_checks;
        let wrong = file_checks.appended(self.os.proc, self.id, &self.path, &bytes[..n]);
        cluster.history.all_broken(kernel, wrong);
        Ok(n)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.os
            .call("truncate", FileSystemPath::Share(&self.path))?;
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        cluster
            .flush(kernel, self.os.machine, self.ino)
            .map_err(errno)?;
        let now = kernel.server_ms();
        cluster.share.set_len(self.ino, len, now).map_err(errno)
    }

    fn sync(&self) -> io::Result<()> {
        self.os.call("fsync", FileSystemPath::Share(&self.path))?;
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        if cluster.handles.is_unusable(self.id) {
            return Err(errno(libc::EIO));
        }
        let m = self.os.machine;
        cluster.flush(kernel, m, self.ino).map_err(errno)?;
        if let Some(code) = cluster.machines[m].cache.failed.remove(&self.ino) {
            return Err(errno(code));
        }
        cluster.share.sync(self.ino).map_err(errno)?;
        let wrong = cluster
            .history
            .file_checks
            .synced(kernel, self.id, &self.path);
        cluster.history.all_broken(kernel, wrong);
        Ok(())
    }

    fn stat(&self) -> io::Result<Stat> {
        let len = {
            let state = self.state();
            state.size.max(state.view.len() as u64)
        };
        let inner = self.os.lock();
        self.os.stat_of(&inner.cluster.share, self.ino, Some(len))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.os.call("lock", FileSystemPath::Share(&self.path))?;
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        if cluster.server.grace_until > kernel.now {
            return Ok(false);
        }
        let lease = cluster.plan.caches.lease_ms * MS;
        let holder = cluster.share.node(self.ino).map_err(errno)?.lock;
        if let Some(other) = holder.filter(|h| *h != self.id) {
            let open = cluster.handles.get_mut(other);
            let machine = open.as_ref().map(|o| &cluster.machines[o.machine]);
            let silent = machine.and_then(|m| m.silent_since);
            let lapsed = silent.is_some_and(|at| kernel.now > at + lease);
            match open {
                Some(_) if !lapsed => return Ok(false),
                Some(open) => {
                    open.is_revoked = true;
                    kernel.trace("server", || format!("the lock of handle {other} lapsed"));
                }
                None => {}
            }
        }
        cluster.share.node_mut(self.ino).map_err(errno)?.lock = Some(self.id);
        Ok(true)
    }
}

impl Drop for ShareFile {
    fn drop(&mut self) {
        let os = &self.os;
        let dirty = {
            let inner = os.lock();
            let machine = &inner.cluster.machines[os.machine];
            machine.boot == os.boot && machine.up && machine.cache.dirty.contains_key(&self.ino)
        };
        if dirty && !std::thread::panicking() {
            // A close sends cached writes; its error goes to no caller.
            if os.call("close", FileSystemPath::Share(&self.path)).is_ok() {
                let mut inner = os.lock();
                let WorldState { kernel, cluster } = &mut *inner;
                let _ = cluster.flush(kernel, os.machine, self.ino);
            }
        }
        let mut inner = os.lock();
        let cluster = &mut inner.cluster;
        cluster.drop_lock(self.id);
        // The kernel still sends what a killed process wrote, with the right of the handle.
        if !cluster.machines[os.machine]
            .cache
            .dirty
            .contains_key(&self.ino)
        {
            cluster.handles.remove(self.id);
        }
    }
}

/// An open file of a local disk.
pub(super) struct LocalFile {
    pub os: SimulatedOs,
    pub id: HandleId,
    pub ino: Ino,
    /// The name by which it was opened.
    pub path: String,
}

impl fmt::Debug for LocalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local inode {}", self.ino)
    }
}

impl LocalFile {
    fn call(&self, what: &'static str) -> io::Result<()> {
        self.os.call(what, FileSystemPath::Local(&self.path))
    }

    /// Works on the disk, if its machine was not restarted since.
    fn disk<T>(
        &self,
        f: impl FnOnce(&mut disk::Disk, i64) -> Result<T, disk::Errno>,
    ) -> io::Result<T> {
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let machine = &mut cluster.machines[self.os.machine];
        if machine.boot != self.os.boot {
            return Err(errno(libc::EIO));
        }
        f(&mut machine.local, kernel.server_ms()).map_err(errno)
    }
}

impl Handle for LocalFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call("read")?;
        self.disk(|disk, _| {
            let data = &disk.node(self.ino)?.data;
            let from = (offset as usize).min(data.len());
            let n = buf.len().min(data.len() - from);
            buf[..n].copy_from_slice(&data[from..from + n]);
            Ok(n)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.call("write")?;
        let m = self.os.machine;
        self.disk(|disk, now| disk.write(self.ino, m, offset, bytes, now))?;
        Ok(bytes.len())
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.call("append")?;
        let m = self.os.machine;
        self.disk(|disk, now| {
            let end = disk.node(self.ino)?.data.len() as u64;
            disk.write(self.ino, m, end, bytes, now)
        })?;
        Ok(bytes.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call("truncate")?;
        self.disk(|disk, now| disk.set_len(self.ino, len, now))
    }

    fn sync(&self) -> io::Result<()> {
        self.call("fsync")?;
        self.disk(|disk, _| disk.sync(self.ino))
    }

    fn stat(&self) -> io::Result<Stat> {
        let inner = self.os.lock();
        let local = &inner.cluster.machines[self.os.machine].local;
        self.os.stat_of(local, self.ino, None)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let id = self.id;
        self.disk(|disk, _| {
            let node = disk.node_mut(self.ino)?;
            let free = node.lock.is_none_or(|h| h == id);
            if free {
                node.lock = Some(id);
            }
            Ok(free)
        })
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        let id = self.id;
        let _ = self.disk(|disk, _| {
            let node = disk.node_mut(self.ino)?;
            if node.lock == Some(id) {
                node.lock = None;
            }
            Ok(())
        });
        self.os.lock().cluster.handles.remove(id);
    }
}
