//! Requests that are too large to be read within a turn: one at a time is read and decoded on a
//! separate thread. Decides nothing about the content.

use super::Place;
use super::request_file::{Unreadable, parse};
use crate::record::request::{REQUEST_MAX, RequestHead, Verb};
use crate::sys::dropbox::{DropError, DroppedFile};
use crate::sys::thread;
use crossbeam::channel::{Receiver, TryRecvError, bounded};

/// A request of more bytes is not read in a turn.
pub(super) const LARGE: u64 = 1 << 20;
/// How often it is looked whether it was read, ms.
const LOOK_MS: u64 = 20;
/// One that no turn has asked for in so long was withdrawn, ms.
const KEPT_MS: u64 = 60_000;

/// A request as it was read: its bytes, its owner, and what it says.
pub(super) struct Decoded {
    pub bytes: usize,
    pub uid: u32,
    pub said: Result<(RequestHead, Vec<Verb>), Unreadable>,
}

/// Reads and decodes a request.
pub(super) fn decode(file: DroppedFile) -> Result<Decoded, DropError> {
    let dropped = file.read(REQUEST_MAX as u64)?;
    Ok(Decoded {
        bytes: dropped.bytes.len(),
        uid: dropped.uid,
        said: parse(&dropped.bytes),
    })
}

/// The one that is being read.
#[derive(Default)]
pub(super) struct Reading(Option<Under>);

struct Under {
    place: Place,
    done: Receiver<Result<Decoded, DropError>>,
    begun_ms: u64,
    asked_ms: u64,
}

/// What is known of a request.
pub(super) enum Progress {
    /// It is not the one that is read.
    Other,
    Waits,
    Read(Result<Box<Decoded>, DropError>),
}

impl Reading {
    /// It was read: its user's box is to be looked into.
    pub(super) fn is_ready(&self, uid: u32) -> bool {
        let ready = |under: &Under| under.place.uid == uid && !under.done.is_empty();
        self.0.as_ref().is_some_and(ready)
    }

    /// When to look whether it was read.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.0.as_ref().map(|under| under.asked_ms + LOOK_MS)
    }

    /// A turn looks for requests.
    pub(super) fn look(&mut self, now_ms: u64) {
        let late = |under: &Under| now_ms.saturating_sub(under.begun_ms) > KEPT_MS;
        self.0
            .take_if(|under| late(under) && !under.done.is_empty());
        if let Some(under) = &mut self.0 {
            under.asked_ms = now_ms;
        }
    }

    /// This request, if it was read.
    pub(super) fn take(&mut self, place: &Place) -> Progress {
        let Some(under) = self.0.as_ref().filter(|under| under.place == *place) else {
            return Progress::Other;
        };
        match under.done.try_recv() {
            Err(TryRecvError::Empty) => Progress::Waits,
            Ok(decoded) => {
                self.0 = None;
                Progress::Read(decoded.map(Box::new))
            }
            // Its thread died: it is read once more.
            Err(TryRecvError::Disconnected) => {
                self.0 = None;
                Progress::Waits
            }
        }
    }

    /// Has the request read unless another one is.
    pub(super) fn begin(&mut self, place: &Place, file: DroppedFile, now_ms: u64) {
        if self.0.is_some() {
            return;
        }
        let (tx, done) = bounded(1);
        let work = move || drop(tx.send(decode(file)));
        match thread::spawn("request", 2 << 20, work) {
            Ok(_) => {
                self.0 = Some(Under {
                    place: place.clone(),
                    done,
                    begun_ms: now_ms,
                    asked_ms: now_ms,
                });
            }
            Err(e) => tracing::error!("{place}: no thread for reading it: {e}"),
        }
    }
}
