//! The rows of one shard, each in the version of the deltas if they have one.
//!
//! Owns which version of a row is passed on, once. Opens no file.

use super::row_head::{RowHead, decode_job, peek_or_decode};
use super::{JobSet, ViewItem, counts, fast};
use crate::model::{JobKey, JobStat, PendReason, Spec};
use crate::record::frame::{Damage, Damaged, Reader};
use crate::record::header::{FileKind, Header};
use crate::record::view::{self, Row};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Specifications of one file: `None` = defined but not requested.
type Specs = HashMap<u32, Option<Arc<Spec>>>;

/// Rows of the deltas, only the last one of each job.
#[derive(Default)]
pub(super) struct Overlay<'b> {
    /// `None` = the element is gone.
    rows: HashMap<JobKey, Option<OverlayRow<'b>>>,
    /// Jobs that were removed, and how many rows of jobs had been read by then: later rows are of
    /// another job that got the id.
    removed: HashMap<u32, u64>,
    /// Rows of jobs read so far.
    read: u64,
    classes: HashMap<u32, PendReason>,
    /// Per delta file, because the numbers belong to the file.
    specs: Vec<Specs>,
}

struct OverlayRow<'b> {
    json: &'b [u8],
    /// Its place among all rows of jobs.
    place: u64,
    file: usize,
    spec: u32,
    stat: JobStat,
    /// It was passed on, or was found not to be requested.
    sent: AtomicBool,
}

impl<'b> Overlay<'b> {
    pub(super) fn add(
        &mut self,
        name: &str,
        bytes: &'b [u8],
        want: &JobSet<'_>,
        warnings: &mut Vec<String>,
    ) {
        self.specs.push(Specs::new());
        if let Err(d) = self.add_rows(bytes, want) {
            // A torn last line is still being written.
            if d.damage != Damage::Torn {
                warnings.push(format!("view/{name} {d}"));
            }
        }
    }

    fn add_rows(&mut self, bytes: &'b [u8], want: &JobSet<'_>) -> Result<(), Damaged> {
        let file = self.specs.len() - 1;
        let mut reader = Reader::new(bytes);
        Header::read(&mut reader, FileKind::View, None)?;
        loop {
            let offset = reader.offset();
            let Some(line) = reader.next_line()? else {
                return Ok(());
            };
            let damaged = |damage| Damaged { offset, damage };
            if let Some(p) = peek_or_decode(line.json).map_err(damaged)? {
                self.read += 1;
                let row = OverlayRow {
                    json: line.json,
                    place: self.read,
                    file,
                    spec: p.spec,
                    stat: p.stat,
                    sent: AtomicBool::new(false),
                };
                if want.wants_id(p.key.id) {
                    self.rows.insert(p.key, Some(row));
                }
                continue;
            }
            if counts::is_counts(line.json) {
                continue;
            }
            match line.decode().map_err(damaged)? {
                Row::Spec { id, spec } => {
                    let spec = want.wants_spec(&spec).then(|| Arc::from(spec));
                    self.specs[file].insert(id, spec);
                }
                Row::Gone { j } if j.idx == 0 => {
                    self.removed.insert(j.id, self.read);
                }
                Row::Gone { j } => {
                    self.rows.insert(j, None);
                }
                Row::Class { id, why } => {
                    self.classes.insert(id, why);
                }
                Row::Job(_) | Row::Counts(_) | Row::Other => {}
            }
        }
    }

    /// Passes on the delta's version of `key`. Returns `false` if the delta does not have it.
    fn emit(
        &self,
        key: JobKey,
        want: &JobSet<'_>,
        warnings: &mut Vec<String>,
        sink: &mut dyn FnMut(ViewItem<'_>),
    ) -> bool {
        let removed = self.removed.get(&key.id);
        let row = match self.rows.get(&key) {
            None => return removed.is_some(),
            Some(None) => return true,
            Some(Some(row)) if removed.is_some_and(|place| row.place <= *place) => return true,
            Some(Some(row)) => row,
        };
        // A key is in only one shard, so at most one thread gets here before the rest.
        row.sent.store(true, Ordering::Relaxed);
        if !want.wants_stat(row.stat) {
            return true;
        }
        match self.specs[row.file].get(&row.spec) {
            Some(None) => {}
            Some(Some(spec)) => emit_row(row.json, None, spec, &self.classes, warnings, sink),
            None => warnings.push(format!("view: job {key} refers to unknown specification")),
        }
        true
    }

    pub(super) fn emit_rest(
        &self,
        want: &JobSet<'_>,
        warnings: &mut Vec<String>,
        sink: &mut dyn FnMut(ViewItem<'_>),
    ) {
        let unsent = |(k, r): (&JobKey, &Option<OverlayRow<'_>>)| {
            let unsent = |r: &OverlayRow<'_>| !r.sent.load(Ordering::Relaxed);
            r.as_ref().is_some_and(unsent).then_some(*k)
        };
        let mut rest: Vec<JobKey> = self.rows.iter().filter_map(unsent).collect();
        rest.sort_unstable();
        for key in rest {
            self.emit(key, want, warnings, sink);
        }
    }
}

fn emit_row(
    json: &[u8],
    peek: Option<&RowHead<'_>>,
    spec: &Arc<Spec>,
    classes: &HashMap<u32, PendReason>,
    warnings: &mut Vec<String>,
    sink: &mut dyn FnMut(ViewItem<'_>),
) {
    let quick = peek.and_then(|p| fast::job(p.key, p.spec, p.stat, p.rest));
    let mut row = match quick.map_or_else(|| decode_job(json), Ok) {
        Ok(row) => row,
        Err(Damage::Content(e)) => return warnings.push(format!("view: row not understood: {e}")),
        Err(_) => return,
    };
    let own = row.why.take();
    let why = PendReason::current(own.as_ref(), classes.get(&row.class));
    let why = why.filter(|_| row.stat.is_waiting());
    sink(ViewItem::Job { row, spec, why });
}

/// Passes on the requested rows of one shard, in the delta's version if there is one.
pub(super) fn read_shard(
    shard: &view::ShardInfo,
    bytes: &[u8],
    want: &JobSet<'_>,
    overlay: &Overlay<'_>,
    warnings: &mut Vec<String>,
    sink: &mut dyn FnMut(ViewItem<'_>),
) {
    let due = shard.live + shard.finished;
    let mut count = 0;
    match shard_rows(bytes, want, overlay, &mut count, warnings, sink) {
        Err(d) => warnings.push(format!("view/{} {d}", shard.file)),
        Ok(()) if count != due => warnings.push(format!(
            "view/{} has {count} rows instead of {due}",
            shard.file
        )),
        Ok(()) => {}
    }
}

fn shard_rows(
    bytes: &[u8],
    want: &JobSet<'_>,
    overlay: &Overlay<'_>,
    count: &mut u32,
    warnings: &mut Vec<String>,
    sink: &mut dyn FnMut(ViewItem<'_>),
) -> Result<(), Damaged> {
    let mut reader = Reader::new(bytes);
    Header::read(&mut reader, FileKind::View, None)?;
    let mut specs = Specs::new();
    let mut last: Option<(u32, Option<Option<Arc<Spec>>>)> = None;
    loop {
        let offset = reader.offset();
        let Some(line) = reader.next_line()? else {
            return Ok(());
        };
        let damaged = |damage| Damaged { offset, damage };
        let Some(p) = peek_or_decode(line.json).map_err(damaged)? else {
            if let Row::Spec { id, spec } = line.decode().map_err(damaged)? {
                last = None;
                specs.insert(id, want.wants_spec(&spec).then(|| Arc::from(spec)));
            }
            continue;
        };
        *count += 1;
        if !want.wants_id(p.key.id) || overlay.emit(p.key, want, warnings, sink) {
            continue;
        }
        if !want.wants_stat(p.stat) {
            continue;
        }
        // Adjacent rows mostly share a specification.
        let known = match last {
            Some((id, known)) if id == p.spec => known,
            _ => specs.get(&p.spec).cloned(),
        };
        last = Some((p.spec, known));
        match &last {
            Some((_, Some(None))) => {}
            Some((_, Some(Some(spec)))) => {
                emit_row(line.json, Some(&p), spec, &overlay.classes, warnings, sink);
            }
            _ => {
                let why = format!(
                    "job {} refers to specification {}, which is not in the file",
                    p.key, p.spec
                );
                return Err(damaged(Damage::Content(why)));
            }
        }
    }
}
