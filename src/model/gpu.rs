//! A GPU as a sensor sees it. Unknown fields stay empty.

use super::DeviceNode;

/// A GPU, or a part of one (MIG) that programs use as if it were one.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Gpu {
    /// The name by which programs choose it: `GPU-...`, `MIG-...`.
    pub unit: String,
    pub model: String,
    /// A part of a GPU.
    pub part: bool,
    /// Memory, MB.
    pub memory_mb: Option<u64>,
    /// Nodes that only programs need which use it.
    pub devices: Vec<DeviceNode>,
    /// Utilization, percent.
    pub busy: Option<u32>,
    /// Degrees Celsius.
    pub celsius: Option<u32>,
    /// Processes that compute on it.
    pub processes: Option<Vec<u32>>,
}
