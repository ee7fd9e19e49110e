//! Which of the children of one node comes next: a tournament whose winner is known at any time.
//!
//! Owns the exact comparison of costs and the tournament over seats. Knows nothing of users,
//! shares or resources, and never compares by floats.

use std::cmp::Ordering;

/// A fraction; the smaller one comes first. A denominator of 0 means infinity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub num: u128,
    pub den: u128,
}

impl Cost {
    /// Comes after every finite cost.
    pub(super) const LAST: Cost = Cost { num: 1, den: 0 };

    pub(super) fn new(num: u128, den: u128) -> Cost {
        match den {
            0 => Cost::LAST,
            _ => Cost { num, den },
        }
    }

    /// Compares exactly, by cross products.
    #[inline]
    pub(super) fn cmp(&self, other: &Cost) -> Ordering {
        let all = self.num | self.den | other.num | other.den;
        if all >> 64 == 0 {
            let product = |a: u128, b: u128| u128::from(a as u64) * u128::from(b as u64);
            return product(self.num, other.den).cmp(&product(other.num, self.den));
        }
        wide_product(self.num, other.den).cmp(&wide_product(other.num, self.den))
    }
}

/// The product in 256 bits: upper and lower half.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    let halves = |n: u128| (n >> 64, n & u128::from(u64::MAX));
    let ((a1, a0), (b1, b0)) = (halves(a), halves(b));
    let (mid, carry) = (a1 * b0).overflowing_add(a0 * b1);
    let (low, over) = (a0 * b0).overflowing_add(mid << 64);
    let high = a1 * b1 + (mid >> 64) + (u128::from(carry) << 64) + u128::from(over);
    (high, low)
}

/// One child.
#[derive(Clone, Copy, Debug)]
struct Seat {
    cost: Cost,
    /// Decides between equal costs: the smaller one comes first. No two seats have the same value.
    order: u64,
    active: bool,
}

const NO_SEAT: u32 = u32::MAX;

/// A tournament over seats: a change takes as many comparisons as the height of the tree.
#[derive(Clone, Debug)]
pub(super) struct Tournament {
    seats: Vec<Seat>,
    /// Winners of the matches, with the final at index 1. The rivals of match `m` are `2m` and `2m
    /// + 1`; numbers from `room` on are seats.
    winners: Vec<u32>,
    /// A power of two, at least 2 and at least the number of seats.
    room: usize,
}

impl Default for Tournament {
    fn default() -> Tournament {
        Tournament {
            seats: Vec::new(),
            winners: vec![NO_SEAT; 2],
            room: 2,
        }
    }
}

impl Tournament {
    /// Adds a seat, which is not active yet.
    pub(super) fn add(&mut self, order: u64) -> u32 {
        let seat = u32::try_from(self.seats.len()).expect("seats are bounded by the tree");
        self.seats.push(Seat {
            cost: Cost::LAST,
            order,
            active: false,
        });
        if self.seats.len() > self.room {
            self.room *= 2;
            self.winners = vec![NO_SEAT; self.room];
            self.replay();
        }
        seat
    }

    /// The next seat among those that are active.
    #[inline]
    pub(super) fn best(&self) -> Option<u32> {
        Some(self.winners[1]).filter(|winner| *winner != NO_SEAT)
    }

    pub(super) fn set_cost(&mut self, seat: u32, cost: Cost) {
        self.seats[seat as usize].cost = cost;
        if self.seats[seat as usize].active {
            self.play_matches(seat);
        }
    }

    pub(super) fn set_active(&mut self, seat: u32, active: bool) {
        if self.seats[seat as usize].active != active {
            self.seats[seat as usize].active = active;
            self.play_matches(seat);
        }
    }

    /// Sets a cost without playing the matches: [`Tournament::replay`] must follow.
    pub(super) fn put_cost(&mut self, seat: u32, cost: Cost) {
        self.seats[seat as usize].cost = cost;
    }

    /// Recomputes every match.
    pub(super) fn replay(&mut self) {
        for at in (1..self.room).rev() {
            self.winners[at] = self.winner(at);
        }
    }

    #[cfg(test)]
    pub(super) fn cost(&self, seat: u32) -> Cost {
        self.seats[seat as usize].cost
    }

    /// Plays the matches of one seat, up to the final or to the first match whose winner does not
    /// depend on it.
    fn play_matches(&mut self, seat: u32) {
        let mut at = self.room + seat as usize;
        let mut leading = self.rival(at);
        while at > 1 {
            leading = self.earlier_of(leading, self.rival(at ^ 1));
            at /= 2;
            let before = std::mem::replace(&mut self.winners[at], leading);
            if before == leading && leading != seat {
                break;
            }
        }
    }

    #[inline]
    fn winner(&self, at: usize) -> u32 {
        self.earlier_of(self.rival(2 * at), self.rival(2 * at + 1))
    }

    /// Which of two comes first; `NO_SEAT` comes last.
    #[inline]
    fn earlier_of(&self, one: u32, other: u32) -> u32 {
        if one == NO_SEAT {
            return other;
        }
        if other == NO_SEAT {
            return one;
        }
        let (a, b) = (&self.seats[one as usize], &self.seats[other as usize]);
        match a.cost.cmp(&b.cost).then_with(|| a.order.cmp(&b.order)) {
            Ordering::Greater => other,
            _ => one,
        }
    }

    #[inline]
    fn rival(&self, at: usize) -> u32 {
        match at.checked_sub(self.room) {
            None => self.winners[at],
            Some(seat) if self.seats.get(seat).is_some_and(|s| s.active) => seat as u32,
            Some(_) => NO_SEAT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn big() -> impl Strategy<Value = u128> {
        prop_oneof![0..9u128, any::<u64>().prop_map(u128::from), any::<u128>()]
    }

    proptest! {
        #[test]
        fn products_have_all_their_bits(a in any::<u128>(), b in any::<u128>()) {
            // School multiplication by 32-bit digits.
            let digits = |n: u128| (0..4).map(|i| (n >> (32 * i)) as u32 as u64).collect::<Vec<_>>();
            let (a4, b4) = (digits(a), digits(b));
            let mut out = [0u64; 8];
            for (i, x) in a4.iter().enumerate() {
                let mut carry = 0u64;
                for (j, y) in b4.iter().enumerate() {
                    let sum = u128::from(out[i + j]) + u128::from(*x) * u128::from(*y)
                        + u128::from(carry);
                    out[i + j] = sum as u32 as u64;
                    carry = (sum >> 32) as u64;
                }
                out[i + 4] = carry;
            }
            let join = |d: &[u64]| d.iter().rev().fold(0u128, |n, d| n << 32 | u128::from(*d));
            prop_assert_eq!(wide_product(a, b), (join(&out[4..]), join(&out[..4])));
        }

        #[test]
        fn equal_fractions_are_equal(n in any::<u64>(), d in 1..u64::MAX, k in 1..u64::MAX) {
            let (n, d, k) = (u128::from(n), u128::from(d), u128::from(k));
            let (small, large) = (Cost::new(n, d), Cost::new(n * k, d * k));
            prop_assert_eq!(small.cmp(&large), Ordering::Equal);
            if n * k < u128::MAX {
                prop_assert_eq!(small.cmp(&Cost::new(n * k + 1, d * k)), Ordering::Less);
            }
        }

        #[test]
        fn the_winner_is_the_least_of_a_scan(
            steps in proptest::collection::vec((0..20u32, big(), big(), any::<bool>()), 1..200)
        ) {
            let mut contest = Tournament::default();
            let mut seats: Vec<(Cost, u64, bool)> = Vec::new();
            for (seat, num, den, active) in steps {
                while seats.len() <= seat as usize {
                    let order = 1000 - seats.len() as u64;
                    contest.add(order);
                    seats.push((Cost::LAST, order, false));
                }
                contest.set_active(seat, active);
                contest.set_cost(seat, Cost::new(num, den));
                seats[seat as usize] = (Cost::new(num, den), seats[seat as usize].1, active);
                let scan = seats.iter().enumerate().filter(|(_, s)| s.2);
                let least = scan.min_by(|(_, a), (_, b)| a.0.cmp(&b.0).then(a.1.cmp(&b.1)));
                prop_assert_eq!(contest.best(), least.map(|(at, _)| at as u32));
            }
        }
    }

    #[test]
    fn without_end_comes_last_and_ties_by_order() {
        let mut contest = Tournament::default();
        for order in [5, 3, 4] {
            let seat = contest.add(order);
            contest.set_active(seat, true);
        }
        assert_eq!(contest.best(), Some(1));
        contest.set_cost(0, Cost::new(u128::MAX, 1));
        assert_eq!(contest.best(), Some(0));
        contest.set_cost(2, Cost::new(u128::MAX, 1));
        assert_eq!(contest.best(), Some(2));
        contest.set_active(2, false);
        contest.set_active(0, false);
        contest.set_active(1, false);
        assert_eq!(contest.best(), None);
    }
}
