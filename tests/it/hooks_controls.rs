//! What a queue sets around and in the place of what Corral does with its jobs: the words that start
//! a command, the acts that suspend, resume and terminate.

use crate::cluster::exists;
use crate::executor_bed::Cluster;
use crate::patience::until_or;
use crate::policies;
use corral::model::{ControlAct, Controls, TermReason};
use corral::record::order::{Act, HookOrder, StartOrder};
use corral::record::report::Report;
use corral::sys::fs;

fn program(c: &Cluster, name: &str, script: &str) -> String {
    let path = c.path(name);
    let text = format!("#!/bin/sh\n{script}\n");
    fs::publish_mode(&path, text.as_bytes(), 0o755).unwrap();
    path.to_str().unwrap().to_owned()
}

fn with(order: HookOrder) -> impl FnOnce(&mut StartOrder) {
    move |o| o.hooks = Some(Box::new(order))
}

fn marked(c: &Cluster, text: &str) {
    c.wait_mark(text);
}

#[test]
fn a_starter_stands_around_the_command_and_before_a_script() {
    let mut c = Cluster::new();
    let marks = c.path("marks").display().to_string();
    let starter = |words: &str| {
        with(HookOrder {
            starter: words.to_owned(),
            ..HookOrder::default()
        })
    };
    c.start_with(
        1,
        &format!("echo one >>{marks}"),
        starter(&format!("(%USRCMD; echo two) >>{marks};")),
    );
    let script = b"echo script $WHO\n";
    let sha = corral::model::sha256_hex(script);
    let blob = c.layout.blob(&sha);
    fs::mkdir_p(fs::parent(&blob), 0o755).unwrap();
    fs::publish(&blob, script).unwrap();
    c.spec(2, |spec| {
        spec.script = sha;
        spec.stdout = "/dev/null".into();
    });
    c.start_exe();
    assert_eq!(c.end(1).code, Some(0));
    let words = format!("WHO=me >>{marks}");
    c.start_with(2, "s.sh", move |o| {
        o.s = 2;
        starter(&words)(o);
    });
    assert_eq!(c.end(2).code, Some(0));
    assert_eq!(c.marks(), "one\ntwo\nscript me\n");
}

#[test]
fn signals_and_programs_of_the_queue_take_the_place_of_ours() {
    let mut c = Cluster::new();
    let marks = c.path("marks").display().to_string();
    let say = |what: &str| format!("echo {what}:$CB_JOB_CONTROL:$CB_JOBID >>{marks}");
    let resume = program(&c, "resume", &say("resume"));
    // It ends the job by itself, and says what it was told.
    let end = format!("{}\nkill -TERM $LSB_JOBPIDS", say("end:$CB_TERM_REASON"));
    let terminate = program(&c, "terminate", &end);
    let controls = Controls {
        suspend: Some(ControlAct::Signal(10)),
        resume: Some(ControlAct::Program(resume)),
        terminate: Some(ControlAct::Program(format!("{terminate} -v"))),
    };
    let job = format!(
        "trap 'echo usr1 >>{marks}' USR1\ntrap 'echo int >>{marks}' INT\n\
         trap 'echo term >>{marks}; exit 5' TERM\necho ready >>{marks}\n\
         while :; do sleep 0.05; done"
    );
    c.start_with(
        1,
        &job,
        with(HookOrder {
            controls,
            ..HookOrder::default()
        }),
    );
    c.start_exe();
    marked(&c, "ready");
    c.signal(1, Act::Stop, 1);
    marked(&c, "usr1");
    c.wait_for("suspension", |r| {
        matches!(r, Report::Suspended { .. }).then_some(())
    });
    c.signal(1, Act::Resume, 2);
    marked(&c, "resume:resume:1");
    c.signal_in(1, Act::Terminate, 3, 5_000);
    let end = c.end(1);
    assert_eq!((end.reason, end.code), (TermReason::Owner, Some(5)));
    let marks = c.marks();
    assert!(
        marks.contains("end:TERM_OWNER:terminate:1") && marks.contains("term\n"),
        "{marks}"
    );
    assert!(!marks.contains("int\n"), "{marks}");
}

#[test]
fn a_program_that_hangs_is_ended_and_one_that_others_can_write_is_not_run() {
    let mut c = Cluster::new();
    let marks = c.path("marks").display().to_string();
    let hang = program(
        &c,
        "hang",
        &format!("echo $$ >{marks}.pid\nexec sleep 995.75"),
    );
    let open = program(&c, "open", &format!("echo never >>{marks}"));
    fs::chmod(open.as_ref(), 0o777).unwrap();
    let act = |program: &str| {
        with(HookOrder {
            controls: Controls {
                terminate: Some(ControlAct::Program(program.to_owned())),
                ..Controls::default()
            },
            ..HookOrder::default()
        })
    };
    // The job heeds nothing but the kill; the program has two graces.
    let job = format!("trap '' INT TERM; echo ready >>{marks}; while :; do sleep 0.05; done");
    c.start_with(1, &job, act(&hang));
    c.start_exe();
    marked(&c, "ready");
    c.signal_in(1, Act::Terminate, 1, 2_000);
    let end = c.end(1);
    assert_eq!((end.reason, end.sig), (TermReason::Owner, 9));
    let pid = std::fs::read_to_string(format!("{marks}.pid")).unwrap();
    assert!(!exists(pid.trim().parse().unwrap()));
    // INT in its place.
    let job = format!("trap 'exit 4' INT; echo again >>{marks}; while :; do sleep 0.05; done");
    c.start_with(2, &job, act(&open));
    marked(&c, "again");
    c.signal_in(2, Act::Terminate, 1, 5_000);
    let end = c.end(2);
    assert_eq!((end.reason, end.code), (TermReason::Owner, Some(4)));
    assert!(!c.marks().contains("never"));
}

/// From cb.yaml to the job: the way of these settings through leader and orders.
#[test]
fn settings_of_a_queue_reach_its_jobs() {
    let site = policies::cluster(1, "hosts:\n- {name: h1, slots: 2}\nqueues:\n- {name: q}\n");
    let (dir, work) = (site.dir(), site.work());
    let end = dir.join("end");
    let script = format!(
        "#!/bin/sh\necho $CB_JOB_CONTROL $LSB_JOBID >{}/ended\n",
        work.display()
    );
    fs::publish_mode(&end, script.as_bytes(), 0o755).unwrap();
    policies::configure(
        &site,
        &format!(
            "hosts:\n- {{name: h1, slots: 2}}\nqueues:\n- name: q\n  job_starter: 'exec /usr/bin/env WHO=starter'\n\
             \x20 job_controls: {{suspend: USR1, terminate: {}}}\ngeneral: {{job_terminate_interval: 1}}\n",
            end.display()
        ),
    );
    let shown = site.ok("cqueues", &["-l", "q"]);
    assert!(
        shown.contains("JOB_STARTER") && shown.contains("TERMINATE_CONTROL"),
        "{shown}"
    );
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap_or_default();
    let plain = site.csub(&["sh -c 'echo $WHO >who'"]);
    policies::until(&site, plain, "DONE", policies::is("DONE"));
    assert_eq!(read("who"), "starter\n");
    let job = "trap 'echo usr1 >usr1' USR1; echo on >on; while :; do sleep 0.05; done";
    let long = site.csub(&[&format!("sh -c \"{job}\"")]);
    let wait = |name: &str| {
        let known = || format!("no {name}: {}", site.logs());
        until_or(|| !read(name).is_empty(), known);
    };
    wait("on");
    site.ok("cstop", &[&long.to_string()]);
    wait("usr1");
    site.ok("ckill", &[&long.to_string()]);
    wait("ended");
    assert_eq!(read("ended"), format!("terminate {long}\n"));
    // The program ends nothing: what follows it does.
    let row = policies::until(&site, long, "EXIT", policies::is("EXIT"));
    assert_eq!(row["term_reason"], "TERM_OWNER", "{row}");
}
