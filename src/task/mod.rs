//! Floor 3: the host side of a job's attempt, as decisions: what to run and how, when to signal it,
//! what its end means, what is recorded about it. Pure: `host` and `sys` act.

pub mod build;
pub mod checkpoints;
mod containers;
pub mod controls;
pub mod cpu_binding;
pub mod ending;
pub mod files;
pub mod hooks;
pub mod host_units;
pub mod launch;
pub mod launched_command;
pub mod log;
pub mod machine;
pub mod output;
pub mod params;
pub mod pbs;
pub mod sent_signal;
pub mod slurm;
pub mod spec;
pub mod submitted_parts;
mod units;
mod variables;
