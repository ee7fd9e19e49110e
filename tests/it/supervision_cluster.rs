//! Hosts that lose their memory, their boot, their share or their room, seen by a whole cluster of
//! the real programs: every job ends once, what may run again does, nothing runs in two places.

use crate::cluster::{Cluster, Process, exists, kill_9, lines, signal};
use crate::patience::{find_or, until, until_or};
use crate::policies::configure;
use corral::sys::{detach, fs, proc, users};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

type States = BTreeMap<(u32, u32), String>;

fn skipped(why: &str) {
    println!("skipped: {why}");
}

fn is(states: &States, id: u32, stat: &str) -> bool {
    states.get(&(id, 0)).is_some_and(|s| s == stat)
}

fn pid_of(cluster: &Cluster, role: &str, host: &str) -> i32 {
    let all = cluster.ps();
    let found = all.iter().find(|p| p.role == role && p.host == host);
    found
        .unwrap_or_else(|| panic!("no {role} of {host}: {all:?}"))
        .pid
}

fn local(cluster: &Cluster, host: &str) -> PathBuf {
    cluster.share().parent().unwrap().join("local").join(host)
}

/// Waits until a file of the jobs has `n` lines.
fn wait_lines(path: &Path, n: usize) -> Vec<String> {
    find_or(
        || Some(lines(path)).filter(|found| found.len() >= n),
        || format!("{}: {:?}", path.display(), lines(path)),
    )
}

/// Runs a program that must succeed.
fn run(program: &str, args: &[&str]) {
    let out = Command::new(program).args(args).output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {out:?}");
}

/// Two jobs that run for good on `host`, with their process ids in files: the first must not run
/// again, the second may.
fn two_jobs(cluster: &Cluster, on: &str) -> (u32, u32) {
    let job = |name: &str| format!("echo $$ >> {name}; exec sleep 600");
    let once = cluster.csub(&["-rn", "-m", on, "-oo", "/dev/null", &job("once")]);
    let again = cluster.csub(&["-r", "-m", on, "-oo", "/dev/null", &job("again")]);
    wait_lines(&cluster.work().join("once"), 1);
    wait_lines(&cluster.work().join("again"), 1);
    cluster.wait(|s| is(s, once, "RUN") && is(s, again, "RUN"));
    (once, again)
}

/// The first ended unseen, the second runs again, and only once at a time.
fn one_lost_one_again(cluster: &Cluster, once: u32, again: u32) {
    cluster.wait(|s| is(s, once, "EXIT"));
    let second = wait_lines(&cluster.work().join("again"), 2);
    cluster.wait(|s| is(s, again, "RUN"));
    let pids: Vec<i32> = second.iter().map(|l| l.parse().unwrap()).collect();
    until("the first one ends", || !exists(pids[0]));
    assert!(exists(pids[1]), "{pids:?}");
    assert_eq!(lines(&cluster.work().join("once")).len(), 1);
    let output = cluster.ok("cjobs", &["-l", &once.to_string()]);
    assert!(
        output.contains("TERM_HOST_LOST") || output.contains("host"),
        "{output}"
    );
    assert!(!output.contains("Done successfully"), "{output}");
    cluster.ok("ckill", &["-r", &again.to_string()]);
    cluster.wait(|s| is(s, again, "EXIT"));
}

#[test]
fn a_host_that_lost_its_local_directory_runs_nothing_twice() {
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 1");
    let (once, again) = two_jobs(&cluster, "h1");
    kill_9(pid_of(&cluster, "cbexe", "h1"));
    fs::remove_tree(&local(&cluster, "h1")).unwrap();
    fs::mkdir_p(&local(&cluster, "h1"), 0o755).unwrap();
    cluster.dev_up("");
    one_lost_one_again(&cluster, once, again);
    let next = cluster.csub(&["-m", "h1", "true"]);
    cluster.wait(|s| is(s, next, "DONE"));
    let journal = cluster.ok("cadmin", &["journal"]);
    assert_eq!(journal.matches("host h1 uses ledger").count(), 2);
}

/// Starts a daemon of the cluster again, in a mount namespace of its own where `before` was run.
fn start_apart(pid: i32, before: &str) {
    let env = corral::sys::detach::environment(pid);
    let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let log = std::fs::read_link(format!("/proc/{pid}/fd/2")).unwrap();
    kill_9(pid);
    let log = std::fs::OpenOptions::new().append(true).open(log).unwrap();
    let script = format!("{before}; exec \"$0\"");
    let args = ["-m", "--propagation", "private", "setsid", "sh", "-c"];
    let child = Command::new("unshare")
        .args(args)
        .arg(script)
        .arg(exe)
        .env_clear()
        .envs(env)
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn();
    drop(child.unwrap());
}

fn can_unshare() -> bool {
    let out = Command::new("unshare").args(["-m", "true"]).output();
    users::may_switch() && out.is_ok_and(|o| o.status.success())
}

#[test]
fn a_reboot_ends_what_ran_on_the_host_and_runs_again_what_may_be() {
    if !can_unshare() {
        return skipped("needs root and mount namespaces");
    }
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 1");
    let (once, again) = two_jobs(&cluster, "h2");
    let (ls, exe) = (
        pid_of(&cluster, "cbls", "h2"),
        pid_of(&cluster, "cbexe", "h2"),
    );
    let environ = corral::sys::detach::environment(exe);
    let envdir = environ
        .iter()
        .find(|(name, _)| name == "CB_ENVDIR")
        .unwrap();
    let envdir = format!("CB_ENVDIR={}", envdir.1.to_string_lossy());
    // The machine dies: spawner and shepherds, the jobs, then the daemons, which come back to
    // another boot. The executor is stopped first: it must not see the others die.
    signal(exe, "-STOP");
    let fake = cluster.work().join("boot_id");
    std::fs::write(&fake, "11111111-2222-3333-4444-555555555555\n").unwrap();
    let boot = format!(
        "mount --bind {} /proc/sys/kernel/random/boot_id",
        fake.display()
    );
    for p in cluster
        .ps()
        .iter()
        .filter(|p| p.role == "cbtask" && p.host == "h2")
    {
        kill_9(p.pid);
    }
    for pid in proc::with_environment(&["CB_EXEC_HOST=h2".to_owned(), envdir]) {
        kill_9(pid);
    }
    start_apart(ls, &boot);
    start_apart(exe, &boot);
    one_lost_one_again(&cluster, once, again);
    let journal = cluster.ok("cadmin", &["journal"]);
    assert!(journal.contains("boot 11111111-2222"), "{journal}");
}

#[test]
fn a_gang_is_undone_as_soon_as_an_executor_it_waits_for_is_dead() {
    let cluster = Cluster::up("--hosts 2 --slots 1 --masters 1");
    let exe = pid_of(&cluster, "cbexe", "h2");
    run("kill", &["-STOP", &exe.to_string()]);
    let id = cluster.csub(&["-n", "2", "-oo", "/dev/null", "echo ran >> gang"]);
    cluster.wait(|s| !is(s, id, "PEND"));
    let begin = Instant::now();
    kill_9(exe);
    cluster.wait(|s| is(s, id, "PEND"));
    let took = begin.elapsed();
    println!("undone after {took:?}");
    // Not because its time is over, nor because the host is silent.
    let journal = cluster.ok("cadmin", &["journal", "--json"]);
    assert!(
        journal.contains("\"why\":\"runs no executor\""),
        "{journal}"
    );
    cluster.dev_up("");
    cluster.wait(|s| is(s, id, "DONE"));
    assert_eq!(lines(&cluster.work().join("gang")), ["ran"]);
}

#[test]
fn jobs_that_a_host_has_no_room_for_run_elsewhere() {
    let group = Path::new("/sys/fs/cgroup/pids/corral-test-elsewhere");
    if !users::may_switch() || !group.parent().is_some_and(Path::exists) {
        return skipped("needs root and the pids controller of version 1");
    }
    let _ = std::fs::create_dir(group);
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 1 --cgroup off");
    let exe = pid_of(&cluster, "cbexe", "h1");
    let comm = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let spawner = proc::children(exe)
        .into_iter()
        .find(|p| comm(*p).trim() == "cbspawner");
    std::fs::write(group.join("pids.max"), "1").unwrap();
    std::fs::write(group.join("cgroup.procs"), spawner.unwrap().to_string()).unwrap();
    cluster.ok("cadmin", &["hclose", "h2"]);
    let ids: Vec<u32> = (0..2)
        .map(|_| cluster.csub(&["-oo", "/dev/null", "echo $CB_EXEC_HOST >> where"]))
        .collect();
    // Both fail on h1, and wait; the host says why it rests.
    let rests = |wanted: bool| {
        let output = || cluster.ok("chosts", &["-l", "h1"]);
        let rests = || output().contains("cannot start tasks");
        until_or(|| rests() == wanted, output);
    };
    rests(true);
    cluster.wait(|s| ids.iter().all(|id| is(s, *id, "PEND")));
    cluster.ok("cadmin", &["hopen", "h2"]);
    cluster.wait(|s| ids.iter().all(|id| is(s, *id, "DONE")));
    assert_eq!(lines(&cluster.work().join("where")), ["h2", "h2"]);
    // It is tried again after a rest, and with room again it works on.
    std::fs::write(group.join("pids.max"), "max").unwrap();
    let last = cluster.csub(&["-m", "h1", "true"]);
    cluster.wait(|s| is(s, last, "DONE"));
    rests(false);
    drop(cluster);
    let _ = std::fs::remove_dir(group);
}

/// Times (ns) at which the job was seen on a host.
fn ticks(path: &Path, host: &str) -> Vec<u128> {
    let of = |l: &String| l.strip_prefix(host)?.trim().parse().ok();
    lines(path).iter().filter_map(of).collect()
}

/// Sets `iso_timeout` of a cluster of two hosts, to two leases at least.
fn set_iso_timeout(cluster: &Cluster, seconds: u64) {
    let sections = format!(
        "hosts:\n- {{name: h1, slots: 1}}\n- {{name: h2, slots: 1}}\nqueues:\n- {{name: normal}}\n\
         general: {{default_queue: normal, iso_timeout: {seconds}}}\n"
    );
    configure(cluster, &sections);
}

/// Waits until the load of a host names this limit.
fn wait_for_limit(cluster: &Cluster, host: &str, seconds: u64) {
    let path = cluster.share().join("hosts").join(host).join("load.yaml");
    let wanted = format!("\"iso_ms\":{},", seconds * 1000);
    let named = || std::fs::read_to_string(&path).is_ok_and(|text| text.contains(&wanted));
    until_or(named, || cluster.logs());
}

/// Cuts h2 off while a rerunnable job runs there, and sees it run on h1 only after h2 has let go.
/// `then`: what `iso_timeout` is set to when h2 cannot learn of it any more.
fn a_cut_off_host_lets_go(limit: u64, then: Option<u64>) {
    if !can_unshare() {
        return skipped("needs root and mount namespaces");
    }
    let cluster = Cluster::up("--hosts 2 --slots 1 --masters 1 --lease 3");
    set_iso_timeout(&cluster, limit);
    for role in ["cbls", "cbexe"] {
        start_apart(pid_of(&cluster, role, "h2"), "true");
    }
    wait_for_limit(&cluster, "h2", limit);
    cluster.ok("cadmin", &["hclose", "h1"]);
    let seen = cluster.work().join("seen");
    let tick = "while :; do echo \"$CB_EXEC_HOST $(date +%s%N)\" >> seen; sleep 0.1; done";
    let again = cluster.csub(&["-r", "-oo", "/dev/null", tick]);
    wait_lines(&seen, 10);
    cluster.ok("cadmin", &["hopen", "h1"]);
    // The share goes away under h2, and its executor dies: only the shepherd is left to let go.
    let share = cluster.share();
    for role in ["cbls", "cbexe"] {
        let pid = pid_of(&cluster, role, "h2").to_string();
        let share = share.to_str().unwrap();
        run(
            "nsenter",
            &["-t", &pid, "-m", "mount", "-t", "tmpfs", "none", share],
        );
    }
    kill_9(pid_of(&cluster, "cbexe", "h2"));
    if let Some(seconds) = then {
        set_iso_timeout(&cluster, seconds);
    }
    until_or(|| ticks(&seen, "h1").len() >= 5, || cluster.logs());
    let (last, first) = (ticks(&seen, "h2"), ticks(&seen, "h1"));
    let gap = first[0].saturating_sub(*last.last().unwrap());
    println!("let go {} ms before the next start", gap / 1_000_000);
    assert!(last.last() < first.first(), "it ran in two places");
    cluster.ok("ckill", &[&again.to_string()]);
    cluster.wait(|s| is(s, again, "EXIT"));
    kill_9(pid_of(&cluster, "cbls", "h2"));
}

#[test]
#[ignore = "half a minute of waiting for time limits"]
fn a_cut_off_host_lets_go_before_its_work_runs_elsewhere() {
    a_cut_off_host_lets_go(6, None);
}

#[test]
#[ignore = "a minute of waiting for time limits"]
fn a_cut_off_host_goes_by_the_limit_that_it_knew_and_so_does_the_leader() {
    a_cut_off_host_lets_go(30, Some(6));
}

/// The limit comes to hosts that look at nothing but their own silence every few seconds.
#[test]
#[ignore = "half a minute of waiting for time limits"]
fn a_shorter_limit_harms_no_task_of_a_host_that_is_not_cut_off() {
    let cluster = Cluster::up("--hosts 2 --slots 1 --masters 1 --lease 3");
    let job = cluster.csub(&["-r", "sleep 600"]);
    cluster.wait(|s| is(s, job, "RUN"));
    // Until a shepherd without a limit has looked at a beat that is older than the limit will be.
    std::thread::sleep(Duration::from_secs(8));
    for seconds in [20, 6] {
        set_iso_timeout(&cluster, seconds);
        for host in ["h1", "h2"] {
            wait_for_limit(&cluster, host, seconds);
        }
    }
    std::thread::sleep(Duration::from_secs(3));
    let output = cluster.ok("chist", &["-l", &job.to_string()]);
    assert!(
        !output.contains("cut off") && !output.contains("FENCED"),
        "{output}"
    );
    assert!(is(&cluster.states(), job, "RUN"), "{:?}", cluster.states());
    cluster.ok("ckill", &[&job.to_string()]);
}

/// Most memory that a process has had, in KB.
fn peak_kb(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let digits = line.map(|l| l.trim().trim_end_matches(" kB"));
    digits.map_or(0, |d| d.parse().unwrap())
}

/// Row 49 of the fault matrix: 300 MB of output, and no process of Corral has grown by it.
#[test]
fn what_a_task_writes_passes_through_no_daemon() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let out = cluster.work().join("out");
    let (file, mark) = (out.to_str().unwrap(), cluster.work().join("written"));
    let command = format!(
        "head -c 300000000 /dev/zero; touch {}; sleep 600",
        mark.display()
    );
    let id = cluster.csub(&["-o", file, &command]);
    until_or(
        || mark.exists(),
        || format!("{:?}\n{}", cluster.states(), cluster.logs()),
    );
    assert!(std::fs::metadata(&out).unwrap().len() >= 300_000_000);
    // The executor, and whatever stands between it and the job's shell.
    let all = proc::all();
    let is_job = |p: &&proc::ProcInfo| proc::command_line(p.pid).contains("touch");
    let shell = all.iter().filter(is_job).find(|p| {
        let words = proc::command_line(p.pid);
        words.contains(mark.to_str().unwrap()) && !words.contains("csub")
    });
    let mut at = shell.expect("the job runs").ppid;
    let mut ours = vec![
        pid_of(&cluster, "cbexe", "h1"),
        pid_of(&cluster, "cbtask", "h1"),
    ];
    while let Some(p) = all.iter().find(|p| p.pid == at && p.pid > 1) {
        let name = detach::program_name(p.pid).unwrap_or_default();
        if name.starts_with("cb") {
            ours.push(p.pid);
        }
        at = p.ppid;
    }
    assert!(ours.len() >= 3, "nothing of Corral above the job: {ours:?}");
    for pid in ours {
        let kb = peak_kb(pid);
        assert!((1..60_000).contains(&kb), "process {pid} had {kb} KB");
    }
    cluster.ok("ckill", &[&id.to_string()]);
    cluster.wait(|states| is(states, id, "EXIT"));
}

/// `ckill -r` while the job's host does not listen, and the leader dies with its orders.
#[test]
fn a_removed_job_is_killed_by_the_next_leader_and_no_second_one_starts_beside_it() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 2");
    let file = cluster.work().join("removed");
    let job = cluster.csub(&["echo $$ >> removed; exec sleep 600"]);
    let first: i32 = wait_lines(&file, 1)[0].parse().unwrap();
    cluster.wait(|s| is(s, job, "RUN"));
    let deaf = pid_of(&cluster, "cbexe", "h1");
    signal(deaf, "-STOP");
    let output = cluster.ok("ckill", &["-r", &job.to_string()]);
    assert!(output.contains("may still run on host h1"), "{output}");
    let leader = cluster.leader().pid;
    kill_9(leader);
    let other = |p: &Process| p.leader && p.pid != leader;
    let next = || cluster.ps().iter().any(other);
    until_or(next, || format!("no other leader\n{}", cluster.logs()));
    let output = cluster.ok("crequeue", &["-e", &job.to_string()]);
    assert!(output.contains("requeued and held"), "{output}");
    cluster.wait(|s| is(s, job, "PSUSP"));
    assert!(exists(first), "its host does not listen");
    assert_eq!(lines(&file).len(), 1, "a second one beside it");
    signal(deaf, "-CONT");
    until_or(
        || !exists(first),
        || format!("it runs on\n{}", cluster.logs()),
    );
    cluster.ok("cresume", &[&job.to_string()]);
    let second: i32 = wait_lines(&file, 2)[1].parse().unwrap();
    cluster.wait(|s| is(s, job, "RUN"));
    assert!(exists(second) && !exists(first));
    cluster.ok("ckill", &[&job.to_string()]);
    cluster.wait(|s| is(s, job, "EXIT"));
}
