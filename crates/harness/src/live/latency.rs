//! Latencies of a run: how many requests took how long.
//!
//! Units:  nanoseconds; told in microseconds
//! Shape:  128 buckets per power of two, so that a quantile is off by less than 1 %

use histogram::Histogram;

/// Buckets per power of two, as a power of two itself.
const GROUPING: u8 = 7;
/// What is longer than 2^36 ns, 69 s, counts as that.
const LONGEST: u8 = 36;

/// The latencies.
#[derive(Clone, Debug)]
pub struct Latency {
    all: Histogram,
}

impl Default for Latency {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "the two constants are within the bounds of the crate")]
        let all = Histogram::new(GROUPING, LONGEST).expect("a valid pair of powers");
        Self { all }
    }
}

impl Latency {
    /// Counts one.
    pub fn record(&mut self, nanos: u64) {
        // Clamped, so that none is beyond the last bucket.
        let _ = self.all.increment(nanos.min((1 << LONGEST) - 1));
    }

    /// Adds what another thread counted.
    pub fn merge(&mut self, other: &Self) {
        // The parameters are the same, and no count reaches 2^64.
        let _ = self.all.checked_add_assign(&other.all);
    }

    /// How long the fastest `part` of the requests took at most, in microseconds; 0 without any.
    #[must_use]
    pub fn quantile_us(&self, part: f64) -> f64 {
        let bucket = self.all.quantile_bucket(part).ok().flatten();
        bucket.map_or(0.0, |bucket| bucket.end() as f64 / 1e3)
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.all.as_slice().iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_hundredth() {
        let (mut low, mut high) = (Latency::default(), Latency::default());
        (1..=500).for_each(|n| low.record(n * 1_000));
        (501..=1_000).for_each(|n| high.record(n * 1_000));
        low.merge(&high);
        assert_eq!(low.count(), 1_000);
        for (part, micros) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0)] {
            let got = low.quantile_us(part);
            assert!((got / micros - 1.0).abs() < 0.01, "{part}: {got}");
        }
        assert!(Latency::default().quantile_us(0.5) < 1e-9);
    }

    #[test]
    fn the_longest_is_kept() {
        let mut all = Latency::default();
        all.record(u64::MAX);
        assert_eq!(all.count(), 1);
        assert!(60e6 < all.quantile_us(0.5));
    }
}
