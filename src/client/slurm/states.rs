//! Slurm's words for job states, pending reasons and causes of ends.

use crate::client::exit::{Fail, Result};
use crate::model::{JobStat, PendReason, TermReason};

/// A state: its word, its two-letter code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum State {
    Pending,
    Running,
    Suspended,
    Completed,
    Cancelled,
    Failed,
    Timeout,
    NodeFail,
    Preempted,
    Deadline,
    OutOfMemory,
    Requeued,
}

impl State {
    pub(crate) const ALL: [State; 12] = [
        State::Pending,
        State::Running,
        State::Suspended,
        State::Completed,
        State::Cancelled,
        State::Failed,
        State::Timeout,
        State::NodeFail,
        State::Preempted,
        State::Deadline,
        State::OutOfMemory,
        State::Requeued,
    ];

    /// Slurm states in which no job of Corral ever is.
    const NEVER: [(&str, &str); 9] = [
        ("COMPLETING", "CG"),
        ("CONFIGURING", "CF"),
        ("BOOT_FAIL", "BF"),
        ("RESIZING", "RS"),
        ("REVOKED", "RV"),
        ("SIGNALING", "SI"),
        ("SPECIAL_EXIT", "SE"),
        ("STAGE_OUT", "SO"),
        ("STOPPED", "ST"),
    ];

    pub(crate) fn word(self) -> &'static str {
        self.both().0
    }

    pub(crate) fn code(self) -> &'static str {
        self.both().1
    }

    fn both(self) -> (&'static str, &'static str) {
        match self {
            State::Pending => ("PENDING", "PD"),
            State::Running => ("RUNNING", "R"),
            State::Suspended => ("SUSPENDED", "S"),
            State::Completed => ("COMPLETED", "CD"),
            State::Cancelled => ("CANCELLED", "CA"),
            State::Failed => ("FAILED", "F"),
            State::Timeout => ("TIMEOUT", "TO"),
            State::NodeFail => ("NODE_FAIL", "NF"),
            State::Preempted => ("PREEMPTED", "PR"),
            State::Deadline => ("DEADLINE", "DL"),
            State::OutOfMemory => ("OUT_OF_MEMORY", "OOM"),
            State::Requeued => ("REQUEUED", "RQ"),
        }
    }

    pub(crate) fn is_final(self) -> bool {
        !matches!(
            self,
            State::Pending | State::Running | State::Suspended | State::Requeued
        )
    }

    /// The states that a word of `-t` or `-s` selects: one, all, or none.
    pub(crate) fn parse(word: &str) -> Option<Vec<State>> {
        let upper = word.to_ascii_uppercase();
        if upper == "ALL" {
            return Some(State::ALL.to_vec());
        }
        let is = |(long, short): (&str, &str)| long == upper || short == upper;
        let found: Vec<State> = State::ALL.into_iter().filter(|s| is(s.both())).collect();
        match found.is_empty() && !State::NEVER.into_iter().any(is) {
            true => None,
            false => Some(found),
        }
    }

    /// The state of a job according to the view.
    pub(crate) fn of(stat: JobStat, reason: TermReason) -> State {
        match stat {
            JobStat::Pend | JobStat::Psusp => State::Pending,
            JobStat::Run | JobStat::Unkwn => State::Running,
            JobStat::Ususp | JobStat::Ssusp => State::Suspended,
            JobStat::Done => State::Completed,
            JobStat::Exit => State::of_end(reason),
        }
    }

    /// The state of an attempt that did not end as DONE.
    pub(crate) fn of_end(reason: TermReason) -> State {
        use TermReason as R;
        match reason {
            R::Owner
            | R::Admin
            | R::Force
            | R::Orphan
            | R::Checkpoint
            | R::StartTimeout
            | R::Replaced => State::Cancelled,
            R::RunLimit => State::Timeout,
            R::Deadline => State::Deadline,
            R::MemLimit | R::Oom | R::SwapLimit => State::OutOfMemory,
            R::Preempt | R::Load | R::Window => State::Preempted,
            R::Requeue | R::Migrate => State::Requeued,
            R::HostLost | R::ShepherdLost | R::Fenced => State::NodeFail,
            R::None | R::CpuLimit | R::ProcessLimit | R::StartFailed | R::Units | R::Unknown => {
                State::Failed
            }
        }
    }

    /// Slurm's word for why a job in this state ended; empty if there is none.
    pub(crate) fn why_ended(self) -> &'static str {
        match self {
            State::Failed => "NonZeroExitCode",
            State::Timeout => "TimeLimit",
            State::OutOfMemory => "OutOfMemory",
            State::Deadline => "DeadLine",
            _ => "",
        }
    }

    /// The state of the batch step of a job in this state.
    pub(crate) fn of_step(self) -> State {
        match self {
            State::Timeout | State::Deadline | State::Preempted | State::NodeFail => {
                State::Cancelled
            }
            other => other,
        }
    }
}

/// The states that words select.
pub(super) fn states_of(words: &[String]) -> Result<Vec<State>> {
    let mut all = Vec::new();
    for word in words {
        let found = State::parse(word).ok_or_else(|| {
            let word = crate::text::width::escape(word);
            Fail::usage(format!("Invalid job state specified: {word}"))
        })?;
        all.extend(found);
    }
    Ok(all)
}

/// Exit code and signal (`0:0`) of a job, and of its batch step.
pub(crate) fn exit_codes(state: State, code: Option<i32>, sig: i32) -> (String, String) {
    let text = |code: i32, sig: i32| format!("{code}:{sig}");
    let own = match sig {
        // A shell reports a signal of its last command as 128 plus the signal.
        0 => text(code.unwrap_or(0), 0),
        sig => text(0, sig),
    };
    match state {
        State::OutOfMemory => (text(0, 125), text(0, 125)),
        // The command was killed; its exit code and signal belong to the step.
        State::Timeout | State::Cancelled | State::Deadline | State::Preempted => (text(0, 0), own),
        _ => (own.clone(), own),
    }
}

/// The pending reason as one of Slurm's words.
pub(crate) fn reason(stat: JobStat, why: Option<&PendReason>) -> &'static str {
    use PendReason as P;
    match (stat, why) {
        (JobStat::Psusp, Some(P::HeldByAdmin)) => "JobHeldAdmin",
        (JobStat::Psusp, Some(P::NoSuchUser { .. })) => "BadConstraints",
        (JobStat::Psusp, _) => "JobHeldUser",
        (JobStat::Pend, None) => "None",
        (JobStat::Pend, Some(why)) => pending_word(why),
        _ => "None",
    }
}

fn pending_word(why: &PendReason) -> &'static str {
    use PendReason as P;
    match why {
        P::New | P::TooNew { .. } => "None",
        P::BeginTime { .. } | P::Retry(_) | P::Requeued => "BeginTime",
        P::Dependency { .. } => "Dependency",
        P::DependencyNever { .. } => "DependencyNeverSatisfied",
        P::ArrayLimit { .. } => "JobArrayTaskLimit",
        P::HeldByOwner => "JobHeldUser",
        P::HeldByAdmin => "JobHeldAdmin",
        P::QueueInactive { .. } | P::QueueGone { .. } => "PartitionDown",
        P::DispatchWindow { .. } | P::RunWindow { .. } => "PartitionDown",
        P::RunWindowShort { .. } | P::DeadlineShort { .. } => "PartitionTimeLimit",
        P::QueueSlots { .. } | P::QueueHostSlots { .. } => "QOSGrpCpuLimit",
        P::QueueUserSlots { .. } | P::UserSlots { .. } => "QOSMaxCpuPerUserLimit",
        P::QuotaSlots { .. } => "AssocGrpCpuLimit",
        P::QuotaJobs { .. } | P::JobGroup { .. } => "AssocGrpJobsLimit",
        P::QuotaResource { .. } | P::QuotaNever { .. } => "AssocGrpGRES",
        P::SharedResource { .. } => "Licenses",
        P::NoSuchUser { .. } | P::NeverFits { .. } | P::SlotsNever { .. } => "BadConstraints",
        P::PreExec { .. } | P::HostRefused { .. } => "JobLaunchFailure",
        P::NoLeader => "None",
        P::Hosts(_) | P::Slots { .. } | P::Preempting { .. } | P::Section { .. } => "Resources",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_known_by_word_and_code() {
        assert_eq!(State::parse("pd"), Some(vec![State::Pending]));
        assert_eq!(
            State::parse("OUT_OF_MEMORY"),
            Some(vec![State::OutOfMemory])
        );
        assert_eq!(State::parse("all").map(|all| all.len()), Some(12));
        assert_eq!(State::parse("CG"), Some(vec![]));
        assert_eq!(State::parse("x"), None);
    }

    #[test]
    fn ends_read_as_in_slurm() {
        let end = |reason, code, sig| {
            let state = match (reason, code, sig) {
                (TermReason::None, Some(0), 0) => State::Completed,
                _ => State::of_end(reason),
            };
            let (job, step) = exit_codes(state, code, sig);
            format!("{} {job} {} {step}", state.word(), state.of_step().word())
        };
        for (reason, code, sig, want) in [
            (TermReason::None, Some(0), 0, "COMPLETED 0:0 COMPLETED 0:0"),
            (TermReason::None, Some(1), 0, "FAILED 1:0 FAILED 1:0"),
            (TermReason::None, None, 9, "FAILED 0:9 FAILED 0:9"),
            (TermReason::Owner, None, 15, "CANCELLED 0:0 CANCELLED 0:15"),
            (TermReason::RunLimit, None, 15, "TIMEOUT 0:0 CANCELLED 0:15"),
            (
                TermReason::MemLimit,
                None,
                9,
                "OUT_OF_MEMORY 0:125 OUT_OF_MEMORY 0:125",
            ),
            (TermReason::HostLost, None, 0, "NODE_FAIL 0:0 CANCELLED 0:0"),
        ] {
            assert_eq!(end(reason, code, sig), want);
        }
    }

    #[test]
    fn reasons_are_slurms_words() {
        let limit = PendReason::ArrayLimit { limit: 2 };
        assert_eq!(reason(JobStat::Pend, Some(&limit)), "JobArrayTaskLimit");
        assert_eq!(reason(JobStat::Psusp, None), "JobHeldUser");
        assert_eq!(reason(JobStat::Run, None), "None");
    }
}
