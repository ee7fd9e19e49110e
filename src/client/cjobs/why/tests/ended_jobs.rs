//! Scenarios of failed jobs: the cause, with limit and peak, and the advice.

use super::job;
use crate::client::cjobs::why::ended::{Cause, cause};
use crate::client::cjobs::why::page;
use crate::model::{JobKey, JobStat, Limits, Share, Spec, TermReason};
use crate::record::report::Usage;
use crate::record::running_hook::RunningHook;
use crate::record::view::JobRow;
use crate::show::Dates;
use jiff::tz::TimeZone;

fn row(reason: TermReason) -> JobRow<'static> {
    JobRow {
        j: JobKey::job(7),
        stat: JobStat::Exit,
        hosts: vec![Share("h1".into(), 1)],
        start: 1_000_000,
        end: 1_000_000 + 3_605_000,
        reason,
        ..JobRow::default()
    }
}

fn with_code(code: i32) -> JobRow<'static> {
    JobRow {
        code: Some(code),
        ..row(TermReason::None)
    }
}

fn told(row: &JobRow<'_>, limits: Limits) -> Cause {
    let spec = Spec { limits, ..job() };
    cause(row, &spec, &|n| format!("S{n}"))
}

/// The sentence, and the first advice.
fn said(row: &JobRow<'_>) -> (String, String) {
    let cause = told(row, Limits::default());
    let advice = cause.advice.first().cloned().unwrap_or_default();
    (cause.text, advice)
}

#[test]
fn the_run_limit() {
    let limits = Limits {
        run_s: Some(3600),
        ..Limits::default()
    };
    let got = told(&row(TermReason::RunLimit), limits);
    assert_eq!(
        got.text,
        "killed at its run limit of 1h: it had run for 1h5s"
    );
    assert_eq!(got.advice[0], "csub -clone 7 -W 1:30");
    assert_eq!((got.limit.as_str(), got.code), ("1h", "run_limit"));
}

#[test]
fn the_cpu_limit() {
    let limits = Limits {
        cpu_s: Some(120),
        ..Limits::default()
    };
    let mut row = row(TermReason::CpuLimit);
    row.usage.cpu_ms = 121_000;
    let got = told(&row, limits);
    assert_eq!(
        got.text,
        "killed at its CPU time limit of 2m: it had used 2m1s"
    );
    assert_eq!(got.advice[0], "csub -clone 7 -c 0:03");
}

fn peak(reason: TermReason, kb: u64) -> JobRow<'static> {
    JobRow {
        usage: Usage {
            maxmem_kb: kb,
            ..Usage::default()
        },
        ..row(reason)
    }
}

#[test]
fn the_memory_limit() {
    let limits = Limits {
        mem_b: Some(8 << 30),
        ..Limits::default()
    };
    let got = told(&peak(TermReason::MemLimit, 8 << 20), limits);
    assert_eq!(
        got.text,
        "killed at its memory limit of 8G: its peak was 8G"
    );
    assert_eq!(got.advice[0], "csub -clone 7 -mem 12G");
    assert_eq!((got.limit.as_str(), got.usage.as_str()), ("8G", "8G"));
}

/// Limits and reservations apply to each host.
#[test]
fn memory_of_several_hosts_is_not_summed() {
    let limits = Limits {
        mem_b: Some(8 << 30),
        ..Limits::default()
    };
    let mut of_four = peak(TermReason::MemLimit, 26 << 20);
    of_four.hosts = ["h1", "h2", "h3", "h4"].map(|h| Share(h.into(), 1)).into();
    of_four.usage.host_maxmem_kb = 8 << 20;
    let got = told(&of_four, limits.clone());
    assert_eq!(
        got.text,
        "killed at its memory limit of 8G: its peak on one host was 8G"
    );
    assert_eq!(got.advice[0], "csub -clone 7 -mem 12G");
    // An older record has the sum only.
    of_four.usage.host_maxmem_kb = 0;
    assert_eq!(told(&of_four, limits).usage, "6.5G");
    of_four.usage.host_maxmem_kb = 10 << 20;
    of_four.reason = TermReason::Oom;
    let (text, advice) = said(&of_four);
    assert!(text.ends_with("had a peak of 10G on one host"), "{text}");
    assert_eq!(advice, "reserve what it needs: csub -clone 7 -mem 13G");
}

#[test]
fn a_host_without_memory() {
    let (text, advice) = said(&peak(TermReason::Oom, 10 << 20));
    assert!(text.contains("host h1 ran out of memory"), "{text}");
    assert_eq!(advice, "reserve what it needs: csub -clone 7 -mem 13G");
}

#[test]
fn a_success_with_a_process_that_was_killed_for_memory() {
    let done = JobRow {
        stat: JobStat::Done,
        code: Some(0),
        oom: true,
        ..peak(TermReason::None, 1 << 20)
    };
    let (text, _) = said(&done);
    assert!(text.starts_with("it succeeded"), "{text}");
    assert!(text.contains("for lack of memory"), "{text}");
}

#[test]
fn the_limits_of_swap_and_processes() {
    let limits = Limits {
        swap_b: Some(1 << 30),
        procs: Some(16),
        ..Limits::default()
    };
    let got = told(&row(TermReason::SwapLimit), limits.clone());
    assert!(got.text.contains("swap limit of 1G"), "{}", got.text);
    let got = told(&row(TermReason::ProcessLimit), limits);
    assert!(got.text.contains("its limit is 16"), "{}", got.text);
    assert_eq!(got.advice, ["csub -clone 7 -p 32"]);
}

#[test]
fn a_program_that_is_not_there_and_one_that_cannot_be_executed() {
    let (text, advice) = said(&with_code(127));
    assert!(text.contains("did not find its command"), "{text}");
    assert!(advice.contains("whole path"), "{advice}");
    let (text, advice) = said(&with_code(126));
    assert!(text.contains("could not execute"), "{text}");
    assert!(advice.contains("chmod"), "{advice}");
}

#[test]
fn an_exit_code_of_its_own() {
    let (text, advice) = said(&with_code(3));
    assert!(text.contains("exit code 3"), "{text}");
    assert!(advice.contains("output"), "{advice}");
}

#[test]
fn signals_by_a_shell_and_directly() {
    let (text, advice) = said(&with_code(139));
    assert!(
        text.contains("exit code 139") && text.contains("S11"),
        "{text}"
    );
    assert!(advice.contains("stack"), "{advice}");
    let direct = JobRow {
        sig: 9,
        ..row(TermReason::None)
    };
    let (text, advice) = said(&direct);
    assert!(
        text.contains("signal S9, which Corral did not send"),
        "{text}"
    );
    assert!(advice.contains("-mem"), "{advice}");
    // A warning, or a signal that a person sent.
    let sent = "Corral sent signal S10 to warn it of its run limit";
    for row in [
        JobRow {
            sig: 10,
            text: sent.into(),
            ..row(TermReason::None)
        },
        JobRow {
            text: sent.into(),
            ..with_code(138)
        },
    ] {
        let (text, advice) = said(&row);
        assert!(text.ends_with(sent) && text.contains("by signal S10"));
        assert!(!text.contains("did not send"), "{text}");
        assert!(advice.contains("trap"), "{advice}");
    }
}

#[test]
fn what_could_not_be_started() {
    let not = |why: &str| {
        said(&JobRow {
            text: why.into(),
            ..row(TermReason::StartFailed)
        })
    };
    let (text, advice) = not("cannot open output file /no/out: No such file or directory");
    assert!(
        text.contains("could not be started on host h1: cannot open"),
        "{text}"
    );
    assert!(advice.contains("csub -clone"), "{advice}");
    let row = JobRow {
        code: Some(127),
        text: "/x: cannot run the program: No such file or directory".into(),
        ..row(TermReason::StartFailed)
    };
    let got = told(&row, Limits::default());
    assert_eq!((got.code, got.advice.len()), ("no_program", 2));
}

#[test]
fn ends_that_were_ordered_or_not_seen() {
    for (reason, word, advice) in [
        (TermReason::Owner, "owner", "chist -l"),
        (TermReason::Admin, "admin", "the user and the time"),
        (TermReason::Force, "force", "chist -l"),
        (TermReason::HostLost, "host_lost", "-r"),
        (TermReason::ShepherdLost, "shepherd_lost", "cbexe"),
        (TermReason::Fenced, "fenced", "share"),
        (TermReason::Orphan, "orphan", "cdeps"),
        (TermReason::StartTimeout, "start_timeout", "-start-timeout"),
        (TermReason::Preempt, "preempt", "-k"),
        (TermReason::Window, "window", "cqueues"),
        (TermReason::Load, "load", "chosts"),
        (TermReason::Deadline, "deadline", "-t"),
        (TermReason::Units, "units", "CB_ASSIGN_GPU"),
        (TermReason::Replaced, "replaced", "overlap"),
    ] {
        let got = told(&row(reason), Limits::default());
        assert_eq!((got.code, got.text.as_str()), (word, reason.sentence()));
        assert!(got.advice[0].contains(advice), "{word}: {:?}", got.advice);
    }
}

#[test]
fn a_failed_post_exec_command_and_a_core_are_told() {
    let row = JobRow {
        post_failed: true,
        core: true,
        ..with_code(1)
    };
    let (text, _) = said(&row);
    assert!(
        text.contains("post-exec") && text.contains("core dump"),
        "{text}"
    );
}

/// A job that is not over although its command is.
#[test]
fn a_job_that_waits_for_its_post_exec_says_so_and_since_when() {
    let mut row = JobRow {
        stat: JobStat::Run,
        ..with_code(1)
    };
    let mut hook = RunningHook {
        what: "post-exec of the queue".into(),
        after: true,
        since: 1_795_230_429_000,
        until: 1_795_231_029_000,
    };
    let dates = Dates::new(TimeZone::UTC);
    let mut told = |hook: &RunningHook| {
        row.usage.hook = Some(Box::new(hook.clone()));
        page::started(&row, &dates)
    };
    let after = "it waits on h1: its command has ended, and its post-exec of the queue has run \
                 since Sat Nov 21 03:07:09: it is ended at Sat Nov 21 03:17:09, or earlier by ckill";
    assert_eq!(told(&hook), after);
    (hook.after, hook.what) = (false, "pre-exec of the job".into());
    let text = told(&hook);
    assert!(
        text.contains("its pre-exec of the job has run since Sat"),
        "{text}"
    );
}
