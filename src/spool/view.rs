//! Reads the published view: manifest, the relevant shards, and the deltas over them.
//!
//! Takes no lock and writes nothing. The leader may publish in between: files named by a manifest
//! stay for a while after it was replaced, and a reader that still finds one missing starts again.
//! Damage costs the rows after it in one file, is reported in the warnings, and never stops the
//! rest.

pub use counts::CurrentDocument;

use super::Layout;
use crate::model::{JobStat, PendReason, Spec};
use crate::record::frame::{Damage, Damaged, Reader};
use crate::record::header::{FileKind, Header};
use crate::record::view::{
    self, EstimateRow, HostRow, JobRow, LimitRow, Manifest, Params, QueueRow, ShareRow, UserRow,
};
use crate::sys;
use serde::de::DeserializeOwned;
use shard_rows::{Overlay, read_shard};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum size of a file of the view.
const FILE_MAX: usize = 1 << 30;
/// How often a reader starts again because a named file was gone.
const ATTEMPTS: u32 = 20;

/// Fewer shards than this are not worth a thread.
const SHARDS_A_THREAD: usize = 8;

/// Why the view cannot be read.
#[derive(Debug)]
pub enum ViewError {
    /// No leader has published a view yet.
    None(PathBuf),
    /// A file could not be read.
    Io(sys::Error),
    /// An indispensable file is damaged.
    Damaged(PathBuf, Damaged),
    /// The named files kept disappearing: the leader publishes faster than this reader reads.
    Moving(PathBuf),
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewError::None(path) => write!(
                f,
                "no leader has published {} yet: is cbsched running?",
                path.display()
            ),
            ViewError::Io(e) => write!(f, "{e}"),
            ViewError::Damaged(path, d) => write!(f, "{} {d}", path.display()),
            ViewError::Moving(path) => write!(
                f,
                "files named by {} vanished {ATTEMPTS} times while being read: try again",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ViewError {}

/// The jobs that a reader requests; the default is every unfinished job.
#[derive(Default)]
pub struct JobSet<'f> {
    /// Only jobs of these owners; empty = of all owners.
    pub uids: Vec<u32>,
    /// Only jobs with an id in one of these inclusive ranges; empty = all.
    pub ids: Vec<(u32, u32)>,
    /// Also finished jobs.
    pub finished: bool,
    /// Only jobs whose specification passes; evaluated once per specification and file.
    pub spec: Option<&'f (dyn Fn(&Spec) -> bool + Sync)>,
}

impl JobSet<'_> {
    /// Every known job, including finished ones.
    pub fn all() -> JobSet<'static> {
        JobSet {
            finished: true,
            ..JobSet::default()
        }
    }

    fn wants_id(&self, id: u32) -> bool {
        self.ids.is_empty() || self.ids.iter().any(|(lo, hi)| (*lo..=*hi).contains(&id))
    }

    fn wants_stat(&self, stat: JobStat) -> bool {
        self.finished || !stat.is_finished()
    }

    fn wants_spec(&self, spec: &Spec) -> bool {
        (self.uids.is_empty() || self.uids.contains(&spec.uid)) && self.spec.is_none_or(|f| f(spec))
    }

    /// Returns false if no row of the shard can be requested.
    fn wants_shard(&self, shard: &view::ShardInfo) -> bool {
        (self.finished || shard.live > 0)
            && (self.uids.is_empty()
                || shard.uids.is_empty()
                || self.uids.iter().any(|u| shard.uids.contains(u)))
            && (self.ids.is_empty()
                || self
                    .ids
                    .iter()
                    .any(|(lo, hi)| *lo <= shard.max && shard.min <= *hi))
    }
}

/// FileKind [`ViewReader::stream`] passes on.
#[allow(clippy::large_enum_variant)] // lives on the stack of one call
pub enum ViewItem<'a> {
    /// Discard everything passed on so far: it is repeated from a newer manifest.
    Restart,
    /// A requested job, array or element.
    Job {
        row: JobRow<'a>,
        spec: &'a Arc<Spec>,
        /// Why it waits: its own reason or that of its class.
        why: Option<&'a PendReason>,
    },
}

/// A job as [`ViewReader::collect`] returns it.
#[derive(Clone, Debug)]
pub struct ViewJob {
    pub row: JobRow<'static>,
    pub spec: Arc<Spec>,
    /// Why it waits: its own reason or that of its class.
    pub why: Option<PendReason>,
}

/// The changes of counts that a document includes: those up to this epoch and number.
type Moment = (u64, u64);

/// Facts about one read.
#[derive(Clone, Default, Debug)]
pub struct ViewRead {
    /// The manifest that was read.
    pub manifest: Manifest,
    /// Damage found on the way, one sentence each.
    pub warnings: Vec<String>,
}

/// Access to the published view.
#[derive(Clone, Debug)]
pub struct ViewReader {
    layout: Layout,
}

/// Inner failure of one attempt.
enum ReadFailure {
    /// A named file is gone: the manifest is outdated.
    Stale,
    Hard(ViewError),
}

impl ViewReader {
    pub fn new(layout: &Layout) -> ViewReader {
        ViewReader {
            layout: layout.clone(),
        }
    }

    /// Reads only the manifest.
    ///
    /// # Errors
    /// There is no view yet, or it is unreadable or damaged.
    pub fn manifest(&self) -> Result<Manifest, ViewError> {
        let mut docs: Vec<Manifest> = self.documents(view::MANIFEST)?;
        let path = self.layout.view_file(view::MANIFEST);
        docs.pop().ok_or_else(|| {
            let damage = Damage::Content("no manifest record after the header".into());
            ViewError::Damaged(path, Damaged { offset: 0, damage })
        })
    }

    /// The published hosts.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn hosts(&self) -> Result<Vec<HostRow>, ViewError> {
        self.documents(view::HOSTS)
    }

    /// The published queues.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn queues(&self) -> Result<Vec<QueueRow>, ViewError> {
        self.documents(view::QUEUES)
    }

    /// The published users and groups.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn users(&self) -> Result<Vec<UserRow>, ViewError> {
        self.documents(view::USERS)
    }

    /// The counters of section `limits`.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn limits(&self) -> Result<Vec<LimitRow>, ViewError> {
        self.documents(view::LIMITS)
    }

    /// The share trees of all queues that have one.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn shares(&self) -> Result<Vec<ShareRow>, ViewError> {
        self.documents(view::SHARES)
    }

    /// When jobs with reservations are expected to start.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn estimates(&self) -> Result<Vec<EstimateRow>, ViewError> {
        self.documents(view::ESTIMATES)
    }

    /// The cluster's facts and parameters.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn params(&self) -> Result<Params, ViewError> {
        let mut docs = self.documents(view::PARAMS)?;
        let path = self.layout.view_file(view::PARAMS);
        docs.pop().ok_or(ViewError::None(path))
    }

    /// All records after the header of a small framed file that is replaced by renaming.
    fn documents<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, ViewError> {
        let (_, docs) = self.document(name)?;
        Ok(docs)
    }

    /// The same, with the moment stated in the file.
    fn document<T: DeserializeOwned>(&self, name: &str) -> Result<(Moment, Vec<T>), ViewError> {
        let path = self.layout.view_file(name);
        let bytes = match read_whole(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.is_not_found() => return Err(ViewError::None(path)),
            Err(e) => return Err(ViewError::Io(e)),
        };
        parse_documents(&bytes).map_err(|d| ViewError::Damaged(path, d))
    }

    /// Passes on every requested job: those of a shard by id, those only in the delta last.
    ///
    /// # Errors
    /// There is no view, or files are unreadable or keep disappearing.
    pub fn stream(
        &self,
        want: &JobSet<'_>,
        sink: &mut dyn FnMut(ViewItem<'_>),
    ) -> Result<ViewRead, ViewError> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                sys::clock::sleep_ms(u64::from(attempt.min(5)) * 5);
                sink(ViewItem::Restart);
            }
            match self.stream_once(want, sink) {
                Err(ReadFailure::Stale) => {}
                Err(ReadFailure::Hard(e)) => return Err(e),
                Ok(reading) => return Ok(reading),
            }
        }
        Err(ViewError::Moving(self.layout.view_file(view::MANIFEST)))
    }

    /// Every requested job as a list, in the order of [`ViewReader::stream`].
    ///
    /// # Errors
    /// As [`ViewReader::stream`].
    pub fn collect(&self, want: &JobSet<'_>) -> Result<(Vec<ViewJob>, ViewRead), ViewError> {
        let mut jobs = Vec::new();
        let reading = self.stream(want, &mut |piece| match piece {
            ViewItem::Restart => jobs.clear(),
            ViewItem::Job { row, spec, why } => jobs.push(ViewJob {
                row: into_owned(row),
                spec: spec.clone(),
                why: why.cloned(),
            }),
        })?;
        Ok((jobs, reading))
    }

    /// As [`ViewReader::stream`], by several threads that read different shards at the same time,
    /// each into a sink of its own. `make` creates the sinks of an attempt from those of the
    /// previous, abandoned attempt (none at first); `job` adds a row.
    ///
    /// # Errors
    /// As [`ViewReader::stream`].
    pub fn stream_into<S: Send>(
        &self,
        want: &JobSet<'_>,
        make: &mut dyn FnMut(Vec<S>) -> Vec<S>,
        job: TakeJob<S>,
    ) -> Result<(Vec<S>, ViewRead), ViewError> {
        let mut left = Vec::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                sys::clock::sleep_ms(u64::from(attempt.min(5)) * 5);
            }
            let mut sinks = make(left);
            match self.try_fill(want, &mut sinks, job) {
                Err(ReadFailure::Stale) => left = sinks,
                Err(ReadFailure::Hard(e)) => return Err(e),
                Ok(reading) => return Ok((sinks, reading)),
            }
        }
        Err(ViewError::Moving(self.layout.view_file(view::MANIFEST)))
    }

    fn try_fill<S: Send>(
        &self,
        want: &JobSet<'_>,
        sinks: &mut [S],
        job: TakeJob<S>,
    ) -> Result<ViewRead, ReadFailure> {
        let manifest = self.manifest().map_err(ReadFailure::Hard)?;
        let parts = self.read_deltas(&manifest)?;
        let mut warnings = Vec::new();
        let mut overlay = Overlay::default();
        for (name, bytes) in &parts {
            overlay.add(name, bytes, want, &mut warnings);
        }
        let shards: Vec<_> = manifest
            .shards
            .iter()
            .filter(|s| want.wants_shard(s))
            .collect();
        let next = AtomicUsize::new(0);
        let work = |sink: &mut S| {
            let mut warnings = Vec::new();
            while let Some(shard) = shards.get(next.fetch_add(1, Ordering::Relaxed)) {
                let bytes = self.read_named(&shard.file)?;
                let mut take = |piece: ViewItem<'_>| pass_to_sink(sink, piece, job);
                read_shard(shard, &bytes, want, &overlay, &mut warnings, &mut take);
            }
            Ok(warnings)
        };
        let busy = sinks
            .len()
            .min(shards.len().div_ceil(SHARDS_A_THREAD))
            .max(1);
        let results: Vec<Result<Vec<String>, ReadFailure>> = std::thread::scope(|scope| {
            let (first, others) = sinks[..busy].split_first_mut().expect("at least one sink");
            let work = &work;
            let others: Vec<_> = others
                .iter_mut()
                .map(|sink| scope.spawn(|| work(sink)))
                .collect();
            let own = work(first);
            let join = |t: std::thread::ScopedJoinHandle<'_, _>| match t.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            std::iter::once(own)
                .chain(others.into_iter().map(join))
                .collect()
        });
        for result in results {
            warnings.extend(result?);
        }
        let first = &mut sinks[0];
        overlay.emit_rest(want, &mut warnings, &mut |piece| {
            pass_to_sink(first, piece, job)
        });
        Ok(ViewRead { manifest, warnings })
    }

    fn stream_once(
        &self,
        want: &JobSet<'_>,
        sink: &mut dyn FnMut(ViewItem<'_>),
    ) -> Result<ViewRead, ReadFailure> {
        let manifest = self.manifest().map_err(ReadFailure::Hard)?;
        let mut reading = ViewRead {
            manifest,
            warnings: Vec::new(),
        };
        let parts = self.read_deltas(&reading.manifest)?;
        let mut overlay = Overlay::default();
        for (name, bytes) in &parts {
            overlay.add(name, bytes, want, &mut reading.warnings);
        }
        let shards = std::mem::take(&mut reading.manifest.shards);
        for shard in shards.iter().filter(|s| want.wants_shard(s)) {
            let bytes = self.read_named(&shard.file)?;
            let warnings = &mut reading.warnings;
            read_shard(shard, &bytes, want, &overlay, warnings, sink);
        }
        reading.manifest.shards = shards;
        overlay.emit_rest(want, &mut reading.warnings, sink);
        Ok(reading)
    }

    fn read_deltas(&self, manifest: &Manifest) -> Result<Vec<(String, Vec<u8>)>, ReadFailure> {
        let mut parts = Vec::new();
        for part in &manifest.older {
            let mut bytes = self.read_named(&part.file)?;
            bytes.truncate(usize::try_from(part.bytes).unwrap_or(usize::MAX));
            parts.push((part.file.clone(), bytes));
        }
        if !manifest.delta.is_empty() {
            let bytes = self.read_named(&manifest.delta)?;
            parts.push((manifest.delta.clone(), bytes));
        }
        Ok(parts)
    }

    fn read_named(&self, name: &str) -> Result<Vec<u8>, ReadFailure> {
        match read_whole(&self.layout.view_file(name)) {
            Ok(bytes) => Ok(bytes),
            Err(e) if e.is_not_found() => Err(ReadFailure::Stale),
            Err(e) => Err(ReadFailure::Hard(ViewError::Io(e))),
        }
    }
}

/// How a sink of [`ViewReader::stream_into`] adds a row.
pub type TakeJob<S> = fn(&mut S, JobRow<'_>, &Arc<Spec>, Option<&PendReason>);

fn pass_to_sink<S>(sink: &mut S, piece: ViewItem<'_>, job: TakeJob<S>) {
    if let ViewItem::Job { row, spec, why } = piece {
        job(sink, row, spec, why);
    }
}

fn read_whole(path: &Path) -> sys::Result<Vec<u8>> {
    Ok(sys::fs::read_from(path, 0, FILE_MAX)?.bytes)
}

fn parse_documents<T: DeserializeOwned>(bytes: &[u8]) -> Result<(Moment, Vec<T>), Damaged> {
    let mut reader = Reader::new(bytes);
    let header = Header::read(&mut reader, FileKind::View, None)?;
    let moment = header.map_or((0, 0), |header| (header.epoch, header.part));
    let mut docs = Vec::new();
    loop {
        let offset = reader.offset();
        match reader.next_line()? {
            None => return Ok((moment, docs)),
            Some(line) => docs.push(line.decode().map_err(|damage| Damaged { offset, damage })?),
        }
    }
}

/// The same row with its own copies of the texts.
pub fn into_owned(row: JobRow<'_>) -> JobRow<'static> {
    JobRow {
        name: row.name.into_owned().into(),
        command: row.command.into_owned().into(),
        j: row.j,
        s: row.s,
        stat: row.stat,
        submit: row.submit,
        order: row.order,
        class: row.class,
        why: row.why,
        attempt: row.attempt,
        hosts: row.hosts,
        units: row.units,
        dispatch: row.dispatch,
        start: row.start,
        end: row.end,
        code: row.code,
        sig: row.sig,
        core: row.core,
        oom: row.oom,
        reason: row.reason,
        post_failed: row.post_failed,
        text: row.text,
        usage: row.usage,
        suspended_ms: row.suspended_ms,
        halt: row.halt,
        warned: row.warned,
        alt: row.alt,
        forced: row.forced,
        bind: row.bind,
        part_binds: row.part_binds,
        killing: row.killing,
        arr: row.arr,
        key: row.key,
        messages: row.messages,
    }
}

mod counts;
mod crons;
mod fast;
mod figures;
mod row_head;
mod shard_rows;
#[cfg(test)]
mod tests;
