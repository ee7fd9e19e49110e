//! kill -9 of random daemons under a stream of short jobs: nothing lost, nothing run twice.
//! `sbin/soak` runs it at full size through the environment variables below.

use crate::cluster::{Cluster, job_id, kill_9, lines};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

/// Small numbers from a seed that a failing run prints.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}

/// Submits `jobs` short jobs one after the other; gives the ids that csub printed.
fn submit(cluster: &Cluster, jobs: u64) -> Vec<u32> {
    let mut ids = Vec::new();
    for n in 0..jobs {
        let name = format!("s{n}");
        let out = cluster.run(
            "csub",
            &["-J", &name, "-oo", "/dev/null", "echo ran >> m.$LSB_JOBID"],
        );
        // Without a leader csub may give up; only what it promised is held against it.
        ids.extend(job_id(&String::from_utf8_lossy(&out.stdout)));
    }
    ids
}

/// Kills daemons at random until told to stop, or `kills` times; gives the number of kills.
fn kill_some(cluster: &Cluster, dice: &mut Dice, kills: u64, stop: &AtomicBool) -> u64 {
    let mut done = 0;
    while done < kills && !stop.load(Ordering::Relaxed) {
        let daemons: Vec<_> = cluster
            .ps()
            .into_iter()
            .filter(|p| p.role != "cbtask")
            .collect();
        if let Some(p) = daemons.get(dice.below(daemons.len().max(1))) {
            eprintln!(
                "kill {} of {}{}",
                p.role,
                p.host,
                if p.leader { " (leader)" } else { "" }
            );
            kill_9(p.pid);
            done += 1;
        }
        std::thread::sleep(Duration::from_millis(100 + dice.below(400) as u64));
        cluster.dev_up("--no-wait");
        std::thread::sleep(Duration::from_millis(dice.below(1500) as u64));
    }
    done
}

#[test]
fn random_kills_lose_nothing_and_run_nothing_twice() {
    let jobs = setting("CORRAL_SOAK_JOBS", 60);
    let kills = setting("CORRAL_SOAK_KILLS", 8);
    let seed = setting("CORRAL_SOAK_SEED", std::process::id().into());
    eprintln!("soak: {jobs} jobs, {kills} kills, CORRAL_SOAK_SEED={seed}");
    let cluster = Cluster::up("--hosts 3 --slots 8 --masters 2 --lease 3");
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let ids = std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill_some(&cluster, &mut Dice(seed), kills, &stop));
        let ids = submit(&cluster, jobs);
        // The kills go on while the last jobs run, so that no kind of daemon is spared by chance.
        let done = killer.join().expect("the killing thread");
        assert_eq!(done, kills);
        ids
    });
    assert!(!ids.is_empty(), "no submission came through");
    cluster.dev_up("");
    let limit = Duration::from_secs(120);
    let ended = |s: &str| s == "DONE" || s == "EXIT";
    let states = cluster.wait(limit, |states| {
        ids.iter()
            .all(|id| states.get(&(*id, 0)).is_some_and(|s| ended(s)))
    });
    eprintln!("soak: {} jobs ended after {:?}", ids.len(), begin.elapsed());

    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "an id was given twice");
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    for id in &ids {
        let ran = lines(&cluster.work().join(format!("m.{id}"))).len();
        let state = states[&(*id, 0)].as_str();
        *ends.entry(state).or_default() += 1;
        assert!(ran <= 1, "job {id} ran {ran} times (seed {seed})");
        assert!(
            state != "DONE" || ran == 1,
            "job {id} is DONE but never ran (seed {seed})"
        );
    }
    eprintln!("soak: {ends:?}");
    // A kill of a daemon ends no job; whoever sees an EXIT here wants to know why.
    for id in ids.iter().filter(|id| states[&(**id, 0)] == "EXIT") {
        let id = id.to_string();
        eprintln!("{}", cluster.ok("cadmin", &["journal", &id]));
    }

    // What the next leader reads from disk is what this one has in memory.
    let leader = cluster
        .ps()
        .into_iter()
        .find(|p| p.leader)
        .expect("a leader leads");
    kill_9(leader.pid);
    cluster.dev_up("");
    assert_eq!(
        cluster.states(),
        states,
        "replayed state differs (seed {seed})"
    );
}
