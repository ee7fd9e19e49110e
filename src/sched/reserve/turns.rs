//! The part of the book about a pass: turns of jobs in order, reservations made, kept, moved to an
//! earlier start and given up.
//!
//! Owns the order of reservations. It never lets one of them move later, unless what it stood on is
//! gone or a job before it in the order took it.

use super::search::single;
use super::{
    Book, BookRequest, BookTurn, Bundle, Estimate, FOREVER, NEVER_MS, Reservation,
    ReservationTerms, ReservedPart, ReservedParts, Search, TimeSpan,
};
use smallvec::SmallVec;

/// If something became free on more hosts than this, they are not checked one by one.
const FEW_FREED: usize = 64;
/// Maximum number of reservations whose host sets are chosen again when other hosts become free;
/// each takes a search of all hosts.
const RECHOSEN: usize = 16;

impl<K: Copy + Eq> Book<K> {
    /// Begins a pass. All ends known so far must have been recorded.
    pub fn open(&mut self, now: i64) {
        self.end_turn();
        self.put_tail_back();
        self.time.now = now;
        self.checks.moving = TimeSpan::NONE;
        self.time.pass = self.time.pass.wrapping_add(1);
        self.progress.confirmed = 0;
        self.extend_overdue(now);
        self.checks.in_this_pass = std::mem::take(&mut self.checks.changed);
        if self.give_ups.expiry <= now {
            self.checks.in_this_pass = true;
            let all = self
                .list
                .index
                .iter()
                .map(|at| self.list.all[*at as usize].expires);
            self.give_ups.expiry = all.filter(|at| *at > now).min().unwrap_or(i64::MAX);
        }
        self.give_ups.given_up.retain(|(_, until)| *until > now);
    }

    /// Whether all reservations are unchanged and lie in the future. Then a pass that considers
    /// only later jobs may call [`Book::confirm_all`] instead of giving each job its turn.
    pub fn idle(&self) -> bool {
        !self.checks.in_this_pass
            && self.list.starts[self.progress.confirmed..]
                .iter()
                .all(|start| *start > self.time.now)
    }

    pub fn confirm_all(&mut self) {
        self.end_turn();
        self.put_tail_back();
        if self.holders > 0 {
            for at in &self.list.index[self.progress.confirmed..] {
                self.list.all[*at as usize].pass = self.time.pass;
            }
        }
        self.progress.confirmed = self.list.keys.len();
    }

    /// Number of reservations that had their turn in this pass.
    pub fn confirmed(&self) -> usize {
        self.progress.confirmed
    }

    /// Begins the turn of this job. Until the next turn, [`Book::free_for`] ignores its own
    /// reservation, and those of jobs that used to come before it but come after it in this pass. A
    /// reservation that is not renewed in this turn is given up.
    pub fn begin_turn(&mut self, key: K) -> BookTurn {
        self.end_turn();
        if self.progress.confirmed == self.list.keys.len() {
            self.progress.current = Some((key, false));
            return BookTurn::Try;
        }
        let found = self.list.keys[self.progress.confirmed..]
            .iter()
            .position(|k| *k == key);
        match found {
            Some(0) => {
                self.put_tail_back();
                let at = self.list.index[self.progress.confirmed] as usize;
                let waits = self.list.starts[self.progress.confirmed] > self.time.now
                    && self.time.now < self.list.all[at].expires;
                if waits && (!self.checks.in_this_pass || self.cannot_start_earlier(at)) {
                    self.confirm();
                    return BookTurn::Keep;
                }
                self.lift(at);
                self.progress.current = Some((key, true));
                // A start that has passed, or whose basis is gone, moves back the later ones
                // instead of overtaking them; a reservation that gathers slots may gather theirs.
                let own = &self.list.all[at];
                let is_gathering = own.holds_slots && own.start >= FOREVER;
                let slipped = own.start < self.time.now || (self.checks.broken && !self.fits(own));
                if is_gathering || slipped {
                    self.lift_tail();
                }
            }
            Some(more) => {
                let span = self.progress.confirmed..=self.progress.confirmed + more;
                self.list.keys[span.clone()].rotate_right(1);
                self.list.index[span.clone()].rotate_right(1);
                self.list.starts[span].rotate_right(1);
                if !self.progress.tail_out {
                    self.lift(self.list.index[self.progress.confirmed] as usize);
                }
                self.progress.current = Some((key, true));
                self.lift_tail();
                self.checks.in_this_pass = true;
            }
            None => {
                self.progress.current = Some((key, false));
                self.lift_tail();
            }
        }
        BookTurn::Try
    }

    /// Makes or renews the reservation of the job whose turn it is, because it cannot start now.
    /// `None`: there are enough reservations before it, it rests after it gave up, or it could
    /// never start.
    pub fn reserve<A: BookRequest + ?Sized>(
        &mut self,
        key: K,
        ask: &A,
        terms: &ReservationTerms,
    ) -> Option<&Reservation> {
        if self.progress.current.is_none_or(|(whose, _)| whose != key) {
            let last = self
                .progress
                .confirmed
                .checked_sub(1)
                .map(|last| self.list.keys[last]);
            if last == Some(key) || self.begin_turn(key) == BookTurn::Keep {
                let at = self.list.index[self.progress.confirmed - 1];
                return Some(&self.list.all[at as usize]);
            }
        }
        let own = self.progress.current.is_some_and(|(_, own)| own);
        let known = own.then(|| self.list.index[self.progress.confirmed] as usize);
        let since = known.map_or(self.time.now, |at| self.list.all[at].since);
        let lasts = |most: i64| since.saturating_add(most.max(0));
        let expires = terms.hold_ms.map_or(i64::MAX, lasts);
        if self.time.now >= expires && own {
            self.give_ups
                .given_up
                .push((key, self.time.now.saturating_add(self.rules.retry_delay)));
        }
        let rests = self.give_ups.given_up.iter().any(|(k, _)| *k == key);
        if self.progress.confirmed >= terms.depth || rests {
            self.end_turn();
            if self.progress.confirmed >= terms.depth {
                self.drop_tail();
            }
            return None;
        }
        let Some((start, parts, margin)) = self.find(known, ask, terms) else {
            self.end_turn();
            return None;
        };
        let at = self.set(key, known, start, parts, terms.duration);
        let position = self.freed_hosts.base + self.freed_hosts.log.len() as u64;
        let (seen_slots, duration) = (self.freed_hosts.slots, terms.duration);
        self.give_ups.expiry = self.give_ups.expiry.min(expires);
        self.freed_hosts.read = position;
        let own = &mut self.list.all[at];
        *own = Reservation {
            since,
            expires,
            margin,
            gains_seen_to: position,
            slots_seen: seen_slots,
            duration,
            free_first: terms.free_first,
            ..std::mem::take(own)
        };
        self.hold_if_first(at, ask, terms.hold_ms.is_some());
        self.put(at);
        self.progress.current = None;
        self.confirm();
        if self.progress.confirmed >= terms.depth {
            self.drop_tail();
        }
        Some(&self.list.all[at])
    }

    /// Ends the reservation of the job whose turn it is, or that just reserved from now on, because
    /// it starts. Must be called before [`Book::claim`], so that nothing is counted twice.
    pub fn started(&mut self, key: K) {
        if self.progress.current.is_some_and(|(whose, _)| whose == key) {
            // A start before the reserved time leaves room to later ones in this pass, as a move
            // does; only ends before their time make the book check all reservations again.
            let changed = self.checks.changed;
            self.end_turn();
            self.checks.changed = changed;
        } else {
            self.cancel(key);
        }
    }

    /// Removes the reservation of a job that is gone or no longer wants one.
    pub fn cancel(&mut self, key: K) {
        self.end_turn();
        let last = self
            .progress
            .confirmed
            .checked_sub(1)
            .filter(|at| self.list.keys[*at] == key);
        let found = last.or_else(|| self.list.keys.iter().position(|k| *k == key));
        if let Some(at) = found {
            let lifted = self.progress.tail_out && at >= self.progress.confirmed;
            self.remove(at, lifted);
        }
    }

    /// Ends the pass. `complete`: every job had its turn, so reservations without a turn are given
    /// up; otherwise they are kept.
    pub fn close(&mut self, complete: bool) {
        self.end_turn();
        if complete {
            self.drop_tail();
        } else {
            self.put_tail_back();
            self.checks.changed |= self.checks.in_this_pass;
        }
        if self.checks.in_this_pass && complete {
            self.checks.gained = self.checks.moving;
            self.checks.broken &= self.checks.changed;
        }
        self.checks.in_this_pass = false;
    }

    /// Requests a check of all reservations in the next pass, because requests may have changed:
    /// hosts were opened or closed, or the configuration changed.
    pub fn request_check(&mut self) {
        self.checks.changed = true;
        self.checks.broken = true;
    }

    /// Reservations in order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &Reservation)> {
        let of = |(key, at): (&K, &u32)| (*key, &self.list.all[*at as usize]);
        self.list.keys.iter().zip(&self.list.index).map(of)
    }

    pub fn get(&self, key: K) -> Option<&Reservation> {
        let at = self.list.keys.iter().position(|k| *k == key)?;
        Some(&self.list.all[self.list.index[at] as usize])
    }

    /// When a job with a reservation is expected to start, or why that is unknown.
    pub fn estimate(&self, key: K) -> Option<Estimate> {
        let reservation = self.get(key)?;
        Some(if reservation.start < FOREVER {
            Estimate::At(reservation.start)
        } else {
            Estimate::Unknown {
                unlimited: self.unlimited_on(&reservation.parts),
            }
        })
    }

    /// Whether too little became free for an earlier start of a host set that is still valid.
    fn cannot_start_earlier(&self, at: usize) -> bool {
        let own = &self.list.all[at];
        let few = match own.free_first && self.progress.confirmed < RECHOSEN {
            true => self.freed_hosts.slots == own.slots_seen,
            false => self.freed_hosts.slots - own.slots_seen < own.margin,
        };
        !self.checks.broken && own.start < FOREVER && few
    }

    /// A better start than the current one; else the current one if it is still valid, or the
    /// earliest.
    fn find<A: BookRequest + ?Sized>(
        &mut self,
        known: Option<usize>,
        request: &A,
        terms: &ReservationTerms,
    ) -> Option<(i64, ReservedParts, u64)> {
        let duration = terms.duration;
        let can_restore = known.is_some_and(|at| self.can_be_restored(at, request, duration));
        let own = known.map(|at| &self.list.all[at]);
        let gain = self.rules.min_gain.max(1);
        let length = self.length(duration);
        let mut search = Search {
            hosts: &self.hosts,
            request,
            duration: length,
            from: self.time.now,
            latest: i64::MAX,
            reserved: own.map_or(&[], |own| &own.parts[..]),
            single_hosts: None,
            min_gain: gain,
            free_first: terms.free_first,
        };
        let mut gained: SmallVec<[u32; 8]> = SmallVec::new();
        // If the start is unknown, what is free now may be better than what was reserved.
        if let Some(own) = own
            && can_restore
            && own.start < FOREVER
        {
            search.latest = own.start.saturating_sub(gain - 1).max(self.time.now + 1);
            // For the same start, other hosts may be free now.
            if terms.free_first && own.parts.len() > 1 && self.progress.confirmed < RECHOSEN {
                search.latest = own.start.saturating_add(1);
            }
            if !self.progress.tail_out && single(request) {
                // What could not serve before can do so only where more became free since.
                search.latest = search.latest.min(self.checks.gained.to);
                if length < NEVER_MS {
                    let first = self
                        .checks
                        .gained
                        .from
                        .saturating_sub(length)
                        .saturating_add(1);
                    search.from = search.from.max(first);
                }
                if let Some(log) = self.freed_since(own.gains_seen_to)
                    && request.hosts().len() > 1
                {
                    gained.extend_from_slice(log);
                    gained.sort_unstable();
                    gained.dedup();
                    let place = |host: &u32| request.hosts().iter().position(|known| known == host);
                    gained.retain(|host| place(host).is_some());
                    gained.sort_by_cached_key(place);
                    search.single_hosts = Some(&gained);
                }
            }
        }
        let found = search.run();
        match (found.start, own) {
            (Some((start, parts)), _) => Some((start, parts, found.margin)),
            (None, Some(own)) if can_restore => Some((own.start, own.parts.clone(), found.margin)),
            (None, _) => None,
        }
    }

    /// Whether a lifted reservation could be restored unchanged.
    fn can_be_restored<A: BookRequest + ?Sized>(
        &mut self,
        at: usize,
        ask: &A,
        duration: i64,
    ) -> bool {
        let own = &self.list.all[at];
        let slots: u32 = own.parts.iter().map(|part| part.slots).sum();
        let same = own.duration == duration && slots == ask.min().max(1);
        if own.start <= self.time.now || !same || (self.checks.broken && !self.fits(own)) {
            return false;
        }
        if let [part] = &own.parts[..] {
            return ask.hosts().contains(&part.host);
        }
        self.stamp = self.stamp.wrapping_add(1);
        for host in ask.hosts() {
            self.hosts[*host as usize].stamp = self.stamp;
        }
        let stamped = |part: &ReservedPart| self.hosts[part.host as usize].stamp == self.stamp;
        own.parts.iter().all(stamped)
    }

    /// Hosts on which more became free since a position in the log; `None` if that is too long ago.
    fn freed_since(&self, position: u64) -> Option<&[u32]> {
        let log = self
            .freed_hosts
            .log
            .get(usize::try_from(position.checked_sub(self.freed_hosts.base)?).ok()?..)?;
        (log.len() <= FEW_FREED).then_some(log)
    }

    fn fits(&self, own: &Reservation) -> bool {
        own.parts.iter().all(|part| {
            let host = &self.hosts[part.host as usize];
            host.timeline.fits(&part.take, own.start, own.end)
        })
    }

    /// Records a reservation as the next one to be confirmed, without occupying its place yet.
    fn set(
        &mut self,
        key: K,
        known: Option<usize>,
        start: i64,
        parts: ReservedParts,
        duration: i64,
    ) -> usize {
        let end = self.end(start, duration);
        if start == FOREVER + self.time.unlimited_offset {
            self.time.last_unknown = start;
        }
        if let Some(at) = known {
            let own = &mut self.list.all[at];
            if start != own.start || parts != own.parts {
                let (from, to) = (own.start, own.end);
                own.start = start;
                own.end = end;
                let left = std::mem::replace(&mut own.parts, parts);
                self.note_freed(from, to, left.iter().map(|part| (part.host, &part.take)));
                self.list.starts[self.progress.confirmed] = start;
            }
            return at;
        }
        let new = Reservation {
            start,
            end,
            parts,
            pass: self.time.pass,
            ..Reservation::default()
        };
        let at = match self.list.unused.pop() {
            Some(at) => {
                self.list.all[at as usize] = new;
                at
            }
            None => {
                self.list.all.push(new);
                u32::try_from(self.list.all.len() - 1).expect("fewer than 2^32 reservations")
            }
        };
        self.list.keys.insert(self.progress.confirmed, key);
        self.list.index.insert(self.progress.confirmed, at);
        self.list.starts.insert(self.progress.confirmed, start);
        at as usize
    }

    /// Only the first job in order that waits for a host holds slots of it.
    fn hold_if_first<A: BookRequest + ?Sized>(&mut self, at: usize, ask: &A, wanted: bool) {
        let own = at as u32 + 1;
        let foreign = |book: &Self, by: u32| {
            by != 0 && by != own && book.list.all[by as usize - 1].pass == book.time.pass
        };
        let blocked = |host: &u32| foreign(self, self.hosts[*host as usize].claimed_by);
        let holds = wanted
            && !self.list.all[at]
                .parts
                .iter()
                .any(|part| blocked(&part.host));
        if holds {
            for host in ask.hosts() {
                let by = self.hosts[*host as usize].claimed_by;
                if by != own && !foreign(self, by) {
                    self.checks.in_this_pass |= by != 0;
                    self.hosts[*host as usize].claimed_by = own;
                }
            }
        }
        match (
            std::mem::replace(&mut self.list.all[at].holds_slots, holds),
            holds,
        ) {
            (false, true) => self.holders += 1,
            (true, false) => self.release_claim(at),
            _ => {}
        }
    }

    fn release_claim(&mut self, at: usize) {
        self.holders -= 1;
        for host in &mut self.hosts {
            if host.claimed_by == at as u32 + 1 {
                host.claimed_by = 0;
            }
        }
    }

    fn confirm(&mut self) {
        let at = self.list.index[self.progress.confirmed] as usize;
        self.list.all[at].pass = self.time.pass;
        self.progress.confirmed += 1;
    }

    /// Notes that more became free in [from, to) on some hosts.
    pub(super) fn note_freed<'a>(
        &mut self,
        from: i64,
        to: i64,
        parts: impl Iterator<Item = (u32, &'a Bundle)>,
    ) {
        self.checks.gained.cover(from, to);
        self.checks.moving.cover(from, to);
        for (host, amount) in parts {
            let more = match amount.res.iter().all(|amount| *amount <= 0) {
                true => amount.slots,
                // Other amounts may have prevented the use of any number of slots.
                false => self.hosts[host as usize].capacity.slots,
            };
            self.freed_hosts.slots += more.max(0) as u64;
            // A repeated host is one entry, unless that has already been read.
            let unread =
                self.freed_hosts.base + self.freed_hosts.log.len() as u64 > self.freed_hosts.read;
            if self.freed_hosts.log.last() != Some(&host) || !unread {
                self.freed_hosts.log.push(host);
            }
        }
        if self.freed_hosts.log.len() > 8 * FEW_FREED {
            let old = self.freed_hosts.log.len() - 2 * FEW_FREED;
            self.freed_hosts.log.drain(..old);
            self.freed_hosts.base += old as u64;
        }
    }

    /// Occupies the place of a reservation on its hosts.
    fn put(&mut self, at: usize) {
        let own = &self.list.all[at];
        for part in &own.parts {
            let host = &mut self.hosts[part.host as usize];
            host.claim(own.start, own.end, &part.take);
            host.parts += 1;
            if own.holds_slots && host.held_by == 0 {
                host.held_bundle = part.take.clone();
                host.held_by = at as u32 + 1;
            }
        }
    }

    fn lift(&mut self, at: usize) {
        let own = &self.list.all[at];
        for part in &own.parts {
            let host = &mut self.hosts[part.host as usize];
            host.release(own.start, own.end, &part.take);
            host.parts -= 1;
            if host.held_by == at as u32 + 1 {
                host.held_bundle = Bundle::default();
                host.held_by = 0;
            }
        }
    }

    /// The first reservation that had no turn yet.
    fn tail(&self) -> usize {
        self.progress.confirmed + usize::from(self.progress.current.is_some_and(|(_, own)| own))
    }

    fn lift_tail(&mut self) {
        if std::mem::replace(&mut self.progress.tail_out, true) {
            return;
        }
        for i in self.tail()..self.list.index.len() {
            self.lift(self.list.index[i] as usize);
        }
    }

    fn put_tail_back(&mut self) {
        if !std::mem::replace(&mut self.progress.tail_out, false) {
            return;
        }
        for i in self.tail()..self.list.index.len() {
            let at = self.list.index[i] as usize;
            self.put(at);
            let own = &self.list.all[at];
            let overdrawn = own.parts.iter().any(|part| {
                let host = &self.hosts[part.host as usize];
                host.timeline.is_overdrawn(&part.take, own.start, own.end)
            });
            if overdrawn {
                self.checks.broken = true;
                self.checks.in_this_pass = true;
            }
        }
    }

    fn drop_tail(&mut self) {
        while self.list.keys.len() > self.progress.confirmed {
            self.remove(self.list.keys.len() - 1, self.progress.tail_out);
        }
        self.progress.tail_out = false;
    }

    /// Ends a turn: a reservation that was not renewed is given up.
    fn end_turn(&mut self) {
        if let Some((_, own)) = self.progress.current.take()
            && own
        {
            self.remove(self.progress.confirmed, true);
        }
    }

    fn remove(&mut self, i: usize, lifted: bool) {
        let at = self.list.index[i] as usize;
        if !lifted {
            self.lift(at);
        }
        self.list.keys.remove(i);
        self.list.index.remove(i);
        self.list.starts.remove(i);
        self.progress.confirmed -= usize::from(i < self.progress.confirmed);
        if self.list.all[at].holds_slots {
            self.release_claim(at);
        }
        let own = std::mem::take(&mut self.list.all[at]);
        self.list.unused.push(at as u32);
        if own.start > self.time.now {
            self.checks.changed = true;
        }
        let left = own.parts.iter().map(|part| (part.host, &part.take));
        self.note_freed(own.start, own.end, left);
    }
}
