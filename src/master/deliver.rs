//! Delivery of the leader's orders: what is written, what waits, and what the turn learns of it.
//!
//! Owns no file: [`super::outbox`] writes them. A start is taken back only if no byte of it was
//! written.

use super::lead::{End, Leader};
use crate::model::AttemptId;
use crate::record::order::Order;
use crate::record::report::{Report, ReportRecord};
use crate::sys::clock;
use crate::turn::{self, Input};
use std::collections::BTreeSet;

impl Leader {
    /// Reports to the turn hosts whose orders cannot be written, and starts that were never sent.
    pub(super) fn hear_of_orders(&mut self, inputs: &mut Vec<Input>) -> bool {
        let before = inputs.len();
        let waits = |(host, why)| Input::OrdersBlocked { host, why };
        inputs.extend(self.orders.take_news().into_iter().map(waits));
        for (host, a) in std::mem::take(&mut self.unsent) {
            let why = format!("orders to {host} cannot be written");
            inputs.push(Input::Reports {
                host,
                part: 0,
                reports: vec![ReportRecord {
                    seq: 0,
                    run: Default::default(),
                    report: Report::Never { a, why },
                }],
                more: true,
            });
        }
        let any = inputs.len() > before;
        if any {
            self.summary.changed();
        }
        any
    }

    /// Takes the orders of a turn that are due now: on a local file system all are.
    pub(super) fn due_orders(
        &mut self,
        orders: Vec<(String, Order)>,
        now: u64,
    ) -> Vec<(String, Order)> {
        match self.hinted_share {
            true => orders,
            false => self.receipts.hold(orders, now),
        }
    }

    /// Writes acknowledgements that have waited for long.
    pub(super) fn write_receipts(&mut self, now: u64) -> Result<(), End> {
        let due = self.receipts.take_due(now);
        if due.is_empty() {
            return Ok(());
        }
        self.recheck()?;
        self.write_orders(due).map(drop)
    }

    /// Writes orders, and those that wait if it is time; gives the starts that were not written.
    pub(super) fn write_orders(
        &mut self,
        orders: Vec<(String, Order)>,
    ) -> Result<Vec<(String, AttemptId)>, End> {
        let (core, now) = (&self.core, clock::boot_ms());
        let at = self.journal.position();
        self.orders
            .follow_from(core.state.point((at.segment, at.seq)));
        let again = |host: &str| {
            turn::outstanding(core, Some(host))
                .into_iter()
                .map(|(_, order)| order)
                .collect()
        };
        // What was not sent is repeated as long as the state does not say that it is taken back.
        let tried = match self.unsent.is_empty() {
            true => self.orders.mend(now, &core.state, &again),
            false => Vec::new(),
        };
        let given: BTreeSet<String> = orders.iter().map(|(host, _)| host.clone()).collect();
        let unsent = self.orders.write(orders, now, &core.state, &again);
        let (mut unsent, for_room) = (unsent.held_up, unsent.for_room);
        let untried = |(host, _): &(String, AttemptId)| !tried.contains(host);
        unsent.retain(untried);
        for host in given {
            self.hosts.expect(&host, now);
            if let Some(endpoint) = self.hosts.endpoint(&host) {
                self.hints.ordered(endpoint);
            }
        }
        if let Some(why) = self.orders.lacks_room() {
            // Of one host's directory or of the whole share?
            if self.reserve.has_some() {
                self.orders.have_room(now);
                unsent.extend(for_room.into_iter().filter(untried));
            } else {
                self.reserve.fill(why, &self.leadership);
                self.reserve.spare();
            }
        }
        if self.orders.take_failed() {
            self.summary.changed();
            // Of one host's files or of the whole share? The latter ends this leader.
            self.recheck()?;
        }
        Ok(unsent)
    }
}
