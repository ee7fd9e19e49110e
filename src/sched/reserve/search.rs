//! Where and when a blocked job could start at the earliest, given the timelines of the hosts.
//!
//! Owns the walk over the ends of running work and the default choice of a host set. It never
//! changes a timeline.

use super::{BookRequest, FreeHost, Host, ReservedPart, ReservedParts};
use crate::sched::amount::{Bundle, NEVER_MS};
use crate::sched::profile::{FOREVER, end_of};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A query: the earliest start in [`from`, `latest`) for `duration` ms.
pub(super) struct Search<'a, A: ?Sized> {
    pub hosts: &'a [Host],
    pub request: &'a A,
    pub duration: i64,
    pub from: i64,
    pub latest: i64,
    /// The set reserved so far; preferred if the start is the same.
    pub reserved: &'a [ReservedPart],
    /// Single hosts to check; if `None`, all hosts of the request.
    pub single_hosts: Option<&'a [u32]>,
    /// Gains smaller than this do not count for [`EarliestStart::margin`].
    pub min_gain: i64,
    /// Prefer hosts that are free now.
    pub free_first: bool,
}

/// The result of a query.
#[derive(Default)]
pub(super) struct EarliestStart {
    pub start: Option<(i64, ReservedParts)>,
    /// Slots that must become free beyond what was expected before an earlier start is possible;
    /// only set for host sets.
    pub margin: u64,
}

/// Whether any single host can serve the request.
pub(super) fn single<A: BookRequest + ?Sized>(ask: &A) -> bool {
    ask.is_plain() && (ask.min() <= 1 || ask.hosts_max() == 1 || ask.hosts().len() == 1)
}

impl<A: BookRequest + ?Sized> Search<'_, A> {
    pub(super) fn run(&self) -> EarliestStart {
        if self.from >= self.latest {
            return EarliestStart::default();
        }
        if single(self.request) {
            let start = self.one_host();
            return EarliestStart { start, margin: 0 };
        }
        self.host_set()
    }

    fn host(&self, host: u32) -> &Host {
        &self.hosts[host as usize]
    }

    fn is_reserved(&self, host: u32) -> bool {
        self.reserved.iter().any(|part| part.host == host)
    }

    /// Checks every host alone, the one kept so far first; later ones only if they are better.
    fn one_host(&self) -> Option<(i64, ReservedParts)> {
        let all = self.single_hosts.unwrap_or(self.request.hosts());
        let current = self.reserved.first().map(|part| part.host);
        let current = current.filter(|host| all.len() > 1 && all.contains(host));
        let mut best: Option<(i64, u32)> = None;
        for host in current.into_iter().chain(all.iter().copied()) {
            let before = best.map_or(self.latest, |(start, _)| start);
            if before <= self.from {
                break;
            }
            if let Some(start) = self.on_host(host, before) {
                best = Some((start, host));
            }
        }
        let (start, host) = match best {
            Some((start, _)) if start >= FOREVER && all.len() > 1 => self.fullest()?,
            best => best?,
        };
        let slots = self.request.min().max(1);
        let take = self.request.bundle(host, slots);
        Some((
            start,
            ReservedParts::from_iter([ReservedPart { host, slots, take }]),
        ))
    }

    /// The earliest start on one host, as the request itself evaluates it.
    fn on_host(&self, host: u32, before: i64) -> Option<i64> {
        let timeline = &self.host(host).timeline;
        let min = self.request.min().max(1);
        let need = self.request.bundle(host, min);
        let mut from = self.from;
        loop {
            let start = timeline.earliest(&need, self.duration, from, before)?;
            let free = timeline.min_free(start, end_of(start, self.duration));
            if self.request.capacity(host, &free) >= min {
                return Some(start);
            }
            from = timeline.next_change(start)?;
        }
    }

    /// No start is known: among the hosts that would serve, the one with the most free now.
    fn fullest(&self) -> Option<(i64, u32)> {
        let capacity_now = |host: u32| {
            self.request
                .capacity(host, &self.host(host).timeline.free_at(self.from))
        };
        let all = self.request.hosts().iter().enumerate();
        let serve = all.filter_map(|(at, host)| {
            let start = self.on_host(*host, self.latest)?;
            Some((
                capacity_now(*host),
                self.is_reserved(*host),
                Reverse(at),
                start,
                *host,
            ))
        });
        let (.., start, host) = serve.max()?;
        Some((start, host))
    }

    /// For several hosts together: walks their changes in time order with a running sum of what
    /// they offer, and chooses a set as soon as the sum is sufficient.
    fn host_set(&self) -> EarliestStart {
        let all = self.request.hosts();
        let need = u64::from(self.request.min().max(1));
        let mut offers: Vec<u32> = Vec::with_capacity(all.len());
        let mut changes = BinaryHeap::new();
        let mut sum = 0u64;
        let mut time = self.from;
        for (at, host) in all.iter().enumerate() {
            let offer = self.request.capacity(*host, &self.free_over(*host, time));
            sum += u64::from(offer);
            offers.push(offer);
            if let Some(next) = self.next_change(*host, time) {
                changes.push(Reverse((next, at as u32)));
            }
        }
        let mut better = true;
        // The moments at which the sum exceeded all earlier sums, and the sums.
        let mut peaks = vec![(time, sum)];
        loop {
            if better
                && sum >= need
                && let Some(parts) = self.choose(time, &offers)
            {
                let margin = need.saturating_sub(self.peak_before(time, &peaks));
                return EarliestStart {
                    start: Some((time, parts)),
                    margin,
                };
            }
            let peak = peaks[peaks.len() - 1].1;
            if sum > peak {
                peaks.push((time, sum));
            }
            let next = changes.peek().map(|Reverse((next, _))| *next);
            let Some(next) = next.filter(|next| *next < self.latest) else {
                let margin = need.saturating_sub(sum.max(peak));
                return EarliestStart {
                    start: None,
                    margin,
                };
            };
            time = next;
            better = false;
            while let Some(Reverse((changed_at, at))) = changes.peek().copied()
                && changed_at == time
            {
                changes.pop();
                let host = all[at as usize];
                let offer = self.request.capacity(host, &self.free_over(host, time));
                let before = std::mem::replace(&mut offers[at as usize], offer);
                better |= offer > before;
                sum = sum + u64::from(offer) - u64::from(before);
                if let Some(next) = self.next_change(host, time) {
                    changes.push(Reverse((next, at)));
                }
            }
        }
    }

    /// The maximum offered at any start that would be a sufficient gain over `start`.
    fn peak_before(&self, start: i64, peaks: &[(i64, u64)]) -> u64 {
        let late = start.saturating_sub(self.min_gain);
        let early = |(at, _): &&(i64, u64)| *at <= late.max(self.from);
        peaks.iter().rev().find(early).map_or(0, |(_, sum)| *sum)
    }

    /// What a host has free during the whole length of the job from `start` on.
    fn free_over(&self, host: u32, start: i64) -> Bundle {
        let host = self.host(host);
        if host.parts == 0 {
            host.timeline.free_at(start)
        } else {
            host.timeline.min_free(start, end_of(start, self.duration))
        }
    }

    /// The next start at which the host's offer may differ: a step begins, or one comes within the
    /// job's length. Without reservations on the host, jobs only end, so the steps only rise.
    fn next_change(&self, host: u32, start: i64) -> Option<i64> {
        let host = self.host(host);
        let begins = host.timeline.next_change(start);
        if host.parts == 0 {
            return begins;
        }
        let end = end_of(start, self.duration);
        let reach = host.timeline.change_from(end).map(|step| {
            if self.duration >= NEVER_MS && start < FOREVER {
                FOREVER
            } else {
                step - (end - start) + 1
            }
        });
        match (begins, reach) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn choose(&self, start: i64, offers: &[u32]) -> Option<ReservedParts> {
        let all = self.request.hosts();
        let ready_first = start >= FOREVER || self.free_first;
        let free_host = |(at, offer): (usize, &u32)| {
            let host = all[at];
            let ready = if ready_first {
                let free = self.host(host).timeline.free_at(self.from);
                self.request.capacity(host, &free).min(*offer)
            } else {
                *offer
            };
            let free = match self.request.is_plain() {
                true => Bundle::default(),
                false => self.free_over(host, start),
            };
            FreeHost {
                host,
                slots: *offer,
                ready,
                free,
            }
        };
        let offering = offers.iter().enumerate().filter(|(_, offer)| **offer > 0);
        let mut free_hosts: Vec<FreeHost> = offering.map(free_host).collect();
        let mut current: Vec<u32> = self.reserved.iter().map(|part| part.host).collect();
        current.sort_unstable();
        let is_kept = |free_host: &FreeHost| current.binary_search(&free_host.host).is_ok();
        // A stable sort: among equals the caller's preference remains.
        if ready_first || !current.is_empty() {
            free_hosts.sort_by_key(|free_host| {
                (ready_first && free_host.ready == 0, !is_kept(free_host))
            });
        }
        self.request.choose(&free_hosts)
    }
}

/// The default choice: hosts in the given order, those free now first; as few hosts as possible if
/// their number is limited; whole tiles if the request has them.
pub(in crate::sched) fn greedy<A: BookRequest + ?Sized>(
    ask: &A,
    free_hosts: &[FreeHost],
) -> Option<ReservedParts> {
    let most = ask.hosts_max() as usize;
    let mut order: Vec<usize> = (0..free_hosts.len()).collect();
    let taken = match ask.slots_per_host() {
        Some(tile) => fill_hosts_evenly(ask.min(), tile.max(1), free_hosts, &order)?,
        None => fill(ask.min().max(1), free_hosts, &order)?,
    };
    let used = taken.iter().filter(|slots| **slots > 0).count();
    let taken = if used > most {
        order.sort_by_key(|at| Reverse(free_hosts[*at].slots));
        order.truncate(most);
        match ask.slots_per_host() {
            Some(tile) => fill_hosts_evenly(ask.min(), tile.max(1), free_hosts, &order)?,
            None => fill(ask.min().max(1), free_hosts, &order)?,
        }
    } else {
        taken
    };
    let part = |at: usize| {
        let (host, slots) = (free_hosts[at].host, taken[at]);
        let take = ask.bundle(host, slots);
        ReservedPart { host, slots, take }
    };
    let selected = order.into_iter().filter(|at| taken[*at] > 0);
    Some(selected.map(part).collect())
}

/// Slots by host: first what is free now, then what becomes free later.
fn fill(need: u32, free_hosts: &[FreeHost], order: &[usize]) -> Option<Vec<u32>> {
    let mut taken = vec![0; free_hosts.len()];
    let mut left = need;
    for ready in [true, false] {
        for at in order {
            let free_host = &free_hosts[*at];
            let most = if ready {
                free_host.ready.min(free_host.slots)
            } else {
                free_host.slots
            };
            let more = most.saturating_sub(taken[*at]).min(left);
            taken[*at] += more;
            left -= more;
        }
    }
    (left == 0).then_some(taken)
}

/// Slots by host: whole tiles, and one host for the rest, preferably one that is too small for a
/// tile.
fn fill_hosts_evenly(
    need: u32,
    tile: u32,
    free_hosts: &[FreeHost],
    order: &[usize],
) -> Option<Vec<u32>> {
    let mut taken = vec![0; free_hosts.len()];
    let mut left = need.max(1);
    for at in order {
        if left >= tile && free_hosts[*at].slots >= tile {
            taken[*at] = tile;
            left -= tile;
        }
    }
    if left >= tile {
        return None;
    }
    if left > 0 {
        let fits = |at: &&usize| taken[**at] == 0 && free_hosts[**at].slots >= left;
        let small = order
            .iter()
            .filter(fits)
            .find(|at| free_hosts[**at].slots < tile);
        let last = *small.or_else(|| order.iter().find(fits))?;
        taken[last] = left;
    }
    Some(taken)
}
