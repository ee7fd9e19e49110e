//! When the summary views (hosts, queues, users, limits) are written: soon after an event, and at
//! the pace of their size where only load indices changed. Values only, no files and no clocks.

/// Least time between two writes of the summary views (ms), and on a network file system, where
/// each of them takes five requests. What jobs change of the counts travels with their rows; shares
/// and estimates wait for this, and are 2 s old at most with a hundred hosts.
const EVERY_MS: u64 = 1000;
const REMOTE_MS: u64 = 1750;
/// By how much longer they wait for each host (ms): the row of one is 400 bytes.
const EVENT_ROW_MS: u64 = 1;
/// The same when only load indices changed (ms): the view of 5,000 hosts is 2 MB, and their loads
/// change all the time.
const LOAD_ROW_MS: u64 = 5;

/// What is to be shown, and when it was last shown. Times are of the boot clock, ms.
#[derive(Debug)]
pub(super) struct SummaryPace {
    every_ms: u64,
    written_at: u64,
    events: bool,
    loads: bool,
}

impl SummaryPace {
    /// Nothing was written yet. `local`: the share is a file system of this machine.
    pub(crate) fn new(local: bool) -> SummaryPace {
        SummaryPace {
            every_ms: if local { EVERY_MS } else { REMOTE_MS },
            written_at: 0,
            events: true,
            loads: false,
        }
    }

    /// Something changed that people look for.
    pub(crate) fn changed(&mut self) {
        self.events = true;
    }

    /// Load indices changed.
    pub(crate) fn loads_changed(&mut self) {
        self.loads = true;
    }

    /// The views were written at `now`.
    pub(crate) fn written(&mut self, now: u64) {
        (self.written_at, self.events, self.loads) = (now, false, false);
    }

    /// When they are due, if they are, with so many hosts.
    pub(crate) fn due_ms(&self, hosts: usize) -> Option<u64> {
        let at = self.written_at.saturating_add(self.every_ms);
        match (self.events, self.loads) {
            (true, _) => Some(at.saturating_add(hosts as u64 * EVENT_ROW_MS)),
            (false, true) => Some(at.saturating_add(hosts as u64 * LOAD_ROW_MS)),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_shown_soon_and_loads_at_the_pace_of_the_views_size() {
        let mut pace = SummaryPace::new(false);
        assert_eq!(pace.due_ms(0), Some(REMOTE_MS));
        assert_eq!(pace.due_ms(5000), Some(REMOTE_MS + 5000));
        pace.written(10_000);
        assert_eq!(pace.due_ms(5000), None);
        pace.loads_changed();
        assert_eq!(pace.due_ms(3), Some(11_765));
        assert_eq!(pace.due_ms(5000), Some(36_750));
        pace.changed();
        assert_eq!(pace.due_ms(5000), Some(16_750));
        assert_eq!(pace.due_ms(3), Some(11_753));
        pace.written(11_750);
        assert_eq!(pace.due_ms(5000), None);
        assert_eq!(SummaryPace::new(true).due_ms(3), Some(EVERY_MS + 3));
    }
}
