//! The shepherd's decisions while its task runs: limits, ordered signals, suspension, the end.
//!
//! A state machine over the boot-time clock: orders and the passing of time in, effects out. It
//! never signals anything itself, and its effects may be repeated without harm.

use super::checkpoints::{AfterCheckpoint, Checkpoints};
use super::sent_signal::SentSignal;
use super::spec::TaskAct;
use crate::model::{CheckpointAct, RunWarning, TermReason};

/// First and longest pause between rounds of killing processes that do not end (ms).
const KILL_AGAIN_MS: (u64, u64) = (50, 5_000);

/// An action for the shepherd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send this signal to every process of the task.
    Signal(i32),
    /// Kill every process of the task.
    KillAll,
    /// Suspend every process of the task.
    Freeze,
    /// Let them continue.
    Thaw,
    /// Begin to end the task: by the action of its queue, otherwise by its first signal.
    Terminate,
    /// Save its state (true: even if the method would otherwise refuse); `checkpoint_over` follows.
    Checkpoint(bool),
    /// Warn it with this signal (0: none): it is ended or suspended in this time (ms), for this
    /// reason.
    Warn(i32, u64, TermReason),
}

/// Signal numbers that the machine sends, named once so that it needs no system's header.
pub mod signal {
    pub const INT: i32 = 2;
    pub const KILL: i32 = 9;
    pub const TERM: i32 = 15;
    pub const CONT: i32 = 18;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Its state is saved first.
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
struct WarningSignal {
    signal: i32,
    before_ms: u64,
    given: bool,
}

/// How its end begins.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct EndBegin {
    /// Its queue defines how it is terminated.
    controlled: bool,
    /// With TERM, as in Slurm, not with INT.
    term_first: bool,
}

/// The state of one running task. All times in ms of the boot-time clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    started: u64,
    run_ms: Option<u64>,
    /// When the leader ends it, suspended or not: this machine only warns it.
    deadline_at: Option<u64>,
    grace_ms: u64,
    suspended_at: Option<u64>,
    suspended_ms: u64,
    ending: Option<Ending>,
    reason: TermReason,
    warn: Option<WarningSignal>,
    begin: EndBegin,
    /// The last one of each signal that was sent to it.
    sent: Vec<SentSignal>,
    /// The top process has ended: later orders did not cause the end.
    top_ended: bool,
    /// Its checkpoints, if it has any.
    saving: Option<Checkpoints>,
    /// The time of the suspension of which it was warned.
    stop_at: Option<u64>,
    /// Why it was to be ended, if that was ordered after its top process had ended.
    late_reason: TermReason,
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
            begin: EndBegin::default(),
            sent: Vec::new(),
            top_ended: false,
            saving: None,
            stop_at: None,
            late_reason: TermReason::None,
        }
    }

    /// Why the task is being ended; `TermReason::None` if it is not.
    pub fn reason(&self) -> TermReason {
        self.reason
    }

    /// Why it was to be ended, if that was ordered after its top process had ended by itself: the
    /// next program must not begin.
    pub fn late_reason(&self) -> TermReason {
        self.late_reason
    }

    /// Whether it is suspended. If its top process has ended, the next program is.
    pub fn is_suspended(&self) -> bool {
        self.suspended_at.is_some()
    }

    /// Handles an order.
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
        if self.top_ended && ends && self.late_reason == TermReason::None {
            self.late_reason = reason;
            self.resume(now);
        }
        match act {
            TaskAct::Terminate => self.terminate(reason, grace_ms, now),
            TaskAct::Kill | TaskAct::Number(signal::KILL) => self.kill(reason, now),
            TaskAct::Number(n) => {
                let warning = reason == TermReason::Preempt;
                self.note_sent(n, warning, reason);
                vec![Effect::Signal(n)]
            }
            TaskAct::Resize | TaskAct::Limits => Vec::new(),
            TaskAct::Checkpoint(act) => self.checkpoint(act, now),
            // The next program waits until it is resumed; processes that are left are killed.
            TaskAct::Stop
                if self.top_ended && [self.late_reason, self.reason] == [TermReason::None; 2] =>
            {
                self.suspended_at.get_or_insert(now);
                Vec::new()
            }
            // A task that is being ended is not suspended any more: otherwise it would never end.
            TaskAct::Stop if self.ending.is_some() => Vec::new(),
            TaskAct::Stop => match self.warn.filter(|_| !self.is_suspended()) {
                Some(_) if self.stop_at.is_some() && reason != TermReason::None => Vec::new(),
                Some(warn) if matches!(reason, TermReason::Load | TermReason::Window) => {
                    self.note_sent(warn.signal, true, reason);
                    let left_ms = warn.before_ms.min(grace_ms);
                    self.stop_at = Some(now.saturating_add(left_ms));
                    vec![Effect::Warn(warn.signal, left_ms, reason)]
                }
                _ => self.stop(now),
            },
            TaskAct::Resume => {
                self.stop_at = None;
                if let Some(then) = self.saving.as_mut().and_then(|all| all.now.as_mut())
                    && *then == AfterCheckpoint::Stop
                {
                    *then = AfterCheckpoint::GoOn;
                }
                self.resume(now);
                vec![Effect::Thaw]
            }
        }
    }

    /// Sets the run limit from now on, counted from its start; `tick` follows. Returns whether an
    /// earlier warning is now void.
    pub fn set_run_limit(&mut self, run_ms: Option<u64>) -> bool {
        self.run_ms = run_ms;
        let given = self.warn.as_mut().map(|warn| &mut warn.given);
        given.is_some_and(std::mem::take)
    }

    /// Sets its termination time.
    #[must_use]
    pub fn ends_at(mut self, deadline_at: Option<u64>) -> Machine {
        self.deadline_at = deadline_at;
        self
    }

    /// Sets the warning: with this signal, this long before its run limit or its termination time,
    /// whichever is first, and once for each run limit.
    #[must_use]
    pub fn warned(mut self, warning: Option<RunWarning>) -> Machine {
        self.warn = warning.map(|w| WarningSignal {
            signal: w.signal,
            before_ms: w.before_s.saturating_mul(1000),
            given: false,
        });
        self
    }

    /// Sets whether the queue may define its own action instead of INT, which the shepherd carries
    /// out.
    #[must_use]
    pub fn controlled(mut self, controlled: bool) -> Machine {
        self.begin.controlled = controlled;
        self
    }

    /// Sets whether its end begins with TERM instead of INT.
    #[must_use]
    pub fn begins_with_term(mut self, term_first: bool) -> Machine {
        self.begin.term_first = term_first;
        self
    }

    /// The first signal of its end, if its queue defines no action.
    pub fn end_signal(&self) -> i32 {
        match self.begin.term_first {
            true => signal::TERM,
            false => signal::INT,
        }
    }

    /// Who sent it this signal, or of what it warned, if it was sent at all.
    pub fn sent(&self, signal: i32) -> Option<SentSignal> {
        self.sent.iter().find(|s| s.signal == signal).copied()
    }

    fn note_sent(&mut self, signal: i32, warning: bool, reason: TermReason) {
        self.sent.retain(|s| s.signal != signal);
        self.sent.push(SentSignal {
            signal,
            warning,
            reason,
        });
    }

    /// Sets its checkpoints.
    #[must_use]
    pub fn with_checkpoints(mut self, checkpoints: Option<Checkpoints>) -> Machine {
        self.saving = checkpoints;
        self
    }

    /// The checkpoint of `Effect::Checkpoint` is over; `made`: it can be used.
    pub fn checkpoint_over(&mut self, made: bool, now: u64) -> Vec<Effect> {
        let saving = self.saving.as_mut();
        let Some(then) = saving.and_then(|all| all.now.take()) else {
            return Vec::new();
        };
        match self.ending {
            Some(e) if e.step == Step::Save => self.advance(e, now),
            Some(_) => Vec::new(),
            None if then == AfterCheckpoint::Stop => vec![Effect::Freeze],
            None => {
                let reason = match then {
                    AfterCheckpoint::End => TermReason::Checkpoint,
                    AfterCheckpoint::Migrate => TermReason::Migrate,
                    AfterCheckpoint::GoOn | AfterCheckpoint::Stop => return Vec::new(),
                };
                let grace_ms = self.grace_ms;
                match made {
                    true => self.end_by_signals(reason, grace_ms, now),
                    false => Vec::new(),
                }
            }
        }
    }

    /// Makes a requested checkpoint. A suspended task cannot be saved.
    fn checkpoint(&mut self, act: CheckpointAct, now: u64) -> Vec<Effect> {
        let can = self.ending.is_none() && self.suspended_at.is_none() && !self.top_ended;
        let Some(saving) = self.saving.as_mut().filter(|_| can) else {
            return Vec::new();
        };
        let then = match (act.kill, act.migrate) {
            (_, true) => AfterCheckpoint::Migrate,
            (true, _) => AfterCheckpoint::End,
            _ => AfterCheckpoint::GoOn,
        };
        let begun = saving.begin(then, now);
        saving.set_period(act, now);
        match begun {
            true => vec![Effect::Checkpoint(act.force)],
            false => Vec::new(),
        }
    }

    /// Suspends it, after a checkpoint if one is being made or its queue requires one.
    fn stop(&mut self, now: u64) -> Vec<Effect> {
        self.stop_at = None;
        let again = self.is_suspended();
        self.suspended_at.get_or_insert(now);
        match &mut self.saving {
            Some(all) if all.now.is_some() => {
                all.begin(AfterCheckpoint::Stop, now);
                Vec::new()
            }
            Some(all) if all.before_stop && !again => {
                all.begin(AfterCheckpoint::Stop, now);
                vec![Effect::Checkpoint(false)]
            }
            _ => vec![Effect::Freeze],
        }
    }

    /// Whether it was warned of its end by time, and the warning still applies.
    pub fn is_warned(&self) -> bool {
        self.warn.is_some_and(|warn| warn.given)
    }

    /// When it is ended even if the checkpoint before its end is not finished.
    pub fn save_ends(&self) -> Option<u64> {
        let saving = self.ending.filter(|e| e.step == Step::Save);
        saving.map(|e| e.next_at)
    }

    /// Whether the top process has ended.
    pub fn is_over(&self) -> bool {
        self.top_ended
    }

    /// Whether it is being ended.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// The top process ended by itself: its remaining descendants are killed. A suspension stays in
    /// force for the next program.
    pub fn top_ended(&mut self, now: u64) -> Vec<Effect> {
        self.top_ended = true;
        self.begin_kill(now);
        let thaw = self.is_suspended().then_some(Effect::Thaw);
        [Effect::KillAll].into_iter().chain(thaw).collect()
    }

    /// The next program is controlled by `next`, which is suspended if this machine is.
    pub fn continue_with(&mut self, next: Machine, now: u64) -> Vec<Effect> {
        let stopped = self.is_suspended();
        *self = next;
        match stopped {
            true => self.order(TaskAct::Stop, TermReason::None, 0, now),
            false => Vec::new(),
        }
    }

    /// Handles the passing of time.
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
        // While it is suspended, the limit does not approach.
        if self.suspended_at.is_some() {
            return None;
        }
        Some(
            self.started
                .saturating_add(run)
                .saturating_add(self.suspended_ms(now)),
        )
    }

    /// When and why it is ended, according to time alone.
    fn end_at(&self, now: u64) -> Option<(u64, TermReason)> {
        let limit = self.limit_at(now).map(|at| (at, TermReason::RunLimit));
        let deadline = self.deadline_at.map(|at| (at, TermReason::Deadline));
        limit.into_iter().chain(deadline).min_by_key(|(at, _)| *at)
    }

    /// When its state is to be saved next. A suspended task cannot be saved.
    fn save_at(&self) -> Option<u64> {
        let running = self.suspended_at.is_none() && !self.top_ended;
        self.saving.as_ref().filter(|_| running)?.next_at()
    }

    /// When it is to be warned, if it was not warned yet.
    fn warn_at(&self, now: u64) -> Option<u64> {
        let warn = self.warn.filter(|warn| !warn.given)?;
        Some(self.end_at(now)?.0.saturating_sub(warn.before_ms))
    }

    fn warn(&mut self, now: u64) -> Vec<Effect> {
        let end = self.end_at(now);
        let Some((warn, (at, why))) = self.warn.as_mut().zip(end) else {
            return Vec::new();
        };
        warn.given = true;
        let signal = warn.signal;
        self.note_sent(signal, true, why);
        vec![Effect::Warn(signal, at.saturating_sub(now), why)]
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
            let begun = all.begin(AfterCheckpoint::GoOn, now);
            return self.save_first(reason, (limit_ms, grace_ms), begun, now);
        }
        self.end_by_signals(reason, grace_ms, now)
    }

    /// Saves its state before it is ended, for as long as that may take. `begun`: a new checkpoint
    /// has begun.
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
        let step = self.first_step();
        self.ending = Some(Ending {
            step,
            next_at,
            pause: KILL_AGAIN_MS.0,
            grace_ms,
        });
        let first = self.first_signal();
        // A process that a signal stopped handles TERM only after CONT.
        let wake = step == Step::Term && !self.is_suspended();
        let mut all = self.with_thaw(now, first);
        all.extend(wake.then_some(Effect::Signal(signal::CONT)));
        all
    }

    /// The step of the first signal: TERM follows an action of the queue in any case.
    fn first_step(&self) -> Step {
        match self.begin.term_first && !self.begin.controlled {
            true => Step::Term,
            false => Step::Int,
        }
    }

    fn first_signal(&self) -> Effect {
        match self.begin.controlled {
            true => Effect::Terminate,
            false => Effect::Signal(self.end_signal()),
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
                e.step = self.first_step();
                e.next_at = now.saturating_add(e.grace_ms);
                self.first_signal()
            }
            Step::Int => {
                e.step = Step::Term;
                e.next_at = now.saturating_add(e.grace_ms);
                Effect::Signal(signal::TERM)
            }
            Step::Term | Step::Kill => {
                // A process that waits for a dead file server cannot end now: kill it less often.
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
        // Signalled first, so that a thawed process gets the signal before it continues.
        if self.is_suspended() {
            self.resume(now);
            return vec![then, Effect::Thaw];
        }
        vec![then]
    }

    /// Keeps the first reason: an owner's kill is not renamed because a limit is reached.
    fn note(&mut self, reason: TermReason) {
        if self.reason == TermReason::None && !self.top_ended {
            self.reason = reason;
        }
    }
}

#[cfg(test)]
mod tests;
