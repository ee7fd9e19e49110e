//! Running work makes room: what hosts are told, in which order.

use super::*;

/// Kind of each order of the last turn with its host and job.
fn record(b: &Bench) -> Vec<String> {
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
    let mut b = Bench::new();
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
        b.report(host, vec![Report::Started { a, pid: 7, t }]);
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
