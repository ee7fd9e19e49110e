//! Totals over accounting records, with memory that depends on the number of names, not of records.
//!
//! Owns the sums, the spread of waiting times (to within 2 %) and the division of an attempt among
//! its hosts. Never reads a file and never prints.

use super::cost::AttemptCost;
use crate::record::acct::AttemptRecord;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Bits of a value that its bucket in a [`Distribution`] keeps, not counting the highest one.
const KEPT_BITS: u32 = 6;

/// A distribution of values: each counts in a bucket whose width is at most 1/64 of the value.
#[derive(Clone, Default, Debug)]
pub(super) struct Distribution {
    counts: FxHashMap<u32, u64>,
    count: u64,
    sum: u128,
    min: Option<u64>,
    most: u64,
}

impl Distribution {
    pub(super) fn add(&mut self, value: u64) {
        *self.counts.entry(bucket_of(value)).or_default() += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = Some(self.min.map_or(value, |least| least.min(value)));
        self.most = self.most.max(value);
    }

    /// Adds the values of another distribution.
    pub(super) fn merge(&mut self, other: &Distribution) {
        for (bucket, n) in &other.counts {
            *self.counts.entry(*bucket).or_default() += n;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = match (self.min, other.min) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, None) | (None, one) => one,
        };
        self.most = self.most.max(other.most);
    }

    pub(super) fn sum(&self) -> u128 {
        self.sum
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The median, if there is any value.
    pub(super) fn median(&self) -> Option<u64> {
        (self.count > 0).then(|| self.percentile(50))
    }

    pub(super) fn least(&self) -> u64 {
        self.min.unwrap_or(0)
    }

    pub(super) fn max(&self) -> u64 {
        self.most
    }

    pub(super) fn mean(&self) -> u64 {
        let mean = self.sum / u128::from(self.count.max(1));
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// The smallest value that this percentage of the values does not exceed.
    pub(super) fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut buckets: Vec<(u32, u64)> = self.counts.iter().map(|(p, n)| (*p, *n)).collect();
        buckets.sort_unstable();
        let mut cumulative = 0;
        for (bucket, n) in buckets {
            cumulative += n;
            if cumulative >= rank {
                return top_of(bucket).clamp(self.least(), self.most);
            }
        }
        0
    }
}

/// The bucket of a value: the value itself if small, else its highest bit and the bits after it.
fn bucket_of(value: u64) -> u32 {
    let bits = u64::BITS - value.leading_zeros();
    let shift = bits.saturating_sub(KEPT_BITS + 1);
    (shift << (KEPT_BITS + 1)) | u32::try_from(value >> shift).unwrap_or(u32::MAX)
}

/// The highest value of a bucket.
fn top_of(bucket: u32) -> u64 {
    let (shift, leading_bits) = (
        bucket >> (KEPT_BITS + 1),
        bucket & ((1 << (KEPT_BITS + 1)) - 1),
    );
    (u64::from(leading_bits) << shift) | ((1 << shift) - 1)
}

/// Sums over attempts.
#[derive(Clone, Default, Debug)]
pub(super) struct Totals {
    pub done: u64,
    pub exited: u64,
    pub requeued: u64,
    pub cpu: Distribution,
    /// Slots, and units of `gpu` in thousandths, times the run time in ms.
    pub slot_ms: u128,
    pub gpu_ms: u128,
    /// In millionths of the currency.
    pub cost: u128,
    /// Of attempts that were the last of their jobs.
    pub wait: Distribution,
    pub turnaround: Distribution,
}

/// What is counted of an attempt.
struct AttemptUsage {
    cpu_ms: u64,
    slots: u64,
    gpu: u64,
    cost: u128,
}

/// The part of an attempt on one of its hosts.
pub(super) struct HostPart<'r> {
    pub host: &'r str,
    pub slots: u64,
    /// Thousandths of units of `gpu`.
    pub gpu: u64,
}

/// The hosts of an attempt, each once.
pub(super) fn host_parts<'r>(record: &'r AttemptRecord<'_>) -> Vec<HostPart<'r>> {
    if let [one] = record.hosts.as_slice() {
        return vec![HostPart {
            host: &one.0,
            slots: one.1.into(),
            gpu: record.unit_parts("gpu"),
        }];
    }
    let mut slots: BTreeMap<&str, u64> = BTreeMap::new();
    for host in &record.hosts {
        *slots.entry(&host.0).or_default() += u64::from(host.1);
    }
    let parts = slots.into_iter().map(|(host, slots)| {
        let on_host = record.units.iter().filter(|u| u.host == host);
        let one = AttemptRecord {
            units: on_host.cloned().collect(),
            ..AttemptRecord::default()
        };
        let gpu = one.unit_parts("gpu");
        HostPart { host, slots, gpu }
    });
    parts.collect()
}

impl Totals {
    pub(super) fn add(&mut self, record: &AttemptRecord<'_>, bill: &AttemptCost<'_>) {
        let part = AttemptUsage {
            cpu_ms: record.cpu_ms,
            slots: record.slots(),
            gpu: record.unit_parts("gpu"),
            cost: bill.total(),
        };
        self.count(record, &part);
    }

    /// Adds the sums of other totals.
    pub(super) fn merge(&mut self, other: &Totals) {
        self.done += other.done;
        self.exited += other.exited;
        self.requeued += other.requeued;
        self.slot_ms += other.slot_ms;
        self.gpu_ms += other.gpu_ms;
        self.cost = self.cost.saturating_add(other.cost);
        self.cpu.merge(&other.cpu);
        self.wait.merge(&other.wait);
        self.turnaround.merge(&other.turnaround);
    }

    fn count(&mut self, record: &AttemptRecord<'_>, part: &AttemptUsage) {
        let run_ms = u128::from(record.run_ms());
        self.cpu.add(part.cpu_ms);
        self.slot_ms += run_ms * u128::from(part.slots);
        self.gpu_ms += run_ms * u128::from(part.gpu);
        self.cost = self.cost.saturating_add(part.cost);
        if record.requeued {
            self.requeued += 1;
            return;
        }
        match record.is_done() {
            true => self.done += 1,
            false => self.exited += 1,
        }
        if let Some(wait) = record.wait_ms() {
            self.wait.add(wait);
        }
        self.turnaround.add(record.turnaround_ms());
    }
}

/// What totals are grouped by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grouping {
    User,
    Group,
    Project,
    App,
    Queue,
    Host,
}

impl Grouping {
    pub(super) const ALL: [(&'static str, Grouping); 6] = [
        ("user", Grouping::User),
        ("group", Grouping::Group),
        ("project", Grouping::Project),
        ("app", Grouping::App),
        ("queue", Grouping::Queue),
        ("host", Grouping::Host),
    ];

    pub(super) fn parse(word: &str) -> Option<Grouping> {
        let row = Grouping::ALL.iter().find(|(name, _)| *name == word);
        row.map(|(_, by)| *by)
    }

    pub(super) fn word(self) -> &'static str {
        let row = Grouping::ALL.iter().find(|(_, by)| *by == self);
        row.map_or("", |(word, _)| *word)
    }
}

/// Totals by name.
pub(super) type ByName = BTreeMap<String, Totals>;

fn of<'g>(groups: &'g mut ByName, name: &str) -> &'g mut Totals {
    // Not by `entry`, which needs a copy of the name for each record.
    if !groups.contains_key(name) {
        groups.insert(name.to_owned(), Totals::default());
    }
    groups.get_mut(name).expect("it was inserted")
}

/// Adds the totals of other records.
pub(super) fn merge(groups: &mut ByName, other: &ByName) {
    for (name, totals) in other {
        of(groups, name).merge(totals);
    }
}

/// Counts an attempt for its name. By host, each host of an attempt counts its own slots and units,
/// and CPU time in proportion to the slots.
pub(super) fn count_by(
    groups: &mut ByName,
    by: Grouping,
    record: &AttemptRecord<'_>,
    bill: &AttemptCost<'_>,
) {
    let name = match by {
        Grouping::User => &record.user,
        Grouping::Group => &record.group,
        Grouping::Project => &record.project,
        Grouping::App => &record.app,
        Grouping::Queue => &record.queue,
        Grouping::Host => return count_by_host(groups, record, bill),
    };
    let name = if name.is_empty() { "-" } else { name };
    of(groups, name).add(record, bill);
}

fn count_by_host(groups: &mut ByName, record: &AttemptRecord<'_>, bill: &AttemptCost<'_>) {
    let all = u128::from(record.slots().max(1));
    for HostPart { host, slots, gpu } in host_parts(record) {
        let cpu_ms = u128::from(record.cpu_ms) * u128::from(slots) / all;
        let part = AttemptUsage {
            cpu_ms: u64::try_from(cpu_ms).unwrap_or(u64::MAX),
            slots,
            gpu,
            cost: bill.on_host(host),
        };
        of(groups, host).count(record, &part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_for_small_values_and_near_for_large_ones() {
        let mut spread = Distribution::default();
        (1..=100).for_each(|n| spread.add(n));
        assert_eq!((spread.percentile(50), spread.mean()), (50, 50));
        assert_eq!((spread.least(), spread.max()), (1, 100));
        assert_eq!(spread.percentile(95), 95);
        let mut spread = Distribution::default();
        (1..=10_000).for_each(|n| spread.add(n * 1000));
        for (percent, exact) in [(50, 5_000_000), (95, 9_500_000), (100, 10_000_000)] {
            let found = spread.percentile(percent);
            assert!(found >= exact && found - exact <= exact / 50, "{found}");
        }
        assert_eq!(Distribution::default().percentile(95), 0);
        for value in [0, 1, 127, 128, 129, 1 << 40, u64::MAX] {
            let top = top_of(bucket_of(value));
            assert!(top >= value && top - value <= value / 64, "{value} {top}");
        }
    }
}
