//! `ckill`, `cstop`, `cresume`: send signals to jobs.

use super::cli::{Values, command, flag, opt, parse};
use super::exit::{Exit, Fail, Result, lsf_name};
use super::job_requests::{finish, job_phrase, selector, send_and_report, with_selectors};
use crate::language::tell;
use crate::record::request::{SignalAction, Verb};
use crate::sys::signals;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The options of `ckill`.
pub(super) fn ckill_options() -> Command {
    with_selectors(command("ckill", "Kill jobs, or send them a signal"))
        .arg(flag("l", "List the signals"))
        .arg(flag(
            "d",
            "The same as without -d: LSF records such a job as DONE, Corral as EXIT",
        ))
        .arg(flag(
            "r",
            "Remove jobs at once without waiting for their hosts",
        ))
        .arg(opt("s", "SIGNAL", "Send this signal, by name or number"))
}

/// Runs `ckill`; returns the exit code.
pub(crate) fn ckill(args: &[OsString]) -> i32 {
    let m = match parse(ckill_options(), args) {
        Ok(m) => m,
        Err(code) => return code,
    };
    if m.has("l") {
        let names: Vec<&str> = signals::names().map(|(name, _)| name).collect();
        println!("{}", names.join(" "));
        return Exit::Ok.code();
    }
    if m.has("d") {
        if m.has("r") || m.last("s").is_some() {
            return Fail::usage("-d, -r and -s exclude each other").report("ckill");
        }
        let name = lsf_name().unwrap_or("ckill");
        tell!("{name}: warning: -d: the jobs are killed and recorded as EXIT, not as DONE");
    }
    let how = signal_kind(m.last("s"), m.has("r"));
    finish("ckill", how.and_then(|how| signal("ckill", &m, how)))
}

/// The signal that `-s` and `-r` request.
pub(crate) fn signal_kind(signal: Option<&str>, remove: bool) -> Result<SignalAction> {
    let Some(text) = signal else {
        return Ok(if remove {
            SignalAction::Force
        } else {
            SignalAction::Kill
        });
    };
    if remove {
        return Err(Fail::usage("-r and -s cannot be given together"));
    }
    let number = signals::number(text).filter(|n| *n > 0).ok_or_else(|| {
        let shown = crate::text::width::escape(text);
        Fail::usage(format!(
            "-s: '{shown}' is not a signal\nhint: ckill -l lists them"
        ))
    })?;
    let is = |name: &str| signals::number(name) == Some(number);
    Ok(if is("STOP") || is("TSTP") {
        SignalAction::Stop
    } else if is("CONT") {
        SignalAction::Resume
    } else {
        SignalAction::Number(number)
    })
}

fn signal(command: &str, m: &ArgMatches, action: SignalAction) -> Result<i32> {
    let sel = selector(m)?;
    send_and_report(command, m, &[Verb::Signal { sel, how: action }], job_phrase)
}

/// The options of `cstop`.
pub(super) fn cstop_options() -> Command {
    with_selectors(command("cstop", "Stop jobs: pending ones are held"))
}

/// The options of `cresume`.
pub(super) fn cresume_options() -> Command {
    let about = "Resume stopped jobs, release held ones";
    with_selectors(command("cresume", about))
}

/// Runs `cstop`; returns the exit code.
pub(crate) fn cstop(args: &[OsString]) -> i32 {
    simple("cstop", cstop_options(), SignalAction::Stop, args)
}

/// Runs `cresume`; returns the exit code.
pub(crate) fn cresume(args: &[OsString]) -> i32 {
    simple("cresume", cresume_options(), SignalAction::Resume, args)
}

fn simple(name: &'static str, options: Command, action: SignalAction, args: &[OsString]) -> i32 {
    match parse(options, args) {
        Ok(m) => finish(name, signal(name, &m, action)),
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_by_name_and_number() {
        for (text, want) in [
            ("KILL", SignalAction::Number(9)),
            ("sigusr1", SignalAction::Number(10)),
            ("15", SignalAction::Number(15)),
            ("STOP", SignalAction::Stop),
            ("CONT", SignalAction::Resume),
        ] {
            assert_eq!(signal_kind(Some(text), false).unwrap(), want, "{text}");
        }
        assert_eq!(signal_kind(None, true).unwrap(), SignalAction::Force);
        assert_eq!(signal_kind(None, false).unwrap(), SignalAction::Kill);
    }

    #[test]
    fn wrong_signals_are_refused() {
        for bad in ["", "0", "-9", "999", "NOSIG", "9x"] {
            assert!(signal_kind(Some(bad), false).is_err(), "{bad}");
        }
        assert!(signal_kind(Some("9"), true).is_err());
    }
}
