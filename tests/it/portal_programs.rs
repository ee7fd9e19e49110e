//! Terminals and programs of jobs in the portal, over a real cluster: a shell in a page, a program of the
//! test's own through the job, with its WebSocket.

use crate::cluster::{Cluster, build, job_id, text};
use crate::patience::{self, PATIENCE};
use crate::portal::{Portal, cookie, said, status};
use crate::source;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

const FORM: &str = "Content-Type: application/x-www-form-urlencoded";
const WISH: [&str; 4] = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];

/// Sends a request to another name of the portal's place.
pub(crate) fn ask_as(place: &str, host: &str, line: &str, headers: &[&str]) -> TcpStream {
    let mut stream = TcpStream::connect(place).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = format!("{line} HTTP/1.1\r\nHost: {host}\r\n");
    for header in headers {
        text.push_str(&format!("{header}\r\n"));
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// The head of an answer.
pub(crate) fn head(stream: &mut TcpStream) -> String {
    let (mut out, mut byte) = (Vec::new(), [0]);
    while !out.ends_with(b"\r\n\r\n") {
        let n = stream.read(&mut byte).unwrap();
        assert_eq!(n, 1, "{}", String::from_utf8_lossy(&out));
        out.push(byte[0]);
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map_or("", |(_, value)| value)
}

/// A short message to a WebSocket. `kind`: 1 text, 2 bytes.
pub(crate) fn tell(stream: &mut TcpStream, kind: u8, bytes: &[u8]) {
    assert!(bytes.len() < 126);
    let mut out = vec![0x80 | kind, 0x80 | bytes.len() as u8, 0, 0, 0, 0];
    out.extend_from_slice(bytes);
    stream.write_all(&out).unwrap();
}

/// The next message of a WebSocket: its kind and bytes.
pub(crate) fn message(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let len = match head[1] & 127 {
        126 => {
            let mut more = [0; 2];
            stream.read_exact(&mut more).unwrap();
            usize::from(u16::from_be_bytes(more))
        }
        n => usize::from(n),
    };
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    (head[0] & 15, bytes)
}

/// Output of a terminal until it has this text.
pub(crate) fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut got = String::new();
    while !got.contains(text) {
        let (kind, bytes) = message(stream);
        match kind {
            2 => got.push_str(&String::from_utf8_lossy(&bytes)),
            8 => panic!("it is over: {got}"),
            _ => {}
        }
    }
    got
}

/// A session by a link of `clogin`: the header with its cookie, and the token of its forms.
pub(crate) fn session(place: &str, link: &str) -> (String, String) {
    let (_, secret) = link.trim().split_once('#').expect("a link");
    let login = said(place, "POST /login", &[FORM], &format!("token={secret}"));
    assert_eq!(status(&login), 303, "{login}");
    let cookie = cookie(&login);
    let page = said(place, "GET /", &[&cookie], "");
    let (_, rest) = page.split_once("data-csrf=\"").expect(&page);
    (cookie, rest.split('"').next().unwrap().to_owned())
}

/// Begins a terminal: its WebSocket.
pub(crate) fn terminal(place: &str, (cookie, csrf): &(String, String)) -> TcpStream {
    let body = format!("csrf={csrf}&slots=1");
    let begun = said(place, "POST /terminal", &[cookie, FORM], &body);
    assert_eq!(status(&begun), 303, "{begun}");
    let path = header(&begun, "location").to_owned();
    let origin = format!("Origin: http://{place}");
    let headers: Vec<&str> = [cookie.as_str(), &origin].into_iter().chain(WISH).collect();
    let mut at = ask_as(place, place, &format!("GET {path}/ws"), &headers);
    let head = head(&mut at);
    assert_eq!(status(&head), 101, "{head}");
    at
}

/// Opens the program of a job: its Host, the header with the cookie of that name, where it begins.
pub(crate) fn open(place: &str, cookie: &str, job: u32) -> (String, String, String) {
    open_as(place, place, cookie, job)
}

/// The same where the portal is called by this name.
pub(crate) fn open_as(place: &str, name: &str, cookie: &str, job: u32) -> (String, String, String) {
    let line = format!("GET /apps/{job}");
    let opened = head(&mut ask_as(place, name, &line, &[cookie]));
    assert_eq!(status(&opened), 303, "{opened}");
    let to = header(&opened, "location")
        .strip_prefix("//")
        .expect(&opened);
    let (host, path) = to.split_once('/').unwrap();
    let entered = head(&mut ask_as(place, host, &format!("GET /{path}"), &[]));
    assert_eq!(status(&entered), 303, "{entered}");
    let own = header(&entered, "set-cookie").split(';').next().unwrap();
    let first = header(&entered, "location").to_owned();
    (host.to_owned(), format!("Cookie: {own}"), first)
}

/// Talks to the test's program through the portal: its pages, a change, its WebSocket. `scheme`: of the
/// addresses that a browser would show.
pub(crate) fn talk(
    (scheme, place): (&str, &str),
    (host, cookie, first): &(String, String, String),
    heard: &Path,
) {
    let get = |path: &str, headers: &[&str]| {
        let mut stream = ask_as(place, host, &format!("GET {path}"), headers);
        let head = head(&mut stream);
        let len = header(&head, "content-length").parse().unwrap_or(0);
        let mut body = vec![0; len];
        stream.read_exact(&mut body).unwrap();
        (head, String::from_utf8_lossy(&body).into_owned())
    };
    let (refused, _) = get("/", &[cookie]);
    assert_eq!(
        status(&refused),
        403,
        "the program's own token is asked for"
    );
    let (started, _) = get(first, &[cookie]);
    assert_eq!(
        (status(&started), header(&started, "location")),
        (302, "/"),
        "{started}"
    );
    let its = header(&started, "set-cookie");
    assert!(
        its.starts_with("program=") && !its.contains("Domain"),
        "{its}"
    );
    let both = format!("{cookie}; {}", its.split(';').next().unwrap());
    let (page, body) = get("/", &[&both]);
    assert!(
        status(&page) == 200 && body.contains("<h1>program</h1>"),
        "{page}{body}"
    );
    let origin = format!("Origin: {scheme}://{host}");
    let headers: Vec<&str> = [both.as_str(), &origin].into_iter().chain(WISH).collect();
    let mut at = ask_as(place, host, "GET /ws", &headers);
    let switched = head(&mut at);
    assert_eq!(status(&switched), 101, "{switched}");
    tell(&mut at, 1, b"over and back");
    assert_eq!(message(&mut at), (1, b"over and back".to_vec()));
    let foreign = format!("Origin: {scheme}://{place}");
    let headers: Vec<&str> = [both.as_str(), &foreign].into_iter().chain(WISH).collect();
    let refused = head(&mut ask_as(place, host, "GET /ws", &headers));
    assert_eq!(status(&refused), 403, "{refused}");
    let heard = std::fs::read_to_string(heard).unwrap();
    let secret = cookie.split_once('=').unwrap().1;
    assert!(
        !heard.contains(secret) && heard.contains("cookie: program="),
        "{heard}"
    );
}

/// A job whose program is the test's, by these words of csub: its ID, once that has announced itself.
pub(crate) fn begun(mut csub: Command, dir: &Path, words: &[&str]) -> u32 {
    let out = dir.join(format!("out.{}", corral::sys::clock::nonce(4)));
    csub.env("CB_CONNECT_DIR", dir.join("connect"));
    let output = csub
        .args(["-oo", out.to_str().unwrap()])
        .args(words)
        .output()
        .unwrap();
    let id = job_id(&String::from_utf8_lossy(&output.stdout));
    let id = id.unwrap_or_else(|| panic!("{}", text(&output)));
    let announced = || {
        std::fs::read_to_string(&out)
            .unwrap_or_default()
            .contains("announced")
    };
    patience::until("the program has begun", announced);
    id
}

/// The command line of the test's program, which writes what it hears to this file. The program lies beside
/// it: where the checkout is, other users may have no way in.
pub(crate) fn program(heard: &Path) -> String {
    let file = heard.with_file_name("program.py");
    std::fs::copy(source::root().join("tests/portal/program.py"), &file).unwrap();
    format!("exec python3 {} {}", file.display(), heard.display())
}

#[test]
fn a_page_has_a_shell_and_reaches_programs_of_jobs() {
    build("--bins");
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 1");
    let portal = Portal::start(&cluster);
    let place = &portal.place;
    let login = session(place, &cluster.ok("clogin", &[]));
    let mut at = terminal(place, &login);
    tell(&mut at, 1, br#"{"size":[41,133]}"#);
    tell(&mut at, 2, b"stty size; echo job $LSB_JOBID is he''re\n");
    let shown = until(&mut at, "is here\r\n");
    assert!(
        shown.contains("41 133") && shown.contains("Starting on h"),
        "{shown}"
    );
    let job = shown
        .split("job ")
        .filter_map(|rest| rest.split(' ').next()?.parse().ok());
    let job: u32 = job.last().expect(&shown);
    assert_eq!(cluster.states()[&(job, 0)], "RUN");
    // A page that closes it ends the job, as at a terminal that hangs up.
    let page = said(place, "GET /terminal", &[&login.0], "");
    let (_, rest) = page.split_once("action=\"/terminal/").expect(&page);
    let close = format!("POST /terminal/{}", rest.split('"').next().unwrap());
    let closed = said(
        place,
        &close,
        &[&login.0, FORM],
        &format!("csrf={}", login.1),
    );
    assert_eq!(status(&closed), 303, "{closed}");
    let ended = || {
        cluster
            .states()
            .get(&(job, 0))
            .is_some_and(|stat| stat == "EXIT")
    };
    patience::until("the job ends with its terminal", ended);
    // A program on several slots, and one of an application on one.
    let heard = cluster.dir().join("heard");
    let form = format!(
        "name: program\nscript: |\n  #!/bin/sh\n  {}\n",
        program(&heard)
    );
    let forms = cluster.share().join("conf/apps.d");
    std::fs::create_dir_all(&forms).unwrap();
    std::fs::write(forms.join("program.yaml"), form).unwrap();
    let line = program(&heard);
    for words in [&["-n", "2", &line][..], &["-app", "program"]] {
        let id = begun(cluster.command("csub"), cluster.dir(), words);
        talk(("http", place), &open(place, &login.0, id), &heard);
        cluster.ok("ckill", &[&id.to_string()]);
        std::fs::remove_file(&heard).unwrap();
    }
    // One that announces nothing is said to.
    let id = cluster.csub(&["-n", "2", "-o", "/dev/null", "sleep 300"]);
    let runs = || {
        cluster
            .states()
            .get(&(id, 0))
            .is_some_and(|stat| stat == "RUN")
    };
    patience::until("it runs", runs);
    let none = said(place, &format!("GET /apps/{id}"), &[&login.0], "");
    assert!(
        status(&none) == 502 && none.contains("not announced"),
        "{none}"
    );
}
