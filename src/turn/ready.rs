//! The result of a turn: everything that the driver carries out, in the order that `mod.rs` states.

use crate::record::ack::Ack;
use crate::record::event::Event;
use crate::record::order::Order;

/// A content-addressed file that must exist before the events are appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub sha: String,
    pub bytes: Vec<u8>,
}

/// A part of a host's orders that the host can read only up to byte `at`, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedOrders {
    pub host: String,
    pub part: u64,
    pub at: u64,
    pub why: String,
}

/// See the head of this file.
#[derive(Default)]
pub struct Ready {
    pub blobs: Vec<Blob>,
    pub events: Vec<Event>,
    pub acks: Vec<Ack>,
    /// Orders by host.
    pub orders: Vec<(String, Order)>,
    /// Orders files of this epoch that their hosts cannot read to the end.
    pub damaged: Vec<DamagedOrders>,
    /// [`super::RequestIn::location`] of requests that were carried out or refused.
    pub finished_requests: Vec<usize>,
    /// The summary views (queues, hosts, users, parameters) must be updated before the
    /// acknowledgements.
    pub publish: bool,
    /// There is more to do at once.
    pub more: bool,
    /// Work that requests caused, in units of [`super::TURN_UNITS`].
    pub units: u64,
}

impl Ready {
    /// Adds an order to a host.
    pub(super) fn order(&mut self, host: &str, order: Order) {
        self.orders.push((host.to_owned(), order));
    }
}
