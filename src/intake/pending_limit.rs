//! The limits of pending jobs at submission: of the cluster and of the user. Owns which refusal may
//! be followed by another try.

use super::{Refusal, Requester};
use crate::config::Config;
use crate::state::State;

/// Checks whether `n` more jobs may become pending.
///
/// # Errors
/// The limit that is reached.
pub(super) fn check(
    n: u64,
    requester: &Requester,
    config: &Config,
    state: &State,
) -> Result<(), Refusal> {
    let over = |limit: Option<u32>, have: u64| limit.filter(|l| have + n > u64::from(*l));
    let refused = |limit: u32, text: String| {
        let pause_s = config.general.sub_try_interval_ms.div_ceil(1000);
        Refusal {
            // A job with more elements than the limit is refused whatever else is pending.
            retry_s: match n <= u64::from(limit) {
                true => u32::try_from(pause_s).unwrap_or(u32::MAX),
                false => 0,
            },
            ..Refusal::refused(text)
        }
    };
    if let Some(limit) = over(config.general.max_pend_jobs, state.pending_jobs()) {
        let text =
            format!("the cluster's limit of {limit} pending jobs is reached (max_pend_jobs)");
        return Err(refused(limit, text));
    }
    let limits = config.user_limits(&requester.user, &requester.groups);
    if let Some(limit) = over(limits.max_pend_jobs, state.pending_jobs_of(requester.uid)) {
        let text = format!(
            "user {}'s limit of {limit} pending jobs is reached (max_pend_jobs)",
            requester.user
        );
        return Err(refused(limit, text));
    }
    Ok(())
}
