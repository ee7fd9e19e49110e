//! Jobs of which a hook takes long, and the queues in which several hang. Pure.

use crate::model::{AttemptId, Mono};
use std::collections::{BTreeMap, VecDeque};

/// A queue has an alarm if so many of its hooks hung in this time (ms).
const HUNG_MIN: usize = 3;
const WITHIN_MS: u64 = 3_600_000;
/// Maximum number of hanging hooks that are counted for a queue.
const COUNTED_MAX: usize = 1_000;

/// Hooks of the same kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::turn) struct HookKind {
    pub queue: String,
    /// It runs after the job's command.
    pub after: bool,
}

/// See the head of this file.
#[derive(Default)]
pub(in crate::turn) struct LongHooks {
    /// Started jobs of which a host has reported a hook, and the kind of the one that hangs.
    jobs: BTreeMap<AttemptId, Option<HookKind>>,
    /// When hooks began to hang, oldest first.
    hung: BTreeMap<HookKind, VecDeque<Mono>>,
}

impl LongHooks {
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.hung.is_empty()
    }

    pub(crate) fn add(&mut self, a: AttemptId) {
        self.jobs.entry(a).or_default();
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = AttemptId> {
        self.jobs.keys().copied()
    }

    /// No hook of the attempt runs any more. Returns whether one hung.
    pub(crate) fn remove(&mut self, a: AttemptId) -> bool {
        self.jobs.remove(&a).flatten().is_some()
    }

    /// The hook that runs hangs. Returns whether that is new.
    pub(crate) fn hangs(&mut self, a: AttemptId, kind: HookKind, now: Mono) -> bool {
        if self
            .jobs
            .get(&a)
            .is_some_and(|known| known.as_ref() == Some(&kind))
        {
            return false;
        }
        let at = self.hung.entry(kind.clone()).or_default();
        if at.len() >= COUNTED_MAX {
            at.pop_front();
        }
        at.push_back(now);
        self.jobs.insert(a, Some(kind));
        true
    }

    /// Forgets what no longer counts. Returns whether there was anything.
    pub(crate) fn forget_old(&mut self, now: Mono) -> bool {
        let before: usize = self.hung.values().map(VecDeque::len).sum();
        for at in self.hung.values_mut() {
            at.retain(|at| at.plus_ms(WITHIN_MS) > now);
        }
        self.hung.retain(|_, at| !at.is_empty());
        before != self.hung.values().map(VecDeque::len).sum::<usize>()
    }

    /// The attempts of which a hook hangs.
    pub(crate) fn hanging(&self) -> impl Iterator<Item = (AttemptId, &HookKind)> {
        let all = self.jobs.iter();
        all.filter_map(|(a, kind)| Some((*a, kind.as_ref()?)))
    }

    /// The kinds of which several hung lately, and how many.
    pub(crate) fn often(&self) -> impl Iterator<Item = (&HookKind, usize)> {
        let all = self.hung.iter().map(|(kind, at)| (kind, at.len()));
        all.filter(|(_, n)| *n >= HUNG_MIN)
    }
}
