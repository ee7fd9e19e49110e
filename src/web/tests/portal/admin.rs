//! The pages of administrators: the actions that they request, and which users they refuse.

use crate::bed::{ME, READ_TOKEN, SUBMIT_TOKEN, TestPortal, job, spec};
use axum::http::StatusCode;
use corral::api::admin::{AdminAction, HostAct, QueueAct};
use corral::model::JobStat;
use corral::record::view::Row;

#[tokio::test]
async fn marked_queues_and_hosts_are_closed_with_the_comment() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let act = async |fields: &str| {
        let body = format!("csrf={}&{fields}", login.csrf);
        let cookie = [("cookie", login.cookie.as_str())];
        bed.form("/admin/act", &body, &cookie).await
    };
    let page = act("what=hosts&act=close&name=h1&name=h2&comment=new+disk").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(page.text.contains("is done"), "{}", page.text);
    act("what=queues&act=inactivate&name=normal").await;
    let want = [
        AdminAction::Hosts {
            names: vec!["h1".into(), "h2".into()],
            act: HostAct::Close,
            comment: "new disk".into(),
        },
        AdminAction::Queues {
            names: vec!["normal".into()],
            act: QueueAct::Inactivate,
            comment: String::new(),
        },
    ];
    assert_eq!(bed.done.lock().unwrap().administered, want);
    for wrong in [
        "what=hosts&act=close",
        "what=hosts&act=x&name=h1",
        "act=open&name=h1",
    ] {
        assert_eq!(act(wrong).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    assert_eq!(bed.done.lock().unwrap().administered.len(), 2);
}

#[tokio::test]
async fn tokens_and_other_users_get_no_page_of_administrators() {
    let bed = TestPortal::new();
    for token in [READ_TOKEN, SUBMIT_TOKEN] {
        let bearer = format!("Bearer {token}");
        let auth = [("authorization", bearer.as_str())];
        for place in ["/admin", "/admin/config"] {
            assert_eq!(bed.get(place, &auth).await.status, StatusCode::FORBIDDEN);
        }
        let body = "what=hosts&act=close&name=h1";
        let answer = bed.form("/admin/act", body, &auth).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    assert!(bed.done.lock().unwrap().administered.is_empty());
    // A cluster without administrators.
    let rows = vec![
        spec(1, ME),
        Row::Job(Box::new(job(1, 1, JobStat::Run, "x"))),
    ];
    let bed = TestPortal::with(false, rows);
    let login = bed.login().await;
    let cookie = [("cookie", login.cookie.as_str())];
    assert_eq!(
        bed.get("/admin", &cookie).await.status,
        StatusCode::FORBIDDEN
    );
    assert!(!bed.get("/", &cookie).await.text.contains("href=\"/admin\""));
}

#[tokio::test]
async fn a_configuration_is_checked_and_its_effects_are_shown_before_it_is_saved() {
    let bed = TestPortal::new();
    let old = "cluster: {name: c, administrators: [root]}\nhosts: [{name: h1, slots: 4}]\n\
               queues:\n- {name: q, priority: 10}\n";
    let path = bed.share().join("conf");
    std::fs::create_dir(&path).unwrap();
    let path = path.join("cb.yaml");
    std::fs::write(&path, old).unwrap();
    let login = bed.login().await;
    let cookie = [("cookie", login.cookie.as_str())];
    let page = bed.get("/admin/config", &cookie).await;
    assert!(page.text.contains("priority: 10"), "{}", page.text);
    let (_, rest) = page.text.split_once("name=\"base\" value=\"").unwrap();
    let base = rest.split('"').next().unwrap();
    let send = async |place: &str, text: &str| {
        let fields = [
            ("csrf", login.csrf.as_str()),
            ("base", base),
            ("text", text),
        ];
        let body = serde_urlencoded::to_string(fields).unwrap();
        bed.form(place, &body, &cookie).await
    };
    let new = old.replace("10", "20").replace('\n', "\r\n");
    let page = send("/admin/config/check", &new).await;
    assert!(page.text.contains("queues[q].priority"), "{}", page.text);
    assert!(page.text.contains("action=\"/admin/config/save\""));
    let bad = send("/admin/config/check", "queues: 7\r\n").await;
    assert!(bad.text.contains("^") && !bad.text.contains("action=\"/admin/config/save\""));
    // A text with errors, or one based on an older text, is not saved.
    let refused = send("/admin/config/save", "queues: 7\r\n").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), old);
    std::fs::write(&path, format!("# new\n{old}")).unwrap();
    let late = send("/admin/config/save", &new).await;
    assert!(late.status.is_client_error(), "{}", late.text);
    assert!(late.text.contains("since it was read"), "{}", late.text);
    assert!(late.text.contains("priority: 20"), "what was typed is lost");
}
