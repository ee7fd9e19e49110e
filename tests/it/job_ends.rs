//! How jobs end when something ends them: which signals they get, under which names they were
//! submitted, and that an exit code of 0 does not make a success of it.

use crate::executor_bed::{Cluster, attempt};
use corral::model::{RunWarning, SlurmJob, TermReason, WarnedProcesses};
use corral::record::order::{Act, Order};
use corral::record::report::Ended;
use corral::sys::{clock, proc};

/// Specification of a job of `sbatch`.
const SBATCH: u32 = 2;

fn cluster() -> Cluster {
    let mut c = Cluster::new();
    c.spec(SBATCH, |spec| {
        spec.slurm = Some(Box::new(SlurmJob::default()))
    });
    c
}

/// A command that notes each signal, and exits with 0 after TERM.
fn handler(c: &Cluster, name: &str) -> String {
    let path = c.path(name).display().to_string();
    format!(
        "trap 'echo INT >>{path}' INT; trap 'echo TERM >>{path}; exit 0' TERM; \
         trap 'echo USR1 >>{path}' USR1; echo ready >>{path}; while :; do sleep 0.05; done"
    )
}

fn noted(c: &Cluster, name: &str) -> String {
    std::fs::read_to_string(c.path(name)).unwrap()
}

fn until_ready(c: &Cluster, name: &str) {
    assert_eq!(c.wait_file(name), "ready\n");
}

fn has_failed(end: &Ended, reason: TermReason) {
    assert_eq!((end.code, end.reason), (Some(0), reason), "{end:?}");
    assert!(!end.is_success());
}

/// A job of `sbatch` is asked to end by TERM alone; any other first by INT.
#[test]
fn a_handler_that_exits_with_zero_makes_no_success_of_a_kill() {
    let mut c = cluster();
    let (one, two) = (handler(&c, "one"), handler(&c, "two"));
    c.start_of(1, SBATCH, &one);
    c.start_of(2, 1, &two);
    c.start_exe();
    for (id, name) in [(1, "one"), (2, "two")] {
        until_ready(&c, name);
        c.signal_in(id, Act::Terminate, 1, 3_000);
        has_failed(&c.end(id), TermReason::Owner);
    }
    assert_eq!(noted(&c, "one"), "ready\nTERM\n");
    assert_eq!(noted(&c, "two"), "ready\nINT\nTERM\n");
}

#[test]
fn the_run_limit_of_a_job_of_sbatch_begins_with_term() {
    let mut c = cluster();
    let command = handler(&c, "one");
    c.start_with(1, &command, |o| {
        (o.s, o.limits.run_s, o.grace_ms) = (SBATCH, Some(8), 5_000);
    });
    c.start_exe();
    has_failed(&c.end(1), TermReason::RunLimit);
    assert_eq!(noted(&c, "one"), "ready\nTERM\n");
}

/// Processes that a signal stopped handle TERM as well.
#[test]
fn a_job_of_sbatch_that_was_stopped_saves_its_work_when_it_is_cancelled() {
    let mut c = cluster();
    let command = handler(&c, "one");
    c.start_with(1, &command, |o| (o.s, o.grace_ms) = (SBATCH, 5_000));
    c.start_exe();
    until_ready(&c, "one");
    c.signal(1, Act::Number(19), 1);
    let a = attempt(1);
    let (act, reason, grace_ms, n, mark) = (Act::Terminate, TermReason::Requeue, 5_000, 2, 0);
    c.order(&[Order::Signal {
        a,
        act,
        reason,
        grace_ms,
        n,
        mark,
    }]);
    has_failed(&c.end(1), TermReason::Requeue);
    assert_eq!(noted(&c, "one"), "ready\nTERM\n");
}

/// Only those that are meant get the signal: the shell of the script, or what it started.
#[test]
fn a_warning_goes_to_the_shell_or_to_what_it_started() {
    let mut c = cluster();
    let inner = handler(&c, "inner");
    std::fs::write(c.path("inner.sh"), inner).unwrap();
    let run = |name: &str| {
        let (script, mark) = (c.path("inner.sh"), c.path(name));
        let mark = mark.display();
        // The inner shell is a step; the outer one waits for it.
        format!(
            "trap 'echo shell >>{mark}' USR1; sh {} & echo $! >/dev/null; \
             while kill -0 $!; do wait $!; done; echo over >>{mark}",
            script.display()
        )
    };
    let commands = [
        (1, WarnedProcesses::Shell, run("shell")),
        (2, WarnedProcesses::Steps, run("steps")),
    ];
    for (id, to, command) in commands {
        let _ = std::fs::remove_file(c.path("inner"));
        let warn = RunWarning {
            signal: 10,
            before_s: 4,
            to,
        };
        c.start_with(id, &command, |o| {
            (o.s, o.warn, o.limits.run_s) = (SBATCH, Some(warn), Some(12));
        });
        if c.exe.is_none() {
            c.start_exe();
        }
        c.end(id);
        let shell = std::fs::read_to_string(c.path("shell")).unwrap_or_default();
        let steps = std::fs::read_to_string(c.path("steps")).unwrap_or_default();
        let inner = noted(&c, "inner").contains("USR1");
        let outer = (shell.contains("shell"), steps.contains("shell"));
        match to {
            WarnedProcesses::Shell => assert_eq!((outer, inner), ((true, false), false)),
            _ => assert_eq!((outer, inner), ((true, false), true)),
        }
    }
}

/// A signal without a handler ends the job: its warning, and what a person sent.
#[test]
fn an_end_by_a_signal_that_corral_sent_says_why_it_was_sent() {
    let mut c = cluster();
    let warn = RunWarning {
        signal: 10,
        before_s: 60,
        to: WarnedProcesses::All,
    };
    c.start_with(1, "exec sleep 1000", |o| {
        (o.warn, o.limits.run_s) = (Some(warn), Some(61));
    });
    c.start_with(2, "exec sleep 1000", |_| {});
    c.start_exe();
    let end = c.end(1);
    assert_eq!((end.sig, end.reason), (10, TermReason::None), "{end:?}");
    assert_eq!(
        end.text,
        "Corral sent signal USR1 to warn it of its run limit"
    );
    c.started(2);
    c.signal(2, Act::Number(12), 1);
    let end = c.end(2);
    assert_eq!((end.sig, end.reason), (12, TermReason::None), "{end:?}");
    assert_eq!(
        end.text,
        "Corral sent signal USR2 at the request of its owner"
    );
}

/// The shepherd stood still while the command ended by itself and the run limit passed.
#[test]
fn what_had_ended_by_itself_was_not_ended_by_its_limit() {
    let mut c = cluster();
    let go = c.path("go");
    let command = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let run_s: u32 = 8;
    c.start_with(1, &command, |o| o.limits.run_s = Some(run_s.into()));
    c.start_exe();
    let shepherd = c.started(1);
    proc::kill(shepherd, 19).unwrap();
    std::fs::write(&go, "").unwrap();
    clock::sleep_ms(u64::from(run_s + 1) * 1000);
    proc::kill(shepherd, 18).unwrap();
    let end = c.end(1);
    assert_eq!((end.code, end.reason), (Some(0), TermReason::None));
    assert!(end.is_success());
}
