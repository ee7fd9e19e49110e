//! The publisher against the real reader, alone and in a race.

mod histories;
mod removed;

use super::*;
use crate::model::{AttemptId, JobKey, JobStat, Share, Stamp, Token};
use crate::record::event::{Event, Submitted};
use crate::spool::view::JobSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

struct TestPublisher {
    dir: tempfile::TempDir,
    state: State,
}

impl TestPublisher {
    fn new() -> TestPublisher {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("view")).unwrap();
        let mut state = State::default();
        for uid in 0..3 {
            let spec = Spec {
                uid,
                queue: "normal".into(),
                min: 1,
                max: 1,
                ..Spec::default()
            };
            state.apply(&Event::Spec {
                id: uid + 1,
                spec: Box::new(spec),
            });
        }
        TestPublisher { dir, state }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    fn publisher(&self, epoch: u64) -> Publisher {
        Publisher::new(&self.layout(), "c", epoch).unwrap()
    }

    fn submit(&mut self, id: u32) {
        self.state.apply(&Event::Submitted(Box::new(Submitted {
            id,
            s: id % 3 + 1,
            t: Stamp(1),
            command: format!("job {id}"),
            tok: Token(u128::from(id)),
            ..Submitted::default()
        })));
    }

    fn start(&mut self, id: u32) {
        let a = AttemptId {
            j: JobKey::job(id),
            at: 1,
        };
        self.state.apply(&Event::Dispatched {
            a,
            t: Stamp(2),
            hosts: vec![Share("h".into(), 1)],
            alt: 0,
            forced: false,
            units: Vec::new(),
        });
    }

    fn turn(&mut self, p: &mut Publisher) {
        turn(&mut self.state, p);
    }

    /// Ids and states as a reader sees them.
    fn seen(&self) -> Vec<(u32, JobStat)> {
        let (jobs, reading) = ViewReader::new(&self.layout())
            .collect(&JobSet::all())
            .unwrap();
        assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
        let mut rows: Vec<_> = jobs.iter().map(|j| (j.row.j.id, j.row.stat)).collect();
        rows.sort_unstable();
        rows
    }

    fn due(&self) -> Vec<(u32, JobStat)> {
        let row = |id: u32| self.state.row(JobKey::job(id)).map(|r| (id, r.stat));
        self.state.jobs.keys().filter_map(row).collect()
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.layout().view()).unwrap().count()
    }
}

/// What the leader does with the view at the end of a turn.
fn turn(state: &mut State, p: &mut Publisher) {
    let changed = state.take_delta();
    let (rows, shards) = state.delta_rows(changed);
    p.rows(&rows, &|id| state.spec(id).as_ref());
    drop(rows);
    p.mark_changed(shards);
    p.flush().unwrap();
}

/// A full disk may cut a group of rows anywhere.
#[test]
fn a_group_cut_anywhere_is_no_damage_to_readers() {
    let mut fixture = TestPublisher::new();
    fixture.turn(&mut fixture.publisher(1));
    for id in [1, 2] {
        fixture.submit(id);
    }
    let mut p = fixture.publisher(2);
    p.finish(&fixture.state).unwrap();
    fixture.state.take_delta();
    // The delta of this epoch contains no specification yet.
    fixture.start(1);
    fixture.start(2);
    fixture.turn(&mut p);
    let path = fixture.layout().view_file(&p.delta.name);
    let whole = std::fs::read(&path).unwrap();
    let reader = ViewReader::new(&fixture.layout());
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (jobs, reading) = reader.collect(&JobSet::all()).unwrap();
        assert_eq!(reading.warnings, Vec::<String>::new(), "cut at {cut}");
        assert_eq!(jobs.len(), 2, "cut at {cut}");
    }
    assert_eq!(fixture.seen(), fixture.due());
}

#[test]
fn rows_are_seen_from_the_delta_and_then_from_shards() {
    let mut fixture = TestPublisher::new();
    let mut p = fixture.publisher(1);
    assert_eq!(fixture.seen(), []);
    for id in [1, 2, 1500] {
        fixture.submit(id);
    }
    fixture.turn(&mut p);
    assert_eq!(fixture.seen(), fixture.due());
    p.finish(&fixture.state).unwrap();
    assert_eq!(fixture.seen(), fixture.due());
    let manifest = ViewReader::new(&fixture.layout()).manifest().unwrap();
    assert_eq!(manifest.shards.len(), 2);
    assert_eq!((manifest.shards[0].min, manifest.shards[0].live), (1, 2));
    fixture.start(2);
    fixture.turn(&mut p);
    assert!(fixture.due().contains(&(2, JobStat::Run)));
    assert_eq!(fixture.seen(), fixture.due());
    p.finish(&fixture.state).unwrap();
    assert_eq!(fixture.seen(), fixture.due());
}

#[test]
fn a_round_in_slices_never_hides_a_row() {
    let mut fixture = TestPublisher::new();
    let mut p = fixture.publisher(1);
    p.finish(&fixture.state).unwrap();
    for id in 0..20 {
        fixture.submit(id * 1000 + 1);
    }
    fixture.turn(&mut p);
    for id in 0..20 {
        // One shard at a time, with changes in between.
        p.slice(&fixture.state, 0, 0).unwrap();
        fixture.start(id * 1000 + 1);
        fixture.turn(&mut p);
        assert_eq!(fixture.seen(), fixture.due());
    }
    p.finish(&fixture.state).unwrap();
    assert_eq!(fixture.seen(), fixture.due());
}

#[test]
fn a_new_leader_keeps_the_view_up_and_then_replaces_all_of_it() {
    let mut fixture = TestPublisher::new();
    let mut p = fixture.publisher(1);
    fixture.submit(1);
    fixture.turn(&mut p);
    p.finish(&fixture.state).unwrap();
    fixture.submit(2);
    fixture.turn(&mut p);
    drop(p);
    let mut p = fixture.publisher(2);
    assert_eq!(fixture.seen(), fixture.due(), "before the first round");
    fixture.submit(3);
    fixture.turn(&mut p);
    assert_eq!(fixture.seen(), fixture.due());
    p.finish(&fixture.state).unwrap();
    assert_eq!(fixture.seen(), fixture.due());
    let names = |fixture: &TestPublisher| {
        let m = ViewReader::new(&fixture.layout()).manifest().unwrap();
        m.shards.into_iter().map(|s| s.file).collect::<Vec<_>>()
    };
    assert!(names(&fixture).iter().all(|f| f.starts_with("000002.")));
    assert!(fixture.files() > 3);
    // A stale leader's manifest is replaced; no file that it named is removed early.
    let now = clock::boot_ms();
    let path = fixture.layout().view_file(view::MANIFEST);
    sys::fs::publish(&path, b"stale").unwrap();
    p.remove_old_files(now + CLEANUP_MS).unwrap();
    assert_eq!(fixture.seen(), fixture.due());
    assert!(fixture.files() > 3);
    p.remove_old_files(now + KEEP_MOST_MS).unwrap();
    assert_eq!(fixture.files(), 3, "manifest, shard, delta");
    assert_eq!(fixture.seen(), fixture.due());
}

#[test]
fn a_damaged_old_view_is_replaced() {
    let mut fixture = TestPublisher::new();
    std::fs::write(fixture.layout().view_file(view::MANIFEST), b"nonsense").unwrap();
    let mut p = fixture.publisher(3);
    fixture.submit(5);
    fixture.turn(&mut p);
    p.finish(&fixture.state).unwrap();
    assert_eq!(fixture.seen(), fixture.due());
}

#[test]
fn small_changes_wait_and_large_ones_begin_a_round() {
    let mut fixture = TestPublisher::new();
    let mut p = fixture.publisher(1);
    p.finish(&fixture.state).unwrap();
    let now = clock::boot_ms();
    assert!(!p.due(now + DELTA_STALE_MS * 2), "nothing changed");
    fixture.submit(1);
    fixture.turn(&mut p);
    assert!(!p.due(now + DELTA_OLD_MS + 1000), "too small");
    assert!(p.due(now + DELTA_STALE_MS + 1000));
    for id in 2..15_000 {
        fixture.submit(id);
    }
    fixture.turn(&mut p);
    assert!(p.due(now));
}

#[test]
fn documents_are_written_when_they_change() {
    let fixture = TestPublisher::new();
    let mut p = fixture.publisher(1);
    let row = |name: &str| view::QueueRow {
        name: name.into(),
        ..view::QueueRow::default()
    };
    p.document(view::QUEUES, &[row("a"), row("b")]).unwrap();
    let path = fixture.layout().view_file(view::QUEUES);
    let ino = sys::fs::stat(&path).unwrap().unwrap().ino;
    p.document(view::QUEUES, &[row("a"), row("b")]).unwrap();
    assert_eq!(sys::fs::stat(&path).unwrap().unwrap().ino, ino);
    p.document(view::QUEUES, &[row("c")]).unwrap();
    let read = ViewReader::new(&fixture.layout()).queues().unwrap();
    assert_eq!((read.len(), read[0].name.as_str()), (1, "c"));
}

/// A concurrent reader sees every row that was flushed before it began, and no job going backwards.
#[test]
fn a_racing_reader_sees_all_that_was_acknowledged() {
    let mut fixture = TestPublisher::new();
    let mut p = fixture.publisher(1);
    let acked = AtomicU32::new(0);
    let started = AtomicU32::new(0);
    let stop = AtomicBool::new(false);
    let layout = fixture.layout();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let reader = ViewReader::new(&layout);
            let mut readings = 0;
            while !stop.load(Ordering::SeqCst) {
                let (a, s) = (acked.load(Ordering::SeqCst), started.load(Ordering::SeqCst));
                let (jobs, reading) = reader.collect(&JobSet::all()).unwrap();
                assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
                let mut ids: Vec<u32> = jobs.iter().map(|j| j.row.j.id).collect();
                ids.sort_unstable();
                ids.dedup();
                assert_eq!(ids.len(), jobs.len(), "a job came twice");
                assert!(ids.len() >= a as usize, "{} of {a}", ids.len());
                let run = jobs.iter().filter(|j| j.row.stat == JobStat::Run).count();
                assert!(run >= s as usize, "{run} of {s} starts");
                readings += 1;
            }
            readings
        });
        for n in 0..500 {
            let id = n * 7 + 1;
            fixture.submit(id);
            if n >= 10 {
                fixture.start((n - 10) * 7 + 1);
            }
            fixture.turn(&mut p);
            acked.store(n + 1, Ordering::SeqCst);
            started.store((n + 1).saturating_sub(10), Ordering::SeqCst);
            // Far more rounds than in practice, in slices of one shard.
            if n % 20 > 5 {
                p.slice(&fixture.state, 0, 0).unwrap();
            }
        }
        stop.store(true, Ordering::SeqCst);
        assert!(reader.join().unwrap() > 10);
    });
    assert_eq!(fixture.seen(), fixture.due());
}

#[test]
#[cfg(unix)]
fn a_failing_delta_is_replaced_by_the_next_round() {
    let mut fixture = TestPublisher::new();
    let mut p = fixture.publisher(1);
    p.finish(&fixture.state).unwrap();
    p.delta.app = Some(Appender::open("/dev/full".as_ref()).unwrap());
    fixture.submit(1);
    let changed = fixture.state.take_delta();
    let (rows, shards) = fixture.state.delta_rows(changed);
    p.rows(&rows, &|id| fixture.state.spec(id).as_ref());
    drop(rows);
    p.mark_changed(shards);
    assert!(p.flush().is_err());
    assert!(p.due(clock::boot_ms()));
    p.finish(&fixture.state).unwrap();
    assert_eq!(fixture.seen(), fixture.due());
}

/// Resident memory of this process in MB.
fn resident_mb() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    let kb: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kb >> 10
}

/// A million finished and a million pending jobs: snapshot, recovery, the whole view. By hand, in
/// a release build.
#[test]
#[ignore = "needs a release build and a minute"]
fn speed_of_two_million_jobs() {
    use crate::journal::{self, Options, snapshot};
    use crate::record::report::Ended;
    use crate::state_loader::Loader;
    use std::time::Instant;
    let mut fixture = TestPublisher::new();
    let layout = fixture.layout();
    for (dir, _) in layout.directories() {
        std::fs::create_dir_all(dir).unwrap();
    }
    for id in 1..2_000_001 {
        fixture.submit(id);
        if id <= 1_000_000 {
            fixture.start(id);
            let e = Ended {
                a: AttemptId {
                    j: JobKey::job(id),
                    at: 1,
                },
                start: 2,
                t: 3,
                code: Some(0),
                ..Ended::default()
            };
            fixture.state.apply(&Event::Ended {
                e: Box::new(e),
                requeue: false,
                hold: false,
            });
        }
    }
    let _ = fixture.state.take_dirty();
    println!("resident with the state: {} MB", resident_mb());
    let t = Instant::now();
    let at = journal::Writer::create(&layout, "c", 1).unwrap().position();
    let mut w = snapshot::SnapshotWriter::create(&layout, "c", at, 1).unwrap();
    for record in fixture.state.snapshot() {
        w.push(&record).unwrap();
    }
    let found = w.finish().unwrap();
    println!("snapshot of {} MB in {:?}", found.bytes >> 20, t.elapsed());
    fixture.state = State::default();
    println!("resident without it: {} MB", resident_mb());
    let t = Instant::now();
    let mut load = Loader::default();
    journal::recover(&layout, "c", 2, Options::default(), &mut load).unwrap();
    println!("recovered in {:?}, {} MB", t.elapsed(), resident_mb());
    let t = Instant::now();
    let mut p = fixture.publisher(2);
    p.finish(&load.state).unwrap();
    println!("view in {:?}, {} MB", t.elapsed(), resident_mb());
    let t = Instant::now();
    let want = JobSet {
        uids: vec![77],
        ..JobSet::default()
    };
    let none = ViewReader::new(&layout).collect(&want).unwrap().0.len();
    println!("nobody's jobs: {none} in {:?}", t.elapsed());
    let t = Instant::now();
    let one = JobSet {
        ids: vec![(1_500_000, 1_500_000)],
        ..JobSet::default()
    };
    let n = ViewReader::new(&layout).collect(&one).unwrap().0.len();
    println!("one job: {n} in {:?}", t.elapsed());
    assert_eq!(n, 1);
}

#[test]
fn directories_in_the_place_of_view_files_are_got_out_of_the_way() {
    let mut fixture = TestPublisher::new();
    let layout = fixture.layout();
    for name in [view::MANIFEST, view::PARAMS, "000001.000001.delta.yaml"] {
        std::fs::create_dir_all(layout.view_file(name).join("sub")).unwrap();
    }
    let mut publisher = fixture.publisher(1);
    fixture.submit(1);
    publisher.finish(&fixture.state).unwrap();
    publisher.document(view::PARAMS, &[1]).unwrap();
    for name in [view::MANIFEST, view::PARAMS] {
        assert!(layout.view_file(name).is_file(), "{name}");
    }
}

#[test]
fn a_view_that_cannot_be_written_keeps_nobody_from_leading() {
    let fixture = TestPublisher::new();
    let dir = fixture.layout().view();
    std::fs::remove_dir(&dir).unwrap();
    std::fs::write(&dir, b"in the way").unwrap();
    let mut publisher = fixture.publisher(1);
    assert!(publisher.flush().is_ok());
    assert!(publisher.tick(&fixture.state, 5).is_err());
    std::fs::remove_file(&dir).unwrap();
    std::fs::create_dir(&dir).unwrap();
    publisher.finish(&fixture.state).unwrap();
    assert!(fixture.layout().view_file(view::MANIFEST).is_file());
}
