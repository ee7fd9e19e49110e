//! Requests to Elasticsearch over HTTP, one at a time.
//!
//! Owns connection, login and compression. A response of any status is a response; anything else is
//! an error text. After a failure, the next address is tried. Decides nothing about documents.

use super::bulk::{Answer, FILTER, excerpt};
use super::deliver::Server;
use super::settings::{self, Connection, Login};
use base64::Engine as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Maximum size of an answer, in bytes.
const ANSWER_MAX: u64 = 64 << 20;
/// Time to connect, s.
const CONNECT_S: u64 = 10;

/// The server.
pub(super) struct Client {
    agent: Agent,
    connection: Connection,
    /// Which of the addresses is in use.
    address_index: usize,
}

/// A request: method, path below the address, body and its type.
struct Request<'r> {
    method: &'r str,
    path: &'r str,
    kind: &'r str,
    body: Option<&'r [u8]>,
    /// The body is compressed.
    gzip: bool,
}

impl Client {
    /// Prepares connections; none is opened yet.
    pub(super) fn new(connection: &Connection) -> Result<Client, String> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(CONNECT_S)))
            .timeout_global(Some(Duration::from_secs(connection.timeout_s)))
            .user_agent(concat!("cb-export/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &connection.ca_file {
            let pem = settings::certificates(path)?;
            let certs: Result<Vec<Certificate<'static>>, _> = parse_pem(&pem)
                .filter_map(|item| match item {
                    Ok(PemItem::Certificate(cert)) => Some(Ok(cert)),
                    Ok(_) => None,
                    Err(e) => Some(Err(e)),
                })
                .collect();
            let certs = certs.map_err(|e| format!("{}: {e}", path.display()))?;
            if certs.is_empty() {
                return Err(format!("{}: contains no PEM certificate", path.display()));
            }
            let roots = RootCerts::new_with_certs(&certs);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        Ok(Client {
            agent: config.build().new_agent(),
            connection: connection.clone(),
            address_index: 0,
        })
    }

    /// The address in use.
    pub(super) fn url(&self) -> &str {
        &self.connection.urls[self.address_index]
    }

    /// GET of a path.
    pub(super) fn get(&mut self, path: &str) -> Result<Answer, String> {
        self.send(&Request {
            method: "GET",
            path,
            kind: "application/json",
            body: None,
            gzip: false,
        })
    }

    /// PUT of a JSON document.
    pub(super) fn put(&mut self, path: &str, body: &str) -> Result<Answer, String> {
        self.send(&Request {
            method: "PUT",
            path,
            kind: "application/json",
            body: Some(body.as_bytes()),
            gzip: false,
        })
    }

    /// The header that identifies the client.
    fn login(&self) -> Result<Option<String>, String> {
        Ok(match &self.connection.login {
            Login::Anonymous => None,
            Login::User(user, file) => {
                let both = format!("{user}:{}", settings::secret(file)?);
                let text = base64::engine::general_purpose::STANDARD.encode(both);
                Some(format!("Basic {text}"))
            }
            Login::Key(file) => Some(format!("ApiKey {}", settings::secret(file)?)),
        })
    }

    fn send(&mut self, request: &Request<'_>) -> Result<Answer, String> {
        let sent = self.try_send(request);
        let works = matches!(&sent, Ok(answer) if answer.status < 500);
        if !works {
            self.address_index = (self.address_index + 1) % self.connection.urls.len();
        }
        sent
    }

    fn try_send(&self, request: &Request<'_>) -> Result<Answer, String> {
        let url = format!("{}{}", self.url(), request.path);
        let failed = |e: ureq::Error| format!("{url}: {e}");
        let mut head = ureq::http::Request::builder()
            .method(request.method)
            .uri(&url)
            .header("Content-Type", request.kind);
        if request.gzip {
            head = head.header("Content-Encoding", "gzip");
        }
        if let Some(login) = self.login()? {
            head = head.header("Authorization", login);
        }
        let built = |e: ureq::http::Error| format!("{url}: {e}");
        let response = match request.body {
            Some(body) => self.agent.run(head.body(body).map_err(built)?),
            None => self.agent.run(head.body(()).map_err(built)?),
        };
        let mut response = response.map_err(failed)?;
        let after = response.headers().get("retry-after");
        let retry_after_s = after.and_then(|v| v.to_str().ok()?.trim().parse().ok());
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_MAX);
        let body = body.read_to_vec().map_err(failed)?;
        Ok(Answer {
            status,
            body,
            retry_after_s,
        })
    }
}

impl Server for Client {
    fn bulk(&mut self, body: &str) -> Result<Answer, String> {
        let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
        let zipped = zip.write_all(body.as_bytes()).and_then(|()| zip.finish());
        let zipped = zipped.map_err(|e| format!("cannot compress a request: {e}"))?;
        self.send(&Request {
            method: "POST",
            path: &format!("/_bulk?{FILTER}"),
            kind: "application/x-ndjson",
            body: Some(&zipped),
            gzip: true,
        })
    }
}

/// The body of an answer with status 200; any other answer as a sentence.
pub(super) fn success(what: &str, answer: Answer) -> Result<Vec<u8>, String> {
    match answer.status {
        200 | 201 => Ok(answer.body),
        status => Err(format!(
            "{what}: the server answers {status}: {}",
            excerpt(&answer.body)
        )),
    }
}
