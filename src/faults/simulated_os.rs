//! What a simulated process calls instead of the operating system: the client side of the shared
//! file system with its caches, the local disk, the clocks.
//!
//! One `Port` belongs to one thread. Every file operation takes time, in which others run, and may
//! meet the faults of its machine and of the server.

use super::cluster::{BEGIN_MS, Cached, Machine, Role, Scene};
use super::disk::{self, Ino};
use super::open_file::{HandleState, LocalFile, ShareFile};
use super::world::{Core, Gone, Inner, ProcId, World, me};
use crate::sys::file::{Handle, How};
use crate::sys::fs::{Kind, Stat};
use crate::sys::platform;
use crate::sys::statfs::FsKind;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::{Arc, MutexGuard};

pub(super) const SHARE: &str = "/share";
pub(super) const LOCAL: &str = "/local";
pub(super) const MS: u64 = 1000;

/// A thread's way out of its process.
#[derive(Clone)]
pub(super) struct Port {
    pub world: Arc<World>,
    pub proc: ProcId,
    pub machine: usize,
    pub boot: u32,
    pub uid: u32,
}

/// Where a path lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'p> {
    Share(&'p str),
    Local(&'p str),
}

pub(super) fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

fn place(path: &Path) -> io::Result<Place<'_>> {
    let text = path.to_str().ok_or_else(|| errno(libc::EINVAL))?;
    if let Some(rest) = text.strip_prefix(SHARE) {
        return Ok(Place::Share(rest));
    }
    if let Some(rest) = text.strip_prefix(LOCAL) {
        return Ok(Place::Local(rest));
    }
    Err(errno(libc::ENOENT))
}

/// Not a look at this host's own files.
fn remote_or_write(on: Place<'_>, what: &str) -> bool {
    matches!(on, Place::Share(_)) || matches!(what, "append" | "write" | "fsync")
}

pub(super) fn server_ms(core: &Core) -> i64 {
    BEGIN_MS + (core.now / MS) as i64
}

impl Port {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.world.lock()
    }

    /// Lets a call take its time, on the way hangs where the share does not answer, and fails where
    /// the machine is flaky.
    pub(super) fn call(&self, what: &'static str, on: Place<'_>) -> io::Result<()> {
        if std::thread::panicking() {
            return Err(errno(libc::EIO));
        }
        let remote = matches!(on, Place::Share(_));
        let us = {
            let mut inner = self.lock();
            let Inner { core, scene } = &mut *inner;
            // Looking changes nothing: only what writes counts as a step.
            if !matches!(what, "open" | "read" | "stat" | "list") {
                scene.step(core);
            }
            let (Place::Share(path) | Place::Local(path)) = on;
            let mut late = 0;
            let watched = scene.ambush.is_some() || !scene.plan.script.is_empty();
            if watched && remote_or_write(on, what) {
                late = scene.spring(core, self.proc, what, path);
            }
            core.mark(me() as u64);
            let who = &core.procs[self.proc].name.clone();
            core.say(who, || format!("{what} {}", path.trim_start_matches('/')));
            let base = if remote {
                core.rng.between(200, 1500)
            } else {
                core.rng.between(5, 40)
            };
            let base = match remote && scene.server.slow_until > core.now {
                true => base * scene.server.slow_by.min(2_000_000 / base),
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
                let now = inner.core.now;
                match inner.scene.hangs_until(self.machine, now) {
                    0 => break,
                    until => until - now + inner.core.rng.between(1, 50) * MS,
                }
            };
            self.world.pause(wait);
        }
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let flaky = scene.machines[self.machine].flaky_until > core.now;
        if flaky && core.rng.permille(60) {
            let code = core.rng.pick(&[libc::EIO, libc::EIO, libc::ESTALE]);
            core.say("fault", || format!("{what} fails with errno {code}"));
            return Err(errno(code));
        }
        Ok(())
    }

    /// Whether the answer to a call that was carried out is lost, so that a second one is given.
    fn reply_lost(&self, core: &mut Core, scene: &Scene) -> bool {
        let flaky = scene.machines[self.machine].flaky_until > core.now;
        let lost = flaky && core.rng.permille(200);
        if lost {
            core.say("fault", || "the reply is lost, the call is repeated".into());
        }
        lost
    }

    fn full(&self, core: &Core, scene: &Scene) -> io::Result<()> {
        match scene.server.full_until > core.now {
            true => Err(errno(scene.server.full_errno)),
            false => Ok(()),
        }
    }

    fn open_share(&self, path: &str, how: &How) -> io::Result<Box<dyn Handle>> {
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let now = core.now;
        let (dir, name) = scene.share.parent(path).map_err(errno)?;
        let key = (dir, name.to_owned());
        let machine = &mut scene.machines[self.machine];
        if !how.create && machine.missing.get(&key).is_some_and(|until| *until > now) {
            return Err(errno(libc::ENOENT));
        }
        let found = scene.share.child(dir, name);
        let ino = match found {
            Ok(_) if how.exclusive => return Err(errno(libc::EEXIST)),
            Ok(ino) => ino,
            Err(libc::ENOENT) if how.create => {
                self.full(core, scene)?;
                let made = scene
                    .share
                    .create(dir, name, how.mode, self.uid, server_ms(core))
                    .map_err(errno)?;
                self.forget_dir(scene, dir, name);
                if how.exclusive && self.reply_lost(core, scene) {
                    return Err(errno(libc::EEXIST));
                }
                made
            }
            Err(code) => {
                if code == libc::ENOENT {
                    let until = now + core.rng.below(scene.plan.missing_ms + 1) * MS;
                    scene.machines[self.machine].missing.insert(key, until);
                }
                return Err(errno(code));
            }
        };
        scene.machines[self.machine].missing.remove(&key);
        if scene.share.node(ino).map_err(errno)?.entries.is_some() {
            return Err(errno(libc::EISDIR));
        }
        if path.starts_with("/inbox/") && scene.role_of(self.proc) == Some(Role::Leader) {
            scene.history.evidence.opened(core, self.proc, path);
        }
        let view = self.fetch(core, scene, ino, true);
        let size = view.len() as u64;
        let id = scene.new_handle(ino, self.machine);
        let state = HandleState {
            view,
            at: now,
            size,
        };
        Ok(Box::new(ShareFile {
            port: self.clone(),
            id,
            ino,
            path: path.to_owned(),
            direct: how.direct,
            state: std::sync::Mutex::new(state),
        }))
    }

    /// A directory's entry was changed by this machine: what it knew of it is void.
    fn forget_dir(&self, scene: &mut Scene, dir: Ino, name: &str) {
        let machine = &mut scene.machines[self.machine];
        machine.lists.remove(&dir);
        machine.missing.remove(&(dir, name.to_owned()));
    }

    /// The file's content as this machine sees it. `open`: this is an open, which asks the server
    /// unless the client is lax.
    pub(super) fn fetch(
        &self,
        core: &mut Core,
        scene: &mut Scene,
        ino: Ino,
        open: bool,
    ) -> Arc<Vec<u8>> {
        let lax = scene.plan.lax_ms * MS;
        let known = scene.machines[self.machine].files.get(&ino);
        let fresh = known.filter(|c| open && core.now.saturating_sub(c.at) < lax);
        let data = match fresh {
            Some(cached) if core.rng.permille(500) => cached.data.clone(),
            _ => {
                let Ok(node) = scene.share.node(ino) else {
                    return Arc::default();
                };
                let data = node.data.clone();
                let facts_until = core.now + core.rng.below(scene.plan.facts_ms + 1) * MS;
                let (at, copy) = (core.now, data.clone());
                let cached = Cached {
                    data: copy,
                    at,
                    facts_until,
                };
                scene.machines[self.machine].files.insert(ino, cached);
                data
            }
        };
        with_dirty(&scene.machines[self.machine], ino, data)
    }

    fn open_local(&self, path: &str, how: &How) -> io::Result<Box<dyn Handle>> {
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let now = server_ms(core);
        let disk = &mut scene.machines[self.machine].local;
        let (dir, name) = disk.parent(path).map_err(errno)?;
        let ino = match disk.child(dir, name) {
            Ok(_) if how.exclusive => return Err(errno(libc::EEXIST)),
            Ok(ino) => ino,
            Err(libc::ENOENT) if how.create => disk
                .create(dir, name, how.mode, self.uid, now)
                .map_err(errno)?,
            Err(code) => return Err(errno(code)),
        };
        let id = scene.new_handle(0, self.machine);
        Ok(Box::new(LocalFile {
            port: self.clone(),
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

    /// Both names of a call, which must lie on one file system.
    fn pair<'p>(&self, from: &'p Path, to: &'p Path) -> io::Result<(Place<'p>, &'p str)> {
        match (place(from)?, place(to)?) {
            (Place::Share(from), Place::Share(to)) => Ok((Place::Share(from), to)),
            (Place::Local(from), Place::Local(to)) => Ok((Place::Local(from), to)),
            _ => Err(errno(libc::EXDEV)),
        }
    }
}

/// What this machine has written and not sent lies over what the server has.
fn with_dirty(machine: &Machine, ino: Ino, data: Arc<Vec<u8>>) -> Arc<Vec<u8>> {
    let Some(writes) = machine.dirty.get(&ino) else {
        return data;
    };
    let mut own = (*data).clone();
    for (offset, bytes, _) in writes {
        disk::put(&mut own, *offset, bytes);
    }
    Arc::new(own)
}

impl platform::Machine for Port {
    fn open(&self, path: &Path, how: &How) -> io::Result<Box<dyn Handle>> {
        let at = place(path)?;
        self.call(if how.create { "create" } else { "open" }, at)?;
        match at {
            Place::Share(path) => self.open_share(path, how),
            Place::Local(path) => self.open_local(path, how),
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let at = place(path)?;
        self.call("stat", at)?;
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let path = match at {
            Place::Local(path) => {
                let local = &scene.machines[self.machine].local;
                let ino = local.find(path).map_err(errno)?;
                return self.stat_of(local, ino, None);
            }
            Place::Share(path) => path,
        };
        let (dir, name) = scene.share.parent(path).map_err(errno)?;
        let key = (dir, name.to_owned());
        let now = core.now;
        let machine = &scene.machines[self.machine];
        if machine.missing.get(&key).is_some_and(|until| *until > now) {
            return Err(errno(libc::ENOENT));
        }
        let ino = match scene.share.find(path) {
            Ok(ino) => ino,
            Err(code) => {
                let until = now + core.rng.below(scene.plan.missing_ms + 1) * MS;
                scene.machines[self.machine].missing.insert(key, until);
                return Err(errno(code));
            }
        };
        let cached = scene.machines[self.machine].files.get(&ino);
        let len = match cached.filter(|c| c.facts_until > now) {
            Some(c) => {
                let data = c.data.clone();
                with_dirty(&scene.machines[self.machine], ino, data).len()
            }
            None => self.fetch(core, scene, ino, false).len(),
        };
        self.stat_of(&scene.share, ino, Some(len as u64))
    }

    fn stat_now(&self, path: &Path) -> io::Result<Stat> {
        let at = place(path)?;
        let Place::Share(inside) = at else {
            return self.stat(path);
        };
        self.call("stat", at)?;
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let (dir, name) = scene.share.parent(inside).map_err(errno)?;
        let machine = &mut scene.machines[self.machine];
        // A name believed missing is not asked for, whatever the flags of the call.
        let key = (dir, name.to_owned());
        if machine.missing.get(&key).is_some_and(|t| *t > core.now) {
            return Err(errno(libc::ENOENT));
        }
        let ino = scene.share.find(inside).map_err(errno)?;
        // A client that learns of a directory's change forgets its names.
        scene.machines[self.machine].lists.remove(&ino);
        let len = self.fetch(core, scene, ino, false).len();
        self.stat_of(&scene.share, ino, Some(len as u64))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (at, to) = self.pair(from, to)?;
        self.call("rename", at)?;
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let now = server_ms(core);
        match at {
            Place::Local(from) => {
                let disk = &mut scene.machines[self.machine].local;
                let a = disk.parent(from).map_err(errno)?;
                let b = disk.parent(to).map_err(errno)?;
                disk.rename(a, b, now).map_err(errno)
            }
            Place::Share(from) => {
                let a = scene.share.parent(from).map_err(errno)?;
                let b = scene.share.parent(to).map_err(errno)?;
                scene.share.rename(a, b, now).map_err(errno)?;
                self.forget_dir(scene, a.0, a.1);
                self.forget_dir(scene, b.0, b.1);
                match self.reply_lost(core, scene) {
                    true => Err(errno(libc::ENOENT)),
                    false => Ok(()),
                }
            }
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (at, to) = self.pair(from, to)?;
        self.call("link", at)?;
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let now = server_ms(core);
        match at {
            Place::Local(from) => {
                let disk = &mut scene.machines[self.machine].local;
                let ino = disk.find(from).map_err(errno)?;
                let (dir, name) = disk.parent(to).map_err(errno)?;
                disk.link(ino, dir, name, now).map_err(errno)
            }
            Place::Share(from) => {
                self.full(core, scene)?;
                let ino = scene.share.find(from).map_err(errno)?;
                let (dir, name) = scene.share.parent(to).map_err(errno)?;
                scene.share.link(ino, dir, name, now).map_err(errno)?;
                self.forget_dir(scene, dir, name);
                match self.reply_lost(core, scene) {
                    true => Err(errno(libc::EEXIST)),
                    false => Ok(()),
                }
            }
        }
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let at = place(path)?;
        self.call("unlink", at)?;
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let now = server_ms(core);
        match at {
            Place::Local(path) => {
                let disk = &mut scene.machines[self.machine].local;
                let (dir, name) = disk.parent(path).map_err(errno)?;
                disk.unlink(dir, name, now).map_err(errno)
            }
            Place::Share(path) => {
                let (dir, name) = scene.share.parent(path).map_err(errno)?;
                scene.share.unlink(dir, name, now).map_err(errno)?;
                self.forget_dir(scene, dir, name);
                if scene.role_of(self.proc) == Some(Role::Leader) {
                    let wrong = scene.history.evidence.removed(path);
                    scene.history.all_broken(core, wrong);
                }
                match self.reply_lost(core, scene) {
                    true => Err(errno(libc::ENOENT)),
                    false => Ok(()),
                }
            }
        }
    }

    fn mkdir(&self, path: &Path, mode: u32) -> io::Result<()> {
        let at = place(path)?;
        self.call("mkdir", at)?;
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let now = server_ms(core);
        match at {
            Place::Local(path) => {
                let disk = &mut scene.machines[self.machine].local;
                let (dir, name) = disk.parent(path).map_err(errno)?;
                disk.mkdir(dir, name, mode, self.uid, now).map_err(errno)
            }
            Place::Share(path) => {
                let (dir, name) = scene.share.parent(path).map_err(errno)?;
                if scene.share.child(dir, name).is_err() {
                    self.full(core, scene)?;
                }
                let made = scene.share.mkdir(dir, name, mode, self.uid, now);
                made.map_err(errno)?;
                self.forget_dir(scene, dir, name);
                match self.reply_lost(core, scene) {
                    true => Err(errno(libc::EEXIST)),
                    false => Ok(()),
                }
            }
        }
    }

    fn rmdir(&self, path: &Path) -> io::Result<()> {
        let at = place(path)?;
        self.call("rmdir", at)?;
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let now = server_ms(core);
        let disk = match at {
            Place::Local(_) => &mut scene.machines[self.machine].local,
            Place::Share(_) => &mut scene.share,
        };
        let (Place::Share(path) | Place::Local(path)) = at;
        let (dir, name) = disk.parent(path).map_err(errno)?;
        let name = name.to_owned();
        disk.rmdir(dir, &name, now).map_err(errno)?;
        if matches!(at, Place::Share(_)) {
            self.forget_dir(scene, dir, &name);
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, bool)>> {
        let at = place(path)?;
        self.call("list", at)?;
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let read = |disk: &disk::Disk, path: &str| -> io::Result<(Ino, Vec<(String, bool)>)> {
            let ino = disk.find(path).map_err(errno)?;
            let node = disk.node(ino).map_err(errno)?;
            let entries = node.entries.as_ref().ok_or_else(|| errno(libc::ENOTDIR))?;
            let is_dir = |ino: &Ino| disk.node(*ino).is_ok_and(|n| n.entries.is_some());
            let all = entries.iter().map(|(n, i)| (n.clone(), is_dir(i)));
            Ok((ino, all.collect()))
        };
        let names = match at {
            Place::Local(path) => read(&scene.machines[self.machine].local, path)?.1,
            Place::Share(path) => {
                let (ino, fresh) = read(&scene.share, path)?;
                let now = core.now;
                let lists = &mut scene.machines[self.machine].lists;
                match lists.get(&ino).filter(|(_, until)| *until > now) {
                    Some((old, _)) => old.clone(),
                    None => {
                        let until = now + core.rng.below(scene.plan.list_ms + 1) * MS;
                        lists.insert(ino, (fresh.clone(), until));
                        fresh
                    }
                }
            }
        };
        Ok(names
            .into_iter()
            .map(|(name, is_dir)| (OsString::from(name), is_dir))
            .collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call("syncdir", place(path)?)
    }

    fn fs_kind(&self, path: &Path) -> FsKind {
        match place(path) {
            Ok(Place::Share(_)) => FsKind::Nfs,
            _ => FsKind::Local,
        }
    }

    fn wall_ms(&self) -> i64 {
        let inner = self.lock();
        server_ms(&inner.core) + inner.scene.machines[self.machine].wall_offset_ms
    }

    fn boot_ns(&self) -> u128 {
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        let machine = &mut scene.machines[self.machine];
        if std::thread::panicking() {
            // What unwinds waits for nothing.
            machine.counter += 1;
            return u128::from(core.now + machine.counter * 1_000_000_000) * 1000;
        }
        // Every machine has been up for a while, each for another one.
        let up = core.now.saturating_sub(machine.booted_at) + 50_000_000;
        let up = up + 1_000_000 * self.machine as u64;
        u128::from(up) * 1000
    }

    fn sleep_us(&self, us: u64) {
        self.world.pause(us.max(1));
    }

    fn random(&self, buf: &mut [u8]) {
        let mut inner = self.lock();
        for b in buf {
            *b = inner.core.rng.draw() as u8;
        }
    }

    fn uid(&self) -> u32 {
        self.uid
    }

    fn pid(&self) -> u32 {
        100 + self.proc as u32
    }

    fn boot_id(&self) -> &'static str {
        self.lock().scene.machines[self.machine].boot_id
    }

    fn counter(&self) -> u64 {
        let mut inner = self.lock();
        let machine = &mut inner.scene.machines[self.machine];
        machine.counter += 1;
        machine.counter
    }

    fn name(&self) -> &'static str {
        self.lock().scene.machines[self.machine].name
    }

    fn spawn(&self, name: &str, f: Box<dyn FnOnce() + Send>) {
        if std::thread::panicking() {
            return;
        }
        let mut inner = self.lock();
        let full = format!("{}:{name}", inner.core.procs[self.proc].name);
        let port = self.clone();
        let body = move || {
            platform::enter(Arc::new(port));
            f();
        };
        let at = inner.core.now + 10;
        let world = self.world.clone();
        world.start(&mut inner, self.proc, full, at, Box::new(body));
    }

    fn exit(&self, code: i32) -> ! {
        {
            let mut inner = self.lock();
            let name = inner.core.procs[self.proc].name.clone();
            inner.core.say(&name, || format!("exits with {code}"));
            inner.core.kill(self.proc);
        }
        std::panic::resume_unwind(Box::new(Gone))
    }

    fn began_at(&self, pid: i32, born: u64) -> bool {
        let inner = self.lock();
        inner.scene.tasks.lives(self.machine, pid, born)
    }

    fn send_order(&self, pid: i32, value: u64) -> bool {
        let mut inner = self.lock();
        let Inner { core, scene } = &mut *inner;
        scene.tasks.order(core, self.machine, pid, value)
    }
}
