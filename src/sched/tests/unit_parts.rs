//! Parts of units and amounts of units: which unit a part goes to, that nothing is assigned beyond
//! the whole, and the effect of a change of leader on parts.

use super::units::{run, take_over, units};
use super::{Cluster, NOBODY, job};
use crate::model::{JobKey, JobStat, Spec, SplitMix64};
use std::collections::BTreeMap;

/// A host with three GPUs that have their own memory.
const THREE: &str = "hosts:\n- {name: h1, slots: 16, resources: {gpu: 3, gpu_mem: [32G, 32G, 64G]}}\n\
    queues:\n- {name: normal, elastic: yes}\n\
    - {name: kill, priority: 90, preemption: {preempt: normal, method: requeue}}\n";

#[test]
fn parts_of_a_unit_go_to_several_jobs_and_whole_units_to_one() {
    let mut c = Cluster::new(THREE);
    let (a, has) = run(&mut c, 1, "rusage[gpu=0.25]");
    assert_eq!(has, "h1 gpu 0(0.25)");
    assert_eq!(run(&mut c, 1, "rusage[gpu=0.5]").1, "h1 gpu 0(0.5)");
    // The remaining quarter fits exactly, although another unit is empty.
    assert_eq!(run(&mut c, 1, "rusage[gpu=0.3]").1, "h1 gpu 1(0.3)");
    assert_eq!(run(&mut c, 1, "rusage[gpu=0.25]").1, "h1 gpu 0(0.25)");
    let (whole, has) = run(&mut c, 1, "rusage[gpu=1]");
    assert_eq!(has, "h1 gpu 2");
    // 0.7 are left of one unit; half of it plus a whole one are not available, and neither is 0.8.
    let two = c.ask(1, "rusage[gpu=1]");
    let much = c.ask(1, "rusage[gpu=0.8]");
    assert_eq!(c.pass(), NOBODY);
    assert!(c.why(much).contains("gpu"), "{}", c.why(much));
    c.end(a);
    // 0.25 and 0.7 are on two units: together they are not 0.8.
    assert_eq!(c.pass(), NOBODY);
    c.end(whole);
    assert_eq!(c.pass(), [two]);
    assert_eq!(c.stat(much), JobStat::Pend);
}

#[test]
fn memory_of_a_unit_is_reserved_on_that_unit() {
    let mut c = Cluster::new(THREE);
    let ask = "rusage[gpu=0.25:gpu_mem=20G]";
    assert_eq!(run(&mut c, 1, ask).1, "h1 gpu 0(0.25) gpu_mem=20480");
    // 12 GB are left of the first.
    assert_eq!(run(&mut c, 1, ask).1, "h1 gpu 1(0.25) gpu_mem=20480");
    for _ in 0..3 {
        assert_eq!(run(&mut c, 1, ask).1, "h1 gpu 2(0.25) gpu_mem=20480");
    }
    let none = c.ask(1, ask);
    assert_eq!(c.pass(), NOBODY);
    assert!(c.why(none).contains("12G"), "{}", c.why(none));
    let small = "rusage[gpu=0.25:gpu_mem=12G]";
    assert_eq!(run(&mut c, 1, small).1, "h1 gpu 0(0.25) gpu_mem=12288");
    take_over(&mut c);
    assert_eq!(run(&mut c, 1, small).1, "h1 gpu 1(0.25) gpu_mem=12288");
    let none = c.ask(1, "rusage[gpu=0.1:gpu_mem=5G]");
    assert_eq!(c.pass(), NOBODY);
    let why = c.why(none);
    assert!(why.contains("gpu_mem") && why.contains("4G"), "{why}");
    assert_eq!(
        run(&mut c, 1, "select[gpu_mem>=4G] rusage[gpu=0.1]").1,
        "h1 gpu 2(0.1)"
    );
    let never = c.ask(1, "rusage[gpu=1:gpu_mem=65G]");
    assert_eq!(c.pass(), NOBODY);
    let why = c.why(never);
    assert!(
        why.contains("no host has that much (largest h1: 64G)"),
        "{why}"
    );
}

#[test]
fn slots_have_their_parts_and_whole_units_their_memory() {
    let mut c = Cluster::new(THREE);
    let (a, has) = run(&mut c, 3, "rusage[gpu=0.4/task] span[hosts=1]");
    assert_eq!(has, "h1 gpu 0(0.8),1(0.4)");
    c.end(a);
    let (a, has) = run(&mut c, 1, "rusage[gpu=2:gpu_mem=40G]");
    assert_eq!((has.as_str(), c.stat(a)), ("", JobStat::Pend));
    assert_eq!(
        run(&mut c, 1, "rusage[gpu=1:gpu_mem=40G]").1,
        "h1 gpu 2 gpu_mem=40960"
    );
    let (_, has) = run(&mut c, 0, "1{rusage[gpu=1]} 2{rusage[gpu=0.5:gpu_mem=8G]}");
    assert_eq!(has, "h1 gpu 0; h1 gpu 1(1) gpu_mem=8192");
}

#[test]
fn a_growing_job_gets_parts() {
    let mut c = Cluster::new(THREE);
    let (a, _) = run(&mut c, 1, "rusage[gpu=2]");
    let grows = c.submit(Spec {
        max: 4,
        res_req: "rusage[gpu=0.5/task]".into(),
        ..job(1)
    });
    c.pass();
    c.pass();
    assert_eq!(units(&c, grows), "h1 gpu 2(1)");
    c.end(a);
    c.pass();
    assert_eq!(units(&c, grows), "h1 gpu 2(1),0(1)");
    take_over(&mut c);
    let late = c.ask(1, "rusage[gpu=0.1]");
    c.pass();
    assert_eq!(units(&c, late), "h1 gpu 1(0.1)");
}

#[test]
fn what_victims_leave_is_one_unit() {
    let mut c = Cluster::new(THREE);
    let low: Vec<u32> = (0..6)
        .map(|_| run(&mut c, 1, "rusage[gpu=0.5]").0)
        .collect();
    let whole = c.submit(Spec {
        queue: "kill".into(),
        res_req: "rusage[gpu=1]".into(),
        ..job(1)
    });
    c.pass();
    c.pass();
    assert_eq!(c.stat(whole), JobStat::Run);
    let stopped = low.iter().filter(|id| c.stat(**id) == JobStat::Pend);
    assert_eq!(stopped.count(), 2, "those of one unit, not of two");
}

#[test]
fn a_request_for_memory_names_its_units() {
    let mut c = Cluster::new(THREE);
    let check = |text: &str| crate::config::require::check_request(text, &c.config);
    for (text, why) in [
        ("rusage[gpu_mem=1G]", "request gpu in the same list"),
        ("rusage[gpu=1.5]", "whole units, or as a part of one unit"),
        ("rusage[gpu=1:gpu_mem=1G/job]", "leave /job"),
        ("rusage[gpu=0.5:duration=10]", "stay with the job"),
    ] {
        let e = check(text).expect_err(text);
        assert!(e.contains(why), "{text}: {e}");
    }
    assert_eq!(
        check("rusage[gpu=0.25:gpu_mem=10G]").as_deref(),
        Ok("rusage[gpu=0.25,gpu_mem=10240]")
    );
    let (id, has) = run(&mut c, 1, "rusage[gpu=1]");
    assert_eq!((c.stat(id), has.as_str()), (JobStat::Run, "h1 gpu 0"));
}

/// What jobs have of each unit according to the state; no more than exists.
fn check_units(c: &Cluster, sizes: &BTreeMap<&str, i64>) {
    assert_eq!(c.state.check(), Vec::<String>::new());
    for unit in c.state.units_on("h1") {
        let part: u32 = unit.holders.iter().map(|of| of.part).sum();
        let amounts = unit.holders.iter().flat_map(|of| &of.amounts);
        let memory: i64 = amounts.map(|(_, n)| n).sum();
        assert!(part <= 1000, "{unit:?}");
        assert!(memory <= sizes[unit.name.as_str()], "{unit:?}");
    }
}

/// 10,000 times units are assigned and returned, whole and in parts with memory, with changes of
/// leader and requeues: never is more than the whole held, and nothing is left over.
#[test]
#[ignore = "ten seconds of arithmetic: a step of its own in sbin/check, beside the kept seeds"]
fn ten_thousand_cycles_of_shared_units() {
    let mut c = Cluster::new(THREE);
    let sizes = [("0", 32), ("1", 32), ("2", 64)].map(|(name, gb)| (name, gb * 1_024_000));
    let sizes = BTreeMap::from(sizes);
    let asks = [
        "rusage[gpu=1]",
        "rusage[gpu=2]",
        "rusage[gpu=0.25:gpu_mem=10G]",
        "rusage[gpu=0.5]",
        "rusage[gpu=0.3:gpu_mem=40G]",
        "rusage[gpu=0.125/task] span[hosts=1]",
    ];
    let mut rng = SplitMix64::new(5);
    let (mut given, mut freed) = (0, 0);
    while freed < 10_000 {
        let at = rng.below(asks.len() as u64) as usize;
        let slots = if at == 5 { 3 } else { 1 };
        let id = c.ask(slots, asks[at]);
        if rng.below(50) == 0 {
            take_over(&mut c);
        }
        given += c.pass_keys().len();
        check_units(&c, &sizes);
        let runs: Vec<JobKey> = c.state.all_started().collect();
        for j in runs {
            if rng.below(3) == 0 {
                freed += 1;
                c.end_key(j, rng.below(10) == 0);
            }
        }
        let over = |id: &u32| c.state.job(*id).is_some_and(|job| job.is_finished());
        let ids: Vec<u32> = (1..=id).rev().take(200).filter(over).collect();
        let t = c.now;
        c.state
            .apply(&crate::record::event::Event::Cleaned { ids, t });
    }
    assert!(given >= freed);
    loop {
        for j in c.state.all_started().collect::<Vec<_>>() {
            c.end_key(j, false);
        }
        if c.pass_keys().is_empty() {
            break;
        }
        check_units(&c, &sizes);
    }
    assert!(c.state.used().units().is_empty());
    assert_eq!(run(&mut c, 1, "rusage[gpu=3]").1, "h1 gpu 0,1,2");
}

#[test]
fn packing_goes_by_what_the_job_asks_for() {
    let mut c = Cluster::new(
        "resources:\n- {name: ram, type: number}\nhosts:\n\
         - {name: h1, slots: 16, resources: {ram: 100, gpu: 2}}\n\
         - {name: h2, slots: 16, resources: {ram: 100, gpu: 2}}\n\
         - {name: h3, slots: 16, resources: {ram: 100}}\n\
         queues:\n- {name: normal, packing: pack}\n",
    );
    let on = |hosts: &str, slots: u32, res_req: &str| Spec {
        hosts: hosts.into(),
        res_req: res_req.into(),
        ..job(slots)
    };
    let begun = c.submit(on("h2", 1, "rusage[gpu=0.5]"));
    c.submit(on("h1", 1, "rusage[gpu=0.5]"));
    c.submit(on("h1", 1, "rusage[ram=70]"));
    c.submit(on("h2", 6, ""));
    c.pass();
    assert_eq!(units(&c, begun), "h2 gpu 0(0.5)");
    // h2 has fewer slots, h1 less memory. If no units are needed, the host without units comes
    // first.
    let id = c.submit(on("h1 h2", 1, "rusage[ram=20]"));
    c.pass();
    assert_eq!(c.on(id), "h1:1");
    let id = c.submit(on("", 1, ""));
    c.pass();
    assert_eq!(c.on(id), "h3:1");
    // A partly used unit is filled before a unit of another host is used.
    assert_eq!(run(&mut c, 1, "rusage[gpu=0.5]").1, "h2 gpu 0(0.5)");
}
