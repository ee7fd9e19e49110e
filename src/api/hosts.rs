//! Load of the hosts as published by the leader, for programs that store samples.
//!
//! Only reads the view.

use super::Failure;
use crate::client::read::Source;
use crate::record::view::HostRow;
use crate::show::load;
use crate::spool::Site;

/// The content of a host's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLine {
    pub host: String,
    /// A JSON object on one line, without the newline.
    pub json: String,
}

/// All hosts by name.
///
/// # Errors
/// There is no view yet, or it cannot be read.
pub fn samples(site: &Site) -> Result<Vec<HostLine>, Failure> {
    let source = Source::of("hosts", site.clone());
    let hosts = source.view.counted_hosts().map_err(|e| source.failed(e))?;
    Ok(hosts.rows.iter().map(line).collect())
}

fn line(row: &HostRow) -> HostLine {
    HostLine {
        host: row.name.clone(),
        json: load::sample(row),
    }
}
