//! Compares the journal of the simulated cluster at the end of a run with accounting and with the
//! answers that clients got: each record of `acct/` belongs to one end in the journal, none counts
//! twice, and none is missing up to the position to which the leader said that they are durable;
//! each confirmed silence of an alert is recorded once. Reads a copy of the share; only judges.

use super::disk::Disk;
use super::read_only_disk::ReadOnlyDisk;
use crate::client::cacct::records::Records;
use crate::journal::{History, HistoryEntry, Position};
use crate::model::{AttemptId, JobKey};
use crate::record::acct::AccountingPosition;
use crate::record::event::Event;
use crate::record::frame::Reader;
use crate::replay::live_cluster;
use crate::spool::Layout;
use crate::sys::{self, platform};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum size of the mark's file in bytes.
const MARK_MAX: u64 = 4096;

/// Identifies an end on both sides: its time and its result.
type EndIdentity = (i64, Option<i32>, i32);

/// An attempt, and whether this is a success that was reported after the attempt was given up.
type EndKey = (AttemptId, bool);

/// The contents of the journal.
#[derive(Default)]
struct JournalContents {
    /// Each with the position after it.
    ends: BTreeMap<EndKey, (Position, EndIdentity)>,
    /// Reasons of silences, and the number of each.
    silences: BTreeMap<String, u32>,
    /// It begins after the very first event: the earlier part was removed by compaction.
    is_compacted: bool,
}

/// The errors in the accounting of a share in which no byte was flipped and which was not restored
/// from a copy.
pub(super) fn check(share: &Disk, silences: &BTreeSet<String>) -> Vec<String> {
    platform::enter(Arc::new(ReadOnlyDisk(share.clone())));
    let found = compare(&Layout::new(super::simulated_os::SHARE), silences);
    platform::leave();
    found.unwrap_or_else(|e| vec![format!("accounting cannot be read: {e}")])
}

fn compare(layout: &Layout, silences: &BTreeSet<String>) -> Result<Vec<String>, String> {
    // A run may end before there is a cluster.
    let Ok(cluster) = live_cluster::cluster_id(layout) else {
        return Ok(Vec::new());
    };
    let journal = read(layout, &cluster)?;
    let mark = mark(layout)?;
    let mut wrong = silence_errors(&journal, silences);
    let mut accounted: BTreeMap<EndKey, EndIdentity> = BTreeMap::new();
    let records = Records::open(layout, &cluster, |_| true).map_err(|e| e.to_string())?;
    let each = records.for_each(
        &mut |r| {
            let (j, at): (JobKey, u32) = (r.j, r.at);
            let (a, end) = (AttemptId { j, at }, (r.end, r.code, r.sig));
            if accounted.insert((a, r.late), end).is_some() {
                wrong.push(format!("accounting counts attempt {a} twice"));
            }
            Ok(())
        },
        // A leader that dies leaves an incomplete line.
        &mut |_| {},
    );
    each.map_err(|e| e.to_string())?;
    for (key @ (a, _), end) in &accounted {
        match journal.ends.get(key) {
            // The earlier journal was removed by compaction.
            None if journal.is_compacted => {}
            None => wrong.push(format!(
                "accounting has attempt {a}, the journal has no end"
            )),
            Some((_, known)) if known != end => {
                wrong.push(format!(
                    "accounting has attempt {a} as {end:?}, the journal as {known:?}"
                ));
            }
            Some(_) => {}
        }
    }
    let due = journal.ends.iter().filter(|(_, (at, _))| *at <= mark);
    // Of a success after all the earlier end may no longer be in the journal.
    let known = |key: &EndKey| {
        let late = journal.is_compacted && accounted.contains_key(&(key.0, true));
        late || accounted.contains_key(key)
    };
    let missing = due.filter(|(key, _)| !known(key));
    wrong.extend(missing.map(|((a, _), (at, _))| {
        format!("accounting lacks attempt {a}, whose end at {at} is before its mark {mark}")
    }));
    Ok(wrong)
}

fn silence_errors(journal: &JournalContents, confirmed: &BTreeSet<String>) -> Vec<String> {
    let missing = |why: &&String| !journal.is_compacted && !journal.silences.contains_key(*why);
    let missing = confirmed.iter().filter(missing);
    let missing = missing.map(|why| format!("silence {why} was confirmed and is not recorded"));
    let twice = journal.silences.iter().filter(|(_, n)| **n > 1);
    let twice = twice.map(|(why, n)| format!("silence {why} is recorded {n} times"));
    missing.chain(twice).collect()
}

fn read(layout: &Layout, cluster: &str) -> Result<JournalContents, String> {
    let mut journal = JournalContents {
        is_compacted: true,
        ..JournalContents::default()
    };
    let mut first = true;
    let mut given_up: BTreeSet<AttemptId> = BTreeSet::new();
    let mut history = History::new(layout, cluster);
    let read = history.read(&mut |entry| {
        let HistoryEntry::Event { at, event } = entry else {
            return;
        };
        if std::mem::take(&mut first) {
            journal.is_compacted = at.epoch > 1 || at.segment > 1;
        }
        match event {
            Event::Ended { e, .. } => {
                // A repeated record of an end changes nothing.
                let end = (at, (e.t, e.code, e.sig));
                let late = given_up.contains(&e.a) && e.is_success();
                journal.ends.entry((e.a, late)).or_insert(end);
                if e.reason.is_given_up() {
                    given_up.insert(e.a);
                }
            }
            Event::AlertSilenced { why, .. } => *journal.silences.entry(why).or_default() += 1,
            _ => {}
        }
    });
    read.map_err(|e| e.to_string())?;
    Ok(journal)
}

/// The position up to which records are durable according to the last leader.
fn mark(layout: &Layout) -> Result<Position, String> {
    let bytes = sys::fs::read_optional(&layout.acct_written(), MARK_MAX);
    let Some(bytes) = bytes.map_err(|e| e.to_string())? else {
        return Ok(Position::default());
    };
    let mut reader = Reader::new(&bytes);
    // First the header, then the mark.
    reader.next_line().map_err(|e| e.to_string())?;
    let line = reader.next_line().map_err(|e| e.to_string())?;
    let line = line.ok_or("the mark of accounting is empty")?;
    let written: AccountingPosition = line.decode().map_err(|e| e.to_string())?;
    Ok(Position {
        epoch: written.epoch,
        segment: written.segment,
        bytes: written.bytes,
        seq: written.seq,
    })
}
