//! Terminals: a shell in a page, its owner, and who may not access it.

use crate::bed::{Login, READ_TOKEN, SUBMIT_TOKEN, TestPortal};
use crate::live::{HttpAnswer, RunningPortal};
use corral::api::attach::AttachRequest;
use corral_web::identity::Identity;
use corral_web::terminal::OF_USER_MAX;

/// Starts a terminal; returns its path.
fn begin(live: &RunningPortal, login: &Login) -> String {
    let body = format!("csrf={}&queue=night&slots=2&run_limit=1:30", login.csrf);
    let answer = live.run(
        live.bed
            .form("/terminal", &body, &[("cookie", &login.cookie)]),
    );
    assert_eq!(answer.status.as_u16(), 303, "{}", answer.text);
    answer.header("location").to_owned()
}

fn socket(live: &RunningPortal, place: &str) -> HttpAnswer {
    let origin = format!("http://{}", live.host());
    let headers = [("Cookie", live.login.cookie.as_str()), ("Origin", &origin)];
    let answer = live.ask_socket(&format!("{place}/ws"), &live.host(), &headers);
    assert_eq!(answer.status(), 101, "{}", answer.head);
    answer
}

#[test]
fn a_page_is_at_a_shell_that_ends_with_it() {
    let live = RunningPortal::start(TestPortal::new());
    let place = begin(&live, &live.login);
    let attended = live.bed.done.lock().unwrap().attended.clone();
    let AttachRequest::Terminal {
        queue,
        slots,
        run_limit,
        ..
    } = &attended[0]
    else {
        panic!("{attended:?}");
    };
    assert_eq!(
        (queue.as_str(), *slots, run_limit.as_str()),
        ("night", 2, "1:30")
    );
    let page = live.run(live.bed.get(&place, &[("cookie", &live.login.cookie)]));
    assert!(
        page.text.contains(&format!("data-place=\"{place}/ws\"")),
        "{}",
        page.text
    );
    let mut at = socket(&live, &place);
    at.say(1, br#"{"size":[41,133]}"#);
    at.say(2, b"stty size; echo be''gun\n");
    let got = at.until("begun\r\n");
    assert!(got.contains("41 133"), "{got}");
    // Another page of the session replaces it, and gets the last output.
    let mut next = socket(&live, &place);
    assert_eq!(at.closed(), 4001);
    next.until("begun\r\n");
    // The loss of a connection does not end the terminal at once.
    drop(next);
    let mut next = socket(&live, &place);
    next.say(2, b"echo still he''re\n");
    next.until("still here\r\n");
    next.say(2, b"exit\n");
    assert_eq!(next.closed(), 4000);
    let gone = live.run(live.bed.get(&place, &[("cookie", &live.login.cookie)]));
    assert_eq!(
        (gone.status.as_u16(), gone.header("location")),
        (303, "/terminal")
    );
}

#[test]
fn a_shell_that_writes_without_end_waits_for_its_page() {
    let live = RunningPortal::start(TestPortal::new());
    let place = begin(&live, &live.login);
    let mut at = socket(&live, &place);
    at.say(2, b"yes | head -c 3000000; echo; echo do''ne\n");
    // Without reports of shown bytes the output stops; it continues after a report.
    let mut got = 0;
    at.stream
        .set_read_timeout(Some(std::time::Duration::from_secs(10)))
        .unwrap();
    let read = loop {
        let mut buf = [0; 65536];
        match std::io::Read::read(&mut at.stream, &mut buf) {
            Ok(n) if n > 0 => got += n,
            other => break other,
        }
        assert!(got < 1 << 20, "it goes on: {got}");
    };
    assert!(read.is_err() && got >= 256 << 10, "{got}: {read:?}");
    at.stream
        .set_read_timeout(Some(std::time::Duration::from_secs(180)))
        .unwrap();
    at.say(1, format!("{{\"shown\":{got}}}").as_bytes());
    at.until("done\r\n");
}

#[test]
fn nobody_else_is_at_a_terminal() {
    let live = RunningPortal::start(TestPortal::new());
    let place = begin(&live, &live.login);
    let ws = format!("{place}/ws");
    let (host, cookie) = (live.host(), live.login.cookie.clone());
    let origin = format!("http://{host}");
    let status = |headers: &[(&str, &str)]| live.ask_socket(&ws, &host, headers).status();
    // A page of another site, or one that does not state its origin.
    for foreign in [
        "http://evil.example",
        "null",
        "http://localhost:1",
        "http://j1.localhost:1",
    ] {
        assert_eq!(
            status(&[("Cookie", &cookie), ("Origin", foreign)]),
            403,
            "{foreign}"
        );
    }
    assert_eq!(status(&[("Cookie", &cookie)]), 403, "without an origin");
    let cross = [
        ("Cookie", cookie.as_str()),
        ("Origin", &origin),
        ("Sec-Fetch-Site", "same-site"),
    ];
    assert_eq!(status(&cross), 403);
    // A token gives fewer rights than a login.
    for token in [READ_TOKEN, SUBMIT_TOKEN] {
        let bearer = format!("Bearer {token}");
        assert_eq!(
            status(&[("Authorization", &bearer), ("Origin", &origin)]),
            403
        );
        let auth = [("authorization", bearer.as_str())];
        assert_eq!(
            live.run(live.bed.form("/terminal", "slots=1", &auth))
                .status
                .as_u16(),
            403
        );
        assert_eq!(live.run(live.bed.get(&place, &auth)).status.as_u16(), 403);
    }
    assert_eq!(status(&[("Origin", &origin)]), 303, "to the login");
    // Another user, and another session of the same one.
    for (secret, uid) in [("other", crate::bed::OTHER), ("second", crate::bed::ME)] {
        let who = Identity::new(uid, "u");
        let now = corral::sys::clock::wall_ms();
        live.bed
            .app
            .sessions()
            .begin(secret, "csrf".into(), who, now);
        let cookie = format!("corral_1={secret}");
        assert_eq!(
            status(&[("Cookie", &cookie), ("Origin", &origin)]),
            404,
            "{secret}"
        );
        let close = format!("{place}/close");
        let theirs = [("cookie", cookie.as_str())];
        live.run(live.bed.form(&close, "csrf=csrf", &theirs));
        let list = live.run(live.bed.get("/terminal", &theirs));
        assert!(!list.text.contains(&place), "{}", list.text);
    }
    // The terminal still exists.
    socket(&live, &place).say(2, b"exit\n");
    let forged = live.run(
        live.bed
            .form("/terminal", "slots=1", &[("cookie", &cookie)]),
    );
    assert_eq!(
        forged.status.as_u16(),
        403,
        "without the token of the forms"
    );
}

#[test]
fn a_terminal_ends_with_its_session_and_on_demand() {
    let live = RunningPortal::start(TestPortal::new());
    let (first, second) = (begin(&live, &live.login), begin(&live, &live.login));
    let mut at = socket(&live, &first);
    let cookie = live.login.cookie.clone();
    let csrf = format!("csrf={}", live.login.csrf);
    let close = format!("{first}/close");
    live.run(live.bed.form(&close, &csrf, &[("cookie", &cookie)]));
    assert_eq!(at.closed(), 4000);
    let mut at = socket(&live, &second);
    live.run(live.bed.form("/logout", &csrf, &[("cookie", &cookie)]));
    assert_eq!(at.closed(), 4000);
}

#[test]
fn terminals_are_counted_and_refusals_are_told() {
    let live = RunningPortal::start(TestPortal::new());
    let cookie = live.login.cookie.clone();
    let send = |body: String| live.run(live.bed.form("/terminal", &body, &[("cookie", &cookie)]));
    let csrf = &live.login.csrf;
    let refused = send(format!("csrf={csrf}&queue=refuse"));
    assert_eq!(refused.status.as_u16(), 409);
    assert!(
        refused.text.contains("the queue is closed"),
        "{}",
        refused.text
    );
    assert_eq!(send(format!("csrf={csrf}&slots=many")).status.as_u16(), 400);
    for _ in 0..OF_USER_MAX {
        begin(&live, &live.login);
    }
    let more = send(format!("csrf={csrf}"));
    assert_eq!(more.status.as_u16(), 429, "{}", more.text);
    let list = live.run(live.bed.get("/terminal", &[("cookie", &cookie)]));
    assert_eq!(list.text.matches("/close\"").count(), OF_USER_MAX);
}
