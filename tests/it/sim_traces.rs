//! Replays through the real core against start times that are known: eight small cases worked out
//! by hand, and public logs with the start times of an independent simulator where a folder with
//! them is given (`CORRAL_TRACES`).

use corral::cbsim;
use corral::config::{self, OsNames};
use corral::replay::workload::{Workload, print_seconds};
use corral::replay::{convert, csv, files, generate, metrics, policy, swf, trace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Start of each job, by its number, in seconds.
fn starts(workload: &Workload, config: &str) -> BTreeMap<u64, String> {
    let loaded = config::load(config.as_bytes(), "cb.yaml", &OsNames::ANY);
    let config = Arc::new(loaded.unwrap_or_else(|e| panic!("{e:?}")).config);
    let outcome = trace::run(workload, config);
    assert_eq!(outcome.never_ended, vec![], "every job starts");
    let each = workload.jobs.iter().zip(&outcome.starts);
    each.map(|(job, at)| (job.id, print_seconds(at.unwrap())))
        .collect()
}

/// Jobs as `id: submit run [estimate] wWIDTH`, a line each.
fn case(jobs: &str) -> Workload {
    let mut text = "id,submit,run,estimate,slots\n".to_owned();
    for line in jobs.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (id, rest) = line.split_once(": ").unwrap();
        let words: Vec<&str> = rest.split_whitespace().collect();
        let slots = words.last().unwrap().trim_start_matches('w');
        let estimate = match words.len() {
            4 if words[2] == "-" => "",
            4 => words[2],
            _ => words[1],
        };
        text.push_str(&format!(
            "{id},{},{},{estimate},{slots}\n",
            words[0], words[1]
        ));
    }
    csv::read(text.as_bytes(), "case", &|_| false).unwrap()
}

/// Holds `ID@START` pairs against a replay.
fn check(jobs: &str, procs: u32, policy: &str, expected: &str) {
    let config = match policy {
        "first-fit" => policy::config("fcfs", procs)
            .unwrap()
            .replace("  strict: yes\n", ""),
        _ => policy::config(policy, procs).unwrap(),
    };
    let found = starts(&case(jobs), &config);
    for pair in expected.split_whitespace() {
        let (id, at) = pair.split_once('@').unwrap();
        let id: u64 = id.parse().unwrap();
        assert_eq!(found[&id], at, "job {id} under {policy}: {found:?}");
    }
}

const ONE: &str = "1: 0 100 w6
                   2: 1 50 w8
                   3: 2 60 w2
                   4: 3 200 w2
                   5: 4 90 w4";

#[test]
fn case_1_the_head_of_the_line_blocks_all() {
    check(ONE, 10, "fcfs", "1@0 2@100 3@100 4@150 5@150");
}

#[test]
fn case_2_backfill_by_time_and_in_the_extra_slots() {
    check(ONE, 10, "easy", "1@0 2@100 3@2 4@3 5@150");
}

#[test]
fn case_3_conservative_protects_every_reservation() {
    let jobs = "1: 0 100 w6
                2: 1 100 w8
                3: 2 50 w10
                4: 3 250 w2";
    check(jobs, 10, "easy", "1@0 2@100 3@253 4@3");
    check(jobs, 10, "conservative", "1@0 2@100 3@200 4@250");
}

#[test]
fn case_4_the_shortest_candidate_first() {
    let jobs = "1: 0 100 w8
                5: 0 10 w2
                2: 1 50 w10
                3: 2 80 w2
                4: 3 20 w2";
    check(jobs, 10, "easy", "2@100 3@10 4@150");
    check(jobs, 10, "sjbf", "2@100 3@150 4@10");
}

#[test]
fn case_5_an_early_end_is_used() {
    let jobs = "1: 0 50 100 w8
                2: 1 100 w10
                3: 2 90 w2
                4: 60 10 w2";
    check(jobs, 10, "easy", "1@0 2@92 3@2 4@60");
    check(jobs, 10, "fcfs", "1@0 2@50");
}

#[test]
fn case_6_a_candidate_may_end_exactly_at_the_reservation() {
    let jobs = "1: 0 100 w8
                2: 1 100 w10
                3: 2 98 w2
                4: 3 99 w2";
    check(jobs, 10, "easy", "2@100 3@2 4@200");
}

#[test]
fn case_7_without_run_limits_only_extra_slots_are_used() {
    let jobs = "1: 0 100 - w6
                2: 1 100 - w8
                3: 2 300 - w2
                4: 3 300 - w1";
    check(jobs, 10, "easy", "2@100 3@2 4@200");
}

#[test]
fn case_8_a_wide_job_does_not_starve_behind_a_reservation() {
    let mut jobs = "1: 0 10 w2\n2: 0 15 w2\n3: 1 10 w4\n".to_owned();
    for n in 1..=20 {
        jobs.push_str(&format!("{}: {} 10 w1\n", n + 3, 2 * n));
    }
    check(&jobs, 4, "easy", "3@15");
    check(&jobs, 4, "first-fit", "3@65");
}

/// The folder of public logs, if there is one; says why not.
fn folder() -> Option<PathBuf> {
    let Some(dir) = std::env::var_os("CORRAL_TRACES").map(PathBuf::from) else {
        println!("skipped: CORRAL_TRACES names no folder of logs and reference start times");
        return None;
    };
    if !dir.join("reference").is_dir() {
        println!("skipped: {} has no folder reference", dir.display());
        return None;
    }
    Some(dir)
}

/// The logs of a folder, without `.swf.gz`.
fn logs(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir.join("swf")).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut logs: Vec<String> = names
        .filter_map(|n| n.strip_suffix(".swf.gz").map(str::to_owned))
        .collect();
    logs.sort();
    logs
}

fn compare(policy: &str, suffix: &str) {
    let Some(dir) = folder() else {
        return;
    };
    for log in logs(&dir) {
        let file = dir.join("swf").join(format!("{log}.swf.gz"));
        let reference = dir
            .join("reference")
            .join(format!("{log}.{suffix}.starts.gz"));
        if !reference.is_file() {
            println!("skipped: no {}", reference.display());
            continue;
        }
        let mut workload = swf::read(&files::read(&file).unwrap(), &log).unwrap();
        let procs = workload.procs.expect("the header says MaxProcs");
        workload.drop_oversized(procs);
        let found = starts(&workload, &policy::config(policy, procs).unwrap());
        let text = String::from_utf8(files::read(&reference).unwrap()).unwrap();
        let expected: Vec<(u64, &str)> = text
            .lines()
            .map(|l| l.split_once(' ').unwrap())
            .map(|(id, at)| (id.parse().unwrap(), at))
            .collect();
        assert_eq!(found.len(), expected.len(), "{log}: jobs");
        let wrong: Vec<_> = expected
            .iter()
            .filter(|(id, at)| found[id] != *at)
            .collect();
        let first = wrong
            .first()
            .map(|(id, at)| format!("job {id}: {} not {at}", found[id]));
        assert_eq!(
            wrong.len(),
            0,
            "{log} under {policy}: {}",
            first.unwrap_or_default()
        );
    }
}

#[test]
fn logs_under_fcfs_start_as_in_the_reference() {
    compare("fcfs", "fcfs");
}

#[test]
fn logs_under_easy_start_as_in_the_reference() {
    compare("easy", "easy");
}

#[test]
fn logs_under_sjbf_start_as_in_the_reference() {
    compare("sjbf", "sjbf");
}

#[test]
fn logs_under_conservative_start_as_in_the_reference() {
    compare("conservative", "consp");
}

#[test]
fn a_replay_is_the_same_on_every_run() {
    let wish = generate::WorkloadOptions {
        jobs: 600,
        procs: 64,
        users: 10,
        queues: 1,
        load: 1.1,
        seed: 5,
    };
    let workload = generate::generate(&wish).unwrap();
    for name in ["easy", "conservative"] {
        let config = policy::config(name, 64).unwrap();
        let loaded = config::load(config.as_bytes(), name, &OsNames::ANY).unwrap();
        let config = Arc::new(loaded.config);
        let (a, b) = (
            trace::run(&workload, config.clone()),
            trace::run(&workload, config),
        );
        assert_eq!((a.starts, a.done), (b.starts, b.done), "{name}");
    }
}

/// A published result of fairshare with EASY backfill.
struct Published {
    log: &'static str,
    jobs: u64,
    wait_s: f64,
    slowdown: f64,
    /// Mean waits by user. At 75 % a model of the simulator's rules gives them, as it does at 50 %
    /// to within one per cent.
    waits: [(&'static str, f64); 4],
}

const PUBLISHED: [Published; 2] = [
    Published {
        log: "Example1-load_50%-urgent_10%-instance_0.swf",
        jobs: 1943,
        wait_s: 398.18,
        slowdown: 4.872,
        waits: [
            ("urgent_large_user", 529.1),
            ("urgent_tiny_user", 21.9),
            ("normal_large_user", 1718.4),
            ("normal_small_user", 277.4),
        ],
    },
    Published {
        log: "Example1-load_75%-urgent_10%-instance_0.swf",
        jobs: 2830,
        wait_s: 1100.5,
        slowdown: 11.02,
        waits: [
            ("urgent_large_user", 1894.7),
            ("urgent_tiny_user", 133.8),
            ("normal_large_user", 3493.3),
            ("normal_small_user", 1021.8),
        ],
    },
];

#[test]
fn fairshare_with_backfill_serves_as_well_as_a_published_simulator() {
    let Some(dir) = folder() else {
        return;
    };
    for published in &PUBLISHED {
        let file = dir.join("aleang").join(published.log);
        if !file.is_file() {
            println!("skipped: no {}", file.display());
            continue;
        }
        serves_as_well(published, &file);
    }
}

/// Five per cent more at most, over all jobs and for each user.
fn serves_as_well(published: &Published, file: &Path) {
    let wish = convert::AleangOptions {
        backfill: "1",
        ..convert::AleangOptions::default()
    };
    let made = cbsim::convert_aleang(file, wish).unwrap();
    assert_eq!(made.workload.left_out.total(), 0);
    let loaded = config::load(made.config.as_bytes(), "cb.yaml", &OsNames::ANY).unwrap();
    let mut outcome = trace::run(&made.workload, Arc::new(loaded.config));
    outcome.done.sort_by_key(|d| d.job);
    let summary = metrics::summarize(&outcome.done, 68);
    assert_eq!(summary.jobs, published.jobs);
    let wait_of = |user: &str| {
        let job = |d: &&metrics::FinishedJob| &made.workload.jobs[d.job as usize];
        let of = outcome.done.iter();
        let waits = of.filter(|d| made.workload.request(job(d)).user == user);
        let waits: Vec<u64> = waits.map(metrics::FinishedJob::wait_ms).collect();
        metrics::Spread::of(waits).mean
    };
    let users = published.waits.iter();
    let mut all: Vec<(&str, f64, f64)> = users.map(|(u, s)| (*u, wait_of(u), *s)).collect();
    all.push(("mean wait", summary.wait_s.mean, published.wait_s));
    all.push(("bounded slowdown", summary.avg_bsld, published.slowdown));
    println!("{}: {all:.2?}", published.log);
    for (what, found, there) in all {
        assert!(
            found <= there * 1.05,
            "{}: {what}: {found:.2}, published {there}",
            published.log
        );
    }
}

/// Per cent of all GPUs that are allocated when all of them have been asked for.
fn allocated(dir: &Path, packing: &str, seed: u64) -> f64 {
    let read = |name: &str| files::read(&dir.join("openb").join(name)).unwrap();
    let made = convert::openb(&convert::Openb {
        nodes: &read("openb_node_list_gpu_node.csv.gz"),
        pods: &read("openb_pod_list_default.csv.gz"),
        packing,
        load_milli: 1000,
        seed,
    });
    let made = made.unwrap();
    let loaded = config::load(made.config.as_bytes(), "cb.yaml", &OsNames::ANY).unwrap();
    let outcome = trace::run(&made.workload, Arc::new(loaded.config));
    assert_eq!(outcome.refused_jobs, 0, "{:?}", outcome.refused);
    // Nothing ends before all have come: what started later did not fit.
    let last = made.workload.jobs.last().unwrap().submit_ms;
    let gpus = |job: &corral::replay::workload::Job| {
        let ask = &made.workload.request(job).res_req;
        let amount = ask
            .split_once(":gpu=")
            .map(|(_, n)| n.trim_end_matches(']'));
        amount.map_or(0.0, |n| n.parse().unwrap())
    };
    let each = made.workload.jobs.iter().zip(&outcome.starts);
    let (mut asked, mut got) = (0.0, 0.0);
    for (job, start) in each {
        asked += gpus(job);
        if start.is_some_and(|at| at <= last) {
            got += gpus(job);
        }
    }
    // The last job may have asked for up to one host more than there was.
    assert!((6212.0..6220.0).contains(&asked), "{asked}");
    100.0 * got / 6212.0
}

#[test]
fn shared_gpus_are_allocated_as_well_as_in_the_fragmentation_study() {
    if cfg!(debug_assertions) {
        println!("skipped: minutes without optimisation; cargo test --release");
        return;
    }
    let Some(dir) = folder() else {
        return;
    };
    if !dir.join("openb").is_dir() {
        println!("skipped: {} has no folder openb", dir.display());
        return;
    }
    for seed in [42, 43, 1] {
        let of = |packing| allocated(&dir, packing, seed);
        let (fit, frag) = (of("fit"), of("frag"));
        println!("order {seed}: fit {fit:.2} %, frag {frag:.2} %");
        assert!(fit >= 92.0, "best fit: {fit:.2} %");
        assert!(frag >= 94.0, "least fragments: {frag:.2} %");
    }
}
