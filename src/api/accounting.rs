//! Accounting records as JSON documents, for programs that store them: the records that were added
//! to the files of `acct/` since the last call.
//!
//! Owns the positions up to which files were read. A record that two files contain
//! (docs/accounting.md) is returned twice, with the same key. Only reads; never stops at damage.

use super::Failure;
use super::events::{identity, system};
use crate::client::cacct::print;
use crate::journal::{LineError, Lines};
use crate::record::FORMAT;
use crate::record::acct::AttemptRecord;
use crate::record::frame::Damage;
use crate::record::header::{FileKind, Header};
use crate::spool::{Layout, Site};
use crate::sys;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of names read in one directory.
const NAMES_MAX: usize = 1_000_000;
/// Maximum number of files whose positions are kept.
const FILES_MAX: usize = 100_000;

/// The position up to which each file (`2026-11/000007.0001.yaml`) was read: offset, number of the
/// next record.
pub type FilePositions = BTreeMap<String, (u64, u64)>;

/// The record of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordLine {
    /// Permanent name: job, index, attempt and mark; `.late` if it was recorded as lost before.
    pub key: String,
    /// When the attempt ended, ms since 1970.
    pub end_ms: i64,
    /// A JSON object on one line, without the newline.
    pub json: String,
}

/// The result of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordBatch {
    pub records: Vec<RecordLine>,
    /// What could not be read, as sentences with file and offset.
    pub problems: Vec<String>,
    /// More can be read at once.
    pub more: bool,
}

/// Follows the accounting files.
pub struct RecordFollower {
    layout: Layout,
    cluster: String,
    positions: FilePositions,
}

impl RecordFollower {
    /// Follows the records after these positions.
    ///
    /// # Errors
    /// The cluster file cannot be read.
    pub fn open(site: &Site, positions: FilePositions) -> Result<RecordFollower, Failure> {
        Ok(RecordFollower {
            layout: site.layout(),
            cluster: identity(site)?.id,
            positions,
        })
    }

    /// The positions up to which files were read.
    pub fn positions(&self) -> &FilePositions {
        &self.positions
    }

    /// The next records, at most `most` of them and about `bytes` of documents; empty: no attempt
    /// has ended since.
    ///
    /// # Errors
    /// A directory or file cannot be read, or there are too many files; the next call tries again
    /// from the same positions.
    pub fn next_records(&mut self, most: usize, bytes: usize) -> Result<RecordBatch, Failure> {
        let mut batch = RecordBatch::default();
        let mut room = (most.max(1), bytes);
        let files = self.files()?;
        self.positions.retain(|name, _| files.contains_key(name));
        for (name, len) in files {
            let position = self.positions.get(&name).copied().unwrap_or_default();
            if position.0 >= len {
                continue;
            }
            let position = self.read(&name, position, &mut room, &mut batch)?;
            self.positions.insert(name, position);
            if batch.more {
                return Ok(batch);
            }
        }
        Ok(batch)
    }

    /// The files by month, leader and part, with their lengths.
    fn files(&self) -> Result<BTreeMap<String, u64>, Failure> {
        let root = self.layout.acct();
        let mut files = BTreeMap::new();
        for month in list(&root)?.iter().filter(|m| Layout::is_acct_month(m)) {
            let dir = root.join(month);
            for name in list(&dir)? {
                if Layout::parse_acct_name(&name).is_none() {
                    continue;
                }
                let stat = sys::fs::stat(&dir.join(&name)).map_err(|e| system(&e))?;
                let len = stat.map_or(0, |stat| stat.len);
                files.insert(format!("{month}/{name}"), len);
            }
        }
        match files.len() {
            0..=FILES_MAX => Ok(files),
            n => Err(system(&format!(
                "{} holds {n} files, at most {FILES_MAX} can be followed\nhint: move away months \
                 that are no longer needed",
                root.display()
            ))),
        }
    }

    /// Continues to read a file. Returns the position after the records that were returned.
    fn read(
        &self,
        name: &str,
        from: (u64, u64),
        room: &mut (usize, usize),
        batch: &mut RecordBatch,
    ) -> Result<(u64, u64), Failure> {
        let path = self.layout.acct().join(name);
        let mut lines = Lines::resume(&path, from.0, from.1, u64::MAX);
        loop {
            if room.0 == 0 || room.1 == 0 {
                batch.more = true;
                break;
            }
            let step = match lines.next_line() {
                Ok(None) => break,
                Ok(Some(step)) => step,
                Err(LineError::Io(e)) if e.is_not_found() => break,
                Err(LineError::Io(e)) => return Err(system(&e)),
                // An incomplete line at the end: its writer has died or is writing it now.
                Err(LineError::Damaged(damaged)) => {
                    let before = (lines.offset(), lines.next_seq());
                    let intact = lines.skip().map_err(|e| system(&e))?.intact_after;
                    if intact || damaged.damage != Damage::Torn {
                        let at = damaged.offset;
                        let text = format!("{}:{at}: {}; skipped", path.display(), damaged.damage);
                        batch.problems.push(text);
                    }
                    match intact {
                        true => continue,
                        false if damaged.damage == Damage::Torn => return Ok(before),
                        false => break,
                    }
                }
            };
            if step.line.seq == 0 {
                if let Err(why) = self.check(step.line.json) {
                    batch.problems.push(format!("{}: {why}", path.display()));
                    // Nothing in this file is ever read.
                    return Ok((u64::MAX, 0));
                }
                continue;
            }
            match step.line.decode::<AttemptRecord<'_>>() {
                Ok(record) => {
                    let line = line_of(&record);
                    *room = (room.0 - 1, room.1.saturating_sub(line.json.len()));
                    batch.records.push(line);
                }
                Err(damage) => {
                    let at = step.offset;
                    let text = format!("{}:{at}: {damage}; skipped", path.display());
                    batch.problems.push(text);
                }
            }
        }
        Ok((lines.offset(), lines.next_seq()))
    }

    fn check(&self, json: &[u8]) -> Result<(), String> {
        let header: Header = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        match () {
            () if header.what != FileKind::Acct || header.cluster != self.cluster => {
                Err("not an accounting file of this cluster; skipped".to_owned())
            }
            () if header.format > FORMAT => Err(format!(
                "format {} is newer than this program's {FORMAT}; skipped",
                header.format
            )),
            () => Ok(()),
        }
    }
}

fn line_of(record: &AttemptRecord<'_>) -> RecordLine {
    let (j, attempt, mark, late) = record.key();
    let late = if late { ".late" } else { "" };
    let mut json = String::with_capacity(512);
    print::json(&mut json, record, None);
    RecordLine {
        key: format!("{}.{}.{attempt}.{mark}{late}", j.id, j.idx),
        end_ms: record.end,
        json,
    }
}

/// The names in a directory in order; empty if it is missing.
fn list(dir: &Path) -> Result<Vec<String>, Failure> {
    let entries = match sys::fs::list_dir(dir, NAMES_MAX) {
        Err(e) if e.is_not_found() => return Ok(Vec::new()),
        other => other.map_err(|e| system(&e))?,
    };
    let mut names: Vec<String> = Vec::with_capacity(entries.len());
    names.extend(entries.iter().filter_map(|e| e.text().map(str::to_owned)));
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;
    use crate::record::frame;
    use crate::record::leader::ClusterDoc;

    struct TestCluster {
        dir: tempfile::TempDir,
        site: Site,
    }

    impl TestCluster {
        fn new() -> TestCluster {
            let dir = tempfile::tempdir().unwrap();
            let conf = format!("CB_SHARE={}\n", dir.path().display());
            let site = Site::from_conf(Path::new("/e/cb.conf"), &conf, None).unwrap();
            let doc = ClusterDoc {
                cluster: "c".into(),
                name: "test".into(),
                format: FORMAT,
                service_uid: 0,
                service_gid: 0,
            };
            let text = serde_json::to_vec(&doc).unwrap();
            std::fs::write(site.layout().cluster(), text).unwrap();
            TestCluster { dir, site }
        }

        /// Writes a leader's file of a month with these jobs.
        fn put(&self, month: &str, epoch: u64, ids: std::ops::Range<u32>, again: bool) -> Vec<u8> {
            let mut out = Vec::new();
            frame::write(&mut out, 0, &Header::new(FileKind::Acct, "c", epoch, 1)).unwrap();
            for (seq, id) in (1..).zip(ids) {
                let record = AttemptRecord {
                    j: JobKey::job(id),
                    at: 1,
                    mark: 7,
                    end: 1000,
                    again,
                    ..AttemptRecord::default()
                };
                frame::write(&mut out, seq, &record).unwrap();
            }
            self.write(month, epoch, &out);
            out
        }

        fn write(&self, month: &str, epoch: u64, bytes: &[u8]) {
            let path = Layout::new(self.dir.path()).acct_file(month, epoch, 1);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }

    fn keys(batch: &RecordBatch) -> Vec<&str> {
        batch.records.iter().map(|r| r.key.as_str()).collect()
    }

    #[test]
    fn what_is_appended_is_given_once_also_after_a_restart() {
        let bed = TestCluster::new();
        let whole = bed.put("2026-11", 1, 1..5, false);
        let end = whole.len();
        // The last line is incomplete: its writer is writing it or has died.
        bed.write("2026-11", 1, &whole[..end - 9]);
        let mut follower = RecordFollower::open(&bed.site, FilePositions::new()).unwrap();
        let first = follower.next_records(2, 1 << 20).unwrap();
        assert_eq!(
            (keys(&first), first.more),
            (vec!["1.0.1.7", "2.0.1.7"], true)
        );
        let positions = follower.positions().clone();
        for mut follower in [
            follower,
            RecordFollower::open(&bed.site, positions).unwrap(),
        ] {
            bed.write("2026-11", 1, &whole[..end - 9]);
            let batch = follower.next_records(9, 1 << 20).unwrap();
            assert_eq!((keys(&batch), batch.more), (vec!["3.0.1.7"], false));
            assert_eq!(
                follower.next_records(9, 1 << 20).unwrap(),
                RecordBatch::default()
            );
            bed.write("2026-11", 1, &whole);
            let batch = follower.next_records(9, 1 << 20).unwrap();
            assert_eq!(keys(&batch), ["4.0.1.7"]);
            assert!(
                batch.problems.is_empty()
                    && follower.next_records(9, 1).unwrap().records.is_empty()
            );
        }
    }

    #[test]
    fn a_copy_has_the_key_of_its_record_and_months_may_go() {
        let bed = TestCluster::new();
        bed.put("2026-10", 1, 1..3, false);
        bed.put("2026-11", 2, 2..4, true);
        let mut follower = RecordFollower::open(&bed.site, FilePositions::new()).unwrap();
        let batch = follower.next_records(9, 1 << 20).unwrap();
        assert_eq!(keys(&batch), ["1.0.1.7", "2.0.1.7", "2.0.1.7", "3.0.1.7"]);
        assert_eq!(follower.positions().len(), 2);
        std::fs::remove_dir_all(bed.dir.path().join("acct/2026-10")).unwrap();
        assert_eq!(
            follower.next_records(9, 1 << 20).unwrap(),
            RecordBatch::default()
        );
        assert_eq!(follower.positions().len(), 1);
    }

    #[test]
    fn damage_is_named_once_and_the_rest_is_given() {
        let bed = TestCluster::new();
        let mut bytes = bed.put("2026-11", 1, 1..4, false);
        let second = bytes.iter().position(|b| *b == b'\n').unwrap() + 3;
        bytes[second] ^= 1;
        bed.write("2026-11", 1, &bytes);
        let text = String::from_utf8(bed.put("2026-10", 1, 1..4, false)).unwrap();
        bed.write("2026-10", 1, text.replace("\"c\"", "\"d\"").as_bytes());
        let mut follower = RecordFollower::open(&bed.site, FilePositions::new()).unwrap();
        let batch = follower.next_records(9, 1 << 20).unwrap();
        assert_eq!(keys(&batch), ["2.0.1.7", "3.0.1.7"]);
        assert_eq!(batch.problems.len(), 2, "{batch:?}");
        assert!(batch.problems[1].contains("000001.0001.yaml:"), "{batch:?}");
        assert_eq!(
            follower.next_records(9, 1 << 20).unwrap(),
            RecordBatch::default()
        );
    }
}
