//! The scheduler's own picture of the cluster: what hosts have left, pending classes in order, what
//! started work holds. Everything here follows from the state, the configuration and the host
//! table, and could be recomputed at any time; [`Picture::update`] keeps it up to date by what
//! changed. Decides nothing: `pass.rs` decides.

mod classes;
mod requests;
mod share_history;
mod started;
mod units;

pub(in crate::sched) use units::ChosenUnits;

use super::allocations::Allocations;
use super::dispatch_throttle::DispatchThrottle;
use super::host_usage::ClusterUsage;
use super::hosts::{HostInfo, HostTable};
use super::pending_classes::PendingClasses;
use super::queues::Queues;
use super::quota::{Quotas, SharedAmount};
use super::request_table::RequestTable;
use super::reservations::Reservations;
use super::resource_names::ResourceNames;
use super::threshold_monitor::ThresholdMonitor;
use super::time_windows::TimeWindows;
use super::user_groups::UserGroups;
use crate::config::Config;
use crate::model::{JobKey, Stamp};
use crate::state::{PREFETCH_BATCH, State};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// See the head of this file.
pub(super) struct Picture {
    pub config: Arc<Config>,
    /// The time of the last pass.
    pub now: Stamp,
    pub users: UserGroups,
    pub resources: ResourceNames,
    /// Slots and amounts in use and left, by host.
    pub usage: ClusterUsage,
    pub hosts: HostTraits,
    pub requests: RequestTable,
    pub classes: PendingClasses,
    pub queues: Queues,
    pub allocations: Allocations,
    pub quotas: Quotas,
    /// Only if some queue makes reservations.
    pub reserver: Option<Reservations>,
    pub windows: TimeWindows,
    pub monitor: ThresholdMonitor,
    pub throttle: DispatchThrottle,
}

/// Properties of hosts beside those in the host table.
#[derive(Debug, Default)]
pub(super) struct HostTraits {
    /// Types of hosts seen so far, with their numbers.
    types: HashMap<String, u32>,
    /// Changes when hosts open, close, are added or change their properties.
    pub epoch: u64,
    /// CPU factors of the slowest and of the fastest host.
    pub speeds: (f64, f64),
}

impl HostTraits {
    /// Returns the number of a host type, and assigns a new one if needed.
    fn type_number(&mut self, name: &str) -> u32 {
        if let Some(known) = self.types.get(name) {
            return *known;
        }
        let next = self.types.len() as u32 + 1;
        self.types.insert(name.to_owned(), next);
        next
    }

    /// Notes the speeds of the slowest and of the fastest host.
    fn note_speeds(&mut self, table: &HostTable) {
        let all = || table.iter().map(|host| host.entry.cpuf);
        let least = all().fold(f64::INFINITY, f64::min);
        let most = all().fold(0.0, f64::max);
        self.speeds = if most > 0.0 {
            (least, most)
        } else {
            (1.0, 1.0)
        };
    }
}

impl Picture {
    /// An empty picture, to be rebuilt.
    pub(super) fn new(config: Arc<Config>) -> Picture {
        Picture {
            config,
            now: Stamp::default(),
            users: UserGroups::default(),
            resources: ResourceNames::default(),
            usage: ClusterUsage::default(),
            hosts: HostTraits::default(),
            requests: RequestTable::default(),
            classes: PendingClasses::default(),
            queues: Queues::default(),
            allocations: Allocations::default(),
            quotas: Quotas::default(),
            reserver: None,
            windows: TimeWindows::default(),
            monitor: ThresholdMonitor::default(),
            throttle: DispatchThrottle::default(),
        }
    }

    /// Updates the picture with the changes.
    pub(super) fn update(
        &mut self,
        state: &State,
        table: &HostTable,
        hosts: &[usize],
        works: &[JobKey],
        classes: &[u32],
    ) {
        for at in hosts {
            if self.set_host(table, *at) {
                self.renew_units(state, table, *at);
            }
        }
        self.allocations.sort_planned();
        let mut next = 0;
        for some in works.chunks(PREFETCH_BATCH) {
            state.prefetch_works(some);
            let changed = some.iter().copied();
            let changed =
                changed.filter(|j| !self.allocations.as_planned(state, self.now, *j, &mut next));
            let changed: SmallVec<[JobKey; PREFETCH_BATCH]> = changed.collect();
            self.prefetch(state, &changed);
            for j in changed {
                self.sync_allocation(state, table, j);
            }
        }
        self.allocations.clear_planned();
        for class in classes {
            self.set_class(state, table, *class);
        }
        self.usage.trim();
        self.requests.sweep(state);
    }

    /// Rebuilds everything for this configuration. The samples seen and the history of share trees
    /// are kept.
    pub(super) fn rebuild(&mut self, config: Arc<Config>, state: &State, table: &HostTable) {
        let histories = (!self.queues.is_empty()).then(|| self.histories(self.now));
        *self = Picture {
            users: std::mem::take(&mut self.users).renewed(),
            usage: std::mem::take(&mut self.usage),
            hosts: HostTraits {
                epoch: self.hosts.epoch + 1,
                ..HostTraits::default()
            },
            queues: Queues::of(&config),
            allocations: Allocations::new(config.queues.len()),
            reserver: Reservations::of(&config),
            windows: TimeWindows::renewed(self.windows.zone().clone(), &config, table),
            monitor: std::mem::take(&mut self.monitor).renewed(&config),
            throttle: DispatchThrottle::renewed(&config, table.count()),
            now: self.now,
            ..Picture::new(config.clone())
        };
        let names = &mut self.resources;
        let mut number = |name: &str| names.intern(name, &config);
        self.quotas = Quotas::new(&config.limits, &config.user_groups, &mut number);
        self.limit_groups(state);
        // Units also matter to jobs that request none: they are known from the start, not only from
        // the first request.
        let declared = config.hosts.declared().map(|(name, _)| name);
        let with_units = declared.filter(|name| config.hosts.has_units(name));
        with_units.for_each(|name| _ = self.resources.intern(name, &config));
        self.usage.reset(table.count(), depends_on_holders(&config));
        self.hosts.note_speeds(table);
        for (at, host) in table.iter().enumerate() {
            self.quotas.host(at as u32, &host.name);
            self.set_host(table, at);
        }
        self.set_history_start(histories.as_ref(), state);
        for j in state.all_started() {
            self.sync_allocation(state, table, j);
        }
        let classes: Vec<u32> = state.pending().classes().map(|(id, _)| id).collect();
        for class in classes {
            self.set_class(state, table, class);
        }
        self.restore_history(histories, state, table);
    }

    /// Takes over the limits of job groups.
    pub(super) fn limit_groups(&mut self, state: &State) {
        let limited = state.job_groups();
        let limited = limited.filter_map(|group| Some((group.name.as_str(), group.limit?)));
        let (version, at) = (state.job_group_version(), self.usage.log_end());
        self.quotas.limit_groups(version, limited, at);
    }

    /// Takes over a host's entry of the table. Returns true if it lists other units than before.
    pub(super) fn set_host(&mut self, table: &HostTable, at: usize) -> bool {
        let host = table.at(at);
        let mut other_units = false;
        for (res, name) in self.resources.with_units() {
            other_units |= self.usage.set_units(at, res, &host.units(name));
        }
        for (own, unit) in self.resources.of_units() {
            let sizes = self.resources.sizes(host, own);
            self.usage.set_unit_sizes(at, (unit, own), sizes);
        }
        self.note_shared_resources(host, at);
        let have = self.resources.amounts_of_host(host);
        let kind = self.hosts.type_number(host.host_type());
        self.usage.renew(at, kind);
        let expected = self.throttle.expected(at, self.now);
        self.usage.set_expected(at, expected);
        if expected > 0 {
            self.throttle.note_stale(at);
        }
        let is_barred = self.monitor.note_sample(host, at, expected) || self.windows.is_closed(at);
        let open = host.obstacle().is_none() && !is_barred;
        if self.usage.get(at).open != open {
            self.hosts.epoch += 1;
        }
        if !self.usage.set(at, host.slots, open, &have) {
            self.usage.note_load_change(at);
        }
        if let Some(reserver) = &mut self.reserver {
            reserver.set_host(at, &self.usage);
        }
        other_units
    }

    /// Notes the resources that the host shares with others.
    fn note_shared_resources(&mut self, host: &HostInfo, at: usize) {
        let log_position = self.usage.log_end();
        for (res, name) in self.resources.shared_resources() {
            let fixed = self.config.hosts.resources.get(name);
            let fixed = fixed.is_some_and(|decl| decl.shared);
            let shared = host.number(name).map(|n| SharedAmount {
                source: match (fixed, host.load.shared.get(name)) {
                    (true, _) => "",
                    (false, Some(reporter)) => reporter,
                    (false, None) => &host.name,
                },
                amount: (n * 1000.0).round() as i64,
                fixed,
            });
            let idle = self.usage.get(at).reserved_of(res) == 0;
            self.quotas
                .set_shared_amount((res, name), at as u32, shared, (idle, log_position));
        }
    }
}

/// Whether some limit depends on what a queue or a user holds on a host.
fn depends_on_holders(config: &Config) -> bool {
    let hosts = config.hosts.entries.iter().chain([&config.hosts.default]);
    let mut queues = config.queues.iter();
    hosts.into_iter().any(|host| host.user_slots.is_some())
        || queues.any(|q| q.host_slots.is_some() || q.proc_slots_milli.is_some())
        || config.users.iter().any(|u| u.slots_per_cpu_milli.is_some())
}
