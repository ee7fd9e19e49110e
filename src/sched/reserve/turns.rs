//! The part of the book about a pass: turns of jobs in order, reservations made, kept, moved to an
//! earlier start and given up.
//!
//! Owns the order of reservations. It never lets one of them move later, unless what it stood on is
//! gone or a job before it in the order took it.

use super::{
    Ask, Book, Bundle, Estimate, FOREVER, Hull, NEVER_MS, Parts, Reservation, Search, Terms, Turn,
};

impl<K: Copy + Eq> Book<K> {
    /// A pass begins. All ends known by now must have been told.
    pub fn open(&mut self, now: i64) {
        self.settle_turn();
        self.put_tail_back();
        self.now = now;
        self.moved = Hull::NONE;
        self.pass = self.pass.wrapping_add(1);
        self.confirmed = 0;
        self.extend_overdue(now);
        self.sweep = std::mem::take(&mut self.changed);
        self.resting.retain(|(_, until)| *until > now);
    }

    /// Whether all reservations stand as they are and lie in the future. Then a pass that only
    /// looks at jobs behind them may [`Book::keep_all`] instead of giving each its turn.
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
    pub fn turn(&mut self, key: K) -> Turn {
        self.settle_turn();
        if self.confirmed == self.keys.len() {
            self.turn = Some((key, false));
            return Turn::Try;
        }
        let found = self.keys[self.confirmed..].iter().position(|k| *k == key);
        match found {
            Some(0) => {
                self.put_tail_back();
                let at = self.index[self.confirmed] as usize;
                if !self.sweep && self.starts[self.confirmed] > self.now {
                    self.confirm();
                    return Turn::Keep;
                }
                self.lift(at);
                self.turn = Some((key, true));
                // A start that slipped by, or whose ground is gone, pushes those behind it on,
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
        Turn::Try
    }

    /// The job whose turn it is cannot start now: makes or renews its reservation. `None`: there
    /// are enough before it, it rests after it gave up, or it could never start.
    pub fn reserve<A: Ask + ?Sized>(
        &mut self,
        key: K,
        ask: &A,
        terms: &Terms,
    ) -> Option<&Reservation> {
        if self.turn.is_none_or(|(whose, _)| whose != key) && self.turn(key) == Turn::Keep {
            let at = self.index[self.confirmed - 1];
            return Some(&self.all[at as usize]);
        }
        let own = self.turn.is_some_and(|(_, own)| own);
        let known = own.then(|| self.index[self.confirmed] as usize);
        let since = known.map_or(self.now, |at| self.all[at].since);
        let expired = terms
            .hold
            .is_some_and(|most| self.now - since >= most.max(0));
        if expired && own {
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
        let Some((start, parts)) = self.find(known, ask, terms.duration) else {
            self.settle_turn();
            return None;
        };
        let at = self.set(key, known, start, parts, terms.duration);
        self.all[at].since = since;
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
            self.settle_turn();
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

    /// Reservations in order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &Reservation)> {
        let of = |(key, at): (&K, &u32)| (*key, &self.all[*at as usize]);
        self.keys.iter().zip(&self.index).map(of)
    }

    pub fn get(&self, key: K) -> Option<&Reservation> {
        let at = self.keys.iter().position(|k| *k == key)?;
        Some(&self.all[self.index[at] as usize])
    }

    /// When a job with a reservation is expected to start, or why nobody knows.
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

    /// A better start than the present one, the present one if it still stands, or the earliest.
    fn find<A: Ask + ?Sized>(
        &self,
        known: Option<usize>,
        ask: &A,
        duration: i64,
    ) -> Option<(i64, Parts)> {
        let own = known.map(|at| &self.all[at]);
        let stands = own.filter(|own| {
            own.start > self.now && own.duration == duration && (!self.broken || self.fits(own))
        });
        let length = self.length(duration);
        let mut from = self.now;
        let mut before = i64::MAX;
        if let Some(own) = stands {
            // What could not serve before can only do so where more became free since. Where
            // nobody knows the start, what is free by now may be nearer than what was reserved.
            let unknown = own.start >= FOREVER;
            let gain = self.rules.min_gain.max(1) - 1;
            before = own.start.saturating_sub(gain);
            if unknown {
                before = i64::MAX;
            } else if !self.tail_out {
                before = before.min(self.gained.to);
                if length < NEVER_MS {
                    from = from.max(self.gained.from.saturating_sub(length).saturating_add(1));
                }
            }
        }
        let search = Search {
            hosts: &self.hosts,
            ask,
            duration: length,
            from,
            before,
            kept: own.map_or(&[], |own| &own.parts[..]),
        };
        let found = if from < before { search.run() } else { None };
        found.or_else(|| stands.map(|own| (own.start, own.parts.clone())))
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
        parts: Parts,
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
                own.parts = parts;
                self.gain(from, to);
                self.starts[self.confirmed] = start;
            }
            self.all[at].duration = duration;
            return at;
        }
        let new = Reservation {
            start,
            end,
            parts,
            since: self.now,
            duration,
            holds: false,
            pass: self.pass,
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
    fn hold<A: Ask + ?Sized>(&mut self, at: usize, ask: &A, wanted: bool) {
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

    pub(super) fn gain(&mut self, from: i64, to: i64) {
        self.gained.cover(from, to);
        self.moved.cover(from, to);
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
        let own = &mut self.all[at];
        own.holds = false;
        own.parts.clear();
        let (start, end) = (own.start, own.end);
        self.spare.push(at as u32);
        if start > self.now {
            self.changed = true;
        }
        self.gain(start, end);
    }
}
