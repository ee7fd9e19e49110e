//! Random numbers that are the same for a seed on every machine and in every version: a small
//! published generator (xoshiro256**, seeded by splitmix64) and the distributions made of it.
//!
//! What it relies on: Rust's `f64` additions, multiplications and divisions are those of IEEE 754,
//! neither fused nor reordered, and logarithms and powers come from `libm`, which is plain Rust
//! code, not from the machine's library. Owns no seed of its own and no global state.

use crate::model::SplitMix64;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        let mut words = SplitMix64::new(seed);
        Rng {
            s: std::array::from_fn(|_| words.draw()),
        }
    }

    #[allow(clippy::should_implement_trait)] // endless, and no iterator
    pub fn next(&mut self) -> u64 {
        let s = &mut self.s;
        let out = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// An integer below `n`; 0 for `n` = 0. The bias is below 2^-32 for `n` below 2^32.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// At least 0, below 1, 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Between `from` and `to`.
    pub fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Normal with mean 0 and deviation 1 (polar method).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (self.between(-1.0, 1.0), self.between(-1.0, 1.0));
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * libm::sqrt(-2.0 * libm::log(s) / s);
            }
        }
    }

    /// Gamma of this shape (above 0) and scale (Marsaglia and Tsang).
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(1.0 - self.unit(), 1.0 / shape);
            return self.gamma(shape + 1.0, scale) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            let u = 1.0 - self.unit();
            if libm::log(u) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // xoshiro256** from the state 1, 2, 3, 4.
        let mut rng = Rng { s: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next()).collect();
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn numbers_below_a_bound_stay_below_and_reach_it() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 5];
        for _ in 0..1000 {
            seen[rng.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (150..250).contains(n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn distributions_have_their_means() {
        let mut rng = Rng::new(3);
        let n = 20_000;
        let mut mean = |f: &mut dyn FnMut(&mut Rng) -> f64| {
            (0..n).map(|_| f(&mut rng)).sum::<f64>() / f64::from(n)
        };
        assert!((mean(&mut Rng::exponential) - 1.0).abs() < 0.03);
        assert!(mean(&mut Rng::normal).abs() < 0.03);
        assert!((mean(&mut |r| r.gamma(4.2, 0.94)) - 4.2 * 0.94).abs() < 0.06);
        assert!((mean(&mut |r| r.gamma(0.5, 2.0)) - 1.0).abs() < 0.06);
    }
}
