//! Job groups on a real cluster: jobs are submitted into groups, listed and killed by group, and a
//! limit holds, also under the next leader.

use crate::cluster::{Cluster, kill_9};
use crate::policies::{is, jobs, pends, stat, until, until_said};
use serde_json::Value;
use std::collections::BTreeSet;

fn submit(cluster: &Cluster, group: &str) -> u32 {
    cluster.csub(&["-g", group, "-o", "/dev/null", "sleep", "600"])
}

/// The ids that a listing shows, in order of their submission.
fn listed(cluster: &Cluster, words: &[&str]) -> Vec<u32> {
    let output = cluster.ok(words[0], &words[1..]);
    let mut ids: Vec<u32> = output
        .lines()
        .filter_map(|id| id.trim().parse().ok())
        .collect();
    ids.sort_unstable();
    ids
}

#[test]
fn jobs_are_submitted_listed_and_killed_by_group_and_a_limit_holds() {
    let cluster = Cluster::up("--hosts 2 --slots 3 --masters 2");
    let output = cluster.ok("bgadd", &["-L", "2", "/proj"]);
    assert_eq!(output, "Job group </proj> was added.\n");
    let a = submit(&cluster, "/proj/a");
    let b = submit(&cluster, "/proj/b");
    let c = submit(&cluster, "/proj");
    let other = submit(&cluster, "/project");
    for id in [a, b, other] {
        until(&cluster, id, "running", is("RUN"));
    }
    let waits = until(&cluster, c, "limited by its group", pends(65));
    assert_eq!(
        waits["reason"]["text"],
        "job group /proj: 2 of 2 jobs started"
    );
    assert_eq!(waits["job_group"], "/proj");
    let ids = ["-noheader", "-o", "jobid"];
    let of = |group| listed(&cluster, &[&["bjobs", "-g", group], &ids[..]].concat());
    assert_eq!((of("/proj"), of("/proj/b")), (vec![a, b, c], vec![b]));
    let table = cluster.ok("bjgroup", &["-s", "/proj"]);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|row| row.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0].join(" "),
        "GROUP_NAME NJOBS PEND RUN SSUSP USUSP FINISH SLA JLIMIT OWNER"
    );
    assert_eq!(
        rows[1][..9],
        ["/proj", "3", "1", "2", "0", "0", "0", "()", "2/2"]
    );
    assert_eq!(
        rows[2][..9],
        ["/proj/a", "1", "0", "1", "0", "0", "0", "()", "1/-"]
    );
    assert_eq!(rows.len(), 4, "{table}");
    assert!(!cluster.run("cgdel", &["/proj"]).status.success());

    kill_9(cluster.leader().pid);
    let late = submit(&cluster, "/proj/a");
    until(&cluster, late, "limited by its group", pends(65));
    cluster.ok("bgmod", &["-L", "3", "/proj"]);
    until(&cluster, c, "running", is("RUN"));
    assert_eq!(stat(&jobs(&cluster)[&late]), "PEND");

    cluster.ok("bkill", &["-g", "/proj", "0"]);
    for id in [a, b, c, late] {
        until(&cluster, id, "ended", is("EXIT"));
    }
    assert_eq!(stat(&jobs(&cluster)[&other]), "RUN");
    let history = cluster.ok("chist", &["-a", "-g", "/proj/a", "--json"]);
    let ids = history
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].as_u64());
    let ids: BTreeSet<u64> = ids.flatten().collect();
    assert_eq!(ids, [a, late].map(u64::from).into());
    assert_eq!(
        cluster.ok("cgdel", &["/proj"]),
        "Job group </proj> was deleted.\n"
    );
    until_said(&cluster, &["cjgroup", "/proj/"], |output| {
        output.contains("0/-")
    });
}
