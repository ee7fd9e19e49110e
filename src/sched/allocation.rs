//! What one piece of started work holds, what it adds to its user's use, and the fingerprint by
//! which the record is known to be up to date. Changes no usage.

use super::amount::{Bundle, HostBundles};
use super::host_usage::{Holder, ResourceId};
use super::hosts::HostTable;
use super::quota::Ident;
use super::shape::Shape;
use super::share::{Amounts, Delta, Leaf, Meter};
use super::units::HeldUnits;
use crate::model::{JobKey, Stamp};
use crate::state::{Run, State};
use std::sync::Arc;

/// The resources that one started job or element holds. It is kept small: there may be a million of
/// them, each read when its job ends, long after it was written.
#[derive(Clone, Debug)]
pub(super) struct Allocation {
    pub fingerprint: RunFingerprint,
    pub shape: u32,
    pub uid: u32,
    pub slots: u32,
    pub queue: Option<u16>,
    pub exclusive: bool,
    /// The system has stopped it.
    pub halted: bool,
    /// Its slots are lent to the job that preempted it.
    pub lent: bool,
    pub parts: HostBundles,
    /// Names of the units that it holds; `parts` counts those of them that their hosts still list.
    pub units: Box<[HeldUnits]>,
    /// The time at which it is expected to end.
    pub until: i64,
    /// The counters of section `limits` to which it adds.
    pub ident: Arc<Ident>,
    /// What it adds to those counters, if that differs from `parts`.
    pub count: Option<Box<HostBundles>>,
    /// What it adds to its user's node in the share tree of its queue.
    pub charge: Option<ShareCharge>,
}

impl Allocation {
    /// What it adds to the counters of section `limits`, one entry for each host.
    pub(super) fn limit_parts(&self) -> &[(u32, Bundle)] {
        match (&self.count, self.ident.is_free()) {
            (_, true) => &[],
            (Some(count), false) => count,
            (None, false) => &self.parts,
        }
    }

    /// If it has its compute units to itself, blocks the rest of them for other jobs.
    pub(super) fn block_compute_units(&mut self, shape: &Shape, alt: u8, table: &HostTable) {
        if shape.alternative(alt).compute_units_alone {
            self.fix_limit_parts();
            shape.rest_of_compute_units(alt, table, &mut self.parts);
        }
    }

    /// Fixes what it adds to the limit counters, so that later changes of `parts` do not change it.
    pub(super) fn fix_limit_parts(&mut self) {
        if self.count.is_none() && !self.ident.is_free() {
            self.count = Some(Box::new(self.parts.clone()));
        }
    }

    /// Whether both hold the same amounts until the same time, regardless of what they add to the
    /// user's usage.
    pub(super) fn holds_same(&self, other: &Allocation) -> bool {
        let flags =
            |allocation: &Allocation| (allocation.exclusive, allocation.halted, allocation.lent);
        let whose = |allocation: &Allocation| {
            (
                allocation.shape,
                allocation.uid,
                allocation.slots,
                allocation.queue,
                allocation.until,
            )
        };
        flags(self) == flags(other)
            && whose(self) == whose(other)
            && self.parts == other.parts
            && self.units == other.units
            && self.limit_parts() == other.limit_parts()
            && self.ident == other.ident
    }

    pub(super) fn holder(&self) -> Holder {
        Holder {
            // A job whose queue was removed is counted under no queue's number.
            queue: self.queue.unwrap_or(u16::MAX),
            uid: self.uid,
            exclusive: self.exclusive,
            lent: self.lent,
        }
    }
}

impl PartialEq for Allocation {
    fn eq(&self, other: &Allocation) -> bool {
        self.fingerprint == other.fingerprint
            && self.charge == other.charge
            && self.holds_same(other)
    }
}

/// What a started job adds to its user's usage; the [`Delta`] is computed from it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShareCharge {
    pub leaf: Leaf,
    slots: u32,
    started_at: Stamp,
    /// 0: it runs.
    stopped: Stamp,
    cpu_ms: u64,
    /// GPUs that it requested, in thousandths, if the tree counts them.
    pub gpus: u32,
    /// Amounts held beside slots, if any; the first entry is ignored.
    amounts: Option<Box<Amounts>>,
}

/// What a share tree counts beside slots and time.
#[derive(Clone, Copy)]
pub(super) struct ChargedResources {
    /// Amounts that the jobs hold.
    pub amounts: bool,
    /// The resource that represents GPUs, if their time is counted.
    pub gpu: Option<ResourceId>,
    /// Usage before this moment is already in the history.
    pub since: Stamp,
}

impl ShareCharge {
    /// The charge of a job that starts with these parts.
    pub(super) fn start(
        leaf: Leaf,
        slots: u32,
        now: Stamp,
        parts: &[(u32, Bundle)],
        counts: ChargedResources,
    ) -> Self {
        ShareCharge {
            leaf,
            slots,
            started_at: now,
            stopped: Stamp(0),
            cpu_ms: 0,
            gpus: counts.gpu.map_or(0, |gpu| gpus_of(gpu, parts)),
            amounts: counts.amounts.then(|| held_amounts(parts)).flatten(),
        }
    }

    /// The charge of a running job.
    pub(super) fn of(
        leaf: Leaf,
        run: &Run,
        parts: &[(u32, Bundle)],
        counts: ChargedResources,
    ) -> ShareCharge {
        let begun = charged_from(run, counts.since);
        let stopped = run.suspension.since;
        ShareCharge {
            stopped: if stopped == Stamp(0) {
                stopped
            } else {
                stopped.max(begun)
            },
            cpu_ms: run.usage().cpu_ms,
            ..ShareCharge::start(leaf, run.slots(), begun, parts, counts)
        }
    }

    /// The time for which it ran until `now` or until it was stopped.
    pub(super) fn ran_ms(&self, now: Stamp) -> u64 {
        let until = match self.stopped {
            Stamp(0) => now,
            stopped => stopped,
        };
        until.since_ms(self.started_at)
    }

    pub(super) fn delta(&self) -> Delta {
        let mut delta = Delta::start(self.slots, self.started_at);
        if self.gpus > 0 {
            delta.run(Meter::Gpu, i64::from(self.gpus), self.started_at);
        }
        if self.stopped != Stamp(0) {
            delta.run(Meter::Run, -i64::from(self.slots), self.stopped);
            delta.run(Meter::Gpu, -i64::from(self.gpus), self.stopped);
        }
        delta.ms[Meter::Cpu as usize] += i128::from(self.cpu_ms);
        match &self.amounts {
            Some(amounts) => delta.with_held(amounts),
            None => delta,
        }
    }
}

/// The start time that a run would have if it had never been suspended, at least `since`: usage
/// before that is in the history.
pub(super) fn charged_from(run: &Run, since: Stamp) -> Stamp {
    let begun = match run.start {
        Stamp(0) => run.dispatch,
        start => start,
    };
    begun.plus_ms(run.suspension.total_ms).max(since)
}

/// Sum of the GPUs of all parts, in thousandths.
pub(super) fn gpus_of(gpu: ResourceId, parts: &[(u32, Bundle)]) -> u32 {
    let all: i64 = parts
        .iter()
        .map(|(_, part)| part.get(usize::from(gpu)))
        .sum();
    u32::try_from(all.max(0)).unwrap_or(u32::MAX)
}

/// GPU time of `gpus` thousandths of a GPU over `ms`.
pub(super) fn gpu_ms(gpus: u32, ms: u64) -> u64 {
    ms.saturating_mul(u64::from(gpus)) / 1000
}

/// Sum of the amounts of all parts, slots first, as share trees count them. `None`: slots only.
fn held_amounts(parts: &[(u32, Bundle)]) -> Option<Box<Amounts>> {
    let mut all = Bundle::default();
    parts.iter().for_each(|(_, bundle)| all.add(bundle));
    let some = all.res.iter().any(|amount| *amount != 0);
    some.then(|| Box::new([all.slots].into_iter().chain(all.res).collect()))
}

/// The values of a run that determine its [`Allocation`]: while they are equal, so is the
/// allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunFingerprint {
    pub spec: u32,
    /// 0: the start was decided but has not been applied yet.
    attempt: u32,
    dispatch: Stamp,
    start: Stamp,
    stopped_at: Stamp,
    suspended_ms: u64,
    used: [u64; 3],
    slots: u32,
    stops: (bool, bool, bool),
}

impl RunFingerprint {
    /// Returns `None` if the job does not run.
    pub(super) fn of(state: &State, j: JobKey) -> Option<RunFingerprint> {
        let job = state.job(j.id)?;
        let work = job.work(j.idx).filter(|work| work.stat.is_started())?;
        let run = work.run.as_deref()?;
        Some(RunFingerprint {
            spec: job.spec,
            attempt: work.attempt,
            dispatch: run.dispatch,
            start: run.start,
            stopped_at: run.suspension.since,
            suspended_ms: run.suspension.total_ms,
            used: [run.usage().cpu_ms, run.usage().mem_kb, run.usage().swap_kb],
            slots: run.slots(),
            stops: (
                run.suspension.by_system.is_some(),
                run.lends_slots(),
                run.to_stop(),
            ),
        })
    }

    /// The fingerprint after a decided start is carried out, if the job has this specification of
    /// its class.
    pub(super) fn after_start(spec: u32, now: Stamp, slots: u32) -> RunFingerprint {
        RunFingerprint {
            spec,
            attempt: 0,
            dispatch: now,
            start: Stamp(0),
            stopped_at: Stamp(0),
            suspended_ms: 0,
            used: [0; 3],
            slots,
            stops: (false, false, false),
        }
    }

    /// Whether the decided start is the one that was carried out.
    pub(super) fn predicted(&self, real: &RunFingerprint) -> bool {
        self.attempt == 0
            && *self
                == RunFingerprint {
                    attempt: 0,
                    ..*real
                }
    }
}
