//! The journal's past: snapshots that recovery no longer needs, and the state of a moment
//! reconstructed from them and the events after them.
//!
//! `history/NNNNNN.yaml` are snapshots that [`super::compact`] moved there. Owns how long they
//! stay. Leaders never read them: damage there only affects a view of the past, never a job.

use super::chain::{Chain, Flow, WalkItem};
use super::compact::Segment;
use super::decode::decode_event;
use super::snapshot::{self, SnapshotFile};
use super::{Error, Position};
use crate::record::event::Event;
use crate::record::frame::{Damage, Damaged};
use crate::spool::Layout;
use crate::sys;
use std::path::PathBuf;

/// Maximum number of snapshots that are kept as history.
const HISTORY_MAX: usize = 256;
/// Maximum number of copies of cb.yaml; each leader writes the one in force again.
const CONFIGS_MAX: usize = 64;

/// How much of the past can be restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistoryRetention {
    /// Snapshots are kept for this time (ms since they were begun), plus one that is older; 0 =
    /// none is kept.
    pub age_ms: u64,
    /// Maximum number of bytes of them and of the segments after the oldest of them.
    pub bytes: u64,
}

/// Puts a complete snapshot aside.
///
/// # Errors
/// It cannot be moved.
pub(super) fn archive(layout: &Layout, number: u64) -> sys::Result<()> {
    let dir = layout.history();
    sys::fs::mkdir_p(&dir, 0o755)?;
    let to = dir.join(snapshot::name_of(number));
    sys::fs::rename(&snapshot::path_of(layout, number), &to)
}

/// Removes history that is too old or too large. `covered`: the position that the oldest snapshot
/// of recovery covers, and the segments before it. Returns the position after which all segments
/// are needed.
///
/// # Errors
/// The directory cannot be listed, or a file cannot be removed.
pub(super) fn trim(
    layout: &Layout,
    cluster: &str,
    keep: HistoryRetention,
    now: i64,
    (covers, covered): (Position, &[Segment]),
) -> Result<Position, Error> {
    let (mut base, mut bytes, mut retained) = (covers, 0, 0);
    let mut enough = keep.age_ms == 0;
    for found in list(layout, cluster)? {
        let place = |at: Position| (at.epoch, at.segment);
        let after = covered.iter().filter(|s| {
            let at = (s.epoch, s.number);
            place(found.covers) <= at && at < place(base)
        });
        bytes += found.bytes + after.map(|s| s.bytes).sum::<u64>();
        enough |= bytes > keep.bytes || retained == HISTORY_MAX;
        if enough {
            sys::fs::remove(&found.path)?;
            continue;
        }
        retained += 1;
        base = found.covers;
        // The first one that is older marks the beginning of the time to be kept.
        enough = u64::try_from(now.saturating_sub(found.t)).unwrap_or(0) >= keep.age_ms;
    }
    trim_configs(layout)?;
    Ok(base)
}

fn trim_configs(layout: &Layout) -> Result<(), Error> {
    let entries = match sys::fs::list_dir(&layout.history(), super::chain::LIST_MAX) {
        Err(e) if e.is_not_found() => return Ok(()),
        other => other?,
    };
    let names = entries.iter().filter_map(|e| e.text());
    let mut copies = Vec::new();
    for name in names.filter(|name| Layout::is_past_config(name)) {
        let path = layout.history().join(name);
        let written = sys::fs::stat(&path)?.map_or(0, |s| s.mtime_ms);
        copies.push((std::cmp::Reverse(written), path));
    }
    copies.sort();
    for (_, path) in copies.iter().skip(CONFIGS_MAX) {
        sys::fs::remove(path)?;
    }
    Ok(())
}

/// The complete snapshots of the history, newest first.
fn list(layout: &Layout, cluster: &str) -> Result<Vec<SnapshotFile>, Error> {
    match snapshot::list_in(&layout.history(), cluster, &mut Vec::new()) {
        Err(Error::Io(e)) if e.is_not_found() => Ok(Vec::new()),
        other => other,
    }
}

/// Receives what [`recover_past`] reads.
pub trait RestorePast {
    /// Discards everything: what was passed on so far came from a damaged snapshot.
    fn reset(&mut self);

    /// One record of a snapshot.
    ///
    /// # Errors
    /// The record is not understood.
    fn record(&mut self, json: &[u8]) -> Result<(), String>;

    /// One event. Returns whether another event may belong to the moment.
    fn event(&mut self, event: Event) -> Flow;
}

/// The result of [`recover_past`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveredPast {
    /// The state is restored. With notes for the reader about what was skipped.
    Restored { notes: Vec<String> },
    /// Nothing is kept from that time. With the time of the oldest snapshot (ms), if there is one.
    TooEarly { oldest: Option<i64> },
}

/// Restores the state as it was at `moment` (wall clock of leaders, ms): the newest readable
/// snapshot that was begun earlier, then the events after it until `to` stops. Takes no lock.
///
/// # Errors
/// Damage, missing files, failing reads. Names file and offset.
pub fn recover_past(
    layout: &Layout,
    cluster: &str,
    moment: i64,
    to: &mut dyn RestorePast,
) -> Result<RecoveredPast, Error> {
    let mut notes = Vec::new();
    let mut found = match snapshot::list(layout, cluster, &mut notes) {
        // Only the service account can read these; the history is readable for all users.
        Err(Error::Io(e)) if e.is_denied() => Vec::new(),
        other => other?,
    };
    found.extend(list(layout, cluster)?);
    found.sort_by_key(|f| std::cmp::Reverse(f.number));
    let upto = Chain::newest(layout)? + 1;
    let oldest = found.last().map(|f| f.t);
    for snapshot in found.iter().filter(|f| f.t <= moment) {
        let chain = Chain::read(layout, cluster, snapshot.covers.epoch, upto)?;
        if !chain.covers(snapshot.covers) {
            continue;
        }
        to.reset();
        match snapshot::read(snapshot, &mut |json| to.record(json)) {
            Ok(()) => {
                replay(layout, &chain, Some(snapshot.covers), to, &mut notes)?;
                return Ok(RecoveredPast::Restored { notes });
            }
            Err(Error::Io(e)) => return Err(e.into()),
            Err(e) => notes.push(format!("snapshot not used: {e}")),
        }
    }
    to.reset();
    if sys::fs::stat(&layout.journal(1, 1))?.is_none() {
        return Ok(RecoveredPast::TooEarly { oldest });
    }
    let chain = Chain::read(layout, cluster, 1, upto)?;
    replay(layout, &chain, None, to, &mut notes)?;
    Ok(RecoveredPast::Restored { notes })
}

/// The files from which the state of every moment since a time (ms; `None`: all that is kept) can
/// be restored: snapshots and segments, oldest first.
///
/// # Errors
/// Failing listings.
pub fn needed_since(
    layout: &Layout,
    cluster: &str,
    since: Option<i64>,
) -> Result<Vec<PathBuf>, Error> {
    let mut found = snapshot::list(layout, cluster, &mut Vec::new())?;
    found.extend(list(layout, cluster)?);
    found.sort_by_key(|f| f.number);
    let base = since.and_then(|since| found.iter().rposition(|f| f.t <= since));
    let from = base.map(|n| found[n].covers).unwrap_or_default();
    let mut files: Vec<PathBuf> = found
        .into_iter()
        .skip(base.unwrap_or(0))
        .map(|f| f.path)
        .collect();
    let upto = Position {
        epoch: u64::MAX,
        ..Position::default()
    };
    let segments = super::compact::covered_segments(layout, upto)?;
    let needed = segments
        .iter()
        .filter(|s| (s.epoch, s.number) >= (from.epoch, from.segment));
    files.extend(needed.map(|s| layout.journal(s.epoch, s.number)));
    Ok(files)
}

/// Passes on the events after a position until `to` stops.
fn replay(
    layout: &Layout,
    chain: &Chain,
    from: Option<Position>,
    to: &mut dyn RestorePast,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    for epoch in chain.first..chain.end_epoch {
        let from = from.filter(|p| p.epoch == epoch);
        let reached = chain.walk(epoch, from, false, &mut |item| match item {
            WalkItem::Record {
                at: position,
                offset,
                line,
            } => {
                let path = || layout.journal(epoch, position.segment);
                let event = decode_event(&line).map_err(|damage| damaged(path(), offset, damage));
                Ok(to.event(event?))
            }
            WalkItem::Damage { path, damaged, .. } => Err(Error::Damaged {
                path: path.to_path_buf(),
                damaged: damaged.clone(),
            }),
            WalkItem::Missing { path, why } => {
                let (path, why) = (path.to_path_buf(), why.to_owned());
                Err(Error::Missing { path, why })
            }
            WalkItem::Torn { path, from, .. } => {
                notes.push(format!("{}:{from}: half a record", path.display()));
                Ok(Flow::Continue)
            }
        })?;
        if reached.stopped {
            return Ok(());
        }
    }
    Ok(())
}

fn damaged(path: PathBuf, offset: u64, damage: Damage) -> Error {
    let damaged = Damaged { offset, damage };
    Error::Damaged { path, damaged }
}
