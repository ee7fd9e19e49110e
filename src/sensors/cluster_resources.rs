//! Combines the sensors of all hosts: which resources exist, and which values each host has. Kept
//! by the leader, derived only from load reports: a later leader derives the same.
//!
//! Of two definitions, the first one applies as long as a host reports it; definitions of cb.yaml
//! take precedence over all others. A host's own value takes precedence over a shared one, and of
//! shared values that of the first host.

use super::RESOURCES_MAX;
use crate::config::{Config, ResourceDecl, ResourceKind};
use crate::record::load::{Sensed, SensedKind};
use crate::text::resreq::{check_resource_name, left_to_sensors};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum time between two changes of definitions, in milliseconds: the scheduler rebuilds its
/// picture after each change.
pub const SETTLE_MS: u64 = 10_000;
/// How long a definition is kept after its last report, ms: the leader's sensors move with the
/// leader.
pub const LINGER_MS: u64 = 60_000;

/// The reports and definitions of all hosts.
#[derive(Clone, Debug, Default)]
pub struct ClusterResources {
    hosts: BTreeMap<String, BTreeMap<String, Sensed>>,
    /// Names of resources with a locale, with the hosts that report them.
    reporters: BTreeMap<String, BTreeSet<String>>,
    /// Definitions in force, and since when no host reports them.
    definitions: BTreeMap<String, (ResourceDecl, Option<u64>)>,
    /// Reports define other resources than when definitions were last derived.
    dirty: bool,
    /// When definitions were last derived, and when this is due although no report changes.
    settled: Option<u64>,
    recheck: Option<u64>,
}

/// A host's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostValues {
    pub values: BTreeMap<String, String>,
    /// For values with a locale: the host that reports them.
    pub shared: BTreeMap<String, String>,
    /// Problems of the host's own report.
    pub warnings: Vec<String>,
}

impl ClusterResources {
    /// Takes a host's report; `None` for a silent host. Returns true if values of other hosts may
    /// have changed.
    pub fn take_report(&mut self, host: &str, report: Option<BTreeMap<String, Sensed>>) -> bool {
        let report = report.unwrap_or_default();
        let old = self.hosts.get(host);
        if report.is_empty() && old.is_none() {
            return false;
        }
        let none = BTreeMap::new();
        let old = old.unwrap_or(&none);
        let defines = |(n, s): (&String, &Sensed)| {
            (
                n.clone(),
                s.kind,
                s.assign,
                s.per_unit.clone(),
                s.locale.clone(),
            )
        };
        self.dirty |= !old.iter().map(defines).eq(report.iter().map(defines));
        let lends = |m: &BTreeMap<String, Sensed>| -> Vec<(String, Sensed)> {
            let some = m.iter().filter(|(_, s)| !s.locale.is_empty());
            some.map(|(n, s)| (n.clone(), s.clone())).collect()
        };
        let (before, after) = (lends(old), lends(&report));
        for (name, _) in &before {
            if let Some(by) = self.reporters.get_mut(name) {
                by.remove(host);
            }
        }
        for (name, _) in &after {
            self.reporters
                .entry(name.clone())
                .or_default()
                .insert(host.to_owned());
        }
        self.reporters.retain(|_, by| !by.is_empty());
        match report.is_empty() {
            true => drop(self.hosts.remove(host)),
            false => drop(self.hosts.insert(host.to_owned(), report)),
        }
        before != after
    }

    /// The definitions of sensors under `config`, if they have changed.
    pub fn define(&mut self, config: &Config, now: u64) -> Option<BTreeMap<String, ResourceDecl>> {
        let due = self.dirty || self.recheck.is_some_and(|at| at <= now);
        let early = self
            .settled
            .is_some_and(|at| now < at.saturating_add(SETTLE_MS) && at <= now);
        if !due || early {
            return None;
        }
        (self.dirty, self.recheck, self.settled) = (false, None, Some(now));
        let reported = self.reported_definitions(config);
        let before = self.declared();
        for (name, (decl, lost)) in &mut self.definitions {
            let same = reported
                .get(name)
                .and_then(|all| all.iter().find(|d| d.kind == decl.kind));
            match same {
                Some(d) => (decl.shared, *lost) = (d.shared, None),
                None => *lost = Some(lost.unwrap_or(now)),
            }
        }
        let over = |lost: &Option<u64>| lost.is_some_and(|at| now >= at.saturating_add(LINGER_MS));
        self.definitions.retain(|_, (_, lost)| !over(lost));
        for (name, decls) in reported {
            if self.definitions.len() < RESOURCES_MAX && !self.definitions.contains_key(&name) {
                self.definitions.insert(name, (decls[0].clone(), None));
            }
        }
        let waits = self.definitions.values().filter_map(|(_, lost)| *lost);
        self.recheck = waits.map(|at| at.saturating_add(LINGER_MS)).min();
        let after = self.declared();
        (before != after).then_some(after)
    }

    /// cb.yaml may have changed: definitions are derived again.
    pub fn rederive(&mut self) {
        (self.dirty, self.settled) = (!self.hosts.is_empty(), None);
    }

    /// Reported definitions by name: that of the first host first, one of each kind.
    fn reported_definitions(&self, config: &Config) -> BTreeMap<String, Vec<ResourceDecl>> {
        let mut out: BTreeMap<String, Vec<ResourceDecl>> = BTreeMap::new();
        for report in self.hosts.values() {
            for (name, sensed) in report {
                let Some(kind) = kind_of(sensed.kind) else {
                    continue;
                };
                let named = left_to_sensors(name) || check_resource_name(name).is_ok();
                let shared = is_shared(&sensed.locale, config);
                // For a resource that cb.yaml declares, sensors only add that hosts share it.
                if !named || config.hosts.resources.contains_key(name) && !shared {
                    continue;
                }
                let all = out.entry(name.clone()).or_default();
                if let Some(decl) = all.iter_mut().find(|d| d.kind == kind) {
                    decl.shared |= shared;
                    continue;
                }
                all.push(declaration(sensed, kind, shared));
            }
        }
        out
    }

    fn declared(&self) -> BTreeMap<String, ResourceDecl> {
        let all = self.definitions.iter();
        all.map(|(name, (decl, _))| (name.clone(), decl.clone()))
            .collect()
    }

    /// The values that `host` has under `config`.
    pub fn values(&self, host: &str, config: &Config) -> HostValues {
        let mut out = HostValues::default();
        if let Some(own) = self.hosts.get(host) {
            for (name, sensed) in own {
                out.put(name, sensed, host, host, config);
            }
        }
        for (name, by) in &self.reporters {
            for from in by {
                if from != host && !out.values.contains_key(name) {
                    out.put(name, &self.hosts[from][name], from, host, config);
                }
            }
        }
        out
    }
}

impl HostValues {
    /// Adds a value that `from` reports if `host` has it.
    fn put(&mut self, name: &str, sensed: &Sensed, from: &str, host: &str, config: &Config) {
        let own = from == host;
        if own {
            self.warnings
                .extend(unknown_hosts(name, &sensed.locale, config));
        }
        let Some(decl) = config.hosts.resource(name) else {
            return;
        };
        if kind_of(sensed.kind) != Some(decl.kind) {
            if own {
                let word = |k: &ResourceKind| serde_json::to_string(k).unwrap_or_default();
                let text = format!("resource {name} is a {} elsewhere", word(&decl.kind));
                self.warnings
                    .push(format!("{}: its value is not used", text.replace('"', "")));
            }
            return;
        }
        if !has(&sensed.locale, own, host, config) {
            return;
        }
        let Some(value) = &sensed.value else { return };
        if decl.kind == ResourceKind::Tag && value != "yes" {
            return;
        }
        self.values.insert(name.to_owned(), value.clone());
        if !sensed.locale.is_empty() {
            self.shared.insert(name.to_owned(), from.to_owned());
        }
    }
}

fn declaration(sensed: &Sensed, kind: ResourceKind, shared: bool) -> ResourceDecl {
    ResourceDecl {
        kind,
        increase: sensed.increase,
        release: sensed.release,
        slotresource: sensed.slot,
        assign: sensed.assign && kind == ResourceKind::Number,
        per_unit: Some(sensed.per_unit.clone()).filter(|unit| !unit.is_empty()),
        devices: Vec::new(),
        description: sensed.about.clone(),
        shared,
    }
}

/// Definitions in force in the form that a leader publishes, without values. [`defined`] reads
/// them.
pub fn published(sensed: &BTreeMap<String, ResourceDecl>) -> BTreeMap<String, Sensed> {
    let one = |decl: &ResourceDecl| Sensed {
        kind: match decl.kind {
            ResourceKind::Number => SensedKind::Number,
            ResourceKind::Text => SensedKind::Text,
            ResourceKind::Tag => SensedKind::Tag,
        },
        increase: decl.increase,
        release: decl.release,
        slot: decl.slotresource,
        assign: decl.assign,
        per_unit: decl.per_unit.clone().unwrap_or_default(),
        about: decl.description.clone(),
        locale: if decl.shared { "all" } else { "" }.to_owned(),
        value: None,
    };
    let all = sensed.iter();
    all.map(|(name, decl)| (name.clone(), one(decl))).collect()
}

/// The definitions that a leader published; those with a kind that only a later version knows are
/// omitted.
pub fn defined(published: &BTreeMap<String, Sensed>) -> BTreeMap<String, ResourceDecl> {
    let one = |(name, sensed): (&String, &Sensed)| {
        let kind = kind_of(sensed.kind)?;
        let decl = declaration(sensed, kind, !sensed.locale.is_empty());
        Some((name.clone(), decl))
    };
    published.iter().filter_map(one).collect()
}

/// Whether `host` has a resource with this locale; `own`: the host reports it itself.
fn has(locale: &str, own: bool, host: &str, config: &Config) -> bool {
    if locale.is_empty() {
        return own;
    }
    locale.split(' ').any(|word| {
        word == host
            || config
                .hosts_named(word)
                .is_some_and(|set| set.contains(host))
    })
}

/// Whether several hosts have it: an amount of it must be counted over all of them.
fn is_shared(locale: &str, config: &Config) -> bool {
    let mut words = locale.split(' ');
    match (words.next(), words.next()) {
        (None | Some(""), _) => false,
        (Some(one), None) => config.host(one).is_none() || one == "all",
        _ => true,
    }
}

fn unknown_hosts(name: &str, locale: &str, config: &Config) -> Option<String> {
    let unknown = |w: &&str| !w.is_empty() && config.hosts_named(w).is_none();
    let words: Vec<&str> = locale.split(' ').filter(unknown).collect();
    let text = words.join(" ");
    let sentence = format!(
        "resource {name}: its locale names no host or host group of this cluster: {text:.100}"
    );
    (!words.is_empty()).then_some(sentence)
}

fn kind_of(kind: SensedKind) -> Option<ResourceKind> {
    match kind {
        SensedKind::Number => Some(ResourceKind::Number),
        SensedKind::Text => Some(ResourceKind::Text),
        SensedKind::Tag => Some(ResourceKind::Tag),
        SensedKind::Unknown => None,
    }
}
