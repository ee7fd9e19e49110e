//! The use of GPUs and of the network by running attempts on this host, now and in total. Owns the
//! file that keeps the sums over a restart of `cbexe` (`use.json` in the local directory). Never
//! decides to which attempt a process belongs.

use super::net_counts::{AttemptBytes, Bytes, NetCounts};
use crate::host::local::Local;
use crate::model::AttemptId;
use crate::record::device_use::DeviceUse;
use crate::record::sealed;
use crate::sys::{fs, proc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum size of the file in bytes.
const FILE_MAX: u64 = 16 << 20;
/// Maximum interval between two samples that counts in the integral of the utilization, ms.
const STEP_MAX_MS: u64 = 15_000;

/// The entry of an attempt in the file.
#[derive(Serialize, Deserialize)]
struct SavedCount {
    #[serde(flatten)]
    a: AttemptId,
    u: DeviceUse,
    /// Bytes received and sent over connections that are closed.
    #[serde(default)]
    closed: (u64, u64),
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Document {
    boot: String,
    attempts: Vec<SavedCount>,
}

/// Percent of a GPU and memory in MB.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct GpuNow {
    pub util: u64,
    pub mem_mb: u64,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct DeviceCounts {
    pub net: NetCounts,
    gpus: BTreeMap<AttemptId, DeviceUse>,
    sampled_at: u64,
    /// The content that was written last.
    written: Vec<u8>,
    /// Connections cannot be listed, and this was logged.
    pub failing: bool,
}

impl DeviceCounts {
    /// Continues with the sums that an earlier process of this program counted.
    pub(super) fn read(&mut self, local: &Local) {
        let bytes = match fs::read_optional(&local.device_use(), FILE_MAX) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(e) => {
                return tracing::warn!(
                    "{e}: the usage of GPUs and network is counted from \
                zero"
                );
            }
        };
        let read = sealed::from_json::<Document>(&bytes);
        let (doc, _) = read.unwrap_or_else(|e| {
            let path = local.device_use();
            tracing::error!(
                "{}:{}: {}: the usage of GPUs and network is counted from zero",
                path.display(),
                e.offset,
                e.damage
            );
            Default::default()
        });
        if doc.boot == proc::boot_id() {
            doc.attempts
                .into_iter()
                .for_each(|saved| self.restore(&saved));
        }
        self.written = bytes;
    }

    fn restore(&mut self, saved: &SavedCount) {
        let (received, sent) = saved.closed;
        let least = Bytes {
            received: saved.u.net_in_kb << 10,
            sent: saved.u.net_out_kb << 10,
        };
        let sum = AttemptBytes::restored(Bytes { received, sent }, least);
        if sum != AttemptBytes::default() {
            self.net.sums.insert(saved.a, sum);
        }
        let gpu = DeviceUse {
            net_in_kb: 0,
            net_out_kb: 0,
            ..saved.u.totals()
        };
        if gpu != DeviceUse::default() {
            self.gpus.insert(saved.a, gpu);
        }
    }

    /// Writes changes since the last write. After a failure, a restart lacks these sums.
    pub(super) fn write(&mut self, local: &Local) {
        let attempts = self.net.sums.keys().chain(self.gpus.keys());
        let mut attempts: Vec<AttemptId> = attempts.copied().collect();
        attempts.sort_unstable();
        attempts.dedup();
        let path = local.device_use();
        if attempts.is_empty() {
            if !self.written.is_empty() {
                self.written.clear();
                // The file has only entries of attempts that are over.
                let _ = fs::remove(&path);
            }
            return;
        }
        let saved = attempts.into_iter().map(|a| {
            let closed = self.net.sums.get(&a).map(|sum| sum.closed);
            let closed = closed.unwrap_or_default();
            SavedCount {
                a,
                u: self.of(a).totals(),
                closed: (closed.received, closed.sent),
            }
        });
        let doc = Document {
            boot: proc::boot_id().to_owned(),
            attempts: saved.collect(),
        };
        let bytes = sealed::to_json(&doc).expect("plain data becomes JSON");
        if bytes != self.written {
            match fs::publish(&path, &bytes) {
                Ok(()) => self.written = bytes,
                Err(e) => tracing::debug!("{e}"),
            }
        }
    }

    /// Adds the use of GPUs by attempts at `now`.
    pub(super) fn note_gpus(&mut self, uses: &BTreeMap<AttemptId, GpuNow>, now: u64) {
        let step = match self.sampled_at {
            0 => 0,
            before => now.saturating_sub(before).min(STEP_MAX_MS),
        };
        self.sampled_at = now;
        for a in uses.keys() {
            self.gpus.entry(*a).or_default();
        }
        for (a, known) in &mut self.gpus {
            let GpuNow { util, mem_mb } = uses.get(a).copied().unwrap_or_default();
            *known = known.updated_by(DeviceUse {
                gpu_util: util,
                gpu_mem_mb: mem_mb,
                gpu_ms: known.gpu_ms.saturating_add(util.saturating_mul(step) / 100),
                ..DeviceUse::default()
            });
        }
    }

    /// The current and the total use of an attempt.
    pub(super) fn of(&self, a: AttemptId) -> DeviceUse {
        let net = self.net.sums.get(&a).copied().unwrap_or_default().all();
        DeviceUse {
            net_in_kb: net.received >> 10,
            net_out_kb: net.sent >> 10,
            ..self.gpus.get(&a).copied().unwrap_or_default()
        }
    }

    /// Forgets attempts that are over.
    pub(super) fn retain(&mut self, keep: impl Fn(AttemptId) -> bool) {
        self.gpus.retain(|a, _| keep(*a));
        self.net.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::first_attempt as a;

    fn uses(id: u32, util: u64, mem_mb: u64) -> BTreeMap<AttemptId, GpuNow> {
        BTreeMap::from([(a(id), GpuNow { util, mem_mb })])
    }

    #[test]
    fn utilization_is_integrated_and_memory_has_a_maximum() {
        let mut counts = DeviceCounts::default();
        counts.note_gpus(&uses(1, 180, 900), 1_000);
        assert_eq!(counts.of(a(1)).gpu_ms, 0, "nothing is known of before");
        counts.note_gpus(&uses(1, 180, 400), 6_000);
        counts.note_gpus(&uses(1, 50, 400), 10_000);
        let used = counts.of(a(1));
        assert_eq!((used.gpu_util, used.gpu_mem_mb), (50, 400));
        assert_eq!((used.max_gpu_mem_mb, used.gpu_ms), (900, 9_000 + 2_000));
        counts.note_gpus(&BTreeMap::new(), 15_000);
        let used = counts.of(a(1));
        assert_eq!(
            (used.gpu_util, used.gpu_mem_mb, used.gpu_ms),
            (0, 0, 11_000)
        );
        // A host that was suspended for an hour did not compute for an hour.
        counts.note_gpus(&uses(1, 100, 1), 3_615_000);
        assert_eq!(counts.of(a(1)).gpu_ms, 11_000 + STEP_MAX_MS);
        counts.retain(|of| of != a(1));
        assert_eq!(counts.of(a(1)), DeviceUse::default());
    }

    #[test]
    fn a_restart_loses_no_sum_and_another_boot_keeps_none() {
        let dir = tempfile::tempdir().unwrap();
        let local = Local::at(dir.path());
        let mut counts = DeviceCounts::default();
        counts.write(&local);
        assert!(!local.device_use().exists(), "there is nothing to keep");
        let closed = Bytes {
            received: 5 << 10,
            sent: 9,
        };
        let sum = AttemptBytes::restored(closed, Bytes::default());
        counts.net.sums.insert(a(1), sum);
        counts.note_gpus(&uses(2, 100, 70), 1_000);
        counts.note_gpus(&uses(2, 100, 70), 2_000);
        counts.write(&local);
        let mut next = DeviceCounts::default();
        next.read(&local);
        assert_eq!(next.of(a(1)), counts.of(a(1)));
        assert_eq!(next.of(a(2)), counts.of(a(2)).totals());
        assert_eq!(next.net.sums[&a(1)].closed.sent, 9);
        next.retain(|_| false);
        next.write(&local);
        assert!(!local.device_use().exists());
        counts.written.clear();
        counts.write(&local);
        let text = std::fs::read_to_string(local.device_use()).unwrap();
        let text = text.replace(proc::boot_id(), "another");
        std::fs::write(local.device_use(), text).unwrap();
        let mut later = DeviceCounts::default();
        later.read(&local);
        assert_eq!(later.of(a(1)), DeviceUse::default());
        std::fs::write(local.device_use(), "{").unwrap();
        later.read(&local);
        assert_eq!(later.of(a(2)), DeviceUse::default());
    }
}
