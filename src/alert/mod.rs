//! Floor 3: which messages are sent to whom, and when: alert rules compared with metrics, notices
//! that jobs request, and the deliveries that follow.
//!
//! Pure: metrics, events and the time come in, deliveries come out. `notifier` reads, stores and
//! sends.

mod book;
mod messages;
mod outbox;

pub(crate) use book::{Figure, observe, silence};
pub(crate) use messages::{JobFacts, JobNotice, copies, held_mail, job_message};
pub(crate) use outbox::{Outcome, due, hold_or_send, push, record_outcome, release_held};

#[cfg(test)]
mod tests;
