//! Reports: host -> leader, `hosts/<host>/reports.<n>.yaml`, framed, append-only, one file per
//! start of cbexe (`n` grows). A new file repeats everything the leader has not acknowledged.

use super::device_use::DeviceUse;
use super::running_hook::RunningHook;
use crate::model::{AttemptId, Binding, HookOf, Retry, StartFault, TermReason};
use serde::{Deserialize, Serialize};

/// A report as read from its file.
#[derive(Clone, PartialEq, Debug)]
pub struct ReportRecord {
    /// Sequence number of its record.
    pub seq: u64,
    pub run: RunId,
    pub report: Report,
}

/// The run of an attempt that a report is about: before and after a share was restored from a copy,
/// two runs may have the same id.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RunId {
    /// The mark in the order (`StartOrder::mark`); 0 = none.
    #[serde(rename = "m", skip_serializing_if = "is_zero_u32")]
    pub mark: u32,
    /// The epoch of the leader that ordered it first; 0 = not known.
    #[serde(rename = "e", skip_serializing_if = "is_zero")]
    pub epoch: u64,
}

impl RunId {
    /// A run with this mark, ordered at an unknown time.
    pub fn marked(mark: u32) -> RunId {
        RunId { mark, epoch: 0 }
    }
}

/// A report with its run, for writing.
#[derive(Serialize)]
pub struct MarkedReport<'a> {
    #[serde(flatten)]
    pub report: &'a Report,
    #[serde(flatten)]
    pub run: RunId,
}

/// One report. Applying it twice changes nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum Report {
    /// First report of a file.
    Hello {
        boot: String,
        version: String,
        t: i64,
        /// The host answers each order that a part is over by [`Report::PartOver`].
        #[serde(default, skip_serializing_if = "is_false")]
        parts: bool,
    },
    /// Second report of a file: the ledger that the host keeps. Another one than before means that
    /// the host does not know its earlier orders. `kept`: the ledger is older than its name, so
    /// nothing was forgotten.
    Ledger {
        id: String,
        #[serde(default, skip_serializing_if = "is_false")]
        kept: bool,
    },
    /// The address at which this host receives hints, see [`super::hint::Endpoint`].
    Hints { at: String },
    /// From here on nothing unacknowledged of earlier files is missing: attempts of this host that
    /// the leader believes running and that were not reported here are unknown to the host.
    Complete { boot: String },
    /// The orders of this part are damaged from record `seq` (byte `at`) on, or missing: the host
    /// reads no further. The leader begins another part, which repeats what is in force.
    OrdersDamaged {
        epoch: u64,
        part: u64,
        seq: u64,
        at: u64,
        why: String,
    },
    /// The attempt's process exists.
    Started {
        #[serde(flatten)]
        a: AttemptId,
        pid: u32,
        t: i64,
        /// Its binding, if its queue binds jobs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bind: Option<Box<Binding>>,
    },
    /// The attempt ended; final.
    Ended(Box<Ended>),
    /// The attempt was not started and never will be (from its first host), or its part cannot be
    /// prepared here (from another host).
    Never {
        #[serde(flatten)]
        a: AttemptId,
        why: String,
    },
    /// This host, not the attempt's first, has prepared its part. Repeated with every order for the
    /// part.
    PartReady {
        #[serde(flatten)]
        a: AttemptId,
        /// Its binding, if its queue binds jobs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bind: Option<Box<Binding>>,
    },
    Suspended {
        #[serde(flatten)]
        a: AttemptId,
        t: i64,
    },
    Resumed {
        #[serde(flatten)]
        a: AttemptId,
        t: i64,
    },
    /// Its state was saved, or could not be saved. `why`: empty = it was saved.
    Checkpointed {
        #[serde(flatten)]
        a: AttemptId,
        t: i64,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// Resource use so far.
    Usage {
        #[serde(flatten)]
        a: AttemptId,
        #[serde(flatten)]
        u: Usage,
    },
    /// Usage of the attempt so far on this host, which is not its first.
    PartUsage {
        #[serde(flatten)]
        a: AttemptId,
        #[serde(flatten)]
        u: Usage,
    },
    /// Nothing of the attempt is left on this host.
    PartOver {
        #[serde(flatten)]
        a: AttemptId,
    },
}

impl Report {
    /// The attempt that it is about; `None`: the host itself.
    pub fn attempt(&self) -> Option<AttemptId> {
        match self {
            Report::Hello { .. }
            | Report::Ledger { .. }
            | Report::Hints { .. }
            | Report::Complete { .. }
            | Report::OrdersDamaged { .. } => None,
            Report::Ended(e) => Some(e.a),
            Report::Started { a, .. }
            | Report::Never { a, .. }
            | Report::PartReady { a, .. }
            | Report::Suspended { a, .. }
            | Report::Resumed { a, .. }
            | Report::Checkpointed { a, .. }
            | Report::Usage { a, .. }
            | Report::PartUsage { a, .. }
            | Report::PartOver { a } => Some(*a),
        }
    }
}

/// The end of an attempt.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    #[serde(flatten)]
    pub a: AttemptId,
    /// When it started and ended by the host's clock (ms); `start` 0 = it never ran.
    pub start: i64,
    pub t: i64,
    /// Its top process, for a task whose start may not have been reported; the leader does not
    /// record it, 0 = unknown.
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub pid: u32,
    /// When the leader received it, by the leader's clock (ms); hosts leave it 0.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub known: i64,
    /// The job failed and becomes pending again after a delay: set by the leader, hosts omit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Exit code if it exited; `None` together with `sig` 0 = unknown end, never a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Its exit code is not 0 and counts as a success (`success_exit_values`): set by the leader,
    /// hosts omit it.
    #[serde(skip_serializing_if = "is_false")]
    pub success: bool,
    /// Signal that ended it, 0 = none.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub sig: i32,
    #[serde(skip_serializing_if = "is_false")]
    pub core: bool,
    pub reason: TermReason,
    /// A process of the job was killed because memory ran out, whatever the top process returned.
    #[serde(skip_serializing_if = "is_false")]
    pub oom: bool,
    /// It could not be started because this host lacks something: the job is not at fault and may
    /// be started elsewhere.
    #[serde(skip_serializing_if = "is_false")]
    pub elsewhere: bool,
    /// It could not be started, and it is not known whether the job or this host is at fault: a
    /// file, a directory or an account is missing or not accessible here.
    #[serde(skip_serializing_if = "is_false")]
    pub unclear: bool,
    /// It was not started because its user has no account on this host (named in `text`).
    #[serde(skip_serializing_if = "is_false")]
    pub no_account: bool,
    /// The owner of the pre-exec command that failed: the job's own command never ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_failed: Option<HookOf>,
    /// A command that ran after the job's failed (named in `text`).
    #[serde(skip_serializing_if = "is_false")]
    pub post_failed: bool,
    /// Sentence with details (start errors), or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Usage of hosts after the first that is included in `u`, set by the leader: only additional
    /// usage in their later reports is added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartUse>,
    #[serde(flatten)]
    pub u: Usage,
}

impl Ended {
    /// Who is at fault that it could not be started.
    pub fn fault(&self) -> StartFault {
        match (self.elsewhere, self.unclear || self.no_account) {
            (_, true) => StartFault::Unclear,
            (true, false) => StartFault::Host,
            (false, false) => StartFault::Job,
        }
    }

    pub fn set_fault(&mut self, fault: StartFault) {
        self.elsewhere = fault == StartFault::Host;
        self.unclear = fault == StartFault::Unclear;
    }

    /// Whether the job is DONE after it, unless it runs again. An unknown end is not a success, nor
    /// is the end of a job that a person, a limit or the system ended.
    pub fn is_success(&self) -> bool {
        (self.code == Some(0) || self.success) && self.sig == 0 && self.reason.allows_success()
    }
}

/// Usage of an attempt on a host that is not its first.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PartUse {
    #[serde(rename = "h")]
    pub host: String,
    /// Sums and maxima only.
    #[serde(flatten)]
    pub u: Usage,
}

fn is_false(b: &bool) -> bool {
    !*b
}

fn is_zero_i32(n: &i32) -> bool {
    *n == 0
}

fn is_zero_i64(n: &i64) -> bool {
    *n == 0
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn is_zero_u32(n: &u32) -> bool {
    *n == 0
}

/// Maximum number of wrong units in the sum over the hosts of an attempt.
const WRONG_UNITS_MAX: usize = 16;

/// Resource use of an attempt. Memory in KB, CPU in ms, I/O in KB.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub mem_kb: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub maxmem_kb: u64,
    /// Of a job on several hosts: the largest maximum of one of them; 0: it is not known.
    #[serde(rename = "hm", skip_serializing_if = "is_zero")]
    pub host_maxmem_kb: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub swap_kb: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub maxswap_kb: u64,
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub procs: u32,
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub threads: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub read_kb: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub write_kb: u64,
    /// `None`: no use of GPUs or of the network was observed.
    #[serde(rename = "dv", skip_serializing_if = "Option::is_none")]
    pub devices: Option<Box<DeviceUse>>,
    /// Up to 16 process ids, for `cjobs -W` and `-l`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// For a job that starts tasks: the first ones by rank, for `cjobs -t`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskUse>,
    /// Units that it does not have but its processes use, `gpu 0 (process 77)`.
    #[serde(rename = "wu", skip_serializing_if = "Vec::is_empty")]
    pub wrong_units: Vec<String>,
    /// The first command beside the job's own (`claunch`) that a limit ended.
    #[serde(rename = "ce", skip_serializing_if = "Option::is_none")]
    pub command_end: Option<Box<CommandEnd>>,
    /// The command around its own that runs now, if it takes long.
    #[serde(rename = "hk", skip_serializing_if = "Option::is_none")]
    pub hook: Option<Box<RunningHook>>,
}

/// A command that a job had started by `claunch` was ended: for one of the reasons of
/// [`TermReason::ends_job_of_command`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommandEnd {
    #[serde(rename = "h")]
    pub host: String,
    #[serde(rename = "r")]
    pub reason: TermReason,
}

impl CommandEnd {
    /// The sentence about the job.
    pub fn sentence(&self) -> String {
        let CommandEnd { host, reason } = self;
        let what = match reason.is_memory() {
            true => "ran out of memory",
            false => "was ended by a limit",
        };
        format!("what it had started on host {host} {what}")
    }
}

impl Usage {
    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        let Usage {
            cpu_ms,
            mem_kb,
            maxmem_kb,
            host_maxmem_kb,
            swap_kb,
            maxswap_kb,
            procs,
            threads,
            read_kb,
            write_kb,
            devices,
            pids,
            tasks,
            wrong_units,
            command_end,
            hook,
        } = self;
        let memory = mem_kb | maxmem_kb | host_maxmem_kb | swap_kb | maxswap_kb;
        (cpu_ms | memory | read_kb | write_kb) == 0
            && (procs | threads) == 0
            && devices.is_none()
            && pids.is_empty()
            && tasks.is_empty()
            && wrong_units.is_empty()
            && command_end.is_none()
            && hook.is_none()
    }

    /// The command that runs after the job's own has ended, if it takes long.
    pub fn post_exec(&self) -> Option<&RunningHook> {
        self.hook.as_deref().filter(|hook| hook.after)
    }

    /// Sums and maxima: the figures that remain after the end.
    pub fn totals(&self) -> Usage {
        Usage {
            cpu_ms: self.cpu_ms,
            maxmem_kb: self.maxmem_kb,
            host_maxmem_kb: self.host_maxmem_kb,
            maxswap_kb: self.maxswap_kb,
            read_kb: self.read_kb,
            write_kb: self.write_kb,
            devices: self.devices().totals().boxed(),
            command_end: self.command_end.clone(),
            ..Usage::default()
        }
    }

    /// Its use of GPUs and of the network.
    pub fn devices(&self) -> DeviceUse {
        self.devices.as_deref().copied().unwrap_or_default()
    }

    /// Whether any of its sums or maxima is larger than in `known`.
    pub fn exceeds(&self, known: &Usage) -> bool {
        self.cpu_ms > known.cpu_ms
            || self.maxmem_kb > known.maxmem_kb
            || self.maxswap_kb > known.maxswap_kb
            || self.read_kb > known.read_kb
            || self.write_kb > known.write_kb
            || self.devices().totals().excess_over(known.devices()) != DeviceUse::default()
            || (self.command_end.is_some() && known.command_end.is_none())
    }

    /// Adds usage that a host reports after the end, as far as it exceeds what `parts` has of this
    /// host: repetition changes nothing.
    pub fn add_late_usage(&mut self, parts: &mut Vec<PartUse>, late: &PartUse) {
        let at = parts.iter().position(|known| known.host == late.host);
        let at = at.unwrap_or_else(|| {
            let (host, u) = (late.host.clone(), Usage::default());
            parts.push(PartUse { host, u });
            parts.len() - 1
        });
        let (known, now) = (&mut parts[at].u, &late.u);
        self.note_maxmem_of_host(now.maxmem_kb);
        let all = [
            (&mut self.cpu_ms, &mut known.cpu_ms, now.cpu_ms),
            (&mut self.maxmem_kb, &mut known.maxmem_kb, now.maxmem_kb),
            (&mut self.maxswap_kb, &mut known.maxswap_kb, now.maxswap_kb),
            (&mut self.read_kb, &mut known.read_kb, now.read_kb),
            (&mut self.write_kb, &mut known.write_kb, now.write_kb),
        ];
        for (sum, known, now) in all {
            *sum = sum.saturating_add(now.saturating_sub(*known));
            *known = now.max(*known);
        }
        for own in [&mut self.command_end, &mut known.command_end] {
            *own = own.take().or_else(|| now.command_end.clone());
        }
        let (known_totals, now) = (known.devices(), now.devices().totals());
        known.devices = known_totals.updated_by(now).boxed();
        self.devices = self.devices().plus(now.excess_over(known_totals)).boxed();
    }

    /// Notes the maximum memory of another host, before it is added.
    pub fn note_maxmem_of_host(&mut self, maxmem_kb: u64) {
        let so_far = match self.host_maxmem_kb {
            0 => self.maxmem_kb,
            known => known,
        };
        self.host_maxmem_kb = so_far.max(maxmem_kb);
    }

    /// Adds the usage of another host, or of another command on this one. Process ids of this host
    /// are kept. Maxima are added too, because their common maximum is not known.
    pub fn add(&mut self, more: &Usage) {
        let sums = [
            (&mut self.cpu_ms, more.cpu_ms),
            (&mut self.mem_kb, more.mem_kb),
            (&mut self.maxmem_kb, more.maxmem_kb),
            (&mut self.swap_kb, more.swap_kb),
            (&mut self.maxswap_kb, more.maxswap_kb),
            (&mut self.read_kb, more.read_kb),
            (&mut self.write_kb, more.write_kb),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.devices = self.devices().plus(more.devices()).boxed();
        self.procs = self.procs.saturating_add(more.procs);
        self.threads = self.threads.saturating_add(more.threads);
        let room = WRONG_UNITS_MAX.saturating_sub(self.wrong_units.len());
        let wrong = more.wrong_units.iter().take(room);
        self.wrong_units.extend(wrong.cloned());
        let first = self.command_end.take();
        self.command_end = first.or_else(|| more.command_end.clone());
        self.hook = self.hook.take().or_else(|| more.hook.clone());
        // The report of a task's own host replaces an entry from another host.
        let other = |task: &TaskUse| !more.tasks.iter().any(|m| m.rank == task.rank);
        self.tasks.retain(other);
        self.tasks.extend(more.tasks.iter().cloned());
        self.tasks.sort_by_key(|task| task.rank);
    }
}

/// Resource use of one task of a job, identified by the variables of its starter.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskUse {
    #[serde(rename = "r")]
    pub rank: u32,
    /// Its section, and its number in the section.
    #[serde(rename = "s")]
    pub section: String,
    #[serde(rename = "n", skip_serializing_if = "is_zero_u32")]
    pub replica: u32,
    #[serde(rename = "h")]
    pub host: String,
    #[serde(rename = "p")]
    pub pid: u32,
    #[serde(rename = "c", skip_serializing_if = "is_zero")]
    pub cpu_ms: u64,
    #[serde(rename = "m", skip_serializing_if = "is_zero")]
    pub mem_kb: u64,
    /// It has ended.
    #[serde(rename = "e", skip_serializing_if = "is_false")]
    pub ended: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;

    /// Usage that counts as empty is not stored.
    #[test]
    fn each_field_of_usage_counts() {
        assert!(Usage::default().is_empty());
        let fields = [
            r#"{"cpu_ms":1}"#,
            r#"{"mem_kb":1}"#,
            r#"{"maxmem_kb":1}"#,
            r#"{"hm":1}"#,
            r#"{"swap_kb":1}"#,
            r#"{"maxswap_kb":1}"#,
            r#"{"procs":1}"#,
            r#"{"threads":1}"#,
            r#"{"read_kb":1}"#,
            r#"{"write_kb":1}"#,
            r#"{"dv":{}}"#,
            r#"{"pids":[1]}"#,
            r#"{"wu":["gpu 0"]}"#,
            r#"{"ce":{"h":"h2","r":"oom"}}"#,
            r#"{"hk":{}}"#,
        ];
        for text in fields {
            let usage: Usage = serde_json::from_str(text).unwrap();
            assert!(!usage.is_empty() && usage != Usage::default(), "{text}");
        }
        let tasks = vec![TaskUse::default()];
        let usage = Usage {
            tasks,
            ..Usage::default()
        };
        assert!(!usage.is_empty());
    }

    #[test]
    fn which_run_it_is_stands_beside_the_report_and_is_no_part_of_it() {
        let a = AttemptId {
            j: JobKey::element(7, 2),
            at: 3,
        };
        let ended = Ended {
            a,
            code: Some(0),
            ..Ended::default()
        };
        for report in [
            Report::Started {
                a,
                pid: 9,
                t: 1,
                bind: Some(Box::default()),
            },
            Report::PartReady {
                a,
                bind: Some(Box::default()),
            },
            Report::PartOver { a },
            Report::Ended(Box::new(ended)),
            Report::Usage {
                a,
                u: Usage::default(),
            },
        ] {
            let run = RunId { mark: 77, epoch: 5 };
            let marked = MarkedReport {
                report: &report,
                run,
            };
            let text = serde_json::to_string(&marked).unwrap();
            assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
            let read: RunId = serde_json::from_str(&text).unwrap();
            assert_eq!(read, run, "{text}");
            // The format of an earlier version.
            let text = serde_json::to_string(&report).unwrap();
            let read: RunId = serde_json::from_str(&text).unwrap();
            assert_eq!(read, RunId::default());
        }
    }

    #[test]
    fn late_use_of_devices_counts_once() {
        let net = |net_in_kb| Usage {
            devices: DeviceUse {
                net_in_kb,
                gpu_util: 50,
                ..DeviceUse::default()
            }
            .boxed(),
            ..Usage::default()
        };
        let late = |net_in_kb| PartUse {
            host: "h2".into(),
            u: net(net_in_kb),
        };
        let (mut sum, mut parts) = (net(10).totals(), Vec::new());
        for (reported, whole) in [(7, 17), (7, 17), (9, 19)] {
            sum.add_late_usage(&mut parts, &late(reported));
            assert_eq!(sum.devices().net_in_kb, whole);
        }
        assert_eq!(sum.devices().gpu_util, 0, "nothing is used any more");
        assert!(net(8).exceeds(&net(7)) && !net(7).exceeds(&net(7)));
        let before: Usage = serde_json::from_str("{\"cpu_ms\":5}").unwrap();
        assert_eq!((before.devices, before.cpu_ms), (None, 5));
        let text = serde_json::to_string(&Usage::default()).unwrap();
        assert_eq!(text, "{}", "what uses no device costs nothing");
    }

    #[test]
    fn what_hosts_have_used_is_added_and_each_speaks_for_its_own_tasks() {
        let task = |rank, pid| TaskUse {
            rank,
            pid,
            ..TaskUse::default()
        };
        let mut sum = Usage {
            cpu_ms: 5,
            maxmem_kb: 10,
            pids: vec![1],
            tasks: vec![task(0, 1), task(1, 2)],
            ..Usage::default()
        };
        sum.add(&Usage {
            cpu_ms: 7,
            maxmem_kb: 20,
            procs: 1,
            pids: vec![9],
            tasks: vec![task(1, 9)],
            ..Usage::default()
        });
        assert_eq!((sum.cpu_ms, sum.maxmem_kb, sum.procs), (12, 30, 1));
        assert_eq!(
            (sum.pids, sum.tasks),
            (vec![1], vec![task(0, 1), task(1, 9)])
        );
    }
}
