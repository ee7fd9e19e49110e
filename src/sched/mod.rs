//! Floor 3: scheduling. `plan(state, config, hosts, now) -> Plan`: pure, integer arithmetic where
//! it decides, stable ties, no dependence on map order. Walks classes of equal jobs, never single
//! jobs.
//!
//! Order: queue priority, then user priority (`-sp`), then submission order (as `ctop`/`cbot` left
//! it). A class that cannot be placed is left aside for the pass; jobs of other classes behind it
//! may start. Owns no state but a cache of compiled requests.

pub mod amount;
mod class;
pub mod depend;
mod hosts;
mod order;
mod place;
mod request;

pub use hosts::{HostInfo, HostTable, Obstacle};

use crate::config::Config;
use crate::model::{JobKey, PendReason, Stamp};
use crate::state::{HostId, State};
use class::{Compiled, Gate};
use order::Rank;
use place::Trial;
use smallvec::SmallVec;
use std::collections::{BinaryHeap, HashMap};

/// Amounts of `rusage[]` reserved on a host by running jobs.
pub fn reserved(state: &State, config: &Config, host: &HostInfo) -> HashMap<String, f64> {
    place::reserved_on(state, config, host)
}

/// Resources as `cinfo` lists them: name, type, order, description.
pub fn resource_table(config: &Config) -> Vec<(String, String, String, String)> {
    use crate::config::ResourceKind;
    use crate::text::resreq::{BUILTINS, Direction, Kind};
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
    let own = config.hosts.resources.iter().map(|(name, decl)| {
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
}

/// What a pass decided.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub starts: Vec<Start>,
    /// Why the jobs of a class wait, for classes that were looked at and still have jobs.
    pub reasons: Vec<(u32, PendReason)>,
    /// Arrays that wait for their own limit of started elements.
    pub at_limit: Vec<(u32, u32)>,
    /// The pass was cut off at its limit: call again.
    pub more: bool,
    /// Earliest begin time (`-b`) that is still to come.
    pub wake: Option<Stamp>,
}

/// Compiled requests by class, kept between passes of one configuration.
#[derive(Default)]
pub struct Cache {
    digest: String,
    classes: HashMap<u32, Compiled>,
    /// Groups of users in the operating system, as last looked up.
    groups: HashMap<String, Vec<String>>,
}

/// Decides at most `max` starts.
pub fn plan(
    state: &State,
    config: &Config,
    hosts: &HostTable,
    cache: &mut Cache,
    now: Stamp,
    max: usize,
) -> Plan {
    cache.prepare(state, config);
    let mut plan = Plan::default();
    let mut trial = Trial::new(state, config, cache, hosts);
    let mut heap = BinaryHeap::new();
    for (id, class) in state.pending().classes() {
        let Some((order, j)) = class.jobs.first().copied() else {
            continue;
        };
        match cache.get(id, state, config).gate(state, now) {
            Gate::Open { queue_priority } => {
                heap.push(Rank::new(queue_priority, class.key.priority, order, id, j));
            }
            Gate::Later(reason, at) => {
                plan.wake = Some(plan.wake.map_or(at, |w: Stamp| w.min(at)));
                plan.reasons.push((id, reason));
            }
            Gate::Shut(reason) => plan.reasons.push((id, reason)),
        }
    }
    while let Some(rank) = heap.pop() {
        if plan.starts.len() >= max {
            plan.more = true;
            break;
        }
        let class = state
            .pending()
            .class(rank.class)
            .expect("ranked classes exist");
        let compiled = cache.get(rank.class, state, config);
        match trial.next(state, class, compiled, &rank) {
            place::Step::Start(start, next) => {
                plan.starts.push(start);
                heap.extend(next);
            }
            place::Step::AtLimit(id, limit, next) => {
                plan.at_limit.push((id, limit));
                heap.extend(next);
            }
            place::Step::Blocked(reason) => plan.reasons.push((rank.class, reason)),
        }
    }
    plan
}

impl Cache {
    /// Tells the groups of a user; limits that hang on them are worked out anew when they changed.
    pub fn note_groups(&mut self, user: &str, groups: &[String]) {
        if self.groups.get(user).is_none_or(|known| known != groups) {
            self.groups.insert(user.to_owned(), groups.to_vec());
            self.classes.clear();
        }
    }

    /// Forgets every compiled request, but not the groups.
    pub fn clear(&mut self) {
        self.classes.clear();
        self.digest.clear();
    }

    /// Forgets what belongs to another configuration or to classes that are gone.
    fn prepare(&mut self, state: &State, config: &Config) {
        let digest = state.config_digest();
        if self.digest != digest || digest.is_empty() {
            self.classes.clear();
            self.digest = digest.to_owned();
        }
        if self.classes.len() > 2 * state.pending().classes().count() + 64 {
            self.classes
                .retain(|id, _| state.pending().class(*id).is_some());
        }
        let _ = config;
    }

    fn get(&mut self, id: u32, state: &State, config: &Config) -> &Compiled {
        self.classes.entry(id).or_insert_with(|| {
            let class = state
                .pending()
                .class(id)
                .expect("asked for classes that exist");
            let groups = self
                .groups
                .get(&class.spec.user)
                .map_or(&[][..], Vec::as_slice);
            Compiled::new(&class.spec, config, groups)
        })
    }
}
