//! What a host remembers, over restarts and upgrades of its executor, loss of its local state,
//! reboots and used-again process ids: nothing starts twice, no unknown end is a success.

use crate::cluster::exists;
use crate::executor_bed::{Cluster, attempt, wait_gone};
use crate::patience::until;
use corral::model::{Limits, TermReason};
use corral::record::order::{Act, Order};
use corral::record::report::Report;
use corral::sys::{clock, fs, proc};
use corral::task::log::{AttemptRec, TaskRec};
use std::path::PathBuf;
use std::process::Command;

impl Cluster {
    /// The ledger that the running executor names.
    fn ledger(&self) -> String {
        self.wait_for("ledger", |r| match r {
            Report::Ledger { id, .. } => Some(id.clone()),
            _ => None,
        })
    }

    /// A copy of the host's programs, as an upgrade would bring it.
    fn copy_programs(&self, name: &str) -> PathBuf {
        let dir = self.path(name);
        fs::mkdir_p(&dir, 0o755).unwrap();
        for program in [env!("CARGO_BIN_EXE_cbexe"), env!("CARGO_BIN_EXE_cbtask")] {
            let from = PathBuf::from(program);
            let to = dir.join(from.file_name().unwrap());
            // A link where that is possible: the programs are large, and a name is enough.
            if std::fs::hard_link(&from, &to).is_err() {
                crate::cluster::copy_program(&from, &to);
            }
        }
        dir.join("cbexe")
    }
}

#[test]
fn twenty_tasks_outlive_upgrades_of_the_executor_and_none_starts_again() {
    let mut c = Cluster::new();
    let command = |c: &Cluster, id: u32| {
        let go = c.path("go");
        let wait = format!("while [ ! -e {} ]; do sleep 0.1; done", go.display());
        format!("{}; {wait}; exit {id}", c.mark(id))
    };
    let starts: Vec<Order> = (1..=20)
        .map(|id| Cluster::start(id, &command(&c, id)))
        .collect();
    c.order(&starts);
    let old = c.copy_programs("v1");
    c.start_by(Command::new(old));
    let pids: Vec<i32> = (1..=20).map(|id| c.started(id)).collect();
    for version in ["v2", "v3"] {
        c.kill_exe();
        let next = c.copy_programs(version);
        c.start_by(Command::new(next));
        c.order(&starts);
        let again: Vec<i32> = (1..=20).map(|id| c.started(id)).collect();
        assert_eq!(again, pids, "the shepherds of the first version serve on");
    }
    fs::publish(&c.path("go"), b"").unwrap();
    for id in 1..=20 {
        let e = c.end(id);
        assert_eq!((e.code, e.reason), (Some(id as i32), TermReason::None));
    }
    let mut ran: Vec<u32> = c.marks().lines().map(|l| l.parse().unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, (1..=20).collect::<Vec<u32>>());
}

#[test]
fn the_run_limit_holds_over_ten_restarts_of_the_executor() {
    let mut c = Cluster::new();
    let run_s = Some(6);
    c.start_with(1, "exec sleep 600", |o| {
        o.limits = Limits {
            run_s,
            ..Limits::default()
        };
    });
    c.start_exe();
    c.started(1);
    let began = clock::boot_ms();
    for _ in 0..10 {
        clock::sleep_ms(300);
        c.restart_exe();
    }
    let restarts_ms = (clock::boot_ms() - began) as i64;
    let e = c.end(1);
    assert_eq!((e.reason, e.sig), (TermReason::RunLimit, 2));
    let ran = e.t - e.start;
    // Times are of the wall clock in whole ms, the limit is not. No restart gives it more time.
    let most = 6_000 + restarts_ms / 2;
    assert!((5_998..most).contains(&ran), "{ran} ms");
}

#[test]
fn a_warned_task_gets_its_signal_and_finds_the_file() {
    let mut c = Cluster::new();
    let copy = c.path("warning").display().to_string();
    let marks = c.mark(1);
    let command = format!(
        "trap 'cat \"$CB_WARNING_FILE\" > {copy}.new && mv {copy}.new {copy}; exit 3' USR1; {marks}; \
         while :; do sleep 0.05; done"
    );
    c.order(&[Cluster::start(1, &command)]);
    c.start_exe();
    c.started(1);
    until("it is ready", || !c.marks().is_empty());
    let due = clock::wall_ms() + 60_000;
    let (a, signal, n, mark) = (attempt(1), 10, 1, 0);
    c.order(&[Order::Warn {
        a,
        due,
        signal,
        n,
        mark,
    }]);
    assert_eq!(c.end(1).code, Some(3));
    let text = c.wait_file("warning");
    assert!(
        text.starts_with(&format!("reason=preempt\nat={}\nseconds=", due / 1000)),
        "{text}"
    );
}

#[test]
fn changed_limits_reach_running_tasks_and_the_next_task_does_not_inherit_them() {
    let limits = |run_s, mem_b| Limits {
        run_s,
        mem_b,
        ..Limits::default()
    };
    let change = |id, n, limits| Order::Limits {
        a: attempt(id),
        limits,
        n,
        mark: 0,
    };
    let mut c = Cluster::new();
    c.start_with(1, "exec sleep 600", |o| o.limits = limits(Some(600), None));
    c.start_with(2, "exec sleep 2", |o| o.limits = limits(Some(1), None));
    // 64 MB that it holds, then no more.
    let fat = "x=$(head -c 67108864 /dev/zero | tr '\\0' a); echo $x | wc -c; sleep 600";
    c.start_with(3, fat, |o| o.limits = limits(None, Some(1 << 30)));
    c.order(&[change(2, 1, limits(Some(500), None))]);
    c.start_exe();
    for id in 1..=3 {
        c.started(id);
    }
    c.order(&[
        change(1, 2, limits(Some(2), None)),
        change(1, 1, limits(Some(300), None)),
        change(3, 1, limits(None, Some(20 << 20))),
    ]);
    let e = c.end(1);
    assert_eq!((e.reason, e.sig), (TermReason::RunLimit, 2));
    assert_eq!(
        c.end(2).code,
        Some(0),
        "its limit was raised before it started"
    );
    assert_eq!(c.end(3).reason, TermReason::MemLimit);
    // A control group that was used for them has no such limit for the next task.
    for id in 4..=12 {
        let fits = "x=$(head -c 33554432 /dev/zero | tr '\\0' a); echo $x | wc -c";
        c.start_with(id, fits, |o| o.limits = limits(None, None));
    }
    for id in 4..=12 {
        let e = c.end(id);
        assert_eq!((e.code, e.oom), (Some(0), false), "task {id}");
    }
}

#[test]
fn a_cpu_limit_that_is_lowered_ends_what_runs() {
    let mut c = Cluster::new();
    let cpu = |cpu_s| Limits {
        cpu_s,
        ..Limits::default()
    };
    // The second one has no limit of its own at the start.
    for (id, limit) in [(1, Some(600)), (2, None)] {
        c.start_with(id, "while :; do :; done", |o| o.limits = cpu(limit));
    }
    c.start_exe();
    for id in 1..=2 {
        c.started(id);
        let (a, limits, n, mark) = (attempt(id), cpu(Some(1)), 1, 0);
        c.order(&[Order::Limits { a, limits, n, mark }]);
    }
    for id in 1..=2 {
        assert_eq!(c.end(id).reason, TermReason::CpuLimit);
    }
}

#[test]
fn a_suspended_task_is_still_suspended_under_the_next_executor() {
    let mut c = Cluster::new();
    let beat = c.path("marks").display().to_string();
    let command = format!("while :; do echo x >> {beat}; sleep 0.02; done");
    c.order(&[Cluster::start(1, &command)]);
    c.start_exe();
    c.started(1);
    c.signal(1, Act::Stop, 1);
    let suspended = |c: &Cluster| {
        c.wait_for("suspension", |r| {
            matches!(r, Report::Suspended { .. }).then_some(())
        });
    };
    suspended(&c);
    clock::sleep_ms(100);
    let before = c.marks().len();
    c.restart_exe();
    suspended(&c);
    clock::sleep_ms(200);
    assert_eq!(c.marks().len(), before, "it runs");
    c.signal(1, Act::Resume, 2);
    c.wait_for("resumption", |r| {
        matches!(r, Report::Resumed { .. }).then_some(())
    });
    until("it runs", || c.marks().len() > before);
    c.signal(1, Act::Kill, 3);
    assert_eq!(c.end(1).sig, 9);
}

fn forgets(options: &[&str]) {
    let mut c = Cluster::new();
    let exe = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cbexe"));
        command.args(options);
        command
    };
    let (pid, mark) = (c.path("pid").display().to_string(), c.mark(1));
    c.order(&[Cluster::start(
        1,
        &format!("{mark}; echo $$ > {pid}; exec sleep 600"),
    )]);
    c.start_by(exe());
    let pid: i32 = c.wait_file("pid").trim().parse().unwrap();
    let known = c.ledger();
    c.kill_exe();
    fs::remove_tree(&c.path("local")).unwrap();
    let (last, _) = c.reports();
    c.order(&[Order::Cancel { a: attempt(1) }]);
    c.start_by(exe());
    until("another file of reports", || c.reports().0 != last);
    let new = c.ledger();
    assert_ne!(known, new);
    // Nobody knows what became of it: it is neither started again nor called never started.
    wait_gone(pid);
    c.order(&[Order::Ledger { id: new }, Cluster::start(2, &c.mark(2))]);
    assert_eq!(c.end(2).code, Some(0));
    assert_eq!(c.marks(), "1\n2\n");
    let (_, reports) = c.reports();
    let of = |r: &Report| matches!(r, Report::Never { a, .. } | Report::Started { a, .. } if *a == attempt(1));
    assert!(!reports.iter().any(|(_, r)| of(r)), "{reports:?}");
}

#[test]
fn a_host_without_memory_follows_no_order_of_the_past_and_clears_away() {
    forgets(&[]);
    forgets(&["--no-cgroups"]);
}

#[test]
fn two_hosts_of_one_name_start_nothing_twice() {
    let mut c = Cluster::new();
    c.spec(2, |s| s.rerunnable = true);
    c.start_of(1, 2, &format!("{}; exec sleep 600", c.mark(1)));
    c.start_of(2, 1, &format!("{}; exec sleep 600", c.mark(2)));
    c.start_exe();
    let (again, once) = (c.started(1), c.started(2));
    // What is started has not run a command yet.
    until("both run", || c.marks().lines().count() >= 2);
    // The leader hears another machine under this name and follows that one.
    c.order(&[
        Order::Ledger {
            id: "another".into(),
        },
        Cluster::start(3, &c.mark(3)),
    ]);
    wait_gone(again);
    assert!(exists(once), "what is not started elsewhere goes on");
    assert_eq!(c.end(1).reason, TermReason::Fenced);
    c.restart_exe();
    clock::sleep_ms(500);
    let mut marks: Vec<String> = c.marks().lines().map(str::to_owned).collect();
    marks.sort();
    assert_eq!(marks, ["1", "2"]);
    c.kill(2);
}

fn given(id: u32, log: u64, boot: &str) -> AttemptRec {
    AttemptRec::Given {
        a: attempt(id),
        e: 1,
        p: 1,
        l: log,
        r: false,
        b: boot.to_owned(),
        m: 0,
        f: 0,
        c: None,
        u: Vec::new(),
    }
}

fn start(id: u32, pid: i32, born: u64, boot: &str) -> TaskRec {
    TaskRec::Start {
        a: attempt(id),
        pid,
        born,
        boot: boot.to_owned(),
        group: String::new(),
        t: 5,
        cpus: Default::default(),
    }
}

#[test]
fn a_process_id_that_is_used_again_is_not_taken_for_the_shepherd() {
    let mut c = Cluster::new();
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = other.id() as i32;
    let born = clock::boot_ms() - 60_000;
    c.remember_also(&[given(1, 1, proc::boot_id())]);
    c.write_tasks(1, &[start(1, pid, born, proc::boot_id())]);
    c.order(&[Cluster::start(1, &c.mark(1))]);
    c.start_exe();
    let e = c.end(1);
    assert_eq!((e.reason, e.code), (TermReason::ShepherdLost, None));
    c.signal(1, Act::Kill, 1);
    c.order(&[Cluster::start(2, "true")]);
    c.end(2);
    assert!(exists(pid), "the other process is left alone");
    assert_eq!(c.marks(), "");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn after_a_reboot_what_ran_is_lost_by_the_host_and_starts_are_not_repeated() {
    let mut c = Cluster::new();
    let me = std::process::id() as i32;
    let born = clock::boot_ms();
    // Running; handed out without a start on record; handed out before the boot was noted.
    c.remember_also(&[given(1, 1, "old"), given(2, 1, "old"), given(3, 1, "")]);
    c.write_tasks(1, &[start(1, me, born, "old")]);
    let orders: Vec<Order> = (1..=3).map(|id| Cluster::start(id, &c.mark(id))).collect();
    c.order(&orders);
    c.start_exe();
    for id in 1..=3 {
        let e = c.end(id);
        assert_eq!((e.reason, e.code, e.sig), (TermReason::HostLost, None, 0));
        assert!(e.text.contains("host was restarted"), "{}", e.text);
    }
    assert_eq!(c.marks(), "");
}

#[test]
fn a_damaged_or_missing_log_of_starts_makes_unknown_ends() {
    let mut c = Cluster::new();
    let boot = proc::boot_id();
    // The first was not started, says a whole log; of the others the logs cannot tell.
    c.remember_also(&[given(1, 1, boot), given(2, 2, boot), given(3, 3, boot)]);
    c.write_tasks(1, &[]);
    let mut other = start(9, 1, 1, boot);
    if let TaskRec::Start { a, .. } = &mut other {
        a.at = 7;
    }
    c.write_tasks(2, &[other]);
    let path = c.path("local/tasks.000002.log");
    let mut bytes = fs::read_small(&path, 9999).unwrap();
    bytes[20] ^= 1;
    fs::publish(&path, &bytes).unwrap();
    let orders: Vec<Order> = (1..=3).map(|id| Cluster::start(id, &c.mark(id))).collect();
    c.order(&orders);
    c.start_exe();
    c.never(1);
    for id in [2, 3] {
        let e = c.end(id);
        assert_eq!((e.reason, e.code), (TermReason::HostLost, None));
    }
    assert_eq!(c.marks(), "");
}

#[test]
fn orders_that_cannot_be_meant_are_refused() {
    let mut c = Cluster::new();
    c.start_with(1, &c.mark(1), |o| o.hosts[0].0 = "h2".into());
    c.start_with(2, &c.mark(2), |o| o.hosts.clear());
    c.start_with(3, &c.mark(3), |o| o.a.at = 0);
    c.start_with(0, &c.mark(4), |_| ());
    c.signal(77, Act::Kill, 1);
    c.order(&[Cluster::start(5, &c.mark(5))]);
    c.start_exe();
    assert_eq!(c.end(5).code, Some(0));
    assert_eq!(c.marks(), "5\n");
}

#[test]
fn ends_while_the_share_is_away_are_told_when_it_is_back() {
    let mut c = Cluster::new();
    let go = c.path("go").display().to_string();
    let wait = format!("while [ ! -e {go} ]; do sleep 0.05; done; exit 4");
    c.order(&[Cluster::start(1, &wait)]);
    c.start_exe();
    let shepherd = c.started(1);
    let (share, away) = (c.path("share"), c.path("away"));
    c.kill_exe();
    fs::rename(&share, &away).unwrap();
    fs::publish(&c.path("go"), b"").unwrap();
    wait_gone(shepherd);
    // Without its share it does not start, and says so; nothing is lost by that.
    let out = Command::new(env!("CARGO_BIN_EXE_cbexe"))
        .env("CB_ENVDIR", c.path("etc"))
        .env_remove("CB_HOST")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(!fs::exists(&share), "nothing is made where the share was");
    fs::rename(&away, &share).unwrap();
    c.start_exe();
    assert_eq!(c.end(1).code, Some(4));
}
