//! Slots on which new work could start now, by the time until which it may last: the types, and the
//! entry point of the pass that computes them.

use super::engine::Engine;
use super::hosts::HostTable;
use super::pass::Pass;
use crate::model::Stamp;
use crate::state::State;

/// What one host offers to a job that starts now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    pub host: String,
    /// Steps with decreasing slots and increasing ends; at least one.
    pub steps: Vec<OpeningStep>,
}

/// A number of slots that are free until some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpeningStep {
    /// The time by which the job must have ended, in milliseconds since the epoch; `None`: no end
    /// is known.
    pub until: Option<i64>,
    pub slots: u32,
}

impl Engine {
    /// Checks what all hosts offer to a job of a class of pending jobs if it starts now, beside the
    /// reservations that the last [`Engine::plan`] left. Returns `None` if no job of the class is
    /// pending.
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
