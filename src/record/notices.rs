//! The stored and published documents of `cbnotify`: alerts, silences, pending deliveries.
//!
//! Each epoch has its own documents, written only by the `cbnotify` of its leader; the next
//! `cbnotify` continues from the newest. Types only.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of alerts at a time, of all rules.
pub const ALERTS_MAX: usize = 10_000;
/// Maximum number of pending deliveries.
pub const OUTBOX_MAX: usize = 10_000;
/// Maximum size of a document in bytes.
pub const DOC_MAX: u64 = 256 << 20;

/// A rule's threshold is passed for these labels. Times in ms since 1970.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Alert {
    pub rule: String,
    /// Labels of the figure.
    pub labels: BTreeMap<String, String>,
    pub severity: String,
    /// Labels that the rule adds.
    pub extra: BTreeMap<String, String>,
    /// The figure, and its last value.
    pub metric: String,
    pub value: f64,
    /// Since when the threshold is passed.
    pub since: i64,
    /// When it had been passed for long enough; 0 = not yet.
    pub fired: i64,
    /// A message about it was created.
    pub announced: bool,
    /// Since when the figure does not exist; 0 = it exists.
    pub gone: i64,
    /// Receivers.
    pub to: Vec<String>,
}

/// No message about the alerts of a rule is sent until this time.
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
    /// A receiver of cb.yaml, or an address if it contains `@`; empty if `user` is set.
    pub to: String,
    /// A user who specified no address.
    pub user: String,
    pub subject: String,
    pub text: String,
    /// An object for webhooks and programs.
    pub json: String,
    /// When it was created (ms since 1970).
    pub made: i64,
    /// Number of failed tries, time of the next one (ms since 1970), and reason of the last
    /// failure.
    pub tries: u32,
    pub next: i64,
    pub error: String,
}

/// Mails to one address in the current hour, and what is collected meanwhile.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct MailQuota {
    /// When the hour began (ms since 1970), and number of mails since then.
    pub began: i64,
    pub sent: u32,
    /// Lines for the mail at the end of the hour, and their total number.
    pub held: Vec<String>,
    pub held_n: u64,
}

/// `notices/state.E.yaml`: the state with which the next one continues; only the service account
/// can read it.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct NotifierState {
    pub epoch: u64,
    /// Epoch, segment and number of the last event that was processed.
    pub seen: (u64, u64, u64),
    pub alerts: Vec<Alert>,
    pub silences: Vec<Silence>,
    pub outbox: Vec<Delivery>,
    pub quotas: BTreeMap<String, MailQuota>,
    /// Number of messages that could not be delivered within a day, or for which there was no room.
    pub lost: u64,
}

/// `notices/alerts.E.yaml`: the part that all users may read.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct AlertsDoc {
    pub epoch: u64,
    pub host: String,
    /// When it was written (ms since 1970).
    pub t: i64,
    pub alerts: Vec<Alert>,
    pub silences: Vec<Silence>,
    /// Names of all rules with their receivers.
    pub rules: Vec<(String, Vec<String>)>,
    /// Problems: a figure that does not exist, deliveries that fail.
    pub troubles: Vec<String>,
    pub waiting: u64,
    pub lost: u64,
}
