//! A job in the form of sacct, from the view or from an accounting record, and its fields.

use super::fields::memory;
use super::format::moment;
use super::jobs::{ItemScope, SlurmItem, fold};
use super::states::{State, exit_codes};
use crate::model::{JobKey, TermReason};
use crate::record::acct::AttemptRecord;
use crate::text::slurm::long_clock;
use jiff::tz::TimeZone;

/// A job, an element, or the elements of an array that have not started.
#[derive(Clone, Debug)]
pub(crate) struct AcctJob {
    pub key: JobKey,
    /// The id in the form of Slurm, `12_3`.
    pub id: String,
    pub name: String,
    pub queue: String,
    pub submitter: Submitter,
    pub times: JobTimes,
    pub hosts: Vec<(String, u32)>,
    pub requested: Requested,
    pub end: End,
    pub usage: Usage,
    pub cwd: String,
    pub attempt: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Submitter {
    pub user: String,
    pub uid: u32,
    pub project: String,
}

/// Times in milliseconds since the epoch (0: not yet), and how long the job ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobTimes {
    pub submit: i64,
    pub start: i64,
    pub end: i64,
    pub run_ms: u64,
    pub suspended_ms: u64,
}

/// What the job requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requested {
    pub slots: u32,
    pub mem_b: Option<u64>,
    pub run_s: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub state: State,
    pub reason: TermReason,
    pub code: Option<i32>,
    pub sig: i32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub cpu_ms: u64,
    pub maxmem_kb: u64,
}

impl AcctJob {
    pub(crate) fn of_item(item: &SlurmItem, now: i64) -> AcctJob {
        let (row, spec) = (&item.row, &item.spec);
        let started = row.start > 0 && !row.stat.is_waiting();
        AcctJob {
            key: item.key(),
            id: item.text(),
            name: item.name.to_string(),
            queue: spec.queue.clone(),
            submitter: Submitter {
                user: spec.user.clone(),
                uid: spec.uid,
                project: spec.project.clone(),
            },
            times: JobTimes {
                submit: row.submit,
                start: if started { row.start } else { 0 },
                end: if row.stat.is_finished() { row.end } else { 0 },
                run_ms: item.run_s(now) * 1000,
                suspended_ms: row.suspended_ms,
            },
            hosts: row.hosts.iter().map(|h| (h.0.clone(), h.1)).collect(),
            requested: Requested {
                slots: spec.min.max(1),
                mem_b: spec.limits.mem_b,
                run_s: spec.limits.run_s,
            },
            end: End {
                state: item.state(),
                reason: row.reason,
                code: row.code,
                sig: row.sig,
            },
            usage: Usage {
                cpu_ms: row.usage.cpu_ms,
                maxmem_kb: row.usage.maxmem_kb,
            },
            cwd: spec.cwd.clone(),
            attempt: row.attempt,
        }
    }

    pub(crate) fn of_record(r: &AttemptRecord<'_>) -> AcctJob {
        let id = match r.j.idx {
            0 => r.j.id.to_string(),
            idx => format!("{}_{}", r.j.id, idx.saturating_sub(r.shift)),
        };
        let name = if r.name.is_empty() {
            &r.command
        } else {
            &r.name
        };
        let state = match (r.requeued, r.is_done()) {
            (true, _) => State::Requeued,
            (false, true) => State::Completed,
            (false, false) => State::of_end(r.reason),
        };
        let slots = u32::try_from(r.slots()).unwrap_or(u32::MAX);
        AcctJob {
            key: r.j,
            id,
            name: name.to_string(),
            queue: r.queue.to_string(),
            submitter: Submitter {
                user: r.user.to_string(),
                uid: r.uid,
                project: r.project.to_string(),
            },
            times: JobTimes {
                submit: r.submit,
                start: r.start,
                end: r.end,
                run_ms: r.run_ms(),
                suspended_ms: r.susp_ms,
            },
            hosts: r.hosts.iter().map(|h| (h.0.to_string(), h.1)).collect(),
            requested: Requested {
                slots,
                mem_b: r.mem_b,
                run_s: r.run_s,
            },
            end: End {
                state,
                reason: r.reason,
                code: r.code,
                sig: r.sig,
            },
            usage: Usage {
                cpu_ms: r.cpu_ms,
                maxmem_kb: r.maxmem_kb,
            },
            cwd: String::new(),
            attempt: r.at,
        }
    }

    /// Whether it has a batch step, i.e. has started.
    pub(crate) fn has_step(&self) -> bool {
        self.times.start > 0
    }

    fn slots(&self) -> u32 {
        self.hosts.iter().map(|(_, n)| n).sum()
    }

    fn elapsed_s(&self) -> u64 {
        self.times.run_ms / 1000
    }

    fn cpu_s(&self) -> u64 {
        self.elapsed_s() * u64::from(self.slots())
    }
}

/// Whether an item corresponds to an accounting record once it has ended.
pub(crate) fn is_whole(item: &SlurmItem) -> bool {
    !matches!(item.part, ItemScope::Waiting(_))
}

/// A line: the job, or its batch step.
pub(crate) struct Line<'a> {
    pub entry: &'a AcctJob,
    pub step: bool,
    pub cluster: &'a str,
    pub zone: &'a TimeZone,
}

impl Line<'_> {
    /// A text that is only shown in the line of the job.
    fn of_job(&self, text: impl Into<String>) -> String {
        match self.step {
            true => String::new(),
            false => text.into(),
        }
    }

    fn of_step(&self, text: impl Into<String>) -> String {
        match self.step {
            true => text.into(),
            false => String::new(),
        }
    }

    fn id(&self) -> String {
        let step = if self.step { ".batch" } else { "" };
        format!("{}{step}", self.entry.id)
    }

    fn state(&self) -> String {
        let end = self.entry.end;
        match (self.step, end.state, end.reason) {
            (true, state, _) => state.of_step().word().to_owned(),
            (false, State::Cancelled, TermReason::Owner) => {
                format!("CANCELLED by {}", self.entry.submitter.uid)
            }
            (false, state, _) => state.word().to_owned(),
        }
    }

    fn exit(&self) -> String {
        let end = self.entry.end;
        let (job, step) = exit_codes(end.state, end.code, end.sig);
        if self.step { step } else { job }
    }

    /// Number of hosts; a step has those of its host only.
    fn nodes(&self) -> usize {
        match (self.step, self.entry.hosts.len()) {
            (true, _) => 1,
            (false, n) => n,
        }
    }

    fn slots(&self) -> u32 {
        match self.step {
            true => self.entry.hosts.first().map_or(0, |(_, n)| *n),
            false => self.entry.slots(),
        }
    }

    fn tres(&self, mem: bool) -> String {
        let (slots, nodes) = (self.slots(), self.nodes());
        if slots == 0 {
            return String::new();
        }
        let mem = self.entry.requested.mem_b.filter(|_| mem);
        let mem = mem.map_or(String::new(), |b| format!(",mem={}", memory(Some(b))));
        format!("cpu={slots}{mem},node={nodes}")
    }

    fn moment(&self, ms: i64) -> String {
        moment(ms, self.zone, "Unknown")
    }
}

/// `01:02:03`, or below an hour `02:03.456`.
fn cpu_clock(ms: u64) -> String {
    match ms / 1000 {
        s if s >= 3600 => long_clock(s),
        s => format!("{:02}:{:02}.{:03}", s / 60, s % 60, ms % 1000),
    }
}

type Get = fn(&Line<'_>) -> String;

/// A field: name, width, whether it is left-aligned, value.
pub(crate) struct AcctField {
    pub name: &'static str,
    pub width: usize,
    pub left_aligned: bool,
    pub get: Get,
}

const fn field(name: &'static str, width: usize, get: Get) -> AcctField {
    AcctField {
        name,
        width,
        left_aligned: false,
        get,
    }
}

/// Fields of Slurm that are always empty.
fn empty(_: &Line<'_>) -> String {
    String::new()
}

/// All fields.
pub(crate) static FIELDS: &[AcctField] = &[
    AcctField {
        left_aligned: true,
        ..field("JobID", 12, |l| l.id())
    },
    AcctField {
        left_aligned: true,
        ..field("JobIDRaw", 12, |l| l.id())
    },
    field("JobName", 10, |l| match l.step {
        true => "batch".to_owned(),
        false => l.entry.name.clone(),
    }),
    field("Partition", 10, |l| l.of_job(&l.entry.queue)),
    field("Account", 10, |l| l.entry.submitter.project.clone()),
    field("AllocCPUS", 10, |l| l.slots().to_string()),
    field("NCPUS", 10, |l| l.slots().to_string()),
    field("ReqCPUS", 8, |l| match l.step {
        true => l.slots().to_string(),
        false => l.entry.requested.slots.to_string(),
    }),
    field("State", 10, |l| l.state()),
    field("ExitCode", 8, |l| l.exit()),
    field("DerivedExitCode", 15, |l| {
        // There are no other steps from which the code could come.
        l.of_job("0:0")
    }),
    field("Elapsed", 10, |l| long_clock(l.entry.elapsed_s())),
    field("ElapsedRaw", 10, |l| l.entry.elapsed_s().to_string()),
    field("CPUTime", 10, |l| long_clock(l.entry.cpu_s())),
    field("CPUTimeRAW", 10, |l| l.entry.cpu_s().to_string()),
    field("TotalCPU", 10, |l| cpu_clock(l.entry.usage.cpu_ms)),
    field("Submit", 19, |l| match l.step {
        true => l.moment(l.entry.times.start),
        false => l.moment(l.entry.times.submit),
    }),
    field("Eligible", 19, |l| match l.step {
        true => l.moment(l.entry.times.start),
        false => l.moment(l.entry.times.submit),
    }),
    field("Start", 19, |l| l.moment(l.entry.times.start)),
    field("End", 19, |l| l.moment(l.entry.times.end)),
    field("Planned", 10, |l| match l.entry.times {
        t if t.start > 0 && !l.step => {
            long_clock(u64::try_from((t.start - t.submit) / 1000).unwrap_or(0))
        }
        _ => String::new(),
    }),
    field("Suspended", 10, |l| {
        long_clock(l.entry.times.suspended_ms / 1000)
    }),
    field("User", 9, |l| l.of_job(&l.entry.submitter.user)),
    field("UID", 6, |l| l.of_job(l.entry.submitter.uid.to_string())),
    field("Group", 9, |l| {
        l.of_job(super::command_line::group_of(l.entry.submitter.uid))
    }),
    field("MaxRSS", 10, |l| match l.entry.usage.maxmem_kb {
        0 => String::new(),
        kb => l.of_step(format!("{kb}K")),
    }),
    field("AveRSS", 10, |l| match l.entry.usage.maxmem_kb {
        0 => String::new(),
        kb => l.of_step(format!("{kb}K")),
    }),
    field("MaxRSSNode", 10, |l| {
        let host = l.entry.hosts.first();
        l.of_step(host.map_or(String::new(), |(name, _)| name.clone()))
    }),
    field("NTasks", 8, |l| l.of_step("1")),
    field("NNodes", 8, |l| l.nodes().to_string()),
    field("AllocNodes", 10, |l| l.nodes().to_string()),
    field("NodeList", 15, |l| {
        if l.entry.hosts.is_empty() {
            return "None assigned".to_owned();
        }
        let hosts = l
            .entry
            .hosts
            .iter()
            .take(if l.step { 1 } else { usize::MAX });
        fold(&hosts.map(|(name, _)| name.clone()).collect::<Vec<_>>())
    }),
    field("ReqMem", 10, |l| match l.entry.requested.mem_b {
        None => String::new(),
        bytes => l.of_job(memory(bytes)),
    }),
    field("Timelimit", 10, |l| {
        let limit = l.entry.requested.run_s;
        l.of_job(limit.map_or_else(|| "UNLIMITED".to_owned(), long_clock))
    }),
    field("TimelimitRaw", 12, |l| {
        let limit = l.entry.requested.run_s;
        l.of_job(limit.map_or_else(|| "UNLIMITED".to_owned(), |s| s.div_ceil(60).to_string()))
    }),
    field("AllocTRES", 10, |l| l.tres(true)),
    field("ReqTRES", 10, |l| match l.step {
        true => String::new(),
        false => format!("cpu={},node=1", l.entry.requested.slots),
    }),
    field("WorkDir", 20, |l| l.of_job(&l.entry.cwd)),
    field("Cluster", 10, |l| l.cluster.to_owned()),
    field("Restarts", 8, |l| {
        l.of_job(l.entry.attempt.saturating_sub(1).to_string())
    }),
    field("QOS", 10, empty),
    field("WCKey", 10, empty),
    field("Comment", 14, empty),
    field("Reservation", 20, empty),
    field("MaxVMSize", 10, empty),
    field("MaxDiskRead", 12, empty),
    field("MaxDiskWrite", 12, empty),
];

pub(crate) fn by_name(name: &str) -> Option<usize> {
    let name = match name.to_ascii_lowercase().as_str() {
        "reserved" => "Planned".to_owned(),
        _ => name.to_owned(),
    };
    FIELDS
        .iter()
        .position(|f| f.name.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_has_thousandths_below_an_hour() {
        assert_eq!(cpu_clock(62_345), "01:02.345");
        assert_eq!(cpu_clock(3_600_000), "01:00:00");
    }

    #[test]
    fn names_are_known_in_any_case() {
        assert_eq!(by_name("jobid"), Some(0));
        assert_eq!(by_name("Reserved"), by_name("planned"));
        assert_eq!(by_name("nope"), None);
    }
}
