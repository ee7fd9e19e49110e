//! Chooses the processors that a job of a queue with `cpu_bind` gets for itself.
//!
//! Owns the choice: whole cores, in as few NUMA nodes (or as few whole sockets or nodes) as
//! possible, the smallest that fits first, and none that another bound job has. Reads nothing: the
//! host's processors and the assigned ones are arguments.

use super::spec::TaskSpec;
use crate::model::{Binding, Cpu, CpuBind, CpuSet, PartBinding, Share, SlotCpus};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The variable with the path of the file of [`slots_text`].
pub const SLOTS_FILE: &str = "LSB_AFFINITY_HOSTFILE";
/// LSF's number of the memory policy "the own NUMA nodes first, then others", which is the kernel's
/// policy for a process that is bound to processors only.
const LOCAL_PREFERRED: u32 = 2;

/// The processors for a job with this number of slots on a host with `cpus`, of which `in_use` are
/// assigned. Never a hardware thread of a core of which one thread is in `in_use`.
///
/// # Errors
/// The reason why it gets none: it runs unbound.
pub fn choose(bind: CpuBind, slots: u32, cpus: &[Cpu], in_use: &CpuSet) -> Result<CpuSet, String> {
    let need = slots.max(1) as usize;
    let (what, domain): (&str, fn(&Cpu) -> u32) = match bind {
        CpuBind::None => return Err("its queue does not bind".to_owned()),
        CpuBind::Core => ("core", |cpu| cpu.node),
        CpuBind::Socket => ("socket", |cpu| cpu.socket),
        CpuBind::Numa => ("NUMA node", |cpu| cpu.node),
    };
    let all = domains(cpus, domain);
    let free: Domains = match bind {
        CpuBind::Core => all
            .iter()
            .map(|(d, c)| (*d, free_cores(c, in_use)))
            .collect(),
        _ => {
            let whole = all
                .iter()
                .filter(|(_, c)| c.iter().all(|c| !c.meets(in_use)));
            whole.map(|(d, c)| (*d, c.clone())).collect()
        }
    };
    let sizes = free.iter().map(|(d, cores)| (*d, cores.len())).collect();
    let Some(selected) = fewest(sizes, need) else {
        let cores = |d: &Domains| d.values().map(Vec::len).sum::<usize>();
        let (left, total) = (cores(&free), cores(&all));
        let plural = if need == 1 { "" } else { "s" };
        return Err(match bind {
            CpuBind::Core => {
                format!("it has {need} slot{plural}, and {left} of {total} cores are free")
            }
            _ => format!(
                "it has {need} slot{plural}, and the {what}s that no other bound job uses have \
                 {left} of {total} cores"
            ),
        });
    };
    let cores = selected.iter().flat_map(|d| &free[d]);
    let take = if bind == CpuBind::Core {
        need
    } else {
        usize::MAX
    };
    Ok(cores.take(take).flat_map(CpuSet::iter).collect())
}

/// Cores by the number of their NUMA node or socket, in the order of assignment.
type Domains = BTreeMap<u32, Vec<CpuSet>>;

fn domains(cpus: &[Cpu], domain: fn(&Cpu) -> u32) -> Domains {
    let mut cores: BTreeMap<(u32, u32, u32), Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        let core = cores.entry((domain(cpu), cpu.socket, cpu.core));
        core.or_default().push(cpu.id);
    }
    let mut out = Domains::new();
    for ((domain, _, _), ids) in cores {
        out.entry(domain)
            .or_default()
            .push(ids.into_iter().collect());
    }
    out
}

fn free_cores(cores: &[CpuSet], in_use: &CpuSet) -> Vec<CpuSet> {
    cores.iter().filter(|c| !c.meets(in_use)).cloned().collect()
}

/// The smallest number of domains that have `need` together: the largest first, at the end the
/// smallest that holds the rest. `None`: all together have less.
fn fewest(mut sizes: Vec<(u32, usize)>, need: usize) -> Option<Vec<u32>> {
    sizes.sort_by_key(|(domain, size)| (std::cmp::Reverse(*size), *domain));
    let (mut selected, mut rest) = (Vec::new(), need);
    let mut left = sizes.as_slice();
    while let Some(((domain, size), later)) = left.split_first() {
        if *size >= rest {
            let fits = left.iter().filter(|(_, size)| *size >= rest);
            let last = fits.min_by_key(|(domain, size)| (*size, *domain));
            selected.extend(last.map(|(domain, _)| *domain));
            return Some(selected);
        }
        selected.push(*domain);
        (rest, left) = (rest - size, later);
    }
    None
}

/// Divides the chosen processors into slots: whole cores, neighbours together, as equal as
/// possible. Nothing if there is not a core for each slot.
pub fn divided(slots: u32, cpus: &[Cpu], cpu_set: &CpuSet) -> Vec<SlotCpus> {
    let own: Vec<Cpu> = cpus
        .iter()
        .filter(|c| cpu_set.contains(c.id))
        .copied()
        .collect();
    let nodes = domains(&own, |cpu| cpu.node);
    let cores: Vec<(u32, &CpuSet)> = nodes
        .iter()
        .flat_map(|(node, cores)| cores.iter().map(move |core| (*node, core)))
        .collect();
    let slots = slots.max(1) as usize;
    if cores.len() < slots {
        return Vec::new();
    }
    let border = |n: usize| n * cores.len() / slots;
    let each = (0..slots).map(|n| &cores[border(n)..border(n + 1)]);
    each.map(slot_of).collect()
}

fn slot_of(cores: &[(u32, &CpuSet)]) -> SlotCpus {
    let mut nodes: Vec<u32> = cores.iter().map(|(node, _)| *node).collect();
    nodes.dedup();
    let cpus = cores.iter().flat_map(|(_, core)| core.iter()).collect();
    SlotCpus { cpus, nodes }
}

/// The processors of each slot as LSF lists them: a line for each slot with host, processors, NUMA
/// nodes and memory policy. `own`: the binding on the first host. `None`: a slot has no processors
/// of its own, or they are not known.
pub fn slots_text(hosts: &[Share], own: &Binding, parts: &[PartBinding]) -> Option<String> {
    let first = &hosts.first()?.0;
    let mut left: BTreeMap<&str, std::slice::Iter<'_, SlotCpus>> = parts
        .iter()
        .map(|part| (part.host.as_str(), part.bind.slots.iter()))
        .collect();
    left.insert(first, own.slots.iter());
    let mut out = String::new();
    for Share(host, slots) in hosts {
        let of_host = left.get_mut(host.as_str())?;
        for _ in 0..*slots {
            let slot = of_host.next().filter(|slot| !slot.cpus.is_empty())?;
            let (cpus, nodes) = (joined(slot.cpus.iter()), joined(slot.nodes.iter().copied()));
            let _ = writeln!(out, "{host} {cpus} {nodes} {LOCAL_PREFERRED}");
        }
    }
    Some(out)
}

fn joined(numbers: impl Iterator<Item = u32>) -> String {
    let words: Vec<String> = numbers.map(|n| n.to_string()).collect();
    words.join(",")
}

/// Puts a binding into a task: its processors, and the variables about them.
pub fn put(task: &mut TaskSpec, binding: &Binding) {
    if binding.cpus.is_empty() {
        return;
    }
    let each = joined(binding.cpus.iter());
    task.env.push(format!("CB_BIND_CPUS={}", binding.cpus));
    task.env.push(format!("LSB_BIND_CPU_LIST={each}"));
    task.limits.cpus = Some(binding.cpus.clone());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SplitMix64;

    /// A number of sockets, NUMA nodes per socket, cores per node and threads per core, numbered as
    /// Linux does: the first threads of all cores first.
    fn host(sockets: u32, nodes: u32, cores: u32, threads: u32) -> Vec<Cpu> {
        let all = sockets * nodes * cores;
        let cpu = |id: u32| {
            let core = id % all;
            let node = core / cores;
            let socket = node / nodes;
            Cpu {
                id,
                core,
                socket,
                node,
            }
        };
        (0..all * threads).map(cpu).collect()
    }

    fn set(text: &str) -> CpuSet {
        CpuSet::parse(text).unwrap()
    }

    fn cores(slots: u32, cpus: &[Cpu], in_use: &str) -> String {
        let got = choose(CpuBind::Core, slots, cpus, &set(in_use));
        got.map_or_else(|why| why, |cpus| cpus.to_string())
    }

    #[test]
    fn a_slot_is_a_whole_core_with_its_threads() {
        let cpus = host(1, 1, 4, 2);
        assert_eq!(cores(1, &cpus, ""), "0,4");
        assert_eq!(cores(2, &cpus, "0"), "1-2,5-6");
        // The other thread of an assigned core is not free.
        assert_eq!(cores(3, &cpus, "7"), "0-2,4-6");
        assert_eq!(
            cores(4, &cpus, "7"),
            "it has 4 slots, and 3 of 4 cores are free"
        );
    }

    #[test]
    fn cores_come_from_as_few_nodes_as_possible_and_from_the_smallest_that_fits() {
        // 4 nodes of 4 cores: 0-3, 4-7, 8-11, 12-15.
        let cpus = host(2, 2, 4, 1);
        // Node 1 has 2 free cores, node 2 has 1.
        assert_eq!(cores(2, &cpus, "4-5,8-10"), "6-7");
        assert_eq!(cores(1, &cpus, "4-5,8-10"), "11");
        assert_eq!(cores(3, &cpus, "4-5,8-10"), "0-2");
        // More than a node: a whole one, and the rest from the smallest that holds it.
        assert_eq!(cores(5, &cpus, "4-5,8-10"), "0-3,11");
        assert_eq!(cores(11, &cpus, "4-5,8-10"), "0-3,6-7,11-15");
    }

    #[test]
    fn sockets_and_nodes_are_given_whole_and_to_one_job() {
        let cpus = host(2, 2, 2, 2);
        let get = |bind, slots, in_use: &str| {
            let got = choose(bind, slots, &cpus, &set(in_use));
            got.map_or_else(|why| why, |cpus| cpus.to_string())
        };
        assert_eq!(get(CpuBind::Numa, 1, ""), "0-1,8-9");
        assert_eq!(get(CpuBind::Numa, 3, "0"), "2-5,10-13");
        assert_eq!(get(CpuBind::Socket, 1, ""), "0-3,8-11");
        assert_eq!(get(CpuBind::Socket, 3, "9"), "4-7,12-15");
        assert_eq!(
            get(CpuBind::Socket, 5, "9"),
            "it has 5 slots, and the sockets that no other bound job uses have 4 of 8 cores"
        );
        assert_eq!(get(CpuBind::Socket, 8, ""), "0-15");
    }

    #[test]
    fn slots_get_whole_cores_of_their_own() {
        let cpus = host(2, 1, 4, 2);
        let slots = |slots, cpu_list: &str| -> Vec<String> {
            let all = divided(slots, &cpus, &set(cpu_list));
            let text = |s: &SlotCpus| format!("{}@{}", s.cpus, joined(s.nodes.iter().copied()));
            all.iter().map(text).collect()
        };
        assert_eq!(slots(2, "1-2,9-10"), ["1,9@0", "2,10@0"]);
        // A whole socket for three slots, and two sockets for one.
        assert_eq!(slots(3, "4-7,12-15"), ["4,12@1", "5,13@1", "6-7,14-15@1"]);
        assert_eq!(slots(1, "0-15"), ["0-15@0,1"]);
    }

    #[test]
    fn the_list_of_slots_is_in_the_order_of_the_hosts_or_there_is_none() {
        let cpus = host(2, 1, 2, 1);
        let bound = |slots, cpu_list: &str| Binding {
            cpus: set(cpu_list),
            slots: divided(slots, &cpus, &set(cpu_list)),
            ..Binding::default()
        };
        let part = |host: &str, bind: Binding| PartBinding {
            host: host.into(),
            bind,
        };
        let shares = |all: &[(&str, u32)]| -> Vec<Share> {
            all.iter().map(|(h, n)| Share((*h).into(), *n)).collect()
        };
        let (own, parts) = (bound(1, "0-1"), [part("h2", bound(2, "1,3"))]);
        let hosts = shares(&[("h1", 1), ("h2", 2)]);
        let text = slots_text(&hosts, &own, &parts).unwrap();
        assert_eq!(text, "h1 0,1 0 2\nh2 1 0 2\nh2 3 1 2\n");
        // A host runs its part unbound, is not known yet, or has more slots than were bound.
        let unbound = [part("h2", Binding::default())];
        assert_eq!(slots_text(&hosts, &own, &unbound), None);
        assert_eq!(slots_text(&hosts, &own, &[]), None);
        let more = shares(&[("h1", 1), ("h2", 2), ("h1", 1)]);
        assert_eq!(slots_text(&more, &own, &parts), None);
    }

    /// Jobs start and end at random on hosts of different shapes.
    #[test]
    fn no_two_jobs_have_a_core_and_what_is_freed_is_given_again() {
        let mut random = SplitMix64::new(7);
        let mut below = |n: u32| random.below(u64::from(n)) as u32;
        for _ in 0..200 {
            let cpus = host(1 + below(3), 1 + below(3), 1 + below(6), 1 + below(2));
            let core_of = |id: u32| cpus.iter().find(|c| c.id == id).map(|c| c.core);
            let mut jobs: Vec<CpuSet> = Vec::new();
            for _ in 0..60 {
                if below(3) == 0 && !jobs.is_empty() {
                    let out = below(jobs.len() as u32) as usize;
                    jobs.swap_remove(out);
                    continue;
                }
                let bind = CpuBind::ALL[1 + below(3) as usize].1;
                let slots = 1 + below(8);
                let mut in_use = CpuSet::default();
                jobs.iter().for_each(|job| in_use.extend(job));
                let Ok(got) = choose(bind, slots, &cpus, &in_use) else {
                    continue;
                };
                let mine: CpuSet = got.iter().filter_map(core_of).collect();
                let theirs: CpuSet = in_use.iter().filter_map(core_of).collect();
                assert!(!mine.meets(&theirs), "{got} of {in_use}");
                assert!(mine.len() >= slots as usize);
                // Whole cores.
                let whole = cpus.iter().filter(|c| mine.contains(c.core)).count();
                assert_eq!(whole, got.len());
                jobs.push(got);
            }
            let all: CpuSet = cpus.iter().map(|c| c.core).collect();
            let got = choose(CpuBind::Core, all.len() as u32, &cpus, &CpuSet::default());
            assert_eq!(got.unwrap().len(), cpus.len(), "everything was freed");
        }
    }

    #[test]
    fn a_task_is_told_where_it_runs() {
        let mut task = TaskSpec::default();
        put(&mut task, &Binding::default());
        assert_eq!(task, TaskSpec::default());
        let cpus = set("2-3,8");
        let bound = Binding {
            cpus,
            ..Binding::default()
        };
        put(&mut task, &bound);
        assert_eq!(task.env, ["CB_BIND_CPUS=2-3,8", "LSB_BIND_CPU_LIST=2,3,8"]);
        assert_eq!(task.limits.cpus, Some(set("2-3,8")));
    }
}
