//! The queues: their priorities, the order of pending classes in each, how they reserve. Which
//! class can start is decided elsewhere.

use super::pending_classes::PendingClass;
use super::queue_order::{QueueEntry, QueueOrder};
use super::reservations::ReservePolicy;
use super::share::ShareTree;
use crate::config::{Config, Policy};
use crate::model::Stamp;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// All queues, by position in the configuration.
#[derive(Debug, Default)]
pub(super) struct Queues {
    orders: Vec<QueueOrder>,
    /// How many classes of a queue have a shape, by the host limits that apply to them.
    classes_by_limits: Vec<FxHashMap<(u32, u32), u32>>,
    /// Queues by priority, highest first; queues of equal priority share a tier.
    tiers: Vec<Vec<u16>>,
    /// How the queues make reservations.
    reserve_policies: Vec<ReservePolicy>,
}

impl Queues {
    pub(super) fn of(config: &Config) -> Queues {
        let mut by_priority: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for (at, queue) in (0u16..).zip(&config.queues) {
            by_priority.entry(queue.priority).or_default().push(at);
        }
        let orders = orders_of(config);
        Queues {
            classes_by_limits: vec![FxHashMap::default(); orders.len()],
            orders,
            tiers: by_priority.into_values().rev().collect(),
            reserve_policies: config.queues.iter().map(ReservePolicy::of).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.orders.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    pub(super) fn order(&self, queue: u16) -> &QueueOrder {
        &self.orders[usize::from(queue)]
    }

    pub(super) fn order_mut(&mut self, queue: u16) -> &mut QueueOrder {
        &mut self.orders[usize::from(queue)]
    }

    pub(super) fn orders(&self) -> impl Iterator<Item = &QueueOrder> {
        self.orders.iter()
    }

    pub(super) fn orders_mut(&mut self) -> impl Iterator<Item = &mut QueueOrder> {
        self.orders.iter_mut()
    }

    /// The share tree of a queue, if it has one.
    pub(super) fn tree(&self, queue: Option<u16>) -> Option<&ShareTree> {
        self.order(queue?).tree()
    }

    pub(super) fn tree_mut(&mut self, queue: Option<u16>) -> Option<&mut ShareTree> {
        self.order_mut(queue?).tree_mut()
    }

    /// Number of different priorities.
    pub(super) fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// Queues of one priority.
    pub(super) fn tier(&self, tier: usize) -> &[u16] {
        &self.tiers[tier]
    }

    pub(super) fn reserve_policy(&self, queue: u16) -> ReservePolicy {
        self.reserve_policies[usize::from(queue)]
    }

    /// The next class of a tier and its queue. Among queues of equal priority it is the one whose
    /// class has waited longest. Queues that are `done` are skipped.
    pub(super) fn peek(&mut self, tier: usize, done: &[bool]) -> Option<(u16, QueueEntry)> {
        let orders = &mut self.orders;
        let left = self.tiers[tier].iter();
        let left = left.filter(|at| !done[usize::from(**at)]);
        let entries = left.filter_map(|at| Some((*at, orders[usize::from(*at)].peek()?)));
        entries.min_by_key(|(at, entry)| (entry.rank, entry.order, *at))
    }

    /// Changes the entry of a class in the order of its queue.
    pub(super) fn set_entry(&mut self, pending: &PendingClass, entry: Option<QueueEntry>) {
        if let Some(queue) = pending.queue {
            self.order_mut(queue)
                .replace(pending.group, pending.progress.entry, entry);
        }
    }

    /// Counts a class that is added (`plus`) or removed.
    pub(super) fn count_alike(&mut self, pending: &PendingClass, plus: bool) {
        let Some(queue) = pending.queue else {
            return;
        };
        let alike = &mut self.classes_by_limits[usize::from(queue)];
        let key = (pending.shape, pending.ident.on_hosts);
        let n = alike.entry(key).or_default();
        *n = if plus { *n + 1 } else { *n - 1 };
        if *n == 0 {
            alike.remove(&key);
        }
    }

    /// Kinds of requests pending in a queue: shape, and the host limits that apply to it.
    pub(super) fn pending_kinds(&self, queue: u16) -> impl ExactSizeIterator<Item = &(u32, u32)> {
        self.classes_by_limits[usize::from(queue)].keys()
    }
}

/// The orders that the policies of the queues define.
fn orders_of(config: &Config) -> Vec<QueueOrder> {
    let order = |queue: &crate::config::Queue| match &queue.policy {
        Policy::Fifo => QueueOrder::fifo(),
        Policy::RoundRobin => QueueOrder::round_robin(),
        policy @ (Policy::Fairshare(_) | Policy::Drf(_)) => {
            let groups = &config.user_groups;
            let tree = ShareTree::of_queue(policy, &queue.fair, groups, Stamp(0));
            QueueOrder::fair_share(tree.expect("these policies have shares"))
        }
    };
    config.queues.iter().map(order).collect()
}
