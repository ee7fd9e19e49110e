//! `cmod` and `cswitch` of started jobs: what is sent to their hosts, what is refused, and what
//! stays as it was dispatched.

use super::*;
use crate::model::Limits;
use crate::record::request::Changes;

const CONFIG: &str = "
cluster: {name: demo, administrators: [root]}
hosts:
- {name: h1, slots: 2, resources: {lic: 4}}
- {name: h2, slots: 2, resources: {lic: 4}}
queues:
- {name: normal, priority: 30}
- {name: again, priority: 20, rerunnable: yes}
- {name: small, priority: 20, slots: 2}
- {name: short, priority: 20, run_limit: 10}
- {name: picky, priority: 20, res_req: 'rusage[lic=3]'}
- {name: other, priority: 20, hosts: h2}
limits:
- {name: lics, queues: small, resources: [lic, 2]}
general: {default_queue: normal, clean_period: 100, iso_timeout: 60}
";

impl TestLeader {
    fn changed(&mut self, uid: u32, id: &str, fill: impl FnOnce(&mut Changes)) -> Ack {
        let mut changes = Box::<Changes>::default();
        fill(&mut changes);
        let sel = selector(&[id]);
        self.ask(uid, vec![Verb::Modify { sel, changes }])
    }

    fn set(&mut self, option: &str, fill: impl FnOnce(&mut Submission)) -> (Code, String) {
        let ack = self.changed(5, "1", |changes| {
            fill(&mut changes.job);
            changes.set.push(option.to_owned());
        });
        (ack.results[0].code, ack.results[0].text.clone())
    }

    fn set_run_limit(&mut self, seconds: u64) {
        let set = self.set("W", |job| job.spec.limits.run_s = Some(seconds));
        assert_eq!(set.0, Code::Ok, "{}", set.1);
    }

    fn set_rusage(&mut self, text: &str) -> (Code, String) {
        self.set("R", |job| job.spec.res_req = text.to_owned())
    }

    fn switch(&mut self, id: &str, queue: &str) -> (Code, String) {
        let (sel, queue) = (selector(&[id]), queue.to_owned());
        let ack = self.ask(5, vec![Verb::Switch { sel, queue }]);
        (ack.results[0].code, ack.results[0].text.clone())
    }

    /// Run limits that orders change, with the numbers of the changes.
    fn limits_of(orders: &[(String, Order)]) -> Vec<(String, Option<u64>, u32)> {
        let limit = |(host, order): &(String, Order)| match order {
            Order::Limits { limits, n, .. } => Some((host.clone(), limits.run_s, *n)),
            _ => None,
        };
        orders.iter().filter_map(limit).collect()
    }
}

/// Job 1 of user 5 runs on h1.
fn running(fill: impl FnOnce(&mut Submission)) -> TestLeader {
    let mut b = TestLeader::with(CONFIG);
    b.submit(5, fill);
    b.host_runs("h1", attempt(1, 1));
    b
}

#[test]
fn a_changed_run_limit_reaches_the_host_by_this_leader_and_by_the_next() {
    let mut b = running(|job| job.spec.limits.run_s = Some(600));
    b.set_run_limit(60);
    let order = |n, s| vec![("h1".to_owned(), Some(s), n)];
    assert_eq!(TestLeader::limits_of(&b.last.orders), order(1, 60));
    b.set_run_limit(60);
    assert_eq!(
        TestLeader::limits_of(&b.last.orders),
        [],
        "nothing has changed"
    );
    b.set_run_limit(120);
    assert_eq!(TestLeader::limits_of(&b.last.orders), order(2, 120));
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(contents(&restored), contents(&b.core.state));
    b.next_leader();
    let repeated = outstanding(&b.core, Some("h1"));
    assert_eq!(TestLeader::limits_of(&repeated), order(2, 120));
    let start = repeated.iter().find_map(|(_, order)| match order {
        Order::Start(start) => Some((start.limits.run_s, start.limit_changes)),
        _ => None,
    });
    assert_eq!(start, Some((Some(120), 2)));
}

#[test]
fn changed_limits_reach_all_hosts_of_a_job() {
    let mut b = TestLeader::with(CONFIG);
    b.submit(5, |job| {
        job.spec.min = 4;
        job.spec.limits.run_s = Some(600);
    });
    let order = |host: &str, s, n| (host.to_owned(), Some(s), n);
    // The order to start it will contain them.
    b.set_run_limit(60);
    assert_eq!(TestLeader::limits_of(&b.last.orders), [order("h2", 60, 1)]);
    b.part_ready("h2", attempt(1, 1));
    b.host_runs("h1", attempt(1, 1));
    b.set_run_limit(120);
    let both = [order("h1", 120, 2), order("h2", 120, 2)];
    assert_eq!(TestLeader::limits_of(&b.last.orders), both);
    b.next_leader();
    let repeated = outstanding(&b.core, Some("h2"));
    let part = repeated.iter().find_map(|(_, order)| match order {
        Order::Part { own, .. } => Some((own.limits.run_s, own.limit_changes)),
        _ => None,
    });
    assert_eq!(part, Some((Some(120), 2)));
}

#[test]
fn a_job_leaves_the_limits_that_a_queue_gave_it_behind_and_takes_its_own_along() {
    let moved = |own: Option<u64>| {
        let mut b = TestLeader::with(CONFIG);
        b.submit(5, |job| {
            (job.hold, job.spec.queue) = (true, "short".into());
            job.spec.limits.run_s = own;
        });
        let limit = |b: &TestLeader| b.core.state.spec_of(1).unwrap().limits.run_s;
        let before = limit(&b);
        let (code, text) = b.switch("1", "normal");
        assert_eq!(code, Code::Ok, "{text}");
        (before, limit(&b))
    };
    assert_eq!(moved(None), (Some(600), None));
    assert_eq!(moved(Some(60)), (Some(60), Some(60)));
}

#[test]
fn changes_of_a_pending_job_make_no_order() {
    let mut b = TestLeader::with(CONFIG);
    b.submit(5, |job| job.hold = true);
    b.set_run_limit(60);
    assert_eq!(TestLeader::limits_of(&b.last.orders), []);
    let resume = SignalAction::Resume;
    let sel = selector(&["1"]);
    b.ask(5, vec![Verb::Signal { sel, how: resume }]);
    let run = b.core.state.work(JobKey::job(1)).unwrap().run.as_ref();
    assert_eq!(run.unwrap().orders.limits, 0);
}

#[test]
fn what_cannot_change_of_a_started_job_is_refused_with_the_reason() {
    let mut b = running(|_| {});
    for (option, why) in [
        ("o", "its output files are open"),
        ("e", "its output files are open"),
        ("Z", "it only takes effect at the start"),
        ("n", "when and where a job starts"),
        ("F", "since they started"),
        ("G", "the group for which it started"),
    ] {
        let (code, text) = b.set(option, |job| job.command = "x".into());
        assert_eq!(code, Code::Refused, "-{option}");
        let begin = format!("-{option} cannot be changed, the job has started: ");
        assert!(text.starts_with(&begin) && text.contains(why), "{text}");
    }
    assert!(
        b.last
            .events
            .iter()
            .all(|e| !matches!(e, Event::Changed { .. }))
    );
}

#[test]
fn the_cpu_limit_of_a_running_job_is_lowered_and_never_raised() {
    let cpu = |b: &mut TestLeader, seconds: u64, on: &str| {
        b.set("c", |job| {
            job.spec.limits.cpu_s = Some(seconds);
            job.spec.cpu_on = on.to_owned();
        })
    };
    let mut b = running(|job| job.spec.limits.cpu_s = Some(600));
    assert_eq!(cpu(&mut b, 60, "").0, Code::Ok);
    let sent = b.last.orders.iter().find_map(|(host, order)| match order {
        Order::Limits { limits, n, .. } => Some((host.as_str(), limits.cpu_s, *n)),
        _ => None,
    });
    assert_eq!(sent, Some(("h1", Some(60), 1)));
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    let reset = |b: &mut TestLeader| {
        let ack = b.changed(5, "1", |changes| changes.reset.push("c".into()));
        (ack.results[0].code, ack.results[0].text.clone())
    };
    for (code, text) in [cpu(&mut b, 61, ""), cpu(&mut b, 30, "h2"), reset(&mut b)] {
        assert_eq!(code, Code::Refused, "{text}");
        assert!(text.contains("-c can only be lowered"), "{text}");
    }
    assert_eq!(b.core.state.spec_of(1).unwrap().limits.cpu_s, Some(60));
    let mut b = running(|_| {});
    assert_eq!(cpu(&mut b, 5, "h2").0, Code::Ok, "it had none");
}

#[test]
fn name_priority_memory_and_output_of_what_still_waits_change() {
    let mut b = running(|_| {});
    let named = b.set("J", |job| job.name = "new".into());
    assert_eq!(
        (named.0, b.core.state.job(1).unwrap().name()),
        (Code::Ok, "new")
    );
    let (code, text) = b.set("sp", |job| job.spec.priority = 7);
    assert!(code == Code::Ok && text.contains("started again"), "{text}");
    let (code, _) = b.set("retries", |job| job.spec.again.retries = Some(3));
    let spec = b.core.state.spec_of(1).unwrap();
    assert_eq!((code, spec.again.retries), (Code::Ok, Some(3)));
    let memory = b.set("M", |job| job.spec.limits.mem_b = Some(1 << 30));
    assert_eq!(memory.0, Code::Ok);
    assert_eq!(TestLeader::limits_of(&b.last.orders).len(), 1);
    b.submit(5, |job| job.hold = true);
    let ack = b.changed(5, "2", |changes| {
        changes.job.spec.stdout = "/tmp/new".into();
        changes.set.push("o".into());
    });
    assert_eq!(ack.results[0].code, Code::Ok);
}

#[test]
fn a_limit_is_changed_although_the_job_it_depended_on_is_forgotten() {
    let mut b = TestLeader::with(CONFIG);
    b.submit(5, |_| {});
    b.host_runs("h1", attempt(1, 1));
    b.submit(5, |job| job.spec.depend = "done(1)".into());
    b.end("h1", 1, 1, 0);
    b.host_runs("h1", attempt(2, 1));
    b.now += 200_000;
    b.turn(vec![]);
    assert!(b.core.state.job(1).is_none());
    let ack = b.changed(5, "2", |changes| {
        changes.job.spec.limits = Limits {
            run_s: Some(60),
            ..Limits::default()
        };
        changes.set.push("W".into());
    });
    assert_eq!(ack.results[0].code, Code::Ok, "{}", ack.results[0].text);
}

#[test]
fn reserved_amounts_of_a_running_job_change_within_what_its_host_has_left() {
    let mut b = running(|job| job.spec.res_req = "select[mem>=0] rusage[lic=1]".into());
    b.submit(5, |job| job.spec.res_req = "rusage[lic=2]".into());
    b.beat("h1");
    let left = |b: &mut TestLeader| {
        let core = &mut b.core;
        core.engine.sync(&mut core.state, &mut core.hosts);
        let lic = core.engine.resource("lic").unwrap();
        core.engine.free_amount(
            core.hosts.find_by_name("h1").unwrap().position as usize,
            lic,
        )
    };
    let both = b.core.state.work(JobKey::job(2)).unwrap().run.as_ref();
    let host = b.core.state.host_name(both.unwrap().hosts[0].0).to_string();
    let theirs = if host == "h1" { 2 } else { 0 };
    let (code, text) = b.set_rusage("rusage[lic=5]");
    assert_eq!(code, Code::Refused);
    assert!(
        text.contains("4 more of lic on host h1, which has"),
        "{text}"
    );
    assert_eq!(left(&mut b), (3 - theirs) * 1000, "nothing has changed");
    let (code, text) = b.set_rusage("rusage[lic=2]");
    assert!(
        code == Code::Ok && text.contains("the scheduler counts"),
        "{text}"
    );
    assert_eq!(left(&mut b), (2 - theirs) * 1000);
    let spec = b.core.state.spec_of(1).unwrap();
    assert_eq!(spec.res_req, "select[mem >= 0] rusage[lic=2]");
    let reset = b.changed(5, "1", |changes| changes.reset.push("R".into()));
    assert_eq!(reset.results[0].code, Code::Ok);
    assert_eq!(left(&mut b), (4 - theirs) * 1000);
    let (code, text) = b.set_rusage("select[mem>1] rusage[lic=1]");
    assert!(
        code == Code::Refused && text.contains("only rusage"),
        "{text}"
    );
}

#[test]
fn a_running_job_moves_to_a_queue_that_has_room_for_it() {
    let mut b = running(|_| {});
    for _ in 0..2 {
        b.submit(5, |job| job.spec.queue = "small".into());
    }
    let (code, text) = b.switch("1", "small");
    assert_eq!(code, Code::Refused);
    assert!(
        text.contains("2 of 2 slots in use (slots), the job needs 1"),
        "{text}"
    );
    b.ask(
        5,
        vec![Verb::Signal {
            sel: selector(&["2"]),
            how: SignalAction::Force,
        }],
    );
    let (code, text) = b.switch("1", "small");
    assert_eq!(code, Code::Ok, "{text}");
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    // Its slot now counts there: the queue is full again.
    b.submit(5, |job| job.spec.queue = "small".into());
    assert_eq!(b.stat(4), JobStat::Pend);
}

#[test]
fn the_limits_of_the_new_queue_hold_for_a_running_job() {
    let mut b = running(|_| {});
    let (code, text) = b.switch("1", "short");
    assert_eq!(code, Code::Ok, "{text}");
    let sent = TestLeader::limits_of(&b.last.orders);
    assert_eq!(sent, [("h1".to_owned(), Some(600), 1)]);
    let mut b = running(|job| job.spec.limits.run_s = Some(1200));
    let (code, text) = b.switch("1", "short");
    assert!(
        code == Code::Refused && text.contains("-W: 20 min exceeds 10 min"),
        "{text}"
    );
    let (code, text) = b.switch("1", "other");
    assert!(
        code == Code::Refused && text.contains("which queue other does not use"),
        "{text}"
    );
    let (code, text) = b.switch("1", "picky");
    assert_eq!(code, Code::Ok, "what that queue reserves is there: {text}");
    let mut b = running(|job| job.spec.res_req = "rusage[lic=3]".into());
    let (code, text) = b.switch("1", "small");
    assert!(code == Code::Refused && text.contains("lics"), "{text}");
}

#[test]
fn a_running_job_that_moves_to_a_rerunnable_queue_is_not_given_away() {
    let mut b = running(|_| {});
    assert_eq!(b.switch("1", "again").0, Code::Ok);
    b.next_leader();
    let doc = Box::new(b.core.inputs.loads["h1"].0.clone());
    let (host, silent_ms) = ("h1".to_owned(), 3_600_000);
    b.turn(vec![Input::Load {
        host,
        doc,
        silent_ms,
    }]);
    assert!(b.core.state.stat(JobKey::job(1)).unwrap().is_started());
}

#[test]
fn the_limit_of_a_running_array_changes() {
    let mut b = TestLeader::with(CONFIG);
    b.submit(5, |job| (job.array, job.array_limit) = ("1-4".into(), 1));
    let ack = b.changed(5, "1", |changes| {
        changes.job.array_limit = 3;
        changes.set.push("J".into());
    });
    assert_eq!(ack.results[0].code, Code::Ok, "{}", ack.results[0].text);
    assert_eq!(b.core.state.job(1).unwrap().array().unwrap().started(), 3);
    b.set_run_limit(60);
    assert_eq!(TestLeader::limits_of(&b.last.orders).len(), 3);
}
