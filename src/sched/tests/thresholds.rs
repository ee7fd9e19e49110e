//! Thresholds and conditions: which jobs are kept away, stopped and resumed by a host's load.

use super::{Cluster, NOBODY, job};
use crate::model::{JobStat, Spec};

const MEM: &str = "hosts:\n- {name: h1, slots: 8, thresholds: {mem: 2000/500}}\n\
                   queues:\n- {name: normal, priority: 20}\n- {name: low, priority: 10}\n";

fn low() -> Spec {
    Spec {
        queue: "low".into(),
        ..job(1)
    }
}

fn mem(c: &mut Cluster, mb: f64) -> Vec<u32> {
    c.after(1);
    c.sample("h1", |load| load.mem = mb);
    c.pass()
}

/// Case 26: free memory 3000, 1500, 400, 800, 2100.
#[test]
fn one_act_for_each_sample() {
    let mut c = Cluster::new(MEM);
    let ids = [c.submit(job(1)), c.submit(job(1))];
    assert_eq!(mem(&mut c, 3000.0), ids);
    assert!(c.engine.has_timed_work(), "although nothing pends");
    let late = c.submit(job(1));
    assert_eq!(mem(&mut c, 1500.0), NOBODY);
    assert_eq!(c.why(late), "load threshold exceeded: 1 host");
    assert_eq!(
        c.engine.dispatch_block(c.table.at(0)),
        Some(crate::sched::DispatchBlock::Load)
    );
    mem(&mut c, 400.0);
    let why = "mem is 400 on host h1, past the stop threshold 500";
    assert_eq!(c.log, [format!("halt {}: {why}", ids[1])]);
    c.pass();
    assert_eq!(c.log, [] as [&str; 0], "nothing on the same sample");
    assert_eq!(mem(&mut c, 800.0), NOBODY);
    assert_eq!(c.log, [] as [&str; 0]);
    assert_eq!(
        mem(&mut c, 2100.0),
        NOBODY,
        "no new start in the sample of a resumption"
    );
    assert_eq!(c.log, [format!("resume {}", ids[1])]);
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(mem(&mut c, 2100.0), [late]);
}

#[test]
fn the_lowest_queue_is_stopped_first_and_resumed_last() {
    let mut c = Cluster::new(MEM);
    let (a, b, n) = (c.submit(low()), c.submit(low()), c.submit(job(1)));
    mem(&mut c, 3000.0);
    for j in [b, a] {
        mem(&mut c, 100.0);
        assert_eq!(c.log.len(), 1);
        assert!(c.log[0].starts_with(&format!("halt {j}:")), "{:?}", c.log);
    }
    mem(&mut c, 100.0);
    assert_eq!(
        c.log,
        [] as [&str; 0],
        "the only job of an idle host goes on"
    );
    assert_eq!(c.stat(n), JobStat::Run);
    for j in [a, b] {
        mem(&mut c, 2000.0);
        assert_eq!(c.log, [format!("resume {j}")]);
    }
}

#[test]
fn the_only_job_of_a_host_in_use_is_stopped() {
    let mut c = Cluster::new(MEM);
    let a = c.submit(job(1));
    mem(&mut c, 3000.0);
    c.sample("h1", |load| load.ls = 1.0);
    mem(&mut c, 100.0);
    assert_eq!(c.stat(a), JobStat::Ssusp);
}

/// The stricter threshold of host and queue applies, in both directions of resources.
#[test]
fn marks_of_host_and_queue_hold_together() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 8, thresholds: {r1m: 0.7/2.0}}\n\
         queues:\n- {name: normal, thresholds: {r1m: 1.0/1.5}}\n",
    );
    let ids = [
        c.submit(job(4)),
        c.submit(job(4)),
        c.submit(job(4)),
        c.submit(job(4)),
    ];
    assert_eq!(c.pass(), ids[..2]);
    c.after(60);
    c.sample("h1", |_| {});
    c.sample("h2", |_| {});
    assert_eq!(c.pass(), ids[2..]);
    c.after(60);
    c.sample("h1", |load| load.r1m = 1.6);
    c.pass();
    assert_eq!(
        c.log,
        [format!(
            "halt {}: r1m is 1.6 on host h1, past the stop threshold 1.5",
            ids[2]
        )]
    );
    c.sample("h1", |load| load.r1m = 0.8);
    c.pass();
    assert_eq!(
        c.log,
        [] as [&str; 0],
        "the host's first mark is still passed"
    );
    c.sample("h1", |load| load.r1m = 0.7);
    c.pass();
    assert_eq!(c.log, [format!("resume {}", ids[2])]);
}

#[test]
fn a_queue_may_end_or_requeue_by_load() {
    for action in ["kill", "requeue"] {
        let mut c = Cluster::new(&format!(
            "hosts:\n- {{name: h1, slots: 8}}\n\
             queues:\n- {{name: normal, thresholds: {{mem: 2000/500}}, \
             threshold_action: {action}}}\n"
        ));
        let ids = [c.submit(job(1)), c.submit(job(1))];
        mem(&mut c, 3000.0);
        assert_eq!(mem(&mut c, 100.0), NOBODY);
        assert_eq!(c.log, [format!("{action} {}", ids[1])]);
        mem(&mut c, 100.0);
        assert_eq!(c.log, [format!("{action} {}", ids[0])], "the last one, too");
    }
}

#[test]
fn conditions_stop_and_resume() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 8}\n\
         queues:\n- {name: normal, stop_cond: 'select[it < 5]', resume_cond: 'select[it > 10]'}\n",
    );
    let it = |c: &mut Cluster, minutes: f64| {
        c.after(1);
        c.sample("h1", |load| load.it = minutes);
        c.pass()
    };
    let ids = [c.submit(job(1)), c.submit(job(1))];
    assert_eq!(it(&mut c, 1.0), NOBODY);
    assert_eq!(it(&mut c, 6.0), ids);
    it(&mut c, 1.0);
    assert_eq!(
        c.log,
        [format!(
            "halt {}: the stop condition of queue normal holds",
            ids[1]
        )]
    );
    it(&mut c, 10.0);
    assert_eq!(c.log, [] as [&str; 0]);
    it(&mut c, 11.0);
    assert_eq!(c.log, [format!("resume {}", ids[1])]);
}

#[test]
fn work_stopped_for_paging_waits_for_an_idle_host() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 8, thresholds: {pg: 10/20}}\nqueues:\n- {name: normal}\n\
         general: {pg_susp_it: 180}\n",
    );
    let paging = |c: &mut Cluster, pg: f64, it: f64| {
        c.after(1);
        c.sample("h1", |load| (load.pg, load.it) = (pg, it));
        c.pass();
        c.log.len()
    };
    c.submit(job(1));
    c.submit(job(1));
    assert_eq!(paging(&mut c, 0.0, 0.0), 0);
    assert_eq!(paging(&mut c, 30.0, 0.0), 1);
    assert_eq!(paging(&mut c, 0.0, 2.9), 0);
    assert_eq!(paging(&mut c, 0.0, 3.0), 1);
}

/// A resource that a stopped job releases must be available again; one that it keeps stays taken.
#[test]
fn stopped_work_gives_back_what_is_to_be_released() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 8, resources: {lic: 2, disk: 2}, \
         thresholds: {mem: 2000/500}}\n\
         resources:\n- {name: lic, type: number, release: yes}\n- {name: disk, type: number}\n\
         queues:\n- {name: normal}\n",
    );
    let other = c.submit(job(1));
    let lic = c.ask(1, "rusage[lic=2]");
    assert_eq!(mem(&mut c, 3000.0), [other, lic]);
    let disk = c.ask(1, "rusage[disk=2]");
    let again = c.ask(1, "rusage[lic=1]");
    assert_eq!(c.pass(), [disk]);
    c.after(1);
    mem(&mut c, 100.0);
    mem(&mut c, 100.0);
    assert_eq!(
        (c.stat(disk), c.stat(lic)),
        (JobStat::Ssusp, JobStat::Ssusp)
    );
    assert_eq!(mem(&mut c, 600.0), NOBODY);
    let disk_too = c.ask(1, "rusage[disk=1]");
    c.engine.sync(&mut c.state, &mut c.table);
    // Within the thresholds one job resumes with each sample; what it released may be gone by then.
    let left = |c: &Cluster, name| {
        c.engine
            .free_amount(0, c.engine.resource(name).expect("reserved"))
    };
    assert_eq!((left(&c, "lic"), left(&c, "disk")), (2000, 0));
    mem(&mut c, 3000.0);
    assert_eq!(c.stat(lic), JobStat::Run);
    assert_eq!(left(&c, "lic"), 0);
    assert_eq!(c.stat(again), JobStat::Pend);
    mem(&mut c, 3000.0);
    assert_eq!(c.stat(disk), JobStat::Run);
    assert_eq!(c.stat(disk_too), JobStat::Pend);
}

/// Load is measured late: the expected load of a job that has just started is added, decreasing
/// over a minute.
#[test]
fn a_burst_does_not_land_on_one_host() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 8, thresholds: {r1m: 2.5/9}}\n\
         queues:\n- {name: normal, packing: pack}\n",
    );
    let ids: Vec<u32> = (0..8).map(|_| c.submit(job(1))).collect();
    assert_eq!(c.pass(), ids[..6]);
    let on = |c: &Cluster, host: &str| {
        let at = |id: &&u32| c.on(**id).starts_with(host);
        ids.iter().filter(at).count()
    };
    assert_eq!((on(&c, "h1"), on(&c, "h2")), (3, 3));
    assert_eq!(c.why(ids[6]), "load threshold exceeded: 2 hosts");
    // Half of it still counts after half a minute, in addition to the measured load.
    c.after(30);
    c.sample("h1", |load| load.r1m = 1.2);
    c.sample("h2", |load| load.r1m = 0.9);
    assert_eq!(c.pass(), ids[6..7]);
    assert!(c.on(ids[6]).starts_with("h2"));
}

#[test]
fn order_looks_at_load_that_is_to_come() {
    let mut c = Cluster::equal(2, 8);
    c.sample("h2", |load| load.r1m = 0.5);
    let ids: Vec<u32> = (0..4).map(|_| c.ask(1, "order[r1m]")).collect();
    assert_eq!(c.pass(), ids);
    let on: Vec<String> = ids.iter().map(|id| c.on(*id)).collect();
    assert_eq!(on, ["h1:1", "h2:1", "h1:1", "h2:1"]);
}
