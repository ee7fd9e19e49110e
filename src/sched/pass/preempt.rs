//! Making room for a job by stopping others of queues that its queue may preempt: by whole job,
//! only when it is enough, none more than needed. Resuming is decided in `suspend.rs`.
//!
//! Victims are tried out: what they hold is taken off their hosts in order until the job fits, then
//! put back one by one where it still fits. What is found is exactly what the search of
//! `host_search.rs` finds there.

use super::Pass;
use crate::config::{PreemptMethod, PreemptOrder, Preemption};
use crate::model::{JobKey, JobStat, PendReason, Stamp, SuspReason, TermReason};
use crate::sched::allocation::Allocation;
use crate::sched::amount::Bundle;
use crate::sched::host_usage::{ClusterUsage, Holder};
use crate::sched::pending_classes::PendingClass;
use crate::sched::placement::{FoundHosts, Shortfall};
use crate::sched::preemption_search::PreemptionClaim;
use crate::sched::reservations::Reservations;
use crate::state::{Run, State};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// Maximum number of running jobs of a queue that are considered as victims, the latest ones.
const VICTIMS_MAX: usize = 4096;

/// The result of an attempt to preempt.
enum PreemptionOutcome {
    /// There is room now.
    Found(FoundHosts),
    /// The job waits for its victims.
    Waiting(PendReason),
    /// No job can be stopped for it.
    NoVictims,
}

/// A job that may be stopped, in the order in which jobs are stopped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Victim {
    /// Least preferred queue, lowest queue priority, lowest job priority.
    level: (Reverse<u32>, u32, u16, u32),
    /// Most slots first, then the least work lost; empty if the youngest goes first.
    cost: (Reverse<i64>, u64),
    youngest_first: Reverse<(Stamp, JobKey)>,
}

impl Victim {
    fn j(&self) -> JobKey {
        self.youngest_first.0.1
    }
}

impl<'a> Pass<'a> {
    fn preemption(&self, queue: Option<u16>) -> Option<&Preemption> {
        self.config().queues[usize::from(queue?)]
            .preemption
            .as_ref()
    }

    /// Whether some queue of the tier may preempt: its jobs are considered even if nothing is free.
    pub(super) fn tier_preempts(&self, tier: usize) -> bool {
        let mut queues = self.picture.queues.tier(tier).iter();
        queues.any(|at| self.preemption(Some(*at)).is_some())
    }

    /// Takes back the warnings of victims for which no job waits any more.
    pub(super) fn end_warnings(&mut self) {
        let spared = self.memory.preemption.take_unneeded();
        for j in spared {
            let halted = |of: &Self| of.plan.halts.iter().any(|(halted, _)| *halted == j);
            if !halted(self) && is_warned(self.state, j) {
                self.plan.unwarns.push(j);
            }
        }
    }

    /// Drops the claims of jobs that no longer wait; keeps what the others claim.
    pub(super) fn refresh_claims(&mut self) {
        self.memory.preemption.begin_pass();
        let state = self.state;
        let warned = || state.all_started().filter(|j| is_warned(state, *j));
        self.memory.preemption.add_warned(|| warned().collect());
        if self.memory.preemption.is_empty() {
            return;
        }
        let keys = self.memory.preemption.select(|_, _| true);
        for j in keys {
            self.unbook_claim(j);
            let waits = self.state.stat(j) == Some(JobStat::Pend);
            if !waits || !self.queue_preempts(j) {
                self.memory.preemption.drop_claim(j);
                continue;
            }
            let allocation = &self.picture.allocations;
            let claim = self.memory.preemption.get_mut(j).expect("listed");
            claim.victims.retain(|victim| allocation.contains(victim));
            self.plan.wake_at(claim.due.filter(|at| *at > self.now));
            self.book_claim(j);
        }
    }

    /// Whether the job's queue still exists and preempts.
    fn queue_preempts(&self, j: JobKey) -> bool {
        let queue = self.state.spec_of(j.id).map(|spec| spec.queue.as_str());
        let mut queues = self.config().queues.iter();
        queues.any(|q| Some(q.name.as_str()) == queue && q.preemption.is_some())
    }

    /// Drops the claims of a class whose jobs may not start regardless of what is free, except
    /// those of jobs that wait for their victims.
    pub(super) fn give_up_claims(&mut self, class: u32, why: Option<&PendReason>) {
        if self.memory.preemption.is_empty() || matches!(why, Some(PendReason::Preempting { .. })) {
            return;
        }
        let of_class = |j: JobKey, _: &PreemptionClaim| {
            let spec = self.state.job(j.id).map(|job| job.spec);
            spec.is_some_and(|spec| self.state.class_of(spec) == class)
        };
        let keys = self.memory.preemption.select(of_class);
        for j in keys {
            let claim = self.memory.preemption.drop_claim(j).expect("listed");
            if claim.booked {
                book_parts(&mut self.picture.usage, &claim.parts, claim.holder, false);
            }
        }
    }

    /// Drops claims of later jobs whose victims are gone, because the pass ends early for a job
    /// without hosts that may need what they keep.
    pub(super) fn give_up_idle_claims(&mut self) {
        let idle = |_: JobKey, claim: &PreemptionClaim| claim.booked && claim.victims.is_empty();
        let keys = self.memory.preemption.select(idle);
        for j in keys {
            let claim = self.memory.preemption.drop_claim(j).expect("listed");
            book_parts(&mut self.picture.usage, &claim.parts, claim.holder, false);
            self.plan.wake_at(Some(Stamp(self.now.0 + 1)));
        }
    }

    /// Books what a job claims, if it has a claim.
    fn book_claim(&mut self, j: JobKey) {
        if let Some(claim) = self.memory.preemption.get_mut(j)
            && !claim.booked
        {
            book_parts(&mut self.picture.usage, &claim.parts, claim.holder, true);
            claim.booked = true;
        }
    }

    /// Removes the booking of a job's claim from its hosts while the job itself is considered.
    fn unbook_claim(&mut self, j: JobKey) {
        if let Some(claim) = self.memory.preemption.get_mut(j)
            && claim.booked
        {
            let usage = &mut self.picture.usage;
            let mark = usage.last_freed();
            book_parts(usage, &claim.parts, claim.holder, false);
            // Only this job may search again.
            usage.restore_freed(mark);
            claim.booked = false;
        }
    }

    /// Whether preemption may find hosts for jobs of the class although nothing is free.
    pub(super) fn may_preempt(&self, pending: &PendingClass) -> bool {
        self.preemption(pending.queue).is_some()
            && !self
                .memory
                .preemption
                .has_no_victims(pending.shape, self.picture.usage.log_end())
    }

    /// Finds hosts for a job, or preempts for it.
    ///
    /// # Errors
    /// Returns the reason if the job waits for its victims.
    pub(super) fn find_or_preempt(
        &mut self,
        pending: &PendingClass,
        j: JobKey,
        most: u32,
    ) -> Result<Result<FoundHosts, Shortfall>, PendReason> {
        let has_claim = self.memory.preemption.contains(j);
        let found = match has_claim {
            false => self.find(pending, most),
            true => {
                self.unbook_claim(j);
                let mut personal = false;
                let found = self.search_hosts(pending, most, &mut personal, &mut false);
                found.map_err(|short| Shortfall { personal, ..short })
            }
        };
        let short = match found {
            Ok(found_hosts) => {
                // Its chosen victims continue to run.
                if has_claim {
                    self.memory.preemption.drop_claim(j);
                }
                return Ok(Ok(found_hosts));
            }
            Err(short) => short,
        };
        if short.personal {
            self.book_claim(j);
            return Ok(Err(short));
        }
        match self.preempt(pending, j) {
            PreemptionOutcome::Found(found_hosts) => Ok(Ok(found_hosts)),
            PreemptionOutcome::Waiting(why) => Err(why),
            PreemptionOutcome::NoVictims => Ok(Err(short)),
        }
    }

    /// Preempts for a job for which no hosts were found.
    fn preempt(&mut self, pending: &PendingClass, j: JobKey) -> PreemptionOutcome {
        let Some(rules) = self.preemption(pending.queue).cloned() else {
            self.memory.preemption.drop_claim(j);
            return PreemptionOutcome::NoVictims;
        };
        if let Some(claim) = self.memory.preemption.get(j) {
            let victims = u32::try_from(claim.victims.len()).unwrap_or(u32::MAX);
            if victims > 0 && claim.due.is_none_or(|due| self.now < due) {
                self.book_claim(j);
                return PreemptionOutcome::Waiting(PendReason::Preempting { victims });
            }
            let had_grace = claim.due.is_some();
            let claim = self
                .memory
                .preemption
                .drop_claim(j)
                .expect("just looked at");
            let live = |victim: &JobKey| self.may_stop(&rules, *victim).is_some();
            if had_grace && claim.victims.iter().all(live) {
                let victims = claim.victims;
                if let Some((victims, found_hosts)) = self.least(pending, &rules, victims) {
                    return self.stop_victims(pending, j, &rules, victims, found_hosts);
                }
            }
        }
        self.search(pending, j, &rules)
    }

    fn search(
        &mut self,
        pending: &PendingClass,
        j: JobKey,
        rules: &Preemption,
    ) -> PreemptionOutcome {
        let end = self.picture.usage.log_end();
        if self.memory.preemption.has_no_victims(pending.shape, end)
            || !self.have_enough_slots(pending, rules)
        {
            return PreemptionOutcome::NoVictims;
        }
        if !self.memory.preemption.may_search() {
            return PreemptionOutcome::NoVictims;
        }
        let victims = self.victims(pending, rules);
        let found = self.least(pending, rules, victims);
        let Some((victims, found_hosts)) = found else {
            self.memory
                .preemption
                .note_futile(pending.shape, self.picture.usage.log_end());
            return PreemptionOutcome::NoVictims;
        };
        if rules.grace_ms == 0 {
            return self.stop_victims(pending, j, rules, victims, found_hosts);
        }
        let due = self.now.plus_ms(rules.grace_ms);
        let warn = |victim: &JobKey| (*victim, due, rules.warn_signal);
        self.plan.warns.extend(victims.iter().map(warn));
        self.memory.preemption.note_warned(&victims);
        self.plan.wake_at(Some(due));
        self.claim(pending, j, victims, &found_hosts, Some(due))
    }

    /// Whether the victims have enough slots in total: a cheap check before the search.
    fn have_enough_slots(&self, pending: &PendingClass, rules: &Preemption) -> bool {
        let need = i64::from(self.shape(pending.shape).request.min.max(1));
        let queues = &self.config().queues;
        let of = |name: &str| queues.iter().position(|q| q.name == name);
        let victims = rules.victims.iter().filter_map(|v| of(&v.queue));
        let theirs: i64 = victims
            .map(|at| self.picture.monitor.slots(at as u16))
            .sum();
        theirs > 0 && self.picture.usage.free() + theirs >= need
    }

    /// The run of a job that may be stopped for others now.
    fn may_stop(&self, rules: &Preemption, j: JobKey) -> Option<&'a Run> {
        let work = self
            .state
            .work(j)
            .filter(|work| work.stat == JobStat::Run)?;
        let run = work.run.as_deref()?;
        let allocation = self.picture.allocations.get(&j)?;
        // A stopped exclusive job would still block all others.
        let stuck = allocation.exclusive && rules.method == PreemptMethod::Suspend;
        let stopped = run.killing.is_some() || run.suspension.by_system.is_some();
        let marked = allocation.halted || self.memory.preemption.is_victim(j);
        let eligible = !stopped && !run.forced && !marked && !stuck;
        (eligible && !self.is_protected(j)).then_some(run)
    }

    /// Whether the application of the job has `preemptable: no`.
    fn is_protected(&self, j: JobKey) -> bool {
        let app = self.state.spec_of(j.id).map(|spec| spec.app.as_str());
        let app = app.and_then(|name| self.config().app(name));
        app.is_some_and(|app| !app.preemptable)
    }

    /// All jobs that may be stopped on hosts where that helps, in the order in which they are
    /// stopped.
    fn victims(&self, pending: &PendingClass, rules: &Preemption) -> Vec<JobKey> {
        let shape = &self.shape(pending.shape);
        let need = i64::from(shape.request.min.max(1));
        let view = self.view();
        let mut fits: HashMap<u32, bool> = HashMap::new();
        let mut useful = |at: u32| {
            *fits.entry(at).or_insert_with(|| {
                let open = self.picture.usage.get(at as usize).open;
                open && shape.could_fit(&view, at as usize)
            })
        };
        let mut victims = Vec::new();
        for theirs in &rules.victims {
            let queues = &self.config().queues;
            let Some(at) = queues.iter().position(|q| q.name == theirs.queue) else {
                continue;
            };
            let started = self
                .picture
                .monitor
                .started_in(at)
                .into_iter()
                .flatten()
                .rev();
            for j in started.take(VICTIMS_MAX).copied() {
                let Some(run) = self.may_stop(rules, j) else {
                    continue;
                };
                let parts = self.picture.allocations[&j].parts.iter();
                let gain: i64 = parts
                    .filter(|(at, _)| useful(*at))
                    .map(|(_, b)| b.slots)
                    .sum();
                if gain == 0 {
                    continue;
                }
                let priority = self.state.spec_of(j.id).map_or(0, |spec| spec.priority);
                let ran = self
                    .now
                    .since_ms(run.dispatch)
                    .saturating_sub(run.suspension.total_ms);
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
                    youngest_first: Reverse((run.dispatch, j)),
                });
            }
        }
        victims.sort_unstable();
        victims.iter().map(Victim::j).collect()
    }

    /// The victims that are needed, and the hosts that they free. `None`: all of them are not
    /// enough, or more are needed than the queue allows. Changes nothing.
    fn least(
        &mut self,
        pending: &PendingClass,
        rules: &Preemption,
        candidates: Vec<JobKey>,
    ) -> Option<(Vec<JobKey>, FoundHosts)> {
        let mark = self.picture.usage.last_freed();
        let mut trial = RemovedJobs {
            suspend: rules.method == PreemptMethod::Suspend,
            removed: BTreeSet::new(),
        };
        let found = self.try_out(pending, &mut trial, candidates);
        for j in std::mem::take(&mut trial.removed) {
            self.set_trial(&mut trial, j, false);
        }
        self.picture.usage.restore_freed(mark);
        let most = rules.max_victims.map_or(usize::MAX, |n| n as usize);
        found.filter(|(victims, _)| victims.len() <= most)
    }

    fn try_out(
        &mut self,
        pending: &PendingClass,
        trial: &mut RemovedJobs,
        candidates: Vec<JobKey>,
    ) -> Option<(Vec<JobKey>, FoundHosts)> {
        // Finds how many of the first victims are enough: by doubling, then by bisection.
        let (mut few, mut enough) = (0, 1.min(candidates.len()));
        let mut found_hosts = loop {
            for j in &candidates[few..enough] {
                self.set_trial(trial, *j, true);
            }
            match self.fits_now(pending) {
                Some(found_hosts) => break found_hosts,
                None if enough == candidates.len() => return None,
                None => (few, enough) = (enough, (2 * enough).min(candidates.len())),
            }
        };
        while enough - few > 1 {
            let half = few + (enough - few) / 2;
            for j in &candidates[half..enough] {
                self.set_trial(trial, *j, false);
            }
            match self.fits_now(pending) {
                Some(found) => (found_hosts, enough) = (found, half),
                None => {
                    few = half;
                    for j in &candidates[half..enough] {
                        self.set_trial(trial, *j, true);
                    }
                }
            }
        }
        let mut needed: Vec<JobKey> = candidates[..enough].to_vec();
        // Victims on other hosts are put back at once, the others one by one, the most important
        // first.
        let there = |allocation: &Allocation, (_, found_hosts): &FoundHosts| {
            let mut parts = allocation.parts.iter();
            parts.any(|(at, _)| found_hosts.iter().any(|(position, _)| position == at))
        };
        let (on_place, elsewhere): (Vec<JobKey>, Vec<JobKey>) = needed
            .iter()
            .partition(|j| there(&self.picture.allocations[*j], &found_hosts));
        elsewhere
            .iter()
            .for_each(|j| self.set_trial(trial, *j, false));
        match self.fits_now(pending) {
            Some(found) => (found_hosts, needed) = (found, on_place),
            None => elsewhere
                .iter()
                .for_each(|j| self.set_trial(trial, *j, true)),
        }
        for at in (0..needed.len()).rev() {
            self.set_trial(trial, needed[at], false);
            match self.fits_now(pending) {
                Some(found) => {
                    found_hosts = found;
                    needed.remove(at);
                }
                None => self.set_trial(trial, needed[at], true),
            }
        }
        Some((needed, found_hosts))
    }

    /// Finds hosts as if later jobs had no reservations.
    fn fits_now(&mut self, pending: &PendingClass) -> Option<FoundHosts> {
        let need = self.shape(pending.shape).request.min.max(1);
        let first = |r: &Reservations| r.book.confirmed() == 0;
        let set_aside = self.picture.reserver.take_if(|r| first(r));
        let found = self.search_hosts(pending, need, &mut false, &mut false);
        if set_aside.is_some() {
            self.picture.reserver = set_aside;
        }
        found.ok()
    }

    /// Removes a job from its hosts as if it were stopped, or puts it back.
    fn set_trial(&mut self, trial: &mut RemovedJobs, j: JobKey, off: bool) {
        let allocation = self.picture.allocations[&j].clone();
        let mut stopped = allocation.clone();
        stopped.lent = true;
        self.picture.release(&mut stopped);
        let (out, back) = if off {
            (&allocation, &stopped)
        } else {
            (&stopped, &allocation)
        };
        if trial.suspend || off {
            book_parts(&mut self.picture.usage, &out.parts, out.holder(), false);
        }
        if trial.suspend || !off {
            book_parts(&mut self.picture.usage, &back.parts, back.holder(), true);
        }
        if !trial.suspend {
            // A suspended job keeps its units.
            self.picture.usage.hold_units(&allocation.units, !off);
        }
        match off {
            true => trial.removed.insert(j),
            false => trial.removed.remove(&j),
        };
    }

    /// Stops the victims.
    fn stop_victims(
        &mut self,
        pending: &PendingClass,
        j: JobKey,
        rules: &Preemption,
        victims: Vec<JobKey>,
        found_hosts: FoundHosts,
    ) -> PreemptionOutcome {
        match rules.method {
            PreemptMethod::Suspend => {
                for victim in victims {
                    self.suspend_job(victim, SuspReason::Preempted { by: j });
                }
                PreemptionOutcome::Found(found_hosts)
            }
            PreemptMethod::Requeue => {
                let ended = victims.iter().map(|victim| (*victim, TermReason::Preempt));
                self.plan.requeues.extend(ended);
                self.claim(pending, j, victims, &found_hosts, None)
            }
        }
    }

    /// Keeps hosts for the job until its victims are gone.
    fn claim(
        &mut self,
        pending: &PendingClass,
        j: JobKey,
        victims: Vec<JobKey>,
        (alt, found_hosts): &FoundHosts,
        due: Option<Stamp>,
    ) -> PreemptionOutcome {
        let shape = &self.shape(pending.shape);
        let shares: Vec<_> = found_hosts.iter().map(|(at, n)| (Some(*at), *n)).collect();
        let mut parts = shape.alternative(*alt).bundles(&shares, 0);
        shape.rest_of_compute_units(*alt, self.table, &mut parts);
        let holder = Holder {
            queue: pending.queue.unwrap_or(u16::MAX),
            uid: pending.user.uid,
            exclusive: shape.is_exclusive(*alt),
            lent: false,
        };
        let n = u32::try_from(victims.len()).unwrap_or(u32::MAX);
        let booked = false;
        let claim = PreemptionClaim {
            victims,
            parts,
            holder,
            booked,
            due,
        };
        self.memory.preemption.add(j, claim);
        self.book_claim(j);
        PreemptionOutcome::Waiting(PendReason::Preempting { victims: n })
    }
}

fn is_warned(state: &State, j: JobKey) -> bool {
    let run = state.work(j).and_then(|work| work.run.as_deref());
    run.is_some_and(|run| run.warned().is_some())
}

/// Books or unbooks parts on their hosts.
fn book_parts(usage: &mut ClusterUsage, parts: &[(u32, Bundle)], holder: Holder, plus: bool) {
    for (at, bundle) in parts {
        usage.book(*at as usize, bundle, holder, plus);
    }
}

/// Jobs that are removed from their hosts while victims are tried.
struct RemovedJobs {
    suspend: bool,
    removed: BTreeSet<JobKey>,
}
