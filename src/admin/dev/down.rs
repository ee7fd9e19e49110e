//! `cadmin dev down`: ends every process of a development cluster and verifies that none is left.

use super::processes::{self, Processes};
use super::site::Site;
use crate::client::Fail;
use crate::language::answer;
use crate::sys::cgroup::{self, Group, Hierarchy};
use crate::sys::{clock, fs, proc};
use std::collections::BTreeSet;
use std::path::Path;

const SIGKILL: i32 = 9;
const ROUND_MS: u64 = 20;
/// How long to wait for ended processes to leave the process table, ms.
const REAPED_MS: u64 = 5_000;
/// Time limit for the processes of one control group to end, ms.
const GROUP_MS: u64 = 5_000;
/// Rounds of killing before giving up: ten seconds.
const ROUNDS_MAX: u32 = 500;
/// Rounds that shepherds get to record the ends of their jobs before they are killed as well.
const GRACE_ROUNDS: u32 = 50;

/// Ends the cluster in `dir`; with `purge` removes the directory as well.
///
/// # Errors
/// There is no cluster, or a process cannot be ended; then nothing is removed.
pub(super) fn down(dir: &Path, purge: bool) -> Result<(), Fail> {
    let site = Site::open(dir)?;
    let lock = site.lock()?;
    let ended = end_all(&site)?;
    // The portal was killed as well.
    let _ = crate::client::portal::forget_address(&site.layout());
    remove_groups(&site);
    answer!(
        "Cluster in {} is down: {} ended.",
        site.dir.display(),
        match ended {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        }
    );
    if purge {
        drop(lock);
        fs::remove_tree(&site.dir)?;
        answer!("{} removed.", site.dir.display());
    }
    Ok(())
}

/// Kills in rounds until none is left: daemons first, so that nothing new starts, then jobs, and
/// their shepherds last, so that each still records the end of its job. Returns the number of
/// processes.
fn end_all(site: &Site) -> Result<usize, Fail> {
    let mut ended: BTreeSet<(i32, u64)> = BTreeSet::new();
    let mut quiet = 0;
    for _ in 0..ROUNDS_MAX {
        let processes = processes::find(site);
        if processes.is_empty() {
            wait_reaped(&ended);
            return Ok(ended.len());
        }
        let before = ended.len();
        ended.extend(kill_round(&processes));
        quiet = if ended.len() == before { quiet + 1 } else { 0 };
        if quiet == 1 {
            // Frozen processes only die when thawed (control groups of version 1).
            groups(site, |group| drop(group.thaw()));
        }
        if quiet > GRACE_ROUNDS {
            let members = processes.members.iter().map(|m| (m.pid, m.start));
            ended.extend(members.filter(|p| end(*p)));
        }
        clock::sleep_ms(ROUND_MS);
    }
    let left = processes::find(site);
    let pids: Vec<String> = left
        .members
        .iter()
        .map(|m| m.pid)
        .chain(left.jobs.iter().map(|p| p.pid))
        .map(|pid| pid.to_string())
        .collect();
    Err(Fail::system(format!(
        "{}: processes do not end: {}\nhint: they may hang in the kernel; see /proc/PID/stack",
        site.dir.display(),
        pids.join(" ")
    )))
}

/// One round; returns the processes that were killed.
fn kill_round(processes: &Processes) -> Vec<(i32, u64)> {
    let daemons = processes.members.iter().filter(|m| m.role != "cbtask");
    let hit: Vec<_> = daemons
        .map(|m| (m.pid, m.start))
        .filter(|p| end(*p))
        .collect();
    if hit.is_empty() {
        processes
            .jobs
            .iter()
            .map(|p| (p.pid, p.start))
            .filter(|p| end(*p))
            .collect()
    } else {
        hit
    }
}

/// Waits until the ended processes have left the process table: some init programs collect them
/// slowly, and lists of processes show them until then.
fn wait_reaped(ended: &BTreeSet<(i32, u64)>) {
    let limit = clock::boot_ms() + REAPED_MS;
    let listed = |(pid, start): &(i32, u64)| proc::start_ticks(*pid) == Some(*start);
    while ended.iter().any(listed) && clock::boot_ms() < limit {
        clock::sleep_ms(ROUND_MS);
    }
}

/// Removes the control groups of the cluster's hosts, because their owners were killed before they
/// could.
fn remove_groups(site: &Site) {
    groups(site, |group| {
        group.kill_until_empty(GROUP_MS);
        group.remove();
    });
    hierarchies(site).for_each(|groups| groups.remove_parents());
}

fn hierarchies(site: &Site) -> impl Iterator<Item = Hierarchy> {
    let hosts = site.settings.hosts().filter(|_| site.settings.cgroup);
    hosts.map(|host| Hierarchy::detect(&cgroup::tag(&host, &site.local(&host))))
}

/// Calls a function for each control group of the cluster's hosts.
fn groups(site: &Site, act: impl Fn(&mut Group)) {
    for groups in hierarchies(site) {
        for name in groups.names() {
            match groups.find(&name) {
                Some(mut group) => act(&mut group),
                None => groups.remove_rest(&name),
            }
        }
    }
}

/// Kills a process if it is still the same one.
fn end((pid, start): (i32, u64)) -> bool {
    proc::alive(pid, start) && proc::kill(pid, SIGKILL).unwrap_or(false)
}
