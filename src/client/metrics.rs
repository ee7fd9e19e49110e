//! The cluster's figures as text for Prometheus: `cadmin metrics`, and the portal's `/metrics`.
//!
//! Reads the published view like any command, and asks no daemon.

use super::exit::{Fail, Result};
use super::leadership;
use super::read::Source;
use crate::show::metrics::{Facts, JobSums, text};
use crate::spool::view::{Piece, Want};

/// The text.
///
/// # Errors
/// The view cannot be read.
pub(crate) fn figures(source: &Source, now_ms: i64) -> Result<String> {
    let params = source.params()?;
    let leader = leadership::leader(source, &params)?;
    let standby = leadership::standby(&source.layout, &leader.host);
    let (hosts, queues) = (source.counted_hosts()?, source.counted_queues()?);
    let mut jobs = JobSums::new(now_ms);
    let read = source
        .view
        .stream(&Want::default(), &mut |piece| match piece {
            Piece::Restart => jobs = JobSums::new(now_ms),
            Piece::Job { row, spec, .. } => jobs.add(&row, spec),
        });
    let read = read.map_err(|e| source.failed(e))?;
    source.warn(&read.warnings);
    let facts = Facts {
        silent_ms: leadership::silence(source, &params),
        users: source.sees_all(&params),
        params: &params,
        leader: &leader,
        standby: &standby,
        hosts: &hosts,
        queues: &queues,
        jobs: &jobs,
    };
    text(&facts).map_err(|e| Fail::system(format!("the figures cannot be written as text: {e}")))
}
