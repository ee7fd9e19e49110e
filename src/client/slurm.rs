//! Slurm's names of the commands: links to the same executable, so that programs and scripts
//! written for Slurm can submit, list and cancel jobs unchanged.
//!
//! Owns the table of these names. Their options are Slurm's, not Corral's; docs/slurm.md describes
//! the equivalent of each.

mod command_line;
pub(crate) mod fields;
pub(crate) mod format;
pub(crate) mod jobs;
mod json;
pub(crate) mod sacct;
mod sacct_fields;
mod sacct_json;
pub(crate) mod sbatch;
pub(crate) mod scancel;
pub(crate) mod scontrol;
mod scontrol_show;
pub(crate) mod sinfo;
mod sinfo_json;
mod sinfo_nodes;
pub(crate) mod squeue;
pub(crate) mod states;

use super::{Entry, entry};

/// Each name with its purpose.
pub(crate) const COMMANDS: &[Entry] = &[
    entry(&["sbatch"], "submit a batch script", sbatch::run),
    entry(&["squeue"], "list jobs that have not ended", squeue::run),
    entry(
        &["scancel"],
        "cancel jobs or send them a signal",
        scancel::run,
    ),
    entry(&["sinfo"], "list queues and hosts", sinfo::run),
    entry(&["sacct"], "list jobs with what they have used", sacct::run),
    entry(
        &["scontrol"],
        "show and change jobs, nodes and partitions",
        scontrol::run,
    ),
];
