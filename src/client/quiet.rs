//! The messages about a submitted job that the user does not want: BSUB_QUIET and BSUB_QUIET2.
//!
//! Owns which message belongs to which variable. Refusals and warnings are always printed.

use crate::language::tell;
use std::env::var_os;

/// Which messages are suppressed. A variable counts if it is set, whatever its value.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Quiet {
    /// BSUB_QUIET: that the job was submitted, waits and starts.
    pub submission: bool,
    /// BSUB_QUIET2: that it has ended.
    pub end: bool,
}

/// The beginnings of the messages with which csub waits for a job.
const WAITS: [&str; 2] = ["<<Waiting for dispatch", "<<Starting on "];
const ENDS: [&str; 2] = ["<<Job is finished", "<<Terminated while pending"];

impl Quiet {
    pub(crate) fn from_environment() -> Quiet {
        Quiet {
            submission: var_os("BSUB_QUIET").is_some(),
            end: var_os("BSUB_QUIET2").is_some(),
        }
    }

    /// Prints a message of a waiting csub, if it is not suppressed.
    pub(crate) fn print(self, message: &str) {
        if !self.hides(message) {
            tell!("{message}");
        }
    }

    fn hides(self, message: &str) -> bool {
        let one_of = |all: [&str; 2]| all.iter().any(|start| message.starts_with(start));
        (self.submission && one_of(WAITS)) || (self.end && one_of(ENDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_hides_its_own_messages_and_none_hides_a_failure() {
        let hidden = |submission, end| {
            let quiet = Quiet { submission, end };
            let all = [
                "<<Waiting for dispatch ...>>",
                "<<Starting on h1>>",
                "<<Job is finished>>",
                "<<Terminated while pending>>",
                "csub: job <1>: its end is unknown",
            ];
            all.map(|message| quiet.hides(message))
        };
        assert_eq!(hidden(false, false), [false; 5]);
        assert_eq!(hidden(true, false), [true, true, false, false, false]);
        assert_eq!(hidden(false, true), [false, false, true, true, false]);
        assert_eq!(hidden(true, true), [true, true, true, true, false]);
    }
}
