//! Leaders and commands that die or stand still at a named place: nothing promised is lost, nothing
//! runs twice, and a leader that was overtaken says nothing any more. Failpoints: docs/faults.md.

use crate::cluster::{Cluster, exists, job_id, kill_9, lines, signal, text};
use crate::patience::until;
use crate::source;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const TWO: &str = "--hosts 2 --slots 4 --masters 2 --lease 6 --cgroup off";

/// Submits a job that leaves a mark each time it runs; the answer is awaited by the caller.
fn submit(cluster: &Cluster, name: &str) -> Child {
    cluster
        .command("csub")
        .args(["-J", name, "-oo", "/dev/null"])
        .arg(format!("echo ran >> ran.{name}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn answer(cluster: &Cluster, csub: Child) -> u32 {
    let out = csub.wait_with_output().unwrap();
    job_id(&String::from_utf8_lossy(&out.stdout))
        .unwrap_or_else(|| panic!("{}\n{}", text(&out), cluster.logs()))
}

fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|s| s.starts_with(" T"))
}

/// Each of the jobs has ended well, ran once, and is the only one of its name.
fn ran_once(cluster: &Cluster, jobs: &[(u32, String)]) {
    let states = cluster.wait(|states| {
        let state = |id: u32| states.get(&(id, 0)).map(String::as_str);
        jobs.iter()
            .all(|(id, _)| matches!(state(*id), Some("DONE" | "EXIT")))
    });
    for (id, name) in jobs {
        assert_eq!(states[&(*id, 0)], "DONE", "{name}");
        let ran = lines(&cluster.work().join(format!("ran.{name}")));
        assert_eq!(ran.len(), 1, "{name} ran {} times", ran.len());
    }
    let mut ids: Vec<u32> = jobs.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), jobs.len(), "an id was given twice");
    assert_eq!(states.len(), jobs.len(), "{states:?}");
}

/// Rows 2, 3, 4 of the fault matrix, and the places around them.
#[test]
fn a_leader_killed_at_any_step_loses_nothing_and_repeats_nothing() {
    let cluster = Cluster::up_armed(TWO);
    let mut jobs = Vec::new();
    for point in [
        "journal.before_write",
        "journal.after_write",
        "journal.after_sync",
        "leader.after_check",
        "leader.before_ack",
        "leader.after_ack",
        "leader.before_orders",
        "leader.after_orders",
    ] {
        let name = point.replace('.', "_");
        let leader = cluster.leader().pid;
        cluster.arm(&format!("{leader}:{point}=kill"));
        let csub = submit(&cluster, &name);
        until(&format!("{point} kills"), || !exists(leader));
        // csub asks the next leader for the same request by itself.
        jobs.push((answer(&cluster, csub), name));
        cluster.dev_up("--no-wait");
    }
    ran_once(&cluster, &jobs);
    for (id, name) in &jobs {
        let output = cluster.ok("cadmin", &["journal", &id.to_string()]);
        assert_eq!(output.matches("dispatched").count(), 1, "{name}: {output}");
    }
}

fn journals(share: &Path) -> Vec<(PathBuf, u64)> {
    let mut out = Vec::new();
    for epoch in std::fs::read_dir(share.join("epoch")).unwrap().flatten() {
        for file in std::fs::read_dir(epoch.path()).unwrap().flatten() {
            let meta = file.metadata().unwrap();
            if meta.is_file() {
                out.push((file.path(), meta.len()));
            }
        }
    }
    out.sort();
    out
}

/// Row 5: stopped for longer than T, then woken.
fn overtaken_at(cluster: &Cluster, point: &str, jobs: &mut Vec<(u32, String)>) {
    let name = point.replace('.', "_");
    let old = cluster.leader();
    let epoch_of = |c: &Cluster| std::fs::read(c.share().join("leader/epoch")).unwrap();
    let before = epoch_of(cluster);
    cluster.arm(&format!("{}:{point}=stop", old.pid));
    let csub = submit(cluster, &name);
    until("it stands still", || is_stopped(old.pid));
    until("another one leads", || epoch_of(cluster) != before);
    jobs.push((answer(cluster, csub), name));
    cluster.arm("");
    let newest = cluster.leader();
    assert_ne!(newest.pid, old.pid);
    let dirs = |c: &Cluster| {
        let mut all = journals(&c.share());
        // The old epoch's: all but the newest directory's.
        let last = all
            .last()
            .and_then(|(p, _)| p.parent().map(Path::to_path_buf));
        all.retain(|(p, _)| p.parent() != last.as_deref() && p.ends_with("acks.yaml"));
        all
    };
    let acks = dirs(cluster);
    assert!(!acks.is_empty());
    signal(old.pid, "-CONT");
    until("the old one ends", || !exists(old.pid));
    assert_eq!(dirs(cluster), acks, "the old leader answered after {point}");
    assert_eq!(cluster.leader().pid, newest.pid);
    cluster.dev_up("--no-wait");
}

#[test]
fn a_leader_stopped_for_longer_than_the_lease_says_nothing_when_it_wakes() {
    let cluster = Cluster::up_armed(TWO);
    let mut jobs = Vec::new();
    for point in ["journal.before_write", "journal.after_sync"] {
        overtaken_at(&cluster, point, &mut jobs);
    }
    ran_once(&cluster, &jobs);
}

/// Row 8, and the epoch file.
#[test]
fn a_leader_whose_lock_or_epoch_file_is_taken_away_notices_and_ends() {
    let cluster = Cluster::up(TWO);
    let kept = cluster.csub(&["true"]);
    let (lock, epoch) = (
        cluster.share().join("leader/lock"),
        cluster.share().join("leader/epoch"),
    );
    let log = |host: &str| cluster.log(&format!("cbsched.{host}"));

    let first = cluster.leader();
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&lock, "").unwrap();
    until("it ends", || !exists(first.pid));
    // The other one may have the new file's lock, and an epoch, before this one's next look.
    let output = log(&first.host);
    let noticed = ["the lock file was replaced", "the epoch file names 2"];
    assert!(noticed.iter().any(|n| output.contains(n)), "{output}");

    let second = cluster.leader();
    let doc = std::fs::read(&epoch).unwrap();
    std::fs::remove_file(&epoch).unwrap();
    until("it ends", || !exists(second.pid));
    let output = log(&second.host);
    assert!(
        output.contains("leadership is lost") && output.contains("leader/epoch"),
        "{output}"
    );
    // Nobody leads without it, and nobody makes it anew.
    cluster.dev_up("--no-wait");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!epoch.exists());
    std::fs::write(&epoch, doc).unwrap();
    cluster.dev_up("");
    let last = cluster.csub(&["true"]);
    cluster.wait(|s| {
        [kept, last]
            .iter()
            .all(|id| s.get(&(*id, 0)).is_some_and(|s| s == "DONE"))
    });
}

/// Row 15.
#[test]
fn of_two_masters_on_one_host_the_second_stays_a_candidate() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 2 --lease 6 --cgroup off");
    let masters: Vec<_> = cluster
        .ps()
        .into_iter()
        .filter(|p| p.role == "cbsched")
        .collect();
    assert_eq!(masters.len(), 2);
    assert!(masters.iter().all(|p| p.host == "h1"));
    let leader = cluster.leader().pid;
    // Longer than the lease: the second one has had its chance.
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(cluster.leader().pid, leader);
    assert!(masters.iter().all(|p| exists(p.pid)));
    kill_9(leader);
    assert_ne!(cluster.leader().pid, leader);
}

/// Row 29: the snapshot's writer dies in the middle, and before the renaming.
#[test]
fn a_snapshot_whose_writer_dies_does_not_count() {
    let cluster = Cluster::up_armed("--hosts 1 --slots 4 --masters 1 --cgroup off");
    let ids: Vec<u32> = (0..3).map(|_| cluster.csub(&["true"])).collect();
    let names = || {
        let dir = std::fs::read_dir(cluster.share().join("snapshot")).unwrap();
        let names = dir
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned());
        let (asides, whole): (Vec<_>, Vec<_>) = names.partition(|n| n.ends_with(".tmp"));
        (asides.len(), whole.len())
    };
    let states = cluster.wait(|s| s.values().all(|s| s == "DONE"));
    let mut died = 0;
    for point in ["snapshot.writing#2", "snapshot.before_rename"] {
        // A leader writes one at once, then not for a while: each time a new leader.
        kill_9(cluster.leader().pid);
        cluster.arm(&format!("snapshot.due#1=error:EIO; {point}=kill"));
        cluster.dev_up("");
        died += 1;
        until("the writer died", || {
            cluster.log("cbsched.h1").matches("no snapshot: ").count() == died
        });
        assert_eq!(names(), (died, 0), "after {point}");
    }
    kill_9(cluster.leader().pid);
    cluster.arm("snapshot.due#1=error:EIO");
    cluster.dev_up("");
    until("a snapshot", || names().1 == 1);
    kill_9(cluster.leader().pid);
    cluster.arm("");
    cluster.dev_up("");
    assert_eq!(cluster.states(), states);
    assert!(ids.iter().all(|id| states.contains_key(&(*id, 0))));
}

/// Invariant I2 and row 54: a command killed between publishing and the answer, and before.
#[test]
fn a_killed_csub_leaves_one_job_or_none() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1 --cgroup off");
    let csub = |rule: &str, key: &str| {
        let mut command = cluster.command("csub");
        if !rule.is_empty() {
            command.env("CORRAL_FAIL", rule);
        }
        let words = ["-J", key, "--key", key, "-oo", "/dev/null"];
        let out = command
            .args(words)
            .arg(format!("echo ran >> ran.{key}"))
            .output()
            .unwrap();
        assert_eq!(out.status.success(), rule.is_empty(), "{}", text(&out));
        job_id(&String::from_utf8_lossy(&out.stdout))
    };
    let mut jobs = Vec::new();
    for n in 0..10 {
        let key = format!("k{n}");
        assert_eq!(csub("ask.after_publish=kill", &key), None);
        // Whoever asks again under the same key is told of the same job, however often.
        let id = csub("", &key).unwrap();
        assert_eq!(csub("", &key), Some(id));
        jobs.push((id, key));
    }
    ran_once(&cluster, &jobs);
    assert_eq!(csub("sys.rename@inbox=kill", "never"), None);
    // What is left of it is swept when it is old; nobody takes it for a request.
    let uid = std::fs::metadata(cluster.work()).map(|m| std::os::unix::fs::MetadataExt::uid(&m));
    let inbox = cluster.share().join(format!("inbox/{}", uid.unwrap()));
    let left: Vec<_> = std::fs::read_dir(inbox).unwrap().flatten().collect();
    assert_eq!(left.len(), 1);
    assert!(left[0].file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(cluster.states().len(), jobs.len());
}

/// Row 55: without a leader csub waits as long as it is told, and says what becomes of the request.
#[test]
fn without_a_leader_a_submission_waits_in_the_drop_box() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1 --cgroup off");
    kill_9(cluster.leader().pid);
    let out = cluster.run(
        "csub",
        &["--wait", "1", "-J", "late", "echo ran >> ran.late"],
    );
    assert_eq!(out.status.code(), Some(5), "{}", text(&out));
    assert!(
        text(&out).contains("no answer within 1 s"),
        "{}",
        text(&out)
    );
    assert!(text(&out).contains("the request stays"), "{}", text(&out));
    cluster.dev_up("");
    let states = cluster.wait(|s| s.values().any(|s| s == "DONE"));
    let ids: Vec<u32> = states.keys().map(|(id, _)| *id).collect();
    ran_once(&cluster, &[(ids[0], "late".into())]);
}

/// Row 58: cb.yaml is replaced all the time while it is read.
#[test]
fn a_configuration_replaced_while_it_is_read_is_read_whole() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1 --cgroup off");
    let config = cluster.share().join("conf/cb.yaml");
    let one = std::fs::read_to_string(&config).unwrap();
    // Of another length, so that a mixture of both would not parse or not be either.
    let two = format!(
        "# {}\n{}",
        "x".repeat(5000),
        one.replace("priority: 60", "priority: 61")
    );
    assert_ne!(one, two);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let aside = config.with_extension("new");
            for text in [&one, &two].into_iter().cycle() {
                std::fs::write(&aside, text).unwrap();
                std::fs::rename(&aside, &config).unwrap();
                if stop.load(relaxed) {
                    break;
                }
            }
        });
        let outs: Vec<_> = (0..20)
            .map(|_| cluster.run("cadmin", &["reconfig"]))
            .collect();
        stop.store(true, relaxed);
        for out in outs {
            assert!(out.status.success(), "{}", text(&out));
        }
    });
}

/// Row 24: a share that is not mounted.
#[test]
fn daemons_refuse_an_empty_directory_and_make_nothing_in_it() {
    let tmp = tempfile::tempdir().unwrap();
    let (share, etc) = (tmp.path().join("share"), tmp.path().join("etc"));
    std::fs::create_dir_all(&share).unwrap();
    std::fs::create_dir_all(&etc).unwrap();
    let local = tmp.path().join("local");
    let conf = format!(
        "CB_SHARE={}\nCB_HOST=h1\nCB_LOCAL={}\n",
        share.display(),
        local.display()
    );
    std::fs::write(etc.join("cb.conf"), conf).unwrap();
    for program in [
        env!("CARGO_BIN_EXE_cbsched"),
        env!("CARGO_BIN_EXE_cbls"),
        env!("CARGO_BIN_EXE_cbexe"),
    ] {
        let out = Command::new(program)
            .env("CB_ENVDIR", &etc)
            .env_remove("CB_HOST")
            .output();
        let out = out.unwrap();
        assert_eq!(out.status.code(), Some(2), "{program}: {}", text(&out));
        assert!(text(&out).contains("cluster"), "{program}: {}", text(&out));
        assert_eq!(std::fs::read_dir(&share).unwrap().count(), 0, "{program}");
    }
}

#[test]
fn every_failpoint_that_can_be_named_is_passed_somewhere() {
    let code: String = source::files("src", &["rs"])
        .iter()
        .filter(|f| !f.ends_with("failpoint.rs"))
        .map(|f| source::read(f))
        .collect();
    let here = source::read("src/sys/failpoint.rs");
    for point in corral::sys::failpoint::POINTS {
        let quoted = format!("{point:?}");
        let passed = code.contains(&quoted) || here.matches(&quoted).count() > 1;
        assert!(passed, "{point}");
    }
}
