//! The order in which classes get their turn.

use crate::model::JobKey;
use std::cmp::{Ordering, Reverse};

/// A class with its next job; the greatest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    queue_priority: u32,
    user_priority: u32,
    pub order: i64,
    pub class: u32,
    pub j: JobKey,
    /// Elements of the array `j` below this index have had their turn in this pass.
    pub from: u32,
}

impl Rank {
    pub fn new(queue: u32, user: u32, order: i64, class: u32, j: JobKey) -> Rank {
        Rank {
            queue_priority: queue,
            user_priority: user,
            order,
            class,
            j,
            from: 0,
        }
    }

    /// The same array from element `from` on.
    pub fn from(self, from: u32) -> Rank {
        Rank { from, ..self }
    }

    /// The same class with another job.
    pub fn with(self, order: i64, j: JobKey) -> Rank {
        Rank {
            order,
            j,
            from: 0,
            ..self
        }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> Ordering {
        let key = |r: &Rank| {
            (
                r.queue_priority,
                r.user_priority,
                Reverse((r.order, r.j, r.class)),
            )
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_then_user_then_submission() {
        let rank = |q, u, o| Rank::new(q, u, o, 1, JobKey::job(1));
        let mut ranks = [rank(1, 9, 0), rank(2, 0, 7), rank(2, 0, 3), rank(2, 5, 9)];
        ranks.sort_by(|a, b| b.cmp(a));
        let orders: Vec<i64> = ranks.iter().map(|r| r.order).collect();
        assert_eq!(orders, [9, 3, 7, 0]);
    }
}
