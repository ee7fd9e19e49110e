//! The development cluster itself: up, what it lists, restart of what died, down without a trace.

use crate::cluster::{Cluster, exists, kill_9, reachable, text};
use crate::patience::find;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// A clone may lie below a home directory that others cannot enter; benchmarks and tests that play
/// several users run all the same.
#[test]
fn programs_of_a_closed_clone_run_as_another_user() {
    let (closed, open) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let built = closed.path().join("cb");
    crate::cluster::copy_program(Path::new(env!("CARGO_BIN_EXE_cb")), &built);
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(closed.path(), 0o700);
    mode(open.path(), 0o755);
    let program = reachable(open.path(), built.to_str().unwrap());
    let mut command = Command::new(program);
    command.args(["csub", "-V"]).current_dir("/");
    if crate::security::is_root() {
        command.uid(65_534);
        let mut closed = Command::new(&built);
        closed.arg("csub").current_dir("/").uid(65_534);
        let refused = closed.output().unwrap_err().kind();
        assert_eq!(refused, std::io::ErrorKind::PermissionDenied);
    }
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", text(&out));
}

#[test]
fn a_cluster_comes_up_restarts_what_died_and_goes_without_a_trace() {
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 2");
    let before = cluster.ps();
    let count = |role: &str| before.iter().filter(|p| p.role == role).count();
    assert_eq!(
        (count("cbsched"), count("cbls"), count("cbexe")),
        (2, 2, 2),
        "{before:?}"
    );
    assert_eq!(before.iter().filter(|p| p.leader).count(), 1, "{before:?}");
    let dir = cluster.dir().to_str().unwrap();
    let env = cluster.ok("cadmin", &["dev", "env", "--dir", dir]);
    assert!(
        env.contains(&format!("\nexport MANPATH='{dir}/man':\"$")),
        "{env}"
    );
    for page in ["man1/cjobs.1", "man5/cb.yaml.5", "man8/cadmin.8"] {
        let text = std::fs::read_to_string(cluster.dir().join("man").join(page)).unwrap();
        assert!(text.contains(".TH "), "{page}");
    }

    let victim = before
        .iter()
        .find(|p| p.role == "cbls" && p.host == "h2")
        .unwrap();
    kill_9(victim.pid);
    cluster.dev_up("");
    let after = cluster.ps();
    assert_eq!(after.iter().filter(|p| p.role == "cbls").count(), 2);
    for p in before.iter().filter(|p| p.pid != victim.pid) {
        assert!(
            after.iter().any(|q| q.pid == p.pid),
            "{p:?} was restarted too"
        );
    }

    // A job with a child that left its session must not survive either.
    cluster.csub(&["setsid sleep 4321 & echo $! > pid; sleep 4321"]);
    let pid_file = cluster.work().join("pid");
    let pid = || std::fs::read_to_string(&pid_file).ok()?.trim().parse().ok();
    let pid: i32 = find("the job's child", pid);
    assert!(exists(pid));
    // Nor one that is stopped, and with control groups of version 1 frozen.
    let stopped = cluster.csub(&["sleep 4322"]);
    let wait_for = |state: &str| {
        let is = |states: &BTreeMap<(u32, u32), String>| {
            states.get(&(stopped, 0)).is_some_and(|s| s == state)
        };
        cluster.wait(is);
    };
    wait_for("RUN");
    cluster.ok("cstop", &[&stopped.to_string()]);
    wait_for("USUSP");
    let members = cluster.ps();
    assert!(members.iter().any(|p| p.role == "cbtask"), "{members:?}");
    let out = cluster.down();
    assert!(out.status.success(), "{}", text(&out));
    assert!(!cluster.share().exists());
    assert!(!exists(pid), "the job's child is still there");
    for p in members {
        assert!(!exists(p.pid), "{p:?} is still there");
    }
}
