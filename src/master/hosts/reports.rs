//! Reports files as the leader reads them: which are kept open, and their content.

use crate::record::frame::{Damage, Damaged, Reader};
use crate::record::header::{FileKind, Header};
use crate::record::report::{Report, ReportRecord, RunId};
use crate::spool::Layout;
use crate::sys::fs::Chunk;
use crate::sys::tail::Tail;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of report files that are kept open.
const TAILS_MAX: usize = 256;

/// The result of one read of a report file.
pub(super) struct ReadReports {
    pub reports: Vec<ReportRecord>,
    /// Where reading stopped for a reason other than the end of the file.
    pub damage: Option<Damaged>,
    /// Offset in bytes and sequence number at which the next read continues.
    pub next: (u64, u64),
}

/// The reports in `chunk`, which begins at `from`: an offset in bytes and a sequence number.
pub(super) fn parse_reports(
    chunk: &Chunk,
    path: &Path,
    cluster: &str,
    from: (u64, u64),
) -> ReadReports {
    let mut reader = Reader::resume(&chunk.bytes, from.0, from.1);
    let mut reports = Vec::new();
    let damage = loop {
        if chunk.file_len < from.0 {
            break Some(Damaged {
                offset: chunk.file_len,
                damage: Damage::Torn,
            });
        }
        if reader.offset() == 0 {
            match Header::read(&mut reader, FileKind::Reports, Some(cluster)) {
                Ok(Some(_)) => continue,
                Ok(None) => break None,
                Err(e) => break Some(e),
            }
        }
        match reader.next_line() {
            Ok(None) => break None,
            Ok(Some(line)) => match line.decode::<Report>() {
                Ok(report) => {
                    let run: RunId = line.decode().unwrap_or_default();
                    let seq = line.seq;
                    reports.push(ReportRecord { seq, run, report });
                }
                Err(d) => tracing::warn!("{}: record {}: {d:?}", path.display(), line.seq),
            },
            Err(e) => break Some(e),
        }
    };
    let next = (reader.offset(), reader.next_seq());
    ReadReports {
        reports,
        damage,
        next,
    }
}

/// The report files that were read last; they may be open.
pub(super) struct Tails {
    open: BTreeMap<String, Tail>,
    /// The template for new ones.
    first: Tail,
}

impl Tails {
    pub(super) fn new(layout: &Layout) -> Tails {
        Tails {
            open: BTreeMap::new(),
            first: Tail::of(layout.root()),
        }
    }

    /// The tail of a host's reports; if too many are kept open, another one is closed.
    pub(super) fn of(&mut self, host: &str) -> &mut Tail {
        if self.open.len() >= TAILS_MAX && !self.open.contains_key(host) {
            self.open.pop_first();
        }
        let new = || self.first.another();
        self.open.entry(host.to_owned()).or_insert_with(new)
    }
}
