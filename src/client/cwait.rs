//! `cwait`: waits until a condition on jobs is true. Also the waiting of `csub -K`.
//!
//! Polls the published view; never sends a request to the leader.

mod facts;
mod progress;

use super::cli::{Values, command, flag, operands, opt, parse};
use super::env::Site;
use super::exit::{Exit, Fail, Result};
use super::job_requests::finish;
use super::quiet::{MessageKind, Quiet};
use crate::language::tell;
use crate::model::{JobKey, JobStat};
use crate::record::view::JobRow;
use crate::spool::view::{JobSet, ViewJob, ViewReader};
use crate::sys;
use crate::text::IndexSet;
use crate::text::depend::{Answer, Expr};
use crate::text::duration::{DefaultUnit, parse_ms_from};
use crate::text::jobids::JobSel;
use clap::{ArgMatches, Command};
use facts::JobRows;
use progress::{Counts, INTERRUPTED, Progress};
use std::ffi::OsString;

/// First and longest interval between two reads of the view, ms.
const PAUSE_MS: (u64, u64) = (5, 1000);
/// A job that is missing in the view for this time counts as forgotten, ms.
const MISSING_MS: u64 = 120_000;
/// Exit code of `csub -K` when the job was terminated while pending.
const KILLED_PENDING: i32 = 126;
/// Of a job that was ended, or ran out of memory, although its command exited with 0.
const ENDED: i32 = 1;

/// Takes a message about a job, with its kind.
pub(crate) type Say<'a> = &'a mut dyn FnMut(MessageKind, &str);

/// The options of `cwait`.
pub(super) fn options() -> Command {
    command(
        "cwait",
        "Wait until jobs have ended, or a condition on them holds",
    )
    .arg(opt(
        "w",
        "CONDITION",
        "Wait for this condition, as in csub -w",
    ))
    .arg(opt(
        "J",
        "NAME",
        "Wait until your jobs of this name have ended; * at either end matches any text",
    ))
    .arg(opt(
        "timeout",
        "TIME",
        "Give up after this time: seconds or units as in 90s, 5m, 2h",
    ))
    .arg(flag("quiet", "Print nothing; only set the exit code"))
    .arg(operands(
        "what",
        "JOB... | CONDITION",
        "Job IDs: wait until all have ended; else a condition such as 'done(1) && ended(2)'",
    ))
}

/// Runs `cwait`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match parse(options(), args) {
        Ok(m) => finish("cwait", wait(&m)),
        Err(code) => code,
    }
}

/// What to wait for.
struct WaitCondition {
    expr: Expr,
    /// Ids were given: once all jobs have ended, the exit code tells whether all are DONE.
    ids: bool,
}

/// Parses the operands and `-w`.
fn parse_condition(condition: Option<&str>, operands: &[String]) -> Result<WaitCondition> {
    let ids = condition.is_none()
        && !operands.is_empty()
        && operands
            .iter()
            .all(|o| o.starts_with(|c: char| c.is_ascii_digit()) && JobSel::parse(o).is_ok());
    let text = match (condition, operands) {
        (Some(text), []) => text.to_owned(),
        (Some(_), _) => return Err(Fail::usage("give -w or operands, not both")),
        (None, []) => return Err(Fail::usage("job IDs or a condition are missing")),
        (None, _) if ids => {
            let each: Vec<String> = operands.iter().map(|o| format!("ended({o})")).collect();
            each.join(" && ")
        }
        (None, words) => words.join(" "),
    };
    let expr = Expr::parse(&text).map_err(|e| super::csub::spec::invalid_value("w", &text, &e))?;
    Ok(WaitCondition { expr, ids })
}

/// The goal of `-J`: the jobs with this name have ended.
fn condition_for_name(
    name: &str,
    condition: Option<&str>,
    operands: &[String],
) -> Result<WaitCondition> {
    if condition.is_some() || !operands.is_empty() {
        return Err(Fail::usage("give -J, -w or operands, not several of them"));
    }
    if name.contains('"') {
        return Err(Fail::usage("-J: a job name cannot contain quotes"));
    }
    let ended = parse_condition(Some(&format!("ended(\"{name}\")")), &[])?;
    // As with ids, the exit code tells whether all are DONE.
    Ok(WaitCondition { ids: true, ..ended })
}

fn wait(m: &ArgMatches) -> Result<i32> {
    let goal = match m.last("J") {
        Some(name) => condition_for_name(name, m.last("w"), &m.all("what"))?,
        None => parse_condition(m.last("w"), &m.all("what"))?,
    };
    let limit = match m.last("timeout") {
        None => None,
        Some(text) => {
            let ms = parse_ms_from(text, DefaultUnit::Seconds, 0);
            Some(ms.map_err(|e| super::csub::spec::invalid_value("timeout", text, &e))?)
        }
    };
    let site = Site::find()?;
    let reader = ViewReader::new(&site.layout());
    let expr = facts::resolve(&reader, goal.expr)?;
    let start = sys::clock::boot_ms();
    let mut pause = PAUSE_MS.0;
    let quiet = m.has("quiet");
    let mut unread_since = None;
    let mut progress = Progress::of("cwait", quiet);
    loop {
        let now = sys::clock::boot_ms() - start;
        match JobRows::read(&reader, &expr) {
            Ok(facts) => {
                unread_since = None;
                let answer = facts.judge(&expr);
                match answer {
                    Answer::False => progress.show(facts.counts(&expr)),
                    _ => progress.clear(),
                }
                match answer {
                    Answer::True => {
                        return Ok(exit_when_true(goal.ids, &facts, &expr, quiet).code());
                    }
                    Answer::Never => {
                        let why = facts.why_never(&expr);
                        return Err(Fail::not_found(why));
                    }
                    Answer::False => {}
                }
            }
            Err(fail) => {
                let since = *unread_since.get_or_insert(now);
                if now - since >= MISSING_MS {
                    return Err(fail);
                }
            }
        }
        if limit.is_some_and(|limit| now >= limit) {
            progress.clear();
            let text = format!("not within {} s: {expr}", now / 1000);
            return Err(Fail::refused(text));
        }
        let left = limit.map_or(u64::MAX, |limit| limit - now);
        if sys::signals::sleep_unless_caught(pause.min(left)) {
            progress.clear();
            if !quiet {
                tell!("cwait: interrupted; the jobs continue");
            }
            return Ok(INTERRUPTED);
        }
        pause = (pause + pause / 4 + 1).min(PAUSE_MS.1);
    }
}

/// The exit code if the condition holds: for plain ids it tells whether all are DONE.
fn exit_when_true(ids: bool, facts: &JobRows, expr: &Expr, quiet: bool) -> Exit {
    if !ids {
        return Exit::Ok;
    }
    let bad = facts.not_done(expr);
    if bad.is_empty() {
        return Exit::Ok;
    }
    if !quiet {
        for text in bad {
            tell!("cwait: {text}");
        }
    }
    Exit::NotFound
}

/// Waits for the end of a job or array and returns its exit code: for an array 0 if every element
/// is DONE, else the highest code of an element. `accepted`: when the leader accepted the job; 0:
/// it did not say.
pub(crate) fn until_end(site: &Site, id: u32, accepted: i64) -> i32 {
    let quiet = Quiet::from_environment();
    let mut progress = Progress::of("csub", !quiet.shows(MessageKind::Submission));
    let code = follow(site, id, accepted, &mut progress, &mut |kind, line| {
        quiet.print(kind, line);
    });
    progress.clear();
    code
}

/// Like [`until_end`], but passes every line to `say`.
pub(crate) fn watch_until_end(site: &Site, id: u32, accepted: i64, say: Say<'_>) -> i32 {
    follow(site, id, accepted, &mut Progress::hidden(), say)
}

fn follow(site: &Site, id: u32, accepted: i64, progress: &mut Progress, say: Say<'_>) -> i32 {
    say(MessageKind::Submission, "<<Waiting for dispatch ...>>");
    let reader = ViewReader::new(&site.layout());
    let from = sys::clock::boot_ms();
    let mut checked_until = from;
    let mut started = false;
    let mut pause = PAUSE_MS.0;
    loop {
        let now = sys::clock::boot_ms();
        match read_rows(&reader, id) {
            Ok(jobs) if is_other_job(&jobs, accepted) => {
                let text = format!(
                    "csub: job ID <{id}> now belongs to another job: the share was restored; \
                     the end of the job submitted here is unknown"
                );
                say(MessageKind::Warning, &text);
                return Exit::System.code();
            }
            Ok(jobs) if !jobs.is_empty() => {
                checked_until = now;
                let host = jobs.iter().find_map(|j| j.row.hosts.first());
                if let (false, Some(host)) = (started, host) {
                    started = true;
                    progress.clear();
                    let text = format!("<<Starting on {}>>", host.0);
                    say(MessageKind::Submission, &text);
                }
                progress.show(counts(&jobs));
                let mut last = |kind, line: &str| {
                    progress.clear();
                    say(kind, line);
                };
                if let Some(code) = end_of(id, &jobs, &mut last) {
                    return code;
                }
            }
            Ok(_) => {}
            Err(text) if now - checked_until >= MISSING_MS => {
                let text = format!("csub: {text}; the job continues, its end is unknown");
                say(MessageKind::Warning, &text);
                return Exit::System.code();
            }
            Err(_) => {}
        }
        if now - checked_until >= MISSING_MS {
            let text = format!("csub: job <{id}> is no longer known; its end is unknown");
            say(MessageKind::Warning, &text);
            return Exit::System.code();
        }
        if sys::signals::sleep_unless_caught(pause) {
            progress.clear();
            let text = format!(
                "csub: interrupted; job <{id}> continues: 'cwait {id}' waits for it again, 'ckill \
                 {id}' ends it"
            );
            say(MessageKind::Warning, &text);
            return INTERRUPTED;
        }
        pause = (pause + pause / 4 + 1).min(PAUSE_MS.1);
    }
}

/// What the view currently shows of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum JobStatus {
    /// The job is missing, not readable, or another job.
    Unknown(String),
    Pending,
    /// The job has started on this host.
    Started(String),
    /// The job has ended with this code.
    Ended(i32),
}

/// Looks at one job once; reports an end through `say`.
pub(crate) fn check_job(
    reader: &ViewReader,
    (id, accepted): (u32, i64),
    say: Say<'_>,
) -> JobStatus {
    let jobs = match read_rows(reader, id) {
        Ok(jobs) if is_other_job(&jobs, accepted) => {
            return JobStatus::Unknown(format!("job ID <{id}> now belongs to another job"));
        }
        Ok(jobs) if jobs.is_empty() => {
            return JobStatus::Unknown(format!("job <{id}> is no longer known"));
        }
        Ok(jobs) => jobs,
        Err(text) => return JobStatus::Unknown(text),
    };
    if let Some(code) = end_of(id, &jobs, say) {
        return JobStatus::Ended(code);
    }
    match jobs.iter().find_map(|j| j.row.hosts.first()) {
        Some(host) => JobStatus::Started(host.0.clone()),
        None => JobStatus::Pending,
    }
}

/// Counts the states of a job, or of the elements of an array.
fn counts(jobs: &[ViewJob]) -> Counts {
    let mut counts = Counts::default();
    for job in jobs {
        match &job.row.arr {
            None => counts.add(job.row.stat, 1),
            Some(array) => {
                let waiting = IndexSet::parse(&array.waiting, 1, u32::MAX);
                let waiting = waiting.map_or(0, |set| set.len());
                counts.add(job.row.stat, waiting);
            }
        }
    }
    counts
}

/// Whether the job that the view shows under this id was submitted at another time: after a share
/// was restored, ids that were assigned after the backup are assigned again.
fn is_other_job(jobs: &[ViewJob], accepted: i64) -> bool {
    let whole = jobs.iter().find(|job| job.row.j.idx == 0);
    accepted != 0 && whole.is_some_and(|job| job.row.submit != accepted)
}

fn read_rows(reader: &ViewReader, id: u32) -> std::result::Result<Vec<ViewJob>, String> {
    let want = JobSet {
        ids: vec![(id, id)],
        finished: true,
        ..JobSet::default()
    };
    match reader.collect(&want) {
        Ok((jobs, _)) => Ok(jobs),
        Err(e) => Err(e.to_string()),
    }
}

/// The exit code when all jobs have ended; reports the closing line.
fn end_of(id: u32, jobs: &[ViewJob], say: Say<'_>) -> Option<i32> {
    let whole = jobs.iter().find(|j| j.row.j == JobKey::job(id))?;
    let waiting = whole
        .row
        .arr
        .as_ref()
        .is_some_and(|a| !a.waiting.is_empty() && !whole.row.stat.is_finished());
    if waiting {
        return None;
    }
    let elements: Vec<&JobRow<'_>> = jobs
        .iter()
        .map(|j| &j.row)
        .filter(|r| r.j.idx > 0)
        .collect();
    let rows = if whole.row.arr.is_some() {
        elements
    } else {
        vec![&whole.row]
    };
    if rows.iter().any(|r| !r.stat.is_finished()) {
        return None;
    }
    let never = |r: &&JobRow<'_>| r.attempt == 0 && r.stat == JobStat::Exit;
    if rows.iter().all(never) {
        say(MessageKind::End, "<<Terminated while pending>>");
        return Some(KILLED_PENDING);
    }
    for row in rows.iter().filter(|r| !r.text.is_empty()) {
        let text = crate::text::width::escape(&row.text);
        let text = format!("csub: job <{}>: {text}", row.j);
        say(MessageKind::Warning, &text);
    }
    say(MessageKind::End, "<<Job is finished>>");
    rows.iter().map(|r| code_of(r)).max()
}

/// The code that a shell would show. An unknown end is never a success.
fn code_of(row: &JobRow<'_>) -> i32 {
    match (row.stat, row.code, row.sig) {
        (JobStat::Done, _, _) => 0,
        (_, _, sig) if sig > 0 => 128 + sig,
        (_, Some(code), _) if code != 0 => code,
        _ if row.attempt == 0 => KILLED_PENDING,
        // Its handler exited with 0; the job was ended.
        (_, Some(_), _) => ENDED,
        _ => Exit::System.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::view::ArrayRow;

    fn job(idx: u32, stat: JobStat, code: Option<i32>, sig: i32, attempt: u32) -> ViewJob {
        ViewJob {
            row: JobRow {
                j: JobKey { id: 7, idx },
                stat,
                code,
                sig,
                attempt,
                ..JobRow::default()
            },
            spec: Default::default(),
            why: None,
        }
    }

    #[test]
    fn a_name_stands_for_the_jobs_that_have_it() {
        let condition = condition_for_name("sweep*", None, &[]).unwrap();
        assert_eq!(condition.expr.to_string(), "ended(\"sweep*\")");
        assert!(condition.ids);
        assert!(condition_for_name("a", Some("done(1)"), &[]).is_err());
        assert!(condition_for_name("a", None, &["1".to_owned()]).is_err());
        assert!(condition_for_name("a\"b", None, &[]).is_err());
    }

    #[test]
    fn a_job_that_was_accepted_at_another_time_is_another_one() {
        let at = |idx, t| {
            let mut job = job(idx, JobStat::Done, Some(0), 0, 1);
            job.row.submit = t;
            job
        };
        assert!(is_other_job(&[at(0, 7_001)], 7_000));
        assert!(!is_other_job(&[at(0, 7_000)], 7_000));
        // Rows of elements may lack the time, and a leader of an earlier version does not send it.
        assert!(!is_other_job(&[at(0, 7_000), at(3, 0)], 7_000));
        assert!(!is_other_job(&[at(0, 7_000)], 0));
        assert!(!is_other_job(&[], 7_000));
    }

    #[test]
    fn a_single_job_ends_with_its_code() {
        use JobStat::*;
        for (j, want) in [
            (job(0, Run, None, 0, 1), None),
            (job(0, Done, Some(0), 0, 1), Some(0)),
            (job(0, Exit, Some(3), 0, 1), Some(3)),
            (job(0, Exit, None, 9, 1), Some(137)),
            (job(0, Exit, Some(0), 0, 1), Some(1)),
            (job(0, Exit, None, 0, 1), Some(5)),
            (job(0, Exit, None, 0, 0), Some(126)),
        ] {
            assert_eq!(end_of(7, &[j], &mut |_, _| {}), want);
        }
        assert_eq!(end_of(7, &[], &mut |_, _| {}), None);
    }

    #[test]
    fn ids_and_conditions_are_told_apart() {
        let words = |w: &[&str]| w.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let condition = parse_condition(None, &words(&["1", "2[3-4]"])).unwrap();
        assert!(condition.ids);
        assert_eq!(condition.expr.to_string(), "ended(1) && ended(2[3-4])");
        let condition = parse_condition(None, &words(&["done(1)", "&&", "2"])).unwrap();
        assert!(!condition.ids);
        assert_eq!(condition.expr.to_string(), "done(1) && done(2)");
        assert!(!parse_condition(Some("1"), &[]).unwrap().ids);
        for (w, o) in [
            (None, &[][..]),
            (Some("1"), &["2"]),
            (None, &["done("]),
            (None, &["007"]),
            (None, &["0"]),
        ] {
            assert!(parse_condition(w, &words(o)).is_err(), "{w:?} {o:?}");
        }
    }

    #[test]
    fn an_array_ends_with_its_last_element() {
        let mut whole = job(0, JobStat::Pend, None, 0, 0);
        let arr = ArrayRow {
            all: "1-2".into(),
            waiting: "2".into(),
            ..ArrayRow::default()
        };
        whole.row.arr = Some(Box::new(arr));
        let one = job(1, JobStat::Exit, Some(2), 0, 1);
        assert_eq!(
            end_of(7, &[whole.clone(), one.clone()], &mut |_, _| {}),
            None
        );
        whole.row.arr.as_mut().unwrap().waiting.clear();
        let two = job(2, JobStat::Done, Some(0), 0, 1);
        assert_eq!(end_of(7, &[whole, one, two], &mut |_, _| {}), Some(2));
    }
}
