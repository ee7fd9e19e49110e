//! How many slots the limits of a queue, of a user and of section `limits` leave to one job, as far
//! as they do not depend on the host.

use super::Pass;
use crate::model::{JobKey, PendReason};
use crate::sched::limit_checks::alternative_room;
use crate::sched::pending_classes::PendingClass;
use crate::sched::quota::Blocked;

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
        let mut cut = |limit: Option<u32>, used: u32| match limit {
            Some(limit) if used + need > limit => Err(limit),
            Some(limit) => {
                most = most.min(limit - used);
                Ok(())
            }
            None => Ok(()),
        };
        if let Some(at) = pending.queue {
            let queue = &self.config().queues[usize::from(at)];
            let name = || queue.name.clone();
            cut(
                queue.slots,
                self.picture.allocations.in_use().queue[usize::from(at)],
            )
            .map_err(|limit| {
                let queue = name();
                PendReason::QueueSlots { queue, limit }
            })?;
            if queue.user_slots.is_some() {
                let used = self
                    .picture
                    .allocations
                    .in_use()
                    .queue_user
                    .get(&(at, pending.user.uid))
                    .copied()
                    .unwrap_or(0);
                cut(queue.user_slots, used).map_err(|limit| {
                    let queue = name();
                    PendReason::QueueUserSlots { queue, limit }
                })?;
            }
        }
        if pending.user.max_slots.is_some() {
            let used = self
                .picture
                .allocations
                .in_use()
                .user
                .get(&pending.user.uid)
                .copied()
                .unwrap_or(0);
            let user = &pending.user.name;
            cut(pending.user.max_slots, used).map_err(|limit| {
                let user = user.clone();
                PendReason::UserSlots { user, limit }
            })?;
        }
        if !pending.ident.is_free() {
            let room = self.max_over_alternatives(pending, need);
            most = most.min(room.map_err(|blocked| self.picture.quotas.reason(&blocked))?);
        }
        Ok(most)
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
