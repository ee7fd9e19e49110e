//! Snapshots: `snapshot/NNNNNN.yaml`, a framed file of the state with the journal position it
//! covers.
//!
//! Header, `{"k":"covers",...}`, the caller's records, `{"k":"end","records":N}`. Written to a
//! temporary file, synced, renamed: a file without its last record is ignored. The caller owns the
//! meaning of the records.

use super::lines::{LineError, Lines};
use super::{Error, Position};
use crate::record::FORMAT;
use crate::record::frame::{self, Damage, Damaged, Line};
use crate::record::header::{FileKind, Header};
use crate::spool::Layout;
use crate::sys;
use crate::sys::append::Appender;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Number of bytes collected before a write.
const BUFFER: usize = 1 << 20;

/// Records of the container itself.
#[derive(Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
enum ContainerRecord {
    Covers {
        #[serde(flatten)]
        at: Position,
        /// Wall clock of the leader (ms).
        t: i64,
    },
    End {
        records: u64,
    },
}

/// A complete snapshot on disk (its middle is only checked when it is read).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotFile {
    pub number: u64,
    pub path: PathBuf,
    /// Everything before this position is in it.
    pub covers: Position,
    /// Wall clock of the leader when it began to write the snapshot (ms).
    pub t: i64,
    pub records: u64,
    pub bytes: u64,
}

/// Writes one snapshot. If it is dropped before [`SnapshotWriter::finish`], it leaves no file.
#[derive(Debug)]
pub struct SnapshotWriter {
    appender: Appender,
    temporary: PathBuf,
    path: PathBuf,
    number: u64,
    covers: Position,
    t: i64,
    buf: Vec<u8>,
    seq: u64,
    done: bool,
}

impl SnapshotWriter {
    /// Begins a snapshot with the number after the newest one. `covers`: a committed position whose
    /// leadership was checked afterwards; `t`: the wall clock now (ms).
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(
        layout: &Layout,
        cluster: &str,
        covers: Position,
        t: i64,
    ) -> Result<SnapshotWriter, Error> {
        let number = numbers(layout)?.last().map_or(1, |n| n + 1);
        let path = path_of(layout, number);
        let pid = sys::proc::own_pid();
        let temporary_path =
            path.with_file_name(format!(".{number:06}.yaml.{}.{pid}.tmp", covers.epoch));
        sys::fs::remove(&temporary_path)?;
        let mut writer = SnapshotWriter {
            appender: Appender::create_new(&temporary_path)?,
            temporary: temporary_path,
            path,
            number,
            covers,
            t,
            buf: Vec::with_capacity(BUFFER + (64 << 10)),
            seq: 0,
            done: false,
        };
        writer.push(&Header::new(
            FileKind::Snapshot,
            cluster,
            covers.epoch,
            number,
        ))?;
        writer.push(&ContainerRecord::Covers { at: covers, t })?;
        Ok(writer)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The record cannot be represented, is longer than readers accept, or the write failed: the
    /// snapshot must be dropped.
    pub fn push<T: Serialize>(&mut self, value: &T) -> Result<(), Error> {
        let bad = |what: String| Error::Io(sys::Error::invalid("encode for", &self.path, what));
        let from = self.buf.len();
        frame::write(&mut self.buf, self.seq, value).map_err(|e| bad(e.to_string()))?;
        let bytes = self.buf.len() - from;
        if bytes > frame::WRITE_MAX {
            return Err(bad(format!("a record of {bytes} bytes")));
        }
        self.seq += 1;
        if self.buf.len() >= BUFFER {
            self.appender.append(&self.buf)?;
            self.buf.clear();
        }
        Ok(())
    }

    /// Completes the snapshot and makes it valid: synced, renamed, directory synced.
    ///
    /// # Errors
    /// The disk is full or fails; the older snapshots stay valid.
    pub fn finish(mut self) -> Result<SnapshotFile, Error> {
        let records = self.seq - 2;
        self.push(&ContainerRecord::End { records })?;
        if !self.buf.is_empty() {
            self.appender.append(&self.buf)?;
            self.buf.clear();
        }
        self.appender.sync()?;
        sys::fs::rename(&self.temporary, &self.path)?;
        self.done = true;
        sys::fs::fsync_dir(sys::fs::parent(&self.path))?;
        Ok(SnapshotFile {
            number: self.number,
            path: self.path.clone(),
            covers: self.covers,
            t: self.t,
            records,
            bytes: self.appender.valid_len(),
        })
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.done {
            drop(sys::fs::remove(&self.temporary));
        }
    }
}

/// The path of snapshot `number`.
pub fn path_of(layout: &Layout, number: u64) -> PathBuf {
    layout.snapshots().join(name_of(number))
}

pub(super) fn name_of(number: u64) -> String {
    format!("{number:06}.yaml")
}

/// Numbers of all snapshot files, ascending, complete or not.
///
/// # Errors
/// The directory of snapshots cannot be listed.
pub fn numbers(layout: &Layout) -> Result<Vec<u64>, Error> {
    numbers_in(&layout.snapshots())
}

fn numbers_in(dir: &Path) -> Result<Vec<u64>, Error> {
    let entries = sys::fs::list_dir(dir, super::chain::LIST_MAX)?;
    let number = |e: &sys::fs::Entry| e.text().and_then(Layout::parse_snapshot_name);
    let mut numbers: Vec<u64> = entries.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The complete snapshots, newest first. Problems of others are added to `notes`.
///
/// # Errors
/// The directory cannot be listed; a snapshot of a newer format (an older program must not lead).
pub fn list(
    layout: &Layout,
    cluster: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<SnapshotFile>, Error> {
    list_in(&layout.snapshots(), cluster, notes)
}

/// The same for snapshots in another directory.
///
/// # Errors
/// As [`list`].
pub fn list_in(
    dir: &Path,
    cluster: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<SnapshotFile>, Error> {
    let mut found = Vec::new();
    for number in numbers_in(dir)?.into_iter().rev() {
        let path = dir.join(name_of(number));
        match inspect(&path, cluster, number) {
            Ok(Inspected::Usable(f)) => found.push(f),
            Ok(Inspected::Newer(why)) => return Err(Error::Conflict { path, why }),
            // As with damage: the previous snapshot and the journal remain. An error that affects
            // everything shows there.
            Err(LineError::Io(e)) => notes.push(format!("a snapshot is ignored: {e}")),
            Err(LineError::Damaged(damaged)) => {
                notes.push(format!("snapshot {} {damaged}", path.display()));
            }
        }
    }
    Ok(found)
}

/// What the first records and the last one of a snapshot say.
enum Inspected {
    Usable(SnapshotFile),
    /// A newer program wrote it: why this one cannot read it.
    Newer(String),
}

/// What the first records of a snapshot say.
enum SnapshotHead {
    Covers(Position, i64),
    /// As [`Inspected::Newer`].
    Newer(String),
}

fn refuse(offset: u64, why: impl Into<String>) -> LineError {
    let damage = Damage::Content(why.into());
    LineError::Damaged(Damaged { offset, damage })
}

/// Checks the first records and the last one of a snapshot.
fn inspect(path: &Path, cluster: &str, number: u64) -> Result<Inspected, LineError> {
    let mut lines = Lines::new(path, u64::MAX).small_chunks();
    let (covers, t) = match read_front(&mut lines, cluster, number)? {
        SnapshotHead::Covers(at, t) => (at, t),
        SnapshotHead::Newer(why) => return Ok(Inspected::Newer(why)),
    };
    let records = last_mark(path)?;
    let bytes = sys::fs::stat(path)?.map_or(0, |s| s.len);
    Ok(Inspected::Usable(SnapshotFile {
        number,
        path: path.to_path_buf(),
        covers,
        t,
        records,
        bytes,
    }))
}

fn read_front(lines: &mut Lines, cluster: &str, number: u64) -> Result<SnapshotHead, LineError> {
    let step = lines.next_line()?.ok_or_else(|| refuse(0, "it is empty"))?;
    let header: Header = decode(&step.line, 0)?;
    if header.format > FORMAT {
        let found = header.format;
        return Ok(SnapshotHead::Newer(format!(
            "its format {found} is newer than this program's {FORMAT}: upgrade it"
        )));
    }
    if (header.what, header.part) != (FileKind::Snapshot, number) || header.cluster != cluster {
        let text = format!("{:?} {} of {:?}", header.what, header.part, header.cluster);
        return Err(refuse(0, format!("its header names {text}")));
    }
    let step = lines
        .next_line()?
        .ok_or_else(|| refuse(0, "it has no second record"))?;
    match decode(&step.line, step.offset)? {
        ContainerRecord::Covers { at, t } => Ok(SnapshotHead::Covers(at, t)),
        ContainerRecord::End { .. } => Err(refuse(step.offset, "it does not say what it covers")),
    }
}

fn decode<'a, T: Deserialize<'a>>(line: &Line<'a>, offset: u64) -> Result<T, LineError> {
    line.decode()
        .map_err(|damage| LineError::Damaged(Damaged { offset, damage }))
}

/// Record count in the last record, which must be the end mark.
fn last_mark(path: &Path) -> Result<u64, LineError> {
    const TAIL: u64 = 512;
    let len = sys::fs::stat(path)?.map_or(0, |s| s.len);
    let from = len.saturating_sub(TAIL);
    let tail = sys::fs::read_from(path, from, TAIL as usize)?.bytes;
    let incomplete = || refuse(len, "it is not complete");
    let body = tail.strip_suffix(b"\n").ok_or_else(incomplete)?;
    let start = memchr::memrchr(b'\n', body).map_or(0, |n| n + 1);
    let line = frame::parse_line(&body[start..]).map_err(|_| incomplete())?;
    match line.decode() {
        Ok(ContainerRecord::End { records }) if records.checked_add(2) == Some(line.seq) => {
            Ok(records)
        }
        _ => Err(incomplete()),
    }
}

/// Streams the records of a snapshot.
///
/// # Errors
/// Damage anywhere, or an error of `sink`: everything passed on so far must be discarded.
pub fn read(
    found: &SnapshotFile,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), Error> {
    let mut lines = Lines::new(&found.path, u64::MAX);
    let damaged = |e| match e {
        LineError::Io(e) => Error::Io(e),
        LineError::Damaged(damaged) => Error::Damaged {
            path: found.path.clone(),
            damaged,
        },
    };
    for n in 0..found.records + 3 {
        let short = || refuse(found.bytes, "it ends early");
        let step = lines.next_line().and_then(|s| s.ok_or_else(short));
        let step = step.map_err(damaged)?;
        if n < 2 || n == found.records + 2 {
            continue;
        }
        sink(step.line.json).map_err(|why| Error::Refused {
            path: found.path.clone(),
            offset: step.offset,
            why,
        })?;
    }
    match lines.next_line().map_err(damaged)? {
        None => Ok(()),
        Some(step) => Err(damaged(refuse(step.offset, "records follow its end"))),
    }
}
