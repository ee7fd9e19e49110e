//! Orders: leader -> host, `hosts/<host>/orders.<epoch>.<part>.yaml`, framed, append-only.
//!
//! A host reads the highest part of the epoch named by `leader/epoch`, from its first byte after a
//! restart (attempts are remembered locally, so reading an order twice is harmless).

use super::point::Point;
use crate::model::{
    AttemptId, Checkpoint, CheckpointAct, ContainerRuntime, Controls, CpuBind, PartBinding,
    RunWarning, Share, Spec, TermReason, UnitCheck, Units,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum Order {
    /// The following orders in this file are for a host with this ledger: with another one it
    /// ignores starts and cancellations, because it cannot know whether they were carried out.
    Ledger { id: String },
    /// Specification `id`, referred to by the starts after it in this file.
    Spec { id: u32, spec: Box<Spec> },
    /// Start this attempt, unless it was started or cancelled before.
    Start(Box<StartOrder>),
    /// Prepare this host's part of an attempt that another host starts; answer with
    /// `Report::PartReady` or `Never`, again if the order is repeated.
    Part {
        #[serde(flatten)]
        a: AttemptId,
        /// Number of the specification, defined earlier in the same file.
        s: u32,
        /// The host that runs the command.
        first: String,
        /// Slots here.
        slots: u32,
        /// See [`StartOrder::mark`]; the answer repeats it.
        #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
        mark: u32,
        #[serde(flatten)]
        own: Box<PartResources>,
    },
    /// The attempt is over on this host, whether its part was prepared or not: what it started
    /// beside its command is ended. Answered by `Report::PartOver`.
    PartEnd {
        #[serde(flatten)]
        a: AttemptId,
    },
    /// Signal a started attempt. A host with a part of it stops or resumes the commands that the
    /// job has started there.
    Signal {
        #[serde(flatten)]
        a: AttemptId,
        act: Act,
        /// The reason, recorded in the end of the attempt if the signal ends it.
        reason: TermReason,
        /// Milliseconds between INT, TERM and KILL.
        grace_ms: u64,
        /// Increases with every signal to this attempt: a host carries out each number once.
        n: u32,
        /// See [`StartOrder::mark`]; 0 = whichever run has this attempt's id.
        #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
        mark: u32,
    },
    /// Never start this attempt; confirm with `Report::Never`, or `Started`/`Ended` if it was
    /// started.
    Cancel {
        #[serde(flatten)]
        a: AttemptId,
    },
    /// A running attempt has more slots: `hosts` lists all its current ones. The host notifies the
    /// job once for each `n` (or once for several that it had not seen).
    Resize {
        #[serde(flatten)]
        a: AttemptId,
        hosts: Vec<Share>,
        n: u32,
        /// All its current units.
        #[serde(default, skip_serializing_if = "TaskUnits::is_empty")]
        units: TaskUnits,
    },
    /// An attempt has other limits than those with which it was started, or its part prepared on
    /// another host. Sent once for each `n` (or once for several that the host had not seen);
    /// higher numbers replace lower ones.
    Limits {
        #[serde(flatten)]
        a: AttemptId,
        limits: crate::model::Limits,
        n: u32,
        /// See [`StartOrder::mark`]; 0 = whichever run has this attempt's id.
        #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
        mark: u32,
    },
    /// The attempt will be suspended or ended at that time (ms) to free resources: the host warns
    /// it by a file and by a signal. 0: it will not be, and the file is removed.
    Warn {
        #[serde(flatten)]
        a: AttemptId,
        due: i64,
        /// 0 = no signal.
        #[serde(default, skip_serializing_if = "is_zero_i32")]
        signal: i32,
        /// Numbered together with the signals to this attempt.
        n: u32,
        /// See [`StartOrder::mark`]; 0 = whichever run has this attempt's id.
        #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
        mark: u32,
    },
    /// `iso_timeout` from now on, ms (0: none); the host's load shows when it is in force.
    Limit { iso_ms: u64 },
    /// Everything up to record `seq` of report file `part` is journalled: the host may forget it.
    Ack { part: u64, seq: u64 },
    /// The preceding orders follow from the journal up to here: the host remembers this position.
    Journal(Point),
    /// The share was restored from a copy, and epochs up to `above` are over: the host reports
    /// everything again, since the leader may have lost what it acknowledged. Done once for each
    /// number.
    Restored { above: u64 },
    /// Report file `part` is damaged from record `seq` (byte `at`) on: the leader reads no further.
    /// The host begins another one, which repeats what is not acknowledged.
    ReportsDamaged { part: u64, seq: u64, at: u64 },
    /// The orders continue in this part, which repeats everything still valid.
    Next { part: u64 },
}

/// An act on a running attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// INT, TERM, KILL, with the grace in between, until no process is left.
    Terminate,
    /// KILL at once until no process is left.
    Kill,
    Stop,
    Resume,
    Number(i32),
    /// Save its state.
    Checkpoint(CheckpointAct),
}

impl Act {
    /// Whether it stops or resumes.
    pub fn is_suspension(self) -> bool {
        matches!(self, Act::Stop | Act::Resume)
    }
}

/// Everything that a host needs in addition to the specification.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StartOrder {
    #[serde(flatten)]
    pub a: AttemptId,
    /// Number of the specification, defined earlier in the same file.
    pub s: u32,
    /// Command line (the script's name if `spec.script` is set).
    #[serde(rename = "c")]
    pub command: String,
    /// Job name as shown.
    #[serde(rename = "n", default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// All hosts of the attempt in order with their slots; the first one runs the command.
    pub hosts: Vec<Share>,
    /// Effective limits after queue defaults.
    pub limits: crate::model::Limits,
    /// Number of resizes that are included in `hosts`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resizes: u32,
    /// Number of changes of its limits that are included in `limits`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit_changes: u32,
    /// Array end and step for LSB_JOBINDEX_END / _STEP, 0 if it is not an array.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub index_end: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub index_step: u32,
    /// Submission time (ms), for the job report.
    pub t: i64,
    /// Nice value of the queue.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub nice: i32,
    /// Milliseconds between INT, TERM and KILL at a limit.
    pub grace_ms: u64,
    /// Whether the leader starts it elsewhere if this host is cut off, as of its dispatch: later
    /// changes of the specification apply to the next attempt. `None`: from a leader of an earlier
    /// version; the specification applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerunnable: Option<bool>,
    /// Distinguishes this run from that of another job with the same id and attempt number from
    /// before the share was restored from a copy: derived from the times of submission and
    /// dispatch. Repeated in every report. 0 = from a leader of an earlier version.
    #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
    pub mark: u32,
    /// The host has reported its start: a host that no longer knows it must not start it again. Its
    /// end was acknowledged and then lost when a share was restored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran: bool,
    /// What the queue runs before and after the command; `None`: nothing, and the job has no such
    /// command either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Box<HookOrder>>,
    /// Exit values besides 0 that count as success, for its report (`text::exits`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub success: String,
    /// Exit values that put it back to pending (`text::exits`); empty = none.
    #[serde(rename = "rq", default, skip_serializing_if = "String::is_empty")]
    pub requeue: String,
    /// How it is warned before its run limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn: Option<RunWarning>,
    /// Users of this cluster see only their own jobs: only its user may read the default output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// How the host binds it, according to its queue.
    #[serde(default, skip_serializing_if = "CpuBind::is_none")]
    pub bind: CpuBind,
    /// The processors of its parts on other hosts.
    #[serde(rename = "pb", default, skip_serializing_if = "Vec::is_empty")]
    pub part_binds: Vec<PartBinding>,
    /// Units that it may use on this host.
    #[serde(default, skip_serializing_if = "TaskUnits::is_empty")]
    pub units: TaskUnits,
}

/// What belongs to an attempt on a host, for the commands that it starts there.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PartResources {
    /// Its limits on that host.
    #[serde(skip_serializing_if = "is_unlimited")]
    pub limits: crate::model::Limits,
    /// Changes that are included in these limits, see [`StartOrder::limit_changes`].
    #[serde(skip_serializing_if = "is_zero")]
    pub limit_changes: u32,
    /// How the host binds it, according to its queue.
    #[serde(skip_serializing_if = "CpuBind::is_none")]
    pub bind: CpuBind,
    /// Units that it may use there.
    #[serde(skip_serializing_if = "TaskUnits::is_empty")]
    pub units: TaskUnits,
}

fn is_unlimited(limits: &crate::model::Limits) -> bool {
    *limits == crate::model::Limits::default()
}

/// Units of one host, for the environment of commands there.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskUnits {
    #[serde(rename = "l")]
    pub list: Vec<Units>,
    /// GPUs whose names are not numbers are identified by their positions.
    #[serde(rename = "p", skip_serializing_if = "std::ops::Not::not")]
    pub by_place: bool,
    /// What happens if it uses other units.
    #[serde(rename = "c", skip_serializing_if = "UnitCheck::is_off")]
    pub check: UnitCheck,
}

impl TaskUnits {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.check.is_off()
    }
}

/// Commands before and after a job's own, and settings of the administrator's file for them.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct HookOrder {
    /// Program and arguments of the queue's `pre_exec` and `post_exec`, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pre: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub post: String,
    /// Account that runs these two; empty = the job's user.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Maximum run time of each of them, and of each of the job's own (ms).
    pub pre_ms: u64,
    pub post_ms: u64,
    /// The queue's `job_starter`: shell words before the command, or around %USRCMD.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub starter: String,
    /// The program that runs the container of a job that has one.
    #[serde(skip_serializing_if = "ContainerRuntime::is_none")]
    pub runtime: ContainerRuntime,
    /// Variables of its application; variables of the job's environment take precedence.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Its `job_controls`.
    #[serde(skip_serializing_if = "Controls::is_none")]
    pub controls: Controls,
    /// How its state is saved; `None` = it is not saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointOrder>,
}

/// Checkpoints of a job, as defined by the job and its queue.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointOrder {
    pub what: Checkpoint,
    /// Directory of the programs; empty = the directory of the host's daemons.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub methods: String,
    /// Maximum time for a checkpoint (ms).
    pub limit_ms: u64,
}

impl StartOrder {
    /// Whether this host ends it when it is cut off. `spec`: its specification.
    pub fn is_rerunnable(&self, spec: &Spec) -> bool {
        self.rerunnable.unwrap_or(spec.rerunnable)
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_zero_i32(n: &i32) -> bool {
    *n == 0
}
