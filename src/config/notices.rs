//! Notices: alert rules, receivers and the mail server as plain values. Owns no parsing, and never
//! watches or sends anything.
//!
//! Times in milliseconds; thresholds in the unit of the watched metric.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sections `alerts`, `receivers` and `mail`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Notices {
    /// In the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<AlertRule>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub receivers: BTreeMap<String, Receiver>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mail: Option<MailServer>,
}

/// An alert fires for each set of labels at which the figure passes the mark for `for_ms`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertRule {
    pub name: String,
    /// What is watched, in the word of cb.yaml.
    pub watch: String,
    /// The figure, as `cadmin metrics` names it.
    pub metric: String,
    /// Only points with these labels: one of the values, in which `*` may stand for anything.
    pub matches: BTreeMap<String, Vec<String>>,
    /// The value is 1 where this label has one of the words and else 0, and tells no points apart.
    pub state: Option<(String, Vec<String>)>,
    pub mark: Mark,
    pub for_ms: u64,
    /// A point that is gone has recovered after this time.
    pub gone_ms: u64,
    pub severity: Severity,
    /// Further labels for receivers.
    pub labels: BTreeMap<String, String>,
    /// Names of receivers.
    pub to: Vec<String>,
}

/// Which side of a threshold is bad.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    Over(f64),
    Under(f64),
}

impl Mark {
    pub fn is_passed(self, value: f64) -> bool {
        match self {
            Mark::Over(mark) => value > mark,
            Mark::Under(mark) => value < mark,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Info,
    #[default]
    Warning,
    Critical,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// Where notices go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receiver {
    pub way: Way,
    /// How long one delivery may take.
    pub timeout_ms: u64,
    /// It gets the messages that jobs ask for, too.
    pub job_notices: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Addresses.
    Mail(Vec<String>),
    /// A URL that takes JSON by POST.
    Webhook(String),
    /// A file that only the service account reads, with such a URL in its first line.
    WebhookFile(String),
    /// An absolute path and plain words; JSON comes on its standard input.
    Program(Vec<String>),
}

/// Section `mail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MailServer {
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    pub from: String,
    /// Follows the `@` after the names of users that gave no address; empty: that of `from`.
    pub domain: String,
    /// The account there, and the file with its password; none: without.
    pub account: Option<(String, String)>,
    /// Most mails to one address in an hour; what is more comes together in one.
    pub hourly: u32,
    pub timeout_ms: u64,
}

/// How the connection to the mail server is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    No,
    Starttls,
    /// From the first byte.
    Yes,
}

impl Notices {
    /// No section of it was written.
    pub(super) fn says_nothing(&self) -> bool {
        *self == Notices::default()
    }

    /// No message can arise.
    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty() && !self.tell_jobs()
    }

    /// Messages that jobs ask for have a receiver.
    pub fn tell_jobs(&self) -> bool {
        self.mail.is_some() || self.receivers.values().any(|r| r.job_notices)
    }
}
