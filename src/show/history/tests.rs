//! Tests the way from events to pages.

use super::page::*;
use super::*;
use crate::model::Token;
use crate::record::report::Usage;
use crate::show::Dates;
use jiff::tz::TimeZone;

/// Sat Nov 21 03:07:09 2026 UTC.
const T: i64 = 1_795_230_429_000;

fn at(second: i64) -> Stamp {
    Stamp(T + second * 1000)
}

fn spec() -> Event {
    let spec = Spec {
        uid: 10,
        user: "alice".into(),
        queue: "normal".into(),
        project: "p1".into(),
        sub_host: "h0".into(),
        cwd: "/data".into(),
        min: 1,
        max: 1,
        ..Spec::default()
    };
    Event::Spec {
        id: 1,
        spec: Box::new(spec),
    }
}

fn submitted(id: u32, array: &str) -> Event {
    Event::Submitted(Box::new(Submitted {
        id,
        s: 1,
        t: at(0),
        command: "./work".into(),
        name: "作业".into(),
        array: array.into(),
        tok: Token(1),
        ..Submitted::default()
    }))
}

fn dispatched(j: JobKey, attempt: u32, second: i64) -> Event {
    Event::Dispatched {
        a: AttemptId { j, at: attempt },
        t: at(second),
        hosts: vec![Share("h1".into(), 1)],
        alt: 0,
        forced: false,
        units: Vec::new(),
    }
}

fn started(j: JobKey, attempt: u32, second: i64) -> Event {
    Event::Started {
        a: AttemptId { j, at: attempt },
        pid: 99,
        t: at(second),
        bind: None,
    }
}

fn ended(j: JobKey, attempt: u32, second: i64, code: Option<i32>, requeue: bool) -> Event {
    Event::Ended {
        e: Box::new(Ended {
            a: AttemptId { j, at: attempt },
            start: T,
            t: at(second).0,
            code,
            sig: if code.is_none() { 9 } else { 0 },
            reason: if code.is_none() {
                TermReason::MemLimit
            } else {
                TermReason::None
            },
            u: Usage {
                cpu_ms: 1500,
                ..Usage::default()
            },
            ..Ended::default()
        }),
        requeue,
        hold: false,
    }
}

fn told(events: &[Event]) -> Histories {
    let mut all = Histories::new(true);
    all.apply(&spec());
    events.iter().for_each(|e| all.apply(e));
    all
}

fn rows(all: &Histories, now: i64) -> String {
    let mut out = String::new();
    for e in all
        .by_job
        .values()
        .flat_map(SubmissionHistory::element_histories)
    {
        put_row(&mut out, &e, at(now).0, false);
    }
    out
}

#[test]
fn a_job_that_was_held_stopped_lost_requeued_and_done() {
    let j = JobKey::job(7);
    let a = AttemptId { j, at: 1 };
    let hold_event = |hold_event, second| Event::Held {
        j,
        held: hold_event,
        admin: false,
        by: "alice".into(),
        t: at(second),
    };
    let signal = |act, second| Event::Signalled {
        j,
        act,
        by: "alice".into(),
        t: at(second),
    };
    let suspended = |on, second| Event::Suspended {
        a,
        on,
        t: at(second),
    };
    let host = |up, second| Event::HostSeen {
        name: "h1".into(),
        up,
        boot: String::new(),
        t: at(second),
    };
    let all = told(&[
        submitted(7, ""),
        hold_event(true, 10),
        hold_event(false, 15),
        dispatched(j, 1, 20),
        started(j, 1, 20),
        signal(SignalAct::Stop, 29),
        suspended(true, 30),
        signal(SignalAct::Resume, 36),
        suspended(false, 37),
        host(false, 50),
        host(true, 58),
        ended(j, 1, 60, None, true),
        dispatched(j, 2, 61),
        started(j, 2, 62),
        ended(j, 2, 70, Some(0), false),
    ]);
    let row = "7       alice   作业      16      5       34      7       0       8       70\n";
    assert_eq!(rows(&all, 500), row);
    assert!(HEADER.ends_with(
        "JOBID   USER    JOB_NAME  PEND    PSUSP   RUN     USUSP   SSUSP   UNKWN   TOTAL\n"
    ));
    let mut out = String::new();
    let e = all.by_job[&7].element_histories().next().unwrap();
    put_long(&mut out, &e, at(100).0, &Dates::new(TimeZone::UTC));
    let want = "
Job <7>, Job Name <作业>, User <alice>, Project <p1>, Command <./work>
Sat Nov 21 03:07:09: Submitted from host <h0>, to Queue <normal>, CWD </data>;
Sat Nov 21 03:07:19: Held before its start by <alice>;
Sat Nov 21 03:07:24: Released by <alice>;
Sat Nov 21 03:07:29: Dispatched 1 Slot(s) on Host(s) <h1>;
Sat Nov 21 03:07:29: Starting (Pid 99);
Sat Nov 21 03:07:38: Stop requested by <alice>;
Sat Nov 21 03:07:39: Suspended by its owner or an administrator;
Sat Nov 21 03:07:45: Resume requested by <alice>;
Sat Nov 21 03:07:46: Running again;
Sat Nov 21 03:07:59: Host <h1> does not answer;
Sat Nov 21 03:08:07: Host <h1> answers again;
Sat Nov 21 03:08:09: Exited by signal 9. The CPU time used is 1.5 seconds; \n\
\x20                    TERM_MEMLIMIT: killed: it reached its memory limit; \n\
\x20                    requeued;
Sat Nov 21 03:08:10: Dispatched 1 Slot(s) on Host(s) <h1>, attempt 2;
Sat Nov 21 03:08:11: Starting (Pid 99);
Sat Nov 21 03:08:19: Done successfully. The CPU time used is 1.5 seconds;

Summary of time in seconds spent in various states by  Sat Nov 21 03:08:49
  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL
  16       5        34       7        0        8        70
";
    assert_eq!(out, want);
}

#[test]
fn elements_share_the_beginning_of_their_array() {
    let all = told(&[
        submitted(8, "1-3"),
        Event::Held {
            j: JobKey::job(8),
            held: true,
            admin: true,
            by: "boss".into(),
            t: at(5),
        },
        Event::Held {
            j: JobKey::job(8),
            held: false,
            admin: true,
            by: "boss".into(),
            t: at(8),
        },
        dispatched(JobKey::element(8, 2), 1, 10),
        ended(JobKey::element(8, 2), 1, 20, Some(3), false),
    ]);
    let want = "\
8[1]    alice   作业[1]   27      3       0       0       0       0       30
8[2]    alice   作业[2]   7       3       10      0       0       0       20
8[3]    alice   作业[3]   27      3       0       0       0       0       30
";
    assert_eq!(rows(&all, 30), want);
    let submission = &all.by_job[&8];
    let second = submission.element_histories().nth(1).unwrap();
    assert_eq!(second.lines().count(), 4);
    assert_eq!(second.stat(), JobStat::Exit);
    assert!(
        second.has_events_between(at(4).0, at(6).0)
            && !second.has_events_between(at(21).0, at(30).0)
    );
}

#[test]
fn a_cancelled_array_ends_where_nothing_started() {
    let all = told(&[
        submitted(8, "1-2"),
        dispatched(JobKey::element(8, 1), 1, 10),
        Event::Cancelled {
            j: JobKey::job(8),
            by: "alice".into(),
            reason: TermReason::Owner,
            t: at(12),
        },
    ]);
    let stats: Vec<JobStat> = all.by_job[&8]
        .element_histories()
        .map(|e| e.stat())
        .collect();
    assert_eq!(stats, [JobStat::Run, JobStat::Exit]);
}

#[test]
fn a_kill_that_met_no_process_is_an_end() {
    let j = JobKey::job(9);
    let all = told(&[
        submitted(9, ""),
        dispatched(j, 1, 3),
        Event::Signalled {
            j,
            act: SignalAct::Kill(TermReason::Owner),
            by: "alice".into(),
            t: at(4),
        },
        Event::Unbound {
            a: AttemptId { j, at: 1 },
            host: String::new(),
            why: "killed before its start".into(),
            t: at(5),
        },
    ]);
    let e = all.by_job[&9].element_histories().next().unwrap();
    assert_eq!(e.stat(), JobStat::Exit);
    let mut out = String::new();
    put_json(&mut out, &e, at(10).0, true);
    let v: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(v["term_reason"], "TERM_OWNER");
    assert_eq!(
        v["seconds"],
        serde_json::json!({"PEND":3,"PSUSP":0,"RUN":2,"USUSP":0,"SSUSP":0,"UNKWN":0})
    );
    assert_eq!(v["events"].as_array().unwrap().len(), 3);
}

#[test]
fn what_the_journal_forgot_comes_from_the_view() {
    let mut all = Histories::new(false);
    all.apply(&ended(JobKey::job(5), 1, 60, Some(0), false));
    assert_eq!(all.incomplete(), [5]);
    let row = JobRow {
        j: JobKey::job(5),
        submit: T,
        command: "old".into(),
        ..JobRow::default()
    };
    all.complete(&row, &Arc::new(Spec::default()));
    assert!(all.incomplete().is_empty());
    assert_eq!(all.by_job[&5].name, "old");
}

#[test]
fn a_late_report_of_an_old_attempt_changes_nothing() {
    let j = JobKey::job(7);
    let all = told(&[
        submitted(7, ""),
        dispatched(j, 2, 10),
        ended(j, 1, 20, Some(0), false),
    ]);
    assert_eq!(
        all.by_job[&7].element_histories().next().unwrap().stat(),
        JobStat::Run
    );
}

#[test]
fn what_a_host_says_after_the_end_counts_in_it_once() {
    let j = JobKey::job(7);
    let used = |attempt, cpu_ms| Event::PartUsed {
        a: AttemptId { j, at: attempt },
        part: PartUse {
            host: "h2".into(),
            u: Usage {
                cpu_ms,
                ..Usage::default()
            },
        },
        t: at(60),
    };
    let begin = [
        spec(),
        submitted(7, ""),
        dispatched(j, 1, 1),
        started(j, 1, 2),
        ended(j, 1, 50, Some(0), false),
    ];
    let cpu = |more: &[Event]| {
        let events = [&begin[..], more].concat();
        let all = told(&events);
        all.by_job[&7].head.end.as_ref().unwrap().u.cpu_ms
    };
    let at_end = cpu(&[]);
    assert_eq!(cpu(&[used(1, 30)]), at_end + 30);
    assert_eq!(cpu(&[used(1, 30), used(1, 40), used(1, 40)]), at_end + 40);
    assert_eq!(cpu(&[used(2, 30)]), at_end, "of another attempt");
}

#[test]
fn what_happened_is_in_the_language_of_the_person_and_json_is_not() {
    let mut all = Histories::new(true);
    let j = JobKey::job(7);
    for event in [
        spec(),
        submitted(7, ""),
        dispatched(j, 1, 1),
        started(j, 1, 2),
        ended(j, 1, 9, Some(3), false),
    ] {
        all.apply(&event);
    }
    let element = all.by_job[&7].element_histories().next().unwrap();
    let dates = Dates::new(TimeZone::UTC).now(T);
    let page = || {
        let mut out = String::new();
        put_long(&mut out, &element, T, &dates);
        out
    };
    let json = || {
        let mut out = String::new();
        put_json(&mut out, &element, T, true);
        out
    };
    let chinese = crate::language::in_chinese(page);
    // Labels and states are those of LSF.
    for part in [
        "Job <7>, Job Name <作业>, User <alice>, Project <p1>, Command <./work>",
        ": 从主机 <h0> 提交到队列 <normal>, CWD </data>;",
        ": 派发到主机 <h1>，1 个槽位;",
        ": 正在启动（Pid 99）;",
        ": 退出，退出码 3。所用 CPU 时间为 1.5 秒;",
        "Summary of time in seconds spent in various states by",
    ] {
        assert!(chinese.contains(part), "{part}\n{chinese}");
    }
    assert_eq!(crate::language::in_chinese(json), json());
}
