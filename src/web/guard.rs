//! The checks of every request, in this order: its origin address, its Host, its user, for changes
//! the page that sent them and the session's CSRF token, limits of its body and time; and what
//! every response gets: security headers, an error page, a line in the log.
//!
//! Owns cookies. No handler sees a request that has not passed these checks.

use crate::error::WebError;
use crate::fields::Fields;
use crate::identity::{Identity, Proof};
use crate::peer::{Origin, Peer, origin};
use crate::sessions::is_same;
use crate::translations::{Language, Translations};
use crate::{App, blocking, routes};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use corral::api::portal::Scope;
use corral::sys;
use std::time::Duration;

/// Maximum body of a request: a script of 1 MiB, of which each byte may be encoded as three.
pub const BODY_MAX: usize = 4 << 20;
/// Maximum time for the body of a request to arrive, and for a response to be produced. The
/// leader's answer is awaited for up to a minute.
const BODY_TIME: Duration = Duration::from_secs(15);
const ANSWER_TIME: Duration = Duration::from_secs(75);
/// Names of this machine for itself.
pub const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Cookies for a user's preferences.
pub const LANGUAGE: &str = "corral_lang";
pub const THEME: &str = "corral_theme";

/// No script, style or picture from other sites, no inline script, no use in a frame.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// The requester, as passed to handlers.
#[derive(Clone, Debug)]
pub struct Caller {
    pub identity: Identity,
    pub scope: Scope,
    /// Whether the user administers the cluster. It decides what pages offer, never what is
    /// allowed.
    pub administers: bool,
    /// The CSRF token of the session; empty for a token.
    pub csrf: String,
    /// The secret in the session's cookie; empty for a token.
    pub secret: String,
}

/// Language and theme of the responses to a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct DisplaySettings {
    pub words: Translations,
    /// `light`, `dark`, or empty: the setting of the system.
    pub theme: &'static str,
}

impl DisplaySettings {
    pub fn of(headers: &HeaderMap) -> DisplaySettings {
        let accepted = text(headers, header::ACCEPT_LANGUAGE);
        let language = cookie(headers, LANGUAGE).and_then(Language::parse);
        DisplaySettings {
            words: Translations(language.unwrap_or_else(|| Language::accepted(accepted))),
            theme: match cookie(headers, THEME) {
                Some("dark") => "dark",
                Some("light") => "light",
                _ => "",
            },
        }
    }
}

/// The text of a header; empty if it is missing.
pub fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// The value of a cookie.
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).iter();
    let pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|v| v.split(';'));
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// A header that sets a cookie; `age_s` of 0 removes it. Scripts cannot read these cookies.
pub fn set_cookie(name: &str, value: &str, age_s: Option<i64>) -> (HeaderName, String) {
    let age = age_s.map_or(String::new(), |s| format!("; Max-Age={s}"));
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{age}");
    (header::SET_COOKIE, text)
}

/// Checks a request and passes it on, or answers it.
pub async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let begun = sys::clock::boot_ms();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let display = DisplaySettings::of(request.headers());
    let mut user = String::new();
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.unwrap_or_default();
    let from = origin(peer, &app.portal().trust_proxy, request.headers());
    let (from, refused) = match from {
        Ok(from) => (from, None),
        Err(why) => {
            let address = peer.0;
            let from = Origin {
                address,
                ..Origin::default()
            };
            (from, Some(WebError::wrong(why)))
        }
    };
    let passed = pass(&app, (display, &from), request, next, &mut user);
    let answer = async {
        match refused {
            Some(error) => Err(error),
            None => passed.await,
        }
    };
    let response = match tokio::time::timeout(ANSWER_TIME, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => error.into_response(),
        Err(_) => WebError::new(StatusCode::SERVICE_UNAVAILABLE, "").into_response(),
    };
    let mut response = finished(response, display, &path);
    if app.settings.encrypted || from.encrypted {
        keep_encrypted(response.headers_mut());
    }
    let status = response.status().as_u16();
    let took = sys::clock::boot_ms().saturating_sub(begun);
    // Only the path is logged: a query may contain what users search for.
    let path = corral::text::width::escape(&path);
    tracing::info!("{method} {path} {status} {took} ms user={user} from={from}");
    response
}

/// Whether errors of this path are problem documents for programs.
fn is_for_programs(path: &str) -> bool {
    path.starts_with("/api/") || path == "/metrics"
}

async fn pass(
    app: &App,
    (display, from): (DisplaySettings, &Origin),
    request: Request,
    next: Next,
    user: &mut String,
) -> Result<Response, WebError> {
    check_host(app, request.headers(), &from.hosts)?;
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let caller = caller(app, &parts.headers).await?;
    if let Some(caller) = &caller {
        user.clone_from(&caller.identity.name);
    }
    let is_change = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let open = routes::is_open(&path) || (path == "/metrics" && app.settings.metrics_open);
    if caller.is_none() && !open {
        return match is_change || is_for_programs(&path) {
            true => Err(WebError::new(StatusCode::UNAUTHORIZED, "")),
            false => Ok(Redirect::to("/login").into_response()),
        };
    }
    let mut bytes = Bytes::new();
    if is_change {
        check_origin(&parts.headers, &from.hosts)?;
        bytes = whole(body).await?;
        let mut fields = match text(&parts.headers, header::CONTENT_TYPE) {
            kind if kind.starts_with("application/x-www-form-urlencoded") => {
                Fields::parse(&bytes).ok_or_else(|| WebError::wrong(""))?
            }
            _ => Fields::default(),
        };
        // A login replaces the current session, and has its own token where it needs one.
        if let Some(caller) = caller.as_ref().filter(|_| path != "/login") {
            check_change(caller, &parts.headers, &fields)?;
        }
        if path == "/login" {
            parts.extensions.insert(fields.take_secret("password"));
            forget(std::mem::take(&mut bytes));
        }
        parts.extensions.insert(fields);
    }
    if let Some(caller) = caller {
        parts.extensions.insert(caller);
    }
    parts.extensions.insert(display);
    parts.extensions.insert(from.clone());
    Ok(next
        .run(Request::from_parts(parts, Body::from(bytes)))
        .await)
}

/// Overwrites the body of a login, unless something else still holds it.
fn forget(bytes: Bytes) {
    if let Ok(mut own) = bytes.try_into_mut() {
        own.fill(0);
    }
}

/// A name without its port.
fn bare(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Another name in Host means that a foreign name was made to resolve to this address. The names by
/// which a trusted proxy was called must be known as well: the proxy may pass on what the caller
/// has invented.
fn check_host(app: &App, headers: &HeaderMap, of_proxy: &[String]) -> Result<(), WebError> {
    let host = text(headers, header::HOST).to_ascii_lowercase();
    let is_known = |host: &str| {
        let name = bare(host);
        OWN_NAMES.contains(&name) || app.settings.names.iter().any(|own| own == name)
    };
    let known = is_known(&host) && of_proxy.iter().all(|host| is_known(host));
    match known && headers.get_all(header::HOST).iter().count() == 1 {
        true => Ok(()),
        false => Err(WebError {
            hint: "cbweb --name NAME, or names of section portal of cb.yaml, allows another name"
                .to_owned(),
            ..WebError::new(
                StatusCode::MISDIRECTED_REQUEST,
                "the portal is not known by this name",
            )
        }),
    }
}

/// What requires a login: access to a terminal or to the program of a job gives all the user's
/// rights, which is more than any token grants.
///
/// # Errors
/// The caller used a token.
pub fn session_only(caller: &Caller) -> Result<(), WebError> {
    match caller.secret.is_empty() {
        false => Ok(()),
        true => Err(WebError::new(
            StatusCode::FORBIDDEN,
            "a token cannot be used for this: log in",
        )),
    }
}

/// A WebSocket must come from a page of the portal: browsers let any page open one to any site,
/// with that site's cookies, and always send its origin.
///
/// # Errors
/// The request comes from another origin, or states none.
pub fn websocket_origin(headers: &HeaderMap, from: &Origin) -> Result<(), WebError> {
    if headers.get(header::ORIGIN).is_none() {
        let why = "a WebSocket must state its origin";
        return Err(WebError::new(StatusCode::FORBIDDEN, why));
    }
    check_origin(headers, &from.hosts)
}

/// A change must come from a page of the portal, if the browser states the origin. `of_proxy`:
/// names by which a trusted proxy was called.
fn check_origin(headers: &HeaderMap, of_proxy: &[String]) -> Result<(), WebError> {
    let own = [text(headers, header::HOST)].into_iter();
    match comes_from(headers, own.chain(of_proxy.iter().map(String::as_str))) {
        Some(false) => Err(WebError::new(
            StatusCode::FORBIDDEN,
            "the request comes from another site",
        )),
        Some(true) | None => Ok(()),
    }
}

/// Whether a request comes from pages of one of these hosts, according to its browser; `None`: the
/// browser states nothing.
pub fn comes_from<'h>(
    headers: &HeaderMap,
    mut hosts: impl Iterator<Item = &'h str>,
) -> Option<bool> {
    let site = headers.get("sec-fetch-site").and_then(|v| v.to_str().ok());
    if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Some(false);
    }
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    let authority = origin
        .split_once("://")
        .map_or("", |(_, authority)| authority);
    Some(!authority.is_empty() && hosts.any(|host| authority.eq_ignore_ascii_case(host)))
}

/// A token must have the scope, a session its CSRF token.
fn check_change(caller: &Caller, headers: &HeaderMap, form: &Fields) -> Result<(), WebError> {
    if caller.scope < Scope::Submit {
        return Err(WebError {
            hint: "ctoken create --scope submit".to_owned(),
            ..WebError::new(StatusCode::FORBIDDEN, "this token is for reading only")
        });
    }
    if caller.secret.is_empty() {
        return Ok(());
    }
    let header = headers.get("x-csrf-token").and_then(|v| v.to_str().ok());
    let given = header.unwrap_or_else(|| form.get("csrf"));
    match is_same(given, &caller.csrf) {
        true => Ok(()),
        false => Err(WebError {
            hint: "load the page again".to_owned(),
            ..WebError::new(
                StatusCode::FORBIDDEN,
                "the form does not belong to this session",
            )
        }),
    }
}

/// The whole body, within its limits.
async fn whole(body: Body) -> Result<Bytes, WebError> {
    match tokio::time::timeout(BODY_TIME, to_bytes(body, BODY_MAX)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(WebError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("at most {BODY_MAX} bytes, which must arrive completely"),
        )),
        Err(_) => Err(WebError::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("its body did not arrive within {} s", BODY_TIME.as_secs()),
        )),
    }
}

/// The requester, from a token or from the cookie of a session. A wrong token is refused, not
/// ignored.
async fn caller(app: &App, headers: &HeaderMap) -> Result<Option<Caller>, WebError> {
    let now = sys::clock::wall_ms();
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let value = value.to_str().unwrap_or_default();
        let (kind, secret) = value.split_once(' ').unwrap_or_default();
        let (actor, secret) = (app.actor.clone(), secret.trim().to_owned());
        let found = match kind.eq_ignore_ascii_case("bearer") {
            true => blocking(move || Ok(actor.token(&secret, now))).await?,
            false => None,
        };
        let Some((identity, token)) = found else {
            let why = "the token is unknown, revoked or expired";
            return Err(WebError::new(StatusCode::UNAUTHORIZED, why));
        };
        return Ok(Some(Caller {
            identity,
            scope: token.scope,
            administers: false,
            csrf: String::new(),
            secret: String::new(),
        }));
    }
    let Some(secret) = cookie(headers, &app.settings.cookie) else {
        return Ok(None);
    };
    let Some(mut session) = app.sessions().find(secret, now) else {
        return Ok(None);
    };
    let (actor, session_secret) = (app.actor.clone(), secret.to_owned());
    if !blocking(move || Ok(actor.may_go_on(&session_secret))).await? {
        app.sessions().end(secret);
        return Ok(None);
    }
    session.identity.proof = Proof(secret.to_owned());
    Ok(Some(Caller {
        administers: app.administers(&session.identity, now).await,
        identity: session.identity,
        scope: Scope::Admin,
        csrf: session.csrf,
        secret: secret.to_owned(),
    }))
}

/// Restricts cookies to encrypted connections, and tells browsers to use only encrypted
/// connections.
fn keep_encrypted(headers: &mut HeaderMap) {
    let cookies: Vec<HeaderValue> = headers
        .get_all(header::SET_COOKIE)
        .iter()
        .cloned()
        .collect();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        let mut bytes = cookie.as_bytes().to_vec();
        bytes.extend_from_slice(b"; Secure");
        if let Ok(cookie) = HeaderValue::from_bytes(&bytes) {
            headers.append(header::SET_COOKIE, cookie);
        }
    }
    let year = HeaderValue::from_static("max-age=31536000");
    headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
}

/// Completes the response: renders its error and adds the headers that every response has.
fn finished(mut response: Response, display: DisplaySettings, path: &str) -> Response {
    let status = response.status();
    let error = response.extensions_mut().remove::<WebError>();
    let error = error.or_else(|| {
        let is_error = status.is_client_error() || status.is_server_error();
        // A page that states its own error, such as a form, stays as it is.
        let kind = text(response.headers(), header::CONTENT_TYPE);
        let is_own = kind.starts_with("text/html") || kind.contains("json");
        (is_error && !is_own).then(|| WebError::new(status, ""))
    });
    if let Some(error) = error {
        response = error.render(display.words, is_for_programs(path), display.theme);
    }
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED && is_for_programs(path) {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    let fixed = [
        ("content-security-policy", CONTENT_POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        // With no-referrer, browsers would send `Origin: null` with the portal's own forms.
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        (
            "permissions-policy",
            "camera=(), microphone=(), geolocation=()",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_static("a=1; xcorral=2; corral=3");
        headers.insert(header::COOKIE, value);
        assert_eq!(cookie(&headers, "corral"), Some("3"));
        assert_eq!(cookie(&headers, "none"), None);
    }

    #[test]
    fn changes_of_other_sites_are_refused() {
        let with = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            check_origin(&headers, &["portal:1".to_owned()]).is_ok()
        };
        assert!(with(&[]), "a program");
        assert!(with(&[
            ("origin", "http://localhost:1"),
            ("host", "localhost:1")
        ]));
        assert!(with(&[
            ("origin", "https://Portal:1"),
            ("host", "localhost:1")
        ]));
        for bad in [
            &[("origin", "http://localhost:2"), ("host", "localhost:1")][..],
            &[("origin", "http://portal:2"), ("host", "localhost:1")],
            &[("origin", "null"), ("host", "localhost:1")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
        ] {
            assert!(!with(bad), "{bad:?}");
        }
    }
}
