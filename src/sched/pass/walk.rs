//! The order of a pass: what comes first, classes in the order of their queues, what comes last. A
//! class that cannot start is skipped with the reason; nothing is held by a job that does not start.

use super::Pass;
use crate::model::{JobKey, PendReason, Stamp};
use crate::sched::line::Turn;
use crate::sched::pending::{AHEAD, Bucket};
use crate::sched::placement::Spot;
use crate::sched::plan::{Plan, Start};
use crate::state::{Class, State};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Costs that change with time are brought up to date this often.
const SWEEP_MS: u64 = 10_000;
/// Reasons of classes whose fate is plain are worked out this often.
const EXPLAIN_EVERY_MS: u64 = 1000;

/// Kinds of requests in a queue that are looked at together.
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

impl Pass<'_> {
    /// Decides at most `max` starts.
    pub(in crate::sched) fn run(mut self, max: usize) -> Plan {
        self.fade();
        self.note_demand();
        self.look_around();
        self.rewind();
        if let Some(reserver) = &mut self.picture.reserver {
            reserver.book.open(self.now.0);
        }
        let at = self.picture.usage.now();
        let zone = self.picture.windows.zone();
        let next = self.picture.quotas.tick(self.now, zone, at);
        self.plan.wake_at(next);
        let preempts = self.config().queues.iter().any(|q| q.preemption.is_some());
        if !preempts {
            self.picture.allocations.defer();
        }
        let complete = self.walk(max);
        self.picture.allocations.settle();
        if let Some(reserver) = &mut self.picture.reserver {
            reserver.book.close(complete);
        }
        self.explain_fresh();
        self.look_back();
        self.plan
    }

    /// What comes before the first turn of a pass.
    fn look_around(&mut self) {
        self.picture.throttle.clear_wake();
        for at in self.picture.throttle.take_stale() {
            self.picture.set_host(self.table, at as usize);
        }
        self.picture.throttle.clear_stale();
        self.look_at_windows();
        self.look_at_samples();
        self.look_at_claims();
    }

    /// What comes behind the last turn of a pass: better work has what it can use.
    fn look_back(&mut self) {
        self.plan.wake_at(self.picture.throttle.wake());
        if !self.plan.more {
            self.resume_stopped();
            self.grow();
        }
    }

    /// Considers every class in order. False: the pass was cut off.
    fn walk(&mut self, max: usize) -> bool {
        for tier in 0..self.picture.queues.tiers() {
            while let Some((line, turn)) = self.picture.queues.peek(tier, &self.done) {
                if self.plan.starts.len() >= max {
                    self.plan.more = true;
                    return false;
                }
                if self.picture.usage.free() <= 0
                    && self.picture.reserver.is_none()
                    && !self.tier_preempts(tier)
                {
                    break;
                }
                match self.step(line, turn) {
                    Outcome::On => {}
                    Outcome::Stop => {
                        self.give_up_idle_claims();
                        return true;
                    }
                    Outcome::ShortestFirst => {
                        if !self.shortest_first(line, turn, max) {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    /// Behind the last job that reserves, the queue goes on with the shortest jobs first.
    fn shortest_first(&mut self, line: u16, behind: Turn, max: usize) -> bool {
        let free = self.picture.usage.free();
        let mut turns: BinaryHeap<Reverse<(i64, Turn)>> = BinaryHeap::new();
        for turn in self.picture.queues.line(line).turns() {
            let bucket = self.class(turn.class);
            if turn > behind && i64::from(bucket.min) <= free {
                turns.push(Reverse((bucket.estimate, turn)));
            }
        }
        self.done[usize::from(line)] = true;
        while let Some(Reverse((estimate, turn))) = turns.pop() {
            if self.plan.starts.len() >= max {
                self.plan.more = true;
                return false;
            }
            if self.picture.usage.free() <= 0 {
                break;
            }
            let before = self.plan.starts.len();
            self.step(line, turn);
            if self.plan.starts.len() > before
                && let Some(next) = self.class(turn.class).turn
            {
                turns.push(Reverse((estimate, next)));
            }
        }
        true
    }

    /// Puts the lines back to their starts.
    fn rewind(&mut self) {
        for class in self.picture.classes.take_moved() {
            self.restore_turn(class);
        }
        for line in self.picture.queues.lines_mut() {
            line.rewind();
        }
        self.done.clear();
        self.done.resize(self.picture.queues.len(), false);
        let queues = &self.picture.config.queues;
        self.active.clear();
        self.active.extend(
            queues
                .iter()
                .map(|queue| self.state.queue_ctl(&queue.name).active),
        );
        if self.picture.reserver.is_some() || self.memory.frontier_at != self.picture.usage.freed()
        {
            self.memory.frontier.clear();
        }
        self.memory.frontier_at = self.picture.usage.freed();
        self.thorough =
            !self.memory.quiet && self.now.since_ms(self.memory.looked) >= EXPLAIN_EVERY_MS;
        if self.thorough {
            self.memory.looked = self.now;
        }
        self.sweep_shares();
    }

    /// Costs in share trees change with time alone, and with what the cluster has.
    fn sweep_shares(&mut self) {
        let mut totals: Option<Vec<i64>> = None;
        for line in self.picture.queues.lines_mut() {
            let Some(tree) = line.tree_mut() else {
                continue;
            };
            let first = tree.now() == Stamp(0);
            if !first && self.now.since_ms(tree.now()) < SWEEP_MS {
                continue;
            }
            let totals = totals
                .get_or_insert_with(|| self.picture.usage.totals(self.picture.resources.len()));
            for (at, total) in totals.iter().enumerate() {
                tree.set_total(at, *total);
            }
            tree.sweep(self.now);
        }
    }

    fn step(&mut self, line: u16, turn: Turn) -> Outcome {
        let mut bucket = self
            .picture
            .classes
            .take(turn.class)
            .expect("classes in line have one");
        let outcome = self.step_with(line, &mut bucket, turn);
        self.picture.classes.put(turn.class, bucket);
        outcome
    }

    fn step_with(&mut self, line: u16, bucket: &mut Bucket, turn: Turn) -> Outcome {
        let at = usize::from(line);
        let place = bucket.place;
        if self.is_hopeless(bucket) {
            self.picture.queues.line_mut(line).pass_over(place, turn);
            return self.behind_blocked(line);
        }
        match self.try_class(bucket, turn) {
            Step::Start(start, spot, next) => {
                self.book_start(bucket, &start, &spot);
                self.plan.starts.push(start);
                self.go_on(line, bucket, turn, next);
                self.picture.queues.line_mut(line).served(place);
                Outcome::On
            }
            Step::AtLimit(id, limit, next) => {
                self.plan.at_limit.push((id, limit));
                self.go_on(line, bucket, turn, next);
                Outcome::On
            }
            Step::Reserved(reason, next) => {
                self.plan
                    .reasons
                    .extend(reason.map(|why| (turn.class, why)));
                if self.config().queues[at].strict && !self.picture.queues.habit(line).may_backfill
                {
                    return Outcome::Stop;
                }
                if self.may_reserve(self.picture.queues.habit(line).depth) {
                    self.go_on(line, bucket, turn, next);
                    return Outcome::On;
                }
                self.picture.queues.line_mut(line).pass_over(place, turn);
                match self.picture.queues.habit(line).shortest_first {
                    true => Outcome::ShortestFirst,
                    false => Outcome::On,
                }
            }
            Step::Blocked(reason) => {
                self.give_up_claims(turn.class, reason.as_ref());
                self.plan
                    .reasons
                    .extend(reason.map(|why| (turn.class, why)));
                self.picture.queues.line_mut(line).pass_over(place, turn);
                Outcome::On
            }
            Step::NoPlace(reason) => {
                self.plan
                    .reasons
                    .extend(reason.map(|why| (turn.class, why)));
                self.picture.queues.line_mut(line).pass_over(place, turn);
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
        let may_act = self.may_reserve(self.picture.queues.habit(line).depth)
            || self.config().queues[at].preemption.is_some();
        if !may_act && (self.picture.usage.free() <= 0 || !self.thorough && self.all_failed(line)) {
            self.done[at] = true;
        }
        Outcome::On
    }

    /// Whether every kind of request in a line is known to have no place.
    fn all_failed(&self, line: u16) -> bool {
        let mut alike = self.picture.queues.alike(line);
        // Asking costs less than giving each class its turn, as long as there are few kinds.
        alike.len() <= FEW_KINDS
            && alike.all(|(shape, on_hosts)| {
                let shape = self.shape(*shape);
                let freed = self
                    .picture
                    .usage
                    .freed()
                    .max(self.picture.quotas.eased_on_hosts(*on_hosts));
                shape.is_hopeless(*on_hosts, freed)
            })
    }

    /// Whether it is plain without a closer look that no job of the class has a place.
    fn is_hopeless(&self, bucket: &Bucket) -> bool {
        let depth = self.habit(bucket).depth;
        if self.thorough || self.may_reserve(depth) || self.may_raid(bucket) {
            return false;
        }
        if i64::from(bucket.min) > self.picture.usage.free() {
            return true;
        }
        let slot = self.picture.requests.slot(bucket.shape);
        if !slot.shape.timed && self.known_failure(bucket).is_some() {
            return true;
        }
        if bucket.length.varies() {
            return false;
        }
        let worse =
            |(min, estimate): &(u32, i64)| bucket.min >= *min && bucket.estimate >= *estimate;
        self.memory
            .frontier
            .get(&slot.family)
            .is_some_and(|known| known.iter().any(worse))
    }

    /// The class goes on with its next job in this pass.
    fn go_on(&mut self, line: u16, bucket: &mut Bucket, turn: Turn, next: Option<Next>) {
        let turn_of = |(order, j, _): Next| {
            self.picture
                .turn_of(self.state, bucket.priority, order, j, turn.class)
        };
        let new = next.map(turn_of);
        bucket.from = next.map_or(0, |(_, _, from)| from);
        self.picture
            .queues
            .line_mut(line)
            .replace(bucket.place, Some(turn), new);
        bucket.turn = new;
        if !std::mem::replace(&mut bucket.moved, true) {
            self.picture.classes.note_moved(turn.class);
        }
    }

    fn try_class(&mut self, bucket: &Bucket, turn: Turn) -> Step {
        if let Err((reason, at)) = self.gate(bucket) {
            self.plan.wake_at(at);
            return Step::Blocked(Some(reason));
        }
        let Some((j, more)) = self.element(bucket, turn.j) else {
            let array = self.state.job(turn.j.id).and_then(|job| job.array());
            let limit = array.map_or(0, |array| array.limit);
            return Step::AtLimit(turn.j.id, limit, following(self.state, bucket, turn));
        };
        let next = |more: bool| match more {
            true => Some((turn.order, turn.j, j.idx + 1)),
            false => following(self.state, bucket, turn),
        };
        if let Some((why, at)) = self.too_new(bucket, j) {
            self.plan.wake_at(Some(at));
            return Step::Blocked(Some(why));
        }
        let most = match self.room(bucket) {
            Ok(most) => most,
            Err(reason) => return Step::Blocked(Some(reason)),
        };
        if !self.book_turn(j) && !self.may_raid(bucket) {
            return Step::Reserved(None, next(more));
        }
        let opens = self.note_waiting(bucket.shape, j);
        let found = match self.find_or_raid(bucket, j, most) {
            Ok(found) => found,
            Err(why) => return Step::Blocked(Some(why)),
        };
        match found {
            Ok((alt, spot)) => {
                let hosts = spot
                    .iter()
                    .map(|(at, n)| (self.table.id_at(*at as usize), *n));
                let hosts = hosts.collect();
                Step::Start(Start { j, hosts, alt }, spot, next(more))
            }
            Err(short) => {
                self.plan.wake_at(opens);
                let reserved = !short.personal && self.reserve(bucket, j);
                let reason = self.explain(class_of(self.state, turn), bucket, short);
                match reserved {
                    true => Step::Reserved(reason, next(more)),
                    false => Step::NoPlace(reason),
                }
            }
        }
    }

    /// The element (or job) to start and whether the same entry has more. `None`: its array is at
    /// its limit.
    fn element(&self, bucket: &Bucket, j: JobKey) -> Option<(JobKey, bool)> {
        if j.idx == 0 && !bucket.arrays {
            return Some((j, false));
        }
        let job = self.state.job(j.id)?;
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

    /// A class's first turn, as the state has it.
    fn restore_turn(&mut self, id: u32) {
        if !self
            .picture
            .classes
            .get(id)
            .is_some_and(|bucket| bucket.moved)
        {
            return;
        }
        let Some(mut bucket) = self.picture.classes.take(id) else {
            return;
        };
        let head = bucket.ahead.first().copied();
        let head = head.map(|(order, j)| {
            self.picture
                .turn_of(self.state, bucket.priority, order, j, id)
        });
        self.picture.queues.set_turn(&bucket, head);
        bucket.turn = head;
        (bucket.from, bucket.moved) = (0, false);
        self.picture.classes.put(id, bucket);
    }
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
