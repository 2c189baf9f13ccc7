//! How a memory is divided: segments, reserve, heads, tables, and what is left for tenants.
//!
//! Invariants: index + segments + tables + shadow queues + curves + ghosts ≤ memory, whatever the sizes of items
//! Units:      bytes

use crate::limits;
use units::Bytes;

/// Sizes that follow from the memory, the largest item and the number of writing threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The memory that all of this fits into.
    pub memory: Bytes,
    /// Size of a segment, a power of two.
    pub segment: Bytes,
    /// Largest item, header and key included.
    pub item_max: Bytes,
    /// Largest item that stands in a segment with its value; values of larger ones have pages of their own.
    pub in_segment_max: Bytes,
    /// Segments that fit if the index were empty; the number of ids.
    pub segment_count: u32,
    /// So many make a store that works: each writer's head, the cleaner's destinations, its reserve, and two that can be cleaned.
    pub segments_least: u32,
    /// Budget of all shadow queues together.
    pub shadow: Bytes,
    /// Budget of all miss ratio curves together.
    pub curves: Bytes,
    /// What ghosts take, all of them together.
    pub ghosts: Bytes,
    /// What tenants divide: log and index without reserve and heads.
    pub divisible: Bytes,
    /// A background cleaner starts when so few segments beyond the reserve are left.
    pub low_water: u32,
    /// Addresses for values in pages of their own; none where no item is so large.
    pub value_addresses: Bytes,
}

/// Bytes of one row of the segment table; a test holds it to the type's size.
pub(crate) const SEGMENT_ROW: u64 = 192;
/// Segments that are no writer's head and must be there: the reserve, two destinations that are open between passes (more are where there
/// is room), and two that can be cleaned.
const HELD_SEGMENTS: u64 = limits::RESERVE_SEGMENTS as u64 + 4;
/// Ids of segments that a slot can tell (1 TiB of segments of 1 MiB): they count from 1 there.
const SEGMENTS_MAX: u32 = (1 << 20) - 2;
/// Offsets have so many bits.
pub(crate) const OFFSET_BITS: u32 = 20;

impl Geometry {
    /// The sizes for `memory`, with nothing below it. `item_max` above 1 GiB, or above half of the memory, is lowered.
    #[must_use]
    pub fn new(memory: Bytes, item_max: Bytes, threads: usize) -> Self {
        Self::above(0, memory, item_max, threads)
    }

    /// The same above so many tiers: with any, segments are larger, since only what fits one goes there.
    #[must_use]
    pub fn above(tiers: usize, memory: Bytes, item_max: Bytes, threads: usize) -> Self {
        let least = if tiers == 0 { limits::SEGMENTS_MIN } else { limits::SEGMENTS_MIN_ABOVE_TIERS };
        let threads64 = threads as u64;
        let pieces = least.max(limits::SEGMENTS_PER_WRITER * (threads64 + HELD_SEGMENTS));
        let whole = (memory.0 / pieces).max(limits::SEGMENT_MIN.0);
        let fitting = Bytes(1 << whole.ilog2());
        let item_max = item_max.min(limits::ITEM_MAX).min(Bytes(memory.0 / limits::ITEM_PART));
        let segment = fitting.min(limits::SEGMENT_DEFAULT);
        let in_segment_max =
            Bytes(if tiers == 0 { segment.0 / limits::PER_SEGMENT_LEAST } else { segment.0 });
        let watching = Bytes(memory.0 / limits::WATCHING_MEMORY_PART);
        let curves = Bytes(watching.0 / limits::CURVES_PART);
        let shadow = watching.saturating_sub(curves);
        let ghosts = Bytes(memory.0 / limits::GHOSTS_MEMORY_PART);
        let rows = memory.count_of(segment) * SEGMENT_ROW;
        let log_and_index = Bytes(memory.0.saturating_sub(watching.0 + ghosts.0 + rows));
        let held_back = (u64::from(limits::RESERVE_SEGMENTS) + threads64) * segment.0;
        let segment_count =
            u32::try_from(log_and_index.count_of(segment)).unwrap_or(u32::MAX).min(SEGMENTS_MAX);
        let writers = u32::try_from(threads).unwrap_or(u32::MAX);
        Self {
            memory,
            segment,
            item_max,
            segment_count,
            shadow,
            curves,
            ghosts,
            divisible: Bytes(log_and_index.0.saturating_sub(held_back).max(segment.0)),
            segments_least: u32::try_from(HELD_SEGMENTS).unwrap_or(u32::MAX).saturating_add(writers),
            low_water: (segment_count / limits::LOW_WATER_PART)
                .min(limits::LOW_WATER_PER_WRITER.saturating_mul(writers))
                .max(1),
            in_segment_max,
            value_addresses: if in_segment_max < item_max {
                Bytes(memory.0 * limits::VALUE_ADDRESSES)
            } else {
                Bytes::ZERO
            },
        }
    }

    /// Whether the writing threads can share the memory: all have a head, and something is left that can be cleaned.
    #[must_use]
    pub fn has_room(&self) -> bool {
        2 * self.segments_least <= self.segment_count
    }

    /// The same with so much of the memory withheld.
    #[must_use]
    pub fn has_room_without(&self, withheld: Bytes) -> bool {
        u64::from(2 * self.segments_least)
            <= self.log_and_index().saturating_sub(withheld).count_of(self.segment)
    }

    /// Log and index together, the reserve and heads included.
    #[must_use]
    pub fn log_and_index(&self) -> Bytes {
        let rows = self.memory.count_of(self.segment) * SEGMENT_ROW;
        Bytes(self.memory.0.saturating_sub(self.shadow.0 + self.curves.0 + self.ghosts.0 + rows))
    }
}

/// What tenants can be promised together out of `memory` with nothing below it.
#[must_use]
pub fn divisible_capacity(memory: Bytes, item_max: Bytes, threads: usize) -> Bytes {
    Geometry::new(memory, item_max, threads).divisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_shrink_with_small_memories_and_items_need_not() {
        for (memory_mib, asked, segment_kib, above_kib, item_max) in [
            (8, Bytes::kib(64), 64, 64, Bytes::kib(64)),
            (8, Bytes::mib(1), 64, 64, Bytes::mib(1)),
            (8, Bytes::mib(8), 64, 64, Bytes::mib(4)),
            (32, Bytes::mib(1), 128, 256, Bytes::mib(1)),
            (64, Bytes::mib(1), 256, 512, Bytes::mib(1)),
            (128, Bytes::mib(8), 512, 1024, Bytes::mib(8)),
            (256, Bytes::mib(8), 1024, 1024, Bytes::mib(8)),
            (65_536, Bytes(4 << 30), 1024, 1024, Bytes(1 << 30)),
        ] {
            let g = Geometry::new(Bytes::mib(memory_mib), asked, 4);
            let above = Geometry::above(1, Bytes::mib(memory_mib), asked, 4);
            let (segment, larger) = (Bytes::kib(segment_kib), Bytes::kib(above_kib));
            assert_eq!((g.segment, g.item_max), (segment, item_max), "{memory_mib} MiB, {asked}");
            assert_eq!((above.segment, above.item_max), (larger, item_max), "{memory_mib} MiB above tiers");
            assert_eq!((g.in_segment_max, above.in_segment_max), (Bytes(segment.0 / 2), larger));
            assert_eq!(g.in_segment_max < item_max, Bytes::ZERO < g.value_addresses);
            assert_eq!(larger < item_max, Bytes::ZERO < above.value_addresses);
            assert!(g.divisible < g.memory && g.memory.0 / 2 < g.divisible.0, "{g:?}");
            assert!(u64::from(g.segment_count) * g.segment.0 <= g.log_and_index().0);
        }
    }
}
