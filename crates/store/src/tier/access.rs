//! The one way to a slow tier: every access of a tenant is counted, has its cost and takes its time here.
//!
//! Shape:  what cleaners do comes off the tenant's budget; what requests do goes on to the tenant's brake (`worker/brake.rs`)
//! Units:  lines of `GRAIN` bytes as the access moves them, whole records; cost in picoseconds of the tier whose time is divided
//! Source: NyxCache §3.3 (cost of an access = 1 / MaxIOPS of its kind and size)

use super::record::GRAIN;
use super::{BelowCounters, Tier};
use crate::store::Store;
use crate::sync::{AtomicU64, Ordering};
use media::{Profile, SlowAccess};
use units::{Bytes, TenantId};

/// What a byte costs of a tier that was not probed, in ps: a gigabyte per second (a guess; the SSDs and modules of the papers
/// are one to ten times as fast). It says who uses more, not how much there is.
pub(crate) const UNPROBED_PS_PER_BYTE: u64 = 1_000;

impl Tier {
    /// Whether accesses have to be made to take the time that they take.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Takes the time that an access takes. Called without locks.
    pub(crate) fn take_time(&self, kind: SlowAccess, lines: u64) {
        if self.is_timed {
            self.device.take_time(kind, Bytes(lines * GRAIN));
        }
    }
}

/// Counts an access of a cleaner and takes its time: nobody waits, and the tenant's requests find that much less of its budget
/// and its caps. Called without locks.
pub(crate) fn access_behind(
    store: &Store,
    tier: &Tier,
    (below, tenant): (&BelowCounters, TenantId),
    kind: SlowAccess,
    lines: u64,
) {
    let cost_ps = below.count(kind, lines);
    tier.take_time(kind, lines);
    if cost_ps != 0 {
        let made = (kind.into(), Bytes(lines * GRAIN), cost_ps);
        store.tenant(tenant).below.brake().owe(made, || store.brakes.now());
    }
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
    /// What an access costs of its time, in ps: as its profile says, or by bytes without one.
    pub(crate) fn cost_ps(&self, kind: SlowAccess, size: Bytes) -> u64 {
        match self.profile.get() {
            Some(profile) => profile.cost_ps(kind, size),
            None => size.0.saturating_mul(UNPROBED_PS_PER_BYTE),
        }
    }

    /// Says what its accesses cost, once; false if that was said before.
    pub(crate) fn set_profile(&self, profile: Profile) -> bool {
        self.profile.set(profile).is_ok()
    }

    /// Says whether its time is divided: then accesses cost what they do, or else nothing. One says so at a time.
    pub(crate) fn set_divided(&self, divided: bool) {
        self.tariff.set(|kind, size| if divided { self.cost_ps(kind, Bytes(size)) } else { 0 });
    }

    pub(crate) fn has_profile(&self) -> bool {
        self.profile.get().is_some()
    }

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
