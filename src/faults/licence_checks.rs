//! Checks licences, which stopped jobs release: the jobs of a host that are not to be stopped never
//! have more of them together than there are.

use super::leader_checks::is_forced;
use crate::model::JobKey;
use crate::state::{Run, State};

/// The resource.
pub(super) const LICENCE: &str = "lic";
/// What jobs with a licence request.
pub(super) const WITH_LICENCE: &str = "rusage[lic=1]";
/// Number of licences of each host.
pub(super) const LICENCES: usize = 1;

/// The errors in the licences that a leader has assigned.
pub(super) fn check(epoch: u64, state: &State) -> Vec<String> {
    let has = |j: &JobKey| {
        let runs = |run: &Run| !run.to_stop();
        let asks = state
            .spec_of(j.id)
            .is_some_and(|spec| spec.res_req.contains(LICENCE));
        let work = state.work(*j).filter(|work| asks && !is_forced(work));
        work.and_then(|work| work.run.as_deref()).is_some_and(runs)
    };
    let hosts = state.known_hosts().filter_map(|(name, _)| {
        let holders = state.on_host(name).map(|(j, _)| j).filter(has);
        let holders: Vec<JobKey> = holders.collect();
        (holders.len() > LICENCES)
            .then(|| format!("epoch {epoch} assigns the licence of {name} to {holders:?}"))
    });
    hosts.collect()
}
