//! The directory for temporary files that each job has for itself.

use crate::cluster::Cluster;
use std::path::Path;
use std::time::Duration;

const SCRIPT: &str = "echo $TMPDIR >dir; stat -c '%a %u' $TMPDIR >mode; mkdir $TMPDIR/d; \
                      touch $TMPDIR/d/f; ln -s $PWD/keep $TMPDIR/link";

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
    cluster.wait(Duration::from_secs(60), done);
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
    let dir = read("dir");
    assert!(dir.starts_with("/tmp/corral.1.0.1."), "{dir}");
    let uid = nix::unistd::geteuid();
    assert_eq!(read("mode"), format!("700 {uid}\n"));
    assert!(!Path::new(dir.trim()).exists(), "it is removed");
    assert_eq!(read("keep/file"), "kept", "no link is followed");
    assert_eq!(read("given"), "/var/tmp\n");
}
