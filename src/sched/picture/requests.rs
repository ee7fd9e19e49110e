//! The picture of specifications: the shape of their request, the counters of limits and the place
//! in a share tree that their jobs count in.

use super::Picture;
use crate::model::Spec;
use crate::sched::host_usage::ResourceId;
use crate::sched::hosts::HostTable;
use crate::sched::quota::{Consumers, Ident};
use crate::sched::request_table::SpecInfo;
use crate::sched::share::Leaf;
use crate::state::State;
use std::sync::Arc;

impl Picture {
    /// The place of a user in the share tree of a queue.
    /// `requested`: the group of `-G`, or empty.
    pub(super) fn leaf_of(
        &mut self,
        queue: Option<u16>,
        user: &str,
        requested: &str,
    ) -> Option<Leaf> {
        self.queues.tree(queue)?;
        let groups = self.users.member_of(&self.config, user);
        let tree = self.queues.tree_mut(queue)?;
        let requested = Some(requested).filter(|group| !group.is_empty());
        let leaf = tree.leaf(user, &groups, requested);
        Some(leaf.unwrap_or_else(|| tree.leaf_without_share(user)))
    }

    /// The counters to which jobs of a specification with this shape add.
    pub(in crate::sched) fn ident_of(&mut self, spec: &Spec, shape: u32) -> Arc<Ident> {
        let alternatives = self.requests.shape(shape).alternatives.iter();
        let reserved = alternatives
            .flat_map(|alternative| alternative.rusage())
            .map(|item| item.res);
        let shared = reserved.filter(|res| self.resources.is_shared(*res));
        let mut pools: Vec<ResourceId> = shared.collect();
        pools.sort_unstable();
        pools.dedup();
        let groups = self.users.member_of(&self.config, &spec.user);
        let who = Consumers {
            queue: &spec.queue,
            user: &spec.user,
            groups: &groups,
            project: &spec.project,
            app: &spec.app,
            job_group: &spec.job_group,
        };
        self.quotas.identity_with(&who, &pools)
    }

    pub(super) fn spec_info(&mut self, state: &State, table: &HostTable, s: u32) -> SpecInfo {
        if let Some(info) = self.requests.spec_info(s) {
            return info.clone();
        }
        let spec = state.spec(s);
        let shape = self.shape_of(spec, table);
        let queue = self.requests.shape(shape).queue;
        let info = SpecInfo {
            shape,
            ident: self.ident_of(spec, shape),
            leaf: self.leaf_of(queue, &spec.user, &spec.user_group),
        };
        self.requests.set_spec_info(s, info.clone());
        info
    }

    /// The shape of a specification, with a reference taken to it.
    pub(in crate::sched) fn shape_of(&mut self, spec: &Spec, table: &HostTable) -> u32 {
        let known = self.resources.len();
        let names = &mut self.resources;
        let id = self.requests.take_shape(spec, &self.config, names);
        if self.resources.len() > known {
            // A resource is reserved for the first time: the amounts of all hosts are recorded.
            for at in 0..self.usage.len() {
                self.set_host(table, at);
            }
        }
        id
    }
}
