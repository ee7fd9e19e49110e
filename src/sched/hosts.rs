//! The hosts as a pass sees them: the cb.yaml entry, the last load sample, the administrator's
//! orders. The table is kept by the leader; a pass only reads it.

use crate::config::{Config, HostEntry, ResourceValue};
use crate::record::load::LoadDoc;
use crate::state::{HostCtl, HostId, State};
use crate::text::units;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A host of the cluster.
#[derive(Clone, Debug)]
pub struct HostInfo {
    pub id: HostId,
    pub name: String,
    /// Place in cb.yaml: the last tie-break, so that results do not depend on names alone.
    pub position: u32,
    pub entry: HostEntry,
    pub slots: u32,
    pub ctl: HostCtl,
    pub load: LoadDoc,
    /// Milliseconds since its last heartbeat, by the leader's monotonic clock.
    pub silent_ms: u64,
}

/// Why a host takes no new jobs at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// `server: no` in cb.yaml.
    NoServer,
    Closed,
    Locked,
    Unavailable,
}

impl HostInfo {
    /// The number of slots for `milli` thousandths of a slot per core, rounded up.
    pub fn slots_of_cores(&self, milli: u64) -> u32 {
        let slots = (milli * u64::from(self.load.ncpus.max(1))).div_ceil(1000);
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// Maximum number of slots that one user may have on the host: the smaller one of the host's
    /// own limit and the user's limit by cores.
    pub fn user_limit(&self, per_core_milli: Option<u64>) -> Option<u32> {
        let by_cores = per_core_milli.map(|milli| self.slots_of_cores(milli));
        self.entry.user_slots.into_iter().chain(by_cores).min()
    }

    pub fn obstacle(&self) -> Option<Obstacle> {
        if !self.entry.server {
            Some(Obstacle::NoServer)
        } else if self.ctl.closed {
            Some(Obstacle::Closed)
        } else if self.ctl.lock.is_some() {
            Some(Obstacle::Locked)
        } else if !self.ctl.up || !self.load.executor || self.load.failing {
            Some(Obstacle::Unavailable)
        } else {
            None
        }
    }

    /// The value of a numeric resource: static values of cb.yaml first, then the load sample.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.entry.resources.get(name) {
            Some(ResourceValue::Number(n)) => return Some(*n),
            Some(ResourceValue::Units(names)) => return Some(names.len() as f64),
            Some(ResourceValue::Sizes(sizes)) => return sizes.iter().copied().reduce(f64::max),
            Some(ResourceValue::Text(_)) | None => {}
        }
        let load = &self.load;
        Some(match name {
            "r15s" => load.r15s,
            "r1m" | "cpu" => load.r1m,
            "r15m" => load.r15m,
            "ut" => load.ut,
            "pg" => load.pg,
            "io" => load.io,
            "ls" | "login" => load.ls,
            "it" | "idle" => load.it,
            "tmp" => load.tmp,
            "swp" | "swap" => load.swp,
            "mem" => load.mem,
            "ncpus" | "cores" => f64::from(load.ncpus),
            "ndisks" => f64::from(load.ndisks),
            "maxmem" => load.maxmem as f64,
            "maxswp" => load.maxswp as f64,
            "maxtmp" => load.maxtmp as f64,
            "cpuf" => self.entry.cpuf,
            "slots" => f64::from(self.slots),
            _ => {
                return units::amount(load.values.get(name)?);
            }
        })
    }

    /// The names of its units of a resource, in order; numbers from 0 if only the number of units
    /// is given.
    pub fn units(&self, name: &str) -> Vec<Cow<'_, str>> {
        if let Some(ResourceValue::Units(names)) = self.entry.resources.get(name) {
            return names
                .iter()
                .map(|name| Cow::Borrowed(name.as_str()))
                .collect();
        }
        let sensed = match self.entry.resources.contains_key(name) {
            true => None,
            false => self
                .load
                .values
                .get(name)
                .and_then(|text| units::split(text)),
        };
        match sensed {
            // A host may report anything; a value that is not a list of units means no units.
            Some(names) if units::check_list(names.iter().copied()).is_err() => Vec::new(),
            Some(names) => names.into_iter().map(Cow::Borrowed).collect(),
            None => {
                let n = units::count(self.number(name).unwrap_or(0.0));
                (0..n).map(|n| Cow::Owned(n.to_string())).collect()
            }
        }
    }

    /// The amount of this resource that each of the host's `n` units of another resource has; 0 if
    /// it is not given.
    pub fn unit_sizes(&self, name: &str, n: usize) -> Vec<f64> {
        let mut sizes = match self.entry.resources.get(name) {
            Some(ResourceValue::Sizes(sizes)) => sizes.clone(),
            Some(_) => vec![self.number(name).unwrap_or(0.0); n],
            None => match self
                .load
                .values
                .get(name)
                .and_then(|text| units::sizes(text))
            {
                Some(sizes) => sizes,
                None => vec![self.number(name).unwrap_or(0.0); n],
            },
        };
        sizes.resize(n, 0.0);
        sizes
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        if let Some(ResourceValue::Text(text)) = self.entry.resources.get(name) {
            return Some(text);
        }
        match name {
            "type" => Some(self.host_type()),
            "model" => Some(self.model()),
            "hname" => Some(&self.name),
            "status" => Some(if self.obstacle().is_none() {
                "ok"
            } else {
                "unavail"
            }),
            _ => self.load.values.get(name).map(String::as_str),
        }
    }

    pub fn tag(&self, name: &str) -> bool {
        let sensed = || self.load.values.get(name).is_some_and(|v| v == "yes");
        let listed = || self.entry.tags.iter().any(|tag| tag == name);
        name == "server" && self.entry.server || listed() || sensed()
    }

    pub fn host_type(&self) -> &str {
        self.entry
            .type_name
            .as_deref()
            .unwrap_or(&self.load.host_type)
    }

    pub fn model(&self) -> &str {
        self.entry.model.as_deref().unwrap_or(&self.load.model)
    }
}

/// All hosts that belong to the cluster, in cb.yaml's order.
#[derive(Clone, Debug, Default)]
pub struct HostTable {
    hosts: Vec<HostInfo>,
    /// The numbers of the hosts.
    ids: Vec<HostId>,
    /// Positions by host number.
    by_id: Vec<Option<u32>>,
    by_name: FxHashMap<String, usize>,
    /// Positions of hosts that changed since the scheduler last asked; `None`: check all.
    changed: Option<Vec<usize>>,
}

impl HostTable {
    pub fn iter(&self) -> impl Iterator<Item = &HostInfo> {
        self.hosts.iter()
    }

    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    pub fn get(&self, id: HostId) -> Option<&HostInfo> {
        self.position(id).map(|at| &self.hosts[at])
    }

    pub fn find_by_name(&self, name: &str) -> Option<&HostInfo> {
        self.by_name.get(name).map(|at| &self.hosts[*at])
    }

    /// The host at a position of [`HostTable::iter`]. Panics if there is none.
    pub fn at(&self, position: usize) -> &HostInfo {
        &self.hosts[position]
    }

    /// The number of the host at a position.
    pub fn id_at(&self, position: usize) -> HostId {
        self.ids[position]
    }

    /// Positions of hosts that changed since the last call; `None`: the list of hosts changed,
    /// check all.
    pub fn take_changed(&mut self) -> Option<Vec<usize>> {
        let mut changed = self.changed.replace(Vec::new())?;
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }

    /// Stores a new load sample of a listed host. Returns false if the table must be rebuilt.
    pub fn sample(&mut self, state: &State, name: &str, load: &LoadDoc, silent_ms: u64) -> bool {
        let Some(at) = self.by_name.get(name).copied() else {
            return false;
        };
        let host = &mut self.hosts[at];
        host.silent_ms = silent_ms;
        host.ctl = state.host_ctl(name);
        host.slots = host.entry.slots.count(load.ncpus);
        host.load.clone_from(load);
        if let Some(changed) = &mut self.changed {
            changed.push(at);
        }
        true
    }

    /// Position in [`HostTable::iter`].
    pub fn position(&self, id: HostId) -> Option<usize> {
        let at = self.by_id.get(id.0 as usize).copied().flatten()?;
        Some(at as usize)
    }

    /// Rebuilds the table from the configuration and what is known of each host. `samples` has the
    /// last load sample and the milliseconds since it changed.
    pub fn rebuild(
        &mut self,
        config: &Config,
        state: &State,
        samples: &BTreeMap<String, (LoadDoc, u64)>,
    ) {
        self.hosts.clear();
        self.ids.clear();
        self.by_id.clear();
        self.by_name.clear();
        self.changed = None;
        let listed = config.host_names().map(str::to_owned);
        let joined = samples
            .keys()
            .filter(|h| !config.hosts.index.contains_key(*h))
            .cloned();
        for name in listed.chain(joined) {
            let (Some(entry), Some(id)) = (config.host(&name), state.host_id(&name)) else {
                continue;
            };
            let (load, silent_ms) = samples.get(&name).cloned().unwrap_or_default();
            let at = self.hosts.len();
            let number = id.0 as usize;
            if self.by_id.len() <= number {
                self.by_id.resize(number + 1, None);
            }
            self.by_id[number] = Some(at as u32);
            self.by_name.insert(name.clone(), at);
            self.ids.push(id);
            self.hosts.push(HostInfo {
                id,
                position: at as u32,
                slots: entry.slots.count(load.ncpus),
                entry: entry.clone(),
                ctl: state.host_ctl(&name),
                load,
                silent_ms,
                name,
            });
        }
    }
}
