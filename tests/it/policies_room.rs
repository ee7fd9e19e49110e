//! Who gets room, shown by real jobs: reservation and backfill, preemption by both methods, elastic
//! growth, starts by force, packing and spreading.

use crate::cluster::{Cluster, lines};
use crate::patience;
use crate::policies::*;

const SECTIONS: &str = "
resources:
- {name: port, assign: yes}
hosts:
- {name: default, slots: 1}
- {name: h1, slots: 2}
- {name: h2, slots: 1}
- {name: h3, slots: 1, resources: {gpu: 1}}
- {name: h4, slots: 4}
- {names: 'h[5-6]', slots: 4}
- {name: h7, slots: 4, resources: {gpu: [GPU-a, GPU-b], port: [9000, 9001, 9002]}}
- {name: h8, slots: 4, resources: {gpu: [GPU-a, GPU-b], gpu_mem: 40G}}
queues:
- {name: parts, priority: 10, hosts: h8}
- {name: room, priority: 10, hosts: h1, slot_reserve: 1h, backfill: yes}
- {name: high, priority: 40, hosts: h2, preemption: {preempt: low, method: suspend}}
- {name: low, priority: 10, hosts: h2}
- {name: ghigh, priority: 40, hosts: h3, preemption: {preempt: glow, method: requeue}}
- {name: glow, priority: 10, hosts: h3}
- {name: grow, priority: 10, hosts: h4, elastic: yes}
- {name: pack, priority: 10, hosts: h5 h6, packing: pack}
- {name: spread, priority: 10, hosts: h5 h6, packing: spread}
- {name: units, priority: 10, hosts: h7}
- {name: index, priority: 10, hosts: h7, gpu_env: index}
";

#[test]
fn room_is_kept_lent_taken_and_given() {
    let cluster = cluster(8, SECTIONS);
    side_by_side(
        &cluster,
        &[
            reservation_and_backfill,
            preemption_by_suspension,
            preemption_by_requeue,
            growth_then_force,
            packing_and_spreading,
            units_are_handed_out,
            units_are_shared,
        ],
    );
}

/// One of two slots is busy. A job of two slots reserves the free one; what ends before the estimated
/// start may use it meanwhile, what lasts longer may not.
fn reservation_and_backfill(cluster: &Cluster) {
    let csub = |words: &[&str]| cluster.csub(&[&["-q", "room"], words].concat());
    let busy = csub(&["-W", "10", &gate("busy")]);
    until(cluster, busy, "RUN", is("RUN"));
    let wide = csub(&["-n", "2", "-W", "1", "sleep 1"]);
    let rsv = ["chosts", "-noheader", "-o", "host_name rsv", "h1"];
    until_said(cluster, &rsv, |s| s.split_whitespace().nth(1) == Some("1"));
    let long = until(cluster, wide, "estimated", |j| {
        j["estimated_start_ms"].is_i64()
    });
    let estimate = long["estimated_start_ms"].as_i64().unwrap();
    let shown = cluster.ok("cjobs", &["-l", &wide.to_string()]);
    assert!(shown.contains("estimated start"), "{shown}");
    let long = csub(&["-W", "15", "sleep 1"]);
    let short = csub(&["-W", "1", "sleep 1"]);
    all_done(cluster, &[short]);
    until(cluster, long, "tried", tried);
    open(cluster, "busy");
    let done = all_done(cluster, &[busy, wide, long, short]);
    let [busy, wide, long, short] = [&done[0], &done[1], &done[2], &done[3]].map(times);
    let promised = busy.0 + 600_000;
    assert!((estimate - promised).abs() < 60_000, "{estimate} {done:?}");
    assert!(short.0 < busy.1, "not in the hole: {done:?}");
    assert!(
        wide.0 >= busy.1 && wide.0 < estimate,
        "not when its room came: {done:?}"
    );
    assert!(long.0 >= wide.1, "in the way of the wide job: {done:?}");
}

/// The low job stops where it stands, with its reason, and goes on when the high one has ended.
fn preemption_by_suspension(cluster: &Cluster) {
    let count = format!(
        "echo begun >> counted; {}; echo over >> counted",
        gate("low")
    );
    let low = cluster.csub(&["-q", "low", &count]);
    until(cluster, low, "RUN", is("RUN"));
    let high = cluster.csub(&["-q", "high", &gate("high")]);
    let stopped = until(cluster, low, "SSUSP", is("SSUSP"));
    assert_eq!(reason(&stopped), format!("preempted by job {high}"));
    assert_eq!(stopped["reason"]["code"], 70, "{stopped}");
    let shown = cluster.ok("cjobs", &["-s", &low.to_string()]);
    assert!(shown.contains("preempted by job"), "{shown}");
    std::thread::sleep(std::time::Duration::from_secs(1)); // the stop that is measured below
    open(cluster, "low");
    open(cluster, "high");
    let done = all_done(cluster, &[low, high]);
    let [low, high] = [&done[0], &done[1]].map(times);
    assert!(low.0 < high.0 && low.1 > high.1, "{done:?}");
    assert_eq!(done[0]["attempt"], 1, "{done:?}");
    assert!(
        done[0]["suspended_ms"].as_i64() >= Some(900),
        "stopped for the time of the other: {done:?}"
    );
    assert_eq!(lines(&cluster.work().join("counted")), ["begun", "over"]);
}

/// A GPU cannot be lent by stopping its user: the low job goes back to PEND and runs again later.
fn preemption_by_requeue(cluster: &Cluster) {
    let req = ["-R", "rusage[gpu=1]"];
    let command = format!(
        "echo started >> again; {}; echo over >> again",
        gate("glow")
    );
    let low = [&["-q", "glow"], &req[..], &[&command]];
    let low = cluster.csub(&low.concat());
    until(cluster, low, "RUN", is("RUN"));
    until_lines(cluster, "again", 1);
    let high = cluster.csub(&[&["-q", "ghigh"], &req[..], &[&gate("ghigh")]].concat());
    let back = until(cluster, low, "PEND", is("PEND"));
    assert_eq!(hosts(&back), Vec::<&str>::new(), "{back}");
    until(cluster, high, "RUN", is("RUN"));
    open(cluster, "ghigh");
    open(cluster, "glow");
    let done = all_done(cluster, &[low, high]);
    let [low, high] = [&done[0], &done[1]].map(times);
    assert!(low.0 >= high.1, "{done:?}");
    assert_eq!(done[0]["attempt"], 2, "{done:?}");
    let output = lines(&cluster.work().join("again"));
    assert_eq!(output, ["started", "started", "over"]);
}

fn until_lines(cluster: &Cluster, file: &str, n: usize) {
    let path = cluster.work().join(file);
    let what = format!("{n} lines in {}", path.display());
    patience::until(&what, || lines(&path).len() >= n);
}

/// An elastic job starts with the two slots there are and gets two more; then one is started by
/// force on the host that is full.
fn growth_then_force(cluster: &Cluster) {
    let other = cluster.csub(&["-q", "grow", "-n", "2", &gate("other")]);
    until(cluster, other, "RUN", is("RUN"));
    let told = "echo $CB_OLD_SLOTS $CB_SLOTS $CB_MCPU_HOSTS >> grown";
    let words: [&str; 7] = ["-q", "grow", "-n", "2,4", "-rnc", told, &gate("elastic")];
    let elastic = cluster.csub(&words);
    let small = until(cluster, elastic, "RUN", is("RUN"));
    assert_eq!(small["slots"], 2, "{small}");
    open(cluster, "other");
    until(cluster, elastic, "of 4 slots", |job| job["slots"] == 4);
    until_lines(cluster, "grown", 1);
    assert_eq!(lines(&cluster.work().join("grown")), ["2 4 h4 4"]);
    let forced = cluster.csub(&["-q", "grow", "sleep 1"]);
    until(cluster, forced, "pending on hosts", pends(40));
    cluster.ok("crun", &["-m", "h4", &forced.to_string()]);
    until(cluster, forced, "DONE", is("DONE"));
    open(cluster, "elastic");
    let done = all_done(cluster, &[elastic, forced]);
    assert!(times(&done[1]).0 < times(&done[0]).1, "{done:?}");
    assert_eq!(hosts(&done[1]), ["h4"]);
}

/// Four jobs on two hosts of four slots: all on one, or two on each.
fn packing_and_spreading(cluster: &Cluster) {
    for (queue, expected) in [("pack", 1), ("spread", 2)] {
        let ids: Vec<u32> = (0..4)
            .map(|_| cluster.csub(&["-q", queue, &gate(queue)]))
            .collect();
        for id in &ids {
            until(cluster, *id, "RUN", is("RUN"));
        }
        open(cluster, queue);
        let done = all_done(cluster, &ids);
        let mut at: Vec<&str> = done.iter().flat_map(hosts).collect();
        at.sort_unstable();
        at.dedup();
        assert_eq!(at.len(), expected, "{queue}: {done:?}");
    }
}

/// Two jobs have different devices and ports and find them in their environment, by name or by
/// place; the third has what the first leaves.
fn units_are_handed_out(cluster: &Cluster) {
    let output = |name: &str| {
        let vars = "$CB_ASSIGN_GPU $CUDA_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES $CB_ASSIGN_PORT";
        format!("echo {vars} > {name}.units; {}", gate(name))
    };
    let csub = |queue: &str, name: &str| {
        let asks = "rusage[gpu=1:port=1]";
        cluster.csub(&["-q", queue, "-R", asks, &output(name)])
    };
    let first = csub("units", "one");
    until(cluster, first, "RUN", is("RUN"));
    let second = csub("index", "two");
    until(cluster, second, "RUN", is("RUN"));
    let third = csub("units", "three");
    until(cluster, third, "tried", |job| {
        stat(job) == "PEND" && tried(job)
    });
    let shown = cluster.ok("cjobs", &["-l", &second.to_string()]);
    let flat: String = shown.split_whitespace().collect::<Vec<_>>().concat();
    assert!(flat.contains("Units<h7gpuGPU-b>"), "{shown}");
    let page = ["chosts", "-l", "h7"];
    let in_use = format!("GPU-a:{first} GPU-b:{second}");
    until_said(cluster, &page, |s| s.contains(&in_use));
    for name in ["one", "two"] {
        open(cluster, name);
    }
    let done = all_done(cluster, &[first, second]);
    open(cluster, "three");
    all_done(cluster, &[third]);
    let file = |name: &str| {
        let path = cluster.work().join(format!("{name}.units"));
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    };
    assert_eq!(file("one"), "GPU-a GPU-a GPU-a 9000");
    assert_eq!(file("two"), "GPU-b 1 1 9001");
    assert!(["GPU-a GPU-a GPU-a 9000", "GPU-b GPU-b GPU-b 9001"].contains(&&*file("three")));
    assert_eq!(done[1]["units"][1]["names"][0], "9001", "{}", done[1]);
}

/// Two jobs share a device and its memory and find their parts in their environment; a third that
/// would need more of the memory than is left waits.
fn units_are_shared(cluster: &Cluster) {
    let output = |name: &str| {
        let vars = "$CB_ASSIGN_GPU $CB_PART_GPU $CB_PART_GPU_MEM $CUDA_VISIBLE_DEVICES";
        format!("echo {vars} > {name}.parts; {}", gate("parts"))
    };
    let csub = |asks: &str, name: &str| cluster.csub(&["-q", "parts", "-R", asks, &output(name)]);
    let quarter = "rusage[gpu=0.25:gpu_mem=30G]";
    let (whole, first) = (csub("rusage[gpu=1]", "whole"), csub(quarter, "first"));
    until(cluster, whole, "RUN", is("RUN"));
    until(cluster, first, "RUN", is("RUN"));
    let second = csub("rusage[gpu=0.5:gpu_mem=10G]", "second");
    until(cluster, second, "RUN", is("RUN"));
    let third = csub("rusage[gpu=0.25:gpu_mem=1G]", "third");
    let waits = until(cluster, third, "tried", |job| {
        stat(job) == "PEND" && tried(job)
    });
    assert!(reason(&waits).contains("gpu_mem"), "{waits}");
    let in_use = format!("GPU-b:{first}(0.25) GPU-b:{second}(0.5)");
    until_said(cluster, &["chosts", "-l", "h8"], |s| s.contains(&in_use));
    open(cluster, "parts");
    let done = all_done(cluster, &[whole, first, second, third]);
    let file = |name: &str| {
        let path = cluster.work().join(format!("{name}.parts"));
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    };
    assert_eq!(file("whole"), "GPU-a GPU-a");
    assert_eq!(file("first"), "GPU-b 0.25 30720 GPU-b");
    assert_eq!(file("second"), "GPU-b 0.5 10240 GPU-b");
    let units = &done[1]["units"][0];
    assert_eq!(units["parts"][0], 0.25, "{units}");
    assert_eq!(units["per_unit"]["gpu_mem"], 30720, "{units}");
}
