//! Requests that are too large to be read within a turn: one at a time is read and decoded on a
//! separate thread. Decides nothing about the content.

use super::RequestLocation;
use super::request_file::{Unreadable, parse};
use crate::record::request::{REQUEST_MAX, RequestHead, Verb};
use crate::sys::dropbox::{DropError, DroppedFile};
use crate::sys::thread;
use crossbeam::channel::{Receiver, TryRecvError, bounded};

/// A request with more bytes is not read within a turn.
pub(super) const LARGE: u64 = 1 << 20;
/// How often the leader checks whether it has been read, in milliseconds.
const POLL_MS: u64 = 20;
/// A request that no turn has looked for in this time was withdrawn, in milliseconds.
const KEPT_MS: u64 = 60_000;

/// A request as it was read: its bytes, its owner and its content.
pub(super) struct DecodedRequest {
    pub bytes: usize,
    pub uid: u32,
    pub content: Result<(RequestHead, Vec<Verb>), Unreadable>,
}

/// Reads and decodes a request.
pub(super) fn decode(file: DroppedFile) -> Result<DecodedRequest, DropError> {
    let dropped = file.read(REQUEST_MAX as u64)?;
    Ok(DecodedRequest {
        bytes: dropped.bytes.len(),
        uid: dropped.uid,
        content: parse(&dropped.bytes),
    })
}

/// The request that is being read.
#[derive(Default)]
pub(super) struct LargeRead(Option<ReadInProgress>);

struct ReadInProgress {
    location: RequestLocation,
    done: Receiver<Result<DecodedRequest, DropError>>,
    begun_ms: u64,
    searched_ms: u64,
}

/// The state of a request.
pub(super) enum Progress {
    /// It is not the request that is being read.
    Other,
    Waits,
    Read(Result<Box<DecodedRequest>, DropError>),
}

impl LargeRead {
    /// Whether it has been read: its user's box must be checked.
    pub(super) fn is_ready(&self, uid: u32) -> bool {
        let ready =
            |reading: &ReadInProgress| reading.location.uid == uid && !reading.done.is_empty();
        self.0.as_ref().is_some_and(ready)
    }

    /// When to check whether it has been read.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.0.as_ref().map(|reading| reading.searched_ms + POLL_MS)
    }

    /// Notes that a turn looks for requests.
    pub(super) fn note_search(&mut self, now_ms: u64) {
        let late = |reading: &ReadInProgress| now_ms.saturating_sub(reading.begun_ms) > KEPT_MS;
        self.0
            .take_if(|reading| late(reading) && !reading.done.is_empty());
        if let Some(reading) = &mut self.0 {
            reading.searched_ms = now_ms;
        }
    }

    /// Takes this request, if it has been read.
    pub(super) fn take_read(&mut self, location: &RequestLocation) -> Progress {
        let Some(reading) = self
            .0
            .as_ref()
            .filter(|reading| reading.location == *location)
        else {
            return Progress::Other;
        };
        match reading.done.try_recv() {
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

    /// Starts to read the request unless another one is being read.
    pub(super) fn begin(&mut self, location: &RequestLocation, file: DroppedFile, now_ms: u64) {
        if self.0.is_some() {
            return;
        }
        let (tx, done) = bounded(1);
        let work = move || drop(tx.send(decode(file)));
        match thread::spawn("request", 2 << 20, work) {
            Ok(_) => {
                self.0 = Some(ReadInProgress {
                    location: location.clone(),
                    done,
                    begun_ms: now_ms,
                    searched_ms: now_ms,
                });
            }
            Err(e) => {
                tracing::error!("{location}: the thread that reads it cannot be started: {e}")
            }
        }
    }
}
