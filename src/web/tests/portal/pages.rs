//! What pages show, in both languages, and what their forms do.

use crate::bed::{EVIL, ME, TestPortal, job, spec};
use axum::http::StatusCode;
use corral::model::{JobKey, JobStat};
use corral::record::view::{ArrayRow, JobRow, Row};
use corral_web::identity::JobAction;
use corral_web::pages::MENU;

#[tokio::test]
async fn every_page_answers_in_both_languages() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    for (place, _) in MENU {
        // Without a cluster file, accounting cannot be read; the page reports it.
        let want = if *place == "/usage" { 503 } else { 200 };
        for (lang, other) in [("en", "Log out"), ("zh-CN", "退出")] {
            let cookie = format!("{}; corral_lang={lang}", login.cookie);
            let page = bed.get(place, &[("cookie", &cookie)]).await;
            assert_eq!(page.status.as_u16(), want, "{place} {}", page.text);
            assert!(
                page.text.contains(&format!("<html lang=\"{lang}\"")),
                "{place}"
            );
            if want == 200 {
                assert!(page.text.contains(other), "{place} {lang}");
                assert_eq!(page.text.matches("<h1").count(), 1, "{place}");
                assert_eq!(
                    page.text.matches("aria-current=\"page\"").count(),
                    1,
                    "{place}"
                );
            }
            assert!(
                !page.text.contains(EVIL),
                "{place}: a name is taken for HTML"
            );
        }
    }
    let page = bed
        .get("/", &[("cookie", &login.cookie), ("accept-language", "zh")])
        .await;
    assert!(page.text.contains("<html lang=\"zh-CN\""));
}

#[tokio::test]
async fn the_list_of_jobs_is_filtered_sorted_and_folded() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let get = async |query: &str| {
        let page = bed
            .get(&format!("/jobs?{query}"), &[("cookie", &login.cookie)])
            .await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        page.text
    };
    let all = get("").await;
    assert!(
        all.contains("&#60;script&#62;"),
        "the name is shown as text"
    );
    assert!(all.contains("secret-of-other") && all.contains("1 RUN, ") || all.contains("4 PEND"));
    assert!(!all.contains("4[1]"), "arrays are folded");
    assert!(get("array=4").await.contains("4[1]"));
    assert!(!get("own=yes").await.contains("secret-of-other"));
    let found = get("filter=name:waits").await;
    assert!(found.contains("waits") && !found.contains("sweep"));
    let sorted = get("sort=id&reverse=yes").await;
    assert!(sorted.contains("aria-sort=\"descending\""), "{sorted}");
    let cut = get("count=2&sort=id").await;
    assert!(
        cut.contains("rel=\"next\"") && cut.contains("1–2 / 4"),
        "{cut}"
    );
    let page = bed
        .get("/jobs?filter=nonsense:x", &[("cookie", &login.cookie)])
        .await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    assert!(page.text.contains("no field nonsense"));
}

#[tokio::test]
async fn a_jobs_page_says_what_is_known() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let page = bed.get("/jobs/1", &[("cookie", &login.cookie)]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(!page.text.contains(EVIL) && page.text.contains("/hosts/h1"));
    let element = bed
        .get("/jobs/4%5B1%5D", &[("cookie", &login.cookie)])
        .await;
    assert!(
        element.text.contains("sweep"),
        "an element has its array's name"
    );
    for (path, want) in [("/jobs/99", 404), ("/jobs/x", 404), ("/jobs/..%2f1", 404)] {
        let page = bed.get(path, &[("cookie", &login.cookie)]).await;
        assert_eq!(page.status.as_u16(), want, "{path}");
    }
}

/// A page that renews itself replaces only marked parts: what changes must be in one of them.
#[tokio::test]
async fn all_that_changes_on_a_jobs_page_is_in_parts_that_are_renewed() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let part = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!("data-live=\"{name}\"")).unwrap();
        let (_, rest) = rest.split_once('>').unwrap();
        let end = rest.find("data-live").unwrap_or(rest.len());
        rest[..end].to_owned()
    };
    for (id, stat) in [
        ("1", "RUN"),
        ("2", "PEND"),
        ("4", "RUN"),
        ("4%5B1%5D", "RUN"),
    ] {
        let path = format!("/jobs/{id}");
        let page = bed.get(&path, &[("cookie", &login.cookie)]).await.text;
        assert!(
            part(&page, "state").contains(&format!("{stat}</span></h1>")),
            "{page}"
        );
        assert!(part(&page, "facts").contains("<dt>"), "{page}");
        for name in ["program", "output", "long", "history"] {
            part(&page, name);
        }
        // Parts are found by their names: each is there once.
        let names = page.match_indices("data-live=\"").map(|(at, mark)| {
            let rest = &page[at + mark.len()..];
            rest[..rest.find('"').unwrap()].to_owned()
        });
        let names: Vec<String> = names.collect();
        let unique: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
    }
    let array = bed.get("/jobs/4", &[("cookie", &login.cookie)]).await.text;
    assert!(
        part(&array, "elements").contains("4 PEND, 1 RUN"),
        "{array}"
    );
}

/// The row of an array stays PEND when its last element has ended.
#[tokio::test]
async fn an_array_that_has_ended_is_shown_as_ended() {
    let one = |row: JobRow<'static>| Row::Job(Box::new(row));
    let array = JobRow {
        arr: Some(Box::new(ArrayRow {
            all: "1-2".into(),
            counts: [("DONE".to_owned(), 2)].into(),
            ..ArrayRow::default()
        })),
        ..job(4, 1, JobStat::Pend, "sweep")
    };
    let element = |idx, end_ms: i64| JobRow {
        j: JobKey::element(4, idx),
        end: 1_795_230_002_000 + end_ms,
        ..job(4, 1, JobStat::Done, "")
    };
    let rows = vec![
        spec(1, ME),
        one(array),
        one(element(1, 60_000)),
        one(element(2, 90_000)),
    ];
    let bed = TestPortal::with(true, rows);
    let login = bed.login().await;
    let page = bed.get("/jobs/4", &[("cookie", &login.cookie)]).await.text;
    assert!(
        page.contains("DONE</span></h1>") && page.contains("2 DONE"),
        "{page}"
    );
    assert!(page.contains("<dt>Ended</dt>"), "{page}");
    let list = bed
        .get("/jobs?finished=yes", &[("cookie", &login.cookie)])
        .await
        .text;
    assert!(!list.contains("PEND</span>"), "{list}");
    let auth = format!("Bearer {}", crate::bed::READ_TOKEN);
    let rest = bed
        .get("/api/v1/jobs?finished=yes", &[("authorization", &auth)])
        .await;
    let row = rest.json()["items"][0].clone();
    assert_eq!(
        (row["stat"].as_str(), row["jobid"].as_str()),
        (Some("DONE"), Some("4")),
        "{row}"
    );
    assert_eq!(row["time_ms"], 90_000, "{row}");
}

#[tokio::test]
async fn who_sees_own_jobs_only_gets_no_page_of_another() {
    let mut rows = vec![crate::bed::spec(1, ME), crate::bed::spec(2, ME + 1)];
    for (id, s) in [(1, 1), (3, 2)] {
        let row = crate::bed::job(id, s, corral::model::JobStat::Run, "hidden-name");
        rows.push(corral::record::view::Row::Job(Box::new(row)));
    }
    let bed = TestPortal::with(false, rows);
    let login = bed.login().await;
    let get = async |path: &str| bed.get(path, &[("cookie", &login.cookie)]).await;
    assert_eq!(get("/jobs/1").await.status, StatusCode::OK);
    let list = get("/jobs").await.text;
    assert!(list.contains("/jobs/1") && !list.contains("/jobs/3"));
    for path in [
        "/jobs/3",
        "/live/jobs/3/log",
        "/api/v1/jobs/3",
        "/api/v1/jobs/3/output",
    ] {
        assert_eq!(get(path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert!(
        !get("/api/v1/jobs?finished=yes")
            .await
            .text
            .contains("\"3\"")
    );
}

#[tokio::test]
async fn marked_jobs_are_acted_on_and_each_result_is_shown() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let act = async |fields: &str| {
        let body = format!("csrf={}&{fields}", login.csrf);
        bed.form("/jobs/act", &body, &[("cookie", &login.cookie)])
            .await
    };
    let page = act("act=kill&id=1&id=4%5B1%5D&back=%2Fjobs%3Fown%3Dyes").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(page.text.contains("is being terminated") && page.text.contains("/jobs?own=yes"));
    let done = bed.done.lock().unwrap().acts.clone();
    assert_eq!(
        done,
        [(JobAction::Kill, vec!["1".to_owned(), "4[1]".to_owned()])]
    );
    for bad in [
        "act=kill",
        "act=burn&id=1",
        "act=kill&id=0",
        "act=kill&id=1-5",
    ] {
        assert!(act(bad).await.status.is_client_error(), "{bad}");
    }
    assert_eq!(bed.done.lock().unwrap().acts.len(), 1);
}

#[tokio::test]
async fn the_form_checks_and_submits() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let send = async |path: &str, fields: &str| {
        let body = format!("csrf={}&{fields}", login.csrf);
        bed.form(path, &body, &[("cookie", &login.cookie)]).await
    };
    let checked = send("/submit/check", "command=true&slots=4").await;
    assert_eq!(checked.status, StatusCode::OK);
    assert!(checked.text.contains("Would be accepted") && checked.text.contains("value=\"4\""));
    assert!(
        bed.done.lock().unwrap().jobs.is_empty(),
        "nothing is submitted"
    );
    let refused = send("/submit", "command=refuse").await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.text.contains("the queue is closed") && refused.text.contains("take another"));
    let empty = send("/submit", "name=x").await;
    assert_eq!(empty.status, StatusCode::BAD_REQUEST);
    let sent = send(
        "/submit",
        "script=%23%21%2Fbin%2Fsh%0D%0Atrue%0D%0A&array=1-3&queue=night",
    )
    .await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER);
    assert_eq!(sent.header("location"), "/jobs/1");
    let job = bed.done.lock().unwrap().jobs[0].clone();
    assert_eq!(
        (job.script.as_str(), job.array.as_str()),
        ("#!/bin/sh\ntrue", "1-3")
    );
    assert!(job.named_options.contains(&("q", "night".to_owned())));
    assert!(job.named_options.contains(&("cwd", "/h/me".to_owned())));
}

#[tokio::test]
async fn language_and_colours_are_kept() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let body = format!("csrf={}&lang=zh-CN&theme=dark&back=%2Fhosts", login.csrf);
    let answer = bed
        .form("/settings", &body, &[("cookie", &login.cookie)])
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("location")),
        (303, "/hosts")
    );
    let set: Vec<&str> = answer
        .headers
        .get_all("set-cookie")
        .iter()
        .map(|v| v.to_str().unwrap())
        .collect();
    assert_eq!(set.len(), 2, "{set:?}");
    assert!(set[0].starts_with("corral_lang=zh-CN;") && set[1].starts_with("corral_theme=dark;"));
    let cookie = format!("{}; corral_theme=dark", login.cookie);
    let page = bed.get("/hosts?view=map", &[("cookie", &cookie)]).await;
    assert!(page.text.contains("data-theme=\"dark\"") && page.text.contains("heat1"));
}
