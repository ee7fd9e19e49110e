//! The first page: current usage, jobs by queue and user, hosts by state, waiting times, alarms.

use super::chart::{self, Chart};
use super::frame::{Frame, page};
use super::text::{moment, percent, time};
use crate::cluster::Cluster;
use crate::error::WebError;
use crate::guard::{Caller, DisplaySettings};
use crate::translations::Translations;
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use corral::api::jobs::JobSum;
use corral::api::read::{HostKind, Reader};
use corral::record::view::HostRow;
use corral::sys;
use std::collections::BTreeMap;

/// Maximum number of users shown: those with the most slots.
const USERS_MAX: usize = 20;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    f: Frame,
    slots: u64,
    used: u64,
    percent: u64,
    /// Hosts by state: the key of its name, its class, the number of hosts.
    hosts: Vec<(&'static str, &'static str, u64)>,
    queues: Vec<(String, JobSum)>,
    users: Vec<(String, JobSum)>,
    pending: u64,
    started: u64,
    longest_wait: String,
    middle_wait: String,
    master: String,
    epoch: u64,
    problems: Vec<String>,
    past: OverviewHistory,
}

/// Charts and statistics of the past.
struct OverviewHistory {
    charts: Vec<Chart>,
    waits: Option<WaitTable>,
}

/// How long jobs waited for their first start.
struct WaitTable {
    since: String,
    /// Upper bound of the waiting time, number of jobs, share in percent.
    rows: Vec<(String, u64, u64)>,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    blocking(move || {
        let reader = app.actor.reader(&caller.identity)?;
        let visible = Cluster::visible_jobs(&reader)?;
        let now = app.cluster.now();
        let sums = now.jobs.sums(&visible, sys::clock::wall_ms());
        let present = |host: &&HostRow| Reader::host_kind(host) != HostKind::Away;
        let slots = now
            .hosts
            .iter()
            .filter(present)
            .map(|h| u64::from(h.slots))
            .sum();
        let used = now
            .hosts
            .iter()
            .filter(present)
            .map(|h| u64::from(h.njobs))
            .sum();
        let total = |of: fn(&JobSum) -> u64| sums.by_queue.values().map(of).sum();
        // In the order of the queues, including those without jobs.
        let queues = now.queues.iter().map(|q| {
            let sum = sums.by_queue.get(&q.name).copied().unwrap_or_default();
            (q.name.clone(), sum)
        });
        page(&Overview {
            slots,
            used,
            percent: percent(used, slots),
            hosts: states(&now.hosts),
            queues: queues.collect(),
            users: most(sums.by_user.clone()),
            pending: total(|sum| sum.pending),
            started: total(|sum| sum.started),
            longest_wait: time(sums.longest_wait_ms),
            middle_wait: time(sums.middle_wait_ms),
            master: now.head.master.clone(),
            epoch: now.head.epoch,
            problems: now.head.config_problems.clone(),
            past: OverviewHistory {
                charts: charts(
                    &app,
                    display.words,
                    reader.may_see_all()?,
                    &caller.identity.name,
                ),
                waits: waits(&app, display.words),
            },
            f: Frame::new(display, &caller, &now, "/", "/".to_owned()),
        })
    })
    .await
}

/// Charts of the last day. A user who may not see the jobs of others sees no lines of other users.
fn charts(app: &App, w: Translations, sees_all: bool, user: &str) -> Vec<Chart> {
    let (history, now) = (app.history(), sys::clock::wall_ms());
    let (queues, users) = (&history.queues, &history.users);
    let at = (w, now);
    let sees = |name: &str| sees_all || name == user;
    let all = [
        chart::of_names(
            queues,
            0,
            title(w, "queue-slots", "chart.slots_by_queue"),
            at,
            |_| true,
        ),
        chart::of_names(
            queues,
            1,
            title(w, "queue-pend", "chart.pending_by_queue"),
            at,
            |_| true,
        ),
        chart::of_names(
            users,
            0,
            title(w, "user-slots", "chart.slots_by_user"),
            at,
            sees,
        ),
        chart::of_names(
            users,
            1,
            title(w, "user-pend", "chart.pending_by_user"),
            at,
            sees,
        ),
    ];
    all.into_iter().flatten().collect()
}

fn title(w: Translations, id: &'static str, key: &'static str) -> (&'static str, &'static str) {
    (id, w.t(key))
}

/// Waiting times of all queues together; `None`: nothing has been counted.
fn waits(app: &App, w: Translations) -> Option<WaitTable> {
    let waits = app.cluster.waits().ok()?;
    let mut counts = vec![0; waits.bounds_s.len() + 1];
    for histogram in waits.by_queue.values() {
        for (sum, n) in counts.iter_mut().zip(&histogram.counts) {
            *sum += n;
        }
    }
    let whole: u64 = counts.iter().sum();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bounds are whole seconds
    let bound = |s: &f64| w.f("waits.to", time((*s * 1000.0) as u64));
    let labels = waits.bounds_s.iter().map(bound);
    let labels = labels.chain([w.t("waits.more").to_owned()]);
    let row = |(label, n): (String, u64)| (label, n, percent(n, whole));
    (whole > 0).then(|| WaitTable {
        since: moment(waits.since, sys::clock::wall_ms()),
        rows: labels.zip(counts).map(row).collect(),
    })
}

/// Hosts by state: the key of its name, its class, the number of hosts.
fn states(hosts: &[HostRow]) -> Vec<(&'static str, &'static str, u64)> {
    let kinds = [
        (HostKind::Open, "host.ok", "run"),
        (HostKind::Closed, "host.closed", "wait"),
        (HostKind::Away, "host.away", "bad"),
    ];
    let count = |kind| {
        hosts
            .iter()
            .filter(|h| Reader::host_kind(h) == kind)
            .count()
    };
    let each = kinds.into_iter();
    each.map(|(kind, key, class)| (key, class, count(kind) as u64))
        .collect()
}

/// The users with the most slots, then those with the most pending jobs.
fn most(all: BTreeMap<String, JobSum>) -> Vec<(String, JobSum)> {
    let mut all: Vec<(String, JobSum)> = all.into_iter().collect();
    all.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.slots, sum.pending)));
    all.truncate(USERS_MAX);
    all
}
