//! Orders: leader -> host, `hosts/<host>/orders.<epoch>.<part>.yaml`, framed, append-only.
//!
//! A host reads the highest part of the epoch named by `leader/epoch`, from its first byte after a
//! restart (attempts are remembered locally, so seeing an order twice is harmless).

use super::point::Point;
use crate::model::{
    AttemptId, Checkpoint, CheckpointAct, ContainerRuntime, Controls, CpuBind, RunWarning, Share,
    Spec, TermReason, UnitCheck, Units,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum Order {
    /// What follows in this file is for a host that keeps this ledger: with another one it ignores
    /// starts and cancellations, because it cannot know what became of them.
    Ledger { id: String },
    /// Specification `id`, referred to by the starts after it in this file.
    Spec { id: u32, spec: Box<Spec> },
    /// Start this attempt, unless it was started or cancelled before.
    Start(Box<StartOrder>),
    /// Prepare this host's part of an attempt that another host starts; answer with
    /// `Report::PartReady` or `Never`, again when asked again.
    Part {
        #[serde(flatten)]
        a: AttemptId,
        /// Specification id, defined earlier in the same file.
        s: u32,
        /// The host that runs the command.
        first: String,
        /// Slots here.
        slots: u32,
        /// See [`StartOrder::mark`]: the answer brings it back.
        #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
        mark: u32,
        #[serde(flatten)]
        own: Box<OwnPart>,
    },
    /// The part is over, whether prepared or not.
    PartEnd {
        #[serde(flatten)]
        a: AttemptId,
    },
    /// Signal a started attempt. To a host that has a part of it: stop or resume what the job has
    /// started there.
    Signal {
        #[serde(flatten)]
        a: AttemptId,
        act: Act,
        /// Why, recorded as the end's reason when the attempt ends by it.
        reason: TermReason,
        /// Milliseconds between INT, TERM and KILL.
        grace_ms: u64,
        /// Grows with every signal to this attempt: a host carries out each number once.
        n: u32,
        /// See [`StartOrder::mark`]; 0 = whatever runs as this attempt.
        #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
        mark: u32,
    },
    /// Never start this attempt; confirm with `Report::Never`, or `Started`/`Ended` if it was.
    Cancel {
        #[serde(flatten)]
        a: AttemptId,
    },
    /// A running attempt has more slots: `hosts` are all it has now. The host tells the job, once
    /// for each `n` (or once for several that it had not seen).
    Resize {
        #[serde(flatten)]
        a: AttemptId,
        hosts: Vec<Share>,
        n: u32,
        /// All that it has now.
        #[serde(default, skip_serializing_if = "TaskUnits::is_empty")]
        units: TaskUnits,
    },
    /// An attempt has other limits than it was started with, or than its part was prepared with on
    /// a host that is not its first. Once for each `n` (or once for several
    /// that the host had not seen); later numbers replace earlier ones.
    Limits {
        #[serde(flatten)]
        a: AttemptId,
        limits: crate::model::Limits,
        n: u32,
        /// See [`StartOrder::mark`]; 0 = whatever runs as this attempt.
        #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
        mark: u32,
    },
    /// The attempt will be stopped or ended at that time (ms) to make room: the host tells it, by a
    /// file and by a signal. 0: it will not, the file goes.
    Warn {
        #[serde(flatten)]
        a: AttemptId,
        due: i64,
        /// 0 = no signal.
        #[serde(default, skip_serializing_if = "is_zero_i32")]
        signal: i32,
        /// Counted with the signals to this attempt.
        n: u32,
        /// See [`StartOrder::mark`]; 0 = whatever runs as this attempt.
        #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
        mark: u32,
    },
    /// `iso_timeout` as it is from now on, ms (0: none); the host's load says when it is in force.
    Limit { iso_ms: u64 },
    /// Everything up to record `seq` of report file `part` is journalled: the host may forget it.
    Ack { part: u64, seq: u64 },
    /// What stands before follows from the journal up to here: the host remembers it.
    Journal(Point),
    /// The share was restored from a copy, epochs up to `above` are over: the host reports
    /// again all that it knows, since the leader may have lost what was acknowledged. Once for each
    /// number.
    Restored { above: u64 },
    /// Report file `part` is damaged from record `seq` (byte `at`) on: the leader reads no further.
    /// The host begins another one, which repeats what is not acknowledged.
    ReportsDamaged { part: u64, seq: u64, at: u64 },
    /// The orders go on in this part; everything still valid is repeated there.
    Next { part: u64 },
}

/// What to do to a running attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// INT, TERM, KILL spaced by the grace, until nothing is left.
    Terminate,
    /// KILL at once until nothing is left.
    Kill,
    Stop,
    Resume,
    Number(i32),
    /// Save its state.
    Checkpoint(CheckpointAct),
}

impl Act {
    /// It stops, or lets go on.
    pub fn is_suspension(self) -> bool {
        matches!(self, Act::Stop | Act::Resume)
    }
}

/// Everything a host needs beside the specification.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StartOrder {
    #[serde(flatten)]
    pub a: AttemptId,
    /// Specification id, defined earlier in the same file.
    pub s: u32,
    /// Command line (the script's name where `spec.script` is set).
    #[serde(rename = "c")]
    pub command: String,
    /// Job name as shown.
    #[serde(rename = "n", default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// All hosts of the attempt in order with their slots; the first one runs the command.
    pub hosts: Vec<Share>,
    /// Effective limits after queue defaults.
    pub limits: crate::model::Limits,
    /// Resizes that `hosts` holds already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resizes: u32,
    /// Changes of its limits that `limits` holds already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit_changes: u32,
    /// Array end and step for LSB_JOBINDEX_END / _STEP, 0 when no array.
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
    /// Whether the leader starts it elsewhere when this host is cut off, as it was dispatched:
    /// what the specification says by now counts for the next attempt. `None`: of a leader of an
    /// earlier version, the specification says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerunnable: Option<bool>,
    /// Tells this run from that of another job which had the same id and attempt number before the
    /// share was restored from a copy: made of the times of submission and dispatch. Comes back in
    /// every report. 0 = by a leader of an earlier version.
    #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
    pub mark: u32,
    /// The host has reported its start: a host that knows nothing of it any more must not start it
    /// again. Its end was acknowledged and then lost with a share that was restored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran: bool,
    /// What the queue has run before and after the command; `None`: nothing, and the job has no
    /// such command either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Box<HookOrder>>,
    /// Exit values besides 0 that are a success of it, for its report (`text::exits`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub success: String,
    /// How it is warned before its run limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn: Option<RunWarning>,
    /// Users of this cluster see their own jobs only: the default output is for its user alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// What the host binds it to, as its queue says.
    #[serde(default, skip_serializing_if = "CpuBind::is_none")]
    pub bind: CpuBind,
    /// Units that it may use on this host.
    #[serde(default, skip_serializing_if = "TaskUnits::is_empty")]
    pub units: TaskUnits,
}

/// What of a host is an attempt's there, for the commands that it starts there.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnPart {
    /// Its limits on that host.
    #[serde(skip_serializing_if = "is_unlimited")]
    pub limits: crate::model::Limits,
    /// Changes of them that these hold already, see [`StartOrder::limit_changes`].
    #[serde(skip_serializing_if = "is_zero")]
    pub limit_changes: u32,
    /// What the host binds it to, as its queue says.
    #[serde(skip_serializing_if = "CpuBind::is_none")]
    pub bind: CpuBind,
    /// Units that it may use there.
    #[serde(skip_serializing_if = "TaskUnits::is_empty")]
    pub units: TaskUnits,
}

fn is_unlimited(limits: &crate::model::Limits) -> bool {
    *limits == crate::model::Limits::default()
}

/// Units of one host for the environment of what runs there.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskUnits {
    #[serde(rename = "l")]
    pub list: Vec<Units>,
    /// GPUs without numbers as names are given to it by their places.
    #[serde(rename = "p", skip_serializing_if = "std::ops::Not::not")]
    pub by_place: bool,
    /// What happens if it uses others.
    #[serde(rename = "c", skip_serializing_if = "UnitCheck::is_off")]
    pub check: UnitCheck,
}

impl TaskUnits {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.check.is_off()
    }
}

/// Commands around a job's own, as the administrator's file says.
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
    /// How long each of them, and each of the job's own, may run (ms).
    pub pre_ms: u64,
    pub post_ms: u64,
    /// The queue's `job_starter`: the shell's words before the command, or around %USRCMD.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub starter: String,
    /// What runs the container of a job that has one.
    #[serde(skip_serializing_if = "ContainerRuntime::is_none")]
    pub runtime: ContainerRuntime,
    /// Variables of its application; those that its environment has stay.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Its `job_controls`.
    #[serde(skip_serializing_if = "Controls::is_none")]
    pub controls: Controls,
    /// How its state is saved; `None` = it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointOrder>,
}

/// Checkpoints of a job, as it and its queue say.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointOrder {
    pub what: Checkpoint,
    /// Directory of the programs; empty = that of the host's daemons.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub methods: String,
    /// How long one may take (ms).
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
