//! The state of the simulated cluster: machines with their caches of the share, the file server,
//! the processes that should run, and the events that are due. Owns how caches, locks and unsynced
//! data behave when a machine or the server stops; never decides when that happens.

use super::breakpoint::Breakpoint;
use super::disk::{Disk, HandleId, Ino};
use super::history::History;
use super::kernel::{BEGIN_MS, Kernel, MS, ProcId, S};
use super::plan::{Plan, Role};
use super::tasks::Tasks;
use crate::record::leader::ClusterDoc;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Time between two checks whether everything is done, µs.
const CHECK_US: u64 = S;

/// A process that should run.
#[derive(Clone, Debug)]
pub(super) struct ProcessSlot {
    pub role: Role,
    pub machine: usize,
    pub proc: Option<ProcId>,
    /// It has done its work and is not started again.
    pub done: bool,
    /// How often it was started.
    pub starts: u64,
}

/// A machine's cached data of a file.
#[derive(Clone, Debug)]
pub(super) struct CachedFile {
    pub data: Arc<Vec<u8>>,
    pub cached_at: u64,
    /// Its attributes are considered valid until then (µs).
    pub attributes_until: u64,
}

/// A directory as it was read, and until when (µs) that is considered valid.
type Listing = (Vec<(String, bool)>, u64);

/// The cache of a machine's client of the share.
#[derive(Debug, Default)]
pub(super) struct ClientCache {
    pub files: BTreeMap<Ino, CachedFile>,
    pub lists: BTreeMap<Ino, Listing>,
    /// Names that did not exist, and until when (µs) that is considered valid.
    pub missing: BTreeMap<(Ino, String), u64>,
    /// Data written and not yet sent to the server, with the handle through which they were
    /// written.
    pub dirty: BTreeMap<Ino, Vec<(u64, Vec<u8>, HandleId)>>,
    /// A write in the background failed: the next sync of the file reports it.
    pub failed: BTreeMap<Ino, i32>,
}

impl ClientCache {
    /// Whether a name is considered missing.
    pub(super) fn is_missing(&self, key: &(Ino, String), now: u64) -> bool {
        self.missing.get(key).is_some_and(|until| *until > now)
    }
}

/// One machine: its clocks, its local disk, its view of the share.
#[derive(Debug)]
pub(super) struct Machine {
    pub name: &'static str,
    pub boot: u32,
    pub boot_id: &'static str,
    pub booted_at: u64,
    pub wall_offset_ms: i64,
    pub local: Disk,
    pub cache: ClientCache,
    pub up: bool,
    pub cut_until: u64,
    pub frozen_until: u64,
    /// Since when the server has received nothing from it.
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
pub(super) struct OpenHandle {
    ino: Ino,
    pub machine: usize,
    /// The server revoked its lock: nothing that it writes arrives.
    pub is_revoked: bool,
}

/// All open files.
#[derive(Debug, Default)]
pub(super) struct Handles {
    open: BTreeMap<HandleId, OpenHandle>,
    last: HandleId,
}

impl Handles {
    pub(super) fn add(&mut self, ino: Ino, machine: usize) -> HandleId {
        self.last += 1;
        let is_revoked = false;
        self.open.insert(
            self.last,
            OpenHandle {
                ino,
                machine,
                is_revoked,
            },
        );
        self.last
    }

    pub(super) fn get_mut(&mut self, handle: HandleId) -> Option<&mut OpenHandle> {
        self.open.get_mut(&handle)
    }

    pub(super) fn remove(&mut self, handle: HandleId) {
        self.open.remove(&handle);
    }

    /// Whether it is closed, or its lock was revoked.
    pub(super) fn is_unusable(&self, handle: HandleId) -> bool {
        self.open.get(&handle).is_none_or(|o| o.is_revoked)
    }

    fn is_revoked(&self, handle: HandleId) -> bool {
        self.open.get(&handle).is_some_and(|o| o.is_revoked)
    }

    fn of_machine(&self, m: usize) -> Vec<HandleId> {
        let of = self.open.iter().filter(|(_, o)| o.machine == m);
        of.map(|(h, _)| *h).collect()
    }
}

/// An event that is due at some time.
#[derive(Clone, Debug)]
pub(super) enum Event {
    NextFault,
    Start(usize),
    Boot(usize),
    Reachable(usize),
    ServerUp {
        locks_lost: bool,
        data_lost: bool,
    },
    WriteBack(usize),
    /// Checks whether everything is done.
    CheckEnd,
    /// The next part of a script, if it waits for a time.
    NextOfScript,
    PowerOff(usize),
    /// The share is copied; later the copy replaces it.
    CopyShare,
    RestoreShare,
}

/// Events that are due, by number.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    events: BTreeMap<u64, Event>,
    next: u64,
}

/// The faults that were injected, and the one that waits for its moment.
#[derive(Debug, Default)]
pub(super) struct Injected {
    pub counts: BTreeMap<&'static str, u64>,
    pub breakpoint: Option<Breakpoint>,
}

/// A copy of the share, and the history at the time of the copy.
pub(super) struct ShareCopy {
    pub disk: Disk,
    pub history: History,
}

/// The share at one moment, with what clients had been answered until then.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(super) struct CrashPoint {
    pub disk: Disk,
    pub acked: BTreeMap<String, u32>,
    /// How jobs had ended, as published by leaders.
    pub final_stats: BTreeMap<crate::model::JobKey, crate::model::JobStat>,
    pub highest_epoch: u64,
}

/// The cluster and everything that happened to it.
pub(super) struct Cluster {
    pub plan: Plan,
    pub share: Disk,
    pub server: Server,
    pub machines: Vec<Machine>,
    pub handles: Handles,
    pub slots: Vec<ProcessSlot>,
    agenda: Agenda,
    pub history: History,
    pub tasks: Tasks,
    /// The document of the cluster, once it exists.
    pub doc: Option<ClusterDoc>,
    pub faults_end_at: Option<u64>,
    pub injected: Injected,
    /// A copy of the share that will replace it.
    pub copy: Option<Box<ShareCopy>>,
    /// No leader is started before this time (µs).
    pub leaders_from: u64,
    /// The share after every writing operation of the faulty phase, if that was requested.
    #[cfg(test)]
    pub crash_points: Option<Vec<CrashPoint>>,
}

/// Returns the same static text for equal texts: names live as long as the program.
fn intern(text: &str) -> &'static str {
    static ALL: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = ALL.lock().unwrap_or_else(|p| p.into_inner());
    if let Some(known) = all.get(text) {
        return known;
    }
    let new: &'static str = Box::leak(text.to_owned().into_boxed_str());
    all.insert(new);
    new
}

impl Cluster {
    pub(super) fn new(plan: Plan) -> Cluster {
        // One hour is the `clean_period` of a cb.yaml that does not set it.
        let clocks_jump = 2 * plan.faults.clock_ms >= 3_600_000;
        let mut cluster = Cluster {
            share: Disk::default(),
            server: Server::default(),
            machines: Vec::new(),
            handles: Handles::default(),
            slots: Vec::new(),
            agenda: Agenda::default(),
            history: History::new(plan.sizes.slots, clocks_jump, plan.iso_ms * MS),
            tasks: Tasks::default(),
            doc: None,
            faults_end_at: None,
            injected: Injected::default(),
            copy: None,
            leaders_from: 0,
            #[cfg(test)]
            crash_points: None,
            plan,
        };
        cluster.add_machines();
        cluster
    }

    fn add_machines(&mut self) {
        let sizes = self.plan.sizes.clone();
        for n in 1..=sizes.leaders {
            let m = self.add_machine(&format!("m{n}"));
            self.add_slot(Role::Leader, m);
        }
        for n in 1..=sizes.hosts {
            let m = self.add_machine(&format!("h{n}"));
            self.add_slot(Role::Shepherds, m);
            self.add_slot(Role::Load, m);
            self.add_slot(Role::Executor, m);
        }
        for n in 1..=sizes.clients {
            let m = self.add_machine(&format!("c{n}"));
            self.add_slot(Role::Client, m);
        }
        if self.plan.restore {
            let m = self.add_machine("admin");
            self.add_slot(Role::RestoreAdmin, m);
        }
    }

    fn add_machine(&mut self, name: &str) -> usize {
        let n = self.machines.len();
        self.machines.push(Machine {
            name: intern(name),
            boot: 1,
            boot_id: intern(&format!("{name}-boot1")),
            booted_at: 0,
            wall_offset_ms: self.plan.clock_offset(n),
            local: Disk::default(),
            cache: ClientCache::default(),
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
        self.slots.push(ProcessSlot {
            role,
            machine,
            proc: None,
            done: false,
            starts: 0,
        });
    }

    /// The role of the process, as long as it is the one of its slot.
    pub(super) fn role_of(&self, proc: ProcId) -> Option<Role> {
        let slot = self.slots.iter().find(|s| s.proc == Some(proc));
        slot.map(|s| s.role)
    }

    /// Until when (µs) a machine's calls to the share hang; 0 = they do not.
    pub(super) fn hangs_until(&self, machine: usize, now: u64) -> u64 {
        let until = self.server.down_until.max(self.machines[machine].cut_until);
        if until > now { until } else { 0 }
    }

    /// Schedules an event for `at`.
    pub(super) fn plan_at(&mut self, kernel: &mut Kernel, at: u64, event: Event) {
        let n = self.agenda.next;
        self.agenda.next += 1;
        self.agenda.events.insert(n, event);
        kernel.event_at(at, n);
    }

    /// Takes the event with that number, which is due.
    pub(super) fn take_event(&mut self, n: u64) -> Option<Event> {
        self.agenda.events.remove(&n)
    }

    /// Counts a file operation; the last one of the faulty phase begins the phase after
    /// the faults.
    pub(super) fn step(&mut self, kernel: &mut Kernel) {
        #[cfg(test)]
        self.keep_crash_point();
        kernel.steps += 1;
        if self.faults_end_at.is_none() && kernel.steps >= self.plan.steps {
            self.end_faults(kernel);
        }
    }

    #[cfg(test)]
    fn keep_crash_point(&mut self) {
        // Before the cluster is created there is nothing to recover.
        if let (Some(points), Some(_), None) =
            (&mut self.crash_points, &self.doc, self.faults_end_at)
        {
            points.push(CrashPoint {
                disk: self.share.clone(),
                acked: self.history.facts.acked.clone(),
                final_stats: self.history.ended_so_far(),
                highest_epoch: self.history.facts.highest_epoch,
            });
        }
    }

    /// Ends the faults.
    fn end_faults(&mut self, kernel: &mut Kernel) {
        self.faults_end_at = Some(kernel.now);
        kernel.trace("world", || "the faults end".to_owned());
        let now = kernel.now;
        for m in 0..self.machines.len() {
            let machine = &mut self.machines[m];
            machine.flaky_until = 0;
            let (cut, frozen) = (machine.cut_until > now, machine.frozen_until > now);
            if cut {
                machine.cut_until = now;
                self.plan_at(kernel, now, Event::Reachable(m));
            }
            if frozen {
                self.machines[m].frozen_until = now;
                self.plan_at(kernel, now, Event::Reachable(m));
            }
        }
        for proc in &mut kernel.procs {
            proc.frozen_until = proc.frozen_until.min(now + S);
        }
        self.server.full_until = 0;
        self.server.slow_until = 0;
        self.injected.breakpoint = None;
        self.plan_end_check(kernel);
    }

    /// Schedules the next check whether everything is done.
    pub(super) fn plan_end_check(&mut self, kernel: &mut Kernel) {
        let at = kernel.now + CHECK_US;
        self.plan_at(kernel, at, Event::CheckEnd);
    }

    /// Makes the server receive nothing from a machine until then.
    pub(super) fn silence(&mut self, kernel: &mut Kernel, m: usize, until: u64) {
        let now = kernel.now;
        self.machines[m].silent_since.get_or_insert(now);
        self.plan_at(kernel, until, Event::Reachable(m));
    }

    pub(super) fn reachable(&mut self, kernel: &mut Kernel, m: usize) {
        let machine = &mut self.machines[m];
        let now = kernel.now;
        if machine.cut_until <= now && machine.frozen_until <= now && machine.up {
            machine.silent_since = None;
            self.plan_write_back(kernel, m, 3000);
        }
    }

    /// Schedules the sending of what a machine has written, within `most_ms`, if there is any.
    fn plan_write_back(&mut self, kernel: &mut Kernel, m: usize, most_ms: u64) {
        if !self.machines[m].cache.dirty.is_empty() {
            let at = kernel.now + kernel.rng.between(1, most_ms) * MS;
            self.plan_at(kernel, at, Event::WriteBack(m));
        }
    }

    /// Keeps a write in the client's cache, which sends it later.
    pub(super) fn keep_write(
        &mut self,
        kernel: &mut Kernel,
        m: usize,
        ino: Ino,
        write: (u64, Vec<u8>, HandleId),
    ) {
        let dirty = &mut self.machines[m].cache.dirty;
        let first = dirty.is_empty();
        dirty.entry(ino).or_default().push(write);
        if first {
            self.plan_write_back(kernel, m, self.plan.caches.write_back_ms);
        }
    }

    /// Stops the machine at once: the contents of its memory are lost.
    pub(super) fn power_off(&mut self, kernel: &mut Kernel, m: usize) {
        for proc in 0..kernel.procs.len() {
            if kernel.procs[proc].machine == m && kernel.procs[proc].alive {
                kernel.procs[proc].frozen_until = 0;
                kernel.kill(proc);
            }
        }
        // Some of the waiting data were in transit.
        let cache = std::mem::take(&mut self.machines[m].cache);
        for (ino, writes) in cache.dirty {
            let n = kernel.rng.below(writes.len() as u64 + 1) as usize;
            for (offset, bytes, handle) in writes.into_iter().take(n) {
                if !self.handles.is_revoked(handle) {
                    let _ = self.share.write(ino, m, offset, &bytes, BEGIN_MS);
                }
            }
        }
        let machine = &mut self.machines[m];
        machine.up = false;
        machine.silent_since.get_or_insert(kernel.now);
        let rng = &mut kernel.rng;
        machine
            .local
            .lose_unsynced(|_, len| rng.below(len as u64 + 1) as usize);
        self.tasks.machine_died(kernel, m);
        self.history.machine_died(m);
    }

    pub(super) fn boot(&mut self, kernel: &mut Kernel, m: usize) {
        let machine = &mut self.machines[m];
        machine.up = true;
        machine.boot += 1;
        machine.boot_id = intern(&format!("{}-boot{}", machine.name, machine.boot));
        machine.booted_at = kernel.now;
        machine.frozen_until = 0;
        let name = machine.name;
        // The server learns that the locks of the earlier boot are void.
        for handle in self.handles.of_machine(m) {
            self.drop_lock(handle);
            self.handles.remove(handle);
        }
        kernel.trace("world", || format!("{name} has booted"));
        self.reachable(kernel, m);
        for slot in 0..self.slots.len() {
            if self.slots[slot].machine == m && !self.slots[slot].done {
                self.slots[slot].proc = None;
                let at = kernel.now + kernel.rng.between(1, 500) * MS;
                self.plan_at(kernel, at, Event::Start(slot));
            }
        }
    }

    pub(super) fn drop_lock(&mut self, handle: HandleId) {
        if let Some(open) = self.handles.open.get(&handle)
            && let Ok(node) = self.share.node_mut(open.ino)
            && node.lock == Some(handle)
        {
            node.lock = None;
        }
    }

    /// Makes the server lose all locks.
    pub(super) fn forget_locks(&mut self) {
        for (_, node) in self.share.nodes_mut() {
            if let Some(open) = node.lock.take().and_then(|h| self.handles.get_mut(h)) {
                open.is_revoked = true;
            }
        }
    }

    pub(super) fn server_up(&mut self, kernel: &mut Kernel, locks_lost: bool, data_lost: bool) {
        let now = kernel.now;
        self.server.down_until = now;
        self.server.grace_until = now + kernel.rng.between(0, 5000) * MS;
        if data_lost {
            // Running clients send again what they know was not synced.
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
        if locks_lost {
            self.forget_locks();
        }
        kernel.trace("world", || {
            format!("the server is back; locks lost: {locks_lost}, unsynced data lost: {data_lost}")
        });
        for m in 0..self.machines.len() {
            self.plan_write_back(kernel, m, 3000);
        }
    }

    /// Makes the client send its cached writes.
    pub(super) fn write_back(&mut self, kernel: &mut Kernel, m: usize) {
        let away = self.hangs_until(m, kernel.now) > 0 || !self.machines[m].up;
        if away || self.machines[m].frozen_until > kernel.now {
            return;
        }
        let inos: Vec<Ino> = self.machines[m].cache.dirty.keys().copied().collect();
        for ino in inos {
            if let Err(code) = self.flush(kernel, m, ino) {
                // The next sync reports it, as in real kernels.
                self.machines[m].cache.failed.insert(ino, code);
            }
        }
    }

    /// Sends the cached writes of a file to the server.
    ///
    /// # Errors
    /// The `errno` that the next sync or close returns; the cached writes are then lost.
    pub(super) fn flush(&mut self, kernel: &mut Kernel, m: usize, ino: Ino) -> Result<(), i32> {
        let Some(writes) = self.machines[m].cache.dirty.remove(&ino) else {
            return Ok(());
        };
        let full = self.server.full_until > kernel.now;
        let now_ms = kernel.server_ms();
        for (offset, bytes, handle) in writes {
            if self.handles.is_revoked(handle) {
                return Err(libc::EIO);
            }
            if full {
                let n = kernel.rng.below(bytes.len() as u64) as usize;
                self.share.write(ino, m, offset, &bytes[..n], now_ms)?;
                return Err(self.server.full_errno);
            }
            self.share.write(ino, m, offset, &bytes, now_ms)?;
        }
        Ok(())
    }
}
