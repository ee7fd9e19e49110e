//! Code shared by the commands that act on jobs: the selection of jobs, and how answers are shown.

use super::cli::{Values, operands, opt};
use super::env::Site;
use super::exit::{Exit, Fail, Result};
use super::known_names;
use super::read::Source;
use super::requests;
use crate::intake::roles;
use crate::language::translated;
use crate::record::ack::{Ack, Code, Outcome};
use crate::record::request::{Selector, Verb};
use crate::text::jobids::JobSel;
use crate::text::width::escape;
use crate::text::{ParseError, job_group, names};
use clap::{ArgMatches, Command};
use std::fmt::Write as _;

/// Maximum number of operands of one command.
const OPERANDS_MAX: usize = 100_000;

/// Adds -J -m -q -g -u, `--wait` and the job ids.
pub(crate) fn with_selectors(cmd: Command) -> Command {
    with_selectors_beside(with_wait(cmd), |cmd| {
        cmd.arg(opt("m", "HOST", "Jobs on this host"))
    })
}

/// Adds -J -q -g -u and the job ids; `more` adds the options after -J.
pub(crate) fn with_selectors_beside(
    cmd: Command,
    more: impl FnOnce(Command) -> Command,
) -> Command {
    let cmd = cmd.arg(opt(
        "J",
        "NAME",
        "Jobs of this name; * at either end matches any text",
    ));
    more(cmd)
        .arg(opt("q", "QUEUE", "Jobs in this queue"))
        .arg(opt(
            "g",
            "/GROUP",
            "Jobs of this job group and its subgroups",
        ))
        .arg(opt("u", "USER", "Jobs of this user or group, or all"))
        .arg(operands(
            "jobs",
            "JOB",
            "Job IDs, elements as 12[3-5], 0 for all that match; none: the latest that matches",
        ))
}

/// Adds `--wait`.
pub(crate) fn with_wait(cmd: Command) -> Command {
    cmd.arg(opt(
        "wait",
        "SECONDS",
        "Wait this long for the leader's answer [60]",
    ))
}

/// The jobs that a command line selects.
///
/// # Errors
/// An operand is not a job ID, or a name is not valid.
pub(crate) fn selector(m: &ArgMatches) -> Result<Selector> {
    let Selector { ids, all, .. } = ids(&m.all("jobs"))?;
    Ok(Selector {
        ids,
        all,
        ..filters(m)?
    })
}

/// The selection by -J -m -q -g -u, without the operands.
///
/// # Errors
/// A name is not valid.
pub(crate) fn filters(m: &ArgMatches) -> Result<Selector> {
    let host = m.last("m").unwrap_or_default();
    if !host.is_empty() {
        names::check_name(host).map_err(|e| Fail::usage(format!("-m: '{host}': {}", e.message)))?;
    }
    Ok(Selector {
        host: host.to_owned(),
        ..filters_but_host(m)?
    })
}

/// Like [`filters`], by -J -q -g -u.
///
/// # Errors
/// A name is not valid.
pub(crate) fn filters_but_host(m: &ArgMatches) -> Result<Selector> {
    let mut sel = Selector {
        name: m.last("J").unwrap_or_default().to_owned(),
        ..Selector::default()
    };
    let queue = m.last("q").unwrap_or_default();
    if !queue.is_empty() {
        names::check_name(queue)
            .map_err(|e| Fail::usage(format!("-q: '{queue}': {}", e.message)))?;
    }
    sel.queue = queue.to_owned();
    sel.group = job_group(m)?.unwrap_or_default();
    let user = m.last("u").unwrap_or_default();
    if !user.is_empty() {
        names::check_user(user).map_err(|e| Fail::usage(format!("-u: '{user}': {}", e.message)))?;
    }
    sel.user = user.to_owned();
    Ok(sel)
}

/// The job group of -g.
///
/// # Errors
/// It is not the path of a job group.
pub(crate) fn job_group(m: &ArgMatches) -> Result<Option<String>> {
    let Some(group) = m.last("g") else {
        return Ok(None);
    };
    job_group::check(group)
        .map_err(|e| Fail::usage(format!("-g: '{}': {}", escape(group), e.message)))?;
    Ok(Some(group.to_owned()))
}

/// Checks job ids; a plain `0` means all matching jobs.
///
/// # Errors
/// Names the operand that is not a job ID.
pub(crate) fn ids(operands: &[String]) -> Result<Selector> {
    if operands.len() > OPERANDS_MAX {
        return Err(Fail::usage(format!(
            "{} job IDs, at most {OPERANDS_MAX} are allowed",
            operands.len()
        )));
    }
    let mut sel = Selector::default();
    for operand in operands {
        match JobSel::parse(operand).map_err(|e| not_a_job_id(operand, &e))? {
            JobSel::All => sel.all = true,
            _ => sel.ids.push(operand.clone()),
        }
    }
    Ok(sel)
}

/// The failure for an operand that is not a job ID. `e` is the error inside the brackets of an
/// element; a word may be the name of a job.
pub(crate) fn not_a_job_id(operand: &str, e: &ParseError) -> Fail {
    if operand.contains('[') {
        let caret = e.caret(operand);
        return Fail::usage(format!("{}\n{}", e.message, caret.trim_end_matches('\n')));
    }
    let by_name = match names::check_job_name(operand) {
        Ok(()) if !operand.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("; to select by name use -J {operand}")
        }
        _ => String::new(),
    };
    Fail::usage(format!(
        "{}. Give 123, 123[4] or 0 for all{by_name}",
        e.message
    ))
}

/// Formats an accepted outcome.
pub(crate) type OutcomePhrase = fn(&Outcome) -> String;

/// Returns e.g. `Job <12> is being terminated`.
pub(crate) fn job_phrase(outcome: &Outcome) -> String {
    format!("Job <{}> {}", outcome.what, outcome.text)
}

/// Sends verbs, prints the answer, returns the exit code.
pub(crate) fn send_and_report(
    command: &str,
    m: &ArgMatches,
    verbs: &[Verb],
    phrase: OutcomePhrase,
) -> Result<i32> {
    let wait_s = requests::wait_s(m.last("wait"))?;
    let site = Site::find()?;
    match requests::send_and_wait(&site, command, verbs, wait_s) {
        Ok(ack) => {
            if ack.results.iter().any(no_job_matched) {
                known_names::check(m, &Source::of("cb", site))?;
            }
            Ok(show(command, &ack, phrase))
        }
        Err(e) => Ok(e.report(command)),
    }
}

/// Whether no job matches -J, -m, -q, -g and -u.
fn no_job_matched(outcome: &Outcome) -> bool {
    outcome.code == Code::NotFound && outcome.what == "selection"
}

/// Prints an answer: actions on standard output, failures on standard error.
pub(crate) fn show(command: &str, ack: &Ack, phrase: OutcomePhrase) -> i32 {
    let shown = AckText::of(command, ack, phrase);
    print!("{}", translated(&shown.text));
    eprint!("{}", translated(&shown.err));
    shown.exit.code()
}

/// An answer as two texts: actions and failures.
pub(crate) fn texts(command: &str, ack: &Ack, phrase: OutcomePhrase) -> (String, String) {
    let shown = AckText::of(command, ack, phrase);
    (shown.text, shown.err)
}

/// An answer as text.
struct AckText {
    text: String,
    err: String,
    exit: Exit,
}

impl AckText {
    fn of(command: &str, ack: &Ack, phrase: OutcomePhrase) -> AckText {
        let mut text = String::new();
        let mut err = String::new();
        let mut exit = Exit::Ok;
        for outcome in &ack.results {
            exit = exit.worst(Exit::of(outcome.code));
            // Writing to a string cannot fail.
            let _ = match outcome.code {
                Code::Ok => writeln!(text, "{}", phrase(outcome)),
                _ => writeln!(err, "{}", failed(command, outcome)),
            };
        }
        if ack.more > 0 {
            let listed = ack.results.len() as u64;
            let _ = writeln!(
                err,
                "{command}: {} answers, the first {listed} are listed",
                listed + ack.more
            );
        }
        if !ack.ok {
            exit = exit.worst(Exit::Refused);
            let _ = writeln!(err, "{command}: {}", ack.error);
        }
        AckText { text, err, exit }
    }
}

/// `Job <12>: No matching job found`, or the text alone if it does not concern a single job.
fn failed(command: &str, outcome: &Outcome) -> String {
    let text = capital(&outcome.text);
    let who = command.strip_prefix("cadmin ").and_then(roles::who_may);
    if let (Code::Permission, "permission denied", Some(who)) =
        (outcome.code, outcome.text.as_str(), who)
    {
        let what = &outcome.what;
        return format!("{command}: {what}: permission denied; only a {who} or root may do this");
    }
    if outcome.what.starts_with(|c: char| c.is_ascii_digit()) {
        format!("Job <{}>: {text}", outcome.what)
    } else if outcome.what == "selection" {
        text
    } else {
        format!("{}: {text}", outcome.what)
    }
}

/// The text with a capital first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Runs a command's body and reports its failure.
pub(crate) fn finish(command: &str, result: Result<i32>) -> i32 {
    result.unwrap_or_else(|fail| fail.report(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cli::{command, parse};
    use crate::model::Token;

    fn sel(words: &[&str]) -> Result<Selector> {
        let words: Vec<std::ffi::OsString> = words.iter().map(Into::into).collect();
        let m =
            parse(with_selectors(command("t", "t")), &words).map_err(|_| Fail::usage("clap"))?;
        selector(&m)
    }

    #[test]
    fn ids_and_selectors() {
        let selector = sel(&[
            "-J", "a*", "-q", "night", "-u", "all", "-m", "h1", "12", "13[2-4]", "0",
        ]);
        let selector = selector.unwrap();
        assert_eq!(selector.ids, ["12", "13[2-4]"]);
        assert!(selector.all);
        assert_eq!(
            (selector.name.as_str(), selector.queue.as_str()),
            ("a*", "night")
        );
        assert_eq!(
            (selector.user.as_str(), selector.host.as_str()),
            ("all", "h1")
        );
    }

    #[test]
    fn operands_that_are_no_jobs_are_usage_errors() {
        for bad in [
            "007",
            "1[2",
            "1[2-",
            "18446744073709551616",
            "-1",
            "x",
            "1[0]",
            "",
            "1 2",
        ] {
            let fail = sel(&[bad]).expect_err(bad);
            assert_eq!(fail.exit, Exit::Usage, "{bad}");
        }
        assert!(sel(&["-q", "a b"]).is_err());
    }

    #[test]
    fn answers_go_to_the_right_stream_and_the_worst_counts() {
        let outcome = |what: &str, code, text: &str| Outcome {
            what: what.into(),
            code,
            text: text.into(),
        };
        let mut ack = Ack {
            tok: Token(1),
            ok: true,
            error: String::new(),
            ids: Vec::new(),
            results: vec![
                outcome("1[2]", Code::Ok, "is being terminated"),
                outcome("9", Code::NotFound, "no matching job found"),
                outcome("3", Code::Permission, "permission denied"),
            ],
            more: 0,
            retry_s: 0,
        };
        let shown = AckText::of("ckill", &ack, job_phrase);
        assert_eq!(shown.text, "Job <1[2]> is being terminated\n");
        assert_eq!(
            shown.err,
            "Job <9>: No matching job found\nJob <3>: Permission denied\n"
        );
        assert_eq!(shown.exit, Exit::Permission);
        ack.results = vec![outcome("h1", Code::Permission, "permission denied")];
        ack.more = 9;
        assert_eq!(
            AckText::of("cadmin hclose", &ack, job_phrase).err,
            "cadmin hclose: h1: permission denied; only a cluster admin or root may do this\n\
             cadmin hclose: 10 answers, the first 1 are listed\n"
        );
        ack.more = 0;
        ack.results = vec![outcome(
            "selection",
            Code::NotFound,
            "no matching job found",
        )];
        assert_eq!(
            AckText::of("ckill", &ack, job_phrase).err,
            "No matching job found\n"
        );
    }
}
