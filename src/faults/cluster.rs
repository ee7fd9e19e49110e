//! What the simulated world is made of: machines, the file server, processes to be kept alive,
//! and the things that happen to them. Decides when faults come and when the calm begins.

use super::disk::{Disk, HandleId, Ino};
use super::history::History;
use super::injector::{Ambush, When};
use super::plan::Plan;
use super::processes;
use super::tasks::Tasks;
use super::world::{Core, Inner, ProcId, World};
use crate::record::leader::ClusterDoc;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// Wall clock at the begin of the world, ms: a moment of the year 2026.
pub(super) const BEGIN_MS: i64 = 1_795_000_000_000;
pub(super) const MS: u64 = 1000;
const S: u64 = 1_000_000;
/// How long (µs) everything may take after the faults have ended.
const CALM_US: u64 = 900 * S;
/// Between two looks whether all is done, µs.
const LOOK_US: u64 = S;

/// What a process is for; a supervisor starts it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Setup,
    Leader,
    Executor,
    Load,
    Shepherds,
    Person,
    /// Who confirms that a share was restored.
    Restorer,
}

/// A process that should run.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub role: Role,
    pub machine: usize,
    pub proc: Option<ProcId>,
    /// It ended for good.
    pub done: bool,
    /// How often it was started.
    pub starts: u64,
}

/// What a machine's client knows of a file.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub data: Arc<Vec<u8>>,
    pub at: u64,
    /// Facts of the file are believed until then (µs).
    pub facts_until: u64,
}

/// A directory as it was read, and until when that is believed.
pub(super) type Listing = (Vec<(String, bool)>, u64);

/// One machine: its clocks, its local disk, its view of the share.
#[derive(Debug)]
pub(super) struct Machine {
    pub name: &'static str,
    pub boot: u32,
    pub boot_id: &'static str,
    pub booted_at: u64,
    pub wall_offset_ms: i64,
    pub local: Disk,
    pub files: BTreeMap<Ino, Cached>,
    pub lists: BTreeMap<Ino, Listing>,
    pub missing: BTreeMap<(Ino, String), u64>,
    /// Written and not yet sent to the server, with the handle it went through.
    pub dirty: BTreeMap<Ino, Vec<(u64, Vec<u8>, HandleId)>>,
    /// Sending in the background failed: the next sync of the file says so.
    pub failed: BTreeMap<Ino, i32>,
    pub up: bool,
    pub cut_until: u64,
    pub frozen_until: u64,
    /// Since when the server does not hear of it.
    pub silent_since: Option<u64>,
    pub flaky_until: u64,
    pub counter: u64,
}

/// The file server's state.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub down_until: u64,
    pub grace_until: u64,
    pub slow_until: u64,
    pub slow_by: u64,
    pub full_until: u64,
    pub full_errno: i32,
}

/// An open file on the share.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub ino: Ino,
    pub machine: usize,
    /// Its lock was taken away by the server: nothing it writes arrives.
    pub lost: bool,
}

/// What is to happen.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    NextFault,
    Start(usize),
    Boot(usize),
    Reachable(usize),
    ServerUp {
        locks: bool,
        data: bool,
    },
    WriteBack(usize),
    Look,
    /// The next part of a script, if it waits for time.
    Cue,
    PowerOff(usize),
    /// The share is copied; the copy takes its place.
    Copy,
    PutBack,
}

/// Everything there is.
pub(super) struct Scene {
    pub plan: Plan,
    pub share: Disk,
    pub server: Server,
    pub machines: Vec<Machine>,
    pub opens: BTreeMap<HandleId, Open>,
    next_handle: HandleId,
    pub slots: Vec<Slot>,
    happenings: BTreeMap<u64, Happening>,
    next_happening: u64,
    pub history: History,
    pub tasks: Tasks,
    pub cluster: Option<ClusterDoc>,
    pub calm_at: Option<u64>,
    pub faults: BTreeMap<&'static str, u64>,
    pub ambush: Option<Ambush>,
    /// A copy of the share that will take its place.
    pub kept: Option<Box<super::restored_share::Kept>>,
    /// No leader is started before this time (µs).
    pub leaders_from: u64,
    /// The share after every writing operation of the faulty phase, where that is wanted.
    #[cfg(test)]
    pub moments: Option<Vec<super::crash_images::Moment>>,
}

/// One static text for equal texts: names live as long as the program.
pub(super) fn intern(text: &str) -> &'static str {
    static ALL: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = ALL.lock().unwrap_or_else(|p| p.into_inner());
    if let Some(known) = all.get(text) {
        return known;
    }
    let new: &'static str = Box::leak(text.to_owned().into_boxed_str());
    all.insert(new);
    new
}

impl Scene {
    pub(super) fn new(plan: Plan) -> Scene {
        let mut scene = Scene {
            share: Disk::default(),
            server: Server::default(),
            machines: Vec::new(),
            opens: BTreeMap::new(),
            next_handle: 1,
            slots: Vec::new(),
            happenings: BTreeMap::new(),
            next_happening: 0,
            history: History::default(),
            tasks: Tasks::default(),
            cluster: None,
            calm_at: None,
            faults: BTreeMap::new(),
            ambush: None,
            kept: None,
            leaders_from: 0,
            #[cfg(test)]
            moments: None,
            plan,
        };
        scene.history.slots = scene.plan.slots;
        // One hour is the `clean_period` of a cb.yaml that names none.
        scene.history.clocks_jump = 2 * scene.plan.clock_ms >= 3_600_000;
        scene.history.fence_us = scene.plan.iso_ms * MS;
        scene.furnish();
        scene
    }

    fn furnish(&mut self) {
        let (leaders, hosts, people) = (self.plan.leaders, self.plan.hosts, self.plan.people);
        for n in 0..leaders {
            let m = self.add_machine(&format!("m{}", n + 1));
            self.add_slot(Role::Leader, m);
        }
        for n in 0..hosts {
            let m = self.add_machine(&format!("h{}", n + 1));
            self.add_slot(Role::Shepherds, m);
            self.add_slot(Role::Load, m);
            self.add_slot(Role::Executor, m);
        }
        for n in 0..people {
            let m = self.add_machine(&format!("c{}", n + 1));
            self.add_slot(Role::Person, m);
        }
        if self.plan.restore {
            let m = self.add_machine("admin");
            self.add_slot(Role::Restorer, m);
        }
    }

    fn add_machine(&mut self, name: &str) -> usize {
        let n = self.machines.len();
        let offset = self.plan.clock_offset(n);
        self.machines.push(Machine {
            name: intern(name),
            boot: 1,
            boot_id: intern(&format!("{name}-boot1")),
            booted_at: 0,
            wall_offset_ms: offset,
            local: Disk::default(),
            files: BTreeMap::new(),
            lists: BTreeMap::new(),
            missing: BTreeMap::new(),
            dirty: BTreeMap::new(),
            failed: BTreeMap::new(),
            up: true,
            cut_until: 0,
            frozen_until: 0,
            silent_since: None,
            flaky_until: 0,
            counter: 0,
        });
        n
    }

    fn add_slot(&mut self, role: Role, machine: usize) {
        self.slots.push(Slot {
            role,
            machine,
            proc: None,
            done: false,
            starts: 0,
        });
    }

    /// What the process is for, while it is the one of its slot.
    pub(super) fn role_of(&self, proc: ProcId) -> Option<Role> {
        let slot = self.slots.iter().find(|s| s.proc == Some(proc));
        slot.map(|s| s.role)
    }

    pub(super) fn new_handle(&mut self, ino: Ino, machine: usize) -> HandleId {
        let id = self.next_handle;
        self.next_handle += 1;
        self.opens.insert(
            id,
            Open {
                ino,
                machine,
                lost: false,
            },
        );
        id
    }

    /// Until when (µs) a machine's calls to the share hang; 0 = they do not.
    pub(super) fn hangs_until(&self, machine: usize, now: u64) -> u64 {
        let until = self.server.down_until.max(self.machines[machine].cut_until);
        if until > now { until } else { 0 }
    }

    /// Lets something happen at `at`.
    pub(super) fn plan_at(&mut self, core: &mut Core, at: u64, what: Happening) {
        let n = self.next_happening;
        self.next_happening += 1;
        self.happenings.insert(n, what);
        core.event_at(at, n);
    }

    /// Makes something happen.
    pub(super) fn happen(world: &Arc<World>, inner: &mut MutexGuard<'_, Inner>, n: u64) {
        let inner: &mut Inner = inner;
        let Some(what) = inner.scene.happenings.remove(&n) else {
            return;
        };
        let Inner { core, scene } = inner;
        match what {
            Happening::NextFault => scene.next_fault(core),
            Happening::Start(slot) => processes::start(world, inner, slot),
            Happening::Boot(machine) => scene.boot(core, machine),
            Happening::Reachable(machine) => scene.reachable(core, machine),
            Happening::ServerUp { locks, data } => scene.server_up(core, locks, data),
            Happening::WriteBack(machine) => scene.write_back(core, machine),
            Happening::Look => scene.look(core),
            Happening::PowerOff(machine) => scene.power_off(core, machine),
            Happening::Copy => scene.copy_share(core),
            Happening::PutBack => scene.put_back(core),
            Happening::Cue => {
                scene.cue(core, |when| matches!(when, When::After(_)), None);
            }
        }
    }

    /// One more file operation; begins the calm after the last one of the faulty phase.
    pub(super) fn step(&mut self, core: &mut Core) {
        #[cfg(test)]
        self.keep_moment();
        core.steps += 1;
        if self.calm_at.is_none() && core.steps >= self.plan.steps {
            self.begin_calm(core);
        }
    }

    #[cfg(test)]
    fn keep_moment(&mut self) {
        // Before the cluster is made there is nothing to recover.
        if let (Some(moments), Some(_), None) = (&mut self.moments, &self.cluster, self.calm_at) {
            moments.push(super::crash_images::Moment {
                disk: self.share.clone(),
                acked: self.history.told_so_far(),
                finals: self.history.ended_so_far(),
                highest: self.history.highest,
            });
        }
    }

    fn begin_calm(&mut self, core: &mut Core) {
        self.calm_at = Some(core.now);
        core.say("world", || "the faults end".to_owned());
        let now = core.now;
        for m in 0..self.machines.len() {
            self.machines[m].flaky_until = 0;
            if self.machines[m].cut_until > now {
                self.machines[m].cut_until = now;
                self.plan_at(core, now, Happening::Reachable(m));
            }
            if self.machines[m].frozen_until > now {
                self.machines[m].frozen_until = now;
                self.plan_at(core, now, Happening::Reachable(m));
            }
        }
        for proc in &mut core.procs {
            proc.frozen_until = proc.frozen_until.min(now + S);
        }
        self.server.full_until = 0;
        self.server.slow_until = 0;
        self.ambush = None;
        self.plan_at(core, now + LOOK_US, Happening::Look);
    }

    /// Ends the run when all is done or time is up.
    fn look(&mut self, core: &mut Core) {
        let person = |s: &Slot| matches!(s.role, Role::Person | Role::Restorer);
        let people = self.slots.iter().all(|s| !person(s) || s.done);
        self.judge_restore(core);
        if self.history.failed() || (people && self.history.all_ended(&self.tasks)) {
            self.history.conclude(core);
            core.over = true;
            return;
        }
        if core.now > self.calm_at.unwrap_or(core.now) + CALM_US {
            let waiting = self.history.waiting(&self.tasks);
            let who = match people {
                true => "all people are served",
                false => "people still wait for answers",
            };
            let text = format!("{} s after the last fault: {who}; {waiting}", CALM_US / S);
            self.history.broken(core, text);
            core.over = true;
            return;
        }
        let at = core.now + LOOK_US;
        self.plan_at(core, at, Happening::Look);
    }

    pub(super) fn silence(&mut self, core: &mut Core, m: usize, until: u64) {
        let now = core.now;
        self.machines[m].silent_since.get_or_insert(now);
        self.plan_at(core, until, Happening::Reachable(m));
    }

    fn reachable(&mut self, core: &mut Core, m: usize) {
        let machine = &mut self.machines[m];
        let away = machine.cut_until > core.now || machine.frozen_until > core.now || !machine.up;
        if !away {
            machine.silent_since = None;
            if !machine.dirty.is_empty() {
                let at = core.now + core.rng.between(1, 3000) * MS;
                self.plan_at(core, at, Happening::WriteBack(m));
            }
        }
    }

    /// The machine stops at once: nothing in its memory remains.
    pub(super) fn power_off(&mut self, core: &mut Core, m: usize) {
        for proc in 0..core.procs.len() {
            if core.procs[proc].machine == m && core.procs[proc].alive {
                core.procs[proc].frozen_until = 0;
                core.kill(proc);
            }
        }
        // Some of what waited was on its way.
        let dirty = std::mem::take(&mut self.machines[m].dirty);
        for (ino, writes) in dirty {
            let n = core.rng.below(writes.len() as u64 + 1) as usize;
            for (offset, bytes, handle) in writes.into_iter().take(n) {
                if !self.opens.get(&handle).is_some_and(|o| o.lost) {
                    let _ = self.share.write(ino, m, offset, &bytes, BEGIN_MS);
                }
            }
        }
        let machine = &mut self.machines[m];
        machine.up = false;
        machine.files.clear();
        machine.lists.clear();
        machine.missing.clear();
        machine.failed.clear();
        machine.silent_since.get_or_insert(core.now);
        let rng = &mut core.rng;
        machine
            .local
            .lose_unsynced(|_, len| rng.below(len as u64 + 1) as usize);
        self.tasks.machine_died(core, m);
        self.history.machine_died(m);
    }

    fn boot(&mut self, core: &mut Core, m: usize) {
        let machine = &mut self.machines[m];
        machine.up = true;
        machine.boot += 1;
        machine.boot_id = intern(&format!("{}-boot{}", machine.name, machine.boot));
        machine.booted_at = core.now;
        machine.frozen_until = 0;
        let name = machine.name;
        // The server learns that the locks of the earlier boot are void.
        let old: Vec<HandleId> = self.opens_of(m);
        for handle in old {
            self.drop_lock(handle);
            self.opens.remove(&handle);
        }
        core.say("world", || format!("{name} has booted"));
        self.reachable(core, m);
        for slot in 0..self.slots.len() {
            if self.slots[slot].machine == m && !self.slots[slot].done {
                self.slots[slot].proc = None;
                let at = core.now + core.rng.between(1, 500) * MS;
                self.plan_at(core, at, Happening::Start(slot));
            }
        }
    }

    fn opens_of(&self, m: usize) -> Vec<HandleId> {
        let of = self.opens.iter().filter(|(_, o)| o.machine == m);
        of.map(|(h, _)| *h).collect()
    }

    pub(super) fn drop_lock(&mut self, handle: HandleId) {
        if let Some(open) = self.opens.get(&handle)
            && let Ok(node) = self.share.node_mut(open.ino)
            && node.lock == Some(handle)
        {
            node.lock = None;
        }
    }

    pub(super) fn forget_locks(&mut self) {
        for (_, node) in self.share.nodes_mut() {
            if let Some(open) = node.lock.take().and_then(|h| self.opens.get_mut(&h)) {
                open.lost = true;
            }
        }
    }

    fn server_up(&mut self, core: &mut Core, locks: bool, data: bool) {
        let now = core.now;
        self.server.down_until = now;
        self.server.grace_until = now + core.rng.between(0, 5000) * MS;
        if data {
            // Clients that live send again what they know was not synced.
            let up: Vec<bool> = self.machines.iter().map(|m| m.up).collect();
            let locked: Vec<(Ino, HandleId)> = self
                .share
                .nodes_mut()
                .filter_map(|(ino, node)| Some((ino, node.lock?)))
                .collect();
            self.share
                .lose_unsynced(|m, len| if up[m] { len } else { 0 });
            for (ino, handle) in locked {
                if let Ok(node) = self.share.node_mut(ino) {
                    node.lock = Some(handle);
                }
            }
        }
        if locks {
            self.forget_locks();
        }
        core.say("world", || {
            format!("the server is back; locks lost: {locks}, unsynced data lost: {data}")
        });
        for m in 0..self.machines.len() {
            if !self.machines[m].dirty.is_empty() {
                let at = now + core.rng.between(1, 3000) * MS;
                self.plan_at(core, at, Happening::WriteBack(m));
            }
        }
    }

    /// The client sends what it has kept.
    fn write_back(&mut self, core: &mut Core, m: usize) {
        let away = self.hangs_until(m, core.now) > 0 || !self.machines[m].up;
        if away || self.machines[m].frozen_until > core.now {
            return;
        }
        let inos: Vec<Ino> = self.machines[m].dirty.keys().copied().collect();
        for ino in inos {
            if let Err(code) = self.flush(core, m, ino) {
                // Told at the next sync, as kernels do.
                self.machines[m].failed.insert(ino, code);
            }
        }
    }

    /// Sends a file's kept writes to the server.
    ///
    /// # Errors
    /// The `errno` that the next sync or close gives: what was kept is gone then.
    pub(super) fn flush(&mut self, core: &mut Core, m: usize, ino: Ino) -> Result<(), i32> {
        let Some(writes) = self.machines[m].dirty.remove(&ino) else {
            return Ok(());
        };
        let full = self.server.full_until > core.now;
        let now_ms = BEGIN_MS + (core.now / MS) as i64;
        for (offset, bytes, handle) in writes {
            if self.opens.get(&handle).is_some_and(|o| o.lost) {
                return Err(libc::EIO);
            }
            if full {
                let n = core.rng.below(bytes.len() as u64) as usize;
                self.share.write(ino, m, offset, &bytes[..n], now_ms)?;
                return Err(self.server.full_errno);
            }
            self.share.write(ino, m, offset, &bytes, now_ms)?;
        }
        Ok(())
    }
}
