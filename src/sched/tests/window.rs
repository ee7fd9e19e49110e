//! When jobs start and run by the clock: windows, deadlines, delays, age.

use super::{Cluster, NOBODY, job};
use crate::model::{JobKey, JobStat, Spec, Stamp};
use crate::record::event::Event;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// 2026-11-23 is a Monday; hours of UTC.
fn at(day: i64, hour: i64, minute: i64) -> Stamp {
    Stamp(1_795_392_000_000 + day * 24 * HOUR + hour * HOUR + minute * MINUTE)
}

fn limited(run_s: u64) -> Spec {
    let mut spec = job(1);
    spec.limits.run_s = Some(run_s);
    spec
}

fn night(more: &str) -> Cluster {
    Cluster::new(&format!(
        "hosts:\n- {{name: h1, slots: 4}}\nqueues:\n\
         - {{name: normal, run_window: '18:00-8:00'{more}}}\n"
    ))
}

/// Case 41 (i). The last minute belongs to the window.
#[test]
fn what_cannot_finish_before_the_window_closes_waits_for_the_next() {
    let mut c = night("");
    c.now = at(0, 7, 0);
    let (long, open) = (c.submit(limited(7200)), c.submit(job(1)));
    assert_eq!(c.pass(), [open]);
    assert_eq!(
        c.why(long),
        "its run limit is 7200 s, but the run window of queue normal closes in 3660 s"
    );
    assert_eq!(c.last.wake, Some(at(0, 8, 1)));
    c.now = at(0, 8, 1);
    c.pass();
    assert_eq!(
        c.log,
        [format!(
            "halt {open}: the run window of queue normal is closed"
        )]
    );
    assert_eq!(c.stat(open), JobStat::Ssusp);
    assert_eq!(
        c.why(long),
        "the run window of queue normal opens Nov 23 18:00"
    );
    assert_eq!(c.last.wake, Some(at(0, 18, 0)));
    c.now = at(0, 18, 0);
    assert_eq!(c.pass(), [long]);
    assert_eq!(c.log, [format!("resume {open}")]);
    assert_eq!(c.stat(open), JobStat::Run);
}

#[test]
fn just_enough_time_is_enough() {
    let mut c = night("");
    c.now = at(0, 7, 0);
    let (fits, not) = (c.submit(limited(3660)), c.submit(limited(3661)));
    assert_eq!(c.pass(), [fits]);
    assert_eq!(c.stat(not), JobStat::Pend);
}

#[test]
fn a_queue_may_start_what_cannot_finish() {
    let mut c = night(", ignore_deadline: yes");
    c.now = at(0, 7, 0);
    let long = c.submit(limited(7200));
    assert_eq!(c.pass(), [long]);
}

#[test]
fn a_closing_window_may_end_or_requeue_work() {
    for (action, done) in [("kill", "kill"), ("requeue", "requeue")] {
        let mut c = night(&format!(", window_action: {action}"));
        c.now = at(0, 7, 0);
        let a = c.submit(job(1));
        c.pass();
        c.now = at(0, 9, 0);
        assert_eq!(c.pass(), NOBODY);
        assert_eq!(c.log, [format!("{done} {a}")]);
    }
}

#[test]
fn a_job_starts_only_if_it_can_end_before_its_termination_time() {
    let mut c = Cluster::equal(1, 4);
    let deadline = Some(Stamp(c.now.0 + 600_000));
    let short = c.submit(Spec {
        deadline,
        ..limited(600)
    });
    let long = c.submit(Spec {
        deadline,
        ..limited(601)
    });
    assert_eq!(c.pass(), [short]);
    assert_eq!(
        c.why(long),
        "its run limit is 601 s, but its termination time (-t) is in 600 s"
    );
}

#[test]
fn a_dispatch_window_holds_starts_but_not_running_work() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 4}\n\
         queues:\n- {name: normal, dispatch_window: '1:8:00-5:17:59'}\n",
    );
    c.now = at(4, 17, 59);
    let a = c.submit(limited(36000));
    assert_eq!(c.pass(), [a]);
    c.now = at(4, 18, 0);
    let b = c.submit(job(1));
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(c.log, [] as [&str; 0]);
    assert_eq!(
        c.why(b),
        "the dispatch window of queue normal opens Nov 30 08:00"
    );
    c.now = at(7, 8, 0);
    assert_eq!(c.pass(), [b]);
}

#[test]
fn a_host_takes_work_in_its_window_only() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 4, dispatch_window: '18:00-7:59'}\n\
         queues:\n- {name: normal}\n",
    );
    c.now = at(0, 12, 0);
    let a = c.submit(job(1));
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(c.why(a), "dispatch window closed: 1 host");
    assert_eq!(c.last.wake, Some(at(0, 18, 0)));
    assert_eq!(
        c.engine.dispatch_block(c.table.at(0)),
        Some(crate::sched::DispatchBlock::Window)
    );
    c.now = at(0, 18, 0);
    assert_eq!(c.pass(), [a]);
    assert_eq!(c.engine.dispatch_block(c.table.at(0)), None);
}

#[test]
fn windows_are_in_the_zone_that_is_set() {
    let mut c = night("");
    c.engine
        .set_zone(jiff::tz::TimeZone::fixed(jiff::tz::offset(2)));
    c.now = at(0, 16, 0);
    let a = c.submit(job(1));
    assert_eq!(c.pass(), [a]);
}

#[test]
fn new_jobs_wait_for_their_first_look() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 4}\nqueues:\n- {name: normal, new_job_sched_delay: 10}\n",
    );
    let a = c.submit(job(1));
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(
        c.why(a),
        "queue normal considers a job 10 s after its submission"
    );
    assert_eq!(c.last.wake, Some(c.now.plus_ms(10_000)));
    c.after(10);
    assert_eq!(c.pass(), [a]);
}

#[test]
fn starts_on_one_host_keep_their_distance() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 4}\n\
         queues:\n- {name: normal, job_accept_interval: 5}\n",
    );
    let ids: Vec<u32> = (0..3).map(|_| c.submit(job(1))).collect();
    assert_eq!(c.pass(), ids[..2]);
    assert_eq!(
        c.why(ids[2]),
        "another job started there within job_accept_interval: 2 hosts"
    );
    assert_eq!(c.last.wake, Some(c.now.plus_ms(5_000)));
    c.after(4);
    assert_eq!(c.pass(), NOBODY);
    c.after(1);
    assert_eq!(c.pass(), ids[2..]);
}

/// 3 points in 20 minutes: a job of priority 4 is ahead of one of priority 1 for 20 minutes.
#[test]
fn age_makes_up_for_priority() {
    let text = "hosts:\n- {name: h1, slots: 1}\nqueues:\n- {name: normal}\n\
                general: {job_priority_over_time: 3/20}\n";
    let ahead = |later_s: i64| {
        let mut c = Cluster::new(text);
        let old = c.submit(Spec {
            priority: 1,
            ..job(1)
        });
        c.after(later_s);
        let new = c.submit(Spec {
            priority: 4,
            ..job(1)
        });
        let first = c.pass();
        if first == [new] {
            "new"
        } else {
            assert_eq!(first, [old]);
            "old"
        }
    };
    assert_eq!(ahead(1199), "new");
    assert_eq!(ahead(1201), "old");
}

/// Points are added one by one: jobs of about the same age are equal, and `ctop` decides.
#[test]
fn the_order_of_users_decides_among_jobs_of_equal_age() {
    let first = |moved: bool| {
        let mut c = Cluster::new(
            "hosts:\n- {name: h1, slots: 1}\nqueues:\n- {name: normal}\n\
             general: {job_priority_over_time: 3/20}\n",
        );
        let old = c.submit(job(1));
        c.after(60);
        let new = c.submit(limited(7200));
        let (j, by, t) = (JobKey::job(new), "u1000".to_owned(), c.now);
        if moved {
            let order = -1;
            c.state.apply(&Event::Moved { j, order, by, t });
        }
        (c.pass(), old, new)
    };
    let (started, old, _) = first(false);
    assert_eq!(started, [old]);
    let (started, _, new) = first(true);
    assert_eq!(started, [new]);
}

/// 7200 s for h1 are 3600 s on h2, which is twice as fast; 3660 s are left.
#[test]
fn a_fast_host_takes_what_a_slow_one_cannot_end_in_time() {
    let new = || {
        let mut c = Cluster::new(
            "hosts:\n- {name: h1, slots: 4, cpuf: 1}\n- {name: h2, slots: 1, cpuf: 2}\nqueues:\n\
             - {name: normal, run_window: '18:00-8:00'}\n",
        );
        c.now = at(0, 7, 0);
        c
    };
    let of_h1 = |run_s| Spec {
        run_on: "h1".into(),
        ..limited(run_s)
    };
    let mut c = new();
    let (plain, scaled, next) = (
        c.submit(limited(7200)),
        c.submit(of_h1(7200)),
        c.submit(of_h1(7200)),
    );
    assert_eq!(c.pass(), [scaled]);
    assert_eq!(c.on(scaled), "h2:1");
    assert!(
        c.why(plain).starts_with("its run limit is 7200 s"),
        "{}",
        c.why(plain)
    );
    assert_eq!(
        c.why(next),
        "no free job slots: 1 host; too slow to finish in time: 1 host"
    );
    c.end(scaled);
    assert_eq!(c.pass(), [next]);
    let longer = c.submit(of_h1(7400));
    assert_eq!(c.pass(), NOBODY);
    assert!(
        c.why(longer).starts_with("its run limit is 3700 s"),
        "on the fastest"
    );

    let mut c = new();
    let deadline = Some(c.now.plus_ms(1_800_000));
    let urgent = Spec {
        deadline,
        ..of_h1(3600)
    };
    let (first, second) = (c.submit(urgent.clone()), c.submit(urgent));
    assert_eq!(c.pass(), [first]);
    assert_eq!(
        (c.on(first), c.stat(second)),
        ("h2:1".to_owned(), JobStat::Pend)
    );
    // The engine of a new leader expects the same ends.
    let (mut state, mut fresh) = (c.state.clone(), crate::sched::Engine::new(c.config.clone()));
    fresh.sync(&mut state, &mut c.table);
    let until = |engine: &crate::sched::Engine| {
        engine.picture.allocations[&crate::model::JobKey::job(first)].until
    };
    assert_eq!(until(&fresh), c.now.plus_ms(1_800_000).0);
    assert_eq!(until(&c.engine), until(&fresh));
}
