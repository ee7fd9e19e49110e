//! Origins of requests, with a proxy and without, and logins by password: which headers are
//! trusted, what is shown, what a form must contain.

use crate::bed::{Answer, EVIL, PASSWORD, TestPortal};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use corral::api::portal::Portal;
use corral::text::net::Net;
use corral_web::Settings;
use corral_web::peer::Peer;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const PROXY: &str = "10.0.0.1";
const STRANGER: &str = "192.0.2.66";

/// A portal behind proxies of a network, which accepts passwords.
fn bed() -> TestPortal {
    let bed = TestPortal::new().with_settings(Settings {
        cookie: "corral_1".into(),
        names: vec!["portal.example.org".into()],
        ..Settings::default()
    });
    bed.app.follow(Portal {
        trust_proxy: vec![Net::parse("10.0.0.0/8").unwrap()],
        pam: true,
        ..Portal::default()
    });
    bed
}

async fn sent(
    bed: &TestPortal,
    peer: &str,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    if headers.iter().all(|(name, _)| *name != "host") {
        request = request.header("host", "localhost:1");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from(body.to_owned())).unwrap();
    request.extensions_mut().insert(Peer(peer.parse().ok()));
    bed.send(request).await
}

/// The form in a browser: the cookie and the form's token.
async fn form(bed: &TestPortal, peer: &str) -> (String, String) {
    let page = sent(bed, peer, ("GET", "/login"), &[], "").await;
    let cookie = page.header("set-cookie").split(';').next().unwrap();
    let (_, rest) = page.text.split_once("name=\"csrf\" value=\"").unwrap();
    (
        cookie.to_owned(),
        rest.split('"').next().unwrap().to_owned(),
    )
}

async fn tried(bed: &TestPortal, peer: &str, user: &str, headers: &[(&str, &str)]) -> Answer {
    let (cookie, csrf) = form(bed, peer).await;
    let password = percent(PASSWORD);
    let body = format!("csrf={csrf}&user={}&password={password}", percent(user));
    let cookie = ("cookie", cookie.as_str());
    let headers: Vec<_> = headers.iter().copied().chain([FORM, cookie]).collect();
    sent(bed, peer, ("POST", "/login"), &headers, &body).await
}

fn percent(text: &str) -> String {
    let hex = |b: u8| format!("%{b:02x}");
    text.bytes().map(hex).collect()
}

#[tokio::test]
async fn headers_of_a_proxy_count_from_that_proxy_alone() {
    let bed = bed();
    let forged = [
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.example"),
    ];
    // From an untrusted address: address, name and encryption are ignored.
    let answer = tried(&bed, STRANGER, "me", &forged).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    assert!(!answer.header("set-cookie").contains("Secure"));
    assert!(answer.header("strict-transport-security").is_empty());
    let last = bed.done.lock().unwrap().tried.pop();
    assert_eq!(last.unwrap().1, STRANGER.parse().ok());
    // From the proxy: all of them are used, so the name must be known.
    let answer = tried(&bed, PROXY, "me", &forged).await;
    assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST);
    let good = [
        ("x-forwarded-for", "127.0.0.1, 203.0.113.7, 10.9.9.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "portal.example.org"),
        ("origin", "https://portal.example.org"),
    ];
    let answer = tried(&bed, PROXY, "me", &good).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    assert!(answer.header("set-cookie").ends_with("; Secure"));
    assert!(!answer.header("strict-transport-security").is_empty());
    let last = bed.done.lock().unwrap().tried.pop();
    assert_eq!(last.unwrap().1, "203.0.113.7".parse().ok());
    // The Host that the proxy passes on must be known as well.
    let host = [("host", "evil.example"), good[2]];
    let answer = sent(&bed, PROXY, ("GET", "/login"), &host, "").await;
    assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST);
    // A page of another site is refused, whatever name the caller claims to have used.
    let lie = [
        ("x-forwarded-host", "evil.example"),
        ("origin", "http://evil.example"),
    ];
    let answer = tried(&bed, STRANGER, "me", &lie).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn two_callers_of_one_request_are_refused() {
    let bed = bed();
    let two = [
        ("forwarded", "for=203.0.113.7"),
        ("x-forwarded-for", "203.0.113.8"),
    ];
    let answer = sent(&bed, PROXY, ("GET", "/login"), &two, "").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.text.contains("name two callers"), "{}", answer.text);
    let answer = sent(&bed, STRANGER, ("GET", "/login"), &two, "").await;
    assert_eq!(
        answer.status,
        StatusCode::OK,
        "a stranger's headers are nothing"
    );
}

#[tokio::test]
async fn a_password_begins_the_brokers_session() {
    let bed = bed();
    let planted = ("cookie", "corral_1=known-to-others");
    let answer = tried(&bed, STRANGER, "me", &[planted]).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    let all: Vec<&str> = answer
        .headers
        .get_all("set-cookie")
        .iter()
        .map(|v| v.to_str().unwrap())
        .collect();
    assert!(
        all[0].starts_with("corral_1=session-of-the-broker;"),
        "{all:?}"
    );
    assert!(
        all[1].starts_with("corral_1_login=;") && all[1].contains("Max-Age=0"),
        "{all:?}"
    );
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(all[0].contains(part), "{all:?}");
    }
    let cookie = [("cookie", "corral_1=session-of-the-broker")];
    assert_eq!(bed.get("/jobs", &cookie).await.status, StatusCode::OK);
    assert_eq!(
        bed.get("/jobs", &[planted]).await.status,
        StatusCode::SEE_OTHER
    );
}

#[tokio::test]
async fn what_is_refused_says_no_more_than_it_may() {
    let bed = bed();
    for (user, status, part) in [
        ("nobody", 403, "User or password is wrong"),
        (EVIL, 403, "User or password is wrong"),
        ("old", 403, "has expired. Change it"),
        ("gone", 403, "the account has expired"),
        ("denied", 403, "may not log in here"),
        ("often", 429, "Wait 17 seconds"),
        ("many", 503, "Try again"),
        ("broken", 503, "cannot be checked here now"),
    ] {
        let answer = tried(&bed, STRANGER, user, &[]).await;
        assert_eq!(answer.status.as_u16(), status, "{user}");
        assert!(answer.text.contains(part), "{user}: {}", answer.text);
        assert!(answer.header("set-cookie").is_empty(), "{user}");
        assert!(
            !answer.text.contains("right &"),
            "the password is not shown again"
        );
        assert!(
            !answer.text.contains("<script>alert"),
            "{user}: names are text"
        );
        let retry = answer.header("retry-after");
        assert_eq!(retry, if status == 429 { "17" } else { "" });
    }
    let chinese = [("accept-language", "zh")];
    let answer = tried(&bed, STRANGER, "nobody", &chinese).await;
    assert!(answer.text.contains("用户名或密码错误"), "{}", answer.text);
}

#[tokio::test]
async fn a_form_with_a_password_counts_in_its_browser_alone() {
    let bed = bed();
    let (own, csrf) = form(&bed, STRANGER).await;
    let (other, _) = form(&bed, STRANGER).await;
    let password = percent(PASSWORD);
    let good = format!("csrf={csrf}&user=me&password={password}");
    for (cookie, body) in [
        ("a=b", good.clone()),
        (other.as_str(), good.clone()),
        (own.as_str(), format!("user=me&password={password}")),
        (own.as_str(), format!("csrf=&user=me&password={password}")),
        (
            "corral_1_login=",
            format!("csrf=&user=me&password={password}"),
        ),
        (
            "corral_1_login=x",
            format!("csrf=x&user=me&password={password}"),
        ),
    ] {
        let headers = [FORM, ("cookie", cookie)];
        let answer = sent(&bed, STRANGER, ("POST", "/login"), &headers, &body).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{cookie} {body}");
    }
    assert!(
        bed.done.lock().unwrap().tried.is_empty(),
        "nothing was judged"
    );
    let foreign = [
        FORM,
        ("cookie", own.as_str()),
        ("origin", "http://evil.example"),
    ];
    let answer = sent(&bed, STRANGER, ("POST", "/login"), &foreign, &good).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let headers = [FORM, ("cookie", own.as_str())];
    let answer = sent(&bed, STRANGER, ("POST", "/login"), &headers, &good).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn without_pam_there_is_no_such_form() {
    let bed = bed();
    bed.app.follow(Portal::default());
    let page = bed.get("/login", &[]).await;
    assert!(!page.text.contains("name=\"password\"") && page.header("set-cookie").is_empty());
    let answer = bed.form("/login", "user=me&password=x", &[]).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(bed.done.lock().unwrap().tried.is_empty());
}

#[tokio::test]
async fn shorter_sessions_count_at_once() {
    let bed = bed();
    let login = bed.login().await;
    let cookie = [("cookie", login.cookie.as_str())];
    assert_eq!(bed.get("/jobs", &cookie).await.status, StatusCode::OK);
    bed.app.follow(Portal {
        session_max_ms: 0,
        ..Portal::default()
    });
    assert_eq!(
        bed.get("/jobs", &cookie).await.status,
        StatusCode::SEE_OTHER
    );
}
