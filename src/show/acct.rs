//! Fields of an accounting record for `cacct -o`, with the names and formats of `cjobs -o`.

use super::cell::{fraction, int};
use super::dates::Dates;
use super::field::{Field, left as field};
use super::job::{amount, limit_size, put_key, seconds};
use crate::model::Money;
use crate::record::acct::AttemptRecord;
use std::fmt::Write as _;

/// A record with the context that its fields need.
pub(crate) struct AcctRow<'a> {
    pub record: &'a AttemptRecord<'a>,
    pub dates: &'a Dates,
    /// In millionths of the currency, if cb.yaml has prices.
    pub cost: Option<u128>,
}

/// The function that writes the value of a field.
pub(crate) type AcctGet = for<'r, 'a> fn(&'r AcctRow<'a>, &mut String);

fn stat(record: &AttemptRecord<'_>) -> &'static str {
    match record.is_done() {
        true => "DONE",
        false => "EXIT",
    }
}

fn name<'a>(record: &'a AttemptRecord<'_>) -> &'a str {
    match &*record.name {
        "" => &record.command,
        name => name,
    }
}

fn hosts(v: &AcctRow<'_>, out: &mut String) {
    for (n, host) in v.record.hosts.iter().enumerate() {
        let gap = if n > 0 { ":" } else { "" };
        let _ = match host.1 {
            1 => write!(out, "{gap}{}", host.0),
            slots => write!(out, "{gap}{slots}*{}", host.0),
        };
    }
}

/// All fields of a record.
pub(crate) static FIELDS: &[Field<AcctGet>] = &[
    field("jobid", &["id"], "JOBID", 7, |v, out| {
        put_key(out, v.record.j);
    }),
    field("jobindex", &["index"], "JOBINDEX", 8, |v, out| {
        if v.record.j.idx > 0 {
            int(out, v.record.j.idx);
        }
    }),
    field("attempt", &[], "ATTEMPT", 7, |v, out| int(out, v.record.at)),
    field("stat", &["status"], "STAT", 5, |v, out| {
        out.push_str(stat(v.record));
    }),
    field("requeued", &[], "REQUEUED", 8, |v, out| {
        if v.record.requeued {
            out.push_str("yes");
        }
    }),
    field("user", &[], "USER", 7, |v, out| {
        out.push_str(&v.record.user)
    }),
    field("uid", &[], "UID", 6, |v, out| int(out, v.record.uid)),
    field("user_group", &["ugroup"], "USER_GROUP", 15, |v, out| {
        out.push_str(&v.record.group);
    }),
    field("queue", &["queue_name"], "QUEUE", 10, |v, out| {
        out.push_str(&v.record.queue);
    }),
    field("app", &["application"], "APP", 11, |v, out| {
        out.push_str(&v.record.app);
    }),
    field(
        "proj_name",
        &["proj", "project"],
        "PROJ_NAME",
        11,
        |v, out| out.push_str(&v.record.project),
    ),
    field("job_name", &["name"], "JOB_NAME", 10, |v, out| {
        out.push_str(name(v.record));
    }),
    field("command", &["cmd"], "COMMAND", 15, |v, out| {
        out.push_str(&v.record.command);
    }),
    field("exit_code", &[], "EXIT_CODE", 10, |v, out| {
        if let Some(code) = v.record.code {
            int(out, code);
        }
    }),
    field("exit_signal", &["signal"], "EXIT_SIGNAL", 11, |v, out| {
        if v.record.sig != 0 {
            int(out, v.record.sig);
        }
    }),
    field("term_reason", &[], "TERM_REASON", 16, |v, out| {
        out.push_str(v.record.reason.word());
    }),
    field("first_host", &[], "FIRST_HOST", 11, |v, out| {
        if let Some(host) = v.record.hosts.first() {
            out.push_str(&host.0);
        }
    }),
    field(
        "exec_host",
        &["alloc_slot", "alloc_hosts"],
        "EXEC_HOST",
        11,
        hosts,
    ),
    field("nexec_host", &[], "NEXEC_HOST", 10, |v, out| {
        int(out, v.record.hosts.len());
    }),
    field("nalloc_slot", &[], "NALLOC_SLOT", 11, |v, out| {
        int(out, v.record.slots());
    }),
    field("slots", &[], "SLOTS", 5, |v, out| {
        int(out, v.record.slots())
    }),
    field("submit_time", &[], "SUBMIT_TIME", 12, |v, out| {
        v.dates.short(out, v.record.submit);
    }),
    field("dispatch_time", &[], "DISPATCH_TIME", 13, |v, out| {
        v.dates.short(out, v.record.dispatch);
    }),
    field("start_time", &[], "START_TIME", 12, |v, out| {
        v.dates.short(out, v.record.start);
    }),
    field("finish_time", &["end_time"], "FINISH_TIME", 12, |v, out| {
        v.dates.short(out, v.record.end);
    }),
    field("pend_time", &[], "PEND_TIME", 12, |v, out| {
        if let Some(ms) = v.record.wait_ms() {
            int(out, ms / 1000);
        }
    }),
    field("run_time", &[], "RUN_TIME", 15, |v, out| {
        if v.record.start > 0 {
            int(out, v.record.run_ms() / 1000);
            out.push_str(" second(s)");
        }
    }),
    field("cpu_used", &[], "CPU_USED", 10, |v, out| {
        if v.record.start > 0 {
            seconds(out, v.record.cpu_ms);
        }
    }),
    field("idle_factor", &[], "IDLE_FACTOR", 11, |v, out| {
        if v.record.run_ms() > 0 {
            let thousandths = v.record.cpu_ms.saturating_mul(1000) / v.record.run_ms();
            fraction(out, thousandths, 2);
        }
    }),
    field("max_mem", &[], "MAX_MEM", 10, |v, out| {
        amount(out, v.record.maxmem_kb);
    }),
    field("max_swap", &[], "MAX_SWAP", 10, |v, out| {
        amount(out, v.record.maxswap_kb);
    }),
    field("max_gpu_mem", &[], "MAX_GPU_MEM", 11, |v, out| {
        amount(out, v.record.max_gpu_mem_mb << 10);
    }),
    field("gpu_time", &[], "GPU_TIME", 15, |v, out| {
        if v.record.gpu_ms > 0 {
            seconds(out, v.record.gpu_ms);
        }
    }),
    field("memlimit", &[], "MEMLIMIT", 10, |v, out| {
        limit_size(out, v.record.mem_b);
    }),
    field("runtimelimit", &["rlimit"], "RUNTIMELIMIT", 12, |v, out| {
        if let Some(s) = v.record.run_s {
            fraction(out, s * 1000 / 60, 1);
            out.push_str(" min");
        }
    }),
    field(
        "effective_resreq",
        &["eresreq", "combined_resreq"],
        "EFFECTIVE_RESREQ",
        17,
        |v, out| out.push_str(&v.record.res_req),
    ),
    field("cost", &[], "COST", 10, |v, out| {
        if let Some(cost) = v.cost {
            let _ = write!(out, "{}", Money(cost));
        }
    }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::job;

    /// Fields that only accounting records have.
    const OWN: &[&str] = &["requeued", "cost"];

    #[test]
    fn fields_have_the_names_and_headers_of_jobs() {
        for field in FIELDS.iter().filter(|f| !OWN.contains(&f.name)) {
            let of_jobs = job::FIELDS.iter().find(|f| f.name == field.name);
            let of_jobs = of_jobs.unwrap_or_else(|| panic!("{}", field.name));
            assert_eq!(
                (field.header, field.aliases, field.width),
                (of_jobs.header, of_jobs.aliases, of_jobs.width),
                "{}",
                field.name
            );
        }
    }
}
