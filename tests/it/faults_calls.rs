//! System calls of daemons that fail, by strace's injection, and executors, spawners and shepherds
//! that die at a named place. Skipped with the reason where strace cannot attach.

use crate::cluster::{Cluster, exists, job_id, kill_9, lines, text};
use crate::patience::{deadline, until};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running strace; dropped, it lets go of its process.
struct Trace {
    strace: Child,
    out: PathBuf,
}

impl Trace {
    /// Attaches to a process and its threads and children; `None` where that is not possible.
    fn attach(cluster: &Cluster, pid: i32, options: &[&str]) -> Option<Trace> {
        let out = cluster.work().join("trace");
        let strace = Command::new("strace")
            .args(["-f", "-y", "-s", "80", "-p", &pid.to_string(), "-o"])
            .arg(&out)
            .args(options)
            .stderr(Stdio::null())
            .spawn();
        let mut strace = match strace {
            Ok(strace) => strace,
            Err(e) => {
                eprintln!("skipped: strace: {e}");
                return None;
            }
        };
        let end = deadline();
        loop {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let tracer = status.lines().find_map(|l| l.strip_prefix("TracerPid:\t"));
            if tracer.is_some_and(|t| t != "0") {
                return Some(Trace { strace, out });
            }
            if strace.try_wait().unwrap().is_some() || Instant::now() > end {
                eprintln!("skipped: strace cannot attach to a process here");
                let _ = strace.kill();
                let _ = strace.wait();
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Lets go; gives what was seen.
    fn end(mut self) -> Vec<String> {
        self.let_go();
        lines(&self.out)
    }

    /// Some strace waits for ever when a thread that is not the first ends its process.
    fn let_go(&mut self) {
        let pid = self.strace.id() as i32;
        for name in ["-TERM", "-KILL"] {
            crate::cluster::signal(pid, name);
            // It is killed when it has not let go by then: no test waits for that.
            for _ in 0..500 {
                if self.strace.try_wait().unwrap().is_some() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.let_go();
    }
}

const MARK: &str = "echo ran >> ran.$LSB_JOBID";

fn submit(cluster: &Cluster) -> Child {
    let mut csub = cluster.command("csub");
    csub.args(["-oo", "/dev/null", MARK]);
    csub.stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn answer(cluster: &Cluster, csub: Child) -> u32 {
    let out = csub.wait_with_output().unwrap();
    job_id(&String::from_utf8_lossy(&out.stdout))
        .unwrap_or_else(|| panic!("{}\n{}", text(&out), cluster.logs()))
}

fn ran(cluster: &Cluster, id: u32) -> usize {
    lines(&cluster.work().join(format!("ran.{id}"))).len()
}

fn state(states: &BTreeMap<(u32, u32), String>, id: u32) -> &str {
    states.get(&(id, 0)).map_or("", String::as_str)
}

fn done_once(cluster: &Cluster, id: u32) {
    cluster.wait(|s| ["DONE", "EXIT"].contains(&state(s, id)));
    assert_eq!(state(&cluster.states(), id), "DONE", "{}", cluster.logs());
    assert_eq!(ran(cluster, id), 1);
}

/// Row 9 of the fault matrix: the file is dead at once, its sync is not tried again, and what it
/// held beyond the last good sync is written anew elsewhere.
#[test]
fn a_journal_whose_sync_fails_is_never_touched_again() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1 --cgroup off");
    let leader = cluster.leader().pid;
    let calls = [
        "-e",
        "trace=write,pwrite64,fdatasync,fsync",
        "-e",
        "inject=fdatasync:error=EIO:when=1",
    ];
    let Some(trace) = Trace::attach(&cluster, leader, &calls) else {
        return;
    };
    let id = answer(&cluster, submit(&cluster));
    done_once(&cluster, id);
    let seen = trace.end();
    let failed = seen
        .iter()
        .position(|l| l.contains("fdatasync") && l.contains("EIO"));
    let failed = failed.unwrap_or_else(|| panic!("nothing was injected: {seen:#?}"));
    assert!(
        seen[failed].contains("journal.0001.yaml"),
        "{}",
        seen[failed]
    );
    let later: Vec<_> = seen[failed + 1..]
        .iter()
        .filter(|l| l.contains("journal."))
        .collect();
    assert!(!later.is_empty());
    assert!(
        later.iter().all(|l| l.contains("journal.0002.yaml")),
        "{later:#?}"
    );
    assert_eq!(cluster.leader().pid, leader);
    let states = cluster.states();
    kill_9(leader);
    cluster.dev_up("");
    assert_eq!(cluster.states(), states);
}

/// Row 9: no sync works. The leader ends without an answer, another one answers.
#[test]
fn a_leader_whose_disk_syncs_nothing_ends_and_has_answered_nothing() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 2 --cgroup off");
    let leader = cluster.leader().pid;
    let calls = ["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"];
    let Some(trace) = Trace::attach(&cluster, leader, &calls) else {
        return;
    };
    let csub = submit(&cluster);
    until("it ends", || !exists(leader));
    drop(trace);
    let id = answer(&cluster, csub);
    assert_ne!(cluster.leader().pid, leader);
    done_once(&cluster, id);
    let logs = cluster.log("cbsched.h1") + &cluster.log("cbsched.h1.2");
    assert!(
        logs.contains("stepping down") && logs.contains("cannot sync"),
        "{logs}"
    );
}

/// Row 12: every open on the share fails as after a re-export.
#[test]
fn a_leader_whose_handles_are_stale_ends_and_another_one_leads() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 2 --cgroup off");
    let leader = cluster.leader().pid;
    let calls = ["-e", "trace=openat", "-e", "inject=openat:error=ESTALE"];
    let Some(trace) = Trace::attach(&cluster, leader, &calls) else {
        return;
    };
    until("it ends", || !exists(leader));
    drop(trace);
    assert_ne!(cluster.leader().pid, leader);
    let id = answer(&cluster, submit(&cluster));
    done_once(&cluster, id);
    let logs = cluster.log("cbsched.h1") + &cluster.log("cbsched.h1.2");
    assert!(logs.contains("Stale file handle"), "{logs}");
}

/// The process that forks for the cluster's executor.
fn spawner(cluster: &Cluster) -> i32 {
    let dir = cluster.share();
    let dir = dir.parent().unwrap().to_str().unwrap();
    let found = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .find_map(|entry| {
            let words = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).into_owned();
            let ours = words.contains("--spawner") && words.contains(dir);
            ours.then(|| entry.file_name().to_str()?.parse().ok())?
        });
    found.expect("a spawner")
}

/// Row 35: the spawner cannot fork. Nothing runs, nothing is shown as done, and later jobs run.
#[test]
fn a_spawner_that_cannot_fork_says_so_and_goes_on_later() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1 --cgroup off");
    let spawner = spawner(&cluster);
    let calls = ["-e", "trace=clone,clone3,fork,vfork", "-e"];
    let inject = "inject=clone,clone3,fork,vfork:error=EAGAIN";
    let Some(trace) = Trace::attach(&cluster, spawner, &[&calls[..], &[inject]].concat()) else {
        return;
    };
    let id = answer(&cluster, submit(&cluster));
    let output = || cluster.ok("chist", &["-l", &id.to_string()]);
    until("the failure is told", || output().contains("fork"));
    assert_eq!(ran(&cluster, id), 0);
    assert_ne!(state(&cluster.states(), id), "DONE");
    drop(trace);
    let later = answer(&cluster, submit(&cluster));
    done_once(&cluster, later);
    assert!(ran(&cluster, id) <= 1);
    assert!(exists(spawner));
}

/// What a job comes to when a process below the executor dies at `point`.
struct Case {
    point: &'static str,
    state: &'static str,
    ran: usize,
}

/// Invariants I3 and I6: a death before the start is on record costs an attempt, never a second
/// run; one before the end is on record costs the end's name, which never reads as success.
#[test]
fn a_death_at_any_step_below_the_executor_starts_nothing_twice() {
    let cluster = Cluster::up_armed("--hosts 1 --slots 4 --masters 1 --cgroup off");
    let case = |point, state, ran| Case { point, state, ran };
    for case in [
        case("exe.after_ledger", "DONE", 1),
        case("spawner.before_fork", "DONE", 1),
        case("shepherd.before_start", "DONE", 1),
        case("shepherd.before_end", "EXIT", 1),
        case("shepherd.after_end", "DONE", 1),
    ] {
        let before = cluster.log("cbexe.h1");
        cluster.arm(&format!("{}=kill", case.point));
        let id = answer(&cluster, submit(&cluster));
        let passed = format!("failpoint {}", case.point);
        until(case.point, || {
            cluster.log("cbexe.h1")[before.len()..].contains(&passed)
        });
        cluster.arm("");
        cluster.dev_up("--no-wait");
        let states = cluster.wait(|s| ["DONE", "EXIT"].contains(&state(s, id)));
        assert_eq!(state(&states, id), case.state, "{}", case.point);
        assert_eq!(ran(&cluster, id), case.ran, "{}", case.point);
    }
}

/// Row 13: leaders that die while they read the journal, as for want of memory.
#[test]
fn leaders_that_die_while_taking_over_are_counted_in_an_alarm() {
    let cluster = Cluster::up_armed("--hosts 1 --slots 4 --masters 1 --cgroup off");
    let id = answer(&cluster, submit(&cluster));
    done_once(&cluster, id);
    let states = cluster.states();
    kill_9(cluster.leader().pid);
    cluster.arm("leader.recovering=kill");
    for _ in 0..3 {
        cluster.dev_up("--no-wait");
        until("it dies", || {
            cluster.ps().iter().all(|p| p.role != "cbsched")
        });
    }
    cluster.arm("");
    cluster.dev_up("");
    assert_eq!(cluster.states(), states);
    let view = || std::fs::read_to_string(cluster.share().join("view/params.yaml")).unwrap();
    until("the alarm", || {
        view().contains("the last 3 leaders died while taking over")
    });
}

/// Row 21: every call on the share takes 200 ms and jobs keep coming: nobody takes over. The lease
/// is the usual one; with the shortest, of 3 s, a renewal alone takes most of it.
#[test]
#[ignore = "CORRAL_SLOW_S seconds, 120 unless told"]
fn a_share_that_is_slow_costs_no_leadership() {
    let seconds = std::env::var("CORRAL_SLOW_S")
        .ok()
        .and_then(|s| s.parse().ok());
    let limit = Duration::from_secs(seconds.unwrap_or(120));
    let cluster = Cluster::up_armed("--hosts 2 --slots 8 --masters 2 --lease 15 --cgroup off");
    let leader = cluster.leader().pid;
    cluster.arm(&format!(
        "sys.any@{}=delay:200ms",
        cluster.share().display()
    ));
    let begin = Instant::now();
    let mut asked = Vec::new();
    while begin.elapsed() < limit {
        asked.push(submit(&cluster));
        std::thread::sleep(Duration::from_millis(500));
    }
    let n = asked.len();
    let ids: Vec<u32> = asked
        .into_iter()
        .map(|csub| answer(&cluster, csub))
        .collect();
    assert_eq!(cluster.leader().pid, leader, "{}", cluster.logs());
    cluster.arm("");
    cluster.wait(|s| ids.iter().all(|id| state(s, *id) == "DONE"));
    assert!(ids.iter().all(|id| ran(&cluster, *id) == 1));
    eprintln!("{n} submissions in {:?}, no takeover", begin.elapsed());
}
