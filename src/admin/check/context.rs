//! The cluster that is checked, and its location.

use crate::admin::dev::development;
use crate::client::env::Site;
use crate::client::exit::Fail;
use crate::record::leader::{CLUSTER_MAX, ClusterDoc};
use crate::spool::Layout;
use crate::sys;
use std::path::PathBuf;

/// What all checks share.
pub(crate) struct Ctx {
    pub layout: Layout,
    pub cluster: ClusterDoc,
    pub site: Option<Site>,
    /// Directory of the development cluster that this is; `None` for a real one.
    pub development: Option<PathBuf>,
}

impl Ctx {
    /// Where a daemon of a host says why it does not work.
    pub(super) fn log_of(&self, daemon: &str, host: &str) -> String {
        match &self.development {
            Some(dir) => format!("{}/log/{daemon}.{host}.log", dir.display()),
            None => format!("'journalctl -u {daemon}' on host {host}"),
        }
    }

    /// What starts a daemon of a host that is missing.
    pub(super) fn start_of(&self, daemon: &str) -> String {
        match &self.development {
            Some(dir) => format!("'cadmin dev up --dir {}' starts it", dir.display()),
            None => format!("start {daemon} there"),
        }
    }
}

/// Finds the cluster.
///
/// # Errors
/// There is none, it cannot be read, or it is of a newer format.
pub(crate) fn open(dir: Option<PathBuf>) -> Result<Ctx, Fail> {
    let (layout, site) = match dir {
        Some(dir) => (Layout::new(dir), None),
        None => {
            let site = Site::find()?;
            (site.layout(), Some(site))
        }
    };
    let path = layout.cluster();
    let bytes = sys::fs::read_small(&path, CLUSTER_MAX).map_err(|e| {
        let why = site.as_ref().map_or_else(|| e.to_string(), Site::diagnose);
        Fail::system(format!("{why}: nothing was checked"))
    })?;
    let cluster =
        ClusterDoc::decode(&bytes).map_err(|e| Fail::system(format!("{}: {e}", path.display())))?;
    Ok(Ctx {
        development: development(layout.root()),
        layout,
        cluster,
        site,
    })
}
