//! Hit density: uses per byte and per time since the last use; the lowest goes first.
//!
//! Shape:      uses / (bytes × (ticks since the last use + `SOFTENING_TICKS`)) -> a sixth of an octave as a bin
//! Invariants: a bin means the same in every tenant and at every time
//! Units:      uses as the Morris counter has them; ticks of the rank clock, 64 in a turnover; hits per byte and tick
//! Source:     hit density is Beckmann, Chen, Cidon (LHD), NSDI 2018, who learn it by classes of age and size. Here it is the
//!             density of an item whose next use comes as its last ones did; learnt tables gave no more on the mixed trace

use super::uses::USES;
use super::{BIN_MIN, Usage};

/// Added to the time since the last use: who has just been used is no surer to be used at once (guess; in a simulation of the
/// mixed trace 20,000 to 160,000 requests as the constant differ by .0005).
const SOFTENING_TICKS: f32 = 4.0;
/// Below its exponent a number has so many bits of its fraction.
const FRACTION_BITS: u32 = f32::MANTISSA_DIGITS - 1;
/// Bins to an octave: with so many there are bins for all that a store may hold, from an item of 1 GiB used once and not for
/// `AGE_MAX` ticks, 2^-38, to the smallest used as often as is counted, 2^3.
const STEPS: i32 = 6;
/// The lowest density that is told from less: 2^-39.
const LOWEST: i32 = (127 - 39) * STEPS;
/// What is worth more is said in so many parts of an octave (`control::memory::Worth`).
const MORE_STEPS: i32 = 8;
/// Parts of an octave of which both a bin and what is worth more are wholes.
const FINE_STEPS: i32 = 24;
const _: () = assert!(FINE_STEPS % STEPS == 0 && FINE_STEPS % MORE_STEPS == 0);

/// Hits per byte and tick that an item lets expect.
#[inline]
pub(crate) fn density(item: &Usage) -> f32 {
    USES[usize::from(item.uses)] / (item.size as f32 * (f32::from(item.age) + SOFTENING_TICKS))
}

/// The bin of an item, not yet held to what bins there are.
#[inline]
pub(super) fn bin(item: &Usage) -> i32 {
    bin_of(density(item))
}

/// The bin of what lets expect so many hits per byte and tick.
#[inline]
pub(super) fn bin_of(density: f32) -> i32 {
    // Its exponent counts octaves, its fraction is a part of one.
    let steps = (i64::from(density.to_bits()) * i64::from(STEPS)) >> FRACTION_BITS;
    i32::try_from(steps).unwrap_or(i32::MAX) - LOWEST + i32::from(BIN_MIN)
}

/// Where a bin stands among all if what has it is worth so many eighths of an octave more than its density says.
#[inline]
pub(crate) fn raised(bin: u8, more: i16) -> i32 {
    i32::from(bin) * (FINE_STEPS / STEPS) + i32::from(more) * (FINE_STEPS / MORE_STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::AGE_MAX;

    fn of(age: u8, uses: u8, size: u32) -> i32 {
        bin(&Usage { age, uses, size, ..Usage::default() })
    }

    #[test]
    fn a_bin_is_a_sixth_of_an_octave_of_the_density() {
        assert_eq!(of(0, 0, 100) - of(0, 0, 200), 6);
        assert_eq!(of(0, 0, 100) - of(4, 0, 100), 6);
        assert!(of(10, 3, 100) < of(10, 5, 100));
        assert!(i32::from(BIN_MIN) < of(AGE_MAX, 0, 1 << 30) && of(0, 15, 32) < 255);
    }

    #[test]
    fn values_of_every_size_go_by_their_age() {
        for size in [1, 4, 16, 64, 256, 1_024].map(|mebibytes: u32| mebibytes << 20) {
            for pair in [0, 4, 12, 28, 64, 128, AGE_MAX].windows(2) {
                assert!(of(pair[1], 0, size) < of(pair[0], 0, size), "{size} B, {pair:?} ticks");
            }
            assert!(of(12, 0, size) < of(12, 1, size), "{size} B, used again");
        }
    }

    #[test]
    fn an_octave_more_is_an_octave_of_bins() {
        for size in [100_u32, 1 << 20, 1 << 29] {
            let bin_of = |size| u8::try_from(of(20, 0, size)).unwrap();
            assert_eq!(raised(bin_of(size), 0), raised(bin_of(size * 2), 8));
            assert_eq!(raised(bin_of(size * 2), 0), raised(bin_of(size), -8));
        }
        assert!(raised(100, 0) < raised(100, 1), "however little more");
    }
}
