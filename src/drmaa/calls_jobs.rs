//! Exported: submitting, controlling, waiting for jobs.

use super::calls_lists::List;
use super::codes::{Code, Problem, Result};
use super::control::{self, Action};
use super::ends::End;
use super::ffi::{self, Buffer, answer, object, store};
use super::template::Template;
use super::waiting::{self, WaitFor};
use super::{request, session};
use corral::model::JobKey;
use std::ffi::{c_char, c_int, c_long};

/// All jobs of the session, and any of them.
const ALL: &str = "DRMAA_JOB_IDS_SESSION_ALL";
const ANY: &str = "DRMAA_JOB_IDS_SESSION_ANY";
/// Maximum length of the id of a single job.
const ID_MAX: usize = 10;
/// Maximum age of a state, ms: programs query many jobs one after the other.
const STATE_AGE_MS: u64 = 200;

fn key(id: &str) -> Result<JobKey> {
    let parsed = id
        .parse::<JobKey>()
        .ok()
        .filter(|key| key.id > 0 && key.to_string() == id);
    parsed.ok_or_else(|| {
        let text = format!("'{id}' is not the id of a job: 123 or 123[4]");
        Problem::new(Code::InvalidJob, text)
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_run_job(
    job_id: *mut c_char,
    job_id_len: usize,
    jt: *const Template,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        let session = session::current()?;
        // SAFETY: the caller keeps to drmaa.h.
        let (jt, out) = unsafe {
            (
                object("the job template", jt)?,
                Buffer::new(job_id, job_id_len),
            )
        };
        // Checked before the job exists: afterwards nothing could be done about it.
        if out.capacity() < ID_MAX {
            let text = format!("the buffer of the job id needs {} bytes", ID_MAX + 1);
            return Err(Problem::argument(text));
        }
        let (keys, warning) = session.submit(&jt.values(), None)?;
        if let Some(text) = warning {
            diagnosis.write_message(&text);
        }
        let id = keys.first().map(JobKey::to_string).unwrap_or_default();
        out.put_whole("the job id", &id)
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_run_bulk_jobs(
    jobids: *mut *mut List,
    jt: *const Template,
    start: c_int,
    end: c_int,
    incr: c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        let session = session::current()?;
        // SAFETY: the caller keeps to drmaa.h.
        let jt = unsafe { object("the job template", jt) }?;
        if jobids.is_null() {
            return Err(Problem::argument("no place for the list of job ids"));
        }
        let indices = request::indices(start.into(), end.into(), incr.into())?;
        let (mut keys, warning) = session.submit(&jt.values(), Some(&indices))?;
        if incr < 0 {
            keys.reverse();
        }
        if let Some(text) = warning {
            diagnosis.write_message(&text);
        }
        let ids = keys.iter().map(JobKey::to_string).collect();
        // SAFETY: the caller keeps to drmaa.h.
        unsafe { List::return_list(ids, jobids) }
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_control(
    jobid: *const c_char,
    action: c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        let session = session::current()?;
        // SAFETY: the caller keeps to drmaa.h.
        let id = unsafe { ffi::text("the job id", jobid) }?;
        let action = Action::of(action)?;
        match id.as_str() {
            ALL => control::all(&session, action),
            id => control::control_job(&session, key(id)?, action),
        }
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_job_ps(
    job_id: *const c_char,
    remote_ps: *mut c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        let session = session::current()?;
        // SAFETY: the caller keeps to drmaa.h.
        let id = unsafe { ffi::text("the job id", job_id) }?;
        let stat = session.stat(key(&id)?, STATE_AGE_MS)?;
        // SAFETY: the caller keeps to drmaa.h.
        unsafe {
            store(
                "the place of the state",
                remote_ps,
                control::state_number(stat),
            )
        }
    })
}

/// # Safety
/// As drmaa.h says: the list ends with a null pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_synchronize(
    job_ids: *const *const c_char,
    timeout: c_long,
    dispose: c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        let session = session::current()?;
        // SAFETY: the caller keeps to drmaa.h.
        let ids = unsafe { ffi::texts("the list of job ids", job_ids) }?;
        let keys = match ids.iter().any(|id| id == ALL) {
            true => None,
            false => Some(ids.iter().map(|id| key(id)).collect::<Result<Vec<_>>>()?),
        };
        let patience = waiting::timeout(timeout)?;
        waiting::synchronize(&session, keys, patience, dispose != 0)
    })
}

/// # Safety
/// As drmaa.h says. `job_id_out`, `stat` and `rusage` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_wait(
    job_id: *const c_char,
    job_id_out: *mut c_char,
    job_id_out_len: usize,
    stat: *mut c_int,
    timeout: c_long,
    rusage: *mut *mut List,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        let session = session::current()?;
        // SAFETY: the caller keeps to drmaa.h.
        let (id, out) = unsafe {
            (
                ffi::text("the job id", job_id)?,
                Buffer::new(job_id_out, job_id_out_len),
            )
        };
        let which = match id.as_str() {
            ANY => WaitFor::Any,
            id => WaitFor::One(key(id)?),
        };
        let patience = waiting::timeout(timeout)?;
        let (key, end) = waiting::wait(&session, which, patience)?;
        out.put(&key.to_string());
        match &*end {
            End::Lost(why) => Err(Problem::new(Code::NoRusage, why.clone())),
            End::Known { number, usage, .. } => {
                if !stat.is_null() {
                    // SAFETY: the caller keeps to drmaa.h.
                    unsafe { store("the place of the status", stat, *number) }?;
                }
                if rusage.is_null() {
                    return Ok(());
                }
                // SAFETY: the caller keeps to drmaa.h.
                unsafe { List::return_list(usage.clone(), rusage) }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_as_they_are_printed() {
        assert_eq!(key("12"), Ok(JobKey::job(12)));
        assert_eq!(key("12[3]"), Ok(JobKey::element(12, 3)));
        for bad in ["", "0", "012", "12[0]", "12[", "x", "-1", "12[1-2]", ANY] {
            assert_eq!(key(bad).unwrap_err().code, Code::InvalidJob, "{bad}");
        }
    }
}
