//! Sections `alerts`, `receivers` and `mail`. Owns their keys and the text of their values, and
//! which metric each word of `watch` means; never watches or sends anything.

use super::keys;
use super::notices::{
    AlertRule, MailServer, MailTls, Notices, Receiver, ReceiverKind, Severity, ThresholdSide,
};
use super::read::{Ctx, DAY, Fields, MINUTE, SECOND, Words};
use super::types::Queue;
use crate::text::duration::{self, DefaultUnit};
use crate::text::size::{self, Unit};
use crate::text::yaml::{Node, Value};
use std::collections::BTreeMap;

const MAX_RULES: usize = 500;
const MAX_RECEIVERS: usize = 100;
const MAX_ADDRESSES: usize = 50;
const MAX_LABELS: usize = 20;
/// Maximum length of a label, address or URL, in bytes.
const MAX_TEXT: usize = 2_000;
const MAIL_TIMEOUT: u64 = 30 * SECOND;
const TIMEOUT: u64 = 10 * SECOND;
const HOURLY: u32 = 100;
/// Figures of hosts may be missing for a while after a takeover: meanwhile their alerts do not
/// recover.
const GONE: u64 = 2 * MINUTE;

pub(super) fn notices(ctx: &mut Ctx<'_>, f: &Fields<'_>, queues: &[Queue]) -> Notices {
    let mail = f.node("mail").and_then(|node| mail(ctx, node));
    let receivers = receivers(ctx, f, mail.is_some());
    let alerts = alerts(ctx, f, &receivers, queues);
    Notices {
        alerts,
        receivers,
        mail,
    }
}

fn items<'n>(ctx: &mut Ctx<'_>, f: &Fields<'n>, key: &str, most: usize) -> &'n [Node] {
    let Some(node) = f.node(key) else {
        return &[];
    };
    let items = ctx.list(node, key);
    if items.len() > most {
        ctx.problem(f.key_pos(key), "range", format!("more than {most} {key}"));
    }
    &items[..items.len().min(most)]
}

/// The name of an entry; `None`: it is missing or invalid.
fn name(ctx: &mut Ctx<'_>, f: &Fields<'_>, what: &str) -> Option<Words> {
    let Some(w) = f.scalar(ctx, "name") else {
        if !f.has("name") {
            let message = format!("{what} has no name");
            ctx.problem_hint(f.pos, "missing-key", message, "write name: NAME");
        }
        return None;
    };
    ctx.check_name(&w).then_some(w)
}

fn mail(ctx: &mut Ctx<'_>, node: &Node) -> Option<MailServer> {
    let f = Fields::new(ctx, node, keys::MAIL, "mail")?;
    let smtp = required_text(ctx, &f, "smtp", "mail", "write smtp: HOST or HOST:PORT");
    let from = required_text(ctx, &f, "from", "mail", "write from: ADDRESS");
    if let Some(w) = &from {
        check_address(ctx, w, &w.text);
    }
    let ways = [
        ("no", MailTls::No),
        ("starttls", MailTls::Starttls),
        ("yes", MailTls::Yes),
    ];
    let tls = f.choice(ctx, "tls", &ways).unwrap_or(MailTls::No);
    let default_value = match tls {
        MailTls::No => 25,
        MailTls::Starttls => 587,
        MailTls::Yes => 465,
    };
    let (host, port) = server(ctx, &smtp?, default_value)?;
    let domain = f.scalar(ctx, "domain");
    if let Some(w) = &domain {
        check_host(ctx, w, &w.text);
    }
    Some(MailServer {
        host,
        port,
        tls,
        from: from?.text,
        domain: domain.map_or_else(String::new, |w| w.text),
        account: account(ctx, &f, tls),
        hourly: match f.number(ctx, "hourly", 1, 100_000) {
            Some(n) => u32::try_from(n).unwrap_or(HOURLY),
            None => HOURLY,
        },
        timeout_ms: f
            .time(ctx, "timeout", SECOND, 5 * MINUTE)
            .unwrap_or(MAIL_TIMEOUT),
    })
}

fn required_text(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    key: &str,
    what: &str,
    hint: &str,
) -> Option<Words> {
    let found = f.scalar(ctx, key);
    if found.is_none() && !f.has(key) {
        ctx.problem_hint(f.pos, "missing-key", format!("{what} has no {key}"), hint);
    }
    found
}

fn server(ctx: &mut Ctx<'_>, w: &Words, default_value: u16) -> Option<(String, u16)> {
    let (host, port) = match w.text.rsplit_once(':') {
        Some((host, port)) => match port.parse::<u16>() {
            Ok(port) if port > 0 => (host, port),
            _ => {
                let message = format!("smtp: {port:?} is not a port");
                ctx.problem_hint(w.pos, "port", message, "write a number from 1 to 65535");
                return None;
            }
        },
        None => (w.text.as_str(), default_value),
    };
    check_host(ctx, w, host).then(|| (host.to_owned(), port))
}

fn check_host(ctx: &mut Ctx<'_>, w: &Words, host: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let good = (1..=253).contains(&host.len()) && host.chars().all(plain);
    if !good {
        ctx.problem(w.pos, "host", format!("{host:?} is not the name of a host"));
    }
    good
}

fn account(ctx: &mut Ctx<'_>, f: &Fields<'_>, tls: MailTls) -> Option<(String, String)> {
    let (user, file) = (f.scalar(ctx, "user"), f.scalar(ctx, "password_file"));
    match (user, file) {
        (None, None) => None,
        (Some(user), Some(file)) => {
            check_path(ctx, &file, "password_file");
            if tls == MailTls::No {
                let message = "the password would be sent unencrypted";
                let hint = "write tls: starttls or tls: yes";
                ctx.problem_hint(user.pos, "tls", message, hint);
            }
            Some((user.text, file.text))
        }
        (Some(_), None) => {
            let message = "user needs password_file";
            let hint = "name a file that only the service account can read";
            ctx.problem_hint(f.key_pos("user"), "missing-key", message, hint);
            None
        }
        (None, Some(_)) => {
            let pos = f.key_pos("password_file");
            ctx.problem_hint(
                pos,
                "missing-key",
                "password_file needs user",
                "write user: NAME",
            );
            None
        }
    }
}

fn check_path(ctx: &mut Ctx<'_>, w: &Words, key: &str) {
    if !w.text.starts_with('/') {
        let message = format!("{key}: {:?} is not an absolute path", w.text);
        ctx.problem_hint(w.pos, "path", message, "begin it with /");
    }
}

/// Whether a text is a mail address, of the forms that need no quotes.
pub(crate) fn is_address(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let host = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    (1..=64).contains(&local.len())
        && local.chars().all(plain)
        && (1..=253).contains(&domain.len())
        && domain.chars().all(host)
}

fn check_address(ctx: &mut Ctx<'_>, w: &Words, address: &str) {
    if !is_address(address) {
        let pos = w.pos_of(address, ctx);
        let message = format!("{address:?} is not a mail address");
        ctx.problem_hint(pos, "address", message, "write NAME@DOMAIN");
    }
}

fn receivers(ctx: &mut Ctx<'_>, f: &Fields<'_>, mails: bool) -> BTreeMap<String, Receiver> {
    let mut out = BTreeMap::new();
    for item in items(ctx, f, "receivers", MAX_RECEIVERS) {
        let Some(f) = Fields::new(ctx, item, keys::RECEIVER, "a receiver") else {
            continue;
        };
        let Some(w) = name(ctx, &f, "a receiver") else {
            continue;
        };
        let Some(kind) = receiver_kind(ctx, &f, &w.text, mails) else {
            continue;
        };
        let receiver = Receiver {
            job_notices: f.flag(ctx, "job_notices", false),
            timeout_ms: f
                .time(ctx, "timeout", SECOND, 5 * MINUTE)
                .unwrap_or(match kind {
                    ReceiverKind::Mail(_) => MAIL_TIMEOUT,
                    _ => TIMEOUT,
                }),
            way: kind,
        };
        if receiver.job_notices && matches!(receiver.way, ReceiverKind::Mail(_)) {
            let message = "mail is sent to the users who request it: job_notices has no meaning \
                here";
            let hint = "give it to a webhook or a program";
            ctx.problem_hint(f.key_pos("job_notices"), "no-effect", message, hint);
        }
        if out.insert(w.text.clone(), receiver).is_some() {
            let message = format!("receiver {:?} is defined twice", w.text);
            ctx.problem(w.pos, "duplicate", message);
        }
    }
    out
}

/// Exactly one way must be given.
fn receiver_kind(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    name: &str,
    mails: bool,
) -> Option<ReceiverKind> {
    let ways = ["mail", "webhook", "webhook_file", "program"];
    let given: Vec<&str> = ways.into_iter().filter(|key| f.has(key)).collect();
    let [key] = given[..] else {
        let message = format!("receiver {name:?} has {} ways to be reached", given.len());
        let hint = "write one of mail, webhook, webhook_file, program";
        ctx.problem_hint(f.pos, "missing-key", message, hint);
        return None;
    };
    match key {
        "mail" => {
            let w = f.read_words(ctx, "mail")?;
            let all: Vec<String> = words(&w.text);
            all.iter()
                .for_each(|address| check_address(ctx, &w, address));
            if all.is_empty() || all.len() > MAX_ADDRESSES {
                let message = format!("mail takes 1 to {MAX_ADDRESSES} addresses");
                ctx.problem(w.pos, "range", message);
            }
            if !mails && !ctx.partial {
                let hint = "write section mail: with smtp: HOST and from: ADDRESS";
                ctx.problem_hint(w.pos, "missing-section", "no mail server is named", hint);
            }
            Some(ReceiverKind::Mail(all))
        }
        "webhook" => {
            let w = f.scalar(ctx, "webhook")?;
            if !is_url(&w.text) {
                let message = format!("webhook: {:?} is not a URL", w.text);
                ctx.problem_hint(
                    w.pos,
                    "url",
                    message,
                    "write https://HOST/PATH or http://...",
                );
            }
            Some(ReceiverKind::Webhook(w.text))
        }
        "webhook_file" => {
            let w = f.scalar(ctx, "webhook_file")?;
            check_path(ctx, &w, "webhook_file");
            Some(ReceiverKind::WebhookFile(w.text))
        }
        _ => {
            let w = f.read_words(ctx, "program")?;
            check_path(ctx, &w, "program");
            Some(ReceiverKind::Program(words(&w.text)))
        }
    }
}

/// Whether a text is a URL for webhooks: HTTP or HTTPS, with a host, and only characters that need
/// no escapes.
pub(crate) fn is_url(text: &str) -> bool {
    let rest = ["http://", "https://"].iter();
    let rest = rest.filter_map(|scheme| text.strip_prefix(scheme)).next();
    let plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}".contains(c);
    text.len() <= MAX_TEXT
        && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', ':', '?', '#']))
        && text.chars().all(plain)
}

fn words(text: &str) -> Vec<String> {
    let parts = text.split([' ', ',']).filter(|word| !word.is_empty());
    parts.map(str::to_owned).collect()
}

fn alerts(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    receivers: &BTreeMap<String, Receiver>,
    queues: &[Queue],
) -> Vec<AlertRule> {
    let mut out: Vec<AlertRule> = Vec::new();
    for item in items(ctx, f, "alerts", MAX_RULES) {
        let Some(f) = Fields::new(ctx, item, keys::ALERT, "an alert") else {
            continue;
        };
        let Some(w) = name(ctx, &f, "an alert") else {
            continue;
        };
        if out.iter().any(|rule| rule.name == w.text) {
            let message = format!("alert {:?} is defined twice", w.text);
            ctx.problem(w.pos, "duplicate", message);
        }
        let to = receivers_of(ctx, &f, &w.text, receivers);
        if let Some(rule) = alert(ctx, &f, &w.text, queues) {
            out.push(AlertRule { to, ..rule });
        }
    }
    out
}

fn receivers_of(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    alert: &str,
    receivers: &BTreeMap<String, Receiver>,
) -> Vec<String> {
    let Some(w) = f.read_words(ctx, "to") else {
        if !f.has("to") {
            let message = format!("alert {alert:?} has no receiver: only cinfo -health shows it");
            let hint = "write to: RECEIVER".to_owned();
            ctx.warn(f.pos, "no-receiver", message, Some(hint));
        }
        return Vec::new();
    };
    let to = words(&w.text);
    for name in &to {
        if !receivers.contains_key(name) {
            let pos = w.pos_of(name, ctx);
            ctx.undefined(pos, "receiver", name, receivers.keys().map(String::as_str));
        }
    }
    to
}

/// The meaning of a word of `watch`.
struct WatchTarget {
    metric: &'static str,
    state: Option<(&'static str, &'static [&'static str])>,
    /// The unit of its mark, and which side is bad; `None`: it has no mark.
    unit: MarkUnit,
    gone_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MarkUnit {
    /// The condition has no mark of its own.
    None,
    UnderSize,
    OverTime,
    Number,
}

const WATCHES: [(&str, WatchTarget); 7] = [
    (
        "host_silent",
        WatchTarget {
            metric: "corral_host_status",
            state: Some(("status", &["unavail", "unreach"])),
            unit: MarkUnit::None,
            gone_ms: GONE,
        },
    ),
    (
        "share_full",
        WatchTarget {
            metric: "corral_share_free_bytes",
            state: None,
            unit: MarkUnit::UnderSize,
            gone_ms: GONE,
        },
    ),
    (
        "tmp_full",
        WatchTarget {
            metric: "corral_host_tmp_free_bytes",
            state: None,
            unit: MarkUnit::UnderSize,
            gone_ms: GONE,
        },
    ),
    (
        "pending",
        WatchTarget {
            metric: "corral_pending_oldest_seconds",
            state: None,
            unit: MarkUnit::OverTime,
            gone_ms: 0,
        },
    ),
    (
        "no_open_hosts",
        WatchTarget {
            metric: "corral_queue_hosts_open",
            state: None,
            unit: MarkUnit::None,
            gone_ms: GONE,
        },
    ),
    (
        "resource",
        WatchTarget {
            metric: "corral_host_resource",
            state: None,
            unit: MarkUnit::Number,
            gone_ms: GONE,
        },
    ),
    (
        "metric",
        WatchTarget {
            metric: "",
            state: None,
            unit: MarkUnit::Number,
            gone_ms: GONE,
        },
    ),
];

fn alert(ctx: &mut Ctx<'_>, f: &Fields<'_>, name: &str, queues: &[Queue]) -> Option<AlertRule> {
    let choices: Vec<(&str, usize)> = WATCHES
        .iter()
        .enumerate()
        .map(|(n, (word, _))| (*word, n))
        .collect();
    if !f.has("watch") {
        let message = format!("alert {name:?} watches nothing");
        let all: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let hint = format!("write watch: {}", all.join(", "));
        ctx.problem_hint(f.pos, "missing-key", message, hint);
        return None;
    }
    let (word, watched) = &WATCHES[f.choice(ctx, "watch", &choices)?];
    let matches = matches(ctx, f, word, queues);
    let mark = match watched.unit {
        MarkUnit::None => no_mark(ctx, f, word),
        unit => mark(ctx, f, word, unit),
    };
    let severities = [Severity::Info, Severity::Warning, Severity::Critical];
    let severities = severities.map(|s| (s.word(), s));
    let mut rule = AlertRule {
        name: name.to_owned(),
        watch: (*word).to_owned(),
        metric: watched.metric.to_owned(),
        matches,
        state: watched.state.map(|(label, words)| {
            let words = words.iter().map(|word| (*word).to_owned());
            (label.to_owned(), words.collect())
        }),
        mark: ThresholdSide::Over(0.0),
        for_ms: f.time(ctx, "for", 0, 30 * DAY).unwrap_or(0),
        gone_ms: watched.gone_ms,
        severity: f.choice(ctx, "severity", &severities).unwrap_or_default(),
        labels: labels(ctx, f),
        to: Vec::new(),
    };
    if *word == "no_open_hosts" {
        rule.mark = ThresholdSide::Under(1.0);
    }
    if let Some((mark, of_ratio)) = mark? {
        rule.mark = mark;
        if of_ratio {
            rule.metric = "corral_share_free_ratio".to_owned();
        }
    }
    rule.metric = metric(ctx, f, word, rule.metric)?;
    if !rule.metric.starts_with("corral_host_") && *word == "metric" {
        // Figures that count nothing are omitted, which means a recovery.
        rule.gone_ms = 0;
    }
    Some(rule)
}

/// The name of the figure; any figure for `watch: metric`.
fn metric(ctx: &mut Ctx<'_>, f: &Fields<'_>, word: &str, default_value: String) -> Option<String> {
    if word != "metric" {
        only_with(ctx, f, "metric", "metric", word);
        return Some(default_value);
    }
    let hint = "write metric: NAME, as cadmin metrics prints it";
    let w = required_text(ctx, f, "metric", "watch: metric", hint)?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !w.text.starts_with("corral_") || !w.text.chars().all(plain) {
        let message = format!("metric: {:?} is not the name of a figure", w.text);
        ctx.problem_hint(
            w.pos,
            "metric",
            message,
            "cadmin metrics prints all of them",
        );
        return None;
    }
    let parts = ["_bucket", "_sum", "_count"];
    if parts.iter().any(|part| w.text.ends_with(part)) {
        let message = format!(
            "metric: {} is part of a histogram: rules watch numbers",
            w.text
        );
        ctx.problem_hint(w.pos, "metric", message, "rules of Prometheus can do that");
        return None;
    }
    Some(w.text)
}

/// Refuses a key that has no effect with this word of `watch`.
fn only_with(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str, with: &str, word: &str) {
    if f.has(key) {
        let message = format!("{key} has no meaning with watch: {word}");
        let hint = format!("it belongs to watch: {with}");
        ctx.problem_hint(f.key_pos(key), "no-effect", message, hint);
    }
}

fn no_mark(ctx: &mut Ctx<'_>, f: &Fields<'_>, word: &str) -> Option<Option<(ThresholdSide, bool)>> {
    for key in ["over", "under"] {
        only_with(ctx, f, key, "metric", word);
    }
    Some(None)
}

/// The mark, and whether it is a ratio. `None`: it is missing or invalid, and a problem reports it.
fn mark(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    word: &str,
    unit: MarkUnit,
) -> Option<Option<(ThresholdSide, bool)>> {
    let keys: &[&str] = match unit {
        MarkUnit::UnderSize => &["under"],
        MarkUnit::OverTime => &["over"],
        _ => &["over", "under"],
    };
    let given: Vec<&str> = ["over", "under"].into_iter().filter(|k| f.has(k)).collect();
    let [key] = given[..] else {
        let message = format!("watch: {word} needs {}", keys.join(" or "));
        let hint = format!("write {}: VALUE, once", keys[0]);
        ctx.problem_hint(f.pos, "missing-key", message, hint);
        return None;
    };
    if !keys.contains(&key) {
        let message = format!("watch: {word} needs {}, not {key}", keys[0]);
        ctx.problem(f.key_pos(key), "no-effect", message);
        return None;
    }
    let w = f.scalar(ctx, key)?;
    let (value, of_ratio) = value(ctx, &w, key, word, unit)?;
    let mark = match key {
        "over" => ThresholdSide::Over(value),
        _ => ThresholdSide::Under(value),
    };
    Some(Some((mark, of_ratio)))
}

fn value(
    ctx: &mut Ctx<'_>,
    w: &Words,
    key: &str,
    word: &str,
    unit: MarkUnit,
) -> Option<(f64, bool)> {
    match unit {
        MarkUnit::UnderSize => {
            let percent = w.text.strip_suffix('%').filter(|_| word == "share_full");
            if let Some(text) = percent {
                let percent = text.trim().parse::<f64>().ok();
                let percent = percent.filter(|n| (0.0..=100.0).contains(n));
                if percent.is_none() {
                    let message = format!("{key}: {:?} is not a part from 0% to 100%", w.text);
                    ctx.problem(w.pos, "range", message);
                }
                return Some((percent? / 100.0, true));
            }
            match size::parse(&w.text, Unit::M) {
                Ok(bytes) => Some((bytes as f64, false)),
                Err(e) => {
                    ctx.parse_error(w, "size", &e);
                    None
                }
            }
        }
        MarkUnit::OverTime => match duration::parse_ms_from(&w.text, DefaultUnit::Seconds, 0) {
            Ok(ms) => Some((ms as f64 / 1000.0, false)),
            Err(e) => {
                ctx.parse_error(w, "time", &e);
                None
            }
        },
        MarkUnit::None | MarkUnit::Number => {
            let number = w.text.parse::<f64>().ok().filter(|n| n.is_finite());
            if number.is_none() {
                let message = format!("{key}: {:?} is not a number", w.text);
                let hint = "in the unit of the figure: bytes, seconds, degrees";
                ctx.problem_hint(w.pos, "number", message, hint);
            }
            Some((number?, false))
        }
    }
}

/// The points that a rule watches: by `hosts`, `queues`, `resource` and `match`.
fn matches(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    word: &str,
    queues: &[Queue],
) -> BTreeMap<String, Vec<String>> {
    let mut out = match word {
        "metric" => map(ctx, f, "match"),
        _ => {
            only_with(ctx, f, "match", "metric", word);
            BTreeMap::new()
        }
    };
    let of_hosts = ["host_silent", "tmp_full", "resource"].contains(&word);
    let of_queues = ["pending", "no_open_hosts"].contains(&word);
    if let Some(w) = f.read_words(ctx, "hosts") {
        match of_hosts {
            true => _ = out.insert("host".to_owned(), words(&w.text)),
            false => only_with(ctx, f, "hosts", "host_silent, tmp_full or resource", word),
        }
    }
    if let Some(w) = f.read_words(ctx, "queues") {
        let names = words(&w.text);
        for name in names.iter().filter(|_| of_queues) {
            if queues.iter().all(|q| q.name != *name) && !name.contains('*') {
                let pos = w.pos_of(name, ctx);
                let known = queues.iter().map(|q| q.name.as_str());
                ctx.undefined(pos, "queue", name, known);
            }
        }
        match of_queues {
            true => _ = out.insert("queue".to_owned(), names),
            false => only_with(ctx, f, "queues", "pending or no_open_hosts", word),
        }
    }
    if word == "resource" {
        let hint = "write resource: NAME, as cload -l shows it";
        if let Some(w) = required_text(ctx, f, "resource", "watch: resource", hint) {
            out.insert("resource".to_owned(), words(&w.text));
        }
    } else {
        only_with(ctx, f, "resource", "resource", word);
    }
    out
}

fn labels(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> BTreeMap<String, String> {
    let all = map(ctx, f, "labels").into_iter();
    all.map(|(key, words)| (key, words.join("|"))).collect()
}

/// Label names with their texts; `|` separates alternatives.
fn map(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> BTreeMap<String, Vec<String>> {
    let mut out = BTreeMap::new();
    let Some(node) = f.node(key) else {
        return out;
    };
    let Value::Map(entries) = &node.value else {
        let hint = format!("write {key}: {{LABEL: VALUE}}");
        ctx.problem_hint(
            node.pos,
            "type",
            format!("{key} maps labels to values"),
            hint,
        );
        return out;
    };
    if entries.len() > MAX_LABELS {
        ctx.problem(node.pos, "range", format!("more than {MAX_LABELS} labels"));
    }
    for entry in entries {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !entry.key.chars().all(plain) || entry.key.len() > 100 {
            let message = format!("{:?} is not the name of a label", entry.key);
            ctx.problem_hint(
                entry.key_pos,
                "label",
                message,
                "write letters, digits and _",
            );
            continue;
        }
        match &entry.value.value {
            Value::Text { text, .. } if text.len() <= MAX_TEXT => {
                let words = text.split('|').map(|word| word.trim().to_owned());
                out.insert(entry.key.clone(), words.collect());
            }
            _ => {
                let message = format!("label {} must be one text", entry.key);
                ctx.problem(entry.value.pos, "type", message);
            }
        }
    }
    out
}

/// Maximum duration of a silence.
pub const SILENCE_MAX_MS: u64 = 30 * DAY;
/// Minimum duration of a silence.
pub const SILENCE_MIN_MS: u64 = MINUTE;
