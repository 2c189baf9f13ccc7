//! What tenants do at tiers: counted per thread, tenant and tier, summed when somebody asks.
//!
//! Invariants: a set is written by its thread alone; counters only grow; a hit is a read, and is counted as one by its sum
//! Units:      lines of `GRAIN` bytes, whole records; cost in picoseconds of the tier whose time is divided, 0 for every other
//! Cost:       two additions without a lock prefix per hit beside its count, three per other access
//! Source:     NyxCache §3.3 (cost per access, kept per thread)

use super::record::{GRAIN, HEADER, lines};
use super::tariff::Tariff;
use crate::metrics::count;
use crate::sync::{AtomicU64, Ordering, bump};
use media::{SlowAccess, Traffic};
use std::sync::Arc;

/// The most of a key and a value whose record's cost is at hand.
const CONTENT_AT_HAND: u64 = media::PROFILE_MAX.0 - HEADER as u64;

/// What one thread counted for one tenant at one tier.
///
/// Two cache lines, so that a shift finds a tier's.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct BelowCounters {
    /// The tier's.
    tariff: Arc<Tariff>,
    /// Reads that are no hits.
    other_reads: AtomicU64,
    read_lines: AtomicU64,
    writes: AtomicU64,
    written_lines: AtomicU64,
    cost_ps: AtomicU64,
    hits: AtomicU64,
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
    /// Nothing was counted yet.
    pub(crate) fn new(tariff: &Arc<Tariff>) -> Self {
        let none = || AtomicU64::new(0);
        Self {
            tariff: Arc::clone(tariff),
            other_reads: none(),
            read_lines: none(),
            writes: none(),
            written_lines: none(),
            cost_ps: none(),
            hits: none(),
            promotions: none(),
            demotions: none(),
            evictions: none(),
        }
    }

    /// Counts a hit, which reads a record of a key and a value of so many bytes, if what that costs is at hand; says whether it did.
    #[inline]
    pub(crate) fn count_small_hit(&self, content: usize) -> bool {
        // Asked before the header is added, the length is one load and one addition from memory.
        if CONTENT_AT_HAND < content as u64 {
            return false;
        }
        let lines = lines(0, content);
        let Some(cost_ps) = self.tariff.at_hand(SlowAccess::Read, lines) else { return false };
        self.add_hit(lines, cost_ps);
        true
    }

    /// Counts a hit, which reads so many lines.
    pub(crate) fn count_hit(&self, lines: u64) {
        self.add_hit(lines, self.tariff.cost_ps(SlowAccess::Read, lines));
    }

    #[inline]
    fn add_hit(&self, lines: u64, cost_ps: u64) {
        count(&self.hits);
        bump(&self.read_lines, lines);
        bump(&self.cost_ps, cost_ps);
    }

    /// Counts another access of so many lines. Says what it costs of the tier whose time is divided: nothing if it is to another one.
    pub(crate) fn count(&self, kind: SlowAccess, lines: u64) -> u64 {
        let cost_ps = self.tariff.cost_ps(kind, lines);
        let (accesses, bytes) = match kind {
            SlowAccess::Read => (&self.other_reads, &self.read_lines),
            SlowAccess::Write => (&self.writes, &self.written_lines),
        };
        count(accesses);
        bump(bytes, lines);
        bump(&self.cost_ps, cost_ps);
        cost_ps
    }

    /// Hits so far.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// What accesses cost so far, in ps.
    pub(crate) fn cost_ps(&self) -> u64 {
        self.cost_ps.load(Ordering::Relaxed)
    }

    /// What was read so far.
    pub(crate) fn read(&self) -> TrafficTotal {
        let lines = self.read_lines.load(Ordering::Relaxed);
        TrafficTotal {
            accesses: self.hits() + self.other_reads.load(Ordering::Relaxed),
            bytes: lines * GRAIN,
        }
    }

    /// What was written so far.
    pub(crate) fn written(&self) -> TrafficTotal {
        let lines = self.written_lines.load(Ordering::Relaxed);
        TrafficTotal { accesses: self.writes.load(Ordering::Relaxed), bytes: lines * GRAIN }
    }

    pub(crate) fn totals(&self) -> BelowTotals {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BelowTotals {
            read: self.read(),
            written: self.written(),
            cost_ps: self.cost_ps(),
            hits: self.hits(),
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
