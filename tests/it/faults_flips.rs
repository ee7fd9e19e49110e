//! A byte flips in the files through which leader and hosts talk, while jobs run and wait: nothing
//! is lost, the host goes on within seconds, and the file is named.

use crate::cluster::{Cluster, signal};
use crate::patience::until;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The newest file of h1 whose name begins so.
fn newest(cluster: &Cluster, prefix: &str) -> PathBuf {
    let dir = std::fs::read_dir(cluster.share().join("hosts/h1")).unwrap();
    let names = dir.map(|entry| entry.unwrap().path());
    let is = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(prefix)
    };
    names.filter(is).max().expect("a file of that name")
}

fn len(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Flips a bit of the last line, as a disk does.
fn flip(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let at = bytes.len() - 30;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_at(&[bytes[at] ^ 1], at as u64).unwrap();
}

fn pid_of(cluster: &Cluster, role: &str) -> i32 {
    let all = cluster.ps();
    let found = all.iter().find(|p| p.role == role && p.host == "h1");
    found.expect("a daemon of h1").pid
}

/// Jobs on h1: some that run, and one more than there is room for.
fn jobs(cluster: &Cluster) -> Vec<u32> {
    let one = |_| {
        cluster.csub(&[
            "-m",
            "h1",
            "echo x >>$CB_JOBID; while [ ! -e go ]; do sleep 0.1; done",
        ])
    };
    let all: Vec<u32> = (0..5).map(one).collect();
    cluster.wait(|s| {
        all.iter()
            .filter(|id| s.get(&(**id, 0)).is_some_and(|s| s == "RUN"))
            .count()
            == 4
    });
    all
}

/// Lets the jobs end.
fn go(cluster: &Cluster) {
    std::fs::write(cluster.work().join("go"), "").unwrap();
}

/// All jobs end well, each was started once, and what is submitted now is not long in coming.
fn go_on(cluster: &Cluster, mut all: Vec<u32>) {
    go(cluster);
    cluster.wait(|s| {
        all.iter()
            .all(|id| s.get(&(*id, 0)).is_some_and(|s| s == "DONE"))
    });
    all.retain(|id| {
        let ran = std::fs::read_to_string(cluster.work().join(id.to_string()));
        ran.is_ok_and(|text| text != "x\n")
    });
    assert!(all.is_empty(), "started twice: {all:?}");
    let after = cluster.csub(&["-m", "h1", "true"]);
    cluster.wait(|s| s.get(&(after, 0)).is_some_and(|s| s == "DONE"));
}

/// The file is named, until another leader leads, which has its own.
fn named(cluster: &Cluster, path: &Path, due: &str) {
    let path = path.to_str().unwrap();
    let says = |cluster: &Cluster| {
        let health = cluster.health();
        health
            .lines()
            .any(|line| line.contains(path) && line.contains(due))
    };
    until("the alarm", || says(cluster));
    let before = cluster.leader().pid;
    crate::cluster::kill_9(before);
    until("another leader", || {
        cluster.ps().iter().any(|p| p.leader && p.pid != before)
    });
    until("no alarm", || !says(cluster));
}

#[test]
fn a_byte_that_flips_in_orders_costs_no_job_and_the_host_goes_on() {
    let cluster = Cluster::up("--hosts 2 --slots 4 --masters 2 --cgroup off");
    let mut all = jobs(&cluster);
    let orders = newest(&cluster, "orders.");
    let cbexe = pid_of(&cluster, "cbexe");
    signal(cbexe, "-STOP");
    // What comes next is an order of any kind: a start is what the leader repeats longest.
    let before = len(&orders);
    all.push(cluster.csub(&["-m", "h1", "true"]));
    crate::cluster::text(&cluster.run("ckill", &[&all[0].to_string()]));
    until("an order", || len(&orders) > before);
    flip(&orders);
    signal(cbexe, "-CONT");
    let killed = all.remove(0);
    cluster.wait(|s| s.get(&(killed, 0)).is_some_and(|s| s == "EXIT"));
    go_on(&cluster, all);
    let output = || std::fs::read_to_string(&orders).unwrap_or_default() + &cluster.logs();
    assert_ne!(
        newest(&cluster, "orders."),
        orders,
        "one part\n{}",
        output()
    );
    named(&cluster, &orders, "damaged as host h1 reads it");
}

#[test]
fn a_byte_that_flips_in_reports_loses_no_end_and_the_host_goes_on() {
    let cluster = Cluster::up("--hosts 2 --slots 4 --masters 2 --lease 120 --cgroup off");
    let all = jobs(&cluster);
    let reports = newest(&cluster, "reports.");
    let leader = cluster.leader().pid;
    let before = len(&reports);
    signal(leader, "-STOP");
    go(&cluster);
    until("a report", || len(&reports) > before);
    flip(&reports);
    signal(leader, "-CONT");
    go_on(&cluster, all);
    assert_ne!(newest(&cluster, "reports."), reports, "another file");
    assert_eq!(cluster.leader().pid, leader, "one leader all the time");
    named(&cluster, &reports, "damaged");
}
