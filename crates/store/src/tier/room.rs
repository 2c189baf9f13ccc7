//! Room in tiers: what gathers is written, what was emptied comes back, what is short is cleaned.

use super::record::Record;
use super::{Reference, Tier, TierCleaner};
use crate::account::unlink;
use crate::hash::{KeyHash, Space};
use crate::limits;
use crate::store::Store;
use crate::worker::Worker;
use std::sync::Arc;

/// Passes over one tier in a turn at most.
const PASSES_MAX: u32 = 4;

impl Tier {
    /// Segments that writers can take.
    fn left(&self) -> u32 {
        self.segments.available().saturating_sub(limits::TIER_RESERVE)
    }

    fn wants_cleaning(&self) -> bool {
        self.left() < limits::TIER_LOW_WATER.min(self.segments.count() / 4)
    }
}

impl Store {
    /// Whether a tier has work for a cleaner.
    pub(crate) fn tiers_want_cleaning(&self) -> bool {
        self.tiers.iter().any(|tier| tier.has_full() || tier.wants_cleaning())
    }
}

impl Worker {
    /// Writes what waits to be written, and cleans tiers of which little is free. Returns whether there may be more to do. The
    /// worker is online and holds no item.
    pub(crate) fn clean_tiers(&mut self) -> bool {
        let store = Arc::clone(&self.store);
        let mut more = false;
        for tier in store.tiers.iter().filter(|tier| tier.is_begun()) {
            while self.write_out(&store, tier) {}
            tier.segments.reclaim_now(&store.epochs);
            for _ in 0..PASSES_MAX {
                if !tier.wants_cleaning() {
                    break;
                }
                self.reader.quiesce();
                let cleaner =
                    self.tier_cleaner.get_or_insert_with(|| Box::new(TierCleaner::new(store.thread_rng())));
                let freed = cleaner.pass(&store, &mut self.reader, &self.counters, tier);
                while self.write_out(&store, tier) {}
                if freed == 0 {
                    break;
                }
            }
            more |= tier.wants_cleaning() && tier.segments.has_retired();
        }
        more
    }

    /// Writes one gathered segment of a tier; returns whether there was one.
    pub(crate) fn write_out(&mut self, store: &Store, tier: &Tier) -> bool {
        if !tier.has_full() {
            return false;
        }
        let tenants = tier.tenants_by_owner();
        let hash = |record: &Record<'_>| -> Option<KeyHash> {
            let tenant = tenants.get(record.fields.owner.0 as usize).copied().flatten()?;
            let space = if record.fields.own_space { Space::Own(tenant) } else { Space::Shared };
            Some(store.hasher.hash(space, record.key))
        };
        let with_item = |reference: Reference, record: &Record<'_>, keep: bool| {
            let Some(hash) = hash(record) else { return };
            let locked = store.index.lock(hash);
            let leads = |slot: crate::slot::Slot| {
                store.log.view(&self.reader, slot.place()).away() == Some(reference)
            };
            let Some(found) = locked.find(hash, leads) else { return };
            if keep {
                tier.notes.set_live(reference.at);
            } else {
                let view = store.log.view(&self.reader, found.slot.place());
                locked.remove(found);
                unlink(store, &self.counters, found.slot.place(), &view);
            }
        };
        tier.write_out(
            &store.epochs,
            store.now_secs(),
            |reference, record| with_item(reference, record, true),
            |reference, record| with_item(reference, record, false),
        )
    }
}
