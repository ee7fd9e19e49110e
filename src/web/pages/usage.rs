//! Usage, cost and efficiency of ended jobs: the totals of `cacct`, its advice, and the usage of
//! each job compared with its request.
//!
//! Owns the form and the percentages. `cacct` owns records, costs and visibility.

use super::frame::{Frame, page};
use super::jobs::in_path;
use super::text::{moment, time};
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, DisplaySettings};
use crate::rest::RestQuery;
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use corral::api::read::{ReadCommand, Reader};
use corral::sys;
use jiff::civil::Date;
use serde::Deserialize;

/// Fields of the form that are options of `cacct`: the field, the option, the key of its name.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("user", "-u", "col.user"),
    ("queue", "-q", "col.queue"),
    ("project", "-P", "submit.project"),
];
/// Criteria by which totals can be grouped, and the keys of their names.
const BY: &[(&str, &str)] = &[
    ("user", "col.user"),
    ("group", "usage.group"),
    ("project", "submit.project"),
    ("queue", "col.queue"),
    ("app", "usage.app"),
    ("host", "col.host"),
];
/// Maximum number of ended jobs whose efficiency is listed: the newest.
const JOBS_MAX: usize = 200;

/// A single-line field with its value.
struct Field {
    name: &'static str,
    label: &'static str,
    value: String,
}

/// Usage of an ended attempt compared with its allocation.
struct Used {
    id: String,
    link: String,
    user: String,
    queue: String,
    ended: String,
    run: String,
    slots: u64,
    /// CPU time as a share of run time times slots, and memory as a share of the limit, in percent;
    /// `None`: unknown.
    cpu: Option<u64>,
    mem: Option<u64>,
}

/// The members of a record of `cacct --json` that are needed here.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Record {
    id: u32,
    index: u32,
    user: String,
    queue: String,
    end_ms: i64,
    run_ms: u64,
    slots: u64,
    cpu_ms: u64,
    max_mem_kb: u64,
    mem_limit_bytes: Option<u64>,
}

impl Used {
    fn of(record: &Record, now: i64) -> Used {
        let part = |part: u64, whole: u64| (part.saturating_mul(100)).checked_div(whole);
        let id = match record.index {
            0 => record.id.to_string(),
            index => format!("{}[{index}]", record.id),
        };
        let limit = record.mem_limit_bytes.map(|bytes| bytes / 1024);
        Used {
            link: in_path(&id),
            id,
            user: record.user.clone(),
            queue: record.queue.clone(),
            ended: moment(record.end_ms, now),
            run: time(record.run_ms),
            slots: record.slots,
            cpu: part(record.cpu_ms, record.run_ms.saturating_mul(record.slots)),
            mem: limit.and_then(|limit| part(record.max_mem_kb, limit)),
        }
    }
}

#[derive(Template)]
#[template(path = "usage.html")]
struct UsagePage {
    f: Frame,
    fields: Vec<Field>,
    month: String,
    ended: String,
    /// Criteria of totals: value, key of the name, whether it is selected.
    by: Vec<(&'static str, &'static str, bool)>,
    /// Whether the efficiency is shown instead of the totals.
    efficiency: bool,
    /// Links to the two views.
    links: (String, String),
    totals: String,
    by_text: String,
    advice: String,
    jobs: Vec<Used>,
}

/// The first and the last day of a month, in the format of `-C`.
fn month_range(month: &str) -> Result<String, WebError> {
    let wrong = || WebError::wrong("a month is written as 2026-11");
    let first: Date = format!("{month}-01").parse().map_err(|_| wrong())?;
    let last = first.last_of_month();
    Ok(format!(
        "{},{}",
        first.strftime("%Y/%m/%d"),
        last.strftime("%Y/%m/%d")
    ))
}

/// The options that select what is counted.
fn words(fields: &Fields) -> Result<Vec<String>, WebError> {
    let mut words = Vec::new();
    let mut put = |option: &str, value: &str| {
        if value.starts_with('-') {
            return Err(WebError::wrong("a value cannot begin with a dash"));
        }
        if !value.is_empty() {
            words.extend([option.to_owned(), value.to_owned()]);
        }
        Ok(())
    };
    for (name, option, _) in OPTIONS {
        put(option, fields.get(name))?;
    }
    match (fields.get("month"), fields.get("ended")) {
        ("", ended) => put("-C", ended)?,
        (month, "") => put("-C", &month_range(month)?)?,
        _ => return Err(WebError::wrong("give a month or a range of time, not both")),
    }
    Ok(words)
}

fn answer(reader: &Reader, words: &[String], more: &[&str]) -> Result<String, WebError> {
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    Ok(reader.answer(ReadCommand::Accounting, &words)?)
}

/// The newest records.
fn newest(text: &str, now: i64) -> Vec<Used> {
    let read = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Record>(line).ok());
    let mut all: Vec<Record> = read.filter(|record| record.run_ms > 0).collect();
    all.sort_by_key(|record| std::cmp::Reverse(record.end_ms));
    all.iter()
        .take(JOBS_MAX)
        .map(|record| Used::of(record, now))
        .collect()
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Query(fields): RestQuery,
) -> Result<Response, WebError> {
    let fields = Fields(fields);
    blocking(move || {
        let (now, w) = (app.cluster.now(), display.words);
        let reader = app.actor.reader(&caller.identity)?;
        let words = words(&fields)?;
        let by = match BY.iter().find(|(name, _)| *name == fields.get("by")) {
            Some((name, _)) => *name,
            None => "user",
        };
        let efficiency = fields.get("view") == "efficiency";
        let (mut totals, mut by_text) = (String::new(), String::new());
        let (mut advice, mut jobs) = (String::new(), Vec::new());
        if efficiency {
            advice = answer(&reader, &words, &["--advice"])?;
            let text = answer(&reader, &words, &["--json"])?;
            jobs = newest(&text, sys::clock::wall_ms());
        } else {
            totals = answer(&reader, &words, &[])?;
            by_text = answer(&reader, &words, &["--by", by])?;
        }
        let field = |(name, _, key): &(&'static str, &str, &'static str)| Field {
            name,
            label: w.t(key),
            value: fields.get(name).to_owned(),
        };
        let link = |view: &str| format!("/usage?{}", fields.with("view", view));
        page(&UsagePage {
            fields: OPTIONS.iter().map(field).collect(),
            month: fields.get("month").to_owned(),
            ended: fields.get("ended").to_owned(),
            by: BY
                .iter()
                .map(|(name, key)| (*name, *key, *name == by))
                .collect(),
            efficiency,
            links: (link(""), link("efficiency")),
            totals,
            by_text,
            advice,
            jobs,
            f: Frame::new(display, &caller, &now, "/usage", link(fields.get("view"))),
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_ends_with_its_last_day() {
        assert_eq!(month_range("2028-02").unwrap(), "2028/02/01,2028/02/29");
        for wrong in ["2026", "2026-13", "2026-11-01", "-u all", ""] {
            assert!(month_range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_no_options() {
        let words_of = |text: &str| words(&Fields::parse(text.as_bytes()).unwrap());
        assert_eq!(words_of("user=u1&project=").unwrap(), ["-u", "u1"]);
        assert!(words_of("user=-l").is_err() && words_of("ended=-C").is_err());
        assert!(words_of("month=2026-11&ended=2026/11/1,").is_err());
    }

    #[test]
    fn parts_are_of_slots_and_of_the_limit() {
        let text = "{\"id\":7,\"index\":2,\"run_ms\":1000,\"slots\":4,\"cpu_ms\":2000,\"end_ms\":5,\
                    \"max_mem_kb\":512,\"mem_limit_bytes\":2097152}\n\
                    {\"id\":8,\"index\":0,\"run_ms\":10,\"slots\":1,\"cpu_ms\":0,\"end_ms\":9}\n";
        let all = newest(text, 10);
        assert_eq!(
            (all[0].id.as_str(), all[0].cpu, all[0].mem),
            ("8", Some(0), None)
        );
        assert_eq!(
            (all[1].id.as_str(), all[1].cpu, all[1].mem),
            ("7[2]", Some(50), Some(25))
        );
    }
}
