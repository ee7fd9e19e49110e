//! The use of GPUs and of the network by an attempt. Owns how such figures are added and which of
//! them never decrease; never measures anything.

use serde::{Deserialize, Serialize};

/// GPUs and network traffic of an attempt. Memory in MB, busy time in ms, traffic in KB.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceUse {
    /// Percent of one GPU, added over processes and units: 180 means 1.8 GPUs.
    #[serde(rename = "gu", skip_serializing_if = "is_zero")]
    pub gpu_util: u64,
    #[serde(rename = "gm", skip_serializing_if = "is_zero")]
    pub gpu_mem_mb: u64,
    #[serde(rename = "gx", skip_serializing_if = "is_zero")]
    pub max_gpu_mem_mb: u64,
    /// Utilization integrated over time: a GPU at 50 percent for 2 s counts as 1000.
    #[serde(rename = "gb", skip_serializing_if = "is_zero")]
    pub gpu_ms: u64,
    #[serde(rename = "ni", skip_serializing_if = "is_zero")]
    pub net_in_kb: u64,
    #[serde(rename = "no", skip_serializing_if = "is_zero")]
    pub net_out_kb: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl DeviceUse {
    /// In the form in which it is stored; `None` if it is empty.
    pub fn boxed(self) -> Option<Box<DeviceUse>> {
        (self != DeviceUse::default()).then(|| Box::new(self))
    }

    /// Sums and maxima: the figures that remain after the end.
    pub fn totals(self) -> DeviceUse {
        DeviceUse {
            gpu_util: 0,
            gpu_mem_mb: 0,
            ..self
        }
    }

    /// `new` merged after this: maxima are kept, counters never decrease.
    #[must_use]
    pub fn updated_by(self, new: DeviceUse) -> DeviceUse {
        let max = self.max_gpu_mem_mb.max(new.gpu_mem_mb);
        DeviceUse {
            max_gpu_mem_mb: max.max(new.max_gpu_mem_mb),
            gpu_ms: self.gpu_ms.max(new.gpu_ms),
            net_in_kb: self.net_in_kb.max(new.net_in_kb),
            net_out_kb: self.net_out_kb.max(new.net_out_kb),
            ..new
        }
    }

    /// The sum of both; maxima are added too.
    #[must_use]
    pub fn plus(self, more: DeviceUse) -> DeviceUse {
        self.combined(more, u64::saturating_add)
    }

    /// The amounts beyond those in `known`.
    #[must_use]
    pub fn excess_over(self, known: DeviceUse) -> DeviceUse {
        self.combined(known, u64::saturating_sub)
    }

    fn combined(self, other: DeviceUse, of: fn(u64, u64) -> u64) -> DeviceUse {
        DeviceUse {
            gpu_util: of(self.gpu_util, other.gpu_util),
            gpu_mem_mb: of(self.gpu_mem_mb, other.gpu_mem_mb),
            max_gpu_mem_mb: of(self.max_gpu_mem_mb, other.max_gpu_mem_mb),
            gpu_ms: of(self.gpu_ms, other.gpu_ms),
            net_in_kb: of(self.net_in_kb, other.net_in_kb),
            net_out_kb: of(self.net_out_kb, other.net_out_kb),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(util: u64, mem: u64, ms: u64, net: u64) -> DeviceUse {
        DeviceUse {
            gpu_util: util,
            gpu_mem_mb: mem,
            max_gpu_mem_mb: mem,
            gpu_ms: ms,
            net_in_kb: net,
            net_out_kb: 2 * net,
        }
    }

    #[test]
    fn counters_never_fall_and_present_values_do() {
        let later = used(90, 700, 50, 8).updated_by(used(10, 100, 20, 3));
        assert_eq!((later.gpu_util, later.gpu_mem_mb), (10, 100));
        assert_eq!((later.max_gpu_mem_mb, later.gpu_ms), (700, 50));
        assert_eq!((later.net_in_kb, later.net_out_kb), (8, 16));
        let seen = DeviceUse::default().updated_by(DeviceUse {
            gpu_mem_mb: 5,
            ..DeviceUse::default()
        });
        assert_eq!(seen.max_gpu_mem_mb, 5);
    }

    #[test]
    fn what_hosts_have_used_is_added_and_nothing_is_counted_twice() {
        let two = used(90, 700, 50, 8).plus(used(90, 100, 20, 3));
        assert_eq!(two, used(180, 800, 70, 11));
        assert_eq!(two.excess_over(used(90, 700, 50, 8)), used(90, 100, 20, 3));
        assert_eq!(used(1, 1, 1, 1).excess_over(two), DeviceUse::default());
        assert_eq!(two.totals().gpu_util + two.totals().gpu_mem_mb, 0);
        assert_eq!(two.totals().max_gpu_mem_mb, 800);
    }

    #[test]
    fn nothing_takes_no_room() {
        assert_eq!(DeviceUse::default().boxed(), None);
        let text = serde_json::to_string(&DeviceUse::default()).unwrap();
        assert_eq!(text, "{}");
    }
}
