//! The files that users leave for the portal below their drop boxes: proofs of identity, and the
//! address of their own portal.
//!
//! Owns names and content. A secret is never written: only its SHA-256 is. The owner of the file is
//! the user who may use it.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Maximum time for which a login link is valid, ms.
pub const LOGIN_MS: i64 = 60_000;
/// Number of random bytes of a secret.
pub const SECRET_BYTES: usize = 32;
/// Maximum size of such a document in bytes.
pub const DOC_MAX: u64 = 4096;
/// Name of the file with the address of a user's own portal.
pub const ADDRESS: &str = "address";

/// A secret of this user: `<uid>-<hexadecimal digits>`. It names its user so that a portal for all
/// users knows where to look; only the random bytes prove anything.
pub fn secret_of(uid: u32, random: &[u8]) -> String {
    format!("{uid}-{}", hex(random))
}

/// The user that such a secret names.
pub fn claimed_uid(secret: &str) -> Option<u32> {
    let (uid, random) = secret.split_once('-')?;
    let is_random = random.len() == 2 * SECRET_BYTES && is_hexadecimal(random);
    let number = uid.parse::<u32>().ok().filter(|n| n.to_string() == uid);
    number.filter(|_| is_random)
}

/// The SHA-256 of a secret, in hexadecimal digits.
pub fn digest(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(out, "{byte:02x}").expect("a string takes every write");
    }
    out
}

/// Name of the empty file that proves a login: `l.<digest>.<end>`, the end in ms since 1970.
pub fn login_name(digest: &str, ends: i64) -> String {
    format!("l.{digest}.{ends}")
}

/// Digest and end in such a name.
pub fn parse_login_name(name: &str) -> Option<(&str, i64)> {
    let (digest, ends) = name.strip_prefix("l.")?.split_once('.')?;
    let ends = ends.parse().ok()?;
    is_digest(digest).then_some((digest, ends))
}

/// Name of the file of a token for programs.
pub fn token_name(digest: &str) -> String {
    format!("t.{digest}")
}

/// The digest in such a name.
pub fn parse_token_name(name: &str) -> Option<&str> {
    name.strip_prefix("t.").filter(|digest| is_digest(digest))
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && is_hexadecimal(text)
}

fn is_hexadecimal(text: &str) -> bool {
    let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.bytes().all(is_digit)
}

/// The rights of a token; each level includes the previous ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read what its owner can read.
    Read,
    /// Submit jobs and act on them.
    Submit,
    /// Do what its owner may do as an administrator.
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Submit, Scope::Admin];

    pub fn word(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Submit => "submit",
            Scope::Admin => "admin",
        }
    }

    pub fn parse(word: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.word() == word)
    }
}

/// A token for programs, without the secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortalToken {
    /// The name for users: the first digits of its digest.
    pub id: String,
    pub scope: Scope,
    /// Times in ms since 1970.
    pub created: i64,
    pub ends: i64,
    #[serde(default)]
    pub note: String,
}

/// The address of a user's own portal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortalAddress {
    /// `http://127.0.0.1:8080`, without a slash at the end.
    pub url: String,
    /// Path of the socket, if it listens on one.
    #[serde(default)]
    pub socket: String,
    pub host: String,
    pub pid: u32,
    pub since: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let digest = digest("secret");
        assert_eq!(digest.len(), 64);
        let name = login_name(&digest, 17);
        assert_eq!(parse_login_name(&name), Some((digest.as_str(), 17)));
        assert_eq!(
            parse_token_name(&token_name(&digest)),
            Some(digest.as_str())
        );
        for bad in ["l.x.1", "l.", "t.", "t.../../x", "r.1", ""] {
            assert_eq!(parse_login_name(bad), None, "{bad}");
            assert_eq!(parse_token_name(bad), None, "{bad}");
        }
        let upper = digest.to_uppercase();
        assert_eq!(parse_token_name(&format!("t.{upper}")), None);
    }

    #[test]
    fn a_secret_says_whose_it_is() {
        let secret = secret_of(1000, &[7; SECRET_BYTES]);
        assert_eq!(claimed_uid(&secret), Some(1000));
        let (_, random) = secret.split_once('-').unwrap();
        for bad in ["", "1000", "-", "x-", "1000-", "1000-zz", random] {
            assert_eq!(claimed_uid(bad), None, "{bad}");
        }
        for uid in ["+1", "01", "4294967296", "-1", ""] {
            assert_eq!(claimed_uid(&format!("{uid}-{random}")), None, "{uid}");
        }
        assert_eq!(claimed_uid(&format!("1-{random}0")), None);
    }

    #[test]
    fn a_scope_includes_those_before() {
        assert!(Scope::Admin > Scope::Submit && Scope::Submit > Scope::Read);
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.word()), Some(scope));
        }
        assert_eq!(Scope::parse("root"), None);
    }
}
