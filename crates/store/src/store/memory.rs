//! What a store takes of its memory, and what is left for segments.

use super::Store;
use crate::census::BytesByBin;
use crate::limits;
use crate::metrics::Counters;
use crate::metrics::Totals;
use crate::sync::Ordering;
use crate::sync::lock;
use crate::tenant::Tenant;
use std::sync::OnceLock;
use units::Bytes;

/// How memory is used now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryUse {
    /// Segments that cost memory.
    pub segments: Bytes,
    /// Pages of large values.
    pub values: Bytes,
    /// The index.
    pub index: Bytes,
    /// Shadow queues.
    pub shadow: Bytes,
    /// Ghosts, whether they are there yet or not.
    pub ghosts: Bytes,
    /// What there is per tenant, and per tenant and thread.
    pub tables: Bytes,
    /// What ranks have learnt, a part of the tables.
    pub ranks: Bytes,
    /// Buckets of the index.
    pub buckets: u32,
    /// Slots in use.
    pub slots: u64,
    /// Segments that can still be taken.
    pub available_segments: u32,
}

impl Store {
    /// How memory is used.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        MemoryUse {
            segments: self.log.backed(),
            values: self.log.values_bytes(),
            index: Bytes(self.index.bytes()),
            shadow: self.tenants().map(|t| lock(&t.shadow).bytes()).sum(),
            ghosts: self.geometry.ghosts,
            tables: self.tables(),
            ranks: self.tenants().map(Tenant::learnt_bytes).sum(),
            buckets: self.index.buckets(),
            slots: self.index.len(),
            available_segments: self.log.available(),
        }
    }

    /// Whether values are pinned, which nobody can evict.
    #[must_use]
    pub fn has_pinned_values(&self) -> bool {
        self.log.has_pinned_values()
    }

    /// Tells the store about memory outside of it that counts in the bound (connection buffers).
    pub fn set_external(&self, bytes: Bytes) {
        self.external.store(bytes.0, Ordering::Relaxed);
        self.adjust_allowed();
    }

    /// Withholds so much of the memory, which nobody uses until it is said otherwise: the rank clock turns with what is left.
    pub fn withhold(&self, bytes: Bytes) {
        let before = self.withheld.swap(bytes.0, Ordering::Relaxed);
        if before != bytes.0 {
            self.log.prefer_huge_pages(bytes.0 < before);
            // What was written until now was written over more of it, or over less.
            for tenant in self.tenants() {
                let _forgotten = tenant.take_unsurveyed(self.raw_totals(tenant.id).dram_write.bytes);
            }
            self.adjust_allowed();
        }
    }

    /// What is withheld.
    pub(crate) fn withheld(&self) -> Bytes {
        Bytes(self.withheld.load(Ordering::Relaxed))
    }

    /// Bytes of values that may be on their way in at once.
    pub(crate) fn uploads_max(&self) -> u64 {
        self.geometry.memory.saturating_sub(self.withheld()).0 / limits::UPLOADS_PART
    }

    /// What tenants divide here and below, beside what others take of the memory.
    pub(crate) fn divided(&self) -> Bytes {
        (self.geometry.divisible + self.below).saturating_sub(self.external() + self.tables())
    }

    /// Memory outside of the store that counts in the bound, what is withheld, and what tiers take.
    pub(crate) fn external(&self) -> Bytes {
        Bytes(self.external.load(Ordering::Relaxed)) + self.withheld() + self.beside_tiers
    }

    /// Memory of what there is per tenant, and per tenant and thread, as of the last second or tick of the rank clock.
    #[must_use]
    pub fn tables(&self) -> Bytes {
        Bytes(self.tables.load(Ordering::Relaxed))
    }

    /// Counts the tables again.
    pub(super) fn count_tables(&self) {
        let own: u64 = self.tenants().map(Tenant::tables).sum();
        self.tables.store(self.table_bytes_each() * self.tenant_count() as u64 + own, Ordering::Relaxed);
    }

    /// Memory that a tenant takes in tables of all tenants, with the threads that there are: its own place, what each thread
    /// counts for it, what a control loop remembers of it, and its row in the passes that run at once.
    pub(super) fn table_bytes_each(&self) -> u64 {
        let threads = usize::try_from(self.thread_count.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let counted = threads * (size_of::<Counters>() + size_of::<OnceLock<Box<Counters>>>());
        let passes = (limits::RESERVE_SEGMENTS as usize).min(threads) * size_of::<BytesByBin>();
        (size_of::<OnceLock<Box<Tenant>>>() + size_of::<Tenant>() + size_of::<Totals>() + counted + passes)
            as u64
    }

    /// Whether what there is of so many tenants, with `beside` for each outside of the store, takes no more of the memory than one part in
    /// `TENANTS_PART`.
    #[must_use]
    pub fn affords_tenants(&self, tenants: usize, beside: Bytes) -> bool {
        let memory = self.geometry.memory.saturating_sub(self.withheld());
        (beside.0 + self.table_bytes_each()) * tenants as u64 <= memory.0 / limits::TENANTS_PART
    }

    /// Whether values leave the log four times the segments that it needs, or more.
    pub(crate) fn is_roomy(&self) -> bool {
        self.geometry.segments_least.saturating_mul(4) <= self.log.allowed()
    }

    /// Segments that fit beside the index and the tables as they are now.
    pub(crate) fn adjust_allowed(&self) {
        // One after the other, counting included: who is slower is not to undo what was counted since.
        let mut before = lock(&self.allowed);
        let others = self.index.bytes() + self.external().0 + self.tables().0;
        let left = self.geometry.log_and_index().0.saturating_sub(others);
        let allowed = u32::try_from(left / self.geometry.segment.0).unwrap_or(u32::MAX);
        let allowed = allowed.max(self.geometry.segments_least).min(self.geometry.segment_count);
        if std::mem::replace(&mut *before, allowed) != allowed {
            self.log.allow(allowed);
            while !self.has_cleaners() && self.log.give_surplus_back() {}
        }
    }

    /// Shadow hits that no decision has seen yet.
    #[must_use]
    pub fn pending_shadow_hits(&self) -> u64 {
        self.pending_shadow_hits.load(Ordering::Relaxed)
    }

    /// Whether a background cleaner has work: few segments left, a ceiling is passed, segments wait to be touched before a writer needs
    /// them, their memory to be given back, or a part of the index to be made a huge page.
    #[must_use]
    pub fn wants_cleaning(&self) -> bool {
        self.log.available() <= self.log.low_water()
            || self.ceiling_hint.load(Ordering::Relaxed) != 0
            || self.log.wants_touching()
            || self.log.has_surplus()
            || self.index.wants_huge_page()
            || self.departing.load(Ordering::Relaxed) != 0
            || self.tiers_want_cleaning()
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::{Options, RankKind, TenantSpec};
    use control::Claim;

    #[test]
    fn who_comes_has_a_share_of_what_is_not_withheld() {
        let (memory, item_max) = (Bytes::mib(64), Bytes::mib(1));
        let options = Options { memory, item_max, threads: 1, tenants_max: 2, no_evict: false, seed: 1 };
        let store = Store::new(options).unwrap();
        store.withhold(Bytes::mib(48));
        let add = |name: &str| {
            let (claim, rank) = (Claim::default(), RankKind::Lru);
            store.add_tenant(TenantSpec { name: name.to_owned(), own_space: false, claim, rank }).unwrap()
        };
        for (name, count) in [("first", 1), ("second", 2)] {
            let share = store.tenant(add(name)).share().target;
            let all = Bytes(share.0 * count);
            assert!(Bytes::mib(12) < all && all < Bytes::mib(16), "{count} have {share} each");
        }
    }
}
