//! Delivery of the leader's orders: what is written and what waits.
//!
//! Owns no file: [`super::outbox`] writes them. A start is taken back only if no byte of it was
//! written.

use super::lead::Leader;
use super::leader_end::LeaderEnd;
use crate::model::AttemptId;
use crate::record::order::Order;
use crate::sys::clock;
use crate::turn;
use std::collections::BTreeSet;

impl Leader {
    /// Writes acknowledgements that have waited long enough.
    pub(super) fn write_report_acks(&mut self, now: u64) -> Result<(), LeaderEnd> {
        let due = self.outgoing.report_acks.take_due(now);
        if due.is_empty() {
            return Ok(());
        }
        self.recheck()?;
        self.write_orders(due).map(drop)
    }

    /// Writes orders, and also waiting orders if it is time. Returns the starts that were not
    /// written.
    pub(super) fn write_orders(
        &mut self,
        orders: Vec<(String, Order)>,
    ) -> Result<Vec<(String, AttemptId)>, LeaderEnd> {
        let (core, now) = (&self.core, clock::boot_ms());
        let at = self.store.journal.position();
        self.outgoing
            .orders
            .follow_from(core.state.point((at.segment, at.seq)));
        let again = |host: &str| {
            turn::outstanding(core, Some(host))
                .into_iter()
                .map(|(_, order)| order)
                .collect()
        };
        // Orders that were not sent are repeated unless the state shows that they were withdrawn.
        let tried = match self.outgoing.unsent.is_empty() {
            true => self.outgoing.orders.retry_writes(now, &core.state, &again),
            false => Vec::new(),
        };
        let given: BTreeSet<String> = orders.iter().map(|(host, _)| host.clone()).collect();
        let unsent = self.outgoing.orders.write(orders, now, &core.state, &again);
        let (mut unsent, without_space) = (unsent.blocked, unsent.without_space);
        let untried = |(host, _): &(String, AttemptId)| !tried.contains(host);
        unsent.retain(untried);
        for host in given {
            self.hosts.expect(&host, now);
            if let Some(endpoint) = self.hosts.endpoint(&host) {
                self.hints.hint_host(endpoint);
            }
        }
        if let Some(why) = self.outgoing.orders.lacks_room() {
            // Find out whether only one host's directory is full, or the whole share.
            if self.reserve.has_room() {
                self.outgoing.orders.have_room(now);
                unsent.extend(without_space.into_iter().filter(untried));
            } else {
                self.reserve.enter_disk_full(why, &self.leadership);
                self.reserve.release_for_deferrable();
            }
        }
        if self.outgoing.orders.take_failed() {
            self.view.summary.changed();
            // Find out whether only one host's files fail, or the whole share. The latter ends this
            // leader.
            self.recheck()?;
        }
        Ok(unsent)
    }
}
