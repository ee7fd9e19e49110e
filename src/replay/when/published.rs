//! `cbsim when` for users who may not read the journal: what the leader has published about their
//! jobs.

use super::{ELEMENTS_MAX, StartAnswer};
use crate::language::{answer, tell};
use crate::model::JobKey;
use crate::record::view::EstimateRow;
use crate::spool::Layout;
use crate::spool::view::{JobSet, ViewReader};
use crate::sys;

/// Who can do more.
const ASK: &str = "only administrators can read the state that a simulation needs: ask one for \
                   'cbsim when JOB'";

/// Prints what is known of each job. Returns 0, or 1 if a job does not exist or has no known start.
pub(super) fn answer(layout: &Layout, jobs: &[String], json: bool) -> Result<i32, String> {
    let reader = ViewReader::new(layout);
    let params = reader.params().map_err(|e| e.to_string())?;
    let estimates = reader.estimates().unwrap_or_default();
    let me = sys::users::effective_uid();
    let mut code = 0;
    for text in jobs {
        let requested: JobKey = text.parse().map_err(|e| format!("{text:?}: {e}"))?;
        let want = JobSet {
            ids: vec![(requested.id, requested.id)],
            uids: if params.view_all_jobs {
                Vec::new()
            } else {
                vec![me]
            },
            ..JobSet::default()
        };
        let (rows, _) = reader.collect(&want).map_err(|e| e.to_string())?;
        let mut rows: Vec<_> = rows
            .into_iter()
            .filter(|job| requested.idx == 0 || job.row.j == requested)
            .collect();
        rows.sort_unstable_by_key(|job| job.row.j);
        if rows.is_empty() {
            tell!("cbsim: job {text} does not wait or run, or is not yours");
            code = 1;
        }
        for job in rows.iter().take(ELEMENTS_MAX) {
            let row = &job.row;
            let why = job.why.as_ref().map(ToString::to_string);
            let answer = StartAnswer {
                job: row.j,
                at: if row.stat.is_started() {
                    Some(row.dispatch)
                } else {
                    estimate(&estimates, row.j)
                },
                now: sys::clock::wall_ms(),
                why: why.unwrap_or_default(),
            };
            code = code.max(i32::from(answer.at.is_none()));
            match (json, answer.at) {
                (true, _) => println!("{}", answer.json()),
                (false, Some(_)) => answer!("{}", answer.text()),
                (false, None) => answer!("{}", unknown(&answer)),
            }
        }
    }
    if code != 0 {
        tell!("cbsim: {ASK}");
    }
    Ok(code)
}

/// When a job with a reservation is expected to start.
fn estimate(rows: &[EstimateRow], j: JobKey) -> Option<i64> {
    rows.iter().find(|row| row.j == j).and_then(|row| row.at)
}

fn unknown(answer: &StartAnswer) -> String {
    let job = answer.job;
    match answer.why.as_str() {
        "" => format!("{job} waits, no reason is published"),
        why => format!("{job} has no reservation; it waits: {why}"),
    }
}
