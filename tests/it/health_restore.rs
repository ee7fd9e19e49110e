//! A share restored from an old backup: hosts know more than the journal, so nothing is started
//! until an administrator says that this is known.

use crate::cluster::{Cluster, exists, kill_9, lines, text};
use crate::patience::until;
use std::process::Command;

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(done.unwrap().success());
}

fn stop(cluster: &Cluster) {
    let dir = cluster.share().parent().unwrap().display().to_string();
    cluster.ok("cadmin", &["dev", "down", "--dir", &dir]);
}

#[test]
fn a_share_restored_from_a_backup_starts_nothing_until_it_is_confirmed() {
    let options = "--hosts 2 --slots 2 --masters 2";
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
    cluster.wait(|s| s.get(&(job, 0)).is_some_and(|s| s == "DONE"));
    assert_eq!(lines(&ran).len(), 1);
    let leader = cluster
        .ps()
        .into_iter()
        .find(|p| p.leader)
        .expect("a leader");
    kill_9(leader.pid);
    let later = cluster.csub(&["echo y >> ran"]);
    cluster.wait(|s| s.get(&(later, 0)).is_some_and(|s| s == "DONE"));
    stop(&cluster);
    // The accident.
    std::fs::remove_dir_all(cluster.share()).unwrap();
    std::fs::rename(&backup, cluster.share()).unwrap();
    cluster.dev_up(options);
    until("an alarm", || {
        cluster
            .health()
            .contains("the share is older than the cluster")
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
    let output = cluster.run("cadmin", &["check"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("the share is older than the cluster"),
        "{}",
        text(&output)
    );
    assert_eq!(lines(&ran).len(), 2, "nothing was started");
    // The administrator knows.
    let output = cluster.ok("cadmin", &["restored", "--confirm"]);
    assert!(output.contains("1 pending jobs are held"), "{output}");
    cluster.ok("cadmin", &["qact"]);
    let new = cluster.csub(&["true"]);
    assert!(new > 10_000, "{new}");
    let states = cluster.wait(|s| s.get(&(new, 0)).is_some_and(|s| s == "DONE"));
    assert_eq!(states.get(&(job, 0)).map(String::as_str), Some("PSUSP"));
    assert_eq!(lines(&ran).len(), 2, "what waited is held");
    let output = cluster.run("cadmin", &["check"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}\n{}",
        text(&output),
        cluster.logs()
    );
    // And it can be run again, by somebody's word.
    cluster.ok("cresume", &[&job.to_string()]);
    cluster.wait(|s| s.get(&(job, 0)).is_some_and(|s| s == "DONE"));
    assert_eq!(lines(&ran).len(), 3);
}

/// The usual case: the copy is of the epoch that still goes on when it is put back.
#[test]
fn a_copy_of_the_same_epoch_is_noticed_and_its_ids_are_not_given_twice() {
    let options = "--hosts 2 --slots 3 --masters 2";
    let cluster = Cluster::up(options);
    let ran = cluster.work().join("ran");
    let runs = cluster.csub(&["echo a >> ran; until [ -e go ]; do sleep 0.1; done"]);
    until("a start", || {
        ran.exists() && cluster.states()[&(runs, 0)] == "RUN"
    });
    cluster.ok("cadmin", &["qinact"]);
    let waits = cluster.csub(&["echo b >> ran"]);
    let backup = cluster.share().with_file_name("backup");
    copy(&cluster.share(), &backup);
    // What the copy does not know: one job ends, one runs, another is accepted and goes on.
    std::fs::write(cluster.work().join("go"), "").unwrap();
    cluster.ok("cadmin", &["qact"]);
    let lost = cluster.csub(&["echo c >> ran; echo $$ > lost.pid; exec sleep 600"]);
    cluster.wait(|s| {
        let is = |id, stat: &str| s.get(&(id, 0)).is_some_and(|s| s == stat);
        is(runs, "DONE") && is(waits, "DONE") && is(lost, "RUN")
    });
    until("its line", || lines(&ran).len() == 3);
    let daemons = || {
        let is = |p: &crate::cluster::Process| matches!(&*p.role, "cbsched" | "cbls" | "cbexe");
        cluster.ps().into_iter().filter(is).collect::<Vec<_>>()
    };
    daemons().iter().for_each(|p| kill_9(p.pid));
    until("the end of all daemons", || daemons().is_empty());
    std::fs::remove_dir_all(cluster.share()).unwrap();
    std::fs::rename(&backup, cluster.share()).unwrap();
    cluster.dev_up(options);
    until("an alarm", || {
        cluster
            .health()
            .contains("the share is older than the cluster")
    });
    let refused = cluster.run("csub", &["echo d >> ran"]);
    assert!(!refused.status.success(), "{}", text(&refused));
    let output = cluster.run("cadmin", &["check"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("records missing from this journal"));
    let alive = lines(&cluster.work().join("lost.pid"));
    assert!(
        exists(alive[0].parse().unwrap()),
        "killed before anybody confirmed it"
    );
    let output = cluster.ok("cadmin", &["restored", "--confirm"]);
    assert!(output.contains("1 pending jobs are held"), "{output}");
    cluster.ok("cadmin", &["qact"]);
    let new = cluster.csub(&["true"]);
    assert!(new > 10_000, "{new}");
    // What ran when the copy was made has ended since, nobody remembers how: it is not run again.
    let states = cluster.wait(|s| {
        let is = |id, stat: &str| s.get(&(id, 0)).is_some_and(|s| s == stat);
        is(new, "DONE") && !is(runs, "RUN")
    });
    assert_eq!(states.get(&(waits, 0)).map(String::as_str), Some("PSUSP"));
    assert_eq!(lines(&ran).len(), 3, "nothing was started twice");
    // The held job runs once more by somebody's word, although its host knows a run of its name.
    cluster.ok("cresume", &[&waits.to_string()]);
    cluster.wait(|s| s.get(&(waits, 0)).is_some_and(|s| s == "DONE"));
    assert_eq!(lines(&ran).len(), 4);
    // The task that the share does not know is killed; then there is nothing to tell of it.
    let pid = lines(&cluster.work().join("lost.pid"));
    let pid: i32 = pid[0].parse().unwrap();
    until("its end", || !exists(pid));
    let unknown = format!("attempt {lost}.1");
    until("a clean check", || {
        let output = text(&cluster.run("cadmin", &["check"]));
        !output.contains(&unknown) && !output.contains("a defect")
    });
    assert!(
        !cluster.states().contains_key(&(lost, 0)),
        "its end is no job's"
    );
}
