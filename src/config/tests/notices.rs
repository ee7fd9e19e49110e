//! Sections `alerts`, `receivers` and `mail`: the results of valid sections, and every refusal with
//! the place of its caret.

use super::super::*;
use super::{good, read, warnings, with};

const MAIL: &str = "mail: {smtp: m.x, from: c@x}\n";
const HOOK: &str = "receivers: [{name: r, webhook: 'https://h/p'}]\n";

#[test]
fn a_mail_server_has_the_usual_ports_and_limits() {
    assert!(good("").notices.is_empty());
    let mail = |text: &str| {
        good(&format!("mail: {text}"))
            .notices
            .mail
            .expect("a server")
    };
    let plain = mail("{smtp: m.x, from: c@x.org}");
    assert_eq!(
        (plain.port, plain.hourly, plain.tls),
        (25, 100, MailTls::No)
    );
    let tls = mail(
        "{smtp: m.x, from: c@x.org, tls: starttls, user: u, password_file: /p, hourly: 5, \
         timeout: 2s, domain: y.org}",
    );
    assert_eq!((tls.port, tls.hourly, tls.timeout_ms), (587, 5, 2_000));
    assert_eq!(tls.account, Some(("u".into(), "/p".into())));
    assert_eq!(tls.domain, "y.org");
    let other = mail("{smtp: 'm.x:2525', from: c@x.org}");
    assert_eq!((other.host.as_str(), other.port), ("m.x", 2525));
    assert!(good(MAIL).notices.notifies_jobs());
}

#[test]
fn receivers_have_one_way() {
    let text = format!(
        "{MAIL}receivers:\n- {{name: a, mail: [x@y, z@y]}}\n- {{name: b, webhook: 'http://h:1/p', \
         timeout: 3s}}\n- {{name: c, program: /bin/x -v, job_notices: yes}}\n\
         - {{name: d, webhook_file: /etc/w}}\n"
    );
    let all = good(&text).notices.receivers;
    assert_eq!(
        all["a"].way,
        ReceiverKind::Mail(vec!["x@y".into(), "z@y".into()])
    );
    assert_eq!(all["b"].timeout_ms, 3_000);
    assert_eq!(
        all["c"].way,
        ReceiverKind::Program(vec!["/bin/x".into(), "-v".into()])
    );
    assert!(all["c"].job_notices && !all["b"].job_notices);
    assert_eq!(all["d"].way, ReceiverKind::WebhookFile("/etc/w".into()));
}

#[test]
fn words_of_watch_are_figures_with_marks() {
    let rule = |text: &str| {
        let text = format!("{HOOK}alerts: [{{name: a, to: r, {text}}}]\n");
        good(&text).notices.alerts.remove(0)
    };
    let silent = rule("watch: host_silent, hosts: 'h*', for: 5m, severity: critical");
    assert_eq!(silent.metric, "corral_host_status");
    assert_eq!(
        (silent.for_ms, silent.severity),
        (300_000, Severity::Critical)
    );
    assert_eq!(silent.matches["host"], ["h*"]);
    assert!(silent.mark.is_passed(1.0) && !silent.mark.is_passed(0.0));
    let part = rule("watch: share_full, under: 5%");
    assert_eq!(part.metric, "corral_share_free_ratio");
    assert_eq!(part.mark, ThresholdSide::Under(0.05));
    assert_eq!(
        rule("watch: share_full, under: 1G").mark,
        ThresholdSide::Under(f64::from(1 << 30))
    );
    assert_eq!(
        rule("watch: tmp_full, under: 5").mark,
        ThresholdSide::Under(f64::from(5 << 20))
    );
    let waits = rule("watch: pending, over: 2h, queues: q");
    assert_eq!(
        (waits.mark, waits.gone_ms),
        (ThresholdSide::Over(7200.0), 0)
    );
    assert!(rule("watch: no_open_hosts").mark.is_passed(0.0));
    let hot = rule("watch: resource, resource: gpu_temp, over: 85.5, labels: {team: 'a|b'}");
    assert_eq!(hot.matches["resource"], ["gpu_temp"]);
    assert_eq!(hot.labels["team"], "a|b");
    let any = rule("watch: metric, metric: corral_jobs, match: {state: 'pend | run'}, under: -1");
    assert_eq!(
        (any.mark, &any.matches["state"][..]),
        (
            ThresholdSide::Under(-1.0),
            &["pend".to_owned(), "run".to_owned()][..]
        )
    );
}

/// Sections, the kind of the only problem, and the text at its caret.
const REFUSED: &[(&str, &str, &str)] = &[
    ("mail: {from: c@x}", "missing-key", "{from"),
    ("mail: {smtp: m}", "missing-key", "{smtp"),
    ("mail: {smtp: 'm:0', from: c@x}", "port", "'m:0'"),
    ("mail: {smtp: 'a b', from: c@x}", "host", "'a b'"),
    ("mail: {smtp: m, from: me}", "address", "me"),
    ("mail: {smtp: m, from: c@x, tls: maybe}", "choice", "maybe"),
    ("mail: {smtp: m, from: c@x, user: u}", "missing-key", "user"),
    (
        "mail: {smtp: m, from: c@x, password_file: /p}",
        "missing-key",
        "password_file",
    ),
    (
        "mail: {smtp: m, from: c@x, user: u, password_file: /p}",
        "tls",
        "u,",
    ),
    ("mail: {smtp: m, from: c@x, hourly: 0}", "range", "0"),
    (
        "mail: {smtp: m, from: c@x, sender: y}",
        "unknown-key",
        "sender",
    ),
    (
        "receivers: [{webhook: 'http://h/'}]",
        "missing-key",
        "{webhook",
    ),
    ("receivers: [{name: a}]", "missing-key", "{name"),
    (
        "receivers: [{name: a, webhook: 'http://h/', program: /x}]",
        "missing-key",
        "{name",
    ),
    ("receivers: [{name: a, webhook: 'ftp://h/'}]", "url", "'ftp"),
    (
        "receivers: [{name: a, webhook: 'http:///x'}]",
        "url",
        "'http",
    ),
    ("receivers: [{name: a, program: x -v}]", "path", "x -v"),
    (
        "receivers: [{name: a, mail: x@y}]",
        "missing-section",
        "x@y",
    ),
    (
        "receivers: [{name: a, program: /x, timeout: 1h}]",
        "range",
        "1h",
    ),
    (
        "receivers: [{name: a, program: /x}, {name: a, program: /x}]",
        "duplicate",
        "a, program: /x}]",
    ),
    (
        "alerts: [{watch: host_silent, to: r}]",
        "missing-key",
        "{watch",
    ),
    ("alerts: [{name: a, to: r}]", "missing-key", "{name"),
    ("alerts: [{name: a, watch: moon, to: r}]", "choice", "moon"),
    (
        "alerts: [{name: a, watch: host_silent, to: nix}]",
        "undefined",
        "nix",
    ),
    (
        "alerts: [{name: a, watch: host_silent, over: 1, to: r}]",
        "no-effect",
        "over",
    ),
    (
        "alerts: [{name: a, watch: pending, to: r}]",
        "missing-key",
        "{name",
    ),
    (
        "alerts: [{name: a, watch: pending, under: 1, to: r}]",
        "no-effect",
        "under",
    ),
    (
        "alerts: [{name: a, watch: pending, over: soon, to: r}]",
        "time",
        "soon",
    ),
    (
        "alerts: [{name: a, watch: pending, over: 1h, queues: nix, to: r}]",
        "undefined",
        "nix",
    ),
    (
        "alerts: [{name: a, watch: pending, over: 1h, hosts: h1, to: r}]",
        "no-effect",
        "hosts",
    ),
    (
        "alerts: [{name: a, watch: share_full, under: 101%, to: r}]",
        "range",
        "101%",
    ),
    (
        "alerts: [{name: a, watch: tmp_full, under: 5%, to: r}]",
        "size",
        "%,",
    ),
    (
        "alerts: [{name: a, watch: resource, over: 5, to: r}]",
        "missing-key",
        "{name",
    ),
    (
        "alerts: [{name: a, watch: resource, resource: t, over: x, to: r}]",
        "number",
        "x",
    ),
    (
        "alerts: [{name: a, watch: metric, over: 5, to: r}]",
        "missing-key",
        "{name",
    ),
    (
        "alerts: [{name: a, watch: metric, metric: up, over: 5, to: r}]",
        "metric",
        "up",
    ),
    (
        "alerts: [{name: a, watch: metric, metric: corral_job_wait_seconds_sum, over: 5, to: r}]",
        "metric",
        "corral",
    ),
    (
        "alerts: [{name: a, watch: host_silent, match: {a: b}, to: r}]",
        "no-effect",
        "match",
    ),
    (
        "alerts: [{name: a, watch: host_silent, for: 31d, to: r}]",
        "range",
        "31d",
    ),
    (
        "alerts: [{name: a, watch: host_silent, labels: {a: [b]}, to: r}]",
        "type",
        "[b]",
    ),
    (
        "alerts: [{name: a, watch: host_silent, labels: {a-b: c}, to: r}]",
        "label",
        "a-b",
    ),
];

#[test]
fn what_is_wrong_is_refused_at_its_place() {
    for (text, code, at) in REFUSED {
        let hook = if text.starts_with("alerts") { HOOK } else { "" };
        let problems = read(&with(&format!("{hook}{text}\n"))).expect_err(text);
        let found: Vec<&str> = problems.iter().map(|p| p.code).collect();
        assert_eq!(found, [*code], "{text}: {problems:?}");
        let p = &problems[0];
        let rest: String = p.source.chars().skip(p.col as usize - 1).collect();
        let rest = rest.trim_start_matches('\'');
        let at = at.trim_start_matches('\'');
        assert!(
            rest.starts_with(at),
            "{text}: caret at {rest:?}, not {at:?}"
        );
    }
}

#[test]
fn an_alert_that_tells_nobody_is_warned_of() {
    let text = with("alerts: [{name: a, watch: host_silent}]\n");
    assert_eq!(warnings(&text), ["no-receiver"]);
}
