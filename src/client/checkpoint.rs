//! `cchkpnt`: takes checkpoints of running jobs now, or changes their interval.

use super::cli::{Values, command, flag, opt, parse};
use super::exit::{Fail, Result};
use super::job_requests::{finish, job_phrase, selector, send_and_report, with_selectors};
use crate::model::CheckpointAct;
use crate::record::request::{SignalAction, Verb};
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The options of `cchkpnt`.
pub(super) fn options() -> Command {
    with_selectors(command("cchkpnt", "Save the state of running jobs"))
        .arg(flag(
            "f",
            "Force: passed on to the checkpoint method, which saves despite obstacles",
        ))
        .arg(flag("k", "End each job once its state is saved"))
        .arg(opt(
            "p",
            "MINUTES",
            "Time between checkpoints from now on; 0: no periodic ones",
        ))
}

/// Runs the command; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match parse(options(), args) {
        Ok(m) => finish("cchkpnt", save(&m)),
        Err(code) => code,
    }
}

fn save(m: &ArgMatches) -> Result<i32> {
    let how = SignalAction::Checkpoint(CheckpointAct {
        kill: m.has("k"),
        migrate: false,
        force: m.has("f"),
        period_min: m.last("p").map(period).transpose()?,
    });
    let sel = selector(m)?;
    send_and_report("cchkpnt", m, &[Verb::Signal { sel, how }], job_phrase)
}

fn period(text: &str) -> Result<u32> {
    let most = CheckpointAct::PERIOD_MAX;
    let number = text.parse().ok().filter(|n| *n <= most);
    number.ok_or_else(|| {
        let shown = crate::text::width::escape(text);
        Fail::usage(format!(
            "-p: '{shown}' is not a number of minutes, 0 to {most}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_number_of_minutes() {
        assert_eq!(period("0").unwrap(), 0);
        assert_eq!(period("90").unwrap(), 90);
        for bad in ["", "-1", "1h", "144001", "99999999999"] {
            assert!(period(bad).is_err(), "{bad}");
        }
    }
}
