//! The history of the cluster: samples of the published view in memory, since this portal started.
//!
//! Owns the rings and their limits. Writes no file: after a restart it begins again, and pages show
//! since when. Decides nothing about who may see what: the pages do.

use crate::cluster::Snapshot;
use corral::api::jobs::{JobSums, JobUse};
use corral::api::read::{HostKind, Reader};
use corral::model::JobKey;
use std::collections::{BTreeMap, VecDeque};

/// Time between two samples of queues, users and hosts, ms, and how many samples are kept: a day
/// for queues and users, an hour for hosts.
const EVERY_MS: i64 = 60_000;
const DAY: usize = 1_440;
const HOUR: usize = 60;
/// Maximum number of queues, users and hosts with a history; of the users, those with the most
/// slots.
const QUEUES_MAX: usize = 64;
const USERS_MAX: usize = 64;
const HOSTS_MAX: usize = 2_000;
/// Maximum number of jobs with a history, and of samples of a job. When a job has that many, every
/// second one is removed and the job's interval is doubled.
const JOBS_MAX: usize = 1_000;
const JOB_SAMPLES: usize = 120;
/// Minimum time between two samples of a job, ms.
const JOB_EVERY_MS: i64 = 5_000;
/// The same while a job's figures do not change, ms.
const IDLE_MS: i64 = 20_000;

/// Values of several names at the same moments.
#[derive(Clone, Debug)]
pub struct Rings<const N: usize> {
    capacity: usize,
    names_max: usize,
    /// ms since 1970.
    pub times: VecDeque<i64>,
    pub rows: BTreeMap<String, VecDeque<[f32; N]>>,
}

impl<const N: usize> Rings<N> {
    fn new(capacity: usize, names_max: usize) -> Rings<N> {
        Rings {
            capacity,
            names_max,
            times: VecDeque::new(),
            rows: BTreeMap::new(),
        }
    }

    /// Adds the values of a moment; a name without a value gets `otherwise`. Names with no other
    /// value for the whole time that samples are kept are removed.
    fn push(&mut self, at: i64, values: impl Iterator<Item = (String, [f32; N])>, otherwise: f32) {
        let before = self.times.len();
        let mut now: BTreeMap<String, [f32; N]> = BTreeMap::new();
        for (name, value) in values {
            if !self.rows.contains_key(&name) {
                if self.rows.len() >= self.names_max {
                    continue;
                }
                let empty = std::iter::repeat_n([otherwise; N], before).collect();
                self.rows.insert(name.clone(), empty);
            }
            now.insert(name, value);
        }
        self.times.push_back(at);
        let is_full = self.times.len() > self.capacity;
        if is_full {
            self.times.pop_front();
        }
        for (name, row) in &mut self.rows {
            row.push_back(now.get(name).copied().unwrap_or([otherwise; N]));
            if is_full {
                row.pop_front();
            }
        }
        let is_nothing = |value: &f32| value.total_cmp(&otherwise).is_eq();
        self.rows
            .retain(|_, row| !row.iter().flatten().all(is_nothing));
    }
}

/// What a job used at a moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JobSample {
    /// ms since 1970.
    pub at: i64,
    pub cpu_ms: u64,
    pub mem_kb: u64,
    pub procs: u32,
    pub threads: u32,
    pub read_kb: u64,
    pub write_kb: u64,
    /// Percent of one GPU, summed over all GPUs.
    pub gpu_util: u64,
    pub gpu_mem_mb: u64,
    pub net_in_kb: u64,
    pub net_out_kb: u64,
}

/// What one attempt of a job used.
#[derive(Clone, Debug)]
pub struct JobRing {
    /// When the attempt started, ms since 1970.
    pub start: i64,
    every_ms: i64,
    /// When the attempt was last seen running.
    last_running: i64,
    pub samples: Vec<JobSample>,
}

impl JobRing {
    fn add(&mut self, sample: JobSample) {
        self.last_running = sample.at;
        if let Some(last) = self.samples.last() {
            // Hosts report from time to time: nothing is known between two reports.
            let is_old = JobSample {
                at: last.at,
                ..sample
            } == *last;
            let least = if is_old {
                self.every_ms.max(IDLE_MS)
            } else {
                self.every_ms
            };
            if sample.at - last.at < least {
                return;
            }
        }
        self.samples.push(sample);
        if self.samples.len() >= JOB_SAMPLES {
            let mut n = 0;
            self.samples.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.every_ms *= 2;
        }
    }
}

/// See the top of this file.
pub struct History {
    /// When the first sample was taken, ms since 1970; 0: none yet.
    pub since: i64,
    sampled: i64,
    /// Slots of started jobs, and pending jobs.
    pub queues: Rings<2>,
    pub users: Rings<2>,
    /// Slots in use, run queue, processor utilization in percent, free memory in MB; an unknown
    /// value is NaN.
    pub hosts: Rings<4>,
    jobs: BTreeMap<JobKey, JobRing>,
}

impl Default for History {
    fn default() -> History {
        History {
            since: 0,
            sampled: 0,
            queues: Rings::new(DAY, QUEUES_MAX),
            users: Rings::new(DAY, USERS_MAX),
            hosts: Rings::new(HOUR, HOSTS_MAX),
            jobs: BTreeMap::new(),
        }
    }
}

impl History {
    /// Whether queues, users and hosts are due to be sampled.
    pub fn is_due(&self, now: i64) -> bool {
        now - self.sampled >= EVERY_MS || now < self.sampled
    }

    /// Takes a sample of the view.
    pub fn note(&mut self, now: i64, view: &Snapshot, sums: &JobSums) {
        if self.since == 0 {
            self.since = now;
        }
        self.sampled = now;
        let queues = view.queues.iter().map(|q| {
            let sum = sums.by_queue.get(&q.name).copied().unwrap_or_default();
            (q.name.clone(), [sum.slots as f32, sum.pending as f32])
        });
        self.queues.push(now, queues, 0.0);
        let mut users: Vec<_> = sums.by_user.iter().collect();
        users.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.slots, sum.pending)));
        let users = users.into_iter().take(USERS_MAX);
        let users = users.map(|(name, sum)| (name.clone(), [sum.slots as f32, sum.pending as f32]));
        self.users.push(now, users, 0.0);
        let hosts = view.hosts.iter();
        let hosts = hosts
            .filter(|h| Reader::host_kind(h) != HostKind::Away)
            .map(|h| {
                let load = &h.load;
                let used = [
                    h.njobs as f32,
                    load.r1m as f32,
                    load.ut as f32 * 100.0,
                    load.mem as f32,
                ];
                (h.name.clone(), used)
            });
        self.hosts.push(now, hosts, f32::NAN);
    }

    /// Records what running jobs use.
    pub fn note_jobs(&mut self, now: i64, uses: &[JobUse]) {
        for used in uses {
            let is_new = |ring: &JobRing| ring.start != used.start;
            if self.jobs.get(&used.key).is_none_or(is_new) {
                self.make_room();
                let ring = JobRing {
                    start: used.start,
                    every_ms: JOB_EVERY_MS,
                    last_running: now,
                    samples: Vec::new(),
                };
                self.jobs.insert(used.key, ring);
            }
            if let Some(ring) = self.jobs.get_mut(&used.key) {
                ring.add(JobSample {
                    at: now,
                    cpu_ms: used.cpu_ms,
                    mem_kb: used.mem_kb,
                    procs: used.procs,
                    threads: used.threads,
                    read_kb: used.read_kb,
                    write_kb: used.write_kb,
                    gpu_util: used.devices.gpu_util,
                    gpu_mem_mb: used.devices.gpu_mem_mb,
                    net_in_kb: used.devices.net_in_kb,
                    net_out_kb: used.devices.net_out_kb,
                });
            }
        }
    }

    /// If there are too many jobs, removes the one that was not seen for the longest time.
    fn make_room(&mut self) {
        if self.jobs.len() < JOBS_MAX {
            return;
        }
        let oldest = self.jobs.iter().min_by_key(|(_, ring)| ring.last_running);
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.jobs.remove(&key);
        }
    }

    /// The samples of the attempt of a job that started at this time.
    pub fn job(&self, key: JobKey, start: i64) -> Option<&JobRing> {
        self.jobs.get(&key).filter(|ring| ring.start == start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corral::record::device_use::DeviceUse;

    fn used(id: u32, start: i64, cpu_ms: u64) -> JobUse {
        JobUse {
            key: JobKey::job(id),
            start,
            cpu_ms,
            mem_kb: 1,
            swap_kb: 0,
            procs: 1,
            threads: 1,
            read_kb: 0,
            write_kb: 0,
            devices: DeviceUse::default(),
        }
    }

    #[test]
    fn rings_keep_the_newest_and_forget_who_has_gone() {
        let mut rings: Rings<1> = Rings::new(3, 2);
        let put = |rings: &mut Rings<1>, at, names: &[&str]| {
            let each = names.iter().map(|name| ((*name).to_owned(), [1.0]));
            rings.push(at, each, 0.0);
        };
        put(&mut rings, 1, &["a"]);
        put(&mut rings, 2, &["a", "b", "c"]);
        assert_eq!(rings.rows["b"], [[0.0], [1.0]]);
        assert!(!rings.rows.contains_key("c"), "no room");
        for at in 3..6 {
            put(&mut rings, at, &["c", "b"]);
        }
        assert_eq!(rings.times, [3, 4, 5]);
        assert!(
            !rings.rows.contains_key("a"),
            "nothing for as long as is kept"
        );
        put(&mut rings, 6, &["c"]);
        assert_eq!(rings.rows["c"], [[0.0], [0.0], [1.0]]);
    }

    #[test]
    fn a_long_job_is_sampled_less_often_and_from_its_start() {
        let mut history = History::default();
        for n in 0..10_000 {
            history.note_jobs(n * 1_000, &[used(1, 7, n as u64)]);
        }
        let ring = history.job(JobKey::job(1), 7).unwrap();
        assert!(ring.samples.len() <= JOB_SAMPLES, "{}", ring.samples.len());
        assert_eq!(ring.samples[0].at, 0);
        assert!(ring.samples.last().unwrap().at > 9_000_000);
        history.note_jobs(10_000_000, &[used(1, 8, 0)]);
        assert!(history.job(JobKey::job(1), 7).is_none(), "another attempt");
        assert_eq!(history.job(JobKey::job(1), 8).unwrap().samples.len(), 1);
    }

    #[test]
    fn jobs_that_have_ended_make_room() {
        let mut history = History::default();
        history.note_jobs(0, &[used(0, 1, 0)]);
        let others: Vec<JobUse> = (1..=JOBS_MAX as u32).map(|id| used(id, 1, 0)).collect();
        history.note_jobs(1, &others);
        assert!(history.job(JobKey::job(0), 1).is_none());
        assert!(history.job(JobKey::job(JOBS_MAX as u32), 1).is_some());
    }
}
