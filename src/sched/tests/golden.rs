//! Golden scripts: `tests/golden/*.case`, each a small cluster, jobs, and the start times that must
//! come out of the engine. The scripts say it all; this file only plays them.
//!
//! A script: comment lines (`#`), then `config:` with cb.yaml lines, `jobs:` with lines
//! `ID SUBMIT RUN SLOTS [key=value ...]` in seconds, `starts:` with `ID SECOND [HOSTS]` (`-` =
//! never). Keys: `est` (run limit in seconds, without it none), `q`, `u`, `R`, `sp`, `x`, `m`.
//! At one instant all ends come first, then all submissions, then one pass.

use super::{Cluster, T0, job};
use crate::model::{JobKey, JobStat, Spec, Stamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;

struct Line {
    id: u32,
    submit: i64,
    run: i64,
    spec: Spec,
}

struct Script {
    config: String,
    jobs: Vec<Line>,
    starts: BTreeMap<u32, String>,
}

fn parse(text: &str) -> Script {
    let mut script = Script {
        config: String::new(),
        jobs: Vec::new(),
        starts: BTreeMap::new(),
    };
    let mut part = "";
    for line in text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
    {
        match (line, part) {
            ("config:" | "jobs:" | "starts:", _) => part = line,
            (_, "config:") => script.config.push_str(&format!("{line}\n")),
            (_, "jobs:") => script.jobs.push(job_line(line)),
            (_, "starts:") => {
                let (id, rest) = line.split_once(' ').expect("ID and second");
                let id = id.parse().expect("a job id");
                script.starts.insert(id, rest.trim().to_owned());
            }
            _ => panic!("a line before the first part: {line}"),
        }
    }
    script
}

fn job_line(line: &str) -> Line {
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
                spec.uid = 2000 + value.bytes().map(u32::from).sum::<u32>();
            }
            "R" => spec.res_req = value.replace('~', " "),
            "sp" => spec.priority = value.parse().expect("a priority"),
            "x" => spec.exclusive = true,
            "m" => spec.hosts = value.into(),
            "max" => spec.max = value.parse().expect("slots"),
            _ => panic!("unknown word {word} in {line}"),
        }
    }
    Line {
        id,
        submit,
        run,
        spec,
    }
}

/// How far a job of a script is.
#[derive(Default)]
struct Going {
    attempt: u32,
    /// Since when it runs, `None` = it does not.
    since: Option<i64>,
    /// Seconds it still has to run.
    left: i64,
    /// Counts stops: an end of an older count is void.
    stops: u32,
}

impl Going {
    /// Looks what became of the job in a pass. True: it started (anew).
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

/// Start second and hosts by script id; the last start of a job that was requeued.
fn play(script: &Script) -> BTreeMap<u32, (i64, String)> {
    let mut cluster = Cluster::new(&script.config);
    let mut order: Vec<&Line> = script.jobs.iter().collect();
    order.sort_by_key(|line| line.submit);
    let mut next = order.into_iter().peekable();
    let mut ids: BTreeMap<u32, (&Line, Going)> = BTreeMap::new();
    let mut ends: BinaryHeap<Reverse<(i64, u32, u32)>> = BinaryHeap::new();
    let mut starts = BTreeMap::new();
    loop {
        let end = ends.peek().map(|Reverse((at, ..))| *at);
        let submit = next.peek().map(|line| line.submit);
        if end.is_none() && submit.is_none() {
            return starts;
        }
        let wake = cluster.last.wake.map(|at| (at.0 - T0 + 999) / 1000);
        let wake = wake.filter(|at| T0 + at * 1000 > cluster.now.0);
        let times = end.into_iter().chain(submit).chain(wake);
        let now = times.min().expect("just looked");
        cluster.now = Stamp(T0 + now * 1000);
        while ends.peek().is_some_and(|Reverse((at, ..))| *at == now) {
            let Reverse((_, id, stops)) = ends.pop().expect("just seen");
            if ids[&id].1.stops == stops {
                cluster.end(id);
                ids.remove(&id);
            }
        }
        while let Some(line) = next.next_if(|line| line.submit == now) {
            let id = cluster.submit(line.spec.clone());
            ids.insert(id, (line, Going::default()));
        }
        cluster.pass();
        for (id, (line, going)) in &mut ids {
            if going.look(&cluster, *id, line.run, now) {
                let on = cluster.on_key(JobKey::job(*id));
                starts.insert(line.id, (now, on));
            }
            if going.since == Some(now) {
                ends.push(Reverse((now + going.left, *id, going.stops)));
            }
        }
    }
}

#[test]
fn golden_scripts_give_the_starts_they_say() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    #[allow(clippy::disallowed_methods)] // a test reads its scripts
    let files = std::fs::read_dir(dir).expect("tests/golden is there");
    let mut paths: Vec<_> = files.map(|f| f.expect("a file").path()).collect();
    paths.sort();
    let mut wrong = String::new();
    assert!(paths.len() >= 12, "scripts are missing");
    for path in paths {
        #[allow(clippy::disallowed_methods)] // a test reads its scripts
        let text = std::fs::read_to_string(&path).expect("a script");
        let script = parse(&text);
        let got = play(&script);
        assert!(
            !script.starts.is_empty(),
            "{} expects nothing",
            path.display()
        );
        for (id, want) in &script.starts {
            let is = match got.get(id) {
                None => "-".to_owned(),
                Some((at, _)) if !want.contains(' ') => at.to_string(),
                Some((at, on)) => format!("{at} {on}"),
            };
            if is != *want {
                writeln!(
                    wrong,
                    "{}: job {id} starts {is}, not {want}",
                    path.display()
                )
                .expect("a string");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
