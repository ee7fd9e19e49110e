//! Simulated spawners and shepherds: what `cbexe` has started on a host, whether it wants or not.
//!
//! They keep the real ones' rules: the start is on record before the task runs, the end before it
//! is believed, a spawner ends what it was sent although `cbexe` is gone, and the next one waits
//! for that. Writes the tasks logs through the same calls of `sys` as the daemons.

use super::cluster::Scene;
use super::history::RunKey;
use super::simulated_os::Port;
use super::world::{ActorId, Core, Inner, World, me};
use crate::host::exe::spawn::{Heard, Wire};
use crate::host::local::Local;
use crate::host::silence::Silence;
use crate::model::{AttemptId, TermReason};
use crate::record::report::Ended;
use crate::sys::append::SharedAppender;
use crate::sys::clock;
use crate::sys::proc;
use crate::task::log::{TaskRec, encode_task};
use crate::task::spec::{FromSpawner, TaskAct, TaskSpec, ToSpawner, pack_act, split, unpack_act};
use crossbeam::channel::Sender;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const MS: u64 = 1000;
const IDLE_US: u64 = 3_600_000_000;
const RETRY_US: u64 = 500_000;

/// A task that was started.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub a: AttemptId,
    /// Which run of that name it is.
    pub mark: u32,
    pub machine: usize,
    born: u64,
    log: u64,
    start: i64,
    rerunnable: bool,
    pub alive: bool,
    /// What it will end with.
    code: i32,
    sig: i32,
    reason: TermReason,
    /// Which of its planned ends counts.
    plan: u64,
    /// When it will end by itself (µs); while it is stopped, how long it still takes.
    until: u64,
    left: Option<u64>,
}

/// What a host's shepherds are to do.
#[derive(Clone, Debug)]
enum Todo {
    Start(Box<TaskSpec>, u64),
    End(i32, u64),
    /// Record that it was stopped or goes on.
    Susp(i32, bool),
}

/// A spawner as `cbexe` sees it.
struct Spawner {
    machine: usize,
    log: u64,
    tx: Option<Sender<Heard>>,
}

/// All hosts' tasks.
#[derive(Default)]
pub(super) struct Tasks {
    pub table: BTreeMap<i32, Task>,
    todo: BTreeMap<(u64, u64), (usize, Todo)>,
    order: u64,
    spawners: Vec<Spawner>,
    actors: BTreeMap<usize, ActorId>,
    next_pid: i32,
}

impl Tasks {
    fn plan(&mut self, core: &mut Core, machine: usize, at: u64, todo: Todo) {
        self.order += 1;
        self.todo.insert((at, self.order), (machine, todo));
        if let Some(actor) = self.actors.get(&machine) {
            core.wake(*actor, at.min(self.next_at(machine).unwrap_or(at)));
        }
    }

    fn next_at(&self, machine: usize) -> Option<u64> {
        let mut of = self.todo.iter().filter(|(_, (m, _))| *m == machine);
        of.next().map(|((at, _), _)| *at)
    }

    fn take(&mut self, machine: usize, now: u64) -> Option<Todo> {
        let mut of = self.todo.iter().filter(|(_, (m, _))| *m == machine);
        let key = of
            .next()
            .map(|(key, _)| *key)
            .filter(|(at, _)| *at <= now)?;
        self.todo.remove(&key).map(|(_, todo)| todo)
    }

    /// Whether process `pid`, born then, lives on the machine.
    pub(super) fn lives(&self, machine: usize, pid: i32, born: u64) -> bool {
        self.table
            .get(&pid)
            .is_some_and(|t| t.machine == machine && t.alive && t.born.abs_diff(born) < 1500)
    }

    /// Attempts whose tasks run on a machine.
    pub(super) fn running_on(&self, machine: usize) -> impl Iterator<Item = RunKey> {
        let on = move |t: &&Task| t.machine == machine && t.alive;
        self.table.values().filter(on).map(|t| (t.a, t.mark))
    }

    /// Tasks that run anywhere.
    pub(super) fn running(&self) -> usize {
        self.table.values().filter(|t| t.alive).count()
    }

    /// An order to a shepherd; false when it is gone.
    pub(super) fn order(&mut self, core: &mut Core, machine: usize, pid: i32, value: u64) -> bool {
        let Some((act, reason, _)) = unpack_act(value) else {
            return false;
        };
        let task = self.table.get_mut(&pid);
        let Some(task) = task.filter(|t| t.machine == machine && t.alive) else {
            return false;
        };
        if matches!(act, TaskAct::Terminate | TaskAct::Kill) {
            (task.sig, task.reason) = (9, reason);
            task.plan += 1;
            let plan = task.plan;
            let at = core.now + core.rng.between(1, 50) * MS;
            self.plan(core, machine, at, Todo::End(pid, plan));
        } else if act == TaskAct::Stop && task.left.is_none() && task.sig == 0 {
            task.left = Some(task.until.saturating_sub(core.now));
            task.plan += 1;
            self.plan(core, machine, core.now, Todo::Susp(pid, true));
        } else if let (TaskAct::Resume, Some(left)) = (act, task.left) {
            task.left = None;
            task.until = core.now + left;
            task.plan += 1;
            let (at, plan) = (task.until, task.plan);
            self.plan(core, machine, core.now, Todo::Susp(pid, false));
            self.plan(core, machine, at, Todo::End(pid, plan));
        }
        true
    }

    /// Lets some tasks run on for so long (µs) from now.
    pub(super) fn prolong(&mut self, core: &mut Core, us: u64, which: impl Fn(&RunKey) -> bool) {
        let mut ends = Vec::new();
        for (pid, task) in &mut self.table {
            if task.alive && task.sig == 0 && task.left.is_none() && which(&(task.a, task.mark)) {
                task.plan += 1;
                task.until = core.now + us;
                ends.push((task.machine, task.until, Todo::End(*pid, task.plan)));
            }
        }
        for (machine, at, todo) in ends {
            self.plan(core, machine, at, todo);
        }
    }

    /// Kills some shepherd; the task dies with it, unseen.
    pub(super) fn kill_one(&mut self, core: &mut Core) -> Option<RunKey> {
        let alive: Vec<i32> = self
            .table
            .iter()
            .filter(|(_, t)| t.alive)
            .map(|(pid, _)| *pid)
            .collect();
        let pid = *alive.get(core.rng.below(alive.len() as u64) as usize)?;
        let task = self.table.get_mut(&pid)?;
        task.alive = false;
        let (a, log, machine) = (task.a, task.log, task.machine);
        let run = (a, task.mark);
        let spawner = self
            .spawners
            .iter()
            .find(|s| s.machine == machine && s.log == log);
        if let Some(tx) = spawner.and_then(|s| s.tx.as_ref()) {
            let _ = tx.send(Heard::Said(FromSpawner::Died { a, pid }));
        }
        Some(run)
    }

    /// All that ran there is gone.
    pub(super) fn machine_died(&mut self, core: &mut Core, machine: usize) {
        self.todo.retain(|_, (m, _)| *m != machine);
        self.spawners.retain(|s| s.machine != machine);
        self.actors.remove(&machine);
        for task in self.table.values_mut().filter(|t| t.machine == machine) {
            if task.alive {
                let a = task.a;
                core.say("task", || format!("attempt {a} dies with its machine"));
            }
            task.alive = false;
        }
    }
}

/// The life of a host's shepherds: one actor plays them all.
pub(super) fn tend(port: &Port, local: &Local) {
    let machine = port.machine;
    {
        let mut inner = port.world.lock();
        inner.scene.tasks.actors.insert(machine, me());
    }
    let watches = port.world.lock().scene.plan.shepherds_watch;
    let mut watch = watches.then(|| Silence::new(local));
    loop {
        let (todo, wait, runs) = {
            let mut inner = port.world.lock();
            let Inner { core, scene } = &mut *inner;
            let todo = scene.tasks.take(machine, core.now);
            let next = scene.tasks.next_at(machine);
            let wait = next.map_or(IDLE_US, |at| at.saturating_sub(core.now));
            let runs = scene.tasks.running_on(machine).next().is_some();
            (todo, wait, runs)
        };
        // What the shepherds look at is local: asking whether it is time costs the share nothing.
        let wait = match &mut watch {
            Some(silence) if runs => {
                if silence.is_over() {
                    fence(port);
                }
                wait.min(silence.pause() * MS)
            }
            _ => wait,
        };
        match todo {
            None => port.world.pause(wait.max(1)),
            Some(Todo::Start(task, log)) => start(port, local, *task, log),
            Some(Todo::End(pid, plan)) => end(port, local, pid, plan),
            Some(Todo::Susp(pid, on)) => suspended(port, local, pid, on),
        }
    }
}

/// Each shepherd of a rerunnable task ends it when the host was silent for too long.
fn fence(port: &Port) {
    let mut inner = port.world.lock();
    let Inner { core, scene } = &mut *inner;
    let here = |t: &&Task| t.machine == port.machine && t.alive && t.rerunnable && t.sig == 0;
    let tasks = scene.tasks.table.iter().filter(|(_, t)| here(t));
    let pids: Vec<i32> = tasks.map(|(pid, _)| *pid).collect();
    let order = pack_act(TaskAct::Kill, TermReason::Fenced, 0);
    for pid in pids {
        scene.tasks.order(core, port.machine, pid, order);
    }
}

fn record(local: &Local, log: u64, rec: &TaskRec) -> bool {
    let line = encode_task(rec).expect("plain data becomes JSON");
    let opened = SharedAppender::open(&local.tasks(log));
    opened.and_then(|mut f| f.append(&line)).is_ok()
}

fn start(port: &Port, local: &Local, spec: TaskSpec, log: u64) {
    let born = clock::boot_ms();
    let pid = {
        let mut inner = port.world.lock();
        inner.scene.tasks.next_pid += 1;
        10_000 + inner.scene.tasks.next_pid
    };
    let (a, start) = (spec.a, clock::wall_ms());
    let rec = TaskRec::Start {
        a,
        pid,
        born,
        boot: proc::boot_id().to_owned(),
        group: String::new(),
        t: start,
    };
    if !record(local, log, &rec) {
        let mut inner = port.world.lock();
        let Inner { core, scene } = &mut *inner;
        let at = core.now + RETRY_US;
        let todo = Todo::Start(Box::new(spec), log);
        scene.tasks.plan(core, port.machine, at, todo);
        return;
    }
    let mut inner = port.world.lock();
    let Inner { core, scene } = &mut *inner;
    let code = if core.rng.permille(100) { 3 } else { 0 };
    let ms = core.rng.between(1, scene.plan.task_ms);
    let at = core.now + ms * MS;
    let mark = scene.history.mark_of(a);
    let task = Task {
        a,
        mark,
        machine: port.machine,
        born,
        log,
        start,
        rerunnable: spec.rerunnable,
        alive: true,
        code,
        sig: 0,
        reason: TermReason::None,
        plan: 0,
        until: at,
        left: None,
    };
    Scene::task_started(scene, core, &task);
    if !scene.machines[port.machine].up {
        return;
    }
    scene.tasks.table.insert(pid, task);
    scene.tasks.plan(core, port.machine, at, Todo::End(pid, 0));
}

fn suspended(port: &Port, local: &Local, pid: i32, on: bool) {
    let known = port.world.lock().scene.tasks.table.get(&pid).cloned();
    if let Some(task) = known.filter(|task| task.alive) {
        let (a, t) = (task.a, clock::wall_ms());
        // Lost, it is told anew with the next order.
        let _ = record(local, task.log, &TaskRec::Susp { a, on, t });
    }
}

fn end(port: &Port, local: &Local, pid: i32, plan: u64) {
    let task = {
        let mut inner = port.world.lock();
        let Inner { core, scene } = &mut *inner;
        let Some(task) = scene.tasks.table.get_mut(&pid) else {
            return;
        };
        if !task.alive || task.plan != plan {
            return;
        }
        let task = task.clone();
        scene.history.task_ended(
            core,
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
    let recorded = record(local, task.log, &TaskRec::End(Box::new(end)));
    let mut inner = port.world.lock();
    let Inner { core, scene } = &mut *inner;
    if recorded {
        if let Some(task) = scene.tasks.table.get_mut(&pid) {
            task.alive = false;
        }
    } else {
        let at = core.now + RETRY_US;
        scene
            .tasks
            .plan(core, port.machine, at, Todo::End(pid, plan));
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

/// Starts a simulated spawner, after what the earlier ones were sent is done.
pub(super) fn spawner(port: &Port, log: u64, tx: Sender<Heard>) -> Box<dyn Wire> {
    let machine = port.machine;
    loop {
        {
            let mut inner = port.world.lock();
            let starts =
                |(m, todo): &(usize, Todo)| *m == machine && matches!(todo, Todo::Start(..));
            if !inner.scene.tasks.todo.values().any(starts) {
                let heard = FromSpawner::Ready {
                    pid: 9,
                    cgroups: String::new(),
                    unheld: Default::default(),
                };
                let _ = tx.send(Heard::Said(heard));
                inner.scene.tasks.spawners.push(Spawner {
                    machine,
                    log,
                    tx: Some(tx),
                });
                break;
            }
        }
        port.world.pause(10 * MS);
    }
    Box::new(SimWire {
        world: port.world.clone(),
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
        let Inner { core, scene } = &mut *inner;
        let mut at = core.now;
        while let Ok(Some((json, n))) = split(&self.buf[used..]) {
            used += n;
            if let Ok(ToSpawner::Start(task)) = serde_json::from_slice(json) {
                at += core.rng.between(1, 20_000);
                let todo = Todo::Start(task, self.log);
                scene.tasks.plan(core, self.machine, at, todo);
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
        let tasks = &mut inner.scene.tasks;
        tasks
            .todo
            .retain(|_, (m, t)| !(*m == machine && matches!(t, Todo::Start(_, l) if *l == log)));
        tasks
            .spawners
            .retain(|s| !(s.machine == machine && s.log == log));
    }
}

/// The local directory of a host.
pub(super) fn local_dir(host: &str) -> Local {
    Local::at(&Path::new(super::simulated_os::LOCAL).join(host))
}
