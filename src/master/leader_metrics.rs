//! What this leader counts and measures for `cadmin metrics`, and when the figures are published.
//!
//! Owns the counting; an event costs a lookup in the state and an addition, and nothing is kept
//! about a job. The document is written rarely, with the summary views: what was counted after the
//! last one is lost if the leader dies.

use crate::model::Stamp;
use crate::record::acct::AttemptRecord;
use crate::record::ack::Ack;
use crate::record::event::Event;
use crate::record::figures::{Figures, JOB_BOUNDS_S, WORK_BOUNDS_S};
use crate::record::samples::SampleCounter;
use crate::record::view;
use crate::spool::Layout;
use crate::spool::view::ViewReader;
use crate::state::{Job, State};
use crate::sys::clock;

/// Minimum time between two publications, in milliseconds.
const EVERY_MS: u64 = 5_000;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct LeaderMetrics {
    pub figures: Figures,
    /// When the figures were last published (boot clock, ms).
    published_at: Option<u64>,
}

/// Work of the leader that is timed.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimedWork {
    Turn,
    Sync,
    Publication,
}

impl LeaderMetrics {
    /// Continues from the figures that the previous leader published.
    pub(super) fn new(layout: &Layout, epoch: u64, now: Stamp) -> LeaderMetrics {
        let before = match ViewReader::new(layout).figures() {
            Ok(figures) => figures,
            Err(e) => {
                tracing::warn!("{e}: figures over time begin again at 0");
                None
            }
        };
        LeaderMetrics {
            figures: Figures::taken_over(before, epoch, now.0),
            published_at: None,
        }
    }

    /// Counts what a turn has decided; `state`: the state after it, `now_ms` since 1970.
    pub(super) fn count_turn(
        &mut self,
        events: &[Event],
        acks: &[Ack],
        state: &State,
        now_ms: i64,
    ) {
        let figures = &mut self.figures;
        figures.events += events.len() as u64;
        figures.answers += acks.len() as u64;
        figures.samples.advance(now_ms);
        figures
            .samples
            .add(SampleCounter::Requests, acks.len() as u64);
        let creates = |ack: &&Ack| ack.ids.iter().any(|run| !run.known);
        let submissions = acks.iter().filter(creates).count();
        figures
            .samples
            .add(SampleCounter::Submissions, submissions as u64);
        for event in events {
            match event {
                Event::Submitted(s) => {
                    let array = state.job(s.id).and_then(Job::array);
                    let n = array.map_or(1, |array| array.all.len());
                    figures.samples.add(SampleCounter::Submitted, n);
                }
                Event::Dispatched { .. } => {
                    figures.dispatched += 1;
                    figures.samples.add(SampleCounter::Dispatched, 1);
                }
                // A later attempt waited since the end of the previous one, not since the
                // submission.
                Event::Started { a, t, .. } if a.at == 1 => {
                    let Some(job) = state.job(a.j.id) else {
                        continue;
                    };
                    let (spec, waited_ms) = (state.spec(job.spec), t.0 - job.submit.0);
                    if let Some(queue) = figures.queue(&spec.queue) {
                        queue.waits.add(JOB_BOUNDS_S, us(waited_ms));
                    }
                }
                _ => {}
            }
        }
    }

    /// Counts ends of attempts.
    pub(super) fn ended(&mut self, ends: &[AttemptRecord<'_>]) {
        for end in ends {
            if !end.requeued {
                self.figures.samples.add(SampleCounter::Completed, 1);
            }
            let Some(queue) = self.figures.queue(&end.queue) else {
                continue;
            };
            match (end.requeued, end.is_done()) {
                (true, _) => queue.requeued += 1,
                (false, true) => queue.done += 1,
                (false, false) => queue.failed += 1,
            }
            if end.start > 0 {
                queue.runs.add(JOB_BOUNDS_S, end.run_ms() * 1000);
            }
        }
    }

    /// Counts work that began at `began_ns` of the boot clock.
    pub(super) fn timed(&mut self, work: TimedWork, began_ns: u128) {
        let ns = clock::boot_ns().saturating_sub(began_ns);
        let us = u64::try_from(ns / 1000).unwrap_or(u64::MAX);
        let figures = &mut self.figures;
        let histogram = match work {
            TimedWork::Turn => &mut figures.turns,
            TimedWork::Sync => &mut figures.syncs,
            TimedWork::Publication => &mut figures.publications,
        };
        histogram.add(WORK_BOUNDS_S, us);
    }

    /// Whether the document must be written with this summary.
    pub(super) fn is_due(&mut self, now: u64) -> bool {
        let recent = |at: u64| now.saturating_sub(at) < EVERY_MS;
        let due = !self.published_at.is_some_and(recent);
        if due {
            self.published_at = Some(now);
        }
        due
    }

    /// Name and content of the document.
    pub(super) fn document(&self) -> (&'static str, &[Figures]) {
        (view::FIGURES, std::slice::from_ref(&self.figures))
    }
}

fn us(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Token;
    use crate::record::ack::IdRun;
    use crate::record::event::Submitted;

    fn meter() -> LeaderMetrics {
        let dir = tempfile::tempdir().unwrap();
        LeaderMetrics::new(&Layout::new(dir.path()), 4, Stamp(9))
    }

    #[test]
    fn ends_are_counted_by_what_became_of_them() {
        let mut meter = meter();
        let end = |code, requeued, start| AttemptRecord {
            queue: "q".into(),
            code: Some(code),
            requeued,
            start,
            end: 12_000,
            ..AttemptRecord::default()
        };
        let ends = [end(0, false, 2_000), end(1, false, 2_000), end(0, true, 0)];
        meter.ended(&ends);
        let queue = &meter.figures.queues["q"];
        assert_eq!((queue.done, queue.failed, queue.requeued), (1, 1, 1));
        // A job that never ran has no run time.
        assert_eq!(queue.runs.count(), 2);
        assert_eq!((queue.runs.counts[1], queue.runs.sum_ms), (2, 20_000));
    }

    #[test]
    fn elements_and_requests_that_create_jobs_are_sampled() {
        let mut state = State::new();
        let (id, spec) = (1, Box::default());
        let spec = Event::Spec { id, spec };
        let submitted = |id, array: &str| {
            let array = array.to_owned();
            Event::Submitted(Box::new(Submitted {
                id,
                s: 1,
                array,
                ..Submitted::default()
            }))
        };
        let events = [spec, submitted(1, ""), submitted(2, "1-10")];
        events.iter().for_each(|event| state.apply(event));
        let ack = |known| {
            let run = IdRun {
                line: 0,
                id: 1,
                n: 1,
                queue: String::new(),
                default: false,
                known,
                t: 0,
            };
            let ids = vec![run];
            Ack {
                ids,
                ..Ack::empty(Token(1))
            }
        };
        // One that creates jobs, one that was answered before, one of another kind.
        let acks = [ack(false), ack(true), Ack::empty(Token(2))];
        let mut meter = meter();
        meter.count_turn(&events, &acks, &state, 1_000_000);
        meter.ended(&[AttemptRecord::default()]);
        meter.count_turn(&[], &[], &state, 1_060_000);
        let samples = &meter.figures.samples;
        let last = SampleCounter::ALL.map(|what| samples.of(what).last);
        assert_eq!((last, samples.periods), ([3, 1, 11, 0, 1], 1));
    }

    #[test]
    fn it_is_published_now_and_then() {
        let mut meter = meter();
        assert!(meter.is_due(10));
        assert!(!meter.is_due(10 + EVERY_MS - 1));
        assert!(meter.is_due(10 + EVERY_MS));
    }
}
