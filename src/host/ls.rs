//! `cbls`: samples the load of its host and sends the heartbeat.
//!
//! Renames its name in `beats/` at each beat; the name also contains the load. Overwrites
//! `hosts/<host>/load.yaml` in place when anything else changed. A local file tells `cbexe` when
//! the share was last written. Reads nothing from the share except the configuration at its start.

use super::beats::{Beats, beats_of};
use super::iso_limit::IsoLimit;
use super::local::Local;
use super::sensors::Sensors;
use super::setup::HostSetup;
use crate::record::beat::{Beat, material, short};
use crate::record::leader::{BeatDoc, EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::load::{LOAD_LEN, LOAD_MAX, LoadDoc, decode, encode_over};
use crate::record::point::Points;
use crate::record::sealed;
use crate::sys::load::{Load, MachineFacts, Sampler, facts};
use crate::sys::{clock, detach, fs, proc, service, signals, thread};
use crossbeam::channel::Receiver;

/// Pause between two samples, ms.
pub const EVERY_MS: u64 = 5_000;
/// `cbexe` is considered alive for this time after its last local beat, ms.
const EXECUTOR_MS: u64 = 20_000;
/// How often `cbls` checks whether a missing executor has started, ms.
const ABSENT_MS: u64 = 200;
/// How often `cbls` checks that the executor runs, ms: its death should be known before its beat is
/// missed.
const PRESENT_MS: u64 = 1_000;
/// How often a document of another machine with this name is read, ms.
const RIVAL_LOOK_MS: u64 = 500;
/// The same if all beats must be listed; and the delay with which beats may become visible, ms.
const RIVAL_LIST_MS: u64 = 2_500;
const RIVAL_SLACK_MS: u64 = 1_500;
/// Pause between two beats that announce new reports, ms: hints are faster, this is for hosts
/// without hints.
const REPORTS_POSITION_MS: u64 = 2_000;
/// How often the load document is written even if the beats contain everything, ms: for readers
/// that do not read beats.
const REWRITE_MS: u64 = 600_000;
/// It is also written if the wall clock was set by more than this, ms: from its file the leader
/// learns how far the clock is off.
const STEPPED_MS: u64 = 2_000;
/// How often the mount is checked, ms.
const NOTES_MS: u64 = 60_000;
/// Begins the note of an executor that can start no task now.
pub(super) const STARTS_NOTHING: char = '!';
/// Maximum number of notes, and of bytes of each: they share one block with the sample.
const NOTES_MAX: usize = 6;
const NOTE_MAX: usize = 300;

/// Notes for administrators on this host, in addition to its load.
#[derive(Default)]
struct Notes {
    texts: Vec<String>,
    /// When they were last renewed.
    renewed_at: Option<u64>,
    /// Another process writes as this host.
    rival: bool,
}

/// The load document on the share.
struct WrittenLoad {
    /// The last document that was written, its size, the time of the write, and the number of
    /// attempts.
    doc: LoadDoc,
    bytes: usize,
    written_at: u64,
    writes: u64,
    /// It is not certain that the file contains that document.
    is_unsure: bool,
    /// The difference of the wall clock to the boot-time clock when it was written, ms.
    offset: i64,
}

struct Sampling {
    setup: HostSetup,
    facts: MachineFacts,
    sampler: Sampler,
    incarnation: String,
    beat: u64,
    /// Beat of the executor at which its process was not found.
    absent_at_beat: Option<u64>,
    notes: Notes,
    iso: IsoLimit,
    sensors: Sensors,
    beats: Beats,
    written: WrittenLoad,
    /// The position in the reports that the last beat named, and the time of that beat.
    reports_position: (u64, u64),
    beat_at: u64,
    /// The epoch whose leader was last looked up.
    epoch: u64,
}

/// What is known about the executor of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Executor {
    alive: bool,
    /// Its process can be observed.
    watched: bool,
    ledger: String,
    note: String,
    /// It can start no task now; the note says why.
    starts_nothing: bool,
    /// Highest epoch it has followed, and highest job id it was given.
    epoch: u64,
    highest_job_id: u32,
    /// The position of the journal in its last orders.
    journal: Points,
}

/// Runs until a signal ends it.
///
/// # Errors
/// The reason why it could not start.
pub fn run() -> Result<(), super::setup::DaemonEnd> {
    let mut setup = HostSetup::find().map_err(super::setup::refused)?;
    crate::sys::logging::start("info");
    if setup.site.servers.is_none() {
        setup.site.servers = detach::own_directory().ok();
    }
    let term = signals::catch_term().map_err(|e| e.to_string())?;
    signals::ignore_hangup();
    Ok(serve(setup, &term)?)
}

/// Runs at `setup` until `term` receives a signal.
///
/// # Errors
/// The reason why it could not start.
pub fn serve(setup: HostSetup, term: &Receiver<i32>) -> Result<(), String> {
    let _alone = setup.take_daemon_lock(&setup.local.ls_lock(), "cbls")?;
    act_as_owner(&setup)?;
    let dir = setup.layout.host(&setup.site.host);
    fs::mkdir_p(&dir, 0o755).map_err(|e| e.to_string())?;
    if !is_name_unique(&setup, term)? {
        return Ok(());
    }
    super::setup::warn_of_mount(&setup);
    let path = setup.layout.load(&setup.site.host);
    let bytes = fs::stat(&path).ok().flatten().map_or(0, |s| s.len as usize);
    let mut s = Sampling {
        sensors: Sensors::start(&setup),
        iso: IsoLimit::new(&setup.local, clock::boot_ms()),
        beats: Beats::new(&setup.layout, &setup.site.host),
        written: WrittenLoad {
            doc: LoadDoc::default(),
            bytes: bytes.max(LOAD_LEN),
            written_at: 0,
            writes: 0,
            is_unsure: true,
            offset: 0,
        },
        reports_position: (0, 0),
        beat_at: 0,
        epoch: 0,
        setup,
        facts: facts(),
        sampler: Sampler::new(),
        incarnation: clock::nonce(8),
        beat: 0,
        absent_at_beat: None,
        notes: Notes::default(),
    };
    tracing::info!("cbls of host {} started", s.setup.site.host);
    let mut failing = false;
    let mut next = clock::boot_ms();
    loop {
        let began = clock::boot_ms();
        match s.beat() {
            Ok(()) if failing => {
                failing = false;
                service::ready("reports the load");
                tracing::info!("the share can be written again");
            }
            Ok(()) if s.beat == 1 => service::ready("reports the load"),
            Ok(()) => {}
            Err(e) if !failing => {
                failing = true;
                service::status(&e);
                tracing::error!("{e}");
            }
            Err(_) => {}
        }
        service::alive();
        next = next_beat(next, began, clock::boot_ms());
        if s.wait_for_next_beat(term, next) {
            s.sensors.stop();
            service::stopping();
            tracing::info!("cbls ends");
            return Ok(());
        }
    }
}

/// When the next beat is due, after one that was due at `due` and began at `began`: at the next
/// point of the interval, or, after an early beat, one interval later. Early beats must not add up:
/// a host that announced reports every two seconds for a while would be silent for longer than that
/// afterwards.
fn next_beat(due: u64, began: u64, now: u64) -> u64 {
    (due.min(began) + EVERY_MS).max(now)
}

/// A root daemon writes to the share as the account that owns it, because exports squash root.
pub(super) fn act_as_owner(setup: &HostSetup) -> Result<(), String> {
    let (uid, gid) = (setup.cluster.service_uid, setup.cluster.service_gid);
    if crate::sys::users::may_switch() && uid != 0 {
        fs::chown(setup.local.dir(), uid, gid).map_err(|e| e.to_string())?;
    }
    crate::sys::users::act_for(uid, gid).map_err(|e| e.to_string())
}

/// Checks that no other machine uses this host's name: two would overwrite each other's state and
/// start each other's jobs. The other one is detected by its continuing beat, never by comparing
/// two clocks. `Ok(false)`: this process is to end.
///
/// # Errors
/// Another machine beats under this host's name.
pub(super) fn is_name_unique(setup: &HostSetup, term: &Receiver<i32>) -> Result<bool, String> {
    let Some(mut last) = other_machine(setup) else {
        return Ok(true);
    };
    let (began, mut beats) = (clock::boot_ms(), 0);
    let every = last.every_ms.clamp(1000, EVERY_MS);
    let pause = match last.by_name {
        true => RIVAL_LIST_MS,
        false => RIVAL_LOOK_MS,
    };
    // A single beat may be the last one of a machine that ended, seen late because of a cache.
    while clock::boot_ms() - began < (2 + beats) * every + RIVAL_SLACK_MS {
        if thread::recv_timeout(term, pause).is_ok() {
            return Ok(false);
        }
        let Some(now) = other_machine(setup) else {
            return Ok(true);
        };
        if (&now.boot, now.beat) != (&last.boot, last.beat) {
            (last, beats) = (now, beats + 1);
        }
        if beats == 2 {
            return Err(format!(
                "another machine (boot {}) runs as host {} of this cluster: give this one another \
                 name, CB_HOST in {}",
                last.boot,
                setup.site.host,
                setup.site.conf.display()
            ));
        }
    }
    Ok(true)
}

/// The wall clock's time at boot, ms.
fn clock_offset() -> i64 {
    clock::wall_ms().saturating_sub_unsigned(clock::boot_ms())
}

/// The beat of another boot with this host's name.
struct RivalBeat {
    boot: String,
    beat: u64,
    every_ms: u64,
    by_name: bool,
}

fn other_machine(setup: &HostSetup) -> Option<RivalBeat> {
    let host = &setup.site.host;
    let own = short(proc::boot_id());
    let names = beats_of(&setup.layout.beats(), host).ok().flatten();
    let names = names.unwrap_or_default();
    if let Some(beat) = names.iter().find(|beat| beat.boot != own) {
        return Some(RivalBeat {
            boot: beat.boot.clone(),
            beat: beat.beat,
            every_ms: EVERY_MS,
            by_name: true,
        });
    }
    if !names.is_empty() {
        return None;
    }
    let bytes = fs::read_optional(&setup.layout.load(host), LOAD_MAX as u64);
    let doc = decode(&bytes.ok().flatten()?).ok()?;
    (doc.boot != proc::boot_id()).then_some(RivalBeat {
        boot: doc.boot,
        beat: doc.beat,
        every_ms: doc.every_ms,
        by_name: false,
    })
}

impl WrittenLoad {
    /// Writes the load document. A failed attempt may have arrived, completely or in part, so the
    /// next one has another number.
    fn write(&mut self, setup: &HostSetup, doc: &mut LoadDoc, now: u64) -> Result<(), String> {
        self.is_unsure = true;
        self.writes += 1;
        doc.written = self.writes;
        let bytes = encode_over(doc, self.bytes)?;
        let path = setup.layout.load(&setup.site.host);
        let synced = !setup.share_is_local;
        let wrote = match synced {
            true => fs::overwrite_in_place(&path, &bytes),
            false => fs::overwrite_unsynced(&path, &bytes),
        };
        match wrote {
            Err(e) if e.is_not_found() => fs::durable_write(&path, &bytes),
            other => other,
        }
        .map_err(|e| e.to_string())?;
        self.bytes = bytes.len();
        (self.is_unsure, self.written_at) = (false, now);
        self.offset = clock_offset();
        self.doc = doc.clone();
        Ok(())
    }
}

impl Sampling {
    /// Waits for the next beat, due at `next`, or until the executor starts or ends, which the
    /// cluster should know at once. Returns true if this process is to end.
    fn wait_for_next_beat(&mut self, term: &Receiver<i32>, next: u64) -> bool {
        if self.epoch == 0 {
            self.report_leader_to_sensors();
        }
        let executor = self.executor();
        let pause = match (executor.alive, executor.watched) {
            (false, _) => ABSENT_MS,
            (true, true) => PRESENT_MS,
            (true, false) => EVERY_MS,
        };
        loop {
            let left = next.saturating_sub(clock::boot_ms());
            if thread::recv_timeout(term, left.min(pause)).is_ok() {
                return true;
            }
            if left == 0
                || executor.alive != self.executor().alive
                || self.has_unannounced_reports()
            {
                return false;
            }
        }
    }

    fn beat(&mut self) -> Result<(), String> {
        let before = clock::boot_ms();
        let load = self.sampler.sample();
        self.check_hazards(before);
        self.report_leader_to_sensors();
        self.beat += 1;
        let mut doc = self.doc(&load);
        doc.iso_ms = self.iso.to_report(before);
        let stepped = self.written.offset.abs_diff(clock_offset()) > STEPPED_MS;
        let must_write =
            self.written.is_unsure || stepped || before >= self.written.written_at + REWRITE_MS;
        // The document is written before the beat that refers to it.
        let mut wrote = match must_write || material(&self.written.doc, &doc) {
            true => self.written.write(&self.setup, &mut doc, before),
            false => Ok(()),
        };
        let reports_position = self.reports_position(doc.executor);
        doc.written = self.written.doc.written;
        if !self.rename(&doc, reports_position)? {
            if wrote.is_ok() && doc != self.written.doc {
                wrote = self.written.write(&self.setup, &mut doc, before);
            }
            wrote.clone()?;
        } else if self.beats.take_lost() && wrote.is_ok() {
            // The document may be lost as well.
            wrote = self.written.write(&self.setup, &mut doc, before);
            doc.written = self.written.doc.written;
            self.rename(&doc, reports_position)?;
        }
        (self.reports_position, self.beat_at) = (reports_position, before);
        let beat = format!("{before} {}", proc::boot_id());
        write_beat(&self.setup.local.ls_beat(), &beat);
        // After the beat: when a shorter limit comes into force, the beat must be new. The limit in
        // the document of this beat may be in force.
        if let Err(e) = self.iso.written(self.written.doc.iso_ms, clock::boot_ms()) {
            tracing::error!("{e}: iso_timeout is not changed on this host");
        }
        wrote
    }

    /// Beats by renaming. Returns false if no leader reads names here.
    fn rename(&mut self, doc: &LoadDoc, reports_position: (u64, u64)) -> Result<bool, String> {
        let beat = self.beats.beat(&Beat::of(doc, reports_position));
        beat.map_err(|e| e.to_string())
    }

    /// Whether the executor has written reports that no beat has announced yet, and the last beat
    /// is old enough.
    fn has_unannounced_reports(&self) -> bool {
        clock::boot_ms() >= self.beat_at + REPORTS_POSITION_MS
            && self.reports_position(self.written.doc.executor) != self.reports_position
    }

    /// File and length of the reports. Not used without an executor: the file may belong to a share
    /// that was mounted here before.
    fn reports_position(&self, executor: bool) -> (u64, u64) {
        match executor {
            true => read_reports_position(&self.setup.local),
            false => (0, 0),
        }
    }

    /// Tells the sensors whether the leader is on this host, if one of them needs to know. A claim
    /// never changes, so it is read once.
    fn report_leader_to_sensors(&mut self) {
        if !self.sensors.for_leader() {
            return;
        }
        let owners = crate::spool::owners(&self.setup.cluster);
        let read = |path: &std::path::Path| owners.read_small(path, 2 * FIXED_LEN as u64).ok();
        let layout = &self.setup.layout;
        let beat = read(&layout.beat()).and_then(|bytes| decode_fixed::<BeatDoc>(&bytes).ok());
        // Until a leader accepts requests, the previous one is considered the leader.
        let Some(beat) = beat.filter(|b| b.leading && b.epoch != self.epoch) else {
            return;
        };
        let claim = read(&layout.claim(beat.epoch));
        if let Some(claim) = claim.and_then(|bytes| decode_fixed::<EpochDoc>(&bytes).ok()) {
            self.epoch = beat.epoch;
            self.sensors.set_leading(claim.host == self.setup.site.host);
        }
    }

    /// Notes hazards of the mount, and another machine that writes as this host.
    fn check_hazards(&mut self, now: u64) {
        let rival = self.beats.take_rival() || (self.beat > 0 && self.has_rival(now));
        let recent = self.notes.renewed_at.is_some_and(|at| now < at + NOTES_MS);
        if recent && rival == self.notes.rival {
            return;
        }
        (self.notes.renewed_at, self.notes.rival) = (Some(now), rival);
        let dangers = crate::spool::hazards(&self.setup.layout);
        self.notes.texts = dangers.into_iter().map(|h| h.text).collect();
        if rival {
            let text = "another cbls writes as this host: two machines have the same name";
            tracing::error!("{text}; set CB_HOST in the cb.conf of one of them");
            self.notes.texts.push(text.to_owned());
        }
    }

    /// Whether another process overwrote the last document of this process. Two processes that beat
    /// in `beats/` detect each other there; this is for one that does not.
    fn has_rival(&self, now: u64) -> bool {
        if self.notes.renewed_at.is_some_and(|at| now < at + NOTES_MS) {
            return false;
        }
        let path = self.setup.layout.load(&self.setup.site.host);
        let bytes = fs::read_optional(&path, LOAD_MAX as u64).ok().flatten();
        let doc = bytes.and_then(|bytes| decode(&bytes).ok());
        doc.is_some_and(|doc| doc.incarnation != self.incarnation)
    }

    fn doc(&mut self, load: &Load) -> LoadDoc {
        let exe = self.executor();
        let mut notes = self.notes.texts.clone();
        notes.extend([exe.note].into_iter().filter(|n| !n.is_empty()));
        notes.truncate(NOTES_MAX);
        notes.iter_mut().for_each(truncate_note);
        let facts = &self.facts;
        LoadDoc {
            host: self.setup.site.host.clone(),
            boot: proc::boot_id().to_owned(),
            incarnation: self.incarnation.clone(),
            beat: self.beat,
            t: clock::wall_ms(),
            every_ms: EVERY_MS,
            executor: exe.alive,
            starts_nothing: exe.starts_nothing,
            ledger: exe.ledger,
            epoch: exe.epoch,
            top: exe.highest_job_id,
            journal: exe.journal,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ncpus: facts.ncpus,
            maxmem: facts.maxmem,
            maxswp: facts.maxswp,
            maxtmp: facts.maxtmp,
            ndisks: facts.ndisks,
            host_type: facts.arch.clone(),
            model: facts.cpu_model.clone(),
            r15s: round(load.r15s),
            r1m: round(load.r1m),
            r15m: round(load.r15m),
            ut: round(load.ut),
            pg: round(load.pg),
            io: round(load.io),
            ls: f64::from(load.ls),
            it: round(load.it),
            tmp: load.tmp as f64,
            swp: load.swp as f64,
            mem: load.mem as f64,
            notes,
            sensors: self.sensors.report().clone(),
            ..LoadDoc::default()
        }
    }

    /// The state of `cbexe`: whether it is alive, its ledger, and its note for administrators.
    fn executor(&mut self) -> Executor {
        let local = &self.setup.local;
        let Some((at, rest)) = read_beat(&local.exe_beat()) else {
            return Executor::default();
        };
        let mut alive = clock::boot_ms().saturating_sub(at) < EXECUTOR_MS;
        let (mut ledger, mut watched) = (String::new(), false);
        if let Some(id) = read_id(&local.exe_id()) {
            ledger = id.ledger;
            watched = id.start > 0;
            match !watched || proc::alive(id.pid, id.start) {
                true => self.absent_at_beat = None,
                // An executor in its own pid namespace that continues to beat is judged by its beat
                // alone.
                false => alive &= *self.absent_at_beat.get_or_insert(at) < at,
            }
        }
        Executor {
            alive,
            watched,
            ledger,
            ..Executor::parse(&rest)
        }
    }
}

/// Reads the words in the executor's beat: epoch, highest job id, point of the journal, a note.
impl Executor {
    /// Accepts only a whole line: half of a number would look like a restored share.
    fn parse(rest: &str) -> Executor {
        let Some(rest) = unchecked(rest) else {
            return Executor::default();
        };
        let mut words = rest.splitn(3, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (epoch, top, note) = match (number(), number()) {
            (Some(epoch), Some(top)) => (epoch, top, words.next().unwrap_or("")),
            // The format of an earlier version.
            _ => (0, 0, rest),
        };
        let (first, rest) = note.split_once(' ').unwrap_or((note, ""));
        let journal: Option<Points> = first.parse().ok();
        let note = if journal.is_some() { rest } else { note };
        let journal = journal.unwrap_or_default();
        let stopped = note.trim_start().strip_prefix(STARTS_NOTHING);
        let note = stopped.unwrap_or(note);
        Executor {
            starts_nothing: stopped.is_some(),
            epoch,
            journal,
            highest_job_id: u32::try_from(top).unwrap_or(u32::MAX),
            note: note.trim().to_owned(),
            ..Executor::default()
        }
    }
}

/// Shortens a note to its maximum size.
fn truncate_note(note: &mut String) {
    let mut end = NOTE_MAX.min(note.len());
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.truncate(end);
}

fn round(v: f64) -> f64 {
    (v * 1000.0).round() / 1000.0
}

/// A running `cbexe` according to its file.
#[derive(Debug, PartialEq, Eq)]
pub struct ExeId {
    pub pid: i32,
    /// When it began, in clock ticks after boot.
    pub start: u64,
    pub ledger: String,
}

/// Tells `cbls` which process runs and with which ledger.
pub(super) fn write_id(path: &std::path::Path, ledger: &str) {
    let pid = proc::own_pid() as i32;
    let start = proc::start_ticks(pid).unwrap_or(0);
    let text = sealed::seal_words(&format!("{pid} {start} {ledger}"));
    if let Err(e) = fs::publish_mode(path, text.as_bytes(), 0o600) {
        tracing::warn!("{e}");
    }
}

fn read_id(path: &std::path::Path) -> Option<ExeId> {
    let bytes = fs::read_optional(path, 4096).ok().flatten()?;
    parse_id(&bytes)
}

/// Parses the content of that file; `None` if it is damaged.
pub fn parse_id(bytes: &[u8]) -> Option<ExeId> {
    let content = sealed::open_words(bytes).ok()?;
    let mut words = std::str::from_utf8(content.bytes).ok()?.split_whitespace();
    Some(ExeId {
        pid: words.next()?.parse().ok()?,
        start: words.next()?.parse().ok()?,
        ledger: words.next()?.to_owned(),
    })
}

/// A line with its checksum: a local beat is overwritten in place and not synced.
pub(super) fn checked(words: &str) -> String {
    format!("{words} ={:08x}\n", crc32c::crc32c(words.as_bytes()))
}

/// The words of such a line, if it is intact.
fn unchecked(text: &str) -> Option<&str> {
    let line = text.lines().next()?;
    let (words, sum) = line.rsplit_once(" =")?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (sum == crc32c::crc32c(words.as_bytes())).then_some(words)
}

/// Tells `cbls` up to where the leader should read the reports: file and length.
pub(super) fn write_reports_position(local: &Local, (part, end): (u64, u64)) {
    write_beat(
        &local.reports_position(),
        &checked(&format!("{part} {end}")),
    );
}

/// Zeros if the file is damaged: it is written again with the next report.
pub(super) fn read_reports_position(local: &Local) -> (u64, u64) {
    let bytes = fs::read_optional(&local.reports_position(), 4096);
    let text = bytes.ok().flatten().and_then(|b| String::from_utf8(b).ok());
    let position = text.as_deref().and_then(|text| {
        // An executor of an earlier version writes no checksum.
        let words = match text.contains('=') {
            true => unchecked(text)?,
            false => text,
        };
        let (part, end) = words.trim().split_once(' ')?;
        Some((part.parse().ok()?, end.parse().ok()?))
    });
    position.unwrap_or((0, 0))
}

/// Replaces the content of a local beat file; it is small enough for one write.
pub(super) fn write_beat(path: &std::path::Path, text: &str) {
    if let Err(e) = fs::overwrite_unsynced(path, text.as_bytes())
        && e.is_not_found()
    {
        let _ = fs::publish_mode(path, text.as_bytes(), 0o600);
    }
}

/// The boot-time ms and the text of a local beat file.
pub(super) fn read_beat(path: &std::path::Path) -> Option<(u64, String)> {
    let bytes = fs::read_optional(path, 4096).ok().flatten()?;
    let text = String::from_utf8(bytes).ok()?;
    let (at, note) = text.split_once(' ').unwrap_or((&text, ""));
    Some((at.trim().parse().ok()?, note.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executor_names_itself_to_the_load_sampler() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("id");
        assert_eq!(read_id(&p), None);
        write_id(&p, "abc");
        let id = read_id(&p).unwrap();
        assert_eq!(id.ledger, "abc");
        assert!(proc::alive(id.pid, id.start));
    }

    #[test]
    fn the_executor_says_its_epoch_to_the_load_sampler() {
        let parse = |words: &str| Executor::parse(&checked(words));
        let new = parse("7 812 no cgroups here");
        assert_eq!((new.epoch, new.highest_job_id), (7, 812));
        assert_eq!(new.note, "no cgroups here");
        assert_eq!(parse("7 812").note, "");
        let read = parse("7 812 7.1.33.0000000a no cgroups here");
        assert_eq!(read.journal, "7.1.33.0000000a".parse().unwrap());
        assert_eq!(
            (read.highest_job_id, read.note.as_str()),
            (812, "no cgroups here")
        );
        assert_eq!(parse("7 812 7.1.33.0000000a").note, "");
        let full = parse("7 812 7.1.33.0000000a !starts no tasks: full; no cgroups");
        let note = "starts no tasks: full; no cgroups";
        assert_eq!((full.starts_nothing, full.note.as_str()), (true, note));
        assert!(!parse("7 812 7.1.33.0000000a no cgroups!").starts_nothing);
        assert_eq!(Executor::parse(""), Executor::default());
        let mut long = "\u{e4}".repeat(NOTE_MAX);
        truncate_note(&mut long);
        assert_eq!(long.len(), NOTE_MAX);
    }

    /// Beats that announce reports come early; the pause that follows them stays one interval.
    #[test]
    fn early_beats_do_not_make_the_host_silent_later() {
        assert_eq!(next_beat(10_000, 10_003, 10_004), 10_000 + EVERY_MS);
        let (mut due, mut began) = (0, 0);
        for _ in 0..100 {
            due = next_beat(due, began, began);
            assert!(due <= began + EVERY_MS, "silent for {} ms", due - began);
            began += REPORTS_POSITION_MS;
        }
        // A beat that took long is followed by the next one at once.
        assert_eq!(next_beat(10_000, 10_000, 40_000), 40_000);
    }

    #[test]
    fn half_of_a_local_beat_says_nothing() {
        let long = checked("7 812 7.1.33.881891f4");
        for end in 0..long.len() - 1 {
            assert_eq!(Executor::parse(&long[..end]), Executor::default(), "{end}");
        }
        // A shorter line was written over it, and the file was not cut yet.
        let short = checked("7 812 7.1.33.0000000a");
        let over = format!("{short}{}", &long[short.len() - 4..]);
        assert_eq!(Executor::parse(&over), Executor::parse(&short));
        let mixed = format!("{}{}", &short[..20], &long[20..]);
        assert_eq!(Executor::parse(&mixed), Executor::default());
    }

    #[test]
    fn a_damaged_position_of_the_reports_says_nothing() {
        let d = tempfile::tempdir().unwrap();
        let local = Local::at(d.path());
        assert_eq!(read_reports_position(&local), (0, 0));
        write_reports_position(&local, (3, 4711));
        let path = local.reports_position();
        let bytes = std::fs::read(&path).unwrap();
        for n in 0..bytes.len() - 1 {
            let mut flipped = bytes.clone();
            flipped[n] ^= 1;
            std::fs::write(&path, flipped).unwrap();
            assert_eq!(read_reports_position(&local), (0, 0), "byte {n}");
        }
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read_reports_position(&local), (3, 4711));
        std::fs::write(&path, "3 4711").unwrap();
        assert_eq!(read_reports_position(&local), (3, 4711), "earlier versions");
    }

    #[test]
    fn local_beats_are_read_back() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("beat");
        assert_eq!(read_beat(&p), None);
        write_beat(&p, "12345678 no cgroups here");
        write_beat(&p, "99 short");
        assert_eq!(read_beat(&p), Some((99, "short".to_owned())));
    }
}
