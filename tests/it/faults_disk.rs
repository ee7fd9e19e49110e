//! A share without room: full, over quota, read-only. Nothing promised is lost, nothing runs twice,
//! nobody restarts in a loop, and all goes on by itself when there is room (docs/journal.md).

use crate::cluster::{Cluster, job_id, kill_9, lines, text};
use crate::patience::until;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn run(words: &[&str]) -> Result<(), String> {
    let out = Command::new(words[0]).args(&words[1..]).output();
    let out = out.map_err(|e| format!("{}: {e}", words[0]))?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("{words:?}: {}", text(&out))),
    }
}

/// A file system in a file, mounted; dropped, it is unmounted although it may be in use.
struct Disk {
    image: PathBuf,
    point: PathBuf,
}

impl Disk {
    fn make(dir: &Path) -> Result<Disk, String> {
        let disk = Disk {
            image: dir.join("image"),
            point: dir.join("mnt"),
        };
        std::fs::create_dir(&disk.point).unwrap();
        let file = std::fs::File::create(&disk.image).unwrap();
        file.set_len(12 << 20).unwrap();
        run(&[
            "mkfs.ext4",
            "-q",
            "-F",
            "-m",
            "0",
            disk.image.to_str().unwrap(),
        ])?;
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<(), String> {
        let (image, point) = (self.image.to_str().unwrap(), self.point.to_str().unwrap());
        run(&["mount", "-o", "loop,errors=remount-ro", image, point])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run(&["umount", "-l", self.point.to_str().unwrap()]);
    }
}

/// A cluster whose share lies on a disk of its own of 12 MB, or why there is none.
fn on_a_small_disk(options: &str) -> Option<(Cluster, Disk, PathBuf)> {
    let tmp = tempfile::tempdir().unwrap();
    let disk = match Disk::make(tmp.path()) {
        Ok(disk) => disk,
        Err(e) => {
            eprintln!("skipped: no file system of one's own here: {e}");
            return None;
        }
    };
    let share = disk.point.join("share");
    let dir = tmp.path().join("d");
    let cluster = Cluster::armed_in(tmp, dir, options);
    // Made, ended, moved to the small disk, started again.
    cluster.stop();
    // Its reserve is larger than that disk: the leader makes another.
    std::fs::remove_dir_all(cluster.share().join("reserve")).unwrap();
    run(&[
        "mv",
        cluster.share().to_str().unwrap(),
        share.to_str().unwrap(),
    ])
    .unwrap();
    run(&["sync", "-f", share.to_str().unwrap()]).unwrap();
    std::os::unix::fs::symlink(&share, cluster.share()).unwrap();
    cluster.dev_up("");
    Some((cluster, disk, share))
}

/// Takes all the room there is; gives the files.
fn fill(dir: &Path) -> PathBuf {
    let path = dir.join("filler");
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap();
    for size in [1 << 20, 1 << 16, 1 << 12, 1 << 10] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
    path
}

fn beat_says_full(share: &Path) -> bool {
    let beat = std::fs::read_to_string(share.join("leader/beat")).unwrap_or_default();
    beat.contains("\"full\":true")
}

fn in_state(states: &BTreeMap<(u32, u32), String>, ids: &[u32], wanted: &str) -> bool {
    ids.iter()
        .all(|id| states.get(&(*id, 0)).is_some_and(|s| s == wanted))
}

/// A job that waits for the file `go` and leaves a mark each time it has run.
fn gated(cluster: &Cluster) -> u32 {
    let script = "until [ -e go ]; do sleep 0.1; done; echo ran >> ran.$LSB_JOBID";
    cluster.csub(&["-oo", "/dev/null", script])
}

fn ran_once(cluster: &Cluster, ids: &[u32]) {
    for id in ids {
        let ran = lines(&cluster.work().join(format!("ran.{id}"))).len();
        assert_eq!(ran, 1, "job {id}");
    }
}

fn elections(cluster: &Cluster, names: &[&str]) -> usize {
    let logs = names.iter().map(|name| cluster.log(name));
    logs.map(|log| log.matches("leading epoch").count()).sum()
}

/// Row 10 of the fault matrix.
#[test]
fn a_full_share_stops_starts_but_not_ends_and_all_goes_on_when_there_is_room() {
    let options = "--hosts 1 --slots 4 --masters 2 --cgroup off";
    let Some((cluster, _disk, share)) = on_a_small_disk(options) else {
        return;
    };
    let ids: Vec<u32> = (0..6).map(|_| gated(&cluster)).collect();
    let (running, pending) = ids.split_at(4);
    cluster.wait(|s| in_state(s, running, "RUN"));
    let before = elections(&cluster, &["cbsched.h1", "cbsched.h1.2"]);
    let leader = cluster.leader().pid;
    let filler = fill(&share);
    until("DISK FULL", || beat_says_full(&share));
    let view = |c: &Cluster| std::fs::read_to_string(c.share().join("view/params.yaml")).unwrap();
    until("the alarm is shown, as a grave one", || {
        let view = view(&cluster);
        view.contains("DISK FULL") && view.contains("\"grave_alarms\":1")
    });

    // What runs ends, and its end is on record; what waits goes on waiting.
    std::fs::write(cluster.work().join("go"), "").unwrap();
    let states = cluster.wait(|s| in_state(s, running, "DONE"));
    assert!(in_state(&states, pending, "PEND"), "{states:?}");
    let out = cluster.run("csub", &["--wait", "7", "true"]);
    assert_eq!(out.status.code(), Some(5), "{}", text(&out));
    assert!(text(&out).contains("DISK FULL"), "{}", text(&out));
    assert_eq!(cluster.leader().pid, leader, "the leader led on");

    // A change of leader in the middle of it.
    kill_9(leader);
    let heir = cluster.leader().pid;
    assert_ne!(heir, leader);
    until("DISK FULL again", || beat_says_full(&share));
    cluster.dev_up("--no-wait");
    let states = cluster.wait(|s| in_state(s, running, "DONE"));
    assert!(in_state(&states, pending, "PEND"), "{states:?}");
    std::thread::sleep(Duration::from_secs(4));
    let after = elections(&cluster, &["cbsched.h1", "cbsched.h1.2"]);
    assert_eq!(after, before + 1, "{}", cluster.logs());

    std::fs::remove_file(filler).unwrap();
    cluster.wait(|s| in_state(s, &ids, "DONE"));
    let last = cluster.csub(&["-oo", "/dev/null", "echo ran >> ran.$LSB_JOBID"]);
    cluster.wait(|s| in_state(s, &[last], "DONE"));
    assert!(!beat_says_full(&share));
    until("the alarm is gone", || {
        !view(&cluster).contains("DISK FULL")
    });
    assert_eq!(
        std::fs::read_dir(share.join("reserve")).unwrap().count(),
        16
    );
    assert_eq!(cluster.leader().pid, heir);
    ran_once(&cluster, &ids);
    ran_once(&cluster, &[last]);
}

/// The same while somebody takes every byte that the reserve gives back.
#[test]
#[ignore = "a quarter of a minute of waiting"]
fn a_share_that_stays_full_delays_the_ends_and_loses_none() {
    let options = "--hosts 1 --slots 4 --masters 1 --cgroup off";
    let Some((cluster, _disk, share)) = on_a_small_disk(options) else {
        return;
    };
    let ids: Vec<u32> = (0..4).map(|_| gated(&cluster)).collect();
    cluster.wait(|s| in_state(s, &ids, "RUN"));
    let leader = cluster.leader().pid;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let filler = std::thread::scope(|scope| {
        let greedy = scope.spawn(|| {
            let mut path = fill(&share);
            while !stop.load(relaxed) {
                path = fill(&share);
            }
            path
        });
        until("DISK FULL", || beat_says_full(&share));
        std::fs::write(cluster.work().join("go"), "").unwrap();
        until("all ran", || {
            ids.iter()
                .all(|id| cluster.work().join(format!("ran.{id}")).exists())
        });
        std::thread::sleep(Duration::from_secs(8));
        stop.store(true, relaxed);
        greedy.join().unwrap()
    });
    assert_eq!(cluster.leader().pid, leader, "{}", cluster.logs());
    std::fs::remove_file(filler).unwrap();
    cluster.wait(|s| in_state(s, &ids, "DONE"));
    let last = cluster.csub(&["-oo", "/dev/null", "echo ran >> ran.$LSB_JOBID"]);
    let states = cluster.wait(|s| in_state(s, &[last], "DONE"));
    ran_once(&cluster, &ids);
    ran_once(&cluster, &[last]);
    // What the failed attempts left is understood by the next leader.
    kill_9(leader);
    cluster.dev_up("");
    assert_eq!(cluster.states(), states);
    assert_eq!(cluster.leader().host, "h1");
}

/// Row 11: a quota. Every write of the leader to its journal fails, then none.
#[test]
fn a_quota_used_up_is_waited_out_without_a_word_too_much() {
    let cluster = Cluster::up_armed("--hosts 1 --slots 4 --masters 2 --lease 6 --cgroup off");
    let first = cluster.csub(&["-oo", "/dev/null", "echo ran >> ran.$LSB_JOBID"]);
    cluster.wait(|s| in_state(s, &[first], "DONE"));
    let leader = cluster.leader().pid;
    cluster.arm(&format!("{leader}:sys.write@/journal.=error:EDQUOT"));
    let mut csub = cluster.command("csub");
    csub.args(["-oo", "/dev/null", "echo ran >> ran.$LSB_JOBID"]);
    let csub = csub.stdout(std::process::Stdio::piped()).spawn().unwrap();
    until("DISK FULL", || beat_says_full(&cluster.share()));
    // Longer than the lease: its beat goes on, so nobody takes over.
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(cluster.leader().pid, leader, "{}", cluster.logs());
    let mut csub = csub;
    assert!(
        csub.try_wait().unwrap().is_none(),
        "answered before it was on record"
    );
    cluster.arm("");
    let out = csub.wait_with_output().unwrap();
    let second = job_id(&String::from_utf8_lossy(&out.stdout)).expect("an answer");
    let ids = [first, second];
    let states = cluster.wait(|s| in_state(s, &ids, "DONE"));
    until("it is over", || !beat_says_full(&cluster.share()));
    ran_once(&cluster, &ids);
    assert_eq!(cluster.leader().pid, leader);
    kill_9(leader);
    assert_ne!(cluster.leader().pid, leader);
    assert_eq!(cluster.states(), states);
}

/// Row 11: an error of the file system makes it read-only; it is mounted anew later.
#[test]
#[ignore = "a quarter of a minute of waiting"]
fn a_share_that_turns_read_only_ends_the_lead_and_is_taken_up_again() {
    let options = "--hosts 1 --slots 4 --masters 2 --cgroup off";
    let Some((cluster, disk, share)) = on_a_small_disk(options) else {
        return;
    };
    let id = gated(&cluster);
    cluster.wait(|s| in_state(s, &[id], "RUN"));
    let leader = cluster.leader().pid;
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let point = disk.point.to_str().unwrap();
    let device = mounts.lines().find(|l| l.contains(point)).unwrap();
    let device = device
        .split(' ')
        .next()
        .unwrap()
        .trim_start_matches("/dev/");
    let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
    if let Err(e) = std::fs::write(&trigger, "a test") {
        eprintln!("skipped: {trigger}: {e}");
        return;
    }
    assert!(
        std::fs::write(share.join("x"), "").is_err(),
        "it is read-only"
    );
    until("the leader ends", || !crate::cluster::exists(leader));
    let out = cluster.run("csub", &["--wait", "1", "true"]);
    assert_eq!(out.status.code(), Some(5), "{}", text(&out));
    assert!(
        text(&out).contains("Read-only file system"),
        "{}",
        text(&out)
    );
    std::fs::write(cluster.work().join("go"), "").unwrap();
    until("the job ends", || {
        cluster.work().join(format!("ran.{id}")).exists()
    });
    run(&["umount", "-l", point]).unwrap();
    // The old mount is in use until the daemons look again: a copy of the image is as good.
    let copy = disk.image.with_extension("copy");
    std::fs::copy(&disk.image, &copy).unwrap();
    std::fs::rename(&copy, &disk.image).unwrap();
    let _ = run(&["fsck.ext4", "-p", "-f", disk.image.to_str().unwrap()]);
    disk.mount().unwrap();
    cluster.dev_up("");
    cluster.wait(|s| in_state(s, &[id], "DONE"));
    ran_once(&cluster, &[id]);
}
