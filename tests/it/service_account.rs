//! Daemons that root starts on a share of another account: what they write there is that account's,
//! because an export that squashes root takes nothing from root.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SERVICE: u32 = 65_533;

fn owner(path: &Path) -> Option<u32> {
    Some(std::fs::metadata(path).ok()?.uid())
}

#[test]
fn a_leader_that_root_starts_writes_as_the_owner_of_the_share() {
    if !corral::sys::users::may_switch() {
        println!("skipped: not root");
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    corral::sys::fs::chmod(tmp.path(), 0o755).unwrap();
    let theirs = tmp.path().join("service");
    std::fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::chown(&theirs, Some(SERVICE), Some(SERVICE)).unwrap();
    let share = theirs.join("share");
    let config = tmp.path().join("cb.yaml");
    let text = "cluster: {name: c, administrators: root, masters: h1}\n\
                hosts:\n- {name: h1}\nqueues:\n- {name: q}\n";
    std::fs::write(&config, text).unwrap();
    // The programs of a build may lie where other accounts cannot enter: the init runs from here.
    let init = tmp.path().join("cb");
    crate::cluster::copy_program(Path::new(env!("CARGO_BIN_EXE_cb")), &init);
    let made = Command::new(&init)
        .args(["cadmin", "init", "--config"])
        .args([&config, &share])
        .uid(SERVICE)
        .gid(SERVICE)
        .status();
    assert!(made.unwrap().success());
    let conf = format!(
        "CB_SHARE={}\nCB_LOCAL={}\n",
        share.display(),
        tmp.path().join("local").display()
    );
    std::fs::write(tmp.path().join("cb.conf"), conf).unwrap();
    let mut sched = Command::new(env!("CARGO_BIN_EXE_cbsched"))
        .env("CB_ENVDIR", tmp.path())
        .env("CB_HOST", "h1")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let view = share.join("view/manifest.yaml");
    let end = crate::patience::deadline();
    while owner(&view).is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    sched.kill().unwrap();
    sched.wait().unwrap();
    let journal = share.join("epoch/000001/journal.0001.yaml");
    for path in [&view, &journal, &share.join("leader/claims/000001")] {
        assert_eq!(owner(path), Some(SERVICE), "{}", path.display());
    }
}
