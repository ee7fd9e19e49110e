//! Requests that clients write into `inbox/<uid>/`. A framed file: header, one [`RequestHead`],
//! then one [`Verb`] per record. The requester is the file's owner; nothing in the content
//! identifies it.

use super::byte_text::ByteText;
use super::cron::CronDef;
use super::job_group::JobGroupAct;
use crate::model::{CheckpointAct, JobStat, Stamp, Submission, Token};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum size of a request file in bytes (a pack of 100,000 jobs fits).
pub const REQUEST_MAX: usize = 64 << 20;
/// Maximum size of a short request, which states its number of verbs and which a file server
/// accepts in one write.
pub const SHORT_MAX: usize = 60 << 10;
/// Maximum number of verbs in one request.
pub const VERBS_MAX: usize = 200_000;
/// Maximum size of the environment of a job, in bytes of its JSON text.
pub const ENV_MAX: usize = 256 << 10;
/// Maximum size of a spooled script or input in bytes.
pub const SCRIPT_MAX: usize = 1 << 20;

/// Record 1 of a request.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestHead {
    pub token: Token,
    /// Host and pid of the client, for logs.
    pub host: String,
    pub pid: u32,
    /// The client's wall clock (ms), for logs.
    pub t: i64,
    /// Environment of all jobs of this request (sorted names), at most [`ENV_MAX`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Script of the job, if it came from standard input or a file.
    #[serde(skip_serializing_if = "ByteText::is_empty")]
    pub script: ByteText,
    /// Number of verbs that follow, in a short request; 0: not stated. A request with fewer verbs
    /// is incomplete, because it is written in place.
    #[serde(skip_serializing_if = "is_zero")]
    pub verbs: u32,
    /// Copied standard input (`-is`).
    #[serde(skip_serializing_if = "ByteText::is_empty")]
    pub stdin: ByteText,
    /// Parameter table of `--params`, at most [`SCRIPT_MAX`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub params: String,
}

/// One action.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum Verb {
    /// Submit one job or array. `line` = line number in a pack file, 0 otherwise. `same`: if true,
    /// the options equal those of the previous submission of this request and `job.spec` is
    /// omitted.
    Submit {
        #[serde(default, skip_serializing_if = "is_zero")]
        line: u32,
        #[serde(default, skip_serializing_if = "is_false")]
        same: bool,
        job: Box<Submission>,
    },
    /// Signal jobs as specified by `how`; see [`SignalAction`].
    Signal {
        sel: Selector,
        how: SignalAction,
    },
    /// Kill and put back to pending. `hold`: to PSUSP.
    Requeue {
        sel: Selector,
        #[serde(default)]
        hold: bool,
        /// States that are selected besides running ones (`-d` done, `-e` exit, `-r` run).
        #[serde(default)]
        states: Vec<String>,
    },
    /// Save it if it has checkpoints, kill it, and put it back to pending. `hosts`: the hosts on
    /// which it may run from now on (`-m`), empty = unchanged; `force`: for the method of
    /// checkpoints.
    Migrate {
        sel: Selector,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        hosts: String,
        #[serde(default, skip_serializing_if = "is_false")]
        force: bool,
    },
    Switch {
        sel: Selector,
        queue: String,
    },
    /// Move within the pending order: `pos` counts from 1, from the top or the bottom.
    Move {
        id: String,
        pos: u32,
        bottom: bool,
    },
    /// Start a waiting job or element now, whatever delays it. `hosts`: names, optionally with
    /// `#SLOTS`, in order. `closed`: also closed hosts.
    Run {
        id: String,
        hosts: String,
        #[serde(default)]
        closed: bool,
    },
    /// Leave a message with a job; it replaces one with the same index.
    Post {
        sel: Selector,
        #[serde(default, skip_serializing_if = "is_zero")]
        index: u32,
        text: String,
    },
    /// Change parameters: given fields are replaced, names in `reset` are set to their defaults.
    Modify {
        sel: Selector,
        changes: Box<Changes>,
    },
    Queue {
        names: Vec<String>,
        act: QueueAct,
        comment: String,
    },
    Host {
        names: Vec<String>,
        act: HostAct,
        comment: String,
    },
    /// Create or change a cron job. Its environment, script and input are those of the request.
    CronPut(Box<CronPut>),
    /// Act on the cron job of this name; `all`: on each of the user's.
    Cron {
        name: String,
        /// Its owner; empty = the requester.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        user: String,
        act: CronAct,
    },
    /// Create, change or delete a job group.
    JobGroup {
        name: String,
        act: JobGroupAct,
    },
    /// Send no messages about the alerts of a rule for this time; 0: send them again.
    SilenceAlert {
        name: String,
        for_ms: u64,
        why: String,
    },
    /// Read conf/cb.yaml again.
    Reconfig,
    /// An administrator states that the share was restored from a backup (`cadmin restored
    /// --confirm`).
    Restored,
    /// An administrator states that a lost host's attempts have ended (`cadmin hlost --confirm`).
    HostLost {
        host: String,
    },
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_false(b: &bool) -> bool {
    !*b
}

/// A definition with its owner and mode.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CronPut {
    pub def: CronDef,
    /// The user as whom it runs; empty = the requester.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// A cron job of this name need not exist yet.
    pub create: bool,
    /// A cron job of this name may exist already, and is replaced.
    pub replace: bool,
}

/// An action on a cron job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CronAct {
    Enable,
    Disable,
    /// Start a run now, whatever the schedule.
    Start,
    /// End its runs.
    Kill,
    Remove,
}

/// The action of a signal verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalAction {
    /// INT, TERM, KILL; pending jobs end as EXIT.
    Kill,
    /// As `Kill`, and the job is removed at once without waiting for its host.
    Force,
    Stop,
    Resume,
    /// Only this signal to all processes.
    Number(i32),
    /// Save its state (`cchkpnt`).
    Checkpoint(CheckpointAct),
}

/// The jobs to which a verb applies (as in LSF: an id overrides the other selectors; 0 = all that
/// match).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Selector {
    /// Job ids as typed (`123`, `123[1-5]`), empty = select by the other fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// `0` was given: all that match instead of the latest.
    pub all: bool,
    /// Job name, with `*` at either end.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// Job group; its subgroups are included.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// User or user group, `all`; empty = the requester.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Only jobs and elements in these states; empty = in every state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<StateGroup>,
}

/// The states of unfinished jobs, as a selector distinguishes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateGroup {
    /// Not started, also if it is held.
    Waiting,
    /// Started, also if it is suspended.
    Started,
}

impl StateGroup {
    fn has(self, stat: JobStat) -> bool {
        match self {
            StateGroup::Waiting => stat.is_waiting(),
            StateGroup::Started => stat.is_started(),
        }
    }
}

impl Selector {
    /// Whether it selects works in this state.
    pub fn has_stat(&self, stat: JobStat) -> bool {
        self.states.is_empty() || self.states.iter().any(|states| states.has(stat))
    }
}

/// New values for `cmod`. `None` = unchanged. `reset` lists options to reset (`W`, `R`, ...).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// A submission with new values for the options named in `set` (csub's letters).
    pub job: Submission,
    pub set: Vec<String>,
    pub reset: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueAct {
    Open,
    Close,
    Activate,
    Inactivate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAct {
    Open,
    Close,
    /// No new jobs for so many seconds; 0 = without end.
    Lock {
        for_s: u32,
    },
    Unlock,
}

/// A lock of a host, which takes no new jobs. Whether the host is closed is separate.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostLock {
    pub by: String,
    pub t: Stamp,
    /// When it ends by itself; 0 = never.
    pub until: Stamp,
}

impl HostLock {
    pub fn new(by: &str, t: Stamp, for_s: u32) -> HostLock {
        let until = match for_s {
            0 => Stamp(0),
            s => t.plus_ms(u64::from(s) * 1000),
        };
        let by = by.to_owned();
        HostLock { by, t, until }
    }

    /// Whether its time is over.
    pub fn is_over(&self, now: Stamp) -> bool {
        self.until != Stamp(0) && self.until <= now
    }
}
