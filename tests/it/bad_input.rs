//! Bad input gets its named refusal at the door; nothing is lost and no daemon stops.

use crate::cluster::{Cluster, text};

/// Arguments of csub, exit code, what the message must say.
const SUBMISSIONS: &[(&[&str], i32, &str)] = &[
    (&[""], 2, "no command"),
    (&["-n", "0", "true"], 2, "-n"),
    (&["-n", "999999999", "true"], 2, "-n"),
    (&["-n", "4,2", "true"], 2, "maximum"),
    (&["-n", "x", "true"], 2, "-n"),
    (&["-J", "a[1-100000000]", "true"], 4, "array"),
    (&["-J", "a[5-1]", "true"], 2, "-J"),
    (&["-J", "a[1-5:0]", "true"], 2, "-J"),
    (&["-J", "a[1-", "true"], 2, "-J"),
    (&["-J", "../x", "true"], 2, "-J"),
    (&["-J", "a\nb", "true"], 2, "-J"),
    (&["-J", "   ", "true"], 2, "-J"),
    (&["-W", "0", "true"], 2, "-W"),
    (&["-W", "-5", "true"], 2, "-W"),
    (&["-W", "99999999999:00", "true"], 2, "-W"),
    (&["-W", "1:60:00", "true"], 2, "-W"),
    (&["-M", "0", "true"], 2, "-M"),
    (&["-M", "12Q", "true"], 2, "-M"),
    (&["-w", "done(", "true"], 2, "-w"),
    (&["-w", "done(99999)", "true"], 2, "99999"),
    (&["-R", "select[mem>", "true"], 2, "-R"),
    (&["-R", "rusage[mem=-1]", "true"], 2, "-R"),
    (&["-R", "rusage[mem=1e999]", "true"], 2, "-R"),
    (&["-R", "span[hosts=0]", "true"], 2, "-R"),
    (&["-R", "order[ut:-mem:foo]", "true"], 2, "foo"),
    (&["-R", "rusage[unicorns=1]", "true"], 2, "unicorns"),
    (&["-R", "cu[maxcus=x]", "true"], 2, "-R"),
    (&["-q", "nosuchqueue", "true"], 1, "nosuchqueue"),
    (&["-m", "nosuchhost", "true"], 1, "nosuchhost"),
    (&["-b", "25:00", "true"], 2, "-b"),
    (&["-IX", "true"], 2, "not implemented"),
    (&["--nosuchoption", "true"], 2, "nosuchoption"),
    (&["-env", "A\nB=1", "true"], 2, "env"),
    (&["-pack", "nosuchfile"], 2, "nosuchfile"),
];

/// Job ids as users mistype them, with the exit code of ckill.
const IDS: &[(&str, i32)] = &[
    ("1[2-", 2),
    ("18446744073709551616", 2),
    ("x", 2),
    ("-1", 2),
    ("999999", 1),
];

#[test]
fn bad_submissions_are_refused_by_name_and_good_ones_still_pass() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1 --cgroup off");
    let daemons = cluster.ps();
    let mut wrong = Vec::new();
    for (args, code, says) in SUBMISSIONS {
        let out = cluster.run("csub", args);
        let error = String::from_utf8_lossy(&out.stderr);
        let refused = out.status.code() == Some(*code) && error.contains(says);
        if !refused || !out.stdout.is_empty() {
            wrong.push(format!(
                "csub {args:?}: not {code} with {says:?} but {}",
                text(&out)
            ));
        }
    }
    for (id, code) in IDS {
        let out = cluster.run("ckill", &[id]);
        if out.status.code() != Some(*code) {
            wrong.push(format!("ckill {id}: not {code} but {}", text(&out)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let huge = "x".repeat(120_000);
    let out = cluster.run("csub", &["-J", &huge, "true"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out));

    let id = cluster.csub(&["true"]);
    let states = cluster.wait(|s| s.get(&(id, 0)).is_some_and(|s| s == "DONE" || s == "EXIT"));
    assert_eq!(
        states.len(),
        1,
        "a refused submission made a job: {states:?}"
    );
    let left: Vec<i32> = cluster.ps().iter().map(|p| p.pid).collect();
    for p in daemons {
        assert!(
            left.contains(&p.pid),
            "{p:?} did not survive\n{}",
            cluster.logs()
        );
    }
}

/// Bytes that are no request, dropped where requests are expected.
#[test]
fn rubbish_in_the_drop_box_hurts_nobody() {
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1 --cgroup off");
    cluster.csub(&["true"]); // makes the user's directory
    let inbox = std::fs::read_dir(cluster.share().join("inbox"))
        .unwrap()
        .next()
        .expect("the first submission made a directory")
        .unwrap()
        .path();
    let token = |n: u32| format!("r.{n:032x}");
    std::fs::write(inbox.join(token(1)), "not a request\n").unwrap();
    std::fs::write(inbox.join(token(2)), "").unwrap();
    std::fs::write(inbox.join(token(3)), vec![0u8; 1 << 20]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", inbox.join(token(4))).unwrap();
    std::fs::create_dir(inbox.join(token(5))).unwrap();
    let fifo = inbox.join(token(6));
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    std::fs::write(inbox.join("unrelated"), "x").unwrap();
    let id = cluster.csub(&["true"]);
    cluster.wait(|s| s.get(&(id, 0)).is_some_and(|s| s == "DONE"));
    assert!(cluster.ps().iter().any(|p| p.leader), "{}", cluster.logs());
}
