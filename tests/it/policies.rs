//! What the tests of the scheduling policies share: a cluster of virtual hosts under a given
//! configuration, and its jobs as `cjobs --json` gives them. Owns no expectations; the cases are in
//! the modules `policies_*`, each with hosts and queues of its own, so that those of one cluster run
//! side by side.

use crate::cluster::{Cluster, text};
use crate::patience::find_or;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// A cluster of `hosts` hosts whose cb.yaml holds `sections` instead of what it was made with.
pub fn cluster(hosts: u32, sections: &str) -> Cluster {
    let cluster = Cluster::up(&format!("--hosts {hosts} --slots 1 --masters 1"));
    configure(&cluster, sections);
    cluster
}

/// Puts `sections` (hosts, queues, ...) into force as an administrator does.
pub fn configure(cluster: &Cluster, sections: &str) {
    let path = cluster.share().join("conf/cb.yaml");
    let old = std::fs::read_to_string(&path).unwrap();
    let (head, _) = old.split_once("\nhosts:").expect("a section of hosts");
    std::fs::write(&path, format!("{head}\n{}", sections.trim_start())).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
}

/// Runs cases side by side; all must hold.
pub fn side_by_side(cluster: &Cluster, cases: &[fn(&Cluster)]) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| case(cluster));
        }
    });
}

/// Known jobs by id, finished ones too.
pub fn jobs(cluster: &Cluster) -> BTreeMap<u32, Value> {
    let output = cluster.ok("cjobs", &["-a", "-u", "all", "--json"]);
    let rows = output
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    rows.map(|row| (row["id"].as_u64().unwrap() as u32, row))
        .collect()
}

/// Waits until `done` holds for the job; gives it as it was then.
pub fn until(cluster: &Cluster, id: u32, what: &str, done: impl Fn(&Value) -> bool) -> Value {
    let job = || jobs(cluster).remove(&id);
    find_or(
        || job().filter(&done),
        || format!("job {id} is not {what}: {:?}\n{}", job(), cluster.logs()),
    )
}

/// Waits until a command says `what`.
pub fn until_said(cluster: &Cluster, words: &[&str], what: impl Fn(&str) -> bool) -> String {
    let output = || cluster.ok(words[0], &words[1..]);
    find_or(
        || Some(output()).filter(|output| what(output)),
        || format!("{words:?} says at last: {}", output()),
    )
}

pub fn stat(job: &Value) -> &str {
    job["stat"].as_str().unwrap_or_default()
}

pub fn is(word: &'static str) -> impl Fn(&Value) -> bool {
    move |job| stat(job) == word
}

/// Pends for the reason of this stable code.
pub fn pends(code: u64) -> impl Fn(&Value) -> bool {
    move |job| stat(job) == "PEND" && job["reason"]["code"] == code
}

/// Was looked at: runs, has ended, or pends for a reason of its own.
pub fn tried(job: &Value) -> bool {
    stat(job) != "PEND" || job["reason"]["code"].as_u64() > Some(1)
}

/// The sentence of a waiting or stopped job.
pub fn reason(job: &Value) -> String {
    job["reason"]["text"].as_str().unwrap_or("none").to_owned()
}

/// Waits until all are DONE; gives them.
pub fn all_done(cluster: &Cluster, ids: &[u32]) -> Vec<Value> {
    ids.iter()
        .map(|id| until(cluster, *id, "DONE", is("DONE")))
        .collect()
}

/// When a job started and ended, in milliseconds.
pub fn times(job: &Value) -> (i64, i64) {
    let at = |name: &str| {
        job[name]
            .as_i64()
            .unwrap_or_else(|| panic!("{name}: {job}"))
    };
    (at("start_ms"), at("end_ms"))
}

/// Names of the hosts a job is or was on, one for each part.
pub fn hosts(job: &Value) -> Vec<&str> {
    let list = job["exec_hosts"].as_array().expect("a list of hosts");
    list.iter().filter_map(|h| h["host"].as_str()).collect()
}

/// Waits for the ends; gives the ids in the order of their starts.
pub fn order(cluster: &Cluster, ids: &[u32]) -> Vec<u32> {
    let done = all_done(cluster, ids);
    let mut by_start: Vec<(i64, u32)> = done.iter().map(|j| times(j).0).zip(ids.to_vec()).collect();
    by_start.sort_unstable();
    by_start.into_iter().map(|(_, id)| id).collect()
}

/// The command of a job that ends when the test opens the gate.
pub fn gate(name: &str) -> String {
    format!("while [ ! -e {name}.open ]; do sleep 0.1; done")
}

pub fn open(cluster: &Cluster, name: &str) {
    std::fs::write(cluster.work().join(format!("{name}.open")), "").unwrap();
}

/// Submits while the host is closed to jobs, then opens it: all wait when the first is chosen.
pub fn behind_a_closed_host<T>(cluster: &Cluster, host: &str, submit: impl FnOnce() -> T) -> T {
    cluster.ok("cadmin", &["hclose", host]);
    let submitted = submit();
    cluster.ok("cadmin", &["hopen", host]);
    submitted
}

/// Submits as another user of this machine; only root can.
pub fn csub_as(cluster: &Cluster, uid: u32, args: &[&str]) -> u32 {
    use std::os::unix::process::CommandExt as _;
    let mut csub: Command = cluster.command("csub");
    let out = csub.args(args).uid(uid).gid(uid).output().unwrap();
    let stdout = String::from_utf8_lossy(&out.stdout);
    crate::cluster::job_id(&stdout).unwrap_or_else(|| panic!("{}", text(&out)))
}
