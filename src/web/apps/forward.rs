//! One request to the program of a job, and its response; a WebSocket for its whole life.
//!
//! Owns the time limits of each. [`super::headers`] decides what is forwarded.

use super::headers::{for_browser, for_program, is_websocket};
use super::tunnel::{Connection, Tunnel};
use crate::error::WebError;
use axum::body::Body;
use axum::http::{Request, StatusCode, Uri};
use axum::response::Response;
use hyper::client::conn::http1;
use hyper::upgrade::{self, OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::io::copy_bidirectional;

/// Maximum time in which the head of a response arrives.
const HEAD_TIME: Duration = Duration::from_secs(120);
/// Maximum number of headers of a response, and maximum size of its head, bytes.
const HEADERS_MAX: usize = 100;
const HEAD_MAX: usize = 64 << 10;

/// The program that gets the request.
pub(super) struct Program<'a> {
    pub(super) tunnel: &'a Arc<Tunnel>,
    pub(super) port: u16,
    /// Whether a cookie is the portal's.
    pub(super) is_own_cookie: &'a (dyn Fn(&str) -> bool + Send + Sync),
}

/// The program could not be reached, or does not speak HTTP.
pub(super) fn unreached(why: impl Into<String>) -> WebError {
    WebError {
        hint: "the job may have just begun: load the page again".to_owned(),
        ..WebError::new(StatusCode::BAD_GATEWAY, why)
    }
}

impl Program<'_> {
    /// Forwards a request.
    ///
    /// # Errors
    /// The program cannot be reached, or sends no response.
    pub(super) async fn forward(&self, mut request: Request<Body>) -> Result<Response, WebError> {
        let is_socket = is_websocket(request.method(), request.headers());
        let browser = request.extensions_mut().remove::<OnUpgrade>();
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut onward = Request::new(body);
        *onward.method_mut() = parts.method;
        *onward.uri_mut() = path
            .parse::<Uri>()
            .map_err(|_| WebError::wrong("no path"))?;
        *onward.headers_mut() =
            for_program(&parts.headers, self.port, self.is_own_cookie, is_socket);
        let Connection { io, why } = self.tunnel.open().await.map_err(unreached)?;
        let failed = |e: &dyn std::fmt::Display| {
            let why = why.lock().unwrap_or_else(PoisonError::into_inner).clone();
            unreached(if why.is_empty() { e.to_string() } else { why })
        };
        let handshake = http1::Builder::new()
            .max_buf_size(HEAD_MAX)
            .max_headers(HEADERS_MAX)
            .handshake(TokioIo::new(io));
        let (mut sender, connection) = handshake.await.map_err(|e| failed(&e))?;
        tokio::spawn(connection.with_upgrades());
        let answer = tokio::time::timeout(HEAD_TIME, sender.send_request(onward)).await;
        let mut answer = answer
            .map_err(|_| unreached("the program of the job does not answer"))?
            .map_err(|e| failed(&e))?;
        let switches = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        if switches {
            let Some(browser) = browser.filter(|_| is_socket) else {
                return Err(unreached("the program switched to an unrequested protocol"));
            };
            tokio::spawn(join(browser, upgrade::on(&mut answer)));
        }
        let (parts, body) = answer.into_parts();
        let mut response = Response::new(Body::new(body));
        *response.status_mut() = parts.status;
        *response.headers_mut() =
            for_browser(&parts.headers, self.port, self.is_own_cookie, switches);
        Ok(response)
    }
}

/// Forwards bytes between a browser and a program until one of them ends.
async fn join(browser: OnUpgrade, program: OnUpgrade) {
    let both = async { Ok::<(Upgraded, Upgraded), hyper::Error>((browser.await?, program.await?)) };
    match both.await {
        Ok((browser, program)) => {
            let (mut browser, mut program) = (TokioIo::new(browser), TokioIo::new(program));
            let _ = copy_bidirectional(&mut browser, &mut program).await;
        }
        Err(e) => tracing::debug!("a WebSocket was not joined: {e}"),
    }
}
