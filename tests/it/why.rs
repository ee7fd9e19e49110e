//! `cjobs --why` against real clusters: waiting jobs whose offered change is typed in and starts
//! them, and failed jobs whose cause is named.

use crate::cluster::{Cluster, text};
use crate::patience::find_or;
use serde_json::Value;

fn why(cluster: &Cluster, job: &str) -> Value {
    let out = cluster.run("cjobs", &["--why", "--json", job]);
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out)))
}

/// The explanation once the leader has published that the job waits for its hosts.
fn settled(cluster: &Cluster, job: &str, done: impl Fn(&Value) -> bool) -> Value {
    find_or(
        || Some(why(cluster, job)).filter(|answer| done(answer)),
        || format!("{:#}\n{}", why(cluster, job), cluster.logs()),
    )
}

fn state(cluster: &Cluster, id: u32) -> String {
    let states = cluster.states();
    states.get(&(id, 0)).cloned().unwrap_or_default()
}

/// The first command that lets the job start at once.
fn command(answer: &Value) -> Vec<String> {
    let helps = answer["helps"].as_array().expect("a list");
    let starts = helps.iter().find(|help| help["starts_now"] == true);
    let line = starts.unwrap_or_else(|| panic!("nothing helps: {answer:#}"));
    let line = line["command"].as_str().expect("a text");
    corral::text::command::split_words(line).expect("a line of words")
}

fn type_in_and_wait(cluster: &Cluster, id: u32, answer: &Value) {
    let words = command(answer);
    let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    cluster.ok(&words[0], &args);
    cluster.wait(|states| {
        states
            .get(&(id, 0))
            .is_some_and(|stat| stat == "RUN" || stat == "DONE")
    });
}

#[test]
fn changes_that_are_offered_start_waiting_jobs() {
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 1");
    let full: Vec<u32> = (0..3).map(|_| cluster.csub(&["sleep", "1000"])).collect();
    cluster.wait(|states| states.values().all(|stat| stat == "RUN"));

    // Two slots on one host, one is free.
    let wide = cluster.csub(&["-n", "2", "-R", "span[hosts=1]", "sleep 1000"]);
    let answer = settled(&cluster, &wide.to_string(), |answer| answer["code"] == 40);
    assert_eq!(answer["hosts"], 2, "{answer:#}");
    assert_eq!(answer["lost"][0]["stage"], "slots", "{answer:#}");
    assert!(
        answer["verdict"]
            .as_str()
            .unwrap()
            .contains("needs 2 slots, 1 free"),
        "{answer:#}"
    );
    // The others have no run limit: they are taken to run for an hour.
    assert!(answer["estimated_start_ms"].is_i64(), "{answer:#}");
    assert_eq!(command(&answer), ["cmod", "-n", "1", &wide.to_string()]);
    type_in_and_wait(&cluster, wide, &answer);
    cluster.ok("ckill", &[&wide.to_string(), &full[0].to_string()]);
    cluster.wait(|states| [wide, full[0]].iter().all(|id| states[&(*id, 0)] == "EXIT"));

    let on_hold = cluster.csub(&["-H", "sleep", "1000"]);
    let answer = settled(&cluster, &on_hold.to_string(), |answer| answer["code"] == 6);
    assert_eq!(command(&answer), ["cresume", &on_hold.to_string()]);
    type_in_and_wait(&cluster, on_hold, &answer);

    // What no host ever has: the page says so, and what would do.
    let never = cluster.csub(&["-n", "1", "-R", "rusage[mem=97.7T]", "sleep 1000"]);
    // The hosts are one machine, whose free memory they have seen at different moments.
    let answer = settled(&cluster, &never.to_string(), |answer| {
        let helps = answer["helps"].as_array();
        let starts = helps.is_some_and(|all| all.iter().any(|help| help["starts_now"] == true));
        answer["never"] == true && starts
    });
    assert!(
        answer["verdict"]
            .as_str()
            .unwrap()
            .contains("rusage[mem=97.7T]"),
        "{answer:#}"
    );
    let page = cluster.ok("cjobs", &["--why", &never.to_string()]);
    assert!(page.contains(" Start: never without a change\n"), "{page}");
    assert!(
        page.contains("too small even when empty: mem (needs 97.7T)"),
        "{page}"
    );
    type_in_and_wait(&cluster, never, &answer);
}

#[test]
fn arrays_dependencies_and_wrong_lines() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let array = cluster.csub(&["-J", "a[1-5]%2", "sleep", "1000"]);
    cluster.wait(|states| states.values().filter(|stat| *stat == "RUN").count() == 2);
    let name = array.to_string();
    let page = cluster.ok("cjobs", &["--why", &name]);
    assert!(page.contains(&format!("Job <{array}[3-5]>")), "{page}");
    assert!(page.contains(&format!("Job <{array}[1-2]>")), "{page}");
    let one = why(&cluster, &format!("{array}[4]"));
    assert_eq!(
        (&one["job"], &one["count"]),
        (&format!("{array}[4]").into(), &1.into())
    );

    let failed = cluster.csub(&["-w", &format!("done({array}[1])"), "true"]);
    cluster.ok("ckill", &[&format!("{array}[1]")]);
    let answer = settled(&cluster, &failed.to_string(), |answer| {
        answer["never"] == true
    });
    assert_eq!(answer["code"], 4, "{answer:#}");
    assert!(
        answer["verdict"]
            .as_str()
            .unwrap()
            .contains("can never be satisfied"),
        "{answer:#}"
    );

    for (args, why) in [
        (&["--why"][..], "explains the jobs that are named"),
        (&["--why", "0"], "explains the jobs that are named"),
        (&["--why", "-l", &name], "--why and -l exclude each other"),
        (
            &["--why", "-o", "stat", &name],
            "--why and -o exclude each other",
        ),
        (&["--why", "x"], "not a job ID"),
    ] {
        let out = cluster.run("cjobs", args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out));
        assert!(text(&out).contains(why), "{args:?}: {}", text(&out));
    }
    let out = cluster.run("cjobs", &["--why", "999"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out));
    assert!(
        text(&out).contains("Job <999> is not found"),
        "{}",
        text(&out)
    );
}

#[test]
fn causes_of_failures_are_named_with_the_end_of_the_output() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    let work = cluster.work();
    let out = |name: &str| work.join(name).display().to_string();
    let jobs = [
        (vec!["echo first; echo last words; exit 3"], "exit_code"),
        (vec!["/nowhere/program"], "no_program"),
        (vec!["/etc/passwd"], "no_program"),
        (vec!["/etc/passwd; exit $?"], "not_executable"),
        (vec!["kill -11 $$"], "signal"),
        (vec!["-o", "/nowhere/out", "true"], "not_started"),
        (vec!["-cwd", "/nowhere/at/all", "true"], "not_started"),
        (vec!["-W", "1/h1", "true"], "done"),
    ];
    let ids: Vec<u32> = jobs
        .iter()
        .enumerate()
        .map(|(n, (args, _))| {
            let file = out(&format!("out{n}"));
            let mut all = vec!["-o", &file];
            all.extend(args);
            cluster.csub(&all)
        })
        .collect();
    let owned = cluster.csub(&["sleep", "1000"]);
    cluster.wait(|states| states[&(owned, 0)] == "RUN");
    cluster.ok("ckill", &[&owned.to_string()]);
    cluster.wait(|states| states.values().all(|stat| stat == "EXIT" || stat == "DONE"));
    for (id, (args, cause)) in ids.iter().zip(&jobs) {
        let answer = why(&cluster, &id.to_string());
        assert_eq!(answer["cause"], *cause, "{args:?}: {answer:#}");
    }
    assert_eq!(why(&cluster, &owned.to_string())["cause"], "owner");
    let answer = why(&cluster, &ids[0].to_string());
    let lines = answer["output"][0]["lines"].as_array().expect("lines");
    assert!(lines.contains(&"last words".into()), "{answer:#}");
    assert_eq!(answer["exit_code"], 3);
    let page = cluster.ok("cjobs", &["--why", &ids[0].to_string()]);
    assert!(
        page.contains("its command ended with exit code 3"),
        "{page}"
    );
    assert!(page.contains("   last words\n"), "{page}");
    assert_eq!(state(&cluster, ids[0]), "EXIT");
}

/// What makes a success of a failure.
enum Fix {
    /// The command that the explanation offers.
    Offered,
    /// A clone of the job with this.
    Clone(&'static [&'static str]),
    /// It is run again, once what it waited for is there.
    Again,
}

/// Failures: options and command, the cause that is named, what makes a success of it.
const FAILURES: &[(&[&str], &str, Fix)] = &[
    (&["exit 3"], "exit_code", Fix::Clone(&["true"])),
    (&["(exit 137)"], "exit_code", Fix::Clone(&["true"])),
    (&["kill -11 $$"], "signal", Fix::Clone(&["true"])),
    (&["kill -9 $$"], "signal", Fix::Clone(&["true"])),
    (
        &["/nowhere/program"],
        "no_program",
        Fix::Clone(&["/bin/true"]),
    ),
    (
        &["nowhere-program; exit $?"],
        "no_program",
        Fix::Clone(&["true"]),
    ),
    (
        &["/etc/passwd; exit $?"],
        "not_executable",
        Fix::Clone(&["sh -c true"]),
    ),
    (
        &["-o", "/nowhere/out", "true"],
        "not_started",
        Fix::Clone(&["-o", "out"]),
    ),
    (
        &["-e", "/nowhere/err", "true"],
        "not_started",
        Fix::Clone(&["-e", "err"]),
    ),
    (
        &["-i", "/nowhere/in", "true"],
        "not_started",
        Fix::Clone(&["-i", "/dev/null"]),
    ),
    (
        &["-cwd", "/nowhere/at/all", "true"],
        "not_started",
        Fix::Clone(&["-cwd", "/tmp"]),
    ),
    (&["-W", "1s", "sleep 4"], "run_limit", Fix::Offered),
    (
        &[
            "-c",
            "1s",
            "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done",
        ],
        "cpu_limit",
        Fix::Offered,
    ),
    (
        &["-F", "1", "exec dd if=/dev/zero of=big bs=1M count=2"],
        "signal",
        Fix::Clone(&["-F", "9000"]),
    ),
    (&["test -e flag || sleep 1000"], "owner", Fix::Again),
    (&["test -e flag || sleep 2000"], "force", Fix::Again),
];

/// Fifteen and one, and a dependency that can never be met.
#[test]
fn failures_are_named_and_what_is_offered_makes_a_success() {
    let cluster = Cluster::up("--hosts 1 --slots 8 --masters 1");
    let ids: Vec<u32> = FAILURES
        .iter()
        .map(|(args, ..)| cluster.csub(args))
        .collect();
    let first = ids[0].to_string();
    let orphan = cluster.csub(&["-ti", "-w", &format!("done({first})"), "true"]);
    let of = |cause: &str| {
        let at = FAILURES.iter().position(|(_, known, _)| *known == cause);
        ids[at.expect("it is one of them")]
    };
    let (owned, forced) = (of("owner"), of("force"));
    cluster.wait(|states| states[&(owned, 0)] == "RUN" && states[&(forced, 0)] == "RUN");
    cluster.ok("ckill", &[&owned.to_string()]);
    cluster.ok("ckill", &["-r", &forced.to_string()]);
    cluster.wait(|states| states.values().all(|stat| stat == "EXIT"));
    std::fs::write(cluster.work().join("flag"), "").expect("it is written");
    let mut mended = Vec::new();
    for ((args, cause, fix), id) in FAILURES.iter().zip(&ids) {
        let name = id.to_string();
        let answer = why(&cluster, &name);
        assert_eq!(answer["cause"], *cause, "{args:?}: {answer:#}");
        let advice = answer["advice"][0].as_str().unwrap_or_default().to_owned();
        assert!(!advice.is_empty(), "{args:?}: {answer:#}");
        match fix {
            Fix::Again => {
                cluster.ok("crequeue", &["-e", &name]);
                mended.push(*id);
            }
            Fix::Offered => {
                let words = corral::text::command::split_words(&advice).expect("a line");
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                mended.push(cluster.csub(&words[1..]));
            }
            Fix::Clone(more) => {
                mended.push(cluster.csub(&[&["-clone", &name], *more].concat()));
            }
        }
    }
    let answer = why(&cluster, &orphan.to_string());
    assert_eq!(answer["cause"], "orphan", "{answer:#}");
    let met = format!("ended({first})");
    mended.push(cluster.csub(&["-clone", &orphan.to_string(), "-w", &met]));
    cluster.wait(|states| {
        let over = |id: &u32| {
            states
                .get(&(*id, 0))
                .is_some_and(|s| s == "DONE" || s == "EXIT")
        };
        mended.iter().all(over)
    });
    for (n, id) in mended.iter().enumerate() {
        let args = FAILURES.get(n).map(|(args, ..)| args);
        assert_eq!(state(&cluster, *id), "DONE", "{args:?}");
    }
}

/// Where control groups hold memory limits.
#[test]
fn a_memory_limit_is_named_with_its_peak() {
    let probe = corral::sys::cgroup::Hierarchy::detect("probe");
    probe.remove_parents();
    if !probe.is_usable() {
        println!("skipped: no control groups");
        return;
    }
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let eat = "exec dd if=/dev/zero of=/dev/null bs=200M count=1";
    let id = cluster.csub(&["-M", "20M", eat]);
    cluster.wait(|states| states[&(id, 0)] == "EXIT");
    let answer = why(&cluster, &id.to_string());
    if answer["cause"] == "exit_code" || answer["cause"] == "signal" {
        // The development cluster was not given groups of its own.
        println!("skipped: {answer}");
        return;
    }
    assert_eq!(
        (&answer["cause"], &answer["limit"]),
        (&"mem_limit".into(), &"20M".into()),
        "{answer:#}"
    );
    let advice = answer["advice"][0].as_str().expect("advice");
    assert!(advice.contains("-mem 64M"), "{answer:#}");
}
