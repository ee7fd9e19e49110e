//! Reads events for commands: every kept segment under its seals, without locks, past damage.

use super::chain::{Chain, Flow, WalkItem};
use super::decode::decode_event;
use super::{Error, Position};
use crate::record::event::Event;
use crate::record::frame::Line;
use crate::spool::Layout;

/// An entry of the history.
#[derive(Debug)]
// Entries are read one at a time; a box for each would be an allocation for each event.
#[allow(clippy::large_enum_variant)]
pub enum HistoryEntry {
    /// An event; `at` is the position after it.
    Event { at: Position, event: Event },
    /// Something that cannot be read, as a sentence that names file and offset.
    Problem(String),
}

/// The kept events of all epochs, oldest first.
#[derive(Clone, Debug)]
pub struct History {
    layout: Layout,
    cluster: String,
    ids: Vec<u32>,
    next: Option<Position>,
    skip: AlreadyRead,
}

/// Entries that are omitted because the reader has them already.
#[derive(Clone, Debug, Default)]
struct AlreadyRead {
    /// Epoch, segment and number of the last such record.
    to: Option<(u64, u64, u64)>,
    /// That record, or an earlier one, is kept.
    found: bool,
}

impl History {
    pub fn new(layout: &Layout, cluster: &str) -> History {
        History {
            layout: layout.clone(),
            cluster: cluster.to_owned(),
            ids: Vec::new(),
            next: None,
            skip: AlreadyRead::default(),
        }
    }

    /// Omits the records up to this one (epoch, segment, number), except those to which later ones
    /// refer: specifications, submissions, changes (also of names) and removals of jobs.
    pub fn after(mut self, last: (u64, u64, u64)) -> History {
        self.skip.to = Some(last);
        self
    }

    /// Whether the record that [`History::after`] names, or an earlier one, is kept: then no record
    /// is missing between it and the returned ones.
    pub fn is_complete(&self) -> bool {
        self.skip.found || self.skip.to.is_none_or(|last| last == (0, 0, 0))
    }

    /// Epoch, segment and number of the last record that was read, returned or not;
    /// [`History::after`] takes this value. `None`: nothing was read yet.
    pub fn last_read(&self) -> Option<(u64, u64, u64)> {
        self.next.map(Position::record_before)
    }

    /// Returns only events of these jobs (and specifications). An event that names many jobs may
    /// contain others, too.
    pub fn of_jobs(mut self, ids: &[u32]) -> History {
        self.ids = ids.to_vec();
        self
    }

    /// Passes on all entries that were not passed on yet: everything in the first call, new entries
    /// in later calls.
    ///
    /// # Errors
    /// Failing reads. Damage is an [`HistoryEntry::Problem`].
    pub fn read(&mut self, sink: &mut dyn FnMut(HistoryEntry)) -> Result<(), Error> {
        let to_the_end = &mut |entry| {
            sink(entry);
            Flow::Continue
        };
        self.read_while(to_the_end).map(drop)
    }

    /// As [`History::read`], until `sink` stops it after an event; the next call continues after
    /// that event. Returns true if it was stopped.
    ///
    /// # Errors
    /// As [`History::read`].
    pub fn read_while(
        &mut self,
        sink: &mut dyn FnMut(HistoryEntry) -> Flow,
    ) -> Result<bool, Error> {
        let chain = match self.next {
            None => Chain::retained(&self.layout, &self.cluster)?,
            Some(position) => {
                let newest = Chain::newest(&self.layout)?.max(position.epoch);
                Chain::read(&self.layout, &self.cluster, position.epoch, newest + 1)?
            }
        };
        for epoch in chain.first..chain.end_epoch {
            let from = match self.next.filter(|p| p.epoch == epoch) {
                Some(position) => Some(position),
                None => chain.lowest(epoch)?,
            };
            let (ids, skip) = (&self.ids, &mut self.skip);
            let reached = chain.walk(epoch, from, false, &mut |item| {
                if let WalkItem::Record {
                    at: position, line, ..
                } = &item
                    && skip.has(*position)
                    && !is_referred_to(line)
                {
                    return Ok(Flow::Continue);
                }
                Ok(pass_to_sink(&chain, epoch, ids, item, sink))
            })?;
            self.next = Some(reached.at);
            if reached.stopped {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl AlreadyRead {
    fn has(&mut self, at: Position) -> bool {
        let record = at.record_before();
        let already_read = self.to.is_some_and(|last| record <= last);
        self.found |= already_read;
        already_read
    }
}

fn is_referred_to(line: &Line<'_>) -> bool {
    let tags = ["spec", "submitted", "changed", "renamed", "cleaned"];
    let begins = |tag: &&str| {
        let text = line.json.strip_prefix(b"{\"k\":\"");
        let rest = text.and_then(|text| text.strip_prefix(tag.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(b"\""))
    };
    tags.iter().any(begins)
}

/// Passes an item to `sink`. Its result counts only after events: after damage there is no position
/// from which a reader could continue.
fn pass_to_sink(
    chain: &Chain,
    epoch: u64,
    ids: &[u32],
    item: WalkItem<'_>,
    sink: &mut dyn FnMut(HistoryEntry) -> Flow,
) -> Flow {
    let problem = match item {
        WalkItem::Record {
            at: position,
            offset,
            line,
        } => {
            if !mentions(&line, ids) {
                return Flow::Continue;
            }
            match decode_event(&line) {
                Ok(event) => {
                    return sink(HistoryEntry::Event {
                        at: position,
                        event,
                    });
                }
                Err(damage) => {
                    let path = chain.segment_path(epoch, position.segment);
                    format!("{}:{offset}: {damage}", path.display())
                }
            }
        }
        WalkItem::Damage {
            path,
            damaged,
            skipped: Some(_),
        } => format!("{} is damaged {damaged}", path.display()),
        WalkItem::Missing { path, why } => format!("{} is missing: {why}", path.display()),
        WalkItem::Damage { .. } | WalkItem::Torn { .. } => return Flow::Continue,
    };
    sink(HistoryEntry::Problem(problem));
    Flow::Continue
}

/// A cheap check, before decoding, whether a record can concern one of the jobs.
fn mentions(line: &Line<'_>, ids: &[u32]) -> bool {
    if ids.is_empty() || line.json.starts_with(b"{\"k\":\"spec\"") {
        return true;
    }
    // These concern jobs without naming them, or name many.
    let of_many = [&b"{\"k\":\"cleaned\""[..], b"{\"k\":\"host_seen\""];
    if of_many.iter().any(|tag| line.json.starts_with(tag)) {
        return true;
    }
    let Some(id) = first_id(line.json) else {
        return false;
    };
    ids.contains(&id)
}

/// The job id in `"j":"ID..` or `"id":ID`, whichever field comes first.
fn first_id(json: &[u8]) -> Option<u32> {
    let mut rest = json;
    while let Some(n) = memchr::memchr(b':', rest) {
        let name = &rest[..n];
        rest = &rest[n + 1..];
        let digits = match () {
            () if name.ends_with(b"\"j\"") => rest.strip_prefix(b"\"")?,
            () if name.ends_with(b"\"id\"") => rest,
            () => continue,
        };
        let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        return std::str::from_utf8(&digits[..len]).ok()?.parse().ok();
    }
    None
}
