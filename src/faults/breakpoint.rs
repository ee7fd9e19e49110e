//! Breakpoints: a process is stopped right before one kind of operation on one kind of file. Owns
//! the relevant operations and their probabilities; `injector` stops the processes.

use super::kernel::MS;
use super::plan::{CallPattern, Role};
use crate::model::SplitMix64;

/// Calls of a leader before which another leader may take over.
const LEADER_CALLS: &[CallPattern] = &[
    ("append", "/journal."),
    ("append", "/journal."),
    ("fsync", "/journal."),
    ("fsync", "/journal."),
    ("open", "leader/epoch"),
    ("append", "/acks"),
    ("fsync", "/acks"),
    ("append", "/orders."),
    ("fsync", "/orders."),
    ("write", "leader/epoch"),
    ("write", "snapshot/"),
    ("rename", "snapshot/"),
    ("rename", "view/"),
    ("list", "inbox/"),
    ("list", "inbox/"),
    ("open", "inbox/"),
    ("unlink", "inbox/"),
    ("append", ""),
    ("fsync", ""),
    ("open", ""),
    ("create", ""),
    ("write", ""),
    ("rename", ""),
    ("unlink", ""),
];

/// Calls of an executor between reading an order and carrying it out.
const EXECUTOR_CALLS: &[CallPattern] = &[
    ("open", "leader/epoch"),
    ("open", "/orders."),
    ("append", "/reports."),
    ("fsync", "/reports."),
    ("append", "/attempts"),
    ("fsync", "/attempts"),
    ("append", ""),
    ("fsync", ""),
    ("open", ""),
    ("create", ""),
];

/// Stops the next process of a kind that makes a certain call, right before the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breakpoint {
    pub call: CallPattern,
    /// For how long, µs.
    pub duration_us: u64,
    /// The processes that read what it writes are stopped for the same time.
    pub with_listeners: bool,
    /// Leaders or executors.
    pub role: Role,
    /// Threads of stopped processes continue within this time (µs), in any order.
    pub thaw: u64,
    /// Per thousand such calls, the number at which it stops.
    pub permille: u64,
}

impl Breakpoint {
    /// Draws a breakpoint at random.
    pub(super) fn draw(rng: &mut SplitMix64) -> Breakpoint {
        let role = rng.pick(&[Role::Leader, Role::Leader, Role::Executor]);
        let call = match role {
            Role::Leader => rng.pick(LEADER_CALLS),
            _ => rng.pick(EXECUTOR_CALLS),
        };
        Breakpoint {
            call,
            // A takeover takes T, the wait for the cache, and some polls.
            duration_us: rng.between(3500, 15_000) * MS,
            with_listeners: rng.permille(500),
            role,
            thaw: rng.pick(&[30, 300]) * MS,
            permille: rng.pick(&[100, 300, 1000]),
        }
    }
}
