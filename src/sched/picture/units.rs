//! Units of resources with `assign` in the picture: those that started work holds, taken from the
//! state; those that a start or a growth gets.

use super::Picture;
use crate::model::{JobKey, Share, ShortName, Units};
use crate::sched::allocation::Allocation;
use crate::sched::engine::Engine;
use crate::sched::host_usage::ResourceId;
use crate::sched::hosts::HostTable;
use crate::sched::units::{Chosen, HeldUnits, PartOrder, UNIT, UnitRequest, best_fit};
use crate::state::State;
use std::collections::BTreeMap;

/// Units that were chosen on hosts, by name and as the picture counts them: in the same order.
#[derive(Default)]
pub(in crate::sched) struct ChosenUnits {
    pub units: Vec<Units>,
    pub held: Vec<HeldUnits>,
}

/// `named` as the picture counts it; it was chosen on the host at this position for this request.
fn held_units_of(host: u32, ask: &UnitRequest, named: &Units) -> HeldUnits {
    let amounts = ask.amounts.iter().copied().filter(|(_, n)| *n > 0);
    HeldUnits {
        host,
        res: ask.res,
        names: named.names.clone(),
        part: ask.part,
        amounts: amounts.collect(),
    }
}

impl Engine {
    /// Units for a start of `j` on these hosts at an administrator's request, as its first
    /// alternative needs them.
    ///
    /// # Errors
    /// Returns a sentence that names the host with too few free units.
    pub fn units_on(
        &mut self,
        state: &State,
        table: &HostTable,
        j: JobKey,
        shares: &[Share],
    ) -> Result<Vec<Units>, String> {
        let Some(spec) = state.spec_of(j.id) else {
            return Ok(Vec::new());
        };
        let picture = &mut self.picture;
        let shape = picture.shape_of(spec, table);
        let alternative = picture.requests.shape(shape).alternative(0);
        let at = |host: &str| table.find_by_name(host).map(|host| host.position);
        let shares: Vec<_> = shares.iter().map(|Share(host, n)| (at(host), *n)).collect();
        let asks = alternative.units.then(|| alternative.unit_asks(&shares));
        picture.requests.drop_ref(shape);
        let Some(asks) = asks else {
            return Ok(Vec::new());
        };
        let order = |_: usize| -> PartOrder<'static> { &best_fit };
        let chosen = picture.choose_units(&asks, table, order);
        chosen.map(|chosen| chosen.units).map_err(|(at, res)| {
            let (host, name) = (&table.at(at as usize).name, picture.resources.name(res));
            format!("host {host} has too few free units of {name}")
        })
    }
}

impl Picture {
    /// Units as the picture counts them: on hosts of the cluster, of resources that have units.
    fn held_units(&self, units: &[Units], table: &HostTable) -> Box<[HeldUnits]> {
        let amounts_of = |units: &Units| {
            let each = units.amounts.iter();
            each.filter_map(|(name, n)| Some((self.resources.find(name)?, *n)))
                .collect()
        };
        let to_held = |units: &Units| {
            let res = self.resources.find(&units.res)?;
            let host = table.find_by_name(&units.host)?.position;
            self.resources.has_units(res).then(|| HeldUnits {
                host,
                res,
                names: units.names.clone(),
                part: i64::from(units.part_of_each()),
                amounts: amounts_of(units),
            })
        };
        units.iter().filter_map(to_held).collect()
    }

    /// Marks units as held by a started job. A host's amount includes those of them that it still
    /// lists, regardless of the job's current requirement.
    pub(super) fn hold_units(
        &self,
        allocation: &mut Allocation,
        units: &[Units],
        table: &HostTable,
    ) {
        allocation.units = self.held_units(units, table);
        let mut listed: BTreeMap<(u32, ResourceId), i64> = BTreeMap::new();
        for held_units in &allocation.units {
            let usage = self.usage.get(held_units.host as usize);
            let n = usage.listed_units(held_units.res, &held_units.names) as i64;
            *listed.entry((held_units.host, held_units.res)).or_default() += n * held_units.part;
            for (own, each) in &held_units.amounts {
                *listed.entry((held_units.host, *own)).or_default() += n * each;
            }
        }
        for ((at, res), amount) in listed {
            let part = allocation.parts.iter().position(|(of, _)| *of == at);
            let Some(part) = part else { continue };
            let res = usize::from(res);
            if allocation.parts[part].1.get(res) != amount {
                allocation.fix_limit_parts();
                allocation.parts[part].1.set(res, amount);
            }
        }
    }

    /// Computes the allocations on a host again because it lists other units than before.
    pub(super) fn renew_units(&mut self, state: &State, table: &HostTable, at: usize) {
        let works: Vec<JobKey> = state
            .used()
            .started_on(table.id_at(at))
            .map(|(j, _)| j)
            .collect();
        for j in works {
            if self
                .allocations
                .get(&j)
                .is_some_and(|allocation| !allocation.units.is_empty())
            {
                self.renew_allocation(state, table, j);
            }
        }
    }

    /// Chooses units on each host for what is requested there; `order`: to which unit of a host a
    /// part goes.
    ///
    /// # Errors
    /// Returns the position of a host and the resource of which too few units are free there.
    pub(in crate::sched) fn choose_units<'a>(
        &self,
        asks: &[(u32, Vec<UnitRequest>)],
        table: &HostTable,
        order: impl Fn(usize) -> PartOrder<'a>,
    ) -> Result<ChosenUnits, (u32, ResourceId)> {
        let mut out = Vec::new();
        for (at, asks) in asks.iter().filter(|(_, asks)| !asks.is_empty()) {
            let first = out.len();
            let usage = self.usage.get(*at as usize);
            let units = usage
                .choose_units(asks, order(*at as usize))
                .ok_or((*at, asks[0].res))?;
            let host = &table.at(*at as usize).name;
            let named = asks.iter().zip(units);
            out.extend(named.map(|(ask, units)| {
                let named = self.named_units(host, ask, &units);
                (held_units_of(*at, ask, &named), named)
            }));
            // Numbers of resources differ between leaders.
            out[first..].sort_by(|(_, a): &(HeldUnits, Units), (_, b)| {
                let size = b.part_of_each().cmp(&a.part_of_each());
                a.res.cmp(&b.res).then(size).then(a.names.cmp(&b.names))
            });
        }
        let (held, units) = out.into_iter().unzip();
        Ok(ChosenUnits { units, held })
    }

    fn named_units(&self, host: &str, ask: &UnitRequest, units: &Chosen<'_>) -> Units {
        let by_number = |(place, name): &(u32, &str)| name.parse() == Ok(*place);
        let amounts = ask.amounts.iter().filter(|(_, n)| *n > 0);
        Units {
            host: host.into(),
            res: self.resources.name(ask.res).into(),
            names: units
                .iter()
                .map(|(_, name)| ShortName::from(*name))
                .collect(),
            places: match units.iter().all(by_number) {
                true => Vec::new(),
                false => units.iter().map(|(place, _)| *place).collect(),
            },
            part: match ask.part {
                UNIT => 0,
                part => u32::try_from(part).expect("less than a unit"),
            },
            amounts: amounts
                .map(|(res, n)| (self.resources.name(*res).into(), *n))
                .collect(),
        }
    }
}
