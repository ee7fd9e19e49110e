//! `cpost`: users leave messages with jobs, for others to read (`cread`).
//!
//! Owns how many messages the jobs of a user may have. A job takes messages until it is removed.

use super::context::Turn;
use crate::intake::{Refusal, Requester};
use crate::model::JobKey;
use crate::record::event::Event;
use crate::record::message::{JobMessage, OF_OWNER_MAX};

impl Turn<'_> {
    /// Leaves a message with a job or element; it replaces one with the same index.
    pub(super) fn post_one(
        &mut self,
        requester: &Requester,
        j: JobKey,
        index: u32,
        text: &str,
    ) -> Result<(), Refusal> {
        let state = &self.core.state;
        let Some(spec) = state.spec_of(j.id) else {
            return Err(Refusal::not_found("no matching job found"));
        };
        let known = |message: &JobMessage| message.index == index;
        let replaces = state.messages(j).iter().any(known);
        if !replaces && state.messages_of(spec.uid) >= OF_OWNER_MAX {
            return Err(Refusal::refused(format!(
                "the jobs of {} have {OF_OWNER_MAX} messages, which is the maximum",
                spec.user
            )));
        }
        let message = JobMessage {
            index,
            by: requester.user.clone(),
            t: self.now,
            text: text.to_owned(),
        };
        self.emit(Event::Posted { j, message });
        Ok(())
    }
}
