//! When to look again at data that another host may change: the polling interval, whether a look is
//! worth its cost, and how many looks may be made in vain. Pure: time is an argument, in ms of one
//! monotonic clock.
//!
//! Polling is authoritative. A hint (an event of this machine, a datagram) only says "look now". If
//! hints have proved to arrive, polls are rarer; if something is found without a hint, they become
//! frequent again.

use crate::sys::fs::Mark;

/// Pause after something was found or while something is awaited, ms.
const QUICK_MS: u64 = 5;
/// The same where hints have proved to come: what comes next gives one, as the last did.
const QUICK_HINTED_MS: u64 = 1_000;
/// With hints a poll only has to find what a lost hint was about: it may be so much rarer...
const HINTED_FACTOR: u64 = 6;
/// ...but not rarer than this, ms.
const HINTED_MAX_MS: u64 = 8_000;
/// Hints have proved to come when so many more looks found something with one than without, a
/// look without counting double.
const PROVED: u32 = 3;
const PROVED_MAX: u32 = 8;
/// Where both sides say that they can give hints these are taken to have proved so well: what was
/// on its way before they knew each other may be found without one.
const PRESUMED: u32 = PROVED + 2;
/// A look so soon after the last one may find what a hint is on its way for, ms.
const EARLY_MS: u64 = 250;
/// Two changes within this time may bear the same time of change, ms.
const GRANULE_MS: u64 = 100;
/// A look is due after this time at the latest, whatever the mark says, ms.
const LOOK_MS: u64 = 10_000;

/// The pace of looks at one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polling {
    slow_ms: u64,
    pause_ms: u64,
    due_ms: u64,
    proved: u32,
}

impl Polling {
    /// A first look is due at once. `slow_ms`: longest pause where no hints come.
    pub fn new(slow_ms: u64) -> Polling {
        Polling {
            slow_ms,
            pause_ms: slow_ms,
            due_ms: 0,
            proved: 0,
        }
    }

    /// Hints are taken to come, since both sides say that they can, until things are found without
    /// one.
    pub fn presume_hints(&mut self) {
        self.proved = self.proved.max(PRESUMED);
    }

    /// Changes the longest pause.
    pub fn set_slow(&mut self, slow_ms: u64) {
        self.slow_ms = slow_ms;
    }

    /// When the next look is due.
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    pub fn is_due(&self, now: u64) -> bool {
        now >= self.due_ms
    }

    /// Whether hints have proved to come for what is looked at here.
    pub fn is_hinted(&self) -> bool {
        self.proved >= PROVED
    }

    fn quick_ms(&self) -> u64 {
        match self.is_hinted() {
            true => QUICK_HINTED_MS.min(self.slow_ms),
            false => QUICK_MS.min(self.slow_ms),
        }
    }

    fn longest_ms(&self) -> u64 {
        match self.is_hinted() {
            true => (self.slow_ms * HINTED_FACTOR).min(self.slow_ms.max(HINTED_MAX_MS)),
            false => self.slow_ms,
        }
    }

    /// Something will change soon: the next look comes soon.
    pub fn expect(&mut self, now: u64) {
        self.pause_ms = self.quick_ms();
        self.due_ms = self.due_ms.min(now.saturating_add(self.pause_ms));
    }

    /// The next look is due now.
    pub fn at_once(&mut self, now: u64) {
        self.due_ms = now;
    }

    /// The next look is due after the longest pause: whatever comes before gives a hint.
    pub fn rest(&mut self, now: u64) {
        self.pause_ms = self.longest_ms();
        self.due_ms = now.saturating_add(self.pause_ms);
    }

    /// Takes the outcome of a look at `now`: whether something new was `found`, and whether a hint
    /// had asked for the look.
    pub fn looked(&mut self, now: u64, found: bool, hinted: bool) {
        match (found, hinted) {
            (true, true) => self.proved = (self.proved + 1).min(PROVED_MAX),
            (true, false) if self.pause_ms >= EARLY_MS => {
                self.proved = self.proved.saturating_sub(2);
            }
            _ => {}
        }
        self.pause_ms = match found {
            true => self.quick_ms(),
            false => (self.pause_ms.max(self.quick_ms()) * 3 / 2).min(self.longest_ms()),
        };
        self.due_ms = now.saturating_add(self.pause_ms);
    }
}

/// Tells whether a directory or document can hold what the last look at it did not show.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    /// The mark last seen, and since when.
    mark: Option<(Mark, u64)>,
    /// When the last look began.
    looked_ms: Option<u64>,
}

impl Gate {
    /// Takes the mark as it is `now`. True when it is to be looked at: it changed since the last
    /// look, or may have done so without a new time of change.
    pub fn must_look(&mut self, mark: Mark, now: u64) -> bool {
        self.must_look_within(mark, now, LOOK_MS)
    }

    /// The same, with the time in ms after which a look is due whatever the mark says.
    pub fn must_look_within(&mut self, mark: Mark, now: u64, look_ms: u64) -> bool {
        match self.mark {
            Some((known, _)) if known == mark => {}
            _ => self.mark = Some((mark, now)),
        }
        let since = self.mark.map_or(now, |(_, since)| since);
        let must = match self.looked_ms {
            None => true,
            Some(at) => at < since.saturating_add(GRANULE_MS) || now.saturating_sub(at) > look_ms,
        };
        if must {
            self.looked_ms = Some(now);
        }
        must
    }

    /// When the last look was made, in tests.
    #[cfg(test)]
    pub fn looked_at(&self) -> Option<u64> {
        self.looked_ms
    }

    /// The last look does not count: not everything that it showed was taken.
    pub fn forget(&mut self) {
        self.looked_ms = None;
    }
}

/// How much may be spent: so many units a second, and a number of them at once.
#[derive(Debug, Clone)]
pub struct Budget {
    per_s: u64,
    /// In thousandths of a unit.
    left: u64,
    most: u64,
    at_ms: u64,
}

impl Budget {
    pub fn new(per_s: u64, most: u64) -> Budget {
        Budget {
            per_s,
            left: most * 1000,
            most: most * 1000,
            at_ms: 0,
        }
    }

    /// Whole units that may be spent now.
    pub fn left(&mut self, now: u64) -> u64 {
        let gained = now.saturating_sub(self.at_ms).saturating_mul(self.per_s);
        self.at_ms = self.at_ms.max(now);
        self.left = self.left.saturating_add(gained).min(self.most);
        self.left / 1000
    }

    /// Spends units, at most those that are left.
    pub fn spend(&mut self, units: u64) {
        self.left = self.left.saturating_sub(units.saturating_mul(1000));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at each due time from `from` on and finds nothing; the times.
    fn looks(polling: &mut Polling, from: u64, until: u64) -> Vec<u64> {
        let mut times = Vec::new();
        let mut now = from;
        while now < until {
            now = polling.due_ms().max(now);
            times.push(now);
            polling.looked(now, false, false);
        }
        times
    }

    #[test]
    fn polls_are_frequent_after_news_and_fall_back_to_the_slow_pace() {
        let mut p = Polling::new(1000);
        assert!(p.is_due(0));
        p.looked(10_000, true, false);
        assert_eq!(p.due_ms(), 10_000 + QUICK_MS);
        let times = looks(&mut p, 10_000, 30_000);
        let in_first_second = times.iter().filter(|t| **t < 11_000).count();
        assert!((8..15).contains(&in_first_second), "{in_first_second}");
        let last = &times[times.len() - 2..];
        assert_eq!(last[1] - last[0], 1000);
        p.expect(30_500);
        assert_eq!(p.due_ms(), 30_500 + QUICK_MS);
    }

    #[test]
    fn hints_that_prove_to_come_make_polls_rare_and_missing_ones_frequent_again() {
        let mut p = Polling::new(1000);
        for now in 0..3 {
            assert!(!p.is_hinted());
            p.looked(now, true, true);
        }
        assert!(p.is_hinted());
        let times = looks(&mut p, 10, 60_000);
        let last = &times[times.len() - 2..];
        assert_eq!(last[1] - last[0], 6000);
        // Empty looks prove nothing.
        assert!(p.is_hinted());
        p.looked(70_000, true, false);
        assert!(!p.is_hinted());
        assert_eq!(p.due_ms(), 70_000 + QUICK_MS);
        // However many hints came: two finds without one end it.
        (0..100).for_each(|now| p.looked(80_000 + now, true, true));
        (0..3).for_each(|now| p.looked(90_000 + now, true, false));
        assert!(!p.is_hinted());
    }

    #[test]
    fn hints_that_both_sides_can_give_count_until_things_are_found_without_one() {
        let mut p = Polling::new(1000);
        p.presume_hints();
        // On its way before the two knew each other.
        p.looked(5, true, false);
        assert!(p.is_hinted());
        p.pause_ms = EARLY_MS;
        p.looked(10, true, false);
        assert!(!p.is_hinted());
        assert_eq!(p.due_ms(), 10 + QUICK_MS);
        // A look that soon says nothing of hints: the next one may have been on its way.
        for now in 0..3 {
            p.looked(20 + now, true, true);
            p.expect(20 + now);
        }
        p.pause_ms = QUICK_MS;
        assert!(p.is_hinted());
        p.looked(30, true, false);
        assert!(p.is_hinted());
    }

    #[test]
    fn a_pace_that_was_set_slower_than_hints_allow_stays() {
        let mut p = Polling::new(60_000);
        (0..9).for_each(|now| p.looked(now, true, true));
        assert_eq!(p.longest_ms(), 60_000);
        let mut p = Polling::new(10);
        (0..9).for_each(|now| p.looked(now, true, true));
        assert_eq!((p.quick_ms(), p.longest_ms()), (10, 60));
    }

    fn mark(changed_ns: i64) -> Mark {
        Mark {
            len: 0,
            ino: 1,
            changed_ns,
        }
    }

    #[test]
    fn a_directory_is_listed_until_its_time_of_change_has_passed() {
        let mut g = Gate::default();
        assert!(g.must_look(mark(1), 1000));
        // A second name may have come with the same time.
        assert!(g.must_look(mark(1), 1050));
        assert!(g.must_look(mark(1), 1100));
        assert!(!g.must_look(mark(1), 1110));
        assert!(g.must_look(mark(2), 1200));
        assert!(g.must_look(mark(2), 1300));
        assert!(!g.must_look(mark(2), 1301));
        g.forget();
        assert!(g.must_look(mark(2), 1302));
        assert!(!g.must_look(mark(2), 1303));
    }

    #[test]
    fn a_directory_is_listed_now_and_then_whatever_its_mark_says() {
        let mut g = Gate::default();
        let listed = (0..40_000).filter(|now| g.must_look(mark(1), *now)).count();
        assert_eq!(listed, GRANULE_MS as usize + 1 + 3);
    }

    #[test]
    fn a_budget_bounds_what_is_spent_in_any_time() {
        let mut b = Budget::new(20, 40);
        let mut spent = 0;
        for now in 0..10_000 {
            let left = b.left(now);
            b.spend(left);
            spent += left;
        }
        assert!((40 + 198..=40 + 200).contains(&spent), "{spent}");
        // A clock that stands still or goes back gives nothing.
        assert_eq!((b.left(9_000), b.left(9_999)), (0, 0));
        b.spend(u64::MAX);
        assert_eq!(b.left(u64::MAX), 40);
    }
}
