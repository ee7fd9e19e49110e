//! Advice on random clusters: what is offered is tried as a user would, through the checks of the
//! leader, and keeps its word.

use super::{NOW, TestCluster, job};
use crate::client::cjobs::why::pending::HelpEffect;
use crate::model::{JobKey, JobStat, Spec, SplitMix64, TermReason};
use crate::record::event::Event;
use crate::record::request::{HostAct, QueueAct};
use proptest::prelude::*;

fn cluster(rng: &mut SplitMix64) -> TestCluster {
    let mut some = |key: &str| match rng.below(2) {
        0 => String::new(),
        _ => format!(", {key}: {}", 1 + rng.below(6)),
    };
    let (of_queue, of_user, user) = (some("slots"), some("user_slots"), some("max_slots"));
    TestCluster::new(&format!(
        "hosts:\n- {{names: 'h[1-2]', slots: 4}}\n\
         queues:\n- {{name: normal{of_queue}}}\n- {{name: other{of_user}}}\n\
         users:\n- {{name: u1000{user}}}\n\
         limits:\n- {{name: few, per_user: all, slots: 5}}\n"
    ))
}

fn any_job(rng: &mut SplitMix64) -> Spec {
    let n = 1 + rng.below(12) as u32;
    let size = 1 + rng.below(90);
    let uid = 1000 + rng.below(2) as u32;
    Spec {
        uid,
        user: format!("u{uid}"),
        queue: ["normal", "other"][rng.below(2) as usize].into(),
        min: n,
        max: n,
        res_req: match rng.below(3) {
            0 => format!("rusage[mem={size}G]"),
            1 => "span[hosts=1]".into(),
            _ => String::new(),
        },
        ..job()
    }
}

/// The cluster without other jobs, with all hosts and queues open.
fn emptied(site: &TestCluster, id: u32) -> TestCluster {
    let mut site = site.clone();
    let others: Vec<u32> = (1..id).collect();
    for other in others {
        site.state.apply(&Event::Cancelled {
            j: JobKey::job(other),
            by: "root".into(),
            reason: TermReason::Owner,
            t: NOW,
        });
    }
    for name in ["h1", "h2"] {
        let (act, by, comment) = (HostAct::Open, "root".to_owned(), String::new());
        let name = name.to_owned();
        let t = NOW;
        site.state.apply(&Event::Host {
            name,
            act,
            by,
            comment,
            t,
        });
    }
    for name in ["normal", "other"] {
        let (act, by, comment) = (QueueAct::Activate, "root".to_owned(), String::new());
        let name = name.to_owned();
        let t = NOW;
        site.state.apply(&Event::Queue {
            name,
            act,
            by,
            comment,
            t,
        });
    }
    site
}

fn starts(mut site: TestCluster, id: u32, command: &str) -> bool {
    if !command.is_empty() {
        site.type_in(command);
    }
    site.copy().state.stat(JobKey::job(id)) == Some(JobStat::Run)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn each_advice_keeps_its_word(seed: u64) {
        let rng = &mut SplitMix64::new(seed);
        let mut site = cluster(rng);
        for _ in 0..rng.below(4) {
            site.submit(any_job(rng));
        }
        let id = site.submit(any_job(rng));
        if rng.below(4) == 0 {
            let (act, by, comment) = (QueueAct::Inactivate, "root".to_owned(), String::new());
            let (name, t) = ("normal".to_owned(), NOW);
            site.state.apply(&Event::Queue { name, act, by, comment, t });
        }
        let copy = site.copy();
        if copy.reason(JobKey::job(id)).is_none() {
            return Ok(());
        }
        drop(copy);
        let waiting = site.explain(id);
        // A job that "can never run" does not start in an empty cluster; any other does.
        let never = !starts(emptied(&site, id), id, "");
        prop_assert_eq!(waiting.can_never_run, never);
        for help in &waiting.helpful_changes {
            let command = help.candidate.command(id);
            match help.effect {
                HelpEffect::Starts(_) => {
                    prop_assert!(starts(site.clone(), id, &command), "{}", command);
                }
                HelpEffect::Possible(_) => {
                    let mut changed = site.clone();
                    changed.type_in(&command);
                    prop_assert!(!changed.explain(id).can_never_run, "{}", command);
                }
            }
        }
    }
}
