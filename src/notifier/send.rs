//! Sends messages, several at once, each within its time. Owns threads and programs, and the rule
//! that a receiver that hangs delays no other one; never decides what is sent or whether it is
//! tried again.

use crate::alert::{self, Outcome};
use crate::config::{
    Config, MailServer, MailTls, Notices, Receiver, ReceiverKind, is_address, is_url,
};
use crate::record::notices::{Delivery, NotifierState};
use crate::sys::trust::Owners;
use crate::sys::{child, fs, thread};
use crossbeam::channel::{self, Sender as Tell};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of messages that are sent at a time to one receiver (or by mail), and in all.
const ROUTE_MAX: usize = 4;
const PARALLEL_MAX: usize = 64;
/// The route of all mail: one server takes it.
const MAIL: &str = "@";
/// Stack of a thread that sends, in bytes: TLS needs some.
const STACK: usize = 1 << 20;
/// Maximum size of a password or URL file, in bytes.
const SECRET_MAX: u64 = 64 << 10;

/// JSON for a webhook.
#[derive(Clone, Debug)]
pub struct WebhookRequest {
    pub url: String,
    /// Of the message; also as header `Idempotency-Key`.
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
    /// With their routes.
    in_progress: HashMap<DeliveryKey, String>,
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
            in_progress: HashMap::new(),
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

    fn uses_of(&self, route: &str) -> usize {
        self.in_progress.values().filter(|of| *of == route).count()
    }

    /// Starts the deliveries that are due and not in progress.
    pub(super) fn start(&mut self, state: &NotifierState, config: &Arc<Config>, wall: i64) {
        for delivery in alert::due(state, wall) {
            if self.in_progress.len() >= PARALLEL_MAX {
                return;
            }
            let key = key(delivery);
            let route = route_of(delivery, &config.notices);
            if self.in_progress.contains_key(&key) || self.uses_of(route) >= ROUTE_MAX {
                continue;
            }
            self.in_progress.insert(key, route.to_owned());
            let (tell, delivery) = (self.results_out.clone(), delivery.clone());
            let (config, owners, transport) = (config.clone(), self.owners, self.transport);
            let body = move || {
                // It may read files of a file server that hangs.
                let how = resolve_receiver(&delivery, &config, owners);
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

/// What a delivery shares with others: its receiver, or the mail server.
fn route_of<'a>(delivery: &'a Delivery, notices: &Notices) -> &'a str {
    let receiver = notices.receivers.get(&delivery.to);
    let is_mail = receiver.is_none_or(|to| matches!(to.way, ReceiverKind::Mail(_)));
    if is_mail { MAIL } else { &delivery.to }
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
    config: &Config,
    owners: Owners,
) -> Result<ResolvedReceiver, SendError> {
    let notices = &config.notices;
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
            cluster: config.cluster.name.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{clock, users};

    /// A server that takes mail, and a webhook that never answers.
    struct Servers;

    impl Transport for Servers {
        fn post(&self, _: &WebhookRequest) -> SendResult {
            clock::sleep_ms(3_600_000);
            Ok(())
        }

        fn mail(&self, _: &MailMessage) -> SendResult {
            Ok(())
        }
    }

    const CONFIG: &str = "
cluster: {name: demo, administrators: [root]}
hosts:
- {name: h1}
queues:
- {name: q}
mail: {smtp: localhost, from: c@d.e}
receivers:
- {name: hangs, webhook: 'http://localhost:1/x'}
- {name: ops, mail: [ops@d.e]}
";

    fn delivery(n: usize, to: &str) -> Delivery {
        Delivery {
            id: format!("{to}{n}"),
            to: to.to_owned(),
            ..Delivery::default()
        }
    }

    /// However many older messages wait for it, and are tried again and again.
    #[test]
    fn a_receiver_that_hangs_delays_no_other_one() {
        let any = &crate::config::OsNames::ANY;
        let loaded = crate::config::load(CONFIG.as_bytes(), "cb.yaml", any);
        let config = Arc::new(loaded.unwrap_or_else(|all| panic!("{}", all[0])).config);
        let (uid, gid) = (users::effective_uid(), users::effective_gid());
        let mut sender = Sender::new(&Servers, Owners { uid, gid });
        let mut state = NotifierState::default();
        let hanging = (0..100).map(|n| delivery(n, "hangs"));
        state.outbox = hanging.chain([delivery(0, "ops")]).collect();
        let mut ended = Vec::new();
        let began = clock::boot_ms();
        while ended.is_empty() {
            assert!(clock::boot_ms() - began < 120_000, "the mail is not sent");
            sender.start(&state, &config, 0);
            sender.wait(100);
            ended = sender.ended();
        }
        assert_eq!((ended.len(), ended[0].to.as_str()), (1, "ops"));
        assert_eq!(
            (sender.uses_of("hangs"), sender.uses_of(MAIL)),
            (ROUTE_MAX, 0)
        );
    }
}
