//! Reservations (`rusage`) of started work with a `duration`, which end or shrink while it runs.
//! The amounts are those of the requirement.

use super::Pass;

impl Pass<'_> {
    /// Updates allocations whose reservations have ended or decreased.
    pub(super) fn decay_rusage(&mut self) {
        while let Some((at, j)) = self.picture.allocations.next_change() {
            if at > self.now {
                self.plan.wake_at(Some(at));
                return;
            }
            self.picture.allocations.drop_change((at, j));
            if self.picture.allocations.contains(&j)
                && self.state.work(j).is_some_and(|work| work.run.is_some())
            {
                self.picture.renew_allocation(self.state, self.table, j);
            }
        }
    }
}
