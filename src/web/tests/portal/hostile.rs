//! User texts with HTML and terminal codes, on every page that shows them.

use crate::bed::{Answer, EVIL, ME, TestPortal, job};
use axum::http::StatusCode;
use corral::model::{JobStat, Spec};
use corral::record::view::{JobRow, Row};

/// HTML, a colour code, a code that sets the title of a terminal, a mark that reverses the
/// direction of text.
fn evil() -> String {
    format!("{EVIL}\u{1b}[31m\u{1b}]0;x\u{7}\u{202e}\u{0}")
}

/// A job whose texts are all of this kind.
fn rows() -> Vec<Row<'static>> {
    let text = evil;
    let spec = Spec {
        uid: ME,
        user: format!("u{ME}"),
        queue: "normal".into(),
        project: text(),
        app: text(),
        user_group: text(),
        res_req: text(),
        hosts: text(),
        depend: text(),
        cwd: text(),
        shell: text(),
        stdin: text(),
        stdout: text(),
        stderr: text(),
        notify: text(),
        sub_host: text(),
        description: text(),
        min: 1,
        max: 1,
        ..Spec::default()
    };
    let of = |id: u32, stat: JobStat| {
        let row = JobRow {
            command: text().into(),
            text: text(),
            ..job(id, 1, stat, &evil())
        };
        Row::Job(Box::new(row))
    };
    vec![
        Row::Spec {
            id: 1,
            spec: Box::new(spec),
        },
        of(1, JobStat::Run),
        of(2, JobStat::Pend),
        of(3, JobStat::Exit),
    ]
}

fn percent(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02x}")).collect()
}

/// No page uses a text as HTML, and no other response contains codes that a terminal would obey.
fn is_harmless(place: &str, answer: &Answer) {
    if answer.header("content-type").starts_with("text/html") {
        assert!(
            !answer.text.contains("<script>alert"),
            "{place}: {}",
            answer.text
        );
        return;
    }
    // A redirection has no body.
    let kind = answer.header("content-type");
    assert!(
        answer.text.is_empty() || kind.contains("json"),
        "{place}: {kind}"
    );
    let found = answer.text.chars().find(|c| c.is_control() && *c != '\n');
    assert!(found.is_none(), "{place}: {found:?} in {}", answer.text);
}

#[tokio::test]
async fn what_users_write_is_text_everywhere() {
    let bed = TestPortal::with(true, rows());
    let login = bed.login().await;
    let name: String = evil().replace(['/', '\0'], "");
    std::fs::write(bed.home().join(&name), evil()).unwrap();
    let cookie = ("cookie", login.cookie.as_str());
    let (word, file) = (percent(&evil()), percent(&name));
    for place in [
        "/",
        "/jobs",
        "/jobs?count=1",
        "/jobs/1",
        "/jobs/2",
        "/jobs/3",
        "/jobs/1/form",
        "/files",
        "/hosts",
        "/hosts/h1",
        "/queues",
        "/shares",
        "/resources",
        "/admin",
        "/api/v1/jobs",
        "/api/v1/jobs/1",
        "/api/v1/files",
        "/api/v1/queues",
        "/api/v1/hosts",
        &format!("/jobs?filter=name:{word}"),
        &format!("/jobs?filter={word}"),
        &format!("/jobs?sort={word}"),
        &format!("/jobs/{word}"),
        &format!("/hosts/{word}"),
        &format!("/submit/app/{word}"),
        &format!("/files?path={word}"),
        &format!("/files?root={word}"),
        &format!("/files/view?path={file}"),
        &format!("/usage?user={word}"),
        &format!("/api/v1/jobs?filter={word}"),
        &format!("/api/v1/jobs/{word}"),
        &format!("/nowhere/{word}"),
    ] {
        let answer = bed.get(place, &[cookie]).await;
        let is_other = answer
            .header("content-type")
            .starts_with("application/octet-stream");
        assert!(!is_other, "{place}");
        is_harmless(place, &answer);
    }
    let csrf = &login.csrf;
    for (place, body) in [
        (
            "/submit",
            format!("csrf={csrf}&script={word}&name={word}&queue={word}"),
        ),
        (
            "/submit/check",
            format!("csrf={csrf}&script={word}&options={word}"),
        ),
        ("/jobs/act", format!("csrf={csrf}&act={word}&id={word}")),
        ("/jobs/act", format!("csrf={csrf}&act=kill&id={word}")),
        ("/files/mkdir", format!("csrf={csrf}&name={word}")),
        ("/admin/check", format!("csrf={csrf}&text={word}")),
        ("/admin/config/check", format!("csrf={csrf}&text={word}")),
        ("/login", format!("token={word}")),
    ] {
        let answer = bed.form(place, &body, &[cookie]).await;
        assert_ne!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{place}");
        is_harmless(place, &answer);
    }
}
