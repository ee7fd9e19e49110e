//! `cadmin fsck [DIR]`: reads everything on the share and reports damage by file and offset.
//!
//! Only reads; needs no leader and takes no lock, so it can run on a working cluster: a record that
//! is just being written, or a view file that was just replaced, does not count as damage. Exit
//! code 1 if there is damage, 5 if the share itself cannot be read.

use super::journal_damage::{self, ReadFinding, whole_line};
use crate::client::env::Site;
use crate::client::exit::{Exit, Fail};
use crate::host::setup::local_directory;
use crate::journal::{Chain, LineError, Lines, snapshot};
use crate::language::answer;
use crate::model::sha256_hex;
use crate::record::acct::{AccountingPosition, AttemptRecord};
use crate::record::ack::Ack;
use crate::record::frame::{self, Damage, Damaged};
use crate::record::header::{FileKind, Header};
use crate::record::leader::{BeatDoc, CLUSTER_MAX, ClusterDoc, EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::order::Order;
use crate::record::report::Report as HostReport;
use crate::record::request::{REQUEST_MAX, RequestHead, Verb};
use crate::record::view::{self, Row};
use crate::record::{FORMAT, load, sealed};
use crate::spool::Layout;
use crate::spool::view::ViewReader;
use crate::sys;
use crate::text::count::count;
use crate::text::width;
use clap::{Command, CommandFactory as _, Parser};
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Maximum number of names read in one directory.
const NAMES_MAX: usize = 10_000_000;
/// Maximum number of damaged places printed for one file; further ones are counted.
const PER_FILE: usize = 20;
const SMALL_MAX: u64 = 1 << 20;

/// Reads everything on the share and reports damage.
#[derive(Parser, Debug)]
#[command(name = "cadmin fsck", disable_version_flag = true)]
struct Args {
    /// The shared directory; without it, the cluster of CB_ENVDIR.
    dir: Option<PathBuf>,
    /// Also check this local directory of a host; without DIR, that of this host is checked.
    #[arg(long, value_name = "LOCAL")]
    local: Option<PathBuf>,
    /// Print damage only.
    #[arg(short, long)]
    quiet: bool,
}

/// The options of `cadmin fsck`.
pub(super) fn options() -> Command {
    Args::command()
}

/// Runs `cadmin fsck` with its arguments; returns the exit code.
pub(crate) fn run(words: &[String]) -> i32 {
    let args = match crate::client::parsed::<Args>("cadmin fsck", words) {
        Ok(args) => args,
        Err(e) => return crate::client::usage(&e),
    };
    let (layout, site) = match &args.dir {
        Some(dir) => (Layout::new(dir), None),
        None => match Site::find() {
            Ok(site) => (site.layout(), Some(site)),
            Err(e) => return crate::client::report(Err(e.into())),
        },
    };
    let own = |cluster: &str| {
        let local = local_directory(site.as_ref()?, cluster);
        Some(local.dir().to_path_buf()).filter(|dir| sys::fs::exists(dir))
    };
    let local = |cluster: &str| args.local.clone().or_else(|| own(cluster));
    let report = match check_with(&layout, &local) {
        Ok(report) => report,
        Err(e) => return crate::client::report(Err(e)),
    };
    for line in report.lines(args.quiet) {
        answer!("{line}");
    }
    if report.damaged == 0 {
        Exit::Ok.code()
    } else {
        Exit::NotFound.code()
    }
}

/// What [`check`] found.
#[derive(Debug, Default)]
pub(crate) struct FsckReport {
    /// One line per damage, `FILE:OFFSET: what`.
    pub damage: Vec<String>,
    /// Number of damaged places, including those that were only counted.
    pub damaged: u64,
    /// Unusual but harmless findings, and what could not be read.
    pub notes: Vec<String>,
    pub files: u64,
    pub records: u64,
}

impl FsckReport {
    /// The printed lines. They contain text of users, and the reader may be root, so they are
    /// escaped before they reach the terminal.
    fn lines(&self, quiet: bool) -> Vec<String> {
        let shown = |line: &String| width::escape(line).into_owned();
        let mut lines: Vec<String> = self.damage.iter().map(shown).collect();
        if quiet {
            return lines;
        }
        lines.extend(
            self.notes
                .iter()
                .map(|note| shown(&format!("note: {note}"))),
        );
        let found = match self.damaged {
            0 => "no damage".to_owned(),
            n => format!("damage in {}", count(n, "place")),
        };
        lines.push(format!(
            "{}, {}: {found}",
            count(self.files, "file"),
            count(self.records, "record")
        ));
        lines
    }
}

/// Reads everything below the share.
///
/// # Errors
/// The share is missing, not a cluster, or of a newer format.
#[cfg(test)]
pub(crate) fn check(layout: &Layout) -> Result<FsckReport, Fail> {
    check_with(layout, &|_| None)
}

/// Reads everything below the share, and the local directory that `local` names for the id of the
/// cluster.
///
/// # Errors
/// The share is missing, not a cluster, or of a newer format.
fn check_with(
    layout: &Layout,
    local: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<FsckReport, Fail> {
    let path = layout.cluster();
    let bytes = sys::fs::read_small(&path, CLUSTER_MAX).map_err(|e| {
        Fail::system(format!(
            "{e}: no cluster there, or the share is not mounted"
        ))
    })?;
    let (cluster, wrong) = match ClusterDoc::decode(&bytes) {
        Ok(doc) => (doc.cluster, None),
        Err(e) => match cluster_of_journals(layout) {
            Some(id) if !is_intact(&bytes) => (id, Some(e)),
            _ => return Err(Fail::system(format!("{}: {e}", path.display()))),
        },
    };
    let mut share_check = ShareCheck {
        layout,
        cluster,
        report: FsckReport::default(),
    };
    share_check.report.files = 1;
    if let Some(wrong) = wrong {
        let offset = sealed::from_json::<ClusterDoc>(&bytes).map_or_else(|d| d.offset, |_| 0);
        share_check.damage(&path, offset, &wrong);
    }
    share_check.leader();
    share_check.journal();
    share_check.snapshots();
    share_check.epochs();
    share_check.hosts();
    share_check.accounts();
    share_check.view();
    share_check.inbox();
    share_check.blobs();
    share_check.leftovers();
    share_check.other_files();
    if let Some(dir) = local(&share_check.cluster) {
        share_check.local(&dir);
    }
    Ok(share_check.report)
}

/// Whether a cluster file has a checksum that is right.
fn is_intact(bytes: &[u8]) -> bool {
    matches!(sealed::from_json::<ClusterDoc>(bytes), Ok((_, true)))
}

/// The id of the cluster according to the newest journal.
fn cluster_of_journals(layout: &Layout) -> Option<String> {
    let entries = sys::fs::list_dir(&layout.epochs(), NAMES_MAX).ok()?;
    let mut epochs: Vec<u64> = entries
        .iter()
        .filter_map(|entry| Layout::parse_epoch_name(entry.text()?))
        .collect();
    epochs.sort_unstable();
    epochs.iter().rev().find_map(|epoch| {
        let bytes = sys::fs::read_from(&layout.journal(*epoch, 1), 0, SMALL_MAX as usize);
        let bytes = bytes.ok()?.bytes;
        let header = Header::read(&mut frame::Reader::new(&bytes), FileKind::Journal, None);
        header.ok().flatten().map(|header| header.cluster)
    })
}

struct ShareCheck<'a> {
    layout: &'a Layout,
    cluster: String,
    report: FsckReport,
}

impl ShareCheck<'_> {
    fn note(&mut self, text: String) {
        self.report.notes.push(text);
    }

    fn damage(&mut self, path: &Path, offset: u64, what: &str) {
        self.report.damaged += 1;
        let path = path.display();
        self.report.damage.push(format!("{path}:{offset}: {what}"));
    }

    fn damaged(&mut self, path: &Path, d: &Damaged) {
        self.damage(path, d.offset, &d.damage.to_string());
    }

    /// Reports a file that cannot be read: damage, unless it was removed or this user may not read
    /// it.
    fn unreadable(&mut self, e: &sys::Error) {
        match e.kind() {
            std::io::ErrorKind::NotFound => {}
            std::io::ErrorKind::PermissionDenied => self.note(format!("not checked: {e}")),
            _ => self.damage(&e.path, 0, &e.to_string()),
        }
    }

    /// Names in a directory; a missing directory is damage.
    fn names(&mut self, dir: &Path) -> Vec<String> {
        match sys::fs::list_dir(dir, NAMES_MAX) {
            Ok(entries) => entries
                .iter()
                .filter_map(|e| e.text().map(str::to_owned))
                .collect(),
            Err(e) if e.is_not_found() => {
                self.damage(dir, 0, "the directory is missing");
                Vec::new()
            }
            Err(e) => {
                self.unreadable(&e);
                Vec::new()
            }
        }
    }

    /// A small document; `None` after a problem was reported.
    fn document<T>(
        &mut self,
        path: &Path,
        decode: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Option<T> {
        self.report.files += 1;
        let mut wrong = String::new();
        // The file may be in the middle of an overwrite.
        for _ in 0..3 {
            match sys::fs::read_small(path, SMALL_MAX) {
                Ok(bytes) => match decode(&bytes) {
                    Ok(doc) => {
                        self.report.records += 1;
                        return Some(doc);
                    }
                    Err(e) => wrong = e,
                },
                Err(e) if e.is_not_found() => wrong = "the file is missing".into(),
                Err(e) => {
                    self.unreadable(&e);
                    return None;
                }
            }
            sys::clock::sleep_ms(5);
        }
        self.damage(path, 0, &wrong);
        None
    }

    fn leader(&mut self) {
        if !sys::fs::exists(&self.layout.lock()) {
            self.damage(
                &self.layout.lock(),
                0,
                "the file is missing: no leader can be elected",
            );
        }
        let epoch: Option<EpochDoc> = self.document(&self.layout.epoch(), decode_whole);
        let beat: Option<BeatDoc> = self.document(&self.layout.beat(), decode_whole);
        if let (Some(epoch), Some(beat)) = (epoch, beat)
            && beat.epoch > epoch.epoch
        {
            let what = format!("names epoch {}, the beat {}", epoch.epoch, beat.epoch);
            self.damage(&self.layout.epoch(), 0, &what);
        }
        for name in self.names(&self.layout.claims_dir()) {
            let path = self.layout.claims_dir().join(&name);
            let claim: Option<EpochDoc> = self.document(&path, decode_whole);
            if let Some(claim) = claim
                && name.parse() != Ok(claim.epoch)
            {
                self.damage(&path, 0, &format!("claims epoch {}", claim.epoch));
            }
        }
    }

    fn journal(&mut self) {
        let chain = match Chain::retained(self.layout, &self.cluster) {
            Ok(chain) => chain,
            Err(e) => return self.note(format!("the journal was not checked: {e}")),
        };
        for (dir, offset, what) in journal_damage::unsealed(&chain, self.layout) {
            self.damage(&dir, offset, &what);
        }
        for epoch in chain.first..chain.end_epoch {
            let read = journal_damage::read_epoch(&chain, epoch, &mut |met| self.journal_item(met));
            match read {
                Ok(reached) => self.report.files += reached.at.segment,
                Err(e) => self.note(format!("epoch {epoch} was not read to its end: {e}")),
            }
        }
    }

    fn journal_item(&mut self, met: ReadFinding) {
        match met {
            ReadFinding::Event(_) => self.report.records += 1,
            ReadFinding::Damage { record, place } => {
                self.report.records += u64::from(record);
                self.damage(&place.0, place.1, &place.2);
            }
            ReadFinding::Partial(path, from, bytes) => self.partial_record(&path, from, bytes),
        }
    }

    /// Reports a partial record at the end of a file that may still grow.
    fn partial_record(&mut self, path: &Path, from: u64, bytes: u64) {
        let path = path.display();
        let text = format!("{path}:{from}: half a record of {bytes} bytes at the end");
        self.note(text);
    }

    fn snapshots(&mut self) {
        let mut wrong = Vec::new();
        let history = Some(self.layout.history()).filter(|dir| sys::fs::exists(dir));
        for dir in [self.layout.snapshots()].into_iter().chain(history) {
            for name in self.names(&dir) {
                if Layout::is_past_config(&name) {
                    continue;
                }
                self.log(&dir.join(&name), FileKind::Snapshot, None, |json| {
                    serde_json::from_slice::<serde::de::IgnoredAny>(json).map(drop)
                });
            }
            if let Err(e) = snapshot::list_in(&dir, &self.cluster, &mut wrong) {
                self.note(e.to_string());
            }
        }
        for text in wrong {
            self.report.damaged += 1;
            self.report.damage.push(text);
        }
    }

    fn epochs(&mut self) {
        for name in self.names(&self.layout.epochs()) {
            let Ok(epoch) = name.parse::<u64>() else {
                let path = self.layout.epochs().join(&name);
                self.note(format!("{}: not an epoch", path.display()));
                continue;
            };
            for acks in [self.layout.acks_before(epoch), self.layout.acks(epoch)] {
                if sys::fs::exists(&acks) {
                    self.parse_document::<Ack>(&acks, FileKind::Acks, Some(epoch));
                }
            }
        }
    }

    fn hosts(&mut self) {
        for host in self.names(&self.layout.hosts()) {
            for name in self.names(&self.layout.host(&host)) {
                let path = self.layout.host(&host).join(&name);
                if let Some((epoch, _)) = Layout::parse_orders_name(&name) {
                    self.parse_document::<Order>(&path, FileKind::Orders, Some(epoch));
                } else if Layout::parse_reports_name(&name).is_some() {
                    self.parse_document::<HostReport>(&path, FileKind::Reports, None);
                } else if path == self.layout.load(&host) {
                    self.document(&path, load::decode);
                }
            }
        }
    }

    /// Checks the accounting records. Without records the directory does not exist.
    fn accounts(&mut self) {
        let dir = self.layout.acct();
        if !sys::fs::exists(&dir) {
            return;
        }
        for month in self.names(&dir) {
            let path = dir.join(&month);
            if path == self.layout.acct_written() {
                self.parse_document::<AccountingPosition>(&path, FileKind::Acct, None);
            } else if Layout::is_acct_month(&month) {
                self.month(&path);
            } else if !sys::fs::is_aside(&month) {
                self.note(format!("{}: not a part of accounting", path.display()));
            }
        }
    }

    fn month(&mut self, dir: &Path) {
        for name in self.names(dir) {
            let path = dir.join(&name);
            match Layout::parse_acct_name(&name) {
                Some((epoch, _)) => self.log(&path, FileKind::Acct, Some(epoch), |json| {
                    serde_json::from_slice::<AttemptRecord<'_>>(json).map(drop)
                }),
                None => self.note(format!("{}: not a part of accounting", path.display())),
            }
        }
    }

    fn view(&mut self) {
        let reader = ViewReader::new(self.layout);
        let manifest = match reader.manifest() {
            Ok(manifest) => manifest,
            Err(e) => return self.view_error(&view::MANIFEST.into(), e),
        };
        let mut files: Vec<String> = manifest.shards.into_iter().map(|s| s.file).collect();
        files.extend(manifest.older.into_iter().map(|p| p.file));
        files.push(manifest.delta);
        for file in files {
            let path = self.layout.view_file(&file);
            self.log(&path, FileKind::View, None, |json| {
                serde_json::from_slice::<Row<'_>>(json).map(drop)
            });
        }
        let documents = [
            (view::HOSTS, reader.hosts().map(drop)),
            (view::QUEUES, reader.queues().map(drop)),
            (view::USERS, reader.users().map(drop)),
            (view::PARAMS, reader.params().map(drop)),
        ];
        for (name, read) in documents {
            self.report.files += 1;
            if let Err(e) = read {
                self.view_error(&name.into(), e);
            }
        }
    }

    fn view_error(&mut self, name: &String, e: crate::spool::view::ViewError) {
        use crate::spool::view::ViewError;
        match e {
            ViewError::Damaged(path, d) => self.damaged(&path, &d),
            ViewError::None(_) => self.note(format!("view/{name} was not published yet")),
            ViewError::Io(e) => self.unreadable(&e),
            ViewError::Moving(_) => self.note(e.to_string()),
        }
    }

    fn inbox(&mut self) {
        // Every user may create names here.
        let mut foreign: Vec<PathBuf> = Vec::new();
        for uid in self.names(&self.layout.inbox()) {
            let dir = self.layout.inbox().join(&uid);
            let is_dir = |s: &sys::fs::Stat| s.kind == sys::fs::Kind::Dir;
            match sys::fs::stat(&dir) {
                Ok(Some(s)) if is_dir(&s) && uid.parse::<u32>().is_ok() => {}
                Ok(None) => continue,
                Ok(Some(_)) | Err(_) => {
                    foreign.push(dir);
                    continue;
                }
            }
            for name in self.names(&dir) {
                if Layout::parse_request_name(&name).is_some() {
                    self.request(&dir.join(name));
                }
            }
        }
        if let Some(one) = foreign.first() {
            self.note(format!(
                "{}: not a user's directory ({} such names); Corral reads none of them, and root \
                 may remove them",
                one.display(),
                foreign.len()
            ));
        }
    }

    /// Checks a request: header, head, verbs. It may contain anything, because a user wrote it.
    fn request(&mut self, path: &Path) {
        let regular =
            |s: &sys::fs::Stat| s.kind == sys::fs::Kind::File && s.len <= REQUEST_MAX as u64;
        match sys::fs::stat(path) {
            Ok(Some(s)) if regular(&s) => {}
            Ok(Some(_)) => return self.damage(path, 0, "not a regular file of the allowed size"),
            Ok(None) => return,
            Err(e) => return self.unreadable(&e),
        }
        let mut first = true;
        self.log(path, FileKind::Request, None, |json| {
            if std::mem::take(&mut first) {
                serde_json::from_slice::<RequestHead>(json).map(drop)
            } else {
                serde_json::from_slice::<Verb>(json).map(drop)
            }
        });
    }

    fn blobs(&mut self) {
        for dir in self.names(&self.layout.blobs()) {
            let dir = self.layout.blobs().join(dir);
            for name in self.names(&dir) {
                let path = dir.join(&name);
                self.report.files += 1;
                match sys::fs::read_small(&path, 64 << 20) {
                    Ok(bytes) if sha256_hex(&bytes) == name => self.report.records += 1,
                    Ok(_) => self.damage(&path, 0, "the content does not match its name"),
                    Err(e) => self.unreadable(&e),
                }
            }
        }
    }

    fn leftovers(&mut self) {
        let lost: HashSet<String> = self.names(&self.layout.lost_found()).into_iter().collect();
        if !lost.is_empty() {
            let dir = self.layout.lost_found();
            let n = count(lost.len(), "name");
            self.note(format!("{} holds {n}", dir.display()));
        }
    }

    fn parse_document<T: DeserializeOwned>(
        &mut self,
        path: &Path,
        what: FileKind,
        epoch: Option<u64>,
    ) {
        self.log(path, what, epoch, |json| {
            serde_json::from_slice::<T>(json).map(drop)
        });
    }

    /// Checks a framed file: a header, then records that `decode` parses.
    fn log(
        &mut self,
        path: &Path,
        what: FileKind,
        epoch: Option<u64>,
        mut decode: impl FnMut(&[u8]) -> Result<(), serde_json::Error>,
    ) {
        self.report.files += 1;
        let before = self.report.damaged;
        let mut lines = Lines::new(path, u64::MAX);
        let mut header = true;
        loop {
            let failed = match lines.next_line() {
                Ok(None) => return,
                Ok(Some(step)) => {
                    self.report.records += 1;
                    let decoded = if std::mem::take(&mut header) {
                        check_header(step.line.json, what, &self.cluster, epoch)
                    } else {
                        decode(step.line.json).map_err(|e| e.to_string())
                    };
                    decoded.err().map(|text| {
                        let offset = step.offset;
                        let damage = Damage::Content(text);
                        LineError::Damaged(Damaged { offset, damage })
                    })
                }
                Err(e) => {
                    if let LineError::Damaged(d) = &e {
                        let due = lines.next_seq();
                        match lines.skip() {
                            // A record that was cut because the share was full is repeated
                            // completely after it.
                            Ok(s) if s.repeats(what, due, lines.next_seq()) => {
                                let bytes = s.to - s.from;
                                let path = path.display();
                                self.note(format!(
                                    "{path}:{}: {bytes} bytes cut short by a full share; the same \
                                     records follow completely",
                                    s.from
                                ));
                                header = false;
                                continue;
                            }
                            Ok(s) if d.damage == Damage::Torn && !s.intact_after => {
                                let bytes = s.to - s.from;
                                match whole_line(path, s.from, bytes) {
                                    Some(what) => self.damage(path, s.from, &what),
                                    None => self.partial_record(path, s.from, bytes),
                                }
                                return;
                            }
                            Ok(_) => header = false,
                            Err(e) => return self.unreadable(&e),
                        }
                    }
                    Some(e)
                }
            };
            match failed {
                None => {}
                Some(LineError::Io(e)) => return self.unreadable(&e),
                Some(LineError::Damaged(d)) if self.report.damaged - before < PER_FILE as u64 => {
                    self.damaged(path, &d);
                }
                Some(LineError::Damaged(_)) => self.report.damaged += 1,
            }
        }
    }
}

/// As [`decode_fixed`], with all of its padding.
fn decode_whole<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match bytes.len() {
        FIXED_LEN => decode_fixed(bytes),
        len => Err(format!("has {len} bytes, not {FIXED_LEN}")),
    }
}

fn check_header(
    json: &[u8],
    what: FileKind,
    cluster: &str,
    epoch: Option<u64>,
) -> Result<(), String> {
    let header: Header = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    if header.format > FORMAT {
        return Err(format!(
            "format {} is newer than this program's {FORMAT}: upgrade it",
            header.format
        ));
    }
    if header.what != what {
        return Err(format!("a {:?} file in the place of {what:?}", header.what));
    }
    // The request of a client may lack the cluster id.
    if header.cluster != cluster && !(what == FileKind::Request && header.cluster.is_empty()) {
        return Err(format!("belongs to cluster {:?}", header.cluster));
    }
    if epoch.is_some_and(|e| e != header.epoch) {
        return Err(format!("belongs to epoch {}", header.epoch));
    }
    Ok(())
}

mod local;
mod other_files;
#[cfg(test)]
mod tests;
