//! Which certificate authorities are trusted: those of the host, including those of the site, if
//! the host has a list of them.

use corral::sys::fs;
use std::path::Path;

/// The files of distributions: Debian, Red Hat, SUSE.
const BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];
/// Maximum size of a list, in bytes.
const BUNDLE_MAX: u64 = 16 << 20;

/// The list in PEM; `None`: there is none, and the built-in authorities are trusted.
/// `SSL_CERT_FILE` names another one.
pub(crate) fn bundle() -> Option<Vec<u8>> {
    let named = std::env::var("SSL_CERT_FILE").ok();
    let places = named.iter().map(String::as_str).chain(BUNDLES);
    let read = |place| {
        fs::read_optional(Path::new(place), BUNDLE_MAX)
            .ok()
            .flatten()
    };
    places.filter_map(read).next()
}
