//! Dependencies: what they hold back, and what becomes of jobs whose condition can never hold.

use super::*;

#[test]
fn dependencies_gate_and_open() {
    let mut b = Bench::new();
    b.submit(5, |_| {});
    b.submit(5, |j| j.spec.depend = "done(1)".into());
    b.submit(5, |j| j.spec.depend = "exit(1)".into());
    assert!(b.starts().is_empty());
    b.end("h1", 1, 1, 0);
    assert_eq!(b.starts(), [("h1".to_string(), "2.1".to_string())]);
    assert_eq!(b.stat(3), JobStat::Pend);
    let why = b.core.state.job(3).unwrap().own_why(0).unwrap().to_string();
    assert!(
        why.ends_with("can never be satisfied: job 1 is DONE"),
        "{why}"
    );
    // A name stands for many jobs, and may be written often.
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
    let mut b = Bench::new();
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
    let why = b.core.state.job(2).unwrap().own_why(0).unwrap().to_string();
    assert!(why.ends_with("job 1 ended with exit code 7"), "{why}");
    assert_eq!(
        [2, 3, 4].map(|id| b.stat(id)),
        [JobStat::Pend, JobStat::Exit, JobStat::Exit]
    );
    let work = b.core.state.work(JobKey::job(3)).unwrap();
    let fate = work.run.as_ref().unwrap().fate.as_ref().unwrap();
    assert_eq!(fate.reason, crate::model::TermReason::Orphan);
    // The cluster may say the same for all.
    let mut config = (*b.core.config).clone();
    config.general.orphans = crate::model::Orphans::Kill;
    b.turn(vec![Input::Config(Arc::new(config))]);
    assert_eq!(b.stat(2), JobStat::Exit);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_job_says_itself_what_becomes_of_it_when_its_dependency_can_never_hold() {
    use crate::model::Orphans;
    let mut b = Bench::new();
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
    let why = b.core.state.job(3).unwrap().own_why(0).unwrap().to_string();
    assert!(why.contains("can never be satisfied"), "{why}");
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    // The cluster lets all run; the word of the job still counts.
    b.submit(5, |j| j.spec.depend = "done(1)".into());
    assert_eq!(b.stat(5), JobStat::Exit);
    config.general.orphans = Orphans::Run;
    b.turn(vec![Input::Config(Arc::new(config))]);
    assert_eq!(b.stat(3), JobStat::Pend);
}

#[test]
fn a_condition_may_be_on_what_ran_after_a_job() {
    let mut b = Bench::new();
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
