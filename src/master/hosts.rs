//! Listening to hosts: load samples and reports, read by offset, judged by this machine's clock.

use crate::record::frame::{Damage, Damaged, Reader};
use crate::record::header::{Header, What};
use crate::record::hint::{Endpoint, tag_of};
use crate::record::load::{self, LoadDoc};
use crate::record::point::Points;
use crate::record::report::{MarkOnly, Report, Told};
use crate::record::suspect::Suspect;
use crate::spool::Layout;
use crate::spool::polling::Polling;
use crate::sys::fs;
use crate::sys::trust::Owners;
use crate::text::duration::short;
use crate::turn::{Input, SILENT_MS};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most bytes of reports read from one host in one turn.
const CHUNK: usize = 4 << 20;
/// Most host directories.
const HOSTS_MAX: usize = 100_000;
/// How often load samples are read, in milliseconds.
const LOAD_EVERY_MS: u64 = 5000;
/// The same while a host that is expected has not come to life yet...
const LOAD_EAGER_MS: u64 = 250;
/// ...for at most so long after the leader or the host appeared, in milliseconds.
const EAGER_FOR_MS: u64 = 15_000;
/// Clocks further apart than this are told of, in milliseconds.
const SKEW_MS: u64 = 5_000;
/// How often directories are listed without a hint, in milliseconds.
const LIST_IDLE_MS: u64 = 10_000;
/// Most hosts named whose reports are damaged, and how long they are (ms).
const DAMAGES_MAX: usize = 10;
/// Most alarms of files that are not the hosts' own.
const FOREIGN_MAX: usize = 20;
const SHOWN_MS: u64 = 3_600_000;
/// How soon after a hint directories are listed again, in milliseconds.
const LIST_EVERY_MS: u64 = 250;

/// Whose reports are read in a turn.
#[derive(Clone, Copy)]
pub enum Which<'a> {
    /// Those of all hosts: something changed, and it is not known where.
    All,
    /// Those of the named hosts, and of hosts whose poll is due.
    Hosts(&'a BTreeSet<String>),
    /// Of hosts whose poll is due.
    Due,
}

/// One host as the leader hears it.
struct Ear {
    /// When its reports are looked at without a hint.
    polling: Polling,
    /// Report file being read: number, offset, next sequence number.
    part: u64,
    offset: u64,
    seq: u64,
    /// Beat last seen and when it changed, by the monotonic clock.
    beat: (String, u64),
    beat_at: Option<u64>,
    /// When this leader first read its load.
    watched_at: Option<u64>,
    silent_ms: u64,
    doc: LoadDoc,
    /// Where reading does not go on in the present file.
    suspect: Suspect,
    /// Damage that was found for certain: in which file, when, and what people are told.
    damage: Option<(u64, u64, String)>,
    /// A file of somebody else stands where the host's should: said once.
    foreign: bool,
    /// Where it takes hints.
    endpoint: Option<Endpoint>,
}

impl Default for Ear {
    fn default() -> Ear {
        Ear {
            polling: Polling::new(LOAD_EVERY_MS),
            part: 0,
            offset: 0,
            seq: 0,
            beat: Default::default(),
            beat_at: None,
            watched_at: None,
            silent_ms: 0,
            doc: LoadDoc::default(),
            suspect: Suspect::default(),
            damage: None,
            foreign: false,
            endpoint: None,
        }
    }
}

/// By how many milliseconds a host's clock is ahead of the file server's: its file holds its own
/// time, and bears the file server's.
fn clock_ahead_ms(path: &Path, doc: &LoadDoc) -> Option<i64> {
    let at = fs::stat(path).ok().flatten()?.mtime_ms;
    Some(doc.t.saturating_sub(at))
}

/// What people should know of a host's clock.
fn skew(ms: i64) -> Option<String> {
    let s = (ms.unsigned_abs() + 500) / 1000;
    let word = if ms > 0 { "ahead of" } else { "behind" };
    let text = short(s * 1000);
    (s * 1000 > SKEW_MS).then(|| format!("its clock is {text} {word} the file server's"))
}

/// Reads what all hosts write.
pub struct Hosts {
    layout: Layout,
    cluster: String,
    ears: BTreeMap<String, Ear>,
    /// Hosts by the tags of their names.
    tags: BTreeMap<u64, String>,
    listed_at: u64,
    loads_at: u64,
    eager_until: u64,
    /// Whose files are believed.
    pub owners: Owners,
    /// Damage found, for the admin.
    pub alarms: Vec<String>,
    /// Why the directory of hosts cannot be listed.
    unlisted: Option<String>,
    /// The host that has followed the highest epoch, that epoch, and the highest job id that any
    /// host was given.
    pub ahead: (String, u64, u32),
    /// How far the journal had come, as hosts remember it, where nobody has looked at it yet.
    pub points: BTreeMap<String, Points>,
}

impl Hosts {
    pub fn new(layout: &Layout, cluster: &str, owners: Owners) -> Hosts {
        Hosts {
            layout: layout.clone(),
            cluster: cluster.to_owned(),
            ears: BTreeMap::new(),
            tags: BTreeMap::new(),
            listed_at: 0,
            loads_at: 0,
            eager_until: 0,
            owners,
            alarms: Vec::new(),
            unlisted: None,
            ahead: Default::default(),
            points: BTreeMap::new(),
        }
    }

    /// Directories to watch.
    pub fn directories(&self) -> Vec<PathBuf> {
        let each = self.ears.keys().map(|host| self.layout.host(host));
        std::iter::once(self.layout.hosts()).chain(each).collect()
    }

    /// Damage in report files, for the administrator: for an hour, and as long as the host has not
    /// begun another file. At most a few, with the number of the rest.
    pub fn damages(&self, now_ms: u64) -> Vec<String> {
        let shown = |ear: &&Ear| {
            let of = ear.damage.as_ref();
            of.is_some_and(|(part, at, _)| {
                *part == ear.part || now_ms.saturating_sub(*at) < SHOWN_MS
            })
        };
        let all: Vec<&Ear> = self.ears.values().filter(shown).collect();
        let texts = all.iter().take(DAMAGES_MAX);
        let texts = texts.filter_map(|ear| ear.damage.as_ref().map(|(_, _, text)| text.clone()));
        let unlisted = self.unlisted.iter();
        let unlisted = unlisted.map(|e| format!("new hosts and their reports are not seen: {e}"));
        let mut texts: Vec<String> = unlisted.chain(texts).collect();
        if all.len() > DAMAGES_MAX {
            texts.push(format!("damaged reports of {} hosts in all", all.len()));
        }
        texts
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.ears.keys()
    }

    /// How long load samples may stay unread, in milliseconds: not long while hosts come to life.
    pub fn pace(&self, now_ms: u64) -> u64 {
        let asleep = |ear: &Ear| ear.silent_ms >= SILENT_MS || !ear.doc.executor;
        let waiting = self.ears.is_empty() || self.ears.values().any(asleep);
        match waiting && now_ms < self.eager_until {
            true => LOAD_EAGER_MS,
            false => LOAD_EVERY_MS,
        }
    }

    /// The host whose name has this tag.
    pub fn name_of(&self, tag: u64) -> Option<&str> {
        self.tags.get(&tag).map(String::as_str)
    }

    /// Where a host takes hints, if it does.
    pub fn endpoint(&self, host: &str) -> Option<&Endpoint> {
        self.ears.get(host)?.endpoint.as_ref()
    }

    /// This host was given orders: its reports are awaited.
    pub fn expect(&mut self, host: &str, now_ms: u64) {
        if let Some(ear) = self.ears.get_mut(host) {
            ear.polling.expect(now_ms);
        }
    }

    /// When the reports of any host are due to be looked at.
    pub fn due_ms(&self) -> Option<u64> {
        self.ears.values().map(|ear| ear.polling.due_ms()).min()
    }

    /// Reads what is new at `which` hosts. `poll_ms`: longest pause between two looks at the
    /// reports of a host; hosts that have `no_work` are looked at only as often as their load.
    /// Returns true when a host appeared.
    pub fn listen(
        &mut self,
        (now_ms, wall_ms): (u64, i64),
        which: Which<'_>,
        poll_ms: u64,
        no_work: &dyn Fn(&str) -> bool,
        inputs: &mut Vec<Input>,
    ) -> bool {
        let hinted = matches!(which, Which::All);
        let age = now_ms.saturating_sub(self.listed_at);
        let first = self.listed_at == 0;
        let pace = self.pace(now_ms);
        let eager = pace < LOAD_EVERY_MS && age > pace;
        let list = first || eager || age > LIST_IDLE_MS || (hinted && age > LIST_EVERY_MS);
        let appeared = list && self.list(now_ms);
        if first || appeared {
            self.eager_until = now_ms + EAGER_FOR_MS;
        }
        let loads = first || now_ms.saturating_sub(self.loads_at) >= pace;
        if loads {
            self.loads_at = now_ms;
            self.read_loads(now_ms, wall_ms, inputs);
        }
        let due = |(host, ear): (&String, &mut Ear)| {
            let idle = no_work(host);
            ear.polling
                .set_slow(if idle { LOAD_EVERY_MS } else { poll_ms });
            let named = match which {
                Which::All => true,
                Which::Hosts(names) => names.contains(host),
                Which::Due => false,
            };
            (named || ear.polling.is_due(now_ms)).then(|| (host.clone(), named))
        };
        for (host, named) in self.ears.iter_mut().filter_map(due).collect::<Vec<_>>() {
            let found = self.read_reports(&host, named, now_ms, inputs);
            if let Some(ear) = self.ears.get_mut(&host) {
                ear.polling.looked(now_ms, found, named);
            }
        }
        appeared
    }

    fn list(&mut self, now_ms: u64) -> bool {
        self.listed_at = now_ms;
        let before = self.ears.len();
        let listed = fs::list_dir(&self.layout.hosts(), HOSTS_MAX);
        self.unlisted = listed.as_ref().err().map(ToString::to_string);
        for entry in listed.unwrap_or_default() {
            if let (true, Some(name)) = (entry.is_dir, entry.text()) {
                self.tags.insert(tag_of(name), name.to_owned());
                self.ears.entry(name.to_owned()).or_default();
            }
        }
        for (host, ear) in &mut self.ears {
            let dir = self.layout.host(host);
            let entries = fs::list_dir(&dir, 10_000).unwrap_or_default();
            let parts = entries
                .iter()
                .filter_map(|e| Layout::parse_reports_name(e.text()?));
            let mut newer: Vec<u64> = parts.filter(|part| *part > ear.part).collect();
            newer.sort_unstable();
            // A stranger's file must not hide the host's own.
            while let Some(part) = newer.pop() {
                let path = self.layout.reports(host, part);
                let Some(e) = self.owners.refusal_of(&path) else {
                    (ear.part, ear.offset, ear.seq) = (part, 0, 0);
                    ear.suspect.clear();
                    ear.endpoint = None;
                    break;
                };
                disbelieve(&mut ear.foreign, &e, &mut self.alarms);
            }
        }
        self.ears.len() != before
    }

    fn read_loads(&mut self, now_ms: u64, wall_ms: i64, inputs: &mut Vec<Input>) {
        for (host, ear) in &mut self.ears {
            let path = self.layout.load(host);
            let first = ear.beat.0.is_empty();
            let doc = match read_load(&path, self.owners, &mut ear.foreign, &mut self.alarms) {
                Some(doc) => doc,
                None if first => continue,
                // What cannot be read is no sign of life, nor of death: the host may write it, and
                // nobody knows by which limit it goes.
                None => LoadDoc {
                    iso_ms: None,
                    ..ear.doc.clone()
                },
            };
            if doc.epoch > self.ahead.1 {
                (self.ahead.0, self.ahead.1) = (host.clone(), doc.epoch);
            }
            self.ahead.2 = self.ahead.2.max(doc.top);
            if doc.journal != ear.doc.journal {
                self.points.insert(host.clone(), doc.journal.clone());
            }
            let beat = (doc.incarnation.clone(), doc.beat);
            if first && wall_ms.abs_diff(doc.t) > doc.every_ms.max(1000).saturating_mul(3) {
                // An old file, or a clock far off: life shows by the next change.
                ear.beat = beat;
            } else if ear.beat != beat {
                ear.beat = beat;
                ear.beat_at = Some(now_ms);
            }
            if let Some(input) = ear.judge((host, &path), doc, first, now_ms) {
                inputs.push(input);
            }
        }
    }

    /// Reads what a host has added to its reports; `named`: it is said to have added something.
    /// True when there was something.
    fn read_reports(
        &mut self,
        host: &str,
        named: bool,
        now_ms: u64,
        inputs: &mut Vec<Input>,
    ) -> bool {
        let Some(ear) = self.ears.get_mut(host) else {
            return false;
        };
        if ear.part == 0 {
            return false;
        }
        let path = self.layout.reports(host, ear.part);
        // Most looks find nothing: then one question of the length is all that they cost.
        if !named && fs::mark(&path).is_ok_and(|mark| mark.len == ear.offset) {
            return false;
        }
        let chunk = match fs::read_from(&path, ear.offset, CHUNK) {
            Ok(chunk) => chunk,
            Err(e) => {
                if ear.suspect.unreadable(ear.offset, now_ms) {
                    inputs.extend(ear.give_up(host, &path, e.to_string(), now_ms));
                }
                return false;
            }
        };
        if chunk.bytes.is_empty() && chunk.file_len >= ear.offset {
            ear.suspect.clear();
            return false;
        }
        if let Err(e) = self.owners.check("believe", &path, chunk.uid) {
            disbelieve(&mut ear.foreign, &e, &mut self.alarms);
            return false;
        }
        let read = parse_reports(&chunk, &path, &self.cluster, (ear.offset, ear.seq));
        let (reports, damage) = (read.reports, read.damage);
        (ear.offset, ear.seq) = read.next;
        ear.note_endpoint(&reports);
        // What cannot be read may tell of attempts that what was read does not mention.
        let goes_on = chunk.bytes.len() == CHUNK && ear.offset < chunk.file_len;
        let more = damage.is_some() || goes_on;
        // Half a line at the end is one still being written, for a while.
        let lasting = match &damage {
            None => {
                ear.suspect.clear();
                None
            }
            Some(e) => {
                let lasts = (ear.suspect).lasts(&e.damage, ear.offset, chunk.file_len, now_ms);
                lasts.then(|| e.damage.to_string())
            }
        };
        let part = ear.part;
        let told = lasting.and_then(|why| ear.give_up(host, &path, why, now_ms));
        inputs.extend(told);
        let found = !reports.is_empty();
        if found {
            inputs.push(Input::Reports {
                host: host.to_owned(),
                part,
                reports,
                more,
            });
        }
        found
    }
}

/// What one look at a reports file gave.
struct ReadReports {
    reports: Vec<Told>,
    /// Where reading stopped for another reason than the end of the file.
    damage: Option<Damaged>,
    /// Offset in bytes and sequence number where the next look goes on.
    next: (u64, u64),
}

/// The reports in `chunk`, which begins at `from`: an offset in bytes and a sequence number.
fn parse_reports(chunk: &fs::Chunk, path: &Path, cluster: &str, from: (u64, u64)) -> ReadReports {
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
            match Header::read(&mut reader, What::Reports, Some(cluster)) {
                Ok(Some(_)) => continue,
                Ok(None) => break None,
                Err(e) => break Some(e),
            }
        }
        match reader.next_line() {
            Ok(None) => break None,
            Ok(Some(line)) => match line.decode::<Report>() {
                Ok(report) => {
                    let only: MarkOnly = line.decode().unwrap_or_default();
                    let (seq, mark) = (line.seq, only.mark);
                    reports.push(Told { seq, mark, report });
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

/// The load of a host; `None`: it cannot be read, or is not to be believed. A torn read is normal
/// while cbls overwrites the file: the next look gets it.
fn read_load(
    path: &Path,
    owners: Owners,
    foreign: &mut bool,
    alarms: &mut Vec<String>,
) -> Option<LoadDoc> {
    let (bytes, uid) = fs::read_small_owned(path, load::LOAD_MAX as u64).ok()?;
    if let Err(e) = owners.check("believe", path, uid) {
        disbelieve(foreign, &e, alarms);
        return None;
    }
    load::decode(&bytes).ok()
}

impl Ear {
    fn note_endpoint(&mut self, reports: &[Told]) {
        for told in reports {
            if let Report::Hints { at } = &told.report {
                self.endpoint = Endpoint::parse(at);
            }
        }
    }

    /// The present report file is not read any further; what the turn should hear of it, once.
    fn give_up(&mut self, host: &str, path: &Path, why: String, now_ms: u64) -> Option<Input> {
        let told = self.damage.as_ref();
        if told.is_some_and(|(part, ..)| *part == self.part) {
            return None;
        }
        let at = self.offset;
        let text = format!(
            "{}:{at}: damaged ({why}); host {host} is told to repeat what is behind it in another \
             file",
            path.display()
        );
        tracing::error!("{text}");
        self.damage = Some((self.part, now_ms, text));
        Some(Input::ReportsDamaged {
            host: host.to_owned(),
            part: self.part,
            seq: self.seq,
            at,
        })
    }

    /// For how long the host was silent, and what the turn should hear of it.
    fn judge(
        &mut self,
        (host, path): (&str, &Path),
        mut doc: LoadDoc,
        first: bool,
        now_ms: u64,
    ) -> Option<Input> {
        let watched_at = *self.watched_at.get_or_insert(now_ms);
        let silent_ms = match self.beat_at {
            Some(at) => now_ms.saturating_sub(at),
            None => now_ms.saturating_sub(watched_at).max(SILENT_MS),
        };
        let turned = (self.silent_ms < SILENT_MS) != (silent_ms < SILENT_MS);
        self.silent_ms = silent_ms;
        if !(first || turned || silent_ms >= SILENT_MS || doc != self.doc) {
            return None;
        }
        self.doc = doc.clone();
        doc.clock_ahead_ms = clock_ahead_ms(path, &doc);
        doc.notes.extend(doc.clock_ahead_ms.and_then(skew));
        Some(Input::Load {
            host: host.to_owned(),
            doc: Box::new(doc),
            silent_ms,
        })
    }
}

fn disbelieve(said: &mut bool, e: &crate::sys::Error, alarms: &mut Vec<String>) {
    if !std::mem::replace(said, true) {
        tracing::error!("{e}");
        if alarms.len() < FOREIGN_MAX {
            alarms.push(e.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts of a share where h1 wrote its load once, at the epoch of the wall clock.
    fn one_host(every_ms: u64) -> (tempfile::TempDir, Hosts) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        fs::mkdir_p(&layout.host("h1"), 0o755).unwrap();
        let doc = LoadDoc {
            incarnation: "i".into(),
            every_ms,
            beat: 1,
            ..LoadDoc::default()
        };
        fs::publish(&layout.load("h1"), &load::encode(&doc).unwrap()).unwrap();
        let owners = Owners {
            uid: crate::sys::users::effective_uid(),
            gid: 0,
        };
        let hosts = Hosts::new(&layout, "c", owners);
        (dir, hosts)
    }

    #[test]
    fn a_host_may_say_any_pace() {
        let (_dir, mut hosts) = one_host(u64::MAX);
        let mut inputs = Vec::new();
        hosts.listen((1, i64::MIN), Which::All, 1000, &|_| false, &mut inputs);
        assert!(matches!(&inputs[..], [Input::Load { .. }]));
    }

    #[test]
    fn a_host_that_this_leader_has_not_heard_is_silent_since_it_listens() {
        let (_dir, mut hosts) = one_host(1_000);
        let mut inputs = Vec::new();
        hosts.listen((1, 1 << 40), Which::All, 1000, &|_| false, &mut inputs);
        hosts.listen((50_001, 1 << 40), Which::All, 1000, &|_| false, &mut inputs);
        let silent = inputs.iter().map(|input| match input {
            Input::Load { silent_ms, .. } => *silent_ms,
            _ => 0,
        });
        assert_eq!(silent.collect::<Vec<_>>(), [SILENT_MS, 50_000]);
    }

    #[test]
    fn a_load_that_cannot_be_read_any_more_is_silence() {
        let (dir, mut hosts) = one_host(1_000);
        let path = Layout::new(dir.path()).load("h1");
        let mut silence = |now: u64| {
            let mut inputs = Vec::new();
            hosts.listen((now, 0), Which::All, 1000, &|_| false, &mut inputs);
            inputs.iter().find_map(|input| match input {
                Input::Load { silent_ms, .. } => Some(*silent_ms),
                _ => None,
            })
        };
        assert_eq!(silence(1), Some(0));
        std::fs::write(&path, b"torn").unwrap();
        assert_eq!(silence(10_001), None, "it may be written right now");
        assert_eq!(silence(50_001), Some(50_000));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(silence(60_001), Some(60_000));
    }

    /// Whoever goes by the limit of a load that it cannot read would give away what runs.
    #[test]
    fn a_load_that_cannot_be_read_any_more_names_no_limit() {
        let (dir, mut hosts) = one_host(1_000);
        let path = Layout::new(dir.path()).load("h1");
        let mut doc = LoadDoc {
            incarnation: "i".into(),
            every_ms: 1_000,
            beat: 1,
            iso_ms: Some(6_000),
            ..LoadDoc::default()
        };
        let mut limit = |now: u64| {
            let mut inputs = Vec::new();
            hosts.listen((now, 0), Which::All, 1000, &|_| false, &mut inputs);
            inputs.iter().find_map(|input| match input {
                Input::Load { doc, .. } => Some(doc.iso_ms),
                _ => None,
            })
        };
        fs::publish(&path, &load::encode(&doc).unwrap()).unwrap();
        assert_eq!(limit(1), Some(Some(6_000)));
        std::fs::write(&path, b"damaged").unwrap();
        assert_eq!(limit(50_001), Some(None));
        doc.beat = 2;
        fs::publish(&path, &load::encode(&doc).unwrap()).unwrap();
        assert_eq!(limit(60_001), Some(Some(6_000)));
    }

    #[test]
    fn only_hosts_whose_reports_are_due_or_named_are_read() {
        let (dir, mut hosts) = one_host(1_000);
        let layout = Layout::new(dir.path());
        let mut out = Vec::new();
        let header = Header::new(What::Reports, "c", 0, 1);
        crate::record::frame::write(&mut out, 0, &header).unwrap();
        fs::publish(&layout.reports("h1", 1), &out).unwrap();
        let mut seq = 0;
        let mut add = || {
            seq += 1;
            let report = Report::Complete { boot: "b".into() };
            crate::record::frame::write(&mut out, seq, &report).unwrap();
            fs::publish(&layout.reports("h1", 1), &out).unwrap();
        };
        let listen = |hosts: &mut Hosts, now: u64, which: Which<'_>| {
            let mut inputs = Vec::new();
            hosts.listen((now, 0), which, 1000, &|_| false, &mut inputs);
            let reports = |i: &Input| matches!(i, Input::Reports { .. });
            inputs.iter().any(reports)
        };
        listen(&mut hosts, 1, Which::All);
        add();
        let due = hosts.due_ms().unwrap();
        assert!(!listen(&mut hosts, due - 1, Which::Due));
        assert!(listen(&mut hosts, due, Which::Due));
        assert!(hosts.due_ms().unwrap() - due <= 10, "news comes in company");
        let mut now = due;
        while now < due + 10_000 {
            now = hosts.due_ms().unwrap();
            assert!(!listen(&mut hosts, now, Which::Due));
        }
        assert_eq!(hosts.due_ms().unwrap() - now, 1000);
        add();
        assert!(!listen(&mut hosts, now + 1, Which::Due));
        let named = BTreeSet::from(["h1".to_owned()]);
        assert!(listen(&mut hosts, now + 1, Which::Hosts(&named)));
        // Orders make reports likely.
        let now = now + 5_000;
        listen(&mut hosts, now, Which::Due);
        hosts.expect("h1", now);
        assert!(hosts.due_ms().unwrap() - now <= 10);
    }

    #[test]
    fn clocks_that_differ_are_told_of_with_the_sign() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load.yaml");
        let told = |t: i64| {
            let doc = LoadDoc {
                t,
                ..LoadDoc::default()
            };
            clock_ahead_ms(&path, &doc).and_then(skew)
        };
        assert_eq!(told(0), None, "no file, no word");
        fs::publish(&path, b"x").unwrap();
        let written = fs::stat(&path).unwrap().unwrap().mtime_ms;
        for (ms, due) in [
            (0, None),
            (5_000, None),
            (-5_000, None),
            (6_000, Some("its clock is 6s ahead of the file server's")),
            (-6_400, Some("its clock is 6s behind the file server's")),
            (600_000, Some("its clock is 10m ahead of the file server's")),
            (-7_200_000, Some("its clock is 2h behind the file server's")),
        ] {
            assert_eq!(told(written + ms).as_deref(), due, "{ms} ms");
        }
        for wild in [i64::MAX, i64::MIN] {
            assert!(told(wild).is_some());
        }
    }

    #[test]
    fn a_lasting_flip_in_reports_is_told_once_and_nothing_behind_it_is_believed() {
        let (dir, mut hosts) = one_host(1_000);
        let layout = Layout::new(dir.path());
        let file = |part: u64| {
            let mut out = Vec::new();
            let header = Header::new(What::Reports, "c", 0, part);
            crate::record::frame::write(&mut out, 0, &header).unwrap();
            for seq in 1..=3 {
                let boot = format!("b{seq}");
                let report = Report::Complete { boot };
                crate::record::frame::write(&mut out, seq, &report).unwrap();
            }
            out
        };
        let mut bytes = file(1);
        let at = bytes.len() - 60;
        bytes[at] ^= 1;
        fs::publish(&layout.reports("h1", 1), &bytes).unwrap();
        let listen = |hosts: &mut Hosts, now: u64| {
            let mut inputs = Vec::new();
            hosts.listen((now, 0), Which::All, 1000, &|_| false, &mut inputs);
            inputs.retain(|input| !matches!(input, Input::Load { .. }));
            inputs
        };
        let first = listen(&mut hosts, 1);
        assert!(
            matches!(&first[..], [Input::Reports { reports, .. }] if reports.len() < 3),
            "what stands in front counts"
        );
        let second = listen(&mut hosts, 20001);
        assert!(matches!(
            &second[..],
            [Input::ReportsDamaged { part: 1, .. }]
        ));
        let alarm = hosts.damages(20_001).pop().unwrap();
        assert!(alarm.contains("reports.000001.yaml:"), "{alarm}");
        assert!(listen(&mut hosts, 40_001).is_empty(), "told once");
        fs::publish(&layout.reports("h1", 2), &file(2)).unwrap();
        let third = listen(&mut hosts, 60_001);
        assert!(
            matches!(&third[..], [Input::Reports { part: 2, reports, .. }] if reports.len() == 3)
        );
        assert!(hosts.damages(60_001 + SHOWN_MS).is_empty());
    }

    #[test]
    fn a_pipe_or_directory_in_the_place_of_reports_hides_no_others_and_holds_nobody() {
        let (dir, mut hosts) = one_host(1_000);
        let layout = Layout::new(dir.path());
        fs::mkdir_p(&layout.reports("h1", 9), 0o755).unwrap();
        let pipe = layout.reports("h1", 8);
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut bytes = Vec::new();
        let header = Header::new(What::Reports, "c", 0, 1);
        crate::record::frame::write(&mut bytes, 0, &header).unwrap();
        let report = Report::Complete { boot: "b".into() };
        crate::record::frame::write(&mut bytes, 1, &report).unwrap();
        fs::publish(&layout.reports("h1", 1), &bytes).unwrap();
        let mut inputs = Vec::new();
        hosts.listen((1, 0), Which::All, 1000, &|_| false, &mut inputs);
        let read = |input: &Input| matches!(input, Input::Reports { part: 1, .. });
        assert!(inputs.iter().any(read));
        assert!(
            hosts
                .alarms
                .iter()
                .any(|a| a.contains("not a regular file"))
        );
    }
}
