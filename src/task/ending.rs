//! Converts the top process's status and the counters to the recorded end.
//!
//! Owns the rule that an unknown end is never a success.

use super::spec::TaskLimits;
use crate::model::{AttemptId, TermReason};
use crate::record::report::Ended;

/// How the top process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopEnd {
    /// By itself, with this exit code.
    Exited(i32),
    /// By a signal; whether a core file was written.
    Killed(i32, bool),
}

const SIGXCPU: i32 = 24;
const SIGKILL: i32 = 9;

/// Facts gathered when a task is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndFacts {
    pub top: TopEnd,
    /// Why it was being ended; `TermReason::None` if it was not.
    pub ordered: TermReason,
    /// Processes of the task that were killed because memory ran out.
    pub oom_kills: u64,
    /// Processes that the task could not create because of the limit of processes.
    pub refused_processes: u64,
    /// CPU time used, ms.
    pub cpu_ms: u64,
}

/// The record of an observed end. The caller adds times and usage.
pub fn ended(a: AttemptId, facts: &EndFacts, limits: &TaskLimits) -> Ended {
    let mut e = Ended {
        a,
        oom: facts.oom_kills > 0,
        ..Ended::default()
    };
    match facts.top {
        TopEnd::Exited(code) => e.code = Some(code),
        TopEnd::Killed(sig, core) => (e.sig, e.core) = (sig, core),
    }
    let killed = killed_by(facts.top);
    let cpu_used_up = limits.cpu_s.is_some_and(|s| facts.cpu_ms / 1000 >= s);
    e.reason = match (facts.ordered, killed) {
        // A task that ends by itself just before an order to end counts as ended by the order: no
        // record distinguishes the two, and the order is what its owner remembers.
        (ordered, _) if ordered != TermReason::None => ordered,
        (_, Some(SIGKILL)) if e.oom && limits.mem_b.is_some() => TermReason::MemLimit,
        (_, Some(SIGKILL)) if e.oom => TermReason::Oom,
        (_, Some(SIGXCPU)) if limits.cpu_s.is_some() => TermReason::CpuLimit,
        // The kernel kills a second after the warning that a program ignored.
        (_, Some(SIGKILL)) if cpu_used_up => TermReason::CpuLimit,
        _ if facts.refused_processes > 0 && limits.procs.is_some() && failed(facts.top) => {
            TermReason::ProcessLimit
        }
        _ => TermReason::None,
    };
    e
}

/// Whether the task failed: one that handles a refused process and succeeds needs no reason.
fn failed(top: TopEnd) -> bool {
    top != TopEnd::Exited(0)
}

/// The signal that caused an end: a shell reports its child's signal as 128 + its number. Only used
/// if a counter or a limit indicates the same.
fn killed_by(top: TopEnd) -> Option<i32> {
    match top {
        TopEnd::Killed(sig, _) => Some(sig),
        TopEnd::Exited(code) => (129..=192).contains(&code).then_some(code - 128),
    }
}

/// The record of a task that could not be started.
pub fn not_started(a: AttemptId, code: Option<i32>, text: String) -> Ended {
    Ended {
        a,
        code,
        reason: TermReason::StartFailed,
        text,
        ..Ended::default()
    }
}

/// The record of an end that was not observed: no code and no signal, so never a success.
pub fn unknown(a: AttemptId, reason: TermReason, text: &str) -> Ended {
    Ended {
        a,
        reason,
        text: text.to_owned(),
        ..Ended::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(top: TopEnd, ordered: TermReason, oom_kills: u64, mem: bool) -> Ended {
        let limits = TaskLimits {
            mem_b: mem.then_some(1),
            ..TaskLimits::default()
        };
        ended(
            AttemptId::default(),
            &EndFacts {
                top,
                ordered,
                oom_kills,
                refused_processes: 0,
                cpu_ms: 0,
            },
            &limits,
        )
    }

    #[test]
    fn out_of_memory_is_named_and_flagged() {
        let e = end(TopEnd::Killed(9, false), TermReason::None, 1, true);
        assert_eq!(
            (e.reason, e.oom, e.code),
            (TermReason::MemLimit, true, None)
        );
        let e = end(TopEnd::Exited(137), TermReason::None, 1, true);
        assert_eq!(
            (e.reason, e.code),
            (TermReason::MemLimit, Some(137)),
            "through a shell"
        );
        let e = end(TopEnd::Exited(137), TermReason::None, 0, true);
        assert_eq!(e.reason, TermReason::None, "nothing speaks for the limit");
        let e = end(TopEnd::Killed(9, false), TermReason::None, 1, false);
        assert_eq!(e.reason, TermReason::Oom);
        let e = end(TopEnd::Exited(0), TermReason::None, 1, true);
        assert_eq!((e.reason, e.oom, e.code), (TermReason::None, true, Some(0)));
    }

    #[test]
    fn a_task_that_failed_for_want_of_processes_says_so() {
        let limits = TaskLimits {
            procs: Some(3),
            ..TaskLimits::default()
        };
        let reason = |code, refused_processes, limits: &TaskLimits| {
            let facts = EndFacts {
                top: TopEnd::Exited(code),
                ordered: TermReason::None,
                oom_kills: 0,
                refused_processes,
                cpu_ms: 0,
            };
            ended(AttemptId::default(), &facts, limits).reason
        };
        assert_eq!(reason(2, 1, &limits), TermReason::ProcessLimit);
        assert_eq!(reason(2, 0, &limits), TermReason::None);
        assert_eq!(reason(0, 1, &limits), TermReason::None);
        assert_eq!(reason(2, 1, &TaskLimits::default()), TermReason::None);
    }

    #[test]
    fn an_order_outranks_the_memory_limit() {
        let e = end(TopEnd::Killed(9, false), TermReason::Owner, 1, true);
        assert_eq!((e.reason, e.sig), (TermReason::Owner, 9));
    }

    #[test]
    fn the_cpu_limit_is_named_whether_the_warning_was_heeded_or_not() {
        let limits = TaskLimits {
            cpu_s: Some(2),
            ..TaskLimits::default()
        };
        let end = |top, cpu_ms| {
            let facts = EndFacts {
                top,
                ordered: TermReason::None,
                oom_kills: 0,
                refused_processes: 0,
                cpu_ms,
            };
            ended(AttemptId::default(), &facts, &limits).reason
        };
        assert_eq!(end(TopEnd::Killed(24, false), 2000), TermReason::CpuLimit);
        assert_eq!(end(TopEnd::Killed(9, false), 3010), TermReason::CpuLimit);
        assert_eq!(end(TopEnd::Killed(9, false), 100), TermReason::None);
    }

    #[test]
    fn an_unknown_end_has_neither_code_nor_signal() {
        let e = unknown(AttemptId::default(), TermReason::ShepherdLost, "gone");
        assert_eq!((e.code, e.sig), (None, 0));
    }
}
