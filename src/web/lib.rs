//! The portal of Corral: the cluster in a browser, and a REST interface for programs.
//!
//! Reads the published view like any command and leaves requests in drop boxes like any command: it
//! is no new way into the cluster. `docs/portal.md` is the guide to these files.
//!
//! - `command`: options, what is refused at the start; `server`: connections and their limits;
//!   `tls`: certificate and key.
//! - `identity`: who asks, and acting as them. `broker`: acting for all users of a service, by
//!   processes that become the user; `service`: the start of its two halves.
//! - `cluster`: the view, read once for all who ask. `sessions`: who is logged in.
//! - `guard`: what every request passes; `error`: how refusals read; `words`: what people read.
//! - `pages`: HTML; `rest`: JSON; `live`: events; `routes`: the table of all of them.

pub mod broker;
pub mod cluster;
pub mod command;
pub mod error;
pub mod fields;
pub mod guard;
pub mod identity;
pub mod live;
pub mod pages;
pub mod rest;
pub mod routes;
pub mod server;
pub mod service;
pub mod sessions;
pub mod submission;
pub mod tls;
pub mod words;

use cluster::Cluster;
use error::WebError;
use identity::AsUser;
use sessions::Sessions;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, watch};

/// Most open event streams of one portal.
pub const STREAMS_MAX: usize = 256;

/// What a portal is started with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Names by which browsers may call it besides those of this machine for itself.
    pub names: Vec<String>,
    /// `/metrics` asks for no token.
    pub metrics_open: bool,
    /// Connections are encrypted: cookies are for such only.
    pub encrypted: bool,
    /// Name of the session's cookie.
    pub cookie: String,
}

/// What all requests share.
pub struct Shared {
    pub settings: Settings,
    pub cluster: Cluster,
    pub actor: Arc<dyn AsUser>,
    sessions: Mutex<Sessions>,
    /// A permit for each open event stream.
    pub streams: Arc<Semaphore>,
    /// True from the moment on at which the portal is to end: streams end then.
    pub ending: watch::Receiver<bool>,
}

/// The shared state, as handlers get it.
pub type App = Arc<Shared>;

impl Shared {
    pub fn new(
        settings: Settings,
        cluster: Cluster,
        actor: Arc<dyn AsUser>,
        ending: watch::Receiver<bool>,
    ) -> App {
        Arc::new(Shared {
            settings,
            cluster,
            actor,
            sessions: Mutex::new(Sessions::default()),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            ending,
        })
    }

    /// The table of sessions. It is held for moments only.
    pub fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs what reads files or waits for the leader on a thread of its own.
///
/// # Errors
/// Those of `work`; a panic is an error of the portal.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WebError> + Send + 'static,
) -> Result<T, WebError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(WebError::internal()),
    }
}
