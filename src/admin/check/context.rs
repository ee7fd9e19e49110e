//! The cluster that is checked, and its location.

use crate::admin::dev::development;
use crate::client::env::Site;
use crate::client::exit::Fail;
use crate::record::leader::{CLUSTER_MAX, ClusterDoc};
use crate::spool::Layout;
use crate::sys;
use std::path::PathBuf;

/// The data that all checks share.
pub(crate) struct Ctx {
    pub layout: Layout,
    pub cluster: ClusterDoc,
    pub site: Option<Site>,
    /// Directory of the development cluster; `None` for a real cluster.
    pub development: Option<PathBuf>,
}

impl Ctx {
    /// Where a daemon of a host logs why it does not work.
    pub(super) fn log_of(&self, daemon: &str, host: &str) -> String {
        match &self.development {
            Some(dir) => format!("{}/log/{daemon}.{host}.log", dir.display()),
            None => format!("'journalctl -u {daemon}' on host {host}"),
        }
    }

    /// How to start a missing daemon of a host.
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
/// There is no cluster, it cannot be read, or its format is newer.
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
