//! Checks the content of files while they are written: accepted requests, answers, reports of
//! hosts. Compares them with each other, and with the leader at that moment.
//!
//! The checked promises: a leader answers no request that it first read after another one had begun
//! to lead; a request is removed only when its answer is written; a host that has reported the end
//! of an attempt never reports a different one; parts that a host has prepared are recorded. Also
//! records when hosts gave signs of life. Sees the written bytes; changes nothing.

use super::disk::HandleId;
use super::kernel::{Kernel, ProcId};
use super::tasks::RunKey;
use crate::model::{AttemptId, TermReason, Token};
use crate::record::ack::Ack;
use crate::record::frame;
use crate::record::report::{Report, RunId};
use crate::spool::Layout;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// A report, and the run to which it refers.
#[derive(Clone, Deserialize)]
struct HostReport {
    #[serde(flatten)]
    report: Report,
    #[serde(flatten)]
    run: RunId,
}

/// The end of an attempt as reported by a host.
type ReportedEnd = (Option<i32>, i32, TermReason);

#[derive(Clone, Default)]
pub(super) struct FileChecks {
    /// When (µs) a process of a leader first opened a request.
    opened: BTreeMap<(ProcId, Token), u64>,
    answered: BTreeSet<Token>,
    /// When (µs) each epoch's leader had recovered.
    recovered_at: BTreeMap<u64, u64>,
    /// Written by hosts and not synced yet.
    unsynced: BTreeMap<HandleId, (String, Vec<HostReport>)>,
    ends: BTreeMap<(String, AttemptId, u32), ReportedEnd>,
    parts: BTreeSet<(String, AttemptId, u32)>,
    /// When (µs) each host last gave a sign of life, and the pauses between two of them.
    signs_of_life: BTreeMap<String, (u64, Vec<(u64, u64)>)>,
}

/// The token in the path of a request; `None`: it is another file.
fn request(path: &str) -> Option<Token> {
    let (_, name) = path.strip_prefix("/inbox/")?.split_once('/')?;
    Layout::parse_request_name(name)
}

/// The host to which a file of that kind belongs.
fn host_of<'p>(path: &'p str, kind: &str) -> Option<&'p str> {
    let (host, name) = path.strip_prefix("/hosts/")?.split_once('/')?;
    name.starts_with(kind).then_some(host)
}

/// The complete lines of an append that are records of a kind.
fn records<T: DeserializeOwned>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.split(|b| *b == b'\n').filter_map(|line| {
        let line = frame::parse_line(line).ok()?;
        serde_json::from_slice(line.json).ok()
    })
}

impl FileChecks {
    /// Notes that the leader of an epoch has read everything and made its first records durable.
    pub(super) fn note_leader(&mut self, kernel: &Kernel, epoch: u64) {
        self.recovered_at.entry(epoch).or_insert(kernel.now);
    }

    /// Handles a restore of the share: epochs are claimed again, and hosts may have forgotten ends
    /// that were acknowledged since.
    pub(super) fn note_restore(&mut self) {
        self.recovered_at.clear();
        self.ends.clear();
    }

    /// Notes that a process of a leader opened a file.
    pub(super) fn opened(&mut self, kernel: &Kernel, proc: ProcId, path: &str) {
        if let Some(tok) = request(path) {
            self.opened.entry((proc, tok)).or_insert(kernel.now);
        }
    }

    /// Notes that a process of a leader removed a file. Returns the error, if there is one.
    pub(super) fn removed(&mut self, path: &str) -> Option<String> {
        let tok = request(path)?;
        let known = self.answered.contains(&tok);
        (!known).then(|| format!("request {tok} was removed before it was answered"))
    }

    /// Notes that a process appended to a file of the share. Returns the error, if there is one.
    pub(super) fn appended(
        &mut self,
        proc: ProcId,
        id: HandleId,
        path: &str,
        bytes: &[u8],
    ) -> Vec<String> {
        if let Some(host) = host_of(path, "reports.") {
            let (_, reports) = self.unsynced.entry(id).or_insert((host.to_owned(), vec![]));
            for record in records::<HostReport>(bytes) {
                // The leader may read it from now on, even if the host's sync never returns.
                if let Report::PartReady { a, .. } = record.report {
                    self.parts.insert((host.to_owned(), a, record.run.mark));
                }
                reports.push(record);
            }
        }
        let epoch = path.strip_prefix("/epoch/").and_then(|rest| {
            let (epoch, name) = rest.split_once('/')?;
            (name == "acks.yaml").then(|| epoch.parse::<u64>().ok())?
        });
        let Some(epoch) = epoch else { return vec![] };
        let mut wrong = Vec::new();
        for ack in records::<Ack>(bytes) {
            self.answered.insert(ack.tok);
            let Some(read) = self.opened.get(&(proc, ack.tok)) else {
                continue;
            };
            let later = self
                .recovered_at
                .range(epoch + 1..)
                .find(|(_, at)| *at < read);
            if let Some((later, _)) = later {
                wrong.push(format!(
                    "epoch {epoch} answers request {}, which it first read when epoch {later} led",
                    ack.tok
                ));
            }
        }
        wrong
    }

    /// Notes that a file of the share was synced. Returns what contradicts an earlier report of the
    /// host.
    pub(super) fn synced(&mut self, kernel: &Kernel, id: HandleId, path: &str) -> Vec<String> {
        if let Some(host) = host_of(path, "load.") {
            self.note_life(kernel, host);
        }
        let Some((host, reports)) = self.unsynced.remove(&id) else {
            return vec![];
        };
        let mut wrong = Vec::new();
        for record in reports {
            let Report::Ended(e) = record.report else {
                continue;
            };
            let now = (e.code, e.sig, e.reason);
            let run = (host.clone(), e.a, record.run.mark);
            let known = self.ends.entry(run).or_insert(now);
            if *known != now {
                let a = e.a;
                wrong.push(format!(
                    "{host} reported that {a} ended as {known:?}, now as {now:?}"
                ));
            }
        }
        wrong
    }

    /// Notes that a name in `beats/` was renamed, which is a beat.
    pub(super) fn renamed(&mut self, kernel: &Kernel, path: &str) {
        let name = path.strip_prefix("/beats/");
        if let Some((host, _)) = name.and_then(|name| name.split_once(',')) {
            self.note_life(kernel, host);
        }
    }

    /// Notes a beat of a host, or that it wrote its load.
    fn note_life(&mut self, kernel: &Kernel, host: &str) {
        let (last, pauses) = self.signs_of_life.entry(host.to_owned()).or_default();
        pauses.push((*last, kernel.now));
        *last = kernel.now;
    }

    /// The longest time (µs) for which any host gave no sign of life.
    pub(super) fn longest_silence(&self) -> u64 {
        let all = self.signs_of_life.values().flat_map(|(_, pauses)| pauses);
        all.map(|(from, to)| to - from).max().unwrap_or(0)
    }

    /// Whether a host has reported to the leader that its part is prepared.
    pub(super) fn is_prepared(&self, host: &str, (a, mark): RunKey) -> bool {
        self.parts.contains(&(host.to_owned(), a, mark))
    }

    /// Whether a host gave no sign of life for `us` in a pause that ended after `since`.
    pub(super) fn was_silent(&self, kernel: &Kernel, host: &str, since: u64, us: u64) -> bool {
        let Some((last, pauses)) = self.signs_of_life.get(host) else {
            return true;
        };
        let long = |(from, to): &(u64, u64)| *to > since && to - from > us;
        pauses.iter().any(long) || kernel.now - last > us
    }
}
