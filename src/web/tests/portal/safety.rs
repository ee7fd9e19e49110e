//! What must not work: foreign names, forged forms, used links, taken-over sessions, sizes.

use crate::bed::{LINK, READ_TOKEN, SUBMIT_TOKEN, TestPortal};
use axum::http::StatusCode;
use corral_web::guard::BODY_MAX;
use corral_web::sessions::WRONG_MAX;

#[tokio::test]
async fn nothing_is_shown_to_who_is_not_logged_in() {
    let bed = TestPortal::new();
    for path in [
        "/",
        "/jobs",
        "/jobs/1",
        "/submit",
        "/hosts/h1",
        "/live/view",
    ] {
        let answer = bed.get(path, &[]).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (303, "/login"),
            "{path}"
        );
    }
    for path in ["/api/v1/jobs", "/metrics", "/api/v1/events"] {
        let answer = bed.get(path, &[]).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        let forged = bed.get(path, &[("authorization", "Bearer nonsense")]).await;
        assert_eq!(forged.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let answer = bed.form("/jobs/act", "act=kill&id=1", &[]).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn another_host_name_is_refused() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    for host in [
        "evil.example",
        "evil.example:1",
        "localhost.evil:1",
        "127.0.0.1.evil",
        "",
    ] {
        let headers = [("host", host), ("cookie", login.cookie.as_str())];
        let mut request = axum::http::Request::get("/jobs");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let answer = bed
            .send(request.body(axum::body::Body::empty()).unwrap())
            .await;
        assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST, "{host}");
        assert!(!answer.text.contains("waits"), "{host}");
    }
    // A second Host header is not ignored.
    let twice = bed
        .get("/jobs", &[("host", "evil"), ("cookie", &login.cookie)])
        .await;
    assert_eq!(twice.status, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn a_change_needs_the_sessions_token_and_the_portals_origin() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let cookie = ("cookie", login.cookie.as_str());
    let good = format!("csrf={}&act=kill&id=1", login.csrf);
    for (body, headers) in [
        ("act=kill&id=1", vec![cookie]),
        ("csrf=&act=kill&id=1", vec![cookie]),
        ("csrf=0000&act=kill&id=1", vec![cookie]),
        (&good, vec![cookie, ("origin", "http://evil.example")]),
        (&good, vec![cookie, ("origin", "http://localhost:2")]),
        (&good, vec![cookie, ("sec-fetch-site", "cross-site")]),
    ] {
        let answer = bed.form("/jobs/act", body, &headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{body} {headers:?}");
    }
    for path in ["/logout", "/settings", "/submit", "/api/v1/jobs/1/kill"] {
        let answer = bed.form(path, "", &[cookie]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert!(bed.done.lock().unwrap().acts.is_empty());
    let own = ("origin", "http://localhost:1");
    assert_eq!(
        bed.form("/jobs/act", &good, &[cookie, own]).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn a_link_works_once_and_begins_a_new_session() {
    let bed = TestPortal::new();
    let wrong = bed.form("/login", "token=nonsense", &[]).await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    assert!(
        wrong.text.contains("name=\"token\""),
        "the form to try again"
    );
    // A login does not make a secret valid that an attacker has put into the browser.
    let fixed = ("cookie", "corral_1=known-to-others");
    let answer = bed.form("/login", &format!("token={LINK}"), &[fixed]).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    let set = answer.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("known-to-others"));
    assert_eq!(
        bed.get("/jobs", &[fixed]).await.status,
        StatusCode::SEE_OTHER
    );
    let again = bed.form("/login", &format!("token={LINK}"), &[]).await;
    assert_eq!(again.status, StatusCode::FORBIDDEN);
    assert!(again.header("set-cookie").is_empty());
}

#[tokio::test]
async fn a_logout_ends_the_session() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let cookie = ("cookie", login.cookie.as_str());
    let answer = bed
        .form("/logout", &format!("csrf={}", login.csrf), &[cookie])
        .await;
    assert_eq!(answer.header("location"), "/login");
    assert!(answer.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(
        bed.get("/jobs", &[cookie]).await.status,
        StatusCode::SEE_OTHER
    );
}

#[tokio::test]
async fn guesses_are_stopped() {
    let bed = TestPortal::new();
    for _ in 0..WRONG_MAX {
        assert_eq!(
            bed.form("/login", "token=x", &[]).await.status,
            StatusCode::FORBIDDEN
        );
    }
    let answer = bed.form("/login", &format!("token={LINK}"), &[]).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_token_does_what_its_scope_says() {
    let bed = TestPortal::new();
    let read = format!("Bearer {READ_TOKEN}");
    let submit = format!("Bearer {SUBMIT_TOKEN}");
    let kill = async |auth: &str| {
        bed.post("/api/v1/jobs/1/kill", "", &[("authorization", auth)])
            .await
            .status
    };
    assert_eq!(kill(&read).await, StatusCode::FORBIDDEN);
    assert!(bed.done.lock().unwrap().acts.is_empty());
    assert_eq!(kill(&submit).await, StatusCode::OK);
    assert_eq!(
        kill(READ_TOKEN).await,
        StatusCode::UNAUTHORIZED,
        "without Bearer"
    );
    let metrics = bed
        .get("/metrics", &[("authorization", read.as_str())])
        .await;
    assert_ne!(metrics.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn every_answer_has_the_headers_of_safety() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    for path in [
        "/",
        "/login",
        "/assets/app.js",
        "/nowhere",
        "/api/v1/nowhere",
        "/jobs/99",
    ] {
        let answer = bed.get(path, &[("cookie", &login.cookie)]).await;
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{path}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
        // With another policy, browsers send `Origin: null` with the portal's own forms.
        assert_eq!(answer.header("referrer-policy"), "same-origin", "{path}");
        if path.contains("nowhere") {
            assert_eq!(answer.status, StatusCode::NOT_FOUND);
            let json = answer.header("content-type") == "application/problem+json";
            assert_eq!(json, path.starts_with("/api/"), "{path}");
        }
        if answer.header("content-type").starts_with("text/html") {
            assert!(!answer.text.contains(" style=") && !answer.text.contains("javascript:"));
            let inline = answer.text.split("<script").skip(1);
            assert!(
                inline.clone().all(|tag| tag.starts_with(" src=\"/assets/")),
                "{path}"
            );
        }
    }
    for path in ["/assets/..%2fCargo.toml", "/assets/none.js", "/assets/app"] {
        assert_eq!(
            bed.get(path, &[]).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let body = format!("csrf={}&script={}", login.csrf, "x".repeat(BODY_MAX));
    let answer = bed
        .form("/submit", &body, &[("cookie", &login.cookie)])
        .await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(
        answer.text.contains(&BODY_MAX.to_string()),
        "the limit is named"
    );
    let many = "a=1&".repeat(10_000);
    let answer = bed
        .form("/submit", &many, &[("cookie", &login.cookie)])
        .await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_value_is_never_an_option_of_a_command() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    for path in ["/api/v1/acct?user=-l", "/usage?ended=-x"] {
        let answer = bed.get(path, &[("cookie", &login.cookie)]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn open_streams_are_counted() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let all = bed.app.streams.clone();
    let n = u32::try_from(corral_web::STREAMS_MAX).unwrap();
    let _taken = all.acquire_many_owned(n).await.unwrap();
    for path in ["/live/view", "/live/jobs/1/log"] {
        let answer = bed.get(path, &[("cookie", &login.cookie)]).await;
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{path}");
    }
}
