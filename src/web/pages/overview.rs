//! The first page: use now, jobs by queue and user, hosts by state, waiting times, alarms.

use super::frame::{Frame, page};
use super::text::{percent, time};
use crate::cluster::Cluster;
use crate::error::WebError;
use crate::guard::{Caller, Look};
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

/// Users that are shown, those with the most slots.
const USERS_MAX: usize = 20;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    f: Frame,
    slots: u64,
    used: u64,
    percent: u64,
    /// Hosts by state.
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
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(look): Extension<Look>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    blocking(move || {
        let seen = Cluster::seen(&app.actor.reader(&caller.who)?)?;
        let now = app.cluster.now();
        let sums = now.jobs.sums(&seen, sys::clock::wall_ms());
        let there = |host: &&HostRow| Reader::host_kind(host) != HostKind::Away;
        let slots = now
            .hosts
            .iter()
            .filter(there)
            .map(|h| u64::from(h.slots))
            .sum();
        let used = now
            .hosts
            .iter()
            .filter(there)
            .map(|h| u64::from(h.njobs))
            .sum();
        let total = |of: fn(&JobSum) -> u64| sums.by_queue.values().map(of).sum();
        // In the order of the queues, those without jobs too.
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
            f: Frame::new(look, &caller, &now, "/", "/".to_owned()),
        })
    })
    .await
}

/// Hosts by kind of state: the key of its name, its class, how many.
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

/// Those with the most slots, then the most pending jobs.
fn most(all: BTreeMap<String, JobSum>) -> Vec<(String, JobSum)> {
    let mut all: Vec<(String, JobSum)> = all.into_iter().collect();
    all.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.slots, sum.pending)));
    all.truncate(USERS_MAX);
    all
}
