//! Checkpoints: a method of the site saves a job by the clock, when asked and before it runs again;
//! a later attempt goes on from what was saved; what fails is said, and nothing waits for ever.

use crate::executor_bed::{Cluster, attempt};
use crate::patience;
use crate::policies;
use corral::model::{AttemptId, Checkpoint, CheckpointAct, ControlAct, Controls, TermReason};
use corral::record::order::{Act, CheckpointOrder, HookOrder, Order, StartOrder};
use corral::record::report::{Ended, Report};
use corral::sys::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn method(dir: &Path, name: &str, script: &str) {
    std::fs::create_dir_all(dir).unwrap();
    let text = format!("#!/bin/sh\n{script}\n");
    fs::publish_mode(&dir.join(name), text.as_bytes(), 0o755).unwrap();
}

/// One that saves what the job has in its file `$PWD/state`, and restarts by an echo.
fn methods(dir: &Path, marks: &Path) {
    let marks = marks.display();
    let save = format!(
        "echo \"$@\" >args; env >env; cp $LS_SUBCWD/state saved || exit 3; echo saved >>{marks}"
    );
    method(dir, "echkpnt.app", &save);
    let restore = format!(
        "echo \"LSB_RESTART_CMD=echo on from $(cat $1/saved) in \\$LSB_CHKPNT_DIR >>{marks}\" \
         >$1/.restart_cmd"
    );
    method(dir, "erestart.app", &restore);
}

fn hooks(c: &Cluster, limit_ms: u64, controls: Controls) -> HookOrder {
    let what = Checkpoint {
        dir: c.path("ck").display().to_string(),
        method: "app".into(),
        ..Checkpoint::default()
    };
    HookOrder {
        pre_ms: 60_000,
        post_ms: 60_000,
        controls,
        checkpoint: Some(CheckpointOrder {
            what,
            methods: c.path("methods").display().to_string(),
            limit_ms,
        }),
        ..HookOrder::default()
    }
}

fn with(order: HookOrder) -> impl FnOnce(&mut StartOrder) {
    move |o| o.hooks = Some(Box::new(order))
}

fn made(c: &Cluster, id: u32) -> String {
    c.wait_for("checkpoint", |r| match r {
        Report::Checkpointed { a, why, .. } if a.j.id == id => Some(why.clone()),
        _ => None,
    })
}

fn end_of(c: &Cluster, of: AttemptId) -> Ended {
    c.wait_for("end", |r| match r {
        Report::Ended(e) if e.a == of => Some((**e).clone()),
        _ => None,
    })
}

const JOB: &str = "echo 7 >state; sleep 1000";

#[test]
fn a_job_is_saved_by_the_clock_and_ended_when_asked_and_goes_on_where_it_was() {
    let mut c = Cluster::new();
    methods(&c.path("methods"), &c.path("marks"));
    let mut by_clock = hooks(&c, 60_000, Controls::default());
    if let Some(all) = &mut by_clock.checkpoint {
        all.what.init_s = 5;
    }
    c.start_with(1, JOB, with(by_clock.clone()));
    c.start_exe();
    assert_eq!(made(&c, 1), "");
    let dir = c.path("ck/1");
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!(read("saved"), "7\n");
    let leader = c.started(1);
    assert!(
        read("args").starts_with(&format!("-d {} ", dir.display())),
        "{leader}"
    );
    // Nothing of the job's own environment leads an administrator's program.
    let env = read("env");
    assert!(
        env.contains("\nLSB_JOBPIDS=") && env.contains("LSB_JOBID=1\n"),
        "{env}"
    );
    assert!(!env.contains("CARGO"), "{env}");
    let mode = std::fs::metadata(&dir).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let act = CheckpointAct {
        kill: true,
        force: true,
        ..CheckpointAct::default()
    };
    c.signal(1, Act::Checkpoint(act), 1);
    assert_eq!(c.end(1).reason, TermReason::Checkpoint);
    assert!(read("args").starts_with("-f -d "), "{}", read("args"));
    c.start_with(1, JOB, |o| {
        o.a.at = 2;
        with(by_clock)(o);
    });
    let again = AttemptId {
        at: 2,
        ..attempt(1)
    };
    assert_eq!(end_of(&c, again).code, Some(0));
    let wanted = format!("on from 7 in {}\n", dir.display());
    assert_eq!(c.marks(), format!("saved\nsaved\n{wanted}"));
}

#[test]
fn what_was_never_saved_begins_from_its_start_and_a_restart_that_fails_is_said() {
    let mut c = Cluster::new();
    methods(&c.path("methods"), &c.path("marks"));
    let mark = c.mark(1);
    let order = hooks(&c, 60_000, Controls::default());
    let own = order.clone();
    c.start_with(1, &mark, |o| {
        o.a.at = 2;
        with(own)(o);
    });
    c.start_exe();
    let again = |id| AttemptId {
        at: 2,
        ..attempt(id)
    };
    assert_eq!(end_of(&c, again(1)).code, Some(0));
    assert_eq!(c.marks(), "1\n");
    method(&c.path("methods"), "erestart.app", "exit 4");
    fs::mkdir_p(&c.path("ck/2"), 0o700).unwrap();
    fs::publish(&c.path("ck/2/.checkpoint"), b"").unwrap();
    c.start_with(2, &mark, |o| {
        o.a.at = 2;
        with(order)(o);
    });
    let end = end_of(&c, again(2));
    assert!(
        end.pre_failed.is_some() && end.text.contains("exited with 4"),
        "{end:?}"
    );
    assert_eq!(c.marks(), "1\n", "it did not begin again");
}

#[test]
fn a_job_that_is_to_run_again_is_saved_first_and_a_method_that_hangs_is_ended() {
    let mut c = Cluster::new();
    methods(&c.path("methods"), &c.path("marks"));
    let order = hooks(&c, 60_000, Controls::default());
    let job = "echo 7 >state; trap 'exit 5' INT; echo on >ready.$LSB_JOBID; \
               while :; do sleep 0.05; done";
    c.start_with(1, job, with(order));
    let order = hooks(&c, 700, Controls::default());
    c.start_with(2, job, with(order));
    c.start_exe();
    c.wait_file("ready.1");
    c.wait_file("ready.2");
    let end = |c: &mut Cluster, id| {
        c.order(&[Order::Signal {
            a: attempt(id),
            act: Act::Terminate,
            reason: TermReason::Preempt,
            grace_ms: 20_000,
            n: 1,
            mark: 0,
        }]);
        let end = c.end(id);
        assert_eq!((end.reason, end.code), (TermReason::Preempt, Some(5)));
    };
    end(&mut c, 1);
    assert_eq!((made(&c, 1).as_str(), c.marks().as_str()), ("", "saved\n"));
    method(&c.path("methods"), "echkpnt.app", "sleep 300");
    end(&mut c, 2);
    assert!(
        made(&c, 2).contains("checkpoint_timeout"),
        "{}",
        made(&c, 2)
    );
}

#[test]
fn a_method_that_others_can_write_saves_nothing_and_one_that_is_missing_starts_nothing() {
    let mut c = Cluster::new();
    methods(&c.path("methods"), &c.path("marks"));
    let controls = Controls {
        suspend: Some(ControlAct::Checkpoint),
        ..Controls::default()
    };
    fs::chmod(&c.path("methods/echkpnt.app"), 0o777).unwrap();
    let order = hooks(&c, 60_000, controls);
    c.start_with(1, JOB, with(order.clone()));
    c.start_exe();
    c.wait_file("state");
    c.signal(1, Act::Stop, 1);
    assert!(made(&c, 1).contains("echkpnt.app"), "{}", made(&c, 1));
    c.wait_for("suspension", |r| {
        matches!(r, Report::Suspended { .. }).then_some(())
    });
    assert_eq!(c.marks(), "");
    c.signal(1, Act::Kill, 2);
    c.end(1);
    let mut order = order;
    if let Some(all) = &mut order.checkpoint {
        all.what.method = "none".into();
    }
    c.start_with(2, JOB, with(order));
    let end = c.end(2);
    assert!(end.text.contains("no checkpoint method none"), "{end:?}");
    assert_eq!(
        (end.reason, end.elsewhere),
        (TermReason::StartFailed, false)
    );
}

#[test]
fn users_ask_for_checkpoints_and_a_requeued_job_goes_on_from_one() {
    let tmp = tempfile::tempdir().unwrap();
    let (dir, marks) = (tmp.path().join("methods"), tmp.path().join("marks"));
    methods(&dir, &marks);
    let site = policies::cluster(
        1,
        &format!(
            "hosts:\n- {{name: h1, slots: 4}}\nqueues:\n- {{name: q}}\n\
             - {{name: saved, chkpnt: '{}/of-queue 30 method=app'}}\n\
             general: {{checkpoint_methods: {}}}\n",
            tmp.path().display(),
            dir.display()
        ),
    );
    let refused = |command: &str, args: &[&str]| {
        let out = site.run(command, args);
        assert!(!out.status.success(), "{args:?}");
        crate::cluster::text(&out)
    };
    let job = site.csub(&["-k", "ck method=app", JOB]);
    policies::until(&site, job, "RUN", policies::is("RUN"));
    patience::until("its state", || site.work().join("state").exists());
    let long = site.ok("cjobs", &["-l", &job.to_string()]);
    assert!(long.contains("method=app"), "{long}");
    let output = site.ok("cchkpnt", &[&job.to_string()]);
    assert!(output.contains("is being checkpointed"), "{output}");
    let words = ["chist", "-l", &job.to_string()].map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    policies::until_said(&site, &words, |output| output.contains("Checkpoint made"));
    site.ok("crequeue", &[&job.to_string()]);
    let row = policies::until(&site, job, "DONE", policies::is("DONE"));
    let marks = || std::fs::read_to_string(&marks).unwrap_or_default();
    assert!(
        marks().starts_with("saved\nsaved\non from 7 in "),
        "{} {row}",
        marks()
    );
    // The queue's own, and jobs without any.
    let of_queue = site.csub(&["-q", "saved", JOB]);
    policies::until(&site, of_queue, "RUN", policies::is("RUN"));
    let plain = site.csub(&["-q", "q", "sleep 1000"]);
    policies::until(&site, plain, "RUN", policies::is("RUN"));
    let refusal = refused("cchkpnt", &[&plain.to_string()]);
    assert!(refusal.contains("no checkpoints (csub -k"), "{refusal}");
    site.ok("cchkpnt", &["-k", &of_queue.to_string()]);
    let row = policies::until(&site, of_queue, "EXIT", policies::is("EXIT"));
    assert_eq!(row["term_reason"], "TERM_CHKPNT", "{row}");
    assert!(
        tmp.path()
            .join(format!("of-queue/{of_queue}/saved"))
            .exists()
    );
    let refusal = refused("csub", &["-k", "ck", "--launch", "tasks", "true"]);
    assert!(
        refusal.contains("-k cannot be given with --launch"),
        "{refusal}"
    );
    assert!(refused("csub", &["-k", "ck x=1", "true"]).contains("is not understood"));
    site.ok("ckill", &[&plain.to_string()]);
}

#[test]
fn a_started_job_goes_on_elsewhere_from_what_was_saved_or_from_its_beginning() {
    let tmp = tempfile::tempdir().unwrap();
    let (dir, marks) = (tmp.path().join("methods"), tmp.path().join("marks"));
    methods(&dir, &marks);
    let site = policies::cluster(
        2,
        &format!(
            "hosts:\n- {{name: h1, slots: 2}}\n- {{name: h2, slots: 2}}\nqueues:\n- {{name: q}}\n\
             general: {{checkpoint_methods: {}}}\n",
            dir.display()
        ),
    );
    let wait_file = |name: &str| {
        patience::until(name, || site.work().join(name).exists());
    };
    let job = site.csub(&["-m", "h1", "-k", "ck method=app", JOB]);
    policies::until(&site, job, "RUN", policies::is("RUN"));
    wait_file("state");
    let output = site.ok("cmig", &["-m", "h2", &job.to_string()]);
    assert!(output.contains("is being migrated"), "{output}");
    policies::until(&site, job, "DONE", policies::is("DONE"));
    let marks = std::fs::read_to_string(&marks).unwrap_or_default();
    assert!(marks.starts_with("saved\non from 7 in "), "{marks}");
    let history = site.ok("chist", &["-l", &job.to_string()]);
    assert!(history.contains("Migration requested by <"), "{history}");
    // From its beginning, on the host that is named.
    let again = "echo $LSB_HOSTS $LSB_RESTART >>runs; [ -n \"$LSB_RESTART\" ] || sleep 1000";
    let rerun = site.csub(&["-m", "h1", "-r", again]);
    policies::until(&site, rerun, "RUN", policies::is("RUN"));
    wait_file("runs");
    site.ok("cmig", &["-m", "all ~h1", &rerun.to_string()]);
    policies::until(&site, rerun, "DONE", policies::is("DONE"));
    let runs = std::fs::read_to_string(site.work().join("runs")).unwrap();
    assert_eq!(runs, "h1\nh2 Y\n");
    let ends = || {
        let format = "term_reason: exec_host: requeued:";
        let ids = [job, rerun].map(|id| id.to_string());
        let args = ["-noheader", "-o", format, &ids[0], &ids[1]];
        // The last one may not be there yet.
        let out = site.run("cacct", &args);
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let want = "TERM_MIGRATE h1 yes\n- h2 -\nTERM_MIGRATE h1 yes\n- h2 -\n";
    // Records wait a second for company.
    patience::until_or(|| ends() == want, ends);
    let plain = site.csub(&["sleep 1000"]);
    policies::until(&site, plain, "RUN", policies::is("RUN"));
    let out = site.run("cmig", &[&plain.to_string()]);
    let output = crate::cluster::text(&out);
    assert!(
        !out.status.success() && output.contains("no checkpoints"),
        "{output}"
    );
    site.ok("ckill", &[&plain.to_string()]);
}

/// Counts in `$PWD/state`, a line to the marks for each step; its method saves the number.
const COUNTS: &str = "echo $TOLD >env.$LSB_JOBID; n=${FROM:-0}; while [ $n -lt 40000 ]; do n=$((n+1)); echo $n >state.new; \
                      mv state.new state; echo $n $LSB_JOBID >>steps; sleep 0.05; done";

#[test]
fn a_job_that_was_saved_and_ended_goes_on_as_a_new_one() {
    let tmp = tempfile::tempdir().unwrap();
    let (dir, marks) = (tmp.path().join("methods"), tmp.path().join("marks"));
    methods(&dir, &marks);
    let go_on = "n=$(cat $1/saved) || exit 5; echo \"$@\" >$1/asked\n\
                 echo \"LSB_RESTART_CMD=FROM=$n; export FROM; . ./job.sh\" >$1/.restart_cmd";
    method(&dir, "erestart.app", &go_on.replace("$1", "${2:-$1}"));
    let site = policies::cluster(
        1,
        &format!(
            "hosts:\n- {{name: h1, slots: 4}}\nqueues:\n- {{name: q}}\n- {{name: other}}\n\
             general: {{clean_period: 10s, checkpoint_methods: {}}}\n",
            dir.display()
        ),
    );
    let work = site.work();
    std::fs::write(work.join("job.sh"), COUNTS).unwrap();
    let output = |args: &[&str]| {
        let out = site.run("crestart", args);
        (out.status.code(), crate::cluster::text(&out))
    };
    let script = "#!/bin/sh\necho \"$TOLD\" >told\n. ./job.sh\n";
    std::fs::write(work.join("script"), script).unwrap();
    let args = [
        "-env",
        "all, TOLD=once",
        "-k",
        "ck method=app",
        "-oo",
        "out",
        "./script",
    ];
    let job = site.csub(&args).to_string();
    let id = job.parse().unwrap();
    policies::until(&site, id, "RUN", policies::is("RUN"));
    patience::until("its state", || work.join("state").exists());
    assert_eq!(output(&["ck", &job]).0, Some(1), "it was never saved");
    site.ok("cchkpnt", &[&job]);
    policies::until_said(&site, &["chist", "-l", &job], |output| {
        output.contains("Checkpoint made")
    });
    let (code, text) = output(&["ck", &job]);
    assert!(
        code == Some(4) && text.contains("has not ended: it continues"),
        "{code:?} {text}"
    );
    site.ok("ckill", &[&job]);
    policies::until(&site, id, "EXIT", policies::is("EXIT"));
    // Until the leader has forgotten it: what lies beside the checkpoint is enough.
    let known = || site.run("cjobs", &["-a", &job]).status.success();
    patience::until("it is forgotten", || !known());
    let saved = std::fs::read_to_string(work.join(format!("ck/{job}/saved"))).unwrap();
    let saved: u32 = saved.trim().parse().unwrap();
    assert!(saved > 0);
    std::fs::remove_file(work.join("told")).unwrap();
    let text = site.ok("crestart", &["-f", "-q", "other", "ck"]);
    assert!(text.contains("is submitted to queue <other>."), "{text}");
    let new = text.split(['<', '>']).nth(1).unwrap().to_owned();
    policies::until(&site, new.parse().unwrap(), "RUN", policies::is("RUN"));
    let steps = || std::fs::read_to_string(work.join("steps")).unwrap();
    let first = format!("{} {new}\n", saved + 1);
    let its = format!(" {new}\n");
    patience::until("a step of the new one", || steps().contains(&its));
    let steps = steps();
    let own: Vec<&str> = steps
        .split_inclusive('\n')
        .filter(|l| l.ends_with(&format!(" {new}\n")))
        .collect();
    assert_eq!(own[0], first, "it goes on after what was saved");
    assert!(!work.join("told").exists(), "its own command was not run");
    let env = std::fs::read_to_string(work.join(format!("env.{new}"))).unwrap();
    assert_eq!(env, "once\n");
    let read = |name: &str| std::fs::read_to_string(work.join(format!("ck/{new}/{name}"))).unwrap();
    assert_eq!(
        read("asked"),
        format!("-f {}\n", work.join(format!("ck/{new}")).display())
    );
    assert!(!work.join(format!("ck/{job}")).exists(), "it was taken up");
    // And again from there.
    site.ok("cchkpnt", &["-k", &new]);
    let row = policies::until(&site, new.parse().unwrap(), "EXIT", policies::is("EXIT"));
    assert_eq!(row["term_reason"], "TERM_CHKPNT", "{row}");
    let text = site.ok("crestart", &["ck", &new]);
    let last = text.split(['<', '>']).nth(1).unwrap().to_owned();
    policies::until(&site, last.parse().unwrap(), "RUN", policies::is("RUN"));
    let long = site.ok("cjobs", &["-l", &last]);
    assert!(
        long.contains("<other>") && long.contains("method=app"),
        "{long}"
    );
    site.ok("ckill", &[&last]);
    assert_eq!(output(&["ck", &job]).0, Some(1), "its checkpoint is gone");
}
