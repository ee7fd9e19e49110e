//! Floor 0: the terms of batch scheduling as types. Ids, states, times and the job specification as
//! data. Owns no I/O and no clock; everything here is plain values that other floors pass around.

mod checkpoint;
mod container;
mod cpus;
mod device;
mod digest;
mod file_copy;
mod gpu;
mod hooks;
mod id;
mod launch;
mod mail_request;
mod now;
mod pbs;
mod price;
mod random;
mod reason;
mod rerun_settings;
mod session;
mod slurm;
mod spec;
mod spec_eq;
mod start_fault;
mod stat;
mod susp;
mod units;

pub use checkpoint::{Checkpoint, CheckpointAct};
pub use container::{
    APPTAINER_GROUPS, Container, ContainerRuntime, is_address as is_image_address,
    is_name as is_image_name,
};
pub use cpus::{Binding, CPUS_MAX, Cpu, CpuBind, CpuSet, PartBinding, SlotCpus};
pub use device::{DEVICES_MAX, DeviceNode};
pub use digest::{hex, sha256_hex};
pub use file_copy::{CopyWay, FILE_COPIES_MAX, FileCopy};
pub use gpu::{Gpu, ProcessUse};
pub use hooks::{
    ControlAct, ControlOf, Controls, HookOf, Hooks, RunWarning, WARN_BEFORE_MAX_S, WarnedProcesses,
};
#[cfg(test)]
pub use id::first_attempt;
pub use id::{AttemptId, JobKey, Token};
pub use launch::{
    LAUNCH_KINDS, Launch, LaunchKind, SECTION_COMMAND_MAX, SECTIONS_MAX, TaskSection,
};
pub use mail_request::MailRequest;
pub use now::{Mono, Now};
pub use pbs::PbsJob;
pub use price::{Charge, Discount, MICRO, Money, NameList, Price, WHOLE_DISCOUNT};
pub use random::SplitMix64;
pub use reason::{HostCounts, NearestHost, PendReason, SelectMiss, TermReason};
pub use rerun_settings::{MAX_RETRIES, RerunSettings, Retry};
pub use session::{Session, Terminal};
pub use slurm::{SlurmArray, SlurmJob};
pub use spec::{CloneOf, Limits, OomKill, Orphans, Restart, Spec, Submission};
pub use start_fault::StartFault;
pub use stat::JobStat;
pub use susp::SuspReason;
pub use units::{HeldUnit, ShortName, UnitCheck, UnitNames, Units, WHOLE_UNIT};

use serde::{Deserialize, Serialize};
use std::fmt;

/// A point in time: milliseconds since the Unix epoch by the wall clock of its writer.
/// Data only: decisions about leases and limits use monotonic clocks, never two hosts' stamps.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Stamp(pub i64);

impl Stamp {
    /// Milliseconds from `earlier` to `self`, 0 if the clock went backwards in between.
    pub fn since_ms(self, earlier: Stamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// This stamp moved into the future by `ms` milliseconds.
    pub fn plus_ms(self, ms: u64) -> Stamp {
        Stamp(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }
}

/// Slots of one job on one host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Share(pub String, pub u32);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1 == 1 {
            write!(f, "{}", self.0)
        } else {
            write!(f, "{}*{}", self.1, self.0)
        }
    }
}
