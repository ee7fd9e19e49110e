//! Publishes the query state: immutable shard files, one growing delta over them, a manifest.
//!
//! Rows of a turn are written to the delta in one write, before the turn is acknowledged.
//! Periodically a round begins: a new delta takes over, the changed shards are rewritten under new
//! names in slices of time, then a manifest without the old delta is renamed into place. In
//! between, the manifest names both deltas, so a reader always finds the last row of every job.
//! Nothing here is synced on a local disk: the view can be reconstructed from the journal, and a
//! failure here costs readers freshness, never a job.

use crate::model::Spec;
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use crate::record::view::{self, CountChanges, DeltaPart, Manifest, Row, ShardInfo};
use crate::spool::Layout;
use crate::spool::view::ViewReader;
use crate::state::{ShardKey, State};
use crate::sys;
use crate::sys::append::Appender;
use crate::sys::clock;
use crate::sys::statfs::FsKind;
use counts::CountsSinceDocuments;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// A delta of this size starts a round (bytes).
const DELTA_FULL: u64 = 1 << 20;
/// A smaller one does when it is this old (ms), if it holds more than [`DELTA_SMALL`] bytes.
const DELTA_OLD_MS: u64 = 5_000;
const DELTA_SMALL: u64 = 16 << 10;
/// Any delta with changes does when it is this old (ms).
const DELTA_STALE_MS: u64 = 60_000;
/// Replaced files are kept for two generations and this long (ms), but at most...
const KEEP_MS: u64 = 30_000;
/// ...this long (ms) if nothing is published any more.
const KEEP_MOST_MS: u64 = 600_000;
/// How often the manifest is checked for a late rename by a stale leader, and old files are removed
/// (ms).
const CLEANUP_MS: u64 = 10_000;
/// Publishing takes at most one part in this many of the time; the first round takes half of the
/// time.
const DUTY: u64 = 5;
/// Number of files removed at a time.
const REMOVE_MOST: usize = 200;
/// Minimum time between two writes of rows that no command waits for (ms), and the same on a
/// network file system, where such a row is often written with the next answer.
const ROWS_MS: u64 = 50;
const ROWS_REMOTE_MS: u64 = 200;
/// Maximum number of owners named in a shard's entry.
const UIDS_MAX: usize = 8;
/// Maximum number of names that are checked in the view's directory.
const LIST_MAX: usize = 200_000;

/// The growing delta.
#[derive(Debug)]
struct Delta {
    name: String,
    /// `None`: the file could not be created.
    app: Option<Appender>,
    buf: Vec<u8>,
    seq: u64,
    /// Specifications that it contains.
    specs: HashSet<u32>,
    started_at: u64,
    rows: u64,
}

/// A round in progress.
#[derive(Debug, Default)]
struct PublishRound {
    /// Shards still to be written, the last one first.
    todo: Vec<ShardKey>,
    written: Vec<(String, Option<ShardInfo>)>,
    /// Everything is written: shards that the round does not write are gone.
    full: bool,
}

/// A file to be removed.
#[derive(Debug)]
struct RemovableFile {
    file: String,
    generation: u64,
    at: u64,
}

/// Where the files of the view are, and the header that each of them has.
#[derive(Debug)]
struct ViewFiles {
    layout: Layout,
    cluster: String,
    epoch: u64,
    /// Appended data must be synced before others see it.
    sync: bool,
}

/// The manifest on disk.
#[derive(Debug, Default)]
struct Published {
    /// Its inode when this leader renamed it.
    ino: u64,
    /// It differs from the one in memory: the last write failed.
    stale: bool,
}

/// When things were or will be done (boot clock, ms).
#[derive(Debug)]
struct Times {
    /// No part of a round is done before this time.
    not_before: u64,
    /// When old files were last removed.
    last_cleanup: u64,
    /// When rows were last written.
    flushed: u64,
}

/// The leader's writer of `view/`.
#[derive(Debug)]
pub(super) struct Publisher {
    files: ViewFiles,
    generation: u64,
    shards: BTreeMap<String, ShardInfo>,
    older: Vec<DeltaPart>,
    delta: Delta,
    dirty: BTreeSet<ShardKey>,
    round: Option<PublishRound>,
    /// The first round, which writes everything, has ended.
    complete: bool,
    removable: Vec<RemovableFile>,
    /// Hashes of the small documents, by their names.
    documents: HashMap<&'static str, u64>,
    counts: CountsSinceDocuments,
    manifest: Published,
    times: Times,
    buffer: Vec<u8>,
}

impl Publisher {
    /// Takes over the view: what the last leader published stays visible, together with a delta of
    /// this epoch, until the first round has written everything again.
    ///
    /// A view that cannot be written is out of date; that does not prevent leadership.
    ///
    /// # Errors
    /// There is no room for the delta or the manifest.
    pub(super) fn new(layout: &Layout, cluster: &str, epoch: u64) -> sys::Result<Publisher> {
        let now = clock::boot_ms();
        let sync = sys::statfs::fs_kind(layout.root())? != FsKind::Local;
        let files = ViewFiles {
            layout: layout.clone(),
            cluster: cluster.to_owned(),
            epoch,
            sync,
        };
        let delta = match files.open_delta(1, now) {
            Err(e) if !e.is_no_space() => {
                tracing::error!("{e}: the view is out of date");
                Delta::without_file(now)
            }
            other => other?,
        };
        let mut publisher = Publisher {
            files,
            generation: 1,
            shards: BTreeMap::new(),
            older: Vec::new(),
            delta,
            dirty: BTreeSet::new(),
            round: None,
            complete: false,
            removable: Vec::new(),
            documents: HashMap::new(),
            counts: CountsSinceDocuments::default(),
            manifest: Published::default(),
            times: Times {
                not_before: 0,
                last_cleanup: now,
                flushed: 0,
            },
            buffer: Vec::new(),
        };
        publisher.adopt();
        match publisher.write_manifest() {
            Err(e) if e.is_no_space() => Err(e),
            Err(e) => {
                tracing::error!("{e}: the view is out of date");
                Ok(publisher)
            }
            Ok(()) => Ok(publisher),
        }
    }

    /// Adopts what the last leader published, as far as it exists.
    fn adopt(&mut self) {
        let Ok(old) = ViewReader::new(&self.files.layout).manifest() else {
            return;
        };
        let there = |file: &str| sys::fs::stat(&self.files.path(file)).ok().flatten();
        let mut older = old.older.clone();
        if let Some(stat) = there(&old.delta) {
            older.push(DeltaPart {
                file: old.delta.clone(),
                bytes: stat.len,
            });
        }
        older.retain(|part| there(&part.file).is_some());
        for shard in old.shards {
            if let Some(key) = key_of(&shard.file)
                && there(&shard.file).is_some()
            {
                self.shards.insert(key.to_owned(), shard);
            }
        }
        self.older = older;
    }

    /// Adds rows to the turn's group; `spec` returns the specifications that they refer to and that
    /// the delta does not hold yet. Those come first: a full disk may cut the group anywhere, and a
    /// row without its specification would be damage to a reader.
    pub(super) fn rows<'s>(&mut self, rows: &[Row<'_>], spec: &dyn Fn(u32) -> &'s Spec) {
        for row in rows {
            if let Row::Spec { id, .. } = row
                && self.delta.specs.insert(*id)
            {
                self.delta.put(row);
            }
        }
        for row in rows {
            match row {
                Row::Spec { .. } => continue,
                Row::Job(job) if self.delta.specs.insert(job.s) => {
                    let spec = Box::new(spec(job.s).clone());
                    self.delta.put(&Row::Spec { id: job.s, spec });
                }
                _ => {}
            }
            self.delta.put(row);
        }
    }

    /// Adds changed counts to the turn's group, before the rows of the jobs that changed them: a
    /// reader of such a row finds its counts. `written`: the documents are being written with them
    /// now, so the delta needs them only if that fails.
    pub(super) fn counts(&mut self, changes: CountChanges, written: bool) {
        if changes.is_empty() {
            return;
        }
        let changes = self.counts.add(changes);
        if !written {
            self.delta.put(&Row::Counts(Box::new(changes)));
        }
    }

    /// Notes that these shards have changed rows.
    pub(super) fn mark_changed(&mut self, shards: impl IntoIterator<Item = ShardKey>) {
        self.dirty.extend(shards);
    }

    /// Writes the turn's group to the delta with one write. Must be called before the
    /// acknowledgements are written.
    ///
    /// # Errors
    /// The disk is full or fails: the rows reach readers with the next round. Not fatal.
    pub(super) fn flush(&mut self) -> sys::Result<()> {
        let delta = &mut self.delta;
        if delta.buf.is_empty() {
            return Ok(());
        }
        self.times.flushed = clock::boot_ms();
        let Some(app) = delta.app.as_mut().filter(|app| !app.is_poisoned()) else {
            delta.buf.clear();
            return Ok(());
        };
        let mut written = app.append(&delta.buf).map(drop);
        delta.buf.clear();
        if delta.buf.capacity() > 4 << 20 {
            delta.buf = Vec::new();
        }
        // Another NFS client sees what was sent to the server, not what this client has cached.
        if self.files.sync && written.is_ok() {
            written = app.sync();
        }
        written
    }

    /// When rows that no command waits for must be written; `None`: there are none.
    pub(crate) fn flush_at(&self) -> Option<u64> {
        let pause = match self.files.sync {
            true => ROWS_REMOTE_MS,
            false => ROWS_MS,
        };
        (!self.delta.buf.is_empty()).then(|| self.times.flushed + pause)
    }

    /// Continues a round, starts one if it is time, and removes old files. Works for about
    /// `budget_ms`. Returns true if there is more to do soon.
    ///
    /// # Errors
    /// The disk is full or fails: the round is tried again. Not fatal.
    pub(super) fn tick(&mut self, state: &State, budget_ms: u64) -> sys::Result<bool> {
        let began = clock::boot_ms();
        if began < self.times.not_before {
            return Ok(self.round.is_some());
        }
        if self.round.is_none() && !self.due(began) {
            if self.manifest.stale {
                self.write_manifest()?;
            }
            self.remove_old_files(began)?;
            return Ok(false);
        }
        let done = self.slice(state, began, began + budget_ms);
        let now = clock::boot_ms();
        let share = if self.complete { DUTY - 1 } else { 1 };
        self.times.not_before = now + (now - began) * share;
        if done.is_err() {
            // A full disk is not tried again at once.
            self.times.not_before = now + 1000;
        }
        done.map(|ended| !ended)
    }

    /// Whether every change has been published.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.round.is_none() && self.dirty.is_empty() && self.complete
    }

    /// Publishes every change now, regardless of the cost.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub(super) fn finish(&mut self, state: &State) -> sys::Result<()> {
        self.flush()?;
        while !self.is_up_to_date() {
            self.slice(state, clock::boot_ms(), u64::MAX)?;
        }
        Ok(())
    }

    /// Whether a round should begin.
    fn due(&self, now: u64) -> bool {
        let app = self.delta.app.as_ref().filter(|app| !app.is_poisoned());
        let Some(app) = app.filter(|_| self.complete) else {
            return true;
        };
        let bytes = app.valid_len();
        let age = now.saturating_sub(self.delta.started_at);
        self.delta.rows > 0
            && (bytes > DELTA_FULL
                || (age > DELTA_OLD_MS && bytes > DELTA_SMALL)
                || age > DELTA_STALE_MS)
    }

    /// Does one slice of a round. Returns true if the round ended.
    fn slice(&mut self, state: &State, now: u64, until: u64) -> sys::Result<bool> {
        if self.round.is_none() {
            self.begin_round(state, now)?;
        }
        let mut round = self.round.take().unwrap_or_default();
        while let Some(key) = round.todo.last().copied() {
            match self.write_shard(state, key) {
                Ok(info) => round.written.push((key.to_string(), info)),
                Err(e) => {
                    self.round = Some(round);
                    return Err(e);
                }
            }
            round.todo.pop();
            if clock::boot_ms() >= until && !round.todo.is_empty() {
                self.round = Some(round);
                return Ok(false);
            }
        }
        self.end_round(round, now)?;
        Ok(true)
    }

    fn begin_round(&mut self, state: &State, now: u64) -> sys::Result<()> {
        // The rows of this turn belong to the old delta.
        drop(self.flush());
        let next = self.generation + 1;
        let mut delta = self.files.open_delta(next, now)?;
        for row in state.class_rows() {
            delta.put(&row);
        }
        if let Some(changes) = self.counts.all() {
            delta.put(&Row::Counts(Box::new(changes)));
        }
        // Changes of pending reasons do not count: a delta with nothing else starts no round.
        delta.rows = 0;
        let old = std::mem::replace(&mut self.delta, delta);
        self.generation = next;
        if let Some(app) = old.app {
            let (file, bytes) = (old.name, app.valid_len());
            self.older.push(DeltaPart { file, bytes });
        }
        let full = !self.complete;
        if full {
            self.dirty.extend(state.shards());
        }
        let todo: Vec<ShardKey> = std::mem::take(&mut self.dirty).into_iter().rev().collect();
        self.round = Some(PublishRound {
            todo,
            written: Vec::new(),
            full,
        });
        self.flush()?;
        self.write_manifest()
    }

    fn end_round(&mut self, round: PublishRound, now: u64) -> sys::Result<()> {
        let generation = self.generation;
        let mut throw = |file: String| {
            self.removable.push(RemovableFile {
                file,
                generation,
                at: now,
            });
        };
        let mut shards = std::mem::take(&mut self.shards);
        if round.full {
            shards.into_values().for_each(|old| throw(old.file));
            shards = BTreeMap::new();
        }
        for (key, info) in round.written {
            let old = match info {
                Some(info) => shards.insert(key, info),
                None => shards.remove(&key),
            };
            old.into_iter().for_each(|old| throw(old.file));
        }
        std::mem::take(&mut self.older)
            .into_iter()
            .for_each(|part| throw(part.file));
        self.shards = shards;
        self.generation += 1;
        self.write_manifest()?;
        if round.full {
            self.complete = true;
            self.find_strays(now)?;
        }
        Ok(())
    }

    /// Writes one shard under a new name; `None` if it has no rows any more.
    fn write_shard(&mut self, state: &State, key: ShardKey) -> sys::Result<Option<ShardInfo>> {
        let rows = state.shard_rows(key);
        let file = format!("{:06}.{:06}.{key}.yaml", self.files.epoch, self.generation);
        let Some(info) = info_of(file, &rows) else {
            return Ok(None);
        };
        let path = self.files.path(&info.file);
        self.buffer.clear();
        let header = self.files.header(self.generation);
        let encode = |e: serde_json::Error| sys::Error::invalid("encode", &path, e.to_string());
        frame::write(&mut self.buffer, 0, &header).map_err(encode)?;
        for (n, row) in rows.iter().enumerate() {
            frame::write(&mut self.buffer, n as u64 + 1, row).map_err(encode)?;
        }
        // Left by a round that failed half way; no manifest names it.
        free_name(&path)?;
        let mut shard = Appender::create_new(&path)?;
        shard.append(&self.buffer)?;
        // Only now a network file system may report that it had no room for the data it accepted.
        if self.files.sync {
            shard.sync()?;
        }
        Ok(Some(info))
    }

    fn write_manifest(&mut self) -> sys::Result<()> {
        let manifest = Manifest {
            epoch: self.files.epoch,
            generation: self.generation,
            t: clock::wall_ms(),
            older: self.older.clone(),
            delta: self.delta.name.clone(),
            shards: in_order(&self.shards),
        };
        let path = self.files.path(view::MANIFEST);
        let (bytes, _) = self
            .files
            .framed(&path, 0, std::slice::from_ref(&manifest))?;
        self.manifest.stale = true;
        sys::fs::publish_over(&path, &bytes)?;
        self.manifest.stale = false;
        self.manifest.ino = sys::fs::stat(&path)?.map_or(0, |s| s.ino);
        Ok(())
    }

    /// Publishes one of the small documents if it changed: a header, then a record for each of
    /// `docs`.
    ///
    /// # Errors
    /// The disk is full or fails; it is written at the next call.
    pub(super) fn document<T: Serialize>(
        &mut self,
        name: &'static str,
        docs: &[T],
    ) -> sys::Result<()> {
        let path = self.files.path(name);
        let (bytes, body) = self.files.framed(&path, self.counts.moment(), docs)?;
        let mut hasher = DefaultHasher::new();
        bytes[body..].hash(&mut hasher);
        let hash = hasher.finish();
        if self.documents.get(name) != Some(&hash) {
            self.documents.remove(name);
            sys::fs::publish_over(&path, &bytes)?;
            self.documents.insert(name, hash);
        }
        self.counts.documented(name);
        Ok(())
    }

    /// Removes old files, and restores the manifest if a stale leader renamed its own over it.
    fn remove_old_files(&mut self, now: u64) -> sys::Result<()> {
        if now < self.times.last_cleanup + CLEANUP_MS {
            return Ok(());
        }
        self.times.last_cleanup = now;
        let path = self.files.path(view::MANIFEST);
        if self.manifest.stale || sys::fs::stat(&path)?.map_or(0, |s| s.ino) != self.manifest.ino {
            self.generation += 1;
            self.write_manifest()?;
        }
        let generation = self.generation;
        let old = |t: &RemovableFile| {
            let age = now.saturating_sub(t.at);
            (age >= KEEP_MS && generation >= t.generation + 2) || age >= KEEP_MOST_MS
        };
        for _ in 0..REMOVE_MOST {
            let Some(at) = self.removable.iter().position(old) else {
                break;
            };
            let removable = self.removable.swap_remove(at);
            sys::fs::remove(&self.files.path(&removable.file))?;
        }
        Ok(())
    }

    /// Finds files of earlier leaders that no manifest names, and adds them to the files to remove.
    fn find_strays(&mut self, now: u64) -> sys::Result<()> {
        sys::fs::sweep_asides(&self.files.layout.view(), clock::wall_ms(), 3_600_000)?;
        let mut known: HashSet<&str> = self.shards.values().map(|s| s.file.as_str()).collect();
        known.extend(self.removable.iter().map(|t| t.file.as_str()));
        known.insert(&self.delta.name);
        let mut strays = Vec::new();
        for entry in sys::fs::list_dir(&self.files.layout.view(), LIST_MAX)? {
            if let Some(name) = entry.text()
                && key_of(name).is_some()
                && name.split('.').next().and_then(|e| e.parse().ok()) <= Some(self.files.epoch)
                && !known.contains(name)
            {
                strays.push(RemovableFile {
                    file: name.to_owned(),
                    generation: self.generation,
                    at: now,
                });
            }
        }
        self.removable.append(&mut strays);
        Ok(())
    }
}

/// Makes room for a new file of this name.
fn free_name(path: &Path) -> sys::Result<()> {
    match sys::fs::remove(path) {
        Err(_) if sys::fs::clear_name(path)? => Ok(()),
        other => other,
    }
}

impl ViewFiles {
    fn path(&self, name: &str) -> PathBuf {
        self.layout.view_file(name)
    }

    fn header(&self, generation: u64) -> Header {
        Header::new(FileKind::View, &self.cluster, self.epoch, generation)
    }

    /// Creates the delta of a generation.
    fn open_delta(&self, generation: u64, now: u64) -> sys::Result<Delta> {
        let epoch = self.epoch;
        let name = format!("{epoch:06}.{generation:06}.delta.yaml");
        let path = self.path(&name);
        free_name(&path)?;
        let mut app = Appender::create_new(&path)?;
        let mut front = Vec::new();
        frame::write(&mut front, 0, &self.header(generation))
            .map_err(|e| sys::Error::invalid("encode", &path, e.to_string()))?;
        app.append(&front)?;
        // The manifest will name it: a full share must not cut off the header later.
        if self.sync {
            app.sync()?;
        }
        Ok(Delta::new(name, Some(app), now))
    }

    /// The bytes of a framed file at `path`: a header and one record per document, and the offset
    /// at which the documents begin.
    fn framed<T: Serialize>(
        &self,
        path: &Path,
        moment: u64,
        docs: &[T],
    ) -> sys::Result<(Vec<u8>, usize)> {
        let mut out = Vec::new();
        let header = self.header(moment);
        let encode = |e: serde_json::Error| sys::Error::invalid("encode", path, e.to_string());
        frame::write(&mut out, 0, &header).map_err(encode)?;
        let body = out.len();
        for (n, doc) in docs.iter().enumerate() {
            frame::write(&mut out, n as u64 + 1, doc).map_err(encode)?;
        }
        Ok((out, body))
    }
}

impl Delta {
    /// A delta without a file: the next round starts another one.
    fn without_file(now: u64) -> Delta {
        Delta::new(String::new(), None, now)
    }

    fn new(name: String, app: Option<Appender>, now: u64) -> Delta {
        Delta {
            name,
            app,
            buf: Vec::new(),
            seq: 1,
            specs: HashSet::new(),
            started_at: now,
            rows: 0,
        }
    }

    fn put(&mut self, row: &Row<'_>) {
        // A row always has a JSON form; without one it would only be invisible until the next
        // round.
        if frame::write(&mut self.buf, self.seq, row).is_ok() {
            self.seq += 1;
            self.rows += 1;
        }
    }
}

/// The shard's name in `EEEEEE.GGGGGG.<key>.yaml`, or `delta`. `None` for other files.
fn key_of(file: &str) -> Option<&str> {
    let mut parts = file.strip_suffix(".yaml")?.splitn(3, '.');
    let number = |s: &str| s.len() >= 6 && s.bytes().all(|b| b.is_ascii_digit());
    (number(parts.next()?) && number(parts.next()?)).then_some(())?;
    parts.next()
}

fn in_order(shards: &BTreeMap<String, ShardInfo>) -> Vec<ShardInfo> {
    let mut out: Vec<ShardInfo> = shards.values().cloned().collect();
    out.sort_by(|a, b| (a.min, a.max, &a.file).cmp(&(b.min, b.max, &b.file)));
    out
}

/// The entry of a shard; `None` if it contains no jobs.
fn info_of(file: String, rows: &[Row<'_>]) -> Option<ShardInfo> {
    let mut info = ShardInfo {
        file,
        min: u32::MAX,
        ..ShardInfo::default()
    };
    let mut uids = BTreeSet::new();
    for row in rows {
        match row {
            Row::Spec { spec, .. } => {
                uids.insert(spec.uid);
            }
            Row::Job(job) => {
                info.min = info.min.min(job.j.id);
                info.max = info.max.max(job.j.id);
                if job.stat.is_finished() {
                    info.finished += 1;
                } else {
                    info.live += 1;
                }
            }
            Row::Gone { .. } | Row::Class { .. } | Row::Counts(_) | Row::Other => {}
        }
    }
    if uids.len() <= UIDS_MAX {
        info.uids = uids.into_iter().collect();
    }
    (info.live + info.finished > 0).then_some(info)
}

mod counts;
#[cfg(test)]
mod tests;
