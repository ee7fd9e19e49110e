//! Attempts that the leader ordered this host to end, and of which something may be left here:
//! their commands end one by one, and some ignore signals. The leader learns when nothing is left;
//! until then their units are not given to others here, whatever the leader assumes. Values only.

use crate::model::AttemptId;
use crate::record::report::RunId;
use std::collections::BTreeMap;

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
pub(super) struct OverParts(BTreeMap<AttemptId, OverPart>);

impl OverParts {
    /// Adds an attempt with its units here. `begun`: when a command was last started for it.
    pub(super) fn add(
        &mut self,
        a: AttemptId,
        (run, units): (RunId, Vec<String>),
        begun: Option<u64>,
    ) {
        let begins_until = begun.map_or(0, |at| at + BEGIN_MS);
        self.0.entry(a).or_insert(OverPart {
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
        let over = self.0.iter().filter(|(a, part)| !left(**a, part));
        let over: Vec<_> = over.map(|(a, part)| (*a, part.run)).collect();
        over.iter().for_each(|(a, _)| drop(self.0.remove(a)));
        over
    }

    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Units of attempts of which something may be left.
    pub(super) fn units(&self) -> impl Iterator<Item = &[String]> {
        self.0.values().map(|part| &part.units[..])
    }

    /// Time until the next look (ms) if nothing happens here.
    pub(super) fn due_in(&self, now: u64) -> Option<u64> {
        let due = self.0.values().map(|part| part.begins_until);
        let next = due.filter(|until| *until > now).min()?;
        Some(next - now)
    }
}
