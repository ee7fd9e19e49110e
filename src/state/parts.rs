//! The parts of the state that are plain records. Owns no rules: the files that change them do.

use super::dirty::Dirty;
use super::host_numbers::HostNumbers;
use super::index::UsageOwner;
use super::names::Names;
use crate::model::{JobKey, Spec, Stamp, Token};
use crate::record::acct::AttemptRecord;
use crate::record::event::UserShareHistory;
use crate::record::job_group::JobGroup;
use crate::record::request::HostLock;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// An administrator's settings of a queue; a queue without an entry is open and active.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueueCtl {
    pub open: bool,
    pub active: bool,
    pub by: String,
    pub comment: String,
    pub t: Stamp,
}

impl Default for QueueCtl {
    fn default() -> QueueCtl {
        let (by, comment) = (String::new(), String::new());
        QueueCtl {
            open: true,
            active: true,
            by,
            comment,
            t: Stamp(0),
        }
    }
}

/// What is known of a host apart from its load: the administrator's settings and the leader's
/// judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct HostCtl {
    pub closed: bool,
    pub by: String,
    pub comment: String,
    pub t: Stamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<HostLock>,
    /// The leader saw its heartbeat.
    pub up: bool,
    /// Boot id of the last report.
    pub boot: String,
    /// The ledger in which it stores its attempts; empty = not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ledger: String,
    /// The number of its newest report file that was read; 0 = not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub part: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What hosts have seen and the share does not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RestoredShare {
    /// The epoch that a host has followed and that does not exist here, or differs from what the
    /// host knows; and the host.
    pub epoch: u64,
    pub host: String,
    /// The highest job id that hosts were given.
    pub id: u32,
    pub t: Stamp,
}

/// The answer to a token that was carried out before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAnswer {
    pub t: Stamp,
    /// Jobs that it created: (pack line, id), few for single submissions.
    pub jobs: JobRuns,
}

/// Consecutive ids of consecutive pack lines: (line, id, count).
pub type JobRuns = smallvec::SmallVec<[(u32, u32, u32); 1]>;

/// How far a request of which only a part was carried out has advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialRequest {
    pub t: Stamp,
    /// Its next verb.
    pub verb: u32,
    /// The next result of this verb's selection, and where to continue in it.
    pub position: (u32, u32),
}

/// Where the journal of an epoch ends, if a later epoch states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EpochEnd {
    /// Distinguishes epochs with the same number; 0 = its first event is not known.
    pub(super) id: u32,
    /// Segment, and the sequence number after its last record; 0 = the end is not known.
    pub(super) end: (u64, u64),
}

/// The leaders so far, and the configuration that the last one put in force.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaders {
    pub epoch: u64,
    /// Where the journals of the last epochs end.
    pub ends: BTreeMap<u64, EpochEnd>,
    pub config_digest: String,
    /// The share is older than what hosts have seen: nothing is decided.
    pub restored_share: Option<RestoredShare>,
    /// The last restore of the share: the highest earlier epoch, and when.
    pub restored: Option<(u64, Stamp)>,
}

/// Numbers assigned to jobs and specifications.
#[derive(Clone, Debug, Default)]
pub(super) struct AssignedNumbers {
    /// The highest job id ever assigned; ids are not reused before they start again from 1.
    pub last_job: u32,
    /// The specification number assigned last.
    pub last_spec: u32,
    pub by_spec: HashMap<Arc<Spec>, u32>,
}

/// Requests that were answered or are being carried out.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    pub tokens: HashMap<Token, KnownAnswer>,
    /// Jobs created with a key, by user and key, and when.
    pub keys: HashMap<(u32, String), (u32, Stamp)>,
    /// How far requests that are carried out over several turns have advanced.
    pub partial: HashMap<Token, PartialRequest>,
}

/// What is known of queues and job groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub ctl: BTreeMap<String, QueueCtl>,
    /// What ended jobs count in the share trees, and the time to which it refers.
    pub share_histories: BTreeMap<String, (Stamp, Vec<UserShareHistory>)>,
    pub groups: JobGroups,
}

/// The explicit job groups.
#[derive(Clone, Debug, Default)]
pub(super) struct JobGroups {
    pub groups: BTreeMap<String, JobGroup>,
    /// Grows whenever a group is created, changed or deleted.
    pub version: u64,
}

/// What is known of hosts, and their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    pub ctl: BTreeMap<String, HostCtl>,
    pub numbers: HostNumbers,
}

/// Which jobs wait for which others, and the names by which they refer to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Dependencies {
    pub names: Names,
    /// Jobs waiting for a dependency, by job referred to.
    pub watchers: FxHashMap<u32, BTreeSet<u32>>,
    /// Jobs whose dependency must be evaluated again.
    pub changed: BTreeSet<u32>,
}

/// Jobs sorted by time.
#[derive(Clone, Debug, Default)]
pub(super) struct JobTimes {
    /// Finished jobs by the time at which their end was known.
    pub finished: BTreeSet<(Stamp, u32)>,
    /// Termination times (`-t`) of jobs; those of finished jobs are ignored.
    pub deadlines: BTreeSet<(Stamp, u32)>,
    /// Failed jobs and elements by the time at which they may be run again.
    pub retries: BTreeSet<(Stamp, JobKey)>,
}

/// What changed since it was last taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Rows that the view does not show yet.
    pub rows: Dirty,
    pub specs: BTreeSet<u32>,
    /// Jobs and elements that started, ended or changed what they hold since the scheduler last
    /// asked; `None`: changes are not recorded.
    pub changed_work: Option<Vec<JobKey>>,
    /// Accounting records of attempts that ended since they were last taken; `None`: they are not
    /// recorded.
    pub ends: Option<Vec<AttemptRecord<'static>>>,
}

/// Pending jobs, with elements counted individually, and the minimum number of slots that they
/// request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingCounts {
    pub jobs: u64,
    pub slots: u64,
}

/// Pending jobs per user, per queue (by its number) and in total.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingTotals {
    pub by_user: FxHashMap<u32, PendingCounts>,
    pub by_queue: Vec<PendingCounts>,
    pub total: u64,
    /// Names of the users who ever had jobs, by uid.
    pub users: FxHashMap<u32, String>,
}

impl PendingTotals {
    /// Updates the counts: `owner` had `before` jobs that request `slots` each, and now has
    /// `after`.
    pub(super) fn change(&mut self, owner: UsageOwner, slots: u32, before: u64, after: u64) {
        let queue = owner.queue as usize;
        if self.by_queue.len() <= queue {
            self.by_queue.resize(queue + 1, PendingCounts::default());
        }
        let of_user = self.by_user.entry(owner.uid).or_default();
        for sum in [of_user, &mut self.by_queue[queue]] {
            sum.jobs = sum.jobs + after - before;
            let slots = u64::from(slots.max(1));
            sum.slots = sum.slots + after * slots - before * slots;
        }
        self.total = self.total + after - before;
    }
}
