//! The directory for temporary files that each job has for itself.

use crate::cluster::{Cluster, kill_9};
use crate::patience::{find, until};
use std::path::Path;

const SCRIPT: &str = "echo $TMPDIR >dir; stat -c '%a %u' $TMPDIR >mode; mkdir $TMPDIR/d; \
                      touch $TMPDIR/d/f; ln -s $PWD/keep $TMPDIR/link";

/// It waits for the next task a while before it is removed.
fn gone(dir: &str) {
    until(&format!("{dir} goes"), || !Path::new(dir.trim()).exists());
}

#[test]
fn elements_of_an_array_use_directories_again_and_find_them_empty() {
    let cluster = Cluster::up("--hosts 1 --slots 3 --masters 1 --cgroup off");
    let work = cluster.work();
    let script = "ls -A $TMPDIR >>left; touch $TMPDIR/f; echo $TMPDIR >>dirs";
    cluster.csub(&["-env", "none", "-J", "a[1-60]", script]);
    let done = |states: &std::collections::BTreeMap<(u32, u32), String>| {
        states.len() == 60 && states.values().all(|s| s == "DONE")
    };
    cluster.wait(done);
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
    assert_eq!(read("left"), "");
    let all = read("dirs");
    let dirs: std::collections::BTreeSet<&str> = all.lines().collect();
    assert_eq!(all.lines().count(), 60);
    assert!(dirs.len() < 30, "{dirs:?}");
    dirs.into_iter().for_each(gone);
}

#[test]
fn what_a_killed_shepherd_leaves_is_removed() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1");
    let work = cluster.work();
    let script =
        "mkdir $TMPDIR/d; touch $TMPDIR/d/f; echo $PPID $TMPDIR >new; mv new out; sleep 1000";
    cluster.csub(&["-env", "none", script]);
    let out = work.join("out");
    let text = find("it starts", || std::fs::read_to_string(&out).ok());
    let (pid, dir) = text.split_once(' ').unwrap();
    kill_9(pid.parse().unwrap());
    gone(dir);
}

/// Neither its group nor its directory serves another job.
#[test]
fn the_directory_of_a_job_whose_limits_were_changed_goes_with_it() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1");
    let out = cluster.work().join("out");
    let script =
        "touch $TMPDIR/f; echo $TMPDIR >new; mv new out; while [ ! -e go ]; do sleep .1; done";
    let id = cluster.csub(&["-env", "none", script]).to_string();
    until("it runs", || out.exists());
    cluster.ok("cmod", &["-M", "500M", &id]);
    let limits = cluster.local("h1").join(format!("scratch/{id}.0.1.limits"));
    until("its host knows the limit", || limits.exists());
    std::fs::write(cluster.work().join("go"), "").unwrap();
    gone(&std::fs::read_to_string(out).unwrap());
}

#[test]
fn the_directory_of_a_shepherd_that_died_after_the_end_goes() {
    let cluster = Cluster::up_armed("--hosts 1 --slots 1 --masters 1");
    let out = cluster.work().join("out");
    cluster.arm("shepherd.after_end=kill");
    cluster.csub(&["-env", "none", "echo $TMPDIR >new; mv new out"]);
    until("it runs", || out.exists());
    gone(&std::fs::read_to_string(out).unwrap());
}

#[test]
fn a_job_has_a_tmpdir_of_its_own_that_goes_with_it() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let work = cluster.work();
    std::fs::create_dir(work.join("keep")).unwrap();
    std::fs::write(work.join("keep/file"), "kept").unwrap();
    cluster.csub(&["-env", "none", SCRIPT]);
    cluster.csub(&["-env", "TMPDIR=/var/tmp", "echo $TMPDIR >given"]);
    let done = |states: &std::collections::BTreeMap<(u32, u32), String>| {
        states.len() == 2 && states.values().all(|s| s == "DONE")
    };
    cluster.wait(done);
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
    let dir = read("dir");
    assert!(dir.starts_with("/tmp/corral.h1."), "{dir}");
    let uid = nix::unistd::geteuid();
    assert_eq!(read("mode"), format!("700 {uid}\n"));
    gone(&dir);
    assert_eq!(read("keep/file"), "kept", "no link is followed");
    assert_eq!(read("given"), "/var/tmp\n");
}
