//! Section `portal`: its values and defaults, and every refusal with the place of its caret.

use super::{good, read, warnings, with};
use crate::config::{Portal, changes};

fn portal(text: &str) -> Portal {
    good(&format!("portal: {text}\n")).portal
}

#[test]
fn what_it_says_is_read_and_what_it_leaves_out_is_the_default() {
    assert!(good("").portal.is_default());
    let none = Portal::default();
    assert!(!none.pam && none.trust_proxy.is_empty() && none.pam_service == "corral");
    assert_eq!(none.user, "corral-web");
    let p = portal(
        "{listen: '0.0.0.0:443', names: [Portal.Example.org, alias], user: web, \
         tls_cert: /etc/c.pem, tls_key: /etc/k.pem, metrics_open: yes, apps_domain: Apps.example.org, \
         trust_proxy: [127.0.0.1, '10.0.0.0/8', '::1'], pam: yes, pam_service: corral-site, \
         session_idle: 30m, session_max: 8h}",
    );
    assert_eq!(p.listen.unwrap().to_string(), "0.0.0.0:443");
    assert_eq!(p.names, ["portal.example.org", "alias"]);
    assert_eq!(
        (p.user.as_str(), p.pam_service.as_str()),
        ("web", "corral-site")
    );
    let (cert, key) = p.tls.clone().unwrap();
    assert_eq!(
        (cert.to_str(), key.to_str()),
        (Some("/etc/c.pem"), Some("/etc/k.pem"))
    );
    assert!(p.pam && p.metrics_open);
    assert_eq!(p.apps_domain.as_deref(), Some("apps.example.org"));
    let nets: Vec<String> = p.trust_proxy.iter().map(ToString::to_string).collect();
    assert_eq!(nets, ["127.0.0.1", "10.0.0.0/8", "::1"]);
    assert_eq!(
        (p.session_idle_ms, p.session_max_ms),
        (1_800_000, 28_800_000)
    );
    let short = portal("{session_max: 1h}");
    assert_eq!(short.session_idle_ms, short.session_max_ms);
    assert_eq!(portal("{trust_proxy: 127.0.0.1}").trust_proxy.len(), 1);
}

/// As the portal's processes pass it on.
#[test]
fn it_comes_back_as_it_was() {
    for text in [
        "{}",
        "{pam: yes, session_max: 1h}",
        "{names: [a], listen: '127.0.0.1:1'}",
    ] {
        let portal = portal(text);
        let bytes = serde_json::to_vec(&portal).unwrap();
        assert_eq!(
            serde_json::from_slice::<Portal>(&bytes).unwrap(),
            portal,
            "{text}"
        );
    }
}

#[test]
fn it_is_part_of_the_digest_and_of_what_a_change_comes_to() {
    let (none, yes) = (good(""), good("portal: {pam: yes}\n"));
    assert_ne!(none.digest(), yes.digest());
    assert_eq!(none.digest(), good("portal: {pam: no}\n").digest());
    let more = good("portal: {pam: yes, trust_proxy: 10.0.0.0/8}\n");
    let all = changes(&yes, &more);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].place, "portal.trust_proxy");
    assert_eq!(all[0].after.as_deref(), Some("[\"10.0.0.0/8\"]"));
}

/// Text under `portal:`, the kind of the only problem, and the text at its caret.
const REFUSED: &[(&str, &str, &str)] = &[
    ("{pam: maybe}", "flag", "maybe"),
    ("{pma: yes}", "unknown-key", "pma"),
    ("{listen: 8080}", "address", "8080"),
    ("{listen: 'localhost:8080'}", "address", "'localhost"),
    ("{listen: '0.0.0.0:8080'}", "conflict", "listen"),
    ("{names: [a, 'https://b']}", "name", "'https"),
    ("{names: 'a:80'}", "name", "'a:80"),
    ("{user: 'a b'}", "name", "'a b'"),
    ("{apps_domain: apps}", "name", "apps}"),
    ("{apps_domain: 'a..b'}", "name", "'a..b'"),
    ("{names: [a.b], apps_domain: a.b}", "conflict", "a.b}"),
    ("{pam: yes, pam_service: ../su}", "name", "../su"),
    ("{pam: yes, pam_service: ''}", "name", "''"),
    ("{tls_cert: /a}", "missing-key", "tls_cert"),
    ("{tls_key: /a}", "missing-key", "tls_key"),
    ("{tls_cert: a, tls_key: /b}", "path", "a, tls"),
    ("{trust_proxy: [127.0.0.1, proxy]}", "address", "proxy]"),
    ("{trust_proxy: '10.0.0.1/8'}", "address", "10.0.0.1/8"),
    ("{trust_proxy: ['0.0.0.0/0']}", "address", "0']"),
    ("{session_idle: 5}", "range", "5}"),
    ("{session_max: 31d}", "range", "31d"),
    (
        "{session_idle: 5h, session_max: 4h}",
        "conflict",
        "session_idle",
    ),
    ("5", "type", "5"),
];

#[test]
fn what_is_wrong_is_refused_at_its_place() {
    for (text, code, at) in REFUSED {
        let file = with(&format!("portal: {text}\n"));
        let problems = read(&file).expect_err(text);
        let found: Vec<&str> = problems.iter().map(|p| p.code).collect();
        assert_eq!(found, [*code], "{text}");
        let p = &problems[0];
        let rest: String = p.source.chars().skip(p.col as usize - 1).collect();
        let (rest, at) = (rest.trim_start_matches('\''), at.trim_start_matches('\''));
        assert!(
            rest.starts_with(at),
            "{text}: caret at {rest:?}, not {at:?}"
        );
    }
}

#[test]
fn a_service_of_pam_that_nothing_uses_is_warned_of() {
    assert_eq!(
        warnings(&with("portal: {pam_service: corral}\n")),
        ["no-effect"]
    );
}
