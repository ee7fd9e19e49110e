//! Sensors in whole clusters: plain programs that print resources, found, run, restarted and ended
//! by `cbls`, and what users and the scheduler make of their values.

use crate::cluster::{Cluster, exists, kill_9, signal, text};
use crate::patience::until_or;
use crate::policies::{configure, hosts, is, reason, until, until_said};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The example of the manual, to the byte.
const CLKSND: &str = include_str!("../../ress.d/clksnd.master.example");

/// A cluster whose hosts have four slots each.
fn cluster(hosts: u32, masters: u32, sections: &str) -> Cluster {
    let options = format!("--hosts {hosts} --slots 4 --masters {masters}");
    let cluster = Cluster::up(&options);
    let list: Vec<String> = (1..=hosts).map(|n| format!("h{n}")).collect();
    let list = list.join(" ");
    let text = format!(
        "hosts:\n  - {{names: '{list}', slots: 4}}\nqueues:\n  - {{name: normal, priority: 30}}\n\
         {sections}"
    );
    configure(&cluster, &text);
    cluster
}

/// Puts a sensor into the server directory; whole at once, as `install` does.
fn put(cluster: &Cluster, name: &str, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = cluster.dir().join("sbin").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let aside = path.with_extension("new");
    std::fs::write(&aside, script).unwrap();
    std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    path
}

/// A sensor that gives `name` this value every second.
fn number(name: &str, value: &str) -> String {
    format!(
        "#!/bin/sh\nwhile :; do\necho '- resource: {name}'\necho '  value: {value}'\necho ---\n\
         sleep 1\ndone\n"
    )
}

/// Waits until this holds.
fn wait(cluster: &Cluster, what: &str, done: impl FnMut() -> bool) {
    until_or(done, || format!("{what}\n{}", cluster.logs()));
}

/// The value and the hosts of a resource as `cload -s` shows them.
fn shown(cluster: &Cluster, name: &str) -> Vec<(String, String)> {
    let output = cluster.ok("cload", &["-s", name]);
    let row = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let value = words.next().unwrap_or_default().to_owned();
        let _reserved = words.next();
        (value, words.collect::<Vec<_>>().join(" "))
    };
    output.lines().skip(1).map(row).collect()
}

/// Processes of the cluster's sensors.
fn sensors(dir: &Path) -> Vec<i32> {
    let mark = format!("CB_SENSORS={}", dir.display());
    let mut out = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let env = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let ours = |e: &[u8]| e.starts_with(mark.as_bytes());
        if env.split(|b| *b == 0).any(ours) && exists(pid) {
            out.push(pid);
        }
    }
    out
}

fn cbls(cluster: &Cluster, host: &str) -> i32 {
    let all = cluster.ps();
    let found = all.iter().find(|p| p.role == "cbls" && p.host == host);
    found.map_or(0, |p| p.pid)
}

#[test]
fn the_example_of_the_manual_works_as_it_is_printed() {
    let groups = "hostgroups:\n  - {name: master, members: h1}\n  - {name: node01, members: h2}\n";
    let c = cluster(3, 2, groups);
    put(&c, "ress.master", CLKSND);
    put(&c, "ress.d/where.master", &number("lead", "1"));
    wait(&c, "clksnd appears", || !shown(&c, "clksnd").is_empty());
    let first = shown(&c, "clksnd");
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0].1, "h1 h2");
    assert!(first[0].0.parse::<u32>().unwrap() < 60, "{first:?}");
    let info = c.ok("cinfo", &["-l"]);
    assert!(
        info.contains("The second value of the current clock"),
        "{info}"
    );
    wait(&c, "clksnd changes", || {
        shown(&c, "clksnd")[0].0 != first[0].0
    });

    let here = c.csub(&["-R", "select[clksnd>=0] order[clksnd]", "true"]);
    let job = until(&c, here, "DONE", is("DONE"));
    assert!(["h1", "h2"].contains(&hosts(&job)[0]), "{job}");
    let never = c.csub(&["-m", "h3", "-R", "select[clksnd>=0]", "true"]);
    until(&c, never, "looked at", |job| {
        !reason(job).is_empty() && is("PEND")(job)
    });
    let much = c.csub(&["-R", "rusage[clksnd=61]", "true"]);
    until(&c, much, "held back", |job| {
        reason(job).contains("shared resource clksnd") && is("PEND")(job)
    });
    let out = c.run("csub", &["-R", "select[clksnt>1]", "true"]);
    assert!(
        !out.status.success() && text(&out).contains("clksnd"),
        "{}",
        text(&out)
    );

    // It runs on the leader's host only, and goes with the lead.
    let leader = c.leader();
    let started = |host: &str| {
        c.log(&format!("cbls.{host}"))
            .contains("sensor ress.master started")
    };
    for host in ["h1", "h2", "h3"] {
        assert_eq!(started(host), host == leader.host, "{host}");
    }
    kill_9(leader.pid);
    let other = if leader.host == "h1" { "h2" } else { "h1" };
    wait(&c, "the sensor follows the leader", || started(other));
    let old = c.local(&leader.host);
    wait(&c, "the old one ends", || sensors(&old).is_empty());
    let there = [("1".to_owned(), other.to_owned())];
    wait(&c, "what it says is the new host's", || {
        shown(&c, "lead") == there
    });
    // Host groups that were configured while it only stood by are known to the new leader.
    wait(&c, "the locale names groups of the present cb.yaml", || {
        shown(&c, "clksnd")
            .iter()
            .any(|(_, hosts)| hosts == "h1 h2")
    });
    assert!(!started("h3"));
}

#[test]
fn a_killed_sensor_comes_back_a_removed_one_is_gone_and_none_outlives_its_daemon() {
    let c = cluster(2, 1, "");
    let pids = c.work().join("pids");
    let script = format!(
        "#!/bin/sh\necho $$ >> {}\nsetsid sleep 1000 &\n{}",
        pids.display(),
        number("lic", "3").trim_start_matches("#!/bin/sh\n")
    );
    let path = put(&c, "ress.h1", &script);
    let runs = || {
        crate::cluster::lines(&pids)
            .iter()
            .filter_map(|l| l.parse().ok())
            .collect::<Vec<i32>>()
    };
    wait(&c, "lic appears", || {
        shown(&c, "lic") == [("3".to_owned(), "h1".to_owned())]
    });
    assert_eq!(runs().len(), 1);
    let long = c.ok("chosts", &["-s", "lic"]);
    assert!(
        long.lines().nth(1).is_some_and(|l| l.contains("h1")),
        "{long}"
    );
    let id = c.csub(&["-R", "rusage[lic=2]", "sleep 1000"]);
    until(&c, id, "RUN", is("RUN"));
    let second = c.csub(&["-R", "rusage[lic=2]", "true"]);
    until(&c, second, "waiting for lic", |job| {
        reason(job).contains("not enough of a resource")
    });

    kill_9(runs()[0]);
    wait(&c, "it is started again", || runs().len() >= 2);
    c.ok("ckill", &[&id.to_string()]);
    until(&c, second, "DONE", is("DONE"));

    // A daemon that is killed takes its sensor with it; what that left goes at the next start.
    kill_9(cbls(&c, "h1"));
    let last = *runs().last().unwrap();
    wait(&c, "the sensor dies with its daemon", || !exists(last));
    c.dev_up("");
    wait(&c, "a new one runs", || runs().len() >= 3);
    wait(&c, "nothing else is left", || {
        sensors(&c.local("h1")).len() <= 3
    });

    // Asked to end, it leaves nothing.
    signal(cbls(&c, "h1"), "-TERM");
    wait(&c, "nothing is left behind", || {
        sensors(&c.local("h1")).is_empty()
    });
    c.dev_up("");
    wait(&c, "lic is back", || !shown(&c, "lic").is_empty());

    std::fs::remove_file(path).unwrap();
    wait(&c, "lic is gone", || shown(&c, "lic").is_empty());
    wait(&c, "its processes are gone", || {
        sensors(&c.local("h1")).is_empty()
    });
    put(&c, "ress.host", &number("lic", "1"));
    wait(&c, "both hosts have it", || shown(&c, "lic").len() == 2);
    let dir = c.local("");
    let out = c.down();
    assert!(out.status.success(), "{}", text(&out));
    assert_eq!(sensors(&dir), [0; 0]);
}

#[test]
fn sensors_that_exit_hang_flood_and_print_garbage_harm_nobody() {
    let begun = std::time::Instant::now();
    let c = cluster(1, 1, "");
    put(&c, "ress.host", &number("good", "5"));
    let all = [
        (
            "exits",
            "echo '- resource: once'; echo '  value: 1'; exit 3".to_owned(),
        ),
        (
            "hangs",
            "for n in 1 2 3; do\n\
             echo '- resource: stuck'; echo '  value: 1'; echo ---; sleep 1\ndone\n\
             trap '' TERM; exec sleep 1000"
                .to_owned(),
        ),
        ("floods", "cat /dev/zero".to_owned()),
        ("lines", "yes '  value: 1'".to_owned()),
        (
            "garbage",
            "while :; do head -c 3000 /dev/urandom; echo; echo ---; sleep 0.1; done".to_owned(),
        ),
        ("errors", "yes oops >&2".to_owned()),
        ("silent", "sleep 1000".to_owned()),
        ("absent", "echo no such device >&2; exit 69".to_owned()),
    ];
    for (name, script) in &all {
        put(
            &c,
            &format!("ress.d/{name}.host"),
            &format!("#!/bin/bash\n{script}\n"),
        );
    }
    std::fs::write(c.dir().join("sbin/ress.d/notes.host"), "no program\n").unwrap();
    let daemon = cbls(&c, "h1");
    let log = || c.log("cbls.h1");
    // This one first: its value ages.
    wait(&c, "the one that hangs was heard", || {
        !shown(&c, "stuck").is_empty()
    });
    wait(&c, "the good one is heard", || {
        !shown(&c, "good").is_empty()
    });
    for words in [
        "sensor ress.d/exits.host ended (exit 3); started again in 4 s",
        "sensor ress.d/floods.host:1: a line is longer than 8192 bytes; it is ended",
        "a document is longer than 65536 bytes",
        "sensor ress.d/errors.host: oops",
        "sensor ress.d/absent.host: no such device",
        "sensor ress.d/absent.host has nothing to measure here; tried again every 10 minutes",
        "ress.d/notes.host is not executable: chmod +x it",
    ] {
        wait(&c, words, || log().contains(words));
    }
    wait(&c, "a value ages", || shown(&c, "stuck").is_empty());
    assert!(log().contains("the value of stuck is"), "{}", log());
    assert_eq!(shown(&c, "good"), [("5".to_owned(), "h1".to_owned())]);
    let most = 30 + 10 * begun.elapsed().as_secs() / 60;
    let said = log().matches(": oops").count() as u64;
    assert!(said <= most, "{said} lines, {} bytes", log().len());
    assert!(log().len() < 200_000, "{} bytes of log", log().len());
    assert_eq!(cbls(&c, "h1"), daemon, "cbls lived on");
    let status = std::fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
    let rss = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .unwrap();
    let kb: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kb < 100_000, "{kb} kB");
    let id = c.csub(&["-R", "select[good==5]", "true"]);
    until(&c, id, "DONE", is("DONE"));
}

#[test]
fn what_others_can_write_is_not_run_and_the_path_is_named() {
    let c = cluster(1, 1, "");
    let mode = |path: &Path, mode: &str| {
        assert!(
            Command::new("chmod")
                .arg(mode)
                .arg(path)
                .status()
                .unwrap()
                .success()
        );
    };
    let dir = c.dir().join("sbin/ress.d");
    std::fs::create_dir_all(&dir).unwrap();
    mode(&dir, "777");
    let inside = put(&c, "ress.d/a.host", &number("inside", "1"));
    let beside = put(&c, "ress.host", &number("beside", "1"));
    wait(&c, "the sensor beside is heard", || {
        !shown(&c, "beside").is_empty()
    });
    let log = || c.log("cbls.h1");
    let refused = format!("load {}: all users may write to it", dir.display());
    wait(&c, "the directory is named", || log().contains(&refused));
    assert!(!log().contains("sensor ress.d/a.host started"), "{}", log());
    // One that runs is ended when its file is opened to others.
    mode(&beside, "757");
    wait(&c, "its value is gone", || shown(&c, "beside").is_empty());
    wait(&c, "it is ended", || sensors(&c.local("h1")).is_empty());
    let refused = format!("load {}: all users may write to it", beside.display());
    assert!(log().contains(&refused), "{}", log());
    mode(&beside, "755");
    mode(&dir, "755");
    wait(&c, "both are heard", || {
        !shown(&c, "beside").is_empty() && !shown(&c, "inside").is_empty()
    });
    drop(inside);
}

#[test]
fn a_gang_of_two_sections_takes_gpus_that_only_sensors_know() {
    let limits = "resources:\n  - {name: netres2, type: number}\nlimits:\n  - {name: net, \
                  per_user: all, resources: '[netres2,5]'}\n";
    let c = cluster(3, 1, limits);
    let gpus = number("gpu", "2").replace(
        "echo ---",
        "echo '- resource: fpga'\necho '  assign: yes'\n\
                                                       echo '  value: 1'\necho ---",
    );
    put(&c, "ress.h1", &gpus);
    put(&c, "ress.h2", &gpus);
    put(&c, "ress.d/net.host", &number("netres2", "4"));
    wait(&c, "four gpus", || {
        shown(&c, "gpu").len() == 2 && shown(&c, "netres2").len() == 3
    });
    let gang = ["-R", "2{select[mem>1]} 4{rusage[gpu=1]}", "sleep 1000"];
    let first = c.csub(&gang);
    let job = until(&c, first, "RUN", is("RUN"));
    let on = hosts(&job);
    assert!(on.contains(&"h1") && on.contains(&"h2"), "{job}");
    let second = c.csub(&gang);
    until(&c, second, "waiting for gpus", |job| {
        is("PEND")(job) && reason(job).contains("gpu")
    });
    until_said(&c, &["chosts", "-s", "gpu"], |output| {
        output.matches(" 2.0 ").count() == 2
    });
    // The copies that commands make of the cluster know what sensors define.
    let why = c.ok("cjobs", &["--why", &second.to_string()]);
    assert!(why.contains("section 2 needs 4 slots"), "{why}");
    assert!(why.contains(" Start: ") && !why.contains("never"), "{why}");
    let starts = c.ok("cbsim", &["when", &second.to_string()]);
    assert!(starts.contains(" starts in "), "{starts}");
    c.ok("ckill", &[&first.to_string()]);
    until(&c, second, "RUN", is("RUN"));
    c.ok("ckill", &[&second.to_string()]);
    // Of a sensor's resource with assign each job has a unit of its own.
    let with_unit = ["-R", "rusage[fpga=1]", "sleep 1000"];
    let both = [c.csub(&with_unit), c.csub(&with_unit)];
    let units = both.map(|id| until(&c, id, "RUN", is("RUN"))["units"][0].clone());
    assert!(units.iter().all(|of| of["names"][0] == "0"), "{units:?}");
    assert_ne!(units[0]["host"], units[1]["host"], "{units:?}");
    c.ok(
        "ckill",
        &both.map(|id| id.to_string()).each_ref().map(String::as_str),
    );
    // A quota counts what a sensor brought.
    let a = c.csub(&["-R", "rusage[netres2=3]", "sleep 1000"]);
    until(&c, a, "RUN", is("RUN"));
    let b = c.csub(&["-R", "rusage[netres2=3]", "true"]);
    until_said(&c, &["cjobs", "-l", &b.to_string()], |output| {
        output.contains("net")
    });
    assert!(is("PEND")(&until(&c, b, "PEND", is("PEND"))));
    c.ok("ckill", &[&a.to_string()]);
    until(&c, b, "DONE", is("DONE"));
}

#[test]
fn the_check_names_lines() {
    let run = |args: &[&str], input: &str| {
        use std::io::Write;
        let mut child = Command::new(env!("CARGO_BIN_EXE_cb"))
            .args(["cadmin", "ress-check"])
            .args(args)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    };
    let out = run(
        &["-"],
        "- resource: a\n  value: 1\n---\n- resource: b\n  valeu: 1\n",
    );
    assert_eq!(out.status.code(), Some(2), "{}", text(&out));
    assert!(
        text(&out).contains("standard input:5:3: resource b: there is no attribute"),
        "{}",
        text(&out)
    );
    let out = run(&["/nonexistent-output"], "");
    assert!(!out.status.success());
}
