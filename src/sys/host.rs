//! This machine's name and identity.
//!
//! Owns the host name as the system reports it; a virtual host's name comes from configuration.

use std::sync::OnceLock;

/// The host name without its domain; `localhost` if the system has none.
pub fn hostname() -> String {
    let full = nix::unistd::gethostname().map(|s| s.to_string_lossy().into_owned());
    let short = full
        .unwrap_or_default()
        .split('.')
        .next()
        .unwrap_or_default()
        .to_string();
    if short.is_empty() {
        "localhost".to_string()
    } else {
        short
    }
}

/// The host name of the system, with a domain if it has one.
pub fn node_name() -> String {
    let name = nix::unistd::gethostname();
    name.map_or(String::new(), |s| s.to_string_lossy().into_owned())
}

/// A short tag of this machine for temporary names on a shared directory: two hosts may have equal
/// process ids.
pub(crate) fn short_tag() -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    if let Some(machine) = super::platform::here() {
        return machine.name();
    }
    TAG.get_or_init(|| {
        let safe = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
        hostname().chars().filter(safe).take(32).collect()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_name_has_no_domain() {
        let h = super::hostname();
        assert!(!h.is_empty() && !h.contains('.'));
    }
}
