//! Converts the top process's status and the counters to the recorded end.
//!
//! Owns the rules that an unknown end is never a success, and that a task of which memory pressure
//! killed a process is none either.

use super::sent_signal::SentSignal;
use super::spec::TaskLimits;
use crate::model::{AttemptId, StartFault, TermReason};
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
    /// The signal that killed it, if it was sent on request or as a warning.
    pub sent: Option<SentSignal>,
    /// Processes of the task that were killed because memory ran out.
    pub oom_kills: u64,
    /// How often the memory limit was reached, if kills are not counted.
    pub limit_hits: u64,
    /// Processes that the task could not create because of the limit of processes.
    pub refused_processes: u64,
    /// CPU time used, ms.
    pub cpu_ms: u64,
}

/// The record of an observed end. The caller adds times and usage.
pub fn ended(a: AttemptId, facts: &EndFacts, limits: &TaskLimits) -> Ended {
    let mut e = Ended {
        a,
        ..Ended::default()
    };
    match facts.top {
        TopEnd::Exited(code) => e.code = Some(code),
        TopEnd::Killed(sig, core) => (e.sig, e.core) = (sig, core),
    }
    let killed = killed_by(facts.top);
    // A limit that was reached may have cost nothing but files in memory.
    e.oom = facts.oom_kills > 0 || (facts.limit_hits > 0 && killed == Some(SIGKILL));
    let cpu_used_up = limits.cpu_s.is_some_and(|s| facts.cpu_ms / 1000 >= s);
    e.reason = match (facts.ordered, killed) {
        // A task that ends by itself just before an order to end counts as ended by the order: no
        // record distinguishes the two, and the order is what its owner remembers.
        (ordered, _) if ordered != TermReason::None => ordered,
        // Whatever the top process made of it: what the killed process computed is missing.
        (_, Some(SIGKILL)) if e.oom => out_of_memory(limits),
        _ if e.oom && !limits.oom_ignored => out_of_memory(limits),
        (_, Some(SIGXCPU)) if limits.cpu_s.is_some() => TermReason::CpuLimit,
        // The kernel kills a second after the warning that a program ignored.
        (_, Some(SIGKILL)) if cpu_used_up => TermReason::CpuLimit,
        _ if facts.refused_processes > 0 && limits.procs.is_some() && failed(facts.top) => {
            TermReason::ProcessLimit
        }
        _ => TermReason::None,
    };
    if let TopEnd::Exited(code) = facts.top
        && e.oom
        && e.reason.is_memory()
        && killed != Some(SIGKILL)
    {
        e.text = format!("{OF_OTHERS} {code}");
    }
    e
}

/// Begins the sentence about a task whose command outlived one of its processes, before its exit
/// code.
const OF_OTHERS: &str =
    "one of its processes was killed for lack of memory, its command went on to exit code";

/// The limit that was reached if the kernel killed a process of the task for lack of memory. The
/// group of a task without limits only dies of the memory of its host.
fn out_of_memory(limits: &TaskLimits) -> TermReason {
    match (limits.mem_b, limits.swap_b) {
        (Some(memory), Some(both)) if both < memory => TermReason::SwapLimit,
        (Some(_), _) => TermReason::MemLimit,
        (None, Some(_)) => TermReason::SwapLimit,
        (None, None) => TermReason::Oom,
    }
}

/// Whether the task failed: one that handles a refused process and succeeds needs no reason.
fn failed(top: TopEnd) -> bool {
    top != TopEnd::Exited(0)
}

/// The signal that caused an end: a shell reports its child's signal as 128 + its number. Only used
/// if a counter or a limit indicates the same.
pub fn killed_by(top: TopEnd) -> Option<i32> {
    match top {
        TopEnd::Killed(sig, _) => Some(sig),
        TopEnd::Exited(code) => (129..=192).contains(&code).then_some(code - 128),
    }
}

/// The record of a task that could not be started.
pub fn not_started(a: AttemptId, code: Option<i32>, (text, fault): (String, StartFault)) -> Ended {
    let mut end = Ended {
        a,
        code,
        reason: TermReason::StartFailed,
        text,
        ..Ended::default()
    };
    end.set_fault(fault);
    end
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

    fn facts(top: TopEnd) -> EndFacts {
        EndFacts {
            top,
            ordered: TermReason::None,
            sent: None,
            oom_kills: 0,
            limit_hits: 0,
            refused_processes: 0,
            cpu_ms: 0,
        }
    }

    fn end(top: TopEnd, ordered: TermReason, oom_kills: u64, mem: bool) -> Ended {
        let limits = TaskLimits {
            mem_b: mem.then_some(1),
            ..TaskLimits::default()
        };
        ended(
            AttemptId::default(),
            &EndFacts {
                ordered,
                oom_kills,
                ..facts(top)
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
    }

    #[test]
    fn a_killed_process_makes_the_task_fail_although_its_command_goes_on() {
        for code in [0, 3] {
            let e = end(TopEnd::Exited(code), TermReason::None, 1, true);
            assert_eq!((e.reason, e.oom), (TermReason::MemLimit, true));
            assert!(!e.is_success() && e.text.ends_with(&format!("exit code {code}")));
        }
        let end = |top, oom_kills, limit_hits, limits: TaskLimits| {
            let facts = EndFacts {
                oom_kills,
                limit_hits,
                ..facts(top)
            };
            let e = ended(AttemptId::default(), &facts, &limits);
            (e.reason, e.oom)
        };
        let done = TopEnd::Exited(0);
        let limits = |mem_b, swap_b| TaskLimits {
            mem_b,
            swap_b,
            ..TaskLimits::default()
        };
        let ignored = TaskLimits {
            oom_ignored: true,
            ..limits(Some(1), None)
        };
        assert_eq!(end(done, 1, 0, ignored), (TermReason::None, true));
        let swap = limits(None, Some(1));
        assert_eq!(end(done, 1, 0, swap), (TermReason::SwapLimit, true));
        let lower = limits(Some(9), Some(1));
        assert_eq!(end(done, 1, 0, lower), (TermReason::SwapLimit, true));
        let both = limits(Some(1), Some(9));
        assert_eq!(end(done, 1, 0, both), (TermReason::MemLimit, true));
        let none = limits(None, None);
        assert_eq!(end(done, 1, 0, none.clone()), (TermReason::Oom, true));
        // Reaching a limit kills nothing by itself.
        assert_eq!(end(done, 0, 7, none.clone()), (TermReason::None, false));
        let killed = TopEnd::Killed(9, false);
        assert_eq!(end(killed, 0, 7, none), (TermReason::Oom, true));
    }

    #[test]
    fn what_was_ended_has_not_succeeded_although_its_handler_returned_0() {
        for reason in [
            TermReason::Owner,
            TermReason::Admin,
            TermReason::RunLimit,
            TermReason::MemLimit,
            TermReason::Preempt,
            TermReason::Deadline,
            TermReason::Window,
            TermReason::Checkpoint,
        ] {
            let e = end(TopEnd::Exited(0), reason, 0, true);
            assert_eq!((e.reason, e.code), (reason, Some(0)));
            assert!(!e.is_success(), "{reason}");
        }
        assert!(end(TopEnd::Exited(0), TermReason::None, 0, true).is_success());
    }

    #[test]
    fn a_task_that_failed_for_want_of_processes_says_so() {
        let limits = TaskLimits {
            procs: Some(3),
            ..TaskLimits::default()
        };
        let reason = |code, refused_processes, limits: &TaskLimits| {
            let facts = EndFacts {
                refused_processes,
                ..facts(TopEnd::Exited(code))
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
                cpu_ms,
                ..facts(top)
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
