//! When the summary views are written: hosts, queues, users, limits and parameters ("documents"),
//! and the shares and estimates that no delta has. Values only, no files and no clocks.

/// Minimum time between two writes of a document (ms), and on a network file system, where each of
/// them takes five requests. Shares and estimates wait for this time after a job has changed, and
/// while jobs that shares count continue: they are at most 2 s old with 2,500 rows.
const EVERY_MS: u64 = 1000;
const REMOTE_MS: u64 = 1750;
/// Minimum time between two documents that differ only in load indices (ms), or in counts of jobs,
/// which are published with the rows of those jobs: hosts measure their load every 5 s.
const REMOTE_SLOW_MS: u64 = 5000;
/// Additional time per host for each document (ms): the row of a host is 400 bytes.
const ROW_MS: u64 = 1;
/// Number of rows of shares that delay shares and estimates by one more millisecond: a row is 150
/// bytes.
const SHARE_ROWS: u64 = 10;
/// The same as [`ROW_MS`] if only load indices changed (ms): the view of 5,000 hosts is 2 MB, and
/// their loads change all the time.
const LOAD_ROW_MS: u64 = 5;

/// What must be shown, and when it was last shown. Times are of the boot clock, ms.
#[derive(Debug)]
pub(super) struct SummaryPace {
    local: bool,
    documents_at: u64,
    shares_at: u64,
    /// Something changed for which users look in the documents.
    events: bool,
    jobs: bool,
    loads: bool,
    shares: bool,
    /// Additional delay of shares because of their rows (ms).
    shares_wait: u64,
}

impl SummaryPace {
    /// The pace before anything was written. `local`: the share is a file system of this machine.
    pub(crate) fn new(local: bool) -> SummaryPace {
        SummaryPace {
            local,
            documents_at: 0,
            shares_at: 0,
            events: true,
            jobs: false,
            loads: false,
            shares: true,
            shares_wait: 0,
        }
    }

    /// Notes a change for which users look.
    pub(crate) fn changed(&mut self) {
        (self.events, self.shares) = (true, true);
    }

    /// Notes that jobs changed: their counts are in the delta, shares and estimates are not.
    pub(crate) fn jobs_changed(&mut self) {
        (self.jobs, self.shares) = (true, true);
    }

    /// Notes that load indices changed.
    pub(crate) fn loads_changed(&mut self) {
        self.loads = true;
    }

    /// Notes that shares, with this number of rows, and estimates were written at `now`. `grow`:
    /// the usage that shares count continues to grow without any event.
    pub(crate) fn shares_written(&mut self, now: u64, rows: usize, grow: bool) {
        (self.shares_at, self.shares) = (now, grow);
        self.shares_wait = rows as u64 / SHARE_ROWS;
    }

    /// Notes that the documents were written at `now`.
    pub(crate) fn documents_written(&mut self, now: u64) {
        (self.documents_at, self.events) = (now, false);
        (self.jobs, self.loads) = (false, false);
    }

    /// When the documents are due, if they are, given the number of hosts.
    pub(crate) fn documents_due_ms(&self, hosts: usize) -> Option<u64> {
        let (every, slow) = match self.local {
            true => (EVERY_MS, EVERY_MS),
            false => (REMOTE_MS, REMOTE_SLOW_MS),
        };
        let reasons = [
            (self.events, every, ROW_MS),
            (self.jobs, slow, ROW_MS),
            (self.loads, slow, LOAD_ROW_MS),
        ];
        let wait = |(is, every, row): (bool, u64, u64)| is.then_some(every + hosts as u64 * row);
        let least = reasons.into_iter().filter_map(wait).min();
        least.map(|wait| self.documents_at.saturating_add(wait))
    }

    /// When something is due, if anything is, given the number of hosts.
    pub(crate) fn due_ms(&self, hosts: usize) -> Option<u64> {
        let every = if self.local { EVERY_MS } else { REMOTE_MS };
        let wait = every + self.shares_wait;
        let shares = self.shares.then(|| self.shares_at.saturating_add(wait));
        shares.into_iter().chain(self.documents_due_ms(hosts)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that was due is done at `at`.
    fn write(pace: &mut SummaryPace, at: u64) {
        pace.shares_written(at, 0, false);
        pace.documents_written(at);
    }

    #[test]
    fn events_are_shown_soon_and_loads_at_the_pace_of_the_views_size() {
        let mut pace = SummaryPace::new(false);
        assert_eq!(pace.due_ms(0), Some(REMOTE_MS));
        assert_eq!(pace.due_ms(5000), Some(REMOTE_MS));
        assert_eq!(pace.documents_due_ms(5000), Some(REMOTE_MS + 5000));
        write(&mut pace, 10_000);
        assert_eq!(pace.due_ms(5000), None);
        pace.loads_changed();
        assert_eq!(pace.due_ms(3), Some(15_015));
        assert_eq!(pace.due_ms(5000), Some(40_000));
        pace.changed();
        assert_eq!(pace.documents_due_ms(5000), Some(16_750));
        assert_eq!(pace.documents_due_ms(3), Some(11_753));
        assert_eq!(pace.due_ms(5000), Some(11_750));
        write(&mut pace, 11_750);
        assert_eq!(pace.due_ms(5000), None);
        assert_eq!(SummaryPace::new(true).due_ms(3), Some(EVERY_MS));
    }

    /// Counts are in the delta; changes of the shares by a job are nowhere else.
    #[test]
    fn after_jobs_shares_are_written_soon_and_documents_at_the_pace_of_loads() {
        let mut pace = SummaryPace::new(false);
        write(&mut pace, 10_000);
        pace.jobs_changed();
        assert_eq!(pace.due_ms(3), Some(11_750));
        assert_eq!(pace.documents_due_ms(3), Some(15_003));
        pace.shares_written(11_750, 0, false);
        assert_eq!(pace.due_ms(3), Some(15_003));
        pace.jobs_changed();
        assert_eq!(pace.due_ms(3), Some(13_500));
        write(&mut pace, 15_003);
        assert_eq!(pace.due_ms(3), None);
        let mut local = SummaryPace::new(true);
        write(&mut local, 10_000);
        local.jobs_changed();
        assert_eq!(local.documents_due_ms(3), Some(11_003));
    }
    /// Run time grows without an event.
    #[test]
    fn shares_are_written_again_and_again_while_work_that_they_count_goes_on() {
        let mut pace = SummaryPace::new(false);
        write(&mut pace, 10_000);
        pace.shares_written(10_000, 2_500, true);
        assert_eq!(pace.due_ms(5000), Some(12_000));
        pace.shares_written(12_000, 20_000, true);
        assert_eq!(pace.due_ms(5000), Some(15_750));
        pace.shares_written(15_750, 20_000, false);
        assert_eq!(pace.due_ms(5000), None);
    }
}
