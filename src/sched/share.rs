//! The share tree of one queue: who comes next under `policy: fairshare` and `policy: drf`.
//!
//! Owns the tree (inner nodes are groups, leaves are users), what each node uses, and the order of
//! siblings. Never sees jobs, hosts or the state, never reads a clock: the engine charges leaves
//! and passes the time.
//!
//! Siblings are compared with siblings only, level by level, exactly in integers; ties go by the
//! order of the list, then by who came first. A charge re-orders the nodes of one path. Costs that
//! grow with time are those of the last [`ShareTree::update_costs`].

mod decay;
mod history;
#[cfg(test)]
mod tests;
mod tournament;
mod usage;

pub use history::{ShareRow, UserShareHistory};
pub use usage::{Amounts, Delta, Meter};

use crate::config::{FairFactors, Policy, ShareEntry, ShareSubject, Shares, UserGroup};
use crate::model::Stamp;
use decay::Decay;
use std::collections::{BTreeMap, HashMap};
use tournament::Tournament;
use usage::{CostRule, FairshareFactors, Usage};

/// If groups are nested deeper than this, the deepest ones hold their users directly.
const MAX_DEPTH: usize = 16;
/// Maximum number of nodes created in advance for groups and named users; beyond that, groups hold
/// their users directly.
const MAX_NAMED: usize = 100_000;
const ROOT: u32 = 0;
/// Number of nodes that are updated for each millisecond that passed, about a hundredth of a core's
/// capacity; after the longest interval all are updated in any case.
const SWEEP_NODES_PER_MS: u64 = 100;
const SWEEP_MOST_MS: u64 = 10_000;
/// A total that changed by more than this fraction (1/64) takes effect at once.
const SMALL_PART: u64 = 64;
/// Name of the node of users who have no share.
const WITHOUT_SHARE: &str = "(none)";

/// A user's place in a tree; valid only in the tree that returned it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Leaf(u32);

impl Leaf {
    /// The number of the leaf. It is small: leaves are numbered with the nodes of their tree.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// The share tree of one queue.
#[derive(Clone, Debug)]
pub struct ShareTree {
    rule: CostRule,
    decay: Decay,
    now: Stamp,
    /// The costs belong to another moment, or to other totals.
    stale: bool,
    /// Usage before this moment is in the history that was restored, also that of started jobs.
    since: Stamp,
    /// The step of the decay that all history has reached; `None` before the first sweep.
    step: Option<i64>,
    /// History charged since the last sweep, by leaf, in microseconds: it has not decayed yet, even
    /// if that sweep was long ago.
    undecayed: Vec<(u32, [u64; 3])>,
    nodes: Vec<Node>,
    /// The node of users without shares; created when first needed.
    without_share: Option<u32>,
}

#[derive(Clone, Debug)]
struct Node {
    name: Box<str>,
    parent: u32,
    /// The seat in the parent's tournament.
    seat: u32,
    shares: u32,
    /// Position of its entry in the parent's list, then the order of creation.
    order: u64,
    usage: Usage,
    /// Number of leaves below it, itself included, that have jobs to try.
    active: u32,
    /// `None` = a leaf.
    inner: Option<Box<InnerNode>>,
}

#[derive(Clone, Debug)]
struct InnerNode {
    entries: Vec<ShareEntry>,
    /// By seat.
    children: Vec<u32>,
    tournament: Tournament,
    /// Nodes of entries that name a user or group: by position in `entries`.
    named_nodes: HashMap<u32, u32>,
    /// Leaves created on demand: by position in `entries` and user.
    on_demand: HashMap<(u32, Box<str>), u32>,
}

/// The user whose leaf is searched.
struct LeafOwner<'a> {
    user: &'a str,
    groups: &'a [String],
}

impl LeafOwner<'_> {
    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

impl ShareTree {
    /// Creates the tree of a queue; `None` for policies without shares. `groups` is section
    /// `usergroups`.
    pub fn of_queue(
        policy: &Policy,
        fair: &FairFactors,
        groups: &BTreeMap<String, UserGroup>,
        now: Stamp,
    ) -> Option<ShareTree> {
        let rule = match policy {
            Policy::Fairshare(_) => CostRule::Fairshare(FairshareFactors::new(fair)),
            Policy::Drf(_) => CostRule::Drf { totals: Vec::new() },
            Policy::Fifo | Policy::RoundRobin => return None,
        };
        let below = |group: &str| groups.get(group).and_then(|g| g.fairshare.as_ref());
        let decay = Decay::new(fair.hist_ms);
        let mut tree = ShareTree {
            step: None,
            undecayed: Vec::new(),
            rule,
            decay,
            now,
            stale: true,
            since: Stamp(i64::MIN),
            nodes: vec![Node {
                name: "".into(),
                parent: ROOT,
                seat: 0,
                shares: 1,
                order: 0,
                usage: Usage::default(),
                active: 0,
                inner: Some(Box::new(InnerNode::of(policy.shares()))),
            }],
            without_share: None,
        };
        tree.make_named(ROOT, &below, &mut Vec::new());
        Some(tree)
    }

    /// The place of a user who is a member of `groups` (of the configuration and of the system).
    /// `requested` is the group to be charged (`csub -G`). Returns `None` if the user has no share.
    ///
    /// Among several places, one below `requested` takes precedence; after that, level by level: an
    /// entry that names the user, the first of the user's groups that has a place, `default`,
    /// `others`.
    pub fn leaf(&mut self, user: &str, groups: &[String], requested: Option<&str>) -> Option<Leaf> {
        let owner = LeafOwner { user, groups };
        let found = requested
            .and_then(|group| self.find_leaf(ROOT, &owner, Some(group)))
            .or_else(|| self.find_leaf(ROOT, &owner, None));
        found.map(|(parent, entry)| Leaf(self.leaf_at(parent, entry, user)))
    }

    /// A place after all users with shares, for a user without a share.
    pub fn leaf_without_share(&mut self, user: &str) -> Leaf {
        let parent = match self.without_share {
            Some(node) => node,
            None => {
                let inner = Some(Box::new(InnerNode::of(None)));
                let node = self.push(ROOT, u32::MAX, WITHOUT_SHARE, 0, inner);
                self.without_share = Some(node);
                node
            }
        };
        Leaf(self.leaf_at(parent, 0, user))
    }

    /// Sets whether the leaf has jobs that may be tried.
    pub fn set_active(&mut self, leaf: Leaf, active: bool) {
        if (self.nodes[leaf.0 as usize].active > 0) == active {
            return;
        }
        let mut at = leaf.0;
        loop {
            let node = &mut self.nodes[at as usize];
            node.active = if active {
                node.active + 1
            } else {
                node.active - 1
            };
            if at == ROOT {
                break;
            }
            let (parent, seat, any) = (node.parent, node.seat, node.active > 0);
            self.inner(parent).tournament.set_active(seat, any);
            at = parent;
        }
    }

    /// The active leaf that comes next.
    pub fn best(&self) -> Option<Leaf> {
        let mut at = ROOT;
        while let Some(inner) = &self.nodes[at as usize].inner {
            at = inner.children[inner.tournament.best()? as usize];
        }
        Some(Leaf(at))
    }

    /// Adds to the usage of the leaf and of every node above it.
    pub fn charge(&mut self, leaf: Leaf, delta: &Delta) {
        let mut at = leaf.0;
        let history = delta.history_us();
        if history != [0; 3] {
            self.undecayed.push((at, history));
        }
        loop {
            let node = &mut self.nodes[at as usize];
            node.usage.add(delta);
            if delta.ended_slots > 0 {
                self.rule.derive_run_time(&mut node.usage);
            }
            if at == ROOT {
                break;
            }
            let cost = node.usage.cost(&self.rule, node.shares, self.now);
            let (parent, seat) = (node.parent, node.seat);
            self.inner(parent).tournament.set_cost(seat, cost);
            at = parent;
        }
    }

    /// Total of a resource (0 = slots) for dominant shares, in the unit of [`Delta::held`]. It
    /// takes effect at the next [`ShareTree::refresh`]; a small change takes effect at the next
    /// regular sweep.
    pub fn set_total(&mut self, resource: usize, amount: i64) {
        if let CostRule::Drf { totals } = &mut self.rule {
            if totals.len() <= resource {
                totals.resize(resource + 1, 0);
            }
            let before = std::mem::replace(&mut totals[resource], amount);
            // Smaller changes are noise of measured resources and wait for the next regular sweep.
            self.stale |= before.abs_diff(amount) > before.unsigned_abs() / SMALL_PART;
        }
    }

    /// Updates every cost to `now` if that is worth the time: small trees always, larger ones after
    /// so much time that the work is a small fraction of it.
    pub fn refresh(&mut self, now: Stamp) {
        let nodes = self.nodes.len() as u64;
        let every_ms = (nodes / SWEEP_NODES_PER_MS).min(SWEEP_MOST_MS);
        if self.stale || now != self.now && now.since_ms(self.now) >= every_ms {
            self.update_costs(now);
        }
    }

    /// Updates every cost to `now`: run time advances and history decays even without charges.
    pub fn update_costs(&mut self, now: Stamp) {
        (self.now, self.stale) = (now, false);
        let step = self.decay.step(now);
        let old = self.step.unwrap_or(step);
        if step > old {
            self.decay_history(step - old);
        }
        self.step = Some(step.max(old));
        self.undecayed.clear();
        self.rule
            .derive_usual_run_time(&self.nodes[ROOT as usize].usage);
        for at in 1..self.nodes.len() {
            let node = &mut self.nodes[at];
            self.rule.derive_run_time(&mut node.usage);
            let cost = node.usage.cost(&self.rule, node.shares, now);
            let (parent, seat) = (node.parent, node.seat);
            self.inner(parent).tournament.put_cost(seat, cost);
        }
        for node in &mut self.nodes {
            if let Some(inner) = &mut node.inner {
                inner.tournament.replay();
            }
        }
    }

    /// The moment of the last sweep, to which all costs refer.
    pub fn updated_at(&self) -> Stamp {
        self.now
    }

    /// Usage before this moment is in the history, also that of started jobs: see
    /// [`ShareTree::restore`].
    pub fn since(&self) -> Stamp {
        self.since
    }

    /// Sets the moment before which the history to be restored contains all usage.
    pub fn set_since(&mut self, at: Stamp) {
        self.since = at;
    }

    /// Whether amounts held beside slots affect the order.
    pub fn counts_amounts(&self) -> bool {
        matches!(self.rule, CostRule::Drf { .. })
    }

    /// Prefetches each part of a leaf.
    pub fn prefetch(&self, leaf: Leaf) -> usize {
        let node = &self.nodes[leaf.0 as usize];
        (node.usage.slots ^ i64::from(node.seat) ^ i64::from(node.active)) as usize
    }

    /// Started slots of a leaf.
    pub fn slots(&self, leaf: Leaf) -> i64 {
        self.nodes[leaf.0 as usize].usage.slots
    }

    /// Decays the history of leaves; that of inner nodes is summed up again.
    fn decay_history(&mut self, steps: i64) {
        let (decay, now) = (self.decay, self.now);
        let mut fresh: HashMap<u32, [u64; 3]> = HashMap::new();
        for (leaf, us) in &self.undecayed {
            let sums = fresh.entry(*leaf).or_default();
            for (sum, part) in sums.iter_mut().zip(us) {
                *sum = sum.saturating_add(*part);
            }
        }
        for (at, node) in (0u32..).zip(&mut self.nodes) {
            let usage = &mut node.usage;
            if node.inner.is_none() {
                let fresh = fresh.get(&at).copied().unwrap_or_default();
                usage.decay(&decay, steps, &fresh, now);
            } else {
                (usage.hist_us, usage.ended) = ([0; 3], [0; 3]);
                usage.restart(now);
            }
        }
        // Parents are created before their children.
        for at in (1..self.nodes.len()).rev() {
            let node = &self.nodes[at];
            let (hist, ended, parent) = (node.usage.hist_us, node.usage.ended, node.parent);
            let above = &mut self.nodes[parent as usize].usage;
            above.add_history(&hist);
            above.add_ended(&ended);
        }
    }

    /// Creates the nodes that the lists name: groups, down to their users, and users.
    fn make_named<'c>(
        &mut self,
        at: u32,
        below: &dyn Fn(&str) -> Option<&'c Shares>,
        path: &mut Vec<String>,
    ) {
        let entries = self.inner(at).entries.clone();
        for (position, entry) in (0u32..).zip(&entries) {
            let (name, inner) = match &entry.subject {
                ShareSubject::User(user) => (user.as_str(), None),
                ShareSubject::Group(group) => {
                    let deep = path.len() >= MAX_DEPTH || self.nodes.len() >= MAX_NAMED;
                    let again = path.contains(group);
                    let list = below(group).filter(|_| !deep && !again);
                    (group.as_str(), Some(Box::new(InnerNode::of(list))))
                }
                ShareSubject::Others => ("others", Some(Box::new(InnerNode::of(None)))),
                ShareSubject::GroupEach(_) | ShareSubject::Default => continue,
            };
            let nested = inner.is_some();
            let node = self.push(at, position, name, entry.shares, inner);
            self.inner(at).named_nodes.insert(position, node);
            if nested {
                path.push(name.to_owned());
                self.make_named(node, below, path);
                path.pop();
            }
        }
    }

    /// The node, and the entry of it, that hold the user's leaf; below `requested` if that is
    /// given.
    fn find_leaf(&self, at: u32, owner: &LeafOwner, requested: Option<&str>) -> Option<(u32, u32)> {
        let inner = self.nodes[at as usize].inner.as_deref()?;
        let entries = || (0u32..).zip(&inner.entries);
        let names_him = |entry: &ShareEntry| match &entry.subject {
            ShareSubject::User(user) => user == owner.user,
            _ => false,
        };
        let own = entries().find(|(_, entry)| requested.is_none() && names_him(entry));
        if let Some((position, _)) = own {
            return Some((at, position));
        }
        for (position, entry) in entries() {
            let found = match &entry.subject {
                ShareSubject::Group(group) if owner.is_in(group) => {
                    let rest = requested.filter(|wanted| wanted != group);
                    self.find_leaf(inner.named_nodes[&position], owner, rest)
                }
                ShareSubject::GroupEach(group) if owner.is_in(group) => requested
                    .is_none_or(|a| a == group)
                    .then_some((at, position)),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
        if requested.is_some() {
            return None;
        }
        let (position, entry) = entries().find(|(_, entry)| {
            matches!(entry.subject, ShareSubject::Default | ShareSubject::Others)
        })?;
        match entry.subject {
            ShareSubject::Others => Some((inner.named_nodes[&position], 0)),
            _ => Some((at, position)),
        }
    }

    /// The leaf of `user` under an entry of `parent`; created if needed.
    fn leaf_at(&mut self, parent: u32, entry: u32, user: &str) -> u32 {
        let inner = self.inner(parent);
        if matches!(inner.entries[entry as usize].subject, ShareSubject::User(_)) {
            return inner.named_nodes[&entry];
        }
        let key = (entry, Box::from(user));
        if let Some(node) = inner.on_demand.get(&key) {
            return *node;
        }
        let shares = inner.entries[entry as usize].shares;
        let node = self.push(parent, entry, user, shares, None);
        self.inner(parent).on_demand.insert(key, node);
        node
    }

    fn push(
        &mut self,
        parent: u32,
        entry: u32,
        name: &str,
        shares: u32,
        inner: Option<Box<InnerNode>>,
    ) -> u32 {
        let node = u32::try_from(self.nodes.len()).expect("fewer leaves than users");
        let order = u64::from(entry) << 32 | u64::from(node);
        let mut usage = Usage::default();
        self.rule.derive_run_time(&mut usage);
        let cost = usage.cost(&self.rule, shares, self.now);
        let above = self.inner(parent);
        let seat = above.tournament.add(order);
        above.tournament.set_cost(seat, cost);
        above.children.push(node);
        self.nodes.push(Node {
            name: name.into(),
            parent,
            seat,
            shares,
            order,
            usage,
            active: 0,
            inner,
        });
        node
    }

    fn inner(&mut self, node: u32) -> &mut InnerNode {
        let inner = self.nodes[node as usize].inner.as_deref_mut();
        inner.expect("parents are inner nodes")
    }

    /// The cost of each node in its tournament, for tests of the increments.
    #[cfg(test)]
    fn costs(&self) -> Vec<(tournament::Cost, tournament::Cost)> {
        let both = |node: &Node| {
            let above = self.nodes[node.parent as usize].inner.as_ref();
            let known = above.expect("an inner node").tournament.cost(node.seat);
            (known, node.usage.cost(&self.rule, node.shares, self.now))
        };
        self.nodes[1..].iter().map(both).collect()
    }
}

impl InnerNode {
    /// Without a list, each user has one share.
    fn of(list: Option<&Shares>) -> InnerNode {
        let each = || ShareEntry {
            subject: ShareSubject::Default,
            shares: 1,
        };
        let entries = match list {
            Some(list) if !list.entries.is_empty() => list.entries.clone(),
            _ => vec![each()],
        };
        InnerNode {
            entries,
            children: Vec::new(),
            tournament: Tournament::default(),
            named_nodes: HashMap::new(),
            on_demand: HashMap::new(),
        }
    }
}
