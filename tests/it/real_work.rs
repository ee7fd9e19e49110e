//! Real input: an array of real programs on real files over several hosts, and a dependent job
//! that checks all of it.

use crate::cluster::{Cluster, lines};
use std::collections::BTreeMap;

const ELEMENTS: u32 = 200;

#[test]
fn an_array_of_200_compressions_and_a_dependent_check() {
    let cluster = Cluster::up("--hosts 4 --slots 4");
    let work = cluster.work();
    for n in 1..=ELEMENTS {
        // Different in length and content, so that a mix-up shows.
        let line = format!("line of input {n} {}\n", n * 7919);
        std::fs::write(work.join(format!("in.{n}")), line.repeat(500 + n as usize)).unwrap();
    }
    let name = format!("squeeze[1-{ELEMENTS}]");
    let squeeze = "gzip -9 -c in.$LSB_JOBINDEX > out.$LSB_JOBINDEX.gz && \
                   echo $LSB_JOBINDEX $LSB_HOSTS >> starts";
    let array = cluster.csub(&["-J", &name, squeeze]);
    let check = format!(
        "for i in $(seq 1 {ELEMENTS}); do gzip -dc out.$i.gz | cmp - in.$i || exit 1; done; \
         wc -l < starts > seen"
    );
    let verify = cluster.csub(&[
        "-J",
        "verify",
        "-w",
        "done(squeeze)",
        "-oo",
        "verify.%J",
        &check,
    ]);

    let states = cluster.wait(|s| {
        s.get(&(verify, 0))
            .is_some_and(|s| s == "DONE" || s == "EXIT")
    });
    let report = lines(&work.join(format!("verify.{verify}"))).join("\n");
    assert_eq!(states[&(verify, 0)], "DONE", "{report}");
    let mut count: BTreeMap<&str, u32> = BTreeMap::new();
    for n in 1..=ELEMENTS {
        *count.entry(states[&(array, n)].as_str()).or_default() += 1;
    }
    assert_eq!(count, BTreeMap::from([("DONE", ELEMENTS)]));

    // Each element ran once, and the dependent job saw all of them.
    let starts = lines(&work.join("starts"));
    let mut indices: Vec<u32> = starts
        .iter()
        .map(|l| l.split(' ').next().unwrap().parse().unwrap())
        .collect();
    indices.sort_unstable();
    assert_eq!(indices, (1..=ELEMENTS).collect::<Vec<_>>());
    assert_eq!(lines(&work.join("seen")), [ELEMENTS.to_string()]);
    let mut hosts: Vec<&str> = starts.iter().filter_map(|l| l.split(' ').nth(1)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    assert!(hosts.len() > 1, "all ran on {hosts:?}");
}
