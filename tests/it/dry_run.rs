//! `csub --dry-run` against a real cluster: what it says, how it ends, and that no job is made.

use crate::cluster::{Cluster, text};
use serde_json::Value;
use std::process::Output;

fn dry(cluster: &Cluster, args: &[&str]) -> Output {
    let mut all = vec!["--dry-run"];
    all.extend_from_slice(args);
    cluster.run("csub", &all)
}

fn json(cluster: &Cluster, args: &[&str]) -> Value {
    let mut all = vec!["--json"];
    all.extend_from_slice(args);
    let out = dry(cluster, &all);
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out)))
}

#[test]
fn a_dry_run_says_what_would_be_submitted_and_submits_nothing() {
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 1");
    let out = dry(
        &cluster,
        &["-n", "3", "-W", "1:30", "-mem", "1G", "sleep 1"],
    );
    let stdout = String::from_utf8(out.stdout.clone()).unwrap();
    assert!(out.status.success(), "{}", text(&out));
    for line in [
        "  command            sleep 1\n",
        "  queue              normal (default)\n",
        "  slots              3\n",
        "  run limit 1h30m\n",
        "  memory limit 1G\n",
        "  requirement rusage[mem=1024]\n",
        "Queue normal accepts it.\n",
        "Hosts of the queue: 2; of these selected by -m: 2; satisfying select[]: 2\n",
        "Hosts that fit now (free slots): h1 (2) h2 (2)\n",
        "Enough slots are free now: yes\n",
    ] {
        assert!(stdout.contains(line), "{line}{stdout}");
    }

    let spread = json(&cluster, &["-n", "3", "-R", "span[hosts=1]", "sleep 1"]);
    assert_eq!(spread["enough_free_slots"], false, "{spread}");
    assert_eq!(spread["estimated_start_ms"], Value::Null);
    let one = json(&cluster, &["-m", "h2", "echo", "--json"]);
    assert_eq!(one["command"], "echo --json");
    assert_eq!(one["fit_now"][0]["host"], "h2", "{one}");
    assert_eq!(one["hosts_chosen"], 1);
    let large = json(&cluster, &["-mem", "500T", "true"]);
    assert_eq!(large["enough_free_slots"], false, "{large}");
    let start = large["start"].as_str().unwrap_or_default();
    assert!(start.contains("can never run here"), "{large}");

    // A host without the resource does not fit, although it has free slots.
    let path = cluster.share().join("conf/cb.yaml");
    let conf = std::fs::read_to_string(&path).unwrap();
    let hosts = "- name: h1\n- {name: h2, resources: {seat: 3}}";
    std::fs::write(&path, conf.replace("- names: 'h[1-2]'", hosts)).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
    let seat = json(&cluster, &["-R", "rusage[seat=1]", "true"]);
    assert_eq!(seat["fit_now"].as_array().map(Vec::len), Some(1), "{seat}");
    assert_eq!(seat["fit_now"][0]["host"], "h2", "{seat}");

    cluster.ok("cadmin", &["qclose", "low"]);
    for (args, code, why) in [
        (
            &["-q", "nowhere", "true"][..],
            1,
            "there is no queue \"nowhere\"",
        ),
        (&["-q", "low", "true"], 4, "queue low is closed"),
        (&["-R", "select[nonsense>1]", "true"], 2, "nonsense"),
        (&["-n", "0", "true"], 2, "-n"),
        (&["-clone", "1"], 2, "-clone and -dry-run"),
    ] {
        let out = dry(&cluster, args);
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {}", text(&out));
        assert!(stderr.contains(why), "{args:?}: {stderr}");
        let real = cluster.run("csub", args);
        if args[0] != "-clone" {
            assert_eq!(real.status.code(), Some(code), "as csub: {}", text(&real));
        }
    }
    let refused = json(&cluster, &["-q", "low", "true"]);
    assert_eq!(refused["accepted"], false);
    assert_eq!(refused["refused"], "queue low is closed");
    assert_eq!(cluster.csub(&["true"]), 1, "no job was made before");
}
