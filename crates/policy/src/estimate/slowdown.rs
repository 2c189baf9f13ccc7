//! How much slower a tenant runs than with all of its memory near, as a function of its memory and bandwidth.
//!
//! Shape:      miss ratio and bandwidth, now and at a target -> slowdowns -> speed at the target relative to now
//! Units:      any unit of bandwidth, the same for all; ratios in 0..=1
//! Source:     Spirit §4.2 and its released estimator. We differ: the released one takes a tenant for saturated from 80 %
//!             of its bandwidth on and then predicts a gain from all that it could be given, so that one noisy sample
//!             turns its bid round; here the prediction rises over a ramp.
//!
//! | Paper | here |
//! |---|---|
//! | γ | `gamma` |
//! | b^req | `wanted` |
//! | f(c_t, b_t) ÷ f(c, b) | `speed_up` |

/// γ: time to fetch from afar ÷ time of an access nearby (Spirit §4.2: several microseconds to hundreds of nanoseconds
/// would be less; the paper and its release use 100).
pub const GAMMA: f64 = 100.0;
/// Below this part of its bandwidth a tenant is taken for unsaturated (notes of the released code: .7 to .95 spans the
/// noise around its threshold of .8).
pub const RAMP_START: f64 = 0.7;
/// From this part on it is taken to use all that it is given.
pub const RAMP_END: f64 = 0.95;

/// Miss ratios below are taken for this (released code).
pub const LEAST_RATIO: f64 = 1e-12;
/// No bandwidth at all counts as so many times too little. A guess: beyond every ratio that matters, far from overflow.
pub const STARVED_MOST: f64 = 1e9;

/// A tenant's miss ratio and its bandwidth at one share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spot {
    /// Its miss ratio there.
    pub miss_ratio: f64,
    /// What it may use there.
    pub bandwidth: f64,
}

/// Slowdown with `miss_ratio` while the tenant wants to fetch `wanted` and may fetch `bandwidth`.
#[must_use]
pub fn slowdown(gamma: f64, miss_ratio: f64, wanted: f64, bandwidth: f64) -> f64 {
    let starved = if wanted <= bandwidth { 1.0 } else { (wanted / bandwidth).min(STARVED_MOST) };
    1.0 + miss_ratio * gamma * starved
}

/// How surely a tenant that uses `used` of `granted` would use more: 0 below the ramp, 1 above.
#[must_use]
pub fn saturation(used: f64, granted: f64) -> f64 {
    let part = if 0.0 < granted { used / granted } else { 1.0 };
    ((part - RAMP_START) / (RAMP_END - RAMP_START)).clamp(0.0, 1.0)
}

/// What the tenant would fetch at the target: what it uses now and, as far as it is saturated, what the target offers
/// beyond; in proportion to its misses.
#[must_use]
pub fn wanted(used: f64, now: Spot, target: Spot) -> f64 {
    let more = (target.bandwidth - used).max(0.0);
    let misses = target.miss_ratio / now.miss_ratio.max(LEAST_RATIO);
    (used + saturation(used, now.bandwidth) * more) * misses
}

/// Speed at the target ÷ speed now, of a tenant that uses `used` now.
#[must_use]
pub fn speed_up(gamma: f64, used: f64, now: Spot, target: Spot) -> f64 {
    let wanted = wanted(used, now, target);
    slowdown(gamma, now.miss_ratio, wanted, now.bandwidth)
        / slowdown(gamma, target.miss_ratio, wanted, target.bandwidth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_vectors_of_the_released_estimator() {
        for (ratio, used, granted, target, d, f) in [
            ((0.2, 0.1), 50.0, 100.0, 100.0, 25.0, 21.0 / 11.0),
            ((0.2, 0.2), 95.0, 100.0, 150.0, 150.0, 31.0 / 21.0),
            ((0.2, 0.2), 95.0, 100.0, 50.0, 95.0, 21.0 / 39.0),
        ] {
            let now = Spot { miss_ratio: ratio.0, bandwidth: granted };
            let target = Spot { miss_ratio: ratio.1, bandwidth: target };
            assert!((wanted(used, now, target) - d).abs() < 1e-9, "{now:?} {target:?}");
            assert!((speed_up(GAMMA, used, now, target) - f).abs() < 1e-9, "{now:?} {target:?}");
        }
    }

    #[test]
    fn s6_a_noisy_sample_does_not_turn_the_prediction_round() {
        let now = Spot { miss_ratio: 0.2, bandwidth: 100.0 };
        let target = Spot { miss_ratio: 0.2, bandwidth: 150.0 };
        let mut before = speed_up(GAMMA, 60.0, now, target);
        assert!((before - 1.0).abs() < 1e-9, "an unsaturated tenant gains nothing");
        for used in 61..=100 {
            let next = speed_up(GAMMA, f64::from(used), now, target);
            // The released one steps by .48 between 79 and 80.
            assert!(before <= next + 1e-9 && next - before < 0.06, "used {used}: {before} to {next}");
            before = next;
        }
    }

    #[test]
    fn nothing_divides_by_zero() {
        let none = Spot { miss_ratio: 0.0, bandwidth: 0.0 };
        let some = Spot { miss_ratio: 0.5, bandwidth: 10.0 };
        for (used, now, target) in
            [(0.0, none, some), (0.0, none, none), (5.0, some, none), (0.0, some, none)]
        {
            let f = speed_up(GAMMA, used, now, target);
            assert!(!f.is_nan() && 0.0 <= f, "{used} {now:?} {target:?}: {f}");
        }
    }
}
