//! The queues: their priorities, the order of pending classes in each, how they reserve. Which
//! class can start is decided elsewhere.

use super::line::{Line, Turn};
use super::pending::Bucket;
use super::reserver::Habit;
use super::share::ShareTree;
use crate::config::{Config, Policy};
use crate::model::Stamp;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// All queues, by position in the configuration.
#[derive(Debug, Default)]
pub(super) struct Queues {
    lines: Vec<Line>,
    /// How many classes of a queue have a shape, by the limits on hosts that concern them.
    alike: Vec<FxHashMap<(u32, u32), u32>>,
    /// Queues by priority, highest first; those of equal priority together.
    tiers: Vec<Vec<u16>>,
    /// How the queues reserve.
    habits: Vec<Habit>,
}

impl Queues {
    pub fn of(config: &Config) -> Queues {
        let mut by_priority: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for (at, queue) in (0u16..).zip(&config.queues) {
            by_priority.entry(queue.priority).or_default().push(at);
        }
        let lines = lines_of(config);
        Queues {
            alike: vec![FxHashMap::default(); lines.len()],
            lines,
            tiers: by_priority.into_values().rev().collect(),
            habits: config.queues.iter().map(Habit::of).collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub fn line(&self, queue: u16) -> &Line {
        &self.lines[usize::from(queue)]
    }

    pub fn line_mut(&mut self, queue: u16) -> &mut Line {
        &mut self.lines[usize::from(queue)]
    }

    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    pub fn lines_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.lines.iter_mut()
    }

    /// The share tree of a queue that has one.
    pub fn tree(&self, queue: Option<u16>) -> Option<&ShareTree> {
        self.line(queue?).tree()
    }

    pub fn tree_mut(&mut self, queue: Option<u16>) -> Option<&mut ShareTree> {
        self.line_mut(queue?).tree_mut()
    }

    /// Numbers of priorities.
    pub fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// Queues of one priority.
    pub fn tier(&self, tier: usize) -> &[u16] {
        &self.tiers[tier]
    }

    pub fn habit(&self, queue: u16) -> Habit {
        self.habits[usize::from(queue)]
    }

    /// The next class of a tier and its queue: of queues of equal priority the one whose class has
    /// waited longest. Queues that are `done` do not count.
    pub fn peek(&mut self, tier: usize, done: &[bool]) -> Option<(u16, Turn)> {
        let lines = &mut self.lines;
        let left = self.tiers[tier].iter();
        let left = left.filter(|at| !done[usize::from(**at)]);
        let turns = left.filter_map(|at| Some((*at, lines[usize::from(*at)].peek()?)));
        turns.min_by_key(|(at, turn)| (turn.rank, turn.order, *at))
    }

    /// The entry of a class in the order of its queue changes.
    pub fn set_turn(&mut self, bucket: &Bucket, turn: Option<Turn>) {
        if let Some(queue) = bucket.queue {
            self.line_mut(queue)
                .replace(bucket.place, bucket.turn, turn);
        }
    }

    /// Counts a class that comes (`plus`) or goes.
    pub fn count_alike(&mut self, bucket: &Bucket, plus: bool) {
        let Some(queue) = bucket.queue else {
            return;
        };
        let alike = &mut self.alike[usize::from(queue)];
        let key = (bucket.shape, bucket.ident.on_hosts);
        let n = alike.entry(key).or_default();
        *n = if plus { *n + 1 } else { *n - 1 };
        if *n == 0 {
            alike.remove(&key);
        }
    }

    /// Kinds of requests pending in a queue: shape, and the limits on hosts that concern it.
    pub fn alike(&self, queue: u16) -> impl ExactSizeIterator<Item = &(u32, u32)> {
        self.alike[usize::from(queue)].keys()
    }
}

/// The orders that the queues' policies ask for.
fn lines_of(config: &Config) -> Vec<Line> {
    let line = |queue: &crate::config::Queue| match &queue.policy {
        Policy::Fifo => Line::fifo(),
        Policy::RoundRobin => Line::in_turn(),
        policy @ (Policy::Fairshare(_) | Policy::Drf(_)) => {
            let groups = &config.user_groups;
            let tree = ShareTree::of_queue(policy, &queue.fair, groups, Stamp(0));
            Line::shared(tree.expect("these policies have shares"))
        }
    };
    config.queues.iter().map(line).collect()
}
