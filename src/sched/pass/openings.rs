//! What hosts have for a job that starts now, and until when, for
//! [`Engine::openings`](crate::sched::Engine::openings). Decides nothing and changes nothing.

use super::Pass;
use super::stages::{Least, least};
use crate::sched::compiled_request::TrialUse;
use crate::sched::examine::Stage;
use crate::sched::openings::{Opening, OpeningStep};
use crate::sched::pending_classes::PendingClass;
use crate::sched::profile::{FOREVER, Step};
use crate::sched::shape::HostQuery;

impl Pass<'_> {
    pub(in crate::sched) fn openings(&mut self, class: u32) -> Option<Vec<Opening>> {
        let pending = self.picture.classes.take(class)?;
        let found = match self.queue_starts(&pending) {
            true => self.openings_of(&pending),
            false => Vec::new(),
        };
        self.picture.classes.put(class, pending);
        Some(found)
    }

    /// Whether its queue starts jobs now.
    fn queue_starts(&self, pending: &PendingClass) -> bool {
        let Some(at) = pending.queue.map(usize::from) else {
            return false;
        };
        let windows = &self.picture.windows;
        let shut = [windows.run(at), windows.dispatch(at)];
        let shut = shut.into_iter().flatten().any(|window| !window.open);
        let active = self.state.queue_ctl(&self.config().queues[at].name).active;
        active && !shut && self.shape(pending.shape).bad.is_none()
    }

    fn openings_of(&mut self, pending: &PendingClass) -> Vec<Opening> {
        let least = least(&self.shape(pending.shape).ways[0].parts[0]);
        let closes = self.latest_end(pending).map(|at| at.0);
        let hosts = 0..self.table.count();
        hosts
            .filter_map(|at| {
                let mut steps = self.steps_on(pending, &least, at);
                for step in &mut steps {
                    step.until = step.until.into_iter().chain(closes).min();
                }
                steps.dedup_by(|later, kept| {
                    // An entry that does not end later has fewer slots; equal slots last as long as
                    // possible.
                    let same = later.slots == kept.slots;
                    if same {
                        kept.until = later.until;
                    }
                    same || later.until == kept.until
                });
                let host = self.table.at(at).name.clone();
                (!steps.is_empty()).then_some(Opening { host, steps })
            })
            .collect()
    }

    /// The openings of one host; none if the host offers nothing to the job now.
    fn steps_on(&mut self, pending: &PendingClass, least: &Least, at: usize) -> Vec<OpeningStep> {
        let kept_off = self.verdict(pending, least, at);
        let serves = |stage| matches!(stage, Stage::Recent | Stage::Reserved | Stage::Together);
        if kept_off.is_some_and(|(stage, _)| !serves(stage)) {
            return Vec::new();
        }
        let room = self.room_over_time(pending, at);
        let (shape, view) = (self.shape(pending.shape), self.view());
        let usage = view.usage.get(at);
        let hold = TrialUse::default();
        let query = HostQuery::new(0, 0, &hold);
        let user = view.table.at(at).user_limit(pending.user.slots_per_core);
        let left = user.map(|most| most.saturating_sub(usage.user_used(pending.user.uid)));
        let fit = shape.fit(&query, &view, at).min(left.unwrap_or(u32::MAX));
        let ends = room.iter().skip(1).map(|step| Some(step.from));
        let ends = ends.map(|end| end.filter(|at| *at < FOREVER));
        let mut steps = Vec::new();
        for (step, until) in room.iter().zip(ends.chain([None])) {
            let slots = fit.min(shape.fit_beside(&query, usage, &step.room));
            if slots == 0 {
                break;
            }
            steps.push(OpeningStep { until, slots });
            if until.is_none() {
                break;
            }
        }
        if room.is_empty() && fit > 0 {
            steps.push(OpeningStep {
                until: None,
                slots: fit,
            });
        }
        steps
    }

    /// What reservations leave of a host, by the end of what begins now; empty: no reservations lie
    /// there.
    fn room_over_time(&mut self, pending: &PendingClass, at: usize) -> Vec<Step> {
        let may_backfill = self.reserve_policy(pending).may_backfill;
        let (now, host) = (self.now.0, at as u32);
        let Some(reserver) = &mut self.picture.reserver else {
            return Vec::new();
        };
        let book = &mut reserver.book;
        match (book.reserved_on(host), may_backfill) {
            (false, _) => Vec::new(),
            (true, true) => book.stairs(host, now).to_vec(),
            (true, false) => vec![Step {
                from: i64::MIN,
                room: book.room(host, now, i64::MAX, false).clone(),
            }],
        }
    }
}
