//! The part of the book about started work: hosts and their sizes, claims, what others may take.
//!
//! Owns the ends of running work. It never moves a reservation; it marks that they must be looked
//! at.

use super::{
    AbandonedReservations, Book, BookSettings, Bundle, Claim, ClaimId, Claims, FOREVER, FreedHosts,
    Host, MANY_STEPS, NEVER_MS, PassProgress, PassTime, PendingChecks, ReservationList,
    ReservedPart, Reverse, Step, TimeSpan, end_of,
};
use smallvec::SmallVec;

impl<K: Copy + Eq> Book<K> {
    pub fn new(rules: BookSettings) -> Book<K> {
        Book {
            resolution: rules.resolution.max(1),
            rules,
            hosts: Vec::new(),
            claims: Claims::default(),
            list: ReservationList {
                keys: Vec::new(),
                index: Vec::new(),
                starts: Vec::new(),
                all: Vec::new(),
                unused: Vec::new(),
            },
            time: PassTime {
                now: i64::MIN,
                pass: 0,
                unlimited_offset: 0,
                last_unknown: 0,
            },
            progress: PassProgress {
                confirmed: 0,
                current: None,
                tail_out: false,
            },
            holders: 0,
            checks: PendingChecks {
                changed: false,
                in_this_pass: false,
                broken: false,
                gained: TimeSpan::NONE,
                moving: TimeSpan::NONE,
            },
            freed_hosts: FreedHosts::default(),
            stamp: 0,
            give_ups: AbandonedReservations {
                expiry: i64::MAX,
                given_up: Vec::new(),
            },
        }
    }

    /// Sets the size of a host; hosts in between that were never set have none.
    pub fn set_host(&mut self, host_id: u32, capacity: &Bundle) {
        let at = host_id as usize;
        if self.hosts.len() <= at {
            self.hosts.resize_with(at + 1, Host::new);
        }
        let host = &mut self.hosts[at];
        if host.capacity == *capacity {
            return;
        }
        let mut by = capacity.clone();
        by.sub(&host.capacity);
        host.timeline.grow(&by);
        host.capacity = capacity.clone();
        host.fresh_until = i64::MIN;
        let amounts = || std::iter::once(by.slots).chain(by.res.iter().copied());
        // An amount that is smaller than before but still enough for all reservations there moves
        // none of them: memory shrinks with every other sample.
        if host.parts > 0 && amounts().any(|amount| amount < 0) {
            let mut less = Bundle::default();
            less.sub(&by);
            if host.timeline.is_overdrawn(&less, self.time.now, i64::MAX) {
                (self.checks.changed, self.checks.broken) = (true, true);
            }
        }
        if amounts().any(|amount| amount > 0) {
            self.checks.changed = true;
            self.note_freed(i64::MIN, i64::MAX, std::iter::once((host_id, capacity)));
        }
    }

    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// A started job takes `parts` until `until` (as returned by [`end_of`]). If it still runs
    /// then, its expected end is moved a little later, repeatedly.
    pub fn claim(&mut self, parts: &[(u32, Bundle)], now: i64, until: i64) -> ClaimId {
        let planned = Some(until);
        let until = if until >= FOREVER {
            self.unknown_end()
        } else {
            self.round_end(until).max(now.saturating_add(1))
        };
        let parts: SmallVec<[(u32, Bundle); 1]> = parts.iter().cloned().collect();
        self.add_claim(&parts, now, until);
        let id = self.claims.unused.pop().unwrap_or_else(|| {
            self.claims.all.push(Claim {
                parts: SmallVec::new(),
                until: 0,
                planned: None,
                stamp: 0,
            });
            u32::try_from(self.claims.all.len() - 1).expect("fewer than 2^32 pieces of work run")
        });
        let claim = &mut self.claims.all[id as usize];
        claim.parts = parts;
        claim.until = until;
        claim.planned = planned;
        let stamp = claim.stamp;
        self.expect_end(id, until, planned, stamp);
        ClaimId(id)
    }

    /// When a job without a run limit is expected to end: after every earlier reservation that
    /// waits for such jobs, so that it counts as beside these, not as before them.
    fn unknown_end(&mut self) -> i64 {
        if self.time.last_unknown == FOREVER + self.time.unlimited_offset {
            self.time.unlimited_offset += 1;
        }
        FOREVER + self.time.unlimited_offset
    }

    /// Releases a claim. The handle is no longer valid.
    pub fn release(&mut self, id: ClaimId, now: i64) {
        let claim = &mut self.claims.all[id.0 as usize];
        let parts = std::mem::take(&mut claim.parts);
        let until = claim.until;
        claim.stamp = claim.stamp.wrapping_add(1);
        if claim.planned.is_some() && until < FOREVER {
            self.claims.live_due -= 1;
        }
        claim.planned = None;
        self.claims.unused.push(id.0);
        for (host, amount) in &parts {
            let host = &mut self.hosts[*host as usize];
            host.release(now, until, amount);
            host.timeline.forget_before(now);
        }
        if now < until {
            self.note_freed(
                now,
                until,
                parts.iter().map(|(host, amount)| (*host, amount)),
            );
            self.checks.changed = true;
        }
    }

    /// Until when a claim counts: its end as currently planned.
    pub fn claim_end(&self, id: ClaimId) -> i64 {
        self.claims.all[id.0 as usize].until
    }

    /// What a job may take on a host from `now` until `end` (as returned by [`end_of`]) beside all
    /// reservations except those that its turn lifted. A job that may not backfill gets only what
    /// no reservation ever needs.
    pub fn free_for(&mut self, host: u32, now: i64, end: i64, may_backfill: bool) -> &Bundle {
        let end = self.round_end(end);
        let host = &mut self.hosts[host as usize];
        host.refresh(now);
        if !may_backfill || end > FOREVER {
            return &host.tight;
        }
        let later = host
            .available_steps
            .iter()
            .rev()
            .find(|step| step.from < end);
        &later.unwrap_or(&host.available_steps[0]).room
    }

    /// What is available on a host from `now` on, as decreasing steps over the end time; for scans
    /// over many candidates. The first step is what is free.
    pub fn decreasing_steps(&mut self, host: u32, now: i64) -> &[Step] {
        let host = &mut self.hosts[host as usize];
        host.refresh(now);
        &host.available_steps
    }

    /// Whether a reservation lies on the host; if none does, [`Book::free_for`] is what is free.
    #[inline]
    pub fn reserved_on(&self, host: u32) -> bool {
        self.hosts[host as usize].parts > 0
    }

    /// Whether a start on these hosts from now until `end` takes nothing from a reservation.
    pub fn allows(
        &mut self,
        parts: &[ReservedPart],
        now: i64,
        end: i64,
        may_backfill: bool,
    ) -> bool {
        parts.iter().all(|part| {
            !self.reserved_on(part.host)
                || part
                    .take
                    .fits(self.free_for(part.host, now, end, may_backfill))
        })
    }

    /// Slots that are free on a host and kept for reservations: the RSV column.
    pub fn reserved_free_slots(&mut self, host: u32, now: i64) -> i64 {
        let host = &mut self.hosts[host as usize];
        host.refresh(now);
        let free = host.available_steps[0].room.slots.max(0);
        free - host.tight.slots.clamp(0, free)
    }

    /// Number of running jobs without a run limit on these hosts.
    pub fn unlimited_on(&self, parts: &[ReservedPart]) -> usize {
        let mut hosts: Vec<u32> = parts.iter().map(|part| part.host).collect();
        hosts.sort_unstable();
        let is_on_hosts = |(host, _): &(u32, Bundle)| hosts.binary_search(host).is_ok();
        let unlimited =
            |claim: &&Claim| claim.until >= FOREVER && claim.parts.iter().any(is_on_hosts);
        self.claims.all.iter().filter(unlimited).count()
    }

    /// Moves the expected end of jobs that run past it a little later.
    pub(super) fn extend_overdue(&mut self, now: i64) {
        while let Some(Reverse((until, id, stamp))) = self.claims.due.peek().copied()
            && until <= now
        {
            self.claims.due.pop();
            let claim = &mut self.claims.all[id as usize];
            let Some(planned) = claim.planned.filter(|_| claim.stamp == stamp) else {
                continue;
            };
            let excess = (now - planned) / 4;
            let later = now.saturating_add(self.rules.overrun.max(excess).max(1));
            claim.stamp = claim.stamp.wrapping_add(1);
            let (stamp, parts) = (claim.stamp, claim.parts.clone());
            let later = self.round_end(later);
            self.add_claim(&parts, now, later);
            self.claims.all[id as usize].until = later;
            self.claims.live_due -= 1;
            self.expect_end(id, later, Some(planned), stamp);
        }
    }

    fn add_claim(&mut self, parts: &[(u32, Bundle)], now: i64, until: i64) {
        for (at, amount) in parts {
            let host = &mut self.hosts[*at as usize];
            host.timeline.forget_before(now);
            host.claim(now, until, amount);
            if host.parts > 0 && host.timeline.is_overdrawn(amount, now, until) {
                self.checks.broken = true;
                self.checks.changed = true;
                self.checks.in_this_pass = true;
            }
            if host.timeline.steps() > MANY_STEPS && self.resolution < NEVER_MS {
                self.resolution = (self.resolution * 2).max(1000);
            }
        }
    }

    fn expect_end(&mut self, id: u32, until: i64, planned: Option<i64>, stamp: u32) {
        if planned.is_none() || until >= FOREVER {
            return;
        }
        self.claims.live_due += 1;
        self.claims.due.push(Reverse((until, id, stamp)));
        if self.claims.due.len() > 2 * self.claims.live_due + 1024 {
            let due = std::mem::take(&mut self.claims.due).into_vec();
            let live = |Reverse((_, id, stamp)): &Reverse<(i64, u32, u32)>| {
                let claim = &self.claims.all[*id as usize];
                claim.stamp == *stamp && claim.planned.is_some()
            };
            self.claims.due = due.into_iter().filter(live).collect();
        }
    }

    /// Rounds an end to the resolution of the timelines.
    #[inline]
    pub(super) fn round_end(&self, end: i64) -> i64 {
        if self.resolution <= 1 || end >= FOREVER {
            return end;
        }
        let over = end.rem_euclid(self.resolution);
        if over == 0 {
            end
        } else {
            end + (self.resolution - over)
        }
    }

    /// The length for which room must be found so that it covers the rounded end.
    pub(super) fn length(&self, duration: i64) -> i64 {
        if duration >= NEVER_MS {
            return duration;
        }
        duration.max(1) + self.resolution - 1
    }

    pub(super) fn end(&self, start: i64, duration: i64) -> i64 {
        self.round_end(end_of(start, duration))
    }
}
