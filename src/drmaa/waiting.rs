//! Waiting for jobs: `drmaa_wait` and `drmaa_synchronize`. Polls the view, at first frequently;
//! several threads may wait at once, even for the same jobs.

use super::codes::{Code, Problem, Result};
use super::ends::End;
use super::session::Session;
use corral::model::JobKey;
use corral::sys::clock;
use std::ffi::c_long;
use std::sync::Arc;

/// First and longest pause between two reads of the view, ms.
const PAUSE_MS: (u64, u64) = (5, 1000);
/// A view that cannot be read for this time is a failure, ms.
const UNREAD_MS: u64 = 120_000;

/// The jobs to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// Any job of the session.
    Any,
    One(JobKey),
}

/// How long to wait, in seconds: `None` = without limit.
pub(crate) type Timeout = Option<u64>;

/// Converts the caller's time: -1 means without limit.
///
/// # Errors
/// It is another negative number.
pub(crate) fn timeout(timeout: c_long) -> Result<Timeout> {
    match timeout {
        -1 => Ok(None),
        seconds => match u64::try_from(seconds) {
            Ok(seconds) => Ok(Some(seconds)),
            Err(_) => Err(Problem::argument(format!(
                "timeout {timeout}: give seconds, or DRMAA_TIMEOUT_WAIT_FOREVER"
            ))),
        },
    }
}

/// Waits for the end of a job and takes it: no other call returns it again.
///
/// # Errors
/// There is no such job, or the time is over.
pub(crate) fn wait(
    session: &Session,
    which: WaitFor,
    timeout: Timeout,
) -> Result<(JobKey, Arc<End>)> {
    if let WaitFor::One(key) = which {
        session.ensure_known(key)?;
    }
    poll_until(session, timeout, || {
        let mut jobs = session.jobs();
        match which {
            WaitFor::Any => jobs.take_any_end(),
            WaitFor::One(key) => Ok(jobs.take_end(key)?.map(|end| (key, end))),
        }
    })
}

/// Waits until all these jobs have ended; `None`: all jobs of the session. `dispose`: their ends
/// are not kept for a later wait.
///
/// # Errors
/// One of them is not a job, or the time is over.
pub(crate) fn synchronize(
    session: &Session,
    keys: Option<Vec<JobKey>>,
    timeout: Timeout,
    dispose: bool,
) -> Result<()> {
    let keys = match keys {
        None => session.jobs().of_session().map(|(key, _)| key).collect(),
        Some(keys) => {
            for key in &keys {
                session.ensure_known(*key)?;
            }
            keys
        }
    };
    // Jobs that have ended are not checked again.
    let mut left = keys.clone();
    poll_until(session, timeout, || {
        let jobs = session.jobs();
        left.retain(|key| !jobs.is_over(*key));
        Ok(left.is_empty().then_some(()))
    })?;
    if dispose {
        let mut jobs = session.jobs();
        keys.iter().for_each(|key| jobs.forget(*key));
    }
    Ok(())
}

/// Repeats until `found` finds something.
fn poll_until<T>(
    session: &Session,
    timeout: Timeout,
    mut found: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = clock::boot_ms();
    let limit = timeout.map(|s| s.saturating_mul(1000));
    let mut pause = PAUSE_MS.0;
    let mut unread_since = None;
    loop {
        session.check_active()?;
        // What is known already needs no read.
        if let Some(value) = found()? {
            return Ok(value);
        }
        let now = clock::boot_ms() - start;
        match session.update(0) {
            Ok(()) => unread_since = None,
            Err(problem) => {
                let since = *unread_since.get_or_insert(now);
                if now - since >= UNREAD_MS || limit.is_some_and(|limit| now >= limit) {
                    return Err(problem);
                }
            }
        }
        if let Some(value) = found()? {
            return Ok(value);
        }
        if limit.is_some_and(|limit| now >= limit) {
            return Err(Problem::plain(Code::ExitTimeout));
        }
        let left = limit.map_or(u64::MAX, |limit| limit - now);
        clock::sleep_ms(pause.min(left));
        pause = (pause + pause / 4 + 1).min(PAUSE_MS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_seconds_or_for_ever() {
        assert_eq!(timeout(-1), Ok(None));
        assert_eq!(timeout(0), Ok(Some(0)));
        assert_eq!(timeout(c_long::MAX), Ok(Some(c_long::MAX as u64)));
        assert_eq!(timeout(-2).unwrap_err().code, Code::InvalidArgument);
    }
}
