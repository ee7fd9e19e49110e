//! The usage of parts of attempts that are over on this host: commands started for them may run on
//! for a moment and still count. Reported whenever it grows, until nothing runs for the part any
//! more. Lost when this program ends; the leader counts what it received.

use super::exec::Exec;
use super::sample::{self, Snapshot};
use crate::model::AttemptId;
use crate::record::report::{Report, RunId, Usage};
use std::collections::BTreeMap;

/// So long a part is remembered at least: a command may have been on its way, ms.
const KEPT_MS: u64 = 10_000;
/// Most of them.
const PARTS_MAX: usize = 10_000;

#[derive(Debug)]
struct LatePart {
    run: RunId,
    used: Usage,
    /// The present leader has heard that.
    said: bool,
    since: u64,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct LateParts(BTreeMap<AttemptId, LatePart>);

impl LateParts {
    /// A part is over, of which `used` was said.
    pub(super) fn add(&mut self, a: AttemptId, (used, run): (Usage, RunId), now: u64) {
        if self.0.len() >= PARTS_MAX {
            self.0.pop_first();
        }
        let part = LatePart {
            run,
            used,
            said: true,
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

    /// Another leader knows nothing of what was said.
    pub(super) fn forget_reported(&mut self) {
        self.0.values_mut().for_each(|part| part.said = false);
    }

    /// What all of them have used.
    pub(super) fn reports(&self) -> impl Iterator<Item = (Report, RunId)> {
        self.0.iter().map(|(a, part)| {
            let (a, u) = (*a, part.used.clone());
            (Report::PartUsage { a, u }, part.run)
        })
    }

    /// The report of a part that has used that much by now, if it is to be said.
    fn renew(&mut self, a: AttemptId, now: Usage) -> Option<(Report, RunId)> {
        let part = self.0.get_mut(&a)?;
        let u = sample::merge(&part.used, now);
        if part.said && !u.exceeds(&part.used) {
            return None;
        }
        (part.used, part.said) = (u.clone(), true);
        Some((Report::PartUsage { a, u }, part.run))
    }

    /// Forgets a part that nothing may be added to any more. True when it was one.
    fn leave(&mut self, a: AttemptId, now: u64) -> bool {
        let old = |part: &LatePart| now.saturating_sub(part.since) > KEPT_MS;
        self.0.get(&a).is_some_and(old) && self.0.remove(&a).is_some()
    }
}

impl Exec {
    /// Says what parts that are over have used, once nothing runs for them.
    pub(super) fn follow_late_parts(&mut self, now: u64) {
        let all: Vec<AttemptId> = self.parts.late.0.keys().copied().collect();
        for a in all {
            if self.parts.commands.has(a) {
                continue;
            }
            let mut used = Usage::default();
            let none = Snapshot::default();
            self.parts.commands.add_to(a, &mut used, &none, false);
            if let Some((report, run)) = self.parts.late.renew(a, used) {
                self.reports.push_beside(&report, run);
            }
            if self.parts.late.leave(a, now) {
                self.parts.commands.forget(a);
            }
        }
    }
}
