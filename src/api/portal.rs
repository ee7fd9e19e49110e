//! How the portal identifies users: files below drop boxes, whose owners are the proof; and the
//! settings of the portal in cb.yaml.

pub use crate::client::portal::{TOKEN_MS_MAX, find_token as token_of};
pub use crate::config::{Portal, is_apps_domain};
pub use crate::record::portal::{LOGIN_MS, PortalAddress, PortalToken, Scope, claimed_uid};

use super::{Failure, FailureKind};
use crate::client::portal;
use crate::config::{self, OsNames};
use crate::record::leader::{CLUSTER_MAX, ClusterDoc};
use crate::spool::{self, Layout, Site};
use crate::sys::fs;
use std::path::Path;

/// The portal's settings in cb.yaml as the leader has put them in force; if the cluster never had a
/// leader, as they are in the file. Accounts and groups in it are not looked up.
///
/// # Errors
/// The file cannot be read, has problems, or others can write it or a directory above it.
pub fn portal_settings(site: &Site) -> Result<Portal, Failure> {
    let failed = |text: String| Failure {
        kind: FailureKind::System,
        text,
    };
    let layout = site.layout();
    let read = |path: &Path, most| fs::read_small(path, most).map_err(|e| failed(e.to_string()));
    let bytes = read(&layout.cluster(), CLUSTER_MAX)?;
    let doc = ClusterDoc::decode(&bytes);
    let doc = doc.map_err(|e| failed(format!("{}: {e}", layout.cluster().display())))?;
    let in_force = crate::master::config_in_force_path(&layout);
    let path = match fs::exists(&in_force) {
        true => in_force,
        false => layout.config(),
    };
    let safe = spool::owners(&doc).safe_to_load(&path, layout.root());
    safe.map_err(|e| failed(e.to_string()))?;
    let bytes = read(&path, config::MAX_BYTES as u64 + 100)?;
    if fs::exists(&crate::master::config_in_force_path(&layout)) {
        let intact = crate::record::sealed::open_text(&bytes);
        intact.map_err(|d| failed(format!("{}: {d}", path.display())))?;
    }
    let loaded = config::load(&bytes, &path.display().to_string(), &OsNames::ANY);
    loaded.map(|loaded| loaded.config.portal).map_err(|all| {
        let first = all.first().map_or_else(String::new, ToString::to_string);
        failed(format!("{first}\nhint: cadmin ckconfig"))
    })
}

/// Uses up a user's login link. Returns true once, while it is valid.
///
/// # Errors
/// The file exists but cannot be removed.
pub fn take_login(layout: &Layout, uid: u32, secret: &str, now: i64) -> Result<bool, Failure> {
    Ok(portal::take_login(layout, uid, secret, now)?)
}

/// Creates a login link for the caller. Returns its secret.
///
/// # Errors
/// The drop box cannot be used.
pub fn make_login(site: &Site, now: i64) -> Result<String, Failure> {
    Ok(portal::make_login(site, now)?)
}

/// Creates a token for programs of the caller. Returns it with its secret.
///
/// # Errors
/// It would be valid for too long, or the drop box cannot be used.
pub fn make_token(
    site: &Site,
    scope: Scope,
    times: (i64, i64),
    note: &str,
) -> Result<(PortalToken, String), Failure> {
    Ok(portal::make_token(site, scope, times, note)?)
}

/// Publishes the address of the caller's own portal.
///
/// # Errors
/// The drop box cannot be used.
pub fn publish_address(site: &Site, address: &PortalAddress) -> Result<(), Failure> {
    Ok(portal::publish_address(site, address)?)
}

/// Withdraws the address, unless another portal was started since.
pub fn withdraw_address(site: &Site, mine: &PortalAddress) {
    portal::withdraw_address(site, mine);
}

/// Publishes the address of the portal for all users, as the owner of the share.
///
/// # Errors
/// The share cannot be written.
pub fn publish_service(layout: &Layout, address: &PortalAddress) -> Result<(), Failure> {
    Ok(portal::publish_service(layout, address)?)
}

/// Withdraws the address, unless another portal was started since.
pub fn withdraw_service(layout: &Layout, mine: &PortalAddress) {
    portal::withdraw_service(layout, mine);
}
