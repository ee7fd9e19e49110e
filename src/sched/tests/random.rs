//! Properties of placement on random clusters: nothing is oversubscribed, gangs are complete, a new
//! engine decides like one with the full history, no slot stays free that a job could use.

use super::{Cluster, Engine, job};
use crate::model::{JobKey, JobStat, Spec, SplitMix64};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a section takes for each slot and once for each host, as the test counts it.
#[derive(Clone, Copy)]
struct Section {
    /// 0 = as many as the job has.
    slots: u32,
    lic_each: u32,
    lic_host: u32,
    fs: bool,
}

/// A request, with the test's own model of it.
fn request(rng: &mut SplitMix64) -> (u32, u32, String, Vec<Section>) {
    let plain = Section {
        slots: 0,
        lic_each: 0,
        lic_host: 0,
        fs: false,
    };
    let n = 1 + rng.below(6) as u32;
    match rng.below(9) {
        0..=2 => (1, 1, String::new(), vec![plain]),
        3 => (n, n, String::new(), vec![plain]),
        4 => (1, n, "order[-slots]".into(), vec![plain]),
        5 => {
            let part = Section {
                lic_each: 1,
                ..plain
            };
            (n, n, "rusage[lic=1/task]".into(), vec![part])
        }
        6 => {
            let part = Section {
                lic_host: 2,
                fs: true,
                ..plain
            };
            (n, n, "fs rusage[lic=2] span[hosts=1]".into(), vec![part])
        }
        7 => {
            let span = ["ptile=2", "hosts=2,3", "stride=1", "block=2"][rng.below(4) as usize];
            let n = n + 1;
            (n, n, format!("span[{span}]"), vec![plain])
        }
        _ => {
            let other = 1 + rng.below(3) as u32;
            let text = format!("{n}{{fs}} {other}{{rusage[lic=1]}}");
            let first = Section {
                slots: n,
                fs: true,
                ..plain
            };
            let second = Section {
                slots: other,
                lic_each: 1,
                ..plain
            };
            (n + other, n + other, text, vec![first, second])
        }
    }
}

struct Case {
    cluster: Cluster,
    asked: BTreeMap<u32, Vec<Section>>,
}

impl Case {
    fn new(rng: &mut SplitMix64) -> Case {
        let hosts = 1 + rng.below(5);
        let assign = ["no", "yes"][rng.below(2) as usize];
        let mut text = format!("resources:\n- {{name: lic, assign: {assign}}}\nhosts:\n");
        for n in 1..=hosts {
            let slots = 1 + rng.below(6);
            let lic = rng.below(5);
            let tag = if rng.below(2) == 0 { ", tags: fs" } else { "" };
            text += &format!("- {{name: h{n}, slots: {slots}, resources: {{lic: {lic}}}{tag}}}\n");
        }
        // A tag must be known even if it was drawn for no host.
        text += "- {name: off, slots: 1, server: no, tags: fs}\n";
        let packing = ["pack", "spread"][rng.below(2) as usize];
        text += &format!(
            "queues:\n- {{name: normal, packing: {packing}, exclusive: yes}}\n\
             - {{name: high, priority: 50}}\n"
        );
        Case {
            cluster: Cluster::new(&text),
            asked: BTreeMap::new(),
        }
    }

    fn submit(&mut self, rng: &mut SplitMix64) {
        let (min, max, text, parts) = request(rng);
        let res_req = crate::config::require::check_request(&text, &self.cluster.config);
        let queue = ["normal", "high"][rng.below(2) as usize];
        let uid = 1000 + rng.below(3) as u32;
        let id = self.cluster.submit(Spec {
            min,
            max,
            res_req: res_req.expect("it is well formed"),
            queue: queue.into(),
            exclusive: queue == "normal" && rng.below(8) == 0,
            uid,
            user: format!("u{uid}"),
            ..job(1)
        });
        self.asked.insert(id, parts);
    }

    /// A pass of the long-lived engine, compared with that of a newly created one.
    fn pass(&mut self) {
        let c = &mut self.cluster;
        loop {
            c.engine.sync(&mut c.state, &mut c.table);
            let mut fresh = Engine::new(c.config.clone());
            fresh.sync(&mut c.state, &mut c.table);
            let anew = fresh.plan(&c.state, &c.table, c.now, 3);
            let plan = c.engine.plan(&c.state, &c.table, c.now, 3);
            assert_eq!(plan.starts, anew.starts);
            c.carry_out(&plan);
            c.last = plan;
            if c.last.starts.is_empty() && !c.last.more {
                return;
            }
        }
    }

    fn running(&self) -> Vec<u32> {
        let all = self.asked.keys().copied();
        all.filter(|id| self.cluster.stat(*id) == JobStat::Run)
            .collect()
    }

    /// Slots and amounts according to the requests of the running jobs, by host name.
    fn check(&self) {
        let c = &self.cluster;
        let mut slots: BTreeMap<String, u32> = BTreeMap::new();
        let mut lic: BTreeMap<String, u32> = BTreeMap::new();
        let mut alone: BTreeMap<String, (u32, bool)> = BTreeMap::new();
        for id in self.running() {
            let run = c.state.work(JobKey::job(id)).and_then(|w| w.run.as_deref());
            let run = run.expect("it runs");
            let spec = c.state.spec_of(id).expect("it has one");
            assert!(
                (spec.min..=spec.max).contains(&run.slots()),
                "job {id} is whole"
            );
            let parts = &self.asked[&id];
            let (mut at, mut left) = (0, parts[0].slots);
            let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
            for (host, n) in &run.hosts {
                let name = c.state.host_name(*host).to_string();
                *slots.entry(name.clone()).or_default() += n;
                if left == 0 && at + 1 < parts.len() {
                    (at, left) = (at + 1, parts[at + 1].slots);
                }
                let part = parts[at];
                left = left.saturating_sub(*n);
                let entry = c.config.host(&name).expect("a host");
                assert!(
                    !part.fs || entry.tags.iter().any(|t| t == "fs"),
                    "job {id} on {name}"
                );
                let once = if hosts.insert(name.clone(), at) == Some(at) {
                    0
                } else {
                    part.lic_host
                };
                *lic.entry(name).or_default() += n * part.lic_each + once;
            }
            for name in hosts.into_keys() {
                let host = alone.entry(name).or_default();
                *host = (host.0 + 1, host.1 | spec.exclusive);
            }
        }
        for host in c.table.iter() {
            let used = slots.get(&host.name).copied().unwrap_or(0);
            assert!(used <= host.slots, "{} slots on {}", used, host.name);
            let used = lic.get(&host.name).copied().unwrap_or(0);
            assert!(
                f64::from(used) <= host.number("lic").unwrap_or(0.0),
                "{}",
                host.name
            );
            let reserved = c.engine.reserved(&c.table, &host.name);
            let reserved: f64 = reserved
                .iter()
                .filter(|(n, _)| n == "lic")
                .map(|(_, n)| n)
                .sum();
            assert_eq!(f64::from(used), reserved, "{}", host.name);
            let (jobs, exclusive) = alone.get(&host.name).copied().unwrap_or_default();
            assert!(!exclusive || jobs == 1, "{} is used alone", host.name);
        }
        // No slot is free for a job that requests one slot and nothing else.
        let waits = |id: &u32| {
            let spec = c.state.spec_of(*id).expect("it has one");
            let plain = spec.res_req.is_empty() && !spec.exclusive && spec.min == 1;
            plain && c.stat(*id) == JobStat::Pend
        };
        if self.asked.keys().any(waits) {
            for host in c.table.iter().filter(|h| h.obstacle().is_none()) {
                let used = slots.get(&host.name).copied().unwrap_or(0);
                let closed = alone
                    .get(&host.name)
                    .is_some_and(|(_, exclusive)| *exclusive);
                assert!(
                    closed || used == host.slots,
                    "{} has a free slot",
                    host.name
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..crate::text::cases() })]
    #[test]
    fn placement_keeps_its_promises(seed in 1u64..u64::MAX) {
        let mut rng = SplitMix64::new(seed);
        let mut case = Case::new(&mut rng);
        for _ in 0..12 {
            for _ in 0..rng.below(6) {
                case.submit(&mut rng);
            }
            for id in case.running() {
                if rng.below(3) == 0 {
                    case.cluster.end_key(JobKey::job(id), rng.below(4) == 0);
                }
            }
            case.cluster.after(1 + rng.below(30) as i64);
            case.pass();
            case.check();
        }
    }
}
