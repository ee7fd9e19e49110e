//! Running jobs make room: the orders to hosts, and their order.

use super::*;

/// Kind of each order of the last turn, with its host and job.
fn record(b: &TestLeader) -> Vec<String> {
    let show = |(host, order): &(String, Order)| match order {
        Order::Start(start) => format!("{host} start {}", start.a.j),
        Order::Signal { a, act, .. } => format!("{host} {act:?} {}", a.j).to_lowercase(),
        other => format!("{host} {other:?}"),
    };
    let orders = b.last.orders.iter();
    let record = orders.filter(|(_, order)| !matches!(order, Order::Ack { .. }));
    record.map(show).collect()
}

#[test]
fn a_victim_is_stopped_before_its_slots_are_used_and_resumed_behind() {
    let mut b = TestLeader::new();
    for _ in 0..4 {
        b.submit(5, |j| j.spec.queue = "again".into());
    }
    for id in 1..=4 {
        let a = attempt(id, 1);
        let host = if b.core.state.on_host("h1").any(|(j, _)| j.id == id) {
            "h1"
        } else {
            "h2"
        };
        let t = b.now;
        b.report(
            host,
            vec![Report::Started {
                a,
                pid: 7,
                t,
                bind: None,
            }],
        );
    }
    b.submit(6, |j| j.spec.queue = "urgent".into());
    let orders = record(&b);
    let host = &orders[0][..2];
    let victim = &orders[0][orders[0].len() - 1..];
    assert_eq!(
        orders,
        [format!("{host} stop {victim}"), format!("{host} start 5")]
    );
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    let (host, victim) = (host.to_owned(), victim.to_owned());
    b.end(&host, 5, 1, 0);
    assert_eq!(
        record(&b),
        [format!("{host} resume {victim}")],
        "nothing pends"
    );
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_victim_is_warned_with_its_signal_by_this_leader_and_by_the_next() {
    let config = CONFIG.replace(
        "preemption: {preempt: again}",
        "preemption: {preempt: again, grace: 60, warn_signal: USR1}",
    );
    let mut b = TestLeader::with(&config);
    for id in 1..=4 {
        b.submit(5, |j| j.spec.queue = "again".into());
        let host = b.starts()[0].0.clone();
        b.host_runs(&host, attempt(id, 1));
    }
    let warnings = |orders: &[(String, Order)]| -> Vec<(u32, i64, i32, u32)> {
        let warning = |(_, order): &(String, Order)| match order {
            Order::Warn {
                a, due, signal, n, ..
            } => Some((a.j.id, *due, *signal, *n)),
            _ => None,
        };
        orders.iter().filter_map(warning).collect()
    };
    b.submit(6, |j| j.spec.queue = "urgent".into());
    let first = warnings(&b.last.orders);
    let [(victim, at, 10, 1)] = first[..] else {
        panic!("{first:?}");
    };
    assert_eq!(at, b.now + 60_000);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(contents(&restored), contents(&b.core.state));
    let repeated = outstanding(&b.core, None);
    assert_eq!(warnings(&repeated), first);
    // The job that preempts is gone: a leader that did not send the warning also takes it back.
    b.next_leader();
    let again = warnings(&b.last.orders);
    assert!(again.is_empty() || again[0].0 == victim, "{again:?}");
    let (sel, how) = (selector(&["5"]), SignalAction::Kill);
    b.ask(6, vec![Verb::Signal { sel, how }]);
    b.turn(vec![]);
    let run = |b: &TestLeader| b.core.state.work(JobKey::job(victim)).unwrap().run.clone();
    assert_eq!(run(&b).unwrap().warned(), None);
    assert_eq!(b.stat(victim), JobStat::Run);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}
