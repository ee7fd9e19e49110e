//! Event streams: changes of the view, the output of a job, and the events of the cluster.
//!
//! Owns their number and when they end: with their session or token, with the portal, or when the
//! reader is gone. A stream without a reader buffers only a few lines.

use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::Caller;
use crate::rest::{RestQuery, RestResult, key_of};
use crate::{App, blocking};
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use corral::api::read::Events;
use corral::sys;
use futures_core::Stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Events that wait for a slow reader.
const WAITING: usize = 64;
/// Pause between two checks of files, and minimum time between two `changed` events.
const CHECK_EVERY: Duration = Duration::from_millis(1_000);
/// How often a silent connection gets a comment, so that both sides notice a lost connection.
const ALIVE: Duration = Duration::from_secs(20);
/// The last bytes of a log, which are sent first and kept to find what is new.
const LOG_BYTES: usize = 64 << 10;
/// Number of last bytes that are searched to find where new bytes begin.
const JOINT: usize = 256;

/// Events on their way to one reader.
struct Lines {
    events: mpsc::Receiver<Event>,
    _permit: OwnedSemaphorePermit,
}

impl Stream for Lines {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(cx).map(|event| event.map(Ok))
    }
}

/// Opens a stream; returns its sender and the response.
fn open(app: &App) -> Result<(mpsc::Sender<Event>, Response), WebError> {
    let permit = app.streams.clone().try_acquire_owned();
    let permit = permit.map_err(|_| {
        let why = format!(
            "{} event streams are open, which is the maximum",
            crate::STREAMS_MAX
        );
        WebError::new(StatusCode::TOO_MANY_REQUESTS, why)
    })?;
    let (to, events) = mpsc::channel(WAITING);
    let lines = Lines {
        events,
        _permit: permit,
    };
    let answer = Sse::new(lines).keep_alive(KeepAlive::new().interval(ALIVE));
    Ok((to, answer.into_response()))
}

/// Waits for the next check; false: the stream must end.
async fn goes_on(app: &App, caller: &Caller, to: &mpsc::Sender<Event>) -> bool {
    let mut ending = app.ending.clone();
    tokio::select! {
        () = tokio::time::sleep(CHECK_EVERY) => {}
        () = to.closed() => return false,
        _ = ending.wait_for(|ending| *ending) => return false,
    }
    // A logout ends the streams of the session.
    let now = sys::clock::wall_ms();
    caller.secret.is_empty() || app.sessions().is_there(&caller.secret, now)
}

/// Sends an event after each change of the view.
pub(crate) async fn view(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> RestResult {
    let (to, answer) = open(&app)?;
    tokio::spawn(async move {
        let mut changes = app.cluster.changes();
        while goes_on(&app, &caller, &to).await {
            let changed = changes.has_changed().unwrap_or(false);
            if changed {
                let n = *changes.borrow_and_update();
                let event = Event::default().event("changed").data(n.to_string());
                if to.send(event).await.is_err() {
                    return;
                }
            }
        }
    });
    Ok(answer)
}

/// The standard output of a job: `begin` with its last part, then `more`, then `end`.
pub(crate) async fn log(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> RestResult {
    let key = key_of(&id)?;
    let (app_copy, who) = (app.clone(), caller.identity.clone());
    blocking(move || Ok(app_copy.actor.reader(&who)?.job(key).map(drop)?)).await?;
    let (to, answer) = open(&app)?;
    tokio::spawn(async move {
        let mut known: Option<Vec<u8>> = None;
        loop {
            let (app_copy, who) = (app.clone(), caller.identity.clone());
            let read = blocking(move || {
                let job = app_copy.actor.reader(&who)?.job(key)?;
                let ended = job.row.stat.is_finished();
                let mut files = app_copy.actor.output(&who, &job, LOG_BYTES)?;
                let first = (!files.is_empty()).then(|| files.swap_remove(0));
                Ok((first.and_then(|file| file.bytes.ok()), ended))
            });
            let Ok((bytes, ended)) = read.await else {
                return;
            };
            let bytes = bytes.unwrap_or_default();
            let event = match &known {
                Some(old) if *old == bytes => None,
                Some(old) => match added(old, &bytes) {
                    Some(new) => Some(("more", new)),
                    None => Some(("begin", &bytes[..])),
                },
                None => Some(("begin", &bytes[..])),
            };
            if let Some((name, text)) = event {
                let text = String::from_utf8_lossy(text).replace('\r', "\n");
                let event = Event::default().event(name).data(text);
                if to.send(event).await.is_err() {
                    return;
                }
            }
            known = Some(bytes);
            if ended {
                let _ = to.send(Event::default().event("end").data("")).await;
                return;
            }
            if !goes_on(&app, &caller, &to).await {
                return;
            }
        }
    });
    Ok(answer)
}

/// What `new` has after `old`, both the last bytes of a growing file; `None`: it is a different
/// file.
fn added<'n>(old: &[u8], new: &'n [u8]) -> Option<&'n [u8]> {
    if let Some(rest) = new.strip_prefix(old) {
        return Some(rest);
    }
    let joint = &old[old.len().saturating_sub(JOINT)..];
    if joint.len() < JOINT {
        return None;
    }
    let at = new
        .windows(joint.len())
        .rposition(|window| window == joint)?;
    Some(&new[at + joint.len()..])
}

/// The documents of `cevents`, each with its position as the ID.
pub(crate) async fn events(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Query(fields): RestQuery,
) -> RestResult {
    let fields = Fields(fields);
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok());
    let after = last.unwrap_or_else(|| fields.get("after")).to_owned();
    let (app_copy, who) = (app.clone(), caller.identity.clone());
    let following = blocking(move || {
        let after = (!after.is_empty()).then_some(after.as_str());
        Ok(app_copy.actor.reader(&who)?.events(after, &[])?)
    });
    let following = Arc::new(Mutex::new(following.await?));
    let (to, answer) = open(&app)?;
    tokio::spawn(async move {
        loop {
            let Ok(lines) = next_events(following.clone()).await else {
                return;
            };
            for line in lines {
                if to.send(event_of(&line)).await.is_err() {
                    return;
                }
            }
            if !goes_on(&app, &caller, &to).await {
                return;
            }
        }
    });
    Ok(answer)
}

async fn next_events(following: Arc<Mutex<Events>>) -> Result<Vec<String>, WebError> {
    blocking(move || {
        let mut following = following.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(following.next_events()?)
    })
    .await
}

fn event_of(line: &str) -> Event {
    let document: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    let mut event = Event::default().data(line.trim_end());
    for (member, is_id) in [("position", true), ("event", false)] {
        let text = document[member]
            .as_str()
            .filter(|text| !text.contains(['\n', '\r', '\0']));
        event = match (text, is_id) {
            (Some(text), true) => event.id(text),
            (Some(text), false) => event.event(text),
            (None, _) => event,
        };
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_of_a_log_is_found() {
        assert_eq!(added(b"ab", b"abcd"), Some(&b"cd"[..]));
        assert_eq!(added(b"", b"x"), Some(&b"x"[..]));
        assert_eq!(added(b"ab", b"xy"), None, "another file");
        let old: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
        let mut new = old[400..].to_vec();
        new.extend_from_slice(b"more");
        assert_eq!(added(&old, &new), Some(&b"more"[..]));
    }
}
