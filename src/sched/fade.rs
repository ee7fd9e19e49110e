//! What time alone changes about requirements: reservations with a `duration` that end or shrink
//! while the work runs, and alternatives `{..}@delay` that open while the job waits. Owns when to
//! look again; the amounts are those of the requirement.

use super::Plan;
use super::engine::Engine;
use super::hosts::HostTable;
use crate::model::{JobKey, Stamp};
use crate::state::State;

impl Engine {
    /// Brings up to date what work holds whose reservations ended or shrank by now.
    pub(super) fn fade(&mut self, state: &State, table: &HostTable, plan: &mut Plan) {
        while let Some((at, j)) = self.fading.first().copied() {
            if at > self.now {
                plan.wake_at(Some(at));
                return;
            }
            self.fading.remove(&(at, j));
            if self.held.contains_key(&j) && state.work(j).is_some_and(|work| work.run.is_some()) {
                self.renew_held(state, table, j);
            }
        }
    }

    /// Notes how long the job whose turn it is has waited; gives when another way to meet its
    /// request opens.
    pub(super) fn note_waiting(&mut self, state: &State, shape: u32, j: JobKey) -> Option<Stamp> {
        self.waited_ms = 0;
        if !self.shape(shape).shape.timed {
            return None;
        }
        let submit = state.job(j.id).map_or(self.now, |job| job.submit);
        self.waited_ms = self.now.since_ms(submit);
        let (_, opens) = self.shape(shape).shape.open_ways(self.waited_ms);
        opens.map(|ms| submit.plus_ms(ms))
    }
}
