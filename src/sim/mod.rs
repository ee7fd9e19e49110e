//! Floor 6: the simulator `cbsim`. Workloads in, the real scheduling core on a virtual clock,
//! numbers and pictures out.
//!
//! Owns the readers and writers of workloads, the virtual cluster and the measurements. Never
//! decides where or when a job starts: that is `sched`, the same code that a leader runs. Reads no
//! clock but for the time that it says it took.

pub mod cli;
pub mod convert;
pub mod core;
pub mod csv;
pub mod drive;
pub mod faults;
pub mod files;
pub mod frag;
pub mod generate;
pub mod hosts;
pub mod live;
pub mod meter;
pub mod metrics;
pub mod past;
pub mod plot;
pub mod policy;
pub mod report;
pub mod rng;
pub mod shares;
pub mod swf;
pub mod trace;
pub mod waste;
pub mod when;
pub mod workload;
