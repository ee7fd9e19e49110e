//! Terminals: shells of interactive jobs, each on a pseudo-terminal whose master this process has,
//! and the WebSocket that connects a page to one.
//!
//! Owns which terminals there are, their owners and when they end: with their shell, with the
//! session that started them, or if no page was connected for [`AWAY`]. Buffers are limited: if the
//! page does not read, the shell's output is not read; if the shell does not read, the page's input
//! is not read.

use crate::App;
use crate::error::WebError;
use crate::guard::{Caller, session_only, websocket_origin};
use crate::identity::AttachedProgram;
use crate::peer::Origin;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use corral::sys;
use corral::sys::terminal::{read_now, set_nonblocking, set_size, write_now};
use serde::Deserialize;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};

/// Maximum number of terminals of one user and of all users.
pub const OF_USER_MAX: usize = 8;
pub const TERMINALS_MAX: usize = 64;
/// How long a terminal waits for a page: during a reload or an interruption of the network.
const AWAY: Duration = Duration::from_secs(60);
/// Interval at which the session is checked, and interval of pings to a page.
const CHECK_EVERY: Duration = Duration::from_secs(5);
const ALIVE: Duration = Duration::from_secs(20);
/// Time for a page to receive the last output.
const LAST: Duration = Duration::from_secs(5);
/// Interval at which typing counts as a use of the session, ms.
const USED_MS: u64 = 60_000;
/// The last bytes of the output, which a page that connects later gets first.
const KEPT: usize = 64 << 10;
/// Bytes that are read from a shell at once, and pieces that wait for a page.
const PIECE: usize = 16 << 10;
const WAITING: usize = 4;
/// Bytes that a page may have received but not shown; beyond that none are sent.
const UNSHOWN_MAX: usize = 256 << 10;
/// Maximum size of a message of a page: pasted text comes in pieces.
const MESSAGE_MAX: usize = 64 << 10;
/// Typed bytes that the shell has not read yet.
const TYPED_MAX: usize = 1 << 20;
/// Maximum time in which a page receives a message.
const TAKE_TIME: Duration = Duration::from_secs(60);
/// Maximum number of rows or columns.
const SCREEN_MAX: u16 = 1_000;

/// Codes by which a connection is closed; the page's script knows them.
const ENDED: u16 = 4_000;
const TAKEN: u16 = 4_001;
const TOO_MUCH: u16 = 4_002;

/// A terminal, as seen by requests.
struct TerminalEntry {
    uid: u32,
    /// The secret of the session that started it.
    session: String,
    /// What was requested, for the list.
    label: String,
    pages: mpsc::Sender<AttachedPage>,
    end: watch::Sender<bool>,
}

/// A page that connects to a terminal.
struct AttachedPage {
    keys: mpsc::Receiver<Bytes>,
    sizes: watch::Receiver<(u16, u16)>,
    /// Pieces of output; closed when the terminal is over.
    out: mpsc::Sender<Bytes>,
    /// True when another page has replaced it.
    replaced: watch::Sender<bool>,
}

/// All terminals.
#[derive(Default)]
pub struct Terminals(Mutex<HashMap<String, TerminalEntry>>);

impl Terminals {
    fn all(&self) -> MutexGuard<'_, HashMap<String, TerminalEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the user may have one more terminal.
    ///
    /// # Errors
    /// The maximum number is reached.
    pub fn check_room(&self, uid: u32) -> Result<(), WebError> {
        let all = self.all();
        let of_user = all.values().filter(|entry| entry.uid == uid).count();
        let most = match (of_user >= OF_USER_MAX, all.len() >= TERMINALS_MAX) {
            (true, _) => OF_USER_MAX,
            (_, true) => TERMINALS_MAX,
            _ => return Ok(()),
        };
        let why = format!("{most} terminals are open, which is the maximum");
        Err(WebError {
            hint: "close one".to_owned(),
            ..WebError::new(StatusCode::TOO_MANY_REQUESTS, why)
        })
    }

    /// The terminals of a session: name and label.
    pub fn of_session(&self, session: &str) -> Vec<(String, String)> {
        let all = self.all();
        let own = all.iter().filter(|(_, entry)| entry.session == session);
        let mut own: Vec<(String, String)> = own
            .map(|(name, entry)| (name.clone(), entry.label.clone()))
            .collect();
        own.sort();
        own
    }

    /// The label of a terminal of this caller; `None`: the caller has no terminal with this name.
    pub fn label(&self, caller: &Caller, name: &str) -> Option<String> {
        let all = self.all();
        let entry = all.get(name).filter(|entry| entry.is_of(caller))?;
        Some(entry.label.clone())
    }

    /// Ends a terminal of this caller.
    pub fn end(&self, caller: &Caller, name: &str) {
        if let Some(entry) = self.all().get(name).filter(|entry| entry.is_of(caller)) {
            let _ = entry.end.send(true);
        }
    }

    fn pages(&self, caller: &Caller, name: &str) -> Option<mpsc::Sender<AttachedPage>> {
        let all = self.all();
        let entry = all.get(name).filter(|entry| entry.is_of(caller))?;
        Some(entry.pages.clone())
    }
}

impl TerminalEntry {
    /// Another session of the same user is a separate login: its pages have no access to this
    /// terminal.
    fn is_of(&self, caller: &Caller) -> bool {
        self.uid == caller.identity.uid
            && !caller.secret.is_empty()
            && self.session == caller.secret
    }
}

/// Registers a terminal that was started; returns its name.
///
/// # Errors
/// The descriptor cannot be used.
pub fn begin(
    app: &App,
    caller: &Caller,
    label: String,
    program: AttachedProgram,
) -> Result<String, WebError> {
    let (master, keeps) = program.split();
    let unusable = |e: &dyn std::fmt::Display| {
        tracing::warn!("a terminal cannot be used: {e}");
        WebError::internal()
    };
    set_nonblocking(&master).map_err(|e| unusable(&e))?;
    // This call is deprecated because of types that contain a descriptor without owning it; a File
    // owns its descriptor.
    #[allow(deprecated)]
    let master = AsyncFd::new(master).map_err(|e| unusable(&e))?;
    let name = sys::clock::nonce(16);
    let (pages, new_pages) = mpsc::channel(1);
    let (end, ending) = watch::channel(false);
    let entry = TerminalEntry {
        uid: caller.identity.uid,
        session: caller.secret.clone(),
        label,
        pages,
        end,
    };
    app.terminals.all().insert(name.clone(), entry);
    let terminal = RunningTerminal {
        app: app.clone(),
        session: caller.secret.clone(),
        master,
        recent_output: VecDeque::new(),
        pages: new_pages,
        ending,
    };
    let (app, own) = (app.clone(), name.clone());
    tokio::spawn(async move {
        terminal.run().await;
        app.terminals.all().remove(&own);
        // At the latest now, the shell's side hangs up.
        drop(keeps);
    });
    Ok(name)
}

/// A running terminal.
struct RunningTerminal {
    app: App,
    session: String,
    master: AsyncFd<File>,
    recent_output: VecDeque<u8>,
    pages: mpsc::Receiver<AttachedPage>,
    ending: watch::Receiver<bool>,
}

/// Why a page is no longer connected to a terminal.
enum DisconnectReason {
    /// The terminal is over.
    Over,
    Away,
    For(AttachedPage),
}

impl RunningTerminal {
    async fn run(mut self) {
        let mut page = None;
        loop {
            let left = match page.take() {
                Some(page) => self.with(page).await,
                None => self.without().await,
            };
            match left {
                DisconnectReason::Over => return,
                DisconnectReason::Away => {}
                DisconnectReason::For(next) => page = Some(next),
            }
        }
    }

    /// Waits for a page. Nothing is read in the meantime, so a shell that writes waits, too.
    async fn without(&mut self) -> DisconnectReason {
        tokio::select! {
            page = self.pages.recv() => page.map_or(DisconnectReason::Over, DisconnectReason::For),
            _ = self.ending.wait_for(|end| *end) => DisconnectReason::Over,
            () = tokio::time::sleep(AWAY) => DisconnectReason::Over,
            () = until_over(&self.app, &self.session) => DisconnectReason::Over,
        }
    }

    /// Serves a page until it disconnects or another one connects.
    async fn with(&mut self, page: AttachedPage) -> DisconnectReason {
        let AttachedPage {
            mut keys,
            sizes,
            out,
            replaced,
        } = page;
        let recent_output: Vec<u8> = self.recent_output.iter().copied().collect();
        if !recent_output.is_empty() && out.send(recent_output.into()).await.is_err() {
            return DisconnectReason::Away;
        }
        let (app, session, master) = (&self.app, &self.session, &self.master);
        let left = tokio::select! {
            left = show(master, &mut self.recent_output, &out) => left,
            left = take_keys(master, &mut keys, || use_session(app, session)) => left,
            left = take_sizes(master, sizes) => left,
            next = self.pages.recv() => next.map_or(DisconnectReason::Over, DisconnectReason::For),
            _ = self.ending.wait_for(|end| *end) => DisconnectReason::Over,
            () = until_over(app, session) => DisconnectReason::Over,
        };
        if matches!(left, DisconnectReason::For(_)) {
            let _ = replaced.send(true);
        }
        left
    }
}

/// Waits until the session or the portal ends.
async fn until_over(app: &App, session: &str) {
    let mut ending = app.ending.clone();
    loop {
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
        if !app.sessions().is_there(session, sys::clock::wall_ms()) {
            return;
        }
    }
}

/// Counts typing as a use of the session.
fn use_session(app: &App, session: &str) {
    if app
        .sessions()
        .find(session, sys::clock::wall_ms())
        .is_none()
    {
        return;
    }
    let (actor, session) = (app.actor.clone(), session.to_owned());
    tokio::task::spawn_blocking(move || actor.may_go_on(&session));
}

/// Forwards the shell's output at the speed of the page.
async fn show(
    master: &AsyncFd<File>,
    recent_output: &mut VecDeque<u8>,
    out: &mpsc::Sender<Bytes>,
) -> DisconnectReason {
    loop {
        let Ok(room) = out.reserve().await else {
            return DisconnectReason::Away;
        };
        let mut piece = vec![0; PIECE];
        let n = loop {
            let Ok(mut ready) = master.readable().await else {
                return DisconnectReason::Over;
            };
            match read_now(ready.get_inner(), &mut piece) {
                Ok(Some(n)) if n > 0 => break n,
                Ok(None) => ready.clear_ready(),
                _ => return DisconnectReason::Over,
            }
        };
        piece.truncate(n);
        recent_output.extend(&piece);
        let over = recent_output.len().saturating_sub(KEPT);
        recent_output.drain(..over);
        room.send(piece.into());
    }
}

/// Forwards keys at the speed of the shell. `used` is called at intervals.
async fn take_keys(
    master: &AsyncFd<File>,
    keys: &mut mpsc::Receiver<Bytes>,
    used: impl Fn(),
) -> DisconnectReason {
    let mut used_at = None;
    while let Some(bytes) = keys.recv().await {
        let now = sys::clock::boot_ms();
        if used_at.is_none_or(|at| now >= at + USED_MS) {
            used_at = Some(now);
            used();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Ok(mut ready) = master.writable().await else {
                return DisconnectReason::Over;
            };
            match write_now(ready.get_inner(), rest) {
                Ok(0) => ready.clear_ready(),
                Ok(n) => rest = &rest[n..],
                Err(_) => return DisconnectReason::Over,
            }
        }
    }
    DisconnectReason::Away
}

async fn take_sizes(
    master: &AsyncFd<File>,
    mut sizes: watch::Receiver<(u16, u16)>,
) -> DisconnectReason {
    loop {
        if sizes.changed().await.is_err() {
            return DisconnectReason::Away;
        }
        let (rows, cols) = *sizes.borrow_and_update();
        set_size(master.get_ref(), rows, cols);
    }
}

/// Messages of a page other than keys.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PageMessage {
    /// The size of its screen: rows, columns.
    Size(u16, u16),
    /// This many bytes were shown.
    Shown(usize),
}

/// `GET /terminal/{name}/ws`: the connection of a page. Keys come as binary messages, sizes and
/// numbers of shown bytes as text.
pub(crate) async fn socket(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(from): Extension<Origin>,
    Path(name): Path<String>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, WebError> {
    session_only(&caller)?;
    websocket_origin(&headers, &from)?;
    let none = || WebError::not_found("there is no such terminal");
    let pages = app.terminals.pages(&caller, &name).ok_or_else(none)?;
    let upgrade = upgrade.map_err(|e| WebError::wrong(e.to_string()))?;
    let upgrade = upgrade
        .max_message_size(MESSAGE_MAX)
        .max_frame_size(MESSAGE_MAX);
    Ok(upgrade.on_upgrade(move |socket| at_page(socket, pages)))
}

/// Keys that a page has sent and the shell has not read.
#[derive(Default)]
struct PendingKeys {
    pieces: VecDeque<Bytes>,
    len: usize,
}

impl PendingKeys {
    /// False: too many bytes are waiting.
    fn add(&mut self, bytes: Bytes) -> bool {
        self.len += bytes.len();
        self.pieces.push_back(bytes);
        self.len <= TYPED_MAX
    }

    fn next(&mut self) -> Option<Bytes> {
        let first = self.pieces.pop_front()?;
        self.len -= first.len();
        Some(first)
    }
}

/// The connection of a page, from its start to its end.
async fn at_page(mut socket: WebSocket, pages: mpsc::Sender<AttachedPage>) {
    let (keys, typed) = mpsc::channel(1);
    let (size, sizes) = watch::channel((0, 0));
    let (out, mut output) = mpsc::channel(WAITING);
    let (replaced, mut is_taken) = watch::channel(false);
    let page = AttachedPage {
        keys: typed,
        sizes,
        out,
        replaced,
    };
    if pages.send(page).await.is_err() {
        return close(socket, ENDED, "").await;
    }
    let (mut typed, mut unshown) = (PendingKeys::default(), 0);
    let mut alive = tokio::time::interval(ALIVE);
    loop {
        tokio::select! {
            piece = output.recv(), if unshown < UNSHOWN_MAX => {
                let Some(piece) = piece else {
                    let (code, why) = match *is_taken.borrow_and_update() {
                        true => (TAKEN, "another page has taken it over"),
                        false => (ENDED, ""),
                    };
                    return close(socket, code, why).await;
                };
                unshown += piece.len();
                if !send(&mut socket, Message::Binary(piece)).await {
                    return;
                }
            }
            // Always read: reports of shown bytes must arrive even while a shell reads no keys.
            said = socket.recv() => match said {
                Some(Ok(Message::Binary(bytes))) => {
                    if !typed.add(bytes) {
                        return close(socket, TOO_MUCH, "the shell does not read").await;
                    }
                }
                Some(Ok(Message::Text(text))) => handle_message(&text, &size, &mut unshown),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return,
            },
            room = keys.reserve(), if typed.len > 0 => {
                match (room, typed.next()) {
                    (Ok(room), Some(bytes)) => room.send(bytes),
                    // The terminal is gone: the end of its output reports it.
                    _ => typed = PendingKeys::default(),
                }
            }
            _ = alive.tick() => {
                if !send(&mut socket, Message::Ping(Bytes::new())).await {
                    return;
                }
            }
        }
    }
}

/// False: the page does not receive the message.
async fn send(socket: &mut WebSocket, message: Message) -> bool {
    let sent = tokio::time::timeout(TAKE_TIME, socket.send(message)).await;
    matches!(sent, Ok(Ok(())))
}

fn handle_message(text: &str, size: &watch::Sender<(u16, u16)>, unshown: &mut usize) {
    match serde_json::from_str(text) {
        Ok(PageMessage::Size(rows, cols)) => {
            let clamped = |n: u16| n.clamp(1, SCREEN_MAX);
            let _ = size.send((clamped(rows), clamped(cols)));
        }
        Ok(PageMessage::Shown(n)) => *unshown = unshown.saturating_sub(n),
        Err(_) => {}
    }
}

async fn close(mut socket: WebSocket, code: u16, why: &'static str) {
    let frame = CloseFrame {
        code,
        reason: why.into(),
    };
    if send(&mut socket, Message::Close(Some(frame))).await {
        // The page answers; earlier messages are in transit until then.
        let answered = async { while let Some(Ok(_)) = socket.recv().await {} };
        let _ = tokio::time::timeout(LAST, answered).await;
    }
}
