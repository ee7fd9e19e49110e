//! What is in use on each host: slots and reservable amounts, updated as work starts and ends. Owns
//! the numbers and the log of hosts that changed; never decides anything.

use super::amount::Bundle;
use super::units::{Chosen, HeldUnits, HostUnits, PartOrder, UnitRequest};
use crate::model::ShortName;
use smallvec::SmallVec;
use std::borrow::Cow;

/// A resource that some request reserves, by number.
pub(super) type ResourceId = u16;

/// The usage of one host. It fits into two cache lines, because each start reads that of its host,
/// far away in memory.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct HostUsage {
    /// Slots of the host.
    pub slots: i64,
    /// Slots held by started work, suspended work included.
    pub used_slots: i64,
    /// Expected load of jobs that started a moment ago, in thousandths of a running process.
    pub expected: i64,
    /// Number of jobs and elements on the host.
    pub jobs: u32,
    /// Number of exclusive jobs on the host.
    pub exclusive: u32,
    /// Counts changes; a score computed for another version is stale.
    pub version: u32,
    /// Counts changes of the host itself; values computed for earlier ones are stale.
    pub host_version: u32,
    /// The number of its type.
    kind: u32,
    /// It takes new jobs: it is up and open, and its windows and thresholds allow it.
    pub open: bool,
    /// The host's amount of each resource, in thousandths, before reservations.
    pub have: SmallVec<[i64; 3]>,
    /// Reserved by started jobs of each resource, in thousandths.
    pub reserved: SmallVec<[i64; 3]>,
    /// Only for hosts that lend slots, and if limits depend on it.
    holders: Option<Box<Holders>>,
    /// Only for hosts with units.
    units: Option<Box<HostUnits>>,
}

/// The slots of a host by their holders.
#[derive(Clone, Debug, Default)]
struct Holders {
    /// Slots of jobs suspended in favour of a better job, by the victim's queue.
    lent_slots: SmallVec<[(u16, i64); 1]>,
    /// For limits on a host; empty if there are none.
    queues: SmallVec<[(u16, u32); 2]>,
    users: SmallVec<[(u32, u32); 2]>,
}

impl HostUsage {
    pub(super) fn free(&self) -> i64 {
        self.slots - self.used_slots
    }

    /// What is left of a resource, in thousandths.
    pub(super) fn free_amount(&self, res: ResourceId) -> i64 {
        let have = self.have.get(usize::from(res)).copied().unwrap_or(0);
        have - self.reserved_of(res)
    }

    /// Reserved by started jobs of a resource, in thousandths.
    pub(super) fn reserved_of(&self, res: ResourceId) -> i64 {
        self.reserved.get(usize::from(res)).copied().unwrap_or(0)
    }

    pub(super) fn queue_used(&self, queue: u16) -> u32 {
        let holders = self.holders.as_ref();
        holders.map_or(0, |holders| find(&holders.queues, queue))
    }

    pub(super) fn user_used(&self, uid: u32) -> u32 {
        let holders = self.holders.as_ref();
        holders.map_or(0, |holders| find(&holders.users, uid))
    }

    /// How many of these units the host lists.
    pub(super) fn listed_units(&self, res: ResourceId, names: &[ShortName]) -> usize {
        self.units
            .as_ref()
            .map_or(0, |units| units.count_listed(res, names))
    }

    /// Chooses units for each of these requests; `None`: too few are free.
    pub(super) fn choose_units(
        &self,
        asks: &[UnitRequest],
        order: PartOrder<'_>,
    ) -> Option<Vec<Chosen<'_>>> {
        self.units.as_ref()?.choose(asks, order)
    }

    /// The units of the host, if it has some.
    pub(super) fn units(&self) -> Option<&HostUnits> {
        self.units.as_deref()
    }

    /// Slots of jobs suspended in favour of a better job, by the victim's queue; `used_slots`
    /// includes them.
    pub(super) fn lent_slots(&self) -> &[(u16, i64)] {
        self.holders
            .as_deref()
            .map_or(&[], |holders| &holders.lent_slots)
    }

    /// Slots lent by victims from these queues.
    pub(super) fn slots_lent_by(&self, queues: &[u16]) -> i64 {
        let of = |(queue, n): &(u16, i64)| queues.contains(queue).then_some(*n);
        self.lent_slots().iter().filter_map(of).sum()
    }
}

fn find<K: PartialEq + Copy>(list: &[(K, u32)], key: K) -> u32 {
    list.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| *n)
}

fn bump<K: PartialEq + Copy, const N: usize>(
    list: &mut SmallVec<[(K, u32); N]>,
    key: K,
    by: u32,
    plus: bool,
) where
    [(K, u32); N]: smallvec::Array<Item = (K, u32)>,
{
    match list.iter().position(|(k, _)| *k == key) {
        Some(at) if plus => list[at].1 += by,
        Some(at) => {
            list[at].1 -= by;
            if list[at].1 == 0 {
                list.swap_remove(at);
            }
        }
        None => {
            assert!(plus, "slots are given back that were never taken");
            list.push((key, by));
        }
    }
}

/// The holder of an amount on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub queue: u16,
    pub uid: u32,
    pub exclusive: bool,
    /// Suspended in favour of a better job: its slots are lent.
    pub lent: bool,
}

/// All hosts, by position in the host table.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterUsage {
    hosts: Vec<HostUsage>,
    /// Hosts that changed, oldest first; `base` earlier entries were dropped.
    log: Vec<u32>,
    base: u64,
    /// Free slots of open hosts.
    free: i64,
    /// Log position after the last change that may allow more jobs to start.
    freed: u64,
    /// Slots are also counted by queue and user.
    by_holder: bool,
    /// Counts changes of hosts' types; never 0.
    types_version: u32,
    /// Slots of all hosts, then what they have of each resource.
    totals: Vec<i64>,
}

impl ClusterUsage {
    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn get(&self, at: usize) -> &HostUsage {
        &self.hosts[at]
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &HostUsage> {
        self.hosts.iter()
    }

    /// Slots of the cluster, then what it has of each resource.
    pub(super) fn totals(&self) -> &[i64] {
        &self.totals
    }

    /// Free slots of all open hosts.
    pub(super) fn free(&self) -> i64 {
        self.free
    }

    /// The end of the log.
    pub(super) fn log_end(&self) -> u64 {
        self.base + self.log.len() as u64
    }

    /// The end of the log when something was last freed.
    pub(super) fn last_freed(&self) -> u64 {
        self.freed
    }

    /// Hosts that changed since log position `since`; `None`: the log does not reach back so far,
    /// check all.
    pub(super) fn changed(&self, since: u64) -> Option<&[u32]> {
        let from = usize::try_from(since.checked_sub(self.base)?).ok()?;
        self.log.get(from..)
    }

    /// Drops the older half of a long log.
    pub(super) fn trim(&mut self) {
        let keep = (4 * self.hosts.len()).max(4096);
        if self.log.len() > 2 * keep {
            let cut = self.log.len() - keep;
            self.log.drain(..cut);
            self.base += cut as u64;
        }
    }

    /// Whether [`HostUsage::queue_used`] and [`HostUsage::user_used`] are maintained.
    pub(super) fn by_holder(&self) -> bool {
        self.by_holder
    }

    /// Starts again with `n` hosts without slots. `by_holder`: some limit depends on what a queue
    /// or a user holds on a host.
    pub(super) fn reset(&mut self, n: usize, by_holder: bool) {
        let (base, freed) = (self.log_end() + 1, self.log_end() + 1);
        *self = ClusterUsage {
            hosts: vec![HostUsage::default(); n],
            log: Vec::new(),
            base,
            free: 0,
            freed,
            by_holder,
            types_version: self.types_version.wrapping_add(1).max(1),
            totals: Vec::new(),
        };
    }

    /// Sets the amounts of a host. Returns true if it may take more jobs than before.
    pub(super) fn set(&mut self, at: usize, slots: u32, open: bool, have: &[i64]) -> bool {
        let host = &mut self.hosts[at];
        let slots = i64::from(slots);
        if host.slots == slots && host.open == open && host.have[..] == *have {
            return false;
        }
        let less = |(a, b): (&i64, &i64)| a < b;
        let more = slots > host.slots
            || (open && !host.open)
            || host.have.len() != have.len()
            || host.have.iter().zip(have).any(less);
        let before = share(host);
        let longest = have.len().max(host.have.len()) + 1;
        if self.totals.len() < longest {
            self.totals.resize(longest, 0);
        }
        self.totals[0] += slots - host.slots;
        for (total, old) in self.totals[1..].iter_mut().zip(&host.have) {
            *total -= old;
        }
        for (total, new) in self.totals[1..].iter_mut().zip(have) {
            *total += new;
        }
        host.slots = slots;
        host.open = open;
        host.have = SmallVec::from_slice(have);
        self.free += share(host) - before;
        self.mark_changed(at, more);
        more
    }

    /// Notes that the host table has a change of a host. `kind`: the number of its type.
    pub(super) fn renew(&mut self, at: usize, kind: u32) {
        let host = &mut self.hosts[at];
        host.host_version = host.host_version.wrapping_add(1);
        if std::mem::replace(&mut host.kind, kind) != kind {
            self.types_version = self.types_version.wrapping_add(1).max(1);
        }
    }

    /// Counts changes of hosts' types, so that requests that compare types are evaluated again.
    /// Never 0.
    pub(super) fn types_version(&self) -> u32 {
        self.types_version
    }

    /// Sets which units of a resource a host lists. Returns false if it listed the same before.
    pub(super) fn set_units(&mut self, at: usize, res: ResourceId, names: &[Cow<'_, str>]) -> bool {
        let units = &mut self.hosts[at].units;
        let same = match units {
            Some(units) => units.lists(res, names),
            None => names.is_empty(),
        };
        if !same {
            units.get_or_insert_default().set(res, names);
        }
        !same
    }

    /// Sets how much of a resource of its own each listed unit of `res` has, in thousandths.
    pub(super) fn set_unit_sizes(
        &mut self,
        at: usize,
        (res, own): (ResourceId, ResourceId),
        sizes: Vec<i64>,
    ) {
        let units = &mut self.hosts[at].units;
        if units.is_some() || !sizes.is_empty() {
            units.get_or_insert_default().set_sizes(res, own, sizes);
        }
    }

    /// Takes units of hosts or returns them.
    pub(super) fn hold_units(&mut self, held_units: &[HeldUnits], plus: bool) {
        for held_unit in held_units {
            let units = self.hosts[held_unit.host as usize]
                .units
                .get_or_insert_default();
            units.hold(held_unit, plus);
        }
    }

    /// Sets the expected load. Called when a job starts and for a new sample; both change the host
    /// anyway.
    pub(super) fn set_expected(&mut self, at: usize, expected: i64) {
        self.hosts[at].expected = expected;
    }

    /// Closes a host for new jobs for now.
    pub(super) fn close(&mut self, at: usize) {
        let before = share(&self.hosts[at]);
        self.hosts[at].open = false;
        self.free -= before;
        self.mark_changed(at, false);
    }

    /// Notes that what was freed since log position `mark` is in use again.
    pub(super) fn restore_freed(&mut self, mark: u64) {
        self.freed = mark;
    }

    /// Notes that a host's load changed in a way that requests may depend on.
    pub(super) fn note_load_change(&mut self, at: usize) {
        self.mark_changed(at, true);
    }

    fn mark_changed(&mut self, at: usize, freed: bool) {
        self.hosts[at].version = self.hosts[at].version.wrapping_add(1);
        self.log.push(at as u32);
        if freed {
            self.freed = self.log_end();
        }
    }

    /// Books what one job holds on a host, or removes the booking.
    pub(super) fn book(&mut self, at: usize, what: &Bundle, holder: Holder, plus: bool) {
        let host = &mut self.hosts[at];
        let before = share(host);
        let sign = if plus { 1 } else { -1 };
        host.used_slots += sign * what.slots;
        if host.reserved.len() < what.res.len() {
            host.reserved.resize(what.res.len(), 0);
        }
        for (taken, amount) in host.reserved.iter_mut().zip(&what.res) {
            *taken += sign * amount;
        }
        let slots = u32::try_from(what.slots).expect("slots are never negative");
        if self.by_holder && slots > 0 {
            let holders = host.holders.get_or_insert_default();
            bump(&mut holders.queues, holder.queue, slots, plus);
            bump(&mut holders.users, holder.uid, slots, plus);
        }
        match (holder.lent, plus) {
            // A stopped job shares the host with the jobs that may use its slots.
            (true, _) => {}
            (false, true) => {
                host.jobs += 1;
                host.exclusive += u32::from(holder.exclusive);
            }
            (false, false) => {
                host.jobs -= 1;
                host.exclusive -= u32::from(holder.exclusive);
            }
        }
        if holder.lent {
            let lent = &mut host.holders.get_or_insert_default().lent_slots;
            match lent.iter().position(|(q, _)| *q == holder.queue) {
                Some(i) => {
                    lent[i].1 += sign * what.slots;
                    if lent[i].1 == 0 {
                        lent.remove(i);
                    }
                }
                None => lent.push((holder.queue, sign * what.slots)),
            }
        }
        self.free += share(&self.hosts[at]) - before;
        // Lending slots frees nothing for most jobs, only for those that may use lent slots.
        self.mark_changed(at, !plus || holder.lent);
    }
}

/// What a host contributes to the free slots of the cluster.
fn share(host: &HostUsage) -> i64 {
    if host.open { host.free().max(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_usage_of_a_host_is_small() {
        assert_eq!(size_of::<super::HostUsage>(), 128);
    }
}
