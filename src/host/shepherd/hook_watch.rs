//! The hook that runs now: one that takes long is reported, and may be ended by a kill of its job
//! although the job's command is over. Owns the rule that a post-exec command has a while to clean
//! up, however often its job is killed.

use crate::model::TermReason;
use crate::record::running_hook::{REPORTED_MS, RunningHook};
use crate::sys::clock;
use crate::task::spec::Hook;

/// The part of a task that runs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Phase {
    Pre,
    #[default]
    Command,
    Post,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct HookWatch {
    pub phase: Phase,
    now: Option<Watched>,
    /// Who ended the commands after the job's own; they have less time from then on.
    ended_by: Option<TermReason>,
}

struct Watched {
    about: RunningHook,
    /// When it is reported (boot-time clock); `None`: it was.
    report_at: Option<u64>,
}

impl HookWatch {
    /// How long this hook may take.
    pub(super) fn limit_ms(&self, hook: &Hook) -> u64 {
        match self.ended_by {
            Some(_) => hook.limit_ms.min(REPORTED_MS),
            None => hook.limit_ms,
        }
    }

    pub(super) fn begins(&mut self, what: String, limit_ms: u64) {
        let since = clock::wall_ms();
        let about = RunningHook {
            what,
            after: self.phase == Phase::Post,
            since,
            until: since.saturating_add_unsigned(limit_ms),
        };
        self.now = Some(Watched {
            about,
            report_at: Some(clock::boot_ms().saturating_add(REPORTED_MS)),
        });
    }

    /// When it is reported, if it still runs (boot-time clock).
    pub(super) fn report_at(&self) -> Option<u64> {
        self.now.as_ref()?.report_at
    }

    /// The hook that runs, if it is to be reported now.
    pub(super) fn take_report(&mut self, now: u64) -> Option<RunningHook> {
        let watched = self.now.as_mut()?;
        watched.report_at.take_if(|at| *at <= now)?;
        Some(watched.about.clone())
    }

    /// The hook has ended. Returns whether it was reported.
    pub(super) fn ends(&mut self) -> bool {
        let watched = self.now.take();
        watched.is_some_and(|watched| watched.report_at.is_none())
    }

    /// A person kills the job whose command is over: what runs after it is ended, but not before it
    /// had a while to clean up. Returns the run limit of the hook that runs, in ms.
    pub(super) fn ended_by(&mut self, reason: TermReason) -> Option<u64> {
        self.ended_by.get_or_insert(reason);
        let about = &self.now.as_ref()?.about;
        let limit = about.until.saturating_sub(about.since);
        Some(u64::try_from(limit).unwrap_or(0).min(REPORTED_MS))
    }

    /// Why a hook was ended whose machine says `reason`.
    pub(super) fn reason(&self, reason: TermReason) -> TermReason {
        match (reason, self.ended_by) {
            (TermReason::RunLimit, Some(by)) => by,
            _ => reason,
        }
    }
}
