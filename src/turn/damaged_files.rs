//! Damaged files between the leader and a host: the reader reports the damage, and the writer
//! begins another file that repeats what is in force.
//!
//! The driver rewrites the orders files, which it writes; an order asks a host to rewrite its
//! reports, and is repeated until it has.

use super::context::Turn;
use super::orders::renewal_order;
use super::ready::DamagedOrders;

/// Maximum number of hosts whose orders are renewed in one turn; others report the damage again
/// with their next file.
const DAMAGED_MAX: usize = 10_000;
/// Maximum length of a reason that is kept, in characters.
const WHY_MAX: usize = 300;

impl Turn<'_> {
    /// Handles the report that a host cannot read a part of its orders after byte `at`.
    pub(super) fn orders_damaged(
        &mut self,
        host: &str,
        epoch: u64,
        (part, _, at): (u64, u64, u64),
        why: String,
    ) {
        // Each epoch starts its own files.
        if epoch != self.core.state.epoch() || self.ready.damaged.len() >= DAMAGED_MAX {
            return;
        }
        let why = why.chars().take(WHY_MAX).collect();
        let host = host.to_owned();
        self.ready.damaged.push(DamagedOrders {
            host,
            part,
            at,
            why,
        });
    }

    /// Notes that the leader cannot read a host's reports any further.
    pub(super) fn reports_damaged(&mut self, host: &str, place: (u64, u64, u64)) {
        self.core.memory.host_mut(host).damaged_reports = Some(place);
        self.ready.orders.extend(renewal_order(self.core, host));
    }

    /// Notes that reports of file `part` were read: damage in an earlier file no longer matters.
    pub(super) fn note_reports_read(&mut self, host: &str, part: u64) {
        let damaged = &mut self.core.memory.host_mut(host).damaged_reports;
        if damaged.is_some_and(|(n, ..)| n < part) {
            *damaged = None;
        }
    }
}
