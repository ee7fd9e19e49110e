//! Whose job comes first, shown by real jobs: queues' and jobs' priorities, users in turn, share
//! trees, dominant shares, strict queues, exclusive hosts.

use crate::cluster::Cluster;
use crate::policies::*;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;

const SECTIONS: &str = "
hosts:
- {name: default, slots: 1}
- {name: h1}
- {name: h2, slots: 6}
- {name: h3, slots: 9, resources: {lanes: 9, pool: 18}}
- {name: h4, slots: 2}
- {name: h5, slots: 2}
usergroups:
- {name: g1, members: all}
- {name: g2, members: all}
queues:
- {name: high, priority: 40, hosts: h1}
- {name: low, priority: 10, hosts: h1}
- {name: fair, priority: 10, hosts: h2, fairshare: '[g1,20] [g2,10]'}
- {name: dominant, priority: 10, hosts: h3, policy: drf, fairshare: '[g1,1] [g2,1]'}
- {name: loose, priority: 10, hosts: h4}
- {name: alone, priority: 10, hosts: h5, exclusive: yes}
- {name: strict, priority: 1, hosts: h4, strict: yes}
";

#[test]
fn the_order_of_jobs_is_that_of_the_policies() {
    let cluster = cluster(5, SECTIONS);
    side_by_side(
        &cluster,
        &[
            priorities,
            shares_of_two_to_one,
            dominant_shares,
            strict_and_loose,
            exclusive,
        ],
    );
}

/// A host of one slot: the higher queue first, in it the higher priority of the user, else by age.
fn priorities(cluster: &Cluster) {
    let ids = behind_a_closed_host(cluster, "h1", || {
        [
            cluster.csub(&["-q", "low", "true"]),
            cluster.csub(&["-q", "low", "true"]),
            cluster.csub(&["-q", "high", "-sp", "10", "true"]),
            cluster.csub(&["-q", "high", "-sp", "90", "true"]),
            cluster.csub(&["-q", "low", "true"]),
        ]
    });
    let [a, b, c, d, e] = ids;
    assert_eq!(order(cluster, &ids), [d, c, a, b, e]);
}

/// Jobs of a group, each until gate `queue` opens and a second more.
fn in_group(cluster: &Cluster, queue: &str, group: &str, req: &str, n: u32) -> Vec<u32> {
    let command = format!("{}; sleep 1", gate(queue));
    let words = ["-q", queue, "-G", group, "-R", req, &command];
    (0..n).map(|_| cluster.csub(&words)).collect()
}

/// Which of the jobs are among the first `n` of all that start.
fn first(cluster: &Cluster, n: usize, all: &[u32], of: &[u32]) -> usize {
    let order = order(cluster, all);
    order[..n].iter().filter(|id| of.contains(id)).count()
}

/// The sum of the last column of `cqueues -r`.
fn tree_run_time(tree: &str) -> u64 {
    let last = |line: &str| line.split_whitespace().last()?.parse::<u64>().ok();
    tree.lines().filter_map(last).sum()
}

/// Six slots and two groups of 20 and 10 shares: four slots and two, at the start and later on.
fn shares_of_two_to_one(cluster: &Cluster) {
    let (g1, g2) = behind_a_closed_host(cluster, "h2", || {
        (
            in_group(cluster, "fair", "g1", "", 9),
            in_group(cluster, "fair", "g2", "", 9),
        )
    });
    let tree = until_said(cluster, &["cqueues", "-r", "fair"], |s| s.contains(" 4 "));
    assert!(tree.contains("SHARE_INFO_FOR: fair/"), "{tree}");
    // Nothing happens until the gate opens, and the run time of what runs grows all the same.
    for _ in 0..2 {
        let before = tree_run_time(&cluster.ok("cqueues", &["-r", "fair"]));
        let grown = |tree: &str| tree_run_time(tree) > before;
        until_said(cluster, &["cqueues", "-r", "fair"], grown);
    }
    open(cluster, "fair");
    let all = [g1.clone(), g2].concat();
    assert_eq!(first(cluster, 6, &all, &g1), 4);
    let later = first(cluster, 12, &all, &g1);
    assert!((7..=9).contains(&later), "{later} of the first 12");
}

/// The example of the theory: 9 of one resource and 18 of another; jobs of <1, 4> and of <3, 1>.
/// Dominant shares become equal at three jobs of the first kind and two of the second.
fn dominant_shares(cluster: &Cluster) {
    let (a, b) = behind_a_closed_host(cluster, "h3", || {
        (
            in_group(cluster, "dominant", "g1", "rusage[lanes=1:pool=4]", 4),
            in_group(cluster, "dominant", "g2", "rusage[lanes=3:pool=1]", 4),
        )
    });
    let all = [a.clone(), b].concat();
    open(cluster, "dominant");
    assert_eq!(first(cluster, 5, &all, &a), 3);
}

/// A wide job cannot start yet: in a strict queue the narrow one behind it waits, in others not.
fn strict_and_loose(cluster: &Cluster) {
    for (queue, overtakes) in [("loose", true), ("strict", false)] {
        let first = cluster.csub(&["-q", queue, &gate(queue)]);
        until(cluster, first, "RUN", is("RUN"));
        let wide = cluster.csub(&["-q", queue, "-n", "2", "true"]);
        until(cluster, wide, "tried", tried);
        let narrow = cluster.csub(&["-q", queue, "true"]);
        until(cluster, narrow, "tried", tried);
        open(cluster, queue);
        let done = all_done(cluster, &[first, wide, narrow]);
        let [(_, first), (wide, _), (narrow, _)] = [&done[0], &done[1], &done[2]].map(times);
        assert!(wide >= first, "{done:?}");
        assert_eq!(narrow < wide, overtakes, "{queue}: {done:?}");
    }
}

/// An exclusive job waits for the host to be empty and keeps others off it.
fn exclusive(cluster: &Cluster) {
    let before = cluster.csub(&["-q", "alone", &gate("before")]);
    until(cluster, before, "RUN", is("RUN"));
    let alone = cluster.csub(&["-q", "alone", "-x", &gate("alone")]);
    let waits = until(cluster, alone, "pending on hosts", pends(40));
    assert!(reason(&waits).contains("exclusive use"), "{waits}");
    open(cluster, "before");
    until(cluster, alone, "RUN", is("RUN"));
    let status = ["chosts", "-w", "h5"];
    until_said(cluster, &status, |s| s.contains("closed_Excl"));
    let after = cluster.csub(&["-q", "alone", "true"]);
    until(cluster, after, "pending on hosts", pends(40));
    open(cluster, "alone");
    let done = all_done(cluster, &[before, alone, after]);
    let [before, alone, after] = [&done[0], &done[1], &done[2]].map(times);
    assert!(alone.0 >= before.1 && after.0 >= alone.1, "{done:?}");
}

/// Needs jobs of several users, so only root can do it.
#[test]
fn users_come_in_turn() {
    if std::fs::metadata("/proc/self").is_ok_and(|m| uid(&m) != 0) {
        println!("skipped: only root can submit for several users");
        return;
    }
    let cluster = cluster(
        1,
        "hosts:\n- {name: h1, slots: 1}\nqueues:\n- {name: turns, policy: rr}\n- {name: fifo}\n",
    );
    // Other users must get at the programs and the share.
    let work = cluster.work();
    let top = work.ancestors().nth(2).unwrap();
    std::fs::set_permissions(top, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (queue, expected) in [("turns", "ababa"), ("fifo", "aaabb")] {
        let ids: Vec<(char, u32)> = behind_a_closed_host(&cluster, "h1", || {
            let users = [('a', 1), ('a', 1), ('a', 1), ('b', 2), ('b', 2)];
            let submit = |(name, uid)| {
                let words = ["-q", queue, "-cwd", "/", "true"];
                (name, csub_as(&cluster, uid, &words))
            };
            users.map(submit).to_vec()
        });
        let started = order(&cluster, &ids.iter().map(|(_, id)| *id).collect::<Vec<_>>());
        let name = |id: &u32| ids.iter().find(|(_, other)| other == id).map(|(n, _)| *n);
        let names: String = started.iter().filter_map(name).collect();
        assert_eq!(names, expected, "{queue}");
        let known: Vec<Value> = jobs(&cluster).into_values().collect();
        assert!(known.iter().any(|job| job["uid"] == 2), "{known:?}");
    }
}

fn uid(of: &std::fs::Metadata) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    of.uid()
}
