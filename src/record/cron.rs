//! Cron jobs: definitions in requests and in the journal, and the results of their due times. Data
//! only: the calendar is in `text::cron`, the rules are in `turn`.

use crate::model::{Stamp, Submission};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of the name of a cron job, in bytes.
pub const NAME_MAX: usize = 64;
/// Maximum number of records that are kept of a cron job, and the default.
pub const HISTORY_MAX: u32 = 100;
pub const HISTORY_DEFAULT: u32 = 10;
/// Maximum start deadline in seconds (a year), number of runs at a time, and failures in a row.
pub const DEADLINE_MAX_S: u64 = 366 * 86_400;
pub const RUNS_MAX: u32 = 1000;
/// Maximum number of jobs in one run (a pack).
pub const PACK_MAX: usize = 100;
/// Maximum length of the text of a record, in bytes.
pub const TEXT_MAX: usize = 300;

/// What happens at a due time if an earlier run has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Nothing is started.
    #[default]
    Skip,
    /// Another run is started.
    Run,
    /// The earlier run is ended and another one started.
    Replace,
}

impl Overlap {
    pub fn word(self) -> &'static str {
        match self {
            Overlap::Skip => "skip",
            Overlap::Run => "run",
            Overlap::Replace => "replace",
        }
    }
}

/// A definition. Retries and run limit of its runs are options of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CronDef {
    /// Unique among the cron jobs of one user.
    pub name: String,
    /// Five fields of a cron schedule.
    pub schedule: String,
    /// Name of a time zone.
    pub zone: String,
    pub overlap: Overlap,
    /// With `run`: maximum number of runs at a time; 0 = not limited here.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_runs: u32,
    /// A run that was not started this long after its due time is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<u64>,
    /// After this number of failed runs in a row the cron job is disabled; 0 = never.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_fails: u32,
    /// Number of records that are kept.
    pub history: u32,
    /// No time falls due.
    #[serde(skip_serializing_if = "is_false")]
    pub disabled: bool,
    /// The job of each run; may be an array.
    pub job: Submission,
    /// The other jobs of each run, if it is a pack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Submission>,
}

impl CronDef {
    /// The jobs of each run, in order.
    pub fn jobs(&self) -> impl Iterator<Item = &Submission> {
        std::iter::once(&self.job).chain(&self.more)
    }
}

/// The due time for which a job was submitted without a request of its own. It is part of the
/// `submitted` event, so one record both handles the due time and creates the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CronRun {
    pub uid: u32,
    pub name: String,
    /// The due time; 0 = started manually, without effect on the schedule.
    pub due: Stamp,
    /// Number of earlier due times that this run covers.
    #[serde(skip_serializing_if = "is_zero")]
    pub missed: u32,
    /// For a pack: the number of this job, counted from 0, the number of jobs, and the id of the
    /// first job if this is another one.
    #[serde(skip_serializing_if = "is_zero")]
    pub part: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub parts: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub first: u32,
}

/// A run that is a pack and has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PackRun {
    /// Number of jobs that were submitted, and number of jobs of the pack. They differ only if the
    /// leader that submitted them died in between.
    pub made: u32,
    pub parts: u32,
    /// Its jobs that have not ended.
    pub live: BTreeSet<u32>,
    /// The jobs made so far, in the order of the definition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<u32>,
    /// One of its jobs was ended by the next run.
    #[serde(skip_serializing_if = "is_false")]
    pub replaced: bool,
    /// The failure of the first job that failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failed: String,
}

impl PackRun {
    /// Whether some of its jobs are still to be submitted.
    pub fn is_open(&self) -> bool {
        self.made < self.parts
    }
}

/// The result of a due time or a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CronResult {
    #[default]
    Done,
    /// It failed, was killed, or was not started before its deadline.
    Failed,
    /// There was no leader, or the deadline had passed.
    Missed,
    /// An earlier run had not ended.
    Overlapped,
    /// The leader refused the job.
    Refused,
    /// The next run ended it (`replace`): neither a failure nor a success.
    Replaced,
}

impl CronResult {
    pub fn word(self) -> &'static str {
        match self {
            CronResult::Done => "done",
            CronResult::Failed => "failed",
            CronResult::Missed => "missed",
            CronResult::Overlapped => "overlapped",
            CronResult::Refused => "refused",
            CronResult::Replaced => "replaced",
        }
    }

    pub fn is_failure(self) -> bool {
        matches!(self, CronResult::Failed | CronResult::Refused)
    }
}

/// A record of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CronRecord {
    pub what: CronResult,
    /// The newest due time of the record; 0 = started manually.
    pub due: Stamp,
    /// When the result became known.
    pub t: Stamp,
    /// The job; 0 = none was created.
    #[serde(skip_serializing_if = "is_zero")]
    pub id: u32,
    /// Number of due times that the record covers.
    pub n: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A cron job in the state; also its row in the view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CronJob {
    pub uid: u32,
    pub user: String,
    pub def: CronDef,
    /// Due times up to this one are handled, whatever the clock says.
    pub handled: Stamp,
    /// The user who last defined it, and when.
    pub by: String,
    pub t: Stamp,
    /// Failed runs in a row.
    #[serde(skip_serializing_if = "is_zero")]
    pub fails: u32,
    /// Why it is disabled, if because of its failures.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Runs that have not ended, by their job, with their due times.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "by_id")]
    pub running: BTreeMap<u32, Stamp>,
    /// Runs among them that are packs, by their first job, which identifies the whole pack.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "by_id")]
    pub packs: BTreeMap<u32, PackRun>,
    /// Oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<CronRecord>,
}

impl CronJob {
    /// All jobs of its runs that have not ended.
    pub fn live_jobs(&self) -> impl Iterator<Item = u32> {
        let alone = self.running.keys().copied();
        let alone = alone.filter(|id| !self.packs.contains_key(id));
        let packed = self
            .packs
            .values()
            .flat_map(|pack| pack.live.iter().copied());
        alone.chain(packed)
    }

    /// Adds a record and drops the oldest ones.
    pub fn note(&mut self, record: CronRecord) {
        self.history.push(record);
        let most = self.def.history.min(HISTORY_MAX) as usize;
        let over = self.history.len().saturating_sub(most);
        self.history.drain(..over);
    }

    /// Counts a failure or a success, and disables the cron job if it fails too often.
    pub fn count(&mut self, what: CronResult) {
        match what {
            CronResult::Done => self.fails = 0,
            what if what.is_failure() => self.fails = self.fails.saturating_add(1),
            _ => {}
        }
        let most = self.def.max_fails;
        if most > 0 && self.fails >= most && !self.def.disabled {
            self.def.disabled = true;
            self.why = format!("{} failed runs in a row (MaxFails)", self.fails);
        }
    }
}

/// The id of a job as the name of a JSON field. In a record with a tag (`{"k":"cron",...}`), serde
/// passes on such a name as a text, which it does not read as a number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NamedId(u32);

impl<'de> Deserialize<'de> for NamedId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<NamedId, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        text.parse().map(NamedId).map_err(D::Error::custom)
    }
}

/// Reads a map whose names are ids of jobs.
fn by_id<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
    d: D,
) -> Result<BTreeMap<u32, V>, D::Error> {
    let all = BTreeMap::<NamedId, V>::deserialize(d)?.into_iter();
    Ok(all.map(|(NamedId(id), value)| (id, value)).collect())
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_false(b: &bool) -> bool {
    !*b
}
