//! Prints accounting: records as lines, pages, CSV and JSON, and totals in the form that LSF users
//! know.
//!
//! Text from users is escaped before it reaches a terminal. Never reads a file.

use super::cost::Rates;
use super::totals::{ByName, Distribution, Totals};
use crate::model::{JobKey, Money};
use crate::record::acct::AttemptRecord;
use crate::show::Dates;
use crate::show::cell::{self, Object};
use crate::text::width::{escape, pad_right, width};
use std::fmt::Write as _;

/// Columns of the lines of `-b` and `-w`, with their widths.
const COLUMNS: &[(&str, usize)] = &[
    ("JOBID", 12),
    ("USER", 10),
    ("QUEUE", 10),
    ("STAT", 5),
    ("EXIT", 5),
    ("SLOTS", 6),
    ("CPU_S", 10),
    ("WAIT_S", 8),
    ("RUN_S", 8),
    ("END_TIME", 13),
    ("HOSTS", 0),
];
/// Columns of `--csv`.
const CSV: &[&str] = &[
    "jobid",
    "index",
    "attempt",
    "mark",
    "user",
    "group",
    "project",
    "queue",
    "name",
    "stat",
    "requeued",
    "exit_code",
    "signal",
    "term_reason",
    "submit_ms",
    "dispatch_ms",
    "start_ms",
    "end_ms",
    "slots",
    "hosts",
    "run_ms",
    "susp_ms",
    "cpu_ms",
    "maxmem_kb",
    "maxswap_kb",
    "gpus",
    "mem_limit_b",
    "run_limit_s",
    "res_req",
    "command",
    "cost",
    "app",
    "max_gpu_mem_mb",
    "gpu_ms",
];

/// The cost of an attempt, in millionths, and the currency.
pub(super) type Cost<'c> = Option<(u128, &'c str)>;

fn stat(record: &AttemptRecord<'_>) -> &'static str {
    match record.is_done() {
        true => "DONE",
        false => "EXIT",
    }
}

/// The exit code, or the signal with a sign; `-` if neither is known.
pub(super) fn exit(record: &AttemptRecord<'_>) -> String {
    match (record.code, record.sig) {
        (_, sig) if sig != 0 => format!("s{sig}"),
        (Some(code), _) => code.to_string(),
        (None, _) => "-".to_owned(),
    }
}

pub(super) fn hosts(record: &AttemptRecord<'_>) -> String {
    let hosts = record.hosts.iter().map(|host| match host.1 {
        1 => host.0.to_string(),
        n => format!("{n}*{}", host.0),
    });
    hosts.collect::<Vec<_>>().join(" ")
}

/// The first line of `-b` and `-w`.
pub(super) fn head(out: &mut String) {
    for (title, columns) in COLUMNS {
        let columns = title.len().max(*columns);
        out.push_str(&pad_right(title, columns));
        out.push(' ');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
}

/// One line for a record; `wide`: nothing is cut.
pub(super) fn row(out: &mut String, record: &AttemptRecord<'_>, wide: bool, dates: &Dates) {
    let mut end = String::new();
    dates.short(&mut end, record.end);
    let seconds = |ms: u64| (ms / 1000).to_string();
    let mut cpu = String::new();
    cell::fraction(&mut cpu, record.cpu_ms, 1);
    let cells = [
        record.j.to_string(),
        escape(&record.user).into_owned(),
        escape(&record.queue).into_owned(),
        stat(record).to_owned(),
        exit(record),
        record.slots().to_string(),
        cpu,
        record.wait_ms().map_or("-".to_owned(), seconds),
        seconds(record.run_ms()),
        end,
        escape(&hosts(record)).into_owned(),
    ];
    for (text, (_, columns)) in cells.iter().zip(COLUMNS) {
        let whole = *columns == 0 || wide && width(text) >= *columns;
        match whole {
            true => out.push_str(text),
            false => out.push_str(&pad_right(text, *columns)),
        }
        out.push(' ');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
}

/// A JSON object on one line.
pub(crate) fn json(out: &mut String, record: &AttemptRecord<'_>, cost: Cost<'_>) {
    let JobKey { id, idx } = record.j;
    let mut o = Object::begin(out);
    o.int("id", id);
    o.int("index", idx);
    o.int("attempt", record.at);
    o.int("mark", record.mark);
    o.text("stat", stat(record));
    o.flag("requeued", record.requeued);
    o.text("user", &record.user);
    o.int("uid", record.uid);
    o.some_text("group", &record.group);
    o.some_text("project", &record.project);
    o.some_text("app", &record.app);
    o.text("queue", &record.queue);
    o.some_text("name", &record.name);
    o.text("command", &record.command);
    let moment = |ms: i64| (ms > 0).then_some(ms);
    o.opt("submit_ms", moment(record.submit));
    o.opt("dispatch_ms", moment(record.dispatch));
    o.opt("start_ms", moment(record.start));
    o.opt("end_ms", moment(record.end));
    o.opt("exit_code", record.code);
    o.opt("signal", (record.sig != 0).then_some(record.sig));
    o.some_text("term_reason", record.reason.word());
    o.int("slots", record.slots());
    cell::list(o.key("exec_hosts"), &record.hosts, |out, host| {
        let mut h = Object::begin(out);
        h.text("host", &host.0);
        h.int("slots", host.1);
        h.end();
    });
    cell::list(o.key("units"), &record.units, |out, units| {
        let mut u = Object::begin(out);
        u.text("host", &units.host);
        u.text("resource", &units.res);
        u.texts("names", &units.names);
        u.int(
            "thousandths",
            if units.part == 0 { 1000 } else { units.part },
        );
        u.end();
    });
    o.int("run_ms", record.run_ms());
    o.int("suspended_ms", record.susp_ms);
    o.int("cpu_ms", record.cpu_ms);
    o.int("max_mem_kb", record.maxmem_kb);
    o.int("max_swap_kb", record.maxswap_kb);
    o.int("max_gpu_mem_mb", record.max_gpu_mem_mb);
    o.int("gpu_ms", record.gpu_ms);
    o.opt("mem_limit_bytes", record.mem_b);
    o.opt("run_limit_s", record.run_s);
    o.some_text("res_req", &record.res_req);
    if let Some((cost, currency)) = cost {
        let _ = write!(o.key("cost"), "{}", Money(cost));
        o.some_text("currency", currency);
    }
    o.end();
}

/// The first line of `--csv`.
pub(super) fn csv_head(out: &mut String) {
    out.push_str(&CSV.join(","));
    out.push('\n');
}

/// A line of `--csv`.
pub(super) fn csv(out: &mut String, record: &AttemptRecord<'_>, cost: Cost<'_>) {
    let or_none = |n: Option<String>| n.unwrap_or_default();
    let mut gpus = String::new();
    cell::fraction(&mut gpus, record.unit_parts("gpu"), 3);
    let cells = [
        record.j.id.to_string(),
        record.j.idx.to_string(),
        record.at.to_string(),
        record.mark.to_string(),
        record.user.to_string(),
        record.group.to_string(),
        record.project.to_string(),
        record.queue.to_string(),
        record.name.to_string(),
        stat(record).to_owned(),
        u8::from(record.requeued).to_string(),
        or_none(record.code.map(|n| n.to_string())),
        record.sig.to_string(),
        record.reason.word().to_owned(),
        record.submit.to_string(),
        record.dispatch.to_string(),
        record.start.to_string(),
        record.end.to_string(),
        record.slots().to_string(),
        hosts(record),
        record.run_ms().to_string(),
        record.susp_ms.to_string(),
        record.cpu_ms.to_string(),
        record.maxmem_kb.to_string(),
        record.maxswap_kb.to_string(),
        gpus,
        or_none(record.mem_b.map(|n| n.to_string())),
        or_none(record.run_s.map(|n| n.to_string())),
        record.res_req.to_string(),
        record.command.to_string(),
        or_none(cost.map(|(cost, _)| Money(cost).to_string())),
        record.app.to_string(),
        record.max_gpu_mem_mb.to_string(),
        record.gpu_ms.to_string(),
    ];
    for (n, text) in cells.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        match text.contains(['"', ',', '\n', '\r']) {
            true => {
                let _ = write!(out, "\"{}\"", text.replace('"', "\"\""));
            }
            false => out.push_str(text),
        }
    }
    out.push('\n');
}

/// Milliseconds as seconds with one digit.
#[allow(clippy::cast_precision_loss)] // for people
fn secs(ms: u128) -> String {
    format!("{:.1}", ms as f64 / 1000.0)
}

/// Thousandths of hours (slots times ms, over 3,600).
#[allow(clippy::cast_precision_loss)] // for people
pub(super) fn hours(ms: u128) -> String {
    format!("{:.2}", ms as f64 / 3_600_000.0)
}

fn two_columns(out: &mut String, (left, a): (&str, String), (right, b): (&str, String)) {
    let _ = writeln!(out, " {left:<34}{a:>12}   {right:<34}{b:>12}");
}

fn three(out: &mut String, what: &str, spread: &Distribution) {
    let average = format!("Average {what}:");
    two_columns(
        out,
        (&average, secs(spread.mean().into())),
        ("Median:", secs(spread.percentile(50).into())),
    );
    two_columns(
        out,
        ("Maximum:", secs(spread.max().into())),
        ("Minimum:", secs(spread.least().into())),
    );
}

/// The summary.
pub(super) fn summary(out: &mut String, all: &Totals, queues: &ByName, rates: Option<&Rates<'_>>) {
    out.push_str("SUMMARY:      (time unit: second)\n");
    let n = |n: u64| n.to_string();
    two_columns(
        out,
        ("Total number of done jobs:", n(all.done)),
        ("Total number of exited jobs:", n(all.exited)),
    );
    two_columns(
        out,
        ("Attempts that were requeued:", n(all.requeued)),
        ("Total CPU time consumed:", secs(all.cpu.sum())),
    );
    three(out, "CPU time consumed", &all.cpu);
    three(out, "turnaround time", &all.turnaround);
    three(out, "wait time in queue", &all.wait);
    two_columns(
        out,
        ("Total slot-hours:", hours(all.slot_ms)),
        ("Total GPU-hours:", hours(all.gpu_ms / 1000)),
    );
    if let Some(rates) = rates {
        let title = match rates.currency() {
            "" => "Total cost:".to_owned(),
            currency => format!("Total cost ({currency}):"),
        };
        let _ = writeln!(out, " {title:<34}{:>12}", Money(all.cost).to_string());
    }
    if !queues.is_empty() {
        out.push_str("\nWait time by queue:\n");
        let _ = writeln!(
            out,
            " {:<20} {:>9} {:>11} {:>11} {:>11}",
            "QUEUE", "JOBS", "MEAN", "MEDIAN", "P95"
        );
    }
    for (name, totals) in queues {
        let _ = writeln!(
            out,
            " {} {:>9} {:>11} {:>11} {:>11}",
            pad_right(&escape(name), 20),
            totals.done + totals.exited,
            secs(totals.wait.mean().into()),
            secs(totals.wait.percentile(50).into()),
            secs(totals.wait.percentile(95).into()),
        );
    }
}

/// The table of `--by`.
pub(super) fn table(out: &mut String, title: &str, groups: &ByName, priced: bool) {
    let _ = write!(
        out,
        "{:<20} {:>9} {:>9} {:>9} {:>12} {:>12} {:>12} {:>10} {:>10} {:>10}",
        title.to_uppercase(),
        "DONE",
        "EXIT",
        "REQUEUED",
        "CPU_HOURS",
        "SLOT_HOURS",
        "GPU_HOURS",
        "WAIT_MEAN",
        "WAIT_P50",
        "WAIT_P95"
    );
    if priced {
        let _ = write!(out, " {:>12}", "COST");
    }
    out.push('\n');
    for (name, totals) in groups {
        let _ = write!(
            out,
            "{} {:>9} {:>9} {:>9} {:>12} {:>12} {:>12} {:>10} {:>10} {:>10}",
            pad_right(&escape(name), 20),
            totals.done,
            totals.exited,
            totals.requeued,
            hours(totals.cpu.sum()),
            hours(totals.slot_ms),
            hours(totals.gpu_ms / 1000),
            secs(totals.wait.mean().into()),
            secs(totals.wait.percentile(50).into()),
            secs(totals.wait.percentile(95).into()),
        );
        if priced {
            let _ = write!(out, " {:>12}", Money(totals.cost).to_string());
        }
        out.push('\n');
    }
}
