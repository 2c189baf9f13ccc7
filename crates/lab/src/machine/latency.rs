//! Declared distribution of latencies around the model's means: what is the 99th percentile?
//!
//! Shape:      means with their numbers of accesses -> mean and quantiles of the mixture
//! Invariants: the mean of the distribution is the model's mean
//! Units:      nanoseconds
//! Source:     the queueing model yields means only. Around each mean we declare a lognormal distribution with one spread
//!             for all kinds. Its spread comes from the only pair of published figures for one machine: NyxCache's reads of
//!             256 B take .49 µs on average (Table 2) and a latency-critical cache meets a 99th percentile of 1.5 µs beside
//!             moderate neighbours (Fig. 8), a ratio of 3.06. Any percentile that this model reports rests on it.
//!             The quantile function of the normal distribution is Acklam's rational approximation (relative error 1.2e-9),
//!             its distribution function Abramowitz and Stegun 7.1.26 (absolute error 1.5e-7).

/// Standard deviation of the logarithm of a latency: 2.326 σ − σ² / 2 = ln 3.06.
pub const SPREAD: f64 = 0.545;
/// Means within this ratio of each other are kept as one.
const ALIKE: f64 = 0.005;
/// Different means that a mixture keeps; beyond that neighbours in value are joined.
const PARTS_MAX: usize = 48;
/// Halvings of the search for a quantile: 2⁻⁴⁰ of its range.
const HALVINGS: u32 = 40;

/// Latencies of many accesses: some around this mean, some around that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mixture {
    /// Mean in ns and number of accesses, in the order of means.
    parts: Vec<(f64, f64)>,
}

impl Mixture {
    /// Forgets everything, keeping the buffer.
    pub fn clear(&mut self) {
        self.parts.clear();
    }

    /// Adds `accesses` with a mean of `mean_ns`.
    pub fn add(&mut self, mean_ns: f64, accesses: f64) {
        if accesses <= 0.0 || mean_ns <= 0.0 {
            return;
        }
        let at = self.parts.partition_point(|(mean, _)| *mean < mean_ns);
        for near in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            if let Some((mean, count)) = self.parts.get_mut(near)
                && (*mean / mean_ns - 1.0).abs() <= ALIKE
            {
                *mean = (*mean * *count + mean_ns * accesses) / (*count + accesses);
                *count += accesses;
                return;
            }
        }
        self.parts.insert(at, (mean_ns, accesses));
        if PARTS_MAX < self.parts.len() {
            self.join_closest();
        }
    }

    fn join_closest(&mut self) {
        let ratio = |pair: &[(f64, f64)]| pair[1].0 / pair[0].0;
        let closest = (0..self.parts.len() - 1)
            .min_by(|&a, &b| ratio(&self.parts[a..=a + 1]).total_cmp(&ratio(&self.parts[b..=b + 1])));
        if let Some(at) = closest {
            let (mean, count) = self.parts.remove(at + 1);
            let (kept, kept_count) = &mut self.parts[at];
            *kept = (*kept * *kept_count + mean * count) / (*kept_count + count);
            *kept_count += count;
        }
    }

    /// Number of accesses.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.parts.iter().map(|(_, count)| count).sum()
    }

    /// Mean in ns; none without accesses.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        let count = self.count();
        let total: f64 = self.parts.iter().map(|(mean, count)| mean * count).sum();
        (0.0 < count).then(|| total / count)
    }

    /// The latency in ns that a part `quantile` (inside 0..1) of the accesses does not pass; none without accesses.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<f64> {
        let (first, last) = (self.parts.first()?, self.parts.last()?);
        let count = self.count();
        // Every part's quantile lies between those of the least and of the largest mean.
        let (mut low, mut high) = (quantile_of(first.0, quantile), quantile_of(last.0, quantile));
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            let below: f64 = self.parts.iter().map(|&(mean, n)| n * part_below(mean, middle)).sum();
            if below < quantile * count { low = middle } else { high = middle }
        }
        Some(high)
    }
}

/// Quantile of the declared distribution with mean `mean_ns`.
#[must_use]
pub fn quantile_of(mean_ns: f64, quantile: f64) -> f64 {
    mean_ns * (SPREAD * normal_quantile(quantile) - SPREAD * SPREAD / 2.0).exp()
}

/// Standard deviation of the declared distribution ÷ its mean.
#[must_use]
pub fn variation() -> f64 {
    (SPREAD * SPREAD).exp_m1().sqrt()
}

/// Relative standard deviation of a quantile that is estimated from one access; of n independent ones it is that ÷ √n.
#[must_use]
pub fn quantile_variation(quantile: f64) -> f64 {
    let z = normal_quantile(quantile);
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    SPREAD * (quantile * (1.0 - quantile)).sqrt() / density
}

fn part_below(mean_ns: f64, latency_ns: f64) -> f64 {
    normal_part_below(((latency_ns / mean_ns).ln() + SPREAD * SPREAD / 2.0) / SPREAD)
}

fn normal_part_below(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let tail = polynomial.iter().fold(0.0, |sum, c| sum * t + c) * t * (-x * x).exp() / 2.0;
    if z < 0.0 { tail } else { 1.0 - tail }
}

/// The number that a standard normal variable stays below with probability `p`, for p inside 0..1.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    const TAIL: f64 = 0.024_25;
    let horner = |c: &[f64], x: f64| c.iter().fold(0.0, |sum, c| sum * x + c);
    let p = p.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON);
    let lower = |p: f64| {
        let x = (-2.0 * p.ln()).sqrt();
        horner(&C, x) / horner(&D, x)
    };
    if p < TAIL {
        lower(p)
    } else if p <= 1.0 - TAIL {
        let x = p - 0.5;
        x * horner(&A, x * x) / horner(&B, x * x)
    } else {
        -lower(1.0 - p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_distribution_are_the_tables() {
        for (p, z) in
            [(0.5, 0.0), (0.975, 1.959_964), (0.99, 2.326_348), (0.999, 3.090_232), (0.01, -2.326_348)]
        {
            assert!((normal_quantile(p) - z).abs() < 1e-5, "{p}: {}", normal_quantile(p));
            assert!((normal_part_below(z) - p).abs() < 1e-6, "{z}: {}", normal_part_below(z));
        }
    }

    #[test]
    fn one_mean_has_the_ratio_that_the_spread_was_declared_for() {
        let mut mixture = Mixture::default();
        mixture.add(490.0, 1000.0);
        let tail = mixture.quantile_ns(0.99).unwrap();
        assert!((tail / 1500.0 - 1.0).abs() < 0.01, "{tail}");
        assert!((mixture.mean_ns().unwrap() - 490.0).abs() < 1e-9);
        assert_eq!(Mixture::default().quantile_ns(0.99), None);
    }

    #[test]
    fn a_tail_is_made_by_the_slow_part() {
        let mut mixture = Mixture::default();
        mixture.add(500.0, 950.0);
        mixture.add(5000.0, 50.0);
        let tail = mixture.quantile_ns(0.99).unwrap();
        // One in a hundred is one in five of the slow ones.
        let expected = quantile_of(5000.0, 0.8);
        assert!((tail / expected - 1.0).abs() < 0.01, "{tail} {expected}");
    }

    #[test]
    fn many_means_are_joined_without_losing_accesses_or_the_mean() {
        let mut mixture = Mixture::default();
        let (mut total, mut count) = (0.0, 0.0);
        for i in 0..1000_u32 {
            let (mean, n) = (100.0 + f64::from(i * 37 % 1000), f64::from(1 + i % 7));
            mixture.add(mean, n);
            total += mean * n;
            count += n;
        }
        assert!(mixture.parts.len() <= PARTS_MAX);
        assert!((mixture.count() - count).abs() < 1e-6);
        assert!((mixture.mean_ns().unwrap() - total / count).abs() < 1e-6);
        assert!(mixture.parts.is_sorted_by(|a, b| a.0 <= b.0));
    }
}
