//! The usage of parts of attempts that are over on this host: commands started for them may run on
//! for a moment, and their usage still counts. It is reported when no command of the part runs and
//! it has grown. It is lost when this program ends; the leader counts what it received.

use super::exec::Exec;
use super::sample::{self, Snapshot};
use crate::model::AttemptId;
use crate::record::report::{Report, RunId, Usage};
use std::collections::BTreeMap;

/// Minimum time for which a part is remembered, because a command may be about to start, ms.
const KEPT_MS: u64 = 10_000;
/// Maximum number of parts that are remembered.
const PARTS_MAX: usize = 10_000;

#[derive(Debug)]
struct LatePart {
    run: RunId,
    usage: Usage,
    /// The usage was reported to the current leader.
    reported: bool,
    since: u64,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct LateParts(BTreeMap<AttemptId, LatePart>);

impl LateParts {
    /// Adds a part that is over, of which the usage `usage` was reported.
    pub(super) fn add(&mut self, a: AttemptId, (usage, run): (Usage, RunId), now: u64) {
        if self.0.len() >= PARTS_MAX {
            self.0.pop_first();
        }
        let part = LatePart {
            run,
            usage,
            reported: true,
            since: now,
        };
        self.0.insert(a, part);
    }

    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn has(&self, a: AttemptId) -> bool {
        self.0.contains_key(&a)
    }

    /// A new leader has received no reports yet.
    pub(super) fn forget_reported(&mut self) {
        self.0.values_mut().for_each(|part| part.reported = false);
    }

    /// The reports of all parts.
    pub(super) fn reports(&self) -> impl Iterator<Item = (Report, RunId)> {
        self.0.iter().map(|(a, part)| {
            let (a, u) = (*a, part.usage.clone());
            (Report::PartUsage { a, u }, part.run)
        })
    }

    /// The report of a part that has used this much by now, if it is to be reported.
    fn renew(&mut self, a: AttemptId, now: Usage) -> Option<(Report, RunId)> {
        let part = self.0.get_mut(&a)?;
        let u = sample::merge(&part.usage, now);
        if part.reported && !u.exceeds(&part.usage) {
            return None;
        }
        (part.usage, part.reported) = (u.clone(), true);
        Some((Report::PartUsage { a, u }, part.run))
    }

    /// Forgets a part whose usage can no longer grow. Returns true if it was forgotten.
    fn forget_old(&mut self, a: AttemptId, now: u64) -> bool {
        let old = |part: &LatePart| now.saturating_sub(part.since) > KEPT_MS;
        self.0.get(&a).is_some_and(old) && self.0.remove(&a).is_some()
    }
}

impl Exec {
    /// Reports the usage of parts that are over, once nothing runs for them.
    pub(super) fn follow_late_parts(&mut self, now: u64) {
        let all: Vec<AttemptId> = self.parts.late_parts.0.keys().copied().collect();
        for a in all {
            if self.parts.commands.has(a) {
                continue;
            }
            let mut usage = Usage::default();
            let none = Snapshot::default();
            self.parts.commands.add_to(a, &mut usage, &none, false);
            if let Some((report, run)) = self.parts.late_parts.renew(a, usage) {
                self.reports.push_unlisted(&report, run);
            }
            if self.parts.late_parts.forget_old(a, now) {
                self.parts.commands.forget(a);
            }
        }
    }
}
