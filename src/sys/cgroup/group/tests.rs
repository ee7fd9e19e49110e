//! Tests groups with real processes in them, of both versions if this machine has them.

use super::super::Pool;
use super::*;
use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Both versions if this machine permits, so that one test covers each.
fn hierarchies(tag: &str) -> Vec<Hierarchy> {
    let tag = format!("test-{tag}.{}", std::process::id());
    let mut all = vec![Hierarchy::detect(&tag)];
    // A different name: removing the groups of one version removes those with that name in the
    // other.
    let unified = PathBuf::from("/sys/fs/cgroup/unified").join(format!("corral.v2-{tag}"));
    if matches!(all[0], Hierarchy::V1(_)) && fs::mkdir(&unified, 0o755).is_ok() {
        all.push(Hierarchy::V2(unified));
    }
    all.retain(|h| {
        if let Hierarchy::None(why) = h {
            println!("skipped: {why}");
        }
        h.is_usable()
    });
    all
}

fn start_in(group: &Group, script: &str) -> Child {
    use std::os::unix::process::CommandExt;
    let fds = group.join_fds();
    let mut c = Command::new("/bin/sh");
    c.args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    // SAFETY: write is async-signal-safe.
    unsafe {
        c.pre_exec(move || {
            for fd in &fds {
                libc::write(*fd, c"0".as_ptr().cast(), 1);
            }
            Ok(())
        })
    };
    c.spawn().unwrap()
}

/// Waits until this is so, much longer than it takes: the machine may be busy.
fn until(so: impl Fn() -> bool) -> bool {
    (0..6_000).any(|_| {
        clock::sleep_ms(10);
        so()
    })
}

/// Waits until everything in the group is gone.
fn wait_until_empty(group: &Group) {
    assert!(until(|| group.is_empty()), "{:?}", group.pids());
}

fn done(mut g: Group, h: &Hierarchy) {
    g.remove();
    h.remove_parents();
}

#[test]
fn kill_removes_a_double_forked_session() {
    for h in hierarchies("kill") {
        let mut g = h.create("a", &Limits::default()).unwrap();
        assert!(g.is_empty());
        let script = "(setsid sleep 100 & setsid sleep 100 &) ; sleep 100";
        let mut child = start_in(&g, script);
        assert!(until(|| g.pids().len() >= 3), "{h:?}: {:?}", g.pids());
        g.kill_once();
        child.wait().unwrap();
        assert!(g.kill_until_empty(60_000), "{h:?}");
        done(g, &h);
    }
}

#[test]
fn groups_below_a_tasks_group_are_the_tasks_and_do_not_stay() {
    for h in hierarchies("below") {
        let mut pool = Pool::new(h.clone(), "p".to_string());
        let g = pool.take_group(&Limits::default()).unwrap().unwrap();
        let main = g.main_dir().unwrap().clone();
        let deep = main.join("conmon/deeper");
        std::fs::create_dir_all(&deep).unwrap();
        // As container runtimes do, also in the hierarchies that are not used.
        let short = g.all_dirs().min_by_key(|dir| dir.components().count());
        let others = super::super::elsewhere(short.into_iter());
        let others: Vec<_> = others
            .into_iter()
            .filter(|dir| std::fs::create_dir_all(dir.join("conmon")).is_ok())
            .collect();
        let script = format!(
            "echo $$ >{}/cgroup.procs; sleep 100 & exec sleep 100",
            deep.display()
        );
        let mut child = start_in(&g, &script);
        until(|| read_pids(&deep.join("cgroup.procs")).len() == 2);
        assert_eq!(g.pids().len(), 2, "{h:?}");
        let name = g.name().to_string();
        let waiter = std::thread::spawn(move || child.wait());
        pool.give_back(g);
        waiter.join().unwrap().unwrap();
        let g = pool.take_group(&Limits::default()).unwrap().unwrap();
        assert_ne!(g.name(), name, "it is not used again");
        let name = g.name().to_string();
        std::fs::create_dir(g.main_dir().unwrap().join("empty")).unwrap();
        pool.give_back(g);
        let g = pool.take_group(&Limits::default()).unwrap().unwrap();
        assert_ne!(g.name(), name, "nor is one with an empty group below it");
        pool.give_back(g);
        pool.clear();
        assert_eq!(h.names(), [""; 0], "nothing is left in {h:?}");
        h.remove_parents();
        for dir in others.iter().chain([&main]) {
            let parent = dir.parent().unwrap();
            assert!(!fs::exists(dir) && !fs::exists(parent), "{}", dir.display());
        }
    }
}

#[test]
fn freeze_stops_and_thaw_goes_on() {
    for h in hierarchies("freeze") {
        let mut g = h.create("a", &Limits::default()).unwrap();
        let mut child = start_in(&g, "read x; exit 5");
        clock::sleep_ms(50);
        if !g.freeze().unwrap() {
            println!("skipped: no freezer in {h:?}");
        }
        assert!(g.was_frozen());
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        clock::sleep_ms(100);
        assert!(child.try_wait().unwrap().is_none());
        g.thaw().unwrap();
        assert!(!g.was_frozen());
        assert_eq!(child.wait().unwrap().code(), Some(5));
        done(g, &h);
    }
}

#[test]
fn a_frozen_group_can_be_killed() {
    for h in hierarchies("frozenkill") {
        let mut g = h.create("a", &Limits::default()).unwrap();
        let mut child = start_in(&g, "sleep 100");
        clock::sleep_ms(50);
        g.freeze().unwrap();
        let waiter = std::thread::spawn(move || child.wait());
        assert!(g.kill_until_empty(60_000), "{h:?}");
        waiter.join().unwrap().unwrap();
        done(g, &h);
    }
}

#[test]
fn a_group_that_files_in_memory_are_charged_to_is_not_used_again() {
    let h = Hierarchy::detect(&format!("test-shmem.{}", std::process::id()));
    let dir = tempfile::tempdir_in("/dev/shm");
    let (true, Ok(dir)) = (h.enforced_limits().0, dir) else {
        println!("skipped: {}, or no /dev/shm", h.describe());
        return;
    };
    let mut pool = Pool::new(h.clone(), "p".to_string());
    let mut run = |script: &str| {
        let g = pool.take_group(&Limits::default()).unwrap().unwrap();
        assert!(start_in(&g, script).wait().unwrap().success());
        let name = g.name().to_string();
        wait_until_empty(&g);
        pool.give_back(g);
        name
    };
    let first = run("true");
    let file = dir.path().join("left");
    assert_eq!(
        run(&format!("head -c 8000000 /dev/zero >{}", file.display())),
        first
    );
    assert_ne!(run("true"), first);
    pool.clear();
    h.remove_parents();
}

#[test]
fn a_task_cannot_leave_the_processors_of_its_group_and_nothing_inherits_them() {
    let h = Hierarchy::detect(&format!("test-cpus.{}", std::process::id()));
    let all = crate::sys::cpus::allowed().unwrap();
    let one: CpuSet = all.iter().take(1).collect();
    let mut pool = Pool::new(h.clone(), "p".to_string());
    let bound = Limits {
        cpus: Some(one.clone()),
        ..Limits::default()
    };
    let g = h
        .is_usable()
        .then(|| pool.take_group(&bound).unwrap().unwrap());
    let Some(g) = g.filter(|g| g.v2 || g.dirs[Controller::Cpuset as usize].is_some()) else {
        println!("skipped: no cpuset in {}", h.describe());
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let script = format!(
        "taskset -cp {all} $$ >/dev/null 2>&1; grep Cpus_allowed_list /proc/$$/status >{}",
        out.display()
    );
    assert!(start_in(&g, &script).wait().unwrap().success());
    let status = std::fs::read_to_string(&out).unwrap();
    assert_eq!(
        status.split_whitespace().nth(1),
        Some(one.to_string().as_str())
    );
    let name = g.name().to_string();
    wait_until_empty(&g);
    pool.give_back(g);
    let g = pool.take_group(&Limits::default()).unwrap().unwrap();
    assert_ne!(g.name(), name);
    assert!(start_in(&g, &script).wait().unwrap().success());
    let status = std::fs::read_to_string(&out).unwrap();
    assert_eq!(
        status.split_whitespace().nth(1),
        Some(all.to_string().as_str())
    );
    pool.give_up(g);
    h.remove_parents();
}

#[test]
fn limits_bind_and_are_lifted_in_the_pool() {
    let tag = format!("test-limits.{}", std::process::id());
    let h = Hierarchy::detect(&tag);
    if !h.is_usable() {
        println!("skipped: {}", h.describe());
        return;
    }
    let mut pool = Pool::new(h.clone(), "p".to_string());
    let tight = Limits {
        memory: Some(8 << 20),
        pids: Some(9),
        ..Limits::default()
    };
    let g = pool.take_group(&tight).unwrap().unwrap();
    let eat = "x=$(head -c 60000000 /dev/zero | tr '\\0' x); echo $x | wc -c";
    let status = start_in(&g, eat).wait().unwrap();
    assert!(g.oom_kills() > 0 || !status.success());
    let name = g.name().to_string();
    wait_until_empty(&g);
    pool.give_back(g);
    let g = pool.take_group(&Limits::default()).unwrap().unwrap();
    assert_eq!((g.name(), g.oom_kills()), (name.as_str(), 0));
    assert!(
        start_in(
            &g,
            "for i in 1 2 3 4 5 6 7 8 9 0; do sleep 0.01 & done; wait"
        )
        .wait()
        .unwrap()
        .success()
    );
    pool.give_back(g);
    pool.clear();
    h.remove_parents();
}

/// Nodes 195:0 and 195:1 of a driver that does not exist, if nodes can be created and opened.
fn nodes() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir_in("/var/tmp").ok()?;
    let make = |name: &str, major: u32, minor: u32| {
        let path = std::ffi::CString::new(dir.path().join(name).to_str()?).ok()?;
        let number = libc::makedev(major, minor);
        // SAFETY: the path is a string that outlives the call.
        let made = unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o666, number) };
        (made == 0).then_some(())
    };
    make("zero", 1, 5)?;
    make("0", 195, 0)?;
    make("1", 195, 1)?;
    let opens = File::open(dir.path().join("zero")).is_ok();
    opens.then_some(dir)
}

/// The results of opening `0`, `1` and `zero` in the group: refused, or the kernel's answer without
/// a driver.
fn opened(group: &Group, dir: &Path) -> [bool; 3] {
    let out = dir.join("out");
    let (text, to) = (dir.display(), out.display());
    let script = format!(
        "for n in 0 1 zero; do sh -c \": <{text}/$n\" 2>&1 && echo opened; done >{to} 2>&1; true"
    );
    assert!(start_in(group, &script).wait().unwrap().success());
    wait_until_empty(group);
    let output = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 3, "{output}");
    let denied = |line: &str| line.contains("Operation not permitted");
    let known = |line: &&str| {
        denied(line) || line.contains("No such device or address") || **line == *"opened"
    };
    assert!(lines.iter().all(known), "{output}");
    [0, 1, 2].map(|n| !denied(lines[n]))
}

fn denying(minors: &[u32]) -> Limits {
    let node = |minor: &u32| format!("195:{minor}").parse().unwrap();
    let denied = Denied::new(minors.iter().map(node).collect());
    Limits {
        devices: (!minors.is_empty()).then(|| std::sync::Arc::new(denied)),
        ..Limits::default()
    }
}

#[test]
fn tasks_open_no_device_that_is_denied_and_the_next_task_of_a_group_has_its_own_rules() {
    let Some(dir) = nodes() else {
        println!("skipped: no device nodes can be made and opened here");
        return;
    };
    for h in hierarchies("devices") {
        if !h.denies_devices() {
            println!("skipped: no devices can be denied in {}", h.describe());
            continue;
        }
        let mut pool = Pool::new(h.clone(), "p".to_string());
        let mut names = Vec::new();
        for (minors, opens) in [
            (&[0][..], [false, true, true]),
            (&[1][..], [true, false, true]),
            (&[0, 1][..], [false, false, true]),
            (&[][..], [true, true, true]),
        ] {
            let g = pool.take_group(&denying(minors)).unwrap().unwrap();
            assert_eq!(opened(&g, dir.path()), opens, "{minors:?} in {h:?}");
            names.push(g.name().to_string());
            pool.give_back(g);
        }
        names.dedup();
        assert_eq!(names.len(), 1, "the group is used again: {names:?}");
        pool.clear();
        h.remove_parents();
        assert_eq!(h.names(), [""; 0], "nothing is left in {h:?}");
    }
}

#[test]
fn a_running_task_may_open_more_and_never_less_by_a_change_of_its_limits() {
    let Some(dir) = nodes() else {
        println!("skipped: no device nodes can be made and opened here");
        return;
    };
    for h in hierarchies("allow") {
        if !h.denies_devices() {
            println!("skipped: no devices can be denied in {}", h.describe());
            continue;
        }
        let mut g = h.create("a", &denying(&[0, 1])).unwrap();
        let limits = Limits {
            pids: Some(100),
            ..Limits::default()
        };
        g.change(&limits).unwrap();
        assert_eq!(opened(&g, dir.path()), [false, false, true], "{h:?}");
        g.allow(&["195:1".parse().unwrap()]).unwrap();
        assert_eq!(opened(&g, dir.path()), [false, true, true], "{h:?}");
        g.allow(&["195:0".parse().unwrap()]).unwrap();
        assert_eq!(opened(&g, dir.path()), [true, true, true], "{h:?}");
        done(g, &h);
    }
}
