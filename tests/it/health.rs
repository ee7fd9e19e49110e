//! What administrators see of a cluster's health: `cadmin check` against live clusters.

use crate::cluster::{Cluster, kill_9, text};
use std::time::Duration;

/// Runs `cadmin check`, which must end with `code`; gives what it said.
fn check(cluster: &Cluster, code: i32) -> String {
    let out = cluster.run("cadmin", &["check"]);
    assert_eq!(
        out.status.code(),
        Some(code),
        "{}\n{}",
        text(&out),
        cluster.logs()
    );
    text(&out)
}

#[test]
fn a_working_cluster_is_sound_under_load_and_while_a_leader_is_replaced() {
    let cluster = Cluster::up("--hosts 2 --slots 4 --masters 2 --lease 3");
    check(&cluster, 0);
    let load = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let one = |_| cluster.csub(&["-J", "a[1-10]", "sleep 0.1"]);
            (0..12).map(one).collect::<Vec<u32>>()
        });
        check(&cluster, 0);
        let leader = cluster
            .ps()
            .into_iter()
            .find(|p| p.leader)
            .expect("a leader");
        kill_9(leader.pid);
        while !load.is_finished() {
            check(&cluster, 0);
        }
        load.join().unwrap()
    });
    cluster.wait(Duration::from_secs(60), |s| {
        let done = s.values().filter(|s| *s == "DONE").count();
        done == load.len() * 10
    });
    let said = check(&cluster, 0);
    assert!(
        said.contains("2 epochs") && said.contains("2 hosts"),
        "{said}"
    );
    // Damage hits what it touches: work goes on, the place is named, the code is 1.
    let journal = cluster.share().join("epoch/000001/journal.0001.yaml");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[700] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    let said = check(&cluster, 1);
    assert!(said.contains("epoch/000001/journal.0001.yaml:"), "{said}");
    let after = cluster.csub(&["true"]);
    cluster.wait(Duration::from_secs(20), |s| {
        s.get(&(after, 0)).is_some_and(|s| s == "DONE")
    });
    bytes[700] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    check(&cluster, 0);
    // No leader at all.
    for p in cluster.ps().into_iter().filter(|p| p.role == "cbsched") {
        kill_9(p.pid);
    }
    let said = check(&cluster, 1);
    assert!(said.contains("nobody leads"), "{said}");
}
