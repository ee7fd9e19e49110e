//! Acknowledgements of reports on their way to hosts: each waits to be sent with an order.
//!
//! Values only, no files: [`super::outbox`] writes them.

use crate::record::order::Order;
use std::collections::{BTreeMap, BTreeSet};

/// How long an acknowledgement waits to be written together with an order, in milliseconds. The
/// host needs it only to forget finished attempts; written separately, it would cost a write here
/// and a read there for each job.
const HOLD_MS: u64 = 5_000;

/// Acknowledgements of reports that wait for orders to the same host. If one is lost with its
/// leader, the next leader writes it again, because it reads the reports again.
#[derive(Debug, Default)]
pub(super) struct ReportAcks(BTreeMap<String, (Order, u64)>);

impl ReportAcks {
    /// Holds back acknowledgements to hosts that get no other orders. Returns what must be written,
    /// with the acknowledgements that waited for it.
    pub(super) fn hold_back(
        &mut self,
        orders: Vec<(String, Order)>,
        now: u64,
    ) -> Vec<(String, Order)> {
        let is_ack = |order: &Order| matches!(order, Order::Ack { .. });
        let busy = orders.iter().filter(|(_, order)| !is_ack(order));
        let busy: BTreeSet<String> = busy.map(|(host, _)| host.clone()).collect();
        let (held_back, mut now_written): (Vec<_>, Vec<_>) = orders
            .into_iter()
            .partition(|(host, order)| is_ack(order) && !busy.contains(host));
        for (host, order) in held_back {
            let since = self.0.get(&host).map_or(now, |(_, since)| *since);
            self.0.insert(host, (order, since));
        }
        for host in busy {
            if let Some((order, _)) = self.0.remove(&host) {
                // Inserted at the front: a later one, of the same turn, takes precedence.
                now_written.insert(0, (host, order));
            }
        }
        now_written
    }

    /// When the first of them must be written alone.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let since = self.0.values().map(|(_, since)| *since).min()?;
        Some(since.saturating_add(HOLD_MS))
    }

    /// A host for which an acknowledgement waits.
    pub(super) fn any_host(&self) -> Option<&String> {
        self.0.keys().next()
    }

    pub(super) fn take_due(&mut self, now: u64) -> Vec<(String, Order)> {
        if self.due_ms().is_none_or(|due| now < due) {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.0).into_iter();
        all.map(|(host, (order, _))| (host, order)).collect()
    }

    pub(super) fn take_held_back(&mut self, host: &str) -> Vec<(String, Order)> {
        let taken = self.0.remove_entry(host);
        taken.into_iter().map(|(host, (o, _))| (host, o)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_goes_with_the_next_order_to_its_host_or_after_a_while() {
        let ack = |host: &str, seq| (host.to_owned(), Order::Ack { part: 1, seq });
        let limit = |host: &str| (host.to_owned(), Order::Limit { iso_ms: 1 });
        let mut report_acks = ReportAcks::default();
        assert!(report_acks.hold_back(vec![ack("h1", 1)], 100).is_empty());
        assert!(
            report_acks
                .hold_back(vec![ack("h1", 4), ack("h2", 2)], 200)
                .is_empty()
        );
        assert_eq!(report_acks.due_ms(), Some(100 + HOLD_MS));
        let orders = vec![limit("h1"), ack("h1", 5), ack("h2", 3)];
        let written = report_acks.hold_back(orders, 300);
        assert_eq!(written, [ack("h1", 4), limit("h1"), ack("h1", 5)]);
        assert_eq!(report_acks.due_ms(), Some(200 + HOLD_MS));
        assert!(report_acks.take_due(199 + HOLD_MS).is_empty());
        assert_eq!(report_acks.take_due(200 + HOLD_MS), [ack("h2", 3)]);
        assert_eq!((report_acks.due_ms(), report_acks.any_host()), (None, None));
    }
}
