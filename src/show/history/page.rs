//! The output of `chist`: the summary table, the long page, JSON Lines.

use super::{COLUMNS, ElementHistory, TimeInStates};
use crate::language::translated;
use crate::model::TermReason;
use crate::record::report::Ended;
use crate::show::cell::{self, Cut, Object};
use crate::show::dates::Dates;
use crate::show::job::put_key;
use crate::show::wrap;
use std::fmt::Write as _;

/// Header of the summary.
pub(crate) const HEADER: &str = "Summary of time in seconds spent in various states:\n\
JOBID   USER    JOB_NAME  PEND    PSUSP   RUN     USUSP   SSUSP   UNKWN   TOTAL\n";

macro_rules! add {
    ($out:expr, $($what:tt)*) => {
        write!($out, $($what)*).expect("a string takes every write")
    };
}

/// E.g. `TERM_OWNER: killed by its owner`.
pub(crate) fn reason_words(reason: TermReason) -> String {
    match reason {
        TermReason::None => "it ended by itself".to_owned(),
        reason => format!("{reason}: {}", reason.sentence()),
    }
}

/// The sentence about the end of an attempt.
pub(crate) fn ending(e: &Ended, requeue: bool, hold: bool) -> String {
    let not_started = e.reason == TermReason::StartFailed;
    let mut s = match (e.code, e.sig) {
        _ if not_started && e.text.is_empty() => "Not started".to_owned(),
        _ if not_started => format!("Not started: {}", e.text),
        (Some(0), _) if e.is_success() => "Done successfully.".to_owned(),
        (Some(code), _) if e.is_success() => format!("Done successfully with exit code {code}."),
        (Some(code), _) => format!("Exited with exit code {code}."),
        (None, 0) if e.start == 0 => "Exited before it started.".to_owned(),
        (None, 0) => "Exited; how it ended is unknown.".to_owned(),
        (None, sig) => format!("Exited by signal {sig}."),
    };
    if e.core {
        s.push_str(" It left a core dump.");
    }
    if e.start > 0 && !not_started {
        s.push_str(" The CPU time used is ");
        cell::fraction(&mut s, e.u.cpu_ms, 1);
        s.push_str(" seconds");
    }
    if e.reason != TermReason::None && !not_started {
        add!(s, "; {}", reason_words(e.reason));
    }
    let said = e.reason.is_memory() && !e.text.is_empty();
    if e.oom && e.reason != TermReason::Oom && !said {
        s.push_str("; one of its processes was killed by the out-of-memory killer");
    }
    if !e.text.is_empty() && !not_started {
        add!(s, "; {}", e.text);
    }
    if requeue {
        s.push_str(if hold {
            "; requeued and held"
        } else {
            "; requeued"
        });
    }
    s
}

/// Job name with its index.
fn name(e: &ElementHistory<'_>) -> String {
    match e.key.idx {
        0 => e.submission.name.clone(),
        idx => format!("{}[{idx}]", e.submission.name),
    }
}

/// Appends the row of one job to the summary.
pub(crate) fn put_row(out: &mut String, e: &ElementHistory<'_>, now: i64, wide: bool) {
    let mut put = |columns: usize, cut: Cut, text: &dyn Fn(&mut String)| {
        let from = out.len();
        text(out);
        let cut = if wide { Cut::Never } else { cut };
        let limit = (cut != Cut::Never).then_some(columns);
        let used = cell::escape_and_cut(out, from, limit, cut);
        cell::blanks(out, columns.saturating_sub(used) + 1);
    };
    put(7, Cut::Never, &|out| put_key(out, e.key));
    put(7, Cut::Head, &|out| out.push_str(e.user()));
    put(9, Cut::Tail, &|out| out.push_str(&name(e)));
    let spent = e.time_in_states(now);
    for ms in spent {
        put(7, Cut::Never, &|out| cell::int(out, ms / 1000));
    }
    cell::int(out, total(&spent));
    out.push('\n');
}

fn total(spent: &TimeInStates) -> u64 {
    // The sum of the displayed columns, so that the row adds up.
    spent.iter().map(|ms| ms / 1000).sum()
}

/// Appends the long page of one job.
pub(crate) fn put_long(out: &mut String, e: &ElementHistory<'_>, now: i64, dates: &Dates) {
    out.push('\n');
    wrap::item(out, &head(e), false);
    if e.submission.submit > 0 {
        let mut line = String::new();
        dates.long(&mut line, e.submission.submit);
        submitted(&mut line, e);
        wrap::item(out, &line, false);
    }
    for (t, text) in e.lines() {
        let mut line = String::new();
        dates.long(&mut line, *t);
        add!(line, ": {};", translated(text));
        wrap::item(out, &line, false);
    }
    out.push_str("\nSummary of time in seconds spent in various states by  ");
    dates.long(out, now);
    out.push_str("\n  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL\n  ");
    let spent = e.time_in_states(now);
    for ms in spent {
        add!(out, "{:<9}", ms / 1000);
    }
    add!(out, "{}\n", total(&spent));
}

fn head(e: &ElementHistory<'_>) -> String {
    let mut s = String::from("Job <");
    put_key(&mut s, e.key);
    add!(s, ">, Job Name <{}>, User <{}>", name(e), e.user());
    if let Some(spec) = e.submission.spec.as_ref().filter(|s| !s.project.is_empty()) {
        add!(s, ", Project <{}>", spec.project);
    }
    if let Some(spec) = e.submission.spec.as_ref().filter(|s| !s.app.is_empty()) {
        add!(s, ", Application <{}>", spec.app);
    }
    if let Some(spec) = e
        .submission
        .spec
        .as_ref()
        .filter(|s| !s.job_group.is_empty())
    {
        add!(s, ", Job Group <{}>", spec.job_group);
    }
    add!(s, ", Command <{}>", e.submission.command);
    s
}

fn submitted(s: &mut String, e: &ElementHistory<'_>) {
    let Some(spec) = &e.submission.spec else {
        add!(s, ": {};", translated("Submitted"));
        return;
    };
    let (host, queue) = (&spec.sub_host, &spec.queue);
    let text = format!("Submitted from host <{host}>, to Queue <{queue}>");
    add!(s, ": {}, CWD <{}>", translated(&text), spec.cwd);
    for (title, text) in [
        ("Input File", &spec.stdin),
        ("Output File", &spec.stdout),
        ("Error File", &spec.stderr),
        ("Dependency Condition", &spec.depend),
        ("Requested Resources", &spec.res_req),
        ("Specified Hosts", &spec.hosts),
    ] {
        if !text.is_empty() {
            add!(s, ", {title} <{text}>");
        }
    }
    if spec.min > 1 {
        add!(s, ", {} Slot(s) Requested", spec.min);
    }
    s.push(';');
}

/// The lines of one job for the chronological form: time, job, event.
pub(crate) fn events(e: &ElementHistory<'_>) -> Vec<(i64, String)> {
    let mut key = String::new();
    put_key(&mut key, e.key);
    let line = |text: &str| format!("{};", translated(&format!("Job <{key}> {text}")));
    let submitted = (e.submission.submit, line("Submitted"));
    let first = (e.submission.submit > 0).then_some(submitted);
    let others = e.lines().map(|(t, text)| (*t, line(text)));
    first.into_iter().chain(others).collect()
}

/// Appends the JSON line of one job: times in seconds by state, events with `detail`.
pub(crate) fn put_json(out: &mut String, e: &ElementHistory<'_>, now: i64, detail: bool) {
    let mut o = Object::begin(out);
    o.int("id", e.key.id);
    o.int("index", e.key.idx);
    let text = o.key("jobid");
    text.push('"');
    put_key(text, e.key);
    text.push('"');
    o.text("stat", e.stat().word());
    o.text("name", &e.submission.name);
    o.text("command", &e.submission.command);
    let spec = e.submission.spec.as_deref();
    o.some_text("user", spec.map_or("", |s| &s.user));
    o.opt("uid", spec.map(|s| s.uid));
    o.some_text("queue", spec.map_or("", |s| &s.queue));
    o.some_text("project", spec.map_or("", |s| &s.project));
    o.some_text("app", spec.map_or("", |s| &s.app));
    o.some_text("job_group", spec.map_or("", |s| &s.job_group));
    let moment = |ms: i64| (ms > 0).then_some(ms);
    o.opt("submit_ms", moment(e.submission.submit));
    o.opt("dispatch_ms", moment(e.history.dispatch));
    let end = e.history.end.as_ref().filter(|_| e.stat().is_finished());
    o.opt("start_ms", end.and_then(|end| moment(end.start)));
    o.opt("end_ms", end.map(|end| end.t));
    o.opt("exit_code", end.and_then(|end| end.code));
    o.opt(
        "signal",
        end.and_then(|end| (end.sig != 0).then_some(end.sig)),
    );
    o.some_text("term_reason", end.map_or("", |end| end.reason.word()));
    cell::list(o.key("exec_hosts"), &e.history.hosts, |out, host| {
        let mut h = Object::begin(out);
        h.text("host", &host.0);
        h.int("slots", host.1);
        h.end();
    });
    let mut inner = Object::begin(o.key("seconds"));
    for (stat, ms) in COLUMNS.iter().zip(e.time_in_states(now)) {
        inner.int(stat.word(), ms / 1000);
    }
    inner.end();
    if detail {
        cell::list(o.key("events"), e.lines(), |out, (t, text)| {
            let mut event = Object::begin(out);
            event.int("t_ms", *t);
            event.text("text", text);
            event.end();
        });
    }
    o.end();
    out.push('\n');
}
