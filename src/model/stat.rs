//! The states of a job with the names of LSF.

use serde::{Deserialize, Serialize};
use std::fmt;

/// State of a job or array element.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobStat {
    /// Waits for dispatch.
    #[default]
    Pend,
    /// Held before it started, by its owner or an administrator.
    Psusp,
    /// Dispatched or running.
    Run,
    /// Started and suspended by its owner or an administrator.
    Ususp,
    /// Started and suspended by the system.
    Ssusp,
    /// Its host does not respond; whether it still runs is unknown.
    Unkwn,
    /// Ended with exit status 0.
    Done,
    /// Ended otherwise.
    Exit,
}

impl JobStat {
    pub const ALL: [JobStat; 8] = [
        JobStat::Pend,
        JobStat::Psusp,
        JobStat::Run,
        JobStat::Ususp,
        JobStat::Ssusp,
        JobStat::Unkwn,
        JobStat::Done,
        JobStat::Exit,
    ];

    /// The word for users.
    pub fn word(self) -> &'static str {
        match self {
            JobStat::Pend => "PEND",
            JobStat::Psusp => "PSUSP",
            JobStat::Run => "RUN",
            JobStat::Ususp => "USUSP",
            JobStat::Ssusp => "SSUSP",
            JobStat::Unkwn => "UNKWN",
            JobStat::Done => "DONE",
            JobStat::Exit => "EXIT",
        }
    }

    pub fn is_finished(self) -> bool {
        matches!(self, JobStat::Done | JobStat::Exit)
    }

    /// Pending or held: no attempt exists that could still run.
    pub fn is_waiting(self) -> bool {
        matches!(self, JobStat::Pend | JobStat::Psusp)
    }

    /// Bound to hosts: holds slots.
    pub fn is_started(self) -> bool {
        !self.is_finished() && !self.is_waiting()
    }
}

impl fmt::Display for JobStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
