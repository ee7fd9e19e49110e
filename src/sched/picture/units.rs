//! Units of resources with `assign` in the picture: those that started work holds, taken from the
//! state; those that a start or a growth gets.

use super::Picture;
use crate::model::{JobKey, Share, Units};
use crate::sched::allocation::Allocation;
use crate::sched::amount::Bundle;
use crate::sched::engine::Engine;
use crate::sched::host_usage::ResourceId;
use crate::sched::hosts::HostTable;
use crate::sched::units::HeldUnits;
use crate::state::State;

impl Engine {
    /// Units for a start of `j` on these hosts by an administrator's word, as its first alternative
    /// needs them.
    ///
    /// # Errors
    /// A sentence that says which host has too few that are free.
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
        let way = picture.requests.shape(shape).way(0);
        let at = |host: &str| table.named(host).map(|host| host.position);
        let shares: Vec<_> = shares.iter().map(|Share(host, n)| (at(host), *n)).collect();
        let parts = way.units.then(|| way.bundles(&shares, 0));
        picture.requests.drop_ref(shape);
        let Some(parts) = parts else {
            return Ok(Vec::new());
        };
        picture.choose_units(&parts, table).map_err(|(at, res)| {
            let (host, name) = (&table.at(at as usize).name, picture.resources.name(res));
            format!("host {host} has too few free units of {name}")
        })
    }
}

/// Thousandths of a resource that one unit is.
const UNIT: i64 = 1000;

impl Picture {
    /// Units as the picture counts them: on hosts of the cluster, of resources that have units.
    pub(in crate::sched) fn held_units(
        &self,
        units: &[Units],
        table: &HostTable,
    ) -> Box<[HeldUnits]> {
        let held = |units: &Units| {
            let res = self.resources.find(&units.res)?;
            let at = table.named(&units.host)?.position;
            self.resources.has_units(res).then(|| HeldUnits {
                at,
                res,
                names: units.names.clone(),
            })
        };
        units.iter().filter_map(held).collect()
    }

    /// Started work holds these. A host's amount counts those of them that it still lists, whatever
    /// the job's requirement says by now.
    pub(super) fn hold_units(
        &self,
        allocation: &mut Allocation,
        units: &[Units],
        table: &HostTable,
    ) {
        allocation.units = self.held_units(units, table);
        for held in allocation.units.clone() {
            let listed = self.usage.get(held.at as usize);
            let listed = listed.listed_units(held.res, &held.names) as i64 * UNIT;
            let part = allocation.parts.iter().position(|(at, _)| *at == held.at);
            let Some(part) = part else { continue };
            let res = usize::from(held.res);
            if allocation.parts[part].1.get(res) != listed {
                allocation.keep_count();
                allocation.parts[part].1.set(res, listed);
            }
        }
    }

    /// A host lists other units than before: what work there holds is worked out again.
    pub(super) fn renew_units(&mut self, state: &State, table: &HostTable, at: usize) {
        let works: Vec<JobKey> = state
            .used()
            .work_on(table.id_at(at))
            .map(|(j, _)| j)
            .collect();
        for j in works {
            if self
                .allocations
                .get(&j)
                .is_some_and(|held| !held.units.is_empty())
            {
                self.renew_allocation(state, table, j);
            }
        }
    }

    /// The first free units of each host for what is taken there.
    ///
    /// # Errors
    /// Position of a host and a resource of which too few units are free there.
    pub(in crate::sched) fn choose_units(
        &self,
        parts: &[(u32, Bundle)],
        table: &HostTable,
    ) -> Result<Vec<Units>, (u32, ResourceId)> {
        let mut out = Vec::new();
        for (at, bundle) in parts {
            let first = out.len();
            for (res, name) in self.resources.with_units() {
                let n = usize::try_from(bundle.get(usize::from(res)) / UNIT).unwrap_or(0);
                if n == 0 {
                    continue;
                }
                let usage = self.usage.get(*at as usize);
                let chosen = usage.choose_units(res, n).ok_or((*at, res))?;
                let by_number = |(place, name): &(u32, &str)| name.parse() == Ok(*place);
                let numbers = chosen.iter().all(by_number);
                out.push(Units {
                    host: table.at(*at as usize).name.clone(),
                    res: name.to_owned(),
                    names: chosen.iter().map(|(_, name)| (*name).to_owned()).collect(),
                    places: match numbers {
                        true => Vec::new(),
                        false => chosen.iter().map(|(place, _)| *place).collect(),
                    },
                });
            }
            // Numbers of resources differ from leader to leader.
            out[first..].sort_by(|a: &Units, b| a.res.cmp(&b.res));
        }
        Ok(out)
    }
}
