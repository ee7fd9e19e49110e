//! The past and current usage of one node of a share tree, and its cost.
//!
//! Owns the sums and the two formulas (fairshare, dominant share). Walks no jobs and reads no
//! clock: run time grows by itself between charges.

use super::decay::Decay;
use super::tournament::Cost;
use crate::config::FairFactors;
use crate::model::Stamp;
use smallvec::SmallVec;

const HOUR_MS: u128 = 3_600_000;
/// The expected run time of a job as long as no job has ended.
const FIRST_EXPECTED_MS: u64 = 60_000;
/// The minimum load by which shares are divided, in the unit of [`Usage::load`]: 0.01 hours.
const LEAST_LOAD: u128 = HOUR_MS * 1000 / 100;

/// Amounts by resource: 0 is slots, others have the engine's numbers.
pub type Amounts = SmallVec<[i64; 3]>;

/// The kinds of time that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meter {
    /// CPU time.
    Cpu = 0,
    /// Run time, of each slot of a job.
    Run = 1,
    /// Run time of each GPU of a job; the rate is in thousandths of a GPU.
    Gpu = 2,
}

const METERS: [Meter; 3] = [Meter::Cpu, Meter::Run, Meter::Gpu];

/// A change of the usage of a leaf. All parts are added; [`Delta::inverse`] reverts them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Slots of started jobs.
    pub slots: i64,
    /// Started jobs.
    pub jobs: i64,
    /// Units that are running, by [`Meter`].
    pub rate: [i64; 3],
    /// Time counted so far apart from what the running units add, by [`Meter`], in milliseconds of
    /// these units.
    pub ms: [i128; 3],
    /// Time of ended jobs, which decays, by [`Meter`], in milliseconds.
    pub hist_ms: [u64; 3],
    /// Slots of jobs that ended.
    pub ended_slots: u64,
    /// Amounts held, for the dominant share.
    pub held: Amounts,
}

impl Delta {
    /// A job of `slots` slots starts to run at `at`. For a job that is found running, `at` is the
    /// time at which it would have started if it had never been suspended.
    pub fn start(slots: u32, at: Stamp) -> Delta {
        let mut delta = Delta {
            slots: i64::from(slots),
            jobs: 1,
            held: Amounts::from_slice(&[i64::from(slots)]),
            ..Delta::default()
        };
        delta.run(Meter::Run, i64::from(slots), at);
        delta
    }

    /// The same job ends at `end`; `begun` is the value given to [`Delta::start`] plus the time it
    /// was suspended. Its CPU time so far must have been charged as `ms`; it becomes history.
    pub fn end(slots: u32, begun: Stamp, end: Stamp, cpu_ms: u64) -> Delta {
        let mut delta = Delta::start(slots, begun).inverse();
        delta.hist_ms[Meter::Run as usize] = end.since_ms(begun).saturating_mul(u64::from(slots));
        delta.ended_slots = u64::from(slots);
        delta.ms[Meter::Cpu as usize] = -i128::from(cpu_ms);
        delta.hist_ms[Meter::Cpu as usize] = cpu_ms;
        delta
    }

    /// CPU time of running jobs.
    pub fn cpu(ms: i64) -> Delta {
        let mut delta = Delta::default();
        delta.ms[Meter::Cpu as usize] = i128::from(ms);
        delta
    }

    /// Adds held amounts (index 0, slots, is ignored: [`Delta::start`] sets it).
    pub fn with_held(mut self, amounts: &[i64]) -> Delta {
        self.held
            .resize(self.held.len().max(amounts.len()).max(1), 0);
        self.held[1..amounts.len().max(1)].copy_from_slice(amounts.get(1..).unwrap_or(&[]));
        self
    }

    /// `units` more run from `at` on; fewer if negative. A job that is suspended stops its units
    /// and starts them when it resumes.
    pub fn run(&mut self, meter: Meter, units: i64, at: Stamp) {
        self.rate[meter as usize] += units;
        self.ms[meter as usize] -= i128::from(units) * i128::from(at.0);
    }

    /// The change that reverts this one. History is not reverted: it decays by itself.
    pub fn inverse(mut self) -> Delta {
        (self.slots, self.jobs) = (-self.slots, -self.jobs);
        self.rate = self.rate.map(|n| -n);
        self.ms = self.ms.map(|n| -n);
        (self.hist_ms, self.ended_slots) = ([0; 3], 0);
        self.held.iter_mut().for_each(|n| *n = -*n);
        self
    }

    /// In microseconds, so that rounding in the decay has no visible effect.
    pub(super) fn history_us(&self) -> [u64; 3] {
        self.hist_ms.map(|ms| ms.saturating_mul(1000))
    }
}

/// Sums of one node: a leaf's own values, or for an inner node those of all leaves below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub slots: i64,
    pub jobs: i64,
    rate: [i64; 3],
    ms: [i128; 3],
    /// In microseconds, so that rounding in the decay has no visible effect.
    pub hist_us: [u64; 3],
    /// Of ended jobs: their run time over all slots in milliseconds; the sum of this times the run
    /// time of each slot, and of this times that of all its slots, in seconds. All three decay.
    pub ended: [u64; 3],
    /// The expected run time of all slots of a job together, in milliseconds.
    job_ms: u64,
    pub held: Amounts,
}

impl Usage {
    pub(super) fn add(&mut self, delta: &Delta) {
        self.slots += delta.slots;
        self.jobs += delta.jobs;
        for at in 0..METERS.len() {
            self.rate[at] += delta.rate[at];
            self.ms[at] += delta.ms[at];
        }
        if delta.hist_ms != [0; 3] {
            self.add_history(&delta.history_us());
        }
        let run_ms = delta.hist_ms[Meter::Run as usize];
        if let Some(each_ms) = run_ms.checked_div(delta.ended_slots) {
            let each_s = each_ms.div_ceil(1000);
            let sums = [1, each_s, run_ms.div_ceil(1000)];
            self.add_ended(&sums.map(|by| run_ms.saturating_mul(by)));
        }
        if self.held.len() < delta.held.len() {
            self.held.resize(delta.held.len(), 0);
        }
        for (own, more) in self.held.iter_mut().zip(&delta.held) {
            *own = own.saturating_add(*more);
        }
    }

    pub(super) fn add_history(&mut self, us: &[u64; 3]) {
        for (sum, more) in self.hist_us.iter_mut().zip(us) {
            *sum = sum.saturating_add(*more);
        }
    }

    pub(super) fn add_ended(&mut self, more: &[u64; 3]) {
        for (sum, more) in self.ended.iter_mut().zip(more) {
            *sum = sum.saturating_add(*more);
        }
    }

    /// Decays history by `steps`, except `fresh`, that of jobs that ended since the last step. Run
    /// and GPU time since then becomes history, as if it were spread over the steps. That is
    /// linear: a job that ends is charged completely and its running time is subtracted completely,
    /// so that the remainder has decayed since each part of it ran.
    pub(super) fn decay(&mut self, decay: &Decay, steps: i64, fresh: &[u64; 3], now: Stamp) {
        for meter in METERS {
            let at = meter as usize;
            let old = self.hist_us[at].saturating_sub(fresh[at]);
            self.hist_us[at] = match meter {
                // The CPU time of running jobs comes from reports, not from the clock.
                Meter::Cpu => decay.after(old, steps).saturating_add(fresh[at]),
                Meter::Run | Meter::Gpu => {
                    let since = i128::from(fresh[at]) + self.since_step_us(meter, now);
                    let spread = u64::try_from(since.max(0)).unwrap_or(u64::MAX);
                    plus(decay.after_with(old, spread, steps), since.min(0))
                }
            };
        }
        self.ended = self.ended.map(|n| decay.after(n, steps));
        self.restart(now);
    }

    /// Notes that run and GPU time until `now` is in the history.
    pub(super) fn restart(&mut self, now: Stamp) {
        for meter in [Meter::Run, Meter::Gpu] {
            let at = meter as usize;
            self.ms[at] = -i128::from(self.rate[at]) * i128::from(now.0);
        }
    }

    /// Time of started jobs by a meter since it was last added to the history, in microseconds. It
    /// is negative for a job that ended: its history contains all of its time.
    fn since_step_us(&self, meter: Meter, now: Stamp) -> i128 {
        let at = meter as usize;
        let ms = i128::from(self.rate[at]) * i128::from(now.0) + self.ms[at];
        // GPUs are counted in thousandths.
        ms * if meter == Meter::Gpu { 1 } else { 1000 }
    }

    /// Time by a meter at `now`: that of started jobs and the decayed time of ended ones.
    pub(super) fn used_us(&self, meter: Meter, now: Stamp) -> u64 {
        plus(self.hist_us[meter as usize], self.since_step_us(meter, now))
    }

    /// CPU time of started jobs, in milliseconds.
    pub(super) fn cpu_ms(&self) -> u64 {
        u64::try_from(self.ms[Meter::Cpu as usize].max(0)).unwrap_or(u64::MAX)
    }

    /// The expected run time of each slot of a job, and of all its slots together, derived from
    /// ended jobs: the mean of those that are found running at a random moment.
    fn expectation(&self) -> Option<(u64, u64)> {
        let [run_ms, by_slot, by_job] = self.ended;
        let mean = |sum: u64| Some(sum.checked_div(run_ms)?.saturating_mul(1000).max(1));
        Some((mean(by_slot)?, mean(by_job)?))
    }

    /// The value by which shares are divided, in thousandths of an hour's milliseconds.
    fn load(&self, fair: &FairshareFactors, now: Stamp) -> u128 {
        let mut load = 0u128;
        for meter in METERS {
            let factor = fair.weight[meter as usize];
            if factor > 0 {
                let ms = u128::from(self.used_us(meter, now) / 1000);
                load += ms * u128::from(factor);
            }
        }
        let started = u128::try_from(self.slots.max(0)).unwrap_or(0);
        match fair.started {
            Some(factor) => {
                load += (started + 1) * HOUR_MS * u128::from(factor);
                load.max(LEAST_LOAD)
            }
            None => load + self.expected_usage(started, fair),
        }
    }

    /// The expected usage of started jobs; each slot counts the same in the whole tree, so that
    /// slots in use in the proportion of the shares change no order. Half of the next job is added,
    /// so that the order of siblings favours neither large nor small shares.
    fn expected_usage(&self, started: u128, fair: &FairshareFactors) -> u128 {
        let [_, run, gpu] = fair.weight.map(u128::from);
        let slot_ms = u128::from(fair.slot_ms);
        let runs = run * (started * slot_ms + u128::from(self.job_ms) / 2);
        let gpus = u128::try_from(self.rate[Meter::Gpu as usize].max(0)).unwrap_or(0);
        runs.max(1) + gpu * gpus * slot_ms / 1000
    }

    /// The largest fraction of a resource's total: amount and total.
    fn dominant(&self, totals: &[i64]) -> (u64, u64) {
        let mut most = (0u64, 1u64);
        for (at, amount) in self.held.iter().enumerate() {
            let amount = u64::try_from(*amount).unwrap_or(0);
            let total = totals.get(at).copied().unwrap_or(0).max(1);
            let total = u64::try_from(total).unwrap_or(1);
            let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
            if product(amount, most.1) > product(most.0, total) {
                most = (amount, total);
            }
        }
        most
    }

    pub(super) fn cost(&self, rule: &CostRule, shares: u32, now: Stamp) -> Cost {
        let shares = u128::from(shares);
        match rule {
            CostRule::Fairshare(fair) => Cost::new(self.load(fair, now), shares),
            CostRule::Drf { totals } => {
                let (amount, total) = self.dominant(totals);
                Cost::new(u128::from(amount), u128::from(total) * shares)
            }
        }
    }

    /// The value that `cqueues -r` displays, in millionths: the fairshare priority (larger is
    /// better), or the dominant share over the weight (smaller is better).
    pub(super) fn displayed_value(&self, rule: &CostRule, shares: u32, now: Stamp) -> u64 {
        let cost = self.cost(rule, shares, now);
        let micro = match rule {
            CostRule::Fairshare(_) => cost.den * 1_000_000_000 * HOUR_MS / cost.num.max(1),
            CostRule::Drf { .. } => cost.num * 1_000_000 / cost.den.max(1),
        };
        u64::try_from(micro).unwrap_or(u64::MAX)
    }
}

/// A sum of history and an addition to it, at least zero.
fn plus(history: u64, more: i128) -> u64 {
    let sum = i128::from(history) + more;
    u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
}

/// How costs are computed.
#[derive(Clone, Debug)]
pub(super) enum CostRule {
    Fairshare(FairshareFactors),
    /// Totals by resource; index 0 is slots.
    Drf {
        totals: Vec<i64>,
    },
}

impl CostRule {
    /// Derives the expected run time of a node's jobs from those that ended.
    pub(super) fn derive_run_time(&self, usage: &mut Usage) {
        if let CostRule::Fairshare(fair) = self
            && fair.started.is_none()
        {
            usage.job_ms = usage.expectation().map_or(fair.job_ms, |(_, job)| job);
        }
    }

    /// Derives the expected run time of all jobs from the root of the tree.
    pub(super) fn derive_usual_run_time(&mut self, root: &Usage) {
        if let CostRule::Fairshare(fair) = self
            && let Some((slot_ms, job_ms)) = root.expectation()
        {
            (fair.slot_ms, fair.job_ms) = (slot_ms.min(fair.most_ms), job_ms);
        }
    }
}

/// Factors of the fairshare formula, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(super) struct FairshareFactors {
    /// By [`Meter`].
    weight: [u64; 3],
    /// Usage of each slot in use, in hours; `None`: derived from the expected run time of jobs.
    started: Option<u64>,
    /// The expected run time of started slots and jobs, derived from the jobs of the whole tree.
    slot_ms: u64,
    job_ms: u64,
    /// The maximum of it: the average time for which usage counts.
    most_ms: u64,
}

impl FairshareFactors {
    pub(super) fn new(factors: &FairFactors) -> FairshareFactors {
        let part = |n: i64| u64::try_from(n).unwrap_or(0);
        FairshareFactors {
            weight: [factors.cpu_time, factors.run_time, factors.gpu_time].map(part),
            started: factors.per_slot().map(part),
            most_ms: match factors.hist_ms {
                0 => u64::MAX,
                // hist / ln 10
                hist => hist.saturating_mul(10) / 23,
            },
            slot_ms: FIRST_EXPECTED_MS,
            job_ms: FIRST_EXPECTED_MS,
        }
    }
}
