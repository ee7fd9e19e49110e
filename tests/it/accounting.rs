//! Accounting says what the journal says, whatever killed the leaders: each ended attempt once.

use crate::cluster::{Cluster, kill_9};
use crate::patience::{find_or, until_or};
use serde_json::Value;
use std::collections::BTreeMap;

/// Job, attempt: code, whether the job was requeued, CPU time.
type Ends = BTreeMap<(String, u64), (Option<i64>, bool, u64)>;

/// What the journal's own records say.
fn journalled(cluster: &Cluster) -> Ends {
    let output = cluster.ok("cadmin", &["journal", "--json"]);
    let events = output.lines().map(|line| {
        let event: Value = serde_json::from_str(line).expect("a JSON line");
        event
    });
    let ended = events.filter(|event| event["k"] == "ended");
    ended
        .map(|e| {
            let key = (
                e["j"].as_str().expect("a job").to_owned(),
                e["at"].as_u64().expect("an attempt"),
            );
            let cpu = e["cpu_ms"].as_u64().unwrap_or(0);
            (key, (e["code"].as_i64(), e["requeue"] == true, cpu))
        })
        .collect()
}

/// What cacct says, record by record; each attempt must be there once.
fn accounted(cluster: &Cluster) -> Ends {
    let output = cluster.ok("cacct", &["-u", "all", "--json"]);
    let mut ends = Ends::new();
    for line in output.lines() {
        let r: Value = serde_json::from_str(line).expect("a JSON line");
        let job = match r["index"].as_u64() {
            Some(0) | None => r["id"].to_string(),
            Some(index) => format!("{}[{index}]", r["id"]),
        };
        let key = (job, r["attempt"].as_u64().expect("an attempt"));
        let cpu = r["cpu_ms"].as_u64().unwrap_or(0);
        let end = (r["exit_code"].as_i64(), r["requeued"] == true, cpu);
        let twice = ends.insert(key, end);
        assert_eq!(twice, None, "twice: {line}");
    }
    ends
}

/// Waits until accounting has what the journal has.
fn settled(cluster: &Cluster) -> Ends {
    let agreed = || {
        let (journal, records) = (journalled(cluster), accounted(cluster));
        (journal == records).then_some(records)
    };
    find_or(agreed, || {
        let (journal, records) = (journalled(cluster), accounted(cluster));
        let (journal, records) = (journal.len(), records.len());
        let logs = cluster.logs();
        format!("journal {journal} ends, accounting {records}\n{logs}")
    })
}

fn number_after(text: &str, title: &str) -> f64 {
    let at = text
        .find(title)
        .unwrap_or_else(|| panic!("{title} in {text}"));
    let rest = text[at + title.len()..].split_whitespace().next();
    rest.and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
fn each_ended_attempt_is_accounted_once_whatever_kills_the_leaders() {
    let cluster = Cluster::up_armed("--hosts 2 --slots 4 --masters 3");
    let again = cluster.csub(&["-oo", "/dev/null", "[ -e again ] || sleep 1000"]);
    cluster.wait(|s| s.get(&(again, 0)).is_some_and(|s| s == "RUN"));
    std::fs::write(cluster.work().join("again"), "").expect("it is ours");
    cluster.ok("crequeue", &[&again.to_string()]);
    let stream = "sleep 0.3";
    cluster.csub(&["-J", "ok[1-260]", "-oo", "/dev/null", stream]);
    cluster.csub(&["-J", "bad[1-40]", "-oo", "/dev/null", "sleep 0.2; exit 3"]);
    // Killed with commits that nobody was told of, with records in a file but not durable, durable
    // without the mark, and at any moment.
    let points = [
        "leader.after_check#9=kill",
        "acct.written=kill",
        "acct.synced=kill",
        "",
    ];
    for point in points {
        let leader = cluster.leader();
        match point {
            "" => kill_9(leader.pid),
            rules => cluster.arm(rules),
        }
        until_or(
            || cluster.ps().iter().all(|p| p.pid != leader.pid),
            || format!("{point} killed nobody\n{}", cluster.logs()),
        );
        cluster.arm("");
        cluster.dev_up("--no-wait");
    }
    cluster.wait(|states| {
        let over = |stat: &String| stat == "DONE" || stat == "EXIT";
        states.len() >= 301 && states.values().all(over)
    });
    let ends = settled(&cluster);
    assert!(ends.len() >= 302, "{}", ends.len());
    let count =
        |wanted: fn(&(Option<i64>, bool, u64)) -> bool| ends.values().filter(|e| wanted(e)).count();
    let summary = cluster.ok("cacct", &["-u", "all"]);
    let sums = [
        ("done jobs:", count(|e| e.0 == Some(0) && !e.1)),
        ("exited jobs:", count(|e| e.0 != Some(0) && !e.1)),
        ("were requeued:", count(|e| e.1)),
    ];
    for (title, sum) in sums {
        assert_eq!(number_after(&summary, title), sum as f64, "{summary}");
    }
    let cpu_ms: u64 = ends.values().map(|e| e.2).sum();
    let output = number_after(&summary, "Total CPU time consumed:");
    assert!(
        (output - cpu_ms as f64 / 1000.0).abs() < 0.06,
        "{cpu_ms}: {summary}"
    );
    let damage = cluster.ok("cadmin", &["fsck"]);
    assert!(damage.contains("no damage"), "{damage}");
}

/// A share on which accounting cannot be written: an alarm, work goes on, the records come later.
#[test]
fn accounting_that_cannot_be_written_stops_nobody_and_comes_later() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let acct = cluster.share().join("acct");
    std::fs::write(&acct, "in the way").expect("the share can be written");
    let id = cluster.csub(&["true"]);
    cluster.wait(|s| s.get(&(id, 0)).is_some_and(|s| s == "DONE"));
    let alarm = || cluster.health().contains("accounting cannot be written");
    until_or(alarm, || cluster.health());
    let second = cluster.csub(&["exit 3"]);
    cluster.wait(|s| s.get(&(second, 0)).is_some_and(|s| s == "EXIT"));
    std::fs::remove_file(&acct).expect("it can be removed");
    assert_eq!(settled(&cluster).len(), 2);
}

/// Prices of cb.yaml come into force with `cadmin reconfig`, and every form of `cacct` says the same.
#[test]
fn costs_follow_from_the_prices_in_force() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    for _ in 0..3 {
        cluster.csub(&["-n", "2", "-oo", "/dev/null", "sleep 1"]);
    }
    cluster.wait(|states| states.len() == 3 && states.values().all(|s| s == "DONE"));
    settled(&cluster);
    let free = cluster.ok("cacct", &[]);
    assert!(!free.contains("cost"), "{free}");
    let path = cluster.share().join("conf/cb.yaml");
    let old = std::fs::read_to_string(&path).expect("the cluster has a configuration");
    let bad = format!("{old}\ncharge:\n  prices:\n  - slot_hour: 1e3\n");
    std::fs::write(&path, bad).expect("it is ours");
    let refused = cluster.run("cadmin", &["reconfig"]);
    let output = String::from_utf8_lossy(&refused.stderr).into_owned()
        + &String::from_utf8_lossy(&refused.stdout);
    assert!(!refused.status.success(), "{output}");
    let caret = |line: &str| line.trim_start().starts_with('|') && line.contains('^');
    assert!(
        output.contains("1e3") && output.lines().any(caret),
        "{output}"
    );
    // 3.6 an hour: a thousandth for a slot and second, a millionth for a millisecond.
    let good = format!("{old}\ncharge:\n  currency: EUR\n  prices:\n  - slot_hour: 3.6\n");
    std::fs::write(&path, good).expect("it is ours");
    cluster.ok("cadmin", &["reconfig"]);
    let shown = || cluster.ok("cparams", &["-l"]).contains("charge.prices.1");
    until_or(shown, || cluster.logs());
    let mut sum = 0;
    for line in cluster.ok("cacct", &["--json"]).lines() {
        let r: Value = serde_json::from_str(line).expect("a JSON line");
        assert_eq!(r["currency"], "EUR");
        let micro = r["run_ms"].as_u64().expect("a time") * 2;
        assert!(micro >= 2000, "{line}");
        assert_eq!(
            r["cost"].as_f64().map(|c| (c * 1e6).round()),
            Some(micro as f64)
        );
        sum += micro;
    }
    let output = cluster.ok("cacct", &[]);
    let total = number_after(&output, "Total cost (EUR):");
    assert_eq!((total * 1e6).round(), sum as f64, "{output}");
    let by = cluster.ok("cacct", &["--by", "host"]);
    let cell = by.lines().nth(1).and_then(|l| l.split_whitespace().last());
    assert_eq!(cell.and_then(|c| c.parse().ok()), Some(total), "{by}");
}
