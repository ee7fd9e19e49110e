//! The spawner and its shepherds, driven as `cbexe` drives them: real processes on a temporary
//! local directory. Without privilege the control groups are left out and the reason is printed.

use crate::patience::{PATIENCE, deadline, find, until};
use corral::host::exe::spawn::{SpawnMode, Spawner, SpawnerEvent};
use corral::host::local::Local;
use corral::model::{AttemptId, JobKey, TermReason};
use corral::record::report::Ended;
use corral::sys::ipc::Bell;
use corral::sys::{cgroup, clock, fs, launch, proc, supervise};
use corral::task::log::{TaskRec, decode_tasks};
use corral::task::spec::{
    FromSpawner, Output, ReportFacts, ReportHeader, TaskAct, TaskBase, TaskLimits, TaskSpec,
    ToSpawner, pack_act,
};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

struct Host {
    dir: tempfile::TempDir,
    local: Local,
    bell: Bell,
    spawner: Option<Spawner>,
    cgroups: bool,
    next: u32,
}

fn start(local: &Local, log: u64, cgroups: bool) -> Spawner {
    let how = SpawnMode {
        program: env!("CARGO_BIN_EXE_cbtask").into(),
        host: "h1".into(),
        cgroups,
        privileged: false,
        replacement: None,
    };
    let s = Spawner::start(&how, local, log).unwrap();
    match s.received.recv_timeout(PATIENCE).unwrap() {
        SpawnerEvent::Message(FromSpawner::Ready { cgroups, .. }) => println!("{cgroups}"),
        other => panic!("{other:?}"),
    }
    s
}

impl Host {
    fn new(cgroups: bool) -> Host {
        let dir = tempfile::tempdir().unwrap();
        let local = Local::at(&dir.path().join("l"));
        fs::mkdir_p(local.dir(), 0o700).unwrap();
        let bell = Bell::open(&local.bell()).unwrap();
        let spawner = Some(start(&local, 1, cgroups));
        Host {
            dir,
            local,
            bell,
            spawner,
            cgroups,
            next: 0,
        }
    }

    /// Has the spawner kill what killed ones left, and end.
    fn end_spawner(&mut self) {
        let Some(mut s) = self.spawner.take() else {
            return;
        };
        s.push(&ToSpawner::Sweep { keep: Vec::new() }).unwrap();
        s.retire();
        // No panic: a test that fails ends here, too.
        let end = deadline();
        while Instant::now() < end {
            if s.has_ended() {
                return;
            }
            clock::sleep_ms(20);
        }
        println!("spawner {} goes on", s.pid());
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn base(&mut self, n: u32, change: impl FnOnce(&mut TaskBase)) {
        let mut base = TaskBase {
            env: vec!["PATH=/usr/bin:/bin".into()],
            cwd: self.dir.path().to_str().unwrap().into(),
            umask: 0o022,
            stdout: Output {
                path: "/dev/null".into(),
                ..Output::default()
            },
            ..TaskBase::default()
        };
        change(&mut base);
        let s = self.spawner.as_mut().unwrap();
        s.push(&ToSpawner::Base {
            n,
            base: Box::new(base),
        })
        .unwrap();
    }

    /// Starts a shell script; returns its attempt.
    fn run(&mut self, script: &str, change: impl FnOnce(&mut TaskSpec)) -> AttemptId {
        self.next += 1;
        let a = AttemptId {
            j: JobKey::job(self.next),
            at: 1,
        };
        let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let mut t = TaskSpec {
            a,
            base: 1,
            argv,
            grace_ms: 200,
            ..TaskSpec::default()
        };
        change(&mut t);
        let s = self.spawner.as_mut().unwrap();
        s.push(&ToSpawner::Start(Box::new(t))).unwrap();
        s.flush().unwrap();
        a
    }

    fn records(&self) -> Vec<TaskRec> {
        let names = fs::list_dir(self.local.dir(), 1000).unwrap();
        let logs = names
            .iter()
            .filter_map(|e| Local::parse_tasks_name(e.text()?));
        logs.flat_map(|n| {
            let bytes = fs::read_small(&self.local.tasks(n), 1 << 30).unwrap();
            let got = decode_tasks(&bytes);
            assert!(got.bad.is_empty(), "{:?}", got.bad);
            got.recs.into_iter().map(|task| task.rec)
        })
        .collect()
    }

    fn wait_for<T>(&self, what: &str, get: impl Fn(&TaskRec) -> Option<T>) -> T {
        let end = deadline();
        loop {
            if let Some(found) = self.records().iter().find_map(&get) {
                return found;
            }
            assert!(Instant::now() < end, "no {what}: {:?}", self.records());
            self.bell.wait(Some(50));
        }
    }

    fn end(&self, of: AttemptId) -> Ended {
        self.wait_for("end", |r| match r {
            TaskRec::End(e) if e.a == of => Some((**e).clone()),
            _ => None,
        })
    }

    fn shepherd(&self, of: AttemptId) -> i32 {
        self.wait_for("start", |r| match r {
            TaskRec::Start { a, pid, .. } if *a == of => Some(*pid),
            _ => None,
        })
    }

    fn wait_file(&self, name: &str) -> String {
        find(&format!("no file {name}"), || {
            let bytes = fs::read_optional(Path::new(&self.path(name)), 1 << 20).unwrap();
            let bytes = bytes.filter(|b| !b.is_empty())?;
            Some(String::from_utf8(bytes).unwrap())
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end_spawner();
    }
}

/// Whether a process has ended.
fn is_gone(pid: i32) -> bool {
    proc::info(pid).is_none_or(|p| p.state == 'Z')
}

/// The directories of control groups of spawners at this local directory.
fn groups_of(local: &Local) -> String {
    let name = format!("corral.{}", cgroup::tag("h1", local.dir()));
    let mut find = std::process::Command::new("find");
    find.args(["/sys/fs/cgroup", "-name", &name]);
    String::from_utf8(find.output().unwrap().stdout).unwrap()
}

/// What the spawner of whoever is gone by now made does not stay.
#[test]
fn a_spawner_that_nobody_waits_for_leaves_no_group() {
    let dir = tempfile::tempdir().unwrap();
    let local = Local::at(dir.path());
    fs::ensure_file(&local.tasks(1), 0o600).unwrap();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(ours);
    let mut spawner = std::process::Command::new(env!("CARGO_BIN_EXE_cbtask"));
    let place = ["--host", "h1", "--local", dir.path().to_str().unwrap()];
    spawner.args(["--spawner", "--log", "1"]).args(place);
    let stdin = std::os::fd::OwnedFd::from(theirs);
    let out = spawner.stdin(stdin).output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(stderr.contains("cannot answer cbexe"), "{stderr}");
    assert_eq!(groups_of(&local), "");
}

/// The last task of a spawner that has ended leaves nothing either.
#[test]
fn a_task_that_outlives_its_spawner_leaves_no_group_and_no_directory() {
    let mut h = Host::new(true);
    h.base(1, |_| ());
    let (seen, go) = (h.path("seen"), h.path("go"));
    let script = format!("echo $TMPDIR >{seen}; while [ ! -e {go} ]; do sleep 0.05; done");
    let a = h.run(&script, |_| ());
    let tmp = h.wait_file("seen").trim().to_owned();
    let s = h.spawner.as_mut().unwrap();
    s.retire();
    until("the spawner waits for no task", || {
        h.spawner.as_mut().unwrap().has_ended()
    });
    h.spawner = None;
    let shepherd = h.shepherd(a);
    assert!(proc::info(shepherd).is_some(), "the task runs");
    std::fs::write(&go, "").unwrap();
    assert_eq!(h.end(a).code, Some(0));
    until("the shepherd ends", || is_gone(shepherd));
    assert_eq!(groups_of(&h.local), "");
    assert!(
        tmp.contains("/corral.") && !Path::new(&tmp).exists(),
        "{tmp}"
    );
}

/// Each case runs with control groups, where the machine lets us, and without.
fn both(case: impl Fn(Host)) {
    case(Host::new(false));
    if corral::sys::users::may_switch() {
        case(Host::new(true));
    } else {
        println!("control groups skipped: not root");
    }
}

#[test]
fn codes_and_signals_are_recorded_as_they_were() {
    both(|mut h| {
        h.base(1, |_| ());
        let (ok, seven) = (h.run("exit 0", |_| ()), h.run("exit 7", |_| ()));
        let segv = h.run("kill -SEGV $$", |t| t.limits.core_b = Some(0));
        assert_eq!((h.end(ok).code, h.end(seven).code), (Some(0), Some(7)));
        let e = h.end(segv);
        assert_eq!((e.code, e.sig, e.reason), (None, 11, TermReason::None));
    });
}

#[test]
fn a_start_that_fails_says_why() {
    both(|mut h| {
        h.base(1, |_| ());
        let missing = h.run("", |t| t.argv = vec!["/no/such".into()]);
        let e = h.end(missing);
        assert_eq!((e.code, e.reason), (Some(127), TermReason::StartFailed));
        assert!(e.text.contains("/no/such"), "{}", e.text);
        h.base(2, |b| b.cwd = "/no/dir".into());
        let e = h.run("", |t| t.base = 2);
        assert!(h.end(e).text.contains("/no/dir"));
        let e = h.run("", |t| t.base = 99);
        assert_eq!(h.end(e).reason, TermReason::StartFailed);
    });
}

#[test]
fn what_a_job_leaves_behind_is_killed() {
    both(|mut h| {
        h.base(1, |_| ());
        let pid = h.path("pid");
        let script = format!(
            "(setsid sh -c 'echo $$ > {pid}; exec sleep 600' &); while [ ! -s {pid} ]; do sleep 0.05; done"
        );
        let a = h.run(&script, |_| ());
        assert_eq!(h.end(a).code, Some(0));
        let left: i32 = h.wait_file("pid").trim().parse().unwrap();
        assert!(is_gone(left), "{left} lives");
    });
}

#[test]
fn the_run_limit_ends_a_job_that_ignores_signals() {
    both(|mut h| {
        h.base(1, |_| ());
        let script = "trap '' INT TERM; while :; do sleep 0.05; done";
        let began = clock::boot_ms();
        let a = h.run(script, |t| t.limits.run_ms = Some(4000));
        let e = h.end(a);
        assert_eq!((e.sig, e.reason), (9, TermReason::RunLimit));
        let took = clock::boot_ms() - began;
        assert!(took >= 4400, "{took}");
    });
}

#[test]
fn an_order_to_end_is_obeyed_with_its_reason() {
    both(|mut h| {
        h.base(1, |_| ());
        let mark = h.path("mark");
        let a = h.run(&format!("echo on >{mark}; exec sleep 600"), |_| ());
        let shepherd = h.shepherd(a);
        h.wait_file("mark");
        supervise::send_order(
            shepherd,
            pack_act(TaskAct::Terminate, TermReason::Owner, 500),
        )
        .unwrap();
        let e = h.end(a);
        assert_eq!((e.sig, e.reason), (2, TermReason::Owner));
    });
}

#[test]
fn a_suspended_job_stands_still_and_goes_on() {
    both(|mut h| {
        h.base(1, |_| ());
        let mark = h.path("mark");
        let a = h.run(
            &format!("while :; do echo x >> {mark}; sleep 0.02; done"),
            |_| (),
        );
        h.wait_file("mark");
        let shepherd = h.shepherd(a);
        let order = |act| {
            supervise::send_order(shepherd, pack_act(act, TermReason::Owner, 100)).unwrap();
        };
        order(TaskAct::Stop);
        h.wait_for("suspension", |r| {
            matches!(r, TaskRec::Susp { on: true, .. }).then_some(())
        });
        clock::sleep_ms(100);
        let before = h.wait_file("mark").len();
        clock::sleep_ms(200);
        assert_eq!(h.wait_file("mark").len(), before);
        order(TaskAct::Resume);
        until("it goes on", || h.wait_file("mark").len() > before);
        order(TaskAct::Stop);
        clock::sleep_ms(50);
        order(TaskAct::Kill);
        assert_eq!(h.end(a).sig, 9);
    });
}

#[test]
fn a_killed_shepherd_is_told_and_its_leftovers_go() {
    both(|mut h| {
        let mark = format!("CB_TEST={}", h.path(""));
        h.base(1, |b| b.env.push(mark.clone()));
        let pid = h.path("pid");
        let a = h.run(&format!("echo $$ > {pid}; exec sleep 600"), |_| ());
        let shepherd = h.shepherd(a);
        let job_pid: i32 = h.wait_file("pid").trim().parse().unwrap();
        proc::kill(shepherd, 9).unwrap();
        let heard = h.spawner.as_ref().unwrap().received.recv_timeout(PATIENCE);
        assert!(
            matches!(heard, Ok(SpawnerEvent::Message(FromSpawner::Died { a: x, .. })) if x == a)
        );
        let s = h.spawner.as_mut().unwrap();
        s.push(&ToSpawner::Reap {
            a,
            group: String::new(),
            env: vec![mark.clone()],
        })
        .unwrap();
        s.flush().unwrap();
        until("what the task left ends", || is_gone(job_pid));
    });
}

#[test]
fn tasks_outlive_the_spawner_and_a_second_one_serves_on() {
    both(|mut h| {
        h.base(1, |_| ());
        let go = h.path("go");
        let script = format!("while [ ! -e {go} ]; do sleep 0.05; done; exit 3");
        let a = h.run(&script, |_| ());
        let shepherd = h.shepherd(a);
        h.spawner.take().unwrap().give_up();
        assert!(proc::info(shepherd).is_some());
        h.spawner = Some(start(&h.local, 2, h.cgroups));
        h.base(1, |_| ());
        let b = h.run("exit 4", |_| ());
        std::fs::write(&go, "").unwrap();
        assert_eq!((h.end(a).code, h.end(b).code), (Some(3), Some(4)));
    });
}

#[test]
fn the_memory_limit_is_named_when_it_kills() {
    let mut h = Host::new(true);
    let probe = corral::sys::cgroup::Hierarchy::detect("probe");
    probe.remove_parents();
    if !probe.is_usable() {
        println!("skipped: no control groups");
        return;
    }
    h.base(1, |_| ());
    // `exec` twice, so that the top process itself is the one that grows.
    let eat = "exec dd if=/dev/zero of=/dev/null bs=200M count=1";
    let limits = TaskLimits {
        mem_b: Some(20 << 20),
        ..TaskLimits::default()
    };
    let a = h.run(eat, |t| t.limits = limits);
    let e = h.end(a);
    assert_eq!(
        (e.sig, e.oom, e.reason),
        (9, true, TermReason::MemLimit),
        "{e:?}"
    );
}

fn wants_report(b: &mut TaskBase, path: &str) {
    b.stdout = Output {
        path: path.into(),
        ..Output::default()
    };
    b.report = Some(ReportFacts {
        user: "ann".into(),
        ..ReportFacts::default()
    });
}

#[test]
fn the_report_heads_the_output_of_one_job_and_of_each_element() {
    both(|mut h| {
        h.base(1, |b| wants_report(b, "one.%J"));
        h.base(2, |b| wants_report(b, "all"));
        let header = ReportHeader {
            name: "n".into(),
            command: "c".into(),
            ..ReportHeader::default()
        };
        let a = h.run("echo hello", |t| t.header = Some(header.clone()));
        assert_eq!(h.end(a).code, Some(0));
        let text = h.wait_file(&format!("one.{}", a.j.id));
        assert!(
            text.starts_with("-----") && text.ends_with("follows:\n\nhello\n"),
            "{text}"
        );
        assert!(text.contains("Successfully completed."), "{text}");
        let all: Vec<AttemptId> = (0..6)
            .map(|i| {
                h.run(
                    &format!("for i in 1 2 3; do echo {i}; sleep 0.05; done"),
                    |t| {
                        (t.base, t.array, t.header) = (2, true, Some(header.clone()));
                    },
                )
            })
            .collect();
        all.iter()
            .for_each(|a| assert_eq!((h.end(*a).code, h.end(*a).text), (Some(0), "".into())));
        let text = h.wait_file("all");
        for i in 0..6 {
            let block = format!("follows:\n\n{i}\n{i}\n{i}\n");
            assert!(text.contains(&block), "{text}");
        }
        let hidden = std::fs::read_dir(h.dir.path()).unwrap();
        assert!(
            !hidden
                .flatten()
                .any(|e| e.file_name().to_string_lossy().starts_with(".all"))
        );
    });
}

#[test]
fn default_output_is_kept_only_when_there_is_some() {
    both(|mut h| {
        h.base(1, |b| {
            b.stdout = Output {
                ours: true,
                ..Output::default()
            }
        });
        let (silent, loud) = (h.path("j/1/0.out"), h.path("j/2/0.out"));
        let a = h.run("true", |t| t.out.path = silent.clone());
        let b = h.run("echo x; echo y >&2", |t| t.out.path = loud.clone());
        assert_eq!((h.end(a).code, h.end(b).code), (Some(0), Some(0)));
        assert!(!fs::exists(Path::new(&silent)));
        assert_eq!(fs::read_small(Path::new(&loud), 99).unwrap(), b"x\ny\n");
    });
}

/// Starts per second of a bare vfork + exec of `program`, two in flight, whichever ends first.
fn bare(program: &str, n: u32) -> f64 {
    let program = std::ffi::CString::new(program).unwrap();
    let null = corral::sys::userfile::open_null().unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&null);
    let list = [program];
    let l = launch::Launch {
        programs: &list,
        argv: &list,
        env: &[],
        pid_name: None,
        stdio: [fd; 3],
        dir: None,
        user: None,
        rlimits: &[],
        nice: 0,
        join: &[],
        cpus: None,
        terminal: false,
    };
    let begin = clock::boot_ns();
    for i in 0..n {
        launch::launch(&l).unwrap();
        if i > 0 {
            nix::sys::wait::wait().unwrap();
        }
    }
    nix::sys::wait::wait().unwrap();
    f64::from(n) * 1e9 / (clock::boot_ns() - begin) as f64
}

/// Not a test of behaviour: prints how much of a bare loop's rate the spawner reaches. Run in the
/// release profile: `cargo test --release --test it spawner::throughput -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn throughput() {
    const N: u32 = 3000;
    let limit = bare("/bin/true", N);
    for cgroups in [false, true] {
        let mut h = Host::new(cgroups);
        h.base(1, |_| ());
        let begin = clock::boot_ns();
        let mut offset = 0;
        let (mut given, mut ended) = (0u32, HashMap::new());
        while ended.len() < N as usize {
            // 64 slots, as a host of the benchmark has.
            while given < N && given - (ended.len() as u32) < 64 {
                given += 1;
                let a = AttemptId {
                    j: JobKey::element(1, given),
                    at: 1,
                };
                let argv = vec!["/bin/true".to_owned()];
                let t = TaskSpec {
                    a,
                    base: 1,
                    argv,
                    ..TaskSpec::default()
                };
                h.spawner
                    .as_mut()
                    .unwrap()
                    .push(&ToSpawner::Start(Box::new(t)))
                    .unwrap();
            }
            h.spawner.as_mut().unwrap().flush().unwrap();
            h.bell.wait(Some(1000));
            let c = fs::read_from(&h.local.tasks(1), offset, 1 << 24).unwrap();
            let got = decode_tasks(&c.bytes);
            offset += got.end as u64;
            for r in got.recs {
                if let TaskRec::End(e) = r.rec {
                    assert_eq!(e.code, Some(0), "{e:?}");
                    ended.insert(e.a, ());
                }
            }
        }
        let rate = f64::from(N) * 1e9 / (clock::boot_ns() - begin) as f64;
        println!(
            "cgroups {cgroups}: {rate:.0}/s of {limit:.0}/s = {:.2}",
            rate / limit
        );
    }
}
