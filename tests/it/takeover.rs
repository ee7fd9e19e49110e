//! A leader that is killed is replaced in time, and work goes on.

use crate::cluster::{Cluster, kill_9};
use std::time::{Duration, Instant};

#[test]
fn with_a_lease_of_three_seconds_work_goes_on_within_ten() {
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 2 --lease 3");
    let before = cluster.csub(&["sleep 3; echo kept > kept"]);
    let leader = cluster
        .ps()
        .into_iter()
        .find(|p| p.leader)
        .expect("a leader");
    let begin = Instant::now();
    kill_9(leader.pid);
    // Nobody restarts it: the other candidate takes over.
    let after = cluster.csub(&["true"]);
    cluster.wait(Duration::from_secs(20), |s| {
        s.get(&(after, 0)).is_some_and(|s| s == "DONE")
    });
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
    let heir = cluster
        .ps()
        .into_iter()
        .find(|p| p.leader)
        .expect("a new leader");
    assert_ne!(heir.pid, leader.pid);
    // What ran meanwhile ran on.
    cluster.wait(Duration::from_secs(20), |s| {
        s.get(&(before, 0)).is_some_and(|s| s == "DONE")
    });
    assert!(cluster.work().join("kept").exists());
    let id = cluster.ok("cid", &[]);
    assert!(id.contains(&heir.host), "{id}");
}
