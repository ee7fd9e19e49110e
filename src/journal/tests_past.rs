//! Tests states of past moments: what compaction moves to the history, and what is read from it.

use super::tests::{EventList, TestJournal, event, range, write};
use super::*;
use crate::model::Stamp;
use crate::record::event::Event;
use crate::spool::Layout;
use std::fs;

/// Events up to a moment; each event's number is its time.
struct EventsUntil {
    numbers: Vec<u32>,
    moment: i64,
}

impl RestorePast for EventsUntil {
    fn reset(&mut self) {
        self.numbers.clear();
    }

    fn record(&mut self, json: &[u8]) -> Result<(), String> {
        match serde_json::from_slice(json).map_err(|e| e.to_string())? {
            Event::Cleaned { ids, .. } => self.numbers.push(ids[0]),
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Flow {
        let Event::Cleaned { ids, t } = event else {
            return Flow::Continue;
        };
        if t.0 > self.moment {
            return Flow::Stop;
        }
        self.numbers.push(ids[0]);
        Flow::Continue
    }
}

fn at(test: &TestJournal, moment: i64) -> (RecoveredPast, Vec<u32>) {
    let mut until = EventsUntil {
        numbers: Vec::new(),
        moment,
    };
    let past = recover_past(&test.layout(), "c", moment, &mut until).unwrap();
    (past, until.numbers)
}

/// Epochs of ten events each, a snapshot at the end of each of them, compacted with `history` at
/// the time of the newest event.
fn lived(epochs: u32, history: HistoryRetention) -> TestJournal {
    let test = TestJournal::new();
    for epoch in 1..=epochs {
        let (mut w, ..) = test.lead(u64::from(epoch));
        for n in (epoch - 1) * 10..epoch * 10 {
            let t = Stamp(i64::from(n));
            w.append(&Event::Cleaned { ids: vec![n], t }).unwrap();
        }
        w.commit().unwrap();
        let now = i64::from(epoch * 10 - 1);
        let mut snap =
            snapshot::SnapshotWriter::create(&test.layout(), "c", w.position(), now).unwrap();
        for n in 0..epoch * 10 {
            snap.push(&super::tests::event(n)).unwrap();
        }
        snap.finish().unwrap();
        let keep = Retention {
            segments: 0,
            history,
            ..Retention::default()
        };
        compact(&test.layout(), "c", keep, now).unwrap();
    }
    test
}

fn put_aside(layout: &Layout) -> usize {
    fs::read_dir(layout.history()).map_or(0, Iterator::count)
}

const ALL: HistoryRetention = HistoryRetention {
    age_ms: 1_000_000,
    bytes: u64::MAX,
};

#[test]
fn any_moment_is_read_of_what_was_put_aside() {
    let test = lived(6, ALL);
    assert_eq!(put_aside(&test.layout()), 4, "two are for recovery");
    for moment in [0, 9, 10, 25, 39, 58, 59, 1000] {
        let whole = RecoveredPast::Restored { notes: Vec::new() };
        assert_eq!(
            at(&test, moment),
            (whole, range(0..(moment + 1).min(60) as u32))
        );
    }
    // A leader sees none of it.
    assert_eq!(test.numbers(7).unwrap(), range(0..60));
    // A damaged one only costs time.
    let path = test.layout().history().join("000002.yaml");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (past, found) = at(&test, 25);
    assert_eq!(found, range(0..26));
    let RecoveredPast::Restored { notes } = past else {
        panic!("{past:?}");
    };
    assert!(notes[0].contains("snapshot not used"), "{notes:?}");
    fs::write(path, b"x").unwrap();
    assert_eq!(at(&test, 25).1, range(0..26));
}

/// Half a snapshot is no history: one that a leader may still be writing stays, an older one goes.
#[test]
fn an_unfinished_snapshot_is_not_put_aside() {
    let test = lived(4, ALL);
    let half = |number| {
        let path = snapshot::path_of(&test.layout(), number);
        fs::write(&path, b"x").unwrap();
        path
    };
    let (old, new) = (half(1), half(9));
    let keep = Retention {
        history: ALL,
        ..Retention::default()
    };
    fs::remove_file(test.layout().history().join("000001.yaml")).unwrap();
    compact(&test.layout(), "c", keep, 39).unwrap();
    assert!(!old.exists() && new.exists());
    assert!(!test.layout().history().join("000001.yaml").exists());
}

#[test]
fn the_limit_of_the_size_counts_the_snapshots_themselves() {
    let test = lived(4, ALL);
    let size = |path: std::path::PathBuf| fs::metadata(path).unwrap().len();
    let segments = |epoch| size(test.layout().journal(epoch, 1));
    // The newer of two that are aside, with the segments after it, fits; the older one does not.
    let newer = size(test.layout().history().join("000002.yaml")) + segments(2);
    let keep = Retention {
        segments: 0,
        history: HistoryRetention {
            bytes: newer + segments(1),
            ..ALL
        },
        ..Retention::default()
    };
    compact(&test.layout(), "c", keep, 39).unwrap();
    let left = |n: &str| test.layout().history().join(n).exists();
    assert_eq!((left("000001.yaml"), left("000002.yaml")), (false, true));
}

#[test]
fn what_is_too_old_or_too_much_goes_and_the_answer_says_since_when_there_is_something() {
    let young = HistoryRetention { age_ms: 25, ..ALL };
    let test = lived(6, young);
    // Written at 9, 19, 29, 39 (aside) and 49, 59; 25 before 59 is 34, of which 29 is the base.
    assert_eq!(put_aside(&test.layout()), 2);
    assert_eq!(at(&test, 34).1, range(0..35));
    let early = RecoveredPast::TooEarly { oldest: Some(29) };
    assert_eq!(at(&test, 28).0, early);
    assert!(!test.layout().epoch_dir(2).exists(), "nothing needs it");
    assert!(test.layout().epoch_dir(3).exists());
    let little = HistoryRetention { bytes: 1, ..ALL };
    let test = lived(4, little);
    assert_eq!(put_aside(&test.layout()), 0);
    assert_eq!(at(&test, 5).0, RecoveredPast::TooEarly { oldest: Some(29) });
    let none = lived(4, HistoryRetention::default());
    assert!(!none.layout().history().exists());
}

#[test]
fn copies_of_the_configuration_are_limited_and_the_newest_stay() {
    let test = lived(3, ALL);
    let dir = test.layout().history();
    for n in 0..70 {
        let path = test.layout().past_config(&format!("{n:02}"));
        fs::write(&path, b"x").unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(n);
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    let keep = Retention {
        history: ALL,
        ..Retention::default()
    };
    compact(&test.layout(), "c", keep, 29).unwrap();
    assert!(!dir.join("cb.05.yaml").exists() && dir.join("cb.06.yaml").exists());
    assert!(dir.join("000001.yaml").exists());
}

#[test]
fn an_archive_since_a_moment_needs_the_snapshot_before_it_and_what_follows() {
    let test = lived(6, ALL);
    let names = |since| {
        let files = needed_since(&test.layout(), "c", since).unwrap();
        let name = |path: &std::path::PathBuf| {
            let path = path.strip_prefix(test.layout().root()).unwrap();
            path.display().to_string()
        };
        files.iter().map(name).collect::<Vec<_>>()
    };
    let all = names(None);
    assert_eq!(all.len(), 6 + 6, "{all:?}");
    let some = names(Some(45));
    let first = [
        "history/000004.yaml",
        "snapshot/000005.yaml",
        "snapshot/000006.yaml",
    ];
    assert_eq!(some[..3], first);
    assert_eq!(some.len(), 3 + 3, "{some:?}");
    assert_eq!(names(Some(1)), all);
}

/// A snapshot may end in the middle of a segment, whose later records it does not cover.
#[test]
fn the_segment_in_which_a_snapshot_ends_is_kept() {
    let test = TestJournal::new();
    let snapshot = |log: &EventList, at| {
        let mut snap = snapshot::SnapshotWriter::create(&test.layout(), "c", at, 1).unwrap();
        log.events
            .iter()
            .for_each(|event| snap.push(event).unwrap());
        snap.finish().unwrap();
    };
    let (mut w, ..) = test.lead(1);
    write(&mut w, 0..10);
    let log = EventList {
        events: (0..10).map(event).collect(),
    };
    snapshot(&log, w.position());
    write(&mut w, 10..20);
    let keep = Retention {
        snapshots: 1,
        segments: 0,
        bytes: 0,
        age_ms: 0,
        ..Retention::default()
    };
    let done = compact(&test.layout(), "c", keep, i64::MAX).unwrap();
    assert_eq!((done.segments, done.epochs), (0, 0));
    assert_eq!(test.numbers(2).unwrap(), range(0..20));
    // The next leader's snapshot covers it all.
    let (w, log, _) = test.lead(2);
    snapshot(&log, w.position());
    let done = compact(&test.layout(), "c", keep, i64::MAX).unwrap();
    assert_eq!((done.segments, done.epochs), (1, 1));
    assert_eq!(test.numbers(3).unwrap(), range(0..20));
}

/// Events that name many jobs are those of each of them.
#[test]
fn the_history_of_one_job_has_its_removal() {
    let test = TestJournal::new();
    let (mut w, ..) = test.lead(1);
    let t = Stamp(1);
    let ids = vec![3, 7];
    w.append(&Event::Cleaned { ids, t }).unwrap();
    w.commit().unwrap();
    let mut found = Vec::new();
    let mut history = History::new(&test.layout(), "c").of_jobs(&[7]);
    history
        .read(&mut |entry| {
            if let HistoryEntry::Event {
                event: Event::Cleaned { ids, .. },
                ..
            } = entry
            {
                found.extend(ids);
            }
        })
        .unwrap();
    assert_eq!(found, [3, 7]);
    // A reader that continues after it gets it again, since later events may refer to it.
    let mut later = History::new(&test.layout(), "c").after((u64::MAX, 0, 0));
    let mut again = 0;
    later
        .read(&mut |entry| match entry {
            HistoryEntry::Event {
                event: Event::Cleaned { .. },
                ..
            } => again += 1,
            HistoryEntry::Event { .. } => {}
            HistoryEntry::Problem(text) => panic!("{text}"),
        })
        .unwrap();
    assert_eq!(again, 1);
}
