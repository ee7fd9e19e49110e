//! Floor 3: what is free on one host over time, as a step function.
//!
//! Owns [`Timeline`] and the arithmetic of unknown ends. It never knows jobs: claims are
//! taken and given back by amount and time. Columns of one flat array per amount: a claim costs two
//! short moves of memory and one vectorised addition over the steps it covers.

use super::amount::{Bundle, NEVER_MS};

/// The assumed end of jobs without a run limit. It is one moment for all, so that such jobs make a
/// single step, and so that nothing with a known end ends after it.
pub const FOREVER: i64 = i64::MAX / 4;

/// When something that starts at `start` and lasts `duration` ms ends. A duration of [`NEVER_MS`]
/// or more ends past [`FOREVER`], and thus after the start of every job that waits for jobs without
/// a run limit.
#[inline]
pub fn end_of(start: i64, duration: i64) -> i64 {
    if duration >= NEVER_MS {
        start.max(FOREVER).saturating_add(NEVER_MS)
    } else {
        start.saturating_add(duration.max(1))
    }
}

/// The free amounts of one host as a step function of time. Amounts may be negative if more is
/// claimed than there is.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Times of the steps, ascending from `head` on. The last step has no end.
    times: Vec<i64>,
    slots: Vec<i64>,
    /// One column per resource, each as long as `times`.
    res: Vec<Vec<i64>>,
    /// The first step that still counts; earlier ones lie in the past.
    head: usize,
    /// Earlier times are not queried any more.
    floor: i64,
}

/// What is available from some moment until an end: `room` is valid for ends after `from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: i64,
    pub room: Bundle,
}

impl Timeline {
    pub fn new(capacity: &Bundle) -> Timeline {
        Timeline {
            times: vec![i64::MIN],
            slots: vec![capacity.slots],
            res: capacity.res.iter().map(|amount| vec![*amount]).collect(),
            head: 0,
            floor: i64::MIN,
        }
    }

    /// Number of steps, the current one included.
    pub fn steps(&self) -> usize {
        self.times.len() - self.head
    }

    /// Claims `amount` over [from, to).
    pub fn claim(&mut self, from: i64, to: i64, amount: &Bundle) {
        self.shift(from, to, amount, -1);
    }

    /// Returns what [`Timeline::claim`] took.
    pub fn release(&mut self, from: i64, to: i64, amount: &Bundle) {
        self.shift(from, to, amount, 1);
    }

    /// Changes the size of the host: `by` may hold negative amounts.
    pub fn grow(&mut self, by: &Bundle) {
        self.shift(i64::MIN, i64::MAX, by, 1);
    }

    /// What is free at `t`.
    pub fn free_at(&self, t: i64) -> Bundle {
        self.row(self.index(t))
    }

    /// The minimum of each amount over [from, to).
    pub fn min_free(&self, from: i64, to: i64) -> Bundle {
        let first = self.index(from);
        let last = self.past(to.max(from.saturating_add(1))).max(first + 1);
        let least = |column: &[i64]| column[first..last].iter().copied().min().unwrap_or(0);
        Bundle {
            slots: least(&self.slots),
            res: self.res.iter().map(|column| least(column)).collect(),
        }
    }

    /// Whether `need` is free over all of [from, to).
    pub fn fits(&self, need: &Bundle, from: i64, to: i64) -> bool {
        let first = self.index(from);
        let last = self.past(to.max(from.saturating_add(1))).max(first + 1);
        (first..last).all(|i| self.covers(i, need))
    }

    /// Whether an amount that occurs in `of` is overdrawn anywhere in [from, to).
    pub fn is_overdrawn(&self, of: &Bundle, from: i64, to: i64) -> bool {
        let first = self.index(from);
        let last = self.past(to).max(first + 1);
        let below = |column: &[i64]| column[first..last].iter().any(|amount| *amount < 0);
        let resources = self.res.iter().enumerate();
        (of.slots > 0 && below(&self.slots))
            || resources
                .filter(|(r, _)| of.get(*r) > 0)
                .any(|(_, column)| below(column))
    }

    /// The first time in [`not_before`, `before`) from which `need` is free for `duration` ms. It
    /// walks once over the steps and ends where the need fits.
    pub fn earliest(
        &self,
        need: &Bundle,
        duration: i64,
        not_before: i64,
        before: i64,
    ) -> Option<i64> {
        if need.res.iter().all(|amount| *amount <= 0) {
            let slots = need.slots;
            self.walk(
                |i| self.slots[i] >= slots || slots <= 0,
                duration,
                not_before,
                before,
            )
        } else {
            self.walk(|i| self.covers(i, need), duration, not_before, before)
        }
    }

    /// The first step after `t`.
    pub fn next_change(&self, t: i64) -> Option<i64> {
        self.times.get(self.index(t) + 1).copied()
    }

    /// The first step at or after `t`.
    pub fn change_from(&self, t: i64) -> Option<i64> {
        self.times.get(self.past(t)).copied()
    }

    /// Drops the steps before `t`; claims and queries about earlier times count from `t`.
    #[inline]
    pub fn forget_before(&mut self, t: i64) {
        if t <= self.floor {
            return;
        }
        self.floor = t;
        while self.times.get(self.head + 1).is_some_and(|next| *next <= t) {
            self.head += 1;
        }
        if self.head > 32 && self.head * 2 > self.times.len() {
            self.times.drain(..self.head);
            self.slots.drain(..self.head);
            for column in &mut self.res {
                column.drain(..self.head);
            }
            self.head = 0;
        }
    }

    /// What is available from `now` on, as decreasing steps over the end time: the first step is
    /// what is free now, each later one what is left for ends after its `from`.
    pub fn decreasing_steps(&self, now: i64, into: &mut Vec<Step>) {
        into.clear();
        let first = self.index(now);
        let mut room = self.row(first);
        into.push(Step {
            from: i64::MIN,
            room: room.clone(),
        });
        for i in first + 1..self.times.len() {
            let falls = self.slots[i] < room.slots
                || self
                    .res
                    .iter()
                    .enumerate()
                    .any(|(r, column)| column[i] < room.get(r));
            if falls {
                room.min_with(&self.row(i));
                into.push(Step {
                    from: self.times[i],
                    room: room.clone(),
                });
            }
        }
    }

    /// Index of the step in effect at `t`.
    #[inline]
    fn index(&self, t: i64) -> usize {
        let t = t.max(self.floor);
        if self.times.get(self.head + 1).is_none_or(|next| *next > t) {
            return self.head;
        }
        self.past(t.saturating_add(1)) - 1
    }

    /// Index of the first step at or after `t`, not before the current one.
    #[inline]
    fn past(&self, t: i64) -> usize {
        self.head + self.times[self.head..].partition_point(|at| *at < t)
    }

    fn row(&self, i: usize) -> Bundle {
        Bundle {
            slots: self.slots[i],
            res: self.res.iter().map(|column| column[i]).collect(),
        }
    }

    #[inline]
    fn covers(&self, i: usize, need: &Bundle) -> bool {
        let have = |r: usize| self.res.get(r).map_or(0, |column| column[i]);
        let enough = |(r, want): (usize, &i64)| *want <= 0 || *want <= have(r);
        (need.slots <= 0 || need.slots <= self.slots[i]) && need.res.iter().enumerate().all(enough)
    }

    #[inline]
    fn walk(
        &self,
        meets: impl Fn(usize) -> bool,
        duration: i64,
        not_before: i64,
        before: i64,
    ) -> Option<i64> {
        let mut start = not_before.max(self.floor);
        let mut end = end_of(start, duration);
        let mut i = self.index(start);
        if start >= before {
            return None;
        }
        loop {
            let fits = meets(i);
            i += 1;
            match self.times.get(i) {
                Some(at) if fits && *at < end => {}
                Some(at) if !fits => {
                    start = *at;
                    if start >= before {
                        return None;
                    }
                    end = end_of(start, duration);
                }
                _ => return fits.then_some(start),
            }
        }
    }

    fn shift(&mut self, from: i64, to: i64, amount: &Bundle, sign: i64) {
        if from >= to || to <= self.floor || amount.is_zero() {
            return;
        }
        while self.res.len() < amount.res.len() {
            self.res.push(vec![0; self.times.len()]);
        }
        let first = self.split(from);
        let last = if to == i64::MAX {
            self.times.len()
        } else {
            self.split(to)
        };
        add(&mut self.slots[first..last], amount.slots * sign);
        for (column, by) in self.res.iter_mut().zip(&amount.res) {
            add(&mut column[first..last], by * sign);
        }
        self.merge(last);
        self.merge(first);
    }

    /// Inserts a step at `t`, where there is none, and returns its index.
    fn split(&mut self, t: i64) -> usize {
        if t <= self.floor {
            return self.head;
        }
        let i = self.past(t);
        if self.times.get(i) == Some(&t) {
            return i;
        }
        self.times.insert(i, t);
        self.slots.insert(i, self.slots[i - 1]);
        for column in &mut self.res {
            column.insert(i, column[i - 1]);
        }
        i
    }

    /// Removes step `i` if it equals the previous one.
    fn merge(&mut self, i: usize) {
        if i <= self.head || i >= self.times.len() {
            return;
        }
        let equal = self.slots[i] == self.slots[i - 1]
            && self.res.iter().all(|column| column[i] == column[i - 1]);
        if equal {
            self.times.remove(i);
            self.slots.remove(i);
            for column in &mut self.res {
                column.remove(i);
            }
        }
    }
}

#[inline]
fn add(column: &mut [i64], by: i64) {
    if by != 0 {
        for amount in column {
            *amount += by;
        }
    }
}

#[cfg(test)]
mod tests;
