//! Suspends and resumes started jobs: load thresholds and conditions of hosts and queues, and what
//! suspended jobs hold.

use super::Pass;
use crate::config::ThresholdAction;
use crate::model::{JobKey, JobStat, SuspReason, TermReason};
use crate::sched::allocation::Allocation;
use crate::sched::amount::{Bundle, HostBundles};
use crate::sched::hosts::HostInfo;
use crate::sched::load_thresholds::ThresholdKind::{Dispatch, Running};
use crate::sched::load_thresholds::{MeasuredLoad, exceeded};
use crate::state::Run;
use crate::text::resreq::Select;
use std::cmp::Reverse;

impl Pass<'_> {
    /// Stops a started job: it lends its slots if it is preempted, and releases what a stopped job
    /// does not keep.
    pub(super) fn suspend_job(&mut self, j: JobKey, why: SuspReason) {
        if let Some(mut allocation) = self.picture.remove_allocation(j) {
            allocation.halted = true;
            allocation.lent = matches!(why, SuspReason::Preempted { .. });
            self.picture.release(&mut allocation);
            self.picture.add_allocation(j, allocation);
        }
        self.plan.halts.push((j, why));
    }

    /// Handles the samples that arrived since the last pass: for each sample at most one job is
    /// stopped or resumed.
    pub(super) fn apply_thresholds(&mut self) {
        for at in self.picture.monitor.take_sampled() {
            let host = self.table.at(at as usize);
            self.picture.monitor.note_action(host);
            if !host.load.executor || !host.ctl.up {
                continue;
            }
            if !self.stop_one(host) && self.resume_one(host) {
                self.picture.monitor.block_until_sample(host);
                self.picture.set_host(self.table, at as usize);
            }
        }
    }

    /// Resumes a stopped job if everything that it needs is available: all that it released, its
    /// slots, an open run window, and load within the thresholds.
    fn resume(&mut self, j: JobKey) -> bool {
        let Some(full) = self.may_resume(j) else {
            return false;
        };
        if self.picture.allocations[&j].lent && self.growth_limit(j) < full.slots {
            return false;
        }
        let stopped = self.picture.remove_allocation(j).expect("it may resume");
        // Limits may have been lowered meanwhile: amounts that stayed counted are not affected.
        let same = full.limit_parts() == stopped.limit_parts() && !stopped.lent;
        if !same
            && self
                .picture
                .quotas
                .check(&full.ident, full.limit_parts())
                .is_err()
        {
            self.picture.add_allocation(j, stopped);
            return false;
        }
        self.picture.add_allocation(j, full);
        self.plan.resumes.push(j);
        true
    }

    /// What the job would hold again; `None`: it must stay stopped.
    fn may_resume(&self, j: JobKey) -> Option<Allocation> {
        let allocation = self.picture.allocations.get(&j)?;
        let run = self.state.work(j)?.run.as_deref()?;
        if !self.picture.windows.runs(allocation.queue) && !run.forced {
            return None;
        }
        let mut full = allocation.clone();
        (full.lent, full.halted) = (false, false);
        let mut count = HostBundles::new();
        let all = self.picture.full_allocation(self.table, allocation, run);
        for (at, bundle) in &mut full.parts {
            let found = all.iter().find(|(position, _)| position == at);
            let whole = found.map_or_else(Bundle::default, |(_, whole)| whole.clone());
            count.push((*at, whole.clone()));
            let usage = self.picture.usage.get(*at as usize);
            let lent: i64 = usage.lent_slots().iter().map(|(_, n)| n).sum();
            if allocation.lent && usage.slots - (usage.used_slots - lent) < bundle.slots {
                return None;
            }
            if allocation.lent && (usage.exclusive > 0 || full.exclusive && usage.jobs > 0) {
                return None;
            }
            for (res, _) in self.picture.released() {
                let back = whole.get(res) - bundle.get(res);
                if back > 0 {
                    if usage.free_amount(res as u16) < back {
                        return None;
                    }
                    bundle.set(res, whole.get(res));
                }
            }
            let host = self.table.at(*at as usize);
            // A user may resume a job at any load.
            let used = bundle.slots > 0 && !run.forced && !waits_for_released(run);
            if used && !self.load_permits(host, allocation.queue, run) {
                return None;
            }
        }
        full.count = (!allocation.ident.is_free()).then(|| Box::new(count));
        Some(full)
    }

    /// Whether the host's load allows a stopped job of a queue to resume.
    fn load_permits(&self, host: &HostInfo, queue: Option<u16>, run: &Run) -> bool {
        if exceeded(host, &host.entry.thresholds, Dispatch(0)).is_some() {
            return false;
        }
        if let Some(SuspReason::Threshold { index, .. }) = run.suspension.by_system.as_deref()
            && index == "pg"
            && host.load.it * 60_000.0 < self.config().general.pg_susp_it_ms as f64
        {
            return false;
        }
        let Some(at) = queue.map(usize::from) else {
            return true;
        };
        let (queue, conditions) = (
            &self.config().queues[at],
            self.picture.monitor.conditions(at),
        );
        let holds = |select: &Select| select.accepts(&MeasuredLoad(host));
        if conditions.stop.as_ref().is_some_and(holds) {
            return false;
        }
        match &conditions.resume {
            // The queue's own condition for resuming; stop thresholds apply as well.
            Some(resume) => holds(resume) && exceeded(host, &queue.thresholds, Running).is_none(),
            None => exceeded(host, &queue.thresholds, Dispatch(0)).is_none(),
        }
    }

    /// Jobs on a host in the order in which they are stopped: lowest queue priority first, then
    /// youngest.
    fn started_jobs_on(&self, host: &HostInfo, halted: bool) -> Vec<JobKey> {
        let rank = |j: &JobKey| {
            let run = self.state.work(*j)?.run.as_deref()?;
            let queue = self.picture.allocations.get(j)?.queue?;
            let priority = self.config().queues[usize::from(queue)].priority;
            let stopped_for_load = matches!(
                run.suspension.by_system.as_deref(),
                Some(SuspReason::Threshold { .. } | SuspReason::StopCond { .. })
            );
            let fits = match halted {
                true => stopped_for_load,
                false => {
                    run.suspension.by_system.is_none() && self.state.stat(*j) == Some(JobStat::Run)
                }
            };
            (fits && run.killing.is_none()).then_some((priority, Reverse((run.dispatch, *j))))
        };
        let started = self.state.used().started_on(host.id).map(|(j, _)| j);
        let mut ranked: Vec<_> = started.filter_map(|j| Some((rank(&j)?, j))).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, j)| j).collect()
    }

    fn stop_one(&mut self, host: &HostInfo) -> bool {
        let running = self.started_jobs_on(host, false);
        // The load is caused by the job itself, or harms no other job: it is not suspended.
        let idle = host.load.it > 0.0 || host.load.ls == 0.0;
        let alone = running.len() <= 1 && idle;
        for j in running {
            if alone && self.threshold_action(j) == ThresholdAction::Suspend {
                continue;
            }
            let forced = |run: &Run| run.forced;
            let run = self.state.work(j).and_then(|work| work.run.as_deref());
            let halted = self
                .picture
                .allocations
                .get(&j)
                .is_none_or(|allocation| allocation.halted);
            let Some(why) = self.stop_reason(host, j).filter(|_| !halted) else {
                continue;
            };
            if run.is_none_or(forced) {
                continue;
            }
            match self.threshold_action(j) {
                ThresholdAction::Suspend => self.suspend_job(j, why),
                ThresholdAction::Kill => self.plan.kills.push((j, TermReason::Load)),
                ThresholdAction::Requeue => self.plan.requeues.push((j, TermReason::Load)),
            }
            return true;
        }
        false
    }

    fn threshold_action(&self, j: JobKey) -> ThresholdAction {
        let queue = self
            .picture
            .allocations
            .get(&j)
            .and_then(|allocation| allocation.queue);
        let queues = &self.config().queues;
        queue.map_or(ThresholdAction::Suspend, |at| {
            queues[usize::from(at)].threshold_action
        })
    }

    /// Why a job must stop at the current load of the host.
    fn stop_reason(&self, host: &HostInfo, j: JobKey) -> Option<SuspReason> {
        let threshold = |(index, value, mark)| SuspReason::Threshold {
            index,
            value,
            mark,
            host: host.name.clone(),
        };
        if let Some(mark) = exceeded(host, &host.entry.thresholds, Running) {
            return Some(threshold(mark));
        }
        let at = usize::from(self.picture.allocations.get(&j)?.queue?);
        let queue = &self.config().queues[at];
        if let Some(mark) = exceeded(host, &queue.thresholds, Running) {
            return Some(threshold(mark));
        }
        let stop = self.picture.monitor.conditions(at).stop.as_ref()?;
        let queue = queue.name.clone();
        stop.accepts(&MeasuredLoad(host))
            .then_some(SuspReason::StopCond { queue })
    }

    /// Resumes the job that would be stopped last.
    fn resume_one(&mut self, host: &HostInfo) -> bool {
        if self.picture.monitor.suspended_by_system().is_empty() {
            return false;
        }
        let stopped = self.started_jobs_on(host, true);
        let mut stopped = stopped.into_iter().rev();
        stopped.any(|j| self.resume(j))
    }

    /// Resumes jobs that were preempted or stopped by a closed window. Called at the end of a pass,
    /// after pending jobs of higher priority have started.
    pub(super) fn resume_stopped(&mut self) {
        for j in self.stopped_in_order(|run| !waits_for_released(run)) {
            if !self.resume(j) {
                self.restate_preemption(j);
            }
        }
    }

    /// Resumes jobs that users resumed and that wait for what they released. Called before pending
    /// jobs are considered: these jobs have started, and hold slots.
    pub(super) fn resume_released(&mut self) {
        for j in self.stopped_in_order(|run| waits_for_released(run) && !run.user_stop.wanted) {
            if !self.resume(j) {
                self.restate_released(j);
            }
        }
    }

    /// Jobs that the system stopped for a reason other than load: the most important first, the
    /// oldest among equals.
    fn stopped_in_order(&self, wanted: impl Fn(&Run) -> bool) -> Vec<JobKey> {
        let rank = |j: &JobKey| {
            let job = self.state.job(j.id)?;
            let run = self.state.work(*j)?.run.as_deref()?;
            let waits_for_load = matches!(
                run.suspension.by_system.as_deref()?,
                SuspReason::Threshold { .. } | SuspReason::StopCond { .. }
            );
            if waits_for_load
                || !wanted(run)
                || run.killing.is_some()
                || self.state.stat(*j) == Some(JobStat::Unkwn)
            {
                return None;
            }
            let queue = self.picture.allocations.get(j)?.queue;
            let queues = &self.config().queues;
            let priority = queue.map_or(0, |at| queues[usize::from(at)].priority);
            let user = self.state.spec(job.spec).priority;
            Some((Reverse((priority, user)), run.dispatch, *j))
        };
        let mut stopped: Vec<_> = self
            .picture
            .monitor
            .suspended_by_system()
            .iter()
            .filter_map(rank)
            .collect();
        stopped.sort_unstable();
        stopped.into_iter().map(|(_, _, j)| j).collect()
    }

    /// A job that continues to wait for what it released shows which resource it lacks now.
    fn restate_released(&mut self, j: JobKey) {
        let Some(allocation) = self.picture.allocations.get(&j) else {
            return;
        };
        let Some(run) = self.state.work(j).and_then(|work| work.run.as_deref()) else {
            return;
        };
        let whole = self.picture.full_allocation(self.table, allocation, run);
        let lacking = self.picture.released().find(|(res, _)| {
            let lacks = |(at, bundle): &(u32, Bundle)| {
                let usage = self.picture.usage.get(*at as usize);
                usage.free_amount(*res as u16) < bundle.get(*res)
            };
            whole.iter().any(lacks)
        });
        if let Some((res, name)) = lacking {
            let amount = whole.iter().map(|(_, bundle)| bundle.get(res)).sum();
            let res = name.to_owned();
            self.plan
                .halts
                .push((j, SuspReason::Released { res, amount }));
        }
    }

    /// A preempted job stays stopped after the end of the job that preempted it if another one has
    /// taken its slots: that one is the reason from now on.
    fn restate_preemption(&mut self, j: JobKey) {
        let run = self.state.work(j).and_then(|work| work.run.as_deref());
        let why = run.and_then(|run| Some((run, run.suspension.by_system.as_deref()?)));
        let Some((run, SuspReason::Preempted { by })) = why else {
            return;
        };
        if self.state.stat(*by).is_some_and(JobStat::is_started) {
            return;
        }
        let mut hosts = run.hosts.iter().filter_map(|(id, _)| {
            let at = self.table.position(*id)?;
            self.started_jobs_on(self.table.at(at), false).pop()
        });
        if let Some(by) = hosts.next_back().filter(|by| *by != j) {
            self.plan.halts.push((j, SuspReason::Preempted { by }));
        }
    }
}

/// Whether it waits for what it released when a user stopped it.
fn waits_for_released(run: &Run) -> bool {
    matches!(
        run.suspension.by_system.as_deref(),
        Some(SuspReason::Released { .. })
    )
}
