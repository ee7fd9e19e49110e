//! Random kills and freezes of daemons under a steady stream of short jobs: nothing lost, nothing
//! run twice, no process left over, no memory or disk that grows. `tests/soak.sh` runs it at full
//! size through the environment variables below; the default test is the same in small.

mod audit;
pub mod load;
pub mod procs;
pub mod watch;

use crate::cluster::{Cluster, kill_9, signal};
use corral::model::SplitMix64;
use load::Load;
use procs::Proc;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watch::{Memory, TaskLogs, line};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

/// What is to be done.
struct Plan {
    seconds: u64,
    kills: u64,
    /// Jobs a second.
    rate: u64,
    /// Seconds under the same load without kills: daemons live long enough to show a slope.
    calm: u64,
    seed: u64,
}

impl Plan {
    fn of_environment() -> Plan {
        Plan {
            seconds: setting("CORRAL_SOAK_SECONDS", 12),
            kills: setting("CORRAL_SOAK_KILLS", 8),
            rate: setting("CORRAL_SOAK_RATE", 5),
            calm: setting("CORRAL_SOAK_CALM", 0),
            seed: setting("CORRAL_SOAK_SEED", std::process::id().into()),
        }
    }
}

const T_MS: u64 = 3_000;
/// Kinds of daemons and how often each is hit, of a hundred.
const AIMS: [(&str, u64); 6] = [
    ("leader", 22),
    ("candidate", 8),
    ("cbls", 15),
    ("cbexe", 20),
    ("spawner", 15),
    ("shepherd", 20),
];

/// A running soak, shared by its threads.
struct Soak<'a> {
    cluster: &'a Cluster,
    dir: PathBuf,
    share: PathBuf,
    locals: Vec<(String, PathBuf)>,
    load: Load,
    stop: AtomicBool,
    begin: Instant,
    /// Kills and freezes by kind.
    done: Mutex<BTreeMap<String, u64>>,
    memory: Mutex<Memory>,
    logs: Mutex<TaskLogs>,
    disk: Mutex<Vec<(f64, BTreeMap<String, u64>)>>,
}

impl Soak<'_> {
    fn members(&self) -> Vec<Proc> {
        procs::members(&self.dir, &self.share)
    }

    fn aim(&self, rng: &mut SplitMix64) -> Option<Proc> {
        let members = self.members();
        for _ in 0..20 {
            let mut left = rng.below(100);
            let aim = AIMS.iter().find(|(_, weight)| {
                let hit = left < *weight;
                left = left.saturating_sub(*weight);
                hit
            });
            let Some((role, _)) = aim else { continue };
            let of: Vec<&Proc> = members.iter().filter(|p| p.role == *role).collect();
            if !of.is_empty() {
                return Some(of[rng.below(of.len() as u64) as usize].clone());
            }
        }
        None
    }

    /// Hits a random daemon: one in four is stopped for longer than T and goes on then.
    fn hit(&self, rng: &mut SplitMix64) -> bool {
        let Some(p) = self.aim(rng) else {
            return false;
        };
        let freeze = rng.below(4) == 0;
        let how = if freeze { "stop" } else { "kill" };
        eprintln!(
            "{:7.1} {how} {} {} ({})",
            self.begin.elapsed().as_secs_f64(),
            p.role,
            p.name,
            p.pid
        );
        if freeze {
            signal(p.pid, "-STOP");
            let rest = T_MS + 500 + rng.below(4000);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(rest));
                signal(p.pid, "-CONT");
            });
        } else {
            kill_9(p.pid);
        }
        let mut done = self.done.lock().unwrap();
        *done.entry(format!("{how}_{}", p.role)).or_default() += 1;
        true
    }

    fn hit_all(&self, plan: &Plan) {
        let mut rng = SplitMix64::new(plan.seed);
        let pause = plan.seconds * 1000 / plan.kills.max(1);
        for n in 0..plan.kills {
            let due = self.begin + Duration::from_millis(n * pause + rng.below(pause));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            while !self.hit(&mut rng) {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// Starts again what died, as a supervisor does.
    fn supervise(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let members = self.members();
            let daemons = |role: &str| members.iter().filter(|p| p.role == role).count();
            let masters = daemons("leader") + daemons("candidate");
            let hosts = self.locals.len();
            if masters < 3 || daemons("cbls") < hosts || daemons("cbexe") < hosts {
                self.cluster.dev_up("--no-wait");
            }
            std::thread::sleep(Duration::from_millis(700));
        }
    }

    fn watch(&self) {
        for n in 0u64.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let at = self.begin.elapsed().as_secs_f64();
            self.logs.lock().unwrap().read(&self.locals);
            if n.is_multiple_of(10) {
                self.memory.lock().unwrap().sample(at, &self.members());
            }
            if n.is_multiple_of(60) {
                let disk = watch::disk(&self.share, &self.locals);
                self.disk.lock().unwrap().push((at, disk));
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Runs the plan; the load is over and answered when this returns.
    fn run(&self, plan: &Plan) {
        std::thread::scope(|scope| {
            let load = scope.spawn(|| self.load.run(self.cluster, plan.rate));
            let aux = [
                scope.spawn(|| self.supervise()),
                scope.spawn(|| self.watch()),
            ];
            let hits = scope.spawn(|| self.hit_all(plan));
            let end = self.begin + Duration::from_secs(plan.seconds + plan.calm);
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            let hits = hits.join();
            self.load.stop.store(true, Ordering::Relaxed);
            let load = load.join();
            let drained = hits.is_ok() && load.is_ok() && self.drain();
            self.stop.store(true, Ordering::Relaxed);
            for thread in aux {
                thread.join().unwrap();
            }
            assert!(drained, "jobs did not end\n{}", self.cluster.logs());
        });
        self.logs.lock().unwrap().read(&self.locals);
    }

    /// Waits until nothing is pending or running any more.
    fn drain(&self) -> bool {
        let end = Instant::now() + Duration::from_secs(300);
        while Instant::now() < end {
            let out = self.cluster.run("cjobs", &["-u", "all", "-noheader"]);
            if crate::cluster::text(&out).contains("No unfinished job") {
                return true;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        let left = self.cluster.run("cjobs", &["-u", "all", "-l"]);
        eprintln!("{}", String::from_utf8_lossy(&left.stdout));
        false
    }
}

/// Finished jobs are forgotten after a minute, as they are after an hour on a real site: otherwise
/// the leader's memory grows with every job.
fn forget_soon(cluster: &Cluster) {
    let path = cluster.share().join("conf/cb.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = match text.contains("\ngeneral:\n") {
        true => text.replacen("\ngeneral:\n", "\ngeneral:\n  clean_period: 60\n", 1),
        false => text + "\ngeneral:\n  clean_period: 60\n",
    };
    std::fs::write(&path, text).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
}

/// Processes of jobs, of shepherds or of nobody that are still there when all jobs have ended. A
/// spawner keeps shepherds ready that have no job: its children without children.
fn orphans(soak: &Soak<'_>) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let members = soak.members();
        let parent = |p: &Proc| members.iter().find(|m| m.pid == p.ppid);
        let fine = |p: &Proc| match p.role.as_str() {
            "shepherd" => parent(p).is_some_and(|m| m.role == "spawner"),
            "spawner" => parent(p).is_some_and(|m| m.role == "cbexe"),
            _ => true,
        };
        let known = |pid: i32| members.iter().any(|p| p.pid == pid && fine(p));
        let all = procs::mentioning(&soak.dir);
        let odd: Vec<String> = all
            .into_iter()
            .filter(|(pid, _)| !known(*pid))
            .map(|(pid, words)| format!("{pid} {words}"))
            .collect();
        if odd.is_empty() || Instant::now() > end {
            return odd;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn percentile(sorted: &[u64], of_100: usize) -> f64 {
    let at = (sorted.len() * of_100).div_ceil(100).max(1) - 1;
    sorted.get(at).map_or(0.0, |v| *v as f64)
}

fn print(soak: &Soak<'_>, plan: &Plan, verdict: &audit::Verdict, orphans: &[String]) {
    let jobs = soak.load.jobs();
    line("soak_jobs", jobs as f64, "jobs");
    let seconds = (plan.seconds + plan.calm) as f64;
    line("soak_rate", jobs as f64 / seconds, "jobs/s");
    for (what, n) in soak.done.lock().unwrap().iter() {
        line(&format!("soak_{what}"), *n as f64, "times");
    }
    line("soak_takeovers", verdict.takeovers as f64, "times");
    line("soak_done", verdict.done as f64, "jobs");
    line("soak_end_unknown", verdict.unknown as f64, "jobs");
    line("soak_lost", verdict.lost.len() as f64, "jobs");
    line("soak_double", verdict.double.len() as f64, "jobs");
    line("soak_odd", verdict.odd.len() as f64, "records");
    line("soak_orphans", orphans.len() as f64, "processes");
    let failed = soak.load.failed.load(Ordering::Relaxed);
    line("soak_csub_gave_up", failed as f64, "commands");
    line("soak_unpromised", verdict.unpromised as f64, "jobs");
    let skipped = soak.load.skipped.load(Ordering::Relaxed);
    line("soak_not_submitted", skipped as f64, "jobs");
    let mut took = soak.load.took.lock().unwrap().clone();
    took.sort_unstable();
    line("soak_csub_p50", percentile(&took, 50), "ms");
    line("soak_csub_p99", percentile(&took, 99), "ms");
    for slope in soak.memory.lock().unwrap().slopes() {
        let name = format!("soak_rss_{}", slope.role);
        line(&format!("{name}_slope"), slope.kb_a_minute, "KiB/min");
        line(&name, slope.last_kb, "KiB");
        line(&format!("{name}_watched"), slope.seconds, "s");
    }
    let disk = soak.disk.lock().unwrap();
    if let (Some((_, first)), Some((_, last))) = (disk.get(disk.len() / 2), disk.last()) {
        for (part, kb) in last {
            line(&format!("soak_disk_{part}"), *kb as f64, "KiB");
            let half = first.get(part).copied().unwrap_or(0) as f64;
            line(
                &format!("soak_disk_{part}_2nd_half"),
                *kb as f64 - half,
                "KiB",
            );
        }
    }
}

fn complain(what: &str, all: &[String]) {
    for text in all.iter().take(20) {
        eprintln!("{what}: {text}");
    }
}

#[test]
fn random_kills_lose_nothing_and_run_nothing_twice() {
    let plan = Plan::of_environment();
    let Plan {
        seconds,
        kills,
        rate,
        calm,
        seed,
    } = plan;
    eprintln!(
        "soak: {seconds} s, {kills} kills, {rate} jobs/s, calm {calm} s, CORRAL_SOAK_SEED={seed}"
    );
    let cluster = Cluster::up("--hosts 4 --slots 12 --masters 3 --lease 3");
    forget_soon(&cluster);
    let dir = cluster.dir().canonicalize().unwrap();
    let hosts = (1..=4).map(|n| format!("h{n}"));
    let soak = Soak {
        cluster: &cluster,
        share: dir.join("share"),
        locals: hosts.map(|h| (h.clone(), cluster.local(&h))).collect(),
        dir,
        load: Load::default(),
        stop: AtomicBool::new(false),
        begin: Instant::now(),
        done: Mutex::default(),
        memory: Mutex::default(),
        logs: Mutex::default(),
        disk: Mutex::default(),
    };
    soak.run(&plan);
    cluster.dev_up("");
    let orphans = orphans(&soak);
    let submitted = soak.load.asked.lock().unwrap().clone();
    let logs = std::mem::take(&mut *soak.logs.lock().unwrap());
    let mut verdict = audit::judge(&cluster, &submitted, &logs);
    let endless = audit::ends_without_start(&logs);
    verdict
        .odd
        .extend(endless.iter().map(|a| format!("{a} ended without a start")));
    print(&soak, &plan, &verdict, &orphans);
    complain("lost", &verdict.lost);
    complain("double", &verdict.double);
    complain("odd", &verdict.odd);
    complain("orphan", &orphans);
    let shepherds = soak
        .done
        .lock()
        .unwrap()
        .get("kill_shepherd")
        .copied()
        .unwrap_or(0);
    assert!(verdict.done > 0, "nothing ran");
    assert!(
        verdict.lost.is_empty() && verdict.double.is_empty(),
        "seed {seed}"
    );
    assert!(verdict.odd.is_empty() && orphans.is_empty(), "seed {seed}");
    assert!(
        verdict.unknown <= shepherds,
        "{} unknown ends of {shepherds}",
        verdict.unknown
    );
    let fsck = cluster.run("cadmin", &["fsck", "-q"]);
    assert!(fsck.status.success(), "{}", crate::cluster::text(&fsck));
    let down = cluster.down();
    assert!(down.status.success(), "{}", crate::cluster::text(&down));
    let left = procs::mentioning(&soak.dir);
    assert!(left.is_empty(), "left over: {left:?}");
}
