//! Questions about a loaded configuration: rights, shares, properties of hosts. Pure lookups.

use super::policy::{Dimension, Quota, ShareEntry, ShareSubject, Shares, WindowedLimit};
use super::sets::{HostSet, UserSet};
use super::types::{
    AppProfile, Cluster, Config, HintsMode, HostEntry, Queue, UserEntry, UserSubject,
};
use crate::model::Stamp;

use jiff::tz::TimeZone;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Limits of section `users` that apply to one user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// Of the user: the minimum of the user's own entry and of each `group@` that contains the
    /// user, else of `default`.
    pub max_slots: Option<u32>,
    pub max_pend_jobs: Option<u32>,
    /// Slots on each host, for each of its cores, in thousandths.
    pub slots_per_cpu_milli: Option<u64>,
    /// Maximum of `-sp`.
    pub priority_cap: Option<u32>,
}

/// One step on the path from the root of a share tree to the leaf of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareStep<'a> {
    pub node: ShareNode<'a>,
    /// Relative to the siblings of the node, at least 1.
    pub shares: u32,
}

/// What a node of a share tree represents; siblings never represent the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareNode<'a> {
    /// An inner node for the users of a group.
    Group(&'a str),
    /// An inner node for all users whom no sibling names.
    Others,
    /// A leaf.
    User(&'a str),
}

/// A walk down a share tree: the steps so far, and the groups that contain no leaf for the user.
#[derive(Default)]
struct Descent<'a> {
    path: Vec<ShareStep<'a>>,
    closed: BTreeSet<&'a str>,
}

impl Shares {
    /// Entries that contain the user, in order of precedence: the user's own entry, the user's
    /// groups in the order of the list, `default`, `others`.
    fn candidates<'s>(
        &'s self,
        user: &str,
        os_groups: &[String],
        config: &Config,
    ) -> Vec<&'s ShareEntry> {
        let rank = |subject: &ShareSubject| match subject {
            ShareSubject::User(n) => (n == user).then_some(0),
            ShareSubject::Group(g) | ShareSubject::GroupEach(g) => {
                config.in_user_group(user, os_groups, g).then_some(1)
            }
            ShareSubject::Default => Some(2),
            ShareSubject::Others => Some(3),
        };
        let mut found: Vec<(u8, &ShareEntry)> = self
            .entries
            .iter()
            .filter_map(|entry| Some((rank(&entry.subject)?, entry)))
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, entry)| entry).collect()
    }
}

impl Quota {
    /// Whether usage counts the same on all hosts, so that the choice of hosts does not matter.
    pub fn on_any_host(&self) -> bool {
        match &self.hosts {
            Dimension::Any => true,
            Dimension::Shared(set) => set.is_all(),
            Dimension::Per(_) => false,
        }
    }
}

impl<T: Copy> WindowedLimit<T> {
    /// The limit at a moment: the first one whose window is open; `None` = not limited.
    pub fn limit_at(list: &[WindowedLimit<T>], now: Stamp, tz: &TimeZone) -> Option<T> {
        let open = |c: &&WindowedLimit<T>| match &c.window {
            None => true,
            Some(w) => w.contains_ms(now.0, tz),
        };
        list.iter().find(open).map(|c| c.limit)
    }

    /// When [`WindowedLimit::limit_at`] may return another value; `None` = never.
    pub fn next_change(list: &[WindowedLimit<T>], now: Stamp, tz: &TimeZone) -> Option<Stamp> {
        let windows = list.iter().filter_map(|c| c.window.as_ref());
        let changes = windows.filter_map(|w| w.next_change_ms(now.0, tz));
        changes.min().map(Stamp)
    }
}

impl Cluster {
    /// The ports on which a daemon receives hints, if it uses them. `local`: the share is a file
    /// system of this machine, whose changes raise events.
    pub fn hint_ports(&self, local: bool) -> Option<RangeInclusive<u16>> {
        let wanted = match self.hints {
            HintsMode::Auto => !local,
            HintsMode::Yes => true,
            HintsMode::No => false,
        };
        wanted.then_some(self.hint_port.0..=self.hint_port.1)
    }
}

impl Config {
    /// The path from below the root of the tree to the user's leaf, at least one step. `None`: the
    /// user has no share, so the queue accepts no jobs of this user.
    pub fn share_path<'a>(
        &'a self,
        shares: &'a Shares,
        user: &'a str,
        os_groups: &[String],
    ) -> Option<Vec<ShareStep<'a>>> {
        let mut descent = Descent::default();
        self.descend(shares, (user, os_groups), &mut descent)?;
        Some(descent.path)
    }

    /// Appends the steps below `level`, and returns the entry of `level` that they go through.
    /// Cycles and deep nesting of groups were refused, and no group is tried twice, so this ends
    /// soon.
    fn descend<'a>(
        &'a self,
        level: &'a Shares,
        (user, os_groups): (&'a str, &[String]),
        descent: &mut Descent<'a>,
    ) -> Option<&'a ShareEntry> {
        for entry in level.candidates(user, os_groups, self) {
            let shares = entry.shares;
            let (node, inner) = match &entry.subject {
                ShareSubject::User(_) | ShareSubject::Default | ShareSubject::GroupEach(_) => {
                    let node = ShareNode::User(user);
                    descent.path.push(ShareStep { node, shares });
                    return Some(entry);
                }
                ShareSubject::Others => (ShareNode::Others, None),
                ShareSubject::Group(name) if descent.closed.contains(name.as_str()) => continue,
                ShareSubject::Group(name) => {
                    let group = self.user_groups.get(name);
                    (
                        ShareNode::Group(name),
                        group.and_then(|g| g.fairshare.as_ref()),
                    )
                }
            };
            descent.path.push(ShareStep { node, shares });
            let Some(inner) = inner else {
                let node = ShareNode::User(user);
                descent.path.push(ShareStep { node, shares: 1 });
                return Some(entry);
            };
            if self.descend(inner, (user, os_groups), descent).is_some() {
                return Some(entry);
            }
            descent.path.pop();
            if let ShareSubject::Group(name) = &entry.subject {
                descent.closed.insert(name);
            }
        }
        None
    }

    /// The CPU factor of a host that belongs to the cluster.
    pub fn factor_of_host(&self, name: &str) -> Option<f64> {
        self.host(name).map(|host| host.cpuf)
    }

    /// The CPU factor of a host model or listed host of this name, as in `-W 10/NAME`.
    pub fn cpu_factor(&self, name: &str) -> Option<f64> {
        let model = self.host_models.get(name).map(|m| m.cpuf);
        let host = self.hosts.index.get(name);
        model.or_else(|| {
            host.and_then(|&i| self.hosts.entries.get(i))
                .map(|h| h.cpuf)
        })
    }

    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|q| q.name == name)
    }

    pub fn app(&self, name: &str) -> Option<&AppProfile> {
        match name {
            "" => None,
            name => self.apps.iter().find(|app| app.name == name),
        }
    }

    /// The entry of a host: its own, or the default entry if unlisted hosts may join. `None`: the
    /// host does not belong to the cluster and its load is ignored.
    pub fn host(&self, name: &str) -> Option<&HostEntry> {
        match self.hosts.index.get(name) {
            Some(&i) => self.hosts.entries.get(i),
            None => self.hosts.open.then_some(&self.hosts.default),
        }
    }

    /// Listed hosts in the order of the file.
    pub fn host_names(&self) -> impl Iterator<Item = &str> {
        self.hosts.entries.iter().map(|h| h.name.as_str())
    }

    /// A host, the hosts of a group, or all hosts (`all`). `None`: the name is unknown.
    pub fn hosts_named(&self, name: &str) -> Option<HostSet> {
        if name == "all" {
            return Some(HostSet::all());
        }
        if let Some(g) = self.host_groups.get(name) {
            return Some(g.hosts.clone());
        }
        self.host(name).map(|_| HostSet::one(name))
    }

    /// Listed hosts of the set in the order of the file.
    pub fn expand<'a>(&'a self, set: &'a HostSet) -> impl Iterator<Item = &'a str> {
        self.host_names().filter(|h| set.contains(h))
    }

    /// Whether the host may lead: one of `masters` if given, else of the first two listed hosts,
    /// else any host.
    pub fn may_lead(&self, host: &str) -> bool {
        if !self.cluster.masters.is_empty() {
            return self.cluster.masters.iter().any(|m| m == host);
        }
        self.hosts.entries.is_empty() || self.host_names().take(2).any(|h| h == host)
    }

    /// Whether the user is in the set. `os_groups`: the user's groups in the operating system.
    pub fn user_in(&self, user: &str, os_groups: &[String], set: &UserSet) -> bool {
        set.contains(user, os_groups, &self.user_groups)
    }

    /// Whether the user is a member of the group, either of section `usergroups` or of the
    /// operating system.
    pub fn in_user_group(&self, user: &str, os_groups: &[String], group: &str) -> bool {
        match self.user_groups.get(group) {
            Some(g) => self.user_in(user, os_groups, &g.set),
            None => os_groups.iter().any(|g| g == group),
        }
    }

    /// `root` always is, regardless of the file.
    pub fn is_cluster_admin(&self, user: &str, os_groups: &[String]) -> bool {
        user == "root" || self.user_in(user, os_groups, &self.cluster.administrators)
    }

    /// Whether the user is an administrator of the queue or of the cluster.
    pub fn is_queue_admin(&self, user: &str, os_groups: &[String], queue: &str) -> bool {
        self.is_cluster_admin(user, os_groups)
            || self
                .queue(queue)
                .is_some_and(|q| self.user_in(user, os_groups, &q.administrators))
    }

    /// Whether `admin` administers a user group that contains `user`. Groups that contain everyone
    /// count, too: that is the meaning of `@system` with an administrator.
    pub fn is_group_admin_of(&self, admin: (&str, &[String]), user: (&str, &[String])) -> bool {
        self.user_groups.values().any(|g| {
            self.user_in(admin.0, admin.1, &g.administrators)
                && self.user_in(user.0, user.1, &g.set)
        })
    }

    /// Whether the queue accepts jobs of the user: the user is one of its users, and has shares if
    /// the queue uses shares.
    pub fn queue_accepts(&self, queue: &Queue, user: &str, os_groups: &[String]) -> bool {
        let shares = |s: &Shares| self.share_path(s, user, os_groups).is_some();
        (queue.users.is_all() || self.user_in(user, os_groups, &queue.users))
            && queue.policy.shares().is_none_or(shares)
    }

    /// The limits of section `users` for a user.
    pub fn user_limits(&self, user: &str, os_groups: &[String]) -> UserLimits {
        let mut out = UserLimits::default();
        let mut own: Vec<&UserEntry> = Vec::new();
        for e in &self.users {
            match &e.subject {
                UserSubject::User(n) if n == user => own.push(e),
                UserSubject::GroupEach(g) if self.in_user_group(user, os_groups, g) => own.push(e),
                _ => {}
            }
        }
        if own.is_empty() {
            own.extend(
                self.users
                    .iter()
                    .filter(|e| e.subject == UserSubject::Default),
            );
        }
        out.max_slots = own.iter().filter_map(|e| e.max_slots).min();
        out.max_pend_jobs = own.iter().filter_map(|e| e.max_pend_jobs).min();
        out.slots_per_cpu_milli = own.iter().filter_map(|e| e.slots_per_cpu_milli).min();
        out.priority_cap = own.iter().filter_map(|e| e.priority_cap).min();
        out
    }

    /// SHA-256 of the configuration's meaning in hex: comments and layout do not change it.
    pub fn digest(&self) -> String {
        let json = serde_json::to_vec(self).expect("maps have text keys and numbers are finite");
        crate::model::sha256_hex(&json)
    }
}

/// Converts seconds stated for one CPU factor into the time of the same work at another factor.
pub fn seconds_on(seconds: u64, stated: f64, factor: f64) -> u64 {
    // At least a second; there is no overflow because factors are from 0.001 to 1000.
    ((seconds as f64 * stated / factor).round() as u64).max(1)
}
