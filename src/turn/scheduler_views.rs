//! The published views that come from the scheduler: limits, share trees, estimated starts,
//! reserved slots. Pure.

use super::core::Core;
use super::memory::ReservedSlots;
use crate::model::Stamp;
use crate::record::view::{EstimateRow, LimitRow, ROWS_MAX, ShareRow};
use crate::sched::quota::QuotaRow;
use crate::sched::reserve::Estimate;

/// Brings up to date what the views take from the scheduler.
pub fn refresh(core: &mut Core) {
    core.engine.sync(&mut core.state, &mut core.hosts);
    let slots = core.engine.reserved_slots();
    let mut reserved = ReservedSlots::default();
    for (at, n) in slots.hosts {
        reserved.hosts.insert(core.hosts.at(at).id, n);
    }
    for (j, n) in slots.jobs {
        if let Some(spec) = core.state.spec_of(j.id) {
            *reserved.queues.entry(spec.queue.clone()).or_default() += u64::from(n);
            *reserved.users.entry(spec.uid).or_default() += u64::from(n);
        }
    }
    core.reserved = reserved;
}

/// One row per counter, in cb.yaml's order, with the limits at `now`.
pub fn limit_rows(core: &Core, now: Stamp) -> Vec<LimitRow> {
    let rows = core.engine.limits(now).into_iter().take(ROWS_MAX);
    rows.map(limit_row).collect()
}

pub(super) fn limit_row(row: QuotaRow) -> LimitRow {
    let unit = match row.resource.as_str() {
        "slots" | "jobs" => 1.0,
        _ => 1000.0,
    };
    LimitRow {
        name: row.limit,
        consumer: row.consumer,
        used: row.used as f64 / unit,
        limit: row.max.map(|n| n as f64 / unit),
        resource: row.resource,
        each: row.each,
    }
}

/// The nodes of all share trees. `now`: for the run time of running jobs.
pub fn share_rows(core: &Core, now: Stamp) -> Vec<ShareRow> {
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let mut out = Vec::new();
    for (queue, rows) in core.engine.shares(now) {
        for row in rows.into_iter().take(ROWS_MAX - out.len()) {
            out.push(ShareRow {
                queue: queue.clone(),
                path: row.path,
                group: row.group,
                shares: row.shares,
                priority: row.priority as f64 / 1e6,
                started: row.started,
                jobs: row.jobs,
                cpu_s: seconds(row.cpu_ms),
                run_s: seconds(row.run_ms),
                hist_s: seconds(row.hist_ms),
            });
        }
    }
    out
}

/// When jobs with reservations are expected to start.
pub fn estimate_rows(core: &Core) -> Vec<EstimateRow> {
    let all = core.engine.estimates().into_iter().take(ROWS_MAX);
    let row = |(j, estimate)| match estimate {
        Estimate::At(at) => EstimateRow {
            j,
            at: Some(at),
            unlimited: 0,
        },
        Estimate::Unknown { unlimited } => EstimateRow {
            j,
            at: None,
            unlimited: u32::try_from(unlimited).unwrap_or(u32::MAX),
        },
    };
    all.map(row).collect()
}
