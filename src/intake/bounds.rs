//! The number of slots and the limits of a job, from its own request, its application and its
//! queue. Owns which of them takes precedence, and the units in a refusal.

use super::Refusal;
use crate::config::{AppLimits, AppProfile, JobSlots, LimitPair, Queue};
use crate::model::{Limits, Spec};
use crate::text::{duration, size};

pub(super) fn check_slots(slots: JobSlots, min: u32, max: u32) -> bool {
    min >= slots.min && max <= slots.max.unwrap_or(u32::MAX)
}

pub(super) fn bound(slots: JobSlots) -> String {
    match slots.max {
        Some(most) => format!("{} to {most}", slots.min),
        None => format!("at least {}", slots.min),
    }
}

pub(super) fn slots_in(queue: &Queue, app: Option<&AppProfile>, spec: &Spec) -> (u32, u32) {
    let of_app = app.and_then(|app| app.job_slots);
    let least = queue.job_slots.min.max(of_app.map_or(1, |slots| slots.min));
    match (spec.min, spec.max) {
        (0, 0) => {
            let default = of_app.unwrap_or(queue.job_slots).default;
            (default, default)
        }
        (0, max) => (least.min(max).max(1), max),
        (min, 0) => (min, min),
        given => given,
    }
}

/// The job's limits: its own, else the application's default or maximum, else the queue's. No job
/// gets more than either maximum; a limit from its application is cut to that of its queue.
pub(super) fn limits_in(
    queue: &Queue,
    app: Option<&AppProfile>,
    job: &Limits,
) -> Result<Limits, Refusal> {
    let none = AppLimits::default();
    let of = app.map_or(&none, |app| &app.limits);
    let fit = |option: &str, pairs: [&LimitPair; 2], requested: Option<u64>, unit: u64| {
        let requested = requested.map(|a| a.saturating_mul(unit));
        let over = |max: u64, whose: String| {
            let requested = limit_text(option, requested.unwrap_or_default());
            let max = limit_text(option, max);
            Refusal::refused(format!("{option}: {requested} exceeds {max} of {whose}"))
        };
        let [of_app, of_queue] = pairs;
        let limit = of_app.resolve(requested).map_err(|max| {
            over(
                max,
                format!("application {}", app.map_or("", |app| &app.name)),
            )
        })?;
        let limit = match (requested, limit, of_queue.max) {
            (None, Some(given), Some(max)) => Some(given.min(max)),
            (_, limit, _) => limit,
        };
        let limit = of_queue
            .resolve(limit)
            .map_err(|max| over(max, format!("queue {}", queue.name)))?;
        Ok::<_, Refusal>(limit.map(|g| g.div_ceil(unit)))
    };
    Ok(Limits {
        run_s: fit(
            "-W",
            [&of.run_limit_ms, &queue.run_limit_ms],
            job.run_s,
            1000,
        )?,
        cpu_s: fit(
            "-c",
            [&of.cpu_limit_ms, &queue.cpu_limit_ms],
            job.cpu_s,
            1000,
        )?,
        mem_b: fit("-M", [&of.mem_limit, &queue.mem_limit], job.mem_b, 1)?,
        swap_b: fit("-v", [&of.swap_limit, &queue.swap_limit], job.swap_b, 1)?,
        procs: fit(
            "-p",
            [&of.process_limit, &queue.process_limit],
            job.procs,
            1,
        )?,
        file_b: fit("-F", [&of.file_limit, &queue.file_limit], job.file_b, 1)?,
        data_b: job.data_b,
        stack_b: fit("-S", [&of.stack_limit, &queue.stack_limit], job.stack_b, 1)?,
        core_b: fit("-C", [&of.core_limit, &queue.core_limit], job.core_b, 1)?,
        oom_kill: job.oom_kill,
    })
}

/// A limit in the form that its option takes: times (here in ms) in minutes if they are whole
/// minutes.
fn limit_text(option: &str, value: u64) -> String {
    match option {
        "-W" | "-c" if value.is_multiple_of(60_000) => format!("{} min", value / 60_000),
        "-W" | "-c" => duration::exact(value.div_ceil(1000)),
        "-p" => value.to_string(),
        _ => size::exact(value),
    }
}
