//! Which bytes of which segments exist: seals collected from the newest epoch down, and the walk
//! over an epoch's records under them.
//!
//! A seal in epoch F ends epoch E < F at a segment and length; later segments of E do not exist.
//! The first record of segment n+1 ends segment n of the same epoch; where n+1 itself failed, the
//! first records of the next one that did not end both. What no seal ends is read up to its last
//! intact record. Reads only.

use super::decode::decode_event;
use super::lines::{LineError, Lines, Skipped};
use super::{Error, Position};
use crate::record::FORMAT;
use crate::record::event::Event;
use crate::record::frame::{Damage, Damaged, Line};
use crate::record::header::{FileKind, Header};
use crate::spool::Layout;
use crate::sys;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where an epoch ends, according to a seal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SealedEnd {
    pub segment: u64,
    pub bytes: u64,
    pub next_seq: u64,
    /// The epoch that sealed it.
    pub sealed_by: u64,
}

/// What a walk over an epoch finds.
#[derive(Debug)]
pub enum WalkItem<'a> {
    /// An intact record (headers are not shown); `at` is the position after it.
    Record {
        at: Position,
        offset: u64,
        line: Line<'a>,
    },
    /// Damage. `skipped`: the bytes skipped, `None` = an announcement, the bytes follow.
    Damage {
        path: &'a Path,
        damaged: &'a Damaged,
        skipped: Option<Skipped>,
    },
    /// A segment that must exist does not.
    Missing { path: &'a Path, why: &'a str },
    /// The last bytes of an open epoch are an incomplete record: it was never acknowledged and is
    /// dropped.
    Torn {
        path: &'a Path,
        from: u64,
        bytes: u64,
    },
}

/// Whether the walk continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    Continue,
    Stop,
}

/// How far a walk has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WalkPosition {
    /// After the last record.
    pub at: Position,
    /// The visitor stopped the walk.
    pub stopped: bool,
}

/// How long one segment is.
enum SegmentLength {
    Sealed {
        bytes: u64,
        next_seq: u64,
    },
    /// The open end of the epoch.
    Tail,
    /// Another segment follows, but its first records are damaged.
    Unknown(PathBuf, Damaged),
    /// After the end.
    Beyond,
}

/// The first records of a segment, if they state the length of the previous one.
enum SegmentHead {
    /// Nothing of the segment was committed, or it does not exist.
    None,
    Seal {
        bytes: u64,
        next_seq: u64,
    },
    Damaged(Damaged),
}

/// The epochs `first..end_epoch` and what is known of their ends.
#[derive(Clone, Debug)]
pub struct Chain {
    layout: Layout,
    cluster: String,
    pub first: u64,
    /// The first epoch that is not part of the chain (a leader's own).
    pub end_epoch: u64,
    ends: BTreeMap<u64, SealedEnd>,
    /// Epochs without a seal although a later one has events.
    pub unsealed_middle: Vec<u64>,
    /// Damage found among the first records of epochs, where the seals are.
    pub head_damage: Vec<(PathBuf, Damaged)>,
}

impl Chain {
    /// Reads the seals of the epochs `first..end_epoch`.
    ///
    /// # Errors
    /// Failing reads; files of another cluster or epoch. Damage is not evaluated here.
    pub fn read(
        layout: &Layout,
        cluster: &str,
        first: u64,
        end_epoch: u64,
    ) -> Result<Chain, Error> {
        let mut chain = Chain {
            layout: layout.clone(),
            cluster: cluster.to_owned(),
            first,
            end_epoch,
            ends: BTreeMap::new(),
            unsealed_middle: Vec::new(),
            head_damage: Vec::new(),
        };
        // Commands on this host look for answers in epochs that do not exist yet, so for this
        // client the directory of an epoch that has acknowledged jobs may still seem to be missing.
        sys::fs::revalidate(&layout.epochs());
        let mut events_above = false;
        for epoch in (first..end_epoch).rev() {
            if events_above && !chain.ends.contains_key(&epoch) {
                chain.unsealed_middle.push(epoch);
            }
            events_above |= chain.read_head(epoch)?;
        }
        Ok(chain)
    }

    /// The chain of everything that is kept, including the newest epoch.
    ///
    /// # Errors
    /// As [`Chain::read`].
    pub fn retained(layout: &Layout, cluster: &str) -> Result<Chain, Error> {
        let epochs = epochs_on_disk(layout)?;
        let first = epochs.first().copied().unwrap_or(1);
        let upto = epochs.last().map_or(1, |e| e + 1);
        Chain::read(layout, cluster, first, upto)
    }

    /// The highest epoch that has a directory; 0 if none has.
    ///
    /// # Errors
    /// A failing listing.
    pub fn newest(layout: &Layout) -> Result<u64, Error> {
        Ok(epochs_on_disk(layout)?.last().copied().unwrap_or(0))
    }

    /// The path of a segment.
    pub fn segment_path(&self, epoch: u64, segment: u64) -> PathBuf {
        self.layout.journal(epoch, segment)
    }

    /// The seal of an epoch, if it has one.
    pub fn end(&self, epoch: u64) -> Option<SealedEnd> {
        self.ends.get(&epoch).copied()
    }

    /// Collects the seals at the beginning of an epoch. Returns true if it has other events.
    fn read_head(&mut self, epoch: u64) -> Result<bool, Error> {
        let mut seals = Vec::new();
        let mut events = false;
        let mut head_damage = Vec::new();
        let from = self.lowest(epoch)?;
        self.walk(epoch, from, true, &mut |item| {
            let line = match item {
                WalkItem::Record { line, .. } => line,
                WalkItem::Damage { path, damaged, .. } => {
                    head_damage.push((path.to_path_buf(), damaged.clone()));
                    return Ok(Flow::Continue);
                }
                WalkItem::Missing { .. } | WalkItem::Torn { .. } => return Ok(Flow::Continue),
            };
            match decode_event(&line) {
                Ok(Event::Epoch { .. }) => {}
                Ok(Event::Seal {
                    epoch,
                    segment,
                    bytes,
                    next_seq,
                }) => seals.push((epoch, segment, bytes, next_seq)),
                _ => {
                    events = true;
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        })?;
        self.head_damage.append(&mut head_damage);
        for (of, segment, bytes, next_seq) in seals {
            if of < epoch {
                self.ends.entry(of).or_insert(SealedEnd {
                    segment,
                    bytes,
                    next_seq,
                    sealed_by: epoch,
                });
            }
        }
        Ok(events)
    }

    /// Where the first kept segment of an epoch begins, if earlier ones were removed by compaction.
    ///
    /// # Errors
    /// A failing listing.
    pub fn lowest(&self, epoch: u64) -> Result<Option<Position>, Error> {
        let lowest = self.segments(epoch)?.into_iter().min();
        Ok(lowest.filter(|n| *n > 1).map(|segment| Position {
            epoch,
            segment,
            bytes: 0,
            seq: 0,
        }))
    }

    /// Numbers of the segments on disk, in no order.
    fn segments(&self, epoch: u64) -> Result<Vec<u64>, Error> {
        let names = match sys::fs::list_dir(&self.layout.epoch_dir(epoch), LIST_MAX) {
            Ok(names) => names,
            Err(e) if e.is_not_found() => return Ok(Vec::new()),
            Err(e) => return Err(e.into()),
        };
        let number = |e: &sys::fs::Entry| e.text().and_then(Layout::parse_journal_name);
        Ok(names.iter().filter_map(number).collect())
    }

    fn has_later(&self, epoch: u64, segment: u64) -> Result<bool, Error> {
        Ok(self.segments(epoch)?.iter().any(|n| *n > segment))
    }

    /// Whether the bytes that a snapshot covers exist according to the seals.
    pub fn covers(&self, at: Position) -> bool {
        match self.ends.get(&at.epoch) {
            None => true,
            Some(end) => (at.segment, at.bytes) <= (end.segment, end.bytes),
        }
    }

    /// Walks over the records of one epoch from `from` on. `brief`: only the beginning is needed,
    /// so it reads little at a time.
    ///
    /// # Errors
    /// Failing reads, foreign headers, and what `on` returns.
    pub fn walk(
        &self,
        epoch: u64,
        from: Option<Position>,
        brief: bool,
        on: &mut dyn FnMut(WalkItem<'_>) -> Result<Flow, Error>,
    ) -> Result<WalkPosition, Error> {
        let mut at = from.unwrap_or(Position {
            epoch,
            segment: 1,
            bytes: 0,
            seq: 0,
        });
        loop {
            let path = self.layout.journal(epoch, at.segment);
            let limit = self.limit(epoch, at.segment)?;
            match &limit {
                SegmentLength::Beyond => {
                    return Ok(WalkPosition { at, stopped: false });
                }
                // A missing segment is reported when its turn comes.
                SegmentLength::Unknown(next, _) if sys::fs::stat(next)?.is_none() => {}
                SegmentLength::Unknown(next, damaged) => {
                    let announce = WalkItem::Damage {
                        path: next,
                        damaged,
                        skipped: None,
                    };
                    on(announce)?;
                }
                SegmentLength::Sealed { .. } | SegmentLength::Tail => {}
            }
            let there = sys::fs::stat(&path)?;
            let flow = match &there {
                Some(s) if s.len >= at.bytes => {
                    self.walk_segment(&path, &mut at, &limit, brief, on)?
                }
                Some(s) => {
                    let why = format!(
                        "{} bytes of it are covered, but it has only {}",
                        at.bytes, s.len
                    );
                    on(WalkItem::Missing {
                        path: &path,
                        why: &why,
                    })?
                }
                None => self.absent(&path, at, &limit, on)?,
            };
            if flow == Flow::Stop {
                return Ok(WalkPosition { at, stopped: true });
            }
            if matches!(limit, SegmentLength::Tail) {
                return Ok(WalkPosition { at, stopped: false });
            }
            if self.end(epoch).is_some_and(|e| e.segment == at.segment) {
                return Ok(WalkPosition { at, stopped: false });
            }
            let next = match there {
                Some(_) => at.segment.checked_add(1),
                None => self.next_after_gap(epoch, at.segment)?,
            };
            let Some(segment) = next else {
                return Ok(WalkPosition { at, stopped: false });
            };
            at = Position {
                epoch,
                segment,
                bytes: 0,
                seq: 0,
            };
        }
    }

    /// The next segment that exists or is sealed. A seal may name any number: a gap is reported
    /// once, not number by number.
    fn next_after_gap(&self, epoch: u64, segment: u64) -> Result<Option<u64>, Error> {
        let there = self.segments(epoch)?.into_iter();
        let sealed = self.end(epoch).map(|end| end.segment);
        Ok(there.chain(sealed).filter(|n| *n > segment).min())
    }

    /// Handles the missing file of a segment: that is correct only if nothing was committed to it.
    fn absent(
        &self,
        path: &Path,
        at: Position,
        limit: &SegmentLength,
        on: &mut dyn FnMut(WalkItem<'_>) -> Result<Flow, Error>,
    ) -> Result<Flow, Error> {
        let text;
        let why = match limit {
            SegmentLength::Sealed { bytes: 0, .. } | SegmentLength::Beyond => {
                return Ok(Flow::Continue);
            }
            SegmentLength::Sealed { bytes, .. } => {
                text = format!("a seal says that it has {bytes} bytes");
                &text
            }
            SegmentLength::Unknown(..) => "a later segment of its epoch exists",
            SegmentLength::Tail if at.bytes > 0 => "a snapshot covers a part of it",
            SegmentLength::Tail if self.has_later(at.epoch, at.segment)? => {
                "a later segment of its epoch exists"
            }
            SegmentLength::Tail => return Ok(Flow::Continue),
        };
        on(WalkItem::Missing { path, why })
    }

    fn limit(&self, epoch: u64, segment: u64) -> Result<SegmentLength, Error> {
        let end = self.end(epoch);
        if let Some(end) = end {
            if segment > end.segment {
                return Ok(SegmentLength::Beyond);
            }
            if segment == end.segment {
                let (bytes, next_seq) = (end.bytes, end.next_seq);
                return Ok(SegmentLength::Sealed { bytes, next_seq });
            }
        }
        let after = segment.saturating_add(1);
        let next = self.layout.journal(epoch, after);
        Ok(match self.head(epoch, after)? {
            SegmentHead::Seal { bytes, next_seq } => SegmentLength::Sealed { bytes, next_seq },
            SegmentHead::Damaged(damaged) => SegmentLength::Unknown(next, damaged),
            SegmentHead::None if end.is_none() && !self.has_later(epoch, after)? => {
                SegmentLength::Tail
            }
            SegmentHead::None => {
                match self.later(epoch, segment)? {
                    SegmentHead::Seal { bytes, next_seq } => {
                        return Ok(SegmentLength::Sealed { bytes, next_seq });
                    }
                    SegmentHead::None if end.is_none() => return Ok(SegmentLength::Tail),
                    _ => {}
                }
                let why = "it must state where the previous segment ends, because later ones exist";
                let damage = Damage::Content(why.into());
                SegmentLength::Unknown(next, Damaged { offset: 0, damage })
            }
        })
    }

    /// Reads what the first records of a segment state about the previous segment.
    fn head(&self, epoch: u64, segment: u64) -> Result<SegmentHead, Error> {
        let path = self.layout.journal(epoch, segment);
        if sys::fs::stat(&path)?.is_none() {
            return Ok(SegmentHead::None);
        }
        let limit = match self.end(epoch) {
            Some(end) if end.segment == segment => end.bytes,
            _ => u64::MAX,
        };
        let mut lines = Lines::new(&path, limit).small_chunks();
        match self.head_records(&mut lines, epoch, segment) {
            Ok(Some(head)) => Ok(head),
            Ok(None) => Ok(SegmentHead::None),
            Err(LineError::Io(e)) => Err(e.into()),
            // A torn beginning was never committed, unless something intact follows.
            Err(LineError::Damaged(d)) => Ok(if lines.skip()?.intact_after {
                SegmentHead::Damaged(d)
            } else {
                SegmentHead::None
            }),
        }
    }

    /// What the first committed segment after `segment + 1`, which failed, states about `segment`.
    /// `SegmentHead::None`: none of them was committed.
    fn later(&self, epoch: u64, segment: u64) -> Result<SegmentHead, Error> {
        let end = self.end(epoch).map_or(u64::MAX, |end| end.segment);
        let mut later = self.segments(epoch)?;
        later.retain(|n| (segment + 2..=end).contains(n));
        later.sort_unstable();
        for next in later {
            match self.head(epoch, next)? {
                SegmentHead::None => {}
                SegmentHead::Damaged(damaged) => return Ok(SegmentHead::Damaged(damaged)),
                SegmentHead::Seal { .. } => return self.seal_in(epoch, next, segment),
            }
        }
        Ok(SegmentHead::None)
    }

    /// The seal of `segment` among the first records of `holder`, whose header is intact.
    fn seal_in(&self, epoch: u64, holder: u64, segment: u64) -> Result<SegmentHead, Error> {
        let mut lines = Lines::new(&self.layout.journal(epoch, holder), u64::MAX).small_chunks();
        let (mut offset, mut first) = (0, true);
        while let Ok(Some(step)) = lines.next_line() {
            offset = step.offset;
            match decode_event(&step.line) {
                Ok(Event::Seal {
                    epoch: e,
                    segment: s,
                    bytes,
                    next_seq,
                }) if e == epoch => {
                    if s == segment {
                        return Ok(SegmentHead::Seal { bytes, next_seq });
                    }
                }
                _ if first => {}
                _ => break,
            }
            first = false;
        }
        let why = format!("it must seal segment {segment}, too: the one between them failed");
        let damage = Damage::Content(why);
        Ok(SegmentHead::Damaged(Damaged { offset, damage }))
    }

    fn head_records(
        &self,
        lines: &mut Lines,
        epoch: u64,
        segment: u64,
    ) -> Result<Option<SegmentHead>, LineError> {
        if !self.check_header(lines, epoch, segment)? {
            return Ok(None);
        }
        let Some(step) = lines.next_line()? else {
            return Ok(None);
        };
        Ok(Some(match decode_event(&step.line) {
            Ok(Event::Seal {
                epoch: e,
                segment: s,
                bytes,
                next_seq,
            }) if (e, s.checked_add(1)) == (epoch, Some(segment)) => {
                SegmentHead::Seal { bytes, next_seq }
            }
            _ => SegmentHead::Damaged(Damaged {
                offset: step.offset,
                damage: Damage::Content("it must seal the previous segment".into()),
            }),
        }))
    }

    /// Reads the header. Returns false if the file is empty.
    fn check_header(&self, lines: &mut Lines, epoch: u64, segment: u64) -> Result<bool, LineError> {
        let Some(step) = lines.next_line()? else {
            return Ok(false);
        };
        let offset = step.offset;
        let damaged = |damage| LineError::Damaged(Damaged { offset, damage });
        let header: Header = step.line.decode().map_err(damaged)?;
        let expected = Header::new(FileKind::Journal, &self.cluster, epoch, segment);
        if header.format > FORMAT {
            let why = format!(
                "format {} is newer than this program's {FORMAT}: upgrade it",
                header.format
            );
            return Err(damaged(Damage::Content(why)));
        }
        let expected = Header {
            format: header.format,
            ..expected
        };
        if header != expected {
            let why = format!(
                "its header names format {}, a {:?} file of cluster {:?}, epoch {}, segment {}",
                header.format, header.what, header.cluster, header.epoch, header.part
            );
            return Err(damaged(Damage::Content(why)));
        }
        Ok(true)
    }

    fn walk_segment(
        &self,
        path: &Path,
        at: &mut Position,
        limit: &SegmentLength,
        brief: bool,
        on: &mut dyn FnMut(WalkItem<'_>) -> Result<Flow, Error>,
    ) -> Result<Flow, Error> {
        let bytes = match limit {
            SegmentLength::Sealed { bytes, .. } => *bytes,
            _ => u64::MAX,
        };
        let fresh = at.bytes == 0;
        let mut lines = Lines::resume(path, at.bytes, at.seq, bytes);
        if brief {
            lines = lines.small_chunks();
        }
        let mut header = match fresh {
            true => self.check_header(&mut lines, at.epoch, at.segment),
            false => Ok(true),
        };
        loop {
            let failed = match std::mem::replace(&mut header, Ok(true)) {
                Err(e) => Some(e),
                Ok(_) => match lines.next_line() {
                    Ok(Some(step)) => {
                        (at.bytes, at.seq) = (step.end, step.line.seq + 1);
                        let (offset, line) = (step.offset, step.line);
                        let at = *at;
                        if on(WalkItem::Record { at, offset, line })? == Flow::Stop {
                            return Ok(Flow::Stop);
                        }
                        None
                    }
                    Ok(None) => break,
                    Err(e) => Some(e),
                },
            };
            match failed {
                None => {}
                Some(LineError::Io(e)) => return Err(e.into()),
                Some(LineError::Damaged(d)) => {
                    let flow = pass_damage(&mut lines, &d, limit, on)?;
                    if flow == Some(Flow::Stop) {
                        return Ok(Flow::Stop);
                    }
                    if flow.is_none() {
                        return Ok(Flow::Continue);
                    }
                }
            }
        }
        if fresh && at.bytes == 0 {
            // There is only a header: its length counts, so that the segment's seal can be checked.
            (at.bytes, at.seq) = (lines.offset(), lines.next_seq());
        }
        check_seal(&lines, limit, on)
    }
}

/// The epochs that have a directory, ascending.
pub(super) fn epochs_on_disk(layout: &Layout) -> Result<Vec<u64>, Error> {
    let entries = sys::fs::list_dir(&layout.epochs(), LIST_MAX)?;
    let number = |e: &sys::fs::Entry| e.text().and_then(Layout::parse_epoch_name);
    let mut epochs: Vec<u64> = entries.iter().filter_map(number).collect();
    epochs.sort_unstable();
    Ok(epochs)
}

/// Maximum number of names that are checked in one directory of the journal.
pub(super) const LIST_MAX: usize = 1_000_000;

/// Reports damage and skips it; `None` = it was the torn end of an open segment.
fn pass_damage(
    lines: &mut Lines,
    damaged: &Damaged,
    limit: &SegmentLength,
    on: &mut dyn FnMut(WalkItem<'_>) -> Result<Flow, Error>,
) -> Result<Option<Flow>, Error> {
    let skipped = lines.skip()?;
    let path = lines.path().to_path_buf();
    let path = path.as_path();
    if matches!(limit, SegmentLength::Tail) && !skipped.intact_after {
        let (from, bytes) = (skipped.from, skipped.to - skipped.from);
        on(WalkItem::Torn { path, from, bytes })?;
        return Ok(None);
    }
    let skipped = Some(skipped);
    on(WalkItem::Damage {
        path,
        damaged,
        skipped,
    })
    .map(Some)
}

/// A sealed segment must reach its seal exactly, in bytes and in records.
fn check_seal(
    lines: &Lines,
    limit: &SegmentLength,
    on: &mut dyn FnMut(WalkItem<'_>) -> Result<Flow, Error>,
) -> Result<Flow, Error> {
    let SegmentLength::Sealed { bytes, next_seq } = limit else {
        return Ok(Flow::Continue);
    };
    if (lines.offset(), lines.next_seq()) == (*bytes, *next_seq) {
        return Ok(Flow::Continue);
    }
    let why = format!(
        "the file ends with {} records in {} bytes, but its seal states {next_seq} in {bytes}",
        lines.next_seq(),
        lines.offset()
    );
    let damaged = Damaged {
        offset: lines.offset(),
        damage: Damage::Content(why),
    };
    on(WalkItem::Damage {
        path: lines.path(),
        damaged: &damaged,
        skipped: Some(Skipped {
            from: lines.offset(),
            to: lines.offset(),
            intact_after: false,
        }),
    })
}
