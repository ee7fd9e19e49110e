//! Amounts that several hosts have together: each is counted over all its hosts, once for a job or
//! for each slot.

use super::{Cluster, NOBODY, job};
use crate::model::{JobStat, Spec};
use std::sync::Arc;

/// Four licences shared by all hosts, bandwidth shared by two of three.
const THREE: &str = "resources:\n- {name: lic, locale: all, value: 4}\n\
    - {name: seat, locale: 'h1 h2', value: 5, slotresource: yes}\n\
    hosts:\n- {names: 'h[1-3]', slots: 4}\nqueues:\n- {name: normal, elastic: yes}\n";

fn started(c: &mut Cluster, slots: u32, res_req: &str) -> (u32, bool) {
    let id = c.ask(slots, res_req);
    c.pass();
    (id, c.stat(id) == JobStat::Run)
}

#[test]
fn a_licence_counts_once_for_a_job_wherever_it_runs() {
    let mut c = Cluster::new(THREE);
    // Three hosts, two licences.
    let (a, runs) = started(&mut c, 3, "rusage[lic=2] span[ptile=1]");
    assert!(runs);
    let (b, runs) = started(&mut c, 1, "hname==h3 rusage[lic=1]");
    assert!(runs);
    let (late, runs) = started(&mut c, 1, "rusage[lic=2]");
    assert!(!runs);
    let why = c.why(late);
    assert_eq!(why, "shared resource lic: 3 of 4 reserved, needs 2");
    // Others continue.
    assert!(started(&mut c, 1, "").1);
    let never = c.ask(1, "rusage[lic=5]");
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(c.why(never), "needs 5 lic, its hosts share 4");
    c.end(b);
    assert_eq!(c.pass(), [late]);
    c.end(a);
    c.end(late);
    assert!(started(&mut c, 1, "rusage[lic=4]").1);
}

#[test]
fn a_slot_resource_counts_for_each_slot_on_the_hosts_that_have_it() {
    let mut c = Cluster::new(THREE);
    let (a, runs) = started(&mut c, 3, "rusage[seat=1]");
    assert!(runs && !c.on(a).contains("h3"), "{}", c.on(a));
    let (late, runs) = started(&mut c, 3, "rusage[seat=1]");
    assert!(!runs, "{}", c.on(late));
    assert!(started(&mut c, 2, "rusage[seat=1]").1);
    c.end(a);
    assert_eq!(c.pass(), [late]);
    let none = c.ask(1, "hname==h3 rusage[seat=1]");
    assert_eq!(c.pass(), NOBODY);
    assert!(c.why(none).contains("seat"), "{}", c.why(none));
}

#[test]
fn a_new_leader_counts_the_same() {
    let mut c = Cluster::new(THREE);
    assert!(started(&mut c, 4, "rusage[lic=3] span[ptile=2]").1);
    super::units::take_over(&mut c);
    assert!(!started(&mut c, 1, "rusage[lic=2]").1);
    assert!(started(&mut c, 1, "rusage[lic=1]").1);
}

#[test]
fn a_reservation_that_ends_gives_back() {
    let mut c = Cluster::new(THREE);
    assert!(started(&mut c, 1, "rusage[lic=4:duration=1]").1);
    let late = c.ask(1, "rusage[lic=4:duration=1]");
    assert_eq!(c.pass(), NOBODY);
    // By now a sensor would report what the job uses.
    c.now = c.now.plus_ms(60_001);
    assert_eq!(c.pass(), [late]);
}

#[test]
fn growth_takes_what_is_left() {
    let mut c = Cluster::new(THREE);
    let grows = c.submit(Spec {
        max: 12,
        res_req: "rusage[seat=1]".into(),
        ..job(2)
    });
    c.pass();
    c.pass();
    let slots: u32 = c
        .on(grows)
        .split(' ')
        .map(|h| h[3..].parse::<u32>().unwrap())
        .sum();
    assert_eq!(slots, 5, "{}", c.on(grows));
}

#[test]
fn each_source_of_a_sensor_has_an_amount_of_its_own() {
    let mut c = Cluster::new("hosts:\n- {names: 'h[1-4]', slots: 4}\nqueues:\n- {name: normal}\n");
    let mut decl = crate::config::ResourceDecl::plain(crate::config::ResourceKind::Number);
    decl.shared = true;
    Arc::make_mut(&mut c.config)
        .hosts
        .sensed
        .insert("net".into(), decl);
    c.engine.configure(c.config.clone());
    let says = |c: &mut Cluster, host: &str, from: &str, value: &str| {
        c.sample(host, |doc| {
            doc.values.insert("net".into(), value.to_owned());
            doc.shared.insert("net".into(), from.to_owned());
        });
    };
    for (host, from) in [("h1", "a"), ("h2", "a"), ("h3", "b")] {
        says(&mut c, host, from, "3");
    }
    let ask = |c: &mut Cluster, host: &str| {
        let id = c.ask(1, &format!("hname=={host} rusage[net=2]"));
        c.pass();
        (id, c.stat(id) == JobStat::Run)
    };
    assert!(ask(&mut c, "h1").1);
    let (second, runs) = ask(&mut c, "h2");
    assert!(!runs);
    assert!(ask(&mut c, "h3").1);
    let (none, runs) = ask(&mut c, "h4");
    assert!(!runs && c.why(none).contains("net"), "{}", c.why(none));
    // A host that is added later shares the amount of its source.
    says(&mut c, "h4", "b", "3");
    assert_eq!(c.pass(), NOBODY);
    // It belongs to another source from now on.
    says(&mut c, "h4", "c", "2");
    assert_eq!(c.pass(), [none]);
    // A host with jobs changes to another source: its jobs count there.
    says(&mut c, "h1", "b", "3");
    c.pass();
    assert_eq!(c.stat(second), JobStat::Run);
    let (last, runs) = ask(&mut c, "h1");
    assert!(!runs, "{}", c.on(last));
    says(&mut c, "h1", "b", "6");
    says(&mut c, "h3", "b", "6");
    assert_eq!(c.pass(), [last]);
    // A host with jobs shares nothing for a while; then its jobs count where they did before.
    c.sample("h1", |doc| {
        doc.values.remove("net");
        doc.shared.remove("net");
    });
    c.pass();
    says(&mut c, "h1", "b", "6");
    c.pass();
    let (more, runs) = ask(&mut c, "h3");
    assert!(!runs, "{}", c.on(more));
}
