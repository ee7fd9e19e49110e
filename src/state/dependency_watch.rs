//! Jobs that wait for others: which jobs watch which, and the effects of a judgement. Never judges.

use super::{DepVerdict, State};
use crate::model::{JobKey, JobStat};

impl State {
    /// Registers the job with those to which its dependency refers.
    pub(super) fn watch(&mut self, id: u32, s: u32) {
        for referred in super::depend_refs(&self.spec(s).depend.clone()) {
            self.dependencies
                .watchers
                .entry(referred)
                .or_default()
                .insert(id);
        }
        self.dependencies.changed.insert(id);
    }

    pub(super) fn unwatch(&mut self, id: u32, s: u32) {
        for referred in super::depend_refs(&self.spec(s).depend.clone()) {
            if let Some(set) = self.dependencies.watchers.get_mut(&referred) {
                set.remove(&id);
                if set.is_empty() {
                    self.dependencies.watchers.remove(&referred);
                }
            }
        }
        self.dependencies.changed.remove(&id);
    }

    pub(super) fn set_dependency_inner(&mut self, id: u32, verdict: DepVerdict) {
        let (gated, why) = match verdict {
            DepVerdict::Met => (false, None),
            DepVerdict::NotYet(why) | DepVerdict::Never(why) => (true, Some(why)),
        };
        let Some(job) = self.jobs.get(id) else {
            return;
        };
        let is_held = job.stat(0) == Some(JobStat::Psusp);
        if job.gated == gated && (is_held || job.own_reason(0) == why.as_ref()) {
            return;
        }
        self.index(id, false);
        if let Some(job) = self.jobs.get_mut(id) {
            job.gated = gated;
            if !is_held {
                job.set_why(0, why);
            }
        }
        self.index(id, true);
        self.changes.rows.note(JobKey::job(id));
    }
}
