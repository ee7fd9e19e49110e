//! Applications: which application a job has, what it gets from it, and what a change of it does.

use super::*;
use crate::model::{ControlAct, Controls};
use crate::record::order::StartOrder;
use crate::record::request::Changes;

const APPS: &str = "
cluster: {name: demo, administrators: [root]}
hosts:
- {name: h1, slots: 8}
- {name: h2, slots: 8}
queues:
- {name: medium, run_limit: 120, mem_limit: 4G, rerunnable: yes, job_slots: 1 1 6,
   job_starter: of_queue}
- {name: free}
apps:
- {name: cfd, run_limit: 30 60, mem_limit: 8G, job_slots: 2 2 4, pre_exec: prepare,
   rerunnable: no, retries: 2, requeue_exit_values: 30, warn_time: 60, job_starter: of_app}
- {name: plain}
- {name: theirs, users: none}
general: {default_queue: medium}
limits:
- {name: licences, per_app: all, jobs: 1}
";

fn test_leader() -> TestLeader {
    TestLeader::with(APPS)
}

fn refused(app: &str, change: impl FnOnce(&mut Submission)) -> (Code, String) {
    let ack = test_leader().submit(5, |j| {
        j.spec.app = app.into();
        change(j);
    });
    let outcome = ack.results.first().expect("it is refused").clone();
    (outcome.code, outcome.text)
}

fn spec(b: &TestLeader, id: u32) -> &Spec {
    b.core.state.spec_of(id).unwrap()
}

fn change(b: &mut TestLeader, set: &[&str], reset: &[&str], app: &str) -> Ack {
    let names = |list: &[&str]| list.iter().map(|o| (*o).to_owned()).collect();
    let mut changes = Changes {
        set: names(set),
        reset: names(reset),
        ..Changes::default()
    };
    changes.job.spec.app = app.into();
    let (sel, changes) = (selector(&["1"]), Box::new(changes));
    b.ask(5, vec![Verb::Modify { sel, changes }])
}

#[test]
fn an_application_that_does_not_exist_or_is_for_others_is_refused() {
    let (code, text) = refused("plian", |_| {});
    let want = "-app: there is no application \"plian\"; did you mean \"plain\"?";
    assert_eq!((code, text.as_str()), (Code::NotFound, want));
    let (code, text) = refused("theirs", |_| {});
    assert_eq!(code, Code::Permission);
    assert!(text.contains("may not use application theirs"), "{text}");
    let (code, _) = refused("of a template", |j| j.app_label = true);
    assert_eq!(code, Code::Usage);
    // A name from a template needs no profile; if a profile with this name exists, it applies.
    let mut b = test_leader();
    b.submit(5, |j| (j.spec.app, j.app_label) = ("mpi".into(), true));
    assert_eq!(spec(&b, 1).app, "mpi");
    assert_eq!(
        refused("theirs", |j| j.app_label = true).0,
        Code::Permission
    );
}

#[test]
fn a_job_has_its_own_value_then_its_applications_then_its_queues() {
    let mut b = test_leader();
    b.submit(5, |j| j.spec.app = "cfd".into());
    let job = spec(&b, 1);
    assert_eq!((job.min, job.max), (2, 2));
    assert_eq!(job.limits.run_s, Some(1800), "the application's default");
    assert_eq!(job.limits.mem_b, Some(4 << 30), "the queue's is less");
    assert_eq!(job.hooks.pre, "prepare");
    assert!(!job.rerunnable, "the application says no");
    assert_eq!(
        (job.again.retries, job.again.exits.as_str()),
        (Some(2), "30")
    );
    assert_eq!(job.warn.map(|w| w.before_s), Some(60));
    b.submit(5, |j| {
        j.spec.app = "cfd".into();
        j.spec.limits.run_s = Some(60 * 60);
        j.spec.hooks.pre = "own".into();
        j.spec.again.retries = Some(0);
    });
    let job = spec(&b, 2);
    assert_eq!(job.limits.run_s, Some(3600));
    assert_eq!(
        (job.hooks.pre.as_str(), job.again.retries),
        ("own", Some(0))
    );
    b.submit(5, |j| j.spec.app = "plain".into());
    let job = spec(&b, 3);
    assert_eq!((job.limits.run_s, job.rerunnable), (Some(7200), true));
    for (change, want) in [
        (
            (|j: &mut Submission| j.spec.limits.run_s = Some(61 * 60)) as fn(&mut Submission),
            "-W: 61 min exceeds 60 min of application cfd",
        ),
        (
            |j| j.spec.limits.mem_b = Some(5 << 30),
            "-M: 5G exceeds 4G of queue medium",
        ),
        (
            |j| (j.spec.min, j.spec.max) = (5, 5),
            "-n: application cfd accepts jobs of 2 to 4 slots",
        ),
        (
            |j| (j.spec.min, j.spec.max) = (1, 1),
            "-n: application cfd accepts jobs of 2 to 4 slots",
        ),
    ] {
        assert_eq!(refused("cfd", change), (Code::Refused, want.to_owned()));
    }
}

#[test]
fn the_host_is_told_the_applications_starter() {
    let mut b = test_leader();
    let starter = |b: &TestLeader| {
        let start = b.last.orders.iter().find_map(|(_, order)| match order {
            Order::Start(start) => Some(start.hooks.as_ref()?.starter.clone()),
            _ => None,
        });
        start.unwrap_or_default()
    };
    b.submit(5, |j| j.spec.app = "cfd".into());
    assert_eq!(starter(&b), "of_app");
    b.submit(5, |j| j.spec.app = "plain".into());
    assert_eq!(starter(&b), "of_queue");
    let mut b = test_leader();
    b.submit(5, |j| {
        (j.spec.app, j.spec.queue) = ("cfd".into(), "free".into())
    });
    assert_eq!(starter(&b), "of_app", "the queue has no hooks at all");
}

#[test]
fn the_host_is_told_the_applications_variables_and_controls() {
    let config = APPS
        .replace(
            "job_starter: of_queue",
            "job_controls: {suspend: TSTP, resume: HUP}",
        )
        .replace(
            "- {name: plain}",
            "- {name: plain, env: {A: '1'}, job_controls: {suspend: STOP, terminate: USR1},
               success_exit_values: 5}",
        );
    let start = |b: &TestLeader| {
        let start = b.last.orders.iter().find_map(|(_, order)| match order {
            Order::Start(start) => Some(StartOrder::clone(start)),
            _ => None,
        });
        start.unwrap()
    };
    let mut b = TestLeader::with(&config);
    b.submit(5, |j| j.spec.app = "plain".into());
    let order = start(&b);
    let hooks = order.hooks.unwrap();
    assert_eq!(hooks.env, [("A".to_owned(), "1".to_owned())].into());
    let signal = |n| Some(ControlAct::Signal(n));
    let controls = Controls {
        suspend: signal(libc::SIGSTOP),
        resume: signal(libc::SIGHUP),
        terminate: signal(libc::SIGUSR1),
    };
    assert_eq!((hooks.controls, order.success.as_str()), (controls, "5"));
    let mut b = TestLeader::with(&config);
    b.submit(5, |j| {
        (j.spec.app, j.spec.queue) = ("plain".into(), "free".into())
    });
    let hooks = start(&b).hooks.expect("the queue has none at all");
    assert_eq!((hooks.env.len(), hooks.controls.resume), (1, None));
}

#[test]
fn a_limit_counts_the_jobs_of_each_application() {
    let mut b = test_leader();
    for app in ["plain", "plain", "cfd"] {
        b.submit(5, |j| j.spec.app = app.into());
    }
    let stats: Vec<JobStat> = (1..=3).map(|id| b.stat(id)).collect();
    assert_eq!(stats, [JobStat::Run, JobStat::Pend, JobStat::Run]);
}

#[test]
fn another_application_takes_back_what_the_first_one_gave() {
    let mut b = test_leader();
    b.submit(5, |j| {
        j.spec.app = "cfd".into();
        j.spec.hooks.post = "own".into();
        j.hold = true;
    });
    let ack = change(&mut b, &["app"], &[], "nothing");
    assert_eq!(ack.results[0].code, Code::NotFound, "{ack:?}");
    let ack = change(&mut b, &["app"], &[], "plain");
    assert_eq!(ack.results[0].code, Code::Ok, "{ack:?}");
    let job = spec(&b, 1);
    assert_eq!((job.app.as_str(), job.hooks.pre.as_str()), ("plain", ""));
    assert_eq!(job.hooks.post, "own");
    assert_eq!(job.limits.run_s, Some(7200));
    assert_eq!(
        (job.again.retries, job.warn, job.rerunnable),
        (None, None, true)
    );
    change(&mut b, &["app"], &[], "cfd");
    assert_eq!(spec(&b, 1).limits.run_s, Some(1800));
    change(&mut b, &[], &["app"], "");
    assert_eq!(spec(&b, 1).app, "");
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_job_that_names_no_application_has_the_default_one() {
    let config = APPS.replace("{default_queue", "{default_app: plain, default_queue");
    let mut b = TestLeader::with(&config);
    b.submit(5, |j| j.hold = true);
    b.submit(5, |j| j.spec.app = "cfd".into());
    assert_eq!(
        (spec(&b, 1).app.as_str(), spec(&b, 2).app.as_str()),
        ("plain", "cfd")
    );
    change(&mut b, &["app"], &[], "cfd");
    change(&mut b, &[], &["app"], "");
    assert_eq!(spec(&b, 1).app, "plain");
}

/// Of several queues, one that has what the job asks for is taken.
#[test]
fn the_queue_that_is_chosen_has_the_hosts_and_the_gpus() {
    let mut b = TestLeader::with(
        "cluster: {name: demo, administrators: [root]}\n\
         hosts:\n- {name: h1, slots: 8}\n- {name: h2, slots: 8, resources: {gpu: 2}}\n\
         queues:\n- {name: plain, hosts: h1}\n- {name: fast, hosts: h2}\n\
         general: {default_queue: plain fast}\n",
    );
    let mut with = |hosts: &str, res_req: &str| {
        b.submit(5, |j| {
            j.spec.queue = "plain fast".into();
            j.spec.hosts = hosts.into();
            j.spec.res_req = res_req.into();
        });
    };
    with("", "");
    with("h2", "");
    with("", "rusage[gpu=1]");
    let queues = [1, 2, 3].map(|id| spec(&b, id).queue.clone());
    assert_eq!(queues, ["plain", "fast", "fast"]);
}
