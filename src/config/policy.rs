//! Scheduling settings as plain values: order of jobs, reservations, preemption, thresholds,
//! limits. Owns no parsing and never decides anything.
//!
//! Units: times in milliseconds, resource amounts in thousandths (`1.5` = 1500) of the resource's
//! own unit (megabytes for memory).

use super::sets::{HostSet, Names, UserSet};
use crate::model::{Checkpoint, Controls};
use crate::text::window::Windows;
use serde::Serialize;

/// The order of the users of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// By priority and time of submission only.
    #[default]
    Fifo,
    /// One job of each user in turn.
    RoundRobin,
    /// Least use relative to shares first, by the formula of `FairFactors`.
    Fairshare(Shares),
    /// Smallest dominant share divided by shares first.
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
/// A group's node holds the level of the group's own `fairshare`; a group without one holds its
/// users with one share each. Who is named nowhere has no share and may not submit.
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

/// Who holds shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ShareSubject {
    /// This user: a leaf.
    User(String),
    /// The group as a whole, of section `usergroups` or else of the operating system: an inner
    /// node.
    Group(String),
    /// Each member of the group (`group@`): leaves of that many shares each.
    GroupEach(String),
    /// Each user whom no other entry names: leaves of that many shares each.
    Default,
    /// All users whom no other entry names, together: one inner node whose users have one share
    /// each.
    Others,
}

/// Weights of the use of a share: `shares / (cpu_hours * cpu_time + run_hours * run_time +
/// (slots + 1) * run_job + gpu_hours * gpu_time)`. All in thousandths (`0.7` = 700), 0 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairFactors {
    pub cpu_time: i64,
    pub run_time: i64,
    /// `None` (`auto`): the time that started jobs are expected to run counts as run time.
    pub run_job: Option<i64>,
    pub gpu_time: i64,
    /// After this time a use counts a tenth; 0 = for ever in full.
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
            // Long against most jobs: what is forgotten while a job runs cannot be balanced.
            hist_ms: 24 * 3_600_000,
        }
    }
}

impl FairFactors {
    /// Weight of slots in use, in thousandths of an hour each; `None`: what they are expected to
    /// run. Where run time does not count, there is nothing to expect.
    pub fn per_slot(&self) -> Option<i64> {
        match self.run_job {
            None if self.run_time == 0 => Some(RUN_JOB_OF_LSF),
            factor => factor,
        }
    }
}

/// Which jobs may start before one that waits with a reservation, without delaying it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backfill {
    /// Jobs that have a reservation at a time: 0 = no backfill, 1 = the first one (EASY),
    /// `u32::MAX` = all (conservative).
    pub depth: u32,
    /// Shortest first among those that fit; else by the order of the queue.
    pub shortest_first: bool,
    /// Of the hosts on which a waiting job could start, those that are free by now are reserved
    /// first; else by the preference of the job.
    pub free_first: bool,
}

/// Signals that may warn jobs, by the numbers they have on every Linux. Most programs ignore the
/// first one, the default; `none` leaves only the file.
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

/// Signals that a queue may set to control its jobs, by the numbers they have on every Linux.
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

/// What a queue may stop in other queues to start its own jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preemption {
    /// At least one, all of lower priority.
    pub victims: Vec<Victims>,
    pub method: PreemptMethod,
    pub order: PreemptOrder,
    /// Between the warning to a job and its stop.
    pub grace_ms: u64,
    /// The signal that warns it, one of [`WARN_SIGNALS`].
    pub warn_signal: i32,
    /// Most jobs that are stopped for one job.
    pub max_victims: Option<u32>,
}

/// One queue whose jobs may be stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Victims {
    pub queue: String,
    /// Larger first; among equals the queue of the lower priority.
    pub preference: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PreemptMethod {
    /// Stopped in place; it keeps what a suspended job does not give back.
    #[default]
    Suspend,
    /// Killed and pending again.
    Requeue,
}

/// Which of the jobs of one queue is stopped first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PreemptOrder {
    /// The job with the lowest priority, of equals the one started last.
    #[default]
    LeastPriority,
    /// The job started last.
    Youngest,
}

/// Marks of a load index or other number resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Threshold {
    /// The proper name of the resource.
    pub index: String,
    /// Less is better: a mark is passed from below. Else it is passed from above.
    pub increase: bool,
    /// Past it the host takes no new job. Thousandths.
    pub sched: Option<i64>,
    /// Past it running jobs are suspended (or what `threshold_action` says). Thousandths.
    pub stop: Option<i64>,
}

impl Threshold {
    /// Whether a value (thousandths) keeps new jobs away.
    pub fn keeps_away(&self, value: i64) -> bool {
        self.sched.is_some_and(|mark| self.past(value, mark))
    }

    /// Whether a value (thousandths) stops running jobs.
    pub fn stops(&self, value: i64) -> bool {
        self.stop.is_some_and(|mark| self.past(value, mark))
    }

    /// Where both are in force: of each mark the one that is passed first.
    #[must_use]
    pub fn with(&self, other: &Threshold) -> Threshold {
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
pub enum GuardAction {
    #[default]
    Suspend,
    Kill,
    Requeue,
}

/// Which hosts are filled first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// The fullest that fits: few hosts in use.
    Pack,
    /// The emptiest: work on all hosts.
    #[default]
    Spread,
    /// The host that keeps least of what it reserves, all resources together.
    Fit,
    /// Where least of what is left becomes useless to the jobs that are usual here.
    Frag,
}

/// `job_priority_over_time: 3/20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    /// Added to the user priority of a pending job.
    pub points: u32,
    /// Each time this long has passed.
    pub every_ms: u64,
}

/// The host or model that CPU and run times of jobs are counted for.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSpec {
    pub name: String,
    pub cpuf: f64,
}

/// One entry of section `limits`: most that its consumers use at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quota {
    pub name: String,
    pub queues: Dim<Names>,
    pub users: Dim<UserSet>,
    pub hosts: Dim<HostSet>,
    pub projects: Dim<Names>,
    pub apps: Dim<Names>,
    /// Empty = not limited; likewise below.
    pub slots: Vec<Capped<u64>>,
    pub jobs: Vec<Capped<u64>>,
    /// By the proper name of the resource, in the order of the file; thousandths.
    pub resources: Vec<(String, Vec<Capped<i64>>)>,
}

/// Consumers along one dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dim<S> {
    /// Not named: whatever it is.
    #[default]
    Any,
    /// All of the set share one counter.
    Shared(S),
    /// Each member of the set has its own (`per_*`); members of groups count each by themselves.
    Per(S),
}

impl<S> Dim<S> {
    /// The set, if one is named.
    pub fn set(&self) -> Option<&S> {
        match self {
            Dim::Any => None,
            Dim::Shared(set) | Dim::Per(set) => Some(set),
        }
    }

    /// Whether each member has its own counter.
    pub fn is_per(&self) -> bool {
        matches!(self, Dim::Per(_))
    }
}

/// A limit that may hold at certain times only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capped<T> {
    pub limit: T,
    /// `None` = always.
    pub window: Option<Windows>,
}

/// What a queue has run around the commands of its jobs. Empty = nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueHooks {
    /// Program and arguments, see [`crate::text::hook`].
    pub pre: String,
    pub post: String,
    /// Account that runs both; empty = the job's user.
    pub user: String,
    /// Words of the shell that start its jobs' commands; empty = they start as they are.
    pub starter: String,
    /// What suspends, resumes and terminates its jobs.
    pub controls: Controls,
    /// How the state of those is saved that say nothing of it.
    pub checkpoint: Option<Checkpoint>,
}

impl QueueHooks {
    /// Nothing of it is set.
    pub fn is_none(&self) -> bool {
        let texts = [&self.pre, &self.post, &self.starter];
        texts.into_iter().all(String::is_empty)
            && self.controls.is_none()
            && self.checkpoint.is_none()
    }
}

/// How pre- and post-exec commands are held, those of queues and of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookRules {
    /// How long one such command may run.
    pub pre_exec_timeout_ms: u64,
    pub post_exec_timeout_ms: u64,
    /// So often a job whose pre-exec failed is started again.
    pub pre_exec_retries: u32,
    /// What becomes of it after that.
    pub pre_exec_retry_action: RetryAction,
    /// How long one checkpoint of a job, or the restart from one, may take.
    pub checkpoint_timeout_ms: u64,
    /// Directory of the programs of checkpoints; empty = that of each host's daemons.
    pub checkpoint_methods: String,
}

/// What becomes of a job that could not be started so often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryAction {
    /// It is held until it is resumed.
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
        let free = mark(false, Some(500), None).with(&mark(false, Some(900), Some(200)));
        assert_eq!((free.sched, free.stop), (Some(900), Some(200)));
        let load = mark(true, Some(500), Some(700)).with(&mark(true, Some(900), None));
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
        assert!(!load.keeps_away(700) && load.keeps_away(701) && !load.stops(701));
        assert!(load.stops(2001));
        let free = Threshold {
            index: "mem".into(),
            increase: false,
            sched: None,
            stop: Some(10_000),
        };
        assert!(!free.keeps_away(0) && free.stops(9_999) && !free.stops(10_000));
    }
}
