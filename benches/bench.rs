//! The project's benchmarks: the real programs in a development cluster, one JSON line a number.
//!
//! `sbin/bench [NAME...]` runs it. `limit` is what the machine itself can do, measured in the same
//! run, for jobs: starting and reaping the same program with two in flight; for everything else it
//! is the bound the project set itself. `ratio` is value / limit. Durability stays on throughout.
//!
//! Two versions compare only on file systems that nothing was deleted from shortly before, a new one
//! for each run, named by `TMPDIR`: ext4 does not reuse an inode for some minutes and skips
//! all of these whenever a file is created (`recently_deleted`). One run of `separate` took 14 % of
//! the time of `csub` for that, after others before it.

#![allow(clippy::disallowed_methods)] // measures with clocks, makes files
#![allow(unreachable_pub)] // a program of its own

#[path = "../tests/it/cluster.rs"]
#[allow(dead_code)] // shared with the tests, which use more of it
mod cluster;

#[path = "../tests/it/patience.rs"]
#[allow(dead_code)] // as above
mod patience;

#[path = "bench/accounting.rs"]
mod accounting;
#[path = "bench/interactive.rs"]
mod interactive;
#[path = "../tests/it/terminal_bed.rs"]
#[allow(dead_code)] // as above
mod terminal_bed;

use cluster::{Cluster, job_id, kill_9, reachable};
use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// One printed line; a bound is "at most" or "at least" by its unit, as the README's table says.
fn line(name: &str, value: f64, unit: &str, limit: f64) {
    let round = |x: f64| (x * 1000.0).round() / 1000.0;
    let row = serde_json::json!({
        "name": name, "value": round(value), "unit": unit, "limit": round(limit),
        "ratio": round(value / limit),
    });
    println!("{row}");
    std::io::stdout().flush().expect("standard output");
}

/// A benchmark's name and what measures it.
type Bench = (&'static str, fn());

const BENCHES: &[Bench] = &[
    ("array", array),
    ("separate", separate),
    ("pack", pack),
    ("csub_idle", csub_idle),
    ("csub_50k", csub_50k),
    ("start_latency", start_latency),
    ("cjobs_own", cjobs_own),
    ("cjobs_all", cjobs_all),
    ("rss_100k", rss_100k),
    ("rss_1m", rss_1m),
    ("restart", restart),
    ("idle", idle),
    ("interactive", interactive::run),
    ("cacct_1m", accounting::run),
];

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    if let Some(odd) = asked.iter().find(|a| !BENCHES.iter().any(|(n, _)| n == a)) {
        let names: Vec<&str> = BENCHES.iter().map(|(n, _)| *n).collect();
        eprintln!("bench: no benchmark {odd}; there are: {}", names.join(" "));
        return ExitCode::from(2);
    }
    let mut failed = false;
    for (name, run) in BENCHES
        .iter()
        .filter(|(n, _)| asked.is_empty() || asked.iter().any(|a| a == n))
    {
        if std::panic::catch_unwind(run).is_err() {
            eprintln!("bench: {name} failed");
            failed = true;
        }
    }
    ExitCode::from(u8::from(failed))
}

/// Programs a second that a bare loop starts and reaps, two in flight.
fn bare_rate() -> f64 {
    const PROGRAMS: u32 = 4000;
    let left = AtomicU32::new(PROGRAMS);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
                {
                    Command::new("/bin/true")
                        .stdin(Stdio::null())
                        .status()
                        .expect("/bin/true");
                }
            });
        }
    });
    f64::from(PROGRAMS) / begin.elapsed().as_secs_f64()
}

/// A pipe in the cluster's working directory, where its jobs run.
fn pipe_of(cluster: &Cluster) -> std::path::PathBuf {
    let pipe = cluster.work().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo starts").success());
    pipe
}

/// Waits for a byte that a job writes into the pipe. The last job may not have closed its end yet:
/// then the end of its output is seen first.
fn wait_for_byte(pipe: &std::path::Path) {
    let mut byte = [0u8; 1];
    while std::fs::File::open(pipe).unwrap().read(&mut byte).unwrap() == 0 {}
}

/// Waits for one job (all elements of an array) by a job that depends on it and says so: a `cwait`
/// that looks often takes a tenth of the machine from what is measured.
fn wait_for(cluster: &Cluster, id: u32) {
    let pipe = pipe_of(cluster);
    let goal = format!("ended({id})");
    cluster.csub(&["-w", &goal, "-o", "/dev/null", "echo > pipe"]);
    wait_for_byte(&pipe);
}

/// An array of 10,000 on one host, from the start of csub until all have ended.
fn array() {
    for (name, cgroup) in [("array", "off"), ("array_cgroup", "auto")] {
        let cluster = Cluster::up(&format!(
            "--hosts 1 --slots 64 --masters 1 --cgroup {cgroup}"
        ));
        let limit = bare_rate();
        let begin = Instant::now();
        let id = cluster.csub(&["-J", "a[1-10000]", "-o", "/dev/null", "/bin/true"]);
        wait_for(&cluster, id);
        let rate = 10_000.0 / begin.elapsed().as_secs_f64();
        let done = cluster.states().values().filter(|s| *s == "DONE").count();
        assert!(done >= 10_000, "only {done} elements are DONE");
        line(name, rate, "jobs/s", limit);
    }
}

/// 2,000 csub processes, four at a time, until all jobs have ended.
fn separate() {
    const JOBS: u32 = 2000;
    let cluster = Cluster::up("--hosts 1 --slots 64 --masters 1 --cgroup off");
    let limit = bare_rate();
    let left = AtomicU32::new(JOBS);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
                {
                    cluster.csub(&["-o", "/dev/null", "/bin/true"]);
                }
            });
        }
    });
    loop {
        let states = cluster.states();
        if states.len() >= JOBS as usize && states.values().all(|s| s == "DONE") {
            break;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(300),
            "2000 jobs take too long"
        );
    }
    line(
        "separate",
        f64::from(JOBS) / begin.elapsed().as_secs_f64(),
        "jobs/s",
        limit,
    );
}

/// A cluster on which nothing is dispatched, so that jobs stay pending.
fn quiet_cluster() -> Cluster {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1 --cgroup off");
    cluster.ok("csadmin", &["qinact", "low"]);
    cluster
}

/// Submits `n` jobs that stay pending, in one request for each 100,000; returns jobs per second.
fn fill(cluster: &Cluster, n: u32, as_user: Option<u32>) -> f64 {
    let mut spent = 0.0;
    let mut left = n;
    while left > 0 {
        let part = left.min(100_000);
        let path = cluster.work().join("pack");
        let jobs: String = (0..part)
            .map(|i| format!("-q low -J j{i} -o /dev/null /bin/true {i}\n"))
            .collect();
        std::fs::write(&path, jobs).unwrap();
        let mut csub = match as_user {
            Some(uid) => csub_of(cluster, uid),
            None => cluster.command("csub"),
        };
        csub.arg("-pack").arg(&path).stdout(Stdio::null());
        let begin = Instant::now();
        assert!(
            csub.status().unwrap().success(),
            "csub -pack failed\n{}",
            cluster.logs()
        );
        spent += begin.elapsed().as_secs_f64();
        left -= part;
    }
    f64::from(n) / spent
}

/// `csub` for another user, who may run it wherever the checkout lies.
fn csub_of(cluster: &Cluster, uid: u32) -> Command {
    let around = cluster.dir().parent().expect("it lies in a directory");
    let mut csub = Command::new(reachable(around, env!("CARGO_BIN_EXE_cb")));
    csub.arg("csub").current_dir(cluster.work());
    csub.env("CB_ENVDIR", cluster.dir().join("etc"));
    std::os::unix::process::CommandExt::uid(&mut csub, uid);
    csub
}

fn pack() {
    let cluster = quiet_cluster();
    line("pack", fill(&cluster, 100_000, None), "jobs/s", 20_000.0);
}

/// The value below which the given share of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Milliseconds of each of `n` runs of something, sorted.
fn timed(n: u32, mut run: impl FnMut()) -> Vec<f64> {
    let mut all: Vec<f64> = (0..n)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

fn submit_latency(name: &str, cluster: &Cluster) -> f64 {
    let once = || {
        cluster.csub(&["-q", "low", "-o", "/dev/null", "/bin/true"]);
    };
    timed(20, once);
    let all = timed(300, once);
    line(name, quantile(&all, 0.5), "ms p50", 4.0);
    line(&format!("{name}_p99"), quantile(&all, 0.99), "ms p99", 4.0);
    quantile(&all, 0.5)
}

fn csub_idle() {
    submit_latency("csub_idle", &quiet_cluster());
}

fn csub_50k() {
    let cluster = quiet_cluster();
    let idle = submit_latency("csub_50k_before", &cluster);
    fill(&cluster, 50_000, None);
    let full = submit_latency("csub_50k", &cluster);
    line("csub_50k_growth", full / idle, "times", 2.0);
}

/// From the start of csub to the job's first act, seen at the other end of a pipe.
fn start_latency() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    let pipe = pipe_of(&cluster);
    let all = timed(200, || start_through(&cluster, &pipe));
    line("start_latency", quantile(&all, 0.5), "ms p50", 7.0);
    line("start_latency_p99", quantile(&all, 0.99), "ms p99", 7.0);
}

/// Submits a job that writes into the pipe, and returns once it has.
fn start_through(cluster: &Cluster, pipe: &std::path::Path) {
    let mut csub = cluster.command("csub");
    csub.args(["-o", "/dev/null", "echo > pipe"])
        .stdout(Stdio::piped());
    let child = csub.spawn().unwrap();
    wait_for_byte(pipe);
    let out = child.wait_with_output().unwrap();
    assert!(job_id(&String::from_utf8_lossy(&out.stdout)).is_some());
}

/// Lets other users into the cluster's directory, which is private otherwise.
fn open_to_all(work: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("own files");
    };
    open(work, 0o1777);
    open(
        work.ancestors()
            .nth(2)
            .expect("work lies in the cluster in a directory"),
        0o755,
    );
}

/// 100,000 jobs known, of them ten own where another user can be borrowed (as root).
fn many_jobs() -> (Cluster, bool) {
    let cluster = quiet_cluster();
    let me = std::fs::metadata("/proc/self").expect("/proc is mounted");
    let root = std::os::unix::fs::MetadataExt::uid(&me) == 0;
    if root {
        open_to_all(&cluster.work());
        fill(&cluster, 100_000 - 10, Some(65_534));
        fill(&cluster, 10, None);
    } else {
        fill(&cluster, 100_000, None);
    }
    // The view follows the acknowledgement by a tick.
    std::thread::sleep(Duration::from_secs(3));
    (cluster, root)
}

fn cjobs_own() {
    let (cluster, root) = many_jobs();
    if !root {
        eprintln!("bench: cjobs_own: without root all 100,000 jobs are own ones");
    }
    let all = timed(20, || drop(cluster.ok("cjobs", &["-noheader"])));
    line("cjobs_own", quantile(&all, 0.5), "ms p50", 50.0);
}

fn cjobs_all() {
    let (cluster, _) = many_jobs();
    let mut bytes = 0;
    let all = timed(10, || {
        bytes = cluster.ok("cjobs", &["-a", "-u", "all", "-json"]).len()
    });
    assert!(bytes > 1_000_000, "{bytes} bytes are not 100,000 jobs");
    line("cjobs_all", quantile(&all, 0.5), "ms p50", 300.0);
}

/// Resident KiB of the leader.
fn leader_rss(cluster: &Cluster) -> f64 {
    let leader = cluster
        .ps()
        .into_iter()
        .find(|p| p.leader)
        .expect("a leader");
    let status = std::fs::read_to_string(format!("/proc/{}/status", leader.pid)).unwrap();
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .expect("VmRSS");
    line.trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number")
}

fn resident(name: &str, jobs: u32) {
    let cluster = quiet_cluster();
    let before = leader_rss(&cluster);
    fill(&cluster, jobs, None);
    std::thread::sleep(Duration::from_secs(5));
    line(
        name,
        (leader_rss(&cluster) - before) / f64::from(jobs),
        "KiB/job",
        1.0,
    );
}

fn rss_100k() {
    resident("rss_100k", 100_000);
}

fn rss_1m() {
    resident("rss_1m", 1_000_000);
}

/// From kill -9 of the only leader, restarted at once, to the first start of a new job.
fn restart() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    let pipe = cluster.work().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let mut all = Vec::new();
    for _ in 0..5 {
        start_through(&cluster, &pipe);
        let leader = cluster
            .ps()
            .into_iter()
            .find(|p| p.leader)
            .expect("a leader");
        let begin = Instant::now();
        kill_9(leader.pid);
        cluster.dev_up("--no-wait");
        start_through(&cluster, &pipe);
        all.push(begin.elapsed().as_secs_f64());
    }
    all.sort_by(f64::total_cmp);
    line("restart", quantile(&all, 0.5), "s", 1.0);
    let states = cluster.states();
    assert_eq!(
        states.len(),
        10,
        "a job is missing or was made twice: {states:?}"
    );
}

/// CPU time of all daemons of a four-host cluster with nothing to do, in percent of one core.
fn idle() {
    const SECONDS: f64 = 30.0;
    let cluster = Cluster::up("");
    std::thread::sleep(Duration::from_secs(10));
    let spent = || -> f64 { cluster.ps().iter().map(|p| cpu_seconds(p.pid)).sum() };
    let before = spent();
    std::thread::sleep(Duration::from_secs_f64(SECONDS));
    line(
        "idle",
        (spent() - before) / SECONDS * 100.0,
        "% of a core",
        1.0,
    );
}

/// CPU time of a process so far; the clock tick of Linux's `/proc` is 10 ms.
fn cpu_seconds(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = |n: usize| {
        fields
            .get(n)
            .and_then(|f| f.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}
