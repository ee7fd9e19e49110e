//! Watches hosts and started work for load thresholds: what was seen of each host's samples, the
//! conditions of queues, which started work the system stopped. Whether work is stopped or resumed
//! is decided in `pass/suspend.rs`.
//!
//! One act for each sample of a host: load follows late, and acting on the same figures twice would
//! stop or resume too much.

use super::allocation::Allocation;
use super::hosts::HostInfo;
use super::load_thresholds::ThresholdKind::Dispatch;
use super::load_thresholds::{condition, exceeded};
use crate::config::{Config, Queue};
use crate::model::JobKey;
use crate::state::HostId;
use crate::text::resreq::Select;
use std::collections::{BTreeSet, HashMap};

/// `stop_cond` and `resume_cond` of a queue.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    pub stop: Option<Select>,
    pub resume: Option<Select>,
}

/// What is recorded of started jobs and of hosts.
#[derive(Debug, Default)]
pub(super) struct ThresholdMonitor {
    /// Started jobs by queue; only kept if windows, preemption or growth need it.
    started: Vec<Option<BTreeSet<JobKey>>>,
    /// Started slots by queue, for queues with `started`.
    slots: Vec<i64>,
    /// Jobs that the system stopped.
    halted: BTreeSet<JobKey>,
    conditions: Vec<Conditions>,
    /// Whether some threshold or condition depends on samples.
    depends_on_samples: bool,
    /// The last sample of each host that was acted on.
    last_samples: HashMap<HostId, u64>,
    /// Hosts that take no new jobs before their next sample, with the current sample.
    await_sample: HashMap<HostId, u64>,
    /// Positions of hosts with a new sample.
    sampled: Vec<u32>,
}

impl ThresholdMonitor {
    /// The monitor for another configuration; what was recorded of samples is kept.
    pub(super) fn renewed(self, config: &Config) -> ThresholdMonitor {
        let victim = |name: &str| {
            let preempting = config.queues.iter().filter_map(|q| q.preemption.as_ref());
            preempting
                .flat_map(|p| &p.victims)
                .any(|victims| victims.queue == name)
        };
        let is_recorded = |q: &Queue| q.run_window.is_some() || q.elastic || victim(&q.name);
        let watched = |q: &Queue| {
            !q.thresholds.is_empty() || q.stop_cond.is_some() || q.resume_cond.is_some()
        };
        let hosts = config.hosts.entries.iter().chain([&config.hosts.default]);
        let mut hosts = hosts.filter(|host| !host.thresholds.is_empty());
        ThresholdMonitor {
            started: config
                .queues
                .iter()
                .map(|q| is_recorded(q).then(BTreeSet::new))
                .collect(),
            slots: vec![0; config.queues.len()],
            halted: BTreeSet::new(),
            conditions: config
                .queues
                .iter()
                .map(|q| conditions(q, config))
                .collect(),
            depends_on_samples: config.queues.iter().any(watched) || hosts.next().is_some(),
            last_samples: self.last_samples,
            await_sample: self.await_sample,
            sampled: Vec::new(),
        }
    }

    /// Jobs that the system stopped.
    pub(super) fn suspended_by_system(&self) -> &BTreeSet<JobKey> {
        &self.halted
    }

    pub(super) fn conditions(&self, queue: usize) -> &Conditions {
        &self.conditions[queue]
    }

    /// Hosts with a sample that was not acted on, in order.
    pub(super) fn take_sampled(&mut self) -> Vec<u32> {
        let mut fresh = std::mem::take(&mut self.sampled);
        fresh.sort_unstable();
        fresh.dedup();
        fresh
    }

    /// Notes that the current sample of a host was acted on.
    pub(super) fn note_action(&mut self, host: &HostInfo) {
        self.last_samples.insert(host.id, host.load.beat);
    }

    /// Notes that a job has just resumed on the host: it takes no new jobs before its next sample.
    pub(super) fn block_until_sample(&mut self, host: &HostInfo) {
        self.await_sample.insert(host.id, host.load.beat);
    }

    /// Started jobs of a queue, if they are recorded.
    pub(super) fn started_in(&self, queue: usize) -> Option<&BTreeSet<JobKey>> {
        self.started.get(queue)?.as_ref()
    }

    /// Slots of the started jobs of a queue whose jobs are recorded.
    pub(super) fn slots(&self, queue: u16) -> i64 {
        self.slots[usize::from(queue)]
    }

    /// Notes that a job starts or stops holding something.
    pub(super) fn note(&mut self, j: JobKey, allocation: &Allocation, plus: bool) {
        if allocation.halted {
            match plus {
                true => self.halted.insert(j),
                false => self.halted.remove(&j),
            };
        }
        let Some(queue) = allocation.queue.map(usize::from) else {
            return;
        };
        if let Some(started) = self.started[queue].as_mut() {
            let slots = i64::from(allocation.slots);
            self.slots[queue] += if plus { slots } else { -slots };
            match plus {
                true => started.insert(j),
                false => started.remove(&j),
            };
        }
    }

    /// Notes the sample of a host. Returns true if thresholds exclude new jobs for now.
    pub(super) fn note_sample(&mut self, host: &HostInfo, at: usize, expected: i64) -> bool {
        // A threshold may be removed from the configuration while jobs are stopped because of it.
        if !self.depends_on_samples && self.halted.is_empty() {
            return false;
        }
        let beat = host.load.beat;
        if self.last_samples.get(&host.id) != Some(&beat) {
            self.sampled.push(at as u32);
        }
        if self
            .await_sample
            .get(&host.id)
            .is_some_and(|quiet| *quiet != beat)
        {
            self.await_sample.remove(&host.id);
        }
        self.blocks(host, expected)
    }

    /// Whether thresholds of the host, or a job that has just resumed there, exclude new jobs.
    /// `expected`: load that is still to come, in thousandths.
    pub(super) fn blocks(&self, host: &HostInfo, expected: i64) -> bool {
        self.await_sample.contains_key(&host.id)
            || exceeded(host, &host.entry.thresholds, Dispatch(expected)).is_some()
    }

    /// Whether some threshold or condition depends on samples.
    pub(super) fn depends_on_samples(&self) -> bool {
        self.depends_on_samples
    }

    /// Whether something may have to be done although no job is pending.
    pub(super) fn busy(&self) -> bool {
        self.depends_on_samples
            || !self.halted.is_empty()
            || self.started.iter().any(Option::is_some)
    }
}

fn conditions(queue: &Queue, config: &Config) -> Conditions {
    Conditions {
        stop: condition(queue.stop_cond.as_deref(), config),
        resume: condition(queue.resume_cond.as_deref(), config),
    }
}

/// Why a host takes no new jobs for now, apart from what an administrator ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchBlock {
    /// Its dispatch window is closed.
    Window,
    /// Its load is past a threshold, or a job has just resumed.
    Load,
}
