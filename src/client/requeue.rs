//! `crequeue`: puts jobs back to pending, under the same id.

use super::cli::{Values, command, flag, parse};
use super::job_requests::{finish, job_phrase, selector, send_and_report, with_selectors};
use crate::record::request::Verb;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The options of `crequeue`.
pub(super) fn options() -> Command {
    with_selectors(command(
        "crequeue",
        "Requeue jobs: put them back to pending",
    ))
    .arg(flag("d", "Jobs that are DONE"))
    .arg(flag("e", "Jobs that ended as EXIT"))
    .arg(flag("r", "Running jobs (the default)"))
    .arg(flag("a", "Jobs in any of these states"))
    .arg(flag("H", "Hold them (PSUSP)"))
}

/// Runs `crequeue`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match parse(options(), args) {
        Ok(m) => finish("crequeue", requeue(&m)),
        Err(code) => code,
    }
}

fn requeue(m: &ArgMatches) -> super::exit::Result<i32> {
    let verb = Verb::Requeue {
        sel: selector(m)?,
        hold: m.has("H"),
        states: states(m),
    };
    send_and_report("crequeue", m, &[verb], job_phrase)
}

/// The selected states; none for the default.
fn states(m: &ArgMatches) -> Vec<String> {
    [("r", "run"), ("d", "done"), ("e", "exit")]
        .into_iter()
        .filter(|(option, _)| m.has(option) || m.has("a"))
        .map(|(_, state)| state.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_name_states() {
        for (words, want) in [
            (vec![], vec![]),
            (vec!["-de"], vec!["done", "exit"]),
            (vec!["-a"], vec!["run", "done", "exit"]),
            (vec!["-r", "-H"], vec!["run"]),
        ] {
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            assert_eq!(states(&parse(options(), &words).unwrap()), want);
        }
    }
}
