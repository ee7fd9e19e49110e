//! The order of a pass: what comes first, classes in the order of their queues, what comes last. A
//! class that cannot start is skipped with the reason; a job that does not start holds nothing.

use super::Pass;
use super::start::StartUsage;
use crate::model::{JobKey, PendReason};
use crate::sched::pending_classes::{FIRST_JOBS, PendingClass};
use crate::sched::picture::ChosenUnits;
use crate::sched::plan::{Plan, Start};
use crate::sched::queue_order::QueueEntry;
use crate::state::{Class, State};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How often the reasons of all classes are computed.
const EXPLAIN_EVERY_MS: u64 = 1000;

/// Maximum number of kinds of requests in a queue that are checked together.
const FEW_KINDS: usize = 64;

/// The result for a class.
enum Step {
    /// Its job starts; with the next job of the class, if it has more.
    Start(Start, StartUsage, Option<NextJob>),
    /// This array is at its limit of started elements; the class continues with the next job.
    AtLimit(u32, u32, Option<NextJob>),
    /// Its job waits for something that concerns only this job; with the next job of the class, if
    /// it has more.
    Passed(Option<NextJob>),
    /// Its job has a reservation; with the next job of the class, if it has more.
    Reserved(Option<PendReason>, Option<NextJob>),
    /// No hosts were found for a job of the class in this pass.
    NoPlace(Option<PendReason>),
    /// No job of the class may start in this pass, regardless of what is free.
    Blocked(Option<PendReason>),
}

/// How the pass continues after a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Continue,
    /// No later job may start.
    Stop,
    /// The queue has its last reservation, and continues with the shortest jobs.
    ShortestFirst,
}

/// The job after the current one: its order, the job, the element to continue with.
type NextJob = (i64, JobKey, u32);

impl Pass<'_> {
    /// Decides at most `max` starts.
    pub(in crate::sched) fn run(mut self, max: usize) -> Plan {
        self.decay_rusage();
        self.update_demand();
        self.before_classes();
        self.rewind();
        if let Some(reserver) = &mut self.picture.reserver {
            reserver.book.open(self.now.0);
        }
        let at = self.picture.usage.log_end();
        let zone = self.picture.windows.zone();
        let next = self.picture.quotas.tick(self.now, zone, at);
        self.plan.wake_at(next);
        let preempts = self.config().queues.iter().any(|q| q.preemption.is_some());
        if !preempts {
            self.picture.allocations.defer();
        }
        let complete = self.consider_classes(max);
        self.picture.allocations.settle();
        if let Some(reserver) = &mut self.picture.reserver {
            reserver.book.close(complete);
        }
        self.explain_rest();
        self.after_classes();
        self.plan
    }

    /// What is done before the first class of a pass.
    fn before_classes(&mut self) {
        self.picture.throttle.clear_wake();
        for at in self.picture.throttle.take_stale() {
            self.picture.set_host(self.table, at as usize);
        }
        self.picture.throttle.clear_stale();
        self.apply_windows();
        self.apply_thresholds();
        self.resume_released();
        self.refresh_claims();
    }

    /// What is done after the last class of a pass, when pending jobs have got what they can use.
    fn after_classes(&mut self) {
        self.plan.wake_at(self.picture.throttle.next_wake());
        if !self.plan.more {
            self.resume_stopped();
            self.grow();
            self.end_warnings();
        }
    }

    /// Considers every class in order. Returns false if the pass was cut off.
    fn consider_classes(&mut self, max: usize) -> bool {
        for tier in 0..self.picture.queues.tiers() {
            while let Some((queue, entry)) = self.picture.queues.peek(tier, &self.exhausted) {
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
                match self.step(queue, entry) {
                    Outcome::Continue => {}
                    Outcome::Stop => {
                        self.give_up_idle_claims();
                        return true;
                    }
                    Outcome::ShortestFirst => {
                        if !self.shortest_first(queue, entry, max) {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    /// Continues a queue with its shortest jobs first, after the last job that may reserve.
    fn shortest_first(&mut self, queue: u16, last: QueueEntry, max: usize) -> bool {
        let free = self.picture.usage.free();
        let mut entries: BinaryHeap<Reverse<(i64, QueueEntry)>> = BinaryHeap::new();
        for entry in self.picture.queues.order(queue).entries() {
            let pending = self.class(entry.class);
            if entry > last && i64::from(pending.min) <= free {
                entries.push(Reverse((pending.estimate, entry)));
            }
        }
        self.exhausted[usize::from(queue)] = true;
        while let Some(Reverse((estimate, entry))) = entries.pop() {
            if self.plan.starts.len() >= max {
                self.plan.more = true;
                return false;
            }
            if self.picture.usage.free() <= 0 {
                break;
            }
            let before = self.plan.starts.len();
            self.step(queue, entry);
            if self.plan.starts.len() > before
                && let Some(next) = self.class(entry.class).progress.entry
            {
                entries.push(Reverse((estimate, next)));
            }
        }
        true
    }

    /// Resets the orders of all queues to their starts.
    fn rewind(&mut self) {
        for class in self.picture.classes.take_moved() {
            self.restore_entry(class);
        }
        for order in self.picture.queues.orders_mut() {
            order.rewind();
        }
        self.exhausted.clear();
        self.exhausted.resize(self.picture.queues.len(), false);
        let queues = &self.picture.config.queues;
        self.active.clear();
        self.active.extend(
            queues
                .iter()
                .map(|queue| self.state.queue_ctl(&queue.name).active),
        );
        if self.picture.reserver.is_some()
            || self.memory.failed_sizes_at != self.picture.usage.last_freed()
        {
            self.memory.failed_sizes.clear();
        }
        self.memory.failed_sizes_at = self.picture.usage.last_freed();
        self.note_reasons_due();
        self.refresh_shares();
    }

    /// Decides whether this pass finds out why every class waits. If not, a pass will be requested
    /// that does: after the last change of a cluster, no reason stays that has become wrong.
    fn note_reasons_due(&mut self) {
        if self.memory.skip_reasons {
            return;
        }
        let due = self.memory.reasons_updated_at.plus_ms(EXPLAIN_EVERY_MS);
        self.all_classes = self.now.since_ms(self.memory.reasons_updated_at) >= EXPLAIN_EVERY_MS;
        match self.all_classes {
            true => self.memory.reasons_updated_at = self.now,
            false => self.plan.explain_at = Some(due),
        }
    }

    /// Refreshes share trees: costs change with time, and with the amounts of the cluster.
    fn refresh_shares(&mut self) {
        for order in self.picture.queues.orders_mut() {
            let Some(tree) = order.tree_mut() else {
                continue;
            };
            if tree.counts_amounts() {
                for (at, total) in self.picture.usage.totals().iter().enumerate() {
                    tree.set_total(at, *total);
                }
            }
            tree.refresh(self.now);
        }
    }

    fn step(&mut self, queue: u16, entry: QueueEntry) -> Outcome {
        let mut pending = self
            .picture
            .classes
            .take_out(entry.class)
            .expect("pending classes have a record");
        let outcome = self.step_with(queue, &mut pending, entry);
        self.picture.classes.put(entry.class, pending);
        outcome
    }

    fn step_with(&mut self, queue: u16, pending: &mut PendingClass, entry: QueueEntry) -> Outcome {
        let at = usize::from(queue);
        let group = pending.group;
        if self.is_known_unplaceable(pending) {
            self.picture.queues.order_mut(queue).skip(group, entry);
            return self.after_blocked(queue);
        }
        match self.try_class(pending, entry) {
            Step::Start(start, usage, next) => {
                self.commit_start(pending, &start, usage);
                self.plan.starts.push(start);
                self.continue_class(queue, pending, entry, next);
                self.picture.queues.order_mut(queue).note_started(group);
                Outcome::Continue
            }
            Step::AtLimit(id, limit, next) => {
                self.plan.at_limit.push((id, limit));
                self.continue_class(queue, pending, entry, next);
                Outcome::Continue
            }
            Step::Passed(next) => {
                self.continue_class(queue, pending, entry, next);
                Outcome::Continue
            }
            Step::Reserved(reason, next) => {
                self.plan
                    .reasons
                    .extend(reason.map(|why| (entry.class, why)));
                if self.config().queues[at].strict
                    && !self.picture.queues.reserve_policy(queue).may_backfill
                {
                    return Outcome::Stop;
                }
                if self.may_reserve(self.picture.queues.reserve_policy(queue).depth) {
                    self.continue_class(queue, pending, entry, next);
                    return Outcome::Continue;
                }
                self.picture.queues.order_mut(queue).skip(group, entry);
                match self.picture.queues.reserve_policy(queue).shortest_first {
                    true => Outcome::ShortestFirst,
                    false => Outcome::Continue,
                }
            }
            Step::Blocked(reason) => {
                self.give_up_claims(entry.class, reason.as_ref());
                if reason.is_some() {
                    self.note_explained(entry.class);
                }
                self.plan
                    .reasons
                    .extend(reason.map(|why| (entry.class, why)));
                self.picture.queues.order_mut(queue).skip(group, entry);
                Outcome::Continue
            }
            Step::NoPlace(reason) => {
                self.plan
                    .reasons
                    .extend(reason.map(|why| (entry.class, why)));
                self.picture.queues.order_mut(queue).skip(group, entry);
                self.after_blocked(queue)
            }
        }
    }

    /// How the pass continues after a class for which no hosts were found.
    fn after_blocked(&mut self, queue: u16) -> Outcome {
        let at = usize::from(queue);
        if self.config().queues[at].strict {
            return Outcome::Stop;
        }
        let may_act = self.may_reserve(self.picture.queues.reserve_policy(queue).depth)
            || self.config().queues[at].preemption.is_some();
        if !may_act
            && (self.picture.usage.free() <= 0 || !self.all_classes && self.all_failed(queue))
        {
            self.exhausted[at] = true;
        }
        Outcome::Continue
    }

    /// Whether it is known for every kind of request in a queue that there are no hosts for it.
    fn all_failed(&self, queue: u16) -> bool {
        let mut alike = self.picture.queues.pending_kinds(queue);
        // As long as there are few kinds, checking them costs less than considering each class.
        alike.len() <= FEW_KINDS
            && alike.all(|(shape, on_hosts)| {
                let shape = self.shape(*shape);
                let freed = self
                    .picture
                    .usage
                    .last_freed()
                    .max(self.picture.quotas.last_freed_on_hosts(*on_hosts));
                shape.has_no_place(*on_hosts, freed)
            })
    }

    /// Whether it is known without a search that there are no hosts for any job of the class.
    fn is_known_unplaceable(&self, pending: &PendingClass) -> bool {
        let depth = self.reserve_policy(pending).depth;
        if self.all_classes || self.may_reserve(depth) || self.may_preempt(pending) {
            return false;
        }
        if i64::from(pending.min) > self.picture.usage.free() {
            return true;
        }
        let entry = self.picture.requests.entry(pending.shape);
        if !entry.shape.timed && self.known_failure(pending).is_some() {
            return true;
        }
        if pending.length.depends_on_host() {
            return false;
        }
        let worse =
            |(min, estimate): &(u32, i64)| pending.min >= *min && pending.estimate >= *estimate;
        self.memory
            .failed_sizes
            .get(&entry.family)
            .is_some_and(|known| known.iter().any(worse))
    }

    /// Continues the class with its next job in this pass.
    fn continue_class(
        &mut self,
        queue: u16,
        pending: &mut PendingClass,
        entry: QueueEntry,
        next: Option<NextJob>,
    ) {
        let entry_of = |(order, j, _): NextJob| {
            self.picture
                .entry_of(self.state, pending.priority, order, j, entry.class)
        };
        let new = next.map(entry_of);
        pending.progress.first_index = next.map_or(0, |(_, _, from)| from);
        self.picture
            .queues
            .order_mut(queue)
            .replace(pending.group, Some(entry), new);
        pending.progress.entry = new;
        if !std::mem::replace(&mut pending.progress.has_advanced, true) {
            self.picture.classes.note_moved(entry.class);
        }
    }

    fn try_class(&mut self, pending: &PendingClass, entry: QueueEntry) -> Step {
        if let Err((reason, at)) = self.start_condition(pending) {
            self.plan.wake_at(at);
            return Step::Blocked(Some(reason));
        }
        let Some((j, more)) = self.element(pending, entry.j) else {
            let array = self.state.job(entry.j.id).and_then(|job| job.array());
            let limit = array.map_or(0, |array| array.limit);
            return Step::AtLimit(entry.j.id, limit, following(self.state, pending, entry));
        };
        let next = |more: bool| match more {
            true => Some((entry.order, entry.j, j.idx + 1)),
            false => following(self.state, pending, entry),
        };
        if let Some((why, at)) = self.submit_delay(pending, j) {
            self.plan.wake_at(Some(at));
            return Step::Blocked(Some(why));
        }
        let most = match self.max_slots(pending) {
            Ok(most) => most,
            Err(reason) => return Step::Blocked(Some(reason)),
        };
        if !self.may_reserve_now(j) && !self.may_preempt(pending) {
            return Step::Reserved(None, next(more));
        }
        let opens = self.note_waiting(pending.shape, j);
        if let Some(at) = self.avoid_for(pending, j) {
            self.plan.wake_at(Some(at));
            return Step::Passed(next(more));
        }
        let found = match self.find_avoiding(pending, j, most) {
            Some(Ok(found)) => found,
            Some(Err(why)) => return Step::Blocked(Some(why)),
            None => return Step::Passed(next(more)),
        };
        match found {
            Ok((alt, placed)) => {
                let hosts = placed
                    .iter()
                    .map(|(at, n)| (self.table.id_at(*at as usize), *n));
                let hosts = hosts.collect();
                let Some(ChosenUnits { units, held }) = self.units_of_start(pending, alt, &placed)
                else {
                    return Step::NoPlace(None);
                };
                let start = Start {
                    j,
                    hosts,
                    alt,
                    units,
                };
                let usage = StartUsage {
                    hosts: placed,
                    held,
                };
                Step::Start(start, usage, next(more))
            }
            Err(short) => {
                self.plan.wake_at(opens);
                let reserved = !short.personal && self.reserve(pending, j);
                let reason = self.explain(class_of(self.state, entry), pending, short);
                self.note_explained(entry.class);
                match reserved {
                    true => Step::Reserved(reason, next(more)),
                    false => Step::NoPlace(reason),
                }
            }
        }
    }

    /// The element (or job) to start, and whether the same entry has more. `None`: the array is at
    /// its limit.
    pub(super) fn element(&self, pending: &PendingClass, j: JobKey) -> Option<(JobKey, bool)> {
        if j.idx == 0 && !pending.arrays {
            return Some((j, false));
        }
        let job = self.state.job(j.id)?;
        let Some(array) = job.array() else {
            return Some((j, false));
        };
        let started_now = self.array_started.get(&job.id).copied().unwrap_or(0);
        if array.limit > 0 && array.started() + started_now >= array.limit {
            return None;
        }
        if j.idx > 0 {
            return Some((j, false));
        }
        let idx = array.waiting.first_from(pending.progress.first_index)?;
        let more = array.waiting.first_from(idx + 1).is_some();
        Some((JobKey::element(job.id, idx), more))
    }

    /// Resets the entry of a class to its first job in the state.
    fn restore_entry(&mut self, id: u32) {
        if !self
            .picture
            .classes
            .get(id)
            .is_some_and(|pending| pending.progress.has_advanced)
        {
            return;
        }
        let Some(mut pending) = self.picture.classes.take_out(id) else {
            return;
        };
        let head = pending.first_jobs.first().copied();
        let head = head.map(|(order, j)| {
            self.picture
                .entry_of(self.state, pending.priority, order, j, id)
        });
        self.picture.queues.set_entry(&pending, head);
        pending.progress.entry = head;
        (pending.progress.first_index, pending.progress.has_advanced) = (0, false);
        self.picture.classes.put(id, pending);
    }
}

fn class_of(state: &State, entry: QueueEntry) -> &Class {
    let class = state.pending().class(entry.class);
    class.expect("pending classes exist")
}

/// The next job of the class after that of an entry.
fn following(state: &State, pending: &PendingClass, entry: QueueEntry) -> Option<NextJob> {
    let this = (entry.order, entry.j);
    let next = pending
        .first_jobs
        .iter()
        .copied()
        .find(|entry| *entry > this);
    let next = match pending.first_jobs.len() < FIRST_JOBS {
        true => next,
        false => next.or_else(|| class_of(state, entry).jobs.after(this)),
    };
    next.map(|(order, j)| (order, j, 0))
}
