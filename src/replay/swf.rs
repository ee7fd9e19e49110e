//! The Standard Workload Format: a line per job, 18 numbers, `;` before a comment.
//!
//! Owns the rules by which a log becomes a workload: jobs that never ran or have no width are left
//! out and counted; the width is the requested one, or else the allocated one; the estimate is the
//! requested time, or else the run time; nothing runs longer than its estimate. Never reads a file.

use super::workload::{Builder, Job, JobRequest, LeftOut, Workload, seconds};

/// Number of fields that a line must have: up to the requested time.
const FIELDS_MIN: usize = 9;
/// Number of fields of a complete line.
const FIELDS: usize = 18;
/// Maximum length of a line, in bytes.
const LINE_MAX: usize = 64 * 1024;

/// Reads a log. `file` is its name in messages.
///
/// # Errors
/// It contains no job, or too many.
pub fn read(bytes: &[u8], file: &str) -> Result<Workload, String> {
    let mut builder = Builder::default();
    for (n, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let line = match std::str::from_utf8(line) {
            Ok(text) => text.trim(),
            // Comments of old logs may have any encoding.
            Err(_) if line.trim_ascii_start().starts_with(b";") => continue,
            Err(_) => {
                let left_out = &mut builder.workload.left_out;
                left_out.bad_line(file, n as u64 + 1, "the line is not UTF-8 text");
                continue;
            }
        };
        if let Some(comment) = line.strip_prefix(';') {
            header(comment, &mut builder.workload);
        } else if !line.is_empty() {
            match fields(line) {
                Ok(f) => add_line(&f, &mut builder)?,
                Err(why) => {
                    let left_out = &mut builder.workload.left_out;
                    left_out.bad_line(file, n as u64 + 1, &why);
                }
            }
        }
    }
    let workload = builder.finish();
    if workload.jobs.is_empty() {
        return Err(no_jobs_error(file, &workload.left_out));
    }
    Ok(workload)
}

fn no_jobs_error(file: &str, left_out: &LeftOut) -> String {
    let mut out = format!("{file} has no job that can be used");
    for sentence in left_out.sentences().iter().take(3) {
        out.push_str("; ");
        out.push_str(sentence);
    }
    out
}

/// `MaxProcs: 100` and `UnixStartTime: 7`; other comments are ignored.
fn header(comment: &str, workload: &mut Workload) {
    let Some((key, value)) = comment.split_once(':') else {
        return;
    };
    let number = value
        .split_whitespace()
        .next()
        .and_then(|v| v.parse::<i64>().ok());
    let Some(n) = number.filter(|n| *n > 0) else {
        return;
    };
    match key.trim() {
        "MaxProcs" => workload.procs = u32::try_from(n).ok(),
        // Logs that count whole nodes as processors contain only these.
        "MaxNodes" if workload.procs.is_none() => workload.procs = u32::try_from(n).ok(),
        "UnixStartTime" => workload.start_ms = n.checked_mul(1000),
        _ => {}
    }
}

/// The relevant fields, -1 = unknown.
struct Line {
    id: u64,
    submit_ms: i64,
    run_ms: i64,
    allocated: i64,
    requested: i64,
    requested_ms: i64,
    user: i64,
    group: i64,
    queue: i64,
    short: bool,
}

fn fields(line: &str) -> Result<Line, String> {
    if line.len() > LINE_MAX {
        return Err(format!("longer than {LINE_MAX} bytes"));
    }
    let mut words = [""; FIELDS];
    let mut n = 0;
    for (slot, word) in words.iter_mut().zip(line.split_ascii_whitespace()) {
        *slot = word;
        n += 1;
    }
    if n < FIELDS_MIN {
        return Err(format!(
            "{n} fields: a job has {FIELDS}, and at least {FIELDS_MIN}"
        ));
    }
    let number = |at: usize| -> Result<i64, String> {
        if at >= n {
            return Ok(-1);
        }
        integer(words[at]).ok_or_else(|| invalid(at, words[at], "a whole number"))
    };
    let time =
        |at: usize| seconds(words[at]).ok_or_else(|| invalid(at, words[at], "a number of seconds"));
    let id = number(0)?;
    let submit_ms = time(1)?;
    if submit_ms < 0 {
        return Err(invalid(1, words[1], "a time of submission"));
    }
    Ok(Line {
        id: u64::try_from(id).map_err(|_| invalid(0, words[0], "a job number"))?,
        submit_ms,
        run_ms: time(3)?,
        allocated: number(4)?,
        requested: number(7)?,
        requested_ms: time(8)?,
        user: number(11)?,
        group: number(12)?,
        queue: number(14)?,
        short: n < FIELDS,
    })
}

fn invalid(at: usize, word: &str, what: &str) -> String {
    format!("field {}: {word:?} is not {what}", at + 1)
}

/// An integer, which may be written with a fraction of zero.
fn integer(word: &str) -> Option<i64> {
    if let Ok(n) = word.parse() {
        return Some(n);
    }
    let milli = seconds(word)?;
    (milli % 1000 == 0).then_some(milli / 1000)
}

/// Applies the rules to one line.
fn add_line(f: &Line, builder: &mut Builder) -> Result<(), String> {
    let left_out = &mut builder.workload.left_out;
    if f.short {
        left_out
            .note_corrected("with fewer fields than the format has, the missing ones are unknown");
    }
    let width = if f.requested > 0 {
        f.requested
    } else {
        f.allocated
    };
    if f.run_ms <= 0 {
        left_out.rule("its run time is not above 0");
        return Ok(());
    }
    if width <= 0 {
        left_out.rule("it has no processors");
        return Ok(());
    }
    let Ok(width) = u32::try_from(width) else {
        left_out.rule("wider than any machine");
        return Ok(());
    };
    let est_ms = if f.requested_ms > 0 {
        f.requested_ms
    } else {
        f.run_ms
    };
    if f.run_ms > est_ms {
        left_out.note_corrected("run longer than their estimate, cut to it");
    }
    let named = |letter: char, n: i64| match n {
        n if n >= 0 => format!("{letter}{n}"),
        _ => String::new(),
    };
    let ask = JobRequest {
        user: named('u', f.user),
        group: named('g', f.group),
        queue: named('q', f.queue),
        min: width,
        max: width,
        ..JobRequest::default()
    };
    let job = Job {
        id: f.id,
        submit_ms: f.submit_ms,
        run_ms: f.run_ms.min(est_ms).unsigned_abs(),
        est_ms: Some(est_ms.unsigned_abs()),
        ..Job::default()
    };
    builder.push(job, ask)
}

/// Writes a workload as SWF, for other programs.
pub fn write(workload: &Workload) -> String {
    use super::workload::print_seconds;
    use std::fmt::Write;
    let mut out = String::with_capacity(64 * workload.jobs.len() + 256);
    out.push_str("; Version: 2.2\n; Computer: synthetic, made by cbsim generate\n");
    if let Some(procs) = workload.procs {
        out.push_str(&format!("; MaxProcs: {procs}\n"));
    }
    if let Some(start) = workload.start_ms {
        out.push_str(&format!("; UnixStartTime: {}\n", start / 1000));
    }
    let number = |name: &str| -> i64 {
        name.trim_start_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .unwrap_or(-1)
    };
    for job in &workload.jobs {
        let ask = workload.request(job);
        let (submit, run) = (
            print_seconds(job.submit_ms),
            print_seconds(job.run_ms as i64),
        );
        let est = job
            .est_ms
            .map_or("-1".to_owned(), |ms| print_seconds(ms as i64));
        let (user, group, queue) = (number(&ask.user), number(&ask.group), number(&ask.queue));
        writeln!(
            out,
            "{} {submit} -1 {run} {} -1 -1 {} {est} -1 1 {user} {group} -1 {queue} -1 -1 -1",
            job.id, ask.min, ask.min
        )
        .expect("writing to a String cannot fail");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
; Version: 2.2
; MaxNodes: 64
;  MaxProcs: 100
; UnixStartTime: 843552000
  2 10 -1 50 8 -1 -1 4 100 -1 1 7 3 -1 2 -1 -1 -1
  1 10 5 500 8 -1 -1 -1 100 -1 1 -1 -1 -1 -1 -1 -1 -1
  3 11 5 60 2 -1 -1 0 -1 -1 1 7 3 -1 2 -1 -1 -1

  4 12 5 0 2 -1 -1 2 60 -1 0 7 3 -1 2 -1 -1 -1
  5 13 5 9 0 -1 -1 -1 60 -1 0 7 3 -1 2 -1 -1 -1
  x 13 5 9 0 -1 -1 -1 60 -1 0 7 3 -1 2 -1 -1 -1
  6 14 5 9
  7 15.5 -1 9 2 -1 -1 2 10.25
";

    #[test]
    fn the_rules_of_cleaning_hold() {
        let w = read(LOG.as_bytes(), "a.swf").unwrap();
        let row = |i: usize| {
            let j = &w.jobs[i];
            (j.id, j.submit_ms, j.run_ms, j.est_ms, w.request(j).min)
        };
        assert_eq!(w.jobs.len(), 4);
        // Cut to the estimate; width as given, since none was requested.
        assert_eq!(row(0), (1, 10_000, 100_000, Some(100_000), 8));
        // Width as requested.
        assert_eq!(row(1), (2, 10_000, 50_000, Some(100_000), 4));
        // Nothing was requested: the run time is the estimate.
        assert_eq!(row(2), (3, 11_000, 60_000, Some(60_000), 2));
        assert_eq!(row(3), (7, 15_500, 9_000, Some(10_250), 2));
        assert_eq!((w.procs, w.start_ms), (Some(100), Some(843_552_000_000)));
        assert_eq!(
            (
                w.request(&w.jobs[1]).user.as_str(),
                w.request(&w.jobs[0]).user.as_str()
            ),
            ("u7", "")
        );
    }

    #[test]
    fn nothing_is_dropped_without_a_word() {
        let w = read(LOG.as_bytes(), "a.swf").unwrap();
        assert_eq!(
            w.left_out.sentences(),
            [
                "a.swf:11: field 1: \"x\" is not a whole number",
                "a.swf:12: 4 fields: a job has 18, and at least 9",
                "1 job left out: it has no processors",
                "1 job left out: its run time is not above 0",
                "1 job: run longer than their estimate, cut to it",
                "1 job: with fewer fields than the format has, the missing ones are unknown",
            ]
        );
    }

    #[test]
    fn a_file_without_jobs_is_refused_with_its_first_fault() {
        let e = read(b"; nothing\nhello there\n", "b.swf").unwrap_err();
        assert!(
            e.starts_with("b.swf has no job that can be used; b.swf:2: 2 fields"),
            "{e}"
        );
    }

    #[test]
    fn what_is_written_reads_back_alike() {
        let w = read(LOG.as_bytes(), "a.swf").unwrap();
        let again = read(write(&w).as_bytes(), "again").unwrap();
        assert_eq!(again.procs, w.procs);
        for (a, b) in again.jobs.iter().zip(&w.jobs) {
            assert_eq!(
                (
                    a.id,
                    a.submit_ms,
                    a.run_ms,
                    a.est_ms,
                    again.request(a).min,
                    &again.request(a).user
                ),
                (
                    b.id,
                    b.submit_ms,
                    b.run_ms,
                    b.est_ms,
                    w.request(b).min,
                    &w.request(b).user
                ),
            );
        }
        assert_eq!(again.jobs.len(), w.jobs.len());
    }

    #[test]
    fn comments_in_other_encodings_do_no_harm() {
        let bytes = [b"; Universit\xe4t\n".as_slice(), b"1 0 -1 5 1 -1 -1 1 9\n"].concat();
        assert_eq!(read(&bytes, "c").unwrap().jobs.len(), 1);
    }
}
