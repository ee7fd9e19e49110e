//! Synthetic workloads after the model of Lublin and Feitelson (2003): sizes with many serial jobs
//! and powers of two, run times whose logarithm is a mixture of two gamma distributions with longer
//! runs for wider jobs, arrivals with a daily and a weekly cycle, estimates at typical round
//! values, users of very different activity who submit the same job repeatedly.
//!
//! Owns the model. The same arguments give the same bytes on every machine (see `rng`). The load is
//! met exactly: arrivals are stretched until work divided by capacity is the requested value.

use super::rng::Rng;
use super::workload::{Builder, Job, JobRequest, Workload};

/// What to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadOptions {
    pub jobs: u32,
    pub procs: u32,
    pub users: u32,
    pub queues: u32,
    /// Requested slot time over capacity while jobs arrive, above 0.
    pub load: f64,
    pub seed: u64,
}

/// A Monday, midnight UTC: the beginning of the weekly cycle.
const START_MS: i64 = 1_704_067_200_000;
/// Common values of run limits, in minutes.
const POPULAR: [u64; 18] = [
    5, 10, 15, 20, 30, 60, 90, 120, 180, 240, 360, 480, 720, 1080, 1440, 2160, 2880, 4320,
];
/// Relative arrivals by hour of the day.
const DAILY: [u64; 24] = [
    20, 16, 13, 12, 12, 14, 20, 33, 55, 78, 92, 96, 90, 93, 100, 98, 92, 82, 66, 54, 45, 38, 31, 25,
];
/// Arrivals on Saturday and Sunday, in percent of those on other days.
const WEEKEND: u64 = 45;
/// The probability that the next job repeats the same user's last one.
const AGAIN: f64 = 0.5;

const SERIAL: f64 = 0.244;
const POWER_OF_TWO: f64 = 0.576;
const SIZE_LOW: f64 = 0.8;
/// The median of sizes is this many doublings below the largest.
const SIZE_MEDIUM_BELOW: f64 = 2.5;
const SIZE_SMALL_PART: f64 = 0.86;
/// Shape and scale of the two gamma distributions of the logarithm of the run time in seconds.
const SHORT_RUNS: (f64, f64) = (4.2, 0.94);
const LONG_RUNS: (f64, f64) = (312.0, 0.03);
/// Fraction of short runs: decreases by this for each slot, from this value.
const SHORT_SLOPE: f64 = -0.0054;
const SHORT_PART: f64 = 0.78;

#[derive(Clone, Copy)]
struct Shape {
    user: u32,
    slots: u32,
    run_s: u64,
    est_s: u64,
}

/// Generates the workload.
///
/// # Errors
/// An argument is out of its range; the message names it and the allowed range.
pub fn generate(options: &WorkloadOptions) -> Result<Workload, String> {
    check(options)?;
    let mut rng = Rng::new(options.seed);
    let mut shapes: Vec<Shape> = Vec::with_capacity(options.jobs as usize);
    let submit_weights = UserWeights::new(options.users);
    let mut work = 0u128;
    for _ in 0..options.jobs {
        let shape = match shapes.last() {
            Some(last) if rng.chance(AGAIN) => repeat_job(&mut rng, *last),
            _ => {
                let user = submit_weights.pick(&mut rng);
                new_shape(&mut rng, options, user)
            }
        };
        work += u128::from(shape.slots) * u128::from(shape.run_s);
        shapes.push(shape);
    }
    let span_s = (work as f64 / (f64::from(options.procs) * options.load)).max(1.0);
    let arrivals = arrivals(&mut rng, shapes.len(), span_s);
    let mut builder = Builder::default();
    builder.workload.procs = Some(options.procs);
    builder.workload.start_ms = Some(START_MS);
    let groups = groups_of(options.users);
    for (n, (shape, at_s)) in shapes.iter().zip(arrivals).enumerate() {
        let ask = JobRequest {
            user: format!("u{}", shape.user + 1),
            group: format!("g{}", shape.user % groups + 1),
            queue: format!("q{}", queue_of(shape.est_s, options.queues)),
            min: shape.slots,
            max: shape.slots,
            ..JobRequest::default()
        };
        let job = Job {
            id: n as u64 + 1,
            submit_ms: at_s * 1000,
            run_ms: shape.run_s * 1000,
            est_ms: Some(shape.est_s * 1000),
            ..Job::default()
        };
        builder.push(job, ask)?;
    }
    Ok(builder.finish())
}

fn check(options: &WorkloadOptions) -> Result<(), String> {
    let range = |name: &str, value: u32, most: u32| {
        if (1..=most).contains(&value) {
            return Ok(());
        }
        Err(format!("--{name} {value}: from 1 to {most}"))
    };
    range("jobs", options.jobs, super::workload::JOBS_MAX as u32)?;
    range("procs", options.procs, 10_000_000)?;
    range("users", options.users, 1_000_000)?;
    range("queues", options.queues, 1000)?;
    if options.load.is_finite() && options.load > 0.0 && options.load <= 100.0 {
        return Ok(());
    }
    Err(format!("--load {}: above 0, at most 100", options.load))
}

/// Users by how much they submit: the second half as much as the first, the third a third.
struct UserWeights {
    cumulative: Vec<u64>,
}

impl UserWeights {
    fn new(users: u32) -> UserWeights {
        let mut sum = 0;
        let each = (1..=u64::from(users)).map(|rank| {
            sum += 1_000_000_000 / rank;
            sum
        });
        UserWeights {
            cumulative: each.collect(),
        }
    }

    fn pick(&self, rng: &mut Rng) -> u32 {
        let all = self.cumulative.last().copied().unwrap_or(1);
        let at = rng.below(all);
        self.cumulative.partition_point(|upto| *upto <= at) as u32
    }
}

fn groups_of(users: u32) -> u32 {
    let mut n = 1;
    while n * n < users {
        n += 1;
    }
    n
}

fn new_shape(rng: &mut Rng, options: &WorkloadOptions, user: u32) -> Shape {
    let slots = size(rng, options.procs);
    let run_s = run_time(rng, slots);
    let est_s = estimate(rng, run_s);
    Shape {
        user,
        slots,
        run_s,
        est_s,
    }
}

/// The same job once more; its run time differs by up to a quarter.
fn repeat_job(rng: &mut Rng, last: Shape) -> Shape {
    let run = last.run_s as f64 * rng.between(0.75, 1.25);
    let run_s = (run as u64).clamp(1, last.est_s);
    Shape { run_s, ..last }
}

fn size(rng: &mut Rng, procs: u32) -> u32 {
    if procs == 1 || rng.chance(SERIAL) {
        return 1;
    }
    let high = libm::log2(f64::from(procs));
    let medium = (high - SIZE_MEDIUM_BELOW).max(SIZE_LOW.min(high));
    let (from, to) = match rng.chance(SIZE_SMALL_PART) {
        true => (SIZE_LOW.min(medium), medium),
        false => (medium, high),
    };
    let mut exponent = rng.between(from, to);
    if rng.chance(POWER_OF_TWO) {
        exponent = libm::round(exponent);
    }
    (libm::round(libm::exp2(exponent)) as u32).clamp(1, procs)
}

fn run_time(rng: &mut Rng, slots: u32) -> u64 {
    let short = (SHORT_SLOPE * f64::from(slots) + SHORT_PART).clamp(0.05, 0.95);
    let (shape, scale) = if rng.chance(short) {
        SHORT_RUNS
    } else {
        LONG_RUNS
    };
    let most = POPULAR[POPULAR.len() - 1] * 60;
    (libm::exp(rng.gamma(shape, scale).min(20.0)) as u64).clamp(1, most)
}

/// A round value at or above the run time, sometimes the next one, mostly far above.
fn estimate(rng: &mut Rng, run_s: u64) -> u64 {
    let wanted = match rng.chance(0.15) {
        true => run_s as f64,
        false => run_s as f64 / rng.between(0.05, 1.0),
    };
    let round = POPULAR.iter().map(|m| m * 60).find(|s| *s as f64 >= wanted);
    round.unwrap_or(POPULAR[POPULAR.len() - 1] * 60)
}

/// Queues by length: `q1` for the shortest limits.
fn queue_of(est_s: u64, queues: u32) -> u32 {
    let at = POPULAR
        .iter()
        .position(|m| m * 60 >= est_s)
        .unwrap_or(POPULAR.len() - 1);
    (at as u64 * u64::from(queues) / POPULAR.len() as u64) as u32 + 1
}

/// `n` times in seconds within `span_s`, in order, following the rhythm of days and weeks.
fn arrivals(rng: &mut Rng, n: usize, span_s: f64) -> Vec<i64> {
    let mut sum = 0.0;
    let mut times = Vec::with_capacity(n);
    for _ in 0..n {
        sum += rng.exponential();
        times.push(sum);
    }
    let all = sum + rng.exponential();
    let mut rhythm = ArrivalCycle::new();
    let whole = rhythm.weight_until(span_s);
    rhythm = ArrivalCycle::new();
    times
        .iter()
        .map(|t| rhythm.time_of_weight(t / all * whole) as i64)
        .collect()
}

/// Advances through the hours; each has a weight.
struct ArrivalCycle {
    hour: u64,
    /// Weight of all hours before this one.
    weight_before: f64,
}

impl ArrivalCycle {
    fn new() -> ArrivalCycle {
        ArrivalCycle {
            hour: 0,
            weight_before: 0.0,
        }
    }

    fn weight(hour: u64) -> f64 {
        let percent = if hour / 24 % 7 >= 5 { WEEKEND } else { 100 };
        (DAILY[(hour % 24) as usize] * percent) as f64
    }

    /// Weight of the time until `at_s`.
    fn weight_until(&mut self, at_s: f64) -> f64 {
        while (self.hour + 1) as f64 * 3600.0 <= at_s {
            self.weight_before += ArrivalCycle::weight(self.hour);
            self.hour += 1;
        }
        let part = at_s / 3600.0 - self.hour as f64;
        self.weight_before + ArrivalCycle::weight(self.hour) * part
    }

    /// The time until which the weight is `weight`; must be called with increasing weights only.
    fn time_of_weight(&mut self, weight: f64) -> f64 {
        while self.weight_before + ArrivalCycle::weight(self.hour) <= weight {
            self.weight_before += ArrivalCycle::weight(self.hour);
            self.hour += 1;
        }
        let part = (weight - self.weight_before) / ArrivalCycle::weight(self.hour);
        (self.hour as f64 + part) * 3600.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::swf;

    fn wish() -> WorkloadOptions {
        WorkloadOptions {
            jobs: 5000,
            procs: 256,
            users: 40,
            queues: 3,
            load: 0.8,
            seed: 42,
        }
    }

    /// FNV-1a, to detect any change of the stream.
    fn hash(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let text = swf::write(&generate(&wish()).unwrap());
        assert_eq!(text, swf::write(&generate(&wish()).unwrap()));
        let other = swf::write(&generate(&WorkloadOptions { seed: 43, ..wish() }).unwrap());
        assert_ne!(text, other);
        assert_eq!(
            hash(text.as_bytes()),
            17_145_297_124_240_168_163,
            "the bytes for this seed have changed"
        );
    }

    #[test]
    fn the_load_is_what_was_asked_for() {
        let w = generate(&wish()).unwrap();
        let work: u64 = w
            .jobs
            .iter()
            .map(|j| j.run_ms / 1000 * u64::from(w.request(j).min))
            .sum();
        let span = w.jobs.last().unwrap().submit_ms / 1000;
        let load = work as f64 / (256.0 * span as f64);
        assert!((load - 0.8).abs() < 0.01, "{load}");
    }

    #[test]
    fn jobs_look_like_those_of_real_logs() {
        let w = generate(&wish()).unwrap();
        let part = |f: &dyn Fn(&Job) -> bool| {
            w.jobs.iter().filter(|j| f(j)).count() as f64 / w.jobs.len() as f64
        };
        let slots = |j: &Job| w.request(j).min;
        assert!((0.15..0.45).contains(&part(&|j| slots(j) == 1)));
        assert!((0.6..0.95).contains(&part(&|j| slots(j).is_power_of_two())));
        assert!(part(&|j| slots(j) > 64) > 0.01);
        assert!(
            w.jobs
                .iter()
                .all(|j| j.run_ms >= 1000 && Some(j.run_ms) <= j.est_ms)
        );
        assert!(w.jobs.iter().all(|j| (1..=256).contains(&slots(j))));
        // The first user submits far more than the last ones.
        assert!(part(&|j| w.request(j).user == "u1") > 0.1);
        // Day and night.
        let hour = |j: &Job| j.submit_ms / 3_600_000 % 24;
        let (noon, night) = (part(&|j| hour(j) == 14), part(&|j| hour(j) == 3));
        assert!(noon > 3.0 * night, "{noon} {night}");
    }

    #[test]
    fn small_machines_and_single_users_work() {
        for procs in [1, 2, 3] {
            let w = generate(&WorkloadOptions {
                procs,
                users: 1,
                queues: 1,
                jobs: 200,
                ..wish()
            })
            .unwrap();
            assert!(
                w.jobs
                    .iter()
                    .all(|j| w.request(j).min <= procs && w.request(j).queue == "q1")
            );
        }
    }

    #[test]
    fn wishes_out_of_range_are_refused_by_name() {
        let e = generate(&WorkloadOptions {
            load: 0.0,
            ..wish()
        })
        .unwrap_err();
        assert!(e.starts_with("--load 0"), "{e}");
        let e = generate(&WorkloadOptions { users: 0, ..wish() }).unwrap_err();
        assert!(e.starts_with("--users 0"), "{e}");
    }
}
