//! The system calls of a simulated process: the client side of the shared file system with its
//! caches, the local disk, the clocks.
//!
//! One `SimulatedOs` belongs to one process. Every file operation takes time, during which other
//! threads run, and is subject to the faults of its machine and of the server.

use super::cluster::{CachedFile, Cluster, Machine};
use super::disk::{self, Disk, Errno, Ino};
use super::kernel::{Kernel, MS, ProcId};
use super::open_file::{HandleState, LocalFile, ShareFile};
use super::plan::Role;
use super::world::{ProcessEnded, World, WorldState, current};
use crate::sys::file::{Handle, OpenMode};
use crate::sys::fs::{Kind, Stat};
use crate::sys::platform;
use crate::sys::statfs::FsKind;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::{Arc, MutexGuard};

pub(super) const SHARE: &str = "/share";
pub(super) const LOCAL: &str = "/local";

/// The operating system as one process calls it.
#[derive(Clone)]
pub(super) struct SimulatedOs {
    pub world: Arc<World>,
    pub proc: ProcId,
    pub machine: usize,
    pub boot: u32,
    pub uid: u32,
}

/// The file system on which a path is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileSystemPath<'p> {
    Share(&'p str),
    Local(&'p str),
}

impl<'p> FileSystemPath<'p> {
    fn of(path: &'p Path) -> io::Result<FileSystemPath<'p>> {
        let text = path.to_str().ok_or_else(|| errno(libc::EINVAL))?;
        if let Some(rest) = text.strip_prefix(SHARE) {
            return Ok(FileSystemPath::Share(rest));
        }
        let rest = text.strip_prefix(LOCAL);
        rest.map(FileSystemPath::Local)
            .ok_or_else(|| errno(libc::ENOENT))
    }

    fn is_share(self) -> bool {
        matches!(self, FileSystemPath::Share(_))
    }

    /// The path below the root of its file system.
    fn path(self) -> &'p str {
        let (FileSystemPath::Share(path) | FileSystemPath::Local(path)) = self;
        path
    }
}

pub(super) fn errno(code: Errno) -> io::Error {
    io::Error::from_raw_os_error(code)
}

/// An entry of a directory.
type Entry = (Ino, String);

impl SimulatedOs {
    pub(super) fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.world.lock()
    }

    /// Makes a call take time: it hangs as long as the share does not answer, and may fail on a
    /// flaky machine.
    pub(super) fn call(&self, what: &'static str, on: FileSystemPath<'_>) -> io::Result<()> {
        if std::thread::panicking() {
            return Err(errno(libc::EIO));
        }
        let remote = on.is_share();
        let us = {
            let mut inner = self.lock();
            let WorldState { kernel, cluster } = &mut *inner;
            // Only calls that write count as steps.
            if !matches!(what, "open" | "read" | "stat" | "list") {
                cluster.step(kernel);
            }
            let path = on.path();
            // Reads of the host's own files are not worth a breakpoint.
            let late = match remote || matches!(what, "append" | "write" | "fsync") {
                true => cluster.before_call(kernel, self.proc, what, path),
                false => 0,
            };
            kernel.mix(current() as u64);
            let name = kernel.procs[self.proc].name.clone();
            kernel.trace(&name, || format!("{what} {}", path.trim_start_matches('/')));
            let (least, most) = if remote { (200, 1500) } else { (5, 40) };
            let base = kernel.rng.between(least, most);
            let base = match remote && cluster.server.slow_until > kernel.now {
                true => base * cluster.server.slow_by.min(2_000_000 / base),
                false => base,
            };
            base + late
        };
        self.world.pause(us);
        if !remote {
            return Ok(());
        }
        loop {
            let wait = {
                let mut inner = self.lock();
                let now = inner.kernel.now;
                match inner.cluster.hangs_until(self.machine, now) {
                    0 => break,
                    until => until - now + inner.kernel.rng.between(1, 50) * MS,
                }
            };
            self.world.pause(wait);
        }
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let flaky = cluster.machines[self.machine].flaky_until > kernel.now;
        if flaky && kernel.rng.permille(60) {
            let code = kernel.rng.pick(&[libc::EIO, libc::EIO, libc::ESTALE]);
            kernel.trace("fault", || format!("{what} fails with errno {code}"));
            return Err(errno(code));
        }
        Ok(())
    }

    /// Whether the answer to a call that was carried out is lost, so that the call is repeated.
    fn reply_lost(&self, kernel: &mut Kernel, cluster: &Cluster) -> bool {
        let flaky = cluster.machines[self.machine].flaky_until > kernel.now;
        let lost = flaky && kernel.rng.permille(200);
        if lost {
            kernel.trace("fault", || "the reply is lost, the call is repeated".into());
        }
        lost
    }

    /// Whether the share has room for another file.
    fn check_space(kernel: &Kernel, cluster: &Cluster) -> Result<(), Errno> {
        match cluster.server.full_until > kernel.now {
            true => Err(cluster.server.full_errno),
            false => Ok(()),
        }
    }

    /// Notes that the server reported that a name does not exist: the machine considers it missing
    /// for a while.
    fn cache_missing(&self, kernel: &mut Kernel, cluster: &mut Cluster, key: Entry) {
        let until = kernel.now + kernel.rng.below(cluster.plan.caches.missing_ms + 1) * MS;
        let cache = &mut cluster.machines[self.machine].cache;
        cache.missing.insert(key, until);
    }

    fn open_share(&self, path: &str, mode: &OpenMode) -> io::Result<Box<dyn Handle>> {
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let now = kernel.now;
        let (dir, name) = cluster.share.parent(path).map_err(errno)?;
        let key = (dir, name.to_owned());
        let cache = &cluster.machines[self.machine].cache;
        if !mode.create && cache.is_missing(&key, now) {
            return Err(errno(libc::ENOENT));
        }
        let ino = match cluster.share.child(dir, name) {
            Ok(_) if mode.exclusive => return Err(errno(libc::EEXIST)),
            Ok(ino) => ino,
            Err(libc::ENOENT) if mode.create => {
                Self::check_space(kernel, cluster).map_err(errno)?;
                let now_ms = kernel.server_ms();
                let made = cluster.share.create(dir, name, mode.mode, self.uid, now_ms);
                let made = made.map_err(errno)?;
                self.forget_entry(cluster, &key);
                if mode.exclusive && self.reply_lost(kernel, cluster) {
                    return Err(errno(libc::EEXIST));
                }
                made
            }
            Err(code) => {
                if code == libc::ENOENT {
                    self.cache_missing(kernel, cluster, key);
                }
                return Err(errno(code));
            }
        };
        let cache = &mut cluster.machines[self.machine].cache;
        cache.missing.remove(&key);
        if cluster.share.node(ino).map_err(errno)?.entries.is_some() {
            return Err(errno(libc::EISDIR));
        }
        if path.starts_with("/inbox/") && cluster.role_of(self.proc) == Some(Role::Leader) {
            let checks = &mut cluster.history.file_checks;
            checks.opened(kernel, self.proc, path);
        }
        let view = self.fetch(kernel, cluster, ino, true);
        let size = view.len() as u64;
        let id = cluster.handles.add(ino, self.machine);
        let state = HandleState {
            view,
            offset: now,
            size,
        };
        Ok(Box::new(ShareFile {
            os: self.clone(),
            id,
            ino,
            path: path.to_owned(),
            direct: mode.direct,
            state: std::sync::Mutex::new(state),
        }))
    }

    /// Notes that this machine changed an entry of a directory: what it had cached of it is
    /// invalid.
    fn forget_entry(&self, cluster: &mut Cluster, entry: &Entry) {
        let cache = &mut cluster.machines[self.machine].cache;
        cache.lists.remove(&entry.0);
        cache.missing.remove(entry);
    }

    /// Changes names on the share or the local disk. `work` receives the disk, its time and whether
    /// it has room, and returns the entries that it changed; `repeated`: the server's answer to a
    /// repetition of the call.
    fn change(
        &self,
        what: &'static str,
        at: FileSystemPath<'_>,
        repeated: Option<Errno>,
        work: impl FnOnce(&mut Disk, i64, Result<(), Errno>) -> Result<Vec<Entry>, Errno>,
    ) -> io::Result<()> {
        self.call(what, at)?;
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let now = kernel.server_ms();
        let FileSystemPath::Share(path) = at else {
            let disk = &mut cluster.machines[self.machine].local;
            return work(disk, now, Ok(())).map(drop).map_err(errno);
        };
        let room = Self::check_space(kernel, cluster);
        let changed = work(&mut cluster.share, now, room).map_err(errno)?;
        changed.iter().for_each(|e| self.forget_entry(cluster, e));
        if what == "unlink" && cluster.role_of(self.proc) == Some(Role::Leader) {
            let wrong = cluster.history.file_checks.removed(path);
            cluster.history.all_broken(kernel, wrong);
        }
        match repeated {
            Some(code) if self.reply_lost(kernel, cluster) => Err(errno(code)),
            _ => Ok(()),
        }
    }

    /// The file's content as this machine sees it. `open`: this is an open, which asks the server
    /// unless the client may use old cached content (`open_stale_ms`).
    pub(super) fn fetch(
        &self,
        kernel: &mut Kernel,
        cluster: &mut Cluster,
        ino: Ino,
        open: bool,
    ) -> Arc<Vec<u8>> {
        let open_stale_us = cluster.plan.caches.open_stale_ms * MS;
        let cache = &mut cluster.machines[self.machine].cache;
        let known = cache.files.get(&ino);
        let fresh =
            known.filter(|c| open && kernel.now.saturating_sub(c.cached_at) < open_stale_us);
        let data = match fresh {
            Some(cached) if kernel.rng.permille(500) => cached.data.clone(),
            _ => {
                let Ok(node) = cluster.share.node(ino) else {
                    return Arc::default();
                };
                let data = node.data.clone();
                let ms = kernel.rng.below(cluster.plan.caches.attributes_ms + 1);
                let cached = CachedFile {
                    data: data.clone(),
                    cached_at: kernel.now,
                    attributes_until: kernel.now + ms * MS,
                };
                cache.files.insert(ino, cached);
                data
            }
        };
        with_dirty(&cluster.machines[self.machine], ino, data)
    }

    fn open_local(&self, path: &str, mode: &OpenMode) -> io::Result<Box<dyn Handle>> {
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let now = kernel.server_ms();
        let disk = &mut cluster.machines[self.machine].local;
        let (dir, name) = disk.parent(path).map_err(errno)?;
        let ino = match disk.child(dir, name) {
            Ok(_) if mode.exclusive => return Err(errno(libc::EEXIST)),
            Ok(ino) => ino,
            Err(libc::ENOENT) if mode.create => disk
                .create(dir, name, mode.mode, self.uid, now)
                .map_err(errno)?,
            Err(code) => return Err(errno(code)),
        };
        let id = cluster.handles.add(0, self.machine);
        Ok(Box::new(LocalFile {
            os: self.clone(),
            id,
            ino,
            path: path.to_owned(),
        }))
    }

    pub(super) fn stat_of(
        &self,
        disk: &disk::Disk,
        ino: Ino,
        len: Option<u64>,
    ) -> io::Result<Stat> {
        let node = disk.node(ino).map_err(errno)?;
        let kind = match node.entries {
            Some(_) => Kind::Dir,
            None => Kind::File,
        };
        Ok(Stat {
            kind,
            len: len.unwrap_or(node.data.len() as u64),
            mtime_ms: node.mtime_ms,
            uid: node.uid,
            gid: 1000,
            mode: node.mode,
            ino,
            dev: 1,
            nlink: node.names,
        })
    }

    /// Both names of a call, which must be on one file system.
    fn both_paths<'p>(
        &self,
        from: &'p Path,
        to: &'p Path,
    ) -> io::Result<(FileSystemPath<'p>, &'p str)> {
        match (FileSystemPath::of(from)?, FileSystemPath::of(to)?) {
            (FileSystemPath::Share(from), FileSystemPath::Share(to)) => {
                Ok((FileSystemPath::Share(from), to))
            }
            (FileSystemPath::Local(from), FileSystemPath::Local(to)) => {
                Ok((FileSystemPath::Local(from), to))
            }
            _ => Err(errno(libc::EXDEV)),
        }
    }
}

/// The content on the server, overlaid by what this machine has written and not sent.
fn with_dirty(machine: &Machine, ino: Ino, data: Arc<Vec<u8>>) -> Arc<Vec<u8>> {
    let Some(writes) = machine.cache.dirty.get(&ino) else {
        return data;
    };
    let mut own = (*data).clone();
    for (offset, bytes, _) in writes {
        disk::put(&mut own, *offset, bytes);
    }
    Arc::new(own)
}

impl platform::Machine for SimulatedOs {
    fn open(&self, path: &Path, mode: &OpenMode) -> io::Result<Box<dyn Handle>> {
        let at = FileSystemPath::of(path)?;
        self.call(if mode.create { "create" } else { "open" }, at)?;
        match at {
            FileSystemPath::Share(path) => self.open_share(path, mode),
            FileSystemPath::Local(path) => self.open_local(path, mode),
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let at = FileSystemPath::of(path)?;
        self.call("stat", at)?;
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let path = match at {
            FileSystemPath::Local(path) => {
                let local = &cluster.machines[self.machine].local;
                let ino = local.find(path).map_err(errno)?;
                return self.stat_of(local, ino, None);
            }
            FileSystemPath::Share(path) => path,
        };
        let (dir, name) = cluster.share.parent(path).map_err(errno)?;
        let key = (dir, name.to_owned());
        let now = kernel.now;
        if cluster.machines[self.machine].cache.is_missing(&key, now) {
            return Err(errno(libc::ENOENT));
        }
        let ino = match cluster.share.find(path) {
            Ok(ino) => ino,
            Err(code) => {
                self.cache_missing(kernel, cluster, key);
                return Err(errno(code));
            }
        };
        let machine = &cluster.machines[self.machine];
        let cached = machine.cache.files.get(&ino);
        let len = match cached.filter(|c| c.attributes_until > now) {
            Some(c) => with_dirty(machine, ino, c.data.clone()).len(),
            None => self.fetch(kernel, cluster, ino, false).len(),
        };
        self.stat_of(&cluster.share, ino, Some(len as u64))
    }

    fn stat_now(&self, path: &Path) -> io::Result<Stat> {
        let at = FileSystemPath::of(path)?;
        let FileSystemPath::Share(inside) = at else {
            return self.stat(path);
        };
        self.call("stat", at)?;
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let (dir, name) = cluster.share.parent(inside).map_err(errno)?;
        let cache = &mut cluster.machines[self.machine].cache;
        // A name considered missing is not looked up, regardless of the flags of the call.
        if cache.is_missing(&(dir, name.to_owned()), kernel.now) {
            return Err(errno(libc::ENOENT));
        }
        let ino = cluster.share.find(inside).map_err(errno)?;
        // A client that learns of a change of a directory forgets its names.
        cache.lists.remove(&ino);
        let len = self.fetch(kernel, cluster, ino, false).len();
        self.stat_of(&cluster.share, ino, Some(len as u64))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (at, to) = self.both_paths(from, to)?;
        self.change("rename", at, Some(libc::ENOENT), |disk, now, _| {
            let (a, b) = (disk.parent(at.path())?, disk.parent(to)?);
            disk.rename(a, b, now)?;
            Ok(vec![(a.0, a.1.to_owned()), (b.0, b.1.to_owned())])
        })?;
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        cluster.history.file_checks.renamed(kernel, at.path());
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (at, to) = self.both_paths(from, to)?;
        self.change("link", at, Some(libc::EEXIST), |disk, now, room| {
            room?;
            let ino = disk.find(at.path())?;
            let (dir, name) = disk.parent(to)?;
            disk.link(ino, dir, name, now)?;
            Ok(vec![(dir, name.to_owned())])
        })
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let at = FileSystemPath::of(path)?;
        self.change("unlink", at, Some(libc::ENOENT), |disk, now, _| {
            let (dir, name) = disk.parent(at.path())?;
            disk.unlink(dir, name, now)?;
            Ok(vec![(dir, name.to_owned())])
        })
    }

    fn mkdir(&self, path: &Path, mode: u32) -> io::Result<()> {
        let at = FileSystemPath::of(path)?;
        self.change("mkdir", at, Some(libc::EEXIST), |disk, now, room| {
            let (dir, name) = disk.parent(at.path())?;
            if disk.child(dir, name).is_err() {
                room?;
            }
            disk.mkdir(dir, name, mode, self.uid, now)?;
            Ok(vec![(dir, name.to_owned())])
        })
    }

    fn rmdir(&self, path: &Path) -> io::Result<()> {
        let at = FileSystemPath::of(path)?;
        self.change("rmdir", at, None, |disk, now, _| {
            let (dir, name) = disk.parent(at.path())?;
            disk.rmdir(dir, name, now)?;
            Ok(vec![(dir, name.to_owned())])
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, bool)>> {
        let at = FileSystemPath::of(path)?;
        self.call("list", at)?;
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let read = |disk: &Disk, path: &str| -> Result<(Ino, Vec<(String, bool)>), Errno> {
            let ino = disk.find(path)?;
            let entries = disk.node(ino)?.entries.as_ref().ok_or(libc::ENOTDIR)?;
            let is_dir = |ino: &Ino| disk.node(*ino).is_ok_and(|n| n.entries.is_some());
            let all = entries.iter().map(|(n, i)| (n.clone(), is_dir(i)));
            Ok((ino, all.collect()))
        };
        let machine = &mut cluster.machines[self.machine];
        let names = match at {
            FileSystemPath::Local(path) => read(&machine.local, path).map_err(errno)?.1,
            FileSystemPath::Share(path) => {
                let (ino, fresh) = read(&cluster.share, path).map_err(errno)?;
                let lists = &mut machine.cache.lists;
                match lists.get(&ino).filter(|(_, until)| *until > kernel.now) {
                    Some((old, _)) => old.clone(),
                    None => {
                        let ms = kernel.rng.below(cluster.plan.caches.list_ms + 1);
                        lists.insert(ino, (fresh.clone(), kernel.now + ms * MS));
                        fresh
                    }
                }
            }
        };
        let os_name = |(name, is_dir)| (OsString::from(name), is_dir);
        Ok(names.into_iter().map(os_name).collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call("syncdir", FileSystemPath::of(path)?)
    }

    fn fs_kind(&self, path: &Path) -> FsKind {
        match FileSystemPath::of(path) {
            Ok(FileSystemPath::Share(_)) => FsKind::Nfs,
            _ => FsKind::Local,
        }
    }

    fn wall_ms(&self) -> i64 {
        let inner = self.lock();
        inner.kernel.server_ms() + inner.cluster.machines[self.machine].wall_offset_ms
    }

    fn boot_ns(&self) -> u128 {
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let machine = &mut cluster.machines[self.machine];
        if std::thread::panicking() {
            // A thread that unwinds waits for nothing.
            machine.counter += 1;
            return u128::from(kernel.now + machine.counter * 1_000_000_000) * 1000;
        }
        // Every machine has been up for a while, each for a different time.
        let up = kernel.now.saturating_sub(machine.booted_at) + 50_000_000;
        let up = up + 1_000_000 * self.machine as u64;
        u128::from(up) * 1000
    }

    fn sleep_us(&self, us: u64) {
        self.world.pause(us.max(1));
    }

    fn random(&self, buf: &mut [u8]) {
        let mut inner = self.lock();
        for b in buf {
            *b = inner.kernel.rng.draw() as u8;
        }
    }

    fn uid(&self) -> u32 {
        self.uid
    }

    fn pid(&self) -> u32 {
        100 + self.proc as u32
    }

    fn boot_id(&self) -> &'static str {
        self.lock().cluster.machines[self.machine].boot_id
    }

    fn counter(&self) -> u64 {
        let mut inner = self.lock();
        let machine = &mut inner.cluster.machines[self.machine];
        machine.counter += 1;
        machine.counter
    }

    fn name(&self) -> &'static str {
        self.lock().cluster.machines[self.machine].name
    }

    fn spawn(&self, name: &str, f: Box<dyn FnOnce() + Send>) {
        if std::thread::panicking() {
            return;
        }
        let mut inner = self.lock();
        let full = format!("{}:{name}", inner.kernel.procs[self.proc].name);
        let os = self.clone();
        let body = move || {
            platform::enter(Arc::new(os));
            f();
        };
        let at = inner.kernel.now + 10;
        let world = self.world.clone();
        world.start(&mut inner, self.proc, full, at, Box::new(body));
    }

    fn exit(&self, code: i32) -> ! {
        {
            let mut inner = self.lock();
            let name = inner.kernel.procs[self.proc].name.clone();
            inner.kernel.trace(&name, || format!("exits with {code}"));
            inner.kernel.kill(self.proc);
        }
        std::panic::resume_unwind(Box::new(ProcessEnded))
    }

    fn began_at(&self, pid: i32, started_ms: u64) -> bool {
        let inner = self.lock();
        inner.cluster.tasks.is_alive(self.machine, pid, started_ms)
    }

    fn send_order(&self, pid: i32, value: u64) -> bool {
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        cluster.tasks.order(kernel, self.machine, pid, value)
    }
}
