//! Programs of jobs: each with its own name, only for the job's user, without the portal's secrets.

use crate::bed::{OTHER, READ_TOKEN, SUBMIT_TOKEN, TestPortal};
use crate::live::{HttpAnswer, RunningPortal};
use corral::api::attach::AttachRequest;
use corral_web::Settings;
use corral_web::identity::Identity;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A program that records the requests that it gets.
struct Program {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Program {
    fn start() -> Program {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let all = all.clone();
                std::thread::spawn(move || answer(stream.unwrap(), &all, port));
            }
        });
        Program { port, heard }
    }

    /// All requests, in lower case.
    fn received(&self) -> String {
        self.heard.lock().unwrap().join("\n").to_ascii_lowercase()
    }
}

fn answer(stream: TcpStream, all: &Mutex<Vec<String>>, port: u16) {
    let mut from = BufReader::new(stream.try_clone().unwrap());
    let mut to = stream;
    let (mut head, mut len) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            len = value.trim().parse().unwrap();
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; len];
    from.read_exact(&mut body).unwrap();
    head.push_str(&String::from_utf8_lossy(&body));
    all.lock().unwrap().push(head.clone());
    if head.to_ascii_lowercase().contains("upgrade: websocket") {
        let text = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        to.write_all(text.as_bytes()).unwrap();
        let mut buf = [0; 4096];
        while let Ok(n) = from.read(&mut buf) {
            if n == 0 || to.write_all(&buf[..n]).is_err() {
                return;
            }
        }
        return;
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    let body = match path {
        "/large" => "x".repeat(3 << 20),
        path => format!("program at {path}"),
    };
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nSet-Cookie: corral_1=planted; Path=/\r\n\
         Set-Cookie: corral_1_app=planted\r\nSet-Cookie: its=own; Domain=localhost; Path=/\r\n\
         Strict-Transport-Security: max-age=9\r\nLocation: http://127.0.0.1:{port}/next\r\n\r\n",
        body.len()
    );
    let _ = to.write_all(text.as_bytes());
    let _ = to.write_all(body.as_bytes());
}

/// A portal with a program that job 1 has announced.
fn bed(kind: &str, path: &str) -> (RunningPortal, Program) {
    let (bed, program) = (TestPortal::new(), Program::start());
    bed.done.lock().unwrap().announced = format!(
        r#"{{"job_id":1,"index":0,"kind":"{kind}","port":{},"token":"5f0c","url":"http://n:1{path}"}}"#,
        program.port
    )
    .into_bytes();
    (RunningPortal::start(bed), program)
}

/// Opens the program of job 1; returns the response, its Host, and the cookie of that name.
fn open(live: &RunningPortal) -> (HttpAnswer, String, String) {
    let cookie = live.login.cookie.as_str();
    let answer = live.request("GET /apps/1", &live.host(), &[("Cookie", cookie)], "");
    assert_eq!(answer.status(), 303, "{}", answer.head);
    let place = answer.header("location");
    let (host, path) = place.strip_prefix("//").unwrap().split_once('/').unwrap();
    assert_eq!(host, format!("j1.localhost:{}", live.port));
    let entered = live.request(&format!("GET /{path}"), host, &[], "");
    assert_eq!(entered.status(), 303, "{}", entered.head);
    let cookies = entered.all("set-cookie");
    let own = cookies
        .iter()
        .find(|cookie| cookie.starts_with("corral_1_app="));
    let own = own.expect(&entered.raw);
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(own.contains(part) && !own.contains("Domain"), "{own}");
    }
    let own = own.split(';').next().unwrap().to_owned();
    let again = live.request(&format!("GET /{path}"), host, &[], "");
    assert_eq!(again.status(), 403, "a link is good once");
    (entered, host.to_owned(), own)
}

#[test]
fn a_program_is_reached_at_its_own_name_with_what_it_asks_for() {
    let (live, program) = bed("jupyter", "/lab");
    let (entered, host, cookie) = open(&live);
    assert_eq!(entered.header("location"), "/lab?token=5f0c");
    let page = live.request("GET /lab?token=5f0c", &host, &[("Cookie", &cookie)], "");
    assert_eq!(page.status(), 200, "{}", page.head);
    assert_eq!(page.header("location"), "/next");
    assert_eq!(page.body(), "program at /lab?token=5f0c");
    let large = live.request("GET /large", &host, &[("Cookie", &cookie)], "");
    assert_eq!(large.body().len(), 3 << 20);
    let origin = format!("http://{host}");
    let headers = [("Cookie", cookie.as_str()), ("Origin", &origin)];
    let posted = live.request("POST /save", &host, &headers, &"y".repeat(600_000));
    assert_eq!(posted.body(), "program at /save");
    assert!(program.received().contains(&"y".repeat(600_000)));
    // A single tunnel serves all requests.
    let attended = live.bed.done.lock().unwrap().attended.clone();
    assert_eq!(attended, [AttachRequest::Tunnel { id: 1, idx: 0 }]);
}

#[test]
fn a_websocket_goes_through() {
    let (live, _program) = bed("jupyter", "/");
    let (_, host, cookie) = open(&live);
    let origin = format!("http://{host}");
    let headers = [("Cookie", cookie.as_str()), ("Origin", &origin)];
    let mut at = live.ask_socket("/api/kernels", &host, &headers);
    assert_eq!(at.status(), 101, "{}", at.head);
    at.say(2, b"ping");
    let mut buf = [0; 10];
    at.stream.read_exact(&mut buf).unwrap();
    assert_eq!(&buf[6..], b"ping", "the program echoes it");
    // The connection ends with the session.
    let csrf = format!("csrf={}", live.login.csrf);
    live.run(
        live.bed
            .form("/logout", &csrf, &[("cookie", &live.login.cookie)]),
    );
    assert_eq!(at.stream.read(&mut buf).unwrap_or(0), 0);
    let page = live.request("GET /", &host, &[("Cookie", &cookie)], "");
    assert_eq!(page.status(), 403);
}

#[test]
fn a_program_gets_and_sets_none_of_the_portals_cookies() {
    let (live, program) = bed("jupyter", "/");
    let (_, host, cookie) = open(&live);
    let token = corral::record::portal::secret_of(4711, &[1; 32]);
    let cookies = format!("{}; {cookie}; _xsrf=its", live.login.cookie);
    let headers = [
        ("Cookie", cookies.as_str()),
        ("Authorization", &format!("Bearer {token}")),
        ("X-Forwarded-For", "9.9.9.9"),
        ("Referer", "http://j1.localhost/?token=5f0c"),
    ];
    let page = live.request("GET /x", &host, &headers, "");
    assert_eq!(page.status(), 200);
    let set = page.all("set-cookie");
    assert_eq!(
        set,
        ["its=own; Path=/"],
        "neither the portal's nor a wider one"
    );
    assert!(page.header("strict-transport-security").is_empty());
    let heard = program.received();
    for secret in [&live.login.cookie, &cookie, &token, "9.9.9.9", "referer"] {
        let secret = secret.to_ascii_lowercase();
        assert!(!heard.contains(&secret), "{secret}: {heard}");
    }
    assert!(heard.contains("cookie: _xsrf=its"), "{heard}");
    assert!(
        heard.contains(&format!("host: 127.0.0.1:{}", program.port)),
        "{heard}"
    );
}

#[test]
fn only_the_jobs_user_opens_it_and_only_with_a_login() {
    let (live, program) = bed("jupyter", "/");
    let cookie = live.login.cookie.clone();
    let status = |path: &str, headers: &[(&str, &str)]| {
        live.request(&format!("GET {path}"), &live.host(), headers, "")
            .status()
    };
    let mine = [("Cookie", cookie.as_str())];
    assert_eq!(status("/apps/3", &mine), 403, "another user's job");
    assert_eq!(status("/apps/2", &mine), 409, "a job that waits");
    assert_eq!(status("/apps/99", &mine), 404);
    assert_eq!(status("/apps/1", &[]), 303, "to the login");
    for token in [READ_TOKEN, SUBMIT_TOKEN] {
        let bearer = format!("Bearer {token}");
        assert_eq!(status("/apps/1", &[("Authorization", &bearer)]), 403);
    }
    let who = Identity::new(OTHER, "u");
    let now = corral::sys::clock::wall_ms();
    live.bed
        .app
        .sessions()
        .begin("other", "csrf".into(), who, now);
    assert_eq!(status("/apps/1", &[("Cookie", "corral_1=other")]), 403);
    // At the program's name, the portal's session, a token and invented cookies are not accepted.
    let (_, host, own) = open(&live);
    let bearer = format!("Bearer {SUBMIT_TOKEN}");
    let ask =
        |host: &str, headers: &[(&str, &str)]| live.request("GET /", host, headers, "").status();
    assert_eq!(ask(&host, &[]), 403);
    assert_eq!(ask(&host, &[("Cookie", &cookie)]), 403);
    assert_eq!(ask(&host, &[("Authorization", &bearer)]), 403);
    assert_eq!(ask(&host, &[("Cookie", "corral_1_app=x")]), 403);
    // The cookie of one program does not open another one.
    let other = host.replace("j1.", "j4-1.");
    assert_eq!(ask(&other, &[("Cookie", &own)]), 403);
    assert!(program.received().is_empty(), "{}", program.received());
    // The portal serves none of its pages there, and no program at its own name.
    assert_eq!(ask(&host, &[("Cookie", &own)]), 200);
    assert_eq!(status("/", &[("Cookie", &own)]), 303);
}

#[test]
fn what_other_pages_send_does_not_reach_a_program() {
    let (live, program) = bed("jupyter", "/");
    let (_, host, cookie) = open(&live);
    let mine = ("Cookie", cookie.as_str());
    for origin in [
        format!("http://{}", live.host()),
        format!("http://j4-1.localhost:{}", live.port),
        "http://evil.example".to_owned(),
        "null".to_owned(),
    ] {
        let headers = [mine, ("Origin", origin.as_str())];
        assert_eq!(
            live.ask_socket("/ws", &host, &headers).status(),
            403,
            "{origin}"
        );
        assert_eq!(
            live.request("POST /x", &host, &headers, "a").status(),
            403,
            "{origin}"
        );
    }
    assert_eq!(
        live.ask_socket("/ws", &host, &[mine]).status(),
        403,
        "without an origin"
    );
    assert!(program.received().is_empty(), "{}", program.received());
}

#[test]
fn code_server_is_told_its_password_in_its_form() {
    let (live, program) = bed("vscode", "/?folder=/h");
    let (entered, _, _) = open(&live);
    assert_eq!(entered.header("location"), "/?folder=/h");
    assert!(
        entered
            .all("set-cookie")
            .contains(&"its=own; Path=/".to_owned())
    );
    let heard = program.received();
    assert!(
        heard.starts_with("post /login ") && heard.ends_with("password=5f0c"),
        "{heard}"
    );
}

#[test]
fn what_cannot_be_opened_says_why() {
    let (live, program) = bed("jupyter", "/");
    let mine = [("Cookie", live.login.cookie.as_str())];
    let (_, host, own) = open(&live);
    // The program has ended: no process listens on its port.
    let announced = live.bed.done.lock().unwrap().announced.clone();
    let text = String::from_utf8(announced).unwrap();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let other = TestPortal::new();
    other.done.lock().unwrap().announced = text
        .replace(&program.port.to_string(), &free.to_string())
        .into_bytes();
    let gone = RunningPortal::start(other);
    let (_, gone_host, gone_own) = open(&gone);
    let page = gone.request("GET /", &gone_host, &[("Cookie", &gone_own)], "");
    assert_eq!(page.status(), 502, "{}", page.head);
    assert!(page.header("content-security-policy").contains("'none'"));
    assert!(page.body().contains("nothing listens"));
    assert_eq!(
        live.request("GET /", &host, &[("Cookie", &own)], "")
            .status(),
        200
    );
    // No program is announced, and there are no names for programs.
    let none = RunningPortal::start(TestPortal::new());
    let cookie = [("Cookie", none.login.cookie.as_str())];
    assert_eq!(
        none.request("GET /apps/1", &none.host(), &cookie, "")
            .status(),
        502
    );
    let named = RunningPortal::start(TestPortal::new().with_settings(Settings {
        cookie: "corral_1".into(),
        names: vec!["portal.example.org".into()],
        ..Settings::default()
    }));
    let cookie = [("Cookie", named.login.cookie.as_str())];
    assert_eq!(
        named
            .request("GET /apps/1", "portal.example.org", &cookie, "")
            .status(),
        409
    );
    assert_eq!(mine.len(), 1);
}
