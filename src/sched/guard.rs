//! Watching started work: what the system stopped, thresholds and conditions of hosts and queues,
//! resuming. Owns what was seen of each host's samples; whose slots are lent is the books' affair.
//!
//! One act for each sample of a host: load follows late, and acting on the same figures twice would
//! stop or resume too much.

use super::Plan;
use super::amount::{Bundle, HostBundles};
use super::engine::Engine;
use super::held::Held;
use super::hosts::{HostInfo, HostTable};
use super::load_thresholds::ThresholdKind::{Dispatch, Running};
use super::load_thresholds::{MeasuredLoad, condition, exceeded, released_when_stopped};
use crate::config::{Config, GuardAction, Queue};
use crate::model::{JobKey, JobStat, SuspReason, TermReason};
use crate::state::{HostId, Run, State};
use crate::text::resreq::Select;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// `stop_cond` and `resume_cond` of a queue.
#[derive(Debug, Default)]
struct Conditions {
    stop: Option<Select>,
    resume: Option<Select>,
}

/// What is remembered of started work and of hosts.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Started work by queue; only kept where windows, preemption or growth ask for it.
    on: Vec<Option<BTreeSet<JobKey>>>,
    /// Started slots by queue, where `on` is kept.
    slots: Vec<i64>,
    /// Work that the system stopped.
    pub halted: BTreeSet<JobKey>,
    conditions: Vec<Conditions>,
    /// Something looks at samples.
    samples: bool,
    /// The last sample of a host that was acted upon.
    seen: HashMap<HostId, u64>,
    /// Hosts that take no new work before their next sample, with the sample.
    quiet: HashMap<HostId, u64>,
    /// Positions of hosts with a new sample.
    fresh: Vec<u32>,
}

impl Watch {
    /// For another configuration; what was seen of samples stays.
    pub fn renewed(self, config: &Config) -> Watch {
        let victim = |name: &str| {
            let preempting = config.queues.iter().filter_map(|q| q.preemption.as_ref());
            preempting
                .flat_map(|p| &p.victims)
                .any(|victims| victims.queue == name)
        };
        let kept = |q: &Queue| q.run_window.is_some() || q.elastic || victim(&q.name);
        let watched = |q: &Queue| {
            !q.thresholds.is_empty() || q.stop_cond.is_some() || q.resume_cond.is_some()
        };
        let hosts = config.hosts.entries.iter().chain([&config.hosts.default]);
        let mut hosts = hosts.filter(|host| !host.thresholds.is_empty());
        Watch {
            on: config
                .queues
                .iter()
                .map(|q| kept(q).then(BTreeSet::new))
                .collect(),
            slots: vec![0; config.queues.len()],
            halted: BTreeSet::new(),
            conditions: config
                .queues
                .iter()
                .map(|q| conditions(q, config))
                .collect(),
            samples: config.queues.iter().any(watched) || hosts.next().is_some(),
            seen: self.seen,
            quiet: self.quiet,
            fresh: Vec::new(),
        }
    }

    /// Started work of a queue, if it is kept.
    pub fn on(&self, queue: usize) -> Option<&BTreeSet<JobKey>> {
        self.on.get(queue)?.as_ref()
    }

    /// Slots of started work of a queue whose work is kept.
    pub fn slots(&self, queue: u16) -> i64 {
        self.slots[usize::from(queue)]
    }

    /// Work starts or ends to hold something.
    pub fn note(&mut self, j: JobKey, held: &Held, plus: bool) {
        if held.halted {
            match plus {
                true => self.halted.insert(j),
                false => self.halted.remove(&j),
            };
        }
        let Some(queue) = held.queue.map(usize::from) else {
            return;
        };
        if let Some(on) = self.on[queue].as_mut() {
            let slots = i64::from(held.slots);
            self.slots[queue] += if plus { slots } else { -slots };
            match plus {
                true => on.insert(j),
                false => on.remove(&j),
            };
        }
    }

    /// The host was looked at: true when thresholds keep new work away for now.
    pub fn look(&mut self, host: &HostInfo, at: usize, young: i64) -> bool {
        // ThresholdKind may be gone from the configuration while work is stopped for them.
        if !self.samples && self.halted.is_empty() {
            return false;
        }
        let beat = host.load.beat;
        if self.seen.get(&host.id) != Some(&beat) {
            self.fresh.push(at as u32);
        }
        if self.quiet.get(&host.id).is_some_and(|quiet| *quiet != beat) {
            self.quiet.remove(&host.id);
        }
        self.bars(host, young)
    }

    /// Thresholds of the host, or work that has just resumed there, keep new work away. `young`:
    /// load that is to come, in thousandths.
    pub fn bars(&self, host: &HostInfo, young: i64) -> bool {
        self.quiet.contains_key(&host.id)
            || exceeded(host, &host.entry.thresholds, Dispatch(young)).is_some()
    }

    /// Somebody looks at samples.
    pub fn samples(&self) -> bool {
        self.samples
    }

    /// Something may have to be done although nothing is pending.
    pub fn busy(&self) -> bool {
        self.samples || !self.halted.is_empty() || self.on.iter().any(Option::is_some)
    }
}

fn conditions(queue: &Queue, config: &Config) -> Conditions {
    Conditions {
        stop: condition(queue.stop_cond.as_deref(), config),
        resume: condition(queue.resume_cond.as_deref(), config),
    }
}

impl Engine {
    /// Stops started work: it lends its slots if it is preempted, and gives back what stopped work
    /// does not keep.
    pub(super) fn halt(&mut self, j: JobKey, why: SuspReason, plan: &mut Plan) {
        if let Some(mut held) = self.take_held(j) {
            held.halted = true;
            held.lent = matches!(why, SuspReason::Preempted { .. });
            self.release(&mut held);
            self.put_held(j, held);
        }
        plan.halts.push((j, why));
    }

    /// What comes before the first turn of a pass.
    pub(super) fn look_around(&mut self, state: &State, table: &HostTable, plan: &mut Plan) {
        self.pace.wake = None;
        for at in std::mem::take(&mut self.pace.stale) {
            self.set_host(table, at as usize);
        }
        self.pace.stale.clear();
        self.look_at_windows(state, table, self.now, plan);
        self.look_at_samples(state, table, plan);
        self.look_at_claims(state, self.now, plan);
    }

    /// What comes behind the last turn of a pass: better work has what it can use.
    pub(super) fn look_back(&mut self, state: &State, table: &HostTable, plan: &mut Plan) {
        plan.wake_at(self.pace.wake);
        if !plan.more {
            self.resume_stopped(state, table, plan);
            self.grow(state, table, plan);
        }
    }

    /// Takes what stopped work does not keep out of what it holds.
    pub(super) fn release(&self, held: &mut Held) {
        held.keep_count();
        if held.lent {
            let count = held.count.as_deref_mut().into_iter().flatten();
            count.for_each(|(_, bundle)| bundle.slots = 0);
        }
        for (res, name) in self.names.iter().enumerate() {
            if released_when_stopped(self.config(), name) {
                let count = held.count.as_deref_mut().into_iter().flatten();
                for (_, bundle) in held.parts.iter_mut().chain(count) {
                    if bundle.get(res) != 0 {
                        bundle.set(res, 0);
                    }
                }
            }
        }
    }

    /// Lets stopped work go on, if everything it needs can be had: all of what it gave back, its
    /// slots, an open run window, load within the marks.
    pub(super) fn resume(
        &mut self,
        state: &State,
        table: &HostTable,
        j: JobKey,
        plan: &mut Plan,
    ) -> bool {
        let Some(full) = self.may_resume(state, table, j) else {
            return false;
        };
        if self.held[&j].lent && self.growth_limit(state, j) < full.slots {
            return false;
        }
        let stopped = self.take_held(j).expect("it may resume");
        // Limits may have fallen meanwhile: what counts all the time stays as it is.
        let same = full.counted() == stopped.counted() && !stopped.lent;
        if !same && self.quotas.check(&full.ident, full.counted()).is_err() {
            self.put_held(j, stopped);
            return false;
        }
        self.put_held(j, full);
        plan.resumes.push(j);
        true
    }

    /// What the work would hold again; `None`: it must stay stopped.
    fn may_resume(&self, state: &State, table: &HostTable, j: JobKey) -> Option<Held> {
        let held = self.held.get(&j)?;
        let run = state.work(j)?.run.as_deref()?;
        if !self.hours.runs(held.queue) && !run.forced {
            return None;
        }
        let mut full = held.clone();
        (full.lent, full.halted) = (false, false);
        let mut count = HostBundles::new();
        let all = self.whole_of(table, held, run);
        for (at, bundle) in &mut full.parts {
            let found = all.iter().find(|(here, _)| here == at);
            let whole = found.map_or_else(Bundle::default, |(_, whole)| whole.clone());
            count.push((*at, whole.clone()));
            let books = self.books.get(*at as usize);
            let lent: i64 = books.lent.iter().map(|(_, n)| n).sum();
            if held.lent && books.slots - (books.used - lent) < bundle.slots {
                return None;
            }
            if held.lent && (books.exclusive > 0 || full.exclusive && books.jobs > 0) {
                return None;
            }
            for res in 0..self.names.len() {
                let back = whole.get(res) - bundle.get(res);
                if back > 0 && released_when_stopped(self.config(), self.names.name(res as u16)) {
                    if books.left(res as u16) < back {
                        return None;
                    }
                    bundle.set(res, whole.get(res));
                }
            }
            let host = table.at(*at as usize);
            let used = bundle.slots > 0 && !run.forced;
            if used && !self.calm(host, held.queue, run) {
                return None;
            }
        }
        full.count = (!held.ident.is_free()).then(|| Box::new(count));
        Some(full)
    }

    /// The host's load lets stopped work of a queue go on.
    fn calm(&self, host: &HostInfo, queue: Option<u16>, run: &Run) -> bool {
        if exceeded(host, &host.entry.thresholds, Dispatch(0)).is_some() {
            return false;
        }
        if let Some(SuspReason::Threshold { index, .. }) = run.halt.as_deref()
            && index == "pg"
            && host.load.it * 60_000.0 < self.config().general.pg_susp_it_ms as f64
        {
            return false;
        }
        let Some(at) = queue.map(usize::from) else {
            return true;
        };
        let (queue, conditions) = (&self.config().queues[at], &self.watch.conditions[at]);
        let holds = |select: &Select| select.accepts(&MeasuredLoad(host));
        if conditions.stop.as_ref().is_some_and(holds) {
            return false;
        }
        match &conditions.resume {
            // The queue's own marks for resuming; those that stop still hold.
            Some(resume) => holds(resume) && exceeded(host, &queue.thresholds, Running).is_none(),
            None => exceeded(host, &queue.thresholds, Dispatch(0)).is_none(),
        }
    }

    /// Looks at the samples that came since the last pass: at most one piece of work for each is
    /// stopped or resumed.
    pub(super) fn look_at_samples(&mut self, state: &State, table: &HostTable, plan: &mut Plan) {
        let mut fresh = std::mem::take(&mut self.watch.fresh);
        fresh.sort_unstable();
        fresh.dedup();
        for at in fresh {
            let host = table.at(at as usize);
            self.watch.seen.insert(host.id, host.load.beat);
            if !host.load.executor || !host.ctl.up {
                continue;
            }
            if !self.stop_one(state, host, plan) && self.resume_one(state, table, host, plan) {
                self.watch.quiet.insert(host.id, host.load.beat);
                self.set_host(table, at as usize);
            }
        }
    }

    /// Work on a host in the order in which it is stopped: lowest queue priority, then youngest.
    fn work_on(&self, state: &State, host: &HostInfo, halted: bool) -> Vec<JobKey> {
        let rank = |j: &JobKey| {
            let run = state.work(*j)?.run.as_deref()?;
            let queue = self.held.get(j)?.queue?;
            let priority = self.config().queues[usize::from(queue)].priority;
            let stopped_for_load = matches!(
                run.halt.as_deref(),
                Some(SuspReason::Threshold { .. } | SuspReason::StopCond { .. })
            );
            let fits = match halted {
                true => stopped_for_load,
                false => run.halt.is_none() && state.stat(*j) == Some(JobStat::Run),
            };
            (fits && run.killing.is_none()).then_some((priority, Reverse((run.dispatch, *j))))
        };
        let on = state.used().work_on(host.id).map(|(j, _)| j);
        let mut ranked: Vec<_> = on.filter_map(|j| Some((rank(&j)?, j))).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, j)| j).collect()
    }

    fn stop_one(&mut self, state: &State, host: &HostInfo, plan: &mut Plan) -> bool {
        let running = self.work_on(state, host, false);
        // The load is the job's own, or nobody is hurt by it.
        let idle = host.load.it > 0.0 || host.load.ls == 0.0;
        if running.len() <= 1 && idle {
            return false;
        }
        for j in running {
            let forced = |run: &Run| run.forced;
            let run = state.work(j).and_then(|work| work.run.as_deref());
            let halted = self.held.get(&j).is_none_or(|held| held.halted);
            let Some(why) = self.must_stop(host, j).filter(|_| !halted) else {
                continue;
            };
            if run.is_none_or(forced) {
                continue;
            }
            match self.threshold_action(j) {
                GuardAction::Suspend => self.halt(j, why, plan),
                GuardAction::Kill => plan.kills.push((j, TermReason::Load)),
                GuardAction::Requeue => plan.requeues.push((j, TermReason::Load)),
            }
            return true;
        }
        false
    }

    fn threshold_action(&self, j: JobKey) -> GuardAction {
        let queue = self.held.get(&j).and_then(|held| held.queue);
        let queues = &self.config().queues;
        queue.map_or(GuardAction::Suspend, |at| {
            queues[usize::from(at)].threshold_action
        })
    }

    /// Why a job may not run on at the host's present load.
    fn must_stop(&self, host: &HostInfo, j: JobKey) -> Option<SuspReason> {
        let threshold = |(index, value, mark)| SuspReason::Threshold {
            index,
            value,
            mark,
            host: host.name.clone(),
        };
        if let Some(mark) = exceeded(host, &host.entry.thresholds, Running) {
            return Some(threshold(mark));
        }
        let at = usize::from(self.held.get(&j)?.queue?);
        let queue = &self.config().queues[at];
        if let Some(mark) = exceeded(host, &queue.thresholds, Running) {
            return Some(threshold(mark));
        }
        let stop = self.watch.conditions[at].stop.as_ref()?;
        let queue = queue.name.clone();
        stop.accepts(&MeasuredLoad(host))
            .then_some(SuspReason::StopCond { queue })
    }

    /// Resumes the work that was to be stopped last.
    fn resume_one(
        &mut self,
        state: &State,
        table: &HostTable,
        host: &HostInfo,
        plan: &mut Plan,
    ) -> bool {
        if self.watch.halted.is_empty() {
            return false;
        }
        let stopped = self.work_on(state, host, true);
        let mut stopped = stopped.into_iter().rev();
        stopped.any(|j| self.resume(state, table, j, plan))
    }

    /// Lets work go on that was preempted or stopped by a closed window: the most important first,
    /// the oldest of equals. For the end of a pass: what better work can use is used by now.
    pub(super) fn resume_stopped(&mut self, state: &State, table: &HostTable, plan: &mut Plan) {
        let rank = |j: &JobKey| {
            let job = state.job(j.id)?;
            let run = state.work(*j)?.run.as_deref()?;
            let waits_for_load = matches!(
                run.halt.as_deref()?,
                SuspReason::Threshold { .. } | SuspReason::StopCond { .. }
            );
            if waits_for_load || run.killing.is_some() || state.stat(*j) == Some(JobStat::Unkwn) {
                return None;
            }
            let queue = self.held.get(j)?.queue;
            let queues = &self.config().queues;
            let priority = queue.map_or(0, |at| queues[usize::from(at)].priority);
            let user = state.spec(job.spec).priority;
            Some((Reverse((priority, user)), run.dispatch, *j))
        };
        let mut stopped: Vec<_> = self.watch.halted.iter().filter_map(rank).collect();
        stopped.sort_unstable();
        for (_, _, j) in stopped {
            self.resume(state, table, j, plan);
        }
    }
}

/// Why a host takes no new work for now, beside what an administrator said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// Its dispatch window is closed.
    Window,
    /// Load past a mark, or work that has just resumed.
    Load,
}

impl Engine {
    /// What keeps new work away from a host for now.
    pub fn bar(&self, host: &HostInfo) -> Option<Bar> {
        let at = host.position as usize;
        let known = at < self.books.len();
        let young = if known { self.books.get(at).young } else { 0 };
        if self.hours.shuts(at) {
            Some(Bar::Window)
        } else if self.watch.bars(host, young) {
            Some(Bar::Load)
        } else {
            None
        }
    }

    /// Some work has the host to itself, or the unit that it belongs to.
    pub fn is_exclusive(&self, host: &HostInfo) -> bool {
        let at = host.position as usize;
        at < self.books.len() && self.books.get(at).exclusive > 0
    }

    /// A pass may do something although nothing is pending.
    pub fn watches(&self) -> bool {
        self.watch.busy()
    }
}
