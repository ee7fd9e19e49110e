//! The leader's knowledge of its own wall clock: the steps that it made, and whether it agrees with
//! the clocks of the hosts. Decides which stamps are certainly old. Reads no clock.
//!
//! Stamps in the journal are wall-clock times. A step of the clock (an administrator, a time
//! service) would make all of them older or younger at once. Therefore the steps that this leader
//! saw are remembered, and a stamp counts as old only if no interval of the monotonic clock
//! contradicts it.

use crate::model::{Mono, Now, Stamp};

/// Without a step, wall and monotonic clock drift apart by less than this, in milliseconds.
const STEP_MS: i64 = 2_000;
/// Maximum number of steps that are remembered; the oldest ones are merged.
const STEPS_MAX: usize = 64;
/// The leader's clock is doubted if most hosts' clocks differ from it by more than this, in
/// milliseconds.
const DOUBT_MS: i64 = 60_000;
/// Pause between two comparisons with the hosts' clocks, in milliseconds.
const COMPARE_MS: u64 = 5_000;

/// From `from` on the agreed time was `offset` ahead of the monotonic clock, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: i64,
    offset: i64,
}

/// The leader's wall clock, as seen against the monotonic clock and the hosts' clocks. The *agreed*
/// time is that of the leader's clock, or of most hosts' clocks if those differ from it.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaderClock {
    /// Oldest first; the first one has no beginning.
    segments: Vec<Segment>,
    now: i64,
    /// By how much the wall clock was ahead of the monotonic one when it was last seen.
    offset: i64,
    /// By how much the file server's clock was ahead of the monotonic one when it was last seen.
    server_offset: Option<i64>,
    /// By how much the leader's clock is ahead of most hosts' clocks (negative: late), when that is
    /// more than [`DOUBT_MS`].
    ahead: i64,
    compared_at: Option<Mono>,
    /// It was compared with the clock of a host at least once.
    was_compared: bool,
    /// By how much the agreed time was ahead of the monotonic clock when it was last queried.
    agreed: i64,
}

impl LeaderClock {
    /// Records the current time. Returns by how many milliseconds the wall clock was stepped since
    /// the last call, 0 for none.
    pub(crate) fn observe(&mut self, now: Now) -> i64 {
        self.now = i64::try_from(now.mono.0).unwrap_or(i64::MAX);
        let offset = now.wall.0.saturating_sub(self.now);
        let before = std::mem::replace(&mut self.offset, offset);
        let step = offset.saturating_sub(before);
        if self.segments.is_empty() || step.abs() < STEP_MS {
            return 0;
        }
        step
    }

    /// The agreed time, and by how many milliseconds it was stepped since the last call.
    pub(crate) fn agree(&mut self) -> (Stamp, i64) {
        let offset = self.offset.saturating_sub(self.ahead);
        let now = Stamp(self.now.saturating_add(offset));
        let before = std::mem::replace(&mut self.agreed, offset);
        (now, self.note(offset, before))
    }

    fn note(&mut self, offset: i64, before: i64) -> i64 {
        let Some(last) = self.segments.last_mut() else {
            let from = i64::MIN;
            self.segments.push(Segment { from, offset });
            return 0;
        };
        let step = offset.saturating_sub(before);
        if step.abs() < STEP_MS {
            // It is drift, or a time service that slews: the smaller offset makes stamps younger.
            last.offset = last.offset.min(offset);
            return 0;
        }
        let from = self.now;
        self.segments.push(Segment { from, offset });
        if self.segments.len() > STEPS_MAX {
            let oldest = self.segments.remove(0);
            let first = &mut self.segments[0];
            first.from = i64::MIN;
            first.offset = first.offset.min(oldest.offset);
        }
        step
    }

    /// Stamps before this one are older than `ms` by every known clock.
    pub(crate) fn older_than(&self, ms: u64) -> Stamp {
        let since = self.now.saturating_sub_unsigned(ms);
        let begins = self.segments.iter();
        let ends = self.segments.iter().skip(1).map(|next| next.from);
        let within = begins
            .zip(ends.chain([i64::MAX]))
            .filter(|(_, end)| *end > since);
        let earliest = within.map(|(s, _)| s.from.max(since).saturating_add(s.offset));
        let earliest = earliest.min().unwrap_or(i64::MIN);
        Stamp(earliest)
    }

    /// The agreed time when the leader's clock shows `wall`.
    pub(crate) fn agreed(&self, wall: Stamp) -> Stamp {
        Stamp(wall.0.saturating_sub(self.ahead))
    }

    /// Whether it is time to compare the clock with those of the hosts; `stepped`: it is.
    pub(crate) fn compare_due(&mut self, now: Mono, stepped: bool) -> bool {
        let last = self.compared_at;
        let due = stepped || last.is_none_or(|at| now.since_ms(at) >= COMPARE_MS);
        if due {
            self.compared_at = Some(now);
        }
        due
    }

    /// Compares the leader's clock with the hosts' clocks, all relative to the file server's.
    /// `hosts`: by how much each is ahead of the file server's. Returns true if the leader's clock
    /// starts or ceases to be doubted.
    pub(crate) fn compare(&mut self, hosts: impl Iterator<Item = i64>) -> bool {
        let Some(server) = self.server_offset else {
            return false;
        };
        let own = self.offset.saturating_sub(server);
        let mut differences: Vec<i64> = hosts.map(|host| own.saturating_sub(host)).collect();
        self.was_compared |= !differences.is_empty();
        differences.push(own);
        let ahead = median(differences);
        let doubted = if ahead.abs() > DOUBT_MS { ahead } else { 0 };
        let changed = (doubted == 0) != (self.ahead == 0);
        self.ahead = doubted;
        changed
    }

    /// Whether it was compared with the clock of a host at least once.
    pub(crate) fn was_compared(&self) -> bool {
        self.was_compared
    }

    /// Notes by how many milliseconds the leader's clock is ahead of the file server's at `now`.
    pub(crate) fn note_server(&mut self, now: Now, ahead_ms: i64) {
        let mono = i64::try_from(now.mono.0).unwrap_or(i64::MAX);
        let server = now.wall.0.saturating_sub(ahead_ms);
        self.server_offset = Some(server.saturating_sub(mono));
    }

    /// By how much the leader's clock is ahead of most hosts' clocks if it is doubted, else 0.
    pub(crate) fn ahead_ms(&self) -> i64 {
        self.ahead
    }
}

/// The median of the differences. With an even number, it is the middle one nearer to 0, so that
/// one clock out of two has no majority.
fn median(mut differences: Vec<i64>) -> i64 {
    differences.sort_unstable();
    let half = differences.len() / 2;
    match differences[..] {
        [] => 0,
        _ if differences.len() % 2 == 1 => differences[half],
        _ => {
            let (a, b) = (differences[half - 1], differences[half]);
            if a.unsigned_abs() <= b.unsigned_abs() {
                a
            } else {
                b
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const DAY: u64 = 24 * 3600 * 1000;
    const HOUR: i64 = 3600 * 1000;

    fn at(wall: i64, mono: u64) -> Now {
        Now {
            wall: Stamp(wall),
            mono: Mono(mono),
        }
    }

    /// By how much the agreed time was stepped.
    fn seen(clock: &mut LeaderClock, now: Now) -> i64 {
        clock.observe(now);
        clock.agree().1
    }

    #[test]
    fn a_steady_clock_makes_stamps_old_as_they_say() {
        let mut clock = LeaderClock::default();
        assert_eq!(seen(&mut clock, at(1_000_000, 5_000)), 0);
        assert_eq!(
            seen(&mut clock, at(1_060_100, 65_000)),
            0,
            "drift does not count as a step"
        );
        assert_eq!(clock.older_than(10_000), Stamp(1_050_000));
        assert_eq!(clock.older_than(DAY), Stamp(1_060_000 - DAY as i64));
    }

    #[test]
    fn a_step_forward_makes_nothing_old() {
        let mut clock = LeaderClock::default();
        seen(&mut clock, at(0, 1_000));
        assert_eq!(seen(&mut clock, at(25 * HOUR, 2_000)), 25 * HOUR - 1_000);
        assert!(
            clock.older_than(DAY) < Stamp(0),
            "stamps of before the step"
        );
        // A day later, by the monotonic clock, they are.
        seen(&mut clock, at(25 * HOUR + DAY as i64, 2_000 + DAY));
        assert!(clock.older_than(DAY) > Stamp(1_000));
        assert!(clock.older_than(DAY) <= Stamp(25 * HOUR));
    }

    #[test]
    fn a_step_back_makes_nothing_old_early() {
        let mut clock = LeaderClock::default();
        seen(&mut clock, at(10 * HOUR, 1_000));
        assert_eq!(seen(&mut clock, at(9 * HOUR, 2_000)), -HOUR - 1_000);
        let mono = 2_000 + 30 * 60_000;
        seen(&mut clock, at(9 * HOUR + 30 * 60_000, mono));
        // Stamped 9:30 or 10:00: half an hour ago.
        assert!(clock.older_than(60 * 60_000) <= Stamp(9 * HOUR));
        assert!(clock.older_than(10 * 60_000) <= Stamp(9 * HOUR + 20 * 60_000));
    }

    #[test]
    fn many_steps_are_bounded_and_keep_stamps_young() {
        let mut clock = LeaderClock::default();
        for n in 0..1_000u64 {
            let wall = if n % 2 == 0 { 0 } else { 10 * HOUR };
            seen(&mut clock, at(wall + n as i64, n));
        }
        assert!(clock.segments.len() <= STEPS_MAX);
        assert!(clock.older_than(2_000) <= Stamp(0));
    }

    #[test]
    fn most_clocks_decide_and_one_of_two_does_not() {
        for (differences, due) in [
            (vec![], 0),
            (vec![5], 5),
            (vec![0, 90_000], 0),
            (vec![-90_000, 0], 0),
            (vec![0, 90_000, 80_000], 80_000),
            (vec![0, 0, 90_000], 0),
            (vec![0, 600_000, 600_000, 1_200_000], 600_000),
        ] {
            assert_eq!(median(differences.clone()), due, "{differences:?}");
        }
    }
}
