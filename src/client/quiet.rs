//! The messages about a submitted job that the user does not want: BSUB_QUIET and BSUB_QUIET2.
//!
//! Owns which kind of message belongs to which variable. The code that makes a message says its
//! kind; the text is never examined.

use crate::language::tell;
use std::env::var_os;

/// What a message about a submitted job is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MessageKind {
    /// The job was submitted, waits or starts.
    Submission,
    /// The job has ended.
    End,
    /// Something that the user must know, such as a failure or the reason of an end.
    Warning,
}

/// Which messages are suppressed. A variable counts if it is set, whatever its value.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Quiet {
    /// BSUB_QUIET.
    submission: bool,
    /// BSUB_QUIET2.
    end: bool,
}

impl Quiet {
    pub(crate) fn from_environment() -> Quiet {
        Quiet {
            submission: var_os("BSUB_QUIET").is_some(),
            end: var_os("BSUB_QUIET2").is_some(),
        }
    }

    /// Prints a message of a waiting csub, if it is not suppressed.
    pub(crate) fn print(self, kind: MessageKind, message: &str) {
        if self.shows(kind) {
            tell!("{message}");
        }
    }

    /// Whether messages of this kind are printed.
    pub(crate) fn shows(self, kind: MessageKind) -> bool {
        match kind {
            MessageKind::Submission => !self.submission,
            MessageKind::End => !self.end,
            MessageKind::Warning => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_hides_its_own_messages_and_none_hides_a_warning() {
        let shown = |submission, end| {
            let quiet = Quiet { submission, end };
            use MessageKind::*;
            [Submission, End, Warning].map(|kind| quiet.shows(kind))
        };
        assert_eq!(shown(false, false), [true, true, true]);
        assert_eq!(shown(true, false), [false, true, true]);
        assert_eq!(shown(false, true), [true, false, true]);
        assert_eq!(shown(true, true), [false, false, true]);
    }
}
