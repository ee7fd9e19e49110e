//! Control groups: what this machine supports, and a pool of groups for tasks.
//!
//! Owns the directories below its own parent in each hierarchy. On version 1 a task joins one group
//! that contains it (memory, else pids, else freezer) and further groups only for limits that it
//! has, because creating and removing directories is the main cost of a short task; emptied groups
//! are kept and reused. Nothing here knows about jobs.

mod below;
mod devices;
mod group;
mod totals;
mod values;

pub use devices::{Denied, SharedDenied};
pub use group::{Group, Limits};
pub use totals::TotalUsage;

use super::{Result, fs};
use std::path::{Path, PathBuf};

/// Version 2: the leaf to which daemons move when their own group gets children.
const DAEMONS: &str = "corral-daemons";
/// Number of idle groups kept for the next tasks.
const POOL_MAX: usize = 256;
/// Shared memory in bytes that an ended task may have left in a group that is used again; the next
/// task is charged for it. It is above zero because the kernel's figure may be some pages out of
/// date.
const LEFT_MAX: u64 = 1 << 20;

/// A name for the groups of a host that no other cluster on the machine uses: `local` is the host's
/// own directory.
pub fn tag(host: &str, local: &Path) -> String {
    let sum = crc32c::crc32c(local.as_os_str().as_encoded_bytes());
    format!("{host}.{sum:08x}")
}

/// A version 1 controller that is used if present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    /// Contains tasks, limits memory, counts OOM kills.
    Memory,
    /// Limits processes.
    Pids,
    /// Limits CPU time.
    Cpu,
    /// Suspends.
    Freezer,
    /// Denies tasks access to device nodes. Only created for tasks that are denied some.
    Devices,
    /// Restricts tasks to some processors. Created for those that are bound; never the only one.
    Cpuset,
}

/// Directories of one kind, one for each controller.
type PerCtl = [Option<PathBuf>; Controller::ALL.len()];

impl Controller {
    pub(crate) const ALL: [Controller; 6] = [
        Controller::Memory,
        Controller::Pids,
        Controller::Cpu,
        Controller::Freezer,
        Controller::Devices,
        Controller::Cpuset,
    ];

    fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
            Controller::Freezer => "freezer",
            Controller::Devices => "devices",
            Controller::Cpuset => "cpuset",
        }
    }
}

/// The groups' parent directories on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// Version 1 controllers (a hybrid machine too): parent directory per controller.
    V1(PerCtl),
    /// Version 2: the parent directory.
    V2(PathBuf),
    /// None can be used; the text states why.
    None(String),
}

impl Hierarchy {
    /// Determines what can be used and creates the parent directory `corral.<tag>` below the
    /// caller's own group. Version 1 takes precedence if its memory controller can be used.
    pub fn detect(tag: &str) -> Hierarchy {
        let limit = 1 << 20;
        let mounts = fs::read_small(Path::new("/proc/self/mounts"), limit).unwrap_or_default();
        let own = fs::read_small(Path::new("/proc/self/cgroup"), limit).unwrap_or_default();
        let mounts = String::from_utf8_lossy(&mounts).into_owned();
        let own = String::from_utf8_lossy(&own).into_owned();
        let leaf = format!("corral.{tag}");
        let v1 = Controller::ALL.map(|ctl| {
            let dir = v1_dir(&mounts, &own, ctl.name())?.join(&leaf);
            let ready = usable(&dir)
                && match ctl {
                    Controller::Cpuset => group::inherit_cpuset(&dir),
                    Controller::Devices => devices::can_deny(&dir, false),
                    _ => true,
                };
            if !ready {
                let _ = fs::remove_dir(&dir);
            }
            ready.then_some(dir)
        });
        let contains = |c: &Controller| {
            !matches!(c, Controller::Cpuset | Controller::Devices) && v1[*c as usize].is_some()
        };
        if Controller::ALL.iter().any(contains) {
            return Hierarchy::V1(v1);
        }
        v1.iter()
            .flatten()
            .for_each(|dir| drop(fs::remove_dir(dir)));
        match v2_dir(&mounts, &own) {
            Some(dir) => prepare_v2(&dir, &leaf),
            None => Hierarchy::None("no cgroup file system can be written".to_string()),
        }
    }

    /// A hierarchy that must not be used.
    pub fn disabled(why: &str) -> Hierarchy {
        Hierarchy::None(why.to_string())
    }

    /// True when tasks can be put into groups.
    pub fn is_usable(&self) -> bool {
        !matches!(self, Hierarchy::None(_))
    }

    /// A sentence for the log: which one is used.
    pub fn describe(&self) -> String {
        match self {
            Hierarchy::V1(dirs) => {
                let has = |c: &&Controller| dirs[**c as usize].is_some();
                let names: Vec<_> = Controller::ALL
                    .iter()
                    .filter(has)
                    .map(|c| c.name())
                    .collect();
                format!("cgroup v1 ({})", names.join(", "))
            }
            Hierarchy::V2(dir) => format!("cgroup v2 below {}", dir.display()),
            Hierarchy::None(why) => format!("no cgroups: {why}"),
        }
    }

    /// Whether groups limit memory, and whether they limit processes.
    pub fn enforced_limits(&self) -> (bool, bool) {
        match self {
            Hierarchy::V1(dirs) => {
                let has = |c: Controller| dirs[c as usize].is_some();
                (has(Controller::Memory), has(Controller::Pids))
            }
            Hierarchy::V2(dir) => {
                let given = fs::read_small(&dir.join("cgroup.subtree_control"), 4096);
                let given = String::from_utf8_lossy(&given.unwrap_or_default()).into_owned();
                let has = |c: Controller| given.split_whitespace().any(|w| w == c.name());
                (has(Controller::Memory), has(Controller::Pids))
            }
            Hierarchy::None(_) => (false, false),
        }
    }

    /// Whether groups can deny device nodes to tasks.
    pub fn denies_devices(&self) -> bool {
        match self {
            Hierarchy::V1(dirs) => dirs[Controller::Devices as usize].is_some(),
            Hierarchy::V2(dir) => devices::can_deny(dir, true),
            Hierarchy::None(_) => false,
        }
    }

    /// Creates the group `name`, or takes over an existing one.
    pub fn create(&self, name: &str, limits: &Limits) -> Result<Group> {
        Group::create(self, name, limits)
    }

    /// The group `name` if it exists.
    pub fn find(&self, name: &str) -> Option<Group> {
        Group::find(self, name)
    }

    fn parents(&self) -> Vec<&PathBuf> {
        match self {
            Hierarchy::V1(dirs) => dirs.iter().flatten().collect(),
            Hierarchy::V2(dir) => vec![dir],
            Hierarchy::None(_) => Vec::new(),
        }
    }

    /// Removes the remains of a group that contains no task and is no longer found by `find`.
    pub fn remove_rest(&self, name: &str) {
        for parent in self.parents() {
            below::remove(&parent.join(name));
        }
    }

    /// Names of all groups that exist below the parents, each once.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .parents()
            .into_iter()
            .flat_map(|d| fs::list_dir(d, 100_000).unwrap_or_default())
            .filter(|e| e.is_dir)
            .filter_map(|e| e.text().map(str::to_string))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Removes the parent directories if they are empty.
    pub fn remove_parents(&self) {
        remove_empty(self.parents().into_iter());
    }
}

/// Removes those parent directories that are empty.
fn remove_empty<'a>(parents: impl Iterator<Item = &'a PathBuf> + Clone) {
    // Groups for tasks may have been created there, too.
    let others = elsewhere(parents.clone().cloned());
    parents.for_each(|dir| drop(fs::remove_dir(dir)));
    others.iter().for_each(|dir| drop(fs::remove_dir(dir)));
}

/// The directories with the same names in the other hierarchies of this machine: a program that
/// creates groups below that of a task creates the same path in all of them.
fn elsewhere(dirs: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mounts = fs::read_small(Path::new("/proc/self/mounts"), 1 << 20).unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts);
    let mut found: Vec<PathBuf> = dirs
        .flat_map(|dir| below::elsewhere(&dir, &mounts))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The directory of the caller's own group of a version 1 controller.
fn v1_dir(mounts: &str, own: &str, ctl: &str) -> Option<PathBuf> {
    let point = mounts.lines().find_map(|l| {
        let f: Vec<&str> = l.split(' ').collect();
        let found = f.len() > 3 && f[2] == "cgroup" && f[3].split(',').any(|o| o == ctl);
        found.then(|| PathBuf::from(f[1]))
    })?;
    let path = own.lines().find_map(|l| {
        let mut f = l.splitn(3, ':').skip(1);
        let controllers = f.next()?;
        let path = f.next()?;
        controllers.split(',').any(|c| c == ctl).then_some(path)
    })?;
    Some(point.join(path.trim_start_matches('/')))
}

/// The directory of the caller's own version 2 group.
fn v2_dir(mounts: &str, own: &str) -> Option<PathBuf> {
    let point = mounts.lines().find_map(|l| {
        let f: Vec<&str> = l.split(' ').collect();
        (f.len() > 3 && f[2] == "cgroup2").then(|| PathBuf::from(f[1]))
    })?;
    let mut path = own.lines().find_map(|l| l.strip_prefix("0::"))?;
    // This process, or an earlier one, was moved there: its groups are beside that leaf.
    while let Some((outer, DAEMONS)) = path.rsplit_once('/') {
        path = outer;
    }
    Some(point.join(path.trim_start_matches('/')))
}

/// Whether `dir` exists or can be created, and groups can be created in it.
fn usable(dir: &Path) -> bool {
    let probe = dir.join(format!("probe.{}", std::process::id()));
    let made = fs::mkdir(dir, 0o755).is_ok() && fs::mkdir(&probe, 0o755).is_ok();
    let _ = fs::remove_dir(&probe);
    made
}

/// Creates the version 2 parent. A group that has processes cannot give controllers to its
/// children, so outside the root group this process first moves into a leaf of its own.
fn prepare_v2(own: &Path, leaf: &str) -> Hierarchy {
    let parent = own.join(leaf);
    if !usable(&parent) {
        let _ = fs::remove_dir(&parent);
        return Hierarchy::None(format!("{} cannot be written", own.display()));
    }
    let wanted = "+memory +pids +cpu +cpuset";
    if enable(own, wanted).is_err() {
        let leaf = own.join(DAEMONS);
        let moved = fs::mkdir(&leaf, 0o755).is_ok() && move_all(own, &leaf);
        if !moved || enable(own, wanted).is_err() {
            tracing::warn!("{}: controllers cannot be given to tasks", own.display());
        }
    }
    let _ = enable(&parent, wanted);
    Hierarchy::V2(parent)
}

/// Enables each existing controller; an error if an existing one cannot be enabled.
fn enable(dir: &Path, wanted: &str) -> Result<()> {
    let has = fs::read_small(&dir.join("cgroup.controllers"), 4096)?;
    let has = String::from_utf8_lossy(&has).into_owned();
    for w in wanted.split(' ') {
        if has
            .split_whitespace()
            .any(|c| Some(c) == w.strip_prefix('+'))
        {
            values::write(&dir.join("cgroup.subtree_control"), w)?;
        }
    }
    Ok(())
}

fn move_all(from: &Path, to: &Path) -> bool {
    let target = to.join("cgroup.procs");
    values::read_pids(&from.join("cgroup.procs"))
        .iter()
        .all(|pid| values::write(&target, &pid.to_string()).is_ok())
}

/// Groups ready to be used, with the limits they had last.
#[derive(Debug)]
pub struct Pool {
    hierarchy: Hierarchy,
    prefix: String,
    next: u64,
    idle: Vec<Group>,
}

impl Pool {
    /// A pool whose groups are named `<prefix>.<number>`; the prefix must be new.
    pub fn new(hierarchy: Hierarchy, prefix: String) -> Pool {
        Pool {
            hierarchy,
            prefix,
            next: 0,
            idle: Vec::new(),
        }
    }

    /// Creates the first groups in advance, so that no task waits for a directory.
    pub fn warm_up(&mut self, n: usize) {
        let made: Vec<Group> = (0..n)
            .filter_map(|_| self.take_group(&Limits::default()).ok().flatten())
            .collect();
        made.into_iter().for_each(|g| self.give_back(g));
    }

    /// An empty group with these limits; `None` if there are no cgroups here.
    pub fn take_group(&mut self, limits: &Limits) -> Result<Option<Group>> {
        if !self.hierarchy.is_usable() {
            return Ok(None);
        }
        // The group used longest ago is taken last: its counters are cold either way, but a
        // recently emptied group may still contain a zombie.
        while let Some(mut group) = self.idle.pop() {
            match group.reset(limits) {
                Ok(()) => return Ok(Some(group)),
                Err(e) => {
                    tracing::warn!("{e}; the group is given up");
                    group.remove();
                }
            }
        }
        self.next += 1;
        let name = format!("{}.{}", self.prefix, self.next);
        self.hierarchy.create(&name, limits).map(Some)
    }

    /// Returns a group. If it is not empty, or its task created groups below it, it is killed and
    /// removed instead of being kept. If files in memory of its task are charged to it, or it
    /// restricts processors, it is removed, too.
    pub fn give_back(&mut self, mut group: Group) {
        if !group.is_empty() || group.was_frozen() || group.has_below() {
            group.kill_until_empty(2_000);
            group.remove();
        } else if self.idle.len() >= POOL_MAX
            || group.charged_file_bytes() > LEFT_MAX
            || group.is_bound()
        {
            group.remove();
        } else {
            self.idle.push(group);
        }
    }

    /// Removes a group that must not be used again: its limits are not those with which it was
    /// taken.
    pub fn give_up(&mut self, mut group: Group) {
        group.kill_until_empty(2_000);
        group.remove();
    }

    /// Removes all idle groups.
    pub fn clear(&mut self) {
        for mut group in self.idle.drain(..) {
            group.remove();
        }
    }

    /// The prefix of the names of this pool's groups.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The hierarchy the groups are in.
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_groups_do_not_limit_is_known() {
        let d = tempfile::tempdir().unwrap();
        let dir = |has: bool| has.then(|| d.path().to_path_buf());
        let v1 = |memory, pids| {
            Hierarchy::V1([dir(memory), dir(pids), None, dir(true), None, None]).enforced_limits()
        };
        assert_eq!(
            (v1(true, true), v1(false, true)),
            ((true, true), (false, true))
        );
        let v2 = |text: &str| {
            std::fs::write(d.path().join("cgroup.subtree_control"), text).unwrap();
            Hierarchy::V2(d.path().to_path_buf()).enforced_limits()
        };
        assert_eq!(
            (v2("cpu memory pids\n"), v2("pids\n")),
            ((true, true), (false, true))
        );
        assert_eq!(
            (v2("\n"), Hierarchy::disabled("x").enforced_limits()),
            ((false, false), (false, false))
        );
    }

    const MOUNTS: &str = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0\n";
    const OWN: &str = "5:cpu,cpuacct:/a\n4:memory:/x/y\n0::/user.slice\n";

    #[test]
    fn own_directories_are_found_in_both_versions() {
        let dir = |c| v1_dir(MOUNTS, OWN, c);
        assert_eq!(
            dir("memory").unwrap(),
            Path::new("/sys/fs/cgroup/memory/x/y")
        );
        assert_eq!(dir("cpu").unwrap(), Path::new("/sys/fs/cgroup/cpu/a"));
        assert_eq!(dir("pids"), None);
        let nested = OWN.replace("user.slice", "a/corral-daemons/corral-daemons");
        let unified = v2_dir(MOUNTS, &nested).unwrap();
        assert_eq!(unified, Path::new("/sys/fs/cgroup/unified/a"));
        let root = v2_dir(MOUNTS, "0::/corral-daemons\n").unwrap();
        assert_eq!(root, Path::new("/sys/fs/cgroup/unified"));
        let v2 = v2_dir(MOUNTS, OWN).unwrap();
        assert_eq!(v2, Path::new("/sys/fs/cgroup/unified/user.slice"));
    }
}
