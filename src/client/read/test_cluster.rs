//! A small cluster as published by its leader, and the comparison of the commands' output for it
//! with the files in tests/golden/output. `BLESS=1 sbin/check golden` rewrites the files.

use super::test_view::{NOW, TestView, job, row};
use crate::client::cli;
use crate::model::{JobKey, JobStat, Limits, PendReason, Share, Spec, Stamp, TermReason};
use crate::record::job_group::JobGroup;
use crate::record::load::LoadDoc;
use crate::record::message::JobMessage;
use crate::record::view::{
    self, ArrayRow, Counts, HostRow, LimitRow, Params, QueueRow, Row, ShareRow, UserRow,
};
use crate::text::command::split_words;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// Compares the output of a command for some argument lines with its golden file.
pub(crate) fn compare(command: &str, lines: &[&str], ask: impl Fn(&[&str]) -> String) {
    let mut printed = String::new();
    for line in lines {
        let words = split_words(line).expect("a good line");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let shown = format!("{command} {line}");
        printed += &format!("$ {}\n{}\n", shown.trim_end(), ask(&words));
    }
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/output");
    let path = format!("{dir}/{command}.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(dir).expect("the directory is made");
        std::fs::write(&path, &printed).expect("the golden file is written");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        printed, recorded,
        "{path}: to accept: BLESS=1 sbin/check golden"
    );
}

/// A parsed line of arguments.
pub(crate) fn parse(options: Command, words: &[&str]) -> ArgMatches {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    cli::parse(options, &super::split_json(&words)).expect("a good line")
}

/// Three hosts, three queues, and jobs of two users in every state.
pub(crate) fn cluster() -> TestView {
    let bed = TestView::new();
    bed.put(view::PARAMS, &[params()]);
    bed.put(view::QUEUES, &queues());
    bed.put(view::HOSTS, &hosts());
    bed.put(view::USERS, &users());
    bed.put(view::LIMITS, &limits());
    bed.put(view::SHARES, &shares());
    bed.put(view::JOB_GROUPS, &job_groups());
    bed.publish(&[("j0", jobs()), ("a4.0", elements())]);
    bed
}

fn params() -> Params {
    let resource = |name: &str, kind: &str, order: &str, about: &str| {
        (name.into(), kind.into(), order.into(), about.into())
    };
    let pairs = [
        ("cluster.name", "c1"),
        ("general.clean_period_ms", "3600000"),
        ("general.default_queue", "normal"),
    ];
    Params {
        cluster: "c1".into(),
        cluster_id: "0123456789abcdef".into(),
        master: "h1".into(),
        epoch: 7,
        since: NOW - 86_400_000,
        version: "0.1.0".into(),
        administrators: vec!["boss".into()],
        default_queues: vec!["normal".into()],
        view_all_jobs: true,
        params: pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        resources: vec![
            resource("r15s", "Numeric", "Inc", "15-second CPU run queue"),
            resource("mem", "Numeric", "Dec", "Available memory"),
            resource("fast", "Boolean", "N/A", "Hosts with fast disks"),
        ],
        models: vec![("EPYC".into(), 1.5)],
        types: vec!["X86_64".into()],
        host_groups: vec![("all_fast".into(), vec!["h1".into(), "h2".into()])],
        user_groups: vec![(
            "dev".into(),
            vec!["u10".into(), "u20".into()],
            String::new(),
        )],
        alarms: vec!["snapshot/notes.txt is not a file of Corral: it is ignored".into()],
        max_array_size: 1000,
        ..Params::default()
    }
}

fn queues() -> [QueueRow; 3] {
    let queue = |name: &str, priority, description: &str| QueueRow {
        name: name.into(),
        priority,
        description: description.into(),
        open: true,
        active: true,
        users: "all".into(),
        hosts: ["h1", "h2", "h3"].map(str::to_owned).into(),
        ..QueueRow::default()
    };
    let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    [
        QueueRow {
            user: Some(64),
            counts: Counts {
                njobs: 14,
                pend: 8,
                run: 5,
                ususp: 1,
                pend_jobs: 5,
                ..Counts::default()
            },
            settings: vec![
                setting("MAXIMUM RUNLIMIT", "60.0 min"),
                setting("FAIRSHARE", "USER_SHARES: [u10,10] [u20,1]"),
                setting("RERUNNABLE", "no"),
            ],
            default: true,
            administrators: vec!["boss".into()],
            ..queue("normal", 30, "For everything")
        },
        QueueRow {
            max: Some(100),
            active: false,
            comment: "until the disks are replaced".into(),
            ..queue("night", 5, "Long jobs, from 20:00 to 6:00")
        },
        QueueRow {
            users: "dev".into(),
            hosts: vec!["h2".into()],
            host: Some(2),
            ..queue("a_queue_with_a_long_name", 90, "")
        },
    ]
}

fn hosts() -> [HostRow; 3] {
    let load = |busy: f64| LoadDoc {
        r15s: 40.0 * busy,
        r1m: 36.0 * busy,
        r15m: 30.5 * busy,
        ut: 0.62 * busy,
        ..LoadDoc::of_idle_host()
    };
    let host = |name: &str, status: &str, slots| HostRow {
        name: name.into(),
        status: status.into(),
        slots,
        host_type: "X86_64".into(),
        model: "EPYC".into(),
        cpuf: 1.5,
        ..HostRow::default()
    };
    [
        HostRow {
            njobs: 4,
            run: 3,
            ususp: 1,
            tags: vec!["fast".into()],
            resources: [("lic".to_owned(), "10".to_owned())].into(),
            reserved: [("lic".to_owned(), 2.0), ("mem".to_owned(), 2048.0)].into(),
            jobs: vec![
                (JobKey::job(2), 1),
                (JobKey::job(3), 1),
                (JobKey::element(4, 2), 1),
                (JobKey::job(6), 1),
            ],
            load: load(0.1),
            ..host("h1", "ok", 64)
        },
        HostRow {
            njobs: 4,
            run: 4,
            jobs: vec![(JobKey::job(6), 4)],
            load: load(1.0),
            ..host("h2", "closed_Full", 4)
        },
        host("h3", "unavail", 16),
    ]
}

fn users() -> [UserRow; 3] {
    let user = |name: &str, pend, run| UserRow {
        name: name.into(),
        counts: Counts {
            njobs: pend + run,
            pend,
            run,
            pend_jobs: pend,
            ..Counts::default()
        },
        ..UserRow::default()
    };
    [
        UserRow {
            max: Some(100),
            max_pend: Some(5000),
            ..user("u10", 8, 6)
        },
        user("u20", 0, 1),
        UserRow {
            group: true,
            per_proc: Some(1.5),
            ..user("dev", 8, 7)
        },
    ]
}

fn limits() -> [LimitRow; 2] {
    let limit = |consumer: &str, resource: &str, used, limit| LimitRow {
        name: "few".into(),
        consumer: consumer.into(),
        resource: resource.into(),
        used,
        limit,
        each: false,
    };
    [
        limit("user u10", "slots", 6.0, Some(6.0)),
        limit("queue normal, host h1", "lic", 2.0, None),
    ]
}

fn job_groups() -> [JobGroup; 2] {
    let group = |name: &str, limit| JobGroup {
        name: name.into(),
        uid: 20,
        user: "u20".into(),
        limit,
        ..JobGroup::default()
    };
    [group("/proj", Some(10)), group("/test", None)]
}

fn shares() -> [ShareRow; 2] {
    let share = |path: &str, shares, started, cpu_s| ShareRow {
        queue: "normal".into(),
        path: path.into(),
        shares,
        priority: f64::from(shares) / 3.0,
        started,
        cpu_s,
        run_s: 90.0,
        hist_s: 0.5,
        ..ShareRow::default()
    };
    [share("u10", 10, 6, 1000.0), share("u20", 1, 1, 2.0)]
}

fn spec(id: u32, uid: u32, slots: u32) -> Row<'static> {
    let spec = Spec {
        uid,
        user: format!("u{uid}"),
        queue: "normal".into(),
        project: "weather".into(),
        job_group: if slots > 1 { "/proj/b" } else { "" }.into(),
        sub_host: "login1".into(),
        cwd: "/data/run".into(),
        min: slots,
        max: slots,
        res_req: if slots > 1 { "span[ptile=4]" } else { "" }.into(),
        limits: Limits {
            run_s: Some(1200),
            ..Limits::default()
        },
        ..Spec::default()
    };
    Row::Spec {
        id,
        spec: Box::new(spec),
    }
}

/// Jobs: waiting, running, stopped, an array, failed, parallel.
fn jobs() -> Vec<Row<'static>> {
    let mut waiting = row(JobKey::job(1), 1, JobStat::Pend);
    waiting.why = Some(PendReason::UserSlots {
        user: "u10".into(),
        limit: 6,
    });
    let mut array = row(JobKey::job(4), 1, JobStat::Pend);
    array.arr = Some(Box::new(ArrayRow {
        all: "1-5".into(),
        waiting: "3-5".into(),
        limit: 2,
        counts: [("RUN", 1), ("DONE", 1)]
            .map(|(word, n)| (word.to_owned(), n))
            .into(),
    }));
    array.why = Some(PendReason::ArrayLimit { limit: 2 });
    let mut failed = row(JobKey::job(5), 1, JobStat::Exit);
    failed.reason = TermReason::RunLimit;
    let mut parallel = row(JobKey::job(6), 3, JobStat::Run);
    parallel.hosts = vec![Share("h2".into(), 4), Share("h1".into(), 1)];
    let message = |index, by: &str, text: &str| JobMessage {
        index,
        by: by.into(),
        t: Stamp(NOW - 60_000),
        text: text.into(),
    };
    let mut stopped = row(JobKey::job(3), 1, JobStat::Ususp);
    stopped.messages = vec![
        message(0, "u10", "http://h2:8888"),
        message(3, "boss", "第 3 步, 40 %"),
    ];
    vec![
        spec(1, 10, 1),
        spec(2, 20, 1),
        spec(3, 10, 5),
        Row::Job(Box::new(waiting)),
        job(JobKey::job(2), 2, JobStat::Run),
        Row::Job(Box::new(stopped)),
        Row::Job(Box::new(array)),
        Row::Job(Box::new(failed)),
        Row::Job(Box::new(parallel)),
    ]
}

fn elements() -> Vec<Row<'static>> {
    vec![
        spec(1, 10, 1),
        job(JobKey::element(4, 1), 1, JobStat::Done),
        job(JobKey::element(4, 2), 1, JobStat::Run),
    ]
}
