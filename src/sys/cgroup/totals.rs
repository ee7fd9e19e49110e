//! The total usage of a control group and the groups below it, for a task whose processes are the
//! children of a daemon: the usage of the task's own processes at their exit does not include them,
//! and the groups that the daemon created may be gone by then. Changes nothing except counters that
//! can be reset.

use super::below;
use super::values::{keyed, number, write};
use crate::sys::fs;
use std::path::{Path, PathBuf};

/// How often charges reached the memory limit, and the maximum memory; in version 1, writing resets
/// them.
const LIMIT_HITS: &str = "memory.failcnt";
const MAX_MEMORY: &str = "memory.max_usage_in_bytes";

/// Counting since the start of a task.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    cpu_us: u64,
}

/// Usage since then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TotalUsage {
    pub cpu_us: u64,
    /// 0: unknown, as in version 2, which cannot reset it.
    pub most_kb: u64,
    /// How often the memory limit was reached. Only in version 1: version 2 counts kills of lower
    /// groups in the groups above.
    pub limit_hits: u64,
}

impl Totals {
    /// For the group in `main`. `memory`: its directory of the version 1 memory controller.
    pub(super) fn begin(main: &Path, memory: Option<&Path>) -> Totals {
        if let Some(memory) = memory {
            // Best effort: what is not reset belongs to the previous task.
            let _ = write(&memory.join(LIMIT_HITS), "0");
            let _ = write(&memory.join(MAX_MEMORY), "0");
        }
        Totals {
            cpu_us: cpu_us(main, memory),
        }
    }

    pub(super) fn used(&self, main: &Path, memory: Option<&Path>) -> TotalUsage {
        let of = |name: &str| memory.map_or(0, |dir| number(dir.join(name)));
        TotalUsage {
            cpu_us: cpu_us(main, memory).saturating_sub(self.cpu_us),
            most_kb: of(MAX_MEMORY) / 1024,
            limit_hits: of(LIMIT_HITS),
        }
    }
}

/// CPU time of all processes that ever ran in the group or below it.
fn cpu_us(main: &Path, memory: Option<&Path>) -> u64 {
    let stat = fs::read_small(&main.join("cpu.stat"), 4096).unwrap_or_default();
    if memory.is_none() && !stat.is_empty() {
        return keyed(&stat, "usage_usec");
    }
    // This is not one of the controllers into which tasks are put: a daemon creates the same group
    // there.
    let mounts = fs::read_small(Path::new("/proc/self/mounts"), 1 << 20).unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts);
    let usage = |dir: PathBuf| Some(dir.join("cpuacct.usage")).filter(|path| fs::exists(path));
    let found = below::elsewhere(main, &mounts).into_iter().find_map(usage);
    found.map_or(0, number) / 1000
}
