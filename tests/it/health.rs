//! What administrators see of a cluster's health: `cadmin check` against live clusters.

use crate::cluster::{Cluster, kill_9, signal, text};
use crate::patience::until_or;

/// Runs `cadmin check`, which must end with `code`; gives what it said.
fn check(cluster: &Cluster, code: i32) -> String {
    let out = cluster.run("cadmin", &["check"]);
    assert_eq!(
        out.status.code(),
        Some(code),
        "{}\n{}",
        text(&out),
        cluster.logs()
    );
    text(&out)
}

#[test]
fn a_working_cluster_is_sound_under_load_and_while_a_leader_is_replaced() {
    let cluster = Cluster::up("--hosts 2 --slots 4 --masters 2 --lease 6");
    check(&cluster, 0);
    let load = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let one = |_| cluster.csub(&["-J", "a[1-10]", "sleep 0.1"]);
            (0..12).map(one).collect::<Vec<u32>>()
        });
        check(&cluster, 0);
        let leader = cluster
            .ps()
            .into_iter()
            .find(|p| p.leader)
            .expect("a leader");
        kill_9(leader.pid);
        while !load.is_finished() {
            check(&cluster, 0);
        }
        load.join().unwrap()
    });
    cluster.wait(|s| {
        let done = s.values().filter(|s| *s == "DONE").count();
        done == load.len() * 10
    });
    // All may have been done before the leader was killed: the next one comes after its lease.
    let both = || {
        let output = check(&cluster, 0);
        output.contains("2 epochs") && output.contains("2 hosts")
    };
    until_or(both, || check(&cluster, 0));
    // Damage hits what it touches: work goes on, the place is named, the code is 1.
    let journal = cluster.share().join("epoch/000001/journal.0001.yaml");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[700] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    let output = check(&cluster, 1);
    assert!(
        output.contains("epoch/000001/journal.0001.yaml:"),
        "{output}"
    );
    let after = cluster.csub(&["true"]);
    cluster.wait(|s| s.get(&(after, 0)).is_some_and(|s| s == "DONE"));
    bytes[700] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    check(&cluster, 0);
    bundle(&cluster);
    // No leader at all.
    for p in cluster.ps().into_iter().filter(|p| p.role == "cbsched") {
        kill_9(p.pid);
    }
    let output = check(&cluster, 1);
    assert!(output.contains("there is no leader"), "{output}");
}

/// The bundle names nobody, and holds what a report needs.
fn bundle(cluster: &Cluster) {
    let secret = "zanzibar";
    cluster.csub(&["-J", secret, &format!("true {secret}")]);
    let output = cluster.ok("cadmin", &["diag", "--out", "d.tar.gz"]);
    assert!(output.starts_with("d.tar.gz: "), "{output}");
    let again = cluster.run("cadmin", &["diag", "--out", "d.tar.gz"]);
    assert_eq!(again.status.code(), Some(4), "{}", text(&again));
    let file = std::fs::File::open(cluster.work().join("d.tar.gz")).unwrap();
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut all = std::collections::BTreeMap::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut content = String::new();
        std::io::Read::read_to_string(&mut entry, &mut content).unwrap();
        all.insert(name, content);
    }
    for due in [
        "README",
        "version",
        "check.txt",
        "config.yaml",
        "journal.txt",
        "hosts.json",
        "sizes.txt",
        "mounts.txt",
        "limits.txt",
        "logs/cbexe.host1.log",
    ] {
        let content = all.get(&format!("corral-diag/{due}"));
        assert!(
            content.is_some_and(|c| !c.is_empty()),
            "{due} of {:?}",
            all.keys()
        );
    }
    let journal = &all["corral-diag/journal.txt"];
    assert!(journal.contains("\"k\":\"submitted\""), "{journal}");
    let work = cluster.work().display().to_string();
    for (name, content) in &all {
        assert!(
            !content.contains(secret),
            "{name} holds a job's name: {content}"
        );
        assert!(
            !content.contains(&work),
            "{name} holds a foreign path: {content}"
        );
        let words: Vec<&str> = content.split(|c: char| !c.is_alphanumeric()).collect();
        assert!(!words.contains(&"h1"), "{name} names a host: {content}");
    }
}

#[test]
#[ignore = "waits 20 s until a silent host is called silent"]
fn silent_hosts_are_shown_with_the_reason() {
    let cluster = &Cluster::up("--hosts 2 --slots 1 --masters 1");
    let pid = |role: &str, host: &str| {
        let all = cluster.ps().into_iter();
        all.filter(|p| p.role == role && p.host == host)
            .map(|p| p.pid)
            .next()
            .unwrap()
    };
    kill_9(pid("cbls", "h1"));
    kill_9(pid("cbexe", "h2"));
    let both = || {
        let output = cluster.health();
        let silent = output.contains("h1                 unavail      cbls is silent");
        let half =
            output.contains("h2                 unreach      cbls reports but cbexe is silent");
        silent && half
    };
    until_or(both, || cluster.health());
    let long = cluster.ok("chosts", &["-l", "h1"]);
    assert!(long.contains(" REASON: cbls is silent"), "{long}");
    let output = check(cluster, 0);
    assert!(output.contains("host h1: it has been silent"), "{output}");
    assert!(
        output.contains("host h2: cbls reports but cbexe is silent"),
        "{output}"
    );
}

/// What an administrator of a growing cluster forgets, and what happens to leaders.
#[test]
fn health_names_unlisted_hosts_those_who_stand_by_and_a_frozen_leader() {
    let cluster = &Cluster::up("--hosts 2 --slots 1 --masters 2 --lease 6 --cgroup off");
    let until = |what: &str, so: &dyn Fn(&str, bool) -> bool| {
        let is_so = || {
            let out = cluster.run("cinfo", &["-health"]);
            let stdout = String::from_utf8(out.stdout).unwrap();
            so(&stdout, out.status.code() == Some(1))
        };
        let known = || format!("{what}: {}\n{}", cluster.health(), cluster.logs());
        until_or(is_so, known);
    };
    let well = |output: &str, wrong: bool| !wrong && output.contains("STANDBY: ");
    until("all is well", &well);
    cluster.ok("cid", &["-l"]);
    let conf = cluster.share().join("conf/cb.yaml");
    let before = std::fs::read_to_string(&conf).unwrap();
    let names = before.lines().find(|line| line.starts_with("- names:"));
    let without = before.replace(names.unwrap(), "- name: h1");
    assert_ne!(before, without);
    std::fs::write(&conf, &without).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
    until("h2 is unlisted", &|output, wrong| {
        wrong && output.contains("  h2                 unlisted     its cbls reports")
    });
    assert_eq!(cluster.run("cid", &["-l"]).status.code(), Some(1));
    std::fs::write(&conf, &before).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
    until("h2 is listed", &well);
    // Nobody can take over: the leader is frozen, and so is the other candidate.
    let masters: Vec<i32> = cluster
        .ps()
        .into_iter()
        .filter(|p| p.role == "cbsched")
        .map(|p| p.pid)
        .collect();
    masters.iter().for_each(|pid| signal(*pid, "-STOP"));
    until("the leader is frozen", &|output, wrong| {
        wrong && output.contains("has been silent for")
    });
    assert_eq!(cluster.run("cid", &["-l"]).status.code(), Some(1));
    masters.iter().for_each(|pid| signal(*pid, "-CONT"));
    // Whoever woke first leads. A leader that was overtaken ends, and nothing starts it again here.
    until("a leader is at work again", &|output, wrong| {
        let overtaken =
            output.contains("epoch 2") && output.contains("no standby cbsched runs on ");
        (!wrong || overtaken) && !output.contains("has been silent for")
    });
}

/// A leader that finds a broken cb.yaml goes on with the last good one, and says so.
#[test]
fn health_says_that_an_earlier_configuration_is_in_use() {
    let cluster = &Cluster::up("--hosts 1 --slots 1 --masters 2 --cgroup off");
    let conf = cluster.share().join("conf/cb.yaml");
    let before = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, before.replace("\nqueues:", "\nqueues: [")).unwrap();
    let leader = cluster.leader();
    kill_9(leader.pid);
    let told = || {
        let out = cluster.run("cinfo", &["-health"]);
        let stdout = String::from_utf8(out.stdout).unwrap();
        let told = stdout.contains("the previous cb.yaml stays in force");
        assert!(!told || out.status.code() == Some(1), "{stdout}");
        told
    };
    until_or(told, || format!("{}\n{}", cluster.health(), cluster.logs()));
    assert_eq!(cluster.run("cid", &["-l"]).status.code(), Some(1));
    // Work goes on meanwhile, and the mended file takes the words away.
    cluster.ok("csub", &["-K", "-o", "/dev/null", "true"]);
    std::fs::write(&conf, before).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
    let output = cluster.health();
    assert!(!output.contains("CONFIGURATION"), "{output}");
}
