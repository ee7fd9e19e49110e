//! A row of the table of `cadmin`'s subcommands, and how its options are parsed. Knows no
//! subcommand.

use crate::client::cli::{command, parse};
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// A subcommand: its name, its arguments and purpose for the help, and the function that runs it.
pub(super) struct Subcommand {
    pub name: &'static str,
    pub args: &'static str,
    pub about: &'static str,
    pub run: fn(&'static Subcommand, &[String]) -> i32,
}

pub(super) const fn sub(
    name: &'static str,
    args: &'static str,
    about: &'static str,
    run: fn(&'static Subcommand, &[String]) -> i32,
) -> Subcommand {
    Subcommand {
        name,
        args,
        about,
        run,
    }
}

/// Parses the options of a subcommand.
pub(super) fn matches(cmd: Command, words: &[String]) -> std::result::Result<ArgMatches, i32> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    parse(cmd, &words)
}

/// `cadmin NAME` as a clap command.
pub(super) fn cmd(s: &Subcommand) -> Command {
    command("cadmin", s.about).override_usage(format!("cadmin {} {}", s.name, s.args))
}
