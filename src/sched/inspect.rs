//! Information about single hosts and jobs: what hosts have left, what keeps new work away from a
//! host, what jobs hold. Only reads.

use super::amount::Bundle;
use super::engine::Engine;
use super::hosts::{HostInfo, HostTable};
use super::threshold_monitor::DispatchBlock;
use crate::model::{JobKey, SuspReason};
use crate::state::State;

impl Engine {
    /// Resources that some request has reserved so far, by number.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.picture.resources.iter()
    }

    /// The number of a resource, if a request has reserved it.
    pub fn resource(&self, name: &str) -> Option<u16> {
        self.picture.resources.find(name)
    }

    /// Free slots of the host at this position of the host table.
    pub fn free_slots(&self, at: usize) -> i64 {
        self.picture.usage.get(at).free()
    }

    /// What is left of a resource on a host, in thousandths.
    pub fn free_amount(&self, at: usize, resource: u16) -> i64 {
        self.picture.usage.get(at).free_amount(resource)
    }

    /// What is left of each unit that a host lists, in thousandths.
    pub fn units_left(&self, at: usize, resource: u16) -> Vec<i64> {
        let units = self.picture.usage.get(at).units();
        units.map_or_else(Vec::new, |units| units.free_of(resource).collect())
    }

    /// The host's amount of a resource, in thousandths.
    pub fn total_amount(&self, at: usize, resource: u16) -> i64 {
        let have = &self.picture.usage.get(at).have;
        have.get(usize::from(resource)).copied().unwrap_or(0)
    }

    /// What a started job holds, by host position.
    pub fn allocation_of(&self, j: JobKey) -> &[(u32, Bundle)] {
        self.picture
            .allocations
            .get(&j)
            .map_or(&[], |allocation| &allocation.parts)
    }

    /// Amounts of `rusage[]` that started jobs reserve on a host, by resource.
    pub fn reserved(&self, table: &HostTable, host: &str) -> Vec<(String, f64)> {
        let Some(at) = table.find_by_name(host).map(|info| info.position as usize) else {
            return Vec::new();
        };
        if at >= self.picture.usage.len() {
            return Vec::new();
        }
        let taken = self.picture.usage.get(at).reserved.iter();
        let named = self
            .picture
            .resources
            .iter()
            .zip(taken)
            .filter(|(_, n)| **n != 0);
        named
            .map(|(name, n)| (name.to_owned(), *n as f64 / 1000.0))
            .collect()
    }

    /// Why a job that a user stopped cannot just continue: it released a resource that it needs
    /// again. `None`: it released nothing.
    pub fn needs_again(&self, state: &State, table: &HostTable, j: JobKey) -> Option<SuspReason> {
        let run = state.work(j)?.run.as_deref()?;
        let Some(allocation) = self.picture.allocations.get(&j) else {
            // It was dispatched after the last pass; the next one knows what it holds.
            let (res, amount) = (String::new(), 0);
            return Some(SuspReason::Released { res, amount });
        };
        let whole = self.picture.full_allocation(table, allocation, run);
        let released = self.picture.released();
        let mut amounts = released.map(|(res, name)| {
            let amount = whole.iter().map(|(_, bundle)| bundle.get(res)).sum();
            let res = name.to_owned();
            SuspReason::Released { res, amount }
        });
        amounts.find(|why| matches!(why, SuspReason::Released { amount, .. } if *amount > 0))
    }

    /// What excludes new jobs from a host for now.
    pub fn dispatch_block(&self, host: &HostInfo) -> Option<DispatchBlock> {
        let at = host.position as usize;
        let known = at < self.picture.usage.len();
        let expected = if known {
            self.picture.usage.get(at).expected
        } else {
            0
        };
        if self.picture.windows.is_closed(at) {
            Some(DispatchBlock::Window)
        } else if self.picture.monitor.blocks(host, expected) {
            Some(DispatchBlock::Load)
        } else {
            None
        }
    }

    /// Whether a job has the host, or the unit to which the host belongs, to itself.
    pub fn is_exclusive(&self, host: &HostInfo) -> bool {
        let at = host.position as usize;
        at < self.picture.usage.len() && self.picture.usage.get(at).exclusive > 0
    }

    /// Whether a pass may have something to do even though no job is pending.
    pub fn has_timed_work(&self) -> bool {
        self.picture.monitor.busy()
    }
}
