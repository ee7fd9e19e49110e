//! Floor 2: the shared directory. Names of files and the legal combinations of them.

pub mod beats;
mod epoch;
mod hazards;
mod layout;
pub mod leader_copy;
pub mod polling;
pub mod share_files;
mod site;
pub mod view;

pub use epoch::{claims, epoch_known};
pub use hazards::{Hazard, hazards};
pub use layout::Layout;
pub use site::{ROOT_LOCAL, Site, SiteError};

use crate::record::leader::ClusterDoc;
use crate::sys::trust::Owners;

/// The owners whose files the daemons of a cluster trust.
pub fn owners(cluster: &ClusterDoc) -> Owners {
    Owners {
        uid: cluster.service_uid,
        gid: cluster.service_gid,
    }
}
