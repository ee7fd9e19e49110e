//! Tests the command with a small journal.

use super::*;
use crate::client::read::test_view::{NOW, TestView, row};
use crate::journal::Writer;
use crate::model::first_attempt as attempt;
use crate::model::{JobKey, Share, Spec, Stamp, TermReason, Token};
use crate::record::event::{Event, Submitted};
use crate::record::leader::ClusterDoc;
use crate::record::report::Ended;
use crate::record::view::Row;
use crate::show::Dates;
use jiff::tz::TimeZone;

/// Job 1 of user 10 ended with code 3 an hour ago, job 2 pends; job 3 of user 20 runs on h2.
fn bed() -> TestView {
    let bed = TestView::new();
    let doc = ClusterDoc {
        cluster: "c".into(),
        name: "c1".into(),
        format: 1,
        service_uid: 4_000_000,
        service_gid: 0,
    };
    let path = bed.dir.path().join("cluster");
    std::fs::write(path, serde_json::to_vec(&doc).unwrap()).unwrap();
    let layout = bed.source("chist", 10).layout;
    std::fs::create_dir_all(layout.epochs()).unwrap();
    let mut w = Writer::create(&layout, "c", 1).unwrap();
    for event in events() {
        w.append(&event).unwrap();
    }
    w.commit().unwrap();
    bed.publish(&[]);
    bed
}

fn at(second: i64) -> Stamp {
    Stamp(NOW - 7_200_000 + second * 1000)
}

fn events() -> Vec<Event> {
    let spec = |id: u32, uid: u32| Event::Spec {
        id,
        spec: Box::new(Spec {
            uid,
            user: format!("u{uid}"),
            queue: "normal".into(),
            project: "p1".into(),
            sub_host: "login1".into(),
            cwd: "/data".into(),
            ..Spec::default()
        }),
    };
    let submitted = |id: u32, s: u32| {
        Event::Submitted(Box::new(Submitted {
            id,
            s,
            t: at(0),
            command: format!("run{id}"),
            tok: Token(u128::from(id)),
            ..Submitted::default()
        }))
    };
    let dispatched = |id: u32, host: &str| Event::Dispatched {
        a: attempt(id),
        t: at(60),
        hosts: vec![Share(host.into(), 1)],
        alt: 0,
        forced: false,
        units: Vec::new(),
    };
    vec![
        spec(1, 10),
        spec(2, 20),
        submitted(1, 1),
        submitted(2, 1),
        submitted(3, 2),
        dispatched(1, "h1"),
        dispatched(3, "h2"),
        Event::Ended {
            e: Box::new(Ended {
                a: attempt(1),
                start: at(60).0,
                t: at(3600).0,
                code: Some(3),
                reason: TermReason::None,
                ..Ended::default()
            }),
            requeue: false,
            hold: false,
        },
    ]
}

fn ask_on(bed: &TestView, line: &[&str]) -> Result<HistoryPage, Fail> {
    let args: Vec<OsString> = line.iter().map(OsString::from).collect();
    let m = cli::parse(options(), &read::split_json(&args)).expect("a good line");
    let ctx = Ctx {
        estimates: Default::default(),
        queue_requests: Default::default(),
        app_requests: Default::default(),
        now: Stamp(NOW),
        dates: Dates::new(TimeZone::UTC),
    };
    show(&m, &bed.source("chist", 10), &ctx)
}

fn ids(line: &[&str]) -> String {
    let mut line = line.to_vec();
    line.push("-noheader");
    let out = ask_on(&bed(), &line).unwrap().text;
    let first = |l: &str| l.split_whitespace().next().map(str::to_owned);
    out.lines().filter_map(first).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_summary_of_own_unfinished_jobs() {
    let got = ask_on(&bed(), &[]).unwrap();
    let want = "\
Summary of time in seconds spent in various states:
JOBID   USER    JOB_NAME  PEND    PSUSP   RUN     USUSP   SSUSP   UNKWN   TOTAL
2       u10     run2      7200    0       0       0       0       0       7200
";
    assert_eq!((got.text.as_str(), got.exit), (want, Exit::Ok));
}

#[test]
fn selectors() {
    assert_eq!(ids(&["-a"]), "1 2");
    assert_eq!(ids(&["-a", "-u", "all"]), "1 2 3");
    assert_eq!(ids(&["-d"]), "1");
    assert_eq!(ids(&["-e"]), "1");
    assert_eq!(ids(&["-p"]), "2");
    assert_eq!(ids(&["-e", "-p"]), "1 2");
    assert_eq!(ids(&["-r", "-u", "20"]), "3");
    assert_eq!(ids(&["1", "3"]), "1 3");
    assert_eq!(ids(&["-J", "*n2"]), "2");
    assert_eq!(ids(&["-q", "other"]), "");
    assert_eq!(ids(&["-C", ".-1:,"]), "1");
    assert_eq!(ids(&["-C", "02:30,"]), "");
    assert_eq!(ids(&["-S", ".-3:,", "-u", "all"]), "1 2 3");
    assert_eq!(ids(&["-T", ".-1:,.", "-u", "all"]), "1");
}

#[test]
fn long_pages_and_the_line_of_time() {
    let got = ask_on(&bed(), &["-l", "-a"]).unwrap().text;
    assert_eq!(got.matches("Project <p1>").count(), 2);
    assert!(got.contains("Exited with exit code 3."), "{got}");
    let got = ask_on(&bed(), &["-t", "-a"]).unwrap().text;
    let times: Vec<&str> = got.lines().filter_map(|l| l.get(11..19)).collect();
    assert!(got.contains("Sat Nov 21 02:07:09: Job <1> Exited"), "{got}");
    assert_eq!(times[..3], ["01:07:09", "01:07:09", "01:08:09"], "{got}");
}

#[test]
fn json_is_typed() {
    let got = ask_on(&bed(), &["--json", "1"]).unwrap().text;
    let v: serde_json::Value = serde_json::from_str(&got).unwrap();
    assert_eq!(
        (&v["exit_code"], &v["seconds"]["RUN"]),
        (&3.into(), &3540.into())
    );
    let got = ask_on(&bed(), &["-json", "-a"]).unwrap().text;
    let v: serde_json::Value = serde_json::from_str(&got).unwrap();
    assert_eq!((&v["JOBS"], &v["RECORDS"][1]["id"]), (&2.into(), &2.into()));
}

#[test]
fn nothing_found_and_wrong_lines() {
    let got = ask_on(&bed(), &["99"]).unwrap();
    assert_eq!(
        (got.err, got.exit),
        (vec!["Job <99> is not found".to_owned()], Exit::NotFound)
    );
    let got = ask_on(&bed(), &["-s"]).unwrap();
    assert_eq!(
        (got.err, got.exit),
        (vec!["No matching job found".to_owned()], Exit::Ok)
    );
    assert_eq!(
        ask_on(&bed(), &["-C", "nonsense"]).err().unwrap().exit,
        Exit::Usage
    );
    assert_eq!(ask_on(&bed(), &["-N"]).err().unwrap().exit, Exit::Usage);
}

#[test]
fn what_the_journal_no_longer_holds_comes_from_the_view() {
    let bed = bed();
    let layout = bed.source("chist", 10).layout;
    std::fs::remove_dir_all(layout.epoch_dir(1)).unwrap();
    let mut w = Writer::create(&layout, "c", 2).unwrap();
    events().drain(5..).for_each(|e| w.append(&e).unwrap());
    w.commit().unwrap();
    let known = Row::Job(Box::new(row(JobKey::job(1), 1, JobStat::Exit)));
    bed.publish(&[(
        "j0",
        vec![crate::client::read::test_view::spec(1, 10), known],
    )]);
    let got = ask_on(&bed, &["-a"]).unwrap().text;
    assert!(got.contains("1       u10     job1"), "{got}");
}

#[test]
fn golden_output() {
    let lines = ["", "-a -u all", "-l 1", "-b 1", "-t -a", "-json 1"];
    crate::client::read::test_cluster::compare("chist", &lines, |words| {
        ask_on(&bed(), words).expect("it answers").text
    });
}
