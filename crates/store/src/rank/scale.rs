//! Any number as one of 254 bins: a logarithmic window that follows what is evicted.
//!
//! Shape:      number -> key (its order among all numbers, 16 steps per octave) -> distance of the key from the centre
//! Invariants: a greater number never has a lower bin; what is no number has the lowest
//! Units:      a bin is a sixteenth of an octave (4.4 %), the window 15.9 octaves (a factor of 60,000) wide; what lies
//!             beyond is in its first or last bin
//! Cost:       a few cycles per item, no state but the centre

use super::{BIN_MIN, BINS};

/// The bin of a number whose key is the centre.
const CENTRE: i32 = BINS / 2;

/// Before anything was ranked; the first item's key takes its place.
pub(super) const CENTRE_START: f32 = f32::NAN;

/// A number's place among all numbers: sign, exponent and four bits of its fraction, in the order of their values.
fn key(value: f64) -> i32 {
    // Zero and minus zero are one.
    let bits = (value + 0.0).to_bits().cast_signed();
    // Negative numbers are ordered by falling bits.
    let ordered = bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed();
    i32::try_from(ordered >> 48).unwrap_or(0)
}

/// The centre that puts a number into the middle; a start if there is none.
pub(super) fn centre_at(value: f64) -> f32 {
    // 17 bits: exact.
    if value.is_finite() { key(value) as f32 } else { CENTRE_START }
}

/// The bin of a number, not yet held to what bins there are.
#[inline]
pub(super) fn bin(value: f64, centre: f32) -> i32 {
    if value.is_nan() {
        return i32::from(BIN_MIN);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a key is 17 bits; no centre reads as zero")]
    let centre = centre as i32;
    CENTRE + key(value) - centre
}

/// The centre after a pass that evicted everything below `threshold`: the key of that bin.
pub(super) fn centre_after(threshold: u8, centre: f32) -> f32 {
    centre + f32::from(threshold) - CENTRE as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_step_is_a_sixteenth_of_an_octave_on_either_side_of_zero() {
        for (low, high, steps) in
            [(1.0, 2.0, 16), (1e-9, 2e-9, 16), (-2.0, -1.0, 16), (1.0, 1.0625, 1), (0.0, -0.0, 0)]
        {
            assert_eq!(key(high) - key(low), steps, "{low} {high}");
        }
        assert!(key(f64::NEG_INFINITY) < key(-1e300) && key(-1e-300) < key(0.0) && key(0.0) < key(1e-300));
        assert!(key(1e300) < key(f64::INFINITY));
    }

    #[test]
    fn what_is_no_number_goes_first() {
        for centre in [centre_at(1.0), centre_at(-1e9), CENTRE_START] {
            assert_eq!(bin(f64::NAN, centre), i32::from(BIN_MIN));
        }
        let centre = centre_at(3.0);
        assert!(bin(f64::NEG_INFINITY, centre) < 0 && BINS < bin(f64::INFINITY, centre));
        assert!(centre_at(f64::INFINITY).is_nan() && centre_at(f64::NAN).is_nan());
    }

    #[test]
    fn the_centre_comes_to_a_threshold_wherever_it_is() {
        for (from, to) in [(1.0, 1e-12), (1e-12, 1e6), (-5.0, 7.0), (3.0, 3.3)] {
            let mut centre = centre_at(from);
            for _ in 0..600 {
                let threshold = bin(to, centre).clamp(i32::from(BIN_MIN), BINS - 1);
                centre = centre_after(u8::try_from(threshold).unwrap(), centre);
            }
            assert_eq!(bin(to, centre), CENTRE, "{from} {to}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 1_024 },
            failure_persistence: if cfg!(miri) { None } else { ProptestConfig::default().failure_persistence },
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_greater_number_never_has_a_lower_bin(a in any::<f64>(), b in any::<f64>(), at in any::<f64>()) {
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            prop_assume!(low <= high);
            let centre = centre_at(at);
            prop_assert!(bin(low, centre) <= bin(high, centre), "{low} {high} {centre}");
        }
    }
}
