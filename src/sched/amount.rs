//! Floor 3: amounts of slots and number resources on one host, in exact integers.
//!
//! Owns the arithmetic of [`Bundle`] and the length of "no end". It never knows what a resource is
//! called: the engine interns names to small indices.

use smallvec::SmallVec;

/// The length assumed for a job without a run limit: 100 years of 365 days, in milliseconds.
pub const NEVER_MS: i64 = 100 * 365 * 86_400_000;

/// Amounts on one host. Missing trailing resources count as zero, so `{4, []}` equals `{4, [0]}`.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// Whole slots.
    pub slots: i64,
    /// Number resources by interned index, in thousandths.
    pub res: SmallVec<[i64; 3]>,
}

impl Bundle {
    /// A bundle of slots only.
    pub fn of_slots(slots: i64) -> Bundle {
        Bundle {
            slots,
            res: SmallVec::new(),
        }
    }

    pub fn new(slots: i64, res: &[i64]) -> Bundle {
        Bundle {
            slots,
            res: SmallVec::from_slice(res),
        }
    }

    /// Amount of a resource, in thousandths.
    #[inline]
    pub fn get(&self, resource: usize) -> i64 {
        self.res.get(resource).copied().unwrap_or(0)
    }

    pub fn set(&mut self, resource: usize, amount: i64) {
        self.widen(resource + 1);
        self.res[resource] = amount;
    }

    #[inline]
    pub fn is_zero(&self) -> bool {
        self.slots == 0 && self.res.iter().all(|amount| *amount == 0)
    }

    #[inline]
    pub fn add(&mut self, other: &Bundle) {
        self.slots = self.slots.saturating_add(other.slots);
        self.widen(other.res.len());
        for (own, more) in self.res.iter_mut().zip(&other.res) {
            *own = own.saturating_add(*more);
        }
    }

    /// The result may be negative: a host may lose resources that its jobs still hold.
    #[inline]
    pub fn sub(&mut self, other: &Bundle) {
        self.slots = self.slots.saturating_sub(other.slots);
        self.widen(other.res.len());
        for (own, less) in self.res.iter_mut().zip(&other.res) {
            *own = own.saturating_sub(*less);
        }
    }

    pub fn times(&self, n: i64) -> Bundle {
        let times = |amount: &i64| amount.saturating_mul(n);
        Bundle {
            slots: times(&self.slots),
            res: self.res.iter().map(times).collect(),
        }
    }

    /// Whether `free` covers this need. Resources that are not needed are not compared, so a need
    /// without memory fits a host whose memory is overdrawn.
    #[inline]
    pub fn fits(&self, free: &Bundle) -> bool {
        let enough = |(at, need): (usize, &i64)| *need <= 0 || *need <= free.get(at);
        (self.slots <= 0 || self.slots <= free.slots) && self.res.iter().enumerate().all(enough)
    }

    /// How many times `free` covers this need; `u32::MAX` if it needs nothing.
    pub fn times_covered_by(&self, free: &Bundle) -> u32 {
        let times = |need: i64, have: i64| match need {
            ..=0 => i64::from(u32::MAX),
            _ => (have / need).max(0),
        };
        let resources = self.res.iter().enumerate();
        let least = resources
            .map(|(at, need)| times(*need, free.get(at)))
            .fold(times(self.slots, free.slots), i64::min);
        u32::try_from(least).unwrap_or(u32::MAX)
    }

    /// Lowers each amount to that of `other` if that is smaller.
    #[inline]
    pub fn min_with(&mut self, other: &Bundle) {
        self.slots = self.slots.min(other.slots);
        self.widen(other.res.len());
        for (at, own) in self.res.iter_mut().enumerate() {
            *own = (*own).min(other.get(at));
        }
    }

    /// The smaller value of each amount.
    pub fn min(&self, other: &Bundle) -> Bundle {
        let mut least = self.clone();
        least.min_with(other);
        least
    }

    #[inline]
    fn widen(&mut self, len: usize) {
        if self.res.len() < len {
            self.res.resize(len, 0);
        }
    }
}

impl PartialEq for Bundle {
    fn eq(&self, other: &Bundle) -> bool {
        let width = self.res.len().max(other.res.len());
        self.slots == other.slots && (0..width).all(|at| self.get(at) == other.get(at))
    }
}

impl Eq for Bundle {}

/// Slots and amounts by host position.
pub type HostBundles = SmallVec<[(u32, Bundle); 1]>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_resources_are_nought() {
        let mut have = Bundle::of_slots(4);
        assert_eq!(have, Bundle::new(4, &[0, 0]));
        have.sub(&Bundle::new(1, &[0, 1500]));
        assert_eq!(have, Bundle::new(3, &[0, -1500]));
        have.add(&Bundle::new(1, &[0, 1500]));
        assert_eq!(have, Bundle::of_slots(4));
        assert_eq!(
            Bundle::new(5, &[7]).min(&Bundle::new(6, &[3, 9])),
            Bundle::new(5, &[3, 0])
        );
    }

    #[test]
    fn a_need_looks_only_at_what_it_needs() {
        let free = Bundle::new(2, &[-500, 1000]);
        assert!(Bundle::new(2, &[0, 1000]).fits(&free));
        assert!(Bundle::new(0, &[]).fits(&Bundle::of_slots(-1)));
        assert!(!Bundle::new(1, &[1]).fits(&free));
        assert!(!Bundle::new(3, &[]).fits(&free));
        assert!(!Bundle::new(1, &[0, 0, 1]).fits(&free));
    }

    #[test]
    fn a_need_is_counted_by_its_scarcest_part() {
        let free = Bundle::new(10, &[3500]);
        assert_eq!(Bundle::new(1, &[1000]).times_covered_by(&free), 3);
        assert_eq!(Bundle::new(4, &[]).times_covered_by(&free), 2);
        assert_eq!(Bundle::new(1, &[0, 1]).times_covered_by(&free), 0);
        assert_eq!(
            Bundle::of_slots(1).times_covered_by(&Bundle::of_slots(-3)),
            0
        );
        assert_eq!(Bundle::default().times_covered_by(&free), u32::MAX);
        assert_eq!(Bundle::new(2, &[500]).times(3), Bundle::new(6, &[1500]));
    }
}
