//! Attempts on several hosts that are not started yet: which hosts have prepared their parts, and
//! which jobs wait before they are tried again.

use crate::model::{AttemptId, Mono};
use crate::state::HostId;
use std::collections::{BTreeMap, BTreeSet};

/// How long the parts may take before the attempt is cancelled, in milliseconds.
const PARTS_MS: u64 = 30_000;
/// First and longest pause before a job is tried again after a host did not prepare its part, in
/// milliseconds.
const PAUSE_MS: (u64, u64) = (1_000, 60_000);

/// See the head of this file.
#[derive(Default)]
pub(in crate::turn) struct GangStarts {
    preparing: BTreeMap<AttemptId, PartPreparation>,
    delayed: BTreeMap<u32, RetryDelay>,
    /// Whether the attempts whose preparation an earlier leader began were looked up.
    resumed: bool,
}

/// An attempt whose parts are being prepared.
struct PartPreparation {
    since: Mono,
    ready: BTreeSet<HostId>,
}

/// A job that waits before it is tried again.
struct RetryDelay {
    until: Mono,
    pause_ms: u64,
    /// It is currently excluded from scheduling.
    active: bool,
}

impl GangStarts {
    /// Returns true the first time: the leader must look up what an earlier one began.
    pub(crate) fn must_resume(&mut self) -> bool {
        !std::mem::replace(&mut self.resumed, true)
    }

    pub(crate) fn begin(&mut self, a: AttemptId, now: Mono) {
        self.preparing.entry(a).or_insert_with(|| PartPreparation {
            since: now,
            ready: BTreeSet::new(),
        });
    }

    /// Notes that a host has prepared its part. Returns true if `all` have.
    pub(crate) fn part_ready(
        &mut self,
        a: AttemptId,
        host: HostId,
        all: &BTreeSet<HostId>,
    ) -> bool {
        let preparation = self.preparing.get_mut(&a);
        preparation.is_some_and(|preparation| {
            preparation.ready.insert(host);
            preparation.ready.is_superset(all)
        })
    }

    /// Ends a preparation. Returns the hosts that were ready.
    pub(crate) fn end(&mut self, a: AttemptId) -> BTreeSet<HostId> {
        let ended = self.preparing.remove(&a);
        ended
            .map(|preparation| preparation.ready)
            .unwrap_or_default()
    }

    /// Attempts that are being prepared, and whether they take too long.
    pub(crate) fn preparing(&self, now: Mono) -> impl Iterator<Item = (AttemptId, bool)> {
        let late = move |p: &PartPreparation| now.since_ms(p.since) > PARTS_MS;
        self.preparing.iter().map(move |(a, p)| (*a, late(p)))
    }

    /// Excludes a job from scheduling, twice as long as the last time.
    pub(crate) fn delay(&mut self, id: u32, now: Mono) {
        let known = self.delayed.get(&id);
        let pause_ms = known.map_or(PAUSE_MS.0, |d| (d.pause_ms * 2).min(PAUSE_MS.1));
        let delay = RetryDelay {
            until: now.plus_ms(pause_ms),
            pause_ms,
            active: true,
        };
        self.delayed.insert(id, delay);
    }

    pub(crate) fn is_delayed(&self, id: u32) -> bool {
        self.delayed.get(&id).is_some_and(|delay| delay.active)
    }

    /// Forgets everything about a job whose attempt is started.
    pub(crate) fn started(&mut self, a: AttemptId) {
        self.preparing.remove(&a);
        self.delayed.remove(&a.j.id);
    }

    /// Forgets the delays of jobs that are gone.
    pub(crate) fn retain_delays(&mut self, keep: impl Fn(u32) -> bool) {
        self.delayed.retain(|id, _| keep(*id));
    }

    /// Jobs whose delay is over.
    pub(crate) fn take_due(&mut self, now: Mono) -> Vec<u32> {
        let due = |delay: &RetryDelay| delay.active && delay.until <= now;
        let mut ids = Vec::new();
        for (id, delay) in self.delayed.iter_mut().filter(|(_, delay)| due(delay)) {
            delay.active = false;
            ids.push(*id);
        }
        ids
    }

    /// When an attempt becomes late or a job may be tried again.
    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        let preparing = self.preparing.values();
        let late = preparing.map(|p| p.since.plus_ms(PARTS_MS + 1));
        let delayed = self.delayed.values().filter(|delay| delay.active);
        late.chain(delayed.map(|delay| delay.until)).min()
    }
}
