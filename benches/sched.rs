//! Benchmarks of the scheduler: one JSON line a number. `sbin/bench-sched [NAME...]` runs it.
//!
//! The cluster of all of them: 10,000 hosts of 50 slots in 10 host groups, 1,000 users in a
//! two-level share tree, 5 queues, 20 limits, 1,000,000 pending single-slot jobs. `limit` is a bare
//! loop over the same placement problem, measured in the same run, where there is one; else the
//! bound the project set itself. One thread decides. `replay` runs the simulator on a log
//! made for it, `leader` a real leader with simulated hosts.

#![allow(clippy::disallowed_methods)] // measures with clocks
#![allow(unreachable_pub)] // a program of its own

#[path = "sched/leader.rs"]
mod leader;

use corral::config::{Config, OsNames};
use corral::model::{AttemptId, JobKey, Share, Spec, Stamp, TermReason, Token};
use corral::record::event::{Event, Submitted};
use corral::record::load::LoadDoc;
use corral::record::order::Act;
use corral::record::report::Ended;
use corral::sched::plan_applier::{Sink, apply_plan};
use corral::sched::{Engine, HostTable};
use corral::state::{PREFETCH_BATCH, State};
use mimalloc::MiMalloc;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// As the leader's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const HOSTS: usize = 10_000;
const SLOTS: u32 = 50;
const USERS: u32 = 1000;
const QUEUES: u32 = 5;
const JOBS: u32 = 1_000_000;
/// Starts decided between two looks at the events, as the leader does it.
const PACK: usize = 4096;

fn line(name: &str, value: f64, unit: &str, limit: f64) {
    let round = |x: f64| (x * 1000.0).round() / 1000.0;
    let row = serde_json::json!({
        "name": name, "value": round(value), "unit": unit, "limit": round(limit),
        "ratio": round(value / limit),
    });
    println!("{row}");
    std::io::stdout().flush().expect("standard output");
}

type Bench = (&'static str, fn());

const BENCHES: &[Bench] = &[
    // First: what later ones gave back would hide it.
    ("memory", memory),
    ("fill", fill),
    ("steady", steady),
    ("shapes", shapes),
    ("counted", counted),
    ("kinds", kinds),
    ("units", units),
    ("events", events),
    ("replay", replay),
    ("leader", leader),
];

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    if let Some(odd) = asked.iter().find(|a| !BENCHES.iter().any(|(n, _)| n == a)) {
        let names: Vec<&str> = BENCHES.iter().map(|(n, _)| *n).collect();
        eprintln!(
            "bench-sched: no benchmark {odd}; there are: {}",
            names.join(" ")
        );
        return ExitCode::from(2);
    }
    let mut failed = false;
    for (name, run) in BENCHES
        .iter()
        .filter(|(n, _)| asked.is_empty() || asked.iter().any(|a| a == n))
    {
        if std::panic::catch_unwind(run).is_err() {
            eprintln!("bench-sched: {name} failed");
            failed = true;
        }
    }
    ExitCode::from(u8::from(failed))
}

/// The cluster's cb.yaml.
fn config() -> Arc<Config> {
    let mut text = String::from(
        "cluster: {name: bench, administrators: [root]}\nhosts:\n\
         - {name: default, slots: 50, resources: {gpu: 4, device: 4, memory: 200}}\n\
         - {names: 'n[00000-09999]'}\nhostgroups:\n",
    );
    for g in 0..10 {
        let (from, to) = (g * 1000, g * 1000 + 999);
        writeln!(text, "- {{name: hg{g}, members: 'n[{from:05}-{to:05}]'}}").expect("a string");
    }
    text.push_str("usergroups:\n");
    for g in 0..50 {
        let members: Vec<String> = (0..20).map(|n| format!("u{:03}", g * 20 + n)).collect();
        let (members, shares) = (members.join(" "), "[default,1]");
        writeln!(
            text,
            "- {{name: g{g:02}, members: '{members}', fairshare: '{shares}'}}"
        )
        .expect("a string");
    }
    let shares: Vec<String> = (0..50)
        .map(|g| format!("[g{g:02},{}]", 1 + g % 4))
        .collect();
    text.push_str("queues:\n");
    for q in 0..QUEUES {
        let (priority, shares) = (10 + q, shares.join(" "));
        writeln!(
            text,
            "- {{name: q{q}, priority: {priority}, fairshare: '{shares}'}}"
        )
        .expect("a string");
    }
    text.push_str("limits:\n");
    for n in 0..20 {
        let who = match n % 5 {
            0 => format!("queues: q{}, slots: 400000", n % 4),
            1 => "per_user: all, slots: 20000".to_owned(),
            2 => format!("hosts: hg{}, slots: 45000", n % 10),
            3 => format!("per_host: hg{}, jobs: 49", n % 10),
            _ => format!("users: g{n:02}, per_queue: all, slots: 100000"),
        };
        writeln!(text, "- {{name: l{n:02}, {who}}}").expect("a string");
    }
    let loaded = corral::config::load(text.as_bytes(), "cb.yaml", &OsNames::ANY);
    let loaded = loaded.unwrap_or_else(|p| panic!("{}", p[0]));
    Arc::new(loaded.config)
}

/// A cluster in memory with its scheduler.
struct Cluster {
    state: State,
    table: HostTable,
    engine: Engine,
    now: i64,
    running: Vec<JobKey>,
}

/// Nobody is told: the engine and the state alone are measured.
impl Sink for Cluster {
    fn state(&mut self) -> &mut State {
        &mut self.state
    }

    fn emit(&mut self, event: Event) {
        self.state.apply(&event);
    }

    fn bound(&mut self, a: AttemptId) {
        self.running.push(a.j);
    }

    fn signal(&mut self, _j: JobKey, _act: Act, _reason: TermReason) {}

    fn resized(&mut self, _j: JobKey, _added: &[Share]) {}
}

impl Cluster {
    /// With `JOBS` pending jobs; `shapes` requirement strings in turn.
    fn new(shapes: &[&str]) -> Cluster {
        let config = config();
        let mut state = State::new();
        let mut seen = BTreeMap::new();
        for name in config.host_names().map(str::to_owned).collect::<Vec<_>>() {
            let t = Stamp(0);
            let (up, boot) = (true, "b".to_owned());
            state.apply(&Event::HostSeen {
                name: name.clone(),
                up,
                boot,
                t,
            });
            let doc = LoadDoc {
                host: name.clone(),
                executor: true,
                ncpus: SLOTS,
                host_type: "X".into(),
                ..LoadDoc::default()
            };
            seen.insert(name, (doc, 0));
        }
        let mut table = HostTable::default();
        table.rebuild(&config, &state, &seen);
        let mut cluster = Cluster {
            state,
            table,
            engine: Engine::new(config),
            now: 1_000_000,
            running: Vec::new(),
        };
        cluster.submit_all(shapes);
        cluster
    }

    fn submit_all(&mut self, shapes: &[&str]) {
        let kinds = USERS * QUEUES * shapes.len() as u32;
        for n in 0..kinds {
            let user = n % USERS;
            let spec = Spec {
                uid: 1000 + user,
                user: format!("u{user:03}"),
                queue: format!("q{}", n / USERS % QUEUES),
                min: 1,
                max: 1,
                res_req: shapes[(n / USERS / QUEUES) as usize].to_owned(),
                sub_host: "login".into(),
                cwd: "/".into(),
                ..Spec::default()
            };
            let spec = Box::new(spec);
            self.state.apply(&Event::Spec { id: n + 1, spec });
        }
        for id in 1..=JOBS {
            let job = Submitted {
                id,
                s: 1 + (id.wrapping_mul(2_654_435_761) >> 7) % kinds,
                t: Stamp(i64::from(id)),
                command: "true".into(),
                name: String::new(),
                array: String::new(),
                array_limit: 0,
                hold: false,
                tok: Token(u128::from(id)),
                line: 0,
                key: String::new(),
                cron: None,
            };
            self.state.apply(&Event::Submitted(Box::new(job)));
        }
    }

    /// One pass and its events; how many started.
    fn pass(&mut self) -> usize {
        self.now += 10;
        let now = Stamp(self.now);
        self.engine.sync(&mut self.state, &mut self.table);
        let plan = self.engine.plan(&self.state, &self.table, now, PACK);
        let started = plan.starts.len();
        // The leader publishes what changed, and forgets it.
        std::hint::black_box(self.state.take_dirty());
        apply_plan(plan, now, self);
        started
    }

    /// Ends `n` of the running jobs, chosen by `seed`, told in one turn as hosts' reports are.
    fn end(&mut self, n: usize, seed: &mut u64) {
        let mut ended = Vec::with_capacity(n);
        for _ in 0..n {
            *seed ^= *seed << 13;
            *seed ^= *seed >> 7;
            *seed ^= *seed << 17;
            let at = (*seed % self.running.len() as u64) as usize;
            ended.push((self.running.swap_remove(at), None));
        }
        for some in ended.chunks(PREFETCH_BATCH) {
            self.state.prefetch(some);
            for (j, _) in some {
                let e = Ended {
                    a: AttemptId { j: *j, at: 1 },
                    t: self.now,
                    code: Some(0),
                    ..Ended::default()
                };
                self.state.apply(&Event::Ended {
                    e: Box::new(e),
                    requeue: false,
                    hold: false,
                });
            }
        }
    }

    fn fill(&mut self) -> usize {
        let mut all = 0;
        loop {
            match self.pass() {
                0 => return all,
                n => all += n,
            }
        }
    }
}

/// Decisions a second of a bare loop: users by least use, hosts by free slots, nothing else.
fn bare_fill() -> f64 {
    let mut users: BinaryHeap<(std::cmp::Reverse<u32>, u32)> =
        (0..USERS).map(|u| (std::cmp::Reverse(0), u)).collect();
    let mut left = vec![JOBS / USERS; USERS as usize];
    let mut free: Vec<Vec<u32>> = vec![Vec::new(); SLOTS as usize + 1];
    free[SLOTS as usize] = (0..HOSTS as u32).rev().collect();
    let begin = Instant::now();
    let (mut placed, mut level) = (0u32, SLOTS as usize);
    while level > 0 {
        let Some(host) = free[level].pop() else {
            level -= 1;
            continue;
        };
        let Some((std::cmp::Reverse(used), user)) = users.pop() else {
            break;
        };
        free[level - 1].push(host);
        left[user as usize] -= 1;
        placed += 1;
        if left[user as usize] > 0 {
            users.push((std::cmp::Reverse(used + 1), user));
        }
    }
    f64::from(std::hint::black_box(placed)) / begin.elapsed().as_secs_f64()
}

/// Finish and start pairs a second of a bare loop on a full cluster.
fn bare_steady() -> f64 {
    let mut users: BinaryHeap<(std::cmp::Reverse<u32>, u32)> = (0..USERS)
        .map(|u| (std::cmp::Reverse(SLOTS * 10), u))
        .collect();
    let slots = HOSTS as u64 * u64::from(SLOTS);
    let mut owner: Vec<u32> = (0..slots).map(|n| (n % u64::from(USERS)) as u32).collect();
    let mut used = vec![(slots / u64::from(USERS)) as u32; USERS as usize];
    let mut seed = 1u64;
    let begin = Instant::now();
    const PAIRS: u32 = 2_000_000;
    for _ in 0..PAIRS {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let at = (seed % slots) as usize;
        used[owner[at] as usize] -= 1;
        // The heap's order may be old by one: who is taken out is set right before he goes back.
        let (_, user) = users.pop().expect("users are put back");
        used[user as usize] += 1;
        owner[at] = user;
        users.push((std::cmp::Reverse(used[user as usize]), user));
    }
    std::hint::black_box(&owner);
    f64::from(PAIRS) / begin.elapsed().as_secs_f64()
}

fn fill() {
    let mut cluster = Cluster::new(&[""]);
    // The first look at a million jobs is a leader's start, not a decision.
    cluster.engine.sync(&mut cluster.state, &mut cluster.table);
    let begin = Instant::now();
    let started = cluster.fill();
    let rate = started as f64 / begin.elapsed().as_secs_f64();
    assert!(
        started > HOSTS * SLOTS as usize / 2,
        "{started} jobs started"
    );
    line("fill", rate, "decisions/s at least", 200_000.0);
    line("fill_bare", rate, "decisions/s", bare_fill());
}

fn steady_rate(cluster: &mut Cluster, rounds: usize) -> f64 {
    let mut seed = 88_172_645_463_325_252;
    let begin = Instant::now();
    let mut pairs = 0;
    for _ in 0..rounds {
        cluster.end(PACK, &mut seed);
        pairs += cluster.pass();
    }
    assert!(
        pairs > rounds * PACK * 9 / 10,
        "{pairs} starts in {rounds} rounds of {PACK} ends"
    );
    pairs as f64 / begin.elapsed().as_secs_f64()
}

fn steady() {
    let mut cluster = Cluster::new(&[""]);
    cluster.fill();
    let rate = steady_rate(&mut cluster, 75);
    line("steady", rate, "finish+dispatch/s at least", 200_000.0);
    line("steady_bare", rate, "finish+dispatch/s", bare_steady());
}

const FOUR: [&str; 4] = [
    "rusage[memory=2]",
    "rusage[memory=4]",
    "rusage[memory=8]",
    "rusage[memory=8:gpu=1]",
];

/// Memory, GPUs of each of these requests.
const FOUR_NEED: [(u32, u32); 4] = [(2, 0), (4, 0), (8, 0), (8, 1)];

/// Decisions a second of a bare loop with four shapes: users by least use, for each shape the first
/// host with room.
fn bare_shapes() -> f64 {
    let mut users: BinaryHeap<(std::cmp::Reverse<u32>, u32)> =
        (0..USERS).map(|u| (std::cmp::Reverse(0), u)).collect();
    let mut hosts = vec![(SLOTS, 200u32, 4u32); HOSTS];
    let mut from = [0usize; 4];
    let begin = Instant::now();
    let mut placed = 0u32;
    while let Some((std::cmp::Reverse(used), user)) = users.pop() {
        let want = (0..4).map(|n| (placed as usize + n) % 4);
        let spot = want.clone().find_map(|shape| {
            let (mem, gpu) = FOUR_NEED[shape];
            let fits = |h: &&mut (u32, u32, u32)| h.0 > 0 && h.1 >= mem && h.2 >= gpu;
            let at = hosts[from[shape]..].iter_mut().position(|h| fits(&h));
            from[shape] = at.map_or(HOSTS, |at| from[shape] + at);
            at.map(|_| shape)
        });
        let Some(shape) = spot else { break };
        let ((mem, gpu), host) = (FOUR_NEED[shape], &mut hosts[from[shape]]);
        *host = (host.0 - 1, host.1 - mem, host.2 - gpu);
        placed += 1;
        users.push((std::cmp::Reverse(used + 1), user));
    }
    f64::from(std::hint::black_box(placed)) / begin.elapsed().as_secs_f64()
}

fn shapes() {
    shapes_of("shapes", &FOUR);
}

/// The same requests, with a resource that is counted instead of one that has units: the difference
/// from `shapes` is what units cost.
fn counted() {
    let counted = FOUR.map(|request| request.replace("gpu", "device"));
    shapes_of("counted", &counted.each_ref().map(String::as_str));
}

/// Ten requests in five queues: the rates must not fall with the number of classes.
fn kinds() {
    let ten: Vec<String> = (1..=10).map(|n| format!("rusage[memory={n}]")).collect();
    let ten: Vec<&str> = ten.iter().map(String::as_str).collect();
    shapes_of("kinds", &ten);
}

/// Each job gets one of the four GPUs of a host by name, or a part of one, and gives it back.
fn units() {
    shapes_of("units", &["rusage[gpu=1]"]);
    shapes_of("units_shared", &["rusage[gpu=0.25]", "rusage[gpu=0.5]"]);
}

fn shapes_of(name: &str, shapes: &[&str]) {
    let mut cluster = Cluster::new(shapes);
    cluster.engine.sync(&mut cluster.state, &mut cluster.table);
    let begin = Instant::now();
    let started = cluster.fill();
    let rate = started as f64 / begin.elapsed().as_secs_f64();
    let unit = "decisions/s at least";
    line(&format!("{name}_fill"), rate, unit, 50_000.0);
    if name == "shapes" {
        line("shapes_bare", rate, "decisions/s", bare_shapes());
    }
    let rate = steady_rate(&mut cluster, 50);
    let unit = "finish+dispatch/s at least";
    line(&format!("{name}_steady"), rate, unit, 50_000.0);
}

/// Resident bytes of this process.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages: f64 = status
        .split(' ')
        .nth(1)
        .expect("statm")
        .parse()
        .expect("a number");
    pages * 4096.0
}

fn memory() {
    let before = resident();
    let mut cluster = Cluster::new(&[""]);
    cluster.pass();
    let each = (resident() - before) / f64::from(JOBS);
    line("memory", each / 1024.0, "KiB/pending job at most", 1.0);
}

/// What one event costs the state, with a million jobs in it.
fn events() {
    let begin = Instant::now();
    let mut cluster = Cluster::new(&[""]);
    let micros = |begin: Instant, n: u32| begin.elapsed().as_secs_f64() * 1e6 / f64::from(n);
    let submit = micros(begin, JOBS);
    let state = &mut cluster.state;
    // The scheduler listens.
    assert!(state.take_changed().is_none());
    let ids = || (1..=JOBS / 2).map(|n| n.wrapping_mul(7919) % JOBS + 1);
    let names: Vec<String> = (0..HOSTS).map(|n| format!("n{n:05}")).collect();
    let attempt = |id| AttemptId {
        j: JobKey::job(id),
        at: 1,
    };
    let mut of = |make: &dyn Fn(u32) -> Event| {
        let all: Vec<Event> = ids().map(make).collect();
        let begin = Instant::now();
        for (n, event) in all.iter().enumerate() {
            state.apply(event);
            if n % PACK == 0 {
                state.take_changed();
            }
        }
        micros(begin, JOBS / 2)
    };
    let dispatched = of(&|id| Event::Dispatched {
        a: attempt(id),
        t: Stamp(1),
        hosts: vec![Share(names[id as usize % HOSTS].clone(), 1)],
        alt: 0,
        forced: false,
        units: Vec::new(),
    });
    let (pid, t) = (1, Stamp(2));
    let started = of(&|id| Event::Started {
        a: attempt(id),
        pid,
        t,
        bind: None,
    });
    let ended = of(&|id| Event::Ended {
        e: Box::new(Ended {
            a: attempt(id),
            t: 3,
            code: Some(0),
            ..Ended::default()
        }),
        requeue: false,
        hold: false,
    });
    let figures = [
        ("event_submitted", submit),
        ("event_dispatched", dispatched),
        ("event_started", started),
        ("event_ended", ended),
    ];
    for (name, value) in figures {
        line(name, value, "us at most", 1.5);
    }
}

/// Runs the simulator with these words; gives what it printed.
fn cbsim(words: &[&str]) -> Vec<u8> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cbsim"));
    let out = command.args(words).output().expect("cbsim");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "cbsim {words:?}: {said}");
    out.stdout
}

/// A log of 300,000 jobs replayed with EASY backfill, from the start of the program to its end.
fn replay() {
    const LOG: u64 = 300_000;
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log.swf");
    let log = log.to_str().expect("plain characters");
    let (jobs, procs) = (LOG.to_string(), "93312");
    let wish = ["--load", "0.9", "--seed", "7", "--output", log];
    cbsim(&[&["generate", "--jobs", &jobs, "--procs", procs], &wish[..]].concat());
    let begin = Instant::now();
    let said = cbsim(&["trace", "--swf", log, "--policy", "easy", "--json"]);
    let took = begin.elapsed().as_secs_f64();
    let report: serde_json::Value = serde_json::from_slice(&said).expect("a report");
    assert_eq!(report["jobs"].as_u64(), Some(LOG), "{report}");
    line("replay", took, "s at most", 10.0);
}

/// Jobs through a leader that journals, syncs and writes orders.
fn leader() {
    line(
        "leader",
        leader::rate(),
        "jobs/s started at least",
        20_000.0,
    );
}
