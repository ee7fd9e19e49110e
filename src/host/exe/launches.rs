//! To what users may add commands on this host (`claunch`), and when they are looked for. Values
//! only, no files.
//!
//! A command runs here only for an attempt or a part of one that the leader ordered on this host,
//! on several slots, for the user of that job.

use crate::model::AttemptId;
use crate::record::launch::LaunchRequest;
use std::collections::BTreeMap;

/// What may be added to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    uid: u32,
    /// Number of its specification in the present orders.
    spec: u32,
    /// Something was started for it.
    launched: bool,
}

/// The attempts and parts on several slots that this host has.
#[derive(Debug, Default)]
pub(super) struct Launches {
    works: BTreeMap<AttemptId, Work>,
    looked_at: u64,
}

impl Launches {
    /// Notes an attempt or part of this user that the orders name.
    pub(super) fn note(&mut self, a: AttemptId, uid: u32, spec: u32) {
        let launched = self.works.get(&a).is_some_and(|work| work.launched);
        let work = Work {
            uid,
            spec,
            launched,
        };
        self.works.insert(a, work);
    }

    /// Forgets it. True when something may run for it.
    pub(super) fn end(&mut self, a: AttemptId) -> bool {
        self.works.remove(&a).is_some_and(|work| work.launched)
    }

    /// How long until the next look (ms); `None`: there is nothing to look for.
    pub(super) fn due_in(&self, now: u64, pause_ms: u64) -> Option<u64> {
        let next = self.looked_at + pause_ms;
        (!self.works.is_empty()).then(|| next.saturating_sub(now))
    }

    /// Notes that they are looked for.
    pub(super) fn looked(&mut self, now: u64) {
        self.looked_at = now;
    }

    /// Notes that something was started for it.
    pub(super) fn launched(&mut self, a: AttemptId) {
        if let Some(work) = self.works.get_mut(&a) {
            work.launched = true;
        }
    }

    /// All of them.
    pub(super) fn attempts(&self) -> Vec<AttemptId> {
        self.works.keys().copied().collect()
    }

    /// Whose they are.
    pub(super) fn uids(&self) -> Vec<u32> {
        let mut uids: Vec<u32> = self.works.values().map(|work| work.uid).collect();
        uids.sort_unstable();
        uids.dedup();
        uids
    }

    /// The specification for what this user asks.
    ///
    /// # Errors
    /// Why that is not to be started here.
    pub(super) fn judge(&self, launch: &LaunchRequest, owner: u32) -> Result<u32, String> {
        match self.works.get(&launch.a) {
            Some(work) if work.uid == owner => Ok(work.spec),
            Some(_) => Err(format!("job {} belongs to another user", launch.a.j)),
            None => Err(format!("job {} has no slots on this host", launch.a.j)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;

    fn attempt(id: u32) -> AttemptId {
        AttemptId {
            j: JobKey::job(id),
            at: 1,
        }
    }

    #[test]
    fn only_the_jobs_user_adds_to_it_and_only_here() {
        let mut all = Launches::default();
        assert_eq!(all.due_in(7, 100), None);
        all.note(attempt(1), 1000, 3);
        let launch = |id| LaunchRequest {
            a: attempt(id),
            ..LaunchRequest::default()
        };
        assert_eq!(all.judge(&launch(1), 1000), Ok(3));
        assert!(all.judge(&launch(1), 1001).is_err());
        assert!(all.judge(&launch(2), 1000).is_err());
        let later = LaunchRequest {
            a: AttemptId {
                at: 2,
                ..attempt(1)
            },
            ..LaunchRequest::default()
        };
        assert!(all.judge(&later, 1000).is_err());
        assert_eq!(all.due_in(40, 100), Some(60));
        assert!(!all.end(attempt(1)));
        assert!(all.judge(&launch(1), 1000).is_err());
        assert_eq!(all.due_in(40, 100), None);
    }
}
