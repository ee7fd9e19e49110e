//! `cadmin` (also `csadmin`): what administrators do.
//!
//! Owns the choice among its subcommands. Those that make or run clusters live in `init` and `dev`.

use super::exit::Exit;
use std::ffi::OsString;

/// Runs `cadmin`; gives the exit code.
pub fn run(args: &[OsString]) -> i32 {
    let words = match super::cli::texts(args) {
        Ok(words) => words,
        Err(e) => {
            eprintln!("cadmin: {e}");
            return Exit::Usage.code();
        }
    };
    let Some((word, rest)) = words.split_first() else {
        eprintln!("cadmin: a subcommand is missing: init, dev");
        return Exit::Usage.code();
    };
    match word.as_str() {
        "dev" => super::dev::run(rest),
        "init" => super::init::run(rest),
        _ => {
            eprintln!("cadmin: unknown subcommand '{word}': one of init, dev");
            Exit::Usage.code()
        }
    }
}
