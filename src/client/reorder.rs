//! `ctop` and `cbot`: move pending jobs forward or backward in their order.

use super::cli::{Values, command, operands, parse};
use super::exit::{Fail, Result};
use super::job_requests::{finish, send_and_report, with_wait};
use crate::record::request::Verb;
use crate::text::jobids::JobSel;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The options of `ctop`.
pub(super) fn ctop_options() -> Command {
    line("ctop", "Move a pending job towards the top of its queue")
}

/// The options of `cbot`.
pub(super) fn cbot_options() -> Command {
    line("cbot", "Move a pending job towards the bottom of its queue")
}

fn line(name: &'static str, about: &'static str) -> Command {
    with_wait(command(name, about)).arg(operands(
        "job",
        "JOB [POSITION]",
        "A job ID, and its new position counted from there [1]",
    ))
}

/// Runs `ctop`; returns the exit code.
pub(crate) fn ctop(args: &[OsString]) -> i32 {
    run("ctop", ctop_options(), false, args)
}

/// Runs `cbot`; returns the exit code.
pub(crate) fn cbot(args: &[OsString]) -> i32 {
    run("cbot", cbot_options(), true, args)
}

fn run(name: &'static str, options: Command, bottom: bool, args: &[OsString]) -> i32 {
    match parse(options, args) {
        Ok(m) => finish(name, shift(name, bottom, &m)),
        Err(code) => code,
    }
}

fn shift(name: &str, bottom: bool, m: &ArgMatches) -> Result<i32> {
    let (id, pos) = job_and_position(&m.all("job"))?;
    let verb = Verb::Move { id, pos, bottom };
    send_and_report(name, m, &[verb], |o| {
        format!("Job <{}> {}.", o.what, o.text)
    })
}

/// The job and the position given by the operands.
fn job_and_position(operands: &[String]) -> Result<(String, u32)> {
    let (job, pos) = match operands {
        [job] => (job, 1),
        [job, pos] => {
            let digits = pos.bytes().all(|b| b.is_ascii_digit());
            let n = pos.parse::<u32>().ok().filter(|n| digits && *n > 0);
            let n = n.ok_or_else(|| {
                let shown = crate::text::width::escape(pos);
                Fail::usage(format!("'{shown}' is not a position from 1"))
            })?;
            (job, n)
        }
        _ => return Err(Fail::usage("give one job ID and optionally a position")),
    };
    match JobSel::parse(job) {
        Ok(JobSel::Job(_)) => Ok((job.clone(), pos)),
        Ok(_) => Err(Fail::usage(format!("'{job}' does not name one job"))),
        Err(e) => {
            let caret = e.caret(job);
            Err(Fail::usage(format!(
                "{}\n{}",
                e.message,
                caret.trim_end_matches('\n')
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_and_a_position() {
        let words = |w: &[&str]| w.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(job_and_position(&words(&["7"])).unwrap(), ("7".into(), 1));
        assert_eq!(
            job_and_position(&words(&["7", "12"])).unwrap(),
            ("7".into(), 12)
        );
        for bad in [
            &[][..],
            &["0"],
            &["7[1]"],
            &["x"],
            &["7", "0"],
            &["7", "-1"],
            &["7", "+1"],
            &["7", "1", "2"],
        ] {
            assert!(job_and_position(&words(bad)).is_err(), "{bad:?}");
        }
    }
}
