//! Sends messages, several at once, each within its time. Owns threads and programs; never decides
//! what is sent or whether it is tried again.

use crate::alert::{self, Outcome};
use crate::config::{MailServer, MailTls, Notices, Receiver, ReceiverKind, is_address, is_url};
use crate::record::notices::{Delivery, NotifierState};
use crate::sys::trust::Owners;
use crate::sys::{child, fs, thread};
use crossbeam::channel::{self, Sender as Tell};
use std::collections::HashSet;
use std::path::Path;

/// Maximum number of messages that are sent at a time.
const PARALLEL_MAX: usize = 8;
/// Stack of a thread that sends, in bytes: TLS needs some.
const STACK: usize = 1 << 20;
/// Maximum size of a password or URL file, in bytes.
const SECRET_MAX: u64 = 64 << 10;

/// JSON for a webhook.
#[derive(Clone, Debug)]
pub struct WebhookRequest {
    pub url: String,
    /// Of the message; also as header `Idempotency-DeliveryKey`.
    pub id: String,
    pub json: String,
    pub timeout_ms: u64,
}

/// A mail of one text.
#[derive(Clone, Debug)]
pub struct MailMessage {
    pub server: MailServer,
    pub password: Option<String>,
    /// Derived from the message's id, for `Message-ID`.
    pub id: String,
    pub to: Vec<String>,
    pub subject: String,
    pub text: String,
    pub timeout_ms: u64,
}

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError {
    pub why: String,
    /// Whether sending may succeed later.
    pub retry: bool,
}

/// The result of sending.
pub type SendResult = Result<(), SendError>;

/// Implements HTTP and SMTP.
pub trait Transport: Send + Sync {
    /// # Errors
    /// No answer, or a refusal.
    fn post(&self, post: &WebhookRequest) -> SendResult;

    /// # Errors
    /// No answer, or a refusal.
    fn mail(&self, letter: &MailMessage) -> SendResult;
}

/// A delivery that has ended, with its outcome.
pub(super) struct FinishedDelivery {
    pub id: String,
    pub to: String,
    pub user: String,
    pub outcome: Outcome,
}

/// Id, receiver, user.
type DeliveryKey = (String, String, String);

pub(super) struct Sender {
    transport: &'static dyn Transport,
    owners: Owners,
    in_progress: HashSet<DeliveryKey>,
    results_out: Tell<FinishedDelivery>,
    results_in: channel::Receiver<FinishedDelivery>,
    /// Results that arrived while waiting.
    received: Vec<FinishedDelivery>,
}

impl Sender {
    pub(super) fn new(transport: &'static dyn Transport, owners: Owners) -> Sender {
        let (tell, hear) = channel::unbounded();
        Sender {
            transport,
            owners,
            in_progress: HashSet::new(),
            results_out: tell,
            results_in: hear,
            received: Vec::new(),
        }
    }

    /// Waits until a delivery ends, at most for this time.
    pub(super) fn wait(&mut self, ms: u64) {
        self.received
            .extend(thread::recv_timeout(&self.results_in, ms));
    }

    /// The deliveries that have ended since the last call.
    pub(super) fn ended(&mut self) -> Vec<FinishedDelivery> {
        let mut all = std::mem::take(&mut self.received);
        all.extend(self.results_in.try_iter());
        for one in &all {
            let key = (one.id.clone(), one.to.clone(), one.user.clone());
            self.in_progress.remove(&key);
        }
        all
    }

    /// Starts the deliveries that are due and not in progress.
    pub(super) fn start(
        &mut self,
        state: &NotifierState,
        notices: &Notices,
        cluster: &str,
        wall: i64,
    ) {
        for delivery in alert::due(state, wall) {
            if self.in_progress.len() >= PARALLEL_MAX {
                return;
            }
            let key = key(delivery);
            if self.in_progress.contains(&key) {
                continue;
            }
            let (tell, delivery) = (self.results_out.clone(), delivery.clone());
            let how = resolve_receiver(&delivery, notices, cluster, self.owners);
            let transport = self.transport;
            self.in_progress.insert(key);
            let body = move || {
                let outcome = match how.and_then(|how| how.send(transport, &delivery)) {
                    Ok(()) => Outcome::Delivered,
                    Err(unsent) if unsent.retry => Outcome::Failed(unsent.why),
                    Err(unsent) => Outcome::Refused(unsent.why),
                };
                let Delivery { id, to, user, .. } = delivery;
                drop(tell.send(FinishedDelivery {
                    id,
                    to,
                    user,
                    outcome,
                }));
            };
            if let Err(e) = thread::spawn("send", STACK, body) {
                tracing::warn!("cannot start a thread: {e}");
                return;
            }
        }
    }
}

fn key(d: &Delivery) -> DeliveryKey {
    (d.id.clone(), d.to.clone(), d.user.clone())
}

fn later(why: impl Into<String>) -> SendError {
    SendError {
        why: why.into(),
        retry: true,
    }
}

fn permanent(why: impl Into<String>) -> SendError {
    SendError {
        why: why.into(),
        retry: false,
    }
}

/// A receiver with its settings from the configuration.
enum ResolvedReceiver {
    Mail(Box<MailMessage>),
    Post(WebhookRequest),
    Program {
        words: Vec<String>,
        owners: Owners,
        timeout_ms: u64,
        cluster: String,
    },
}

fn resolve_receiver(
    delivery: &Delivery,
    notices: &Notices,
    cluster: &str,
    owners: Owners,
) -> Result<ResolvedReceiver, SendError> {
    let server = || {
        notices
            .mail
            .clone()
            .ok_or_else(|| permanent("cb.yaml names no mail server"))
    };
    if delivery.to.contains('@') || !delivery.user.is_empty() {
        let server = server()?;
        let address = match delivery.user.as_str() {
            "" => delivery.to.clone(),
            user => local_address(user, &server),
        };
        if !is_address(&address) {
            return Err(permanent(format!("{address:?} is not a mail address")));
        }
        let timeout_ms = server.timeout_ms;
        return letter(delivery, vec![address], server, timeout_ms, owners);
    }
    let Some(receiver) = notices.receivers.get(&delivery.to) else {
        return Err(permanent("cb.yaml no longer has this receiver"));
    };
    let Receiver {
        way, timeout_ms, ..
    } = receiver.clone();
    match way {
        ReceiverKind::Mail(to) => letter(delivery, to, server()?, timeout_ms, owners),
        ReceiverKind::Webhook(url) => Ok(ResolvedReceiver::Post(post(delivery, url, timeout_ms))),
        ReceiverKind::WebhookFile(path) => {
            let url = secret(&path, owners)?;
            match is_url(&url) {
                true => Ok(ResolvedReceiver::Post(post(delivery, url, timeout_ms))),
                false => Err(later(format!("{path}: its first line is not a URL"))),
            }
        }
        ReceiverKind::Program(words) => Ok(ResolvedReceiver::Program {
            words,
            owners,
            timeout_ms,
            cluster: cluster.to_owned(),
        }),
    }
}

/// The address of a user who gave none.
fn local_address(user: &str, server: &MailServer) -> String {
    let domain = match server.domain.as_str() {
        "" => server
            .from
            .rsplit_once('@')
            .map_or("", |(_, domain)| domain),
        domain => domain,
    };
    format!("{user}@{domain}")
}

fn letter(
    delivery: &Delivery,
    to: Vec<String>,
    server: MailServer,
    timeout_ms: u64,
    owners: Owners,
) -> Result<ResolvedReceiver, SendError> {
    let password = match &server.account {
        None => None,
        Some(_) if server.tls == MailTls::No => None,
        Some((_, path)) => Some(secret(path, owners)?),
    };
    Ok(ResolvedReceiver::Mail(Box::new(MailMessage {
        password,
        server,
        id: delivery.id.clone(),
        to,
        subject: delivery.subject.clone(),
        text: delivery.text.clone(),
        timeout_ms,
    })))
}

fn post(delivery: &Delivery, url: String, timeout_ms: u64) -> WebhookRequest {
    WebhookRequest {
        url,
        id: delivery.id.clone(),
        json: delivery.json.clone(),
        timeout_ms,
    }
}

/// The first line of a file that other users cannot read.
fn secret(path: &str, owners: Owners) -> Result<String, SendError> {
    let file = Path::new(path);
    let found = fs::stat(file).map_err(|e| later(e.to_string()))?;
    if found.is_some_and(|stat| stat.mode & 0o077 != 0) {
        let text = format!("{path}: other users can read or write it: chmod 600 it");
        return Err(later(text));
    }
    let bytes = owners.read_small(file, SECRET_MAX);
    let bytes = bytes.map_err(|e| later(e.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

impl ResolvedReceiver {
    fn send(self, transport: &dyn Transport, delivery: &Delivery) -> SendResult {
        match self {
            ResolvedReceiver::Mail(letter) => transport.mail(&letter),
            ResolvedReceiver::Post(post) => transport.post(&post),
            ResolvedReceiver::Program {
                words,
                owners,
                timeout_ms,
                cluster,
            } => run(&words, owners, timeout_ms, &cluster, delivery),
        }
    }
}

/// Runs a program of the site as the account of this process.
fn run(
    words: &[String],
    owners: Owners,
    timeout_ms: u64,
    cluster: &str,
    delivery: &Delivery,
) -> SendResult {
    let Some((program, args)) = words.split_first() else {
        return Err(permanent("no program is named"));
    };
    let program = Path::new(program);
    // An account that can change the program would act as the cluster's account.
    let safe = owners.safe_to_load(program, fs::parent(program));
    safe.map_err(|e| later(e.to_string()))?;
    let env = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("CB_NOTICE_ID", delivery.id.clone()),
        ("CB_NOTICE_SUBJECT", delivery.subject.clone()),
        ("CB_CLUSTER", cluster.to_owned()),
    ];
    match child::feed(program, args, &env, delivery.json.as_bytes(), timeout_ms) {
        Ok(Some(0)) => Ok(()),
        Ok(Some(code)) => Err(later(format!("{} ended with {code}", program.display()))),
        Ok(None) => Err(later(format!(
            "{} was killed or took more than {timeout_ms} ms",
            program.display()
        ))),
        Err(e) => Err(later(e.to_string())),
    }
}
