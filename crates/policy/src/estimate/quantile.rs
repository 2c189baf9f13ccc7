//! Quantiles of a stream of whole numbers (latencies, sizes) in fixed memory, with a bounded error.
//!
//! Shape:      values -> counts in buckets that are straight within an octave -> the value at a quantile
//! Invariants: an answer is at most 1/64 of the exact one away from it, at any quantile and for any distribution; values
//!             below 64 are exact
//! Cost:       O(1) per value, 15 KiB, O(buckets) per answer
//! Source:     a histogram in logarithmic steps, as HdrHistogram keeps. P² (Jain and Chlamtac 1985) needs five numbers
//!             only, but bounds no error, and a tail that jumps is what a goal at p99 is about
//! Non-goals:  fractions of a unit: hand in nanoseconds, not milliseconds

use control::Quantile;

/// Buckets of an octave, as a power of two.
const OCTAVE_BITS: u32 = 5;
/// Buckets of an octave.
const OCTAVE: usize = 1 << OCTAVE_BITS;
/// Buckets up to the largest value: the first two octaves together count one by one.
const BUCKETS: usize = (64 - OCTAVE_BITS as usize + 1) * OCTAVE;
/// Largest error of an answer relative to the exact one: half the width of a bucket over its begin.
pub const QUANTILE_ERROR: f64 = 1.0 / (2 * OCTAVE) as f64;

/// The bucket of a value.
#[inline]
pub(super) fn bucket_of(value: u64) -> usize {
    let bits = 64 - value.leading_zeros();
    let shift = bits.saturating_sub(OCTAVE_BITS + 1);
    shift as usize * OCTAVE + usize::try_from(value >> shift).unwrap_or(0)
}

/// The smallest value of a bucket and the largest.
pub(super) fn range_of(bucket: usize) -> (u64, u64) {
    let shift = (bucket / OCTAVE).saturating_sub(1);
    let low = ((bucket - shift * OCTAVE) as u64) << shift;
    (low, low + ((1_u64 << shift) - 1))
}

/// Values counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quantiles {
    counts: Box<[u64]>,
    total: u64,
}

impl Default for Quantiles {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0 }
    }
}

impl Quantiles {
    /// Counts `value` `times` times.
    pub fn note(&mut self, value: u64, times: u64) {
        let count = &mut self.counts[bucket_of(value)];
        *count = count.saturating_add(times);
        self.total = self.total.saturating_add(times);
    }

    /// The value at `quantile`: the middle of the bucket that the value of that place in order is in. None without
    /// values.
    #[must_use]
    pub fn at(&self, quantile: Quantile) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place among the values, at least the first and at most the last"
        )]
        let place = ((quantile.get() * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut before = 0_u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            before = before.saturating_add(*count);
            if place <= before {
                let (low, high) = range_of(bucket);
                return Some(low + (high - low) / 2);
            }
        }
        None
    }

    /// Values counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Forgets every value.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// Halves every count (rounding down), so that old values fade: what a loop does once per window.
    pub fn fade(&mut self) {
        self.total = 0;
        for count in &mut self.counts {
            *count /= 2;
            self.total = self.total.saturating_add(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Rng;

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among the values")]
    fn exact(sorted: &[u64], quantile: f64) -> u64 {
        let place = (quantile * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted[place - 1]
    }

    #[test]
    fn buckets_cover_every_value_without_gaps() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (low, high) = range_of(bucket);
            assert_eq!((low, bucket_of(low), bucket_of(high)), (next, bucket, bucket));
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends with the last value");
    }

    /// A tail that is a hundred times the body: where a mean and a variance mislead.
    #[test]
    fn a_latency_with_a_tail_is_read_within_the_bound() {
        for seed in 1..=3 {
            let mut rng = Rng::new(seed);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a latency is positive"
            )]
            let mut latency_ns = || {
                let body = 80_000.0 - 20_000.0 * (1.0 - rng.unit()).ln();
                (if rng.chance(0.015) { body * 100.0 } else { body }) as u64
            };
            let mut values: Vec<u64> = (0..50_000).map(|_| latency_ns()).collect();
            let mut quantiles = Quantiles::default();
            values.iter().for_each(|v| quantiles.note(*v, 1));
            values.sort_unstable();
            for q in [0.001, 0.5, 0.9, 0.98, 0.99, 0.999] {
                let (ours, exact) = (quantiles.at(Quantile::new(q).unwrap()).unwrap(), exact(&values, q));
                let error = ours.abs_diff(exact) as f64 / exact as f64;
                assert!(error <= QUANTILE_ERROR, "seed {seed}, p{q}: {ours} for {exact}");
            }
        }
    }

    #[test]
    fn fading_and_clearing_forget() {
        let mut quantiles = Quantiles::default();
        let median = Quantile::new(0.5).unwrap();
        assert_eq!(quantiles.at(median), None);
        quantiles.note(10, 8);
        quantiles.fade();
        assert_eq!((quantiles.total(), quantiles.at(median)), (4, Some(10)));
        quantiles.note(20, 5);
        assert_eq!(quantiles.at(median), Some(20));
        quantiles.clear();
        assert_eq!((quantiles.total(), quantiles.at(median)), (0, None));
    }

    proptest! {
        #[test]
        fn an_answer_is_within_its_bound(
            mut values in prop::collection::vec((0_u32..63, any::<u64>()).prop_map(|(s, v)| v >> s), 1..200),
            q in 0.0001..0.9999,
        ) {
            let mut quantiles = Quantiles::default();
            values.iter().for_each(|v| quantiles.note(*v, 1));
            values.sort_unstable();
            let (ours, exact) = (quantiles.at(Quantile::new(q).unwrap()).unwrap(), exact(&values, q));
            prop_assert!(ours.abs_diff(exact) as f64 <= QUANTILE_ERROR * exact as f64, "{} {}", ours, exact);
        }
    }
}
