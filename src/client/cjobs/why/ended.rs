//! Why a job failed, and what to do about it, from its row of the view. Pure.
//!
//! Owns the sentence of each cause and the advice. The last lines of the output are read elsewhere.

use crate::model::{JobStat, Spec, TermReason};
use crate::record::view::JobRow;
use crate::task::sent_signal::SENT_SIGNAL;
use crate::text::{duration, size};

/// A raised limit, in percent of what was used or allowed.
const RAISED_PERCENT: u64 = 150;
/// The advised memory, in percent of the peak.
const MEM_PERCENT: u64 = 125;
/// Run limits are advised in steps of this many minutes.
const RUN_STEP_MIN: u64 = 5;
const NOT_EXECUTABLE: [&str; 1] =
    ["chmod +x the program, or name its interpreter: csub bash SCRIPT"];
const NO_PROGRAM: [&str; 1] = ["give the program's whole path, or load its module in the job"];
const NO_PROGRAM_OR_NOT_EXECUTABLE: [&str; 2] = [
    "give the program's whole path, or load its module in the job",
    "chmod +x the program, or name its interpreter: csub bash SCRIPT",
];
const NOT_STARTED: [&str; 2] = [
    "correct the cause on that host and submit the job again: csub -clone",
    "or choose what can be used there: -cwd DIR, -o FILE, -e FILE, -i FILE, -E COMMAND",
];
const SENT_ADVICE: [&str; 1] =
    ["let the job handle that signal (trap), or choose another one: -wa, --signal"];
const MIB: u64 = 1 << 20;

/// What is known about the end of a job.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Cause {
    /// A stable word for scripts.
    pub code: &'static str,
    /// What happened, with limits and peaks.
    pub text: String,
    /// A limit that was reached, and the usage of it, both as users write them.
    pub limit: String,
    pub usage: String,
    pub advice: Vec<String>,
}

/// The cause of an end. `signal` returns the name of a signal.
pub(super) fn cause(row: &JobRow<'_>, spec: &Spec, signal: &dyn Fn(i32) -> String) -> Cause {
    let mut out = match row.reason {
        TermReason::None => own_end(row, signal),
        TermReason::RunLimit => run_limit(row, spec),
        TermReason::CpuLimit => cpu_limit(row, spec),
        TermReason::MemLimit => mem_limit(row, spec),
        TermReason::SwapLimit => swap_limit(row, spec),
        TermReason::ProcessLimit => process_limit(row, spec),
        TermReason::Oom => out_of_memory(row),
        TermReason::StartFailed => not_started(row),
        other => ordered_end(row, other),
    };
    if row.reason.is_memory() && !row.text.is_empty() {
        out.text.push_str("; ");
        out.text.push_str(&row.text);
    }
    if row.oom && row.stat == JobStat::Done {
        out.text.push_str(
            "; one of its processes was killed for lack of memory before, so its results may be \
             incomplete",
        );
        out.advice
            .push(format!("look at the output; {}", more_memory(row)));
    }
    if row.post_failed {
        out.text.push_str("; its post-exec command failed as well");
    }
    if row.core {
        out.text.push_str("; it left a core dump");
    }
    out
}

fn new_cause(code: &'static str, text: impl Into<String>, advice: &[&str]) -> Cause {
    Cause {
        code,
        text: text.into(),
        advice: advice.iter().map(|a| (*a).to_owned()).collect(),
        ..Cause::default()
    }
}

fn own_end(row: &JobRow<'_>, signal: &dyn Fn(i32) -> String) -> Cause {
    match (row.stat, row.code, row.sig) {
        (JobStat::Done, Some(code), _) if code != 0 => new_cause(
            "done",
            format!("it succeeded: exit code {code} is a success (success_exit_values)"),
            &[],
        ),
        (JobStat::Done, ..) => new_cause("done", "it succeeded (exit code 0)", &[]),
        (_, Some(126), _) => new_cause(
            "not_executable",
            "exit code 126: the shell found its command and could not execute it",
            &NOT_EXECUTABLE,
        ),
        (_, Some(127), _) => new_cause(
            "no_program",
            "exit code 127: the shell did not find its command",
            &NO_PROGRAM,
        ),
        (_, Some(code), _) if (129..=192).contains(&code) => {
            let name = signal(code - 128);
            let mut text = format!(
                "exit code {code}: a process that its command waited for was ended by signal \
                 {name}"
            );
            if !is_sent(row) {
                return new_cause("exit_code", text, signal_advice(code - 128));
            }
            text.push_str("; ");
            text.push_str(&row.text);
            new_cause("exit_code", text, &SENT_ADVICE)
        }
        (_, Some(code), _) => new_cause(
            "exit_code",
            format!("its command ended with exit code {code}; Corral did not end it"),
            &["look at the last lines of its output"],
        ),
        (_, None, sig) if sig > 0 && is_sent(row) => {
            let name = signal(sig);
            let text = format!("its command was ended by signal {name}: {}", row.text);
            new_cause("signal", text, &SENT_ADVICE)
        }
        (_, None, sig) if sig > 0 => {
            let name = signal(sig);
            let text = format!("its command was ended by signal {name}, which Corral did not send");
            new_cause("signal", text, signal_advice(sig))
        }
        _ => new_cause(
            "unknown",
            "how it ended is unknown",
            &["chist -l shows its events"],
        ),
    }
}

/// Whether Corral had sent the signal that ended the job: as a warning, or as a person requested.
fn is_sent(row: &JobRow<'_>) -> bool {
    row.text.starts_with(SENT_SIGNAL)
}

/// The usual meaning of a signal that Corral has not sent.
fn signal_advice(sig: i32) -> &'static [&'static str] {
    match sig {
        4 => &[
            "illegal instruction: build the program for this kind of processor, or choose \
                others with -R select[model==...]",
        ],
        6 => &["the program aborted itself: its last messages are in its output"],
        9 => &[
            "another process on the host killed it, or the kernel for lack of memory: request \
             memory with -mem",
        ],
        11 | 7 => {
            &["the program accessed invalid memory: a bug in it, or a stack that is too small (-S)"]
        }
        24 => &["it used up a CPU time limit of its own (ulimit -t)"],
        25 => &["it wrote a file larger than its limit allows (-F, ulimit -f)"],
        _ => &["look at the last lines of its output"],
    }
}

/// How long the job ran, without suspensions.
fn ran_s(row: &JobRow<'_>) -> u64 {
    let ms = u64::try_from(row.end - row.start).unwrap_or(0);
    ms.saturating_sub(row.suspended_ms) / 1000
}

fn run_limit(row: &JobRow<'_>, spec: &Spec) -> Cause {
    let used = duration::exact(ran_s(row));
    let Some(limit_s) = spec.limits.run_s else {
        return new_cause(
            "run_limit",
            format!("killed at the run limit of its queue, after {used}"),
            &["choose a queue with a longer run limit: cqueues -l"],
        );
    };
    let minutes = (limit_s * RAISED_PERCENT / 100).div_ceil(60 * RUN_STEP_MIN) * RUN_STEP_MIN;
    let limit = duration::exact(limit_s);
    let mut out = new_cause(
        "run_limit",
        format!("killed at its run limit of {limit}: it had run for {used}"),
        &[],
    );
    let (h, m) = (minutes / 60, minutes % 60);
    out.advice
        .push(format!("csub -clone {} -W {h}:{m:02}", row.j));
    out.advice
        .push("or let it save its state and continue: csub -k, -signal".to_owned());
    (out.limit, out.usage) = (limit, used);
    out
}

fn cpu_limit(row: &JobRow<'_>, spec: &Spec) -> Cause {
    let used = duration::exact(row.usage.cpu_ms / 1000);
    let limit_s = spec.limits.cpu_s.unwrap_or(row.usage.cpu_ms / 1000);
    let limit = duration::exact(limit_s);
    let text = format!("killed at its CPU time limit of {limit}: it had used {used}");
    let mut out = new_cause("cpu_limit", text, &[]);
    let minutes = (limit_s * RAISED_PERCENT / 100).div_ceil(60).max(1);
    let (h, m) = (minutes / 60, minutes % 60);
    out.advice
        .push(format!("csub -clone {} -c {h}:{m:02}", row.j));
    (out.limit, out.usage) = (limit, used);
    out
}

/// The peak plus a quarter, or one and a half times the reached limit, in whole units.
fn memory_for(row: &JobRow<'_>, limit_b: Option<u64>) -> String {
    let peak_b = host_peak_b(row);
    let bytes = match limit_b {
        Some(limit) => limit.max(peak_b).saturating_mul(RAISED_PERCENT) / 100,
        None => peak_b.saturating_mul(MEM_PERCENT) / 100,
    };
    let mib = bytes.div_ceil(MIB).max(64);
    match mib >= 4096 {
        true => format!("{}G", mib.div_ceil(1024)),
        false => format!("{}M", mib.div_ceil(64) * 64),
    }
}

/// The peak on one host: limits and reservations apply to each host. If it is not known, that of
/// all hosts together, divided among them.
fn host_peak_b(row: &JobRow<'_>) -> u64 {
    let kb = match row.usage.host_maxmem_kb {
        0 => row.usage.maxmem_kb / row.hosts.len().max(1) as u64,
        of_host => of_host,
    };
    kb.saturating_mul(1024)
}

fn more_memory(row: &JobRow<'_>) -> String {
    format!("csub -clone {} -mem {}", row.j, memory_for(row, None))
}

fn mem_limit(row: &JobRow<'_>, spec: &Spec) -> Cause {
    let (peak, several) = (size::human(host_peak_b(row)), row.hosts.len() > 1);
    let Some(limit_b) = spec.limits.mem_b else {
        let text = match several {
            true => format!("killed at its memory limit: its peak on one host was {peak}"),
            false => format!("killed at its memory limit: its peak was {peak}"),
        };
        return new_cause("mem_limit", text, &[]);
    };
    let limit = size::human(limit_b);
    let text = match several {
        true => {
            format!("killed at its memory limit of {limit}: its peak on one host was {peak}")
        }
        false => format!("killed at its memory limit of {limit}: its peak was {peak}"),
    };
    let mut out = new_cause("mem_limit", text, &[]);
    let more = memory_for(row, Some(limit_b));
    out.advice
        .push(format!("csub -clone {} -mem {more}", row.j));
    out.advice
        .push("cacct -advice shows the usage of similar jobs".to_owned());
    (out.limit, out.usage) = (limit, peak);
    out
}

fn swap_limit(row: &JobRow<'_>, spec: &Spec) -> Cause {
    let peak = size::human(row.usage.maxswap_kb.saturating_mul(1024));
    let limit = spec.limits.swap_b.map_or(String::new(), size::human);
    let text = format!("killed at its swap limit of {limit}: its peak was {peak}");
    let mut out = new_cause(
        "swap_limit",
        text,
        &["raise -v, or request more memory: -mem"],
    );
    (out.limit, out.usage) = (limit, peak);
    out
}

fn process_limit(row: &JobRow<'_>, spec: &Spec) -> Cause {
    let limit = spec.limits.procs.map_or(String::new(), |n| n.to_string());
    let text = format!("it could not start another process: its limit is {limit} processes");
    let mut out = new_cause("process_limit", text, &[]);
    if let Some(n) = spec.limits.procs {
        out.advice
            .push(format!("csub -clone {} -p {}", row.j, n * 2));
    }
    (out.limit, out.usage) = (limit, row.usage.procs.to_string());
    out
}

fn out_of_memory(row: &JobRow<'_>) -> Cause {
    let peak = size::human(host_peak_b(row));
    let first = row.hosts.first().map(|share| share.0.as_str());
    let other = row.usage.command_end.as_deref();
    let other = other.filter(|end| end.reason.is_memory());
    let host = other.map(|end| end.host.as_str()).or(first);
    let host = host.unwrap_or("its host");
    let there = match row.hosts.len() > 1 {
        true => " on one host",
        false => "",
    };
    let text = format!(
        "killed by the kernel: host {host} ran out of memory; the job, which had no limit of its \
         own, had a peak of {peak}{there}"
    );
    let mut out = new_cause("oom", text, &[]);
    out.usage = peak;
    out.advice
        .push(format!("reserve what it needs: {}", more_memory(row)));
    out
}

fn not_started(row: &JobRow<'_>) -> Cause {
    let host = row
        .hosts
        .first()
        .map_or("its host", |share| share.0.as_str());
    let why = match row.text.as_str() {
        "" => "the host does not say why",
        why => why,
    };
    let text = format!("it could not be started on host {host}: {why}");
    // The text says which of the two it is, but it comes from the system, so it is not evaluated.
    let (word, advice): (_, &[&str]) = match row.code {
        Some(127) => ("no_program", &NO_PROGRAM_OR_NOT_EXECUTABLE),
        Some(126) => ("not_executable", &NOT_EXECUTABLE),
        _ => ("not_started", &NOT_STARTED),
    };
    new_cause(word, text, advice)
}

/// Ends that were ordered by a user or the system, and those that were not observed.
fn ordered_end(row: &JobRow<'_>, reason: TermReason) -> Cause {
    let (word, advice): (_, &[&str]) = match reason {
        TermReason::Owner => ("owner", &["chist -l shows the time"]),
        TermReason::Admin => ("admin", &["chist -l shows the user and the time"]),
        TermReason::Force => (
            "force",
            &["its processes may have continued to run: chist -l shows who removed it"],
        ),
        TermReason::Deadline => ("deadline", &["submit it with a later -t, or without"]),
        TermReason::Requeue => ("requeue", &["chist -l shows who requeued it"]),
        TermReason::Preempt => (
            "preempt",
            &["submit it to a queue that is not preempted, or with -r and a checkpoint (-k)"],
        ),
        TermReason::Load => ("load", &["chosts -l shows the thresholds of its host"]),
        TermReason::Window => (
            "window",
            &["give it a run limit that fits the window (cqueues -l), or another queue"],
        ),
        TermReason::Migrate => ("migrate", &["chist -l shows who migrated it"]),
        TermReason::Checkpoint => ("checkpoint", &["crequeue continues it from there"]),
        TermReason::HostLost => (
            "host_lost",
            &["submit it again; with -r it is rerun automatically"],
        ),
        TermReason::ShepherdLost => (
            "shepherd_lost",
            &["an administrator should look at the log of cbexe on its host"],
        ),
        TermReason::Fenced => (
            "fenced",
            &["its host could not reach the share; with -r it is rerun automatically"],
        ),
        TermReason::Orphan => (
            "orphan",
            &[
                "cdeps shows what it depended on; submit it with a dependency that can be met: \
               ended() instead of done()",
            ],
        ),
        TermReason::StartTimeout => (
            "start_timeout",
            &["submit it with a longer -start-timeout, or without"],
        ),
        TermReason::Units => (
            "units",
            &["use the units that CB_ASSIGN_GPU and the like name, no others"],
        ),
        TermReason::Replaced => (
            "replaced",
            &["give its cron job overlap: skip or run, or a longer interval"],
        ),
        _ => ("unknown", &["chist -l shows its events"]),
    };
    let mut text = reason.sentence().to_owned();
    if !row.text.is_empty() {
        text.push_str(": ");
        text.push_str(&row.text);
    }
    new_cause(word, text, advice)
}
