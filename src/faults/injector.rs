//! The faults as they strike: which machine or process, for how long, and the ambushes.
//!
//! Chance only; what a fault then does to machines and server is the scene's.

use super::cluster::{Happening, MS, Role, Scene, Slot};
use super::disk::Disk;
use super::plan::Fault;
use super::world::{Core, ProcId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most bytes that flip in a run: who writes a file anew again and again waits ever longer.
const FLIPS_MAX: u64 = 4;

/// Where an ambush waits: an operation on a file whose path holds this.
pub(super) type Spot = (&'static str, &'static str);

/// Moments of a leader at which it may no longer be one.
const LEADER_SPOTS: &[Spot] = &[
    ("append", "/journal."),
    ("append", "/journal."),
    ("fsync", "/journal."),
    ("fsync", "/journal."),
    ("open", "leader/epoch"),
    ("append", "/acks"),
    ("fsync", "/acks"),
    ("append", "/orders."),
    ("fsync", "/orders."),
    ("write", "leader/epoch"),
    ("write", "snapshot/"),
    ("rename", "snapshot/"),
    ("rename", "view/"),
    ("list", "inbox/"),
    ("list", "inbox/"),
    ("open", "inbox/"),
    ("unlink", "inbox/"),
    ("append", ""),
    ("fsync", ""),
    ("open", ""),
    ("create", ""),
    ("write", ""),
    ("rename", ""),
    ("unlink", ""),
];

/// Moments of an executor between knowing and doing.
const EXECUTOR_SPOTS: &[Spot] = &[
    ("open", "leader/epoch"),
    ("open", "/orders."),
    ("append", "/reports."),
    ("fsync", "/reports."),
    ("append", "/attempts"),
    ("fsync", "/attempts"),
    ("append", ""),
    ("fsync", ""),
    ("open", ""),
    ("create", ""),
];

/// Somebody is to be stopped right before it does something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ambush {
    pub spot: Spot,
    pub us: u64,
    /// Everyone who listens to it is stopped for as long.
    pub wide: bool,
    /// Who is waited for: leaders or executors.
    pub role: Role,
    /// Threads of whoever was stopped go on within this time (µs), in any order.
    pub thaw: u64,
    /// Of 1000 such operations, this many are the one.
    pub permille: u64,
}

/// When the next part of a script comes.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), allow(dead_code))] // scripts are for tests
pub(super) enum When {
    /// So long after the part before it, ms.
    After(u64),
    /// Right before a process of that kind does this.
    Spot(Role, Spot),
    /// A leader has recovered, once more.
    Recovered,
    /// A task has started.
    Started,
}

/// What a script does to whoever did it: the process of a spot, the host of a start, the leader.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum Deed {
    Kill,
    /// Killed, and so long afterwards (ms), when its kernel has sent what it wrote, its machine
    /// loses power.
    Perish(u64),
    /// Its machine loses power for so long, ms.
    PowerOff(u64),
    /// Frozen for so long, ms; with those who listen to it.
    Stop(u64),
    ForgetLocks,
    /// The server is away for so long (ms) and loses what was not synced.
    Restart(u64),
}

/// Faults in a fixed order instead of drawn ones.
pub(super) type Script = VecDeque<(When, Vec<Deed>)>;

impl Scene {
    /// Waits for the next part of the script.
    pub(super) fn arm(&mut self, core: &mut Core) {
        if let Some((When::After(ms), _)) = self.plan.script.front() {
            let at = core.now + ms * MS;
            self.plan_at(core, at, Happening::Cue);
        }
    }

    /// Carries out the part of the script that was waited for, if this is it; how long (µs) the
    /// one that did it waits.
    pub(super) fn cue(
        &mut self,
        core: &mut Core,
        is: impl Fn(&When) -> bool,
        proc: Option<ProcId>,
    ) -> u64 {
        if !self.plan.script.front().is_some_and(|(when, _)| is(when)) {
            return 0;
        }
        let (when, deeds) = self
            .plan
            .script
            .pop_front()
            .unwrap_or((When::After(0), Vec::new()));
        core.say("fault", || format!("{when:?}: {deeds:?}"));
        let mut late = 0;
        for deed in deeds {
            late = late.max(self.carry_out(core, deed, proc));
        }
        self.arm(core);
        late
    }

    fn carry_out(&mut self, core: &mut Core, deed: Deed, proc: Option<ProcId>) -> u64 {
        let now = core.now;
        match (deed, proc) {
            (Deed::Kill, Some(proc)) => core.kill(proc),
            (Deed::Perish(ms), Some(proc)) => {
                core.kill(proc);
                let m = core.procs[proc].machine;
                self.plan_at(core, now + ms * MS, Happening::PowerOff(m));
                self.plan_at(core, now + 20_000 * MS, Happening::Boot(m));
            }
            (Deed::PowerOff(ms), Some(proc)) => {
                let m = core.procs[proc].machine;
                self.power_off(core, m);
                self.plan_at(core, now + ms * MS, Happening::Boot(m));
            }
            (Deed::Stop(ms), Some(proc)) => {
                let trap = Ambush {
                    spot: ("", ""),
                    us: ms * MS,
                    wide: true,
                    role: Role::Leader,
                    thaw: 300 * MS,
                    permille: 1000,
                };
                stop(core, proc, now + trap.us, trap.thaw);
                self.stop_listeners(core, trap, now + trap.us);
                return trap.us;
            }
            (Deed::ForgetLocks, _) => self.forget_locks(),
            (Deed::Restart(ms), _) => {
                self.server.down_until = now + ms * MS;
                let up = Happening::ServerUp {
                    locks: false,
                    data: true,
                };
                self.plan_at(core, now + ms * MS, up);
            }
            (deed, None) => core.say("fault", || format!("nobody is there for {deed:?}")),
        }
        0
    }

    pub(super) fn next_fault(&mut self, core: &mut Core) {
        if self.calm_at.is_some() || self.history.failed() || self.plan.faults.is_empty() {
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

    /// A machine: leaders and hosts are hit more often.
    fn target(&self, core: &mut Core) -> usize {
        let (leaders, hosts) = (self.plan.leaders as u64, self.plan.hosts as u64);
        let (from, n) = match core.rng.permille(self.plan.at_leaders) {
            true => (0, leaders),
            false if core.rng.permille(self.plan.at_hosts) => (leaders, hosts),
            false => (0, self.machines.len() as u64),
        };
        (from + core.rng.below(n)) as usize
    }

    /// Without the shepherds' watch over the silence of a host, its `cbexe` must keep it.
    fn must_live(&self, slot: usize) -> bool {
        let plan = &self.plan;
        let alone = plan.iso_ms > 0 && !plan.shepherds_watch;
        alone && self.slots[slot].role == Role::Executor
    }

    fn slots_on(&self, machine: usize) -> Vec<usize> {
        let on = |s: &Slot| s.machine == machine && s.proc.is_some() && s.role != Role::Shepherds;
        (0..self.slots.len())
            .filter(|n| on(&self.slots[*n]))
            .collect()
    }

    /// A process of the machine that may die or stand still.
    fn pick(&mut self, core: &mut Core, machine: usize) -> Option<ProcId> {
        let slots = self.slots_on(machine);
        let slot = *slots.get(core.rng.below(slots.len() as u64) as usize)?;
        let proc = self.slots[slot].proc?;
        (!self.must_live(slot)).then_some(proc)
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
                let proc = self.pick(core, m)?;
                core.kill(proc);
                Some(format!("kill -9 {}", core.procs[proc].name))
            }
            Fault::Stop => {
                let proc = self.pick(core, m)?;
                let us = if core.rng.permille(500) { short } else { long };
                core.procs[proc].frozen_until = now + us;
                let ms = us / MS;
                Some(format!("stop {} for {ms} ms", core.procs[proc].name))
            }
            // Nobody can end what stands still with its machine: cut off and frozen, it is late.
            Fault::Freeze if self.machines[m].cut_until > now => None,
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
                let wiped = core.rng.permille(self.plan.wipes);
                if wiped {
                    self.machines[m].local = Disk::default();
                }
                Some(format!(
                    "power off {name}; its local directory is lost: {wiped}"
                ))
            }
            Fault::Cut => {
                let most = self.plan.cut_ms;
                let us = match core.rng.permille(500) {
                    true => short,
                    false if most > 25_000 => core.rng.between(25_000, most) * MS,
                    false => long,
                };
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
                let most = self.plan.clock_ms;
                let off = core.rng.between(0, 2 * most) as i64 - most as i64;
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
                let trap = draw_ambush(core);
                self.ambush = Some(trap);
                let (what, path) = trap.spot;
                let (role, wide, ms) = (trap.role, trap.wide, trap.us / MS);
                Some(format!(
                    "the next {role:?} to {what} {path} is stopped for {ms} ms, wide: {wide}"
                ))
            }
            Fault::Flip => self.flip(core),
            Fault::Locks => {
                self.forget_locks();
                Some("the server forgets all locks".into())
            }
            Fault::Shepherd => {
                let run = self.tasks.kill_one(core)?;
                self.history.task_ended(core, run, None);
                let (a, _) = run;
                Some(format!("kill -9 the shepherd of attempt {a}"))
            }
            _ => None,
        }
    }

    /// Flips a byte of a file through which leader and hosts talk, most often one of the newest:
    /// what a disk does, nobody is told.
    fn flip(&mut self, core: &mut Core) -> Option<String> {
        let flipped = self.faults.get(Fault::Flip.name()).copied();
        if flipped.unwrap_or(0) >= FLIPS_MAX {
            return None;
        }
        let spoken = |path: &str| path.contains("/orders.") || path.contains("/reports.");
        let all = self.share.all().into_iter();
        let full = all.filter(|(path, data)| {
            spoken(path) && path.starts_with("/hosts/") && data.is_some_and(|d| !d.is_empty())
        });
        let paths: Vec<String> = full.map(|(path, _)| path).collect();
        let path = paths.get(core.rng.below(paths.len() as u64) as usize)?;
        let ino = self.share.find(path).ok()?;
        let node = self.share.node_mut(ino).ok()?;
        let len = node.data.len() as u64;
        // What was read long ago harms nobody.
        let behind = core.rng.pick(&[200, 2_000, len]).min(len);
        let at = (len - 1 - core.rng.below(behind)) as usize;
        let bit = 1 << core.rng.below(8);
        Arc::make_mut(&mut node.data)[at] ^= bit;
        if let Some(byte) = Arc::make_mut(&mut node.stable).get_mut(at) {
            *byte ^= bit;
        }
        Some(format!("byte {at} of {len} in {path} flips"))
    }

    /// Springs the ambush if this is what it waits for: `proc` is about to do `what` to the file at
    /// `path`. How long (µs) the one that does it waits.
    pub(super) fn spring(&mut self, core: &mut Core, proc: ProcId, what: &str, path: &str) -> u64 {
        let role = self.role_of(proc).unwrap_or(Role::Setup);
        let here = |when: &When| match when {
            When::Spot(of, (op, file)) => *of == role && *op == what && path.contains(file),
            _ => false,
        };
        let late = self.cue(core, here, Some(proc));
        let at = |trap: &Ambush| trap.spot.0 == what && path.contains(trap.spot.1);
        let Some(trap) = self.ambush.filter(at) else {
            return late;
        };
        if role != trap.role || !core.rng.permille(trap.permille) {
            return late;
        }
        self.ambush = None;
        let until = core.now + trap.us;
        stop(core, proc, until, trap.thaw);
        let name = core.procs[proc].name.clone();
        core.say("fault", || {
            format!("{name} is stopped right before its {what} of {path}")
        });
        if trap.wide {
            self.stop_listeners(core, trap, until);
        }
        // Who was stopped in the middle goes on at once, or as late as its other threads.
        match core.rng.permille(500) {
            true => trap.us,
            false => trap.us + core.rng.below(trap.thaw),
        }
    }

    /// Whoever hears of what it does next is stopped with it, and wakes up when it has said its
    /// last words.
    fn stop_listeners(&mut self, core: &mut Core, trap: Ambush, until: u64) {
        for slot in self.slots.clone() {
            let along = match trap.role {
                Role::Leader => matches!(slot.role, Role::Person | Role::Executor),
                _ => slot.role == Role::Leader && core.rng.permille(400),
            };
            if let (true, Some(p)) = (along, slot.proc) {
                let after = core.rng.between(0, 40) * MS;
                stop(core, p, until + after, trap.thaw);
            }
        }
    }
}

fn stop(core: &mut Core, proc: ProcId, until: u64, thaw: u64) {
    core.procs[proc].frozen_until = until;
    core.procs[proc].thaw = thaw;
}

fn draw_ambush(core: &mut Core) -> Ambush {
    let rng = &mut core.rng;
    let role = rng.pick(&[Role::Leader, Role::Leader, Role::Executor]);
    let spot = match role {
        Role::Leader => rng.pick(LEADER_SPOTS),
        _ => rng.pick(EXECUTOR_SPOTS),
    };
    Ambush {
        spot,
        // A takeover takes T, the wait for the cache, and some looks.
        us: rng.between(3500, 15_000) * MS,
        wide: rng.permille(500),
        role,
        thaw: rng.pick(&[30, 300]) * MS,
        permille: rng.pick(&[100, 300, 1000]),
    }
}
