//! Which deliveries are pending, when they are tried again, and how many mails an address gets.
//!
//! A message is stored in the outbox durably before it is sent, and is removed after it was sent:
//! it arrives at least once, and a repetition has the same id. It is tried for one day.

use crate::record::notices::{Delivery, MailQuota, NotifierState, OUTBOX_MAX};

/// First and longest pause after a failure, in milliseconds.
const FIRST_PAUSE_MS: i64 = 5_000;
const LONGEST_PAUSE_MS: i64 = 15 * 60_000;
/// A message that cannot be delivered for this time (ms) is lost.
const GIVE_UP_MS: i64 = 24 * 3_600_000;
/// The period for which the mails to one address are counted (ms).
const HOUR_MS: i64 = 3_600_000;
/// Maximum number of lines that are kept for the mail at the end of the hour.
const HELD_MAX: usize = 200;

/// The result of an attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Delivered,
    /// It may succeed later.
    Failed(String),
    /// It will never succeed.
    Refused(String),
}

/// Adds a message, unless there is no room. The messages of one receiver, and all mails to users,
/// use at most half of it: others have room although one does not answer.
pub(crate) fn push(state: &mut NotifierState, delivery: Delivery) {
    let all = state.outbox.len();
    let crowds = |share: usize| {
        let same = |d: &&Delivery| receiver(d) == receiver(&delivery);
        all >= share && state.outbox.iter().filter(same).count() >= share
    };
    if all >= OUTBOX_MAX || crowds(OUTBOX_MAX / 2) {
        state.lost += 1;
        return;
    }
    state.outbox.push(delivery);
}

/// The receiver of cb.yaml; `None`: an address or a user.
fn receiver(delivery: &Delivery) -> Option<&str> {
    let to = delivery.to.as_str();
    (!to.is_empty() && !to.contains('@')).then_some(to)
}

/// The deliveries that are due at `now` (ms since 1970), oldest first.
pub(crate) fn due(state: &NotifierState, now: i64) -> impl Iterator<Item = &Delivery> {
    state.outbox.iter().filter(move |d| d.next <= now)
}

/// Records the result of an attempt. Returns a sentence about what is lost, if something is.
pub(crate) fn record_outcome(
    state: &mut NotifierState,
    id: &str,
    to: (&str, &str),
    outcome: Outcome,
    now: i64,
) -> Option<String> {
    let is_it = |d: &Delivery| d.id == id && (d.to.as_str(), d.user.as_str()) == to;
    let at = state.outbox.iter().position(is_it)?;
    let (why, final_) = match outcome {
        Outcome::Delivered => {
            state.outbox.remove(at);
            return None;
        }
        Outcome::Failed(why) => (why, false),
        Outcome::Refused(why) => (why, true),
    };
    let delivery = &mut state.outbox[at];
    delivery.tries += 1;
    let pause = FIRST_PAUSE_MS << delivery.tries.saturating_sub(1).min(20);
    delivery.next = now.saturating_add(pause.min(LONGEST_PAUSE_MS));
    delivery.error = why;
    if !final_ && now.saturating_sub(delivery.made) < GIVE_UP_MS {
        return None;
    }
    let lost = state.outbox.remove(at);
    state.lost += 1;
    let address = if to.0.is_empty() { to.1 } else { to.0 };
    Some(format!(
        "{id} was not delivered to {address} and is given up: {}",
        lost.error
    ))
}

/// Sends a message that a job requested, or keeps its line for a later mail if the address has had
/// `hourly` mails within the hour.
pub(crate) fn hold_or_send(state: &mut NotifierState, delivery: Delivery, hourly: u32, now: i64) {
    let whom = address(&delivery);
    let quota = state.quotas.entry(whom).or_default();
    renew(quota, now);
    if quota.sent < hourly {
        quota.sent += 1;
        return push(state, delivery);
    }
    quota.held_n += 1;
    if quota.held.len() < HELD_MAX {
        quota.held.push(delivery.subject);
    }
}

fn address(delivery: &Delivery) -> String {
    match delivery.user.as_str() {
        "" => delivery.to.clone(),
        user => user.to_owned(),
    }
}

fn renew(quota: &mut MailQuota, now: i64) {
    let age = now.saturating_sub(quota.began);
    if quota.held_n == 0 && !(0..HOUR_MS).contains(&age) {
        (quota.began, quota.sent) = (now, 0);
    }
}

/// Creates one mail from everything that was held back for an address whose hour is over; forgets
/// addresses that got no mail for an hour.
pub(crate) fn release_held(
    state: &mut NotifierState,
    now: i64,
    held_mail: &dyn Fn(&str, &MailQuota) -> Delivery,
) {
    let mut deliveries = Vec::new();
    state.quotas.retain(|address, quota| {
        let age = now.saturating_sub(quota.began);
        if (0..HOUR_MS).contains(&age) {
            return true;
        }
        if quota.held_n == 0 {
            return false;
        }
        deliveries.push(held_mail(address, quota));
        *quota = MailQuota {
            began: now,
            sent: 1,
            ..MailQuota::default()
        };
        true
    });
    deliveries
        .into_iter()
        .for_each(|delivery| push(state, delivery));
}
