//! Actions of the system on running jobs, in addition to those of their users.

use super::*;
use crate::model::{OomKill, Share, SuspReason, TermReason};
use crate::record::order::TaskUnits;
use crate::sched::plan_applier;
use crate::turn::context::Turn;

const NOW: Stamp = Stamp(2_000_000);

impl TestLeader {
    /// Calls a function as a part of a turn, and returns its orders.
    fn act(&mut self, what: impl FnOnce(&mut Turn<'_>)) -> Vec<Order> {
        let Now { wall: now, mono } = self.present();
        let mut turn = Turn {
            core: &mut self.core,
            now,
            mono,
            ready: Ready::default(),
            slice_end: u64::MAX,
        };
        what(&mut turn);
        let ready = turn.ready;
        self.events.extend(ready.events);
        ready.orders.into_iter().map(|(_, order)| order).collect()
    }

    fn running(&mut self) -> AttemptId {
        self.submit(5, |_| {});
        let a = attempt(1, 1);
        let t = self.now;
        self.report(
            "h1",
            vec![Report::Started {
                a,
                pid: 7,
                t,
                bind: None,
            }],
        );
        a
    }

    fn say(&mut self, a: AttemptId, on: bool) -> Vec<Act> {
        let t = self.now;
        let report = match on {
            true => Report::Suspended { a, t },
            false => Report::Resumed { a, t },
        };
        // Without a pass: the scheduler would have its own view of these stops.
        let record = ReportRecord {
            seq: 9,
            run: Default::default(),
            report,
        };
        acts(self.act(|turn| turn.reports("h1", 1, vec![record], false)))
    }

    fn user(&mut self, action: SignalAction) -> Vec<Act> {
        let who = Requester {
            uid: 5,
            user: "u5".into(),
            groups: Vec::new(),
        };
        let mut counts = crate::turn::job_verb::WorkCounts::default();
        let j = JobKey::job(1);
        acts(self.act(|turn| turn.signal_work(&who, j, action, &mut counts)))
    }

    /// As [`Self::user`], as a request of its own and with a pass; returns the answer.
    fn signals(&mut self, id: u32, how: SignalAction) -> String {
        let sel = selector(&[&id.to_string()]);
        let ack = self.ask(5, vec![Verb::Signal { sel, how }]);
        ack.results[0].text.clone()
    }

    fn orders(&self) -> Vec<Order> {
        self.last
            .orders
            .iter()
            .map(|(_, order)| order.clone())
            .collect()
    }

    fn repeated(&self) -> Vec<Act> {
        let orders = outstanding(&self.core, None);
        acts(orders.into_iter().map(|(_, order)| order).collect())
    }
}

fn acts(orders: Vec<Order>) -> Vec<Act> {
    let act = |order| match order {
        Order::Signal { act, .. } => Some(act),
        _ => None,
    };
    orders.into_iter().filter_map(act).collect()
}

/// A reason that is valid until the host's next sample.
fn loaded() -> SuspReason {
    SuspReason::Threshold {
        index: "r1m".into(),
        value: 2350,
        mark: 2000,
        host: "h1".into(),
    }
}

#[test]
fn a_halt_stops_once_and_is_shown_with_its_reason() {
    let mut b = TestLeader::new();
    let a = b.running();
    assert_eq!(
        acts(b.act(|t| plan_applier::suspend(t, a.j, loaded(), NOW))),
        [Act::Stop]
    );
    assert!(
        b.act(|t| plan_applier::suspend(t, a.j, loaded(), NOW))
            .is_empty()
    );
    assert_eq!(b.stat(1), JobStat::Run, "until the host says so");
    assert!(b.say(a, true).is_empty());
    assert_eq!(b.stat(1), JobStat::Ssusp);
    let run = b.core.state.work(a.j).unwrap().run.as_ref().unwrap();
    assert!(!run.lends_slots());
    let row = b.core.state.row(a.j).unwrap();
    assert_eq!(
        row.halt.unwrap().to_string(),
        "r1m is 2.35 on host h1, past the stop threshold 2"
    );
    assert_eq!(
        acts(b.act(|t| plan_applier::resume(t, a.j, NOW))),
        [Act::Resume]
    );
    b.say(a, false);
    assert_eq!(b.stat(1), JobStat::Run);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn users_and_the_system_stop_independently() {
    let mut b = TestLeader::new();
    let a = b.running();
    assert_eq!(b.user(SignalAction::Stop), [Act::Stop]);
    b.say(a, true);
    assert!(acts(b.act(|t| plan_applier::suspend(t, a.j, loaded(), NOW))).is_empty());
    assert_eq!(b.stat(1), JobStat::Ususp);
    assert!(b.user(SignalAction::Resume).is_empty(), "the halt stands");
    assert_eq!(b.stat(1), JobStat::Ssusp);
    assert!(b.user(SignalAction::Stop).is_empty());
    assert_eq!(b.stat(1), JobStat::Ususp);
    assert!(
        acts(b.act(|t| plan_applier::resume(t, a.j, NOW))).is_empty(),
        "the user's stop"
    );
    assert_eq!(b.stat(1), JobStat::Ususp);
    assert_eq!(b.user(SignalAction::Resume), [Act::Resume]);
    b.say(a, false);
    assert_eq!(b.stat(1), JobStat::Run);
}

/// Neither `cresume` nor SIGCONT by `ckill -s` gives a job a licence that another one has by now.
#[test]
fn a_job_that_released_something_continues_when_that_is_free() {
    for action in [SignalAction::Resume, SignalAction::Number(18)] {
        let config = CONFIG.replace(
            "{name: h1, slots: 2}",
            "{name: h1, slots: 2, resources: {lic: 2}}",
        );
        let config = format!("resources: [{{name: lic, release: yes}}]\n{config}");
        let mut b = TestLeader::with(&config);
        let asks = |s: &mut Submission| {
            s.spec.queue = "high".into();
            s.spec.res_req = "rusage[lic=2]".into();
        };
        b.submit(5, asks);
        let (a, t) = (attempt(1, 1), b.now);
        let (pid, bind) = (7, None);
        b.report("h1", vec![Report::Started { a, pid, t, bind }]);
        b.signals(1, SignalAction::Stop);
        b.report("h1", vec![Report::Suspended { a, t: b.now }]);
        b.submit(5, asks);
        assert_eq!(b.starts().len(), 1, "the licences are free");
        let answer = b.signals(1, action);
        assert_eq!(acts(b.orders()), [], "{action:?}: {answer}");
        assert_eq!(b.stat(1), JobStat::Ssusp);
        let shown = b.core.state.row(a.j).unwrap().halt.unwrap();
        assert_eq!(
            shown.to_string(),
            "waits for 2 of lic, which it released when it was stopped"
        );
        b.end("h1", 2, 1, 0);
        assert_eq!(acts(b.orders()), [Act::Resume], "{action:?}");
    }
}

#[test]
fn a_signal_to_continue_stays_one_for_a_job_that_was_not_stopped() {
    let mut b = TestLeader::new();
    b.running();
    assert_eq!(b.user(SignalAction::Number(18)), [Act::Number(18)]);
    b.user(SignalAction::Stop);
    assert_eq!(b.user(SignalAction::Number(18)), [Act::Resume]);
    assert_eq!(b.user(SignalAction::Number(18)), [Act::Number(18)]);
}

#[test]
fn no_stop_and_no_resume_is_lost_with_a_leader() {
    let mut b = TestLeader::new();
    let a = b.running();
    assert!(b.repeated().is_empty());
    b.act(|t| plan_applier::suspend(t, a.j, loaded(), NOW));
    assert_eq!(b.repeated(), [Act::Stop]);
    b.say(a, true);
    b.act(|t| plan_applier::resume(t, a.j, NOW));
    assert_eq!(b.repeated(), [Act::Resume]);
    // The host carried out an older order late: the current one is sent again.
    b.say(a, false);
    assert_eq!(b.say(a, true), [Act::Resume]);
}

#[test]
fn a_requeue_by_the_system_keeps_the_place_in_line() {
    let mut b = TestLeader::new();
    let a = b.running();
    let order = b.core.state.job(1).unwrap().order;
    let orders = b.act(|t| plan_applier::requeue(t, a.j, TermReason::Preempt, NOW));
    assert!(matches!(
        orders[..],
        [Order::Signal {
            act: Act::Terminate,
            reason: TermReason::Preempt,
            ..
        }]
    ));
    b.act(|t| plan_applier::suspend(t, a.j, loaded(), NOW));
    let e = Ended {
        a,
        t: b.now,
        sig: 15,
        reason: TermReason::Preempt,
        ..Ended::default()
    };
    b.core.state.apply(&Event::Host {
        name: "h1".into(),
        act: crate::record::request::HostAct::Close,
        by: String::new(),
        comment: String::new(),
        t: Stamp(0),
    });
    b.report("h1", vec![Report::Ended(Box::new(e))]);
    let job = b.core.state.job(1).unwrap();
    assert_eq!(job.order, order);
    assert_eq!(b.core.state.work(a.j).unwrap().attempt, 2, "started anew");
}

#[test]
fn limits_stated_for_a_host_scale_with_its_speed() {
    let mut b = TestLeader::new();
    let mut config = (*b.core.config).clone();
    for entry in &mut config.hosts.entries {
        entry.cpuf = if entry.name == "h1" { 4.0 } else { 2.0 };
    }
    b.core.config = Arc::new(config);
    b.submit(5, |j| {
        j.spec.limits.run_s = Some(600);
        j.spec.limits.cpu_s = Some(600);
        j.spec.run_on = "h2".into();
    });
    let (_, order) = outstanding(&b.core, None).pop().unwrap();
    let Order::Start(start) = order else {
        panic!("not a start");
    };
    let limits = start.limits;
    assert_eq!((limits.run_s, limits.cpu_s), (Some(300), Some(600)));
    let refused = b.submit(5, |j| {
        j.spec.limits.run_s = Some(600);
        j.spec.run_on = "nowhere".into();
    });
    assert!(refused.results[0].text.contains("nowhere"));
    let refused = b.submit(5, |j| j.spec.user_group = "strangers".into());
    assert!(refused.results[0].text.contains("no user group"));
}

#[test]
fn a_resize_adds_hosts_and_is_told_until_the_end() {
    let mut b = TestLeader::new();
    let a = b.running();
    let more = || vec![Share("h1".into(), 1), Share("h2".into(), 1)];
    let orders = b.act(|t| plan_applier::grow(t, a.j, (more(), Vec::new()), NOW));
    let all = vec![Share("h1".into(), 2), Share("h2".into(), 1)];
    let expect = Order::Resize {
        a,
        hosts: all,
        n: 1,
        units: TaskUnits::default(),
    };
    assert_eq!(orders, std::slice::from_ref(&expect));
    let anew = outstanding(&b.core, None);
    assert!(anew.iter().any(|(h, o)| h == "h1" && *o == expect));
    assert_eq!(b.core.state.used().queue("normal").run, 3);
    assert_eq!(b.core.state.check(), Vec::<String>::new());
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

/// The job is still there: it can be killed, shown as unknown and ended as lost like any other.
#[test]
fn a_host_that_left_the_configuration_is_judged_until_its_work_has_ended() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.submit(5, |j| j.spec.hosts = "h2".into());
    assert_eq!(b.starts(), [("h2".to_string(), "2.1".to_string())]);
    let config = super::CONFIG.replace("- {name: h2, slots: 2}\n", "");
    let loaded = crate::config::load(config.as_bytes(), "cb.yaml", &crate::config::OsNames::ANY);
    b.turn(vec![Input::Config(Arc::new(loaded.unwrap().config))]);
    let repeated = crate::turn::outstanding(&b.core, Some("h2"));
    let start = |(_, order): &(String, Order)| matches!(order, Order::Start(_));
    assert!(repeated.iter().any(start), "{repeated:?}");
    let doc = b.core.inputs.loads["h2"].0.clone();
    let host = String::from("h2");
    let (doc, silent_ms) = (Box::new(doc), SILENT_MS);
    b.turn(vec![Input::Load {
        host,
        doc,
        silent_ms,
    }]);
    assert!(!b.core.state.host_ctl("h2").up);
    let cancel =
        |(to, order): &(String, Order)| to == "h2" && matches!(order, Order::Cancel { .. });
    assert!(b.last.orders.iter().any(cancel), "{:?}", b.last.orders);
}

#[test]
fn ids_are_answered_once_each_and_selections_are_few() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.array = "1-3".into());
    let kill = |ids: &[&str]| Verb::Signal {
        sel: selector(ids),
        how: SignalAction::Kill,
    };
    let ack = b.ask(5, vec![kill(&["1[1-2]", "1[2]", "1[9]", "7[1-900]"])]);
    let output: Vec<(&str, Code)> = ack
        .results
        .iter()
        .map(|r| (r.what.as_str(), r.code))
        .collect();
    let missing = Code::NotFound;
    assert_eq!(
        output,
        [
            ("1[1]", Code::Ok),
            ("1[2]", Code::Ok),
            ("1[9]", missing),
            ("7[1-900]", missing),
        ]
    );
    let ack = b.ask(5, vec![kill(&["1[1]"]); 101]);
    assert!(!ack.ok && ack.results.is_empty());
    assert!(ack.error.contains("100 selections"), "{}", ack.error);
}

/// Jobs of `sbatch` get TERM and KILL, with Slurm's wait; a queue and a job say what a kill for lack
/// of memory means.
#[test]
fn the_end_of_a_job_is_ordered_as_its_submitter_and_its_queue_expect() {
    let queues = "queues:\n- {name: strict}\n- {name: lax, oom_kill: ignore}\n\
        general: {default_queue: strict, job_terminate_interval: 7, kill_wait: 40}\n\
        cluster: {name: demo, administrators: [root]}\nhosts:\n- {name: h1, slots: 9}\n";
    let mut b = TestLeader::with(queues);
    let ignore = Some(OomKill::Ignore);
    let wanted = [
        ("strict", None, false, None, 7_000),
        ("lax", None, true, ignore, 40_000),
        ("lax", Some(OomKill::Fail), false, None, 7_000),
        ("strict", ignore, true, ignore, 40_000),
    ];
    for (queue, oom_kill, sbatch, oom, grace) in wanted {
        b.submit(5, |j| {
            j.spec.queue = queue.into();
            j.spec.limits.oom_kill = oom_kill;
            j.spec.slurm = sbatch.then(Box::default);
        });
        let starts = b.last.orders.iter().filter_map(|(_, order)| match order {
            Order::Start(o) => Some((o.limits.oom_kill, o.grace_ms)),
            _ => None,
        });
        assert_eq!(starts.collect::<Vec<_>>(), [(oom, grace)]);
    }
    let sel = selector(&["1", "2"]);
    let how = SignalAction::Kill;
    b.ask(5, vec![Verb::Signal { sel, how }]);
    let ordered = |all: &[(String, Order)]| -> Vec<u64> {
        let all = all.iter().filter_map(|(_, order)| match order {
            Order::Signal { grace_ms, .. } => Some(*grace_ms),
            _ => None,
        });
        all.collect()
    };
    assert_eq!(ordered(&b.last.orders), [7_000, 40_000]);
    let mut again = ordered(&outstanding(&b.core, None));
    again.sort_unstable();
    assert_eq!(again, [7_000, 40_000], "a later leader says the same");
}

#[test]
fn a_job_that_is_being_stopped_is_found_by_name_to_be_resumed() {
    for array in ["", "1-3"] {
        let mut b = TestLeader::new();
        b.submit(5, |j| {
            j.name = "nap".into();
            j.array = array.into();
        });
        let by_name = |how| {
            let sel = Selector {
                name: "nap".into(),
                ..Selector::default()
            };
            vec![Verb::Signal { sel, how }]
        };
        assert!(b.ask(5, by_name(SignalAction::Stop)).results[0].code == Code::Ok);
        // No host has reported the stop.
        let ack = b.ask(5, by_name(SignalAction::Resume));
        assert_eq!(ack.results[0].code, Code::Ok, "{array}: {:?}", ack.results);
        let again = b.ask(5, by_name(SignalAction::Resume));
        assert_eq!(
            again.results[0].code,
            Code::NotFound,
            "{array}: nothing is stopped"
        );
    }
}

#[test]
fn a_signal_to_waiting_elements_leaves_the_started_ones_alone() {
    let mut b = TestLeader::new();
    b.submit(5, |j| {
        j.array = "1-6".into();
        j.array_limit = 2;
    });
    let mut ask = |states: &[StateGroup], ids: &[&str], how| {
        let sel = Selector {
            states: states.to_vec(),
            ..selector(ids)
        };
        let ack = b.ask(5, vec![Verb::Signal { sel, how }]);
        let array = b.core.state.job(1).unwrap().array().unwrap();
        let stopped = array
            .work
            .values()
            .filter(|w| w.run.as_deref().is_some_and(|run| run.user_stop.wanted));
        (ack.results[0].code, array.head, stopped.count())
    };
    let (stop, resume) = (SignalAction::Stop, SignalAction::Resume);
    let waiting = [StateGroup::Waiting];
    assert_eq!(ask(&waiting, &["1"], stop), (Code::Ok, JobStat::Psusp, 0));
    assert_eq!(ask(&waiting, &["1"], resume), (Code::Ok, JobStat::Pend, 0));
    assert_eq!(ask(&waiting, &["1[1]"], stop).0, Code::Refused);
    let started = [StateGroup::Started];
    assert_eq!(ask(&started, &["1"], stop), (Code::Ok, JobStat::Pend, 2));
    assert_eq!(ask(&waiting, &["1"], resume), (Code::Ok, JobStat::Pend, 2));
}

/// A host reports only the end of a task that starts and ends at once.
#[test]
fn what_ended_at_once_has_started_too() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    let mut e = Ended {
        a: attempt(1, 1),
        start: b.now,
        t: b.now,
        pid: 77,
        code: Some(0),
        ..Ended::default()
    };
    b.report("h1", vec![Report::Ended(Box::new(e.clone()))]);
    let started = |event: &&Event| matches!(event, Event::Started { .. });
    let all: Vec<&Event> = b.last.events.iter().filter(started).collect();
    let [Event::Started { a, pid: 77, t, .. }] = all[..] else {
        panic!("{all:?}");
    };
    assert_eq!((*a, *t), (e.a, Stamp(e.start)));
    let ended = b.last.events.last();
    assert!(matches!(ended, Some(Event::Ended { e, .. }) if e.pid == 0));

    // Its start was reported, or it never ran: nothing is added.
    b.submit(5, |_| {});
    b.host_runs("h1", attempt(2, 1));
    b.end("h1", 2, 1, 0);
    assert_eq!(b.last.events.iter().filter(started).count(), 0);
    b.submit(5, |_| {});
    (e.a, e.reason) = (attempt(3, 1), TermReason::StartFailed);
    b.report("h1", vec![Report::Ended(Box::new(e))]);
    assert_eq!(b.last.events.iter().filter(started).count(), 0);
}
