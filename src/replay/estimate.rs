//! When jobs of a live cluster start: its state run forward on the virtual clock. The core of
//! `cbsim when` and of the estimate of `cjobs --why`. Owns how running jobs are copied; reads
//! nothing.

use super::live_cluster::{PresentWorkload, Samples};
use super::virtual_cluster::{Decider, Replay, StartedProgress};
use super::virtual_leader::{ClusterSetting, LiveSetting, VirtualLeader};
use super::workload::Principals;
use crate::config::Config;
use crate::model::{JobKey, Stamp};
use crate::state::State;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The cluster that is simulated forward.
pub struct SimulationStart {
    pub state: State,
    pub config: Arc<Config>,
    /// Load samples by host; measured load stays constant.
    pub samples: Samples,
    pub now: Stamp,
    /// What is waiting and running in it.
    pub present: PresentWorkload,
    /// The time zone of windows.
    pub zone: TimeZone,
}

/// The results.
pub struct StartEstimates {
    /// One for each requested job, in their order.
    pub jobs: Vec<StartEstimate>,
    /// Unfinished jobs without a run limit.
    pub unlimited: u64,
    /// The virtual time at which the simulation was stopped early, in milliseconds since the epoch.
    pub stopped_at: Option<i64>,
}

/// When one job starts.
pub struct StartEstimate {
    pub j: JobKey,
    /// Milliseconds since the epoch. `None`: not before the simulation ended; never, if nothing was
    /// left.
    pub at: Option<i64>,
    /// Why it waits in that case.
    pub why: String,
}

impl PresentWorkload {
    /// Passes on what has started.
    pub fn adopt(&self, replay: &mut Replay<'_>, core: &VirtualLeader<'_>) {
        replay.begin_at(0);
        for s in &self.started {
            let begun = StartedProgress {
                start_ms: s.start_ms,
                worked_ms: s.worked_ms,
                limit_ms: core.limit_of(s.place),
                suspended: s.suspended,
            };
            replay.adopt(s.place, s.slots, core.cpuf_of(s.place), begun);
        }
    }
}

/// Simulates the cluster forward until the jobs have started or nothing is left to happen, and only
/// as long as `go_on` allows.
pub fn estimate(
    begin: SimulationStart,
    jobs: &[JobKey],
    go_on: Box<dyn FnMut() -> bool + '_>,
) -> StartEstimates {
    let present = begin.present;
    let place: BTreeMap<JobKey, u32> = present.keys.iter().copied().zip(0u32..).collect();
    let principals = Principals::of(&present.workload);
    let mut core = VirtualLeader::new(ClusterSetting {
        workload: &present.workload,
        principals: &principals,
        config: begin.config,
        base_ms: begin.now.0,
        cores: 1,
        waste: false,
        live: Some(LiveSetting {
            state: begin.state,
            samples: begin.samples,
            keys: present.keys.clone(),
            zone: begin.zone,
        }),
    });
    let mut replay = Replay::new(&present.workload, &principals.by_request, None);
    present.adopt(&mut replay, &core);
    let wanted = jobs.iter().filter_map(|j| place.get(j).copied());
    replay.end_after_starts(wanted.collect());
    replay.end_when_disallowed(go_on);
    let outcome = replay.run(&mut core);
    let one = |j: &JobKey| {
        let at = place.get(j).and_then(|at| outcome.starts[*at as usize]);
        StartEstimate {
            j: *j,
            at: at.map(|ms| begin.now.0 + ms),
            why: place.get(j).map_or(String::new(), |at| core.why(*at)),
        }
    };
    StartEstimates {
        jobs: jobs.iter().map(one).collect(),
        unlimited: present.unlimited,
        stopped_at: outcome.stopped_at.map(|ms| begin.now.0 + ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OsNames;
    use crate::model::{Limits, Spec};
    use crate::record::event::Event;
    use crate::record::load::LoadDoc;
    use crate::replay::from_journal::tests::submitted;
    use crate::replay::live_cluster::present;

    /// Sat Nov 21 03:07:09 2026 UTC.
    const NOW: Stamp = Stamp(1_795_230_429_000);
    const HOUR_MS: i64 = 3_600_000;

    /// Four jobs of one slot and 100 s for a single slot whose dispatch window opens at 6:00.
    fn begin(zone: TimeZone) -> SimulationStart {
        begin_in("dispatch_window: '6:00-20:00'", 100, zone)
    }

    /// The same for a queue with this window and jobs with this run limit.
    fn begin_in(window: &str, run_s: u64, zone: TimeZone) -> SimulationStart {
        let text = format!(
            "cluster: {{name: c, administrators: [root]}}\n\
             hosts: [{{name: h1, slots: 1}}]\n\
             queues: [{{name: normal, {window}}}]\n"
        );
        let loaded = crate::config::load(text.as_bytes(), "cb.yaml", &OsNames::ANY);
        let config = Arc::new(loaded.expect("a good cb.yaml").config);
        let mut state = State::new();
        let limits = Limits {
            run_s: Some(run_s),
            ..Limits::default()
        };
        let spec = Box::new(Spec {
            queue: "normal".into(),
            user: "ann".into(),
            min: 1,
            max: 1,
            limits,
            ..Spec::default()
        });
        state.apply(&Event::Spec { id: 1, spec });
        for id in 1..=4 {
            state.apply(&submitted(id, "", NOW.0 - 1000));
        }
        let load = LoadDoc {
            executor: true,
            ncpus: 1,
            ..LoadDoc::default()
        };
        let (name, up, boot, t) = ("h1".to_owned(), true, String::new(), NOW);
        state.apply(&Event::HostSeen { name, up, boot, t });
        SimulationStart {
            present: present(&state, NOW, 1).expect("few jobs"),
            state,
            config,
            samples: [("h1".to_owned(), (load, 0))].into(),
            now: NOW,
            zone,
        }
    }

    fn start_of(zone: TimeZone, id: u32) -> Option<i64> {
        let estimates = estimate(begin(zone), &[JobKey::job(id)], Box::new(|| true));
        estimates.jobs[0].at
    }

    #[test]
    fn windows_open_by_the_clock_of_the_zone() {
        let six = NOW.0 + 3 * HOUR_MS - 429_000;
        assert_eq!(start_of(TimeZone::UTC, 1), Some(six));
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(start_of(east, 1), Some(six - 2 * HOUR_MS));
        assert_eq!(start_of(TimeZone::UTC, 3), Some(six + 200_000));
    }

    /// It fails by its running time: windows open and close for ever.
    #[test]
    fn a_job_that_no_window_admits_never_starts() {
        let begun = begin_in("run_window: '6:00-10:00'", 8 * 3600, TimeZone::UTC);
        let estimates = estimate(begun, &[JobKey::job(1)], Box::new(|| true));
        let StartEstimate { at, why, .. } = &estimates.jobs[0];
        assert_eq!((*at, estimates.stopped_at), (None, None));
        assert!(
            why.contains("run window of queue normal closes in"),
            "{why}"
        );
    }

    #[test]
    fn an_estimate_that_is_ended_says_how_far_it_came() {
        let mut left = 3;
        let go_on = Box::new(move || {
            left -= 1;
            left >= 0
        });
        let estimates = estimate(begin(TimeZone::UTC), &[JobKey::job(4)], go_on);
        assert_eq!(estimates.jobs[0].at, None);
        assert!(
            estimates.stopped_at.is_some_and(|at| at > NOW.0),
            "{:?}",
            estimates.stopped_at
        );
    }
}
