//! Parts of attempts that other hosts start: checked here, kept until they are over.
//!
//! A part holds nothing that a restart could lose, so nothing of it is on disk: after a restart
//! orders are read and answered again. Never starts anything.

use super::exec::Exec;
use super::launches::Launches;
use crate::model::AttemptId;
use crate::record::report::{Report, RunId};
use std::collections::BTreeMap;

/// The parts this host was asked for.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Prepared, or why not; for which run.
    known: BTreeMap<AttemptId, (Result<(), String>, RunId)>,
    /// Asked for since the last look, with their specifications.
    asked: BTreeMap<AttemptId, (u32, RunId)>,
    /// Units that each has here.
    units: BTreeMap<AttemptId, Vec<String>>,
    /// To which of them, and of the attempts that began here, users may add.
    pub(super) launches: Launches,
}

impl Parts {
    /// Notes that a part is to be prepared: of this run, not of an earlier one by the same name.
    pub(super) fn ask(&mut self, a: AttemptId, spec: u32, run: RunId, units: Vec<String>) {
        self.known
            .retain(|known, (_, of)| *known != a || *of == run);
        self.asked.insert(a, (spec, run));
        self.units.insert(a, units);
    }

    /// Forgets a part.
    pub(super) fn end(&mut self, a: AttemptId) {
        self.asked.remove(&a);
        self.known.remove(&a);
        self.units.remove(&a);
    }

    /// Units that a part has here; `None`: there is no such part.
    pub(super) fn units_of(&self, a: AttemptId) -> Option<&[String]> {
        self.units.get(&a).map(Vec::as_slice)
    }

    /// The reports of all parts.
    pub(super) fn reports(&self) -> impl Iterator<Item = (Report, RunId)> {
        let all = self.known.iter();
        all.map(|(a, (how, run))| (report(*a, how), *run))
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
        for (a, (spec, run)) in std::mem::take(&mut self.parts.asked) {
            let how = self.starter.check(spec);
            if let (Ok(()), Some(of)) = (&how, self.starter.spec(spec)) {
                self.parts.launches.note(a, of.uid, spec);
            }
            self.reports.push_beside(&report(a, &how), run);
            self.parts.known.insert(a, (how, run));
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
        parts.ask(a, 3, RunId::marked(7), vec!["gpu 0".to_owned()]);
        assert!(parts.units_of(a).is_some());
        parts.end(a);
        assert!(
            parts.units_of(a).is_none()
                && parts.asked.is_empty()
                && parts.reports().next().is_none()
        );
    }
}
