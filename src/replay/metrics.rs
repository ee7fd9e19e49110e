//! The metrics by which a replay is judged. Owns the definitions (each with its unit, see cbsim(1))
//! and the arithmetic: sums are whole numbers, so that a result does not depend on the order of
//! addition; fractions appear in the last division. Never sees an event of the cluster: `meter`
//! does.

use serde::Serialize;

/// For the slowdown, a shorter job counts as if it had run this long, in milliseconds.
pub const TAU_MS: u64 = 10_000;

/// A job that ended. Times in milliseconds since the start of the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinishedJob {
    /// Its place in the workload.
    pub job: u32,
    pub submit_ms: i64,
    /// Its first start.
    pub start_ms: i64,
    /// Its last end.
    pub end_ms: i64,
    /// How long its successful run took, excluding suspension.
    pub run_ms: u64,
    pub slots: u32,
    pub user: u32,
    pub group: u32,
    pub deadline_ms: Option<i64>,
}

impl FinishedJob {
    /// From submission to the first start.
    pub fn wait_ms(&self) -> u64 {
        u64::try_from(self.start_ms - self.submit_ms).unwrap_or(0)
    }

    /// From submission to the end.
    pub fn response_ms(&self) -> u64 {
        u64::try_from(self.end_ms - self.submit_ms).unwrap_or(0)
    }

    /// Response over run time, with runs below 10 s counted as 10 s; at least 1.
    pub fn bounded_slowdown(&self) -> f64 {
        (self.response_ms() as f64 / self.run_ms.max(TAU_MS) as f64).max(1.0)
    }

    fn slot_milliseconds(&self) -> u128 {
        u128::from(self.slots) * u128::from(self.run_ms)
    }
}

/// A distribution of times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    pub median: f64,
    /// The smallest value that 95 % of all do not exceed.
    pub p95: f64,
    pub max: f64,
}

impl Spread {
    /// The distribution of these values in milliseconds, in any order.
    pub fn of(mut ms: Vec<u64>) -> Spread {
        if ms.is_empty() {
            return Spread::default();
        }
        ms.sort_unstable();
        let n = ms.len();
        let sum: u128 = ms.iter().map(|v| u128::from(*v)).sum();
        let s = |v: u64| v as f64 / 1000.0;
        Spread {
            mean: sum as f64 / n as f64 / 1000.0,
            median: (s(ms[(n - 1) / 2]) + s(ms[n / 2])) / 2.0,
            p95: s(ms[(n * 95).div_ceil(100) - 1]),
            max: s(ms[n - 1]),
        }
    }
}

/// How evenly users or groups were served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fairness {
    /// Users or groups that had jobs.
    pub parties: usize,
    /// Jain's index of slot time used over share: 1 = all equal, 1/n = one got everything.
    pub jain_usage: f64,
    /// Jain's index of the mean bounded slowdown.
    pub jain_slowdown: f64,
    /// While several waited: the largest fraction of the slot time they used together that one of
    /// them had above or below its share.
    pub share_error: f64,
}

/// Jain's index of these values; 1 for none.
pub fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    if squares <= 0.0 {
        return 1.0;
    }
    sum * sum / (values.len() as f64 * squares)
}

/// Misses of the column `deadline`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sla {
    /// Jobs with a deadline.
    pub jobs: u64,
    pub missed: u64,
    /// Mean time after the deadline of those that missed it, in seconds.
    pub mean_late_s: f64,
}

/// Use of one resource of all hosts, mean over the makespan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResourceUse {
    pub name: String,
    pub capacity: f64,
    /// 0 to 1.
    pub utilization: f64,
}

/// Everything measured in one replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub jobs: u64,
    /// Queuing delay: submission to first start.
    pub wait_s: Spread,
    /// Submission to end; the mean of it is the response time.
    pub jct_s: Spread,
    pub avg_response_s: f64,
    pub avg_bsld: f64,
    /// First submission to last end.
    pub makespan_s: f64,
    /// Jobs ended per hour of the makespan.
    pub throughput_per_h: f64,
    /// Slot time of successful runs over what the hosts had in the makespan.
    pub utilization: f64,
    pub resources: Vec<ResourceUse>,
    /// Mean fraction of the fragmenting resource (GPUs if there are any, else slots) that is free
    /// and of no use to the jobs of this workload.
    pub fragmentation: f64,
    pub users: Fairness,
    pub groups: Fairness,
    pub sla: Sla,
}

/// The figures that follow from the ended jobs alone; `slots` are those of all hosts.
pub fn summarize(done: &[FinishedJob], slots: u64) -> Summary {
    let n = done.len();
    if n == 0 {
        return Summary::default();
    }
    let first = done.iter().map(|d| d.submit_ms).min().unwrap_or(0);
    let last = done.iter().map(|d| d.end_ms).max().unwrap_or(0);
    let makespan_s = (last - first) as f64 / 1000.0;
    let work: u128 = done.iter().map(FinishedJob::slot_milliseconds).sum();
    let over = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    let jct_s = Spread::of(done.iter().map(FinishedJob::response_ms).collect());
    Summary {
        jobs: n as u64,
        wait_s: Spread::of(done.iter().map(FinishedJob::wait_ms).collect()),
        jct_s,
        avg_response_s: jct_s.mean,
        avg_bsld: done.iter().map(FinishedJob::bounded_slowdown).sum::<f64>() / n as f64,
        makespan_s,
        throughput_per_h: over(n as f64 * 3600.0, makespan_s),
        utilization: over(work as f64 / 1000.0, slots as f64 * makespan_s),
        sla: sla(done),
        ..Summary::default()
    }
}

fn sla(done: &[FinishedJob]) -> Sla {
    let mut out = Sla::default();
    let mut late_ms = 0u128;
    for d in done {
        let Some(deadline) = d.deadline_ms else {
            continue;
        };
        out.jobs += 1;
        if d.end_ms > deadline {
            out.missed += 1;
            late_ms += (d.end_ms - deadline).unsigned_abs() as u128;
        }
    }
    if out.missed > 0 {
        out.mean_late_s = late_ms as f64 / 1000.0 / out.missed as f64;
    }
    out
}

/// Fairness over parties: `of` returns the party of a job, `shares` are their shares (larger means
/// more), `share_error` comes from the meter.
pub fn fairness(
    done: &[FinishedJob],
    shares: &[f64],
    of: impl Fn(&FinishedJob) -> u32,
    share_error: f64,
) -> Fairness {
    let mut work = vec![0u128; shares.len()];
    let mut slowdown = vec![(0.0, 0u32); shares.len()];
    for d in done {
        let at = of(d) as usize;
        work[at] += d.slot_milliseconds();
        slowdown[at].0 += d.bounded_slowdown();
        slowdown[at].1 += 1;
    }
    let had_jobs = |at: &usize| slowdown[*at].1 > 0;
    let parties: Vec<usize> = (0..shares.len()).filter(had_jobs).collect();
    // A party without a share of its own is compared with the smallest one.
    let least = shares
        .iter()
        .copied()
        .filter(|s| *s > 0.0)
        .fold(f64::INFINITY, f64::min);
    let share = |at: usize| match shares[at] {
        s if s > 0.0 => s,
        _ if least.is_finite() => least,
        _ => 1.0,
    };
    let usage: Vec<f64> = parties
        .iter()
        .map(|at| work[*at] as f64 / share(*at))
        .collect();
    let mean = |at: &usize| slowdown[*at].0 / f64::from(slowdown[*at].1);
    let slow: Vec<f64> = parties.iter().map(mean).collect();
    Fairness {
        parties: parties.len(),
        jain_usage: jain(&usage),
        jain_slowdown: jain(&slow),
        share_error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(submit: i64, start: i64, end: i64, slots: u32, user: u32) -> FinishedJob {
        FinishedJob {
            job: 0,
            submit_ms: submit * 1000,
            start_ms: start * 1000,
            end_ms: end * 1000,
            run_ms: (end - start).unsigned_abs() * 1000,
            slots,
            user,
            group: user / 2,
            deadline_ms: None,
        }
    }

    /// 10 slots. The same five jobs as case 2 of the collection of small cases: EASY backfill.
    ///
    /// | job | submit | start | end | slots | user | wait | response | slowdown |
    /// |-----|--------|-------|-----|-------|------|------|----------|----------|
    /// | 1   | 0      | 0     | 100 | 6     | 0    | 0    | 100      | 1        |
    /// | 2   | 1      | 100   | 150 | 8     | 0    | 99   | 149      | 149/50   |
    /// | 3   | 2      | 2     | 62  | 2     | 1    | 0    | 60       | 1        |
    /// | 4   | 3      | 3     | 203 | 2     | 1    | 0    | 200      | 1        |
    /// | 5   | 4      | 150   | 155 | 4     | 2    | 146  | 151      | 151/10   |
    fn five() -> Vec<FinishedJob> {
        vec![
            job(0, 0, 100, 6, 0),
            job(1, 100, 150, 8, 0),
            job(2, 2, 62, 2, 1),
            job(3, 3, 203, 2, 1),
            job(4, 150, 155, 4, 2),
        ]
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn waits_of_the_five_jobs() {
        let s = summarize(&five(), 10);
        assert_eq!(s.jobs, 5);
        close(s.wait_s.mean, (99.0 + 146.0) / 5.0);
        close(s.wait_s.median, 0.0);
        close(s.wait_s.p95, 146.0);
        close(s.wait_s.max, 146.0);
    }

    #[test]
    fn responses_of_the_five_jobs() {
        let s = summarize(&five(), 10);
        // 100 + 149 + 60 + 200 + 151
        close(s.avg_response_s, 660.0 / 5.0);
        close(s.jct_s.mean, 132.0);
        close(s.jct_s.median, 149.0);
        close(s.jct_s.p95, 200.0);
    }

    #[test]
    fn bounded_slowdown_of_the_five_jobs() {
        let s = summarize(&five(), 10);
        close(s.avg_bsld, (1.0 + 2.98 + 1.0 + 1.0 + 15.1) / 5.0);
    }

    #[test]
    fn makespan_throughput_and_utilization_of_the_five_jobs() {
        let s = summarize(&five(), 10);
        close(s.makespan_s, 203.0);
        close(s.throughput_per_h, 5.0 * 3600.0 / 203.0);
        // 600 + 400 + 120 + 400 + 20 slot seconds of 2030.
        close(s.utilization, 1540.0 / 2030.0);
    }

    #[test]
    fn fairness_of_the_five_jobs() {
        // Users used 1000, 520 and 20 slot seconds; with shares 2:1:1 that is 500, 520, 20.
        let f = fairness(&five(), &[2.0, 1.0, 1.0], |d| d.user, 0.25);
        assert_eq!(f.parties, 3);
        close(
            f.jain_usage,
            1040.0f64.powi(2) / (3.0 * (250_000.0 + 270_400.0 + 400.0)),
        );
        // Mean slowdowns 1.99, 1 and 15.1.
        let squares = 1.99f64.powi(2) + 1.0 + 15.1f64.powi(2);
        close(
            f.jain_slowdown,
            (1.99 + 1.0 + 15.1f64).powi(2) / (3.0 * squares),
        );
        close(f.share_error, 0.25);
        // Groups: users 0 and 1 are group 0, user 2 is group 1.
        let f = fairness(&five(), &[1.0, 1.0], |d| d.group, 0.0);
        close(
            f.jain_usage,
            1540.0f64.powi(2) / (2.0 * (1520.0f64.powi(2) + 400.0)),
        );
    }

    #[test]
    fn deadlines_of_the_five_jobs() {
        let mut jobs = five();
        jobs[1].deadline_ms = Some(150_000);
        jobs[3].deadline_ms = Some(200_000);
        jobs[4].deadline_ms = Some(150_000);
        let s = summarize(&jobs, 10).sla;
        assert_eq!((s.jobs, s.missed), (3, 2));
        close(s.mean_late_s, (3.0 + 5.0) / 2.0);
    }

    #[test]
    fn the_slowdown_of_short_jobs_is_bounded() {
        close(job(0, 100, 101, 1, 0).bounded_slowdown(), 10.1);
        close(job(0, 0, 5, 1, 0).bounded_slowdown(), 1.0);
        close(job(0, 30, 90, 1, 0).bounded_slowdown(), 1.5);
    }

    #[test]
    fn a_spread_of_twenty_takes_the_nineteenth() {
        let s = Spread::of((1..=20).rev().map(|n| n * 1000).collect());
        close(s.median, 10.5);
        close(s.p95, 19.0);
    }

    #[test]
    fn nothing_has_no_metrics_but_is_fair() {
        assert_eq!(summarize(&[], 10), Summary::default());
        close(jain(&[]), 1.0);
        close(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
    }
}
