//! Listening to hosts: beats, load samples and reports, read by offset.
//!
//! A check takes no operation per listed host: one listing of beats (`host_liveness`) shows which
//! hosts have new load and reports. Hosts of an older version are polled one after the other.

mod names;
mod reports;

use super::host_liveness::{BeatNames, HostLiveness};
use crate::record::hint::{Endpoint, tag_of};
use crate::record::load::{self, LoadDoc};
use crate::record::point::Points;
use crate::record::report::{Report, ReportRecord};
use crate::record::suspect::Suspect;
use crate::spool::Layout;
use crate::spool::polling::Polling;
use crate::sys::clock;
use crate::sys::fs;
use crate::sys::trust::Owners;
use crate::text::duration::short;
use crate::turn::Input;
use names::{HOSTS_MAX, HostNames, LIST_EVERY_MS, LIST_IDLE_MS};
use reports::{Tails, parse_reports};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of reports that are read from one host in one turn.
const CHUNK: usize = 4 << 20;
/// How often beats are listed, in milliseconds.
const LOAD_EVERY_MS: u64 = 5000;
/// How often the leader checks whether a host with jobs has written anything, in milliseconds.
const REPORTS_EVERY_MS: u64 = 1000;
/// Maximum time for reading load documents and report files that are new to this leader in one
/// pass, in milliseconds, and the pause before the next pass if there are more.
const READ_MS: u64 = 100;
/// The same for the first pass: what hosts remember of the journal should be known before jobs
/// start.
const FIRST_READ_MS: u64 = 1000;
const READ_PAUSE_MS: u64 = 20;
/// Number of hosts without a beat that are checked with each listing of beats, and while hosts
/// start up.
const OLD_FILE_POLLS: usize = 2;
const OLD_FILE_POLLS_FREQUENT: usize = 16;
/// Up to this number of hosts, all may be checked when something changed and it is not known where.
const FEW_HOSTS: usize = 64;
/// Maximum number of checks for reports per second without a hint, over all hosts, if none find
/// any.
const POLLS_PER_S: u64 = 20;
/// The same while an expected host has not started up yet...
const LOAD_FREQUENT_MS: u64 = 250;
/// ...for at most this long after the leader or the host appeared, in milliseconds.
const FREQUENT_FOR_MS: u64 = 15_000;
/// Clocks further apart than this are reported, in milliseconds.
const SKEW_MS: u64 = 5_000;
/// Maximum number of hosts with damaged reports that are named, and for how long (ms).
const DAMAGES_MAX: usize = 10;
const SHOWN_MS: u64 = 3_600_000;
/// Maximum number of hosts that are shown as not configured.
const UNCONFIGURED_MAX: usize = 100;
/// Maximum number of alarms about files that do not belong to the host's account.
const FOREIGN_MAX: usize = 20;

/// Which hosts' reports are read in a turn.
#[derive(Clone, Copy)]
pub enum HostSelection<'a> {
    /// All hosts: something changed, and it is not known where.
    All,
    /// The named hosts, and hosts whose poll is due.
    Hosts(&'a BTreeSet<String>),
    /// Hosts whose poll is due.
    Due,
}

/// What the leader knows of one host, and the position up to which it has read the host's files.
struct HostReader {
    /// When its reports are checked without a hint.
    polling: Polling,
    /// Its reports are checked without a hint.
    polled: bool,
    /// The report file being read: number, offset, next sequence number.
    part: u64,
    offset: u64,
    seq: u64,
    /// When its directory was last listed to find newer report files.
    listed_at: u64,
    liveness: HostLiveness,
    /// By how much its clock was ahead of the file server's when it last wrote its load.
    clock_ahead_ms: Option<i64>,
    /// A position at which reading the current file does not continue.
    suspect: Suspect,
    /// Damage that was established: in which file, when, and the text of the alarm.
    damage: Option<(u64, u64, String)>,
    /// A file of another account has the name of the host's file: logged once.
    foreign_logged: bool,
    /// The address at which it takes hints.
    endpoint: Option<Endpoint>,
}

impl Default for HostReader {
    fn default() -> HostReader {
        HostReader {
            polling: Polling::new(LOAD_EVERY_MS),
            polled: false,
            part: 0,
            offset: 0,
            seq: 0,
            listed_at: 0,
            liveness: HostLiveness::default(),
            clock_ahead_ms: None,
            suspect: Suspect::default(),
            damage: None,
            foreign_logged: false,
            endpoint: None,
        }
    }
}

/// By how many milliseconds a host's clock is ahead of the file server's: the content of its file
/// has the host's time, the modification time is the server's.
fn clock_ahead_ms(path: &Path, doc: &LoadDoc) -> Option<i64> {
    let at = fs::stat(path).ok().flatten()?.mtime_ms;
    Some(doc.t.saturating_sub(at))
}

/// The note for administrators on a host's clock.
fn skew(ms: i64) -> Option<String> {
    let s = (ms.unsigned_abs() + 500) / 1000;
    let word = if ms > 0 { "ahead of" } else { "behind" };
    let text = short(s * 1000);
    (s * 1000 > SKEW_MS).then(|| format!("its clock is {text} {word} the file server's"))
}

/// The beats as last listed.
struct Beats {
    names: BeatNames,
    /// When they were listed, and when the leader last checked for new ones.
    listed_at: u64,
    checked_at: u64,
    /// Why they cannot be read.
    unreadable: Option<String>,
}

/// The hosts that were last checked without a beat.
#[derive(Default)]
struct HostRotation {
    /// The last one for a load document, and for reports.
    load: String,
    reports: String,
    /// When reports were last checked in this way (boot clock, ms).
    reports_at: Option<u64>,
}

/// Time for reading files in one pass.
#[derive(Default)]
struct ReadTime {
    /// Until when files are read (boot clock, ms).
    until: u64,
    /// Some files are still to be read.
    unread_left: bool,
}

impl ReadTime {
    /// Whether the time is over; what is not read yet waits for the next pass.
    fn is_over(&mut self) -> bool {
        let late = clock::boot_ms() > self.until;
        self.unread_left |= late;
        late
    }
}

/// Reads what all hosts write.
pub struct Hosts {
    layout: Layout,
    cluster: String,
    readers: BTreeMap<String, HostReader>,
    tails: Tails,
    /// Hosts by the tags of their names.
    tags: BTreeMap<u64, String>,
    names: HostNames,
    beats: Beats,
    frequent_until: u64,
    rotation: HostRotation,
    time: ReadTime,
    /// The owners whose files are read.
    pub owners: Owners,
    /// Damage that was found, for administrators.
    pub alarms: Vec<String>,
    /// The host that has followed the highest epoch, that epoch, and the highest job id that was
    /// sent to any host.
    pub most_advanced: (String, u64, u32),
    /// The positions of the journal that hosts remember, if not yet compared.
    pub points: BTreeMap<String, Points>,
}

impl Hosts {
    pub fn new(layout: &Layout, cluster: &str, owners: Owners) -> Hosts {
        Hosts {
            layout: layout.clone(),
            cluster: cluster.to_owned(),
            readers: BTreeMap::new(),
            tails: Tails::new(layout),
            tags: BTreeMap::new(),
            names: HostNames::new(layout),
            beats: Beats {
                names: BeatNames::new(layout, owners),
                listed_at: 0,
                checked_at: 0,
                unreadable: None,
            },
            frequent_until: 0,
            rotation: HostRotation::default(),
            time: ReadTime::default(),
            owners,
            alarms: Vec::new(),
            most_advanced: Default::default(),
            points: BTreeMap::new(),
        }
    }

    /// Directories to watch.
    pub fn directories(&self) -> Vec<PathBuf> {
        let each = self.readers.keys().map(|host| self.layout.host(host));
        std::iter::once(self.layout.hosts()).chain(each).collect()
    }

    /// Hosts that beat but are not in the configuration, if there are few.
    pub fn unconfigured(&self, has: impl Fn(&str) -> bool) -> Vec<String> {
        let beating = self
            .readers
            .iter()
            .filter(|(_, reader)| reader.liveness.is_beating());
        let unknown = beating
            .filter(|(host, _)| !has(host))
            .take(UNCONFIGURED_MAX);
        unknown.map(|(host, _)| host.clone()).collect()
    }

    /// Damage in report files, for administrators: for an hour, and until the host begins another
    /// file. At most a few, with the number of the rest.
    pub fn damages(&self, now_ms: u64) -> Vec<String> {
        let shown = |reader: &&HostReader| {
            let of = reader.damage.as_ref();
            of.is_some_and(|(part, at, _)| {
                *part == reader.part || now_ms.saturating_sub(*at) < SHOWN_MS
            })
        };
        let all: Vec<&HostReader> = self.readers.values().filter(shown).collect();
        let texts = all.iter().take(DAMAGES_MAX);
        let texts =
            texts.filter_map(|reader| reader.damage.as_ref().map(|(_, _, text)| text.clone()));
        let mut texts: Vec<String> = texts.collect();
        if all.len() > DAMAGES_MAX {
            texts.push(format!("damaged reports of {} hosts in all", all.len()));
        }
        texts
    }

    /// What cannot be read or listed about hosts at present, for administrators.
    pub fn unreadable(&self) -> impl Iterator<Item = String> {
        let beats = self.beats.unreadable.iter();
        let beats = beats.map(|e| format!("the beats of hosts cannot be read: {e}"));
        beats.chain(self.names.alarm())
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.readers.keys()
    }

    /// How soon hosts must be checked again, in milliseconds.
    pub fn poll_pause_ms(&self, now_ms: u64) -> u64 {
        match self.time.unread_left {
            true => READ_PAUSE_MS,
            false => self.beat_pace(now_ms),
        }
    }

    /// How long beats may stay unread, in milliseconds; it is short while hosts start up.
    fn beat_pace(&self, now_ms: u64) -> u64 {
        let asleep = |reader: &HostReader| reader.liveness.is_inactive();
        let waiting = self.readers.is_empty() || self.readers.values().any(asleep);
        match waiting && now_ms < self.frequent_until {
            true => LOAD_FREQUENT_MS,
            false => LOAD_EVERY_MS,
        }
    }

    /// The host whose name has this tag.
    pub fn name_of(&self, tag: u64) -> Option<&str> {
        self.tags.get(&tag).map(String::as_str)
    }

    /// The address at which a host takes hints, if it does.
    pub fn endpoint(&self, host: &str) -> Option<&Endpoint> {
        self.readers.get(host)?.endpoint.as_ref()
    }

    /// Notes that this host was sent orders: its reports are expected.
    pub fn expect(&mut self, host: &str, now_ms: u64) {
        if let Some(reader) = self.readers.get_mut(host) {
            reader.polling.expect(now_ms);
        }
    }

    /// When the reports of any host are due for a check.
    pub fn due_ms(&self) -> Option<u64> {
        let polled = self.readers.values().filter(|reader| reader.polled);
        polled.map(|reader| reader.polling.due_ms()).min()
    }

    /// Reads what the hosts that `which` names have written. `poll_ms`: longest pause between two
    /// checks of the reports of a host; hosts with `no_work` are checked only as often as their
    /// load. Returns true if a host appeared.
    pub fn read_all(
        &mut self,
        (now_ms, wall_ms): (u64, i64),
        which: HostSelection<'_>,
        poll_ms: u64,
        no_work: &dyn Fn(&str) -> bool,
        inputs: &mut Vec<Input>,
    ) -> bool {
        let hinted = matches!(which, HostSelection::All);
        let first = self.names.is_new();
        let appeared = self.find_hosts(now_ms, hinted);
        if first || appeared {
            self.frequent_until = now_ms + FREQUENT_FOR_MS;
        }
        let beats = first || self.is_beat_time(now_ms, hinted, no_work);
        if beats {
            self.read_beats(now_ms, wall_ms);
        }
        self.time.unread_left = false;
        self.time.until = clock::boot_ms() + if first { FIRST_READ_MS } else { READ_MS };
        self.read_loads((now_ms, wall_ms), beats, no_work);
        for (host, reader) in &mut self.readers {
            if let Some((mut doc, silent_ms)) = reader
                .liveness
                .evaluate(now_ms, self.beats.names.has_failed_listing())
            {
                doc.clock_ahead_ms = reader.clock_ahead_ms;
                doc.notes.extend(reader.clock_ahead_ms.and_then(skew));
                inputs.push(Input::Load {
                    host: host.clone(),
                    doc: Box::new(doc),
                    silent_ms,
                });
            }
        }
        self.find_parts(now_ms, beats, hinted, no_work);
        self.time.until += READ_MS;
        for (host, named) in self.due_reports(now_ms, which, poll_ms, no_work) {
            if self.time.is_over() {
                break;
            }
            let found = self.read_reports(&host, named, now_ms, inputs);
            if let Some(reader) = self.readers.get_mut(&host) {
                reader.polling.note_poll(now_ms, found, named);
            }
        }
        appeared
    }

    /// Sets the file from which reports of this host are read; 0 = any.
    pub(super) fn begin_with(&mut self, host: &str, part: u64) {
        if part > 0 && self.readers.len() < HOSTS_MAX {
            self.tags.insert(tag_of(host), host.to_owned());
            self.readers
                .entry(host.to_owned())
                .or_default()
                .go_to_part(part);
        }
    }

    /// Number of known hosts.
    pub fn count(&self) -> usize {
        self.readers.len()
    }

    /// Finds hosts that are new in `hosts/` or in `beats/`. Returns true if there are any.
    fn find_hosts(&mut self, now_ms: u64, hinted: bool) -> bool {
        let before = self.readers.len();
        let pace = self.beat_pace(now_ms);
        let pace = (pace < LOAD_EVERY_MS).then_some(pace);
        let known = |name: &str| self.readers.contains_key(name);
        for name in self.names.find_new(now_ms, hinted, pace, known) {
            self.tags.insert(tag_of(&name), name.clone());
            self.readers.entry(name).or_default();
        }
        self.readers.len() != before
    }

    /// Whether to list beats: when it is time, and, while any host has jobs, when they changed.
    fn is_beat_time(&mut self, now_ms: u64, hinted: bool, no_work: &dyn Fn(&str) -> bool) -> bool {
        let age = now_ms.saturating_sub(self.beats.listed_at);
        if age >= self.beat_pace(now_ms) {
            return true;
        }
        let ask = age >= REPORTS_EVERY_MS
            && now_ms.saturating_sub(self.beats.checked_at) >= REPORTS_EVERY_MS;
        if !(ask && (hinted || self.readers.keys().any(|host| !no_work(host)))) {
            return false;
        }
        self.beats.checked_at = now_ms;
        self.beats.names.changed()
    }

    fn read_beats(&mut self, now_ms: u64, wall_ms: i64) {
        self.beats.listed_at = now_ms;
        let listed = match self.beats.names.list() {
            // No leader has had a version that creates it yet: hosts beat by their documents.
            Err(e) if e.is_not_found() => {
                fs::mkdir(&self.layout.beats(), 0o755).map(|_| Default::default())
            }
            other => other,
        };
        let unreadable = listed.as_ref().err().map(ToString::to_string);
        if let Some(e) = unreadable
            .as_ref()
            .filter(|_| unreadable != self.beats.unreadable)
        {
            tracing::error!("{e}");
        }
        self.beats.unreadable = unreadable;
        let Ok(listed) = listed else {
            return;
        };
        for (host, beats) in listed {
            if self.readers.len() < HOSTS_MAX || self.readers.contains_key(&host) {
                self.tags.insert(tag_of(&host), host.clone());
                let reader = self.readers.entry(host).or_default();
                reader.liveness.note_beats(beats, now_ms, wall_ms);
            }
        }
    }

    /// Reads the load documents that beats announce, and those of hosts that may beat by their
    /// documents, longest unread first; if beats were listed, also those of some silent hosts in
    /// turn.
    fn read_loads(
        &mut self,
        (now_ms, wall_ms): (u64, i64),
        beats: bool,
        no_work: &dyn Fn(&str) -> bool,
    ) {
        let mut due = Vec::new();
        for (host, reader) in &self.readers {
            let (liveness, works) = (&reader.liveness, !no_work(host));
            let old = now_ms.saturating_sub(liveness.load_due_at()) >= LOAD_EVERY_MS;
            let lives = liveness.lives_by_document(now_ms, works) && (beats || old);
            if lives || liveness.has_document(now_ms) {
                due.push((!works, liveness.load_due_at(), host.clone()));
            }
        }
        due.sort_unstable();
        let mut due: Vec<String> = due.into_iter().map(|(.., host)| host).collect();
        if beats {
            let polls = match now_ms < self.frequent_until {
                true => OLD_FILE_POLLS_FREQUENT,
                false => OLD_FILE_POLLS,
            };
            let lifeless = |reader: &HostReader| {
                !reader.liveness.is_named(now_ms) && reader.liveness.load_due_at() != now_ms
            };
            due.extend(next_in_turn(
                &self.readers,
                &mut self.rotation.load,
                polls,
                lifeless,
            ));
        }
        for host in due {
            if self.time.is_over() {
                break;
            }
            self.read_load(&host, now_ms, wall_ms);
        }
    }

    fn read_load(&mut self, host: &str, now_ms: u64, wall_ms: i64) {
        let Some(reader) = self.readers.get_mut(host) else {
            return;
        };
        let path = self.layout.load(host);
        let doc = read_load(
            &path,
            self.owners,
            &mut reader.foreign_logged,
            &mut self.alarms,
        );
        if let Some(doc) = &doc {
            if doc.epoch > self.most_advanced.1 {
                (self.most_advanced.0, self.most_advanced.1) = (host.to_owned(), doc.epoch);
            }
            self.most_advanced.2 = self.most_advanced.2.max(doc.top);
            if reader.liveness.remembers_other(doc) {
                self.points.insert(host.to_owned(), doc.journal.clone());
            }
            reader.clock_ahead_ms = clock_ahead_ms(&path, doc);
        }
        reader.liveness.read(doc, now_ms, wall_ms);
    }

    /// Finds newer report files that beats do not announce, by listing directories of hosts: those
    /// that have jobs or just appeared, and some in turn.
    fn find_parts(
        &mut self,
        now_ms: u64,
        beats: bool,
        hinted: bool,
        no_work: &dyn Fn(&str) -> bool,
    ) {
        if !(beats || hinted) {
            return;
        }
        // The last beat of a host with jobs may be older than its last report file.
        let is_silent = |host: &String, reader: &HostReader| match no_work(host) {
            true => reader.liveness.reports().is_none() && !reader.liveness.is_inactive(),
            false => reader.liveness.reports().is_none() || !reader.liveness.is_named(now_ms),
        };
        let soon = |host: &String, reader: &HostReader| {
            let pause = match (hinted, no_work(host)) {
                (true, _) if reader.part == 0 => LIST_EVERY_MS,
                (_, false) => REPORTS_EVERY_MS,
                (_, true) => LIST_IDLE_MS,
            };
            now_ms.saturating_sub(reader.listed_at) >= pause
        };
        let all = self.readers.iter();
        let due =
            all.filter(|(host, reader)| !reader.liveness.is_unknown() && is_silent(host, reader));
        let due = due.filter(|(host, reader)| soon(host, reader));
        let mut due: Vec<String> = due.map(|(host, _)| host.clone()).collect();
        let rested = |at: u64| now_ms.saturating_sub(at) >= LOAD_EVERY_MS;
        if beats && self.rotation.reports_at.is_none_or(rested) {
            self.rotation.reports_at = Some(now_ms);
            // Also for hosts whose beats name a file: another user's file in front of it is
            // reported.
            due.extend(next_in_turn(
                &self.readers,
                &mut self.rotation.reports,
                OLD_FILE_POLLS,
                |_: &HostReader| true,
            ));
        }
        for host in due {
            self.find_part(&host, now_ms);
        }
        for reader in self.readers.values_mut() {
            if let Some((part, _)) = reader
                .liveness
                .reports()
                .filter(|(part, _)| *part > reader.part)
            {
                reader.go_to_part(part);
            }
        }
    }

    fn find_part(&mut self, host: &str, now_ms: u64) {
        let Some(reader) = self.readers.get_mut(host) else {
            return;
        };
        reader.listed_at = now_ms;
        let entries = fs::names(&self.layout.host(host), 10_000).unwrap_or_default();
        let parts = entries
            .iter()
            .filter_map(|name| Layout::parse_reports_name(name.to_str()?));
        let mut newer: Vec<u64> = parts.filter(|part| *part > reader.part).collect();
        newer.sort_unstable();
        // Another user's file must not hide the host's own file.
        while let Some(part) = newer.pop() {
            let path = self.layout.reports(host, part);
            let Some(e) = self.owners.refusal_of(&path) else {
                reader.go_to_part(part);
                break;
            };
            log_foreign_file(&mut reader.foreign_logged, &e, &mut self.alarms);
        }
    }

    /// Hosts whose reports are read, longest due first, and whether something indicates that they
    /// have new ones. If a beat states the length of its reports, a host without jobs is not
    /// polled.
    fn due_reports(
        &mut self,
        now_ms: u64,
        which: HostSelection<'_>,
        poll_ms: u64,
        no_work: &dyn Fn(&str) -> bool,
    ) -> Vec<(String, bool)> {
        let few = self.readers.len() <= FEW_HOSTS;
        let polled = self.readers.values().filter(|reader| reader.polled).count() as u64;
        let shared_ms = polled * 1000 / POLLS_PER_S;
        let mut due = Vec::new();
        for (host, reader) in self
            .readers
            .iter_mut()
            .filter(|(_, reader)| reader.part > 0)
        {
            let (idle, end) = (no_work(host), reader.liveness.reports());
            reader.polled = !idle || end.is_none();
            let slow_ms = if idle { LOAD_EVERY_MS } else { poll_ms };
            reader.polling.set_slow(slow_ms.max(shared_ms));
            let named = match which {
                HostSelection::All => few || reader.polled,
                HostSelection::Hosts(names) => names.contains(host),
                HostSelection::Due => false,
            };
            let has_reports = named
                || (end.is_some_and(|end| reader.has_unread(end)) && !reader.is_stuck(now_ms));
            if has_reports || (reader.polled && reader.polling.is_due(now_ms)) {
                due.push((reader.polling.due_ms(), host.clone(), has_reports));
            }
        }
        due.sort_unstable();
        due.into_iter()
            .map(|(_, host, has_reports)| (host, has_reports))
            .collect()
    }

    /// Reads what a host has added to its reports; `named`: something indicates an addition.
    /// Returns true if there was something.
    fn read_reports(
        &mut self,
        host: &str,
        named: bool,
        now_ms: u64,
        inputs: &mut Vec<Input>,
    ) -> bool {
        let Some(reader) = self.readers.get_mut(host) else {
            return false;
        };
        if reader.part == 0 {
            return false;
        }
        let path = self.layout.reports(host, reader.part);
        // Most checks find nothing: then they cost only one request for the length.
        if !named && fs::mark(&path).is_ok_and(|mark| mark.len == reader.offset) {
            return false;
        }
        let tail = self.tails.of(host);
        let chunk = match tail.read_from(&path, reader.offset, CHUNK) {
            Ok(chunk) => chunk,
            Err(e) => {
                if reader.suspect.unreadable(reader.offset, now_ms) {
                    inputs.extend(reader.give_up(host, &path, e.to_string(), now_ms));
                }
                return false;
            }
        };
        if chunk.bytes.is_empty() && chunk.file_len >= reader.offset {
            reader.suspect.clear();
            return false;
        }
        if let Err(e) = self.owners.check("believe", &path, chunk.uid) {
            log_foreign_file(&mut reader.foreign_logged, &e, &mut self.alarms);
            return false;
        }
        let read = parse_reports(&chunk, &path, &self.cluster, (reader.offset, reader.seq));
        let (reports, damage) = (read.reports, read.damage);
        (reader.offset, reader.seq) = read.next;
        reader.note_endpoint(&reports);
        // The unreadable part may report attempts that the readable part does not mention.
        let goes_on = chunk.bytes.len() == CHUNK && reader.offset < chunk.file_len;
        let more = damage.is_some() || goes_on;
        // An incomplete line at the end is still being written, for a while.
        let damage_reason = match &damage {
            None => {
                reader.suspect.clear();
                None
            }
            Some(e) => {
                let lasts =
                    (reader.suspect).is_damage(&e.damage, reader.offset, chunk.file_len, now_ms);
                lasts.then(|| e.damage.to_string())
            }
        };
        let part = reader.part;
        let given_up = damage_reason.and_then(|why| reader.give_up(host, &path, why, now_ms));
        inputs.extend(given_up);
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

/// The next hosts in turn after `last` that are `wanted`.
fn next_in_turn(
    readers: &BTreeMap<String, HostReader>,
    last: &mut String,
    most: usize,
    wanted: impl Fn(&HostReader) -> bool,
) -> Vec<String> {
    let after = (Bound::Excluded(last.as_str()), Bound::Unbounded);
    let until = (Bound::Unbounded, Bound::Included(last.as_str()));
    let all = readers
        .range::<str, _>(after)
        .chain(readers.range::<str, _>(until));
    let next = all.filter(|(_, reader)| wanted(reader)).take(most);
    let next: Vec<String> = next.map(|(host, _)| host.clone()).collect();
    if let Some(host) = next.last() {
        last.clone_from(host);
    }
    next
}

/// The load of a host; `None`: it cannot be read, or belongs to another account. A torn read is
/// normal while cbls overwrites the file: the next pass reads it.
fn read_load(
    path: &Path,
    owners: Owners,
    foreign: &mut bool,
    alarms: &mut Vec<String>,
) -> Option<LoadDoc> {
    let (bytes, uid) = fs::read_small_owned(path, load::LOAD_MAX as u64).ok()?;
    if let Err(e) = owners.check("believe", path, uid) {
        log_foreign_file(foreign, &e, alarms);
        return None;
    }
    load::decode(&bytes).ok()
}

impl HostReader {
    /// Reads that file from its start from now on.
    fn go_to_part(&mut self, part: u64) {
        (self.part, self.offset, self.seq) = (part, 0, 0);
        self.suspect.clear();
        self.endpoint = None;
    }

    /// Whether reports that end at file and offset `end` are not read yet.
    fn has_unread(&self, end: (u64, u64)) -> bool {
        end > (self.part, self.offset)
    }

    /// Reading the current file does not continue: regardless of hints, it is checked again only
    /// when its poll is due, and after it was given up, only another file is read.
    fn is_stuck(&self, now_ms: u64) -> bool {
        let given_up = |(part, ..): &(u64, u64, String)| *part == self.part;
        let waits = self.suspect.is_set() && !self.polling.is_due(now_ms);
        waits || self.damage.as_ref().is_some_and(given_up)
    }

    fn note_endpoint(&mut self, reports: &[ReportRecord]) {
        for marked in reports {
            if let Report::Hints { at } = &marked.report {
                self.endpoint = Endpoint::parse(at);
                if self.endpoint.is_some() {
                    self.polling.presume_hints();
                }
            }
        }
    }

    /// Gives up the current report file. Returns the input that reports this to the turn, once.
    fn give_up(&mut self, host: &str, path: &Path, why: String, now_ms: u64) -> Option<Input> {
        let known = self.damage.as_ref();
        if known.is_some_and(|(part, ..)| *part == self.part) {
            return None;
        }
        let at = self.offset;
        let text = format!(
            "{}:{at}: damaged ({why}); host {host} is ordered to repeat its reports in another \
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
}

/// Logs once that a file of another account is not read.
fn log_foreign_file(logged: &mut bool, e: &crate::sys::Error, alarms: &mut Vec<String>) {
    if !std::mem::replace(logged, true) {
        tracing::error!("{e}");
        if alarms.len() < FOREIGN_MAX {
            alarms.push(e.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
