//! Seeded randomness: the one generator that policies, the cleaner and the laboratory draw from.
//!
//! Source:    Blackman and Vigna, xoshiro256++ 1.0, seeded by splitmix64 (both public domain algorithms)
//! Non-goals: cryptography; keys that strangers choose are hashed with process-random secrets instead

/// A deterministic generator: the same seed gives the same draws on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// One step of splitmix64: a bijective mix of 64 bits.
#[must_use]
pub const fn mix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Rng {
    /// A generator for `seed`; every seed is good.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let a = mix64(seed);
        let b = mix64(a);
        let c = mix64(b);
        Self { state: [a, b, c, mix64(c) | 1] }
    }

    /// 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let c2 = c ^ a;
        let d2 = d ^ b;
        self.state = [a ^ d2, b ^ c2, c2 ^ (b << 17), d2.rotate_left(45)];
        result
    }

    /// Uniform in `0..n`; zero when `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        // Multiply-shift; the bias is below n / 2^64.
        let wide = u128::from(self.next_u64()) * u128::from(n);
        (wide >> 64) as u64
    }

    /// Uniform in `0..n` as an index.
    pub fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap_or(0)
    }

    /// Uniform in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// How many of `n` independent trials with probability `p` succeed.
    ///
    /// Exact up to 64 trials, beyond that the normal approximation, clamped to `0..=n`.
    pub fn binomial(&mut self, n: u64, p: f64) -> u64 {
        if n <= 64 {
            return (0..n).filter(|_| self.chance(p)).count() as u64;
        }
        let mean = n as f64 * p;
        // Sum of 12 uniforms: mean 6, variance 1.
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        let draw = (mean + normal * (mean * (1.0 - p)).max(0.0).sqrt()).round().clamp(0.0, n as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=n")]
        let draw = draw as u64;
        draw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_draws() {
        let draws = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
    }

    #[test]
    fn draws_are_uniform_enough() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[rng.index(10)] += 1;
        }
        // Five standard deviations of a binomial(100000, 0.1) are 474.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 474), "{seen:?}");
    }

    #[test]
    fn binomial_has_its_mean() {
        let mut rng = Rng::new(2);
        for (n, p) in [(40_u64, 0.25), (10_000, 0.1)] {
            let total: u64 = (0..2_000).map(|_| rng.binomial(n, p)).sum();
            let mean = total as f64 / 2_000.0;
            let sd = (n as f64 * p * (1.0 - p) / 2_000.0).sqrt();
            assert!((mean - n as f64 * p).abs() < 5.0 * sd, "n={n} p={p} mean={mean}");
        }
    }
}
