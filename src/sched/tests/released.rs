//! Jobs that users stopped and resumed: what they released is taken again only when it is free.

use super::{Cluster, NOBODY};
use crate::model::{JobKey, JobStat, Stamp, SuspReason};
use crate::record::event::{Event, SignalAct};

const HOUR: i64 = 3_600_000;

const LICENCES: &str = "resources:\n- {name: lic, release: yes}\n\
    hosts:\n- {name: h1, slots: 8, resources: {lic: 2}, thresholds: {mem: 2000/500}}\n\
    queues:\n- {name: normal}\n";

fn stop(c: &mut Cluster, id: u32) {
    let (j, by, t) = (JobKey::job(id), "u1000".to_owned(), c.now);
    let act = SignalAct::Stop;
    c.state.apply(&Event::Signalled { j, act, by, t });
    let (a, on) = (c.attempt(j), true);
    c.state.apply(&Event::Suspended { a, on, t });
}

/// As the leader's turn does for `cresume`.
fn resume(c: &mut Cluster, id: u32) -> Option<SuspReason> {
    let (j, by, t) = (JobKey::job(id), "u1000".to_owned(), c.now);
    let why = c.engine.needs_again(&c.state, &c.table, j);
    if let Some(why) = why.clone() {
        c.state.apply(&Event::Halted { j, why, t });
    }
    let act = SignalAct::Resume;
    c.state.apply(&Event::Signalled { j, act, by, t });
    why
}

fn reserved(c: &Cluster) -> f64 {
    let all = c.engine.reserved(&c.table, "h1");
    all.iter()
        .filter(|(name, _)| name == "lic")
        .map(|(_, n)| n)
        .sum()
}

#[test]
fn a_resumed_job_waits_for_what_it_released_and_gets_it_before_pending_jobs() {
    let mut c = Cluster::new(LICENCES);
    let a = c.ask(1, "rusage[lic=2]");
    assert_eq!(c.pass(), [a]);
    stop(&mut c, a);
    let b = c.ask(1, "rusage[lic=1]");
    assert_eq!(c.pass(), [b]);
    let why = "waits for 2 of lic, which it released when it was stopped";
    assert_eq!(
        resume(&mut c, a).map(|why| why.to_string()).as_deref(),
        Some(why)
    );
    let pending = c.ask(1, "rusage[lic=2]");
    assert_eq!(c.pass(), NOBODY);
    assert_eq!((c.stat(a), reserved(&c)), (JobStat::Ssusp, 1.0));
    c.end(b);
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(c.log, [format!("resume {a}")]);
    assert_eq!(
        (c.stat(a), c.stat(pending), reserved(&c)),
        (JobStat::Run, JobStat::Pend, 2.0)
    );
}

#[test]
fn a_stop_while_it_waits_is_a_stop() {
    let mut c = Cluster::new(LICENCES);
    let a = c.ask(1, "rusage[lic=2]");
    c.pass();
    stop(&mut c, a);
    resume(&mut c, a);
    stop(&mut c, a);
    c.pass();
    assert_eq!(c.log, [] as [&str; 0]);
    let b = c.ask(1, "rusage[lic=2]");
    assert_eq!(c.pass(), [b]);
    assert_eq!(c.stat(a), JobStat::Ususp);
}

/// What was reserved for a time only is not needed after that time.
#[test]
fn a_reservation_that_is_over_is_not_waited_for() {
    let mut c = Cluster::new(LICENCES);
    let a = c.ask(1, "rusage[lic=2:duration=1]");
    c.pass();
    stop(&mut c, a);
    let b = c.ask(1, "rusage[lic=2]");
    assert_eq!(c.pass(), [b]);
    c.after(30);
    assert!(resume(&mut c, a).is_some());
    c.pass();
    assert_eq!(c.stat(a), JobStat::Ssusp);
    c.after(31);
    c.pass();
    assert_eq!((c.stat(a), reserved(&c)), (JobStat::Run, 2.0));
}

/// As every job that a user resumes.
#[test]
fn the_load_does_not_keep_it_stopped() {
    let mut c = Cluster::new(LICENCES);
    let a = c.ask(1, "rusage[lic=2]");
    c.pass();
    stop(&mut c, a);
    c.sample("h1", |load| load.mem = 1000.0);
    resume(&mut c, a);
    c.pass();
    assert_eq!(c.stat(a), JobStat::Run);
}

/// Two parts of a job take from the same amount, or from two.
#[test]
fn every_host_and_every_limit_is_asked() {
    let two = "resources:\n- {name: lic, release: yes}\n- {name: net, locale: all, value: 2, release: yes}\n\
        hosts:\n- {names: 'h[1-2]', slots: 4, resources: {lic: 1}}\nqueues:\n- {name: normal}\n";
    for (takes, other) in [
        ("rusage[lic=1]", "hname==h2 rusage[lic=1]"),
        ("rusage[net=2]", "rusage[net=1]"),
    ] {
        let mut c = Cluster::new(two);
        let a = c.ask(2, &format!("span[ptile=1] {takes}"));
        assert_eq!(c.pass(), [a]);
        stop(&mut c, a);
        let b = c.ask(1, other);
        assert_eq!(c.pass(), [b], "{takes}");
        assert!(resume(&mut c, a).is_some(), "{takes}");
        c.pass();
        assert_eq!(c.stat(a), JobStat::Ssusp, "{takes}");
        c.end(b);
        c.pass();
        assert_eq!(c.stat(a), JobStat::Run, "{takes}");
    }
}

#[test]
fn a_window_that_closes_applies_to_it() {
    for (action, log) in [
        (
            "suspend",
            "halt 1: the run window of queue normal is closed",
        ),
        ("requeue", "requeue 1"),
    ] {
        let mut c = Cluster::new(&format!(
            "resources:\n- {{name: lic, release: yes}}\n\
             hosts:\n- {{name: h1, slots: 8, resources: {{lic: 2}}}}\n\
             queues:\n- {{name: normal, run_window: '18:00-8:00', window_action: {action}}}\n"
        ));
        c.now = Stamp(HOUR * (24 * 20 + 7));
        let a = c.ask(1, "rusage[lic=2]");
        assert_eq!(c.pass(), [a]);
        stop(&mut c, a);
        resume(&mut c, a);
        c.after(3600 * 2);
        c.pass();
        assert!(c.log.contains(&log.to_owned()), "{:?}", c.log);
    }
}
