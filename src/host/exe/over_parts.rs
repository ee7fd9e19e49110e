//! Attempts that the leader ordered this host to end, and of which something may be left here:
//! their commands end one by one, and some ignore signals. The leader learns when nothing is left;
//! until then their units are not given to others here, whatever the leader assumes. Values only.

use crate::model::AttemptId;
use crate::record::report::RunId;
use std::collections::BTreeMap;

/// For how long an end is withheld: a process in the kernel may not end at all, ms.
const WITHHELD_MS: u64 = 600_000;
/// Time after which a command that was sent to the spawner has recorded its start, ms.
const BEGIN_MS: u64 = 1_000;

#[derive(Debug)]
struct OverPart {
    run: RunId,
    units: Vec<String>,
    /// A command may be about to start until then (boot clock, ms).
    begins_until: u64,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct OverParts {
    parts: BTreeMap<AttemptId, OverPart>,
    /// Until when an end is withheld at most (boot clock, ms).
    withheld: BTreeMap<AttemptId, u64>,
}

impl OverParts {
    /// Adds an attempt with its units here. `begun`: when a command was last started for it.
    pub(super) fn add(
        &mut self,
        a: AttemptId,
        (run, units): (RunId, Vec<String>),
        begun: Option<u64>,
    ) {
        let begins_until = begun.map_or(0, |at| at + BEGIN_MS);
        self.parts.entry(a).or_insert(OverPart {
            run,
            units,
            begins_until,
        });
    }

    /// Removes the attempts of which nothing is left. `runs`: whether commands of it are running.
    pub(super) fn take_over(
        &mut self,
        now: u64,
        runs: impl Fn(AttemptId) -> bool,
    ) -> Vec<(AttemptId, RunId)> {
        let left = |a: AttemptId, part: &OverPart| runs(a) || part.begins_until > now;
        let over = self.parts.iter().filter(|(a, part)| !left(**a, part));
        let over: Vec<_> = over.map(|(a, part)| (*a, part.run)).collect();
        over.iter().for_each(|(a, _)| drop(self.parts.remove(a)));
        over
    }

    pub(super) fn any(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The end of this attempt is not reported before nothing of it is left.
    pub(super) fn withhold_end(&mut self, a: AttemptId, now: u64) {
        self.withheld.insert(a, now + WITHHELD_MS);
    }

    pub(super) fn withholds_end(&self, a: AttemptId) -> bool {
        self.withheld.contains_key(&a)
    }

    /// The end is reported now. Returns false if it was not withheld.
    pub(super) fn release_end(&mut self, a: AttemptId) -> bool {
        self.withheld.remove(&a).is_some()
    }

    /// The attempts whose ends must be reported although something is left.
    pub(super) fn late_ends(&self, now: u64) -> Vec<AttemptId> {
        let late = self.withheld.iter().filter(|(_, until)| **until <= now);
        late.map(|(a, _)| *a).collect()
    }

    /// Units of attempts of which something may be left.
    pub(super) fn units(&self) -> impl Iterator<Item = &[String]> {
        self.parts.values().map(|part| &part.units[..])
    }

    /// Time until the next look (ms) if nothing happens here.
    pub(super) fn due_in(&self, now: u64) -> Option<u64> {
        let due = self.parts.values().map(|part| part.begins_until);
        let due = due.chain(self.withheld.values().copied());
        let next = due.filter(|until| *until > now).min()?;
        Some(next - now)
    }
}
