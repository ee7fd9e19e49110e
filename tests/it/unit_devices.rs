//! Device nodes of GPUs: a job opens those of its own units only, with a sensor that names them and
//! nodes of a driver that is not there. As root, where control groups can deny devices.

use crate::cluster::{Cluster, kill_9, text};
use crate::policies::{configure, until_said};
use corral::sys::cgroup::Hierarchy;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const SENSOR: &str = "#!/bin/sh\nwhile :; do cat <<E\n- resource: gpu\n  value: [GPU-a, GPU-b]\n  \
                      devices: ['195:0', '195:1']\n- resource: gpu_mem\n  per_unit: gpu\n  \
                      value: [1000, 2000]\n---\nE\nsleep 1; done\n";

/// Nodes 195:0 and 195:1; `None`: this test is not for this machine, and says why.
fn nodes() -> Option<tempfile::TempDir> {
    let hierarchy = Hierarchy::detect(&format!("test-nodes.{}", std::process::id()));
    let denies = hierarchy.denies_devices();
    hierarchy.remove_parents();
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let made = |name: &str, major: &str, minor: &str| {
        let path = dir.path().join(name);
        let made = Command::new("mknod")
            .arg(&path)
            .args(["c", major, minor])
            .output();
        let open = std::fs::Permissions::from_mode(0o666);
        made.is_ok_and(|out| out.status.success()) && std::fs::set_permissions(&path, open).is_ok()
    };
    let all = made("zero", "1", "5") && made("0", "195", "0") && made("1", "195", "1");
    let opens = all && std::fs::File::open(dir.path().join("zero")).is_ok();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    if !denies || !opens {
        println!(
            "skipped: {}, or no device nodes can be made here",
            hierarchy.describe()
        );
        return None;
    }
    Some(dir)
}

/// Says for each node what came of opening it: `+` without a driver, `-` denied.
fn script(dir: &Path) -> String {
    format!(
        "for n in 0 1; do case $(sh -c \": <{}/$n\" 2>&1) in *'not permitted'*) printf -- -;; \
         *'No such device'*) printf +;; *) printf '?';; esac; done; ",
        dir.display()
    )
}

fn cluster(options: &str) -> Cluster {
    let c = Cluster::up(&format!("--hosts 1 --slots 4 --masters 1 {options}"));
    configure(
        &c,
        "hosts:\n  - {names: h1, slots: 4}\nqueues:\n  - {name: normal, priority: 30}\n",
    );
    let path = c.dir().join("sbin/ress.host");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let aside = path.with_extension("new");
    std::fs::write(&aside, SENSOR).unwrap();
    std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    let known = |output: &str| {
        output
            .split_whitespace()
            .any(|word| word == "[GPU-a,GPU-b]")
    };
    until_said(&c, &["cload", "-s", "gpu"], known);
    c
}

/// What a job of these options printed.
fn ran(c: &Cluster, options: &[&str], script: &str) -> String {
    let mut command = c.command("csub");
    let out = command
        .arg("-I")
        .args(options)
        .arg(script)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}\n{}", text(&out), c.logs());
    // csub ends with the job's output; until the leader knows of the end, the job has its units.
    until_said(c, &["cjobs", "-a", "-noheader"], |output| {
        !output.contains(" RUN ")
    });
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn a_job_opens_the_devices_of_its_own_units_only() {
    let Some(dir) = nodes() else {
        return;
    };
    let open = script(dir.path());
    let c = cluster("");
    assert_eq!(ran(&c, &[], &open), "--");
    assert_eq!(ran(&c, &["-R", "rusage[gpu=2]"], &open), "++");
    // The memory of each unit is what the sensor says: only the second has so much.
    let half = ["-R", "rusage[gpu=0.5:gpu_mem=1500]"];
    assert_eq!(ran(&c, &half, &open), "-+");
    // Commands that it starts beside itself have its units and no others.
    let beside = format!(
        "{open} $LSF_BINDIR/claunch h1 '{}'",
        open.replace('\'', "'\\''")
    );
    let one = ["-n", "2", "-R", "rusage[gpu=1]"];
    assert_eq!(ran(&c, &one, &beside), "+-+-");
    // A restart of cbexe takes nothing away, from what runs and from what comes.
    let go = c.work().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.1; done; {open}", go.display());
    let out = c.work().join("out");
    let id = c.csub(&["-o", out.to_str().unwrap(), "-R", "rusage[gpu=1]", &wait]);
    until_said(&c, &["cjobs", &id.to_string()], |output| {
        output.contains("RUN")
    });
    let exe = c.ps().into_iter().find(|p| p.role == "cbexe").unwrap();
    kill_9(exe.pid);
    c.dev_up("");
    std::fs::write(&go, "").unwrap();
    let id = id.to_string();
    c.ok("cwait", &["-w", &format!("done({id})")]);
    let output = std::fs::read_to_string(&out).unwrap();
    assert!(output.trim_end().ends_with("+-"), "{output}\n{}", c.logs());
    assert_eq!(ran(&c, &[], &open), "--");
}

#[test]
fn without_control_groups_jobs_have_their_environment_and_the_log_says_so_once() {
    let Some(dir) = nodes() else {
        return;
    };
    let c = cluster("--cgroup off");
    let script = format!("{} echo \" $CUDA_VISIBLE_DEVICES\"", script(dir.path()));
    for _ in 0..2 {
        assert_eq!(ran(&c, &["-R", "rusage[gpu=1]"], &script), "++ GPU-a\n");
    }
    let output = c
        .log("cbexe.h1")
        .matches("but the job can open others")
        .count();
    assert_eq!(output, 1, "{}", c.logs());
}
