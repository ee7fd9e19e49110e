//! Floor 3: who is told what and when: alert rules against figures, what jobs ask to be told of,
//! and the deliveries that follow.
//!
//! Pure: figures, events and the time come in, deliveries come out. `notifier` reads, keeps and
//! sends.

mod book;
mod letters;
mod outbox;

pub(crate) use book::{Figure, observe, silence};
pub(crate) use letters::{JobFacts, JobHappening, copies, job_letter, listing};
pub(crate) use outbox::{Outcome, due, hold_or_send, push, release_held, settle};

#[cfg(test)]
mod tests;
