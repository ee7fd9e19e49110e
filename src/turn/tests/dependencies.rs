//! Dependencies: what they hold back, and what happens to jobs whose condition can never be true.

use super::*;

#[test]
fn dependencies_gate_and_open() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.submit(5, |j| j.spec.depend = "done(1)".into());
    b.submit(5, |j| j.spec.depend = "exit(1)".into());
    assert!(b.starts().is_empty());
    b.end("h1", 1, 1, 0);
    assert_eq!(b.starts(), [("h1".to_string(), "2.1".to_string())]);
    assert_eq!(b.stat(3), JobStat::Pend);
    let why = b
        .core
        .state
        .job(3)
        .unwrap()
        .own_reason(0)
        .unwrap()
        .to_string();
    assert!(
        why.ends_with("can never be satisfied: job 1 is DONE"),
        "{why}"
    );
    // A name may denote many jobs, and may be written often.
    let every = vec!["done(*)"; 900].join("&&");
    b.submit(5, |j| j.spec.depend = every);
    assert!(b.last.acks[0].ids.len() == 1, "{:?}", b.last.acks);
    for _ in 0..80 {
        b.submit(5, |_| {});
    }
    let every = vec!["done(*)"; 900].join("&&");
    let refused = b.submit(5, |j| j.spec.depend = every);
    assert!(
        format!("{refused:?}").contains("too many jobs"),
        "{refused:?}"
    );
    let refused = b.submit(5, |j| j.spec.depend = "done(99)".into());
    assert!(
        refused.results[0].text.contains("99"),
        "{:?}",
        refused.results
    );
}

#[test]
fn a_job_whose_dependency_can_never_hold_ends_where_that_is_asked_for() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.submit(5, |j| j.spec.depend = "done(1)".into());
    b.submit(5, |j| {
        (j.spec.depend, j.spec.end_orphan) = ("done(1)".into(), true);
    });
    b.submit(5, |j| {
        (j.spec.depend, j.spec.end_orphan) = ("done(3)".into(), true);
    });
    b.starts();
    b.end("h1", 1, 1, 7);
    b.turn(Vec::new());
    let why = b
        .core
        .state
        .job(2)
        .unwrap()
        .own_reason(0)
        .unwrap()
        .to_string();
    assert!(why.ends_with("job 1 ended with exit code 7"), "{why}");
    assert_eq!(
        [2, 3, 4].map(|id| b.stat(id)),
        [JobStat::Pend, JobStat::Exit, JobStat::Exit]
    );
    let work = b.core.state.work(JobKey::job(3)).unwrap();
    let fate = work.run.as_ref().unwrap().end.as_ref().unwrap();
    assert_eq!(fate.reason, crate::model::TermReason::Orphan);
    // The cluster may set the same for all.
    let mut config = (*b.core.config).clone();
    config.general.orphans = crate::model::Orphans::Kill;
    b.turn(vec![Input::Config(Arc::new(config))]);
    assert_eq!(b.stat(2), JobStat::Exit);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_job_says_itself_what_becomes_of_it_when_its_dependency_can_never_hold() {
    use crate::model::Orphans;
    let mut b = TestLeader::new();
    let mut config = (*b.core.config).clone();
    config.general.orphans = Orphans::Kill;
    b.turn(vec![Input::Config(Arc::new(config.clone()))]);
    b.submit(5, |_| {});
    for orphan in [None, Some(Orphans::Hold), Some(Orphans::Run)] {
        b.submit(5, |j| {
            (j.spec.depend, j.spec.orphan) = ("done(1)".into(), orphan);
        });
    }
    b.starts();
    b.end("h1", 1, 1, 7);
    let started: Vec<String> = b.starts().into_iter().map(|(_, what)| what).collect();
    assert_eq!(started, ["4.1"], "it runs as if the dependency were met");
    assert_eq!(
        [2, 3].map(|id| b.stat(id)),
        [JobStat::Exit, JobStat::Pend],
        "the cluster ends those that say nothing, the other is held"
    );
    let why = b
        .core
        .state
        .job(3)
        .unwrap()
        .own_reason(0)
        .unwrap()
        .to_string();
    assert!(why.contains("can never be satisfied"), "{why}");
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    // The cluster lets all run; the setting of the job still counts.
    b.submit(5, |j| j.spec.depend = "done(1)".into());
    assert_eq!(b.stat(5), JobStat::Exit);
    config.general.orphans = Orphans::Run;
    b.turn(vec![Input::Config(Arc::new(config))]);
    assert_eq!(b.stat(3), JobStat::Pend);
}

fn requeued(b: &mut TestLeader, id: &str) {
    let states = vec!["exit".to_owned()];
    let (sel, hold) = (selector(&[id]), false);
    let ack = b.ask(5, vec![Verb::Requeue { sel, hold, states }]);
    assert_eq!(ack.results[0].text, "is being requeued");
}

/// Verdicts have no events, so the next leader does not know them.
#[test]
fn a_job_whose_condition_was_met_runs_again_under_the_next_leader() {
    for (array, j) in [("", JobKey::job(2)), ("1-2", JobKey::element(2, 1))] {
        let mut b = TestLeader::new();
        b.submit(5, |_| {});
        b.submit(5, |j| {
            (j.spec.depend, j.array) = ("done(1)".into(), array.into());
        });
        b.end("h1", 1, 1, 0);
        let a = AttemptId { j, at: 1 };
        let (host, what) = b.starts().remove(0);
        assert_eq!(what, a.to_string());
        b.next_leader();
        let (start, t) = (b.now, b.now);
        let e = Ended {
            a,
            start,
            t,
            code: Some(1),
            ..Ended::default()
        };
        b.report(&host, vec![Report::Ended(Box::new(e))]);
        requeued(&mut b, &j.to_string());
        let again: Vec<String> = b.starts().into_iter().map(|(_, what)| what).collect();
        assert_eq!(again, [AttemptId { j, at: 2 }.to_string()]);
        assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    }
}

#[test]
fn a_job_that_was_killed_while_it_waited_waits_again_for_its_condition() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.submit(5, |j| j.spec.depend = "done(1)".into());
    let (sel, how) = (selector(&["2"]), SignalAction::Kill);
    b.ask(5, vec![Verb::Signal { sel, how }]);
    assert_eq!(b.stat(2), JobStat::Exit);
    requeued(&mut b, "2");
    assert!(b.starts().is_empty(), "job 1 is not done");
    b.end("h1", 1, 1, 0);
    let started: Vec<String> = b.starts().into_iter().map(|(_, what)| what).collect();
    assert_eq!(started, ["2.1"]);
}

#[test]
fn a_condition_may_be_on_what_ran_after_a_job() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.array = "1-2".into());
    for depend in ["post_done(1)", "post_err(1)", "post_done(1[2])"] {
        b.submit(5, |j| j.spec.depend = depend.into());
    }
    let mut started = Vec::new();
    for (idx, post_failed) in [(1, true), (2, false)] {
        let (j, code) = (JobKey::element(1, idx), Some(0));
        let a = AttemptId { j, at: 1 };
        let e = Ended {
            a,
            start: b.now,
            t: b.now,
            code,
            post_failed,
            ..Ended::default()
        };
        let run = b.core.state.work(j).unwrap().run.as_deref().unwrap();
        let host = b.core.state.host_name(run.hosts[0].0).to_string();
        b.report(&host, vec![Report::Ended(Box::new(e))]);
        started.extend(b.starts().into_iter().map(|(_, what)| what));
    }
    assert_eq!(
        started,
        ["3.1", "4.1"],
        "post_err holds with the first failure"
    );
    assert_eq!(b.stat(2), JobStat::Pend);
}
