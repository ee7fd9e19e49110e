//! Pending jobs in the order in which `ctop` and `cbot` count positions.

use crate::state::{ChunkedSet, State};

/// Which jobs a move counts: those of a queue and a priority, of all users or of one.
pub(super) type MoveScope = (String, u32, Option<u32>);

/// A job's place: its order number and its id.
type OrderKey = (i64, u32);

/// See the head of this file. Kept from one move to the next.
pub(super) struct PendingOrder {
    scope: MoveScope,
    jobs: ChunkedSet<OrderKey>,
    /// Version of the pending jobs to which it corresponds.
    version: u64,
}

/// Where a move puts a job.
pub(super) struct MoveTarget {
    /// Position from the top or bottom, at most the number of jobs.
    pub pos: usize,
    /// The new order number; `None`: the job stays where it is.
    pub order: Option<i64>,
}

impl PendingOrder {
    /// Collects the jobs of a scope. Also returns how many jobs and classes were considered.
    pub(crate) fn collect(state: &State, scope: MoveScope) -> (PendingOrder, u64) {
        let pending = state.pending();
        let (queue, priority, uid) = &scope;
        let classes = pending.classes().map(|(_, class)| class).filter(|class| {
            let key = &class.key;
            key.queue == *queue && key.priority == *priority && uid.is_none_or(|u| key.uid == u)
        });
        let jobs = classes.flat_map(|class| class.jobs.iter());
        let mut jobs: Vec<OrderKey> = jobs.map(|(order, j)| (order, j.id)).collect();
        // The classes are each in order already.
        jobs.sort();
        jobs.dedup();
        let looks = jobs.len() as u64 / 8 + pending.classes().count() as u64;
        let order = PendingOrder {
            scope,
            jobs: ChunkedSet::of(jobs.into_iter()),
            version: pending.version(),
        };
        (order, looks)
    }

    /// Whether it corresponds to the current jobs of this scope.
    pub(crate) fn is_current(&self, state: &State, scope: &MoveScope) -> bool {
        self.version == state.pending().version() && self.scope == *scope
    }

    /// Where the job at `own` goes for position `pos` (from 1).
    pub(crate) fn target(&self, own: OrderKey, pos: u32, bottom: bool) -> MoveTarget {
        // Its own place does not count.
        let rank = self.jobs.rank(own);
        let listed = self.jobs.nth(rank) == Some(own);
        let others = self.jobs.len() - usize::from(listed);
        let pos = (pos.max(1) as usize).min(others + 1);
        let at = if bottom { others + 1 - pos } else { pos - 1 };
        let other = |n: usize| self.jobs.nth(n + usize::from(listed && n >= rank));
        let before = at.checked_sub(1).and_then(other);
        let after = other(at);
        let stays = before.is_none_or(|b| b < own) && after.is_none_or(|a| own < a);
        let between = || order_between(before.map(|b| b.0), after.map(|a| a.0), own.0);
        MoveTarget {
            pos,
            order: (!stays).then(between),
        }
    }

    /// Moves a job within it.
    pub(crate) fn moved(&mut self, own: OrderKey, order: i64) {
        if self.jobs.nth(self.jobs.rank(own)) == Some(own) {
            self.jobs.remove(own);
            self.jobs.insert((order, own.1));
        }
    }

    /// Notes that the state has the moves made here, and no other changes.
    pub(crate) fn synced(&mut self, state: &State) {
        self.version = state.pending().version();
    }
}

/// An order number between those of two neighbours.
fn order_between(before: Option<i64>, after: Option<i64>, own: i64) -> i64 {
    match (before, after) {
        (None, None) => own,
        (None, Some(after)) => after - (1 << 20),
        (Some(before), None) => before + (1 << 20),
        (Some(before), Some(after)) => before + (after - before) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::order_between;

    #[test]
    fn order_numbers_fall_between_their_neighbours() {
        assert!(order_between(None, Some(10), 5) < 10);
        assert!(order_between(Some(20), None, 5) > 20);
        let middle = order_between(Some(10), Some(20), 5);
        assert!(10 < middle && middle < 20);
        assert_eq!(order_between(None, None, 5), 5);
    }
}
