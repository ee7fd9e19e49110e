//! Cron jobs with real daemons: defined, listed, started by hand, fired by the clock, once for each
//! due time also when the leader is killed in the second in which one falls due.

use crate::cluster::{Cluster, kill_9};
use crate::patience::{until, until_or};
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

const DEFINITIONS: &str = "\
- name: each-minute
  schedule: '* * * * *'
  timezone: UTC
  overlap: run
  history_limit: 100
  job: {command: 'echo $TOKEN >> minutes', options: -oo /dev/null}
- name: by-hand
  schedule: '0 0 29 2 *'
  timezone: Europe/Berlin
  max_run_time: 5
  job: {script: job.sh, queue: normal}
";

fn cluster() -> Cluster {
    let cluster = Cluster::up("--hosts 2 --slots 4 --masters 2");
    let work = cluster.work();
    std::fs::write(work.join("crons.yaml"), DEFINITIONS).unwrap();
    std::fs::write(
        work.join("job.sh"),
        "#!/bin/sh\n#CSUB -n 2\necho first > by-hand\n",
    )
    .unwrap();
    let created = cluster
        .command("ccron")
        .args(["create", "crons.yaml"])
        .env("TOKEN", "kept")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&created.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&created.stderr).into_owned();
    assert_eq!(
        stdout, "Cron job <each-minute> is created\nCron job <by-hand> is created\n",
        "{wrong}"
    );
    cluster
}

fn shown(cluster: &Cluster, name: &str) -> Value {
    serde_json::from_str(&cluster.ok("ccron", &["show", "--json", name])).unwrap()
}

/// The due times that led to a run which ended well, in seconds.
fn done(cluster: &Cluster, name: &str) -> Vec<i64> {
    let shown = shown(cluster, name);
    let all = shown["finished"].as_array().unwrap().iter();
    let done = all.filter(|record| record["what"] == "done");
    done.filter_map(|record| Some(record["due"].as_i64()? / 1000))
        .collect()
}

#[test]
fn a_run_is_started_by_hand_with_the_script_of_its_definition() {
    let cluster = cluster();
    let work = cluster.work();
    std::fs::write(work.join("job.sh"), "#!/bin/sh\necho second > by-hand\n").unwrap();
    let started = cluster.ok("ccron", &["start", "by-hand"]);
    assert!(
        started.starts_with("Cron job <by-hand>: job <"),
        "{started}"
    );
    let is_done = || {
        let shown = shown(&cluster, "by-hand");
        let last = &shown["finished"][0];
        assert_eq!(shown["run_limit_s"], 300);
        last["what"] == "done" && last["due"].is_null()
    };
    until("the run", is_done);
    let wrote = std::fs::read_to_string(work.join("by-hand")).unwrap();
    assert_eq!(wrote, "first\n");
    let jobs = cluster.ok(
        "cjobs",
        &["-a", "-noheader", "-o", "job_name:", "-J", "by-hand", "0"],
    );
    assert_eq!(jobs.trim(), "by-hand");
    // Who defines it again must say so.
    let again = cluster.run("ccron", &["create", "crons.yaml"]);
    assert_eq!(again.status.code(), Some(4));
    cluster.ok("ccron", &["edit", "crons.yaml"]);
    cluster.ok("ccron", &["start", "by-hand"]);
    let second = || std::fs::read_to_string(work.join("by-hand")).unwrap() == "second\n";
    until("the second script", second);
    let listed = cluster.ok("ccron", &["list", "-noheader", "-o", "name: status: next:"]);
    assert!(
        listed.contains("by-hand enabled Tue 2028-02-29 00:00 CET"),
        "{listed}"
    );
    cluster.ok("ccron", &["disable", "all"]);
    let listed = cluster.ok("ccron", &["list", "-noheader", "-o", "status:"]);
    assert_eq!(listed, "disabled\ndisabled\n");
    assert!(
        cluster
            .ok("aip", &["cronjob", "info", "by-hand"])
            .contains("Europe/Berlin")
    );
    cluster.ok("ccron", &["remove", "by-hand"]);
    let gone = cluster.run("ccron", &["start", "by-hand"]);
    assert_eq!(gone.status.code(), Some(1));
}

#[test]
fn wrong_definitions_are_refused_with_their_place() {
    let cluster = cluster();
    let work = cluster.work();
    for (text, code, want) in [
        (
            "name: a\nschedule: '61 * * * *'\njob: {command: x}",
            2,
            "x.yaml:2:11: minute: 61",
        ),
        (
            "name: a\nschedule: '@daily'\njob: {command: x, options: -b 12:00}",
            2,
            "-b is not accepted in a cron job",
        ),
        (
            "name: a\nschedule: '@daily'\njob: [{command: x}, {script: job.sh}]",
            2,
            "are for cron jobs with one job",
        ),
        (
            "name: a\nschedule: '@daily'\njob: {command: x, options: -n 2, slots: 3}",
            2,
            "-n is given twice",
        ),
        (
            "name: a\nschedule: '@daily'\njob: {command: x, queue: nowhere}",
            1,
            "nowhere",
        ),
        (
            "name: a\nschedule: '@daily'\njob: {script: none.sh}",
            2,
            "none.sh",
        ),
        (
            "name: a\nschedule: '@daily'\njob: {command: x, options: -freq 1}",
            2,
            "not implemented",
        ),
        (
            "name: a\nschedule: '@daily'\nmax_concurrent_runs: 2\njob: {command: x}",
            2,
            "only with overlap: run",
        ),
    ] {
        std::fs::write(work.join("x.yaml"), text).unwrap();
        let out = cluster.run("ccron", &["create", "x.yaml"]);
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{text}: {err}");
        assert!(err.contains(want), "{text}: {err}");
    }
    std::fs::write(work.join("tab"), "MAILTO=\"\"\n@hourly echo 5\\% > pct\n").unwrap();
    let printed = cluster.ok("ccron", &["import", "-z", "UTC", "tab"]);
    assert!(printed.contains("command: 'echo 5% > pct'"), "{printed}");
    cluster.ok("ccron", &["import", "-create", "-z", "UTC", "tab"]);
    cluster.ok("ccron", &["start", "tab-2"]);
    let wrote = || std::fs::read_to_string(work.join("pct")).is_ok_and(|text| text == "5%\n");
    until("the imported job", wrote);
}

/// Takes until the end of the next minute but one.
#[test]
fn a_leader_killed_in_the_due_second_costs_no_run_and_doubles_none() {
    let cluster = cluster();
    cluster.leader();
    // So long before the minute that a lease of 3 s runs over it, or just after it began.
    let now_ms = Timestamp::now().as_millisecond();
    let mut due_ms = (now_ms / 60_000 + 1) * 60_000;
    if due_ms - now_ms < 8_000 {
        due_ms += 60_000;
    }
    let wait = due_ms - Timestamp::now().as_millisecond();
    std::thread::sleep(Duration::from_millis(u64::try_from(wait).unwrap()));
    kill_9(cluster.leader().pid);
    let due = due_ms / 1000;
    let has = |due: i64| done(&cluster, "each-minute").contains(&due);
    until("the run of that minute", || has(due));
    until("the run of the next", || has(due + 60));
    // A run of the next minute may have begun: it is the last one, and its end is waited for.
    cluster.ok("ccron", &["disable", "each-minute"]);
    let wrote = || std::fs::read_to_string(cluster.work().join("minutes")).unwrap();
    let is_over = || wrote() == "kept\n".repeat(done(&cluster, "each-minute").len());
    until_or(is_over, || {
        format!("not one line for each due time: {}", wrote())
    });
    let mut all = done(&cluster, "each-minute");
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "{all:?}");
}

/// Run by `sbin/cron-oracle`, which writes the file: the due times of another program.
#[test]
#[ignore = "needs a file of due times; sbin/cron-oracle makes it"]
fn the_calendar_agrees_with_cronsim() {
    use corral::model::Stamp;
    use corral::text::cron::{Schedule, Zone};
    let file = std::env::var("CORRAL_CRON_TIMES").expect("CORRAL_CRON_TIMES names a file");
    let text = std::fs::read_to_string(file).unwrap();
    let (mut wrong, mut compared, mut lines) = (Vec::new(), 0, 0);
    for line in text.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let [expr, zone_name, start, minutes] = parts[..] else {
            panic!("not a line of due times: {line}");
        };
        let schedule = Schedule::parse(expr).unwrap_or_else(|e| panic!("{expr}: {}", e.message));
        let zone = Zone::named(zone_name).unwrap();
        let start: i64 = start.parse().unwrap();
        let mut last = Stamp(start * 1000);
        lines += 1;
        for minute in minutes.split_whitespace() {
            let want = start + minute.parse::<i64>().unwrap() * 60;
            let got = schedule.next_after(last, &zone);
            compared += 1;
            if got != Some(Stamp(want * 1000)) {
                let show = |at: Stamp| zone.show(at);
                let got = got.map_or("never".to_owned(), show);
                wrong.push(format!(
                    "{expr} {zone_name}: {got}, not {}",
                    show(Stamp(want * 1000))
                ));
                break;
            }
            last = Stamp(want * 1000);
        }
    }
    println!("{compared} due times in {lines} lines compared");
    assert!(compared > 0, "there are no due times in the file");
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_run_may_be_an_array_or_a_pack_and_fails_with_any_of_its_jobs() {
    let cluster = Cluster::up("--hosts 2 --slots 4 --masters 1");
    let text = "\
- name: sweep
  schedule: '0 0 29 2 *'
  job: {command: 'echo $LSB_JOBINDEX >> sweep', options: '-J s[1-3]'}
- name: pair
  schedule: '0 0 29 2 *'
  max_fails: 1
  job: [{command: 'echo one >> pair'}, {command: 'sleep 1; exit 4'}]
";
    std::fs::write(cluster.work().join("more.yaml"), text).unwrap();
    cluster.ok("ccron", &["create", "more.yaml"]);
    let output = cluster.ok("ccron", &["start", "sweep", "pair"]);
    assert!(
        output.contains("Cron job <pair>: jobs <2> <3> are submitted"),
        "{output}"
    );
    let ended = |name: &str| shown(&cluster, name)["finished"][0].clone();
    let over = |name: &str| !ended(name).is_null();
    until("the array", || over("sweep"));
    until("the pack", || over("pair"));
    assert_eq!(ended("sweep")["what"], "done");
    let wrote = std::fs::read_to_string(cluster.work().join("sweep")).unwrap();
    assert_eq!(wrote.lines().count(), 3, "{wrote}");
    let pair = ended("pair");
    assert_eq!((&pair["what"], &pair["id"]), (&"failed".into(), &2.into()));
    assert_eq!(pair["text"], "job 3: exit code 4");
    let shown = shown(&cluster, "pair");
    assert_eq!((&shown["jobs"], &shown["fails"]), (&2.into(), &1.into()));
    assert_eq!(shown["status"], "disabled");
}
