//! How the portal knows who somebody is: files below drop boxes, whose owners are the proof.

pub use crate::client::portal::{TOKEN_MS_MAX, find_token as token_of};
pub use crate::record::portal::{LOGIN_MS, PortalAddress, PortalToken, Scope, claimed_uid};

use super::Failure;
use crate::client::portal;
use crate::spool::{Layout, Site};

/// Uses up a user's login link: true once, while it is good.
///
/// # Errors
/// The file is there and cannot be removed.
pub fn take_login(layout: &Layout, uid: u32, secret: &str, now: i64) -> Result<bool, Failure> {
    Ok(portal::take_login(layout, uid, secret, now)?)
}

/// Makes a login link for the caller and gives its secret.
///
/// # Errors
/// The drop box cannot be used.
pub fn make_login(site: &Site, now: i64) -> Result<String, Failure> {
    Ok(portal::make_login(site, now)?)
}

/// Makes a token for programs of the caller; gives it with its secret.
///
/// # Errors
/// It would be good for too long, or the drop box cannot be used.
pub fn make_token(
    site: &Site,
    scope: Scope,
    times: (i64, i64),
    note: &str,
) -> Result<(PortalToken, String), Failure> {
    Ok(portal::make_token(site, scope, times, note)?)
}

/// Says where the caller's own portal listens.
///
/// # Errors
/// The drop box cannot be used.
pub fn publish_address(site: &Site, address: &PortalAddress) -> Result<(), Failure> {
    Ok(portal::publish_address(site, address)?)
}

/// Takes it back, unless another portal was started since.
pub fn withdraw_address(site: &Site, mine: &PortalAddress) {
    portal::withdraw_address(site, mine);
}

/// Says where the portal for all users listens; as the owner of the share.
///
/// # Errors
/// The share cannot be written.
pub fn publish_service(layout: &Layout, address: &PortalAddress) -> Result<(), Failure> {
    Ok(portal::publish_service(layout, address)?)
}

/// Takes it back, unless another one was started since.
pub fn withdraw_service(layout: &Layout, mine: &PortalAddress) {
    portal::withdraw_service(layout, mine);
}
