//! Cron jobs in the form of `ccron`: table, JSON, registry of fields, the long page.
//!
//! The next due time follows from the definition and the last handled one, so it is computed here.
//! Never reads a clock.

use super::cell::{Cut, Object, int};
use super::field::{Field, Get, Table, left};
use crate::model::Stamp;
use crate::record::cron::{CronJob, CronRecord};
use crate::text::cron::{Schedule, Zone};
use crate::text::width::escape;
use std::fmt::Write as _;

/// The function that writes the value of a field.
pub(crate) type CronGet = Get<CronJob>;

/// All fields of a cron job.
pub(crate) static FIELDS: &[Field<CronGet>] = &[
    left("name", &[], "NAME", 20, |r, out| out.push_str(&r.def.name)),
    left("user", &[], "USER", 10, |r, out| out.push_str(&r.user)),
    left("status", &[], "STATUS", 8, |r, out| out.push_str(status(r))),
    left("schedule", &[], "SCHEDULE", 16, |r, out| {
        out.push_str(&r.def.schedule);
    }),
    left("timezone", &[], "TIMEZONE", 16, |r, out| {
        out.push_str(&r.def.zone);
    }),
    left("next", &[], "NEXT", 26, |r, out| {
        out.push_str(&next_text(r))
    }),
    left("running", &[], "RUN", 4, |r, out| int(out, r.running.len())),
    left("fails", &[], "FAILS", 5, |r, out| int(out, r.fails)),
    left("last", &[], "LAST", 10, |r, out| {
        out.push_str(r.history.last().map_or("-", |last| last.what.word()));
    }),
    left("command", &[], "COMMAND", 20, |r, out| {
        out.push_str(&r.def.job.command);
    }),
];

fn status(cron: &CronJob) -> &'static str {
    match cron.def.disabled {
        true => "disabled",
        false => "enabled",
    }
}

/// The next due time; `None`: the cron job is disabled, or there is no such time.
fn next(cron: &CronJob) -> Option<(Stamp, Zone)> {
    let zone = Zone::named(&cron.def.zone).ok()?;
    let schedule = Schedule::parse(&cron.def.schedule).ok()?;
    let at = schedule.next_after(cron.handled, &zone)?;
    (!cron.def.disabled).then_some((at, zone))
}

fn next_text(cron: &CronJob) -> String {
    next(cron).map_or("-".to_owned(), |(at, zone)| zone.show(at))
}

/// The table.
pub(crate) fn table() -> Table<CronGet> {
    let columns = [
        ("name", 12, Cut::Never),
        ("user", 8, Cut::Never),
        ("status", 8, Cut::Never),
        ("schedule", 17, Cut::Never),
        ("timezone", 14, Cut::Never),
        ("next", 26, Cut::Never),
        ("running", 3, Cut::Never),
        ("last", 6, Cut::Never),
    ];
    Table::fixed(FIELDS, &columns)
}

/// The fields of `-json` without `-o`.
pub(crate) const JSON_DEFAULT: &str = "name user status schedule timezone next running fails last";

/// Appends the JSON line of a cron job.
pub(crate) fn put_json(out: &mut String, cron: &CronJob) {
    let def = &cron.def;
    let mut o = Object::begin(out);
    o.text("name", &def.name);
    o.text("user", &cron.user);
    o.text("status", status(cron));
    o.text("why_disabled", &cron.why);
    o.text("schedule", &def.schedule);
    o.text("timezone", &def.zone);
    o.opt("next", next(cron).map(|(at, _)| at.0));
    o.int("handled", cron.handled.0);
    o.text("overlap", def.overlap.word());
    o.int("max_concurrent_runs", def.max_runs);
    o.opt("start_deadline_s", def.deadline_s);
    o.int("max_fails", def.max_fails);
    o.int("fails", cron.fails);
    o.int("history_limit", def.history);
    o.text("command", &def.job.command);
    o.some_text("array", &def.job.array);
    o.int("jobs", 1 + def.more.len());
    o.text("queue", &def.job.spec.queue);
    o.opt("run_limit_s", def.job.spec.limits.run_s);
    o.opt("retries", def.job.spec.again.retries);
    o.text("defined_by", &cron.by);
    o.int("defined", cron.t.0);
    let run = |out: &mut String, (id, due): (&u32, &Stamp)| {
        let mut o = Object::begin(out);
        o.int("id", *id);
        o.opt("due", (due.0 != 0).then_some(due.0));
        o.end();
    };
    listed(o.key("run"), cron.running.iter(), run);
    let finished = |out: &mut String, record: &CronRecord| {
        let mut o = Object::begin(out);
        o.text("what", record.what.word());
        o.opt("id", (record.id != 0).then_some(record.id));
        o.opt("due", (record.due.0 != 0).then_some(record.due.0));
        o.int("time", record.t.0);
        o.int("due_times", record.n);
        o.text("text", &record.text);
        o.end();
    };
    listed(o.key("finished"), cron.history.iter(), finished);
    o.end();
    out.push('\n');
}

fn listed<T>(out: &mut String, items: impl Iterator<Item = T>, put: impl Fn(&mut String, T)) {
    out.push('[');
    for (n, item) in items.enumerate() {
        if n > 0 {
            out.push(',');
        }
        put(out, item);
    }
    out.push(']');
}

/// The page of `ccron show`.
pub(crate) fn page(cron: &CronJob) -> String {
    let mut out = String::new();
    let def = &cron.def;
    let zone = Zone::named(&def.zone).ok();
    let date = |at: Stamp| match &zone {
        _ if at.0 == 0 => "by hand".to_owned(),
        Some(zone) => zone.show(at),
        None => at.0.to_string(),
    };
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {name:<20} {}", escape(&value));
        }
    };
    let status = match cron.why.as_str() {
        "" => status(cron).to_owned(),
        why => format!("{}: {why}", status(cron)),
    };
    line("Status", status);
    line("Schedule", format!("{} {}", def.schedule, def.zone));
    line("Next", next_text(cron));
    line("Command", def.job.command.clone());
    for job in &def.more {
        line("and", job.command.clone());
    }
    line("Array", def.job.array.clone());
    line("Queue", def.job.spec.queue.clone());
    let runs = match def.max_runs {
        0 => String::new(),
        n => format!(", at most {n} runs at a time"),
    };
    line("Overlap", format!("{}{runs}", def.overlap.word()));
    let deadline = def.deadline_s.map(|s| format!("{} min", s.div_ceil(60)));
    line("Start deadline", deadline.unwrap_or_default());
    let limit = def.job.spec.limits.run_s.map(crate::text::duration::exact);
    line("Run limit", limit.unwrap_or_default());
    let retries = def.job.spec.again.retries.map(|n| n.to_string());
    line("Retries", retries.unwrap_or_default());
    if def.max_fails > 0 {
        line(
            "Failed in a row",
            format!("{} of {}", cron.fails, def.max_fails),
        );
    }
    line("Defined", format!("by {}, {}", cron.by, date(cron.t)));
    let mut text = format!(
        "Cron job <{}> of {}\n{out}",
        escape(&def.name),
        escape(&cron.user)
    );
    for (id, due) in &cron.running {
        let _ = writeln!(text, "  {:<12} job <{id}>, due {}", "running", date(*due));
    }
    for record in cron.history.iter().rev() {
        let job = match record.id {
            0 => String::new(),
            id => format!("job <{id}>, "),
        };
        let times = match record.n {
            0 | 1 => String::new(),
            n => format!(", {n} due times"),
        };
        let why = match record.text.as_str() {
            "" => String::new(),
            text => format!(": {}", escape(text)),
        };
        let (what, due) = (record.what.word(), date(record.due));
        let _ = writeln!(text, "  {what:<12} {job}due {due}{times}{why}");
    }
    text
}
