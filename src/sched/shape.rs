//! What all jobs with the same placement request share: the request compiled against the
//! configuration, and the hosts that could serve it in the order of their rank. Owns the ranking
//! and keeps it fresh from the log of changed hosts; never books anything.

use super::amount::Bundle;
use super::balance::{Balance, Balances, Res};
use super::hosts::{HostInfo, HostTable};
use super::{guard, preempt};
use crate::config::require::{Request, asked_hosts};
use crate::config::{Config, HostPrefs, Packing, Queue};
use crate::model::Spec;
use crate::text::resreq::{Direction, HostFacts, Select, builtin};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Names of resources that requests reserve, by number.
#[derive(Clone, Debug, Default)]
pub struct ResNames {
    names: Vec<String>,
    index: HashMap<String, Res>,
}

impl ResNames {
    pub fn find(&self, name: &str) -> Option<Res> {
        self.index.get(name).copied()
    }

    pub fn name(&self, res: Res) -> &str {
        &self.names[usize::from(res)]
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The number of a name, a new one if need be.
    pub(super) fn intern(&mut self, name: &str) -> Res {
        if let Some(res) = self.find(name) {
            return res;
        }
        let res = Res::try_from(self.names.len()).expect("fewer than 65536 resources are declared");
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), res);
        res
    }

    /// What a host has of each, in thousandths.
    pub fn have(&self, host: &HostInfo) -> SmallVec<[i64; 3]> {
        let milli = |name: &String| host.number(name).map_or(0, |n| (n * 1000.0).round() as i64);
        self.names.iter().map(milli).collect()
    }
}

/// One reserved amount, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    pub res: Res,
    pub amount: i64,
    pub per_slot: bool,
}

/// What makes two classes one shape.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ShapeKey {
    queue: String,
    min: u32,
    max: u32,
    res_req: String,
    hosts: String,
    exclusive: bool,
    sub_host: String,
}

impl ShapeKey {
    pub fn of(spec: &Spec) -> ShapeKey {
        ShapeKey {
            queue: spec.queue.clone(),
            min: spec.min,
            max: spec.max,
            res_req: spec.res_req.clone(),
            hosts: spec.hosts.clone(),
            exclusive: spec.exclusive,
            sub_host: spec.sub_host.clone(),
        }
    }
}

impl ShapeKey {
    /// The same request for any number of slots.
    pub fn family(&self) -> ShapeKey {
        ShapeKey {
            min: 0,
            max: 0,
            ..self.clone()
        }
    }
}

/// A compiled placement request.
#[derive(Debug)]
pub struct Shape {
    /// Position of its queue in the configuration; `None`: the queue is gone.
    pub queue: Option<u16>,
    pub request: Request,
    /// `-m` of the job.
    pub asked: Option<HostPrefs>,
    pub sub_host: String,
    pub wants: SmallVec<[Want; 2]>,
    /// Most slots the queue may hold on a host, and per core in thousandths.
    pub host_slots: Option<u32>,
    pub proc_slots_milli: Option<u64>,
    pub packing: Packing,
    /// Queues whose stopped work lends it slots.
    pub lenders: SmallVec<[u16; 2]>,
    /// `stop_cond` of the queue.
    stop: Option<Select>,
    /// Why it can never be placed as it stands.
    pub bad: Option<String>,
    pub rank: Ranking,
}

impl Shape {
    pub fn new(spec: &Spec, config: &Config, names: &mut ResNames) -> Shape {
        let at = config.queues.iter().position(|q| q.name == spec.queue);
        let queue: Option<&Queue> = at.map(|at| &config.queues[at]);
        let request = Request::new(spec, queue.and_then(|q| q.res_req.as_deref()), config);
        let asked = asked_hosts(&spec.hosts, config);
        let bad = match (&request, &asked) {
            (Err(e), _) | (_, Err(e)) => Some(e.clone()),
            _ => None,
        };
        let request = request.unwrap_or_default();
        let wants = request.rusage.iter().filter(|want| want.amount > 0.0);
        let wants = wants
            .map(|want| Want {
                res: names.intern(&want.name),
                amount: (want.amount * 1000.0).round() as i64,
                per_slot: want.per_slot,
            })
            .collect();
        Shape {
            queue: at.map(|at| u16::try_from(at).expect("cb.yaml has fewer than 65536 queues")),
            asked: asked.unwrap_or(None),
            sub_host: spec.sub_host.clone(),
            wants,
            host_slots: queue.and_then(|q| q.host_slots),
            proc_slots_milli: queue.and_then(|q| q.proc_slots_milli),
            packing: queue.map_or(config.general.packing, |q| q.packing),
            lenders: at.map_or_else(SmallVec::new, |at| preempt::lenders(config, at)),
            stop: queue.and_then(|q| guard::condition(q.stop_cond.as_deref(), config)),
            bad,
            rank: Ranking::default(),
            request,
        }
    }

    /// What a start on `slots` slots of one host takes there.
    pub fn bundle(&self, slots: u32) -> Bundle {
        let mut bundle = Bundle::of_slots(i64::from(slots));
        for want in &self.wants {
            let n = if want.per_slot { i64::from(slots) } else { 1 };
            let at = usize::from(want.res);
            bundle.set(at, bundle.get(at) + want.amount * n);
        }
        bundle
    }

    /// What it takes for each slot, and beside that on each host.
    pub fn needs(&self) -> (Bundle, Bundle) {
        let (mut each, mut fixed) = (Bundle::default(), Bundle::default());
        for want in &self.wants {
            let bundle = if want.per_slot { &mut each } else { &mut fixed };
            bundle.set(usize::from(want.res), want.amount);
        }
        (each, fixed)
    }

    /// Slots that its jobs may use on a host: free ones, and those that stopped work lends them.
    pub fn free(&self, books: &Balance) -> i64 {
        match self.lenders[..] {
            [] => books.free(),
            _ => books.free() + books.lent_by(&self.lenders),
        }
    }

    /// No exclusive use is in the way.
    pub fn alone(&self, books: &Balance) -> bool {
        let lent = |(queue, _): &(u16, i64)| self.lenders.contains(queue);
        let empty = || books.jobs == 0 && books.lent.iter().all(lent);
        books.exclusive == 0 && (!self.request.exclusive || empty())
    }

    /// Slots the request could take on a host that has `room` slots to give.
    pub fn capacity(&self, host: &HostInfo, books: &Balance, room: i64) -> u32 {
        if !self.alone(books) {
            return 0;
        }
        let mut room = room.clamp(0, i64::from(u32::MAX)) as u32;
        if self.host_slots.is_some() || self.proc_slots_milli.is_some() {
            room = room.min(self.queue_left(host, books));
        }
        for want in &self.wants {
            let left = books.left(want.res);
            if want.per_slot {
                let fit = (left / want.amount).clamp(0, i64::from(u32::MAX)) as u32;
                room = room.min(fit);
            } else if left < want.amount {
                return 0;
            }
        }
        self.request.ptile.map_or(room, |tile| room.min(tile))
    }

    /// Slots the request could take where so much is free, all else put aside.
    pub fn capacity_in(&self, free: &Bundle) -> u32 {
        let slots = |n: i64| n.clamp(0, i64::from(u32::MAX)) as u32;
        let mut room = slots(free.slots);
        for want in &self.wants {
            let left = free.get(usize::from(want.res));
            if want.per_slot {
                room = room.min(slots(left / want.amount));
            } else if left < want.amount {
                return 0;
            }
        }
        self.request.ptile.map_or(room, |tile| room.min(tile))
    }

    /// Slots that the queue may still hold on a host.
    pub fn queue_left(&self, host: &HostInfo, books: &Balance) -> u32 {
        let used = self.queue.map_or(0, |q| books.queue_used(q));
        let per_core = self.proc_slots_milli.map(|milli| {
            let slots = (milli * u64::from(host.load.ncpus.max(1))).div_ceil(1000);
            u32::try_from(slots).unwrap_or(u32::MAX)
        });
        let limit = self.host_slots.into_iter().chain(per_core).min();
        limit.map_or(u32::MAX, |limit| limit.saturating_sub(used))
    }

    /// A condition that the host does not meet, whatever is free.
    pub fn unfit(&self, view: &View<'_>, at: usize) -> Option<Unfit> {
        let host = view.table.at(at);
        if let Some(queue) = view.queue(self)
            && !queue.hosts.contains(&host.name)
        {
            return Some(Unfit::NotInQueue);
        }
        if let Some(asked) = &self.asked
            && !asked.contains(&host.name)
        {
            return Some(Unfit::NotAsked);
        }
        if let Some(queue) = view.queue(self)
            && (!queue.thresholds.is_empty() || self.stop.is_some())
            && guard::queue_bars(host, queue, self.stop.as_ref())
        {
            return Some(Unfit::Load);
        }
        (!self.selects(&view.facts(self, at))).then_some(Unfit::Select)
    }

    /// Whether the host satisfies `select[]`; without one (or without a word about types in it) it
    /// must be of the submission host's type, when that is known.
    fn selects(&self, facts: &Facts<'_>) -> bool {
        let select = self.request.select.as_ref();
        let named = select.is_some_and(|select| select.mentions_text_or_tag());
        if let (false, Some(local)) = (named, facts.local)
            && local.host_type() != facts.host.host_type()
        {
            return false;
        }
        select.is_none_or(|select| select.accepts(facts))
    }

    pub fn preference(&self, view: &View<'_>, host: &str) -> u32 {
        let preference = match (&self.asked, view.queue(self)) {
            (Some(asked), _) => asked.preference(host),
            (None, Some(queue)) => queue.hosts.preference(host),
            (None, None) => Some(0),
        };
        preference.unwrap_or(0)
    }

    /// The host's values of the `order[]` keys, each so that smaller is better.
    fn keys(&self, facts: &Facts<'_>) -> SmallVec<[i64; 1]> {
        let Some(order) = &self.request.order else {
            return SmallVec::new();
        };
        let key = |key: &crate::text::resreq::OrderKey| {
            let increases = |b: &crate::text::resreq::Builtin| b.direction == Direction::Increase;
            let less_is_better = builtin(&key.name).is_some_and(increases);
            match (facts.number(&key.name), less_is_better != key.reverse) {
                (None, _) => i64::MAX,
                (Some(value), true) => sortable(value),
                (Some(value), false) => -sortable(value),
            }
        };
        order.keys.iter().map(key).collect()
    }

    /// The host's place among those that could take at least one slot of the request now.
    fn candidate(&self, view: &View<'_>, at: usize) -> Option<Candidate> {
        let books = view.books.get(at);
        let free = self.free(books);
        if !books.open || free <= 0 {
            return None;
        }
        let host = view.table.at(at);
        if self.capacity(host, books, free) == 0 || self.unfit(view, at).is_some() {
            return None;
        }
        let free = i32::try_from(free).unwrap_or(i32::MAX);
        Some(Candidate {
            preference: self.preference(view, &host.name),
            keys: Reverse(self.keys(&view.facts(self, at))),
            fullness: match self.packing {
                Packing::Pack => -free,
                Packing::Spread => free,
            },
            at: Reverse(at as u32),
            version: books.version,
        })
    }

    /// Brings the ranking up to date. True when some host may serve now that did not before.
    pub fn refresh(&mut self, view: &View<'_>) -> bool {
        let mut rank = std::mem::take(&mut self.rank);
        let news = rank.refresh(self, view);
        self.rank = rank;
        news
    }
}

/// A number as an integer in the same order, in millionths.
fn sortable(value: f64) -> i64 {
    (value * 1e6).clamp(-9e18, 9e18) as i64
}

/// A condition of the request or queue that a host does not meet, whatever is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    NotInQueue,
    NotAsked,
    /// Thresholds of the queue.
    Load,
    Select,
}

/// What shapes look at.
pub struct View<'a> {
    pub config: &'a Config,
    pub table: &'a HostTable,
    pub books: &'a Balances,
    pub names: &'a ResNames,
}

impl<'a> View<'a> {
    pub fn queue(&self, shape: &Shape) -> Option<&'a Queue> {
        shape.queue.map(|at| &self.config.queues[usize::from(at)])
    }

    pub fn facts(&self, shape: &Shape, at: usize) -> Facts<'a> {
        Facts {
            host: self.table.at(at),
            books: self.books.get(at),
            names: self.names,
            local: self.table.named(&shape.sub_host),
        }
    }
}

/// A host as an expression sees it: measured values less what is reserved.
pub struct Facts<'a> {
    pub host: &'a HostInfo,
    books: &'a Balance,
    names: &'a ResNames,
    /// The submission host, when it belongs to the cluster.
    local: Option<&'a HostInfo>,
}

impl HostFacts for Facts<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        if name == "slots" {
            return Some(self.books.free().max(0) as f64);
        }
        let value = self.host.number(name)?;
        let taken = self.names.find(name).map_or(0, |res| {
            self.books.taken.get(usize::from(res)).copied().unwrap_or(0)
        });
        let taken = taken as f64 / 1000.0;
        let more_is_less =
            builtin(name).is_some_and(|b| matches!(b.direction, Direction::Increase));
        Some(if more_is_less {
            value + taken
        } else {
            value - taken
        })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.host.text(name)
    }

    fn tag(&self, name: &str) -> bool {
        self.host.tag(name)
    }

    fn local(&self, name: &str) -> Option<&str> {
        self.local?.text(name)
    }
}

/// A host that could serve; the greatest is tried first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Candidate {
    preference: u32,
    keys: Reverse<SmallVec<[i64; 1]>>,
    fullness: i32,
    /// The last tie-break: the order of cb.yaml.
    at: Reverse<u32>,
    version: u32,
}

impl Candidate {
    pub fn host(&self) -> usize {
        self.at.0 as usize
    }
}

/// Hosts that could serve a shape, best first. Entries of hosts that changed since are stale and
/// passed over; the log of changes brings fresh ones.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    heap: BinaryHeap<Candidate>,
    /// Position in the log of changed hosts up to which the ranking is fresh.
    seen: Option<u64>,
    /// Position in the log at which the request was last found not to fit, and the slots found.
    pub failed: Option<(u64, u32)>,
}

impl Ranking {
    fn refresh(&mut self, shape: &Shape, view: &View<'_>) -> bool {
        let end = view.books.now();
        let changed = self.seen.and_then(|seen| view.books.changed(seen));
        let small = self.heap.len() <= 4 * view.books.len() + 64;
        let news = match changed {
            Some(changed) if small && changed.len() <= view.books.len() => {
                let before = self.heap.len();
                for at in changed {
                    self.heap.extend(shape.candidate(view, *at as usize));
                }
                self.heap.len() > before
            }
            _ => {
                let all = 0..view.books.len();
                self.heap = all.filter_map(|at| shape.candidate(view, at)).collect();
                !self.heap.is_empty()
            }
        };
        self.seen = Some(end);
        news
    }

    /// The best host, taken out. Stale and repeated entries are dropped.
    pub fn pop(&mut self, books: &Balances) -> Option<Candidate> {
        while let Some(best) = self.heap.pop() {
            if books.get(best.host()).version == best.version {
                // A host that changed twice between two looks has two fresh entries.
                while self.heap.peek() == Some(&best) {
                    self.heap.pop();
                }
                return Some(best);
            }
        }
        None
    }

    pub fn put_back(&mut self, candidates: impl IntoIterator<Item = Candidate>) {
        self.heap.extend(candidates);
    }

    pub fn clear(&mut self) {
        *self = Ranking::default();
    }
}
