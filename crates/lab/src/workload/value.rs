//! The size of a key's value: drawn once per key, from a distribution with the published mean.
//!
//! | symbol | here |
//! |---|---|
//! | Z, roughly normal | sum of four uniforms, centred, deviation 1, within ±3.46 |
//! | size | `scale` × exp(`sigma` × Z), at least 1, at most `VALUE_BYTES_MAX` |
//!
//! The bounded Z keeps the largest value within exp(3.46 `sigma`) of the median: no single value decides a run.
//! `scale` is such that the mean is exact before rounding: E exp(tU) for U uniform in ±½ is sinh(t/2) / (t/2).

use crate::limits::VALUE_BYTES_MAX;
use units::mix64;

/// A log-normal distribution of value sizes, as a function of the key.
#[derive(Clone, Copy, Debug)]
pub struct ValueSizes {
    scale: f64,
    sigma: f64,
}

/// Deviation of the sum of four uniforms is 1 / √3.
const SQRT_3: f64 = 1.732_050_807_568_877_2;

impl ValueSizes {
    /// Sizes of `mean_bytes` on average; `sigma` is the deviation of their logarithm, 0 makes them all equal.
    #[must_use]
    pub fn new(mean_bytes: f64, sigma: f64) -> Self {
        let half = sigma * SQRT_3 / 2.0;
        let of_one = if half > 0.0 { half.sinh() / half } else { 1.0 };
        Self { scale: mean_bytes / of_one.powi(4), sigma }
    }

    /// The value size of the key whose number is `key_number`.
    #[must_use]
    pub fn of(&self, key_number: u64) -> u32 {
        let bits = mix64(key_number);
        let sum: u64 = (0..4).map(|i| bits >> (16 * i) & 0xFFFF).sum();
        let z = (sum as f64 / 65_535.0 - 2.0) * SQRT_3;
        let bytes = (self.scale * (self.sigma * z).exp()).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the limits")]
        let bytes = bytes.clamp(1.0, f64::from(VALUE_BYTES_MAX)) as u32;
        // Where the parameters are no numbers.
        bytes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_the_published_one() {
        for (mean, sigma) in [(273.0, 0.0), (273.0, 0.5), (335.0, 1.22), (20_134.0, 0.5)] {
            let sizes = ValueSizes::new(mean, sigma);
            let total: f64 = (0..200_000).map(|key| f64::from(sizes.of(key))).sum();
            let ratio = total / 200_000.0 / mean;
            assert!((ratio - 1.0).abs() < 0.02, "{mean} {sigma}: {ratio}");
        }
    }

    #[test]
    fn sizes_belong_to_keys_and_have_bounds() {
        let sizes = ValueSizes::new(100.0, 1.0);
        assert_eq!(sizes.of(7), sizes.of(7));
        assert!((0..100).any(|key| sizes.of(key) != sizes.of(7)));
        assert_eq!(ValueSizes::new(0.0, 0.0).of(1), 1);
        assert_eq!(ValueSizes::new(1e12, 0.0).of(1), VALUE_BYTES_MAX);
        assert_eq!(ValueSizes::new(f64::NAN, 0.0).of(1), 1);
    }
}
