//! Slots on which new work could start now, by the time until which it may last: the types, and the
//! entry point of the pass that computes them.

use super::engine::Engine;
use super::hosts::HostTable;
use super::pass::Pass;
use crate::model::{Share, Stamp};
use crate::state::State;

/// What a job that starts now can have until some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    /// The time by which the job must have ended, in milliseconds since the epoch; `None`: no end
    /// is known.
    pub until: Option<i64>,
    /// At least one slot.
    pub hosts: Vec<Share>,
}

impl Engine {
    /// What the hosts and the limits leave to one more job like those of a class of pending jobs if
    /// it starts now, beside the reservations that the last [`Engine::plan`] left. Later ends have
    /// fewer slots. Returns `None` if no job of the class is pending.
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
