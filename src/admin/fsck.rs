//! `cadmin fsck [DIR]`: reads everything on the share and reports damage by file and offset.
//!
//! Only reads; needs no leader and takes no lock, so it can run on a working cluster: a record that
//! is just being written, or a view file that was just replaced, does not count as damage. Exit
//! code 1 if there is damage, 5 if the share itself cannot be read.

use super::journal_damage::{self, ReadFinding, whole_line};
use crate::client::env::Site;
use crate::client::exit::{Exit, Fail};
use crate::journal::{Chain, LineError, Lines, snapshot};
use crate::language::answer;
use crate::model::sha256_hex;
use crate::record::acct::{AccountingPosition, AttemptRecord};
use crate::record::ack::Ack;
use crate::record::frame::{Damage, Damaged};
use crate::record::header::{FileKind, Header};
use crate::record::leader::{BeatDoc, CLUSTER_MAX, ClusterDoc, EpochDoc, decode_fixed};
use crate::record::order::Order;
use crate::record::report::Report as HostReport;
use crate::record::request::{REQUEST_MAX, RequestHead, Verb};
use crate::record::view::{self, Row};
use crate::record::{FORMAT, load};
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
    let layout = match &args.dir {
        Some(dir) => Layout::new(dir),
        None => match Site::find() {
            Ok(site) => site.layout(),
            Err(e) => return crate::client::report(Err(e.into())),
        },
    };
    let report = match check(&layout) {
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
pub(crate) fn check(layout: &Layout) -> Result<FsckReport, Fail> {
    let path = layout.cluster();
    let bytes = sys::fs::read_small(&path, CLUSTER_MAX).map_err(|e| {
        Fail::system(format!(
            "{e}: no cluster there, or the share is not mounted"
        ))
    })?;
    let cluster =
        ClusterDoc::decode(&bytes).map_err(|e| Fail::system(format!("{}: {e}", path.display())))?;
    let mut share_check = ShareCheck {
        layout,
        cluster: cluster.cluster,
        report: FsckReport::default(),
    };
    share_check.report.files = 1;
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
    Ok(share_check.report)
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
        let epoch: Option<EpochDoc> = self.document(&self.layout.epoch(), decode_fixed);
        let beat: Option<BeatDoc> = self.document(&self.layout.beat(), decode_fixed);
        if let (Some(epoch), Some(beat)) = (epoch, beat)
            && beat.epoch > epoch.epoch
        {
            let what = format!("names epoch {}, the beat {}", epoch.epoch, beat.epoch);
            self.damage(&self.layout.epoch(), 0, &what);
        }
        for name in self.names(&self.layout.claims_dir()) {
            let path = self.layout.claims_dir().join(&name);
            let claim: Option<EpochDoc> = self.document(&path, decode_fixed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Writer;
    use crate::model::Stamp;
    use crate::record::event::Event;
    use crate::record::frame;
    use crate::record::leader::encode_fixed;
    use std::fs;

    fn share() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        for (dir, _) in layout.directories() {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(layout.lock(), b"").unwrap();
        fs::write(layout.epoch(), encode_fixed(&EpochDoc::default()).unwrap()).unwrap();
        fs::write(layout.beat(), encode_fixed(&BeatDoc::default()).unwrap()).unwrap();
        let doc = ClusterDoc {
            cluster: "c".into(),
            name: "n".into(),
            format: FORMAT,
            service_uid: 0,
            service_gid: 0,
        };
        fs::write(layout.cluster(), serde_json::to_vec(&doc).unwrap()).unwrap();
        let mut w = Writer::create(&layout, "c", 1).unwrap();
        for n in 0..10 {
            w.append(&Event::Cleaned {
                ids: vec![n],
                t: Stamp(1),
            })
            .unwrap();
        }
        w.commit().unwrap();
        (dir, layout)
    }

    fn flip(path: &Path, at: usize) {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    }

    fn log(path: &Path, what: FileKind, rows: &[serde_json::Value]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut out = Vec::new();
        frame::write(&mut out, 0, &Header::new(what, "c", 1, 1)).unwrap();
        for (n, row) in rows.iter().enumerate() {
            frame::write(&mut out, n as u64 + 1, row).unwrap();
        }
        fs::write(path, out).unwrap();
    }

    fn three_answers(layout: &Layout) {
        let ack = serde_json::json!({"k": "ack", "tok": "0".repeat(32), "ok": true});
        let rows = [ack.clone(), ack.clone(), ack];
        log(&layout.acks(1), FileKind::Acks, &rows);
    }

    /// A report on a share with these bytes as answers.
    fn with_answers(layout: &Layout, bytes: &[&[u8]]) -> FsckReport {
        fs::write(layout.acks(1), bytes.concat()).unwrap();
        check(layout).unwrap()
    }

    #[test]
    fn damage_of_accounting_is_named_and_no_accounting_is_none() {
        let (_dir, layout) = share();
        let record = serde_json::json!({"k": "ended", "j": "7", "at": 1, "mark": 9});
        let path = layout.acct_file("2026-11", 1, 1);
        log(&path, FileKind::Acct, &[record.clone(), record]);
        log(
            &layout.acct_written(),
            FileKind::Acct,
            &[serde_json::json!({"k": "written",
            "epoch": 1, "segment": 1, "bytes": 5, "seq": 2})],
        );
        let report = check(&layout).unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
        let bytes = fs::read_to_string(&path)
            .unwrap()
            .replacen("\"mark\":9", "\"mark\":8", 1);
        let at = bytes.find("- {\"at\"").unwrap();
        fs::write(&path, &bytes).unwrap();
        let report = check(&layout).unwrap();
        let place = format!("{}:{at}: ", path.display());
        assert_eq!(report.damage.len(), 1);
        assert!(report.damage[0].starts_with(&place), "{report:?}");
    }

    #[test]
    fn a_sound_share_has_no_damage() {
        let (_dir, layout) = share();
        let report = check(&layout).unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
        assert!(report.records >= 12);
    }

    /// After the remains of a failed write, a leader writes the whole group again.
    #[test]
    fn answers_that_a_full_share_cut_short_are_no_damage() {
        let (_dir, layout) = share();
        three_answers(&layout);
        let whole = fs::read(layout.acks(1)).unwrap();
        let ends: Vec<usize> = whole
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'\n')
            .map(|(n, _)| n + 1)
            .collect();
        let cut = &whole[..ends[1] + 20];
        // Record 1 and half of record 2 were written, then 1, 2 and 3.
        let report = with_answers(&layout, &[cut, b"\n", &whole[ends[0]..]]);
        assert_eq!(report.damage, Vec::<String>::new());
        // Without the complete record after the partial one, a record is missing.
        let report = with_answers(&layout, &[cut, b"\n", &whole[ends[2]..]]);
        assert!(
            report.damage[0].contains("acks.yaml:"),
            "{:?}",
            report.damage
        );
    }

    #[test]
    fn damage_anywhere_is_named_by_file_and_offset() {
        let (_dir, layout) = share();
        three_answers(&layout);
        let never = serde_json::json!({"k": "never", "j": "1", "at": 1, "why": "x"});
        log(&layout.reports("h1", 1), FileKind::Reports, &[never]);
        let odd = serde_json::json!({"k": "dance"});
        log(&layout.orders("h1", 1, 1), FileKind::Orders, &[odd]);
        flip(&layout.acks(1), 150);
        flip(&layout.journal(1, 1), 200);
        flip(&layout.epoch(), 5);
        fs::create_dir(layout.blobs().join("ab")).unwrap();
        fs::write(layout.blob(&"ab".repeat(32)), b"x").unwrap();
        let report = check(&layout).unwrap();
        let text = report.damage.join("\n");
        for due in [
            "acks.yaml:",
            "journal.0001.yaml:",
            "leader/epoch:0",
            "orders.",
            "/ab/",
        ] {
            assert!(text.contains(due), "{due} is not in\n{text}");
        }
        assert_eq!(report.damaged, 5, "{text}");
        assert!(text.contains("dance"), "{text}");
        let words = [layout.root().display().to_string()];
        assert_eq!(run(&words), 1);
    }

    #[test]
    fn half_a_record_at_the_end_is_a_note_and_a_foreign_directory_an_error() {
        let (dir, layout) = share();
        let mut bytes = fs::read(layout.journal(1, 1)).unwrap();
        bytes.extend_from_slice(b"- {\"k\":");
        fs::write(layout.journal(1, 1), bytes).unwrap();
        let report = check(&layout).unwrap();
        assert_eq!(report.damaged, 0);
        assert!(report.notes[0].contains("half a record of 7 bytes"));
        assert_eq!(run(&[dir.path().join("jobs").display().to_string()]), 5);
    }

    #[test]
    fn names_that_users_made_are_no_damage_and_shown_without_their_control_characters() {
        let (_dir, layout) = share();
        fs::write(layout.inbox().join("evil\u{1b}[2J"), b"").unwrap();
        fs::write(layout.inbox().join("4711"), b"").unwrap();
        fs::create_dir_all(layout.inbox_of(5)).unwrap();
        let report = check(&layout).unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
        let lines = report.lines(false).join("\n");
        assert!(lines.contains("(2 such names)"), "{lines}");
        let odd = serde_json::json!({"k": "da\u{1b}]0;x\u{7}nce"});
        log(&layout.orders("h1", 1, 1), FileKind::Orders, &[odd]);
        fs::remove_file(layout.inbox().join("4711")).unwrap();
        let report = check(&layout).unwrap();
        assert_eq!(report.damaged, 1);
        let lines = report.lines(false);
        assert!(lines[0].contains("nce"), "{lines:?}");
        assert!(
            lines.iter().any(|l| l.contains("evil\\x1b[2J")),
            "{lines:?}"
        );
        let hidden = |line: &String| line.chars().any(width::is_hidden);
        assert!(!lines.iter().any(hidden), "{lines:?}");
    }
}
