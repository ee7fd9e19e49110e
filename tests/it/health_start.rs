//! Daemons on a directory that is not their cluster end with code 2 and make nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DAEMONS: [(&str, &str); 3] = [
    ("cbsched", env!("CARGO_BIN_EXE_cbsched")),
    ("cbls", env!("CARGO_BIN_EXE_cbls")),
    ("cbexe", env!("CARGO_BIN_EXE_cbexe")),
];

/// Every file below a directory with its content.
fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.display().to_string();
        match path.is_dir() {
            true => {
                all.extend(tree(&path));
                all.insert(name, Vec::new());
            }
            false => drop(all.insert(name, std::fs::read(&path).unwrap())),
        }
    }
    all
}

/// Starts a daemon that must end at once; its code and what it said.
fn start(program: &str, etc: &Path) -> (Option<i32>, String) {
    let mut child = Command::new(program)
        .env("CB_ENVDIR", etc)
        .env_remove("CB_HOST")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = crate::patience::deadline();
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let out = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.code(), stderr)
}

/// All daemons refuse the share, saying `due`, and make nothing anywhere.
fn refused(root: &Path, share: &Path, due: &str) {
    let etc = root.join("etc");
    std::fs::create_dir_all(&etc).unwrap();
    let local = root.join("local");
    let conf = format!(
        "CB_SHARE={}\nCB_HOST=h1\nCB_LOCAL={}\n",
        share.display(),
        local.display()
    );
    std::fs::write(etc.join("cb.conf"), conf).unwrap();
    for (name, program) in DAEMONS {
        let before = tree(root);
        let (code, output) = start(program, &etc);
        assert_eq!(code, Some(2), "{name}: {output}");
        assert!(output.contains(due), "{name}: {due} is not in {output}");
        assert_eq!(tree(root), before, "{name} made or changed something");
    }
}

fn init(share: &Path) {
    let out = Command::new(env!("CARGO_BIN_EXE_cb"))
        .args(["cadmin", "init"])
        .arg(share)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn daemons_refuse_what_is_not_their_cluster_and_make_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let root = tmp.path();
    refused(root, &root.join("nowhere"), "mounted");
    let empty = root.join("empty");
    std::fs::create_dir(&empty).unwrap();
    refused(root, &empty, "mounted");
    // A mount that shows another cluster.
    let share = root.join("share");
    init(&share);
    std::fs::create_dir(root.join("local")).unwrap();
    std::fs::write(root.join("local/cluster"), "0123456789abcdef\n").unwrap();
    refused(root, &share, "the share belongs to cluster");
    std::fs::remove_dir_all(root.join("local")).unwrap();
    // A share that is not whole.
    std::fs::remove_file(share.join("leader/epoch")).unwrap();
    refused(root, &share, "share");
    // A newer format.
    let path = share.join("cluster");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"format\":1", "\"format\":99")).unwrap();
    refused(root, &share, "the checksum does not match");
}
