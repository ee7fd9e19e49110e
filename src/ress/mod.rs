//! Floor 3: sensors (RESS), the pure half. What a sensor prints is cut into documents ([`split`])
//! and read into resources ([`parse`]); when it is started, restarted and given up ([`life`]);
//! which of its values still count ([`board`]); what all hosts' values make of the cluster's
//! resources ([`gather`]); how much of its complaints is forwarded ([`quiet`]); what our own
//! sensor of GPUs prints ([`gpus`]). Time comes in as an
//! argument; processes and files are the business of `host`.

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

/// Most resources of one document, of one host, and of all sensors of a cluster together.
pub const RESOURCES_MAX: usize = 1000;
