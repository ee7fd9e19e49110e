//! Jobs that wait for others: which jobs watch which, and the effects of a judgement. Never judges.

use super::{DepVerdict, Job, State};
use crate::model::{JobKey, JobStat, PendReason};

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
        let outdated = job.with_other_reason(why.as_ref());
        if job.gated == gated && outdated.is_empty() {
            return;
        }
        self.index(id, false);
        if let Some(job) = self.jobs.get_mut(id) {
            job.gated = gated;
            for idx in &outdated {
                job.set_why(*idx, why.clone());
            }
        }
        self.index(id, true);
        self.changes.rows.note(JobKey::job(id));
        for idx in outdated {
            self.changes.rows.note(JobKey { id, idx });
        }
    }
}

impl Job {
    /// The job, or the waiting part (0) and waiting elements of an array, whose reason is to become
    /// `why` with a verdict on the dependency. What is held, or waits for another attempt, keeps
    /// its reason.
    fn with_other_reason(&self, why: Option<&PendReason>) -> Vec<u32> {
        let of_dependency = |own: Option<&PendReason>| {
            own.is_none_or(|own| {
                matches!(
                    own,
                    PendReason::Dependency { .. }
                        | PendReason::DependencyNever { .. }
                        | PendReason::ArrayLimit { .. }
                )
            })
        };
        let elements = self.array().into_iter().flat_map(|array| array.work.keys());
        let all = std::iter::once(0).chain(elements.copied());
        all.filter(|idx| {
            let own = self.own_reason(*idx);
            let limit = matches!(own, Some(PendReason::ArrayLimit { .. })) && why.is_none();
            let waits = self.stat(*idx) == Some(JobStat::Pend);
            waits && own != why && of_dependency(own) && !limit
        })
        .collect()
    }
}
