//! Golden scripts: `tests/golden/sched/*.case`, each a small cluster, jobs, and the start times
//! that must come out of the engine. The scripts say it all; this file only plays them.
//!
//! A script: comment lines (`#`), then `config:` with cb.yaml lines, `jobs:` with lines
//! `ID SUBMIT RUN SLOTS [key=value ...]` in seconds, `starts:` with `ID SECOND [HOSTS]` (`-` =
//! never). Keys: `est` (run limit in seconds, without it none), `on` (the
//! host or model that it is stated for), `q`, `u`, `app`, `R` (`~` = a blank),
//! `sp`, `x`, `m`, `max` (slots), `cpu` (hours it used, told at its end), `begin` (second).
//!
//! Parts that a script may leave out: `samples:` with `SECOND HOST key=value ...`, load that hosts
//! tell; `acts:` with all that is done to running jobs, `SECOND act ID [HOSTS]`; `ends:` with `ID
//! SECOND`; `shares:` with `SECOND QUEUE PATH COLUMN VALUE`, lines of the share tree in hours and
//! the digits that the script gives.
//!
//! At one instant all ends come first, then all submissions, samples, one pass. A job's run time
//! is that of a host with CPU factor 1.

use super::{Cluster, T0, job};
use crate::model::{JobKey, JobStat, Spec, Stamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;

/// Number of passes for the passing of time after everything in a script has happened.
const IDLE_MAX: u32 = 100;

struct ScriptJob {
    id: u32,
    submit: i64,
    run: i64,
    cpu_ms: u64,
    spec: Spec,
}

/// The words of a line that starts with a second.
struct TimedWords {
    second: i64,
    words: Vec<String>,
}

#[derive(Default)]
struct Script {
    config: String,
    jobs: Vec<ScriptJob>,
    samples: Vec<TimedWords>,
    starts: BTreeMap<u32, String>,
    ends: BTreeMap<u32, String>,
    acts: Vec<String>,
    shares: Vec<TimedWords>,
}

fn parse(text: &str) -> Script {
    let mut script = Script::default();
    let mut part = "";
    for line in text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
    {
        match (line, part) {
            ("config:" | "jobs:" | "samples:" | "starts:" | "ends:" | "acts:" | "shares:", _) => {
                part = line;
            }
            (_, "config:") => script.config.push_str(&format!("{line}\n")),
            (_, "jobs:") => script.jobs.push(job_line(line)),
            (_, "starts:") => expect(&mut script.starts, line),
            (_, "ends:") => expect(&mut script.ends, line),
            (_, "acts:") => script.acts.push(line.to_owned()),
            (_, "samples:") => script.samples.push(at_line(line)),
            (_, "shares:") => script.shares.push(at_line(line)),
            _ => panic!("a line before the first part: {line}"),
        }
    }
    script
}

fn expect(of: &mut BTreeMap<u32, String>, line: &str) {
    let (id, rest) = line.split_once(' ').expect("ID and second");
    let before = of.insert(id.parse().expect("a job id"), rest.trim().to_owned());
    assert_eq!(before, None, "job {id} is there twice");
}

fn at_line(line: &str) -> TimedWords {
    let mut words = line.split_whitespace().map(str::to_owned);
    let second = words.next().expect("a second");
    TimedWords {
        second: second.parse().expect("a second"),
        words: words.collect(),
    }
}

fn job_line(line: &str) -> ScriptJob {
    let mut cpu_ms = 0;
    let mut words = line.split_whitespace();
    let mut number = || -> i64 {
        let word = words.next().unwrap_or_else(|| panic!("too short: {line}"));
        word.parse()
            .unwrap_or_else(|_| panic!("not a number: {word} in {line}"))
    };
    let (id, submit, run, slots) = (number() as u32, number(), number(), number() as u32);
    let mut spec = job(slots);
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "est" => spec.limits.run_s = Some(value.parse().expect("seconds")),
            "q" => spec.queue = value.into(),
            "u" => {
                spec.user = value.into();
                let mix = |n: u32, b: u8| n.wrapping_mul(37).wrapping_add(u32::from(b));
                spec.uid = value.bytes().fold(2000, mix);
            }
            "app" => spec.app = value.into(),
            "on" => spec.run_on = value.into(),
            "R" => spec.res_req = value.replace('~', " "),
            "sp" => spec.priority = value.parse().expect("a priority"),
            "x" => spec.exclusive = true,
            "m" => spec.hosts = value.into(),
            "max" => spec.max = value.parse().expect("slots"),
            "cpu" => cpu_ms = value.parse::<u64>().expect("hours") * 3_600_000,
            "begin" => {
                let second: i64 = value.parse().expect("a second");
                spec.begin = Some(Stamp(T0 + second * 1000));
            }
            _ => panic!("unknown word {word} in {line}"),
        }
    }
    ScriptJob {
        id,
        submit,
        run,
        cpu_ms,
        spec,
    }
}

/// How far a job of a script is.
#[derive(Default)]
struct JobProgress {
    attempt: u32,
    /// Since when it runs; `None` = it does not run.
    since: Option<i64>,
    /// Seconds for which it still has to run.
    left: i64,
    /// Counts stops: an end with an older count is void.
    stops: u32,
}

impl JobProgress {
    /// Checks what happened to the job in a pass. Returns true if it started (again).
    fn look(&mut self, cluster: &Cluster, id: u32, run: i64, now: i64) -> bool {
        let attempt = cluster.state.work(JobKey::job(id)).map_or(0, |w| w.attempt);
        let runs = cluster.stat(id) == JobStat::Run;
        let started = attempt != self.attempt;
        if started {
            (self.attempt, self.left, self.since) = (attempt, run, None);
            self.stops += 1;
        }
        match (runs, self.since) {
            (true, None) => self.since = Some(now),
            (false, Some(since)) => {
                self.left -= now - since;
                self.since = None;
                self.stops += 1;
            }
            _ => {}
        }
        started
    }
}

/// The result of a script.
#[derive(Default)]
struct ScriptResult {
    /// Second and hosts by script id; for a job that was requeued, its last start.
    starts: BTreeMap<u32, (i64, String)>,
    ends: BTreeMap<u32, i64>,
    acts: Vec<String>,
    /// Deviations from `shares:`.
    wrong: Vec<String>,
}

/// A script that is being run.
struct ScriptRun<'a> {
    cluster: Cluster,
    /// By the id in the cluster.
    ids: BTreeMap<u32, (&'a ScriptJob, JobProgress)>,
    ends: BinaryHeap<Reverse<(i64, u32, u32)>>,
    out: ScriptResult,
}

impl ScriptRun<'_> {
    fn end_all(&mut self, now: i64) {
        while let Some(Reverse((_, id, stops))) =
            self.ends.peek().filter(|Reverse((at, ..))| *at == now)
        {
            let (id, stops) = (*id, *stops);
            self.ends.pop();
            if self.ids.get(&id).is_some_and(|(_, g)| g.stops == stops) {
                let (line, _) = self.ids.remove(&id).expect("just seen");
                self.cluster.end_used(JobKey::job(id), false, line.cpu_ms);
                self.out.ends.insert(line.id, now);
            }
        }
    }

    /// Runs a pass, and records its effect on the jobs.
    fn pass(&mut self, now: i64) {
        self.cluster.pass();
        for act in &self.cluster.log {
            let mut words = act.split(' ');
            let (act, id) = (words.next(), words.next().expect("a job"));
            let id: u32 = id.trim_end_matches(':').parse().expect("a job id");
            let mut line = format!("{now} {} {}", act.expect("an act"), self.ids[&id].0.id);
            for more in words.filter(|_| act == Some("grow")) {
                line = format!("{line} {more}");
            }
            self.out.acts.push(line);
        }
        for (id, (line, going)) in &mut self.ids {
            let on = self.cluster.on_key(JobKey::job(*id));
            if going.look(&self.cluster, *id, line.run, now) {
                let host = on.split(':').next().expect("split gives one");
                let factor = self.cluster.config.cpu_factor(host).unwrap_or(1.0);
                going.left = (going.left as f64 / factor) as i64;
                self.out.starts.insert(line.id, (now, on));
            }
            if going.since == Some(now) {
                let at = now + going.left;
                self.ends.push(Reverse((at, *id, going.stops)));
            }
        }
    }

    fn look_at_shares(&mut self, words: &[String]) {
        let [queue, path, column, want] = words else {
            panic!("QUEUE PATH COLUMN VALUE, not {words:?}");
        };
        let trees = self.cluster.engine.shares(self.cluster.now);
        let rows = trees.iter().find(|(name, _)| name == queue).map(|t| &t.1);
        let row = rows.and_then(|rows| rows.iter().find(|r| r.path == *path));
        let row = row.unwrap_or_else(|| panic!("no {path} in the tree of {queue}"));
        let hours = |ms: u64| ms as f64 / 3_600_000.0;
        let value = match column.as_str() {
            "priority" => row.priority as f64 / 1e6,
            "history" => hours(row.hist_ms),
            "run" => hours(row.run_ms),
            "slots" => row.started as f64,
            _ => panic!("no column {column}"),
        };
        let digits = want.split_once('.').map_or(0, |(_, after)| after.len());
        let is = format!("{value:.digits$}");
        if is != *want {
            let text = format!("{column} of {path} is {is}, not {want}");
            self.out.wrong.push(text);
        }
    }
}

fn play(script: &Script) -> ScriptResult {
    let mut p = ScriptRun {
        cluster: Cluster::new(&script.config),
        ids: BTreeMap::new(),
        ends: BinaryHeap::new(),
        out: ScriptResult::default(),
    };
    let mut order: Vec<&ScriptJob> = script.jobs.iter().collect();
    order.sort_by_key(|line| line.submit);
    let mut next = order.into_iter().peekable();
    let mut samples = script.samples.iter().peekable();
    let mut shares = script.shares.iter().peekable();
    let mut idle = 0;
    loop {
        let end = p.ends.peek().map(|Reverse((at, ..))| *at);
        let submit = next.peek().map(|line| line.submit);
        let next_wake = [samples.peek(), shares.peek()].map(|at| at.map(|at| at.second));
        let next_wake = next_wake.into_iter().flatten().min();
        let wake = p.cluster.last.wake.map(|at| (at.0 - T0 + 999) / 1000);
        let wake = wake.filter(|at| T0 + at * 1000 > p.cluster.now.0);
        if end.is_none() && submit.is_none() && next_wake.is_none() {
            // A window may stay open permanently; jobs that are not affected within this many
            // passes stay as they are.
            idle += 1;
            if wake.is_none() || p.ids.is_empty() || idle > IDLE_MAX {
                return p.out;
            }
        }
        let times = end.into_iter().chain(submit).chain(next_wake).chain(wake);
        let now = times.min().expect("just looked");
        p.cluster.now = Stamp(T0 + now * 1000);
        p.end_all(now);
        while let Some(line) = next.next_if(|line| line.submit == now) {
            let id = p.cluster.submit(line.spec.clone());
            p.ids.insert(id, (line, JobProgress::default()));
        }
        while let Some(at) = samples.next_if(|at| at.second == now) {
            tell_load(&mut p.cluster, &at.words);
        }
        p.pass(now);
        while let Some(at) = shares.next_if(|at| at.second == now) {
            p.look_at_shares(&at.words);
        }
    }
}

fn tell_load(cluster: &mut Cluster, words: &[String]) {
    let (host, values) = words.split_first().expect("a host");
    cluster.sample(host, |load| {
        for word in values {
            let (key, value) = word.split_once('=').expect("key=value");
            let value: f64 = value.parse().expect("a number");
            match key {
                "mem" => load.mem = value,
                "r1m" => load.r1m = value,
                "ut" => load.ut = value,
                _ => panic!("no load index {key}"),
            }
        }
    });
}

/// Expected by a script but not found when it was run.
fn differences(script: &Script, got: &ScriptResult) -> Vec<String> {
    let mut out = got.wrong.clone();
    for (id, want) in &script.starts {
        let is = match got.starts.get(id) {
            None => "-".to_owned(),
            Some((at, _)) if !want.contains(' ') => at.to_string(),
            Some((at, on)) => format!("{at} {on}"),
        };
        if is != *want {
            out.push(format!("job {id} starts {is}, not {want}"));
        }
    }
    for (id, want) in &script.ends {
        let is = got.ends.get(id).map_or("-".to_owned(), i64::to_string);
        if is != *want {
            out.push(format!("job {id} ends {is}, not {want}"));
        }
    }
    if !script.acts.is_empty() && script.acts != got.acts {
        out.push(format!("acts are {:#?}, not {:#?}", got.acts, script.acts));
    }
    out
}

#[test]
fn golden_scripts_give_what_they_say() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/sched");
    #[allow(clippy::disallowed_methods)] // a test reads its scripts
    let files = std::fs::read_dir(dir).expect("tests/golden/sched is there");
    let mut paths: Vec<_> = files.map(|f| f.expect("a file").path()).collect();
    paths.sort();
    let mut wrong = String::new();
    assert!(paths.len() >= 40, "scripts are missing");
    for path in paths {
        #[allow(clippy::disallowed_methods)] // a test reads its scripts
        let text = std::fs::read_to_string(&path).expect("a script");
        let script = parse(&text);
        assert!(
            script.starts.len() + script.shares.len() > 0,
            "{} expects nothing",
            path.display()
        );
        for what in differences(&script, &play(&script)) {
            writeln!(wrong, "{}: {what}", path.display()).expect("a string");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
