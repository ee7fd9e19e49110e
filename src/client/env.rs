//! Finds the cluster of this command; see [`Site`].

use super::exit::{Fail, Result};
use crate::record::leader::{CLUSTER_MAX, ClusterDoc};
pub(crate) use crate::spool::Site;
use crate::spool::SiteError;
use crate::sys;

impl From<SiteError> for Fail {
    fn from(e: SiteError) -> Fail {
        Fail::system(e.0)
    }
}

/// The cluster file: the id and name of the cluster.
///
/// # Errors
/// There is none, or it cannot be read.
pub(crate) fn cluster_of(site: &Site) -> Result<ClusterDoc> {
    let path = site.layout().cluster();
    let bytes =
        sys::fs::read_optional(&path, CLUSTER_MAX)?.ok_or_else(|| Fail::system(site.diagnose()))?;
    ClusterDoc::decode(&bytes).map_err(|e| Fail::system(format!("{}: {e}", path.display())))
}
