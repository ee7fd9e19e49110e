//! Determines which attempt uses GPUs and the network, and how much. A process belongs to the
//! attempt whose shepherd, or the shepherd of whose command, is its ancestor.

use super::device_counts::GpuNow;
use super::exec::Exec;
use super::sample::Snapshot;
use super::table::Status;
use crate::model::AttemptId;
use crate::record::host_units::UnitDoc;
use crate::sys::{proc, sockets};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of descriptors of jobs' processes that one sample looks at.
const DESCRIPTORS_MAX: usize = 65_536;
/// Age at which a report of a sensor is no longer used, ms.
const OLD_MS: u64 = 300_000;

impl Exec {
    /// The processes of shepherds and the attempt of each.
    pub(super) fn shepherds(&self) -> BTreeMap<i32, AttemptId> {
        let jobs = self.table.running().map(|(a, s)| (s.pid, a));
        jobs.chain(self.parts.commands.shepherds()).collect()
    }

    /// Counts the use of GPUs and of the network by attempts.
    pub(super) fn count_devices(&mut self, snapshot: &Snapshot, now: u64) {
        if self.spawners.is_simulated() {
            return;
        }
        let shepherds = self.shepherds();
        let gpus = self.gpus_now(snapshot, &shepherds, now);
        self.samples.devices.note_gpus(&gpus, now);
        match sockets::connections() {
            Ok(all) => {
                if self.samples.devices.net.note(&all) {
                    let open = open_sockets(snapshot, &shepherds);
                    self.samples.devices.net.claim(&open);
                }
                self.samples.devices.failing = false;
            }
            Err(e) if !self.samples.devices.failing => {
                self.samples.devices.failing = true;
                tracing::warn!("{e}: the network traffic of jobs is not counted");
            }
            Err(_) => {}
        }
        self.keep_devices();
    }

    /// Keeps the sums of attempts that are not over, also for a restart.
    pub(super) fn keep_devices(&mut self) {
        let (table, parts) = (&self.table, &self.parts);
        self.samples.devices.retain(|a| {
            let runs = |status: &Status| matches!(status, Status::Sent(_) | Status::Running(_));
            table.get(a).is_some_and(|entry| runs(&entry.status))
                || parts.launches.has(a)
                || parts.commands.has(a)
        });
        self.samples.devices.write(&self.setup.local);
    }

    fn gpus_now(
        &self,
        snapshot: &Snapshot,
        shepherds: &BTreeMap<i32, AttemptId>,
        now: u64,
    ) -> BTreeMap<AttemptId, GpuNow> {
        let mut out = BTreeMap::new();
        if self.starter.units.boot() != proc::boot_id() {
            return out;
        }
        for unit in self.starter.units.units.values().flatten() {
            if now.saturating_sub(unit.seen) > OLD_MS {
                continue;
            }
            for used in &unit.used {
                if let Some(a) = owner(snapshot, shepherds, (used.pid, unit)) {
                    let sum: &mut GpuNow = out.entry(a).or_default();
                    sum.util += u64::from(used.util.unwrap_or(0));
                    sum.mem_mb = sum.mem_mb.saturating_add(used.mem_mb.unwrap_or(0));
                }
            }
        }
        out
    }
}

/// The attempt of a process that a sensor saw on a unit. A process that began after the sensor
/// looked only has the process id of the one that was seen.
pub(super) fn owner(
    snapshot: &Snapshot,
    shepherds: &BTreeMap<i32, AttemptId>,
    (pid, unit): (u32, &UnitDoc),
) -> Option<AttemptId> {
    let process = i32::try_from(pid).ok()?;
    is_same_process(snapshot, process, unit).then_some(())?;
    snapshot.nearest_ancestor(process, |pid| shepherds.get(&pid).copied())
}

/// Whether the process is the one that the sensor saw.
pub(super) fn is_same_process(snapshot: &Snapshot, process: i32, unit: &UnitDoc) -> bool {
    let begin = snapshot.begin_of(process);
    let begin = begin.map(|ticks| ticks * 1000 / proc::ticks_per_second());
    begin.is_some_and(|ms| ms <= unit.seen)
}

/// The sockets that processes of attempts have open, by inode.
fn open_sockets(
    snapshot: &Snapshot,
    shepherds: &BTreeMap<i32, AttemptId>,
) -> HashMap<u64, AttemptId> {
    let mut room = DESCRIPTORS_MAX;
    let mut out = HashMap::new();
    for (shepherd, a) in shepherds {
        for pid in snapshot.pids_below(*shepherd) {
            for inode in sockets::of_process(pid, &mut room) {
                out.entry(inode).or_insert(*a);
            }
            if room == 0 {
                return out;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::exe::net_counts::NetCounts;
    use crate::model::first_attempt as attempt;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    #[test]
    #[ignore = "prints what a sample of 10,000 sockets and 100 jobs costs; for release builds"]
    fn cost() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let pairs: Vec<_> = (0..5_000)
            .map(|_| (TcpStream::connect(to).unwrap(), listener.accept().unwrap()))
            .collect();
        let mut jobs: Vec<_> = (0..100)
            .map(|_| {
                std::process::Command::new("sleep")
                    .arg("100")
                    .spawn()
                    .unwrap()
            })
            .collect();
        // This process, which has all the sockets, belongs to a job too.
        let parent = proc::parent();
        let pids = jobs.iter().map(|job| i32::try_from(job.id()).unwrap());
        let shepherds = pids
            .chain([parent])
            .zip(1..)
            .map(|(pid, id)| (pid, attempt(id)));
        let shepherds: BTreeMap<i32, AttemptId> = shepherds.collect();
        let mut counts = NetCounts::default();
        for round in ["first", "second", "third"] {
            let begin = Instant::now();
            let snapshot = Snapshot::read();
            let read = begin.elapsed();
            let all = sockets::connections().unwrap();
            let listed = begin.elapsed() - read;
            if counts.note(&all) {
                counts.claim(&open_sockets(&snapshot, &shepherds));
            }
            let whole = begin.elapsed() - read;
            println!(
                "{round}: {} connections, listed in {listed:?}, counted in {whole:?}; /proc {read:?}",
                all.len()
            );
        }
        let owned: u64 = counts.sums.values().map(|sum| sum.all().sent).sum();
        println!(
            "{} attempts, {owned} bytes, {} pairs",
            counts.sums.len(),
            pairs.len()
        );
        for job in &mut jobs {
            job.kill().unwrap();
            job.wait().unwrap();
        }
    }
}
