//! A share restored from an old backup: hosts know more than the journal, so nothing is started
//! until an administrator says that this is known.

use crate::cluster::{Cluster, kill_9, lines, text};
use std::process::Command;
use std::time::{Duration, Instant};

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(done.unwrap().success());
}

fn stop(cluster: &Cluster) {
    let dir = cluster.share().parent().unwrap().display().to_string();
    cluster.ok("cadmin", &["dev", "down", "--dir", &dir]);
}

fn until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "{what} within {limit:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_share_restored_from_a_backup_starts_nothing_until_it_is_confirmed() {
    let options = "--hosts 2 --slots 2 --masters 2 --lease 3";
    let cluster = Cluster::up(options);
    let ran = cluster.work().join("ran");
    cluster.ok("cadmin", &["qinact"]);
    let job = cluster.csub(&["echo x >> ran"]);
    // The backup, in which the job waits.
    stop(&cluster);
    let backup = cluster.share().with_file_name("backup");
    copy(&cluster.share(), &backup);
    // What the backup does not know: the job runs, leaders change.
    cluster.dev_up(options);
    cluster.ok("cadmin", &["qact"]);
    cluster.wait(Duration::from_secs(20), |s| {
        s.get(&(job, 0)).is_some_and(|s| s == "DONE")
    });
    assert_eq!(lines(&ran).len(), 1);
    let leader = cluster
        .ps()
        .into_iter()
        .find(|p| p.leader)
        .expect("a leader");
    kill_9(leader.pid);
    let later = cluster.csub(&["echo y >> ran"]);
    cluster.wait(Duration::from_secs(20), |s| {
        s.get(&(later, 0)).is_some_and(|s| s == "DONE")
    });
    stop(&cluster);
    // The accident.
    std::fs::remove_dir_all(cluster.share()).unwrap();
    std::fs::rename(&backup, cluster.share()).unwrap();
    cluster.dev_up(options);
    until("an alarm", Duration::from_secs(20), || {
        cluster
            .ok("cinfo", &["-health"])
            .contains("the share went back")
    });
    let refused = cluster.run("cadmin", &["qact"]);
    assert!(!refused.status.success(), "{}", text(&refused));
    assert!(
        text(&refused).contains("cadmin restored --confirm"),
        "{}",
        text(&refused)
    );
    let refused = cluster.run("csub", &["true"]);
    assert!(!refused.status.success(), "{}", text(&refused));
    let said = cluster.run("cadmin", &["check"]);
    assert_eq!(said.status.code(), Some(1), "{}", text(&said));
    assert!(
        text(&said).contains("the share went back"),
        "{}",
        text(&said)
    );
    assert_eq!(lines(&ran).len(), 2, "nothing was started");
    // The administrator knows.
    let said = cluster.ok("cadmin", &["restored", "--confirm"]);
    assert!(said.contains("1 waiting jobs are held"), "{said}");
    cluster.ok("cadmin", &["qact"]);
    let new = cluster.csub(&["true"]);
    assert!(new > 10_000, "{new}");
    let states = cluster.wait(Duration::from_secs(30), |s| {
        s.get(&(new, 0)).is_some_and(|s| s == "DONE")
    });
    assert_eq!(states.get(&(job, 0)).map(String::as_str), Some("PSUSP"));
    assert_eq!(lines(&ran).len(), 2, "what waited is held");
    let said = cluster.run("cadmin", &["check"]);
    assert_eq!(
        said.status.code(),
        Some(0),
        "{}\n{}",
        text(&said),
        cluster.logs()
    );
    // And it can be run again, by somebody's word.
    cluster.ok("cresume", &[&job.to_string()]);
    cluster.wait(Duration::from_secs(30), |s| {
        s.get(&(job, 0)).is_some_and(|s| s == "DONE")
    });
    assert_eq!(lines(&ran).len(), 3);
}
