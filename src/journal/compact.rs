//! Removes what recovery no longer needs: old snapshots, covered segments, answered requests.
//!
//! Segments that the oldest kept snapshot does not cover stay, so that a damaged newest snapshot
//! costs nothing. Snapshots that recovery no longer needs are moved to `history/` for as long as
//! [`HistoryRetention`] says. Only the leader calls it, after a snapshot was finished.

use super::chain::epochs_on_disk;
use super::past::{self, HistoryRetention};
use super::{Error, Position, snapshot};
use crate::spool::Layout;
use crate::sys;

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Number of complete snapshots to keep; nothing is removed before this many exist. At least 1.
    pub snapshots: usize,
    /// Covered segments kept for chist and `cadmin journal`: at most this many files...
    pub segments: usize,
    /// ...this many bytes...
    pub bytes: u64,
    /// ...and this age (ms since their last record, by the file server's clock).
    pub age_ms: u64,
    /// Older snapshots, with all segments after the oldest of them.
    pub history: HistoryRetention,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            snapshots: 2,
            segments: 64,
            bytes: 1 << 30,
            age_ms: u64::MAX,
            history: HistoryRetention::default(),
        }
    }
}

/// What [`compact`] removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compacted {
    pub snapshots: usize,
    pub segments: usize,
    pub epochs: usize,
}

/// Age at which an incomplete snapshot has no living writer (ms).
const STALE_MS: u64 = 3_600_000;

/// Removes what `keep` does not retain. `now`: wall clock (ms), to recognise abandoned files by
/// age.
///
/// # Errors
/// A file cannot be removed, or a directory cannot be listed; what was removed before stays
/// removed.
pub fn compact(
    layout: &Layout,
    cluster: &str,
    keep: Retention,
    now: i64,
) -> Result<Compacted, Error> {
    let mut done = Compacted::default();
    sys::fs::sweep_asides(&layout.snapshots(), now, STALE_MS)?;
    let mut notes = Vec::new();
    let found = snapshot::list(layout, cluster, &mut notes)?;
    let wanted = keep.snapshots.max(1);
    if found.len() < wanted {
        return Ok(done);
    }
    let oldest = &found[wanted - 1];
    // One name that cannot be removed must not keep all others.
    let mut first = None;
    for number in snapshot::numbers(layout)? {
        let complete = found.iter().any(|f| f.number == number);
        if number < oldest.number || (!complete && number < found[0].number) {
            let removed = match complete && keep.history.age_ms > 0 {
                true => past::archive(layout, number),
                false => sys::fs::remove(&snapshot::path_of(layout, number)),
            };
            match removed {
                Ok(()) => done.snapshots += 1,
                Err(e) => first = first.or(Some(e)),
            }
        }
    }
    let covered = covered_segments(layout, oldest.covers)?;
    let base = past::trim(
        layout,
        cluster,
        keep.history,
        now,
        (oldest.covers, &covered),
    )?;
    remove_segments(layout, (base, covered), keep, now, &mut done)?;
    first.map_or(Ok(done), |e| Err(e.into()))
}

/// A segment on disk.
pub(super) struct Segment {
    pub epoch: u64,
    pub number: u64,
    pub bytes: u64,
    mtime_ms: i64,
}

/// `base`: nothing before this position is needed.
fn remove_segments(
    layout: &Layout,
    (base, mut covered): (Position, Vec<Segment>),
    keep: Retention,
    now: i64,
    done: &mut Compacted,
) -> Result<(), Error> {
    covered.retain(|s| (s.epoch, s.number) < (base.epoch, base.segment));
    // Newest first: the history that is kept has no gaps.
    covered.reverse();
    let (mut files, mut bytes) = (0, 0);
    let mut lowest_kept = base.epoch;
    let mut full = false;
    for s in covered {
        let age = u64::try_from(now.saturating_sub(s.mtime_ms)).unwrap_or(0);
        let more = files < keep.segments && bytes + s.bytes <= keep.bytes && age <= keep.age_ms;
        full = full || !more;
        if full {
            sys::fs::remove(&layout.journal(s.epoch, s.number))?;
            done.segments += 1;
        } else {
            files += 1;
            bytes += s.bytes;
            lowest_kept = s.epoch;
        }
    }
    for epoch in epochs_on_disk(layout)? {
        if epoch >= base.epoch {
            break;
        }
        if epoch < lowest_kept {
            sys::fs::remove_tree(&layout.epoch_dir(epoch))?;
            done.epochs += 1;
        }
    }
    Ok(())
}

/// Segments that end before `covers`, oldest first.
pub(super) fn covered_segments(layout: &Layout, covers: Position) -> Result<Vec<Segment>, Error> {
    let mut out = Vec::new();
    for epoch in epochs_on_disk(layout)? {
        if epoch > covers.epoch {
            break;
        }
        let dir = layout.epoch_dir(epoch);
        let entries = sys::fs::list_dir(&dir, super::chain::LIST_MAX)?;
        let number = |e: &sys::fs::Entry| e.text().and_then(Layout::parse_journal_name);
        let mut numbers: Vec<u64> = entries.iter().filter_map(number).collect();
        numbers.sort_unstable();
        for n in numbers {
            if (epoch, n) < (covers.epoch, covers.segment) {
                let stat = sys::fs::stat(&layout.journal(epoch, n))?;
                out.push(Segment {
                    epoch,
                    number: n,
                    bytes: stat.map_or(0, |s| s.len),
                    mtime_ms: stat.map_or(0, |s| s.mtime_ms),
                });
            }
        }
    }
    Ok(out)
}
