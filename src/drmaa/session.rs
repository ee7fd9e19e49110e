//! The session of this process: its cluster and its jobs.
//!
//! Owns the only session object, and the reading of the view: threads that wait at the same time
//! share one poll. No lock is held while a request waits for its answer.

use super::codes::{Code, Problem, Result};
use super::own_jobs::{self, OwnJobs};
use super::request;
use super::template::{AttributeValues, HostContext};
use corral::api;
use corral::model::{JobKey, JobStat};
use corral::spool::Site;
use corral::spool::view::{JobSet, ViewJob, ViewReader};
use corral::sys::{clock, fs, users};
use corral::text::IndexSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often the view is read while a program submits for hours before it waits, ms, so that it
/// misses no end.
const NOTICE_MS: u64 = 60_000;
/// Maximum size of `cb.conf`.
const CONF_MAX: u64 = 64 << 10;
/// The directory of `cb.conf` if no other is given.
const DEFAULT_DIR: &str = "/etc/corral";

static SESSION: Mutex<Option<Arc<Session>>> = Mutex::new(None);

/// A session; see the head of this file.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) host_context: HostContext,
    /// Only jobs of this user are the caller's own.
    uid: u32,
    view: ViewReader,
    jobs: Mutex<OwnJobs>,
    /// When the last read of the view began, ms since boot.
    last_poll_ms: Mutex<u64>,
    is_closed: AtomicBool,
}

/// The data under a lock is consistent between any two steps, even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the session. `contact`: the directory of `cb.conf`, or empty.
///
/// # Errors
/// There is a session already, or there is no cluster.
pub(crate) fn begin(contact: &str) -> Result<()> {
    let mut session = lock(&SESSION);
    if session.is_some() {
        return Err(Problem::plain(Code::AlreadyActiveSession));
    }
    let site = match contact {
        "" => Site::find().map_err(|e| Problem::new(Code::DrmsInitFailed, e.0))?,
        dir => site_in(Path::new(dir))?,
    };
    if !fs::exists(&site.layout().cluster()) {
        return Err(Problem::new(Code::DrmsInitFailed, site.diagnose()));
    }
    let me = users::current_user();
    *session = Some(Arc::new(Session {
        view: ViewReader::new(&site.layout()),
        host_context: HostContext {
            site,
            home: me.home,
        },
        uid: users::effective_uid(),
        jobs: Mutex::default(),
        last_poll_ms: Mutex::new(0),
        is_closed: AtomicBool::new(false),
    }));
    Ok(())
}

/// The cluster whose `cb.conf` is in a directory.
fn site_in(dir: &Path) -> Result<Site> {
    let wrong = |text: String| Problem::new(Code::InvalidContactString, text);
    if !dir.is_absolute() {
        return Err(wrong(format!(
            "contact '{}': give the absolute path of the directory of cb.conf, or nothing",
            dir.display()
        )));
    }
    let conf = dir.join("cb.conf");
    let bytes = fs::read_small(&conf, CONF_MAX).map_err(|e| wrong(format!("contact: {e}")))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("cb.conf is not UTF-8".to_owned()))?;
    let host = std::env::var("CB_HOST").ok().filter(|h| !h.is_empty());
    Site::from_conf(&conf, &text, host).map_err(|e| wrong(e.0))
}

/// Ends the session; its jobs continue. Threads that wait in it stop waiting.
///
/// # Errors
/// There is no session.
pub(crate) fn end() -> Result<()> {
    match lock(&SESSION).take() {
        Some(session) => {
            session.is_closed.store(true, Ordering::Release);
            Ok(())
        }
        None => Err(Problem::plain(Code::NoActiveSession)),
    }
}

/// The session.
///
/// # Errors
/// There is no session.
pub(crate) fn current() -> Result<Arc<Session>> {
    let session = lock(&SESSION).clone();
    session.ok_or_else(|| Problem::plain(Code::NoActiveSession))
}

/// The contact string of the session, or else the one that would be used.
pub(crate) fn contact() -> String {
    let dir = match current() {
        Ok(session) => fs::parent(&session.host_context.site.conf).to_path_buf(),
        Err(_) => match std::env::var_os("CB_ENVDIR") {
            Some(dir) if !dir.is_empty() => PathBuf::from(dir),
            _ => PathBuf::from(DEFAULT_DIR),
        },
    };
    dir.to_string_lossy().into_owned()
}

impl Session {
    pub(crate) fn jobs(&self) -> MutexGuard<'_, OwnJobs> {
        lock(&self.jobs)
    }

    /// Submits a job, or with `indices` an array. Returns their keys in ascending order, and what
    /// was accepted without effect.
    ///
    /// # Errors
    /// It is refused, or the cluster does not answer.
    pub(crate) fn submit(
        &self,
        values: &AttributeValues,
        indices: Option<&IndexSet>,
    ) -> Result<(Vec<JobKey>, Option<String>)> {
        let job = request::build(values, &self.host_context, indices)?;
        // A view that cannot be read does not prevent the submission.
        drop(self.update(NOTICE_MS));
        self.jobs().check_room(indices.map_or(1, IndexSet::len))?;
        let taken = api::submit(&self.host_context.site, &job)?;
        let keys: Vec<JobKey> = match indices {
            None => vec![JobKey::job(taken.id)],
            Some(set) => set
                .iter()
                .map(|idx| JobKey::element(taken.id, idx))
                .collect(),
        };
        let stat = if job.hold {
            JobStat::Psusp
        } else {
            JobStat::Pend
        };
        let all = keys.iter().copied();
        self.jobs()
            .add(all, taken.accepted_ms, stat, clock::boot_ms());
        Ok((keys, taken.warning))
    }

    /// Updates the jobs whose ends are not known, unless that was done in the last `age_ms`.
    ///
    /// # Errors
    /// The view cannot be read.
    pub(crate) fn update(&self, age_ms: u64) -> Result<()> {
        let enough = clock::boot_ms().saturating_sub(age_ms);
        let mut looked = lock(&self.last_poll_ms);
        let began = clock::boot_ms();
        // Another thread may have read the view while this one waited for its turn.
        if *looked >= enough && *looked > 0 {
            return Ok(());
        }
        let unended = self.jobs().unended();
        if !unended.is_empty() {
            let rows = self.rows(&unended)?;
            self.jobs().merge(&unended, &rows, clock::boot_ms());
        }
        *looked = began;
        Ok(())
    }

    /// Discards what was read before.
    pub(crate) fn discard_view(&self) {
        *lock(&self.last_poll_ms) = 0;
    }

    fn rows(&self, keys: &[JobKey]) -> Result<Vec<ViewJob>> {
        let want = JobSet {
            ids: ranges(keys),
            finished: true,
            ..JobSet::default()
        };
        match self.view.collect(&want) {
            Ok((jobs, _)) => Ok(jobs),
            Err(e) => Err(Problem::new(Code::DrmCommunicationFailure, e.to_string())),
        }
    }

    /// The state of a job, of this session or another job of the same user.
    ///
    /// # Errors
    /// There is no such job, or the view cannot be read.
    pub(crate) fn stat(&self, key: JobKey, age_ms: u64) -> Result<JobStat> {
        if self.jobs().was_returned(key) {
            return Err(own_jobs::no_such(key));
        }
        if self.jobs().get(key).is_none() {
            return self.foreign(key);
        }
        self.update(age_ms)?;
        let jobs = self.jobs();
        let job = jobs.get(key).ok_or_else(|| own_jobs::no_such(key))?;
        Ok(match &job.end {
            Some(end) if end.is_success() => JobStat::Done,
            Some(end) => match &**end {
                super::ends::End::Lost(_) => JobStat::Unkwn,
                super::ends::End::Known { .. } => JobStat::Exit,
            },
            None => job.stat,
        })
    }

    /// The state of a job that does not belong to the session.
    fn foreign(&self, key: JobKey) -> Result<JobStat> {
        let rows = self.rows(&[key])?;
        match own_jobs::state_of(&rows, key) {
            Some((stat, uid)) if uid == self.uid => Ok(stat),
            _ => Err(own_jobs::no_such(key)),
        }
    }

    /// Ensures that a job can be waited for, even if it was submitted elsewhere.
    ///
    /// # Errors
    /// There is no such job of this user, or it is a whole array.
    pub(crate) fn ensure_known(&self, key: JobKey) -> Result<()> {
        if self.jobs().was_returned(key) {
            return Err(own_jobs::no_such(key));
        }
        if self.jobs().get(key).is_some() {
            return Ok(());
        }
        let stat = self.foreign(key)?;
        let rows = self.rows(&[key])?;
        let array = rows
            .iter()
            .any(|job| job.row.j == key && job.row.arr.is_some());
        if array {
            let text = format!("job {key} is an array: wait for its elements, {key}[INDEX]");
            return Err(Problem::new(Code::InvalidJob, text));
        }
        self.jobs().adopt(key, stat, clock::boot_ms());
        self.discard_view();
        Ok(())
    }

    /// Checks that the session has not ended.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) fn check_active(&self) -> Result<()> {
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(Problem::plain(Code::NoActiveSession)),
            false => Ok(()),
        }
    }
}

/// The ids of sorted keys as ranges.
fn ranges(keys: &[JobKey]) -> Vec<(u32, u32)> {
    let mut all: Vec<(u32, u32)> = Vec::new();
    for key in keys {
        match all.last_mut() {
            Some((_, last)) if *last == key.id || last.checked_add(1) == Some(key.id) => {
                *last = key.id;
            }
            _ => all.push((key.id, key.id)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_follow_each_other_are_one_range() {
        let keys = [(1, 0), (2, 1), (2, 2), (3, 0), (9, 0), (u32::MAX, 0)];
        let keys = keys.map(|(id, idx)| JobKey { id, idx });
        assert_eq!(ranges(&keys), [(1, 3), (9, 9), (u32::MAX, u32::MAX)]);
    }

    #[test]
    fn a_contact_is_a_directory_with_a_configuration() {
        let problem = begin("relative").unwrap_err();
        assert_eq!(problem.code, Code::InvalidContactString);
        let dir = tempfile::tempdir().unwrap();
        let missing = begin(dir.path().to_str().unwrap()).unwrap_err();
        assert_eq!(missing.code, Code::InvalidContactString);
        let text = format!("CB_SHARE={}/share\n", dir.path().display());
        fs::publish(&dir.path().join("cb.conf"), text.as_bytes()).unwrap();
        let problem = begin(dir.path().to_str().unwrap()).unwrap_err();
        assert_eq!(problem.code, Code::DrmsInitFailed);
        assert!(problem.text.contains("does not exist"), "{}", problem.text);
        assert_eq!(current().unwrap_err().code, Code::NoActiveSession);
        assert_eq!(end().unwrap_err().code, Code::NoActiveSession);
    }
}
