//! What a pass decides: the types of a [`Plan`]. Decides nothing and applies nothing; see
//! `plan_applier.rs`.

use crate::model::{JobKey, PendReason, Stamp, SuspReason, TermReason, Units};
use crate::state::HostId;
use smallvec::SmallVec;

/// Hosts of one start in order, with slots.
pub type Placement = SmallVec<[(HostId, u32); 1]>;

/// One decision to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub j: JobKey,
    pub hosts: Placement,
    /// The alternative of the requirement that was taken.
    pub alt: u8,
    /// The units that it gets.
    pub units: Vec<Units>,
}

/// The decisions of a pass.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub starts: Vec<Start>,
    /// Why the jobs of a class wait, for each class that was considered and still has jobs.
    pub reasons: Vec<(u32, PendReason)>,
    /// Arrays that wait because of their own limit of started elements.
    pub at_limit: Vec<(u32, u32)>,
    /// Running jobs that get more slots.
    pub growths: Vec<SlotGrowth>,
    /// Started jobs to be stopped in place.
    pub halts: Vec<(JobKey, SuspReason)>,
    /// Started jobs that the system stopped and that may continue.
    pub resumes: Vec<JobKey>,
    /// Started jobs to be ended and put back in their old place in the queue.
    pub requeues: Vec<(JobKey, TermReason)>,
    /// Started jobs to be ended for good.
    pub kills: Vec<(JobKey, TermReason)>,
    /// Started jobs that will be stopped or ended at that time to make room, and the signal that
    /// warns them.
    pub warns: Vec<(JobKey, Stamp, i32)>,
    /// Started jobs that were warned but are not stopped after all.
    pub unwarns: Vec<JobKey>,
    /// The pass stopped at its limit: call it again.
    pub more: bool,
    /// When the passing of time alone may change something (`-b`, windows).
    pub wake: Option<Stamp>,
    /// When a pass is needed only to find out why jobs wait. `None`: what is said is up to date.
    pub explain_at: Option<Stamp>,
}

/// More slots for a running job, added after its existing hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotGrowth {
    pub j: JobKey,
    pub hosts: Placement,
    /// Units that come with them.
    pub units: Vec<Units>,
}

impl Plan {
    /// Requests a pass at that time at the latest.
    pub(super) fn wake_at(&mut self, at: Option<Stamp>) {
        self.wake = self.wake.into_iter().chain(at).min();
    }
}
