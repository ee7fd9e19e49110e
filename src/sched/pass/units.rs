//! Which units a start or a growth gets: whole units in the host's order, parts of the unit that
//! has the least left or, with `packing: frag`, of the unit where the least becomes useless.

use super::Pass;
use crate::config::Packing;
use crate::model::Units;
use crate::sched::allocation::Allocation;
use crate::sched::pending_classes::PendingClass;
use crate::sched::picture::ChosenUnits;
use crate::sched::placement::HostSlots;
use crate::sched::units::{PartOrder, UnitRequest, best_fit};
use smallvec::SmallVec;

impl Pass<'_> {
    /// Units of a start by alternative `alt`; `None`: too few units of its hosts are free, although
    /// the amounts fit.
    pub(super) fn units_of_start(
        &self,
        pending: &PendingClass,
        alt: u8,
        hosts: &HostSlots,
    ) -> Option<ChosenUnits> {
        let shape = self.shape(pending.shape);
        let alternative = shape.alternative(alt);
        if !alternative.units {
            return Some(ChosenUnits::default());
        }
        let shares: SmallVec<[_; 1]> = hosts.iter().map(|(at, n)| (Some(*at), *n)).collect();
        let asks = alternative.unit_asks(&shares);
        let units = match (shape.packing, &asks[..]) {
            (Packing::Frag, [(at, one)]) if one.len() == 1 => {
                let usage = self.picture.usage.get(*at as usize);
                let take = alternative.bundles(&shares, 0).remove(0).1;
                let loss = self
                    .memory
                    .demand
                    .loss_by_unit(*at as usize, usage, (&take, &one[0]));
                let order = |place: usize, _: i64| loss.get(place).copied().unwrap_or(i64::MAX);
                self.picture.choose_units(&asks, self.table, |_| &order)
            }
            _ => {
                let order = |_: usize| -> PartOrder<'static> { &best_fit };
                self.picture.choose_units(&asks, self.table, order)
            }
        };
        debug_assert!(units.is_ok(), "what fits has units");
        units.ok()
    }

    /// Additional units for a growth, on top of what is held; `None`: too few are free.
    pub(super) fn units_of_growth(
        &self,
        before: &Allocation,
        new_allocation: &mut Allocation,
    ) -> Option<Vec<Units>> {
        let alternative = &self.shape(before.shape).alternatives[0];
        if before.units.is_empty() && !alternative.units {
            return Some(Vec::new());
        }
        let slots_of = |allocation: &Allocation, at: u32| {
            let part = allocation.parts.iter().find(|(of, _)| *of == at);
            part.map_or(0, |(_, bundle)| u32::try_from(bundle.slots).unwrap_or(0))
        };
        let asks_of = |slots: u32, at: u32| match slots {
            0 => Vec::new(),
            n => alternative.unit_asks(&[(Some(at), n)]).remove(0).1,
        };
        let mut added: Vec<(u32, Vec<UnitRequest>)> = Vec::new();
        for (at, _) in &new_allocation.parts {
            let mut asks = asks_of(slots_of(new_allocation, *at), *at);
            for unit_ask in asks_of(slots_of(before, *at), *at) {
                if let Some(ask) = asks.iter_mut().find(|ask| ask.has_same_needs(&unit_ask)) {
                    ask.count = ask.count.saturating_sub(unit_ask.count);
                }
            }
            asks.retain(|ask| ask.count > 0);
            added.push((*at, asks));
        }
        let order = |_: usize| -> PartOrder<'static> { &best_fit };
        let chosen = self.picture.choose_units(&added, self.table, order).ok()?;
        let mut all = new_allocation.units.to_vec();
        for more in chosen.held {
            let of = |of_unit: &crate::sched::units::HeldUnits| {
                (
                    of_unit.host,
                    of_unit.res,
                    of_unit.part,
                    of_unit.amounts.clone(),
                )
            };
            match all.iter_mut().find(|of_unit| of(of_unit) == of(&more)) {
                Some(of_unit) => of_unit.names.extend(more.names),
                None => all.push(more),
            }
        }
        new_allocation.units = all.into();
        Some(chosen.units)
    }
}
