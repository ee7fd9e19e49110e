//! Deliveries over HTTP to a server that fails in every way: each document is stored once.

use super::bulk::{Answer, Document};
use super::deliver::{Delivery, DeliveryContext, DeliveryLimits, DeliveryOutcome, Server};
use super::http::Client;
use super::settings::{Connection, Login};
use super::state::Counts;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Stores nothing and answers with this status, and with Retry-After.
    Busy(u16),
    /// Stores all, but its answer breaks off in the head or the body.
    HalfHead,
    HalfBody,
    /// Stores all and closes without an answer.
    Silent,
    /// Closes at once.
    Closed,
    /// Stores all and answers after the client's time limit.
    Slow,
    /// Stores every other document; the others get 429.
    SomeBusy,
    /// Every third document cannot be stored.
    SomeWrong,
    /// Accepts requests up to this many bytes.
    Small(usize),
    /// The error page of a proxy.
    Foreign,
}

#[derive(Default)]
struct Stored {
    faults: Vec<Fault>,
    documents: BTreeMap<String, String>,
    /// Number of creations that found an existing document.
    conflicts: u32,
    requests: Vec<(String, usize)>,
    authorization: Vec<String>,
}

struct FaultServer {
    url: String,
    stored: Arc<Mutex<Stored>>,
}

impl FaultServer {
    /// Serves requests; each connection takes one fault of the list; after the list everything
    /// succeeds.
    fn start(faults: &[Fault]) -> FaultServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut first = faults.to_vec();
        first.reverse();
        let stored = Arc::new(Mutex::new(Stored {
            faults: first,
            ..Stored::default()
        }));
        let shared = stored.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = shared.clone();
                std::thread::spawn(move || drop(serve(stream, &shared)));
            }
        });
        FaultServer { url, stored }
    }

    fn client(&self) -> Client {
        self.client_as(Login::Anonymous)
    }

    fn client_as(&self, login: Login) -> Client {
        Client::new(&Connection {
            urls: vec![self.url.clone()],
            login,
            ca_file: None,
            timeout_s: 1,
        })
        .unwrap()
    }
}

fn serve(stream: TcpStream, shared: &Mutex<Stored>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    loop {
        let (mut length, mut line, mut first) = (0, String::new(), String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if first.is_empty() {
                first = line.trim_end().to_owned();
            }
            let lower = line.to_ascii_lowercase();
            if let Some(n) = lower.strip_prefix("content-length:") {
                length = n.trim().parse().unwrap();
            }
            if lower.starts_with("authorization:") {
                let text = line.trim_end().to_owned();
                shared.lock().unwrap().authorization.push(text);
            }
            if line == "\r\n" {
                break;
            }
        }
        let fault = shared.lock().unwrap().faults.pop().unwrap_or(Fault::None);
        if fault == Fault::Closed {
            return Ok(());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut text = String::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text)?;
        shared.lock().unwrap().requests.push((first, text.len()));
        if !answer(&mut out, fault, &text, shared)? {
            return Ok(());
        }
    }
}

/// Returns false if the connection ends.
fn answer(
    out: &mut TcpStream,
    fault: Fault,
    text: &str,
    shared: &Mutex<Stored>,
) -> std::io::Result<bool> {
    match fault {
        Fault::Busy(status) => {
            let extra = "Retry-After: 0\r\n";
            return reply(out, status, extra, "{\"error\":\"busy\"}").map(|()| true);
        }
        Fault::Small(most) if text.len() > most => {
            return reply(out, 413, "", "").map(|()| true);
        }
        Fault::Foreign => return reply(out, 200, "", "<html>hello</html>").map(|()| true),
        _ => {}
    }
    let body = take(fault, text, &mut shared.lock().unwrap());
    let whole = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    match fault {
        Fault::Silent => return Ok(false),
        Fault::HalfHead => out.write_all(&whole.as_bytes()[..30])?,
        Fault::HalfBody => out.write_all(&whole.as_bytes()[..whole.len() - 5])?,
        Fault::Slow => {
            std::thread::sleep(std::time::Duration::from_millis(2500));
            out.write_all(whole.as_bytes())?;
        }
        _ => {
            out.write_all(whole.as_bytes())?;
            return Ok(true);
        }
    }
    Ok(false)
}

fn reply(out: &mut TcpStream, status: u16, extra: &str, body: &str) -> std::io::Result<()> {
    let n = body.len();
    let head = format!("HTTP/1.1 {status} x\r\n{extra}Content-Length: {n}\r\n\r\n");
    out.write_all(format!("{head}{body}").as_bytes())
}

/// Stores the documents of a request and returns the result for each.
fn take(fault: Fault, text: &str, stored: &mut Stored) -> String {
    assert!(text.ends_with('\n'), "a request ends with a line end");
    let (mut items, mut n) = (Vec::new(), 0);
    let mut lines = text.lines();
    while let (Some(place), Some(document)) = (lines.next(), lines.next()) {
        n += 1;
        let place: serde_json::Value = serde_json::from_str(place).unwrap();
        let id = place["create"]["_id"].as_str().unwrap().to_owned();
        let status = match fault {
            Fault::SomeBusy if n % 2 == 0 => 429,
            Fault::SomeWrong if n % 3 == 0 => 400,
            _ if stored.documents.contains_key(&id) => 409,
            _ => 201,
        };
        match status {
            201 => drop(stored.documents.insert(id, document.to_owned())),
            409 => stored.conflicts += 1,
            _ => {}
        }
        let error = ",\"error\":{\"type\":\"document_parsing_exception\",\"reason\":\"r\"}";
        let error = if status < 300 { "" } else { error };
        items.push(format!("{{\"create\":{{\"status\":{status}{error}}}}}"));
    }
    format!("{{\"errors\":true,\"items\":[{}]}}", items.join(","))
}

/// Waits are counted, not carried out.
#[derive(Default)]
struct TestContext {
    waits: Vec<(u64, String)>,
    rejected: Vec<String>,
    stop_after: Option<usize>,
    /// How many times the file of rejected documents cannot be written.
    full: u32,
}

impl DeliveryContext for TestContext {
    fn wait(&mut self, ms: u64, why: &str) -> bool {
        self.waits.push((ms, why.to_owned()));
        self.stop_after.is_some_and(|n| self.waits.len() >= n)
    }

    fn random(&mut self) -> u16 {
        0
    }

    fn reject(&mut self, document: &Document, _: u16, _: &str) -> Result<(), String> {
        if self.full > 0 {
            self.full -= 1;
            return Err("no space left".to_owned());
        }
        self.rejected.push(document.id.clone());
        Ok(())
    }
}

const BOUNDS: DeliveryLimits = DeliveryLimits {
    bytes: 1 << 20,
    pause_ms: 60_000,
    failures: None,
};

fn documents(n: usize) -> Vec<Document> {
    let document = |n: usize| Document {
        index: "corral-events-2026.11".into(),
        id: format!("c-1.1.{n}"),
        json: format!("{{\"n\":{n}}}"),
    };
    (0..n).map(document).collect()
}

fn deliver(
    server: &mut dyn Server,
    around: &mut TestContext,
    limits: DeliveryLimits,
    documents: &[Document],
) -> (DeliveryOutcome, Counts) {
    let mut counts = Counts::default();
    let mut delivery = Delivery {
        server,
        context: around,
        counts: &mut counts,
        limits,
    };
    let outcome = delivery.deliver(documents);
    (outcome, counts)
}

#[test]
fn each_fault_leaves_every_document_stored_once() {
    let faults = [
        Fault::Busy(429),
        Fault::Busy(500),
        Fault::Busy(502),
        Fault::Busy(503),
        Fault::HalfHead,
        Fault::HalfBody,
        Fault::Silent,
        Fault::Closed,
        Fault::Slow,
        Fault::SomeBusy,
        Fault::Small(300),
        Fault::Foreign,
    ];
    for fault in faults {
        let server = FaultServer::start(&[fault, fault]);
        let mut around = TestContext::default();
        let all = documents(20);
        let (outcome, counts) = deliver(&mut server.client(), &mut around, BOUNDS, &all);
        assert_eq!(outcome, DeliveryOutcome::Done, "{fault:?}");
        let stored = server.stored.lock().unwrap();
        let ids: Vec<&String> = stored.documents.keys().collect();
        assert_eq!(ids.len(), 20, "{fault:?}");
        assert_eq!(counts.stored + counts.present, 20, "{fault:?}: {counts:?}");
        assert_eq!(
            (counts.rejected, around.rejected.len()),
            (0, 0),
            "{fault:?}"
        );
        // Documents that were stored without a complete answer are found there.
        let repeated = [Fault::HalfHead, Fault::HalfBody, Fault::Silent, Fault::Slow];
        assert_eq!(stored.conflicts > 0, repeated.contains(&fault), "{fault:?}");
        let waited = !matches!(fault, Fault::Small(_));
        assert_eq!(
            !around.waits.is_empty(),
            waited,
            "{fault:?}: {:?}",
            around.waits
        );
    }
}

#[test]
fn a_document_that_cannot_be_stored_does_not_block_the_others() {
    let server = FaultServer::start(&[Fault::SomeWrong]);
    let mut around = TestContext {
        full: 1,
        ..TestContext::default()
    };
    let all = documents(9);
    let (outcome, counts) = deliver(&mut server.client(), &mut around, BOUNDS, &all);
    // The first one could not be recorded as rejected; sent again, it is stored: the fault was
    // over.
    assert_eq!(outcome, DeliveryOutcome::Done);
    assert_eq!((counts.stored, counts.rejected), (7, 2));
    assert_eq!(around.rejected, ["c-1.1.5", "c-1.1.8"]);
    assert_eq!(server.stored.lock().unwrap().documents.len(), 7);
    assert!(
        around.waits[0].1.contains("no space left"),
        "{:?}",
        around.waits
    );
}

#[test]
fn a_document_larger_than_the_server_takes_is_rejected_alone() {
    let server = FaultServer::start(&[Fault::Small(200); 50]);
    let mut around = TestContext::default();
    let mut all = documents(5);
    all[2].json = format!("{{\"x\":\"{}\"}}", "y".repeat(500));
    let (outcome, counts) = deliver(&mut server.client(), &mut around, BOUNDS, &all);
    assert_eq!((outcome, counts.stored), (DeliveryOutcome::Done, 4));
    assert_eq!(around.rejected, ["c-1.1.2"]);
}

#[test]
fn requests_keep_within_their_bound_and_pauses_grow() {
    let server = FaultServer::start(&[Fault::Busy(503); 4]);
    let mut around = TestContext::default();
    let bounds = DeliveryLimits {
        bytes: 400,
        ..BOUNDS
    };
    let (outcome, counts) = deliver(&mut server.client(), &mut around, bounds, &documents(40));
    assert_eq!((outcome, counts.stored), (DeliveryOutcome::Done, 40));
    let stored = server.stored.lock().unwrap();
    assert!(stored.requests.iter().all(|(_, len)| *len <= 400));
    let line = &stored.requests[0].0;
    assert!(
        line.starts_with("POST /_bulk?filter_path=errors,items.*.status,"),
        "{line}"
    );
    let waits: Vec<u64> = around.waits.iter().map(|(ms, _)| *ms).collect();
    assert_eq!(waits, [500, 1000, 2000, 4000]);
    assert_eq!(counts.failures, 4);
}

#[test]
fn it_ends_when_it_is_told_or_has_tried_often_enough() {
    let server = FaultServer::start(&[Fault::Busy(503); 50]);
    let mut around = TestContext {
        stop_after: Some(3),
        ..TestContext::default()
    };
    let all = documents(2);
    let (outcome, _) = deliver(&mut server.client(), &mut around, BOUNDS, &all);
    assert_eq!((outcome, around.waits.len()), (DeliveryOutcome::Stopped, 3));
    let bounds = DeliveryLimits {
        failures: Some(5),
        ..BOUNDS
    };
    let mut around = TestContext::default();
    let (outcome, counts) = deliver(&mut server.client(), &mut around, bounds, &all);
    assert!(matches!(outcome, DeliveryOutcome::GaveUp(why) if why.contains("503")));
    assert_eq!((around.waits.len(), counts.failures), (4, 5));
}

#[test]
fn another_address_is_tried_and_the_login_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, "c2VjcmV0\n").unwrap();
    corral::sys::fs::chmod(&key, 0o600).unwrap();
    let server = FaultServer::start(&[]);
    // There is no listener at the first address: its port was released.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let mut client = Client::new(&Connection {
        urls: vec![dead, server.url.clone()],
        login: Login::Key(key.clone()),
        ca_file: None,
        timeout_s: 5,
    })
    .unwrap();
    let mut around = TestContext::default();
    let (outcome, counts) = deliver(&mut client, &mut around, BOUNDS, &documents(3));
    assert_eq!((outcome, counts.failures), (DeliveryOutcome::Done, 1));
    let login = Login::User("ada".into(), key);
    deliver(
        &mut server.client_as(login),
        &mut around,
        BOUNDS,
        &documents(1),
    );
    let stored = server.stored.lock().unwrap();
    let output: Vec<&str> = stored
        .authorization
        .iter()
        .filter_map(|line| Some(line.split_once(": ")?.1))
        .collect();
    assert_eq!(output, ["ApiKey c2VjcmV0", "Basic YWRhOmMyVmpjbVYw"]);
}

#[test]
fn a_server_is_an_answer_of_any_status() {
    let server = FaultServer::start(&[Fault::Busy(429)]);
    let answer: Answer = server.client().bulk("x\n").unwrap();
    assert_eq!((answer.status, answer.retry_after_s), (429, Some(0)));
}
