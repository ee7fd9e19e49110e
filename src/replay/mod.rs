//! Floor 5: replay of workloads. Workloads in, the real scheduling core on a virtual clock, numbers
//! and pictures out; `cbsim trace`, `when`, `generate` and `convert`.
//!
//! Owns the readers and writers of workloads, the virtual cluster and the measurements. Never
//! decides where or when a job starts: that is `sched`, the same code that a leader runs. Reads no
//! clock except to report how long a replay took.

pub mod convert;
pub mod csv;
pub mod estimate;
pub mod files;
pub mod fragmentation;
pub mod from_journal;
pub mod generate;
pub mod host_fragmentation;
pub mod live_cluster;
pub mod meter;
pub mod metrics;
pub mod plot;
pub mod policy;
pub mod report;
pub mod rng;
pub mod shares;
pub mod swf;
pub mod trace;
pub mod virtual_cluster;
pub mod virtual_hosts;
pub mod virtual_leader;
pub mod when;
pub mod workload;
