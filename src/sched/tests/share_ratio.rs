//! Users get what their shares say, by the slot-seconds of started and ended jobs, however few the
//! slots are and whatever the jobs look like. The jobs wait and use no CPU time.

use super::{Cluster, job};
use crate::model::{JobKey, Spec, SplitMix64, Stamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Shares of the two users.
const SHARES: [f64; 2] = [20.0, 10.0];

/// What the jobs of each user look like: least and most seconds, most slots.
struct Kind {
    name: &'static str,
    seconds: [(i64, i64); 2],
    widths: [u32; 2],
    /// Settings of the queue.
    queue: &'static str,
}

const STARTS: [usize; 2] = [100, 1000];
/// Most error in per cent after [`STARTS`].
const MOST: [f64; 2] = [5.0, 1.0];
/// Jobs start whole: usage may be this part of the largest job from what is due, even if that is
/// more. An order that knew all run times could not be sure of less than half a job.
const MOST_JOBS: f64 = 0.6;
/// So many jobs of each user wait all the time: more than can start at once.
const BACKLOG: u32 = 100;

const fn kind(name: &'static str, a: (i64, i64), b: (i64, i64), widths: [u32; 2]) -> Kind {
    Kind {
        name,
        seconds: [a, b],
        widths,
        queue: "",
    }
}

const KINDS: [Kind; 6] = [
    kind("seconds", (1, 1), (1, 1), [1, 1]),
    kind("hours", (3600, 3600), (3600, 3600), [1, 1]),
    kind("mixed lengths", (10, 600), (10, 600), [1, 1]),
    // Of 100 starts some 17 are of the long jobs: one of them is 6 per cent of all.
    kind("long against short", (500, 700), (50, 70), [1, 1]),
    // One of four slots and 600 s is up to 9 per cent of what the lesser user gets in 100 starts.
    kind("mixed widths", (10, 600), (10, 600), [4, 4]),
    Kind {
        queue: ", strict: yes",
        ..kind("wide against narrow", (60, 300), (60, 300), [4, 1])
    },
];

/// How far the usage of two users is from their shares.
#[derive(Debug)]
struct Gap {
    /// Of the ratio of their usage, in per cent.
    percent: f64,
    /// What one of them has too much, in slot-time of the kind's largest job.
    jobs: f64,
}

impl Gap {
    /// `used`: slot-time of each user (slot-ms).
    fn of(used: [f64; 2], kind: &Kind, slots: u32) -> Gap {
        let ratio = used[0] / SHARES[0] / (used[1] / SHARES[1]);
        let due = (used[0] + used[1]) * SHARES[0] / (SHARES[0] + SHARES[1]);
        let size = |who: usize| {
            (kind.seconds[who].1 * 1000) as f64 * f64::from(kind.widths[who].min(slots))
        };
        Gap {
            percent: (ratio - 1.0).abs() * 100.0,
            jobs: (used[0] - due).abs() / size(0).max(size(1)),
        }
    }
}

/// The gap after each of [`STARTS`].
fn gaps(slots: u32, kind: &Kind) -> Vec<Gap> {
    let mut c = Cluster::new(&format!(
        "hosts:\n- {{name: h1, slots: {slots}}}\nqueues:\n\
         - {{name: normal, fairshare: '[a,20] [b,10]'{}}}\n",
        kind.queue
    ));
    let mut rng = SplitMix64::new(u64::from(slots));
    let mut seconds: BTreeMap<u32, (usize, u32, i64)> = BTreeMap::new();
    let mut waiting = [0u32; 2];
    let mut ends: BinaryHeap<Reverse<(i64, u32, i64)>> = BinaryHeap::new();
    let (mut used, mut starts, mut out) = ([0f64; 2], 0, Vec::new());
    while out.len() < STARTS.len() {
        for (who, waiting) in waiting.iter_mut().enumerate() {
            for _ in *waiting..BACKLOG {
                let (id, width, lasts_ms) = submit(&mut c, kind, who, slots, &mut rng);
                seconds.insert(id, (who, width, lasts_ms));
            }
            *waiting = BACKLOG;
        }
        for started in started(&mut c) {
            waiting[seconds[&started].0] -= 1;
            ends.push(Reverse((c.now.0 + seconds[&started].2, started, c.now.0)));
            starts += 1;
            if STARTS.contains(&starts) {
                let mut all = used;
                for Reverse((_, id, begun)) in &ends {
                    let (who, width, _) = seconds[id];
                    all[who] += f64::from(width) * (c.now.0 - begun) as f64;
                }
                out.push(Gap::of(all, kind, slots));
            }
        }
        let Reverse((now, ..)) = *ends.peek().expect("something runs");
        c.now = Stamp(now);
        while let Some(Reverse((_, id, begun))) = ends.peek().copied().filter(|e| e.0.0 == now) {
            ends.pop();
            let (who, width, _) = seconds[&id];
            used[who] += f64::from(width) * (now - begun) as f64;
            c.end_key(JobKey::job(id), false);
        }
    }
    out
}

/// Submits a job of user number `who`; its id, slots, and how long it runs in ms.
fn submit(
    c: &mut Cluster,
    kind: &Kind,
    who: usize,
    slots: u32,
    rng: &mut SplitMix64,
) -> (u32, u32, i64) {
    let (least, most) = kind.seconds[who];
    let lasts = least + (rng.draw() % (most - least + 1) as u64) as i64;
    let width = 1 + (rng.draw() % u64::from(kind.widths[who])) as u32;
    let width = width.min(slots);
    let id = c.submit(Spec {
        user: ["a", "b"][who].into(),
        uid: 2000 + who as u32,
        ..job(width)
    });
    (id, width, lasts * 1000)
}

/// A pass without the checks of [`Cluster::pass`], which take long with thousands of jobs.
fn started(c: &mut Cluster) -> Vec<u32> {
    c.engine.sync(&mut c.state, &mut c.table);
    let plan = c.engine.plan(&c.state, &c.table, c.now, 1_000_000);
    c.carry_out(&plan);
    plan.starts.iter().map(|s| s.j.id).collect()
}

#[test]
fn usage_follows_the_shares_on_any_number_of_slots() {
    let mut wrong = String::new();
    for kind in &KINDS {
        for slots in [1, 2, 4, 6, 50] {
            let found = gaps(slots, kind);
            println!("{}, {slots} slots: {found:.2?}", kind.name);
            for (n, gap) in found.iter().enumerate() {
                if gap.percent > MOST[n] && gap.jobs > MOST_JOBS {
                    wrong += &format!("\n{}, {slots} slots: {gap:.2?}", kind.name);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
