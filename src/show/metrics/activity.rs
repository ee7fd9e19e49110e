//! Values that leaders have counted and measured over time, as counters and histograms.
//!
//! A new leader continues from the values that the previous one published. If a counter restarts at
//! 0, readers of counters handle it.

use super::page::{Label, MetricsPage, Sample, label};
use crate::record::figures::{Figures, Histogram, JOB_BOUNDS_S, QueueFigures, WORK_BOUNDS_S};
use prometheus_client::metrics::MetricType;

pub(super) fn put(page: &mut MetricsPage, figures: &Figures) {
    put_queues(page, figures);
    let counters = [
        (
            "corral_jobs_dispatched",
            "Jobs and elements that were given a host",
            figures.dispatched,
        ),
        (
            "corral_requests_answered",
            "Requests that the leader has answered",
            figures.answers,
        ),
        (
            "corral_journal_events",
            "Events that were journalled",
            figures.events,
        ),
        (
            "corral_leader_takeovers",
            "Leaders that took over since counting began",
            figures.takeovers,
        ),
    ];
    for (name, help, n) in counters {
        let point = (Vec::new(), Sample::Number(n as f64));
        page.put_as(name, help, MetricType::Counter, [point]);
    }
    let histograms = [
        (
            "corral_leader_turn_seconds",
            "Time in which the leader decides a turn",
            &figures.turns,
        ),
        (
            "corral_journal_sync_seconds",
            "Time to write the journal of a turn and sync it",
            &figures.syncs,
        ),
        (
            "corral_publication_seconds",
            "Time to write the summaries that commands read",
            &figures.publications,
        ),
    ];
    for (name, help, histogram) in histograms {
        let points = sample(histogram, WORK_BOUNDS_S).map(|s| (Vec::new(), s));
        page.put_as(name, help, MetricType::Histogram, points);
    }
}

fn put_queues(page: &mut MetricsPage, figures: &Figures) {
    let of = |what: fn(&QueueFigures) -> &Histogram| {
        let one = move |(queue, of): (&String, &QueueFigures)| {
            Some((label("queue", queue), sample(what(of), JOB_BOUNDS_S)?))
        };
        figures.queues.iter().filter_map(one)
    };
    let kind = MetricType::Histogram;
    page.put_as(
        "corral_job_wait_seconds",
        "Time from the submission of a job or element to its first start",
        kind,
        of(|q| &q.waits),
    );
    page.put_as(
        "corral_job_run_seconds",
        "Run time of ended attempts, without the time they were suspended",
        kind,
        of(|q| &q.runs),
    );
    let ends = figures.queues.iter().flat_map(|(queue, of)| {
        let ends = [
            ("done", of.done),
            ("failed", of.failed),
            ("requeued", of.requeued),
        ];
        ends.map(|(end, n)| {
            let mut labels: Vec<Label> = label("queue", queue);
            labels.push(("end", end.to_owned()));
            (labels, Sample::Number(n as f64))
        })
    });
    page.put_as(
        "corral_attempts_ended",
        "Attempts of jobs that ended, by how",
        MetricType::Counter,
        ends,
    );
}

/// `None`: nothing has been counted yet, or the bounds differ.
fn sample(histogram: &Histogram, bounds_s: &[f64]) -> Option<Sample> {
    if histogram.counts.len() != bounds_s.len() + 1 {
        return None;
    }
    let bounds = bounds_s.iter().copied().chain([f64::INFINITY]);
    let buckets = bounds.zip(histogram.counts.iter().copied()).collect();
    Some(Sample::Buckets(histogram.sum_s(), buckets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_histograms_are_as_readers_expect_them() {
        let mut figures = Figures {
            dispatched: 7,
            takeovers: 1,
            ..Figures::default()
        };
        figures.syncs.add(WORK_BOUNDS_S, 3_000);
        let queue = figures.queue("q").expect("the first queue");
        queue.waits.add(JOB_BOUNDS_S, 500_000);
        queue.waits.add(JOB_BOUNDS_S, 90_000_000);
        let mut page = MetricsPage::default();
        put(&mut page, &figures);
        let text = page.text().expect("it is encoded");
        for line in [
            "# TYPE corral_job_wait_seconds histogram",
            "corral_job_wait_seconds_sum{queue=\"q\"} 90.5",
            "corral_job_wait_seconds_count{queue=\"q\"} 2",
            "corral_job_wait_seconds_bucket{le=\"1.0\",queue=\"q\"} 1",
            "corral_job_wait_seconds_bucket{le=\"300.0\",queue=\"q\"} 2",
            "corral_job_wait_seconds_bucket{le=\"+Inf\",queue=\"q\"} 2",
            "# TYPE corral_jobs_dispatched_total counter",
            "corral_jobs_dispatched_total 7.0",
            "corral_attempts_ended_total{queue=\"q\",end=\"done\"} 0.0",
            "corral_journal_sync_seconds_count 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\nin\n{text}");
        }
        // No queue has run a job yet.
        assert!(!text.contains("corral_job_run_seconds"), "{text}");
    }
}
