//! Two attempts on this host never run with the same unit, or with parts of a unit that exceed the
//! whole, whatever the leader assumes: a run that is over for the leader may still be running here
//! (`ckill -r`, a restored share). A start whose units are not free waits for the end of the
//! attempts that have them.

use super::exec::Exec;
use super::unit_names::{amounts, read};
use crate::model::{AttemptId, WHOLE_UNIT};
use crate::task::spec::TaskSpec;
use std::collections::{BTreeMap, BTreeSet};

/// A unit by resource and name, and one of its own resources.
type UnitResource<'a> = (&'a str, &'a str, &'a str);

/// The amount that a unit has of one of its own resources, in thousandths, if known.
type SizeOf<'a> = &'a dyn Fn(UnitResource<'_>) -> Option<i64>;

/// Thousandths of units in use, by resource and name, and amounts of their own resources in use.
#[derive(Default)]
struct InUse<'a> {
    parts: BTreeMap<(&'a str, &'a str), u32>,
    own: BTreeMap<UnitResource<'a>, i64>,
}

impl<'a> InUse<'a> {
    fn add(&mut self, units: &'a [String]) {
        for unit in units {
            let (res, name, part) = read(unit);
            let sum = self.parts.entry((res, name)).or_default();
            *sum = sum.saturating_add(part);
            for (own, n) in amounts(unit) {
                let sum = self.own.entry((res, name, own)).or_default();
                *sum = sum.saturating_add(n);
            }
        }
    }

    /// Whether these units are free beside what is in use.
    fn leaves_free(&self, wanted: &'a [String], size: SizeOf<'_>) -> bool {
        let mut all = InUse::default();
        all.add(wanted);
        let parts = all.parts.iter().all(|(unit, part)| {
            let used = self.parts.get(unit).copied().unwrap_or(0);
            used == 0 || used.saturating_add(*part) <= WHOLE_UNIT
        });
        let own = all.own.iter().all(|(own, n)| {
            let used = self.own.get(own).copied().unwrap_or(0);
            used == 0 || size(*own).is_none_or(|size| used.saturating_add(*n) <= size)
        });
        parts && own
    }
}

impl Exec {
    /// Takes the deferred tasks that may start now.
    pub(super) fn take_ready(&mut self) -> Vec<TaskSpec> {
        let deferred = std::mem::take(&mut self.spawners.deferred);
        let units = |task: &TaskSpec| self.table.get(task.a).map_or(&[][..], |e| &e.given.units);
        if deferred.iter().all(|task| units(task).is_empty()) {
            return deferred;
        }
        let waiting: BTreeSet<_> = deferred.iter().map(|task| task.a).collect();
        let mut used = self.units_in_use(&waiting);
        let size = |(res, name, own): UnitResource<'_>| self.starter.units.size(res, name, own);
        let (mut ready, mut wait) = (Vec::new(), Vec::new());
        for task in deferred {
            let wanted = self.table.get(task.a).map_or(&[][..], |e| &e.given.units);
            match used.leaves_free(wanted, &size) {
                false => wait.push(task),
                true => {
                    used.add(wanted);
                    ready.push(task);
                }
            }
        }
        self.spawners.deferred = wait;
        ready
    }

    /// Units of attempts that run here, except these, and of those of which something may be left.
    fn units_in_use(&self, except: &BTreeSet<AttemptId>) -> InUse<'_> {
        let mut used = InUse::default();
        let live = self.table.live_attempts();
        let live = live.filter(|(a, _)| !except.contains(a));
        live.for_each(|(_, e)| used.add(&e.given.units));
        self.parts.over.units().for_each(|units| used.add(units));
        used
    }

    /// The parts that must not be prepared yet, because their units are not free.
    pub(super) fn parts_without_units(&self) -> BTreeSet<AttemptId> {
        let mut wait = BTreeSet::new();
        let with_units = |(_, units): &(AttemptId, &[String])| !units.is_empty();
        if !self.parts.ordered_units().any(|part| with_units(&part)) {
            return wait;
        }
        let mut used = self.units_in_use(&wait);
        let size = |(res, name, own): UnitResource<'_>| self.starter.units.size(res, name, own);
        for (a, units) in self.parts.ordered_units() {
            match used.leaves_free(units, &size) {
                true => used.add(units),
                false => drop(wait.insert(a)),
            }
        }
        wait
    }
}
