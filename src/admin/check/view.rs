//! Compares the published view with the journal.

use super::Ctx;
use super::finding::Finding;
use crate::model::{JobKey, JobStat};
use crate::record::view::{JobRow, Row};
use crate::spool::view::{JobSet, ViewError, ViewItem, ViewReader};
use crate::state::State;
use rustc_hash::FxHashMap;

/// Maximum number of rows that are compared with the journal.
const ROWS_MAX: usize = 5_000_000;
const EACH_MAX: usize = 20;
const REBUILD: &str = "a new leader publishes the view again: 'cadmin schedrestart'; jobs are \
     not affected";

/// The fields of a row that must agree.
type StateAndAttempt = (JobStat, u32);

/// The rows of the view.
pub(super) struct ViewRows {
    rows: FxHashMap<JobKey, StateAndAttempt>,
    all: bool,
}

fn facts(row: &JobRow<'_>) -> StateAndAttempt {
    (row.stat, row.attempt)
}

impl ViewRows {
    /// Reads the view; `None` if there is none or it cannot be read.
    pub(super) fn read(ctx: &Ctx, out: &mut Vec<Finding>) -> Option<ViewRows> {
        let mut shown = ViewRows {
            rows: FxHashMap::default(),
            all: true,
        };
        let reader = ViewReader::new(&ctx.layout);
        let read = reader.stream(&JobSet::all(), &mut |piece| match piece {
            ViewItem::Restart => shown.rows.clear(),
            ViewItem::Job { row, .. } if shown.rows.len() < ROWS_MAX => {
                shown.rows.insert(row.j, facts(&row));
            }
            ViewItem::Job { .. } => shown.all = false,
        });
        match read {
            Ok(reading) => {
                for text in reading.warnings.iter().take(EACH_MAX) {
                    out.push(Finding::broken("view", "view", text.clone(), REBUILD));
                }
                Some(shown)
            }
            Err(e) => {
                out.push(view_error(&e));
                None
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Checks that every row agrees with the journal, which was read later.
    pub(super) fn check_against(mut self, state: &State, out: &mut Vec<Finding>) {
        let mut wrong = Vec::new();
        for shard in state.shards() {
            for row in state.shard_rows(shard) {
                let Row::Job(job) = row else { continue };
                match self.rows.remove(&job.j) {
                    Some(shown) if shown == facts(&job) => {}
                    Some((stat, attempt)) => wrong.push((
                        job.j,
                        format!(
                            "the view shows it as {stat} (attempt {attempt}), the journal as {} \
                             (attempt {})",
                            job.stat, job.attempt
                        ),
                        format!("{stat} {attempt}"),
                    )),
                    None if self.all => {
                        wrong.push((job.j, "the view does not show it".into(), String::new()));
                    }
                    None => {}
                }
            }
        }
        for (j, (stat, attempt)) in self.rows {
            let what = format!("the view shows it as {stat}, but the journal does not contain it");
            wrong.push((j, what, format!("{stat} {attempt}")));
        }
        wrong.sort_unstable_by_key(|(j, ..)| *j);
        // A row that keeps changing is not stuck: only the same wrong row counts.
        for (j, what, shown) in wrong.into_iter().take(10_000) {
            let mut f = Finding::broken("view", format!("job {j}"), what, REBUILD);
            f.key = format!("view {j} {shown}");
            out.push(f);
        }
    }
}

fn view_error(e: &ViewError) -> Finding {
    match e {
        ViewError::Io(e) => Finding::unreadable("view", e),
        ViewError::None(path) => Finding::broken(
            "view",
            path.display(),
            "no leader has published it",
            "start cbsched on a host that may lead",
        ),
        other => Finding::broken("view", "view", other.to_string(), REBUILD),
    }
}
