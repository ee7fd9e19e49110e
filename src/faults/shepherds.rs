//! The simulated spawners and shepherds of the hosts: they start and end tasks like the real ones,
//! and write the real tasks logs through the same platform layer as the daemons. One thread
//! simulates all shepherds of a host. A spawner finishes its received messages even if `cbexe` has
//! ended, and the next spawner waits for that.

use super::cluster::{Cluster, ProcessSlot};
use super::kernel::{Kernel, MS};
use super::own_units::{OwnUnit, in_env};
use super::plan::{Role, Trigger};
use super::simulated_os::{LOCAL, SimulatedOs};
use super::tasks::{ShepherdAct, Spawner, Task};
use super::world::{World, WorldState, current};
use crate::host::exe::spawn::{SpawnerEvent, Wire};
use crate::host::local::Local;
use crate::host::silence::Silence;
use crate::model::TermReason;
use crate::record::report::Ended;
use crate::sys::append::SharedAppender;
use crate::sys::{clock, fs, proc};
use crate::task::log::{TaskRec, encode_task};
use crate::task::spec::{FromSpawner, NewLimits, TaskAct, TaskSpec, ToSpawner, pack_act, split};
use crossbeam::channel::Sender;
use std::path::Path;
use std::sync::Arc;

/// How long a shepherd without work sleeps, µs.
const IDLE_US: u64 = 3_600_000_000;
/// How long it waits before it tries again to write its log, µs.
const RETRY_US: u64 = 500_000;

/// The life of a host's shepherds.
pub(super) fn run(os: &SimulatedOs, local: &Local) {
    let machine = os.machine;
    let watches = {
        let cluster = &mut os.world.lock().cluster;
        cluster.tasks.threads.insert(machine, current());
        cluster.plan.shepherds_watch
    };
    let mut watch = watches.then(|| Silence::new(local));
    loop {
        let (act, wait, runs) = {
            let mut inner = os.world.lock();
            let WorldState { kernel, cluster } = &mut *inner;
            let act = cluster.tasks.take_act(machine, kernel.now);
            let next = cluster.tasks.next_at(machine);
            let wait = next.map_or(IDLE_US, |at| at.saturating_sub(kernel.now));
            let runs = cluster.tasks.running_on(machine).next().is_some();
            (act, wait, runs)
        };
        // What the shepherds read is local and takes no requests to the share.
        let wait = match &mut watch {
            Some(silence) if runs => {
                if silence.exceeded_limit() {
                    fence(os);
                }
                wait.min(silence.pause() * MS)
            }
            _ => wait,
        };
        match act {
            None => os.world.pause(wait.max(1)),
            Some(ShepherdAct::Start(task, log)) => start(os, local, *task, log),
            Some(ShepherdAct::End(pid, plan)) => end(os, local, pid, plan),
            Some(ShepherdAct::Susp(pid, on)) => suspended(os, local, pid, on),
            Some(ShepherdAct::Limits(pid)) => limits(os, local, pid),
        }
    }
}

/// Makes each shepherd of a rerunnable task end it if its host was silent for too long.
fn fence(os: &SimulatedOs) {
    let mut inner = os.world.lock();
    let WorldState { kernel, cluster } = &mut *inner;
    let must_end = |t: &&Task| t.machine == os.machine && t.alive && t.rerunnable && t.sig == 0;
    let tasks = cluster.tasks.table.iter().filter(|(_, t)| must_end(t));
    let pids: Vec<i32> = tasks.map(|(pid, _)| *pid).collect();
    let order = pack_act(TaskAct::Kill, TermReason::Fenced, 0);
    for pid in pids {
        cluster.tasks.order(kernel, os.machine, pid, order);
    }
}

fn record(local: &Local, log: u64, (rec, mark): (&TaskRec, u32)) -> bool {
    let line = encode_task(rec, mark).expect("plain data becomes JSON");
    let opened = SharedAppender::open(&local.tasks(log));
    opened.and_then(|mut f| f.append(&line)).is_ok()
}

fn start(os: &SimulatedOs, local: &Local, spec: TaskSpec, log: u64) {
    let started_at = clock::boot_ms();
    let pid = {
        let mut inner = os.world.lock();
        inner.cluster.tasks.next_pid += 1;
        10_000 + inner.cluster.tasks.next_pid
    };
    let (a, start) = (spec.a, clock::wall_ms());
    let rec = TaskRec::Start {
        a,
        pid,
        born: started_at,
        boot: proc::boot_id().to_owned(),
        group: String::new(),
        t: start,
        cpus: spec.limits.cpus.clone().unwrap_or_default(),
    };
    if !record(local, log, (&rec, spec.mark)) {
        let mut inner = os.world.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let at = kernel.now + RETRY_US;
        let todo = ShepherdAct::Start(Box::new(spec), log);
        cluster.tasks.plan(kernel, os.machine, at, todo);
        return;
    }
    let mut inner = os.world.lock();
    let WorldState { kernel, cluster } = &mut *inner;
    let code = if kernel.rng.permille(100) { 3 } else { 0 };
    let ms = kernel.rng.between(1, cluster.plan.workload.task_ms);
    let at = kernel.now + ms * MS;
    let mark = cluster.history.mark_of(a);
    let task = Task {
        a,
        mark,
        machine: os.machine,
        started_at,
        log,
        start,
        rerunnable: spec.rerunnable,
        limit_changes: 0,
        alive: true,
        code,
        sig: 0,
        reason: TermReason::None,
        plan: 0,
        until: at,
        left: None,
    };
    let units = in_env(&spec.env);
    cluster.task_started(kernel, &task, &units);
    cluster.tasks.units.insert(pid, units);
    if !cluster.machines[os.machine].up {
        return;
    }
    cluster.tasks.table.insert(pid, task);
    cluster
        .tasks
        .plan(kernel, os.machine, at, ShepherdAct::End(pid, 0));
}

fn suspended(os: &SimulatedOs, local: &Local, pid: i32, on: bool) {
    let known = os.world.lock().cluster.tasks.table.get(&pid).cloned();
    if let Some(task) = known.filter(|task| task.alive) {
        let (a, t) = (task.a, clock::wall_ms());
        // If it is lost, it is reported again with the next order.
        let _ = record(local, task.log, (&TaskRec::Susp { a, on, t }, task.mark));
    }
}

/// Makes a shepherd read the limits that were changed; an earlier change never replaces a later
/// one.
fn limits(os: &SimulatedOs, local: &Local, pid: i32) {
    let known = os.world.lock().cluster.tasks.table.get(&pid).cloned();
    let Some(task) = known.filter(|task| task.alive) else {
        return;
    };
    let text = fs::read_small(&local.limits_file(task.a), 1 << 16).ok();
    let new = text.and_then(|text| serde_json::from_slice::<NewLimits>(&text).ok());
    let Some(new) = new.filter(|new| new.n > task.limit_changes) else {
        return;
    };
    let mut inner = os.world.lock();
    let WorldState { kernel, cluster } = &mut *inner;
    if let Some(task) = cluster.tasks.table.get_mut(&pid) {
        task.limit_changes = new.n;
    }
    let run = (task.a, task.mark);
    kernel.trace("task", || format!("{} has limits number {}", task.a, new.n));
    cluster.history.limits_taken(run, new.n);
}

fn end(os: &SimulatedOs, local: &Local, pid: i32, plan: u64) {
    let task = {
        let mut inner = os.world.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let Some(task) = cluster.tasks.table.get_mut(&pid) else {
            return;
        };
        if !task.alive || task.plan != plan {
            return;
        }
        let task = task.clone();
        cluster.history.task_ended(
            kernel,
            (task.a, task.mark),
            (task.sig == 0).then_some(task.code),
        );
        task
    };
    let end = Ended {
        a: task.a,
        start: task.start,
        t: clock::wall_ms(),
        code: (task.sig == 0).then_some(task.code),
        sig: task.sig,
        reason: task.reason,
        ..Ended::default()
    };
    let end = TaskRec::End(Box::new(end));
    let recorded = record(local, task.log, (&end, task.mark));
    let mut inner = os.world.lock();
    let WorldState { kernel, cluster } = &mut *inner;
    if recorded {
        if let Some(task) = cluster.tasks.table.get_mut(&pid) {
            task.alive = false;
        }
    } else {
        let at = kernel.now + RETRY_US;
        cluster
            .tasks
            .plan(kernel, os.machine, at, ShepherdAct::End(pid, plan));
    }
}

/// `cbexe`'s end of the wire.
struct SimWire {
    world: Arc<World>,
    machine: usize,
    log: u64,
    buf: Vec<u8>,
    open: bool,
}

/// Starts a simulated spawner after all requests to the earlier ones are done.
pub(super) fn spawner(os: &SimulatedOs, log: u64, tx: Sender<SpawnerEvent>) -> Box<dyn Wire> {
    let machine = os.machine;
    loop {
        {
            let mut inner = os.world.lock();
            let starts = |(m, todo): &(usize, ShepherdAct)| {
                *m == machine && matches!(todo, ShepherdAct::Start(..))
            };
            if !inner.cluster.tasks.pending_acts.values().any(starts) {
                let event = FromSpawner::Ready {
                    pid: 9,
                    cgroups: String::new(),
                    unheld: Default::default(),
                };
                let _ = tx.send(SpawnerEvent::Message(event));
                inner
                    .cluster
                    .tasks
                    .spawners
                    .push(Spawner { machine, log, tx });
                break;
            }
        }
        os.world.pause(10 * MS);
    }
    Box::new(SimWire {
        world: os.world.clone(),
        machine,
        log,
        buf: Vec::new(),
        open: true,
    })
}

impl Wire for SimWire {
    fn pid(&self) -> i32 {
        9
    }

    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.buf.extend_from_slice(bytes);
        let mut used = 0;
        let mut inner = self.world.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let mut at = kernel.now;
        while let Ok(Some((json, n))) = split(&self.buf[used..]) {
            used += n;
            if let Ok(ToSpawner::Start(task)) = serde_json::from_slice(json) {
                at += kernel.rng.between(1, 20_000);
                let todo = ShepherdAct::Start(task, self.log);
                cluster.tasks.plan(kernel, self.machine, at, todo);
            }
        }
        drop(inner);
        self.buf.drain(..used);
        Ok(())
    }

    fn close(&mut self) {
        self.open = false;
    }

    fn has_ended(&mut self) -> bool {
        !self.open
    }

    fn kill(&mut self) {
        self.open = false;
        let mut inner = self.world.lock();
        let (machine, log) = (self.machine, self.log);
        let tasks = &mut inner.cluster.tasks;
        tasks.pending_acts.retain(|_, (m, t)| {
            !(*m == machine && matches!(t, ShepherdAct::Start(_, l) if *l == log))
        });
        tasks
            .spawners
            .retain(|s| !(s.machine == machine && s.log == log));
    }
}

/// The local directory of a host.
pub(super) fn local_dir(host: &str) -> Local {
    Local::at(&Path::new(LOCAL).join(host))
}

impl Cluster {
    /// Notes that a task was started on a host.
    fn task_started(&mut self, kernel: &mut Kernel, task: &Task, units: &[OwnUnit]) {
        let host = self.machines[task.machine].name;
        let on_host = self.history.counted(self.tasks.running_on(task.machine));
        let wrong = self
            .history
            .check_units_of((task, units), &self.tasks, host);
        self.history.all_broken(kernel, wrong);
        self.history.task_started(kernel, task, host, on_host);
        let executes = |s: &&ProcessSlot| s.role == Role::Executor && s.machine == task.machine;
        let proc = self.slots.iter().find(executes).and_then(|s| s.proc);
        self.run_script(kernel, |t| matches!(t, Trigger::Started), proc);
    }
}
