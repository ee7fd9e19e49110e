//! The portal (`src/web`): built as its own package, over a real cluster. A login by link, a job
//! that is submitted, seen and killed by HTTP, slow requests, the end by a signal and with the
//! cluster.

use crate::cluster::{Cluster, build, exists, signal};
use crate::patience::PATIENCE;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A portal's address without its scheme.
pub fn place(url: &str) -> &str {
    url.trim().split_once("://").expect("an address").1
}

fn connect(place: &str) -> TcpStream {
    let stream = TcpStream::connect(place).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request; its head and what follows.
pub fn ask(place: &str, line: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut stream = connect(place);
    let mut text = format!("{line} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n");
    for header in headers {
        text.push_str(&format!("{header}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// The whole answer.
pub fn said(place: &str, line: &str, headers: &[&str], body: &str) -> String {
    let mut out = String::new();
    let mut stream = ask(place, line, headers, body);
    stream.read_to_string(&mut out).unwrap();
    out
}

pub fn status(answer: &str) -> u16 {
    let word = answer.split(' ').nth(1).unwrap_or_default();
    word.parse().unwrap_or_else(|_| panic!("{answer}"))
}

/// The cookie that an answer sets.
pub fn cookie(answer: &str) -> String {
    let (_, rest) = answer.split_once("set-cookie: ").expect("a cookie");
    format!("Cookie: {}", rest.split(';').next().unwrap())
}

#[test]
fn a_development_cluster_has_a_portal_that_a_link_opens_once() {
    build("--bins");
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let dir = cluster.dir().display().to_string();
    let up = ["dev", "up", "--dir", &dir, "--web"];
    let out = cluster.ok("cadmin", &up);
    let link = out
        .lines()
        .find_map(|line| line.strip_prefix("Portal: "))
        .expect(&out);
    let (url, secret) = link.split_once("/login#").expect("a link");
    let place = place(url);
    let form = "Content-Type: application/x-www-form-urlencoded";
    let login = said(place, "POST /login", &[form], &format!("token={secret}"));
    assert_eq!(status(&login), 303, "{login}");
    let cookie = cookie(&login);
    let page = said(place, "GET /", &[&cookie], "");
    assert!(status(&page) == 200 && page.contains("<h1>"), "{page}");
    let again = said(place, "POST /login", &[form], &format!("token={secret}"));
    assert_eq!(status(&again), 403, "the link is used up");
    // Another link from the command, and from a second `up`, which finds the portal running.
    let other = cluster.ok("clogin", &[]);
    assert!(other.starts_with(&format!("{url}/login#")), "{other}");
    let (_, secret) = other.trim().split_once('#').unwrap();
    let login = said(place, "POST /login", &[form], &format!("token={secret}"));
    assert_eq!(status(&login), 303);
    assert!(cluster.ok("cadmin", &up).contains(url));
    let portals = || {
        cluster
            .ps()
            .into_iter()
            .filter(|p| p.role == "cbweb")
            .collect::<Vec<_>>()
    };
    assert_eq!(portals().len(), 1);
    let pid = portals()[0].pid;
    cluster.down();
    assert!(!exists(pid), "it ends with the cluster");
}

/// A portal that a test has started; ended with it.
pub(crate) struct Portal {
    child: Child,
    pub(crate) place: String,
}

impl Portal {
    pub(crate) fn start(cluster: &Cluster) -> Portal {
        let programs = Path::new(env!("CARGO_BIN_EXE_cb")).parent().unwrap();
        let mut command = Command::new(programs.join("cbweb"));
        command.env("CB_ENVDIR", cluster.dir().join("etc"));
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        if corral::sys::users::effective_uid() == 0 {
            let refused = command.output().expect("it runs");
            assert_eq!(refused.status.code(), Some(2), "not as root");
            command
                .arg("--as-root")
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
        }
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).unwrap();
        let place = place(&line).to_owned();
        Portal { child, place }
    }
}

impl Drop for Portal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next event of this name of a job; the stream is at its line `data:`.
fn event(from: &mut impl std::io::BufRead, name: &str, job: u64) -> serde_json::Value {
    let began = Instant::now();
    let mut line = String::new();
    while began.elapsed() < PATIENCE {
        line.clear();
        assert!(
            from.read_line(&mut line).unwrap() > 0,
            "the stream has ended"
        );
        let document = line.split_once("data: ").map(|(_, text)| text.trim());
        let document: serde_json::Value = match document.map(serde_json::from_str) {
            Some(Ok(document)) => document,
            _ => continue,
        };
        if document["event"] == name && document["job_id"] == job {
            return document;
        }
    }
    panic!("no event {name} of job {job}");
}

/// Whether a request with such a header gets no more than a refusal.
fn large_is_refused(place: &str, header: &str) -> bool {
    let mut stream = connect(place);
    let text = format!("GET /login HTTP/1.1\r\nHost: {place}\r\n{header}\r\n\r\n");
    // It may be closed before all of it was sent.
    let _ = stream.write_all(text.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer.is_empty() || answer.starts_with(b"HTTP/1.1 431")
}

/// What the journal has of a job and of its specification, without ids, times and the host of the
/// submission.
fn recorded(cluster: &Cluster, id: u64) -> [serde_json::Value; 2] {
    let journal = cluster.ok("cadmin", &["journal", "--json"]);
    let records = journal.lines().map(|line| -> serde_json::Value {
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
    });
    let records: Vec<_> = records.collect();
    let find = |kind: &str, id: &serde_json::Value| {
        let found = records.iter().find(|r| r["k"] == kind && r["id"] == *id);
        found.unwrap_or_else(|| panic!("no {kind} of {id}")).clone()
    };
    let mut job = find("submitted", &id.into());
    let mut spec = find("spec", &job["s"]);
    for member in ["id", "t", "s", "tok"] {
        job.as_object_mut().unwrap().remove(member);
    }
    spec.as_object_mut().unwrap().remove("id");
    spec["spec"].as_object_mut().unwrap().remove("sub_host");
    [job, spec]
}

/// One job by the command line, by a file that describes it, and by REST: the same records.
fn three_ways_are_one(cluster: &Cluster, post: impl Fn(&str) -> u64) {
    let line = "-H -q normal -J three -n 2 -W 30 -M 500 -P proj -R rusage[mem=5] -o out.%J \
                -cwd / -retries 1 -sp 7 -env none,A=1";
    let args: Vec<&str> = line.split_whitespace().chain(["echo hi; true"]).collect();
    let one = cluster.csub(&args);
    let file = cluster.dir().join("three.yaml");
    let text = "{Command: 'echo hi; true', Hold: yes, Queue: normal, JobName: three, Slots: 2,\n\
                MaxRunTime: 30, MemLimit: 500, Project: proj, Resource: {Need: mem=5},\n\
                OutFile: out.%J, Cwd: /, Retries: 1, Priority: 7, Envs: 'none,A=1'}\n";
    std::fs::write(&file, text).unwrap();
    let two = cluster.csub(&["--spec", file.to_str().unwrap()]);
    let three = post(
        r#"{"command":"echo hi; true","hold":true,"queue":"normal","name":"three","slots":2,
            "run_limit":30,"memory":500,"project":"proj","requirement":"rusage[mem=5]",
            "output":"out.%J","cwd":"/","options":["-retries","1","-sp","7","-env","none,A=1"]}"#,
    );
    let first = recorded(cluster, u64::from(one));
    assert_eq!(first, recorded(cluster, u64::from(two)));
    assert_eq!(first, recorded(cluster, three));
}

#[test]
fn a_program_submits_watches_and_kills_a_job() {
    build("--bins");
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let mut portal = Portal::start(&cluster);
    let place = portal.place.clone();
    // Who sends the head of a request too slowly is cut off.
    let mut slow = connect(&place);
    slow.write_all(b"GET / HTTP/1.1\r\nHost: lo").unwrap();
    // As is who sends a body too slowly, or a head that is too large.
    let mut no_body = connect(&place);
    let head = format!("POST /login HTTP/1.1\r\nHost: {place}\r\nContent-Length: 9\r\n\r\n");
    no_body.write_all(head.as_bytes()).unwrap();
    let large = format!("X-Large: {}", "x".repeat(100_000));
    assert!(large_is_refused(&place, &large));
    let token = cluster.ok(
        "ctoken",
        &["create", "--scope", "submit", "--expires", "1h"],
    );
    let auth = format!("Authorization: Bearer {}", token.trim());
    let json = "Content-Type: application/json";
    let mut events = BufReader::new(ask(&place, "GET /api/v1/events?after=0", &[&auth], ""));
    let body = r#"{"command":"echo begun; sleep 300","name":"by-http"}"#;
    let key = "Idempotency-Key: once";
    let submit = || said(&place, "POST /api/v1/jobs", &[&auth, json, key], body);
    let answer = submit();
    assert_eq!(status(&answer), 201, "{answer}");
    let answered = |text: &str| -> serde_json::Value {
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}"))
    };
    let id = answered(&answer)["id"].as_u64().expect("an id");
    assert_eq!(
        answered(&submit())["id"],
        id,
        "the same key names the same job"
    );
    three_ways_are_one(&cluster, |body| {
        let answer = answered(&said(&place, "POST /api/v1/jobs", &[&auth, json], body));
        answer["id"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    });
    event(&mut events, "started", id);
    let job = answered(&said(
        &place,
        &format!("GET /api/v1/jobs/{id}"),
        &[&auth],
        "",
    ));
    assert_eq!(
        (job["name"].as_str(), job["stat"].as_str()),
        (Some("by-http"), Some("RUN"))
    );
    let kill = said(
        &place,
        &format!("POST /api/v1/jobs/{id}/kill"),
        &[&auth],
        "",
    );
    assert_eq!(status(&kill), 200, "{kill}");
    let ended = event(&mut events, "ended", id);
    // A later stream goes on behind a position that is known.
    let position = ended["position"].as_str().expect("a position").to_owned();
    let last = format!("Last-Event-ID: {position}");
    let mut later = BufReader::new(ask(&place, "GET /api/v1/events", &[&auth, &last], ""));
    let next = cluster.csub(&["-o", "/dev/null", "true"]);
    event(&mut later, "ended", u64::from(next));
    let tokens = cluster.ok("ctoken", &["list", "--json"]);
    let token: serde_json::Value = serde_json::from_str(tokens.trim()).unwrap();
    cluster.ok("ctoken", &["revoke", token["id"].as_str().unwrap()]);
    assert_eq!(status(&said(&place, "GET /api/v1/jobs", &[&auth], "")), 401);
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest)
        .expect("it is closed, not left open");
    let mut answer = [0; 12];
    no_body.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    // Streams are open; it ends all the same, and takes its address back.
    signal(portal.child.id() as i32, "-TERM");
    assert!(portal.child.wait().unwrap().success());
    assert_eq!(cluster.run("clogin", &[]).status.code(), Some(1));
}
