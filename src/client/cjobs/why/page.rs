//! The page and the JSON of `cjobs --why`. Pure.

use super::ended::Cause;
use super::pending::{HelpEffect, HelpfulChange, JobsAhead, WaitingJob};
use super::subjects::JobSubject;
use super::text;
use crate::language::translated;
use crate::model::{JobStat, Orphans};
use crate::record::view::JobRow;
use crate::show::cell::Object;
use crate::show::{Dates, job};
use crate::text::count::count;
use crate::text::duration;
use crate::text::width::escape;
use std::fmt::Write as _;

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Text,
    /// LSF's JSON: one document.
    Records,
    /// A JSON object for each job.
    Lines,
}

/// What is known of a job.
pub(super) enum JobCase {
    Waiting(Box<WaitingJob>),
    /// The job has started; a sentence about it.
    Started(String),
    Ended(Box<Cause>, Vec<Output>),
}

/// The estimated start of a waiting job.
pub(super) struct Estimate {
    pub now: i64,
    /// Milliseconds since the epoch.
    pub start: Option<i64>,
    /// The time up to which the cluster was run forward without the job starting.
    pub simulated_until: Option<i64>,
    /// Why the job waits at that time.
    pub why: String,
    /// Number of unfinished jobs without a run limit.
    pub unlimited: u64,
}

/// The end of an output file, or why it cannot be shown.
pub(super) struct Output {
    pub path: String,
    pub lines: Result<Vec<String>, String>,
}

pub(super) struct Explained {
    pub subject: JobSubject,
    pub state: JobCase,
    pub estimate: Option<Estimate>,
}

macro_rules! add {
    ($out:expr, $($what:tt)*) => {
        writeln!($out, $($what)*).expect("a string takes every write")
    };
}

/// A line of the page, in the language of the process. Leading blanks are kept.
macro_rules! line {
    ($out:expr, $($what:tt)*) => {{
        let text = format!($($what)*);
        let words = text.trim_start();
        add!($out, "{}{}", &text[..text.len() - words.len()], translated(words));
    }};
}

/// The sentence for a job that has started and not ended.
pub(super) fn started(row: &JobRow<'_>, dates: &Dates) -> String {
    let hosts: Vec<&str> = row.hosts.iter().take(3).map(|share| &*share.0).collect();
    let on = hosts.join(" ");
    match (row.stat, &row.halt) {
        (JobStat::Ususp, _) => format!("stopped by a user on {on}: cresume continues it"),
        (_, Some(halt)) => format!("stopped by the system on {on}: {halt}"),
        (JobStat::Unkwn, _) => {
            format!("its host {on} does not respond: whether it still runs is unknown")
        }
        _ if row.usage.hook.is_some() => {
            let hook = job::running_hook(row, dates).unwrap_or_default();
            format!("it waits on {on}: {hook}")
        }
        _ if row.killing => format!("a kill was accepted and is on its way to {on}"),
        _ => format!("it runs on {on}"),
    }
}

/// The last lines of some bytes, with invalid UTF-8 replaced.
pub(super) fn last_lines(bytes: &[u8], most: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = text.lines().rev().take(most).map(str::to_owned).collect();
    lines.reverse();
    lines
}

pub(super) fn print(all: &[Explained], form: Form, dates: &Dates) -> String {
    let mut out = String::new();
    match form {
        Form::Text => {
            for (n, one) in all.iter().enumerate() {
                if n > 0 {
                    out.push('\n');
                }
                page(&mut out, one, dates);
            }
        }
        Form::Lines => {
            for one in all {
                object(&mut out, one);
                out.push('\n');
            }
        }
        Form::Records => {
            add!(
                out,
                "{{\n  \"COMMAND\":\"bjobs\",\n  \"JOBS\":{},",
                all.len()
            );
            out.push_str("  \"RECORDS\":[\n");
            for (n, one) in all.iter().enumerate() {
                out.push_str(if n > 0 { ",\n    " } else { "    " });
                object(&mut out, one);
            }
            out.push_str("\n  ]\n}\n");
        }
    }
    out
}

fn page(out: &mut String, one: &Explained, dates: &Dates) {
    let subject = &one.subject;
    let spec = &subject.spec;
    let head = format!(
        "Job <{}>, user <{}>, queue <{}>, {}",
        subject.label, spec.user, spec.queue, subject.row.stat
    );
    let say = match &one.state {
        JobCase::Waiting(waiting) => text::verdict(waiting),
        JobCase::Started(text) => text.clone(),
        JobCase::Ended(cause, _) => cause.text.clone(),
    };
    line!(out, "{}: {}", escape(&head), escape(&say));
    match &one.state {
        JobCase::Waiting(waiting) => {
            put_waiting(out, one, waiting);
            put_estimate(out, one, waiting, dates);
            put_helps(out, one, waiting);
        }
        JobCase::Started(_) => {}
        JobCase::Ended(cause, output) => put_ended(out, subject, cause, output),
    }
}

fn put_waiting(out: &mut String, one: &Explained, waiting: &WaitingJob) {
    let published = one.subject.why.as_ref();
    if let Some(why) = published.filter(|why| waiting.reason.as_ref() != Some(why)) {
        line!(out, " The leader says: {}", escape(&why.to_string()));
    }
    if let Some(hosts) = &waiting.hosts {
        let fit = hosts.hosts
            - hosts
                .excluded
                .iter()
                .map(|excluded| excluded.hosts)
                .sum::<u32>();
        line!(out, " Hosts: {} in the cluster", hosts.hosts);
        for excluded in &hosts.excluded {
            let names = excluded.first.join(" ");
            let more = match excluded.hosts as usize > excluded.first.len() {
                true => " ...",
                false => "",
            };
            let why = text::stage(excluded, &one.subject.spec, hosts);
            let why = translated(&why);
            add!(
                out,
                " {:>6}  {} ({names}{more})",
                excluded.hosts,
                escape(&why)
            );
        }
        if fit > 0 {
            line!(out, " {fit:>6}  fit");
        }
        if let Some(miss) = &hosts.nearest {
            line!(out, " Nearest: {}", escape(&text::nearest_miss_text(miss)));
        }
    }
    if let Some(policy) = waiting.orphans {
        line!(
            out,
            " Orphan policy: {}: {} (csub -orphan, orphans in cb.yaml)",
            policy.word(),
            text::orphans(policy)
        );
    }
    let ahead = text::jobs_ahead_text(&waiting.ahead);
    if !ahead.is_empty() {
        line!(out, " First: {ahead}");
    }
}

fn put_estimate(out: &mut String, one: &Explained, waiting: &WaitingJob, dates: &Dates) {
    if waiting.can_never_run {
        line!(out, " Start: never without a change");
        return;
    }
    let Some(estimate) = &one.estimate else {
        return;
    };
    let date = |ms: i64| {
        let mut text = String::new();
        dates.long(&mut text, ms);
        text
    };
    let in_ms = |at: i64| duration::short((at - estimate.now).max(0).unsigned_abs());
    let assumed = match estimate.unlimited {
        0 => "if jobs run until their run limits".to_owned(),
        n => format!(
            "if jobs run until their run limits, and {} without one for an hour",
            count(n, "job")
        ),
    };
    match (estimate.start, estimate.simulated_until) {
        (Some(at), _) if at <= estimate.now => line!(out, " Start: now, in the next pass"),
        (Some(at), _) => line!(out, " Start: {}, in {}, {assumed}", date(at), in_ms(at)),
        (None, Some(at)) => line!(
            out,
            " Start: later than {}, which is in {}; the estimate was ended there",
            date(at),
            in_ms(at)
        ),
        (None, None) => line!(
            out,
            " Start: never without a change: {}",
            escape(&estimate.why)
        ),
    }
}

fn put_helps(out: &mut String, one: &Explained, waiting: &WaitingJob) {
    if waiting.reason.is_none() {
        return;
    }
    if waiting.helpful_changes.is_empty() {
        let all = match waiting.out_of_time {
            true => "tried before time ran out",
            false => "tried on a copy of the cluster",
        };
        let n = count(waiting.tried as u64, "change");
        line!(out, " What helps: none of {n} that were {all}");
        return;
    }
    line!(out, " What helps, tried on a copy of the cluster:");
    for help in &waiting.helpful_changes {
        let command = help.candidate.command(one.subject.j.id);
        add!(out, "   {}", escape(&command));
        line!(out, "       {}", escape(&text::effect(help)));
    }
}

fn put_ended(out: &mut String, subject: &JobSubject, cause: &Cause, output: &[Output]) {
    let row = &subject.row;
    let hosts: Vec<&str> = row.hosts.iter().map(|share| &*share.0).collect();
    match hosts[..] {
        [] => line!(out, " It had no host"),
        [one] => line!(out, " Host: {one}"),
        [first, ..] => line!(
            out,
            " Hosts: {first}, which ran the command, and {} more",
            hosts.len() - 1
        ),
    }
    if !cause.limit.is_empty() {
        line!(out, " Limit: {}, used: {}", cause.limit, cause.usage);
    }
    for advice in &cause.advice {
        line!(out, " To do: {}", escape(advice));
    }
    for file in output {
        match &file.lines {
            Ok(lines) if lines.is_empty() => {
                line!(out, " {} is empty", escape(&file.path));
            }
            Ok(lines) => {
                line!(out, " The end of {}:", escape(&file.path));
                for line in lines {
                    add!(out, "   {}", escape(line));
                }
            }
            Err(why) => line!(out, " {}", escape(why.lines().next().unwrap_or_default())),
        }
    }
}

/// One JSON object.
fn object(out: &mut String, one: &Explained) {
    let subject = &one.subject;
    let mut o = Object::begin(out);
    o.text("job", &subject.label);
    o.int("count", subject.more + 1);
    o.text("user", &subject.spec.user);
    o.text("queue", &subject.spec.queue);
    o.text("stat", subject.row.stat.word());
    match &one.state {
        JobCase::Waiting(waiting) => waiting_members(&mut o, one, waiting),
        JobCase::Started(text) => o.text("verdict", text),
        JobCase::Ended(cause, output) => ended_members(&mut o, subject, cause, output),
    }
    o.end();
}

fn waiting_members(o: &mut Object<'_>, one: &Explained, waiting: &WaitingJob) {
    o.text("verdict", &text::verdict(waiting));
    o.opt("code", waiting.reason.as_ref().map(|why| why.code()));
    let reason = waiting.reason.as_ref().map(ToString::to_string);
    o.some_text("reason", &reason.unwrap_or_default());
    let published = one.subject.why.as_ref().map(ToString::to_string);
    o.some_text("published_reason", &published.unwrap_or_default());
    o.flag("never", waiting.can_never_run);
    if let Some(hosts) = &waiting.hosts {
        o.int("hosts", hosts.hosts);
        let stages: Vec<serde_json::Value> = hosts
            .excluded
            .iter()
            .map(|excluded| {
                serde_json::json!({
                    "stage": excluded.stage.word(),
                    "resource": excluded.resource,
                    "hosts": excluded.hosts,
                    "first": excluded.first,
                    "text": text::stage(excluded, &one.subject.spec, hosts),
                })
            })
            .collect();
        *o.key("lost") += &serde_json::Value::from(stages).to_string();
        if let Some(miss) = &hosts.nearest {
            let unmet: Vec<String> = miss.unmet.iter().map(text::unmet_need_text).collect();
            let nearest = serde_json::json!({"host": miss.host, "lacks": unmet});
            *o.key("nearest") += &nearest.to_string();
        }
    }
    o.some_text("orphan_policy", waiting.orphans.map_or("", Orphans::word));
    let JobsAhead {
        higher,
        same,
        by_order,
    } = waiting.ahead;
    o.int("ahead_in_queue", same);
    o.flag("ahead_is_exact", by_order);
    o.int("ahead_in_higher_queues", higher);
    if let Some(estimate) = &one.estimate {
        o.opt("estimated_start_ms", estimate.start);
        o.opt("not_before_ms", estimate.simulated_until);
        let never = estimate.start.is_none() && estimate.simulated_until.is_none();
        o.some_text("never_why", if never { &estimate.why } else { "" });
    }
    let helps: Vec<serde_json::Value> = waiting
        .helpful_changes
        .iter()
        .map(|help| help_value(one, help))
        .collect();
    *o.key("helps") += &serde_json::Value::from(helps).to_string();
    o.int("tried", waiting.tried as u64);
}

fn help_value(one: &Explained, help: &HelpfulChange) -> serde_json::Value {
    let hosts = match &help.effect {
        HelpEffect::Starts(hosts) => hosts.clone(),
        HelpEffect::Possible(_) => Vec::new(),
    };
    serde_json::json!({
        "command": help.candidate.command(one.subject.j.id),
        "text": text::effect(help),
        "starts_now": matches!(help.effect, HelpEffect::Starts(_)),
        "hosts": hosts,
        "for_administrators": help.candidate.is_for_admin(),
    })
}

fn ended_members(o: &mut Object<'_>, subject: &JobSubject, cause: &Cause, output: &[Output]) {
    let row = &subject.row;
    o.text("verdict", &cause.text);
    o.text("cause", cause.code);
    o.some_text("term_reason", row.reason.word());
    o.opt("exit_code", row.code);
    if row.sig > 0 {
        o.int("signal", row.sig);
    }
    o.some_text("limit", &cause.limit);
    o.some_text("used", &cause.usage);
    o.int("max_mem_kb", row.usage.maxmem_kb);
    o.texts("hosts", row.hosts.iter().map(|share| &*share.0));
    o.texts("advice", &cause.advice);
    let files: Vec<serde_json::Value> = output
        .iter()
        .map(|file| match &file.lines {
            Ok(lines) => serde_json::json!({"path": file.path, "lines": lines}),
            Err(why) => serde_json::json!({"path": file.path, "error": why}),
        })
        .collect();
    *o.key("output") += &serde_json::Value::from(files).to_string();
}
