//! Slots on which new work could start now, by the time until which it may last: the types, and the
//! entry point of the pass that computes them.

use super::engine::Engine;
use super::hosts::HostTable;
use super::pass::Pass;
use crate::model::Stamp;
use crate::state::State;

/// What one host has for a job that begins now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    pub host: String,
    /// Of falling slots and rising ends; at least one.
    pub steps: Vec<OpeningStep>,
}

/// So many slots until some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpeningStep {
    /// The job must have ended by then, in milliseconds since the epoch; `None`: no end is known.
    pub until: Option<i64>,
    pub slots: u32,
}

impl Engine {
    /// Looks at all hosts for a job of a class of pending jobs that would begin now, beside the
    /// reservations that the last [`Engine::plan`] left. `None`: no such class waits.
    pub fn openings(
        &mut self,
        state: &State,
        table: &HostTable,
        now: Stamp,
        class: u32,
    ) -> Option<Vec<Opening>> {
        Pass::new(&mut self.picture, &mut self.memory, state, table, now).openings(class)
    }
}
