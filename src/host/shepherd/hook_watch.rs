//! The hook that runs now: one that takes long is reported, and may be ended by a kill of its job
//! although the job's command is over. Owns the rule that a post-exec command has a while to clean
//! up, however often its job is killed.

use crate::model::TermReason;
use crate::record::running_hook::{REPORTED_MS, RunningHook};
use crate::sys::clock;

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
    /// How long a hook with this time limit may take.
    pub(super) fn time_of(&self, limit_ms: u64) -> u64 {
        match self.ended_by {
            Some(_) => limit_ms.min(REPORTED_MS),
            None => limit_ms,
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_MS: u64 = 600_000;

    fn watch(limit_ms: u64) -> HookWatch {
        let mut watch = HookWatch {
            phase: Phase::Post,
            ..HookWatch::default()
        };
        watch.begins("post-exec of the queue".into(), limit_ms);
        watch
    }

    #[test]
    fn a_hook_is_reported_once_if_it_takes_long() {
        let mut quick = watch(LIMIT_MS);
        let at = quick.report_at().unwrap();
        assert!(at >= clock::boot_ms() + REPORTED_MS / 2);
        assert_eq!(quick.take_report(at - 1), None);
        assert!(!quick.ends() && quick.report_at().is_none());
        let mut long = watch(LIMIT_MS);
        let at = long.report_at().unwrap();
        let hook = long.take_report(at).unwrap();
        assert_eq!(hook.until - hook.since, 600_000);
        assert!(hook.after && long.take_report(at + 1).is_none());
        assert!(long.ends(), "that it is over is reported, too");
    }

    /// The first kill decides who ended it; each command after it has the same short time.
    #[test]
    fn a_kill_leaves_a_post_exec_a_while_to_clean_up() {
        let mut killed = watch(LIMIT_MS);
        assert_eq!(killed.reason(TermReason::RunLimit), TermReason::RunLimit);
        assert_eq!(killed.ended_by(TermReason::Owner), Some(REPORTED_MS));
        assert_eq!(killed.ended_by(TermReason::Admin), Some(REPORTED_MS));
        assert_eq!(killed.reason(TermReason::RunLimit), TermReason::Owner);
        assert_eq!(killed.reason(TermReason::MemLimit), TermReason::MemLimit);
        killed.ends();
        assert_eq!(killed.ended_by(TermReason::Owner), None);
        assert_eq!(watch(300).ended_by(TermReason::Owner), Some(300), "its own");
        assert_eq!(killed.time_of(LIMIT_MS), REPORTED_MS);
        assert_eq!(HookWatch::default().time_of(LIMIT_MS), LIMIT_MS);
    }
}
