//! Sets of hosts and of users as written in cb.yaml (`all ~h3`, `g1 u007`, `h+2 others+1`), in a
//! form that is cheap to query. Owns only membership; `read_*` checks names.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A finite set of hosts, or all hosts except a finite set. Closed under union and difference, so
/// nested groups with exclusions can be resolved before it is known which hosts will join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostSet {
    /// `true`: every host except `names`.
    pub all_but: bool,
    pub names: BTreeSet<String>,
}

impl HostSet {
    pub fn all() -> HostSet {
        HostSet {
            all_but: true,
            names: BTreeSet::new(),
        }
    }

    pub fn none() -> HostSet {
        HostSet {
            all_but: false,
            names: BTreeSet::new(),
        }
    }

    pub fn one(name: &str) -> HostSet {
        HostSet {
            all_but: false,
            names: BTreeSet::from([name.to_string()]),
        }
    }

    pub fn contains(&self, host: &str) -> bool {
        self.all_but != self.names.contains(host)
    }

    pub fn is_all(&self) -> bool {
        self.all_but && self.names.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        !self.all_but && self.names.is_empty()
    }

    pub fn union(&self, other: &HostSet) -> HostSet {
        let (names, all_but) = match (self.all_but, other.all_but) {
            (false, false) => (&self.names | &other.names, false),
            (true, true) => (&self.names & &other.names, true),
            (true, false) => (&self.names - &other.names, true),
            (false, true) => (&other.names - &self.names, true),
        };
        HostSet { all_but, names }
    }

    pub fn minus(&self, other: &HostSet) -> HostSet {
        let (names, all_but) = match (self.all_but, other.all_but) {
            (false, false) => (&self.names - &other.names, false),
            (false, true) => (&self.names & &other.names, false),
            (true, false) => (&self.names | &other.names, true),
            (true, true) => (&other.names - &self.names, false),
        };
        HostSet { all_but, names }
    }
}

/// A union of many sets in which adding a single host does not copy the whole set.
#[derive(Default)]
pub(super) struct HostSetUnion {
    single: HostSet,
    sets: Vec<HostSet>,
}

impl HostSetUnion {
    pub(super) fn add(&mut self, set: HostSet) {
        if set.all_but {
            self.sets.push(set);
        } else {
            self.single.names.extend(set.names);
        }
    }

    pub(super) fn set(self) -> HostSet {
        self.sets
            .iter()
            .fold(self.single, |all, set| all.union(set))
    }
}

/// Names of queues, projects or applications: those listed, or all but those listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Names {
    /// `true`: every name except `names`.
    pub all_but: bool,
    pub names: BTreeSet<String>,
}

impl Names {
    pub fn contains(&self, name: &str) -> bool {
        self.all_but != self.names.contains(name)
    }
}

/// The `hosts` of a queue: which hosts, and how much each is preferred (larger first).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostPrefs {
    /// As written, for display.
    pub text: String,
    /// Named hosts and groups with their preference.
    pub terms: Vec<(HostSet, u32)>,
    /// `others` / `all`: the preference of every host that no term names.
    pub others: Option<u32>,
    pub exclude: HostSet,
}

impl HostPrefs {
    /// All hosts, with equal preference.
    pub fn all() -> HostPrefs {
        HostPrefs {
            text: "all".into(),
            terms: Vec::new(),
            others: Some(0),
            exclude: HostSet::none(),
        }
    }

    /// The preference of the host; `None` if jobs of the queue may not use it.
    pub fn preference(&self, host: &str) -> Option<u32> {
        if self.exclude.contains(host) {
            return None;
        }
        let named = self
            .terms
            .iter()
            .filter(|(set, _)| set.contains(host))
            .map(|&(_, p)| p);
        named.max().or(self.others)
    }

    pub fn contains(&self, host: &str) -> bool {
        self.preference(host).is_some()
    }
}

/// One name in a user set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum UserTerm {
    /// Everyone (`all`, `@system`).
    All,
    /// A user, or else an operating system group, with this name.
    Name(String),
    /// A group of section `usergroups`.
    Group(String),
}

impl UserTerm {
    /// The term as it is written in cb.yaml.
    pub fn as_str(&self) -> &str {
        match self {
            UserTerm::All => "all",
            UserTerm::Name(n) | UserTerm::Group(n) => n,
        }
    }
}

/// Users as written: inclusions in order, then exclusions. Groups are stored as names because
/// groups of the operating system change without a change of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UserSet {
    pub include: Vec<UserTerm>,
    pub exclude: Vec<UserTerm>,
}

impl UserSet {
    pub fn all() -> UserSet {
        UserSet {
            include: vec![UserTerm::All],
            exclude: Vec::new(),
        }
    }

    pub fn is_all(&self) -> bool {
        self.exclude.is_empty() && self.include.contains(&UserTerm::All)
    }

    pub fn is_empty(&self) -> bool {
        self.include.is_empty()
    }

    /// Whether the user is in the set. `groups` resolves the names of `usergroups`; in a loaded
    /// configuration their nesting is shallow and without cycles.
    pub fn contains(
        &self,
        user: &str,
        os_groups: &[String],
        groups: &BTreeMap<String, super::types::UserGroup>,
    ) -> bool {
        let mut cache = Vec::new();
        self.covers_user(user, os_groups, groups, &mut cache)
    }

    /// `cache` caches the results of groups, so that the cost is linear in the number of groups
    /// even if they share members.
    fn covers_user<'g>(
        &'g self,
        user: &str,
        os_groups: &[String],
        groups: &'g BTreeMap<String, super::types::UserGroup>,
        cache: &mut Vec<(&'g str, bool)>,
    ) -> bool {
        let mut hit = |term: &'g UserTerm| match term {
            UserTerm::All => true,
            UserTerm::Name(n) => n == user || os_groups.iter().any(|g| g == n),
            UserTerm::Group(n) => {
                if let Some(&(_, answer)) = cache.iter().find(|(g, _)| g == n) {
                    return answer;
                }
                let group = groups.get(n);
                let answer =
                    group.is_some_and(|g| g.set.covers_user(user, os_groups, groups, cache));
                cache.push((n, answer));
                answer
            }
        };
        !self.exclude.iter().any(&mut hit) && self.include.iter().any(&mut hit)
    }
}

impl std::fmt::Display for UserSet {
    /// As written in cb.yaml.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |term: &UserTerm| match term {
            UserTerm::All => "all".to_owned(),
            UserTerm::Name(name) | UserTerm::Group(name) => name.clone(),
        };
        let out = self.exclude.iter().map(|term| format!("~{}", name(term)));
        let all: Vec<String> = self.include.iter().map(name).chain(out).collect();
        f.write_str(&all.join(" "))
    }
}
