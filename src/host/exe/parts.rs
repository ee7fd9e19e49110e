//! Parts of attempts whose first host is another one: checked here, kept until they are over.
//!
//! A restart loses nothing of a part, so nothing of it is on disk: after a restart, the orders are
//! read and answered again. Never starts anything.

use super::commands::Commands;
use super::exec::Exec;
use super::late_usage::LateParts;
use super::launches::{AttemptResources, LaunchableWork, Launches};
use super::over_parts::OverParts;
use super::table::{Entry, Status};
use super::unit_names::{OwnUnits, names_of};
use crate::model::{AttemptId, Binding, Limits, Spec, UnitCheck};
use crate::record::order::{Order, PartResources, StartOrder};
use crate::record::report::{Report, RunId};
use crate::sys::clock;
use crate::task::build;
use crate::task::spec::TaskLimits;
use std::collections::BTreeMap;

/// The binding of a part, if its queue binds jobs; or why the part cannot be prepared.
type PrepareResult = Result<Option<Box<Binding>>, String>;

/// The parts that this host was ordered to prepare.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The result of preparing each part, and its run.
    prepared: BTreeMap<AttemptId, (PrepareResult, RunId)>,
    /// Parts ordered since the last look, with specification, slots and what belongs to them here.
    ordered: BTreeMap<AttemptId, ((u32, u32, PartResources), RunId)>,
    /// Units of each part on this host, and what happens if it uses others.
    units: BTreeMap<AttemptId, (Vec<String>, UnitCheck)>,
    /// The parts, and the attempts that began here, to which users may add commands.
    pub(super) launches: Launches,
    /// The commands started for them.
    pub(super) commands: Commands,
    /// Parts that are over and may have used more than was reported.
    pub(super) late_parts: LateParts,
    /// Attempts that are over, of which something may be left here.
    pub(super) over: OverParts,
}

impl Parts {
    /// Notes that a part is to be prepared: for this run, not for an earlier one with the same id.
    pub(super) fn add_part(&mut self, a: AttemptId, of: (u32, u32, PartResources), run: RunId) {
        self.prepared
            .retain(|known, (_, of)| *known != a || *of == run);
        let units = &of.2.units;
        self.units.insert(a, (names_of(units), units.check));
        self.ordered.insert(a, (of, run));
    }

    /// Accepts limits that the leader changed. Returns false if they are not for a part here, or it
    /// has later ones.
    pub(super) fn limit(&mut self, (a, mark): (AttemptId, u32), limits: &Limits, n: u32) -> bool {
        // The limits may be in the same orders as the part, which is then not prepared yet.
        if let Some(((_, _, own), run)) = self.ordered.get_mut(&a)
            && n > own.limit_changes
            && (mark == 0 || run.mark == 0 || mark == run.mark)
        {
            (own.limits, own.limit_changes) = (limits.clone(), n);
        }
        self.launches.limit(a, numbered(limits, n), mark)
    }

    /// Notes an attempt that begins here: one with several slots may start more commands, and the
    /// program of an application's job may be connected to from another host.
    pub(super) fn note_start(&mut self, o: &StartOrder, spec: Option<&Spec>) {
        let Some(spec) = spec else { return };
        let is_rare = !build::has_hosts_file(&o.hosts, spec);
        if is_rare && spec.app.is_empty() {
            return;
        }
        let own = AttemptResources {
            units: o.units.clone(),
            ..AttemptResources::default()
        };
        let mut work = LaunchableWork::new((spec, o.s), own, None);
        work.is_rare = is_rare;
        self.launches.note(o.a, work);
    }

    /// The run of a part; without a mark if there is no such part.
    pub(super) fn run_of(&self, a: AttemptId) -> RunId {
        let prepared = self.prepared.get(&a).map(|(_, run)| *run);
        let ordered = || self.ordered.get(&a).map(|(_, run)| *run);
        prepared.or_else(ordered).unwrap_or_default()
    }

    /// Forgets a part.
    pub(super) fn end(&mut self, a: AttemptId) {
        self.ordered.remove(&a);
        self.prepared.remove(&a);
        self.units.remove(&a);
    }

    /// Units of a part on this host; `None`: there is no such part.
    pub(super) fn units_of(&self, a: AttemptId) -> Option<OwnUnits<'_>> {
        self.units.get(&a).map(own_units)
    }

    /// Units of the parts that are not prepared yet.
    pub(super) fn ordered_units(&self) -> impl Iterator<Item = (AttemptId, &[String])> {
        let units = |a: &AttemptId| self.units.get(a).map_or(&[][..], |(names, _)| names);
        self.ordered.keys().map(move |a| (*a, units(a)))
    }

    /// Units of all parts.
    pub(super) fn all_units(&self) -> impl Iterator<Item = (AttemptId, OwnUnits<'_>)> {
        self.units.iter().map(|(a, units)| (*a, own_units(units)))
    }

    /// Whether a part has units whose use is checked.
    pub(super) fn are_checked(&self) -> bool {
        let mut all = self.units.values();
        all.any(|(names, check)| !names.is_empty() && !check.is_off())
    }

    /// The reports of all parts, and the usage of parts that are over.
    pub(super) fn reports(&self) -> impl Iterator<Item = (Report, RunId)> {
        let all = self.prepared.iter();
        let all = all.map(|(a, (how, run))| (report(*a, how), *run));
        all.chain(self.late_parts.reports())
    }
}

/// Limits with the number of their last change.
fn numbered(limits: &Limits, changes: u32) -> TaskLimits {
    TaskLimits {
        changes,
        ..build::limits(limits)
    }
}

fn own_units((names, check): &(Vec<String>, UnitCheck)) -> OwnUnits<'_> {
    let check = *check;
    OwnUnits { names, check }
}

fn report(a: AttemptId, how: &PrepareResult) -> Report {
    match how {
        Ok(bind) => Report::PartReady {
            a,
            bind: bind.clone(),
        },
        Err(why) => Report::Never {
            a,
            why: why.clone(),
        },
    }
}

impl Exec {
    /// Prepares the parts that were ordered and reports on each.
    pub(super) fn prepare_parts(&mut self) {
        let wait = self.parts_without_units();
        let ordered = std::mem::take(&mut self.parts.ordered);
        let (wait, ready): (BTreeMap<_, _>, BTreeMap<_, _>) =
            ordered.into_iter().partition(|(a, _)| wait.contains(a));
        self.parts.ordered = wait;
        for (a, ((spec, slots, own), run)) in ready {
            let how = self.starter.check(spec);
            let own = match how {
                Ok(()) => self.own_of_part(a, slots, own),
                Err(_) => AttemptResources::default(),
            };
            if let (Ok(()), Some(of)) = (&how, self.starter.spec(spec)) {
                let work = LaunchableWork::new((of, spec), own, Some(run));
                self.parts.launches.note(a, work);
                self.limited.insert(a);
            }
            let how = how.map(|()| self.parts.launches.binding_of(a));
            self.reports.push_unlisted(&report(a, &how), run);
            self.parts.prepared.insert(a, (how, run));
        }
    }
}

impl Exec {
    /// The attempt is over on this host: what was started beside its command is ended.
    pub(super) fn end_part(&mut self, a: AttemptId) {
        let begun = self.parts.launches.launched_at(a);
        let units = match (self.parts.units_of(a), self.table.get(a)) {
            (Some(own), _) => own.names.to_vec(),
            (None, Some(entry)) => entry.given.units.clone(),
            (None, None) => Vec::new(),
        };
        let run = self.parts.run_of(a);
        self.parts.end(a);
        self.end_launches(a);
        self.parts.over.add(a, (run, units), begun);
    }

    /// The task of an attempt has ended, and commands that it started beside it are still running.
    /// They are ended, and the end is reported when nothing is left: until then the leader gives
    /// nothing of what the attempt holds to others. For a job over several hosts, the leader orders
    /// all of them to end what is left at the same time.
    pub(super) fn withhold_end(&mut self, a: AttemptId) {
        let begun = self.parts.launches.launched_at(a);
        let Some(entry) = self.table.get(a) else {
            return;
        };
        let (run, units) = (entry.run(), entry.given.units.clone());
        self.end_launches(a);
        self.parts.over.add(a, (run, units), begun);
        self.parts.over.withhold_end(a, clock::boot_ms());
    }

    fn report_withheld_end(&mut self, a: AttemptId) {
        let withheld = self.parts.over.release_end(a);
        let entry = self.table.get(a).filter(|_| withheld);
        for report in entry.map_or(Vec::new(), |entry| entry.reports(a)) {
            self.reports.push_end(&mut self.table, a, &report);
        }
    }

    /// The reports that describe the complete current state of an attempt, as far as the leader may
    /// know it.
    pub(super) fn reports_on(&self, a: AttemptId, entry: &Entry) -> Vec<Report> {
        match &entry.status {
            // The leader must know that the attempt is not lost.
            Status::Ended(end) if self.parts.over.withholds_end(a) => {
                let u = end.u.clone();
                vec![Report::Usage { a, u }]
            }
            _ => entry.reports(a),
        }
    }

    /// Reports the attempts of which nothing is left here.
    pub(super) fn follow_over_parts(&mut self, now: u64) {
        let commands = &self.parts.commands;
        let over = self.parts.over.take_over(now, |a| commands.has(a));
        for (a, run) in over {
            self.report_withheld_end(a);
            // The leader may have ordered the end of what is left meanwhile.
            self.reports.push_unlisted(&Report::PartOver { a }, run);
        }
        for a in self.parts.over.late_ends(now) {
            self.report_withheld_end(a);
        }
        // What was waiting for their units.
        self.prepare_parts();
    }

    /// Time until the next look at what this host has started beside tasks (ms).
    pub(super) fn parts_due_ms(&self) -> u64 {
        let due = self.parts.over.due_in(clock::boot_ms());
        due.unwrap_or(u64::MAX).min(self.launches_due_ms())
    }

    /// Notes an order to prepare a part.
    pub(super) fn take_part(&mut self, order: Order) {
        if let Order::Part {
            a,
            s,
            mark,
            slots,
            own,
            ..
        } = order
        {
            let run = self.ordered_run(mark);
            self.parts.add_part(a, (s, slots, *own), run);
        }
    }

    /// What belongs to the part on this host: cores that are assigned to no other, before anything
    /// runs on them.
    fn own_of_part(&mut self, a: AttemptId, slots: u32, own: PartResources) -> AttemptResources {
        let cpus = self.parts.commands.cpus(Some(a));
        let binding = match cpus.is_empty() {
            // Its commands were started before a restart.
            false => Some(Box::new(Binding {
                cpus,
                ..Binding::default()
            })),
            true if self.parts.launches.has(a) => None,
            true => {
                let cpus_in_use = self.cpus_in_use();
                self.starter
                    .cpus
                    .bind_part((a, own.bind, slots), &cpus_in_use)
            }
        };
        AttemptResources {
            limits: numbered(&own.limits, own.limit_changes),
            binding,
            units: own.units,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobKey, Units};
    use crate::record::order::TaskUnits;

    #[test]
    fn a_part_that_ends_before_it_is_prepared_is_not_answered_for() {
        let a = AttemptId {
            j: JobKey::job(1),
            at: 1,
        };
        let mut parts = Parts::default();
        let gpu = Units {
            host: "h1".into(),
            res: "gpu".into(),
            names: vec!["0".into()].into(),
            ..Units::default()
        };
        let units = TaskUnits {
            list: vec![gpu],
            ..TaskUnits::default()
        };
        let own = PartResources {
            units,
            ..PartResources::default()
        };
        parts.add_part(a, (3, 1, own), RunId::marked(7));
        assert_eq!(parts.units_of(a).unwrap().names, ["gpu 0"]);
        let bind = Some(Box::new(Binding {
            cpus: [2, 3].into_iter().collect(),
            ..Binding::default()
        }));
        let run = RunId::marked(7);
        parts.prepared.insert(a, (Ok(bind.clone()), run));
        let reports: Vec<_> = parts.reports().collect();
        assert_eq!(reports, [(Report::PartReady { a, bind }, run)]);
        // Another run with this id is prepared by itself.
        parts.add_part(a, (3, 1, PartResources::default()), run);
        assert_eq!(parts.reports().count(), 1, "an order read again");
        parts.add_part(a, (3, 1, PartResources::default()), RunId::marked(8));
        assert!(parts.reports().next().is_none());
        parts.end(a);
        assert!(
            parts.units_of(a).is_none()
                && parts.ordered.is_empty()
                && parts.reports().next().is_none()
        );
    }
}
