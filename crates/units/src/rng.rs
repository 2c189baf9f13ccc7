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
    /// Exact up to `TRIED_MAX` trials, and where successes or failures are few: below `FEW_MEAN` in the mean. Else the normal
    /// approximation, clamped to `0..=n`.
    pub fn binomial(&mut self, n: u64, p: f64) -> u64 {
        if n <= TRIED_MAX {
            return (0..n).filter(|_| self.chance(p)).count() as u64;
        }
        let rare = p.min(1.0 - p);
        if n as f64 * rare < FEW_MEAN {
            let few = few(n, rare, self.unit());
            return if p <= 0.5 { few } else { n - few };
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

/// Trials that are made one by one: up to here that costs little more than the rest does.
const TRIED_MAX: u64 = 64;
/// Mean up to which draws are exact: from there on zero is five standard deviations away, and the normal approximation ends at six.
const FEW_MEAN: f64 = 30.0;

/// The binomial draw that the uniform number `u` stands for, by the sum of the chances of 0, 1, … successes. Sums and products alone, so
/// that it is the same on every machine.
fn few(n: u64, p: f64, u: f64) -> u64 {
    let (mean, odds) = (n as f64 * p, p / (1.0 - p));
    let (mut chance, mut below) = (none_of(n, p), 0.0);
    for drawn in 0..n {
        let up_to = below + chance;
        // What lies beyond is less than a uniform number tells apart.
        let is_last = up_to <= below && mean < drawn as f64;
        if u < up_to || is_last {
            return drawn;
        }
        below = up_to;
        chance *= odds * (n - drawn) as f64 / (drawn + 1) as f64;
    }
    n
}

/// `(1 - p)^n` for `p` up to a half, exact also where `1 - p` is 1 in floating point.
fn none_of(n: u64, p: f64) -> f64 {
    // The chance of any success in 1, 2, 4, … trials as long as that is small, then that of none: which of both is near zero is exact.
    let (mut any, mut none, mut all) = (p, 1.0 - p, 1.0);
    for bit in 0..u64::BITS - n.leading_zeros() {
        if n >> bit & 1 != 0 {
            all *= none;
        }
        if any < 0.5 {
            any *= 2.0 - any;
            none = 1.0 - any;
        } else {
            none *= none;
        }
    }
    all
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

    #[test]
    fn binomial_draws_of_rare_events_have_their_mean_and_variance() {
        const DRAWS: u32 = 200_000;
        let mut rng = Rng::new(3);
        let cases = [
            (1_000, 2e-4),
            (5_000, 2e-6),
            (5_000, 1e-2),
            (65, 0.45),
            (100, 0.8),
            (5_000, 1.0 - 2e-4),
            (1 << 62, 4.0 / (1_u64 << 62) as f64),
        ];
        for (n, p) in cases {
            let (rare, is_rare) = (p.min(1.0 - p), p <= 0.5);
            let (mut total, mut squares) = (0.0, 0.0);
            for _ in 0..DRAWS {
                let drawn = rng.binomial(n, p);
                let few = if is_rare { drawn } else { n - drawn } as f64;
                total += few;
                squares += few * few;
            }
            let (draws, wanted) = (f64::from(DRAWS), n as f64 * rare);
            let (mean, variance) = (total / draws, wanted * (1.0 - rare));
            assert!((mean - wanted).abs() < 5.0 * (variance / draws).sqrt(), "n={n} p={p} mean={mean}");
            let found = squares / draws - mean * mean;
            // The variance of a variance: that of a Poisson number is the largest.
            let sd = ((2.0 * wanted * wanted + wanted) / draws).sqrt();
            assert!((found - variance).abs() < 5.0 * sd, "n={n} p={p} variance={found}, not {variance}");
        }
    }

    #[test]
    fn binomial_draws_at_the_ends_are_none_or_all() {
        let mut rng = Rng::new(4);
        for n in [0, 64, 65, 1 << 40, u64::MAX] {
            for (p, drawn) in [(0.0, 0), (1e-300, 0), (-1.0, 0), (1.0, n), (2.0, n)] {
                assert_eq!(rng.binomial(n, p), drawn, "n={n} p={p}");
            }
        }
        assert_eq!(few(1_000, 1e-3, 0.0), 0);
        assert!(few(u64::MAX, 1e-18, 1.0 - f64::EPSILON / 2.0) < 100);
        assert!((none_of(1 << 60, 1.0 / (1_u64 << 60) as f64) - (-1.0_f64).exp()).abs() < 1e-12);
    }
}
