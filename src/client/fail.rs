//! How a command ends: an exit code and a sentence on standard error, with a hint line where one
//! helps.

use crate::sys;
use std::ffi::OsString;

/// Exit codes shared by all commands.
pub mod code {
    pub const OK: i32 = 0;
    pub const NOT_FOUND: i32 = 1;
    pub const USAGE: i32 = 2;
    pub const PERMISSION: i32 = 3;
    pub const REFUSED: i32 = 4;
    pub const SYSTEM: i32 = 5;
}

/// Why a command could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fail {
    pub code: i32,
    /// The message; further lines are hints.
    pub text: String,
}

impl Fail {
    pub fn not_found(text: impl Into<String>) -> Fail {
        Fail {
            code: code::NOT_FOUND,
            text: text.into(),
        }
    }

    pub fn usage(text: impl Into<String>) -> Fail {
        Fail {
            code: code::USAGE,
            text: text.into(),
        }
    }

    pub fn permission(text: impl Into<String>) -> Fail {
        Fail {
            code: code::PERMISSION,
            text: text.into(),
        }
    }

    pub fn refused(text: impl Into<String>) -> Fail {
        Fail {
            code: code::REFUSED,
            text: text.into(),
        }
    }

    pub fn system(text: impl Into<String>) -> Fail {
        Fail {
            code: code::SYSTEM,
            text: text.into(),
        }
    }
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

/// Prints a failure and gives the exit code.
pub fn report(result: Result<(), Fail>) -> i32 {
    match result {
        Ok(()) => code::OK,
        Err(fail) => {
            eprintln!("{}", fail.text);
            fail.code
        }
    }
}

/// Prints what clap has to say (help, or what is wrong) and gives the exit code.
pub fn usage(e: &clap::Error) -> i32 {
    // A reader of the help that went away is nobody's failure.
    drop(e.print());
    if e.use_stderr() {
        code::USAGE
    } else {
        code::OK
    }
}

/// The words of a command with its name in front, as clap wants them.
pub fn with_name(name: &str, words: &[String]) -> Vec<OsString> {
    std::iter::once(name.into())
        .chain(words.iter().map(OsString::from))
        .collect()
}
