//! Attempts on several hosts: all parts are ready before the command starts, or none is held.

use super::*;
use crate::model::{Binding, CpuSet, PartBinding, TermReason};
use crate::record::report::{CommandEnd, Usage};

const A: AttemptId = AttemptId {
    j: JobKey { id: 1, idx: 0 },
    at: 1,
};

/// A job with all four slots on two hosts, the first of them h1.
fn wide() -> TestLeader {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.min = 4);
    b
}

impl TestLeader {
    fn ordered(&self, host: &str) -> Vec<&Order> {
        let orders = self.last.orders.iter().filter(|(h, _)| h == host);
        let acks = |o: &&Order| !matches!(o, Order::Ack { .. });
        orders.map(|(_, order)| order).filter(acks).collect()
    }

    fn ready(&mut self, at: u32) {
        self.part_ready("h2", AttemptId { at, ..A });
    }

    fn why(&self) -> String {
        let why = self.core.state.job(1).unwrap().own_reason(0).cloned();
        why.map_or(String::new(), |why| why.to_string())
    }

    fn silent(&mut self, host: &str) {
        let doc = Box::new(self.core.inputs.loads[host].0.clone());
        let (host, silent_ms) = (host.to_owned(), SILENT_MS + 1);
        self.turn(vec![Input::Load {
            host,
            doc,
            silent_ms,
        }]);
    }
}

#[test]
fn the_command_starts_when_every_host_is_ready() {
    let mut b = wide();
    assert!(b.ordered("h1").is_empty());
    let part = Order::Part {
        a: A,
        s: 1,
        first: "h1".into(),
        slots: 2,
        mark: b.core.state.mark(A.j),
        own: Box::default(),
    };
    assert_eq!(b.ordered("h2"), [&part]);
    b.ready(7);
    let end = Order::PartEnd {
        a: AttemptId { at: 7, ..A },
    };
    assert_eq!(b.ordered("h2"), [&end], "not an attempt of now");
    b.ready(1);
    assert!(matches!(b.ordered("h1")[..], [Order::Start(_)]));
    b.ready(1);
    assert!(b.ordered("h1").is_empty(), "once");
    b.end("h1", 1, 1, 0);
    assert_eq!(b.ordered("h2"), [&Order::PartEnd { a: A }]);
    assert_eq!(b.stat(1), JobStat::Done);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_new_leader_asks_again_and_gives_no_start_before() {
    let mut b = wide();
    let orders = outstanding(&b.core, None);
    assert!(matches!(&orders[..], [(h, Order::Part { .. })] if h == "h2"));
    b.ready(1);
    let orders = outstanding(&b.core, None);
    let starts = orders
        .iter()
        .filter(|(h, o)| h == "h1" && matches!(o, Order::Start(_)));
    assert_eq!((orders.len(), starts.count()), (2, 1));
}

#[test]
fn a_host_that_cannot_prepare_undoes_all_and_the_job_pauses() {
    let mut b = wide();
    let why = "there is no directory /x on this host".to_owned();
    b.report("h2", vec![Report::Never { a: A, why }]);
    assert_eq!(b.ordered("h2"), [&Order::PartEnd { a: A }]);
    assert!(b.ordered("h1").is_empty());
    assert_eq!(b.stat(1), JobStat::Pend);
    assert_eq!(
        b.why(),
        "host h2 did not start it: there is no directory /x on this host"
    );
    assert_eq!(b.core.state.used().queue("normal").total(), 0);
    b.submit(5, |_| {});
    assert_eq!(b.starts().len(), 1, "others start meanwhile");
    b.end("h1", 2, 1, 0);
    assert_eq!(b.stat(1), JobStat::Pend);
    b.now += 1000;
    b.turn(Vec::new());
    assert_eq!(b.core.state.work(A.j).unwrap().attempt, 2);
    b.ready(2);
    assert!(matches!(b.ordered("h1")[..], [Order::Start(_)]));
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn silence_or_slowness_before_the_start_undoes_all() {
    let mut b = wide();
    b.silent("h2");
    assert_eq!(b.stat(1), JobStat::Pend);
    assert!(b.why().contains("h2 did not start it: does not answer"));
    b.beat("h2");
    b.now += 1000;
    b.turn(Vec::new());
    assert_eq!(b.core.state.work(A.j).unwrap().attempt, 2);
    b.now += 31_000;
    b.turn(Vec::new());
    assert_eq!(b.stat(1), JobStat::Pend);
    assert!(b.why().contains("not prepared in time"), "{}", b.why());
}

#[test]
fn a_kill_before_the_start_needs_no_host() {
    let mut b = wide();
    let sel = || selector(&["1"]);
    let how = SignalAction::Stop;
    b.ask(5, vec![Verb::Signal { sel: sel(), how }]);
    assert!(b.ordered("h1").is_empty());
    let how = SignalAction::Kill;
    b.ask(5, vec![Verb::Signal { sel: sel(), how }]);
    assert_eq!(b.stat(1), JobStat::Exit);
    let run = b.core.state.work(A.j).unwrap().run.clone().unwrap();
    assert_eq!(run.end.unwrap().reason, TermReason::Owner);
    assert_eq!(b.ordered("h2"), [&Order::PartEnd { a: A }]);
}

#[test]
fn a_restart_of_a_later_host_ends_the_job() {
    let mut b = wide();
    b.host_boots("h2", "b1");
    b.ready(1);
    b.host_runs("h1", A);
    b.host_boots("h2", "b1");
    assert!(
        b.ordered("h1").is_empty(),
        "the executor was started anew, not the host"
    );
    b.host_boots("h2", "b2");
    let kill = b.ordered("h1");
    assert!(
        matches!(
            kill[..],
            [Order::Signal {
                act: Act::Terminate,
                reason: TermReason::HostLost,
                ..
            }]
        ),
        "{kill:?}"
    );
}

/// Stopping the command on the first host, and what it started on the others, stops the job: its
/// slots on all hosts go to the other job.
#[test]
fn preempted_work_on_two_hosts_lends_the_slots_of_both() {
    let mut b = TestLeader::new();
    let wide = |queue: &str| {
        let queue = queue.to_owned();
        move |j: &mut Submission| (j.spec.queue, j.spec.min) = (queue, 4)
    };
    b.submit(5, wide("again"));
    b.ready(1);
    b.host_runs("h1", A);
    b.submit(5, wide("urgent"));
    let stop = b.ordered("h1");
    assert!(
        matches!(stop[..], [Order::Signal { act: Act::Stop, a, .. }] if *a == A),
        "{stop:?}"
    );
    let urgent = attempt(2, 1);
    let part = Order::Part {
        a: urgent,
        s: 2,
        first: "h1".into(),
        slots: 2,
        mark: b.core.state.mark(urgent.j),
        own: Box::default(),
    };
    let there = b.ordered("h2");
    let stops = |o: &&&Order| matches!(o, Order::Signal { act: Act::Stop, a, .. } if *a == A);
    assert_eq!(
        there.iter().filter(stops).count(),
        1,
        "what job 1 started there"
    );
    assert!(there.contains(&&part) && there.len() == 2, "{there:?}");
    b.part_ready("h2", urgent);
    assert_eq!(b.starts(), [("h1".to_owned(), "2.1".to_owned())]);
}

/// When the command has ended, the hosts after the first get orders that end their parts.
#[test]
fn requeued_work_gives_back_its_parts_on_all_hosts() {
    let config = super::CONFIG.replace("preempt: again", "preempt: again, method: requeue");
    let mut b = TestLeader::with(&config);
    b.submit(5, |j| (j.spec.queue, j.spec.min) = ("again".into(), 4));
    b.ready(1);
    let t = b.now;
    b.host_runs("h1", A);
    b.submit(5, |j| j.spec.queue = "urgent".into());
    let end = b.ordered("h1");
    assert!(
        matches!(end[..], [Order::Signal { act: Act::Terminate, a, .. }] if *a == A),
        "{end:?}"
    );
    assert!(b.ordered("h2").is_empty() && b.starts().is_empty());
    let e = crate::record::report::Ended {
        a: A,
        start: t,
        t: b.now,
        sig: 15,
        reason: TermReason::Preempt,
        ..crate::record::report::Ended::default()
    };
    b.report("h1", vec![Report::Ended(Box::new(e))]);
    assert_eq!(b.ordered("h2"), [&Order::PartEnd { a: A }]);
    assert_eq!((b.starts().len(), b.stat(1)), (1, JobStat::Pend));
}

#[test]
fn what_had_succeeded_before_its_host_was_found_lost_is_not_run_again() {
    for (code, attempt) in [(0, 1), (1, 2)] {
        let mut b = TestLeader::new();
        b.submit(5, |j| (j.spec.min, j.spec.rerunnable) = (4, true));
        b.ready(1);
        b.host_runs("h1", A);
        b.host_boots("h2", "b1");
        b.host_boots("h2", "b2");
        b.end("h1", 1, 1, code);
        assert_eq!(
            b.core.state.work(A.j).unwrap().attempt,
            attempt,
            "exit code {code}"
        );
        assert_eq!(b.stat(1) == JobStat::Done, code == 0);
        assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    }
}

#[test]
fn a_start_whose_specification_a_later_request_replaces_names_the_new_one() {
    let mut b = wide();
    let ready = Input::Reports {
        host: "h2".into(),
        part: 1,
        reports: vec![crate::record::report::ReportRecord {
            seq: 1,
            run: Default::default(),
            report: Report::PartReady { a: A, bind: None },
        }],
        more: false,
    };
    let old = b.core.state.job(1).unwrap().spec;
    let mut changes = crate::record::request::Changes::default();
    changes.job.spec.rerunnable = true;
    changes.set.push("r".into());
    let sel = selector(&["1"]);
    let requester = Requester {
        uid: 5,
        user: "u5".into(),
        groups: Vec::new(),
    };
    let request = RequestIn {
        others: Vec::new(),
        requester,
        head: RequestHead {
            token: Token(900),
            ..RequestHead::default()
        },
        verbs: vec![Verb::Modify {
            sel,
            changes: Box::new(changes),
        }],
        config: None,
        location: 0,
    };
    b.turn(vec![ready, Input::Request(Box::new(request))]);
    let now = b.core.state.job(1).unwrap().spec;
    let Some(Order::Start(start)) = b.ordered("h1").into_iter().next() else {
        panic!("{:?}", b.last.orders);
    };
    assert!(b.core.state.specs.contains_key(&start.s), "{old} {now}");
}

#[test]
fn a_part_of_an_earlier_run_by_the_same_name_is_not_taken_for_this_one() {
    let mut b = wide();
    let mark = b.core.state.mark(A.j);
    // It belongs to a run from before the share was restored from a copy.
    b.report_marked("h2", mark ^ 1, vec![Report::PartReady { a: A, bind: None }]);
    assert!(b.ordered("h1").is_empty(), "{:?}", b.ordered("h1"));
    assert!(b.ordered("h2").is_empty(), "its host prepares the new one");
    b.report_marked("h2", mark, vec![Report::PartReady { a: A, bind: None }]);
    assert!(matches!(b.ordered("h1")[..], [Order::Start(_)]));
}

/// The usage of a job is the sum of what its hosts report, in any order, and its end contains all
/// of it.
#[test]
fn the_usage_of_all_hosts_is_the_jobs() {
    let mut b = wide();
    b.ready(1);
    b.host_runs("h1", A);
    let used = |cpu_ms| Usage {
        cpu_ms,
        procs: 1,
        ..Usage::default()
    };
    let sum = |b: &TestLeader| {
        let run = b.core.state.work(A.j).unwrap().run.as_deref().unwrap();
        (run.usage().cpu_ms, run.usage().procs)
    };
    b.report("h2", vec![Report::PartUsage { a: A, u: used(5) }]);
    assert_eq!(sum(&b), (5, 1));
    b.report("h1", vec![Report::Usage { a: A, u: used(100) }]);
    assert_eq!(sum(&b), (105, 2));
    b.report("h2", vec![Report::PartUsage { a: A, u: used(7) }]);
    assert_eq!(sum(&b), (107, 2));
    // From another attempt, and from a host that the job does not have.
    let other = AttemptId { at: 9, ..A };
    b.report(
        "h2",
        vec![Report::PartUsage {
            a: other,
            u: used(50),
        }],
    );
    assert_eq!(sum(&b), (107, 2));
    let end = crate::record::report::Ended {
        a: A,
        start: b.now,
        t: b.now,
        code: Some(0),
        u: used(110),
        ..crate::record::report::Ended::default()
    };
    b.report("h1", vec![Report::Ended(Box::new(end))]);
    let run = b.core.state.work(A.j).unwrap().run.as_deref();
    assert_eq!(run.unwrap().usage().cpu_ms, 117);
    // It is late: it has no effect, in particular it causes no order to kill.
    b.report("h2", vec![Report::PartUsage { a: A, u: used(9) }]);
    assert!(!b.core.memory.stray_runs.any_on("h2"));
}

/// A suspended job is suspended on all its hosts, also by a later leader.
#[test]
fn what_a_job_started_on_other_hosts_stops_and_goes_on_with_it() {
    let mut b = wide();
    b.ready(1);
    b.host_runs("h1", A);
    let signal = |b: &mut TestLeader, how| {
        let sel = selector(&["1"]);
        b.ask(5, vec![Verb::Signal { sel, how }]);
        let there = b.ordered("h2");
        there.into_iter().find_map(|o| match o {
            Order::Signal { act, n, .. } => Some((*act, *n)),
            _ => None,
        })
    };
    assert_eq!(signal(&mut b, SignalAction::Stop), Some((Act::Stop, 1)));
    let again = outstanding(&b.core, Some("h2"));
    let stop = |(_, o): &(String, Order)| {
        matches!(
            o,
            Order::Signal {
                act: Act::Stop,
                n: 1,
                ..
            }
        )
    };
    assert!(again.iter().any(stop), "{again:?}");
    assert_eq!(signal(&mut b, SignalAction::Resume), Some((Act::Resume, 2)));
    assert_eq!(
        signal(&mut b, SignalAction::Kill),
        None,
        "the end of the part ends it"
    );
}

/// The binding of a part is shown for its host, also by the next leader.
#[test]
fn the_cores_of_every_host_are_known() {
    let mut b = wide();
    let bound = |cpus: &str| Binding {
        cpus: CpuSet::parse(cpus).unwrap(),
        ..Binding::default()
    };
    let ready = |b: &mut TestLeader, at, cpus: &str| {
        let bind = Some(Box::new(bound(cpus)));
        let a = AttemptId { at, ..A };
        b.report("h2", vec![Report::PartReady { a, bind }]);
        let events = b.last.events.iter();
        events
            .filter(|e| matches!(e, Event::PartBound { .. }))
            .count()
    };
    assert_eq!(ready(&mut b, 7, "0-1"), 0, "not an attempt of now");
    assert_eq!(ready(&mut b, 1, "2-3"), 1);
    // The first host lists the processors of all slots for the job.
    let part_binds = b.last.orders.iter().find_map(|(_, order)| match order {
        Order::Start(start) => Some(start.part_binds.clone()),
        _ => None,
    });
    assert_eq!(part_binds.unwrap()[0].bind, bound("2-3"));
    assert_eq!(ready(&mut b, 1, "2-3"), 0, "it is known");
    b.host_runs("h1", A);
    // Its executor was restarted before anything ran there.
    assert_eq!(ready(&mut b, 1, "4-5"), 1);
    let of = |state: &State| {
        state
            .work(A.j)
            .unwrap()
            .run
            .as_ref()
            .unwrap()
            .part_binds()
            .to_vec()
    };
    let bind = bound("4-5");
    let host = "h2".to_owned();
    assert_eq!(of(&b.core.state), [PartBinding { host, bind }]);
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(of(&restored), of(&b.core.state));
    assert_eq!(of(&b.replayed()), of(&b.core.state));
    b.end("h1", 1, 1, 0);
    assert_eq!(ready(&mut b, 1, "6-7"), 0, "it is over");
    assert_eq!(of(&b.core.state), of(&restored));
}

/// An end of attempt `at` with 100 ms of CPU on h1.
fn end_of(b: &TestLeader, at: u32) -> Report {
    let u = Usage {
        cpu_ms: 100,
        ..Usage::default()
    };
    Report::Ended(Box::new(crate::record::report::Ended {
        a: AttemptId { at, ..A },
        start: b.now,
        t: b.now,
        code: Some(0),
        u,
        ..crate::record::report::Ended::default()
    }))
}

/// A host reports what the attempt has used there. Returns the number of resulting events, and the
/// job's usage.
fn say(b: &mut TestLeader, host: &str, at: u32, cpu_ms: u64) -> (usize, u64) {
    let u = Usage {
        cpu_ms,
        mem_kb: 1,
        ..Usage::default()
    };
    let a = AttemptId { at, ..A };
    b.report(host, vec![Report::PartUsage { a, u }]);
    let events = b.last.events.iter();
    let late = events.filter(|e| matches!(e, Event::PartUsed { .. }));
    let run = b.core.state.work(A.j).unwrap().run.as_deref().unwrap();
    (late.count(), run.usage().cpu_ms)
}

#[test]
fn what_other_hosts_say_after_the_end_counts_once() {
    let mut b = wide();
    b.ready(1);
    b.host_runs("h1", A);
    assert_eq!(say(&mut b, "h2", 1, 5), (0, 5));
    let end = end_of(&b, 1);
    b.report("h1", vec![end]);
    assert_eq!(say(&mut b, "h2", 1, 5), (0, 105), "the end has it");
    assert_eq!(say(&mut b, "h2", 1, 9), (1, 109));
    assert_eq!(say(&mut b, "h2", 1, 9), (0, 109), "reports are read again");
    assert_eq!(say(&mut b, "h2", 1, 7), (0, 109));
    assert_eq!(say(&mut b, "h1", 1, 999), (0, 109), "its end had all of it");
    assert_eq!(say(&mut b, "h2", 2, 999), (0, 109), "of no attempt");
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(contents(&restored), contents(&b.core.state));
    b.next_leader();
    assert_eq!(say(&mut b, "h2", 1, 9), (0, 109), "the next leader");
    assert_eq!(say(&mut b, "h2", 1, 12), (1, 112));
    // Nothing of it remains to be counted once the job runs again.
    let (sel, hold, states) = (selector(&["1"]), false, vec!["done".to_owned()]);
    b.ask(5, vec![Verb::Requeue { sel, hold, states }]);
    b.ready(2);
    let run = b.core.state.work(A.j).unwrap();
    assert_eq!(run.attempt, 2, "it was started again");
    assert_eq!(say(&mut b, "h2", 1, 50), (0, 0), "of the attempt before");
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

/// A command of the job on another host ran out of memory and the job succeeded all the same: both
/// reports are in one turn, the end of the job first.
#[test]
fn what_a_limit_ended_on_another_host_fails_the_job() {
    for (reason, code, wanted) in [
        (TermReason::MemLimit, Some(0), JobStat::Exit),
        (TermReason::Units, Some(3), JobStat::Exit),
        (TermReason::None, Some(0), JobStat::Done),
    ] {
        let mut b = wide();
        b.ready(1);
        b.host_runs("h1", A);
        let limited = reason != TermReason::None;
        let command_end = limited.then(|| {
            let host = "h2".to_owned();
            Box::new(CommandEnd { host, reason })
        });
        let u = Usage {
            cpu_ms: 5,
            command_end,
            ..Usage::default()
        };
        let end = Ended {
            a: A,
            start: b.now,
            t: b.now,
            code,
            ..Ended::default()
        };
        let inputs = [
            ("h1", Report::Ended(Box::new(end))),
            ("h2", Report::PartUsage { a: A, u }),
        ];
        let inputs = inputs.map(|(host, report)| Input::Reports {
            host: host.into(),
            part: 1,
            reports: vec![ReportRecord {
                seq: 90,
                run: RunId::marked(b.core.state.mark(A.j)),
                report,
            }],
            more: false,
        });
        b.turn(inputs.into());
        let run = b.core.state.work(A.j).unwrap().run.as_deref().unwrap();
        let end = run.end.as_deref().unwrap();
        assert_eq!((b.stat(1), end.reason, end.code), (wanted, reason, code));
        assert_eq!(end.oom, reason == TermReason::MemLimit);
        assert_eq!(end.text.contains("on host h2"), limited, "{}", end.text);
        assert_eq!(run.usage().cpu_ms, 5);
        assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    }
}

/// A leader without reports from hosts has the sum of the previous leader.
#[test]
fn an_end_by_force_counts_nothing_twice() {
    for heard in [false, true] {
        let mut b = wide();
        b.ready(1);
        b.host_runs("h1", A);
        say(&mut b, "h2", 1, 5);
        if !heard {
            let mut state = State::new();
            b.core.state.snapshot().for_each(|r| state.restore(r));
            let loads = std::mem::take(&mut b.core.inputs.loads);
            b.core = Core::new(state, b.core.config.clone(), 1000);
            b.core.inputs.loads = loads;
            b.turn(vec![Input::Config(b.core.config.clone())]);
        }
        let (sel, how) = (selector(&["1"]), SignalAction::Force);
        b.ask(5, vec![Verb::Signal { sel, how }]);
        assert_eq!(b.stat(1), JobStat::Exit);
        assert_eq!(say(&mut b, "h2", 1, 5), (0, 5), "{heard}");
        assert_eq!(say(&mut b, "h2", 1, 8), (1, 8), "{heard}");
    }
}

/// Nothing of it runs anywhere, so there is nothing to end.
#[test]
fn a_restart_of_a_host_kills_no_job_whose_parts_are_being_prepared() {
    for rerunnable in [false, true] {
        let mut b = TestLeader::new();
        b.submit(5, |j| (j.spec.min, j.spec.rerunnable) = (4, rerunnable));
        b.host_boots("h2", "b1");
        b.host_boots("h2", "b2");
        let run = b.core.state.work(A.j).unwrap().run.clone().unwrap();
        assert_eq!((b.stat(1), run.killing), (JobStat::Run, None));
        assert!(b.ordered("h1").is_empty());
        // The host reads its orders again.
        b.ready(1);
        assert!(matches!(b.ordered("h1")[..], [Order::Start(_)]));
    }
}

#[test]
fn the_first_report_of_a_host_is_no_restart() {
    let mut b = wide();
    b.ready(1);
    b.host_runs("h1", A);
    b.host_boots("h2", "b1");
    assert!(b.ordered("h1").is_empty());
    let run = b.core.state.work(A.j).unwrap().run.clone().unwrap();
    assert_eq!((b.stat(1), run.killing), (JobStat::Run, None));
}

#[test]
fn a_stop_during_the_preparation_reaches_every_host_with_the_start() {
    let mut b = wide();
    let (sel, how) = (selector(&["1"]), SignalAction::Stop);
    b.ask(5, vec![Verb::Signal { sel, how }]);
    assert!(b.ordered("h1").is_empty() && b.ordered("h2").is_empty());
    b.ready(1);
    let stop = |order: &&Order| matches!(order, Order::Signal { act: Act::Stop, .. });
    for host in ["h1", "h2"] {
        let orders = b.ordered(host);
        assert!(orders.iter().any(stop), "{host}: {orders:?}");
    }
}

#[test]
fn only_hosts_with_a_part_count_as_ready() {
    let mut b = wide();
    b.part_ready("h1", A);
    assert_eq!(b.ordered("h1"), [&Order::PartEnd { a: A }]);
    b.ready(1);
    assert!(matches!(b.ordered("h1")[..], [Order::Start(_)]));
}

#[test]
fn a_pause_that_is_over_does_not_start_a_job_of_which_an_unknown_run_lives() {
    let mut b = wide();
    let why = "there is no directory /x on this host".to_owned();
    b.report("h2", vec![Report::Never { a: A, why }]);
    // A run that the journal does not contain.
    let strays = &mut b.core.memory.stray_runs;
    assert!(strays.note("h2", AttemptId { at: 9, ..A }, 3));
    strays.wait(1);
    b.now += 1000;
    b.turn(Vec::new());
    assert_eq!(b.core.state.work(A.j).unwrap().attempt, 1);
    assert_eq!(b.stat(1), JobStat::Pend);
}
