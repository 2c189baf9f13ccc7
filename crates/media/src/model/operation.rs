//! Time of single operations on persistent memory, and what the medium moves for them.
//!
//! Shape:      operation, size -> time between completions of one thread; kind, size -> bytes moved per byte asked for
//! Units:      nanoseconds; operations per second
//! Source:     NyxCache Table 2 (two sizes per operation, so the straight line through them is exact by construction and
//!             serves only to interpolate), §2.2.3 (prefetching: software sees 60 % of the traffic of 1 KB loads);
//!             OptaneStudy, random reads by size

use crate::Access;
use units::Bytes;

/// Bytes that the processor moves at once.
pub const LINE: u64 = 64;
/// Bytes that the medium of a slow tier reads or writes at once.
pub const MEDIA_UNIT: u64 = 256;

/// An instruction that reads or writes a slow tier, as NyxCache Table 2 tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Load through the caches, with prefetching.
    Load,
    /// Load with the prefetchers off.
    LoadUnprefetched,
    /// Load that bypasses the caches.
    NonTemporalLoad,
    /// Store through the caches.
    Store,
    /// Store, then write the line back.
    StoreFlushed,
    /// Store that bypasses the caches.
    NonTemporalStore,
}

impl Operation {
    /// All six, in the order of the table.
    pub const ALL: [Self; 6] = [
        Self::Load,
        Self::LoadUnprefetched,
        Self::NonTemporalLoad,
        Self::Store,
        Self::StoreFlushed,
        Self::NonTemporalStore,
    ];

    /// Start and slope per 64 B line of the time between completions, in ns: the straight line through the table's two
    /// bandwidths (256 B and 4 KB).
    #[must_use]
    pub const fn line(self) -> (f64, f64) {
        match self {
            Self::Load => (105.0, 14.05),
            Self::LoadUnprefetched => (84.6, 20.6),
            Self::NonTemporalLoad => (820.0, 15.8),
            Self::Store => (-21.0, 62.5),
            Self::StoreFlushed => (343.0, 37.3),
            Self::NonTemporalStore => (-6.0, 18.7),
        }
    }

    /// Start and slope per 64 B line of the latency, in ns: the straight line through the table's two latencies.
    #[must_use]
    pub fn latency_line(self) -> (f64, f64) {
        let (small, large) = match self {
            Self::Load => (490.0, 1220.0),
            Self::LoadUnprefetched => (520.0, 1690.0),
            Self::NonTemporalLoad => (840.0, 1840.0),
            Self::Store => (380.0, 4140.0),
            Self::StoreFlushed => (470.0, 2710.0),
            Self::NonTemporalStore => (80.0, 1220.0),
        };
        let slope = (large - small) / 60.0;
        (small - 4.0 * slope, slope)
    }

    /// Time between completions of one thread, in ns.
    #[must_use]
    pub fn interval_ns(self, size: Bytes) -> f64 {
        let (start, slope) = self.line();
        start + slope * lines(size)
    }

    /// Time from start to completion, in ns.
    #[must_use]
    pub fn latency_ns(self, size: Bytes) -> f64 {
        let (start, slope) = self.latency_line();
        start + slope * lines(size)
    }
}

/// 64 B lines that an access touches.
#[must_use]
pub fn lines(size: Bytes) -> f64 {
    size.0.max(1).div_ceil(LINE) as f64
}

/// Bytes that the medium moves per byte asked for: 4 for 64 B, 1 for multiples of 256 B.
#[must_use]
pub fn amplification(size: Bytes) -> f64 {
    let size = size.0.max(1);
    (size.div_ceil(MEDIA_UNIT) * MEDIA_UNIT) as f64 / size as f64
}

/// Bytes that are read per byte asked for because the prefetchers guess (OptaneStudy: random reads of 1 KB reach half of the
/// bandwidth of 512 B, of 2 KB two thirds; NyxCache §2.2.3: 1 / .6 at 1 KB).
#[must_use]
pub const fn prefetch_waste(size: Bytes) -> f64 {
    match size.0 {
        513..=1024 => 1.75,
        1025..=2048 => 1.3,
        _ => 1.0,
    }
}

/// Bytes that the medium moves per byte of an access of this kind.
#[must_use]
pub fn media_bytes_per_byte(access: Access, size: Bytes) -> f64 {
    match access {
        Access::SlowRead => amplification(size) * prefetch_waste(size),
        Access::SlowWrite => amplification(size),
        Access::DramRead | Access::DramWrite => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p5_table_2_of_nyx_is_met_through_its_straight_lines() {
        // GB/s at 256 B and at 4 KB; exact by construction, within 6 % of the printed, rounded figures.
        let printed = [(1.59, 4.08), (1.53, 2.92), (0.29, 2.24), (1.12, 1.03), (0.52, 1.50), (3.73, 3.44)];
        for (operation, (small, large)) in Operation::ALL.into_iter().zip(printed) {
            for (size, gbps) in [(256_u64, small), (4096, large)] {
                let ours = size as f64 / operation.interval_ns(Bytes(size));
                assert!((ours / gbps - 1.0).abs() <= 0.06, "{operation:?} {size} B: {ours} against {gbps}");
            }
        }
    }
}
