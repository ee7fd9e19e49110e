//! Making room for a job by stopping others of queues that its queue may preempt: by whole job,
//! only when it is enough, none more than needed. Owns the claims of jobs that wait for their
//! victims; who is resumed is `guard.rs`'s affair.
//!
//! Victims are tried out on the books: taken off in order until the job fits, then put back one by
//! one where it still fits. What is found is exactly what the search of `place.rs` finds there.

use super::Plan;
use super::backfill::Reserver;
use super::balance::Holder;
use super::engine::{Bucket, Engine};
use super::held::Held;
use super::hosts::HostTable;
use super::placement::{Found, Short};
use crate::config::{PreemptMethod, PreemptOrder, Preemption};
use crate::model::{JobKey, JobStat, PendReason, Stamp, SuspReason, TermReason};
use crate::state::{Run, State};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most jobs that search for victims in one pass.
const SEARCHES_MAX: u32 = 64;
/// Most running jobs of a queue that are looked at as victims, the latest ones.
const VICTIMS_MAX: usize = 4096;

/// A job that waits for its victims.
#[derive(Debug)]
struct Claim {
    victims: Vec<JobKey>,
    /// What is kept for it, and in whose name.
    parts: SmallVec<[(u32, super::amount::Bundle); 1]>,
    who: Holder,
    /// It is booked.
    booked: bool,
    /// When the victims are stopped; `None`: they are being ended.
    due: Option<Stamp>,
}

/// Claims, and what failed lately.
#[derive(Debug, Default)]
pub(super) struct Raids {
    claims: BTreeMap<JobKey, Claim>,
    /// Victims of claims.
    marked: BTreeSet<JobKey>,
    /// Shapes for which no victims were found, with the log of changed hosts as it was then.
    futile: HashMap<u32, u64>,
    searches: u32,
}

impl Raids {
    /// For other books, in which hosts, queues and resources may have other numbers: the jobs go on
    /// waiting for their victims, without a place of their own.
    pub fn renewed(mut self) -> Raids {
        self.futile.clear();
        for claim in self.claims.values_mut() {
            claim.parts.clear();
            claim.booked = false;
        }
        self
    }

    /// The wall clock was set forward or back by `by_ms`.
    pub fn shift(&mut self, by_ms: i64) {
        for due in self
            .claims
            .values_mut()
            .filter_map(|claim| claim.due.as_mut())
        {
            due.0 = due.0.saturating_add(by_ms);
        }
    }

    /// Jobs that wait for their victims.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.claims.len()
    }

    /// Slots kept for them, by host.
    #[cfg(test)]
    pub fn kept(&self) -> Vec<(u32, i64)> {
        let booked = self.claims.values().filter(|claim| claim.booked);
        let parts = booked.flat_map(|claim| &claim.parts);
        parts.map(|(at, bundle)| (*at, bundle.slots)).collect()
    }

    fn drop_claim(&mut self, j: JobKey) -> Option<Claim> {
        let claim = self.claims.remove(&j)?;
        for victim in &claim.victims {
            self.marked.remove(victim);
        }
        Some(claim)
    }
}

/// What came of trying to make room.
enum Raid {
    /// There is room now.
    Room(Found),
    /// The job waits for its victims.
    Waits(PendReason),
    /// Nobody can be stopped for it.
    Futile,
}

/// A job that may be stopped, in the order in which that is done.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Victim {
    /// Least preferred queue, lowest queue priority, lowest job priority.
    level: (Reverse<u32>, u32, u16, u32),
    /// Most slots first, then least work lost; or nothing, if the youngest goes first.
    cost: (Reverse<i64>, u64),
    young: Reverse<(Stamp, JobKey)>,
}

impl Victim {
    fn j(&self) -> JobKey {
        self.young.0.1
    }
}

impl Engine {
    fn preemption(&self, queue: Option<u16>) -> Option<&Preemption> {
        self.config().queues[usize::from(queue?)]
            .preemption
            .as_ref()
    }

    /// Some queue of the tier may preempt: its jobs have their turn even if nothing is free.
    pub(super) fn tier_preempts(&self, tier: usize) -> bool {
        let mut queues = self.tiers[tier].iter();
        queues.any(|at| self.preemption(Some(*at)).is_some())
    }

    /// Forgets claims of jobs that wait no more; keeps what the others claim.
    pub(super) fn look_at_claims(&mut self, state: &State, now: Stamp, plan: &mut Plan) {
        self.raids.searches = 0;
        if self.raids.claims.is_empty() {
            return;
        }
        let keys: Vec<JobKey> = self.raids.claims.keys().copied().collect();
        for j in keys {
            self.unbook_claim(j);
            let waits = state.stat(j) == Some(JobStat::Pend);
            if !waits || !self.may_preempt(state, j) {
                self.raids.drop_claim(j);
                continue;
            }
            let held = &self.held;
            let claim = self.raids.claims.get_mut(&j).expect("listed");
            claim.victims.retain(|victim| held.contains_key(victim));
            plan.wake_at(claim.due.filter(|at| *at > now));
            self.book_claim(j);
        }
    }

    /// The job's queue is still there, and one that preempts.
    fn may_preempt(&self, state: &State, j: JobKey) -> bool {
        let queue = state.spec_of(j.id).map(|spec| spec.queue.as_str());
        let mut queues = self.config().queues.iter();
        queues.any(|q| Some(q.name.as_str()) == queue && q.preemption.is_some())
    }

    /// Jobs of a class that may not start, whatever is free, keep nothing from others; unless it is
    /// their victims that they wait for.
    pub(super) fn give_up_claims(&mut self, state: &State, class: u32, why: Option<&PendReason>) {
        if self.raids.claims.is_empty() || matches!(why, Some(PendReason::Preempting { .. })) {
            return;
        }
        let of_class = |j: &&JobKey| {
            let spec = state.job(j.id).map(|job| job.spec);
            spec.is_some_and(|spec| state.class_of(spec) == class)
        };
        let keys: Vec<JobKey> = self.raids.claims.keys().filter(of_class).copied().collect();
        for j in keys {
            let claim = self.raids.drop_claim(j).expect("listed");
            if claim.booked {
                self.shift(&claim.parts, claim.who, false);
            }
        }
    }

    /// The pass ends early for a job that found no place. What others keep whose victims are gone,
    /// and whose turn does not come, may be what it needs.
    pub(super) fn give_up_idle_claims(&mut self, plan: &mut Plan) {
        let idle = |(_, claim): &(&JobKey, &Claim)| claim.booked && claim.victims.is_empty();
        let idle = self.raids.claims.iter().filter(idle);
        let keys: Vec<JobKey> = idle.map(|(j, _)| *j).collect();
        for j in keys {
            let claim = self.raids.drop_claim(j).expect("listed");
            self.shift(&claim.parts, claim.who, false);
            plan.wake_at(Some(Stamp(self.now.0 + 1)));
        }
    }

    fn shift(&mut self, parts: &[(u32, super::amount::Bundle)], who: Holder, plus: bool) {
        for (at, bundle) in parts {
            self.books.book(*at as usize, bundle, who, plus);
        }
    }

    /// Keeps what a job claims, if it has a claim.
    fn book_claim(&mut self, j: JobKey) {
        if let Some(mut claim) = self.raids.claims.remove(&j) {
            if !claim.booked {
                self.shift(&claim.parts, claim.who, true);
                claim.booked = true;
            }
            self.raids.claims.insert(j, claim);
        }
    }

    /// Takes a job's claim off the books, for the job's own turn.
    fn unbook_claim(&mut self, j: JobKey) {
        if self.raids.claims.is_empty() {
            return;
        }
        if let Some(mut claim) = self.raids.claims.remove(&j) {
            if claim.booked {
                let mark = self.books.freed();
                self.shift(&claim.parts, claim.who, false);
                // Only the job itself may look again.
                self.books.unfree(mark);
                claim.booked = false;
            }
            self.raids.claims.insert(j, claim);
        }
    }

    /// A closer look at jobs of the class may help although nothing is free.
    pub(super) fn may_raid(&self, bucket: &Bucket) -> bool {
        self.preemption(bucket.queue).is_some()
            && self.raids.futile.get(&bucket.shape) != Some(&self.books.now())
    }

    /// Finds a place for a job, or makes room for it.
    ///
    /// # Errors
    /// That it waits for those it preempts.
    pub(super) fn find_or_raid(
        &mut self,
        state: &State,
        table: &HostTable,
        bucket: &Bucket,
        j: JobKey,
        most: u32,
        plan: &mut Plan,
    ) -> Result<Result<Found, Short>, PendReason> {
        let claims = !self.raids.claims.is_empty() && self.raids.claims.contains_key(&j);
        let found = match claims {
            false => self.find(table, bucket, most),
            true => {
                self.unbook_claim(j);
                let mut personal = false;
                let found = self.find_anew(table, bucket, most, &mut personal, &mut false);
                found.map_err(|short| Short { personal, ..short })
            }
        };
        let short = match found {
            Ok(spot) => {
                // Whom it had chosen is left alone.
                if claims {
                    self.raids.drop_claim(j);
                }
                return Ok(Ok(spot));
            }
            Err(short) => short,
        };
        if short.personal {
            self.book_claim(j);
            return Ok(Err(short));
        }
        match self.raid(state, table, bucket, j, self.now, plan) {
            Raid::Room(spot) => Ok(Ok(spot)),
            Raid::Waits(why) => Err(why),
            Raid::Futile => Ok(Err(short)),
        }
    }

    /// Makes room for a job that found none.
    fn raid(
        &mut self,
        state: &State,
        table: &HostTable,
        bucket: &Bucket,
        j: JobKey,
        now: Stamp,
        plan: &mut Plan,
    ) -> Raid {
        let Some(rules) = self.preemption(bucket.queue).cloned() else {
            self.raids.drop_claim(j);
            return Raid::Futile;
        };
        if let Some(claim) = self.raids.claims.get(&j) {
            let victims = u32::try_from(claim.victims.len()).unwrap_or(u32::MAX);
            if victims > 0 && claim.due.is_none_or(|due| now < due) {
                self.book_claim(j);
                return Raid::Waits(PendReason::Preempting { victims });
            }
            let due = claim.due.is_some();
            let claim = self.raids.drop_claim(j).expect("just looked at");
            let live = |victim: &JobKey| self.may_stop(state, &rules, *victim).is_some();
            if due && claim.victims.iter().all(live) {
                let victims = claim.victims;
                if let Some((victims, spot)) = self.least(table, bucket, &rules, victims) {
                    return self.strike((table, bucket), j, &rules, victims, spot, plan);
                }
            }
        }
        self.search((state, table), bucket, j, &rules, now, plan)
    }

    fn search(
        &mut self,
        (state, table): (&State, &HostTable),
        bucket: &Bucket,
        j: JobKey,
        rules: &Preemption,
        now: Stamp,
        plan: &mut Plan,
    ) -> Raid {
        let end = self.books.now();
        if self.raids.futile.get(&bucket.shape) == Some(&end) || !self.worth_it(bucket, rules) {
            return Raid::Futile;
        }
        if self.raids.searches >= SEARCHES_MAX {
            return Raid::Futile;
        }
        self.raids.searches += 1;
        let victims = self.victims(state, table, bucket, rules, now);
        let found = self.least(table, bucket, rules, victims);
        let Some((victims, spot)) = found else {
            self.raids.futile.insert(bucket.shape, self.books.now());
            return Raid::Futile;
        };
        if rules.grace_ms == 0 {
            return self.strike((table, bucket), j, rules, victims, spot, plan);
        }
        let due = now.plus_ms(rules.grace_ms);
        plan.warns
            .extend(victims.iter().map(|victim| (*victim, due)));
        plan.wake_at(Some(due));
        self.claim(table, bucket, j, victims, &spot, Some(due))
    }

    /// Enough slots in all: the cheap part of not being futile.
    fn worth_it(&self, bucket: &Bucket, rules: &Preemption) -> bool {
        let need = i64::from(self.shape(bucket.shape).shape.request.min.max(1));
        let queues = &self.config().queues;
        let of = |name: &str| queues.iter().position(|q| q.name == name);
        let victims = rules.victims.iter().filter_map(|v| of(&v.queue));
        let theirs: i64 = victims.map(|at| self.watch.slots(at as u16)).sum();
        theirs > 0 && self.books.free() + theirs >= need
    }

    /// Work that may be stopped for others now.
    fn may_stop<'a>(&self, state: &'a State, rules: &Preemption, j: JobKey) -> Option<&'a Run> {
        let work = state.work(j).filter(|work| work.stat == JobStat::Run)?;
        let run = work.run.as_deref()?;
        let held = self.held.get(&j)?;
        // Stopped exclusive work would still be in the way of all others.
        let stuck = held.exclusive && rules.method == PreemptMethod::Suspend;
        let free = run.killing.is_none() && run.halt.is_none() && !run.forced;
        let marked = held.halted || self.raids.marked.contains(&j);
        (free && !marked && !stuck).then_some(run)
    }

    /// Everybody who may be stopped and is where that helps, first who is stopped first.
    fn victims(
        &self,
        state: &State,
        table: &HostTable,
        bucket: &Bucket,
        rules: &Preemption,
        now: Stamp,
    ) -> Vec<JobKey> {
        let shape = &self.shape(bucket.shape).shape;
        let need = i64::from(shape.request.min.max(1));
        let view = self.view(table);
        let mut fits: HashMap<u32, bool> = HashMap::new();
        let mut useful = |at: u32| {
            *fits.entry(at).or_insert_with(|| {
                let open = self.books.get(at as usize).open;
                open && shape.fits_some(&view, at as usize)
            })
        };
        let mut victims = Vec::new();
        for theirs in &rules.victims {
            let queues = &self.config().queues;
            let Some(at) = queues.iter().position(|q| q.name == theirs.queue) else {
                continue;
            };
            let on = self.watch.on(at).into_iter().flatten().rev();
            for j in on.take(VICTIMS_MAX).copied() {
                let Some(run) = self.may_stop(state, rules, j) else {
                    continue;
                };
                let parts = self.held[&j].parts.iter();
                let gain: i64 = parts
                    .filter(|(at, _)| useful(*at))
                    .map(|(_, b)| b.slots)
                    .sum();
                if gain == 0 {
                    continue;
                }
                let priority = state.spec_of(j.id).map_or(0, |spec| spec.priority);
                let ran = now.since_ms(run.dispatch).saturating_sub(run.suspended_ms);
                let lost = ran.saturating_mul(u64::from(run.slots()));
                let (priority, cost) = match rules.order {
                    PreemptOrder::LeastPriority => (priority, (Reverse(gain.min(need)), lost)),
                    PreemptOrder::Youngest => (0, (Reverse(0), 0)),
                };
                victims.push(Victim {
                    level: (
                        Reverse(theirs.preference),
                        queues[at].priority,
                        at as u16,
                        priority,
                    ),
                    cost,
                    young: Reverse((run.dispatch, j)),
                });
            }
        }
        victims.sort_unstable();
        victims.iter().map(Victim::j).collect()
    }

    /// The victims that are needed, and the place they make; `None`: all of them are not enough, or
    /// more are needed than the queue allows. Nothing is changed.
    fn least(
        &mut self,
        table: &HostTable,
        bucket: &Bucket,
        rules: &Preemption,
        order: Vec<JobKey>,
    ) -> Option<(Vec<JobKey>, Found)> {
        let mark = self.books.freed();
        let mut trial = Trial {
            suspend: rules.method == PreemptMethod::Suspend,
            off: BTreeSet::new(),
        };
        let found = self.try_out(table, bucket, &mut trial, order);
        for j in std::mem::take(&mut trial.off) {
            self.set_trial(&mut trial, j, false);
        }
        self.books.unfree(mark);
        let most = rules.max_victims.map_or(usize::MAX, |n| n as usize);
        found.filter(|(victims, _)| victims.len() <= most)
    }

    fn try_out(
        &mut self,
        table: &HostTable,
        bucket: &Bucket,
        trial: &mut Trial,
        order: Vec<JobKey>,
    ) -> Option<(Vec<JobKey>, Found)> {
        // How many of the first are enough: by doubling, then by halving.
        let (mut few, mut enough) = (0, 1.min(order.len()));
        let mut spot = loop {
            for j in &order[few..enough] {
                self.set_trial(trial, *j, true);
            }
            match self.fits_now(table, bucket) {
                Some(spot) => break spot,
                None if enough == order.len() => return None,
                None => (few, enough) = (enough, (2 * enough).min(order.len())),
            }
        };
        while enough - few > 1 {
            let half = few + (enough - few) / 2;
            for j in &order[half..enough] {
                self.set_trial(trial, *j, false);
            }
            match self.fits_now(table, bucket) {
                Some(found) => (spot, enough) = (found, half),
                None => {
                    few = half;
                    for j in &order[half..enough] {
                        self.set_trial(trial, *j, true);
                    }
                }
            }
        }
        let mut needed: Vec<JobKey> = order[..enough].to_vec();
        // Those elsewhere go back at once, the others one by one, the most important first.
        let there = |held: &Held, (_, spot): &Found| {
            let mut parts = held.parts.iter();
            parts.any(|(at, _)| spot.iter().any(|(here, _)| here == at))
        };
        let (here, away): (Vec<JobKey>, Vec<JobKey>) =
            needed.iter().partition(|j| there(&self.held[*j], &spot));
        away.iter().for_each(|j| self.set_trial(trial, *j, false));
        match self.fits_now(table, bucket) {
            Some(found) => (spot, needed) = (found, here),
            None => away.iter().for_each(|j| self.set_trial(trial, *j, true)),
        }
        for at in (0..needed.len()).rev() {
            self.set_trial(trial, needed[at], false);
            match self.fits_now(table, bucket) {
                Some(found) => {
                    spot = found;
                    needed.remove(at);
                }
                None => self.set_trial(trial, needed[at], true),
            }
        }
        Some((needed, spot))
    }

    /// Reservations of jobs that have their turn later do not count.
    fn fits_now(&mut self, table: &HostTable, bucket: &Bucket) -> Option<Found> {
        let need = self.shape(bucket.shape).shape.request.min.max(1);
        let first = |r: &Reserver| r.book.confirmed() == 0;
        let aside = self.reserver.take_if(|r| first(r));
        let found = self.find_anew(table, bucket, need, &mut false, &mut false);
        if aside.is_some() {
            self.reserver = aside;
        }
        found.ok()
    }

    /// Takes work off the books, as it would be if it were stopped, or puts it back.
    fn set_trial(&mut self, trial: &mut Trial, j: JobKey, off: bool) {
        let held = self.held[&j].clone();
        let mut stopped = held.clone();
        stopped.lent = true;
        self.release(&mut stopped);
        let (out, back) = if off {
            (&held, &stopped)
        } else {
            (&stopped, &held)
        };
        if trial.suspend || off {
            self.shift(&out.parts, out.holder(), false);
        }
        if trial.suspend || !off {
            self.shift(&back.parts, back.holder(), true);
        }
        match off {
            true => trial.off.insert(j),
            false => trial.off.remove(&j),
        };
    }

    /// Stops the victims.
    fn strike(
        &mut self,
        (table, bucket): (&HostTable, &Bucket),
        j: JobKey,
        rules: &Preemption,
        victims: Vec<JobKey>,
        spot: Found,
        plan: &mut Plan,
    ) -> Raid {
        match rules.method {
            PreemptMethod::Suspend => {
                for victim in victims {
                    self.halt(victim, SuspReason::Preempted { by: j }, plan);
                }
                Raid::Room(spot)
            }
            PreemptMethod::Requeue => {
                let ended = victims.iter().map(|victim| (*victim, TermReason::Preempt));
                plan.requeues.extend(ended);
                self.claim(table, bucket, j, victims, &spot, None)
            }
        }
    }

    /// Keeps a place for the job until its victims are gone.
    fn claim(
        &mut self,
        table: &HostTable,
        bucket: &Bucket,
        j: JobKey,
        victims: Vec<JobKey>,
        (alt, spot): &Found,
        due: Option<Stamp>,
    ) -> Raid {
        let shape = &self.shape(bucket.shape).shape;
        let shares: Vec<_> = spot.iter().map(|(at, n)| (Some(*at), *n)).collect();
        let mut parts = shape.way(*alt).bundles(&shares, 0);
        shape.rest_of_units(*alt, table, &mut parts);
        let who = Holder {
            queue: bucket.queue.unwrap_or(u16::MAX),
            uid: bucket.uid,
            exclusive: shape.is_exclusive(*alt),
            lent: false,
        };
        let n = u32::try_from(victims.len()).unwrap_or(u32::MAX);
        self.raids.marked.extend(victims.iter().copied());
        let booked = false;
        let claim = Claim {
            victims,
            parts,
            who,
            booked,
            due,
        };
        self.raids.claims.insert(j, claim);
        self.book_claim(j);
        Raid::Waits(PendReason::Preempting { victims: n })
    }
}

/// Work taken off the books for a while.
struct Trial {
    suspend: bool,
    off: BTreeSet<JobKey>,
}
