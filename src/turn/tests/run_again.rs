//! Jobs that run again by their exit value or as a retry.

use super::*;
use crate::model::TermReason;

/// The end of attempt `at` of job 1.
fn ended(at: u32, code: Option<i32>, sig: i32) -> Report {
    Report::Ended(Box::new(Ended {
        a: AttemptId {
            j: JobKey::job(1),
            at,
        },
        start: 1,
        t: 2,
        code,
        sig,
        ..Ended::default()
    }))
}

fn host(b: &TestLeader) -> String {
    let run = b.core.state.work(JobKey::job(1)).unwrap().run.as_ref();
    b.core.state.host_name(run.unwrap().hosts[0].0).to_string()
}

/// The job's host reports its end.
fn end(b: &mut TestLeader, code: Option<i32>, sig: i32) {
    let (host, at) = (host(b), attempt(b));
    b.report(&host, vec![ended(at, code, sig)]);
    b.turn(Vec::new());
}

fn stat(b: &TestLeader) -> Option<JobStat> {
    b.core.state.stat(JobKey::job(1))
}

fn attempt(b: &TestLeader) -> u32 {
    b.core.state.work(JobKey::job(1)).unwrap().attempt
}

#[test]
fn a_job_that_fails_is_retried_after_ever_longer_pauses() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.again.retries = Some(2));
    for (n, pause) in [(1, 1_000), (2, 2_000)] {
        end(&mut b, Some(3), 0);
        assert_eq!((stat(&b), attempt(&b)), (Some(JobStat::Pend), n));
        let why = b
            .core
            .state
            .job(1)
            .unwrap()
            .own_reason(0)
            .unwrap()
            .to_string();
        assert!(why.contains(&format!("retry {n} of 2")), "{why}");
        // A new leader waits for the same time.
        assert_eq!(contents(&b.replayed()), contents(&b.core.state));
        assert_eq!(b.replayed().next_retry(), b.core.state.next_retry());
        b.now += pause - 500;
        b.turn(Vec::new());
        assert_eq!(attempt(&b), n, "too early");
        b.now += 500;
        b.turn(Vec::new());
        assert_eq!((stat(&b), attempt(&b)), (Some(JobStat::Run), n + 1));
        assert_eq!(b.core.state.next_retry(), None);
        assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    }
    end(&mut b, Some(3), 0);
    assert_eq!(stat(&b), Some(JobStat::Exit));
    assert_eq!(b.core.state.check(), Vec::<String>::new());
}

#[test]
fn what_was_ended_has_not_succeeded_and_its_dependents_wait() {
    for (reason, wanted) in [
        (TermReason::Owner, JobStat::Exit),
        (TermReason::RunLimit, JobStat::Exit),
        (TermReason::MemLimit, JobStat::Exit),
        (TermReason::Preempt, JobStat::Exit),
        (TermReason::None, JobStat::Done),
    ] {
        let mut b = TestLeader::new();
        b.submit(5, |_| {});
        b.submit(5, |j| j.spec.depend = "done(1)".into());
        b.submit(5, |j| j.spec.depend = "exit(1)".into());
        let Report::Ended(mut e) = ended(1, Some(0), 0) else {
            unreachable!()
        };
        e.reason = reason;
        let on = host(&b);
        b.report(&on, vec![Report::Ended(e)]);
        b.turn(Vec::new());
        assert_eq!(stat(&b), Some(wanted), "{reason}");
        let runs = |id| b.core.state.stat(JobKey::job(id)) == Some(JobStat::Run);
        let done = wanted == JobStat::Done;
        assert_eq!((runs(2), runs(3)), (done, !done), "{reason}");
        let record = b.core.state.row(JobKey::job(1)).unwrap();
        assert_eq!((record.code, record.reason), (Some(0), reason));
    }
}

/// The job itself asks to run again when one of its processes ran out of memory.
#[test]
fn an_exit_value_counts_although_a_process_ran_out_of_memory() {
    for (reason, oom, code, again) in [
        (TermReason::MemLimit, true, 7, true),
        (TermReason::MemLimit, true, 137, false),
        (TermReason::MemLimit, false, 7, false),
        (TermReason::Owner, true, 7, false),
    ] {
        let mut b = TestLeader::new();
        b.submit(5, |j| j.spec.again.exits = "7 137".into());
        let Report::Ended(mut e) = ended(1, Some(code), 0) else {
            unreachable!()
        };
        (e.reason, e.oom) = (reason, oom);
        let on = host(&b);
        b.report(&on, vec![Report::Ended(e)]);
        b.turn(Vec::new());
        let (wanted, attempts) = if again {
            (JobStat::Run, 2)
        } else {
            (JobStat::Exit, 1)
        };
        let now = (stat(&b), attempt(&b));
        assert_eq!(now, (Some(wanted), attempts), "{reason} {code}");
    }
}

#[test]
fn neither_a_success_nor_a_signal_is_retried() {
    for (code, sig, expected) in [
        (Some(0), 0, JobStat::Done),
        (None, 9, JobStat::Exit),
        (None, 0, JobStat::Exit),
    ] {
        let mut b = TestLeader::new();
        b.submit(5, |j| {
            (j.spec.again.retries, j.spec.again.exits) = (Some(2), "all".into());
        });
        end(&mut b, code, sig);
        assert_eq!(stat(&b), Some(expected), "{code:?} {sig}");
    }
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.again.retries = Some(2));
    let Report::Ended(mut e) = ended(1, Some(130), 0) else {
        panic!("an end");
    };
    e.reason = TermReason::RunLimit;
    let host = host(&b);
    b.report(&host, vec![Report::Ended(e)]);
    assert_eq!(stat(&b), Some(JobStat::Exit), "it was ended at its limit");
}

#[test]
fn a_retry_that_waits_can_be_held_and_killed() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.again.retries = Some(9));
    end(&mut b, Some(1), 0);
    let ask = |b: &mut TestLeader, how| {
        let sel = selector(&["1"]);
        b.ask(5, vec![Verb::Signal { sel, how }]);
    };
    ask(&mut b, SignalAction::Stop);
    assert_eq!(
        (stat(&b), b.core.state.next_retry()),
        (Some(JobStat::Psusp), None)
    );
    b.now += 60_000;
    b.turn(Vec::new());
    assert_eq!(attempt(&b), 1);
    ask(&mut b, SignalAction::Resume);
    assert_eq!(attempt(&b), 2);
    end(&mut b, Some(1), 0);
    ask(&mut b, SignalAction::Kill);
    assert_eq!(
        (stat(&b), b.core.state.next_retry()),
        (Some(JobStat::Exit), None)
    );
    assert_eq!(b.core.state.check(), Vec::<String>::new());
}

#[test]
fn an_excluded_host_never_gets_the_job_again() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.again.exits = "30 EXCLUDE(20)".into());
    let first = host(&b);
    end(&mut b, Some(20), 0);
    let second = host(&b);
    assert_eq!((stat(&b), attempt(&b)), (Some(JobStat::Run), 2));
    assert_ne!(first, second);
    end(&mut b, Some(30), 0);
    assert_eq!(
        (host(&b), attempt(&b)),
        (second, 3),
        "the other stays excluded"
    );
    // The exclusion is recorded before the end that frees the host.
    let events = b.events.iter();
    let at = |found: &dyn Fn(&Event) -> bool| events.clone().position(found);
    let changed = at(&|e| matches!(e, Event::Changed { .. }));
    assert!(changed < at(&|e| matches!(e, Event::Ended { .. })));
    end(&mut b, Some(20), 0);
    assert_eq!(
        (stat(&b), attempt(&b)),
        (Some(JobStat::Pend), 3),
        "no host is left"
    );
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

const SUCCESS: &str = "
cluster: {name: demo, administrators: [root]}
hosts:
- {name: h1, slots: 8}
queues:
- {name: q, success_exit_values: 3 7, requeue_exit_values: 7, max_requeue: 1, retries: 1}
apps:
- {name: own, success_exit_values: 4, max_requeue: 0}
- {name: often, max_requeue: unlimited}
- {name: bare}
";

fn of_app(app: &str) -> TestLeader {
    let mut b = TestLeader::with(SUCCESS);
    b.submit(5, |j| (j.spec.app, j.spec.queue) = (app.into(), "q".into()));
    b
}

#[test]
fn exit_values_of_success_are_the_applications_else_the_queues() {
    for (app, code, expected) in [
        ("", 3, JobStat::Done),
        ("bare", 3, JobStat::Done),
        ("own", 4, JobStat::Done),
        // A retry.
        ("own", 3, JobStat::Pend),
        ("", 4, JobStat::Pend),
    ] {
        let mut b = of_app(app);
        end(&mut b, Some(code), 0);
        assert_eq!(stat(&b), Some(expected), "{app} {code}");
        assert_eq!(contents(&b.replayed()), contents(&b.core.state));
        assert_eq!(b.core.state.check(), Vec::<String>::new());
        let run = b.core.state.work(JobKey::job(1)).unwrap().run.as_deref();
        let fate = run.and_then(|run| run.end.as_deref());
        if expected == JobStat::Done {
            assert_eq!(fate.unwrap().code, Some(code), "the true code is kept");
        }
    }
}

#[test]
fn what_was_ended_or_killed_by_a_signal_has_not_succeeded() {
    let mut b = of_app("");
    end(&mut b, Some(3), 9);
    assert_ne!(stat(&b), Some(JobStat::Done));
    let mut b = of_app("");
    let (sel, how) = (selector(&["1"]), SignalAction::Kill);
    b.ask(5, vec![Verb::Signal { sel, how }]);
    let mut report = ended(attempt(&b), Some(3), 0);
    if let Report::Ended(e) = &mut report {
        e.reason = TermReason::Owner;
    }
    let host = host(&b);
    b.report(&host, vec![report]);
    assert_eq!(stat(&b), Some(JobStat::Exit));
}

#[test]
fn a_requeue_comes_before_a_success_as_often_as_the_application_says() {
    for (app, runs) in [("", 2), ("bare", 2), ("own", 1), ("often", 9)] {
        let mut b = of_app(app);
        for n in 1..runs {
            end(&mut b, Some(7), 0);
            let now = (stat(&b), attempt(&b));
            assert_eq!(now, (Some(JobStat::Run), n + 1), "{app}");
        }
        end(&mut b, Some(7), 0);
        let last = match app {
            "" | "bare" => JobStat::Done,
            "own" => JobStat::Exit,
            _ => JobStat::Run,
        };
        assert_eq!(stat(&b), Some(last), "{app}");
    }
}
