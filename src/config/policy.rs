//! Scheduling settings as plain values: order of jobs, reservations, preemption, thresholds,
//! limits. Owns no parsing and never decides anything.
//!
//! Units: times in milliseconds, resource amounts in thousandths (`1.5` = 1500) of the resource's
//! own unit (megabytes for memory).

use super::sets::{HostSet, Names, UserSet};
use crate::model::{Checkpoint, Controls};
use crate::text::window::Windows;
use serde::Serialize;

/// The order of a queue's jobs by user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// By priority and time of submission only.
    #[default]
    Fifo,
    /// One job of each user in turn.
    RoundRobin,
    /// The user with the least usage relative to the shares first, by the formula of `FairFactors`.
    Fairshare(Shares),
    /// The user with the smallest dominant share divided by the shares first.
    Drf(Shares),
}

impl Policy {
    /// The shares of the users, if the policy has any.
    pub fn shares(&self) -> Option<&Shares> {
        match self {
            Policy::Fairshare(shares) | Policy::Drf(shares) => Some(shares),
            Policy::Fifo | Policy::RoundRobin => None,
        }
    }
}

/// One level of a share tree, as written: `[g1,2] [u007,1] [default,1]`. Only ratios matter.
///
/// A group's node has the level of the group's own `fairshare`; in a group without one, each user
/// has one share. A user that no entry contains has no share and may not submit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// In the order of the file; no subject twice.
    pub entries: Vec<ShareEntry>,
}

/// One bracket of a `fairshare` text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShareEntry {
    pub subject: ShareSubject,
    /// At least 1.
    pub shares: u32,
}

/// The holder of shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ShareSubject {
    /// This user: a leaf.
    User(String),
    /// The group as a whole, of section `usergroups` or else of the operating system: an inner
    /// node.
    Group(String),
    /// Each member of the group (`group@`): leaves with this many shares each.
    GroupEach(String),
    /// Each user whom no other entry names: leaves with this many shares each.
    Default,
    /// All users whom no other entry names, together: one inner node whose users have one share
    /// each.
    Others,
}

/// Weights of the usage of a share: `shares / (cpu_hours * cpu_time + run_hours * run_time + (slots
/// + 1) * run_job + gpu_hours * gpu_time)`. All in thousandths (`0.7` = 700), 0 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairFactors {
    pub cpu_time: i64,
    pub run_time: i64,
    /// `None` (`auto`): the expected run time of started jobs counts as run time.
    pub run_job: Option<i64>,
    pub gpu_time: i64,
    /// After this time, usage counts a tenth; 0 = usage does not decay.
    pub hist_ms: u64,
}

/// LSF's RUN_JOB_FACTOR.
const RUN_JOB_OF_LSF: i64 = 3000;

impl Default for FairFactors {
    fn default() -> FairFactors {
        FairFactors {
            cpu_time: 0,
            run_time: 700,
            run_job: None,
            gpu_time: 0,
            // Long compared with most jobs: usage that decays while a job runs cannot be balanced.
            hist_ms: 24 * 3_600_000,
        }
    }
}

impl FairFactors {
    /// Weight of each slot in use, in thousandths of an hour; `None`: the expected run time. If run
    /// time does not count, there is no expected value.
    pub fn per_slot(&self) -> Option<i64> {
        match self.run_job {
            None if self.run_time == 0 => Some(RUN_JOB_OF_LSF),
            factor => factor,
        }
    }
}

/// Which jobs may start before a job that waits with a reservation, without delaying it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backfill {
    /// Number of jobs that have a reservation at the same time: 0 = no backfill, 1 = the first one
    /// (EASY), `u32::MAX` = all (conservative).
    pub depth: u32,
    /// Among the jobs that fit, the shortest first; else in the order of the queue.
    pub shortest_first: bool,
    /// Of the hosts on which a waiting job could start, reserve those first that are free by then;
    /// else by the preference of the job.
    pub free_first: bool,
}

/// Signals that may warn jobs, by their numbers on every Linux. Most programs ignore the first one,
/// the default; with `none`, only the file warns.
pub const WARN_SIGNALS: [(&str, i32); 9] = [
    ("URG", 23),
    ("CONT", 18),
    ("WINCH", 28),
    ("USR1", 10),
    ("USR2", 12),
    ("HUP", 1),
    ("INT", 2),
    ("TERM", 15),
    ("none", 0),
];

/// The name of such a signal.
pub fn warn_signal_name(number: i32) -> &'static str {
    let known = WARN_SIGNALS.iter().find(|(_, n)| *n == number);
    known.map_or("none", |(name, _)| name)
}

/// Signals that a queue may set to control its jobs, by their numbers on every Linux.
pub const CONTROL_SIGNALS: [(&str, i32); 10] = [
    ("STOP", 19),
    ("TSTP", 20),
    ("CONT", 18),
    ("INT", 2),
    ("TERM", 15),
    ("KILL", 9),
    ("HUP", 1),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
];

/// The name of such a signal.
pub fn control_signal_name(number: i32) -> &'static str {
    let known = CONTROL_SIGNALS.iter().find(|(_, n)| *n == number);
    known.map_or("STOP", |(name, _)| name)
}

/// Which jobs of other queues a queue may stop to start its own jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preemption {
    /// At least one, all of lower priority.
    pub victims: Vec<Victims>,
    pub method: PreemptMethod,
    pub order: PreemptOrder,
    /// Time between the warning of a job and its stop.
    pub grace_ms: u64,
    /// The signal that warns the job, one of [`WARN_SIGNALS`].
    pub warn_signal: i32,
    /// Maximum number of jobs that are stopped for one job.
    pub max_victims: Option<u32>,
}

/// A queue whose jobs may be stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Victims {
    pub queue: String,
    /// Larger first; among equals the queue of the lower priority.
    pub preference: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PreemptMethod {
    /// Stopped in place; the job keeps the resources that a suspended job does not release.
    #[default]
    Suspend,
    /// Killed and pending again.
    Requeue,
}

/// Which of the jobs of one queue is stopped first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PreemptOrder {
    /// The job with the lowest priority; among equals, the one started last.
    #[default]
    LeastPriority,
    /// The job started last.
    Youngest,
}

/// Thresholds of a load index or another numeric resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Threshold {
    /// The canonical name of the resource.
    pub index: String,
    /// True: lower values are better, so a value passes a mark from below. False: from above.
    pub increase: bool,
    /// Beyond it, the host accepts no new jobs. Thousandths.
    pub sched: Option<i64>,
    /// Beyond it, running jobs are suspended (or handled as `threshold_action` says). Thousandths.
    pub stop: Option<i64>,
}

impl Threshold {
    /// Whether a value (thousandths) keeps new jobs away.
    pub fn excludes_new_jobs(&self, value: i64) -> bool {
        self.sched.is_some_and(|mark| self.past(value, mark))
    }

    /// Whether a value (thousandths) stops running jobs.
    pub fn stops(&self, value: i64) -> bool {
        self.stop.is_some_and(|mark| self.past(value, mark))
    }

    /// Both thresholds combined: of each mark, the one that is passed first.
    #[must_use]
    pub fn combined_with(&self, other: &Threshold) -> Threshold {
        let first = |a: Option<i64>, b: Option<i64>| match (self.increase, a, b) {
            (true, Some(a), Some(b)) => Some(a.min(b)),
            (false, Some(a), Some(b)) => Some(a.max(b)),
            _ => a.or(b),
        };
        Threshold {
            sched: first(self.sched, other.sched),
            stop: first(self.stop, other.stop),
            ..self.clone()
        }
    }

    fn past(&self, value: i64, mark: i64) -> bool {
        if self.increase {
            value > mark
        } else {
            value < mark
        }
    }
}

/// What happens to running jobs when a threshold is passed or a run window closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThresholdAction {
    #[default]
    Suspend,
    Kill,
    Requeue,
}

/// The order in which hosts are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// The fullest host that fits: few hosts in use.
    Pack,
    /// The emptiest host: jobs on all hosts.
    #[default]
    Spread,
    /// The host that has the least left of what can be reserved, all resources together.
    Fit,
    /// The host where the smallest amount becomes unusable for the usual jobs.
    Frag,
}

/// `job_priority_over_time: 3/20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    /// Added to the user priority of a pending job.
    pub points: u32,
    /// The interval at which they are added.
    pub every_ms: u64,
}

/// The host or model for which CPU and run times of jobs are stated.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSpec {
    pub name: String,
    pub cpuf: f64,
}

/// One entry of section `limits`: the maximum that its consumers use at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quota {
    pub name: String,
    pub queues: Dimension<Names>,
    pub users: Dimension<UserSet>,
    pub hosts: Dimension<HostSet>,
    pub projects: Dimension<Names>,
    pub apps: Dimension<Names>,
    /// Empty = not limited; likewise below.
    pub slots: Vec<WindowedLimit<u64>>,
    pub jobs: Vec<WindowedLimit<u64>>,
    /// By the canonical name of the resource, in the order of the file; thousandths.
    pub resources: Vec<(String, Vec<WindowedLimit<i64>>)>,
}

/// Consumers along one dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dimension<S> {
    /// Not named: the limit applies to all.
    #[default]
    Any,
    /// All members of the set share one counter.
    Shared(S),
    /// Each member of the set has its own counter (`per_*`); members of groups count separately.
    Per(S),
}

impl<S> Dimension<S> {
    /// The set, if one is named.
    pub fn set(&self) -> Option<&S> {
        match self {
            Dimension::Any => None,
            Dimension::Shared(set) | Dimension::Per(set) => Some(set),
        }
    }

    /// Whether each member has its own counter.
    pub fn is_per(&self) -> bool {
        matches!(self, Dimension::Per(_))
    }
}

/// A limit that may apply only at certain times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WindowedLimit<T> {
    pub limit: T,
    /// `None` = always.
    pub window: Option<Windows>,
}

/// Programs that a queue runs around the commands of its jobs. Empty = none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueHooks {
    /// Program and arguments, see [`crate::text::hook`].
    pub pre: String,
    pub post: String,
    /// The account that runs both; empty = the job's user.
    pub user: String,
    /// Shell words that start the jobs' commands; empty = the commands are started directly.
    pub starter: String,
    /// How its jobs are suspended, resumed and terminated.
    pub controls: Controls,
    /// Checkpointing of jobs that do not specify it themselves.
    pub checkpoint: Option<Checkpoint>,
}

impl QueueHooks {
    /// No setting is present.
    pub fn is_none(&self) -> bool {
        let texts = [&self.pre, &self.post, &self.starter];
        texts.into_iter().all(String::is_empty)
            && self.controls.is_none()
            && self.checkpoint.is_none()
    }
}

/// Rules for pre- and post-exec commands of queues and of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookRules {
    /// Maximum run time of such a command.
    pub pre_exec_timeout_ms: u64,
    pub post_exec_timeout_ms: u64,
    /// How often a job whose pre-exec failed is started again.
    pub pre_exec_retries: u32,
    /// What happens to the job after that.
    pub pre_exec_retry_action: RetryAction,
    /// Maximum time of a checkpoint of a job, or of a restart from one.
    pub checkpoint_timeout_ms: u64,
    /// The directory of the checkpoint programs; empty = that of each host's daemons.
    pub checkpoint_methods: String,
}

/// What happens to a job whose pre-exec failed too often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryAction {
    /// The job is held until it is resumed.
    #[default]
    Suspend,
    Exit,
}

impl Default for HookRules {
    fn default() -> HookRules {
        HookRules {
            pre_exec_timeout_ms: 600_000,
            post_exec_timeout_ms: 600_000,
            pre_exec_retries: 5,
            pre_exec_retry_action: RetryAction::Suspend,
            checkpoint_timeout_ms: 600_000,
            checkpoint_methods: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_thresholds_the_one_passed_first_is_in_force() {
        let mark = |increase, sched, stop| Threshold {
            index: "mem".into(),
            increase,
            sched,
            stop,
        };
        let free = mark(false, Some(500), None).combined_with(&mark(false, Some(900), Some(200)));
        assert_eq!((free.sched, free.stop), (Some(900), Some(200)));
        let load = mark(true, Some(500), Some(700)).combined_with(&mark(true, Some(900), None));
        assert_eq!((load.sched, load.stop), (Some(500), Some(700)));
    }

    #[test]
    fn a_threshold_knows_its_worse_side() {
        let load = Threshold {
            index: "r1m".into(),
            increase: true,
            sched: Some(700),
            stop: Some(2000),
        };
        assert!(!load.excludes_new_jobs(700) && load.excludes_new_jobs(701) && !load.stops(701));
        assert!(load.stops(2001));
        let free = Threshold {
            index: "mem".into(),
            increase: false,
            sched: None,
            stop: Some(10_000),
        };
        assert!(!free.excludes_new_jobs(0) && free.stops(9_999) && !free.stops(10_000));
    }
}
