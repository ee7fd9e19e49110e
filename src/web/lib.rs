//! The portal of Corral: the cluster in a browser, and a REST interface for programs.
//!
//! Reads the published view like any command and leaves requests in drop boxes like any command: it
//! opens no new access to the cluster. `docs/portal.md` is the guide to these files.
//!
//! - `command`: options, what is refused at the start; `server`: connections and their limits;
//!   `tls`: certificate and key.
//! - `identity`: the requester, and acting as that user. `broker`: acting for all users of a
//!   service, by processes that become the user; `service`: the start of its two halves.
//! - `cluster`: the view, read once for all clients; `history`: samples of it. `sessions`: who is
//!   logged in.
//! - `guard`: the checks of every request; `peer`: its origin; `secret`: passwords typed by users;
//!   `error`: the form of refusals; `translations`: texts for users.
//! - `pages`: HTML; `rest`, `rest_files`: JSON; `files`: locations and pieces of files.
//! - `live`: events; `routes`: the table of all of them.
//! - `terminal`: shells in a page; `apps`: programs of jobs, each with its own host name.

pub mod apps;
pub mod broker;
pub mod cluster;
pub mod command;
pub mod error;
pub mod fields;
pub mod files;
pub mod guard;
pub mod history;
pub mod identity;
pub mod live;
mod metrics;
pub mod pages;
pub mod peer;
pub mod rest;
pub mod rest_files;
pub mod routes;
pub mod secret;
pub mod server;
pub mod service;
pub mod sessions;
pub mod submission;
pub mod terminal;
pub mod tls;
pub mod translations;

use apps::Apps;
use cluster::Cluster;
use corral::api::portal::Portal;
use error::WebError;
use history::History;
use identity::{Identity, UserAccess};
use sessions::{Limits, Sessions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use terminal::Terminals;
use tokio::sync::{Semaphore, watch};

/// Maximum number of open event streams of a portal.
pub const STREAMS_MAX: usize = 256;

/// The settings with which a portal is started.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Names by which browsers may call the portal, besides those of this machine for itself.
    pub names: Vec<String>,
    /// `/metrics` requires no token.
    pub metrics_open: bool,
    /// Connections are encrypted, so cookies are restricted to such connections.
    pub encrypted: bool,
    /// The name of the session's cookie.
    pub cookie: String,
    /// Programs of jobs have names below this one; `None`: below `localhost`, for callers that
    /// reach the portal by a name of this machine for itself.
    pub apps_domain: Option<String>,
}

/// What all requests share.
pub struct PortalState {
    pub settings: Settings,
    pub cluster: Cluster,
    pub actor: Arc<dyn UserAccess>,
    /// The settings of section `portal` that apply while the portal runs.
    portal: RwLock<Arc<Portal>>,
    sessions: Mutex<Sessions>,
    history: Mutex<History>,
    /// Whether users administer the cluster, and when that was determined, ms since 1970.
    administrators: Mutex<BTreeMap<u32, (bool, i64)>>,
    /// A permit for each open event stream.
    pub streams: Arc<Semaphore>,
    pub terminals: Terminals,
    pub apps: Apps,
    /// Becomes true when the portal is about to end: streams end then.
    pub ending: watch::Receiver<bool>,
}

/// The shared state, as passed to handlers.
pub type App = Arc<PortalState>;

impl PortalState {
    pub fn new(
        settings: Settings,
        cluster: Cluster,
        actor: Arc<dyn UserAccess>,
        ending: watch::Receiver<bool>,
    ) -> App {
        Arc::new(PortalState {
            settings,
            cluster,
            actor,
            portal: RwLock::default(),
            sessions: Mutex::new(Sessions::default()),
            history: Mutex::default(),
            administrators: Mutex::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            terminals: Terminals::default(),
            apps: Apps::default(),
            ending,
        })
    }

    /// Applies these settings from now on.
    pub fn follow(&self, portal: Portal) {
        self.sessions().set_limits(Limits::of(&portal));
        *self.portal.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(portal);
    }

    /// The settings of section `portal` that apply now.
    pub fn portal(&self) -> Arc<Portal> {
        let known = self.portal.read();
        known.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The samples of the view. Hold the lock only for moments.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the samples that are due. Blocks.
    pub fn sample(&self, now: i64) {
        let view = self.cluster.now();
        if view.read_at == 0 || view.failure.is_some() {
            return;
        }
        let is_due = self.history().is_due(now);
        // Sums of a million jobs are computed before the lock is taken.
        let sums = is_due.then(|| self.cluster.sums(now)).flatten();
        let mut history = self.history();
        if let Some(sums) = sums {
            history.note(now, &view, &sums);
        }
        history.note_jobs(now, &view.jobs.uses);
    }

    /// The table of sessions. Hold the lock only for moments.
    pub fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long it is remembered whether a user administers the cluster, ms, and for how many users.
const ADMINISTERS_MS: i64 = 60_000;
const ADMINISTERS_MAX: usize = 10_000;

impl PortalState {
    /// Whether a user administers the cluster according to the view; it decides what pages offer.
    /// False if unknown.
    pub async fn administers(self: &Arc<Self>, who: &Identity, now: i64) -> bool {
        let known = || {
            let all = self.administrators.lock();
            all.unwrap_or_else(PoisonError::into_inner)
        };
        if let Some((does, at)) = known().get(&who.uid).copied()
            && now - at < ADMINISTERS_MS
        {
            return does;
        }
        let (app, identity) = (self.clone(), who.clone());
        let found = blocking(move || Ok(app.actor.reader(&identity)?.is_administrator()?));
        let does = found.await.unwrap_or(false);
        let mut all = known();
        if all.len() >= ADMINISTERS_MAX {
            all.clear();
        }
        all.insert(who.uid, (does, now));
        does
    }
}

/// Runs work that reads files or waits for the leader on a separate thread.
///
/// # Errors
/// The errors of `work`; a panic is reported as a defect of the portal.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WebError> + Send + 'static,
) -> Result<T, WebError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(WebError::internal()),
    }
}
