//! Whether a started job may get another specification: in another queue, or with other reserved
//! amounts. What it holds then must have room on the hosts that it runs on and in every limit it
//! counts in. Changes nothing: the picture is updated when it sees the change.

use super::allocation::Allocation;
use super::amount::Bundle;
use super::engine::Engine;
use super::hosts::HostTable;
use super::picture::Picture;
use super::quota::Ident;
use super::resource_names::amount_text;
use crate::model::{JobKey, Spec};
use crate::state::{HostId, Run, State};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What one started job would hold after the change.
struct ChangedAllocation {
    before: Allocation,
    /// Its parts by host, as limits count them.
    parts: SmallVec<[(u32, Bundle); 1]>,
}

/// Additional amounts, by host position and resource.
type Growth = BTreeMap<(u32, u16), i64>;

impl Engine {
    /// Checks whether the started work of job `id` may get this specification. The picture must be
    /// up to date.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn check_change(
        &mut self,
        state: &State,
        table: &HostTable,
        id: u32,
        new: &Spec,
    ) -> Result<(), String> {
        let Some(job) = state.job(id) else {
            return Ok(());
        };
        let mut works: Vec<JobKey> = Vec::new();
        job.each_started(&mut |j, _, _| works.push(j));
        let picture = &mut self.picture;
        let shape = picture.shape_of(new, table);
        let ident = picture.ident_of(new, shape);
        let checked = picture.check_works(state, table, &works, (shape, &ident, new));
        picture.requests.drop_ref(shape);
        checked
    }
}

impl Picture {
    fn check_works(
        &mut self,
        state: &State,
        table: &HostTable,
        works: &[JobKey],
        (shape, ident, spec): (u32, &Ident, &Spec),
    ) -> Result<(), String> {
        let mut changed = Vec::new();
        let mut growth = Growth::new();
        for j in works {
            let run = state.work(*j).and_then(|work| work.run.as_deref());
            let Some((run, before)) = run.zip(self.allocations.get(j).cloned()) else {
                continue;
            };
            self.check_hosts(table, &before, shape, spec)?;
            let parts = self.changed_parts(table, &before, shape, run, &mut growth)?;
            changed.push(ChangedAllocation { before, parts });
        }
        for ((at, res), more) in growth {
            let left = self.usage.get(at as usize).free_amount(res);
            if more > left {
                let (host, name) = (&table.at(at as usize).name, self.resources.name(res));
                let (more, left) = (amount_text(name, more), amount_text(name, left.max(0)));
                return Err(format!(
                    "the job would reserve {more} more of {name} on host {host}, which has {left} \
                     left"
                ));
            }
        }
        self.check_slots(table, &changed, shape, spec)?;
        self.check_limits(&changed, ident)
    }

    /// Checks that the hosts on which the job runs belong to the queue.
    fn check_hosts(
        &self,
        table: &HostTable,
        old: &Allocation,
        shape: u32,
        spec: &Spec,
    ) -> Result<(), String> {
        let queue = self.requests.shape(shape).queue;
        let Some(queue) = queue.filter(|_| queue != old.queue) else {
            return Ok(());
        };
        let hosts = &self.config.queues[usize::from(queue)].hosts;
        let used = old.parts.iter().filter(|(_, part)| part.slots > 0);
        let mut names = used.map(|(at, _)| &table.at(*at as usize).name);
        match names.find(|host| !hosts.contains(host)) {
            Some(host) => Err(format!(
                "the job runs on host {host}, which queue {} does not use",
                spec.queue
            )),
            None => Ok(()),
        }
    }

    /// Computes what the job would hold; adds to `growth` what that is more than it holds now.
    fn changed_parts(
        &self,
        table: &HostTable,
        old: &Allocation,
        shape: u32,
        run: &Run,
        growth: &mut Growth,
    ) -> Result<SmallVec<[(u32, Bundle); 1]>, String> {
        let (from, to) = (self.requests.shape(old.shape), self.requests.shape(shape));
        // The job was placed by one of the request's alternatives: the same number must mean the
        // same alternative.
        let alternatives = |shape: &super::shape::Shape| -> Vec<usize> {
            shape
                .alternatives
                .iter()
                .map(|alternative| alternative.parts.len())
                .collect()
        };
        if alternatives(from) != alternatives(to)
            || from.is_exclusive(run.alt) != to.is_exclusive(run.alt)
        {
            return Err(
                "the requirement of the job's queue has other alternatives or sections, or \
                 excludes other jobs from its hosts; only a job that is started from that queue \
                 can meet it"
                    .to_owned(),
            );
        }
        let share = |(id, n): &(HostId, u32)| (table.position(*id).map(|at| at as u32), *n);
        let shares: SmallVec<[_; 1]> = run.hosts.iter().map(share).collect();
        let elapsed_ms = self.now.since_ms(run.dispatch);
        let before = from.alternative(run.alt).bundles(&shares, elapsed_ms);
        let after = to.alternative(run.alt).bundles(&shares, elapsed_ms);
        let first = shares.first().and_then(|(at, _)| *at);
        let less_measured = |at: u32, whole: &Bundle| match Some(at) == first {
            true => self.less_measured(whole, run),
            false => None,
        };
        for ((at, old), (_, new)) in before.iter().zip(&after) {
            let (old_held, new_held) = (less_measured(*at, old), less_measured(*at, new));
            let (old_held, new_held) = (
                old_held.as_ref().unwrap_or(old),
                new_held.as_ref().unwrap_or(new),
            );
            for res in 0..self.resources.len() {
                let more = new_held.get(res) - old_held.get(res);
                let of_units =
                    |res| self.resources.has_units(res) || self.resources.per_unit(res).is_some();
                if more != 0 && of_units(res as u16) {
                    let name = self.resources.name(res as u16);
                    return Err(format!(
                        "units of {name} cannot be given to a running job or taken from it"
                    ));
                }
                if more > 0 {
                    *growth.entry((*at, res as u16)).or_default() += more;
                }
            }
        }
        Ok(after)
    }

    /// Checks that the slots of the job fit into the limits of another queue.
    fn check_slots(
        &self,
        table: &HostTable,
        changed: &[ChangedAllocation],
        shape: u32,
        spec: &Spec,
    ) -> Result<(), String> {
        let queue = self.requests.shape(shape).queue;
        let enters = |c: &&ChangedAllocation| c.before.queue != queue && !c.before.lent;
        let more: u32 = changed.iter().filter(enters).map(|c| c.before.slots).sum();
        let Some(at) = queue.filter(|_| more > 0) else {
            return Ok(());
        };
        let queue = &self.config.queues[usize::from(at)];
        let in_use = self.allocations.in_use();
        let of_user = in_use.queue_user.get(&(at, spec.uid)).copied();
        let all = in_use.queue[usize::from(at)];
        let limits = [
            (queue.slots, all, "slots"),
            (queue.user_slots, of_user.unwrap_or(0), "user_slots"),
        ];
        for (limit, used, key) in limits {
            if let Some(limit) = limit.filter(|limit| used.saturating_add(more) > *limit) {
                return Err(format!(
                    "queue {} has {used} of {limit} slots in use ({key}), the job needs {more}",
                    queue.name
                ));
            }
        }
        self.check_host_slots(table, changed, at)
    }

    /// Checks the slots that another queue may hold on a host.
    fn check_host_slots(
        &self,
        table: &HostTable,
        changed: &[ChangedAllocation],
        queue: u16,
    ) -> Result<(), String> {
        let settings = &self.config.queues[usize::from(queue)];
        let Some(limit) = settings.host_slots else {
            return Ok(());
        };
        let mut more: BTreeMap<u32, i64> = BTreeMap::new();
        for c in changed.iter().filter(|c| c.before.queue != Some(queue)) {
            for (at, part) in &c.before.parts {
                *more.entry(*at).or_default() += part.slots;
            }
        }
        for (at, more) in more {
            let used = i64::from(self.usage.get(at as usize).queue_used(queue));
            if used + more > i64::from(limit) {
                let (name, host) = (&settings.name, &table.at(at as usize).name);
                return Err(format!(
                    "queue {name} has {used} of {limit} slots of host {host} in use \
                     (host_slots), the job needs {more}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that the job fits into section `limits` with its new counters and amounts.
    fn check_limits(&mut self, changed: &[ChangedAllocation], ident: &Ident) -> Result<(), String> {
        let at = self.usage.log_end();
        for ChangedAllocation { before, .. } in changed.iter().filter(|c| !c.before.ident.is_free())
        {
            self.quotas
                .count_end(&before.ident, before.limit_parts(), !before.lent, at);
        }
        let mut taken = 0;
        let mut blocked = None;
        for c in changed.iter().filter(|_| !ident.is_free()) {
            if let Err(at_limit) = self.quotas.check(ident, &c.parts) {
                blocked = Some(self.quotas.reason(&at_limit).to_string());
                break;
            }
            self.quotas.count_start(ident, &c.parts, !c.before.lent);
            taken += 1;
        }
        for c in &changed[..taken] {
            self.quotas.count_end(ident, &c.parts, !c.before.lent, at);
        }
        for ChangedAllocation { before, .. } in changed.iter().filter(|c| !c.before.ident.is_free())
        {
            self.quotas
                .count_start(&before.ident, before.limit_parts(), !before.lent);
        }
        match blocked {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }
}
