//! `cadmin qopen`, `hclose`, `lslock`, `hlost` and their like: control of named queues and hosts.
//!
//! Owns their options and the form of their answers. Each sends one request to the leader.

use super::COMMENT_MAX;
use super::subcommand::{Subcommand, cmd, matches};
use crate::client::cli::{Values, flag, operands, opt};
use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::client::job_requests::{finish, send_and_report, with_wait};
use crate::record::ack::Outcome;
use crate::record::request::{HostAct, QueueAct, Verb};
use clap::{ArgMatches, Command};

/// The comment of `-C`.
fn comment(m: &ArgMatches) -> Result<String> {
    let text = m.last("C").unwrap_or_default();
    if text.len() > COMMENT_MAX {
        return Err(Fail::usage(format!(
            "-C: {} bytes, at most {COMMENT_MAX} are allowed",
            text.len()
        )));
    }
    Ok(text.to_owned())
}

pub(super) fn queue_options(s: &Subcommand) -> Command {
    with_wait(cmd(s))
        .arg(opt("C", "COMMENT", "A comment, shown by cqueues -l"))
        .arg(operands(
            "names",
            "QUEUE",
            "Queues, or all; none: the default queues",
        ))
}

pub(super) fn queues(s: &Subcommand, words: &[String]) -> i32 {
    let act = match s.name {
        "qopen" => QueueAct::Open,
        "qclose" => QueueAct::Close,
        "qact" => QueueAct::Activate,
        _ => QueueAct::Inactivate,
    };
    let verb = |names, comment| {
        Ok(Verb::Queue {
            names,
            act,
            comment,
        })
    };
    run_on_names(s, words, queue_options, verb, |o| {
        format!("Queue <{}> {}", o.what, o.text)
    })
}

pub(super) fn host_options(s: &Subcommand) -> Command {
    with_hosts(s).arg(opt("C", "COMMENT", "A comment, shown by chosts -l"))
}

fn with_hosts(s: &Subcommand) -> Command {
    with_wait(cmd(s)).arg(operands(
        "names",
        "HOST",
        "Hosts, host groups, or all; none: this host",
    ))
}

pub(super) fn hosts(s: &Subcommand, words: &[String]) -> i32 {
    let act = match s.name {
        "hopen" => HostAct::Open,
        _ => HostAct::Close,
    };
    let verb = |names, comment| host_verb(names, act, comment);
    run_on_names(s, words, host_options, verb, host_phrase)
}

/// The request about these hosts, or about this one if none is named.
fn host_verb(mut names: Vec<String>, act: HostAct, comment: String) -> Result<Verb> {
    if names.is_empty() {
        names.push(Site::find()?.host);
    }
    Ok(Verb::Host {
        names,
        act,
        comment,
    })
}

fn host_phrase(o: &Outcome) -> String {
    format!("Host <{}> {}", o.what, o.text)
}

pub(super) fn lock_options(s: &Subcommand) -> Command {
    match s.name {
        "lslock" => with_hosts(s).arg(opt(
            "l",
            "SECONDS",
            "The lock ends by itself after this time [never]",
        )),
        _ => with_hosts(s),
    }
}

pub(super) fn locks(s: &Subcommand, words: &[String]) -> i32 {
    let ask = |m: &ArgMatches| {
        let act = match s.name {
            "lslock" => HostAct::Lock { for_s: lock_s(m)? },
            _ => HostAct::Unlock,
        };
        let verb = host_verb(m.all("names"), act, String::new())?;
        send_and_report(&format!("cadmin {}", s.name), m, &[verb], host_phrase)
    };
    match matches(lock_options(s), words) {
        Ok(m) => finish(&format!("cadmin {}", s.name), ask(&m)),
        Err(code) => code,
    }
}

/// The seconds of `-l`; 0 = without end.
fn lock_s(m: &ArgMatches) -> Result<u32> {
    let Some(text) = m.last("l") else {
        return Ok(0);
    };
    match text.parse() {
        Ok(s @ 1..) => Ok(s),
        _ => Err(Fail::usage(format!(
            "-l {text}: give a number of seconds, from 1 to {}",
            u32::MAX
        ))),
    }
}

/// Runs a subcommand that takes names and a comment: `verb` creates the request from both, `phrase`
/// formats each answer.
fn run_on_names(
    s: &Subcommand,
    words: &[String],
    options: fn(&Subcommand) -> Command,
    verb: impl FnOnce(Vec<String>, String) -> Result<Verb>,
    phrase: fn(&Outcome) -> String,
) -> i32 {
    let cmd = options(s);
    let ask = |m: &ArgMatches| {
        let verb = verb(m.all("names"), comment(m)?)?;
        send_and_report(&format!("cadmin {}", s.name), m, &[verb], phrase)
    };
    match matches(cmd, words) {
        Ok(m) => finish("cadmin", ask(&m)),
        Err(code) => code,
    }
}

pub(super) fn hlost_options(s: &Subcommand) -> Command {
    with_wait(cmd(s))
        .arg(flag(
            "confirm",
            "Confirm that nothing runs on the host any longer",
        ))
        .arg(operands("host", "HOST", "The host"))
}

pub(super) fn hlost(s: &Subcommand, words: &[String]) -> i32 {
    let cmd = hlost_options(s);
    let ask = |m: &ArgMatches| match m.all("host").as_slice() {
        [host] if m.has("confirm") => {
            let host = host.clone();
            send_and_report(
                &format!("cadmin {}", s.name),
                m,
                &[Verb::HostLost { host }],
                |o| format!("Host <{}>: {}", o.what, o.text),
            )
        }
        [_] => Err(Fail::usage(
            "hlost ends the host's jobs as lost; give --confirm only if the host is dead",
        )),
        _ => Err(Fail::usage("give one host")),
    };
    match matches(cmd, words) {
        Ok(m) => finish("cadmin hlost", ask(&m)),
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cli::command;

    #[test]
    fn long_comments_are_refused() {
        let cmd = command("t", "t").arg(opt("C", "C", "c"));
        let words = ["-C".to_owned(), "x".repeat(COMMENT_MAX + 1)];
        assert!(comment(&matches(cmd, &words).unwrap()).is_err());
    }
}
