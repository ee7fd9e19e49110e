//! The shepherd's decisions while its task runs: limits, ordered signals, suspension, the end.
//!
//! A state machine over the boot-time clock: orders and the passing of time in, effects out. It
//! never signals anything itself, and what it asks for may be done twice without harm.

use super::checkpoints::{Checkpoints, Then};
use super::spec::TaskAct;
use crate::model::{CheckpointAct, RunWarning, TermReason};

/// Pause between rounds of killing what will not die (ms): first and longest.
const KILL_AGAIN_MS: (u64, u64) = (50, 5_000);

/// What the shepherd is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send this signal to every process of the task.
    Signal(i32),
    /// Kill every process of the task.
    KillAll,
    /// Suspend every process of the task.
    Freeze,
    /// Let them go on.
    Thaw,
    /// Begin to end the task: as its queue says, else by INT.
    Terminate,
    /// Save its state (true: whatever stands against that); `checkpoint_over` comes afterwards.
    Checkpoint(bool),
    /// Warn it with this signal (0: none): it is ended in so many ms, for this reason.
    Warn(i32, u64, TermReason),
}

/// Signal numbers that the machine sends, named once so that it needs no system's header.
pub mod signal {
    pub const INT: i32 = 2;
    pub const KILL: i32 = 9;
    pub const TERM: i32 = 15;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Its state is being saved before.
    Save,
    Int,
    Term,
    Kill,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ending {
    step: Step,
    next_at: u64,
    pause: u64,
    grace_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Warn {
    signal: i32,
    before_ms: u64,
    given: bool,
}

/// The state of one running task. All times in ms of the boot-time clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    started: u64,
    run_ms: Option<u64>,
    /// When the leader ends it, suspended or not: it is only warned here.
    deadline_at: Option<u64>,
    grace_ms: u64,
    suspended_at: Option<u64>,
    suspended_ms: u64,
    ending: Option<Ending>,
    reason: TermReason,
    warn: Option<Warn>,
    /// Its queue says how it is terminated.
    controlled: bool,
    /// The top process has ended: orders that come later had no part in it.
    over: bool,
    /// It has checkpoints.
    saving: Option<Checkpoints>,
    /// It was warned that it is suspended then.
    stop_at: Option<u64>,
    /// Why it was to be ended, ordered after its top process had ended.
    late: TermReason,
}

impl Machine {
    /// A task that starts now. `run_ms`: its run limit, suspended time not counted.
    pub fn new(now: u64, run_ms: Option<u64>, grace_ms: u64) -> Machine {
        Machine {
            started: now,
            run_ms,
            deadline_at: None,
            grace_ms,
            suspended_at: None,
            suspended_ms: 0,
            ending: None,
            reason: TermReason::None,
            warn: None,
            controlled: false,
            over: false,
            saving: None,
            stop_at: None,
            late: TermReason::None,
        }
    }

    /// Why the task is being ended; `None` (the reason) when it is not.
    pub fn reason(&self) -> TermReason {
        self.reason
    }

    /// Why it was to be ended, where that was ordered after its top process had ended by itself:
    /// what would come after it is not to begin.
    pub fn late_reason(&self) -> TermReason {
        self.late
    }

    /// True while it is suspended. Of one whose top process has ended: what comes after it is.
    pub fn is_suspended(&self) -> bool {
        self.suspended_at.is_some()
    }

    /// Takes an order.
    pub fn order(
        &mut self,
        act: TaskAct,
        reason: TermReason,
        grace_ms: u64,
        now: u64,
    ) -> Vec<Effect> {
        let ends = matches!(
            act,
            TaskAct::Terminate | TaskAct::Kill | TaskAct::Number(signal::KILL)
        );
        if self.over && ends && self.late == TermReason::None {
            self.late = reason;
            self.resume(now);
        }
        match act {
            TaskAct::Terminate => self.terminate(reason, grace_ms, now),
            TaskAct::Kill | TaskAct::Number(signal::KILL) => self.kill(reason, now),
            TaskAct::Number(n) => vec![Effect::Signal(n)],
            TaskAct::Resize | TaskAct::Limits => Vec::new(),
            TaskAct::Checkpoint(act) => self.checkpoint(act, now),
            // What comes after it is to wait until it is resumed; what it left is killed.
            TaskAct::Stop if self.over && [self.late, self.reason] == [TermReason::None; 2] => {
                self.suspended_at.get_or_insert(now);
                Vec::new()
            }
            // A task that is being ended is not suspended any more: it would never end.
            TaskAct::Stop if self.ending.is_some() => Vec::new(),
            TaskAct::Stop => match self.warn.filter(|_| !self.is_suspended()) {
                Some(_) if self.stop_at.is_some() && reason != TermReason::None => Vec::new(),
                Some(warn) if matches!(reason, TermReason::Load | TermReason::Window) => {
                    let left_ms = warn.before_ms.min(grace_ms);
                    self.stop_at = Some(now.saturating_add(left_ms));
                    vec![Effect::Warn(warn.signal, left_ms, reason)]
                }
                _ => self.stop(now),
            },
            TaskAct::Resume => {
                self.stop_at = None;
                if let Some(then) = self.saving.as_mut().and_then(|all| all.now.as_mut())
                    && *then == Then::Stop
                {
                    *then = Then::GoOn;
                }
                self.resume(now);
                vec![Effect::Thaw]
            }
        }
    }

    /// Its run limit is this from now on, counted from its start; `tick` comes next. Whether a
    /// warning that was given is void now.
    pub fn set_run_limit(&mut self, run_ms: Option<u64>) -> bool {
        self.run_ms = run_ms;
        let given = self.warn.as_mut().map(|warn| &mut warn.given);
        given.is_some_and(std::mem::take)
    }

    /// Its termination time is this.
    #[must_use]
    pub fn ends_at(mut self, deadline_at: Option<u64>) -> Machine {
        self.deadline_at = deadline_at;
        self
    }

    /// It is warned with this signal, so long before its run limit or its termination time, what
    /// comes first, and once for each run limit.
    #[must_use]
    pub fn warned(mut self, warning: Option<RunWarning>) -> Machine {
        self.warn = warning.map(|w| Warn {
            signal: w.signal,
            before_ms: w.before_s.saturating_mul(1000),
            given: false,
        });
        self
    }

    /// The queue may have an act of its own in the place of INT: it is left to the shepherd.
    #[must_use]
    pub fn controlled(mut self, controlled: bool) -> Machine {
        self.controlled = controlled;
        self
    }

    /// Its state is saved now and then.
    #[must_use]
    pub fn saved(mut self, checkpoints: Option<Checkpoints>) -> Machine {
        self.saving = checkpoints;
        self
    }

    /// The checkpoint that `Effect::Checkpoint` asked for is over; `made`: it can be used.
    pub fn checkpoint_over(&mut self, made: bool, now: u64) -> Vec<Effect> {
        let saving = self.saving.as_mut();
        let Some(then) = saving.and_then(|all| all.now.take()) else {
            return Vec::new();
        };
        match self.ending {
            Some(e) if e.step == Step::Save => self.advance(e, now),
            Some(_) => Vec::new(),
            None if then == Then::Stop => vec![Effect::Freeze],
            None => {
                let reason = match then {
                    Then::End => TermReason::Checkpoint,
                    Then::Migrate => TermReason::Migrate,
                    Then::GoOn | Then::Stop => return Vec::new(),
                };
                let grace_ms = self.grace_ms;
                match made {
                    true => self.end_by_signals(reason, grace_ms, now),
                    false => Vec::new(),
                }
            }
        }
    }

    /// One that was asked for. A suspended task cannot be saved.
    fn checkpoint(&mut self, act: CheckpointAct, now: u64) -> Vec<Effect> {
        let can = self.ending.is_none() && self.suspended_at.is_none() && !self.over;
        let Some(saving) = self.saving.as_mut().filter(|_| can) else {
            return Vec::new();
        };
        let then = match (act.kill, act.migrate) {
            (_, true) => Then::Migrate,
            (true, _) => Then::End,
            _ => Then::GoOn,
        };
        let begun = saving.begin(then, now);
        saving.set_period(act, now);
        match begun {
            true => vec![Effect::Checkpoint(act.force)],
            false => Vec::new(),
        }
    }

    /// Suspends it, after a checkpoint where one is being made or its queue wants one.
    fn stop(&mut self, now: u64) -> Vec<Effect> {
        self.stop_at = None;
        let again = self.is_suspended();
        self.suspended_at.get_or_insert(now);
        match &mut self.saving {
            Some(all) if all.now.is_some() => {
                all.begin(Then::Stop, now);
                Vec::new()
            }
            Some(all) if all.before_stop && !again => {
                all.begin(Then::Stop, now);
                vec![Effect::Checkpoint(false)]
            }
            _ => vec![Effect::Freeze],
        }
    }

    /// It was warned of its end by time, and that warning stands.
    pub fn is_warned(&self) -> bool {
        self.warn.is_some_and(|warn| warn.given)
    }

    /// When it is ended whether or not its state was saved before.
    pub fn save_ends(&self) -> Option<u64> {
        let saving = self.ending.filter(|e| e.step == Step::Save);
        saving.map(|e| e.next_at)
    }

    /// The top process has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// It is being ended.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// The top process ended by itself: what is left of its descendants is killed. A stop stays in
    /// force for what comes after it.
    pub fn top_ended(&mut self, now: u64) -> Vec<Effect> {
        self.over = true;
        self.begin_kill(now);
        let thaw = self.is_suspended().then_some(Effect::Thaw);
        [Effect::KillAll].into_iter().chain(thaw).collect()
    }

    /// What comes after it is decided by `next`, and stopped if this is.
    pub fn go_over(&mut self, next: Machine, now: u64) -> Vec<Effect> {
        let stopped = self.is_suspended();
        *self = next;
        match stopped {
            true => self.order(TaskAct::Stop, TermReason::None, 0, now),
            false => Vec::new(),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64) -> Vec<Effect> {
        match self.ending {
            Some(e) if now >= e.next_at => self.advance(e, now),
            None if self.limit_at(now).is_some_and(|at| now >= at) => {
                self.terminate(TermReason::RunLimit, self.grace_ms, now)
            }
            None if self.stop_at.is_some_and(|at| now >= at) => self.stop(now),
            None if self.warn_at(now).is_some_and(|at| now >= at) => self.warn(now),
            None if self.save_at().is_some_and(|at| now >= at) => {
                self.checkpoint(CheckpointAct::default(), now)
            }
            _ => Vec::new(),
        }
    }

    /// When `tick` must be called next, if nothing else happens.
    pub fn next_at(&self, now: u64) -> Option<u64> {
        match self.ending {
            Some(e) => Some(e.next_at),
            None => self
                .warn_at(now)
                .into_iter()
                .chain(self.limit_at(now))
                .chain(self.save_at())
                .chain(self.stop_at)
                .min(),
        }
    }

    /// Suspended time so far.
    pub fn suspended_ms(&self, now: u64) -> u64 {
        self.suspended_ms + self.suspended_at.map_or(0, |at| now.saturating_sub(at))
    }

    fn limit_at(&self, now: u64) -> Option<u64> {
        let run = self.run_ms?;
        // While it is suspended the limit does not come nearer.
        if self.suspended_at.is_some() {
            return None;
        }
        Some(
            self.started
                .saturating_add(run)
                .saturating_add(self.suspended_ms(now)),
        )
    }

    /// When and why it is ended, as far as time alone decides.
    fn end_at(&self, now: u64) -> Option<(u64, TermReason)> {
        let limit = self.limit_at(now).map(|at| (at, TermReason::RunLimit));
        let deadline = self.deadline_at.map(|at| (at, TermReason::Deadline));
        limit.into_iter().chain(deadline).min_by_key(|(at, _)| *at)
    }

    /// When its state is to be saved next. A suspended task cannot be saved.
    fn save_at(&self) -> Option<u64> {
        let running = self.suspended_at.is_none() && !self.over;
        self.saving.as_ref().filter(|_| running)?.next_at()
    }

    /// When it is to be warned, if it was not yet: never after its end.
    fn warn_at(&self, now: u64) -> Option<u64> {
        let warn = self.warn.filter(|warn| !warn.given)?;
        Some(self.end_at(now)?.0.saturating_sub(warn.before_ms))
    }

    fn warn(&mut self, now: u64) -> Vec<Effect> {
        let end = self.end_at(now);
        let warn = self.warn.as_mut().zip(end).map(|(warn, (at, why))| {
            warn.given = true;
            Effect::Warn(warn.signal, at.saturating_sub(now), why)
        });
        warn.into_iter().collect()
    }

    fn resume(&mut self, now: u64) {
        if let Some(at) = self.suspended_at.take() {
            self.suspended_ms += now.saturating_sub(at);
        }
    }

    fn terminate(&mut self, reason: TermReason, grace_ms: u64, now: u64) -> Vec<Effect> {
        if self.ending.is_some() {
            return Vec::new();
        }
        if let Some(all) = self.saving.as_mut().filter(|all| all.comes_before(reason)) {
            let limit_ms = all.limit_ms;
            let begun = all.begin(Then::GoOn, now);
            return self.save_first(reason, (limit_ms, grace_ms), begun, now);
        }
        self.end_by_signals(reason, grace_ms, now)
    }

    /// Its state is saved before it is ended, for as long as that may take. `begun`: nothing is
    /// being saved yet.
    fn save_first(
        &mut self,
        reason: TermReason,
        (limit_ms, grace_ms): (u64, u64),
        begun: bool,
        now: u64,
    ) -> Vec<Effect> {
        self.note(reason);
        self.ending = Some(Ending {
            step: Step::Save,
            next_at: now.saturating_add(limit_ms),
            pause: KILL_AGAIN_MS.0,
            grace_ms,
        });
        let thaw = self.is_suspended().then_some(Effect::Thaw);
        self.resume(now);
        let save = begun.then_some(Effect::Checkpoint(false));
        thaw.into_iter().chain(save).collect()
    }

    fn end_by_signals(&mut self, reason: TermReason, grace_ms: u64, now: u64) -> Vec<Effect> {
        self.note(reason);
        let next_at = now.saturating_add(grace_ms);
        let step = Step::Int;
        self.ending = Some(Ending {
            step,
            next_at,
            pause: KILL_AGAIN_MS.0,
            grace_ms,
        });
        let first = self.first_signal();
        self.with_thaw(now, first)
    }

    fn first_signal(&self) -> Effect {
        match self.controlled {
            true => Effect::Terminate,
            false => Effect::Signal(signal::INT),
        }
    }

    fn kill(&mut self, reason: TermReason, now: u64) -> Vec<Effect> {
        self.note(reason);
        self.begin_kill(now);
        self.with_thaw(now, Effect::KillAll)
    }

    fn begin_kill(&mut self, now: u64) {
        let pause = KILL_AGAIN_MS.0;
        self.ending = Some(Ending {
            step: Step::Kill,
            next_at: now + pause,
            pause,
            grace_ms: 0,
        });
    }

    fn advance(&mut self, mut e: Ending, now: u64) -> Vec<Effect> {
        let effect = match e.step {
            Step::Save => {
                e.step = Step::Int;
                e.next_at = now.saturating_add(e.grace_ms);
                self.first_signal()
            }
            Step::Int => {
                e.step = Step::Term;
                e.next_at = now.saturating_add(e.grace_ms);
                Effect::Signal(signal::TERM)
            }
            Step::Term | Step::Kill => {
                // A process that waits for a dead file server cannot die now: ask more rarely.
                e.step = Step::Kill;
                e.next_at = now + e.pause;
                e.pause = (e.pause * 2).min(KILL_AGAIN_MS.1);
                Effect::KillAll
            }
        };
        self.ending = Some(e);
        vec![effect]
    }

    fn with_thaw(&mut self, now: u64, then: Effect) -> Vec<Effect> {
        // Signalled first, so that the first thing a thawed process meets is the signal.
        if self.is_suspended() {
            self.resume(now);
            return vec![then, Effect::Thaw];
        }
        vec![then]
    }

    /// The first reason stands: an owner's kill is not renamed by the limit it runs into.
    fn note(&mut self, reason: TermReason) {
        if self.reason == TermReason::None && !self.over {
            self.reason = reason;
        }
    }
}

#[cfg(test)]
mod tests;
