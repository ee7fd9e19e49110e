//! One control group: limits, joining, killing, freezing, usage.
//!
//! Owns the files of one group in every hierarchy in which it exists. Opens the files that are used
//! for every task once and keeps them open, because a group is used for many tasks.

use super::devices::{self, Denied, SharedDenied};
use super::totals::{TotalUsage, Totals};
use super::values::{keyed, number, read_pids, write};
use super::{Controller, Hierarchy, PerCtl, below};
use crate::model::{CpuSet, DeviceNode};
use crate::sys::{ErrorContext, Result, clock, fs, proc};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Limits of a group; `None` is unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory, bytes.
    pub memory: Option<u64>,
    /// Memory and swap together, bytes.
    pub swap: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// CPU time, percent of one CPU.
    pub cpu_percent: Option<u64>,
    /// The processors that its tasks may use, if groups can restrict them. A group that had some is
    /// not used for another task.
    pub cpus: Option<CpuSet>,
    /// The device nodes that its tasks may not open, if groups can deny some.
    pub devices: SharedDenied,
}

const CPU_PERIOD_US: u64 = 100_000;
const TEXT_MAX: usize = 64 << 10;
/// Maximum number of rounds of moving processes that fork in the meantime.
const MOVE_ROUNDS: usize = 100;

/// One group. Dropping it leaves the directories in place.
#[derive(Debug)]
pub struct Group {
    name: String,
    /// Version 1: the directory of each controller, if created. Version 2: only the first is set.
    dirs: PerCtl,
    parents: PerCtl,
    v2: bool,
    /// `cgroup.procs` of the directories that a task joins, opened for writing.
    join: Vec<(Controller, File)>,
    oom: Option<File>,
    oom_base: u64,
    /// Counts for a task whose processes are the children of a daemon.
    totals: Option<Totals>,
    /// Number of processes refused before the current task.
    refused_base: u64,
    applied: Limits,
}

/// Writes the value of the directory above into a file of a version 1 cpuset.
fn copy_from_parent(dir: &Path, name: &str) -> Result<()> {
    let above = dir.parent().unwrap_or(dir).join(name);
    let bytes = fs::read_small(&above, TEXT_MAX as u64)?;
    write(&dir.join(name), String::from_utf8_lossy(&bytes).trim())
}

/// Copies to a version 1 cpuset the values of the one above it, since a new one has none. Returns
/// false if it cannot be used.
pub(super) fn inherit_cpuset(dir: &Path) -> bool {
    let all = ["cpuset.mems", "cpuset.cpus"];
    all.iter().all(|name| copy_from_parent(dir, name).is_ok())
}

impl Group {
    pub(super) fn create(h: &Hierarchy, name: &str, limits: &Limits) -> Result<Group> {
        let (parents, v2) = parents_of(h);
        let first = task_controller(&parents, v2);
        let dir = parents[first as usize]
            .as_ref()
            .map(|p| p.join(name))
            .unwrap_or_default();
        fs::mkdir(&dir, 0o755)?;
        let mut group = Group::open(parents, v2, first, name.to_string(), dir)?;
        group.set(limits)?;
        Ok(group)
    }

    pub(super) fn find(h: &Hierarchy, name: &str) -> Option<Group> {
        let (parents, v2) = parents_of(h);
        let first = task_controller(&parents, v2);
        let dir = parents[first as usize].as_ref()?.join(name);
        let mut group = Group::open(parents, v2, first, name.to_string(), dir).ok()?;
        if !v2 {
            for ctl in Controller::ALL {
                let dir = group.parents[ctl as usize].as_ref().map(|p| p.join(name));
                group.dirs[ctl as usize] = dir.filter(|d| fs::exists(d));
            }
        }
        Some(group)
    }

    fn open(
        parents: PerCtl,
        v2: bool,
        first: Controller,
        name: String,
        dir: PathBuf,
    ) -> Result<Group> {
        let path = dir.join("cgroup.procs");
        let procs = OpenOptions::new()
            .write(true)
            .open(&path)
            .at("open", &path)?;
        let oom_file = if v2 {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        let oom = File::open(dir.join(oom_file)).ok();
        let join = vec![(first, procs)];
        let mut dirs = PerCtl::default();
        dirs[first as usize] = Some(dir);
        let applied = Limits::default();
        let mut g = Group {
            name,
            dirs,
            parents,
            v2,
            join,
            oom,
            oom_base: 0,
            totals: None,
            refused_base: 0,
            applied,
        };
        g.oom_base = g.oom_total();
        Ok(g)
    }

    /// The group's name below the parents.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Descriptors to which a process writes `0` to join.
    pub fn join_fds(&self) -> Vec<RawFd> {
        self.join.iter().map(|(_, f)| f.as_raw_fd()).collect()
    }

    /// Moves the calling process into the group. On an idle machine the kernel takes 10 to 20 ms
    /// for a move, so it is done in advance if a user waits.
    pub fn enter(&self) -> Result<()> {
        self.dirs
            .iter()
            .flatten()
            .try_for_each(|d| write(&d.join("cgroup.procs"), "0"))
    }

    /// Moves the calling process back to where the groups' parents were created.
    pub fn leave(&self) -> Result<()> {
        for dir in self.dirs.iter().flatten() {
            let home = dir.parent().and_then(Path::parent).unwrap_or(dir);
            // On version 2 a group that has controllers for its children accepts no processes.
            let leaf = home.join(super::DAEMONS).join("cgroup.procs");
            write(&home.join("cgroup.procs"), "0").or_else(|_| write(&leaf, "0"))?;
        }
        Ok(())
    }

    /// Prepares an empty group for another task: limits and counters.
    pub fn reset(&mut self, limits: &Limits) -> Result<()> {
        self.oom_base = self.oom_total();
        self.totals = None;
        if *limits != self.applied {
            self.set(limits)?;
        }
        // Only read for tasks that need to know how many were refused.
        self.refused_base = match limits.pids {
            Some(_) => self.refused_total(),
            None => 0,
        };
        Ok(())
    }

    /// The group's directory of the version 1 memory controller.
    fn v1_memory(&self) -> Option<&PathBuf> {
        self.dirs[Controller::Memory as usize]
            .as_ref()
            .filter(|_| !self.v2)
    }

    fn main_dir(&self) -> Option<&PathBuf> {
        self.dirs.iter().flatten().next()
    }

    /// The directory of a version 1 controller; created if needed, and from then on joined.
    fn controller_dir(&mut self, ctl: Controller, join: bool) -> Result<Option<PathBuf>> {
        if self.v2 {
            return Ok(self.main_dir().cloned());
        }
        let i = ctl as usize;
        if self.dirs[i].is_none() {
            let Some(parent) = self.parents[i].as_ref() else {
                return Ok(None);
            };
            let dir = parent.join(&self.name);
            fs::mkdir(&dir, 0o755)?;
            self.dirs[i] = Some(dir);
        }
        let dir = self.dirs[i].clone();
        if let Some(dir) = dir.as_ref().filter(|_| join)
            && !self.join.iter().any(|(c, _)| *c == ctl)
        {
            self.join
                .push((ctl, fs::open_rw(&dir.join("cgroup.procs"))?));
        }
        Ok(dir)
    }

    fn set(&mut self, new: &Limits) -> Result<()> {
        let old = self.applied.clone();
        if (new.memory, new.swap) != (old.memory, old.swap)
            && let Some(dir) = self.controller_dir(Controller::Memory, true)?
        {
            if self.v2 {
                memory_v2(&dir, new)?
            } else {
                memory_v1(&dir, new)?
            }
        }
        if new.pids != old.pids
            && let Some(dir) = self.controller_dir(Controller::Pids, true)?
        {
            let text = new.pids.map_or("max".to_string(), |n| n.to_string());
            let max = dir.join("pids.max");
            // Version 2 without this controller: see `Hierarchy::enforced_limits`.
            if !self.v2 || fs::exists(&max) {
                write(&max, &text)?;
            }
        }
        if new.cpu_percent != old.cpu_percent
            && let Some(dir) = self.controller_dir(Controller::Cpu, true)?
        {
            let quota = new.cpu_percent.map(|p| p * CPU_PERIOD_US / 100);
            if self.v2 {
                let quota = quota.map_or("max".to_string(), |q| q.to_string());
                write(&dir.join("cpu.max"), &format!("{quota} {CPU_PERIOD_US}"))?;
            } else {
                let quota = quota.map_or("-1".to_string(), |q| q.to_string());
                write(&dir.join("cpu.cfs_quota_us"), &quota)?;
            }
        }
        if new.cpus != old.cpus
            && let Some(cpus) = &new.cpus
        {
            self.set_cpus(cpus)?;
        }
        if new.devices != old.devices {
            self.set_devices(old.devices.as_deref(), new.devices.as_deref())?;
        }
        self.applied = new.clone();
        Ok(())
    }

    /// Restricts the tasks that join to these processors, if there is a cpuset.
    fn set_cpus(&mut self, cpus: &CpuSet) -> Result<()> {
        // On version 1 no task may join before both files have a value.
        let Some(dir) = self.controller_dir(Controller::Cpuset, false)? else {
            return Ok(());
        };
        if !fs::exists(&dir.join("cpuset.cpus")) {
            return Ok(());
        }
        if !self.v2 {
            copy_from_parent(&dir, "cpuset.mems")?;
        }
        write(&dir.join("cpuset.cpus"), &cpus.to_string())?;
        self.controller_dir(Controller::Cpuset, true).map(drop)
    }

    /// Denies the tasks that join the nodes of `new` instead of those of `old`. A task that is
    /// already there has joined by then.
    fn set_devices(&mut self, old: Option<&Denied>, new: Option<&Denied>) -> Result<()> {
        let Some(dir) = self.controller_dir(Controller::Devices, true)? else {
            return Ok(());
        };
        match self.v2 {
            true => devices::change_v2(&dir, old, new),
            false => devices::change_v1(&dir, old, new),
        }
    }

    /// Lets the tasks of the group open these nodes from now on.
    ///
    /// # Errors
    /// The tasks are still denied these nodes.
    pub fn allow(&mut self, nodes: &[DeviceNode]) -> Result<()> {
        let Some(old) = self.applied.devices.clone() else {
            return Ok(());
        };
        let left = old.nodes().iter().filter(|node| !nodes.contains(node));
        let left: Vec<DeviceNode> = left.copied().collect();
        let devices = (!left.is_empty()).then(|| std::sync::Arc::new(Denied::new(left)));
        self.set(&Limits {
            devices,
            ..self.applied.clone()
        })
    }

    /// Whether its tasks are restricted to some processors.
    pub(super) fn is_bound(&self) -> bool {
        self.applied.cpus.is_some()
    }

    /// Changes the limits of the processes in the group. On version 1, processes whose controller
    /// was not used until now are moved into its directory; what they used before is not counted
    /// there.
    ///
    /// # Errors
    /// [`Error::is_busy`](crate::sys::Error::is_busy): they use more than the new limit.
    pub fn change(&mut self, limits: &Limits) -> Result<()> {
        let Limits {
            cpu_percent,
            cpus,
            devices,
            ..
        } = self.applied.clone();
        self.set(&Limits {
            cpu_percent,
            cpus,
            devices,
            ..limits.clone()
        })?;
        if !self.v2 {
            for ctl in [Controller::Memory, Controller::Pids] {
                if let Some(dir) = self.dirs[ctl as usize].clone() {
                    self.move_into(&dir);
                }
            }
        }
        Ok(())
    }

    /// Moves the group's processes into one of its directories, until none is left outside.
    fn move_into(&self, dir: &Path) {
        for _ in 0..MOVE_ROUNDS {
            let inside = below::pids(dir);
            let mut outside = self.pids();
            outside.retain(|pid| !inside.contains(pid));
            if outside.is_empty() {
                break;
            }
            for pid in outside {
                // It may have ended in the meantime.
                let _ = write(&dir.join("cgroup.procs"), &pid.to_string());
            }
        }
    }

    /// The processes in the group and in the groups below it; if there are such groups, in any
    /// hierarchy. The files are opened each time: a version 1 descriptor that is kept open repeats
    /// the list of its first read.
    pub fn pids(&self) -> Vec<i32> {
        if !self.has_below() {
            let procs = self
                .main_dir()
                .map(|dir| read_pids(&dir.join("cgroup.procs")));
            return procs.unwrap_or_default();
        }
        let mut pids: Vec<i32> = self.all_dirs().flat_map(|dir| below::pids(&dir)).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Where the group is or may be, in all hierarchies in use.
    fn all_dirs(&self) -> impl Iterator<Item = PathBuf> {
        self.parents.iter().flatten().map(|p| p.join(&self.name))
    }

    /// Whether its task created groups below it, checked in the hierarchy that contains the task
    /// alone: this is checked several times per task, and programs that create such groups create
    /// them in every hierarchy.
    pub(super) fn has_below(&self) -> bool {
        self.main_dir().is_some_and(|dir| below::any(dir))
    }

    /// True when no process is left where the group contains its tasks.
    pub fn is_empty(&self) -> bool {
        self.main_dir()
            .is_none_or(|dir| below::pids(dir).is_empty())
    }

    /// Signals every process in the group once; returns how many there were.
    pub fn signal(&self, signal: i32) -> usize {
        let pids = self.pids();
        for pid in &pids {
            let _ = proc::kill(*pid, signal);
        }
        pids.len()
    }

    /// Kills everything at once: with `cgroup.kill` if the kernel has it, otherwise with a signal
    /// to each process. Returns true if the group was found empty.
    pub fn kill_once(&self) -> bool {
        if self.pids().is_empty() {
            return true;
        }
        let kill = self
            .main_dir()
            .filter(|_| self.v2)
            .map(|d| d.join("cgroup.kill"));
        if kill.is_none_or(|k| write(&k, "1").is_err()) {
            self.signal(libc::SIGKILL);
            let freezer = self.parents[Controller::Freezer as usize].as_ref();
            if let Some(parent) = freezer.filter(|_| !self.v2) {
                below::thaw_v1(&parent.join(&self.name));
            }
        }
        false
    }

    /// Kills until nothing is left, for at most `ms`. If a fork storm outruns plain killing for a
    /// second, the group is frozen first. Returns true if it is empty.
    pub fn kill_until_empty(&mut self, ms: u64) -> bool {
        let start = clock::boot_ms();
        let mut froze = false;
        let mut pause = 1;
        loop {
            if self.kill_once() {
                return true;
            }
            let spent = clock::boot_ms() - start;
            if spent > ms {
                return self.pids().is_empty();
            }
            if self.was_frozen() {
                // A frozen process dies only after it is thawed.
                let _ = self.thaw();
            } else if spent > 1000 && !froze {
                froze = true;
                let _ = self.freeze();
            }
            clock::sleep_ms(pause);
            pause = (pause * 2).min(50);
        }
    }

    /// Suspends all processes. On version 1 the freezer's group is created now, and the processes
    /// are moved into it until none is left outside. Returns false if there is no freezer.
    pub fn freeze(&mut self) -> Result<bool> {
        if self.v2 {
            let Some(dir) = self.main_dir() else {
                return Ok(false);
            };
            return write(&dir.join("cgroup.freeze"), "1").map(|()| true);
        }
        let Some(dir) = self.controller_dir(Controller::Freezer, false)? else {
            return Ok(false);
        };
        write(&dir.join("freezer.state"), "FROZEN")?;
        self.move_into(&dir);
        Ok(true)
    }

    /// Resumes the processes. Returns false if there is no freezer.
    pub fn thaw(&mut self) -> Result<bool> {
        if self.v2 {
            let Some(dir) = self.main_dir() else {
                return Ok(false);
            };
            return write(&dir.join("cgroup.freeze"), "0").map(|()| true);
        }
        let Some(dir) = self.dirs[Controller::Freezer as usize].as_ref() else {
            return Ok(false);
        };
        write(&dir.join("freezer.state"), "THAWED").map(|()| true)
    }

    /// Whether the kernel reports the group as suspended now.
    pub fn was_frozen(&self) -> bool {
        if self.v2 {
            return self
                .main_dir()
                .is_some_and(|d| number(d.join("cgroup.freeze")) == 1);
        }
        let Some(dir) = self.dirs[Controller::Freezer as usize].as_ref() else {
            return false;
        };
        let state = fs::read_small(&dir.join("freezer.state"), 100).unwrap_or_default();
        state.starts_with(b"FR")
    }

    fn oom_total(&self) -> u64 {
        let Some(file) = self.oom.as_ref() else {
            return 0;
        };
        let mut buf = [0u8; 512];
        let n = file.read_at(&mut buf, 0).unwrap_or(0);
        keyed(&buf[..n], "oom_kill")
    }

    /// Number of processes killed for lack of memory since the last reset.
    pub fn oom_kills(&self) -> u64 {
        self.oom_total().saturating_sub(self.oom_base)
    }

    /// From now on usage in the groups below is counted as well.
    pub fn count_below(&mut self) {
        let memory = self.v1_memory().map(PathBuf::as_path);
        self.totals = self.main_dir().map(|main| Totals::begin(main, memory));
    }

    /// The usage here and below, if that is counted.
    pub fn used_below(&self) -> Option<TotalUsage> {
        let memory = self.v1_memory().map(PathBuf::as_path);
        Some(self.totals?.used(self.main_dir()?, memory))
    }

    fn refused_total(&self) -> u64 {
        let dir = match self.v2 {
            true => self.main_dir(),
            false => self.dirs[Controller::Pids as usize].as_ref(),
        };
        let text = dir.and_then(|dir| fs::read_small(&dir.join("pids.events"), 512).ok());
        text.map_or(0, |text| keyed(&text, "max"))
    }

    /// Number of processes and threads that the limit `pids` prevented a task from creating.
    pub fn refused_processes(&self) -> u64 {
        self.refused_total().saturating_sub(self.refused_base)
    }

    /// Bytes of files in memory, and of their swapped part, that are charged to an emptied group.
    pub(super) fn charged_file_bytes(&self) -> u64 {
        let dir = match self.v2 {
            true => self.main_dir(),
            false => self.dirs[Controller::Memory as usize].as_ref(),
        };
        let Some(dir) = dir else { return 0 };
        let stat = fs::read_small(&dir.join("memory.stat"), TEXT_MAX as u64).unwrap_or_default();
        let swap = match self.v2 {
            true => number(dir.join("memory.swap.current")),
            false => keyed(&stat, "swap"),
        };
        keyed(&stat, "shmem").saturating_add(swap)
    }

    /// Removes the directories of an empty group, including those that another process created for
    /// it (a freezer's) and those below it, also in the hierarchies that are not used here; a
    /// directory that is not empty stays.
    pub fn remove(&mut self) {
        if self.has_below() {
            for dir in super::elsewhere(self.all_dirs()) {
                below::remove(&dir);
            }
        }
        for dir in self.all_dirs() {
            below::remove(&dir);
        }
        self.dirs = PerCtl::default();
    }

    /// Removes the directories of all groups that are empty.
    pub fn remove_parents(&self) {
        super::remove_empty(self.parents.iter().flatten());
    }
}

fn parents_of(h: &Hierarchy) -> (PerCtl, bool) {
    match h {
        Hierarchy::V1(dirs) => (dirs.clone(), false),
        Hierarchy::V2(dir) => ([Some(dir.clone()), None, None, None, None, None], true),
        Hierarchy::None(_) => (PerCtl::default(), true),
    }
}

/// The controller whose group contains the task.
fn task_controller(parents: &PerCtl, v2: bool) -> Controller {
    let present = |c: &Controller| parents[*c as usize].is_some();
    if v2 {
        Controller::Memory
    } else {
        Controller::ALL
            .into_iter()
            .find(present)
            .unwrap_or(Controller::Memory)
    }
}

fn memory_v1(dir: &Path, new: &Limits) -> Result<()> {
    let limit = dir.join("memory.limit_in_bytes");
    let both = dir.join("memory.memsw.limit_in_bytes");
    let text = |v: Option<u64>| v.map_or("-1".to_string(), |n| n.to_string());
    // The sum may never be below the memory limit, not even temporarily.
    let swap_counted = fs::exists(&both);
    if swap_counted {
        write(&both, "-1")?;
    }
    let memory = match (new.memory, new.swap) {
        (Some(m), Some(s)) => Some(m.min(s)),
        (m, s) => m.or(s),
    };
    write(&limit, &text(memory))?;
    if swap_counted && new.swap.is_some() {
        write(&both, &text(new.swap))?;
    }
    Ok(())
}

fn memory_v2(dir: &Path, new: &Limits) -> Result<()> {
    let text = |v: Option<u64>| v.map_or("max".to_string(), |n| n.to_string());
    let memory = match (new.memory, new.swap) {
        (Some(m), Some(s)) => Some(m.min(s)),
        (m, s) => m.or(s),
    };
    let max = dir.join("memory.max");
    if !fs::exists(&max) {
        return Ok(());
    }
    write(&max, &text(memory))?;
    let swap_max = dir.join("memory.swap.max");
    if fs::exists(&swap_max) {
        let swap = new.swap.map(|s| s.saturating_sub(memory.unwrap_or(0)));
        write(&swap_max, &text(swap))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
