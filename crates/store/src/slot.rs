//! A slot of the index: where an item is and how it was used, in one word.
//!
//! ```text
//!  63        52 51    48 47      40 39              20 19               0
//! +------------+--------+----------+------------------+------------------+
//! |  tag 12    | uses 4 |  tick 8  |   segment 20     |    offset 20     |
//! +------------+--------+----------+------------------+------------------+
//! ```
//! Invariants: zero is an empty slot; segments count from 1 in slots, so that no item is zero
//! Units:      offset in bytes; tick of the rank clock, modulo 256;
//!             uses as a Morris counter (`rank::USES`)

use crate::geometry::OFFSET_BITS;
use crate::hash::KeyHash;
use units::SegmentId;

const SEGMENT_BITS: u32 = 20;
const TICK_BITS: u32 = 8;
const USES_BITS: u32 = 4;
const TAG_BITS: u32 = 12;
const _: () = assert!(TAG_BITS + USES_BITS + TICK_BITS + SEGMENT_BITS + OFFSET_BITS == 64);

const TICK_AT: u32 = OFFSET_BITS + SEGMENT_BITS;
const USES_AT: u32 = TICK_AT + TICK_BITS;
const TAG_AT: u32 = USES_AT + USES_BITS;
const PLACE_MASK: u64 = (1 << TICK_AT) - 1;

/// Largest value of the use counter.
pub(crate) const USES_MAX: u8 = (1 << USES_BITS) - 1;

/// A non-empty slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(pub(crate) u64);

/// Where an item begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) segment: SegmentId,
    /// In bytes.
    pub(crate) offset: u32,
}

/// The tag of a hash: its top bits.
#[inline]
pub(crate) fn tag_of(hash: KeyHash) -> u64 {
    hash.0 >> TAG_AT
}

/// The tag of a slot.
#[inline]
pub(crate) fn tag_in(slot: Slot) -> u64 {
    slot.0 >> TAG_AT
}

/// Whether a word is a slot with this tag.
#[inline]
pub(crate) fn has_tag(word: u64, tag: u64) -> bool {
    word >> TAG_AT == tag && word != 0
}

impl Slot {
    #[inline]
    pub(crate) fn new(hash: KeyHash, place: Place, tick: u8, uses: u8) -> Self {
        debug_assert!(uses <= USES_MAX);
        debug_assert!(place.offset < 1 << OFFSET_BITS);
        debug_assert!(place.segment.0 + 1 < 1 << SEGMENT_BITS);
        let place_bits = (u64::from(place.segment.0) + 1) << OFFSET_BITS | u64::from(place.offset);
        Self(tag_of(hash) << TAG_AT | u64::from(uses) << USES_AT | u64::from(tick) << TICK_AT | place_bits)
    }

    /// Whether it is one, and its age above `most` at this tick of the clock. The clock may have moved between two looks: what seems to
    /// be ahead of it was used just now.
    #[inline]
    pub(crate) fn is_older(self, most: u8, now: u8) -> bool {
        let beyond = now.wrapping_sub(self.tick()).wrapping_sub(most).wrapping_sub(1);
        (self.0 != 0) & (beyond < (u8::MAX - 2).saturating_sub(most))
    }

    #[inline]
    pub(crate) fn place(self) -> Place {
        let segment = (self.0 >> OFFSET_BITS) & ((1 << SEGMENT_BITS) - 1);
        Place {
            segment: SegmentId((segment as u32).wrapping_sub(1)),
            offset: (self.0 & ((1 << OFFSET_BITS) - 1)) as u32,
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to 8 bits")]
    pub(crate) fn tick(self) -> u8 {
        (self.0 >> TICK_AT) as u8
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to 4 bits")]
    pub(crate) fn uses(self) -> u8 {
        ((self.0 >> USES_AT) & u64::from(USES_MAX)) as u8
    }

    /// The same slot after a use.
    #[inline]
    pub(crate) fn used(self, tick: u8, uses: u8) -> Self {
        let cleared = self.0 & !(0xFFF << TICK_AT);
        Self(cleared | u64::from(uses & USES_MAX) << USES_AT | u64::from(tick) << TICK_AT)
    }

    /// The same slot pointing elsewhere.
    #[inline]
    pub(crate) fn moved(self, place: Place) -> Self {
        let place_bits = (u64::from(place.segment.0) + 1) << OFFSET_BITS | u64::from(place.offset);
        Self(self.0 & !PLACE_MASK | place_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let place = Place { segment: SegmentId((1 << 20) - 3), offset: (1 << 20) - 1 };
        let slot = Slot::new(KeyHash(u64::MAX), place, 200, 15);
        assert_eq!((slot.place(), slot.tick(), slot.uses()), (place, 200, 15));
        assert!(has_tag(slot.0, tag_of(KeyHash(u64::MAX))));
        let first = Place { segment: SegmentId(0), offset: 0 };
        let moved = slot.moved(first).used(7, 1);
        assert_eq!((moved.place(), moved.tick(), moved.uses()), (first, 7, 1));
        assert_ne!(
            Slot::new(KeyHash(0), first, 0, 0).0,
            0,
            "the first item of the first segment is not empty"
        );
    }

    #[test]
    fn what_is_ahead_of_the_clock_is_not_old() {
        let place = Place { segment: SegmentId(0), offset: 0 };
        let older = |age: u8| Slot::new(KeyHash(0), place, 3_u8.wrapping_sub(age), 0).is_older(224, 3);
        let old: Vec<u8> = (0..=u8::MAX).filter(|age| older(*age)).collect();
        assert_eq!(old, (225..=253).collect::<Vec<u8>>());
        assert!(!Slot(0).is_older(224, 230), "an empty slot");
    }
}
