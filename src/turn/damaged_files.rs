//! Damaged files between the leader and a host: who reads one says so, who writes it begins another
//! one that repeats what counts.
//!
//! The orders files are renewed by the driver, which writes them; a host is told by an order to
//! renew its reports, repeated until it has.

use super::{Core, DamagedOrders, Turn};
use crate::record::order::Order;

/// Most hosts whose orders are renewed in one turn; others say it again with their next file.
const DAMAGED_MAX: usize = 10_000;
/// Longest reason that is taken over, in characters.
const WHY_MAX: usize = 300;

impl Turn<'_> {
    /// A host cannot read a part of its orders behind byte `at`.
    pub(super) fn orders_damaged(
        &mut self,
        host: &str,
        epoch: u64,
        (part, _, at): (u64, u64, u64),
        why: String,
    ) {
        // Each epoch begins files of its own.
        if epoch != self.core.state.epoch() || self.out.damaged.len() >= DAMAGED_MAX {
            return;
        }
        let why = why.chars().take(WHY_MAX).collect();
        let host = host.to_owned();
        self.out.damaged.push(DamagedOrders {
            host,
            part,
            at,
            why,
        });
    }

    /// The leader cannot read a host's reports any further.
    pub(super) fn reports_damaged(&mut self, host: String, place: (u64, u64, u64)) {
        self.core.unreadable.insert(host.clone(), place);
        self.out.orders.extend(renewal(self.core, &host));
    }

    /// Reports of file `part` were read: damage in an earlier one is of the past.
    pub(super) fn reports_read(&mut self, host: &str, part: u64) {
        if self
            .core
            .unreadable
            .get(host)
            .is_some_and(|(n, ..)| *n < part)
        {
            self.core.unreadable.remove(host);
        }
    }
}

/// The order by which a host is told to begin another report file, if it must.
pub(super) fn renewal(core: &Core, host: &str) -> Option<(String, Order)> {
    let (part, seq, at) = *core.unreadable.get(host)?;
    Some((host.to_owned(), Order::ReportsDamaged { part, seq, at }))
}
