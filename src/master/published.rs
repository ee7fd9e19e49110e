//! The published view of this leader: its writer, the alarms shown with it, and when it is due.
//!
//! Owns no file: [`super::publish`] does.

use super::alarms::Alarms;
use super::leader_metrics::LeaderMetrics;
use super::publish::Publisher;
use super::summary_pace::SummaryPace;
use crate::state::State;
use crate::sys;
use crate::turn::ShownCounts;

/// Time for the published view in each turn, in milliseconds.
const TICK_MS: u64 = 5;
/// How often the view gets this time while requests fill each turn, in milliseconds.
const TICK_EVERY_MS: u64 = 100;
/// Longest wait while a round is in progress, and shortest one for the summary, in milliseconds.
const SOON_MS: u64 = 250;
/// Number of events after which memory is returned to the system. The requests of one turn make
/// fewer of them.
const BURST: usize = 5000;
/// How often the leader's clock is compared with the file server's, in milliseconds.
const CLOCK_EVERY_MS: u64 = 30_000;

/// See the head of this file.
pub(super) struct PublishedView {
    pub publisher: Publisher,
    pub alarms: Alarms,
    pub meter: LeaderMetrics,
    /// When the summary views are written.
    pub summary: SummaryPace,
    /// The summary views of this leader exist.
    pub has_summary: bool,
    pub shown_counts: ShownCounts,
    /// The change up to which the published cron jobs are current.
    pub shown_crons: Option<u64>,
    /// The same for the explicit job groups.
    pub shown_groups: Option<u64>,
    /// A round of the publisher is in progress.
    in_round: bool,
    /// Number of events since memory was last returned to the system.
    burst: usize,
    /// When it last got its time (boot clock, ms).
    ticked_at: u64,
    /// When the leader's clock was last compared with the file server's (boot clock, ms).
    clock_compared_at: Option<u64>,
}

impl PublishedView {
    pub(super) fn new(
        publisher: Publisher,
        alarms: Alarms,
        meter: LeaderMetrics,
        local: bool,
    ) -> PublishedView {
        PublishedView {
            publisher,
            alarms,
            meter,
            summary: SummaryPace::new(local),
            has_summary: false,
            shown_counts: ShownCounts::default(),
            shown_crons: None,
            shown_groups: None,
            in_round: false,
            burst: 0,
            ticked_at: 0,
            clock_compared_at: None,
        }
    }

    /// Raises an alarm about `what`, to be published with the next summary.
    pub(super) fn raise(&mut self, what: &'static str, text: String, now: u64) {
        self.alarms.raise(what, text, now);
        self.summary.changed();
    }

    /// Continues the current round. `full`: commands that wait for answers wait for further turns.
    ///
    /// # Errors
    /// The round is tried again.
    pub(super) fn tick(&mut self, state: &State, full: bool, now: u64) -> sys::Result<()> {
        if full && now.saturating_sub(self.ticked_at) < TICK_EVERY_MS {
            return Ok(());
        }
        self.ticked_at = now;
        self.in_round = self.publisher.tick(state, TICK_MS)?;
        Ok(())
    }

    /// Counts the events of a turn. Returns true if memory should be returned to the system: many
    /// events came, no more come, and what they changed is published, so that its rows are freed.
    pub(super) fn burst_is_over(&mut self, events: usize) -> bool {
        self.burst = self.burst.saturating_add(events);
        let over = self.burst > BURST && events == 0 && self.publisher.is_up_to_date();
        if over {
            self.burst = 0;
        }
        over
    }

    /// Whether the documents are due, given the number of hosts.
    pub(super) fn documents_are_due(&self, hosts: usize, now: u64) -> bool {
        self.summary
            .documents_due_ms(hosts)
            .is_some_and(|at| at < now)
    }

    /// Whether some part of the summary views is due, given the number of hosts.
    pub(super) fn is_due(&self, hosts: usize, now: u64) -> bool {
        self.summary.due_ms(hosts).is_some_and(|at| at < now)
    }

    /// How long the view may wait, in milliseconds.
    pub(super) fn wait_ms(&self, hosts: usize, now: u64) -> u64 {
        let summary = self.summary.due_ms(hosts);
        let summary = summary.map(|at| at.saturating_sub(now).max(SOON_MS));
        let round = (self.in_round || self.burst > BURST).then_some(SOON_MS);
        summary.into_iter().chain(round).min().unwrap_or(u64::MAX)
    }

    /// Whether the clocks may be compared with this summary.
    pub(super) fn may_compare_clock(&mut self, now: u64) -> bool {
        let recent = |at: u64| now.saturating_sub(at) < CLOCK_EVERY_MS;
        let due = !self.clock_compared_at.is_some_and(recent);
        if due {
            self.clock_compared_at = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Stamp;
    use crate::spool::Layout;
    use crate::state::ShardKey;

    /// A burst takes several turns, and rows of its last events are still to be written when no more
    /// come.
    #[test]
    fn memory_of_a_burst_is_returned_once_when_all_of_it_is_published() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("view")).unwrap();
        let layout = Layout::new(dir.path());
        let publisher = Publisher::new(&layout, "c", 1).unwrap();
        let meter = LeaderMetrics::new(&layout, 1, Stamp(1));
        let mut view = PublishedView::new(publisher, Alarms::new(Vec::new(), false), meter, true);
        let state = State::default();
        view.publisher.finish(&state).unwrap();
        assert!(!view.burst_is_over(BURST));
        assert!(!view.burst_is_over(0), "too few events");
        assert!(!view.burst_is_over(1), "they still come");
        assert_eq!(view.wait_ms(1, 0), SOON_MS);
        view.publisher.mark_changed([ShardKey::Jobs(0)]);
        assert!(!view.burst_is_over(0), "a shard is not written");
        view.publisher.finish(&state).unwrap();
        assert!(view.burst_is_over(0));
        assert!(!view.burst_is_over(0), "once");
    }
}
