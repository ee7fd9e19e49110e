//! The processors of this machine: hardware threads, cores, sockets and NUMA nodes as sysfs names
//! them, and those that this process may use.
//!
//! Owns the reading of `/sys/devices/system/{cpu,node}` and the affinity call. Chooses nothing.

use super::{Error, Result, fs};
use crate::model::{CPUS_MAX, Cpu, CpuSet};
use std::collections::BTreeMap;
use std::path::Path;

/// The directory in which the kernel describes them.
pub const SYSTEM: &str = "/sys/devices/system";
/// Maximum size of a file that is read, in bytes, and maximum number of names in a directory.
const FILE_MAX: u64 = 64 << 10;
const NAMES_MAX: usize = 100_000;

/// The processors below `root` (`SYSTEM`) that are online and in `allowed`, by number. If the
/// kernel does not state a value, one is assumed: a core for each processor, one socket, one node.
///
/// # Errors
/// `root` has no directory of processors that can be read.
pub fn read(root: &Path, allowed: &CpuSet) -> Result<Vec<Cpu>> {
    let dir = root.join("cpu");
    let online = list(&dir.join("online"));
    let nodes = nodes(&root.join("node"));
    let mut out = Vec::new();
    for id in numbered(&dir, "cpu")? {
        let own = dir.join(format!("cpu{id}"));
        let off = online.as_ref().is_some_and(|on| !on.contains(id))
            || text(&own.join("online")).is_some_and(|word| word == "0");
        if off || !allowed.contains(id) {
            continue;
        }
        let topology = own.join("topology");
        let siblings = list(&topology.join("core_cpus_list"))
            .or_else(|| list(&topology.join("thread_siblings_list")))
            .or_else(|| mask(&text(&topology.join("thread_siblings"))?));
        let first = siblings.filter(|set| set.contains(id));
        let socket = text(&topology.join("physical_package_id"));
        out.push(Cpu {
            id,
            core: first.and_then(|set| set.iter().next()).unwrap_or(id),
            // -1: unknown to the kernel.
            socket: socket.and_then(|word| word.parse().ok()).unwrap_or(0),
            node: nodes.get(&id).copied().unwrap_or(0),
        });
    }
    Ok(out)
}

/// The node of each processor. A node that has only memory has none.
fn nodes(dir: &Path) -> BTreeMap<u32, u32> {
    let mut out = BTreeMap::new();
    for node in numbered(dir, "node").unwrap_or_default() {
        let own = dir.join(format!("node{node}"));
        let cpus = list(&own.join("cpulist")).or_else(|| mask(&text(&own.join("cpumap"))?));
        for cpu in cpus.iter().flat_map(CpuSet::iter) {
            out.entry(cpu).or_insert(node);
        }
    }
    out
}

/// The numbers of the directories `<prefix><number>`, ascending.
fn numbered(dir: &Path, prefix: &str) -> Result<Vec<u32>> {
    let names = fs::list_dir(dir, NAMES_MAX)?;
    let number = |name: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
    let all = names.iter().filter_map(|e| number(e.text()?));
    let mut all: Vec<u32> = all.filter(|n| *n < CPUS_MAX).collect();
    all.sort_unstable();
    Ok(all)
}

fn text(path: &Path) -> Option<String> {
    let bytes = fs::read_small(path, FILE_MAX).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn list(path: &Path) -> Option<CpuSet> {
    CpuSet::parse(&text(path)?)
}

/// `00000000,0000000f`: 32 processors a word, the last word has the lowest numbers.
fn mask(text: &str) -> Option<CpuSet> {
    let mut all = Vec::new();
    for (at, word) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        let low = u32::try_from(at * 32).ok().filter(|low| *low < CPUS_MAX)?;
        all.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| low + bit),
        );
    }
    Some(all.into_iter().collect())
}

const WORD: usize = u64::BITS as usize;

/// The processors that this process may use according to its affinity and its cpuset.
pub fn allowed() -> Result<CpuSet> {
    let mut words = [0u64; CPUS_MAX as usize / WORD];
    let (len, at) = (size_of_val(&words), words.as_mut_ptr());
    // SAFETY: the kernel writes at most `len` bytes to `words`.
    let n = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, len, at) };
    if n < 0 {
        return Err(Error::last("read the affinity of", Path::new("cbexe")));
    }
    let set = |id: &u32| words[*id as usize / WORD] >> (*id as usize % WORD) & 1 == 1;
    Ok((0..CPUS_MAX).filter(set).collect())
}

/// The set in the form of the kernel's affinity call.
pub(super) fn words(set: &CpuSet) -> Vec<u64> {
    let most = set.iter().last().map_or(0, |id| id as usize / WORD + 1);
    let mut words = vec![0u64; most];
    for id in set.iter() {
        words[id as usize / WORD] |= 1 << (id as usize % WORD);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Tree {
            Tree(tempfile::tempdir().unwrap())
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }

        fn cpu(&self, id: u32, socket: &str, siblings: &str) {
            let dir = format!("cpu/cpu{id}/topology");
            self.put(&format!("{dir}/physical_package_id"), socket);
            self.put(&format!("{dir}/thread_siblings_list"), siblings);
        }

        fn read(&self, allowed: &str) -> Vec<(u32, u32, u32, u32)> {
            let allowed = CpuSet::parse(allowed).unwrap();
            let all = read(self.0.path(), &allowed).unwrap();
            let row = |c: Cpu| (c.id, c.core, c.socket, c.node);
            all.into_iter().map(row).collect()
        }
    }

    /// Two sockets of two cores of two threads; one thread is offline.
    fn two_sockets() -> Tree {
        let t = Tree::new();
        t.put("cpu/online", "0-6");
        t.put("cpu/cpuidle/current_driver", "none");
        for id in 0..8 {
            let core = id % 4;
            let siblings = match core {
                3 => "3".to_owned(),
                _ => format!("{core},{}", core + 4),
            };
            t.cpu(id, ["0", "0", "1", "1"][core as usize], &siblings);
        }
        t.put("node/online", "0-2");
        t.put("node/node0/cpulist", "0-1,4-5");
        t.put("node/node1/cpulist", "2-3,6-7");
        // It has only memory.
        t.put("node/node2/cpulist", "");
        t
    }

    #[test]
    fn threads_cores_sockets_and_nodes_are_read_without_what_is_offline() {
        let all = [
            (0, 0, 0, 0),
            (1, 1, 0, 0),
            (2, 2, 1, 1),
            (3, 3, 1, 1),
            (4, 0, 0, 0),
            (5, 1, 0, 0),
            (6, 2, 1, 1),
        ];
        assert_eq!(two_sockets().read("0-63"), all);
    }

    #[test]
    fn only_what_the_daemon_may_use_is_given() {
        assert_eq!(
            two_sockets().read("1,6-7"),
            [(1, 1, 0, 0), (6, 2, 1, 1)],
            "the other thread of core 2 is not ours"
        );
    }

    #[test]
    fn what_an_older_kernel_or_a_virtual_machine_does_not_say_counts_as_one() {
        let t = Tree::new();
        t.cpu(0, "-1", "bad");
        t.put("cpu/cpu1/online", "1");
        t.put("cpu/cpu2/online", "0");
        t.put("cpu/cpu33/topology/thread_siblings", "00000002,00000002");
        t.put("node/node1/cpumap", "00000002,00000000");
        assert_eq!(t.read("0-99"), [(0, 0, 0, 0), (1, 1, 0, 0), (33, 1, 0, 1)]);
        // A set of threads that does not contain the processor itself is not its core.
        t.put("cpu/cpu33/topology/core_cpus_list", "0-1");
        assert_eq!(t.read("33"), [(33, 33, 0, 1)]);
        let empty = tempfile::tempdir().unwrap();
        assert!(read(empty.path(), &CpuSet::default()).is_err());
    }

    #[test]
    fn this_machine_has_the_processors_that_the_affinity_names() {
        let mine = allowed().unwrap();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("Cpus_allowed_list"));
        let listed = line.unwrap().split_once(':').unwrap().1;
        assert_eq!(mine, CpuSet::parse(listed).unwrap());
        let all = read(Path::new(SYSTEM), &mine).unwrap();
        assert_eq!(all.iter().map(|c| c.id).collect::<CpuSet>(), mine);
        assert_eq!(words(&CpuSet::parse("0,63-64").unwrap()), [1 | 1 << 63, 1]);
    }

    /// A machine for both readers: sockets, nodes per socket, cores per node, threads per core.
    fn machine((sockets, nodes, cores, threads): (u32, u32, u32, u32)) -> Tree {
        let t = Tree::new();
        let (all, step) = (sockets * nodes * cores * threads, sockets * nodes * cores);
        let hex = |of: &dyn Fn(u32) -> bool| {
            let bits = (0..all)
                .filter(|id| of(*id))
                .fold(0u64, |sum, id| sum | 1 << id);
            format!("{:08x},{:08x}", bits >> 32, bits & 0xffff_ffff)
        };
        let list = |of: &dyn Fn(u32) -> bool| (0..all).filter(|id| of(*id)).collect::<CpuSet>();
        let (core, node) = (|id: u32| id % step, |id: u32| id % step / cores);
        t.put("sys/devices/system/cpu/online", &format!("0-{}", all - 1));
        t.put(
            "sys/devices/system/node/online",
            &format!("0-{}", sockets * nodes - 1),
        );
        t.put("proc/cpuinfo", "");
        t.put("proc/mounts", "");
        for id in 0..all {
            let put = |name: &str, text: String| {
                let dir = format!("sys/devices/system/cpu/cpu{id}/topology");
                t.put(&format!("{dir}/{name}"), &text);
            };
            put("physical_package_id", (node(id) / nodes).to_string());
            put("core_id", (core(id) % (cores * nodes)).to_string());
            put("thread_siblings", hex(&|other| core(other) == core(id)));
            put(
                "thread_siblings_list",
                list(&|other| core(other) == core(id)).to_string(),
            );
            put(
                "core_siblings",
                hex(&|other| node(other) / nodes == node(id) / nodes),
            );
        }
        for n in 0..sockets * nodes {
            let dir = format!("sys/devices/system/node/node{n}");
            t.put(&format!("{dir}/cpumap"), &hex(&|id| node(id) == n));
            t.put(
                &format!("{dir}/cpulist"),
                &list(&|id| node(id) == n).to_string(),
            );
            t.put(
                &format!("{dir}/meminfo"),
                &format!("Node {n} MemTotal: 1024 kB"),
            );
        }
        t
    }

    /// hwloc's `lstopo` groups the processors of such machines in the same way, if it is installed.
    #[test]
    fn lstopo_says_the_same_where_it_is_installed() {
        // The processors of each object, as bits.
        let shown = |root: &Path, kind: &str| {
            let mut lstopo = std::process::Command::new("lstopo-no-graphics");
            lstopo.args([
                "--if",
                "fsroot",
                "--cpuset-only",
                "--taskset",
                "--only",
                kind,
            ]);
            let out = lstopo.arg("-i").arg(root).output().ok()?;
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let bits = |line: &str| u64::from_str_radix(line.trim_start_matches("0x"), 16);
            let mut all: Vec<u64> = text.lines().map(|line| bits(line).unwrap()).collect();
            all.sort_unstable();
            Some(all)
        };
        for form in [
            (1, 1, 4, 2),
            (2, 2, 2, 1),
            (2, 1, 3, 2),
            (4, 2, 4, 2),
            (1, 4, 1, 1),
        ] {
            let t = machine(form);
            let cpus = read(&t.0.path().join("sys/devices/system"), &(0..64).collect()).unwrap();
            for (kind, of) in [
                ("core", (|c| c.core) as fn(&Cpu) -> u32),
                ("package", |c| c.socket),
                ("numanode", |c| c.node),
            ] {
                let mut ours = BTreeMap::<u32, u64>::new();
                for cpu in &cpus {
                    *ours.entry(of(cpu)).or_default() |= 1 << cpu.id;
                }
                let mut ours: Vec<u64> = ours.into_values().collect();
                ours.sort_unstable();
                let Some(theirs) = shown(t.0.path(), kind) else {
                    println!("skipped: lstopo-no-graphics (hwloc) is not installed");
                    return;
                };
                assert_eq!(ours, theirs, "{kind}s of {form:?}");
            }
        }
    }
}
