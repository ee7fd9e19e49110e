//! `cpost` (`bpost`) leaves a message with a job; `cread` (`bread`) prints it.
//!
//! Owns the options of both. A message is sent as a request to the leader and read from the
//! published view, so it may be posted on a host where the job runs and read on any other.

use super::cli::{Values, command, flag, operands, opt, parse};
use super::cpeek::one_job;
use super::exit::{Exit, Fail, Result};
use super::job_requests::{finish, job_phrase, send_and_report, with_wait};
use super::read::{self, OWN_ONLY, Source};
use crate::model::JobKey;
use crate::record::message::{self, JobMessage};
use crate::record::request::{Selector, Verb};
use crate::record::view::JobRow;
use crate::show::message as show;
use crate::spool::view::{JobSet, ViewJob};
use crate::text::glob::Glob;
use crate::text::width::escape;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The text of a message that is posted without one, as in LSF.
const NO_TEXT: &str = "no description";
/// Options of LSF for attached files and for a notification page.
const NOT_BUILT: &[&str] = &["a", "N"];

/// The options of `cpost`.
pub(super) fn cpost_options() -> Command {
    let cmd = with_wait(command("cpost", "Attach a message to a job"))
        .arg(opt("i", "INDEX", "Index of the message, 0 to 127 [0]"))
        .arg(opt(
            "d",
            "TEXT",
            "Text of the message, at most 512 characters [no description]",
        ))
        .arg(opt("a", "FILE", "not implemented").hide(true))
        .arg(opt("N", "LEVEL", "not implemented").hide(true));
    with_job(cmd)
}

/// The options of `cread`.
pub(super) fn cread_options() -> Command {
    let cmd = command("cread", "Print a message of a job")
        .arg(opt("i", "INDEX", "Index of the message, 0 to 127 [0]"))
        .arg(flag("w", "Wide: no effect, since no value is ever cut"))
        .arg(flag("json", "As a JSON object"))
        .arg(opt("a", "FILE", "not implemented").hide(true))
        .arg(flag("N", "not implemented").hide(true));
    with_job(cmd)
}

fn with_job(cmd: Command) -> Command {
    cmd.arg(opt("J", "NAME", "Your latest job of this name"))
        .arg(operands(
            "job",
            "JOB",
            "A job ID, or an element as 12[3]; an array has messages of its own",
        ))
}

/// Runs `cpost`; returns the exit code.
pub(crate) fn cpost(args: &[OsString]) -> i32 {
    match parse(cpost_options(), args) {
        Ok(m) => finish("cpost", post(&m)),
        Err(code) => code,
    }
}

/// Runs `cread`; returns the exit code.
pub(crate) fn cread(args: &[OsString]) -> i32 {
    match parse(cread_options(), args) {
        Ok(m) => finish("cread", print(&m)),
        Err(code) => code,
    }
}

fn post(m: &ArgMatches) -> Result<i32> {
    send_and_report("cpost", m, &[posting(m)?], job_phrase)
}

fn posting(m: &ArgMatches) -> Result<Verb> {
    read::refuse_unbuilt(m, NOT_BUILT, "cpost")?;
    let sel = match job_operand(m)? {
        JobOperand::Key(key) => Selector {
            ids: vec![key.to_string()],
            ..Selector::default()
        },
        JobOperand::Name(name) => Selector {
            name,
            ..Selector::default()
        },
    };
    let (index, text) = (index(m)?, m.last("d").unwrap_or(NO_TEXT).to_owned());
    message::check(index, &text).map_err(Fail::usage)?;
    Ok(Verb::Post { sel, index, text })
}

fn print(m: &ArgMatches) -> Result<i32> {
    read::put(&text(m, &Source::open("cread")?)?)?;
    Ok(Exit::Ok.code())
}

/// The output of `cread`.
fn text(m: &ArgMatches, source: &Source) -> Result<String> {
    read::refuse_unbuilt(m, NOT_BUILT, "cread")?;
    let (wanted, index) = (job_operand(m)?, index(m)?);
    let (key, messages) = match wanted {
        JobOperand::Key(key) => (key, of_key(source, key)?),
        JobOperand::Name(name) => of_name(source, &name)?,
    };
    let found = messages.into_iter().find(|message| message.index == index);
    let message = found
        .ok_or_else(|| Fail::not_found(format!("Job <{key}> has no message with index {index}")))?;
    if m.has("json") {
        let mut out = String::new();
        show::put_json(&mut out, Some(key), &message);
        out.push('\n');
        return Ok(out);
    }
    Ok(show::table(key, &message, &source.ctx().dates))
}

/// The job of a command line.
enum JobOperand {
    Key(JobKey),
    Name(String),
}

fn job_operand(m: &ArgMatches) -> Result<JobOperand> {
    match (m.all("job").as_slice(), m.last("J")) {
        ([one], _) => Ok(JobOperand::Key(one_job(one)?)),
        ([], Some(name)) => Ok(JobOperand::Name(name.to_owned())),
        ([], None) => Err(Fail::usage("name the job: its ID, or its name with -J")),
        _ => Err(Fail::usage("give one job")),
    }
}

fn index(m: &ArgMatches) -> Result<u32> {
    let Some(text) = m.last("i") else {
        return Ok(0);
    };
    let index = text.parse().ok().filter(|n| *n < message::MESSAGES_MAX);
    index.ok_or_else(|| {
        let last = message::MESSAGES_MAX - 1;
        let shown = escape(text);
        Fail::usage(format!(
            "-i: '{shown}' is not an index of a message, 0 to {last}"
        ))
    })
}

/// The messages of a job, array or element.
fn of_key(source: &Source, key: JobKey) -> Result<Vec<JobMessage>> {
    let want = JobSet {
        ids: vec![(key.id, key.id)],
        finished: true,
        ..JobSet::default()
    };
    let jobs = collect(source, &want)?;
    let found = jobs.iter().find(|job| job.row.j == key);
    // An element without a row of its own waits with its array.
    let waits = |job: &&ViewJob| job.row.j == JobKey::job(key.id) && has_element(&job.row, key.idx);
    let Some(job) = found.or_else(|| jobs.iter().find(waits)) else {
        return Err(Fail::not_found(format!("Job <{key}> is not found")));
    };
    if !source.may_see(&source.params()?, &job.spec) {
        return Err(Fail::permission(OWN_ONLY));
    }
    Ok(found.map_or_else(Vec::new, |job| job.row.messages.clone()))
}

fn has_element(row: &JobRow<'_>, idx: u32) -> bool {
    let waiting = row.arr.as_deref().map(|arr| arr.waiting.parse());
    waiting.is_some_and(
        |set: std::result::Result<crate::text::indexset::IndexSet, _>| {
            set.is_ok_and(|set| set.contains(idx))
        },
    )
}

/// The caller's latest job of a name, and its messages.
fn of_name(source: &Source, name: &str) -> Result<(JobKey, Vec<JobMessage>)> {
    let want = JobSet {
        uids: vec![source.me.uid],
        finished: true,
        ..JobSet::default()
    };
    let glob = Glob::new(name);
    let named = |row: &JobRow<'_>| match row.name.is_empty() {
        true => glob.matches(&row.command),
        false => glob.matches(&row.name),
    };
    let jobs = collect(source, &want)?.into_iter();
    let latest = jobs.filter(|job| job.row.j.idx == 0 && named(&job.row));
    let latest = latest.max_by_key(|job| job.row.j);
    let job = latest.ok_or_else(|| Fail::not_found("no matching job found"))?;
    Ok((job.row.j, job.row.messages))
}

fn collect(source: &Source, want: &JobSet) -> Result<Vec<ViewJob>> {
    let read = source.view.collect(want);
    Ok(read.map_err(|e| Fail::system(e.to_string()))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::exit::Exit;
    use crate::client::read::test_cluster;
    use crate::record::view::{self, Params};

    fn of(words: &[&str]) -> Result<Verb> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        posting(&parse(cpost_options(), &words).unwrap())
    }

    #[test]
    fn a_message_has_a_job_an_index_and_a_text() {
        let Verb::Post { sel, index, text } = of(&["-i", "3", "-d", "", "12[4]"]).unwrap() else {
            panic!("it posts");
        };
        assert_eq!(
            (sel.ids, index, text.as_str()),
            (vec!["12[4]".to_owned()], 3, "")
        );
        let Verb::Post { sel, index, text } = of(&["-J", "a*"]).unwrap() else {
            panic!("it posts");
        };
        assert_eq!(
            (sel.name.as_str(), index, text.as_str()),
            ("a*", 0, NO_TEXT)
        );
        let long = "x".repeat(513);
        for (bad, says) in [
            (&["-d", "x"][..], "name the job"),
            (&["1", "2"], "one job"),
            (&["1[2-3]"], "one job"),
            (&["0"], "one job"),
            (&["-i", "128", "1"], "0 to 127"),
            (&["-i", "x", "1"], "0 to 127"),
            (&["-d", &long, "1"], "at most 512"),
            (&["-a", "file", "1"], "option -a"),
            (&["-N", "INFO", "1"], "option -N"),
        ] {
            let fail = of(bad).expect_err(says);
            assert_eq!(fail.exit, Exit::Usage, "{bad:?}");
            assert!(fail.text.contains(says), "{bad:?}: {}", fail.text);
        }
    }

    #[test]
    fn golden_output() {
        let bed = test_cluster::cluster();
        let lines = [
            "3",
            "-i 3 3",
            "-i 3 -json 3",
            "-J job3",
            "-i 1 3",
            "4[3]",
            "4[9]",
            "77",
        ];
        test_cluster::compare("cread", &lines, |words| {
            let m = test_cluster::parse(cread_options(), words);
            let output = text(&m, &bed.source("cread", 10));
            output.unwrap_or_else(|fail| format!("cread: {}\n", fail.text))
        });
    }

    #[test]
    fn messages_are_read_by_those_who_may_see_the_job() {
        let bed = test_cluster::cluster();
        let hidden = Params {
            cluster: "c1".into(),
            view_all_jobs: false,
            ..Params::default()
        };
        bed.put(view::PARAMS, &[hidden]);
        let m = test_cluster::parse(cread_options(), &["3"]);
        assert!(text(&m, &bed.source("cread", 10)).is_ok());
        let fail = text(&m, &bed.source("cread", 20)).unwrap_err();
        assert_eq!(fail.exit, Exit::Permission);
    }
}
