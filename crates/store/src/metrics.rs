//! The store's counters: one set per thread and tenant, summed when somebody asks.
//!
//! Invariants: a set is written by its thread alone; sums only grow

use crate::classes::{CLASSES, ClassCounters, class_of};
use crate::limits::TIERS_MAX;
use crate::sync::{AtomicU64, Ordering, bump};
use crate::tier::{BelowCounters, BelowTotals, Tariff, TrafficTotal};
use media::{Access, Meter};
use std::sync::Arc;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What one thread counted for one tenant.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            pub(crate) last_eviction: LastEviction,
            pub(crate) dram: Meter,
            /// By the tiers' places.
            below: Box<[BelowCounters]>,
        }

        /// Counters summed over threads.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
            /// The last eviction.
            pub last_eviction: Eviction,
            /// Reads of DRAM for items whose values are there.
            pub dram_read: TrafficTotal,
            /// Writes of DRAM for items.
            pub dram_write: TrafficTotal,
            /// Reads of tiers for values.
            pub slow_read: TrafficTotal,
            /// Writes of tiers for values.
            pub slow_write: TrafficTotal,
            /// What accesses to the tier whose time is divided cost of it, in ps.
            pub tier_cost_ps: u64,
            /// Look-ups that found their item's value in a tier.
            pub tier_hits: u64,
            /// Values that hits brought back to DRAM.
            pub promotions: u64,
            /// Values that the cleaner put into a tier instead of evicting their items.
            pub demotions: u64,
            /// Items evicted to make room in a tier.
            pub tier_evictions: u64,
            /// By the tiers' places, of which the above are the sums.
            pub tiers: [BelowTotals; TIERS_MAX],
        }

        impl Counters {
            pub(crate) fn add_to(&self, totals: &mut Totals) {
                $(totals.$name += self.$name.load(Ordering::Relaxed);)*
                totals.last_eviction = totals.last_eviction.max(self.last_eviction.get());
                totals.dram_read.add(self.dram.read().into());
                totals.dram_write.add(self.dram.written().into());
                for (counted, of_tier) in self.below.iter().zip(&mut totals.tiers) {
                    let counted = counted.totals();
                    of_tier.add(&counted);
                    totals.slow_read.add(counted.read);
                    totals.slow_write.add(counted.written);
                    totals.tier_cost_ps += counted.cost_ps;
                    totals.tier_hits += counted.hits;
                    totals.promotions += counted.promotions;
                    totals.demotions += counted.demotions;
                    totals.tier_evictions += counted.evictions;
                }
            }
        }

        impl Totals {
            /// Adds another tenant's.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
                self.last_eviction = self.last_eviction.max(other.last_eviction);
                self.dram_read.add(other.dram_read);
                self.dram_write.add(other.dram_write);
                self.slow_read.add(other.slow_read);
                self.slow_write.add(other.slow_write);
                self.tier_cost_ps += other.tier_cost_ps;
                self.tier_hits += other.tier_hits;
                self.promotions += other.promotions;
                self.demotions += other.demotions;
                self.tier_evictions += other.tier_evictions;
                self.tiers.iter_mut().zip(&other.tiers).for_each(|(tier, other)| tier.add(other));
            }

            /// What was counted since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self {
                    $($name: self.$name.saturating_sub(earlier.$name),)*
                    last_eviction: self.last_eviction.after(earlier.last_eviction),
                    dram_read: self.dram_read.since(earlier.dram_read),
                    dram_write: self.dram_write.since(earlier.dram_write),
                    slow_read: self.slow_read.since(earlier.slow_read),
                    slow_write: self.slow_write.since(earlier.slow_write),
                    tier_cost_ps: self.tier_cost_ps.saturating_sub(earlier.tier_cost_ps),
                    tier_hits: self.tier_hits.saturating_sub(earlier.tier_hits),
                    promotions: self.promotions.saturating_sub(earlier.promotions),
                    demotions: self.demotions.saturating_sub(earlier.demotions),
                    tier_evictions: self.tier_evictions.saturating_sub(earlier.tier_evictions),
                    tiers: std::array::from_fn(|at| self.tiers[at].since(&earlier.tiers[at])),
                }
            }
        }
    };
}

impl Totals {
    /// Look-ups of every kind: gets, touches and counts, found or not.
    #[must_use]
    pub fn asked(&self) -> u64 {
        let missed = self.get_misses + self.touch_misses + self.incr_misses + self.decr_misses;
        self.found() + missed + self.count_creations
    }

    /// Those that found their item.
    #[must_use]
    pub fn found(&self) -> u64 {
        self.get_hits + self.touch_hits + self.incr_hits + self.decr_hits
    }

    /// Bytes that went to and from tiers for each look-up whose value was not in DRAM, 0 before the first (Spirit §4.2).
    #[must_use]
    pub fn bytes_per_miss(&self) -> u64 {
        (self.slow_read.bytes + self.slow_write.bytes).checked_div(self.tier_hits).unwrap_or(0)
    }
}

counters! {
    /// Look-ups that found their item.
    get_hits,
    /// Look-ups that did not.
    get_misses,
    /// Misses of an item that had expired.
    get_expired,
    /// Misses of an item that was flushed.
    get_flushed,
    /// Commands that store.
    cmd_set,
    /// Commands of the meta protocol.
    cmd_meta,
    /// Commands that touch.
    cmd_touch,
    /// Touches that found their item.
    touch_hits,
    /// Touches that did not.
    touch_misses,
    /// Deletes that found their item.
    delete_hits,
    /// Deletes that did not.
    delete_misses,
    /// Increments that found their item.
    incr_hits,
    /// Increments that did not.
    incr_misses,
    /// Decrements that found their item.
    decr_hits,
    /// Decrements that did not.
    decr_misses,
    /// Increments and decrements that made what they did not find.
    count_creations,
    /// CAS commands whose value matched.
    cas_hits,
    /// CAS commands that found no item.
    cas_misses,
    /// CAS commands whose value did not match.
    cas_badval,
    /// Items stored.
    total_items,
    /// Live items evicted to make room.
    evictions,
    /// Of these, items that went while their tenant held more than its part of all that is held.
    evicted_over_share,
    /// Of the evicted, items that no look-up had found since they were stored.
    evicted_unfetched,
    /// Of the evicted, items with a time to live.
    evicted_nonzero,
    /// Expired or flushed items removed by the cleaner.
    reclaimed,
    /// Of these, items that no look-up had found since they were stored.
    expired_unfetched,
    /// Items refused because they are larger than the limit.
    store_too_large,
    /// Items refused because there was no room, or beyond the share.
    store_no_memory,
    /// Of these, writes refused because they would have left the tenant with more than its share.
    writes_refused,
    /// Bytes of items that the cleaner copied.
    moved_bytes,
    /// Misses that a shadow queue would have hit, scaled up by its sampling.
    shadow_hits,
    /// Look-ups whose item was there, but whose value could not be had.
    tier_lost,
}

/// What cleaning did, all threads together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CleanerTotals {
    /// Passes that took sources.
    pub passes: u64,
    /// Segments that passes freed beyond those that they opened.
    pub freed_segments: u64,
    /// Items of sources that were looked at.
    pub scanned_items: u64,
    /// Times a writer found no segment and had to clean, or wait for a cleaner, itself.
    pub writer_waits: u64,
}

/// The same, as it is counted: a few times per pass.
#[derive(Debug, Default)]
pub(crate) struct CleanerCounters {
    pub(crate) passes: AtomicU64,
    pub(crate) freed_segments: AtomicU64,
    pub(crate) scanned_items: AtomicU64,
    pub(crate) writer_waits: AtomicU64,
}

impl CleanerCounters {
    pub(crate) fn totals(&self) -> CleanerTotals {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CleanerTotals {
            passes: load(&self.passes),
            freed_segments: load(&self.freed_segments),
            scanned_items: load(&self.scanned_items),
            writer_waits: load(&self.writer_waits),
        }
    }

    /// Counts a pass that took sources of so many items.
    pub(crate) fn note_pass(&self, scanned: usize, freed: usize) {
        self.passes.fetch_add(1, Ordering::Relaxed);
        self.freed_segments.fetch_add(freed as u64, Ordering::Relaxed);
        self.scanned_items.fetch_add(scanned as u64, Ordering::Relaxed);
    }
}

/// An eviction; of two the later is the greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Eviction {
    /// Second of the store's clock; 0 for never.
    pub at_secs: u32,
    /// Seconds for which nobody had asked for the item, too many by a tick of the rank clock at most.
    pub idle_secs: u32,
}

impl Eviction {
    /// This one, if there has been one since `earlier`.
    pub(crate) fn after(self, earlier: Self) -> Self {
        if self == earlier { Self::default() } else { self }
    }
}

/// One thread's last eviction.
#[derive(Debug, Default)]
pub(crate) struct LastEviction(AtomicU64);

impl LastEviction {
    pub(crate) fn set(&self, eviction: Eviction) {
        let word = u64::from(eviction.at_secs) << 32 | u64::from(eviction.idle_secs);
        self.0.store(word, Ordering::Relaxed);
    }

    #[expect(clippy::cast_possible_truncation, reason = "two halves of a word")]
    pub(crate) fn get(&self) -> Eviction {
        let word = self.0.load(Ordering::Relaxed);
        Eviction { at_secs: (word >> 32) as u32, idle_secs: word as u32 }
    }
}

impl Counters {
    pub(crate) fn new(tariffs: &[Arc<Tariff>]) -> Self {
        Self { below: tariffs.iter().map(BelowCounters::new).collect(), ..Self::default() }
    }

    /// What was counted at a tier.
    #[inline]
    pub(crate) fn at(&self, tier: u8) -> &BelowCounters {
        &self.below[usize::from(tier)]
    }

    /// Look-ups of every kind, and those that found their item, as [`Totals::asked`] and [`Totals::found`] have them.
    pub(crate) fn look_ups(&self) -> (u64, u64) {
        let sum = |counters: &[&AtomicU64]| {
            counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum::<u64>()
        };
        let found = sum(&[&self.get_hits, &self.touch_hits, &self.incr_hits, &self.decr_hits]);
        let misses = [&self.get_misses, &self.touch_misses, &self.incr_misses, &self.decr_misses];
        (found + sum(&misses) + sum(&[&self.count_creations]), found)
    }

    /// Look-ups that found their value in a tier.
    pub(crate) fn tier_hits(&self) -> u64 {
        self.below.iter().map(BelowCounters::hits).sum()
    }

    /// Traffic of a kind, of all tiers where it is theirs.
    pub(crate) fn traffic(&self, kind: Access) -> TrafficTotal {
        let of_tiers = |read: fn(&BelowCounters) -> TrafficTotal| {
            self.below.iter().fold(TrafficTotal::default(), |mut sum, tier| {
                sum.add(read(tier));
                sum
            })
        };
        match kind {
            Access::DramRead => self.dram.read().into(),
            Access::DramWrite => self.dram.written().into(),
            Access::SlowRead => of_tiers(BelowCounters::read),
            Access::SlowWrite => of_tiers(BelowCounters::written),
        }
    }

    /// The same, but of one tier where it is tiers'.
    pub(crate) fn traffic_at(&self, kind: Access, tier: u8) -> TrafficTotal {
        let at = self.below.get(usize::from(tier));
        match kind {
            Access::SlowRead => at.map(BelowCounters::read).unwrap_or_default(),
            Access::SlowWrite => at.map(BelowCounters::written).unwrap_or_default(),
            Access::DramRead | Access::DramWrite => self.traffic(kind),
        }
    }

    /// What accesses to the tier whose time is divided cost of it, in ps.
    pub(crate) fn cost_ps(&self) -> u64 {
        self.below.iter().map(BelowCounters::cost_ps).sum()
    }
}

/// What one thread counted.
#[derive(Debug)]
pub(crate) struct ThreadCounters {
    /// Of the shared key space, then of the tenants with a key space of their own.
    pub(crate) classes: [[ClassCounters; CLASSES]; 2],
    pub(crate) tenants: Box<[std::sync::OnceLock<Box<Counters>>]>,
    /// Of the tiers below DRAM.
    tariffs: Box<[Arc<Tariff>]>,
    /// Bytes of items that the index has ceased to point at, where nothing may go.
    pub(crate) died_bytes: AtomicU64,
    /// Accesses for miss ratio curves.
    pub(crate) samples: crate::curves::Ring,
}

impl ThreadCounters {
    pub(crate) fn new(tenants_max: usize, tariffs: Box<[Arc<Tariff>]>) -> Self {
        Self {
            classes: std::array::from_fn(|_| std::array::from_fn(|_| ClassCounters::default())),
            tenants: (0..tenants_max).map(|_| std::sync::OnceLock::new()).collect(),
            tariffs,
            died_bytes: AtomicU64::new(0),
            samples: crate::curves::Ring::default(),
        }
    }

    /// The set of one tenant.
    #[inline]
    pub(crate) fn of(&self, tenant: usize) -> &Counters {
        self.tenants[tenant].get_or_init(|| Box::new(Counters::new(&self.tariffs)))
    }

    #[inline]
    pub(crate) fn class(&self, len: usize, own_space: bool) -> &ClassCounters {
        &self.classes[usize::from(own_space)][class_of(len)]
    }
}

/// Adds one to a counter of the calling thread.
#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    bump(counter, 1);
}
