//! Jobs in containers: the user's identity, the working directory and the limits hold inside, the
//! image is not changed, and a kill leaves nothing. A runtime that is not installed is skipped.

use crate::cluster::Cluster;
use crate::{executor_bed, policies};
use corral::model::{Container, ContainerRuntime, TermReason};
use corral::record::order::HookOrder;
use corral::sys::{fs, users};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn has(program: &str) -> bool {
    let here = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    here.unwrap().status.success()
}

/// A root file system of one program without libraries, below `dir`.
fn image(dir: &Path) -> Option<PathBuf> {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .find(|p| Path::new(p).exists())?;
    let image = dir.join("image");
    for name in ["usr/bin", "etc", "proc", "dev", "sys", "tmp", "home", "mnt"] {
        std::fs::create_dir_all(image.join(name)).unwrap();
    }
    symlink("usr/bin", image.join("bin")).unwrap();
    std::fs::copy(busybox, image.join("usr/bin/busybox")).unwrap();
    for name in ["sh", "echo", "cat", "id", "ls", "sleep", "touch", "env"] {
        symlink("busybox", image.join("usr/bin").join(name)).unwrap();
    }
    std::fs::write(image.join("etc/passwd"), "root:x:0:0:r:/:/bin/sh\n").unwrap();
    std::fs::write(image.join("etc/group"), "root:x:0:\n").unwrap();
    std::fs::write(image.join("etc/inside"), "image\n").unwrap();
    // Without libraries of its own busybox runs there only if it needs none.
    let dynamic = Command::new("ldd").arg(busybox).output();
    let alone = dynamic.is_ok_and(|out| !out.status.success());
    alone.then_some(image)
}

fn site(runtime: &str) -> Cluster {
    let sections = format!(
        "hosts:\n- {{name: h1, slots: 4}}\nqueues:\n- {{name: q}}\n\
         general: {{container_runtime: {runtime}}}\n"
    );
    policies::cluster(1, &sections)
}

fn jobs_run_in(runtime: &str, program: &str) {
    let site = site(runtime);
    let dir = site.work();
    let Some(image) = image(&dir).filter(|_| has(program)) else {
        println!("skipped: no {program}, or no busybox without libraries");
        return;
    };
    let image = image.to_str().unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    let inside = "cat /etc/inside >seen; id -u >>seen; echo $LSB_JOBID >>seen; \
                  touch /usr/bin/new 2>/dev/null || echo kept >>seen; ls /root 2>&1 >/dev/null; exit 6";
    let job = site.csub(&["-di", image, inside]);
    let row = policies::until(&site, job, "EXIT", policies::is("EXIT"));
    let row = format!(
        "{row}\n{}",
        crate::cluster::text(&site.run("cpeek", &[&job.to_string()]))
    );
    let uid = nix::unistd::geteuid();
    assert_eq!(
        read("seen"),
        format!("image\n{uid}\n{job}\nkept\n"),
        "{row}"
    );
    assert!(row.contains("\"exit_code\":6"), "{row}");
    // A script goes along, each task has a container of its own.
    std::fs::write(dir.join("s.sh"), "cat /etc/inside >script.$CB_RANK\n").unwrap();
    let script = site.csub(&["-n", "2", "--launch", "tasks", "-di", image, "./s.sh"]);
    policies::until(&site, script, "DONE", policies::is("DONE"));
    assert_eq!(
        (read("script.0"), read("script.1")),
        ("image\n".into(), "image\n".into())
    );
    let missing = site.csub(&["-di", "/no/such/image", "echo x"]);
    let row = policies::until(&site, missing, "EXIT", policies::is("EXIT"));
    assert_eq!(row["exit_code"], 125, "{row}");
    // A kill leaves nothing, limits hold.
    let endless = site.csub(&["-di", image, "echo on >on; sleep 93.5 & sleep 93.5"]);
    while read("on").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    site.ok("ckill", &[&endless.to_string()]);
    policies::until(&site, endless, "EXIT", policies::is("EXIT"));
    let left = Command::new("pgrep").args(["-f", "sleep 93.[5]"]).output();
    assert!(left.unwrap().stdout.is_empty());
}

/// Another user than the daemons' has its own identity inside, and the limit of memory ends the job.
#[test]
fn identity_and_memory_limit_hold_inside() {
    if !users::may_switch() || !has("bwrap") {
        println!("skipped: not root, or no bwrap");
        return;
    }
    let mut c = executor_bed::Cluster::new();
    fs::chmod(c.dir.path(), 0o755).unwrap();
    let Some(image) = image(c.dir.path()) else {
        println!("skipped: no busybox without libraries");
        return;
    };
    let open = c.path("open");
    fs::mkdir_p(&open, 0o755).unwrap();
    fs::chmod(&open, 0o777).unwrap();
    c.spec(2, |spec| {
        (spec.uid, spec.user) = (65_534, "nobody".into());
        spec.cwd = open.to_str().unwrap().to_owned();
        spec.container = Some(Box::new(Container {
            image: image.to_str().unwrap().to_owned(),
            options: Vec::new(),
        }));
    });
    let hooks = HookOrder {
        runtime: ContainerRuntime::Bubblewrap,
        ..HookOrder::default()
    };
    let hooks = Some(Box::new(hooks));
    let job = "id -u >who; echo x >/etc/inside; cat /etc/inside >>who";
    let own = hooks.clone();
    c.start_with(1, job, move |o| (o.s, o.hooks) = (2, own));
    // Doubles a text until it does not fit any more.
    let eater = "x=0123456789abcdef; while :; do x=$x$x; done";
    c.start_with(2, eater, move |o| {
        (o.s, o.hooks, o.limits.mem_b) = (2, hooks, Some(32 << 20));
    });
    c.start_exe();
    assert_eq!(c.end(1).code, Some(0));
    assert_eq!(
        std::fs::read_to_string(open.join("who")).unwrap(),
        "65534\nimage\n"
    );
    let end = c.end(2);
    assert!(end.oom || end.reason == TermReason::MemLimit, "{end:?}");
}

#[test]
fn bubblewrap_runs_jobs() {
    jobs_run_in("bubblewrap", "bwrap");
}

#[test]
fn charliecloud_runs_jobs() {
    jobs_run_in("charliecloud", "ch-run");
}

#[test]
fn without_a_runtime_and_for_another_one_containers_are_refused() {
    let site = policies::cluster(1, "hosts:\n- {name: h1, slots: 1}\nqueues:\n- {name: q}\n");
    let said = |args: &[&str]| {
        let out = site.run("csub", args);
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(said(&["-di", "/i", "x"]).contains("container_runtime is not set"));
    assert!(said(&["-do", "--x", "x"]).contains("without -di"));
    assert!(said(&["-Si", "/i", "x"]).contains("there is no Apptainer here"));
}
