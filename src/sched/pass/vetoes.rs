//! Hosts that the job under consideration avoids, because starts failed there: its own until no
//! other host could take it, and those of its queue.

use super::Pass;
use super::stages::least;
use crate::model::{JobKey, PendReason, Stamp};
use crate::sched::examine::Stage;
use crate::sched::pending_classes::PendingClass;
use crate::sched::placement::{FoundHosts, Shortfall};

/// Maximum number of jobs that are skipped in one pass, since each costs a search.
const PASSED_MAX: u32 = 1_000;

impl Pass<'_> {
    /// Sets the hosts that `j` avoids. Returns when it may start, if that is later.
    pub(super) fn avoid_for(&mut self, pending: &PendingClass, j: JobKey) -> Option<Stamp> {
        self.avoided.clear();
        if self.memory.vetoes.is_empty() {
            return None;
        }
        self.avoid_for_queue(pending);
        let (veto, table) = (self.memory.vetoes.of_job(j)?, self.table);
        let hosts = veto.hosts.iter().filter_map(|id| table.position(*id));
        self.avoided.extend(hosts.map(|at| at as u32));
        (veto.not_before > self.now).then_some(veto.not_before)
    }

    fn avoid_for_queue(&mut self, pending: &PendingClass) {
        let Some(queue) = pending.queue else {
            return;
        };
        let name = &self.picture.config.queues[usize::from(queue)].name;
        let (hosts, table) = (self.memory.vetoes.of_queue(name), self.table);
        let hosts = hosts.iter().filter_map(|id| table.position(*id));
        self.avoided.extend(hosts.map(|at| at as u32));
    }

    /// As [`Pass::find_or_preempt`], beside the hosts that `j` avoids. If no other host could take
    /// it, it may try again where it could not be started. Returns `None` if it waits for a host
    /// that it does not avoid: the next jobs are considered.
    pub(super) fn find_avoiding(
        &mut self,
        pending: &PendingClass,
        j: JobKey,
        most: u32,
    ) -> Option<Result<Result<FoundHosts, Shortfall>, PendReason>> {
        let found = self.find_or_preempt(pending, j, most);
        let own = self.memory.vetoes.of_job(j);
        if own.is_none_or(|veto| veto.hosts.is_empty()) || !matches!(found, Ok(Err(_))) {
            return Some(found);
        }
        if self.others_could_take(pending) {
            self.passed += 1;
            return (self.passed > PASSED_MAX).then_some(found);
        }
        self.avoided.clear();
        self.avoid_for_queue(pending);
        Some(self.find_or_preempt(pending, j, most))
    }

    /// Whether the hosts that are not avoided could take a job of the class if they were idle.
    fn others_could_take(&self, pending: &PendingClass) -> bool {
        let shape = self.shape(pending.shape);
        let least = least(&shape.alternatives[0].parts[0]);
        let mut slots = 0;
        for at in 0..self.table.count() {
            if self.avoided.contains(&(at as u32)) {
                continue;
            }
            let serves = match self.verdict(pending, &least, at) {
                None => true,
                Some((stage, _)) => stage > Stage::TooSmall,
            };
            if serves {
                slots += self.table.at(at).slots;
            }
            if slots >= pending.min.max(1) {
                return true;
            }
        }
        false
    }
}
