//! Usage of running tasks, and the limits that can only be enforced by samples.
//!
//! A task's processes are the descendants of its shepherd, which collects every orphan of the task.
//! All functions are pure except `read`, which reads `/proc`.

use super::device_counts::DeviceCounts;
use super::table::{Entry, Status};
use crate::model::TermReason;
use crate::record::device_use::DeviceUse;
use crate::record::report::{TaskUse, Usage};
use crate::sys::proc::{self, ProcInfo};
use crate::task::spec::{TaskLimits, UnenforcedLimits};
use std::collections::HashMap;

/// Maximum number of process ids in a sample.
pub(super) const PIDS_MAX: usize = 16;
/// Maximum number of tasks in a sample.
const TASKS_MAX: usize = 256;
/// Maximum length of a name in a sample, in characters.
const WORD_MAX: usize = 64;
/// Maximum number of levels above a process at which its shepherd is searched.
const DEPTH_MAX: usize = 1000;
/// Number of levels below the shepherd at which tasks are searched: a container runtime and the
/// starter of the tasks may be in between.
const LEVELS: usize = 4;

/// Data that is kept from one sample to the next.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// When the last sample was taken.
    pub sampled_at: u64,
    pub devices: DeviceCounts,
}

/// All processes of the machine, by parent.
#[derive(Default)]
pub(super) struct Snapshot {
    by_parent: HashMap<i32, Vec<ProcInfo>>,
    /// Parent and start time (clock ticks) of each process.
    parents: HashMap<i32, (i32, u64)>,
    /// CPU time of ended processes that shepherds have collected, in ticks.
    collected: HashMap<i32, u64>,
}

impl Snapshot {
    /// Reads all processes.
    pub(super) fn read() -> Snapshot {
        Snapshot::of(proc::all())
    }

    fn of(all: Vec<ProcInfo>) -> Snapshot {
        let collected = all.iter().map(|p| (p.pid, p.children_time)).collect();
        let parents = all.iter().map(|p| (p.pid, (p.ppid, p.start))).collect();
        let mut by_parent: HashMap<i32, Vec<ProcInfo>> = HashMap::new();
        for p in all {
            by_parent.entry(p.ppid).or_default().push(p);
        }
        Snapshot {
            by_parent,
            parents,
            collected,
        }
    }

    /// When a process began, in clock ticks after boot; `None`: the process does not exist.
    pub(super) fn begin_of(&self, pid: i32) -> Option<u64> {
        self.parents.get(&pid).map(|(_, begin)| *begin)
    }

    /// The first result of `found` for the process or one of its ancestors.
    pub(super) fn nearest_ancestor<T: Copy>(
        &self,
        pid: i32,
        found: impl Fn(i32) -> Option<T>,
    ) -> Option<T> {
        let mut at = pid;
        // A process may have moved while they were read, so the parents may form a cycle.
        for _ in 0..DEPTH_MAX {
            if let Some(found) = found(at) {
                return Some(found);
            }
            (at, _) = *self.parents.get(&at)?;
        }
        None
    }

    fn descendants(&self, shepherd: i32) -> Vec<&ProcInfo> {
        let mut found: Vec<&ProcInfo> = Vec::new();
        let mut parents = vec![shepherd];
        while let Some(pid) = parents.pop() {
            for p in self.by_parent.get(&pid).into_iter().flatten() {
                parents.push(p.pid);
                found.push(p);
            }
        }
        found
    }

    /// The processes of the task below a shepherd.
    pub(super) fn pids_below(&self, shepherd: i32) -> Vec<i32> {
        self.descendants(shepherd).iter().map(|p| p.pid).collect()
    }

    /// The usage of the task below a shepherd; `details` reads swap and I/O of each process.
    pub(super) fn usage(&self, shepherd: i32, details: impl Fn(i32) -> (u64, u64, u64)) -> Usage {
        let procs = self.descendants(shepherd);
        let ticks: u64 = procs
            .iter()
            .map(|p| p.utime + p.stime + p.children_time)
            .sum();
        let ticks = ticks + self.collected.get(&shepherd).copied().unwrap_or(0);
        let mut u = Usage {
            cpu_ms: ticks * 1000 / proc::ticks_per_second(),
            mem_kb: procs.iter().map(|p| p.rss >> 10).sum(),
            procs: procs.len() as u32,
            threads: procs.iter().map(|p| p.threads).sum(),
            ..Usage::default()
        };
        for p in &procs {
            let (swap, read, write) = details(p.pid);
            u.swap_kb += swap >> 10;
            u.read_kb += read >> 10;
            u.write_kb += write >> 10;
        }
        u.pids = procs.iter().map(|p| p.pid as u32).take(PIDS_MAX).collect();
        u.pids.sort_unstable();
        u
    }

    /// The tasks that a job below a shepherd has started. `known`: the task that a process is,
    /// according to its environment.
    pub(super) fn tasks(
        &self,
        shepherd: i32,
        known: impl Fn(i32) -> Option<TaskUse>,
    ) -> Vec<TaskUse> {
        let mut level = vec![shepherd];
        for _ in 0..LEVELS {
            let below = level.iter().filter_map(|pid| self.by_parent.get(pid));
            let below: Vec<&ProcInfo> = below.flatten().take(TASKS_MAX).collect();
            let found = below.iter().filter_map(|p| Some((*p, known(p.pid)?)));
            let mut tasks: Vec<TaskUse> = found.map(|(p, task)| self.used(p, task)).collect();
            if !tasks.is_empty() {
                tasks.sort_by_key(|task| task.rank);
                tasks.dedup_by_key(|task| task.rank);
                return tasks;
            }
            level = below.iter().map(|p| p.pid).collect();
        }
        Vec::new()
    }

    /// A task with the usage of its process and of all descendants.
    fn used(&self, own: &ProcInfo, task: TaskUse) -> TaskUse {
        let (mut ticks, mut rss) = (0, 0);
        for p in std::iter::once(own).chain(self.descendants(own.pid)) {
            ticks += p.utime + p.stime + p.children_time;
            rss += p.rss;
        }
        TaskUse {
            pid: u32::try_from(own.pid).unwrap_or(0),
            cpu_ms: ticks * 1000 / proc::ticks_per_second(),
            mem_kb: rss >> 10,
            ..task
        }
    }
}

/// The task of its job that a process is, according to its environment.
pub(super) fn named_task(pid: i32) -> Option<TaskUse> {
    let names = ["CB_RANK", "CB_TASK", "CB_REPLICA", "CB_TASK_HOST"];
    let [rank, section, replica, host] = proc::variables(pid, names);
    // The user may have invented the value: limit its length.
    let short = |text: String| text.chars().take(WORD_MAX).collect();
    Some(TaskUse {
        rank: rank?.parse().ok()?,
        section: short(section?),
        replica: replica?.parse().ok()?,
        host: short(host?),
        ..TaskUse::default()
    })
}

/// The current tasks and the previous ones; previous tasks that no longer exist have ended.
fn merge_tasks(old: &[TaskUse], mut new: Vec<TaskUse>) -> Vec<TaskUse> {
    let ended_tasks = old.iter().filter(|o| !new.iter().any(|n| n.rank == o.rank));
    let ended_tasks = ended_tasks.cloned().map(|task| TaskUse {
        ended: true,
        ..task
    });
    let ended_tasks: Vec<TaskUse> = ended_tasks.collect();
    new.extend(ended_tasks);
    new.sort_by_key(|task| task.rank);
    new.truncate(TASKS_MAX);
    new
}

/// Swap, bytes read and bytes written of a process.
pub(super) fn details(pid: i32) -> (u64, u64, u64) {
    let (read, write) = proc::io_bytes(pid);
    (proc::swap_bytes(pid), read, write)
}

/// Merges a sample with earlier ones: maxima are kept, counters never decrease.
pub(super) fn merge(old: &Usage, mut new: Usage) -> Usage {
    new.maxmem_kb = old.maxmem_kb.max(new.mem_kb).max(new.maxmem_kb);
    new.maxswap_kb = old.maxswap_kb.max(new.swap_kb).max(new.maxswap_kb);
    new.cpu_ms = new.cpu_ms.max(old.cpu_ms);
    new.read_kb = new.read_kb.max(old.read_kb);
    new.write_kb = new.write_kb.max(old.write_kb);
    new.devices = old.devices().updated_by(new.devices()).boxed();
    new.tasks = merge_tasks(&old.tasks, new.tasks);
    new.command_end = old.command_end.clone().or(new.command_end);
    new.hook.clone_from(&old.hook);
    new
}

/// The usage recorded with an end: the shepherd's own figures, and the maxima of the samples.
pub(super) fn final_usage(end: &Usage, sampled: &Usage) -> Usage {
    let mut u = merge(sampled, end.clone());
    u.procs = sampled.procs.max(1);
    u.threads = sampled.threads.max(1);
    (u.pids, u.tasks, u.hook) = (Vec::new(), Vec::new(), None);
    u.wrong_units = sampled.wrong_units.clone();
    u
}

/// As [`differs`], for GPUs and network. Utilization fluctuates: a fifth of a GPU counts.
fn devices_differ(old: DeviceUse, new: DeviceUse) -> bool {
    let far = |a: u64, b: u64, part: u64, least: u64| a.abs_diff(b) > (a.max(b) / part).max(least);
    let net = |u: DeviceUse| u.net_in_kb.saturating_add(u.net_out_kb);
    far(old.gpu_util, new.gpu_util, 5, 20)
        || far(old.gpu_mem_mb, new.gpu_mem_mb, 10, 64)
        || far(old.gpu_ms, new.gpu_ms, 10, 30_000)
        || far(net(old), net(new), 10, 1024)
}

/// Whether the difference is worth a report: a tenth of any figure, or other processes.
pub(super) fn differs(old: &Usage, new: &Usage) -> bool {
    let far = |a: u64, b: u64, least: u64| a.abs_diff(b) > (a.max(b) / 10).max(least);
    far(old.mem_kb, new.mem_kb, 1024)
        || far(old.swap_kb, new.swap_kb, 1024)
        || far(old.cpu_ms, new.cpu_ms, 1000)
        || far(
            old.read_kb + old.write_kb,
            new.read_kb + new.write_kb,
            10 << 10,
        )
        || devices_differ(old.devices(), new.devices())
        || old.procs != new.procs
        || old.threads != new.threads
        || old.pids != new.pids
        || old.wrong_units != new.wrong_units
        || old.command_end != new.command_end
        || old.tasks.len() != new.tasks.len()
        || old
            .tasks
            .iter()
            .zip(&new.tasks)
            .any(|(a, b)| (a.pid, a.ended) != (b.pid, b.ended) || far(a.cpu_ms, b.cpu_ms, 1000))
}

/// The limit that a task exceeds, if any. Limits that its control group enforces are not checked.
pub(super) fn exceeded(entry: &Entry, u: &Usage, unheld: UnenforcedLimits) -> Option<TermReason> {
    let limits: &TaskLimits = entry.limits.limits.as_deref()?;
    let Status::Running(shepherd) = &entry.status else {
        return None;
    };
    let over = |value: u64, limit: Option<u64>| limit.is_some_and(|l| value > l);
    if over(u.cpu_ms / 1000, limits.cpu_s) {
        return Some(TermReason::CpuLimit);
    }
    let alone = shepherd.group.is_empty();
    let (memory, procs) = (alone || unheld.memory, alone || unheld.procs);
    if memory && over(u.mem_kb << 10, limits.mem_b) {
        Some(TermReason::MemLimit)
    } else if memory && over((u.mem_kb + u.swap_kb) << 10, limits.swap_b) {
        Some(TermReason::SwapLimit)
    } else if procs && over(u64::from(u.threads), limits.procs) {
        Some(TermReason::ProcessLimit)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::exe::table::Shepherd;

    fn p(pid: i32, ppid: i32, rss: u64) -> ProcInfo {
        ProcInfo {
            pid,
            ppid,
            pgrp: pid,
            session: pid,
            state: 'S',
            utime: 10,
            stime: 5,
            children_time: 1,
            threads: 2,
            start: 1,
            rss,
        }
    }

    #[test]
    fn a_task_is_all_that_descends_from_its_shepherd() {
        let all = vec![
            p(10, 1, 9 << 20),
            p(11, 10, 1 << 20),
            p(12, 11, 2 << 20),
            p(20, 1, 5),
        ];
        let u = Snapshot::of(all).usage(10, |_| (1024, 2048, 4096));
        assert_eq!((u.procs, u.threads, u.mem_kb), (2, 4, 3 << 10));
        assert_eq!((u.swap_kb, u.read_kb, u.write_kb), (2, 4, 8));
        assert_eq!(u.cpu_ms, (2 * 16 + 1) * 1000 / proc::ticks_per_second());
        assert_eq!(u.pids, [11, 12]);
    }

    #[test]
    fn tasks_are_what_their_starter_has_started() {
        // A shepherd, a runtime, the starter, two tasks, a child of one task.
        let mut all = vec![p(10, 1, 0), p(11, 10, 1), p(12, 11, 1)];
        all.extend([p(13, 12, 3 << 10), p(14, 12, 4 << 10), p(15, 13, 1 << 10)]);
        let known = |pid: i32| {
            let rank = match pid {
                13 | 15 => 1,
                14 => 0,
                _ => return None,
            };
            Some(TaskUse {
                rank,
                section: "w".into(),
                ..TaskUse::default()
            })
        };
        let tasks = Snapshot::of(all).tasks(10, known);
        let short: Vec<_> = tasks.iter().map(|t| (t.rank, t.pid, t.mem_kb)).collect();
        assert_eq!(short, [(0, 14, 4), (1, 13, 4)]);
        let usage = |tasks: &[TaskUse]| Usage {
            tasks: tasks.to_vec(),
            ..Usage::default()
        };
        let later = merge(&usage(&tasks), usage(&tasks[..1]));
        let ended: Vec<_> = later.tasks.iter().map(|t| (t.rank, t.ended)).collect();
        assert_eq!(ended, [(0, false), (1, true)]);
        assert!(differs(&usage(&tasks), &later) && !differs(&later, &later));
        assert_eq!(final_usage(&usage(&[]), &later).tasks, []);
        assert_eq!(Snapshot::of(vec![p(11, 10, 1)]).tasks(10, |_| None), []);
    }

    #[test]
    fn maxima_stay_and_counters_never_fall() {
        let old = Usage {
            maxmem_kb: 50,
            cpu_ms: 9,
            read_kb: 7,
            ..Usage::default()
        };
        let u = merge(
            &old,
            Usage {
                mem_kb: 20,
                cpu_ms: 3,
                ..Usage::default()
            },
        );
        assert_eq!((u.mem_kb, u.maxmem_kb, u.cpu_ms, u.read_kb), (20, 50, 9, 7));
        let end = final_usage(
            &Usage {
                maxmem_kb: 60,
                ..Usage::default()
            },
            &u,
        );
        assert_eq!((end.maxmem_kb, end.procs, end.pids.len()), (60, 1, 0));
    }

    #[test]
    fn samples_keep_the_hook_that_runs_and_an_end_has_none() {
        let old = Usage {
            hook: Some(Box::default()),
            ..Usage::default()
        };
        let now = merge(&old, Usage::default());
        assert_eq!(now.hook, old.hook);
        assert_eq!(final_usage(&Usage::default(), &now).hook, None);
        assert_eq!(merge(&Usage::default(), old).hook, None, "it is over");
    }

    #[test]
    fn small_changes_are_not_worth_a_report() {
        let old = Usage {
            mem_kb: 100_000,
            cpu_ms: 50_000,
            ..Usage::default()
        };
        let mut new = Usage {
            mem_kb: 105_000,
            cpu_ms: 54_000,
            ..Usage::default()
        };
        assert!(!differs(&old, &new));
        let devices = |gpu_util, net_in_kb| DeviceUse {
            gpu_util,
            net_in_kb,
            ..DeviceUse::default()
        };
        let with = |util, net| Usage {
            devices: devices(util, net).boxed(),
            ..old.clone()
        };
        assert!(!differs(&with(80, 5_000), &with(95, 5_500)));
        assert!(differs(&with(80, 0), &with(101, 0)) && differs(&with(0, 0), &with(0, 1_100)));
        new.mem_kb = 120_000;
        assert!(differs(&old, &new));
    }

    #[test]
    fn samples_enforce_only_what_no_group_does() {
        let shepherd = |group: &str| Shepherd {
            pid: 5,
            started_ms: 0,
            boot: String::new(),
            group: group.into(),
            t: 0,
            log: 1,
        };
        let limits = TaskLimits {
            mem_b: Some(1 << 20),
            cpu_s: Some(3),
            ..TaskLimits::default()
        };
        let none = UnenforcedLimits::default();
        let mut e = Entry::new(Status::Running(shepherd("")), (1, 1), false);
        e.limits.limits = Some(Box::new(limits));
        let fat = Usage {
            mem_kb: 2048,
            ..Usage::default()
        };
        assert_eq!(exceeded(&e, &fat, none), Some(TermReason::MemLimit));
        e.status = Status::Running(shepherd("g"));
        assert_eq!(exceeded(&e, &fat, none), None);
        // The group exists only for freezing.
        let memory = UnenforcedLimits {
            memory: true,
            ..none
        };
        let procs = UnenforcedLimits {
            procs: true,
            ..none
        };
        assert_eq!(exceeded(&e, &fat, memory), Some(TermReason::MemLimit));
        assert_eq!(exceeded(&e, &fat, procs), None);
        let busy = Usage {
            cpu_ms: 4000,
            ..Usage::default()
        };
        assert_eq!(exceeded(&e, &busy, none), Some(TermReason::CpuLimit));
    }
}
