//! Sends documents to the server until each is stored or can never be stored.
//!
//! Owns how long to wait and how much to send at once. The server, the wait function and the file
//! of rejected documents are arguments. Never drops a document: a document that is not stored is in
//! that file.

use super::bulk::{Document, ItemResult, Verdict, encode, judge, pause_ms};
use super::state::Counts;

/// The server of documents.
pub(super) trait Server {
    /// Sends a bulk request. The error is a sentence.
    fn bulk(&mut self, body: &str) -> Result<super::bulk::Answer, String>;
}

/// What else a delivery needs.
pub(super) trait DeliveryContext {
    /// Waits this many ms. Returns true if the program must end.
    fn wait(&mut self, ms: u64, why: &str) -> bool;
    fn random(&mut self) -> u16;
    /// Stores a document durably that the server can never store.
    fn reject(&mut self, document: &Document, status: u16, why: &str) -> Result<(), String>;
}

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    /// Every document is stored or rejected.
    Done,
    /// The program must end.
    Stopped,
    /// There were too many failures in a row; with the last one.
    GaveUp(String),
}

/// The limits of a delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryLimits {
    /// Number of bytes of a request.
    pub bytes: usize,
    /// Longest pause, ms.
    pub pause_ms: u64,
    /// Failures in a row after which it gives up; `None`: never.
    pub failures: Option<u32>,
}

/// A delivery to one server.
pub(super) struct Delivery<'a> {
    pub server: &'a mut dyn Server,
    pub context: &'a mut dyn DeliveryContext,
    pub counts: &'a mut Counts,
    pub limits: DeliveryLimits,
}

impl Delivery<'_> {
    /// Delivers all documents.
    pub(super) fn deliver(&mut self, documents: &[Document]) -> DeliveryOutcome {
        let mut left: Vec<&Document> = documents.iter().collect();
        let mut failures = 0;
        while !left.is_empty() {
            let n = self.fitting(&left);
            let verdict = match self.server.bulk(&encode(&left[..n])) {
                Ok(answer) => judge(&answer, n),
                Err(why) => Verdict::Retry(why, None),
            };
            let trouble = match verdict {
                Verdict::Results(results) => {
                    let before = left.len();
                    let why = self.sort(&mut left, &results);
                    if left.len() < before {
                        failures = 0;
                    }
                    why.map(|why| (why, None))
                }
                Verdict::TooLarge => self.smaller(&mut left, n).map(|why| (why, None)),
                Verdict::Retry(why, retry_after_s) => Some((why, retry_after_s)),
            };
            let Some((why, retry_after_s)) = trouble else {
                failures = 0;
                continue;
            };
            failures += 1;
            self.counts.failures += 1;
            if self.limits.failures.is_some_and(|most| failures >= most) {
                return DeliveryOutcome::GaveUp(why);
            }
            let random = self.context.random();
            let pause = pause_ms(failures, self.limits.pause_ms, retry_after_s, random);
            if self.context.wait(pause, &why) {
                return DeliveryOutcome::Stopped;
            }
        }
        DeliveryOutcome::Done
    }

    /// How many of the first documents fit into one request: at least one.
    fn fitting(&self, left: &[&Document]) -> usize {
        let mut room = self.limits.bytes;
        let fits = |d: &&&Document| {
            let size = d.size();
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        };
        left.iter().take_while(fits).count().max(1)
    }

    /// Removes what is stored or rejected. Returns why something of what was sent is left.
    fn sort(&mut self, left: &mut Vec<&Document>, results: &[ItemResult]) -> Option<String> {
        let (mut again, mut why) = (Vec::new(), None);
        for (document, result) in left.iter().zip(results) {
            let trouble = match result {
                ItemResult::Stored => {
                    self.counts.stored += 1;
                    None
                }
                ItemResult::Present => {
                    self.counts.present += 1;
                    None
                }
                ItemResult::Retry(text) => Some(format!("a document was not accepted, {text}")),
                ItemResult::Rejected(status, text) => self.reject(document, *status, text).err(),
            };
            if trouble.is_some() {
                again.push(*document);
                why = trouble;
            }
        }
        left.splice(..results.len(), again);
        why
    }

    fn reject(&mut self, document: &Document, status: u16, why: &str) -> Result<(), String> {
        self.context.reject(document, status, why)?;
        self.counts.rejected += 1;
        Ok(())
    }

    /// Halves the size of requests, because the server accepts none of this size; a document that
    /// is too large alone is rejected.
    fn smaller(&mut self, left: &mut Vec<&Document>, n: usize) -> Option<String> {
        let size: usize = left[..n].iter().map(|d| d.size()).sum();
        if n > 1 {
            self.limits.bytes = size / 2;
            return None;
        }
        let rejected = self.reject(left[0], 413, "larger than the server accepts");
        match rejected {
            Ok(()) => drop(left.remove(0)),
            Err(why) => return Some(why),
        }
        None
    }
}
