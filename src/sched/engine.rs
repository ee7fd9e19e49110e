//! The scheduler's own picture of the cluster: books of hosts, classes in line, what started work
//! holds. Everything here follows from the state, the configuration and the host table, and could
//! be made anew at any time; [`Engine::sync`] keeps it up to date by what changed. Deciding is
//! `pass.rs`'s business.

use super::amount::Bundle;
use super::backfill::{Habit, Reserver};
use super::balance::Balances;
use super::frag::Demand;
use super::guard::Watch;
use super::held::{Charge, Counts, Held, Holds, Sign, gpu_ms};
use super::hosts::HostTable;
use super::kinds::{Kind, ShapeSlot};
use super::line::{Line, Place, Turn};
use super::pace::Pace;
use super::preempt::Raids;
use super::quota::{Blocked, Ident, Quotas};
use super::resource_names::ResourceNames;
use super::run_length::{Length, end_at, estimate_of};
use super::shape::ShapeKey;
use super::share::{Meter, Past, ShareTree};
use super::window::Hours;
use crate::config::{Config, Policy, UserLimits};
use crate::model::{JobKey, Stamp};
use crate::state::{Class, HostId, Run, State, TOGETHER};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// Jobs of a class that are kept at hand.
pub(super) const AHEAD: usize = 6;

/// A class of pending jobs that are equal for scheduling.
#[derive(Debug)]
pub(super) struct Bucket {
    pub shape: u32,
    /// Position of the queue in the configuration.
    pub queue: Option<u16>,
    pub place: Place,
    pub uid: u32,
    pub user: String,
    /// `-sp`.
    pub priority: u32,
    /// Slots it needs at least.
    pub min: u32,
    pub begin: Option<Stamp>,
    /// `-t`.
    pub deadline: Option<Stamp>,
    /// Run limit or estimate in milliseconds, as it is stated; a hundred years without.
    pub estimate: i64,
    pub length: Length,
    /// Limit of the user over all queues.
    pub user_max: Option<u32>,
    /// Limit of the user on each host for each of its cores, in thousandths.
    pub user_per_core: Option<u64>,
    /// The counters of section `limits` that its jobs count in.
    pub ident: Arc<Ident>,
    /// One of the specifications of the class.
    pub spec: u32,
    /// Its first jobs; all of them when there is room for more.
    pub ahead: SmallVec<[(i64, JobKey); AHEAD]>,
    /// Some of its jobs are arrays.
    pub arrays: bool,
    /// As it stands in its line.
    pub turn: Option<Turn>,
    /// That is not its first job: it went on within a pass.
    pub moved: bool,
    /// Elements of the array at `turn` below this index have had their turn in this pass.
    pub from: u32,
}

/// Slots in use that limits count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InUse {
    pub queue: Vec<u32>,
    pub user: FxHashMap<u32, u32>,
    pub queue_user: FxHashMap<(u16, u32), u32>,
}

impl InUse {
    /// Preempted work does not count: others have its slots.
    fn add(&mut self, held: &Held, plus: bool) {
        if held.lent {
            return;
        }
        if let Some(queue) = held.queue {
            let n = &mut self.queue[usize::from(queue)];
            *n = match plus {
                true => *n + held.slots,
                false => *n - held.slots,
            };
            count(&mut self.queue_user, (queue, held.uid), held.slots, plus);
        }
        count(&mut self.user, held.uid, held.slots, plus);
    }
}

/// Adds slots to a counter or takes them off it; one that falls to nought is dropped.
fn count<K: Eq + Hash>(all: &mut FxHashMap<K, u32>, key: K, slots: u32, plus: bool) {
    match all.entry(key) {
        Entry::Occupied(mut n) if plus => *n.get_mut() += slots,
        Entry::Occupied(mut n) => {
            *n.get_mut() -= slots;
            if *n.get() == 0 {
                n.remove();
            }
        }
        Entry::Vacant(none) if plus => drop(none.insert(slots)),
        Entry::Vacant(_) => assert_eq!(slots, 0, "slots are given back that were never taken"),
    }
}

/// See the file's head.
#[derive(Default)]
pub struct Engine {
    pub(super) config: Option<Arc<Config>>,
    /// Types of hosts seen so far, with their numbers.
    types: HashMap<String, u32>,
    /// Groups of users in the operating system, as last looked up.
    pub(super) groups: HashMap<String, Vec<String>>,
    pub(super) names: ResourceNames,
    pub(super) books: Balances,
    pub(super) shapes: Vec<Option<ShapeSlot>>,
    pub(super) shape_ids: HashMap<ShapeKey, u32>,
    /// What follows from a specification, by its number.
    pub(super) kinds: FxHashMap<u32, Kind>,
    pub(super) free_shapes: Vec<u32>,
    pub(super) buckets: FxHashMap<u32, Box<Bucket>>,
    pub(super) lines: Vec<Line>,
    /// How many classes of a line have a shape, by whom limits on hosts concern alike.
    pub(super) alike: Vec<FxHashMap<(u32, u32), u32>>,
    /// Queues by priority, highest first; those of equal priority together.
    pub(super) tiers: Vec<Vec<u16>>,
    pub(super) held: Holds,
    /// What the last pass decided to start: specification of the class, slots.
    pub(super) planned: Vec<(JobKey, u32, u32)>,
    /// Nobody looks for records of work before the present walk is over.
    pub(super) finds_later: bool,
    pub(super) reserver: Option<Reserver>,
    /// CPU factors of the slowest and of the fastest host.
    pub(super) speeds: (f64, f64),
    /// How the queues reserve.
    pub(super) habits: Vec<Habit>,
    /// Changes when hosts open, close, come or change what they are.
    pub(super) host_epoch: u64,
    /// Of the last pass.
    pub(super) now: Stamp,
    /// How long the job whose turn it is has waited.
    pub(super) waited_ms: u64,
    /// What is usual here, for queues that look at it.
    pub(super) demand: Demand,
    /// When what work holds changes next; entries of work that is gone are passed over.
    pub(super) fading: BTreeSet<(Stamp, JobKey)>,
    pub(super) families: HashMap<ShapeKey, u32>,
    pub(super) in_use: InUse,
    pub(super) quotas: Quotas,
    /// The limit on a host that last stood in a job's way.
    pub(super) over_limit: Option<Blocked>,
    /// Buckets whose turn is not their first job: set right before the next pass.
    pub(super) moved: Vec<u32>,
    /// Classes that came or changed since the last pass.
    pub(super) fresh: Vec<u32>,
    /// Queues that have nothing more to try in this pass; queues that are active.
    pub(super) done: Vec<bool>,
    pub(super) active: Vec<bool>,
    /// Slots and lengths that found no place, by family; nothing that asks for more can.
    pub(super) frontier: FxHashMap<u32, SmallVec<[(u32, i64); 4]>>,
    pub(super) frontier_at: u64,
    /// In this pass every class is looked at, so that reasons are fresh; when that was last so.
    pub(super) thorough: bool,
    pub(super) looked: Stamp,
    /// Nobody reads reasons.
    pub(super) quiet: bool,
    pub(super) hours: Hours,
    pub(super) watch: Watch,
    pub(super) raids: Raids,
    pub(super) pace: Pace,
    /// Everything must be made anew.
    stale: bool,
    /// Groups of the configuration and of the system by user, for share trees.
    pub(super) memberships: HashMap<String, Arc<[String]>>,
    /// Started elements of arrays decided in this pass.
    pub(super) array_started: HashMap<u32, u32>,
    /// History of the share trees that another configuration replaced, by queue.
    pub(super) pasts: Option<BTreeMap<String, Vec<Past>>>,
}

impl Engine {
    /// An empty engine; the first [`Engine::sync`] fills it.
    pub fn new(config: Arc<Config>) -> Engine {
        Engine {
            config: Some(config),
            stale: true,
            ..Engine::default()
        }
    }

    /// Reasons of waiting jobs are not worked out: nobody reads them.
    pub fn quiet(mut self) -> Engine {
        self.quiet = true;
        self
    }

    /// Another configuration is in force.
    pub fn configure(&mut self, config: Arc<Config>) {
        self.keep_history();
        self.config = Some(config);
        self.stale = true;
    }

    /// The wall clock was set forward or back by `by_ms`: what this engine timed moves with it.
    pub fn clock_stepped(&mut self, by_ms: i64) {
        self.raids.shift(by_ms);
        self.looked = Stamp(0);
        self.stale = true;
    }

    /// Tells the groups of a user; what hangs on them is worked out anew when they changed.
    pub fn note_groups(&mut self, user: &str, groups: &[String]) {
        if self.groups.get(user).is_none_or(|known| known != groups) {
            self.groups.insert(user.to_owned(), groups.to_vec());
            self.stale |= self.memberships.contains_key(user);
        }
    }

    /// Brings the picture up to date.
    pub fn sync(&mut self, state: &mut State, table: &mut HostTable) {
        let changed = state.take_changed();
        let hosts = table.take_changed();
        let (Some((classes, works)), Some(hosts), false) = (changed, hosts, self.stale) else {
            self.rebuild(state, table);
            return;
        };
        for at in hosts {
            self.set_host(table, at);
        }
        self.planned.sort_unstable_by_key(|(j, ..)| j.number());
        let mut next = 0;
        for some in works.chunks(TOGETHER) {
            state.bring_works_near(some);
            let news = some.iter().copied();
            let news = news.filter(|j| !self.as_planned(state, *j, &mut next));
            let news: SmallVec<[JobKey; TOGETHER]> = news.collect();
            self.bring_near(state, &news);
            for j in news {
                self.set_held(state, table, j);
            }
        }
        self.planned.clear();
        for class in classes {
            self.set_class(state, table, class);
        }
        self.books.trim();
        self.sweep_kinds(state);
        self.sweep_shapes();
    }

    /// The work is one of the last pass's starts, carried out, and nothing more happened to it: its
    /// record is right. Asked for one behind the other; `next` tells how far that got.
    fn as_planned(&self, state: &State, j: JobKey, next: &mut usize) -> bool {
        while self.planned.get(*next).is_some_and(|(of, ..)| *of < j) {
            *next += 1;
        }
        let planned = self.planned.get(*next).filter(|(of, ..)| *of == j);
        planned.is_some_and(|(_, spec, slots)| {
            let foreseen = Sign::to_be(*spec, self.now, *slots);
            Sign::of(state, j).is_some_and(|sign| foreseen.foresaw(&sign))
        })
    }

    /// What the next pieces of work need is far away in memory: better waited for together.
    fn bring_near(&self, state: &State, works: &[JobKey]) {
        let ended = |j: &JobKey| state.work(*j).is_none_or(|work| !work.stat.is_started());
        self.held.bring_near(works, &ended, &mut |held| {
            let mut sum = 0;
            if let Some((at, _)) = held.parts.first() {
                let host = self.books.get(*at as usize);
                sum ^= host.version as usize ^ host.have.len() ^ host.taken.len();
                sum ^= self.quotas.skim(&held.ident, *at);
            }
            let tree = held.queue.map(|at| self.lines[usize::from(at)].tree());
            if let (Some(Some(tree)), Some(charge)) = (tree, &held.charge) {
                sum ^= tree.skim(charge.leaf);
            }
            sum
        });
    }

    fn rebuild(&mut self, state: &State, table: &HostTable) {
        let config = self.config.clone().expect("an engine has a configuration");
        let groups = std::mem::take(&mut self.groups);
        let books = std::mem::take(&mut self.books);
        let zone = self.hours.zone.clone();
        self.keep_history();
        let pasts = self.pasts.take();
        *self = Engine {
            hours: Hours::renewed(zone, &config, table),
            watch: std::mem::take(&mut self.watch).renewed(&config),
            raids: std::mem::take(&mut self.raids).renewed(),
            pace: Pace::renewed(&config, table.len()),
            reserver: Reserver::of(&config),
            habits: config.queues.iter().map(Habit::of).collect(),
            host_epoch: self.host_epoch + 1,
            now: self.now,
            quiet: self.quiet,
            config: Some(config.clone()),
            groups,
            books,
            ..Engine::default()
        };
        self.in_use.queue = vec![0; config.queues.len()];
        self.lines = lines_of(&config);
        self.alike = vec![FxHashMap::default(); self.lines.len()];
        let mut by_priority: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for (at, queue) in (0u16..).zip(&config.queues) {
            by_priority.entry(queue.priority).or_default().push(at);
        }
        self.tiers = by_priority.into_values().rev().collect();
        let names = &mut self.names;
        let mut number = |name: &str| names.intern(name, &config);
        self.quotas = Quotas::new(&config.limits, &config.user_groups, &mut number);
        self.books.reset(table.len(), looks_at_holders(&config));
        self.note_speeds(table);
        for (at, host) in table.iter().enumerate() {
            self.quotas.host(at as u32, &host.name);
            self.set_host(table, at);
        }
        for j in state.all_started() {
            self.set_held(state, table, j);
        }
        let classes: Vec<u32> = state.pending().classes().map(|(id, _)| id).collect();
        for class in classes {
            self.set_class(state, table, class);
        }
        self.take_up_history(pasts, state, table);
    }

    /// Takes over what the table says of a host.
    pub(super) fn set_host(&mut self, table: &HostTable, at: usize) {
        let host = table.at(at);
        let have = self.names.have(host);
        let kind = kind_number(&mut self.types, host.host_type());
        self.books.renew(at, kind);
        let young = self.pace.young(at, self.now);
        self.books.set_young(at, young);
        if young > 0 {
            self.pace.stale.push(at as u32);
        }
        let barred = self.watch.look(host, at, young) || self.hours.shuts(at);
        let open = host.obstacle().is_none() && !barred;
        if self.books.get(at).open != open {
            self.host_epoch += 1;
        }
        if !self.books.set(at, host.slots, open, &have) {
            self.books.stir(at);
        }
        if let Some(reserver) = &mut self.reserver {
            reserver.set_host(at, &self.books);
        }
    }

    /// Takes over what a piece of started work holds; nothing if it does not run (any more).
    fn set_held(&mut self, state: &State, table: &HostTable, j: JobKey) {
        match (self.held.get_mut(&j), Sign::of(state, j)) {
            (None, None) => {}
            (Some(held), Some(sign)) if held.sign == sign => {}
            (Some(held), Some(sign)) if held.sign.foresaw(&sign) => held.sign = sign,
            _ => self.renew_held(state, table, j),
        }
    }

    /// The same, however little seems to have changed.
    pub(super) fn renew_held(&mut self, state: &State, table: &HostTable, j: JobKey) {
        let new = self.held_of(state, table, j);
        match (self.held.get(&j), &new) {
            (Some(old), Some(new)) if old == new => {
                // The reference that working it out took.
                self.drop_shape(new.shape);
                return;
            }
            (None, None) => return,
            (Some(old), Some(new)) if old.same_room(new) => {
                self.drop_shape(new.shape);
                self.recharge(j, new.clone());
                return;
            }
            _ => {}
        }
        if let Some(old) = self.held.remove(&j) {
            self.drop_shape(old.shape);
            let past = match new {
                None => past_of(state, j, &old),
                Some(_) => [0; 3],
            };
            self.unbook(j, &old, past);
        }
        if let Some(new) = new {
            self.put_held(j, new);
        }
    }

    /// Only what work adds to its user's use has changed: reservations need not be looked at.
    fn recharge(&mut self, j: JobKey, new: Held) {
        let old = self.held.insert(j, new).expect("it ran before");
        let new = &self.held[&j];
        let tree = old
            .queue
            .and_then(|q| self.lines[usize::from(q)].tree_mut());
        let Some(tree) = tree else {
            return;
        };
        if let Some(charge) = &old.charge {
            tree.charge(charge.leaf, &charge.delta().undone());
        }
        if let Some(charge) = &new.charge {
            tree.charge(charge.leaf, &charge.delta());
        }
    }

    /// Work holds nothing any more; its reference to its shape goes to the caller.
    pub(super) fn take_held(&mut self, j: JobKey) -> Option<Held> {
        let held = self.held.remove(&j)?;
        self.unbook(j, &held, [0; 3]);
        Some(held)
    }

    /// `past`: what stays in its user's history for a while, by [`Meter`].
    fn unbook(&mut self, j: JobKey, held: &Held, past: [u64; 3]) {
        self.book(j, held, false, past);
        self.watch.note(j, held, false);
    }

    /// Work holds this from now on.
    pub(super) fn put_held(&mut self, j: JobKey, held: Held) {
        self.book(j, &held, true, [0; 3]);
        self.watch.note(j, &held, true);
        match self.finds_later {
            true => self.held.insert_later(j, held),
            false => drop(self.held.insert(j, held)),
        }
    }

    /// Books what work takes or gives back, everywhere it counts.
    fn book(&mut self, j: JobKey, held: &Held, plus: bool, past: [u64; 3]) {
        let who = held.holder();
        if let Some(reserver) = &mut self.reserver {
            match plus {
                true => reserver.claim(j, held, self.now, &self.books),
                false => reserver.release(j, self.now),
            }
        }
        for (at, bundle) in &held.parts {
            self.books.book(*at as usize, bundle, who, plus);
        }
        self.in_use.add(held, plus);
        if !held.ident.is_free() {
            let at = self.books.now();
            match plus {
                true => self.quotas.take(&held.ident, held.counted(), !held.lent),
                false => self
                    .quotas
                    .give(&held.ident, held.counted(), !held.lent, at),
            }
        }
        if let (Some(charge), Some(queue)) = (&held.charge, held.queue)
            && let Some(tree) = self.lines[usize::from(queue)].tree_mut()
        {
            let mut delta = match plus {
                true => charge.delta(),
                false => charge.delta().undone(),
            };
            delta.hist_ms = past;
            tree.charge(charge.leaf, &delta);
        }
    }

    fn held_of(&mut self, state: &State, table: &HostTable, j: JobKey) -> Option<Held> {
        let job = state.job(j.id)?;
        let work = job.work(j.idx).filter(|work| work.stat.is_started())?;
        let run = work.run.as_deref()?;
        let spec = state.spec(job.spec);
        let Kind { shape, ident, leaf } = self.kind_of(state, table, job.spec);
        let slot = self.shapes[shape as usize].as_mut().expect("just found");
        slot.refs += 1;
        let slot = self.shapes[shape as usize].as_ref().expect("just found");
        let share = |(id, n): &(HostId, u32)| (table.position(*id).map(|at| at as u32), *n);
        let shares: SmallVec<[_; 1]> = run.hosts.iter().map(share).collect();
        let way = slot.shape.way(run.alt);
        let elapsed_ms = self.now.since_ms(run.dispatch);
        let mut parts = way.bundles(&shares, elapsed_ms);
        if let Some(next) = way.next_change(elapsed_ms) {
            self.fading.insert((run.dispatch.plus_ms(next), j));
        }
        for (at, _) in &parts {
            self.pace.note(*at as usize, run.dispatch);
        }
        let first = shares.first().and_then(|(at, _)| *at);
        let mut count = None;
        if let Some(n) = parts.iter().position(|(at, _)| Some(*at) == first)
            && let Some(less) = self.less_measured(&parts[n].1, run)
        {
            count = (!ident.is_free()).then(|| Box::new(parts.clone()));
            parts[n].1 = less;
        }
        let (queue, exclusive) = (slot.shape.queue, slot.shape.is_exclusive(run.alt));
        let mut held = Held {
            sign: Sign::of(state, j)?,
            shape,
            queue,
            uid: spec.uid,
            slots: run.slots(),
            charge: leaf.map(|leaf| {
                let counts = self.counts(queue);
                // GPUs count for the whole run, however long they are reserved.
                let all = counts.gpu.map(|_| way.bundles(&shares, 0));
                Charge::of(leaf, run, all.as_ref().unwrap_or(&parts), counts)
            }),
            until: end_at(
                // Not the start, which is told later: reservations would be looked at twice.
                run.dispatch.plus_ms(run.suspended_ms),
                Length::of(spec, self.config()).at(table, first),
            ),
            parts,
            ident,
            count,
            exclusive,
            halted: run.halt.is_some(),
            lent: run.lends(),
        };
        let slot = self.shapes[shape as usize].as_ref().expect("just found");
        held.fence(&slot.shape, run.alt, table);
        if run.to_stop() {
            self.release(&mut held);
        }
        Some(held)
    }

    /// What running work uses by now shows in the host's measured load, so only the rest of a
    /// measured reservation still counts. `None`: all of it.
    fn less_measured(&self, bundle: &Bundle, run: &Run) -> Option<Bundle> {
        let used = [("mem", run.usage().mem_kb), ("swp", run.usage().swap_kb)];
        let mut rest: Option<Bundle> = None;
        for (name, kb) in used.into_iter().filter(|(_, kb)| *kb > 0) {
            if let Some(res) = self.names.find(name) {
                let at = usize::from(res);
                let used = i64::try_from(kb.saturating_mul(1000) / 1024).unwrap_or(i64::MAX);
                let left = bundle.get(at).saturating_sub(used).max(0);
                if left != bundle.get(at) {
                    rest.get_or_insert_with(|| bundle.clone()).set(at, left);
                }
            }
        }
        rest
    }

    /// What the share tree of a queue looks at beside slots and time.
    pub(super) fn counts(&self, queue: Option<u16>) -> Counts {
        let line = queue.map(|at| &self.lines[usize::from(at)]);
        let tree = line.and_then(Line::tree);
        let gpus = queue.is_some_and(|at| self.config().queues[usize::from(at)].fair.gpu_time > 0);
        Counts {
            amounts: tree.is_some_and(ShareTree::counts_amounts),
            gpu: gpus.then(|| self.names.find("gpu")).flatten(),
        }
    }

    /// Takes over a class: its first job, or that it is gone.
    fn set_class(&mut self, state: &State, table: &HostTable, id: u32) {
        let class = state.pending().class(id);
        let head = class.and_then(|class| class.jobs.first());
        let Some((class, (order, j))) = class.zip(head) else {
            if let Some(bucket) = self.buckets.remove(&id) {
                self.set_turn(&bucket, None);
                self.count_alike(&bucket, false);
                self.drop_shape(bucket.shape);
            }
            return;
        };
        if !self.buckets.contains_key(&id) {
            let bucket = self.bucket_of(class, table);
            self.count_alike(&bucket, true);
            self.buckets.insert(id, Box::new(bucket));
        }
        self.fresh.push(id);
        if self.fresh.len() > 2 * self.buckets.len() + 64 {
            self.fresh.sort_unstable();
            self.fresh.dedup();
        }
        let mut bucket = self.buckets.remove(&id).expect("just made");
        let turn = self.turn_of(state, bucket.priority, order, j, id);
        self.set_turn(&bucket, Some(turn));
        bucket.ahead.clear();
        bucket.ahead.extend(class.jobs.iter().take(AHEAD));
        bucket.arrays = class.arrays > 0;
        bucket.turn = Some(turn);
        (bucket.from, bucket.moved) = (0, false);
        self.buckets.insert(id, bucket);
    }

    fn count_alike(&mut self, bucket: &Bucket, plus: bool) {
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

    fn set_turn(&mut self, bucket: &Bucket, turn: Option<Turn>) {
        if let Some(queue) = bucket.queue {
            self.lines[usize::from(queue)].replace(bucket.place, bucket.turn, turn);
        }
    }

    pub(super) fn turn_of(
        &self,
        state: &State,
        priority: u32,
        order: i64,
        j: JobKey,
        id: u32,
    ) -> Turn {
        Turn {
            rank: self.rank_of(state, priority, j),
            order,
            j,
            class: id,
        }
    }

    fn bucket_of(&mut self, class: &Class, table: &HostTable) -> Bucket {
        let spec = class.spec.clone();
        let config = self.config.clone().expect("an engine has a configuration");
        let shape = self.shape_of(&spec, table);
        let queue = self.shapes[shape as usize]
            .as_ref()
            .expect("just found")
            .shape
            .queue;
        let ident = self.ident_of(&spec);
        let groups = self.groups.get(&spec.user).map_or(&[][..], Vec::as_slice);
        let limits = config.user_limits(&spec.user, groups);
        let place = match queue.map(|q| &self.lines[usize::from(q)]) {
            Some(Line::InTurn(_)) => Place::User(spec.uid),
            Some(Line::Shared(_)) => {
                let leaf = self.leaf_of(queue, &spec.user, &spec.user_group);
                Place::Leaf(leaf.expect("the line has a tree"))
            }
            Some(Line::Fifo(_)) | None => Place::Open,
        };
        Bucket {
            shape,
            queue,
            place,
            uid: spec.uid,
            user: spec.user.clone(),
            priority: class.key.priority,
            min: spec.min.max(1),
            begin: spec.begin,
            deadline: spec.deadline,
            estimate: estimate_of(spec.limits.run_s),
            length: Length::of(&spec, &config),
            user_max: limits.max_slots,
            user_per_core: limits.slots_per_cpu_milli,
            ident,
            spec: class.spec_id,
            ahead: SmallVec::new(),
            arrays: false,
            turn: None,
            moved: false,
            from: 0,
        }
    }
}

/// The number of a host type, a new one if need be.
fn kind_number(types: &mut HashMap<String, u32>, name: &str) -> u32 {
    if let Some(known) = types.get(name) {
        return *known;
    }
    let next = types.len() as u32 + 1;
    types.insert(name.to_owned(), next);
    next
}

/// Some limit looks at what a queue or a user holds on a host.
fn looks_at_holders(config: &Config) -> bool {
    let hosts = config.hosts.entries.iter().chain([&config.hosts.default]);
    let mut queues = config.queues.iter();
    hosts.into_iter().any(|host| host.user_slots.is_some())
        || queues.any(|q| q.host_slots.is_some() || q.proc_slots_milli.is_some())
        || config.users.iter().any(|u| u.slots_per_cpu_milli.is_some())
}

/// What ended work used, for its user's history, by [`Meter`].
fn past_of(state: &State, j: JobKey, held: &Held) -> [u64; 3] {
    let mut past = [0; 3];
    let Some(run) = state.work(j).and_then(|work| work.run.as_deref()) else {
        return past;
    };
    let begun = if run.start == Stamp(0) {
        run.dispatch
    } else {
        run.start
    };
    let end = run.fate.as_ref().map_or(begun, |fate| fate.end);
    let ms = end.since_ms(begun).saturating_sub(run.suspended_ms);
    past[Meter::Run as usize] = ms.saturating_mul(u64::from(held.slots));
    let gpus = held.charge.as_ref().map_or(0, |charge| charge.gpus);
    past[Meter::Gpu as usize] = gpu_ms(gpus, ms);
    past[Meter::Cpu as usize] = run.usage().cpu_ms;
    past
}

/// The lines that the queues' policies ask for.
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

impl Engine {
    /// What section `users` allows a job's user.
    pub(super) fn user_limits(&self, state: &State, j: JobKey) -> UserLimits {
        let Some(spec) = state.spec_of(j.id) else {
            return UserLimits::default();
        };
        let groups = self.groups.get(&spec.user).map_or(&[][..], Vec::as_slice);
        self.config().user_limits(&spec.user, groups)
    }

    /// Amounts of `rusage[]` reserved on a host by started work, by resource.
    pub fn reserved(&self, table: &HostTable, host: &str) -> Vec<(String, f64)> {
        let Some(at) = table.named(host).map(|info| info.position as usize) else {
            return Vec::new();
        };
        if at >= self.books.len() {
            return Vec::new();
        }
        let taken = self.books.get(at).taken.iter();
        let named = self.names.iter().zip(taken).filter(|(_, n)| **n != 0);
        named
            .map(|(name, n)| (name.to_owned(), *n as f64 / 1000.0))
            .collect()
    }
}

impl Engine {
    /// What started work takes as long as it runs, nothing given back.
    pub(super) fn whole_of(
        &self,
        table: &HostTable,
        held: &Held,
        run: &Run,
    ) -> SmallVec<[(u32, Bundle); 1]> {
        let share = |(id, n): &(HostId, u32)| (table.position(*id).map(|at| at as u32), *n);
        let shares: SmallVec<[_; 1]> = run.hosts.iter().map(share).collect();
        self.shape(held.shape)
            .shape
            .way(run.alt)
            .bundles(&shares, 0)
    }
}
