//! Section `portal`: its keys, their ranges and combinations. Owns their text; starts nothing and
//! looks up no account, because the leader's host may differ from the portal's host.

use super::keys;
use super::portal::{Portal, is_apps_domain};
use super::read::{Ctx, DAY, Fields, MINUTE, Words, split};
use crate::text::net::Net;
use crate::text::yaml::Node;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Maximum number of names and of networks.
const MAX_NAMES: usize = 64;
const MAX_NETS: usize = 256;
/// Maximum length of a host name, and of the name of a service or an account.
const NAME_MAX: usize = 253;
const WORD_MAX: usize = 64;
/// Maximum length of a path.
const PATH_MAX: usize = 4096;

pub(super) fn portal(ctx: &mut Ctx<'_>, node: &Node) -> Option<Portal> {
    let f = Fields::new(ctx, node, keys::PORTAL, "portal")?;
    let mut out = Portal {
        listen: f.scalar(ctx, "listen").and_then(|w| listen(ctx, &w)),
        ..Portal::default()
    };
    if let Some(words) = f.read_words(ctx, "names") {
        out.names = names(ctx, &words);
    }
    if let Some(name) = account_name(ctx, &f, "user") {
        out.user = name;
    }
    out.tls = tls(ctx, &f);
    out.metrics_open = f.flag(ctx, "metrics_open", false);
    out.apps_domain = apps_domain(ctx, &f, &out.names);
    if let Some(words) = f.read_words(ctx, "trust_proxy") {
        out.trust_proxy = nets(ctx, &words);
    }
    out.pam = f.flag(ctx, "pam", false);
    if let Some(name) = account_name(ctx, &f, "pam_service") {
        out.pam_service = name;
    }
    if let Some(ms) = f.time(ctx, "session_idle", MINUTE, 7 * DAY) {
        out.session_idle_ms = ms;
    }
    if let Some(ms) = f.time(ctx, "session_max", MINUTE, 30 * DAY) {
        out.session_max_ms = ms;
        if !f.has("session_idle") {
            out.session_idle_ms = out.session_idle_ms.min(ms);
        }
    }
    check_combinations(ctx, &f, &out);
    Some(out)
}

fn listen(ctx: &mut Ctx<'_>, w: &Words) -> Option<SocketAddr> {
    let address = w.text.parse::<SocketAddr>().ok();
    if address.is_none() {
        let message = format!("listen: {:?} is not an address with a port", w.text);
        let hint = "write 127.0.0.1:8080, 0.0.0.0:443 or '[::]:443'";
        ctx.problem_hint(w.pos, "address", message, hint);
    }
    address
}

fn names(ctx: &mut Ctx<'_>, w: &Words) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for (at, name) in split(&w.text) {
        let pos = w.pos_at(at, ctx);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
        let is_port = name
            .rsplit_once(':')
            .is_some_and(|(head, _)| !head.contains([':', '[']));
        if name.len() > NAME_MAX || !name.chars().all(plain) || is_port {
            let message = format!("names: {name:?} is not the name of a host");
            let hint = "write portal.example.org, without https:// and without a port";
            ctx.problem_hint(pos, "name", message, hint);
        } else if out.len() >= MAX_NAMES {
            ctx.problem(pos, "range", format!("names: more than {MAX_NAMES}"));
            break;
        } else {
            out.push(name.to_ascii_lowercase());
        }
    }
    out
}

/// It must not be a name of the portal: a page of a program would then have the portal's origin.
fn apps_domain(ctx: &mut Ctx<'_>, f: &Fields<'_>, names: &[String]) -> Option<String> {
    let w = f.scalar(ctx, "apps_domain")?;
    let domain = w.text.to_ascii_lowercase();
    if !is_apps_domain(&domain) || domain.len() > NAME_MAX {
        let message = format!("apps_domain: {:?} is not a domain", w.text);
        let hint = "write apps.example.org, with *.apps.example.org leading to the portal";
        ctx.problem_hint(w.pos, "name", message, hint);
        return None;
    }
    if names.contains(&domain) {
        let message = format!("apps_domain: the portal itself has the name {domain}");
        ctx.problem_hint(
            w.pos,
            "conflict",
            message,
            "write another domain, for programs only",
        );
        return None;
    }
    Some(domain)
}

/// The name of an account or of a PAM service, which is a file name.
fn account_name(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> Option<String> {
    let w = f.scalar(ctx, key)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_word = !w.text.is_empty()
        && w.text.len() <= WORD_MAX
        && !w.text.starts_with(['-', '.'])
        && w.text.chars().all(plain);
    if !is_word {
        let message = format!("{key}: {:?} is not a name", w.text);
        let hint = "write letters, digits, - and _";
        ctx.problem_hint(w.pos, "name", message, hint);
    }
    is_word.then_some(w.text)
}

fn tls(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (path(ctx, f, "tls_cert"), path(ctx, f, "tls_key"));
    for (one, other) in [("tls_cert", "tls_key"), ("tls_key", "tls_cert")] {
        if f.has(one) && !f.has(other) {
            let message = format!("{one} has no effect without {other}");
            let hint = format!("write {other}: FILE");
            ctx.problem_hint(f.key_pos(one), "missing-key", message, hint);
        }
    }
    Some((cert?, key?))
}

fn path(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> Option<PathBuf> {
    let w = f.scalar(ctx, key)?;
    let is_path =
        w.text.starts_with('/') && w.text.len() < PATH_MAX && !w.text.chars().any(char::is_control);
    if !is_path {
        let message = format!("{key}: {:?} is not an absolute path", w.text);
        ctx.problem_hint(w.pos, "path", message, "write /etc/corral/portal.pem");
    }
    is_path.then(|| PathBuf::from(w.text))
}

fn nets(ctx: &mut Ctx<'_>, w: &Words) -> Vec<Net> {
    let mut out = Vec::new();
    for (at, text) in split(&w.text) {
        match Net::parse(text) {
            Ok(_) if out.len() >= MAX_NETS => {
                let pos = w.pos_at(at, ctx);
                ctx.problem(pos, "range", format!("trust_proxy: more than {MAX_NETS}"));
                break;
            }
            Ok(net) => out.push(net),
            Err(e) => ctx.parse_error(w, "address", &e.shifted(at)),
        }
    }
    out
}

/// Checks combinations of keys; options of the command line are checked at the start.
fn check_combinations(ctx: &mut Ctx<'_>, f: &Fields<'_>, out: &Portal) {
    if out.session_idle_ms > out.session_max_ms {
        let message = "session_idle is longer than session_max: it would end no session";
        let hint = "lower session_idle or raise session_max";
        ctx.problem_hint(f.key_pos("session_idle"), "conflict", message, hint);
    }
    let is_far = out
        .listen
        .is_some_and(|address| !address.ip().is_loopback());
    if is_far && !f.has("tls_cert") {
        let message = "other hosts can connect to this address, and the connections are not \
            encrypted";
        let hint = "write tls_cert and tls_key, or listen at 127.0.0.1, to which a proxy with TLS \
                    forwards";
        ctx.problem_hint(f.key_pos("listen"), "conflict", message, hint);
    }
    if f.has("pam_service") && !out.pam {
        let message = "pam_service has no effect without pam: yes";
        let hint = "write pam: yes, or remove it".to_owned();
        ctx.warn(f.key_pos("pam_service"), "no-effect", message, Some(hint));
    }
}
