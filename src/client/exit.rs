//! The exit codes of every command. Only `client` chooses them; the lower floors return errors.

use crate::language::{self, Language, tell, translated};
use crate::record::ack::Code;
use crate::sys;
use std::sync::OnceLock;

/// The LSF name under which this command was called, if any.
static LSF_NAME: OnceLock<&'static str> = OnceLock::new();
/// Exit code of LSF's commands after a failure.
const LSF_FAILED: i32 = 255;
/// The command was called by a Slurm name.
static BY_SLURM_NAME: OnceLock<()> = OnceLock::new();
/// Exit code of Slurm's commands after a failure.
const SLURM_FAILED: i32 = 1;

/// Records that the command was called by a Slurm name: from now on every failure ends with Slurm's
/// single exit code and is called an error.
pub(crate) fn called_by_slurm_name() {
    BY_SLURM_NAME.get_or_init(|| ());
}

fn by_slurm_name() -> bool {
    BY_SLURM_NAME.get().is_some()
}

/// Records that the command was called by an LSF name: from now on every failure ends with LSF's
/// single exit code. Only the first call counts.
pub(crate) fn called_by_lsf_name(name: &'static str) {
    LSF_NAME.get_or_init(|| name);
}

/// The LSF name under which this command was called.
pub(crate) fn lsf_name() -> Option<&'static str> {
    LSF_NAME.get().copied()
}

/// How a command ended. The exit code of a job (`csub -K`) is the one exception to this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Exit {
    Ok = 0,
    /// Not found, nothing matched, or a condition that can never hold.
    NotFound = 1,
    /// The command line, or a text in it, is wrong.
    Usage = 2,
    Permission = 3,
    /// Refused by a limit or a policy.
    Refused = 4,
    /// No leader, or the share cannot be reached.
    System = 5,
}

impl Exit {
    /// The exit code: 0 or 255 under an LSF name, 0 or 1 under a Slurm name.
    pub(crate) fn code(self) -> i32 {
        match (self, lsf_name()) {
            (Exit::Ok, _) => self as i32,
            (_, None) if by_slurm_name() => SLURM_FAILED,
            (_, None) => self as i32,
            (_, Some(_)) => LSF_FAILED,
        }
    }

    /// The worse of two ends: the one with the higher code.
    #[must_use]
    pub(crate) fn worst(self, other: Exit) -> Exit {
        self.max(other)
    }

    /// The exit code for an outcome of the leader.
    pub(crate) fn of(code: Code) -> Exit {
        match code {
            Code::Ok => Exit::Ok,
            Code::NotFound => Exit::NotFound,
            Code::Usage => Exit::Usage,
            Code::Permission => Exit::Permission,
            Code::Refused => Exit::Refused,
        }
    }
}

/// Why a command could not do what was requested: the code, and the text for standard error, whose
/// further lines are hints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fail {
    pub exit: Exit,
    pub text: String,
}

impl Fail {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Fail {
        Fail {
            exit,
            text: text.into(),
        }
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Fail {
        Fail::new(Exit::NotFound, text)
    }

    pub(crate) fn usage(text: impl Into<String>) -> Fail {
        Fail::new(Exit::Usage, text)
    }

    pub(crate) fn permission(text: impl Into<String>) -> Fail {
        Fail::new(Exit::Permission, text)
    }

    pub(crate) fn refused(text: impl Into<String>) -> Fail {
        Fail::new(Exit::Refused, text)
    }

    pub(crate) fn system(text: impl Into<String>) -> Fail {
        Fail::new(Exit::System, text)
    }

    /// Prints `command: text` to standard error and returns the code.
    pub(crate) fn report(&self, command: &str) -> i32 {
        eprintln!("{}{}", message_start(command), translated(&self.text));
        self.exit.code()
    }
}

/// How an error message of `command` begins: with the name under which it was called, and in the
/// form of that family of commands.
pub(crate) fn message_start(command: &str) -> String {
    let error = if by_slurm_name() { "error: " } else { "" };
    format!("{}: {error}", lsf_name().unwrap_or(command))
}

impl From<sys::Error> for Fail {
    fn from(e: sys::Error) -> Fail {
        let text = e.to_string();
        match e.kind() {
            std::io::ErrorKind::PermissionDenied => Fail::permission(text),
            _ => Fail::system(text),
        }
    }
}

/// Prints a failure and returns the exit code.
pub(crate) fn report(result: Result<()>) -> i32 {
    match result {
        Ok(()) => Exit::Ok.code(),
        Err(fail) => {
            tell!("{}", fail.text);
            fail.exit.code()
        }
    }
}

/// Prints clap's message (help, version or error) and returns the exit code.
pub(crate) fn usage(e: &clap::Error) -> i32 {
    if !e.use_stderr() {
        // A failure to print cannot be reported.
        drop(e.print());
        return Exit::Ok.code();
    }
    match language::of_process() {
        Language::English => drop(e.print()),
        Language::Chinese => eprint!("{}", translated(&e.to_string())),
    }
    Exit::Usage.code()
}

/// The result of a command's function.
pub(crate) type Result<T> = std::result::Result<T, Fail>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_end_wins() {
        assert_eq!(Exit::Ok.worst(Exit::NotFound), Exit::NotFound);
        assert_eq!(Exit::System.worst(Exit::Usage).code(), 5);
        assert_eq!(Exit::of(Code::Permission).code(), 3);
    }
}
