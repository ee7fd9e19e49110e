//! A finding of a check, and how it is printed.

use crate::client::exit::Exit;
use crate::language::translated;
use crate::text::count::count;
use crate::text::width::{escape, pad_right};
use serde::Serialize;
use std::fmt::Write as _;

/// Exit code for "unknown".
pub(super) const UNKNOWN: i32 = 3;

const DEFECT: &str = "a defect of Corral: please report it, with the bundle of 'cadmin diag'";

/// The severity; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// A promise does not hold, or will not after the next fault.
    Broken,
    /// Could not be checked.
    Unknown,
    /// Needs attention; nothing is broken.
    Warning,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub level: Severity,
    /// What was checked: share, config, journal, state, view, answers, orders, hosts, leader.
    pub area: &'static str,
    /// File, host or job.
    pub place: String,
    /// What is wrong, and why it matters.
    pub what: String,
    /// What to do.
    #[serde(rename = "do")]
    pub todo: String,
    /// Identifies the fault: the same in every pass.
    #[serde(skip)]
    pub key: String,
}

impl Finding {
    pub(crate) fn new(
        level: Severity,
        area: &'static str,
        place: impl ToString,
        what: impl Into<String>,
        todo: impl Into<String>,
    ) -> Finding {
        let (place, what) = (place.to_string(), what.into());
        Finding {
            level,
            area,
            key: format!("{area} {place} {what}"),
            place,
            what,
            todo: todo.into(),
        }
    }

    pub(crate) fn broken(
        area: &'static str,
        place: impl ToString,
        what: impl Into<String>,
        todo: impl Into<String>,
    ) -> Finding {
        Finding::new(Severity::Broken, area, place, what, todo)
    }

    /// A finding that no fault of a disk, a host or a user explains.
    pub(crate) fn defect(
        area: &'static str,
        place: impl ToString,
        what: impl Into<String>,
    ) -> Finding {
        Finding::broken(area, place, what, DEFECT)
    }

    pub(crate) fn warning(
        area: &'static str,
        place: impl ToString,
        what: impl Into<String>,
        todo: impl Into<String>,
    ) -> Finding {
        Finding::new(Severity::Warning, area, place, what, todo)
    }

    /// A finding for something that could not be read: neither broken nor sound.
    pub(crate) fn unknown(
        area: &'static str,
        place: impl ToString,
        what: impl Into<String>,
    ) -> Finding {
        let todo = "run it as root or as the account that owns the share";
        Finding::new(Severity::Unknown, area, place, what, todo)
    }

    /// A finding for a failed read: unknown if permission is missing, else broken.
    pub(crate) fn unreadable(area: &'static str, e: &crate::sys::Error) -> Finding {
        let place = e.path.display();
        match e.kind() {
            std::io::ErrorKind::PermissionDenied => Finding::unknown(area, place, e.to_string()),
            _ => Finding::broken(
                area,
                place,
                e.to_string(),
                "check the file system of the share and its server",
            ),
        }
    }
}

/// The number of checked items, for the last line.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckedCounts {
    pub epochs: u64,
    pub events: u64,
    pub jobs: usize,
    pub hosts: usize,
    pub rows: usize,
}

/// The outcome of all checks.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub findings: Vec<Finding>,
    pub counts: CheckedCounts,
}

impl Report {
    fn count(&self, level: Severity) -> usize {
        self.findings.iter().filter(|f| f.level == level).count()
    }

    /// The exit code.
    pub(crate) fn code(&self) -> i32 {
        match (self.count(Severity::Broken), self.count(Severity::Unknown)) {
            (0, 0) => Exit::Ok.code(),
            (0, _) => UNKNOWN,
            _ => Exit::NotFound.code(),
        }
    }
}

/// Two lines for each finding, and one about all.
pub(super) fn text(report: &Report, quiet: bool, most: usize) -> String {
    let mut out = String::new();
    let put = |out: &mut String, args: std::fmt::Arguments<'_>| {
        out.write_fmt(args).expect("a string takes every write");
    };
    let is_shown = |f: &&Finding| !quiet || f.level != Severity::Warning;
    let all: Vec<&Finding> = report.findings.iter().filter(is_shown).collect();
    for f in all.iter().take(most) {
        let word = match f.level {
            Severity::Broken => "BROKEN",
            Severity::Unknown => "UNKNOWN",
            Severity::Warning => "warning",
        };
        let word = pad_right(&translated(word), 7);
        let (area, place) = (translated(f.area), place(&f.place));
        let (place, what) = (escape(&place), lines(&translated(&f.what)));
        put(&mut out, format_args!("{word} {area}: {place}: {what}\n"));
        if !f.todo.is_empty() {
            let (label, todo) = (translated("do:"), translated(&f.todo));
            put(&mut out, format_args!("        {label} {}\n", lines(&todo)));
        }
    }
    if all.len() > most {
        put(
            &mut out,
            format_args!(
                "{}\n",
                translated(&format!("... and {} more", all.len() - most))
            ),
        );
    }
    if !quiet {
        put(
            &mut out,
            format_args!(
                "{} ",
                translated(&format!("Checked {}.", checked(&report.counts)))
            ),
        );
    }
    let verdict = format!("{}.", verdict(report));
    put(&mut out, format_args!("{}\n", translated(&verdict)));
    out
}

/// A place such as `host h1`: its word is translated, the name is not.
fn place(text: &str) -> String {
    match text.split_once(' ') {
        Some((word, name)) if !name.contains(' ') => format!("{} {name}", translated(word)),
        _ => translated(text).into_owned(),
    }
}

/// A text of several lines, indented after the first. Other control characters are escaped.
fn lines(text: &str) -> String {
    let all: Vec<_> = text.trim_end().lines().map(escape).collect();
    all.join("\n        ")
}

/// The number of checked items; kinds without any are left out.
fn checked(counts: &CheckedCounts) -> String {
    let all = [
        (counts.epochs, "epoch"),
        (counts.events, "event"),
        (counts.jobs as u64, "job"),
        (counts.rows as u64, "view row"),
        (counts.hosts as u64, "host"),
    ];
    let present = all.into_iter().filter(|(n, _)| *n > 0);
    let texts: Vec<String> = present.map(|(n, unit)| count(n, unit)).collect();
    if texts.is_empty() {
        "an empty share".to_owned()
    } else {
        texts.join(", ")
    }
}

fn verdict(report: &Report) -> String {
    let (broken, unknown) = (
        report.count(Severity::Broken),
        report.count(Severity::Unknown),
    );
    let mut text = match (broken, unknown) {
        (0, 0) => "No problems found".to_owned(),
        (0, n) => format!("Incomplete: {} failed", count(n, "check")),
        (n, 0) => format!("{} found", count(n, "problem")),
        (n, m) => format!(
            "{} found, {} failed",
            count(n, "problem"),
            count(m, "check")
        ),
    };
    match report.count(Severity::Warning) {
        0 => {}
        n => text.push_str(&format!("; {}", count(n, "warning"))),
    }
    text
}

/// The report as one JSON object.
pub(super) fn json(report: &Report) -> String {
    let n = &report.counts;
    let value = serde_json::json!({
        "ok": report.code() == 0,
        "code": report.code(),
        "broken": report.count(Severity::Broken),
        "unknown": report.count(Severity::Unknown),
        "warnings": report.count(Severity::Warning),
        "checked": {
            "epochs": n.epochs, "events": n.events, "jobs": n.jobs, "rows": n.rows,
            "hosts": n.hosts,
        },
        "findings": report.findings,
    });
    format!("{value}\n")
}
