//! The cluster's metrics, read from the published view: for `cadmin metrics`, for programs that
//! serve them, and for the rules that watch them.
//!
//! Reads like any command and queries no daemon. Owns no metric: `show::metrics` does.

use super::exit::{Fail, Result};
use super::leadership;
use super::read::{self, Source};
use super::visibility::UserSets;
use crate::record::view::Params;
use crate::show::metrics::{self, JobSums, MetricPoint, MetricsInput};
use crate::spool::view::{JobSet, ViewItem};
use crate::sys::{clock, statfs};

/// All current figures as text for Prometheus.
///
/// # Errors
/// There is no view yet, or it cannot be read.
pub(crate) fn text(source: &Source) -> Result<String> {
    text_at(source, clock::wall_ms(), share(source))
}

/// The same for a given time (ms since 1970), with size and free space of the share's file system.
pub(crate) fn text_at(source: &Source, now_ms: i64, share: Option<(u64, u64)>) -> Result<String> {
    let text = with_input(source, now_ms, share, metrics::text)?;
    text.map_err(|e| Fail::system(format!("the figures cannot be written as text: {e}")))
}

/// All current figures that are a single number.
///
/// # Errors
/// There is no view yet, or it cannot be read.
pub(crate) fn points(source: &Source) -> Result<Vec<MetricPoint>> {
    with_input(source, clock::wall_ms(), share(source), metrics::points)
}

/// Size and free space of the share's file system, in bytes; `None`: unknown.
fn share(source: &Source) -> Option<(u64, u64)> {
    let disk = statfs::disk_free(source.layout.root()).ok()?;
    Some((disk.total, disk.available))
}

fn with_input<T>(
    source: &Source,
    now_ms: i64,
    share: Option<(u64, u64)>,
    give: fn(&MetricsInput<'_>) -> T,
) -> Result<T> {
    let params = source.params()?;
    let leader = leadership::leader(source, &params)?;
    let standby = leadership::standby(&source.layout, &leader.host);
    let (hosts, queues) = (source.counted_hosts()?, source.counted_queues()?);
    let mut jobs = JobSums::new(now_ms);
    let read = source
        .view
        .stream(&JobSet::default(), &mut |piece| match piece {
            ViewItem::Restart => jobs = JobSums::new(now_ms),
            ViewItem::Job { row, spec, .. } => jobs.add(&row, spec),
        });
    let read = read.map_err(|e| source.failed(e))?;
    source.warn(&read.warnings);
    jobs.sum_groups(&groups(&params));
    // The other figures are still useful without these.
    let figures = source.view.figures().unwrap_or_else(|e| {
        source.warn(&[e.to_string()]);
        None
    });
    Ok(give(&MetricsInput {
        silent_ms: leadership::silence(source, &params),
        users: source.may_see_all(&params),
        params: &params,
        leader: &leader,
        standby: &standby,
        hosts: &hosts,
        queues: &queues,
        jobs: &jobs,
        figures: figures.as_ref(),
        share,
    }))
}

/// The user groups of cb.yaml that a user is in.
fn groups(params: &Params) -> impl Fn(&str) -> Vec<String> {
    let sets = UserSets::new(params, &read::os_groups);
    move |user| {
        let names = params.user_groups.iter().map(|(name, ..)| name);
        names
            .filter(|g| sets.contains_user(g, user))
            .cloned()
            .collect()
    }
}
