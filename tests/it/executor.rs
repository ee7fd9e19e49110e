//! `cbexe` as a leader sees it: orders in, reports out, on a real directory with real processes.
//! The leader here is this test, which writes the files itself.

use crate::cluster::exists;
use crate::executor_bed::{Cluster, attempt, wait_gone};
use crate::patience::{find, until};
use corral::model::{JobKey, Share, Spec, TermReason, sha256_hex};
use corral::record::leader::ClusterDoc;
use corral::record::order::{Act, Order, TaskUnits};
use corral::record::report::Report;
use corral::sys::{clock, fs, proc, users};
use std::process::{Child, Command};

mod lonely;

/// The account of other people's jobs in these tests: `nobody`.
const OTHER: u32 = 65_534;

fn as_other(c: &mut Cluster, service: Option<u32>) {
    if let Some(uid) = service {
        let cluster = ClusterDoc {
            cluster: "c".into(),
            name: "c".into(),
            format: 1,
            service_uid: uid,
            service_gid: uid,
        };
        fs::publish(&c.layout.cluster(), &serde_json::to_vec(&cluster).unwrap()).unwrap();
        let root = c.layout.root().to_str().unwrap().to_owned();
        let chown = Command::new("chown")
            .args(["-R", &uid.to_string(), &root])
            .status();
        assert!(chown.unwrap().success());
    }
    fs::chmod(c.dir.path(), 0o755).unwrap();
    let home = c.path("work");
    fs::mkdir(&home, 0o755).unwrap();
    fs::chown(&home, OTHER, OTHER).unwrap();
    let cwd = home.to_str().unwrap().to_owned();
    let spec = |stdout: &str| Spec {
        uid: OTHER,
        user: "nobody".into(),
        cwd: cwd.clone(),
        umask: 0o027,
        stdout: stdout.into(),
        ..Spec::default()
    };
    c.order(&[
        Order::Spec {
            id: 1,
            spec: Box::new(spec("out.%J")),
        },
        Order::Spec {
            id: 2,
            spec: Box::new(spec("")),
        },
        Order::Spec {
            id: 3,
            spec: Box::new(spec("../forbidden")),
        },
    ]);
}

fn other_user(service: Option<u32>) {
    if !users::may_switch() {
        println!("skipped: not root");
        return;
    }
    let mut c = Cluster::new();
    as_other(&mut c, service);
    let with = |id: u32, s: u32, command: &str| {
        let mut o = Cluster::start(id, command);
        if let Order::Start(o) = &mut o {
            o.s = s;
        }
        o
    };
    let script = "id -u; id -ru; id -G; umask; cat /etc/shadow || echo refused; ulimit -c";
    c.order(&[
        with(1, 1, script),
        with(2, 2, "id -u"),
        with(3, 3, "true"),
        with(4, 1, "sleep 1000"),
    ]);
    c.start_exe();
    assert_eq!((c.end(1).code, c.end(1).text.as_str()), (Some(0), ""));
    let out = c.path("work/out.1");
    let text = String::from_utf8(fs::read_small(&out, 9999).unwrap()).unwrap();
    let body = text.split("follows:\n\n").nth(1).unwrap_or_default();
    let lines: Vec<&str> = body.lines().collect();
    assert_eq!(lines[..2], ["65534", "65534"], "{text}");
    assert!(body.contains("refused") && body.contains("0027"), "{text}");
    let st = fs::stat(&out).unwrap().unwrap();
    assert_eq!((st.uid, st.mode), (OTHER, 0o640));
    assert_eq!(c.end(2).code, Some(0));
    let default = fs::stat(&c.layout.default_output(JobKey::job(2)))
        .unwrap()
        .unwrap();
    assert_eq!(default.len, 6);
    let e = c.end(3);
    assert_eq!(e.reason, TermReason::StartFailed);
    assert!(e.text.contains("forbidden"), "{}", e.text);
    let (act, reason) = (Act::Terminate, TermReason::Owner);
    c.started(4);
    c.order(&[Order::Signal {
        a: attempt(4),
        act,
        reason,
        grace_ms: 200,
        n: 1,
        mark: 0,
    }]);
    assert_eq!(c.end(4).reason, TermReason::Owner);
    let owner = service.unwrap_or(0);
    let reports = c.layout.reports("h1", c.reports().0);
    assert_eq!(fs::stat(&reports).unwrap().unwrap().uid, owner);
}

/// A script's copy stands in the command line of the job's shell, for everybody to see.
#[test]
fn a_script_that_runs_is_its_users_alone() {
    if !users::may_switch() {
        println!("skipped: not root");
        return;
    }
    let mut c = Cluster::new();
    as_other(&mut c, Some(1));
    let own = b"umask; stat -c '%u %a' \"$0\" \"${0%/*}\"\n";
    let sha = sha256_hex(own);
    let blob = c.layout.blob(&sha);
    fs::mkdir_p(fs::parent(&blob), 0o755).unwrap();
    fs::publish(&blob, own).unwrap();
    let cwd = c.path("work").to_str().unwrap().to_owned();
    c.spec(4, |spec| {
        (spec.uid, spec.user, spec.cwd) = (OTHER, "nobody".into(), cwd);
        (spec.script, spec.umask, spec.stdout) = (sha, 0o077, String::new());
    });
    c.start_of(1, 4, "script");
    c.start_exe();
    let e = c.end(1);
    assert_eq!((e.code, e.text.as_str()), (Some(0), ""));
    let out = c.layout.default_output(JobKey::job(1));
    let text = String::from_utf8(fs::read_small(&out, 9999).unwrap()).unwrap();
    assert_eq!(text, "0077\n65534 500\n1 711\n");
    let st = fs::stat(&out).unwrap().unwrap();
    assert_eq!((st.uid, st.mode & 0o777), (OTHER, 0o600));
}

#[test]
fn root_runs_jobs_as_their_user() {
    other_user(None);
}

#[test]
fn root_writes_to_the_share_as_its_owner() {
    other_user(Some(1));
}

#[test]
fn orders_are_carried_out_once_however_often_they_are_repeated() {
    let mut c = Cluster::new();
    let starts: Vec<Order> = (1..=30).map(|i| Cluster::start(i, &c.mark(i))).collect();
    c.order(&starts);
    c.start_exe();
    c.order(&starts);
    (1..=30).for_each(|i| assert_eq!(c.end(i).code, Some(0)));
    // The same orders in the next part, in a new epoch, and after a restart.
    c.order(&[Order::Next { part: 2 }]);
    c.part = 2;
    for (epoch, part) in [(1, 2), (2, 1)] {
        c.orders = Cluster::file(&c.layout, epoch, part);
        c.seq = 2;
        let uid = users::effective_uid();
        let cwd = c.path("").to_str().unwrap().to_owned();
        let spec = Spec {
            uid,
            cwd,
            stdout: "/dev/null".into(),
            ..Spec::default()
        };
        c.order(&[Order::Spec {
            id: 1,
            spec: Box::new(spec),
        }]);
        c.order(&starts);
        let next = 100 + epoch as u32;
        c.order(&[Cluster::start(next, "true")]);
        c.epoch(epoch);
        c.end(next);
    }
    c.restart_exe();
    c.order(&[Cluster::start(200, "true")]);
    assert_eq!(c.end(200).code, Some(0));
    let marks = c.marks();
    let mut lines: Vec<u32> = marks.lines().map(|l| l.parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (1..=30).collect::<Vec<u32>>());
}

#[test]
fn tasks_outlive_a_kill_of_the_executor_and_are_taken_up_again() {
    let mut c = Cluster::new();
    c.order(&[
        Cluster::start(1, "sleep 1; exit 5"),
        Cluster::start(2, "sleep 600"),
        Cluster::start(3, "exit 3"),
    ]);
    c.start_exe();
    assert_eq!(c.end(3).code, Some(3));
    let (one, two) = (c.started(1), c.started(2));
    c.kill_exe();
    clock::sleep_ms(1500);
    assert!(exists(two));
    c.start_exe();
    assert_eq!(c.end(1).code, Some(5));
    assert_eq!(c.end(3).code, Some(3));
    assert_eq!(c.started(2), two);
    assert_ne!(one, two);
    let (act, reason) = (Act::Terminate, TermReason::Owner);
    c.order(&[Order::Signal {
        a: attempt(2),
        act,
        reason,
        grace_ms: 200,
        n: 1,
        mark: 0,
    }]);
    let e = c.end(2);
    assert_eq!((e.code, e.sig, e.reason), (None, 2, TermReason::Owner));
}

#[test]
fn what_was_acknowledged_is_not_told_again() {
    let mut c = Cluster::new();
    c.order(&[Cluster::start(1, "exit 1"), Cluster::start(2, "exit 2")]);
    c.start_exe();
    c.end(1);
    c.end(2);
    let (part, reports) = c.reports();
    let seq = reports
        .iter()
        .find(|(_, r)| matches!(r, Report::Ended(e) if e.a == attempt(1)))
        .map(|(seq, _)| *seq);
    let seq = seq.unwrap();
    let first_alone = !reports
        .iter()
        .any(|(s, r)| *s <= seq && matches!(r, Report::Ended(e) if e.a == attempt(2)));
    c.order(&[Order::Ack { part, seq }, Cluster::start(3, "exit 3")]);
    c.end(3);
    // The acknowledgement is on record with the next commit.
    c.restart_exe();
    until("another file of reports", || c.reports().0 != part);
    c.wait_for("completeness", |r| {
        matches!(r, Report::Complete { .. }).then_some(())
    });
    c.end(3);
    let reported = |id: u32| {
        let (_, all) = c.reports();
        all.iter()
            .any(|(_, r)| matches!(r, Report::Ended(e) if e.a == attempt(id)))
    };
    assert!(!reported(1) && reported(2) == first_alone);
}

#[test]
fn a_cancelled_attempt_never_starts() {
    let mut c = Cluster::new();
    c.order(&[Order::Cancel { a: attempt(1) }]);
    c.start_exe();
    c.never(1);
    c.order(&[Cluster::start(1, &c.mark(1)), Cluster::start(2, &c.mark(2))]);
    assert_eq!(c.end(2).code, Some(0));
    c.restart_exe();
    c.never(1);
    c.order(&[Cluster::start(3, "true")]);
    c.end(3);
    assert_eq!(c.marks(), "2\n");
}

#[test]
fn a_killed_shepherd_is_an_unknown_end_and_nothing_of_the_task_lives_on() {
    let mut c = Cluster::new();
    let pid_file = c.path("pid");
    let command = format!("echo $$ > {}; exec sleep 600", pid_file.display());
    c.order(&[Cluster::start(1, &command)]);
    c.start_exe();
    let shepherd = c.started(1);
    let job: i32 = find("the job's process", || {
        let text = fs::read_optional(&pid_file, 99).unwrap()?;
        String::from_utf8_lossy(&text).trim().parse().ok()
    });
    proc::kill(shepherd, 9).unwrap();
    let e = c.end(1);
    assert_eq!(
        (e.code, e.sig, e.reason),
        (None, 0, TermReason::ShepherdLost)
    );
    wait_gone(job);
}

#[test]
fn suspension_and_usage_are_reported() {
    let mut c = Cluster::new();
    c.order(&[Cluster::start(1, "while :; do :; done")]);
    c.start_exe();
    c.started(1);
    let u = c.wait_for("usage", |r| match r {
        Report::Usage { u, .. } if u.cpu_ms > 50 => Some(u.clone()),
        _ => None,
    });
    assert!(u.procs == 1 && u.mem_kb > 0, "{u:?}");
    c.signal(1, Act::Stop, 1);
    c.wait_for("suspension", |r| {
        matches!(r, Report::Suspended { .. }).then_some(())
    });
    c.signal(1, Act::Resume, 2);
    c.wait_for("resumption", |r| {
        matches!(r, Report::Resumed { .. }).then_some(())
    });
    c.signal(1, Act::Kill, 3);
    assert_eq!(c.end(1).sig, 9);
}

#[test]
fn a_start_that_cannot_be_is_told_with_its_reason() {
    let mut c = Cluster::new();
    let mut bad = Cluster::start(1, "true");
    if let Order::Start(o) = &mut bad {
        o.s = 77;
    }
    let uid = 4_000_000_000;
    let spec = Spec {
        uid,
        user: "ghost".into(),
        cwd: "/".into(),
        ..Spec::default()
    };
    let mut ghost = Cluster::start(2, "true");
    if let Order::Start(o) = &mut ghost {
        o.s = 2;
    }
    c.order(&[
        bad,
        Order::Spec {
            id: 2,
            spec: Box::new(spec),
        },
        ghost,
    ]);
    c.start_exe();
    let e = c.end(1);
    assert_eq!(
        (e.reason, e.code, e.start),
        (TermReason::StartFailed, None, 0)
    );
    assert!(!e.no_account, "{e:?}");
    let e = c.end(2);
    assert!(e.no_account && e.text.contains("4000000000"), "{e:?}");
}

#[test]
fn a_second_executor_of_the_host_is_turned_away() {
    let mut c = Cluster::new();
    c.start_exe();
    c.wait_for("greeting", |r| {
        matches!(r, Report::Hello { .. }).then_some(())
    });
    let second = Command::new(env!("CARGO_BIN_EXE_cbexe"))
        .env("CB_ENVDIR", c.path("etc"))
        .env_remove("CB_HOST")
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(5));
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        text.contains("another cbexe of host h1 is running"),
        "{text}"
    );
}

/// Job 1 may run again, job 2 may not.
fn rerunnable_and_not() -> [Order; 3] {
    let uid = users::effective_uid();
    let spec = Spec {
        uid,
        cwd: "/".into(),
        stdout: "/dev/null".into(),
        rerunnable: true,
        ..Spec::default()
    };
    let mut again = Cluster::start(1, "sleep 600");
    if let Order::Start(o) = &mut again {
        o.s = 2;
    }
    [
        Order::Spec {
            id: 2,
            spec: Box::new(spec),
        },
        again,
        Cluster::start(2, "sleep 600"),
    ]
}

#[test]
fn a_host_that_is_cut_off_kills_what_will_be_run_elsewhere_and_nothing_else() {
    let mut c = Cluster::new();
    c.limit_of_6s();
    c.order(&rerunnable_and_not());
    // No cbls runs here, so the share counts as unreachable from this one write on.
    let began = clock::boot_ms();
    c.beat();
    c.start_exe();
    c.started(1);
    let other = c.started(2);
    assert_eq!(c.end(1).reason, TermReason::Fenced);
    assert!(clock::boot_ms() - began >= 5_900);
    assert!(exists(other));
    assert_eq!(c.kill(2).reason, TermReason::Owner);
}

#[test]
fn added_slots_are_told_once_and_parts_are_answered_for() {
    let mut c = Cluster::new();
    let spec = |cwd: &str, notify: String| Spec {
        uid: users::effective_uid(),
        min: 1,
        max: 4,
        cwd: cwd.into(),
        stdout: "/dev/null".into(),
        notify,
        ..Spec::default()
    };
    let marks = c.path("marks").display().to_string();
    let notify =
        format!("echo $CB_OLD_SLOTS $CB_SLOTS $CB_ADDED_HOSTS `cat $CB_HOSTFILE` >> {marks}");
    let dir = c.path("").to_str().unwrap().to_owned();
    for (id, spec) in [
        (2, spec(&dir, notify)),
        (3, spec("/no/such/directory", String::new())),
    ] {
        let spec = Box::new(spec);
        c.order(&[Order::Spec { id, spec }]);
    }
    let mut start = Cluster::start(1, "read x; cat $CB_HOSTFILE >> /dev/null; sleep 1000");
    if let Order::Start(o) = &mut start {
        o.s = 2;
    }
    let resize = |n: u32| Order::Resize {
        units: TaskUnits::default(),
        a: attempt(1),
        hosts: vec![Share("h1".into(), 1 + n), Share("h2".into(), n)],
        n,
    };
    let part = |id, s| Order::Part {
        a: attempt(id),
        s,
        first: "h2".into(),
        slots: 1,
        mark: 0,
        own: Box::default(),
    };
    c.start_exe();
    c.order(&[start.clone(), resize(1), part(2, 2), part(3, 3)]);
    c.wait_for("part", |r| {
        matches!(r, Report::PartReady { a, .. } if *a == attempt(2)).then_some(())
    });
    let why = c.wait_for("refusal of the part", |r| match r {
        Report::Never { a, why } if *a == attempt(3) => Some(why.clone()),
        _ => None,
    });
    assert!(why.contains("/no/such/directory"), "{why}");
    let wait = |c: &Cluster, lines: usize| {
        until("it is told", || c.marks().lines().count() >= lines);
    };
    wait(&c, 1);
    c.order(&[resize(1), resize(2), resize(2)]);
    wait(&c, 2);
    // All of it is read again by a new executor: what was told is not told again.
    c.restart_exe();
    c.order(&[resize(2)]);
    c.wait_for("part told anew", |r| {
        matches!(r, Report::PartReady { a, .. } if *a == attempt(2)).then_some(())
    });
    clock::sleep_ms(300);
    assert_eq!(
        c.marks(),
        "1 3 h1 1 h2 1 h1 h1 h2\n3 5 h1 1 h2 1 h1 h1 h1 h2 h2\n"
    );
    c.kill(1);
}
