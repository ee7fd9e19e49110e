//! What holds jobs back, shown by real jobs: limits with windows, run and dispatch windows, load
//! thresholds, and gangs that are placed whole or not at all.

use crate::cluster::{Cluster, Process, kill_9, lines, signal};
use crate::policies::*;
use std::process::Command;

/// A window of an hour that is far from now, in the zone of this machine.
fn shut() -> String {
    let out = Command::new("date").arg("+%H").output();
    let hour: u32 = String::from_utf8(out.unwrap().stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    format!("{}:00-{}:00", (hour + 11) % 24, (hour + 12) % 24)
}

fn limits() -> String {
    let shut = shut();
    format!(
        "
hosts:
- {{name: default, slots: 3}}
- {{names: 'h[1-2]'}}
- {{names: 'h[3-4]', slots: 4, resources: {{gpu: 2}}}}
queues:
- {{name: day, hosts: h1}}
- {{name: night, hosts: h2}}
- {{name: gang, hosts: h3 h4}}
limits:
- {{name: limit1, queues: day, slots: '[5 {shut}] [1 0:00-23:59]'}}
- {{name: limit2, queues: night, slots: '[1 {shut}]'}}
- {{name: limit3, queues: gang, per_user: all, resources: '[gpu,3 0:00-23:59]'}}
"
    )
}

#[test]
fn limits_hold_in_their_windows_and_gangs_start_whole() {
    let cluster = cluster(4, &limits());
    side_by_side(&cluster, &[open_window, shut_window, gangs]);
}

/// Only one of three jobs runs at a time; the others say which limit holds them.
fn open_window(cluster: &Cluster) {
    let words = ["-q", "day", &format!("{}; sleep 1", gate("day"))];
    let ids: Vec<u32> = (0..3).map(|_| cluster.csub(&words)).collect();
    let waits = until(cluster, ids[1], "held by a limit", pends(60));
    let output = "limit limit1 (queues day): 1 of 1 slots in use, needs 1";
    assert_eq!(reason(&waits), output);
    let shown = ["climits", "-noheader", "-o", "used limit", "-n", "limit1"];
    until_said(cluster, &shown, |s| s.split_whitespace().eq(["1", "1"]));
    open(cluster, "day");
    let done = all_done(cluster, &ids);
    let mut spans: Vec<(i64, i64)> = done.iter().map(times).collect();
    spans.sort_unstable();
    let apart = spans.windows(2).all(|two| two[1].0 >= two[0].1);
    assert!(apart, "two at a time: {spans:?}");
}

/// Outside its windows the limit does not hold: all three run together.
fn shut_window(cluster: &Cluster) {
    let words = ["-q", "night", &gate("night")];
    let ids = behind_a_closed_host(cluster, "h2", || [(); 3].map(|()| cluster.csub(&words)));
    let shown = ["climits", "-noheader", "-o", "used limit", "-n", "limit2"];
    until_said(cluster, &shown, |s| s.split_whitespace().eq(["3", "-"]));
    // They count from the dispatch on; the gate opens once all of them run.
    for id in &ids {
        until(cluster, *id, "started", |job| job["start_ms"].is_number());
    }
    open(cluster, "night");
    let done = all_done(cluster, &ids);
    let last_start = done.iter().map(|j| times(j).0).max();
    let first_end = done.iter().map(|j| times(j).1).min();
    assert!(last_start < first_end, "{done:?}");
}

/// Three tasks with a GPU each on two hosts of two, under a limit of three: whole or not at all.
fn gangs(cluster: &Cluster) {
    let part = "rusage[gpu=1]";
    let gang = "1{rusage[gpu=1]} 2{rusage[gpu=1]}";
    let one = cluster.csub(&["-q", "gang", "-R", part, "-m", "h4", &gate("one")]);
    until(cluster, one, "RUN", is("RUN"));
    let whole = ["-q", "gang", "-R", gang, "echo $LSB_MCPU_HOSTS >> parts"];
    let whole = cluster.csub(&whole);
    let waits = until(cluster, whole, "held by a limit", pends(62));
    let output = reason(&waits);
    assert!(
        output.starts_with("limit limit3 (queues gang, user "),
        "{output}"
    );
    assert!(output.ends_with("1 of 3 gpu in use, needs 3"), "{output}");
    // It holds nothing meanwhile.
    let small = cluster.csub(&["-q", "gang", "-R", part, "-m", "h3", "true"]);
    all_done(cluster, &[small]);
    open(cluster, "one");
    let done = all_done(cluster, &[one, small, whole]);
    let [one, small, late] = [&done[0], &done[1], &done[2]].map(times);
    assert!(small.0 < one.1 && late.0 >= one.1, "{done:?}");
    let mut at = hosts(&done[2]);
    at.sort_unstable();
    at.dedup();
    assert_eq!(at, ["h3", "h4"]);
    let never = cluster.csub(&["-q", "gang", "-R", "4{rusage[gpu=1]}", "true"]);
    let never = until(cluster, never, "never possible", pends(63));
    assert!(reason(&never).contains("allows 3"), "{never}");
}

/// One host of a gang cannot start its part: all of it is undone, and it runs, once, when the host
/// is back.
fn gang_undone(cluster: &Cluster) {
    let members = cluster.ps();
    let executor = |p: &&Process| p.role == "cbexe" && p.host == "h4";
    let executor = members.iter().find(executor).expect("an executor").pid;
    // Stopped until it has its part: a leader that misses it already would not send the gang there.
    signal(executor, "-STOP");
    let words = ["-q", "gang", "-m", "h3+1 h4", "-n", "4"];
    let gang = cluster.csub(&[&words[..], &["echo $LSB_MCPU_HOSTS >> parts"]].concat());
    until(cluster, gang, "dispatched", |job| {
        job["attempt"].as_i64() > Some(0)
    });
    kill_9(executor);
    let undone = until(cluster, gang, "undone", |job| {
        is("PEND")(job) && job["attempt"].as_i64() > Some(0)
    });
    assert_eq!((&undone["slots"], hosts(&undone)), (&0.into(), Vec::new()));
    assert!(
        reason(&undone).contains("h4") || undone["reason"]["code"] != 43,
        "{undone}"
    );
    cluster.dev_up("");
    let done = all_done(cluster, &[gang]);
    assert!(done[0]["attempt"].as_i64() > Some(1), "{done:?}");
    let output = lines(&cluster.work().join("parts"));
    assert_eq!(output, ["h3 2 h4 2"], "{done:?}");
}

const OPEN: &str = "0:00-23:59";

#[test]
fn jobs_are_stopped_undone_and_go_on() {
    let cluster = cluster(4, &windows(OPEN, 20));
    side_by_side(&cluster, &[windows_and_thresholds, gang_undone]);
}

fn windows(window: &str, temperature: u32) -> String {
    format!(
        "
hosts:
- {{name: default, slots: 2}}
- {{name: h1}}
- {{names: 'h[3-4]'}}
- {{name: h2, slots: 3, resources: {{degrees: {temperature}}}, thresholds: {{degrees: '40/60'}}}}
resources:
- {{name: degrees, direction: increase}}
queues:
- {{name: normal, hosts: h1}}
- {{name: warm, hosts: h2}}
- {{name: gang, hosts: h3 h4}}
- {{name: runs, hosts: h1, run_window: '{window}'}}
- {{name: starts, hosts: h1, dispatch_window: '{window}'}}
"
    )
}

/// A window closes and a host grows hot: what runs is stopped with its reason, nothing starts. It
/// opens and cools: all goes on.
fn windows_and_thresholds(cluster: &Cluster) {
    let gate = gate("watch");
    let submit = |queue: &str| cluster.csub(&["-q", queue, &gate]);
    // The last running job of a host that nobody sits at is not stopped for load.
    let running = ["runs", "warm", "starts", "warm"].map(submit);
    for id in running {
        until(cluster, id, "RUN", is("RUN"));
    }
    configure(cluster, &windows(&shut(), 80));
    let [run, _, start, warm] = running;
    let stopped = until(cluster, run, "SSUSP", is("SSUSP"));
    assert_eq!(reason(&stopped), "the run window of queue runs is closed");
    let stopped = until(cluster, warm, "SSUSP", is("SSUSP"));
    let hot = "degrees is 80 on host h2, past the stop threshold 60";
    assert_eq!(reason(&stopped), hot);
    let waiting = ["runs", "warm", "starts"].map(submit);
    for (id, code, text) in [
        (waiting[0], 26, "the run window of queue runs opens"),
        (waiting[1], 40, "load threshold exceeded: 1 host"),
        (waiting[2], 25, "the dispatch window of queue starts opens"),
    ] {
        let waits = until(cluster, id, "pending for its reason", pends(code));
        assert!(reason(&waits).contains(text), "{waits}");
    }
    open(cluster, "watch");
    // A dispatch window does not stop what runs.
    until(cluster, start, "DONE", is("DONE"));
    assert_eq!(jobs(cluster)[&start]["suspended_ms"], 0);
    configure(cluster, &windows(OPEN, 20));
    let done = all_done(cluster, &[&running[..], &waiting[..]].concat());
    assert!(done[0]["suspended_ms"].as_i64() > Some(0), "{done:?}");
}
