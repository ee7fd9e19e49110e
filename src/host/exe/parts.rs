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
    /// Prepared, or why not.
    known: BTreeMap<AttemptId, Result<(), String>>,
    /// Asked for since the last look, with their specifications.
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
        self.known.remove(&a);
    }

    /// What is to be told of all parts.
    pub fn tell(&self) -> impl Iterator<Item = Report> {
        self.known.iter().map(|(a, how)| report(*a, how))
    }
}

fn report(a: AttemptId, how: &Result<(), String>) -> Report {
    match how {
        Ok(()) => Report::PartReady { a },
        Err(why) => Report::Never {
            a,
            why: why.clone(),
        },
    }
}

impl Exec {
    /// Prepares the parts that were asked for and answers for each.
    pub(super) fn prepare_parts(&mut self) {
        for (a, spec) in std::mem::take(&mut self.parts.asked) {
            let how = self.starter.check(spec);
            self.push(a, &report(a, &how));
            self.parts.known.insert(a, how);
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
        assert!(parts.asked.is_empty() && parts.tell().next().is_none());
    }
}
