//! Why jobs wait, in words and numbers: counts of hosts by the obstacle. Decides nothing.

use super::Pass;
use crate::model::{HostCounts, PendReason};
use crate::sched::compiled_request::{RequestPart, TrialUse};
use crate::sched::hosts::Obstacle;
use crate::sched::pending_classes::PendingClass;
use crate::sched::placement::Shortfall;
use crate::sched::shape::{ClusterView, HostQuery, Shape, UnmetCondition};
use crate::state::Class;
use std::collections::HashSet;

/// On a cluster with more hosts than this, the reason of a shape is computed at most once a second.
const FEW_HOSTS: usize = 64;
const EXPLAIN_EVERY_MS: u64 = 1000;

impl Pass<'_> {
    /// Why no hosts were found for a class; `None`: the reason is unchanged.
    pub(super) fn explain(
        &mut self,
        class: &Class,
        pending: &PendingClass,
        short: Shortfall,
    ) -> Option<PendReason> {
        if self.memory.skip_reasons {
            return None;
        }
        let over_limit = self.over_limit.take().filter(|_| short.personal);
        if let Some(blocked) = over_limit {
            let why = self.picture.quotas.reason(&blocked);
            return (class.why != why).then_some(why);
        }
        let now = self.now;
        let entry = self.picture.requests.entry(pending.shape);
        let known = entry.why.as_ref().filter(|(_, at)| {
            self.table.count() > FEW_HOSTS && now.since_ms(*at) < EXPLAIN_EVERY_MS || *at == now
        });
        let why = match known {
            Some((why, _)) if !short.personal => why.clone(),
            _ => {
                let why = self.pending_reason(pending, short);
                if !short.personal && !is_personal(&why) {
                    self.picture.requests.entry_mut(pending.shape).why = Some((why.clone(), now));
                }
                why
            }
        };
        (class.why != why).then_some(why)
    }

    /// Notes that this pass has found out why a class waits, even if that is what it was before.
    pub(super) fn note_explained(&mut self, class: u32) {
        if self.all_classes {
            self.explained.insert(class);
        }
    }

    /// Gives a reason also to classes that were not considered in this pass: to all of them if
    /// reasons are due, or else to those that were added since the last pass.
    pub(super) fn explain_rest(&mut self) {
        if self.plan.more {
            return;
        }
        let done: HashSet<u32> = self.plan.reasons.iter().map(|(id, _)| *id).collect();
        let mut ids = self.picture.classes.take_changed();
        if self.all_classes {
            ids = self.state.pending().classes().map(|(id, _)| id).collect();
        }
        for id in ids {
            if done.contains(&id) || self.explained.contains(&id) {
                continue;
            }
            let class = self.state.pending().class(id);
            let known = |class: &&Class| !self.all_classes && class.why != PendReason::New;
            if class.is_none_or(|class| known(&class) && self.has_queue(id)) {
                continue;
            }
            let (Some(class), Some(pending)) = (class, self.picture.classes.take_out(id)) else {
                continue;
            };
            let why = self.reason_without_search(class, &pending);
            let new = why.filter(|why| class.why != *why);
            self.plan.reasons.extend(new.map(|why| (id, why)));
            self.picture.classes.put(id, pending);
        }
    }

    /// Why a class waits that the pass did not reach, in the order in which a pass asks.
    fn reason_without_search(
        &mut self,
        class: &Class,
        pending: &PendingClass,
    ) -> Option<PendReason> {
        if pending.queue.is_none() {
            let queue = class.key.queue.clone();
            return Some(PendReason::QueueGone { queue });
        }
        let head = pending.progress.entry?;
        if let Err((why, at)) = self.start_condition(pending) {
            self.plan.wake_at(at);
            return Some(why);
        }
        if self.element(pending, head.j).is_none() {
            let array = self.state.job(head.j.id).and_then(|job| job.array());
            let limit = array.map_or(0, |array| array.limit);
            self.plan.at_limit.push((head.j.id, limit));
        }
        if let Some((why, at)) = self.submit_delay(pending, head.j) {
            self.plan.wake_at(Some(at));
            return Some(why);
        }
        match self.max_slots(pending) {
            Err(why) => Some(why),
            Ok(_) => self.explain(class, pending, Shortfall::default()),
        }
    }

    fn has_queue(&self, class: u32) -> bool {
        self.picture
            .classes
            .get(class)
            .is_some_and(|pending| pending.queue.is_some())
    }

    /// Counts of hosts by obstacle, or the fact that the request can never fit; for a request with
    /// sections, the section that falls short.
    pub(super) fn pending_reason(&self, pending: &PendingClass, short: Shortfall) -> PendReason {
        let shape = &self.shape(pending.shape);
        let view = self.view();
        let which = (usize::from(short.alt), usize::from(short.part));
        let parts = &shape.alternatives[which.0].parts;
        let part = &parts[which.1];
        let mut counts = HostCounts::default();
        let mut caps: Vec<u64> = Vec::new();
        for at in 0..self.table.count() {
            let host = self.table.at(at);
            let unfit = shape.unmet(which, &view, at);
            match (unfit, host.obstacle()) {
                (Some(UnmetCondition::NotInQueue), _) => counts.not_in_queue += 1,
                (Some(UnmetCondition::NotAsked), _) => counts.not_asked += 1,
                (_, Some(Obstacle::NoServer)) => counts.no_server += 1,
                (_, Some(Obstacle::Closed)) => counts.closed += 1,
                (_, Some(Obstacle::Locked)) => counts.locked += 1,
                (_, Some(Obstacle::Unavailable)) => counts.unavailable += 1,
                _ if self.picture.windows.is_closed(at) => counts.window += 1,
                (Some(UnmetCondition::Load), _) => counts.load += 1,
                _ if self
                    .picture
                    .monitor
                    .blocks(host, self.picture.usage.get(at).expected) =>
                {
                    counts.load += 1
                }
                (Some(UnmetCondition::Type), None) => counts.other_type += 1,
                (Some(UnmetCondition::Select), None) => counts.select += 1,
                (None, None) => self.count_busy(which, pending, &view, at, &mut counts),
            }
            if !matches!(
                unfit,
                Some(UnmetCondition::NotInQueue | UnmetCondition::NotAsked)
            ) {
                let tile = Some(part.spread.tile).filter(|n| *n > 0);
                caps.push(u64::from(host.slots.min(tile.unwrap_or(u32::MAX))));
            }
        }
        let need = part.min;
        let section = (parts.len() > 1).then_some(u32::from(short.part) + 1);
        if let Some(why) = too_few_slots(part, section, caps) {
            return PendReason::NeverFits { why };
        }
        if let Some(why) = self.never_enough(shape) {
            return PendReason::NeverFits { why };
        }
        match (section, short.found) {
            (Some(section), free) => PendReason::Section {
                section,
                need,
                with: part.text.clone(),
                free,
            },
            (None, 0) => {
                if counts.rusage > 0 {
                    counts.nearest = self.nearest(shape, which);
                }
                if counts.select > 0 {
                    counts.nearest_select = self.nearest_select(shape, which);
                }
                PendReason::Hosts(Box::new(counts))
            }
            (None, free) => PendReason::Slots { need, free },
        }
    }

    fn count_busy(
        &self,
        which: (usize, usize),
        pending: &PendingClass,
        view: &ClusterView<'_>,
        at: usize,
        counts: &mut HostCounts,
    ) {
        let shape = &self.shape(pending.shape);
        let (host, usage) = (view.table.at(at), view.usage.get(at));
        let free = shape.free(usage);
        let trial_use = TrialUse::default();
        let query = HostQuery::new(which.0, which.1, &trial_use);
        let part = &shape.alternatives[which.0].parts[which.1];
        let fits = shape.fit_amounts(&query, usage, part.min);
        let over = |limit: u32| usage.user_used(pending.user.uid) >= limit;
        if !shape.may_be_exclusive(which.0, usage) {
            counts.exclusive += 1;
        } else if free <= 0 {
            counts.full += 1;
        } else if fits == 0 {
            counts.rusage += 1;
        } else if host
            .user_limit(pending.user.slots_per_core)
            .is_some_and(over)
        {
            counts.user_limit += 1;
        } else if shape.fit(&query, view, at) == 0 {
            counts.queue_limit += 1;
        } else if self.is_too_slow(pending, at) {
            counts.slow += 1;
        } else if self.recent(shape, at) {
            counts.recent += 1;
        } else if self.is_reserved(at) {
            counts.reserved += 1;
        } else {
            counts.span += 1;
        }
    }

    /// Whether something of the host is kept for reservations.
    pub(super) fn is_reserved(&self, at: usize) -> bool {
        let book = self
            .picture
            .reserver
            .as_ref()
            .map(|reserver| &reserver.book);
        book.is_some_and(|book| at < book.hosts() && book.reserved_on(at as u32))
    }

    /// Whether a job has started on the host too recently for the queue of the shape.
    pub(super) fn recent(&self, shape: &Shape, at: usize) -> bool {
        let queue = shape.queue.map(|at| &self.config().queues[usize::from(at)]);
        let interval = queue.map_or(0, |queue| queue.job_accept_interval_ms);
        self.picture
            .throttle
            .after(at, interval, self.now)
            .is_some()
    }
}

/// Whether a reason depends on the user or the run limit, so that it does not hold for every class
/// with the same request.
fn is_personal(why: &PendReason) -> bool {
    matches!(why, PendReason::Hosts(counts) if counts.user_limit > 0 || counts.slow > 0)
}

/// Why a part can never get its slots. `caps`: slots of the hosts that it may use; `section`: its
/// number, if there are several.
fn too_few_slots(part: &RequestPart, section: Option<u32>, mut caps: Vec<u64>) -> Option<String> {
    let need = part.min;
    let hosts = match part.spread.hosts_max {
        0 => caps.len(),
        n => n as usize,
    };
    caps.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
    let most: u64 = caps.iter().take(hosts).sum();
    if most >= u64::from(need) {
        return None;
    }
    let who = section.map_or("it".to_owned(), |n| format!("section {n}"));
    let place = match part.spread.hosts_max {
        0 => "in all".to_owned(),
        1 => "on one host".to_owned(),
        n => format!("on {n} hosts"),
    };
    Some(format!(
        "{who} needs {need} slots {place}, hosts it may use have {most}"
    ))
}
