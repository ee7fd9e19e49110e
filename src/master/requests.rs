//! Requests on their way from the drop boxes to a turn, and the handling of requests that reach no
//! turn.
//!
//! [`super::inbox`] does the reading. Owns no file except the directory `inbox/`, if it is missing.

use super::hints::NamedBoxes;
use super::inbox::{BoxSelection, ReadRequest, RejectedRequest, is_missing};
use super::lead::Leader;
use super::leader_end::LeaderEnd;
use crate::lease::Check;
use crate::record::ack::Ack;
use crate::record::request::Verb;
use crate::sys;
use crate::turn;

impl Leader {
    /// Looks for drop boxes of users that had none. A hint may be about one: if it is too soon for
    /// a search, the next one follows soon.
    pub(super) fn find_users(
        &mut self,
        now: u64,
        all: bool,
        hinted: &NamedBoxes,
    ) -> Result<(), LeaderEnd> {
        let unknown = hinted.keys().filter(|uid| !self.inbox.find(**uid)).count();
        if all || unknown > 0 {
            self.new_boxes.expect();
        }
        // If events are raised, they show that a box was created.
        let dir = (!self.wakeups.has_events()).then(|| self.site.layout.inbox());
        if !self.new_boxes.may_list(now, self.inbox.is_listing(), dir) {
            return Ok(());
        }
        if let Err(e) = self.inbox.find_users(now) {
            self.miss_users(&e, now)?;
        }
        if let Some(text) = self.inbox.take_alarm() {
            self.view.raise("inbox names", text, now);
            self.store.janitor.clear_inbox(now);
        }
        Ok(())
    }

    /// Handles the error `e` that prevented the search for drop boxes. The leader creates a missing
    /// directory again, but creates nothing if the share is not the one on which it leads.
    fn miss_users(&mut self, e: &sys::Error, now: u64) -> Result<(), LeaderEnd> {
        let mut text = format!("drop boxes of new users cannot be found: {e}");
        if is_missing(e) {
            self.recheck()?;
            match self.inbox.recreate() {
                Ok(()) => {
                    self.new_boxes.expect();
                    text = format!("{e}: it was created again; the requests in it are lost");
                }
                Err(e) => text = format!("no request is taken: {e}"),
            }
        }
        self.view.raise("inbox", text, now);
        Ok(())
    }

    /// Takes the requests in the drop boxes. While the share is full, requests stay there, except
    /// signals, with which users can end the jobs that fill it.
    pub(super) fn take_requests(
        &mut self,
        now: u64,
        all: bool,
        hinted: &NamedBoxes,
    ) -> (Vec<ReadRequest>, Vec<RejectedRequest>) {
        self.inbox.set_poll(self.poll_ms());
        let boxes = match all {
            true => BoxSelection::All,
            false => BoxSelection::Named(hinted),
        };
        if !self.reserve.is_full() {
            return self.inbox.take(now, boxes);
        }
        if !self.reserve.may_spend() {
            return (Vec::new(), Vec::new());
        }
        let (mut taken, _) = self.inbox.take(now, boxes);
        let signal = |verb: &Verb| matches!(verb, Verb::Signal { .. });
        taken.retain(|request| request.verbs.iter().all(signal));
        (taken, Vec::new())
    }

    /// Stores the blobs of requests before anything is decided about the requests. A request whose
    /// script cannot be stored is refused: one blocked file name must not end one leader after
    /// another.
    pub(super) fn keep_blobs(
        &mut self,
        taken: Vec<ReadRequest>,
        now: u64,
    ) -> Result<(Vec<ReadRequest>, Vec<RejectedRequest>), LeaderEnd> {
        let (mut good, mut refused) = (Vec::new(), Vec::new());
        for request in taken {
            let mut stored = Ok(());
            for blob in turn::blobs(&request.head) {
                let need = blob.bytes.len();
                let result =
                    self.retry_until_room(need, |leader| match leader.store.blobs.store(&blob) {
                        Err(e) if !e.is_no_space() => Ok(Err(e.to_string())),
                        other => Ok(Ok(other?)),
                    })?;
                stored = stored.and(result);
            }
            let Err(why) = stored else {
                good.push(request);
                continue;
            };
            let text = format!(
                "jobs are refused because their script or environment cannot be \
                stored: {why}"
            );
            self.view.raise("blobs", text, now);
            refused.push(RejectedRequest {
                token: Some(request.head.token),
                location: request.location,
                reason: format!("its script or environment cannot be stored: {why}"),
            });
        }
        if !refused.is_empty() {
            // Find out whether only one file fails, or the whole share. The latter ends this
            // leader.
            self.recheck()?;
        }
        Ok((good, refused))
    }

    /// Sets unreadable requests aside, and answers those for which that is possible.
    pub(super) fn reject(
        &mut self,
        rejected: Vec<RejectedRequest>,
        now: u64,
    ) -> Result<(), LeaderEnd> {
        if !rejected.is_empty() && self.leadership.check() == Check::After {
            self.recheck()?;
        }
        for bad in rejected {
            if let Some(tok) = bad.token {
                let error = format!("the request was not accepted: {}", bad.reason);
                self.answer(&[Ack::refused(tok, error)])?;
            }
            self.inbox.set_aside(&bad, now);
        }
        Ok(())
    }
}
