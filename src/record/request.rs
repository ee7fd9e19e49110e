//! Requests that clients write into `inbox/<uid>/`. A framed file: header, one [`RequestHead`],
//! then one [`Verb`] per record. The requester is the file's owner; nothing in the content
//! identifies it.

use super::cron::CronDef;
use crate::model::{CheckpointAct, Submission, Token};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Largest request file in bytes (a pack of 100,000 jobs fits).
pub const REQUEST_MAX: usize = 64 << 20;
/// A request of no more bytes is short: it states how many verbs it has, and a file server takes it
/// in one write.
pub const SHORT_MAX: usize = 60 << 10;
/// Largest number of verbs in one request.
pub const VERBS_MAX: usize = 200_000;
/// Largest environment of a job, in bytes of its JSON text.
pub const ENV_MAX: usize = 256 << 10;
/// Largest spooled script or input in bytes.
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
    /// Script text of the job, when it came from standard input or a file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub script: String,
    /// Verbs that follow, in a request that is short; 0: as many as there are. One of fewer verbs
    /// is not whole: it is written where it is read.
    #[serde(skip_serializing_if = "is_zero")]
    pub verbs: u32,
    /// Spooled standard input (`-is`), text or base64 is not needed: UTF-8 only.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// Parameter table of `--params`, at most [`SCRIPT_MAX`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub params: String,
}

/// One thing to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum Verb {
    /// Submit one job or array. `line` = line number in a pack file, 0 otherwise. `spec`: when true
    /// the options equal those of the previous submission of this request and `job.spec` is left
    /// out.
    Submit {
        #[serde(default, skip_serializing_if = "is_zero")]
        line: u32,
        #[serde(default, skip_serializing_if = "is_false")]
        same: bool,
        job: Box<Submission>,
    },
    /// Signal jobs: `how` says which; see [`SignalHow`].
    Signal {
        sel: Selector,
        how: SignalHow,
    },
    /// Kill and put back to pending. `hold`: to PSUSP.
    Requeue {
        sel: Selector,
        #[serde(default)]
        hold: bool,
        /// Which states are meant beside running ones (`-d` done, `-e` exit, `-r` run).
        #[serde(default)]
        states: Vec<String>,
    },
    /// Save it where it has checkpoints, kill it, and put it back to pending. `hosts`: the hosts
    /// it may run on from now on (`-m`), empty = as before; `force`: for the method of checkpoints.
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
    /// Start a waiting job or element now, whatever holds it back. `hosts`: names, each perhaps
    /// with `#SLOTS`, in order. `closed`: closed hosts too.
    Run {
        id: String,
        hosts: String,
        #[serde(default)]
        closed: bool,
    },
    /// Change parameters: fields given replace, names in `reset` go back to default.
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
    /// Make or change a cron job. Its environment, script and input are those of the request.
    CronPut(Box<CronPut>),
    /// Do something with the cron job of this name, `all`: with each of the user's.
    Cron {
        name: String,
        /// Whose; empty = the requester's.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        user: String,
        act: CronAct,
    },
    /// Send nothing about the alerts of a rule for so long; 0: send again.
    SilenceAlert {
        name: String,
        for_ms: u64,
        why: String,
    },
    /// Read conf/cb.yaml again.
    Reconfig,
    /// Admin's word that the share was restored from a backup (`cadmin restored --confirm`).
    Restored,
    /// Admin's word that a lost host's attempts are dead (`cadmin hlost --confirm`).
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

/// A definition and what it is for.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CronPut {
    pub def: CronDef,
    /// As whom it runs; empty = the requester.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// There may be none of this name yet.
    pub create: bool,
    /// There may be one of this name already, which it replaces.
    pub replace: bool,
}

/// What is to be done with a cron job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CronAct {
    Enable,
    Disable,
    /// A run now, whatever the schedule says.
    Start,
    /// End its runs.
    Kill,
    Remove,
}

/// What a signal verb means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalHow {
    /// INT, TERM, KILL; pending jobs end as EXIT.
    Kill,
    /// As `Kill`, and the job is removed at once without waiting for its host.
    Force,
    Stop,
    Resume,
    /// Just this signal to all processes.
    Number(i32),
    /// Save its state (`cchkpnt`).
    Checkpoint(CheckpointAct),
}

/// Which jobs a verb means (as LSF: an id wins over the other selectors; 0 = all that fit).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Selector {
    /// Job ids as typed (`123`, `123[1-5]`), empty = by the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// `0` was given: all that fit instead of the latest.
    pub all: bool,
    /// Job name, with `*` at either end.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub queue: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// User or user group, `all`; empty = the requester.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
}

/// New values for `cmod`. `None` = leave. `reset` names options to set back (`W`, `R`, ...).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// A submission carrying new values for the options named in `set` (csub's letters).
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
}
