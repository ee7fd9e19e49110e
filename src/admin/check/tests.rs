//! Breaks every rule once on a sound share, and expects the check to report it.

use super::finding::Severity;
use super::*;
use crate::admin::init;
use crate::config::{self, Starter};
use crate::journal::Writer;
use crate::model::{AttemptId, JobKey, JobStat, Share, Spec, Stamp, Token};
use crate::record::FORMAT;
use crate::record::ack::{Ack, IdRun};
use crate::record::event::{Event, Submitted};
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use crate::record::order::Order;
use crate::record::report::{Ended, Report as Said};
use crate::record::view::{self, DeltaPart, JobRow, Manifest, Row};
use crate::spool::Layout;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// A share with one running job on h1 and one that is done; all files agree.
struct TestShare {
    _dir: tempfile::TempDir,
    ctx: Ctx,
    id: String,
}

fn a(id: u32, at: u32) -> AttemptId {
    let j = JobKey::job(id);
    AttemptId { j, at }
}

fn submitted(id: u32) -> Event {
    Event::Submitted(Box::new(Submitted {
        id,
        s: 1,
        t: Stamp(id.into()),
        command: "true".into(),
        tok: Token(id.into()),
        ..Submitted::default()
    }))
}

fn dispatched(id: u32, at: u32, n: u32) -> Event {
    Event::Dispatched {
        a: a(id, at),
        // Far in the future, so that no change of cb.yaml is later.
        t: Stamp(1 << 45),
        hosts: vec![Share("h1".into(), n)],
        alt: 0,
        forced: false,
        units: Vec::new(),
    }
}

fn started(id: u32, at: u32) -> Event {
    let (pid, t) = (7, Stamp(9));
    Event::Started {
        a: a(id, at),
        pid,
        t,
        bind: None,
    }
}

fn ended(id: u32) -> Ended {
    Ended {
        a: a(id, 1),
        start: 9,
        t: 10,
        code: Some(0),
        ..Ended::default()
    }
}

fn over(id: u32) -> Event {
    Event::Ended {
        e: Box::new(ended(id)),
        requeue: false,
        hold: false,
    }
}

fn life(slots: u32) -> Vec<Event> {
    let spec = Spec {
        user: "u".into(),
        queue: "normal".into(),
        min: 1,
        max: 1,
        ..Spec::default()
    };
    let (t, boot) = (Stamp(1), String::new());
    let (host, name) = ("h1".into(), "h1".into());
    vec![
        Event::Epoch {
            epoch: 1,
            host,
            pid: 1,
            t,
        },
        Event::HostSeen {
            name,
            up: true,
            boot,
            t,
        },
        Event::Spec {
            id: 1,
            spec: Box::new(spec),
        },
        submitted(1),
        submitted(2),
        dispatched(1, 1, slots),
        started(1, 1),
        dispatched(2, 1, 1),
        started(2, 1),
        over(2),
    ]
}

impl TestShare {
    fn new(events: &[Event]) -> TestShare {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().join("s"));
        let text = config::starter(&Starter {
            cluster: "c1",
            administrator: "root",
            hosts: &["h1".to_owned(), "h2".to_owned()],
            slots: Some(2),
            ..Starter::default()
        });
        let cluster = init::make(&layout, "c1", &text).unwrap();
        let id = cluster.cluster.clone();
        let mut w = Writer::create(&layout, &id, 1).unwrap();
        events.iter().for_each(|e| w.append(e).unwrap());
        w.commit().unwrap();
        let site = None;
        let bed = TestShare {
            _dir: dir,
            ctx: Ctx {
                development: None,
                layout,
                cluster,
                site,
            },
            id,
        };
        bed.reports("h1", &[start(1), start(2), Said::Ended(Box::new(ended(2)))]);
        bed.orders("h1", &[1, 2]);
        bed.acks(&[1, 2]);
        bed.view(&[(1, JobStat::Run), (2, JobStat::Done)]);
        bed
    }

    fn file<T: Serialize>(&self, path: &Path, what: FileKind, rows: &[T]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut out = Vec::new();
        frame::write(&mut out, 0, &Header::new(what, &self.id, 1, 1)).unwrap();
        for (n, row) in rows.iter().enumerate() {
            frame::write(&mut out, n as u64 + 1, row).unwrap();
        }
        fs::write(path, out).unwrap();
    }

    fn reports(&self, host: &str, reports: &[Said]) {
        let boot = "b".to_owned();
        let mut all = vec![Said::Complete { boot }];
        all.extend_from_slice(reports);
        self.file(&self.ctx.layout.reports(host, 1), FileKind::Reports, &all);
    }

    fn orders(&self, host: &str, ids: &[u32]) {
        let start = |id: &u32| {
            serde_json::json!({"k": "start", "j": id.to_string(), "at": 1, "s": 1, "c": "true",
                "hosts": [["h1", 1]], "limits": {}, "t": 1, "grace_ms": 1})
        };
        let all: Vec<_> = ids.iter().map(start).collect();
        let first: Order = serde_json::from_value(all[0].clone()).unwrap();
        assert!(matches!(first, Order::Start(_)));
        self.file(&self.ctx.layout.orders(host, 1, 1), FileKind::Orders, &all);
    }

    fn acks(&self, ids: &[u32]) {
        let ack = |id: &u32| Ack {
            tok: Token((*id).into()),
            ok: true,
            error: String::new(),
            ids: vec![IdRun {
                line: 0,
                id: *id,
                n: 1,
                queue: "normal".into(),
                default: false,
                known: false,
                t: 0,
            }],
            results: Vec::new(),
            more: 0,
            retry_s: 0,
        };
        let all: Vec<Ack> = ids.iter().map(ack).collect();
        self.file(&self.ctx.layout.acks(1), FileKind::Acks, &all);
    }

    fn view(&self, jobs: &[(u32, JobStat)]) {
        let spec = Box::new(Spec::default());
        let mut rows = vec![Row::Spec { id: 1, spec }];
        for (id, stat) in jobs {
            rows.push(Row::Job(Box::new(JobRow {
                j: JobKey::job(*id),
                s: 1,
                stat: *stat,
                attempt: 1,
                ..JobRow::default()
            })));
        }
        let layout = &self.ctx.layout;
        let delta = "000001.000001.delta.yaml".to_owned();
        self.file(&layout.view_file(&delta), FileKind::View, &rows);
        let manifest = Manifest {
            epoch: 1,
            generation: 1,
            delta,
            older: Vec::<DeltaPart>::new(),
            ..Manifest::default()
        };
        self.file(
            &layout.view_file(view::MANIFEST),
            FileKind::View,
            &[manifest],
        );
    }

    /// The findings of one look, as text.
    fn look(&self) -> String {
        let mut findings = Vec::new();
        let config = config_and_hosts::config(&self.ctx, &mut findings);
        findings.extend(read_once(&self.ctx, config.as_ref(), &mut Progress::silent()).0);
        findings.extend(share::check_all(&self.ctx));
        let seen = CheckedCounts::default();
        finding::text(
            &Report {
                findings,
                counts: seen,
            },
            false,
            99,
        )
    }

    fn finds(&self, due: &str) {
        let text = self.look();
        assert!(
            text.contains("BROKEN") && text.contains(due),
            "{due} is not in\n{text}"
        );
    }
}

fn start(id: u32) -> Said {
    let (pid, t) = (7, 9);
    Said::Started {
        a: a(id, 1),
        pid,
        t,
        bind: None,
    }
}

#[test]
fn a_share_in_agreement_is_sound() {
    let bed = TestShare::new(&life(1));
    let text = bed.look();
    assert!(
        text.contains("No problems found") && !text.contains("BROKEN"),
        "{text}"
    );
    assert!(!text.contains("UNKNOWN"), "{text}");
}

#[test]
fn the_grave_alarms_of_the_leader_are_broken_promises_and_the_others_warnings() {
    let bed = TestShare::new(&life(1));
    let params = view::Params {
        alarms: vec!["first".into(), "second".into()],
        grave_alarms: 1,
        ..view::Params::default()
    };
    let path = bed.ctx.layout.view_file(view::PARAMS);
    bed.file(&path, FileKind::View, &[params]);
    let mut findings = Vec::new();
    config_and_hosts::alarms(&bed.ctx, &mut findings);
    let alarms = findings.iter().filter(|f| f.place == "alarm");
    let levels = alarms.map(|f| (f.level, f.what.as_str()));
    assert_eq!(
        levels.collect::<Vec<_>>(),
        [(Severity::Broken, "first"), (Severity::Warning, "second")]
    );
}

#[test]
fn hosts_that_disagree_with_the_journal_are_told_of() {
    let bed = TestShare::new(&life(1));
    let done = Said::Ended(Box::new(ended(2)));
    bed.reports("h2", &[start(1)]);
    bed.finds("attempt 1.1: it was started on h1 and on h2");
    bed.finds("host h2, attempt 1.1: it runs there, but the journal binds it to another host");
    fs::remove_file(bed.ctx.layout.reports("h2", 1)).unwrap();
    bed.reports("h1", &[start(1), start(2)]);
    bed.finds("host h1, attempt 2.1: it runs there, but the journal has it as DONE");
    bed.reports("h1", std::slice::from_ref(&done));
    bed.finds("host h1, attempt 1.1: according to the journal it runs there, but the host does not know it");
    bed.reports("h1", &[start(1), done.clone(), start(9)]);
    bed.finds("attempt 9.1: it runs there, but the journal does not contain this attempt");
    bed.reports("h1", &[start(1), done]);
    bed.orders("h1", &[1, 2, 3]);
    bed.finds("orders: attempt 3.1: h1 was ordered to start it");
}

#[test]
fn people_who_were_told_something_else_are_told_of() {
    let bed = TestShare::new(&life(1));
    bed.acks(&[1, 2, 3]);
    bed.finds("job 3: it was acknowledged in epoch 1, but the journal does not contain it");
    // The same holds after a record that was cut by a full share, which itself is not damage.
    let path = bed.ctx.layout.acks(1);
    let whole = fs::read(&path).unwrap();
    let header = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    let mut bytes = whole[..header + 30].to_vec();
    bytes.push(b'\n');
    bytes.extend_from_slice(&whole[header..]);
    fs::write(&path, bytes).unwrap();
    let output = bed.look();
    assert!(output.contains("job 3: it was acknowledged"), "{output}");
    assert!(!output.contains("acks.yaml"), "{output}");
    bed.acks(&[1, 2]);
    bed.view(&[(1, JobStat::Run), (2, JobStat::Run)]);
    bed.finds("job 2: the view shows it as RUN (attempt 1), the journal as DONE");
    bed.view(&[(1, JobStat::Run)]);
    bed.finds("job 2: the view does not show it");
    bed.view(&[(1, JobStat::Run), (2, JobStat::Done), (3, JobStat::Pend)]);
    bed.finds("job 3: the view shows it as PEND, but the journal does not contain it");
}

#[test]
fn more_than_a_host_has_and_impossible_lives_are_told_of() {
    TestShare::new(&life(3)).finds("host h1: 3 slots are in use, it has 2");
    let mut twice = life(1);
    twice.push(started(1, 1));
    TestShare::new(&twice).finds("attempt 1.1: started twice");
    let mut again = life(1);
    again.push(over(2));
    TestShare::new(&again).finds("attempt 2.1: ended twice");
}

#[test]
fn damage_names_file_and_offset_wherever_it_lies() {
    let bed = TestShare::new(&life(1));
    let layout = bed.ctx.layout.clone();
    let flip = |path: &Path, at: usize| {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    for (path, at) in [
        (layout.journal(1, 1), 400),
        (layout.reports("h1", 1), 200),
        (layout.orders("h1", 1, 1), 200),
        (layout.acks(1), 200),
    ] {
        flip(&path, at);
        let text = bed.look();
        let place = format!("{}:", path.display());
        let named = text.lines().any(|l| {
            let offset = l.split_once(&place).map(|(_, rest)| rest.split(':').next());
            l.starts_with("BROKEN") && offset.flatten().is_some_and(|o| o.parse::<u64>().is_ok())
        });
        assert!(named, "{place} is not in\n{text}");
        flip(&path, at);
    }
    // The last record of the newest epoch is complete but wrong, so it was not being written.
    let journal = layout.journal(1, 1);
    let len = fs::read(&journal).unwrap().len();
    flip(&journal, len - 60);
    bed.finds("are not an intact record");
    flip(&journal, len - 60);
    assert!(!bed.look().contains("BROKEN"));
}

#[test]
fn one_format_back_is_read_and_a_newer_one_is_refused_by_name() {
    let bed = TestShare::new(&life(1));
    let layout = bed.ctx.layout.clone();
    let files = [
        layout.journal(1, 1),
        layout.reports("h1", 1),
        layout.orders("h1", 1, 1),
        layout.view_file(view::MANIFEST),
    ];
    for path in files {
        let good = fs::read(&path).unwrap();
        for (format, fits) in [(FORMAT - 1, true), (FORMAT + 98, false)] {
            fs::write(&path, with_format(&good, format)).unwrap();
            let text = bed.look();
            let newer = format!("format {format} is newer");
            assert_eq!(!text.contains("BROKEN"), fits, "{}: {text}", path.display());
            assert_eq!(!text.contains(&newer), fits, "{}: {text}", path.display());
        }
        fs::write(&path, good).unwrap();
    }
}

/// Changes the header of a file to another format.
fn with_format(file: &[u8], format: u32) -> Vec<u8> {
    let end = file.iter().position(|b| *b == b'\n').unwrap() + 1;
    let line = frame::parse_line(&file[..end - 1]).unwrap();
    let mut header: Header = line.decode().unwrap();
    header.format = format;
    let mut out = Vec::new();
    frame::write(&mut out, 0, &header).unwrap();
    out.extend_from_slice(&file[end..]);
    out
}

#[test]
fn files_that_others_can_write_and_a_broken_configuration_are_told_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let bed = TestShare::new(&life(1));
    let layout = bed.ctx.layout.clone();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&layout.epochs(), 0o775);
    bed.finds("its mode 0775 allows others to write");
    mode(&layout.epochs(), 0o755);
    mode(&layout.inbox(), 0o777);
    bed.finds("users could remove or see each other's requests");
    mode(&layout.inbox(), 0o3733);
    fs::remove_dir(layout.jobs()).unwrap();
    bed.finds("jobs: the directory is missing");
    fs::create_dir(layout.jobs()).unwrap();
    fs::write(layout.config(), "queues: 7\n").unwrap();
    bed.finds("config:");
    let stray = layout.conf_dir().join(".cb.yaml.1.2.tmp");
    if crate::sys::fs::is_aside(".cb.yaml.1.2.tmp") {
        fs::write(&stray, "").unwrap();
        assert!(
            !bed.look().contains("older than a day"),
            "a young one is being written"
        );
    }
}

#[test]
fn line_breaks_of_a_finding_are_shown_as_such() {
    let mut report = Report::default();
    let finding = Finding::broken(
        "config",
        "cb.yaml",
        "first\n  second\x1b",
        "do this\nthen that",
    );
    report.findings.push(finding);
    let text = finding::text(&report, false, 9);
    let want = "BROKEN  config: cb.yaml: first\n          second\\x1b\n        do: do this\n        \
                then that\n";
    assert!(text.starts_with(want), "{text}");
}

#[test]
fn advice_for_a_development_cluster_names_its_own_commands_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    let share = dir.path().join("share");
    assert_eq!(crate::admin::dev::development(&share), None);
    std::fs::create_dir(dir.path().join("etc")).unwrap();
    std::fs::write(dir.path().join("etc/dev.json"), "{}").unwrap();
    assert_eq!(
        crate::admin::dev::development(&share).as_deref(),
        Some(dir.path())
    );
    let mut bed = TestShare::new(&[]);
    assert_eq!(
        bed.ctx.log_of("cbexe", "h1"),
        "'journalctl -u cbexe' on host h1"
    );
    bed.ctx.development = Some("/d".into());
    assert_eq!(bed.ctx.log_of("cbexe", "h1"), "/d/log/cbexe.h1.log");
    assert_eq!(
        bed.ctx.start_of("cbexe"),
        "'cadmin dev up --dir /d' starts it"
    );
}

#[test]
fn the_code_says_broken_before_unknown_before_sound() {
    let mut report = Report::default();
    let warning = Finding::warning("share", "x", "w", "");
    report.findings.push(warning);
    assert_eq!(report.code(), 0);
    report.findings.push(Finding::unknown("share", "x", "u"));
    assert_eq!(report.code(), 3);
    report.findings.push(Finding::broken("share", "x", "b", ""));
    assert_eq!(report.code(), 1);
    let value: serde_json::Value = serde_json::from_str(&finding::json(&report)).unwrap();
    assert_eq!((&value["ok"], &value["broken"]), (&false.into(), &1.into()));
    assert_eq!(value["findings"][0]["level"], "warning");
    assert_eq!(run(&["--nonsense".into()]), 2);
    assert_eq!(run(&["/nonexistent".into()]), 3);
}
