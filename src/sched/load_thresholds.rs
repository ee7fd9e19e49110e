//! Load thresholds and conditions of hosts and queues, checked against the measured load of one
//! host. Pure; what is done about an exceeded threshold is decided elsewhere.

use super::hosts::HostInfo;
use crate::config::{Config, Queue, Threshold};
use crate::text::resreq::{Direction, HostFacts, ResReq, Select, builtin};

/// Parses a condition of a queue; it was checked when the configuration was read.
pub(super) fn condition(text: Option<&str>, config: &Config) -> Option<Select> {
    let req = ResReq::parse_stored(text?, config).ok()?;
    req.simple()?.select.clone()
}

/// A host's own figures, without reservations.
pub(super) struct MeasuredLoad<'a>(pub &'a HostInfo);

impl HostFacts for MeasuredLoad<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        self.0.number(name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.text(name)
    }

    fn tag(&self, name: &str) -> bool {
        self.0.tag(name)
    }
}

/// Which thresholds a check applies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ThresholdKind {
    /// Stop thresholds.
    Running,
    /// Dispatch and stop thresholds, with this much expected load added (thousandths of a process).
    Dispatch(i64),
}

use ThresholdKind::{Dispatch, Running};

/// What the expected load of jobs that have just started adds to an index, in thousandths.
pub(super) fn expected_load(host: &HostInfo, index: &str, expected: i64) -> i64 {
    match index {
        "r15s" | "r1m" | "r15m" | "cpu" => expected,
        "ut" => expected / i64::from(host.load.ncpus.max(1)),
        _ => 0,
    }
}

/// The first threshold that a host exceeds: the index, its value and the threshold, in thousandths.
pub(super) fn exceeded(
    host: &HostInfo,
    thresholds: &[Threshold],
    kind: ThresholdKind,
) -> Option<(String, i64, i64)> {
    thresholds.iter().find_map(|threshold| {
        let mut value = (host.number(&threshold.index)? * 1000.0).round() as i64;
        let stops = threshold.stops(value);
        if let Dispatch(expected) = kind {
            value += expected_load(host, &threshold.index, expected);
        }
        let past = stops || (kind != Running && threshold.excludes_new_jobs(value));
        let limit = if stops {
            threshold.stop
        } else {
            threshold.sched
        };
        past.then(|| (threshold.index.clone(), value, limit.unwrap_or(0)))
    })
}

/// Whether thresholds or the stop condition of a queue exclude the queue's new jobs from a host.
pub(super) fn queue_excludes(
    host: &HostInfo,
    expected: i64,
    queue: &Queue,
    stop: Option<&Select>,
) -> bool {
    exceeded(host, &queue.thresholds, Dispatch(expected)).is_some()
        || stop.is_some_and(|stop| stop.accepts(&MeasuredLoad(host)))
}

/// Whether amounts of a resource are released while the job that holds them is stopped.
pub(super) fn released_when_stopped(config: &Config, name: &str) -> bool {
    let grows_with_load = |b: &crate::text::resreq::Builtin| b.direction == Direction::Increase;
    match config.hosts.resource(name) {
        Some(decl) => decl.release,
        None => builtin(name).is_some_and(grows_with_load),
    }
}
