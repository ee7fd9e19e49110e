//! Queues, limits, share trees, cron jobs and resources of sensors.

use super::frame::{Frame, page};
use super::jobs::in_path;
use super::text::percent;
use crate::error::WebError;
use crate::guard::{Caller, DisplaySettings};
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use corral::api::read::{ReadCommand, Reader};
use corral::record::view::{LimitRow, QueueRow, ShareRow};

struct QueueLine {
    name: String,
    jobs: String,
    status: &'static str,
    class: &'static str,
    priority: i64,
    max: Option<u32>,
    pend: u64,
    run: u64,
    susp: u64,
    description: String,
    comment: String,
}

impl QueueLine {
    fn of(q: &QueueRow) -> QueueLine {
        let status = Reader::queue_status(q);
        QueueLine {
            name: q.name.clone(),
            jobs: format!("/jobs?filter=queue%3A{}", in_path(&q.name)),
            status,
            class: if status == "Open:Active" {
                "run"
            } else {
                "wait"
            },
            priority: q.priority,
            max: q.max,
            pend: q.counts.pend,
            run: q.counts.run,
            susp: q.counts.ssusp + q.counts.ususp,
            description: q.description.clone(),
            comment: q.comment.clone(),
        }
    }
}

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    f: Frame,
    rows: Vec<QueueLine>,
}

pub(super) async fn queues(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    let now = app.cluster.now();
    page(&QueuesPage {
        rows: now.queues.iter().map(QueueLine::of).collect(),
        f: Frame::new(display, &caller, &now, "/queues", "/queues".to_owned()),
    })
}

#[derive(Template)]
#[template(path = "limits.html")]
struct LimitsPage {
    f: Frame,
    rows: Vec<(LimitRow, String, u64)>,
}

pub(super) async fn limits(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    blocking(move || {
        let now = app.cluster.now();
        let rows = app.actor.reader(&caller.identity)?.limits()?;
        let row = |row: LimitRow| {
            let limit = row.limit.map_or(String::new(), |limit| limit.to_string());
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // amounts are small
            let part = percent(
                row.used.max(0.0) as u64,
                row.limit.unwrap_or(0.0).max(0.0) as u64,
            );
            (row, limit, part)
        };
        page(&LimitsPage {
            rows: rows.into_iter().map(row).collect(),
            f: Frame::new(display, &caller, &now, "/limits", "/limits".to_owned()),
        })
    })
    .await
}

#[derive(Template)]
#[template(path = "shares.html")]
struct SharesPage {
    f: Frame,
    /// Each row with its depth in the tree, and its own name.
    rows: Vec<(ShareRow, usize, String)>,
}

pub(super) async fn shares(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    blocking(move || {
        let now = app.cluster.now();
        let rows = app.actor.reader(&caller.identity)?.shares()?;
        let row = |row: ShareRow| {
            let parts: Vec<&str> = row
                .path
                .split('/')
                .filter(|part| !part.is_empty())
                .collect();
            let (depth, name) = (parts.len().min(9), parts.last().copied().unwrap_or("/"));
            let name = name.to_owned();
            (row, depth, name)
        };
        page(&SharesPage {
            rows: rows.into_iter().map(row).collect(),
            f: Frame::new(display, &caller, &now, "/shares", "/shares".to_owned()),
        })
    })
    .await
}

/// A page with the output of commands.
#[derive(Template)]
#[template(path = "texts.html")]
struct TextsPage {
    f: Frame,
    title: &'static str,
    /// Heading and text of each part.
    parts: Vec<(&'static str, String)>,
    empty: &'static str,
}

pub(super) async fn crons(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    blocking(move || {
        let now = app.cluster.now();
        let text = app
            .actor
            .reader(&caller.identity)?
            .answer(ReadCommand::Crons, &[])?;
        page(&TextsPage {
            title: display.words.t("menu.cron"),
            parts: vec![("", text)],
            empty: display.words.t("cron.none"),
            f: Frame::new(display, &caller, &now, "/cron", "/cron".to_owned()),
        })
    })
    .await
}

pub(super) async fn resources(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    blocking(move || {
        let (now, w) = (app.cluster.now(), display.words);
        let reader = app.actor.reader(&caller.identity)?;
        let text = |what| reader.answer(what, &["-s"]).unwrap_or_default();
        page(&TextsPage {
            title: w.t("menu.resources"),
            parts: vec![
                (w.t("resources.shared"), text(ReadCommand::Load)),
                (w.t("resources.reserved"), text(ReadCommand::Hosts)),
            ],
            empty: w.t("resources.none"),
            f: Frame::new(
                display,
                &caller,
                &now,
                "/resources",
                "/resources".to_owned(),
            ),
        })
    })
    .await
}
