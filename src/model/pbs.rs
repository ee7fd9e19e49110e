//! Additional data of a job whose script has lines for PBS or Torque.

use serde::{Deserialize, Serialize};

/// The part of a specification that `csub` sets for such a script: the job gets the variables of
/// PBS.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PbsJob {
    /// Slots of each chunk; 0: one.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpus: u32,
    /// Lines of each chunk in the list of hosts; 0: one for each slot.
    #[serde(skip_serializing_if = "is_zero")]
    pub ranks: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl PbsJob {
    /// The number of lines of a host with these slots in the list of hosts.
    pub fn lines_of(&self, slots: u32) -> u32 {
        match self.ranks {
            0 => slots,
            ranks => (slots / self.cpus.max(1)).max(1).saturating_mul(ranks),
        }
    }
}
