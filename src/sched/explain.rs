//! Why jobs wait, in words and numbers: counts of hosts by what stood in the way. Reads only.

use super::Plan;
use super::engine::{Bucket, Engine, ShapeSlot};
use super::hosts::{HostTable, Obstacle};
use super::place::Short;
use super::shape::{Shape, Unfit, View};
use crate::config::Config;
use crate::model::{HostCounts, PendReason};
use crate::state::{Class, State};
use std::collections::HashSet;

/// On a cluster of more hosts than this a shape's reason is worked out at most once a second.
const FEW_HOSTS: usize = 64;
const EXPLAIN_EVERY_MS: u64 = 1000;

impl Engine {
    pub(super) fn shape(&self, id: u32) -> &ShapeSlot {
        self.shapes[id as usize]
            .as_ref()
            .expect("a reference is held")
    }

    pub(super) fn config(&self) -> &Config {
        self.config
            .as_deref()
            .expect("an engine has a configuration")
    }

    pub(super) fn view<'a>(&'a self, table: &'a HostTable) -> View<'a> {
        View {
            config: self.config(),
            table,
            books: &self.books,
            names: &self.names,
        }
    }

    /// Why a class found no place; `None`: as before.
    pub(super) fn explain(
        &mut self,
        table: &HostTable,
        class: &Class,
        bucket: &Bucket,
        short: Short,
    ) -> Option<PendReason> {
        if self.quiet {
            return None;
        }
        let over_limit = self.over_limit.take().filter(|_| short.personal);
        if let Some(blocked) = over_limit {
            let why = self.quotas.reason(&blocked);
            return (class.why != why).then_some(why);
        }
        let now = self.now;
        let slot = self.shape(bucket.shape);
        let known = slot.why.as_ref().filter(|(_, at)| {
            table.len() > FEW_HOSTS && now.since_ms(*at) < EXPLAIN_EVERY_MS || *at == now
        });
        let why = match known {
            Some((why, _)) if !short.personal => why.clone(),
            _ => {
                let why = self.why(table, bucket, short);
                if !short.personal {
                    let slot = self.shapes[bucket.shape as usize].as_mut();
                    slot.expect("a reference is held").why = Some((why.clone(), now));
                }
                why
            }
        };
        (class.why != why).then_some(why)
    }

    /// Classes that came since the last pass and had no turn in this one get a reason, too.
    pub(super) fn explain_fresh(&mut self, state: &State, table: &HostTable, plan: &mut Plan) {
        if plan.more {
            return;
        }
        let done: HashSet<u32> = plan.reasons.iter().map(|(id, _)| *id).collect();
        for id in std::mem::take(&mut self.fresh) {
            let (Some(class), Some(bucket)) = (state.pending().class(id), self.buckets.remove(&id))
            else {
                continue;
            };
            if bucket.queue.is_none() {
                let queue = class.key.queue.clone();
                plan.reasons.push((id, PendReason::QueueGone { queue }));
            } else if class.why == PendReason::New && bucket.turn.is_some() && !done.contains(&id) {
                let (got, personal) = (0, false);
                let why = match self.gate(&bucket) {
                    Err((why, at)) => {
                        plan.wake_at(at);
                        Some(why)
                    }
                    Ok(()) => self.explain(table, class, &bucket, Short { got, personal }),
                };
                plan.reasons.extend(why.map(|why| (id, why)));
            }
            self.buckets.insert(id, bucket);
        }
    }

    /// Counts of hosts by obstacle, or that the request can never fit.
    fn why(&self, table: &HostTable, bucket: &Bucket, short: Short) -> PendReason {
        let shape = &self.shape(bucket.shape).shape;
        let view = self.view(table);
        let mut counts = HostCounts::default();
        let (mut ever, mut one_host) = (0u64, 0u32);
        for at in 0..table.len() {
            let host = table.at(at);
            let unfit = shape.unfit(&view, at);
            match (unfit, host.obstacle()) {
                (Some(Unfit::NotInQueue), _) => counts.not_in_queue += 1,
                (Some(Unfit::NotAsked), _) => counts.not_asked += 1,
                (_, Some(Obstacle::Closed)) => counts.closed += 1,
                (_, Some(Obstacle::Unavailable)) => counts.unavailable += 1,
                _ if self.hours.shuts(at) => counts.window += 1,
                (Some(Unfit::Load), _) => counts.load += 1,
                _ if self.watch.bars(host) => counts.load += 1,
                (Some(Unfit::Select), None) => counts.select += 1,
                (None, None) => self.count_busy(shape, bucket, &view, at, &mut counts),
            }
            if !matches!(unfit, Some(Unfit::NotInQueue | Unfit::NotAsked)) {
                let cap = host.slots.min(shape.request.ptile.unwrap_or(u32::MAX));
                ever += u64::from(cap);
                one_host = one_host.max(cap);
            }
        }
        let need = shape.request.min.max(1);
        let (most, place) = match shape.request.hosts_max {
            Some(1) => (u64::from(one_host), "on one host"),
            _ => (ever, "in all"),
        };
        if most < u64::from(need) {
            let why = format!("it needs {need} slots {place}, hosts it may use have {most}");
            return PendReason::NeverFits { why };
        }
        let free = short.got;
        match free {
            0 => PendReason::Hosts(counts),
            _ => PendReason::Slots { need, free },
        }
    }

    fn count_busy(
        &self,
        shape: &Shape,
        bucket: &Bucket,
        view: &View<'_>,
        at: usize,
        counts: &mut HostCounts,
    ) {
        let (host, books) = (view.table.at(at), view.books.get(at));
        let free = shape.free(books);
        let short = |want: &super::shape::Want| books.left(want.res) < want.amount;
        let over = |limit: u32| books.user_used(bucket.uid) >= limit;
        if !shape.alone(books) {
            counts.exclusive += 1;
        } else if free <= 0 {
            counts.full += 1;
        } else if shape.wants.iter().any(short) {
            counts.rusage += 1;
        } else if host.entry.user_slots.is_some_and(over) {
            counts.user_limit += 1;
        } else if shape.capacity(host, books, free) == 0 {
            counts.queue_limit += 1;
        } else if self.recent(shape, at) {
            counts.recent += 1;
        } else {
            counts.span += 1;
        }
    }
}
