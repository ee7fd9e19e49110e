//! Injects faults: which machine or process is hit and for how long, the actions of a script, and
//! which processes stop at a breakpoint. Only chooses at random; how machines and server behave
//! then is defined in `cluster`.

use super::breakpoint::Breakpoint;
use super::cluster::{Cluster, Event, ProcessSlot};
use super::disk::Disk;
use super::kernel::{Kernel, MS, ProcId};
use super::plan::{Fault, Role, ScriptedFault, Trigger};
use std::sync::Arc;

/// Maximum number of bytes that flip in a run: a writer that starts a file again repeatedly waits
/// longer each time.
const FLIPS_MAX: u64 = 4;

impl Cluster {
    /// Schedules the next part of the script, if it depends on a time.
    pub(super) fn plan_script(&mut self, kernel: &mut Kernel) {
        if let Some((Trigger::After(ms), _)) = self.plan.faults.script.front() {
            let at = kernel.now + ms * MS;
            self.plan_at(kernel, at, Event::NextOfScript);
        }
    }

    /// Carries out the next part of the script if this is the event for which it waits. Returns how
    /// long (µs) the process that caused it stops.
    pub(super) fn run_script(
        &mut self,
        kernel: &mut Kernel,
        is: impl Fn(&Trigger) -> bool,
        proc: Option<ProcId>,
    ) -> u64 {
        let script = &mut self.plan.faults.script;
        let due = script.front().is_some_and(|(trigger, _)| is(trigger));
        let Some((trigger, faults)) = due.then(|| script.pop_front()).flatten() else {
            return 0;
        };
        kernel.trace("fault", || format!("{trigger:?}: {faults:?}"));
        let mut late = 0;
        for fault in faults {
            late = late.max(self.carry_out(kernel, fault, proc));
        }
        self.plan_script(kernel);
        late
    }

    fn carry_out(
        &mut self,
        kernel: &mut Kernel,
        fault: ScriptedFault,
        proc: Option<ProcId>,
    ) -> u64 {
        let now = kernel.now;
        match (fault, proc) {
            (ScriptedFault::Kill, Some(proc)) => kernel.kill(proc),
            (ScriptedFault::Perish(ms), Some(proc)) => {
                kernel.kill(proc);
                let m = kernel.procs[proc].machine;
                self.plan_at(kernel, now + ms * MS, Event::PowerOff(m));
                self.plan_at(kernel, now + 20_000 * MS, Event::Boot(m));
            }
            (ScriptedFault::PowerOff(ms), Some(proc)) => {
                let m = kernel.procs[proc].machine;
                self.power_off(kernel, m);
                self.plan_at(kernel, now + ms * MS, Event::Boot(m));
            }
            (ScriptedFault::Stop(ms), Some(proc)) => {
                let breakpoint = Breakpoint {
                    call: ("", ""),
                    duration_us: ms * MS,
                    with_listeners: true,
                    role: Role::Leader,
                    thaw: 300 * MS,
                    permille: 1000,
                };
                let until = now + breakpoint.duration_us;
                kernel.freeze(proc, until, breakpoint.thaw);
                self.stop_listeners(kernel, breakpoint, until);
                return breakpoint.duration_us;
            }
            (ScriptedFault::ForgetLocks, _) => self.forget_locks(),
            (ScriptedFault::Restart(ms), _) => {
                self.server.down_until = now + ms * MS;
                let up = Event::ServerUp {
                    locks_lost: false,
                    data_lost: true,
                };
                self.plan_at(kernel, now + ms * MS, up);
            }
            (fault, None) => kernel.trace("fault", || format!("no process for {fault:?}")),
        }
        0
    }

    pub(super) fn next_fault(&mut self, kernel: &mut Kernel) {
        if self.faults_end_at.is_some()
            || self.history.failed()
            || self.plan.faults.kinds.is_empty()
        {
            return;
        }
        let gap = kernel.rng.between(1, 2 * self.plan.faults.every_ms) * MS;
        let at = kernel.now + gap;
        self.plan_at(kernel, at, Event::NextFault);
        let fault = kernel.rng.pick(&self.plan.faults.kinds.clone());
        let shown = self.inject(kernel, fault);
        if let Some(text) = shown {
            *self.injected.counts.entry(fault.name()).or_default() += 1;
            kernel.trace("fault", || text);
        }
    }

    /// Draws a machine: leaders and hosts are hit more often.
    fn target(&self, kernel: &mut Kernel) -> usize {
        let (leaders, hosts) = (self.plan.sizes.leaders as u64, self.plan.sizes.hosts as u64);
        let (from, n) = match kernel.rng.permille(self.plan.faults.leaders_permille) {
            true => (0, leaders),
            false if kernel.rng.permille(self.plan.faults.hosts_permille) => (leaders, hosts),
            false => (0, self.machines.len() as u64),
        };
        (from + kernel.rng.below(n)) as usize
    }

    /// Whether a process must live: if shepherds do not watch the silence of a host, its `cbexe`
    /// must do so.
    fn must_live(&self, slot: usize) -> bool {
        let plan = &self.plan;
        let alone = plan.iso_ms > 0 && !plan.shepherds_watch;
        alone && self.slots[slot].role == Role::Executor
    }

    fn slots_on(&self, machine: usize) -> Vec<usize> {
        let on =
            |s: &ProcessSlot| s.machine == machine && s.proc.is_some() && s.role != Role::Shepherds;
        (0..self.slots.len())
            .filter(|n| on(&self.slots[*n]))
            .collect()
    }

    /// Draws a process of the machine that may die or stop.
    fn draw_process(&mut self, kernel: &mut Kernel, machine: usize) -> Option<ProcId> {
        let slots = self.slots_on(machine);
        let slot = *slots.get(kernel.rng.below(slots.len() as u64) as usize)?;
        let proc = self.slots[slot].proc?;
        (!self.must_live(slot)).then_some(proc)
    }

    fn inject(&mut self, kernel: &mut Kernel, fault: Fault) -> Option<String> {
        let now = kernel.now;
        let m = self.target(kernel);
        let name = self.machines[m].name;
        if !self.machines[m].up {
            return None;
        }
        let short = kernel.rng.between(50, 4000) * MS;
        let long = kernel.rng.between(1000, 25_000) * MS;
        match fault {
            Fault::Kill => {
                let proc = self.draw_process(kernel, m)?;
                kernel.kill(proc);
                Some(format!("kill -9 {}", kernel.procs[proc].name))
            }
            Fault::Stop => {
                let proc = self.draw_process(kernel, m)?;
                let us = [long, short][usize::from(kernel.rng.permille(500))];
                kernel.procs[proc].frozen_until = now + us;
                let name = &kernel.procs[proc].name;
                Some(format!("stop {name} for {} ms", us / MS))
            }
            // A frozen process cannot be ended: if it were also cut off, it would be ended late.
            Fault::Freeze if self.machines[m].cut_until > now => None,
            Fault::Freeze => {
                self.silence(kernel, m, now + long);
                self.machines[m].frozen_until = now + long;
                for proc in kernel.procs.iter_mut().filter(|p| p.machine == m) {
                    proc.frozen_until = proc.frozen_until.max(now + long);
                }
                Some(format!("freeze machine {name} for {} ms", long / MS))
            }
            Fault::Power => {
                self.power_off(kernel, m);
                let at = now + kernel.rng.between(2000, 20_000) * MS;
                self.plan_at(kernel, at, Event::Boot(m));
                let wiped = kernel.rng.permille(self.plan.faults.wipes_permille);
                if wiped {
                    self.machines[m].local = Disk::default();
                }
                Some(format!(
                    "power off {name}; its local directory is lost: {wiped}"
                ))
            }
            Fault::Cut => {
                let most = self.plan.faults.cut_ms;
                let us = match kernel.rng.permille(500) {
                    true => short,
                    false if most > 25_000 => kernel.rng.between(25_000, most) * MS,
                    false => long,
                };
                self.silence(kernel, m, now + us);
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
                let most = self.plan.faults.clock_ms;
                let off = kernel.rng.between(0, 2 * most) as i64 - most as i64;
                self.machines[m].wall_offset_ms = off;
                Some(format!("wall clock of {name} steps to {off} ms off"))
            }
            other => self.inject_at_server(kernel, other, short),
        }
    }

    /// Injects faults of the server, of shepherds, and breakpoints.
    fn inject_at_server(
        &mut self,
        kernel: &mut Kernel,
        fault: Fault,
        short: u64,
    ) -> Option<String> {
        let now = kernel.now;
        match fault {
            Fault::Slow => {
                self.server.slow_until = now + short;
                self.server.slow_by = kernel.rng.pick(&[10, 100, 1000]);
                let by = self.server.slow_by;
                Some(format!(
                    "the server is {by} times slower for {} ms",
                    short / MS
                ))
            }
            Fault::Full => {
                self.server.full_until = now + short;
                self.server.full_errno = kernel.rng.pick(&[libc::ENOSPC, libc::EDQUOT]);
                Some(format!("the share is full for {} ms", short / MS))
            }
            Fault::Restart if self.server.down_until > now => None,
            Fault::Restart => {
                self.server.down_until = now + short;
                let locks_lost = kernel.rng.permille(300);
                let data_lost = kernel.rng.permille(300);
                self.plan_at(
                    kernel,
                    now + short,
                    Event::ServerUp {
                        locks_lost,
                        data_lost,
                    },
                );
                let ms = short / MS;
                Some(format!("the server restarts, away for {ms} ms"))
            }
            Fault::Breakpoint => {
                let breakpoint = Breakpoint::draw(&mut kernel.rng);
                self.injected.breakpoint = Some(breakpoint);
                let (what, path) = breakpoint.call;
                let (role, ms) = (breakpoint.role, breakpoint.duration_us / MS);
                let along = breakpoint.with_listeners;
                Some(format!(
                    "the next {role:?} to {what} {path} is stopped for {ms} ms, with listeners: \
                     {along}"
                ))
            }
            Fault::Flip => self.flip_byte(kernel),
            Fault::Locks => {
                self.forget_locks();
                Some("the server forgets all locks".into())
            }
            Fault::Shepherd => {
                let run = self.tasks.kill_one(kernel)?;
                self.history.task_ended(kernel, run, None);
                let (a, _) = run;
                Some(format!("kill -9 the shepherd of attempt {a}"))
            }
            _ => None,
        }
    }

    /// Flips a byte of a file through which leader and hosts communicate, most often one of the
    /// newest bytes: as a disk may do, without an error.
    fn flip_byte(&mut self, kernel: &mut Kernel) -> Option<String> {
        let flipped = self.injected.counts.get(Fault::Flip.name()).copied();
        if flipped.unwrap_or(0) >= FLIPS_MAX {
            return None;
        }
        let spoken = |path: &str| path.contains("/orders.") || path.contains("/reports.");
        let all = self.share.all().into_iter();
        let full = all.filter(|(path, data)| {
            spoken(path) && path.starts_with("/hosts/") && data.is_some_and(|d| !d.is_empty())
        });
        let paths: Vec<String> = full.map(|(path, _)| path).collect();
        let path = paths.get(kernel.rng.below(paths.len() as u64) as usize)?;
        let ino = self.share.find(path).ok()?;
        let node = self.share.node_mut(ino).ok()?;
        let len = node.data.len() as u64;
        // Damage to what was read long ago does no harm.
        let last = kernel.rng.pick(&[200, 2_000, len]).min(len);
        let at = (len - 1 - kernel.rng.below(last)) as usize;
        let bit = 1 << kernel.rng.below(8);
        Arc::make_mut(&mut node.data)[at] ^= bit;
        if let Some(byte) = Arc::make_mut(&mut node.stable).get_mut(at) {
            *byte ^= bit;
        }
        Some(format!("byte {at} of {len} in {path} flips"))
    }

    /// Called when `proc` is about to do `what` to the file at `path`: stops it if the breakpoint
    /// or the script waits for this. Returns how long (µs) its thread stops.
    pub(super) fn before_call(
        &mut self,
        kernel: &mut Kernel,
        proc: ProcId,
        what: &str,
        path: &str,
    ) -> u64 {
        let role = self.role_of(proc).unwrap_or(Role::Setup);
        let matches = |trigger: &Trigger| match trigger {
            Trigger::Call(of, (op, file)) => *of == role && *op == what && path.contains(file),
            _ => false,
        };
        let late = self.run_script(kernel, matches, Some(proc));
        let at = |b: &Breakpoint| b.call.0 == what && path.contains(b.call.1);
        let Some(breakpoint) = self.injected.breakpoint.filter(at) else {
            return late;
        };
        if role != breakpoint.role || !kernel.rng.permille(breakpoint.permille) {
            return late;
        }
        self.injected.breakpoint = None;
        let until = kernel.now + breakpoint.duration_us;
        kernel.freeze(proc, until, breakpoint.thaw);
        let name = kernel.procs[proc].name.clone();
        kernel.trace("fault", || {
            format!("{name} is stopped right before its {what} of {path}")
        });
        if breakpoint.with_listeners {
            self.stop_listeners(kernel, breakpoint, until);
        }
        // A thread that was stopped in the middle continues at once, or as late as the others.
        match kernel.rng.permille(500) {
            true => breakpoint.duration_us,
            false => breakpoint.duration_us + kernel.rng.below(breakpoint.thaw),
        }
    }

    /// Stops the processes that read what it writes next together with it; they continue when it
    /// has finished writing.
    fn stop_listeners(&mut self, kernel: &mut Kernel, breakpoint: Breakpoint, until: u64) {
        for slot in &self.slots {
            let along = match breakpoint.role {
                Role::Leader => matches!(slot.role, Role::Client | Role::Executor),
                _ => slot.role == Role::Leader && kernel.rng.permille(400),
            };
            if let (true, Some(proc)) = (along, slot.proc) {
                let after = kernel.rng.between(0, 40) * MS;
                kernel.freeze(proc, until + after, breakpoint.thaw);
            }
        }
    }
}
