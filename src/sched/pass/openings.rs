//! What hosts and limits leave to a job that starts now, and until when, for
//! [`Engine::openings`](crate::sched::Engine::openings). Decides nothing and changes nothing.

use super::Pass;
use super::stages::{MinimumNeed, least};
use crate::model::Share;
use crate::sched::amount::Bundle;
use crate::sched::compiled_request::TrialUse;
use crate::sched::examine::Stage;
use crate::sched::limit_checks::user_room;
use crate::sched::openings::Opening;
use crate::sched::pending_classes::PendingClass;
use crate::sched::profile::{FOREVER, Step};
use crate::sched::quota::Need;
use crate::sched::shape::HostQuery;
use std::collections::BTreeSet;

/// A number of slots of one host that are free until some time.
#[derive(Clone, Copy)]
struct OpeningStep {
    /// In milliseconds since the epoch; `None`: no end is known.
    until: Option<i64>,
    slots: u32,
}

impl OpeningStep {
    /// Whether a job that ends at this time, or has no known end, can have the slots.
    fn lasts_until(&self, end: Option<i64>) -> bool {
        self.until
            .is_none_or(|until| end.is_some_and(|end| until >= end))
    }
}

impl Pass<'_> {
    pub(in crate::sched) fn openings(&mut self, class: u32) -> Option<Vec<Opening>> {
        let pending = self.picture.classes.take_out(class)?;
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
        let Ok(most) = self.max_slots_for(pending, 1, u32::MAX) else {
            return Vec::new();
        };
        let least = least(&self.shape(pending.shape).alternatives[0].parts[0]);
        let closes = self.latest_end(pending).map(|at| at.0);
        let mut hosts = Vec::new();
        for at in 0..self.table.count() {
            let mut steps = self.steps_on(pending, &least, at);
            for step in &mut steps {
                step.until = step.until.into_iter().chain(closes).min();
            }
            if !steps.is_empty() {
                hosts.push((at as u32, steps));
            }
        }
        let steps = hosts.iter().flat_map(|(_, steps)| steps);
        let ends: BTreeSet<i64> = steps.map(|s| s.until.unwrap_or(i64::MAX)).collect();
        let ends = ends.into_iter().map(|at| (at < i64::MAX).then_some(at));
        let all = ends.map(|until| Opening {
            until,
            hosts: self.within_limits(pending, &hosts, until, most),
        });
        all.filter(|opening| !opening.hosts.is_empty()).collect()
    }

    /// The slots that a job until this time can have by the limits, from the first host on.
    fn within_limits(
        &self,
        pending: &PendingClass,
        hosts: &[(u32, Vec<OpeningStep>)],
        until: Option<i64>,
        most: u32,
    ) -> Vec<Share> {
        let alternative = &self.shape(pending.shape).alternatives[0];
        let (mut left, mut out, mut so_far) = (most, Vec::new(), Vec::new());
        for (at, steps) in hosts {
            if left == 0 {
                break;
            }
            // The first step that lasts has the most slots.
            let step = steps.iter().find(|step| step.lasts_until(until));
            let free = step.map_or(0, |step| step.slots).min(left);
            if free == 0 {
                continue;
            }
            let slots = free.min(self.limits_leave(pending, *at, &so_far));
            if slots > 0 {
                so_far.push((*at, alternative.bundle(slots)));
                out.push(Share(self.table.at(*at as usize).name.clone(), slots));
                left -= slots;
            }
        }
        out
    }

    /// What section `limits` leaves to a job on one more host beside what it has on others.
    fn limits_leave(&self, pending: &PendingClass, at: u32, so_far: &[(u32, Bundle)]) -> u32 {
        let (ident, quotas) = (&pending.ident, &self.picture.quotas);
        if ident.is_free() {
            return u32::MAX;
        }
        let (shape, trial_use) = (self.shape(pending.shape), TrialUse::default());
        let query = HostQuery {
            first: so_far.is_empty(),
            ..HostQuery::new(0, 0, &trial_use)
        };
        let (per_slot, fixed) = shape.needs_on_host(&query);
        let need = Need {
            slots: 1,
            per_slot: &per_slot,
            fixed: &fixed,
        };
        let on_host = quotas.room_on_host(ident, at, &need, so_far);
        let all = quotas.max_slots_beside(ident, &need, so_far);
        on_host.unwrap_or(0).min(all.unwrap_or(0))
    }

    /// The openings of one host; none if the host offers nothing to the job now.
    fn steps_on(
        &mut self,
        pending: &PendingClass,
        least: &MinimumNeed,
        at: usize,
    ) -> Vec<OpeningStep> {
        let kept_off = self.verdict(pending, least, at);
        let serves = |stage| matches!(stage, Stage::Recent | Stage::Reserved | Stage::Together);
        if kept_off.is_some_and(|(stage, _)| !serves(stage)) {
            return Vec::new();
        }
        let room = self.room_over_time(pending, at);
        let (shape, view) = (self.shape(pending.shape), self.view());
        let usage = view.usage.get(at);
        let trial_use = TrialUse::default();
        let query = HostQuery::new(0, 0, &trial_use);
        let user = (pending.user.uid, pending.user.slots_per_core);
        let fit = (shape.fit(&query, &view, at)).min(user_room(&view, user, at, &query));
        let ends = room.iter().skip(1).map(|step| Some(step.from));
        let ends = ends.map(|end| end.filter(|at| *at < FOREVER));
        let mut steps = Vec::new();
        for (step, until) in room.iter().zip(ends.chain([None])) {
            let slots = fit.min(shape.slots_beside_reservations(&query, usage, &step.room));
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
            (true, true) => book.decreasing_steps(host, now).to_vec(),
            (true, false) => vec![Step {
                from: i64::MIN,
                room: book.free_for(host, now, i64::MAX, false).clone(),
            }],
        }
    }
}
