//! Writes reports: one file per start of `cbexe`, appended to in groups.
//!
//! The file's number is derived from the existing names, so it grows even if the local directory
//! was lost. After a failed write, a new file repeats everything that is not acknowledged.

use crate::record::frame;
use crate::record::header::{FileKind, Header};
use crate::record::report::{MarkedReport, Report, RunId};
use crate::spool::Layout;
use crate::sys::append::Appender;
use crate::sys::{self, fs};

/// Files of earlier starts that are kept for a leader that still reads them.
const KEEP_FILES: usize = 3;
/// Size at which a new file is begun.
const FILE_BYTES: u64 = 64 << 20;

/// The open reports file.
pub(super) struct Reporter {
    file: Appender,
    /// Its inode number.
    ino: u64,
    number: u64,
    seq: u64,
    buf: Vec<u8>,
    sync: bool,
}

impl Reporter {
    /// Begins a new file with a number above `above` and above all existing ones. `sync`: appended
    /// data must be synced before the leader can see it.
    ///
    /// # Errors
    /// The share cannot be written.
    pub(super) fn create(
        layout: &Layout,
        (host, above): (&str, u64),
        cluster: &str,
        sync: bool,
    ) -> sys::Result<Reporter> {
        let dir = layout.host(host);
        fs::mkdir_p(&dir, 0o755)?;
        let names = fs::list_dir(&dir, 1_000_000)?;
        let numbers = names
            .iter()
            .filter_map(|e| Layout::parse_reports_name(e.text()?));
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        let mut number = numbers.last().copied().unwrap_or(0).max(above) + 1;
        let file = loop {
            match Appender::create_new(&layout.reports(host, number)) {
                // A name that this client did not see: the next number is tried.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                other => break other?,
            }
        };
        for old in numbers.iter().rev().skip(KEEP_FILES) {
            let _ = fs::remove(&layout.reports(host, *old));
        }
        let mut r = Reporter {
            ino: fs::mark(file.path())?.ino,
            file,
            number,
            seq: 0,
            buf: Vec::new(),
            sync,
        };
        let header = Header::new(FileKind::Reports, cluster, 0, number);
        frame::write(&mut r.buf, 0, &header).expect("plain data becomes JSON");
        r.seq = 1;
        Ok(r)
    }

    /// The file's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The file's number and length.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.number, self.file.valid_len())
    }

    /// Adds a report of this run for the next `flush`. Returns its sequence number.
    pub(super) fn push(&mut self, report: &Report, run: RunId) -> u64 {
        let marked = MarkedReport { report, run };
        frame::write(&mut self.buf, self.seq, &marked).expect("plain data becomes JSON");
        self.seq += 1;
        self.seq - 1
    }

    /// Whether nothing was pushed since the last flush.
    pub(super) fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Writes the pushed reports with one append.
    ///
    /// # Errors
    /// The share cannot be written: this file must be given up and another one created.
    pub(super) fn flush(&mut self) -> sys::Result<()> {
        if self.buf.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.buf);
        self.file.append(&bytes)?;
        if self.sync { self.file.sync() } else { Ok(()) }
    }

    /// Returns false if another file has this name by now, or the file has lost data: the share was
    /// restored from a copy, and the leader does not read what is written here.
    pub(super) fn is_same_file(&self) -> bool {
        match fs::mark(self.file.path()) {
            Ok(mark) => mark.ino == self.ino && mark.len >= self.file.valid_len(),
            Err(e) => !e.is_not_found(),
        }
    }

    /// Whether a new file should be begun.
    pub(super) fn is_full(&self) -> bool {
        self.file.valid_len() > FILE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::frame::Reader;

    #[test]
    fn each_file_has_a_higher_number_and_reads_back() {
        let d = tempfile::tempdir().unwrap();
        let layout = Layout::new(d.path());
        for number in 1..=6 {
            let mut r = Reporter::create(&layout, ("h1", 0), "c", true).unwrap();
            assert_eq!(r.number(), number);
            assert_eq!(
                r.push(&Report::Complete { boot: "b".into() }, RunId::default()),
                1
            );
            r.flush().unwrap();
            let bytes = fs::read_small(&layout.reports("h1", number), 9999).unwrap();
            let mut reader = Reader::new(&bytes);
            let header = Header::read(&mut reader, FileKind::Reports, Some("c")).unwrap();
            assert_eq!(header.unwrap().part, number);
            let line = reader.next_line().unwrap().unwrap();
            assert!(matches!(line.decode(), Ok(Report::Complete { .. })));
        }
        assert!(!fs::exists(&layout.reports("h1", 1)));
        assert!(fs::exists(&layout.reports("h1", 5)));
        let number = |above| {
            let r = Reporter::create(&layout, ("h1", above), "c", true).unwrap();
            r.number()
        };
        assert_eq!((number(9), number(3)), (10, 11), "the leader may know one");
    }
}
