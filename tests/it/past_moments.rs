//! `--at TIME` and `cadmin journal export`: the cluster as it was, over leaders, from a snapshot,
//! and from an archive.

use crate::cluster::{Cluster, kill_9};
use crate::patience::until;
use std::process::Command;
use std::time::Duration;

/// The present moment as `--at` takes it, on no event's own millisecond.
fn moment() -> String {
    std::thread::sleep(Duration::from_millis(20));
    let now = jiff::Timestamp::now().to_string();
    std::thread::sleep(Duration::from_millis(20));
    now
}

fn snapshots(cluster: &Cluster) -> usize {
    let dir = std::fs::read_dir(cluster.share().join("snapshot")).unwrap();
    let names = dir.flatten().map(|e| e.file_name());
    names
        .filter(|n| !n.to_string_lossy().starts_with('.'))
        .count()
}

#[test]
fn commands_show_the_cluster_as_it_was() {
    let cluster = Cluster::up_armed("--hosts 1 --slots 4 --masters 1 --cgroup off");
    let long = cluster.csub(&["-o", "/dev/null", "sleep 600"]);
    let short = cluster.csub(&["-o", "/dev/null", "true"]);
    let reached = |id, want: &'static str| {
        cluster.wait(|states| states.get(&(id, 0)).is_some_and(|state| state == want));
    };
    reached(short, "DONE");
    reached(long, "RUN");
    let first = moment();
    cluster.ok("ckill", &[&long.to_string()]);
    reached(long, "EXIT");
    kill_9(cluster.leader().pid);
    cluster.arm("snapshot.due#1=error:EIO");
    cluster.dev_up("");
    until("a snapshot", || snapshots(&cluster) == 1);
    let second = moment();
    let late = cluster.csub(&["-o", "/dev/null", "true"]);
    reached(late, "DONE");
    let rows = |run: &dyn Fn(&[&str]) -> String, at: &str| {
        let words = [
            "-a",
            "-noheader",
            "-o",
            "jobid stat delimiter=' '",
            "--at",
            at,
        ];
        let mut rows: Vec<String> = run(&words).lines().map(str::to_owned).collect();
        rows.sort();
        rows
    };
    let row = |id: u32, state: &str| format!("{id} {state}");
    let here = |words: &[&str]| cluster.ok("cjobs", words);
    let then = [row(long, "RUN"), row(short, "DONE")];
    let later = [row(long, "EXIT"), row(short, "DONE")];
    assert_eq!(rows(&here, &first), then);
    assert_eq!(rows(&here, &second), later, "of the snapshot");
    assert_eq!(rows(&here, ".").len(), 3);
    let queues = [
        "-noheader",
        "-o",
        "queue_name run delimiter=' '",
        "normal",
        "--at",
    ];
    let run = |at: &str| cluster.ok("cqueues", &[&queues[..], &[at]].concat());
    assert_eq!(
        (run(&first).trim(), run(&second).trim()),
        ("normal 1", "normal 0")
    );
    let hosts = cluster.ok("chosts", &["--at", &first]);
    let words: Vec<&str> = hosts.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words[..6], ["h1", "ok", "-", "4", "1", "1"], "{hosts}");
    for (name, words, want) in [
        (
            "cjobs",
            &["--at", "1999/1/1"][..],
            "had no leader before that time",
        ),
        ("cjobs", &["--at", "2099-01-01"], "is in the future"),
        ("cjobs", &["--at", "noon"], "'noon'"),
        ("chosts", &["--at", ".", "-R", "mem>1"], "not kept"),
    ] {
        let out = cluster.run(name, words);
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            !out.status.success() && stderr.contains(want),
            "{words:?}: {stderr}"
        );
    }
    let left = std::fs::read_dir(cluster.work()).unwrap().flatten();
    let left = left.filter(|e| e.file_name().to_string_lossy().starts_with("corral-at"));
    assert_eq!(left.count(), 0, "its directory is removed");
    archive(&cluster, &rows, (&first, &then), (&second, &later));
}

type Rows<'a> = dyn Fn(&dyn Fn(&[&str]) -> String, &str) -> Vec<String> + 'a;

/// The same of an archive, elsewhere and without daemons.
fn archive(
    cluster: &Cluster,
    rows: &Rows<'_>,
    (first, then): (&str, &[String]),
    (second, later): (&str, &[String]),
) {
    let file = cluster.work().join("past.tar.gz");
    let name = file.to_str().unwrap();
    cluster.ok("cadmin", &["journal", "export", name]);
    let again = cluster.run("cadmin", &["journal", "export", name]);
    let stderr = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        !again.status.success() && stderr.contains("exists already"),
        "{stderr}"
    );
    let share = cluster.work().join("unpacked");
    std::fs::create_dir(&share).unwrap();
    let tar = Command::new("tar")
        .arg("xzf")
        .arg(&file)
        .arg("-C")
        .arg(&share)
        .status();
    assert!(tar.unwrap().success());
    let conf = format!("CB_SHARE={}\n", share.display());
    std::fs::write(share.join("cb.conf"), conf).unwrap();
    let there = |words: &[&str]| {
        let mut command = cluster.command("cjobs");
        let out = command
            .env("CB_ENVDIR", &share)
            .args(words)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(rows(&there, first), then);
    assert_eq!(rows(&there, second), later);
}
