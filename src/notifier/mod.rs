//! Floor 6: `cbnotify`: watches metrics and events and sends messages, beside the leader, which
//! starts it.
//!
//! Owns the order: a message is durable before it is sent, and stays until it was sent. It arrives
//! at least once; a repetition after a crash has the same id. The leader never waits for any of
//! this. The program provides the implementation of HTTP and SMTP ([`Transport`]).

mod jobs;
mod send;
mod state_files;

pub use send::{MailMessage, SendError, SendResult, Transport, WebhookRequest};

use crate::alert::{self, Figure};
use crate::client::metrics;
use crate::client::read::Source;
use crate::config::Config;
use crate::record::leader::{EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::notices::{AlertsDoc, NotifierState};
use crate::spool::Site;
use crate::sys::trust::Owners;
use crate::sys::{clock, fs, proc, signals};
use jobs::Jobs;
use send::Sender;
use state_files::StateFiles;
use std::sync::Arc;

/// Interval at which the journal and due messages are checked, ms.
const POLL_MS: u64 = 500;
/// Interval at which the figures are evaluated, ms.
const OBSERVE_MS: u64 = 5_000;
/// Interval at which unchanged documents are published again, ms, so that readers see that the
/// notifier is alive.
const PUBLISH_MS: u64 = 30_000;
/// How long to wait for the first configuration that a leader stores, ms.
const FIRST_MS: u64 = 30_000;
/// How long to wait until the leader has stored a configuration that it has put in force, ms.
const STORED_MS: u64 = 5_000;
/// Maximum number of published problems.
const TROUBLES_MAX: usize = 50;

/// The state of one run.
struct Notifier {
    source: Source,
    owners: Owners,
    epoch: u64,
    cluster: String,
    config: Arc<Config>,
    /// Identifies the file from which `config` was read.
    config_mark: Option<fs::FileMark>,
    keep: StateFiles,
    state: NotifierState,
    jobs: Jobs,
    sender: Sender,
    /// Problems: with the figures, others.
    troubles: (Vec<String>, Vec<String>),
    /// When the rules were last evaluated, and when the alerts were published (boot clock, ms).
    observed_at: Option<u64>,
    published_at: Option<u64>,
}

/// Serves the leader of `epoch` until it no longer leads; returns the exit code. `since`: messages
/// were switched on after this record of the journal (epoch, segment, number).
pub fn run(epoch: u64, since: Option<(u64, u64, u64)>, transport: &'static dyn Transport) -> i32 {
    proc::die_with_parent(libc_term());
    signals::ignore_sigpipe();
    match serve(epoch, since, transport) {
        Ok(()) => 0,
        Err(text) => {
            eprintln!("cbnotify: {text}");
            1
        }
    }
}

fn libc_term() -> i32 {
    signals::number("TERM").unwrap_or(15)
}

fn serve(
    epoch: u64,
    since: Option<(u64, u64, u64)>,
    transport: &'static dyn Transport,
) -> Result<(), String> {
    let parent = proc::parent();
    let site = Site::find().map_err(|e| e.to_string())?;
    let source = Source::of("cbnotify", site);
    let cluster = source.cluster().map_err(|e| e.text)?;
    let owners = crate::spool::owners(&cluster);
    let config = config_in_force(&source, owners)?;
    let keep = StateFiles::open(&source.layout, epoch).map_err(|e| e.to_string())?;
    let (mut state, notes) = keep.take_over();
    let seen = std::mem::take(&mut state.seen);
    state.seen = jobs::reported_after(seen, since, epoch);
    let continues = seen == state.seen;
    let jobs = Jobs::new(&source, &cluster.cluster, &state, continues);
    let mut notifier = Notifier {
        cluster: config.cluster.name.clone(),
        sender: Sender::new(transport, owners),
        owners,
        epoch,
        config,
        config_mark: None,
        keep,
        state,
        jobs,
        troubles: (Vec::new(), notes),
        observed_at: None,
        published_at: None,
        source,
    };
    tracing::info!("sends notices for epoch {epoch}");
    while notifier.is_in_force() && proc::parent() == parent {
        notifier.update()?;
        notifier.sender.wait(POLL_MS);
    }
    Ok(())
}

/// The configuration in force. The leader of a new cluster starts `cbnotify` before it has stored
/// one.
fn config_in_force(source: &Source, owners: Owners) -> Result<Arc<Config>, String> {
    let path = crate::master::config_in_force_path(&source.layout);
    let began = clock::boot_ms();
    while !fs::exists(&path) && clock::boot_ms().saturating_sub(began) < FIRST_MS {
        clock::sleep_ms(100);
    }
    crate::master::config_in_force(&source.layout, owners).map_err(|all| all.join("; "))
}

impl Notifier {
    /// Whether the leader of this notifier has not been replaced.
    fn is_in_force(&self) -> bool {
        let read = fs::read_small(&self.source.layout.epoch(), FIXED_LEN as u64 * 2);
        match read.map(|bytes| decode_fixed::<EpochDoc>(&bytes)) {
            Ok(Ok(doc)) => doc.epoch == self.epoch,
            // Being overwritten, or not reachable: no evidence of another leader.
            _ => true,
        }
    }

    fn update(&mut self) -> Result<(), String> {
        self.read_config();
        let (wall, now) = (clock::wall_ms(), clock::boot_ms());
        self.follow(wall);
        let due = |at: Option<u64>, every: u64| at.is_none_or(|at| now.saturating_sub(at) >= every);
        if due(self.observed_at, OBSERVE_MS) {
            self.observe(wall);
            self.observed_at = Some(now);
        }
        let cluster = &self.cluster;
        alert::release_held(&mut self.state, wall, &|address, quota| {
            alert::held_mail(cluster, address, quota, wall)
        });
        self.settle(wall);
        self.state.epoch = self.epoch;
        let changed = self.keep.save(&self.state, now);
        let changed = changed.map_err(|e| e.to_string())?;
        if changed || due(self.published_at, PUBLISH_MS) {
            self.publish(wall);
            self.published_at = Some(now);
        }
        // A successor may have started from an earlier state and sends the same messages.
        if self.is_in_force() {
            self.sender.start(&self.state, &self.config, wall);
        }
        Ok(())
    }

    /// Reads the configuration that the leader has put in force.
    fn read_config(&mut self) {
        let path = crate::master::config_in_force_path(&self.source.layout);
        let Ok(mark) = fs::mark(&path) else {
            return;
        };
        if self.config_mark.as_ref() == Some(&mark) {
            return;
        }
        match crate::master::config_in_force(&self.source.layout, self.owners) {
            Ok(config) => {
                self.config = config;
                self.config_mark = Some(mark);
            }
            Err(problems) => tracing::warn!("{}", problems.join("; ")),
        }
    }

    fn follow(&mut self, wall: i64) {
        loop {
            let context = jobs::JobMessage {
                cluster: &self.cluster,
                notices: &self.config.notices,
                wall,
            };
            let followed = self.jobs.follow(&self.source, &context, &mut self.state);
            for text in followed.troubles {
                tracing::warn!("{text}");
                self.troubles.1.push(text);
            }
            match followed.configuration {
                Some(digest) => self.await_config(&digest),
                None => return,
            }
        }
    }

    /// Reads the configuration that came into force at an event: the leader stores it a moment
    /// after the event, unless it has been replaced since.
    fn await_config(&mut self, digest: &str) {
        let began = clock::boot_ms();
        while self.config.digest() != digest && clock::boot_ms().saturating_sub(began) < STORED_MS {
            clock::sleep_ms(50);
            self.read_config();
        }
    }

    fn observe(&mut self, wall: i64) {
        let rules = &self.config.notices.alerts;
        let points = match rules.is_empty() && self.state.alerts.is_empty() {
            true => Ok(Vec::new()),
            false => metrics::points(&self.source),
        };
        self.troubles.0 = match points {
            Ok(points) => {
                let figures = points.into_iter().map(|point| Figure {
                    metric: point.name,
                    labels: labels(point.labels),
                    value: point.value,
                });
                let figures: Vec<Figure> = figures.collect();
                alert::observe(&mut self.state, &self.cluster, rules, &figures, wall)
            }
            Err(e) => vec![format!("the figures cannot be read: {}", e.text)],
        };
    }

    fn settle(&mut self, wall: i64) {
        for done in self.sender.ended() {
            let to = (done.to.as_str(), done.user.as_str());
            let lost = alert::record_outcome(&mut self.state, &done.id, to, done.outcome, wall);
            if let Some(text) = lost {
                tracing::error!("{text}");
                self.troubles.1.push(text);
            }
        }
    }

    fn publish(&mut self, wall: i64) {
        let failing = self.state.outbox.iter().filter(|d| d.tries > 0);
        let failing = failing.map(|d| {
            let address = if d.to.is_empty() { &d.user } else { &d.to };
            format!(
                "{} to {address} failed {} times: {}",
                d.id, d.tries, d.error
            )
        });
        let old = self.troubles.1.len().saturating_sub(TROUBLES_MAX);
        self.troubles.1.drain(..old);
        let troubles = self.troubles.0.iter().chain(&self.troubles.1).cloned();
        let rules = self.config.notices.alerts.iter();
        let doc = AlertsDoc {
            epoch: self.epoch,
            host: self.source.site.host.clone(),
            t: wall,
            alerts: self.state.alerts.clone(),
            silences: self.state.silences.clone(),
            rules: rules
                .map(|rule| (rule.name.clone(), rule.to.clone()))
                .collect(),
            troubles: troubles.chain(failing).take(TROUBLES_MAX).collect(),
            waiting: self.state.outbox.len() as u64,
            lost: self.state.lost,
        };
        if let Err(e) = self.keep.publish(&doc) {
            tracing::warn!("{e}");
        }
    }
}

fn labels(labels: Vec<(&'static str, String)>) -> std::collections::BTreeMap<String, String> {
    let named = labels.into_iter();
    named
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
