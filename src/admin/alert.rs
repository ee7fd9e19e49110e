//! `cadmin alert`: alerts that are pending or firing, and their silences.
//!
//! Reads what the notifier has published; a silence is an ordinary request to the leader.

use super::subcommand::{Subcommand, cmd, matches};
use crate::client::alerts;
use crate::client::cli::{Values, flag, operands, opt};
use crate::client::exit::{Exit, Fail, Result};
use crate::client::job_requests::{finish, send_and_report, with_wait};
use crate::client::read::{self, Source};
use crate::record::notices::AlertsDoc;
use crate::record::request::Verb;
use crate::show::alert;
use crate::show::cell::Object;
use crate::text::duration::{self, DefaultUnit};
use clap::{ArgMatches, Command};

/// The options of `cadmin alert`.
pub(super) fn options(s: &Subcommand) -> Command {
    with_wait(cmd(s))
        .arg(opt("for", "TIME", "silence: how long, 2h for instance"))
        .arg(opt("because", "TEXT", "silence: why"))
        .arg(flag("json", "list: print JSON"))
        .arg(operands(
            "words",
            "WORD",
            "list; silence ALERT; unsilence ALERT",
        ))
}

/// Runs `cadmin alert`; returns the exit code.
pub(super) fn run(s: &'static Subcommand, words: &[String]) -> i32 {
    match matches(options(s), words) {
        Ok(m) => finish("cadmin alert", carry_out(&m)),
        Err(code) => code,
    }
}

fn carry_out(m: &ArgMatches) -> Result<i32> {
    let words = m.all("words");
    let words: Vec<&str> = words.iter().map(|word| word.as_str()).collect();
    let of_silence = m.last("for").is_some() || m.last("because").is_some();
    match words[..] {
        [] | ["list"] if of_silence => Err(Fail::usage("--for and --because are for silence")),
        [] | ["list"] => list(m.has("json")),
        _ if m.has("json") => Err(Fail::usage("--json is for list")),
        ["silence", name] => silence(m, name),
        ["unsilence", _] if of_silence => Err(Fail::usage("--for and --because are for silence")),
        ["unsilence", name] => request_silence(m, name, 0, ""),
        _ => Err(Fail::usage(
            "write alert list, alert silence ALERT --for TIME --because TEXT, \
             or alert unsilence ALERT",
        )),
    }
}

fn silence(m: &ArgMatches, name: &str) -> Result<i32> {
    let (Some(time), Some(why)) = (m.last("for"), m.last("because")) else {
        return Err(Fail::usage("give --for TIME and --because TEXT"));
    };
    let ms = duration::parse_ms(time, DefaultUnit::Seconds)
        .map_err(|e| Fail::usage(format!("--for: {}", e.message)))?;
    if why.trim().is_empty() {
        return Err(Fail::usage("--because: say why"));
    }
    request_silence(m, name, ms.max(1), why)
}

fn request_silence(m: &ArgMatches, name: &str, for_ms: u64, why: &str) -> Result<i32> {
    let verb = Verb::SilenceAlert {
        name: name.to_owned(),
        for_ms,
        why: why.to_owned(),
    };
    send_and_report("cadmin alert", m, &[verb], |o| {
        format!("Alert <{}> {}", o.what, o.text)
    })
}

fn list(json: bool) -> Result<i32> {
    let source = Source::open("cadmin alert")?;
    let doc = alerts::newest(&source, &source.params()?)?;
    let mut out = String::new();
    if json {
        let mut o = Object::begin(&mut out);
        alert::put_json(&mut o, &doc.unwrap_or_default());
        o.end();
        out.push('\n');
    } else {
        put(&mut out, doc.as_ref(), &source);
    }
    read::put(&out)?;
    Ok(Exit::Ok.code())
}

fn put(out: &mut String, doc: Option<&AlertsDoc>, source: &Source) {
    match doc {
        None => out.push_str(
            "No alert is known: cb.yaml has no section alerts, or its notifier has not run yet\n",
        ),
        Some(doc) => alert::put_list(out, doc, &source.ctx().dates),
    }
}
