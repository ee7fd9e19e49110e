//! Fragmentation of the virtual cluster, kept as jobs start and end. Owns what the usual tasks of a
//! workload are (by their requirement strings, weighted by jobs) and the last value of each host;
//! the measure itself is in `fragmentation`. Reads the usage that the engine keeps, never changes
//! it.

use super::fragmentation::{FreeAmounts, TaskNeed, fragments};
use super::workload::Workload;
use crate::config::Config;
use crate::sched::{Engine, HostTable};
use crate::text::resreq::{AmountScope, ResReq, Span};
use std::collections::BTreeMap;

/// The resource that counts devices.
const DEVICE: &str = "gpu";
/// Maximum number of kinds of tasks that are considered, the most frequent ones.
const KINDS_MAX: usize = 64;

/// See the head of this file.
pub struct HostFragmentation {
    needs: Vec<TaskNeed>,
    /// Resources of [`TaskNeed::amounts`] after the slots.
    names: Vec<String>,
    by_slots: bool,
    hosts: Vec<f64>,
    total: f64,
    capacity: f64,
}

/// What one task needs: slots, amounts by name, devices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TaskKind {
    slots: i64,
    amounts: BTreeMap<String, i64>,
    unit: i64,
}

impl HostFragmentation {
    pub fn new(workload: &Workload, config: &Config, hosts: &HostTable) -> HostFragmentation {
        let mut jobs = vec![0u64; workload.requests.len()];
        for job in &workload.jobs {
            jobs[job.request as usize] += 1;
        }
        let mut kinds: BTreeMap<TaskKind, u64> = BTreeMap::new();
        for (ask, n) in workload.requests.iter().zip(jobs) {
            for kind in kinds_of(&ask.res_req, ask.min, config, hosts.count() == 1) {
                *kinds.entry(kind).or_default() += n;
            }
        }
        let mut kinds: Vec<(TaskKind, u64)> = kinds.into_iter().collect();
        kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        kinds.truncate(KINDS_MAX);
        let mut names: Vec<String> = Vec::new();
        for name in kinds.iter().flat_map(|(kind, _)| kind.amounts.keys()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let all = kinds.iter().map(|(_, n)| n).sum::<u64>().max(1) as f64;
        let needs = kinds.iter().map(|(kind, n)| TaskNeed {
            part: *n as f64 / all,
            amounts: std::iter::once(kind.slots)
                .chain(
                    names
                        .iter()
                        .map(|name| kind.amounts.get(name).copied().unwrap_or(0)),
                )
                .collect(),
            unit: kind.unit,
        });
        let devices: f64 = hosts.iter().filter_map(|h| h.number(DEVICE)).sum();
        let by_slots = devices <= 0.0 || kinds.iter().all(|(kind, _)| kind.unit == 0);
        let slots: u64 = hosts.iter().map(|h| u64::from(h.slots)).sum();
        HostFragmentation {
            needs: needs.collect(),
            by_slots,
            hosts: vec![0.0; hosts.count()],
            total: 0.0,
            capacity: 1000.0 * if by_slots { slots as f64 } else { devices },
            names,
        }
    }

    /// The capacity to which fragments are related, in thousandths.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Fragments of all hosts, in thousandths.
    pub fn total(&self) -> f64 {
        self.total.max(0.0)
    }

    /// Recomputes the hosts that changed.
    pub fn update(&mut self, engine: &Engine, mut touched: Vec<u32>) {
        touched.sort_unstable();
        touched.dedup();
        let numbers: Vec<Option<u16>> = self
            .names
            .iter()
            .map(|name| engine.resource(name))
            .collect();
        let device = engine.resource(DEVICE);
        let mut amounts = Vec::with_capacity(1 + numbers.len());
        for at in touched.into_iter().map(|at| at as usize) {
            amounts.clear();
            amounts.push(engine.free_slots(at) * 1000);
            // A resource that no job has requested yet is completely free.
            let left = |res: &Option<u16>| res.map_or(i64::MAX, |res| engine.free_amount(at, res));
            amounts.extend(numbers.iter().map(left));
            let units = device.map_or(Vec::new(), |res| engine.units_left(at, res));
            let free = FreeAmounts {
                amounts: &amounts,
                units: &units,
            };
            let now = fragments(free, &self.needs, self.by_slots);
            self.total += now - self.hosts[at];
            self.hosts[at] = now;
        }
    }
}

/// The tasks of a requirement. A job that may be spread over hosts is considered slot by slot.
fn kinds_of(res_req: &str, min: u32, config: &Config, one_host: bool) -> Vec<TaskKind> {
    let Ok(req) = ResReq::parse(res_req, config) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (group, simple) in req
        .alternatives
        .iter()
        .take(1)
        .flat_map(|a| a.body.effective())
    {
        let whole = one_host || simple.span == Some(Span::Hosts { min: 1, max: 1 });
        let slots = if whole {
            i64::from(group.unwrap_or(min))
        } else {
            1
        };
        let mut kind = TaskKind {
            slots: slots * 1000,
            amounts: BTreeMap::new(),
            unit: 0,
        };
        for usage in simple.rusage.first().into_iter().flatten() {
            let n = if usage.per == AmountScope::Task {
                slots
            } else {
                1
            };
            let amount = i64::try_from(usage.amount)
                .unwrap_or(i64::MAX)
                .saturating_mul(n);
            match usage.name == DEVICE {
                true => kind.unit += amount,
                false => *kind.amounts.entry(usage.name.clone()).or_default() += amount,
            }
        }
        out.push(kind);
    }
    out
}
