//! The stored and published documents of `cbnotify`: alerts, silences, pending deliveries.
//!
//! Each epoch has its own documents, written only by the `cbnotify` of its leader; the next one
//! continues from the newest. Types only.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most alerts that are known at a time, of all rules.
pub const ALERTS_MAX: usize = 10_000;
/// Most deliveries that wait.
pub const OUTBOX_MAX: usize = 10_000;
/// Largest document, in bytes.
pub const DOC_MAX: u64 = 256 << 20;

/// A rule's mark is passed at these labels. Times in ms since 1970.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Alert {
    pub rule: String,
    /// Of the figure.
    pub labels: BTreeMap<String, String>,
    pub severity: String,
    /// What the rule adds.
    pub extra: BTreeMap<String, String>,
    /// The figure, and its last value.
    pub metric: String,
    pub value: f64,
    /// Since when it is passed.
    pub since: i64,
    /// When it was passed for long enough; 0 = not yet.
    pub fired: i64,
    /// A message about it was made.
    pub announced: bool,
    /// Since when there is no such figure; 0 = there is.
    pub gone: i64,
    /// Receivers.
    pub to: Vec<String>,
}

/// No message about the alerts of a rule is sent until then.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Silence {
    pub rule: String,
    pub until: i64,
    pub by: String,
    pub because: String,
}

/// One message to one receiver.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Delivery {
    /// The same for all receivers and all repetitions of one event.
    pub id: String,
    /// A receiver of cb.yaml, or with `@` in it an address; empty when `user` is given.
    pub to: String,
    /// A user who gave no address.
    pub user: String,
    pub subject: String,
    pub text: String,
    /// For webhooks and programs: an object.
    pub json: String,
    /// When it was made (ms since 1970).
    pub made: i64,
    /// Failed tries, when the next one is due (ms since 1970), why the last one failed.
    pub tries: u32,
    pub next: i64,
    pub error: String,
}

/// Mails to one address in the present hour, and what comes together meanwhile.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct MailQuota {
    /// When the hour began (ms since 1970), and mails since then.
    pub began: i64,
    pub sent: u32,
    /// Lines for the mail that comes when the hour is over, and how many there would be.
    pub held: Vec<String>,
    pub held_n: u64,
}

/// `notices/state.E.yaml`: what the next one goes on from; only the service account reads it.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct NotifierState {
    pub epoch: u64,
    /// Epoch, segment and number of the last event that was looked at.
    pub seen: (u64, u64, u64),
    pub alerts: Vec<Alert>,
    pub silences: Vec<Silence>,
    pub outbox: Vec<Delivery>,
    pub quotas: BTreeMap<String, MailQuota>,
    /// Messages that could not be delivered for a day, or for which there was no room.
    pub lost: u64,
}

/// `notices/alerts.E.yaml`: what everybody may read of it.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct AlertsDoc {
    pub epoch: u64,
    pub host: String,
    /// When it was written (ms since 1970).
    pub t: i64,
    pub alerts: Vec<Alert>,
    pub silences: Vec<Silence>,
    /// Names of all rules, each with the receivers.
    pub rules: Vec<(String, Vec<String>)>,
    /// What hinders: a figure that there is not, deliveries that fail.
    pub troubles: Vec<String>,
    pub waiting: u64,
    pub lost: u64,
}
