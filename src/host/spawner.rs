//! The spawner: a small process that forks shepherds for `cbexe`, because forking is cheap only
//! from a process without much memory and safe only from one without threads.
//!
//! Reads messages from a stream on descriptor 0. Its end, or the end of the stream, harms no
//! running task. It owns the pool of control groups; it writes the tasks log only if a fork fails.

use super::local::Local;
use super::shepherd::{self, Inherited, Prepared};
use super::tmp_dirs::{Leftovers, TmpDirs};
use crate::model::{AttemptId, DeviceNode, JobKey, StartFault};
use crate::sys::append::SharedAppender;
use crate::sys::cgroup::{self, Denied, Group, Hierarchy, Limits, Pool, SharedDenied};
use crate::sys::ipc::{self, Bell};
use crate::sys::supervise::{self, Ended, Reaped};
use crate::sys::{clock, failpoint, fork, fs, lock, proc, userfile, users};
use crate::task::ending;
use crate::task::log::{TaskRec, encode_task};
use crate::task::spec::{
    FromSpawner, TaskBase, TaskLimits, TaskSpec, ToSpawner, UnenforcedLimits, encode, split,
};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes read from the stream at a time.
const READ_MAX: usize = 32 << 10;
/// How often ended shepherds are collected while no message arrives (ms).
const REAP_MS: u64 = 250;
/// Pause without a task (ms) after which free directories for temporary files are removed.
const TMP_IDLE_MS: u64 = 5_000;
/// Number of shepherds that wait in their groups for a task, so that a single job starts without
/// waiting until the kernel has moved a process.
const IDLE_SHEPHERDS: usize = 2;
/// Maximum number of waits of 1 ms for dismissed shepherds.
const DISMISS_ROUNDS: u32 = 100;
/// A shepherd is forked in advance after a pause of this length in the orders (ms).
const IDLE_FORK_MS: u64 = 30;
/// Number of control groups that are created before the first task.
const IDLE_GROUPS: usize = 2;
/// Space reserved in the tasks log, so that ends can be recorded while the disk is full, and the
/// number of tasks after which it is reserved again.
const RESERVE: (u64, u32) = (4 << 20, 1_000);
/// How long to wait for an earlier spawner and its half-started tasks (ms).
const ENDING_MS: u64 = 60_000;

/// Maximum number of searches for leftover processes, which may fork during a search.
const REAP_ROUNDS: u32 = 20;

/// The attempt of a shepherd that never got one.
const NO_ATTEMPT: AttemptId = AttemptId {
    j: JobKey { id: 0, idx: 0 },
    at: 0,
};

/// The options of the spawner.
#[derive(Clone, Debug)]
pub struct SpawnerOptions {
    pub local: PathBuf,
    pub host: String,
    /// Number of the tasks log to append to.
    pub log: u64,
    pub cgroups: bool,
}

/// A shepherd without a task yet.
struct IdleShepherd {
    pid: i32,
    stream: File,
    group: Group,
}

/// A shepherd, and what the spawner lent it.
struct Running {
    a: AttemptId,
    group: Option<Group>,
    /// The user and the directory for temporary files.
    tmp: Option<(Option<u32>, PathBuf)>,
}

/// The device nodes of this host's units.
#[derive(Default)]
struct Devices {
    /// All of them; empty if groups cannot deny devices.
    nodes: Vec<DeviceNode>,
    /// The devices that are denied to a task without units.
    closed: SharedDenied,
}

struct Spawner {
    /// None in a forked shepherd: `cbexe` must see the end of the stream when this process ends.
    stream: Option<File>,
    inherited: Inherited,
    pool: Pool,
    bases: HashMap<u32, Prepared>,
    shepherds: HashMap<i32, Running>,
    tmp_dirs: TmpDirs,
    idle: Vec<IdleShepherd>,
    devices: Devices,
    /// Number of tasks since space was last reserved in the log.
    unreserved: u32,
}

/// Runs until the stream ends.
///
/// # Errors
/// A sentence for the caller to print: standard input cannot be taken over, the local directory
/// cannot be used, or the stream failed.
pub fn run(options: &SpawnerOptions) -> Result<(), String> {
    let stream = ipc::take_stdin().map_err(|e| e.to_string())?;
    supervise::hold_signals();
    let mut s = open(options, stream).map_err(|e| e.to_string())?;
    // `cbexe` may have ended by now: everything that was created is removed in any case.
    let result = s.prepare().and_then(|()| s.serve());
    s.collect_ending();
    s.dismiss_idle();
    let free = s.tmp_dirs.forget_free();
    s.remove(free);
    s.pool.clear();
    s.pool.hierarchy().remove_parents();
    result
}

fn open(options: &SpawnerOptions, stream: File) -> crate::sys::Result<Spawner> {
    let local = Local::at(&options.local);
    let start_lock_path = local.spawner_lock();
    fs::ensure_file(&start_lock_path, 0o600)?;
    let start_lock = fs::open_rw(&start_lock_path)?;
    match lock::wait_for(&start_lock, ENDING_MS) {
        // From now on held by the open descriptor, in every fork that has it.
        Some(held) => std::mem::forget(held),
        None => {
            return Err(crate::sys::Error::invalid(
                "lock",
                &start_lock_path,
                "still held",
            ));
        }
    }
    let tag = cgroup::tag(&options.host, &options.local);
    let inherited = Inherited {
        log: SharedAppender::open(&local.tasks(options.log))?,
        bell: Bell::open(&local.bell())?,
        null: userfile::open_null()?,
        start_lock: Some(start_lock),
        forked_at: 0,
        spawner: std::process::id() as i32,
        host: options.host.clone(),
        boot: proc::boot_id().to_owned(),
        local: local.clone(),
        tmp_prefix: format!("corral.{tag}."),
        tmp: None,
    };
    // Created last: if anything before fails, no group exists yet.
    let hierarchy = match options.cgroups {
        true => Hierarchy::detect(&tag),
        false => Hierarchy::disabled("switched off"),
    };
    let prefix = format!("{}-{}", options.log, std::process::id());
    Ok(Spawner {
        stream: Some(stream),
        inherited,
        tmp_dirs: TmpDirs::new(&tag, std::process::id()),
        pool: Pool::new(hierarchy, prefix),
        bases: HashMap::new(),
        shepherds: HashMap::new(),
        idle: Vec::new(),
        devices: Devices::default(),
        unreserved: RESERVE.1,
    })
}

impl Spawner {
    /// Prepares groups for the first tasks, and reports which limits groups enforce here.
    fn prepare(&mut self) -> Result<(), String> {
        self.pool.warm_up(IDLE_GROUPS);
        let hierarchy = self.pool.hierarchy();
        let (memory, procs) = hierarchy.enforced_limits();
        let ready = FromSpawner::Ready {
            pid: std::process::id() as i32,
            cgroups: hierarchy.describe(),
            unheld: UnenforcedLimits {
                memory: !memory,
                procs: !procs,
                devices: !hierarchy.denies_devices(),
            },
        };
        self.answer(&ready)
    }

    fn serve(&mut self) -> Result<(), String> {
        let mut buf: Vec<u8> = Vec::new();
        loop {
            let wait = if self.needs_idle_shepherd() {
                Some(IDLE_FORK_MS)
            } else if !self.shepherds.is_empty() {
                Some(REAP_MS)
            } else {
                self.tmp_dirs.has_free().then_some(TMP_IDLE_MS)
            };
            let Some(stream) = self.stream.as_ref() else {
                return Ok(());
            };
            let readable = ipc::wait_readable(stream, wait);
            self.collect()?;
            if !readable {
                if self.needs_idle_shepherd() {
                    self.fork_idle_shepherd();
                } else if self.shepherds.is_empty() && self.tmp_dirs.has_free() {
                    let free = self.tmp_dirs.forget_free();
                    self.remove(free);
                }
                continue;
            }
            let Some(stream) = self.stream.as_ref() else {
                return Ok(());
            };
            let more = userfile::read_more(stream, &mut buf, READ_MAX);
            if more.map_err(|e| e.to_string())? == 0 {
                return Ok(());
            }
            let mut used = 0;
            while let Some((json, n)) = split(&buf[used..])? {
                used += n;
                let message = serde_json::from_slice(json).map_err(|e| e.to_string())?;
                self.handle_message(message)?;
            }
            buf.drain(..used);
        }
    }

    fn answer(&mut self, message: &FromSpawner) -> Result<(), String> {
        let mut out = Vec::new();
        encode(&mut out, message)?;
        let Some(mut stream) = self.stream.as_ref() else {
            return Ok(());
        };
        stream
            .write_all(&out)
            .map_err(|e| format!("cannot answer cbexe: {e}"))
    }

    fn handle_message(&mut self, message: ToSpawner) -> Result<(), String> {
        match message {
            ToSpawner::Base { n, base } => drop(self.bases.insert(n, Prepared::new(*base))),
            ToSpawner::Forget { below } => self.bases.retain(|n, _| *n >= below),
            ToSpawner::Start(task) => self.start(&task)?,
            ToSpawner::Reap { a, group, env } => self.reap_leftovers(a, &group, &env),
            ToSpawner::Sweep { keep } => self.remove_stale_groups(&keep),
            ToSpawner::ClearTmp => self.remove(self.tmp_dirs.leftovers()),
            ToSpawner::Devices { all } => self.take_devices(all),
        }
        Ok(())
    }

    /// From now on tasks cannot open these nodes, except those of their own units.
    fn take_devices(&mut self, all: Vec<DeviceNode>) {
        self.devices = Devices::new(all);
        // Their groups deny other devices: they end without a task.
        for IdleShepherd {
            pid, stream, group, ..
        } in self.idle.drain(..)
        {
            drop(stream);
            let running = Running::new(NO_ATTEMPT, Some(group), None);
            self.shepherds.insert(pid, running);
        }
    }

    /// The limits of a task's group.
    fn limits_of(&self, task: &TaskSpec) -> Limits {
        Limits {
            devices: self.devices.devices_denied_to(&task.limits.devices),
            ..group_limits(&task.limits)
        }
    }

    /// The limits of the group of a task without limits.
    fn plain_limits(&self) -> Limits {
        Limits {
            devices: self.devices.closed.clone(),
            ..Limits::default()
        }
    }

    fn start(&mut self, task: &TaskSpec) -> Result<(), String> {
        // Takes back the groups of ended tasks just before one is needed.
        self.collect()?;
        self.unreserved += 1;
        if self.unreserved > RESERVE.1 {
            self.inherited.log.reserve(RESERVE.0);
            self.unreserved = 0;
        }
        let Some(prepared) = self.bases.get(&task.base) else {
            let text = format!("base {} is not known to the spawner", task.base);
            return self.refuse(task, text);
        };
        // It is not the shepherd of the attempt, so its end must not be reported for the attempt.
        let a = match prepared.base.is_beside() {
            true => NO_ATTEMPT,
            false => task.a,
        };
        let limits = self.limits_of(task);
        if limits == self.plain_limits()
            && let Some(idle_shepherd) = self.idle.pop()
        {
            match send_task(&idle_shepherd, &prepared.base, task) {
                Ok(()) => {
                    let running = Running::new(a, Some(idle_shepherd.group), None);
                    self.shepherds.insert(idle_shepherd.pid, running);
                    return Ok(());
                }
                // It ends without a task, and its group is collected with it.
                Err(e) => {
                    eprintln!("cbtask: {e}");
                    let running = Running::new(NO_ATTEMPT, Some(idle_shepherd.group), None);
                    self.shepherds.insert(idle_shepherd.pid, running);
                }
            }
        }
        let group = match self.pool.take_group(&limits) {
            Ok(group) => group,
            Err(e) => return self.refuse(task, e.to_string()),
        };
        let uid = prepared.base.user.as_ref().map(|user| user.uid);
        let tmp = (!prepared.names_tmp).then(|| (uid, self.tmp_dirs.take_dir(uid)));
        failpoint::hit("spawner.before_fork");
        self.inherited.forked_at = clock::boot_ms();
        match fork::fork_plain() {
            Ok(0) => {
                self.stream = None;
                // Waiting shepherds must see the end of their streams when the spawner ends, not
                // this process.
                self.idle.clear();
                let inherited = &mut self.inherited;
                inherited.tmp = tmp.map(|(_, path)| path);
                let run = || shepherd::run(task, prepared, group, inherited);
                let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                proc::exit_now(ran.unwrap_or(shepherd::FAILED))
            }
            Ok(pid) => {
                let running = Running::new(a, group, tmp);
                self.shepherds.insert(pid, running);
                Ok(())
            }
            Err(e) => {
                if let Some(group) = group {
                    self.pool.give_back(group);
                }
                self.refuse(task, e.to_string())
            }
        }
    }

    /// Records that a task could not be started.
    fn refuse(&mut self, task: &TaskSpec, text: String) -> Result<(), String> {
        let base = self.bases.get(&task.base).map(|prepared| &prepared.base);
        if base.is_some_and(TaskBase::is_beside) {
            eprintln!(
                "cbtask: a command of job {} is not started: {text}",
                task.a.j
            );
            return Ok(());
        }
        let mut end = ending::not_started(task.a, None, (text, StartFault::Host));
        end.t = clock::wall_ms();
        let line = encode_task(&TaskRec::End(Box::new(end)), task.mark)?;
        self.inherited
            .log
            .append(&line)
            .map_err(|e| e.to_string())?;
        self.inherited.bell.ring();
        Ok(())
    }

    /// Collects ended shepherds and takes their groups back.
    fn collect(&mut self) -> Result<(), String> {
        while let Reaped::Child(pid, how) = supervise::reap() {
            let Some(Running { a, group, tmp }) = self.shepherds.remove(&pid) else {
                continue;
            };
            let (died, other_limits) = match how {
                Ended::Exited(shepherd::ENDED) => {
                    if let Some((uid, path)) = tmp {
                        self.tmp_dirs.return_dir(uid, path);
                    }
                    (false, false)
                }
                Ended::Exited(shepherd::ENDED_WITHOUT_TMP) => (false, false),
                Ended::Exited(shepherd::ENDED_WITH_OTHER_LIMITS) => (false, true),
                _ => (true, false),
            };
            match group {
                // A shepherd that died may have changed its limits too.
                Some(group) if other_limits || died => self.pool.give_up(group),
                Some(group) => self.pool.give_back(group),
                None => {}
            }
            if died {
                self.answer(&FromSpawner::Died { a, pid })?;
                self.inherited.bell.ring();
            }
        }
        Ok(())
    }

    fn needs_idle_shepherd(&self) -> bool {
        self.idle.len() < IDLE_SHEPHERDS && self.pool.hierarchy().is_usable()
    }

    /// Forks a shepherd that waits for a task.
    fn fork_idle_shepherd(&mut self) {
        let Ok(Some(group)) = self.pool.take_group(&self.plain_limits()) else {
            return;
        };
        let Ok((ours, theirs)) = ipc::pair() else {
            self.pool.give_back(group);
            return;
        };
        self.inherited.forked_at = clock::boot_ms();
        match fork::fork_plain() {
            Ok(0) => {
                self.stream = None;
                self.idle.clear();
                drop(ours);
                let inherited = &mut self.inherited;
                let run = || shepherd::wait_and_run(&theirs, group, inherited);
                let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                proc::exit_now(ran.unwrap_or(shepherd::FAILED))
            }
            Ok(pid) => self.idle.push(IdleShepherd {
                pid,
                stream: ours,
                group,
            }),
            Err(_) => self.pool.give_back(group),
        }
    }

    /// Collects shepherds that are about to end: this process must take back their groups.
    fn collect_ending(&mut self) {
        for _ in 0..DISMISS_ROUNDS {
            // The answer may fail if `cbexe` has ended.
            let _ = self.collect();
            let over = |r: &Running| r.group.as_ref().is_some_and(Group::is_empty);
            if !self.shepherds.values().any(over) {
                break;
            }
            clock::sleep_ms(1);
        }
    }

    /// Dismisses waiting shepherds and removes their groups.
    fn dismiss_idle(&mut self) {
        let mut groups: Vec<Group> = self.idle.drain(..).map(|w| w.group).collect();
        for _ in 0..DISMISS_ROUNDS {
            while let Reaped::Child(..) = supervise::reap() {}
            if groups.iter().all(Group::is_empty) {
                break;
            }
            clock::sleep_ms(1);
        }
        groups.iter_mut().for_each(Group::remove);
    }

    /// Kills the processes that a dead shepherd left.
    fn reap_leftovers(&mut self, a: AttemptId, name: &str, env: &[String]) {
        let own = std::process::id() as i32;
        for _ in 0..REAP_ROUNDS {
            let pids = match env.is_empty() {
                true => Vec::new(),
                false => proc::with_environment(env),
            };
            let pids: Vec<i32> = pids.into_iter().filter(|p| *p > 1 && *p != own).collect();
            if pids.is_empty() {
                break;
            }
            for pid in pids {
                let _ = proc::kill(pid, crate::task::machine::signal::KILL);
            }
            clock::sleep_ms(1);
        }
        let ours = self.shepherds.values().any(|running| running.a == a);
        if !name.is_empty()
            && !ours
            && let Some(mut group) = self.pool.hierarchy().find(name)
        {
            group.kill_until_empty(5_000);
            group.remove();
        }
    }

    /// Removes directories for temporary files in a separate process.
    fn remove(&mut self, leftovers: Leftovers) {
        if let Ok(0) = fork::fork_plain() {
            self.stream = None;
            self.idle.clear();
            // The next spawner need not wait for this.
            self.inherited.start_lock = None;
            let run = || leftovers.remove(users::may_switch());
            let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            proc::exit_now(i32::from(ran.is_err()))
        }
    }

    /// Removes groups of earlier spawners that no running task needs.
    fn remove_stale_groups(&mut self, keep: &[String]) {
        let own = format!("{}.", self.pool.prefix());
        for name in self.pool.hierarchy().names() {
            if name.starts_with(&own) || keep.contains(&name) {
                continue;
            }
            match self.pool.hierarchy().find(&name) {
                Some(mut group) => {
                    group.kill_until_empty(2_000);
                    group.remove();
                }
                None => self.pool.hierarchy().remove_rest(&name),
            }
        }
    }
}

impl Devices {
    fn new(nodes: Vec<DeviceNode>) -> Devices {
        let closed = (!nodes.is_empty()).then(|| Arc::new(Denied::new(nodes.clone())));
        Devices { nodes, closed }
    }

    /// The devices that are denied to a task with these nodes.
    fn devices_denied_to(&self, own: &[DeviceNode]) -> SharedDenied {
        if !self.nodes.iter().any(|node| own.contains(node)) {
            return self.closed.clone();
        }
        let left = self.nodes.iter().filter(|node| !own.contains(node));
        let left: Vec<DeviceNode> = left.copied().collect();
        (!left.is_empty()).then(|| Arc::new(Denied::new(left)))
    }
}

impl Running {
    fn new(a: AttemptId, group: Option<Group>, tmp: Option<(Option<u32>, PathBuf)>) -> Running {
        Running { a, group, tmp }
    }
}

/// Sends a waiting shepherd its task.
fn send_task(idle_shepherd: &IdleShepherd, base: &TaskBase, task: &TaskSpec) -> Result<(), String> {
    let mut out = Vec::new();
    encode(
        &mut out,
        &ToSpawner::Base {
            n: 0,
            base: Box::new(base.clone()),
        },
    )?;
    encode(&mut out, &ToSpawner::Start(Box::new(task.clone())))?;
    (&idle_shepherd.stream)
        .write_all(&out)
        .map_err(|e| format!("a waiting shepherd is gone: {e}"))
}

/// The limits of a task's control group, without devices.
pub(super) fn group_limits(l: &TaskLimits) -> Limits {
    Limits {
        memory: l.mem_b,
        swap: l.swap_b,
        pids: l.procs,
        cpu_percent: None,
        cpus: l.cpus.clone(),
        devices: None,
    }
}
