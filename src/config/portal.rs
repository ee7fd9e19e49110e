//! Section `portal` as plain values: the settings of the service `cbweb`. Owns no parsing.
//!
//! Times in milliseconds; `None` = the program's own default.

use crate::text::net::Net;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The PAM service that checks logins by password, and the account of the HTTP process, unless they
/// are set.
const PAM_SERVICE: &str = "corral";
const PORTAL_ACCOUNT: &str = "corral-web";
/// A session ends if it was not used for the first time, and in any case after the second.
const SESSION_IDLE_MS: u64 = 2 * 3_600_000;
const SESSION_MS: u64 = 12 * 3_600_000;

/// Section `portal`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Portal {
    /// Read at the start of the service; options of the command line take precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Names by which browsers may call the portal; links contain the first one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The account of the HTTP process.
    pub user: String,
    /// Files of certificate and key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<(PathBuf, PathBuf)>,
    pub metrics_open: bool,
    /// The domain of the names of jobs' programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apps_domain: Option<String>,
    /// From here on: read again while the service runs. Peers whose statements about callers are
    /// trusted.
    pub trust_proxy: Vec<Net>,
    /// Users may log in with their password.
    pub pam: bool,
    pub pam_service: String,
    pub session_idle_ms: u64,
    pub session_max_ms: u64,
}

impl Default for Portal {
    fn default() -> Portal {
        Portal {
            listen: None,
            names: Vec::new(),
            user: PORTAL_ACCOUNT.to_owned(),
            tls: None,
            metrics_open: false,
            apps_domain: None,
            trust_proxy: Vec::new(),
            pam: false,
            pam_service: PAM_SERVICE.to_owned(),
            session_idle_ms: SESSION_IDLE_MS,
            session_max_ms: SESSION_MS,
        }
    }
}

/// Whether a text can be the domain of programs: at least two labels of letters, digits and `-`.
pub fn is_apps_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        !label.is_empty() && label.bytes().all(plain)
    };
    domain.contains('.') && domain.split('.').all(is_label)
}

impl Portal {
    /// The section is missing, or has only default values.
    pub fn is_default(&self) -> bool {
        *self == Portal::default()
    }
}
