//! Why a job waits, and why it ended: closed sets, each with codes and a sentence.

use super::Retry;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a pending job is not running. `code` is stable for scripts; Display gives the sentence.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(tag = "r", rename_all = "snake_case")]
pub enum PendReason {
    New,
    /// `when` is `at` in the leader's zone.
    BeginTime {
        at: i64,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        when: String,
    },
    Dependency {
        on: String,
    },
    DependencyNever {
        on: String,
        /// The job that is the cause, and its state.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    ArrayLimit {
        limit: u32,
    },
    HeldByOwner,
    HeldByAdmin,
    Requeued,
    QueueInactive {
        queue: String,
    },
    QueueGone {
        queue: String,
    },
    QueueSlots {
        queue: String,
        limit: u32,
    },
    QueueUserSlots {
        queue: String,
        limit: u32,
    },
    QueueHostSlots {
        queue: String,
        limit: u32,
    },
    UserSlots {
        user: String,
        limit: u32,
    },
    /// Held: the host that was to start it has no account for its user.
    NoSuchUser {
        user: String,
        host: String,
    },
    /// The pre-exec command of its queue or its own failed, with the text.
    PreExec {
        why: String,
    },
    /// It failed and is run again after a delay.
    Retry(Retry),
    /// No host could serve the job now. Counts of hosts by obstacle.
    Hosts(Box<HostCounts>),
    /// No host of the cluster can ever run the job with its current options.
    NeverFits {
        why: String,
    },
    /// The job needs more slots than a limit ever allows: that of the queue (`user` is empty), of
    /// the user (`queue` is empty), or of each user in the queue.
    SlotsNever {
        user: String,
        queue: String,
        need: u32,
        limit: u32,
    },
    /// Enough hosts fit, but together they lack slots: `need` are needed, `free` are free.
    Slots {
        need: u32,
        free: u32,
    },
    /// The dispatch window of its queue is closed until `at`; `opens` is this time in the leader's
    /// zone.
    DispatchWindow {
        queue: String,
        at: i64,
        opens: String,
    },
    /// The run window of its queue is closed.
    RunWindow {
        queue: String,
        at: i64,
        opens: String,
    },
    /// Its run limit is longer than the time for which the run window of its queue stays open.
    RunWindowShort {
        queue: String,
        need_s: u64,
        left_s: u64,
    },
    /// Its run limit is longer than the time until its termination time (`-t`).
    DeadlineShort {
        need_s: u64,
        left_s: u64,
    },
    /// The `new_job_sched_delay` of its queue has not passed.
    TooNew {
        queue: String,
        delay_s: u64,
    },
    /// Jobs that it preempts are being warned or ended.
    Preempting {
        victims: u32,
    },
    /// A section of the requirement lacks slots on hosts that match it: `need` of `free`.
    Section {
        section: u32,
        need: u32,
        with: String,
        free: u32,
    },
    /// Dispatch was undone because the host confirmed that it did not start the job.
    HostRefused {
        host: String,
        why: String,
    },
    NoLeader,
    /// Too few slots left under a limit of section `limits`.
    QuotaSlots {
        limit: String,
        /// The jobs that the counter counts: `queues medium low, user u001`; empty = all.
        consumer: String,
        need: i64,
        used: i64,
        max: i64,
    },
    /// No further job under a limit of section `limits`.
    QuotaJobs {
        limit: String,
        consumer: String,
        used: i64,
        max: i64,
    },
    /// No further job in a job group.
    JobGroup {
        group: String,
        used: i64,
        max: i64,
    },
    /// Too little of a resource left under a limit of section `limits`; amounts in thousandths.
    QuotaResource {
        limit: String,
        consumer: String,
        resource: String,
        need: i64,
        used: i64,
        max: i64,
    },
    /// More than a limit of section `limits` allows at any time; amounts in thousandths, also of
    /// `slots` and `jobs`.
    QuotaNever {
        limit: String,
        consumer: String,
        resource: String,
        need: i64,
        max: i64,
    },
    /// Too little left of a resource that several hosts share; amounts in thousandths.
    SharedResource {
        resource: String,
        need: i64,
        used: i64,
        max: i64,
        /// The amount is never available.
        never: bool,
    },
}

/// The number of hosts that each obstacle excludes, for [`PendReason::Hosts`].
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct HostCounts {
    #[serde(skip_serializing_if = "zero")]
    pub closed: u32,
    #[serde(skip_serializing_if = "zero")]
    pub locked: u32,
    #[serde(skip_serializing_if = "zero")]
    pub unavailable: u32,
    #[serde(skip_serializing_if = "zero")]
    pub full: u32,
    #[serde(skip_serializing_if = "zero")]
    pub exclusive: u32,
    #[serde(skip_serializing_if = "zero")]
    pub not_asked: u32,
    #[serde(skip_serializing_if = "zero")]
    pub not_in_queue: u32,
    #[serde(skip_serializing_if = "zero")]
    pub other_type: u32,
    #[serde(skip_serializing_if = "zero")]
    pub select: u32,
    #[serde(skip_serializing_if = "zero")]
    pub rusage: u32,
    #[serde(skip_serializing_if = "zero")]
    pub user_limit: u32,
    #[serde(skip_serializing_if = "zero")]
    pub queue_limit: u32,
    #[serde(skip_serializing_if = "zero")]
    pub span: u32,
    /// Its dispatch window is closed.
    #[serde(skip_serializing_if = "zero")]
    pub window: u32,
    /// A load index exceeds a threshold of the host or of the queue.
    #[serde(skip_serializing_if = "zero")]
    pub load: u32,
    /// A job started there less than `job_accept_interval` ago.
    #[serde(skip_serializing_if = "zero")]
    pub recent: u32,
    /// The run limit, which is longer on slow hosts, reaches past the run window or `-t`.
    #[serde(skip_serializing_if = "zero")]
    pub slow: u32,
    /// `server: no` in cb.yaml.
    #[serde(skip_serializing_if = "zero")]
    pub no_server: u32,
    /// Its free slots or amounts are kept for jobs with reservations.
    #[serde(skip_serializing_if = "zero")]
    pub reserved: u32,
    /// The nearest host among those counted in `rusage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestHost>,
    /// The nearest host among those counted in `select`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest_select: Option<SelectMiss>,
}

/// The conditions of `select[]` that the nearest host does not meet.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SelectMiss {
    pub host: String,
    /// The conditions that it does not meet.
    pub part: String,
    /// The host's value, as text; empty = unknown.
    pub has: String,
}

/// The host with the largest amount of a resource that all hosts lack.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct NearestHost {
    pub host: String,
    pub resource: String,
    /// As text, with its unit.
    pub need: String,
    /// The amount that is not reserved there.
    pub left: String,
}

fn zero(n: &u32) -> bool {
    *n == 0
}

impl HostCounts {
    fn parts(&self) -> [(u32, &'static str); 19] {
        [
            (self.full, "no free job slots"),
            (self.rusage, "not enough of a resource in rusage[]"),
            (self.select, "select[] not satisfied"),
            (self.other_type, "not of the submission host's type"),
            (self.closed, "closed by the administrator"),
            (self.locked, "locked by an administrator"),
            (self.no_server, "runs no jobs (server: no)"),
            (self.unavailable, "unavailable"),
            (self.exclusive, "exclusive use conflicts"),
            (self.user_limit, "user's slot limit on the host reached"),
            (self.queue_limit, "queue's slot limit on the host reached"),
            (self.reserved, "kept for a job with a reservation"),
            (self.span, "span[], same[] or cu[] not satisfied"),
            (self.window, "dispatch window closed"),
            (self.load, "load threshold exceeded"),
            (
                self.recent,
                "another job started there within job_accept_interval",
            ),
            (self.slow, "too slow to finish in time"),
            (self.not_asked, "not in the requested host list"),
            (self.not_in_queue, "not used by the queue"),
        ]
    }
}

impl fmt::Display for HostCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (n, what) in self.parts() {
            if n > 0 {
                let sep = if first { "" } else { "; " };
                let s = if n == 1 { "" } else { "s" };
                write!(f, "{sep}{what}: {n} host{s}")?;
                first = false;
            }
        }
        if let Some(nearest) = &self.nearest {
            let NearestHost {
                host,
                resource,
                need,
                left,
            } = nearest;
            write!(
                f,
                "; rusage[{resource}={need}]: at most {left} is left (host {host})"
            )?;
        }
        if let Some(SelectMiss { host, part, has }) = &self.nearest_select {
            write!(f, "; select[{part}]: host {host} comes nearest")?;
            if !has.is_empty() {
                write!(f, ", it has {has}")?;
            }
        }
        if first {
            f.write_str("the cluster has no hosts")
        } else {
            Ok(())
        }
    }
}

impl PendReason {
    /// Why a job waits now, of its own reason and that of its class. What went wrong with its last
    /// attempt is named as long as nothing but hosts keeps the class waiting.
    pub fn current<'a>(
        own: Option<&'a PendReason>,
        class: Option<&'a PendReason>,
    ) -> Option<&'a PendReason> {
        let is_over = |own: &PendReason| {
            matches!(
                own,
                PendReason::HostRefused { .. } | PendReason::PreExec { .. }
            )
        };
        let about_hosts = |class: &PendReason| {
            matches!(
                class,
                PendReason::New
                    | PendReason::Hosts(_)
                    | PendReason::Slots { .. }
                    | PendReason::Section { .. }
            )
        };
        match (own, class) {
            (Some(own), Some(class)) if is_over(own) && !about_hosts(class) => Some(class),
            (own, class) => own.or(class),
        }
    }

    /// A stable number for scripts; never reused.
    pub fn code(&self) -> u32 {
        match self {
            PendReason::New => 1,
            PendReason::BeginTime { .. } => 2,
            PendReason::Dependency { .. } => 3,
            PendReason::DependencyNever { .. } => 4,
            PendReason::ArrayLimit { .. } => 5,
            PendReason::HeldByOwner => 6,
            PendReason::HeldByAdmin => 7,
            PendReason::Requeued => 8,
            PendReason::QueueInactive { .. } => 20,
            PendReason::QueueGone { .. } => 21,
            PendReason::QueueSlots { .. } => 22,
            PendReason::QueueUserSlots { .. } => 23,
            PendReason::QueueHostSlots { .. } => 24,
            PendReason::DispatchWindow { .. } => 25,
            PendReason::RunWindow { .. } => 26,
            PendReason::RunWindowShort { .. } => 27,
            PendReason::DeadlineShort { .. } => 28,
            PendReason::TooNew { .. } => 29,
            PendReason::UserSlots { .. } => 30,
            PendReason::NoSuchUser { .. } => 31,
            PendReason::PreExec { .. } => 32,
            PendReason::Retry(_) => 33,
            PendReason::Hosts(_) => 40,
            PendReason::NeverFits { .. } => 41,
            PendReason::Slots { .. } => 42,
            PendReason::HostRefused { .. } => 43,
            PendReason::Preempting { .. } => 44,
            PendReason::Section { .. } => 45,
            PendReason::SlotsNever { .. } => 46,
            PendReason::NoLeader => 50,
            PendReason::QuotaSlots { .. } => 60,
            PendReason::QuotaJobs { .. } => 61,
            PendReason::QuotaResource { .. } => 62,
            PendReason::QuotaNever { .. } => 63,
            PendReason::SharedResource { .. } => 64,
            PendReason::JobGroup { .. } => 65,
        }
    }
}

impl PendReason {
    fn fmt_slots_never(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PendReason::SlotsNever {
            user,
            queue,
            need,
            limit,
        } = self
        else {
            return Ok(());
        };
        match (user.as_str(), queue.as_str()) {
            ("", queue) => write!(
                f,
                "it needs {need} slots, the limit of queue {queue} is {limit}; can never run here"
            ),
            (user, "") => write!(
                f,
                "it needs {need} slots, the limit of user {user} is {limit}; can never run here"
            ),
            (user, queue) => write!(
                f,
                "it needs {need} slots, the limit of user {user} in queue {queue} is {limit}; \
                 can never run here"
            ),
        }
    }
}

impl fmt::Display for PendReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PendReason::New => f.write_str("new job, not yet considered by the scheduler"),
            PendReason::BeginTime { when, .. } => match when.as_str() {
                "" => f.write_str("waits for its begin time (-b)"),
                when => write!(f, "waits for its begin time (-b), {when}"),
            },
            PendReason::Dependency { on } => write!(f, "waits for its dependency {on}"),
            PendReason::DependencyNever { on, why } => {
                write!(f, "its dependency {on} can never be satisfied")?;
                match why.as_str() {
                    "" => Ok(()),
                    why => write!(f, ": {why}"),
                }
            }
            PendReason::ArrayLimit { limit } => {
                write!(
                    f,
                    "the array's limit of {limit} started elements is reached"
                )
            }
            PendReason::HeldByOwner => f.write_str("held by its owner"),
            PendReason::HeldByAdmin => f.write_str("held by an administrator"),
            PendReason::Requeued => f.write_str("requeued, not yet considered by the scheduler"),
            PendReason::QueueInactive { queue } => write!(f, "queue {queue} is inactive"),
            PendReason::QueueGone { queue } => write!(f, "queue {queue} is no longer configured"),
            PendReason::QueueSlots { queue, limit } => {
                write!(f, "queue {queue} has reached its limit of {limit} slots")
            }
            PendReason::QueueUserSlots { queue, limit } => {
                write!(
                    f,
                    "user's limit of {limit} slots in queue {queue} is reached"
                )
            }
            PendReason::QueueHostSlots { queue, limit } => {
                write!(
                    f,
                    "queue {queue} has reached its limit of {limit} slots on each host"
                )
            }
            PendReason::UserSlots { user, limit } => {
                write!(f, "user {user} has reached the limit of {limit} slots")
            }
            PendReason::NoSuchUser { user, host } => write!(
                f,
                "held: host {host} has no account for user {user}; use cresume when it has one"
            ),
            PendReason::PreExec { why } => f.write_str(why),
            PendReason::Hosts(counts) => write!(f, "{counts}"),
            PendReason::NeverFits { why } => write!(f, "{why}; can never run here"),
            PendReason::Slots { need, free } => {
                write!(f, "needs {need} slots, hosts that fit have {free} free")
            }
            PendReason::Section {
                section,
                need,
                with,
                free,
            } => {
                let with = match with.as_str() {
                    "" => String::new(),
                    with => format!(" with {with}"),
                };
                write!(
                    f,
                    "section {section} needs {need} slots{with}: hosts that fit have {free}"
                )
            }
            PendReason::HostRefused { host, why } => {
                write!(f, "host {host} did not start it: {why}")
            }
            PendReason::NoLeader => f.write_str("no leader responds"),
            never @ PendReason::SlotsNever { .. } => never.fmt_slots_never(f),
            timed => timed.fmt_timed(f),
        }
    }
}

impl PendReason {
    fn fmt_timed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PendReason::Retry(Retry { n, of, delay_s, .. }) => {
                write!(f, "it failed: waits {delay_s} s before retry {n} of {of}")
            }
            PendReason::DispatchWindow { queue, opens, .. } => {
                write!(f, "the dispatch window of queue {queue} opens {opens}")
            }
            PendReason::RunWindow { queue, opens, .. } => {
                write!(f, "the run window of queue {queue} opens {opens}")
            }
            PendReason::RunWindowShort {
                queue,
                need_s,
                left_s,
            } => write!(
                f,
                "its run limit is {need_s} s, but the run window of queue {queue} closes in \
                 {left_s} s"
            ),
            PendReason::DeadlineShort { need_s, left_s } => {
                write!(
                    f,
                    "its run limit is {need_s} s, but its termination time (-t) is in {left_s} s"
                )
            }
            PendReason::TooNew { queue, delay_s } => write!(
                f,
                "queue {queue} considers a job {delay_s} s after its submission"
            ),
            PendReason::Preempting { victims: 1 } => {
                f.write_str("waits for 1 job that it preempts")
            }
            PendReason::Preempting { victims } => {
                write!(f, "waits for {victims} jobs that it preempts")
            }
            quota => quota.fmt_quota(f),
        }
    }

    fn fmt_quota(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |limit: &str, consumer: &str| match consumer {
            "" => format!("limit {limit}"),
            _ => format!("limit {limit} ({consumer})"),
        };
        match self {
            PendReason::QuotaSlots {
                limit,
                consumer,
                need,
                used,
                max,
            } => {
                let name = name(limit, consumer);
                write!(f, "{name}: {used} of {max} slots in use, needs {need}")
            }
            PendReason::JobGroup { group, used, max } => {
                write!(f, "job group {group}: {used} of {max} jobs started")
            }
            PendReason::QuotaJobs {
                limit,
                consumer,
                used,
                max,
            } => {
                let name = name(limit, consumer);
                write!(f, "{name}: {used} of {max} jobs started")
            }
            PendReason::QuotaResource {
                limit,
                consumer,
                resource,
                need,
                used,
                max,
            } => {
                let name = name(limit, consumer);
                let [need, used, max] = [need, used, max].map(|n| Milli(*n));
                write!(f, "{name}: {used} of {max} {resource} in use, needs {need}")
            }
            PendReason::QuotaNever {
                limit,
                consumer,
                resource,
                need,
                max,
            } => {
                let name = name(limit, consumer);
                let [need, max] = [need, max].map(|n| Milli(*n));
                write!(f, "needs {need} {resource}, {name} allows {max}")
            }
            PendReason::SharedResource {
                resource,
                need,
                used,
                max,
                never,
            } => {
                let [need, used, max] = [need, used, max].map(|n| Milli(*n));
                match never {
                    true => write!(f, "needs {need} {resource}, its hosts share {max}"),
                    false => write!(
                        f,
                        "shared resource {resource}: {used} of {max} reserved, needs {need}"
                    ),
                }
            }
            _ => Ok(()),
        }
    }
}

/// An amount in thousandths, without trailing zeros.
struct Milli(i64);

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, part) = (self.0.unsigned_abs() / 1000, self.0.unsigned_abs() % 1000);
        match part {
            0 => write!(f, "{sign}{whole}"),
            _ => {
                let digits = format!("{part:03}");
                write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
            }
        }
    }
}

/// Why an attempt ended, in addition to its exit code or signal. Display gives the LSF-like word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TermReason {
    /// The program ended by itself (any code or its own signal).
    #[default]
    None,
    Owner,
    Admin,
    /// Removed at once by `ckill -r`.
    Force,
    RunLimit,
    CpuLimit,
    MemLimit,
    SwapLimit,
    ProcessLimit,
    /// Killed by the kernel's out-of-memory killer, outside the job's own limit or inside it.
    Oom,
    Deadline,
    Requeue,
    /// Ended to free resources for a job that may preempt it.
    Preempt,
    /// A load threshold whose action is to end or requeue was exceeded.
    Load,
    /// The run window closed, and the queue ends or requeues jobs that run then.
    Window,
    /// Ended by `cchkpnt -k` after its state was saved.
    Checkpoint,
    /// Ended by `cmig`, to run again elsewhere.
    Migrate,
    /// The host was lost or rebooted; the end is unknown.
    HostLost,
    /// The shepherd died; the end is unknown.
    ShepherdLost,
    /// The job could not be started (no such directory, output file, program, user...).
    StartFailed,
    /// The host killed it because it was cut off from the share (self-fence).
    Fenced,
    /// The dependency can never be met and the site ends such jobs.
    Orphan,
    /// It was not started within the time set by its submitter.
    StartTimeout,
    /// It used units of its host that it does not have.
    Units,
    /// The next run of its cron job took its place (`overlap: replace`).
    Replaced,
    Unknown,
}

impl TermReason {
    /// Whether a job that ended for this reason can have succeeded: only if nothing ended it, since
    /// the exit code of a job that was ended is that of its handler.
    pub fn allows_success(self) -> bool {
        self == TermReason::None
    }

    /// Whether the attempt was given up with its host, which had not reported its end.
    pub fn is_given_up(self) -> bool {
        matches!(self, TermReason::Fenced | TermReason::HostLost)
    }

    /// Whether its owner or an administrator asked for its end.
    pub fn is_of_person(self) -> bool {
        matches!(self, TermReason::Owner | TermReason::Admin)
    }

    /// Whether it ended because memory ran out: its own limit's or that of its host.
    pub fn is_memory(self) -> bool {
        matches!(
            self,
            TermReason::MemLimit | TermReason::SwapLimit | TermReason::Oom
        )
    }

    /// Whether a job fails if a command that it started by `claunch` was ended for this reason. The
    /// job handles what a person or the job itself ended.
    pub fn ends_job_of_command(self) -> bool {
        self.is_memory() || matches!(self, TermReason::CpuLimit | TermReason::Units)
    }

    pub fn word(self) -> &'static str {
        match self {
            TermReason::None => "",
            TermReason::Owner => "TERM_OWNER",
            TermReason::Admin => "TERM_ADMIN",
            TermReason::Force => "TERM_FORCE",
            TermReason::RunLimit => "TERM_RUNLIMIT",
            TermReason::CpuLimit => "TERM_CPULIMIT",
            TermReason::MemLimit => "TERM_MEMLIMIT",
            TermReason::SwapLimit => "TERM_SWAP",
            TermReason::ProcessLimit => "TERM_PROCESSLIMIT",
            TermReason::Oom => "TERM_OOM",
            TermReason::Deadline => "TERM_DEADLINE",
            TermReason::Requeue => "TERM_REQUEUE",
            TermReason::Preempt => "TERM_PREEMPT",
            TermReason::Load => "TERM_LOAD",
            TermReason::Window => "TERM_WINDOW",
            TermReason::Checkpoint => "TERM_CHKPNT",
            TermReason::Migrate => "TERM_MIGRATE",
            TermReason::HostLost => "TERM_HOST_LOST",
            TermReason::ShepherdLost => "TERM_SHEPHERD_LOST",
            TermReason::StartFailed => "TERM_START_FAILED",
            TermReason::Fenced => "TERM_FENCED",
            TermReason::Units => "TERM_UNITS",
            TermReason::Orphan => "TERM_ORPHAN",
            TermReason::StartTimeout => "TERM_START_TIMEOUT",
            TermReason::Replaced => "TERM_REPLACED",
            TermReason::Unknown => "TERM_UNKNOWN",
        }
    }

    pub fn sentence(self) -> &'static str {
        match self {
            TermReason::None => "ended by itself",
            TermReason::Owner => "killed by its owner",
            TermReason::Admin => "killed by an administrator",
            TermReason::Force => "removed by force without waiting for its processes",
            TermReason::RunLimit => "killed: it reached its run limit",
            TermReason::CpuLimit => "killed: it reached its CPU time limit",
            TermReason::MemLimit => "killed: it reached its memory limit",
            TermReason::SwapLimit => "killed: it reached its swap limit",
            TermReason::ProcessLimit => "it reached its process limit",
            TermReason::Oom => "killed by the kernel: out of memory",
            TermReason::Deadline => "killed: its termination time came",
            TermReason::Requeue => "killed to be requeued",
            TermReason::Preempt => "killed to make room for a job that may preempt it",
            TermReason::Load => {
                "killed: a load index on one of its hosts exceeded the stop threshold"
            }
            TermReason::Window => "killed: the run window of its queue closed",
            TermReason::Checkpoint => "ended after a checkpoint, as requested by cchkpnt -k",
            TermReason::Migrate => "ended to run again elsewhere, as requested by cmig",
            TermReason::HostLost => "its host was lost; how it ended is unknown",
            TermReason::ShepherdLost => "its shepherd died; how it ended is unknown",
            TermReason::StartFailed => "could not be started",
            TermReason::Fenced => "killed by its host, which was cut off from the share",
            TermReason::Orphan => "its dependency can never be satisfied",
            TermReason::Units => "killed: it used units of its host that it does not have",
            TermReason::StartTimeout => "it was not started within its start timeout",
            TermReason::Replaced => "killed: the next run of its cron job replaced it",
            TermReason::Unknown => "ended for an unknown reason",
        }
    }
}

impl fmt::Display for TermReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
