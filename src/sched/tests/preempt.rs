//! Making room: preemption by suspending and by requeueing, growth of elastic work.

use super::{Cluster, NOBODY, job};
use crate::model::{AttemptId, JobKey, JobStat, Share, Spec};
use crate::record::event::Event;
use crate::record::request::QueueAct;

fn queues(preemption: &str) -> Cluster {
    Cluster::new(&format!(
        "hosts:\n- {{name: h1, slots: 4}}\n\
         queues:\n- {{name: hi, priority: 40, preemption: {{{preemption}}}}}\n\
         - {{name: mid, priority: 30}}\n- {{name: lo, priority: 10}}\n"
    ))
}

fn of(queue: &str, slots: u32) -> Spec {
    Spec {
        queue: queue.into(),
        ..job(slots)
    }
}

/// Case 20: L runs 0-20 and 30-110, H 20-30, M at 110.
#[test]
fn stopped_work_goes_on_before_others_start() {
    let mut c = queues("preempt: lo");
    let l = c.submit(of("lo", 4));
    assert_eq!(c.pass(), [l]);
    c.after(20);
    let h = c.submit(of("hi", 2));
    assert_eq!(c.pass(), [h]);
    assert_eq!(c.log, [format!("halt {l}: preempted by job {h}")]);
    c.after(1);
    let m = c.submit(of("lo", 2));
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(c.why(m), "no free job slots: 1 host");
    c.after(9);
    c.end(h);
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(c.log, [format!("resume {l}")]);
    c.after(80);
    c.end(l);
    assert_eq!(c.pass(), [m]);
}

#[test]
fn lent_slots_serve_those_who_may_preempt_only() {
    let mut c = queues("preempt: lo");
    let l = c.submit(of("lo", 4));
    c.pass();
    let h = c.submit(of("hi", 2));
    c.pass();
    let (mid, h2) = (c.submit(of("mid", 1)), c.submit(of("hi", 2)));
    assert_eq!(c.pass(), [h2]);
    assert_eq!(c.log, [] as [&str; 0]);
    c.end(h);
    assert_eq!(c.pass(), NOBODY, "it needs all of its slots");
    c.end(h2);
    assert_eq!(c.pass(), NOBODY);
    assert_eq!((c.stat(l), c.stat(mid)), (JobStat::Run, JobStat::Pend));
}

/// Case 21: killed, it keeps its place; the other starts when it is gone.
#[test]
fn requeued_work_keeps_its_place() {
    let mut c = queues("preempt: lo, method: requeue");
    let l = c.submit(of("lo", 4));
    c.pass();
    c.after(20);
    let h = c.submit(of("hi", 2));
    assert_eq!(c.pass(), [h]);
    assert_eq!(c.log, [format!("requeue {l}")]);
    c.after(1);
    let late = c.submit(of("lo", 4));
    assert_eq!(c.pass(), NOBODY);
    c.after(9);
    c.end(h);
    assert_eq!(c.pass(), [l]);
    assert_eq!(c.stat(late), JobStat::Pend);
}

/// What a victim frees while it ends is kept for the job that preempts it.
#[test]
fn what_victims_leave_is_kept_for_the_one_they_leave_it_to() {
    let mut c = queues("preempt: lo, method: requeue");
    let (a, b) = (c.submit(of("lo", 2)), c.submit(of("lo", 2)));
    c.pass();
    let h = c.submit(of("hi", 4));
    c.engine.sync(&mut c.state, &mut c.table);
    let plan = c.engine.plan(&c.state, &c.table, c.now, 100);
    assert_eq!((plan.requeues.len(), plan.starts.len()), (2, 0));
    let step = |c: &mut Cluster| {
        c.engine.sync(&mut c.state, &mut c.table);
        c.engine.plan(&c.state, &c.table, c.now, 100)
    };
    c.end_key(JobKey::job(a), false);
    let m = c.submit(of("mid", 1));
    let plan = step(&mut c);
    assert!(plan.starts.is_empty() && plan.requeues.is_empty());
    let class = c.state.class_of(c.state.job(h).unwrap().spec);
    let why = plan.reasons.iter().find(|(id, _)| *id == class);
    assert_eq!(
        why.unwrap().1.to_string(),
        "waits for 1 job that it preempts"
    );
    c.end_key(JobKey::job(b), false);
    let plan = step(&mut c);
    assert_eq!(plan.starts.iter().map(|s| s.j.id).collect::<Vec<_>>(), [h]);
    c.carry_out(&plan);
    assert_eq!(c.stat(m), JobStat::Pend);
}

/// Case 22: need 4; priority 1: a (4, since 10), b (2, since 50), c (2, since 60); priority 2:
/// d (4); at 100.
#[test]
fn few_jobs_of_the_lowest_priority_go_first() {
    for (option, expected) in [("", "a"), (", order: youngest", "c b")] {
        let mut c = Cluster::new(&format!(
            "hosts:\n- {{name: h1, slots: 12}}\n\
             queues:\n- {{name: hi, priority: 40, preemption: {{preempt: 'two one'{option}}}}}\n\
             - {{name: two, priority: 2}}\n- {{name: one, priority: 1}}\n"
        ));
        let mut names = std::collections::BTreeMap::new();
        for (after, name, queue, slots) in [
            (10, "a", "one", 4),
            (20, "d", "two", 4),
            (20, "b", "one", 2),
            (10, "c", "one", 2),
        ] {
            c.after(after);
            names.insert(c.submit(of(queue, slots)), name);
            c.pass();
        }
        c.after(40);
        c.submit(of("hi", 4));
        assert_eq!(c.pass().len(), 1);
        let preempted = names
            .iter()
            .filter(|(id, _)| c.stat(**id) == JobStat::Ssusp);
        let mut preempted: Vec<&str> = preempted.map(|(_, name)| *name).collect();
        preempted.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(preempted.join(" "), expected);
    }
}

/// Case 23: need 6, 4 are available.
#[test]
fn nobody_is_stopped_in_vain() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 6}\n\
         queues:\n- {name: hi, priority: 40, preemption: {preempt: lo}}\n\
         - {name: mid, priority: 30}\n- {name: lo, priority: 10}\n",
    );
    for (queue, slots) in [("mid", 2), ("lo", 2), ("lo", 2)] {
        c.submit(of(queue, slots));
    }
    c.pass();
    let h = c.submit(of("hi", 6));
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(c.log, [] as [&str; 0]);
    assert_eq!(c.why(h), "no free job slots: 1 host");
}

/// The grace of case 24: the victim is warned; it is not stopped if room becomes free in the
/// meantime.
#[test]
fn victims_are_warned_and_left_alone_if_room_comes_up() {
    let start = || {
        let mut c = Cluster::new(
            "hosts:\n- {name: h1, slots: 8}\n\
             queues:\n- {name: hi, priority: 40, preemption: {preempt: lo, grace: 60}}\n\
             - {name: mid, priority: 30}\n- {name: lo, priority: 10}\n",
        );
        let (m, l) = (c.submit(of("mid", 4)), c.submit(of("lo", 4)));
        c.pass();
        c.after(100);
        let h = c.submit(of("hi", 4));
        assert_eq!(c.pass(), NOBODY);
        assert_eq!(c.log, [format!("warn {l} 60")]);
        assert_eq!(c.why(h), "waits for 1 job that it preempts");
        assert_eq!(c.last.wake, Some(c.now.plus_ms(60_000)));
        (c, m, l, h)
    };
    let (mut c, m, l, h) = start();
    c.after(30);
    c.end(m);
    assert_eq!(c.pass(), [h]);
    assert_eq!(c.log, [format!("spare {l}")]);
    c.after(31);
    c.pass();
    assert_eq!((c.stat(l), c.log.len()), (JobStat::Run, 0));

    let (mut c, _, l, h) = start();
    c.after(59);
    assert_eq!(c.pass(), NOBODY);
    c.after(1);
    assert_eq!(c.pass(), [h]);
    assert_eq!(c.log, [format!("halt {l}: preempted by job {h}")]);

    let (mut c, _, l, h) = start();
    c.state.apply(&Event::Cancelled {
        j: JobKey::job(h),
        by: "u1000".into(),
        reason: crate::model::TermReason::Owner,
        t: c.now,
    });
    c.after(61);
    c.pass();
    assert_eq!(c.stat(l), JobStat::Run);
    assert_eq!(c.log, [format!("spare {l}")]);
}

/// A victim chosen for one job is not chosen for another.
#[test]
fn victims_are_chosen_once() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 4}\n\
         queues:\n- {name: hi, priority: 40, preemption: {preempt: lo, grace: 60}}\n\
         - {name: lo, priority: 10}\n",
    );
    c.submit(of("lo", 4));
    c.submit(of("lo", 4));
    c.pass();
    let hs = [
        c.submit(of("hi", 4)),
        c.submit(Spec {
            uid: 7,
            ..of("hi", 3)
        }),
    ];
    c.pass();
    assert_eq!(c.log.len(), 2);
    assert_ne!(c.log[0], c.log[1]);
    c.after(60);
    assert_eq!(c.pass(), hs);
}

#[test]
fn a_queue_bounds_the_number_of_victims() {
    let mut c = queues("preempt: lo, max_victims: 1");
    c.submit(of("lo", 2));
    c.submit(of("lo", 2));
    c.pass();
    c.submit(of("hi", 4));
    assert_eq!(c.pass(), NOBODY);
    let h = c.submit(of("hi", 2));
    assert_eq!(c.pass(), [h]);
    assert_eq!(c.log.len(), 1);
}

/// A victim on several hosts stops on all of them; what is needed on one host comes from one host.
#[test]
fn whole_jobs_stop_on_all_their_hosts() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-3]', slots: 2}\n\
         queues:\n- {name: hi, priority: 40, preemption: {preempt: lo}}\n\
         - {name: lo, priority: 10}\n",
    );
    let (wide, small) = (c.submit(of("lo", 4)), c.submit(of("lo", 2)));
    c.pass();
    assert_eq!(c.on(small), "h3:2");
    let mut h = of("hi", 2);
    h.res_req = "span[hosts=1]".into();
    let one = c.submit(h.clone());
    assert_eq!(c.pass(), [one]);
    assert_eq!(c.on(one), "h3:2", "the job with less work lost");
    let two = c.submit(h.clone());
    assert_eq!(c.pass(), [two]);
    assert_eq!(c.stat(wide), JobStat::Ssusp);
    let three = c.submit(h);
    assert_eq!(c.pass(), [three]);
    c.end(two);
    assert_eq!(c.pass(), NOBODY);
    let still = format!("halt {wide}: preempted by job {three}");
    assert_eq!(c.log, [still], "only the reason is another one");
    c.end(three);
    c.pass();
    assert_eq!(c.log, [format!("resume {wide}")]);
}

/// Three levels: what the lowest lent to the middle one goes to the highest.
#[test]
fn lent_slots_are_lent_on() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 4}\n\
         queues:\n- {name: hi, priority: 40, preemption: {preempt: mid}}\n\
         - {name: mid, priority: 30, preemption: {preempt: lo}}\n- {name: lo, priority: 10}\n",
    );
    let l = c.submit(of("lo", 4));
    c.pass();
    let m = c.submit(of("mid", 4));
    assert_eq!(c.pass(), [m]);
    let h = c.submit(of("hi", 4));
    assert_eq!(c.pass(), [h]);
    c.end(h);
    c.pass();
    assert_eq!((c.stat(m), c.stat(l)), (JobStat::Run, JobStat::Ssusp));
    c.end(m);
    c.pass();
    assert_eq!(c.stat(l), JobStat::Run);
}

/// A stopped job does not release memory: only a requeue helps.
#[test]
fn a_stop_does_not_free_what_stopped_work_keeps() {
    for (method, starts) in [("suspend", false), ("requeue", true)] {
        let mut c = queues(&format!("preempt: lo, method: {method}"));
        let mut l = of("lo", 1);
        l.res_req = "rusage[mem=6000]".into();
        c.submit(l);
        c.pass();
        let mut h = of("hi", 1);
        h.res_req = "rusage[mem=4000]".into();
        let h = c.submit(h);
        assert_eq!(c.pass() == [h], starts, "{method}");
        assert_eq!(c.log.is_empty(), !starts);
    }
}

/// Case 32 (i) and (ii).
#[test]
fn elastic_work_grows_when_nobody_waits_for_the_room() {
    for waiting in [false, true] {
        let mut c = Cluster::new(
            "hosts:\n- {name: h1, slots: 8}\nqueues:\n- {name: normal, elastic: yes}\n",
        );
        let other = c.submit(job(5));
        c.pass();
        let e = c.submit(Spec { max: 8, ..job(2) });
        assert_eq!(c.pass(), [e]);
        assert_eq!(c.on(e), "h1:3");
        let f = waiting.then(|| c.submit(job(4)));
        c.pass();
        c.end(other);
        assert_eq!(c.pass(), f.into_iter().collect::<Vec<_>>());
        assert_eq!(c.on(e), if waiting { "h1:4" } else { "h1:8" });
        c.end(e);
        let all = c.submit(job(if waiting { 4 } else { 8 }));
        assert_eq!(c.pass(), [all], "the books are right");
    }
}

#[test]
fn growth_keeps_to_limits_and_amounts() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 8}\n\
         queues:\n- {name: normal, elastic: yes, user_slots: 7}\n",
    );
    let block = c.submit(Spec { uid: 7, ..job(7) });
    let block2 = c.submit(Spec { uid: 8, ..job(7) });
    c.pass();
    let mut e = Spec { max: 20, ..job(1) };
    e.res_req = "rusage[mem=3000/host]".into();
    let e = c.submit(e);
    assert_eq!(c.pass(), [e]);
    assert_eq!(c.on(e), "h1:1 h2:1");
    c.end(block);
    c.pass();
    c.end(block2);
    c.pass();
    assert_eq!(c.on(e), "h1:1 h2:1 h1:5");
    let mem = c.engine.resource("mem").expect("reserved");
    assert_eq!(
        (c.engine.free_amount(0, mem), c.engine.free_amount(1, mem)),
        (5_000_000, 5_000_000)
    );
}

/// A job that an administrator started by force may fill a host twice, and is never a victim.
#[test]
fn forced_work_is_never_a_victim() {
    let mut c = queues("preempt: lo");
    let (a, b) = (c.submit(of("lo", 4)), c.submit(of("lo", 3)));
    c.pass();
    let (a_of_b, t) = (
        AttemptId {
            j: JobKey::job(b),
            at: 1,
        },
        c.now,
    );
    let hosts = vec![Share("h1".into(), 3)];
    let (alt, forced) = (0, true);
    c.state.apply(&Event::Dispatched {
        a: a_of_b,
        t,
        hosts,
        alt,
        forced,
        units: Vec::new(),
    });
    c.submit(of("hi", 4));
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(
        (c.stat(a), c.stat(b), c.log.len()),
        (JobStat::Run, JobStat::Run, 0)
    );
    let h = c.submit(of("hi", 1));
    assert_eq!(c.pass(), [h]);
    assert_eq!((c.stat(a), c.stat(b)), (JobStat::Ssusp, JobStat::Run));
}

/// Slots of preempted jobs do not count for limits; the jobs resume only within the limits.
#[test]
fn preempted_work_does_not_count_for_limits() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 4}\n\
         queues:\n- {name: hi, priority: 40, preemption: {preempt: lo}, hosts: h1}\n\
         - {name: lo, priority: 10, user_slots: 4}\n\
         limits:\n- {name: most, queues: lo, slots: 4}\n",
    );
    let mut first = of("lo", 4);
    first.hosts = "h1".into();
    let l = c.submit(first);
    assert_eq!(c.pass(), [l]);
    let m = c.submit(of("lo", 2));
    assert_eq!(c.pass(), NOBODY);
    let h = c.submit(of("hi", 4));
    assert_eq!(c.pass(), [h, m]);
    c.end(h);
    c.pass();
    assert_eq!(c.stat(l), JobStat::Ssusp, "4 of 4 slots but 2 are in use");
    c.end(m);
    c.pass();
    assert_eq!(c.stat(l), JobStat::Run);
    let late = c.submit(of("lo", 1));
    assert_eq!(c.pass(), NOBODY);
    c.end(l);
    assert_eq!(c.pass(), [late]);
}

/// Hosts, queues and resources may have other numbers after a change of the configuration.
#[test]
fn a_changed_configuration_keeps_the_victims_and_no_place() {
    let text = |hosts: &str, first: &str, hi: &str| {
        format!(
            "hosts:\n{hosts}\nqueues:\n{first}- {{name: hi, priority: 40{hi}}}\n\
             - {{name: lo, priority: 10}}\n"
        )
    };
    let rules = ", preemption: {preempt: lo, method: requeue}";
    let two = "- {names: 'h[1-2]', slots: 4}";
    for (now, waits) in [(rules, true), ("", false)] {
        let mut c = Cluster::new(&text(two, "", rules));
        let mut on_h2 = of("lo", 2);
        on_h2.hosts = "h2".into();
        let victims = [c.submit(on_h2.clone()), c.submit(on_h2)];
        c.pass();
        let mut wanted = of("hi", 4);
        wanted.hosts = "h2".into();
        let h = c.submit(wanted);
        c.engine.sync(&mut c.state, &mut c.table);
        let plan = c.engine.plan(&c.state, &c.table, c.now, 100);
        assert_eq!(plan.requeues.len(), 2);
        assert_eq!(c.engine.memory.preemption.reserved_slots(), [(1, 4)]);

        c.reconfigure(&text(
            "- {name: h2, slots: 4}",
            "- {name: new, priority: 50}\n",
            now,
        ));
        c.engine.sync(&mut c.state, &mut c.table);
        let plan = c.engine.plan(&c.state, &c.table, c.now, 100);
        assert_eq!((plan.requeues.len(), plan.starts.len()), (0, 0));
        assert_eq!(c.engine.memory.preemption.waiting() == 1, waits);
        assert_eq!(c.engine.memory.preemption.reserved_slots(), []);
        for victim in victims {
            c.end_key(JobKey::job(victim), false);
        }
        assert_eq!(c.pass(), [h]);
        assert_eq!(
            (c.on(h), c.engine.memory.preemption.waiting()),
            ("h2:4".into(), 0)
        );
    }
}

/// A job that cannot start at all leaves its place to others.
#[test]
fn a_job_that_may_not_start_keeps_no_place() {
    let mut c = queues("preempt: lo, method: requeue");
    let l = c.submit(of("lo", 4));
    c.pass();
    c.submit(of("hi", 4));
    c.engine.sync(&mut c.state, &mut c.table);
    c.engine.plan(&c.state, &c.table, c.now, 100);
    assert_eq!(c.engine.memory.preemption.waiting(), 1);
    c.end(l);
    let m = c.submit(of("mid", 4));
    c.state.apply(&Event::Queue {
        name: "hi".into(),
        act: QueueAct::Inactivate,
        by: "root".into(),
        comment: String::new(),
        t: c.now,
    });
    assert_eq!(c.pass(), [m]);
    assert_eq!(c.engine.memory.preemption.waiting(), 0);
}

/// A strict queue ends the pass before the turn of a job that keeps what its victims freed: both
/// jobs would wait for each other.
#[test]
fn a_strict_queue_does_not_wait_for_a_place_that_is_kept_behind_it() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 5}\n\
         queues:\n- {name: top, priority: 60, strict: yes}\n\
         - {name: hi, priority: 40, preemption: {preempt: lo, method: requeue}}\n\
         - {name: lo, priority: 10}\n",
    );
    let l = c.submit(of("lo", 4));
    c.pass();
    c.submit(of("hi", 4));
    c.engine.sync(&mut c.state, &mut c.table);
    c.engine.plan(&c.state, &c.table, c.now, 100);
    assert_eq!(c.engine.memory.preemption.waiting(), 1);
    let t = c.submit(of("top", 4));
    c.end(l);
    assert!(c.pass().is_empty());
    assert_eq!(c.pass(), [t]);
}

/// `preemptable: no` of an application: others are stopped instead, and a warned job is spared.
#[test]
fn jobs_of_protected_applications_are_not_preempted() {
    let text = |grace: u32, mpi: &str| {
        format!(
            "hosts:\n- {{name: h1, slots: 8}}\n\
             queues:\n- {{name: hi, priority: 40, preemption: {{preempt: lo, grace: {grace}}}}}\n\
             - {{name: lo, priority: 10}}\n\
             apps: [{{name: lic, preemptable: no}}, {{name: mpi{mpi}}}]\n"
        )
    };
    let with = |app: &str| Spec {
        app: app.into(),
        ..of("lo", 4)
    };
    let mut c = Cluster::new(&text(0, ""));
    let usual = c.submit(with("mpi"));
    c.pass();
    c.after(10);
    // The youngest would be stopped first.
    let protected = c.submit(with("lic"));
    c.pass();
    let first = c.submit(of("hi", 4));
    assert_eq!(c.pass(), [first]);
    assert_eq!(c.log, [format!("halt {usual}: preempted by job {first}")]);
    let second = c.submit(of("hi", 8));
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(c.why(second), "no free job slots: 1 host");
    assert_eq!(c.stat(protected), JobStat::Run);

    let mut c = Cluster::new(&text(60, ""));
    let warned = c.submit(with("mpi"));
    c.submit(with("lic"));
    c.pass();
    c.submit(of("hi", 4));
    c.pass();
    assert_eq!(c.log, [format!("warn {warned} 60")]);
    c.reconfigure(&text(60, ", preemptable: no"));
    c.after(61);
    assert_eq!(c.pass(), NOBODY);
    assert_eq!(c.stat(warned), JobStat::Run);
    assert_eq!(c.log, [format!("spare {warned}")]);
}
