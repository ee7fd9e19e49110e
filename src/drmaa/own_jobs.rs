//! The jobs of a session: their ids, the last known rows of the view, and which ends were returned.
//!
//! Pure: rows and the time come in. A job is removed when its end was returned; from then on its id
//! is refused, as the standard requires.

use super::codes::{Code, Problem, Result};
use super::ends::End;
use corral::model::{JobKey, JobStat};
use corral::spool::view::ViewJob;
use corral::text::IndexSet;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of jobs of one session, including those whose ends were returned.
const JOBS_MAX: usize = 2_000_000;
/// A job that the view does not show for this time is considered forgotten, ms.
const MISSING_MS: u64 = 120_000;

/// A job whose end was not returned yet.
#[derive(Clone, Debug)]
pub(crate) struct UnreturnedJob {
    /// Submitted in this session; otherwise the program only waits for it.
    of_session: bool,
    /// When the leader accepted it, as in its row (ms); 0 = unknown.
    accepted: i64,
    /// When the view last showed it, ms since boot; at first the time of submission.
    seen_ms: u64,
    pub(crate) stat: JobStat,
    pub(crate) end: Option<Arc<End>>,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct OwnJobs {
    open: BTreeMap<JobKey, UnreturnedJob>,
    returned: HashSet<JobKey>,
}

/// What the rows show of a job.
enum RowState {
    Absent,
    Stat(JobStat),
    Ended(End),
}

impl OwnJobs {
    /// Checks that there is room for more jobs.
    ///
    /// # Errors
    /// The session has too many.
    pub(crate) fn check_room(&self, more: u64) -> Result<()> {
        let have = (self.open.len() + self.returned.len()) as u64;
        if have + more <= JOBS_MAX as u64 {
            return Ok(());
        }
        Err(Problem::new(
            Code::TryLater,
            format!(
                "the session has {have} jobs, at most {JOBS_MAX} are allowed: start another session"
            ),
        ))
    }

    /// Adds the submitted jobs.
    pub(crate) fn add(
        &mut self,
        keys: impl Iterator<Item = JobKey>,
        accepted: i64,
        stat: JobStat,
        now: u64,
    ) {
        let job = UnreturnedJob {
            of_session: true,
            accepted,
            seen_ms: now,
            stat,
            end: None,
        };
        self.open.extend(keys.map(|key| (key, job.clone())));
    }

    /// Adds a job of the same user that was submitted elsewhere, so that it can be waited for.
    pub(crate) fn adopt(&mut self, key: JobKey, stat: JobStat, now: u64) {
        self.open.entry(key).or_insert(UnreturnedJob {
            of_session: false,
            accepted: 0,
            seen_ms: now,
            stat,
            end: None,
        });
    }

    pub(crate) fn get(&self, key: JobKey) -> Option<&UnreturnedJob> {
        self.open.get(&key)
    }

    /// Whether its end was returned, so that it is no longer a job of the session.
    pub(crate) fn was_returned(&self, key: JobKey) -> bool {
        self.returned.contains(&key)
    }

    /// The jobs of the session whose ends were not returned.
    pub(crate) fn of_session(&self) -> impl Iterator<Item = (JobKey, &UnreturnedJob)> {
        let all = self.open.iter().filter(|(_, job)| job.of_session);
        all.map(|(key, job)| (*key, job))
    }

    /// The jobs whose ends are not known.
    pub(crate) fn unended(&self) -> Vec<JobKey> {
        let all = self.open.iter().filter(|(_, job)| job.end.is_none());
        all.map(|(key, _)| *key).collect()
    }

    /// Returns the end of a job, if it is known, and forgets the job.
    ///
    /// # Errors
    /// It is not one of these jobs: another thread may have been faster.
    pub(crate) fn take_end(&mut self, key: JobKey) -> Result<Option<Arc<End>>> {
        let Some(job) = self.open.get(&key) else {
            return Err(no_such(key));
        };
        let Some(end) = job.end.clone() else {
            return Ok(None);
        };
        self.forget(key);
        Ok(Some(end))
    }

    /// Returns the end of any job of the session, and forgets the job.
    ///
    /// # Errors
    /// The session has no job.
    pub(crate) fn take_any_end(&mut self) -> Result<Option<(JobKey, Arc<End>)>> {
        let mut all = self.of_session().peekable();
        if all.peek().is_none() {
            let text = "the session has no job that could be waited for";
            return Err(Problem::new(Code::InvalidJob, text));
        }
        let found = all.find_map(|(key, job)| Some((key, job.end.clone()?)));
        drop(all);
        if let Some((key, _)) = &found {
            self.forget(*key);
        }
        Ok(found)
    }

    /// Forgets a job, regardless of what is known of it.
    pub(crate) fn forget(&mut self, key: JobKey) {
        if self.open.remove(&key).is_some() {
            self.returned.insert(key);
        }
    }

    /// Whether there is nothing to wait for: the job has ended, or another thread has taken its
    /// end.
    pub(crate) fn is_over(&self, key: JobKey) -> bool {
        self.open.get(&key).is_none_or(|job| job.end.is_some())
    }

    /// Merges what the view shows of the jobs `requested`.
    pub(crate) fn merge(&mut self, requested: &[JobKey], rows: &[ViewJob], now: u64) {
        let rows = Rows::of(rows);
        for key in requested {
            let Some(job) = self.open.get_mut(key).filter(|job| job.end.is_none()) else {
                continue;
            };
            let submitted = rows.job_row(*key).map(|job_row| job_row.row.submit);
            if job.accepted != 0 && submitted.is_some_and(|t| t != job.accepted) {
                let text = format!(
                    "job ID {key} now belongs to another job: the share was restored from a copy"
                );
                job.end = Some(Arc::new(End::Lost(text)));
                continue;
            }
            match rows.job_status(*key) {
                RowState::Ended(end) => job.end = Some(Arc::new(end)),
                RowState::Stat(stat) => (job.stat, job.seen_ms) = (stat, now),
                RowState::Absent if now.saturating_sub(job.seen_ms) >= MISSING_MS => {
                    let text = format!("job {key} is no longer known, its end is unknown");
                    job.end = Some(Arc::new(End::Lost(text)));
                }
                RowState::Absent => {}
            }
        }
    }
}

/// The error for a job that does not exist.
pub(crate) fn no_such(key: JobKey) -> Problem {
    let text = format!("you have no job {key}, or its end was already returned");
    Problem::new(Code::InvalidJob, text)
}

/// State of a job according to the rows, and its end if it has ended. `None`: there is no such job.
pub(crate) fn state_of(rows: &[ViewJob], key: JobKey) -> Option<(JobStat, u32)> {
    let rows = Rows::of(rows);
    let uid = rows.job_row(key)?.spec.uid;
    match rows.job_status(key) {
        RowState::Absent => None,
        RowState::Stat(stat) => Some((stat, uid)),
        RowState::Ended(end) if end.is_success() => Some((JobStat::Done, uid)),
        RowState::Ended(_) => Some((JobStat::Exit, uid)),
    }
}

/// Rows of the view by their keys.
struct Rows<'a> {
    by_key: HashMap<JobKey, &'a ViewJob>,
    /// For arrays: the indices that have no rows of their own.
    waiting: HashMap<u32, IndexSet>,
}

impl<'a> Rows<'a> {
    fn of(rows: &'a [ViewJob]) -> Rows<'a> {
        let arrays = rows.iter().filter_map(|job| {
            let waiting = &job.row.arr.as_ref()?.waiting;
            let set = IndexSet::parse(waiting, 1, u32::MAX).ok()?;
            Some((job.row.j.id, set))
        });
        Rows {
            by_key: rows.iter().map(|job| (job.row.j, job)).collect(),
            waiting: arrays.collect(),
        }
    }

    /// The row of the job itself; for an element that of its array.
    fn job_row(&self, key: JobKey) -> Option<&'a ViewJob> {
        self.by_key.get(&JobKey::job(key.id)).copied()
    }

    fn job_status(&self, key: JobKey) -> RowState {
        let Some(job_row) = self.job_row(key) else {
            return RowState::Absent;
        };
        let waits = || {
            self.waiting
                .get(&key.id)
                .is_some_and(|set| set.contains(key.idx))
        };
        let job = match self.by_key.get(&key) {
            Some(own) => own,
            // An element that never started has the state of its array.
            None if waits() => job_row,
            None => return RowState::Absent,
        };
        match job.row.stat.is_finished() {
            true => RowState::Ended(End::of(&job.row, job_row)),
            false => RowState::Stat(job.row.stat),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corral::record::view::{ArrayRow, JobRow};

    fn job(j: JobKey, stat: JobStat) -> ViewJob {
        ViewJob {
            row: JobRow {
                j,
                stat,
                submit: 500,
                attempt: u32::from(stat.is_started() || stat == JobStat::Done),
                ..JobRow::default()
            },
            spec: Default::default(),
            why: None,
        }
    }

    fn array(id: u32, stat: JobStat, waiting: &str) -> ViewJob {
        let mut job = job(JobKey::job(id), stat);
        job.row.arr = Some(Box::new(ArrayRow {
            waiting: waiting.into(),
            ..ArrayRow::default()
        }));
        job
    }

    #[test]
    fn an_end_is_handed_on_once() {
        let mut jobs = OwnJobs::default();
        let key = JobKey::job(7);
        assert_eq!(jobs.take_any_end().unwrap_err().code, Code::InvalidJob);
        jobs.add([key].into_iter(), 500, JobStat::Pend, 0);
        assert_eq!(jobs.take_end(key).unwrap(), None);
        jobs.merge(&[key], &[job(key, JobStat::Run)], 5);
        assert_eq!(jobs.get(key).unwrap().stat, JobStat::Run);
        jobs.merge(&[key], &[job(key, JobStat::Done)], 6);
        assert!(jobs.unended().is_empty() && jobs.is_over(key));
        let (taken, end) = jobs.take_any_end().unwrap().unwrap();
        assert!(taken == key && end.is_success());
        assert_eq!(jobs.take_end(key).unwrap_err().code, Code::InvalidJob);
        assert!(jobs.was_returned(key));
    }

    #[test]
    fn elements_without_rows_are_in_the_state_of_their_array() {
        let mut jobs = OwnJobs::default();
        let keys: Vec<JobKey> = (1..=3).map(|idx| JobKey::element(9, idx)).collect();
        jobs.add(keys.iter().copied(), 500, JobStat::Pend, 0);
        let rows = [array(9, JobStat::Psusp, "2-3"), job(keys[0], JobStat::Done)];
        jobs.merge(&keys, &rows, 1);
        assert!(jobs.is_over(keys[0]) && !jobs.is_over(keys[1]));
        assert_eq!(jobs.get(keys[2]).unwrap().stat, JobStat::Psusp);
        // Killed while they were pending.
        jobs.merge(&keys, &[array(9, JobStat::Exit, "2-3")], 2);
        assert!(jobs.is_over(keys[1]) && !jobs.take_end(keys[1]).unwrap().unwrap().is_success());
    }

    #[test]
    fn a_job_that_is_gone_or_another_one_is_lost() {
        let mut jobs = OwnJobs::default();
        let keys = [JobKey::job(1), JobKey::job(2)];
        jobs.add(keys.iter().copied(), 400, JobStat::Pend, 0);
        jobs.merge(&keys, &[job(keys[1], JobStat::Run)], MISSING_MS - 1);
        assert!(!jobs.is_over(keys[0]), "the view may be late");
        let end = jobs.take_end(keys[1]).unwrap().unwrap();
        assert!(matches!(&*end, End::Lost(why) if why.contains("another job")));
        jobs.merge(&keys, &[], MISSING_MS);
        let end = jobs.take_end(keys[0]).unwrap().unwrap();
        assert!(matches!(&*end, End::Lost(why) if why.contains("no longer known")));
    }

    #[test]
    fn a_job_of_elsewhere_is_not_any_job_of_the_session() {
        let mut jobs = OwnJobs::default();
        let key = JobKey::job(4);
        jobs.adopt(key, JobStat::Run, 0);
        jobs.merge(&[key], &[job(key, JobStat::Done)], 1);
        assert!(jobs.take_any_end().is_err() && jobs.of_session().next().is_none());
        assert!(jobs.take_end(key).unwrap().is_some());
        assert_eq!(
            state_of(&[job(key, JobStat::Run)], key),
            Some((JobStat::Run, 0))
        );
        assert_eq!(state_of(&[], key), None);
    }
}
