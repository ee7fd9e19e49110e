//! Floor 4: one bounded turn of the leader. `turn(core, inputs, now) -> Ready`: pure.
//!
//! The driver collects inputs, calls [`turn()`], and carries out the [`Ready`] in this order:
//! blobs, events (append, sync), check that no higher epoch exists, view delta, acknowledgements,
//! orders, removal of requests. Nothing of a `Ready` may be done before its events are durable; all
//! of it may be done twice.

mod admin;
mod answer;
mod apply_job_verb;
mod clock_check;
mod clone_job;
mod configure;
mod context;
mod core;
mod count_changes;
mod cron;
mod damaged_files;
mod exit_rate;
mod forced_start;
mod gang_start;
mod gang_usage;
mod hanging_hooks;
mod held_ends;
mod host_backoff;
mod host_loss;
mod input;
mod job_groups;
mod job_messages;
mod job_verb;
mod leader_clock;
mod load_reports;
mod memory;
mod migrate;
mod modify;
mod move_job;
mod orders;
mod pack;
mod pending_order;
mod plan_sink;
mod ready;
mod reports;
mod request_queue;
mod requests;
mod restart_job;
mod restored_share;
mod run_again;
mod schedule;
mod scheduler_views;
mod sensor_resources;
mod share_history;
mod signal;
mod steps;
mod stray_runs;
mod submit;
mod summary_views;
mod upkeep;

#[cfg(test)]
mod tests;

pub use self::core::Core;
pub use count_changes::{ShownCounts, count_changes};
pub use host_loss::SILENT_MS;
pub use input::{Input, RequestIn};
pub use orders::outstanding;
pub use pack::blobs;
pub use ready::{Blob, DamagedOrders, Ready};
pub use requests::TURN_UNITS;
pub use restored_share::alarm_text as restored_share_alarm;
pub use schedule::STARTS_MAX;
pub use scheduler_views::{estimate_rows, limit_rows, refresh, share_rows};
pub use steps::turn;
pub use summary_views::{host_rows, params, queue_rows, user_rows};
