//! Files of the share that somebody else wrote while daemons run: an epoch file that names no epoch.
//! All goes on by itself, and what was found is named.

use crate::cluster::{Cluster, exists, text};
use crate::patience::{until, until_or};
use corral::record::leader::{EpochDoc, encode_fixed};

/// The content of an epoch file with a right checksum.
fn naming(epoch: u64) -> Vec<u8> {
    let doc = EpochDoc {
        epoch,
        host: "elsewhere".into(),
        nonce: "forged".into(),
        ..EpochDoc::default()
    };
    encode_fixed(&doc).unwrap()
}

/// Waits until `cinfo -health` says what is due.
fn health_until(cluster: &Cluster, due: impl Fn(&str) -> bool) {
    until_or(|| due(&cluster.health()), || cluster.health());
}

/// Overwrites the epoch file, waits until the leader gives up, and submits a job to the next one;
/// gives the job's id.
fn after_forging(cluster: &Cluster, bytes: &[u8]) -> u32 {
    let leader = cluster.leader();
    std::fs::write(cluster.share().join("leader/epoch"), bytes).unwrap();
    until("the leader ends", || !exists(leader.pid));
    cluster.dev_up("");
    cluster.csub(&["true"])
}

/// Leaders step down; the next one claims above it, or writes it anew where it is no epoch of this
/// cluster, and says so.
#[test]
fn an_epoch_file_that_somebody_else_wrote_costs_one_leader_and_is_named() {
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 2 --lease 6 --cgroup off");
    let path = cluster.share().join("leader/epoch");
    let named = path.to_str().unwrap();
    let forged: [(&str, Vec<u8>); 6] = [
        ("is damaged", b"not an epoch\n".to_vec()),
        ("is damaged", Vec::new()),
        ("is damaged", vec![b'x'; 5000]),
        ("names epoch 50,", naming(50)),
        ("names epoch 5000000,", naming(5_000_000)),
        ("names epoch 18446744073709551615,", naming(u64::MAX)),
    ];
    let mut jobs = Vec::new();
    for (due, bytes) in forged {
        // On a slow machine the leader that names the file may lose its lease to the other master.
        let tries = (0..3).map(|_| {
            jobs.push(after_forging(&cluster, &bytes));
            let leader = cluster.leader().host;
            let log = cluster.log(&format!("cbsched.{leader}"));
            let line = log.lines().rev().find(|l| l.contains(named)).unwrap_or("");
            let health = cluster.health();
            let shown = health.contains(due) && health.contains(named);
            (line.contains(due) && shown, health)
        });
        let seen: Vec<_> = tries.take_while(|(named, _)| !named).collect();
        assert!(
            seen.len() < 3,
            "{due} is not said: {seen:?}\n{}",
            cluster.logs()
        );
    }
    cluster.wait(|s| {
        let done = |id: &u32| s.get(&(*id, 0)).is_some_and(|s| s == "DONE");
        jobs.iter().all(done)
    });
    let out = cluster.run("cadmin", &["check"]);
    let output = text(&out);
    assert_eq!(out.status.code(), Some(0), "{output}");
    assert!(
        output.contains("alarm: ") && output.contains(named),
        "{output}"
    );
}

/// A directory that the leader cannot write, and a host of which the same is true: the others work,
/// the leader stays, both are named.
#[test]
fn a_host_directory_that_cannot_be_written_costs_that_host_only() {
    let cluster = Cluster::up_armed("--hosts 2 --slots 2 --masters 1 --cgroup off");
    std::fs::create_dir(cluster.share().join("hosts/oldnode")).unwrap();
    let refused =
        ["oldnode", "h2"].map(|host| format!("sys.open@/hosts/{host}/orders.=error:EACCES"));
    cluster.arm(&refused.join("\n"));
    crate::cluster::kill_9(cluster.leader().pid);
    cluster.dev_up("");
    let leader = cluster.leader();
    // An orders file is made with its first order: one job asks for that host.
    let first = cluster.csub(&["-m", "h2", "true"]);
    let jobs: Vec<u32> = (0..6).map(|_| cluster.csub(&["true"])).collect();
    cluster.wait(|s| {
        let done = |id: &u32| s.get(&(*id, 0)).is_some_and(|s| s == "DONE");
        jobs.iter().all(done)
    });
    health_until(&cluster, |health| {
        let due = [
            // Nobody has an order for the other one.
            "orders cannot be written for 1 host",
            "hosts/h2/orders.",
            "gets no work: its orders",
        ];
        due.iter().all(|due| health.contains(due))
    });
    assert_eq!(cluster.leader().pid, leader.pid, "another leader");
    cluster.arm("");
    let there = cluster.csub(&["-m", "h2", "true"]);
    cluster.wait(|s| {
        let done = |id: &u32| s.get(&(*id, 0)).is_some_and(|s| s == "DONE");
        [first, there].iter().all(done)
    });
    health_until(&cluster, |health| !health.contains("cannot be written"));
}

/// What a new leader finds gone, cannot clear away, or may not write for one host: it leads, the
/// others work, and each is named.
#[test]
fn a_new_leader_bears_a_missing_inbox_and_what_it_cannot_clear_away() {
    let cluster = Cluster::up_armed("--hosts 2 --slots 2 --masters 1 --cgroup off");
    let share = cluster.share();
    let root = corral::sys::users::may_switch();
    let notes = share.join("snapshot/notes.txt");
    std::fs::write(&notes, "of a stranger").unwrap();
    if root {
        std::os::unix::fs::chown(&notes, Some(65_534), Some(65_534)).unwrap();
    }
    // A quota or a read-only mount of this one host: the share itself has room.
    cluster
        .arm("sys.rename@/snapshot/.foreign.=error:EACCES\nsys.open@/hosts/h2/orders.=error:EROFS");
    crate::cluster::kill_9(cluster.leader().pid);
    std::fs::remove_dir_all(share.join("inbox")).unwrap();
    cluster.dev_up("");
    let jobs: Vec<u32> = (0..4).map(|_| cluster.csub(&["true"])).collect();
    cluster.wait(|s| {
        let done = |id: &u32| s.get(&(*id, 0)).is_some_and(|s| s == "DONE");
        jobs.iter().all(done)
    });
    let there = cluster.csub(&["-m", "h2", "true"]);
    health_until(&cluster, |health| {
        let mut due = vec![
            "inbox: No such file",
            "it was created again",
            "hosts/h2/orders.",
        ];
        if root {
            due.push("snapshot/notes.txt belonged to uid 65534: it is not read");
        }
        !health.contains("DISK FULL") && due.iter().all(|due| health.contains(due))
    });
    cluster.arm("");
    cluster.wait(|s| s.get(&(there, 0)).is_some_and(|s| s == "DONE"));
}
