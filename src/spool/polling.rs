//! When to look again at data that another host may change: the polling interval, whether a look is
//! worth its cost, and how many looks may be made in vain. Pure: time is an argument, in ms of one
//! monotonic clock.
//!
//! Polling is authoritative. A hint (an event of this machine, a datagram) only says "look now". If
//! hints have proved to arrive, polls are rarer; if something is found without a hint, they become
//! frequent again.

use crate::sys::fs::FileMark;

/// Pause after something was found or while something is expected, ms.
const QUICK_MS: u64 = 5;
/// The same if hints have proved to arrive: the next change causes a hint, as the last one did.
const QUICK_HINTED_MS: u64 = 1_000;
/// With hints, a poll only has to find what a lost hint was about, so it may be this much rarer...
const HINTED_FACTOR: u64 = 6;
/// ...but the pause is at most this long, ms.
const HINTED_MAX_MS: u64 = 8_000;
/// Hints have proved to arrive when this many more polls found something with a hint than without;
/// a poll without a hint counts double.
const PROVED: u32 = 3;
const PROVED_MAX: u32 = 8;
/// If both sides state that they can give hints, hints are presumed to have proved this well: what
/// was in transit before they knew each other may be found without a hint.
const PRESUMED: u32 = PROVED + 2;
/// A poll this soon after the last one may find something whose hint is still in transit, ms.
const EARLY_MS: u64 = 250;
/// Two changes within this time may have the same modification time, ms.
const GRANULE_MS: u64 = 100;
/// A poll is due after this time at the latest, regardless of the mark, ms.
const POLL_MS: u64 = 10_000;

/// The pace of polls of one file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polling {
    slow_ms: u64,
    pause_ms: u64,
    due_ms: u64,
    proved: u32,
}

impl Polling {
    /// The first poll is due at once. `slow_ms`: longest pause without hints.
    pub fn new(slow_ms: u64) -> Polling {
        Polling {
            slow_ms,
            pause_ms: slow_ms,
            due_ms: 0,
            proved: 0,
        }
    }

    /// Presumes that hints arrive, since both sides state that they can give them, until things are
    /// found without one.
    pub fn presume_hints(&mut self) {
        self.proved = self.proved.max(PRESUMED);
    }

    /// Changes the longest pause.
    pub fn set_slow(&mut self, slow_ms: u64) {
        self.slow_ms = slow_ms;
    }

    /// When the next poll is due.
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    pub fn is_due(&self, now: u64) -> bool {
        now >= self.due_ms
    }

    /// Whether hints have proved to arrive here.
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

    /// Notes that something will change soon: the next poll follows soon.
    pub fn expect(&mut self, now: u64) {
        self.pause_ms = self.quick_ms();
        self.due_ms = self.due_ms.min(now.saturating_add(self.pause_ms));
    }

    /// Makes the next poll due now.
    pub fn make_due(&mut self, now: u64) {
        self.due_ms = now;
    }

    /// Makes the next poll due after the longest pause: any earlier change causes a hint.
    pub fn wait_for_hint(&mut self, now: u64) {
        self.pause_ms = self.longest_ms();
        self.due_ms = now.saturating_add(self.pause_ms);
    }

    /// Records the result of a poll at `now`: whether something new was `found`, and whether a hint
    /// caused the poll.
    pub fn note_poll(&mut self, now: u64, found: bool, hinted: bool) {
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

/// Tells whether a directory or document may contain something that the last read did not show.
#[derive(Debug, Clone, Default)]
pub struct ChangeGate {
    /// The last mark, and since when it has been unchanged.
    mark: Option<(FileMark, u64)>,
    /// When the last read began.
    last_read_ms: Option<u64>,
}

impl ChangeGate {
    /// Takes the mark as it is `now`. Returns true if a read is needed: the mark has changed since
    /// the last read, or the content may have changed without a new modification time.
    pub fn must_read(&mut self, mark: FileMark, now: u64) -> bool {
        self.must_read_within(mark, now, POLL_MS)
    }

    /// The same, with the time in ms after which a read is due regardless of the mark.
    pub fn must_read_within(&mut self, mark: FileMark, now: u64, look_ms: u64) -> bool {
        match self.mark {
            Some((known, _)) if known == mark => {}
            _ => self.mark = Some((mark, now)),
        }
        let since = self.mark.map_or(now, |(_, since)| since);
        let must = match self.last_read_ms {
            None => true,
            Some(at) => at < since.saturating_add(GRANULE_MS) || now.saturating_sub(at) > look_ms,
        };
        if must {
            self.last_read_ms = Some(now);
        }
        must
    }

    /// When the last read was made, in tests.
    #[cfg(test)]
    pub fn last_read_ms(&self) -> Option<u64> {
        self.last_read_ms
    }

    /// Makes the last read not count: not everything that it showed was taken.
    pub fn forget(&mut self) {
        self.last_read_ms = None;
    }
}

/// Limits spending to a number of units per second, and to a number of them at once.
#[derive(Debug, Clone)]
pub struct Budget {
    per_s: u64,
    /// In thousandths of a unit.
    remaining: u64,
    most: u64,
    at_ms: u64,
}

impl Budget {
    pub fn new(per_s: u64, most: u64) -> Budget {
        Budget {
            per_s,
            remaining: most * 1000,
            most: most * 1000,
            at_ms: 0,
        }
    }

    /// Whole units that may be spent now.
    pub fn available(&mut self, now: u64) -> u64 {
        let gained = now.saturating_sub(self.at_ms).saturating_mul(self.per_s);
        self.at_ms = self.at_ms.max(now);
        self.remaining = self.remaining.saturating_add(gained).min(self.most);
        self.remaining / 1000
    }

    /// Spends units, at most those that are left.
    pub fn spend(&mut self, units: u64) {
        self.remaining = self.remaining.saturating_sub(units.saturating_mul(1000));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls at each due time from `from` on without finding anything; returns the times.
    fn looks(polling: &mut Polling, from: u64, until: u64) -> Vec<u64> {
        let mut times = Vec::new();
        let mut now = from;
        while now < until {
            now = polling.due_ms().max(now);
            times.push(now);
            polling.note_poll(now, false, false);
        }
        times
    }

    #[test]
    fn polls_are_frequent_after_news_and_fall_back_to_the_slow_pace() {
        let mut p = Polling::new(1000);
        assert!(p.is_due(0));
        p.note_poll(10_000, true, false);
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
            p.note_poll(now, true, true);
        }
        assert!(p.is_hinted());
        let times = looks(&mut p, 10, 60_000);
        let last = &times[times.len() - 2..];
        assert_eq!(last[1] - last[0], 6000);
        // Polls that find nothing prove nothing.
        assert!(p.is_hinted());
        p.note_poll(70_000, true, false);
        assert!(!p.is_hinted());
        assert_eq!(p.due_ms(), 70_000 + QUICK_MS);
        // Regardless of the number of hints: two finds without a hint end it.
        (0..100).for_each(|now| p.note_poll(80_000 + now, true, true));
        (0..3).for_each(|now| p.note_poll(90_000 + now, true, false));
        assert!(!p.is_hinted());
    }

    #[test]
    fn hints_that_both_sides_can_give_count_until_things_are_found_without_one() {
        let mut p = Polling::new(1000);
        p.presume_hints();
        // It was in transit before the two knew each other.
        p.note_poll(5, true, false);
        assert!(p.is_hinted());
        p.pause_ms = EARLY_MS;
        p.note_poll(10, true, false);
        assert!(!p.is_hinted());
        assert_eq!(p.due_ms(), 10 + QUICK_MS);
        // A poll that follows so soon proves nothing about hints: the next one may have been in
        // transit.
        for now in 0..3 {
            p.note_poll(20 + now, true, true);
            p.expect(20 + now);
        }
        p.pause_ms = QUICK_MS;
        assert!(p.is_hinted());
        p.note_poll(30, true, false);
        assert!(p.is_hinted());
    }

    #[test]
    fn a_pace_that_was_set_slower_than_hints_allow_stays() {
        let mut p = Polling::new(60_000);
        (0..9).for_each(|now| p.note_poll(now, true, true));
        assert_eq!(p.longest_ms(), 60_000);
        let mut p = Polling::new(10);
        (0..9).for_each(|now| p.note_poll(now, true, true));
        assert_eq!((p.quick_ms(), p.longest_ms()), (10, 60));
    }

    fn mark(changed_ns: i64) -> FileMark {
        FileMark {
            len: 0,
            ino: 1,
            changed_ns,
        }
    }

    #[test]
    fn a_directory_is_listed_until_its_time_of_change_has_passed() {
        let mut g = ChangeGate::default();
        assert!(g.must_read(mark(1), 1000));
        // A second name may have been added within the same time.
        assert!(g.must_read(mark(1), 1050));
        assert!(g.must_read(mark(1), 1100));
        assert!(!g.must_read(mark(1), 1110));
        assert!(g.must_read(mark(2), 1200));
        assert!(g.must_read(mark(2), 1300));
        assert!(!g.must_read(mark(2), 1301));
        g.forget();
        assert!(g.must_read(mark(2), 1302));
        assert!(!g.must_read(mark(2), 1303));
    }

    #[test]
    fn a_directory_is_listed_now_and_then_whatever_its_mark_says() {
        let mut g = ChangeGate::default();
        let listed = (0..40_000).filter(|now| g.must_read(mark(1), *now)).count();
        assert_eq!(listed, GRANULE_MS as usize + 1 + 3);
    }

    #[test]
    fn a_budget_bounds_what_is_spent_in_any_time() {
        let mut b = Budget::new(20, 40);
        let mut spent = 0;
        for now in 0..10_000 {
            let left = b.available(now);
            b.spend(left);
            spent += left;
        }
        assert!((40 + 198..=40 + 200).contains(&spent), "{spent}");
        // A clock that stands still or goes back releases nothing.
        assert_eq!((b.available(9_000), b.available(9_999)), (0, 0));
        b.spend(u64::MAX);
        assert_eq!(b.available(u64::MAX), 40);
    }
}
