//! The journal as a whole: write, damage, recover.

use super::*;
use crate::model::Stamp;
use crate::record::event::Event;
use crate::spool::Layout;
use crate::sys;
use std::fs;
use std::path::PathBuf;

/// A state that consists only of the list of its events.
#[derive(Default, Clone, PartialEq, Debug)]
pub(super) struct EventList {
    pub(super) events: Vec<Event>,
}

impl Restore for EventList {
    fn reset(&mut self) {
        self.events.clear();
    }

    fn record(&mut self, json: &[u8]) -> Result<(), String> {
        let event = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        self.events.push(event);
        Ok(())
    }

    fn event(&mut self, _: Position, event: Event) -> Result<(), String> {
        if matches!(event, Event::Cleaned { .. }) {
            self.events.push(event);
        }
        Ok(())
    }
}

pub(super) struct TestJournal {
    pub(super) dir: tempfile::TempDir,
}

pub(super) fn event(n: u32) -> Event {
    Event::Cleaned {
        ids: vec![n],
        t: Stamp(1),
    }
}

impl TestJournal {
    pub(super) fn new() -> TestJournal {
        let test = TestJournal {
            dir: tempfile::tempdir().unwrap(),
        };
        for (dir, _) in test.layout().directories() {
            fs::create_dir_all(dir).unwrap();
        }
        test
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    /// Leads epoch `epoch`: recovers, seals, and returns the writer with what was read.
    pub(super) fn lead(&self, epoch: u64) -> (Writer, EventList, Recovered) {
        let (log, recovered) = self.recover(epoch).unwrap();
        let mut w = Writer::create(&self.layout(), "c", epoch).unwrap();
        w.append(&Event::Epoch {
            epoch,
            host: "h".into(),
            pid: 1,
            t: Stamp(1),
        })
        .unwrap();
        for seal in &recovered.seals {
            w.append(seal).unwrap();
        }
        w.commit().unwrap();
        (w, log, recovered)
    }

    fn recover(&self, epoch: u64) -> Result<(EventList, Recovered), Error> {
        self.recover_with(epoch, Options::default())
    }

    fn recover_with(&self, epoch: u64, options: Options) -> Result<(EventList, Recovered), Error> {
        let mut log = EventList::default();
        let recovered = recover(&self.layout(), "c", epoch, options, &mut log)?;
        Ok((log, recovered))
    }

    /// The numbers of the events that a leader of `epoch` would see.
    pub(super) fn numbers(&self, epoch: u64) -> Result<Vec<u32>, Error> {
        self.recover(epoch).map(|(log, _)| numbers(&log))
    }

    pub(super) fn segment(&self, epoch: u64, n: u64) -> PathBuf {
        self.layout().journal(epoch, n)
    }
}

fn numbers(log: &EventList) -> Vec<u32> {
    let number = |e: &Event| match e {
        Event::Cleaned { ids, .. } => ids[0],
        other => panic!("{other:?}"),
    };
    log.events.iter().map(number).collect()
}

pub(super) fn write(w: &mut Writer, range: std::ops::Range<u32>) {
    for n in range {
        w.append(&event(n)).unwrap();
    }
    w.commit().unwrap();
}

pub(super) fn range(r: std::ops::Range<u32>) -> Vec<u32> {
    r.collect()
}

#[test]
fn what_was_committed_is_read_back_over_epochs_and_segments() {
    let test = TestJournal::new();
    let (w, ..) = test.lead(1);
    let mut w = w.with_segment_bytes(4096);
    for n in 0..30 {
        write(&mut w, n * 10..n * 10 + 10);
    }
    assert!(w.position().segment > 2);
    drop(w);
    let (mut w, log, _) = test.lead(2);
    assert_eq!(numbers(&log), range(0..300));
    write(&mut w, 300..310);
    w.append(&event(999)).unwrap();
    drop(w);
    assert_eq!(test.numbers(3).unwrap(), range(0..310));
    let again = Writer::create(&test.layout(), "c", 2);
    assert!(again.is_err(), "a segment is never reopened");
}

#[test]
fn a_seal_hides_what_a_stale_leader_writes_later() {
    let test = TestJournal::new();
    let (mut stale, ..) = test.lead(1);
    write(&mut stale, 0..5);
    let (mut w, ..) = test.lead(2);
    write(&mut stale, 100..105);
    let mut stale = stale.with_segment_bytes(1);
    write(&mut stale, 105..200);
    write(&mut stale, 200..210);
    assert!(stale.position().segment > 1, "even in a new segment");
    write(&mut w, 5..7);
    assert_eq!(test.numbers(3).unwrap(), range(0..7));
}

#[test]
fn a_seal_that_names_an_absurd_segment_is_told_of_once() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..5);
    let mut w = Writer::create(&test.layout(), "c", 2).unwrap();
    let (segment, bytes, next_seq) = (u64::MAX, u64::MAX, 1);
    w.append(&Event::Seal {
        epoch: 1,
        segment,
        bytes,
        next_seq,
    })
    .unwrap();
    write(&mut w, 5..7);
    let refused = test.numbers(3).unwrap_err();
    assert!(matches!(refused, Error::Missing { .. }), "{refused}");
    let accept_loss = Options {
        accept_loss: true,
        ..Options::default()
    };
    let (log, recovered) = test.recover_with(3, accept_loss).unwrap();
    assert_eq!(numbers(&log), range(0..7));
    assert!(recovered.loss && recovered.notes.len() < 5, "{recovered:?}");
}

#[test]
fn an_epoch_that_was_claimed_and_never_written_is_sealed_as_empty() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..3);
    let (mut w, _, recovered) = test.lead(4);
    assert_eq!(recovered.seals.len(), 3);
    write(&mut w, 3..4);
    // The claimant of epoch 2 wakes up and writes.
    let mut late = Writer::create(&test.layout(), "c", 2).unwrap();
    write(&mut late, 50..60);
    assert_eq!(test.numbers(5).unwrap(), range(0..4));
}

#[test]
fn every_flip_and_every_truncation_gives_a_prefix_or_a_named_error() {
    every_flip_and_truncation(30);
}

#[test]
#[ignore = "half a minute in a debug build"]
fn every_flip_and_every_truncation_of_200_records() {
    every_flip_and_truncation(200);
}

/// Replaces a file's content in place: ext4 flushes files that are truncated to zero first.
fn put(path: &std::path::Path, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

fn every_flip_and_truncation(records: u32) {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..records);
    drop(w);
    let path = test.segment(1, 1);
    let good = fs::read(&path).unwrap();
    let whole = test.numbers(2).unwrap();
    assert_eq!(whole, range(0..records));
    let (mut prefixes, mut errors) = (0, 0);
    let mut check = |what: &str, at: usize| match test.numbers(2) {
        Ok(found) => {
            assert!(whole.starts_with(&found), "{what} at {at}: other data");
            let seen = what != "flip" || found.len() < whole.len();
            assert!(seen, "flip at {at} unseen");
            prefixes += 1;
        }
        Err(e) => {
            let text = e.to_string();
            assert!(
                text.contains("journal.0001.yaml:"),
                "{what} at {at}: {text}"
            );
            assert_eq!(what, "flip", "{text}");
            errors += 1;
        }
    };
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        put(&path, &bad);
        check("flip", at);
        put(&path, &good[..at]);
        check("truncation", at);
    }
    assert!(prefixes > good.len() && errors > good.len() * 8 / 10);
}

#[test]
fn damage_under_a_seal_is_always_an_error() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..10);
    let (mut w, ..) = test.lead(2);
    write(&mut w, 10..20);
    drop(w);
    let path = test.segment(1, 1);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 2;
        fs::write(&path, &bad).unwrap();
        assert!(test.numbers(3).is_err(), "flip at {at}");
        fs::write(&path, &good[..at]).unwrap();
        assert!(test.numbers(3).is_err(), "truncation at {at}");
    }
    fs::write(&path, &good).unwrap();
    // The records that contain the seal itself.
    let path = test.segment(2, 1);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() / 2 {
        let mut bad = good.clone();
        bad[at] ^= 2;
        fs::write(&path, &bad).unwrap();
        assert!(test.numbers(3).is_err(), "flip at {at} of a sealing epoch");
    }
}

#[test]
fn gaps_repeats_and_strangers_are_refused() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..10);
    drop(w);
    let path = test.segment(1, 1);
    let good = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = good.split_inclusive(|b| *b == b'\n').collect();
    let mut gap = lines.clone();
    gap.remove(4);
    fs::write(&path, gap.concat()).unwrap();
    let text = test.numbers(2).unwrap_err().to_string();
    assert!(
        text.contains("record 5 is in the place of record 4"),
        "{text}"
    );
    let mut twice = lines.clone();
    twice.insert(4, lines[3]);
    fs::write(&path, twice.concat()).unwrap();
    assert!(test.numbers(2).is_err());
    fs::write(&path, &good).unwrap();
    let mut log = EventList::default();
    let other = recover(&test.layout(), "other", 2, Options::default(), &mut log);
    let text = other.unwrap_err().to_string();
    assert!(text.contains("cluster \"c\""), "{text}");
    fs::create_dir_all(test.layout().epoch_dir(2)).unwrap();
    fs::copy(&path, test.segment(2, 1)).unwrap();
    let text = test.numbers(3).unwrap_err().to_string();
    assert!(text.contains("epoch 1, segment 1"), "{text}");
}

#[test]
fn missing_segments_and_epochs_are_named() {
    let test = TestJournal::new();
    let (w, ..) = test.lead(1);
    let mut w = w.with_segment_bytes(4096);
    for n in 0..30 {
        write(&mut w, n * 10..n * 10 + 10);
    }
    let aside = test.dir.path().join("aside");
    fs::rename(test.segment(1, 2), &aside).unwrap();
    let text = test.numbers(2).unwrap_err().to_string();
    assert!(text.contains("journal.0002.yaml is missing"), "{text}");
    assert!(text.contains("--accept-loss"), "{text}");
    fs::rename(&aside, test.segment(1, 2)).unwrap();
    test.lead(2);
    fs::remove_dir_all(test.layout().epoch_dir(1)).unwrap();
    assert!(matches!(test.numbers(3), Err(Error::Missing { .. })));
    let led = Options {
        led_epoch: Some(7),
        ..Options::default()
    };
    let test = TestJournal::new();
    assert!(matches!(
        test.recover_with(8, led),
        Err(Error::Missing { .. })
    ));
}

#[test]
fn accepted_loss_costs_the_damaged_record_and_keeps_its_bytes() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..20);
    let (mut w, ..) = test.lead(2);
    write(&mut w, 20..25);
    let path = test.segment(1, 1);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(7).position(|w| w == b"\"ids\":[").unwrap() + 200;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let text = test.numbers(3).unwrap_err().to_string();
    assert!(text.contains("journal.0001.yaml:"), "{text}");
    let accept = Options {
        accept_loss: true,
        ..Options::default()
    };
    let (log, recovered) = test.recover_with(3, accept).unwrap();
    assert_eq!(log.events.len(), 24);
    assert!(
        recovered.loss && recovered.notes.len() == 1,
        "{recovered:?}"
    );
    let set_aside: Vec<_> = fs::read_dir(test.layout().lost_found()).unwrap().collect();
    assert_eq!(set_aside.len(), 2, "the bytes and the reason");
}

#[test]
fn a_torn_tail_is_dropped_with_a_note_and_sealed_off() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..4);
    let path = test.segment(1, 1);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"- {\"k\":\"cleaned\",\"ids\":[4");
    fs::write(&path, &bytes).unwrap();
    let (w, log, recovered) = test.lead(2);
    assert_eq!(numbers(&log), range(0..4));
    assert!(
        recovered.notes[0].contains("dropped 25 bytes"),
        "{:?}",
        recovered.notes
    );
    drop(w);
    assert_eq!(test.numbers(3).unwrap(), range(0..4));
}

/// Runs `f` in a child whose files cannot grow beyond `bytes`.
pub(super) fn with_file_limit(bytes: u64, f: impl FnOnce() -> i32) -> i32 {
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{SigSet, Signal};
    let mut child = sys::fork::fork_snapshot(|| {
        let mut set = SigSet::empty();
        set.add(Signal::SIGXFSZ);
        set.thread_block().unwrap();
        setrlimit(Resource::RLIMIT_FSIZE, bytes, bytes).unwrap();
        f()
    });
    child.as_mut().unwrap().wait().unwrap()
}

#[test]
fn a_short_write_ends_the_segment_and_loses_nothing() {
    let test = TestJournal::new();
    let code = with_file_limit(3000, || {
        let (mut w, ..) = test.lead(1);
        for n in 0..40 {
            // Ten of these fill a file; the one that does not fit goes to a new segment.
            write(&mut w, n * 5..n * 5 + 5);
        }
        (w.failures.min(50) + 100) as i32
    });
    assert!((102..150).contains(&code), "failures + 100: {code}");
    let torn = fs::read(test.segment(1, 1)).unwrap();
    assert_eq!(torn.len(), 3000, "the short write filled the file");
    assert_eq!(test.numbers(2).unwrap(), range(0..200));
    test.lead(2);
    assert_eq!(test.numbers(3).unwrap(), range(0..200));
}

#[test]
fn a_failure_of_the_new_segment_is_an_error() {
    let test = TestJournal::new();
    let code = with_file_limit(3000, || {
        let (mut w, ..) = test.lead(1);
        for n in 0..200 {
            w.append(&event(n)).unwrap();
        }
        i32::from(w.commit().is_err())
    });
    assert_eq!(code, 1);
    let found = test.numbers(2).unwrap();
    assert!(range(0..200).starts_with(&found), "nothing but a prefix");
}

fn snapshot_of(test: &TestJournal, log: &EventList, covers: Position) -> snapshot::SnapshotFile {
    let mut w = snapshot::SnapshotWriter::create(&test.layout(), "c", covers, 5).unwrap();
    for e in &log.events {
        w.push(e).unwrap();
    }
    w.finish().unwrap()
}

#[test]
fn a_snapshot_replaces_the_events_it_covers() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..10);
    let at = w.position();
    write(&mut w, 10..12);
    let log = EventList {
        events: (0..10).map(event).collect(),
    };
    let found = snapshot_of(&test, &log, at);
    assert_eq!((found.number, found.records), (1, 10));
    let (log, recovered) = test.recover(2).unwrap();
    assert_eq!(numbers(&log), range(0..12));
    assert_eq!(recovered.snapshot, Some((1, at)));
    assert_eq!(recovered.events, 2);
}

#[test]
fn a_damaged_or_unfinished_snapshot_falls_back_to_the_one_before() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..10);
    let log = EventList {
        events: (0..10).map(event).collect(),
    };
    snapshot_of(&test, &log, w.position());
    write(&mut w, 10..20);
    let log = EventList {
        events: (0..20).map(event).collect(),
    };
    let second = snapshot_of(&test, &log, w.position());
    let good = fs::read(&second.path).unwrap();
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&second.path, &bad).unwrap();
        let (log, recovered) = test.recover(2).unwrap();
        assert_eq!(numbers(&log), range(0..20), "flip at {at}");
        assert_eq!(recovered.snapshot.unwrap().0, 1, "flip at {at}");
        fs::write(&second.path, &good[..at]).unwrap();
        let (log, recovered) = test.recover(2).unwrap();
        assert_eq!(numbers(&log), range(0..20), "cut at {at}");
        assert_eq!(recovered.skipped_snapshots.len(), 1, "cut at {at}");
    }
    drop(snapshot::SnapshotWriter::create(&test.layout(), "c", w.position(), 5).unwrap());
    let left = fs::read_dir(test.layout().snapshots()).unwrap().count();
    assert_eq!(left, 2, "a dropped writer leaves nothing");
}

#[test]
fn a_newer_format_is_refused_politely() {
    let test = TestJournal::new();
    let (w, ..) = test.lead(1);
    let found = snapshot_of(&test, &EventList::default(), w.position());
    let mut out = Vec::new();
    let header = serde_json::json!({"k": "header", "format": 99, "what": "snapshot",
        "cluster": "c", "epoch": 1, "part": 1});
    crate::record::frame::write(&mut out, 0, &header).unwrap();
    fs::write(&found.path, out).unwrap();
    let text = test.numbers(2).unwrap_err().to_string();
    assert!(text.contains("format 99 is newer"), "{text}");
}

#[test]
fn a_snapshot_whose_end_counts_absurdly_is_not_used() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..5);
    let snap = snapshot::SnapshotWriter::create(&test.layout(), "c", w.position(), 1).unwrap();
    let path = snap.finish().unwrap().path;
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|b| *b == b'-').unwrap();
    bytes.truncate(end);
    let json = format!("{{\"k\":\"end\",\"records\":{}}}", u64::MAX - 1);
    crate::record::frame::write_json(&mut bytes, 2, json.as_bytes());
    fs::write(&path, bytes).unwrap();
    let (log, recovered) = test.recover(2).unwrap();
    assert_eq!((numbers(&log), recovered.snapshot), (range(0..5), None));
}

#[test]
fn a_snapshot_behind_a_seal_is_not_used() {
    let test = TestJournal::new();
    let (mut stale, ..) = test.lead(1);
    write(&mut stale, 0..3);
    let (mut w, ..) = test.lead(2);
    write(&mut stale, 100..103);
    let log = EventList {
        events: (100..103).map(event).collect(),
    };
    snapshot_of(&test, &log, stale.position());
    write(&mut w, 3..5);
    assert_eq!(test.numbers(3).unwrap(), range(0..5));
}

#[test]
fn compaction_keeps_what_recovery_and_history_need() {
    let test = TestJournal::new();
    let mut due = 0;
    for epoch in 1..8 {
        let (w, log, _) = test.lead(epoch);
        let mut w = w.with_segment_bytes(4096);
        assert_eq!(numbers(&log), range(0..due));
        for _ in 0..12 {
            write(&mut w, due..due + 10);
            due += 10;
        }
        let log = EventList {
            events: (0..due).map(event).collect(),
        };
        snapshot_of(&test, &log, w.position());
        let keep = Retention {
            snapshots: 2,
            segments: 1,
            bytes: 1 << 20,
            ..Retention::default()
        };
        let done = compact(&test.layout(), "c", keep, 5).unwrap();
        assert_eq!(done.snapshots, usize::from(epoch > 2));
    }
    assert!(!test.layout().epoch_dir(3).exists());
    // The newest snapshot may become damaged: the previous one and its journal still contain
    // everything.
    fs::write(snapshot::path_of(&test.layout(), 7), b"x").unwrap();
    assert_eq!(test.numbers(8).unwrap(), range(0..due));
    let mut last = None;
    let mut count = 0;
    let mut history = History::new(&test.layout(), "c");
    history
        .read(&mut |entry| match entry {
            HistoryEntry::Event {
                event: Event::Cleaned { ids, .. },
                ..
            } => {
                assert!(last.is_none_or(|l| l + 1 == ids[0]), "a gap");
                last = Some(ids[0]);
                count += 1;
            }
            HistoryEntry::Event { .. } => {}
            HistoryEntry::Problem(p) => panic!("{p}"),
        })
        .unwrap();
    assert_eq!(last, Some(due - 1));
    assert!(
        count > 150,
        "one covered segment and all later ones: {count}"
    );
}

#[test]
fn covered_segments_go_when_they_are_old() {
    for (now, kept) in [(0, true), (i64::MAX, false)] {
        let test = TestJournal::new();
        for epoch in 1..4 {
            let (mut w, log, _) = test.lead(epoch);
            write(&mut w, 0..3);
            snapshot_of(&test, &log, w.position());
        }
        let keep = Retention {
            age_ms: 1000,
            ..Retention::default()
        };
        compact(&test.layout(), "c", keep, now).unwrap();
        assert_eq!(test.layout().epoch_dir(1).exists(), kept);
        assert!(
            test.layout().epoch_dir(2).exists(),
            "the kept snapshot needs it"
        );
        test.recover(4).unwrap();
    }
}

#[test]
fn history_follows_a_growing_journal_and_passes_damage() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..3);
    let mut history = History::new(&test.layout(), "c");
    let read = |h: &mut History| {
        let (mut events, mut problems) = (0, 0);
        h.read(&mut |e| match e {
            HistoryEntry::Event { .. } => events += 1,
            HistoryEntry::Problem(_) => problems += 1,
        })
        .unwrap();
        (events, problems)
    };
    assert_eq!(read(&mut history), (4, 0));
    assert_eq!(read(&mut history), (0, 0));
    write(&mut w, 3..5);
    let (mut w, ..) = test.lead(2);
    write(&mut w, 5..6);
    assert_eq!(read(&mut history), (2 + 3, 0));
    let path = test.segment(1, 1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[300] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let mut again = History::new(&test.layout(), "c");
    assert_eq!(read(&mut again), (8, 1));
}

/// The position up to which everything was read also counts records that are left out: a reader
/// that continues from it does not get any of them again.
#[test]
fn the_last_record_that_was_read_is_known_though_it_was_not_given() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..3);
    let silenced = |n: i64| Event::AlertSilenced {
        name: "a".into(),
        until: Stamp(n),
        by: "ann".into(),
        why: String::new(),
        t: Stamp(1),
    };
    w.append(&silenced(1)).unwrap();
    w.commit().unwrap();
    let mut begin = History::new(&test.layout(), "c").after((u64::MAX, 0, 0));
    assert_eq!(begin.last_read(), None);
    let mut given = None;
    begin
        .read(&mut |entry| match entry {
            HistoryEntry::Event { at, .. } => given = Some((at.epoch, at.segment, at.seq - 1)),
            HistoryEntry::Problem(text) => panic!("{text}"),
        })
        .unwrap();
    let last = begin.last_read().unwrap();
    assert!(given.is_none_or(|given| given < last), "{given:?} {last:?}");
    w.append(&silenced(2)).unwrap();
    w.commit().unwrap();
    let mut next = History::new(&test.layout(), "c").after(last);
    let mut new = Vec::new();
    next.read(&mut |entry| match entry {
        HistoryEntry::Event {
            event: Event::AlertSilenced { until, .. },
            ..
        } => new.push(until.0),
        HistoryEntry::Event { .. } => {}
        HistoryEntry::Problem(text) => panic!("{text}"),
    })
    .unwrap();
    assert_eq!((new, next.is_complete()), (vec![2], true));
}

/// Speed, by hand in a release build.
#[test]
#[ignore = "prints speeds; run in a release build"]
#[allow(clippy::too_many_lines)] // one measurement after the other
fn speed() {
    use crate::model::{AttemptId, JobKey, Share, Token};
    use crate::record::event::Submitted;
    use std::time::Instant;
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    let submitted = |n: u32| {
        Event::Submitted(Box::new(Submitted {
            id: n,
            s: 1,
            t: Stamp(1_763_700_000_000),
            command: "sleep 1".into(),
            tok: Token(u128::from(n) << 90),
            line: n,
            ..Submitted::default()
        }))
    };
    let n = 300_000u32;
    let t = Instant::now();
    for i in 0..n {
        let a = AttemptId {
            j: JobKey::job(i),
            at: 1,
        };
        w.append(&submitted(i)).unwrap();
        w.append(&Event::Dispatched {
            a,
            t: Stamp(1_763_700_000_000),
            hosts: vec![Share("host1".into(), 1)],
            alt: 0,
            forced: false,
            units: Vec::new(),
        })
        .unwrap();
        w.append(&Event::Started {
            a,
            pid: 77,
            t: Stamp(1_763_700_000_000),
            bind: None,
        })
        .unwrap();
        let e = crate::record::report::Ended {
            a,
            start: 1_763_700_000_000,
            t: 1_763_700_000_000,
            code: Some(0),
            ..Default::default()
        };
        w.append(&Event::Ended {
            e: Box::new(e),
            requeue: false,
            hold: false,
        })
        .unwrap();
    }
    println!("append: {:?} per event", t.elapsed() / (n * 4));
    let t = Instant::now();
    w.commit().unwrap();
    println!("commit of all: {:?}", t.elapsed());
    struct EventCounter(u64);
    impl Restore for EventCounter {
        fn reset(&mut self) {}
        fn record(&mut self, _: &[u8]) -> Result<(), String> {
            self.0 += 1;
            Ok(())
        }
        fn event(&mut self, _: Position, _: Event) -> Result<(), String> {
            self.0 += 1;
            Ok(())
        }
    }
    let t = Instant::now();
    let mut count = EventCounter(0);
    recover(&test.layout(), "c", 2, Options::default(), &mut count).unwrap();
    println!("replay: {} events in {:?}", count.0, t.elapsed());
    assert!(count.0 >= u64::from(n) * 4);
    let t = Instant::now();
    let mut s = snapshot::SnapshotWriter::create(&test.layout(), "c", w.position(), 5).unwrap();
    for i in 0..2_000_000u32 {
        s.push(&submitted(i)).unwrap();
    }
    let found = s.finish().unwrap();
    println!(
        "snapshot of {} bytes written in {:?}",
        found.bytes,
        t.elapsed()
    );
    let t = Instant::now();
    snapshot::read(&found, &mut |_| Ok(())).unwrap();
    println!("read without decoding in {:?}", t.elapsed());
    let t = Instant::now();
    snapshot::read(&found, &mut |json| {
        let line = crate::record::frame::Line { seq: 0, json };
        decode_event(&line).map(drop).map_err(|e| format!("{e:?}"))
    })
    .unwrap();
    println!("read with decoding in {:?}", t.elapsed());
    let mut small = TestJournal::new().lead(1).0;
    let t = Instant::now();
    for i in 0..500 {
        small.append(&submitted(i)).unwrap();
        small.commit().ok();
    }
    println!("commit of one event: {:?}", t.elapsed() / 500);
}
