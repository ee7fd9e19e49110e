//! The text of messages: for users in mails, for programs as JSON. Owns their wording, their ids
//! and their sizes; never decides whether a message is sent.

use crate::model::{JobKey, MailRequest, TermReason};
use crate::record::notices::{Alert, Delivery, MailQuota};
use crate::record::report::Ended;
use crate::text::width::escape;
use crate::text::{duration, size};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Maximum number of alerts that a message lists.
const LISTED_MAX: usize = 50;
/// Maximum length of a command in a message, in characters, and in its subject.
const COMMAND_MAX: usize = 500;
const SUBJECT_MAX: usize = 60;

fn iso(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| "-".to_owned(), |t| t.to_string())
}

fn put(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a string takes every write");
    out.push('\n');
}

/// A number without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn labels_text(alert: &Alert) -> String {
    let all = alert
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    match alert.labels.is_empty() {
        true => "the cluster".to_owned(),
        false => all.collect::<Vec<_>>().join(" "),
    }
}

/// The message for one receiver about what fires or recovers of a rule at one time.
pub(super) fn alert_message(
    cluster: &str,
    rule: &str,
    firing: bool,
    alerts: &[&Alert],
    receiver: &str,
    now: i64,
) -> Delivery {
    let status = if firing { "firing" } else { "resolved" };
    let severity = alerts.first().map_or("", |alert| alert.severity.as_str());
    let id = alert_id(cluster, rule, status, alerts);
    let first = alerts.first().map_or(String::new(), |a| labels_text(a));
    let more = match alerts.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let word = if firing {
        severity.to_uppercase()
    } else {
        "RESOLVED".to_owned()
    };
    let text = alert_text(cluster, (rule, status), alerts, &id);
    let listed: Vec<Value> = alerts
        .iter()
        .take(LISTED_MAX)
        .map(|a| alert_json(a, firing, now))
        .collect();
    let object = json!({
        "id": id,
        "kind": "alert",
        "cluster": cluster,
        "status": status,
        "rule": rule,
        "severity": severity,
        "alerts": listed,
        "more": alerts.len().saturating_sub(LISTED_MAX),
        "time": iso(now),
    });
    Delivery {
        subject: format!("[{word}] {rule}: {}{more} ({cluster})", escape(&first)),
        id,
        to: receiver.to_owned(),
        text,
        json: object.to_string(),
        made: now,
        next: now,
        ..Delivery::default()
    }
}

fn alert_text(cluster: &str, (rule, status): (&str, &str), alerts: &[&Alert], id: &str) -> String {
    let mut text = String::new();
    put(
        &mut text,
        format_args!("Alert {rule} of cluster {cluster}: {status}\n"),
    );
    for alert in alerts.iter().take(LISTED_MAX) {
        let value = number(alert.value);
        let labels = escape(&labels_text(alert)).into_owned();
        put(
            &mut text,
            format_args!("  {labels}: {} is {value}", alert.metric),
        );
        put(&mut text, format_args!("    since {}", iso(alert.since)));
    }
    if alerts.len() > LISTED_MAX {
        put(
            &mut text,
            format_args!("  and {} more", alerts.len() - LISTED_MAX),
        );
    }
    put(&mut text, format_args!("\nid: {id}"));
    put(
        &mut text,
        format_args!(
            "'cadmin alert list' shows all, 'cadmin alert silence {rule}' stops messages."
        ),
    );
    text
}

fn alert_json(alert: &Alert, firing: bool, now: i64) -> Value {
    let mut labels = serde_json::Map::new();
    for (key, value) in alert.extra.iter().chain(&alert.labels) {
        labels.insert(key.clone(), Value::String(value.clone()));
    }
    json!({
        "labels": labels,
        "metric": alert.metric,
        "value": alert.value,
        "since": iso(alert.since),
        "fired": iso(alert.fired),
        "resolved": if firing { Value::Null } else { Value::String(iso(now)) },
    })
}

/// An id that depends only on what happened, so that it is the same if the message is created
/// again.
fn alert_id(cluster: &str, rule: &str, status: &str, alerts: &[&Alert]) -> String {
    let mut what = format!("{cluster}\n{rule}\n{status}\n");
    for alert in alerts {
        put(
            &mut what,
            format_args!("{} {}", labels_text(alert), alert.fired),
        );
    }
    let hash = crate::model::sha256_hex(what.as_bytes());
    format!("{rule}-{status}-{}", &hash[..16])
}

/// What is known of a job for messages about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JobFacts {
    pub mail_request: MailRequest,
    pub user: String,
    pub queue: String,
    pub project: String,
    pub name: String,
    pub command: String,
    pub sub_host: String,
    pub cwd: String,
    /// `-o`, or empty.
    pub stdout: String,
    /// When it was submitted (ms since 1970).
    pub submit: i64,
    /// The hosts of its current attempt.
    pub hosts: String,
}

/// What happened to a job.
#[derive(Clone, Debug)]
pub(crate) enum JobNotice<'a> {
    Started {
        at: u32,
        t: i64,
    },
    Suspended {
        at: u32,
        t: i64,
    },
    Ended(&'a Ended),
    /// It was ended before it started.
    Cancelled {
        by: &'a str,
        t: i64,
    },
}

impl JobNotice<'_> {
    fn word(&self) -> &'static str {
        match self {
            JobNotice::Started { .. } => "start",
            JobNotice::Suspended { .. } => "suspend",
            JobNotice::Ended(e) if e.is_success() => "done",
            JobNotice::Ended(_) | JobNotice::Cancelled { .. } => "exit",
        }
    }

    /// Attempt and time.
    fn attempt_and_time(&self) -> (u32, i64) {
        match self {
            JobNotice::Started { at, t } | JobNotice::Suspended { at, t } => (*at, *t),
            JobNotice::Ended(e) => (e.a.at, e.t),
            JobNotice::Cancelled { t, .. } => (0, *t),
        }
    }
}

fn is_requested(requested: &MailRequest, notice: &JobNotice<'_>) -> bool {
    match notice.word() {
        "start" => requested.start,
        "suspend" => requested.suspend,
        "done" => requested.done,
        _ => requested.exit,
    }
}

/// The message that a job requested, without its receiver; `None`: it did not request this one.
pub(crate) fn job_message(
    cluster: &str,
    j: JobKey,
    job: &JobFacts,
    notice: &JobNotice<'_>,
    (now, zone): (i64, &TimeZone),
) -> Option<Delivery> {
    if !is_requested(&job.mail_request, notice) {
        return None;
    }
    let word = notice.word();
    let (at, t) = notice.attempt_and_time();
    let begun = match notice {
        JobNotice::Suspended { .. } => format!(".{t}"),
        _ => String::new(),
    };
    let id = format!("{cluster}.{j}.{at}.{word}{begun}");
    let name = if job.name.is_empty() {
        &job.command
    } else {
        &job.name
    };
    let title = match word {
        "start" => "started",
        "suspend" => "suspended",
        "done" => "done",
        _ => "exited",
    };
    let subject = format!(
        "Job {j}: <{}> {title} in cluster {cluster}",
        short(name, SUBJECT_MAX)
    );
    let text = job_text(cluster, j, job, notice, zone);
    let mut object = json!({
        "id": id,
        "kind": "job",
        "cluster": cluster,
        "event": word,
        "job": j.to_string(),
        "name": name,
        "user": job.user,
        "queue": job.queue,
        "project": job.project,
        "hosts": job.hosts,
        "to": job.mail_request.to,
        "time": iso(t),
    });
    if let JobNotice::Ended(e) = notice {
        object["exit_code"] = json!(e.code);
        object["signal"] = json!(e.sig);
        if e.reason != TermReason::None {
            object["term_reason"] = json!(e.reason.word());
        }
        object["cpu_ms"] = json!(e.u.cpu_ms);
        object["max_memory_kb"] = json!(e.u.maxmem_kb);
    }
    Some(Delivery {
        id,
        subject,
        text,
        json: object.to_string(),
        made: now,
        next: now,
        ..Delivery::default()
    })
}

/// Copies of a message for each address or user that the job names, or for its owner.
pub(crate) fn copies(delivery: &Delivery, job: &JobFacts) -> Vec<Delivery> {
    let named = job
        .mail_request
        .to
        .split([' ', ','])
        .filter(|to| !to.is_empty());
    let mut all: Vec<&str> = named.collect();
    if all.is_empty() {
        all.push(&job.user);
    }
    let one = |to: &str| {
        let (to, user) = match to.contains('@') {
            true => (to.to_owned(), String::new()),
            false => (String::new(), to.to_owned()),
        };
        Delivery {
            to,
            user,
            ..delivery.clone()
        }
    };
    all.into_iter().map(one).collect()
}

/// The first line of a text, cut to `most` characters.
fn short(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(most).collect();
    let more = cut.len() < text.len();
    let cut = escape(&cut).into_owned();
    if more { format!("{cut}...") } else { cut }
}

fn job_text(
    cluster: &str,
    j: JobKey,
    job: &JobFacts,
    notice: &JobNotice<'_>,
    zone: &TimeZone,
) -> String {
    let date = |ms: i64| duration::date_long(ms, zone);
    let mut out = String::new();
    let line = |out: &mut String, title: &str, value: &str| {
        if !value.is_empty() {
            put(out, format_args!("{title:<14} {}", escape(value)));
        }
    };
    put(&mut out, format_args!("{}\n", sentence(j, notice, &date)));
    line(&mut out, "Job:", &j.to_string());
    line(&mut out, "Name:", &job.name);
    line(&mut out, "Command:", &short(&job.command, COMMAND_MAX));
    line(&mut out, "User:", &job.user);
    line(&mut out, "Queue:", &job.queue);
    line(&mut out, "Project:", &job.project);
    line(&mut out, "Cluster:", cluster);
    line(&mut out, "Hosts:", &job.hosts);
    line(&mut out, "Directory:", &job.cwd);
    line(
        &mut out,
        "Submitted:",
        &format!("{} from {}", date(job.submit), job.sub_host),
    );
    if let JobNotice::Ended(e) = notice {
        if e.start > 0 {
            line(&mut out, "Started:", &date(e.start));
        }
        line(&mut out, "Ended:", &date(e.t));
        put(&mut out, format_args!("\nResources used:"));
        put_usage(&mut out, job, e);
    }
    if !matches!(notice, JobNotice::Cancelled { .. }) {
        match job.stdout.as_str() {
            "" => put(&mut out, format_args!("\n'cpeek {j}' prints its output.")),
            path => put(
                &mut out,
                format_args!("\nIts output is in {}.", escape(path)),
            ),
        }
    }
    out
}

fn sentence(j: JobKey, notice: &JobNotice<'_>, date: &dyn Fn(i64) -> String) -> String {
    match notice {
        JobNotice::Started { t, .. } => format!("Job {j} started at {}.", date(*t)),
        JobNotice::Suspended { t, .. } => format!("Job {j} was suspended at {}.", date(*t)),
        JobNotice::Cancelled { by, t } => {
            format!(
                "Job {j} was ended by {} at {} before it started.",
                escape(by),
                date(*t)
            )
        }
        JobNotice::Ended(e) if e.is_success() => format!("Job {j} is done."),
        JobNotice::Ended(e) => {
            let how = match (e.code, e.sig) {
                (_, sig) if sig > 0 => format!("was ended by signal {sig}"),
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, _) => "ended in an unknown way".to_owned(),
            };
            let why = match e.reason {
                TermReason::None => String::new(),
                reason => format!(" ({}: {})", reason.word(), reason.sentence()),
            };
            let oom = if e.oom && !e.reason.is_memory() {
                "; it was out of memory"
            } else {
                ""
            };
            let text = match e.text.as_str() {
                "" => String::new(),
                text => format!("\n{}", escape(text)),
            };
            format!("Job {j} {how}{why}{oom}.{text}")
        }
    }
}

fn put_usage(out: &mut String, job: &JobFacts, e: &Ended) {
    let kb = |kb: u64| size::human(kb.saturating_mul(1024));
    let ms = |from: i64, to: i64| u64::try_from(to.saturating_sub(from)).unwrap_or(0);
    put(
        out,
        format_args!("  CPU time:      {:.2} s", e.u.cpu_ms as f64 / 1e3),
    );
    put(out, format_args!("  Max memory:    {}", kb(e.u.maxmem_kb)));
    if e.u.maxswap_kb > 0 {
        put(out, format_args!("  Max swap:      {}", kb(e.u.maxswap_kb)));
    }
    let used = e.u.devices();
    if used.max_gpu_mem_mb > 0 {
        let most = kb(used.max_gpu_mem_mb.saturating_mul(1024));
        put(out, format_args!("  Max GPU memory: {most}"));
    }
    if e.start > 0 {
        let run = duration::short(ms(e.start, e.t));
        put(out, format_args!("  Run time:      {run}"));
    }
    let all = duration::short(ms(job.submit, e.t));
    put(out, format_args!("  Since submission: {all}"));
}

/// One mail with everything that was held back for an address.
pub(crate) fn held_mail(cluster: &str, address: &str, quota: &MailQuota, now: i64) -> Delivery {
    let (n, listed) = (quota.held_n, quota.held.len() as u64);
    let mut text = format!(
        "{n} messages about jobs were held back in the hour before, because the limit of mails an \
         hour was reached:\n\n"
    );
    quota
        .held
        .iter()
        .for_each(|line| put(&mut text, format_args!("  {line}")));
    if n > listed {
        put(&mut text, format_args!("  and {} more", n - listed));
    }
    let (to, user) = match address.contains('@') {
        true => (address.to_owned(), String::new()),
        false => (String::new(), address.to_owned()),
    };
    Delivery {
        id: format!("{cluster}.held.{address}.{}", quota.began),
        to,
        user,
        subject: format!("{n} messages about jobs in cluster {cluster}"),
        text,
        made: now,
        next: now,
        ..Delivery::default()
    }
}
