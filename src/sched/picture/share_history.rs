//! The history of share trees over changes of configuration and of leader.
//!
//! Exports it, and restores it into new trees: from the trees before, or from the state
//! and the jobs that ended since. Owns no history itself.

use super::Picture;
use crate::model::Stamp;
use crate::sched::allocation::{charged_from, gpu_ms, gpus_of};
use crate::sched::hosts::HostTable;
use crate::sched::share::{Delta, Meter, UserShareHistory};
use crate::state::{Body, HostId, Job, Run, State, Work};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// History of a share tree, and the moment to which it refers.
pub(in crate::sched) type ShareHistory = (Stamp, Vec<UserShareHistory>);

impl Picture {
    /// The history of each queue's share tree until `now`.
    pub(in crate::sched) fn histories(&mut self, now: Stamp) -> BTreeMap<String, ShareHistory> {
        let queues = self.config.queues.iter().zip(self.queues.orders_mut());
        let trees = queues.filter_map(|(queue, order)| Some((&queue.name, order.tree_mut()?)));
        trees
            .map(|(queue, tree)| (queue.clone(), tree.history_until(now)))
            .collect()
    }

    /// Sets the moment from which new trees count started jobs: before it, history contains their
    /// usage.
    pub(super) fn set_history_start(
        &mut self,
        before: Option<&BTreeMap<String, ShareHistory>>,
        state: &State,
    ) {
        let histories = before.unwrap_or(state.share_histories());
        let queues = self.config.queues.iter().zip(self.queues.orders_mut());
        for (queue, order) in queues {
            if let (Some(tree), Some((at, _))) = (order.tree_mut(), histories.get(&queue.name)) {
                tree.set_since(*at);
            }
        }
    }

    /// Restores history into new trees: from `before` if a tree is replaced, else from the state.
    pub(super) fn restore_history(
        &mut self,
        before: Option<BTreeMap<String, ShareHistory>>,
        state: &State,
        table: &HostTable,
    ) {
        let config = self.config.clone();
        let mut since: BTreeMap<&str, (u16, Stamp)> = BTreeMap::new();
        for (at, queue) in (0u16..).zip(&config.queues) {
            let Some(tree) = self.queues.tree_mut(Some(at)) else {
                continue;
            };
            let (t, past) = match (&before, state.share_histories().get(&queue.name)) {
                (Some(before), _) => (None, before.get(&queue.name).map(|(_, past)| &past[..])),
                (None, Some((t, past))) => (Some(*t), Some(past.as_slice())),
                (None, None) => (Some(Stamp(i64::MIN)), None),
            };
            tree.restore(past.unwrap_or_default());
            if let Some(t) = t {
                since.insert(&queue.name, (at, t));
            }
        }
        if since.is_empty() {
            return;
        }
        for job in state.jobs() {
            let spec = state.spec(job.spec);
            let Some((queue, t)) = since.get(spec.queue.as_str()).copied() else {
                continue;
            };
            let mut delta = Delta::default();
            each_ended(job, &mut |run, end| {
                if end > t {
                    let ms = end.since_ms(charged_from(run, t));
                    let gpus = gpu_ms(self.gpus_asked(state, table, (job.spec, queue), run), ms);
                    let ms = ms.saturating_mul(u64::from(run.slots()));
                    delta.hist_ms[Meter::Run as usize] += ms;
                    delta.hist_ms[Meter::Gpu as usize] += gpus;
                    delta.hist_ms[Meter::Cpu as usize] += run.usage().cpu_ms;
                    delta.ended_slots += u64::from(run.slots());
                }
            });
            if (delta.hist_ms != [0; 3] || delta.ended_slots > 0)
                && let Some(leaf) = self.leaf_of(Some(queue), &spec.user, &spec.user_group)
                && let Some(tree) = self.queues.tree_mut(Some(queue))
            {
                tree.charge(leaf, &delta);
            }
        }
    }

    /// GPUs of ended jobs, in thousandths, if GPU time is counted.
    fn gpus_asked(
        &mut self,
        state: &State,
        table: &HostTable,
        (spec, queue): (u32, u16),
        run: &Run,
    ) -> u32 {
        if self.config.queues[usize::from(queue)].fair.gpu_time == 0 {
            return 0;
        }
        let shape = self.spec_info(state, table, spec).shape;
        let Some(gpu) = self.counts(Some(queue)).gpu else {
            return 0;
        };
        // Its hosts may have been removed: any distinct numbers will do.
        let number = |id: &HostId| run.hosts.iter().position(|(other, _)| other == id);
        let share = |(id, n): &(HostId, u32)| (number(id).and_then(|n| u32::try_from(n).ok()), *n);
        let shares: SmallVec<[_; 1]> = run.hosts.iter().map(share).collect();
        let alternative = self.requests.shape(shape).alternative(run.alt);
        gpus_of(gpu, &alternative.bundles(&shares, 0))
    }
}

/// Calls `f` for each attempt of a job that ran and ended.
fn each_ended(job: &Job, f: &mut dyn FnMut(&Run, Stamp)) {
    let mut one = |work: &Work| {
        let run = work.run.as_deref().filter(|run| !run.hosts.is_empty());
        if let Some((run, end)) = run.and_then(|run| Some((run, run.end.as_deref()?))) {
            f(run, end.end);
        }
    };
    match &job.body {
        Body::Single(work) => one(work),
        Body::Array(array) => array.work.values().for_each(one),
    }
}
