//! What is forwarded of a request to the program of a job, and of its response. Pure.
//!
//! Owns what is removed: the portal's own cookies and tokens, headers of a single connection, and
//! headers that would affect names other than the program's own. The program sees a request from
//! its own host: it does not need to know about a portal.

use crate::guard::comes_from;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use corral::api::portal::claimed_uid;

/// Headers of a single connection, which proxies do not forward, and those that state who called a
/// proxy.
const OF_CONNECTION: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
];
/// Headers of a response that affect more than the program's own pages, or that describe its
/// connection.
const OF_OTHERS: &[&str] = &[
    "strict-transport-security",
    "alt-svc",
    "clear-site-data",
    "sourcemap",
];

/// A request from another site, which is not forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CrossSite;

/// Whether a request asks for a WebSocket.
pub(super) fn is_websocket(method: &Method, headers: &HeaderMap) -> bool {
    let value = headers.get(header::UPGRADE).and_then(|v| v.to_str().ok());
    method == Method::GET && value.is_some_and(|kind| kind.eq_ignore_ascii_case("websocket"))
}

/// A change or a WebSocket must come from the program's own pages, at `host`.
///
/// # Errors
/// The request comes from pages of another site.
pub(super) fn check_origin(
    method: &Method,
    headers: &HeaderMap,
    host: &str,
) -> Result<(), CrossSite> {
    let is_socket = is_websocket(method, headers);
    if !is_socket && matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    // Browsers always state the origin of a WebSocket.
    match comes_from(headers, [host].into_iter()).unwrap_or(!is_socket) {
        true => Ok(()),
        false => Err(CrossSite),
    }
}

/// The headers for a program that listens on this port of its host. `own`: whether a cookie is the
/// portal's.
pub(super) fn for_program(
    headers: &HeaderMap,
    port: u16,
    own: &dyn Fn(&str) -> bool,
    is_websocket: bool,
) -> HeaderMap {
    let mut out = HeaderMap::new();
    let ends_here = of_connection(headers);
    for (name, value) in headers {
        let is_dropped = ends_here(name)
            || matches!(
                *name,
                header::HOST | header::COOKIE | header::ORIGIN | header::REFERER
            )
            || (*name == header::AUTHORIZATION && is_the_portals(value));
        if !is_dropped {
            out.append(name.clone(), value.clone());
        }
    }
    let cookies = cookies_for_program(headers, own);
    if let Ok(value) = HeaderValue::from_bytes(cookies.as_bytes())
        && !cookies.is_empty()
    {
        out.insert(header::COOKIE, value);
    }
    let address = format!("127.0.0.1:{port}");
    let mut put = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            out.insert(name, value);
        }
    };
    put(header::HOST, &address);
    // The origin was compared with the name by which the browser knows the program.
    if headers.contains_key(header::ORIGIN) {
        put(header::ORIGIN, &format!("http://{address}"));
    }
    if is_websocket {
        put(header::CONNECTION, "upgrade");
        put(header::UPGRADE, "websocket");
    }
    out
}

/// Whether a header belongs to the connection, not to the message: by its name, or because
/// `Connection` names it.
fn of_connection(headers: &HeaderMap) -> impl Fn(&HeaderName) -> bool + use<> {
    let all = headers.get_all(header::CONNECTION).iter();
    let texts = all.filter_map(|value| value.to_str().ok());
    let names = texts.flat_map(|text| text.split(','));
    let named: Vec<String> = names.map(|name| name.trim().to_ascii_lowercase()).collect();
    move |name| {
        let name = name.as_str();
        OF_CONNECTION.contains(&name) || named.iter().any(|other| other == name)
    }
}

/// A token of the portal, which only the portal may see; a program's own tokens have another form.
fn is_the_portals(value: &HeaderValue) -> bool {
    let text = value.to_str().unwrap_or_default();
    let (kind, secret) = text.split_once(' ').unwrap_or_default();
    kind.eq_ignore_ascii_case("bearer") && claimed_uid(secret.trim()).is_some()
}

fn cookies_for_program(headers: &HeaderMap, own: &dyn Fn(&str) -> bool) -> String {
    let all = headers.get_all(header::COOKIE).iter();
    let pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().trim().to_owned();
    let cookies: Vec<&str> = pairs.filter(|pair| !own(&name(pair))).collect();
    cookies.join("; ")
}

/// The headers of a program's response, for a browser.
pub(super) fn for_browser(
    headers: &HeaderMap,
    port: u16,
    own: &dyn Fn(&str) -> bool,
    is_websocket: bool,
) -> HeaderMap {
    let mut out = HeaderMap::new();
    let ends_here = of_connection(headers);
    for (name, value) in headers {
        let is_dropped = ends_here(name) || OF_OTHERS.contains(&name.as_str());
        let value = match *name {
            _ if is_dropped => None,
            header::SET_COOKIE => cookie_for_browser(value, own),
            header::LOCATION => Some(location_for_browser(value, port)),
            _ => Some(value.clone()),
        };
        if let Some(value) = value {
            out.append(name.clone(), value);
        }
    }
    if is_websocket {
        out.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        out.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
    out
}

/// A cookie of a program is valid only for the program's own name, and must not have a name of the
/// portal's cookies.
fn cookie_for_browser(value: &HeaderValue, own: &dyn Fn(&str) -> bool) -> Option<HeaderValue> {
    let text = std::str::from_utf8(value.as_bytes()).ok()?;
    let mut parts = text.split(';');
    let first = parts.next()?.trim();
    if own(first.split('=').next()?.trim()) {
        return None;
    }
    let is_domain = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case("domain")
    };
    let rest = parts.filter(|part| !is_domain(part)).map(str::trim);
    let all: Vec<&str> = std::iter::once(first).chain(rest).collect();
    HeaderValue::from_str(&all.join("; ")).ok()
}

/// Replaces the program's own address by a path, so that the browser stays at the name that it
/// called.
fn location_for_browser(value: &HeaderValue, port: u16) -> HeaderValue {
    let text = value.to_str().unwrap_or_default();
    let own = ["127.0.0.1", "localhost"].iter().find_map(|name| {
        let rest = text.strip_prefix(&format!("http://{name}:{port}"))?;
        (rest.is_empty() || rest.starts_with(['/', '?'])).then_some(rest)
    });
    let Some(rest) = own else {
        return value.clone();
    };
    let path = match rest.starts_with('/') {
        true => rest.to_owned(),
        false => format!("/{rest}"),
    };
    // Two slashes would start the name of another host.
    let path = format!("/{}", path.trim_start_matches('/'));
    HeaderValue::from_str(&path).unwrap_or_else(|_| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut out = HeaderMap::new();
        for (name, value) in pairs {
            out.append(*name, HeaderValue::from_str(value).unwrap());
        }
        out
    }

    fn own(name: &str) -> bool {
        name == "corral_1" || name == "corral_1_app"
    }

    fn shown(headers: &HeaderMap) -> String {
        let each = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        each.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_program_sees_none_of_the_portals_secrets() {
        let token = corral::record::portal::secret_of(7, &[1; 32]);
        let given = headers(&[
            ("host", "j12.localhost:1"),
            ("cookie", "corral_1=secret; _xsrf=a; corral_1_app=secret"),
            ("cookie", "b=c"),
            ("authorization", &format!("Bearer {token}")),
            ("origin", "http://j12.localhost:1"),
            ("referer", "http://j12.localhost:1/lab?token=x"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("x-forwarded-for", "1.2.3.4"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
        ]);
        let text = shown(&for_program(&given, 99, &own, false));
        assert!(!text.contains("secret") && !text.contains(&token), "{text}");
        for word in [
            "x-hop",
            "x-forwarded",
            "referer",
            "connection",
            "h2c",
            "j12",
        ] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        for line in [
            "cookie: _xsrf=a; b=c",
            "host: 127.0.0.1:99",
            "origin: http://127.0.0.1:99",
            "accept: */*",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let of_program = headers(&[("authorization", "token abc")]);
        let text = shown(&for_program(&of_program, 99, &own, true));
        assert!(text.contains("authorization: token abc"), "{text}");
        assert!(text.contains("upgrade: websocket") && text.contains("connection: upgrade"));
    }

    #[test]
    fn an_answer_speaks_for_the_programs_own_name_alone() {
        let given = headers(&[
            ("set-cookie", "corral_1=planted; Path=/"),
            ("set-cookie", "corral_1_app=planted"),
            ("set-cookie", "a=b; Domain=example.org; Path=/; HttpOnly"),
            ("location", "http://127.0.0.1:99/lab?x=y"),
            ("strict-transport-security", "max-age=1; includeSubDomains"),
            ("transfer-encoding", "chunked"),
            ("content-type", "text/html"),
        ]);
        let text = shown(&for_browser(&given, 99, &own, false));
        assert!(
            !text.contains("planted") && !text.contains("omain"),
            "{text}"
        );
        assert!(text.contains("set-cookie: a=b; Path=/; HttpOnly"), "{text}");
        assert!(
            text.contains("location: /lab?x=y") && text.contains("text/html"),
            "{text}"
        );
        assert!(!text.contains("chunked"));
        let location = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            location_for_browser(&value, 99)
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(location("/x"), "/x");
        assert_eq!(location("http://localhost:99"), "/");
        assert_eq!(
            location("http://localhost:99//evil.example"),
            "/evil.example"
        );
        assert_eq!(
            location("http://localhost:99.evil/"),
            "http://localhost:99.evil/"
        );
    }

    #[test]
    fn changes_and_sockets_of_other_places_are_foreign() {
        let host = "j12.localhost:1";
        let socket = ("upgrade", "websocket");
        let mine = ("origin", "http://j12.localhost:1");
        let good = |method: &Method, pairs: &[(&'static str, &str)]| {
            check_origin(method, &headers(pairs), host).is_ok()
        };
        assert!(
            good(&Method::GET, &[("origin", "http://evil")]),
            "reading is the browser's matter"
        );
        assert!(good(&Method::POST, &[mine]) && good(&Method::GET, &[socket, mine]));
        assert!(good(&Method::POST, &[]), "a program");
        for (method, pairs) in [
            (Method::POST, &[("origin", "http://localhost:1")][..]),
            (Method::PUT, &[("origin", "http://j13.localhost:1")]),
            (Method::DELETE, &[("origin", "null")]),
            (Method::POST, &[mine, ("sec-fetch-site", "same-site")]),
            (Method::GET, &[socket]),
            (Method::GET, &[socket, ("origin", "http://localhost:1")]),
            (Method::GET, &[socket, ("origin", "http://evil.example")]),
        ] {
            assert!(!good(&method, pairs), "{method} {pairs:?}");
        }
    }
}
