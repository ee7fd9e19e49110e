//! A live cluster as the start of a replay: state from snapshot and journal, configuration, the
//! last load samples of its hosts. Only reads and takes no lock: the leader is not involved. Owns
//! the assumptions about the future: every job runs until its run limit, measured load stays
//! constant.

use super::workload::{Builder, Job, JobRequest, Workload};
use crate::config::Config;
use crate::journal::{self, Chain};
use crate::model::{JobKey, JobStat, Stamp};
use crate::record::leader::{CLUSTER_MAX, ClusterDoc};
use crate::record::load::{self, LOAD_MAX, LoadDoc};
use crate::sensors::cluster_resources::ClusterResources;
use crate::spool::Layout;
use crate::spool::beats::Beats;
use crate::state::{Body, State, Work};
use crate::state_loader::Loader;
use crate::sys;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Load samples by host, with the milliseconds since its last beat.
pub type Samples = BTreeMap<String, (LoadDoc, u64)>;

/// The data that were read from a share.
pub struct LiveCluster {
    pub state: State,
    /// Bytes of cb.yaml and its path.
    pub config: (Vec<u8>, String),
    /// As the hosts wrote them.
    pub samples: Samples,
    pub now: Stamp,
    /// Notes for the reader: dropped tails, skipped snapshots.
    pub notes: Vec<String>,
}

impl LiveCluster {
    /// `config` with the definitions of the hosts' sensors, and the load samples with the values of
    /// their hosts under it, as a leader computes them.
    pub fn under(&self, mut config: Arc<Config>) -> (Arc<Config>, Samples) {
        let (mut sensors, mut samples) = (ClusterResources::default(), self.samples.clone());
        for (host, (doc, _)) in &mut samples {
            sensors.take_report(host, Some(std::mem::take(&mut doc.sensors)));
        }
        if let Some(sensed) = sensors.define(&config, 0) {
            Arc::make_mut(&mut config).hosts.sensed = sensed;
        }
        for (host, (doc, _)) in &mut samples {
            let values = sensors.values(host, &config);
            (doc.values, doc.shared) = (values.values, values.shared);
        }
        (config, samples)
    }
}

/// Everything that is waiting or running, as a workload.
pub struct PresentWorkload {
    pub workload: Workload,
    /// The job of each place.
    pub keys: Vec<JobKey>,
    /// The jobs that had started.
    pub started: Vec<StartedJob>,
    /// Jobs without a run limit.
    pub unlimited: u64,
}

/// A job that holds slots when the replay begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedJob {
    pub place: u32,
    /// Milliseconds relative to the beginning of the replay, not above 0.
    pub start_ms: i64,
    /// How long it has run, excluding suspension.
    pub worked_ms: u64,
    pub slots: u32,
    pub suspended: bool,
}

/// The id of the cluster of a share.
///
/// # Errors
/// There is no cluster file, or it cannot be read.
pub fn cluster_id(layout: &Layout) -> Result<String, String> {
    let path = layout.cluster();
    let bytes = sys::fs::read_small(&path, CLUSTER_MAX).map_err(|e| {
        let hint = "it is not the shared directory of a cluster";
        format!("{e}\nhint: {hint}, or nothing is mounted there")
    })?;
    ClusterDoc::decode(&bytes)
        .map(|doc| doc.cluster)
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// Reads a share.
///
/// # Errors
/// The state cannot be recovered; the message names the file that prevents it.
pub fn read(share: &Path) -> Result<LiveCluster, String> {
    let layout = Layout::new(share);
    let cluster = cluster_id(&layout)?;
    let newest = Chain::newest(&layout).map_err(|e| e.to_string())?;
    let mut loader = Loader::default();
    let options = journal::Options::default();
    // One above the newest epoch: what its leader has written so far is included.
    let read = journal::recover(&layout, &cluster, newest + 1, options, &mut loader);
    let recovered = read.map_err(|e| e.to_string())?;
    let mut samples = BTreeMap::new();
    let beats = Beats::list(&layout);
    for (host, _) in loader.state.known_hosts() {
        let bytes = sys::fs::read_optional(&layout.load(host), LOAD_MAX as u64);
        let doc = bytes.ok().flatten().and_then(|b| load::decode(&b).ok());
        let mut doc = doc.unwrap_or_default();
        beats.put_into(host, &mut doc);
        samples.insert(host.clone(), (doc, 0));
    }
    let path = layout.config();
    let config = super::files::read(&path)?;
    Ok(LiveCluster {
        state: loader.state,
        config: (config, path.display().to_string()),
        samples,
        now: Stamp(sys::clock::wall_ms()),
        notes: [recovered.skipped_snapshots, recovered.notes].concat(),
    })
}

/// What is waiting and running in a state. Jobs without a run limit run for `assume_ms`.
///
/// # Errors
/// There is too much of it.
pub fn present(state: &State, now: Stamp, assume_ms: u64) -> Result<PresentWorkload, String> {
    let mut found: Vec<(Job, JobRequest, JobKey, Option<StartedJob>)> = Vec::new();
    let mut unlimited = 0;
    for job in state.jobs().filter(|job| !job.is_finished()) {
        let spec = state.spec(job.spec);
        let limit_ms = spec.limits.run_s.map(|s| s * 1000);
        let ask = JobRequest {
            user: spec.user.clone(),
            project: spec.project.clone(),
            queue: spec.queue.clone(),
            min: spec.min,
            max: spec.max,
            res_req: spec.res_req.clone(),
            hosts: spec.hosts.clone(),
            priority: spec.priority,
            exclusive: spec.exclusive,
            ..JobRequest::default()
        };
        let mut put = |j: JobKey, work: Option<&Work>| {
            let started = work.and_then(|work| started(work, now));
            unlimited += u64::from(limit_ms.is_none());
            let made = Job {
                id: number(j),
                submit_ms: job.submit.0 - now.0,
                run_ms: limit_ms.unwrap_or(assume_ms),
                est_ms: limit_ms,
                by_clock: true,
                ..Job::default()
            };
            found.push((made, ask.clone(), j, started));
        };
        match &job.body {
            Body::Single(work) => put(JobKey::job(job.id), Some(work)),
            Body::Array(array) => {
                for (idx, work) in &array.work {
                    if !work.stat.is_finished() {
                        put(JobKey::element(job.id, *idx), Some(work));
                    }
                }
                for idx in array.waiting.iter() {
                    put(JobKey::element(job.id, idx), None);
                }
            }
        }
    }
    // The order in which a workload stores its jobs, so that places are known before it is created.
    found.sort_by_key(|(job, ..)| (job.submit_ms, job.id));
    let mut builder = Builder::default();
    let (mut keys, mut begun) = (Vec::new(), Vec::new());
    for (place, (job, ask, j, started)) in (0u32..).zip(found) {
        builder.push(job, ask)?;
        keys.push(j);
        begun.extend(started.map(|s| StartedJob { place, ..s }));
    }
    Ok(PresentWorkload {
        workload: builder.finish(),
        keys,
        started: begun,
        unlimited,
    })
}

/// A job's number in the output: array elements have theirs in the upper half.
pub fn number(j: JobKey) -> u64 {
    u64::from(j.idx) << 32 | u64::from(j.id)
}

fn started(work: &Work, now: Stamp) -> Option<StartedJob> {
    let run = work.run.as_deref().filter(|_| work.stat.is_started())?;
    let begun = if run.start == Stamp(0) {
        run.dispatch
    } else {
        run.start
    };
    let suspended = matches!(work.stat, JobStat::Ususp | JobStat::Ssusp);
    let until = match run.suspension.since {
        Stamp(0) => now,
        stopped => stopped,
    };
    let worked_ms = until
        .since_ms(begun)
        .saturating_sub(run.suspension.total_ms);
    Some(StartedJob {
        place: 0,
        start_ms: (begun.0 - now.0).min(0),
        worked_ms,
        slots: run.slots(),
        suspended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AttemptId, Share};
    use crate::record::event::Event;
    use crate::replay::from_journal::tests::{spec, submitted};

    #[test]
    fn what_waits_and_runs_becomes_a_workload() {
        let mut state = State::new();
        state.apply(&spec(100));
        state.apply(&submitted(5, "", 1000));
        state.apply(&submitted(6, "1-3", 2000));
        let a = AttemptId {
            j: JobKey::element(6, 2),
            at: 1,
        };
        state.apply(&Event::Dispatched {
            a,
            t: Stamp(3000),
            hosts: vec![Share("h".into(), 2)],
            alt: 0,
            forced: false,
            units: Vec::new(),
        });
        state.apply(&Event::Started {
            a,
            pid: 7,
            t: Stamp(4000),
            bind: None,
        });
        let p = present(&state, Stamp(10_000), 5).unwrap();
        let keys: Vec<String> = p.keys.iter().map(ToString::to_string).collect();
        assert_eq!(keys, ["5", "6[1]", "6[2]", "6[3]"]);
        assert_eq!(p.workload.jobs[0].submit_ms, -9000);
        assert_eq!((p.workload.jobs[3].run_ms, p.unlimited), (100_000, 0));
        let started = StartedJob {
            place: 2,
            start_ms: -6000,
            worked_ms: 6000,
            slots: 2,
            suspended: false,
        };
        assert_eq!(p.started, [started]);
    }
}
