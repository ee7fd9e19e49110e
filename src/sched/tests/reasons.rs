//! The reasons that jobs are told to wait for: none outlives its cause.

use super::{Cluster, Engine, NOBODY, job};
use crate::model::{JobKey, JobStat, PendReason, Spec, SplitMix64};
use crate::record::event::Event;
use crate::record::request::{HostAct, QueueAct};
use proptest::prelude::*;

const LIMITED: &str = "hosts:\n- {name: h1, slots: 4}\nqueues:\n- {name: normal}\n\
                       users:\n- {name: u1000, max_slots: 2}\n";

fn of_user(uid: u32, slots: u32) -> Spec {
    Spec {
        uid,
        user: format!("u{uid}"),
        ..job(slots)
    }
}

/// The last pass before all is quiet may come too early to find out why every class waits: it asks
/// for another one.
#[test]
fn no_reason_stays_that_was_true_only_when_the_last_pass_was_early() {
    let mut c = Cluster::new(LIMITED);
    let running = c.submit(of_user(1000, 2));
    let second = c.submit(of_user(1000, 1));
    assert_eq!(c.pass(), [running]);
    assert!(c.why(second).contains("limit of 2"), "{}", c.why(second));
    // Others take the whole host at the moment at which the limit is free again.
    c.end(running);
    let others = c.submit(Spec {
        priority: 90,
        ..of_user(7, 4)
    });
    assert_eq!(c.pass(), [others]);
    let wake = c.last.explain_at.expect("a pass is requested");
    assert!(wake.since_ms(c.now) <= 1000);
    c.now = wake;
    assert_eq!(c.pass(), NOBODY);
    assert!(
        c.why(second).contains("no free job slots"),
        "{}",
        c.why(second)
    );
    assert_eq!(c.last.explain_at, None, "nothing is left to find out");
}

/// A need above a limit is not told as a limit that is reached.
#[test]
fn a_need_above_a_limit_can_never_be_met() {
    let mut c = Cluster::new(LIMITED);
    let wide = c.submit(of_user(1000, 3));
    assert_eq!(c.pass(), NOBODY);
    let want = "it needs 3 slots, the limit of user u1000 is 2; can never run here";
    assert_eq!(c.why(wide), want);
}

/// What was requeued waits for what others like it wait for.
#[test]
fn a_requeued_job_has_the_reason_of_its_class() {
    let mut c = Cluster::equal(1, 1);
    let (first, second) = (c.submit(job(1)), c.submit(job(1)));
    assert_eq!(c.pass(), [first]);
    c.end_key(JobKey::job(first), true);
    let urgent = c.submit(Spec {
        priority: 90,
        ..job(1)
    });
    assert_eq!(c.pass(), [urgent]);
    for id in [first, second] {
        let told = c.told(JobKey::job(id));
        assert_eq!(told, "no free job slots: 1 host");
    }
}

/// The limit of an array is no reason any more once fewer elements are started, also if the hosts
/// are full.
#[test]
fn the_limit_of_an_array_is_told_only_while_it_is_reached() {
    let mut c = Cluster::equal(1, 2);
    let array = c.submit_array(job(1), "1-4", 1);
    c.pass();
    let waiting = JobKey::job(array);
    assert!(c.told(waiting).contains("limit of 1 started"));
    let other = c.submit(Spec {
        priority: 90,
        ..job(2)
    });
    c.end_key(JobKey::element(array, 1), false);
    assert_eq!(c.pass(), [other]);
    c.after(2);
    c.pass();
    assert_eq!(c.told(waiting), "no free job slots: 1 host");
}

/// The job that is named as the cause of a suspension is one that runs.
#[test]
fn a_preempted_job_names_the_job_that_has_its_slots_now() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 1}\nqueues:\n- {name: normal}\n\
         - {name: urgent, priority: 90, preemption: {preempt: normal}}\n",
    );
    let urgent = || Spec {
        queue: "urgent".into(),
        ..job(1)
    };
    let victim = c.submit(job(1));
    assert_eq!(c.pass(), [victim]);
    let first = c.submit(urgent());
    assert_eq!(c.pass(), [first]);
    let second = c.submit(urgent());
    c.pass();
    c.end(first);
    assert_eq!(c.pass(), [second]);
    let work = c.state.work(JobKey::job(victim)).expect("it exists");
    let run = work.run.as_deref().expect("it was started");
    let why = run.suspension.by_system.as_deref().expect("it is stopped");
    assert_eq!(why.to_string(), format!("preempted by job {second}"));
}

/// Jobs of three users in three queues with limits of every kind, arrays with limits, hosts that
/// are closed and opened, queues that are stopped.
fn history(rng: &mut SplitMix64) -> Cluster {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 3}\n\
         queues:\n- {name: normal, job_slots: 5}\n- {name: short, user_slots: 2}\n\
         - {name: late, new_job_sched_delay: 1}\n\
         users:\n- {name: u1, max_slots: 2}\n\
         limits:\n- {name: few, users: u2, jobs: 1}\n",
    );
    let mut running: Vec<JobKey> = Vec::new();
    for _ in 0..30 {
        c.now = c.now.plus_ms(rng.below(1500));
        match rng.below(8) {
            0..=3 => {
                let mut spec = of_user(1 + rng.below(3) as u32, 1 + rng.below(4) as u32);
                spec.queue = ["normal", "short", "late"][rng.below(3) as usize].into();
                spec.priority = rng.below(3) as u32;
                match rng.below(3) {
                    0 => c.submit_array(spec, "1-3", rng.below(2) as u32),
                    _ => c.submit(spec),
                };
            }
            4 | 5 if !running.is_empty() => {
                let j = running.swap_remove(rng.below(running.len() as u64) as usize);
                if c.state.stat(j).is_some_and(JobStat::is_started) {
                    c.end_key(j, rng.below(3) == 0);
                }
            }
            6 => {
                let act = [HostAct::Close, HostAct::Open][rng.below(2) as usize];
                let name = format!("h{}", 1 + rng.below(2));
                let (by, comment, t) = ("root".to_owned(), String::new(), c.now);
                c.state.apply(&Event::Host {
                    name,
                    act,
                    by,
                    comment,
                    t,
                });
                c.rebuild_table();
            }
            7 => {
                let act = [QueueAct::Inactivate, QueueAct::Activate][rng.below(2) as usize];
                let name = ["normal", "short"][rng.below(2) as usize].to_owned();
                let (by, comment, t) = ("root".to_owned(), String::new(), c.now);
                c.state.apply(&Event::Queue {
                    name,
                    act,
                    by,
                    comment,
                    t,
                });
            }
            _ => {}
        }
        running.extend(c.pass_keys());
    }
    c
}

/// The reason without the number of free slots, which is that of the moment at which it was found.
fn without_counts(why: &PendReason) -> PendReason {
    match why {
        PendReason::Slots { need, .. } => PendReason::Slots {
            need: *need,
            free: 0,
        },
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// After any history, once the passes that were requested are over, each class waits for what a
    /// scheduler finds that knows nothing of the past.
    #[test]
    fn settled_reasons_are_those_of_a_new_scheduler(seed: u64) {
        let mut c = history(&mut SplitMix64::new(seed));
        for _ in 0..20 {
            let wake = c.last.wake.into_iter().chain(c.last.explain_at).min();
            let Some(wake) = wake else { break };
            c.now = c.now.max(wake);
            c.pass();
        }
        let mut fresh = Engine::new(c.config.clone());
        let told: Vec<(u32, PendReason)> = {
            let pending = c.state.pending().classes();
            let waiting = pending.filter(|(_, class)| !class.jobs.is_empty());
            waiting.map(|(id, class)| (id, class.why.clone())).collect()
        };
        for (id, _) in &told {
            c.state.note_reason(*id, PendReason::New);
        }
        fresh.sync(&mut c.state, &mut c.table);
        let plan = fresh.plan(&c.state, &c.table, c.now, 1000);
        prop_assert_eq!(plan.starts.len(), 0);
        for (id, why) in told {
            // Jobs with reasons of their own leave nothing to say of their class.
            if let Some((_, anew)) = plan.reasons.iter().find(|(class, _)| *class == id) {
                prop_assert_eq!(without_counts(&why), without_counts(anew));
            }
        }
        for (id, limit) in plan.at_limit {
            let told = c.told(JobKey::job(id));
            prop_assert!(told.contains(&format!("limit of {limit} started")), "{}", told);
        }
    }
}
