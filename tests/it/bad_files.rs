//! Bad configuration and damaged files: named, confined, and no daemon stops.

use crate::cluster::{Cluster, kill_9, text};
use crate::patience::until_or;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What follows a good beginning of cb.yaml, and what the refusal must say.
const CONFIGS: &[(&str, &str)] = &[
    ("queues:\n- {name: q, slotz: 3}\n", "slotz"),
    ("queues:\n- {name: q, slots: -1}\n", "slots"),
    ("queues:\n- {name: q, hosts: nowhere}\n", "nowhere"),
    ("queues:\n- {name: q}\n- {name: q}\n", "q"),
    ("queues:\n\t- {name: q}\n", "tab"),
    (
        "usergroups:\n- {name: g1, members: g2}\n- {name: g2, members: g1}\n",
        "itself",
    ),
    ("queues: [\n", "cb.yaml"),
    ("queues: &a [*a]\n", "cb.yaml"),
    ("queues: !!python/object:os.system [x]\n", "cb.yaml"),
    ("general: {default_queue: nosuch}\n", "nosuch"),
];

/// Seconds of processor time in which a file must be judged: it takes milliseconds, a debug build more.
const CPU_S: u32 = 2;

/// Its exit code; none if it used more time than that.
fn ckconfig(path: &Path) -> (Option<i32>, String) {
    let limited = format!("ulimit -t {CPU_S}; exec \"$0\" cadmin ckconfig \"$1\"");
    let out = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_cb")])
        .arg(path)
        .output();
    let out = out.expect("cb runs");
    (out.status.code(), text(&out))
}

#[test]
fn bad_configurations_are_refused_by_name_and_place_without_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cb.yaml");
    let good = "cluster: {name: c, administrators: root}\n";
    std::fs::write(&path, format!("{good}queues:\n- {{name: q}}\n")).unwrap();
    let (code, output) = ckconfig(&path);
    assert_eq!(code, Some(0), "{output}");
    let mut wrong = Vec::new();
    for (bad, says) in CONFIGS {
        std::fs::write(&path, format!("{good}{bad}")).unwrap();
        let (code, output) = ckconfig(&path);
        if code == Some(0) || !output.contains(says) || !output.contains("cb.yaml:") {
            wrong.push(format!("{bad:?}: {output}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn bombs_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cb.yaml");
    let mut aliases = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..10 {
        let all = vec![format!("*a{}", n - 1); 9].join(", ");
        aliases += &format!("a{n}: &a{n} [{all}]\n");
    }
    let bombs = [
        aliases,
        "{a: ".repeat(20_000),
        "[".repeat(100_000),
        format!("queues: {}\n", "x".repeat(20 << 20)),
        (0..500_000).map(|n| format!("k{n}: 1\n")).collect(),
    ];
    for bomb in bombs {
        std::fs::write(&path, &bomb).unwrap();
        let (code, output) = ckconfig(&path);
        let start: String = bomb.chars().take(20).collect();
        assert!(code.is_some_and(|code| code > 0), "{start}: {code:?}");
        assert!(
            output.len() < 100_000,
            "{start}: {} bytes of complaint",
            output.len()
        );
    }
}

#[test]
fn a_bad_reconfiguration_leaves_the_old_one_in_force_even_over_a_change_of_leader() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1 --cgroup off");
    let config = cluster.share().join("conf/cb.yaml");
    let old = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, old.replace("priority: 60", "priority: [60")).unwrap();
    let out = cluster.run("cadmin", &["reconfig"]);
    assert_ne!(out.status.code(), Some(0));
    assert!(text(&out).contains("cb.yaml:"), "{}", text(&out));
    cluster.csub(&["-q", "high", "true"]);
    let leader = cluster
        .ps()
        .into_iter()
        .find(|p| p.leader)
        .expect("a leader");
    kill_9(leader.pid);
    cluster.dev_up("");
    let id = cluster.csub(&["-q", "high", "true"]);
    cluster.wait(|s| s.get(&(id, 0)).is_some_and(|s| s == "DONE"));
    std::fs::write(&config, old.replace("priority: 60", "priority: 61")).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
    // The view follows within its tick.
    let shown = || cluster.ok("cqueues", &["high"]).contains(" 61 ");
    until_or(shown, || {
        format!("the good configuration is not in force\n{}", cluster.logs())
    });
}

/// All files below a directory whose name passes.
fn find(dir: &Path, wanted: &str, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, wanted, out);
        } else if path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(wanted)
        {
            out.push(path);
        }
    }
}

#[test]
fn damage_is_named_by_file_and_offset() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1 --cgroup off");
    let id = cluster.csub(&["true"]);
    cluster.wait(|s| s.get(&(id, 0)).is_some_and(|s| s == "DONE"));
    assert!(cluster.ok("cadmin", &["fsck"]).contains("no damage"));
    // Of a copy, so that the cluster itself stays sound.
    let copy = cluster.work().join("copy");
    let copied = Command::new("cp")
        .arg("-a")
        .arg(cluster.share())
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    let mut journals = Vec::new();
    find(&copy.join("epoch"), "journal.", &mut journals);
    let journal = journals.first().expect("a journal");
    let mut bytes = std::fs::read(journal).unwrap();
    let second = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    bytes[second + 10] ^= 1;
    std::fs::write(journal, &bytes).unwrap();
    let out = cluster.run("cadmin", &["fsck", copy.to_str().unwrap()]);
    let output = text(&out);
    assert_eq!(out.status.code(), Some(1), "{output}");
    assert!(
        output.contains("journal.0001.yaml") && output.contains(&second.to_string()),
        "{output}"
    );
}
