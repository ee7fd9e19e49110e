//! How much of their limits counters leave to one job: in all, on a host, for given parts. Owns no
//! counters.

use super::super::amount::Bundle;
use super::{Blocked, Counter, Ident, Need, Quotas, pair};

impl Quotas {
    /// Maximum number of slots for one more job by the limits that do not depend on the host; at
    /// least `need.slots`.
    ///
    /// # Errors
    /// Returns the first counter without room.
    pub fn max_slots(&self, ident: &Ident, need: &Need<'_>) -> Result<u32, Blocked> {
        self.max_slots_beside(ident, need, &[])
    }

    /// As [`Quotas::max_slots`], beside what the job takes in trial.
    ///
    /// # Errors
    /// Returns the first counter without room.
    pub fn max_slots_beside(
        &self,
        ident: &Ident,
        need: &Need<'_>,
        so_far: &[(u32, Bundle)],
    ) -> Result<u32, Blocked> {
        let mut room = u32::MAX;
        let taken = sum_of(so_far.iter());
        for at in &ident.host_independent {
            let counter = &self.counters[*at as usize];
            let left = self.slots_left(counter, taken.as_ref(), need);
            room = room.min(left.map_err(|b| b.of(counter.family, Some(*at), None))?);
        }
        Ok(room)
    }

    /// The first limit that is lower than the need even if nothing else runs, whatever the hosts.
    /// A limit that changes with the time of day does not count.
    pub fn above_a_limit(&self, ident: &Ident, need: &Need<'_>) -> Option<Blocked> {
        ident.host_independent.iter().find_map(|at| {
            let counter = &self.counters[*at as usize];
            let idle = Counter {
                rule: counter.rule,
                most: counter.most,
                ..Counter::default()
            };
            let blocked = self.slots_left(&idle, None, need).err()?;
            let lasts = self.next_change(&blocked).is_none();
            lasts.then(|| blocked.of(counter.family, Some(*at), None))
        })
    }

    /// Maximum number of slots that the job may have on a host by the limits that depend on it,
    /// beside what it got elsewhere in the same trial (`so_far`: at most one part for each host).
    ///
    /// # Errors
    /// Returns the first counter that has no room for `need.slots` more slots.
    pub fn room_on_host(
        &self,
        ident: &Ident,
        host: u32,
        need: &Need<'_>,
        so_far: &[(u32, Bundle)],
    ) -> Result<u32, Blocked> {
        let mut room = u32::MAX;
        for host_limit in &ident.host_limits {
            let rule = &self.rules[usize::from(host_limit.rule)];
            if !rule.holds(host) {
                continue;
            }
            let at = match host_limit.shared {
                Some(counter) => Some(counter),
                None => self.hosted.get(&pair(host_limit.family, host)).copied(),
            };
            let fresh = Counter {
                rule: host_limit.rule,
                ..Counter::default()
            };
            let counter = at.map_or(&fresh, |at| &self.counters[at as usize]);
            let in_trial = |part: &&(u32, Bundle)| match host_limit.shared {
                Some(_) => rule.holds(part.0),
                None => part.0 == host,
            };
            let taken = sum_of(so_far.iter().filter(in_trial));
            let left = self.slots_left(counter, taken.as_ref(), need);
            room = room.min(left.map_err(|b| b.of(host_limit.family, at, host_limit.own(host)))?);
        }
        Ok(room)
    }

    /// Checks whether a job that takes exactly these parts (one for each host) has room everywhere.
    ///
    /// # Errors
    /// Returns the first counter without room.
    pub fn check(&self, ident: &Ident, parts: &[(u32, Bundle)]) -> Result<(), Blocked> {
        let sum = |hosts: &dyn Fn(u32) -> bool| {
            let mut sum = Bundle::default();
            let on_hosts = parts.iter().filter(|part| hosts(part.0));
            on_hosts.for_each(|part| sum.add(&part.1));
            sum
        };
        let none = Bundle::default();
        let fits = |counter: &Counter, all: &Bundle| {
            let need = Need {
                slots: u32::try_from(all.slots).unwrap_or(0),
                per_slot: &none,
                fixed: all,
            };
            self.slots_left(counter, None, &need).map(|_| ())
        };
        let all = sum(&|_| true);
        for at in &ident.host_independent {
            let counter = &self.counters[*at as usize];
            fits(counter, &all).map_err(|b| b.of(counter.family, Some(*at), None))?;
        }
        for host_limit in &ident.host_limits {
            let rule = &self.rules[usize::from(host_limit.rule)];
            match host_limit.shared {
                Some(at) if parts.iter().any(|part| rule.holds(part.0)) => {
                    let here_sum = sum(&|host| rule.holds(host));
                    fits(&self.counters[at as usize], &here_sum)
                        .map_err(|b| b.of(host_limit.family, Some(at), None))?;
                }
                Some(_) => {}
                None => {
                    for (host, bundle) in parts.iter().filter(|part| rule.holds(part.0)) {
                        let at = self.hosted.get(&pair(host_limit.family, *host)).copied();
                        let fresh = Counter {
                            rule: host_limit.rule,
                            ..Counter::default()
                        };
                        let counter = at.map_or(&fresh, |at| &self.counters[at as usize]);
                        fits(counter, bundle)
                            .map_err(|b| b.of(host_limit.family, at, Some(*host)))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The sum of the parts; `None` if there are none.
fn sum_of<'a>(parts: impl Iterator<Item = &'a (u32, Bundle)>) -> Option<Bundle> {
    parts.fold(None, |mut sum: Option<Bundle>, (_, part)| {
        sum.get_or_insert_default().add(part);
        sum
    })
}
