//! Reads the data for the copy of the cluster: the published view and cb.yaml, which every user may
//! read. Takes no lock, and sends no request to the leader.

use super::{ClusterCopy, Samples};
use crate::client::exit::{Fail, Result};
use crate::client::read::{Source, os_groups};
use crate::config::{self, Config, OsNames};
use crate::language::tell;
use crate::model::Stamp;
use crate::record::view::{HostRow, Params};
use crate::sensors::cluster_resources;
use crate::spool::view::{JobSet, ViewItem};
use crate::state::{RowGatherer, State};
use crate::sys;
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of users whose groups are looked up: share trees and limits may depend on them.
const USERS_MAX: usize = 200;

/// The cluster as last published.
///
/// # Errors
/// The view or cb.yaml cannot be read, or cb.yaml has problems.
pub(crate) fn read(source: &Source, params: &Params, now: Stamp) -> Result<ClusterCopy> {
    let hosts = source.view.hosts().map_err(|e| source.failed(e))?;
    let config = config(source, params)?;
    let state = state(source, &hosts, now)?;
    let sample = |row: &HostRow| {
        let load = row.load.clone();
        (row.name.clone(), (load, 0))
    };
    let samples: Samples = hosts.iter().map(sample).collect();
    let groups = groups(&state);
    // Windows are in the time zone of the leader's host, which is assumed to be that of this host.
    let zone = TimeZone::system();
    Ok(ClusterCopy::new(state, config, samples, groups, zone, now))
}

/// The configuration in cb.yaml, plus the resources that sensors define.
fn config(source: &Source, params: &Params) -> Result<Arc<Config>> {
    let path = source.layout.config();
    let bytes = sys::fs::read_small(&path, config::MAX_BYTES as u64)?;
    let loaded = config::load(&bytes, &path.display().to_string(), &OsNames::ANY);
    let loaded = loaded.map_err(|_| {
        Fail::system(format!(
            "{} has problems, so no change can be tried with it\nhint: cadmin ckconfig; cjobs -p \
             says why a job waits",
            path.display()
        ))
    })?;
    let mut config = loaded.config;
    if config.digest() != params.config_digest {
        tell!(
            "{}: warning: cb.yaml on the share is not what the leader uses: it was changed since, \
             or is refused",
            source.name
        );
    }
    config.hosts.sensed = cluster_resources::defined(&params.sensed);
    Ok(Arc::new(config))
}

fn state(source: &Source, hosts: &[HostRow], now: Stamp) -> Result<State> {
    let mut rows = RowGatherer::default();
    let mut wrong = None;
    // Includes finished jobs, because dependencies refer to them.
    let reading = source
        .view
        .stream(&JobSet::all(), &mut |piece| match piece {
            ViewItem::Restart => rows = RowGatherer::default(),
            ViewItem::Job { row, spec, why } => {
                if let Err(e) = rows.job(&row, spec, why) {
                    wrong = Some(e);
                }
            }
        });
    let reading = reading.map_err(|e| source.failed(e))?;
    source.warn(&reading.warnings);
    if let Some(e) = wrong {
        tell!(
            "{}: warning: a row of the view is left out: {e}",
            source.name
        );
    }
    hosts.iter().for_each(|row| rows.host(row));
    let queues = source.view.queues().map_err(|e| source.failed(e))?;
    queues.iter().for_each(|row| rows.queue(row));
    rows.job_groups(source.view.job_groups().unwrap_or_default());
    rows.shares(&source.view.shares().unwrap_or_default(), now);
    Ok(rows.state())
}

/// The groups of the users with unfinished jobs.
fn groups(state: &State) -> BTreeMap<String, Vec<String>> {
    let users: BTreeSet<&str> = state.users().map(|(_, name)| name).collect();
    let users = users.into_iter().take(USERS_MAX);
    users
        .map(|user| (user.to_owned(), os_groups(user)))
        .collect()
}
