//! Jobs in containers: the user's identity, the working directory and the limits hold inside, the
//! image is not changed, and a kill leaves nothing. A runtime that is not installed is skipped.

use crate::cluster::Cluster;
use crate::{executor_bed, policies};
use corral::model::{Container, ContainerRuntime, Limits, TermReason};
use corral::record::order::{HookOrder, StartOrder};
use corral::record::report::Ended;
use corral::sys::{fs, users};
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
    // A time that no test beside this one sleeps.
    let sleep = format!("sleep 993.{}", runtime.len());
    let endless = format!("echo on >on; {sleep} & {sleep}");
    let endless = site.csub(&["-di", image, &endless]);
    crate::patience::until("it runs", || !read("on").is_empty());
    site.ok("ckill", &[&endless.to_string()]);
    policies::until(&site, endless, "EXIT", policies::is("EXIT"));
    let left = Command::new("pgrep").args(["-f", &sleep]).output();
    assert!(left.unwrap().stdout.is_empty());
}

/// The end says why, and what the job used at most: not more than its limit, KB.
fn killed_alone_for_its_memory(end: &Ended, limit_kb: u64) {
    assert!(end.oom || end.reason == TermReason::MemLimit, "{end:?}");
    // Pages of files that others have in memory count for the peak, not for the limit.
    let (peak, most) = (end.u.maxmem_kb, limit_kb + (4 << 10));
    assert!((8 << 10..=most).contains(&peak), "{end:?}");
}

type Change = Box<dyn FnOnce(&mut StartOrder)>;

/// Limits of processes and of CPU time end the job that is over them, with that reason, and no
/// other one. `procs`: more than the runtime itself needs.
fn processes_and_cpu_time_are_held(
    c: &mut executor_bed::Cluster,
    (procs, counted): (u64, bool),
    with: impl Fn(Limits) -> Change,
) {
    let forks = "n=0; while [ $n -lt 300 ]; do sleep 9 & n=$((n+1)); done; wait";
    let few = Limits {
        procs: Some(procs),
        ..Limits::default()
    };
    let short = Limits {
        cpu_s: Some(1),
        ..Limits::default()
    };
    c.start_with(
        11,
        "sleep 4; echo unharmed >beside",
        with(Limits::default()),
    );
    c.start_with(12, forks, with(few));
    c.start_with(13, "while :; do :; done", with(short));
    let end = c.end(12);
    // Version 1 counts what is refused in the group of the process: a container's own is gone.
    let known = end.reason == TermReason::ProcessLimit;
    assert!(
        known || !counted && end.code.is_some_and(|code| code != 0),
        "{end:?}"
    );
    let end = c.end(13);
    assert_eq!(end.reason, TermReason::CpuLimit, "{end:?}");
    assert_eq!(c.end(11).code, Some(0));
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
            apptainer: false,
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
    let own = hooks.clone();
    c.start_with(2, eater, move |o| {
        (o.s, o.hooks, o.limits.mem_b) = (2, own, Some(32 << 20));
    });
    c.start_exe();
    assert_eq!(c.end(1).code, Some(0));
    assert_eq!(
        std::fs::read_to_string(open.join("who")).unwrap(),
        "65534\nimage\n"
    );
    let end = c.end(2);
    killed_alone_for_its_memory(&end, 32 << 10);
    processes_and_cpu_time_are_held(&mut c, (20, true), |limits| {
        let hooks = hooks.clone();
        Box::new(move |o| (o.s, o.hooks, o.limits) = (2, hooks, limits))
    });
}

/// A user who may have containers without root: entries in /etc/subuid, and a home. As root any
/// such account, else the present one.
fn container_user() -> Option<users::UserFacts> {
    let listed = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
    let names = listed.lines().filter_map(|line| line.split(':').next());
    let mut known = names.filter_map(users::by_name);
    known.find(|user| match users::may_switch() {
        true => user.uid != 0 && user.home.is_dir(),
        false => user.uid == users::effective_uid(),
    })
}

/// What makes containers from images by name, as one user calls it.
struct Tool {
    runtime: ContainerRuntime,
    user: users::UserFacts,
    /// The program with its first options.
    line: String,
}

impl Tool {
    fn podman(user: users::UserFacts) -> Tool {
        let v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let runtime = if v2 || !has("runc") {
            ""
        } else {
            "--runtime runc"
        };
        Tool {
            runtime: ContainerRuntime::Podman,
            user,
            line: format!(
                "unset XDG_RUNTIME_DIR; cd /; podman {runtime} --cgroup-manager=cgroupfs"
            ),
        }
    }

    fn docker(user: users::UserFacts) -> Tool {
        Tool {
            runtime: ContainerRuntime::Docker,
            user,
            line: "docker --host unix:///var/run/docker.sock".to_owned(),
        }
    }

    fn try_run(&self, args: &str) -> Output {
        let mut command = match users::may_switch() {
            false => Command::new("sh"),
            true => {
                let mut command = Command::new("setpriv");
                let ids = [self.user.uid, self.user.gid].map(|id| id.to_string());
                command.args([
                    "--reuid",
                    &ids[0],
                    "--regid",
                    &ids[1],
                    "--init-groups",
                    "sh",
                ]);
                command
            }
        };
        let line = format!("{} {args}", self.line);
        let command = command.args(["-c", &line]).env("HOME", &self.user.home);
        command.output().unwrap()
    }

    fn run(&self, args: &str) -> String {
        let out = self.try_run(args);
        assert!(
            out.status.success(),
            "{args}: {}",
            crate::cluster::text(&out)
        );
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Puts the image into the user's store; gives its name there.
    fn import(&self, c: &executor_bed::Cluster, image: &Path) -> String {
        let name = format!("localhost/corral-test-{}", std::process::id());
        let archive = c.path("image.tar");
        let mut pack = Command::new("tar");
        let pack = pack.arg("-C").arg(image).arg("-cf").arg(&archive).arg(".");
        assert!(pack.status().unwrap().success());
        fs::chmod(&archive, 0o644).unwrap();
        self.run(&format!("import {} {name}", archive.display()));
        name
    }

    /// How long the job sleeps that is killed: other tests have other ones.
    fn nap(&self) -> &'static str {
        match self.runtime {
            ContainerRuntime::Podman => "994.5",
            _ => "995.5",
        }
    }

    /// No process of the container, no conmon, no entry in the store.
    fn nothing_is_left(&self) {
        let job = format!("sleep {}", self.nap().replace(".5", ".[5]"));
        let left = Command::new("pgrep").args(["-f", &job]).output();
        assert!(left.unwrap().stdout.is_empty());
        if self.runtime == ContainerRuntime::Podman {
            let conmon = Command::new("pgrep")
                .args(["-x", "-u", &self.user.uid.to_string(), "conmon"])
                .output();
            assert!(conmon.unwrap().stdout.is_empty(), "a conmon is left");
        }
        let left = self.run("ps -aq --filter label=corral.task");
        assert_eq!(left.trim(), "");
    }
}

/// The user, the directory, the limits and the exit code hold inside, and a kill leaves no
/// container, no process and nothing in the store.
fn images_by_name_run_with(tool: &Tool) {
    let mut c = executor_bed::Cluster::new();
    fs::chmod(c.dir.path(), 0o755).unwrap();
    let Some(image) = image(c.dir.path()) else {
        println!("skipped: no busybox without libraries");
        return;
    };
    let (name, user) = (tool.import(&c, &image), &tool.user);
    let open = c.path("open");
    fs::mkdir_p(&open, 0o755).unwrap();
    fs::chmod(&open, 0o777).unwrap();
    let home = user.home.to_str().unwrap().to_owned();
    c.spec(2, |spec| {
        (spec.uid, spec.user) = (user.uid, user.name.clone());
        spec.cwd = open.to_str().unwrap().to_owned();
        spec.container = Some(Box::new(Container {
            image: name.clone(),
            options: vec!["--env".into(), "OWN=given".into()],
            apptainer: false,
        }));
    });
    let hooks = Some(Box::new(HookOrder {
        runtime: tool.runtime,
        pre_ms: 60_000,
        post_ms: 60_000,
        ..HookOrder::default()
    }));
    let with = |limits: Limits| {
        let hooks = hooks.clone();
        move |o: &mut StartOrder| (o.s, o.hooks, o.limits) = (2, hooks, limits)
    };
    let limits = Limits::default();
    let job = "(id -u; cat /etc/inside; pwd; echo $LSB_JOBID $OWN $HOME) >who; exit 6";
    c.start_with(1, job, with(limits.clone()));
    let mem = Limits {
        mem_b: Some(96 << 20),
        ..limits.clone()
    };
    let eater = "x=0123456789abcdef; while :; do x=$x$x; done";
    c.start_with(2, eater, with(mem));
    let naps = format!("echo on >on; sleep {0} & sleep {0}", tool.nap());
    c.start_with(3, &naps, with(limits));
    c.start_exe();
    let end = c.end(1);
    assert_eq!((end.code, end.post_failed), (Some(6), false), "{end:?}");
    let who = std::fs::read_to_string(open.join("who")).unwrap();
    let wanted = format!("{}\nimage\n{}\n1 given {home}\n", user.uid, open.display());
    assert_eq!(who, wanted);
    let end = c.end(2);
    killed_alone_for_its_memory(&end, 96 << 10);
    // The tool's own threads count.
    let counted = tool.runtime == ContainerRuntime::Podman;
    processes_and_cpu_time_are_held(&mut c, (100, counted), |limits| Box::new(with(limits)));
    c.wait_file("open/on");
    let end = c.kill(3);
    assert!(!end.post_failed, "{end:?}");
    tool.nothing_is_left();
    tool.run(&format!("rmi {name}"));
}

/// Podman without root.
#[test]
fn podman_runs_jobs_of_ordinary_users() {
    match container_user().filter(|_| has("podman")) {
        Some(user) => images_by_name_run_with(&Tool::podman(user)),
        None => println!("skipped: no podman, or no account in /etc/subuid"),
    }
}

/// Docker for those who may talk to its daemon, in the control group of the job.
#[test]
fn docker_runs_jobs_in_the_jobs_control_group() {
    let own = users::by_uid(users::effective_uid());
    let all = container_user().into_iter().chain(own).map(Tool::docker);
    let cgroupfs = |tool: &Tool| {
        let out = tool.try_run("info --format '{{.CgroupDriver}}'");
        out.stdout.starts_with(b"cgroupfs")
    };
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let used = ["memory", "pids", "cpu", "freezer", "devices", "cpuset"];
    let path = |line: &str| {
        let (names, path) = line.split_once(':')?.1.split_once(':')?;
        let of_job = names.is_empty() || names.split(',').any(|name| used.contains(&name));
        of_job.then(|| path.to_owned())
    };
    let one = groups.lines().filter_map(path).collect::<BTreeSet<_>>();
    match all.into_iter().find(|tool| has("docker") && cgroupfs(tool)) {
        Some(tool) if one.len() == 1 => images_by_name_run_with(&tool),
        Some(_) => println!("skipped: the control groups of this process have different paths"),
        None => println!("skipped: no docker that uses the driver cgroupfs"),
    }
}

#[test]
fn bubblewrap_runs_jobs() {
    jobs_run_in("bubblewrap", "bwrap");
}

#[test]
fn charliecloud_runs_jobs() {
    jobs_run_in("charliecloud", "ch-run");
}

/// A program in place of apptainer that records its arguments and runs the command behind the image.
const RECORDER: &str = r#"#!/bin/sh
printf '<%s>' "$@" >args
while [ "$1" != "$IMAGE" ]; do shift; done
shift; exec "$@"
"#;

#[test]
fn apptainer_gets_the_image_the_options_and_the_binds() {
    let site = site("apptainer");
    let dir = site.work();
    let program = dir.join("apptainer");
    std::fs::write(&program, RECORDER).unwrap();
    fs::chmod(&program, 0o755).unwrap();
    let image = dir.join("a.sif");
    std::fs::write(&image, "").unwrap();
    let (top, image) = (dir.display(), image.to_str().unwrap());
    let env = format!("all, PATH={top}:/usr/bin:/bin, IMAGE={image}");
    let sent = |args: &[&str]| {
        let job = site.csub(&[&["-env", &env][..], args].concat());
        let row = policies::until(&site, job, "EXIT", policies::is("EXIT"));
        let output = std::fs::read_to_string(dir.join("args")).unwrap_or_default();
        (job, row["exit_code"].clone(), output)
    };
    let words = ["-Si", "a.sif", "-So", "--env A=1", "-Sb", "/usr:/d:ro"];
    let command = "echo $LSB_JOBID >seen; exit 6";
    let (job, code, output) = sent(&[&words[..], &[command]].concat());
    assert_eq!(code, 6, "{output}");
    let seen = std::fs::read_to_string(dir.join("seen")).unwrap();
    assert_eq!(seen, format!("{job}\n"));
    assert!(
        output.starts_with(&format!("<exec><--pwd><{top}><--bind>")),
        "{output}"
    );
    let own = format!("<--bind></usr:/d:ro><--env><A=1><{image}></bin/sh><-c><{command}>");
    assert!(output.ends_with(&own), "{output}");
    let page = site.ok("cjobs", &["-l", &job.to_string()]);
    let page: String = page.split_whitespace().collect();
    assert!(
        page.contains("ContainerOptions<--bind/usr:/d:ro--envA=1>"),
        "{page}"
    );
    // The options for any runtime, a script, and an image that this host does not have.
    std::fs::write(dir.join("s.sh"), "exit 7\n").unwrap();
    let (_, code, output) = sent(&["-di", image, "-do", "--nv", "./s.sh"]);
    assert_eq!(code, 7, "{output}");
    assert!(
        output.ends_with(&format!("<--nv><{image}></bin/sh><-c><exit 7>")),
        "{output}"
    );
    // No host has the image: the job is not started, so that there is no exit code.
    assert!(sent(&["-Si", "/no/such.sif", "x"]).1.is_null());
}

#[test]
fn without_a_runtime_and_for_another_one_containers_are_refused() {
    let site = policies::cluster(1, "hosts:\n- {name: h1, slots: 1}\nqueues:\n- {name: q}\n");
    let output = |args: &[&str]| {
        let out = site.run("csub", args);
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(output(&["-di", "/i", "x"]).contains("container_runtime is not set"));
    assert!(output(&["-do", "--x", "x"]).contains("without -di"));
    assert!(output(&["-Si", "/i", "x"]).contains("-Si: this cluster runs no containers"));
    assert!(output(&["-Sb", "/d", "x"]).contains("without -Si"));
    for (runtime, image, hint) in [
        ("podman", "/i", "give the name of an image"),
        ("docker", "/i", "give the name of an image"),
        ("bubblewrap", "i", "give the directory of an image"),
        ("apptainer", "i", "give the file or directory of an image"),
    ] {
        let sections = format!(
            "hosts:\n- {{name: h1, slots: 1}}\nqueues:\n- {{name: q}}\n\
             general: {{container_runtime: {runtime}}}\n"
        );
        policies::configure(&site, &sections);
        assert!(output(&["-di", image, "x"]).contains(hint), "{runtime}");
        if runtime != "apptainer" {
            let refused = output(&["-Si", "/i", "x"]);
            assert!(refused.contains("this cluster does not run Apptainer"));
        }
    }
    let limit = output(&["-Si", "/i", "-So", "--memory 1G", "x"]);
    assert!(limit.contains("beside the job's"), "{limit}");
}
