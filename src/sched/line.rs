//! The order in which a queue's classes get their turn: first come first served, in turn by user,
//! or by a share tree. Owns the order only; whether a class can start is the pass's business.

use super::share::{Leaf, ShareTree};
use crate::model::JobKey;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// A class with its next job; the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Negated user priority, with age when the site counts it.
    pub rank: i64,
    /// Submission order, as `ctop` and `cbot` left it.
    pub order: i64,
    pub j: JobKey,
    pub class: u32,
}

/// Where a class stands in its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// First come, first served.
    Open,
    User(u32),
    Leaf(Leaf),
}

/// A queue's order.
#[derive(Debug)]
pub enum Line {
    Fifo(Sorted),
    /// One job of each user per round, users in the order of their first job.
    InTurn(Rounds),
    Shared(Box<Shared>),
}

/// Turns in order; most users have few classes.
#[derive(Debug)]
enum Turns {
    Few(SmallVec<[Turn; 1]>),
    Many(BTreeSet<Turn>),
}

/// Turns kept in a list.
const FEW: usize = 8;

impl Default for Turns {
    fn default() -> Turns {
        Turns::Few(SmallVec::new())
    }
}

impl Turns {
    fn is_empty(&self) -> bool {
        match self {
            Turns::Few(few) => few.is_empty(),
            Turns::Many(many) => many.is_empty(),
        }
    }

    fn first(&self) -> Option<Turn> {
        match self {
            Turns::Few(few) => few.first().copied(),
            Turns::Many(many) => many.first().copied(),
        }
    }

    fn behind(&self, last: Turn) -> Option<Turn> {
        match self {
            Turns::Few(few) => few.iter().find(|turn| **turn > last).copied(),
            Turns::Many(many) => many.range((Excluded(last), Unbounded)).next().copied(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = Turn> {
        let (few, many) = match self {
            Turns::Few(few) => (Some(few), None),
            Turns::Many(many) => (None, Some(many)),
        };
        let all = few.into_iter().flatten();
        all.chain(many.into_iter().flatten()).copied()
    }

    fn insert(&mut self, turn: Turn) {
        match self {
            Turns::Few(few) if few.len() < FEW => {
                if let Err(at) = few.binary_search(&turn) {
                    few.insert(at, turn);
                }
            }
            Turns::Few(few) => {
                let all = few.iter().copied().chain([turn]).collect();
                *self = Turns::Many(all);
            }
            Turns::Many(many) => {
                many.insert(turn);
            }
        }
    }

    fn remove(&mut self, turn: Turn) {
        match self {
            Turns::Few(few) => few.retain(|other| *other != turn),
            Turns::Many(many) => {
                many.remove(&turn);
                if many.is_empty() {
                    *self = Turns::default();
                }
            }
        }
    }
}

/// Classes in submission order, with a cursor for one pass.
#[derive(Debug, Default)]
pub struct Sorted {
    turns: Turns,
    /// The last turn that was looked at in this pass.
    cursor: Option<Turn>,
}

impl Sorted {
    fn peek(&self) -> Option<Turn> {
        match self.cursor {
            None => self.turns.first(),
            Some(last) => self.turns.behind(last),
        }
    }

    fn replace(&mut self, old: Option<Turn>, new: Option<Turn>) {
        if let Some(old) = old {
            self.turns.remove(old);
        }
        if let Some(new) = new {
            self.turns.insert(new);
        }
    }
}

/// Users in turn.
#[derive(Debug, Default)]
pub struct Rounds {
    users: BTreeMap<u32, Taker>,
    /// (round, first job, user) of users with classes left in this pass.
    ready: BTreeSet<(u64, Turn, u32)>,
    /// Users that have nothing to try for the rest of this pass.
    parked: Vec<u32>,
}

#[derive(Debug, Default)]
struct Taker {
    sorted: Sorted,
    /// Rounds this user has had.
    round: u64,
    /// As it stands in `ready`.
    key: Option<(u64, Turn, u32)>,
}

impl Rounds {
    /// Puts a user where his round and his next job belong; nowhere without one.
    fn rank(&mut self, uid: u32) {
        let Some(taker) = self.users.get_mut(&uid) else {
            return;
        };
        let key = taker.sorted.peek().map(|turn| (taker.round, turn, uid));
        if taker.key == key {
            return;
        }
        if let Some(old) = std::mem::replace(&mut taker.key, key) {
            self.ready.remove(&old);
        }
        match key {
            Some(key) => {
                self.ready.insert(key);
            }
            None => self.parked.push(uid),
        }
    }

    fn replace(&mut self, uid: u32, old: Option<Turn>, new: Option<Turn>) {
        // Who comes back after a pause joins the present round.
        let now = self.ready.first().map_or(0, |(round, ..)| *round);
        let taker = self.users.entry(uid).or_default();
        if taker.sorted.turns.is_empty() {
            taker.round = taker.round.max(now);
        }
        taker.sorted.replace(old, new);
        self.rank(uid);
        if self
            .users
            .get(&uid)
            .is_some_and(|t| t.sorted.turns.is_empty() && t.round <= now)
        {
            self.users.remove(&uid);
        }
    }
}

/// A share tree with the classes of its leaves.
#[derive(Debug)]
pub struct Shared {
    pub tree: ShareTree,
    /// By number of the leaf in its tree.
    leaves: Vec<Sorted>,
    /// Leaves that have nothing to try for the rest of this pass.
    parked: Vec<Leaf>,
    /// Leaves with a cursor.
    passed: Vec<Leaf>,
}

impl Shared {
    fn rank(&mut self, leaf: Leaf) {
        let active = self.leaves[leaf.number()].peek().is_some();
        self.tree.set_active(leaf, active);
        if !active {
            self.parked.push(leaf);
        }
    }

    fn rewind(&mut self) {
        for leaf in self.passed.drain(..) {
            self.leaves[leaf.number()].cursor = None;
        }
        for leaf in std::mem::take(&mut self.parked) {
            let active = !self.leaves[leaf.number()].turns.is_empty();
            self.tree.set_active(leaf, active);
        }
    }
}

impl Line {
    pub fn fifo() -> Line {
        Line::Fifo(Sorted::default())
    }

    pub fn in_turn() -> Line {
        Line::InTurn(Rounds::default())
    }

    pub fn shared(tree: ShareTree) -> Line {
        Line::Shared(Box::new(Shared {
            tree,
            leaves: Vec::new(),
            parked: Vec::new(),
            passed: Vec::new(),
        }))
    }

    pub fn tree(&self) -> Option<&ShareTree> {
        match self {
            Line::Shared(shared) => Some(&shared.tree),
            _ => None,
        }
    }

    pub fn tree_mut(&mut self) -> Option<&mut ShareTree> {
        match self {
            Line::Shared(shared) => Some(&mut shared.tree),
            _ => None,
        }
    }

    /// A class's next job changed: it had turn `old`, it has turn `new`.
    pub fn replace(&mut self, place: Place, old: Option<Turn>, new: Option<Turn>) {
        if old == new {
            return;
        }
        match (self, place) {
            (Line::Fifo(sorted), _) => sorted.replace(old, new),
            (Line::InTurn(rounds), Place::User(uid)) => rounds.replace(uid, old, new),
            (Line::Shared(shared), Place::Leaf(leaf)) => {
                if shared.leaves.len() <= leaf.number() {
                    let more = leaf.number() + 1;
                    shared.leaves.resize_with(more, Sorted::default);
                }
                shared.leaves[leaf.number()].replace(old, new);
                shared.rank(leaf);
            }
            (Line::InTurn(_) | Line::Shared(_), _) => {
                unreachable!("classes of such a line stand with their user")
            }
        }
    }

    /// The next class of this pass.
    pub fn peek(&mut self) -> Option<Turn> {
        match self {
            Line::Fifo(sorted) => sorted.peek(),
            Line::InTurn(rounds) => rounds.ready.first().map(|(_, turn, _)| *turn),
            Line::Shared(shared) => {
                let best = shared.tree.best()?;
                shared.leaves.get(best.number())?.peek()
            }
        }
    }

    /// The class that [`Line::peek`] gave cannot start in this pass: on to the next.
    pub fn pass_over(&mut self, place: Place, turn: Turn) {
        match (self, place) {
            (Line::Fifo(sorted), _) => sorted.cursor = Some(turn),
            (Line::InTurn(rounds), Place::User(uid)) => {
                if let Some(taker) = rounds.users.get_mut(&uid) {
                    taker.sorted.cursor = Some(turn);
                }
                rounds.rank(uid);
            }
            (Line::Shared(shared), Place::Leaf(leaf)) => {
                let cursor = &mut shared.leaves[leaf.number()].cursor;
                if cursor.replace(turn).is_none() {
                    shared.passed.push(leaf);
                }
                shared.rank(leaf);
            }
            (Line::InTurn(_) | Line::Shared(_), _) => {
                unreachable!("classes of such a line stand with their user")
            }
        }
    }

    /// A job of this user started: his next one waits for the next round.
    pub fn served(&mut self, place: Place) {
        if let (Line::InTurn(rounds), Place::User(uid)) = (self, place) {
            if let Some(taker) = rounds.users.get_mut(&uid) {
                taker.round += 1;
            }
            rounds.rank(uid);
        }
    }

    /// A new pass looks at every class again.
    pub fn rewind(&mut self) {
        match self {
            Line::Fifo(sorted) => sorted.cursor = None,
            Line::InTurn(rounds) => {
                for uid in std::mem::take(&mut rounds.parked) {
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
            Line::Shared(shared) => shared.rewind(),
        }
    }

    /// All turns in submission order, for lines that serve the shortest first behind their head.
    pub fn turns(&self) -> Vec<Turn> {
        match self {
            Line::Fifo(sorted) => sorted.turns.iter().collect(),
            Line::InTurn(rounds) => {
                let users = rounds.users.values();
                users.flat_map(|t| t.sorted.turns.iter()).collect()
            }
            Line::Shared(shared) => {
                let leaves = shared.leaves.iter();
                leaves.flat_map(|s| s.turns.iter()).collect()
            }
        }
    }
}

impl Rounds {
    fn rewind_user(&mut self, uid: u32) {
        if let Some(taker) = self.users.get_mut(&uid) {
            taker.sorted.cursor = None;
            self.rank(uid);
        }
    }
}
