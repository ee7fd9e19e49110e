//! One pass: classes get their turn in order, what fits is booked and decided. A class that cannot
//! start is passed over with the reason; nothing is held by a job that does not start.

use super::engine::{Bucket, Engine, Held, amounts};
use super::hosts::HostTable;
use super::line::{Place, Turn};
use super::place::{self, Short, Spot};
use super::shape::View;
use super::share::Delta;
use super::{Plan, Start};
use crate::model::{JobKey, PendReason, Stamp};
use crate::state::{Class, State};
use smallvec::SmallVec;

/// Costs that change with time are brought up to date this often.
const SWEEP_MS: u64 = 10_000;

/// What became of a class's turn.
enum Step {
    /// Its job starts; the class's next turn, if it has more jobs.
    Start(Start, Option<Next>),
    /// This array has as many elements started as it may; the class goes on with the next job.
    AtLimit(u32, u32, Option<Next>),
    /// No job of the class can start in this pass.
    Blocked(Option<PendReason>),
}

/// The job behind the present one: its order, itself, the element to go on with.
type Next = (i64, JobKey, u32);

impl Engine {
    /// Decides at most `max` starts, books them, and says why the others wait. The caller must
    /// carry the plan out, or make the engine anew.
    pub fn plan(&mut self, state: &State, table: &HostTable, now: Stamp, max: usize) -> Plan {
        let mut plan = Plan::default();
        self.rewind(state, now);
        'tiers: for tier in 0..self.tiers.len() {
            while let Some((line, turn)) = self.peek(tier) {
                if plan.starts.len() >= max {
                    plan.more = true;
                    break 'tiers;
                }
                if self.books.free() <= 0 {
                    break 'tiers;
                }
                self.step(state, table, now, line, turn, &mut plan);
            }
        }
        self.explain_fresh(state, table, now, &mut plan);
        self.array_started.clear();
        plan
    }

    /// Puts the lines back to their starts.
    fn rewind(&mut self, state: &State, now: Stamp) {
        for class in std::mem::take(&mut self.moved) {
            self.restore_turn(state, class);
        }
        for line in &mut self.lines {
            line.rewind();
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
        let lines = &mut self.lines;
        let turns = tier
            .iter()
            .filter_map(|at| Some((*at, lines[usize::from(*at)].peek()?)));
        turns.min_by_key(|(at, turn)| (turn.rank, turn.order, *at))
    }

    fn step(
        &mut self,
        state: &State,
        table: &HostTable,
        now: Stamp,
        line: u16,
        turn: Turn,
        plan: &mut Plan,
    ) {
        let class = state
            .pending()
            .class(turn.class)
            .expect("classes in line exist");
        let mut bucket = self
            .buckets
            .remove(&turn.class)
            .expect("classes in line have one");
        let step = self.try_class(state, table, now, class, &bucket, turn, plan);
        let place = bucket.place;
        match step {
            Step::Start(start, next) => {
                self.book_start(table, &bucket, &start, now);
                plan.starts.push(start);
                self.go_on(line, &mut bucket, turn, next);
                self.lines[usize::from(line)].served(place);
            }
            Step::AtLimit(id, limit, next) => {
                plan.at_limit.push((id, limit));
                self.go_on(line, &mut bucket, turn, next);
            }
            Step::Blocked(reason) => {
                plan.reasons.extend(reason.map(|why| (turn.class, why)));
                self.lines[usize::from(line)].pass_over(place, turn);
            }
        }
        self.buckets.insert(turn.class, bucket);
    }

    /// The class goes on with its next job in this pass.
    fn go_on(&mut self, line: u16, bucket: &mut Bucket, turn: Turn, next: Option<Next>) {
        let new = next.map(|(order, j, _)| Turn { order, j, ..turn });
        bucket.from = next.map_or(0, |(_, _, from)| from);
        self.lines[usize::from(line)].replace(bucket.place, Some(turn), new);
        bucket.turn = new;
        self.moved.push(turn.class);
    }

    fn try_class(
        &mut self,
        state: &State,
        table: &HostTable,
        now: Stamp,
        class: &Class,
        bucket: &Bucket,
        turn: Turn,
        plan: &mut Plan,
    ) -> Step {
        if let Err((reason, at)) = self.gate(state, bucket, now) {
            plan.wake_at(at);
            return Step::Blocked(Some(reason));
        }
        let Some((j, more)) = self.element(state, turn.j, bucket.from) else {
            let array = state.job(turn.j.id).and_then(|job| job.array());
            let limit = array.map_or(0, |array| array.limit);
            return Step::AtLimit(turn.j.id, limit, following(class, turn));
        };
        let most = match self.room(bucket) {
            Ok(most) => most,
            Err(reason) => return Step::Blocked(Some(reason)),
        };
        match self.find(table, bucket, most) {
            Ok(spot) => {
                let hosts = spot
                    .iter()
                    .map(|(at, n)| (table.at(*at as usize).id, *n))
                    .collect();
                let next = match more {
                    true => Some((turn.order, turn.j, j.idx + 1)),
                    false => following(class, turn),
                };
                Step::Start(Start { j, hosts, alt: 0 }, next)
            }
            Err(short) => Step::Blocked(self.explain(table, class, bucket, short, now)),
        }
    }

    /// What keeps the class from being looked at, whatever is free, and until when if that is
    /// known.
    pub(super) fn gate(
        &self,
        state: &State,
        bucket: &Bucket,
        now: Stamp,
    ) -> Result<(), (PendReason, Option<Stamp>)> {
        let slot = self.shape(bucket.shape);
        if let Some(why) = &slot.shape.bad {
            return Err((PendReason::NeverFits { why: why.clone() }, None));
        }
        if let Some(queue) = bucket
            .queue
            .map(|at| &self.config().queues[usize::from(at)])
            && !state.queue_ctl(&queue.name).active
        {
            let queue = queue.name.clone();
            return Err((PendReason::QueueInactive { queue }, None));
        }
        match bucket.begin {
            Some(at) if at > now => Err((PendReason::BeginTime { at: at.0 }, Some(at))),
            _ => Ok(()),
        }
    }

    /// The element (or job) to start and whether the same entry has more. `None`: its array is at
    /// its limit.
    fn element(&self, state: &State, j: JobKey, from: u32) -> Option<(JobKey, bool)> {
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
        let idx = array.waiting.first_from(from)?;
        let more = array.waiting.first_from(idx + 1).is_some();
        Some((JobKey::element(job.id, idx), more))
    }

    /// Most slots the job may get by limits that do not depend on the host.
    fn room(&self, bucket: &Bucket) -> Result<u32, PendReason> {
        let request = &self.shape(bucket.shape).shape.request;
        let need = request.min.max(1);
        let mut most = request.max.max(need);
        let mut cut = |limit: Option<u32>, used: u32| match limit {
            Some(limit) if used + need > limit => Err(limit),
            Some(limit) => {
                most = most.min(limit - used);
                Ok(())
            }
            None => Ok(()),
        };
        if let Some(at) = bucket.queue {
            let queue = &self.config().queues[usize::from(at)];
            let name = || queue.name.clone();
            cut(queue.slots, self.in_use.queue[usize::from(at)]).map_err(|limit| {
                let queue = name();
                PendReason::QueueSlots { queue, limit }
            })?;
            if queue.user_slots.is_some() {
                let used = self
                    .in_use
                    .queue_user
                    .get(&(at, bucket.uid))
                    .copied()
                    .unwrap_or(0);
                cut(queue.user_slots, used).map_err(|limit| {
                    let queue = name();
                    PendReason::QueueUserSlots { queue, limit }
                })?;
            }
        }
        if bucket.user_max.is_some() {
            let used = self.in_use.user.get(&bucket.uid).copied().unwrap_or(0);
            let user = &bucket.user;
            cut(bucket.user_max, used).map_err(|limit| {
                let user = user.clone();
                PendReason::UserSlots { user, limit }
            })?;
        }
        Ok(most)
    }

    /// Finds hosts for the class's next job.
    fn find(&mut self, table: &HostTable, bucket: &Bucket, most: u32) -> Result<Spot, Short> {
        let freed = self.books.freed();
        let slot = self.shapes[bucket.shape as usize]
            .as_mut()
            .expect("buckets hold their shape");
        if let Some((at, got)) = slot.shape.rank.failed
            && at >= freed
        {
            let personal = false;
            return Err(Short { got, personal });
        }
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
        };
        let uid = bucket.uid;
        let mut room = |at: usize, can: u32| match table.at(at).entry.user_slots {
            Some(limit) => can.min(limit.saturating_sub(books.get(at).user_used(uid))),
            None => can,
        };
        let found = place::find(&mut slot.shape, &view, most, &mut room);
        if let Err(short) = found
            && !short.personal
        {
            slot.shape.rank.failed = Some((books.now(), short.got));
        }
        found
    }

    fn book_start(&mut self, table: &HostTable, bucket: &Bucket, start: &Start, now: Stamp) {
        let slot = self.shapes[bucket.shape as usize]
            .as_mut()
            .expect("buckets hold their shape");
        slot.refs += 1;
        let parts: SmallVec<_> = start
            .hosts
            .iter()
            .map(|(id, n)| {
                let at = table.position(*id).expect("placed on hosts of the table");
                (at as u32, slot.shape.bundle(*n))
            })
            .collect();
        let held = Held {
            shape: bucket.shape,
            queue: bucket.queue,
            uid: bucket.uid,
            slots: start.hosts.iter().map(|(_, n)| n).sum(),
            parts,
            exclusive: slot.shape.request.exclusive,
            lent: false,
            charge: None,
        };
        let held = Held {
            charge: match bucket.place {
                Place::Leaf(leaf) => {
                    let delta = Delta::start(held.slots, now);
                    Some((leaf, delta.holding(&amounts(&held.parts))))
                }
                _ => None,
            },
            ..held
        };
        self.book(&held, true);
        self.held.insert(start.j, held);
        if start.j.idx > 0 {
            *self.array_started.entry(start.j.id).or_default() += 1;
        }
    }

    /// A class's first turn, as the state has it.
    fn restore_turn(&mut self, state: &State, id: u32) {
        let head = state.pending().class(id).and_then(|class| {
            let (order, j) = class.jobs.first().copied()?;
            Some(self.turn_of(state, class, order, j, id))
        });
        let Some(mut bucket) = self.buckets.remove(&id) else {
            return;
        };
        if let Some(queue) = bucket.queue {
            self.lines[usize::from(queue)].replace(bucket.place, bucket.turn, head);
        }
        bucket.turn = head;
        bucket.from = 0;
        self.buckets.insert(id, bucket);
    }
}

/// The class's next turn behind a job.
fn following(class: &Class, turn: Turn) -> Option<Next> {
    use std::ops::Bound::{Excluded, Unbounded};
    let behind = (Excluded((turn.order, turn.j)), Unbounded);
    let (order, j) = class.jobs.range(behind).next()?;
    Some((*order, *j, 0))
}
