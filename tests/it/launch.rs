//! Jobs of several tasks: each slot starts the command once, with the variables that frameworks
//! look for; one failure ends all, a kill leaves nothing, and `cjobs -t` shows each task.

use crate::cluster::Cluster;
use crate::policies;
use std::path::Path;
use std::process::Command;

fn read(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap_or_default()
}

/// The lines that the tasks of a job wrote, in the order of their ranks.
fn said(dir: &Path, name: &str, tasks: usize) -> Vec<String> {
    (0..tasks)
        .map(|n| read(dir, &format!("{name}.{n}")).trim().to_owned())
        .collect()
}

fn site(hosts: u32, slots: u32) -> Cluster {
    let hosts: Vec<u32> = (1..=hosts).collect();
    let lines = hosts
        .iter()
        .map(|n| format!("- {{name: h{n}, slots: {slots}}}\n"));
    let lines: String = lines.collect();
    let sections = format!("hosts:\n{lines}queues:\n- {{name: q}}\n");
    policies::cluster(hosts.len() as u32, &sections)
}

/// Open MPI finds its hosts in a file, and a program to use instead of ssh.
fn mpi_finds_its_hosts(site: &Cluster) {
    let line = "cat $OMPI_MCA_orte_default_hostfile >mpi.0; test -x $OMPI_MCA_plm_rsh_agent";
    let job = site.csub(&["-n", "3", "--launch", "mpi", line]);
    policies::until(site, job, "DONE", policies::is("DONE"));
    assert_eq!(said(&site.work(), "mpi", 1), ["h1 slots=3"]);
}

#[test]
fn every_slot_is_a_task_with_its_place_and_sections_have_commands_of_their_own() {
    let site = site(1, 4);
    let dir = site.work();
    let all = "echo $CB_TASK $CB_REPLICA $CB_RANK/$CB_NTASKS [$CB_HOSTS_1] >all.$CB_RANK";
    let plain = site.csub(&["-n", "3", "--launch", "tasks", all]);
    policies::until(&site, plain, "DONE", policies::is("DONE"));
    let wanted = [
        "1 0 0/3 [h1 h1 h1]",
        "1 1 1/3 [h1 h1 h1]",
        "1 2 2/3 [h1 h1 h1]",
    ];
    assert_eq!(said(&dir, "all", 3), wanted);
    let rest = "echo rest $CB_TASK $CB_REPLICA $CB_HOSTS_head >two.$CB_RANK";
    let head = "head=echo head $CB_HOSTS_rest >two.0";
    let two = site.csub(&[
        "-R",
        "1{} 3{}",
        "--section",
        head,
        "--section",
        "rest",
        rest,
    ]);
    let job = policies::until(&site, two, "DONE", policies::is("DONE"));
    assert_eq!(job["launch"]["sections"][1]["name"], "rest", "{job}");
    let wanted = [
        "head h1 h1 h1",
        "rest rest 0 h1",
        "rest rest 1 h1",
        "rest rest 2 h1",
    ];
    assert_eq!(said(&dir, "two", 4), wanted);
    let torch = "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT >torch.$RANK";
    let torch = site.csub(&["-n", "2", "--launch", "torch", torch]);
    policies::until(&site, torch, "DONE", policies::is("DONE"));
    let lines = said(&dir, "torch", 2);
    assert!(lines[0].starts_with("0 2 0 127.0.0.1 2"), "{lines:?}");
    let port = lines[0].rsplit(' ').next().unwrap();
    assert_eq!(lines[1], format!("1 2 1 127.0.0.1 {port}"));
    mpi_finds_its_hosts(&site);
    // A script is a command as well, and what csub refuses says why.
    std::fs::write(
        dir.join("s.sh"),
        "#CSUB -n 2\n#CSUB --launch tf\necho $TF_CONFIG >tf.$CB_RANK\n",
    )
    .unwrap();
    let script = site.csub(&["./s.sh"]);
    policies::until(&site, script, "DONE", policies::is("DONE"));
    let config: serde_json::Value = serde_json::from_str(&said(&dir, "tf", 2)[1]).unwrap();
    assert_eq!(
        config["task"],
        serde_json::json!({"type": "worker", "index": 1})
    );
    let wrong = site.run("csub", &["-R", "1{} 3{}", "--section", "a", "true"]);
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        text.contains("1 sections are described, but the requirement has 2"),
        "{text}"
    );
}

#[test]
fn one_failure_ends_all_and_a_kill_leaves_no_task() {
    let site = site(1, 4);
    let one = "[ $CB_RANK = 1 ] && exit 7; exec sleep 997.31";
    let failed = site.csub(&["-n", "3", "--launch", "tasks", one]);
    let job = policies::until(&site, failed, "EXIT", policies::is("EXIT"));
    assert_eq!(job["exit_code"], 7, "{job}");
    let kept = site.csub(&["-n", "3", "--launch", "tasks", "exec sleep 997.31"]);
    let shown = |id: u32| site.ok("cjobs", &["-t", &id.to_string()]);
    policies::until(&site, kept, "with tasks", |job| {
        job["usage"]["tasks"]
            .as_array()
            .is_some_and(|all| all.len() == 3)
    });
    let page = shown(kept);
    assert!(page.contains(" TASKS:\n RANK "), "{page}");
    let rows: Vec<_> = page
        .lines()
        .filter(|line| line.contains(" h1  ") && line.contains("RUN"))
        .collect();
    assert_eq!(rows.len(), 3, "{page}");
    site.ok("ckill", &[&kept.to_string()]);
    let job = policies::until(&site, kept, "EXIT", policies::is("EXIT"));
    assert_eq!(job["term_reason"], "TERM_OWNER", "{job}");
    let left = Command::new("pgrep")
        .args(["-f", "sleep 997.3[1]"])
        .output();
    assert!(left.unwrap().stdout.is_empty(), "a kill leaves no task");
}

/// Other hosts are reached by a program that takes the host and words for its shell.
#[test]
fn tasks_on_other_hosts_are_started_by_the_agent_with_directory_and_environment() {
    let site = site(2, 2);
    let dir = site.work();
    let agent = dir.join("agent");
    let script = "#!/bin/sh\nhost=$1\nshift\necho \"$host\" >>called\ncd /\nexec sh -c \"$*\"\n";
    std::fs::write(&agent, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&agent, mode).unwrap();
    let env = format!("all,CB_LAUNCH_AGENT={}", agent.display());
    let say = "echo \"$CB_TASK_HOST $LOCAL_RANK $MASTER_ADDR it's\" >far.$RANK";
    let job = site.csub(&["-n", "3", "-env", &env, "--launch", "torch", say]);
    policies::until(&site, job, "DONE", policies::is("DONE"));
    let lines = said(&dir, "far", 3);
    let hosts: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let first = hosts[0];
    let other = hosts
        .iter()
        .find(|host| **host != first)
        .expect("two hosts");
    for line in &lines {
        assert!(line.ends_with(&format!("{first} it's")), "{lines:?}");
    }
    let called = read(&dir, "called");
    let times = hosts.iter().filter(|host| *host == other).count();
    assert_eq!(called.lines().collect::<Vec<_>>(), vec![*other; times]);
}
