//! How many slots the limits of a queue, of a user and of section `limits` leave to one job, as far
//! as they do not depend on the host.

use super::Pass;
use crate::model::{JobKey, PendReason};
use crate::sched::limit_checks::alternative_room;
use crate::sched::pending_classes::PendingClass;
use crate::sched::placement::Shortfall;
use crate::sched::quota::{Blocked, Need};

impl Pass<'_> {
    /// Maximum number of slots of the job by the limits that do not depend on the host.
    pub(super) fn max_slots(&self, pending: &PendingClass) -> Result<u32, PendReason> {
        let request = &self.shape(pending.shape).request;
        let need = request.min.max(1);
        self.max_slots_for(pending, need, request.max.max(need))
    }

    /// As [`Pass::max_slots`], for a job like those of the class that needs other numbers of slots.
    pub(super) fn max_slots_for(
        &self,
        pending: &PendingClass,
        need: u32,
        mut most: u32,
    ) -> Result<u32, PendReason> {
        if let Some(why) = self.above_slot_limit(pending, need) {
            return Err(why);
        }
        let mut cut = |limit: Option<u32>, used: u32| match limit {
            Some(limit) if used + need > limit => Err(limit),
            Some(limit) => {
                most = most.min(limit - used);
                Ok(())
            }
            None => Ok(()),
        };
        let in_use = self.picture.allocations.in_use();
        let uid = pending.user.uid;
        if let Some(at) = pending.queue {
            let queue = &self.config().queues[usize::from(at)];
            let name = || queue.name.clone();
            cut(queue.slots, in_use.queue[usize::from(at)]).map_err(|limit| {
                let queue = name();
                PendReason::QueueSlots { queue, limit }
            })?;
            let used = || in_use.queue_user.get(&(at, uid)).copied().unwrap_or(0);
            let used = queue.user_slots.map_or(0, |_| used());
            cut(queue.user_slots, used).map_err(|limit| {
                let queue = name();
                PendReason::QueueUserSlots { queue, limit }
            })?;
        }
        let used = || in_use.user.get(&uid).copied().unwrap_or(0);
        let used = pending.user.max_slots.map_or(0, |_| used());
        cut(pending.user.max_slots, used).map_err(|limit| {
            let user = pending.user.name.clone();
            PendReason::UserSlots { user, limit }
        })?;
        if !pending.ident.is_free() {
            let room = self.max_over_alternatives(pending, need);
            most = most.min(room.map_err(|blocked| self.picture.quotas.reason(&blocked))?);
        }
        Ok(most)
    }

    /// The limit of queue or user that is lower than what the job needs, even when nothing runs.
    fn above_slot_limit(&self, pending: &PendingClass, need: u32) -> Option<PendReason> {
        let over = |limit: Option<u32>| limit.filter(|limit| need > *limit);
        let never = |user: &str, queue: &str, limit: u32| PendReason::SlotsNever {
            user: user.to_owned(),
            queue: queue.to_owned(),
            need,
            limit,
        };
        let user = &pending.user.name;
        if let Some(at) = pending.queue {
            let queue = &self.config().queues[usize::from(at)];
            if let Some(limit) = over(queue.slots) {
                return Some(never("", &queue.name, limit));
            }
            if let Some(limit) = over(queue.user_slots) {
                return Some(never(user, &queue.name, limit));
            }
        }
        over(pending.user.max_slots).map(|limit| never(user, "", limit))
    }

    /// Why a job of the class can never start with its present options, whatever ends or opens.
    pub(super) fn never_starts(&self, pending: &PendingClass) -> Option<PendReason> {
        let shape = self.shape(pending.shape);
        if let Some(why) = &shape.bad {
            return Some(PendReason::NeverFits { why: why.clone() });
        }
        let of_hosts = || self.pending_reason(pending, Shortfall::default());
        let is_never = |why: &PendReason| {
            matches!(
                why,
                PendReason::SlotsNever { .. }
                    | PendReason::QuotaNever { .. }
                    | PendReason::NeverFits { .. }
                    | PendReason::SharedResource { never: true, .. }
            )
        };
        let need = shape.request.min.max(1);
        let of_limits = || self.above_quotas(pending, need).filter(is_never);
        self.above_slot_limit(pending, need)
            .or_else(of_limits)
            .or_else(|| Some(of_hosts()).filter(is_never))
    }

    /// The limit of section `limits` that is lower than what every alternative needs, even when
    /// nothing runs.
    fn above_quotas(&self, pending: &PendingClass, need: u32) -> Option<PendReason> {
        let quotas = &self.picture.quotas;
        let alternatives = &self.shape(pending.shape).alternatives;
        let blocked = alternatives.iter().map(|alternative| {
            let (per_slot, fixed) = &alternative.needs;
            let need = Need {
                slots: need,
                per_slot,
                fixed,
            };
            quotas.above_a_limit(&pending.ident, &need)
        });
        let blocked: Option<Vec<_>> = blocked.collect();
        blocked?.first().map(|blocked| quotas.reason(blocked))
    }

    /// Maximum number of slots by section `limits`, for the alternative to which it leaves most.
    fn max_over_alternatives(&self, pending: &PendingClass, need: u32) -> Result<u32, Blocked> {
        let alternatives = self.shape(pending.shape).alternatives.iter();
        let rooms = alternatives.map(|alternative| {
            alternative_room(&self.picture.quotas, &pending.ident, alternative, need)
        });
        let best = rooms.reduce(|best, room| match (best, room) {
            (Ok(best), Ok(room)) => Ok(best.max(room)),
            (Err(_), Ok(_)) => room,
            (_, Err(_)) => best,
        });
        best.unwrap_or(Ok(u32::MAX))
    }

    /// Slots by limits of queue and user.
    pub(super) fn growth_limit(&self, j: JobKey) -> u32 {
        let allocation = &self.picture.allocations[&j];
        let left =
            |limit: Option<u32>, used: u32| limit.map_or(u32::MAX, |n| n.saturating_sub(used));
        let Some(at) = allocation.queue else { return 0 };
        let queue = &self.config().queues[usize::from(at)];
        let of_user = |n: Option<&u32>| n.copied().unwrap_or(0);
        let user = self.picture.user_limits(self.state, j).max_slots;
        left(
            queue.slots,
            self.picture.allocations.in_use().queue[usize::from(at)],
        )
        .min(left(
            queue.user_slots,
            of_user(
                self.picture
                    .allocations
                    .in_use()
                    .queue_user
                    .get(&(at, allocation.uid)),
            ),
        ))
        .min(left(
            user,
            of_user(self.picture.allocations.in_use().user.get(&allocation.uid)),
        ))
    }
}
