//! What tenants do at tiers: counted per thread, tenant and tier, summed when somebody asks.
//!
//! Invariants: a set is written by its thread alone; counters only grow
//! Units:      bytes of whole records; cost in picoseconds of the tier whose time is divided, 0 for every other

use crate::sync::{AtomicU64, Ordering};
use media::{Meter, Traffic};

/// What one thread counted for one tenant at one tier.
#[derive(Debug, Default)]
pub(crate) struct BelowCounters {
    pub(crate) meter: Meter,
    pub(crate) hits: AtomicU64,
    pub(crate) promotions: AtomicU64,
    pub(crate) demotions: AtomicU64,
    pub(crate) evictions: AtomicU64,
}

/// What was counted at one tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BelowTotals {
    /// Reads for values, those of its cleaner among them.
    pub read: TrafficTotal,
    /// Writes for values.
    pub written: TrafficTotal,
    /// What these accesses cost while its time was divided, in ps.
    pub cost_ps: u64,
    /// Look-ups that found their item's value there.
    pub hits: u64,
    /// Values that hits brought back to DRAM.
    pub promotions: u64,
    /// Values that the cleaner of DRAM put there instead of evicting their items.
    pub demotions: u64,
    /// Items evicted to make room there.
    pub evictions: u64,
}

/// Accesses and bytes of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrafficTotal {
    /// Accesses.
    pub accesses: u64,
    /// Bytes.
    pub bytes: u64,
}

impl TrafficTotal {
    pub(crate) fn add(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.bytes += other.bytes;
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            accesses: self.accesses.saturating_sub(earlier.accesses),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

impl From<Traffic> for TrafficTotal {
    fn from(traffic: Traffic) -> Self {
        Self { accesses: traffic.accesses, bytes: traffic.bytes }
    }
}

impl BelowCounters {
    pub(crate) fn totals(&self) -> BelowTotals {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BelowTotals {
            read: self.meter.read().into(),
            written: self.meter.written().into(),
            cost_ps: self.meter.cost_ps(),
            hits: load(&self.hits),
            promotions: load(&self.promotions),
            demotions: load(&self.demotions),
            evictions: load(&self.evictions),
        }
    }
}

impl BelowTotals {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.read.add(other.read);
        self.written.add(other.written);
        self.cost_ps += other.cost_ps;
        self.hits += other.hits;
        self.promotions += other.promotions;
        self.demotions += other.demotions;
        self.evictions += other.evictions;
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            read: self.read.since(earlier.read),
            written: self.written.since(earlier.written),
            cost_ps: self.cost_ps.saturating_sub(earlier.cost_ps),
            hits: self.hits.saturating_sub(earlier.hits),
            promotions: self.promotions.saturating_sub(earlier.promotions),
            demotions: self.demotions.saturating_sub(earlier.demotions),
            evictions: self.evictions.saturating_sub(earlier.evictions),
        }
    }
}
