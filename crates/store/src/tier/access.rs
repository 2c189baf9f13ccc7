//! The one way to a slow tier: every access of a tenant is counted and takes its time here.
//!
//! Units: bytes as the access moves them, whole records

use super::Tier;
use crate::metrics::Counters;
use crate::sync::{AtomicU64, Ordering};
use media::{Access, SlowAccess};
use units::Bytes;

/// Counts an access to a tier for a tenant and takes the time that it takes. Called without locks.
pub(crate) fn access(tier: &Tier, counters: &Counters, kind: SlowAccess, size: u64) {
    let meter = match kind {
        SlowAccess::Read => Access::SlowRead,
        SlowAccess::Write => Access::SlowWrite,
    };
    counters.meter.count(meter, Bytes(size));
    tier.device.take_time(kind, Bytes(size));
}

/// What was counted of a tier, by whoever came to it.
#[derive(Debug, Default)]
pub(crate) struct TierCounters {
    pub(crate) errors: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) passes: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) freed_segments: AtomicU64,
    pub(crate) restored: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// What was counted of a tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TierTotals {
    /// Times that the device answered with an error.
    pub errors: u64,
    /// Records that were found damaged, and dropped.
    pub broken: u64,
    /// Cleaning passes.
    pub passes: u64,
    /// Records that these copied.
    pub moved: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
    /// Segments that these freed beyond those that they filled.
    pub freed_segments: u64,
    /// Items that were there after the start.
    pub restored: u64,
    /// Records that could not be trusted at the start.
    pub dropped: u64,
}

/// What is in a tier now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TierUse {
    /// Its size.
    pub size: Bytes,
    /// Bytes of records that items lead to.
    pub live: Bytes,
    /// Bytes of segments that are free.
    pub free: Bytes,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// Memory of this process that it takes.
    pub memory: Bytes,
}

impl TierCounters {
    pub(crate) fn totals(&self) -> TierTotals {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TierTotals {
            errors: load(&self.errors),
            broken: load(&self.broken),
            passes: load(&self.passes),
            moved: load(&self.moved),
            moved_bytes: load(&self.moved_bytes),
            freed_segments: load(&self.freed_segments),
            restored: load(&self.restored),
            dropped: load(&self.dropped),
        }
    }
}

impl Tier {
    /// What is in it now.
    pub(crate) fn in_use(&self) -> TierUse {
        let live = (0..self.segments.count()).map(|segment| u64::from(self.segments.live(segment))).sum();
        TierUse {
            size: self.device.size(),
            live: Bytes(live),
            free: Bytes(u64::from(self.segments.available()) * self.segments.bytes()),
            segment: Bytes(self.segments.bytes()),
            memory: self.memory(),
        }
    }
}
