//! Greedy dual size frequency: least uses per byte first, ageing by what was evicted.
//!
//! Invariants: the level never falls
//! Source:     Cherkasova 1998, H = L + uses / size, where L is the H of the last eviction. H is not stored: L at the
//!             tick of the last access is kept per tenant and tick, the rest is in the slot

use super::uses::USES;
use super::{BINS, Usage};

/// The bin of an item whose H equals the level of the last eviction.
const CENTRE: i32 = BINS / 2;
/// L before anything was evicted: uses per byte of an item of 4 KiB used once, the middle of what occurs.
const LEVEL_START: f32 = 1.0 / 4096.0;

/// Logarithm of a positive number in sixteenths of an octave, straight between octaves.
fn sixteenths(x: f32) -> i32 {
    (x.max(f32::MIN_POSITIVE).to_bits() >> 19).cast_signed()
}

/// The bin of an item, not yet held to what bins there are; `level` is L now.
#[inline]
pub(super) fn bin(item: &Usage, level: f32) -> i32 {
    // L never falls: what says otherwise is another rank's, from before this one was chosen.
    let h = item.level.min(level) + USES[usize::from(item.uses)] / item.size as f32;
    CENTRE + sixteenths(h) - sixteenths(level.max(LEVEL_START))
}

/// Part of the way that the level moves towards a pass's threshold: one pass sees a sample, and some of its segments
/// were chosen for being poor. On the mixed trace .1 gives .8149 of hits, .3 .8126, 1 .8105, .03 .8116.
const LEVEL_STEP: f32 = 0.1;

/// The level after a pass that evicted everything below `threshold`: towards the lower edge of that bin, never falling.
pub(super) fn raised_level(threshold: u8, level: f32) -> f32 {
    let sixteenth = sixteenths(level.max(LEVEL_START)) + i32::from(threshold) - CENTRE;
    let edge = f32::from_bits(u32::try_from(sixteenth.max(0)).unwrap_or(0) << 19);
    if edge.is_finite() { level + LEVEL_STEP * (edge.max(level) - level) } else { level }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_rises_to_the_threshold_and_never_falls() {
        let level = raised_level(u8::try_from(CENTRE).unwrap() + 16, 0.01);
        assert!((0.0109..0.0111).contains(&level), "a step towards one octave up: {level}");
        assert!((raised_level(60, level) - level).abs() < f32::EPSILON);
        // An item whose H is the new level lands in the middle.
        let item = Usage { size: 1_000_000_000, level, ..Usage::default() };
        assert_eq!(bin(&item, level), CENTRE);
        for of_another_rank in [f32::NAN, 16_000.0] {
            assert_eq!(bin(&Usage { level: of_another_rank, ..item }, level), CENTRE);
        }
    }
}
