//! Questions about a loaded configuration: who may do what, which host is what. Pure lookups.

use super::sets::{HostSet, UserSet};
use super::types::{Config, HostEntry, Queue, UserEntry, UserSubject};
use sha2::{Digest, Sha256};

/// Limits of section `users` that concern one user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// His own: the smallest of his entry and of every `group@` he is in, else `default`.
    pub max_slots: Option<u32>,
    pub max_pend_jobs: Option<u32>,
}

impl Config {
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|q| q.name == name)
    }

    /// The entry of a host: its own, or the default one if unlisted hosts may join. `None`: the
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

    /// A host, or the hosts of a group, or every host (`all`). `None`: no such name.
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

    /// Groups of section `hostgroups` that hold the host.
    pub fn groups_of_host<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a str> {
        self.host_groups
            .values()
            .filter(|g| g.hosts.contains(host))
            .map(|g| g.name.as_str())
    }

    /// Whether the host may lead: `masters` if given, else the first two listed hosts, else any.
    pub fn may_lead(&self, host: &str) -> bool {
        if !self.cluster.masters.is_empty() {
            return self.cluster.masters.iter().any(|m| m == host);
        }
        self.hosts.entries.is_empty() || self.host_names().take(2).any(|h| h == host)
    }

    /// Whether the user is in the set. `os_groups`: names of his operating system groups.
    pub fn user_in(&self, user: &str, os_groups: &[String], set: &UserSet) -> bool {
        set.contains(user, os_groups, &self.user_groups)
    }

    /// Whether the user is a member of the group, of section `usergroups` or of the system.
    pub fn in_user_group(&self, user: &str, os_groups: &[String], group: &str) -> bool {
        match self.user_groups.get(group) {
            Some(g) => self.user_in(user, os_groups, &g.set),
            None => os_groups.iter().any(|g| g == group),
        }
    }

    /// `root` always is, whatever the file says.
    pub fn is_cluster_admin(&self, user: &str, os_groups: &[String]) -> bool {
        user == "root" || self.user_in(user, os_groups, &self.cluster.administrators)
    }

    /// Administrators of the queue, and those of the cluster.
    pub fn is_queue_admin(&self, user: &str, os_groups: &[String], queue: &str) -> bool {
        self.is_cluster_admin(user, os_groups)
            || self
                .queue(queue)
                .is_some_and(|q| self.user_in(user, os_groups, &q.administrators))
    }

    /// Whether `admin` administers a user group that holds `user`. Groups that hold everyone
    /// count too: that is what `@system` with an administrator means.
    pub fn is_group_admin_of(&self, admin: (&str, &[String]), user: (&str, &[String])) -> bool {
        self.user_groups.values().any(|g| {
            self.user_in(admin.0, admin.1, &g.administrators)
                && self.user_in(user.0, user.1, &g.set)
        })
    }

    /// Whether the queue takes jobs of the user.
    pub fn queue_accepts(&self, queue: &Queue, user: &str, os_groups: &[String]) -> bool {
        queue.users.is_all() || self.user_in(user, os_groups, &queue.users)
    }

    /// The first default queue that takes jobs of the user.
    pub fn default_queue_for(&self, user: &str, os_groups: &[String]) -> Option<&Queue> {
        let named = self
            .general
            .default_queue
            .iter()
            .filter_map(|n| self.queue(n));
        named
            .into_iter()
            .find(|q| self.queue_accepts(q, user, os_groups))
    }

    /// What section `users` says about a user.
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
        out
    }

    /// SHA-256 of the configuration's meaning in hex: comments and layout do not change it.
    pub fn digest(&self) -> String {
        let json = serde_json::to_vec(self).expect("maps have text keys and numbers are finite");
        Sha256::digest(&json)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }
}
