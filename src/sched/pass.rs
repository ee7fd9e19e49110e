//! One pass: classes get their turn in order, what fits is booked and decided. A class that cannot
//! start is passed over with the reason; nothing is held by a job that does not start.

use super::allow::{self, alike, user_room};
use super::engine::{AHEAD, Bucket, Engine};
use super::held::{Charge, Held, Sign};
use super::hosts::HostTable;
use super::job_terms::Terms;
use super::line::{Place, Turn};
use super::place;
use super::placement::{Found, Short, Spot};
use super::run_length::end_at;
use super::shape::{AskAt, Failed, Shape, View};
use super::{Plan, Start};
use crate::config::Config;
use crate::model::{JobKey, PendReason, Stamp};
use crate::state::{Class, State};
use smallvec::SmallVec;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Costs that change with time are brought up to date this often.
const SWEEP_MS: u64 = 10_000;
/// Reasons of classes whose fate is plain are looked at anew this often.
const EXPLAIN_EVERY_MS: u64 = 1000;

/// Kinds of requests in a line that are looked at together.
const FEW_KINDS: usize = 64;

/// What became of a class's turn.
enum Step {
    /// Its job starts; the class's next turn, if it has more jobs.
    Start(Start, Spot, Option<Next>),
    /// This array has as many elements started as it may; the class goes on with the next job.
    AtLimit(u32, u32, Option<Next>),
    /// Its job has a reservation; the class's next turn, if it has more jobs.
    Reserved(Option<PendReason>, Option<Next>),
    /// There is no place for a job of the class in this pass.
    NoPlace(Option<PendReason>),
    /// No job of the class may start in this pass, whatever is free.
    Blocked(Option<PendReason>),
}

/// How the pass goes on behind a class's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    On,
    /// Nobody behind may start.
    Stop,
    /// The queue reserved for as many as it may, and goes on with the shortest.
    ShortestFirst,
}

/// The job behind the present one: its order, itself, the element to go on with.
type Next = (i64, JobKey, u32);

impl Engine {
    /// Decides at most `max` starts, books them, and says why the others wait. The caller must
    /// carry the plan out, or make the engine anew.
    pub fn plan(&mut self, state: &State, table: &HostTable, now: Stamp, max: usize) -> Plan {
        let mut plan = Plan::default();
        self.now = now;
        self.planned.clear();
        self.fade(state, table, &mut plan);
        self.note_demand(table);
        self.look_around(state, table, &mut plan);
        self.rewind(state, now);
        if let Some(reserver) = &mut self.reserver {
            reserver.book.open(now.0);
        }
        let at = self.books.now();
        plan.wake_at(self.quotas.tick(now, &self.hours.zone, at));
        let preempts = self.config().queues.iter().any(|q| q.preemption.is_some());
        self.finds_later = !preempts;
        let complete = self.walk(state, table, max, &mut plan);
        self.finds_later = false;
        self.held.settle();
        if let Some(reserver) = &mut self.reserver {
            reserver.book.close(complete);
        }
        self.explain_fresh(state, table, &mut plan);
        self.look_back(state, table, &mut plan);
        self.array_started.clear();
        plan
    }

    /// Gives every class its turn. False: the pass was cut off.
    fn walk(&mut self, state: &State, table: &HostTable, max: usize, plan: &mut Plan) -> bool {
        for tier in 0..self.tiers.len() {
            while let Some((line, turn)) = self.peek(tier) {
                if plan.starts.len() >= max {
                    plan.more = true;
                    return false;
                }
                if self.books.free() <= 0 && self.reserver.is_none() && !self.tier_preempts(tier) {
                    break;
                }
                match self.step(state, table, line, turn, plan) {
                    Outcome::On => {}
                    Outcome::Stop => {
                        self.give_up_idle_claims(plan);
                        return true;
                    }
                    Outcome::ShortestFirst => {
                        if !self.shortest_first(state, table, line, turn, max, plan) {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    /// Behind the last job that reserves, the queue goes on with the shortest jobs first.
    fn shortest_first(
        &mut self,
        state: &State,
        table: &HostTable,
        line: u16,
        behind: Turn,
        max: usize,
        plan: &mut Plan,
    ) -> bool {
        let free = self.books.free();
        let mut turns: BinaryHeap<Reverse<(i64, Turn)>> = BinaryHeap::new();
        for turn in self.lines[usize::from(line)].turns() {
            let bucket = &self.buckets[&turn.class];
            if turn > behind && i64::from(bucket.min) <= free {
                turns.push(Reverse((bucket.estimate, turn)));
            }
        }
        self.done[usize::from(line)] = true;
        while let Some(Reverse((estimate, turn))) = turns.pop() {
            if plan.starts.len() >= max {
                plan.more = true;
                return false;
            }
            if self.books.free() <= 0 {
                break;
            }
            let before = plan.starts.len();
            self.step(state, table, line, turn, plan);
            if plan.starts.len() > before
                && let Some(next) = self.buckets[&turn.class].turn
            {
                turns.push(Reverse((estimate, next)));
            }
        }
        true
    }

    /// Puts the lines back to their starts.
    fn rewind(&mut self, state: &State, now: Stamp) {
        for class in std::mem::take(&mut self.moved) {
            self.restore_turn(state, class);
        }
        for line in &mut self.lines {
            line.rewind();
        }
        self.done.clear();
        self.done.resize(self.lines.len(), false);
        let queues = &self
            .config
            .as_deref()
            .expect("an engine has a configuration")
            .queues;
        self.active.clear();
        self.active.extend(
            queues
                .iter()
                .map(|queue| state.queue_ctl(&queue.name).active),
        );
        if self.reserver.is_some() || self.frontier_at != self.books.freed() {
            self.frontier.clear();
        }
        self.frontier_at = self.books.freed();
        self.thorough = !self.quiet && now.since_ms(self.looked) >= EXPLAIN_EVERY_MS;
        if self.thorough {
            self.looked = now;
        }
        self.sweep_shares(now);
    }

    /// Costs in share trees change with time alone, and with what the cluster has.
    fn sweep_shares(&mut self, now: Stamp) {
        let mut totals: Option<Vec<i64>> = None;
        for line in &mut self.lines {
            let Some(tree) = line.tree_mut() else {
                continue;
            };
            let first = tree.now() == Stamp(0);
            if !first && now.since_ms(tree.now()) < SWEEP_MS {
                continue;
            }
            let totals = totals.get_or_insert_with(|| self.books.totals(self.names.len()));
            for (at, total) in totals.iter().enumerate() {
                tree.set_total(at, *total);
            }
            tree.sweep(now);
        }
    }

    /// The next class of a tier and its line: of lines of equal priority the one whose class has
    /// waited longest.
    fn peek(&mut self, tier: usize) -> Option<(u16, Turn)> {
        let tier = &self.tiers[tier];
        let (lines, done) = (&mut self.lines, &self.done);
        let left = tier.iter().filter(|at| !done[usize::from(**at)]);
        let turns = left.filter_map(|at| Some((*at, lines[usize::from(*at)].peek()?)));
        turns.min_by_key(|(at, turn)| (turn.rank, turn.order, *at))
    }

    fn step(
        &mut self,
        state: &State,
        table: &HostTable,
        line: u16,
        turn: Turn,
        plan: &mut Plan,
    ) -> Outcome {
        let mut bucket = self
            .buckets
            .remove(&turn.class)
            .expect("classes in line have one");
        let outcome = self.step_with(state, table, line, &mut bucket, turn, plan);
        self.buckets.insert(turn.class, bucket);
        outcome
    }

    fn step_with(
        &mut self,
        state: &State,
        table: &HostTable,
        line: u16,
        bucket: &mut Bucket,
        turn: Turn,
        plan: &mut Plan,
    ) -> Outcome {
        let at = usize::from(line);
        let place = bucket.place;
        if self.is_hopeless(bucket) {
            self.lines[at].pass_over(place, turn);
            return self.behind_blocked(line);
        }
        match self.try_class(state, table, bucket, turn, plan) {
            Step::Start(start, spot, next) => {
                self.book_start(table, bucket, &start, &spot);
                plan.starts.push(start);
                self.go_on(state, line, bucket, turn, next);
                self.lines[at].served(place);
                Outcome::On
            }
            Step::AtLimit(id, limit, next) => {
                plan.at_limit.push((id, limit));
                self.go_on(state, line, bucket, turn, next);
                Outcome::On
            }
            Step::Reserved(reason, next) => {
                plan.reasons.extend(reason.map(|why| (turn.class, why)));
                if self.config().queues[at].strict && !self.habits[at].may_backfill {
                    return Outcome::Stop;
                }
                if self.may_reserve(self.habits[at].depth) {
                    self.go_on(state, line, bucket, turn, next);
                    return Outcome::On;
                }
                self.lines[at].pass_over(place, turn);
                match self.habits[at].shortest_first {
                    true => Outcome::ShortestFirst,
                    false => Outcome::On,
                }
            }
            Step::Blocked(reason) => {
                self.give_up_claims(state, turn.class, reason.as_ref());
                plan.reasons.extend(reason.map(|why| (turn.class, why)));
                self.lines[at].pass_over(place, turn);
                Outcome::On
            }
            Step::NoPlace(reason) => {
                plan.reasons.extend(reason.map(|why| (turn.class, why)));
                self.lines[at].pass_over(place, turn);
                self.behind_blocked(line)
            }
        }
    }

    /// How the pass goes on behind a class without a place.
    fn behind_blocked(&mut self, line: u16) -> Outcome {
        let at = usize::from(line);
        if self.config().queues[at].strict {
            return Outcome::Stop;
        }
        let may_act = self.may_reserve(self.habits[at].depth)
            || self.config().queues[at].preemption.is_some();
        if !may_act && (self.books.free() <= 0 || !self.thorough && self.all_failed(at)) {
            self.done[at] = true;
        }
        Outcome::On
    }

    /// Whether every kind of request in a line is known to have no place.
    fn all_failed(&self, line: usize) -> bool {
        let alike = &self.alike[line];
        // Asking costs less than giving each class its turn, as long as there are few kinds.
        alike.len() <= FEW_KINDS
            && alike.keys().all(|(shape, on_hosts)| {
                let shape = &self.shape(*shape).shape;
                let freed = self
                    .books
                    .freed()
                    .max(self.quotas.eased_on_hosts(*on_hosts));
                shape.is_hopeless(*on_hosts, freed)
            })
    }

    /// Whether a queue that reserves for so many jobs may still reserve in this pass.
    fn may_reserve(&self, depth: usize) -> bool {
        self.reserver
            .as_ref()
            .is_some_and(|r| r.book.confirmed() < depth)
    }

    /// Whether it is plain without a closer look that no job of the class has a place.
    fn is_hopeless(&self, bucket: &Bucket) -> bool {
        let depth = self.habit(bucket).depth;
        if self.thorough || self.may_reserve(depth) || self.may_raid(bucket) {
            return false;
        }
        if i64::from(bucket.min) > self.books.free() {
            return true;
        }
        let slot = self.shape(bucket.shape);
        if !slot.shape.timed && self.known_failure(bucket).is_some() {
            return true;
        }
        if bucket.length.varies() {
            return false;
        }
        let worse =
            |(min, estimate): &(u32, i64)| bucket.min >= *min && bucket.estimate >= *estimate;
        self.frontier
            .get(&slot.family)
            .is_some_and(|known| known.iter().any(worse))
    }

    /// What an earlier search for jobs like those of the class found, if nothing was freed since.
    fn known_failure(&self, bucket: &Bucket) -> Option<&Failed> {
        let shape = &self.shape(bucket.shape).shape;
        let on_hosts = bucket.ident.on_hosts;
        // Mostly hosts have changed, and limits, which cost more to ask, need not be.
        shape.failed_for(on_hosts, self.books.freed())?;
        shape.failed_for(on_hosts, self.freed_for(bucket))
    }

    /// When something was last freed that could help the class, as far as hosts go.
    fn freed_for(&self, bucket: &Bucket) -> u64 {
        let freed = self.books.freed();
        match bucket.ident.by_host() {
            true => freed.max(self.quotas.eased_on_hosts(bucket.ident.on_hosts)),
            false => freed,
        }
    }

    /// Remembers that a request of the family found no place.
    fn push_frontier(&mut self, bucket: &Bucket) {
        let family = self.shape(bucket.shape).family;
        let known = self.frontier.entry(family).or_default();
        known.retain(|(min, estimate)| *min < bucket.min || *estimate < bucket.estimate);
        known.push((bucket.min, bucket.estimate));
    }

    /// The class goes on with its next job in this pass.
    fn go_on(
        &mut self,
        state: &State,
        line: u16,
        bucket: &mut Bucket,
        turn: Turn,
        next: Option<Next>,
    ) {
        let turn_of =
            |(order, j, _): Next| self.turn_of(state, bucket.priority, order, j, turn.class);
        let new = next.map(turn_of);
        bucket.from = next.map_or(0, |(_, _, from)| from);
        self.lines[usize::from(line)].replace(bucket.place, Some(turn), new);
        bucket.turn = new;
        if !std::mem::replace(&mut bucket.moved, true) {
            self.moved.push(turn.class);
        }
    }

    fn try_class(
        &mut self,
        state: &State,
        table: &HostTable,
        bucket: &Bucket,
        turn: Turn,
        plan: &mut Plan,
    ) -> Step {
        if let Err((reason, at)) = self.gate(bucket) {
            plan.wake_at(at);
            return Step::Blocked(Some(reason));
        }
        let Some((j, more)) = self.element(state, bucket, turn.j) else {
            let array = state.job(turn.j.id).and_then(|job| job.array());
            let limit = array.map_or(0, |array| array.limit);
            return Step::AtLimit(turn.j.id, limit, following(state, bucket, turn));
        };
        let next = |more: bool| match more {
            true => Some((turn.order, turn.j, j.idx + 1)),
            false => following(state, bucket, turn),
        };
        if let Some((why, at)) = self.too_new(state, bucket, j) {
            plan.wake_at(Some(at));
            return Step::Blocked(Some(why));
        }
        let most = match self.room(bucket) {
            Ok(most) => most,
            Err(reason) => return Step::Blocked(Some(reason)),
        };
        if !self.book_turn(j) && !self.may_raid(bucket) {
            return Step::Reserved(None, next(more));
        }
        let opens = self.note_waiting(state, bucket.shape, j);
        let found = match self.find_or_raid(state, table, bucket, j, most, plan) {
            Ok(found) => found,
            Err(why) => return Step::Blocked(Some(why)),
        };
        match found {
            Ok((alt, spot)) => {
                let hosts = spot.iter().map(|(at, n)| (table.id_at(*at as usize), *n));
                let hosts = hosts.collect();
                Step::Start(Start { j, hosts, alt }, spot, next(more))
            }
            Err(short) => {
                plan.wake_at(opens);
                let reserved = !short.personal && self.reserve(table, bucket, j);
                let reason = self.explain(table, class_of(state, turn), bucket, short);
                match reserved {
                    true => Step::Reserved(reason, next(more)),
                    false => Step::NoPlace(reason),
                }
            }
        }
    }

    /// What keeps the class from being looked at, whatever is free, and until when if that is
    /// known.
    pub(super) fn gate(&self, bucket: &Bucket) -> Result<(), (PendReason, Option<Stamp>)> {
        let slot = self.shape(bucket.shape);
        if let Some(why) = &slot.shape.bad {
            return Err((PendReason::NeverFits { why: why.clone() }, None));
        }
        if let Some(at) = bucket.queue.map(usize::from)
            && !self.active[at]
        {
            let queue = self.config().queues[at].name.clone();
            return Err((PendReason::QueueInactive { queue }, None));
        }
        match bucket.begin {
            Some(at) if at > self.now => Err((PendReason::BeginTime { at: at.0 }, Some(at))),
            _ => self.window_gate(bucket, self.now),
        }
    }

    /// The element (or job) to start and whether the same entry has more. `None`: its array is at
    /// its limit.
    fn element(&self, state: &State, bucket: &Bucket, j: JobKey) -> Option<(JobKey, bool)> {
        if j.idx == 0 && !bucket.arrays {
            return Some((j, false));
        }
        let job = state.job(j.id)?;
        let Some(array) = job.array() else {
            return Some((j, false));
        };
        let now = self.array_started.get(&job.id).copied().unwrap_or(0);
        if array.limit > 0 && array.started() + now >= array.limit {
            return None;
        }
        if j.idx > 0 {
            return Some((j, false));
        }
        let idx = array.waiting.first_from(bucket.from)?;
        let more = array.waiting.first_from(idx + 1).is_some();
        Some((JobKey::element(job.id, idx), more))
    }

    /// Finds hosts for the class's next job.
    pub(super) fn find(
        &mut self,
        table: &HostTable,
        bucket: &Bucket,
        most: u32,
    ) -> Result<Found, Short> {
        let on_hosts = bucket.ident.on_hosts;
        let shape = &self.shape(bucket.shape).shape;
        let (open, _) = shape.open_ways(self.waited_ms);
        if let Some(known) = self.known_failure(bucket)
            && known.open == open
        {
            let (short, over_limit) = (known.short, known.over_limit);
            self.over_limit = over_limit;
            return Err(short);
        }
        let (mut personal, mut kept) = (false, false);
        let found = self.find_anew(table, bucket, most, &mut personal, &mut kept);
        found.map_err(|short| {
            let over_limit = self.over_limit;
            let short = Short {
                personal: personal || over_limit.is_some(),
                ..short
            };
            let at = self.books.now();
            let slot = self.shapes[bucket.shape as usize].as_mut();
            let shape = &mut slot.expect("buckets hold their shape").shape;
            if !personal && !kept {
                shape.fail(Failed {
                    on_hosts,
                    at,
                    short,
                    open,
                    over_limit,
                });
            }
            if !short.personal && shape.grows_evenly() && !bucket.length.varies() {
                self.push_frontier(bucket);
            }
            short
        })
    }

    /// As [`Engine::find`], whatever is known of earlier searches, and remembering nothing.
    /// `personal`: what only concerns this job stood in the way; `kept`: reservations did.
    ///
    /// # Errors
    /// How far it got.
    pub(super) fn find_anew(
        &mut self,
        table: &HostTable,
        bucket: &Bucket,
        most: u32,
        personal: &mut bool,
        kept: &mut bool,
    ) -> Result<Found, Short> {
        let ends = self.ends(table, bucket);
        let slot = self.shapes[bucket.shape as usize]
            .as_mut()
            .expect("buckets hold their shape");
        let config = self
            .config
            .as_deref()
            .expect("an engine has a configuration");
        let books = &self.books;
        let names = &self.names;
        let view = View {
            config,
            table,
            books,
            names,
            demand: &self.demand,
        };
        let user = (bucket.uid, bucket.user_per_core);
        let now = self.now.0;
        let may_backfill = bucket
            .queue
            .is_some_and(|q| self.habits[usize::from(q)].may_backfill);
        let mut reserver = self.reserver.as_mut();
        let (mut blocked, mut wake) = (None, None);
        let limited = Cell::new(false);
        let (quotas, ident) = (&self.quotas, &bucket.ident);
        let by_way = allow::by_way(quotas, ident, &slot.shape, self.waited_ms);
        *personal |= by_way.shut;
        let (pace, interval) = (&self.pace, accept_interval(config, bucket));
        let mut room = |shape: &Shape, ask: &AskAt<'_>, at: usize, can: u32| {
            let mut may = can.min(user_room(&view, user, at, ask));
            if let Some(again) = pace.after(at, interval, Stamp(now)) {
                wake = wake.into_iter().chain([again]).min();
                may = 0;
            }
            let end = ends.at(ask, at);
            if end > ends.latest {
                may = 0;
            }
            *personal |= may < can;
            if !ident.is_free() {
                let left = allow::left_on(quotas, ident, shape, (at, may), most, ask);
                limited.set(left.limited);
                *personal |= left.personal;
                blocked = left.blocked.or(blocked);
                may = may.min(left.slots);
            }
            if let Some(reserver) = reserver.as_deref_mut()
                && reserver.book.reserved_on(at as u32)
            {
                let free = reserver.book.room(at as u32, now, end, may_backfill);
                let beside = shape.fit_beside(ask, view.books.get(at), free);
                *kept |= beside < may;
                may = may.min(beside);
            }
            may
        };
        let mut terms = Terms {
            most,
            by_way: &by_way.most,
            alike: alike(quotas, ident),
            limited: &limited,
            waited_ms: self.waited_ms,
            room: &mut room,
        };
        let found = place::find(&mut slot.shape, &view, &mut terms);
        self.pace.wake = self.pace.wake.into_iter().chain(wake).min();
        self.over_limit = blocked.or(by_way.blocked).filter(|_| found.is_err());
        found
    }

    fn book_start(&mut self, table: &HostTable, bucket: &Bucket, start: &Start, spot: &Spot) {
        let now = self.now;
        let slot = self.shapes[bucket.shape as usize]
            .as_mut()
            .expect("buckets hold their shape");
        slot.refs += 1;
        let exclusive = slot.shape.is_exclusive(start.alt);
        let shares: SmallVec<[_; 1]> = spot.iter().map(|(at, n)| (Some(*at), *n)).collect();
        let way = slot.shape.way(start.alt);
        let parts = way.bundles(&shares, 0);
        if let Some(next) = way.next_change(0) {
            self.fading.insert((now.plus_ms(next), start.j));
        }
        let slots = spot.iter().map(|(_, n)| n).sum();
        let charge = match bucket.place {
            Place::Leaf(leaf) => {
                let counts = self.counts(bucket.queue);
                Some(Charge::start(leaf, slots, now, &parts, counts))
            }
            Place::Open | Place::User(_) => None,
        };
        let mut held = Held {
            sign: Sign::to_be(bucket.spec, now, slots),
            shape: bucket.shape,
            queue: bucket.queue,
            uid: bucket.uid,
            slots,
            exclusive,
            halted: false,
            lent: false,
            until: end_at(
                now,
                bucket.length.at(table, spot.first().map(|(at, _)| *at)),
            ),
            count: None,
            ident: bucket.ident.clone(),
            parts,
            charge,
        };
        if let Some(reserver) = &mut self.reserver {
            reserver.book.started(start.j);
        }
        for (at, bundle) in &held.parts {
            let slots = u32::try_from(bundle.slots).unwrap_or(0);
            self.begin_on(table, *at as usize, slots);
        }
        let slot = self.shapes[bucket.shape as usize].as_ref();
        let slot = slot.expect("buckets hold their shape");
        held.fence(&slot.shape, start.alt, table);
        self.planned.push((start.j, bucket.spec, slots));
        self.put_held(start.j, held);
        if start.j.idx > 0 {
            *self.array_started.entry(start.j.id).or_default() += 1;
        }
    }

    /// A class's first turn, as the state has it.
    fn restore_turn(&mut self, state: &State, id: u32) {
        if !self.buckets.get(&id).is_some_and(|bucket| bucket.moved) {
            return;
        }
        let Some(mut bucket) = self.buckets.remove(&id) else {
            return;
        };
        let head = bucket.ahead.first().copied();
        let head = head.map(|(order, j)| self.turn_of(state, bucket.priority, order, j, id));
        if let Some(queue) = bucket.queue {
            self.lines[usize::from(queue)].replace(bucket.place, bucket.turn, head);
        }
        bucket.turn = head;
        (bucket.from, bucket.moved) = (0, false);
        self.buckets.insert(id, bucket);
    }
}

/// Time between two starts on a host.
fn accept_interval(config: &Config, bucket: &Bucket) -> u64 {
    let queue = bucket.queue.map(|at| &config.queues[usize::from(at)]);
    queue.map_or(0, |queue| queue.job_accept_interval_ms)
}

fn class_of(state: &State, turn: Turn) -> &Class {
    let class = state.pending().class(turn.class);
    class.expect("classes in line exist")
}

/// The class's next turn behind a job.
fn following(state: &State, bucket: &Bucket, turn: Turn) -> Option<Next> {
    let this = (turn.order, turn.j);
    let next = bucket.ahead.iter().copied().find(|entry| *entry > this);
    let next = match bucket.ahead.len() < AHEAD {
        true => next,
        false => next.or_else(|| class_of(state, turn).jobs.behind(this)),
    };
    next.map(|(order, j)| (order, j, 0))
}
