//! Floor 3: scheduling. [`Engine`] keeps its own picture of the cluster, updated by what
//! changed ([`Engine::sync`]), and decides ([`Engine::plan`]): deterministic, integer arithmetic
//! where it decides, stable ties, no dependence on map order, no clock. Walks classes of equal
//! jobs, never single jobs.
//!
//! Order: queue priority, then the queue's policy, then user priority (`-sp`), then submission
//! order (as `ctop`/`cbot` left it). A class that finds no hosts is skipped for the pass; later
//! jobs of other classes may start.

mod allocation;
mod allocations;
pub mod amount;
mod best_fit;
mod changed_terms;
mod compiled_request;
pub mod depend;
mod dispatch_throttle;
mod engine;
mod examine;
mod fragmentation;
mod gang;
mod host_ranking;
mod host_search;
mod host_sets;
mod host_usage;
mod hosts;
mod inspect;
mod job_terms;
mod limit_checks;
mod load_thresholds;
mod openings;
mod pass;
mod pending_classes;
mod picture;
mod placement;
mod plan;
pub mod plan_applier;
mod preemption_search;
pub mod profile;
mod queue_order;
mod queues;
pub mod quota;
mod request_compiler;
mod request_table;
mod reservations;
pub mod reserve;
mod resource_names;
mod run_length;
mod shape;
pub mod share;
mod start_vetoes;
#[cfg(test)]
mod tests;
mod threshold_monitor;
mod time_windows;
mod units;
mod user_groups;
mod views;

pub use engine::Engine;
pub use examine::{AmountRoom, Examination, ExcludedHosts, NearestMiss, Stage, UnmetNeed};
pub use hosts::{HostInfo, HostTable, Obstacle};
pub use openings::Opening;
pub use plan::{Placement, Plan, SlotGrowth, Start};
pub use start_vetoes::JobVeto;
pub use threshold_monitor::DispatchBlock;

use crate::config::Config;

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
    // Skips a built-in resource whose amount cb.yaml or a sensor gives: it is already listed.
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
