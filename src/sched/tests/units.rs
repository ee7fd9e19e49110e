//! Units of resources with `assign`: which job gets and keeps which unit, and the effect of a
//! change of leader and of the hosts' lists.

use super::{Cluster, Engine, NOBODY, T0, job};
use crate::model::{JobKey, JobStat, SplitMix64, Stamp, TermReason};
use crate::record::event::{Event, SignalAct};
use crate::sched::plan_applier::{self, apply_plan};
use crate::state::State;

/// Two hosts with four GPUs, one of them with UUIDs; ports on the first.
const TWO: &str = "resources:\n- {name: port, assign: yes}\n- {name: seat, assign: yes, \
    slotresource: yes}\nhosts:\n- {name: h1, slots: 8, resources: {gpu: 4, port: [9000, 9001], \
    seat: 3}}\n- {name: h2, slots: 8, resources: {gpu: [GPU-a, GPU-b, GPU-c, GPU-d], seat: 2}}\n\
    queues:\n- {name: normal, packing: pack, elastic: yes}\n\
    - {name: high, priority: 90, preemption: {preempt: normal}}\n\
    - {name: kill, priority: 90, preemption: {preempt: normal, method: requeue}}\n";

/// The units of a started job: `h1 gpu 0,1; h2 gpu GPU-a`.
pub(super) fn units(c: &Cluster, id: u32) -> String {
    units_of(&c.state, JobKey::job(id))
}

fn units_of(state: &State, j: JobKey) -> String {
    let run = state.work(j).and_then(|work| work.run.as_deref());
    let units = run.into_iter().flat_map(|run| run.units());
    let shown: Vec<String> = units.map(ToString::to_string).collect();
    shown.join("; ")
}

/// Submits a job, runs a pass, and returns its units.
pub(super) fn run(c: &mut Cluster, slots: u32, res_req: &str) -> (u32, String) {
    let id = c.ask(slots, res_req);
    c.pass();
    (id, units(c, id))
}

/// Replaces the leader by one that has read the journal up to here.
pub(super) fn take_over(c: &mut Cluster) {
    let mut state = State::new();
    let records: Vec<_> = c.state.snapshot().collect();
    records.into_iter().for_each(|record| state.restore(record));
    assert_eq!(state.used().units(), c.state.used().units());
    c.state = state;
    c.engine = Engine::new(c.config.clone());
    c.rebuild_table();
}

#[test]
fn jobs_get_different_units_and_freed_ones_come_again_lowest_first() {
    let mut c = Cluster::new(TWO);
    let (a, has) = run(&mut c, 1, "rusage[gpu=2]");
    assert_eq!(has, "h1 gpu 0,1");
    assert_eq!(
        run(&mut c, 1, "rusage[gpu=1:port=1]").1,
        "h1 gpu 2; h1 port 9000"
    );
    assert_eq!(run(&mut c, 1, "rusage[port=1]").1, "h1 port 9001");
    let none = c.ask(1, "rusage[port=1]");
    assert_eq!(c.pass(), NOBODY);
    assert!(c.why(none).contains("port"), "{}", c.why(none));
    // Only the host with UUIDs has two.
    assert_eq!(
        run(&mut c, 1, "rusage[gpu=3]").1,
        "h2 gpu GPU-a,GPU-b,GPU-c"
    );
    c.end(a);
    assert_eq!(run(&mut c, 1, "rusage[gpu=2]").1, "h1 gpu 0,1");
    assert_eq!(run(&mut c, 1, "").1, "");
}

#[test]
fn a_new_leader_gives_nobody_what_another_has() {
    let mut c = Cluster::new(TWO);
    let (a, _) = run(&mut c, 1, "rusage[gpu=1]");
    let (b, has) = run(&mut c, 1, "rusage[gpu=2]");
    assert_eq!(has, "h1 gpu 1,2");
    c.end(a);
    take_over(&mut c);
    assert_eq!(run(&mut c, 1, "rusage[gpu=1]").1, "h1 gpu 0");
    take_over(&mut c);
    assert_eq!(run(&mut c, 1, "rusage[gpu=1]").1, "h1 gpu 3");
    c.end(b);
    take_over(&mut c);
    assert_eq!(run(&mut c, 1, "rusage[gpu=2]").1, "h1 gpu 1,2");
}

#[test]
fn a_gang_has_units_on_each_of_its_hosts() {
    let mut c = Cluster::new(TWO);
    let (a, has) = run(&mut c, 2, "rusage[gpu=4] span[ptile=1]");
    assert_eq!(has, "h1 gpu 0,1,2,3; h2 gpu GPU-a,GPU-b,GPU-c,GPU-d");
    let run_of = c
        .state
        .work(JobKey::job(a))
        .and_then(|work| work.run.as_deref());
    assert_eq!(run_of.expect("it runs").units()[1].places, [0, 1, 2, 3]);
    c.end(a);
    let (b, has) = run(&mut c, 0, "1{rusage[gpu=1]} 2{rusage[gpu=1]}");
    assert_eq!(has, "h1 gpu 0,1,2");
    c.end(b);
    take_over(&mut c);
    assert_eq!(run(&mut c, 1, "rusage[gpu=1]").1, "h1 gpu 0");
}

#[test]
fn growth_brings_units_for_each_slot() {
    let mut c = Cluster::new(TWO);
    let (a, has) = run(&mut c, 2, "rusage[seat=1] span[hosts=1]");
    assert_eq!(has, "h2 seat 0,1");
    let res_req = "rusage[seat=1]".to_owned();
    let grows = c.submit(crate::model::Spec {
        max: 8,
        res_req,
        ..job(1)
    });
    c.pass();
    c.pass();
    assert_eq!(units(&c, grows), "h1 seat 0,1,2");
    c.end(a);
    c.pass();
    assert_eq!(units(&c, grows), "h1 seat 0,1,2; h2 seat 0,1");
    take_over(&mut c);
    let (late, has) = run(&mut c, 1, "rusage[seat=1]");
    assert_eq!((has.as_str(), c.stat(late)), ("", JobStat::Pend));
    c.end(grows);
    c.pass();
    assert_eq!(units(&c, late), "h2 seat 0");
}

#[test]
fn units_stay_with_a_suspended_job_and_come_free_with_a_requeued_one() {
    let mut c = Cluster::new(TWO);
    let (low, has) = run(&mut c, 8, "rusage[gpu=4] span[hosts=1]");
    let (other, _) = run(&mut c, 8, "rusage[gpu=4] span[hosts=1]");
    assert_eq!(has, "h1 gpu 0,1,2,3");
    let of = |queue: &str, res_req: &str| crate::model::Spec {
        queue: queue.into(),
        res_req: res_req.into(),
        ..job(1)
    };
    let plain = c.submit(of("high", ""));
    let wants = c.submit(of("high", "rusage[gpu=1]"));
    assert_eq!(c.pass(), [plain]);
    let stopped: Vec<u32> = [low, other]
        .into_iter()
        .filter(|id| c.stat(*id) == JobStat::Ssusp)
        .collect();
    assert_eq!((stopped.len(), c.stat(wants)), (1, JobStat::Pend));
    assert_eq!(c.state.units_on("h1").len(), 4);
    take_over(&mut c);
    assert_eq!(c.pass(), NOBODY);
    let takes = c.submit(of("kill", "rusage[gpu=1]"));
    // What the victim frees is enough for both.
    assert_eq!(c.pass(), [wants, takes]);
    let both = [wants, takes].map(|id| units(&c, id));
    assert!(
        ["h1 gpu 0", "h2 gpu GPU-a"].contains(&both[0].as_str()),
        "{both:?}"
    );
    assert!(
        ["h1 gpu 1", "h2 gpu GPU-b"].contains(&both[1].as_str()),
        "{both:?}"
    );
}

#[test]
fn units_that_a_host_lists_no_longer_stay_held_and_are_not_given_out() {
    let mut c = Cluster::new("hosts:\n- {name: h1, slots: 8}\nqueues:\n- {name: normal}\n");
    let list = |c: &mut Cluster, gpu: &str| {
        let gpu = gpu.to_owned();
        c.sample("h1", |doc| drop(doc.values.insert("gpu".into(), gpu)));
    };
    let config = std::sync::Arc::make_mut(&mut c.config);
    let number = crate::config::ResourceKind::Number;
    let decl = crate::config::ResourceDecl::plain(number);
    config.hosts.sensed.insert("gpu".into(), decl);
    c.engine.configure(c.config.clone());
    list(&mut c, "[A,B,C,D]");
    let (a, has) = run(&mut c, 1, "rusage[gpu=2]");
    assert_eq!(has, "h1 gpu A,B");
    list(&mut c, "[B,C,D]");
    assert_eq!(run(&mut c, 1, "rusage[gpu=2]").1, "h1 gpu C,D");
    let wait = c.ask(1, "rusage[gpu=1]");
    assert_eq!(c.pass(), NOBODY);
    c.end(a);
    c.pass();
    assert_eq!(units(&c, wait), "h1 gpu B");
    c.end(wait);
    // Counted units after named ones: C and D are not numbers, so two are free.
    list(&mut c, "2");
    assert_eq!(run(&mut c, 1, "rusage[gpu=2]").1, "h1 gpu 0,1");
    // Regardless of what a host reports, no unit is assigned to two jobs.
    list(&mut c, "[A,A,A]");
    let none = c.ask(1, "rusage[gpu=1]");
    assert_eq!((c.pass(), units(&c, none)), (Vec::new(), String::new()));
}

#[test]
fn what_the_state_says_counts_and_not_the_requirement() {
    let mut c = Cluster::new(TWO);
    let (a, _) = run(&mut c, 1, "rusage[gpu=3]");
    // The resource has no units for a while: the units that a job holds by name stay with it.
    let counted = TWO.replace("assign: yes", "assign: no");
    c.reconfigure(&counted.replace("[9000, 9001]", "2"));
    assert_eq!(run(&mut c, 1, "rusage[port=1]").1, "");
    c.reconfigure(TWO);
    assert_eq!(run(&mut c, 1, "rusage[gpu=1]").1, "h1 gpu 3");
    // The job that got no units by name still counts as an amount.
    assert_eq!(run(&mut c, 1, "rusage[port=1]").1, "h1 port 9000");
    let late = c.ask(1, "rusage[port=1]");
    assert_eq!(c.pass(), NOBODY);
    assert_eq!((c.stat(a), c.stat(late)), (JobStat::Run, JobStat::Pend));
}

#[test]
fn an_administrator_forces_a_start_only_where_units_are_free() {
    let mut c = Cluster::new(TWO);
    let (a, _) = run(&mut c, 1, "rusage[gpu=3]");
    let b = c.ask(1, "rusage[gpu=2]");
    let share = |host: &str| vec![crate::model::Share(host.into(), 1)];
    let on = |c: &mut Cluster, host: &str| {
        c.engine.sync(&mut c.state, &mut c.table);
        c.engine
            .units_on(&c.state, &c.table, JobKey::job(b), &share(host))
    };
    assert_eq!(
        on(&mut c, "h1"),
        Err("host h1 has too few free units of gpu".into())
    );
    let units = on(&mut c, "h2").expect("they are free");
    assert_eq!(units[0].to_string(), "h2 gpu GPU-a,GPU-b");
    let now = c.now;
    let start = (share("h2"), units);
    plan_applier::bind(&mut c, JobKey::job(b), start, (0, true), now);
    assert_eq!(run(&mut c, 1, "rusage[gpu=2]").1, "h2 gpu GPU-c,GPU-d");
    c.end(a);
    assert_eq!(on(&mut c, "h1").map(|units| units.len()), Ok(1));
}

#[test]
#[should_panic(expected = "unit 0 of gpu on h1 is assigned to job 2, but job 1 holds it")]
fn a_unit_that_another_job_has_is_not_bound() {
    let mut c = Cluster::new(TWO);
    let (a, _) = run(&mut c, 1, "rusage[gpu=1]");
    let work = c
        .state
        .work(JobKey::job(a))
        .and_then(|work| work.run.as_deref());
    let units = work.expect("it runs").units().to_vec();
    let b = c.submit(job(1));
    let start = (vec![crate::model::Share("h1".into(), 1)], units);
    plan_applier::bind(&mut c, JobKey::job(b), start, (0, false), Stamp(T0));
}

/// Jobs start and end, leaders change, hosts list other units: no unit is shared, none is lost.
#[test]
fn many_cycles_leave_no_unit_behind() {
    for seed in 0..20 {
        let mut rng = SplitMix64::new(seed);
        let mut c = Cluster::new(TWO);
        let mut jobs: Vec<u32> = Vec::new();
        for _ in 0..60 {
            let asks = [
                "rusage[gpu=1]",
                "rusage[gpu=2]",
                "rusage[gpu=3:port=1]",
                "rusage[seat=1]",
                "2{rusage[gpu=1]} 1{rusage[port=1]}",
            ];
            match rng.below(6) {
                0..=2 => {
                    let slots = if rng.below(4) == 0 { 2 } else { 1 };
                    let ask = asks[rng.below(5) as usize];
                    let slots = if ask.starts_with('2') { 3 } else { slots };
                    jobs.push(c.ask(slots, ask));
                }
                3 => take_over(&mut c),
                _ => {
                    jobs.retain(|id| {
                        let ends = c.stat(*id) == JobStat::Run && rng.below(2) == 0;
                        if ends {
                            c.end(*id);
                        }
                        !ends
                    });
                }
            }
            c.engine.sync(&mut c.state, &mut c.table);
            let plan = c.engine.plan(&c.state, &c.table, c.now, 100);
            let now = c.now;
            apply_plan(plan, now, &mut c);
            assert_eq!(c.state.check(), Vec::<String>::new(), "seed {seed}");
        }
        while let Some(id) = jobs.iter().position(|id| c.stat(*id) == JobStat::Run) {
            c.end(jobs.remove(id));
            c.pass();
        }
        assert!(
            jobs.is_empty(),
            "seed {seed}: jobs wait although nothing runs"
        );
        assert!(c.state.used().units().is_empty(), "seed {seed}");
        let all = c.ask(8, "rusage[gpu=4:port=2] span[hosts=1]");
        c.pass();
        assert_eq!(units(&c, all), "h1 gpu 0,1,2,3; h1 port 9000,9001");
    }
}

#[test]
fn a_unit_is_not_free_before_the_end_is_reported() {
    let mut c = Cluster::new(TWO);
    let (a, has) = run(&mut c, 1, "rusage[gpu=1]");
    assert_eq!(has, "h1 gpu 0");
    let j = JobKey::job(a);
    let (act, by) = (SignalAct::Kill(TermReason::Owner), "u1000".to_owned());
    let t = c.now;
    c.state.apply(&Event::Signalled { j, act, by, t });
    assert_eq!(run(&mut c, 1, "rusage[gpu=1]").1, "h1 gpu 1");
    take_over(&mut c);
    assert_eq!(run(&mut c, 1, "rusage[gpu=1]").1, "h1 gpu 2");
    c.end(a);
    assert_eq!(run(&mut c, 1, "rusage[gpu=1]").1, "h1 gpu 0");
}

/// 10,000 times one of eight units is assigned and returned: by an end, a requeue or a kill, with
/// jobs that are stopped and leaders that change.
#[test]
#[ignore = "ten seconds of arithmetic: a step of its own in sbin/check, beside the kept seeds"]
fn ten_thousand_cycles_of_eight_units() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 8, resources: {gpu: 8}}\nqueues:\n- {name: normal}\n\
         - {name: high, priority: 90, preemption: {preempt: normal}}\n",
    );
    let mut rng = SplitMix64::new(8);
    let (mut given, mut freed, mut steps) = (0, 0, 0);
    while given.min(freed) < 10_000 {
        steps += 1;
        let asks = ["rusage[gpu=1]", "rusage[gpu=2]", "rusage[gpu=5]"];
        let queue = if rng.below(8) == 0 { "high" } else { "normal" };
        let id = c.submit(crate::model::Spec {
            queue: queue.into(),
            res_req: asks[rng.below(3) as usize].into(),
            ..job(1)
        });
        if rng.below(40) == 0 {
            take_over(&mut c);
        }
        let started = c.pass_keys();
        let units_of = |c: &Cluster, j: JobKey| {
            let run = c.state.work(j).and_then(|work| work.run.as_deref());
            run.map_or(0, |run| {
                run.units().iter().map(|units| units.names.len()).sum()
            })
        };
        given += started.iter().map(|j| units_of(&c, *j)).sum::<usize>();
        let runs: Vec<JobKey> = c.state.all_started().collect();
        for j in runs {
            if rng.below(3) > 0 {
                continue;
            }
            freed += units_of(&c, j);
            c.end_key(j, rng.below(10) == 0);
        }
        if c.stat(id).is_waiting() && rng.below(2) == 0 {
            let reason = TermReason::Owner;
            let (j, by, t) = (JobKey::job(id), String::new(), c.now);
            c.state.apply(&Event::Cancelled { j, by, reason, t });
        }
        let over = |id: &u32| c.state.job(*id).is_some_and(|job| job.is_finished());
        let ids: Vec<u32> = (1..=id).rev().take(200).filter(over).collect();
        let t = c.now;
        c.state.apply(&Event::Cleaned { ids, t });
    }
    for j in c.state.all_started().collect::<Vec<_>>() {
        c.end_key(j, false);
    }
    while !c.pass_keys().is_empty() {
        for j in c.state.all_started().collect::<Vec<_>>() {
            c.end_key(j, false);
        }
    }
    assert!(c.state.used().units().is_empty(), "after {steps} steps");
    assert_eq!(run(&mut c, 1, "rusage[gpu=8]").1, "h1 gpu 0,1,2,3,4,5,6,7");
}

/// Processors of a host that is nearly full of other jobs do not attract jobs with GPUs.
#[test]
fn packing_goes_by_the_units_that_a_job_asks_for() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 16, resources: {gpu: 4}}\n\
         - {name: h2, slots: 16, resources: {gpu: 4}}\n\
         queues:\n- {name: normal, packing: pack}\n",
    );
    assert_eq!(run(&mut c, 1, "rusage[gpu=1]").1, "h1 gpu 0");
    let big = c.submit(crate::model::Spec {
        hosts: "h2".into(),
        ..job(12)
    });
    c.pass();
    assert_eq!(c.on(big), "h2:12");
    // Most slots of h2 are in use, most GPUs of h1.
    assert_eq!(run(&mut c, 1, "rusage[gpu=2]").1, "h1 gpu 1,2");
    assert_eq!(run(&mut c, 1, "rusage[gpu=1]").1, "h1 gpu 3");
    // Jobs that need no GPU avoid hosts with free ones.
    let (plain, _) = run(&mut c, 1, "");
    assert_eq!(c.on(plain), "h1:1");
    assert_eq!(run(&mut c, 1, "rusage[gpu=4]").1, "h2 gpu 0,1,2,3");
}
