//! Floor 3: sensors (RESS), the pure half. The output of a sensor is cut into documents
//! ([`document_splitter`]) and parsed into resources ([`parse`]); when it is started, restarted and
//! given up ([`sensor_lifecycle`]); which of its values are still valid ([`sensor_values`]); the
//! cluster's resources derived from all hosts' values ([`cluster_resources`]); how many of its
//! messages are logged ([`log_throttle`]); the output of Corral's own GPU sensor ([`gpus`]). Time
//! is an argument; `host` handles processes and files.

pub mod cluster_resources;
pub mod document_splitter;
pub mod gpus;
pub mod log_throttle;
pub mod parse;
pub mod sensor_files;
pub mod sensor_lifecycle;
pub mod sensor_values;

#[cfg(test)]
mod tests;

/// Maximum number of resources of one document, of one host, and of all sensors of a cluster
/// together.
pub const RESOURCES_MAX: usize = 1000;
