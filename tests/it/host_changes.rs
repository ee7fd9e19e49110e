//! A host joins and leaves a running cluster by `cadmin host`, without a restart of anything.

use crate::cluster::{Cluster, text};
use crate::patience::until_or;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// The daemons of a host that `cadmin dev` knows nothing of, as its service manager starts them.
fn daemons(cluster: &Cluster, host: &str) -> Vec<Child> {
    let dir = cluster.dir();
    let (etc, local) = (dir.join("etc-of").join(host), cluster.local(host));
    std::fs::create_dir_all(&etc).unwrap();
    std::fs::create_dir_all(&local).unwrap();
    let conf = format!(
        "CB_SHARE={}\nCB_HOST={host}\nCB_LOCAL={}\n",
        cluster.share().display(),
        local.display()
    );
    std::fs::write(etc.join("cb.conf"), conf).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_cb")).parent().unwrap();
    let start = |role: &str| {
        let log = std::fs::File::create(dir.join("log").join(format!("{role}.{host}.log")));
        Command::new(programs.join(role))
            .env("CB_ENVDIR", &etc)
            .env("CB_HOST", host)
            // `cadmin dev down` ends what carries this, also when the test fails.
            .env("CB_DEV", dir)
            .current_dir(dir)
            .stderr(log.unwrap())
            .spawn()
            .unwrap()
    };
    vec![start("cbls"), start("cbexe")]
}

fn until(cluster: &Cluster, what: &str, so: impl FnMut() -> bool) {
    until_or(so, || format!("{what}\n{}", cluster.logs()));
}

/// Status words of the hosts.
fn status(cluster: &Cluster, host: &str) -> String {
    let output = cluster.ok("chosts", &["-w"]);
    let row = output
        .lines()
        .find(|line| line.starts_with(&format!("{host} ")));
    let word = row.and_then(|line| line.split_whitespace().nth(1));
    word.unwrap_or("absent").to_string()
}

#[test]
fn a_host_joins_works_and_leaves_without_a_restart() {
    let cluster = Cluster::up("--hosts 3 --slots 2 --masters 2");
    let file = cluster.share().join("conf/cb.yaml");
    let read = || std::fs::read_to_string(&file).unwrap();
    let before = format!("# Kept.\n{}", read());
    std::fs::write(&file, &before).unwrap();
    let leader = cluster.leader().pid;

    let output = cluster.ok("cadmin", &["host", "add", "n9", "slots=1"]);
    assert!(output.contains("Host <n9> is added."), "{output}");
    assert!(
        output.contains("The new configuration is in force."),
        "{output}"
    );
    let joined = read();
    let names = before.lines().find(|line| line.contains("names:")).unwrap();
    let want = before.replace(names, &format!("{names}\n- {{name: n9, slots: 1}}"));
    assert_eq!(joined, want);
    let again = cluster.ok("cadmin", &["host", "add", "n9", "slots=1"]);
    assert!(again.contains("listed already"), "{again}");
    let other = cluster.run("cadmin", &["host", "add", "n9", "slots=7"]);
    assert_eq!(other.status.code(), Some(4), "{}", text(&other));

    let mut started = daemons(&cluster, "n9");
    until(&cluster, "n9 is ok", || status(&cluster, "n9") == "ok");
    let go = cluster.work().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.1; done", go.display());
    let job = cluster.csub(&["-m", "n9", &wait]);
    cluster.wait(|s| s.get(&(job, 0)).is_some_and(|s| s == "RUN"));

    // A leader candidate stays, and nothing is closed for it.
    let master = cluster.run("cadmin", &["host", "remove", "h1"]);
    assert_eq!(master.status.code(), Some(4), "{}", text(&master));
    assert!(
        text(&master).contains("masters of cluster"),
        "{}",
        text(&master)
    );
    assert_eq!(status(&cluster, "h1"), "ok");

    let early = cluster.run("cadmin", &["host", "remove", "n9", "--wait", "1"]);
    assert_eq!(early.status.code(), Some(4), "{}", text(&early));
    assert!(
        text(&early).contains(&format!("1 job: {job}")),
        "{}",
        text(&early)
    );
    assert_eq!(
        (read(), status(&cluster, "n9")),
        (joined, "closed_Adm".into())
    );

    let removal = cluster
        .command("cadmin")
        .args(["host", "remove", "n9"])
        .spawn();
    let mut removal = removal.unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(
        removal.try_wait().unwrap().is_none(),
        "it waits for the job"
    );
    std::fs::write(&go, "").unwrap();
    assert!(removal.wait().unwrap().success());
    assert_eq!(read(), before, "comments and all");
    cluster.wait(|s| s.get(&(job, 0)).is_some_and(|s| s == "DONE"));
    until(&cluster, "n9 is gone", || {
        status(&cluster, "n9") == "absent"
    });
    let twice = cluster.ok("cadmin", &["host", "remove", "n9"]);
    assert!(twice.contains("is not listed in"), "{twice}");

    // It comes back open, although it was closed to leave.
    let back = cluster.ok("cadmin", &["host", "add", "n9", "slots=1"]);
    assert!(back.contains("Host <n9> is opened again."), "{back}");
    until(&cluster, "n9 is back", || status(&cluster, "n9") == "ok");
    assert_eq!(cluster.leader().pid, leader, "nothing was restarted");
    let versions = std::fs::read_dir(file.parent().unwrap()).unwrap();
    let versions =
        versions.filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().len() > 20);
    assert_eq!(versions.count(), 3, "a version before each change");
    for child in &mut started {
        assert!(
            child.try_wait().unwrap().is_none(),
            "its daemons ran all the time"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn what_would_be_refused_changes_nothing() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1");
    let file = cluster.share().join("conf/cb.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    for words in [
        &["host", "add", "n9", "slots=many"][..],
        &["host", "add", "n9", "groups=nowhere"],
        &["host", "add", "default"],
        &["host", "add", "n9", "speed=3"],
        &["host", "remove", "all"],
        &["host", "remove", "h11"],
    ] {
        let out = cluster.run("cadmin", words);
        assert!(
            [1, 2, 4].contains(&out.status.code().unwrap()),
            "{}",
            text(&out)
        );
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    let never = cluster.run("cadmin", &["host", "remove", "h11"]);
    let said = "h11: no such host; nothing was changed; did you mean \"h1\"?";
    assert_eq!(never.status.code(), Some(1), "{}", text(&never));
    assert!(text(&never).contains(said), "{}", text(&never));
    assert!(!text(&never).contains("in force"), "{}", text(&never));
}
