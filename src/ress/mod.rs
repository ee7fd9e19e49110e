//! Floor 3: sensors (RESS), the pure half. The output of a sensor is cut into documents ([`split`])
//! and parsed into resources ([`parse`]); when it is started, restarted and given up ([`life`]);
//! which of its values are still valid ([`board`]); the cluster's resources derived from all hosts'
//! values ([`gather`]); how many of its messages are logged ([`quiet`]); the output of Corral's own
//! GPU sensor ([`gpus`]). Time is an argument; `host` handles processes and files.

pub mod board;
pub mod gather;
pub mod gpus;
pub mod life;
pub mod parse;
pub mod quiet;
pub mod split;
pub mod which;

#[cfg(test)]
mod tests;

/// Maximum number of resources of one document, of one host, and of all sensors of a cluster
/// together.
pub const RESOURCES_MAX: usize = 1000;
