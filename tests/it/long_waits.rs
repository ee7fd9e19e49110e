//! `csub -K` and `cwait` while jobs run: an interruption ends the wait, not the jobs.

use crate::cluster::Cluster;
use crate::policies::{is, until};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn start(cluster: &Cluster, words: &[&str]) -> Child {
    let mut command = cluster.command(words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Whether it has got so far that an interruption does not just end it.
fn heeds_interruptions(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    caught.is_some_and(|set| set & (1 << (libc::SIGINT - 1)) != 0)
}

/// Interrupts it; its exit code and what it said.
fn interrupted(child: Child) -> (Option<i32>, String) {
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).unwrap();
    let began = Instant::now();
    let out = child.wait_with_output().unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "it ends: {took:?}");
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn an_interrupted_wait_says_that_the_jobs_go_on() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1");
    let keeps = start(&cluster, &["csub", "-K", "-J", "a[1-3]", "sleep 1000"]);
    until(&cluster, 1, "known", |_| true);
    let single = cluster.csub(&["-H", "sleep 1"]).to_string();
    let waits = start(&cluster, &["cwait", "1"]);
    let quiet = start(&cluster, &["cwait", "-quiet", &single]);
    for child in [&keeps, &waits, &quiet] {
        crate::patience::until("it heeds interruptions", || heeds_interruptions(child));
    }
    std::thread::sleep(Duration::from_secs(3));
    let (code, output) = interrupted(keeps);
    assert_eq!(code, Some(130), "{output}");
    assert!(
        output.contains("job <1> continues: 'cwait 1' waits"),
        "{output}"
    );
    let (code, output) = interrupted(waits);
    assert_eq!(code, Some(130), "{output}");
    assert!(
        output.contains("interrupted; the jobs continue"),
        "{output}"
    );
    let (code, output) = interrupted(quiet);
    assert_eq!((code, output.as_str()), (Some(130), ""));
    let states = cluster.states();
    assert_eq!(states[&(1, 1)], "RUN", "{states:?}");
    cluster.ok("ckill", &["-u", "all", "0"]);
    until(&cluster, 2, "killed", is("EXIT"));
}
