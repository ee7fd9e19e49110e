//! Hosts on which single jobs, or the jobs of a queue, get no place for now, because starts failed
//! there. The leader sets them; a pass reads them.

use crate::model::{JobKey, Stamp};
use crate::state::HostId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct StartVetoes {
    jobs: FxHashMap<JobKey, JobVeto>,
    queues: FxHashMap<String, SmallVec<[HostId; 2]>>,
}

/// What the failed starts of one job mean for its next start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobVeto {
    /// It does not start earlier.
    pub not_before: Stamp,
    /// It does not start on these hosts as long as others could take it.
    pub hosts: SmallVec<[HostId; 2]>,
}

impl StartVetoes {
    pub fn set_job(&mut self, j: JobKey, veto: JobVeto) {
        self.jobs.insert(j, veto);
    }

    pub fn forget_job(&mut self, j: JobKey) {
        self.jobs.remove(&j);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.queues.is_empty()
    }

    pub(super) fn of_job(&self, j: JobKey) -> Option<&JobVeto> {
        self.jobs.get(&j)
    }

    /// Sets the queues whose jobs get no place on a host. Returns true if that is a change.
    pub fn set_queues_of(&mut self, host: HostId, queues: &[String]) -> bool {
        let mut changed = false;
        self.queues.retain(|queue, hosts| {
            if !queues.contains(queue) && hosts.contains(&host) {
                hosts.retain(|known| *known != host);
                changed = true;
            }
            !hosts.is_empty()
        });
        for queue in queues {
            let hosts = self.queues.entry(queue.clone()).or_default();
            if !hosts.contains(&host) {
                hosts.push(host);
                changed = true;
            }
        }
        changed
    }

    /// Whether some queue gets no place on some host.
    pub fn has_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    pub(super) fn of_queue(&self, queue: &str) -> &[HostId] {
        self.queues.get(queue).map_or(&[], |hosts| hosts)
    }

    /// The wall clock was set forward or back by `by_ms`.
    pub(super) fn shift(&mut self, by_ms: i64) {
        for veto in self.jobs.values_mut() {
            veto.not_before.0 = veto.not_before.0.saturating_add(by_ms);
        }
    }
}
