//! Floor 3: scheduling. [`Engine`] keeps its own picture of the cluster, brought up to date by what
//! changed ([`Engine::sync`]), and decides ([`Engine::plan`]): deterministic, integer arithmetic
//! where it decides, stable ties, no dependence on map order, no clock. Walks classes of equal
//! jobs, never single jobs.
//!
//! Order: queue priority, then the queue's policy, then user priority (`-sp`), then submission
//! order (as `ctop`/`cbot` left it). A class that cannot be placed is left aside for the pass; jobs
//! of other classes behind it may start.

mod allow;
pub mod amount;
mod ask;
mod backfill;
mod balance;
pub mod depend;
mod elastic;
mod engine;
mod explain;
mod fade;
pub mod frag;
mod gang;
mod group;
mod guard;
mod held;
mod history;
mod hosts;
mod kinds;
mod line;
mod look;
mod pace;
mod pass;
mod place;
pub mod plan_applier;
mod preempt;
pub mod profile;
pub mod quota;
mod rank;
pub mod reserve;
mod shape;
pub mod share;
mod shown;
mod speed;
#[cfg(test)]
mod tests;
mod window;

pub use engine::Engine;
pub use guard::Bar;
pub use hosts::{HostInfo, HostTable, Obstacle};

use crate::config::Config;
use crate::model::{JobKey, PendReason, Stamp, SuspReason, TermReason};
use crate::state::HostId;
use smallvec::SmallVec;

/// Resources as `cinfo` lists them: name, type, order, description.
pub fn resource_table(config: &Config) -> Vec<(String, String, String, String)> {
    use crate::config::ResourceKind;
    use crate::text::resreq::{self, BUILTINS, Direction, Kind};
    let builtin = BUILTINS.iter().map(|b| {
        let kind = match b.kind {
            Kind::Number => "Numeric",
            Kind::Tag => "Boolean",
            Kind::Text | Kind::Unknown => "String",
        };
        let order = match b.direction {
            Direction::Increase => "Inc",
            Direction::Decrease => "Dec",
            Direction::None => "N/A",
        };
        (
            b.name.to_owned(),
            kind.to_owned(),
            order.to_owned(),
            b.about.to_owned(),
        )
    });
    // A built-in one whose amount cb.yaml or a sensor gives is listed already.
    let own = config.hosts.declared();
    let own = own.filter(|(name, _)| resreq::builtin(name).is_none());
    let own = own.map(|(name, decl)| {
        let (kind, order) = match decl.kind {
            ResourceKind::Number if decl.increase => ("Numeric", "Inc"),
            ResourceKind::Number => ("Numeric", "Dec"),
            ResourceKind::Text => ("String", "N/A"),
            ResourceKind::Tag => ("Boolean", "N/A"),
        };
        (
            name.clone(),
            kind.to_owned(),
            order.to_owned(),
            match decl.description.as_str() {
                "" if config.hosts.sensed.contains_key(name) => "from a sensor".to_owned(),
                "" => "declared in cb.yaml".to_owned(),
                said => said.to_owned(),
            },
        )
    });
    builtin.chain(own).collect()
}

/// Hosts of one start in order, with slots.
pub type Placement = SmallVec<[(HostId, u32); 1]>;

/// One decision to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub j: JobKey,
    pub hosts: Placement,
    /// Which alternative of the requirement was taken.
    pub alt: u8,
}

/// What a pass decided.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub starts: Vec<Start>,
    /// Why the jobs of a class wait, for classes that were looked at and still have jobs.
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
    /// Started work that will be stopped or ended at that time to make room.
    pub warns: Vec<(JobKey, Stamp)>,
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
}

impl Plan {
    fn wake_at(&mut self, at: Option<Stamp>) {
        self.wake = self.wake.into_iter().chain(at).min();
    }
}
