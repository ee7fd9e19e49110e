//! The order in which a queue's classes are considered: first come first served, round robin by
//! user, or by a share tree. Owns the order only; whether a class can start is decided by the pass.

use super::share::{Leaf, ShareTree};
use crate::model::JobKey;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// A class with its next job; the smallest entry goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueEntry {
    /// Negated user priority, plus the age if the site counts it.
    pub rank: i64,
    /// Submission order, as changed by `ctop` and `cbot`.
    pub order: i64,
    pub j: JobKey,
    pub class: u32,
}

/// The part of a queue within which a class is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderGroup {
    /// First come, first served.
    Queue,
    User(u32),
    Leaf(Leaf),
}

/// A queue's order.
#[derive(Debug)]
pub(super) enum QueueOrder {
    Fifo(Sorted),
    /// One job of each user per round, users in the order of their first job.
    RoundRobin(Rounds),
    FairShare(Box<ShareOrder>),
}

/// Entries in order; most users have only a few classes.
#[derive(Debug)]
enum Entries {
    Few(SmallVec<[QueueEntry; 1]>),
    Many(BTreeSet<QueueEntry>),
}

/// Maximum number of entries kept in a list.
const FEW_ENTRIES: usize = 8;

impl Default for Entries {
    fn default() -> Entries {
        Entries::Few(SmallVec::new())
    }
}

impl Entries {
    fn is_empty(&self) -> bool {
        match self {
            Entries::Few(few) => few.is_empty(),
            Entries::Many(many) => many.is_empty(),
        }
    }

    fn first(&self) -> Option<QueueEntry> {
        match self {
            Entries::Few(few) => few.first().copied(),
            Entries::Many(many) => many.first().copied(),
        }
    }

    fn after(&self, last: QueueEntry) -> Option<QueueEntry> {
        match self {
            Entries::Few(few) => few.iter().find(|entry| **entry > last).copied(),
            Entries::Many(many) => many.range((Excluded(last), Unbounded)).next().copied(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = QueueEntry> {
        let (few, many) = match self {
            Entries::Few(few) => (Some(few), None),
            Entries::Many(many) => (None, Some(many)),
        };
        let all = few.into_iter().flatten();
        all.chain(many.into_iter().flatten()).copied()
    }

    fn insert(&mut self, entry: QueueEntry) {
        match self {
            Entries::Few(few) if few.len() < FEW_ENTRIES => {
                if let Err(at) = few.binary_search(&entry) {
                    few.insert(at, entry);
                }
            }
            Entries::Few(few) => {
                let all = few.iter().copied().chain([entry]).collect();
                *self = Entries::Many(all);
            }
            Entries::Many(many) => {
                many.insert(entry);
            }
        }
    }

    fn remove(&mut self, entry: QueueEntry) {
        match self {
            Entries::Few(few) => few.retain(|other| *other != entry),
            Entries::Many(many) => {
                many.remove(&entry);
                if many.is_empty() {
                    *self = Entries::default();
                }
            }
        }
    }
}

/// Classes in submission order, with a cursor for one pass.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    entries: Entries,
    /// The last entry that was considered in this pass.
    cursor: Option<QueueEntry>,
}

impl Sorted {
    fn peek(&self) -> Option<QueueEntry> {
        match self.cursor {
            None => self.entries.first(),
            Some(last) => self.entries.after(last),
        }
    }

    fn replace(&mut self, old: Option<QueueEntry>, new: Option<QueueEntry>) {
        if let Some(old) = old {
            self.entries.remove(old);
        }
        if let Some(new) = new {
            self.entries.insert(new);
        }
    }
}

/// One job of each user in turn.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    users: BTreeMap<u32, UserEntries>,
    /// (round, first job, user) of each user with classes left in this pass.
    ready: BTreeSet<(u64, QueueEntry, u32)>,
    /// Users that have nothing left to try in this pass.
    idle: Vec<u32>,
}

#[derive(Debug, Default)]
struct UserEntries {
    sorted: Sorted,
    /// Number of rounds that this user has had.
    rounds: u64,
    /// The user's key in `ready`.
    key: Option<(u64, QueueEntry, u32)>,
}

impl Rounds {
    /// Ranks a user by round and next job; removes a user without jobs.
    fn reposition(&mut self, uid: u32) {
        let Some(user) = self.users.get_mut(&uid) else {
            return;
        };
        let key = user.sorted.peek().map(|entry| (user.rounds, entry, uid));
        if user.key == key {
            return;
        }
        if let Some(old) = std::mem::replace(&mut user.key, key) {
            self.ready.remove(&old);
        }
        match key {
            Some(key) => {
                self.ready.insert(key);
            }
            None => self.idle.push(uid),
        }
    }

    fn replace(&mut self, uid: u32, old: Option<QueueEntry>, new: Option<QueueEntry>) {
        // A user who returns after a pause joins the current round.
        let current_round = self.ready.first().map_or(0, |(round, ..)| *round);
        let user = self.users.entry(uid).or_default();
        if user.sorted.entries.is_empty() {
            user.rounds = user.rounds.max(current_round);
        }
        user.sorted.replace(old, new);
        self.reposition(uid);
        if self
            .users
            .get(&uid)
            .is_some_and(|t| t.sorted.entries.is_empty() && t.rounds <= current_round)
        {
            self.users.remove(&uid);
        }
    }
}

/// A share tree with the classes of its leaves.
#[derive(Debug)]
pub(super) struct ShareOrder {
    pub tree: ShareTree,
    /// By number of the leaf in its tree.
    leaves: Vec<Sorted>,
    /// Leaves that have nothing left to try in this pass.
    idle: Vec<Leaf>,
    /// Leaves with a cursor.
    with_cursor: Vec<Leaf>,
}

impl ShareOrder {
    fn reposition(&mut self, leaf: Leaf) {
        let active = self.leaves[leaf.number()].peek().is_some();
        self.tree.set_active(leaf, active);
        if !active {
            self.idle.push(leaf);
        }
    }

    fn rewind(&mut self) {
        for leaf in self.with_cursor.drain(..) {
            self.leaves[leaf.number()].cursor = None;
        }
        for leaf in std::mem::take(&mut self.idle) {
            let active = !self.leaves[leaf.number()].entries.is_empty();
            self.tree.set_active(leaf, active);
        }
    }
}

impl QueueOrder {
    pub(super) fn fifo() -> QueueOrder {
        QueueOrder::Fifo(Sorted::default())
    }

    pub(super) fn round_robin() -> QueueOrder {
        QueueOrder::RoundRobin(Rounds::default())
    }

    pub(super) fn fair_share(tree: ShareTree) -> QueueOrder {
        QueueOrder::FairShare(Box::new(ShareOrder {
            tree,
            leaves: Vec::new(),
            idle: Vec::new(),
            with_cursor: Vec::new(),
        }))
    }

    pub(super) fn tree(&self) -> Option<&ShareTree> {
        match self {
            QueueOrder::FairShare(share_order) => Some(&share_order.tree),
            _ => None,
        }
    }

    pub(super) fn tree_mut(&mut self) -> Option<&mut ShareTree> {
        match self {
            QueueOrder::FairShare(share_order) => Some(&mut share_order.tree),
            _ => None,
        }
    }

    /// Replaces the entry `old` of a class by `new`, because its next job changed.
    pub(super) fn replace(
        &mut self,
        group: OrderGroup,
        old: Option<QueueEntry>,
        new: Option<QueueEntry>,
    ) {
        if old == new {
            return;
        }
        match (self, group) {
            (QueueOrder::Fifo(sorted), _) => sorted.replace(old, new),
            (QueueOrder::RoundRobin(rounds), OrderGroup::User(uid)) => {
                rounds.replace(uid, old, new)
            }
            (QueueOrder::FairShare(share_order), OrderGroup::Leaf(leaf)) => {
                if share_order.leaves.len() <= leaf.number() {
                    let more = leaf.number() + 1;
                    share_order.leaves.resize_with(more, Sorted::default);
                }
                share_order.leaves[leaf.number()].replace(old, new);
                share_order.reposition(leaf);
            }
            (QueueOrder::RoundRobin(_) | QueueOrder::FairShare(_), _) => {
                unreachable!("such a queue orders classes by their user")
            }
        }
    }

    /// The next class of this pass.
    pub(super) fn peek(&mut self) -> Option<QueueEntry> {
        match self {
            QueueOrder::Fifo(sorted) => sorted.peek(),
            QueueOrder::RoundRobin(rounds) => rounds.ready.first().map(|(_, entry, _)| *entry),
            QueueOrder::FairShare(share_order) => {
                let best = share_order.tree.best()?;
                share_order.leaves.get(best.number())?.peek()
            }
        }
    }

    /// Skips the class that [`QueueOrder::peek`] returned because it cannot start in this pass.
    pub(super) fn skip(&mut self, group: OrderGroup, entry: QueueEntry) {
        match (self, group) {
            (QueueOrder::Fifo(sorted), _) => sorted.cursor = Some(entry),
            (QueueOrder::RoundRobin(rounds), OrderGroup::User(uid)) => {
                if let Some(user) = rounds.users.get_mut(&uid) {
                    user.sorted.cursor = Some(entry);
                }
                rounds.reposition(uid);
            }
            (QueueOrder::FairShare(share_order), OrderGroup::Leaf(leaf)) => {
                let cursor = &mut share_order.leaves[leaf.number()].cursor;
                if cursor.replace(entry).is_none() {
                    share_order.with_cursor.push(leaf);
                }
                share_order.reposition(leaf);
            }
            (QueueOrder::RoundRobin(_) | QueueOrder::FairShare(_), _) => {
                unreachable!("such a queue orders classes by their user")
            }
        }
    }

    /// Notes that a job of this user started: the user's next one waits for the next round.
    pub(super) fn note_started(&mut self, group: OrderGroup) {
        if let (QueueOrder::RoundRobin(rounds), OrderGroup::User(uid)) = (self, group) {
            if let Some(user) = rounds.users.get_mut(&uid) {
                user.rounds += 1;
            }
            rounds.reposition(uid);
        }
    }

    /// A new pass considers every class again.
    pub(super) fn rewind(&mut self) {
        match self {
            QueueOrder::Fifo(sorted) => sorted.cursor = None,
            QueueOrder::RoundRobin(rounds) => {
                for uid in std::mem::take(&mut rounds.idle) {
                    rounds.rewind_user(uid);
                }
                let moved: Vec<u32> = rounds
                    .ready
                    .iter()
                    .map(|(_, _, uid)| *uid)
                    .filter(|uid| rounds.users[uid].sorted.cursor.is_some())
                    .collect();
                moved.into_iter().for_each(|uid| rounds.rewind_user(uid));
            }
            QueueOrder::FairShare(share_order) => share_order.rewind(),
        }
    }

    /// All entries in submission order, for queues that continue with the shortest jobs.
    pub(super) fn entries(&self) -> Vec<QueueEntry> {
        match self {
            QueueOrder::Fifo(sorted) => sorted.entries.iter().collect(),
            QueueOrder::RoundRobin(rounds) => {
                let users = rounds.users.values();
                users.flat_map(|t| t.sorted.entries.iter()).collect()
            }
            QueueOrder::FairShare(share_order) => {
                let leaves = share_order.leaves.iter();
                leaves.flat_map(|s| s.entries.iter()).collect()
            }
        }
    }
}

impl Rounds {
    fn rewind_user(&mut self, uid: u32) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.sorted.cursor = None;
            self.reposition(uid);
        }
    }
}
