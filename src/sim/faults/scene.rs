//! What the simulated world is made of: machines, the file server, processes to be kept alive,
//! and the things that happen to them. Decides when faults come and when the calm begins.

use super::disk::{Disk, HandleId, Ino};
use super::history::History;
use super::plan::{Fault, Plan};
use super::stage;
use super::tasks::Tasks;
use super::world::{Core, Inner, ProcId, World};
use crate::record::leader::ClusterDoc;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// Wall clock at the begin of the world, ms: a moment of the year 2026.
pub const BEGIN_MS: i64 = 1_795_000_000_000;
const MS: u64 = 1000;
const S: u64 = 1_000_000;
/// How long (µs) everything may take after the faults have ended.
const CALM_US: u64 = 900 * S;
/// Between two looks whether all is done, µs.
const LOOK_US: u64 = S;

/// What a process is for; a supervisor starts it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Setup,
    Leader,
    Executor,
    Load,
    Shepherds,
    Person,
}

/// A process that should run.
#[derive(Clone, Debug)]
pub struct Slot {
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
pub struct Cached {
    pub data: Arc<Vec<u8>>,
    pub at: u64,
    /// Facts of the file are believed until then (µs).
    pub facts_until: u64,
}

/// A directory as it was read, and until when that is believed.
pub type Listing = (Vec<(String, bool)>, u64);

/// One machine: its clocks, its local disk, its view of the share.
#[derive(Debug)]
pub struct Machine {
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
pub struct Server {
    pub down_until: u64,
    pub grace_until: u64,
    pub slow_until: u64,
    pub slow_by: u64,
    pub full_until: u64,
    pub full_errno: i32,
}

/// An open file on the share.
#[derive(Clone, Debug)]
pub struct Open {
    pub ino: Ino,
    pub machine: usize,
    /// Its lock was taken away by the server: nothing it writes arrives.
    pub lost: bool,
}

/// What is to happen.
#[derive(Clone, Debug)]
pub enum Happening {
    NextFault,
    Start(usize),
    Boot(usize),
    Reachable(usize),
    ServerUp { locks: bool, data: bool },
    WriteBack(usize),
    Look,
}

/// Everything there is.
pub struct Scene {
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
    /// The share after every writing operation of the faulty phase, where that is wanted.
    #[cfg(test)]
    pub moments: Option<Vec<super::images::Moment>>,
}

/// A leader is to be stopped right before it does this.
#[derive(Clone, Copy, Debug)]
pub struct Ambush {
    pub what: &'static str,
    pub us: u64,
    /// Everyone who listens to it is stopped for as long.
    pub wide: bool,
    /// Who is waited for: leaders or executors.
    pub role: Role,
}

/// One static text for equal texts: names live as long as the program.
pub fn intern(text: &str) -> &'static str {
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
    pub fn new(plan: Plan) -> Scene {
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
            #[cfg(test)]
            moments: None,
            plan,
        };
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

    pub fn new_handle(&mut self, ino: Ino, machine: usize) -> HandleId {
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
    pub fn hangs_until(&self, machine: usize, now: u64) -> u64 {
        let until = self.server.down_until.max(self.machines[machine].cut_until);
        if until > now { until } else { 0 }
    }

    /// Lets something happen at `at`.
    pub fn plan_at(&mut self, core: &mut Core, at: u64, what: Happening) {
        let n = self.next_happening;
        self.next_happening += 1;
        self.happenings.insert(n, what);
        core.event_at(at, n);
    }

    /// Makes something happen.
    pub fn happen(world: &Arc<World>, inner: &mut MutexGuard<'_, Inner>, n: u64) {
        let inner: &mut Inner = inner;
        let Some(what) = inner.scene.happenings.remove(&n) else {
            return;
        };
        let Inner { core, scene } = inner;
        match what {
            Happening::NextFault => scene.next_fault(core),
            Happening::Start(slot) => stage::start(world, inner, slot),
            Happening::Boot(machine) => scene.boot(core, machine),
            Happening::Reachable(machine) => scene.reachable(core, machine),
            Happening::ServerUp { locks, data } => scene.server_up(core, locks, data),
            Happening::WriteBack(machine) => scene.write_back(core, machine),
            Happening::Look => scene.look(core),
        }
    }

    /// One more file operation; begins the calm after the last one of the faulty phase.
    pub fn step(&mut self, core: &mut Core) {
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
            moments.push(super::images::Moment {
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
        let people = self.slots.iter().all(|s| s.role != Role::Person || s.done);
        if self.history.failed() || (people && self.history.all_ended(&self.tasks)) {
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

    // ---- faults ----

    fn next_fault(&mut self, core: &mut Core) {
        if self.calm_at.is_some() || self.history.failed() {
            return;
        }
        let gap = core.rng.between(1, 2 * self.plan.fault_every_ms) * MS;
        let at = core.now + gap;
        self.plan_at(core, at, Happening::NextFault);
        let fault = core.rng.pick(&self.plan.faults.clone());
        let shown = self.strike(core, fault);
        if let Some(text) = shown {
            *self.faults.entry(fault.name()).or_default() += 1;
            core.say("fault", || text);
        }
    }

    /// A machine: leaders are hit more often.
    fn target(&self, core: &mut Core) -> usize {
        let n = match core.rng.permille(600) {
            true => self.plan.leaders,
            false => self.machines.len(),
        };
        core.rng.below(n as u64) as usize
    }

    fn slots_on(&self, machine: usize) -> Vec<usize> {
        let on = |s: &Slot| s.machine == machine && s.proc.is_some() && s.role != Role::Shepherds;
        (0..self.slots.len())
            .filter(|n| on(&self.slots[*n]))
            .collect()
    }

    fn strike(&mut self, core: &mut Core, fault: Fault) -> Option<String> {
        let now = core.now;
        let m = self.target(core);
        let name = self.machines[m].name;
        if !self.machines[m].up {
            return None;
        }
        let short = core.rng.between(50, 4000) * MS;
        let long = core.rng.between(1000, 25_000) * MS;
        match fault {
            Fault::Kill => {
                let slots = self.slots_on(m);
                let slot = *slots.get(core.rng.below(slots.len() as u64) as usize)?;
                let proc = self.slots[slot].proc?;
                core.kill(proc);
                Some(format!("kill -9 {}", core.procs[proc].name))
            }
            Fault::Stop => {
                let slots = self.slots_on(m);
                let slot = *slots.get(core.rng.below(slots.len() as u64) as usize)?;
                let proc = self.slots[slot].proc?;
                let us = if core.rng.permille(500) { short } else { long };
                core.procs[proc].frozen_until = now + us;
                let ms = us / MS;
                Some(format!("stop {} for {ms} ms", core.procs[proc].name))
            }
            Fault::Freeze => {
                self.silence(core, m, now + long);
                self.machines[m].frozen_until = now + long;
                for proc in core.procs.iter_mut().filter(|p| p.machine == m) {
                    proc.frozen_until = proc.frozen_until.max(now + long);
                }
                Some(format!("freeze machine {name} for {} ms", long / MS))
            }
            Fault::Power => {
                self.power_off(core, m);
                let at = now + core.rng.between(2000, 20_000) * MS;
                self.plan_at(core, at, Happening::Boot(m));
                Some(format!("power off {name}"))
            }
            Fault::Cut => {
                let us = if core.rng.permille(500) { short } else { long };
                self.silence(core, m, now + us);
                self.machines[m].cut_until = now + us;
                Some(format!("cut {name} from the server for {} ms", us / MS))
            }
            Fault::Flaky => {
                self.machines[m].flaky_until = now + short;
                Some(format!(
                    "{name}: errors and lost replies for {} ms",
                    short / MS
                ))
            }
            Fault::Clock => {
                let off = core.rng.between(0, 1_200_000) as i64 - 600_000;
                self.machines[m].wall_offset_ms = off;
                Some(format!("wall clock of {name} steps to {off} ms off"))
            }
            other => self.strike_server(core, other, short),
        }
    }

    /// What hits the server, or whoever does a certain thing next.
    fn strike_server(&mut self, core: &mut Core, fault: Fault, short: u64) -> Option<String> {
        let now = core.now;
        match fault {
            Fault::Slow => {
                self.server.slow_until = now + short;
                self.server.slow_by = core.rng.pick(&[10, 100, 1000]);
                let by = self.server.slow_by;
                Some(format!(
                    "the server is {by} times slower for {} ms",
                    short / MS
                ))
            }
            Fault::Full => {
                self.server.full_until = now + short;
                self.server.full_errno = core.rng.pick(&[libc::ENOSPC, libc::EDQUOT]);
                Some(format!("the share is full for {} ms", short / MS))
            }
            Fault::Restart if self.server.down_until > now => None,
            Fault::Restart => {
                self.server.down_until = now + short;
                let locks = core.rng.permille(300);
                let data = core.rng.permille(300);
                self.plan_at(core, now + short, Happening::ServerUp { locks, data });
                let ms = short / MS;
                Some(format!("the server restarts, away for {ms} ms"))
            }
            Fault::Ambush => {
                let what = core
                    .rng
                    .pick(&["append", "fsync", "open", "create", "write", "rename"]);
                let us = core.rng.between(3500, 12_000) * MS;
                let wide = core.rng.permille(500);
                let role = core.rng.pick(&[Role::Leader, Role::Leader, Role::Executor]);
                self.ambush = Some(Ambush {
                    what,
                    us,
                    wide,
                    role,
                });
                let ms = us / MS;
                Some(format!(
                    "the next {role:?} to {what} is stopped for {ms} ms, wide: {wide}"
                ))
            }
            Fault::Locks => {
                self.forget_locks();
                Some("the server forgets all locks".into())
            }
            Fault::Shepherd => {
                let a = self.tasks.kill_one(core)?;
                self.history.task_ended(core, a, None);
                Some(format!("kill -9 the shepherd of attempt {a}"))
            }
            _ => None,
        }
    }

    /// Springs the ambush if this is what it waits for: `proc` is about to do `what`.
    pub fn spring(&mut self, core: &mut Core, proc: ProcId, what: &'static str) {
        let Some(trap) = self.ambush.filter(|trap| trap.what == what) else {
            return;
        };
        let meant = |s: &Slot| s.role == trap.role && s.proc == Some(proc);
        if !self.slots.iter().any(meant) || !core.rng.permille(300) {
            return;
        }
        self.ambush = None;
        let until = core.now + trap.us;
        core.procs[proc].frozen_until = until;
        let name = core.procs[proc].name.clone();
        core.say("fault", || {
            format!("{name} is stopped right before its {what}")
        });
        if !trap.wide {
            return;
        }
        for slot in self.slots.clone() {
            let along = match trap.role {
                Role::Leader => matches!(slot.role, Role::Person | Role::Executor),
                _ => slot.role == Role::Leader && core.rng.permille(400),
            };
            if let (true, Some(p)) = (along, slot.proc) {
                // Most wake up when the leader has said its last words.
                let after = core.rng.between(0, 40) * MS;
                core.procs[p].frozen_until = until + after;
            }
        }
    }

    fn silence(&mut self, core: &mut Core, m: usize, until: u64) {
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
    fn power_off(&mut self, core: &mut Core, m: usize) {
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

    pub fn drop_lock(&mut self, handle: HandleId) {
        if let Some(open) = self.opens.get(&handle)
            && let Ok(node) = self.share.node_mut(open.ino)
            && node.lock == Some(handle)
        {
            node.lock = None;
        }
    }

    fn forget_locks(&mut self) {
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
    pub fn flush(&mut self, core: &mut Core, m: usize, ino: Ino) -> Result<(), i32> {
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
