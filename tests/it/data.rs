//! Files that jobs have copied, and their directories for temporary files, which leave nothing
//! behind whatever dies.

use crate::cluster::{Cluster, kill_9};
use crate::executor_bed;
use crate::patience::until;
use crate::policies;
use corral::model::FileCopy;
use corral::record::order::HookOrder;
use corral::sys::{fs, proc, users};
use std::path::Path;

fn site() -> Cluster {
    policies::cluster(
        1,
        "hosts:\n- {name: h1, slots: 4}\nqueues:\n- {name: q}\ngeneral: {pre_exec_retries: 1}\n",
    )
}

#[test]
fn files_are_copied_in_before_and_out_after_the_job() {
    let site = site();
    let dir = site.work();
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    std::fs::create_dir(dir.join("run")).unwrap();
    std::fs::write(dir.join("in"), "input\n").unwrap();
    std::fs::write(dir.join("log"), "before\n").unwrap();
    std::fs::write(dir.join("both"), "1\n").unwrap();
    let copies = [
        "in > in.%J",
        "out < result",
        "log << log",
        "both >< both",
        "in >",
    ];
    let mut args: Vec<&str> = vec!["-cwd", "run"];
    args.extend(copies.iter().flat_map(|copy| ["-f", copy]));
    args.push("cat in.$LSB_JOBID >result; echo after >log; echo 2 >>both; exit 3");
    let id = site.csub(&args);
    let job = policies::until(&site, id, "EXIT", policies::is("EXIT"));
    assert_eq!(job["exit_code"], 3, "{job}");
    assert!(job["text"].is_null(), "{job}");
    assert_eq!(job["file_copies"][2]["operator"], "<<", "{job}");
    assert_eq!(read("out"), "input\n");
    assert_eq!(read("log"), "before\nafter\n");
    assert_eq!(read("both"), "1\n2\n");
    assert_eq!(read("run/in"), "input\n");
    // One file under both names is left alone.
    let same = site.csub(&["-f", "in >< in", "true"]);
    policies::until(&site, same, "DONE", policies::is("DONE"));
    assert_eq!(read("in"), "input\n");
    // What is missing after the job is said, what is missing before it keeps it from running.
    let late = site.csub(&["-f", "x < nothing", "true"]);
    let job = policies::until(&site, late, "DONE", policies::is("DONE"));
    assert!(
        job["text"].as_str().unwrap().contains("/nothing to "),
        "{job}"
    );
    let missing = site.csub(&["-f", "missing > here", "touch ran"]);
    let job = policies::until(&site, missing, "PSUSP", policies::is("PSUSP"));
    assert!(
        job.to_string().contains("(csub -f) exited with 66"),
        "{job}"
    );
    assert!(!dir.join("ran").exists());
    site.ok("cmod", &["-fn", &missing.to_string()]);
    site.ok("cresume", &[&missing.to_string()]);
    policies::until(&site, missing, "DONE", policies::is("DONE"));
    for wrong in ["in", "in > a b", "in >> a", "in > a/"] {
        assert!(
            !site.run("csub", &["-f", wrong, "true"]).status.success(),
            "{wrong}"
        );
    }
}

/// The directory of a job, once it said so.
fn tmp_of(c: &executor_bed::Cluster, name: &str) -> String {
    c.wait_file(name).trim().to_owned()
}

fn gone(path: &str) {
    until(&format!("{path} goes"), || !Path::new(path).exists());
}

/// A copy reads and writes what the job's user may, whoever submits or runs the daemons; so does the
/// removal of what a killed shepherd left.
#[test]
fn copies_and_temporary_files_are_the_users() {
    if !users::may_switch() {
        println!("skipped: not root");
        return;
    }
    let (mut c, uid) = (executor_bed::Cluster::new(), 65_534);
    fs::chmod(c.dir.path(), 0o755).unwrap();
    let (secret, open) = (c.path("secret"), c.path("open"));
    fs::publish_mode(&secret, b"s\n", 0o600).unwrap();
    fs::mkdir_p(&open, 0o755).unwrap();
    fs::chmod(&open, 0o777).unwrap();
    let file = |from: &Path, way: &str, to: &Path| {
        FileCopy::parse(&format!("{} {way} {}", from.display(), to.display())).unwrap()
    };
    let hooks = HookOrder {
        pre_ms: 60_000,
        post_ms: 60_000,
        ..HookOrder::default()
    };
    let start = |c: &mut executor_bed::Cluster, id: u32, copy: FileCopy, command: &str| {
        c.spec(id, |spec| {
            (spec.uid, spec.user, spec.cwd) = (uid, "nobody".into(), "/".into());
            spec.files = vec![copy];
        });
        let hooks = Some(Box::new(hooks.clone()));
        c.start_with(id, command, move |o| (o.s, o.hooks) = (id, hooks));
    };
    let (root_only, stolen) = (c.path("root-only"), open.join("stolen"));
    start(&mut c, 2, file(&secret, ">", &stolen), "true");
    start(&mut c, 3, file(&root_only, "<", &open.join("out")), "true");
    let say = open.join("tmp").display().to_string();
    let job = format!("touch $TMPDIR/f; echo $TMPDIR >{say}; exec sleep 994.7");
    start(
        &mut c,
        4,
        file(&open.join("late"), "<", &open.join("none")),
        &job,
    );
    c.start_exe();
    let end = c.end(2);
    assert!(
        end.pre_failed.is_some() && end.text.contains("exited with 1"),
        "{end:?}"
    );
    assert!(!stolen.exists());
    let end = c.end(3);
    assert_eq!(
        (end.code, end.post_failed, root_only.exists()),
        (Some(0), true, false)
    );
    let tmp = tmp_of(&c, "open/tmp");
    assert_eq!(fs::stat(tmp.as_ref()).unwrap().unwrap().uid, uid);
    kill_9(c.started(4));
    gone(&tmp);
}

#[test]
fn a_jobs_tmpdir_goes_with_its_shepherd_and_with_a_host_that_was_restarted() {
    let mut c = executor_bed::Cluster::new();
    let job = |c: &executor_bed::Cluster, name: &str| {
        let file = c.path(name).display().to_string();
        format!("mkdir $TMPDIR/d; touch $TMPDIR/d/f; echo $TMPDIR >{file}; exec sleep 994.9")
    };
    c.start_of(1, 1, &job(&c, "one"));
    c.start_of(2, 1, &job(&c, "two"));
    c.start_exe();
    let (one, two) = (tmp_of(&c, "one"), tmp_of(&c, "two"));
    assert!(Path::new(&one).join("d/f").exists());
    kill_9(c.started(1));
    gone(&one);
    assert!(Path::new(&two).exists(), "only of the shepherd that died");
    // Everything dies at once, as at a restart of the host; another executor comes.
    let exe = c.exe.as_ref().unwrap().id() as i32;
    let spawner = proc::children(exe);
    let shepherd = c.started(2);
    c.kill_exe();
    spawner.into_iter().for_each(kill_9);
    let left = proc::children(shepherd);
    kill_9(shepherd);
    left.into_iter().for_each(kill_9);
    assert!(Path::new(&two).exists());
    c.start_exe();
    gone(&two);
    c.end(2);
    // And one that is in no record of this host any more.
    let lost = format!("{two}77");
    fs::mkdir(lost.as_ref(), 0o700).unwrap();
    c.restart_exe();
    gone(&lost);
}
