//! Tenants that were removed, until nothing of them is left and their ids are free for others.
//!
//! Shape:      removed: without a share, whatever is or will be written for it is dead -> every thread has let go of the id:
//!             accounts settled, since one may have written for it meanwhile -> swept: the index points at nothing of it any more -> a control loop has read
//!             that it is gone -> free
//! Invariants: an id is free only when no thread writes for it and no slot leads to an item of it; what is left of it in the
//!             log then is garbage, whoever has the id
//! Cost:       removing is O(1) in the items; the sweep looks at every slot of the index once, some thousand per turn
//! Failure:    a thread that never announces an epoch keeps ids from being free, nothing else

use crate::account::unlink;
use crate::metrics::{Totals, count};
use crate::slot::Place;
use crate::store::Store;
use crate::sync::{Ordering, lock};
use crate::tenant::FLUSHED_FOR_EVER;
use crate::worker::Worker;
use std::ops::Range;
use std::sync::Arc;
use units::TenantId;

/// Buckets that one turn of the cleaner sweeps: some 16,000 items, about 2 ms (a guess between a long turn and many).
const BUCKETS_PER_TURN: u32 = 2_048;

/// Who has left.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    leaving: Vec<Leaving>,
    /// Ids that nobody has, and readings of control loops until which they were known.
    vacant: Vec<(TenantId, u64)>,
    /// Counters of tenants whose ids others have now: of the shared key space, and of those with one of their own.
    counted: [Totals; 2],
    /// Tenants that are there.
    pub(crate) present: u64,
    /// The next bucket to sweep.
    at: u32,
}

#[derive(Clone, Copy, Debug)]
struct Leaving {
    id: TenantId,
    /// Readings of control loops when it left.
    readings: u64,
    /// No thread writes for it once this epoch is past; none after that.
    epoch: Option<u64>,
}

impl Departures {
    /// An id that can be given again, off the list.
    pub(crate) fn free(&mut self, store: &Store) -> Option<TenantId> {
        let readings = store.readings.load(Ordering::Relaxed);
        // A loop that has not read since would take the new tenant for the old one.
        let at = self.vacant.iter().position(|(_, then)| readings == 0 || *then < readings)?;
        let (id, _) = self.vacant.swap_remove(at);
        // One that a client asked for while the tenant left.
        store.cancel_flush(id);
        store.leave_tiers(id);
        let own_space = store.tenant(id).has_own_space();
        self.counted[usize::from(own_space)].add(&store.totals(id));
        Some(id)
    }

    /// Takes those who have left a step further. Returns the buckets to sweep next; none if nobody waits for a sweep.
    fn next_sweep(&mut self, store: &Store) -> Option<Range<u32>> {
        for leaving in &mut self.leaving {
            store.tenant(leaving.id).forget_share();
            if leaving.epoch.is_some_and(|epoch| store.epochs.is_past(epoch)) {
                store.flush_below(leaving.id, || store.stamps.load(Ordering::Relaxed));
                leaving.epoch = None;
            }
        }
        let is_empty = |leaving: &Leaving| {
            let tenant = store.tenant(leaving.id);
            let left = tenant.stale.load(Ordering::Relaxed) + tenant.items.load(Ordering::Relaxed);
            leaving.epoch.is_none() && left == 0
        };
        for leaving in self.leaving.extract_if(.., |leaving| is_empty(leaving)) {
            self.vacant.push((leaving.id, leaving.readings));
        }
        if self.leaving.is_empty() {
            store.departing.store(0, Ordering::Relaxed);
        }
        if self.leaving.iter().all(|leaving| leaving.epoch.is_some()) {
            self.at = 0;
            return None;
        }
        let buckets = store.index.buckets();
        let from = if self.at < buckets { self.at } else { 0 };
        self.at = from.saturating_add(BUCKETS_PER_TURN).min(buckets);
        Some(from..self.at)
    }
}

impl Store {
    /// Removes a tenant: its items are dead at once, its share goes to the others with the next decision, its id is given
    /// again when nothing of it is left. Who routes keys must not route to it any more. Returns false for an id that
    /// nobody has.
    pub fn remove_tenant(&self, id: TenantId) -> bool {
        let mut adding = lock(&self.adding);
        if !self.is_present(id) {
            return false;
        }
        self.cancel_flush(id);
        self.tenant(id).leave();
        adding.present -= 1;
        // What a thread that does not know yet writes for it is dead from the start.
        self.flush_below(id, || FLUSHED_FOR_EVER);
        let readings = self.readings.load(Ordering::Relaxed);
        adding.leaving.push(Leaving { id, readings, epoch: Some(self.epochs.retire()) });
        self.departing.store(1, Ordering::Relaxed);
        true
    }

    /// Counters of all tenants that are there or have been, of the shared key space or of those with one of their own. Such sums
    /// never fall.
    #[must_use]
    pub fn totals_of_all(&self, own_space: bool) -> Totals {
        // Nobody's id becomes another's meanwhile.
        let adding = lock(&self.adding);
        let mut totals = adding.counted[usize::from(own_space)];
        for tenant in self.tenants().filter(|t| t.has_own_space() == own_space) {
            totals.add(&self.totals(tenant.id));
        }
        totals
    }

    /// Whether another tenant could be added now.
    #[must_use]
    pub fn has_free_tenant(&self) -> bool {
        let readings = self.readings.load(Ordering::Relaxed);
        let can_give = |(_, then): &(TenantId, u64)| readings == 0 || *then < readings;
        self.tenant_count() < self.tenants_max() || lock(&self.adding).vacant.iter().any(can_give)
    }
}

impl Worker {
    /// A turn of taking away what is left of removed tenants. Returns whether there is more to do at once.
    pub(crate) fn sweep_departed(&mut self) -> bool {
        let store = Arc::clone(&self.store);
        if store.departing.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let Some(buckets) = lock(&store.adding).next_sweep(&store) else { return false };
        for bucket in buckets {
            self.sweep_bucket(&store, bucket);
        }
        self.reader.quiesce();
        true
    }

    /// Removes the dead items of removed tenants from one bucket of the index.
    fn sweep_bucket(&self, store: &Store, bucket: u32) {
        let mut gone: [Option<Place>; 8] = [None; 8];
        let mut found = 0;
        store.index.each_in(bucket, |slot| {
            let view = store.log.view(&self.reader, slot.place());
            let is_departed = store.tenant(view.tenant()).is_gone() && store.is_flushed(slot.place(), &view);
            if is_departed && found < gone.len() {
                gone[found] = Some(slot.place());
                found += 1;
            }
        });
        for place in gone.into_iter().flatten() {
            let view = store.log.view(&self.reader, place);
            let hash = store.hash_of(&view);
            let locked = store.index.lock(hash);
            let Some(found) = locked.find(hash, |slot| slot.place() == place) else { continue };
            locked.remove(found);
            unlink(store, &self.counters, place, &view);
            drop(locked);
            count(&self.counters.of(view.tenant().index()).reclaimed);
            count(&self.counters.class(view.sizes().whole, view.own_space()).reclaimed);
        }
    }
}
