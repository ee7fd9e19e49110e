//! The files by which the portal identifies a user. They are below the user's drop box, where only
//! that user can create names. The owner of a file is the proof; its name contains the SHA-256 of a
//! secret that only the user's programs have.
//!
//! Owns how these files are created, found and removed. Serves nothing and sends no request to the
//! leader.

use super::env::Site;
use super::exit::{Fail, Result};
use crate::record::portal::{
    self, ADDRESS, DOC_MAX, LOGIN_MS, PortalAddress, PortalToken, SECRET_BYTES, Scope,
};
use crate::record::sealed;
use crate::spool::Layout;
use crate::sys;
use crate::sys::fs::{self, Kind};
use std::path::{Path, PathBuf};

/// Maximum number of names that are read in the directory, and of tokens of one user.
const NAMES_MAX: usize = 1000;
const TOKENS_MAX: usize = 100;
/// Longest validity of a token, ms (a year).
pub const TOKEN_MS_MAX: i64 = 366 * 86_400_000;
/// Maximum difference between the clocks of two hosts, ms.
const SKEW_MS: i64 = 30_000;
/// Maximum length of the note of a token, in bytes.
const NOTE_MAX: usize = 100;

/// A new secret of the caller that can be part of a URL.
fn secret() -> String {
    let mut bytes = [0u8; SECRET_BYTES];
    sys::clock::random(&mut bytes);
    portal::secret_of(sys::users::effective_uid(), &bytes)
}

/// The caller's directory, created if missing.
fn own_directory(layout: &Layout) -> Result<PathBuf> {
    let uid = sys::users::effective_uid();
    let (own, dir) = (layout.inbox_of(uid), layout.portal_of(uid));
    let make = || -> sys::Result<()> {
        fs::mkdir(&own, 0o770)?;
        fs::mkdir(&dir, 0o750).map(drop)
    };
    sys::caller::with_private_umask(0o007, make).unwrap_or_else(|_| make())?;
    for (path, mode) in [(&own, 0o007), (&dir, 0o027)] {
        check_owner(path, uid, mode)?;
    }
    Ok(dir)
}

/// Refuses a directory that belongs to another user or is open to others.
fn check_owner(path: &Path, uid: u32, closed: u32) -> Result<()> {
    let found = fs::owner(path)?;
    match found {
        Some(f) if f.kind == Kind::Dir && f.uid == uid && f.mode & closed == 0 => Ok(()),
        _ => Err(Fail::system(format!(
            "{} is not a directory that belongs to you and is closed to others\nhint: remove it, \
             or chmod it; the command creates it again",
            path.display()
        ))),
    }
}

/// Creates the file of a login link and returns its secret.
///
/// # Errors
/// The drop box cannot be used.
pub(crate) fn make_login(site: &Site, now: i64) -> Result<String> {
    let dir = own_directory(&site.layout())?;
    remove_unused_links(&dir, now);
    let secret = secret();
    let name = portal::login_name(&portal::digest(&secret), now + LOGIN_MS);
    fs::publish_exact(&dir.join(name), b"", 0o600)?;
    Ok(secret)
}

/// Removes links that were not used in time.
fn remove_unused_links(dir: &Path, now: i64) {
    for entry in fs::list_dir(dir, NAMES_MAX).unwrap_or_default() {
        let name = entry.text().unwrap_or_default();
        if portal::parse_login_name(name).is_some_and(|(_, ends)| ends < now - SKEW_MS) {
            let _ = fs::remove(&dir.join(name));
        }
    }
}

/// Consumes the login link of `uid` with this secret. Returns true once, while the link is valid.
///
/// # Errors
/// The file exists and cannot be removed.
pub(crate) fn take_login(layout: &Layout, uid: u32, secret: &str, now: i64) -> Result<bool> {
    let dir = layout.portal_of(uid);
    let wanted = portal::digest(secret);
    let entries = match fs::list_dir(&dir, NAMES_MAX) {
        Err(e) if e.is_not_found() => return Ok(false),
        entries => entries?,
    };
    let names = entries.iter().filter_map(|entry| entry.text());
    let found = names.filter_map(|name| Some((name, portal::parse_login_name(name)?)));
    let mut good = false;
    for (name, (digest, ends)) in found {
        if digest != wanted {
            continue;
        }
        let path = dir.join(name);
        let owner = fs::owner(&path)?;
        let is_proof = owner.is_some_and(|f| f.kind == Kind::File && f.uid == uid);
        let used = remove_now(&path)?;
        let in_time = ends >= now && ends <= now + LOGIN_MS + SKEW_MS;
        good |= is_proof && used && in_time;
    }
    Ok(good)
}

/// Removes a file. If two processes do so at once, one of them finds no file and gets false.
fn remove_now(path: &Path) -> Result<bool> {
    let used_path = path.with_file_name(format!(".used.{}", sys::clock::nonce(8)));
    match fs::rename(path, &used_path) {
        Ok(()) => {
            fs::remove(&used_path)?;
            Ok(true)
        }
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Creates a token for programs; returns it with its secret.
///
/// # Errors
/// Its validity is too long or too short, there are too many tokens, or the drop box cannot be
/// used.
pub(crate) fn make_token(
    site: &Site,
    scope: Scope,
    (now, for_ms): (i64, i64),
    note: &str,
) -> Result<(PortalToken, String)> {
    if !(1..=TOKEN_MS_MAX).contains(&for_ms) {
        return Err(Fail::usage("--expires: from 1s to 366d"));
    }
    if note.len() > NOTE_MAX || note.chars().any(char::is_control) {
        return Err(Fail::usage(format!(
            "--note: at most {NOTE_MAX} bytes on one line"
        )));
    }
    let dir = own_directory(&site.layout())?;
    if tokens(&site.layout())?.len() >= TOKENS_MAX {
        return Err(Fail::refused(format!(
            "you have {TOKENS_MAX} tokens, which is the maximum\nhint: ctoken list shows them, \
             ctoken revoke ID removes one"
        )));
    }
    let secret = secret();
    let digest = portal::digest(&secret);
    let token = PortalToken {
        id: digest[..12].to_owned(),
        scope,
        created: now,
        ends: now + for_ms,
        note: note.to_owned(),
    };
    let text = serde_json::to_string(&token).map_err(|e| Fail::system(e.to_string()))?;
    fs::publish_mode(
        &dir.join(portal::token_name(&digest)),
        text.as_bytes(),
        0o600,
    )?;
    Ok((token, secret))
}

/// The caller's tokens, the oldest first; unreadable ones are left out.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn tokens(layout: &Layout) -> Result<Vec<PortalToken>> {
    let dir = layout.portal_of(sys::users::effective_uid());
    let entries = match fs::list_dir(&dir, NAMES_MAX) {
        Err(e) if e.is_not_found() => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.iter().filter_map(|entry| entry.text());
    let names = names.filter(|name| portal::parse_token_name(name).is_some());
    let mut all: Vec<PortalToken> = names.filter_map(|name| document(&dir.join(name))).collect();
    all.sort_by_key(|token| token.created);
    Ok(all)
}

/// Removes the caller's token with this id; false: there is no such token.
///
/// # Errors
/// It cannot be removed.
pub(crate) fn revoke_token(layout: &Layout, id: &str) -> Result<bool> {
    let dir = layout.portal_of(sys::users::effective_uid());
    let entries = match fs::list_dir(&dir, NAMES_MAX) {
        Err(e) if e.is_not_found() => return Ok(false),
        entries => entries?,
    };
    let mut removed = false;
    for name in entries.iter().filter_map(|entry| entry.text()) {
        let digest = portal::parse_token_name(name);
        if id.len() >= 8 && digest.is_some_and(|digest| digest.starts_with(id)) {
            removed |= remove_now(&dir.join(name))?;
        }
    }
    Ok(removed)
}

/// The token of `uid` with this secret, if it is still valid.
pub fn find_token(layout: &Layout, uid: u32, secret: &str, now: i64) -> Option<PortalToken> {
    let name = portal::token_name(&portal::digest(secret));
    let path = layout.portal_of(uid).join(name);
    let (bytes, owner) = fs::read_small_owned(&path, DOC_MAX).ok()?;
    let token: PortalToken = serde_json::from_slice(&bytes).ok()?;
    (owner == uid && token.ends > now).then_some(token)
}

/// Publishes where the caller's own portal listens.
///
/// # Errors
/// The drop box cannot be used.
pub(crate) fn publish_address(site: &Site, address: &PortalAddress) -> Result<()> {
    let dir = own_directory(&site.layout())?;
    let text = serde_json::to_string(address).map_err(|e| Fail::system(e.to_string()))?;
    Ok(fs::publish_mode(
        &dir.join(ADDRESS),
        text.as_bytes(),
        0o600,
    )?)
}

/// Withdraws the address, unless another portal has been started since.
pub(crate) fn withdraw_address(site: &Site, own_address: &PortalAddress) {
    if address(&site.layout()).as_ref() == Some(own_address) {
        let dir = site.layout().portal_of(sys::users::effective_uid());
        let _ = fs::remove(&dir.join(ADDRESS));
    }
}

/// Removes the address of a portal of the caller that no longer runs.
///
/// # Errors
/// It cannot be removed.
pub(crate) fn forget_address(layout: &Layout) -> Result<()> {
    let dir = layout.portal_of(sys::users::effective_uid());
    Ok(fs::remove(&dir.join(ADDRESS))?)
}

/// Where the caller's own portal listens, as published when it was started.
pub(crate) fn address(layout: &Layout) -> Option<PortalAddress> {
    document(&layout.portal_of(sys::users::effective_uid()).join(ADDRESS))
}

/// Publishes where the portal for all users listens. Only the owner of the share can do so.
///
/// # Errors
/// The share cannot be written.
pub(crate) fn publish_service(layout: &Layout, address: &PortalAddress) -> Result<()> {
    let text = sealed::to_json(address).map_err(|e| Fail::system(e.to_string()))?;
    Ok(fs::publish_mode(&layout.portal_service(), &text, 0o644)?)
}

/// Withdraws the address, unless another portal has been started since.
pub(crate) fn withdraw_service(layout: &Layout, own_address: &PortalAddress) {
    if service_address(layout).as_ref() == Some(own_address) {
        let _ = fs::remove(&layout.portal_service());
    }
}

/// Where the portal for all users listens. Only a file of root or of the owner of the share is
/// trusted, because login links are sent to the address in it.
pub(crate) fn service_address(layout: &Layout) -> Option<PortalAddress> {
    let share = fs::owner(&layout.cluster()).ok()??;
    let (bytes, owner) = fs::read_small_owned(&layout.portal_service(), DOC_MAX).ok()?;
    let is_believed = owner == 0 || owner == share.uid;
    let address = sealed::from_json(&bytes).ok().map(|(address, _)| address);
    address.filter(|_| is_believed)
}

fn document<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = fs::read_small(path, DOC_MAX).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> (tempfile::TempDir, Site) {
        let d = tempfile::tempdir().unwrap();
        std::fs::create_dir(d.path().join("inbox")).unwrap();
        let text = format!("CB_SHARE={}", d.path().display());
        let site = Site::from_conf("/e/cb.conf".as_ref(), &text, Some("h1".into())).unwrap();
        (d, site)
    }

    #[test]
    fn a_login_link_works_once_and_for_a_minute() {
        let (_d, site) = site();
        let (layout, me) = (site.layout(), sys::users::effective_uid());
        let take = |secret: &str, now| take_login(&layout, me, secret, now).unwrap();
        assert!(!take("x", 5), "there is no directory yet");
        let first = make_login(&site, 1_000_000).unwrap();
        assert!(!take("x", 1_000_001));
        assert!(take(&first, 1_000_001));
        assert!(!take(&first, 1_000_002), "it is used up");
        let late = make_login(&site, 1_000_000).unwrap();
        assert!(!take(&late, 1_000_001 + LOGIN_MS));
        let other = make_login(&site, 1_000_000).unwrap();
        assert!(!take_login(&layout, me + 1, &other, 1_000_001).unwrap());
        // A name that claims a longer validity than a link may have.
        let long = portal::login_name(&portal::digest("s"), i64::MAX);
        std::fs::write(layout.portal_of(me).join(long), "").unwrap();
        assert!(!take("s", 1_000_001));
    }

    #[test]
    fn tokens_are_found_by_their_secret_until_they_end_or_are_revoked() {
        let (_d, site) = site();
        let (layout, me) = (site.layout(), sys::users::effective_uid());
        let (token, secret) = make_token(&site, Scope::Submit, (1000, 500), "ci").unwrap();
        assert_eq!(find_token(&layout, me, &secret, 1400), Some(token.clone()));
        assert_eq!(find_token(&layout, me, &secret, 1500), None, "it has ended");
        assert_eq!(find_token(&layout, me, "../x", 1400), None);
        assert_eq!(find_token(&layout, me + 1, &secret, 1400), None);
        assert_eq!(tokens(&layout).unwrap(), vec![token.clone()]);
        let file = std::fs::read_dir(layout.portal_of(me)).unwrap().next();
        let text = std::fs::read_to_string(file.unwrap().unwrap().path()).unwrap();
        assert!(!text.contains(&secret), "only the digest is kept");
        assert!(!revoke_token(&layout, "00000000").unwrap());
        assert!(revoke_token(&layout, &token.id).unwrap());
        assert_eq!(find_token(&layout, me, &secret, 1400), None);
        assert!(make_token(&site, Scope::Read, (0, TOKEN_MS_MAX + 1), "").is_err());
        assert!(make_token(&site, Scope::Read, (0, 5), "a\nb").is_err());
    }

    #[test]
    fn the_address_is_taken_back_by_who_gave_it() {
        let (_d, site) = site();
        let own_address = PortalAddress {
            url: "http://127.0.0.1:1".into(),
            socket: String::new(),
            host: "h1".into(),
            pid: 1,
            since: 1,
        };
        publish_address(&site, &own_address).unwrap();
        assert_eq!(address(&site.layout()), Some(own_address.clone()));
        let other = PortalAddress {
            pid: 2,
            ..own_address.clone()
        };
        withdraw_address(&site, &other);
        assert_eq!(address(&site.layout()), Some(own_address.clone()));
        withdraw_address(&site, &own_address);
        assert_eq!(address(&site.layout()), None);
    }
}
