//! Events for programs: each once, over leaders and over runs of the reader.

use crate::cluster::{Cluster, kill_9};
use crate::patience::until;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

fn documents(text: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    text.lines().map(read).collect()
}

fn names(all: &[Value]) -> Vec<&str> {
    all.iter().filter_map(|doc| doc["event"].as_str()).collect()
}

#[test]
fn a_reader_that_stops_and_goes_on_has_each_event_once() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 2");
    let first = cluster.csub(&["-J", "one", "-o", "/dev/null", "exit 3"]);
    cluster.wait(|states| states.get(&(first, 0)).is_some_and(|state| state == "EXIT"));
    let id = first.to_string();
    let all = documents(&cluster.ok("cevents", &[&id]));
    let names_printed = names(&all);
    let wanted = ["submitted", "dispatched", "started", "ended"];
    let of_life: Vec<&&str> = names_printed
        .iter()
        .filter(|name| wanted.contains(name))
        .collect();
    assert_eq!(of_life, wanted.iter().collect::<Vec<_>>(), "{all:?}");
    let end = all
        .iter()
        .find(|doc| doc["event"] == "ended")
        .expect("it ended");
    assert_eq!(
        (&end["exit_code"], &end["job_id"]),
        (&3.into(), &first.into())
    );
    assert_eq!(all[0]["job_name"], "one");
    // Halves of what there is are the whole, over a change of leaders.
    let at = all[1]["position"].as_str().expect("a position").to_owned();
    kill_9(cluster.leader().pid);
    let next = cluster.csub(&["-o", "/dev/null", "true"]);
    cluster.wait(|states| states.get(&(next, 0)).is_some_and(|state| state == "DONE"));
    let whole = cluster.ok("cevents", &["--after", "0"]);
    let rest = cluster.ok("cevents", &["--after", &at]);
    let begin = whole.lines().take_while(|line| !line.contains(&at)).count() + 1;
    let skipped: Vec<&str> = whole.lines().skip(begin).collect();
    assert_eq!(rest.lines().collect::<Vec<_>>(), skipped);
    let positions: Vec<Value> = documents(&whole)
        .iter()
        .map(|d| d["position"].clone())
        .collect();
    let distinct: BTreeSet<String> = positions.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), positions.len(), "{whole}");
    assert!(names(&documents(&rest)).contains(&"leader"), "{rest}");
    let two = cluster.ok("cevents", &["-n", "2", "-e", "ended"]);
    assert_eq!(names(&documents(&two)), ["ended", "ended"]);
    for (words, want) in [
        (&["-e", "endet"][..], "no event is named 'endet'"),
        (&["--after", "x"], "'x' is not a position"),
        (&["-i", "0"], "not a number of seconds"),
        (&["--after", "0.9.1"], "is no longer kept"),
    ] {
        let out = cluster.run("cevents", words);
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            !out.status.success() && stderr.contains(want),
            "{words:?}: {stderr}"
        );
    }
}

#[test]
fn a_follower_prints_what_happens_from_now_on() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let old = cluster.csub(&["-o", "/dev/null", "true"]);
    cluster.wait(|states| states.get(&(old, 0)).is_some_and(|state| state == "DONE"));
    let mut command = cluster.command("cevents");
    command.args(["-f", "-i", "0.1", "-u", "all", "-e", "submitted,ended"]);
    let mut follower = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let seen = Arc::new(Mutex::new(String::new()));
    let reader = Arc::clone(&seen);
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            *reader.lock().expect("no panic") += &format!("{line}\n");
        }
    });
    let seen_of = |job: u32| {
        let mut all = documents(&seen.lock().expect("no panic"));
        all.retain(|doc| doc["job_id"] == job);
        all
    };
    // It has read what there is when it tells of something new.
    until("it follows", || {
        cluster.csub(&["-o", "/dev/null", "true"]);
        !seen.lock().expect("no panic").is_empty()
    });
    let new = cluster.csub(&["-o", "/dev/null", "true"]);
    until("both events", || seen_of(new).len() >= 2);
    follower.kill().expect("it runs");
    follower.wait().expect("it ends");
    assert_eq!(names(&seen_of(new)), ["submitted", "ended"]);
    assert_eq!(seen_of(old), [Value::Null; 0], "what was before");
}
