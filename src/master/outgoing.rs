//! What the leader writes for commands and hosts: answers, orders, and acknowledgements that wait
//! to be sent with orders.
//!
//! Owns what was not delivered, until the turn is informed of it. [`super::outbox`] writes the
//! files.

use super::acks::Acks;
use super::outbox::Orders;
use super::report_acks::ReportAcks;
use crate::model::AttemptId;
use crate::turn::Input;

/// Longest time without sending the point of the journal to hosts without jobs, in milliseconds.
pub(super) const REMIND_MS: u64 = 1000;

/// See the head of this file.
pub(super) struct Outgoing {
    pub acks: Acks,
    pub orders: Orders,
    /// Acknowledgements that wait to be written together with orders.
    pub report_acks: ReportAcks,
    /// Attempts bound in the last turn whose start was not sent to any host.
    pub unsent: Vec<(String, AttemptId)>,
    /// Since when the point of the journal was not sent to any host (boot clock, ms).
    pub point_unsent_since: Option<u64>,
}

impl Outgoing {
    pub(super) fn new(acks: Acks, orders: Orders) -> Outgoing {
        Outgoing {
            acks,
            orders,
            report_acks: ReportAcks::default(),
            unsent: Vec::new(),
            point_unsent_since: None,
        }
    }

    /// Reports to the turn the hosts whose orders cannot be written, and the starts that were never
    /// sent.
    pub(super) fn report_problems(&mut self, inputs: &mut Vec<Input>) -> bool {
        let before = inputs.len();
        let waits = |(host, why)| Input::OrdersBlocked { host, why };
        inputs.extend(self.orders.take_changes().into_iter().map(waits));
        for (host, a) in std::mem::take(&mut self.unsent) {
            let why = format!("orders to {host} cannot be written");
            inputs.push(Input::never(host, a, why));
        }
        inputs.len() > before
    }

    /// How long the point of the journal need not be sent to a host, in milliseconds.
    pub(super) fn remind_ms(&self) -> u64 {
        match self.orders.has_sent_point() {
            true => u64::MAX,
            false => REMIND_MS,
        }
    }
}
