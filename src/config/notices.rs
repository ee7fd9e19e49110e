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

/// An alert fires for each set of labels whose figure passes the mark for `for_ms`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertRule {
    pub name: String,
    /// The watched condition, as the word of cb.yaml.
    pub watch: String,
    /// The name of the figure in `cadmin metrics`.
    pub metric: String,
    /// Only points with these labels: each must match one of its values, in which `*` is a
    /// wildcard.
    pub matches: BTreeMap<String, Vec<String>>,
    /// The value is 1 if this label has one of the words, else 0; the label does not distinguish
    /// points.
    pub state: Option<(String, Vec<String>)>,
    pub mark: ThresholdSide,
    pub for_ms: u64,
    /// A point that has disappeared counts as recovered after this time.
    pub gone_ms: u64,
    pub severity: Severity,
    /// Additional labels for receivers.
    pub labels: BTreeMap<String, String>,
    /// Names of receivers.
    pub to: Vec<String>,
}

/// The bad side of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThresholdSide {
    Over(f64),
    Under(f64),
}

impl ThresholdSide {
    pub fn is_passed(self, value: f64) -> bool {
        match self {
            ThresholdSide::Over(mark) => value > mark,
            ThresholdSide::Under(mark) => value < mark,
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

/// A destination of notices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receiver {
    pub way: ReceiverKind,
    /// Maximum time of one delivery.
    pub timeout_ms: u64,
    /// Also receives the messages that jobs request.
    pub job_notices: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiverKind {
    /// Addresses.
    Mail(Vec<String>),
    /// A URL that accepts JSON by POST.
    Webhook(String),
    /// A file with such a URL in its first line, readable only by the service account.
    WebhookFile(String),
    /// An absolute path and plain words; the program gets JSON on its standard input.
    Program(Vec<String>),
}

/// Section `mail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MailServer {
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    pub from: String,
    /// The mail domain of users without an address; empty: the domain of `from`.
    pub domain: String,
    /// The account on the server, and the file with its password; `None`: no authentication.
    pub account: Option<(String, String)>,
    /// Maximum number of mails to one address per hour; further messages are combined into one
    /// mail.
    pub hourly: u32,
    pub timeout_ms: u64,
}

/// How the connection to the mail server is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    No,
    Starttls,
    /// TLS from the first byte.
    Yes,
}

impl Notices {
    /// None of the sections is present.
    pub(super) fn is_absent(&self) -> bool {
        *self == Notices::default()
    }

    /// No message can be sent.
    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty() && !self.notifies_jobs()
    }

    /// Messages that jobs request have a receiver.
    pub fn notifies_jobs(&self) -> bool {
        self.mail.is_some() || self.receivers.values().any(|r| r.job_notices)
    }
}
