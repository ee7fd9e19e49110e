//! The part of the book about a pass: turns of jobs in order, reservations made, kept, moved to an
//! earlier start and given up.
//!
//! Owns the order of reservations. It never lets one of them move later, unless what it stood on is
//! gone or a job before it in the order took it.

use super::search::single;
use super::{
    Book, BookRequest, BookTurn, Bundle, Estimate, FOREVER, Hull, NEVER_MS, Reservation,
    ReservationTerms, ReservedPart, ReservedParts, Search,
};
use smallvec::SmallVec;

/// More hosts on which something became free than this are not checked one by one.
const FEW_NEWS: usize = 64;

impl<K: Copy + Eq> Book<K> {
    /// A pass begins. All ends known by now must have been noted.
    pub fn open(&mut self, now: i64) {
        self.settle_turn();
        self.put_tail_back();
        self.now = now;
        self.moved = Hull::NONE;
        self.pass = self.pass.wrapping_add(1);
        self.confirmed = 0;
        self.extend_overdue(now);
        self.sweep = std::mem::take(&mut self.changed);
        if self.expiry <= now {
            self.sweep = true;
            let all = self.index.iter().map(|at| self.all[*at as usize].expires);
            self.expiry = all.filter(|at| *at > now).min().unwrap_or(i64::MAX);
        }
        self.resting.retain(|(_, until)| *until > now);
    }

    /// Whether all reservations stand as they are and lie in the future. Then a pass that only
    /// considers later jobs may [`Book::keep_all`] instead of giving each its turn.
    pub fn idle(&self) -> bool {
        !self.sweep
            && self.starts[self.confirmed..]
                .iter()
                .all(|start| *start > self.now)
    }

    pub fn keep_all(&mut self) {
        self.settle_turn();
        self.put_tail_back();
        if self.holders > 0 {
            for at in &self.index[self.confirmed..] {
                self.all[*at as usize].pass = self.pass;
            }
        }
        self.confirmed = self.keys.len();
    }

    /// Reservations that had their turn in this pass.
    pub fn confirmed(&self) -> usize {
        self.confirmed
    }

    /// It is this job's turn. Until the next turn, [`Book::room`] leaves out its own reservation,
    /// and those of jobs that used to come before it but come after it in this pass. A reservation
    /// that is not renewed in this turn is given up.
    pub fn turn(&mut self, key: K) -> BookTurn {
        self.settle_turn();
        if self.confirmed == self.keys.len() {
            self.turn = Some((key, false));
            return BookTurn::Try;
        }
        let found = self.keys[self.confirmed..].iter().position(|k| *k == key);
        match found {
            Some(0) => {
                self.put_tail_back();
                let at = self.index[self.confirmed] as usize;
                let waits =
                    self.starts[self.confirmed] > self.now && self.now < self.all[at].expires;
                if waits && (!self.sweep || self.hopeless(at)) {
                    self.confirm();
                    return BookTurn::Keep;
                }
                self.lift(at);
                self.turn = Some((key, true));
                // A start that slipped by, or whose basis is gone, moves later ones back,
                // rather than jump over them; what gathers slots may gather theirs.
                let own = &self.all[at];
                let gathers = own.holds && own.start >= FOREVER;
                let slipped = own.start < self.now || (self.broken && !self.fits(own));
                if gathers || slipped {
                    self.lift_tail();
                }
            }
            Some(behind) => {
                let span = self.confirmed..=self.confirmed + behind;
                self.keys[span.clone()].rotate_right(1);
                self.index[span.clone()].rotate_right(1);
                self.starts[span].rotate_right(1);
                if !self.tail_out {
                    self.lift(self.index[self.confirmed] as usize);
                }
                self.turn = Some((key, true));
                self.lift_tail();
                self.sweep = true;
            }
            None => {
                self.turn = Some((key, false));
                self.lift_tail();
            }
        }
        BookTurn::Try
    }

    /// The job whose turn it is cannot start now: makes or renews its reservation. `None`: there
    /// are enough before it, it rests after it gave up, or it could never start.
    pub fn reserve<A: BookRequest + ?Sized>(
        &mut self,
        key: K,
        ask: &A,
        terms: &ReservationTerms,
    ) -> Option<&Reservation> {
        if self.turn.is_none_or(|(whose, _)| whose != key) {
            let last = self.confirmed.checked_sub(1).map(|last| self.keys[last]);
            if last == Some(key) || self.turn(key) == BookTurn::Keep {
                let at = self.index[self.confirmed - 1];
                return Some(&self.all[at as usize]);
            }
        }
        let own = self.turn.is_some_and(|(_, own)| own);
        let known = own.then(|| self.index[self.confirmed] as usize);
        let since = known.map_or(self.now, |at| self.all[at].since);
        let lasts = |most: i64| since.saturating_add(most.max(0));
        let expires = terms.hold.map_or(i64::MAX, lasts);
        if self.now >= expires && own {
            self.resting
                .push((key, self.now.saturating_add(self.rules.rest)));
        }
        let rests = self.resting.iter().any(|(k, _)| *k == key);
        if self.confirmed >= terms.depth || rests {
            self.settle_turn();
            if self.confirmed >= terms.depth {
                self.drop_tail();
            }
            return None;
        }
        let Some((start, parts, margin)) = self.find(known, ask, terms.duration) else {
            self.settle_turn();
            return None;
        };
        let at = self.set(key, known, start, parts, terms.duration);
        let seen = self.gain_base + self.gain_log.len() as u64;
        let (seen_slots, duration) = (self.gain_slots, terms.duration);
        self.expiry = self.expiry.min(expires);
        self.gain_read = seen;
        let own = &mut self.all[at];
        *own = Reservation {
            since,
            expires,
            margin,
            seen,
            seen_slots,
            duration,
            ..std::mem::take(own)
        };
        self.hold(at, ask, terms.hold.is_some());
        self.put(at);
        self.turn = None;
        self.confirm();
        if self.confirmed >= terms.depth {
            self.drop_tail();
        }
        Some(&self.all[at])
    }

    /// The job whose turn it is, or that just reserved from now on, starts: its reservation is done
    /// with. Call it before [`Book::claim`], so that nothing counts twice.
    pub fn started(&mut self, key: K) {
        if self.turn.is_some_and(|(whose, _)| whose == key) {
            // A start before the reserved time leaves room to later ones in this pass, as a
            // move does; only ends before their time make all be checked again.
            let changed = self.changed;
            self.settle_turn();
            self.changed = changed;
        } else {
            self.cancel(key);
        }
    }

    /// The job is gone, or wants no reservation any more.
    pub fn cancel(&mut self, key: K) {
        self.settle_turn();
        let last = self
            .confirmed
            .checked_sub(1)
            .filter(|at| self.keys[*at] == key);
        let found = last.or_else(|| self.keys.iter().position(|k| *k == key));
        if let Some(at) = found {
            let lifted = self.tail_out && at >= self.confirmed;
            self.remove(at, lifted);
        }
    }

    /// The pass ends. `complete`: every job had its turn, so that reservations without one are
    /// given up; otherwise they stand.
    pub fn close(&mut self, complete: bool) {
        self.settle_turn();
        if complete {
            self.drop_tail();
        } else {
            self.put_tail_back();
            self.changed |= self.sweep;
        }
        if self.sweep && complete {
            self.gained = self.moved;
            self.broken &= self.changed;
        }
        self.sweep = false;
    }

    /// What jobs ask for may have changed: hosts were opened or closed, the configuration is
    /// another one. All reservations are checked in the next pass.
    pub fn recheck(&mut self) {
        self.changed = true;
        self.broken = true;
    }

    /// Reservations in order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &Reservation)> {
        let of = |(key, at): (&K, &u32)| (*key, &self.all[*at as usize]);
        self.keys.iter().zip(&self.index).map(of)
    }

    pub fn get(&self, key: K) -> Option<&Reservation> {
        let at = self.keys.iter().position(|k| *k == key)?;
        Some(&self.all[self.index[at] as usize])
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

    /// Whether too little became free for an earlier start of a host set that still stands.
    fn hopeless(&self, at: usize) -> bool {
        let own = &self.all[at];
        !self.broken && own.start < FOREVER && self.gain_slots - own.seen_slots < own.margin
    }

    /// A better start than the present one, the present one if it still stands, or the earliest.
    fn find<A: BookRequest + ?Sized>(
        &mut self,
        known: Option<usize>,
        ask: &A,
        duration: i64,
    ) -> Option<(i64, ReservedParts, u64)> {
        let stands = known.is_some_and(|at| self.stands(at, ask, duration));
        let own = known.map(|at| &self.all[at]);
        let gain = self.rules.min_gain.max(1);
        let length = self.length(duration);
        let mut search = Search {
            hosts: &self.hosts,
            ask,
            duration: length,
            from: self.now,
            before: i64::MAX,
            kept: own.map_or(&[], |own| &own.parts[..]),
            only: None,
            min_gain: gain,
        };
        let mut news: SmallVec<[u32; 8]> = SmallVec::new();
        // Where the start is unknown, what is free by now may be nearer than what was reserved.
        if let Some(own) = own
            && stands
            && own.start < FOREVER
        {
            search.before = own.start.saturating_sub(gain - 1).max(self.now + 1);
            if !self.tail_out && single(ask) {
                // What could not serve before can only do so where more became free since.
                search.before = search.before.min(self.gained.to);
                if length < NEVER_MS {
                    let first = self.gained.from.saturating_sub(length).saturating_add(1);
                    search.from = search.from.max(first);
                }
                if let Some(log) = self.gained_since(own.seen)
                    && ask.hosts().len() > 1
                {
                    news.extend_from_slice(log);
                    news.sort_unstable();
                    news.dedup();
                    let place = |host: &u32| ask.hosts().iter().position(|known| known == host);
                    news.retain(|host| place(host).is_some());
                    news.sort_by_cached_key(place);
                    search.only = Some(&news);
                }
            }
        }
        let found = search.run();
        match (found.place, own) {
            (Some((start, parts)), _) => Some((start, parts, found.margin)),
            (None, Some(own)) if stands => Some((own.start, own.parts.clone(), found.margin)),
            (None, _) => None,
        }
    }

    /// Whether a lifted reservation could be put back as it is.
    fn stands<A: BookRequest + ?Sized>(&mut self, at: usize, ask: &A, duration: i64) -> bool {
        let own = &self.all[at];
        let slots: u32 = own.parts.iter().map(|part| part.slots).sum();
        let same = own.duration == duration && slots == ask.min().max(1);
        if own.start <= self.now || !same || (self.broken && !self.fits(own)) {
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

    /// Hosts on which more became free since a place in the log, unless that is too long ago.
    fn gained_since(&self, seen: u64) -> Option<&[u32]> {
        let log = self
            .gain_log
            .get(usize::try_from(seen.checked_sub(self.gain_base)?).ok()?..)?;
        (log.len() <= FEW_NEWS).then_some(log)
    }

    fn fits(&self, own: &Reservation) -> bool {
        own.parts.iter().all(|part| {
            let host = &self.hosts[part.host as usize];
            host.line.fits(&part.take, own.start, own.end)
        })
    }

    /// Writes a reservation down as the next to be confirmed, without taking its place yet.
    fn set(
        &mut self,
        key: K,
        known: Option<usize>,
        start: i64,
        parts: ReservedParts,
        duration: i64,
    ) -> usize {
        let end = self.end(start, duration);
        if start == FOREVER + self.era {
            self.last_unknown = start;
        }
        if let Some(at) = known {
            let own = &mut self.all[at];
            if start != own.start || parts != own.parts {
                let (from, to) = (own.start, own.end);
                own.start = start;
                own.end = end;
                let left = std::mem::replace(&mut own.parts, parts);
                self.gain(from, to, left.iter().map(|part| (part.host, &part.take)));
                self.starts[self.confirmed] = start;
            }
            return at;
        }
        let new = Reservation {
            start,
            end,
            parts,
            pass: self.pass,
            ..Reservation::default()
        };
        let at = match self.spare.pop() {
            Some(at) => {
                self.all[at as usize] = new;
                at
            }
            None => {
                self.all.push(new);
                u32::try_from(self.all.len() - 1).expect("fewer than 2^32 reservations")
            }
        };
        self.keys.insert(self.confirmed, key);
        self.index.insert(self.confirmed, at);
        self.starts.insert(self.confirmed, start);
        at as usize
    }

    /// Only the first job in order that waits for a host keeps slots of it back.
    fn hold<A: BookRequest + ?Sized>(&mut self, at: usize, ask: &A, wanted: bool) {
        let own = at as u32 + 1;
        let foreign = |book: &Self, by: u32| {
            by != 0 && by != own && book.all[by as usize - 1].pass == book.pass
        };
        let blocked = |host: &u32| foreign(self, self.hosts[*host as usize].claimed_by);
        let holds = wanted && !self.all[at].parts.iter().any(|part| blocked(&part.host));
        if holds {
            for host in ask.hosts() {
                let by = self.hosts[*host as usize].claimed_by;
                if by != own && !foreign(self, by) {
                    self.sweep |= by != 0;
                    self.hosts[*host as usize].claimed_by = own;
                }
            }
        }
        match (std::mem::replace(&mut self.all[at].holds, holds), holds) {
            (false, true) => self.holders += 1,
            (true, false) => self.unclaim(at),
            _ => {}
        }
    }

    fn unclaim(&mut self, at: usize) {
        self.holders -= 1;
        for host in &mut self.hosts {
            if host.claimed_by == at as u32 + 1 {
                host.claimed_by = 0;
            }
        }
    }

    fn confirm(&mut self) {
        let at = self.index[self.confirmed] as usize;
        self.all[at].pass = self.pass;
        self.confirmed += 1;
    }

    /// More became free in [from, to) on some hosts.
    pub(super) fn gain<'a>(
        &mut self,
        from: i64,
        to: i64,
        parts: impl Iterator<Item = (u32, &'a Bundle)>,
    ) {
        self.gained.cover(from, to);
        self.moved.cover(from, to);
        for (host, amount) in parts {
            let more = match amount.res.iter().all(|amount| *amount <= 0) {
                true => amount.slots,
                // Other amounts may be what kept any number of slots from being used.
                false => self.hosts[host as usize].capacity.slots,
            };
            self.gain_slots += more.max(0) as u64;
            // A repeated host is one entry, unless it has been read.
            let unread = self.gain_base + self.gain_log.len() as u64 > self.gain_read;
            if self.gain_log.last() != Some(&host) || !unread {
                self.gain_log.push(host);
            }
        }
        if self.gain_log.len() > 8 * FEW_NEWS {
            let old = self.gain_log.len() - 2 * FEW_NEWS;
            self.gain_log.drain(..old);
            self.gain_base += old as u64;
        }
    }

    /// Takes a reservation's place on its hosts.
    fn put(&mut self, at: usize) {
        let own = &self.all[at];
        for part in &own.parts {
            let host = &mut self.hosts[part.host as usize];
            host.take(own.start, own.end, &part.take);
            host.parts += 1;
            if own.holds && host.held_by == 0 {
                host.held = part.take.clone();
                host.held_by = at as u32 + 1;
            }
        }
    }

    fn lift(&mut self, at: usize) {
        let own = &self.all[at];
        for part in &own.parts {
            let host = &mut self.hosts[part.host as usize];
            host.give(own.start, own.end, &part.take);
            host.parts -= 1;
            if host.held_by == at as u32 + 1 {
                host.held = Bundle::default();
                host.held_by = 0;
            }
        }
    }

    /// First of the reservations that had no turn yet.
    fn tail(&self) -> usize {
        self.confirmed + usize::from(self.turn.is_some_and(|(_, own)| own))
    }

    fn lift_tail(&mut self) {
        if std::mem::replace(&mut self.tail_out, true) {
            return;
        }
        for i in self.tail()..self.index.len() {
            self.lift(self.index[i] as usize);
        }
    }

    fn put_tail_back(&mut self) {
        if !std::mem::replace(&mut self.tail_out, false) {
            return;
        }
        for i in self.tail()..self.index.len() {
            let at = self.index[i] as usize;
            self.put(at);
            let own = &self.all[at];
            let overdrawn = own.parts.iter().any(|part| {
                let host = &self.hosts[part.host as usize];
                host.line.overdrawn(&part.take, own.start, own.end)
            });
            if overdrawn {
                self.broken = true;
                self.sweep = true;
            }
        }
    }

    fn drop_tail(&mut self) {
        while self.keys.len() > self.confirmed {
            self.remove(self.keys.len() - 1, self.tail_out);
        }
        self.tail_out = false;
    }

    /// Ends a turn: a reservation that was not renewed is given up.
    fn settle_turn(&mut self) {
        if let Some((_, own)) = self.turn.take()
            && own
        {
            self.remove(self.confirmed, true);
        }
    }

    fn remove(&mut self, i: usize, lifted: bool) {
        let at = self.index[i] as usize;
        if !lifted {
            self.lift(at);
        }
        self.keys.remove(i);
        self.index.remove(i);
        self.starts.remove(i);
        self.confirmed -= usize::from(i < self.confirmed);
        if self.all[at].holds {
            self.unclaim(at);
        }
        let own = std::mem::take(&mut self.all[at]);
        self.spare.push(at as u32);
        if own.start > self.now {
            self.changed = true;
        }
        let left = own.parts.iter().map(|part| (part.host, &part.take));
        self.gain(own.start, own.end, left);
    }
}
