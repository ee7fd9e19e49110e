//! Decisions of passes about running jobs, through the leader's turns: preemption, windows, growth.
//! The decisions themselves are tested with the scheduler.

use super::*;
use crate::model::{Binding, CpuBind, CpuSet, Share, TermReason};

/// One host with two slots, and queues with these settings.
fn test_leader(queues: &str) -> TestLeader {
    TestLeader::with(&format!(
        "cluster: {{name: demo, administrators: [root]}}\n\
         hosts:\n- {{name: h1, slots: 4}}\n- {{name: h2, slots: 1, server: no}}\n\
         queues:\n{queues}\
         general: {{default_queue: lo, clean_period: 100}}\n"
    ))
}

impl TestLeader {
    fn put(&mut self, queue: &str, slots: u32) {
        self.submit(5, |j| {
            j.spec.queue = queue.into();
            (j.spec.min, j.spec.max) = (slots, slots);
        });
    }

    fn started(&mut self, id: u32, at: u32) {
        let a = attempt(id, at);
        self.host_runs("h1", a);
    }

    fn stopped(&mut self, id: u32, on: bool) {
        let a = attempt(id, 1);
        let t = self.now;
        let report = match on {
            true => Report::Suspended { a, t },
            false => Report::Resumed { a, t },
        };
        self.report("h1", vec![report]);
    }

    /// Orders of the last turn as words, without acknowledgements.
    fn words(&self) -> Vec<String> {
        let word = |order: &Order| match order {
            Order::Start(start) => Some(format!("start {}", start.a)),
            Order::Signal { a, act, reason, .. } => Some(format!("{act:?} {a} {reason}")),
            Order::Resize { a, hosts, .. } => {
                let hosts: Vec<String> = hosts.iter().map(Share::to_string).collect();
                Some(format!("resize {a} {}", hosts.join(" ")))
            }
            _ => None,
        };
        self.last
            .orders
            .iter()
            .filter_map(|(_, o)| word(o))
            .collect()
    }
}

/// A job is told with which exit values it is put back to pending: its own, else its queue's.
#[test]
fn hosts_are_told_which_exit_values_put_a_job_back() {
    let mut b = test_leader("- {name: lo, requeue_exit_values: '30-32 EXCLUDE(7)'}\n");
    let last_order = |b: &TestLeader| {
        let mut orders = b.last.orders.iter();
        orders.find_map(|(_, order)| match order {
            Order::Start(start) => Some(start.requeue.clone()),
            _ => None,
        })
    };
    b.put("lo", 1);
    assert_eq!(last_order(&b).unwrap(), "30-32 EXCLUDE(7)");
    b.submit(5, |j| {
        j.spec.queue = "lo".into();
        j.spec.again.exits = "9".into();
    });
    assert_eq!(last_order(&b).unwrap(), "9");
}

#[test]
fn hosts_are_told_what_a_queue_binds_and_say_what_they_bound() {
    let mut b = test_leader("- {name: lo, cpu_bind: numa}\n");
    b.put("lo", 2);
    let bind = b.last.orders.iter().find_map(|(_, order)| match order {
        Order::Start(start) => Some(start.bind),
        _ => None,
    });
    assert_eq!(bind, Some(CpuBind::Numa));
    let binding = Binding {
        cpus: CpuSet::parse("0-1,4-5").unwrap(),
        ..Binding::default()
    };
    let (a, t, bind) = (attempt(1, 1), b.now, Some(Box::new(binding)));
    let started = Report::Started {
        a,
        pid: 7,
        t,
        bind: bind.clone(),
    };
    b.report("h1", vec![started]);
    assert_eq!(b.core.state.row(JobKey::job(1)).unwrap().bind, bind);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn preempted_work_stops_first_and_goes_on_by_itself() {
    let mut b =
        test_leader("- {name: hi, priority: 40, preemption: {preempt: lo}}\n- {name: lo}\n");
    b.put("lo", 4);
    b.started(1, 1);
    b.put("hi", 2);
    assert_eq!(b.words(), ["Stop 1.1 ", "start 2.1"]);
    b.started(2, 1);
    b.stopped(1, true);
    assert_eq!(b.stat(1), JobStat::Ssusp);
    let why = b.core.state.row(JobKey::job(1)).unwrap().halt.unwrap();
    assert_eq!(why.to_string(), "preempted by job 2");
    b.end("h1", 2, 1, 0);
    assert_eq!(b.words(), ["Resume 1.1 "]);
    b.stopped(1, false);
    assert_eq!(b.stat(1), JobStat::Run);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn work_that_is_requeued_runs_again_after_the_other() {
    let mut b = test_leader(
        "- {name: hi, priority: 40, preemption: {preempt: lo, method: requeue}}\n- {name: lo}\n",
    );
    b.put("lo", 4);
    b.started(1, 1);
    b.put("hi", 2);
    assert_eq!(b.words(), ["Terminate 1.1 TERM_PREEMPT"]);
    b.put("lo", 4);
    let e = Ended {
        a: attempt(1, 1),
        start: b.now - 5,
        t: b.now,
        sig: 15,
        reason: TermReason::Preempt,
        ..Ended::default()
    };
    b.report("h1", vec![Report::Ended(Box::new(e))]);
    assert_eq!(
        (b.words(), b.stat(1)),
        (vec!["start 2.1".into()], JobStat::Pend)
    );
    b.end("h1", 2, 1, 0);
    assert_eq!(b.words(), ["start 1.2"], "before the one that came later");
}

#[test]
fn forced_work_is_not_preempted() {
    let mut b =
        test_leader("- {name: hi, priority: 40, preemption: {preempt: lo}}\n- {name: lo}\n");
    b.put("hi", 4);
    b.put("lo", 4);
    let verb = Verb::Run {
        id: "2".into(),
        hosts: "h1".into(),
        closed: false,
    };
    b.ask(0, vec![verb]);
    assert_eq!(b.words(), ["start 2.1"]);
    b.started(2, 1);
    b.end("h1", 1, 1, 0);
    b.put("hi", 4);
    assert_eq!(b.words(), Vec::<String>::new());
}

#[test]
fn elastic_work_grows_when_others_end_though_nothing_waits() {
    let mut b = test_leader("- {name: lo, elastic: yes}\n");
    b.put("lo", 3);
    b.started(1, 1);
    b.submit(5, |j| {
        j.spec.queue = "lo".into();
        (j.spec.min, j.spec.max) = (1, 4);
    });
    assert_eq!(b.words(), ["start 2.1"]);
    b.started(2, 1);
    b.end("h1", 1, 1, 0);
    assert_eq!(b.words(), ["resize 2.1 4*h1"]);
    assert_eq!(b.core.state.used().queue("lo").run, 4);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_threshold_stops_work_with_its_figures() {
    let mut b = test_leader("- {name: lo, thresholds: {mem: 500/200}}\n");
    b.put("lo", 1);
    b.put("lo", 1);
    b.started(1, 1);
    b.started(2, 1);
    let mut doc = b.core.inputs.loads["h1"].0.clone();
    doc.mem = 100.0;
    doc.beat += 1;
    let (host, silent_ms) = ("h1".to_owned(), 0);
    b.turn(vec![Input::Load {
        host,
        doc: Box::new(doc.clone()),
        silent_ms,
    }]);
    assert_eq!(b.words(), ["Stop 2.1 TERM_LOAD"], "the youngest of two");
    b.stopped(2, true);
    let why = b.core.state.row(JobKey::job(2)).unwrap().halt.unwrap();
    assert!(why.to_string().contains("100"), "{why}");
    doc.mem = 4000.0;
    doc.beat += 1;
    b.turn(vec![Input::Load {
        host: "h1".to_owned(),
        doc: Box::new(doc),
        silent_ms: 0,
    }]);
    assert_eq!(b.words(), ["Resume 2.1 "]);
}

#[test]
fn history_of_shares_outlives_the_leader_and_a_configuration() {
    let mut b = test_leader("- {name: lo, fairshare: '[default, 1]'}\n");
    let run = |b: &mut TestLeader, id: u32| {
        b.put("lo", 2);
        b.started(id, 1);
        b.now += 60_000;
        b.end("h1", id, 1, 0);
    };
    let ran = |core: &mut Core, at: Stamp| -> Vec<u64> {
        refresh(core);
        let all = core.engine.histories(at);
        all["lo"]
            .1
            .iter()
            .map(|past| past.us[1] / 1_000_000)
            .collect()
    };
    run(&mut b, 1);
    let one = ran(&mut b.core, Stamp(b.now));
    assert_eq!(one.len(), 1);
    assert!((100..=125).contains(&one[0]), "{one:?}");
    b.now += 301_000;
    b.turn(Vec::new());
    assert!(b.events.iter().any(|e| matches!(e, Event::Shares { .. })));
    run(&mut b, 2);
    let both = ran(&mut b.core, Stamp(b.now));
    assert!((200..=250).contains(&both[0]), "{both:?}");
    // A new leader: the first job's part is in the journal; the second's follows from the job.
    let state = b.replayed();
    assert_eq!(contents(&state), contents(&b.core.state));
    let mut next = Core::new(state, b.core.config.clone(), 1000);
    let found = ran(&mut next, Stamp(b.now));
    assert!(found[0].abs_diff(both[0]) <= 5, "{found:?} {both:?}");
    let config = b.core.config.clone();
    b.core.engine.configure(config);
    assert_eq!(ran(&mut b.core, Stamp(b.now)), both);
}
