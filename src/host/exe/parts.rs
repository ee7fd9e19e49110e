//! Parts of attempts that other hosts start: checked here, kept in mind until they are over.
//!
//! A part holds nothing that a restart could lose, so nothing of it is on disk: orders are read
//! anew after a restart, and the leader is told again. Never starts anything.

use super::exec::Exec;
use crate::model::AttemptId;
use crate::record::report::Report;
use std::collections::BTreeMap;

/// The parts this host was asked for.
#[derive(Debug, Default)]
pub struct Parts {
    /// By attempt: its specification.
    ready: BTreeMap<AttemptId, u32>,
    /// Asked for since the last look.
    asked: BTreeMap<AttemptId, u32>,
}

impl Parts {
    /// Notes that a part is to be prepared.
    pub fn ask(&mut self, a: AttemptId, spec: u32) {
        self.asked.insert(a, spec);
    }

    /// Forgets a part.
    pub fn end(&mut self, a: AttemptId) {
        self.asked.remove(&a);
        self.ready.remove(&a);
    }

    /// Parts that are prepared.
    pub fn ready(&self) -> impl Iterator<Item = AttemptId> {
        self.ready.keys().copied()
    }
}

impl Exec {
    /// Prepares the parts that were asked for and answers for each.
    pub(super) fn prepare_parts(&mut self) {
        for (a, spec) in std::mem::take(&mut self.parts.asked) {
            match self.starter.check(spec) {
                Ok(()) => {
                    self.parts.ready.insert(a, spec);
                    self.push(a, &Report::PartReady { a });
                }
                Err(why) => {
                    self.parts.ready.remove(&a);
                    self.push(a, &Report::Never { a, why });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;

    #[test]
    fn a_part_that_ends_before_it_is_prepared_is_not_answered_for() {
        let a = AttemptId {
            j: JobKey::job(1),
            at: 1,
        };
        let mut parts = Parts::default();
        parts.ask(a, 3);
        parts.end(a);
        assert!(parts.asked.is_empty() && parts.ready().next().is_none());
    }
}
