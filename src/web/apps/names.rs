//! The names of programs of jobs: each has its own host name, and therefore its own origin in a
//! browser. Pure.
//!
//! Below `localhost`, which browsers resolve to this machine, or below the configured domain of the
//! portal: `j12.localhost`, `j12-3.apps.example.org`.

use crate::Settings;
use crate::guard::OWN_NAMES;
use corral::model::JobKey;

/// The parent of the names for callers that reach the portal by a name of this machine for itself.
const NEAR: &str = "localhost";

/// The first label of the name of a job's program.
fn label(key: JobKey) -> String {
    match key.idx {
        0 => format!("j{}", key.id),
        idx => format!("j{}-{idx}", key.id),
    }
}

fn key_of(text: &str) -> Option<JobKey> {
    let (id, idx) = text
        .strip_prefix('j')?
        .split_once('-')
        .unwrap_or((&text[1..], "0"));
    let key = JobKey {
        id: id.parse().ok()?,
        idx: idx.parse().ok()?,
    };
    // Each job has exactly one name: no leading zeros, no plus sign.
    (label(key) == text).then_some(key)
}

/// Splits a header Host into name and port; the port has its colon, or is empty.
pub(super) fn split(host: &str) -> (&str, &str) {
    match host.rfind(':') {
        Some(at) if host[at + 1..].bytes().all(|b| b.is_ascii_digit()) => host.split_at(at),
        _ => (host, ""),
    }
}

/// The job whose program a Host names; `None`: the name does not belong to a program.
pub(super) fn job_of(host: &str, settings: &Settings) -> Option<JobKey> {
    let host = host.to_ascii_lowercase();
    let (name, _) = split(&host);
    let below = |domain: &str| {
        name.strip_suffix(domain)?
            .strip_suffix('.')
            .and_then(key_of)
    };
    let far = settings.apps_domain.as_deref().and_then(below);
    far.or_else(|| below(NEAR))
}

/// The Host of a job's program for a caller that reached the portal by `host`; `None`: there is no
/// domain for such callers.
pub(super) fn host_of(key: JobKey, host: &str, settings: &Settings) -> Option<String> {
    let host = host.to_ascii_lowercase();
    let (name, port) = split(&host);
    let domain = match (OWN_NAMES.contains(&name), &settings.apps_domain) {
        (true, _) => NEAR,
        (false, Some(domain)) => domain,
        (false, None) => return None,
    };
    Some(format!("{}.{domain}{port}", label(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(domain: Option<&str>) -> Settings {
        Settings {
            apps_domain: domain.map(str::to_owned),
            ..Settings::default()
        }
    }

    #[test]
    fn a_name_is_of_one_job_and_back() {
        let (near, far) = (settings(None), settings(Some("apps.example.org")));
        let key = JobKey::element(12, 3);
        let name = |host: &str, settings| host_of(key, host, settings).unwrap_or_default();
        assert_eq!(name("localhost:8080", &near), "j12-3.localhost:8080");
        assert_eq!(name("127.0.0.1:1", &far), "j12-3.localhost:1");
        assert_eq!(name("Portal.example.org", &far), "j12-3.apps.example.org");
        assert_eq!(name("[::1]:80", &far), "j12-3.localhost:80");
        assert_eq!(name("portal.example.org", &near), "");
        for host in ["j12-3.localhost:8080", "J12-3.APPS.example.org"] {
            assert_eq!(job_of(host, &far), Some(key), "{host}");
        }
        assert_eq!(job_of("j7.localhost", &near), Some(JobKey::job(7)));
        assert_eq!(job_of("j12-3.apps.example.org", &near), None);
    }

    #[test]
    fn other_names_are_none_of_these() {
        let far = settings(Some("apps.example.org"));
        for host in [
            "",
            "localhost:1",
            "apps.example.org",
            "j.localhost",
            "j01.localhost",
            "j+1.localhost",
            "j1-0.localhost",
            "x.j1.localhost",
            "j1.localhost.evil",
            "j1.evil.localhost",
            "j1localhost",
            "j1.xapps.example.org",
            "j99999999999.localhost",
        ] {
            assert_eq!(job_of(host, &far), None, "{host}");
        }
    }
}
