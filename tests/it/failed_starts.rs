//! Starts that fail, through a whole cluster: where the jobs go, and what becomes of the hosts.

use crate::cluster::Cluster;
use crate::policies;
use corral::sys::fs;
use serde_json::Value;

const HOSTS: &str = "hosts:\n- {name: h1, slots: 4}\n- {name: h2, slots: 4}\n";

/// The status of each host.
fn statuses(site: &Cluster) -> Vec<String> {
    let lines = site.ok("chosts", &["--json"]);
    let hosts = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    hosts.map(|host| host["status"].to_string()).collect()
}

/// One host lacks what the queue's pre-exec needs. Jobs of the queue run on the other one, those of
/// other queues on both, and neither host is `unreach`.
#[test]
fn a_pre_exec_that_fails_on_one_host_moves_jobs_of_its_queue() {
    let site = policies::cluster(2, &format!("{HOSTS}queues:\n- {{name: q}}\n"));
    let hook = site.dir().join("prolog");
    let text = "#!/bin/sh\ntest \"$CB_EXEC_HOST\" = h1\n";
    fs::publish_mode(&hook, text.as_bytes(), 0o755).unwrap();
    let queues = format!(
        "{HOSTS}queues:\n- {{name: q}}\n- {{name: picky, pre_exec: {}}}\n\
         general: {{default_queue: q}}\n",
        hook.display()
    );
    policies::configure(&site, &queues);
    let picky: Vec<u32> = (0..6)
        .map(|_| site.csub(&["-q", "picky", "-m", "h1 h2", "sleep 0.2"]))
        .collect();
    let other = site.csub(&["-m", "h2", "true"]);
    policies::until(&site, other, "DONE", policies::is("DONE"));
    for id in picky {
        let job = policies::until(&site, id, "DONE", policies::is("DONE"));
        assert_eq!(job["exec_hosts"][0]["host"], "h1", "{job}");
    }
    for status in statuses(&site) {
        assert!(!status.contains("unreach"), "{status}");
    }
}

#[test]
fn a_missing_directory_is_told_at_once_and_ends_the_job_with_the_reason() {
    let site = policies::cluster(2, &format!("{HOSTS}queues:\n- {{name: q}}\n"));
    let id = site.csub(&["-o", "missing/out", "true"]);
    let job = policies::until(&site, id, "EXIT", policies::is("EXIT"));
    assert_eq!(
        job["attempt"], 1,
        "the submitter had no such directory either: {job}"
    );
    let text = job["text"].as_str().unwrap();
    assert!(text.contains("missing/out"), "{job}");
    // What disappears after the submission is tried on both hosts.
    let dir = site.work().join("gone");
    std::fs::create_dir(&dir).unwrap();
    let held = site.csub(&["-H", "-cwd", dir.to_str().unwrap(), "true"]);
    std::fs::remove_dir(&dir).unwrap();
    site.ok("cresume", &[&held.to_string()]);
    let job = policies::until(&site, held, "EXIT", policies::is("EXIT"));
    assert_eq!(job["attempt"], 2, "{job}");
    let text = job["text"].as_str().unwrap();
    assert!(
        text.contains("host h1: ") && text.contains("host h2: "),
        "{job}"
    );
    assert!(statuses(&site).iter().all(|status| status.contains("ok")));
}
