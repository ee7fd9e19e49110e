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

fn host(b: &Bench) -> String {
    let run = b.core.state.work(JobKey::job(1)).unwrap().run.as_ref();
    b.core.state.host_name(run.unwrap().hosts[0].0).to_string()
}

/// The job's host reports its end.
fn end(b: &mut Bench, code: Option<i32>, sig: i32) {
    let (host, at) = (host(b), attempt(b));
    b.report(&host, vec![ended(at, code, sig)]);
    b.turn(Vec::new());
}

fn stat(b: &Bench) -> Option<JobStat> {
    b.core.state.stat(JobKey::job(1))
}

fn attempt(b: &Bench) -> u32 {
    b.core.state.work(JobKey::job(1)).unwrap().attempt
}

#[test]
fn a_job_that_fails_is_retried_after_ever_longer_pauses() {
    let mut b = Bench::new();
    b.submit(5, |j| j.spec.again.retries = Some(2));
    for (n, pause) in [(1, 1_000), (2, 2_000)] {
        end(&mut b, Some(3), 0);
        assert_eq!((stat(&b), attempt(&b)), (Some(JobStat::Pend), n));
        let why = b.core.state.job(1).unwrap().own_why(0).unwrap().to_string();
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
fn neither_a_success_nor_a_signal_is_retried() {
    for (code, sig, expected) in [
        (Some(0), 0, JobStat::Done),
        (None, 9, JobStat::Exit),
        (None, 0, JobStat::Exit),
    ] {
        let mut b = Bench::new();
        b.submit(5, |j| {
            (j.spec.again.retries, j.spec.again.exits) = (Some(2), "all".into());
        });
        end(&mut b, code, sig);
        assert_eq!(stat(&b), Some(expected), "{code:?} {sig}");
    }
    let mut b = Bench::new();
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
    let mut b = Bench::new();
    b.submit(5, |j| j.spec.again.retries = Some(9));
    end(&mut b, Some(1), 0);
    let ask = |b: &mut Bench, how| {
        let sel = selector(&["1"]);
        b.ask(5, vec![Verb::Signal { sel, how }]);
    };
    ask(&mut b, SignalHow::Stop);
    assert_eq!(
        (stat(&b), b.core.state.next_retry()),
        (Some(JobStat::Psusp), None)
    );
    b.now += 60_000;
    b.turn(Vec::new());
    assert_eq!(attempt(&b), 1);
    ask(&mut b, SignalHow::Resume);
    assert_eq!(attempt(&b), 2);
    end(&mut b, Some(1), 0);
    ask(&mut b, SignalHow::Kill);
    assert_eq!(
        (stat(&b), b.core.state.next_retry()),
        (Some(JobStat::Exit), None)
    );
    assert_eq!(b.core.state.check(), Vec::<String>::new());
}

#[test]
fn an_excluded_host_never_gets_the_job_again() {
    let mut b = Bench::new();
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
