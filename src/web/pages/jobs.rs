//! The list of jobs: filtered, sorted and paged on the server; actions on selected jobs.

use super::frame::{Frame, page};
use super::text::{class, kilobytes, moment, time};
use crate::cluster::Cluster;
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, DisplaySettings};
use crate::identity::JobAction;
use crate::rest::{RestQuery, job_query, key_of};
use crate::translations::Translations;
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use corral::api::jobs::{JobPage, ListedJob};
use corral::record::ack::{Code, Outcome};
use corral::sys;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// Columns: the sort key, the key of the name.
const COLUMNS: &[(&str, &str)] = &[
    ("id", "col.id"),
    ("name", "col.name"),
    ("stat", "col.stat"),
    ("user", "col.user"),
    ("queue", "col.queue"),
    ("slots", "col.slots"),
    ("host", "col.hosts"),
    ("time", "col.time"),
    ("mem", "col.mem"),
    ("submit", "col.submit"),
];

/// A row of the table.
struct Row {
    id: String,
    link: String,
    name: String,
    stat: &'static str,
    class: &'static str,
    user: String,
    queue: String,
    slots: u32,
    hosts: String,
    time: String,
    mem: String,
    submit: String,
    /// For an array: its elements by state, and the link to them.
    elements: String,
    below: String,
}

impl Row {
    fn of(job: &ListedJob, now: i64) -> Row {
        let elements = elements_text(job);
        let below = match elements.is_empty() {
            true => String::new(),
            false => format!("/jobs?array={}", job.id),
        };
        Row {
            link: format!("/jobs/{}", in_path(&job.id)),
            id: job.id.clone(),
            name: job.name.clone(),
            stat: job.stat.word(),
            class: class(job.stat),
            user: job.user.clone(),
            queue: job.queue.clone(),
            slots: job.slots,
            hosts: job.hosts.clone(),
            time: time(job.time_ms),
            mem: kilobytes(job.mem_kb),
            submit: moment(job.submit, now),
            elements,
            below,
        }
    }
}

/// E.g. `1 RUN, 4 PEND`; nothing for a job that is not an array.
pub(super) fn elements_text(job: &ListedJob) -> String {
    let each = job.elements.iter();
    let each = each.map(|(stat, n)| format!("{n} {}", stat.word()));
    each.collect::<Vec<_>>().join(", ")
}

/// Bytes that need no encoding in a path.
const SAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// An id as part of a path.
pub(super) fn in_path(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, SAFE).to_string()
}

/// The title of a column: its name, the link that sorts by it, `aria-sort`.
struct Title {
    name: &'static str,
    link: String,
    sorted: &'static str,
    /// Numbers are aligned to the right.
    class: &'static str,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    f: Frame,
    asked: Fields,
    own: bool,
    finished: bool,
    array: Option<u32>,
    titles: Vec<Title>,
    rows: Vec<Row>,
    counts: Vec<(&'static str, &'static str, u64)>,
    /// Numbers of the first and last row on the page, and the total number of rows.
    first: usize,
    last: usize,
    total: usize,
    before: Option<String>,
    after: Option<String>,
    acts: Vec<(&'static str, String)>,
    warnings: Vec<String>,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Query(fields): RestQuery,
) -> Result<Response, WebError> {
    let fields = Fields(fields);
    blocking(move || {
        let query = job_query(&fields);
        let visible = Cluster::visible_jobs(&app.actor.reader(&caller.identity)?)?;
        let (now, at) = (app.cluster.now(), sys::clock::wall_ms());
        let found = now.jobs.page(&query, &visible, at)?;
        let url = format!("/jobs?{}", fields.with("", ""));
        let count = query.count.max(1);
        let (before, after) = page_links(&fields, &found, count);
        page(&JobsPage {
            own: query.own_only,
            finished: query.finished,
            array: query.array,
            titles: titles(&fields, display.words),
            rows: found.rows.iter().map(|job| Row::of(job, at)).collect(),
            counts: found
                .counts
                .iter()
                .map(|(s, n)| (s.word(), class(*s), *n))
                .collect(),
            first: found.from + usize::from(found.total > 0),
            last: found.from + found.rows.len(),
            total: found.total,
            before,
            after,
            acts: acts(display.words),
            warnings: now.jobs.warnings.iter().take(3).cloned().collect(),
            f: Frame::new(display, &caller, &now, "/jobs", url),
            asked: fields,
        })
    })
    .await
}

/// The actions, each with its name.
pub(super) fn acts(w: Translations) -> Vec<(&'static str, String)> {
    let name = |act: JobAction| w.t_or(&format!("act.{}", act.word()), act.word());
    JobAction::ALL
        .into_iter()
        .map(|act| (act.word(), name(act)))
        .collect()
}

fn titles(fields: &Fields, w: Translations) -> Vec<Title> {
    let title = |(column, key): &(&'static str, &'static str)| {
        let is_by = fields.get("sort") == *column;
        let reverse = is_by && !fields.has("reverse");
        let mut next = Fields::parse(fields.with("from", "").as_bytes()).unwrap_or_default();
        next = Fields::parse(next.with("sort", column).as_bytes()).unwrap_or_default();
        Title {
            name: w.t(key),
            link: format!(
                "/jobs?{}",
                next.with("reverse", if reverse { "yes" } else { "" })
            ),
            class: match *column {
                "slots" | "time" | "mem" => "n",
                _ => "",
            },
            sorted: match (is_by, reverse) {
                (false, _) => "none",
                (true, true) => "ascending",
                (true, false) => "descending",
            },
        }
    };
    COLUMNS.iter().map(title).collect()
}

/// The links to the previous and the next page.
fn page_links(fields: &Fields, found: &JobPage, count: usize) -> (Option<String>, Option<String>) {
    let to = |from: usize| format!("/jobs?{}", fields.with("from", &from.to_string()));
    let before = (found.from > 0).then(|| to(found.from.saturating_sub(count)));
    let next = found.from + found.rows.len();
    (before, (next < found.total).then(|| to(next)))
}

/// The outcome for one job.
pub(super) struct ActionResult {
    id: String,
    text: String,
    ok: bool,
}

#[derive(Template)]
#[template(path = "acted.html")]
pub(super) struct ActedPage {
    pub f: Frame,
    pub results: Vec<ActionResult>,
    pub back: String,
}

/// Maximum number of jobs in one action.
const ACT_MAX: usize = 1_000;

pub(super) async fn act(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Extension(form): Extension<Fields>,
) -> Result<Response, WebError> {
    let act = JobAction::parse(form.get("act")).ok_or_else(|| WebError::wrong("no such action"))?;
    let ids = form.all("id");
    if ids.is_empty() {
        return Err(WebError::wrong(display.words.t("jobs.none_marked")));
    }
    if ids.len() > ACT_MAX {
        return Err(WebError::wrong(format!("at most {ACT_MAX} jobs at once")));
    }
    for id in &ids {
        key_of(id)?;
    }
    blocking(move || {
        let outcomes = app.actor.act(&caller.identity, act, ids)?;
        app.cluster.refresh(true);
        let now = app.cluster.now();
        let back = match form.get("back") {
            back if back.starts_with("/jobs") => back.to_owned(),
            _ => "/jobs".to_owned(),
        };
        page(&ActedPage {
            results: outcomes.iter().map(action_result).collect(),
            back,
            f: Frame::new(display, &caller, &now, "/jobs", "/jobs".to_owned()),
        })
    })
    .await
}

pub(super) fn action_result(outcome: &Outcome) -> ActionResult {
    ActionResult {
        id: outcome.what.clone(),
        text: outcome.text.clone(),
        ok: outcome.code == Code::Ok,
    }
}
