//! Hit density: uses per byte and per time since the last use; the lowest goes first.
//!
//! Shape:      uses / (bytes × (ticks since the last use + `SOFTENING_TICKS`)) -> an eighth of an octave as a bin
//! Invariants: a bin means the same in every tenant and at every time
//! Units:      uses as the Morris counter has them; ticks of the rank clock, 64 in a turnover; hits per byte and tick
//! Source:     hit density is Beckmann, Chen, Cidon (LHD), NSDI 2018, who learn it by classes of age and size. Here it is the
//!             density of an item whose next use comes as its last ones did; learnt tables gave no more on the mixed trace

use super::uses::USES;
use super::{BIN_MIN, Usage};

/// Added to the time since the last use, half a turnover of the memory: who has just been used is no surer to be used at once. With 24 and
/// with 48 the mixed trace misses the same within .0012 (`docs/decisions/2026-11-26-uses-outlive-eviction.md`).
const SOFTENING_TICKS: f32 = 32.0;
/// Eighths of an octave of a number: its exponent and three bits of its fraction.
const EIGHTHS_AT: u32 = 20;
/// The lowest density that is told from less: 2^-31, an item of 8 MiB used once and not for 224 ticks.
const LOWEST: i32 = (127 - 31) << 3;

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
    (density.to_bits() >> EIGHTHS_AT).cast_signed() - LOWEST + i32::from(BIN_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::AGE_MAX;

    #[test]
    fn a_bin_is_an_eighth_of_an_octave_of_the_density() {
        let of = |age, uses, size| bin(&Usage { age, uses, size, ..Usage::default() });
        assert_eq!(of(0, 0, 100) - of(0, 0, 200), 8);
        assert_eq!(of(0, 0, 100) - of(32, 0, 100), 8);
        assert!(of(10, 3, 100) < of(10, 5, 100));
        assert!(i32::from(BIN_MIN) <= of(AGE_MAX, 0, 1 << 23) && of(0, 15, 20) < 256);
    }
}
