//! What runs around a job's command: order, identity, environment, and that neither their failures
//! nor the deaths of daemons run a job twice or lose its end.

use crate::cluster::kill_9;
use crate::executor_bed::{Cluster, attempt};
use crate::policies;
use corral::model::{HookOf, RunWarning, TermReason, WarnedProcesses};
use corral::record::order::{Act, HookOrder, StartOrder};
use corral::record::report::Report;
use corral::sys::{clock, fs, users};
use std::path::Path;

/// A program of the administrator: a script below the test's directory.
fn program(dir: &Path, name: &str, script: &str) -> String {
    let path = dir.join(name);
    let text = format!("#!/bin/sh\n{script}\n");
    fs::publish_mode(&path, text.as_bytes(), 0o755).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A line in the test's file of marks.
fn mark(c: &Cluster, text: &str) -> String {
    format!("echo {text} >>{}", c.path("marks").display())
}

/// A host whose specification 2 has hooks of its own, and what the queue has run.
fn bed() -> (Cluster, HookOrder) {
    let mut c = Cluster::new();
    let own = |name: &str| mark(&c, &format!("{name}:$LSB_JOBEXIT_STAT:$LSB_JOBPEND"));
    let (pre, post) = (own("job-pre"), own("job-post"));
    c.spec(2, |spec| (spec.hooks.pre, spec.hooks.post) = (pre, post));
    let of_queue = |name: &str| {
        let line = mark(&c, &format!("{name}:$LSB_JOBEXIT_STAT:$LSB_JOBPEND"));
        program(c.dir.path(), name, &line)
    };
    let order = HookOrder {
        pre: of_queue("queue-pre"),
        post: of_queue("queue-post"),
        user: String::new(),
        pre_ms: 60_000,
        post_ms: 60_000,
        ..HookOrder::default()
    };
    (c, order)
}

fn with(hooks: &HookOrder) -> impl FnOnce(&mut StartOrder) {
    let hooks = Some(Box::new(hooks.clone()));
    move |o| (o.s, o.hooks) = (2, hooks)
}

#[test]
fn hooks_run_in_their_order_and_learn_the_exit_status() {
    let (mut c, hooks) = bed();
    let job = mark(&c, "job:$LSB_JOBEXIT_STAT:$LSB_JOBPEND") + "; exit 3";
    c.start_with(1, &job, with(&hooks));
    c.start_exe();
    let end = c.end(1);
    assert_eq!((end.code, end.text.as_str()), (Some(3), ""));
    let expected = "queue-pre::\njob-pre::\njob::\njob-post:768:\nqueue-post:768:\n";
    assert_eq!(c.marks(), expected);
}

#[test]
fn a_pre_exec_that_fails_keeps_the_command_from_running() {
    let (mut c, mut hooks) = bed();
    let job = mark(&c, "job");
    hooks.pre = program(c.dir.path(), "refuse", "exit 7");
    c.start_with(1, &job, with(&hooks));
    c.start_exe();
    let end = c.end(1);
    assert_eq!((end.pre_failed, end.code), (Some(HookOf::Queue), None));
    assert!(
        end.unclear && end.text.contains("exited with 7 on host h1"),
        "{end:?}"
    );
    assert_eq!(c.marks(), "queue-post::Y\n");
    // The job's own.
    let own = format!("{}; exit 9", mark(&c, "own"));
    let post = mark(&c, "own-post:$LSB_JOBPEND");
    c.spec(3, |spec| (spec.hooks.pre, spec.hooks.post) = (own, post));
    hooks.pre = String::new();
    c.start_with(2, &job, |o| {
        (o.s, o.hooks) = (3, Some(Box::new(hooks.clone())))
    });
    let end = c.end(2);
    assert_eq!((end.pre_failed, end.elsewhere), (Some(HookOf::Job), false));
    assert_eq!(c.marks(), "queue-post::Y\nown\nown-post:Y\nqueue-post::Y\n");
}

#[test]
fn a_job_that_is_killed_before_its_command_has_not_succeeded_and_is_cleaned_up() {
    let (mut c, mut hooks) = bed();
    // It heeds the first signal and says that all is well.
    let slow = format!(
        "trap 'exit 0' INT TERM\n{}\nsleep 1000 & wait",
        mark(&c, "slow")
    );
    hooks.pre = program(c.dir.path(), "slow", &slow);
    let job = mark(&c, "job");
    c.start_with(1, &job, with(&hooks));
    c.start_exe();
    c.wait_file("marks");
    c.signal(1, Act::Terminate, 1);
    let end = c.end(1);
    assert_eq!(
        (end.reason, end.code, end.pre_failed),
        (TermReason::Owner, None, None)
    );
    assert_eq!(c.marks(), "slow\nqueue-post::Y\n");
}

#[test]
fn post_exec_runs_after_a_kill_and_a_second_kill_does_not_end_it() {
    let (mut c, mut hooks) = bed();
    let slow = format!(
        "{}\nsleep 2\n{}\nexit 5",
        mark(&c, "begun"),
        mark(&c, "cleaned")
    );
    hooks.post = program(c.dir.path(), "slow-post", &slow);
    let job = mark(&c, "job") + "; exec sleep 1000";
    c.start_with(1, &job, with(&hooks));
    c.start_exe();
    c.wait_mark("job\n");
    c.signal(1, Act::Terminate, 1);
    c.wait_mark("begun");
    c.signal(1, Act::Terminate, 2);
    c.signal(1, Act::Stop, 3);
    let end = c.end(1);
    assert_eq!((end.reason, end.sig), (TermReason::Owner, 2));
    assert!(
        end.text.contains("post-exec of the queue exited with 5"),
        "{end:?}"
    );
    let expected = "queue-pre::\njob-pre::\njob\njob-post:2:\nbegun\ncleaned\n";
    assert_eq!(c.marks(), expected);
}

#[test]
fn hooks_have_a_time_limit_and_leave_nothing_behind() {
    let (mut c, mut hooks) = bed();
    hooks.pre_ms = 300;
    hooks.pre = program(c.dir.path(), "endless", "sleep 996.25 & sleep 996.25");
    let job = mark(&c, "job");
    c.start_with(1, &job, with(&hooks));
    c.start_exe();
    let end = c.end(1);
    assert_eq!(end.pre_failed, Some(HookOf::Queue));
    assert!(end.text.contains("time limit"), "{end:?}");
    let left = std::process::Command::new("pgrep")
        .args(["-f", "sleep 996.2[5]"])
        .output();
    assert!(
        left.unwrap().stdout.is_empty(),
        "what it began is killed with it"
    );
    assert_eq!(c.marks(), "queue-post::Y\n");
}

#[test]
fn a_program_that_others_can_write_is_not_run() {
    let (mut c, hooks) = bed();
    fs::chmod(Path::new(&hooks.pre), 0o777).unwrap();
    let job = mark(&c, "job");
    c.start_with(1, &job, with(&hooks));
    // And one in a directory that others can write.
    let open = c.path("open");
    fs::mkdir_p(&open, 0o755).unwrap();
    let inside = program(&open, "inside", &mark(&c, "inside"));
    fs::chmod(&open, 0o777).unwrap();
    let pre = HookOrder {
        pre: inside,
        ..hooks.clone()
    };
    c.start_with(2, &job, with(&pre));
    c.start_exe();
    for id in [1, 2] {
        let end = c.end(id);
        assert_eq!(end.pre_failed, Some(HookOf::Queue));
        assert!(end.text.contains("all users may write"), "{end:?}");
    }
    assert_eq!(c.marks(), "queue-post::Y\nqueue-post::Y\n");
}

/// The end is reported once, after the last hook, whatever daemon dies meanwhile.
#[test]
fn the_end_waits_for_post_exec_through_deaths_of_executor_and_spawner() {
    let (mut c, mut hooks) = bed();
    let gate = c.path("gate");
    let script = format!(
        "{}\nwhile [ ! -e {} ]; do sleep 0.05; done",
        mark(&c, "post"),
        gate.display()
    );
    hooks.post = program(c.dir.path(), "gated", &script);
    let job = mark(&c, "job");
    c.start_with(1, &job, with(&hooks));
    c.start_exe();
    c.wait_mark("post\n");
    let exe = c.exe.as_ref().unwrap().id() as i32;
    let spawner = corral::sys::proc::children(exe);
    c.restart_exe();
    spawner.into_iter().for_each(kill_9);
    clock::sleep_ms(500);
    let is_end = |r: &Report| matches!(r, Report::Ended(e) if e.a == attempt(1));
    let ends = |c: &Cluster| c.reports().1.iter().filter(|(_, r)| is_end(r)).count();
    assert_eq!(ends(&c), 0);
    fs::publish(&gate, b"").unwrap();
    assert_eq!(c.end(1).code, Some(0));
    c.restart_exe();
    assert_eq!(c.end(1).code, Some(0));
    let runs = c.marks().lines().filter(|l| *l == "job").count();
    assert_eq!((runs, c.marks().matches("post\n").count()), (1, 1));
}

/// A queue's hooks run as the account that the administrator names; a job's as the job's user, and
/// nothing of the submitter's environment reaches the queue's.
#[test]
fn only_the_queues_hooks_run_as_another_user() {
    if !users::may_switch() {
        println!("skipped: not root");
        return;
    }
    let (mut c, mut hooks) = bed();
    fs::chmod(c.dir.path(), 0o755).unwrap();
    let marks = c.path("marks");
    fs::publish_mode(&marks, b"", 0o666).unwrap();
    fs::chmod(&marks, 0o666).unwrap();
    let say = |name: &str| mark(&c, &format!("{name}:$(id -u):$SECRET:$LSFUSER:$PWD"));
    let (pre, job) = (say("own"), say("job"));
    let env = br#"{"SECRET":"s","LD_PRELOAD":""}"#;
    let sha = corral::model::sha256_hex(env);
    let blob = c.layout.blob(&sha);
    fs::mkdir_p(fs::parent(&blob), 0o755).unwrap();
    fs::publish(&blob, env).unwrap();
    hooks.pre = program(c.dir.path(), "who", &say("queue"));
    hooks.user = "root".into();
    c.spec(2, |spec| {
        (spec.uid, spec.user, spec.cwd) = (65_534, "nobody".into(), "/".into());
        (spec.env, spec.hooks.pre) = (sha, pre);
    });
    c.start_with(1, &job, with(&hooks));
    c.start_exe();
    assert_eq!(c.end(1).code, Some(0));
    let expected = "queue:0::nobody:/tmp\nown:65534:s:nobody:/tmp\njob:65534:s:nobody:/\n\
                    queue-post:0:\n";
    assert_eq!(c.marks(), expected);
}

/// All processes of a job get the signal, the file says how long they have, and goes with the job.
#[test]
fn a_job_is_warned_before_its_run_limit() {
    let mut c = Cluster::new();
    c.spec(2, |spec| spec.umask = 0o077);
    let out = c.path("marks").display().to_string();
    let inner = format!("trap 'echo inner >>{out}; exit' USR1; sleep 99 & wait");
    let job = format!(
        "trap 'cp $CB_WARNING_FILE {out}.file; echo $CB_WARNING_FILE >>{out}' USR1\n\
         sh -c \"{inner}\" & echo ready >>{out}; while :; do sleep 0.1; done"
    );
    let warn = RunWarning {
        to: WarnedProcesses::All,
        signal: 10,
        before_s: 5,
    };
    c.start_with(1, &job, |o| {
        (o.s, o.warn, o.limits.run_s) = (2, Some(warn), Some(15));
    });
    c.start_exe();
    let end = c.end(1);
    assert_eq!(end.reason, TermReason::RunLimit);
    let marks = c.marks();
    assert_eq!(marks.matches("inner\n").count(), 1, "{marks}");
    let file = std::fs::read_to_string(format!("{out}.file")).unwrap();
    assert!(file.starts_with("reason=run_limit\nat=1"), "{file}");
    assert!(
        ["seconds=4\n", "seconds=5\n"]
            .iter()
            .any(|s| file.ends_with(s)),
        "{file}"
    );
    let path = marks.lines().find(|line| line.starts_with('/')).unwrap();
    assert!(!Path::new(path).exists(), "it goes with the job");
}

/// The whole way: csub, leader, host. A job whose own pre-exec always fails is held in the end.
#[test]
fn jobs_with_hooks_through_a_whole_cluster() {
    let site = policies::cluster(1, "hosts:\n- {name: h1, slots: 2}\nqueues:\n- {name: q}\n");
    let dir = site.dir();
    let pre = program(
        dir,
        "prolog",
        &format!("echo $LSB_JOBID >>{}/seen", dir.display()),
    );
    let sections = format!(
        "hosts:\n- {{name: h1, slots: 2}}\nqueues:\n- {{name: q, pre_exec: {pre}}}\n\
         general: {{pre_exec_retries: 2}}\n"
    );
    policies::configure(&site, &sections);
    let post = format!("echo $LSB_JOBEXIT_STAT >{}/post", dir.display());
    let good = site.csub(&["-E", "true", "-Ep", &post, "exit 4"]);
    let job = policies::until(&site, good, "EXIT", policies::is("EXIT"));
    assert_eq!(job["exit_code"], 4, "{job}");
    assert_eq!(job["post_exec_command"], post.as_str());
    assert_eq!(std::fs::read_to_string(dir.join("post")).unwrap(), "1024\n");
    // What waits for post-exec commands.
    let (ok, wrong) = (format!("post_done({good})"), format!("post_err({good})"));
    let after = site.csub(&["-w", &ok, "true"]);
    policies::until(&site, after, "DONE", policies::is("DONE"));
    let never = site.csub(&["-ti", "-w", &wrong, "true"]);
    policies::until(&site, never, "EXIT", policies::is("EXIT"));
    let bad = site.csub(&["-E", "exit 8", "true"]);
    let job = policies::until(&site, bad, "PSUSP", policies::is("PSUSP"));
    assert!(
        job.to_string()
            .contains("pre-exec of the job exited with 8"),
        "{job}"
    );
    let seen = std::fs::read_to_string(dir.join("seen")).unwrap();
    let times = |id: u32| seen.lines().filter(|l| *l == id.to_string()).count();
    assert_eq!((times(good), times(bad)), (1, 3));
    let long = site
        .ok("cjobs", &["-l", &bad.to_string()])
        .replace("\n                     ", "");
    assert!(long.contains("Pre-execute Command <exit 8>"), "{long}");
    site.ok("cmod", &["-En", &bad.to_string()]);
    site.ok("cresume", &[&bad.to_string()]);
    policies::until(&site, bad, "DONE", policies::is("DONE"));
    let count = format!("echo $CB_ATTEMPT >>{}/tries; exit 9", dir.display());
    let retried = site.csub(&["--retries", "1", &count]);
    let job = policies::until(&site, retried, "EXIT", policies::is("EXIT"));
    assert_eq!((&job["attempt"], &job["retries"]), (&2.into(), &1.into()));
    let tries = std::fs::read_to_string(dir.join("tries")).unwrap();
    assert_eq!(tries, "1\n2\n");
    let excluded = site.csub(&["-Q", "EXCLUDE(20)", "exit 20"]);
    policies::until(&site, excluded, "without a host", |job| {
        job["asked_hosts"] == "all ~h1" && job["stat"] == "PEND"
    });
}
