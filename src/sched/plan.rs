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
    /// Which alternative of the requirement was taken.
    pub alt: u8,
    /// Units that it gets.
    pub units: Vec<Units>,
}

/// What a pass decided.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub starts: Vec<Start>,
    /// Why the jobs of a class wait, for classes that were considered and still have jobs.
    pub reasons: Vec<(u32, PendReason)>,
    /// Arrays that wait for their own limit of started elements.
    pub at_limit: Vec<(u32, u32)>,
    /// Running work that gets more slots.
    pub grows: Vec<Grow>,
    /// Started work to be stopped in place.
    pub halts: Vec<(JobKey, SuspReason)>,
    /// Started work that the system stopped and that may go on.
    pub resumes: Vec<JobKey>,
    /// Started work to be ended and put back in its old place.
    pub requeues: Vec<(JobKey, TermReason)>,
    /// Started work to be ended for good.
    pub kills: Vec<(JobKey, TermReason)>,
    /// Started work that will be stopped or ended at that time to make room, and the signal that
    /// warns it.
    pub warns: Vec<(JobKey, Stamp, i32)>,
    /// Started work that was warned and is left alone after all.
    pub unwarns: Vec<JobKey>,
    /// The pass was cut off at its limit: call again.
    pub more: bool,
    /// When time alone may change something (`-b`, windows).
    pub wake: Option<Stamp>,
}

/// More slots for running work, at the end of its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grow {
    pub j: JobKey,
    pub hosts: Placement,
    /// Units that come with them.
    pub units: Vec<Units>,
}

impl Plan {
    /// Asks for a pass at that time at the latest.
    pub(super) fn wake_at(&mut self, at: Option<Stamp>) {
        self.wake = self.wake.into_iter().chain(at).min();
    }
}
