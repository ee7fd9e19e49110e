//! Hosts as a table and as a map of their usage, and one host.

use super::chart::{self, Chart};
use super::frame::{Frame, page};
use super::jobs::in_path;
use super::text::percent;
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, DisplaySettings};
use crate::rest::RestQuery;
use crate::translations::Translations;
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use corral::api::read::{HostKind, ReadCommand, Reader};
use corral::record::view::HostRow;
use corral::sys;

/// Number of usage levels in the map.
const STEPS: u64 = 5;
/// Maximum number of rows on a page.
const ROWS_MAX: usize = 500;

struct Row {
    link: String,
    name: String,
    status: String,
    class: &'static str,
    slots: u32,
    njobs: u32,
    run: u32,
    susp: u32,
    percent: u64,
    /// The class of the host's field in the map.
    heat: String,
    r1m: String,
    ut: String,
    mem: String,
    comment: String,
}

impl Row {
    fn of(host: &HostRow) -> Row {
        let kind = Reader::host_kind(host);
        let used = percent(u64::from(host.njobs), u64::from(host.slots));
        let load = &host.load;
        let known = |value: f64, text: String| match value.is_finite() && kind != HostKind::Away {
            true => text,
            false => String::new(),
        };
        Row {
            link: format!("/hosts/{}", in_path(&host.name)),
            name: host.name.clone(),
            status: host.status.to_string(),
            class: match kind {
                HostKind::Open => "run",
                HostKind::Closed => "wait",
                HostKind::Away => "bad",
            },
            slots: host.slots,
            njobs: host.njobs,
            run: host.run,
            susp: host.ssusp + host.ususp,
            percent: used,
            heat: match kind {
                HostKind::Open => format!("heat{}", used * STEPS / 100),
                HostKind::Closed => "heat-closed".to_owned(),
                HostKind::Away => "heat-away".to_owned(),
            },
            r1m: known(load.r1m, format!("{:.1}", load.r1m)),
            ut: known(load.ut, format!("{:.0} %", load.ut * 100.0)),
            mem: known(load.mem, format!("{:.0} MB", load.mem)),
            comment: host.comment.clone(),
        }
    }
}

#[derive(Template)]
#[template(path = "hosts.html")]
struct HostsPage {
    f: Frame,
    as_map: bool,
    find: String,
    total: usize,
    rows: Vec<Row>,
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Query(fields): RestQuery,
) -> Result<Response, WebError> {
    let fields = Fields(fields);
    let now = app.cluster.now();
    let find = fields.get("find").to_owned();
    let lower = find.to_lowercase();
    let fits = |host: &&HostRow| {
        let texts = [&host.name, host.status.word(), &host.model, &host.host_type];
        texts
            .into_iter()
            .chain(host.tags.iter().map(String::as_str))
            .any(|text| text.to_lowercase().contains(&lower))
    };
    let found: Vec<&HostRow> = now.hosts.iter().filter(fits).collect();
    let url = format!("/hosts?{}", fields.with("", ""));
    page(&HostsPage {
        as_map: fields.get("view") == "map",
        total: found.len(),
        rows: found.into_iter().take(ROWS_MAX).map(Row::of).collect(),
        find,
        f: Frame::new(display, &caller, &now, "/hosts", url),
    })
}

#[derive(Template)]
#[template(path = "host.html")]
struct HostPage {
    f: Frame,
    row: Row,
    /// The output of chosts -l and cload -l.
    long: String,
    load: String,
    /// Charts of the last hour.
    charts: Vec<Chart>,
    /// The link to the jobs that run on the host.
    jobs: String,
}

fn charts(app: &App, w: Translations, host: &str) -> Vec<Chart> {
    let titles = [
        ("slots", w.t("chart.host_slots")),
        ("queue", w.t("chart.host_queue")),
        ("busy", w.t("chart.host_ut")),
        ("memory", w.t("chart.host_mem")),
    ];
    let history = app.history();
    chart::of_name(&history.hosts, host, titles, sys::clock::wall_ms())
}

pub(super) async fn one(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, WebError> {
    blocking(move || {
        let now = app.cluster.now();
        let found = now.hosts.iter().find(|host| host.name == name);
        let Some(host) = found else {
            return Err(WebError::not_found(format!("{name}: no such host")));
        };
        let reader = app.actor.reader(&caller.identity)?;
        let link = in_path(&name);
        page(&HostPage {
            row: Row::of(host),
            long: reader.answer(ReadCommand::Hosts, &["-l", &host.name])?,
            load: reader
                .answer(ReadCommand::Load, &["-l", &host.name])
                .unwrap_or_default(),
            charts: charts(&app, display.words, &name),
            jobs: format!("/jobs?filter=host%3A{link}"),
            f: Frame::new(display, &caller, &now, "/hosts", format!("/hosts/{link}")),
        })
    })
    .await
}
