//! The decay of past usage: a tenth counts after `hist_ms`, in equal steps.
//!
//! Owns the arithmetic only, in 64-bit fixed point without floats, so that every leader computes
//! the same value. Never reads a clock.

use crate::model::Stamp;

/// Number of steps in which usage decays to a tenth. With few steps, their rhythm could coincide
/// with that of jobs, and what has just ended at each step would count less.
const STEPS_TO_TENTH: u64 = 300;
/// Longest time between two steps, in milliseconds.
const STEP_MS: u64 = 15 * 60_000;
/// After this many steps a usage counts as zero, or as unchanged if it never decays.
const MAX_STEPS: u64 = 1 << 20;

/// Steps at fixed moments since the epoch; at each of them, history is multiplied by one factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decay {
    /// `None` = usage never decays.
    step_ms: Option<u64>,
    /// Factor of one step in units of 2^-64.
    factor: u64,
}

impl Decay {
    /// Usage decays to a tenth in `hist_ms` milliseconds; 0 = it never decays.
    ///
    /// Steps are at most a quarter of an hour apart.
    pub(super) fn new(hist_ms: u64) -> Decay {
        if hist_ms == 0 {
            return Decay {
                step_ms: None,
                factor: u64::MAX,
            };
        }
        let step = (hist_ms / STEPS_TO_TENTH).clamp(1, STEP_MS);
        Decay {
            step_ms: Some(step),
            factor: tenth_to(step, hist_ms),
        }
    }

    /// The number of the step to which a moment belongs; always 0 without decay.
    pub(super) fn step(&self, at: Stamp) -> i64 {
        match self.step_ms {
            Some(ms) => {
                at.0.div_euclid(i64::try_from(ms).expect("at most 15 minutes"))
            }
            None => 0,
        }
    }

    /// `value` after `steps` steps, each rounded down: the result is the same for single steps and
    /// for all at once.
    pub(super) fn after(&self, value: u64, steps: i64) -> u64 {
        let steps = u64::try_from(steps).unwrap_or(0);
        if self.step_ms.is_none() || steps == 0 {
            return value;
        }
        if steps > MAX_STEPS {
            return 0;
        }
        let mut value = value;
        for _ in 0..steps {
            if value == 0 {
                break;
            }
            value = times(value, self.factor);
        }
        value
    }

    /// As [`Decay::after`], plus `more`, which was added in equal parts during the steps.
    pub(super) fn after_with(&self, value: u64, more: u64, steps: i64) -> u64 {
        let n = u64::try_from(steps).unwrap_or(0).min(MAX_STEPS);
        if more == 0 || self.step_ms.is_none() || n <= 1 {
            return self.after(value, steps).saturating_add(more);
        }
        let (each, rest) = (more / n, more % n);
        let add = |value: u64, _| times(value, self.factor).saturating_add(each);
        (0..n).fold(value, add).saturating_add(rest)
    }
}

/// `a * b / 2^64`, rounded down.
fn times(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// 0.1^(step / hist) in units of 2^-64, for step <= hist.
fn tenth_to(step: u64, hist: u64) -> u64 {
    // log2(10) in units of 2^-60.
    const LOG2_10: u128 = 3_829_922_337_353_294_527;
    let exponent = (LOG2_10 * u128::from(step)) / u128::from(hist);
    let whole = u32::try_from(exponent >> 60).expect("at most 3");
    // 2^-(1/2), 2^-(1/4), ... by repeated square roots.
    let mut root = 1u128 << 63;
    let mut out = u64::MAX;
    for bit in 1..=60 {
        root = (root << 64).isqrt();
        if exponent >> (60 - bit) & 1 == 1 {
            out = times(out, u64::try_from(root).unwrap_or(u64::MAX));
        }
    }
    out >> whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    /// Case 16 of the scheduling reference: 100 hours of use, HIST_HOURS=5.
    #[test]
    fn a_tenth_is_left_after_hist() {
        let decay = Decay::new(5 * HOUR);
        let after = |hours: i64| {
            let steps = decay.step(Stamp(hours * 3_600_000)) - decay.step(Stamp(0));
            decay.after(100 * HOUR * 1000, steps) as f64 / (HOUR * 1000) as f64
        };
        assert!((after(1) - 63.095_734).abs() < 1e-6, "{}", after(1));
        assert!((after(5) - 10.0).abs() < 1e-6, "{}", after(5));
        assert!((after(10) - 1.0).abs() < 1e-6, "{}", after(10));
    }

    /// Case 17, in tenths instead of halves: 800 becomes 200 after two half-lives.
    #[test]
    fn two_half_lives_leave_a_quarter() {
        let half_life = 7 * 24 * HOUR;
        let hist = (half_life as f64 * std::f64::consts::LOG2_10) as u64;
        let decay = Decay::new(hist);
        let left = decay.after(800_000_000, decay.step(Stamp(2 * half_life as i64)));
        assert!((left as f64 / 1e6 - 200.0).abs() < 0.02, "{left}");
    }

    #[test]
    fn factors_agree_with_floats() {
        for hist in [
            1,
            19,
            20,
            60_000,
            HOUR,
            5 * HOUR,
            100 * HOUR,
            100_000 * HOUR,
        ] {
            let decay = Decay::new(hist);
            let step = decay.step_ms.expect("it fades") as f64;
            let expect = 0.1f64.powf(step / hist as f64);
            let have = decay.factor as f64 / 2f64.powi(64);
            assert!((have - expect).abs() < 1e-12, "{hist}: {have} {expect}");
        }
    }

    #[test]
    fn steps_taken_singly_or_at_once_give_the_same() {
        let decay = Decay::new(7 * HOUR);
        let mut singly = 987_654_321_987;
        for n in 1..300 {
            singly = decay.after(singly, 1);
            assert_eq!(singly, decay.after(987_654_321_987, n));
        }
    }

    #[test]
    fn what_is_added_meanwhile_decays_since_then() {
        let decay = Decay::new(5 * HOUR);
        let mut singly = 5_000_000;
        for _ in 0..60 {
            singly = decay.after(singly, 1) + 1000;
        }
        assert_eq!(decay.after_with(5_000_000, 60_000, 60), singly);
        assert_eq!(decay.after_with(7, 5, 0), 12);
        assert_eq!(Decay::new(0).after_with(7, 5, 99), 12);
    }

    #[test]
    fn without_hist_nothing_fades_and_long_gaps_end() {
        assert_eq!(Decay::new(0).after(77, 1_000_000), 77);
        assert_eq!(Decay::new(0).step(Stamp(i64::MAX)), 0);
        assert_eq!(Decay::new(HOUR).after(u64::MAX, i64::MAX), 0);
        assert_eq!(Decay::new(HOUR).after(77, -5), 77);
    }
}
