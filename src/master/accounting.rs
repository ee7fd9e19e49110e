//! The leader's accounting: records of ended attempts on their way to `acct/`.
//!
//! Gets an end only after its commit and the check of the epoch, so no record describes an end that
//! does not exist. Appends in batches, syncs periodically, and then moves the position in
//! `acct/written.yaml`: every end up to it is durable. A new leader replays the ends after this
//! position and appends them again, marked `again`; readers drop copies. No snapshot begins while
//! an end is not durable here ([`Accounts::is_clean`]), so what a snapshot covers needs no replay.
//!
//! Never stops the leader: records that cannot be written wait, with an alarm. Never appends to a
//! file after a failure, or to a file of another leader.

use crate::journal::Position;
use crate::record::acct::{AccountingPosition, AttemptRecord, month_of};
use crate::record::frame::{self, Reader};
use crate::record::header::{FileKind, Header};
use crate::spool::Layout;
use crate::sys::append::Appender;
use crate::sys::{self, failpoint, fs};
use std::collections::BTreeMap;

/// How long records wait so that several are written together, in milliseconds.
const WRITE_MS: u64 = 1_000;
/// Time between two syncs, in milliseconds.
const SYNC_MS: u64 = 10_000;
/// Number of records that are not durable at which a sync starts.
const SYNC_RECORDS: usize = 20_000;
/// Maximum number of records in one write.
const BATCH: usize = 4_096;
/// First and longest pause after a failure, in milliseconds.
const RETRY_MS: (u64, u64) = (2_000, 60_000);
/// Maximum number of months whose files stay open.
const MONTHS_MAX: usize = 3;
/// Maximum number of part numbers that are skipped because files with these names exist.
const TAKEN_MAX: u64 = 64;
/// Maximum size of the mark's file in bytes.
const MARK_MAX: u64 = 4_096;

/// The file of one month that is appended to.
#[derive(Debug)]
struct MonthFile {
    file: Appender,
    seq: u64,
    /// Its name is not durable yet.
    is_new: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Accounts {
    layout: Layout,
    cluster: String,
    epoch: u64,
    /// Ends that are not durable, in order; the first `written` are in files.
    waiting: Vec<AttemptRecord<'static>>,
    written: usize,
    files: BTreeMap<String, MonthFile>,
    /// The number of the last part.
    part: u64,
    wrote_at: u64,
    synced_at: u64,
    /// Why the last attempt failed.
    failed: Option<String>,
    pause: u64,
    not_before: u64,
}

impl Accounts {
    /// `replayed`: ends after the mark, which the previous leader may have written.
    pub(super) fn new(
        layout: &Layout,
        (cluster, epoch): (&str, u64),
        mut replayed: Vec<AttemptRecord<'static>>,
    ) -> Accounts {
        replayed.iter_mut().for_each(|record| record.again = true);
        Accounts {
            layout: layout.clone(),
            cluster: cluster.to_owned(),
            epoch,
            waiting: replayed,
            written: 0,
            files: BTreeMap::new(),
            part: 0,
            wrote_at: 0,
            synced_at: 0,
            failed: None,
            pause: 0,
            not_before: 0,
        }
    }

    /// Adds ends that are durable in the journal.
    pub(super) fn push(&mut self, ends: Vec<AttemptRecord<'static>>) {
        self.waiting.extend(ends);
    }

    /// Whether every end that was added is durable in `acct/`.
    pub(super) fn is_clean(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The alarm for administrators, if there is one.
    pub(super) fn alarm(&self) -> Option<String> {
        let why = self.failed.as_ref()?;
        Some(format!(
            "accounting cannot be written: {why}; ends of jobs wait in the leader's memory and \
             in the journal, and no snapshot is made until they are written: check {}",
            self.layout.acct().display()
        ))
    }

    /// The time of the next thing to do.
    pub(super) fn due_at(&self) -> Option<u64> {
        if self.waiting.is_empty() {
            return None;
        }
        let at = match self.waiting.len() - self.written {
            0 => self.synced_at + SYNC_MS,
            BATCH.. => 0,
            _ => self.wrote_at + WRITE_MS,
        };
        Some(at.max(self.not_before))
    }

    /// Writes and syncs what is due; with `must`, everything. `at`: all ends of the journal up to
    /// here were added. Returns true if the alarm was raised or cleared.
    pub(super) fn write_due(&mut self, at: Position, now: u64, must: bool) -> bool {
        if self.waiting.is_empty() || now < self.not_before {
            return false;
        }
        let was_failing = self.failed.is_some();
        match self.step(at, now, must) {
            Ok(true) => (self.failed, self.pause) = (None, 0),
            Ok(false) => {}
            Err(e) => self.fail(e.to_string(), now),
        }
        was_failing != self.failed.is_some()
    }

    /// Returns true if everything is now durable.
    fn step(&mut self, at: Position, now: u64, must: bool) -> sys::Result<bool> {
        let rest = self.waiting.len() - self.written;
        let rested = now.saturating_sub(self.wrote_at) >= WRITE_MS;
        if rest > 0 && (must || rested || rest >= BATCH) {
            self.write()?;
            self.wrote_at = now;
        }
        let rested = now.saturating_sub(self.synced_at) >= SYNC_MS;
        let many = self.waiting.len() >= SYNC_RECORDS;
        let tries = self.failed.is_some();
        if self.written < self.waiting.len() || !(must || rested || many || tries) {
            return Ok(false);
        }
        self.sync()?;
        self.synced_at = now;
        (self.waiting, self.written) = (Vec::new(), 0);
        if self.files.len() > MONTHS_MAX {
            self.files.clear();
        }
        self.move_mark(at)?;
        Ok(true)
    }

    /// Appends the next batch, the records of each month to its file.
    fn write(&mut self) -> sys::Result<()> {
        let until = self.waiting.len().min(self.written + BATCH);
        let batch = &self.waiting[self.written..until];
        let mut months: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (n, record) in batch.iter().enumerate() {
            months.entry(month_of(record.end)).or_default().push(n);
        }
        for (month, numbers) in months {
            if !self.files.contains_key(&month) {
                let file = self.create(&month)?;
                self.files.insert(month.clone(), file);
            }
            let Some(open) = self.files.get_mut(&month) else {
                continue;
            };
            let mut bytes = Vec::new();
            for n in numbers {
                let record = &self.waiting[self.written + n];
                match frame::write(&mut bytes, open.seq, record) {
                    Ok(()) => open.seq += 1,
                    Err(e) => tracing::error!("a record cannot be written as JSON: {e}"),
                }
            }
            open.file.append(&bytes)?;
        }
        self.written = until;
        failpoint::hit("acct.written");
        Ok(())
    }

    /// Creates a new file of this leader for a month.
    fn create(&mut self, month: &str) -> sys::Result<MonthFile> {
        let mut left = TAKEN_MAX;
        loop {
            self.part += 1;
            let path = self.layout.acct_file(month, self.epoch, self.part);
            fs::mkdir_p(fs::parent(&path), 0o755)?;
            let mut file = match Appender::create_new(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && left > 0 => {
                    left -= 1;
                    continue;
                }
                other => other?,
            };
            let mut bytes = Vec::new();
            let header = Header::new(FileKind::Acct, &self.cluster, self.epoch, self.part);
            if let Err(e) = frame::write(&mut bytes, 0, &header) {
                tracing::error!("a header cannot be written as JSON: {e}");
            }
            if let Err(e) = file.append(&bytes) {
                // A file without its header is useless.
                drop(fs::remove(&path));
                return Err(e);
            }
            let (seq, is_new) = (1, true);
            return Ok(MonthFile { file, seq, is_new });
        }
    }

    fn sync(&mut self) -> sys::Result<()> {
        for open in self.files.values_mut() {
            open.file.sync()?;
            if open.is_new {
                fs::fsync_dir(fs::parent(open.file.path()))?;
                fs::fsync_dir(&self.layout.acct())?;
                fs::fsync_dir(self.layout.root())?;
                open.is_new = false;
            }
        }
        failpoint::hit("acct.synced");
        Ok(())
    }

    /// A mark that is too old only makes the next leader write some copies; no record is lost.
    fn move_mark(&self, at: Position) -> sys::Result<()> {
        let header = Header::new(FileKind::Acct, &self.cluster, self.epoch, 0);
        let written = AccountingPosition {
            epoch: at.epoch,
            segment: at.segment,
            bytes: at.bytes,
            seq: at.seq,
        };
        let mut bytes = Vec::new();
        let framed = frame::write(&mut bytes, 0, &header);
        if let Err(e) = framed.and_then(|()| frame::write(&mut bytes, 1, &written)) {
            tracing::error!("the mark of accounting cannot be written as JSON: {e}");
            return Ok(());
        }
        fs::publish(&self.layout.acct_written(), &bytes)
    }

    /// Handles a failure: what was not synced is written again, to new files.
    fn fail(&mut self, why: String, now: u64) {
        tracing::error!("accounting: {why}");
        self.files.clear();
        self.written = 0;
        self.waiting.iter_mut().for_each(|r| r.again = true);
        self.pause = (self.pause * 2).clamp(RETRY_MS.0, RETRY_MS.1);
        self.not_before = now + self.pause;
        self.failed = Some(why);
    }
}

/// The mark that an earlier leader left; the beginning of the journal if there is none, or none
/// that can belong to this journal.
pub(super) fn mark(layout: &Layout, cluster: &str, epoch: u64) -> Position {
    drop(fs::sweep_asides(
        &layout.acct(),
        sys::clock::wall_ms(),
        ASIDE_MS,
    ));
    let none = Position::default();
    match read_mark(layout, cluster) {
        Ok(Some(at)) if at.epoch < epoch => at,
        Ok(Some(at)) => {
            tracing::warn!("accounting: the mark {at} is not before epoch {epoch}; not used");
            none
        }
        Ok(None) => none,
        Err(why) => {
            tracing::warn!("accounting: {why}; all ends since the snapshot are written again");
            none
        }
    }
}

/// Age at which the temporary file of a mark has no living writer, in milliseconds.
const ASIDE_MS: u64 = 3_600_000;

/// The mark of accounting; `None` if there is none yet.
///
/// # Errors
/// The mark cannot be read, is damaged, or belongs to another cluster.
fn read_mark(layout: &Layout, cluster: &str) -> Result<Option<Position>, String> {
    let path = layout.acct_written();
    let bytes = fs::read_optional(&path, MARK_MAX).map_err(|e| e.to_string())?;
    let Some(bytes) = bytes else { return Ok(None) };
    let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let mut reader = Reader::new(&bytes);
    Header::read(&mut reader, FileKind::Acct, Some(cluster)).map_err(|e| named(&e))?;
    let line = reader.next_line().map_err(|e| named(&e))?;
    let Some(line) = line else {
        return Err(named(&"the mark is missing"));
    };
    let written: AccountingPosition = line.decode().map_err(|e| named(&e))?;
    Ok(Some(Position {
        epoch: written.epoch,
        segment: written.segment,
        bytes: written.bytes,
        seq: written.seq,
    }))
}

#[cfg(test)]
mod tests;
