//! Events of the cluster as JSON documents with positions, for programs that store them.
//!
//! Owns which events are final: a replaced leader may still append to its part of the journal, and
//! events that it appends after the end that its successor has fixed do not count. Reads the
//! journal and `leader/epoch`; takes no lock, sends no request to the leader, never writes.

use super::{Failure, FailureKind};
use crate::client::read::Source;
use crate::journal::{Chain, Flow, History, HistoryEntry, Position};
use crate::record::event::Event;
use crate::record::leader::{EpochDoc, FIXED_LEN, decode_fixed};
use crate::show::event::time_of;
use crate::show::event_json::{Documents, JournalPosition};
use crate::spool::{Layout, Site};
use crate::sys;
use std::collections::VecDeque;

/// Maximum number of texts about damage that one look keeps.
const PROBLEMS_MAX: usize = 100;

/// The identity of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// Random, created by `cadmin init`.
    pub id: String,
    pub name: String,
}

/// Reads the cluster file.
///
/// # Errors
/// The file does not exist or cannot be read.
pub fn identity(site: &Site) -> Result<ClusterIdentity, Failure> {
    let doc = Source::of("cluster", site.clone()).cluster()?;
    Ok(ClusterIdentity {
        id: doc.cluster,
        name: doc.name,
    })
}

/// Whether the caller may see the jobs of all users.
///
/// # Errors
/// The view cannot be read.
pub fn may_see_all(site: &Site) -> Result<bool, Failure> {
    let source = Source::of("events", site.clone());
    // Root and the owner of the share do not need the view.
    if source.me.uid == 0 || source.is_service() {
        return Ok(true);
    }
    Ok(source.may_see_all(&source.params()?))
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    /// Permanent name: `EPOCH.SEGMENT.RECORD`.
    pub position: String,
    /// When it happened, ms since 1970.
    pub time_ms: i64,
    /// The document of cevents(1): a JSON object on one line, without the newline.
    pub json: String,
}

/// The result of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBatch {
    pub events: Vec<EventLine>,
    /// What could not be read, as sentences with file and offset.
    pub problems: Vec<String>,
    /// Events between the requested position and the first one are no longer kept. Reported once.
    pub gap: bool,
    /// More can be read at once.
    pub more: bool,
}

/// An event for a later look, because it was not certain that it is final.
struct PendingEvent {
    at: Position,
    line: EventLine,
}

/// Follows the events of a cluster.
pub struct EventFollower {
    layout: Layout,
    cluster: String,
    history: History,
    documents: Documents,
    /// Whether missing events after the requested position were checked and reported.
    gap_checked: bool,
    pending: VecDeque<PendingEvent>,
    problems: Vec<String>,
    /// The last record that was read.
    last: Position,
    /// Only events after this position are returned.
    after: JournalPosition,
}

impl EventFollower {
    /// Follows the events after this position; `None`: all that are kept.
    ///
    /// # Errors
    /// The position has a wrong form, or the cluster file cannot be read.
    pub fn open(site: &Site, after: Option<&str>) -> Result<EventFollower, Failure> {
        let position = JournalPosition::parse(after.unwrap_or("0")).map_err(|text| Failure {
            kind: FailureKind::Wrong,
            text,
        })?;
        let (layout, cluster) = (site.layout(), identity(site)?.id);
        let last = (position.epoch, position.segment, position.record);
        Ok(EventFollower {
            history: History::new(&layout, &cluster).after(last),
            documents: Documents::new(sys::signals::name),
            gap_checked: position == JournalPosition::default(),
            pending: VecDeque::new(),
            problems: Vec::new(),
            last: Position::default(),
            after: position,
            layout,
            cluster,
        })
    }

    /// The next events, at most `most` of them and about `bytes` of documents; empty: nothing
    /// happened since.
    ///
    /// # Errors
    /// The journal cannot be read; the next call tries again from the same position.
    pub fn next_events(&mut self, most: usize, bytes: usize) -> Result<EventBatch, Failure> {
        let mut problems = std::mem::take(&mut self.problems);
        let read = match self.pending.is_empty() {
            true => self.read(most, bytes, &mut problems),
            false => Ok(false),
        };
        // If reading fails now, the next look reports these problems.
        self.problems = problems;
        let more = read?;
        let has_some = !self.pending.is_empty();
        let events = self.take_final()?;
        let gap = has_some && !self.gap_checked && !self.history.is_complete();
        self.gap_checked |= has_some;
        Ok(EventBatch {
            more: more && !events.is_empty(),
            problems: std::mem::take(&mut self.problems),
            events,
            gap,
        })
    }

    fn read(
        &mut self,
        most: usize,
        bytes: usize,
        problems: &mut Vec<String>,
    ) -> Result<bool, Failure> {
        let (documents, pending, last) = (&mut self.documents, &mut self.pending, &mut self.last);
        let after = self.after;
        let mut size = 0;
        let sink = &mut |entry| {
            match entry {
                HistoryEntry::Problem(text) if problems.len() < PROBLEMS_MAX => problems.push(text),
                // It was returned before a read that failed.
                HistoryEntry::Event { at, .. } if at <= *last => {}
                HistoryEntry::Problem(_) => {}
                HistoryEntry::Event { at, event } => {
                    *last = at;
                    if let Some(line) = line(documents, after, at, &event) {
                        size += line.json.len();
                        pending.push_back(PendingEvent { at, line });
                    }
                }
            }
            match pending.len() >= most.max(1) || size >= bytes {
                true => Flow::Stop,
                false => Flow::Continue,
            }
        };
        let stopped = self.history.read_while(sink);
        stopped.map_err(|e| system(&e))
    }

    /// Takes from the pending events those that are final. If `leader/epoch` still names the epoch
    /// of a record after the record was read, the record precedes the end that a successor will
    /// fix: the successor overwrites that file first. The end of an older epoch is known.
    fn take_final(&mut self) -> Result<Vec<EventLine>, Failure> {
        let Some(first) = self.pending.front() else {
            return Ok(Vec::new());
        };
        let now = epoch_now(&self.layout)?;
        let mut sure = Vec::with_capacity(self.pending.len());
        let chain = match first.at.epoch < now {
            true => {
                let upto = Chain::newest(&self.layout).map_err(|e| system(&e))? + 1;
                let chain = Chain::read(&self.layout, &self.cluster, first.at.epoch, upto);
                Some(chain.map_err(|e| system(&e))?)
            }
            false => None,
        };
        while let Some(read) = self.pending.pop_front() {
            match finality(read.at, now, chain.as_ref()) {
                Some(true) => sure.push(read.line),
                Some(false) => {}
                None => {
                    self.pending.push_front(read);
                    break;
                }
            }
        }
        Ok(sure)
    }
}

/// Whether a record is final (true) or void (false); `None`: not known yet.
fn finality(at: Position, now: u64, chain: Option<&Chain>) -> Option<bool> {
    if at.epoch >= now {
        return (at.epoch == now).then_some(true);
    }
    let chain = chain?;
    match chain.end(at.epoch) {
        Some(end) => Some((at.segment, at.bytes) <= (end.segment, end.bytes)),
        // A missing seal is damage: readers accept the existing records.
        None => chain.unsealed_middle.contains(&at.epoch).then_some(true),
    }
}

/// The epoch in force. The next look repeats an incomplete read.
fn epoch_now(layout: &Layout) -> Result<u64, Failure> {
    let path = layout.epoch();
    let bytes = sys::fs::read_small(&path, 8 * FIXED_LEN as u64).map_err(|e| system(&e))?;
    let doc: Result<EpochDoc, String> = decode_fixed(&bytes);
    let doc = doc.map_err(|why| system(&format!("{}: {why}", path.display())))?;
    Ok(doc.epoch)
}

/// The document of an event; none up to `after`, but later documents may refer to these events.
fn line(
    documents: &mut Documents,
    after: JournalPosition,
    at: Position,
    event: &Event,
) -> Option<EventLine> {
    let position = JournalPosition {
        epoch: at.epoch,
        segment: at.segment,
        record: at.seq.saturating_sub(1),
    };
    documents.note(event);
    let json = documents.of(position, event).filter(|_| position > after);
    documents.forget(event);
    Some(EventLine {
        position: position.to_string(),
        time_ms: time_of(event).map_or(0, |t| t.0),
        json: json?,
    })
}

pub(super) fn system(what: &dyn std::fmt::Display) -> Failure {
    Failure {
        kind: FailureKind::System,
        text: what.to_string(),
    }
}

#[cfg(test)]
mod tests;
