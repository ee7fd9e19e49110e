//! The REST interface: each route of the table answers and is in the OpenAPI document.

use crate::bed::{READ_TOKEN, SUBMIT_TOKEN, TestPortal};
use axum::http::StatusCode;
use corral_web::identity::JobAction;
use corral_web::routes::{API, ROUTES, ResponseKind, openapi};

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// A query for which a route has a result, in the order of the table.
fn sample(method: &str, path: &str) -> &'static str {
    match (method, path) {
        (_, "/files/content") => "?path=kept",
        // The length of the body that is sent.
        ("post", "/files/upload") => "?path=new&size=18",
        (_, "/files/upload") => "?path=new",
        (_, "/files/mkdir") => "?path=dir",
        (_, "/files/rename") => "?path=dir&to=other",
        (_, "/files/remove") => "?path=other",
        _ => "",
    }
}

#[tokio::test]
async fn every_route_is_documented_and_answers() {
    let bed = TestPortal::new();
    std::fs::write(bed.home().join("kept"), "kept").unwrap();
    let document = openapi();
    let mut operations = 0;
    for path in document["paths"].as_object().unwrap().values() {
        operations += path.as_object().unwrap().len();
    }
    assert_eq!(operations, ROUTES.len());
    for route in ROUTES {
        let path = format!("{API}{}", route.path);
        assert!(document["paths"][&path][route.method].is_object(), "{path}");
        if route.answer == ResponseKind::Events {
            continue;
        }
        let path = format!("{path}{}", sample(route.method, route.path));
        let path = path.replace("{id}", "1");
        let auth = bearer(SUBMIT_TOKEN);
        let mut headers = vec![("authorization", auth.as_str())];
        let answer = match route.method {
            "get" => bed.get(&path, &headers).await,
            _ => {
                headers.push(("content-type", "application/json"));
                bed.post(&path, "{\"command\":\"true\"}", &headers).await
            }
        };
        // This view has no journal and no accounting.
        let bare = ["/jobs/{id}/history", "/acct"].contains(&route.path);
        let good = answer.status.is_success() || (bare && answer.status.as_u16() == 503);
        assert!(good, "{path}: {} {}", answer.status, answer.text);
        if route.answer == ResponseKind::Bytes {
            assert_eq!(answer.text, "kept", "{path}");
            continue;
        }
        let body = answer.json();
        if route.answer == ResponseKind::List && !bare {
            assert!(body["items"].is_array(), "{path}: {body}");
        }
    }
}

/// A query that is not understood is never answered as if it were another one.
#[tokio::test]
async fn every_route_refuses_parameters_that_it_does_not_have() {
    let bed = TestPortal::new();
    let auth = bearer(SUBMIT_TOKEN);
    for route in ROUTES {
        let path = format!("{API}{}", route.path).replace("{id}", "1");
        for query in ["?state=run", "?count2=1", "?Path=x"] {
            let path = format!("{path}{query}");
            let mut headers = vec![("authorization", auth.as_str())];
            let answer = match route.method {
                "get" => bed.get(&path, &headers).await,
                _ => {
                    headers.push(("content-type", "application/json"));
                    bed.post(&path, "{\"command\":\"true\"}", &headers).await
                }
            };
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
            let name = query.trim_start_matches('?').split('=').next().unwrap();
            let why = answer.json()["detail"].as_str().unwrap().to_owned();
            assert_eq!(why, format!("there is no parameter '{name}'"));
            let hint = answer.json()["hint"].as_str().unwrap().to_owned();
            assert!(
                route.query.iter().all(|(known, _)| hint.contains(known)),
                "{hint}"
            );
        }
    }
    assert!(
        bed.done.lock().unwrap().jobs.is_empty(),
        "nothing was submitted"
    );
    let headers = [("authorization", auth.as_str())];
    for (query, why) in [
        ("count=many", "count: 'many' is not understood"),
        ("array=4%5B1%5D", "array: '4[1]' is not understood"),
        ("own=maybe", "own: 'maybe' is not understood"),
        ("from=0&from=5", "the parameter 'from' is given twice"),
    ] {
        let answer = bed.get(&format!("{API}/jobs?{query}"), &headers).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{query}");
        assert_eq!(answer.json()["detail"], why);
    }
    for query in [
        "own=no&finished=on&count=1&from=&sort=user&reverse=1",
        "&",
        "",
    ] {
        let answer = bed.get(&format!("{API}/jobs?{query}"), &headers).await;
        assert_eq!(answer.status, StatusCode::OK, "{query}");
    }
}

#[tokio::test]
async fn jobs_come_as_the_commands_give_them() {
    let bed = TestPortal::new();
    let auth = bearer(READ_TOKEN);
    let get = async |path: &str| bed.get(path, &[("authorization", auth.as_str())]).await;
    let list = get("/api/v1/jobs?filter=waits").await.json();
    assert_eq!(
        (list["total"].as_u64(), list["items"][0]["jobid"].as_str()),
        (Some(1), Some("2"))
    );
    let job = get("/api/v1/jobs/2").await.json();
    assert_eq!(
        (job["stat"].as_str(), job["name"].as_str()),
        (Some("PEND"), Some("waits"))
    );
    assert!(
        job["submit_ms"].is_i64() && job.get("res_req").is_some(),
        "all members of cjobs"
    );
    let array = get("/api/v1/jobs/4").await.json();
    assert_eq!(array["njobs"], 5);
    let none = get("/api/v1/jobs/99").await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
    assert_eq!(none.header("content-type"), "application/problem+json");
    assert_eq!(none.json()["detail"], "Job <99> is not found");
}

#[tokio::test]
async fn a_submission_is_one_job_by_its_key() {
    let bed = TestPortal::new();
    let auth = bearer(SUBMIT_TOKEN);
    let send = async |body: &str, more: &[(&str, &str)]| {
        let mut headers = vec![
            ("authorization", auth.as_str()),
            ("content-type", "application/json"),
        ];
        headers.extend(more);
        bed.post("/api/v1/jobs", body, &headers).await
    };
    let answer = send(
        r#"{"command":"true","slots":"2"}"#,
        &[("idempotency-key", "k1")],
    )
    .await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(answer.header("location"), "/api/v1/jobs/1");
    let named = bed.done.lock().unwrap().jobs[0].named_options.clone();
    assert!(named.contains(&("key", "k1".to_owned())) && named.contains(&("n", "2".to_owned())));
    let refused = send(r#"{"command":"refuse"}"#, &[]).await;
    assert_eq!(
        (refused.status, refused.json()["hint"].as_str()),
        (StatusCode::CONFLICT, Some("take another"))
    );
    assert_eq!(refused.header("retry-after"), "");
    let full = send(r#"{"command":"full"}"#, &[]).await;
    assert_eq!(
        (full.status, full.header("retry-after")),
        (StatusCode::TOO_MANY_REQUESTS, "60")
    );
    assert_eq!(
        full.json()["detail"],
        "the limit of 2 pending jobs is reached"
    );
    for bad in ["", "[]", r#"{"command":"true","slotz":"2"}"#, "{}"] {
        assert_eq!(
            send(bad, &[]).await.status,
            StatusCode::BAD_REQUEST,
            "{bad}"
        );
    }
    let plain = bed
        .post("/api/v1/jobs", "{}", &[("authorization", auth.as_str())])
        .await;
    assert_eq!(plain.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn acts_say_how_the_job_fared() {
    let bed = TestPortal::new();
    let auth = bearer(SUBMIT_TOKEN);
    for act in JobAction::ALL {
        let path = format!("/api/v1/jobs/4%5B1%5D/{}", act.word());
        let answer = bed
            .post(&path, "", &[("authorization", auth.as_str())])
            .await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let last = bed.done.lock().unwrap().acts.pop().unwrap();
        assert_eq!(last, (act, vec!["4[1]".to_owned()]));
    }
    let refused = bed
        .post(
            "/api/v1/jobs/3/kill",
            "",
            &[("authorization", auth.as_str())],
        )
        .await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}
