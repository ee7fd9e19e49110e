//! The main loop of the program: poll, deliver, store the position.
//!
//! Owns the order: a position is written only after every document up to it is stored or rejected.
//! Therefore, however this program ends, nothing is left out, and a document that is sent twice has
//! the same id.

use super::bulk::{Document, pause_ms};
use super::deliver::{Delivery, DeliveryContext, DeliveryLimits, DeliveryOutcome};
use super::documents::Naming;
use super::http::Client;
use super::settings::Settings;
use super::state::{self, Rejected, State};
use super::templates;
use corral::api::accounting;
use corral::api::events::{self, ClusterIdentity};
use corral::api::hosts;
use corral::spool::Site;
use corral::sys;
use tracing::{info, warn};

/// Number of failures in a row after which `--once` gives up.
const ONCE_FAILURES: u32 = 6;
/// Time between two log entries about the progress, ms.
const STATUS_MS: u64 = 600_000;

/// Why the work ended early.
pub(super) enum RunEnd {
    /// A signal arrived.
    Stopped,
    Failed(String),
}

impl From<String> for RunEnd {
    fn from(text: String) -> RunEnd {
        RunEnd::Failed(text)
    }
}

/// The cluster and the settings of this run.
pub(super) struct ExportRun {
    pub site: Site,
    pub cluster: ClusterIdentity,
    pub settings: Settings,
    /// End when everything up to now is delivered.
    pub once: bool,
}

impl ExportRun {
    pub(super) fn naming(&self) -> Naming {
        Naming::new(&self.settings.prefix, &self.cluster)
    }

    pub(super) fn state(&self) -> Result<State, String> {
        let s = &self.settings;
        State::read(&s.state_dir, &self.cluster.id, &s.prefix)
    }

    pub(super) fn followers(
        &self,
        state: &State,
    ) -> Result<(events::EventFollower, accounting::RecordFollower), String> {
        let after = Some(state.events.as_str()).filter(|at| !at.is_empty());
        let events = events::EventFollower::open(&self.site, after).map_err(|e| e.to_string())?;
        let places = state.accounting.clone();
        let acct =
            accounting::RecordFollower::open(&self.site, places).map_err(|e| e.to_string())?;
        Ok((events, acct))
    }
}

/// Waiting, random numbers and rejected documents for a delivery.
struct ExportContext {
    rejected: Rejected,
}

impl DeliveryContext for ExportContext {
    fn wait(&mut self, ms: u64, why: &str) -> bool {
        warn!("{why}; tries again in {:.1} s", ms as f64 / 1000.0);
        sys::service::status(&format!("waits: {why}"));
        sys::signals::sleep_unless_caught(ms)
    }

    fn random(&mut self) -> u16 {
        let mut bytes = [0; 2];
        sys::clock::random(&mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn reject(&mut self, document: &Document, status: u16, why: &str) -> Result<(), String> {
        warn!("document {} is rejected, {status}: {why}", document.id);
        self.rejected.append_rejected(document, status, why)
    }
}

struct Exporter {
    job: ExportRun,
    state: State,
    naming: Naming,
    client: Client,
    context: ExportContext,
    events: events::EventFollower,
    accounting: accounting::RecordFollower,
    /// Time of the last load sample, ms since 1970.
    sampled_ms: i64,
    /// Number of bytes of a request that the server accepts.
    bytes: usize,
    logged_ms: u64,
}

/// Delivers until a signal arrives, or once.
pub(super) fn run(job: ExportRun) -> Result<(), RunEnd> {
    let _lock = state::lock_dir(&job.settings.state_dir)?;
    let state = job.state()?;
    let (events, accounting) = job.followers(&state)?;
    let mut exporter = Exporter {
        naming: job.naming(),
        client: Client::new(&job.settings.connection)?,
        context: ExportContext {
            rejected: Rejected::new(&job.settings.state_dir, job.settings.rejected_max_bytes),
        },
        state,
        events,
        accounting,
        sampled_ms: 0,
        bytes: job.settings.batch_bytes,
        logged_ms: 0,
        job,
    };
    sys::service::ready("looks for the server");
    exporter.need_templates()?;
    let ended = exporter.run_rounds();
    sys::service::stopping();
    ended
}

impl Exporter {
    /// Waits until the server reports that it has the index templates. Without them it would guess
    /// the types of fields, which cannot be corrected later.
    fn need_templates(&mut self) -> Result<(), RunEnd> {
        let mut failures = 0;
        loop {
            let why = match templates::missing(&mut self.client, &self.job.settings.prefix) {
                Ok(None) => return Ok(()),
                Ok(Some(names)) if names.is_empty() => return Ok(()),
                Ok(Some(names)) => {
                    return Err(RunEnd::Failed(format!(
                        "the server has no index template {}\nhint: cb-export --templates \
                         installs them",
                        names.join(", ")
                    )));
                }
                Err(why) => why,
            };
            self.pause(&mut failures, why)?;
        }
    }

    fn run_rounds(&mut self) -> Result<(), RunEnd> {
        let mut failures = 0;
        loop {
            match self.run_round() {
                Ok(()) => failures = 0,
                Err(RunEnd::Failed(why)) if !self.job.once => {
                    self.pause(&mut failures, why)?;
                    continue;
                }
                Err(end) => return Err(end),
            }
            self.report_progress();
            if self.job.once {
                return Ok(());
            }
            if sys::signals::sleep_unless_caught(self.job.settings.interval_s * 1000) {
                return Err(RunEnd::Stopped);
            }
        }
    }

    /// Waits after a failure, longer after each.
    fn pause(&mut self, failures: &mut u32, why: String) -> Result<(), RunEnd> {
        *failures += 1;
        if self.job.once && *failures >= ONCE_FAILURES {
            return Err(RunEnd::Failed(why));
        }
        let random = self.context.random();
        let ms = pause_ms(
            *failures,
            self.job.settings.pause_max_s * 1000,
            None,
            random,
        );
        match self.context.wait(ms, &why) {
            true => Err(RunEnd::Stopped),
            false => Ok(()),
        }
    }

    fn run_round(&mut self) -> Result<(), RunEnd> {
        let kinds = self.job.settings.kinds;
        if kinds.hosts {
            self.load()?;
        }
        if kinds.events {
            while self.send_some_events()? {}
        }
        if kinds.accounting {
            while self.some_records()? {}
        }
        Ok(())
    }

    /// Returns true if there may be more at once.
    fn send_some_events(&mut self) -> Result<bool, RunEnd> {
        let s = &self.job.settings;
        let batch = self.events.next_events(s.batch_documents, s.batch_bytes);
        let batch = batch.map_err(|e| e.to_string())?;
        self.note(&batch.problems);
        if batch.gap {
            self.state.counts.gaps += 1;
            warn!(
                "events after {} are no longer kept: some are missing in the index; continues \
                 with the oldest (journal_keep of cb.yaml determines how long they are kept)",
                self.state.events
            );
        }
        let Some(last) = batch.events.last() else {
            return Ok(false);
        };
        let documents: Vec<Document> = batch.events.iter().map(|e| self.naming.event(e)).collect();
        let last = last.position.clone();
        self.deliver(&documents)?;
        self.state.events = last;
        self.remember()?;
        Ok(batch.more)
    }

    fn some_records(&mut self) -> Result<bool, RunEnd> {
        let s = &self.job.settings;
        let batch = self
            .accounting
            .next_records(s.batch_documents, s.batch_bytes);
        let batch = batch.map_err(|e| e.to_string())?;
        self.note(&batch.problems);
        let naming = &self.naming;
        let documents: Vec<Document> = batch.records.iter().map(|r| naming.record(r)).collect();
        if !documents.is_empty() {
            self.deliver(&documents)?;
        }
        if *self.accounting.positions() != self.state.accounting {
            self.state.accounting = self.accounting.positions().clone();
            self.remember()?;
        }
        Ok(batch.more)
    }

    /// Takes a sample of each host when it is due: at a multiple of the interval, so that two
    /// exporters take samples with the same ids.
    fn load(&mut self) -> Result<(), RunEnd> {
        let every = i64::try_from(self.job.settings.load_interval_s * 1000).unwrap_or(i64::MAX);
        let moment = sys::clock::wall_ms() / every * every;
        if moment <= self.sampled_ms {
            return Ok(());
        }
        let rows = hosts::samples(&self.job.site).map_err(|e| e.to_string())?;
        if self.sampled_ms > 0 {
            let between = (moment - self.sampled_ms) / every - 1;
            self.state.counts.missed += u64::try_from(between).unwrap_or(0);
        }
        self.sampled_ms = moment;
        let naming = &self.naming;
        let documents: Vec<Document> = rows.iter().map(|h| naming.sample(h, moment)).collect();
        for some in documents.chunks(self.job.settings.batch_documents) {
            self.deliver(some)?;
        }
        Ok(())
    }

    fn deliver(&mut self, documents: &[Document]) -> Result<(), RunEnd> {
        let s = &self.job.settings;
        let mut delivery = Delivery {
            server: &mut self.client,
            context: &mut self.context,
            counts: &mut self.state.counts,
            limits: DeliveryLimits {
                bytes: self.bytes,
                pause_ms: s.pause_max_s * 1000,
                failures: self.job.once.then_some(ONCE_FAILURES),
            },
        };
        let outcome = delivery.deliver(documents);
        self.bytes = delivery.limits.bytes;
        match outcome {
            // A signal that arrived meanwhile is handled after the position is written.
            DeliveryOutcome::Done => Ok(()),
            DeliveryOutcome::Stopped => Err(RunEnd::Stopped),
            DeliveryOutcome::GaveUp(why) => Err(RunEnd::Failed(why)),
        }
    }

    fn remember(&mut self) -> Result<(), RunEnd> {
        self.state.write(&self.job.settings.state_dir)?;
        match sys::signals::caught() {
            true => Err(RunEnd::Stopped),
            false => Ok(()),
        }
    }

    fn note(&mut self, problems: &[String]) {
        self.state.counts.damage += problems.len() as u64;
        problems.iter().for_each(|text| warn!("{text}"));
    }

    /// Reports the progress to the service manager, and from time to time to the log.
    fn report_progress(&mut self) {
        let c = &self.state.counts;
        let text = format!(
            "events up to {}; {} documents stored, {} were there, {} rejected, {} requests \
             repeated, {} gaps, {} damaged places, {} samples missed",
            match self.state.events.as_str() {
                "" => "none",
                at => at,
            },
            c.stored,
            c.present,
            c.rejected,
            c.failures,
            c.gaps,
            c.damage,
            c.missed
        );
        sys::service::status(&text);
        let now = sys::clock::boot_ms();
        if self.logged_ms == 0 || now >= self.logged_ms + STATUS_MS || self.job.once {
            self.logged_ms = now;
            info!("{text}");
        }
    }
}
