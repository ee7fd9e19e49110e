//! Tests of the leader's accounting.

use super::*;
use crate::journal::{Options, Writer, recover};
use crate::model::{AttemptId, JobKey, Share, Spec, Stamp, Token};
use crate::record::event::{Event, Submitted};
use crate::record::report::Ended;
use crate::state_loader::Loader;
use std::collections::BTreeMap;

const T: i64 = 1_764_547_199_000;

fn at(epoch: u64, seq: u64) -> Position {
    let (segment, bytes) = (1, seq * 100);
    Position {
        epoch,
        segment,
        bytes,
        seq,
    }
}

fn end(id: u32, end: i64) -> AttemptRecord<'static> {
    AttemptRecord {
        j: JobKey::job(id),
        at: 1,
        mark: id,
        end,
        ..AttemptRecord::default()
    }
}

/// Ids in all files by `month/name`, `!` after those marked `again`.
fn files(layout: &Layout) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for month in fs::names(&layout.acct(), 99).unwrap_or_default() {
        let dir = layout.acct().join(&month);
        if !dir.is_dir() {
            continue;
        }
        for name in fs::names(&dir, 99).unwrap() {
            let bytes = std::fs::read(dir.join(&name)).unwrap();
            let mut reader = Reader::new(&bytes);
            Header::read(&mut reader, FileKind::Acct, Some("c")).unwrap();
            let mut ids = Vec::new();
            while let Some(line) = reader.next_line().unwrap() {
                let record: AttemptRecord<'_> = line.decode().unwrap();
                let again = if record.again { "!" } else { "" };
                ids.push(format!("{}{again}", record.j));
            }
            let name = format!("{}/{}", month.display(), name.display());
            all.insert(name, ids);
        }
    }
    all
}

#[test]
fn records_go_to_their_month_in_batches_and_the_mark_follows_the_sync() {
    let d = tempfile::tempdir().unwrap();
    let layout = Layout::new(d.path());
    let mut accounts = Accounts::new(&layout, ("c", 7), Vec::new());
    assert!(accounts.is_clean() && accounts.due_at().is_none());
    accounts.push(vec![end(1, T), end(2, T + 1000)]);
    accounts.write_due(at(7, 5), 100_000, false);
    let first = files(&layout);
    let names = ["2025-11/000007.0001.yaml", "2025-12/000007.0002.yaml"];
    assert_eq!(first.keys().collect::<Vec<_>>(), names);
    assert_eq!(
        (&first[names[0]], &first[names[1]]),
        (&vec!["1".to_owned()], &vec!["2".to_owned()])
    );
    // The very first record is synced at once; this one is not.
    assert!(accounts.is_clean());
    accounts.push(vec![end(3, T)]);
    accounts.write_due(at(7, 9), 101_000, false);
    assert!(!accounts.is_clean(), "not synced yet");
    assert_eq!(mark(&layout, "c", 8), at(7, 5));
    assert_eq!(accounts.due_at(), Some(110_000));
    accounts.write_due(at(7, 9), 110_000, false);
    assert!(accounts.is_clean());
    assert_eq!(mark(&layout, "c", 8), at(7, 9));
    assert_eq!(files(&layout)[names[0]], ["1", "3"]);
    // Before a snapshot nothing waits.
    accounts.push(vec![end(4, T)]);
    accounts.write_due(at(7, 11), 110_001, true);
    assert!(accounts.is_clean());
    assert_eq!(mark(&layout, "c", 8), at(7, 11));
}

#[test]
fn a_mark_that_cannot_be_this_journals_is_not_used() {
    let d = tempfile::tempdir().unwrap();
    let layout = Layout::new(d.path());
    assert_eq!(mark(&layout, "c", 8), Position::default());
    let mut accounts = Accounts::new(&layout, ("c", 7), vec![end(1, T)]);
    accounts.write_due(at(7, 5), 100_000, true);
    assert_eq!(mark(&layout, "c", 8), at(7, 5));
    assert_eq!(mark(&layout, "c", 7), Position::default());
    assert_eq!(mark(&layout, "other", 8), Position::default());
    std::fs::write(layout.acct_written(), "- {").unwrap();
    assert_eq!(mark(&layout, "c", 8), Position::default());
}

#[test]
fn what_cannot_be_written_waits_with_an_alarm_and_comes_later_in_a_new_file() {
    let d = tempfile::tempdir().unwrap();
    let layout = Layout::new(d.path());
    let mut accounts = Accounts::new(&layout, ("c", 7), Vec::new());
    accounts.push(vec![end(1, T)]);
    std::fs::write(layout.acct(), "in the way").unwrap();
    assert!(
        accounts.write_due(at(7, 1), 100_000, false),
        "the alarm came"
    );
    let alarm = accounts.alarm().unwrap();
    assert!(alarm.contains("accounting cannot be written"), "{alarm}");
    assert_eq!(accounts.due_at(), Some(102_000));
    accounts.push(vec![end(2, T)]);
    assert!(
        !accounts.write_due(at(7, 2), 101_000, true),
        "it is too early"
    );
    std::fs::remove_file(layout.acct()).unwrap();
    assert!(
        accounts.write_due(at(7, 2), 102_000, false),
        "the alarm went"
    );
    assert_eq!((accounts.alarm(), accounts.is_clean()), (None, true));
    let all: Vec<_> = files(&layout).into_values().collect();
    assert_eq!(all, [["1!", "2"]]);
    // A file with that name belongs to another leader: nothing is appended to it.
    let mut twin = Accounts::new(&layout, ("c", 7), vec![end(9, T)]);
    twin.write_due(at(7, 3), 200_000, true);
    assert!(twin.is_clean());
    let all: Vec<_> = files(&layout).into_values().collect();
    assert_eq!(all, [vec!["9!"], vec!["1!", "2"]]);
}

/// The events of a job that runs once.
fn job(id: u32, requeue: bool) -> Vec<Event> {
    let a = AttemptId {
        j: JobKey::job(id),
        at: 1,
    };
    let t = Stamp(T);
    vec![
        Event::Submitted(Box::new(Submitted {
            id,
            s: 1,
            t,
            command: "true".into(),
            tok: Token(u128::from(id)),
            ..Submitted::default()
        })),
        Event::Dispatched {
            a,
            t,
            hosts: vec![Share("h1".into(), 2)],
            alt: 0,
            forced: false,
            units: Vec::new(),
        },
        Event::Ended {
            e: Box::new(Ended {
                a,
                start: T,
                t: T + 1000,
                code: Some(0),
                ..Ended::default()
            }),
            requeue,
            hold: false,
        },
    ]
}

/// The predecessor died between the commit of an end and its record, between the record and the
/// mark, or after the mark: the successor replays exactly the ends after the mark.
#[test]
fn a_new_leader_writes_what_its_predecessor_did_not() {
    let d = tempfile::tempdir().unwrap();
    let layout = Layout::new(d.path());
    std::fs::create_dir_all(layout.snapshots()).unwrap();
    let mut journal = Writer::create(&layout, "c", 1).unwrap();
    let spec = Box::new(Spec {
        user: "u".into(),
        queue: "q".into(),
        ..Spec::default()
    });
    let epoch = Event::Epoch {
        epoch: 1,
        host: "m1".into(),
        pid: 1,
        t: Stamp(T),
    };
    journal.append(&epoch).unwrap();
    journal.append(&Event::Spec { id: 1, spec }).unwrap();
    let mut first = Accounts::new(&layout, ("c", 1), Vec::new());
    let mut marked = Position::default();
    for id in 1..=3 {
        for event in job(id, id == 2) {
            journal.append(&event).unwrap();
        }
        let committed = journal.commit().unwrap();
        if id == 1 {
            first.push(vec![end(1, T + 1000)]);
            first.write_due(committed, 100_000, true);
            marked = committed;
        }
    }
    // Ends 2 and 3 are committed; their records were never written.
    drop((first, journal));
    let accounted = mark(&layout, "c", 2);
    assert_eq!(accounted, marked);
    let mut loader = Loader::with_ends_after(accounted);
    recover(&layout, "c", 2, Options::default(), &mut loader).unwrap();
    let mut second = Accounts::new(&layout, ("c", 2), std::mem::take(&mut loader.ends));
    second.write_due(at(2, 1), 100_000, true);
    let all: Vec<_> = files(&layout).into_values().collect();
    assert_eq!(all, [vec!["1"], vec!["2!", "3!"]]);
    // The contents of the records.
    let mut loader = Loader::with_ends_after(Position::default());
    recover(&layout, "c", 2, Options::default(), &mut loader).unwrap();
    let requeued: Vec<bool> = loader.ends.iter().map(|r| r.requeued).collect();
    assert_eq!(requeued, [false, true, false]);
    let record = &loader.ends[0];
    assert_eq!((record.slots(), record.run_ms()), (2, 1000));
    assert_eq!((&*record.user, &*record.queue), ("u", "q"));
    assert!(record.mark != 0 && record.is_done());
}

/// What was written and not synced may be lost with the disk that failed.
#[test]
fn records_that_were_not_synced_are_written_again_after_a_failure() {
    let d = tempfile::tempdir().unwrap();
    let layout = Layout::new(d.path());
    let mut accounts = Accounts::new(&layout, ("c", 7), Vec::new());
    accounts.push(vec![end(1, T)]);
    accounts.write_due(at(7, 1), 100_000, false);
    accounts.push(vec![end(2, T)]);
    accounts.write_due(at(7, 2), 101_000, false);
    assert!(!accounts.is_clean(), "2 is written, not synced");
    // The file of another month cannot be created.
    let later = T + 62 * 86_400_000;
    let in_the_way = layout.acct().join(month_of(later));
    std::fs::write(&in_the_way, "").unwrap();
    accounts.push(vec![end(3, later)]);
    assert!(accounts.write_due(at(7, 3), 102_000, false), "an alarm");
    assert_eq!(mark(&layout, "c", 8), at(7, 1));
    std::fs::remove_file(&in_the_way).unwrap();
    accounts.write_due(at(7, 3), 110_000, false);
    assert!(accounts.is_clean());
    assert_eq!(mark(&layout, "c", 8), at(7, 3));
    let all: Vec<_> = files(&layout).into_values().collect();
    assert_eq!(all, [vec!["1", "2"], vec!["2!"], vec!["3!"]]);
}

/// Records are written in batches and synced when all of them are written.
#[test]
fn more_records_than_one_write_takes_are_all_kept() {
    let d = tempfile::tempdir().unwrap();
    let layout = Layout::new(d.path());
    let mut accounts = Accounts::new(&layout, ("c", 7), Vec::new());
    let many = BATCH as u32 + 10;
    accounts.push((1..=many).map(|id| end(id, T)).collect());
    accounts.write_due(at(7, 1), 100_000, true);
    assert!(!accounts.is_clean() && mark(&layout, "c", 8) == Position::default());
    accounts.write_due(at(7, 1), 100_001, true);
    assert!(accounts.is_clean());
    let written: usize = files(&layout).values().map(Vec::len).sum();
    assert_eq!(written, many as usize);
}
