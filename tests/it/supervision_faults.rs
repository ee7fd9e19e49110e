//! Tasks that cannot start, will not end or cannot be told of: real processes, real faults.
//! What needs root, a controller or a device prints why it is skipped where that is missing.

use crate::cluster::exists;
use crate::executor_bed::{Cluster, attempt, wait_gone};
use crate::patience::{find, until};
use corral::model::{Limits, OomKill, TermReason};
use corral::record::order::{Act, Order};
use corral::record::report::Report;
use corral::sys::{clock, fs, proc, users};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn skipped(why: &str) {
    println!("skipped: {why}");
}

/// Runs a program that must succeed; false when it does not.
fn ran(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).status();
    status.is_ok_and(|s| s.success())
}

fn no_groups() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cbexe"));
    command.arg("--no-cgroups");
    command
}

/// The child of `parent` that goes by this name.
fn child_named(parent: i32, name: &str) -> Option<i32> {
    let comm = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    proc::children(parent)
        .into_iter()
        .find(|pid| comm(*pid).trim() == name)
}

/// Undoes a mount when the test ends, however it ends.
struct Mount(String);

impl Drop for Mount {
    fn drop(&mut self) {
        ran("umount", &["-l", &self.0]);
    }
}

#[test]
fn a_host_without_room_for_a_process_says_so_and_another_may_try() {
    let group = Path::new("/sys/fs/cgroup/pids/corral-test-no-room");
    if !users::may_switch() || !group.parent().is_some_and(Path::exists) {
        return skipped("needs root and the pids controller of version 1");
    }
    let _ = fs::mkdir_p(group, 0o755);
    let mut c = Cluster::new();
    c.order(&[Cluster::start(1, "sleep 600")]);
    c.start_by(no_groups());
    let shepherd = c.started(1);
    let exe = c.exe.as_ref().map_or(0, Child::id) as i32;
    let spawner = child_named(exe, "cbspawner").unwrap();
    std::fs::write(group.join("pids.max"), "1").unwrap();
    std::fs::write(group.join("cgroup.procs"), spawner.to_string()).unwrap();
    c.order(&[Cluster::start(2, "true")]);
    let e = c.end(2);
    assert_eq!((e.reason, e.code), (TermReason::StartFailed, None));
    assert!(e.elsewhere, "{e:?}");
    assert!(
        e.text.contains("Resource temporarily unavailable"),
        "{}",
        e.text
    );
    // What runs is not touched, and with room again the host works on.
    assert!(exists(shepherd));
    std::fs::write(group.join("pids.max"), "max").unwrap();
    c.order(&[Cluster::start(3, "exit 3")]);
    assert_eq!(c.end(3).code, Some(3));
    c.kill(1);
    c.kill_exe();
    wait_gone(spawner);
    let _ = fs::remove_dir(group);
}

#[test]
fn a_users_own_limit_of_processes_is_a_start_error_of_the_job() {
    if !users::may_switch() || !Path::new("/usr/bin/prlimit").exists() {
        return skipped("needs root and prlimit");
    }
    /// An account that other tests leave alone; were it not, the third would fail all the same.
    const NEWS: u32 = 9;
    let mut c = Cluster::new();
    fs::chmod(c.dir.path(), 0o755).unwrap();
    c.spec(2, |s| (s.uid, s.cwd) = (NEWS, "/".into()));
    // The kernel counts before it changes the user, so one more than the limit can run.
    c.start_of(1, 2, "exec sleep 600");
    c.start_of(3, 2, "exec sleep 600");
    let mut command = Command::new("/usr/bin/prlimit");
    command.args(["--nproc=1:1", env!("CARGO_BIN_EXE_cbexe"), "--no-cgroups"]);
    c.start_by(command);
    for id in [1, 3] {
        let shepherd = c.wait_for("start or end", |r| match r {
            Report::Started { a, pid, .. } if *a == attempt(id) => Some(*pid as i32),
            Report::Ended(e) if e.a == attempt(id) => Some(0),
            _ => None,
        });
        // What is started has not run a command yet, and may fail to.
        until("it runs or has ended", || {
            !exists(shepherd) || child_named(shepherd, "sleep").is_some()
        });
    }
    c.start_of(2, 2, "exec sleep 1");
    let e = c.end(2);
    assert_eq!((e.reason, e.code), (TermReason::StartFailed, None));
    assert!(
        !e.elsewhere && e.text.contains("temporarily unavailable"),
        "{e:?}"
    );
    for id in [1, 3] {
        c.kill(id);
    }
}

#[test]
fn programs_that_cannot_be_run_are_the_users_fault() {
    let mut c = Cluster::new();
    let data = c.path("data");
    fs::publish(&data, b"no program").unwrap();
    let script = c.path("script");
    fs::publish(&script, b"exit 5\n").unwrap();
    fs::chmod(&script, 0o755).unwrap();
    let bare = |p: &Path| p.to_str().unwrap().to_owned();
    c.order(&[
        Cluster::start(1, &bare(&c.path("missing"))),
        Cluster::start(2, &bare(&data)),
        Cluster::start(3, &bare(&script)),
        Cluster::start(4, "/etc"),
    ]);
    c.start_exe();
    for (id, code) in [(1, 127), (2, 126), (4, 126)] {
        let e = c.end(id);
        assert_eq!((e.reason, e.code), (TermReason::StartFailed, Some(code)));
        assert!(!e.elsewhere, "{e:?}");
    }
    assert_eq!(
        c.end(3).code,
        Some(5),
        "no interpreter line: the shell runs it"
    );
}

#[test]
fn output_files_that_cannot_be_written_are_start_errors_and_nothing_blocks() {
    let mut c = Cluster::new();
    let (pipe, heard) = (c.path("pipe"), c.path("heard"));
    let reader_of = c.path("pipe2");
    for p in [&pipe, &reader_of] {
        assert!(ran("mkfifo", &[p.to_str().unwrap()]));
    }
    let outputs = [
        "/".to_owned(),
        pipe.to_str().unwrap().to_owned(),
        reader_of.to_str().unwrap().to_owned(),
        "/dev/full".to_owned(),
        "no/such/dir/out".to_owned(),
    ];
    for (n, path) in outputs.iter().enumerate() {
        c.spec(10 + n as u32, |s| s.stdout.clone_from(path));
    }
    let cat = format!("exec cat {} > {}", outputs[2], heard.display());
    let mut reader = Command::new("sh").args(["-c", &cat]).spawn().unwrap();
    // A writer that does not wait gets in once there is a reader; closed, it would end that.
    let heard_by = find("the reader", || {
        let mut open = std::fs::OpenOptions::new();
        let open = open.write(true).custom_flags(libc::O_NONBLOCK);
        open.open(&reader_of).ok()
    });
    for n in 0..outputs.len() as u32 {
        c.start_of(1 + n, 10 + n, "/bin/echo word");
    }
    c.start_exe();
    for id in [1, 2, 5] {
        let e = c.end(id);
        assert_eq!((e.reason, e.code), (TermReason::StartFailed, None), "{e:?}");
        assert!(
            e.text.contains(outputs[id as usize - 1].as_str()),
            "{}",
            e.text
        );
    }
    assert_eq!(c.end(3).code, Some(0));
    assert_eq!(c.end(4).code, Some(1), "echo sees the full device");
    drop(heard_by);
    reader.wait().unwrap();
    assert_eq!(fs::read_small(&heard, 99).unwrap(), b"word\n");
}

#[test]
fn an_output_path_through_a_link_gets_nowhere_that_the_user_may_not_write() {
    if !users::may_switch() {
        return skipped("needs root");
    }
    const NOBODY: u32 = 65_534;
    let mut c = Cluster::new();
    fs::chmod(c.dir.path(), 0o755).unwrap();
    let (secret, home) = (c.path("secret"), c.path("home"));
    fs::publish(&secret, b"kept").unwrap();
    fs::chmod(&secret, 0o600).unwrap();
    fs::mkdir(&home, 0o755).unwrap();
    fs::chown(&home, NOBODY, NOBODY).unwrap();
    std::os::unix::fs::symlink(&secret, home.join("link")).unwrap();
    std::os::unix::fs::symlink(c.path(""), home.join("up")).unwrap();
    let closed = c.path("closed");
    fs::mkdir(&closed, 0o700).unwrap();
    let cwd = home.to_str().unwrap().to_owned();
    let mut job = |id: u32, out: &str, err: &str, cwd: &str| {
        c.spec(10 + id, |s| {
            s.uid = NOBODY;
            (s.stdout, s.stderr, s.cwd) = (out.into(), err.into(), cwd.into());
            s.stdout_over = true;
        });
        c.start_of(id, 10 + id, "echo gone");
    };
    job(1, "link", "", &cwd);
    job(2, "up/new", "", &cwd);
    job(3, "/dev/null", "link", &cwd);
    job(4, "/dev/null", "", closed.to_str().unwrap());
    c.start_exe();
    for id in 1..=4 {
        let e = c.end(id);
        assert_eq!((e.reason, e.code), (TermReason::StartFailed, None), "{e:?}");
        assert!(e.text.contains("Permission denied"), "{}", e.text);
    }
    assert_eq!(fs::read_small(&secret, 99).unwrap(), b"kept");
    assert!(!fs::exists(&c.path("new")));
}

#[test]
fn a_child_out_of_memory_fails_the_job_although_it_exits_with_zero() {
    let probe = corral::sys::cgroup::Hierarchy::detect("probe-oom");
    probe.remove_parents();
    if !users::may_switch() || !probe.is_usable() {
        return skipped("needs root and control groups");
    }
    let mut c = Cluster::new();
    let eat = "dd if=/dev/zero of=/dev/null bs=200M count=1 2>/dev/null";
    let limit = Some(20 << 20);
    for (id, command, mem_b, swap_b, oom_kill) in [
        (1, format!("{eat}; exit 0"), limit, None, None),
        (2, format!("exec {eat}"), limit, None, None),
        (
            3,
            format!("{eat}; exit 0"),
            limit,
            None,
            Some(OomKill::Ignore),
        ),
        (4, format!("{eat}; exit 0"), None, limit, None),
    ] {
        c.start_with(id, &command, |o| {
            o.limits = Limits {
                mem_b,
                swap_b,
                oom_kill,
                ..Limits::default()
            };
        });
    }
    c.start_exe();
    for (id, reason) in [
        (1, TermReason::MemLimit),
        (3, TermReason::None),
        (4, TermReason::SwapLimit),
    ] {
        let child = c.end(id);
        assert_eq!(
            (child.code, child.oom, child.reason),
            (Some(0), true, reason)
        );
        assert_eq!(child.is_success(), id == 3);
    }
    let parent = c.end(2);
    assert_eq!(
        (parent.sig, parent.oom, parent.reason),
        (9, true, TermReason::MemLimit)
    );
}

/// Processes whose environment holds this mark.
fn marked(mark: &str) -> Vec<i32> {
    proc::with_environment(&[mark.to_owned()])
}

/// What will not end by itself, in several ways at once.
fn resists(exe: Command) {
    let mut c = Cluster::new();
    let mark = format!("RESISTS={}", c.path("").display());
    // A chain of processes, each of which starts the next and ends: there is never one to hit.
    let chain = "perl -e 'while (1) { my $p = fork; exit if $p; setpgrp }'";
    // A process that stands still under a tracer that stands still.
    let traced =
        "strace -qq -o /dev/null sh -c 'while :; do kill -0 $$; done' & sleep 0.3; kill -STOP $!";
    let deaf = "trap '' INT TERM HUP; while :; do sleep 0.05; done";
    let daemon = "(setsid sh -c 'exec sleep 600' < /dev/null > /dev/null 2>&1 &)";
    let bodies = [
        format!("{chain} & {chain} & {deaf}"),
        format!(
            "{traced}; echo still >{}; {deaf}",
            c.path("still").display()
        ),
        format!("{daemon}; (setsid sh -c \"{deaf}\" &); exit 6"),
    ];
    // The second one says so when it stands still.
    for (n, body) in bodies.iter().enumerate() {
        let id = 1 + n as u32;
        c.order(&[Cluster::start(id, &format!("export {mark}; {body}"))]);
    }
    c.start_by(exe);
    assert_eq!(c.end(3).code, Some(6));
    c.started(1);
    c.started(2);
    c.wait_file("still");
    until("they run", || !marked(&mark).is_empty());
    for id in [1, 2] {
        c.signal(id, Act::Terminate, 1);
    }
    for id in [1, 2] {
        let e = c.end(id);
        assert_eq!((e.reason, e.sig), (TermReason::Owner, 9), "{e:?}");
    }
    assert_eq!(
        marked(&mark),
        Vec::<i32>::new(),
        "an end is told when nothing is left"
    );
}

#[test]
fn nothing_is_left_of_tasks_that_resist() {
    if !["/usr/bin/perl", "/usr/bin/strace"]
        .iter()
        .all(|p| Path::new(p).exists())
    {
        return skipped("needs perl and strace");
    }
    resists(Command::new(env!("CARGO_BIN_EXE_cbexe")));
    resists(no_groups());
}

/// A file system of this size in memory, mounted there.
fn small_disk(at: &Path, megabytes: u32) -> Option<Mount> {
    let (dir, size) = (at.to_str().unwrap(), format!("size={megabytes}m"));
    fs::mkdir_p(at, 0o755).unwrap();
    let mounted = ran("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", dir]);
    mounted.then(|| Mount(dir.to_owned()))
}

fn fill(dir: &Path) {
    let file = dir.join("filler");
    let of = format!("of={}", file.display());
    let _ = Command::new("dd")
        .args(["if=/dev/zero", &of, "bs=4k"])
        .output();
    // To the last byte.
    let mut more = std::fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .unwrap();
    while std::io::Write::write(&mut more, b"x").is_ok_and(|n| n > 0) {}
}

/// A task whose end falls into a time without room on the local disk.
fn ends_on_a_full_disk(megabytes: u32, after_end: impl FnOnce(&mut Cluster, &Path)) {
    if !users::may_switch() {
        return skipped("needs root");
    }
    let mut c = Cluster::new();
    let local = c.path("local");
    fs::remove_tree(&local).unwrap();
    let Some(_disk) = small_disk(&local, megabytes) else {
        return skipped("cannot mount");
    };
    Cluster::remember(&local);
    let go = c.path("go").display().to_string();
    let command = format!("while [ ! -e {go} ]; do sleep 0.05; done; exit 4");
    c.order(&[Cluster::start(1, &command)]);
    c.start_exe();
    c.started(1);
    fill(&local);
    // A started page would still have room for records: empty lines are none.
    let log = local.join("tasks.000001.log");
    let room = 4096 - fs::stat(&log).unwrap().unwrap().len as usize % 4096;
    let mut log = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    let _ = std::io::Write::write(&mut log, &vec![b'\n'; room]);
    fs::publish(&c.path("go"), b"").unwrap();
    after_end(&mut c, &local);
    c.kill_exe();
}

#[test]
fn ends_are_told_while_the_local_disk_is_full() {
    ends_on_a_full_disk(16, |c, _| assert_eq!(c.end(1).code, Some(4)));
}

#[test]
fn without_any_room_the_shepherd_keeps_the_end_until_there_is_some() {
    ends_on_a_full_disk(1, |c, local| {
        let shepherd = c.started(1);
        c.order(&[Cluster::start(2, "exit 2")]);
        clock::sleep_ms(1_500);
        assert!(exists(shepherd), "it holds the only record");
        let refused = c.end(2);
        assert!(
            refused.elsewhere,
            "it goes where there is room: {refused:?}"
        );
        let is_end = |r: &Report| matches!(r, Report::Ended(e) if e.a == attempt(1));
        assert!(!c.reports().1.iter().any(|(_, r)| is_end(r)));
        fs::remove(&local.join("filler")).unwrap();
        assert_eq!(c.end(1).code, Some(4));
        c.order(&[Cluster::start(3, "exit 2")]);
        assert_eq!(c.end(3).code, Some(2));
    });
}

#[test]
fn a_cut_off_host_ends_rerunnable_tasks_even_without_an_executor() {
    let mut c = Cluster::new();
    c.limit_of_6s();
    c.spec(2, |s| s.rerunnable = true);
    c.start_of(1, 2, "sleep 600");
    c.start_of(2, 1, "sleep 600");
    let began = clock::boot_ms();
    c.beat();
    c.start_exe();
    let (again, once) = (c.started(1), c.started(2));
    c.kill_exe();
    // No cbls writes to the share, and nobody watches but the shepherds.
    wait_gone(again);
    let took = clock::boot_ms() - began;
    // Its work starts elsewhere ten seconds after the limit, not earlier.
    assert!((5_000..16_000).contains(&took), "{took}");
    assert!(exists(once));
    c.start_exe();
    assert_eq!(c.end(1).reason, TermReason::Fenced);
    c.kill(2);
}

/// A file system whose server takes requests and never answers one, mounted there; and whether it was
/// asked for something.
fn dead_server(at: &Path) -> Option<(Mount, Arc<AtomicBool>)> {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    /// The kernel's first request, and the length of the answer to it.
    const INIT: [u8; 4] = 26u32.to_ne_bytes();
    const ANSWER: u32 = 16 + 64;
    fs::mkdir_p(at, 0o755).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let mut server = options.read(true).write(true).open("/dev/fuse").ok()?;
    let fd = server.as_raw_fd();
    let data = format!("fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other");
    let flags = nix::mount::MsFlags::MS_NOSUID;
    nix::mount::mount(Some("none"), at, Some("fuse"), flags, Some(data.as_str())).ok()?;
    let asked = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut request = vec![0u8; 1 << 20];
        while server.read(&mut request).is_ok() {
            if request[4..8] == INIT {
                let mut answer = vec![0u8; ANSWER as usize];
                answer[..4].copy_from_slice(&ANSWER.to_ne_bytes());
                answer[8..16].copy_from_slice(&request[8..16]);
                answer[16..20].copy_from_slice(&7u32.to_ne_bytes());
                answer[20..24].copy_from_slice(&31u32.to_ne_bytes());
                answer[36..40].copy_from_slice(&4096u32.to_ne_bytes());
                server.write_all(&answer).unwrap();
            } else {
                note.store(true, Ordering::Relaxed);
            }
        }
    });
    Some((Mount(at.to_str().unwrap().to_owned()), asked))
}

#[test]
fn a_task_that_waits_for_a_dead_file_server_is_not_over_and_nobody_spins() {
    let mut c = Cluster::new();
    let at = c.path("dead");
    let Some((dead, asked)) = users::may_switch().then(|| dead_server(&at)).flatten() else {
        return skipped("needs root and /dev/fuse");
    };
    c.order(&[Cluster::start(1, &format!("cat {}/file", dead.0))]);
    c.start_exe();
    let shepherd = c.started(1);
    let task = find("the task", || child_named(shepherd, "cat"));
    until("it asks the server", || asked.load(Ordering::Relaxed));
    c.signal(1, Act::Kill, 1);
    until("it waits for the server", || {
        proc::info(task).map(|p| p.state) == Some('D')
    });
    clock::sleep_ms(500);
    let spent = || proc::info(shepherd).map(|p| p.utime + p.stime).unwrap();
    let before = spent();
    clock::sleep_ms(2_000);
    let ticks = spent() - before;
    assert!(
        ticks < proc::ticks_per_second() / 10,
        "{ticks} ticks in 2 s"
    );
    // The host works on; the task is told as over when it is.
    c.order(&[Cluster::start(2, "exit 2")]);
    assert_eq!(c.end(2).code, Some(2));
    let ended = |(_, r): &(u64, Report)| matches!(r, Report::Ended(e) if e.a == attempt(1));
    assert!(!c.reports().1.iter().any(ended));
    ran("umount", &["-f", &dead.0]);
    let e = c.end(1);
    assert_eq!((e.sig, e.reason), (9, TermReason::Owner));
}

#[test]
fn an_unknown_signal_number_or_a_foreign_sender_changes_nothing() {
    let mut c = Cluster::new();
    let go = c.path("go");
    let command = format!(
        "while [ ! -e {} ]; do sleep 0.05; done; exit 3",
        go.display()
    );
    c.order(&[Cluster::start(1, &command)]);
    c.start_exe();
    let shepherd = c.started(1);
    // Values that nobody packed.
    for value in [0, 7, 0xff00_0005, u64::MAX] {
        corral::sys::supervise::send_order(shepherd, value).unwrap();
    }
    for signal in [1, 2, 15] {
        proc::kill(shepherd, signal).unwrap();
    }
    std::fs::write(&go, "").unwrap();
    let e = c.end(1);
    assert_eq!(
        (e.a, e.code, e.reason),
        (attempt(1), Some(3), TermReason::None)
    );
    c.order(&[Order::PartEnd { a: attempt(9) }]);
}
