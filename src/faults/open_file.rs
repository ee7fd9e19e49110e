//! Open files of a simulated process: on the share, with what its client keeps back, and on the
//! local disk of its host. Never resolves a name; `port` does.

use super::cluster::Happening;
use super::disk::{self, HandleId, Ino};
use super::simulated_os::{MS, Place, Port, errno, server_ms};
use super::world::Inner;
use crate::sys::file::Handle;
use crate::sys::fs::Stat;
use std::fmt;
use std::io;
use std::sync::{Arc, MutexGuard};

/// Data of a descriptor that is kept open may be this old, µs.
const KEPT_OPEN_US: u64 = 3_000_000;

/// What a descriptor of a share's file knows.
pub(super) struct HandleState {
    pub view: Arc<Vec<u8>>,
    pub at: u64,
    /// Where the next append goes.
    pub size: u64,
}

/// An open file of the share.
pub(super) struct ShareFile {
    pub port: Port,
    pub id: HandleId,
    pub ino: Ino,
    /// By which name it was opened.
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

    /// Keeps a write for later; perhaps refuses or shortens it.
    fn keep(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.port.lock();
        let Inner { core, scene } = &mut *inner;
        if scene.opens.get(&self.id).is_none_or(|o| o.lost) {
            return Err(errno(libc::EIO));
        }
        let m = self.port.machine;
        let flaky = scene.machines[m].flaky_until > core.now;
        let full = scene.server.full_until > core.now;
        let n = match bytes.len() as u64 {
            0 => 0,
            len if (flaky || full) && core.rng.permille(100) => core.rng.between(1, len),
            len => len,
        } as usize;
        if full && core.rng.permille(300) {
            return Err(errno(scene.server.full_errno));
        }
        let first = scene.machines[m].dirty.is_empty();
        let writes = scene.machines[m].dirty.entry(self.ino).or_default();
        writes.push((offset, bytes[..n].to_vec(), self.id));
        if first {
            let at = core.now + core.rng.between(1, scene.plan.write_back_ms) * MS;
            scene.plan_at(core, at, Happening::WriteBack(m));
        }
        Ok(n)
    }
}

impl Handle for ShareFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.port.call("read", Place::Share(&self.path))?;
        let mut state = self.state();
        let mut inner = self.port.lock();
        let Inner { core, scene } = &mut *inner;
        if self.direct && scene.opens.get(&self.id).is_none_or(|o| o.lost) {
            return Err(errno(libc::EIO));
        }
        if self.direct || core.now.saturating_sub(state.at) > KEPT_OPEN_US {
            state.view = self.port.fetch(core, scene, self.ino, false);
            state.at = core.now;
        }
        let from = (offset as usize).min(state.view.len());
        let n = buf.len().min(state.view.len() - from);
        buf[..n].copy_from_slice(&state.view[from..from + n]);
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.port.call("write", Place::Local(&self.path))?;
        let n = self.keep(offset, bytes)?;
        let mut state = self.state();
        state.size = state.size.max(offset + n as u64);
        Ok(n)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.port.call("append", Place::Local(&self.path))?;
        let offset = self.state().size;
        let n = self.keep(offset, bytes)?;
        self.state().size = offset + n as u64;
        let mut inner = self.port.lock();
        let Inner { core, scene } = &mut *inner;
        let evidence = &mut scene.history.evidence;
        let wrong = evidence.appended(self.port.proc, self.id, &self.path, &bytes[..n]);
        scene.history.all_broken(core, wrong);
        Ok(n)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.port.call("truncate", Place::Share(&self.path))?;
        let mut inner = self.port.lock();
        let Inner { core, scene } = &mut *inner;
        scene
            .flush(core, self.port.machine, self.ino)
            .map_err(errno)?;
        let now = server_ms(core);
        scene.share.set_len(self.ino, len, now).map_err(errno)
    }

    fn sync(&self) -> io::Result<()> {
        self.port.call("fsync", Place::Share(&self.path))?;
        let mut inner = self.port.lock();
        let Inner { core, scene } = &mut *inner;
        if scene.opens.get(&self.id).is_none_or(|o| o.lost) {
            return Err(errno(libc::EIO));
        }
        let m = self.port.machine;
        scene.flush(core, m, self.ino).map_err(errno)?;
        if let Some(code) = scene.machines[m].failed.remove(&self.ino) {
            return Err(errno(code));
        }
        scene.share.sync(self.ino).map_err(errno)?;
        let wrong = scene.history.evidence.synced(core, self.id, &self.path);
        scene.history.all_broken(core, wrong);
        Ok(())
    }

    fn stat(&self) -> io::Result<Stat> {
        let len = {
            let state = self.state();
            state.size.max(state.view.len() as u64)
        };
        let inner = self.port.lock();
        self.port.stat_of(&inner.scene.share, self.ino, Some(len))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.port.call("lock", Place::Share(&self.path))?;
        let mut inner = self.port.lock();
        let Inner { core, scene } = &mut *inner;
        if scene.server.grace_until > core.now {
            return Ok(false);
        }
        let lease = scene.plan.lease_ms * MS;
        let holder = scene.share.node(self.ino).map_err(errno)?.lock;
        if let Some(other) = holder.filter(|h| *h != self.id) {
            let open = scene.opens.get_mut(&other);
            let silent = open
                .as_ref()
                .and_then(|o| scene.machines[o.machine].silent_since);
            let lapsed = silent.is_some_and(|at| core.now > at + lease);
            match open {
                Some(_) if !lapsed => return Ok(false),
                Some(open) => {
                    open.lost = true;
                    core.say("server", || format!("the lock of handle {other} lapsed"));
                }
                None => {}
            }
        }
        scene.share.node_mut(self.ino).map_err(errno)?.lock = Some(self.id);
        Ok(true)
    }
}

impl Drop for ShareFile {
    fn drop(&mut self) {
        let port = &self.port;
        let dirty = {
            let inner = port.lock();
            let machine = &inner.scene.machines[port.machine];
            machine.boot == port.boot && machine.up && machine.dirty.contains_key(&self.ino)
        };
        if dirty && !std::thread::panicking() {
            // A close sends what was kept; its error is nobody's.
            if port.call("close", Place::Share(&self.path)).is_ok() {
                let mut inner = port.lock();
                let Inner { core, scene } = &mut *inner;
                let _ = scene.flush(core, port.machine, self.ino);
            }
        }
        let mut inner = port.lock();
        let scene = &mut inner.scene;
        scene.drop_lock(self.id);
        // What a killed process wrote is still sent by its kernel, by the handle's right.
        if !scene.machines[port.machine].dirty.contains_key(&self.ino) {
            scene.opens.remove(&self.id);
        }
    }
}

/// An open file of a local disk.
pub(super) struct LocalFile {
    pub port: Port,
    pub id: HandleId,
    pub ino: Ino,
    /// By which name it was opened.
    pub path: String,
}

impl fmt::Debug for LocalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local inode {}", self.ino)
    }
}

impl LocalFile {
    fn call(&self, what: &'static str) -> io::Result<()> {
        self.port.call(what, Place::Local(&self.path))
    }

    /// Works on the disk, if its machine was not restarted since.
    fn disk<T>(
        &self,
        f: impl FnOnce(&mut disk::Disk, i64) -> Result<T, disk::Errno>,
    ) -> io::Result<T> {
        let mut inner = self.port.lock();
        let Inner { core, scene } = &mut *inner;
        let machine = &mut scene.machines[self.port.machine];
        if machine.boot != self.port.boot {
            return Err(errno(libc::EIO));
        }
        f(&mut machine.local, server_ms(core)).map_err(errno)
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
        let m = self.port.machine;
        self.disk(|disk, now| disk.write(self.ino, m, offset, bytes, now))?;
        Ok(bytes.len())
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.call("append")?;
        let m = self.port.machine;
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
        let inner = self.port.lock();
        let local = &inner.scene.machines[self.port.machine].local;
        self.port.stat_of(local, self.ino, None)
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
        self.port.lock().scene.opens.remove(&id);
    }
}
