//! Compares the cron jobs of the simulated cluster with the calendar: each due time has led to at
//! most one job over all leaders, and none is missing without a record. Only judges.

use crate::record::cron::{CronJob, CronResult, HISTORY_MAX};
use crate::state::{CronKey, State};
use std::collections::{BTreeMap, BTreeSet};

/// The prefix of their names.
pub(super) const CRON_NAME: &str = "cronrun-";
/// The schedule of all of them, and its period, ms.
pub(super) const SCHEDULE: &str = "* * * * *";
const PERIOD_MS: i64 = 60_000;
/// Above this number of due times, records were not counted one by one.
const MANY: u32 = 1000;

/// See the head of this file.
#[derive(Clone, Default)]
pub(super) struct CronChecks {
    /// Slots of the clients whose cron jobs were defined.
    pub defined: BTreeSet<usize>,
    /// The job of each due time.
    runs: BTreeMap<(CronKey, i64), u32>,
    /// The jobs of each pack, by its first job.
    packs: BTreeMap<(CronKey, u32), BTreeSet<u32>>,
}

impl CronChecks {
    /// Number of due times that have led to a job.
    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// The errors in the state of a leader that was not overtaken.
    pub(super) fn observe(&mut self, epoch: u64, state: &State) -> Vec<String> {
        let mut wrong = Vec::new();
        for cron in state.crons() {
            let key = (cron.uid, cron.def.name.clone());
            let ended = cron.history.iter().filter(|r| is_run(r.what));
            let ended = ended.map(|r| (r.id, r.due));
            let live = cron.running.iter().map(|(id, due)| (*id, *due));
            for (id, due) in ended.chain(live).filter(|(_, due)| due.0 != 0) {
                let first = *self.runs.entry((key.clone(), due.0)).or_insert(id);
                if first != id {
                    let name = &cron.def.name;
                    wrong.push(format!(
                        "epoch {epoch}: {name} has job {id} for its due time {}, which job {first} \
                         was for",
                        due.0
                    ));
                }
            }
            for (first, pack) in &cron.packs {
                let known = self.packs.entry((key.clone(), *first)).or_default();
                known.extend(&pack.live);
                if known.len() > pack.parts as usize {
                    let (name, parts) = (&cron.def.name, pack.parts);
                    wrong.push(format!(
                        "epoch {epoch}: the pack {first} of {name} has {known:?} for its {parts} \
                         jobs"
                    ));
                }
            }
            wrong.extend(missing(epoch, cron));
        }
        wrong
    }
}

fn is_run(what: CronResult) -> bool {
    matches!(
        what,
        CronResult::Done | CronResult::Failed | CronResult::Replaced
    )
}

/// Due times since the definition that neither led to a run nor have a record.
fn missing(epoch: u64, cron: &CronJob) -> Option<String> {
    let many = cron.history.iter().any(|r| r.n >= MANY);
    if many || cron.history.len() >= HISTORY_MAX as usize {
        return None;
    }
    let minute = |ms: i64| ms.div_euclid(PERIOD_MS);
    let due = minute(cron.handled.0) - minute(cron.t.0);
    let recorded: i64 = cron.history.iter().map(|r| i64::from(r.n)).sum();
    let live = i64::try_from(cron.running.len()).unwrap_or(i64::MAX);
    (due != recorded + live).then(|| {
        format!(
            "epoch {epoch}: {} has handled {due} due times, {recorded} have a record, {live} run",
            cron.def.name
        )
    })
}
