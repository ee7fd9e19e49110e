//! The history of share trees over changes of configuration and of leader.
//!
//! Hands it out, and takes it up when trees are made anew: from the trees before, or from the state
//! and the jobs that ended since. Owns no history itself.

use super::engine::Engine;
use super::share::{Delta, Meter, Past};
use crate::model::Stamp;
use crate::state::{Body, Job, Run, State, Work};
use std::collections::BTreeMap;

impl Engine {
    /// The history of each queue's share tree, as of the last pass.
    pub fn histories(&self) -> Vec<(String, Vec<Past>)> {
        let Some(config) = &self.config else {
            return Vec::new();
        };
        let queues = config.queues.iter().zip(&self.lines);
        let trees = queues.filter_map(|(queue, line)| Some((queue.name.clone(), line.tree()?)));
        trees.map(|(queue, tree)| (queue, tree.settle())).collect()
    }

    /// Before trees are made anew: nothing of them is lost.
    pub(super) fn keep_history(&mut self) {
        if self.pasts.is_none() && !self.lines.is_empty() {
            self.pasts = Some(self.histories().into_iter().collect());
        }
    }

    /// New trees take history up: `before` from those they replace, else from the state.
    pub(super) fn take_up_history(
        &mut self,
        before: Option<BTreeMap<String, Vec<Past>>>,
        state: &State,
    ) {
        let config = self.config.clone().expect("an engine has a configuration");
        let mut since: BTreeMap<&str, (u16, Stamp)> = BTreeMap::new();
        for (at, queue) in (0u16..).zip(&config.queues) {
            let Some(tree) = self.lines[usize::from(at)].tree_mut() else {
                continue;
            };
            let (t, past) = match (&before, state.pasts().get(&queue.name)) {
                (Some(before), _) => (None, before.get(&queue.name).map(Vec::as_slice)),
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
                    let begun = if run.start == Stamp(0) {
                        run.dispatch
                    } else {
                        run.start
                    };
                    let ms = end.since_ms(begun).saturating_sub(run.suspended_ms);
                    let ms = ms.saturating_mul(u64::from(run.slots()));
                    delta.hist_ms[Meter::Run as usize] += ms;
                    delta.hist_ms[Meter::Cpu as usize] += run.usage().cpu_ms;
                }
            });
            if delta.hist_ms != [0; 3]
                && let Some(leaf) = self.leaf_of(Some(queue), &spec.user, &spec.user_group)
                && let Some(tree) = self.lines[usize::from(queue)].tree_mut()
            {
                tree.charge(leaf, &delta);
            }
        }
    }
}

/// Works of a job that ran and ended.
fn each_ended(job: &Job, f: &mut dyn FnMut(&Run, Stamp)) {
    let mut one = |work: &Work| {
        let run = work.run.as_deref().filter(|run| !run.hosts.is_empty());
        if let Some((run, fate)) = run.and_then(|run| Some((run, run.fate.as_deref()?))) {
            f(run, fate.end);
        }
    };
    match &job.body {
        Body::Single(work) => one(work),
        Body::Array(array) => array.work.values().for_each(one),
    }
}
