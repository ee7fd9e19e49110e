//! The data of a job for all outputs, and the registry of its fields.
//!
//! Owns field names, aliases, headers and values of `cjobs -o`, `-json` and all job tables. Never
//! decides which jobs are shown or in which order.

use super::cell::{self, int};
use super::dates::Dates;
use super::field::{Field, left as field};
use crate::model::{JobKey, JobStat, PendReason, Spec, Stamp, TermReason};
use crate::record::view::{EstimateRow, JobRow};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// The context shared by all rows of one output.
pub(crate) struct Ctx {
    /// Wall clock when the command started.
    pub now: Stamp,
    pub dates: Dates,
    /// Estimated starts of jobs with reservations; empty if not needed.
    pub estimates: Arc<BTreeMap<JobKey, EstimateRow>>,
    /// Requirements of queues that have one; empty if not needed.
    pub queue_requests: Arc<BTreeMap<String, String>>,
    /// Requirements of applications, by name.
    pub app_requests: Arc<BTreeMap<String, String>>,
}

impl Ctx {
    /// Another context for the same time: each thread needs its own.
    pub(crate) fn same(&self) -> Ctx {
        Ctx {
            now: self.now,
            dates: self.dates.same(),
            estimates: self.estimates.clone(),
            queue_requests: self.queue_requests.clone(),
            app_requests: self.app_requests.clone(),
        }
    }
}

/// One job or element, assembled from the rows of the view.
pub(crate) struct JobView<'a> {
    /// May differ from the row's key: an element that has not started is part of the row of its
    /// array.
    pub key: JobKey,
    pub row: &'a JobRow<'a>,
    pub spec: &'a Spec,
    /// The name without the index.
    pub name: &'a str,
    pub command: &'a str,
    /// Why it waits: its own reason or that of its class.
    pub why: Option<&'a PendReason>,
    pub ctx: &'a Ctx,
}

/// The function that writes the value of a field.
pub(crate) type JobGet = fn(&JobView<'_>, &mut String);

impl<'a> JobView<'a> {
    /// The view of what a row itself states. Elements in the row of their array need another key,
    /// name and command.
    pub(crate) fn of(
        row: &'a JobRow<'a>,
        spec: &'a Spec,
        why: Option<&'a PendReason>,
        ctx: &'a Ctx,
    ) -> JobView<'a> {
        JobView {
            key: row.j,
            row,
            spec,
            name: &row.name,
            command: &row.command,
            why,
            ctx,
        }
    }

    pub(crate) fn stat(&self) -> JobStat {
        self.row.stat
    }

    /// How long it has run without suspensions, ms; `None` before its start.
    pub(crate) fn run_ms(&self) -> Option<u64> {
        let row = self.row;
        if row.start == 0 || row.stat.is_waiting() {
            return None;
        }
        let end = if row.stat.is_finished() {
            row.end
        } else {
            self.ctx.now.0
        };
        let whole = Stamp(end).since_ms(Stamp(row.start));
        Some(whole.saturating_sub(row.suspended_ms))
    }

    /// Time from submission to start, end, or now, ms.
    pub(crate) fn pend_ms(&self) -> u64 {
        let row = self.row;
        let until = match (row.stat.is_waiting(), row.dispatch, row.end) {
            (true, _, _) => self.ctx.now.0,
            (false, 0, end) => end,
            (false, at, _) => at,
        };
        Stamp(until).since_ms(Stamp(row.submit))
    }

    /// Number of slots in use; 0 while it waits.
    pub(crate) fn slots(&self) -> u32 {
        self.row.hosts.iter().map(|h| h.1).sum()
    }

    /// Exit status as in a shell: the code, or 128 plus the signal. `None` if unknown.
    pub(crate) fn exit_status(&self) -> Option<i32> {
        if !self.row.stat.is_finished() {
            return None;
        }
        match (self.row.code, self.row.sig) {
            (Some(code), _) => Some(code),
            (None, 0) => None,
            (None, sig) => Some(128 + sig),
        }
    }

    /// E.g. `h1`, or `2*h1:4*h2`.
    pub(crate) fn put_hosts(&self, out: &mut String, between: &str) {
        for (n, host) in self.row.hosts.iter().enumerate() {
            if n > 0 {
                out.push_str(between);
            }
            if host.1 != 1 {
                int(out, host.1);
                out.push('*');
            }
            out.push_str(&host.0);
        }
    }

    /// `name` or `name[3]`.
    pub(crate) fn put_name(&self, out: &mut String) {
        out.push_str(self.name);
        if self.key.idx > 0 {
            out.push('[');
            int(out, self.key.idx);
            out.push(']');
        }
    }

    /// E.g. `TERM_RUNLIMIT: killed: it reached its run limit`; nothing if it ended by itself.
    pub(crate) fn put_term(&self, out: &mut String) {
        let row = self.row;
        if row.stat.is_finished() && row.reason != TermReason::None {
            out.push_str(row.reason.word());
            out.push_str(": ");
            out.push_str(row.reason.sentence());
            if !row.text.is_empty() {
                out.push_str(" (");
                out.push_str(&row.text);
                out.push(')');
            }
        } else if row.stat.is_finished() && row.oom {
            out.push_str("one of its processes was killed by the out-of-memory killer");
        }
    }
}

/// `123` or `123[4]`.
pub(crate) fn put_key(out: &mut String, key: JobKey) {
    int(out, key.id);
    if key.idx > 0 {
        out.push('[');
        int(out, key.idx);
        out.push(']');
    }
}

/// The reason of a suspension, in words.
pub(crate) fn suspend_sentence(stat: JobStat) -> &'static str {
    match stat {
        JobStat::Ususp => "stopped by its owner or an administrator",
        JobStat::Ssusp => "stopped by the system",
        JobStat::Psusp => "held before its start",
        JobStat::Unkwn => "its host does not answer",
        _ => "",
    }
}

/// The estimated start of a waiting job.
pub(crate) fn estimate<'v>(v: &JobView<'v>) -> Option<&'v EstimateRow> {
    let found = v.ctx.estimates.get(&v.key);
    // The reservation for the next element of an array is under the array's own key.
    let found = found.or_else(|| v.ctx.estimates.get(&JobKey::job(v.key.id)));
    found.filter(|_| v.stat() == JobStat::Pend)
}

/// Seconds until a running job is preempted, if it has been warned.
pub(crate) fn warned_s(v: &JobView<'_>) -> Option<u64> {
    let at = Stamp(v.row.warned);
    let warned = v.stat() == JobStat::Run && at != Stamp(0);
    warned.then(|| at.since_ms(v.ctx.now).div_ceil(1000))
}

/// Which command around its own a started job waits for, if that takes long.
pub(crate) fn running_hook(row: &JobRow<'_>, dates: &Dates) -> Option<String> {
    let hook = row.usage.hook.as_deref()?;
    let (mut since, mut until) = (String::new(), String::new());
    dates.long(&mut since, hook.since);
    dates.long(&mut until, hook.until);
    let what = &hook.what;
    Some(match hook.after {
        true => format!(
            "its command has ended, and its {what} has run since {since}: it is ended at {until}, \
             or earlier by ckill"
        ),
        false => format!(
            "its {what} has run since {since}: it is ended at {until}, and the job earlier by ckill"
        ),
    })
}

/// Appends why a started job does not run: stopped by a user, or the reason of the system.
pub(crate) fn put_suspend(out: &mut String, v: &JobView<'_>) {
    let (stat, halt) = (v.stat(), v.row.halt.as_deref());
    if stat != JobStat::Ssusp || halt.is_none() {
        out.push_str(suspend_sentence(stat));
    }
    if let Some(why) = halt.filter(|_| matches!(stat, JobStat::Ssusp | JobStat::Ususp)) {
        let sep = if stat == JobStat::Ususp {
            "; also "
        } else {
            ""
        };
        write!(out, "{sep}{why}").expect("a string takes every write");
    }
}

fn cpu_clock(out: &mut String, ms: u64) {
    let s = ms / 1000;
    let hours = s / 3600;
    if hours < 100 {
        out.push_str(if hours < 10 { "00" } else { "0" });
    }
    int(out, hours);
    out.push(':');
    super::dates::two_digits(out, (s / 60 % 60).cast_signed());
    out.push(':');
    super::dates::two_digits(out, (s % 60).cast_signed());
    out.push('.');
    super::dates::two_digits(out, (ms % 1000 / 10).cast_signed());
}

pub(super) fn seconds(out: &mut String, ms: u64) {
    cell::fraction(out, ms, 1);
    out.push_str(" second(s)");
}

/// E.g. `2 Mbytes`, `1.5 Gbytes`; nothing for 0.
pub(super) fn amount(out: &mut String, kb: u64) {
    match kb {
        0 => {}
        1..1024 => {
            int(out, kb);
            out.push_str(" Kbytes");
        }
        1024..1_048_576 => {
            int(out, kb / 1024);
            out.push_str(" Mbytes");
        }
        _ => {
            cell::fraction(out, kb / 1024 * 1000 / 1024, 1);
            out.push_str(" Gbytes");
        }
    }
}

pub(super) fn limit_size(out: &mut String, bytes: Option<u64>) {
    if let Some(bytes) = bytes {
        out.push_str(&crate::text::size::human(bytes));
    }
}

fn megabytes(out: &mut String, kb: u64) {
    if kb > 0 {
        int(out, kb.div_ceil(1024));
    }
}

fn pids(out: &mut String, pids: &[u32]) {
    for (n, pid) in pids.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        int(out, *pid);
    }
}

fn percent(v: &JobView<'_>, out: &mut String) {
    if let (Some(run), Some(limit)) = (v.run_ms(), v.spec.limits.run_s)
        && limit > 0
    {
        let done = u128::from(run) / 10 / u128::from(limit);
        int(out, u64::try_from(done.min(100)).unwrap_or(100));
        out.push_str(".00% L");
    }
}

/// When a job ended, or would end by its run limit.
pub(crate) fn expected_end(v: &JobView<'_>, out: &mut String) {
    if let (false, Some(run), Some(limit)) =
        (v.stat().is_finished(), v.run_ms(), v.spec.limits.run_s)
    {
        let left = (limit * 1000).saturating_sub(run).cast_signed();
        v.ctx.dates.short(out, v.ctx.now.0.saturating_add(left));
        out.push_str(" L");
    } else {
        v.ctx.dates.short(out, v.row.end);
    }
}

fn time_left(v: &JobView<'_>, out: &mut String) {
    if let (false, Some(run), Some(limit)) =
        (v.stat().is_finished(), v.run_ms(), v.spec.limits.run_s)
    {
        let left = (limit * 1000).saturating_sub(run) / 60_000;
        int(out, left / 60);
        out.push(':');
        super::dates::two_digits(out, (left % 60).cast_signed());
        out.push_str(" L");
    }
}

/// CPU time per second of run time, with two digits.
fn idle_factor(v: &JobView<'_>, out: &mut String) {
    if let Some(run) = v.run_ms().filter(|ms| *ms > 0) {
        cell::fraction(out, v.row.usage.cpu_ms.saturating_mul(1000) / run, 2);
    }
}

fn pend_reason(v: &JobView<'_>, out: &mut String) {
    if let Some(why) = v.why.filter(|_| v.stat().is_waiting()) {
        use std::fmt::Write as _;
        write!(out, "{why}").expect("a string takes every write");
    }
}

/// An LSF field without a counterpart here yet: `-` in every row.
fn nothing(_: &JobView<'_>, _: &mut String) {}

/// All fields of a job.
pub(crate) static FIELDS: &[Field<JobGet>] = &[
    field("jobid", &["id"], "JOBID", 7, |v, out| put_key(out, v.key)),
    field("jobindex", &["index"], "JOBINDEX", 8, |v, out| {
        int(out, v.key.idx)
    }),
    field("stat", &["status"], "STAT", 5, |v, out| {
        out.push_str(v.stat().word())
    }),
    field("user", &[], "USER", 7, |v, out| out.push_str(&v.spec.user)),
    field("uid", &[], "UID", 6, |v, out| int(out, v.spec.uid)),
    field("queue", &["queue_name"], "QUEUE", 10, |v, out| {
        out.push_str(&v.spec.queue)
    }),
    field("job_name", &["name"], "JOB_NAME", 10, |v, out| {
        v.put_name(out)
    }),
    field(
        "job_description",
        &["description"],
        "JOB_DESCRIPTION",
        17,
        |v, out| {
            out.push_str(&v.spec.description);
        },
    ),
    field(
        "proj_name",
        &["proj", "project"],
        "PROJ_NAME",
        11,
        |v, out| {
            out.push_str(&v.spec.project);
        },
    ),
    field(
        "job_priority",
        &["priority"],
        "JOB_PRIORITY",
        12,
        |v, out| {
            if v.spec.priority > 0 {
                int(out, v.spec.priority);
            }
        },
    ),
    field("dependency", &[], "DEPENDENCY", 15, |v, out| {
        out.push_str(&v.spec.depend)
    }),
    field("command", &["cmd"], "COMMAND", 15, |v, out| {
        out.push_str(v.command)
    }),
    field("pids", &[], "PIDS", 20, |v, out| {
        pids(out, &v.row.usage.pids)
    }),
    field("exit_code", &[], "EXIT_CODE", 10, |v, out| {
        if let Some(code) = v.exit_status() {
            int(out, code);
        }
    }),
    field("exit_signal", &["signal"], "EXIT_SIGNAL", 11, |v, out| {
        if v.row.sig != 0 {
            int(out, v.row.sig);
        }
    }),
    field(
        "exit_reason",
        &["kill_reason"],
        "EXIT_REASON",
        50,
        |v, out| v.put_term(out),
    ),
    field("term_reason", &[], "TERM_REASON", 16, |v, out| {
        if v.stat().is_finished() {
            out.push_str(v.row.reason.word());
        }
    }),
    field(
        "from_host",
        &["submission_host"],
        "FROM_HOST",
        11,
        |v, out| {
            out.push_str(&v.spec.sub_host);
        },
    ),
    field("first_host", &[], "FIRST_HOST", 11, |v, out| {
        if let Some(host) = v.row.hosts.first() {
            out.push_str(&host.0);
        }
    }),
    field(
        "exec_host",
        &["alloc_slot", "alloc_hosts"],
        "EXEC_HOST",
        11,
        |v, out| {
            v.put_hosts(out, ":");
        },
    ),
    field("nexec_host", &[], "NEXEC_HOST", 10, |v, out| {
        int(out, v.row.hosts.len())
    }),
    field("nalloc_slot", &[], "NALLOC_SLOT", 11, |v, out| {
        int(out, v.slots())
    }),
    field("slots", &[], "SLOTS", 5, |v, out| {
        int(
            out,
            if v.row.hosts.is_empty() {
                v.spec.min
            } else {
                v.slots()
            },
        );
    }),
    field("min_req_proc", &[], "MIN_REQ_PROC", 12, |v, out| {
        int(out, v.spec.min)
    }),
    field("max_req_proc", &[], "MAX_REQ_PROC", 12, |v, out| {
        int(out, v.spec.max)
    }),
    field("submit_time", &[], "SUBMIT_TIME", 12, |v, out| {
        v.ctx.dates.short(out, v.row.submit);
    }),
    field("dispatch_time", &[], "DISPATCH_TIME", 13, |v, out| {
        v.ctx.dates.short(out, v.row.dispatch);
    }),
    field("start_time", &[], "START_TIME", 12, |v, out| {
        v.ctx.dates.short(out, v.row.start)
    }),
    field("finish_time", &["end_time"], "FINISH_TIME", 12, |v, out| {
        v.ctx.dates.short(out, v.row.end);
    }),
    field(
        "specified_start_time",
        &["begin_time"],
        "SPECIFIED_START_TIME",
        20,
        |v, out| {
            v.ctx.dates.short(out, v.spec.begin.map_or(0, |t| t.0));
        },
    ),
    field(
        "specified_terminate_time",
        &["deadline"],
        "SPECIFIED_TERMINATE_TIME",
        24,
        |v, out| v.ctx.dates.short(out, v.spec.deadline.map_or(0, |t| t.0)),
    ),
    field("time_left", &[], "TIME_LEFT", 11, time_left),
    field("%complete", &["complete"], "%COMPLETE", 11, percent),
    field("cpu_used", &[], "CPU_USED", 10, |v, out| {
        if v.row.start > 0 {
            seconds(out, v.row.usage.cpu_ms);
        }
    }),
    field("run_time", &[], "RUN_TIME", 15, |v, out| {
        if let Some(ms) = v.run_ms() {
            int(out, ms / 1000);
            out.push_str(" second(s)");
        }
    }),
    field("pend_time", &[], "PEND_TIME", 12, |v, out| {
        int(out, v.pend_ms() / 1000)
    }),
    field("idle_factor", &[], "IDLE_FACTOR", 11, idle_factor),
    field("nreq_slot", &[], "NREQ_SLOT", 10, |v, out| {
        int(out, v.spec.min)
    }),
    field("mem", &[], "MEM", 10, |v, out| {
        amount(out, v.row.usage.mem_kb)
    }),
    field("max_mem", &[], "MAX_MEM", 10, |v, out| {
        amount(out, v.row.usage.maxmem_kb)
    }),
    field("swap", &[], "SWAP", 10, |v, out| {
        amount(out, v.row.usage.swap_kb)
    }),
    field("max_swap", &[], "MAX_SWAP", 10, |v, out| {
        amount(out, v.row.usage.maxswap_kb)
    }),
    field("nthreads", &["nthread"], "NTHREADS", 10, |v, out| {
        if v.row.usage.threads > 0 {
            int(out, v.row.usage.threads);
        }
    }),
    field("gpu_util", &[], "GPU_UTIL", 8, |v, out| {
        let used = v.row.usage.devices();
        if used.gpu_util + used.gpu_mem_mb > 0 {
            int(out, used.gpu_util);
        }
    }),
    field("gpu_mem", &[], "GPU_MEM", 10, |v, out| {
        amount(out, v.row.usage.devices().gpu_mem_mb << 10)
    }),
    field("max_gpu_mem", &[], "MAX_GPU_MEM", 11, |v, out| {
        amount(out, v.row.usage.devices().max_gpu_mem_mb << 10);
    }),
    field("gpu_time", &[], "GPU_TIME", 15, |v, out| {
        let ms = v.row.usage.devices().gpu_ms;
        if ms > 0 {
            seconds(out, ms);
        }
    }),
    field("net_in", &[], "NET_IN", 10, |v, out| {
        amount(out, v.row.usage.devices().net_in_kb)
    }),
    field("net_out", &[], "NET_OUT", 10, |v, out| {
        amount(out, v.row.usage.devices().net_out_kb)
    }),
    field("memlimit", &[], "MEMLIMIT", 10, |v, out| {
        limit_size(out, v.spec.limits.mem_b)
    }),
    field("swaplimit", &[], "SWAPLIMIT", 10, |v, out| {
        limit_size(out, v.spec.limits.swap_b)
    }),
    field("filelimit", &[], "FILELIMIT", 10, |v, out| {
        limit_size(out, v.spec.limits.file_b)
    }),
    field("corelimit", &[], "CORELIMIT", 10, |v, out| {
        limit_size(out, v.spec.limits.core_b)
    }),
    field("stacklimit", &[], "STACKLIMIT", 10, |v, out| {
        limit_size(out, v.spec.limits.stack_b);
    }),
    field("processlimit", &[], "PROCESSLIMIT", 12, |v, out| {
        if let Some(n) = v.spec.limits.procs {
            int(out, n);
        }
    }),
    field("runtimelimit", &["rlimit"], "RUNTIMELIMIT", 12, |v, out| {
        if let Some(s) = v.spec.limits.run_s {
            cell::fraction(out, s * 1000 / 60, 1);
            out.push_str(" min");
        }
    }),
    field(
        "effective_resreq",
        &["eresreq", "combined_resreq"],
        "EFFECTIVE_RESREQ",
        17,
        |v, out| {
            out.push_str(&v.spec.res_req);
        },
    ),
    field("input_file", &[], "INPUT_FILE", 10, |v, out| {
        out.push_str(&v.spec.stdin)
    }),
    field("output_file", &[], "OUTPUT_FILE", 11, |v, out| {
        out.push_str(&v.spec.stdout)
    }),
    field("error_file", &[], "ERROR_FILE", 10, |v, out| {
        out.push_str(&v.spec.stderr)
    }),
    field("sub_cwd", &[], "SUB_CWD", 10, |v, out| {
        out.push_str(&v.spec.cwd)
    }),
    field("exec_cwd", &[], "EXEC_CWD", 10, |v, out| {
        out.push_str(&v.spec.cwd)
    }),
    field("pend_reason", &[], "PEND_REASON", 11, pend_reason),
    field("pend_code", &[], "PEND_CODE", 9, |v, out| {
        if let Some(why) = v.why.filter(|_| v.stat().is_waiting()) {
            int(out, why.code());
        }
    }),
    field("suspend_reason", &[], "SUSPEND_REASON", 14, |v, out| {
        put_suspend(out, v);
    }),
    field("attempt", &[], "ATTEMPT", 7, |v, out| {
        int(out, v.row.attempt)
    }),
    field("key", &[], "KEY", 10, |v, out| out.push_str(&v.row.key)),
    // Values for the wide table: without blanks.
    field("cpu_clock", &[], "CPU_USED", 13, |v, out| {
        cpu_clock(out, v.row.usage.cpu_ms)
    }),
    field("mem_mb", &[], "MEM", 6, |v, out| {
        megabytes(out, v.row.usage.mem_kb)
    }),
    field("swap_mb", &[], "SWAP", 6, |v, out| {
        megabytes(out, v.row.usage.swap_kb)
    }),
    field("submit_date", &[], "SUBMIT_TIME", 14, |v, out| {
        v.ctx.dates.compact(out, v.row.submit);
    }),
    field("start_date", &[], "START_TIME", 14, |v, out| {
        v.ctx.dates.compact(out, v.row.start)
    }),
    field("finish_date", &[], "FINISH_TIME", 14, |v, out| {
        v.ctx.dates.compact(out, v.row.end)
    }),
    field("user_group", &["ugroup"], "USER_GROUP", 15, |v, out| {
        out.push_str(&v.spec.user_group);
    }),
    field("app", &["application"], "APP", 11, |v, out| {
        out.push_str(&v.spec.app);
    }),
    field("service_class", &["sla"], "SERVICE_CLASS", 13, nothing),
    field("job_group", &["group"], "JOB_GROUP", 10, |v, out| {
        out.push_str(&v.spec.job_group);
    }),
    field(
        "pre_exec_command",
        &["pre_cmd"],
        "PRE_EXEC_COMMAND",
        16,
        |v, out| out.push_str(&v.spec.hooks.pre),
    ),
    field(
        "post_exec_command",
        &["post_cmd"],
        "POST_EXEC_COMMAND",
        17,
        |v, out| out.push_str(&v.spec.hooks.post),
    ),
    field(
        "estimated_start_time",
        &["estart_time"],
        "ESTIMATED_START_TIME",
        20,
        |v, out| {
            let at = estimate(v).and_then(|row| row.at);
            v.ctx.dates.short(out, at.unwrap_or(0));
        },
    ),
    field("avg_mem", &[], "AVG_MEM", 10, nothing),
    field(
        "exception_status",
        &["except_stat"],
        "EXCEPTION_STATUS",
        16,
        nothing,
    ),
    field("gpu_num", &["gnum"], "GPU_NUM", 7, nothing),
    field("gpu_alloc", &["galloc"], "GPU_ALLOC", 10, nothing),
    field("pgids", &[], "PGIDS", 10, nothing),
];

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
