//! Where a task's output goes, and the job report at its head.
//!
//! The report precedes the output although its result is known only afterwards:
//! - A file that only this task writes (overwritten, new, or named by `%I` in an array) gets the
//!   report first, its result and usage lines padded to a fixed width; these are overwritten in
//!   place at the end. Nothing is copied, readers may follow the file, and a crash loses nothing.
//! - A file to which others append as well (elements of an array without `%I`, or a file with
//!   content) gets report and output together at the end: until then the output is in a hidden
//!   file beside it (`spool_name`), so the outputs of several elements never mix.
//! - Anything but a regular file (`/dev/null`, a pipe) gets no report.
//!
//! Pure: the shepherd opens and writes.

use super::spec::{ReportFacts, ReportHeader};
use crate::model::{AttemptId, JobKey, TermReason};
use crate::record::report::Ended;
use crate::text::exits::SuccessExits;
use memchr::memmem;
use std::fmt::Write;

/// Maximum number of lines of the command in a report.
const COMMAND_LINES: usize = 50;
/// Widths of the fields that are filled in at the end.
const RESULT_WIDTH: usize = 78;
const TIME_WIDTH: usize = 24;
const NUMBER_WIDTH: usize = 12;

/// The text between a report and the output.
const REPORT_END: &str = "\nThe output (if any) follows:\n\n";

/// The properties of an output file when the task starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputTarget {
    pub regular: bool,
    /// The file is empty (new or truncated).
    pub empty: bool,
    /// The file is to be overwritten.
    pub overwrite: bool,
    /// The task is an element of an array, and the path does not differ between elements.
    pub shared: bool,
}

/// How the output is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Directly, without a report.
    Plain,
    /// The report first, filled in at the end.
    HeadFirst,
    /// To a hidden file; report and output are appended at the end.
    Aside,
}

/// Decides how to write an output with a report.
pub fn mode(t: &OutputTarget) -> Mode {
    match t {
        OutputTarget { regular: false, .. } => Mode::Plain,
        OutputTarget { shared: true, .. } => Mode::Aside,
        OutputTarget {
            overwrite: true, ..
        }
        | OutputTarget { empty: true, .. } => Mode::HeadFirst,
        _ => Mode::Aside,
    }
}

/// Name of the hidden file, beside the output file named `name`, that holds the output of an
/// attempt until its end.
pub fn spool_name(name: &str, a: AttemptId) -> String {
    format!(".{name}.{}.{}.{}", a.j.id, a.j.idx, a.at)
}

/// The data of a report. Times are texts by the caller (local time of the host).
#[derive(Clone, Debug)]
pub struct JobReport<'a> {
    pub facts: &'a ReportFacts,
    pub header: &'a ReportHeader,
    pub host: &'a str,
    pub cwd: &'a str,
    pub a: AttemptId,
    pub submitted: &'a str,
    pub started: &'a str,
    /// The end and its time; `None` while it runs.
    pub ended: Option<(&'a Ended, &'a str)>,
}

/// The sentence about the end. `well`: the job has succeeded.
fn result_sentence(e: &Ended, well: bool) -> String {
    let why = match e.reason {
        TermReason::None => String::new(),
        reason => format!(" ({})", reason.word()),
    };
    match (e.code, e.sig) {
        (Some(0), _) if well => "Successfully completed.".to_owned(),
        (Some(code), _) if well => format!("Successfully completed with exit code {code}."),
        (Some(code), _) => format!("Exited with exit code {code}{why}."),
        (None, 0) => format!("Ended in an unknown way{why}."),
        (None, sig) => {
            let core = if e.core { ", and core dumped" } else { "" };
            format!("Exited with signal termination: {sig}{core}{why}.")
        }
    }
}

/// Whether the job ended by itself with an exit code of success, as far as its host knows.
fn is_success(header: &ReportHeader, e: &Ended) -> bool {
    let others = || SuccessExits::parse(&header.success).unwrap_or_default();
    let good = |code: i32| code == 0 || others().holds(code);
    e.reason == TermReason::None && e.code.is_some_and(good)
}

/// The report's text. Its length is the same before and after the end, if only `ended` differs.
pub fn render(r: &JobReport<'_>) -> String {
    let f = r.facts;
    let rule = "-".repeat(60);
    let ended = r.ended.map(|(e, _)| e);
    let word = match ended {
        None => "Running",
        Some(e) if is_success(r.header, e) => "Done",
        Some(_) => "Exited",
    };
    let mut out = String::with_capacity(2048);
    let _ = writeln!(out, "{rule}");
    let _ = writeln!(out, "Sender: Corral <{}@{}>", f.user, r.host);
    let _ = writeln!(
        out,
        "Subject: Job {}: <{}> in cluster <{}> {word:<7}",
        r.a.j, r.header.name, f.cluster
    );
    out.push('\n');
    let _ = writeln!(
        out,
        "Job <{}> was submitted from host <{}> by user <{}> in cluster <{}> at {}",
        r.header.name, f.sub_host, f.user, f.cluster, r.submitted
    );
    let _ = writeln!(
        out,
        "Job was executed on host(s) <{}>, in queue <{}>, as user <{}> in cluster <{}>.",
        r.header.hosts.join("> <"),
        f.queue,
        f.user,
        f.cluster
    );
    let _ = writeln!(out, "<{}> was used as the home directory.", f.home);
    let _ = writeln!(out, "<{}> was used as the working directory.", r.cwd);
    let _ = writeln!(out, "Started at {}", r.started);
    let end_time = r.ended.map_or("", |(_, t)| t);
    let _ = writeln!(out, "Results reported at {end_time:<TIME_WIDTH$}");
    let _ = writeln!(out, "\nYour job looked like:\n\n{rule}");
    for line in r.header.command.lines().take(COMMAND_LINES) {
        let _ = writeln!(out, "{line}");
    }
    let sentence = ended.map_or("Still running.".to_owned(), |e| {
        result_sentence(e, is_success(r.header, e))
    });
    let _ = writeln!(out, "{rule}\n\n{}\n", fit(&sentence, RESULT_WIDTH));
    usage(&mut out, ended);
    out.push_str(REPORT_END);
    out
}

/// Where the output of job `j` begins in `content`, a file with its report or a part of a file to
/// which others append: after the report at its head, otherwise after the last one. `None`: it
/// contains no report of this job.
pub fn after_report(content: &[u8], j: JobKey) -> Option<usize> {
    let subject = format!("\nSubject: Job {j}: <");
    // The end of the second line of the file.
    let is_head = |at: &usize| content[..*at].iter().filter(|b| **b == b'\n').count() == 1;
    let head = memmem::find(content, subject.as_bytes()).filter(is_head);
    let from = head.or_else(|| memmem::rfind(content, subject.as_bytes()))?;
    let end = memmem::find(&content[from..], REPORT_END.as_bytes())?;
    Some(from + end + REPORT_END.len())
}

fn usage(out: &mut String, ended: Option<&Ended>) {
    let text = |value: Option<String>| format!("{:>NUMBER_WIDTH$}", value.unwrap_or_default());
    let cpu = ended.map(|e| format!("{}.{:02}", e.u.cpu_ms / 1000, e.u.cpu_ms % 1000 / 10));
    let mb = |kb: u64| kb.div_ceil(1024).to_string();
    out.push_str("Resource usage summary:\n\n");
    let _ = writeln!(out, "    CPU time      : {} sec.", text(cpu));
    let _ = writeln!(
        out,
        "    Max Memory    : {} MB",
        text(ended.map(|e| mb(e.u.maxmem_kb)))
    );
    let _ = writeln!(
        out,
        "    Max Swap      : {} MB",
        text(ended.map(|e| mb(e.u.maxswap_kb)))
    );
    let procs = ended.map(|e| e.u.procs.to_string());
    let _ = writeln!(out, "    Max Processes : {}", text(procs));
}

/// Exactly `width` bytes: padded with blanks or cut (the sentences are plain ASCII).
fn fit(text: &str, width: usize) -> String {
    let mut s: String = text.chars().filter(char::is_ascii).take(width).collect();
    while s.len() < width {
        s.push(' ');
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::report::Usage;

    fn target(overwrite: bool, empty: bool, shared: bool) -> OutputTarget {
        OutputTarget {
            regular: true,
            empty,
            overwrite,
            shared,
        }
    }

    #[test]
    fn shared_files_are_written_aside_and_own_ones_directly() {
        assert_eq!(mode(&target(true, true, false)), Mode::HeadFirst);
        assert_eq!(mode(&target(false, true, false)), Mode::HeadFirst);
        assert_eq!(mode(&target(false, false, false)), Mode::Aside);
        assert_eq!(mode(&target(true, true, true)), Mode::Aside);
        let null = OutputTarget {
            regular: false,
            empty: true,
            overwrite: false,
            shared: true,
        };
        assert_eq!(mode(&null), Mode::Plain);
    }

    #[test]
    fn the_text_keeps_its_length_when_the_end_is_filled_in() {
        let facts = ReportFacts {
            user: "ann".into(),
            ..ReportFacts::default()
        };
        let header = ReportHeader {
            name: "作业".into(),
            command: "x\ny".into(),
            ..ReportHeader::default()
        };
        let a = AttemptId {
            j: JobKey::element(7, 2),
            at: 1,
        };
        let mut r = JobReport {
            facts: &facts,
            header: &header,
            host: "h1",
            cwd: "/w",
            a,
            submitted: "s",
            started: "t",
            ended: None,
        };
        let before = render(&r);
        let u = Usage {
            cpu_ms: 12_345,
            maxmem_kb: 5000,
            ..Usage::default()
        };
        let ends = [
            Ended {
                code: Some(0),
                u,
                ..Ended::default()
            },
            Ended {
                sig: 9,
                core: true,
                reason: TermReason::MemLimit,
                ..Ended::default()
            },
            Ended::default(),
        ];
        for e in &ends {
            r.ended = Some((e, "Sat Nov 21 03:21:15 2026"));
            assert_eq!(render(&r).len(), before.len());
        }
        r.ended = Some((&ends[0], "x"));
        let text = render(&r);
        assert!(
            text.contains("Done") && text.contains("12.34 sec."),
            "{text}"
        );
        assert!(text.contains("Successfully completed."));
        // Where the output begins, also in a file to which others append.
        let j = a.j;
        let own = format!("{before}\nSubject: Job 7[2]: <x> printed by the job\n");
        assert_eq!(after_report(own.as_bytes(), j), Some(before.len()));
        let other = text.replace("Job 7[2]:", "Job 6:");
        let shared = format!("{other}first\n{text}second\n{other}third\n");
        let at = after_report(shared.as_bytes(), j).unwrap();
        assert!(shared[at..].starts_with("second\n"), "{}", &shared[at..]);
        assert_eq!(after_report(other.as_bytes(), j), None);
        assert_eq!(after_report(&before.as_bytes()[..200], j), None);
    }

    #[test]
    fn an_unknown_end_does_not_read_as_success() {
        let well = |e: &Ended, success: &str| {
            let header = ReportHeader {
                success: success.into(),
                ..ReportHeader::default()
            };
            is_success(&header, e)
        };
        assert!(!well(&Ended::default(), "all"));
        let e = Ended {
            code: Some(0),
            reason: TermReason::Owner,
            ..Ended::default()
        };
        assert!(!well(&e, "all"));
        let mut e = Ended {
            code: Some(7),
            ..Ended::default()
        };
        assert!(well(&e, "3-7") && !well(&e, "") && !well(&e, "3"));
        let sentence = result_sentence(&e, true);
        assert_eq!(sentence, "Successfully completed with exit code 7.");
        assert_eq!(result_sentence(&e, false), "Exited with exit code 7.");
        e.reason = TermReason::RunLimit;
        assert!(!well(&e, "7"));
    }

    #[test]
    fn spool_files_are_hidden_and_distinct() {
        let a = AttemptId {
            j: JobKey::element(7, 2),
            at: 1,
        };
        assert_eq!(spool_name("out.txt", a), ".out.txt.7.2.1");
    }
}
