//! The virtual cluster: time, running jobs and their ends. At one instant all ends come first, then
//! all submissions, then the decider makes one pass, and what it decided happens at once.
//!
//! Owns the clock and the progress of work (a suspended job does not progress, a requeued one
//! begins again, more slots and faster hosts progress faster, a run limit ends a job). Never
//! decides: a [`Decider`] does, the real core or a plain rule in tests.

use super::meter::Meter;
use super::metrics::FinishedJob;
use super::workload::{Job, Workload};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Slots by host number.
pub type Parts = SmallVec<[(u32, u32); 1]>;

/// A job starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    pub job: u32,
    pub parts: Parts,
    /// CPU factor of its slowest host in thousandths.
    pub cpuf: u32,
    /// Its run limit on a host of factor 1, in milliseconds.
    pub limit_ms: Option<u64>,
    /// What it takes of resources other than slots: number in the meter, thousandths.
    pub uses: Uses,
}

/// Amounts in thousandths by the number of the resource in the meter.
pub type Uses = SmallVec<[(u16, i64); 2]>;

/// A decision about the job at this place in the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Start(Box<Start>),
    /// It runs with more slots from now on.
    Grow {
        job: u32,
        parts: Parts,
    },
    Suspend {
        job: u32,
    },
    Resume {
        job: u32,
    },
    /// It waits again and will run from its beginning.
    Requeue {
        job: u32,
    },
    /// It ends here.
    Kill {
        job: u32,
    },
}

/// What a pass left open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassOutcome {
    /// The pass was cut off: call it again at this instant.
    pub more: bool,
    /// When the passing of time alone may change something.
    pub wake_ms: Option<i64>,
}

/// Decides what happens in the virtual cluster. Jobs are named by their place in the workload,
/// times are milliseconds since the start of the workload.
pub trait Decider {
    /// # Errors
    /// The reason why the job is refused.
    fn submit(&mut self, job: u32, now_ms: i64) -> Result<(), String>;

    /// The job ended by itself or at its limit (`killed`).
    fn end(&mut self, job: u32, now_ms: i64, killed: bool);

    /// Runs one pass; decisions are added to `decisions`.
    fn plan(&mut self, now_ms: i64, decisions: &mut Vec<Decision>) -> PassOutcome;

    /// Called when nothing is left to happen: [`Decider::why`] is called next.
    fn explain(&mut self, _now_ms: i64) {}

    /// The last time at which waiting for a date alone ends for some pending job.
    fn last_date_ms(&self) -> Option<i64> {
        None
    }

    /// Whether all that waits waits for a window to open.
    fn waits_for_windows(&mut self, _now_ms: i64) -> bool {
        false
    }

    /// Why a job that never started waits.
    fn why(&self, job: u32) -> String;

    /// Free thousandths of the fragmenting resource that are of no use now.
    fn fragments(&mut self) -> f64 {
        0.0
    }
}

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// First start of each job in the order of the workload; `None` = never.
    pub starts: Vec<Option<i64>>,
    /// The time at which it was stopped early: what had not started by then starts later or never.
    pub stopped_at: Option<i64>,
    pub done: Vec<FinishedJob>,
    /// Starts, suspensions, resumptions, requeues, kills and growths.
    pub decisions: u64,
    /// Jobs ended by their run limit.
    pub at_limit: u64,
    /// Jobs that were refused at submission: the first of them with the reason, and how many.
    pub refused: Vec<(u64, String)>,
    pub refused_jobs: u64,
    /// Jobs that never ended: the first of them with the reason, and how many.
    pub never_ended: Vec<(u64, String)>,
    pub never_ended_count: u64,
}

/// Maximum number of passes at one instant: a decider that never finishes must not stop the clock.
const PASSES_MAX: usize = 10_000;
/// Windows repeat after a week: what did not start in this time never will, ms.
const QUIET_MS: i64 = 8 * 86_400_000;
/// Number of jobs without a result that are named.
const NAMED: usize = 5;
/// Units of work done in one millisecond with the minimum number of slots on a host of factor 1.
const UNIT: u64 = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stat {
    #[default]
    Ahead,
    Waiting,
    Running,
    Suspended,
    Ended,
    Refused,
}

/// The current state of a job.
#[derive(Clone, Debug, Default)]
struct JobProgress {
    stat: Stat,
    /// Counts changes of its speed: events of earlier counts are void.
    speed_version: u32,
    first_start: Option<i64>,
    /// Since when it progresses at the current speed.
    since_ms: i64,
    /// How long this run has worked until then.
    worked_ms: u64,
    /// Remaining work at that time, in [`UNIT`]s.
    remaining: u64,
    /// What is left of its run limit at that time, in milliseconds.
    limit_ms: Option<u64>,
    /// Units of work per millisecond.
    speed: u64,
    cpuf: u32,
    slots: u32,
    uses: Uses,
}

impl JobProgress {
    /// Milliseconds until its work or its limit is reached, and whether the limit comes first.
    fn remaining(&self) -> (u64, bool) {
        let work = self.remaining.div_ceil(self.speed.max(1));
        match self.limit_ms {
            Some(limit) if limit < work => (limit, true),
            _ => (work, false),
        }
    }

    fn progress(&mut self, now_ms: i64) {
        let ms = u64::try_from(now_ms - self.since_ms).unwrap_or(0);
        self.remaining = self.remaining.saturating_sub(ms.saturating_mul(self.speed));
        self.limit_ms = self.limit_ms.map(|l| l.saturating_sub(ms));
        self.worked_ms += ms;
        self.since_ms = now_ms;
    }
}

/// The progress of a job that started before the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedProgress {
    pub start_ms: i64,
    /// How long it has run, excluding suspension.
    pub worked_ms: u64,
    /// Its run limit on its host, from its start on.
    pub limit_ms: Option<u64>,
    pub suspended: bool,
}

/// The total work of a job, in [`UNIT`]s.
fn total_work(job: &Job, limit_ms: Option<u64>) -> u64 {
    let limit_ms = limit_ms.filter(|_| job.by_clock);
    limit_ms.unwrap_or(job.run_ms).saturating_mul(UNIT)
}

/// A replay in progress.
pub struct Replay<'a> {
    workload: &'a Workload,
    /// User and group number of each request.
    principals: &'a [(u32, u32)],
    live: Vec<JobProgress>,
    ends: BinaryHeap<Reverse<(i64, u32, u32)>>,
    next_job: usize,
    wake_ms: Option<i64>,
    now_ms: i64,
    /// Nothing happens before this time.
    begin_ms: i64,
    /// The replay ends once all of these have started.
    wanted: Vec<u32>,
    partial: bool,
    /// Called before each instant: false ends the replay there.
    go_on: Option<Box<dyn FnMut() -> bool + 'a>>,
    decisions: Vec<Decision>,
    /// The number of events so far, and when it last changed.
    quiet: (u64, i64),
    /// The integrals, if they are needed.
    pub meter: Option<Meter>,
    outcome: Outcome,
}

impl<'a> Replay<'a> {
    /// `principals`: number of the user and the group of each request of the workload.
    pub fn new(
        workload: &'a Workload,
        principals: &'a [(u32, u32)],
        meter: Option<Meter>,
    ) -> Replay<'a> {
        Replay {
            workload,
            principals,
            live: vec![JobProgress::default(); workload.jobs.len()],
            ends: BinaryHeap::new(),
            next_job: 0,
            wake_ms: None,
            now_ms: i64::MIN,
            begin_ms: i64::MIN,
            wanted: Vec::new(),
            partial: false,
            go_on: None,
            decisions: Vec::new(),
            quiet: (u64::MAX, i64::MIN),
            meter,
            outcome: Outcome {
                done: Vec::with_capacity(workload.jobs.len()),
                ..Outcome::default()
            },
        }
    }

    /// Begins at this time: jobs submitted earlier are already waiting.
    pub fn begin_at(&mut self, ms: i64) {
        self.begin_ms = ms;
        self.now_ms = ms;
    }

    /// Ends the replay once all of these have started.
    pub fn end_after_starts(&mut self, started: Vec<u32>) {
        self.wanted = started;
        self.partial = true;
    }

    /// Ends the replay when `go_on` returns false; [`Outcome::stopped_at`] is that time.
    pub fn end_when_disallowed(&mut self, go_on: Box<dyn FnMut() -> bool + 'a>) {
        self.go_on = Some(go_on);
    }

    /// Takes over a job that has started before the replay begins. Call it for all of them, then
    /// [`Replay::run`].
    pub fn adopt(&mut self, at: u32, slots: u32, cpuf: u32, begun: StartedProgress) {
        let job = self.job(at);
        let speed = self.speed(at, slots, cpuf);
        let live = &mut self.live[at as usize];
        live.first_start = Some(begun.start_ms);
        live.since_ms = self.begin_ms;
        live.worked_ms = begun.worked_ms;
        let worked = begun.worked_ms.saturating_mul(speed);
        live.remaining = total_work(job, begun.limit_ms).saturating_sub(worked);
        let left = |ms: u64| ms.saturating_sub(begun.worked_ms);
        live.limit_ms = begun.limit_ms.map(left);
        live.cpuf = cpuf;
        live.slots = slots;
        live.stat = Stat::Suspended;
        if !begun.suspended {
            live.stat = Stat::Running;
            self.meter_slots(at, slots, true);
            self.set_end(at);
        }
    }

    /// Runs until nothing is left to happen.
    pub fn run(&mut self, decider: &mut dyn Decider) -> Outcome {
        while let Some(now) = self.next_instant() {
            self.now_ms = now.max(self.begin_ms);
            let now = self.now_ms;
            if self.go_on.as_mut().is_some_and(|go_on| !go_on()) {
                self.outcome.stopped_at = Some(now);
                break;
            }
            if let Some(meter) = &mut self.meter {
                meter.advance(now);
            }
            self.end_due(decider);
            self.submit_due(decider);
            self.pass(decider);
            let live = &self.live;
            self.wanted
                .retain(|at| live[*at as usize].first_start.is_none());
            if self.wanted.is_empty() && self.partial {
                break;
            }
            if self.is_hopeless(decider) {
                break;
            }
        }
        if self.outcome.stopped_at.is_none() {
            decider.explain(self.now_ms);
        }
        let mut out = std::mem::take(&mut self.outcome);
        out.starts = self.live.iter().map(|l| l.first_start).collect();
        for (at, job) in self.workload.jobs.iter().enumerate() {
            if !matches!(self.live[at].stat, Stat::Ended | Stat::Refused) {
                out.never_ended_count += 1;
                if out.never_ended.len() < NAMED {
                    out.never_ended.push((job.id, decider.why(at as u32)));
                }
            }
        }
        out
    }

    fn next_instant(&mut self) -> Option<i64> {
        while let Some(Reverse((_, job, version))) = self.ends.peek()
            && self.live[*job as usize].speed_version != *version
        {
            self.ends.pop();
        }
        let end = self.ends.peek().map(|Reverse((at, ..))| *at);
        let submit = self.workload.jobs.get(self.next_job).map(|j| j.submit_ms);
        // A wake-up alone does not keep a replay going: it could only lead to another one.
        let wake = self.wake_ms.filter(|_| self.busy());
        [end, submit, wake].into_iter().flatten().min()
    }

    /// Whether nothing will start any more: windows repeat every week, and in more than a week
    /// nothing ended, was submitted or was decided.
    fn is_hopeless(&mut self, decider: &mut dyn Decider) -> bool {
        let events = self.outcome.done.len() as u64 + self.next_job as u64 + self.outcome.decisions;
        if !self.ends.is_empty() || self.quiet.0 != events {
            self.quiet = (events, self.now_ms);
            return false;
        }
        if self.next_job < self.workload.jobs.len() {
            return false;
        }
        let since = self.quiet.1.max(decider.last_date_ms().unwrap_or(i64::MIN));
        let quiet_ms = self.now_ms.saturating_sub(since);
        // The reason is sought at a time at which windows are open, if there is one.
        quiet_ms > QUIET_MS && (quiet_ms > 2 * QUIET_MS || !decider.waits_for_windows(self.now_ms))
    }

    /// Whether something waits or is suspended, so that time may matter.
    fn busy(&self) -> bool {
        self.outcome.done.len() + (self.outcome.refused_jobs as usize) < self.next_job
    }

    fn end_due(&mut self, decider: &mut dyn Decider) {
        while let Some(Reverse((at, job, version))) = self.ends.peek().copied()
            && at <= self.now_ms
        {
            self.ends.pop();
            if self.live[job as usize].speed_version == version {
                let (_, killed) = self.live[job as usize].remaining();
                self.finish(job, killed);
                decider.end(job, self.now_ms, killed);
            }
        }
    }

    fn submit_due(&mut self, decider: &mut dyn Decider) {
        while let Some(job) = self.workload.jobs.get(self.next_job)
            && job.submit_ms <= self.now_ms
        {
            let at = self.next_job as u32;
            self.next_job += 1;
            if self.live[at as usize].stat != Stat::Ahead {
                // It was taken over when the replay began.
                continue;
            }
            match decider.submit(at, self.now_ms) {
                Ok(()) => self.add_pending(at),
                Err(why) => {
                    self.live[at as usize].stat = Stat::Refused;
                    self.outcome.refused_jobs += 1;
                    if self.outcome.refused.len() < NAMED {
                        self.outcome.refused.push((job.id, why));
                    }
                }
            }
        }
    }

    fn pass(&mut self, decider: &mut dyn Decider) {
        for _ in 0..PASSES_MAX {
            let mut decisions = std::mem::take(&mut self.decisions);
            let next = decider.plan(self.now_ms, &mut decisions);
            let idle = decisions.is_empty();
            self.outcome.decisions += decisions.len() as u64;
            for decision in decisions.drain(..) {
                self.carry_out(decision);
            }
            self.decisions = decisions;
            self.wake_ms = next.wake_ms.filter(|at| *at > self.now_ms);
            if let Some(meter) = &mut self.meter {
                meter.fragments(decider.fragments());
            }
            if !next.more || idle {
                break;
            }
        }
    }

    fn job(&self, at: u32) -> &'a Job {
        &self.workload.jobs[at as usize]
    }

    fn add_pending(&mut self, at: u32) {
        self.live[at as usize].stat = Stat::Waiting;
        self.meter_wait(at, true);
    }

    fn meter_wait(&mut self, at: u32, plus: bool) {
        let job = self.job(at);
        let (user, group) = self.principals[job.request as usize];
        let min = self.workload.request(job).min;
        if let Some(meter) = &mut self.meter {
            meter.wait(user, group, min, plus);
        }
    }

    fn meter_slots(&mut self, at: u32, slots: u32, plus: bool) {
        let (user, group) = self.principals[self.job(at).request as usize];
        if let Some(meter) = &mut self.meter {
            meter.change_slots(user, group, slots, plus);
        }
    }

    /// Other resources are held from start to end, even while the job is suspended.
    fn meter_amounts(&mut self, at: u32, plus: bool) {
        if let Some(meter) = &mut self.meter {
            for (n, amount) in &self.live[at as usize].uses {
                meter.change_amount(usize::from(*n), *amount, plus);
            }
        }
    }

    fn carry_out(&mut self, decision: Decision) {
        match decision {
            Decision::Start(start) => self.start(*start),
            Decision::Grow { job, parts } => self.grow(job, &parts),
            Decision::Suspend { job } => self.stop(job),
            Decision::Resume { job } => {
                let live = &mut self.live[job as usize];
                if live.stat == Stat::Suspended {
                    live.stat = Stat::Running;
                    live.since_ms = self.now_ms;
                    let slots = live.slots;
                    self.meter_slots(job, slots, true);
                    self.set_end(job);
                }
            }
            Decision::Requeue { job } => {
                self.stop(job);
                self.meter_amounts(job, false);
                self.add_pending(job);
            }
            Decision::Kill { job } => {
                self.stop(job);
                self.finish(job, true);
            }
        }
    }

    fn start(&mut self, start: Start) {
        let Start {
            job: at,
            parts,
            cpuf,
            limit_ms,
            uses,
        } = start;
        debug_assert_eq!(self.live[at as usize].stat, Stat::Waiting);
        self.meter_wait(at, false);
        let job = self.job(at);
        let now = self.now_ms;
        let slots = parts.iter().map(|(_, n)| n).sum();
        let live = &mut self.live[at as usize];
        live.stat = Stat::Running;
        live.first_start.get_or_insert(now);
        live.since_ms = now;
        live.worked_ms = 0;
        live.remaining = total_work(job, limit_ms);
        live.limit_ms = limit_ms;
        live.uses = uses;
        live.cpuf = cpuf;
        live.slots = slots;
        self.meter_slots(at, slots, true);
        self.meter_amounts(at, true);
        self.set_end(at);
    }

    fn grow(&mut self, at: u32, parts: &Parts) {
        let live = &mut self.live[at as usize];
        if live.stat != Stat::Running {
            return;
        }
        live.progress(self.now_ms);
        let more = parts.iter().map(|(_, n)| n).sum();
        live.slots += more;
        self.meter_slots(at, more, true);
        self.set_end(at);
    }

    /// Removes a running job from its slots.
    fn stop(&mut self, at: u32) {
        let live = &mut self.live[at as usize];
        if live.stat != Stat::Running {
            return;
        }
        live.progress(self.now_ms);
        live.stat = Stat::Suspended;
        live.speed_version += 1;
        let slots = live.slots;
        self.meter_slots(at, slots, false);
    }

    /// Units of work that a job does in a millisecond.
    fn speed(&self, at: u32, slots: u32, cpuf: u32) -> u64 {
        let job = self.job(at);
        if job.by_clock {
            return UNIT;
        }
        let min = self.workload.request(job).min.max(1);
        u64::from(cpuf) * u64::from(slots) / u64::from(min)
    }

    /// Computes when a running job ends.
    fn set_end(&mut self, at: u32) {
        let live = &self.live[at as usize];
        let speed = self.speed(at, live.slots, live.cpuf);
        let live = &mut self.live[at as usize];
        live.speed = speed;
        live.speed_version += 1;
        let (ms, _) = live.remaining();
        let end = self.now_ms.saturating_add_unsigned(ms);
        self.ends.push(Reverse((end, at, live.speed_version)));
    }

    fn finish(&mut self, at: u32, killed: bool) {
        self.stop(at);
        self.meter_amounts(at, false);
        let job = self.job(at);
        let (user, group) = self.principals[job.request as usize];
        let live = &mut self.live[at as usize];
        live.stat = Stat::Ended;
        self.outcome.at_limit += u64::from(killed);
        self.outcome.done.push(FinishedJob {
            job: at,
            submit_ms: job.submit_ms,
            start_ms: live.first_start.unwrap_or(self.now_ms),
            end_ms: self.now_ms,
            run_ms: live.worked_ms,
            slots: live.slots,
            user,
            group,
            deadline_ms: job.deadline_ms,
        });
    }
}

#[cfg(test)]
mod tests;
