//! The records in `acct/`: which files, in which order, each ended attempt once.
//!
//! Reads one file after the other, in parts; keeps in memory only the list of files and the keys of
//! records that may have a copy (marked `again`, at the beginning of a leader's file). If only sums
//! are needed, several threads share the pieces of a long file. Never stops at damage: it is
//! reported by file and offset, and the rest is read.

use crate::journal::{LineError, Lines};
use crate::record::FORMAT;
use crate::record::acct::{AttemptRecord, Key};
use crate::record::frame::{Damage, parse_line};
use crate::record::header::{FileKind, Header};
use crate::spool::Layout;
use crate::sys;
use rustc_hash::FxHashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See [`Records::piece`].
const PIECE: u64 = 4 << 20;
/// Maximum number of threads that read one file.
const THREADS_MAX: usize = 8;
/// Number of bytes read at a time to find the first line of a piece.
const PEEK: usize = 64 << 10;
/// Maximum number of names read in one directory.
const NAMES_MAX: usize = 1_000_000;

/// A file. Files are read in the order of month, leader and part.
struct RecordFile {
    path: PathBuf,
    place: (String, u64, u64),
}

/// See the top of this file.
pub(crate) struct Records {
    cluster: String,
    files: Vec<RecordFile>,
    /// For each record that may have copies, the last file that contains it.
    copies: FxHashMap<Key, usize>,
    /// Size of the piece of a file that a thread reads before it takes the next one, in bytes.
    piece: u64,
}

/// A function that is called for each record.
pub(crate) type Sink<'s> = dyn FnMut(&AttemptRecord<'_>) -> Result<(), sys::Error> + 's;

impl Records {
    /// Finds the files of the months that are `wanted`, and which records have copies.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub(crate) fn open(
        layout: &Layout,
        cluster: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Records, sys::Error> {
        let mut files = Vec::new();
        for month in list(&layout.acct())? {
            if !Layout::is_acct_month(&month) || !wanted(&month) {
                continue;
            }
            let dir = layout.acct().join(&month);
            for name in list(&dir)? {
                if let Some((epoch, part)) = Layout::parse_acct_name(&name) {
                    let path = dir.join(name);
                    let place = (month.clone(), epoch, part);
                    files.push(RecordFile { path, place });
                }
            }
        }
        files.sort_by(|a, b| a.place.cmp(&b.place));
        let mut records = Records {
            cluster: cluster.to_owned(),
            files,
            copies: FxHashMap::default(),
            piece: PIECE,
        };
        for n in 0..records.files.len() {
            records.find_copies(n)?;
        }
        Ok(records)
    }

    /// Notes the records at the front of a file that may also be in an earlier one.
    fn find_copies(&mut self, n: usize) -> Result<(), sys::Error> {
        let (path, copies) = (&self.files[n].path, &mut self.copies);
        let mut lines = Lines::new(path, u64::MAX).small_chunks();
        loop {
            match lines.next_line() {
                Ok(None) => return Ok(()),
                Ok(Some(step)) if step.line.seq == 0 => {}
                Ok(Some(step)) => match step.line.decode::<AttemptRecord<'_>>() {
                    Ok(record) if record.again => drop(copies.insert(record.key(), n)),
                    Ok(_) => return Ok(()),
                    Err(_) => {}
                },
                Err(LineError::Io(e)) if e.is_not_found() => return Ok(()),
                Err(LineError::Io(e)) => return Err(e),
                Err(LineError::Damaged(_)) => {
                    if !lines.skip()?.intact_after {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Passes each ended attempt once to `on`, in the order of the files; damage is reported to
    /// `warn`.
    ///
    /// # Errors
    /// A file cannot be read, or `on` failed.
    pub(crate) fn for_each(
        &self,
        on: &mut Sink<'_>,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), sys::Error> {
        for n in 0..self.files.len() {
            self.read(n, on, warn)?;
        }
        Ok(())
    }

    /// Adds each ended attempt once to sums and passes these to `merge`, in no particular order:
    /// `new` creates empty sums, `add` counts a record. Damage is reported to `warn`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn sum<T: Send>(
        &self,
        new: &(dyn Fn() -> T + Sync),
        add: &(dyn Fn(&mut T, &AttemptRecord<'_>) + Sync),
        merge: &mut dyn FnMut(T),
        warn: &mut dyn FnMut(String),
    ) -> Result<(), sys::Error> {
        for n in 0..self.files.len() {
            if let Some(sums) = self.sum_pieces(n, new, add) {
                sums.into_iter().for_each(&mut *merge);
                continue;
            }
            let mut sum = new();
            let on = &mut |record: &AttemptRecord<'_>| {
                add(&mut sum, record);
                Ok(())
            };
            self.read(n, on, warn)?;
            merge(sum);
        }
        Ok(())
    }

    /// The sums of a long file that several threads have read. `None`: the file is short, or
    /// something in it is unusual; then a single thread reads it from the beginning.
    fn sum_pieces<T: Send>(
        &self,
        n: usize,
        new: &(dyn Fn() -> T + Sync),
        add: &(dyn Fn(&mut T, &AttemptRecord<'_>) + Sync),
    ) -> Option<Vec<T>> {
        let path = &self.files[n].path;
        let stat = sys::fs::stat(path).ok()??;
        let pieces = stat.len.div_ceil(self.piece);
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = threads.min(THREADS_MAX);
        if pieces < 2 || threads < 2 {
            return None;
        }
        let (next, odd) = (AtomicU64::new(0), AtomicBool::new(false));
        let read = Mutex::new(Vec::new());
        let work = || {
            let mut sum = new();
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= pieces || odd.load(Ordering::Relaxed) {
                    return sum;
                }
                let is_last = piece + 1 == pieces;
                let on = &mut |record: &AttemptRecord<'_>| add(&mut sum, record);
                match self.read_piece(n, piece, is_last, on) {
                    Some(span) => read.lock().expect("no thread panics").push(span),
                    None => odd.store(true, Ordering::Relaxed),
                }
            }
        };
        let sums = std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let sums = all.into_iter().map(|thread| thread.join().ok());
            sums.collect::<Option<Vec<T>>>()
        })?;
        let mut spans = read.into_inner().ok()?;
        spans.sort_unstable_by_key(|span| span.from);
        let follows = |pair: &[ReadRange]| pair[0].to == pair[1].from;
        let whole = spans.len() as u64 == pieces && spans.windows(2).all(follows);
        (whole && !odd.into_inner()).then_some(sums)
    }

    /// Reads the lines that begin in a piece of a file; `None` if one of them is not as expected.
    fn read_piece(
        &self,
        n: usize,
        piece: u64,
        is_last: bool,
        on: &mut dyn FnMut(&AttemptRecord<'_>),
    ) -> Option<ReadRange> {
        let path = &self.files[n].path;
        let from = match piece {
            0 => (0, 0),
            _ => first_line(path, piece * self.piece)?,
        };
        let end = if is_last {
            u64::MAX
        } else {
            (piece + 1) * self.piece
        };
        let mut lines = Lines::resume(path, from.0, from.1, u64::MAX);
        loop {
            if lines.offset() >= end {
                break;
            }
            let step = match lines.next_line() {
                Ok(None) => break,
                Ok(Some(step)) => step,
                // A partial line at the end: its writer crashed, or is still writing it.
                Err(LineError::Damaged(d)) if is_last && d.damage == Damage::Torn => break,
                Err(_) => return None,
            };
            if step.line.seq == 0 {
                self.header(step.line.json).ok()?;
                continue;
            }
            let record = step.line.decode::<AttemptRecord<'_>>().ok()?;
            if !self.is_copy(&record, n) {
                on(&record);
            }
        }
        let to = (lines.offset(), lines.next_seq());
        Some(ReadRange { from, to })
    }

    fn read(
        &self,
        n: usize,
        on: &mut Sink<'_>,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), sys::Error> {
        let path = &self.files[n].path;
        let mut lines = Lines::new(path, u64::MAX);
        loop {
            let step = match lines.next_line() {
                Ok(None) => return Ok(()),
                Ok(Some(step)) => step,
                Err(LineError::Io(e)) if e.is_not_found() => return Ok(()),
                Err(LineError::Io(e)) => return Err(e),
                Err(LineError::Damaged(damaged)) => {
                    let intact = lines.skip()?.intact_after;
                    // A partial line at the end: its writer crashed, or is still writing it.
                    if intact || damaged.damage != Damage::Torn {
                        warn(damage_text(path, damaged.offset, &damaged.damage));
                    }
                    match intact {
                        true => continue,
                        false => return Ok(()),
                    }
                }
            };
            if step.line.seq == 0 {
                if let Err(why) = self.header(step.line.json) {
                    warn(damage_text(path, 0, &why));
                    return Ok(());
                }
                continue;
            }
            match step.line.decode::<AttemptRecord<'_>>() {
                Ok(record) if self.is_copy(&record, n) => {}
                Ok(record) => on(&record)?,
                Err(damage) => warn(damage_text(path, step.offset, &damage)),
            }
        }
    }

    fn header(&self, json: &[u8]) -> Result<(), String> {
        let header: Header = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        if header.what != FileKind::Acct || header.cluster != self.cluster {
            return Err("not an accounting file of this cluster".to_owned());
        }
        if header.format > FORMAT {
            let newer = header.format;
            return Err(format!(
                "format {newer} is newer than this program's {FORMAT}"
            ));
        }
        Ok(())
    }

    /// Whether a later file also has the record.
    fn is_copy(&self, record: &AttemptRecord<'_>, n: usize) -> bool {
        if self.copies.is_empty() {
            return false;
        }
        self.copies.get(&record.key()).is_some_and(|last| *last > n)
    }
}

/// What was read of a file: offset and sequence number of the first line, and those after the last
/// one.
struct ReadRange {
    from: (u64, u64),
    to: (u64, u64),
}

/// Offset and sequence number of the first line that begins at `at` or later.
fn first_line(path: &Path, at: u64) -> Option<(u64, u64)> {
    let before = sys::fs::read_from(path, at - 1, PEEK).ok()?.bytes;
    let begin = memchr::memchr(b'\n', &before)? + 1;
    let end = begin + memchr::memchr(b'\n', before.get(begin..)?)?;
    let line = parse_line(&before[begin..end]).ok()?;
    Some((at - 1 + begin as u64, line.seq))
}

fn damage_text(path: &Path, offset: u64, what: &dyn Display) -> String {
    format!("{}:{offset}: {what}; skipped", path.display())
}

/// The names in a directory, sorted; none if it is missing.
fn list(dir: &Path) -> Result<Vec<String>, sys::Error> {
    let entries = match sys::fs::list_dir(dir, NAMES_MAX) {
        Err(e) if e.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let names = entries.iter().filter_map(|e| e.text().map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;
    use crate::record::frame;
    use std::collections::BTreeMap;

    fn record(id: u32, again: bool) -> AttemptRecord<'static> {
        AttemptRecord {
            j: JobKey::job(id),
            at: 1,
            again,
            user: "u1".into(),
            queue: "q".into(),
            command: "x".repeat(id as usize % 90).into(),
            cpu_ms: u64::from(id),
            ..AttemptRecord::default()
        }
    }

    /// Writes a leader's file with these jobs, of which the first `copies` are also in an earlier
    /// one.
    fn put(layout: &Layout, epoch: u64, ids: std::ops::Range<u32>, copies: u32) -> PathBuf {
        let mut out = Vec::new();
        frame::write(&mut out, 0, &Header::new(FileKind::Acct, "c", epoch, 1)).unwrap();
        let first = ids.start;
        for (seq, id) in (1..).zip(ids) {
            frame::write(&mut out, seq, &record(id, id < first + copies)).unwrap();
        }
        let path = layout.acct_file("2026-11", epoch, 1);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, out).unwrap();
        path
    }

    type Seen = BTreeMap<u32, u32>;

    /// How often each job is counted, by one reader and by threads, and the warnings of each.
    fn both(records: &Records) -> [(Seen, Vec<String>); 2] {
        let mut one = (Seen::new(), Vec::new());
        let on = &mut |r: &AttemptRecord<'_>| {
            *one.0.entry(r.j.id).or_default() += 1;
            Ok(())
        };
        records.for_each(on, &mut |text| one.1.push(text)).unwrap();
        let mut many = (Seen::new(), Vec::new());
        let merge = &mut |part: Seen| {
            for (id, n) in part {
                *many.0.entry(id).or_default() += n;
            }
        };
        let add = |sum: &mut Seen, r: &AttemptRecord<'_>| *sum.entry(r.j.id).or_default() += 1;
        records
            .sum(&Seen::new, &add, merge, &mut |text| many.1.push(text))
            .unwrap();
        [one, many]
    }

    fn in_pieces(records: &Records, n: usize) -> bool {
        let add = |sum: &mut u32, _: &AttemptRecord<'_>| *sum += 1;
        records.sum_pieces(n, &|| 0, &add).is_some()
    }

    #[test]
    fn threads_that_share_a_file_count_what_one_reader_counts() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let path = put(&layout, 1, 1..2000, 0);
        put(&layout, 2, 1990..2600, 20);
        let mut records = Records::open(&layout, "c", |_| true).unwrap();
        let wanted: Seen = (1..2600).map(|id| (id, 1)).collect();
        for piece in [200, 1000, 4096, 70_000, 1 << 20] {
            records.piece = piece;
            let [one, many] = both(&records);
            assert_eq!(one, (wanted.clone(), Vec::new()));
            assert_eq!(many, one, "pieces of {piece}");
        }
        records.piece = 4096;
        let several = std::thread::available_parallelism().unwrap().get() > 1;
        assert_eq!(in_pieces(&records, 0), several);
        // A partial line at the end is not damage.
        let good = std::fs::read(&path).unwrap();
        std::fs::write(&path, &good[..good.len() - 5]).unwrap();
        assert_eq!(in_pieces(&records, 0), several);
        let [one, many] = both(&records);
        assert_eq!((one.0.len(), one.1.len()), (wanted.len(), 0));
        assert_eq!(many, one);
    }

    #[test]
    fn a_file_with_anything_unusual_is_read_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let path = put(&layout, 1, 1..2000, 0);
        let good = std::fs::read(&path).unwrap();
        let mut records = Records::open(&layout, "c", |_| true).unwrap();
        records.piece = 4096;
        let line = |at: usize| good[..at].iter().rposition(|b| *b == b'\n').unwrap() + 1;
        let (from, to) = (line(good.len() / 2), line(good.len() / 2 + 2000));
        let mut flipped = good.clone();
        flipped[from + 9] ^= 1;
        let removed = [&good[..from], &good[to..]].concat();
        let repeated = [&good[..to], &good[from..]].concat();
        let foreign = String::from_utf8(good.clone())
            .unwrap()
            .replace("\"c\"", "\"d\"");
        for bad in [flipped, removed, repeated, foreign.into_bytes()] {
            std::fs::write(&path, &bad).unwrap();
            assert!(!in_pieces(&records, 0));
            let [one, many] = both(&records);
            assert_eq!(one.1.len(), 1, "{:?}", one.1);
            assert_eq!(many, one);
        }
    }
}
