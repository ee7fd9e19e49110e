//! Connections: accepted up to a limit, with limits on headers and on their time; closed in order
//! when the portal ends.
//!
//! Knows nothing about the content of requests. Passes the other end of the connection to each
//! request.

use crate::peer::Peer;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

/// Maximum number of connections.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Maximum size of a request's head, bytes, and maximum number of headers in it.
const HEAD_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 64;
/// Maximum time in which the head of a request arrives, including the idle time of a connection.
const HEAD_TIME: Duration = Duration::from_secs(20);
/// Maximum time of a TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Time that requests get to finish when the portal ends.
const GRACE: Duration = Duration::from_secs(5);
/// Pause after a failed accept: file descriptors may be exhausted.
const PAUSE: Duration = Duration::from_millis(100);

/// The socket on which the portal listens.
pub enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener, TlsAcceptor),
    Unix(UnixListener),
}

/// Serves until `ending` is true, then until all requests have finished or their time has passed.
pub async fn serve(listener: Listener, app: Router, mut ending: watch::Receiver<bool>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let ends = ending.clone();
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else {
            break;
        };
        let accepted = tokio::select! {
            accepted = accept(&listener, permit, &app, &ends) => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        if let Err(e) = accepted {
            tracing::warn!("a connection is not accepted: {e}");
            tokio::time::sleep(PAUSE).await;
        }
    }
    drop(listener);
    // Each connection has a permit until it ends or is upgraded.
    let all = connections.acquire_many(CONNECTIONS_MAX as u32);
    let _ = tokio::time::timeout(GRACE, all).await;
}

async fn accept(
    listener: &Listener,
    permit: OwnedSemaphorePermit,
    app: &Router,
    ending: &watch::Receiver<bool>,
) -> io::Result<()> {
    match listener {
        Listener::Tcp(tcp) => {
            let (stream, from) = tcp.accept().await?;
            stream.set_nodelay(true)?;
            let (peer, ending) = (Peer(Some(from.ip())), ending.clone());
            tokio::spawn(attend(stream, peer, permit, app.clone(), ending));
        }
        Listener::Tls(tcp, acceptor) => {
            let (stream, from) = tcp.accept().await?;
            stream.set_nodelay(true)?;
            let peer = Peer(Some(from.ip()));
            let (acceptor, app, ending) = (acceptor.clone(), app.clone(), ending.clone());
            tokio::spawn(async move {
                let handshake = tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await;
                match handshake {
                    Ok(Ok(stream)) => attend(stream, peer, permit, app, ending).await,
                    Ok(Err(e)) => tracing::debug!("a connection is not encrypted: {e}"),
                    Err(_) => tracing::debug!("a connection does not become an encrypted one"),
                }
            });
        }
        Listener::Unix(unix) => {
            let (stream, _) = unix.accept().await?;
            let peer = Peer::default();
            tokio::spawn(attend(stream, peer, permit, app.clone(), ending.clone()));
        }
    }
    Ok(())
}

async fn attend<S>(
    stream: S,
    peer: Peer,
    permit: OwnedSemaphorePermit,
    app: Router,
    mut ending: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        let app = app.clone();
        request.extensions_mut().insert(peer);
        app.oneshot(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = ending.wait_for(|ending| *ending) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // Errors of the other side concern only that connection.
    if let Err(e) = ended {
        tracing::debug!("a connection ended: {e}");
    }
    drop(permit);
}
