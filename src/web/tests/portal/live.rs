//! The test portal on a real port, for what a router alone cannot do: connections that become
//! WebSockets. A WebSocket client that is sufficient for the tests.

use crate::bed::{Login, TestPortal};
use corral_web::server::{Listener, serve};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Maximum wait for anything.
const PATIENCE: Duration = Duration::from_secs(180);

pub struct RunningPortal {
    pub bed: TestPortal,
    pub login: Login,
    pub port: u16,
    runtime: Runtime,
    _end: watch::Sender<bool>,
}

impl RunningPortal {
    pub fn start(bed: TestPortal) -> RunningPortal {
        let runtime = Runtime::new().unwrap();
        let (end, ending) = watch::channel(false);
        let router = bed.router.clone();
        let (port, login) = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(serve(Listener::Tcp(listener), router, ending));
            (port, bed.login().await)
        });
        RunningPortal {
            bed,
            login,
            port,
            runtime,
            _end: end,
        }
    }

    /// The portal's own Host.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Runs a future.
    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Sends a request; returns the connection and the head of the response.
    pub fn request(
        &self,
        line: &str,
        host: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpAnswer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut text = format!("{line} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body);
        stream.write_all(text.as_bytes()).unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            assert_eq!(
                stream.read(&mut byte).unwrap(),
                1,
                "{}",
                String::from_utf8_lossy(&head)
            );
            head.push(byte[0]);
        }
        HttpAnswer {
            head: String::from_utf8_lossy(&head).to_ascii_lowercase(),
            raw: String::from_utf8_lossy(&head).into_owned(),
            stream,
        }
    }

    /// The same with a request for a WebSocket.
    pub fn ask_socket(&self, path: &str, host: &str, headers: &[(&str, &str)]) -> HttpAnswer {
        let wish = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let headers: Vec<_> = headers.iter().copied().chain(wish).collect();
        self.request(&format!("GET {path}"), host, &headers, "")
    }
}

/// The head of a response, in lower case and as received, and its connection.
pub struct HttpAnswer {
    pub head: String,
    pub raw: String,
    pub stream: TcpStream,
}

impl HttpAnswer {
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// The values of a header.
    pub fn all(&self, name: &str) -> Vec<String> {
        let mark = format!("{name}:");
        let lines = self.raw.lines().filter(|line| {
            line.len() > mark.len() && line[..mark.len()].eq_ignore_ascii_case(&mark)
        });
        lines
            .map(|line| line[mark.len()..].trim().to_owned())
            .collect()
    }

    pub fn header(&self, name: &str) -> String {
        self.all(name).into_iter().next().unwrap_or_default()
    }

    /// The body of a response that states its length.
    pub fn body(mut self) -> String {
        let len = self.header("content-length").parse().unwrap_or(0);
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends a message to the other end. `kind`: 1 text, 2 bytes, 8 close.
    pub fn say(&mut self, kind: u8, bytes: &[u8]) {
        let mut out = vec![0x80 | kind];
        match bytes.len() {
            n @ 0..126 => out.push(0x80 | n as u8),
            n => {
                out.push(0x80 | 126);
                out.extend_from_slice(&u16::try_from(n).unwrap().to_be_bytes());
            }
        }
        // A mask of zeros changes nothing.
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(bytes);
        self.stream.write_all(&out).unwrap();
    }

    /// The next message other than a ping: its kind and bytes.
    pub fn next(&mut self) -> (u8, Vec<u8>) {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "nothing comes but pings");
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).unwrap();
            let len = match head[1] & 127 {
                126 => {
                    let mut more = [0; 2];
                    self.stream.read_exact(&mut more).unwrap();
                    usize::from(u16::from_be_bytes(more))
                }
                127 => {
                    let mut more = [0; 8];
                    self.stream.read_exact(&mut more).unwrap();
                    usize::try_from(u64::from_be_bytes(more)).unwrap()
                }
                n => usize::from(n),
            };
            let mut bytes = vec![0; len];
            self.stream.read_exact(&mut bytes).unwrap();
            if head[0] & 15 != 9 {
                return (head[0] & 15, bytes);
            }
        }
    }

    /// Reads output until it contains this text; returns all of it.
    pub fn until(&mut self, text: &str) -> String {
        let mut got = String::new();
        while !got.contains(text) {
            let (kind, bytes) = self.next();
            assert_eq!(
                kind,
                2,
                "after {got:?}: {}",
                String::from_utf8_lossy(&bytes)
            );
            self.say(1, format!("{{\"shown\":{}}}", bytes.len()).as_bytes());
            got.push_str(&String::from_utf8_lossy(&bytes));
        }
        got
    }

    /// The code of the close frame that comes next.
    pub fn closed(&mut self) -> u16 {
        loop {
            let (kind, bytes) = self.next();
            if kind == 8 {
                return u16::from_be_bytes([bytes[0], bytes[1]]);
            }
        }
    }
}
