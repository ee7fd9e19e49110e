//! Preemption that is under way: jobs that wait for their victims, what is kept for them, and which
//! searches failed lately. Owns these records; whom to preempt is decided in `pass/preempt.rs`.

use super::amount::HostBundles;
use super::host_usage::Holder;
use crate::model::{JobKey, Stamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of jobs that search for victims in one pass.
const SEARCHES_MAX: u32 = 64;

/// A job that waits for its victims.
#[derive(Debug)]
pub(super) struct PreemptionClaim {
    pub victims: Vec<JobKey>,
    /// The resources that are kept for it, and their holder.
    pub parts: HostBundles,
    pub holder: Holder,
    /// The resources are booked.
    pub booked: bool,
    /// When the victims are stopped; `None`: they are being ended.
    pub due: Option<Stamp>,
}

/// The claims, and the searches that failed recently.
#[derive(Debug, Default)]
pub(super) struct PreemptionSearch {
    claims: BTreeMap<JobKey, PreemptionClaim>,
    /// Victims of claims.
    victims: BTreeSet<JobKey>,
    /// Shapes for which no victims were found, with the position of the log of changed hosts at
    /// that time.
    without_victims: HashMap<u32, u64>,
    searches: u32,
    /// Warned jobs; `None`: not known yet.
    warned: Option<BTreeSet<JobKey>>,
}

impl PreemptionSearch {
    /// Adapts the claims to another picture, in which hosts, queues and resources may have other
    /// numbers: the jobs continue to wait for their victims, but without resources kept for them.
    pub(super) fn renewed(mut self) -> PreemptionSearch {
        self.without_victims.clear();
        for claim in self.claims.values_mut() {
            claim.parts.clear();
            claim.booked = false;
        }
        self
    }

    /// Notes that the wall clock was set forward or back by `by_ms`.
    pub(super) fn shift(&mut self, by_ms: i64) {
        for due in self
            .claims
            .values_mut()
            .filter_map(|claim| claim.due.as_mut())
        {
            due.0 = due.0.saturating_add(by_ms);
        }
    }

    /// Jobs that wait for their victims.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.claims.len()
    }

    /// Slots kept for them, by host.
    #[cfg(test)]
    pub(super) fn reserved_slots(&self) -> Vec<(u32, i64)> {
        let booked = self.claims.values().filter(|claim| claim.booked);
        let parts = booked.flat_map(|claim| &claim.parts);
        parts.map(|(at, bundle)| (*at, bundle.slots)).collect()
    }

    /// Begins a pass.
    pub(super) fn begin_pass(&mut self) {
        self.searches = 0;
    }

    /// Counts a search for victims; false: the maximum of this pass is reached.
    pub(super) fn may_search(&mut self) -> bool {
        let may = self.searches < SEARCHES_MAX;
        self.searches += u32::from(may);
        may
    }

    /// Whether nothing has changed since that could make a search for this shape succeed.
    pub(super) fn has_no_victims(&self, shape: u32, changes: u64) -> bool {
        self.without_victims.get(&shape) == Some(&changes)
    }

    pub(super) fn note_futile(&mut self, shape: u32, changes: u64) {
        self.without_victims.insert(shape, changes);
    }

    /// Adds the jobs that an earlier leader warned; requests them once.
    pub(super) fn add_warned(&mut self, all: impl FnOnce() -> BTreeSet<JobKey>) {
        self.warned.get_or_insert_with(all);
    }

    pub(super) fn note_warned(&mut self, victims: &[JobKey]) {
        self.warned.get_or_insert_default().extend(victims);
    }

    /// Warned jobs that are no longer victims, each returned once.
    pub(super) fn take_unneeded(&mut self) -> Vec<JobKey> {
        let (marked, warned) = (&self.victims, self.warned.get_or_insert_default());
        let spared: Vec<JobKey> = warned.difference(marked).copied().collect();
        warned.retain(|j| marked.contains(j));
        spared
    }

    /// Whether some job waits for the victim to stop or end.
    pub(super) fn is_victim(&self, j: JobKey) -> bool {
        self.victims.contains(&j)
    }

    /// Whether no job waits for victims.
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    pub(super) fn contains(&self, j: JobKey) -> bool {
        self.claims.contains_key(&j)
    }

    pub(super) fn get(&self, j: JobKey) -> Option<&PreemptionClaim> {
        self.claims.get(&j)
    }

    pub(super) fn get_mut(&mut self, j: JobKey) -> Option<&mut PreemptionClaim> {
        self.claims.get_mut(&j)
    }

    /// Jobs whose claims meet a condition.
    pub(super) fn select(&self, fits: impl Fn(JobKey, &PreemptionClaim) -> bool) -> Vec<JobKey> {
        let fits = self.claims.iter().filter(|(j, claim)| fits(**j, claim));
        fits.map(|(j, _)| *j).collect()
    }

    pub(super) fn add(&mut self, j: JobKey, claim: PreemptionClaim) {
        self.victims.extend(claim.victims.iter().copied());
        self.claims.insert(j, claim);
    }

    pub(super) fn drop_claim(&mut self, j: JobKey) -> Option<PreemptionClaim> {
        let claim = self.claims.remove(&j)?;
        for victim in &claim.victims {
            self.victims.remove(victim);
        }
        Some(claim)
    }
}
