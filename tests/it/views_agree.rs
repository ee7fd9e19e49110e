//! Commands that show jobs and those that count them show one moment, and what jobs use is counted
//! for hosts, queues, users and limits alike.

use crate::cluster::Cluster;
use crate::patience::deadline;
use crate::policies;
use serde_json::Value;
use std::time::Instant;

const SECTIONS: &str = "
hosts:
- {name: default, slots: 4}
- {name: h1}
queues:
- {name: normal, priority: 10, hosts: h1}
limits:
- {name: all, slots: 100}
- {name: each, per_user: all, slots: 50}
";

/// The rows of a command's JSON lines.
fn rows(cluster: &Cluster, words: &[&str]) -> Vec<Value> {
    let words = [words, &["--json"]].concat();
    let output = cluster.ok(words[0], &words[1..]);
    output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What all commands that count say about one running and `pend` pending slots of jobs.
fn counted(cluster: &Cluster, run: u64, pend: u64) -> Result<(), String> {
    let is = |what: &str, row: &Value, key: &str, due: u64| {
        let found = row.get(key).unwrap_or(&row["counts"][key]);
        match found.as_f64() {
            Some(n) if n == due as f64 => Ok(()),
            _ => Err(format!("{what}: {key} is not {due}: {row}")),
        }
    };
    let queue = &rows(cluster, &["cqueues", "normal"])[0];
    is("cqueues", queue, "run", run)?;
    is("cqueues", queue, "pend", pend)?;
    is("cqueues", queue, "njobs", run + pend)?;
    let host = &rows(cluster, &["chosts", "h1"])[0];
    is("chosts", host, "run", run)?;
    is("chosts", host, "njobs", run)?;
    let user = &rows(cluster, &["cusers"])[0];
    is("cusers", user, "run", run)?;
    is("cusers", user, "pend", pend)?;
    for name in ["all", "each"] {
        let limits = rows(cluster, &["climits", "-n", name]);
        assert_eq!(limits.len(), 1, "one row for {name}: {limits:?}");
        is("climits", &limits[0], "used", run)?;
    }
    let jobs = cluster.ok("chosts", &["-noheader", "-o", "jobs:", "h1"]);
    let listed = jobs.split(',').filter(|job| job.contains('(')).count() as u64;
    (listed == run)
        .then_some(())
        .ok_or_else(|| format!("chosts -j: {run} jobs are not {jobs:?}"))
}

#[test]
fn what_cjobs_shows_is_counted_at_once() {
    let cluster = policies::cluster(1, SECTIONS);
    counted(&cluster, 0, 0).unwrap();
    for started in 1..=4 {
        let id = cluster.csub(&["sleep 1000"]).to_string();
        wait_for(&cluster, &id, "RUN");
        counted(&cluster, started, 0).unwrap_or_else(|e| panic!("after start {started}: {e}"));
    }
    let status = &rows(&cluster, &["chosts", "h1"])[0];
    assert_eq!(status["status"], "closed_Full", "{status}");
    let id = cluster.csub(&["-n", "2", "sleep 1000"]).to_string();
    wait_for(&cluster, &id, "PEND");
    counted(&cluster, 4, 2).unwrap();
    cluster.ok("ckill", &[&id]);
    wait_for(&cluster, &id, "EXIT");
    counted(&cluster, 4, 0).unwrap();
    cluster.ok("ckill", &["-u", "all", "0"]);
    let end = deadline();
    while !cluster
        .ok("cjobs", &["-noheader", "-o", "jobid"])
        .is_empty()
    {
        assert!(Instant::now() < end, "jobs do not end");
    }
    counted(&cluster, 0, 0).unwrap();
}

/// Looks without a pause: what follows must be true at once.
fn wait_for(cluster: &Cluster, id: &str, stat: &str) {
    let end = deadline();
    loop {
        let output = cluster.ok("cjobs", &["-a", "-noheader", "-o", "stat:", id]);
        if output.trim() == stat {
            return;
        }
        assert!(Instant::now() < end, "job {id} is {output}");
    }
}
