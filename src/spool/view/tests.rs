//! Tests of the view reader on hand-made files.

use super::row_head::{peek, peek_or_decode};
use super::*;
use crate::model::JobKey;
use crate::record::frame;
use crate::record::view::{
    CountChanges, DeltaPart, HostRow, LimitChange, LimitRow, Row, ShardInfo,
};

struct TestView {
    dir: tempfile::TempDir,
}

impl TestView {
    fn new() -> TestView {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("view")).unwrap();
        TestView { dir }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    fn reader(&self) -> ViewReader {
        ViewReader::new(&self.layout())
    }

    fn put(&self, name: &str, rows: &[Row<'_>]) -> u64 {
        let bytes = framed(rows);
        std::fs::write(self.layout().view_file(name), &bytes).unwrap();
        bytes.len() as u64
    }

    fn manifest(&self, shards: Vec<ShardInfo>, older: Vec<DeltaPart>, delta: &str) {
        let manifest = Manifest {
            epoch: 1,
            shards,
            older,
            delta: delta.into(),
            ..Manifest::default()
        };
        let mut out = framed(&[]);
        frame::write(&mut out, 1, &manifest).unwrap();
        std::fs::write(self.layout().view_file(view::MANIFEST), out).unwrap();
    }
}

fn framed(rows: &[Row<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, 0, &Header::new(FileKind::View, "c", 1, 0)).unwrap();
    for (n, row) in rows.iter().enumerate() {
        frame::write(&mut out, n as u64 + 1, row).unwrap();
    }
    out
}

fn spec(id: u32, uid: u32) -> Row<'static> {
    let spec = Spec {
        uid,
        user: format!("u{uid}"),
        ..Spec::default()
    };
    Row::Spec {
        id,
        spec: Box::new(spec),
    }
}

fn job(key: JobKey, s: u32, stat: JobStat) -> Row<'static> {
    Row::Job(Box::new(JobRow {
        j: key,
        s,
        stat,
        class: 5,
        command: "sleep 1 \"x\"".into(),
        ..JobRow::default()
    }))
}

fn shard(file: &str, min: u32, max: u32, live: u32, finished: u32) -> ShardInfo {
    ShardInfo {
        file: file.into(),
        min,
        max,
        live,
        finished,
        uids: vec![],
    }
}

fn keys(found: &[ViewJob]) -> Vec<(String, JobStat)> {
    found
        .iter()
        .map(|j| (j.row.j.to_string(), j.row.stat))
        .collect()
}

fn two_jobs() -> TestView {
    let fixture = TestView::new();
    let rows = [
        spec(1, 10),
        spec(2, 20),
        job(JobKey::job(1), 1, JobStat::Pend),
        job(JobKey::job(2), 2, JobStat::Done),
    ];
    fixture.put("s1", &rows);
    fixture.put("d1", &[]);
    fixture.manifest(vec![shard("s1", 1, 2, 1, 1)], vec![], "d1");
    fixture
}

#[test]
fn without_a_manifest_the_answer_names_it() {
    let e = TestView::new()
        .reader()
        .collect(&JobSet::all())
        .unwrap_err();
    assert!(e.to_string().contains("no leader has published"), "{e}");
}

#[test]
fn filters_by_state_owner_id_and_specification() {
    let fixture = two_jobs();
    let found = |want: &JobSet<'_>| keys(&fixture.reader().collect(want).unwrap().0);
    let (one, two) = (("1".into(), JobStat::Pend), ("2".into(), JobStat::Done));
    assert_eq!(found(&JobSet::all()), [one, two]);
    assert_eq!(found(&JobSet::default()).len(), 1);
    let uids = JobSet {
        uids: vec![20],
        finished: true,
        ..JobSet::default()
    };
    assert_eq!(found(&uids)[0].0, "2");
    let ids = JobSet {
        ids: vec![(2, 9)],
        finished: true,
        ..JobSet::default()
    };
    assert_eq!(found(&ids)[0].0, "2");
    let by_spec = JobSet {
        spec: Some(&|s: &Spec| s.user == "u10"),
        finished: true,
        ..JobSet::default()
    };
    assert_eq!(found(&by_spec)[0].0, "1");
}

#[test]
fn later_rows_of_the_deltas_win() {
    let fixture = two_jobs();
    let elem = JobKey::element(1500, 3);
    let older = [
        spec(1, 10),
        job(JobKey::job(1), 1, JobStat::Run),
        job(JobKey::job(7), 1, JobStat::Run),
        job(elem, 1, JobStat::Run),
    ];
    let bytes = fixture.put("d0", &older);
    let newer = [
        spec(1, 10),
        job(JobKey::job(1), 1, JobStat::Done),
        Row::Gone { j: JobKey::job(2) },
        Row::Gone { j: elem },
        Row::Class {
            id: 5,
            why: PendReason::New,
        },
        job(JobKey::job(8), 1, JobStat::Pend),
    ];
    fixture.put("d1", &newer);
    let part = |bytes| DeltaPart {
        file: "d0".into(),
        bytes,
    };
    fixture.manifest(vec![shard("s1", 1, 2, 1, 1)], vec![part(bytes)], "d1");
    let (found, reading) = fixture.reader().collect(&JobSet::all()).unwrap();
    assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
    let due = [
        ("1".to_string(), JobStat::Done),
        ("7".to_string(), JobStat::Run),
        ("8".to_string(), JobStat::Pend),
    ];
    assert_eq!(keys(&found), due);
    assert_eq!(found[2].why, Some(PendReason::New));
    assert_eq!(found[0].why, None, "a finished job waits for nothing");
    // Bytes after the stated length of a finished delta are treated as nonexistent.
    let header = framed(&[]).len() as u64;
    fixture.manifest(vec![shard("s1", 1, 2, 1, 1)], vec![part(header)], "d1");
    assert_eq!(fixture.reader().collect(&JobSet::all()).unwrap().0.len(), 2);
}

#[test]
fn damage_and_missing_rows_are_warned_of_and_cost_one_file() {
    let fixture = two_jobs();
    fixture.put(
        "s2",
        &[spec(1, 10), job(JobKey::job(1001), 1, JobStat::Pend)],
    );
    fixture.manifest(
        vec![shard("s1", 1, 2, 1, 1), shard("s2", 1001, 1001, 1, 1)],
        vec![],
        "d1",
    );
    let path = fixture.layout().view_file("s1");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (found, reading) = fixture.reader().collect(&JobSet::all()).unwrap();
    assert_eq!(keys(&found).len(), 2);
    assert!(reading.warnings[0].starts_with("view/s1 at byte"));
    assert!(reading.warnings[1].contains("has 1 rows instead of 2"));
    // More rows than stated are not those of the manifest either.
    let two = [1001, 1002].map(|id| job(JobKey::job(id), 1, JobStat::Pend));
    let [one, other] = two;
    fixture.put("s2", &[spec(1, 10), one, other]);
    fixture.manifest(vec![shard("s2", 1001, 1001, 1, 0)], vec![], "d1");
    let (_, reading) = fixture.reader().collect(&JobSet::all()).unwrap();
    assert!(reading.warnings[0].contains("has 2 rows instead of 1"));
}

#[test]
fn a_missing_file_starts_the_reading_again() {
    let fixture = two_jobs();
    fixture.manifest(vec![shard("gone", 1, 2, 1, 1)], vec![], "d1");
    let layout = fixture.layout();
    let fix = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::rename(layout.view_file("s1"), layout.view_file("gone")).unwrap();
    });
    assert_eq!(fixture.reader().collect(&JobSet::all()).unwrap().0.len(), 2);
    fix.join().unwrap();
    std::fs::remove_file(fixture.layout().view_file("gone")).unwrap();
    let e = fixture.reader().collect(&JobSet::all()).unwrap_err();
    assert!(matches!(e, ViewError::Moving(_)));
}

#[test]
fn a_torn_end_of_the_delta_is_silent() {
    let fixture = two_jobs();
    let mut bytes = framed(&[spec(1, 10), job(JobKey::job(9), 1, JobStat::Pend)]);
    bytes.extend_from_slice(b"- {\"k\":\"job\",");
    std::fs::write(fixture.layout().view_file("d1"), bytes).unwrap();
    let (found, reading) = fixture.reader().collect(&JobSet::default()).unwrap();
    assert_eq!(keys(&found).len(), 2);
    assert!(reading.warnings.is_empty());
}

#[test]
fn the_peek_agrees_with_the_decoder() {
    for stat in JobStat::ALL {
        for key in [JobKey::job(12), JobKey::element(4_000_000_000, 77)] {
            let json = serde_json::to_vec(&job(key, 9, stat)).unwrap();
            let p = peek(&json).expect("the writer's own form");
            assert_eq!((p.key, p.spec, p.stat), (key, 9, stat));
        }
    }
    let odd = br#"{"k":"job","s":3,"j":"5","p":"RUN"}"#;
    assert!(peek(odd).is_none());
    assert_eq!(peek_or_decode(odd).unwrap().unwrap().key, JobKey::job(5));
    assert!(peek(br#"{"k":"job","j":"99999999999","s":1,"p":"RUN"#).is_none());
}

#[test]
fn the_documents_read_back() {
    let fixture = TestView::new();
    let mut out = framed(&[]);
    for n in 1..3u64 {
        let row = QueueRow {
            name: format!("q{n}"),
            ..QueueRow::default()
        };
        frame::write(&mut out, n, &row).unwrap();
    }
    std::fs::write(fixture.layout().view_file(view::QUEUES), out).unwrap();
    let queues = fixture.reader().queues().unwrap();
    assert_eq!(queues[1].name, "q2");
    assert!(matches!(fixture.reader().params(), Err(ViewError::None(_))));
}

/// A host's jobs after changes in the delta: an element that ended leaves, another one arrives. If
/// the document is newer than the delta, it stands.
#[test]
fn jobs_of_hosts_move_with_a_delta_that_is_not_older() {
    let fixture = TestView::new();
    let (first, second) = (JobKey::element(9, 1), JobKey::element(9, 2));
    let whole = JobKey::job(3);
    let mut moved = JobRow {
        j: second,
        s: 1,
        stat: JobStat::Run,
        ..JobRow::default()
    };
    moved.hosts = vec![crate::model::Share("h2".into(), 1)];
    let counts = CountChanges {
        moment: 4,
        ..CountChanges::default()
    };
    let delta = [
        spec(1, 10),
        job(first, 1, JobStat::Done),
        Row::Job(Box::new(moved)),
        Row::Counts(Box::new(counts)),
    ];
    fixture.put("d1", &delta);
    fixture.manifest(vec![], vec![], "d1");
    let seen = |moment: u64| {
        let mut out = Vec::new();
        let header = Header::new(FileKind::View, "c", 1, moment);
        frame::write(&mut out, 0, &header).unwrap();
        for (n, jobs) in [vec![(whole, 1), (first, 1), (second, 1)], vec![]]
            .into_iter()
            .enumerate()
        {
            let row = HostRow {
                name: format!("h{}", n + 1),
                jobs,
                ..HostRow::default()
            };
            frame::write(&mut out, n as u64 + 1, &row).unwrap();
        }
        std::fs::write(fixture.layout().view_file(view::HOSTS), out).unwrap();
        let hosts = fixture.reader().counted_hosts().unwrap().rows;
        let jobs = |host: &HostRow| host.jobs.iter().map(|(j, _)| *j).collect::<Vec<_>>();
        (jobs(&hosts[0]), jobs(&hosts[1]))
    };
    let moved = (vec![whole], vec![second]);
    assert_eq!((seen(3), seen(4)), (moved.clone(), moved));
    assert_eq!(seen(5), (vec![whole, first, second], vec![]));
}

/// The limit that is stated for each member is shown as long as no member uses it.
#[test]
fn a_member_that_uses_a_limit_replaces_the_row_of_each_member() {
    let fixture = TestView::new();
    let row = |consumer: &str, each: bool| LimitRow {
        name: "few".into(),
        consumer: consumer.into(),
        resource: "slots".into(),
        each,
        ..LimitRow::default()
    };
    let mut out = framed(&[]);
    frame::write(&mut out, 1, &row("", true)).unwrap();
    std::fs::write(fixture.layout().view_file(view::LIMITS), out).unwrap();
    fixture.manifest(vec![], vec![], "d1");
    let consumers = |gone: &[bool]| -> Vec<String> {
        let change = |(n, gone): (usize, &bool)| {
            let limits = vec![LimitChange {
                row: row("user ann", false),
                gone: *gone,
            }];
            Row::Counts(Box::new(CountChanges {
                moment: n as u64 + 1,
                limits,
                ..CountChanges::default()
            }))
        };
        let rows: Vec<Row<'_>> = gone.iter().enumerate().map(change).collect();
        fixture.put("d1", &rows);
        let limits = fixture.reader().counted_limits().unwrap().rows;
        limits.into_iter().map(|limit| limit.consumer).collect()
    };
    assert_eq!(consumers(&[]), [""]);
    assert_eq!(consumers(&[false]), ["user ann"]);
    assert_eq!(consumers(&[false, true]), [""]);
}

/// Speed of reading 100,000 rows: run by hand in a release build.
#[test]
#[ignore = "prints speeds; run in a release build"]
fn speed_of_100_000_rows() {
    let fixture = TestView::new();
    let mut shards = Vec::new();
    for n in 0..100u32 {
        let mut rows: Vec<Row<'_>> = (0..10).map(|s| spec(s, s)).collect();
        rows.push(spec(10, 1000));
        for i in 0..1000 {
            let s = if i == 500 { 10 } else { i % 10 };
            rows.push(job(JobKey::job(n * 1000 + i), s, JobStat::Pend));
        }
        let file = format!("s{n}");
        fixture.put(&file, &rows);
        shards.push(shard(&file, n * 1000, n * 1000 + 999, 1000, 0));
    }
    fixture.put("d1", &[]);
    fixture.manifest(shards, vec![], "d1");
    let reader = fixture.reader();
    for _ in 0..3 {
        let t = std::time::Instant::now();
        let own = JobSet {
            uids: vec![1000],
            ..JobSet::default()
        };
        let n = reader.collect(&own).unwrap().0.len();
        println!("own: {n} rows {:?}", t.elapsed());
        assert_eq!(n, 100);
        let t = std::time::Instant::now();
        let n = reader.collect(&JobSet::all()).unwrap().0.len();
        println!("all: {n} rows {:?}", t.elapsed());
        assert_eq!(n, 100_000);
    }
}
